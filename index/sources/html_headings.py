"""Headings: those that open sections, those that are definitions, and those that are only text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import partial

from purlin.index.sources.generators import Generator
from purlin.index.sources.html_entries import Entries
from purlin.index.sources.html_outline import Head, Outline
from purlin.index.sources.html_text import BREAK, Close, Element, Mark, Text, collapse, do_nothing
from purlin.index.sources.html_vocabulary import (
    CALL,
    DEFINITION,
    HEADED_DIRECTIVES,
    HEADINGS,
    INNER_HEADINGS,
    RESULT_HEADINGS,
)
from purlin.index.sources.html_writer import Writer
from purlin.index.sources.page_sections import MAX_TITLE

_NUMBER = re.compile(r"\A(?:(?:[A-Z]\.)?(?:\d+\.)+\d*|[A-Z](?:\.\d+)+)\s+")
# A number without a dot at its end is a version if a bracket, a dash, a date or only its state
# follows.
_VERSION = re.compile(
    r"\A[\d.]*\d\s+(?:[(\[\u2012-\u2015-]|\d{4}\b|\d\d?[./]"
    r"|(?:alpha|beta|final|pre|rc|released|stable|unreleased|yanked)[\s.-]*\d*\s*(?:\Z|[(\[,\u2012-\u2015-]))",
    re.IGNORECASE,
)
_CHANGELOG = re.compile(
    r"\bchange ?logs?\b|\b(?:change|release|version) (?:history|notes)\b"
    r"|\A(?:changes|history|news|releases)\Z",
    re.IGNORECASE,
)


class Headings:
    """Reads the title of a page and its headings, and opens sections with them."""

    def __init__(
        self,
        text: Text,
        outline: Outline,
        writer: Writer,
        entries: Entries,
        head: Head,
        generator: Generator,
    ) -> None:
        # Of the heading that was read last, the part that is code.
        self.code = ""
        self._text = text
        self._outline = outline
        self._writer = writer
        self._entries = entries
        self._head = head
        self._generator = generator

    def open_title(self, element: Element) -> Close:
        """Read the title in the head of the page."""
        self._writer.flush()
        self._text.role = "title"
        return self._close_title

    def _close_title(self) -> None:
        self._head.title = self._take_title()
        if self._generator.module_pages:
            self._text.module = self._head.title

    def open_heading(self, element: Element) -> Close | None:
        """Read a heading; None if it is a paragraph like others."""
        self._writer.flush()
        is_inner = self._outline.keeps_headings
        if is_inner and not self._generator.has_entries:
            return None

        self._text.permalink = self.code = ""
        self._text.role = "heading"
        self._text.note_id(element)
        level = HEADINGS[element.tag]
        if is_inner or level > self._generator.deepest_heading:
            return self._close_inner_heading
        return partial(self._close_heading, level, element.anchor, DEFINITION in element.classes)

    def open_part(self, element: Element) -> Close | None:
        """Read an element within a heading; None if nothing but its text counts."""
        if "section-number" in element.classes:
            return partial(self._text.cut, self._text.mark())
        if element.links_within_page:
            return self._text.open_link(element)
        if self._generator.has_entries and "sep" in element.classes:
            self._text.append(".")
            return do_nothing
        if "overload" in element.classes:
            return partial(self._text.append, BREAK)
        if element.tag == "code" and not self._generator.has_entries:
            return partial(self._close_code, self._text.mark())
        return None

    def _close_code(self, mark: Mark) -> None:
        self.code = collapse(self._text.since(mark))

    def _close_heading(self, level: int, own_id: str, is_definition: bool) -> None:
        outline, title = self._outline, self._take_title(level)
        if level == 1 and not outline.first_heading:
            outline.first_heading = title
        if outline.is_full:
            self._writer.write(title)
        elif title:
            self._writer.begin_section(level, title, self._text.permalink or own_id)
            self.code = title if self.code == title else ""
            call = self.code.replace(" (", "(", 1)
            if is_definition or CALL.fullmatch(call):
                self._define(call or title)
            elif level == 1 and (entry := self._generator.page_entry(title)):
                self._entries.fill_section(entry)

    def _define(self, heading: str) -> None:
        """Make a definition of a section whose heading is code: `max`, `cache.get(key)`."""
        section, call = self._outline.section, CALL.match(heading)
        label, colon, labelled = heading.partition(": ")
        name = call[1] if call else labelled.strip("'\"") if colon else heading
        section.title, section.names, section.signatures = name, [name], [heading]

        above = section.headings[-1].split() if section.headings else []
        kind = (label if colon else "".join(above[-1:])).lower().removesuffix("s")
        section.directive = "function" if call else HEADED_DIRECTIVES.get(kind, "term")
        if heading.startswith("-"):
            section.directive = "option"

    def _close_inner_heading(self) -> None:
        """Take a heading within an entry as text, unless it only says that code or text follows."""
        heading = self._outline.inner_heading = self._text.take_line()
        if heading in RESULT_HEADINGS:
            self._writer.set_marker("Returns: ")
        elif heading not in INNER_HEADINGS and not self._entries.is_at_arguments:
            self._writer.write(heading)

    def _take_title(self, level: int = 1) -> str:
        """The heading on one line, without its section number, cut to the length of a title.

        In a list of changes a number is a version, and in a manual a section's.
        """
        text = self._text.take_line()
        number = _NUMBER.match(text)
        if number and not _is_version(text, number[0], self._enclosing_titles(level)):
            text = text[number.end() :]
        return text[:MAX_TITLE]

    def _enclosing_titles(self, level: int) -> Iterable[str]:
        return (self._head.title, *self._outline.titles_above(level))


def _is_version(heading: str, number: str, enclosing: Iterable[str]) -> bool:
    """Whether the number that a heading begins with is the version that its text is about."""
    if number.rstrip().endswith("."):
        return False
    return bool(_VERSION.match(heading)) or any(map(_CHANGELOG.search, enclosing))
