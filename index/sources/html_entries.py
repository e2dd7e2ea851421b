"""Entries that generators write as headings and code: what the heading and the code make of a section."""

from __future__ import annotations

from functools import partial

from purlin.index.sources.generators import Entry, Generator
from purlin.index.sources.html_outline import Head, Outline
from purlin.index.sources.html_text import Close, Element, Text
from purlin.index.sources.html_vocabulary import HEADINGS
from purlin.index.sources.html_writer import Writer
from purlin.index.sources.page_sections import MAX_TITLE, Block, join_names

MAX_TERM = 2000  # characters of a term or a signature
MAX_TERMS = 64  # of one definition


class Entries:
    """Makes entries of sections, as the generator of the page marks them."""

    def __init__(
        self, text: Text, outline: Outline, writer: Writer, head: Head, generator: Generator
    ) -> None:
        self._text = text
        self._outline = outline
        self._writer = writer
        self._head = head
        self._generator = generator

    @property
    def is_open(self) -> bool:
        """Whether the section is an entry by now."""
        return self._generator.has_entries and bool(self._outline.section.signatures)

    @property
    def is_at_arguments(self) -> bool:
        """Whether the rows that come next are the arguments of the entry."""
        heading = self._generator.arguments
        return bool(heading) and self._outline.inner_heading == heading and self.is_open

    def begin(self, heading: str, code: str) -> Entry | None:
        """Make an entry of the section if code below its heading tells what it defines."""
        section = self._outline.section
        if section.signatures:
            return None
        entry = self._read(heading, code, section.anchor)
        if entry:
            self.fill_section(entry)
        return entry

    def fill_section(self, entry: Entry) -> None:
        """Make the section that has just begun the entry."""
        section = self._outline.section
        section.title, section.directive = join_names(entry.names), entry.directive
        section.names = list(entry.names)
        section.context = entry.context
        section.signatures = list(entry.signatures[:MAX_TERMS])
        if entry.is_whole_page:
            self._outline.take_whole_page()
        if entry.summary:
            section.blocks.insert(0, Block(entry.summary))
        if entry.since:
            self._outline.add_note(entry.since)

    def open_entry(self, element: Element) -> Close:
        """Read an element that names an entry."""
        self._writer.start_block(element)
        self._text.permalink = ""
        self._text.role = "heading"
        return partial(self._close_entry, element.anchor)

    def _close_entry(self, own_id: str) -> None:
        """Begin the entry that an element names, or add a further call to the one just begun."""
        text, anchor = self._text.take_lines(), own_id or self._text.last_id
        entry = self._read(text.partition("\n")[0], text, anchor)
        section = self._outline.section
        if section.signatures and not section.blocks and self._joins(entry):
            self._add_call(entry, text, anchor)
            return

        if entry and not self._outline.is_full:
            self._writer.begin_section(len(HEADINGS), "", anchor)
            self.fill_section(entry)
        else:
            self._writer.write(text)

    def _joins(self, entry: Entry | None) -> bool:
        """Whether the heading of an entry names a further call of the one before it."""
        return not self._text.last_id or (self._generator.joined and entry is not None)

    def _add_call(self, entry: Entry | None, text: str, anchor: str) -> None:
        """Add a further call, and its name and id if it has its own, to the entry just begun."""
        section = self._outline.section
        has_own_id = bool(self._text.last_id)
        lines = entry.signatures if entry and has_own_id else text.split("\n")
        section.signatures += lines[: MAX_TERMS - len(section.signatures)]
        if entry and has_own_id:
            section.names += [name for name in entry.names if name not in section.names]
            section.title = join_names(section.names)
            self._writer.add_anchors(section, anchor)

    def _read(self, heading: str, code: str, anchor: str) -> Entry | None:
        """What the code below a heading defines, outside definitions."""
        if self._outline.definitions or not code:
            return None
        title = self._outline.first_heading or self._head.title
        if self._generator.titled_by_head:
            title = self._head.title
        return self._generator.read_entry(heading[:MAX_TITLE], code[:MAX_TERM], title, anchor)
