"""Read the macros of man(7), in which most manual pages are written, as HTML."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from purlin.index.sources.references.page_markup import BOLD, ITALIC, PLAIN, PageMarkup, plain
from purlin.index.sources.references.roff import Macros, Strings, tokens
from purlin.index.sources.words import words

MAX_TERM_CHARS = 300
MAX_TABLE_ROWS = 10_000

# Tags that mark an item of a list, without an order or with one: `(a)`, `3.`.
_BULLET = re.compile(r"[•·○●◦▪*o+–—−-]")
_NUMBER = re.compile(r"\(?(?:\d{1,3}|[a-z])[.)]|\d{1,3}")
_OPTION_ITEM = re.compile(rf"{BOLD}-[^\n]{{1,{MAX_TERM_CHARS}}}:")
_FONTS = {"B": BOLD, "I": ITALIC, "R": PLAIN, "S": ""}
_FONT_MACROS = words("B I R SM SB BI BR IB IR RB RI")
# Of macros, those without text for a reader; of roff's requests, which are in small letters, all.
_SILENT = words("PD DT AT UC IX LINKSTYLE DS DE KS KE")
# Which pages define in their own way: displays, and as Tcl's do, an empty string and an option.
_REDEFINED = frozenset(["DS", "DE", "MT", "OP"])


class ManReader:
    """Reads the macros of man(7) and those that its generators add."""

    def __init__(self, *, is_docbook: bool, is_asciidoctor: bool) -> None:
        self._is_docbook = is_docbook
        self._is_asciidoctor = is_asciidoctor
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
        macros = Macros(self._strings, lambda macro: macro not in _OWN)
        for line, macro, arguments in macros.read(source):
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

    def _blank_line(self) -> None:
        """Leave a line blank, which is how Asciidoctor begins its paragraphs."""
        if self._is_asciidoctor:
            self._begin_paragraph("PP")
        else:
            self._page.blank_line()

    def _indent(self) -> None:
        """Open an indentation; a short paragraph right above it is a term, as DocBook and Asciidoctor
        write it."""
        paragraph = self._page.paragraph
        is_term = (
            bool(paragraph)
            and self._paragraph == "PP"
            and not self._page.is_code
            and len(paragraph) <= MAX_TERM_CHARS
            and (
                self._is_docbook
                or self._is_asciidoctor
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
        mark = plain(tag)
        self._expects_term = False

        if not mark:
            # As help2man writes options: a hanging paragraph, then what it means.
            if self._paragraph == "HP" and 0 < len(self._page.paragraph) <= MAX_TERM_CHARS:
                self._page.term(self._page.take_paragraph())
            elif _OPTION_ITEM.fullmatch(self._page.paragraph) and (term := self._page.take_item()):
                # As Ronn writes options that stand in a list of items.
                self._page.term(term.rstrip(":"))
            else:
                self._page.blank_line()
        elif _BULLET.fullmatch(mark):
            self._page.item("ul")
        elif _NUMBER.fullmatch(mark) and self._counts(mark):
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
_ACTIONS: dict[str, Callable[[ManReader, str], None]] = {
    "TH": ManReader._title,
    "SH": lambda reader, arguments: reader._heading(2, arguments),
    "SS": lambda reader, arguments: reader._heading(3, arguments),
    **dict.fromkeys(["PP", "P", "LP"], lambda reader, _: reader._begin_paragraph("PP")),
    "HP": lambda reader, _: reader._begin_paragraph("HP"),
    **dict.fromkeys(["TP", "TQ"], lambda reader, _: reader._tagged()),
    "IP": ManReader._indented,
    **dict.fromkeys(["RS", "INDENT"], lambda reader, _: reader._indent()),
    **dict.fromkeys(["RE", "UNINDENT"], lambda reader, _: reader._page.dedent()),
    **dict.fromkeys(["nf", "EX", "Vb"], lambda reader, _: reader._page.begin_code()),
    **dict.fromkeys(["fi", "EE", "Ve"], lambda reader, _: reader._page.end_code()),
    **dict.fromkeys(["sp", "Sp", "YS"], lambda reader, _: reader._blank_line()),
    **dict.fromkeys(["br", "ti"], lambda reader, _: reader._page.line_break()),
    "TS": lambda reader, _: reader._begin_table(),
    **dict.fromkeys(["UR", "MT"], ManReader._open_link),
    **dict.fromkeys(["UE", "ME"], ManReader._close_link),
    **dict.fromkeys(["URL", "MTO"], ManReader._link),
    "SY": ManReader._synopsis,
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
