"""Elements and the text in them as the parser tells them, until the text becomes a block."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Literal

from purlin.index.sources.references.html.vocabulary import LINK_TO_TOP, PERMALINKS, TYPE_LINKS
from purlin.index.texts.unspaced import unwrapped

BREAK = "\u2028"
MAX_ANCHORS = 16
MAX_ANCHOR = 500  # characters
_INVISIBLE = dict.fromkeys(map(ord, "\u00ad\u200b\u2060\ufeff"))
_UNUSABLE_ID = re.compile(r"\Aindex-\d+\Z|[^\S ]")
_NO_CLASSES: frozenset[str] = frozenset()

# What ends an element.
Close = Callable[[], None]
# What text is read as; "" is prose.
Role = Literal["", "cell", "code", "heading", "label", "prototype", "term", "title"]
# A point in the text: the number of its parts, whether it is blank, whether its ids come after it.
Mark = tuple[int, bool, bool]


def do_nothing() -> None:
    """End an element of which only the text counts."""


def collapse(text: str) -> str:
    """Reduce white space to single spaces, breaks to newlines, and drop invisible characters."""
    text = unwrapped(text.translate(_INVISIBLE))
    lines = (" ".join(line.split()) for line in text.split(BREAK))
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
        if not self.classes.isdisjoint(TYPE_LINKS):
            return ""
        if not anchor or len(anchor) > MAX_ANCHOR or _UNUSABLE_ID.search(anchor):
            return ""
        return anchor.replace(" ", "%20")

    @property
    def is_local_link(self) -> bool:
        """Whether the element is a link to an id of its own page."""
        return self.attributes.get("href", "").startswith("#")

    @property
    def fragment(self) -> str:
        """The id that a link leads to."""
        return self.attributes.get("href", "").partition("#")[2][:MAX_ANCHOR]


class Text:
    """The text since the last block, and the ids that become anchors of what follows them."""

    def __init__(self) -> None:
        # The module that the last id of a module names, and the one before.
        self.module = self.module_before = ""
        self.clear()

    def clear(self) -> None:
        """Forget all but the module."""
        self.role: Role = ""
        # The id that a sign such as "¶" leads to.
        self.permalink = ""
        self.ids: list[str] = []
        self.parts: list[str] = []
        self._is_blank = True
        # Whether the ids came after the text.
        self._id_ends_text = False

    # -- text --------------------------------------------------------------------------------------

    def read(self, text: str) -> None:
        """Add text of the page."""
        self.parts.append(text)
        if (self._is_blank or self._id_ends_text) and text.strip():
            self._is_blank = self._id_ends_text = False

    def append(self, text: str) -> None:
        """Add what stands for a tag, such as a space; no id is about that."""
        self.parts.append(text)

    def mark(self) -> Mark:
        """Return the point that the text has come to."""
        return len(self.parts), self._is_blank, self._id_ends_text

    def since(self, mark: Mark) -> str:
        """Return the text after a mark."""
        return "".join(self.parts[mark[0] :])

    def cut(self, mark: Mark) -> None:
        """Drop the text after a mark."""
        del self.parts[mark[0] :]

    def rewind(self, mark: Mark) -> None:
        """Drop the text after a mark, as if nothing had come after the id before it."""
        self.cut(mark)
        _, self._is_blank, self._id_ends_text = mark

    def take(self) -> str:
        """Return the text as it is, and end its role."""
        text = "".join(self.parts)
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
            self.module_before, self.module = self.module, anchor.removeprefix("module-")

        if not self.role and not self._is_blank:
            self.ids.clear()
            self._id_ends_text = True

        if len(self.ids) < MAX_ANCHORS:
            self.ids.append(anchor)

    @property
    def last_id(self) -> str:
        """The nearest id before the text, or ""."""
        return self.ids[-1] if self.ids else ""

    def take_ids(self, preferred: str) -> tuple[str, list[str]]:
        """Return the anchor and further anchors of what comes next, `preferred` first."""
        ids = list(dict.fromkeys([preferred, *self.ids] if preferred else self.ids))
        self.ids.clear()
        return (ids[0], ids[1:]) if ids else ("", [])

    def settle_ids(self) -> None:
        """Forget the ids of text that has become a block, and keep those that came after it."""
        if not self._id_ends_text:
            self.ids.clear()
        self._id_ends_text = False

    def open_permalink(self, element: Element) -> Close:
        """Read a link that may show only a sign: it then is the anchor of its term, and no text."""
        return partial(self._close_permalink, self.mark(), element.fragment)

    def _close_permalink(self, mark: Mark, anchor: str) -> None:
        sign = self.since(mark).strip()
        if sign in PERMALINKS:
            self.permalink = anchor
        if sign in PERMALINKS or sign == LINK_TO_TOP:
            self.cut(mark)
