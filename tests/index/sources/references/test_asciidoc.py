"""AsciiDoc becomes documents: sections, terms with their options, code, tables."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purlin.index.records import Document
from purlin.index.sources.references import asciidoc, manual
from tests.support import references
from tests.support.paths import DATA

ASCIIDOC = DATA / "asciidoc"


def read(root: Path) -> dict[str, Document]:
    # Of one page alone, what it includes is not there.
    documents, _ = references.read(root)
    return {document.id.partition("#")[2]: document for document in documents}


@pytest.fixture(scope="module")
def loom() -> dict[str, Document]:
    return read(ASCIIDOC / "loom.adoc")


def test_sections_have_the_ids_that_asciidoctor_gives_them(loom: dict[str, Document]) -> None:
    sections = {
        id: (document.title, document.fields.get("headings"))
        for id, document in loom.items()
        if "signature" not in document.fields
    }
    assert sections == {
        "start": ("First steps", ("Loom Guide",)),
        "_options": ("Options", ("Loom Guide", "First steps")),
        "_options_2": ("Options", ("Loom Guide", "First steps")),
    }


def test_text_is_read_without_its_marks(loom: dict[str, Document]) -> None:
    assert loom["start"].body == (
        "The Loom weaves thread_by_thread, see above, Knots and the site. “Quoted” and “old”\n"
        "on two lines; see tar(1) and a.html. *kept* < {unknown}\n\n"
        "NOTE: Mind your fingers.\n\nWarning\n\nIt is fast.\n\n indented code\n   more"
    )


def test_what_follows_a_list_belongs_to_its_section(loom: dict[str, Document]) -> None:
    assert loom["_options"].body == (
        "After the lists.\n\nWhat there is\n\n"
        "Mark | Meaning\na | one | thread\nb | cloth\n\n"
        "x = 1  # <1>\n\n1. Sets x."
    )
    assert loom["_options_2"].body == "line one\nline two"


def test_terms_are_entries_with_what_is_attached_to_them(loom: dict[str, Document]) -> None:
    terms = {
        document.title: document.body
        for document in loom.values()
        if "signature" in document.fields
    }
    assert terms == {
        "-q, --quiet": "-q\n--quiet\n\nSay less.\n\nloom -q // all\n\nAlways.",
        "loom.path": "loom.path (string)\n\n"
        "Where the loom is.\n\n- in a house\n  - upstairs\n- elsewhere",
        "short": "short\n\non the line",
        "outer": "outer\n\naround",
        "inner": "inner\n\nnested\n\nIn a block:\n\n1. first\n2. second",
    }
    assert loom["path"].title == "loom.path"
    assert loom["_options~2"].fields["directive"] == "option"
    assert [each.context for each in loom.values() if each.title == "inner"] == [("outer",)]


def test_a_manual_page_knows_its_command(tmp_path: Path) -> None:
    page = tmp_path / "weave.asciidoc"
    page.write_text(
        "weave(1)\n========\n\nNAME\n----\nweave - makes cloth\n\nUSE\n---\n-v::\n  More.\n"
    )
    documents = read(tmp_path)

    assert set(manual.names(tmp_path)) == {"weave.asciidoc"}
    assert documents[""].title == "weave(1)"
    assert documents[""].body == "weave - makes cloth"
    assert documents["_use"].context == ("weave",)
    assert documents["_use"].title == "-v"


@pytest.mark.parametrize(
    ("source", "html"),
    [
        ("* a\n** b\n\n\n+\nc", "<ul><li><p>a</p><ul><li><p>b</p></ul><p>c</p></ul>"),
        ("* a\n\n--\nb\n--\nc", "<ul><li><p>a</p></ul><p>b</p><p>c</p>"),
        ("====\nsame\n====\nb", "<p>same</p><p>b</p>"),
        ("a\n* b", "<p>a * b</p>"),
        ("== A\n:idprefix:\n:idseparator: -\n\n== B c", '<h2 id="_a">A</h2><h2 id="b-c">B c</h2>'),
        ("= T\n== A\nb", '<h1>T</h1><h2 id="_a">A</h2><p>b</p>'),
        (":a: <i>{a}\n\n{a}", "<p>&lt;i&gt;{a}</p>"),
        ("|===\n|a|b\n|c|d\n|===\n", "<table><tr><td>a</td><td>b</td></tr>"
         "<tr><td>c</td><td>d</td></tr></table>"),
        ("```js\n= a\n```", "<pre>= a</pre>"),
        ("[source]\na\n b\n\nc", "<pre>a\n b</pre><p>c</p>"),
        ("a `b*c` d*e*f 'g' don't", "<p>a b*c d*e*f g don&#x27;t</p>"),
        ("a::b c :: d", "<dl><dt><span class=\"term\">a::b c</span></dt><dd><p>d</p></dl>"),
        ("----\nnever ends", "<pre>never ends</pre>"),
    ],
)  # fmt: skip
def test_blocks_become_html(source: str, html: str) -> None:
    assert asciidoc.html(source) == html


def test_what_references_add_is_bounded() -> None:
    page = f":a: {'b' * 500}\n\n" + "{a}" * 100_000
    assert len(asciidoc.html(page)) < len(page) + 2 * asciidoc.MAX_SUBSTITUTED


@given(st.text(alphabet="*_`'#+-=.:;|[]<>{}()/\\ \nab1&", max_size=200))
def test_any_text_is_read(text: str) -> None:
    asciidoc.html(text)


@pytest.mark.parametrize(
    "part",
    [
        "*a ", "**a ", "`", "``", "\"`a", "<<a", "[[", "(((a", "link:a[", "https://a", "{a}", ":a: {a}{a}\n",
        "* a\n", "a::\n", "a:::\n", "::", "\n+\n", "--\n", "====\n", "*****\n", "|===\n|a\n", "1.2+^a|", "= a\n",
        "a\n-\n", "ab\n--\n", "[[a]]\n", "[NOTE]\n", "- a\n\n  b\n", "[cols=", "a +\n", "ifdef::a[\n", "aa:b[1",
    ],
)  # fmt: skip
def test_hostile_pages_are_read_in_time(part: str) -> None:
    asciidoc.html("a\n\n" + part * 20_000)


def test_an_option_and_its_negation_are_one_name(tmp_path: Path) -> None:
    (tmp_path / "loom.adoc").write_text("= Loom\n\n--[no-]knots[=<n>]::\n  Tie.\n")
    titles = [document.title for document in read(tmp_path / "loom.adoc").values()]
    assert titles == ["--[no-]knots"]
