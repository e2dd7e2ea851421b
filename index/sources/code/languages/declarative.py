"""SQL and HCL, the language of Terraform."""

from __future__ import annotations

import re
from collections.abc import Sequence

import tree_sitter as ts

from purlin.index.sources.code.languages.nodes import child, first_child, node_text, parts, unquoted
from purlin.index.sources.code.syntax import Language
from purlin.index.sources.words import kinds, words

# ---- SQL


def _sql_name(node: ts.Node) -> str:
    """The name with its schema, without quotes around either."""
    name = node_text(first_child(node, "object_reference") or child(node, "name"))
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
        type="create_type",
    ),
    find_name=_sql_name,
    inside=words("statement"),
    comments=words("comment marginalia"),
    wrappers=words("statement"),
    body_starts=words("column_definitions keyword_as function_body procedure_body"),
    has_methods=False,
    is_tolerant=True,
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
