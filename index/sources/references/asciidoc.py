"""Turn AsciiDoc into HTML: sections, lists of terms and items, code, tables.

What a page includes was put in before, by `includes`. No condition is tested (the text of all is
read), and no macro is run. The time is linear in the length of the page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import unescape

from purlin.index.sources.references.includes import ATTRIBUTE_REFERENCE
from purlin.index.sources.references.manual_pages import titled
from purlin.index.sources.references.page_markup import BOLD, PLAIN, PageMarkup, not_a_module, plain
from purlin.index.texts.unspaced import unwrapped

# Of what a page defines, and how much text its references to that may add.
MAX_ATTRIBUTES = 500
MAX_VALUE = 500  # characters
MAX_SUBSTITUTED = 1_000_000  # characters
MAX_HEADING = 500  # characters
MAX_COLUMNS = 100
MAX_FRAMES = 30  # blocks within blocks

# `:name: value`; `:!name:` takes a definition back.
_ATTRIBUTE = re.compile(r":(!?)([\w-]{1,100})(!?):(?:[ \t]+(.*))?")
# Lines without text: `ifdef::name[]`, `image::cat.png[]`.
_DIRECTIVE = re.compile(r"(?:include|ifn?def|ifeval|endif|image|video|audio|toc)::\S*\[.*")
_COMMENT = re.compile(r"//(?!/)")
# `== Title`, or Markdown's `## Title`; and the line below a title, whose character tells the level.
_HEADING = re.compile(r"(={1,6}|#{1,6})[ \t]+(\S.*)")
_UNDERLINE = re.compile(r"([=\-~^+])\1+")
_UNDERLINES = "=-~^+"
# `git-rebase(1)`
_MANUAL_TITLE = re.compile(r"(\S+)\((\d\w{0,8})\)")
# `[[id]]`, or `[source,python]` and the like.
_BLOCK_ATTRIBUTES = re.compile(
    r"\[(?:\[(?P<anchor>[^\[\],]{1,200})(?:,.*)?\]|(?P<style>[^\[].*)?)\]"
)
# `#id` or `id="…"`, and `cols="1,2"` or `cols=3*`, in such brackets.
_OWN_ID = re.compile(r"#([\w:.-]{1,200})|\bid=[\"']?([\w:.-]{1,200})")
_COLUMNS = re.compile(r"\bcols=(?:\"([^\"]*)\"|([^,\]\s]+))")
_REPEATED = re.compile(r"(\d{1,3})\*")
# `.Title`
_BLOCK_TITLE = re.compile(r"\.(?=[^\s.])(.+)")
# What begins and ends code, comments and tables, and what does so for blocks that hold others.
_VERBATIM = re.compile(r"(?:-{4,}|\.{4,}|\+{4,}|/{4,}|[,:|]={3,})\Z|`{3,}(?=[^`]*\Z)")
_CONTAINER = re.compile(r"--|={4,}|\*{4,}|_{4,}")
# The bar before a cell, with how many columns it spans and how it is aligned: `2+^|`.
_CELL = re.compile(r"(?:(?:(?<=\s)|^)[\d.+*<^>]{0,8}[a-z]?)?(?<!\\)\|", re.MULTILINE)
# `* item`, `. item`, `1. item`, or a callout, `<1> text`.
_ITEM = re.compile(r"[ \t]*(\*{1,6}|-|\.{1,6}|\d{1,4}\.|[A-Za-z]\.|<(?:\d{1,3}|\.)>)[ \t]+(\S.*)")
# Behind a term: `term::`, `term;;`.
_TERM_END = re.compile(r"(?<![:;])(:{2,4}|;;)(?=[ \t]|\Z)")
_INLINE_ANCHOR = re.compile(r"\[\[([^\[\],]{1,200})(?:,[^\[\]]{0,200})?\]\]")
_NOTES = frozenset(["NOTE", "TIP", "IMPORTANT", "WARNING", "CAUTION"])
_CODE_STYLES = frozenset(["source", "listing", "literal"])

_CHARACTERS = {
    "amp": "&", "apos": "'", "asterisk": "*", "backslash": "\\", "backtick": "`", "caret": "^",
    "cpp": "C++", "empty": "", "endsb": "]", "gt": ">", "hash": "#", "ldquo": "“", "litdd": "--",
    "lsquo": "‘", "lt": "<", "nbsp": " ", "plus": "+", "quot": '"', "rdquo": "”", "rsquo": "’",
    "sp": " ", "startsb": "[", "tilde": "~", "two-colons": "::", "two-semicolons": ";;",
    "vbar": "|", "zwsp": "",
}  # fmt: skip

# Each alternative begins otherwise; its end is bounded, or it cannot read over its own mark.
_INLINE = re.compile(
    r"""
        \\(?P<escaped>[*_`'\#{+<\[(]|--|\.\.\.)
        |(?P<removed>\(\(\([^()\n]{0,300}\)\)\)|\[\[[^\[\]]{1,300}\]\]|indexterm2?:\[[^\]]{0,300}\])
        |``(?P<quoted>[^`']{1,300})''
        |["'](?P<curly>`[^`]{1,300}`)["']
        |(?P<pair>\*\*|__|``|\+\+|\#\#)(?=\S)(?P<paired>(?:(?!(?P=pair))[^\n]){1,300})(?P=pair)
        |(?<!\w)(?P<mark>[*_`'+\#])(?=[^\s*_`'+\#]|(?<=`)[+*_])(?P<marked>(?:(?!(?P=mark)).){1,300}?(?<=\S))(?P=mark)(?!\w)
        |<<(?P<target>[^<>,\n]{1,200})(?:,(?P<label>[^<>]{0,300}))?>>
        |(?<!\w)[a-z]{2,20}:(?P<page>[\w.-]{1,200})\[(?P<number>\d\w{0,8})\]
        |(?<!\w)(?:link|xref|mailto|image|icon|kbd|btn|menu|footnote|pass|stem|anchor|man):
            (?P<macro_target>[^\s\[\]]{0,300})\[(?P<macro_text>[^\]]{0,500})\]
        |(?<!\w)(?P<url>(?:https?|ftp|irc)://[^\s\[\]<>]{1,500})\[(?P<url_text>[^\]]{0,500})\]
    """,
    re.VERBOSE | re.DOTALL,
)
_NOT_IN_ID = re.compile(r"[^\w\-. ]")
_BETWEEN_WORDS = re.compile(r"[ .\-]+")


def html(text: str) -> str:
    """Render AsciiDoc as HTML; headings have the ids that Asciidoctor gives them."""
    page, title = _Reader().read(text)
    body = page.html()
    if manual := _MANUAL_TITLE.fullmatch(title):
        return titled(body.partition("</h1>")[2], manual[1], manual[2])
    return body


def anchor_line(text: str, anchor: str) -> int | None:
    """Return the line of the heading or the term with an id; None without one."""
    page, _ = _Reader().read(text)
    return page.anchor_lines.get(anchor)


@dataclass(slots=True)
class _Frame:
    """A block that holds others, the line that ends it, and the marks of its open lists."""

    end: str
    markers: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Verbatim:
    """A block whose lines are not read as AsciiDoc, and the line that ends it."""

    end: str
    columns: int = 0
    lines: list[str] = field(default_factory=list)


class _Attributes:
    """What a page defines by `:name: value`, for references such as `{name}`."""

    def __init__(self) -> None:
        self._values = dict(_CHARACTERS)
        self._room = MAX_SUBSTITUTED

    def define(self, name: str, value: str) -> None:
        if len(self._values) < MAX_ATTRIBUTES:
            self._values[name] = self.substituted(value)[:MAX_VALUE]

    def get(self, name: str, default: str) -> str:
        return self._values.get(name, default)

    def substituted(self, text: str) -> str:
        """The text with the values of all that it refers to; what is not defined stays."""
        return ATTRIBUTE_REFERENCE.sub(self._replace, text) if "{" in text else text

    def _replace(self, match: re.Match[str]) -> str:
        value = self._values.get(match[1])
        if value is None or len(value) > self._room:
            return match[0]
        self._room -= len(value)
        return value


class _Reader:
    def __init__(self) -> None:
        self._page = PageMarkup()
        self._attributes = _Attributes()
        self._frames = [_Frame("")]
        self._verbatim: _Verbatim | None = None
        self._title = ""

        # The lines of the paragraph that is being read, and whether they stay as they are.
        self._lines: list[str] = []
        self._is_literal = self._is_verse = False

        # Of the next block.
        self._style = self._anchor = ""
        self._columns = 0
        self._is_attached = False

        # Blank lines right before this one, and whether the open item has text of its own.
        self._blank_lines = 1
        self._item_has_text = True
        self._in_header = False
        self._ids: dict[str, int] = {}

    def read(self, text: str) -> tuple[PageMarkup, str]:
        """The page and its title."""
        lines = [line.rstrip() for line in text.split("\n")]
        row = 0
        while row < len(lines):
            self._page.line = row + 1
            row += self._read_line(lines[row], lines[row + 1] if row + 1 < len(lines) else "")

        self._end_verbatim()
        self._end_paragraph()
        return self._page, self._title

    def _read_line(self, line: str, following: str) -> int:
        """Read a line; returns how many were read: two where the second underlines a heading."""
        if self._verbatim is not None:
            self._read_verbatim(self._verbatim, line)
        elif not line:
            self._end_paragraph()
            self._blank_lines += 1
            self._in_header = False
            return 1
        elif self._is_literal and line not in ("+", *self._ends):
            self._lines.append(line)
        elif self._is_silent(line):
            return 1
        elif not self._lines and self._begins_heading(line, following):
            return 2 if _HEADING.fullmatch(line) is None else 1
        elif not self._in_header and not self._begins_block(line):
            self._add_text(line)

        self._blank_lines = 0
        return 1

    def _is_silent(self, line: str) -> bool:
        """Whether a line has no text of its own: a comment, a definition or an instruction."""
        if _COMMENT.match(line) or _DIRECTIVE.fullmatch(line):
            return True

        attribute = _ATTRIBUTE.fullmatch(line) if not self._lines else None
        if attribute is None:
            return False

        if not attribute[1] and not attribute[3]:
            self._attributes.define(attribute[2], attribute[4] or "")
        return True

    # -- headings ----------------------------------------------------------------------------------

    def _begins_heading(self, line: str, following: str) -> bool:
        heading = _HEADING.fullmatch(line)
        if heading is not None:
            level, text = len(heading[1]), heading[2]
        elif _underlines(following, line) and following not in self._ends:
            level, text = _UNDERLINES.index(following[0]) + 1, line
        else:
            return False

        anchors = _INLINE_ANCHOR.findall(text)
        text = plain(self._inline(text))[:MAX_HEADING]
        anchor = self._anchor or (anchors[0] if anchors else "") or self._heading_id(text)
        self._frames = [_Frame("")]
        self._page.heading(level, text, anchor if level > 1 else "")
        # Author and revision follow the first title of a page without a blank line.
        self._in_header = level == 1 and not self._title
        self._title = self._title or (text if level == 1 else "")
        self._begin_block()
        return True

    def _heading_id(self, text: str) -> str:
        prefix = self._attributes.get("idprefix", "_")
        separator = self._attributes.get("idseparator", "_")[:1]
        words = _BETWEEN_WORDS.split(_NOT_IN_ID.sub("", text.lower()))
        name = not_a_module((prefix + separator.join(words)).rstrip(separator or None))

        number = self._ids[name] = self._ids.get(name, 0) + 1
        return name if number == 1 else f"{name}{separator}{number}"

    # -- blocks ------------------------------------------------------------------------------------

    def _begins_block(self, line: str) -> bool:
        """Read a line that begins or ends a block, or says something of the next one."""
        if line == "+" and self._markers:
            self._continue_item()
        elif _VERBATIM.match(line):
            self._begin_verbatim(line)
        elif _CONTAINER.fullmatch(line):
            self._toggle_frame(line)
        elif not self._lines and (attributes := _BLOCK_ATTRIBUTES.fullmatch(line)):
            self._note_attributes(attributes["anchor"] or "", attributes["style"] or "")
        elif not self._lines and (title := _BLOCK_TITLE.fullmatch(line)):
            self._place_block(line)
            self._page.text(self._inline(title[1]))
            self._page.end_paragraph()
            self._is_attached = True
        else:
            return (not self._lines or bool(self._markers)) and self._begins_item(line)

        return True

    @property
    def _ends(self) -> list[str]:
        """The lines that end the open blocks, the outermost first."""
        return [frame.end for frame in self._frames]

    @property
    def _markers(self) -> list[str]:
        return self._frames[-1].markers

    def _note_attributes(self, anchor: str, style: str) -> None:
        """Keep what `[[id]]`, `[source,python]` or `[cols="1,2"]` says of the next block."""
        if own_id := _OWN_ID.search(style):
            anchor = own_id[1] or own_id[2]
        if columns := _COLUMNS.search(style):
            self._columns = _column_count(columns[1] or columns[2] or "")
        self._anchor = anchor or self._anchor
        self._style = re.split(r"[,#.%]", style, maxsplit=1)[0].strip() or self._style

        if self._style in _NOTES:
            self._place_block("")
            self._page.text(self._style.capitalize())
            self._page.end_paragraph()
            self._is_attached, self._style = True, ""

    def _begin_block(self) -> None:
        """Forget what was said of a block that now begins."""
        self._style = self._anchor = ""
        self._columns = 0
        self._is_attached = False

    def _place_block(self, line: str) -> None:
        """End the lists that a block does not belong to.

        It belongs to an item right above it, to one that it is attached to by `+`, and, if it is
        indented, to the one before.
        """
        self._end_paragraph()
        is_indented = line.startswith((" ", "\t"))
        if self._blank_lines and not self._is_attached and not is_indented:
            self._end_lists(0)

    def _continue_item(self) -> None:
        """`+`: the next block belongs to the item, after blank lines to one further out."""
        self._end_paragraph()
        self._end_lists(max(1, len(self._markers) - self._blank_lines))
        self._is_attached = True

    def _toggle_frame(self, line: str) -> None:
        """Begin a block that holds others, or end it with all that is open in it."""
        self._end_paragraph()
        if line not in self._ends:
            self._place_block(line)
            self._begin_block()
            if len(self._frames) < MAX_FRAMES:
                self._page.indent()
                self._frames.append(_Frame(line))
            return

        depth = self._ends.index(line)
        while len(self._frames) > depth:
            self._end_lists(0)
            self._page.dedent()
            self._frames.pop()
        self._is_attached = False
        # What follows without `+` is no text of the item.
        self._item_has_text = True

    # -- items and terms ---------------------------------------------------------------------------

    def _begins_item(self, line: str) -> bool:
        if item := _ITEM.fullmatch(line):
            marker = item[1]
            is_ordered = marker[0] not in "*-"
            self._open_list(re.sub(r"\w+", "1" if marker[0].isdigit() else "a", marker))
            self._page.item("ol" if is_ordered else "ul")
            self._item_has_text = True
            self._lines.append(item[2])
            return True

        term = _TERM_END.search(line)
        if term is None or not line[: term.start()].strip():
            return False
        self._open_list(term[1])
        name, anchor = line[: term.start()], self._anchor
        if anchors := _INLINE_ANCHOR.findall(name):
            anchor = anchors[0]
        self._page.term(self._inline(name.strip()), anchor)
        self._begin_block()

        text = line[term.end() :].strip()
        self._item_has_text = bool(text)
        if text:
            self._lines.append(text)
        return True

    def _open_list(self, marker: str) -> None:
        """Go on with the list of a mark if it is open, else begin one in the open item."""
        self._end_paragraph()
        markers = self._markers

        if marker in markers:
            self._end_lists(markers.index(marker) + 1)
        else:
            if markers:
                self._page.indent()
            markers.append(marker)

        self._is_attached = False

    def _end_lists(self, count: int) -> None:
        """End the open lists of this block but for the outermost `count`."""
        while len(self._markers) > count:
            self._markers.pop()
            if self._markers:
                self._page.dedent()
            else:
                self._page.end_list()

    # -- text --------------------------------------------------------------------------------------

    def _add_text(self, line: str) -> None:
        if not self._lines:
            is_indented = line.startswith((" ", "\t"))
            self._place_block(line)
            self._is_literal = self._style in _CODE_STYLES or (
                is_indented and (not self._markers or self._item_has_text)
            )
            self._is_verse = self._style == "verse"
            self._begin_block()
            self._item_has_text = True

        self._lines.append(line)

    def _end_paragraph(self) -> None:
        lines, self._lines = self._lines, []
        is_literal, self._is_literal = self._is_literal, False
        if is_literal:
            self._add_code(lines)
            return

        # Of a verse, and of a line that ends in ` +`, the end is kept.
        text = "\n".join(
            line.strip() if self._is_verse or line.endswith(" +") else f"{line.strip()} "
            for line in lines
        )
        if not self._is_verse:
            text = unwrapped(text)
        text = text.replace(" \n", " ")
        for part in self._inline(text).replace(" +\n", "\n").split("\n"):
            self._page.line_break()
            self._page.text(part.strip())
        self._page.end_paragraph()
        self._is_verse = False

    def _add_code(self, lines: Sequence[str]) -> None:
        self._page.begin_code()
        for line in lines:
            self._page.text(line)
        self._page.end_code()

    def _inline(self, text: str) -> str:
        """Text without marks and macros; what stood between marks is bold."""
        return unescape(_INLINE.sub(_replaced, self._attributes.substituted(text)))

    # -- code and tables ---------------------------------------------------------------------------

    def _begin_verbatim(self, line: str) -> None:
        self._place_block("")
        columns = self._columns
        self._begin_block()
        end = re.match(r"`+", line)
        self._verbatim = _Verbatim(end[0] if end else line, columns)

    def _read_verbatim(self, block: _Verbatim, line: str) -> None:
        if line == block.end:
            self._end_verbatim()
        else:
            block.lines.append(line)

    def _end_verbatim(self) -> None:
        block, self._verbatim = self._verbatim, None
        if block is None or block.end[0] in "/+":
            return
        if block.end[0] == "|":
            self._page.table(self._table(block))
        else:
            self._add_code(block.lines)

    def _table(self, block: _Verbatim) -> Iterator[list[str]]:
        """The rows of a table, with as many cells as its first line, unless its columns are told."""
        lines = list(filter(None, block.lines))
        columns = block.columns or len(_CELL.findall(lines[0] if lines else "")) or 1
        cells = _CELL.split("\n".join(lines))[1:]
        for first in range(0, len(cells), columns):
            row = cells[first : first + columns]
            yield [plain(self._inline(cell.replace("\\|", "|"))) for cell in row]


def _underlines(line: str, title: str) -> bool:
    """Whether a line underlines the title above it, which is as long."""
    return (
        len(title) <= MAX_HEADING
        and abs(len(line) - len(title)) <= 1
        and _UNDERLINE.fullmatch(line) is not None
        and any(map(str.isalnum, title))
        and not title.startswith((" ", "\t", "["))
    )


def _column_count(columns: str) -> int:
    """How many columns a table has by its attribute, such as "1,2" or "3*"."""
    counts = (_REPEATED.match(column.strip()) for column in columns.split(",")[:MAX_COLUMNS])
    return min(sum(int(count[1]) if count else 1 for count in counts), MAX_COLUMNS)


def _replaced(match: re.Match[str]) -> str:
    """The text that a mark or a macro stands for."""
    parts = match.groupdict(default="")

    if match["removed"] is not None:
        return ""
    if match["escaped"] is not None:
        return parts["escaped"]
    if match["quoted"] is not None:
        return f"“{parts['quoted']}”"
    if match["curly"] is not None:
        quotes = "“”" if match[0][0] == '"' else "‘’"
        return parts["curly"][1:-1].join(quotes)
    if match["number"] is not None:
        return f"{parts['page']}({parts['number']})"
    if words := parts["paired"] or parts["marked"]:
        return f"{BOLD}{words.strip('+`') or words}{PLAIN}"

    label = parts["label"] or parts["macro_text"] or parts["url_text"]
    return label.removesuffix("^") or parts["target"] or parts["macro_target"] or parts["url"]
