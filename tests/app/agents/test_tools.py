"""All tools: what they refuse, what they are called with, and those of products, references and labels."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from purlin.app.agents import budget, tools
from purlin.app.agents.served import ServedCorpora
from purlin.index.indexing.build import build
from purlin.index.indexing.builder import Options
from purlin.index.records import Document
from purlin.index.search.corpus import Corpus
from purlin.index.sources import open_source
from tests.support.agents import PING, call, rpc, text
from tests.support.hash_encoder import HashEncoder
from tests.support.serving import (
    ADMIN_KEY,
    API_KEYS,
    REFERENCE_PAGE,
    SEARCH_KEY,
    bearer,
    make,
    problem,
    ready,
)


@pytest.mark.parametrize(
    ("method", "tool", "arguments"),
    [
        ("search", "search_code", {"query": "sort numbers"}),
        ("search", "search_code", {"query": "sort numbers", "language": "cobol"}),
        ("passages", "ask_reference", {"question": "What is the default step of range?"}),
    ],
)
def test_a_warning_of_the_engine_is_shown(
    client: TestClient,
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    tool: str,
    arguments: dict[str, str],
) -> None:
    answer = getattr(Corpus, method)

    def warned(*values: Any, **options: Any) -> Any:
        return replace(answer(*values, **options), warning="Only words were compared.")

    # A filter that no document passes has a warning of its own.
    before = call(client, tool, **arguments)["structuredContent"].get("warning", "")
    assert "Only words" not in before
    monkeypatch.setattr(Corpus, method, warned)
    result = call(client, tool, **arguments)
    assert result["structuredContent"]["warning"] == "Only words were compared."
    assert ". Only words were compared." in text(result).split("\n")[0]


def test_answers_have_passage_and_link(client: TestClient) -> None:
    result = call(client, "ask_reference", question="What is the default step of range?", k=5)
    content = result["structuredContent"]

    assert 0 <= content["answerable"] <= 1
    assert f"answerable {content['answerable']:.2f}" in text(result)
    assert len(content["answers"]) == 5

    passages: dict[int, str] = {}
    for number, answer in enumerate(content["answers"], 1):
        if "passage" in answer:
            passages[number] = answer["passage"]
        else:
            passages[number] = passages[answer["passage_of"]]
        assert answer["text"] in passages[number]
        assert answer.get("sentence", "") in passages[number]
        assert answer["url"].startswith("https://example.org/functions.html#")
        assert f"{number}. {json.dumps(answer['text'])}" in text(result)

    assert len(set(passages.values())) == sum("passage" in answer for answer in content["answers"])
    assert any("sentence" in answer for answer in content["answers"])


@pytest.mark.parametrize(("answerable", "is_doubted"), [(0.99, False), (0.5, False), (0.49, True)])
def test_only_an_unlikely_answer_is_doubted(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, answerable: float, is_doubted: bool
) -> None:
    ask = ServedCorpora.ask

    def sure(*arguments: Any) -> Any:
        return replace(ask(*arguments), answerable=answerable)

    monkeypatch.setattr(ServedCorpora, "ask", sure)
    shown = text(call(client, "ask_reference", question="What is the default step of range?"))
    assert f"answerable {answerable:.2f}" in shown
    assert ("it may be silent" in shown) == is_doubted


def test_labels_keep_the_order_of_texts(client: TestClient) -> None:
    result = call(
        client, "classify", texts=["sports", "business"], labels=["business", "sports", "world"]
    )
    results = result["structuredContent"]["results"]

    assert [label["label"] for label in results] == ["sports", "business"]
    assert text(result).splitlines()[1].startswith("1. sports ")

    several = call(
        client, "classify", texts=["sports", "rain"], labels=["sports", "world"], multi_label=True
    )
    results = several["structuredContent"]["results"]
    assert [result["labels"] for result in results] == [["sports"], []]
    assert "labels" not in result["structuredContent"]["results"][0]

    alike = call(client, "classify", texts=["a"], labels=["sports", "Sports"])
    assert "nearly the same" in text(alike)


def test_texts_are_classified_together(client: TestClient) -> None:
    body = {
        "texts": ["sports news", "business news", "sports", "news"],
        "labels": ["business", "sports"],
    }
    results = {}
    for transductive in (False, True):
        arguments = {**body, "transductive": transductive}
        reply = client.post("/classify", json=arguments).json()
        results[transductive] = [
            [round(label["score"], 4) for label in result["ranking"]] for result in reply["results"]
        ]
        called = call(client, "classify", **arguments)["structuredContent"]
        assert results[transductive] == [
            [label["score"] for label in result["ranking"]] for result in called["results"]
        ]
    assert results[True] != results[False]


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("search_code", {}, "query is empty"),
        ("search_code", {"query": " "}, "query is empty"),
        ("search_code", {"query": "x", "max_tokens": 10}, "greater than or equal to 200"),
        ("search_code", {"query": "x", "colour": "red"}, "colour is not a known key"),
        ("search_code", {"query": "x", "corpus": "library"}, "is of kind reference. Those of kind code: project."),
        ("search_code", {"query": "x", "corpus": "nowhere"}, "nowhere"),
        ("search_code", {"query": "x", "corpus": "../x"}, "1 to 64"),
        ("ask_reference", {"question": "x", "corpus": "project"},
         "is of kind code. Those of kind reference: library"),
        ("ask_reference", {"question": "x" * 5000}, "at most 4096 characters"),
        ("classify", {"texts": ["a"]}, "either `labels` or `classifier`"),
        ("classify", {"texts": ["a"] * 101, "labels": ["a", "b"]}, "at most 100 items"),
        ("classify", {"texts": [], "labels": ["a", "b"]}, "at least 1 item"),
        ("classify", {"texts": ["a"], "labels": ["a"]}, "multi_label"),
        ("classify", {"texts": ["a"], "classifier": "none"}, "none"),
        ("classify", {"texts": ["a"], "classifier": "none", "transductive": True}, "omit `transductive`"),
        ("classify", {"texts": ["a"], "labels": ["a", "b"], "multi_label": True, "transductive": True},
         "omit one of the two"),
        ("search_code", {"query": "x", "path": "/etc"}, "relative to the root"),
        ("search_code", {"query": "x", "path": "web/../../etc"}, "relative to the root"),
        ("search_code", {"query": "x", "content": "tests"}, "'code', 'docs', 'config' or 'all'"),
        ("find_related", {"id": "nowhere.py::none"}, "no document 'nowhere.py::none'"),
        ("find_related", {"id": "nowhere.py:5"}, "that file has none"),
        ("find_related", {"id": "tools/read.py:3"}, "nearest are read_rows (4), read (1)"),
        ("find_related", {"id": "../x.py:5"}, "relative to the root"),
        ("find_related", {"id": "x" * 2001}, "at most 2000 characters"),
        ("read_document", {"id": "web/long.py:1", "lines": "302"}, "within 1-301"),
        ("read_document", {"id": "web/long.py:1", "lines": "9-8"}, "within 1-301"),
        ("read_document", {"id": "web/long.py:1", "lines": "x"}, "match pattern"),
        ("read_document", {"id": "tools/read.py:5", "lines": "1-3"}, "within 4-6, the lines of this document"),
        ("read_document", {"id": "x", "corpus": "nowhere"}, "nowhere"),
        ("read_document", {"id": "web/long.py"}, "name a line as well: web/long.py:1"),
        ("find_related", {"id": "web/long.py"}, "name a line as well: web/long.py:1"),
        ("find_related", {"id": "web/long.py:Long.run"}, "name a line as well: web/long.py:1"),
        ("search_products", {"query": "x"}, "no corpus of kind product"),
        ("search_products", {"query": "x", "filter": {"a": {}, "b": [[]]}}, "must be a value"),
        # Optional arguments are named without the null that they may be.
        ("classify", {"texts": ["a"], "labels": "a,b"}, "labels must be a valid list"),
        ("search_code", {"query": "x", "corpus": 5}, "corpus must be a valid string"),
        ("search_code", {"query": "x", "language": ["go"]}, "language must be a valid string"),
    ],
)  # fmt: skip
def test_invalid_arguments_are_error_results(
    client: TestClient, name: str, arguments: dict[str, Any], words: str
) -> None:
    result = call(client, name, **arguments)
    assert result["isError"] is True
    assert words in text(result)


def test_a_missing_reader_is_named(home: Path, tmp_path: Path) -> None:
    with ready(home, reader=tmp_path / "none") as client:
        assert "PURLIN_READER" in text(call(client, "ask_reference", question="x"))


def test_products_have_their_fields(tmp_path: Path) -> None:
    fields = {"brand": "Acme", "price": 20, "notes": "x" * 250}
    body = "A drill for stone."
    drills = [
        Document(f"drill:{n}", "product", f"Drill {n}", body, fields=fields | {"price": n})
        for n in (10, 30)
    ]
    make(tmp_path, "shop", drills, "product")
    with ready(tmp_path) as client:
        result = call(client, "search_products", query="drill", filter={"price": {"lte": 20}})
        refused = call(client, "search_products", query="drill", filter={"colour": "red"})
        whole = call(client, "read_document", id="drill:30")
        missing = call(client, "read_document", id="KT-1.5")

    (hit,) = result["structuredContent"]["hits"]
    assert hit["why"].startswith("name: drill; meaning ")
    assert (hit["id"], hit["fields"]) == ("drill:10", {"brand": "Acme", "price": 10})
    assert "1. drill:10 Drill 10 · " in text(result)
    assert "A drill for stone." in text(result)
    assert "no filterable field 'colour'" in text(refused)
    assert "Drill 30" in text(whole)
    assert "KT-1.5" in text(missing)
    assert "line" not in text(missing)


def test_a_value_of_several_lines_does_not_end_the_head_of_a_product(tmp_path: Path) -> None:
    lamp = Document("lamp", "product", "Lamp", "Bright.", fields={"material": "oak\nash"})
    make(tmp_path, "shop", [lamp], "product")
    with ready(tmp_path) as client:
        result = call(client, "search_products", query="lamp")

    (shown,) = result["structuredContent"]["hits"]
    assert shown["fields"] == {"material": "oak\nash"}
    _, head, first_line = text(result).splitlines()[:3]
    assert head.endswith(r"material=oak\nash")
    assert first_line == "Bright."


def test_variants_of_a_product_are_one_hit(tmp_path: Path) -> None:
    variants = [
        Document(f"drill-{n}", "product", "Drill", "For stone.", fields={"parent": "drill"})
        for n in range(8)
    ]
    make(tmp_path, "shop", [*variants, Document("saw", "product", "Saw", "")], "product")  # fmt: skip
    with ready(tmp_path) as client:
        result = call(client, "search_products", query="drill saw")

    hits = {hit["title"]: hit.get("variants") for hit in result["structuredContent"]["hits"]}
    assert hits.keys() == {"Drill", "Saw"}
    assert hits["Saw"] is None
    assert len(hits["Drill"]) == 5
    assert f"variants: {', '.join(hits['Drill'])}" in text(result)


def test_an_answer_from_a_page_that_has_changed_is_marked(
    tmp_path: Path, reader_directory: Path
) -> None:
    pages = tmp_path / "pages"
    pages.mkdir()
    (pages / "functions.html").write_text(REFERENCE_PAGE)
    files = open_source("reference", [pages], base_url="https://example.org")
    options = Options(origin=(str(pages),))
    build(tmp_path, "library", "reference", files, HashEncoder(), options=options)
    time.sleep(0.02)
    (pages / "functions.html").write_text("")

    with ready(tmp_path, reader=reader_directory) as client:
        result = call(client, "ask_reference", question="What is the default step of range?")
    assert all(answer["changed"] for answer in result["structuredContent"]["answers"])
    assert " · CHANGED since" in text(result)


def test_each_tool_needs_its_own_scope(home: Path) -> None:
    keys = f"{API_KEYS}\nmaster admin a-key-that-only-administers"
    with ready(home, keys=keys) as client:
        assert problem(client.post("/mcp", json=PING), 401)

        admin_only = bearer("a-key-that-only-administers")
        assert problem(client.post("/mcp", json=PING, headers=admin_only), 403)

        client.headers |= bearer(SEARCH_KEY)
        listed = rpc(client, "tools/list")["result"]["tools"]

        assert [tool["name"] for tool in listed] == [
            tool.name for tool in tools.TOOLS if tool.scope != "classify"
        ]
        assert call(client, "search_code", query="sort")["isError"] is False

        refused = call(client, "classify", texts=["a"], labels=["a", "b"])
        assert refused["isError"] is True
        assert "lacks the scope classify" in text(refused)

        client.headers |= bearer(ADMIN_KEY)
        listed = rpc(client, "tools/list")["result"]["tools"]

        assert [tool["name"] for tool in listed] == [
            tool.name for tool in tools.TOOLS if tool.scope == "search"
        ]


def test_tool_descriptions_are_complete(client: TestClient) -> None:
    listed = rpc(client, "tools/list")["result"]["tools"]
    assert len(json.dumps(listed)) / budget.BYTES_PER_TOKEN < 2_650
    for tool in listed:
        assert " Use it " in tool["description"]
        assert " Not for " in tool["description"]
        assert tool["inputSchema"]["type"] == "object"
        assert tool["inputSchema"]["additionalProperties"] is False
        assert tool["inputSchema"]["properties"]["max_tokens"]["default"] == budget.DEFAULT_TOKENS
        for schema in tool["inputSchema"]["properties"].values():
            assert schema["type"] in ("string", "integer", "array", "boolean", "object")
            assert schema["description"]
            assert schema.get("default", 0) is not None
        assert tool["annotations"]["readOnlyHint"]
