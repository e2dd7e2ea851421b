"""The tools that search code and what is near it."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from purlin.app.agents.code import _code_result
from purlin.index.indexing.build import build
from purlin.index.indexing.builder import Options
from purlin.index.records import Document, Hit, Location
from purlin.index.search.corpus import Corpus
from purlin.index.sources import open_source
from purlin.replies import SearchReply
from tests.support.agents import FILES, call, text
from tests.support.files import write_tree
from tests.support.hash_encoder import HashEncoder
from tests.support.serving import make, numbered, ready, serving, until


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
            'Nothing in project fits path nowhere: leave it out, or search content "all". '
            "No document has a 'path' that the filter passes."
        )


def test_the_head_counts_what_uses_a_name(tmp_path: Path) -> None:
    write_tree(
        tmp_path / "locks",
        {
            "lock.py": "def take_lock(name):\n    return Lock(name)\n",
            "jobs.py": "".join(f"def job_{n}():\n    take_lock('{n}')\n\n\n" for n in range(4)),
        },
    )
    build(tmp_path, "locks", "code", open_source("code", [tmp_path / "locks"]), HashEncoder())
    with ready(tmp_path) as client:
        users = call(client, "search_code", query="who calls take_lock", k=2)
        others = call(client, "search_code", query="take_lock")

    assert "; uses take_lock: at least 4 documents" in text(users).splitlines()[0]
    assert users["structuredContent"]["related"] == 4
    assert "at least" not in text(others).splitlines()[0]
    assert "related" not in others["structuredContent"]


def test_a_file_that_a_server_could_not_read_is_named(client: TestClient) -> None:
    result = call(client, "search_code", query="download a page", path="web/data")
    assert text(result).endswith(" web/data.py is not indexed (binary: it holds a zero byte).")


def test_a_path_without_its_folder_is_completed(client: TestClient) -> None:
    def advice(path: str) -> str:
        result = call(client, "search_code", query="sort", path=path, language="go")
        return text(result).partition(' content "all".')[2]

    assert " Did you mean path tools/sort.py?" in advice("sort.py")
    # A part of a name is no path, and a path that is there needs no other.
    for path in ("ort.py", "tools/sort.py", "tools/", "tools"):
        assert "Did you mean" not in advice(path)


def test_languages_are_in_lower_case_and_listed_if_none_is_meant(client: TestClient) -> None:
    result = call(client, "search_code", query="download a page", language="JavaScript")
    assert [hit["path"] for hit in result["structuredContent"]["hits"]] == ["web/fetch.js"]

    result = call(client, "search_code", query="download a page", language="js")
    assert [hit["path"] for hit in result["structuredContent"]["hits"]] == ["web/fetch.js"]

    result = call(client, "search_code", query="sort rows of a page", language="Golang")
    assert result["structuredContent"]["hits"] == []
    assert "Nothing in project fits language Golang: leave it out" in text(result)
    assert "It has: javascript, python." in text(result)


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


def test_paths_start_with_the_source_if_several(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "code.py").write_text(f"def in_{name}(rows):\n    return rows\n")

    sources = open_source("code", [tmp_path / "one", tmp_path / "two"])
    build(tmp_path, "both", "code", sources, HashEncoder())
    with ready(tmp_path) as client:
        (hit,) = call(client, "search_code", query="rows", path="two/")["structuredContent"]["hits"]

    assert hit["path"] == "two/code.py"


def test_all_corpora_of_a_kind_are_searched_by_default(home: Path, tmp_path: Path) -> None:
    with serving(tmp_path) as client:
        assert "no corpus of kind code" in text(call(client, "search_code", query="x"))

        for name in ("one", "two"):
            make(tmp_path, name, numbered(2))
        until(lambda: f"{name} (" in text(call(client, "search_code", query="number 0")))

        several = call(client, "find_related", id="n0")
        assert "`corpus` to one of one, two" in text(several)

        both = call(client, "search_code", query="number 0", k=2)
        assert [each["corpus"] for each in both["structuredContent"]["corpora"]] == ["one", "two"]
        assert {hit["corpus"] for hit in both["structuredContent"]["hits"]} == {"one", "two"}
        assert "1. one: n0 number 0" in text(both)

        named = call(client, "search_code", query="x", corpus="two")
        assert named["structuredContent"]["corpus"] == "two"


def test_related_code_excludes_the_code_itself(client: TestClient) -> None:
    by_place = call(client, "find_related", id="tools/sort.py:2", k=20, max_tokens=20_000)
    by_id = call(client, "find_related", id="tools/sort.py::sort_numbers", k=20, max_tokens=20_000)
    hits = by_place["structuredContent"]["hits"]

    assert {hit["path"] for hit in hits} == FILES.keys() - {"tools/sort.py"}
    assert [hit["score"] for hit in hits] == sorted((hit["score"] for hit in hits), reverse=True)
    assert by_id["structuredContent"] == by_place["structuredContent"]
    assert text(by_place).startswith("3 hits near tools/sort.py:2 in project (build ")


def test_a_file_that_has_changed_is_marked(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for name in ("one", "two"):
        (source / f"{name}.py").write_text(f"def {name}(rows):\n    return rows\n")
    files = open_source("code", [source])
    build(tmp_path, "code", "code", files, HashEncoder(), options=Options(origin=(str(source),)))
    time.sleep(0.02)
    (source / "two.py").unlink()

    with ready(tmp_path) as client:
        result = call(client, "search_code", query="rows")
        whole = call(client, "read_document", id="two.py:1")

    changed = {hit["path"]: hit.get("changed") for hit in result["structuredContent"]["hits"]}
    assert changed == {"one.py": None, "two.py": True}
    assert "files changed since: 1" in text(result)
    assert whole["structuredContent"]["changed"] is True


def test_content_narrows_a_corpus_that_tells_it(tmp_path: Path) -> None:
    documents = [
        Document(f"{what}.md", "code", what, f"rows of {what}", fields={"content": what})
        for what in ("code", "docs", "config")
    ]
    make(tmp_path, "mixed", documents)
    with ready(tmp_path) as client:

        def titles(**arguments: str) -> set[str]:
            reply = call(client, "search_code", query="rows", **arguments)
            return {hit["title"] for hit in reply["structuredContent"]["hits"]}

        assert titles() == {"code"}
        assert titles(content="docs") == {"docs"}
        assert titles(content="all") == {"code", "docs", "config"}


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
    (shown,) = result.structured["hits"]
    assert ("code_line" in shown, shown["opening"]) == (False, "def f(a):")
    assert re.search(r"\ndef f\(a\):\n… \d+ lines\n    a\.step\(", result.text)


def test_an_end_of_line_in_the_name_of_a_file_does_not_end_the_head_of_a_hit() -> None:
    hit = Hit(
        "a\nb.py::f",
        "a\nb.py::f",
        1,
        0.5,
        {},
        "f",
        "def f(): ...",
        (),
        Location("a\nb.py", 1, 1),
        {},
    )
    reply = SearchReply((hit,), 1, 1.0, "code", "b", "e")
    result = _code_result(reply, 400, near=hit.document_id)
    assert result.text.splitlines()[1].startswith(r"1. a\nb.py:1-1 f · 0.50")
    assert result.structured["hits"][0]["path"] == "a\nb.py"


def test_a_long_signature_above_a_cut_ends_in_an_ellipsis() -> None:
    lines = ["def f(", *["    a.step()"] * 300, "    a.retry()", *["    a.step()"] * 300]
    fields = {"signature": f"def f({', '.join(['argument'] * 40)})"}
    hit = Hit(
        "a.py::f",
        "a.py::f",
        1,
        0.5,
        {},
        "f",
        "\n".join(lines),
        (),
        Location("a.py", 1, 602),
        fields,
    )
    result = _code_result(SearchReply((hit,), 1, 1.0, "code", "b", "e"), 400, query="retry")
    opening = result.structured["hits"][0]["opening"]
    assert len(opening) == 160
    assert opening.endswith("…")


def test_beside_what_is_named_only_likely_hits_are_shown() -> None:
    def shown(*, named: bool) -> list[str]:
        hits = [
            Hit(f"a.py::{title}", title, 1, score, {}, title, title, (), Location("a.py", 1, 1), {})
            for title, score in (("frame", 1.0), ("caller", 0.3), ("word", 0.15))
        ]
        hits[0] = replace(hits[0], explanation={"named": named})
        result = _code_result(SearchReply(tuple(hits), 3, 1.0, "code", "b", "e"), 1_000)
        return [hit["title"] for hit in result.structured["hits"]]

    assert shown(named=True) == ["frame", "caller"]
    assert shown(named=False) == ["frame", "caller", "word"]


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


def test_a_regexp_limits_hits_to_code_with_a_matching_line(client: TestClient) -> None:
    result = call(client, "search_code", query="sort rows", regexp=r"return sorted\(")
    [hit] = result["structuredContent"]["hits"]
    assert hit["path"] == "tools/sort.py"
    line = hit["matching_lines"][0]
    assert FILES["tools/sort.py"].splitlines()[line - 1].strip().startswith("return sorted(")
    assert hit["why"].startswith("1 line matches; ")
    assert text(result).splitlines()[0].endswith("; 1 document in all")
    assert f" · line {line}" in text(result).splitlines()[1]


def test_a_regexp_needs_no_query_and_shows_its_line(client: TestClient) -> None:
    result = call(client, "search_code", regexp=r"^\s+return", max_tokens=200)
    hits = result["structuredContent"]["hits"]
    assert hits
    assert all("return" in hit.get("code", "return") for hit in hits)

    refused = call(client, "search_code", regexp="a(b")
    assert refused["isError"]
    assert "at character 2: unclosed group" in text(refused)
    assert call(client, "search_code")["isError"]

    nothing = text(call(client, "search_code", query="sort", regexp="no such line", path="web/"))
    assert "fits path web/ and regexp no such line" in nothing
    assert "web/" in nothing.rpartition("regular expression.")[2]
