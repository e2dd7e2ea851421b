"""Corpora in Milvus: what goes wrong with servers, builds and other encoders, and what is said then."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from purlin.app.corpora import following, open_builds
from purlin.index import builds
from purlin.index.builds.manifests import read_manifest
from purlin.index.engines import fields, hosting, layout
from purlin.index.engines import milvus as connections
from purlin.index.engines.hosting import open_corpus
from purlin.index.engines.milvus import Connection, Milvus, connected
from purlin.index.engines.retrieval import MilvusDense, MilvusLexical
from purlin.index.engines.upload import TermWeights, upload
from purlin.index.errors import Damaged, EncoderMismatch, EngineFailed, InvalidInput, NotFound
from purlin.index.indexing.build import build
from purlin.index.indexing.builder import Options
from purlin.index.records import Document, Hit, Location, Passage, Span
from purlin.index.search.lexical.languages import ENGLISH
from purlin.index.sources import open_source
from tests.support.documents import source
from tests.support.files import write_tree
from tests.support.hash_encoder import HashEncoder
from tests.support.paths import ROOT
from tests.support.serving import numbered, problem, serving, until

COMPOSE = "docker-compose.milvus.yml"
TOKEN = "root:the-secret-of-tests"
TEXT = st.characters(exclude_categories=["Cs"])
NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False)


def build_numbered(
    home: Path, connection: Connection | None, count: int, name: str = "books"
) -> str:
    """Build a corpus of numbered documents, and return the build's name."""
    documents = [source("all", numbered(count))]
    build(home, name, "reference", documents, HashEncoder(), options=Options(engine=connection))
    return builds.current(home, name).name


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Connection:
    return Connection(str(tmp_path_factory.mktemp("milvus") / "lite.db"), TOKEN, timeout_s=60.0)


@pytest.fixture(scope="module")
def shared(connection: Connection, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with one corpus in Milvus, which no test changes."""
    home = tmp_path_factory.mktemp("home")
    build_numbered(home, connection, 12)
    return home


# ---- fields


@given(NUMBERS, NUMBERS)
def test_keys_sort_as_numbers_do(first: float, second: float) -> None:
    keys = fields._number_key(first), fields._number_key(second)
    assert (keys[0] < keys[1]) == (first < second)
    assert (keys[0] == keys[1]) == (first == second)


@given(st.text(TEXT, max_size=256), st.text(TEXT, max_size=15))
def test_keys_of_texts_sort_as_texts_do(stored: str, bound: str) -> None:
    keys = fields._key(stored), fields._key(bound)
    assert (keys[0] >= keys[1]) == (stored >= bound)
    assert (keys[0] <= keys[1]) == (stored <= bound)


@given(
    st.dictionaries(
        st.text(max_size=20),
        st.one_of(
            st.text(TEXT, max_size=20),
            st.integers(-(2**63), 2**63 - 1),
            st.floats(),
            st.booleans(),
            st.lists(st.text(TEXT), min_size=1, max_size=5),
        ),
        min_size=1,
        max_size=5,
    )
)
def test_an_expression_has_nothing_but_columns_digits_and_letters(conditions: Any) -> None:
    text = fields.expression(conditions, dict.fromkeys(conditions, True), {})
    words = text.replace('"', " ").translate(str.maketrans("()[],<>=", " " * 8)).split()
    names = {"array_contains_any", fields.VALUES, fields.RANGES, "and", "or"}
    for word in words:
        assert (
            word in names or word.lstrip("-").isdigit() or set(word) <= set("0123456789abcdefnotu")
        )


def test_long_lists_and_long_bounds_are_refused_in_ranges() -> None:
    with pytest.raises(InvalidInput, match="lists of up to 100 values") as refused:
        fields.expression({"tags": {"gte": "a"}}, {"tags": False}, {"tags": 100})
    assert refused.value.field == "filter.tags"
    with pytest.raises(InvalidInput, match="A bound has 70 bytes"):
        fields.expression({"title": {"lte": "x" * 70}}, {"title": False}, {})


def test_documents_are_unpacked_as_they_were() -> None:
    document = Document(
        "a::b", "code", "t\0 ⟂", "body " * 30_000, "s", ("x", "y"), Location("a", 1, 2, "u"),
        {"n": 2**60, "f": 0.1, "b": True, "l": ("p", "q")}, (Span(1, 2),),
    )  # fmt: skip
    passages = (Passage("a::b", 0, 0, 5, "context"), Passage("a::b", 1, 5, 9))
    parts = list(layout.chunks(layout.pack(document, passages)))
    assert len(parts) > 1
    assert all(len(part.encode()) <= layout.CHUNK_BYTES for part in parts)
    assert layout.unpack("".join(parts), "code") == (document, passages)


@given(st.from_regex(r"[a-z0-9][a-z0-9_-]{0,20}", fullmatch=True))
def test_names_of_collections_lead_back_to_the_corpus(name: str) -> None:
    collection = layout.new_collection(name)
    assert layout.corpus_of(collection) == name
    assert layout.corpus_of(layout.records_of(collection)) is None
    assert set(collection) <= set("abcdefghijklmnopqrstuvwxyzH0123456789_")


# ---- connections


@pytest.mark.parametrize("address", ["", "milvus:19530", "ftp://host", "http://", "http://h:x"])
def test_addresses_that_are_none_are_refused(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PURLIN_MILVUS", raising=False)
    with pytest.raises(InvalidInput, match="must be an address such as"):
        Connection.of(address)


def test_a_password_in_the_address_is_refused_and_not_repeated() -> None:
    with pytest.raises(InvalidInput, match="PURLIN_MILVUS_TOKEN") as refused:
        Connection.of("http://root:hunter2@localhost:19530")
    assert "hunter2" not in refused.value.message


def test_the_environment_names_address_secret_and_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PURLIN_MILVUS", "http://elsewhere:1")
    monkeypatch.setenv("PURLIN_MILVUS_TOKEN", TOKEN)
    monkeypatch.setenv("PURLIN_MILVUS_TIMEOUT_S", "2.5")
    monkeypatch.setenv("PURLIN_MILVUS_FALLBACK", "1")
    connection = Connection.of(recorded="http://recorded:1")
    assert connection == Connection("http://elsewhere:1", TOKEN, 2.5, fallback=True)
    assert TOKEN not in repr(connection)
    assert Connection.of("http://given:1").address == "http://given:1"


def test_a_server_that_is_down_is_named() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{closed.getsockname()[1]}"
    milvus = Milvus(Connection(address, TOKEN, timeout_s=1.0))
    with pytest.raises(EngineFailed, match=f"Milvus at {address}") as failed:
        milvus.call("list_collections")
    assert TOKEN not in failed.value.message


def test_a_server_that_never_answers_is_given_up() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(EngineFailed, match=f"Milvus at {address} (did not answer|cannot be)"):
            Milvus(Connection(address, TOKEN, timeout_s=0.5)).call("list_collections")


def test_an_old_server_is_refused(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    milvus = Milvus(connection)
    monkeypatch.setattr(milvus, "call", lambda *_: "v2.2.16")
    with pytest.raises(EngineFailed, match=r"version v2\.2\.16; Purlin needs 2\.3"):
        _ = milvus.version
    monkeypatch.setattr(milvus, "call", lambda *_: "v2.3.5-lite")
    assert not milvus.has_sparse


WITHOUT_PYMILVUS = """
import importlib, pkgutil, sys
sys.modules["pymilvus"] = None
import purlin.app, purlin.cli, purlin.index
for package in (purlin.app, purlin.cli, purlin.index):
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
from purlin.index.engines.milvus import Connection, Milvus
try:
    Milvus(Connection("lite.db"))
except purlin.index.errors.EngineFailed as error:
    print(error.message)
"""


def test_all_but_corpora_in_milvus_works_without_pymilvus() -> None:
    command = [sys.executable, "-c", WITHOUT_PYMILVUS]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert output == "Corpora in Milvus need pymilvus: pip install 'purlin-search[milvus]'.\n"


@contextmanager
def lite_server(directory: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """Run Milvus Lite in a process of its own."""
    program = (
        "from milvus_lite.adapter.grpc.server import run_server\n"
        f"run_server(data_dir={str(directory)!r}, host='127.0.0.1', port={port})"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_requests_get_503_while_the_server_is_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
    connection = Connection(f"http://127.0.0.1:{port}", timeout_s=60.0)
    monkeypatch.setattr(open_builds, "ENGINE_RETRY_S", 0.5)
    data, home = tmp_path / "data.db", tmp_path / "home"
    search = {"corpus": "books", "query": "number 3"}

    with lite_server(data, port):
        until(lambda: _answers(connection))
        build_numbered(home, connection, 5)
        with serving(home) as client:
            assert client.post("/search", json=search).status_code == 200

    # Soon given up where that is tested.
    monkeypatch.setenv("PURLIN_MILVUS_TIMEOUT_S", "2")
    with lite_server(data, port) as process, serving(home) as client:
        until(lambda: client.post("/search", json=search).status_code == 200)
        os.kill(process.pid, signal.SIGSTOP)
        response = client.post("/search", json=search)
        assert response.headers["retry-after"] == "5"
        content = problem(response, 503)
        assert content["type"] == "urn:purlin:problem:engine-failed"
        assert connection.address in content["detail"]
        os.kill(process.pid, signal.SIGCONT)
        until(lambda: client.post("/search", json=search).status_code == 200)
        process.kill()
        process.wait()
        for _ in range(2):
            response = client.post("/search", json=search)
            assert connection.address in problem(response, 503)["detail"]
            assert response.headers["retry-after"] == "5"


def _answers(connection: Connection) -> bool:
    time.sleep(0.3)
    try:
        Milvus(connection).call("list_collections")
    except EngineFailed:
        return False
    return True


# ---- one retriever fails


@pytest.mark.parametrize("broken", ["dense", "lexical"])
def test_the_other_retriever_answers_if_that_is_wanted(
    shared: Path, reader_directory: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    def fail(*_: object) -> None:
        raise EngineFailed("Milvus is busy.")

    retriever = {"dense": MilvusDense, "lexical": MilvusLexical}[broken]
    other = {"dense": "lexical", "lexical": "dense"}[broken]
    monkeypatch.setattr(retriever, "search", fail)
    search = {"corpus": "books", "query": "number 3"}
    question = {"corpus": "books", "question": "Which number is it?"}
    warning = f"Degraded: these hits are those of {other} search alone. Milvus is busy."
    with serving(shared, reader=reader_directory) as client:
        assert problem(client.post("/search", json=search), 503)["detail"] == "Milvus is busy."
        assert problem(client.post("/qa", json=question), 503)["detail"] == "Milvus is busy."
    monkeypatch.setenv("PURLIN_MILVUS_FALLBACK", "1")
    with serving(shared, reader=reader_directory) as client:
        reply = client.post("/search", json=search).json()
        assert reply["warning"] == warning
        answered = client.post("/qa", json=question).json()
        assert answered["warning"] == warning
        assert answered["answers"]
        assert reply["hits"][0]["scores"].keys() == {other}
        alone = client.post("/search", json=search | {"mode": broken})
        assert problem(alone, 503)["detail"] == "Milvus is busy."
        several = client.post("/search", json=search | {"corpus": ["books"]}).json()
        assert several["warning"].startswith("Degraded")


def test_an_engine_without_sparse_vectors_answers_from_vectors_alone(
    connection: Connection,
    tmp_path: Path,
    reader_directory: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Milvus, "has_sparse", False)
    build_numbered(tmp_path, connection, 3, "wordless")
    requests = {
        "/search": {"corpus": "wordless", "query": "number 1"},
        "/qa": {"corpus": "wordless", "question": "Which number is it?"},
    }
    with serving(tmp_path, reader=reader_directory) as client:
        for path, body in requests.items():
            reply = client.post(path, json=body).json()
            assert "those of dense search alone" in reply["warning"]
            assert reply["hits"]
        alone = client.post("/search", json=requests["/search"] | {"mode": "lexical"})
        assert "has no sparse vectors" in problem(alone, 503)["detail"]
    hosting.delete(tmp_path, "wordless")


# ---- builds


def test_compose_passes_every_variable_on() -> None:
    variables = {
        getattr(connections, name) for name in dir(connections) if name.endswith("_VARIABLE")
    }
    root = ROOT
    compose, page = ((root / name).read_text() for name in (COMPOSE, "docs/milvus.md"))
    assert len(variables) == 4
    for variable in variables:
        assert f"{variable}: ${{{variable}:-" in compose
        assert f"| `{variable}` |" in page
    assert COMPOSE in page


def test_the_secret_is_nowhere_on_disk(shared: Path) -> None:
    files = [path for path in shared.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} == {".json", ".npy", ""}
    assert not any(TOKEN.encode() in path.read_bytes() for path in files)
    assert sum(path.stat().st_size for path in files) < 20_000


def test_another_encoders_vectors_are_refused(shared: Path, connection: Connection) -> None:
    directory = builds.current(shared, "books")
    manifest = read_manifest(directory)
    milvus, name = connected(connection), manifest.engine["collection"]
    described = hosting._description(milvus, name)
    other = json.loads(described["manifest"])
    other["encoder"] = other["encoder"] | {"name": "other", "fingerprint": "f" * 64}
    hosting._describe(milvus, name, described | {"manifest": json.dumps(other)})
    with pytest.raises(EncoderMismatch, match=r"vectors of encoder 'other' \(ffffffffffff\)"):
        open_corpus(directory, HashEncoder())
    hosting._describe(milvus, name, described)
    open_corpus(directory, HashEncoder()).close()


@pytest.mark.parametrize("exact", [30_000, 5])
def test_a_build_says_what_the_index_in_milvus_finds(
    connection: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exact: int
) -> None:
    monkeypatch.setattr(layout, "EXACT_PASSAGES", exact)
    build_numbered(tmp_path, connection, 12, "measured")
    with serving(tmp_path) as client:
        until(lambda: client.get("/corpora/measured").json()["state"] == "serving")
        reply = client.get("/corpora/measured").json()
    index = reply["dense"]
    assert index["index"] == ("FLAT" if exact > 12 else "HNSW")
    assert index.get("M") == (None if exact > 12 else 16)
    assert index["recall@10"] == index["recall@100"] == 1.0
    assert index["ms_per_query"] > 0
    assert "bytes_per_passage" not in index
    assert reply["measures"] == {"dense recall@100": 1.0}
    hosting.delete(tmp_path, "measured")


def test_a_build_that_fails_leaves_nothing(
    connection: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(layout, "index_passages", interrupt)
    with pytest.raises(KeyboardInterrupt):
        build_numbered(tmp_path, connection, 3, "failed")
    assert hosting._collections(connected(connection), "failed") == []
    assert builds.corpora(tmp_path) == []


def test_a_killed_build_is_removed_by_the_next(connection: Connection, tmp_path: Path) -> None:
    milvus = connected(connection)
    killed = layout.new_collection("again")
    document = numbered(1)[0]
    vectors = HashEncoder().encode([document.body], role="passage")
    uploaded = [(document, [Passage("n0", 0, 0, 4)], vectors)]
    upload(milvus, killed, 64, uploaded, TermWeights(ENGLISH, mean_length=1.0))
    assert hosting.hosted(connection).count("again") == 0
    with pytest.raises(NotFound, match="has no corpus 'again'"):
        hosting.attach(tmp_path, "again", connection)

    build_numbered(tmp_path, connection, 3, "again")
    kept = hosting._collections(milvus, "again")
    assert killed not in kept
    assert len(kept) == 1
    hosting.delete(tmp_path, "again")
    assert hosting._collections(milvus, "again") == []


def test_a_catalogue_is_searched_in_its_language(connection: Connection, tmp_path: Path) -> None:
    rows = [
        "A1;Hausschuh Filz;Für kalte Füße, auch in großen Größen und mit einer Sohle",
        "A2;Wasserkocher;Er kocht das Wasser, das nicht zu kalt ist, und schaltet sich ab",
    ]
    path = tmp_path / "a.csv"
    path.write_text("\n".join(["sku;name;description", *rows]), encoding="utf-8")

    def hits_of(engine: Connection | None) -> list[tuple[Hit, set[str]]]:
        home = tmp_path / ("local" if engine is None else "milvus")
        sources = open_source("product", [path])
        build(home, "schuhe", "product", sources, HashEncoder(), options=Options(engine=engine))
        with closing(open_corpus(builds.current(home, "schuhe"), HashEncoder())) as corpus:
            hits = corpus.search("hausschuhe für den fuß", mode="lexical", explain=True).hits
        explanations = [hit.explanation or {} for hit in hits]
        return [
            (replace(hit, explanation=None), set(explanation["terms"]))
            for hit, explanation in zip(hits, explanations, strict=True)
        ]

    [(hit, terms)] = hits_of(connection)
    assert (hit.document_id, terms) == ("A1", {"hausschuh", "fuss"})
    assert hits_of(None) == [(hit, terms)]


def test_one_more_of_a_kind_is_found_as_on_this_machine(
    connection: Connection, tmp_path: Path
) -> None:
    names = ("alsa", "jack", "pulse")
    listed = "".join(f"    {name}.Own,\n" for name in names)
    body = "(Codec):\n    def encode(self, text):\n        return text\n"
    files = {
        "codecs/base.py": "class Codec:\n    def encode(self, text):\n        return None\n",
        "codecs/table.py": f"ALL = [\n{listed}    None,\n]\n",
        "menu.py": "def add_new_codec(menu):\n    menu.show()\n",
        **{f"codecs/{name}.py": f"class Own{body}" for name in names},
    }
    write_tree(tmp_path / "src", files)

    def titles_of(engine: Connection | None, query: str) -> list[str]:
        home = tmp_path / f"home of {'one' if engine is None else 'another'}"
        options = Options(engine=engine)
        build(
            home, "music", "code", list(open_source("code", [tmp_path / "src"])), HashEncoder(),
            options=options,
        )  # fmt: skip
        with closing(open_corpus(builds.current(home, "music"), HashEncoder())) as corpus:
            return [hit.title for hit in corpus.search(query, k=3).hits]

    for query in ("add a new codec", "add another colour", "what is the default codec"):
        assert titles_of(connection, query) == titles_of(None, query)
    assert titles_of(connection, "add a new codec")[:2] == ["Codec", "ALL"]


@pytest.mark.parametrize("prefix", ["", "lib.py::"], ids=["records", "in a file"])
def test_the_length_of_code_counts_as_on_this_machine(
    connection: Connection, tmp_path: Path, prefix: str
) -> None:
    short = "def upload_url(): return 'upload url'"
    long = "def retry_upload():\n    upload(url)\n" + "    wait()\n" * 40
    location = Location("lib.py", 1, 9)
    documents = [
        Document(f"{prefix}{title}", "code", title, body, location=location)
        for title, body in (("upload_url", short), ("retry_upload", long))
    ]

    def hits_of(engine: Connection | None) -> list[Hit]:
        home = tmp_path / ("local" if engine is None else "milvus")
        options = Options(engine=engine)
        build(home, "src", "code", [source("lib.py", documents)], HashEncoder(), options=options)
        with closing(open_corpus(builds.current(home, "src"), HashEncoder())) as corpus:
            return list(corpus.search("how is the upload of an url tried again").hits)

    hits, expected = hits_of(connection), hits_of(None)
    assert {hit.title for hit in hits} == {"retry_upload", "upload_url"}
    assert [hit.title for hit in hits] == [hit.title for hit in expected]
    assert [hit.score for hit in hits] == pytest.approx([hit.score for hit in expected], abs=1e-3)


def test_only_the_last_builds_are_kept(
    connection: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(builds, "KEPT_BUILDS", 1)
    build_numbered(tmp_path, connection, 2, "kept")
    newest = build_numbered(tmp_path, connection, 3, "kept")
    (collection,) = hosting._collections(connected(connection), "kept")
    manifest = read_manifest(builds.current(tmp_path, "kept"))
    assert manifest.engine["collection"] == collection
    assert builds.builds(tmp_path, "kept") == [newest]


def test_a_document_that_milvus_cannot_hold_is_named(
    connection: Connection, tmp_path: Path
) -> None:
    tags = tuple(str(number) for number in range(5000))
    document = Document("many", "reference", "Many", "Many tags.", fields={"tags": tags})
    files, options = [source("all", [document])], Options(engine=connection)
    with pytest.raises(InvalidInput, match=r"'many' has 5,000 values of fields; .* takes 4,096"):
        build(tmp_path, "many", "reference", files, HashEncoder(), options=options)
    assert hosting._collections(connected(connection), "many") == []


# ---- other servers


def test_another_server_attaches_and_follows(
    shared: Path, connection: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "INTERVAL_S", 0.05)
    assert "books" in hosting.hosted(connection)
    with serving(tmp_path, milvus=connection.address) as client:
        until(lambda: builds.exists(tmp_path, "books"))
        reply = client.post("/search", json={"corpus": "books", "query": "number 3"}).json()
        with closing(open_corpus(builds.current(shared, "books"), HashEncoder())) as corpus:
            expected = corpus.search("number 3")
        assert [hit["id"] for hit in reply["hits"]] == [hit.id for hit in expected.hits]
        assert reply["build"] == builds.current(shared, "books").name


def test_what_another_server_deletes_is_gone_here(
    connection: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "INTERVAL_S", 0.05)
    elsewhere, here = tmp_path / "elsewhere", tmp_path / "here"
    build_numbered(elsewhere, connection, 3, "passing")
    build_numbered(here, None, 3, "own")
    with serving(here, milvus=connection.address) as client:
        until(lambda: client.get("/corpora/passing").status_code == 200)
        hosting.delete(elsewhere, "passing")
        until(lambda: client.get("/corpora/passing").status_code == 404)
        until(lambda: not (here / "corpora" / "passing").exists())
        assert client.get("/corpora/own").status_code == 200

    # It is of this machine, whatever Milvus has.
    assert hosting.detach(here, "own", connection)
    assert builds.exists(here, "own")


def test_passages_that_milvus_lacks_are_told(shared: Path) -> None:
    with closing(open_corpus(builds.current(shared, "books"), HashEncoder())) as corpus:
        passages = corpus._documents
        [present] = passages.rows_named("n3").tolist()
        assert passages.lengths(np.array([present, present])).min() > 0
        with pytest.raises(Damaged, match="lacks rows that its build had; build the corpus again"):
            passages.lengths(np.array([present, 2**40]))


def test_what_was_altered_in_milvus_is_not_attached(
    shared: Path, connection: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def alter(milvus: Milvus, name: str) -> dict[str, Any]:
        described = description(milvus, name)
        return described | {"manifest": described["manifest"].replace("hash", "HASH")}

    description = hosting._description
    monkeypatch.setattr(hosting, "_description", alter)
    with pytest.raises(Damaged, match="was altered"):
        hosting.attach(tmp_path, "books", connection)
    assert builds.corpora(tmp_path) == []


def test_a_corpus_that_is_here_is_not_replaced(
    shared: Path, connection: Connection, tmp_path: Path
) -> None:
    build_numbered(tmp_path, None, 2)
    with pytest.raises(InvalidInput, match="whose documents are on this machine"):
        hosting.attach(tmp_path, "books", connection)
