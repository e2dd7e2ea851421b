"""Describe each language's syntax tree as data: which nodes define something, which hold names.

To add a language, add a `Language`. Node types are those of its tree-sitter grammar.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache

import tree_sitter as ts
import tree_sitter_go
import tree_sitter_java
import tree_sitter_javascript
import tree_sitter_php
import tree_sitter_python
import tree_sitter_ruby
import tree_sitter_typescript


@dataclass(frozen=True, eq=False)
class Language:
    """One grammar and its node types.

    `definitions` maps a node type to its kind of definition. `assignments` are nodes that define
    something only if their value, in the second field, is one of `values`; the first field holds
    the name, and a node without that field is named `default`. The kinds `scope` and `namespace`
    qualify the names inside without being definitions themselves.

    `inside` are the nodes that may contain definitions, and `wrappers` those that belong to the one
    definition they contain (`export`, decorators). `owners` maps a node type to the field with the
    type that a method belongs to, and `silent` are names left out of a qualified name. `shells` are
    the prefixes and suffixes that make a program of a bare definition; `{indent}` becomes the
    indentation of the lines after its first.
    """

    name: str
    suffixes: tuple[str, ...]
    load: Callable[[], object]
    definitions: Mapping[str, str]
    inside: frozenset[str]
    identifiers: frozenset[str]
    assignments: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    values: Mapping[str, str] = field(default_factory=dict)
    wrappers: frozenset[str] = frozenset()
    comments: frozenset[str] = frozenset({"comment"})
    annotations: frozenset[str] = frozenset()
    owners: Mapping[str, str] = field(default_factory=dict)
    silent: frozenset[str] = frozenset()
    shells: tuple[tuple[str, str], ...] = (("", ""),)
    docstrings: bool = False


@cache
def grammar(language: Language) -> ts.Language:
    """Load the grammar, once per process."""
    return ts.Language(language.load())


@cache
def keywords(language: Language) -> frozenset[str]:
    """The words of the grammar, including those that may also be names (`get`, `print`)."""
    tree_grammar = grammar(language)
    kinds = (
        tree_grammar.node_kind_for_id(kind)
        for kind in range(tree_grammar.node_kind_count)
        if not tree_grammar.node_kind_is_named(kind)
    )

    return frozenset(kind for kind in kinds if kind and kind.isalpha())


def _types(names: str) -> frozenset[str]:
    return frozenset(names.split())


def _kinds(**nodes: str) -> dict[str, str]:
    """Map node types to kinds: `class_="a b", enum="c"` -> {a: class, b: class, c: enum}."""
    return {node: kind.rstrip("_") for kind, names in nodes.items() for node in names.split()}


PYTHON = Language(
    name="python",
    suffixes=(".py",),
    load=tree_sitter_python.language,
    definitions=_kinds(function="function_definition", class_="class_definition"),
    inside=_types(
        "block decorated_definition if_statement elif_clause else_clause try_statement except_clause"
        " except_group_clause finally_clause with_statement for_statement while_statement match_statement case_clause"
    ),
    identifiers=_types("identifier"),
    wrappers=_types("decorated_definition"),
    annotations=_types("decorator"),
    shells=(("", ""), ("if 1:\n{indent}", "")),
    docstrings=True,
)

# What JavaScript and TypeScript share.
_SCRIPT_FUNCTIONS = "arrow_function function_expression generator_function"
_SCRIPT_INSIDE = (
    "export_statement lexical_declaration variable_declaration variable_declarator expression_statement"
    " assignment_expression object pair class class_body statement_block if_statement else_clause try_statement"
    " call_expression new_expression arguments array parenthesized_expression function_expression arrow_function"
    " unary_expression binary_expression ternary_expression sequence_expression return_statement"
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

JAVASCRIPT = Language(
    name="javascript",
    suffixes=(".js", ".mjs", ".cjs", ".jsx"),
    load=tree_sitter_javascript.language,
    definitions=_kinds(
        function="function_declaration generator_function_declaration",
        method="method_definition",
        class_="class_declaration",
    ),
    inside=_types(_SCRIPT_INSIDE + " field_definition"),
    identifiers=_types(_SCRIPT_NAMES),
    assignments=_SCRIPT_ASSIGNMENTS | {"field_definition": ("property", "value")},
    values=_kinds(function=_SCRIPT_FUNCTIONS, class_="class", scope="object"),
    wrappers=_types(
        "export_statement lexical_declaration variable_declaration expression_statement"
    ),
    annotations=_types("decorator"),
    silent=_types("exports module this prototype window self globalThis default"),
    shells=(("", ""), ("(", ")"), ("class _ {", "}"), ("_ = {", "}")),
)


def _typescript(suffixes: tuple[str, ...], load: Callable[[], object]) -> Language:
    return Language(
        name="typescript",
        suffixes=suffixes,
        load=load,
        definitions={**JAVASCRIPT.definitions}
        | _kinds(
            class_="abstract_class_declaration",
            interface="interface_declaration",
            enum="enum_declaration",
            namespace="internal_module module",
            method="abstract_method_signature",
        ),
        inside=_types(
            _SCRIPT_INSIDE
            + " public_field_definition ambient_declaration as_expression satisfies_expression"
        ),
        identifiers=_types(_SCRIPT_NAMES + " type_identifier"),
        assignments=_SCRIPT_ASSIGNMENTS | {"public_field_definition": ("name", "value")},
        values=JAVASCRIPT.values,
        wrappers=JAVASCRIPT.wrappers | {"ambient_declaration"},
        annotations=JAVASCRIPT.annotations,
        silent=JAVASCRIPT.silent,
        shells=JAVASCRIPT.shells,
    )


TYPESCRIPT = _typescript((".ts", ".mts", ".cts"), tree_sitter_typescript.language_typescript)
TSX = _typescript((".tsx",), tree_sitter_typescript.language_tsx)

GO = Language(
    name="go",
    suffixes=(".go",),
    load=tree_sitter_go.language,
    definitions=_kinds(function="function_declaration", method="method_declaration"),
    inside=_types("type_declaration"),
    identifiers=_types("identifier field_identifier type_identifier package_identifier"),
    assignments={"type_spec": ("name", "type")},
    values=_kinds(struct="struct_type", interface="interface_type"),
    wrappers=_types("type_declaration"),
    owners={"method_declaration": "receiver"},
)

JAVA = Language(
    name="java",
    suffixes=(".java",),
    load=tree_sitter_java.language,
    definitions=_kinds(
        method="method_declaration constructor_declaration compact_constructor_declaration",
        class_="class_declaration",
        interface="interface_declaration annotation_type_declaration",
        enum="enum_declaration",
        record="record_declaration",
    ),
    inside=_types(
        "class_body interface_body enum_body enum_body_declarations annotation_type_body"
    ),
    identifiers=_types("identifier type_identifier"),
    comments=_types("line_comment block_comment"),
    annotations=_types("annotation marker_annotation"),
    shells=(("", ""), ("class _ {", "}")),
)

PHP = Language(
    name="php",
    suffixes=(".php",),
    load=tree_sitter_php.language_php,
    definitions=_kinds(
        function="function_definition",
        method="method_declaration",
        class_="class_declaration",
        interface="interface_declaration",
        trait="trait_declaration",
        enum="enum_declaration",
        namespace="namespace_definition",
    ),
    inside=_types(
        "declaration_list enum_declaration_list compound_statement colon_block if_statement else_clause else_if_clause"
        " try_statement"
    ),
    identifiers=_types("name"),
    annotations=_types("attribute_list"),
    shells=(("<?php ", ""), ("<?php class _ {", "}")),
)

RUBY = Language(
    name="ruby",
    suffixes=(".rb", ".rake"),
    load=tree_sitter_ruby.language,
    definitions=_kinds(
        function="method", method="singleton_method", class_="class", module="module"
    ),
    inside=_types(
        "body_statement singleton_class if unless elsif else then begin call do_block block block_body argument_list"
    ),
    identifiers=_types("identifier constant instance_variable class_variable global_variable"),
    owners={"singleton_method": "object"},
    silent=_types("self"),
)

LANGUAGES = (PYTHON, JAVASCRIPT, TYPESCRIPT, TSX, GO, JAVA, PHP, RUBY)
BY_SUFFIX = {suffix: language for language in LANGUAGES for suffix in language.suffixes}
