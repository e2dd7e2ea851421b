"""Find the definitions of languages without a grammar, by the lines that they begin with.

Comments and strings are blanked first, so that no pattern and no bracket is found in them; every
offset stays. What a definition spans is told by its brackets, its indentation or its last mark.
All patterns and passes take time in proportion to the source.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from purlin.index.sources.code.block_words import Blocks, BlockWords
from purlin.index.sources.code.comments import LICENCE, LICENCE_ROWS, file_summary, prose
from purlin.index.sources.code.outlines import (
    LEAVES,
    MAX_NAME_BYTES,
    MAX_NESTING,
    MIN_CONSTANT_LINES,
    Definition,
    Outline,
)
from purlin.index.sources.code.plain_comments import PlainComments, Rows
from purlin.index.sources.code.syntax import MAX_BLOCK_LINES, MIN_BLOCK_LINES, blanked

# What a definition spans: to the brace that closes the one after its head, or to a semicolon; to
# the end of its first parentheses; to the end of the line on which all brackets are closed; to the
# mark that ends a form; to the word that closes its own; the lines indented more than its own; to
# the end of the block that it begins, or to a semicolon outside of blocks.
Body = Literal["braces", "parens", "line", "form", "words", "indent", "block", "statement"]
# Kinds of heads that are no definitions: imports and the like, and what belongs to the next one.
DULL, PREFIX = "dull", "prefix"
_NO_WORDS = BlockWords(re.compile(rb"(?!)"))
_LEAVES = LEAVES | {"constant"}
# The fewest and the most lines of definitions of a kind.
_LINES: Mapping[str, tuple[int, float]] = {
    "constant": (MIN_CONSTANT_LINES, math.inf),
    "block": (MIN_BLOCK_LINES, MAX_BLOCK_LINES),
}
# Functions inside other kinds are methods.
_AROUND_FUNCTIONS = frozenset({"module", "package", "block"})

# Between a name and the bracket that opens the body.
_OPENER = re.compile(rb"[^(){};]{0,4000}+([({;])")
_SEMICOLON = re.compile(rb"\s{0,200}+;")
# After a comment: it says nothing of what follows.
_PARAGRAPH_END = re.compile(rb"[ \t\r]*+(?:\Z|\n[ \t\r]*+(?:\Z|\n|(?i:end|private)\b))")
_ARROW = re.compile(rb"=>")
# What follows a contract of D: another one, or the body.
_FURTHER_BLOCK = re.compile(
    rb"\s{0,400}+(?:in|out|do|body)\b\s{0,400}+(?:\([^(){}]{0,400}+\)\s{0,400}+)?\{"
)
_BRACKETS = re.compile(rb"[][(){}]")
# A bracket that is not closed is looked for among so many.
_MOST_OPEN = 64
_CLOSING = {b")": b"(", b"]": b"[", b"}": b"{"}
_LINE_STEP = re.compile(rb"[\n({\[]")
# What may stand between a name and its parameters: a string, and what a method is for.
_PARAMETERS = re.compile(rb"(?:\s{0,400}+\"[^\"]{0,4000}+\")?(?:\s++:[\w/.-]++)?\s{0,400}+[\[(]")
_NEXT_LINE_OPENS = re.compile(rb"\s{0,400}+[{|&@]")
_ROW = re.compile(rb"^([ \t]*+)(?=\S).*", re.MULTILINE)
_NOT_QUOTES = re.compile(rb"[^\"'`]")


@dataclass(frozen=True, eq=False)
class Head:
    """How definitions of a kind begin."""

    # Has a group `name`, and may have a group `word`, which begins the name of a block.
    pattern: re.Pattern[bytes]
    body: Body
    # Empty where the group `word` tells the kind.
    kind: str = ""
    # The kinds of definitions that it must be in; without them it may be in any that is looked into.
    within: frozenset[str] = frozenset()
    # Whether one that a semicolon ends is none.
    needs_body: bool = False


@dataclass(frozen=True, eq=False)
class PatternLanguage:
    """What is told of a language instead of a grammar."""

    heads: tuple[Head, ...]
    # Matches a comment, in its group `comment`, or a string.
    hidden: re.Pattern[bytes]
    # The kinds of words that are not kinds themselves.
    kinds: Mapping[str, str] = field(default_factory=dict)
    # The mark after a form, and what its signature ends before.
    form_end: re.Pattern[bytes] | None = None
    signature_end: re.Pattern[bytes] | None = None
    # Of words that begin a body, what closes it; and the row that may end an indented body.
    closers: Mapping[str, re.Pattern[bytes]] = field(default_factory=dict)
    last_row: re.Pattern[bytes] | None = None
    # The words of blocks that only a stack can match.
    blocks: BlockWords | None = None
    # Whether the comment on the lines below a statement belongs to it.
    has_remarks_below: bool = False
    # How many lines above its definition a doc comment ends at most.
    doc_gap: int = 1
    # What begins a line of a comment, where that is unusual.
    marker: re.Pattern[str] | None = None
    # Reads a summary from the text of a definition and of its prefixes.
    docstring: Callable[[str], str] | None = None


def pattern_outline(source: bytes, language: PatternLanguage) -> Outline:
    """What a file defines, by the patterns of its language."""
    return _Scan(source, language).run()


@dataclass(slots=True)
class _Spot:
    """Where a head matches, and where its signature and its body end."""

    head: Head
    kind: str
    name: str
    start: int
    signature_end: int
    end: int


class _Scan:
    """One pass over a source."""

    def __init__(self, source: bytes, language: PatternLanguage) -> None:
        self._source = source
        self._language = language
        self._rows = Rows(source)
        self._comments = PlainComments(source, self._rows, language.doc_gap)
        self._plain = language.hidden.sub(self._blanked, source)

        self._pairs = _pairs(self._plain)
        self._form_ends = self._all_ends(language.form_end)
        self._closers = {word: self._all_ends(end) for word, end in language.closers.items()}
        self._blocks = Blocks(self._plain, language.blocks or _NO_WORDS, self._pairs)

        self._dull_rows: set[int] = set()
        self._definitions: list[Definition] = []

    def run(self) -> Outline:
        self._add_all(sorted(self._spots(), key=lambda spot: spot.start))
        end = self._definitions[0].start if self._definitions else len(self._source)
        doc_rows = {definition.doc_row for definition in self._definitions}
        summary = file_summary(self._comments.before(end), doc_rows, self._prose)
        return Outline(self._definitions, self._dull_rows, self._comments.rows(), *summary)

    def _blanked(self, match: re.Match[bytes]) -> bytes:
        if match.lastgroup != "comment":
            # Line breaks too: what a string has at the beginning of a line ends no body.
            return _NOT_QUOTES.sub(b"_", match[0])
        # A pattern may begin with the white space before a comment.
        self._comments.spans.append(match.span("comment"))
        return blanked(match[0])

    def _all_ends(self, pattern: re.Pattern[bytes] | None) -> list[int]:
        return [match.end() for match in pattern.finditer(self._plain)] if pattern else []

    # ---- heads

    def _spots(self) -> Iterator[_Spot]:
        for head in self._language.heads:
            for match in head.pattern.finditer(self._plain):
                groups = match.groupdict()
                word = (groups.get("word") or b"").decode().lower()
                kind = head.kind or self._language.kinds.get(word, word)
                name_start, name_end = match.span("name") if "name" in groups else (0, 0)
                name = self._source[name_start:name_end].decode().strip("\"'`")
                if kind == "block":
                    name = f"{self._source[slice(*match.span('word'))].decode()} {name}"
                if len(name) > MAX_NAME_BYTES or not (name or kind in (DULL, PREFIX)):
                    continue

                start = match.start() + len(match[0]) - len(match[0].lstrip())
                ends = self._ends(head, kind, word, match, start)
                if ends is not None:
                    yield _Spot(head, kind, name, start, *ends)

    def _ends(
        self, head: Head, kind: str, word: str, match: re.Match[bytes], start: int
    ) -> tuple[int, int] | None:
        """Where signature and definition end; None if the definition is not closed."""
        if head.body == "braces":
            return self._brace_ends(match, needs_body=head.needs_body)
        if head.body == "block":
            return self._block_ends(start, match)
        if head.body == "statement":
            return self._statement_ends(match)
        if head.body == "line":
            return self._line_ends(match.end())
        if head.body == "parens":
            end = self._pairs.get(self._plain.find(b"(", start))
            return None if end is None else (self._parameters_end(kind, match), end)
        if head.body == "indent":
            return self._rows.end(match.end()), self._indent_end(self._rows.row(start))

        ends = self._closers.get(word, []) if head.body == "words" else self._form_ends
        position = bisect_left(ends, match.end())
        if position == len(ends):
            return None
        end = ends[position]
        if head.body == "words":
            return min(self._rows.end(match.end()), end), end
        mark = self._language.signature_end
        before = mark.search(self._plain, match.end(), end) if mark else None
        return (before.start() if before else end), end

    def _brace_ends(self, match: re.Match[bytes], *, needs_body: bool) -> tuple[int, int] | None:
        opener = self._opener(match.end())
        if opener is None:
            return None
        if opener[1] == b";":
            has_body = _ARROW.search(self._plain, match.end(), opener.start(1)) is not None
            return (opener.start(1), opener.end()) if has_body or not needs_body else None

        end = self._pairs.get(opener.start(1))
        # A contract stands before the body.
        for _ in range(_MOST_OPEN):
            if end is None or (further := _FURTHER_BLOCK.match(self._plain, end)) is None:
                break
            end = self._pairs.get(further.end() - 1)
        return None if end is None else (opener.start(1), end)

    def _opener(self, start: int) -> re.Match[bytes] | None:
        """The brace or semicolon that ends a head, outside of its parentheses."""
        position = start
        for _ in range(_MOST_OPEN):
            opener = _OPENER.match(self._plain, position)
            if opener is None or opener[1] != b"(":
                return opener
            position = self._pairs.get(opener.start(1), opener.end())
        return None

    def _block_ends(self, start: int, match: re.Match[bytes]) -> tuple[int, int] | None:
        end = self._blocks.end_of_first(start, match.end())
        if end is None:
            return None

        head_end = self._blocks.head_end(match.end()) or end
        blocks = self._language.blocks
        # A process has no mark of its body, so that the next semicolon is inside.
        if blocks and blocks.body_mark and self._plain[head_end : head_end + 1] == b";":
            head_end = self._rows.end(match.end())

        semicolon = _SEMICOLON.match(self._plain, end)
        return min(head_end, end), semicolon.end() if semicolon else end

    def _statement_ends(self, match: re.Match[bytes]) -> tuple[int, int] | None:
        block_end = self._blocks.end_of_first(match.start(), match.end())
        end = self._blocks.statement_end(block_end or match.end())
        if end is None:
            return None
        has_block = self._blocks.end_of_first(match.start(), end) is not None
        signature_end = min(self._rows.end(match.end()), end) if has_block else end - 1
        return signature_end, self._remarks_end(end) if self._language.has_remarks_below else end

    def _remarks_end(self, end: int) -> int:
        """The end of the comments on the lines right below, unless they are the next definition's."""
        remarks_end = self._comments.end_of_run(end)
        return remarks_end if _PARAGRAPH_END.match(self._plain, remarks_end) else end

    def _line_ends(self, start: int) -> tuple[int, int] | None:
        """The end of the line on which all brackets are closed, or of a body that follows it.

        A body is in brackets, or its lines are indented more than the first one.
        """
        indentation = self._indentation(self._rows.start(self._rows.row(start)))
        position, signature_end = start, -1
        while step := _LINE_STEP.search(self._plain, position):
            if step[0] != b"\n":
                position = self._pairs.get(step.start(), -1)
                if position < 0:
                    return None
                is_long = self._plain.find(b"\n", step.start(), position) >= 0
                if step[0] == b"{" and is_long and signature_end < 0:
                    signature_end = step.start()
            elif opener := _NEXT_LINE_OPENS.match(self._plain, step.start()):
                position = opener.end() - 1
            elif self._indentation(step.end()) > indentation:
                position = step.end()
                signature_end = step.start() if signature_end < 0 else signature_end
            else:
                break

        end = step.start() if step else len(self._plain)
        end = start + len(self._plain[start:end].rstrip(b" \t\r,;"))
        return (end if signature_end < 0 else signature_end), end

    def _indentation(self, line_start: int) -> int:
        """The column of a line's first character, with tabs expanded; -1 for an empty line."""
        row = _ROW.match(self._plain, line_start)
        return len(row[1].expandtabs()) if row else -1

    def _parameters_end(self, kind: str, match: re.Match[bytes]) -> int:
        """The end of the parameters in the head of a Lisp's definition, or of its name."""
        name_start, name_end = match.span("name") if "name" in match.groupdict() else match.span()
        if self._plain[name_start - 1 : name_start] == b"(":
            return self._pairs.get(name_start - 1, name_end)
        has_parameters = kind not in ("constant", "test", "target")
        parameters = _PARAMETERS.match(self._plain, name_end) if has_parameters else None
        return self._pairs.get(parameters.end() - 1, name_end) if parameters else match.end()

    def _indent_end(self, first_row: int) -> int:
        """The end of the last row that is indented more than the first, or that closes these."""
        last_row = self._language.last_row
        rows = _ROW.finditer(self._plain, self._rows.start(first_row))
        first = next(rows)
        indentation, end = len(first[1].expandtabs()), first.end()

        for row in rows:
            own_indentation = len(row[1].expandtabs())
            if own_indentation <= indentation:
                is_last = last_row is not None and last_row.match(row[0].strip())
                return row.end() if is_last and own_indentation == indentation else end
            end = row.end()

        return end

    # ---- definitions

    def _add_all(self, spots: list[_Spot]) -> None:
        open_definitions: list[Definition] = []
        prefix: _Spot | None = None

        for spot in spots:
            while open_definitions and open_definitions[-1].end <= spot.start:
                open_definitions.pop()
            parent = open_definitions[-1] if open_definitions else None

            if spot.kind == DULL and parent is None:
                self._dull_rows.update(
                    range(self._rows.row(spot.start), self._rows.row(spot.end - 1) + 1)
                )
            elif spot.kind == PREFIX and (parent is None or parent.kind not in _LEAVES):
                prefix = self._joined(prefix, spot)
            elif prefix is not None and spot.start < prefix.end:
                continue
            elif self._is_definition(spot, parent, len(open_definitions)):
                definition = self._define(spot, self._joined(prefix, spot), parent)
                prefix = None
                if self._continues(definition, spot):
                    open_definitions.append(self._definitions[-1])
                    continue

                self._definitions.append(definition)
                if parent is not None:
                    parent.members.append(definition)
                open_definitions.append(definition)

    def _is_definition(self, spot: _Spot, parent: Definition | None, depth: int) -> bool:
        fewest, most = _LINES.get(spot.kind, (1, math.inf))
        lines = self._rows.row(spot.end - 1) - self._rows.row(spot.start) + 1
        if spot.kind in (DULL, PREFIX) or not fewest <= lines <= most or depth >= MAX_NESTING:
            return False
        if parent is None:
            return not spot.head.within

        is_leaf = parent.kind in _LEAVES or spot.end > parent.end
        return not is_leaf and (not spot.head.within or parent.kind in spot.head.within)

    def _joined(self, prefix: _Spot | None, spot: _Spot) -> _Spot:
        """The spot, from the start of the prefixes right before it."""
        if prefix is None or self._plain[prefix.end : spot.start].strip():
            return spot
        return replace(spot, start=prefix.start)

    def _define(self, spot: _Spot, first: _Spot, parent: Definition | None) -> Definition:
        start_row, end_row = self._rows.row(first.start), self._rows.row(spot.end - 1)
        signature_end = spot.start + len(self._plain[spot.start : spot.signature_end].rstrip())

        summary, doc_row = self._doc_comment(first.start)
        if self._language.docstring is not None:
            text = self._source[first.start : spot.end].decode()
            summary = self._language.docstring(text) or summary

        is_method = spot.kind == "function" and parent and parent.kind not in _AROUND_FUNCTIONS
        return Definition(
            kind="method" if is_method else spot.kind,
            names=(*(parent.names if parent else ()), spot.name),
            start=first.start,
            end=spot.end,
            rows=(start_row, end_row),
            columns=(
                first.start - self._rows.start(start_row),
                spot.end - self._rows.start(end_row),
            ),
            head_row=self._rows.row(spot.start),
            signature=(spot.start, max(spot.start, signature_end)),
            signature_row=self._rows.row(max(spot.start, signature_end - 1)),
            summary=summary,
            doc_row=doc_row,
            depth=len(parent.names) + 1 if parent else 1,
            is_test=spot.kind == "test",
        )

    def _continues(self, definition: Definition, spot: _Spot) -> bool:
        """Add one more form of the definition right before it to that, if it is one."""
        last = self._definitions[-1] if self._definitions else None
        if last is None or spot.head.body != "form" or not definition.continues(last):
            return False
        is_near = not self._plain[last.end : definition.start].strip()
        if not is_near or definition.signature[0] != definition.start:
            return False

        last.extend(definition.end, definition.rows[1], definition.columns[1])
        return True

    def _doc_comment(self, start: int) -> tuple[str, int]:
        """Text and first row of the comment right above, or of the remark on the line."""
        text, row = self._comments.above(start)
        if not text:
            return self._prose(self._comments.remark(start)), row
        is_licence = row <= LICENCE_ROWS and LICENCE.search(text)
        return ("" if is_licence else self._prose(text)), row

    def _prose(self, comment: str) -> str:
        marker = self._language.marker
        if marker is None:
            return prose(comment)
        text = marker.sub("", comment)
        # Without its own marker, a text with such an initial looks like a comment of Fortran.
        return prose(f"! {text}" if text.startswith(("C", "c")) else text)


def _pairs(plain: bytes) -> dict[int, int]:
    """Of each bracket that opens, the offset after the one that closes it."""
    pairs: dict[int, int] = {}
    open_brackets: list[tuple[bytes, int]] = []

    for match in _BRACKETS.finditer(plain):
        opening = _CLOSING.get(match[0])
        if opening is None:
            open_brackets.append((match[0], match.start()))
            continue

        # One inside that is not closed is passed over.
        nearest = open_brackets[: -_MOST_OPEN - 1 : -1]
        for count, (bracket, start) in enumerate(nearest):
            if bracket == opening:
                del open_brackets[len(open_brackets) - count - 1 :]
                pairs[start] = match.end()
                break

    return pairs
