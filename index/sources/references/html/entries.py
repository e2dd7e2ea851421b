"""Headings and code: what opens sections, and what makes definitions and entries of them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from purlin.index.sources.references.html import vocabulary
from purlin.index.sources.references.html.entry_names import Entry
from purlin.index.sources.references.html.generators import Generator
from purlin.index.sources.references.html.outline import Head, Outline
from purlin.index.sources.references.html.text import (
    BREAK,
    Close,
    Element,
    Mark,
    Text,
    collapse,
    do_nothing,
)
from purlin.index.sources.references.html.writer import Writer
from purlin.index.sources.references.page_sections import MAX_TITLE, Block, join_names

MAX_TERM = 2000  # characters of a term or a signature
MAX_TERMS = 64  # of one definition

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
# An empty line, or the next line is an item of a list.
_PARAGRAPH_END = re.compile(r"\n(?=[ \t]*\n|[ \t]*[-*] )")


@dataclass(slots=True)
class Entries:
    """Opens sections with headings; makes entries of them by what headings and code tell."""

    _text: Text
    _outline: Outline
    _writer: Writer
    _head: Head
    _generator: Generator
    # Of the heading that was read last, the part that is code.
    _heading_code: str = ""

    # -- headings ----------------------------------------------------------------------------------

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
        outline = self._outline
        is_inner = outline.is_nested or outline.section is outline.final_section
        if is_inner and not self._generator.has_entries:
            return None

        self._text.permalink = self._heading_code = ""
        self._text.role = "heading"
        self._text.note_id(element)
        level = vocabulary.HEADINGS[element.tag]
        if is_inner or level > self._generator.deepest_heading:
            return self._close_inner_heading
        return partial(
            self._close_heading, level, element.anchor, vocabulary.DEFINITION in element.classes
        )

    def open_part(self, element: Element) -> Close | None:
        """Read an element within a heading; None if nothing but its text counts."""
        if "section-number" in element.classes:
            return partial(self._text.cut, self._text.mark())
        if element.is_local_link:
            return self._text.open_permalink(element)
        if self._generator.has_entries and "sep" in element.classes:
            self._text.append(".")
            return do_nothing
        if "overload" in element.classes:
            return partial(self._text.append, BREAK)
        if element.tag == "code" and not self._generator.has_entries:
            return partial(self._close_code, self._text.mark())

        return None

    def _close_code(self, mark: Mark) -> None:
        self._heading_code = collapse(self._text.since(mark))

    def _close_heading(self, level: int, own_id: str, is_definition: bool) -> None:
        outline, title = self._outline, self._take_title(level)
        if level == 1 and not outline.first_heading:
            outline.first_heading = title

        if outline.is_full:
            self._writer.write(title)
        elif title:
            self._writer.begin_section(level, title, self._text.permalink or own_id)
            self._heading_code = title if self._heading_code == title else ""
            call = self._heading_code.replace(" (", "(", 1)
            if is_definition or vocabulary.CALL.fullmatch(call):
                self._define(call or title)
            elif level == 1 and (entry := self._generator.page_entry(title)):
                self._fill_section(entry)

    def _define(self, heading: str) -> None:
        """Make a definition of a section whose heading is code: `max`, `cache.get(key)`."""
        section, call = self._outline.section, vocabulary.CALL.match(heading)
        label, colon, labelled = heading.partition(": ")
        name = call[1] if call else labelled.strip("'\"") if colon else heading
        section.title, section.names, section.signatures = name, [name], [heading]

        above = section.headings[-1].split() if section.headings else []
        kind = (label if colon else "".join(above[-1:])).lower().removesuffix("s")
        section.directive = "function" if call else vocabulary.HEADED_DIRECTIVES.get(kind, "term")
        if heading.startswith("-"):
            section.directive = "option"

    def _close_inner_heading(self) -> None:
        """Take a heading within an entry as text, unless it only says that code or text follows."""
        heading = self._outline.inner_heading = self._text.take_line()
        if heading in vocabulary.RESULT_HEADINGS:
            self._writer.marker = "Returns: "
        elif heading not in vocabulary.INNER_HEADINGS and not self.is_at_arguments:
            self._writer.write(heading)

    def _take_title(self, level: int = 1) -> str:
        """The heading on one line, without its section number, cut to the length of a title.

        In a list of changes a number is a version, and in a manual a section's.
        """
        text = self._text.take_line()
        number = _NUMBER.match(text)
        enclosing = (self._head.title, *self._outline.titles_above(level))
        if number and not _is_version(text, number[0], enclosing):
            text = text[number.end() :]
        return text[:MAX_TITLE]

    # -- entries -----------------------------------------------------------------------------------

    @property
    def is_in_entry(self) -> bool:
        """Whether the section is an entry by now."""
        return self._generator.has_entries and bool(self._outline.section.signatures)

    @property
    def is_at_arguments(self) -> bool:
        """Whether the rows that come next are the arguments of the entry."""
        heading = self._generator.arguments
        return bool(heading) and self._outline.inner_heading == heading and self.is_in_entry

    @property
    def is_at_declaration(self) -> bool:
        """Whether the rows that come next are lines of the declaration that the page is about."""
        heading = self._generator.declaration
        return bool(heading) and self._outline.inner_heading == heading and not self.is_in_entry

    def declare(self, code: str) -> None:
        """Make an entry of the section by its declaration."""
        if not self._begin_entry(self._outline.section.title, code):
            self._writer.write(code, atom=True)

    def _begin_entry(self, heading: str, code: str) -> Entry | None:
        """Make an entry of the section if code below its heading tells what it defines."""
        section = self._outline.section
        if section.signatures:
            return None
        entry = self._read(heading, code, section.anchor)
        if entry:
            self._fill_section(entry)
        return entry

    def _fill_section(self, entry: Entry) -> None:
        """Make the section that has just begun the entry."""
        section = self._outline.section
        section.title, section.directive = join_names(entry.names), entry.directive
        section.names = list(entry.names)
        section.context = entry.context
        section.signatures = list(entry.signatures[:MAX_TERMS])

        if entry.is_whole_page:
            self._outline.final_section = section
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
            self._writer.begin_section(len(vocabulary.HEADINGS), "", anchor)
            self._fill_section(entry)
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

    # -- code --------------------------------------------------------------------------------------

    def open_listing(self, element: Element) -> Close:
        """Read text that is typed line by line."""
        self._writer.start_block(element)
        self._text.role = "code"
        is_prose = bool(element.classes & self._generator.prose)
        return self._close_prose if is_prose else self._close_listing

    def _close_prose(self) -> None:
        """Take typed text: paragraphs are apart by empty lines, items of lists begin with a mark."""
        for paragraph in _PARAGRAPH_END.split(self._text.take()):
            self._writer.write(" ".join(paragraph.split()))

    def _close_listing(self) -> None:
        code = self._text.take().replace("\u00a0", " ").rstrip()
        section = self._outline.section
        entry = self._begin_entry(self._outline.inner_heading or section.title, code.strip())
        if entry and entry.has_all_code and len(code) <= MAX_TERM:
            return
        if self._is_declaration(code):
            section.directive, section.names = "function", [section.title]
            section.signatures = [" ".join(code.split()).removesuffix(";")]
            return

        lines = code.split("\n")
        first = next((number for number, line in enumerate(lines) if line.strip()), len(lines))
        self._writer.write("\n".join(line.rstrip() for line in lines[first:]), atom=True)

    def _is_declaration(self, code: str) -> bool:
        """Whether code is the declaration of the function that the heading above it names."""
        name, section = self._heading_code, self._outline.section
        if not name or name != section.title or section.signatures or len(code) > MAX_TERM:
            return False
        is_first = len(section.blocks) <= 1 and not self._outline.definitions
        declared = vocabulary.DECLARED.fullmatch(" ".join(code.split())) if is_first else None
        return declared is not None and declared[1] == name

    def open_signature(self, element: Element) -> Close:
        """Read the signature of the entry that a heading before it has named."""
        self._text.note_id(element)
        self._text.role = "code"
        return self._close_signature

    def _close_signature(self) -> None:
        signature, section = " ".join(self._text.take_lines().split()), self._outline.section
        fits = bool(signature) and len(signature) <= MAX_TERM
        if fits and self.is_in_entry and not section.blocks:
            section.signatures = [signature]
        else:
            self._writer.write(signature, atom=True)

    def open_prototype(self, element: Element) -> Close:
        """Read the signature below a heading, whose parts Doxygen has in the cells of a table."""
        self._text.note_id(element)
        self._text.role = "prototype"
        return self._close_prototype

    def _close_prototype(self) -> None:
        prototype, section = self._text.take_line(), self._outline.section
        prototype = prototype.replace(" ( ", "(").replace(" )", ")").replace(" ,", ",")
        if self._begin_entry(section.title, prototype):
            return

        if section.blocks or self._outline.definitions or len(prototype) > MAX_TERM:
            self._writer.write(prototype, atom=True)
        elif len(section.signatures) < MAX_TERMS and prototype:
            section.signatures.append(prototype)


def _is_version(heading: str, number: str, enclosing: Iterable[str]) -> bool:
    """Whether the number that a heading begins with is the version that its text is about."""
    if number.rstrip().endswith("."):
        return False
    return bool(_VERSION.match(heading)) or any(map(_CHANGELOG.search, enclosing))
