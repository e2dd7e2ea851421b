"""Write text into the sections of a page: paragraphs, and items of lists with their marks."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from purlin.index.sources.references.html.generators import Generator
from purlin.index.sources.references.html.outline import Outline
from purlin.index.sources.references.html.text import MAX_ANCHORS, Close, Element, Text
from purlin.index.sources.references.page_sections import Block, Section

# Links from page to page: Texinfo's, which name the nodes, and those by LinuxDoc and the like.
_NODE_LINKS = re.compile(
    r"(?:Next|Previous|Up): .*\[(?:Contents|Index)\]"
    r"|(?:Contents|Home|Index|Next|Prev|Previous|Top|Up)(?:[\s|·-]+(?:Contents|Home|Index|Next|Prev|Previous|Top|Up))+"
)


@dataclass(slots=True)
class _List:
    ordered: bool
    items: int = 0


@dataclass(slots=True)
class Writer:
    """Turns text into blocks of the section that it belongs to."""

    _text: Text
    _outline: Outline
    _generator: Generator
    # What the next paragraph begins with, such as "- ", and whether that is on the next line.
    marker: str = ""
    marker_tight: bool = False
    # What is said of the next section.
    next_note: str = ""
    # The name of a list, until its first item.
    _label: str = ""
    _lists: list[_List] = field(default_factory=list)

    # -- blocks ------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Write the text so far as a paragraph."""
        if not self._text.parts:
            return
        text = self._text.take_lines()
        if not text or self._generator.is_frame(text) or _NODE_LINKS.fullmatch(text):
            return
        marker, self.marker = self.marker, ""
        self.write(marker + text, tight=bool(marker) and self.marker_tight)

    def write(self, text: str, *, atom: bool = False, tight: bool = False) -> None:
        """Write a block, behind the name of its list if that has not been written."""
        if not text:
            return
        if self._label:
            label, self._label = self._label, ""
            self.write(label)

        # What follows an example is a new paragraph.
        blocks = self._outline.target.blocks
        follows_text = bool(blocks) and (atom or not blocks[-1].atom)
        blocks.append(Block(text, atom, tight and follows_text))
        self._text.settle_ids()

    def start_block(self, element: Element) -> None:
        """End the paragraph before an element that no marker is for, and note its id."""
        self.flush()
        self.drop_marker()
        self._text.note_id(element)

    def drop_marker(self) -> None:
        """Drop a list marker that no text followed; a field's name is kept as text of its own."""
        marker, self.marker = self.marker.strip(), ""
        if marker.endswith(":"):
            self.write(marker, tight=self.marker_tight)

    # -- sections ----------------------------------------------------------------------------------

    def begin_section(self, level: int, title: str, anchor: str) -> Section:
        """Open a section with a heading; without an anchor, it has that of the nearest id."""
        text = self._text
        anchor, anchors = text.take_ids(anchor or text.last_id)

        # The id of a heading such as "Module Contents" looks like that of a module.
        if f"module-{text.module}" == slug(title) in (anchor, *anchors):
            text.module = text.module_before

        section = Section(title, anchor=anchor, anchors=anchors, module=text.module)
        self._outline.begin_section(level, section)
        if self.next_note:
            self._outline.add_note(self.next_note)
            self.next_note = ""

        # Of a list item, the heading is the first text.
        self.marker = ""
        return section

    def add_anchors(self, section: Section, own_id: str) -> None:
        """Keep further ids of what has an anchor already."""
        anchor, anchors = self._text.take_ids(own_id)
        if anchor and len(section.anchors) < MAX_ANCHORS:
            section.anchors += anchor, *anchors

    # -- lists -------------------------------------------------------------------------------------

    def open_list(self, element: Element) -> Close:
        """Begin a list of items."""
        self.start_block(element)
        self._lists.append(_List(element.tag == "ol"))
        return self._close_list

    def _close_list(self) -> None:
        self.flush()
        self.marker = ""
        self._lists.pop()

    def open_item(self, element: Element) -> Close:
        """Begin an item, with its number or the name of its list."""
        self.start_block(element)
        if self._lists:
            items = self._lists[-1]
            items.items += 1
            indent = "  " * min(len(self._lists) - 1, 8)
            label, self._label = self._label, ""
            item_mark = f"{items.items}. " if items.ordered else "- "
            self.marker = f"{label} " if label else indent + item_mark
            self.marker_tight = items.items > 1 or len(self._lists) > 1

        return self.flush

    def open_label(self) -> Close:
        """Read the name of a list."""
        self._text.role = "label"
        return self._close_label

    def _close_label(self) -> None:
        """Keep the name of a list for its first item."""
        self._label = self._text.take_lines()


def slug(title: str) -> str:
    """The id that Sphinx and docutils give a heading."""
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
