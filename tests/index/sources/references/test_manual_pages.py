"""Sources of manual pages become documents with options as terms and examples as code."""

from __future__ import annotations

import gzip
import re
from html import unescape
from pathlib import Path

import pytest

from purlin.index.sources.references import manual, manual_pages
from tests.support.files import write_tree
from tests.support.references import REFERENCE, by_id, only_skipped, read

MANUALS = REFERENCE / "manual"


def bodies(name: str) -> dict[str, str]:
    return {id: document.body for id, document in by_id(MANUALS / name).items()}


def test_options_of_man_are_terms_and_examples_are_code() -> None:
    assert bodies("weave.1") == {
        "weave.1": "weave\n\nmake cloth of threads",
        "weave.1#SYNOPSIS": "weave [-v | --verbose]\n      thread...",
        "weave.1#DESCRIPTION": "Cloth is large; see loom(7) and ~/.loomrc.\n\n"
        "Reads café naïve “threads” • costs little, not much.",
        "weave.1#v": "-v, --verbose\n\nSay more.\n\nTwice for all:\n\nweave -vv \\n",
        "weave.1#width": "--width=CM\n\nHow wide:\n\n- narrow\n- wide\n\nMark | Means\na | one thread",
        "weave.1#auto": "auto\n\nas the loom is",
        "weave.1#0": "0\n\nDone. the site <https://loom.example/>.",
    }


def test_terms_of_man_have_names_titles_and_enclosing_terms() -> None:
    documents = by_id(MANUALS / "weave.1")
    verbose, width = documents["weave.1#v"], documents["weave.1#width"]

    assert documents["weave.1"].title == "weave(1)"
    assert verbose.title == "-v, --verbose"
    assert verbose.fields["directive"] == "option"
    assert verbose.fields["headings"] == ("weave(1)", "OPTIONS")
    assert width.title == "--width"
    assert documents["weave.1"].context == ()
    assert documents["weave.1#DESCRIPTION"].context == ("weave",)
    assert documents["weave.1#auto"].context == ("weave", "--width")


PAGE = """.TH {name} {section}
.SH NAME
{names} \\- winds threads
.SH {heading}
{synopsis}
.SH DESCRIPTION
.TP
\\fBspool cancel\\fR \\fIid\\fR
Stops it.
.TP
\\fBother\\fR
Else.
"""


@pytest.mark.parametrize(
    ("section", "names", "heading", "synopsis", "expected"),
    [
        ("n", "spool", "SYNOPSIS", "\\fBspool\\fR \\fIms\\fR", ("spool",)),
        ("1", "spool", "書式", "\\fBspool\\fR [-a]", ("spool",)),
        ("3tcl", "spool, wind", "SYNOPSIS", "int\n\\fBwind\\fR(\\fIx\\fR)", ("spool", "wind")),
        ("5", "spool", "SYNOPSIS", "spool", ()),
        ("1", "spool", "DESCRIPTION", "Threads in general.", ()),
    ],
)
def test_commands_and_functions_are_entries(
    tmp_path: Path, section: str, names: str, heading: str, synopsis: str, expected: tuple[str, ...]
) -> None:
    suffix = section if section[0].isdigit() else "1"
    (tmp_path / f"spool.{suffix}").write_text(
        PAGE.format(name="spool", section=section, names=names, heading=heading, synopsis=synopsis)
    )
    documents, _ = read(tmp_path)
    page, cancel, other = documents[0], documents[-2], documents[-1]

    assert page.title == f"spool({section})"
    assert page.body == (f"{names}\n\nwinds threads" if expected else f"{names} - winds threads")
    assert page.fields["directive"] == ("function" if expected else "section")
    assert page.fields.get("names", expected[:1]) == expected
    assert (cancel.title, other.title) == ("spool cancel", "other")
    is_callable = section != "5"
    assert cancel.fields["directive"] == ("function" if is_callable else "term")
    assert other.fields["directive"] == "term"


def test_pages_of_a_library_are_entries_with_their_description(tmp_path: Path) -> None:
    head = (
        ".TH {name} 3\n.SH NAME\n{name} \\- {purpose}\n.SH LIBRARY\nLoom (-lloom)\n.SH SYNOPSIS\n"
    )
    (tmp_path / "wind.3").write_text(
        head.format(name="wind", purpose="winds threads")
        + "int wind(int turns);\n.SH DESCRIPTION\nMind the turns.\n.SH ERRORS\nNone.\n"
    )
    (tmp_path / "LOOM_TURNS.3").write_text(
        head.format(name="LOOM_TURNS", purpose="most turns")
        + "int loom_set(LOOM *loom, LOOM_TURNS, long turns);\n.SH DESCRIPTION\nPass a long.\n"
    )

    documents, _ = read(tmp_path)
    entries = {
        document.title: (document.fields["directive"], document.body) for document in documents
    }

    assert entries["wind(3)"] == (
        "function",
        "int wind(int turns);\n\nwinds threads\n\nMind the turns.",
    )
    assert entries["LOOM_TURNS(3)"] == ("option", "LOOM_TURNS\n\nmost turns\n\nPass a long.")
    assert "DESCRIPTION" not in entries
    assert "ERRORS" in entries


@pytest.mark.parametrize(
    ("name", "library", "synopsis", "description"),
    [
        ("BEZEICHNUNG", "BIBLIOTHEK", "ÜBERSICHT", "BESCHREIBUNG"),
        ("NOM", "BIBLIOTHÈQUE", "SYNOPSIS", "DESCRIPTION"),
        ("名前", "ライブラリ", "書式", "説明"),
        ("НАЗВАНИЕ", "БИБЛИОТЕКА", "СИНТАКСИС", "ОПИСАНИЕ"),
    ],
)
def test_translated_pages_of_a_library_have_their_description(
    tmp_path: Path, name: str, library: str, synopsis: str, description: str
) -> None:
    (tmp_path / "spool.3").write_text(
        f".TH spool 3\n.SH {name}\nspool \\- winds\n.SH {library}\nLoom (-lloom)\n.SH {synopsis}\n"
        f"int spool(int id);\n.SH {description}\nIt turns.\n"
    )
    documents, _ = read(tmp_path)
    assert documents[0].title == "spool(3)"
    assert documents[0].body == "int spool(int id);\n\nwinds\n\nIt turns."
    assert description not in {document.title for document in documents}


def test_functions_of_c_have_their_declarations_as_signature(tmp_path: Path) -> None:
    synopsis = "\n".join(
        ("#include <loom.h>", ".PP", ".BI \"char *spool(const char *\" thread ,",
         ".BI \"            int \" turns );", ".br", ".BI \"void (*wind(int \" turns ))(int);")
    )  # fmt: skip
    (tmp_path / "spool.3").write_text(
        PAGE.format(
            name="spool", section="3", names="spool, wind", heading="SYNOPSIS", synopsis=synopsis
        )
    )

    document = read(tmp_path)[0][0]

    assert document.fields["names"] == ("spool", "wind")
    assert document.body == "char *spool(const char *thread, int turns);\nwind\n\nwinds threads"


@pytest.mark.parametrize(
    ("title", "names", "name"),
    [
        ("GZIP", "gzip, gunzip, zcat", "gzip"),
        ("zcat", "gzip, gunzip, zcat", "zcat"),
        ("git-sparse-checkou", "git-sparse-checkout", "git-sparse-checkout"),
        ("X", "Xorg, X", "X"),
        ("CBQ", "CBQ", "CBQ"),
        ("TC", "choke", "tc"),
        ("a&b", "a, b", "a&b"),
    ],
)
def test_a_page_is_named_as_its_section_name_spells_it(title: str, names: str, name: str) -> None:
    html = manual_pages.html(f".TH {title} 1\n.SH NAME\n{names} \\- it\n.SH B\nb\n")
    [page_title] = re.findall(r"<h1>(.*?)</h1>", html)

    assert unescape(page_title) == f"{name}(1)"
    assert manual_pages.command(unescape(page_title)) == name


def test_segments_and_whole_pages_have_no_command() -> None:
    for unit in ("segment", "page"):
        documents, _ = read(MANUALS / "weave.1", unit=unit)
        assert documents
        assert not any(document.context for document in documents)


def test_mdoc_is_read_with_its_marks_lists_and_displays() -> None:
    assert bodies("spin.5") == {
        "spin.5": "spin, respin – spins wool",
        "spin.5#SYNOPSIS": "spin [-fv] [-o file]",
        "spin.5#DESCRIPTION": "See weave(1), /etc/spin (‘!’).\n\nwool | soft\nsilk | fine",
        "spin.5#Speed": "Speed\n\nTurns; the default is “12”.",
        "spin.5#D": "-D [host:]port\n\nWhere to listen.\n\nspin -D 80",
    }


def test_terms_of_docbook_are_paragraphs_above_an_indentation() -> None:
    source = (
        '.\\" Generator: DocBook XSL Stylesheets\n.TH "GIT\\-ADD" "1"\n.SH "OPTIONS"\n'
        ".PP\n\\-\\-onto <base>\n.RS 4\nWhere to begin\\&.\n.sp\nNext\\&.\n.RE\n"
        ".sp\n.RS 4\n.ie n \\{\\\n\\h'-04'\\(bu\\h'+03'\\c\n.\\}\n.el \\{\\\n.IP \\(bu 2.3\n.\\}\n"
        "an item\n.RE\n"
    )
    html = manual_pages.html(source)

    assert "<h1>git-add(1)</h1>" in html
    assert '<dt id="onto"><span class="term">--onto</span> &lt;base&gt;</dt>' in html
    assert "<li><p>an item</p>" in html


def test_terms_of_asciidoctor_are_paragraphs_above_an_indentation() -> None:
    html = manual_pages.html(
        '.\\"  Generator: Asciidoctor 2.0.15\n.TH "LOOM.CONF" "5"\n.SH "DIRECTIVES"\n.sp\nFirst.\n'
        ".sp\n\\fBwarp\\fP \\fIlength\\fP [\\fIoption\\fP]...\n.RS 4\nStretches. It has options:\n"
        ".sp\n\\fBmaxturns\\fP \\fIturns\\fP\n.RS 4\nHow many turns.\n.RE\n"
        ".sp\n\\fBtight\\fP\n.RS 4\nMore so.\n.RE\n.RE\n"
        ".sp\nAn example is:\n.sp\n.if n .RS 4\n.nf\nwarp 3\n.fi\n.if n .RE\n"
    )
    turns = '<dt id="maxturns"><span class="term">maxturns</span> turns</dt><dd>'
    tight = '<dt id="tight"><span class="term">tight</span></dt><dd><p>More so.</p></dl></dl>'
    assert (
        '<dt id="warp"><span class="term">warp</span> length [option]...</dt>'
        f"<dd><p>Stretches. It has options:</p><dl>{turns}<p>How many turns.</p></dl><dl>{tight}"
    ) in html
    assert html.endswith("<p>An example is:</p><pre>warp 3</pre>")


def test_items_that_begin_with_an_option_alone_are_terms() -> None:
    html = manual_pages.html(
        '.TH "LOOM" "1"\n.SH "OPTIONS"\n'
        '.IP "\\[ci]" 4\n\\fB\\-\\-warp\\fR/\\fB\\-w\\fR:\n.IP\nStretch the threads\\.\n'
        '.IP "\\[ci]" 4\n\\fBNote\\fR:\n.IP\nWind slowly\\.\n'
    )

    names = '<span class="term">--warp</span>/<span class="term">-w</span>'
    assert f'<dt id="warp">{names}</dt><dd><p>Stretch the threads.</p>' in html
    assert "<li><p>Note:</p><p>Wind slowly.</p>" in html


# Of a page whose macros quote words, show code, describe an argument and end an option.
OWN_MACROS = r"""
.de QW
.ie '\\*(lq'"' ``\\$1''\\$2
.el \\*(lq\\$1\\*(rq\\$2
..
.de CS
.RS
.nf
..
.de CE
.fi
.RE
..
.de AP
.ie !"\\$4"" .TP \\$4
.el .TP 15
\\$1 \\fI\\$2\\fP (\\$3)
..
.de OM
.ie \\n(.$-1 .RI "[\\fB\\$1\\fP" " \\$2" "]..."
.el .RB "[" "\\$1" "]..."
..
.de SH
Never run: headings are read as headings.
..
.TH SPOOL 1
.SH NAME
spool \- wind threads
.SH SYNOPSIS
.B spool
.OM \-a
.OM \-k colour
.SH DESCRIPTION
Returns
.QW "no thread" ,
if it is empty.
.CS
wind 3
stop
.CE
Then it ends.
.SH ARGUMENTS
.AP int count in
How many.
"""


def test_macros_that_a_page_defines_are_run(tmp_path: Path) -> None:
    (tmp_path / "spool.1").write_text(OWN_MACROS)
    texts = {id: document.body for id, document in by_id(tmp_path).items()}

    assert texts == {
        "spool.1": "spool\n\nwind threads",
        "spool.1#SYNOPSIS": "spool [-a]... [-k colour]...",
        "spool.1#DESCRIPTION": "Returns “no thread”, if it is empty.\n\nwind 3\nstop\n\nThen it ends.",
        "spool.1#int_count_(in)": "int count (in)\n\nHow many.",
    }


@pytest.mark.parametrize(
    ("tags", "text"),
    [
        (("1", "2"), "1. Text.\n2. Text."),
        (("1.", "2."), "1. Text.\n2. Text."),
        (("0", "1", "2"), "0\n\nText.\n\n1\n\nText.\n\n2\n\nText."),
        (("0", "123"), "0\n\nText.\n\n123\n\nText."),
    ],
)
def test_numbers_that_do_not_count_are_terms(
    tmp_path: Path, tags: tuple[str, ...], text: str
) -> None:
    items = "".join(f".IP {tag}\nText.\n" for tag in tags)
    (tmp_path / "spool.1").write_text(f".TH SPOOL 1\n.SH NAME\nspool \\- wind\n.SH STATUS\n{items}")
    bodies_of_status = read(tmp_path)[0][1:]

    assert "\n\n".join(document.body for document in bodies_of_status) == text


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("n", True), ("t", False), ("1", True), ("!1", False), ("0", False), ("2-1", True),
        ("1-2", False), ("2>1", True), ("1>=1", True), ("1<1", False), ("'a'a'", True),
        ("'a'b'", False), ("!'a b'a'", True), ('"a"a"', True), ("\\nF", False),
    ],
)  # fmt: skip
def test_conditions_compare_strings_and_numbers(condition: str, holds: bool) -> None:
    page = manual_pages.html(f".TH A 1\n.SH NAME\na \\- b\n.SH D\nA.\n.if {condition} B.\n")
    assert ("B." in page) == holds


def test_compressed_pages_are_read_and_other_files_of_such_names_are_not(tmp_path: Path) -> None:
    page = (MANUALS / "weave.1").read_bytes()
    (tmp_path / "weave.1.gz").write_bytes(gzip.compress(page))
    (tmp_path / "latin.3x").write_bytes(".TH L 3\n.SH N\ncaf\xe9 \\- coffee\n".encode("latin-1"))
    (tmp_path / "weft.1").write_text(".so man1/weave.1\n")
    (tmp_path / "alias.1.gz").symlink_to(tmp_path / "weave.1.gz")
    (tmp_path / "notes-1.2").write_text("Not a page.\n")
    (tmp_path / "data.2").write_bytes(b"\0\xff\xfe")
    (tmp_path / "libz.so.1").write_bytes(b"\x7fELF")
    documents, skipped = read(tmp_path)

    assert skipped == []
    expected = {"weave.1.gz", "latin.3x"}
    assert {document.location.path for document in documents} == expected
    assert "alias.1.gz" not in set(manual.names(tmp_path))
    assert any("café" in document.body for document in documents)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"no gzip", "not a gzip file: "),
        (gzip.compress(b".TH A 1\n" * 99, mtime=0)[:-9], "a gzip file without its end; "),
        (gzip.compress(bytes(manual.MAX_MARKUP_BYTES + 1)), "larger than the limit of "),
    ],
    ids=["plain", "cut", "huge"],
)
def test_broken_and_huge_compressed_pages_are_skipped(
    tmp_path: Path, content: bytes, reason: str
) -> None:
    (tmp_path / "a.1.gz").write_bytes(content)
    assert only_skipped(tmp_path).startswith(reason)


@pytest.mark.parametrize(
    "part",
    [
        ".RS\n", ".TP\n\\fBa\\fR\n", ".if n \\{\n", ".if n ", "\\[aa", "\\h'", "\\", '.B "', "a\\c\n",
        ".TP\n-a, ", ".ds a \\*a\\*a\n", ".TS\nl.\nT{\n", ".de a\n", "a [", ".IP a\n", ".UR a\n",
        ".Dd\n.Sh A\n", ".Bl -tag\n.It a\n", ".Bl -column\n.It a Ta\nb\n", ".It Xo\n", ".Sm off\n.Oo a\n",
        ".Fl Fl ", ".Xr a . ", ".Rs\n.%A b\n",
        ".de B1\na\n..\n.B1\n", ".de B1\n.B1\n.B1\n..\n.B1\n", ".if 'a", ".if 'a'b", ".if 1-",
        '.de B1\n.B1 "\\\\$1\\\\$1"\n.B1 "\\\\$1\\\\$1"\n..\n.B1 abc\n',
    ],
)  # fmt: skip
def test_hostile_pages_are_read_in_time(part: str) -> None:
    for head in (".TH A 1\n.SH NAME\na \\- b\n.SH D\n", ".Dd x\n.Dt A 1\n.Sh NAME\n"):
        manual_pages.html(head + part * 5_000)


def test_the_synopsis_of_a_page_by_sphinx_is_the_entry_of_its_command(tmp_path: Path) -> None:
    page = """<h1>stow-put - put files away</h1><h2>Synopsis</h2><pre>{} [-n] [FILE]</pre>
        <h2>Description</h2><p>Files stay files.</p>
        <dl><dt><b>-n</b> or <b>--dry-run</b></dt><dd>Puts nothing.</dd></dl>"""
    write_tree(tmp_path, {"put.html": page.format("stow put"), "other.html": page.format("hold")})
    entries = by_id(tmp_path)
    entry, description, option = (entries[key] for key in entries if key.startswith("put"))
    assert (entry.title, entry.fields["directive"]) == ("stow put", "function")
    assert entry.body == "stow put\n\nput files away\n\nstow put [-n] [FILE]"
    assert (entry.context, description.context) == ((), ("stow put",))
    assert (option.title, option.context) == ("-n, --dry-run", ("stow put",))

    titles = [entries[key].title for key in entries if key.startswith("other")]
    assert titles == ["Synopsis", "Description", "-n, --dry-run"]


def test_a_term_that_is_the_command_alone_is_a_form_of_it(tmp_path: Path) -> None:
    source = r""".TH wind 1
.SH NAME
wind \- winds threads
.SH SYNOPSIS
wind [cancel]
.SH FORMS
.TP
\fBwind\fR
Winds all.
"""
    write_tree(tmp_path, {"wind.1": source})
    [form] = [each for key, each in by_id(tmp_path).items() if "Winds all." in each.body]
    assert (form.title, form.context, form.fields["directive"]) == ("wind", ("wind",), "function")
