"""Documentation, configuration and source code without a grammar."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from purlin.index.records import Content, Document, Skipped, SourceFile
from purlin.index.sources import open_source
from purlin.index.sources.code.contents import MAX_JSON_BYTES, LeftOut, file_type, language_name
from purlin.index.sources.code.repository import files, names
from purlin.index.sources.code.sections import MAX_WINDOW_CHARS, MAX_WINDOW_LINES, windows
from tests.support.files import write_tree

MARKDOWN = """\
---
title: Pumps
---
Water for everybody.

# Pumps

What they are for.

## Hand pumps ##

```sh
# not a heading
pump --slowly
```

Solar pumps
-----------

They need sun.
"""
RST = """\
=====
Pumps
=====

What they are for.

Hand pumps
==========

Slow but sure.

Parts
-----

A lever.

Solar pumps
===========

They need sun.
"""


def read(root: Path, content: Content = "all") -> list[Document | Skipped]:
    items: list[Document | Skipped] = []
    for file in files(root, content=content):
        items += [file] if isinstance(file, Skipped) else file.read()
    return items


def documents(root: Path, content: Content = "all") -> list[Document]:
    items = read(root, content)
    assert not [item for item in items if isinstance(item, Skipped)]
    return [item for item in items if isinstance(item, Document)]


def rows(documents: list[Document]) -> list[tuple[str, tuple[str, ...], int | None, int | None]]:
    return [(d.title, d.context, d.location.start_line, d.location.end_line) for d in documents]


# --- what is read ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "content", "language"),
    [
        ("src/a.py", "code", "python"),
        ("a/typing.pyi", "code", "python"),
        ("lib/a.HPP", "code", "cpp"),
        ("Rakefile", "code", "ruby"),
        ("schema.proto", "code", "protobuf"),
        ("style.scss", "code", "css"),
        ("README", "docs", "text"),
        ("docs/a.md", "docs", "markdown"),
        ("notes/plan.ipynb", "docs", "notebook"),
        ("Dockerfile", "code", "docker"),
        ("Dockerfile.prod", "code", "docker"),
        ("deploy/web.dockerfile", "code", "docker"),
        ("infra/main.tf", "code", "hcl"),
        ("infra/prod.tfvars", "config", "hcl"),
        ("CMakeLists.txt", "config", "cmake"),
        ("a/schema.sql", "code", "sql"),
        (".pre-commit-config.yaml", "config", "yaml"),
        (".env.example", None, None),
        # What a template is made into tells.
        ("src/config.h.in", "code", "c"),
        ("bin/run.sh.in", "code", "bash"),
        ("phpunit.xml.dist", "config", "xml"),
        ("settings.py.example", "code", "python"),
        ("chart/_helpers.tpl", "code", "template"),
        ("README.Debian", "docs", "text"),
        ("docs/cookbook.pod", "docs", "pod"),
        ("src/grammar.y", "code", "yacc"),
        ("http.rl", "code", "ragel"),
        ("src/queue.ads", "code", "ada"),
        ("schema.prisma", "code", "prisma"),
        ("db/orders.pkb", "code", "plsql"),
        ("blink/blink.ino", "code", "cpp"),
        ("Kiln.podspec", "code", "ruby"),
        ("lib/dune", "config", "dune"),
        ("functions", None, None),
    ],
)
def test_names_tell_the_content(path: str, content: str | None, language: str | None) -> None:
    kind = file_type(path)
    assert (getattr(kind, "content", None), getattr(kind, "language", None)) == (content, language)


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("yarn.lock", "a lock file"),
        ("web/package-lock.json", "a lock file"),
        (".env", "may hold secrets"),
        ("a/.env.production", "may hold secrets"),
        ("deploy/server.pem", "may hold secrets"),
        ("LICENSE.txt", "a licence"),
        ("data/rows.csv", "data rather than text"),
        ("logo.PNG", ""),
    ],
)
def test_names_that_are_never_read(path: str, reason: str) -> None:
    assert file_type(path) == LeftOut(reason)


def test_content_chooses_files(tmp_path: Path) -> None:
    write_tree(
        tmp_path,
        {
            "a.py": "def f(): pass",
            "README.md": "# Title\n\nText.",
            "pyproject.toml": "[project]\n",
            "poetry.lock": "x",
            "logo.png": "x",
            ".github/workflows/ci.yml": "on: push\n",
            ".venv/x.toml": "x = 1\n",
        },
    )

    def read_paths(content: Content) -> list[str | None]:
        return [document.location.path for document in documents(tmp_path, content)]

    assert read_paths("code") == ["a.py"]
    with pytest.raises(AssertionError):
        read_paths("docs")

    items = {content: read(tmp_path, content) for content in ("docs", "config", "all")}
    lock = Skipped("poetry.lock", "a lock file", by_choice=True)

    assert [getattr(item, "id", item) for item in items["docs"]] == ["README.md::Title", lock]
    expected = [".github/workflows/ci.yml::(text)", lock, "pyproject.toml::(text)"]
    assert [getattr(item, "id", item) for item in items["config"]] == expected
    assert len(items["all"]) == 5


@pytest.mark.parametrize("content", ["code", "docs", "config", "all"])
def test_names_are_those_of_the_files(tmp_path: Path, content: Content) -> None:
    write_tree(
        tmp_path,
        {
            "a.py": "",
            "b.md": "",
            "c.yml": "",
            "bin/run": "#!/bin/sh\n",
            "bin/notes": "no interpreter",
            "functions": 'in_path() {\n  type "$1" >/dev/null\n}\nif in_path jq; then\n  echo yes\nfi\n',
            "a.unheard": "x",
            "x.png": "",
            "poetry.lock": "",
        },
    )
    listed = [
        item.path for item in files(tmp_path, content=content) if isinstance(item, SourceFile)
    ]

    assert list(names(tmp_path, content)) == listed
    assert ("bin/run" in listed) == (content in ("code", "all"))
    assert ("functions" in listed) == (content in ("code", "all"))
    assert "bin/notes" not in listed


def test_open_source_takes_content(tmp_path: Path) -> None:
    write_tree(tmp_path, {"x/a.md": "# A\n", "y/a.py": "x = [\n1,\n]"})
    sources = open_source("code", [tmp_path / "x", tmp_path / "y"], content="docs")
    assert [item.path for item in sources] == ["x/a.md"]


@pytest.mark.parametrize(
    ("first_line", "language"),
    [
        ("#!/bin/bash -e", "bash"),
        ("#!/usr/bin/env python3", "python"),
        ("#!/usr/bin/env -S node --no-warnings", "javascript"),
        ("#! /usr/bin/ruby", "ruby"),
        ("#!/usr/bin/awk -f", "awk"),
        ("#!/usr/bin/perl -w", "perl"),
        ("#!/opt/bin/frobnicate", "script"),
        ("// Vectors. -*- C++ -*-", "cpp"),
        ("# -*- mode: ruby; indent: 2 -*-", "ruby"),
        ("# vim: set ft=python :", "python"),
        ("# shellcheck shell=dash", "bash"),
    ],
)
def test_a_script_without_a_suffix_is_read_by_its_first_line(
    tmp_path: Path, first_line: str, language: str
) -> None:
    write_tree(tmp_path, {"run": f"{first_line}\nx = 1\n"})
    (document,) = documents(tmp_path, "code")
    assert document.fields["language"] == language


SHELL_LIBRARY = """
# Functions of the pump's service scripts.

pump_running () {
    [ -e "$PUMP_PID" ] && kill -0 "$(cat "$PUMP_PID")"
}

stop_pump() {
    local tries=0
    while pump_running; do
        tries=$((tries + 1))
        if [ "$tries" -gt 5 ]; then
            return 1
        fi
        sleep 1
    done
}
"""


def test_a_shell_library_has_neither_suffix_nor_interpreter(tmp_path: Path) -> None:
    write_tree(tmp_path, {"lib/functions": SHELL_LIBRARY, "lib/pump-1.14": SHELL_LIBRARY})
    by_path: dict[str | None, list[str]] = {}
    for document in documents(tmp_path, "code"):
        assert document.fields["language"] == "bash"
        by_path.setdefault(document.location.path, []).append(document.title)
    assert by_path.keys() == {"lib/functions", "lib/pump-1.14"}
    assert by_path["lib/functions"][:2] == ["pump_running", "stop_pump"]


@pytest.mark.parametrize(
    "content",
    [
        "Package: pump\nDepends: libc6,\n libpump (>= 1)\nDescription: water\n",
        "When the work is done, call stop().\nThen wait;\ndone is done.\n",
        "main() {\n  return 0;\n}\nint x;\nint y;\nint z;\nchar *s;\nfloat f;\n",
        "-*- coding: utf-8 -*-\n",
        "see vi: the editor\n",
        "",
        "fi\nfi\n\0",
    ],
)
def test_a_file_whose_kind_is_not_told_is_left_out_and_listed(tmp_path: Path, content: str) -> None:
    write_tree(tmp_path, {"notes": content, ".hidden": content, "a.unheard": SHELL_LIBRARY})
    reason = "neither its name nor its first lines tell what it holds"
    assert read(tmp_path) == [
        Skipped(name, reason, by_choice=True) for name in ("a.unheard", "notes")
    ]
    assert list(files(tmp_path)) == []


def test_rules_that_make_runs_are_configuration(tmp_path: Path) -> None:
    write_tree(tmp_path, {"debian/rules": "#!/usr/bin/make -f\n%:\n\tdh $@\n"})
    assert documents(tmp_path)[0].fields["content"] == "config"
    assert list(files(tmp_path)) == []


def test_endless_lines_do_not_slow_the_look_at_a_file(tmp_path: Path) -> None:
    lines = ["vi:" * 100_000, "-*- " * 100_000, ";" * 300_000, "a " * 200_000, "# line " * 50_000]
    write_tree(tmp_path, {f"f{number}": line for number, line in enumerate(lines)})
    assert all(isinstance(item, Skipped) for item in read(tmp_path))


@pytest.mark.parametrize(
    ("name", "language"),
    [
        ("Golang", "go"),
        ("C++", "cpp"),
        (" JS ", "javascript"),
        ("Haskell", "haskell"),
        ("abc", "abc"),
    ],
)
def test_languages_have_other_names(name: str, language: str) -> None:
    assert language_name(name) == language


def test_headers_of_c_and_of_cpp(tmp_path: Path) -> None:
    write_tree(
        tmp_path,
        {
            "c.h": "struct a { int x; };\n",
            "cpp.h": "class A {\n public:\n  int x() { return 1; }\n};\n",
        },
    )
    expected = [("a", "c"), ("A", "cpp"), ("A.x", "cpp")]
    assert [(d.title, d.fields["language"]) for d in documents(tmp_path)] == expected


def test_large_json_is_data(tmp_path: Path) -> None:
    write_tree(tmp_path, {"a.json": f'["{"x" * MAX_JSON_BYTES}"]'})
    (item,) = read(tmp_path)
    assert item == Skipped(
        "a.json", "data rather than configuration: larger than 64 KiB", by_choice=True
    )


def test_translations_by_qt_are_data(tmp_path: Path) -> None:
    write_tree(
        tmp_path,
        {
            "lamp.ts": "export function dim() {}\n",
            "lamp_de.ts": '\ufeff<?xml version="1.0" encoding="utf-8"?>\n<!DOCTYPE TS>\n<TS language="de"></TS>\n',
        },
    )
    lamp, translations = read(tmp_path)
    assert isinstance(lamp, Document)
    assert translations == Skipped(
        "lamp_de.ts", "translations rather than TypeScript", by_choice=True
    )


def test_binary_content_behind_a_name_of_text(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_bytes(b"# A\0")
    assert read(tmp_path) == [Skipped("a.md", "binary: it holds a zero byte")]


# --- documentation --------------------------------------------------------------------------------


def test_sections_of_pod(tmp_path: Path) -> None:
    write_tree(
        tmp_path,
        {
            "pumps.pod": "=head1 Pumps\n\nAll about them.\n\n=head2 Hand pumps\n\n  # not = a heading\n\n=cut\n"
        },
    )
    expected = [("Pumps", (), 1, 3), ("Hand pumps", ("Pumps",), 5, 9)]
    assert rows(documents(tmp_path)) == expected


def test_sections_of_markdown(tmp_path: Path) -> None:
    write_tree(tmp_path, {"docs/pumps.md": MARKDOWN})
    sections = documents(tmp_path)

    assert rows(sections) == [
        ("pumps.md", (), 1, 4),
        ("Pumps", (), 6, 8),
        ("Hand pumps", ("Pumps",), 10, 15),
        ("Solar pumps", ("Pumps",), 17, 20),
    ]
    assert sections[2].body == "## Hand pumps ##\n\n```sh\n# not a heading\npump --slowly\n```"
    assert {d.fields["content"] for d in sections} == {"docs"}
    assert {d.fields["kind"] for d in sections} == {"section"}


def test_sections_of_restructuredtext(tmp_path: Path) -> None:
    write_tree(tmp_path, {"pumps.rst": RST})
    assert rows(documents(tmp_path)) == [
        ("Pumps", (), 1, 5),
        ("Hand pumps", ("Pumps",), 7, 10),
        ("Parts", ("Pumps", "Hand pumps"), 12, 15),
        ("Solar pumps", ("Pumps",), 17, 20),
    ]


def test_headings_without_text_have_no_document(tmp_path: Path) -> None:
    write_tree(tmp_path, {"a.md": "# Pumps\n\n## Hand pumps\n\nSlow.\n", "b.rst": "Wells\n=====\n"})
    assert rows(documents(tmp_path)) == [("Hand pumps", ("Pumps",), 3, 5)]


def test_long_sections_are_cut_at_blank_lines(tmp_path: Path) -> None:
    paragraph = "A sentence about pumps.\n" * 20
    write_tree(tmp_path, {"a.md": "# Pumps\n\n" + "\n".join([paragraph] * 6)})
    parts = documents(tmp_path)

    assert len(parts) > 2
    assert {part.title for part in parts} == {"Pumps"}
    assert len({part.id for part in parts}) == len(parts)
    assert all(part.body.count("\n") < MAX_WINDOW_LINES for part in parts)
    assert "".join("".join(part.body.split()) for part in parts) == "".join(
        (tmp_path / "a.md").read_text().split()
    )


def test_cells_of_a_notebook(tmp_path: Path) -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# Pumps\n", "How they work."]},
        {"cell_type": "code", "source": "pump()", "outputs": [{"text": "splash"}]},
    ]
    write_tree(tmp_path, {"a.ipynb": json.dumps({"cells": cells}), "b.ipynb": "[]"})
    section, broken = read(tmp_path)

    assert isinstance(section, Document)
    assert section.title == "Pumps"
    assert section.body == "# Pumps\nHow they work.\n\n```\npump()\n```"
    assert section.location.path == "a.ipynb"
    assert section.location.start_line is None
    assert isinstance(broken, Skipped)
    assert broken.reason.startswith("not a notebook: ")


def test_cells_of_an_old_notebook(tmp_path: Path) -> None:
    sheets = [
        {"cells": [{"cell_type": "heading", "level": 2, "source": ["Pumps"]}]},
        {
            "cells": [
                {"cell_type": "markdown", "source": "How they work."},
                {"cell_type": "code", "input": ["pump()\n", "stop()"], "outputs": []},
            ]
        },
    ]
    write_tree(tmp_path, {"a.ipynb": json.dumps({"nbformat": 3, "worksheets": sheets})})
    (section,) = documents(tmp_path)
    assert section.title == "Pumps"
    assert section.body == "## Pumps\n\nHow they work.\n\n```\npump()\nstop()\n```"


@pytest.mark.parametrize(
    "notebook",
    [
        {},
        {"worksheets": [{}]},
        {"worksheets": None},
        {"cells": None},
        {"cells": [{}]},
        {"cells": [{"cell_type": "code"}]},
        {"cells": [{"cell_type": "markdown", "source": None}]},
        {"cells": [{"cell_type": "heading", "source": "Pumps"}]},
        {"cells": [{"cell_type": "heading", "level": "2", "source": "Pumps"}]},
        {"cells": [{"cell_type": "heading", "level": 1e300, "source": None}]},
        {"cells": {"a": 1}},
        3,
        None,
    ],
)
def test_malformed_notebooks_are_skipped(tmp_path: Path, notebook: object) -> None:
    write_tree(tmp_path, {"a.ipynb": json.dumps(notebook), "b.md": "Wells."})
    broken, other = read(tmp_path)
    assert isinstance(broken, Skipped)
    assert broken.reason.startswith("not a notebook: ")
    assert isinstance(other, Document)


FENCES = {
    "inline code begins no block": "```npm install```\n\n# Pumps\n\nText.\n",
    "an info string ends no block": "# Pumps\n\n```\n```python\n# no\n```\n\nText.\n",
    "another character ends no block": "# Pumps\n\n~~~\n```\n# no\n~~~\n\nText.\n",
    "fewer characters end no block": "# Pumps\n\n````md\n```\n# no\n````\n\nText.\n",
    "more characters end a block": "```\nA\n`````\n\n# Pumps\n\nText.\n",
    "spaces may follow the end": "~~~ `a`\nA\n~~~  \n\n# Pumps\n\nText.\n",
    "indented code ends no block": "# Pumps\n\n```\n    ```\n# no\n```\n\nText.\n",
    "a block in a list": "1. A\n   ```\n   # no\n    ```\n\n# Pumps\n\nText.\n",
}


@pytest.mark.parametrize("text", FENCES.values(), ids=FENCES)
def test_fences_of_markdown(tmp_path: Path, text: str) -> None:
    write_tree(tmp_path, {"a.md": text})
    assert [d.title for d in documents(tmp_path) if d.title != "a.md"] == ["Pumps"]


def test_underlines_are_no_fences(tmp_path: Path) -> None:
    text = "Pumps\n~~~~~\n\nText.\n\nWells\n~~~~~\n\nText.\n\nTaps\n````\n\nText.\n"
    write_tree(tmp_path, {"a.rst": text})
    assert [document.title for document in documents(tmp_path)] == ["Pumps", "Wells", "Taps"]


@pytest.mark.parametrize("mark", ["----", "....", "------", "```"])
def test_listings_of_asciidoc(tmp_path: Path, mark: str) -> None:
    listing = f"{mark}\n== no\n--\n{mark}"
    text = f"= Pumps\n\n[source,sh]\n{listing}\n\n== Wells\n\nA sentence:\n{listing}\n== Taps\n\nText.\n"
    write_tree(tmp_path, {"a.adoc": text})
    assert [document.title for document in documents(tmp_path)] == ["Pumps", "Wells", "Taps"]


def test_underlined_titles_of_asciidoc_begin_no_listing(tmp_path: Path) -> None:
    text = "Pumps\n-----\n\n== Wells\n\nText.\n\n== Taps\n\nText.\n"
    write_tree(tmp_path, {"a.adoc": text})
    assert [document.title for document in documents(tmp_path)] == ["a.adoc", "Wells", "Taps"]
    write_tree(tmp_path, {"a.adoc": text.replace("-----", "~~~~~")})
    assert [document.title for document in documents(tmp_path)] == ["a.adoc", "Wells", "Taps"]


def test_a_listing_below_a_paragraph_of_asciidoc_begins_no_title(tmp_path: Path) -> None:
    text = "= Pumps\n\nA long\nRun:\n----\n== no\n----\n\n== Wells\n\nText.\n"
    write_tree(tmp_path, {"a.adoc": text})
    assert [document.title for document in documents(tmp_path)] == ["Pumps", "Wells"]


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "line", ["a #" + " " * 100_000 + "b", "=" * 100_000 + "a", "[" * 100_000 + "a", "\\" * 100_000]
)
@pytest.mark.parametrize("name", ["a.md", "a.rst", "a.txt", "a.toml", "a.py", "a.js"])
def test_long_lines_are_read_in_time(tmp_path: Path, name: str, line: str) -> None:
    write_tree(tmp_path, {name: f"{line}\n{line}\n"})
    assert "".join(document.body for document in documents(tmp_path)).count(line) == 2


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    parts=st.lists(
        st.sampled_from(
            [
                "# A\n",
                "## B\n",
                "A\n",
                "===\n",
                "---\n",
                "```\n",
                "\n",
                " ",
                "é",
                "<b>",
                '{"cells": [',
                "]}",
            ]
        ),
        max_size=20,
    ),
    suffix=st.sampled_from([".md", ".rst", ".txt", ".ipynb", ".yml", ".html", ".vue"]),
)
def test_any_text_gives_consistent_documents(tmp_path: Path, parts: list[str], suffix: str) -> None:
    source = "".join(parts)
    (tmp_path / f"one{suffix}").write_text(source)
    items = [item for item in read(tmp_path / f"one{suffix}") if isinstance(item, Document)]

    assert len({item.id for item in items}) == len(items)
    for item in items:
        lines = source.split("\n")
        first, last = item.location.start_line, item.location.end_line
        assert item.body.strip()
        if first is not None and last is not None:
            bodies = {line.rstrip() for line in item.body.split("\n")}
            assert bodies <= {*(line.rstrip() for line in lines[first - 1 : last]), ""}


# --- windows --------------------------------------------------------------------------------------


def test_windows_of_configuration(tmp_path: Path) -> None:
    table = "[table]\nkey = 1\n" + "other = 2\n" * 20
    write_tree(tmp_path, {"a.toml": "\n".join([table] * 5)})
    parts = documents(tmp_path)

    assert all(part.body.startswith("[table]") for part in parts)
    assert [part.fields["kind"] for part in parts] == ["text"] * len(parts)
    assert parts[0].location.start_line == 1
    assert parts[-1].location.end_line == (tmp_path / "a.toml").read_text().count("\n")


@pytest.mark.parametrize("line", ["x", "x" * 90, "x" * 3 * MAX_WINDOW_CHARS, "  x"])
def test_windows_hold_every_row_once_and_are_bounded(line: str) -> None:
    lines = [line] * 130
    kept = [row for row in range(130) if row % 40 != 3]
    groups = list(windows(lines, kept))

    assert [row for group in groups for row in group] == kept
    assert all(len(group) <= MAX_WINDOW_LINES for group in groups)
    assert all(
        len(group) == 1 or sum(len(lines[row]) + 1 for row in group) <= MAX_WINDOW_CHARS
        for group in groups
    )


def test_windows_of_nothing() -> None:
    assert list(windows([], [])) == []
    assert list(windows(["", " "], [0, 1])) == []
