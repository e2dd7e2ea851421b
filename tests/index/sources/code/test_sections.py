"""Sections of documentation, and windows of what has none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from purlin.index.records import Document, Skipped
from purlin.index.sources.code.sections import MAX_WINDOW_CHARS, MAX_WINDOW_LINES, windows
from tests.support.code_documents import documents, read
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


def rows(documents: list[Document]) -> list[tuple[str, tuple[str, ...], int | None, int | None]]:
    return [(d.title, d.context, d.location.start_line, d.location.end_line) for d in documents]


def test_sections_of_pod(tmp_path: Path) -> None:
    write_tree(
        tmp_path,
        {
            "pumps.pod": "=head1 Pumps\n\nAll about them.\n\n=head2 Hand pumps\n\n  # not = a heading\n\n=cut\n"
        },
    )
    expected = [("Pumps", (), 1, 3), ("Hand pumps", ("Pumps",), 5, 9)]
    assert rows(documents(tmp_path, content="all")) == expected


def test_sections_of_markdown(tmp_path: Path) -> None:
    write_tree(tmp_path, {"docs/pumps.md": MARKDOWN})
    sections = documents(tmp_path, content="all")

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
    assert rows(documents(tmp_path, content="all")) == [
        ("Pumps", (), 1, 5),
        ("Hand pumps", ("Pumps",), 7, 10),
        ("Parts", ("Pumps", "Hand pumps"), 12, 15),
        ("Solar pumps", ("Pumps",), 17, 20),
    ]


def test_headings_without_text_have_no_document(tmp_path: Path) -> None:
    write_tree(tmp_path, {"a.md": "# Pumps\n\n## Hand pumps\n\nSlow.\n", "b.rst": "Wells\n=====\n"})
    assert rows(documents(tmp_path, content="all")) == [("Hand pumps", ("Pumps",), 3, 5)]


def test_long_sections_are_cut_at_blank_lines(tmp_path: Path) -> None:
    paragraph = "A sentence about pumps.\n" * 20
    write_tree(tmp_path, {"a.md": "# Pumps\n\n" + "\n".join([paragraph] * 6)})
    parts = documents(tmp_path, content="all")

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
    section, broken = read(tmp_path, content="all")

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
    (section,) = documents(tmp_path, content="all")
    assert section.title == "Pumps"
    assert section.body == "## Pumps\n\nHow they work.\n\n```\npump()\nstop()\n```"


def test_definitions_in_cells_are_code(tmp_path: Path) -> None:
    code = "%matplotlib inline\n\ndef fill(tank):\n    return tank\n\nclass Pump:\n    def stop(self):\n        pass\n"
    cells = [
        {"cell_type": "markdown", "source": "Pumps."},
        {"cell_type": "code", "source": code.splitlines(keepends=True)},
        {"cell_type": "code", "source": "def fill(tank): return fill(tank)"},
    ]
    write_tree(tmp_path, {"a.ipynb": json.dumps({"cells": cells, "metadata": {}})})
    _, *definitions = documents(tmp_path, content="all")

    assert [(each.title, each.fields["name"]) for each in definitions] == [
        ("cell 2 line 3.fill", "fill"),
        ("cell 2 line 6.Pump", "Pump"),
        ("cell 2 line 7.Pump.stop", "stop"),
        ("cell 3 line 1.fill", "fill"),
    ]
    assert [each.summary for each in definitions] == ["Pumps.", "Pumps.", "Pumps.", ""]
    assert [each.id.partition("::")[2] for each in definitions] == [
        "cell 2.fill",
        "cell 2.Pump",
        "cell 2.Pump.stop",
        "cell 3.fill",
    ]
    for each in definitions:
        assert (each.fields["language"], each.fields["content"]) == ("python", "code")
        assert each.location.start_line is None


def test_half_a_surrogate_pair_in_a_cell_is_marked(tmp_path: Path) -> None:
    cells = [{"cell_type": "code", "source": 'def fill():\n    return "\ud800"'}]
    write_tree(tmp_path, {"a.ipynb": json.dumps({"cells": cells, "metadata": {}})})
    section, definition = documents(tmp_path, content="all")
    assert section.body == '```\ndef fill():\n    return "?"\n```'
    assert definition.body == 'def fill():\n    return "?"'


@pytest.mark.parametrize(
    ("language", "titles"),
    [
        ({"file_extension": ".r"}, ["cell 1 line 2.fill"]),
        ({"file_extension": ".unknown"}, []),
        ({"file_extension": 3}, []),
        (None, []),
    ],
)
def test_the_language_of_a_notebook(tmp_path: Path, language: object, titles: list[str]) -> None:
    cells = [{"cell_type": "code", "source": "\nfill <- function(tank) {\n  tank\n}\n"}]
    notebook = {"cells": cells, "metadata": {"language_info": language}}
    write_tree(tmp_path, {"a.ipynb": json.dumps(notebook)})
    assert [each.title for each in documents(tmp_path, content="all")[1:]] == titles


def test_images_in_a_notebook_do_not_make_it_minified(tmp_path: Path) -> None:
    image = {"data": {"image/png": "A" * 5000}}
    cell = {"cell_type": "code", "source": "def fill(tank): pass", "outputs": [image]}
    write_tree(tmp_path, {"a.ipynb": json.dumps({"cells": [cell], "metadata": {}})})

    assert {each.fields["role"] for each in documents(tmp_path, content="all")} == {"source"}


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
    broken, other = read(tmp_path, content="all")
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
    assert [d.title for d in documents(tmp_path, content="all") if d.title != "a.md"] == ["Pumps"]


UNDERLINED = "Pumps\n{0}\n\n== Wells\n\nText.\n\n== Taps\n\nText.\n"
LISTING = "{0}\n== no\n--\n{0}"
LISTINGS = (
    f"= Pumps\n\n[source,sh]\n{LISTING}\n\n== Wells\n\nA sentence:\n{LISTING}\n== Taps\n\nText.\n"
)


@pytest.mark.parametrize(
    ("name", "text", "titles"),
    [
        # Underlines are no fences of listings, in either format.
        ("a.rst", "Pumps\n~~~~~\n\nText.\n\nWells\n~~~~~\n\nText.\n\nTaps\n````\n\nText.\n", "Pumps Wells Taps"),
        ("a.adoc", UNDERLINED.format("-----"), "a.adoc Wells Taps"),
        ("a.adoc", UNDERLINED.format("~~~~~"), "a.adoc Wells Taps"),
        *(("a.adoc", LISTINGS.format(mark), "Pumps Wells Taps") for mark in ("----", "....", "------", "```")),
        # The fence below a paragraph underlines no title.
        ("a.adoc", "= Pumps\n\nA long\nRun:\n----\n== no\n----\n\n== Wells\n\nText.\n", "Pumps Wells"),
    ],
)  # fmt: skip
def test_titles_beside_listings(tmp_path: Path, name: str, text: str, titles: str) -> None:
    write_tree(tmp_path, {name: text})
    assert [document.title for document in documents(tmp_path, content="all")] == titles.split()


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "line", ["a #" + " " * 100_000 + "b", "=" * 100_000 + "a", "[" * 100_000 + "a", "\\" * 100_000]
)
@pytest.mark.parametrize("name", ["a.md", "a.rst", "a.txt", "a.toml", "a.py", "a.js"])
def test_long_lines_are_read_in_time(tmp_path: Path, name: str, line: str) -> None:
    write_tree(tmp_path, {name: f"{line}\n{line}\n"})
    assert (
        "".join(document.body for document in documents(tmp_path, content="all")).count(line) == 2
    )


@settings(max_examples=150)
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


def test_windows_of_configuration(tmp_path: Path) -> None:
    table = "[table]\nkey = 1\n" + "other = 2\n" * 20
    write_tree(tmp_path, {"a.toml": "\n".join([table] * 5)})
    parts = documents(tmp_path, content="all")

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
