"""Tell how generators that write entries as headings and code, not as `dl` lists, mark them.

Each is data for the reader of pages: by what its pages are recognised, which elements begin an
entry, and what tells the entry's name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from purlin.index.sources.references.html import entry_names
from purlin.index.sources.references.html.entry_names import Entry
from purlin.index.sources.words import words

_NOTHING: frozenset[str] = frozenset()
# Of Haskell's sources by HsColour or Haddock, and of a class's members by QDoc.
_LISTING = re.compile(
    r"<body>\s*<pre>.{0,500}?<span class=['\"]hs-|<title>List of All Members for ", re.DOTALL
)


@dataclass(frozen=True, slots=True)
class Generator:
    """Marks of one generator: sets have classes, `#id` or, in `headings`, `tag.class`."""

    # A page that has all of these is by the generator.
    marks: tuple[str, ...]
    # Tells by heading, code, the page's title and the anchor what an entry defines. Of an element in
    # `headings`, heading and code are the same.
    read_entry: Callable[[str, str, str, str], Entry | None]
    headings: frozenset[str] = _NOTHING
    # Elements whose headings open no sections.
    entries: frozenset[str] = _NOTHING
    furniture: frozenset[str] = _NOTHING
    # Blocks that go on with the line before.
    inline: frozenset[str] = _NOTHING
    # Elements that name the list after them.
    labels: frozenset[str] = _NOTHING
    # Code that says more than the heading before it.
    signatures: frozenset[str] = _NOTHING
    # `pre` elements that are text, as it was typed.
    prose: frozenset[str] = _NOTHING
    # Rows that are declarations.
    prototypes: frozenset[str] = _NOTHING
    # Whether pages are about the module that their title names.
    module_pages: bool = False
    # What the first heading of a page about a type is; its group is the name.
    type_title: re.Pattern[str] | None = None
    # Whether headings of entries that follow each other without text are calls of one entry.
    joined: bool = False
    # Headings below this level open no sections.
    deepest_heading: int = 6
    # A line of text, or the last cell of a row, that is no text.
    frame: re.Pattern[str] | None = None
    # Whether a page's title is the browser's, and not the first heading.
    titled_by_head: bool = False
    # The end of an entry that is told in full elsewhere.
    copied: str = ""
    # Whether the first paragraph of an entry may be the beginning of the next one.
    summarized: bool = False
    # The heading of the table in an entry whose rows are entries of their own.
    arguments: str = ""
    # The heading of rows that are lines of the code that the page is about.
    declaration: str = ""

    @property
    def has_entries(self) -> bool:
        """Whether entries are headings and code, and not `dl` lists alone."""
        return self is not PLAIN

    def is_furniture(self, attributes: Mapping[str, str], classes: frozenset[str]) -> bool:
        """Return whether an element is of the page's frame, or says what is said elsewhere."""
        return bool(classes & self.furniture) or f"#{attributes.get('id')}" in self.furniture

    def is_frame(self, text: str) -> bool:
        """Return whether a text only tells whose page it is."""
        return self.frame is not None and self.frame.fullmatch(text) is not None

    def page_entry(self, title: str) -> Entry | None:
        """Return the type that a page is about, if its first heading names one."""
        named = self.type_title.fullmatch(title) if self.type_title else None
        return Entry((named[1],), "class", (title,)) if named else None

    def begins_entry(self, tag: str, classes: frozenset[str]) -> bool:
        """Return whether an element is the heading of an entry."""
        return any(f"{tag}.{name}" in self.headings for name in classes)


# Of pages by any other generator, whose entries are `dl` lists.
PLAIN = Generator(marks=(), read_entry=lambda *_: None)


def generator_of(markup: str) -> Generator:
    """Return the generator of a page, or `PLAIN` if it is none of these."""
    return next((item for item in GENERATORS if all(mark in markup for mark in item.marks)), PLAIN)


def is_listing(markup: str) -> bool:
    """Return whether a page only shows the source of a module, or the members that a class has."""
    return _LISTING.search(markup) is not None


GENERATORS = (
    Generator(
        marks=("gi-docgen</a>", 'toggle-wrapper"'),
        read_entry=entry_names.gi_docgen,
        deepest_heading=3,
        # What has a page of its own.
        furniture=words(
            "anchor class-methods constructors default-hide functions hidden methods properties"
            " signals type-funcs virtual-methods"
        ),
    ),
    Generator(
        marks=('content="GTK-Doc',), read_entry=entry_names.gtk_doc, entries=words("refsect3")
    ),
    Generator(
        marks=("R Documentation</td>",),
        read_entry=entry_names.r,
        deepest_heading=2,
        arguments="Arguments",
        frame=re.compile(r"R Documentation|\[Package \S+ version \S+(?: Index)? ?\]"),
    ),
    # The server `godoc`, and pkg.go.dev.
    Generator(
        marks=('id="pkg-overview"', 'id="manual-nav"'),
        read_entry=entry_names.go,
        furniture=words("collapsed #manual-nav #pkg-examples #topbar"),
    ),
    Generator(
        marks=('class="Documentation-declaration',),
        read_entry=entry_names.go,
        furniture=words("Documentation-index"),
    ),
    Generator(
        marks=('class="method-heading',),
        read_entry=entry_names.ruby,
        headings=words("div.method-heading"),
        entries=words("method-detail"),
        furniture=words("method-click-advice method-controls method-source-code"),
    ),
    Generator(
        marks=('class="method_details',),
        read_entry=entry_names.yard,
        headings=words("h3.signature"),
        entries=words("method_details"),
        furniture=words("source_code summary summary_toggle"),
        inline=words("inline"),
        labels=words("tag_title"),
    ),
    Generator(
        marks=('content="Crystal Docs',),
        read_entry=entry_names.crystal,
        headings=words("div.signature"),
        entries=words("entry-detail"),
        furniture=words("list-summary method-permalink sidebar"),
    ),
    Generator(
        marks=('content="rustdoc"',),
        read_entry=entry_names.rust,
        titled_by_head=True,
        headings=words("h3.code-header h4.code-header h3.variant div.variant span.structfield"),
        # Members have deeper headings, such as Panics, than the text on a type.
        deepest_heading=4,
        # What all types have, what the pages of those types say, and code that is folded up.
        furniture=words(
            "#blanket-implementations #blanket-implementations-list #foreign-impls #implementors"
            " #implementors-list notable-traits tooltip type-contents-toggle"
        ),
        inline=words("docblock-short"),
        copied="Read more",
    ),
    # pydoctor, by which Twisted's manual is made.
    Generator(
        marks=("/pydoctor", 'class="page-header"'),
        read_entry=entry_names.pydoctor,
        headings=words("div.functionHeader"),
        # Summaries of what has an entry or a page, and names that the page hides.
        furniture=words(
            "#search-box-container #search-help-box #search-results-container #showPrivate #splitTables"
            " categoryHeader inhierarchy interfaceinfo private undocumented"
        ),
        type_title=re.compile(r"((?:\w+\.)*_*[A-Z]\w*)"),
    ),
    # Of Free Pascal's fpdoc, each page is about one name; the headings on it are text.
    Generator(
        marks=('fpdoc.css"',),
        read_entry=entry_names.fpdoc,
        declaration="Declaration",
        furniture=words("bar"),
        frame=re.compile(r"Source position: .*|\[Properties \(by Name\)\].*"),
        deepest_heading=1,
    ),
    # Classes of version 13 and later, and of those before.
    *(
        Generator(
            marks=marks,
            read_entry=entry_names.javadoc,
            titled_by_head=True,
            # What the members' own entries say.
            furniture=words(
                "constants-summary constructor-summary field-summary inherited-list memberSummary"
                " method-summary nested-class-summary sub-title"
            ),
        )
        for marks in (
            ('content="javadoc/', 'class="type-signature"'),
            ("<!-- Generated by javadoc", 'class="typeNameLabel"'),
        )
    ),
    Generator(
        marks=("otp_doc.css", 'class="title-name'),
        read_entry=entry_names.erlang,
        headings=words("h4.data-type-name h4.func-head"),
        entries=words("data-types-body func"),
        furniture=words("#leftnav title-anchors"),
        joined=True,
    ),
    # Haddock.
    Generator(
        marks=('id="interface"', '<p class="src">'),
        read_entry=entry_names.haddock,
        titled_by_head=True,
        headings=words("p.src"),
        furniture=words(
            "#module-header #package-header #synopsis #table-of-contents hide-when-js-enabled instances"
            " link selflink"
        ),
        # Examples of a function have deeper headings.
        deepest_heading=3,
        module_pages=True,
    ),
    # QDoc, by which Qt's manual is made.
    Generator(
        marks=('<h3 class="fn"', "<!-- $$$"),
        read_entry=entry_names.qdoc,
        titled_by_head=True,
        headings=words("h3.fn"),
        furniture=words("navigationbar sidebar"),
        type_title=re.compile(r"([\w:]+) (?:Class|Struct|Union|Namespace)(?: Template)?"),
    ),
    # cppreference.com.
    Generator(
        marks=('class="t-dcl-begin"', 'id="firstHeading"'),
        read_entry=entry_names.cppreference,
        titled_by_head=True,
        prototypes=words("t-dcl"),
        furniture=words(
            "#contentSub #jump-to-nav #mw-js-message #siteSub #toc editsection printfooter"
            " t-example-live-link t-navbar"
        ),
    ),
    # Scaladoc, of version 2.
    Generator(
        marks=('template.css"', 'class="modifier_kind'),
        read_entry=entry_names.scaladoc,
        headings=words("h4.signature span.symbol"),
        entries=words("fullcomment"),
        # Lists of what a page's type inherits, and what stands before the names in signatures.
        furniture=words(
            "#inheritedMembers #groupedMembers #mbrsel #owner #tooltip args diagram-container"
            " full-signature-block modifier_kind morelinks permalink toggleContainer"
        ),
        summarized=True,
    ),
    # Scribble, by which Racket's manual is made.
    Generator(
        marks=('scribble.css"', "RBackgroundLabel"),
        read_entry=entry_names.scribble,
        headings=words("table.RBoxed"),
    ),
    # HAProxy's manual.
    Generator(
        marks=("haproxy-dconv</a>",),
        read_entry=entry_names.haproxy,
        headings=words("div.keyword"),
        furniture=words("#sidebar"),
        prose=words("arguments text"),
        joined=True,
    ),
    # MkDocs with mkdocstrings, whatever the theme.
    Generator(
        marks=('class="doc doc-object',),
        read_entry=entry_names.mkdocstrings,
        headings=frozenset(f"h{level}.doc-heading" for level in range(1, 7)),
        signatures=words("doc-signature"),
        furniture=words("doc-labels mkdocstrings-source quote"),
    ),
)
