"""The languages whose definitions are read: for each, which syntax nodes define something.

To add a language, add a `Language`. Node types are those of its tree-sitter grammar.
"""

from __future__ import annotations

import copyreg
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from inspect import cleandoc

import tree_sitter as ts

from purlin.index.sources.conditionals import resolved
from purlin.index.sources.nodes import STRING, first_child, kinds, node_text, types, unquoted
from purlin.index.sources.optional_languages import OPTIONAL_LANGUAGES
from purlin.index.sources.syntax import KindOf, Language, synopsis

# What most grammars call their names.
_NAMES = "identifier type_identifier field_identifier simple_identifier property_identifier"


# ---- Python


def _statement_string(statement: ts.Node | None) -> str:
    """The text of a statement that is nothing but a string."""
    if statement is None or statement.type != "expression_statement":
        return ""
    string = statement.named_child(0) if statement.named_child_count else None
    return unquoted(string) if string is not None and string.type == "string" else ""


def _python_docstring(definition: ts.Node, _prefixes: Sequence[ts.Node]) -> str:
    body = definition.child_by_field_name("body")
    return _statement_string(body.named_child(0)) if body and body.named_child_count else ""


def _python_file_docstring(root: ts.Node) -> str:
    for position in range(root.named_child_count):
        statement = root.named_child(position)
        if statement is not None and statement.type != "comment":
            return _statement_string(statement)
    return ""


def _is_dunder(node: ts.Node) -> bool:
    """Whether a statement sets `__all__`, `__version__` or the like."""
    if node.type != "expression_statement" or (value := first_child(node, "assignment")) is None:
        return False
    name = node_text(value.child_by_field_name("left"))
    return name.startswith("__") and name.endswith("__")


PYTHON = Language(
    name="python",
    suffixes=(".py", ".pyi", ".pyx", ".pxd", ".pxi", ".pyw", ".smk"),
    module="tree_sitter_python",
    definitions=kinds(
        function="function_definition", class_="class_definition", type="type_alias_statement"
    ),
    find_name=lambda node: node.child_by_field_name("name") or node.child_by_field_name("left"),
    inside=types(
        "block decorated_definition if_statement elif_clause else_clause try_statement except_clause"
        " except_group_clause finally_clause with_statement for_statement while_statement match_statement case_clause"
        " expression_statement"
    ),
    identifiers=types("identifier"),
    assignments={"assignment": ("left", "right")},
    other_values="constant",
    wrappers=types("decorated_definition"),
    annotations=types("decorator"),
    dull=types("import_statement import_from_statement future_import_statement"),
    is_dull=_is_dunder,
    docstring=_python_docstring,
    file_docstring=_python_file_docstring,
    shells=(("", ""), ("if 1:\n{indent}", "")),
)


# ---- JavaScript and TypeScript

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
            node.child_by_field_name("source") is not None
            or first_child(node, "export_clause") is not None
            or node_text(node.child_by_field_name("value")).isidentifier()
        )
    if node.type != "expression_statement":
        return False
    if first_child(node, "string") is not None:
        return True

    assignment = first_child(node, "assignment_expression")
    target = node_text(assignment.child_by_field_name("left")) if assignment is not None else ""
    return target.startswith(("module.exports", "exports.")) and (
        _is_required(assignment, "right") or _is_list_of_names(assignment)
    )


def _is_required(node: ts.Node | None, field: str) -> bool:
    """Whether the value in a field is `require(…)`, or a part of it."""
    value = node.child_by_field_name(field) if node is not None else None
    while value is not None and value.type in ("call_expression", "member_expression"):
        inner = value.child_by_field_name("function") or value.child_by_field_name("object")
        if inner is not None and inner.type == "identifier":
            return node_text(inner) == "require"
        value = inner
    return False


def _is_list_of_names(assignment: ts.Node | None) -> bool:
    """Whether the assigned value is a name, or an object of names."""
    value = assignment.child_by_field_name("right") if assignment is not None else None
    if value is None:
        return False
    parts = value.named_children if value.type == "object" else [value]
    return all(part.type in ("identifier", "shorthand_property_identifier") for part in parts)


JAVASCRIPT = Language(
    name="javascript",
    suffixes=(".js", ".mjs", ".cjs", ".jsx"),
    module="tree_sitter_javascript",
    definitions=kinds(
        function="function_declaration generator_function_declaration",
        method="method_definition",
        class_="class_declaration",
    ),
    inside=types(_SCRIPT_INSIDE + " field_definition"),
    identifiers=types(_SCRIPT_NAMES),
    assignments=_SCRIPT_ASSIGNMENTS | {"field_definition": ("property", "value")},
    # In `a = b = function …`, it is the inner assignment that defines.
    values=kinds(function=_SCRIPT_FUNCTIONS, class_="class") | {"assignment_expression": ""},
    other_values="constant",
    scopes=types("object"),
    opaque=types(_SCRIPT_FUNCTIONS + " function_declaration method_definition class_body"),
    wrappers=types(
        "export_statement lexical_declaration variable_declaration expression_statement"
        " assignment_expression"
    ),
    annotations=types("decorator"),
    dull=types("import_statement"),
    is_dull=_is_script_import,
    silent=types("exports module this prototype window self globalThis default"),
    shells=(("", ""), ("(", ")"), ("class _ {", "}"), ("_ = {", "}")),
)


def _typescript(suffixes: tuple[str, ...], function: str) -> Language:
    return Language(
        name="typescript",
        suffixes=suffixes,
        module="tree_sitter_typescript",
        function=function,
        definitions={**JAVASCRIPT.definitions}
        | kinds(
            class_="abstract_class_declaration",
            interface="interface_declaration",
            enum="enum_declaration",
            namespace="internal_module module",
            method="abstract_method_signature",
            type="type_alias_declaration",
        ),
        inside=types(
            _SCRIPT_INSIDE
            + " public_field_definition ambient_declaration as_expression satisfies_expression"
        ),
        identifiers=types(_SCRIPT_NAMES + " type_identifier"),
        assignments=_SCRIPT_ASSIGNMENTS | {"public_field_definition": ("name", "value")},
        values=JAVASCRIPT.values,
        other_values=JAVASCRIPT.other_values,
        scopes=JAVASCRIPT.scopes,
        opaque=JAVASCRIPT.opaque,
        wrappers=JAVASCRIPT.wrappers | {"ambient_declaration"},
        annotations=JAVASCRIPT.annotations,
        dull=JAVASCRIPT.dull,
        is_dull=JAVASCRIPT.is_dull,
        silent=JAVASCRIPT.silent,
        shells=JAVASCRIPT.shells,
    )


TYPESCRIPT = _typescript((".ts", ".mts", ".cts"), "language_typescript")
TSX = _typescript((".tsx",), "language_tsx")

# JavaScript with types, as Flow checks them: its own grammar stops at the first one. What this one
# does not know, such as `?string`, is an error in the signature.
FLOW = replace(TSX, name=JAVASCRIPT.name, suffixes=(), is_tolerant=True)
VUE = replace(TYPESCRIPT, name="vue", suffixes=(".vue",), component=True)
SVELTE = replace(TYPESCRIPT, name="svelte", suffixes=(".svelte",), component=True)

# ---- Go, Java, PHP, Ruby


def _first_spec(node: ts.Node) -> ts.Node | None:
    """The name of the first constant or variable in a block of them."""
    specs = first_child(node, "var_spec_list") or node
    spec = first_child(specs, "const_spec", "var_spec")
    return spec.child_by_field_name("name") if spec else node.child_by_field_name("name")


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
    inside=types("type_declaration"),
    identifiers=types("identifier field_identifier type_identifier package_identifier"),
    assignments={"type_spec": ("name", "type")},
    values=kinds(struct="struct_type", interface="interface_type"),
    other_values="type",
    wrappers=types("type_declaration"),
    dull=types("package_clause import_declaration"),
    owners={"method_declaration": "receiver"},
)

JAVA = Language(
    name="java",
    suffixes=(".java",),
    module="tree_sitter_java",
    definitions=kinds(
        method="method_declaration constructor_declaration compact_constructor_declaration",
        class_="class_declaration",
        interface="interface_declaration annotation_type_declaration",
        enum="enum_declaration",
        record="record_declaration",
    ),
    inside=types("class_body interface_body enum_body enum_body_declarations annotation_type_body"),
    identifiers=types("identifier type_identifier"),
    comments=types("line_comment block_comment"),
    annotations=types("annotation marker_annotation"),
    dull=types("package_declaration import_declaration"),
    shells=(("", ""), ("class _ {", "}")),
)

PHP = Language(
    name="php",
    suffixes=(".php", ".phtml", ".phpt"),
    module="tree_sitter_php",
    function="language_php",
    definitions=kinds(
        function="function_definition",
        method="method_declaration",
        class_="class_declaration",
        interface="interface_declaration",
        trait="trait_declaration",
        enum="enum_declaration",
        namespace="namespace_definition",
    ),
    inside=types(
        "declaration_list enum_declaration_list compound_statement colon_block if_statement else_clause else_if_clause"
        " try_statement"
    ),
    identifiers=types("name"),
    annotations=types("attribute_list"),
    dull=types("php_tag namespace_use_declaration declare_statement"),
    shells=(("<?php ", ""), ("<?php class _ {", "}")),
)

RUBY = Language(
    name="ruby",
    suffixes=(".rb", ".rake", ".gemspec", ".ru", ".rbi", ".podspec", ".jbuilder", ".thor"),
    module="tree_sitter_ruby",
    definitions=kinds(
        function="method", method="singleton_method", class_="class", module="module"
    ),
    inside=types(
        "body_statement singleton_class if unless elsif else then begin call do_block block block_body argument_list"
    ),
    identifiers=types("identifier constant instance_variable class_variable global_variable"),
    assignments={"assignment": ("left", "right")},
    other_values="constant",
    is_dull=lambda node: (
        node.type == "call" and node_text(node.child_by_field_name("method")).startswith("require")
    ),
    owners={"singleton_method": "object"},
    silent=types("self"),
)


# ---- C and C++


# Where the grammar names a function so, it has misread what is before its braces.
_NO_C_NAMES = types("if else for while do switch return void int char long short unsigned double")


def _c_name(node: ts.Node) -> ts.Node | str | None:
    """The name that a definition or its declarator gives."""
    if node.type == "expression_statement":
        return _called_name(node)

    # `main(void)` without a type; in `PHP_FUNCTION(dim)`, a macro is given the name.
    head, declarator = (node.child_by_field_name(field) for field in ("type", "declarator"))
    is_untyped = declarator is not None and declarator.type == "parenthesized_declarator"
    if node.type == "function_definition" and is_untyped and not node_text(head).isupper():
        return head

    name = _declared(node)
    return None if node_text(name) in _NO_C_NAMES else name


def _declared(node: ts.Node) -> ts.Node | None:
    """The name inside the pointers, arrays and parameter lists of a declarator."""
    inner: ts.Node | None = node.child_by_field_name("name")
    while inner is None and node is not None:
        declarator = node.child_by_field_name("declarator")
        if declarator is None and node.type in ("reference_declarator", "parenthesized_declarator"):
            declarator = node.named_child(0)
        if declarator is None:
            return node if node.type.endswith(("identifier", "_name")) else None
        node = declarator
        if node.type == "qualified_identifier":
            return node
        if node.type == "function_declarator" and (name := _after_macro(node)) is not None:
            return name
    return inner


def _after_macro(declarator: ts.Node) -> ts.Node | None:
    """The name in `API Type name(…)`, where the grammar takes a macro for the type, and the type for the name."""
    first, second = (declarator.named_child(at) for at in (0, 1))
    is_type = first is not None and first.type == "identifier"
    is_between = second is not None and second.is_error and second.named_child_count == 1
    return first_child(second, "identifier") if is_type and is_between else None


def _called_function(node: ts.Node) -> str | None:
    """A function whose head reads as a call: `main() {`, or a macro's `SYSCALL_DEFINE1(close, …) {`."""
    is_head = bool(node.children) and node.children[-1].is_missing
    after = node.next_named_sibling
    is_function = is_head and after is not None and after.type == "compound_statement"
    return "function" if is_function and first_child(node, "call_expression") else None


def _called_name(node: ts.Node) -> ts.Node | str | None:
    """What is called; of a macro, which has only capitals, the names that it is given."""
    call = first_child(node, "call_expression")
    callee = call.child_by_field_name("function") if call is not None else None
    if callee is not None and callee.type == "call_expression":
        call, callee = callee, callee.child_by_field_name("function")
    if call is None or not node_text(callee).isupper():
        return callee

    # `PHP_METHOD(Lamp, dim)` names a class and a method; more than two have types among them.
    parameters = call.child_by_field_name("arguments")
    names = parameters.named_children if parameters is not None else []
    is_path = len(names) == 2 and all(name.type == "identifier" for name in names)
    return ".".join(node_text(name).strip('"') for name in (names if is_path else names[:1]))


def _is_cpp_test(node: ts.Node) -> bool:
    """Whether a macro stands where a function's name would: `TEST(Suite, Case) { … }`."""
    macro = node_text(_declared_name(node))
    return "TEST" in macro and macro.isupper() and node.child_by_field_name("type") is None


def _declared_name(node: ts.Node) -> ts.Node | None:
    declarator = node.child_by_field_name("declarator")
    return declarator.child_by_field_name("declarator") if declarator is not None else None


def _cpp_kind(node: ts.Node) -> str | None:
    # `= default` and `= delete` are left to the class.
    if first_child(node, "default_method_clause", "delete_method_clause"):
        return None
    return "test" if _is_cpp_test(node) else "function"


def _cpp_name(node: ts.Node) -> ts.Node | str | None:
    """The name; of a test, what its macro is given: `Suite.Case`."""
    if node.type != "function_definition" or not _is_cpp_test(node):
        return _c_name(node)
    parameters = first_child(node.child_by_field_name("declarator"), "parameter_list")
    return ".".join(map(node_text, parameters.named_children)) if parameters else None


def _has_body(kind: str) -> Callable[[ts.Node], str | None]:
    """A kind of definition that needs a body: `struct a b;` uses a type, a typedef names its own."""
    return lambda node: (
        kind if node.child_by_field_name("body") and not _is_in_typedef(node) else None
    )


def _is_in_typedef(node: ts.Node) -> bool:
    """Whether a type is described in the typedef that names it."""
    return node.parent is not None and node.parent.type == "type_definition"


def _typedef_kind(node: ts.Node) -> str:
    """What a typedef names: a type that it describes, or another type."""
    described = node.child_by_field_name("type")
    has_body = described is not None and described.child_by_field_name("body") is not None
    kind = described.type.partition("_")[0] if described is not None else ""
    return kind if has_body and kind in ("struct", "enum", "union") else "type"


_C_DEFINITIONS: dict[str, str | KindOf] = {
    "function_definition": "function",
    "expression_statement": _called_function,
    "struct_specifier": _has_body("struct"),
    "union_specifier": _has_body("union"),
    "enum_specifier": _has_body("enum"),
    "type_definition": _typedef_kind,
    "preproc_function_def": "macro",
    "declaration": lambda node: "constant" if first_child(node, "init_declarator") else None,
}


# Lines that are nothing but a macro's call without a semicolon, and with a statement or the end of
# a block after them.
_MACRO_LINE = re.compile(
    rb"^(?P<indentation>[ \t]+)[A-Z][A-Z0-9_]+[ \t]*\((?:[^\n()]|\([^\n()]*\))*\)[ \t\r]*$"
    rb"(?=\s*(?:[A-Za-z_}#]|/[*/]))",
    re.MULTILINE,
)


def _with_semicolons(source: bytes) -> bytes:
    """The source with a semicolon for each macro that stands for a whole statement."""

    def rewritten(line: re.Match[bytes]) -> bytes:
        indentation = line["indentation"]
        return indentation + b";".ljust(len(line[0]) - len(indentation))

    return resolved(_MACRO_LINE.sub(rewritten, source))


def _is_c_body(kind: str, after: ts.Node) -> bool:
    return kind in ("function", "method") and after.type == "compound_statement"


_C_INSIDE = "preproc_ifdef preproc_if preproc_else preproc_elif linkage_specification declaration_list declaration"
_C_DULL = "preproc_include preproc_call using_declaration"

C = Language(
    name="c",
    suffixes=(".c", ".h"),
    module="tree_sitter_c",
    definitions=_C_DEFINITIONS,
    find_name=_c_name,
    inside=types(_C_INSIDE),
    identifiers=types(_NAMES),
    body_starts=types("{ ; field_declaration_list enumerator_list preproc_arg"),
    dull=types(_C_DULL),
    is_tail=_is_c_body,
    is_tolerant=True,
    rewrite=resolved,
)

CPP = Language(
    name="cpp",
    suffixes=(
        ".cpp",
        ".cc",
        ".cxx",
        ".hpp",
        ".hh",
        ".hxx",
        ".ipp",
        ".inl",
        ".tpp",
        ".cu",
        ".cuh",
        ".ino",
    ),
    module="tree_sitter_cpp",
    definitions=_C_DEFINITIONS
    | {
        "function_definition": _cpp_kind,
        "class_specifier": _has_body("class"),
        "namespace_definition": "namespace",
        "alias_declaration": "type",
        "concept_definition": "type",
    },
    find_name=_cpp_name,
    inside=types(
        _C_INSIDE
        + " field_declaration_list field_declaration template_declaration struct_specifier union_specifier"
    ),
    identifiers=types(_NAMES + " namespace_identifier"),
    wrappers=types("template_declaration"),
    annotations=types("template_parameter_list requires_clause"),
    body_starts=types(
        "{ ; field_declaration_list enumerator_list preproc_arg field_initializer_list try"
    ),
    dull=types(_C_DULL),
    generics=True,
    is_tolerant=True,
    rewrite=resolved,
    shells=(("", ""), ("class _ {", "};")),
)


# ---- C#, Kotlin, Scala, Swift

C_SHARP = Language(
    name="csharp",
    suffixes=(".cs", ".csx"),
    module="tree_sitter_c_sharp",
    definitions=kinds(
        function="local_function_statement",
        method="method_declaration constructor_declaration destructor_declaration",
        class_="class_declaration",
        struct="struct_declaration",
        interface="interface_declaration",
        enum="enum_declaration",
        record="record_declaration",
        type="delegate_declaration",
        namespace="namespace_declaration",
    ),
    # A namespace is long and says what the path says.
    find_name=lambda node: (
        None if node.type == "namespace_declaration" else node.child_by_field_name("name")
    ),
    inside=types("declaration_list global_statement preproc_if preproc_else preproc_elif"),
    identifiers=types(_NAMES),
    annotations=types("attribute_list"),
    body_starts=types("{ ; arrow_expression_clause"),
    dull=types(
        "using_directive extern_alias_directive file_scoped_namespace_declaration preproc_region"
        " preproc_endregion"
    ),
    is_tolerant=True,
    shells=(("", ""), ("class _ {", "}")),
)


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
    return node.child_by_field_name("name") or node.child_by_field_name("type")


KOTLIN = Language(
    name="kotlin",
    suffixes=(".kt", ".kts"),
    module="tree_sitter_kotlin",
    definitions={
        "class_declaration": _kotlin_kind,
        **kinds(
            function="function_declaration",
            method="secondary_constructor",
            object="object_declaration",
            scope="companion_object",
            type="type_alias",
            constant="property_declaration",
        ),
    },
    find_name=_kotlin_name,
    inside=types("class_body enum_class_body"),
    identifiers=types(_NAMES),
    comments=types("line_comment block_comment"),
    annotations=types("annotation"),
    body_starts=types("{ class_body enum_class_body function_body block"),
    dull=types("package_header import"),
    silent=types("Companion"),
    is_tolerant=True,
    shells=(("", ""), ("class _ {", "}")),
)

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
    identifiers=types(_NAMES),
    comments=types("comment block_comment"),
    annotations=types("annotation"),
    body_starts=types("template_body enum_body = {"),
    dull=types("import_declaration"),
    is_dull=lambda node: (
        node.type == "package_clause" and first_child(node, "template_body") is None
    ),
    is_tolerant=True,
    shells=(("", ""), ("class _ {", "}")),
)


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
            constant="property_declaration",
        ),
    },
    find_name=_swift_name,
    inside=types("class_body enum_class_body protocol_body"),
    identifiers=types(_NAMES),
    comments=types("comment multiline_comment"),
    annotations=types("attribute"),
    body_starts=types("{ class_body enum_class_body protocol_body function_body"),
    dull=types("import_declaration"),
    generics=True,
    is_tolerant=True,
    shells=(("", ""), ("class _ {", "}")),
)


# ---- Rust and Zig


def _rust_name(node: ts.Node) -> ts.Node | None:
    """The name, or the type that an `impl` is for."""
    named = node.child_by_field_name("name") or node.child_by_field_name("type")
    return named.child_by_field_name("type") or named if named is not None else None


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
    inside=types("declaration_list foreign_mod_item"),
    identifiers=types(_NAMES + " shorthand_field_identifier"),
    comments=types("line_comment block_comment"),
    is_prefix=lambda node: node.type == "attribute_item",
    body_starts=types("{ ; field_declaration_list enum_variant_list declaration_list macro_rule"),
    dull=types("use_declaration extern_crate_declaration inner_attribute_item"),
    is_dull=lambda node: node.type == "mod_item" and node.child_by_field_name("body") is None,
    generics=True,
    shells=(("", ""), ("impl _ {", "}")),
)


def _zig_variable(node: ts.Node) -> str:
    """The kind of a constant: what it is initialized with."""
    value = first_child(node, "struct_declaration", "union_declaration", "enum_declaration",
                   "opaque_declaration", "error_set_declaration")  # fmt: skip
    if value is None:
        return "constant"
    return {"error": "enum", "opaque": "struct"}.get(kind := value.type.partition("_")[0], kind)


def _zig_function(node: ts.Node) -> str:
    """A function that returns a type is what other languages call a generic class."""
    return "struct" if node_text(node.child_by_field_name("type")) == "type" else "function"


ZIG = Language(
    name="zig",
    suffixes=(".zig",),
    module="tree_sitter_zig",
    definitions={
        "function_declaration": _zig_function,
        "variable_declaration": _zig_variable,
        "test_declaration": "test",
    },
    find_name=lambda node: (
        node.child_by_field_name("name")
        or first_child(node, "identifier")
        or first_child(node, "string")
    ),
    inside=types(
        "block expression_statement return_expression struct_declaration union_declaration enum_declaration"
    ),
    identifiers=types(_NAMES),
    body_starts=types(
        "block struct_declaration union_declaration enum_declaration opaque_declaration ;"
    ),
    is_dull=lambda node: (
        node.type == "variable_declaration"
        and node_text(first_child(first_child(node, "builtin_function"), "builtin_identifier"))
        == "@import"
    ),
)


# ---- Bash, Lua

BASH = Language(
    name="bash",
    suffixes=(".sh", ".bash", ".zsh", ".ksh", ".bats", ".ebuild"),
    module="tree_sitter_bash",
    definitions=kinds(function="function_definition"),
    inside=types(
        "if_statement elif_clause else_clause compound_statement do_group list declaration_command"
    ),
    identifiers=types("variable_name"),
    assignments={"variable_assignment": ("name", "value")},
    other_values="constant",
    is_tolerant=True,
    # Its scanner calls C's isdigit with whole code points, and that reads a table of 256 characters.
    rewrite=partial(re.compile(rb"[^\x00-\x7f]").sub, b"_"),
)

LUA = Language(
    name="lua",
    suffixes=(".lua",),
    module="tree_sitter_lua",
    definitions=kinds(function="function_declaration"),
    inside=types(
        "variable_declaration assignment_statement table_constructor do_statement if_statement"
        " else_statement elseif_statement block return_statement expression_list"
    ),
    identifiers=types(_NAMES),
    assignments={
        "assignment_statement": ("variable_list/name", "expression_list/value"),
        "field": ("name", "value"),
    },
    values=kinds(function="function_definition", constant="table_constructor"),
    scopes=types("table_constructor"),
    opaque=types("function_declaration function_definition"),
    wrappers=types("variable_declaration"),
    silent=types("M _M self"),
)


# ---- Elixir, Haskell


def _elixir_kind(node: ts.Node) -> str | None:
    """What a call defines: modules and functions are calls of macros."""
    word = node_text(node.child_by_field_name("target"))
    return _ELIXIR_KINDS.get(word)


_ELIXIR_KINDS = {
    "defmodule": "module",
    "defprotocol": "interface",
    "defimpl": "module",
    "def": "function",
    "defp": "function",
    "defmacro": "macro",
    "defmacrop": "macro",
    "defguard": "function",
    "defguardp": "function",
    "defdelegate": "function",
    "test": "test",
    "describe": "namespace",
}


def _elixir_name(node: ts.Node) -> ts.Node | str | None:
    """The name in the head of a definition: before its parameters, and before `when`."""
    if node_text(node.child_by_field_name("target")) == "describe":
        return None
    arguments = first_child(node, "arguments")
    head = arguments.named_child(0) if arguments and arguments.named_child_count else None
    if node_text(node.child_by_field_name("target")) == "defimpl":
        pair = first_child(first_child(arguments, "keywords"), "pair")
        owner = pair.child_by_field_name("value") if pair is not None else None
        return ".".join(filter(None, (node_text(head), node_text(owner))))

    if head is not None and node_text(head.child_by_field_name("operator")) == "when":
        head = head.child_by_field_name("left")
    if head is None or head.type in ("identifier", "alias", "string"):
        return head
    return head.child_by_field_name("target") or head.child_by_field_name("operator")


def _elixir_attribute(node: ts.Node) -> str:
    """The name of a module attribute like `@doc`; empty for other nodes."""
    if node.type != "unary_operator":
        return ""
    return node_text((node.child_by_field_name("operand") or node).child_by_field_name("target"))


def _elixir_docstring(definition: ts.Node, prefixes: Sequence[ts.Node]) -> str:
    attributes = list(prefixes)
    if _elixir_kind(definition) in ("module", "interface"):
        body = first_child(definition, "do_block")
        attributes = body.named_children if body is not None else []

    for attribute in attributes:
        if _elixir_attribute(attribute) in ("doc", "moduledoc"):
            call = attribute.child_by_field_name("operand")
            return unquoted(first_child(first_child(call, "arguments"), "string", "sigil"))
    return ""


ELIXIR = Language(
    name="elixir",
    suffixes=(".ex", ".exs"),
    module="tree_sitter_elixir",
    definitions={"call": _elixir_kind},
    find_name=_elixir_name,
    inside=types("do_block"),
    # A name and the `def` before it are the same kind of node.
    identifiers=frozenset(),
    is_prefix=lambda node: (
        _elixir_attribute(node) in ("doc", "spec", "impl", "deprecated", "since", "dialyzer")
    ),
    body_starts=types("do_block"),
    is_dull=lambda node: (
        _elixir_attribute(node) == "moduledoc"
        or (
            node.type == "call"
            and node_text(node.child_by_field_name("target"))
            in ("alias", "import", "require", "use")
        )
    ),
    has_clauses=True,
    plain_parents=frozenset({"module", "interface"}),
    docstring=_elixir_docstring,
    file_docstring=lambda _root: "",
    shells=(("", ""), ("defmodule A do\n", "\nend")),
)


_HASKELL_CONSTRUCTOR = re.compile(r"\b[A-Z][\w.']*")


def _haskell_name(node: ts.Node) -> ts.Node | str | None:
    """The name, without the parentheses around an operator; of an instance, class and type."""
    if node.type == "instance":
        type_text = node_text(_last(first_child(node, "type_patterns")))
        # Of `(Either a b)` the constructor; `(a, b)` and `(a -> b)` have none.
        constructor = _HASKELL_CONSTRUCTOR.search(type_text)
        instance_of = constructor[0] if constructor else "".join(type_text.split())
        return f"{node_text(node.child_by_field_name('name'))}.{instance_of}"
    name = node.child_by_field_name("name")
    if name is None:
        name = (first_child(node, "infix") or node).child_by_field_name("operator")
    return first_child(name, "operator") or name if name is not None else None


def _last(node: ts.Node | None) -> ts.Node | None:
    return node.named_children[-1] if node is not None and node.named_child_count else None


# Of the C preprocessor: to the end of the line, or of the last that a backslash continues.
_DIRECTIVE = re.compile(
    rb"^#[ \t]*(?:if|ifdef|ifndef|elif|else|endif|define|undef|include|error|warning)\b(?:[^\n\\]|\\.|\\\n)*",
    re.MULTILINE,
)


def _without_directives(source: bytes) -> bytes:
    """The source with spaces for directives: the grammar reads nothing from `#else` to `#endif`."""
    return _DIRECTIVE.sub(lambda directive: re.sub(rb"[^\r\n]", b" ", directive[0]), source)


HASKELL = Language(
    name="haskell",
    suffixes=(".hs",),
    module="tree_sitter_haskell",
    definitions=kinds(
        function="signature function bind",
        type="data_type newtype type_synonym type_family data_family",
        class_="class",
        instance="instance",
    ),
    find_name=_haskell_name,
    inside=types("declarations class_declarations imports"),
    identifiers=types("variable constructor name"),
    comments=types("comment haddock"),
    body_starts=types("class_declarations match where"),
    dull=types("import header pragma"),
    has_clauses=True,
    rewrite=_without_directives,
)


# ---- Perl, Julia, OCaml

_POD_PARAGRAPH = re.compile(r"\n\s*\n")


def _is_perl_import(node: ts.Node) -> bool:
    """Whether a statement only loads a module, or says which package the lines after it are in."""
    return node.type == "use_statement" or (
        node.type == "package_statement" and first_child(node, "block") is None
    )


def _pod_text(pod: str) -> str | None:
    """The first paragraph that is no command such as `=head2`."""
    paragraphs = (" ".join(paragraph.split()) for paragraph in _POD_PARAGRAPH.split(pod))
    return next((text for text in paragraphs if text and not text.startswith("=")), None)


def _perl_docstring(_definition: ts.Node, prefixes: Sequence[ts.Node]) -> str | None:
    return _pod_text(node_text(prefixes[-1])) if prefixes else None


def _perl_file_docstring(root: ts.Node) -> str | None:
    """What the POD says below NAME: `Shop::Receipt - writes receipts`."""
    for node in root.named_children:
        if node.type == "pod" and (
            name := re.search(r"^=head1 NAME\s", node_text(node), re.MULTILINE)
        ):
            return _pod_text(node_text(node)[name.start() :])
    return None


PERL = Language(
    name="perl",
    suffixes=(".pl", ".pm", ".t"),
    module="tree_sitter_perl",
    definitions=kinds(
        function="subroutine_declaration_statement method_declaration_statement",
        class_="class_statement",
        namespace="package_statement",
    ),
    inside=types("block phaser_statement conditional_statement"),
    identifiers=types("scalar array bareword function method"),
    # The POD of a function; that of a module is as long as a page.
    is_prefix=lambda node: (
        node.type == "pod" and node_text(node).startswith(("=head2", "=head3", "=item"))
    ),
    body_starts=types("block"),
    is_dull=_is_perl_import,
    silent=types("main"),
    is_tolerant=True,
    docstring=_perl_docstring,
    file_docstring=_perl_file_docstring,
)


def _inside(node: ts.Node | None, *kinds: str) -> ts.Node | None:
    """The first node inside those of these kinds that begin a node."""
    while node is not None and node.type in kinds:
        node = node.named_child(0) if node.named_child_count else None
    return node


def _julia_call(node: ts.Node) -> ts.Node | None:
    """The call in the head of a function or macro: without its type and `where`."""
    signature = first_child(node, "signature") or node
    call = _inside(signature, "signature", "assignment", "where_expression", "typed_expression")
    return call if call is not None and call.type == "call_expression" else None


def _julia_name(node: ts.Node) -> ts.Node | None:
    """The name of what is called, or of a type without its parameters and supertype."""
    if (name := node.child_by_field_name("name")) is not None:
        return name
    if head := _julia_call(node) or first_child(node, "type_head"):
        return _inside(
            head,
            "call_expression",
            "type_head",
            "binary_expression",
            "parametrized_type_expression",
        )
    return first_child(first_child(node, "signature") or node, "identifier", "field_expression")


def _julia_docstring(_definition: ts.Node, prefixes: Sequence[ts.Node]) -> str | None:
    """The string before a definition, without the signatures that it begins with."""
    match = STRING.fullmatch(node_text(prefixes[-1])) if prefixes else None
    if match is None:
        return None
    lines = cleandoc(match[2]).splitlines()
    while lines and (not lines[0].strip() or lines[0].startswith((" ", "\t"))):
        del lines[0]
    return "\n".join(lines).strip()


JULIA = Language(
    name="julia",
    suffixes=(".jl",),
    module="tree_sitter_julia",
    definitions={
        **kinds(
            function="function_definition",
            macro="macro_definition",
            struct="struct_definition",
            type="abstract_definition primitive_definition",
            module="module_definition",
        ),
        "assignment": lambda node: "function" if _julia_call(node) is not None else "constant",
    },
    find_name=_julia_name,
    inside=types("const_statement macrocall_expression macro_argument_list if_statement block"),
    identifiers=types("identifier"),
    comments=types("line_comment block_comment"),
    wrappers=types("const_statement macrocall_expression macro_argument_list"),
    is_prefix=lambda node: node.type in ("string_literal", "prefixed_string_literal"),
    annotations=types("macro_identifier"),
    body_starts=types("operator"),
    heads=types("signature type_head identifier"),
    dull=types("using_statement import_statement export_statement public_statement"),
    # `Base.show(…) = …` adds to a function, and no type has functions of its own.
    has_methods=False,
    plain_parents=frozenset({"module"}),
    docstring=_julia_docstring,
)


def _ocaml_kind(node: ts.Node) -> str:
    """What a `let` defines: a function has parameters, or is `fun` or `function`."""
    body = node.child_by_field_name("body")
    is_function = first_child(node, "parameter") or (
        body is not None and body.type in ("fun_expression", "function_expression")
    )
    return "function" if is_function else "constant"


def _ocaml_name(node: ts.Node) -> ts.Node | None:
    return (
        node.child_by_field_name("pattern")
        or node.child_by_field_name("name")
        or first_child(
            first_child(node, "constructor_declaration") or node,
            "value_name", "module_name", "module_type_name", "class_name", "class_type_name",
            "method_name", "constructor_name", "parenthesized_operator",
        )
    )  # fmt: skip


def _ocaml(suffixes: tuple[str, ...], function: str) -> Language:
    return Language(
        name="ocaml",
        suffixes=suffixes,
        module="tree_sitter_ocaml",
        function=function,
        definitions={
            "let_binding": _ocaml_kind,
            **kinds(
                function="value_specification external",
                method="method_definition method_specification",
                class_="class_binding class_type_binding",
                type="type_binding exception_definition",
                module="module_binding",
                interface="module_type_definition",
            ),
        },
        find_name=_ocaml_name,
        inside=types(
            "value_definition type_definition module_definition class_definition class_type_definition structure"
            " signature functor object_expression class_body_type"
        ),
        identifiers=types(
            "value_name value_pattern module_name type_constructor constructor_name field_name method_name"
        ),
        wrappers=types(
            "value_definition type_definition module_definition class_definition class_type_definition"
        ),
        body_starts=types("="),
        dull=types("open_module"),
        docs_follow=True,
        plain_parents=frozenset({"module", "interface"}),
    )


OCAML = _ocaml((".ml",), "language_ocaml")
OCAML_INTERFACE = _ocaml((".mli",), "language_ocaml_interface")


# ---- Objective-C, PowerShell, SQL


def _objective_c_name(node: ts.Node) -> ts.Node | str | None:
    """The name; of a method, its selector: `initWithPath:retries:`."""
    if node.type != "method_definition":
        return first_child(node, "identifier") if node.type in _OBJECTIVE_C_TYPES else _c_name(node)
    parts = [node_text(child) for child in node.named_children if child.type == "identifier"]
    return ":".join(parts) + ":" * (first_child(node, "method_parameter") is not None)


_OBJECTIVE_C_TYPES = kinds(
    class_="class_interface class_implementation", protocol="protocol_declaration"
)

_ENUM_MACRO = re.compile(
    rb"\btypedef\s+NS_(?:CLOSED_)?(?:ENUM|OPTIONS|ERROR_ENUM)\s*\(\s*\w+\s*,\s*(\w+)\s*\)"
)


# A macro on the line before a class, or in front of it, which the grammar takes for a type.
_CLASS_MACRO = re.compile(
    rb"^[A-Z][A-Z0-9_]+[ \t]*(?=\r?\n?[ \t]*@(?:interface|protocol|implementation)\b)",
    re.MULTILINE,
)


def _without_class_macros(source: bytes) -> bytes:
    return _CLASS_MACRO.sub(lambda macro: b" " * len(macro[0]), source)


def _with_enums(source: bytes) -> bytes:
    """The source with `enum Name` for `typedef NS_ENUM(Type, Name)`, which the grammar misreads."""

    def rewritten(macro: re.Match[bytes]) -> bytes:
        before, after = macro.start(1) - macro.start(), macro.end() - macro.end(1)
        return b"enum".ljust(before) + macro[1] + b" " * after

    return _ENUM_MACRO.sub(rewritten, source)


OBJECTIVE_C = Language(
    name="objectivec",
    suffixes=(".m", ".mm"),
    module="tree_sitter_objc",
    definitions=_C_DEFINITIONS | _OBJECTIVE_C_TYPES | {"method_definition": "method"},
    find_name=_objective_c_name,
    inside=types(_C_INSIDE + " implementation_definition"),
    identifiers=types(_NAMES),
    wrappers=types("implementation_definition"),
    body_starts=types(
        "{ ; field_declaration_list enumerator_list preproc_arg compound_statement"
        " implementation_definition method_declaration property_declaration instance_variables"
    ),
    dull=types(_C_DULL + " module_import"),
    is_tail=_is_c_body,
    is_tolerant=True,
    rewrite=lambda source: resolved(_without_class_macros(_with_enums(source))),
    shells=(("", ""), ("@implementation _\n", "\n@end")),
)


def _powershell_docstring(definition: ts.Node, _prefixes: Sequence[ts.Node]) -> str | None:
    """The synopsis of the help in a comment at the top of a definition's body."""
    body = first_child(definition, "script_block")
    comments = (node_text(first_child(parent, "comment")) for parent in (definition, body))
    return next(filter(None, map(synopsis, comments)), None)


def _powershell_name(node: ts.Node) -> str:
    """The name without the scope where it is seen: `global:Close-Gate`."""
    return node_text(first_child(node, "function_name", "simple_name")).rpartition(":")[2]


POWERSHELL = Language(
    name="powershell",
    suffixes=(".ps1", ".psm1"),
    module="tree_sitter_powershell",
    definitions=kinds(
        function="function_statement",
        class_="class_statement",
        method="class_method_definition",
        enum="enum_statement",
    ),
    find_name=_powershell_name,
    inside=types("statement_list script_block script_block_body"),
    identifiers=types("variable command_name"),
    body_starts=types("{"),
    is_tolerant=True,
    docstring=_powershell_docstring,
)


def _sql_name(node: ts.Node) -> str:
    """The name with its schema, without quotes around either."""
    name = node_text(first_child(node, "object_reference") or node.child_by_field_name("name"))
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
    inside=types("statement"),
    identifiers=types("identifier"),
    comments=types("comment marginalia"),
    wrappers=types("statement"),
    body_starts=types("column_definitions keyword_as function_body procedure_body"),
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
    return [unquoted(child) for child in block.named_children if child.type == "string_lit"]


def _hcl_block(node: ts.Node) -> str | None:
    """The type of a block with labels at the top of a file, such as `resource`."""
    return (
        node_text(first_child(node, "identifier"))
        if _hcl_is_top(node) and _hcl_labels(node)
        else None
    )


def _hcl_local(node: ts.Node) -> str | None:
    """A value that a block of locals names."""
    block = node.parent.parent if node.parent is not None else None
    is_local = block is not None and block.type == "block" and _hcl_is_top(block)
    return (
        "constant" if is_local and node_text(first_child(block, "identifier")) == "locals" else None
    )


def _hcl_name(node: ts.Node) -> str:
    """The name by which other blocks refer to it."""
    name = node_text(first_child(node, "identifier"))
    if node.type == "attribute":
        return f"local.{name}"
    return _HCL_PREFIXES.get(name, f"{name}.") + ".".join(_hcl_labels(node))


def _hcl_docstring(definition: ts.Node, _prefixes: Sequence[ts.Node]) -> str | None:
    """The description of a variable or an output."""
    body = first_child(definition, "body")
    for attribute in body.named_children if body is not None else ():
        if node_text(first_child(attribute, "identifier")) == "description":
            return unquoted(first_child(attribute, "expression")) or None
    return None


HCL = Language(
    name="hcl",
    suffixes=(".tf", ".hcl", ".tofu", ".nomad"),
    module="tree_sitter_hcl",
    definitions={"block": _hcl_block, "attribute": _hcl_local},
    find_name=_hcl_name,
    inside=types("body block"),
    identifiers=types("identifier"),
    body_starts=types("block_start"),
    has_methods=False,
    is_tolerant=True,
    docstring=_hcl_docstring,
)

_LANGUAGES = (
    PYTHON, JAVASCRIPT, TYPESCRIPT, TSX, VUE, SVELTE, GO, JAVA, PHP, RUBY, C, CPP, C_SHARP, KOTLIN, SCALA, SWIFT, RUST,
    ZIG, BASH, LUA, ELIXIR, HASKELL, PERL, JULIA, OCAML_INTERFACE, OCAML, OBJECTIVE_C, POWERSHELL, SQL,
    HCL, *OPTIONAL_LANGUAGES,
)  # fmt: skip
# Without the package of its grammar, which may be one of an extra, a language is read as lines.
LANGUAGES = tuple(language for language in _LANGUAGES if find_spec(language.module))
# How a file may be written that the language of its suffix cannot read.
DIALECTS: dict[Language, Language] = {
    JAVASCRIPT: FLOW,
    C: replace(C, suffixes=(), rewrite=_with_semicolons),
    CPP: replace(CPP, suffixes=(), rewrite=_with_semicolons),
    VUE: replace(TSX, name=VUE.name, suffixes=(), component=True),
    # The grammar wants a line break or semicolon before the brace that ends a body.
    KOTLIN: replace(
        KOTLIN, suffixes=(), rewrite=partial(re.compile(rb"(?<=[^\s{]) (?=\})").sub, b";")
    ),
}
BY_SUFFIX = {suffix: language for language in LANGUAGES for suffix in language.suffixes}


def language_at(position: int) -> Language:
    """Return one of `LANGUAGES`."""
    return LANGUAGES[position]


# Its functions are no data: another process of the same installation looks a language up.
copyreg.pickle(Language, lambda language: (language_at, (LANGUAGES.index(language),)))
