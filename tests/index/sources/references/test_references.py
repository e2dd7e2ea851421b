"""Reference pages of several makes, well-formed and not, become documents with terms, anchors and offsets."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from purlin.index.errors import InvalidInput, NotFound
from purlin.index.records import Document, Skipped, SourceFile
from purlin.index.sources.references import docstrings, manual, markup, topics
from purlin.index.sources.references.html.definitions import MAX_NESTED_LISTS
from purlin.index.sources.references.html.reader import read_page
from purlin.index.sources.references.page_sections import MAX_TITLE
from tests.support.paths import DATA

REFERENCE = DATA / "reference"


def read(root: Path, **options: object) -> tuple[list[Document], list[Skipped]]:
    documents: list[Document] = []
    skipped: list[Skipped] = []
    for file in manual.files(root, **options):  # type: ignore[arg-type]
        for item in [file] if isinstance(file, Skipped) else file.read():
            (skipped if isinstance(item, Skipped) else documents).append(item)  # type: ignore[arg-type]
    return documents, skipped


def by_id(root: Path) -> dict[str, Document]:
    documents, skipped = read(root)
    assert skipped == []
    document_of = {document.id: document for document in documents}
    assert len(document_of) == len(documents)
    return document_of


def page(markup: str) -> list[tuple[str, str]]:
    return [(section.title, section.compose()[0]) for section in read_page(markup).sections]


def only_skipped(root: Path, **options: object) -> str:
    documents, skipped = read(root, **options)
    assert documents == []
    return skipped[0].reason


# -- what is no text -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "links", ["Next Previous Contents", "Prev | Up | Next", "Home · Index", "Top - Contents"]
)
def test_links_between_pages_are_no_text(links: str) -> None:
    markup = f"<p>{links}</p><h1>Tides</h1><p>They come twice.</p><hr>{links}"
    assert page(markup) == [("Tides", "They come twice.")]


def test_sentences_with_words_of_such_links_are_text() -> None:
    markup = "<h1>Tides</h1><p>Up</p><p>Next page</p>"
    assert page(markup) == [("Tides", "Up\n\nNext page")]


def test_a_table_of_contents_is_no_section() -> None:
    markup = """<h1>Tides</h1><p>All.</p><h2>Table of Contents</h2><ul><li><a href="#a">Ebb</a></li></ul>
        <h2 id="a">Ebb</h2><p>Falls.</p>"""
    assert page(markup) == [("Tides", "All."), ("Ebb", "Falls.")]


@pytest.mark.parametrize("name", ["theindex.html", "classIndex.html", "all-documents.html"])
def test_indexes_are_no_pages(tmp_path: Path, name: str) -> None:
    for each in ("tides.html", name):
        (tmp_path / each).write_text("<h1>Tides</h1><p>They come twice.</p>")
    documents, _ = read(tmp_path)
    assert [document.location.path for document in documents] == ["tides.html"]


def test_a_term_has_the_id_of_what_encloses_it() -> None:
    markup = """<dl id="all"><div id="ebb"><dt>ebb</dt><dd>It falls. <a id="inner"></a></dd></div>
        <dt>flood</dt><dd>It rises.</dd></dl>"""
    assert [section.anchor for section in read_page(markup).sections] == ["ebb", ""]


# -- Sphinx ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sphinx() -> dict[str, Document]:
    return by_id(REFERENCE / "sphinx")


def test_only_content_pages_are_read(sphinx: dict[str, Document]) -> None:
    assert {document.location.path for document in sphinx.values()} == {"library/loom.html"}
    assert [document.title for document in sphinx.values()] == [
        "loom — Weaving threads",
        "loom.weave",
        "loom.Shuttle",
        "loom.Shuttle.length",
        "unit",
        "Patterns",
        "-e, --exclude",
        "loom.MAX",
    ]


def test_definition_with_two_signatures_is_one_document(sphinx: dict[str, Document]) -> None:
    weave = sphinx["library/loom.html#loom.weave"]

    assert weave.title == "loom.weave"
    assert weave.location.url == "https://loom.example/docs/library/loom.html#loom.weave"
    assert weave.fields["signature"] == "loom.weave(warp)\nloom.weave(warp, weft[, tension])"
    assert weave.fields["directive"] == "function"
    assert weave.fields["module"] == "loom"
    assert weave.fields["headings"] == ("loom — Weaving threads",)
    assert weave.body == (
        "loom.weave(warp)\nloom.weave(warp, weft[, tension])\n\n"
        "Return a cloth woven from warp and weft. If tension is omitted, it defaults to 3.\n\n"
        "Parameters:\n\n- warp – the threads that run lengthwise\n- weft – the threads that cross them\n"
        "Raises: TangleError – if the threads are tangled\n\n"
        ">>> cloth = weave('ab')\n>>> for row in cloth:\n...     print(row)\n\nab\n\n"
        "New in version 1.4: The tension parameter."
    )

    atoms = [weave.body[atom.start : atom.end] for atom in weave.atoms]

    assert atoms[0] == weave.fields["signature"]
    assert atoms[1].startswith(">>> cloth")
    assert atoms[1].endswith("ab")


def test_nested_definitions_name_their_parent(sphinx: dict[str, Document]) -> None:
    shuttle = sphinx["library/loom.html#loom.Shuttle"]
    length = sphinx["library/loom.html#loom.Shuttle.length"]
    unit = next(document for document in sphinx.values() if document.title == "unit")

    assert (
        shuttle.body
        == "class loom.Shuttle(thread=None)\n\nCarries the thread.\n\nShuttles are cheap."
    )
    assert length.context == ("loom.Shuttle",)
    assert length.body == "length\n\nThe value of the length parameter (or 1 if not supplied)."
    assert unit.context == ("loom.Shuttle", "loom.Shuttle.length")
    assert unit.id == "library/loom.html#loom.Shuttle.length~2"
    assert unit.location.url == length.location.url
    assert unit.fields["directive"] == "term"


def test_prose_loses_furniture_and_definitions(sphinx: dict[str, Document]) -> None:
    top = sphinx["library/loom.html#module-loom"]
    assert top.body == "Source code: Lib/loom.py\n\nThe loom module weaves threads into cloth."
    assert top.fields["directive"] == "section"
    assert top.fields["anchors"] == ("weaving",)
    assert "headings" not in top.fields


def test_tables_and_lists_keep_their_lines(sphinx: dict[str, Document]) -> None:
    patterns = sphinx["library/loom.html#patterns"]

    assert patterns.title == "Patterns"
    assert patterns.body == (
        "A pattern is one of:\n\nKnown patterns\n\n"
        "Name | Threads\nplain | one over, one under\ntwill | two over, one under\n\n"
        "1. Thread the heddles.\n  - All of them.\n2. Beat."
    )

    rows = [patterns.body[atom.start : atom.end] for atom in patterns.atoms]

    assert rows == ["Name | Threads", "plain | one over, one under", "twill | two over, one under"]


def test_option_is_named_by_its_flags(sphinx: dict[str, Document]) -> None:
    option = sphinx["library/loom.html#cmdoption-loom-e"]
    assert option.title == "-e, --exclude"
    assert option.fields["names"] == ("-e", "--exclude")
    assert option.fields["directive"] == "option"
    assert option.body == "-e <pattern>, --exclude=<pattern>\n\nLeave a pattern out."


def test_bare_signature_takes_the_prose_after_it(sphinx: dict[str, Document]) -> None:
    assert sphinx["library/loom.html#loom.MAX"].body == "MAX\n\nThe most threads that fit: 4096."


def test_unit_page_is_all_the_text_in_reading_order() -> None:
    documents, _ = read(REFERENCE / "sphinx", unit="page")
    [whole] = documents

    assert whole.title == "loom — Weaving threads"
    assert whole.id == "library/loom.html"
    assert whole.fields["directive"] == "page"

    for earlier, later in [
        ("loom — Weaving threads", "Source code"),
        ("Source code", "loom.weave(warp)"),
        ("Carries the thread.", "The value of the length"),
        ("Always metres.", "Shuttles are cheap."),
        ("Shuttles are cheap.", "Patterns"),
        ("twill |", "-e <pattern>"),
    ]:
        assert whole.body.index(earlier) < whole.body.index(later)


# -- DocBook, broken HTML ----------------------------------------------------------------------------------------------


def test_docbook_variable_lists_are_definitions() -> None:
    documents = by_id(REFERENCE / "docbook")
    looms = documents["settings.html#GUC-MAX-LOOMS"]

    assert looms.title == "max_looms"
    assert looms.body == (
        "max_looms (integer)\n\nSets how many looms may run at once. The default is 100.\n\nNote\n\nOnly at start."
    )
    assert looms.fields["headings"] == ("Server Settings", "Limits")
    assert looms.location.url == "settings.html#GUC-MAX-LOOMS"

    file = documents["settings.html#SETTINGS-LIMITS"]

    assert file.title == "-f, --file"
    assert file.body == "-f file\n--file=file\n\nReads settings from a file."
    assert file.fields["directive"] == "option"
    assert len(documents) == 2


def test_unclosed_tags_still_make_sections() -> None:
    documents, skipped = read(REFERENCE / "broken.html")

    assert skipped == []
    assert [(document.id, document.title, document.body) for document in documents] == [
        ("broken.html", "Broken page", "First paragraph bold, never closed\n\nSecond paragraph"),
        ("broken.html~2", "alpha", "alpha\n\nThe first letter\n\n- a vowel\n- of Greek"),
        ("broken.html~3", "beta, bet", "beta\nbet\n\nThe second letter\n\nNo term here"),
        ("broken.html~4", "gamma", "gamma"),
        ("broken.html#twice", "Twice", "one"),
        ("broken.html#twice~2", "Twice", "two\n\nx | y\nz\n\n  kept   as\n    it is"),
    ]


@pytest.mark.parametrize(
    ("markup", "expected"),
    [
        ("", []),
        ("  \n", []),
        ("<html><body></body></html>", []),
        ("just text", [("", "just text")]),
        ("<p>no heading, <br>no definition", [("", "no heading,\nno definition")]),
        ("<dl><dt>term</dl>", [("term", "term")]),
        ("<dl><dd>no term</dl>", [("", "no term")]),
        ("<dt>stray</dt><dd>both</dd>", [("", "stray\n\nboth")]),
        ("<dl><dt></dt><dd>nameless</dd></dl>", [("", "nameless")]),
        ("<dl><div><dt>a</dt><dd>b</dd></div></dl>", [("a", "a\n\nb")]),
        ("<dl><dt>a(x)</dt><dd></dd><dt>a</dt><dd>b</dd></dl>", [("a(x), a", "a(x)\na\n\nb")]),
        ("<dl><dt>a<dd>b<dt>c<dd></dl>", [("a", "a\n\nb"), ("c", "c")]),
        (
            "<dl><dt>a<dd><dl><dt>b<dd>x</dl><dt>c<dd>y</dl>",
            [("a", "a"), ("b", "b\n\nx"), ("c", "c\n\ny")],
        ),
        ("<h1></h1><p>x", [("", "x")]),
        ("<h1>only a heading</h1>", []),
        ("<p>a&#0;b &bogus; &#xD800;&lt;</p>", [("", "a\ufffdb &bogus; \ufffd<")]),
        ("<ul><li><dl><dt>a<dd>b</dl></ul>", [("a", "a\n\nb")]),
        (
            "<table><tr><td><p>x<dl><dt>a<dd>b</dl><td>y</table>z",
            [("", "x\n\ny\n\nz"), ("a", "a\n\nb")],
        ),
        (
            "<nav>no</nav><div id=toc>no</div><p>yes</p><form>also</form><footer>no",
            [("", "yes\n\nalso")],
        ),
        ("<p>no<div role=main><p>yes</div><p>no", [("", "yes")]),
        ("<dl><dt>no<dd><ul><li><main><p>yes</main>no</ul><dt>no<dd>no</dl>", [("", "yes")]),
        ("<pre>\n\n  a\n\n b  \n</pre>", [("", "  a\n\n b")]),
        ("<h4>Deep</h4>a<h2>Up</h2>b", [("Deep", "a"), ("Up", "b")]),
    ],
)
def test_text_is_read_from_odd_markup(markup: str, expected: list[tuple[str, str]]) -> None:
    assert page(markup) == expected


@pytest.mark.parametrize(
    ("heading", "title"),
    [
        ("2.31.0 (2023-05-22)", "2.31.0 (2023-05-22)"),
        ("2.30.0 - 2023-05-03", "2.30.0 - 2023-05-03"),
        ("2.30.0 – new pumps", "2.30.0 – new pumps"),
        ("2.30.0 2023-05-03", "2.30.0 2023-05-03"),
        ("1.0.0 final", "1.0.0 final"),
        ("1.2 rc 1", "1.2 rc 1"),
        ("3.0", "3.0"),
        ("1.2. Intro", "Intro"),
        ("1. (Optional) Pumps", "(Optional) Pumps"),
        ("4.1 Data types", "Data types"),
        ("5.3 Final remarks", "Final remarks"),
        ("9.7.1. <code>LIKE</code>", "LIKE"),
        ("3.5.3 Shell Parameter Expansion", "Shell Parameter Expansion"),
        ("A.1. 2023 in review", "2023 in review"),
        ('<span class="section-number">4.1 </span>(In)equality', "(In)equality"),
        ('<span class="section-number">3 </span>Overview', "Overview"),
    ],
)
def test_section_numbers_go_and_versions_stay(heading: str, title: str) -> None:
    assert page(f"<h1>{heading}</h1><p>Text.") == [(title, "Text.")]


@pytest.mark.parametrize(
    "before",
    [
        "<title>Changelog</title>",
        "<h1>Release notes of Pumps</h1>",
        "<title>Pumps</title><h1>Pumps</h1><h2>Version history</h2>",
        "<h1>NEWS</h1>",
    ],
)
def test_numbers_in_a_list_of_changes_are_versions(before: str) -> None:
    sections = page(f"{before}<h3>1.2.0 Faster pumps</h3><p>Text.<h3>1. Slow pumps</h3><p>Text.")
    assert sections == [("1.2.0 Faster pumps", "Text."), ("Slow pumps", "Text.")]
    after = page(f"{before}<h2>Changes</h2><p>A<h1>History of pumps</h1><h2>1.2 Wells</h2><p>B")
    assert after[-1][0] == ("1.2 Wells" if "Changelog" in before else "Wells")


def test_versions_of_restructuredtext_stay(tmp_path: Path) -> None:
    versions = ["3.0.1 (2020-01-01)", "3.0.0 (2019-01-01)"]
    parts = [f"{version}\n{'-' * len(version)}\n\nFix.\n" for version in versions]
    (tmp_path / "a.rst").write_text("Pumps\n=====\n\n" + "\n".join(parts))
    documents, _ = read(tmp_path)
    assert [document.title for document in documents] == versions


def test_parameters_on_lines_of_their_own_belong_to_the_signature() -> None:
    (section,) = read_page("""
        <dl class="py function">
        <dt class="sig sig-object py" id="loom.weave">
        <span class="sig-name descname"><span class="pre">weave</span></span><span class="sig-paren">[</span>

        <dl>
        <dd><em class="sig-param"><span class="n">T</span></em>,</dd>
        </dl>

        <span class="sig-paren">]</span><span class="sig-paren">(</span>

        <dl>
        <dd><em class="sig-param"><span class="n">warp</span></em>,</dd>
        <dd><em class="sig-param"><span class="n">weft</span><span class="o">=</span>None</em>,</dd>
        </dl>

        <span class="sig-paren">)</span> <span class="sig-return">-&gt; Cloth</span></dt>
        <dd><p>Weaves.</p></dd></dl>""").sections
    assert section.title == "loom.weave"
    assert section.signatures == ["weave[T](warp, weft=None) -> Cloth"]
    assert [block.text for block in section.blocks] == ["Weaves."]


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "part",
    [
        '<span class="sig-paren">(</span><dl>',
        '<span class="sig-paren">(</span>' + " " * 100,
        "<dl>" + " " * 100,
        '<a class="anchor" href="#a">',
    ],
)
def test_odd_signatures_are_read_in_time(part: str) -> None:
    read_page(part * 20_000)


JAVADOC = """
    <section class="detail" id="fill(int)"><h3>fill</h3>
    <div class="member-signature">void fill(int litres)</div>
    <div class="block">Fills the tank.</div>
    <dl class="notes"><dt>Parameters:</dt><dd><code>litres</code> - how much</dd>
    <dt>Returns:</dt><dd>the level</dd></dl></section>"""
OLD_JAVADOC = """
    <a name="fill-int-"></a><ul><li><h4>fill</h4><pre>void fill(int litres)</pre>
    <div class="block">Fills the tank.</div>
    <dl>
    <dt><span class="paramLabel">Parameters:</span></dt><dd><code>litres</code> - how much</dd>
    <dt><span class="returnLabel">Returns:</span></dt><dd>the level</dd></dl></li></ul>"""
DOXYGEN = """
    <a id="a1b2" class="anchor"></a><h2 class="memtitle">fill</h2>
    <p>Fills the tank.</p>
    <dl class="params"><dt>Parameters</dt><dd><table class="params">
    <tr><td class="paramname">litres</td><td>how much</td></tr></table></dd></dl>
    <dl class="section return"><dt>Returns</dt><dd>the level</dd></dl>
    <dl class="exception"><dt>Exceptions</dt><dd><table class="exception">
    <tr><td class="paramname">Overflow</td><td>if it is full</td></tr></table></dd></dl>"""


@pytest.mark.parametrize(
    ("markup", "anchor", "fields"),
    [
        (JAVADOC, "fill(int)", ["Parameters: litres - how much", "Returns: the level"]),
        (OLD_JAVADOC, "fill-int-", ["Parameters: litres - how much", "Returns: the level"]),
        (DOXYGEN, "a1b2", ["litres | how much", "Returns: the level", "Overflow | if it is full"]),
    ],
)
def test_fields_belong_to_their_method(markup: str, anchor: str, fields: list[str]) -> None:
    (section,) = read_page(markup).sections
    assert (section.title, section.anchor) == ("fill", anchor)
    lines = section.compose()[0].splitlines()
    assert set(fields) <= set(lines)
    assert not lines[0].startswith("- ")


@pytest.mark.parametrize("classes", ["py exception", "exception"])
def test_exceptions_of_sphinx_are_definitions(classes: str) -> None:
    (section,) = read_page(f"""
        <dl class="{classes}"><dt id="loom.Torn"><em class="property">exception </em>
        <code class="descname">Torn</code></dt><dd><p>A thread is torn.</p></dd></dl>""").sections
    assert section.title == "loom.Torn"


def test_methods_of_rustdoc_have_their_ids_and_no_marks() -> None:
    method = """
        <details open><summary><section id="method.{0}" class="method">
        <a class="src rightside" href="src/tank.rs.html#7">Source</a>
        <a href="#method.{0}" class="anchor">§</a><h4 class="code-header">pub fn {0}(&amp;self)</h4>
        </section></summary><div class="docblock"><p>It will {0}.</p></div></details>"""
    sections = read_page(f"<h1>Tank</h1>{method.format('fill')}{method.format('drain')}").sections
    expected = [("pub fn fill(&self)", "method.fill"), ("pub fn drain(&self)", "method.drain")]
    assert [(section.title, section.anchor) for section in sections] == expected
    assert [section.compose()[0] for section in sections] == ["It will fill.", "It will drain."]


def test_versions_of_rustdoc_belong_to_what_they_are_of() -> None:
    method = """
        <section id="method.{0}"><span class="rightside">
        <span class="since" title="Stable since Rust version 1.{1}.0">1.{1}.0</span> ·
        <a class="srclink" href="a">source</a></span><a href="#method.{0}" class="anchor"></a>
        <h4 class="code-header">fn {0}()</h4></section><div class="docblock"><p>It does.</p></div>"""
    sections = read_page(f"""
        <h1>Tank</h1><span class="out-of-band"><span class="since" title="Since 1.0">1.0</span> ·
        <a id="toggle-all-docs">[−]</a></span><pre>struct Tank</pre>
        {method.format("fill", 2)}{method.format("drain", 3)}<h4 id="x">X</h4>x""").sections
    assert [(section.anchor, section.compose()[0]) for section in sections] == [
        ("", "struct Tank\n\nSince 1.0."),
        ("method.fill", "It does.\n\nStable since Rust version 1.2.0."),
        ("method.drain", "It does.\n\nStable since Rust version 1.3.0."),
        ("x", "x"),
    ]


def test_methods_of_doxygen_have_their_signatures_and_code() -> None:
    (section,) = read_page("""
        <a id="a1b2"></a><h2 class="memtitle"><span class="permalink"><a href="#a1b2">&#9670;&nbsp;</a>
        </span>fill() <span class="overload">[1/2]</span></h2><div class="memitem"><div class="memproto">
        <div class="memtemplate">template&lt;typename T&gt; </div><table class="mlabels"><tr>
        <td class="mlabels-left"><table class="memname"><tr><td class="memname">int Tank::fill </td>
        <td>(</td><td class="paramtype">T&#160;</td><td class="paramname"><em>litres</em>, </td></tr>
        <tr><td></td><td></td><td class="paramtype">bool&#160;</td>
        <td class="paramname"><em>force</em> = <code>false</code>&#160;</td></tr>
        <tr><td></td><td>)</td><td></td><td> const</td></tr></table></td>
        <td class="mlabels-right"><span class="mlabel">inline</span></td></tr></table></div>
        <div class="memdoc"><p>Fills it.</p><div class="fragment"><div class="line">Tank t;</div>
        <div class="line">  t.fill(1);</div>
        <div class="ttc"><div class="ttname">Tank</div></div></div></div></div>""").sections
    assert (section.title, section.anchor) == ("fill() [1/2]", "a1b2")
    signature = "template<typename T> int Tank::fill(T litres, bool force = false) const"
    assert section.signature == signature
    body, atoms = section.compose()
    expected = [signature.split(), ["Tank", "t;", "t.fill(1);"]]
    assert [body[atom.start : atom.end].split() for atom in atoms] == expected
    assert "inline" not in body


def test_signature_of_javadoc_is_no_text() -> None:
    (section,) = read_page(JAVADOC).sections
    assert section.signature == "void fill(int litres)"


def test_parameters_of_numpydoc_are_apart_from_their_types() -> None:
    sections = read_page("""
        <dl class="field-list"><dt>Parameters</dt><dd><dl>
        <dt><strong>thresh</strong><span class="classifier">int, optional</span></dt><dd>At least.
        <dt>how <span class="classifier-delimiter">:</span> <span class="classifier">str</span></dt>
        <dd>Any.</dl></dd></dl>""").sections
    expected = [("thresh", "thresh : int, optional"), ("how", "how : str")]
    assert [(section.title, section.signature) for section in sections[-2:]] == expected


def test_links_between_nodes_of_texinfo_are_no_text() -> None:
    assert page("""
        <h2>Looms</h2><p>Text.</p><a name="Wool"></a><div class="header"><p>Next: <a href="#a">Yarn</a>,
        Up: <a href="#b">Top</a> &nbsp; [<a href="#c">Contents</a>][<a href="#d">Index</a>]</p></div>
        <h3>Wool</h3><p>Next: see [Index]es.</p>""") == [
        ("Looms", "Text."),
        ("Wool", "Next: see [Index]es."),
    ]


def test_pages_that_lead_to_another_or_list_source_are_left_out(tmp_path: Path) -> None:
    moved = '<meta http-equiv="Refresh" content="0; URL=b.html"><p>Moved.</p>'
    live = '<meta http-equiv="refresh" content="60"><p>Live.</p>'
    files = {"a.html": moved, "live.html": live, "team-members.html": "<p>We.</p>"}
    for name in ("tank_8h_source.html", "classTank-members.html", "tank.rs.html", "index-all.html"):
        files[name] = "<p>Listing.</p>"
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "class-use").mkdir()
    (tmp_path / "class-use" / "Tank.html").write_text("<p>Uses.</p>")
    assert {document.body for document in by_id(tmp_path).values()} == {"Live.", "We."}


def test_other_anchors_and_examples_keep_their_text() -> None:
    markup = """
        <a class="anchor" href="#a">Read this</a> first.
        <pre class="src">pump()</pre><h2><a class="anchor" id="b" href="#b">Wells</a></h2><p>Deep."""
    assert page(markup) == [("", "Read this first.\n\npump()"), ("Wells", "Deep.")]


def test_headings_form_a_path() -> None:
    sections = read_page("<h1>A</h1>a<h2>B</h2>b<h3>C</h3>c<h2>D</h2>d").sections
    expected = [("A", ()), ("B", ("A",)), ("C", ("A", "B")), ("D", ("A",))]
    assert [(section.title, section.headings) for section in sections] == expected


def test_manual_page_has_the_title_of_its_head() -> None:
    """As pod2html and Pod::Simple write Perl's manual, whose pages all begin with NAME."""
    sections = read_page(
        "<title>loom</title><ul id=index><li>NAME</ul><p class=backlinktop>up</p>"
        "<h1 id=NAME>NAME</h1><p>loom - weave cloth<h1 id=FUNCTIONS>FUNCTIONS</h1><h2>weave</h2>a"
    ).sections

    expected = [("NAME", ("loom",), "NAME"), ("weave", ("loom", "FUNCTIONS"), "")]
    assert [(section.title, section.headings, section.anchor) for section in sections] == expected
    assert [block.text for section in sections for block in section.blocks] == [
        "loom - weave cloth",
        "a",
    ]


def test_permalink_is_the_anchor_of_its_heading() -> None:
    """As Node.js, rustdoc and many generators of sites write them; a name may end in such a character itself."""
    markup = (
        '<h2>zlib<span><a class="mark" href="#zlib" id="zlib">#</a></span></h2>a<h2><a href="#f">§</a>f(x)</h2>b'
        '<h2>C#</h2>c<h2 id=d><a href="#d">D</a></h2>d<h2><a href="other.html">#</a></h2>e'
    )

    sections = read_page(markup).sections

    assert [(section.title, section.anchor) for section in sections] == [
        ("zlib", "zlib"), ("f(x)", "f"), ("C#", ""), ("D", "d"), ("#", "")
    ]  # fmt: skip

    [term] = read_page('<dl><dt id=t>term <a href="#t">¶</a><dd>d</dl>').sections

    assert (term.title, term.anchor) == ("term", "t")


def test_what_screen_readers_do_not_read_is_left_out() -> None:
    """As texi2html writes the links beside its headings, and GitHub the anchors before them."""
    markup = (
        '<a name="fade"></a><h3>fade<span><a href="#fade" aria-hidden="true">#</a> '
        '<a href="#toc-fade" aria-hidden="true">TOC</a></span></h3>a'
        '<h3><a id="crop" aria-hidden="true" href="#crop"><i>link</i></a>crop</h3>b'
        '<h3 id="blend">blend<a href="#top" aria-hidden="true">\u2191</a></h3>c'
    )

    sections = read_page(markup).sections

    assert [(section.title, section.anchor) for section in sections] == [
        ("fade", "fade"),
        ("crop", "crop"),
        ("blend", "blend"),
    ]


def test_page_title_replaces_a_missing_first_heading() -> None:
    sections = read_page("<title>The page</title><h2>B</h2>b").sections
    assert [(section.title, section.headings) for section in sections] == [("B", ("The page",))]


def test_deep_nesting_is_flattened() -> None:
    assert page("<div>a" * 100_000) == [("", "\n\n".join("a" * 100_000))]
    assert len(page("<b>" * 100_000 + "x")) == 1
    nested = read_page("<dl><dt>t<dd>d" * 5_000).sections
    assert max(len(section.context) for section in nested) == MAX_NESTED_LISTS - 1
    assert sum(len(section.blocks) for section in nested) >= 5_000
    [long] = read_page(f"<dl><dt id=x>{'long term ' * 1000}<dd>d</dl>").sections
    assert len(long.title) <= MAX_TITLE
    assert long.compose()[0].split() == [*(["long", "term"] * 1000), "d"]


TAGS = (
    "p div span b ul ol li dl dt dd table tr td th caption pre br section blockquote main".split()
)


@st.composite
def soup(draw: st.DrawFn) -> tuple[str, list[str]]:
    """Opening and closing tags in any order, with numbered words between."""
    parts: list[str] = []
    words: list[str] = []

    for number, (tag, closing) in enumerate(
        draw(st.lists(st.tuples(st.sampled_from(TAGS[:-1]), st.booleans())))
    ):
        words.append(f"w{number}")
        parts += f"</{tag}>" if closing else f"<{tag}>", f" {words[-1]} "

    return "".join(parts), words


def test_row_within_a_row_keeps_the_outer_cells() -> None:
    markup = "<tr> w0 <div> w1 <td> w2 <tr> w3 "
    words = " ".join(section.compose()[0] for section in read_page(markup).sections).split()
    assert words == ["w0", "w1", "w2", "w3"]


@settings(deadline=None)
@given(soup())
def test_no_word_is_lost_or_doubled(markup_and_words: tuple[str, list[str]]) -> None:
    markup, words = markup_and_words
    bodies = [section.compose()[0] for section in read_page(markup).sections]
    text_words = " ".join(bodies).replace("|", " ").replace("-", " ").replace(":", " ").split()
    assert sorted(word for word in text_words if word.startswith("w")) == sorted(words)
    whole = " ".join(section.compose()[0] for section in read_page(markup, whole=True).sections)
    assert set(words) <= set(whole.split())


@settings(deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [*(f"<{t}>" for t in TAGS), *(f"</{t}>" for t in TAGS), "<h2 id=x>", "<h1>", "x", " "]
        )
    )
)
def test_atoms_lie_in_the_body(parts: list[str]) -> None:
    documents = list(manual.documents(read_page("".join(parts)), "page.html"))
    assert len({document.id for document in documents}) == len(documents)
    for document in documents:
        assert document.body.strip()
        ends = [0]
        for atom in document.atoms:
            assert ends[-1] <= atom.start < atom.end <= len(document.body)
            ends.append(atom.end)


@settings(deadline=None)
@given(st.text())
def test_any_text_is_a_page(text: str) -> None:
    for section in read_page(text).sections:
        assert section.compose()[0]


# -- files -------------------------------------------------------------------------------------------------------------


def test_markdown_is_utf8_with_any_line_ends(tmp_path: Path) -> None:
    text = "---\r\ntitle: Loom\r\n---\r\n\r\nCafé:\r\n\r\n    <meta charset=latin-1>\r\n"
    (tmp_path / "a.md").write_bytes(text.encode())
    [document], _ = read(tmp_path)
    assert document.body == "Café:\n\n<meta charset=latin-1>"
    assert document.title == "Loom"


def test_front_matter_titles_a_page_without_a_heading(tmp_path: Path) -> None:
    (tmp_path / "yaml.mdx").write_text(
        "---\nid: a\ntitle: 'Looms'\n---\nimport Tabs from '@theme/Tabs';\n\nOne.\n\n## Set up\n\nTwo.\n"
    )
    (tmp_path / "toml.md").write_text('+++\ntitle = "Wool"\n+++\nThree.\n')
    (tmp_path / "own.md").write_text("---\ntitle: >-\n  Other\n---\n# Own\n\nFour.\n")
    documents = {document.title: document for document in by_id(tmp_path).values()}
    expected = {"Looms": "One.", "Set up": "Two.", "Wool": "Three.", "Own": "Four."}
    assert {title: document.body for title, document in documents.items()} == expected
    assert documents["Set up"].fields["headings"] == ("Looms",)


def test_markdown_sections_code_and_tables() -> None:
    documents = by_id(REFERENCE / "markup" / "guide.md")
    assert {name: document.body for name, document in documents.items()} == {
        "guide.md#weaving-guide": "Before you start, read this.",
        "guide.md#set-up": "def loom():\n\n    return 1\n\nName | Use\nwarp | long",
        "guide.md#set-up-1": "- first\n- second",
    }
    assert documents["guide.md#set-up"].fields["headings"] == ("Weaving guide",)


@pytest.mark.parametrize(
    ("heading", "anchor"),
    [
        ('The [`pump`](https://pumps.example/a "A pump")', "the-pump"),
        ("![Hand pump](images/hand.png) Pumps", "-pumps"),
        ("[Pumps][1]", "pumps"),
        ('<a name="old"></a>Pumps &amp; *wells*', "pumps--wells"),
        (r"read\_all", "read_all"),
    ],
)
def test_ids_of_markdown_headings_are_of_their_text(heading: str, anchor: str) -> None:
    html = markup.markdown(f"# {heading}\n\nText.\n\n[1]: https://pumps.example/b\n")
    assert read_page(html).sections[0].anchor == anchor


@pytest.mark.parametrize(
    ("heading", "title", "anchor"),
    [
        ("Pumps {#well}", "Pumps", "well"),
        ("`pump()` { #well-1.a .wide }", "pump", "well-1.a"),
        ("Pumps {: .no_toc }", "Pumps", "pumps"),
        ("Pumps {name}", "Pumps {name}", "pumps-name"),
        ("Pumps {}", "Pumps {}", "pumps-"),
    ],
)
def test_attributes_of_markdown_headings_are_no_text(heading: str, title: str, anchor: str) -> None:
    (section,) = read_page(markup.markdown(f"## {heading}\n\nText.\n")).sections
    assert (section.title, section.anchor) == (title, anchor)


NOTES = """\
# Page

!!! warning "Upper bound"
    At most 16 MB.

    ```python
    send(1)
    ```

    ??? note
        Or 32.

!!! danger ""
    No title.

=== "Linux"

    Run it.

Between.

:::note
Zero waits.
:::

::: tip Mind [the gap]
Retries count.
:::

````{seealso}
```sh
:::note
    !!! note
```
Below.
````

> [!IMPORTANT]
> Set the port.

1. First

    !!! tip
        In a list.

::: package.module
"""


def test_notes_of_markdown_are_paragraphs_below_their_titles() -> None:
    ((_, body),) = page(markup.markdown(NOTES))
    assert body.split("\n\n") == [
        "Upper bound",
        "At most 16 MB.",
        "send(1)",
        "Note",
        "Or 32.",
        "No title.",
        "Linux",
        "Run it.",
        "Between.",
        "Note",
        "Zero waits.",
        "Mind [the gap]",
        "Retries count.",
        "See also",
        ":::note\n    !!! note",
        "Below.",
        "Important",
        "Set the port.",
        "1. First",
        "Tip",
        "In a list.",
        "::: package.module",
    ]


def test_ids_of_markdown_headings_are_unique() -> None:
    headings = ["Pumps", "Pumps", "Pumps-1", "Pumps", "Pumps-1"]
    html = markup.markdown("".join(f"# {heading}\n\nText.\n\n" for heading in headings))
    expected = ["pumps", "pumps-1", "pumps-1-1", "pumps-2", "pumps-1-2"]
    assert [section.anchor for section in read_page(html).sections] == expected


def test_deep_lists_of_markdown_keep_their_text() -> None:
    text = "".join(f"{'  ' * depth}- item{depth}\n" for depth in range(90))
    ((_, body),) = page(markup.markdown(text))
    assert re.findall(r"item(\d+)", body) == [str(depth) for depth in range(90)]


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "text",
    [
        ">" * 100_000,
        "> - " * 20_000,
        "[" * 20_000,
        "![" * 10_000,
        "[a](" * 20_000,
        "# A\n# A-1\n" * 2_000,
        "".join(f"{'  ' * depth}- a\n" for depth in range(500)),
        "".join(f"{'    ' * depth}!!! a\n" for depth in range(500)),
        "!!! a" + " " * 200_000 + '"b',
        "> " * 100_000 + "[!a",
        ":::a" + " [" * 100_000,
        "# a" + " {#" * 50_000,
    ],
)
def test_hostile_markdown_is_read_in_time(text: str) -> None:
    assert markup.markdown(text)


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


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\x89PNG\r\n\0\0\0", "binary"),
        ("<p>файл</p>".encode("koi8-r"), "not utf-8 text (byte 3)"),
        (b"<meta charset=utf-8><p>caf\xe9</p>", "not utf-8 text (byte 26)"),
        (b"<meta charset=zlib><p>caf\xe9", "not utf-8 text"),
        (b"\xff\xfea", "not utf-16 text"),
    ],
)
def test_undecodable_pages_are_skipped_with_the_reason(
    tmp_path: Path, content: bytes, reason: str
) -> None:
    (tmp_path / "page.html").write_bytes(content)
    assert reason in only_skipped(tmp_path)


@pytest.mark.parametrize("codec", ["euc_jp", "cp932", "iso2022_jp", "utf-8"])
@pytest.mark.parametrize("name", ["page.html", "page.md", "page.rst", "page.adoc", "page.1"])
def test_japanese_is_read_whatever_its_encoding(tmp_path: Path, name: str, codec: str) -> None:
    text = "既定値は 30 です。\n接続が切れるまでの秒\n数を表します。\n"
    head = {"page.1": ".TH PAGE 1\n.SH 説明\n", "page.html": "<p>"}.get(name, "")
    (tmp_path / name).write_bytes(f"{head}{text}".encode(codec))
    ((document,), skipped) = read(tmp_path)
    assert (document.body, skipped) == (
        "既定値は 30 です。接続が切れるまでの秒数を表します。",
        [],
    )


def test_the_end_of_a_line_parts_words_but_in_chinese_and_japanese() -> None:
    page = read_page("<p>長い<b>名\n前</b>\n  の weft\n糸。 短い\nwool</p><p>한국\n어</p>")
    assert [block.text for block in page.sections[0].blocks] == [
        "長い名前の weft 糸。 短い wool",
        "한국 어",
    ]


def test_markdown_that_is_not_utf8_is_decoded_where_its_encoding_can_be_told(
    tmp_path: Path,
) -> None:
    (tmp_path / "page.md").write_bytes("# Café\n\nDéjà vu.\n".encode("cp1252"))
    ((document,), skipped) = read(tmp_path)
    assert (document.title, document.body, skipped) == ("Café", "Déjà vu.", [])


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"<meta charset='iso-8859-1'><p>caf\xe9", "café"),
        (b"<meta charset='ISO-8859-1'><p>5 \x80 doesn\x92t", "5 € doesn’t"),
        (b"<meta charset=latin-1><p>\x96 \x81", "– \ufffd"),
        (b"<meta charset=us-ascii><p>caf\xe9", "café"),
        (b"<meta charset=utf-16><p>caf\xc3\xa9", "café"),
        (b"<meta charset=iso-8859-15><p>\xa4", "€"),
        (b"\xef\xbb\xbf<meta charset=iso-8859-1><p>caf\xc3\xa9", "café"),
        (
            b'<meta http-equiv="Content-Type" content="text/html; charset=Shift_JIS"><p>\x83\x89',
            "ラ",
        ),
        ("<p>naïve".encode("utf-16"), "naïve"),
        (b"\xef\xbb\xbf<p>bom", "bom"),
    ],
)
def test_declared_encodings_are_honoured(tmp_path: Path, content: bytes, text: str) -> None:
    (tmp_path / "page.html").write_bytes(content)
    [document] = read(tmp_path)[0]
    assert document.body == text


def test_page_over_the_limit_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manual, "MAX_PAGE_BYTES", 1000)
    (tmp_path / "big.html").write_text("<p>" + "x" * 1000)
    (tmp_path / "small.html").write_text("<p>x")
    documents, skipped = read(tmp_path)
    assert [document.id for document in documents] == ["small.html"]
    assert [(skip.path, "1,000 bytes" in skip.reason) for skip in skipped] == [("big.html", True)]


def test_deleted_page_is_a_transient_skip(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text("<p>text")
    [file] = manual.files(tmp_path)
    assert isinstance(file, SourceFile)
    (tmp_path / "a.html").unlink()
    assert list(file.read()) == [
        Skipped("a.html", "cannot be read: No such file or directory", passing=True)
    ]


def test_text_across_feeding_borders_is_whole() -> None:
    words = [f"größe{number}" for number in range(30_000)]
    assert page(f"<p>{' '.join(words)}") == [("", " ".join(words))]


def test_links_that_leave_the_root_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "outside.html").write_text("<p>secret")
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    (root / "sub" / "b.html").write_text("<p>b")
    (root / "a.html").symlink_to(root / "sub" / "b.html")
    (root / "out.html").symlink_to(tmp_path / "outside.html")
    (root / "folder").symlink_to(tmp_path, target_is_directory=True)
    assert [document.id for document in read(root)[0]] == ["a.html", "sub/b.html"]


def test_wrong_roots_are_named(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="nowhere"):
        list(manual.files(tmp_path / "nowhere"))
    (tmp_path / "page.pdf").write_bytes(b"%PDF")
    with pytest.raises(InvalidInput, match=r"page\.pdf"):
        list(manual.files(tmp_path / "page.pdf"))


def test_digest_follows_content_and_unit(tmp_path: Path) -> None:
    def digest(**options: str) -> str:
        [file] = manual.files(tmp_path, **options)  # type: ignore[arg-type]
        assert isinstance(file, SourceFile)
        return file.digest

    path = tmp_path / "page.html"
    path.write_text("<p>one")
    before = digest()

    assert digest() == before
    assert digest(unit="page") != before

    path.write_text("<p>two")

    assert digest() != before


# -- docstrings --------------------------------------------------------------------------------------------------------


def docstring_documents(module: str) -> dict[str, Document]:
    file = next(file for file in docstrings.files() if file.path == module)
    assert isinstance(file, SourceFile)
    return {item.title: item for item in file.read() if isinstance(item, Document)}


def test_docstrings_name_list_without_importing_the_noisy() -> None:
    names = [file.path for file in docstrings.files()]
    assert len(names) > 250
    assert {"builtins", "json", "os.path", "collections.abc", "xml.etree.ElementTree"} <= set(names)
    assert not {"antigravity", "this", "test", "idlelib", "__main__", "_thread", "posixpath"} & set(
        names
    )


def test_docstrings_of_builtins() -> None:
    documents = docstring_documents("builtins")
    fromhex = documents["bytes.fromhex"]

    assert fromhex.body.startswith(
        "bytes.fromhex(string, /)\n\nCreate a bytes object from a string"
    )
    assert fromhex.context == ("bytes",)
    assert fromhex.fields["directive"] == "method"
    assert (fromhex.location.url or "").endswith("/library/stdtypes.html#bytes.fromhex")
    assert (documents["sorted"].location.url or "").endswith("/library/functions.html#sorted")
    assert (documents["ValueError"].location.url or "").endswith(
        "/library/exceptions.html#ValueError"
    )


@pytest.mark.parametrize(
    ("text", "signature", "rest"),
    [
        (
            "span(stop) -> span object\nspan(start, stop[, step]) -> span object\n\nIt is lazy.",
            "class a.span(stop) -> span object\nclass a.span(start, stop[, step]) -> span object",
            "It is lazy.",
        ),
        ("span(stop)\nReturn it.", "class a.span(stop)", "Return it."),
        (
            "S.span(of) --> Yield what lies between.\n\nIt is lazy.",
            "class a.span(of)",
            "S.span(of) --> Yield what lies between.\n\nIt is lazy.",
        ),
        ("D.span(i) -- insert", "class a.span(i)", "D.span(i) -- insert"),
        (
            "span(of=(1, 2)): cut (or not)",
            "class a.span(of=(1, 2))",
            "span(of=(1, 2)): cut (or not)",
        ),
        ("other(stop)\nspan(stop)", "class a.span(...)", "other(stop)\nspan(stop)"),
        ("span(start,\n     stop)", "class a.span(...)", "span(start,\n     stop)"),
    ],
)
def test_docstrings_begin_with_calls_whose_arguments_python_does_not_know(
    text: str, signature: str, rest: str
) -> None:
    assert docstrings._signed("class a.span", "(...)", text) == (signature, rest)
    assert docstrings._signed("class a.span", "(a)", text) == ("class a.span(a)", text)


def test_docstrings_do_not_tell_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some functions have all of it as a default argument."""
    monkeypatch.setenv("PURLIN_TEST_SECRET", "hunter2")

    def parse(environ: object = os.environ, strict: bool = False) -> None: ...

    arguments = docstrings._arguments(parse)

    assert "os.environ" in arguments
    assert "hunter2" not in arguments


def test_docstrings_include_private_bases() -> None:
    documents = docstring_documents("io")

    assert documents["io"].fields["directive"] == "module"
    # The name is an answer to "which module …".
    assert documents["io"].body.startswith("io - The io module provides the Python interfaces")
    assert documents["io.RawIOBase.readall"].context == ("io.RawIOBase",)

    fold = docstring_documents("bisect")["bisect.bisect_left"]

    assert fold.body.startswith(
        "bisect.bisect_left(a, x, lo=0, hi=None, *, key=None)\n\nReturn the index"
    )

    example = docstring_documents("collections")["collections.namedtuple"]
    code = [example.body[atom.start : atom.end] for atom in example.atoms[1:]]

    assert code
    assert all(block.lstrip().startswith(">>>") for block in code)


def test_docstrings_that_cannot_be_imported_are_skipped() -> None:
    [skipped] = docstrings._read("asyncio.windows_events")
    assert isinstance(skipped, Skipped)
    assert "cannot be imported" in skipped.reason
    assert skipped.passing


def test_docstrings_use_the_documented_module() -> None:
    assert "asyncio.gather" in docstring_documents("asyncio")
    assert "asyncio.tasks.gather" not in docstring_documents("asyncio.tasks")


# -- the topics of help() ----------------------------------------------------------------------------------------------

TOPIC = """\
Mapping Types — "dict"
**********************

A *mapping* maps "1 < 2" to **values**, but not "*" to 2*3*4. Lines
are joined.

+-----------+----------------+---------+
| Operation | Result         | Notes   |
|===========|================|=========|
| "x in s"  | "True" if an   | (1)(2)  |
|           | item is *x*    |         |
+-----------+----------------+---------+

* one item, which goes
  on

  and has a second paragraph

* another

class dict(**kwargs)
class dict(mapping, **kwargs)

   Return a new dictionary. It is the same as:

      >>> dict(one=1)

      {'one': 1}

   list(d)

      Return all keys.

   get(key[, default])

      Return the value for *key*, else *default*:

         if key in d:
             return d[key]

Notes
=====

mapping_stmt ::= "a"

1. First.

2. Second.

callable types
   These are the types to which calls can be applied.

   They have names.

[1] A footnote that
    goes on.

Note:

  Keys keep their order.
"""


def topic_documents(monkeypatch: pytest.MonkeyPatch, topics: dict[str, str]) -> dict[str, Document]:
    monkeypatch.setitem(sys.modules, "pydoc_data.topics", SimpleNamespace(topics=topics))
    # Listing the modules of the library takes most of the time.
    monkeypatch.setattr(docstrings, "files", lambda: iter(()))
    [file] = [file for file in manual.python_help() if file.path == "library/stdtypes.html"]
    return {
        item.id.removeprefix("library/stdtypes.html#"): item
        for item in file.read()
        if isinstance(item, Document)
    }


def test_topics_read_like_pages_of_the_manual(monkeypatch: pytest.MonkeyPatch) -> None:
    documents = topic_documents(monkeypatch, {"typesmapping": TOPIC})

    expected = ["mapping-types-dict", "dict", "dict~2", "dict.get", "notes", "notes~2"]
    assert list(documents) == expected
    assert documents["mapping-types-dict"].body == (
        "A mapping maps 1 < 2 to values, but not * to 2*3*4. Lines are joined.\n\n"
        "Operation | Result | Notes\nx in s | True if an item is x | (1)(2)\n\n"
        "- one item, which goes on\n\nand has a second paragraph\n- another"
    )

    constructor = documents["dict"]

    assert constructor.body == (
        "class dict(**kwargs)\nclass dict(mapping, **kwargs)\n\n"
        "Return a new dictionary. It is the same as:\n\n>>> dict(one=1)\n\n{'one': 1}"
    )
    assert constructor.fields["headings"] == ("Built-in Types", "Mapping Types — dict")
    assert constructor.fields["directive"] == "class"
    assert re.fullmatch(
        r"https://docs.python.org/3\.\d+/library/stdtypes.html#dict", constructor.location.url or ""
    )
    assert documents["dict~2"].title == "list(d)"

    get = documents["dict.get"]

    assert (get.context, get.title, get.fields["directive"]) == (("dict",), "dict.get", "method")
    assert get.body.endswith("else default:\n\nif key in d:\n    return d[key]")
    assert documents["notes"].body == (
        "mapping_stmt ::= a\n\n1. First.\n2. Second.\n\n[1] A footnote that goes on.\n\nNote:\n\nKeys keep their order."
    )
    assert documents["notes~2"].body.startswith(
        "callable types\n\nThese are the types to which calls can be applied."
    )


def test_code_right_below_an_item_stays_code(monkeypatch: pytest.MonkeyPatch) -> None:
    text = """\
Notes
*****

1. As in:

      >>> "gg" in "eggs"
      True

   Then more.

term
   Told by:

      if "a":
          "b"
"""

    documents = topic_documents(monkeypatch, {"truth": text})

    assert documents["notes"].body == '1. As in:\n\n>>> "gg" in "eggs"\nTrue\n\nThen more.'
    assert documents["notes~2"].body == 'term\n\nTold by:\n\nif "a":\n    "b"'


@pytest.mark.parametrize("head", ["class list[T](items)", "class (T)", "class a.b()\nclass "])
def test_class_without_a_plain_name_is_read(monkeypatch: pytest.MonkeyPatch, head: str) -> None:
    documents = topic_documents(
        monkeypatch, {"truth": f"Types\n*****\n\nSome.\n\n{head}\n\n   Told here.\n"}
    )
    assert any(document.body == f"{head.strip()}\n\nTold here." for document in documents.values())


@pytest.mark.parametrize(
    "table",
    [
        "+-----+-----+\n| one | two |\n+-----+-----+\n| three four|\n+-----------+",
        "+-+ Exception\n  | Error: 1\n  +---------",
        "+------+----+\n| 日本 | b  |\n+------+----+",
    ],
)
def test_irregular_table_stays_text(monkeypatch: pytest.MonkeyPatch, table: str) -> None:
    documents = topic_documents(monkeypatch, {"truth": f"Types\n*****\n\n{table}\n"})
    assert documents["types"].body == table


_PIECES = """alpha Beta class dict.get(key) list(d) object.__init__(self) "lit" "a *em* **st** | +- +---+ |===| * 1. [1]
Note: <b> &amp; ::= - 日本 é ~ ` >>> . ==== ---- static""".split()
_LINES = st.builds(
    lambda indent, words: " " * indent + " ".join(words),
    st.sampled_from([0, 0, 0, 2, 3, 5, 6]),
    st.lists(st.sampled_from([*_PIECES, "\t", "\x0b", "class "]), max_size=4),
)


@settings(deadline=None, max_examples=300)
@given(st.lists(_LINES, max_size=10).map(lambda lines: "\n".join([*lines, "", "The end."])))
def test_no_letter_of_a_topic_is_lost(text: str) -> None:
    with pytest.MonkeyPatch.context() as patched:
        plain = re.sub(
            r"(?m)^\s*[-=]{4}$", "", text
        )  # what is no heading: one with nothing below has no document
        documents = topic_documents(patched, {"truth": plain})

    shown = Counter("".join(document.body for document in documents.values()))

    assert {
        char for char, times in Counter(plain).items() if char.isalpha() and shown[char] < times
    } == set()


def test_topic_within_another_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = "Types\n*****\n\nIntroduction.\n\n\nTruth\n=====\n\nTrue or false.\n\n\nMore\n----\n\nMore on it.\n"
    part = "Truth\n*****\n\nTrue or false.\n\n\nMore\n====\n\nMore on it.\n"
    modules = "Modules\n*******\n\nOf their own.\n"
    documents = topic_documents(
        monkeypatch, {"truth": part, "typesseq": whole, "typesmodules": modules}
    )
    assert list(documents) == ["types", "truth", "more", "modules"]


def test_python_without_topics_has_docstrings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydoc_data.topics", None)
    topics.titles.cache_clear()

    try:
        paths = [file.path for file in manual.python_help()]

        assert "builtins" in paths
        assert not [path for path in paths if path.endswith(".html")]
        assert {"range", "str.zfill"} <= set(docstring_documents("builtins"))
    finally:
        topics.titles.cache_clear()


def test_help_prefers_topics_to_docstrings() -> None:
    files = list(manual.python_help())
    pages = [file for file in files if file.path.endswith(".html")]

    assert {file.path.removesuffix(".html") for file in pages} == set(topics.TITLES)

    builtin = next(file for file in files if file.path == "builtins")
    documents = [
        item for file in (*pages, builtin) for item in file.read() if isinstance(item, Document)
    ]

    assert len({item.id for item in documents}) == len(documents) > 400

    defined = Counter(
        item.title
        for item in documents
        if item.fields["directive"] in ("class", "method", "attribute")
    )

    assert defined["dict.get"] == 1
    assert max(defined.values()) == 1

    step = next(item for item in documents if item.id == "library/stdtypes.html#range")

    assert "If the step argument is omitted, it defaults to 1." in step.body


def test_links_lead_to_the_reference_on_the_web(tmp_path: Path) -> None:
    (tmp_path / "a b.html").write_text(
        "<h1>T</h1><dl class='py function'><dt id='f'>f(x)</dt><dd>Return x.</dd></dl>"
    )
    [file] = manual.files(tmp_path, base_url="https://example.org/3.11/")

    assert isinstance(file, SourceFile)
    assert [d.location.url for d in file.read() if isinstance(d, Document)] == [
        "https://example.org/3.11/a%20b.html#f"
    ]

    [relinked] = manual.files(tmp_path)

    assert isinstance(relinked, SourceFile)
    assert relinked.digest != file.digest


def test_heading_module_contents_names_no_module(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(
        '<section id="module-loom"><h1>loom</h1><section id="module-contents"><h2>Module Contents</h2>'
        '<dl class="py function"><dt id="loom.weave"><code>loom.weave()</code></dt><dd>Weaves.</dd></dl></section>'
        '<section id="module-loom.abc"><h2>loom.abc - Base classes</h2>'
        '<dl class="py class"><dt id="loom.abc.Frame"><code>class loom.abc.Frame</code></dt><dd>A frame.</dd></dl>'
        "</section></section>"
    )

    [file] = manual.files(tmp_path)

    assert isinstance(file, SourceFile)

    modules = {
        item.title: item.fields["module"] for item in file.read() if isinstance(item, Document)
    }

    assert modules["loom.weave()"] == "loom"
    assert modules["class loom.abc.Frame"] == "loom.abc"


@pytest.mark.parametrize(
    ("page", "command"),
    [
        # mandoc, Asciidoctor and man2html.
        ("<title>LOOM(1)</title><h1>NAME</h1><p>Loom, reed - weave</p><h1>OPTIONS</h1>", "Loom"),
        ("<h1>loom(1) Manual Page</h1><h2>NAME</h2><p>loom - weave</p><h2>OPTIONS</h2>", "loom"),
        (
            "<h1>LOOM</h1>Section: User Commands (1)<h2>NAME</h2>loom - weave<h2>OPTIONS</h2>",
            "loom",
        ),
        # A page with such a heading is no manual page, nor one with the number alone.
        ("<h1>Loom</h1><h2>NAME</h2><p>Loom - weave</p><h2>OPTIONS</h2>", ""),
        ("<h1>loom(1)</h1><h2>Weave</h2><p>loom - weave</p><h2>OPTIONS</h2>", ""),
        ("<h1>loom(1)</h1><h2>NAME</h2><p>reed - weave</p><h2>OPTIONS</h2>", ""),
    ],
)
def test_entries_of_a_manual_page_in_html_know_their_command(
    tmp_path: Path, page: str, command: str
) -> None:
    (tmp_path / "loom.1.html").write_text(
        f"{page}<dl><dt>--[no-]knots[=N]</dt><dd>Knots.</dd></dl>"
    )
    documents, _ = read(tmp_path)
    assert documents[-1].context == ((command,) if command else ())
