"""What the tables of languages are written with: types of syntax nodes, and what is in a node."""

from __future__ import annotations

import re
from collections.abc import Sequence
from inspect import cleandoc

import tree_sitter as ts

from purlin.index.sources.code.syntax import MAX_BLOCK_LINES, MIN_BLOCK_LINES, Block

STRING = re.compile(r"""[rRuUsS~]*("{3}|'{3}|"|')(.*)\1""", re.DOTALL)


def node_text(node: ts.Node | None) -> str:
    """The text of a node; empty without one."""
    return (node.text or b"").decode() if node is not None else ""


def first_child(node: ts.Node | None, *child_types: str) -> ts.Node | None:
    """The first named child of one of these types."""
    return next((part for part in parts(node) if part.type in child_types), None)


def child(node: ts.Node | None, *fields: str) -> ts.Node | None:
    """The child in the first of these fields that the node has."""
    if node is None:
        return None
    return next(filter(None, map(node.child_by_field_name, fields)), None)


def parts(node: ts.Node | None) -> Sequence[ts.Node]:
    """All named children; none without a node."""
    return node.named_children if node is not None else ()


def first_part(node: ts.Node | None) -> ts.Node | None:
    """The first named child, if there is one."""
    return node.named_child(0) if node is not None and node.named_child_count else None


# Calls that give a block of code a name: tests, what groups them, and others such as routes and tasks.
_TESTS = frozenset(["it", "test", "subtest", "specify", "scenario", "bench"])
_GROUPS = frozenset(["describe", "context", "suite", "feature"])
_WORD = re.compile(r"[A-Za-z_]\w*")


def named_block(call: ts.Node, callee: str, name: str, body: ts.Node) -> Block | None:
    """What a call with a name and a block of code defines; None if that is too short or long.

    A test, and what groups tests, is named by its sentence, others also by what is called: `get /orders`.
    """
    words = set(_WORD.findall(callee))
    if words & _GROUPS:
        return Block("namespace", name, body)
    if words & _TESTS:
        return Block("test", name, body)
    lines = call.end_point.row - call.start_point.row + 1
    is_telling = MIN_BLOCK_LINES <= lines <= MAX_BLOCK_LINES
    return Block("block", f"{callee} {name}", body) if is_telling else None


def unquoted(string: ts.Node | None) -> str:
    """A string's text, without its quotes and common indentation."""
    match = STRING.fullmatch(node_text(string))
    return cleandoc(match[2].removeprefix("\\\n")).strip() if match else ""
