"""Java, C#, Kotlin, Scala and Swift: classes with methods."""

from __future__ import annotations

import tree_sitter as ts

from purlin.index.sources.code.languages.nodes import first_child, kinds, node_text, types
from purlin.index.sources.code.syntax import Language

# ---- Java


def _with_body(node: ts.Node) -> str | None:
    """A constant of an enum with methods of its own, which make it a class."""
    return "class" if first_child(node, "class_body") is not None else None


JAVA = Language(
    name="java",
    suffixes=(".java",),
    module="tree_sitter_java",
    definitions={
        **kinds(
            method="method_declaration constructor_declaration compact_constructor_declaration",
            class_="class_declaration",
            interface="interface_declaration annotation_type_declaration",
            enum="enum_declaration",
            record="record_declaration",
        ),
        "enum_constant": _with_body,
    },
    inside=types("class_body interface_body enum_body enum_body_declarations annotation_type_body"),
    comments=types("line_comment block_comment"),
    annotations=types("annotation marker_annotation"),
    dull=types("package_declaration import_declaration"),
)


# ---- C#


def _c_sharp_property(node: ts.Node) -> str | None:
    """A property, indexer or event with code of its own; `{ get; set; }` is left to the class."""
    if first_child(node, "arrow_expression_clause") is not None:
        return "method"
    accessors = node.child_by_field_name("accessors")
    parts = accessors.named_children if accessors is not None else []
    return "method" if any(part.child_by_field_name("body") for part in parts) else None


def _c_sharp_name(node: ts.Node) -> ts.Node | str | None:
    # A namespace is long and says what the path says.
    if node.type == "namespace_declaration":
        return None
    if node.type == "indexer_declaration":
        return "this"
    return node.child_by_field_name("name") or node.child_by_field_name("operator")


C_SHARP = Language(
    name="csharp",
    suffixes=(".cs", ".csx"),
    module="tree_sitter_c_sharp",
    definitions={
        **kinds(
            function="local_function_statement",
            method="method_declaration constructor_declaration destructor_declaration operator_declaration",
            class_="class_declaration",
            struct="struct_declaration",
            interface="interface_declaration",
            enum="enum_declaration",
            record="record_declaration",
            type="delegate_declaration",
            namespace="namespace_declaration",
        ),
        **dict.fromkeys(
            ("property_declaration", "indexer_declaration", "event_declaration"), _c_sharp_property
        ),
    },
    find_name=_c_sharp_name,
    inside=types("declaration_list global_statement preproc_if preproc_else preproc_elif"),
    annotations=types("attribute_list"),
    body_starts=types("{ ; arrow_expression_clause accessor_list"),
    dull=types(
        "using_directive extern_alias_directive file_scoped_namespace_declaration preproc_region"
        " preproc_endregion"
    ),
    is_tolerant=True,
)


# ---- Kotlin


def _kotlin_kind(node: ts.Node) -> str:
    words = {child.type for child in node.children} | set(
        node_text(first_child(node, "modifiers")).split()
    )
    return next((word for word in ("interface", "enum") if word in words), "class")


def _kotlin_name(node: ts.Node) -> ts.Node | str | None:
    if node.type == "secondary_constructor":
        return "constructor"
    if node.type == "companion_object":
        return node.child_by_field_name("name") or "Companion"
    if node.type == "property_declaration":
        return first_child(first_child(node, "variable_declaration"), "identifier")
    if node.type == "enum_entry":
        return first_child(node, "identifier")

    return node.child_by_field_name("name") or node.child_by_field_name("type")


KOTLIN = Language(
    name="kotlin",
    suffixes=(".kt", ".kts"),
    module="tree_sitter_kotlin",
    definitions={
        "class_declaration": _kotlin_kind,
        "enum_entry": _with_body,
        **kinds(
            function="function_declaration",
            method="secondary_constructor",
            object="object_declaration",
            scope="companion_object",
            type="type_alias",
        ),
        "property_declaration": lambda node: (
            "function" if first_child(node, "getter", "setter") else "constant"
        ),
    },
    find_name=_kotlin_name,
    inside=types("class_body enum_class_body"),
    comments=types("line_comment block_comment"),
    annotations=types("annotation"),
    body_starts=types("{ class_body enum_class_body function_body block getter setter"),
    dull=types("package_header import"),
    silent=types("Companion"),
    is_tolerant=True,
)


# ---- Scala


SCALA = Language(
    name="scala",
    suffixes=(".scala", ".sc", ".sbt"),
    module="tree_sitter_scala",
    definitions=kinds(
        function="function_definition function_declaration",
        class_="class_definition",
        object="object_definition package_object",
        trait="trait_definition",
        enum="enum_definition",
        type="type_definition",
        constant="val_definition var_definition",
        instance="given_definition",
        namespace="package_clause",
    ),
    find_name=lambda node: node.child_by_field_name("name") or node.child_by_field_name("pattern"),
    inside=types("template_body enum_body extension_definition package_clause"),
    comments=types("comment block_comment"),
    annotations=types("annotation"),
    body_starts=types("template_body enum_body = {"),
    dull=types("import_declaration"),
    is_dull=lambda node: (
        node.type == "package_clause" and first_child(node, "template_body") is None
    ),
    is_tolerant=True,
)


# ---- Swift


def _swift_kind(node: ts.Node) -> str:
    word = node_text(node.child_by_field_name("declaration_kind"))
    return "scope" if word == "extension" else "class" if word == "actor" else word


def _swift_name(node: ts.Node) -> ts.Node | str | None:
    if node.type in ("deinit_declaration", "subscript_declaration"):
        return node.type.partition("_")[0]
    name = node.child_by_field_name("name")
    return first_child(name, "simple_identifier") if name and name.type == "pattern" else name


SWIFT = Language(
    name="swift",
    suffixes=(".swift",),
    module="tree_sitter_swift",
    definitions={
        "class_declaration": _swift_kind,
        **kinds(
            function="function_declaration protocol_function_declaration",
            method="init_declaration deinit_declaration subscript_declaration",
            protocol="protocol_declaration",
            type="typealias_declaration",
        ),
        "property_declaration": lambda node: (
            "function" if node.child_by_field_name("computed_value") else "constant"
        ),
    },
    find_name=_swift_name,
    inside=types("class_body enum_class_body protocol_body"),
    comments=types("comment multiline_comment"),
    annotations=types("attribute"),
    body_starts=types("{ class_body enum_class_body protocol_body function_body computed_property"),
    dull=types("import_declaration"),
    has_role=lambda node: (
        _swift_kind(node) == "scope" and first_child(node, "inheritance_specifier") is not None
    ),
    generics=True,
    is_tolerant=True,
)
