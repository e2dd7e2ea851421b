"""Turn the source of manual pages, written in man(7) or mdoc(7), into HTML.

Sections are headings, tagged paragraphs are terms, and examples are code. Of the macros that a page
defines, those are run that the reader has no meaning for. Nothing is included: a page that only
leads to another one (`.so`) is empty. What such a page is about is told by its section NAME.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape, unescape

from purlin.index.sources.references import page_sections
from purlin.index.sources.references.man import ManReader
from purlin.index.sources.references.mdoc import MdocReader
from purlin.index.sources.references.page_markup import PageMarkup

# Characters at the beginning of a page in which its first macro stands.
MAX_HEAD_CHARS = 64_000
MAX_NAMES = 64  # of one page
MAX_BEFORE_DESCRIPTION = 6  # sections of a page, such as LIBRARY

# What translated pages call the sections LIBRARY and DESCRIPTION.
_LIBRARY = frozenset(
    "LIBRARY BIBLIOTHEK BIBLIOTHÈQUE BIBLIOTECA BIBLIOTHEEK BIBLIOTEKA KNIHOVNA BIBLIOTEK KIRJASTO"
    " БИБЛИОТЕКА БІБЛІОТЕКА ライブラリ ライブラリー 库 라이브러리".split()
)
_DESCRIPTION = frozenset(
    "DESCRIPTION BESCHREIBUNG DESCRIZIONE DESCRIPCIÓN DESCRIÇÃO BESCHRIJVING OPIS POPIS BESKRIVNING"
    " BESKRIVELSE KUVAUS ОПИСАНИЕ ОПИС 説明 描述 说明 설명".split()
)

# The macro that tells whether a page is written in man(7) or mdoc(7), or only includes another.
_MANUAL = re.compile(r"^[.'][ \t]*(TH|Dd|Dt|Sh|SH|so)\b", re.MULTILINE)
# NAME, with the names before the dash: `git-add - Add file contents`.
_FIRST_SECTION = re.compile(
    r"\A<h2[^>]{0,200}>[^<]{0,200}</h2>(?=<p>([^<]{1,2000}?) [-\u2010-\u2015−])"
)
# `(1)` at the end of a title, and `git(1)` in one.
_SECTION = re.compile(r"\(\w{1,20}\)\Z")
_NAMED_SECTION = re.compile(r"\w\([1-9][a-z]{0,8}\)")
# What man2html writes below a title.
_MAN2HTML = re.compile(r"Section: .*\([1-9]\w{0,8}\)")
# The sections of commands, system calls, functions, games and Tcl's commands.
_CALLABLE = re.compile(r".*\((?:[12368n]\w*)\)")
_OF_LIBRARY = re.compile(r".*\([23]\w*\)")
# The text of NAME, and what Sphinx makes of it: `gzip, gunzip - compress or expand files`.
_INTRODUCTION = re.compile(
    r"(?P<names>[^\s,]+(?:, [^\s,]+)*) (?:-|\u2013|\u2014|\u2212) (?P<purpose>\S.*)"
)


def html(source: str) -> str:
    """HTML of a manual page; empty if it has no text of its own."""
    page, name, section = _read(source)
    return titled(page.html(), name, section)


def anchor_line(source: str, anchor: str) -> int | None:
    """Return the line of the heading or the term with an id in a manual page; None without one."""
    page, _, _ = _read(source)
    return page.anchor_lines.get(anchor)


def _read(source: str) -> tuple[PageMarkup, str, str]:
    """The page, its name and its section of the manual."""
    first = _MANUAL.search(source, 0, MAX_HEAD_CHARS)
    if first is None or first[1] == "so":
        return PageMarkup(), "", ""
    if first[1] in ("Dd", "Dt", "Sh"):
        return MdocReader().read(source)
    head = source[:MAX_HEAD_CHARS]
    return ManReader(
        is_docbook="Generator: DocBook" in head, is_asciidoctor="Generator: Asciidoctor" in head
    ).read(source)


def command(title: str) -> str:
    """What a page with a title such as "git-rebase(1)" is about, "git-rebase"; else empty."""
    name = _SECTION.sub("", title)
    return name if name != title else ""


def titled(body: str, name: str, section: str) -> str:
    """Return the body below a heading with the page's name, such as "git-rebase(1)"."""
    first_section = _FIRST_SECTION.match(body)
    own_names = unescape(first_section[1]).split(", ") if first_section else []
    title = escape(_spelled(name, own_names) + (f"({section})" if section else ""))

    # What the page is about stands in its first section, which is always NAME.
    body = body[first_section.end() :] if first_section else body
    return f"<title>{title}</title><h1>{title}</h1>{body}" if body else ""


def _spelled(name: str, own_names: Sequence[str]) -> str:
    """The name of a page's title, which may be in capitals or cut, as its section NAME has it."""
    for begins in (str.__eq__, str.startswith):
        for own_name in own_names:
            if name and begins(own_name.casefold(), name.casefold()):
                return own_name
    return name.lower() if name.isupper() else name


def name_command(page: page_sections.Page, page_format: str) -> None:
    """Enclose what a manual page tells in the name of what it is about: `-k` is an option of gzip.

    Of the source of a manual page, the first section is the entry of the command or functions, of
    what a program prints about itself, that of the program, and of a page that Sphinx made of a
    manual page, the synopsis.
    """
    is_source = page_format in ("asciidoc", "manual")
    subject = command(page.title) if is_source else _own_name(page) or _define_synopsis(page)
    if page_format == "help":
        subject = page.title
    is_callable = is_source and _CALLABLE.fullmatch(page.title) is not None

    for section in page.sections:
        is_own_entry = section.directive == "function" and section.title == subject
        if not subject or section.title == page.title or is_own_entry:
            continue
        section.context = (subject, *section.context)
        if is_callable and section.directive == "term" and section.title.split(" ")[0] == subject:
            # `after cancel` is a form of the command `after`.
            section.directive = "function"

    if is_callable:
        _define(page)
    elif page_format == "help" and subject:
        program = page.sections[0]
        program.directive = "function"
        program.names = program.signatures = [subject]


def _define_synopsis(page: page_sections.Page) -> str:
    """Make an entry of the synopsis of a page such as "wait - wait for jobs"; return what it calls."""
    stated = _INTRODUCTION.fullmatch(page.title)
    sections = (each for each in page.sections[:3] if each.title.lower() == "synopsis")
    synopsis = next(sections, None)
    if stated is None or synopsis is None:
        return ""

    # The page of `string split` is called "string-split".
    title = stated["names"].split(", ")[0]
    name = next((name for name in (title, title.replace("-", " ")) if _calls(synopsis, name)), "")
    if name:
        synopsis.title, synopsis.directive = name, "function"
        synopsis.names = synopsis.signatures = [name]
        synopsis.blocks.insert(0, page_sections.Block(stated["purpose"]))
    return name


def _define(page: page_sections.Page) -> None:
    """Make an entry of the first section if the synopsis, which follows, calls what it names.

    What it passes to a call is an option.
    """
    # Before the synopsis, pages of C's library name the library.
    sections = [section for section in page.sections[:3] if section.title not in _LIBRARY]
    if len(sections) < 2 or sections[0].title != page.title:
        return

    introduction, synopsis = sections[:2]
    stated = _INTRODUCTION.fullmatch(introduction.blocks[0].text) if introduction.blocks else None
    names = stated["names"].split(", ")[:MAX_NAMES] if stated else []
    is_called = any(_calls(synopsis, name) for name in names)
    if stated and (is_called or any(_passes(synopsis, name) for name in names)):
        introduction.directive = "function" if is_called else "option"
        introduction.names = names
        introduction.signatures = _declarations(synopsis, names) or [stated["names"]]
        introduction.blocks[0] = page_sections.Block(stated["purpose"])
        if _OF_LIBRARY.fullmatch(page.title):
            _describe(page)


def _describe(page: page_sections.Page) -> None:
    """Take the section DESCRIPTION, which has none of the names, into the entry of its page."""
    for section in page.sections[2:MAX_BEFORE_DESCRIPTION]:
        if section.title in _DESCRIPTION and section.directive == "section":
            entry = page.sections[0]
            entry.blocks += section.blocks
            entry.anchors += section.anchor, *section.anchors
            page.sections.remove(section)
            return


def _calls(synopsis: page_sections.Section, name: str) -> bool:
    """Whether a line begins with a name, or with its type: `int name(`."""
    call = re.compile(rf"^(?:[\w ]{{0,80}}[ *])?{re.escape(name)}(?![\w.-])", re.MULTILINE)
    return any(call.search(block.text) for block in synopsis.blocks)


def _passes(synopsis: page_sections.Section, name: str) -> bool:
    """Whether a call has a name among its arguments: `setopt(handle, MAXREDIRS, long amount)`."""
    argument = re.compile(rf"[(,]\s*{re.escape(name)}\s*[,)]")
    return any(argument.search(block.text) for block in synopsis.blocks)


def _declarations(synopsis: page_sections.Section, names: Sequence[str]) -> list[str]:
    """Return what C declares of the named functions, each on one line; empty if it declares none.

    A name without a declaration stands for itself: `int spool(const char *thread);`, `wind`.
    """
    text = "\n".join(block.text for block in synopsis.blocks)
    declared = {}
    for name in names:
        declaration = re.compile(
            rf"^[\w ]{{1,80}}[\s*]{{1,20}}{re.escape(name)} ?\([^;{{}}]{{0,1000}}\);", re.MULTILINE
        )
        if match := declaration.search(text):
            declared[name] = " ".join(match[0].split())
    return [declared.get(name, name) for name in names] if declared else []


def _own_name(page: page_sections.Page) -> str:
    """The name of a manual page that is HTML, as its section NAME has it; else empty."""
    title = page.title.partition(" ")[0].partition("(")[0].casefold()
    first = page.sections[0].blocks[:1] if page.sections else []
    if not _NAMED_SECTION.search(page.title) and not (first and _MAN2HTML.match(first[0].text)):
        return ""

    for section in page.sections[:3]:
        if section.title == "NAME" and section.blocks:
            names = section.blocks[0].text.partition(" - ")[0].split(", ")
            return next((name for name in names if name.casefold() == title), "")
    return ""
