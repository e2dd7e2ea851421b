"""Entries of Sphinx and DocBook, with their names, signatures and parents."""

from __future__ import annotations

from pathlib import Path

import pytest

from purlin.index.records import Document, SourceFile
from purlin.index.sources.references import manual
from purlin.index.sources.references.html.reader import read_page
from tests.support.references import REFERENCE, by_id, read


def test_a_term_has_the_id_of_what_encloses_it() -> None:
    markup = """<dl id="all"><div id="ebb"><dt>ebb</dt><dd>It falls. <a id="inner"></a></dd></div>
        <dt>flood</dt><dd>It rises.</dd></dl>"""
    assert [section.anchor for section in read_page(markup).sections] == ["ebb", ""]


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


@pytest.mark.parametrize("classes", ["py exception", "exception"])
def test_exceptions_of_sphinx_are_definitions(classes: str) -> None:
    (section,) = read_page(f"""
        <dl class="{classes}"><dt id="loom.Torn"><em class="property">exception </em>
        <code class="descname">Torn</code></dt><dd><p>A thread is torn.</p></dd></dl>""").sections
    assert section.title == "loom.Torn"


def test_parameters_of_numpydoc_are_apart_from_their_types() -> None:
    sections = read_page("""
        <dl class="field-list"><dt>Parameters</dt><dd><dl>
        <dt><strong>thresh</strong><span class="classifier">int, optional</span></dt><dd>At least.
        <dt>how <span class="classifier-delimiter">:</span> <span class="classifier">str</span></dt>
        <dd>Any.</dl></dd></dl>""").sections
    expected = [("thresh", "thresh : int, optional"), ("how", "how : str")]
    assert [(section.title, section.signature) for section in sections[-2:]] == expected


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
