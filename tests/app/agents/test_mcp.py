"""POST /mcp and its tools, with the official client and message by message."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import httpx2
import mcp
import pytest
from fastapi.testclient import TestClient
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp.client.streamable_http import streamable_http_client

from purlin.app.agents import budget, tools
from purlin.app.agents.code import _code_result
from purlin.app.agents.mcp import HANDSHAKE, STATELESS
from purlin.app.agents.served import ServedCorpora
from purlin.index.indexing.build import build
from purlin.index.records import Document, Hit, Location
from purlin.index.search.corpus import Corpus
from purlin.index.sources import open_source
from purlin.replies import SearchReply
from tests.support.files import write_tree
from tests.support.hash_encoder import HashEncoder
from tests.support.listening import listening
from tests.support.serving import (
    ADMIN_KEY,
    API_KEYS,
    CLASSIFY_KEY,
    REFERENCE_PAGE,
    SEARCH_KEY,
    bearer,
    make,
    numbered,
    problem,
    ready,
    serving,
    until,
)

FILES = {
    "tools/read.py": '"""Tables."""\n\n\ndef read_rows(path):\n    """Read rows from a csv file."""\n    return path\n',
    "tools/sort.py": 'def sort_numbers(numbers):\n    """Sort numbers in order."""\n    return sorted(numbers)\n',
    "web/fetch.js": "/** Download a page from an url. */\nfunction fetchPage(url) {\n  return fetch(url);\n}\n",
    "web/long.py": "def long(rows):\n"
    + "".join(f"    rows.append({line})  # 'row' é\n" for line in range(300)),
}
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
VERSION = STATELESS[-1]
META = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientCapabilities": {},
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home, sources, pages = (tmp_path_factory.mktemp(name) for name in ("home", "sources", "pages"))
    write_tree(sources, FILES)
    (sources / "web" / "data.py").write_bytes(b"\0")

    build(home, "project", "code", open_source("code", [sources]), HashEncoder())
    (pages / "functions.html").write_text(REFERENCE_PAGE)
    library = open_source("reference", [pages], base_url="https://example.org")
    build(home, "library", "reference", library, HashEncoder())
    return home


@pytest.fixture(scope="module")
def client(home: Path, reader_directory: Path) -> Iterator[TestClient]:
    with ready(home, reader=reader_directory) as client:
        yield client


def rpc(client: TestClient, method: str, params: Any = None, **headers: str) -> dict[str, Any]:
    """Return the result or the error of one request."""
    message = {"jsonrpc": "2.0", "id": 7, "method": method}
    if params is not None:
        message["params"] = params
    response = client.post("/mcp", json=message, headers=headers)

    assert response.status_code == 200, response.text

    reply: dict[str, Any] = response.json()
    assert (reply.pop("jsonrpc"), reply.pop("id")) == ("2.0", 7)

    return reply


def call(client: TestClient, name: str, **arguments: Any) -> dict[str, Any]:
    """Return the result of a tool call."""
    reply = rpc(client, "tools/call", {"name": name, "arguments": arguments})
    result: dict[str, Any] = reply["result"]
    return result


def text(result: Any) -> str:
    """Return the only text block of a result."""
    (content,) = result["content"]
    assert content["type"] == "text"
    return str(content["text"])


# ---- the protocol's own client


async def tour(client: mcp.Client) -> list[Any]:
    """List the tools and call each one, once with an invalid argument."""
    listed = await client.list_tools()
    code = await client.call_tool("search_code", {"query": "sort numbers", "k": 1})
    answer = await client.call_tool(
        "ask_reference", {"question": "What is the default step of range?"}
    )
    label = await client.call_tool(
        "classify", {"texts": ["sports"], "labels": ["sports", "business"]}
    )
    invalid = await client.call_tool("search_code", {"query": "x", "k": 1000})
    return [listed, code, answer, label, invalid]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_official_client_calls_every_tool(
    home: Path, reader_directory: Path, mode: Any
) -> None:
    async def run(url: str) -> tuple[str | None, list[Any]]:
        async with mcp.Client(f"{url}/mcp", mode=mode) as client:
            return client.protocol_version, await tour(client)

    with listening(home, HashEncoder(), reader=reader_directory) as url:
        until(lambda: httpx2.get(f"{url}/readyz").status_code == 200)
        version, (listed, code, answer, label, invalid) = anyio.run(run, url)

    assert version == (VERSION if mode == "auto" else HANDSHAKE[-1])
    assert [tool.name for tool in listed.tools] == [tool.name for tool in tools.TOOLS]
    assert "tools/sort.py:1-3" in code.content[0].text
    assert code.structured_content["hits"][0]["path"] == "tools/sort.py"
    assert answer.structured_content["answers"]
    assert label.structured_content["results"][0]["label"] == "sports"
    assert invalid.is_error
    assert "k must be" in invalid.content[0].text.replace("Input ", "")


def test_the_official_client_sends_a_key(home: Path) -> None:
    async def run(url: str) -> tuple[Any, Any]:
        async with httpx2.AsyncClient(headers=bearer(CLASSIFY_KEY)) as http:
            async with mcp.Client(streamable_http_client(f"{url}/mcp", http_client=http)) as client:
                arguments = {"texts": ["one"], "labels": ["one", "two"]}
                return await client.list_tools(), await client.call_tool("classify", arguments)

    with listening(home, HashEncoder(), keys=API_KEYS) as url:
        listed, label = anyio.run(run, url)
    assert [tool.name for tool in listed.tools] == ["classify"]
    assert label.structured_content["results"][0]["label"] == "one"


# ---- tools


def test_code_hits_have_lines_reason_and_text(client: TestClient) -> None:
    result = call(client, "search_code", query="sort numbers in ascending order", k=2)
    first = result["structuredContent"]["hits"][0]

    assert first["path"] == "tools/sort.py"
    assert (first["start_line"], first["end_line"]) == (1, 3)
    assert first["code"] == FILES["tools/sort.py"].rstrip()
    assert first["why"].startswith("name: sort, numbers; text: order; meaning ")
    assert "cut" not in first

    lines = text(result).splitlines()
    assert lines[0].startswith("2 hits in project (build ")
    assert lines[1].startswith("1. tools/sort.py:1-3 sort_numbers · ")
    assert lines[2:5] == FILES["tools/sort.py"].splitlines()
    assert result["isError"] is False


@pytest.mark.parametrize(
    ("arguments", "paths"),
    [
        ({"path": "web/"}, {"web/fetch.js", "web/long.py"}),
        ({"path": "./web/fetch"}, {"web/fetch.js"}),
        ({"path": "tools/sort.py"}, {"tools/sort.py"}),
        ({"language": "javascript"}, {"web/fetch.js"}),
        ({"language": "python", "path": "web/"}, {"web/long.py"}),
        ({"without_path": "web/l"}, {"web/fetch.js", "tools/read.py", "tools/sort.py"}),
        ({"path": "web/", "without_path": "web/fetch"}, {"web/long.py"}),
        ({"path": "nowhere"}, set()),
    ],
)
def test_search_filters_by_path_and_language(
    client: TestClient, arguments: dict[str, str], paths: set[str]
) -> None:
    result = call(client, "search_code", query="sort rows of a page", **arguments)
    assert {hit["path"] for hit in result["structuredContent"]["hits"]} == paths
    if not paths:
        assert text(result) == (
            'Nothing in project fits path nowhere: leave it out, or search content "all".'
        )


def test_a_file_that_a_server_could_not_read_is_named(client: TestClient) -> None:
    result = call(client, "search_code", query="download a page", path="web/data")
    assert text(result).endswith(" web/data.py is not indexed (binary: it holds a zero byte).")


def test_a_path_without_its_folder_is_completed(client: TestClient) -> None:
    def advice(path: str) -> str:
        result = call(client, "search_code", query="sort", path=path, language="go")
        return text(result).partition(' content "all".')[2]

    assert advice("sort.py").startswith(" Did you mean path tools/sort.py?")
    # A part of a name is no path, and a path that is there needs no other.
    for path in ("ort.py", "tools/sort.py", "tools/", "tools"):
        assert advice(path).startswith(" Languages of")


def test_languages_are_in_lower_case_and_listed_if_none_is_meant(client: TestClient) -> None:
    result = call(client, "search_code", query="download a page", language="JavaScript")
    assert [hit["path"] for hit in result["structuredContent"]["hits"]] == ["web/fetch.js"]

    result = call(client, "search_code", query="download a page", language="js")
    assert [hit["path"] for hit in result["structuredContent"]["hits"]] == ["web/fetch.js"]

    result = call(client, "search_code", query="sort rows of a page", language="Golang")
    assert result["structuredContent"]["hits"] == []
    assert "Nothing in project fits language Golang: leave it out" in text(result)
    assert "Languages of the nearest hits: javascript, python." in text(result)


@pytest.mark.parametrize("query", ["?", "水桶"])
def test_hits_that_share_nothing_are_left_out(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    search = Corpus.search

    def unlike(*arguments: Any, **options: Any) -> Any:
        result = search(*arguments, **options)
        return replace(result, hits=tuple(replace(hit, score=0.004) for hit in result.hits))

    monkeypatch.setattr(Corpus, "search", unlike)
    result = call(client, "search_code", query=query)
    assert result["structuredContent"]["hits"] == []
    assert text(result) == "Nothing in project fits."


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

    assert "warning" not in call(client, tool, **arguments)["structuredContent"]
    monkeypatch.setattr(Corpus, method, warned)
    result = call(client, tool, **arguments)
    assert result["structuredContent"]["warning"] == "Only words were compared."
    assert ". Only words were compared." in text(result).split("\n")[0]


def test_paths_start_with_the_source_if_several(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "code.py").write_text(f"def in_{name}(rows):\n    return rows\n")

    sources = open_source("code", [tmp_path / "one", tmp_path / "two"])
    build(tmp_path, "both", "code", sources, HashEncoder())
    with ready(tmp_path) as client:
        (hit,) = call(client, "search_code", query="rows", path="two/")["structuredContent"]["hits"]

    assert hit["path"] == "two/code.py"


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
        ("search_code", {}, "query is required"),
        ("search_code", {"query": " "}, "query is empty"),
        ("search_code", {"query": "x", "max_tokens": 10}, "greater than or equal to 200"),
        ("search_code", {"query": "x", "colour": "red"}, "colour is not a known key"),
        (
            "search_code",
            {"query": "x", "corpus": "library"},
            "is of kind reference. Those of kind code: project.",
        ),
        ("search_code", {"query": "x", "corpus": "nowhere"}, "nowhere"),
        ("search_code", {"query": "x", "corpus": "../x"}, "1 to 64"),
        (
            "ask_reference",
            {"question": "x", "corpus": "project"},
            "is of kind code. Those of kind reference: library",
        ),
        ("ask_reference", {"question": "x" * 5000}, "at most 4096 characters"),
        ("classify", {"texts": ["a"]}, "either `labels` or `classifier`"),
        ("classify", {"texts": ["a"] * 101, "labels": ["a", "b"]}, "at most 100 items"),
        ("classify", {"texts": [], "labels": ["a", "b"]}, "at least 1 item"),
        ("classify", {"texts": ["a"], "labels": ["a"]}, "multi_label"),
        ("classify", {"texts": ["a"], "classifier": "none"}, "none"),
        (
            "classify",
            {"texts": ["a"], "classifier": "none", "transductive": True},
            "omit `transductive`",
        ),
        (
            "classify",
            {"texts": ["a"], "labels": ["a", "b"], "multi_label": True, "transductive": True},
            "omit one of the two",
        ),
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
        (
            "read_document",
            {"id": "tools/read.py:5", "lines": "1-3"},
            "within 4-6, the lines of this document",
        ),
        ("read_document", {"id": "x", "corpus": "nowhere"}, "nowhere"),
        ("read_document", {"id": "web/long.py"}, "name a line as well: web/long.py:1"),
        ("find_related", {"id": "web/long.py"}, "name a line as well: web/long.py:1"),
        ("search_products", {"query": "x"}, "no corpus of kind product"),
        ("search_products", {"query": "x", "filter": {"a": {}, "b": [[]]}}, "must be a value"),
        # Optional arguments are named without the null that they may be.
        ("classify", {"texts": ["a"], "labels": "a,b"}, "labels must be a valid list"),
        ("search_code", {"query": "x", "corpus": 5}, "corpus must be a valid string"),
        ("search_code", {"query": "x", "language": ["go"]}, "language must be a valid string"),
    ],
)
def test_invalid_arguments_are_error_results(
    client: TestClient, name: str, arguments: dict[str, Any], words: str
) -> None:
    result = call(client, name, **arguments)
    assert result["isError"] is True
    assert words in text(result)


def test_all_corpora_of_a_kind_are_searched_by_default(home: Path, tmp_path: Path) -> None:
    with serving(tmp_path) as client:
        assert "no corpus of kind code" in text(call(client, "search_code", query="x"))

        for name in ("one", "two"):
            make(tmp_path, name, numbered(2), HashEncoder())
        until(lambda: f"{name} (" in text(call(client, "search_code", query="number 0")))

        several = call(client, "find_related", id="n0")
        assert "`corpus` to one of one, two" in text(several)

        both = call(client, "search_code", query="number 0", k=2)
        assert [each["corpus"] for each in both["structuredContent"]["corpora"]] == ["one", "two"]
        assert {hit["corpus"] for hit in both["structuredContent"]["hits"]} == {"one", "two"}
        assert "1. one: n0 number 0" in text(both)

        named = call(client, "search_code", query="x", corpus="two")
        assert named["structuredContent"]["corpus"] == "two"


def test_a_missing_reader_is_named(home: Path, tmp_path: Path) -> None:
    with ready(home, reader=tmp_path / "none") as client:
        assert "PURLIN_READER" in text(call(client, "ask_reference", question="x"))


def test_related_code_excludes_the_code_itself(client: TestClient) -> None:
    by_place = call(client, "find_related", id="tools/sort.py:2", k=20, max_tokens=20_000)
    by_id = call(client, "find_related", id="tools/sort.py::sort_numbers", k=20, max_tokens=20_000)
    hits = by_place["structuredContent"]["hits"]

    assert {hit["path"] for hit in hits} == FILES.keys() - {"tools/sort.py"}
    assert [hit["score"] for hit in hits] == sorted((hit["score"] for hit in hits), reverse=True)
    assert by_id["structuredContent"] == by_place["structuredContent"]
    assert text(by_place).startswith("3 hits near tools/sort.py:2 in project (build ")


def test_a_document_is_read_in_parts(client: TestClient) -> None:
    lines = FILES["web/long.py"].rstrip().split("\n")
    next_lines: str | None = None
    read: list[str] = []
    while next_lines is not None or not read:
        arguments = {"lines": next_lines} if next_lines else {}
        result = call(client, "read_document", id="web/long.py:7-9", max_tokens=800, **arguments)
        content = result["structuredContent"]

        assert content["first_line"] == len(read) + 1
        assert (content["id"], content["changed"]) == ("web/long.py::long", False)
        assert not content.keys() & {"path", "title"}
        assert content["total_lines"] == len(lines)
        read += content["text"].split("\n")
        next_lines = content.get("next_lines")
        assert (f"go on with lines {next_lines}" in text(result)) == (next_lines is not None)

    assert read == lines


def test_some_lines_are_read(client: TestClient) -> None:
    result = call(client, "read_document", id="web/long.py::long", lines="2-3")
    assert result["structuredContent"]["text"].split("\n") == FILES["web/long.py"].split("\n")[1:3]
    last = call(client, "read_document", id="web/long.py::long", lines="301")
    assert last["structuredContent"]["text"] == FILES["web/long.py"].split("\n")[300]


def test_lines_of_code_are_those_of_its_file(client: TestClient) -> None:
    result = call(client, "read_document", id="tools/read.py:5", lines="2-5")
    content = result["structuredContent"]
    assert content["text"].split("\n") == FILES["tools/read.py"].split("\n")[3:5]
    assert (content["first_line"], content["start_line"]) == (4, 4)


def test_a_line_too_long_to_be_read_is_cut(tmp_path: Path) -> None:
    make(tmp_path, "code", [Document("a", "code", "a", "first\n" + "x" * 5000)], HashEncoder())
    with ready(tmp_path) as client:
        start = call(client, "read_document", id="a", max_tokens=200)["structuredContent"]
        rest = call(client, "read_document", id="a", max_tokens=200, lines=start["next_lines"])
    assert (start["text"], start["next_lines"]) == ("first", "2-2")
    assert rest["structuredContent"]["cut"] is True
    assert 100 < len(rest["structuredContent"]["text"]) < 600
    assert "Line 2 is cut: raise max_tokens." in text(rest)
    assert len(text(rest).encode()) <= 200 * budget.BYTES_PER_TOKEN


def test_sections_of_a_reference_are_read(client: TestClient) -> None:
    result = call(client, "read_document", id="functions.html#range", corpus="library")
    assert "If step is omitted, it defaults to 1." in text(result)


def test_products_have_their_fields(tmp_path: Path) -> None:
    fields = {"brand": "Acme", "price": 20, "notes": "x" * 250}
    body = "A drill for stone."
    drills = [
        Document(f"drill:{n}", "product", f"Drill {n}", body, fields=fields | {"price": n})
        for n in (10, 30)
    ]
    make(tmp_path, "shop", drills, HashEncoder(), "product")
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


def test_variants_of_a_product_are_one_hit(tmp_path: Path) -> None:
    variants = [
        Document(f"drill-{n}", "product", "Drill", "For stone.", fields={"parent": "drill"})
        for n in range(8)
    ]
    make(tmp_path, "shop", [*variants, Document("saw", "product", "Saw", "")], HashEncoder(), "product")  # fmt: skip
    with ready(tmp_path) as client:
        result = call(client, "search_products", query="drill saw")

    hits = {hit["title"]: hit.get("variants") for hit in result["structuredContent"]["hits"]}
    assert hits.keys() == {"Drill", "Saw"}
    assert hits["Saw"] is None
    assert len(hits["Drill"]) == 5
    assert f"variants: {', '.join(hits['Drill'])}" in text(result)


def test_a_file_that_has_changed_is_marked(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for name in ("one", "two"):
        (source / f"{name}.py").write_text(f"def {name}(rows):\n    return rows\n")
    files = open_source("code", [source])
    build(tmp_path, "code", "code", files, HashEncoder(), origin=(str(source),))
    time.sleep(0.02)
    (source / "two.py").unlink()

    with ready(tmp_path) as client:
        result = call(client, "search_code", query="rows")
        whole = call(client, "read_document", id="two.py:1")

    changed = {hit["path"]: hit.get("changed") for hit in result["structuredContent"]["hits"]}
    assert changed == {"one.py": None, "two.py": True}
    assert "files changed since: 1" in text(result)
    assert whole["structuredContent"]["changed"] is True


def test_an_answer_from_a_page_that_has_changed_is_marked(
    tmp_path: Path, reader_directory: Path
) -> None:
    pages = tmp_path / "pages"
    pages.mkdir()
    (pages / "functions.html").write_text(REFERENCE_PAGE)
    files = open_source("reference", [pages], base_url="https://example.org")
    build(tmp_path, "library", "reference", files, HashEncoder(), origin=(str(pages),))
    time.sleep(0.02)
    (pages / "functions.html").write_text("")

    with ready(tmp_path, reader=reader_directory) as client:
        result = call(client, "ask_reference", question="What is the default step of range?")
    assert all(answer["changed"] for answer in result["structuredContent"]["answers"])
    assert " · CHANGED since" in text(result)


def test_content_narrows_a_corpus_that_tells_it(tmp_path: Path) -> None:
    documents = [
        Document(f"{what}.md", "code", what, f"rows of {what}", fields={"content": what})
        for what in ("code", "docs", "config")
    ]
    make(tmp_path, "mixed", documents, HashEncoder())
    with ready(tmp_path) as client:

        def titles(**arguments: str) -> set[str]:
            reply = call(client, "search_code", query="rows", **arguments)
            return {hit["title"] for hit in reply["structuredContent"]["hits"]}

        assert titles() == {"code"}
        assert titles(content="docs") == {"docs"}
        assert titles(content="all") == {"code", "docs", "config"}


# ---- token budgets


@pytest.mark.parametrize("max_tokens", [200, 400, 1_000, 4_000, 20_000])
def test_text_and_structure_each_fit_the_budget(client: TestClient, max_tokens: int) -> None:
    for name, arguments in (
        ("search_code", {"query": "append rows", "k": 4}),
        ("find_related", {"id": "web/long.py:1", "k": 4}),
        ("ask_reference", {"question": "step of range", "k": 20}),
        (
            "classify",
            {"texts": ["sports"] * 100, "labels": ["sports", "a rather long label about the news"]},
        ),
    ):
        result = call(client, name, max_tokens=max_tokens, **arguments)
        structured = json.dumps(result["structuredContent"], ensure_ascii=False)

        assert len(text(result).encode()) <= max_tokens * budget.BYTES_PER_TOKEN
        assert len(structured.encode()) <= max_tokens * budget.BYTES_PER_TOKEN

        # The items are the last field, or the one before the count of what was left out.
        fields = result["structuredContent"]
        items = [*fields.values()][-2 if "left_out" in fields else -1]

        assert len(items) >= 1


def long_parts(*weights: float) -> list[budget.Part]:
    """Hits whose code is too long for any budget of these tests."""
    code = "\n".join(f"    line {number} of the code" for number in range(400))
    fields = {"path": "src/app.py", "start_line": 1, "end_line": 400, "why": "words " * 10}
    return [budget.Part("src/app.py:1-400", fields, "code", code, weight=one) for one in weights]


def shown_lines(parts: list[budget.Part], max_tokens: int) -> list[int]:
    """Lines of code of each hit that a result shows."""
    result = budget.fit(lambda _: budget.Result("head", {}), "hits", parts, max_tokens)
    return [len(hit["code"].splitlines()) for hit in result.structured["hits"]]


@pytest.mark.parametrize("max_tokens", [400, 500, 800, 1_000])
def test_a_small_budget_shows_few_hits_rather_than_lines_of_none(max_tokens: int) -> None:
    lines = shown_lines(long_parts(1, 1, 1, 1, 1), max_tokens)
    assert 1 <= len(lines) < 5
    assert min(lines) >= 10


def test_a_better_hit_has_more_room() -> None:
    best, second, last = shown_lines(long_parts(0.8, 0.4, 0.0), 4_000)
    assert best == pytest.approx(2 * second, abs=4)
    # Of a hit that is hardly like the query, something is shown as well.
    assert last >= 10


def test_what_short_hits_do_not_need_is_left_for_long_ones() -> None:
    (long,) = long_parts(0.2)
    short = replace(long, text="pass", weight=0.9)
    assert shown_lines([short, long], 2_000)[1] > 2 * shown_lines(long_parts(0.9, 0.2), 2_000)[1]


def test_origins_of_many_corpora_leave_room_for_hits(tmp_path: Path) -> None:
    for number in range(8):
        make(tmp_path, f"corpus-with-a-long-name-{number}", numbered(2), HashEncoder())
    with ready(tmp_path) as client:
        result = call(client, "search_code", query="number 0", max_tokens=200)
    content = result["structuredContent"]

    assert content["hits"]
    assert {each["corpus"] for each in content["corpora"]} == {
        hit["corpus"] for hit in content["hits"]
    }
    assert len(json.dumps(content, ensure_ascii=False).encode()) <= 600
    assert len(text(result).encode()) <= 600


def test_the_first_hit_and_line_are_shown_whatever_the_budget(tmp_path: Path) -> None:
    path = "folder/" * 15 + "file.py"
    line = "é" * 400
    document = Document(f"{path}::App.run", "code", "App.run", line, location=Location(path, 1, 1))
    make(tmp_path, "code", [document], HashEncoder())
    with ready(tmp_path) as client:
        hits = call(client, "search_code", query="App.run", max_tokens=200)
        read = call(client, "read_document", id=document.id, max_tokens=200)

    assert hits["structuredContent"]["hits"][0]["title"] == "App.run"
    assert len(read["structuredContent"]["text"]) >= 30
    for result in (hits, read):
        assert len(text(result).encode()) <= 600
        assert len(json.dumps(result["structuredContent"], ensure_ascii=False).encode()) <= 600


def test_the_first_part_is_named_over_any_budget() -> None:
    part = budget.Part("x" * 900, {"title": "x" * 900}, "code", "text")
    result = budget.fit(lambda _: budget.Result("head", {}), "hits", [part, part], 200)
    assert [hit["title"] for hit in result.structured["hits"]] == ["x" * 900]
    assert result.structured["left_out"] == 1

    result = budget.fit_lines(budget.Result("x" * 900, {}), ["y" * 500], 1, 1, 1, 200)
    assert result.structured["text"] == "y" * 40


def test_lone_surrogates_are_refused_as_escapes(client: TestClient) -> None:
    body = b'{"jsonrpc": "2.0", "id": "\\ud800", "method": "tools/call", "params": {"name": "classify", "arguments": '
    body += b'{"texts": ["a \\udfff"], "labels": ["b\\ud800", "c"]}}}'
    response = client.post("/mcp", content=body, headers={"Content-Type": "application/json"})
    assert response.json()["id"] == "\ud800"
    assert response.json()["result"]["isError"] is True
    assert "texts[0] must be valid Unicode" in text(response.json()["result"])
    assert '"b\\ud800"' in text(response.json()["result"])


def test_long_code_is_cut_between_lines(client: TestClient) -> None:
    result = call(client, "search_code", query="append rows", k=4, max_tokens=1_000)
    hits = {hit["path"]: hit for hit in result["structuredContent"]["hits"]}
    long = FILES["web/long.py"].splitlines()

    assert hits["web/long.py"]["cut"]

    kept = hits["web/long.py"]["code"].splitlines()
    assert 10 < len(kept) < 100
    assert kept == long[: len(kept)]
    assert f"… {len(long) - len(kept)} lines" in text(result)
    assert hits["tools/sort.py"]["code"] == FILES["tools/sort.py"].rstrip()

    whole = call(client, "search_code", query="append rows", k=4, max_tokens=20_000)
    assert "cut" not in str(whole["structuredContent"])


def test_code_in_several_files_is_shown_once(tmp_path: Path) -> None:
    copies = {
        "cjs/sort.py": FILES["tools/sort.py"],
        "esm/sort.py": FILES["tools/sort.py"],
        "read.py": FILES["tools/read.py"],
    }
    write_tree(tmp_path / "sources", copies)
    source = open_source("code", [tmp_path / "sources"])
    build(tmp_path, "copies", "code", source, HashEncoder())
    with ready(tmp_path) as client:
        result = call(client, "search_code", query="sort numbers in order")
    first, second, *_ = result["structuredContent"]["hits"]

    assert (first["path"], second["path"]) == ("cjs/sort.py", "esm/sort.py")
    assert first["code"] == FILES["tools/sort.py"].rstrip()
    assert second["same_code_as"] == 1
    assert "code" not in second
    assert text(result).count("def sort_numbers") == 1
    assert "· same code as 1\n" in text(result)


def test_long_code_is_cut_to_the_lines_that_tell() -> None:
    lines = ["def f(a):"] + [f"    a.step({row})" for row in range(2, 400)]
    lines[299] = "    a.retry()"
    location = Location("a.py", 11, 409)
    hit = Hit("a.py::f", "a.py::f", 1, 0.5, {}, "f", "\n".join(lines), (), location, {})
    reply = SearchReply((hit,), 1, 1.0, "code", "b", "e")

    result = _code_result(reply, 400, query="where do we retry")
    (shown,) = result.structured["hits"]
    code, row = shown["code"].splitlines(), shown["code_line"] - 11
    assert (shown["cut"], shown["opening"]) == (True, "def f(a):")
    assert code == lines[row : row + len(code)]
    assert "    a.retry()" in code
    assert f"\ndef f(a):\n… line {shown['code_line']}:\n    a.step(" in result.text

    # Lines of a class that has members elsewhere have no numbers.
    partly = replace(hit, location=Location("a.py", 11, 900))
    result = _code_result(replace(reply, hits=(partly,)), 400, query="where do we retry")
    assert "code_line" not in result.structured["hits"][0]
    assert " lines\n    a.step(" in result.text


def test_callers_show_their_call() -> None:
    lines = ["def g(a):", *["    a.step()"] * 99, "    Base.find(a)", "    Token.find(a)"]
    code, fields = "\n".join(["@cache", *lines]), {"signature": "def g(a)"}
    location = Location("a.py", 1, len(lines) + 1)
    hit = Hit("a.py::g", "a.py::g", 1, 0.5, {}, "g", code, (), location, fields)
    reply = SearchReply((hit,), 1, 1.0, "code", "b", "e")
    (shown,) = _code_result(reply, 200, query="who calls Token.find").structured["hits"]

    assert (shown["cut"], shown["opening"]) == (True, "def g(a)")
    assert "    Token.find(a)" in shown["code"].splitlines()


def test_a_long_line_of_code_is_cut_around_a_match() -> None:
    line = f"var table = [{'0,' * 3000}retry,{'1,' * 3000}]"
    location = Location("a.js", 1, 1)
    match = (line.index("retry"), line.index("retry") + len("retry"))
    hit = Hit("a.js::a", "a.js::a", 1, 0.5, {}, "a", line, (match,), location, {})
    result = _code_result(SearchReply((hit,), 1, 1.0, "code", "b", "e"), 4000, query="retry")
    (shown,) = result.structured["hits"]

    assert shown["cut"] is True
    assert len(shown["code"]) == 1002
    assert "retry" in shown["code"]
    assert result.text.endswith("Cut: read_document shows a hit whole.")


def test_items_over_the_budget_are_counted(client: TestClient) -> None:
    labels = ["sports", "business"]
    result = call(client, "classify", texts=["sports"] * 100, labels=labels, max_tokens=200)
    content = result["structuredContent"]
    assert len(content["results"]) + content["left_out"] == 100
    assert text(result).endswith(f"{content['left_out']} more: raise max_tokens.")


_LINES = st.lists(
    st.text(st.characters(exclude_characters="\n"), max_size=30), min_size=1, max_size=12
)


def json_bytes(content: str) -> int:
    """Return the size of a text as a JSON string, in bytes."""
    return len(json.dumps(content, ensure_ascii=False).encode(errors="replace"))


@settings(deadline=None)
@given(_LINES, st.data())
def test_a_window_is_whole_lines_around_its_position(lines: list[str], data: st.DataObject) -> None:
    whole = "\n".join(lines)
    at = data.draw(st.integers(0, max(0, len(whole) - 1)))
    room = data.draw(st.integers(0, 200))
    start, end = budget.window(whole, at, room)
    shown = whole[start:end]

    assert 0 <= start <= at <= max(end, at) <= len(whole)
    assert shown == "" or json_bytes(shown) <= room

    # A window that has room for its own line has whole lines only.
    line = whole[whole.rfind("\n", 0, at) + 1 :].split("\n")[0] + "\n"
    if whole and json_bytes(line) <= room:
        assert start == 0 or whole[start - 1] == "\n"
        assert end == len(whole) or whole[end - 1] == "\n"
        assert start <= at < end
    if json_bytes(whole) <= room:
        assert shown == whole


# ---- messages


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", -32700),
        (b"{", -32700),
        (b"\xff\xfe\x00", -32700),
        (b"[" * 100_000, -32700),
        (b'{"jsonrpc": "2.0", "id": NaN, "method": "ping"}', -32700),
        (b'{"jsonrpc": "2.0", "id": ' + b"9" * 5000 + b', "method": "ping"}', -32700),
        (b'{"jsonrpc": "2.0", "id": 1, "id": 2, "method": "ping"}', -32600),
        (b"[]", -32600),
        (b'[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]', -32600),
        (b"null", -32600),
        (b'"ping"', -32600),
        (b"{}", -32600),
        (b'{"jsonrpc": "1.0", "id": 1, "method": "ping"}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "method": 5}', -32600),
        (b'{"jsonrpc": "2.0", "id": null, "method": "ping"}', -32600),
        (b'{"jsonrpc": "2.0", "id": true, "method": "ping"}', -32600),
        (b'{"jsonrpc": "2.0", "id": {}, "method": "ping"}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}', -32600),
        (b'{"jsonrpc": "2.0", "id": "' + b"x" * 257 + b'", "method": "ping"}', -32600),
    ],
)
def test_malformed_messages_have_error_codes(client: TestClient, body: bytes, code: int) -> None:
    response = client.post("/mcp", content=body, headers={"Content-Type": "application/json"})
    assert response.status_code == 400
    reply = response.json()
    assert (reply["jsonrpc"], reply["id"], reply["error"]["code"]) == ("2.0", None, code)
    assert reply["error"]["message"]


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("nothing", None, -32601),
        ("server/discover", None, -32601),
        ("resources/list", {}, -32601),
        ("ping", [], -32602),
        ("initialize", {}, -32602),
        ("initialize", {"protocolVersion": 5}, -32602),
        ("tools/call", {}, -32602),
        ("tools/call", {"name": "nothing"}, -32602),
        ("tools/call", {"name": ["search_code"]}, -32602),
        ("tools/call", {"name": "search_code", "arguments": []}, -32602),
    ],
)
def test_unknown_requests_are_errors(
    client: TestClient, method: str, params: Any, code: int
) -> None:
    assert rpc(client, method, params)["error"]["code"] == code


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(st.sampled_from(["jsonrpc", "id", "method", "params", "result"]), _JSON),
    st.dictionaries(st.sampled_from(["name", "arguments", "_meta", "protocolVersion"]), _JSON),
    st.sampled_from(["initialize", "ping", "tools/list", "tools/call"]),
)
def test_any_message_is_answered(
    client: TestClient, message: dict[str, Any], params: dict[str, Any], method: str
) -> None:
    complete = {"jsonrpc": "2.0", "method": method, "id": "x", "params": params} | message
    headers = {"Content-Type": "application/json"}
    for sent in (message, complete):
        response = client.post("/mcp", content=json.dumps(sent), headers=headers)
        assert response.status_code in (200, 202, 400)
        if response.status_code != 202:
            assert response.json()["jsonrpc"] == "2.0"


@pytest.mark.parametrize("requested", [*HANDSHAKE, "2024-10-07", "2099-01-01", VERSION])
def test_the_protocol_version_is_negotiated(client: TestClient, requested: str) -> None:
    result = rpc(
        client, "initialize", {"protocolVersion": requested, "capabilities": {}, "clientInfo": {}}
    )["result"]
    assert result["protocolVersion"] == (requested if requested in HANDSHAKE else HANDSHAKE[-1])
    assert result["capabilities"] == {"tools": {}}
    assert result["serverInfo"]["name"] == "purlin"


def test_clients_of_2024_get_their_version() -> None:
    # They end the connection where they are offered a later one.
    assert "2024-11-05" in HANDSHAKE


def test_an_unknown_version_is_refused(client: TestClient) -> None:
    for version in HANDSHAKE:
        response = client.post("/mcp", json=PING, headers={"MCP-Protocol-Version": version})
        assert response.status_code == 200

    refused = client.post("/mcp", json=PING, headers={"MCP-Protocol-Version": "1999-01-01"})
    assert refused.status_code == 400
    assert refused.json()["error"]["code"] == -32022
    expected = {"supported": [*HANDSHAKE, *STATELESS], "requested": "1999-01-01"}
    assert refused.json()["error"]["data"] == expected


def test_notifications_are_accepted_without_a_body(client: TestClient) -> None:
    for message in (
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}},
        {"jsonrpc": "2.0", "id": 1, "result": {}},
    ):
        response = client.post("/mcp", json=message)
        assert (response.status_code, response.content) == (202, b"")

    assert rpc(client, "ping") == {"result": {}}


def test_streams_are_not_offered(client: TestClient) -> None:
    for method in ("GET", "DELETE"):
        response = client.request(method, "/mcp")
        assert problem(response, 405)
        assert response.headers["allow"] == "POST"

    params = {"protocolVersion": HANDSHAKE[0]}
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    assert "mcp-session-id" not in client.post("/mcp", json=message).headers


def stateless(
    client: TestClient, method: str, params: Any, **headers: str
) -> tuple[int, dict[str, Any]]:
    message = {"jsonrpc": "2.0", "id": "a", "method": method, "params": params}
    all_headers = {"MCP-Protocol-Version": VERSION, "Mcp-Method": method} | headers
    # An empty header in a test case means that it is not sent.
    sent_headers = {name: value for name, value in all_headers.items() if value}

    response = client.post("/mcp", json=message, headers=sent_headers)
    return response.status_code, response.json()


def test_stateless_requests_need_no_handshake(client: TestClient) -> None:
    status, reply = stateless(client, "server/discover", {"_meta": META})
    assert status == 200
    assert reply["result"]["supportedVersions"] == list(STATELESS)
    assert reply["result"]["resultType"] == "complete"

    call = {"_meta": META, "name": "classify", "arguments": {"texts": ["a"], "labels": ["a", "b"]}}
    for name in ("classify", "=?base64?Y2xhc3NpZnk=?="):
        status, reply = stateless(client, "tools/call", call, **{"Mcp-Name": name})
        assert (status, reply["result"]["isError"]) == (200, False)


@pytest.mark.parametrize(
    ("method", "params", "headers", "status", "code"),
    [
        ("tools/list", {}, {}, 400, -32602),
        ("tools/list", {"_meta": {}}, {}, 400, -32602),
        ("tools/list", {"_meta": META}, {"Mcp-Method": "ping"}, 400, -32020),
        ("tools/list", {"_meta": META}, {"Mcp-Method": ""}, 400, -32020),
        ("tools/list", {"_meta": META | {"io.modelcontextprotocol/protocolVersion": "x"}}, {}, 400, -32020),
        ("tools/call", {"_meta": META, "name": "classify"}, {}, 400, -32020),
        ("tools/call", {"_meta": META, "name": "classify"}, {"Mcp-Name": "=?base64?%?="}, 400, -32020),
        ("ping", {"_meta": META}, {}, 404, -32601),
        ("initialize", {"_meta": META}, {}, 404, -32601),
    ],
)  # fmt: skip
def test_inconsistent_stateless_requests_are_refused(
    client: TestClient, method: str, params: Any, headers: dict[str, str], status: int, code: int
) -> None:
    actual_status, reply = stateless(client, method, params, **headers)
    assert (actual_status, reply["error"]["code"], reply["id"]) == (status, code, "a")


# ---- origins and keys


@pytest.fixture(scope="module")
def listing_client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """A client of a server that lists one origin."""
    home = tmp_path_factory.mktemp("empty")
    with serving(home, cors_origins="https://app.example.org") as client:
        yield client


@pytest.mark.parametrize(
    ("origin", "allowed"),
    [
        ("http://localhost:3000", True),
        ("https://127.0.0.1", True),
        ("http://[::1]:8000", True),
        ("https://app.example.org", True),
        ("https://app.example.org:444", False),
        ("http://evil.example", False),
        ("http://localhost.evil.example", False),
        ("http://127.0.0.1.evil.example", False),
        ("http://testserver", False),
        ("null", False),
        ("file://", False),
        ("http://[", False),
        ("", False),
    ],
)
def test_only_local_and_listed_origins_are_allowed(
    listing_client: TestClient, origin: str, allowed: bool
) -> None:
    response = listing_client.post("/mcp", json=PING, headers={"Origin": origin})

    assert response.status_code == (200 if allowed else 403)
    if not allowed:
        assert "PURLIN_CORS_ORIGINS" in problem(response, 403)["detail"]


def test_listed_origins_may_send_protocol_headers(listing_client: TestClient) -> None:
    sent = "authorization,content-type,mcp-protocol-version,mcp-method,mcp-name"
    preflight = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": sent}
    for origin, status in (("https://app.example.org", 200), ("https://evil.example", 400)):
        response = listing_client.options("/mcp", headers={"Origin": origin} | preflight)
        assert response.status_code == status


def test_other_content_types_are_refused(client: TestClient) -> None:
    assert problem(client.post("/mcp", content=b"{}", headers={"Content-Type": "text/plain"}), 415)


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
