"""Tables whose columns have heads become entries or properties, all others stay rows."""

from __future__ import annotations

import pytest

from purlin.index.sources.references.html.reader import read_page
from purlin.index.sources.references.html.tables import MAX_ENTRY_ROWS
from tests.support.references import page

COPY = """<h1>Copy</h1><h2>Parameters</h2><table>
    <tr><th>Attribute</th><th>Description</th><th>Required</th></tr>
    <tr id="copy-file"><td>file</td><td>What is copied.</td><td>No; default is all.txt</td></tr>
    <tr><td><a id="target"></a>todir, tofile</td><td>Where to.</td><td rowspan="2">Yes</td></tr>
    <tr><td>quiet</td><td>Says less.</td></tr>
    </table><p>Copies are files.</p>"""


def test_rows_of_attributes_are_entries() -> None:
    sections = read_page(COPY).sections
    assert [(each.title, each.directive, each.anchor) for each in sections] == [
        ("Parameters", "section", ""),
        ("file", "attribute", "copy-file"),
        ("todir, tofile", "attribute", "target"),
        ("quiet", "attribute", ""),
    ]
    assert sections[0].compose()[0] == "Copies are files."
    assert (sections[1].headings, sections[2].names) == (
        ("Copy", "Parameters"),
        ["todir", "tofile"],
    )
    assert sections[1].compose()[0] == "file\n\nWhat is copied.\n\nRequired: No; default is all.txt"
    assert sections[3].compose()[0] == "quiet\n\nSays less."


@pytest.mark.parametrize("heads", ["Option|Meaning", "Parameter name|Usage", "Name|Default"])
def test_other_heads_that_name_what_is_below_them(heads: str) -> None:
    names, meaning = heads.split("|")
    markup = (
        f"<h1>A</h1><table><tr><th>{names}<th>{meaning}<tr><td>wide<td>x<tr><td>shut<td>y</table>"
    )
    assert [title for title, _ in page(markup)] == ["wide", "shut"]


@pytest.mark.parametrize(
    "table",
    [
        # A sentence in the first column; a number; a column of names that may be anything.
        "<tr><th>Option<th>Meaning<tr><td>a wide door<td>x<tr><td>shut<td>y",
        "<tr><th>Option<th>Meaning<tr><td>1<td>x<tr><td>2<td>y",
        "<tr><th>Name<th>Meaning<tr><td>wide<td>x<tr><td>shut<td>y",
        # No heads, and heads for one column more than there are.
        "<tr><td>Option<td>Meaning<tr><td>wide<td>x<tr><td>shut<td>y",
        "<tr><th>Option<tr><td>wide<td>x<tr><td>shut<td>y",
    ],
)
def test_other_tables_stay_rows(table: str) -> None:
    [(title, text)] = page(f"<h1>A</h1><table>{table}</table>")
    assert (title, text.count("\n")) == ("A", 2)
    assert " | " in text


def test_a_long_table_stays_rows() -> None:
    rows = "".join(f"<tr><td>door{number}<td>x" for number in range(MAX_ENTRY_ROWS + 1))
    [(title, _)] = page(f"<h1>A</h1><table><tr><th>Option<th>Meaning{rows}</table>")
    assert title == "A"


def test_a_row_of_properties_makes_a_setting_of_its_section() -> None:
    table = """<table><tr><th>type</th><th>default</th><th>legacy directive</th></tr>
        <tr><td>integer</td><td>200</td><td><code>$MaxDoors</code></td></tr></table>"""
    [section] = read_page(f"<h1>MaxDoors</h1>{table}<p>How many there are.</p>").sections
    assert (section.title, section.directive) == ("MaxDoors", "option")
    properties = "Type: integer\nDefault: 200\nLegacy directive: $MaxDoors"
    assert section.compose()[0] == f"MaxDoors\n\n{properties}\n\nHow many there are."


def test_rows_that_describe_options_are_entries_without_heads() -> None:
    markup = """<h1>stow put</h1><p>Puts files away.</p><table>
        <tr><td colspan="3"><b>arguments</b></td></tr>
        <tr><td></td><td>PATH</td><td>where to</td></tr>
        <tr><td colspan="3"><b>options</b></td></tr>
        <tr><td></td><td id="dry"><code>-n</code>, <code>--dry-run</code></td><td>puts nothing</td></tr>
        <tr><td></td><td><code>--depth LEVELS</code></td><td>how deep. default: 5</td></tr>
        <tr><td></td><td><code>--bare</code></td><td></td></tr></table><p>Files stay files.</p>"""
    stow, dry, depth = read_page(markup).sections
    rows = "arguments\n| PATH | where to\noptions\n| --bare |"
    assert stow.compose()[0] == f"Puts files away.\n\n{rows}\n\nFiles stay files."
    assert (dry.title, dry.names, dry.anchor) == ("-n, --dry-run", ["-n", "--dry-run"], "dry")
    assert (depth.title, depth.directive, depth.headings) == ("--depth", "option", ("stow put",))
    assert depth.compose()[0] == "--depth LEVELS\n\nhow deep. default: 5"


@pytest.mark.parametrize(
    "table",
    [
        "<tr><td>--wide<td>opens",  # one alone may be an example
        "<tr><td>--wide<tr><td>--shut",
        "<tr><td>-<td>minus<tr><td>->><td>arrow",
        "<tr><td>less --wide<td>opens<tr><td>less --shut<td>closes",
    ],
)
def test_other_rows_without_heads_stay_rows(table: str) -> None:
    assert [title for title, _ in page(f"<h1>A</h1><table>{table}</table>")] == ["A"]


def test_options_with_values_are_named_below_any_heads() -> None:
    rows = "<tr><td>-o, --out FILE<td>Where to.<tr><td>--quiet<td>Says less."
    sections = read_page(f"<h1>A</h1><table><tr><th>Option<th>Meaning{rows}</table>").sections
    assert [section.names for section in sections] == [["-o", "--out"], ["--quiet"]]
