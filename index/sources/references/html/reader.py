"""Read an HTML page as a stream of tags, into its definitions and its sections of prose.

No tree is built, so that neither the size of a page nor the depth of its nesting costs memory or
stack. Only the structure counts: `dl` lists are definitions (the paper's Algorithm 1), headings
open sections.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from html import unescape

from lxml import etree

from purlin.index.sources.references import help_text
from purlin.index.sources.references.html import vocabulary
from purlin.index.sources.references.html.definitions import Definitions
from purlin.index.sources.references.html.entries import Entries
from purlin.index.sources.references.html.generators import (
    PLAIN,
    Generator,
    generator_of,
    is_listing,
)
from purlin.index.sources.references.html.outline import Head, Outline
from purlin.index.sources.references.html.tables import Tables
from purlin.index.sources.references.html.text import BREAK, Close, Element, Mark, Text, do_nothing
from purlin.index.sources.references.html.writer import Writer
from purlin.index.sources.references.page_sections import MAX_TITLE, Page

CHUNK_CHARS = 1 << 16  # what the parser gets at a time

# Sphinx puts parameters on lines of their own into a list, within the term that they belong to.
# The scan ends at the next list, so that time stays linear.
_PARAMETER_LIST = re.compile(
    r'(<span class="sig-paren">[(\[]</span>)\s*<dl>([^<]*(?:<(?!/?dl\b)[^<]*)*+)</dl>\s*'
)
_PARAMETER = re.compile(r"</?dd>")
# Until version 14, Javadoc's lists had no class; Doxygen's exceptions have the class of Sphinx's
# definitions of exceptions, whose terms begin with an element.
_UNMARKED_FIELDS = re.compile(
    r'<dl(?=>\s*<dt>\s*<span class="\w+Label">)|<dl class="exception"(?=>\s*<dt>[^<\s])'
)


# The kernel's list of parameters is one block; examples of a program's help are shorter.
_LONG_LISTING = re.compile(r"<pre\b[^<>]{0,200}>([^<]{20000,})</pre>")


# A page may leave out the end tags of html and body, but not those of these elements.
_WHOLE = re.compile(r"<(/?)(?:html|body)\b", re.IGNORECASE)
_PAIRED = re.compile(
    r"<(/?)(div|section|main|article|dl|ul|ol|table|pre|script|style|span|a|code)\b", re.IGNORECASE
)


def ends_early(markup: str) -> bool:
    """Return whether a page was cut off: html and body are not closed, nor is what was open in them."""
    slashes = {match[1] for match in _WHOLE.finditer(markup)}
    if slashes != {""}:
        return False

    open_elements = Counter[str]()
    for match in _PAIRED.finditer(markup):
        open_elements[match[2].lower()] += -1 if match[1] else 1
    ends_in_tag = markup.rfind("<") > markup.rfind(">")
    return ends_in_tag or any(count > 0 for count in open_elements.values())


def read_page(markup: str, *, whole: bool = False) -> Page:
    """Read a page leniently; `whole` gives one section with all its text, headings and terms.

    Listings of source, or of a class's members, have no sections.
    """
    if is_listing(markup):
        return Page("", "", [])

    markup = _UNMARKED_FIELDS.sub('<dl class="notes"', markup)
    markup = _PARAMETER_LIST.sub(_inline_parameters, markup)
    markup = _LONG_LISTING.sub(_listed_terms, markup)
    target = _Target(PLAIN if whole else generator_of(markup), whole)
    parser = etree.HTMLParser(
        target=target,  # type: ignore[arg-type]
        encoding="utf-8",
        no_network=True,
        huge_tree=True,
        remove_comments=True,
        remove_pis=True,
    )

    try:
        for start in range(0, len(markup), CHUNK_CHARS):
            parser.feed(markup[start : start + CHUNK_CHARS].replace("\0", "\ufffd").encode())
        parser.close()
    except etree.XMLSyntaxError:
        # Nothing but white space, or a tag that never ends: what was read before it is kept.
        pass

    return target.page()


def _inline_parameters(match: re.Match[str]) -> str:
    parameters = _PARAMETER.sub("", match[2]).strip().removesuffix(",")
    return f"{match[1]}{parameters}"


def _listed_terms(match: re.Match[str]) -> str:
    text = unescape(match[1])
    return help_text.html(text) if help_text.is_help(text) else match[0]


class _Target:
    """The parser's target: an element that opens puts the function that closes it on a stack.

    Furniture is skipped, and what is outside of `main` if there is one.
    """

    def __init__(self, generator: Generator, whole: bool) -> None:
        self._generator = generator
        self._whole = whole
        self._head = Head()
        self._text = Text()
        self._content = _Content(self._text, self._head, generator, whole)

        self._closers: list[Close] = []
        self._skipping = 0
        self._inside_main: bool | None = None

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if self._skipping:
            self._skipping += 1
            return

        element = Element(tag, attributes)
        if _is_furniture(element, self._generator):
            if "headerlink" in element.classes:
                self._text.permalink = element.fragment
            elif tag == "a" and _is_hidden(attributes):
                # A sign beside a heading, which may have its id.
                self._text.note_id(element)
            self._skipping = 1
            return

        if (tag == "main" or attributes.get("role") == "main") and not self._inside_main:
            close = self._open_main(element)
        elif self._inside_main is False:
            close = do_nothing
        else:
            close = self._content.open(element)
        self._closers.append(close)

    def end(self, tag: str) -> None:
        if self._skipping:
            self._skipping -= 1
        elif self._closers:
            self._closers.pop()()

    def data(self, text: str) -> None:
        if not self._skipping and self._inside_main is not False:
            self._text.read(text)

    def close(self) -> None:
        """Do nothing, as the parser requires the method; `page` ends what is still open."""

    def page(self) -> Page:
        return self._content.page()

    def _open_main(self, element: Element) -> Close:
        # What came before `main` was the page's frame: start over.
        if self._inside_main is None:
            self._text.clear()
            self._content = _Content(self._text, self._head, self._generator, self._whole)
            self._closers[:] = [do_nothing] * len(self._closers)
        self._inside_main = True
        self._text.note_id(element)
        return self._close_main

    def _close_main(self) -> None:
        self._content.flush()
        self._inside_main = False


def _is_furniture(element: Element, generator: Generator) -> bool:
    tag, attributes, classes = element.tag, element.attributes, element.classes
    if not attributes:
        return tag in vocabulary.FURNITURE_TAGS

    return (
        tag in vocabulary.FURNITURE_TAGS
        or not classes.isdisjoint(vocabulary.FURNITURE_CLASSES)
        or (tag == "a" and not classes.isdisjoint(vocabulary.SOURCE_LINKS))
        or classes >= vocabulary.CONTENTS
        or attributes.get("role") in vocabulary.FURNITURE_ROLES
        or _is_hidden(attributes)
        or (tag == "div" and attributes.get("id") in vocabulary.FURNITURE_IDS)
        or (tag == "ul" and attributes.get("id") == vocabulary.FURNITURE_LIST)
        or (bool(generator.furniture) and generator.is_furniture(attributes, classes))
    )


def _is_hidden(attributes: Mapping[str, str]) -> bool:
    """Return whether screen readers leave an element out, as a sign or what is said elsewhere."""
    return attributes.get("aria-hidden") == "true"


@dataclass(slots=True)
class _Inline:
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
        elif vocabulary.NEXT_ASIDE in classes or classes & vocabulary.PAGE_ASIDES:
            self._since = ""
            return partial(
                self._close_aside, self._text.mark(), vocabulary.NEXT_ASIDE not in classes
            )
        elif "anchor" in classes and element.is_local_link:
            return partial(self._close_permalink, self._text.mark())

        return do_nothing

    def _close_permalink(self, mark: Mark) -> None:
        """Drop a link that shows only a sign."""
        if self._text.since(mark).strip() in vocabulary.PERMALINKS:
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


class _Content:
    """Passes each element to what reads such elements, if need be by the role of the text there."""

    def __init__(self, text: Text, head: Head, generator: Generator, whole: bool) -> None:
        outline = Outline(whole=whole)
        writer = Writer(text, outline, generator)
        entries = Entries(text, outline, writer, head, generator)

        self._text = text
        self._head = head
        self._generator = generator
        self._outline = outline
        self._writer = writer
        self._entries = entries
        self._definitions = Definitions(text, outline, writer, entries)
        self._tables = Tables(text, outline, writer, entries, generator)
        self._inline = _Inline(text, outline, writer, head)
        self._boxes = vocabulary.BOXES | generator.entries
        self._openers = self._openers_by_tag(whole)

    def _openers_by_tag(self, whole: bool) -> dict[str, Callable[[Element], Close | None]]:
        openers: dict[str, Callable[[Element], Close | None]] = {
            **dict.fromkeys(vocabulary.BLOCKS, self._open_block),
            **dict.fromkeys(vocabulary.HEADINGS, self._entries.open_heading),
            "title": self._entries.open_title,
            "ul": self._writer.open_list,
            "ol": self._writer.open_list,
            "li": self._writer.open_item,
            "pre": self._entries.open_listing,
            "table": self._open_table,
            "tr": self._tables.open_row,
            "td": self._tables.open_cell,
            "th": self._tables.open_cell,
        }

        if not whole:
            openers["dl"] = self._definitions.open_list
            openers["dt"] = self._definitions.open_term
            openers["dd"] = self._definitions.open_description

        return openers

    def open(self, element: Element) -> Close:
        """Read an element, and return what ends it."""
        if self._text.role:
            self._end_role(element)
            if self._text.role:
                return self._open_part(element)

        tag, classes = element.tag, element.classes
        if self._generator.headings and self._generator.begins_entry(tag, classes):
            return self._entries.open_entry(element)
        if tag in ("div", "p") and (self._inline.open_blocks or classes & self._generator.inline):
            return self._inline.open_block(element)

        opener = self._openers.get(tag, self._inline.open)
        return opener(element) or self._open_block(element)

    def flush(self) -> None:
        """Write the text so far."""
        self._writer.flush()

    def page(self) -> Page:
        """Return what was read."""
        self._writer.flush()
        return self._outline.page(self._head, self._generator)

    def _end_role(self, element: Element) -> None:
        """End what the text was read as, if no element of this kind can stand in that."""
        if self._text.role == "cell" and element.tag in vocabulary.UNFOLDING:
            # No cell of a data table has such blocks.
            self._tables.unfold()
        elif self._text.role == "term" and element.tag in ("dd", "dt"):
            # The parser nests the next element in a `dt` without an end tag.
            self._definitions.close_term()

    def _open_part(self, element: Element) -> Close:
        """Read an element within a term, a heading, a cell or code."""
        text, role = self._text, self._text.role
        text.note_id(element)
        if element.tag == "br":
            text.append("\n" if role == "code" else BREAK)
            return do_nothing

        close: Close | None = None
        if role == "term":
            close = self._definitions.open_part(element)
        elif role == "heading":
            close = self._entries.open_part(element)

        if close is None and role != "code" and element.tag in vocabulary.BLOCKS:
            text.append(" ")
            close = partial(text.append, " ")
        return close or do_nothing

    def _open_block(self, element: Element) -> Close:
        self._writer.flush()
        classes, generator = element.classes, self._generator
        if classes & generator.labels:
            return self._writer.open_label()
        if classes & generator.signatures:
            return self._entries.open_signature(element)
        if element.tag == "div" and "fragment" in classes:
            return self._entries.open_listing(element)
        if classes & vocabulary.PROTOTYPES:
            return self._entries.open_prototype(element)

        self._text.note_id(element)
        if classes.isdisjoint(self._boxes):
            return self._writer.flush
        self._outline.open_boxes += 1
        return self._close_box

    def _close_box(self) -> None:
        self._writer.flush()
        self._outline.open_boxes -= 1

    def _open_table(self, element: Element) -> Close:
        self._writer.drop_marker()
        self._tables.begin()
        close = self._open_block(element)
        return self._tables.close if close == self._writer.flush else close
