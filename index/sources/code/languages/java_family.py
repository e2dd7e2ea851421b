"""Java, C#, Kotlin, Scala and Swift: classes with methods."""

from __future__ import annotations

import re

import tree_sitter as ts

from purlin.index.sources.code.languages.nodes import (
    child,
    first_child,
    first_part,
    named_block,
    node_text,
    parts,
    unquoted,
)
from purlin.index.sources.code.syntax import Block, Language, blanked
from purlin.index.sources.words import kinds, words

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
    inside=words("class_body interface_body enum_body enum_body_declarations annotation_type_body"),
    comments=words("line_comment block_comment"),
    annotations=words("annotation marker_annotation"),
    dull=words("package_declaration import_declaration"),
)


# ---- C#


def _c_sharp_property(node: ts.Node) -> str | None:
    """A property, indexer or event with code of its own; `{ get; set; }` is left to the class."""
    if first_child(node, "arrow_expression_clause") is not None:
        return "method"
    has_code = any(child(accessor, "body") for accessor in parts(child(node, "accessors")))
    return "method" if has_code else None


def _c_sharp_name(node: ts.Node) -> ts.Node | str | None:
    # A namespace is long and says what the path says.
    if node.type == "namespace_declaration":
        return None
    if node.type == "indexer_declaration":
        return "this"
    return child(node, "name", "operator")


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
    inside=words("declaration_list global_statement preproc_if preproc_else preproc_elif"),
    annotations=words("attribute_list"),
    body_starts=words("{ ; arrow_expression_clause accessor_list"),
    dull=words(
        "using_directive extern_alias_directive file_scoped_namespace_declaration preproc_region"
        " preproc_endregion"
    ),
    is_tolerant=True,
)


# ---- Calls of Kotlin, Scala and Swift with a lambda behind them


_STRINGS = words("string string_literal line_string_literal")


def _lambda_block(call: ts.Node) -> Block | None:
    """A call with a string and a lambda: `test("adds") { … }`."""
    body = first_child(
        first_child(call, "call_suffix", "annotated_lambda") or call, "lambda_literal", "block"
    )
    callee = first_part(call)
    arguments = first_child(first_child(call, "call_suffix"), "value_arguments")
    # Swift has the arguments beside the lambda, the others in a call inside of the call.
    if arguments is None and callee is not None and callee.type == "call_expression":
        arguments = first_child(callee, "value_arguments", "arguments")
        callee = first_part(callee)

    name = first_part(arguments)
    if name is not None and name.type == "value_argument":
        name = first_part(name)
    is_named = name is not None and name.type in _STRINGS and node_text(callee)
    return named_block(call, node_text(callee), unquoted(name), body) if is_named and body else None


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
        return child(node, "name") or "Companion"
    if node.type == "property_declaration":
        return first_child(first_child(node, "variable_declaration"), "identifier")
    if node.type == "enum_entry":
        return first_child(node, "identifier")

    return child(node, "name", "type")


def _kotlin_block(call: ts.Node) -> Block | None:
    """A call with a lambda: `test("adds") { … }`, or a test of Kotest's that is a string alone."""
    callee = first_part(call)
    if callee is not None and callee.type == "call_expression":
        # `"adds".config(enabled = false) { … }`
        callee = first_part(callee)
    if callee is not None and callee.type == "navigation_expression":
        callee = first_part(callee)
    if callee is None or callee.type != "string_literal":
        return _lambda_block(call)

    body = first_child(first_child(call, "annotated_lambda"), "lambda_literal")
    return Block("test", unquoted(callee), body) if body is not None and _in_spec(call) else None


def _kotlin_group(node: ts.Node) -> Block | None:
    """A string that groups Kotest's tests: `"a gate" should { … }`, `"a gate" - { … }`."""
    name, body = first_part(node), first_child(node, "lambda_literal")
    if name is None or name.type != "string_literal" or body is None:
        return None
    return Block("namespace", unquoted(name), body) if _in_spec(node) else None


def _in_spec(node: ts.Node) -> bool:
    """Whether a node is in a class that inherits from one of Kotest's: `StringSpec`, `FreeSpec`."""
    ancestor = node.parent
    while ancestor is not None and ancestor.type != "class_declaration":
        ancestor = ancestor.parent
    bases = (
        first_child(base, "constructor_invocation")
        for base in parts(first_child(ancestor, "delegation_specifiers"))
    )
    return any(node_text(first_child(base, "user_type")).endswith("Spec") for base in bases)


# In the head of a class, what a type is implemented by: with the body behind it, it reads as a call.
_DELEGATE = re.compile(
    rb"^(?P<head>(?:(?=[^\n{]{0,400}?\b(?:class|object)\b)|[ \t]*+[):A-Z])[^\n{]{0,800}?)"
    rb"(?P<delegate>\bby[ \t]++[\w.]++(?:\([^()\n]{0,200}+\))?+)(?=[ \t]*+\{)",
    re.MULTILINE,
)


def _without_delegates(source: bytes) -> bytes:
    """The source with `class A : B` for `class A : B by b`."""
    return _DELEGATE.sub(lambda match: match["head"] + blanked(match["delegate"]), source)


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
        "call_expression": _kotlin_block,
        "infix_expression": _kotlin_group,
        "binary_expression": _kotlin_group,
    },
    find_name=_kotlin_name,
    # Kotest has the tests of a class in a lambda that its head gives to the class above.
    inside=words(
        "class_body enum_class_body delegation_specifiers delegation_specifier constructor_invocation value_arguments"
        " value_argument annotated_lambda lambda_literal anonymous_initializer block"
    ),
    opaque=words("lambda_literal anonymous_initializer"),
    comments=words("line_comment block_comment"),
    annotations=words("annotation"),
    body_starts=words("{ class_body enum_class_body function_body block getter setter"),
    dull=words("package_header import"),
    silent=words("Companion"),
    is_tolerant=True,
    rewrite=_without_delegates,
)


# ---- Scala


def _scala_infix_block(node: ts.Node) -> Block | None:
    """A sentence with a block, as ScalaTest has them: `"A gate" should "open" in { … }`."""
    kind = _SCALA_SENTENCES.get(node_text(child(node, "operator")))
    sentence = _scala_sentence(node) if kind and first_child(node, "block") is not None else ""
    return Block(kind, sentence, node) if kind and sentence else None


_SCALA_SENTENCES = {"in": "test", "should": "namespace", "must": "namespace", "when": "namespace"}


def _scala_sentence(node: ts.Node) -> str:
    """The words before the block: `A gate should open`; empty if they are no strings."""
    subject = child(node, "left")
    if subject is None or subject.type == "string":
        return unquoted(subject)
    if subject.type != "infix_expression":
        return ""
    first, last = (_scala_word(child(subject, side)) for side in ("left", "right"))
    return " ".join([first, node_text(child(subject, "operator")), last]) if last else ""


def _scala_word(side: ts.Node | None) -> str:
    """A string's text, or a word such as `it`."""
    return unquoted(side) or (node_text(side) if side and side.type == "identifier" else "")


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
    )
    | {"call_expression": _lambda_block, "infix_expression": _scala_infix_block},
    find_name=lambda node: child(node, "name", "pattern"),
    inside=words("template_body enum_body extension_definition package_clause block"),
    opaque=words("block"),
    comments=words("comment block_comment"),
    annotations=words("annotation"),
    body_starts=words("template_body enum_body = { block"),
    dull=words("import_declaration"),
    is_dull=lambda node: (
        node.type == "package_clause" and first_child(node, "template_body") is None
    ),
    is_tolerant=True,
)


# ---- Swift


def _swift_kind(node: ts.Node) -> str:
    word = node_text(child(node, "declaration_kind"))
    return "scope" if word == "extension" else "class" if word == "actor" else word


def _swift_function(node: ts.Node) -> str:
    """A function, or where Quick has the tests of a class, `override func spec()`."""
    is_spec = node_text(child(node, "name")) == "spec"
    overrides = "override" in node_text(first_child(node, "modifiers"))
    return "scope" if is_spec and overrides else "function"


def _swift_name(node: ts.Node) -> ts.Node | str | None:
    if node.type == "function_declaration" and _swift_function(node) == "scope":
        return ""
    if node.type in ("deinit_declaration", "subscript_declaration"):
        return node.type.partition("_")[0]
    name = child(node, "name")
    return first_child(name, "simple_identifier") if name and name.type == "pattern" else name


SWIFT = Language(
    name="swift",
    suffixes=(".swift",),
    module="tree_sitter_swift",
    definitions={
        "class_declaration": _swift_kind,
        "function_declaration": _swift_function,
        "call_expression": _lambda_block,
        **kinds(
            function="protocol_function_declaration",
            method="init_declaration deinit_declaration subscript_declaration",
            protocol="protocol_declaration",
            type="typealias_declaration",
        ),
        "property_declaration": lambda node: (
            "function" if child(node, "computed_value") else "constant"
        ),
    },
    find_name=_swift_name,
    inside=words(
        "class_body enum_class_body protocol_body function_body statements call_suffix lambda_literal"
    ),
    opaque=words("function_body lambda_literal"),
    comments=words("comment multiline_comment"),
    annotations=words("attribute"),
    body_starts=words("{ class_body enum_class_body protocol_body function_body computed_property"),
    dull=words("import_declaration"),
    has_role=lambda node: (
        _swift_kind(node) == "scope" and first_child(node, "inheritance_specifier") is not None
    ),
    generics=True,
    is_tolerant=True,
)

LANGUAGES = (JAVA, C_SHARP, KOTLIN, SCALA, SWIFT)
