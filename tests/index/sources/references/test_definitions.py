"""Definitions that neither a generator nor a list of terms marks, and Texinfo's kinds."""

from __future__ import annotations

import pytest

from purlin.index.sources.references import markdown
from purlin.index.sources.references.html.reader import read_page


@pytest.mark.parametrize(
    ("category", "directive"),
    [
        ("Function", "function"),
        ("User Option", "option"),
        ("Method on boat", "method"),
        ("Variable", "data"),
        ("Ferry Thing", "term"),
    ],
)
def test_kinds_of_texinfo_are_directives(category: str, directive: str) -> None:
    (section,) = read_page(
        f"""<dl><dt id="index-cross"><span class="category-def">{category}: </span><code class="def-type">int</code>
        <strong class="def-name">cross</strong> <code>(int times)</code></dt><dd><p>Crosses it.</p></dd></dl>"""
    ).sections
    assert (section.title, section.directive) == ("cross", directive)
    assert section.signature == "int cross (int times)"


def test_a_table_of_one_row_with_properties_begins_an_entry() -> None:
    _, section = read_page(
        "<h1>Limits</h1><p>All of them.</p><table><tr><td>crossings</td><td>Type: integer</td>"
        "<td>Default: 5</td></tr></table><p>How often a day.</p>"
    ).sections
    assert (section.title, section.directive) == ("crossings", "option")
    assert section.compose()[0] == "crossings\n\nType: integer\nDefault: 5\n\nHow often a day."


@pytest.mark.parametrize(
    "rows",
    [
        "<tr><td>crossings</td><td>Type: integer</td></tr>",
        "<tr><td>crossings</td><td>many</td><td>Default: 5</td></tr>",
        "<tr><td>a</td><td>Type: x</td><td>Default: 5</td></tr><tr><td>b</td><td>Type: x</td><td>Default: 6</td></tr>",
    ],
)
def test_other_tables_are_text(rows: str) -> None:
    (section,) = read_page(f"<h1>Limits</h1><table>{rows}</table>").sections
    assert section.title == "Limits"


@pytest.mark.parametrize("heading", ["", "<h1>Version 1.2</h1>"])
@pytest.mark.parametrize("title", ["crossing_time", "<IfMoored>", "ferry.speed"])
def test_a_section_that_begins_with_its_type_and_default_is_a_setting(
    title: str, heading: str
) -> None:
    escaped = title.replace("<", "&lt;")
    (section,) = read_page(
        f"{heading}<h2>{escaped}</h2><p>Type: number<br>Default: 5</p><p>In minutes.</p>"
    ).sections
    assert (section.title, section.names, section.directive) == (title, [title], "option")
    assert section.compose()[0] == f"{title}\n\nType: number\nDefault: 5\n\nIn minutes."


LABELLED = (
    "<dl><dt>Specifies:</dt><dd><p>How long it takes.</p></dd><dt>Default value:</dt><dd>5</dd>"
    "<dt>Notes:</dt><dd><p>In minutes.</p><p>With the tide.</p></dd></dl><p>End.</p>"
)


@pytest.mark.parametrize("title", ["7.4. crossing-time", "CrossingTime"])
def test_a_list_of_labels_below_a_name_is_of_its_properties(title: str) -> None:
    (section,) = read_page(f"<h2>{title}</h2>{LABELLED}").sections
    name = title.removeprefix("7.4. ")
    assert (section.title, section.names, section.directive) == (name, [name], "option")
    assert section.compose()[0] == (
        f"{name}\n\nSpecifies: How long it takes.\nDefault value: 5\nNotes: In minutes.\n\n"
        "With the tide.\n\nEnd."
    )


@pytest.mark.parametrize(
    "page",
    [
        f"<h2>Crossing</h2>{LABELLED}",
        f"<h2>The crossing</h2>{LABELLED}",
        f"<h2>crossing</h2><dl><dt>fast</dt><dd>So.</dd></dl>{LABELLED}",
        f"<h2>crossing</h2><dl><dt>fast</dt><dd>So.</dd>{LABELLED.removeprefix('<dl>')}",
        f"<h2>crossing</h2>{LABELLED.replace('Specifies:', 'Specifies')}",
    ],
)
def test_other_lists_of_labels_are_definitions(page: str) -> None:
    titles = [section.title.rstrip(":") for section in read_page(page).sections]
    assert titles[-3:] == ["Specifies", "Default value", "Notes"]


@pytest.mark.parametrize(
    ("title", "text"),
    [
        ("Crossing time", "Type: number<br>Default: 5"),
        ("crossing_time", "Default: 5"),
        ("crossing_time", "Type: number<br>Unit: minutes"),
        ("crossing_time", "How long it takes.<br>Default: 5"),
    ],
)
def test_other_sections_are_prose(title: str, text: str) -> None:
    (section,) = read_page(f"<h1>{title}</h1><p>{text}</p>").sections
    assert (section.directive, section.signatures) == ("section", [])


@pytest.mark.parametrize(
    ("heading", "title", "directive"),
    [
        ("`ferry.cross(times)`", "ferry.cross", "function"),
        ("ferry.cross(times, [speed])", "ferry.cross", "function"),
        ("Event: 'moored'", "moored", "event"),
        ("`--quiet`", "--quiet", "option"),
        ("`speed`", "speed", "option"),
    ],
)
def test_headings_of_markdown_that_are_code_are_definitions(
    heading: str, title: str, directive: str
) -> None:
    page = read_page(markdown.html(f"# Ferry\n\n## Options\n\n### {heading}\n\nSaid of it.\n"))
    section = page.sections[-1]
    assert (section.title, section.directive) == (title, directive)
    assert section.compose()[0].endswith("Said of it.")


@pytest.mark.parametrize("heading", ["Ferry (crossing)", "How to cross(s)", "Use `cross` twice"])
def test_other_headings_of_markdown_are_sections(heading: str) -> None:
    section = read_page(markdown.html(f"# Ferry\n\n## {heading}\n\nText.\n")).sections[-1]
    assert section.directive == "section"


def test_a_term_that_begins_with_an_option_is_named_by_its_options() -> None:
    terms = {
        "<b>-n</b> or <b>--name</b> NAME": ["-n", "--name"],
        "--export or -x": ["--export", "-x"],
        "-o FILE": ["-o"],
        "-1": ["-1"],
        "-> Door": ["-> Door"],
        "less -o": ["less -o"],
    }
    lists = "".join(f"<dl><dt>{term}</dt><dd>x</dd></dl>" for term in terms)
    sections = read_page(lists).sections
    assert [section.names for section in sections] == list(terms.values())
