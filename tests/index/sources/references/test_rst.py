"""reStructuredText becomes documents, well-formed and not."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from purlin.index.sources.references import manual
from tests.support.references import REFERENCE, by_id, only_skipped, read


def test_versions_of_restructuredtext_stay(tmp_path: Path) -> None:
    versions = ["3.0.1 (2020-01-01)", "3.0.0 (2019-01-01)"]
    parts = [f"{version}\n{'-' * len(version)}\n\nFix.\n" for version in versions]
    (tmp_path / "a.rst").write_text("Pumps\n=====\n\n" + "\n".join(parts))
    documents, _ = read(tmp_path)
    assert [document.title for document in documents] == versions


def test_rst_keeps_sphinx_directives() -> None:
    documents = by_id(REFERENCE / "markup")
    bodies = {
        name.partition("#")[2]: document.body
        for name, document in documents.items()
        if name.startswith("api")
    }

    assert bodies["shuttle.weave"] == (
        "weave(warp, /, *, weft=None)\nweave(warp)\n\nReturn a cloth.\n\n"
        "New in version 1.4: The weft parameter.\n\n>>> weave(\"ab\")\n  'ab'"
    )
    assert bodies["shuttle.Shuttle"] == "class Shuttle(thread)\n\nCarries the thread."
    assert bodies["shuttle.Shuttle.throw"] == "throw(force=1)\n\nThrow it."
    assert bodies["cmdoption-q"] == "-q, --quiet\n\nSay nothing."
    assert bodies["shuttle-api"] == (
        "See weave() and throw(), or the manual.\n\n.. wonder:: unknown directive\n   with text"
    )

    throw = documents["api.rst#shuttle.Shuttle.throw"]

    assert (throw.title, throw.context) == ("shuttle.Shuttle.throw", ("shuttle.Shuttle",))
    assert (throw.fields["directive"], throw.fields["module"]) == ("method", "shuttle")
    assert documents["api.rst#shuttle.Shuttle.thread"].body == "Shuttle.thread\n\nThe thread."

    titles = [
        document.title for document in documents.values() if document.location.path == "api.rst"
    ]

    assert titles[-4:] == ["Terms", "heddle", "--dry-run", "-o"]


def test_rst_neither_includes_nor_trusts() -> None:
    hostname = Path("/etc/hostname").read_text().strip() if Path("/etc/hostname").exists() else ""
    bodies = "\n".join(document.body for document in read(REFERENCE / "markup")[0])
    assert not hostname or hostname not in bodies
    assert "<script>" not in bodies
    assert "alert" not in bodies


def test_text_counts_as_rst_only_beside_rst_or_alone(tmp_path: Path) -> None:
    assert "notes.txt#notes" in by_id(REFERENCE / "markup")
    shutil.copy(REFERENCE / "markup" / "notes.txt", tmp_path)
    (tmp_path / ".gitignore").write_text("*.log\n")
    assert "notes.txt#notes" in by_id(tmp_path)
    assert list(manual.names(tmp_path)) == ["notes.txt"]

    # As the `requirements.txt` of a project without pages.
    (tmp_path / "main.py").write_text("print()\n")
    assert list(manual.names(tmp_path)) == []
    assert [each.path for each in read(tmp_path)[1]] == ["notes.txt"]

    (tmp_path / "page.md").write_text("Text.\n")
    assert list(manual.names(tmp_path)) == ["page.md"]
    documents, skipped = read(tmp_path)
    assert [document.id for document in documents] == ["page.md"]
    assert [(each.path, each.reason, each.by_choice) for each in skipped] == [
        ("notes.txt", manual.PLAIN_TEXT, True)
    ]


def test_rst_without_a_title_is_titled_by_its_file(tmp_path: Path) -> None:
    (tmp_path / "plain.rst").write_text("Text without a heading.\n")
    ((document,), _) = read(tmp_path)
    assert document.title == "plain.rst"
    assert "page_title" not in document.fields


@pytest.mark.parametrize(
    "text",
    [
        "=====\nx",
        "* " * 2000 + "x",
        ".. note::\n\n" + "".join("  " * depth + ".. note::\n\n" for depth in range(1, 300)),
        "+--+\n| broken table\n",
        ":func:`unclosed\n\n.. function::\n\n.. option::\n\n.. versionadded::\n",
        "|sub| `ref`_ [#note]_\n",
        ".. deprecated-removed:: 1\n\n.. module::\n\n.. class:: A\n\n   .. class:: B\n\n      .. method:: A.B.c()\n",
    ],
)
def test_odd_rst_is_read_or_skipped(tmp_path: Path, text: str) -> None:
    (tmp_path / "odd.rst").write_text(text)
    documents, skipped = read(tmp_path)
    assert (
        documents or skipped or not any(character.isalnum() for character in text.replace("=", ""))
    )
    assert not any(item.reason.endswith(".") for item in skipped)


@pytest.mark.parametrize(
    "line",
    ["A" * 100_001, "\t" * 12_600 + "A", "x\n\n.. image:: data:image/png;base64," + "A" * 100_000],
)
def test_rst_with_an_overlong_line_is_skipped(tmp_path: Path, line: str) -> None:
    (tmp_path / "long.rst").write_text(f"T\n=\n\n{line}\n\nafter\n")
    number = 4 + line.count("\n")
    assert only_skipped(tmp_path) == f"line {number} is longer than 100,000 characters; break it"
    (tmp_path / "long.rst").write_text(f"T\n=\n\n{'A' * 100_000}\n")
    assert len(read(tmp_path)[0]) == 1


def test_roles_do_not_leak_to_the_next_page(tmp_path: Path) -> None:
    page = "Title\n=====\n\n:red:`word` here\n"
    (tmp_path / "b.rst").write_text(page)
    alone = [document.body for document in read(tmp_path)[0]]
    (tmp_path / "a.rst").write_text(f".. role:: red\n.. default-role:: red\n\n{page}")
    own, after = (document.body for document in read(tmp_path)[0])
    assert own == "word here"
    assert [after] == alone != [own]
