"""C, C++ and Objective-C, with the macros that their grammars misread."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import tree_sitter as ts

from purlin.index.sources.code.conditionals import resolved
from purlin.index.sources.code.languages.nodes import (
    child,
    first_child,
    first_part,
    node_text,
    parts,
    unquoted,
)
from purlin.index.sources.code.syntax import COMMON_NAMES, Block, KindOf, Language, blanked
from purlin.index.sources.words import kinds, words

# ---- C and C++


# Where the grammar names a function so, it has misread what is before its braces.
_NO_C_NAMES = words("if else for while do switch return void int char long short unsigned double")


def _c_name(node: ts.Node) -> ts.Node | str | None:
    """The name that a definition or its declarator gives."""
    if node.type == "expression_statement":
        return _called_name(node)

    # `main(void)` without a type; in `PHP_FUNCTION(dim)`, a macro is given the name.
    head, declarator = (child(node, field) for field in ("type", "declarator"))
    is_untyped = declarator is not None and declarator.type == "parenthesized_declarator"
    if node.type == "function_definition" and is_untyped and not node_text(head).isupper():
        return head

    name = _declared(node)
    return None if node_text(name) in _NO_C_NAMES else name


def _declared(node: ts.Node) -> ts.Node | None:
    """The name inside the pointers, arrays and parameter lists of a declarator."""
    inner: ts.Node | None = child(node, "name")

    while inner is None and node is not None:
        declarator = child(node, "declarator")
        if declarator is None and node.type in ("reference_declarator", "parenthesized_declarator"):
            declarator = first_part(node)
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
    callee = child(call, "function")
    if callee is not None and callee.type == "call_expression":
        call, callee = callee, child(callee, "function")
    if call is None or not node_text(callee).isupper():
        return callee

    # `PHP_METHOD(Lamp, dim)` names a class and a method; more than two have types among them.
    names = parts(child(call, "arguments"))
    is_path = len(names) == 2 and all(name.type == "identifier" for name in names)
    return ".".join(node_text(name).strip('"') for name in (names if is_path else names[:1]))


def _is_cpp_test(node: ts.Node) -> bool:
    """Whether a macro stands where a function's name would: `TEST(Suite, Case) { … }`."""
    macro = node_text(child(child(node, "declarator"), "declarator"))
    return "TEST" in macro and macro.isupper() and child(node, "type") is None


def _cpp_kind(node: ts.Node) -> str | None:
    # `= default` and `= delete` are left to the class.
    if first_child(node, "default_method_clause", "delete_method_clause"):
        return None
    return "test" if _is_cpp_test(node) else "function"


def _cpp_name(node: ts.Node) -> ts.Node | str | None:
    """The name; of a test, what its macro is given: `Suite.Case`."""
    if node.type != "function_definition" or not _is_cpp_test(node):
        return _conversion(node) or _c_name(node)
    parameters = first_child(child(node, "declarator"), "parameter_list")
    return ".".join(map(node_text, parameters.named_children)) if parameters else None


def _cpp_case(statement: ts.Node) -> Block | None:
    """What a macro with a sentence before a block tests: `TEST_CASE("lamps glow") { … }`."""
    call, body = first_child(statement, "call_expression"), statement.next_named_sibling
    macro = node_text(child(call, "function"))
    name = first_child(child(call, "arguments"), "string_literal")
    is_test = macro.isupper() and ("TEST" in macro or macro == "SCENARIO") and name is not None
    has_body = body is not None and body.type == "compound_statement"
    return Block("test", unquoted(name), statement) if is_test and has_body else None


def _conversion(node: ts.Node) -> str | None:
    """The name of an operator that converts to a type: `Gate::operator bool`."""
    declarator, scope = child(node, "declarator"), ""
    while declarator is not None and declarator.type == "qualified_identifier":
        scope += f"{node_text(child(declarator, 'scope'))}::"
        declarator = child(declarator, "name")
    if declarator is None or declarator.type != "operator_cast":
        return None
    return f"{scope}operator {node_text(child(declarator, 'type'))}"


def _has_body(kind: str) -> Callable[[ts.Node], str | None]:
    """A kind of definition that needs a body: `struct a b;` uses a type, a typedef names its own."""

    def kind_of(node: ts.Node) -> str | None:
        is_in_typedef = node.parent is not None and node.parent.type == "type_definition"
        return kind if child(node, "body") and not is_in_typedef else None

    return kind_of


def _typedef_kind(node: ts.Node) -> str:
    """What a typedef names: a type that it describes, or another type."""
    described = child(node, "type")
    kind = described.type.partition("_")[0] if child(described, "body") and described else ""
    return kind if kind in ("struct", "enum", "union") else "type"


_C_DEFINITIONS: dict[str, str | KindOf] = {
    "function_definition": "function",
    "expression_statement": _called_function,
    "struct_specifier": _has_body("struct"),
    "union_specifier": _has_body("union"),
    "enum_specifier": _has_body("enum"),
    "type_definition": _typedef_kind,
    "preproc_function_def": "macro",
    # Without parameters, a macro of three lines is a list or code rather than a number.
    "preproc_def": lambda node: (
        "macro" if node_text(child(node, "value")).count("\n") > 1 else None
    ),
    "declaration": lambda node: "constant" if first_child(node, "init_declarator") else None,
}


# Lines that are nothing but a macro's call without a semicolon, and with a statement or the end of
# a block after them.
_MACRO_LINE = re.compile(
    rb"^(?P<indentation>[ \t]+)[A-Z][A-Z0-9_]+[ \t]*\((?:[^\n()]|\([^\n()]*\))*\)[ \t\r]*$"
    rb"(?=\s*(?:[A-Za-z_}#]|/[*/]))",
    re.MULTILINE,
)
# Macros before the type of a declaration, as for `static`: what follows are a type and a name.
_LEADING_MACROS = re.compile(
    rb"^[ \t]*+(?:[A-Z][A-Z0-9_]{2,}+[ \t]++)++(?=(?:[a-z_]\w*+[ \t]++)*?"
    rb"[a-z_]\w*+[\s*]++[A-Za-z_]\w*+[ \t]*+[(\[=;])",
    re.MULTILINE,
)
# What an enum or an array lists, and directives that make more of it, by a macro for each entry of a file.
_LISTED = re.compile(rb"(?:\benum\b[\w\s]{0,100}+|=\s{0,100}+)\{[^{};]{0,65536}+\}")
_DIRECTIVE = re.compile(
    rb"^[ \t]*+\#[ \t]*+(?:define|undef|include)\b(?:[^\n\\]|\\[\s\S])*+", re.MULTILINE
)


def without_lone_macros(source: bytes) -> bytes:
    """The source as it is with what macros stand for, as far as that matters to definitions.

    Macros before declarations and directives in lists are left out, and those that are statements
    get a semicolon.
    """

    def rewritten(line: re.Match[bytes]) -> bytes:
        indentation = line["indentation"]
        return indentation + b";".ljust(len(line[0]) - len(indentation))

    statements = _MACRO_LINE.sub(rewritten, source)
    declarations = _LEADING_MACROS.sub(_blank, statements)
    return _LISTED.sub(lambda entries: _DIRECTIVE.sub(_blank, entries[0]), declarations)


def _blank(match: re.Match[bytes]) -> bytes:
    return blanked(match[0])


def _is_c_body(kind: str, after: ts.Node) -> bool:
    return kind in ("function", "method") and after.type == "compound_statement"


# Macros between `class` and its name, as for export, and after the parameters of a function.
_MACRO = rb"[A-Z][A-Z0-9_]+(?:[ \t]*+\((?:[^(){};]|\([^(){};]*+\))*+\))?+"
# A base class or the body tells a class from a variable of its type.
_HEAD_MACROS = re.compile(
    rb"\b(?P<kept>class|struct|union)(?P<macros>(?:\s++%(macro)b)+)"
    rb"(?=\s++[A-Za-z_][\w:]*+(?:\s*+<[^{};()<>]*+>)?+(?:\s++final\b)?+\s*+(?::[^:]|\{))"
    % {b"macro": _MACRO}
)
# The body, or the first member that a constructor initializes, tells a function from its declaration.
_TAIL_MACROS = re.compile(
    rb"(?P<kept>\)(?:\s|const\b|noexcept\b|override\b|final\b)*+)(?P<macros>%(macro)b(?:\s++%(macro)b)*+)"
    rb"(?=\s*+(?:\{|:\s*+\w++\s*+[({]))" % {b"macro": _MACRO}
)


def _without_macros(source: bytes) -> bytes:
    """The source without the macros in the heads of classes and functions, which C++'s grammar misreads."""

    def rewritten(head: re.Match[bytes]) -> bytes:
        return head["kept"] + blanked(head["macros"])

    return _TAIL_MACROS.sub(rewritten, _HEAD_MACROS.sub(rewritten, source))


_C_INSIDE = "preproc_ifdef preproc_if preproc_else preproc_elif linkage_specification declaration_list declaration"
_C_DULL = "preproc_include preproc_call using_declaration"

C = Language(
    name="c",
    suffixes=(".c", ".h"),
    module="tree_sitter_c",
    definitions=_C_DEFINITIONS,
    find_name=_c_name,
    inside=words(_C_INSIDE),
    body_starts=words("{ ; field_declaration_list enumerator_list preproc_arg"),
    dull=words(_C_DULL),
    is_tail=_is_c_body,
    is_tolerant=True,
    rewrite=resolved,
)

CPP = replace(
    C,
    name="cpp",
    suffixes=tuple(".cpp .cc .cxx .hpp .hh .hxx .ipp .inl .tpp .cu .cuh .ino".split()),
    module="tree_sitter_cpp",
    definitions=_C_DEFINITIONS
    | {
        "function_definition": _cpp_kind,
        "expression_statement": _cpp_case,
        "class_specifier": _has_body("class"),
        "namespace_definition": "namespace",
        "alias_declaration": "type",
        "concept_definition": "type",
    },
    find_name=_cpp_name,
    inside=words(
        _C_INSIDE
        + " field_declaration_list field_declaration template_declaration struct_specifier union_specifier"
    ),
    identifiers=words(COMMON_NAMES + " namespace_identifier"),
    wrappers=words("template_declaration"),
    annotations=words("template_parameter_list requires_clause"),
    is_tail=lambda kind, after: kind == "test" and after.type == "compound_statement",
    body_starts=words(
        "{ ; field_declaration_list enumerator_list preproc_arg field_initializer_list try"
    ),
    generics=True,
    rewrite=lambda source: resolved(_without_macros(source)),
)


# ---- Objective-C


def _objective_c_name(node: ts.Node) -> ts.Node | str | None:
    """The name; of a method, its selector: `initWithPath:retries:`."""
    if node.type != "method_definition":
        return first_child(node, "identifier") if node.type in _OBJECTIVE_C_TYPES else _c_name(node)
    words = [node_text(part) for part in node.named_children if part.type == "identifier"]
    return ":".join(words) + ":" * (first_child(node, "method_parameter") is not None)


_OBJECTIVE_C_TYPES = kinds(
    class_="class_interface class_implementation", protocol="protocol_declaration"
)

# `typedef NS_ENUM(type, Name)`, which defines an enumeration.
_ENUM_MACRO = re.compile(
    rb"\btypedef\s+NS_(?:CLOSED_)?(?:ENUM|OPTIONS|ERROR_ENUM)\s*\(\s*\w+\s*,\s*(\w+)\s*\)"
)


# A macro on the line before a class, or in front of it, which the grammar takes for a type.
_CLASS_MACRO = re.compile(
    rb"^[A-Z][A-Z0-9_]+[ \t]*(?=\r?\n?[ \t]*@(?:interface|protocol|implementation)\b)", re.MULTILINE
)


def _with_enums(source: bytes) -> bytes:
    """The source with `enum Name` for `typedef NS_ENUM(Type, Name)`, which the grammar misreads."""

    def rewritten(macro: re.Match[bytes]) -> bytes:
        before, after = macro.start(1) - macro.start(), macro.end() - macro.end(1)
        return b"enum".ljust(before) + macro[1] + b" " * after

    return _ENUM_MACRO.sub(rewritten, source)


OBJECTIVE_C = replace(
    C,
    name="objectivec",
    suffixes=(".m", ".mm"),
    module="tree_sitter_objc",
    definitions=_C_DEFINITIONS | _OBJECTIVE_C_TYPES | {"method_definition": "method"},
    find_name=_objective_c_name,
    inside=words(_C_INSIDE + " implementation_definition"),
    wrappers=words("implementation_definition"),
    body_starts=words(
        "{ ; field_declaration_list enumerator_list preproc_arg compound_statement"
        " implementation_definition method_declaration property_declaration instance_variables"
    ),
    dull=words(_C_DULL + " module_import"),
    rewrite=lambda source: resolved(
        _CLASS_MACRO.sub(lambda macro: blanked(macro[0]), _with_enums(source))
    ),
)

LANGUAGES = (C, CPP, OBJECTIVE_C)
