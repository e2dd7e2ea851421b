"""JavaScript, TypeScript, and the components of Vue and Svelte."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import tree_sitter as ts

from purlin.index.sources.code.languages.nodes import child, first_child, named_block, node_text
from purlin.index.sources.code.syntax import Block, Language, blanked
from purlin.index.sources.words import kinds, words

_SCRIPT_FUNCTIONS = "arrow_function function_expression generator_function"
_SCRIPT_INSIDE = (
    "export_statement lexical_declaration variable_declaration variable_declarator expression_statement"
    " assignment_expression object pair class class_body statement_block if_statement else_clause try_statement"
    " call_expression new_expression arguments array parenthesized_expression function_expression arrow_function"
    " unary_expression binary_expression ternary_expression sequence_expression return_statement await_expression"
)
_SCRIPT_NAMES = (
    "identifier property_identifier private_property_identifier shorthand_property_identifier"
    " shorthand_property_identifier_pattern statement_identifier"
)
_SCRIPT_ASSIGNMENTS = {
    "variable_declarator": ("name", "value"),
    "assignment_expression": ("left", "right"),
    "pair": ("key", "value"),
    "export_statement": ("", "value"),
}


def _is_script_import(node: ts.Node) -> bool:
    """Whether a statement only imports, exports what is defined elsewhere, or says "use strict"."""
    if node.type == "lexical_declaration" or node.type == "variable_declaration":
        return _is_required(first_child(node, "variable_declarator"), "value")
    if node.type == "export_statement":
        return (
            child(node, "source") is not None
            or first_child(node, "export_clause") is not None
            or node_text(child(node, "value")).isidentifier()
        )
    if node.type != "expression_statement":
        return False
    if first_child(node, "string") is not None:
        return True

    assignment = first_child(node, "assignment_expression")
    target = node_text(child(assignment, "left"))
    return target.startswith(("module.exports", "exports.")) and (
        _is_required(assignment, "right") or _is_list_of_names(assignment)
    )


def _is_required(node: ts.Node | None, field: str) -> bool:
    """Whether the value in a field is `require(…)`, or a part of it."""
    value = child(node, field)
    while value is not None and value.type in ("call_expression", "member_expression"):
        inner = child(value, "function", "object")
        if inner is not None and inner.type == "identifier":
            return node_text(inner) == "require"
        value = inner
    return False


def _is_list_of_names(assignment: ts.Node | None) -> bool:
    """Whether the assigned value is a name, or an object of names."""
    value = child(assignment, "right")
    if value is None:
        return False
    names = value.named_children if value.type == "object" else [value]
    return all(name.type in ("identifier", "shorthand_property_identifier") for name in names)


def _script_block(call: ts.Node) -> Block | None:
    """A statement that calls something with a name and a function: `it("adds", () => …)`."""
    arguments = child(call, "arguments")
    name = first_child(arguments, "string", "template_string")
    callback = first_child(arguments, "arrow_function", "function_expression")
    is_statement = call.parent is not None and call.parent.type == "expression_statement"
    if not is_statement or name is None or callback is None:
        return None

    # Without arguments: `it.each` of `it.each([1, 2])("adds", …)`.
    callee = child(call, "function")
    while callee is not None and callee.type == "call_expression":
        callee = child(callee, "function")
    is_path = callee is not None and callee.type in ("identifier", "member_expression")
    return (
        named_block(call, node_text(callee), node_text(name)[1:-1], callback) if is_path else None
    )


JAVASCRIPT = Language(
    name="javascript",
    suffixes=(".js", ".mjs", ".cjs", ".jsx"),
    module="tree_sitter_javascript",
    definitions={
        **kinds(
            function="function_declaration generator_function_declaration",
            method="method_definition",
            class_="class_declaration",
        ),
        "call_expression": _script_block,
    },
    inside=words(_SCRIPT_INSIDE + " field_definition"),
    identifiers=words(_SCRIPT_NAMES),
    assignments=_SCRIPT_ASSIGNMENTS | {"field_definition": ("property", "value")},
    # In `a = b = function …`, it is the inner assignment that defines.
    values=kinds(function=_SCRIPT_FUNCTIONS, class_="class") | {"assignment_expression": ""},
    other_values="constant",
    scopes=words("object"),
    opaque=words(_SCRIPT_FUNCTIONS + " function_declaration method_definition class_body"),
    wrappers=words(
        "export_statement lexical_declaration variable_declaration expression_statement"
        " assignment_expression"
    ),
    annotations=words("decorator"),
    dull=words("import_statement"),
    is_dull=_is_script_import,
    silent=words("exports module this prototype window self globalThis default"),
)


TYPESCRIPT = replace(
    JAVASCRIPT,
    name="typescript",
    suffixes=(".ts", ".mts", ".cts"),
    module="tree_sitter_typescript",
    function="language_typescript",
    definitions={
        **JAVASCRIPT.definitions,
        **kinds(
            class_="abstract_class_declaration",
            interface="interface_declaration",
            enum="enum_declaration",
            namespace="internal_module module",
            function="function_signature",
            method="abstract_method_signature method_signature",
            type="type_alias_declaration",
        ),
    },
    inside=words(
        _SCRIPT_INSIDE
        + " public_field_definition ambient_declaration as_expression satisfies_expression"
    ),
    identifiers=words(_SCRIPT_NAMES + " type_identifier"),
    assignments=_SCRIPT_ASSIGNMENTS | {"public_field_definition": ("name", "value")},
    wrappers=JAVASCRIPT.wrappers | {"ambient_declaration"},
    # The signatures of an overloaded function stand before it.
    has_clauses=True,
)
TSX = replace(TYPESCRIPT, suffixes=(".tsx",), function="language_tsx")

# JavaScript with types, as Flow checks them: its own grammar stops at the first one. What this one
# does not know, such as `?string`, is an error in the signature.
FLOW = replace(TSX, name=JAVASCRIPT.name, suffixes=(), is_tolerant=True)
VUE = replace(TYPESCRIPT, name="vue", suffixes=(".vue",), component=True)
SVELTE = replace(TYPESCRIPT, name="svelte", suffixes=(".svelte",), component=True)

# ---- Components

_OPENING = re.compile(rb"<script(?=[\s>])", re.IGNORECASE)
# The rest of a tag; values may contain ">". Nothing is matched twice: time is linear.
_REST_OF_TAG = re.compile(rb"""(?:[^>"']|"[^"]*+"|'[^']*+')*+>""")
_CLOSING = re.compile(rb"</script\s*+>", re.IGNORECASE)


def scripts_only(source: bytes) -> bytes:
    """The source with a space for each byte that is in no script, so that every offset stays."""
    parts: list[bytes] = []
    end = 0
    for script_start, script_end in _scripts(source):
        parts += (blanked(source[end:script_start]), source[script_start:script_end])
        end = script_end
    return b"".join([*parts, blanked(source[end:])])


def _scripts(source: bytes) -> Iterator[tuple[int, int]]:
    """Where each script starts and ends; the last may lack its closing tag."""
    end = 0

    while opening := _OPENING.search(source, end):
        tag = _REST_OF_TAG.match(source, opening.end())
        if tag is None:
            return

        closing = _CLOSING.search(source, tag.end())
        end = closing.start() if closing else len(source)
        yield tag.end(), end


LANGUAGES = (JAVASCRIPT, TYPESCRIPT, TSX, VUE, SVELTE)
