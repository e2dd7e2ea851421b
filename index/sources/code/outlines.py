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
    """A definition with its decorators, `export` and the like, and attributes before it.

    Offsets are those of bytes; rows and columns count from 0.
    """

    kind: str
    names: tuple[str, ...]
    start: int
    end: int
    # The first and the last row, and where it begins in the one and ends in the other.
    rows: tuple[int, int]
    columns: tuple[int, int]
    # Where the attributes before it end.
    head_row: int
    # Where the signature begins and ends, and its last row.
    signature: tuple[int, int]
    signature_row: int
    summary: str
    # Where the doc comment begins, or the definition if it has none.
    doc_row: int
    depth: int
    # The head of the scope around it, where that says what it is for.
    role: str = ""
    # Whether it is for tests alone, as all inside it is.
    is_test: bool = False
    # The definitions directly inside, and whether there is a syntax error outside of these.
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
