"""What the readers know of a language's grammar, and parsing with it."""

from __future__ import annotations

import ctypes
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import NamedTuple

import tree_sitter as ts

# Checked between the parser's steps; one step of error recovery may take longer.
PARSE_SECONDS = 5.0
# The parser reads the source in such pieces; so does `Node.text`, which is slow with long ones.
_READ_BYTES = 4096

# Of the help that PowerShell has in comments.
_SYNOPSIS = re.compile(
    r"^[ \t]*\.(?:SYNOPSIS|DESCRIPTION)[ \t\r]*\n(.*?)(?=^[ \t]*\.[A-Z]|#>|\Z)",
    re.DOTALL | re.MULTILINE | re.IGNORECASE,
)

# What most grammars call their names.
COMMON_NAMES = "identifier type_identifier field_identifier simple_identifier property_identifier"


_BLANK = bytes(byte if byte in b"\r\n" else ord(" ") for byte in range(256))


def blanked(source: bytes) -> bytes:
    """Spaces for all but line breaks, so that every offset and row after them stays."""
    return source.translate(_BLANK)


# A block of code that a call names says something by itself, and shorter ones are read with what is
# around them, longer ones by what is inside.
MIN_BLOCK_LINES, MAX_BLOCK_LINES = 3, 100


class Block(NamedTuple):
    """What a node defines by a kind, a name and a body of its own, as a call with a callback does."""

    kind: str
    name: ts.Node | str | None
    body: ts.Node


KindOf = Callable[[ts.Node], str | Block | None]
Rewrite = Callable[[bytes], bytes]
NameOf = Callable[[ts.Node], ts.Node | str | None]


def _name_field(node: ts.Node) -> ts.Node | None:
    return node.child_by_field_name("name")


@dataclass(frozen=True, eq=False)
class Language:
    """One grammar and its node types.

    `module` and `function` load the grammar. `definitions` maps a node type to its kind of
    definition, or to a function that tells the kind, or a `Block`; `find_name` finds the name of
    what is no block. `assignments` are
    nodes that define something only if their value, in the second field, is one of `values` (or if
    `other_values` is a kind; an empty kind is none). The first field, or path of fields, holds the
    name, and a node without that field is named `default`. The kinds `scope` and `namespace`
    qualify the names inside without being definitions themselves; `scopes` are values that do so
    where they are no constants, and constants are not looked for inside `opaque` nodes.

    `inside` are the nodes that may contain definitions, and `wrappers` those that belong to the one
    definition they contain (`export`, decorators). `is_prefix` tells the nodes that belong to the
    definition after them (attributes), and `leads` those beside it that its signature begins with,
    as it does with keywords (types). `is_tail` tells, of the kind of a definition and the node right
    after it, whether that is the rest of it, as a body beside its signature is. Signatures end
    before `body_starts`, or after one of `heads`.
    Nodes that are `dull`, or that `is_dull` tells, say nothing of what a file does: imports.
    `has_role` tells, of a scope, whether its head says what the definitions inside are for, as the name
    of a trait does.
    `owners` maps a node type to the field with the type that a method belongs to, and `silent` are
    names left out of a qualified name. Functions inside definitions of the kinds `plain_parents`
    are no methods, nor are those with a qualified name in a language without `has_methods`. With
    `generics`, type arguments are left out of names; with `has_clauses`, neighbours of the same
    name are one function; with `docs_follow`, a doc comment may stand below what it is about; a
    language that `is_tolerant` keeps definitions with errors, since it reads macros as such. What a
    prefix that matches `test_mark` stands before is for tests alone.

    `docstring` reads a summary from inside a definition or from its prefixes, and `file_docstring`
    that of the file; without one of these, or where it returns None, a comment is read. What the
    grammar cannot read, `rewrite` replaces before parsing; every offset stays. Of a `component`, only
    its scripts are in the language.
    """

    name: str
    suffixes: tuple[str, ...]
    module: str
    definitions: Mapping[str, str | KindOf]
    inside: frozenset[str]
    function: str = "language"
    find_name: NameOf = _name_field
    assignments: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    values: Mapping[str, str] = field(default_factory=dict)
    other_values: str | None = None
    scopes: frozenset[str] = frozenset()
    opaque: frozenset[str] = frozenset()
    wrappers: frozenset[str] = frozenset()
    comments: frozenset[str] = frozenset({"comment"})
    annotations: frozenset[str] = frozenset()
    is_prefix: Callable[[ts.Node], bool] | None = None
    leads: frozenset[str] = frozenset()
    is_tail: Callable[[str, ts.Node], bool] | None = None
    body_starts: frozenset[str] = frozenset({"{", ";", "end", "field_declaration_list"})
    heads: frozenset[str] = frozenset()
    dull: frozenset[str] = frozenset()
    is_dull: Callable[[ts.Node], bool] | None = None
    has_role: Callable[[ts.Node], bool] | None = None
    owners: Mapping[str, str] = field(default_factory=dict)
    silent: frozenset[str] = frozenset()
    plain_parents: frozenset[str] = frozenset({"namespace", "block"})
    generics: bool = False
    has_clauses: bool = False
    has_methods: bool = True
    docs_follow: bool = False
    is_tolerant: bool = False
    test_mark: re.Pattern[str] | None = None
    rewrite: Rewrite | None = None
    component: bool = False
    docstring: Callable[[ts.Node, Sequence[ts.Node]], str | None] | None = None
    file_docstring: Callable[[ts.Node], str | None] | None = None
    identifiers: frozenset[str] = frozenset(COMMON_NAMES.split())


def synopsis(comment: str) -> str | None:
    """Return what a comment says below `.SYNOPSIS` or `.DESCRIPTION`; None if it has neither."""
    match = _SYNOPSIS.search(comment)
    return " ".join(match[1].split()) if match else None


@cache
def grammar(language: Language) -> ts.Language:
    """Load the grammar, once per process and only when it is needed."""
    loaded = getattr(import_module(language.module), language.function)()
    return ts.Language(_capsule(loaded) if isinstance(loaded, int) else loaded)


def _capsule(address: int) -> object:
    """Wrap the address of a grammar, as the packages of others do: `Language` deprecates bare ones."""
    wrap = ctypes.pythonapi.PyCapsule_New
    wrap.restype = ctypes.py_object
    wrap.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    capsule: object = wrap(address, b"tree_sitter.Language", None)
    return capsule


def parse(source: bytes, language: Language) -> ts.Tree | None:
    """The syntax tree, or None if parsing takes longer than `PARSE_SECONDS`."""
    deadline = time.monotonic() + PARSE_SECONDS
    content = language.rewrite(source) if language.rewrite else source
    try:
        tree = ts.Parser(grammar(language)).parse(
            lambda offset, _point: content[offset : offset + _READ_BYTES],
            progress_callback=lambda _offset, _has_error: time.monotonic() > deadline,
        )
    except ValueError:
        return None

    # `Node.text` reads by the same callback, and from here on what the file says.
    content = source
    return tree


def unread_bytes(tree: ts.Tree) -> int:
    """How much of the source the grammar could not read."""
    unread, nodes = 0, [tree.root_node]

    while nodes:
        node = nodes.pop()
        if node.is_error:
            unread += node.end_byte - node.start_byte
        elif node.has_error:
            nodes.extend(node.children)

    return unread


def current_node(cursor: ts.TreeCursor) -> ts.Node:
    """The cursor's node, which is None only for a cursor without a tree."""
    node = cursor.node
    assert node is not None
    return node


def last_row(node: ts.Node) -> int:
    """The last row with text; in some grammars a node ends at the start of the next."""
    end = node.end_point
    return end.row - 1 if end.column == 0 and end.row > node.start_point.row else end.row
