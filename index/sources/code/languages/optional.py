"""The languages whose grammars are no part of a plain installation, but of its extra `languages`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

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

# ---- Dart

_DART_SIGNATURES = words(
    "function_signature getter_signature setter_signature operator_signature constructor_signature"
    " constant_constructor_signature factory_constructor_signature redirecting_factory_constructor_signature"
)
# What is before the name of a variable, and beside it.
_DART_LEADS = words(
    "const_builtin final_builtin inferred_type type_identifier type_arguments nullable_type record_type function_type"
)


def _dart_name(node: ts.Node) -> ts.Node | str | None:
    """The name; of a constructor, what is after its class: `dark` of `Lamp.dark`."""
    signature = first_child(node, *_DART_SIGNATURES) or node
    if signature.type == "operator_signature":
        head = node_text(signature).partition("operator")[2]
        return "".join(head[: head.rindex("(")].split()) if "(" in head else None
    if "constructor" in signature.type:
        names = [part for part in signature.named_children if part.type == "identifier"]
        return names[-1] if names else None
    if node.type == "type_alias":
        names = [part for part in node.named_children if part.type == "type_identifier"]
        is_old = first_child(node, "formal_parameter_list") is not None
        return names[-1 if is_old else 0] if names else None

    return (
        child(signature, "name")
        or first_child(first_child(node, "mixin_application_class") or node, "identifier")
        or child(node, "class")
    )


def _dart_block(statement: ts.Node) -> Block | None:
    """A call with a name and a function: `test('adds', () { … });`, and `group`, which has such inside."""
    callee = node_text(first_child(statement, "identifier"))
    arguments = statement
    for kind in ("selector", "argument_part", "arguments"):
        if (inner := first_child(arguments, kind)) is None:
            return None
        arguments = inner

    values = [first_part(argument) or argument for argument in arguments.named_children]
    function = next((value for value in values if value.type == "function_expression"), None)
    if function is None or values[0].type != "string_literal":
        return None

    name = unquoted(values[0])
    if callee in _DART_KINDS:
        return Block(_DART_KINDS[callee], name, function)
    return named_block(statement, callee, name, function)


_DART_KINDS = {"group": "namespace", "testWidgets": "test"}


def _dart_function(signature: ts.Node) -> str | None:
    """The kind; a `main` of tests is read by what is inside."""
    body = first_child(signature.next_named_sibling, "block")
    is_main = node_text(child(signature, "name")) == "main"
    return None if is_main and any(map(_is_dart_test, parts(body))) else "function"


def _is_dart_test(statement: ts.Node) -> bool:
    block = _dart_block(statement) if statement.type == "expression_statement" else None
    return block is not None and block.kind in ("test", "namespace")


DART = Language(
    name="dart",
    suffixes=(".dart",),
    module="tree_sitter_dart",
    definitions={
        # A member without a body, unless it is a field.
        "declaration": lambda node: "method" if first_child(node, *_DART_SIGNATURES) else None,
        "extension_declaration": lambda node: "extension" if child(node, "name") else "scope",
        **kinds(
            function="getter_signature setter_signature",
            method="method_signature",
            class_="class_definition",
            mixin="mixin_declaration",
            enum="enum_declaration",
            extension="extension_type_declaration",
            type="type_alias",
            constant="static_final_declaration initialized_identifier",
        ),
        "function_signature": _dart_function,
        "expression_statement": _dart_block,
    },
    find_name=_dart_name,
    inside=words(
        "class_body enum_body extension_body static_final_declaration_list initialized_identifier_list"
        " function_body block selector argument_part arguments argument function_expression function_expression_body"
    ),
    comments=words("comment documentation_comment"),
    wrappers=words("static_final_declaration_list initialized_identifier_list"),
    is_prefix=lambda node: node.type == "annotation",
    leads=_DART_LEADS,
    is_tail=lambda _kind, after: after.type == "function_body",
    annotations=words("annotation"),
    body_starts=words("class_body enum_body extension_body initializers redirection ;"),
    dull=words("library_name import_or_export part_directive part_of_directive"),
    is_tolerant=True,
)


# ---- Groovy

# A type inside of another, which the grammar does not read there: its modifiers and its head.
_GROOVY_INNER_TYPE = re.compile(
    rb"^([ \t]+(?:@\w+ +)?(?:(?:static|private|protected|public|final|abstract) +)*)"
    rb"((?:class|enum|interface|trait) +\w+\s[^{};()]{0,400})(?=\{)",
    re.MULTILINE,
)
_GROOVY_TYPE_NAME = re.compile(r"\b(?:class|enum|interface|trait)\s+(\w+)")
_GROOVY_VOID = re.compile(rb"\bvoid(?= +[\"'])")
_GROOVY_TYPES = {"cla": "class", "enu": "enum", "int": "interface", "tra": "trait"}
_GRADLE_TASK = re.compile(rb"^([ \t]*task) (?=\w+[ \t]*(?:[({]|$))", re.MULTILINE)
_GROOVY_METHOD = b'def ""()'
_GRADLE_MAKERS = ("register", "create")


def _groovy_readable(source: bytes) -> bytes:
    """The source as the grammar reads it.

    It has `def "x"()` for a type inside of another, `def` for `void "a sentence"()`, and `task.a` for
    `task a`.
    """
    content = _GRADLE_TASK.sub(rb"\1.", _GROOVY_VOID.sub(b"def ", source))
    return _GROOVY_INNER_TYPE.sub(_as_method, content)


def _as_method(header: re.Match[bytes]) -> bytes:
    """The head of a method in the first line of a type's head, and spaces for the rest of it."""
    line, line_break, rest = header[2].partition(b"\n")
    head = line.rstrip() if len(line.rstrip()) >= len(_GROOVY_METHOD) else line
    if len(head) < len(_GROOVY_METHOD):
        return header[0]

    filler = b"x" * (len(head) - len(_GROOVY_METHOD))
    method = _GROOVY_METHOD.replace(b'""', b'"%b"' % filler)
    return header[1] + method + blanked(line[len(head) :] + line_break + rest)


def _groovy_type(node: ts.Node) -> str | None:
    """The kind of a type that is read as a method: of its keyword, three letters stand for `def`."""
    word = next((node_text(token) for token in node.children if token.type == "def"), "")
    return _GROOVY_TYPES.get(word)


def _groovy_method(node: ts.Node) -> str | None:
    """A function, a test whose name is a sentence, or a type that is read as a method."""
    if kind := _groovy_type(node):
        return kind
    # A field and a constructor without a semicolon between them.
    if any(part.is_error for part in node.children):
        return None
    return "test" if first_child(node, "quoted_identifier") is not None else "function"


def _gradle_task(node: ts.Node) -> str | None:
    """A task of Gradle's: `task a {`, `task a(type: B) {` or `tasks.register("a") {`."""
    return "task" if _gradle_task_name(node) is not None else None


def _gradle_task_name(node: ts.Node) -> ts.Node | None:
    is_statement = node.type == "expression_statement" and node.named_child_count
    statement = first_part(node) if is_statement else node
    call = child(statement, "receiver", "function") or statement
    if call is None or call.type != "field_access":
        return None

    owner, member = (child(call, field) for field in ("object", "field"))
    if node_text(owner) == "task":
        return member
    is_made = node_text(owner) == "tasks" and node_text(member) in _GRADLE_MAKERS
    arguments = child(statement, "arguments")
    return first_child(arguments, "string_literal") if is_made else None


def _groovy_name(node: ts.Node) -> ts.Node | str | None:
    if node.type in ("expression_statement", "command_chain"):
        return _gradle_task_name(node)
    if node.type == "method_declaration" and _groovy_type(node):
        match = _GROOVY_TYPE_NAME.search(node_text(node))
        return match[1] if match else None

    # In `static main(args)`, the grammar reads the name as a type.
    name = child(node, "name")
    return name if node_text(name) else child(node, "return_type")


def _gradle_docstring(definition: ts.Node, _prefixes: Sequence[ts.Node]) -> str | None:
    """The description that a task sets."""
    if definition.type not in ("expression_statement", "command_chain"):
        return None

    for statement in parts(first_child(definition, "closure")):
        value = first_child(statement, "assignment_expression")
        if node_text(child(value, "left")) == "description":
            return unquoted(child(value, "right")) or None

    return None


GROOVY = Language(
    name="groovy",
    suffixes=(".groovy",),
    module="dekobon_tree_sitter_groovy",
    definitions={
        "method_declaration": _groovy_method,
        "expression_statement": _gradle_task,
        "command_chain": _gradle_task,
        **kinds(
            method="constructor_declaration",
            class_="class_declaration",
            interface="interface_declaration annotation_type_declaration",
            trait="trait_declaration",
            enum="enum_declaration",
        ),
    },
    find_name=_groovy_name,
    inside=words(
        "class_body enum_body block command_chain closure expression_statement field_declaration"
        " local_variable_declaration"
    ),
    comments=words("line_comment block_comment groovydoc_comment"),
    assignments={"variable_declarator": ("name", "value")},
    values=kinds(function="closure"),
    other_values="constant",
    wrappers=words("field_declaration local_variable_declaration"),
    is_tail=lambda kind, after: kind == "task" and first_child(after, "closure") is not None,
    annotations=words("annotation"),
    body_starts=words("class_body enum_body block closure { ;"),
    dull=words("package_declaration import_declaration"),
    is_tolerant=True,
    docstring=_gradle_docstring,
    rewrite=_groovy_readable,
)
# Build files; what they define are tasks, above all.
GRADLE = replace(GROOVY, name="gradle", suffixes=())


# ---- Solidity


def _solidity_name(node: ts.Node) -> ts.Node | str | None:
    """The name; a constructor and what answers other calls have only their keyword."""
    if node.type == "constructor_definition":
        return "constructor"
    if node.type == "fallback_receive_definition":
        return node.children[0] if node.children else None
    return child(node, "name")


SOLIDITY = Language(
    name="solidity",
    suffixes=(".sol",),
    module="tree_sitter_solidity",
    definitions=kinds(
        function="function_definition modifier_definition",
        method="constructor_definition fallback_receive_definition",
        contract="contract_declaration",
        interface="interface_declaration",
        library="library_declaration",
        struct="struct_declaration",
        enum="enum_declaration",
        type="event_definition error_declaration user_defined_type_definition",
        constant="constant_variable_declaration",
    ),
    find_name=_solidity_name,
    inside=words("contract_body"),
    body_starts=words("contract_body struct_body enum_body function_body ; {"),
    dull=words("pragma_directive import_directive using_directive"),
    is_tolerant=True,
)


# ---- Fortran

_FORTRAN_HEADS = (
    "function_statement subroutine_statement module_procedure_statement module_statement submodule_statement"
    " program_statement derived_type_statement interface_statement"
)
_FIXED_COMMENT = re.compile(rb"^[cC*]", re.MULTILINE)
# The line break before a line whose sixth column has a mark, which goes on with the one before.
_FIXED_CONTINUATION = re.compile(rb"\n {5}[^ 0\s]")


def _fortran_head(node: ts.Node) -> ts.Node | None:
    return first_child(node, *_FORTRAN_HEADS.split())


def _fortran_name(node: ts.Node) -> ts.Node | str | None:
    """The name in the first statement; an operator has it in its brackets."""
    head = _fortran_head(node)
    if head is None:
        return None
    operator = first_child(first_child(head, "operator"), "operator_name")
    return child(head, "name") or first_child(head, "name", "type_name") or operator


def _fortran_docstring(definition: ts.Node, _prefixes: Sequence[ts.Node]) -> str | None:
    """The comments below the first statement, if they are marked as its documentation: `!!`."""
    lines: list[str] = []
    head = _fortran_head(definition)
    node = head.next_sibling if head is not None else None
    while node is not None and node.type == "comment" and node_text(node).startswith(("!!", "!>")):
        lines.append(node_text(node)[2:].removeprefix(" ").rstrip())
        node = node.next_sibling
    return "\n".join(lines).strip() or None


FORTRAN = Language(
    name="fortran",
    suffixes=(".f90", ".f95", ".f03", ".f08"),
    module="tree_sitter_fortran",
    definitions=kinds(
        function="function subroutine module_procedure",
        module="module submodule",
        program="program",
        struct="derived_type_definition",
        interface="interface",
    ),
    find_name=_fortran_name,
    inside=words("program internal_procedures preproc_if preproc_ifdef preproc_else preproc_elif"),
    identifiers=words("identifier name type_name module_name method_name"),
    heads=words(_FORTRAN_HEADS),
    dull=words("use_statement implicit_statement preproc_include include_statement"),
    plain_parents=frozenset({"module", "program"}),
    is_tolerant=True,
    docstring=_fortran_docstring,
)
# In free form, there is `!` for comments, and `&` where a line goes on.
FIXED_FORTRAN = replace(
    FORTRAN,
    suffixes=(".f", ".f77", ".for"),
    rewrite=lambda source: _FIXED_CONTINUATION.sub(b"&\n     ", _FIXED_COMMENT.sub(b"!", source)),
)


# ---- MATLAB

_MATLAB_BODIES = words("block arguments_statement properties methods events enumeration")


def _matlab_docstring(definition: ts.Node, _prefixes: Sequence[ts.Node]) -> str | None:
    """The help in the comment below a head, without the name in capitals that it begins with."""
    below_head = first_child(definition, "comment", *_MATLAB_BODIES)
    if below_head is None or below_head.type != "comment":
        return None

    lines = (line.strip().lstrip("%{}") for line in node_text(below_head).splitlines())
    text = "\n".join(line.removeprefix(" ") for line in lines).strip()
    name = node_text(child(definition, "name"))
    return re.sub(rf"^{re.escape(name.upper())}\b[ \t:-]*", "", text) or None


# Its suffix is Objective-C's; the lines of a file tell the two.
MATLAB = Language(
    name="matlab",
    suffixes=(),
    module="tree_sitter_matlab",
    definitions=kinds(function="function_definition", class_="class_definition"),
    inside=words("methods"),
    body_starts=_MATLAB_BODIES | {"\n", ";", ",", "end"},
    is_tolerant=True,
    docstring=_matlab_docstring,
)


# ---- GDScript

GDSCRIPT = Language(
    name="gdscript",
    suffixes=(".gd",),
    module="tree_sitter_gdscript",
    definitions={
        **kinds(
            function="function_definition constructor_definition",
            class_="class_definition",
            enum="enum_definition",
            constant="const_statement",
        ),
        "variable_statement": lambda node: "constant" if child(node, "setget") is None else None,
    },
    find_name=lambda node: (
        "_init" if node.type == "constructor_definition" else child(node, "name")
    ),
    inside=words("class_body"),
    identifiers=words("identifier name"),
    is_prefix=lambda node: node.type == "annotation",
    annotations=words("annotation annotations"),
    body_starts=words("body class_body enumerator_list :"),
    is_tolerant=True,
)


# ---- Nix

NIX = Language(
    name="nix",
    suffixes=(".nix",),
    module="tree_sitter_nix",
    definitions={},
    inside=words(
        "function_expression let_expression let_attrset_expression binding_set binding attrset_expression"
        " rec_attrset_expression apply_expression with_expression assert_expression if_expression"
        " parenthesized_expression binary_expression list_expression"
    ),
    assignments={"binding": ("attrpath", "expression")},
    values=kinds(function="function_expression"),
    other_values="constant",
    scopes=words("attrset_expression rec_attrset_expression"),
    # What a package is made of belongs to it: `meta = { … }` of `mkDerivation { … }`.
    opaque=words("apply_expression"),
    has_methods=False,
    plain_parents=frozenset({"constant"}),
    is_tolerant=True,
)

LANGUAGES = (DART, GROOVY, GRADLE, SOLIDITY, FIXED_FORTRAN, FORTRAN, MATLAB, GDSCRIPT, NIX)
