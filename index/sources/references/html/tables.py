"""Tables: their rows are blocks, those that only lay out the page are paragraphs."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from purlin.index.sources.references.html.entries import MAX_TERM, MAX_TERMS, Entries
from purlin.index.sources.references.html.entry_names import MAX_NAMES, calls_with
from purlin.index.sources.references.html.generators import Generator
from purlin.index.sources.references.html.outline import Outline
from purlin.index.sources.references.html.text import Close, Element, Text
from purlin.index.sources.references.html.vocabulary import (
    CODE_CELLS,
    HEADED_DIRECTIVES,
    HEADINGS,
    PROPERTY,
)
from purlin.index.sources.references.html.writer import Writer
from purlin.index.sources.references.page_sections import (
    MAX_TITLE,
    Block,
    Section,
    join_names,
    option_names,
)

MAX_ENTRY_ROWS = 1_000  # of a table whose rows become entries
MAX_PROPERTY = 200  # characters of a cell that becomes a property

# What the first column is named where its cells are names of what the page is about.
_NAMED = frozenset("attribute option parameter property".split())
# Columns of what has a type or a value.
_PROPERTY_HEADS = frozenset("default mandatory required type".split())
_TEXT_HEADS = frozenset(("description", "explanation", "meaning", "purpose", "usage"))
_NAMES = re.compile(r"[^\s,|]{0,80}[A-Za-z][^\s,|]{0,80}(?:, [^\s,|]{1,80}){0,3}")


@dataclass(frozen=True, slots=True)
class _Row:
    cells: list[str]
    anchor: str


@dataclass(slots=True)
class Tables:
    """Reads rows cell by cell; some are entries, or arguments of the entry they stand in."""

    _text: Text
    _outline: Outline
    _writer: Writer
    _entries: Entries
    _generator: Generator
    _row_count: int = 0
    # Of the row that is open.
    _cells: list[str] | None = None
    # Of the first row of the table, while it has no other.
    _only_row: list[str] = field(default_factory=list)
    # Of a declaration that is laid out in rows.
    _code_lines: list[str] = field(default_factory=list)
    # The heads of the columns, if the first row has nothing else, and the rows below them.
    _heads: list[str] = field(default_factory=list)
    _is_head: bool = False
    _ids_before: list[str] = field(default_factory=list)
    _rows: list[_Row] = field(default_factory=list)

    def begin(self) -> None:
        """Count the rows of a table that opens."""
        self._row_count = 0
        self._heads, self._rows = [], []

    def close(self) -> None:
        """Make entries or properties of rows whose columns have heads.

        A table of one row without heads may name an entry and tell its properties.
        """
        self._writer.flush()
        if self._code_lines:
            code, self._code_lines = "\n".join(self._code_lines), []
            self._entries.declare(code)
            return
        if self._heads and self._rows and self._row_count == len(self._rows) + 1:
            self._close_headed()
            return
        if not self._heads and self._may_begin_entry:
            self._close_options()

        cells, self._only_row = self._only_row, []
        if self._row_count != 1 or not _heads_entry(cells) or not self._may_begin_entry:
            return

        self._outline.section.blocks.pop()
        section = self._writer.begin_section(
            len(HEADINGS), cells[0][:MAX_TITLE], self._outline.section.anchor
        )
        section.names = section.signatures = [section.title]
        has_default = any(cell.startswith("Default: ") for cell in cells)
        section.directive = "option" if has_default else "term"
        for number, cell in enumerate(cells[1:]):
            self._writer.write(cell, tight=number > 0)

    def _close_headed(self) -> None:
        """Make an entry of each row that has a name, else properties of a single row."""
        heads, rows = self._heads, self._rows
        self._heads, self._rows, self._only_row = [], [], []
        blocks = self._outline.target.blocks
        texts = [_joined(heads), *(_joined(row.cells) for row in rows)]
        if [block.text for block in blocks[-len(texts) :]] != texts:
            return

        directive = _named_in(heads)
        are_entries = directive and all(_names(row.cells[0]) for row in rows)
        if are_entries and self._may_begin_entry:
            del blocks[-len(texts) :]
            for row in rows:
                self._add_entry(directive, heads, row)
        elif len(rows) == 1 and not directive and _are_properties(heads, rows[0].cells):
            del blocks[-len(texts) :]
            cells = zip(heads, rows[0].cells, strict=False)
            self._writer.write("\n".join(_property(head, cell) for head, cell in cells if cell))

    def _close_options(self) -> None:
        """Make entries of the rows that name an option and describe it, if there are two."""
        rows, self._rows = self._rows, []
        options = {_joined(row.cells): option for row in rows if (option := _option(row))}
        blocks = self._outline.target.blocks
        others = [block for block in blocks[-self._row_count :] if block.text not in options]
        if len(options) > 1 and len(options) + len(others) == self._row_count:
            blocks[-self._row_count :] = others
            for option in options.values():
                self._add_entry("option", ["description"] * len(option.cells), option)

    def _add_entry(self, directive: str, heads: list[str], row: _Row) -> None:
        outer = self._outline.section
        names = _names(row.cells[0])
        entry = Section(
            join_names(names),
            directive,
            anchor=row.anchor or outer.anchor,
            module=outer.module,
            headings=(*outer.headings, outer.title) if outer.title else outer.headings,
            names=names,
            signatures=[row.cells[0]],
        )
        for head, cell in zip(heads[1:], row.cells[1:], strict=False):
            if cell:
                is_text = head.lower() in _TEXT_HEADS
                entry.blocks.append(Block(cell if is_text else _property(head, cell)))
        self._outline.sections.append(entry)

    @property
    def _may_begin_entry(self) -> bool:
        outline = self._outline
        return not (
            self._generator.has_entries
            or outline.is_full
            or outline.is_nested
            or outline.bare_definition
        )

    # -- rows --------------------------------------------------------------------------------------

    def open_row(self, element: Element) -> Close:
        """Begin a row, or a declaration that is written as one."""
        self._writer.flush()
        # A row within a row, as broken markup has it, ends the outer one.
        self._close_row()
        if element.classes & self._generator.prototypes:
            return self._entries.open_prototype(element)

        self._ids_before = list(self._text.ids)
        self._text.note_id(element)
        self._cells = []
        self._is_head = True
        return self._close_row

    def _close_row(self) -> None:
        self._writer.flush()
        cells, self._cells = self._cells, None
        if not cells or not any(cells) or self._generator.is_frame(cells[-1]):
            return
        if self._is_argument(cells):
            self._add_argument(cells[0], cells[1])
            return
        if self._entries.is_at_declaration:
            self._code_lines.append(" ".join(cells))
            return

        own_ids = (each for each in self._text.ids if each not in self._ids_before)
        self._keep(cells, next(own_ids, ""))
        row = _joined(cells)
        self._writer.write(row, atom=True, tight=self._row_count > 0)
        self._row_count += 1
        self._only_row = cells if self._row_count == 1 and len(row) <= MAX_TERM else []

    def _keep(self, cells: list[str], anchor: str) -> None:
        """Keep the heads of columns, and the rows below them while their number is small."""
        if self._is_head:
            self._heads = cells if self._row_count == 0 and all(cells) and len(cells) > 1 else []
        elif 1 < len(cells) <= len(self._heads or cells) and len(self._rows) < MAX_ENTRY_ROWS:
            self._rows.append(_Row(cells, anchor))

    def _is_argument(self, cells: list[str]) -> bool:
        return (
            self._entries.is_at_arguments
            and len(cells) == 2
            and all(cells)
            and not self._outline.is_full
        )

    def _add_argument(self, term: str, text: str) -> None:
        """Make an entry of an argument, with the calls that show its default."""
        entry = self._outline.section
        names = [name for part in term.split(",")[:MAX_NAMES] if (name := part.strip())]
        calls = [call for name in names for call in calls_with(entry.signatures, name)]

        self._outline.sections.append(
            Section(
                join_names(names),
                "parameter",
                anchor=entry.anchor,
                headings=entry.headings,
                context=(entry.title,),
                names=names,
                signatures=calls[:MAX_TERMS] or [term],
                blocks=[Block(text)],
            )
        )

    # -- cells -------------------------------------------------------------------------------------

    def open_cell(self, element: Element) -> Close:
        """Begin a cell of the row, or a block outside of rows."""
        self._writer.flush()
        self._text.note_id(element)
        self._is_head &= element.tag == "th"
        if self._cells is None or element.classes & CODE_CELLS:
            return self._writer.flush
        self._text.role = "cell"
        return self._close_cell

    def _close_cell(self) -> None:
        if self._cells is None or self._text.role != "cell":
            self._writer.flush()
        else:
            self._cells.append(self._text.take_line())

    def unfold(self) -> None:
        """Turn the row's cells into paragraphs: the table turned out to lay out the page."""
        cells, self._cells = self._cells or [], None
        self._text.role = ""
        for cell in filter(None, cells):
            self._writer.write(cell)
        self._writer.flush()


def _heads_entry(cells: list[str]) -> bool:
    """Whether a row has a name and then only properties: `limit | Type: integer | Default: 5`."""
    return len(cells) > 2 and bool(cells[0]) and all(map(PROPERTY.match, cells[1:]))


def _joined(cells: list[str]) -> str:
    return " | ".join(cells).strip()


def _names(cell: str) -> list[str]:
    """Return what a cell names: `todir, tofile`, or the options of `-o, --out FILE`."""
    return option_names(cell) or (cell.split(", ") if _NAMES.fullmatch(cell) else [])


def _option(row: _Row) -> _Row | None:
    """Return a row that has an option and what it does, without its empty cells."""
    cells = list(filter(None, row.cells))
    return _Row(cells, row.anchor) if len(cells) > 1 and option_names(cells[0]) else None


def _named_in(heads: list[str]) -> str:
    """Return what the first column names: `attribute`, `option` and the like; empty if it may be anything."""
    word = heads[0].lower().removesuffix(" name").removesuffix("s")
    if word == "name":
        return "option" if _have_properties(heads) else ""
    directive = HEADED_DIRECTIVES.get(word, "")
    return directive if directive in _NAMED else ""


def _have_properties(heads: list[str]) -> bool:
    return any(head.lower().removesuffix(" value") in _PROPERTY_HEADS for head in heads)


def _are_properties(heads: list[str], cells: list[str]) -> bool:
    """Return whether a row tells properties of what is above the table: `Type | Default`."""
    is_short = max(map(len, (*heads, *cells))) <= MAX_PROPERTY
    return is_short and heads[0].lower() != "name" and _have_properties(heads)


def _property(head: str, cell: str) -> str:
    return f"{head[:1].upper()}{head[1:]}: {cell}"
