"""The tool that reads a document."""

from __future__ import annotations

from pathlib import Path

from fastapi.testclient import TestClient

from purlin.app.agents import budget
from purlin.index.records import Document
from tests.support.agents import FILES, call, text
from tests.support.serving import make, ready


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
    make(tmp_path, "code", [Document("a", "code", "a", "first\n" + "x" * 5000)])
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
