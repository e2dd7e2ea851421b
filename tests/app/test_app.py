from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from fastapi.testclient import TestClient

from purlin.app import problems, service
from purlin.app.main import create_app
from purlin.app.settings import Settings
from purlin.index.records import Document
from purlin.index.search.corpus import Corpus, SearchResult
from tests.support.serving import FUNCTIONS, make, numbered, problem, serving


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    make(home, "code", FUNCTIONS)
    make(home, "many", numbered(60), "reference")
    return home


@pytest.fixture(scope="module")
def client(home: Path) -> Iterator[TestClient]:
    with serving(home) as client:
        yield client


@pytest.mark.parametrize("has_corpora", [False, True])
def test_a_home_without_corpora_is_told(
    tmp_path: Path, home: Path, caplog: pytest.LogCaptureFixture, has_corpora: bool
) -> None:
    caplog.set_level(logging.INFO, logger="purlin.main")
    served = home if has_corpora else tmp_path
    with serving(served):
        pass
    assert (f"There are no corpora in {served}" in caplog.text) is not has_corpora


def test_a_start_warns_of_builds_that_nothing_activates(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make(tmp_path, "code", FUNCTIONS)
    (tmp_path / "corpora" / "code" / "CURRENT").unlink()
    with serving(tmp_path) as client:
        missing = problem(client.post("/search", json={"query": "sort", "corpus": "code"}), 404)
    for text in (caplog.text, missing["detail"]):
        assert "code has builds, but no CURRENT" in text


def search(
    client: TestClient, query: str, *, corpus: str = "code", **options: object
) -> dict[str, Any]:
    """Return the reply to a search."""
    body = {"query": query, "corpus": corpus, **options}
    reply: dict[str, Any] = client.post("/search", json=body).json()
    return reply


def test_search_returns_hits_with_locations(client: TestClient, home: Path) -> None:
    reply = search(client, "read rows from a csv file")
    hit = reply["hits"][0]
    assert hit["document_id"] == FUNCTIONS[0].id
    assert hit["title"] == "Reader.read_csv"
    assert hit["rank"] == 1
    assert hit["location"] == {"path": "tools/read.py", "start_line": 10, "end_line": 11}
    assert hit["fields"] == {"language": "python", "lines": 2, "tags": ["io", "table"]}
    assert 0 < hit["score"] <= 1
    assert hit["scores"].keys() == {"dense", "lexical"}
    assert "explanation" not in hit
    assert reply["total"] == 3
    assert reply["corpus"] == "code"
    assert reply["encoder"] == "hash"
    assert (home / "corpora" / "code" / reply["build"]).is_dir()
    assert reply["took_ms"] > 0
    assert "timings_ms" not in reply


@pytest.mark.parametrize(("engine", "at_once"), [({}, 2), ({"name": "milvus"}, 5)])
def test_searches_take_turns_but_those_of_an_engine_do_not(
    home: Path, engine: dict[str, str], at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "available_cpus", lambda: 2)
    running, most, has_more = [], [0], threading.Condition()
    search_corpus = Corpus.search

    def counted(corpus: Corpus, *arguments: Any, **options: Any) -> SearchResult:
        with has_more:
            running.append(corpus)
            most.append(len(running))
            has_more.notify_all()
            assert has_more.wait_for(lambda: max(most) >= at_once, timeout=60)
        # Long enough for one too many to be noticed.
        time.sleep(0.1)
        running.pop()
        return search_corpus(corpus, *arguments, **options)

    monkeypatch.setattr(Corpus, "search", counted)
    body = {"query": "read a file", "corpus": "code"}
    with serving(home, threads=5) as client, ThreadPoolExecutor(5) as pool:
        with client.app_state["service"].lease("code") as corpus:
            corpus.manifest = replace(corpus.manifest, engine=engine)
        replies = list(pool.map(lambda _: client.post("/search", json=body).status_code, range(5)))
    assert replies == [200] * 5
    assert max(most) == at_once


def test_highlights_are_offsets_into_the_text(client: TestClient) -> None:
    reply = search(client, "sorted numbers", k=1)
    (hit,) = reply["hits"]
    marked = {hit["text"][start:end].lower() for start, end in hit["highlights"]}
    assert {"sorted", "numbers"} <= marked
    assert "return" not in marked


@pytest.mark.parametrize(("mode", "scores"), [("dense", {"dense"}), ("lexical", {"lexical"})])
def test_mode_uses_a_single_retriever(client: TestClient, mode: str, scores: set[str]) -> None:
    reply = search(client, "sort numbers", mode=mode)
    assert reply["hits"][0]["document_id"] == FUNCTIONS[1].id
    assert reply["hits"][0]["scores"].keys() == scores


@pytest.mark.parametrize(
    ("filter", "expected"),
    [
        ({"language": "javascript"}, {2}),
        ({"language": ["javascript", "python"]}, {0, 1, 2}),
        ({"lines": {"gte": 2}}, {0, 1}),
        ({"lines": {"gte": 1, "lte": 1}}, {2}),
        ({"language": "python", "tags": "io"}, {0}),
        ({"language": "cobol"}, set()),
        ({"language": "JavaScript"}, {2}),
        ({"language": ["js", "Cobol", 3]}, {2}),
        ({"language": {"gte": "k"}}, {0, 1}),
        ({"language": {"not": "JS"}}, {0, 1}),
        ({"language": {"not": ["Golang", "js"]}, "lines": {"gte": 2}}, {0, 1}),
        ({"lines": {"gte": 1, "not": {"lte": 1}}}, {0, 1}),
        ({"tags": {"not": "io"}, "language": "python"}, {1}),
    ],
)
def test_filter_selects_documents(
    client: TestClient, filter: dict[str, object], expected: set[int]
) -> None:
    reply = search(client, "a function", filter=filter)
    assert {hit["document_id"] for hit in reply["hits"]} == {FUNCTIONS[n].id for n in expected}
    assert reply["total"] == len(expected)


def test_pages_are_consecutive(client: TestClient) -> None:
    def page(k: int, offset: int) -> list[str]:
        reply = search(client, "number 7", corpus="many", k=k, offset=offset)
        assert [hit["rank"] for hit in reply["hits"]] == list(
            range(offset + 1, offset + 1 + len(reply["hits"]))
        )
        return [hit["id"] for hit in reply["hits"]]

    assert page(7, 0) + page(7, 7) + page(46, 14) == page(60, 0)
    assert page(10, 55) == page(60, 0)[55:]


def test_page_after_the_last_hit_is_empty(client: TestClient) -> None:
    reply = search(client, "number", corpus="many", offset=500)
    assert reply["hits"] == []
    assert reply["total"] == 60


def test_explain_adds_timings(client: TestClient) -> None:
    reply = search(client, "sort numbers", explain=True)
    assert {"encode", "dense", "lexical", "fuse", "fetch"} <= reply["timings_ms"].keys()
    assert sum(reply["timings_ms"].values()) <= reply["took_ms"]
    assert all(hit["explanation"] for hit in reply["hits"])


def test_classify_by_label_names(client: TestClient) -> None:
    body = {
        "texts": ["the sports results", "business of banks"],
        "labels": ["business", "sports", "world"],
    }
    reply = client.post("/classify", json=body).json()
    assert [result["label"] for result in reply["results"]] == ["sports", "business"]
    first = reply["results"][0]
    assert first["ranking"][0] == {"label": "sports", "score": first["score"]}
    assert sum(entry["score"] for entry in first["ranking"]) == pytest.approx(1, abs=1e-5)
    assert first["margin"] == pytest.approx(first["score"] - first["ranking"][1]["score"], abs=1e-6)
    assert reply["encoder"] == "hash"
    assert reply["took_ms"] > 0


def test_corpora_are_listed(client: TestClient) -> None:
    search(client, "x")
    search(client, "x", corpus="many")
    corpora = client.get("/corpora").json()["corpora"]
    assert [(each["name"], each["kind"], each["documents"], each["state"]) for each in corpora] == [
        ("code", "code", 3, "serving"),
        ("many", "reference", 60, "serving"),
    ]


def test_a_corpus_tells_its_state_encoder_and_size(client: TestClient, home: Path) -> None:
    search(client, "x")
    corpus = client.get("/corpora/code").json()
    directory = home / "corpora" / "code" / corpus["build"]
    assert corpus["state"] == "serving"
    assert corpus["encoder"] == {"name": "hash", "fingerprint": "hash-64", "dim": 64}
    assert corpus["measures"] == {"dense recall@100": 1.0}
    assert corpus["bytes"] == sum(
        file.stat().st_size
        for file in directory.rglob("*")
        if file.is_file() and file.name != "manifest.json" and file.suffix != ".sums"
    )
    assert "problem" not in corpus
    assert "files" not in corpus


@pytest.mark.parametrize("document", FUNCTIONS, ids=[document.title for document in FUNCTIONS])
def test_document_is_returned_by_the_id_of_a_hit(client: TestClient, document: Document) -> None:
    (hit,) = search(client, document.summary, k=1)["hits"]
    for safe in ("/", ""):
        reply = client.get(f"/corpora/code/documents/{quote(hit['document_id'], safe=safe)}").json()
        assert reply["id"] == document.id
        assert reply["body"] == document.body
        assert reply["location"] == hit["location"]
        assert reply["corpus"] == "code"


def test_probes_answer_ok(client: TestClient) -> None:
    assert client.get("/livez").json() == {"status": "ok"}
    assert client.get("/readyz").json() == {"status": "ok"}
    assert client.get(client.get("/").json()["openapi"]).status_code == 200


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/metrics"])
def test_probes_answer_head(client: TestClient, path: str) -> None:
    assert client.head(path).status_code == 200


def test_a_server_describes_itself_only_when_that_is_requested(tmp_path: Path) -> None:
    app = create_app(Settings(home=tmp_path))
    assert app.openapi_schema is None
    assert TestClient(app).get("/openapi.json").json() == app.openapi_schema


def test_no_thread_sees_half_a_description(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, add_schemas = threading.Event(), problems.add_schemas

    def slowly(description: dict[str, Any]) -> None:
        begun.set()
        time.sleep(0.1)
        add_schemas(description)

    monkeypatch.setattr(problems, "add_schemas", slowly)
    app = create_app(Settings(home=tmp_path))
    with ThreadPoolExecutor(1) as pool:
        pool.submit(app.openapi)
        assert begun.wait(60)
        assert "Problem" in app.openapi()["components"]["schemas"]


def test_openapi_lists_problems_per_route(client: TestClient) -> None:
    openapi = client.get("/openapi.json").json()
    assert openapi["paths"]["/search"]["post"]["operationId"] == "search"
    schemas = openapi["components"]["schemas"]
    for path in openapi["paths"].values():
        for operation in path.values():
            for status, response in operation["responses"].items():
                media_types = set(response["content"])
                assert media_types == (
                    {"application/json"} if status == "200" else {"application/problem+json"}
                )
    statuses = set("200 400 401 403 404 408 413 415 422 429 500 503".split())
    assert openapi["paths"]["/search"]["post"]["responses"].keys() == statuses
    assert (
        schemas["Problem"]["properties"]["errors"]["items"]["$ref"]
        == "#/components/schemas/FieldError"
    )
    assert schemas["FieldError"]["required"] == ["field", "message"]
    assert schemas["SearchRequest"]["properties"]["k"]["maximum"] == 1000
    assert not schemas["SearchRequest"]["additionalProperties"]


def test_values_of_the_description_differ_in_more_than_case(client: TestClient) -> None:
    """Generators of clients name a constant after each, and end at two of one name."""
    lists: list[list[Any]] = []

    def collect(value: Any) -> None:
        for child in value.values() if isinstance(value, dict) else value:
            if isinstance(child, dict | list):
                collect(child)
        if isinstance(value, dict) and isinstance(value.get("enum"), list):
            lists.append(value["enum"])

    collect(client.get("/openapi.json").json()["components"])
    assert ["hybrid", "dense", "lexical"] in lists
    for values in lists:
        assert len({str(value).casefold() for value in values}) == len(values), values


def test_create_app_reads_no_files(tmp_path: Path) -> None:
    create_app(Settings(home=tmp_path / "none", encoder=tmp_path / "none"))
    assert list(tmp_path.iterdir()) == []


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PURLIN_HOME", "/somewhere")
    monkeypatch.setenv("PURLIN_PORT", "9000")
    assert (Settings().home, Settings().port) == (Path("/somewhere"), 9000)
    monkeypatch.setenv("PURLIN_PORT", "70000")
    with pytest.raises(ValueError, match="65535"):
        Settings()
