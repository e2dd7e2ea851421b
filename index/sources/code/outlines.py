"""What readers of code tell of a file: its definitions, and which of its rows are in none."""

from __future__ import annotations

from dataclasses import dataclass, field

MAX_NESTING = 16
MAX_NAME_BYTES = 200

# A constant of fewer lines has no document of its own.
MIN_CONSTANT_LINES = 3

FUNCTIONS = frozenset({"function", "method"})
# Kinds of definitions that are not looked into.
LEAVES = FUNCTIONS | {"macro", "instance", "type", "test"}


@dataclass(slots=True)
class Definition:
    """A definition in a tree.

    `start` and `end` are byte offsets, `rows` the first and last row, and `columns` where it begins
    in the first and ends in the last; decorators, `export` and the like are inside, and so are
    attributes before it, which end at `head_row`. `signature` is its byte offsets, and
    `signature_row` the last row of it. `doc_row` is where the doc comment starts, or the definition
    if it has none. `role` is the head of the scope around it, where that says what it is for.
    `is_test` says that it is for tests alone, as all inside it is. `members` are the definitions
    directly inside, and `has_error` says that there is a syntax error outside of these.
    """

    kind: str
    names: tuple[str, ...]
    start: int
    end: int
    rows: tuple[int, int]
    columns: tuple[int, int]
    head_row: int
    signature: tuple[int, int]
    signature_row: int
    summary: str
    doc_row: int
    depth: int
    role: str = ""
    is_test: bool = False
    members: list[Definition] = field(default_factory=list)
    has_error: bool = False

    def text(self, source: bytes) -> bytes:
        """The whole definition, without white space at its end."""
        return source[self.start : self.end].rstrip()

    def extend(self, end: int, row: int, column: int) -> None:
        """Let the definition end at this byte offset, in this row and column."""
        self.end = end
        self.rows, self.columns = (self.rows[0], row), (self.columns[0], column)

    def continues(self, earlier: Definition) -> bool:
        """Whether this may be one more clause or form of an earlier definition."""
        return not self.summary and (self.kind, self.names) == (earlier.kind, earlier.names)

    @property
    def is_wrapper(self) -> bool:
        """Whether a module may be nothing but a name for the types inside."""
        return (
            self.kind == "module"
            and not self.summary
            and bool(self.members)
            and not any(member.kind in FUNCTIONS for member in self.members)
        )


@dataclass(slots=True)
class Outline:
    """What a file defines, and the rest of it.

    `definitions` are those that parsed cleanly, in source order. `dull_rows` are those of imports,
    `quiet_rows` those of comments on lines of their own and of what only wraps definitions.
    `summary` is what the file says of itself, from `summary_row` on.
    """

    definitions: list[Definition]
    dull_rows: set[int]
    quiet_rows: set[int]
    summary: str
    summary_row: int
