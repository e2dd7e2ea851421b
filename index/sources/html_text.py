"""Elements and the text in them as the parser tells them, until the text becomes a block."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from purlin.index.sources.html_vocabulary import LINK_TO_TOP, PERMALINKS

BREAK = "\u2028"
MAX_ANCHORS = 16
MAX_ANCHOR = 500  # characters
_INVISIBLE = dict.fromkeys(map(ord, "\u00ad\u200b\u2060\ufeff"))
_UNUSABLE_ID = re.compile(r"\Aindex-\d+\Z|[^\S ]")
_NO_CLASSES: frozenset[str] = frozenset()

# What an element does when it ends.
Close = Callable[[], None]


def do_nothing() -> None:
    """End an element that only its text counts of."""


def collapse(text: str) -> str:
    """Reduce white space to single spaces, breaks to newlines, and drop invisible characters."""
    lines = (" ".join(line.split()) for line in text.translate(_INVISIBLE).split(BREAK))
    return "\n".join(line for line in lines if line)


class Element:
    """A tag that opens, with its attributes and its set of classes."""

    __slots__ = ("attributes", "classes", "tag")

    def __init__(self, tag: str, attributes: Mapping[str, str]) -> None:
        self.tag = tag
        self.attributes = attributes
        self.classes = (
            frozenset(attributes["class"].split()) if "class" in attributes else _NO_CLASSES
        )

    @property
    def anchor(self) -> str:
        """The id as links have it, if it is not one of Sphinx's index entries."""
        anchor = self.attributes.get("id") or (self.tag == "a" and self.attributes.get("name"))
        if not anchor or len(anchor) > MAX_ANCHOR or _UNUSABLE_ID.search(anchor):
            return ""
        return anchor.replace(" ", "%20")

    @property
    def fragment(self) -> str:
        """The id that a link leads to."""
        return self.attributes.get("href", "").partition("#")[2][:MAX_ANCHOR]

    @property
    def links_within_page(self) -> bool:
        """Whether the element is a link to an id of its own page."""
        return self.attributes.get("href", "").startswith("#")


class Mark(NamedTuple):
    """A point in the text that one can return to."""

    parts: int
    is_blank: bool
    id_ends_text: bool


class Text:
    """The text since the last block, and the ids that become anchors of what follows them.

    `role` is what the text is read as, such as "term" or "heading"; prose has none.
    """

    def __init__(self) -> None:
        # The module that the last id of a module names.
        self.module = self._module_before = ""
        self.parts: list[str] = []
        self._ids: list[str] = []
        self.clear()

    def clear(self) -> None:
        """Forget all but the module."""
        self.role = ""
        self.permalink = ""
        self.parts.clear()
        self._is_blank = True
        self._ids.clear()
        # Whether the ids came after the text.
        self._id_ends_text = False

    # -- text --------------------------------------------------------------------------------------

    def read(self, text: str) -> None:
        """Add text of the page."""
        self.parts.append(text)
        if (self._is_blank or self._id_ends_text) and text.strip():
            self._is_blank = self._id_ends_text = False

    def append(self, text: str) -> None:
        """Add what stands for a tag, such as a space; ids before it are still those of what follows."""
        self.parts.append(text)

    @property
    def so_far(self) -> str:
        """The text as it is."""
        return "".join(self.parts)

    def mark(self) -> Mark:
        """Return the point that the text has come to."""
        return Mark(len(self.parts), self._is_blank, self._id_ends_text)

    def since(self, mark: Mark) -> str:
        """Return the text after a mark."""
        return "".join(self.parts[mark.parts :])

    def cut(self, mark: Mark) -> None:
        """Drop the text after a mark."""
        del self.parts[mark.parts :]

    def rewind(self, mark: Mark) -> None:
        """Drop the text after a mark, as if nothing had come after the id before it."""
        self.cut(mark)
        _, self._is_blank, self._id_ends_text = mark

    def take(self) -> str:
        """Return the text as it is, and end its role."""
        text = self.so_far
        self.parts.clear()
        self._is_blank = True
        self.role = ""
        return text

    def take_lines(self) -> str:
        """Return the text with single spaces, on the lines that `br` parts."""
        return collapse(self.take())

    def take_line(self) -> str:
        """Return the text on one line."""
        return self.take_lines().replace("\n", " ")

    # -- ids ---------------------------------------------------------------------------------------

    def note_id(self, element: Element) -> None:
        """Remember an id until text follows: it then is the anchor of that text."""
        anchor = element.anchor if element.attributes else ""
        if not anchor:
            return
        if anchor.startswith("module-"):
            self._module_before, self.module = self.module, anchor.removeprefix("module-")

        if not self.role and not self._is_blank:
            self._ids.clear()
            self._id_ends_text = True

        if len(self._ids) < MAX_ANCHORS:
            self._ids.append(anchor)

    @property
    def last_id(self) -> str:
        """The nearest id before the text, or ""."""
        return self._ids[-1] if self._ids else ""

    def take_ids(self, preferred: str) -> tuple[str, list[str]]:
        """Return the anchor and further anchors of what comes next, `preferred` first."""
        ids = list(dict.fromkeys([preferred, *self._ids] if preferred else self._ids))
        self._ids.clear()
        return (ids[0], ids[1:]) if ids else ("", [])

    def drop_ids(self) -> None:
        """Forget all ids."""
        self._ids.clear()

    def settle_ids(self) -> None:
        """Forget the ids of text that has become a block, and keep those that came after it."""
        if not self._id_ends_text:
            self._ids.clear()
        self._id_ends_text = False

    def leave_module(self) -> None:
        """Return to the module before, as the last id of a module was none."""
        self.module = self._module_before

    # -- links -------------------------------------------------------------------------------------

    def open_link(self, element: Element) -> Close:
        """Read a link in a heading or a term to an id of the page."""
        return partial(self._close_link, self.mark(), element.fragment)

    def _close_link(self, mark: Mark, anchor: str) -> None:
        """Take a link that shows only a sign as the anchor of its term, and not as text."""
        sign = self.since(mark).strip()
        if sign in PERMALINKS:
            self.permalink = anchor
        if sign in PERMALINKS or sign == LINK_TO_TOP:
            self.cut(mark)
