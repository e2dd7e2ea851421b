"""How results are cut to the number of tokens that is left."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st

from purlin.app.agents import budget
from purlin.index.records import Document, Location
from tests.support.agents import call, text
from tests.support.serving import make, numbered, ready


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


def test_a_last_line_that_is_shorter_than_a_note_on_it_is_shown() -> None:
    code = "\n".join([*(f"    line {number} of the code" for number in range(40)), "}"])
    part = budget.Part("src/app.c:1-41", {"path": "src/app.c"}, "code", code, first_line=1)
    notes = set()
    for max_tokens in range(300, 500):
        result = budget.fit(lambda _: budget.Result("head", {}), "hits", [part], max_tokens)
        assert result.size() <= max_tokens * budget.BYTES_PER_TOKEN
        notes |= set(re.findall("… .*", result.text))
    assert "… 1 line" not in notes
    assert {"… 2 lines", "… 3 lines"} < notes


def test_what_short_hits_do_not_need_is_left_for_long_ones() -> None:
    (long,) = long_parts(0.2)
    short = replace(long, text="pass", weight=0.9)
    assert shown_lines([short, long], 2_000)[1] > 2 * shown_lines(long_parts(0.9, 0.2), 2_000)[1]


def test_origins_of_many_corpora_leave_room_for_hits(tmp_path: Path) -> None:
    for number in range(8):
        make(tmp_path, f"corpus-with-a-long-name-{number}", numbered(2))
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
    make(tmp_path, "code", [document])
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
