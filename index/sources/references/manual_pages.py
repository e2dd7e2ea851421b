"""Turn the source of manual pages, written in man(7) or mdoc(7), into HTML.

Sections are headings, tagged paragraphs are terms, and examples are code. Of the macros that a page
defines, those are run that the reader has no meaning for. Nothing is included: a page that only
leads to another one (`.so`) is empty. What such a page is about is told by its section NAME.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from html import escape, unescape

from purlin.index.sources.references import mdoc, page_sections
from purlin.index.sources.references.page_markup import BOLD, ITALIC, PLAIN, PageMarkup
from purlin.index.sources.references.roff import Macros, Strings, tokens

# Characters at the beginning of a page in which its first macro stands.
MAX_HEAD_CHARS = 64_000
MAX_TERM_CHARS = 300
MAX_TABLE_ROWS = 10_000
MAX_NAMES = 64  # of one page
MAX_BEFORE_DESCRIPTION = 6  # sections of a page, such as LIBRARY

_MANUAL = re.compile(r"^[.'][ \t]*(TH|Dd|Dt|Sh|SH|so)\b", re.MULTILINE)
_FIRST_SECTION = re.compile(
    r"\A<h2[^>]{0,200}>[^<]{0,200}</h2>(?=<p>([^<]{1,2000}?) [-\u2010-\u2015−])"
)
_SECTION = re.compile(r"\(\w{1,20}\)\Z")
_BULLET = re.compile(r"[•·○●◦▪*o+–—−-]")
_NUMBER = re.compile(r"\(?(?:\d{1,3}|[a-z])[.)]|\d{1,3}")
_OPTION_ITEM = re.compile(rf"{BOLD}-[^\n]{{1,{MAX_TERM_CHARS}}}:")
_FONTS = {"B": BOLD, "I": ITALIC, "R": PLAIN, "S": ""}
_FONT_MACROS = frozenset("B I R SM SB BI BR IB IR RB RI".split())
# Of macros, those without text for a reader; of roff's requests, which are in small letters, all.
_SILENT = frozenset("PD DT AT UC IX LINKSTYLE DS DE KS KE".split())
_NAMED_SECTION = re.compile(r"\w\([1-9][a-z]{0,8}\)")
_MAN2HTML = re.compile(r"Section: .*\([1-9]\w{0,8}\)")
# The sections of commands, system calls, functions, games and Tcl's commands.
_CALLABLE = re.compile(r".*\((?:[12368n]\w*)\)")
_OF_LIBRARY = re.compile(r".*\([23]\w*\)")
_INTRODUCTION = re.compile(
    r"(?P<names>[^\s,]+(?:, [^\s,]+)*) (?:-|\u2013|\u2014|\u2212) (?P<purpose>\S.*)"
)
# Which pages define in their own way: displays, and as Tcl's do, an empty string and an option.
_REDEFINED = frozenset(["DS", "DE", "MT", "OP"])


def html(source: str) -> str:
    """HTML of a manual page; empty if it has no text of its own."""
    page, name, section = _read(source)
    return titled(page.html(), name, section)


def anchor_lines(source: str) -> dict[str, int]:
    """Return the line of each heading and term of a manual page by its id."""
    page, _, _ = _read(source)
    return page.anchor_lines


def _read(source: str) -> tuple[PageMarkup, str, str]:
    """The page, its name and its section of the manual."""
    first = _MANUAL.search(source, 0, MAX_HEAD_CHARS)
    if first is None or first[1] == "so":
        return PageMarkup(), "", ""
    if first[1] in ("Dd", "Dt", "Sh"):
        return mdoc.MdocReader().read(source)
    return _Reader(is_docbook="Generator: DocBook" in source[:MAX_HEAD_CHARS]).read(source)


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


class _Reader:
    """Reads the macros of man(7) and those that its generators add."""

    def __init__(self, *, is_docbook: bool) -> None:
        self._is_docbook = is_docbook
        self._strings = Strings()
        self._page = PageMarkup()
        self._name = self._section = ""

        # What the next line of text is: a term, a heading of some level, or in some font.
        self._expects_term = False
        self._expects_heading = 0
        self._next_font = ""

        self._paragraph = ""
        self._url = ""
        self._rows: list[str] | None = None

    def read(self, source: str) -> tuple[PageMarkup, str, str]:
        """The page, its name and its section of the manual."""
        for line, macro, arguments in Macros(self._strings, lambda macro: macro not in _OWN).read(
            source
        ):
            self._page.line = line
            if macro == "TE" and self._rows is not None:
                self._page.table(_table(self._rows))
                self._rows = None
            elif self._rows is not None:
                self._add_row(macro, arguments)
            elif macro:
                self._macro(macro, arguments)
            else:
                self._text_line(arguments)

        return self._page, self._name, self._section

    # -- text --------------------------------------------------------------------------------------

    def _text_line(self, source: str) -> None:
        text, font = self._strings.text(source), self._next_font
        self._next_font = ""
        self._add(f"{font}{text}{PLAIN}" if font else text, joins=source.endswith("\\c"))

    def _add(self, text: str, *, joins: bool = False) -> None:
        if self._expects_term:
            self._expects_term = False
            self._page.term(text)
        elif self._expects_heading:
            self._page.heading(self._expects_heading, text)
            self._expects_heading = 0
        elif self._page.is_code:
            self._page.text(text)
        elif not text.strip():
            self._page.end_paragraph()
        elif joins and self._page.is_between_paragraphs and _BULLET.fullmatch(text.strip()):
            # As DocBook writes the items of lists.
            self._page.item("ul")
        else:
            if text.startswith((" ", "\t")):
                self._page.line_break()
            self._page.text(text, joins=joins and not _NUMBER.fullmatch(text.strip()))

    def _words(self, arguments: str) -> list[str]:
        return [self._strings.text(token) for token in tokens(arguments)]

    def _add_words(self, arguments: str, before: str = "", after: str = "") -> None:
        self._add(f"{before}{' '.join(self._words(arguments))}{after}")

    def _fonts(self, macro: str, arguments: str) -> str:
        """The words of a macro such as `.BR`, each in the next of its fonts, without spaces."""
        words = self._words(arguments)
        fonts = "S" if macro == "SM" else macro
        if len(fonts) == 1 or macro == "SB":
            return f"{_FONTS[fonts[-1]]}{' '.join(words)}{PLAIN}"

        return (
            "".join(f"{_FONTS[fonts[number % 2]]}{word}" for number, word in enumerate(words))
            + PLAIN
        )

    # -- macros ------------------------------------------------------------------------------------

    def _macro(self, macro: str, arguments: str) -> None:
        if macro in _FONT_MACROS:
            self._font_line(macro, arguments)
        elif action := _ACTIONS.get(macro):
            action(self, arguments)
        elif macro not in _SILENT and not macro.islower():
            # A macro of the page itself: what it is about is kept.
            self._add_words(arguments)

    def _font_line(self, macro: str, arguments: str) -> None:
        if arguments:
            self._add(self._fonts(macro, arguments), joins=arguments.endswith("\\c"))
        elif macro != "SM":
            self._next_font = _FONTS[macro[-1]]

    def _begin_paragraph(self, macro: str) -> None:
        if self._page.is_code:
            self._page.blank_line()
            return
        self._expects_term = False
        self._page.end_list()
        self._paragraph = macro

    def _indent(self) -> None:
        """Open an indentation; a short paragraph right above it is a term, as DocBook writes it."""
        paragraph = self._page.paragraph
        is_term = (
            bool(paragraph)
            and self._paragraph == "PP"
            and not self._page.is_code
            and len(paragraph) <= MAX_TERM_CHARS
            and (
                self._is_docbook
                or (paragraph[0] in f"-{BOLD}{ITALIC}" and paragraph[-1] not in ".:;,")
            )
        )

        if is_term:
            self._page.term(self._page.take_paragraph())

        self._paragraph = ""
        self._page.indent()

    def _title(self, arguments: str) -> None:
        words = [*self._words(arguments), "", ""]
        self._name, self._section = words[0], words[1]

    def _heading(self, level: int, arguments: str) -> None:
        self._expects_term = False
        self._paragraph = ""
        if words := " ".join(self._words(arguments)).strip():
            self._page.heading(level, words)
        else:
            self._expects_heading = level

    def _tagged(self) -> None:
        self._page.end_code()
        self._paragraph = ""
        self._expects_term = True

    def _indented(self, arguments: str) -> None:
        """`.IP`: an item, a term, or one more paragraph of what is above it."""
        tag = next(iter(self._words(arguments)), "").strip()
        plain = tag.replace(BOLD, "").replace(ITALIC, "").replace(PLAIN, "").strip()
        self._expects_term = False

        if not plain:
            # As help2man writes options: a hanging paragraph, then what it means.
            if self._paragraph == "HP" and 0 < len(self._page.paragraph) <= MAX_TERM_CHARS:
                self._page.term(self._page.take_paragraph())
            elif _OPTION_ITEM.fullmatch(self._page.paragraph) and (term := self._page.take_item()):
                # As Ronn writes options that stand in a list of items.
                self._page.term(term.rstrip(":"))
            else:
                self._page.blank_line()
        elif _BULLET.fullmatch(plain):
            self._page.item("ul")
        elif _NUMBER.fullmatch(plain) and self._counts(plain):
            self._page.item("ol")
        else:
            self._page.term(tag)
        self._paragraph = ""

    def _counts(self, number: str) -> bool:
        """Whether a tag numbers the items of a list: not 0, 123 and 124, which are values."""
        return not number.isdigit() or int(number) == self._page.next_item

    def _begin_table(self) -> None:
        self._page.end_code()
        self._rows = []

    def _add_row(self, macro: str, arguments: str) -> None:
        if self._rows is None or len(self._rows) > MAX_TABLE_ROWS:
            return

        if macro in _FONT_MACROS:
            self._rows.append(self._fonts(macro, arguments))
        elif macro == "T&":
            self._rows.append("\x00")
        elif not macro:
            self._rows.append(self._strings.text(arguments))

    def _open_link(self, arguments: str) -> None:
        self._url = next(iter(self._words(arguments)), "")

    def _close_link(self, arguments: str) -> None:
        end = next(iter(self._words(arguments)), "")
        if self._url:
            self._add(f"<{self._url}>{end}")
        self._url = ""

    def _link(self, arguments: str) -> None:
        """`.URL` and `.MTO` of Asciidoctor: an address, its text and what follows it."""
        address, text, end = [*self._words(arguments), "", "", ""][:3]
        self._add(f"{text} <{address}>{end}" if text else f"{address}{end}")

    def _synopsis(self, arguments: str) -> None:
        self._page.end_paragraph()
        self._add_words(arguments, BOLD, PLAIN)


# What each macro does, by its arguments.
_ACTIONS: dict[str, Callable[[_Reader, str], None]] = {
    "TH": _Reader._title,
    "SH": lambda reader, arguments: reader._heading(2, arguments),
    "SS": lambda reader, arguments: reader._heading(3, arguments),
    **dict.fromkeys(["PP", "P", "LP"], lambda reader, _: reader._begin_paragraph("PP")),
    "HP": lambda reader, _: reader._begin_paragraph("HP"),
    **dict.fromkeys(["TP", "TQ"], lambda reader, _: reader._tagged()),
    "IP": _Reader._indented,
    **dict.fromkeys(["RS", "INDENT"], lambda reader, _: reader._indent()),
    **dict.fromkeys(["RE", "UNINDENT"], lambda reader, _: reader._page.dedent()),
    **dict.fromkeys(["nf", "EX", "Vb"], lambda reader, _: reader._page.begin_code()),
    **dict.fromkeys(["fi", "EE", "Ve"], lambda reader, _: reader._page.end_code()),
    **dict.fromkeys(["sp", "Sp", "YS"], lambda reader, _: reader._page.blank_line()),
    **dict.fromkeys(["br", "ti"], lambda reader, _: reader._page.line_break()),
    "TS": lambda reader, _: reader._begin_table(),
    **dict.fromkeys(["UR", "MT"], _Reader._open_link),
    **dict.fromkeys(["UE", "ME"], _Reader._close_link),
    **dict.fromkeys(["URL", "MTO"], _Reader._link),
    "SY": _Reader._synopsis,
    "OP": lambda reader, arguments: reader._add_words(arguments, "[", "]"),
}
# All other macros of a page do what its definitions of them say.
_OWN = (_FONT_MACROS | _SILENT | _ACTIONS.keys()) - _REDEFINED


def _table(rows: Iterable[str]) -> list[list[str]]:
    """The cells of a table of tbl(1): options, a format up to a dot, then rows."""
    separator, in_format, is_first = "\t", True, True
    table: list[list[str]] = []
    block: list[str] | None = None

    for row in rows:
        if is_first and row.rstrip().endswith(";"):
            if match := re.search(r"tab *\((.)\)", row):
                separator = match[1]
        elif in_format:
            in_format = not row.rstrip().endswith(".")
        elif row == "\x00":
            in_format = True
        elif block is not None and not row.startswith("T}"):
            block.append(row)
        elif block is not None:
            # The end of a block of text may have further cells after it.
            table[-1][-1] = " ".join(block)
            block = None
            block = _add_cells(table[-1], row[2:].split(separator)[1:])
        elif row.strip("_=-" + separator):
            table.append([])
            block = _add_cells(table[-1], row.split(separator))
        is_first = False

    return table


def _add_cells(row: list[str], cells: Iterable[str]) -> list[str] | None:
    """Add cells to a row; returns where the text goes if the last one begins a block of text."""
    row.extend(cell.strip() for cell in cells)
    if row and row[-1] == "T{":
        row[-1] = ""
        return []
    return None


# What a page is about


def name_command(page: page_sections.Page, page_format: str) -> None:
    """Enclose what a manual page tells in the name of what it is about: `-k` is an option of gzip.

    Of the source of a manual page, the first section is the entry of the command or functions, and
    of what a program prints about itself, that of the program.
    """
    is_source = page_format in ("asciidoc", "manual")
    subject = command(page.title) if is_source else _own_name(page)
    if page_format == "help":
        subject = page.title
    is_callable = is_source and _CALLABLE.fullmatch(page.title) is not None

    for section in page.sections:
        if not subject or section.title == page.title:
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


def _define(page: page_sections.Page) -> None:
    """Make an entry of the first section if the synopsis, which follows, calls what it names.

    What it passes to a call is an option.
    """
    # Before the synopsis, pages of C's library name the library.
    sections = [section for section in page.sections[:3] if section.title != "LIBRARY"]
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
        if section.title == "DESCRIPTION" and section.directive == "section":
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
