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
    """One grammar, and what its nodes are; nodes are told by their types."""

    name: str
    suffixes: tuple[str, ...]
    # What loads the grammar is `function` of this module.
    module: str
    # Nodes that define something, with its kind, or with what tells the kind or a `Block`. The kinds
    # `scope` and `namespace` only qualify the names inside.
    definitions: Mapping[str, str | KindOf]
    # Nodes that may contain definitions.
    inside: frozenset[str]
    function: str = "language"
    # What finds the name of a definition that is no block.
    find_name: NameOf = _name_field
    # Nodes that define something only by their value: the fields, or paths of fields, of name and
    # value. Without a field, the name is `default`.
    assignments: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    # The kinds that values define, and that of others, if any; an empty kind is none.
    values: Mapping[str, str] = field(default_factory=dict)
    other_values: str | None = None
    # Values that qualify the names inside where they are no constants.
    scopes: frozenset[str] = frozenset()
    # Nodes in which constants are not looked for.
    opaque: frozenset[str] = frozenset()
    # Nodes that belong to the one definition that they contain: `export`, decorators.
    wrappers: frozenset[str] = frozenset()
    comments: frozenset[str] = frozenset({"comment"})
    annotations: frozenset[str] = frozenset()
    # Tells nodes that belong to the definition after them, such as attributes.
    is_prefix: Callable[[ts.Node], bool] | None = None
    # Those beside it that its signature begins with, as it does with keywords: types.
    leads: frozenset[str] = frozenset()
    # Tells by a definition's kind whether the node right after it is the rest of it, such as its body.
    is_tail: Callable[[str, ts.Node], bool] | None = None
    # Signatures end before one of `body_starts`, or after one of `heads`.
    body_starts: frozenset[str] = frozenset({"{", ";", "end", "field_declaration_list"})
    heads: frozenset[str] = frozenset()
    # Nodes that say nothing of what a file does, such as imports.
    dull: frozenset[str] = frozenset()
    is_dull: Callable[[ts.Node], bool] | None = None
    # Tells whether the head of a scope says what the definitions inside are for, as the name of a trait does.
    has_role: Callable[[ts.Node], bool] | None = None
    # Of methods, the field with the type that they belong to.
    owners: Mapping[str, str] = field(default_factory=dict)
    # Names that are left out of qualified ones.
    silent: frozenset[str] = frozenset()
    # Functions in definitions of these kinds are no methods; without `has_methods`, nor are those
    # with a qualified name.
    plain_parents: frozenset[str] = frozenset({"namespace", "block"})
    # Whether type arguments are left out of names.
    generics: bool = False
    # Whether neighbours of the same name are one function.
    has_clauses: bool = False
    has_methods: bool = True
    # Whether a doc comment may stand below what it is about.
    docs_follow: bool = False
    # Whether definitions with errors are kept, since macros are read as such.
    is_tolerant: bool = False
    # What a prefix that it matches stands before is for tests alone.
    test_mark: re.Pattern[str] | None = None
    # Replaces what the grammar cannot read; every offset stays.
    rewrite: Rewrite | None = None
    # Whether only the scripts of a file are in the language.
    component: bool = False
    # Read a summary from inside a definition or its prefixes, and that of the file. Without one of
    # these, or where it returns None, a comment is read.
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
