"""Turn lists, tables and blocks of code of Markdown that describe names into lists of definitions.

Such an item begins with code or a bold name, then a colon, a dash or a type: "- `--quiet`: says less". The
first cells of such a table are code. Such a block has settings with comments.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from textwrap import dedent

from markdown_it.token import Token

from purlin.index.sources.references.commented_settings import commented_settings, paragraphs
from purlin.index.sources.references.html.vocabulary import CALL, TERM_LIST

_CODE = "\0"  # stands for a piece of code
_BRACKETS = r"\([^()]{0,200}\)|\{[^{}]{0,200}\}|<[^<>]{0,200}>"
# Names, what follows them in brackets or as code, and the mark before the description. After brackets that
# tell a type or a default, a space is enough.
_ITEM = re.compile(
    rf"{_CODE}(?:(?:, ?| or | ?[/|] ?){_CODE}){{0,8}}"
    rf"(?P<notes>(?:[ |]{{0,3}}(?:{_BRACKETS})| {_CODE}){{0,4}})"
    r"(?P<mark>\s*(?::|-{1,3}(?=\s)|[—–])\s*|\s*\Z|(?<=[}>)])\s+(?=[^\s.,;])|(?<=\))\.\s+)"
)
_TELLS_TYPE = re.compile(r"[}>]|\bdefaults?\b", re.IGNORECASE)
# A bold word that is no name begins with a capital: "**Fast**: weaves in no time".
_BOLD_NAME = re.compile(r"[a-z_$][\w.$-]*")
_OPTION = re.compile(r"(?<![^\s,/|])-{1,2}[\w?][\w-]*")
# A value rather than the name of a setting.
_LITERAL = re.compile(r"[\"'\d]|-\d|(?:true|false|null|nil|none|undefined)\Z", re.IGNORECASE)
_CALLED = re.compile(r"[^\s(=]+(?=[(=])")
_EMPHASIS = ("strong_open", "strong_close", "em_open", "em_close")


def with_definitions(tokens: Sequence[Token]) -> list[Token]:
    """Return the tokens of a page, with a term and its description wherever a name is described.

    The list or the table below a call has its parameters, which stay part of it.
    """
    page = _Page()
    position = 0
    while position < len(tokens):
        position += page.read(tokens, position)
    return page.tokens


@dataclass(slots=True)
class _Page:
    """The tokens read so far, the tag of each open list, and whether the last heading is a call.

    A list of bullets has no tag before its first item.
    """

    tokens: list[Token] = field(default_factory=list)
    _tags: list[str] = field(default_factory=list)
    _is_below_call: bool = False

    def read(self, tokens: Sequence[Token], position: int) -> int:
        """Read the token at a position, the beginning of an item or a table; return how many were read."""
        token = tokens[position]
        match token.type:
            case "heading_open":
                heading = tokens[position + 1].content.replace("`", "")
                self._is_below_call = CALL.match(heading) is not None
            case "table_open" if not self._is_below_call:
                return self._read_table(tokens, position)
            case "fence" if not self._is_below_call:
                return self._read_code(token)
            case "bullet_list_open":
                self._tags.append("")
                return 1
            case "ordered_list_open":
                self._tags.append("ol")
            case "bullet_list_close":
                self._close(self._tags.pop())
                return 1
            case "ordered_list_close":
                self._tags.pop()
            case "list_item_open" if self._tags[-1] != "ol":
                return self._open_item(tokens[position : position + 4])
            case "list_item_close" if self._tags[-1] == "dl":
                self._close("dd")
                return 1
        self.tokens.append(token)
        return 1

    def _open_item(self, tokens: Sequence[Token]) -> int:
        """Begin an item of bullets, in a list of its kind."""
        has_parameters = self._is_below_call and len(self._tags) == 1
        is_text = not has_parameters and [each.type for each in tokens[1:3]] == [
            "paragraph_open",
            "inline",
        ]
        parts = _term_and_description(tokens[2].children or []) if is_text else None
        tag = "dl" if parts else "ul"
        if tag != self._tags[-1]:
            self._close(self._tags[-1])
            kind = f"option-list {TERM_LIST}" if self._is_below_call else TERM_LIST
            self._open(tag, {"class": kind} if parts else {})
            self._tags[-1] = tag

        if parts is None:
            self.tokens.append(tokens[0])
            return 1
        term, description = parts
        self._add("dt", replace(tokens[2], children=term))
        self._open("dd")
        self.tokens += tokens[1], replace(tokens[2], children=description), tokens[3]
        return 4

    def _read_table(self, tokens: Sequence[Token], start: int) -> int:
        """Read a table, whose rows are definitions if all first cells are names."""
        rows: list[list[Token]] = []
        end = start
        while tokens[end].type != "table_close":
            if tokens[end].type == "tr_open":
                rows.append([])
            elif tokens[end].type == "inline":
                rows[-1].append(tokens[end])
            end += 1

        terms = [_names_alone(row[0].children or []) for row in rows[1:]]
        if len(rows[0]) < 2 or not terms or not all(terms):
            self.tokens += tokens[start : end + 1]
            return end + 1 - start

        names = ("".join(part.content for part in head.children or []) for head in rows[0][1:])
        heads = [f"{name}: " if name else "" for name in names]

        # The longest texts describe the names; single words say something only with their head.
        cells = zip(*(row[1:] for row in rows[1:]), strict=True)
        columns = [[cell.content for cell in column] for column in cells]
        longest = max(columns, key=lambda texts: sum(map(len, texts)))
        if any(" " in text for text in longest):
            heads[columns.index(longest)] = ""

        self._open("dl", {"class": TERM_LIST})
        for term, row in zip(terms, rows[1:], strict=True):
            self._describe(replace(row[0], children=term), heads, row[1:])
        self._close("dl")
        return end + 1 - start

    def _describe(self, term: Token, heads: Sequence[str], cells: Sequence[Token]) -> None:
        """Add the definition of a row: what describes it, then the other cells with their heads."""
        self._add("dt", term)
        self._open("dd")
        for head, cell in sorted(zip(heads, cells, strict=True), key=lambda pair: pair[0] != ""):
            if cell.content:
                label = Token("text", "", 0, content=head)
                self._add("p", replace(cell, children=[label, *(cell.children or [])]))
        self._close("dd")

    def _read_code(self, token: Token) -> int:
        """Read a block of code, whose settings are definitions if comments tell what they are."""
        language = token.info.strip().partition(" ")[0]
        code = commented_settings(token.content, language)
        if code is None:
            self.tokens.append(token)
            return 1

        around, settings = code
        if around:
            self.tokens.append(replace(token, content="\n".join(around)))
        for setting in settings:
            # A list for each: in one list, a setting without a description would get the next one's.
            self._open("dl", {"class": TERM_LIST})
            self._add("dt", _line(setting.line, setting.name))
            self._open("dd")
            for paragraph in paragraphs(setting.comments):
                self._add("p", _line(paragraph))
            if any(map(str.strip, setting.value)):
                value = dedent("\n".join(setting.value)).strip("\n")
                self.tokens.append(replace(token, content=value))
            self._close("dd")
            self._close("dl")
        return 1

    def _add(self, tag: str, text: Token) -> None:
        """Add an element with its text."""
        self._open(tag)
        self.tokens.append(text)
        self._close(tag)

    def _open(self, tag: str, attributes: dict[str, str | int | float] | None = None) -> None:
        self.tokens.append(Token(f"{tag}_open", tag, 1, attrs=attributes or {}, block=True))

    def _close(self, tag: str) -> None:
        if tag:
            self.tokens.append(Token(f"{tag}_close", tag, -1, block=True))


def _term_and_description(parts: Sequence[Token]) -> tuple[list[Token], list[Token]] | None:
    """Cut an item's text after what it tells about; None if it does not begin so."""
    parts, item = _item(parts)
    if item is None or (item["mark"].isspace() and not _TELLS_TYPE.search(item["notes"])):
        return None

    notes, end = item.span("notes"), len(item.string)
    names = list(_names(_between(parts, 0, notes[0])))
    if item.end() < end:
        return [*names, *_between(parts, *notes)], list(_between(parts, item.end(), end))
    # What stands in brackets is all that is said.
    return (names, list(_between(parts, *notes))) if item["notes"] else None


def _names_alone(parts: Sequence[Token]) -> list[Token] | None:
    """Return the parts of a cell with its names marked; None if it has other text than names."""
    parts, item = _item(parts)
    if item is None or item["mark"].strip() or item.end() < len(item.string):
        return None
    return [*_names(_between(parts, 0, item.start("notes"))), *_between(parts, *item.span("notes"))]


def _item(parts: Sequence[Token]) -> tuple[list[Token], re.Match[str] | None]:
    """Return the parts of a text without emphasis, and its names with what follows them, if any."""
    parts = [part for part in parts if part.content or part.tag]
    if [part.type for part in parts[:2]] == ["strong_open", "text"]:
        _, name, *rest = parts
        if _BOLD_NAME.fullmatch(name.content):
            parts = [replace(name, type="code_inline", tag="code"), *rest]
    parts = [part for part in parts if part.type not in _EMPHASIS]
    if not parts or parts[0].type != "code_inline" or _LITERAL.match(parts[0].content):
        return parts, None
    return parts, _ITEM.match("".join(map(_characters, parts)))


def _characters(part: Token) -> str:
    """The characters that stand for a part of a text."""
    if part.type == "code_inline":
        return _CODE
    return "\n" if part.type in ("softbreak", "hardbreak") else part.content


def _between(parts: Sequence[Token], start: int, end: int) -> Iterator[Token]:
    """Yield the parts between two characters of a text, the first and the last of them cut."""
    position = 0
    for part in parts:
        characters = _characters(part)
        first, last = max(start - position, 0), min(end - position, len(characters))
        # What closes belongs to the character before it.
        if len(characters) <= 1 and start <= position - (part.nesting < 0) < end:
            yield part
        elif first < last:
            yield replace(part, content=characters[first:last])
        position += len(characters)


def _names(parts: Iterable[Token]) -> Iterator[Token]:
    """Yield the parts of a term, with its names marked."""
    for part in parts:
        if part.type == "code_inline":
            yield from _marked(part.content)
        else:
            yield part


def _marked(code: str) -> Iterator[Token]:
    """Mark the names in code: those of options, `get` of `get(key)`, else all of it."""
    called = _CALLED.match(code)
    names = [called.span()] if called else [(0, len(code))]
    if code.startswith("-"):
        names = [option.span() for option in _OPTION.finditer(code)]

    position = 0
    for start, end in names:
        if position < start:
            yield Token("text", "", 0, content=code[position:start])
        yield _marked_name(code[start:end])
        position = end
    if position < len(code):
        yield Token("text", "", 0, content=code[position:])


def _line(text: str, name: str = "") -> Token:
    """Return a line of text, with a name in it marked."""
    before, mark, after = text.partition(name) if name else (text, "", "")
    children = [Token("text", "", 0, content=before)]
    if mark:
        children += [_marked_name(mark), Token("text", "", 0, content=after)]
    return Token("inline", "", 0, content=text, children=children)


def _marked_name(name: str) -> Token:
    return Token("code_inline", "code", 0, attrs={"class": "option"}, content=name)
