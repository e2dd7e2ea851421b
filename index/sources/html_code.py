"""Listings of code, and declarations that tell what the section they stand in defines."""

from __future__ import annotations

import re
from dataclasses import dataclass

from purlin.index.sources.generators import Generator
from purlin.index.sources.html_headings import MAX_TERM, MAX_TERMS, Headings
from purlin.index.sources.html_outline import Outline
from purlin.index.sources.html_text import Close, Element, Text
from purlin.index.sources.html_vocabulary import DECLARED
from purlin.index.sources.html_writer import Writer

# An empty line, or the next line is an item of a list.
_PARAGRAPH_END = re.compile(r"\n(?=[ \t]*\n|[ \t]*[-*] )")


@dataclass(slots=True)
class Code:
    """Reads code: as the signature of the section, or as a block of it."""

    _text: Text
    _outline: Outline
    _writer: Writer
    _headings: Headings
    _generator: Generator

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
        entry = self._headings.begin_entry(
            self._outline.inner_heading or section.title, code.strip()
        )
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
        name, section = self._headings.code, self._outline.section
        if not name or name != section.title or section.signatures or len(code) > MAX_TERM:
            return False
        is_first = len(section.blocks) <= 1 and not self._outline.definitions
        declared = DECLARED.fullmatch(" ".join(code.split())) if is_first else None
        return declared is not None and declared[1] == name

    def open_signature(self, element: Element) -> Close:
        """Read the signature of the entry that a heading before it has named."""
        self._text.note_id(element)
        self._text.role = "code"
        return self._close_signature

    def _close_signature(self) -> None:
        signature, section = " ".join(self._text.take_lines().split()), self._outline.section
        fits = bool(signature) and len(signature) <= MAX_TERM
        if fits and self._headings.is_in_entry and not section.blocks:
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
        if self._headings.begin_entry(section.title, prototype):
            return
        if section.blocks or self._outline.definitions or len(prototype) > MAX_TERM:
            self._writer.write(prototype, atom=True)
        elif len(section.signatures) < MAX_TERMS and prototype:
            section.signatures.append(prototype)
