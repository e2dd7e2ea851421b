"""Text and sections of HTML, of any make."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purlin.index.sources.references import manual
from purlin.index.sources.references.html.definitions import MAX_NESTED_LISTS
from purlin.index.sources.references.html.reader import ends_early, read_page
from purlin.index.sources.references.page_sections import MAX_TITLE
from tests.support.references import REFERENCE, page, read


@pytest.mark.parametrize(
    "links", ["Next Previous Contents", "Prev | Up | Next", "Home · Index", "Top - Contents"]
)
def test_links_between_pages_are_no_text(links: str) -> None:
    markup = f"<p>{links}</p><h1>Tides</h1><p>They come twice.</p><hr>{links}"
    assert page(markup) == [("Tides", "They come twice.")]


WHOLE_PAGE = (
    "<!doctype html><html><body><div><h1>Tides</h1>\n<p>They come twice.\n"
    "<dl><dt>ebb<dd>It falls.</dl></div>\n</body></html>\n"
)


@pytest.mark.parametrize(
    ("markup", "early"),
    [
        (WHOLE_PAGE, False),
        # What may be left out.
        ("<html><body><div><p>Twice.</div>", False),
        ("<p>Tides <div>come", False),
        # A page that forgets an end tag is whole.
        ("<html><body><div><div><p>Twice.</div></body></html>", False),
        ("<html><body><div><p>Twi", True),
        ("<HTML><BODY><p>Twice.</p><p cla", True),
        ("<html><head><style>p { color: r", True),
    ],
)
def test_a_page_that_was_cut_off_is_told_from_one_that_omits_end_tags(
    markup: str, early: bool
) -> None:
    assert ends_early(markup) is early


@given(st.integers(WHOLE_PAGE.index("<h1>"), WHOLE_PAGE.index("</div>")))
def test_a_cut_anywhere_in_the_content_is_told(end: int) -> None:
    assert ends_early(WHOLE_PAGE[:end])


def test_what_a_cut_page_still_has_is_read_and_the_cut_is_listed(tmp_path: Path) -> None:
    (tmp_path / "tides.html").write_text(WHOLE_PAGE[: WHOLE_PAGE.index("<dl>")])
    documents, skipped = read(tmp_path)
    assert [document.title for document in documents] == ["Tides"]
    assert [(item.location, item.reason[:30]) for item in skipped] == [
        ("tides.html:3", "the page ends before its eleme")
    ]


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
        # A cell within a row within a cell.
        ("<tr> w0 <div> w1 <td> w2 <tr> w3 ", [("", "w0\n\nw1\n\nw2\n\nw3")]),
        # Words of links between pages in sentences, and a table of contents.
        ("<h1>Tides</h1><p>Up</p><p>Next page</p>", [("Tides", "Up\n\nNext page")]),
        (
            "<h1>Tides</h1><p>All.</p><h2>Table of Contents</h2><ul><li><a href=#a>Ebb</a></li></ul>"
            "<h2 id=a>Ebb</h2><p>Falls.</p>",
            [("Tides", "All."), ("Ebb", "Falls.")],
        ),
        # Links between the nodes of Texinfo.
        (
            '<h2>Looms</h2><p>Text.</p><a name="Wool"></a><div class="header"><p>Next: <a href="#a">Yarn</a>, '
            'Up: <a href="#b">Top</a> &nbsp; [<a href="#c">Contents</a>][<a href="#d">Index</a>]</p></div>'
            "<h3>Wool</h3><p>Next: see [Index]es.</p>",
            [("Looms", "Text."), ("Wool", "Next: see [Index]es.")],
        ),
        # Anchors and examples that are text.
        (
            '<a class="anchor" href="#a">Read this</a> first.\n<pre class="src">pump()</pre>'
            '<h2><a class="anchor" id="b" href="#b">Wells</a></h2><p>Deep.',
            [("", "Read this first.\n\npump()"), ("Wells", "Deep.")],
        ),
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
    assert [each for each, _ in page(f"<h1>{heading}</h1><p>Text.")] == [title]


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


@pytest.mark.parametrize(
    "release",
    [
        "v1.2.0",
        "1.2.0 (2026-01-20)",
        "[2.0.0-rc.1] - unreleased",
        "1.2 / 20 Jan 2026",
        "1.2 2026-01",
        "1.2.1, 1.2.2",
        "Version 1.2",
    ],
)
def test_what_is_told_of_a_release_begins_with_it(release: str) -> None:
    sections = page(
        f"<title>Changelog</title><h1>Pumps</h1>All.<h2>{release}</h2>Faster.<h3>Fixes</h3>Leaks."
        "<h2>1.2 Wells</h2>Dug.<h2>1.3 - Pipes</h2>Laid.<h2>1.4 (Old) Taps</h2>Open."
    )
    assert sections == [
        ("Pumps", "All."),
        (release, f"{release}\n\nFaster."),
        ("Fixes", f"{release}\n\nLeaks."),
        ("1.2 Wells", "Dug."),
        ("1.3 - Pipes", "Laid."),
        ("1.4 (Old) Taps", "Open."),
    ]


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


@given(soup())
def test_no_word_is_lost_or_doubled(markup_and_words: tuple[str, list[str]]) -> None:
    markup, words = markup_and_words
    bodies = [section.compose()[0] for section in read_page(markup).sections]
    text_words = " ".join(bodies).replace("|", " ").replace("-", " ").replace(":", " ").split()
    assert sorted(word for word in text_words if word.startswith("w")) == sorted(words)
    whole = " ".join(section.compose()[0] for section in read_page(markup, whole=True).sections)
    assert set(words) <= set(whole.split())


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


@given(st.text())
def test_any_text_is_a_page(text: str) -> None:
    for section in read_page(text).sections:
        assert section.compose()[0]


def test_the_end_of_a_line_parts_words_but_in_chinese_and_japanese() -> None:
    page = read_page("<p>長い<b>名\n前</b>\n  の weft\n糸。 短い\nwool</p><p>한국\n어</p>")
    assert [block.text for block in page.sections[0].blocks] == [
        "長い名前の weft 糸。 短い wool",
        "한국 어",
    ]


def test_text_across_feeding_borders_is_whole() -> None:
    words = [f"größe{number}" for number in range(30_000)]
    assert page(f"<p>{' '.join(words)}") == [("", " ".join(words))]
