"""Elements within a line of text, and those in the head of a page."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from purlin.index.sources.references.html.outline import Head, Outline
from purlin.index.sources.references.html.text import BREAK, Close, Element, Mark, Text, do_nothing
from purlin.index.sources.references.html.vocabulary import NEXT_ASIDE, PAGE_ASIDES, PERMALINKS
from purlin.index.sources.references.html.writer import Writer
from purlin.index.sources.references.page_sections import MAX_TITLE


@dataclass(slots=True)
class Inline:
    """Reads elements that do not end the line of text they stand in."""

    _text: Text
    _outline: Outline
    _writer: Writer
    _head: Head
    # The version that the element read last explains.
    _since: str = ""
    open_blocks: int = 0

    def open(self, element: Element) -> Close:
        """Read an element; most count only by their id and their text."""
        tag, attributes, classes = element.tag, element.attributes, element.classes
        if attributes:
            self._text.note_id(element)

        if tag == "br":
            self._text.append(BREAK)
        elif tag == "img" and "math" in classes:
            self._text.append(attributes.get("alt", ""))
        elif tag == "link" and attributes.get("rel") == "canonical":
            self._head.url = _web_address(attributes.get("href", ""))
        elif tag == "meta" and attributes.get("http-equiv", "").lower() == "refresh":
            self._head.redirects |= "url=" in attributes.get("content", "").lower()
        elif "since" in classes:
            self._since = attributes.get("title", "")[:MAX_TITLE]
        elif NEXT_ASIDE in classes or classes & PAGE_ASIDES:
            self._since = ""
            return partial(self._close_aside, self._text.mark(), NEXT_ASIDE not in classes)
        elif "anchor" in classes and element.is_local_link:
            return partial(self._close_permalink, self._text.mark())

        return do_nothing

    def _close_permalink(self, mark: Mark) -> None:
        """Drop a link that shows only a sign."""
        if self._text.since(mark).strip() in PERMALINKS:
            self._text.rewind(mark)

    def _close_aside(self, mark: Mark, is_of_page: bool) -> None:
        """Drop a note on versions, but for what the element explains."""
        self._text.rewind(mark)
        self._writer.next_note = "" if is_of_page else self._since
        if is_of_page and self._since:
            self._outline.add_note(self._since)

    def open_block(self, element: Element) -> Close:
        """Go on with the line of text that a block stands in."""
        self._text.note_id(element)
        self._text.append(" ")
        self.open_blocks += 1
        return self._close_block

    def _close_block(self) -> None:
        self.open_blocks -= 1


def _web_address(href: str) -> str:
    return href.partition("#")[0] if href.startswith(("https://", "http://")) else ""
