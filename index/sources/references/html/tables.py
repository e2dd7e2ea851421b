"""Tables: their rows are blocks, those that only lay out the page are paragraphs."""

from __future__ import annotations

from dataclasses import dataclass, field

from purlin.index.sources.references.html.entries import MAX_TERM, MAX_TERMS, Entries
from purlin.index.sources.references.html.entry_names import MAX_NAMES, calls_with
from purlin.index.sources.references.html.generators import Generator
from purlin.index.sources.references.html.outline import Outline
from purlin.index.sources.references.html.text import Close, Element, Text
from purlin.index.sources.references.html.vocabulary import CODE_CELLS, HEADINGS, PROPERTY
from purlin.index.sources.references.html.writer import Writer
from purlin.index.sources.references.page_sections import MAX_TITLE, Block, Section, join_names


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

    def begin(self) -> None:
        """Count the rows of a table that opens."""
        self._row_count = 0

    def close(self) -> None:
        """Begin an entry with a table of one row that names it and tells its properties."""
        self._writer.flush()
        if self._code_lines:
            code, self._code_lines = "\n".join(self._code_lines), []
            self._entries.declare(code)
            return

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

        self._text.note_id(element)
        self._cells = []
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

        row = " | ".join(cells).strip()
        self._writer.write(row, atom=True, tight=self._row_count > 0)
        self._row_count += 1
        self._only_row = cells if self._row_count == 1 and len(row) <= MAX_TERM else []

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
