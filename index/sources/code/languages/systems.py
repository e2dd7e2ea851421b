"""Go, Rust and Zig: methods apart from their types."""

from __future__ import annotations

import re

import tree_sitter as ts

from purlin.index.sources.code.languages.nodes import child, first_child, node_text
from purlin.index.sources.code.syntax import COMMON_NAMES, Language
from purlin.index.sources.words import kinds, words

# ---- Go


def _first_spec(node: ts.Node) -> ts.Node | None:
    """The name of the first constant or variable in a block of them."""
    specs = first_child(node, "var_spec_list") or node
    spec = first_child(specs, "const_spec", "var_spec")
    return child(spec or node, "name")


def _is_assertion(node: ts.Node) -> bool:
    """Whether a variable without a name only has the compiler check a type: `var _ Shape = Disc{}`."""
    spec = first_child(node, "var_spec") if node.type == "var_declaration" else None
    return node_text(child(spec, "name")) == "_"


GO = Language(
    name="go",
    suffixes=(".go",),
    module="tree_sitter_go",
    definitions=kinds(
        function="function_declaration",
        method="method_declaration",
        constant="const_declaration var_declaration",
        type="type_alias",
    ),
    find_name=_first_spec,
    inside=words("type_declaration"),
    identifiers=words("identifier field_identifier type_identifier package_identifier"),
    assignments={"type_spec": ("name", "type")},
    values=kinds(struct="struct_type", interface="interface_type"),
    other_values="type",
    wrappers=words("type_declaration"),
    dull=words("package_clause import_declaration"),
    is_dull=_is_assertion,
    owners={"method_declaration": "receiver"},
)


# ---- Rust


def _rust_name(node: ts.Node) -> ts.Node | None:
    """The name, or the type that an `impl` is for."""
    named = child(node, "name", "type")
    return child(named, "type") or named


# `#[test]`, `#[tokio::test(…)]`, `#[bench]` and `#[cfg(test)]`, also `#[cfg(all(unix, test))]`, but
# neither `#[cfg(not(test))]` nor `#[cfg(any(test, feature = "…"))]`, which others compile, too.
_RUST_TEST = re.compile(
    r"#\[\s*(?:(?:\w+::)*(?:test|bench|rstest|test_case|quickcheck|wasm_bindgen_test)\s*[\](]"
    r"|cfg\s*\(\s*(?:all\s*\([^()]*?\b)?test\s*[,)])"
)

RUST = Language(
    name="rust",
    suffixes=(".rs",),
    module="tree_sitter_rust",
    definitions=kinds(
        function="function_item function_signature_item",
        struct="struct_item",
        union="union_item",
        enum="enum_item",
        trait="trait_item",
        scope="impl_item",
        namespace="mod_item",
        macro="macro_definition",
        constant="const_item static_item",
        type="type_item",
    ),
    find_name=_rust_name,
    inside=words("declaration_list foreign_mod_item"),
    identifiers=words(COMMON_NAMES + " shorthand_field_identifier"),
    comments=words("line_comment block_comment"),
    is_prefix=lambda node: node.type == "attribute_item",
    body_starts=words("{ ; field_declaration_list enum_variant_list declaration_list macro_rule"),
    dull=words("use_declaration extern_crate_declaration inner_attribute_item"),
    is_dull=lambda node: node.type == "mod_item" and child(node, "body") is None,
    has_role=lambda node: child(node, "trait") is not None,
    generics=True,
    test_mark=_RUST_TEST,
)


# ---- Zig


def _zig_variable(node: ts.Node) -> str:
    """The kind of a constant: what it is initialized with."""
    value = first_child(node, "struct_declaration", "union_declaration", "enum_declaration",
                   "opaque_declaration", "error_set_declaration")  # fmt: skip
    if value is None:
        return "constant"
    return {"error": "enum", "opaque": "struct"}.get(kind := value.type.partition("_")[0], kind)


ZIG = Language(
    name="zig",
    suffixes=(".zig",),
    module="tree_sitter_zig",
    definitions={
        # One that returns a type is what other languages call a generic class.
        "function_declaration": lambda node: (
            "struct" if node_text(child(node, "type")) == "type" else "function"
        ),
        "variable_declaration": _zig_variable,
        "test_declaration": "test",
    },
    find_name=lambda node: (
        child(node, "name") or first_child(node, "identifier") or first_child(node, "string")
    ),
    inside=words(
        "block expression_statement return_expression struct_declaration union_declaration enum_declaration"
    ),
    body_starts=words(
        "block struct_declaration union_declaration enum_declaration opaque_declaration ;"
    ),
    is_dull=lambda node: (
        node.type == "variable_declaration"
        and node_text(first_child(first_child(node, "builtin_function"), "builtin_identifier"))
        == "@import"
    ),
)

LANGUAGES = (GO, RUST, ZIG)
