"""Tell of the comments in a syntax tree what they are about: a definition, or the file."""

from __future__ import annotations

from collections.abc import Set

import tree_sitter as ts

from purlin.index.sources.code.comments import (
    BLOCK_STARTS,
    LICENCE,
    LICENCE_ROWS,
    file_summary,
    prose,
)
from purlin.index.sources.code.syntax import last_row

# White space between a doc comment and its definition.
MAX_GAP_BYTES = 400
# A block of several lines may end so many line breaks above its definition; a shorter comment that
# far above is a heading of all that follows.
_MAX_LINE_BREAKS, _MIN_LINES = 3, 2


class NodeComments:
    """The comments of a file so far; `rows` are those of comments on lines of their own."""

    def __init__(self, source: bytes) -> None:
        self._source = source
        self.rows: set[int] = set()
        # The last run of comments on adjacent lines.
        self._run: list[ts.Node] = []
        # All runs so far, while nothing but imports precedes.
        self._first_runs: list[list[ts.Node]] = []
        self._is_at_top = True

    def add(self, node: ts.Node) -> None:
        """Add the next comment."""
        column = node.start_point.column
        before = self._source[node.start_byte - column : node.start_byte]
        is_on_own_line = column <= MAX_GAP_BYTES and not before.strip()

        continues = is_on_own_line and bool(self._run) and self._touches(self._run[-1], node)
        if not continues:
            self._run = []
        if not is_on_own_line:
            return

        self._run.append(node)
        self.rows.update(range(node.start_point.row, last_row(node) + 1))
        if self._is_at_top and not continues:
            self._first_runs.append(self._run)

    def leave_top(self, node: ts.Node) -> None:
        """Note that the file's head is over with this node, and whether its last comment is about it."""
        self.drop_comment_of(node)
        self._is_at_top = False

    def drop_comment_of(self, node: ts.Node) -> None:
        """Forget the last comment of the file's head if it is about this node."""
        run = self._first_runs[-1] if self._is_at_top and self._first_runs else None
        if run and run[0].start_point.row > 1 and self._touches(run[-1], node):
            self._first_runs.pop()

    def doc_comment(self, node: ts.Node, *, is_first: bool) -> tuple[str, int]:
        """Return text and first row of the doc comment above; "" and the node's row without one.

        What is above the first definition may be the file's licence.
        """
        row = node.start_point.row
        if not self._run or not self._is_above(self._run[-1], node, _MAX_LINE_BREAKS):
            return "", row

        comment, comment_row = self._text_of(self._run)
        text = prose(comment)
        if not self._touches(self._run[-1], node) and not self._is_long(comment, text):
            return "", row
        is_licence = comment_row <= LICENCE_ROWS and is_first and LICENCE.search(comment)
        return ("" if is_licence else text), comment_row

    def file_summary(self, doc_rows: Set[int]) -> tuple[str, int]:
        """Return text and row of the first comment that is the file's; not one in `doc_rows`."""
        return file_summary(map(self._text_of, self._first_runs), doc_rows)

    def _touches(self, comment: ts.Node, node: ts.Node) -> bool:
        """Whether a node begins on the line where the comment ends, or on the next.

        A blank line may follow a comment that begins with two asterisks, unless it is the file's.
        """
        is_doc = self._source.startswith(b"/**", comment.start_byte)
        line_breaks = 2 if is_doc and comment.start_point.row > LICENCE_ROWS else 1
        return self._is_above(comment, node, line_breaks)

    def _is_above(self, comment: ts.Node, node: ts.Node, line_breaks: int) -> bool:
        """Whether nothing but so many line breaks is between a comment and a node."""
        if not 0 <= node.start_byte - comment.end_byte <= MAX_GAP_BYTES:
            return False
        # In some grammars a line comment ends after its line break.
        gap = self._source[comment.end_byte - 1 : node.start_byte]
        return not gap[1:].strip() and gap.count(b"\n") <= line_breaks

    def _is_long(self, comment: str, text: str) -> bool:
        """Whether a comment is a block of several lines, and not the file's."""
        is_of_file = bool(self._first_runs) and self._run is self._first_runs[0]
        is_block = comment.startswith(BLOCK_STARTS)
        return is_block and not is_of_file and len(text.splitlines()) >= _MIN_LINES

    def _text_of(self, run: list[ts.Node]) -> tuple[str, int]:
        """Text and first row of the last block comment, or of the run of line comments."""
        texts: list[str] = []
        row = run[-1].start_point.row
        for comment in reversed(run):
            text = self._source[comment.start_byte : comment.end_byte].decode().rstrip("\r\n")
            is_block = text.startswith(BLOCK_STARTS)
            if is_block and texts:
                break

            texts.append(text)
            row = comment.start_point.row
            if is_block:
                break

        return "\n".join(reversed(texts)), row
