"""SQL and HCL, the language of Terraform."""

from __future__ import annotations

import re
from collections.abc import Sequence

import tree_sitter as ts

from purlin.index.sources.code.languages.nodes import child, first_child, node_text, parts, unquoted
from purlin.index.sources.code.syntax import Language, blanked
from purlin.index.sources.words import kinds, words

# ---- SQL


# Where the statements of a trigger's body begin and end: with this word after a semicolon, to which
# Oracle may add the trigger's name.
_TRIGGER_WORDS = re.compile(
    rb"\bCREATE\b[^;(]{0,60}?\b(?P<trigger>TRIGGER)\b|(?P<begin>\bBEGIN\b)"
    rb"|;\s*+(?P<end>END(?:[ \t]++(?!(?:CASE|FOR|IF|LOOP|REPEAT|WHILE)\b)[\w$#\"]++)?)"
    rb"(?=\s*+(?:[;$/]|\Z))|;",
    re.IGNORECASE,
)
# All that the grammar takes for a body: PostgreSQL's call of a function.
_CALL = b"EXECUTE FUNCTION f("
_LINE = re.compile(rb"[^\r\n]{%d,}" % len(_CALL))


def _with_calls(source: bytes) -> bytes:
    """The source with calls in place of the bodies that SQLite's and MySQL's triggers have."""
    parts: list[bytes] = []
    written, begin, is_head = 0, None, False

    for match in _TRIGGER_WORDS.finditer(source):
        if match["trigger"]:
            begin, is_head = None, True
        elif match["begin"] and is_head:
            begin, is_head = match.start(), False
        elif match["end"] and begin is not None:
            parts += (source[written:begin], _call(source[begin : match.end()]))
            written, begin = match.end(), None
        elif begin is None:
            is_head = False

    return b"".join([*parts, source[written:]])


def _call(body: bytes) -> bytes:
    """A call as long as a body, with its line breaks; the body where none of its lines has the room."""
    line = _LINE.search(body, 0, len(body) - 1)
    if line is None:
        return body
    end = line.start() + len(_CALL)
    return b"".join([blanked(body[: line.start()]), _CALL, blanked(body[end:-1]), b")"])


def _sql_name(node: ts.Node) -> str:
    """The name with its schema, without quotes around either; an index may have only that of its table."""
    name_type = "identifier" if node.type == "create_index" else "object_reference"
    name = node_text(first_child(node, name_type) or child(node, "name"))
    return re.sub(r"[\"`\[\]]", "", name)


SQL = Language(
    name="sql",
    suffixes=(".sql", ".ddl"),
    module="tree_sitter_sql",
    definitions=kinds(
        function="create_function create_procedure",
        table="create_table",
        view="create_view create_materialized_view",
        trigger="create_trigger",
        index="create_index",
        policy="create_policy",
        sequence="create_sequence",
        type="create_type",
    ),
    find_name=_sql_name,
    inside=words("statement"),
    comments=words("comment marginalia"),
    wrappers=words("statement"),
    body_starts=words("column_definitions keyword_as function_body procedure_body"),
    has_methods=False,
    is_tolerant=True,
    rewrite=_with_calls,
)


# ---- HCL


# What Terraform calls these; `resource "aws_s3_bucket" "logs"` is `aws_s3_bucket.logs`.
_HCL_PREFIXES = {"resource": "", "variable": "var."}


def _hcl_is_top(block: ts.Node) -> bool:
    body = block.parent
    return body is not None and body.parent is not None and body.parent.type == "config_file"


def _hcl_labels(block: ts.Node) -> list[str]:
    return [unquoted(label) for label in block.named_children if label.type == "string_lit"]


def _hcl_block(node: ts.Node) -> str | None:
    """The type of a block with labels at the top of a file, such as `resource`."""
    is_definition = _hcl_is_top(node) and _hcl_labels(node)
    return node_text(first_child(node, "identifier")) if is_definition else None


def _hcl_local(node: ts.Node) -> str | None:
    """A value that a block of locals names."""
    block = node.parent.parent if node.parent is not None else None
    if block is None or block.type != "block" or not _hcl_is_top(block):
        return None
    return "constant" if node_text(first_child(block, "identifier")) == "locals" else None


def _hcl_name(node: ts.Node) -> str:
    """The name by which other blocks refer to it."""
    name = node_text(first_child(node, "identifier"))
    if node.type == "attribute":
        return f"local.{name}"
    return _HCL_PREFIXES.get(name, f"{name}.") + ".".join(_hcl_labels(node))


def _hcl_docstring(definition: ts.Node, _prefixes: Sequence[ts.Node]) -> str | None:
    """The description of a variable or an output."""
    for attribute in parts(first_child(definition, "body")):
        if node_text(first_child(attribute, "identifier")) == "description":
            return unquoted(first_child(attribute, "expression")) or None
    return None


HCL = Language(
    name="hcl",
    suffixes=(".tf", ".hcl", ".tofu", ".nomad"),
    module="tree_sitter_hcl",
    definitions={"block": _hcl_block, "attribute": _hcl_local},
    find_name=_hcl_name,
    inside=words("body block"),
    body_starts=words("block_start"),
    has_methods=False,
    is_tolerant=True,
    docstring=_hcl_docstring,
)

LANGUAGES = (SQL, HCL)
