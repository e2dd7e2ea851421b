"""Entries that generators write as headings and code become definitions."""

from __future__ import annotations

import pytest

from purlin.index.sources.references.html.entry_names import calls_with
from purlin.index.sources.references.html.generators import GENERATORS, PLAIN, generator_of
from purlin.index.sources.references.html.reader import read_page
from purlin.index.sources.references.page_sections import Section

GI_DOCGEN_NAV = """<nav><a href="https://example.org">gi-docgen</a> 2023.1</nav>
    <section id="main" class="content"><header><h3>Kind</h3>"""


def entries(markup: str) -> list[Section]:
    return [section for section in read_page(markup).sections if section.signatures]


def entry(markup: str) -> Section:
    (section,) = entries(markup)
    return section


def body(section: Section) -> str:
    """The text after the signature, without empty lines."""
    text, _ = section.compose()
    return text.removeprefix(section.signature).strip().replace("\n\n", "\n")


def test_page_of_gi_docgen_is_one_function() -> None:
    page = read_page(
        GI_DOCGEN_NAV
        + """<h1><a>Loom</a><span class="sep"></span><a>Shuttle</a><span class="sep"></span>throw</h1></header>
        <div class="declaration toggle-wrapper"><h4 id="declaration">Declaration
        <a href="#declaration" class="anchor"></a> <a class="srclink">[src]</a></h4>
        <pre><code><span>int</span>\nloom_shuttle_throw (\n  LoomShuttle* self,\n  guint times\n)</code></pre></div>
        <div class="description toggle-wrapper"><h4 id="description">Description</h4>
        <p>Throws the shuttle.</p><p>Available since: 1.4</p></div>
        <div class="parameters toggle-wrapper"><h4 id="parameters">Parameters</h4><dl class="arguments">
        <dt class="arg-name"><code>times</code></dt><dd><p>Type: guint</p><p>How often.</p></dd></dl></div>
        <div class="return-value toggle-wrapper"><h4>Return value</h4><p>The picks.</p></div></section>"""
    )
    (section,) = page.sections
    assert page.title == "Loom.Shuttle.throw"
    assert (section.title, section.directive) == ("loom_shuttle_throw", "function")
    assert section.signature == "int loom_shuttle_throw(LoomShuttle* self, guint times)"
    assert body(section).split("\n") == [
        "Throws the shuttle.",
        "Available since: 1.4",
        "Parameters",
        "times: Type: guint",
        "How often.",
        "Return value",
        "The picks.",
    ]


@pytest.mark.parametrize(
    ("heading", "code", "title", "directive", "context"),
    [
        ("Loom.Shuttle:max-picks", "property max-picks: int [ read ]", "max-picks", "property", ("Loom.Shuttle",)),
        ("Loom.Shuttle::thrown", "void\nthrown (\n  LoomShuttle* self\n)", "thrown", "signal", ("Loom.Shuttle",)),
        ("Loom.Yarn", "enum Loom.Yarn", "Loom.Yarn", "class", ()),
        ("Loom.Shuttle", "final class Loom.Shuttle : GObject.Object {\n  /* … */\n}", "Loom.Shuttle", "class", ()),
        ("Loom.PICKS", "#define LOOM_PICKS 3", "LOOM_PICKS", "macro", ()),
        ("Loom.Filter", "int\n(* LoomFilter) (\n  int pick\n)", "LoomFilter", "class", ()),
    ],
)  # fmt: skip
def test_names_of_gi_docgen(
    heading: str, code: str, title: str, directive: str, context: tuple[str, ...]
) -> None:
    section = entry(
        f"""{GI_DOCGEN_NAV}<h1>{heading}</h1></header><div class="declaration toggle-wrapper">
        <h4>Declaration</h4><pre><code>{code}</code></pre></div>
        <div class="toggle-wrapper methods"><h4>Methods</h4><h6><a>loom_other</a></h6><p>Other.</p></div>"""
    )
    assert (section.title, section.directive, section.context) == (title, directive, context)
    assert "Other" not in body(section)
    assert ("/* … */" in body(section)) == ("{" in code)


def test_entries_of_gtk_doc_have_signatures_and_keep_their_parts() -> None:
    page = read_page("""<meta name="generator" content="GTK-Doc V1.33.1 (XML mode)">
        <title>LoomReed: Loom Manual</title><div class="refsect1"><h2>Functions</h2><div class="refsect2">
        <a name="loom-reed-beat"></a><h3>loom_reed_beat ()</h3>
        <pre class="programlisting">int\nloom_reed_beat (LoomReed *reed,\n                int force);</pre>
        <p>Beats.</p><div class="refsect3"><a name="loom-reed-beat.returns"></a><h4>Returns</h4>
        <p> the force</p></div><p class="since">Since: 1.2</p></div></div>
        <div class="refsect1"><h2>Property Details</h2><div class="refsect2"><a name="LoomReed--dents"></a>
        <h3>The <code>“dents”</code> property</h3><pre class="programlisting">  “dents”     int</pre>
        <p>Default value: 8</p></div></div>
        <div class="refsect1"><h2>Includes</h2><pre class="synopsis">#include &lt;loom.h&gt;</pre></div>""")
    beat, dents, includes = page.sections
    expected = ("loom_reed_beat", "loom-reed-beat", "function")
    assert (beat.title, beat.anchor, beat.directive) == expected
    assert beat.signature == "int loom_reed_beat(LoomReed *reed, int force)"
    assert body(beat) == "Beats.\nReturns: the force\nSince: 1.2"
    assert (dents.title, dents.context, dents.anchor) == ("dents", ("LoomReed",), "LoomReed--dents")
    assert (dents.signature, body(dents)) == ("“dents” int", "Default value: 8")
    assert not includes.signatures


def test_help_page_of_r_is_named_by_its_usage_and_its_arguments_are_entries() -> None:
    wind, turns, ends, dots = (
        entries("""<title>R: Wind Yarn</title><table><tr><td>wind {loom}</td><td>R Documentation</td>
        </tr></table><h2>Wind Yarn</h2><h3>Description</h3><p>Winds it.</p><h3>Usage</h3>
        <pre><code>wind(x, turns = 3,\n     end = c("left", ")"), by)\n\n## S3 method for class 'cone'
unwind(x, turns = 4, ...)\nrewind (x, turns = 3)</code></pre><h3>Arguments</h3><table>
        <tr><td><code>turns</code></td><td><p>how often.</p><p>At least 1.</p></td></tr>
        <tr><td><code>end, by</code></td><td><p>where.</p></td></tr>
        <tr><td><code>...</code></td><td><p>passed on.</p></td></tr></table><h3>Value</h3><p>A cone:</p>
        <dl><dt>size</dt><dd><p>of it</p></dd></dl><table><tr><td>a</td><td>b</td></tr></table>
        <h3>Examples</h3><pre>wind(y)</pre><div>[Package <em>loom</em> version 1.2 <a>Index</a>]</div>""")
    )
    title = "wind, unwind, rewind"
    assert (wind.title, wind.names) == (title, ["wind", "unwind", "rewind"])
    assert wind.signatures[0] == 'wind(x, turns = 3, end = c("left", ")"), by)'
    assert body(wind).split("\n") == [
        "Wind Yarn",
        "Winds it.",
        "Returns: A cone:",
        "size: of it",
        "a | b",
        "Examples",
        "wind(y)",
    ]

    assert (turns.title, turns.directive, turns.context) == ("turns", "parameter", (title,))
    assert turns.signatures == ["wind(..., turns = 3)", "unwind(..., turns = 4)"]
    assert body(turns) == "how often. At least 1."
    assert (ends.title, ends.names) == ("end, by", ["end", "by"])
    assert ends.signatures == ['wind(..., end = c("left", ")"))']
    assert (dots.title, dots.signature, body(dots)) == ("...", "...", "passed on.")


def test_a_call_that_never_ends_has_no_more_arguments() -> None:
    assert calls_with(['wind(x, "turns = 3', "wind", "wind(turns = '\\''"], "turns") == []


def test_help_page_of_r_without_usage_is_prose() -> None:
    (section,) = (
        read_page("""<title>R: Looms</title><table><tr><td>Looms</td><td>R Documentation</td></tr></table>
        <h2>Looms</h2><h3>Description</h3><p>They weave.</p><h3>Examples</h3><pre>weave(1)</pre>""").sections
    )
    assert (section.title, section.signatures) == ("Looms", [])


def test_entries_of_godoc_have_their_package() -> None:
    weave, shed, lift = entries("""<h1>Package loom</h1><div id="pkg-overview"><p>Looms.</p></div>
        <div id="manual-nav"><dl><dd><a>func Weave(n int)</a></dd></dl></div>
        <h2 id="Weave">func <a>Weave</a> <a class="permalink" href="#Weave">¶</a></h2>
        <pre>func Weave(n int, by interface{}) (cloth string, err error)</pre><p>Weave weaves.
        <h2 id="Shed">type <a>Shed</a></h2><p>A Shed opens.<pre>type Shed struct {\n    Height int\n}</pre>
        <h3 id="Shed.Lift">func (*Shed) <a>Lift</a></h3><pre>func (s *Shed) Lift() error</pre><p>Lift lifts.""")
    assert (weave.title, weave.anchor, weave.directive) == ("loom.Weave", "Weave", "function")
    assert weave.signature == "func Weave(n int, by interface{}) (cloth string, err error)"
    assert (shed.title, shed.signature) == ("loom.Shed", "type Shed struct")
    assert "Height int" in body(shed)
    assert (lift.title, lift.anchor, lift.directive) == ("loom.Shed.Lift", "Shed.Lift", "method")


def test_entries_of_pkg_go_dev_say_since_when() -> None:
    section = entry("""<h1>example.org/craft/loom</h1><h4 id="Weave" class="Documentation-functionHeader">
        <span>func <a>Weave</a> <a href="#Weave">¶</a></span> <span class="Documentation-sinceVersion">added in
        v1.2.0</span></h4><div class="Documentation-declaration"><pre>func Weave(n int)</pre></div><p>It weaves.</p>""")
    assert (section.title, section.anchor) == ("loom.Weave", "Weave")
    assert body(section) == "added in v1.2.0\nIt weaves."


def test_methods_of_rdoc_are_entries_with_their_class() -> None:
    wind, size, other = (
        entries("""<h1 id="class-Loom">class Loom</h1><header><h3>Public Methods</h3></header>
        <div id="method-c-wind" class="method-detail "><div class="method-heading">
        <span class="method-callseq">wind(yarn, turns = 3)</span>
        <span class="method-click-advice">click to toggle source</span></div>
        <div class="method-heading"><span class="method-callseq">wind(yarn) { |turn| ... }</span></div>
        <div class="method-description"><h3 id="method-c-wind-label-Args">Args<span>
        <a href="#method-c-wind-label-Args">¶</a> <a href="#top">↑</a></span></h3>
        <dl class="note-list"><dt><code>turns</code><dd><p>How often.</p></dl>
        <div class="method-source-code"><pre>def wind</pre></div></div></div>
        <div id="method-i-size" class="method-detail"><div class="method-heading">
        <span class="method-name">size</span><span class="method-args">()</span></div>
        <div class="method-description"></div></div>
        <div id="method-i-other-3F" class="method-detail"><div class="method-heading">
        <span class="method-name">other?</span></div></div>""")
    )
    assert (wind.title, wind.anchor, wind.directive) == ("Loom.wind", "method-c-wind", "method")
    assert wind.signatures == ["wind(yarn, turns = 3)", "wind(yarn) { |turn| ... }"]
    assert body(wind) == "Args\nturns: How often."
    assert (size.title, size.signature, size.anchor) == ("Loom#size", "size()", "method-i-size")
    assert (other.title, other.anchor) == ("Loom#other?", "method-i-other-3F")


def test_methods_of_yard_are_entries_without_their_source() -> None:
    weave, make = (
        entries("""<div id="content"><h1>Class: Craft::Loom</h1><h2>Instance Method Summary
        <small><a href="#" class="summary_toggle">collapse</a></small></h2>
        <ul class="summary"><li>#weave Weaves.</li></ul><h2>Instance Method Details</h2>
        <div class="method_details"><h3 class="signature first" id="weave-instance_method">
        <span class="overload">#<strong>weave</strong>(yarn) ⇒ <tt>Cloth</tt></span>
        <span class="overload">#<strong>weave</strong>(yarn, times = 2) ⇒ <tt>Cloth</tt></span></h3>
        <div class="docstring"><p>Weaves.</p></div><div class="tags">
        <div class="examples"><p class="tag_title">Examples:</p><pre>weave(1)</pre></div>
        <p class="tag_title">Returns:</p>
        <ul class="return"><li><span class="type">(<tt>Cloth</tt>)</span> — <div class="inline">
        <p>the cloth</p></div></li></ul></div><table class="source_code"><tr><td><pre>def weave</pre></td></tr>
        </table></div><div class="method_details"><h3 class="signature" id="make-class_method">
        .<strong>make</strong> ⇒ <tt>Loom</tt></h3></div></div>""")
    )
    assert (weave.title, weave.anchor) == ("Craft::Loom#weave", "weave-instance_method")
    assert weave.signatures == ["weave(yarn) ⇒ Cloth", "weave(yarn, times = 2) ⇒ Cloth"]
    assert body(weave) == "Weaves.\nExamples:\nweave(1)\nReturns: (Cloth) — the cloth"
    assert (make.title, make.anchor) == ("Craft::Loom.make", "make-class_method")


def test_methods_of_crystal_are_entries() -> None:
    wind, turn = entries("""<meta name="generator" content="Crystal Docs 1.6.0"><h1>class Loom</h1>
        <ul class="list-summary"><li>.wind Winds.</li></ul><h2>Class Method Detail</h2>
        <div class="entry-detail" id="wind(n:Int32=3)-class-method"><div class="signature">
        def self.<strong>wind</strong>(n : Int32 = 3) <a class="method-permalink" href="#x">#</a></div>
        <div class="doc"><p>Winds.</p></div></div><div class="entry-detail" id="turn-instance-method">
        <div class="signature">def <strong>turn</strong></div></div>""")
    assert (wind.title, wind.anchor) == ("Loom.wind", "wind(n:Int32=3)-class-method")
    assert (wind.signature, body(wind)) == ("def self.wind(n : Int32 = 3)", "Winds.")
    assert turn.title == "Loom#turn"


RUSTDOC = """<meta name="generator" content="rustdoc"><title>Loom in craft::looms - Rust</title><main>
    <section id="main-content" class="content">"""


def test_members_of_rustdoc_are_entries_with_their_headings() -> None:
    """As of 2022; the second part of the page is written as of 2024."""
    sections = read_page(
        RUSTDOC
        + """<div class="main-heading"><h1 class="fqn"><span class="in-band">Struct
        <a>craft</a>::<wbr><a>looms</a>::<wbr><a class="struct">Loom</a><button>copy</button></span></h1>
        <span class="out-of-band"><span class="since" title="Stable since Loom version 1.0.0">1.0.0</span></span></div>
        <div class="docblock item-decl"><pre class="rust struct"><code>pub struct Loom&lt;T&gt; where
    T: Yarn, { /* private fields */ }</code></pre></div><details class="top-doc"><div class="docblock">
        <p>A loom.</p><h2 id="shape"><a href="#shape">Shape</a></h2><p>Wide.</p></div></details>
        <h2 id="fields">Fields</h2><span id="structfield.width" class="structfield"><a href="#structfield.width"
        class="anchor field"></a><code>width: usize</code></span><div class="docblock"><p>In threads.</p></div>
        <h2 id="implementations">Implementations<a href="#implementations" class="anchor"></a></h2>
        <details class="implementors-toggle"><summary><section id="impl" class="impl"><h3 class="code-header in-band">
        impl&lt;T&gt; Loom&lt;T&gt;</h3></section></summary><details class="method-toggle"><summary>
        <section id="method.new" class="method"><span class="rightside"><span class="since"
        title="Stable since Loom version 1.2.0">1.2.0</span></span><a href="#method.new" class="anchor"></a>
        <h4 class="code-header">pub const fn <a class="fnname">new</a>(width: usize) -> Loom&lt;T&gt;
        <span class="notable-traits">ⓘ Notable</span></h4></section></summary><div class="docblock"><p>Builds one.</p>
        <h5 id="panics"><a href="#panics">Panics</a></h5><p>Panics if it is narrow.</p></div></details></details>
        <section id="associatedconstant.MAX"><h4 class="code-header">pub const MAX: usize = 9</h4></section>
        <h2 id="trait-implementations" class="section-header">Trait Implementations</h2>
        <details class="implementors-toggle"><summary><section id="impl-Clone-for-Loom%3CT%3E" class="impl">
        <h3 class="code-header">impl&lt;T&gt; Clone for Loom&lt;T&gt;</h3></section></summary>
        <details class="method-toggle"><summary><section id="method.clone" class="method trait-impl">
        <h4 class="code-header">fn clone(&amp;self) -> Self</h4></section></summary>
        <div class="docblock"><p>Copies. <a>Read more</a></p></div></details></details>
        <h2 id="blanket-implementations">Blanket Implementations</h2><div id="blanket-implementations-list">
        <section id="impl-Any"><h3 class="code-header">impl&lt;T&gt; Any for T</h3></section></div></section></main>"""
    ).sections
    loom, shape, width, new, most, clone = sections
    expected = ("craft::looms::Loom", "class", "main-content")
    assert (loom.title, loom.directive, loom.anchor) == expected
    assert loom.signature == "pub struct Loom<T> where T: Yarn,"
    assert body(loom) == "A loom.\nStable since Loom version 1.0.0."
    assert (shape.title, body(shape)) == ("Shape", "Wide.")
    assert (width.title, width.anchor, body(width)) == (
        "Loom::width",
        "structfield.width",
        "In threads.",
    )
    assert (new.title, new.context, new.anchor) == (
        "Loom::new",
        ("craft::looms::Loom",),
        "method.new",
    )
    assert new.signature == "pub const fn new(width: usize) -> Loom<T>"
    assert body(new).split("\n") == [
        "Builds one.",
        "Panics",
        "Panics if it is narrow.",
        "Stable since Loom version 1.2.0.",
    ]
    assert (most.title, most.directive) == ("Loom::MAX", "data")
    assert (clone.title, clone.directive) == ("impl<T> Clone for Loom<T>", "implementation")


@pytest.mark.parametrize(
    ("kind", "code", "title", "signatures"),
    [
        ("Function", "pub fn weave(n: u8)\n-> Cloth", "craft::weave", ["pub fn weave(n: u8) -> Cloth"]),
        ("Macro", "macro_rules! weave {\n    () => { ... };\n    ($x:expr) => { ... };\n}", "craft::weave!",
         ["macro_rules! weave", "()", "($x:expr)"]),
        ("Type Alias", "pub type weave = u8;", "craft::weave", ["pub type weave = u8;"]),
    ],
)  # fmt: skip
def test_pages_of_rustdoc_about_one_item(
    kind: str, code: str, title: str, signatures: list[str]
) -> None:
    section = entry(
        f"""<meta name="generator" content="rustdoc"><title>weave in craft - Rust</title><main>
        <h1>{kind} <span>weave</span></h1>
        <pre class="rust item-decl"><code>{code}</code></pre><div class="docblock"><p>Weaves.</p></div></main>"""
    )
    assert (section.title, section.signatures, body(section)) == (title, signatures, "Weaves.")


def test_headings_on_a_function_of_rustdoc_are_its_text() -> None:
    section = entry("""<meta name="generator" content="rustdoc"><title>weave in craft - Rust</title>
        <h1>Function weave</h1>
        <pre><code>pub fn weave()</code></pre><p>Weaves.</p><h2 id="errors">Errors</h2><p>None.</p>
        <h2 id="examples">Examples</h2><pre>fn weave() {}</pre>""")
    assert body(section).split("\n") == ["Weaves.", "Errors", "None.", "Examples", "fn weave() {}"]


def test_keywords_and_primitives_of_rustdoc_declare_nothing() -> None:
    for heading in ("Keyword weave", "Primitive Type weave", "Module weave"):
        assert not entries(f"""<meta name="generator" content="rustdoc"><title>weave - Rust</title>
            <h1>{heading}</h1><p>Weaves.</p><pre>let weave = 1;</pre>""")


def test_page_of_rustdoc_without_a_heading_has_no_sections() -> None:
    assert read_page('<meta name="generator" content="rustdoc"><pre>::</pre>').sections == []


def test_objects_of_mkdocstrings_are_entries() -> None:
    module, loom, weave, width = entries("""<h1>API</h1><div class="doc doc-object doc-module">
        <h2 id="craft.looms" class="doc doc-heading"><code>craft.looms</code><a href="#craft.looms"
        class="headerlink">&para;</a></h2><div class="doc doc-contents"><p>Looms.</p></div></div>
        <div class="doc doc-object doc-class"><h3 id="craft.looms.Loom" class="doc doc-heading">
        <code>Loom</code></h3><div class="doc-signature highlight"><pre><code>Loom(width: int = 9)</code></pre></div>
        <p>A loom.</p><details class="mkdocstrings-source"><summary>Source</summary><pre>class Loom: ...</pre></details>
        <div class="doc doc-object doc-function"><h4 id="craft.looms.Loom.weave" class="doc doc-heading">
        <code>weave() -> Cloth</code><span class="doc doc-labels"><small>async</small></span></h4><p>Weaves.</p></div>
        <div class="doc doc-object doc-attribute"><h4 id="craft.looms.Loom.width" class="doc doc-heading">
        <code>width</code></h4><p>In threads.</p></div></div>""")
    assert (module.title, module.directive) == ("craft.looms", "module")
    expected = ("craft.looms.Loom", "class", ["Loom(width: int = 9)"])
    assert (loom.title, loom.directive, loom.signatures) == expected
    assert body(loom) == "A loom."
    assert (weave.title, weave.directive, weave.context) == (
        "craft.looms.Loom.weave",
        "method",
        ("craft.looms.Loom",),
    )
    assert (weave.signature, body(weave)) == ("weave() -> Cloth", "Weaves.")
    assert (width.directive, width.signature) == ("attribute", "width")


def test_other_pages_have_no_generator_of_these() -> None:
    assert generator_of('<h1>gi-docgen</h1><div class="method">R Documentation</div>') is PLAIN
    assert all(item.marks for item in GENERATORS)


JAVADOC_HEAD = (
    '<head><title>Door (House 3 API)</title><meta name="generator" content="javadoc/Writer"></head>'
)


def test_members_of_javadoc_are_entries_with_their_class() -> None:
    markup = f"""{JAVADOC_HEAD}<h1 class="title">Class Door</h1>
    <section class="class-description"><div class="type-signature"><span>public class </span>
    <span class="element-name">Door</span></div><div class="block">A door of a house.</div></section>
    <section class="method-summary"><h2>Method Summary</h2><div>open</div></section>
    <section class="detail" id="WIDTH"><h3>WIDTH</h3><div class="member-signature"><span>static final</span>&nbsp;<span
    >int</span>&nbsp;<span class="element-name">WIDTH</span></div><div>The width in centimetres.</div></section>
    <section class="detail" id="open(int)"><h3>open</h3><div class="member-signature"><span>boolean</span>&nbsp;<span
    class="element-name">open</span><span class="parameters">(int&nbsp;times)</span></div><div>Opens the door.</div>
    <dl class="notes"><dt>Returns:</dt><dd>whether it is open</dd></dl></section>"""
    assert [
        (section.title, section.directive, section.anchor, body(section))
        for section in entries(markup)
    ] == [
        ("Door", "class", "", "A door of a house."),
        ("Door.WIDTH", "attribute", "WIDTH", "The width in centimetres."),
        ("Door.open", "method", "open(int)", "Opens the door.\nReturns: whether it is open"),
    ]
    assert entries(markup)[2].signature == "boolean open(int times)"


def test_constructor_of_javadoc_bears_the_name_of_its_class() -> None:
    markup = f"""{JAVADOC_HEAD}<h1 class="title">Class Door</h1><span class="type-signature"></span>
    <section class="detail" id="&lt;init&gt;(int)"><h3>Door</h3><div class="member-signature"><span
    >public</span>&nbsp;<span class="element-name">Door</span>(int&nbsp;width)</div><p>Makes a door.</p></section>"""
    constructor = entry(markup)
    assert (constructor.title, constructor.directive) == ("Door", "method")


def test_functions_of_erlang_have_their_module_and_all_calls() -> None:
    markup = """<head><title>ferry</title><link rel="stylesheet" href="otp_doc.css"></head>
    <div class="title-name">ferry</div><h3>Exports</h3>
    <h4 class="func-head"><a name="cross-1"></a>cross(Boat) -> ok</h4>
    <h4 class="func-head"><a name="cross-2"></a>cross(Boat, Times) -> ok <span>OTP 24.0</span></h4>
    <div class="func"><p>Crosses the river.</p></div>
    <h4 class="func-head"><a name="moor-1"></a>moor(Boat) -> ok</h4><div class="func"><p>Moors it.</p></div>"""
    cross, moor = entries(markup)
    assert (cross.title, cross.directive, cross.anchor) == ("ferry:cross", "function", "cross-1")
    assert cross.signatures == ["cross(Boat) -> ok", "cross(Boat, Times) -> ok"]
    assert cross.anchors == ["cross-2"]
    assert (moor.title, body(moor)) == ("ferry:moor", "Moors it.")


def test_keywords_of_haproxy_are_options_and_functions() -> None:
    markup = """<a href="https://example.org">haproxy-dconv</a>
    <div class="keyword"><a name="4-ferry"></a>ferry mode { slow|fast }</div>
    <pre class="text">Sets how fast the ferry
    goes.\n\nThe default is slow.</pre>
    <div class="keyword"><a name="7-load"></a>load(&lt;deck&gt;) : integer</div>
    <pre class="text">Returns the load.</pre>"""
    mode, load = entries(markup)
    assert (mode.title, mode.directive) == ("ferry mode", "option")
    assert body(mode) == "Sets how fast the ferry goes.\nThe default is slow."
    assert (load.title, load.directive) == ("load", "function")


HADDOCK_HEAD = """<head><title>Yarn.Spool</title></head><div id="package-header">yarn-1.2</div>
    <div id="module-header"><p class="caption">Yarn.Spool</p></div><div id="synopsis"><p class="src">wind</p></div>"""


def test_values_of_haddock_have_their_module() -> None:
    page = read_page(
        HADDOCK_HEAD
        + """<div id="description"><p class="caption">Description</p><div class="doc"><p>Spools of yarn.</p></div></div>
        <div id="interface"><h1 id="g:1">Winding</h1><div class="top">
        <p class="src"><span class="keyword">data</span> <a id="t:Spool" class="def">Spool</a> a
        <a href="src/Yarn.html#Spool" class="link">Source</a> <a href="#t:Spool" class="selflink">#</a></p>
        <div class="doc"><p>A spool.</p></div><div class="subs instances"><p class="src">show :: Spool a</p></div></div>
        <div class="top"><p class="src"><a id="v:wind-39-" class="def">wind'</a> :: Int -> Spool a -> Spool a
        <a href="src/Yarn.html#wind" class="link">Source</a></p><div class="doc"><p>Winds strictly.</p>
        <h4 class="caption">Examples</h4><details><summary class="hide-when-js-enabled">Expand</summary>
        <pre>wind' 2 s</pre></details><p>Since: yarn-1.1</p></div></div>
        <div class="top"><p class="src"><a id="v:-60--62-" class="def">(&lt;&gt;)</a> :: Spool a -> Spool a</p></div>
        <div class="top"><p class="src"><span class="keyword">class</span> Eq a => <a id="t:Fibre" class="def"
        >Fibre</a> a <span class="keyword">where</span></p></div></div>"""
    )
    assert page.title == "Yarn.Spool"
    assert [section.title for section in page.sections if not section.signatures] == ["Yarn.Spool"]
    spool, wind, joined, fibre = (section for section in page.sections if section.signatures)
    expected = ("Yarn.Spool.Spool", "class", "Yarn.Spool")
    assert (spool.title, spool.directive, spool.module) == expected
    assert (spool.signature, body(spool)) == ("data Spool a", "A spool.")
    assert (wind.title, wind.directive, wind.anchor) == (
        "Yarn.Spool.wind'",
        "function",
        "v:wind-39-",
    )
    assert wind.signature == "wind' :: Int -> Spool a -> Spool a"
    assert body(wind) == "Winds strictly.\nExamples\nwind' 2 s\nSince: yarn-1.1"
    assert (joined.title, joined.signature) == ("Yarn.Spool.<>", "(<>) :: Spool a -> Spool a")
    assert (fibre.title, fibre.directive) == ("Yarn.Spool.Fibre", "class")


@pytest.mark.parametrize("quote", ["'", '"'])
def test_listings_of_haskell_have_no_sections(quote: str) -> None:
    listing = (
        f"<body>\n<pre><a id='line-1'></a><span class={quote}hs-comment{quote}>-- wind</span></pre>"
    )
    assert read_page(f"<html>{listing}</html>").sections == []


@pytest.mark.parametrize(
    ("heading", "title", "directive"),
    [
        ("<span>bool</span> Loom::<span>weave</span>(int <i>rows</i> = 1) const", "Loom::weave", "method"),
        ("<code>[signal] </code>void Loom::<span>torn</span>()", "Loom::torn", "method"),
        ("<code>[static] </code>Loom *Loom::<span>make</span>()", "Loom::make", "method"),
        ("Loom &amp;Loom::<span>operator+=</span>(int <i>rows</i>)", "Loom::operator+=", "method"),
        ("bool <span>operator==</span>(const Loom &amp;<i>a</i>)", "operator==", "function"),
        ("enum Loom::<span>Speed</span><br/>flags Loom::Speeds", "Loom::Speed", "class"),
        ("<span>width</span> : <span>const int</span>", "Loom::width", "property"),
        ("const Speed Loom::<span>fastest</span>", "Loom::fastest", "attribute"),
        ("<span>LOOM_DEBUG</span>", "LOOM_DEBUG", "macro"),
    ],
)  # fmt: skip
def test_members_of_qdoc_are_named_by_their_declarations(
    heading: str, title: str, directive: str
) -> None:
    type_entry, member = (
        entries(f"""<head><title>Loom Class | Mill 2.1</title></head><!-- $$$Loom-brief -->
        <div class="navigationbar">Mill</div><h1 class="title">Loom Class</h1><p>The Loom class weaves.</p>
        <div class="table"><table><tr><td> Header:</td><td> #include &lt;Loom&gt;</td></tr></table></div>
        <h2 id="details">Detailed Description</h2><pre class="cpp">Loom loom(3);</pre>
        <h3 class="fn" id="it"><a name="it"></a>{heading}</h3><p>Does it.</p>""")
    )
    assert (type_entry.title, type_entry.directive) == ("Loom", "class")
    assert body(type_entry) == "The Loom class weaves.\nHeader: | #include <Loom>"
    assert (member.title, member.directive, member.anchor) == (title, directive, "it")
    assert body(member).endswith("Does it.")


CPPREFERENCE = """<head><title>{title} - cppreference.com</title></head><h1 id="firstHeading"
    class="firstHeading">{title}</h1><div class="t-navbar">C++</div><table class="t-dcl-begin"><tbody>
    <tr class="t-dsc-header"><td><div>Defined in header <code>&lt;loom&gt;</code></div></td></tr>
    <tr class="t-dcl"><td><div>{declaration};</div></td><td>(1)</td><td>(since C++17)</td></tr></tbody></table>
    <p>It weaves.</p><h3><span id="Return_value">Return value</span></h3><p>The cloth.</p>"""


def test_a_page_of_cppreference_is_one_function() -> None:
    section = entry(
        CPPREFERENCE.format(
            title="std::loom&lt;T,Allocator&gt;::weave", declaration="cloth weave( int rows )"
        )
    )
    assert (section.title, section.directive) == ("std::loom::weave", "function")
    assert section.signature == "cloth weave( int rows)"
    assert body(section).split("\n") == [
        "Defined in header <loom>",
        "It weaves.",
        "Return value",
        "The cloth.",
        "since C++17.",
    ]


@pytest.mark.parametrize(
    ("title", "declaration", "name", "directive"),
    [
        ("std::loom", "template&lt; class T, class A = std::any&lt;T&gt; &gt; class loom", "std::loom", "class"),
        ("std::speed", "enum class speed : int", "std::speed", "class"),
        ("std::loom::fastest", "static constexpr int fastest = 9", "std::loom::fastest", "data"),
        ("operator==,!=(std::loom)", "bool operator==( const loom&amp; a )", "operator==,!=(std::loom)", "function"),
    ],
)  # fmt: skip
def test_kinds_of_pages_of_cppreference(
    title: str, declaration: str, name: str, directive: str
) -> None:
    first, *others = read_page(CPPREFERENCE.format(title=title, declaration=declaration)).sections
    assert (first.title, first.directive) == (name, directive)
    # What stands below the headings of a type's page is of its members.
    assert [other.title for other in others] == (["Return value"] if directive == "class" else [])


def test_predicates_of_prolog_are_named_without_their_tags() -> None:
    sections = read_page(
        """<h1>Looms</h1><dl class="latex">
        <dt class="pubdef"><span class="pred-tag">[det]</span><a id="warp/2"><strong>warp</strong>(<var>+Threads,
        -Cloth</var>)</a></dt>
        <dd class="defbody">Makes cloth.<dl class="tags"><dt class="tag">See also</dt><dd>weft/2</dd></dl></dd>
        <dt class="pubdef"><a id="flag:warp_width"><strong>warp_width</strong>(<var>int</var>, changeable)</a></dt>
        <dd class="defbody">How wide it is.</dd>
        <dt class="multidef"><span class="pred-tag">[multifile]</span><a id="loom:hook/1"><span
        class="module">loom</span>:<strong>hook</strong>(<var>+Term</var>)</a></dt>
        <dd class="defbody">Is called.</dd></dl>"""
    ).sections

    assert [(each.title, each.directive, each.signature, each.anchor) for each in sections] == [
        ("warp", "function", "warp(+Threads, -Cloth) [det]", "warp/2"),
        ("warp_width", "option", "warp_width(int, changeable)", "flag:warp_width"),
        ("hook", "function", "loom:hook(+Term) [multifile]", "loom:hook/1"),
    ]
    assert body(sections[0]) == "Makes cloth.\nSee also: weft/2"


def test_code_of_gtk_doc_is_code_without_the_numbers_of_its_lines() -> None:
    (section,) = read_page(
        """<meta name="generator" content="GTK-Doc V1.33 (XML mode)"><h2>Usage</h2>
        <table class="listing_frame"><tbody><tr>
        <td class="listing_lines"><pre>1\n2</pre></td>
        <td class="listing_code"><pre>loom_open ();\nloom_close ();</pre></td></tr></tbody></table>"""
    ).sections

    assert body(section) == "loom_open ();\nloom_close ();"


def test_headings_that_are_code_are_entries_if_they_call_or_a_declaration_follows() -> None:
    markup = """<h2>Looms</h2>
        <h3><a name="weave"><code>loom.weave (thread [, picks])</code></a></h3><p>Makes cloth.</p>
        <h3><a name="loom_stop"><code>loom_stop</code></a></h3><p><span>[-1]</span>
        <pre>void loom_stop (Loom *loom,\n                int code);</pre><p>Ends it.</p>
        <h3><code>loom.conf</code></h3><pre>width = 3</pre>
        <h3>Open a <code>loom()</code></h3><p>So.</p>"""

    assert [
        (each.title, each.directive, each.signature) for each in read_page(markup).sections
    ] == [
        ("loom.weave", "function", "loom.weave(thread [, picks])"),
        ("loom_stop", "function", "void loom_stop (Loom *loom, int code)"),
        ("loom.conf", "section", ""),
        ("Open a loom()", "section", ""),
    ]


def test_members_of_pydoctor_are_entries_without_what_the_page_hides() -> None:
    sections = read_page(
        """<body><div id="search-help-box">Search offers this.</div>
        <div class="page-header"><h1 class="class">looms.<wbr></wbr>Loom</h1></div>
        <div class="categoryHeader">class documentation</div>
        <div class="moduleDocstring"><p>A machine that weaves.</p></div>
        <div id="splitTables"><table><tr><td>Method</td><td>weave</td><td>Makes cloth.</td></tr></table></div>
        <div class="basemethod"><a name="looms.Loom.weave"> </a><a name="weave"> </a>
        <div class="functionHeader">@quiet<br />
        <span class="py-keyword">def</span> <span class="py-defname">weave</span>(self, picks=12):
        <a class="sourceLink" href="https://example.org/looms.py#L3">(source)</a>
        <a class="headerLink" href="#weave">¶</a></div>
        <div class="docstring"><div class="interfaceinfo">overrides Machine.weave</div><p>Makes cloth.</p>
        <table class="fieldTable"><tr><td colspan="2">Raises</td></tr><tr><td>Torn</td><td>A thread
        tore.</td></tr></table></div></div>
        <div class="basemethod private"><a name="_stop"> </a><div class="functionHeader">def _stop(self):</div></div>
        <div class="baseattribute"><a name="width"> </a><div class="functionHeader">
        <span class="py-defname">width</span>: <code>int</code> = <a class="headerLink" href="#width">¶</a></div>
        <div class="docstring"><p class="undocumented">Undocumented</p></div></div>
        <footer>generated by <a href="https://example.org/pydoctor/">pydoctor</a></footer></body>"""
    ).sections

    assert [(each.title, each.directive, each.signature, each.anchor) for each in sections] == [
        ("looms.Loom", "class", "looms.Loom", ""),
        ("looms.Loom.weave", "method", "@quiet def weave(self, picks=12)", "weave"),
        ("looms.Loom.width", "attribute", "width: int", "width"),
    ]
    assert body(sections[0]) == "A machine that weaves."
    assert body(sections[1]) == "Makes cloth.\nRaises\nTorn | A thread tore."


def test_a_page_of_fpdoc_is_the_entry_that_its_declaration_names() -> None:
    (section,) = read_page(
        """<link rel="stylesheet" href="../fpdoc.css" type="text/css"><table class="bar"><tr>
        <td>[<a href="index.html">Overview</a>]</td></tr></table><h1>Weave</h1><p>Make cloth.</p>
        <h2>Declaration</h2><p>Source position: looms.pp line 7</p>
        <table><tr><td><tt>function Weave(</tt></td></tr><tr><td><tt>Picks: Integer = 12</tt></td></tr>
        <tr><td><tt>):Cloth;</tt><br><br>function Weave(</td></tr><tr><td>Name: string;</td></tr>
        <tr><td>Picks: Integer</td></tr><tr><td>):Cloth; overload;</td></tr></table>
        <h2>Description</h2><p>It weaves.</p>
        <h2>Errors</h2><p>A torn thread raises <var>ETorn</var>.</p>"""
    ).sections

    assert (section.title, section.directive) == ("Weave", "function")
    assert section.signatures == [
        "function Weave(Picks: Integer = 12):Cloth",
        "function Weave(Name: string; Picks: Integer):Cloth",
    ]
    assert body(section).split("\n") == [
        "Make cloth.",
        "It weaves.",
        "Errors",
        "A torn thread raises ETorn.",
    ]


def test_a_type_of_fpdoc_is_an_entry_and_other_tables_stay() -> None:
    (section,) = read_page(
        """<link rel="stylesheet" href="../fpdoc.css" type="text/css"><h1>TLoom</h1>
        <h2>Declaration</h2><table><tr><td>type TLoom = class(TObject)</td></tr></table>
        <p>[Properties (by Name)] [Methods (by Name)]</p>
        <h2>See also</h2><table><tr><td>TCloth</td><td>What it makes.</td></tr></table>"""
    ).sections

    assert (section.directive, section.signature) == ("class", "type TLoom = class(TObject)")
    assert body(section) == "See also\nTCloth | What it makes."


SCALADOC_2_11 = """<link href="../lib/template.css" /><div id="definition"><p id="owner">looms</p>
    <h1>Loom</h1></div><h4 id="signature" class="signature"><span class="modifier_kind"><span
    class="kind">class</span></span><span class="symbol"><span class="name">Loom</span><span
    class="result"> extends <a href="AnyRef.html" class="extype" name="scala.AnyRef">AnyRef</a></span>
    </span></h4><div id="comment" class="fullcommenttop"><p>It weaves.</p></div>
    <div id="mbrsel"><ol><li>Alphabetic</li></ol></div><h3>Value Members</h3><ol>
    <li name="looms.Loom#weave"><a id="weave(picks:Int):Cloth"></a><h4 class="signature"><span
    class="modifier_kind"><span class="modifier">final </span><span class="kind">def</span></span>
    <span class="symbol"><span class="name">weave</span><span class="params">(<span>picks: <a
    href="Int.html" class="extype" name="scala.Int">Int</a></span>)</span><span class="result">: <a
    href="Cloth.html" class="extype" name="looms.Cloth">Cloth</a></span></span></h4>
    <p class="shortcomment cmt">Makes cloth.</p><div class="fullcomment"><div class="comment cmt">
    <p>Makes cloth. It is soft.</p></div><dl class="paramcmts block"><dt class="param">picks</dt>
    <dd class="cmt"><p>how many</p></dd></dl><dl class="attributes block"><dt>Annotations</dt>
    <dd><span class="name">@throws</span><span class="args">(<span class="symbol">Torn</span>)</span>
    </dd><dt>Exceptions thrown</dt><dd><p>Torn if a thread tears</p></dd></dl></div></li>
    <li name="looms.Loom#width"><a id="width:Int"></a><h4 class="signature"><span class="symbol">
    <span class="name">width</span><span class="result">: Int</span></span></h4>
    <p class="shortcomment cmt">In cm.</p></li></ol>"""
SCALADOC_2_13 = """<link href="../lib/template.css" /><div id="definition"><h1>Loom</h1></div>
    <h4 id="signature" class="signature"><span class="modifier_kind"><span class="kind">class</span>
    </span><span class="symbol"><span class="name">Loom</span></span></h4><p>It weaves.</p>
    <h3>Value Members</h3><ol><li class="indented0" name="looms.Loom#stop"><a id="stop():Unit"
    class="anchorToMember"></a><span class="permalink"><a href="#stop" title="Permalink">i</a></span>
    <span class="modifier_kind"><span class="kind">def</span></span><span class="symbol"><span
    class="name">stop</span><span class="params">()</span><span class="result">: <a href="Unit.html"
    name="scala.Unit" id="scala.Unit" class="extype">Unit</a></span></span>
    <p class="shortcomment cmt">Ends it.</p></li></ol>"""


def test_members_of_scaladoc_are_entries_of_their_type() -> None:
    loom, weave, width = entries(SCALADOC_2_11)

    assert (loom.title, loom.directive, loom.signature) == ("Loom", "class", "Loom extends AnyRef")
    assert body(loom) == "It weaves."
    assert (weave.title, weave.directive) == ("Loom.weave", "method")
    assert weave.signature == "weave(picks: Int): Cloth"
    assert weave.anchor == "weave(picks:Int):Cloth"
    assert body(weave).split("\n") == [
        "Makes cloth. It is soft.",
        "picks: how many",
        "Annotations: @throws",
        "Exceptions thrown: Torn if a thread tears",
    ]
    assert (width.title, width.directive, body(width)) == ("Loom.width", "attribute", "In cm.")


def test_members_of_newer_scaladoc_are_entries_too() -> None:
    _, stop = entries(SCALADOC_2_13)
    assert (stop.title, stop.signature, stop.anchor) == ("Loom.stop", "stop(): Unit", "stop():Unit")
    assert body(stop) == "Ends it."


SCRIBBLE = """<link rel="stylesheet" href="../scribble.css"/><h4>Looms</h4><p>They weave.</p>
    <blockquote><table class="boxed RBoxed"><tr><td><blockquote><div class="RBackgroundLabel">
    <p>procedure</p></div><table class="prototype RForeground"><tr><td>(<a name="(def._weave)"></a>
    <span class="RktSym">weave-all</span></td><td>thread</td></tr><tr><td></td><td>[</td><td>picks</td>
    <td>])</td><td>&rarr;</td><td>cloth?</td></tr></table></blockquote></td></tr>
    <tr><td>&nbsp;&nbsp;thread&nbsp;:&nbsp;(or/c string? #f)</td></tr>
    <tr><td>&nbsp;&nbsp;picks&nbsp;:&nbsp;integer?&nbsp;=&nbsp;12</td></tr></table></blockquote>
    <div class="SIntrapara">Makes cloth.</div>
    <table class="boxed RBoxed"><tr><td><div class="RBackgroundLabel"><p>syntax</p></div>
    <p>(<a name="(form._spin)"></a>spin (wool ...) body)</p></td></tr>
    <tr><td><div class="RBackgroundLabel"><p>syntax</p></div>
    <p>(<a name="(form._respin)"></a>respin wool)</p></td></tr></table><p>Spins.</p>
    <table class="boxed RBoxed"><tr><td><div class="RBackgroundLabel"><p>struct</p></div>
    <p>(struct <a name="(def._loom)"></a>loom (width) #:transparent)</p></td></tr></table><p>One.</p>"""


def test_boxes_of_scribble_are_entries() -> None:
    weave, spin, loom = entries(SCRIBBLE)

    assert (weave.title, weave.directive, weave.anchor) == ("weave-all", "function", "(def._weave)")
    assert weave.signatures == [
        "(weave-all thread [picks]) → cloth?",
        "thread : (or/c string? #f)",
        "picks : integer? = 12",
    ]
    assert (weave.headings, body(weave)) == (("Looms",), "Makes cloth.")
    assert (spin.title, spin.directive) == ("spin, respin", "macro")
    assert spin.signatures == ["(spin (wool ...) body)", "(respin wool)"]
    assert (loom.title, loom.directive, body(loom)) == ("loom", "class", "One.")


def test_terms_of_nim_are_named_by_the_link_to_themselves() -> None:
    sections = read_page(
        """<div id="documentId"><h1>looms</h1><div class="theme-switch-wrapper">Dark Mode</div>
        <div id="global-links"><ul><li><a href="theindex.html">Index</a></li></ul></div>
        <ul class="simple simple-toc"><li><a href="#12">Procs</a></li></ul></div>
        <div id="7"><h1>Types</h1><dl class="item"><div id="Loom"><dt><pre><a
        href="looms.html#Loom"><span>Loom</span></a> = object</pre></dt><dd>A machine.</dd></div></dl></div>
        <div id="12"><h1>Procs</h1><dl class="item"><div id="weave,int"><dt><pre>proc <a
        href="#weave%2Cint">weave</a>(picks: int): Cloth</pre></dt><dd>Makes cloth.&nbsp;<a class="link-seesrc"
        href="https://example.org/looms.nim">Source</a></dd></div>
        <div id="stop"><dt><pre>proc <a href="#stop">stop</a>()</pre></dt><dd>Stops.</dd></div></dl></div>"""
    ).sections

    assert [(each.title, each.directive, each.anchor) for each in sections] == [
        ("Loom", "class", "Loom"),
        ("weave", "function", "weave,int"),
        ("stop", "function", "stop"),
    ]
    assert sections[1].compose()[0] == "proc weave(picks: int): Cloth\n\nMakes cloth."


def test_lists_of_ldoc_have_functions_and_what_their_heading_says() -> None:
    sections = read_page(
        """<h1>Module <code>looms</code></h1><h2><a href="#Functions">Functions</a></h2>
        <table class="function_list"><tr><td>weave (picks)</td><td>Make cloth.</td></tr></table>
        <h2 class="section-header"><a name="Functions"></a>Functions</h2><dl class="function"><dt>
        <a name="weave"></a><strong>weave (picks[, width=12])</strong></dt><dd>Makes cloth.</dd></dl>
        <h2><a name="Object_properties"></a>Object properties</h2><dl class="function"><dt>
        <a name="looms.width"></a><strong>width</strong></dt><dd>In threads.</dd></dl>"""
    ).sections

    expected = [("weave", "function", "weave"), ("width", "property", "looms.width")]
    assert [(each.title, each.directive, each.anchor) for each in sections] == expected
    assert sections[0].signature == "weave (picks[, width=12])"


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
