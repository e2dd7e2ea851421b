"""Write what a manual page or AsciiDoc says as HTML, for the reader of pages.

Both are read as paragraphs, terms, items and code in reading order; which words name an entry is
told by their fonts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape

from purlin.index.texts.unspaced import is_unspaced

MAX_LEVELS = 30
MAX_NAME = 100  # characters
MAX_NAMED_CHARS = 1000  # of a term, in which its names stand

# Around the words of a bold or italic font, in text that is not yet written.
BOLD, ITALIC, PLAIN = "\x01", "\x02", "\x03"
_NO_FONTS = dict.fromkeys(map(ord, BOLD + ITALIC + PLAIN))

# `User=, Group=`
_SETTINGS = re.compile(
    r"\$?[A-Za-z][\w.]*(?:=[^\s=,]*)?(?:, \$?[A-Za-z][\w.]*(?:=[^\s=,]*)?){0,32}"
)
# `-a`, `--all`, `+x`, `--[no-]sign`, and `--` alone.
_OPTION = re.compile(r"(?<![\w=<\[-])(?:--?|\+)(?:\[no-\])?[\w?@#][\w.+-]*|(?<![\w-])--(?![\w-])")
# What follows a name in the same font: a key in brackets, or one that is left open.
_REMARK = re.compile(r"(?<=\w)(?: \([^()]{1,40}\)|[(\[])$")


def plain(text: str) -> str:
    """Return the words of a text, without fonts, on one line."""
    return " ".join(text.translate(_NO_FONTS).split())


class PageMarkup:
    """HTML of a page, written from paragraphs, terms, items and code in reading order.

    `_levels` has the kind of list that is open at each indentation: "dl", "ul", "ol" or "". Lines
    stay as they are while the page `is_code`.
    `line` is the number of the line of the source that is read; `anchor_lines` has those of ids.
    """

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._text: list[str] = []
        self.is_code = False

        self._levels = [""]
        self._items = 0
        self._too_deep = 0
        self._joins = False

        self._numbers: dict[str, int] = {}
        self.line = self._text_line = 0
        self.anchor_lines: dict[str, int] = {}

    def html(self) -> str:
        """All that was written, with everything closed."""
        self._close_levels(0)
        return "".join(self._parts)

    def text(self, text: str, *, joins: bool = False) -> None:
        """Add a line of text or code; `joins` says that the next one continues its last word."""
        if not self._text:
            self._text_line = self.line
        elif self.is_code and not self._joins:
            self._text.append("\n")
        elif not self._joins and not self._goes_on(text):
            self._text.append(" ")
        self._text.append(text)
        self._joins = joins

    def _goes_on(self, text: str) -> bool:
        """Whether a line goes on with the last word of the one before, without a space."""
        before, after = self._text[-1].translate(_NO_FONTS), text.translate(_NO_FONTS)
        return is_unspaced(before[-1:]) and is_unspaced(after)

    @property
    def is_between_paragraphs(self) -> bool:
        """Whether the next line begins a paragraph or code."""
        return not self._text

    @property
    def paragraph(self) -> str:
        """The paragraph that is being written, with its marks of fonts."""
        return "".join(self._text).strip()

    def take_paragraph(self) -> str:
        """Remove and return the paragraph that is being written; what it becomes has its line."""
        text = self.paragraph
        self.line = self._text_line
        self._text.clear()
        return text

    def line_break(self) -> None:
        """Begin a new line of the same paragraph."""
        if self._text and not self.is_code:
            self._text.append("\n")
            self._joins = True

    def blank_line(self) -> None:
        """End the paragraph; in code, leave a line blank."""
        if self.is_code:
            self.text("")
        else:
            self.end_paragraph()

    def end_paragraph(self) -> None:
        """Write the paragraph or code so far."""
        text = "".join(self._text).translate(_NO_FONTS)
        self._text.clear()
        self._joins = False

        if not text.strip():
            return

        if self.is_code:
            code = escape(text.strip("\n"))
            self._parts.append(f"<pre>{code}</pre>")
        else:
            words = escape(text.strip()).replace("\n", "<br>")
            self._parts.append(f"<p>{words}</p>")

    def begin_code(self) -> None:
        """Keep the lines that follow as they are."""
        self.end_paragraph()
        self.is_code = True

    def end_code(self) -> None:
        """Fill paragraphs again."""
        self.end_paragraph()
        self.is_code = False

    def heading(self, level: int, text: str, anchor: str | None = None) -> None:
        """Write a heading, which ends all lists; without an `anchor`, its own is made of its text."""
        text = plain(text)
        self.end_code()
        self._close_levels(0)
        self._levels = [""]
        self._too_deep = 0
        own_id = self._anchor(text) if anchor is None else self._id(anchor)
        self._parts.append(f"<h{level}{own_id}>{escape(text)}</h{level}>")

    def term(self, text: str, anchor: str | None = None) -> None:
        """Begin the entry of a term, in the list of terms that is open or in a new one.

        Without an `anchor`, its own is made of its first name.
        """
        self.end_code()
        words = plain(text)
        if not words:
            return
        self._open_list("dl")
        own_id = self._anchor(_named(text)[0]) if anchor is None else self._id(anchor)
        self._parts.append(f"<dt{own_id}>{marked(words, _names(text))}</dt><dd>")

    def item(self, kind: str) -> None:
        """Begin an item of a list of kind "ul" or "ol"."""
        self.end_code()
        number = self.next_item
        self._open_list(kind)
        self._items = number
        self._parts.append("<li>")

    def take_item(self) -> str:
        """Remove the item that has only begun, and return its text; empty if there is more of it."""
        if self._parts[-1:] != ["<li>"]:
            return ""
        self._parts.pop()
        return self.take_paragraph()

    @property
    def next_item(self) -> int:
        """The number that an item here would have; 0 in a list of terms."""
        return {"": 1, "dl": 0}.get(self._levels[-1], self._items + 1)

    def table(self, rows: Iterable[Sequence[str]]) -> None:
        """Write the rows of a table."""
        self.end_code()
        self._parts.append("<table>")
        for row in rows:
            cells = (f"<td>{escape(cell.translate(_NO_FONTS))}</td>" for cell in row)
            self._parts.append(f"<tr>{''.join(cells)}</tr>")
        self._parts.append("</table>")

    def end_list(self) -> None:
        """End the list at this indentation."""
        self.end_paragraph()
        if self._levels[-1]:
            self._parts.append(f"</{self._levels[-1]}>")
            self._levels[-1] = ""

    def indent(self) -> None:
        """Open an indentation; what it holds belongs to the item or text before it."""
        self.end_paragraph()
        if len(self._levels) < MAX_LEVELS:
            self._levels.append("")
        else:
            self._too_deep += 1

    def dedent(self) -> None:
        """Close the innermost indentation with its list."""
        self.end_paragraph()
        if self._too_deep:
            self._too_deep -= 1
        elif len(self._levels) > 1:
            self._close_levels(len(self._levels) - 1)

    def _close_levels(self, count: int) -> None:
        self.end_paragraph()
        for kind in reversed(self._levels[count:]):
            if kind:
                self._parts.append(f"</{kind}>")
        del self._levels[count:]

    def _open_list(self, kind: str) -> None:
        if self._levels[-1] != kind:
            self.end_list()
            self._levels[-1] = kind
            self._parts.append(f"<{kind}>")

    def _anchor(self, name: str) -> str:
        """The attribute of an id, as mandoc makes it: without dashes before it, and unique."""
        name = "_".join(name.lstrip("-").split())[:MAX_NAME]
        if not name:
            return ""
        name = not_a_module(name)
        number = self._numbers[name] = self._numbers.get(name, 0) + 1
        return self._id(name if number == 1 else f"{name}~{number}")

    def _id(self, anchor: str) -> str:
        """The attribute of an id, or nothing; the first element of an id has it."""
        self.anchor_lines.setdefault(anchor, self.line)
        return f' id="{escape(anchor)}"' if anchor else ""


def not_a_module(name: str) -> str:
    """Change an id that would name a module of Python."""
    return name.replace("module-", "module_")


def _names(term: str) -> list[str]:
    """The names in what a term names: of settings (`User=, Group=`) each, without its value."""
    named = _named(term)
    if len(named) == 1 and _SETTINGS.fullmatch(named[0]):
        return [part.partition("=")[0] for part in named[0].split(", ")]
    return named


def _named(term: str) -> list[str]:
    """What a term names: its options, else the bold words that it begins with, else all of it."""
    words = plain(term)
    if words.startswith(("-", "+")) and (options := _OPTION.findall(words[:MAX_NAMED_CHARS])):
        return options

    if term.lstrip().startswith(BOLD):
        bold = re.split(f"[{ITALIC}{PLAIN}]", term.lstrip(), maxsplit=1)[0]
        name = _REMARK.sub("", plain(bold))
        if name:
            return [name]

    return [words]


def marked(term: str, names: Iterable[str]) -> str:
    """Return HTML of a term, with its names marked for the reader of pages."""
    rest, parts = term, []
    for name in names:
        before, name, rest = rest.partition(name)
        parts.append(f'{escape(before)}<span class="term">{escape(name)}</span>')
    return "".join(parts) + escape(rest)
