from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from purlin.index.indexing.build import build
from purlin.index.sources import open_source
from tests.support.hash_encoder import HashEncoder
from tests.support.serving import FUNCTIONS, REFERENCE_PAGE, make, problem, serving

PAGES = {
    "functions.html": REFERENCE_PAGE,
    "unclosed.html": "<html><body><dl class='py function'><dt id='open'><code>open(path)</code><dd><p>Opens a file.",
    "twice.html": "<html><body><dl><dt id='a'>first</dt><dd>One.</dd></dl><dl><dt id='a'>second</dt><dd>Two.</dd></dl>",
    "nested.html": "<html><body><dl><dt id='n'>modes</dt><dd><ul><li>r<ul><li>reads the file</ul></ul></dd></dl>",
    "prose.html": "<html><body><h1>Prose</h1><p>There is no definition here, just the history of files.</p>",
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home, pages = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("pages")
    for name, page in PAGES.items():
        (pages / name).write_text(page)
    build(home, "library", "reference", open_source("reference", [pages]), HashEncoder())
    make(home, "code", FUNCTIONS)
    return home


@pytest.fixture(scope="module")
def client(home: Path, reader_directory: Path) -> Iterator[TestClient]:
    with serving(home, reader=reader_directory) as client:
        yield client


def test_answers_are_exact_words_of_the_passage(client: TestClient) -> None:
    body = {"question": "What is the default step of range?", "corpus": "library"}
    reply = client.post("/qa", json=body).json()
    assert reply.keys() == {
        "answers", "answerable", "answer_type", "hits", "took_ms", "corpus", "build", "encoder", "reader",
    }  # fmt: skip
    assert len(reply["answers"]) == 3
    for answer in reply["answers"]:
        assert answer["passage"][answer["start"] : answer["end"]] == answer["text"] != ""
        assert answer.keys() == {
            "text", "score", "start", "end", "passage_id", "title", "terms", "url", "passage", "sentence",
        }  # fmt: skip
        if said := answer["sentence"]:
            assert answer["passage"][said["start"] : said["end"]] == said["text"] != ""
        assert 0 <= answer["score"] <= 1
    expected = ("library", "hash", "tiny-reader")
    assert (reply["corpus"], reply["encoder"], reply["reader"]) == expected
    assert {hit["rank"] for hit in reply["hits"]} == set(range(1, len(reply["hits"]) + 1))


def test_a_question_in_another_language_is_answered_as_it_was_read(client: TestClient) -> None:
    body = {"question": "Was ist der Standardwert von step bei range?", "corpus": "library"}
    reply = client.post("/qa", json=body).json()
    assert reply["read_as"].startswith("default value of ")
    assert {"step", "range"} <= set(reply["read_as"].split())
    assert reply["answer_type"] == "value"


def test_explain_adds_timings(client: TestClient) -> None:
    reply = client.post(
        "/qa", json={"question": "close", "corpus": "library", "explain": True, "k": 1}
    ).json()
    assert len(reply["answers"]) == 1
    assert reply["read"] >= 1
    assert reply["timings_ms"]["read"] > 0


@pytest.mark.parametrize(
    "question", ["Opens which file?", "first", "second", "reads the file", "history of files"]
)
def test_pages_of_any_shape_have_answers(client: TestClient, question: str) -> None:
    body = (
        b'{"corpus": "library", "question": "'
        + question.encode("ascii", "backslashreplace")
        + b'"}'
    )
    reply = client.post("/qa", content=body, headers={"Content-Type": "application/json"})
    assert reply.status_code == 200, reply.text
    assert reply.json()["answers"]


def test_corpus_of_another_kind_is_refused(client: TestClient) -> None:
    error = problem(client.post("/qa", json={"question": "what?", "corpus": "code"}), 422)
    assert error["errors"][0]["field"] == "corpus"
    assert "kind reference" in error["detail"]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"question": ""}, "question"),
        ({"question": "  \n "}, "question"),
        ({"question": "word " * 10_000}, "question"),
        ({"question": 3}, "question"),
        ({"k": 0}, "k"),
        ({"k": 21}, "k"),
        ({"corpus": "x" * 65}, "corpus"),
        ({"mode": "dense"}, "mode"),
    ],
)
def test_invalid_field_is_named(client: TestClient, change: dict[str, object], field: str) -> None:
    body = {"question": "what?", "corpus": "library"} | change
    assert problem(client.post("/qa", json=body), 422)["errors"][0]["field"] == field


def test_unknown_corpus_is_not_found(client: TestClient) -> None:
    response = client.post("/qa", json={"question": "what?", "corpus": "nowhere"})
    assert "nowhere" in problem(response, 404)["detail"]


def test_server_without_a_reader_serves_searches(home: Path, tmp_path: Path) -> None:
    with serving(home, reader=tmp_path / "none") as client:
        search = client.post("/search", json={"query": "close", "corpus": "library"})
        assert search.status_code == 200
        error = problem(client.post("/qa", json={"question": "x", "corpus": "library"}), 404)
        assert "PURLIN_READER" in error["detail"]
        assert str(tmp_path) not in error["detail"]


def test_damaged_reader_is_refused(home: Path, reader_directory: Path, tmp_path: Path) -> None:
    for file in reader_directory.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "model.onnx").write_bytes(b"cut off")
    with serving(home, reader=tmp_path) as client:
        response = client.post("/qa", json={"question": "x", "corpus": "library"})
        assert "model.onnx" in problem(response, 503)["detail"]
