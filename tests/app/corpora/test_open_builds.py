from __future__ import annotations

import gc
import logging
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from purlin.app.corpora import open_builds, open_corpora
from purlin.app.corpora.open_corpora import OpenCorpora
from purlin.app.encoding import Encoders
from purlin.app.errors import Opening
from purlin.index import builds
from purlin.index.encoder import load_encoder
from purlin.index.encoder.static import VECTORS
from purlin.index.engines.hosting import open_corpus
from purlin.index.errors import Damaged, EncoderMismatch, InvalidInput, NotFound
from purlin.index.indexing.build import build
from purlin.index.records import Document
from purlin.index.search.corpus import Corpus
from purlin.index.storage import blocks
from tests.support.documents import source
from tests.support.ensemble_files import write_ensemble
from tests.support.hash_encoder import HashEncoder
from tests.support.privileges import unprivileged
from tests.support.serving import FUNCTIONS, make, numbered, problem, ready, serving, until
from tests.support.static_files import SELF_CHECK_WORDS, write_static


@pytest.fixture(autouse=True)
def large_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read files from disk as if they were large."""
    monkeypatch.setattr(blocks, "MOST_IN_MEMORY", -1)


class OtherEncoder(HashEncoder):
    name = "other"
    fingerprint = "other-64"


@pytest.fixture
def served(tmp_path: Path, encoder: HashEncoder) -> Iterator[OpenCorpora]:
    make(tmp_path, "code", FUNCTIONS, encoder=encoder)
    with opened(tmp_path, encoder) as corpora:
        corpora.open_all()
        yield corpora


def opened(home: Path, encoder: HashEncoder, *others: Path) -> closing[OpenCorpora]:
    """Corpora that are closed at the end of a block; `others` are encoders beside the server's own."""
    return closing(OpenCorpora(home, Encoders(encoder, others).of_build, timeout_s=60))


def build_of(corpora: OpenCorpora, name: str = "code") -> str:
    with corpora.lease(name) as corpus:
        assert corpus.search("number sort").hits
        return corpus.build


def damage(build: Path, file: str = "documents.bin") -> None:
    """Change a byte of a file: documents are read when a request needs them, arrays at opening."""
    path = build / "base" / file
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_existing_corpora_are_opened(served: OpenCorpora) -> None:
    until(served.ready)
    (status,) = served.statuses()
    assert (status.name, status.state, status.problem) == ("code", "serving", None)
    assert status.build == build_of(served)


def test_new_build_is_served(served: OpenCorpora, tmp_path: Path) -> None:
    first = build_of(served)
    second = make(tmp_path, "code", numbered(5)).name
    until(lambda: build_of(served) == second)
    builds.activate(tmp_path, "code", first)
    until(lambda: build_of(served) == first)


def test_the_log_tells_an_interim_build_from_the_final_one(
    tmp_path: Path, encoder: HashEncoder, caplog: pytest.LogCaptureFixture
) -> None:
    directory = write_static(tmp_path / "static", SELF_CHECK_WORDS)
    fast = load_encoder(directory)
    many = [source("f", numbered(600))]
    interim: list[str] = []

    def look(stage: str, done: int, total: int | None) -> None:
        if stage == "encode" and not interim:
            interim.append(build_of(corpora))

    caplog.set_level("INFO", "purlin.corpora")
    with opened(tmp_path, encoder, directory) as corpora:
        build(tmp_path, "code", "code", many, encoder, interim=fast, progress=look)
        until(lambda: build_of(corpora) not in interim)
        final = build_of(corpora)
    assert [record.message for record in caplog.records if record.name == "purlin.corpora"] == [
        f"code is served from interim build {interim[0]}, vectors by tiny-static",
        f"code is served from build {final}, vectors by hash",
    ]


def test_old_build_closes_after_its_last_use(served: OpenCorpora, tmp_path: Path) -> None:
    with served.lease("code") as old:
        make(tmp_path, "code", numbered(5))
        until(lambda: build_of(served) != old.build)
        assert old.search("sort numbers").hits[0].document_id == FUNCTIONS[1].id
    with pytest.raises(Exception, match="closed"):
        old.document(FUNCTIONS[1].id)


def test_corpora_may_come_and_go(served: OpenCorpora, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="Corpora: code"):
        build_of(served, "more")
    make(tmp_path, "more", numbered(5))
    build_of(served, "more")
    assert [status.name for status in served.statuses()] == ["code", "more"]
    builds.delete(tmp_path, "code")
    assert [status.name for status in served.statuses()] == ["more"]
    with pytest.raises(NotFound, match="Corpora: more"):
        build_of(served)
    make(tmp_path, "code", numbered(3))
    assert build_of(served)


def test_deleted_corpus_serves_running_requests(served: OpenCorpora, tmp_path: Path) -> None:
    with served.lease("code") as corpus:
        builds.delete(tmp_path, "code")
        assert served.statuses() == []
        assert corpus.document(FUNCTIONS[0].id) == corpus.document(FUNCTIONS[0].id)


def test_name_cannot_be_a_path(served: OpenCorpora) -> None:
    with pytest.raises(InvalidInput):
        build_of(served, "../corpora/code")


def test_damaged_build_is_refused(
    served: OpenCorpora, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = build_of(served)
    damaged = make(tmp_path, "code", numbered(5))
    damage(damaged)
    # The first request that reads the damaged block is refused; the build is verified then.
    until(lambda: served.status("code").build == damaged.name)
    with pytest.raises(Damaged, match=r"documents\.bin was altered"):
        build_of(served)
    until(lambda: build_of(served) == first)
    status = served.status("code")
    assert (status.state, status.build) == ("serving", first)
    assert f"{damaged.name}/base/documents.bin was altered" in str(status.problem)
    for _ in range(5):
        assert build_of(served) == first
    assert [record.message for record in caplog.records if record.name == "purlin.corpora"] == [
        status.problem
    ]
    third = make(tmp_path, "code", numbered(6)).name
    until(lambda: build_of(served) == third)
    assert served.status("code").problem is None


def test_build_altered_in_use_falls_back(
    tmp_path: Path, encoder: HashEncoder, caplog: pytest.LogCaptureFixture
) -> None:
    # Builds of the same documents would share the file that is damaged.
    first = make(tmp_path, "code", numbered(5), encoder=encoder)
    second = make(tmp_path, "code", FUNCTIONS, encoder=encoder)
    with opened(tmp_path, encoder) as corpora:
        assert build_of(corpora) == second.name
        damage(second)
        with pytest.raises(Damaged, match=r"documents\.bin was altered"):
            build_of(corpora)
        assert build_of(corpora) == first.name
        assert f"{second.name}/base/documents.bin was altered" in str(
            corpora.status("code").problem
        )
        damage(first)
        with pytest.raises(Damaged, match=first.name):
            build_of(corpora)
        with pytest.raises(Damaged, match=second.name):
            build_of(corpora)
        assert corpora.status("code").state == "refused"
    assert len([record for record in caplog.records if record.levelno == logging.ERROR]) == 3


def test_altered_build_is_verified_whole_before_it_serves_again(
    tmp_path: Path, encoder: HashEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = make(tmp_path, "code", numbered(5), encoder=encoder)
    # The damaged block is one that opening the build does not read.
    wide = [replace(document, fields={"padding": "x" * 9000}) for document in numbered(9)]
    second = make(tmp_path, "code", wide, encoder=encoder)
    with opened(tmp_path, encoder) as corpora:
        assert build_of(corpora) == second.name
        sound = (second / "base" / "documents.bin").read_bytes()
        damage(second)
        with closing(Corpus.load(second, encoder)):
            pass
        with pytest.raises(Damaged, match=r"documents\.bin was altered"):
            build_of(corpora)
        for _ in range(3):
            assert build_of(corpora) == first.name

        (second / "base" / "documents.bin").write_bytes(sound)
        monkeypatch.setattr(open_builds, "RETRY_S", 0.0)
        until(lambda: build_of(corpora) == second.name)


def test_touched_build_stays_in_use(served: OpenCorpora, tmp_path: Path) -> None:
    build = build_of(served)
    os.utime(builds.current(tmp_path, "code") / "base" / "documents.bin")
    assert build_of(served) == build
    assert served.status("code").problem is None


@pytest.mark.parametrize("harm", ["truncate", "remove", "current"])
def test_restart_falls_back_to_the_last_sound_build(
    tmp_path: Path, encoder: HashEncoder, harm: str
) -> None:
    first = make(tmp_path, "code", FUNCTIONS, encoder=encoder)
    second = make(tmp_path, "code", numbered(5), encoder=encoder)
    if harm == "truncate":
        os.truncate(second / "base" / "vectors.npy", 100)
    elif harm == "remove":
        shutil.rmtree(second / "base" / "lexical")
    else:
        (second.parent / "CURRENT").write_text("no such build\n")
        damage(second, "record_ends.npy")
    with opened(tmp_path, encoder) as corpora:
        assert build_of(corpora) == first.name
        assert corpora.status("code").problem


def test_a_directory_that_may_not_be_read_is_refused(encoder: HashEncoder) -> None:
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        directory = make(home, "code", FUNCTIONS, encoder=encoder).parent
        # Whatever the umask is, the directories above may be read.
        home.chmod(0o755)
        directory.parent.chmod(0o755)
        directory.chmod(0)
        with opened(home, encoder) as corpora, unprivileged():
            for _ in range(2):
                with pytest.raises(Damaged, match="give this user read permission"):
                    build_of(corpora)
            assert [status.state for status in corpora.statuses()] == ["refused"]
        directory.chmod(0o755)


def test_fallback_skips_newer_builds(tmp_path: Path, encoder: HashEncoder) -> None:
    first = make(tmp_path, "code", FUNCTIONS, encoder=encoder)
    make(tmp_path, "code", numbered(5), encoder=encoder)
    builds.activate(tmp_path, "code", first.name)
    damage(first)
    with opened(tmp_path, encoder) as corpora:
        with pytest.raises(Damaged, match=r"documents\.bin was altered"):
            build_of(corpora)
        assert corpora.status("code").state == "refused"


def test_repaired_build_is_retried(
    tmp_path: Path, encoder: HashEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = make(tmp_path, "code", FUNCTIONS, encoder=encoder)
    sound = (build / "base" / "record_ends.npy").read_bytes()
    damage(build, "record_ends.npy")
    with opened(tmp_path, encoder) as corpora:
        with pytest.raises(Damaged):
            build_of(corpora)
        (build / "base" / "record_ends.npy").write_bytes(sound)
        with pytest.raises(Damaged):
            build_of(corpora)
        monkeypatch.setattr(open_builds, "RETRY_S", 0.0)
        assert build_of(corpora) == build.name


def test_corpus_of_another_encoder_is_refused(tmp_path: Path) -> None:
    make(tmp_path, "code", FUNCTIONS)
    with opened(tmp_path, OtherEncoder()) as corpora:
        with pytest.raises(EncoderMismatch, match="'hash'"):
            build_of(corpora)


def test_corpus_being_opened_answers_503(
    tmp_path: Path, encoder: HashEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path, "code", FUNCTIONS, encoder=encoder)
    go_on = threading.Event()

    def open_late(*arguments: Any) -> Corpus:
        go_on.wait(60)
        return open_corpus(*arguments)

    monkeypatch.setattr(open_corpora, "open_corpus", open_late)
    with serving(tmp_path, encoder, open_timeout_s=0.05) as client:
        assert client.get("/livez").status_code == 200
        assert problem(client.get("/readyz"), 503)["type"] == "urn:purlin:problem:opening"
        response = client.post("/search", json={"query": "sort", "corpus": "code"})
        assert "'code' is still being opened" in problem(response, 503)["detail"]
        assert response.headers["retry-after"] == "1"
        assert client.get("/corpora/code").json() == {"name": "code", "state": "opening"}
        go_on.set()
        until(lambda: client.get("/readyz").status_code == 200)
        assert client.post("/search", json={"query": "sort", "corpus": "code"}).status_code == 200


def test_refused_corpora_do_not_block_others(tmp_path: Path, encoder: HashEncoder) -> None:
    damage(make(tmp_path, "broken", FUNCTIONS, encoder=encoder), "record_ends.npy")
    make(tmp_path, "code", FUNCTIONS, encoder=encoder)
    make(tmp_path, "foreign", FUNCTIONS, encoder=OtherEncoder())
    with ready(tmp_path, encoder) as client:
        states = {each["name"]: each["state"] for each in client.get("/corpora").json()["corpora"]}
        assert states == {"broken": "refused", "code": "serving", "foreign": "refused"}
        ask = {"query": "sort"}
        assert client.post("/search", json=ask | {"corpus": "code"}).status_code == 200
        broken = problem(client.post("/search", json=ask | {"corpus": "broken"}), 503)
        assert broken["type"] == "urn:purlin:problem:damaged"
        assert "record_ends.npy" in broken["detail"]
        foreign = problem(client.post("/search", json=ask | {"corpus": "foreign"}), 503)
        assert foreign["type"] == "urn:purlin:problem:encoder-mismatch"
        assert client.get("/corpora/broken").json()["problem"] == broken["detail"]


def test_no_query_fails_during_activation(tmp_path: Path, encoder: HashEncoder) -> None:
    def documents(version: int) -> list[Document]:
        return numbered(20 + version)

    make(tmp_path, "code", documents(0), "reference", encoder=encoder)
    served_builds: set[str] = set()
    stop = threading.Event()

    def ask() -> int:
        count = 0
        while not stop.is_set():
            response = client.post("/search", json={"query": "number", "corpus": "code", "k": 1})
            assert response.status_code == 200, response.text
            assert len(response.json()["hits"]) == 1
            served_builds.add(response.json()["build"])
            count += 1
        return count

    with serving(tmp_path, encoder) as client, ThreadPoolExecutor(3) as clients:
        asking = [clients.submit(ask) for _ in range(3)]
        names = [
            make(tmp_path, "code", documents(version), "reference", encoder=encoder).name
            for version in range(1, 13)
        ]
        until(lambda: names[-1] in served_builds)
        stop.set()
        assert min(future.result() for future in asking) > 10
    assert len(served_builds) > 2


def test_activation_leaks_no_files(served: OpenCorpora, tmp_path: Path) -> None:
    def open_files() -> int:
        gc.collect()
        return len(list(Path("/proc/self/fd").iterdir()))

    names = [make(tmp_path, "code", numbered(5 + n)).name for n in range(2)]
    until(lambda: build_of(served) == names[1])
    before = open_files()
    for turn in range(20):
        builds.activate(tmp_path, "code", names[turn % 2])
        until(lambda: build_of(served) == names[turn % 2])  # noqa: B023 - called at once
    assert open_files() <= before + 1


def test_unexpected_error_is_logged_as_a_refusal(
    tmp_path: Path,
    encoder: HashEncoder,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("unforeseen")

    make(tmp_path, "code", FUNCTIONS, encoder=encoder)
    monkeypatch.setattr(open_corpora, "read_manifest", fail)
    with opened(tmp_path, encoder) as corpora:
        with pytest.raises(Damaged, match="ZeroDivisionError"):
            build_of(corpora)
        assert any(record.exc_info for record in caplog.records if record.levelno == logging.ERROR)


def test_closed_corpora_open_nothing(served: OpenCorpora) -> None:
    served.close()
    with pytest.raises(Opening):
        build_of(served)


def test_each_corpus_has_the_encoder_of_its_build(tmp_path: Path, encoder: HashEncoder) -> None:
    directory = write_static(tmp_path / "static")
    static = load_encoder(directory)
    make(tmp_path, "code", FUNCTIONS, encoder=encoder)
    make(tmp_path, "quick", FUNCTIONS, encoder=static)
    encoders = Encoders(encoder, [tmp_path / "none", directory])
    with closing(OpenCorpora(tmp_path, encoders.of_build, timeout_s=60)) as corpora:
        with corpora.lease("code") as code, corpora.lease("quick") as quick:
            assert (code.encoder.name, quick.encoder.name) == ("hash", "tiny-static")
            expected = static.encode(["file name"], role="query")
            np.testing.assert_array_equal(
                quick.encoder.encode(["file name"], role="query"), expected
            )

        # The better vectors take over.
        make(tmp_path, "quick", FUNCTIONS, encoder=encoder)
        until(lambda: encoder_of(corpora, "quick") == "hash")
        assert encoders.of_build({"name": "hash", "fingerprint": "hash-64"}) is encoders.own


def test_an_ensemble_takes_the_open_encoder_as_its_part(tmp_path: Path) -> None:
    directory = write_ensemble(tmp_path / "joint")
    ensemble, wide = load_encoder(directory), load_encoder(tmp_path / "wide")
    encoders = Encoders(wide, [directory])
    # What is open need not be read again.
    (tmp_path / "wide" / VECTORS).unlink()

    made_by = {"name": ensemble.name, "fingerprint": ensemble.fingerprint}
    maker = encoders.of_build(made_by)
    assert maker.fingerprint == ensemble.fingerprint
    np.testing.assert_array_equal(
        maker.encode(["file name"], role="query"), ensemble.encode(["file name"], role="query")
    )


def encoder_of(corpora: OpenCorpora, name: str) -> str:
    with corpora.lease(name) as corpus:
        return corpus.encoder.name


def test_segments_of_the_build_before_stay_in_memory(tmp_path: Path, encoder: HashEncoder) -> None:
    def index(last: str) -> None:
        documents = numbered(1_000)
        files = [source(f"f{number}", documents[number::50]) for number in range(50)]
        files.append(source("last", [Document("x", "reference", "x", last)]))
        build(tmp_path, "docs", "reference", files, encoder)

    index("one")
    with opened(tmp_path, encoder) as corpora:
        with corpora.lease("docs") as old:
            index("two")
            until(lambda: corpora.status("docs").build != old.build)
        with corpora.lease("docs") as new:
            assert new.segments[0].vectors is old.segments[0].vectors
            assert new.document("x").body == "two"
            assert new.search("two").hits[0].document_id == "x"
