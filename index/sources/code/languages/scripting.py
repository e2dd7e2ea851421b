"""Python, PHP, Ruby, Perl, Julia, Lua, and the shells Bash and PowerShell."""

from __future__ import annotations

import re
from collections.abc import Sequence
from inspect import cleandoc

import tree_sitter as ts

from purlin.index.sources.code.languages.nodes import (
    STRING,
    child,
    first_child,
    first_part,
    named_block,
    node_text,
    parts,
    unquoted,
)
from purlin.index.sources.code.syntax import Block, Language, synopsis
from purlin.index.sources.words import kinds, words

# ---- Python


def _statement_string(statement: ts.Node | None) -> str:
    """The text of a statement that is nothing but a string."""
    if statement is None or statement.type != "expression_statement":
        return ""
    string = first_part(statement)
    return unquoted(string) if string is not None and string.type == "string" else ""


def _python_file_docstring(root: ts.Node) -> str:
    statements = map(root.named_child, range(root.named_child_count))
    return _statement_string(
        next((each for each in statements if each and each.type != "comment"), None)
    )


def _is_dunder(node: ts.Node) -> bool:
    """Whether a statement sets `__all__`, `__version__` or the like."""
    if node.type != "expression_statement":
        return False
    name = node_text(child(first_child(node, "assignment"), "left"))
    return name.startswith("__") and name.endswith("__")


PYTHON = Language(
    name="python",
    suffixes=(".py", ".pyi", ".pyx", ".pxd", ".pxi", ".pyw", ".smk"),
    module="tree_sitter_python",
    definitions=kinds(
        function="function_definition", class_="class_definition", type="type_alias_statement"
    ),
    find_name=lambda node: child(node, "name", "left"),
    inside=words(
        "block decorated_definition if_statement elif_clause else_clause try_statement except_clause"
        " except_group_clause finally_clause with_statement for_statement while_statement match_statement case_clause"
        " expression_statement"
    ),
    assignments={"assignment": ("left", "right")},
    other_values="constant",
    wrappers=words("decorated_definition"),
    annotations=words("decorator"),
    dull=words("import_statement import_from_statement future_import_statement"),
    is_dull=_is_dunder,
    docstring=lambda node, _prefixes: _statement_string(first_part(child(node, "body"))),
    file_docstring=_python_file_docstring,
)


# ---- PHP


def _php_argument(call: ts.Node, *argument_types: str) -> ts.Node | None:
    """The first argument of one of these types."""
    arguments = parts(first_child(call, "arguments"))
    values = (first_child(argument, *argument_types) for argument in arguments)
    return next(filter(None, values), None)


def _php_block(statement: ts.Node) -> Block | None:
    """A statement that calls something with a name and a closure.

    In a chain such as `Route::get('/orders', fn () => …)->name('orders')`, that is the call with the closure.
    """
    if statement.parent is None or statement.parent.type != "expression_statement":
        return None

    call: ts.Node | None = statement
    while call is not None:
        if closure := _php_argument(call, "anonymous_function", "arrow_function"):
            name = _php_argument(call, "string", "encapsed_string")
            return (
                named_block(statement, _php_callee(call), unquoted(name), closure) if name else None
            )
        call = child(call, "object")
    return None


def _php_callee(call: ts.Node) -> str:
    """What is called: `it`, `Route::get`, `$app->get`; of a longer chain only its last call."""
    if (function := child(call, "function")) is not None:
        return node_text(function)
    owner = child(call, "scope", "object")
    name = node_text(child(call, "name"))
    if owner is None or owner.type.endswith("call_expression"):
        return name
    return f"{node_text(owner)}{'->' if call.type == 'member_call_expression' else '::'}{name}"


PHP = Language(
    name="php",
    suffixes=(".php", ".phtml", ".phpt"),
    module="tree_sitter_php",
    function="language_php",
    definitions={
        **kinds(
            function="function_definition",
            method="method_declaration",
            class_="class_declaration",
            interface="interface_declaration",
            trait="trait_declaration",
            enum="enum_declaration",
            namespace="namespace_definition",
        ),
        **dict.fromkeys(
            ("function_call_expression", "member_call_expression", "scoped_call_expression"),
            _php_block,
        ),
    },
    inside=words(
        "declaration_list enum_declaration_list compound_statement colon_block if_statement else_clause else_if_clause"
        " try_statement expression_statement function_call_expression member_call_expression scoped_call_expression"
        " arguments argument anonymous_function"
    ),
    identifiers=words("name"),
    assignments={"assignment_expression": ("left/name", "right")},
    values=kinds(function="anonymous_function arrow_function"),
    wrappers=words("expression_statement"),
    annotations=words("attribute_list"),
    dull=words("php_tag namespace_use_declaration declare_statement"),
)


# ---- Ruby


def _ruby_block(call: ts.Node) -> Block | None:
    """What a call with a name and a block defines: a method, a test, or a route, task or the like."""
    name = _ruby_call_name(call)
    if name is None or child(call, "block") is None:
        return None

    path = (child(call, field) for field in ("receiver", "method"))
    callee = ".".join(filter(None, map(node_text, path)))
    text = node_text(name).strip("\"':")
    if callee == "define_method":
        return Block("function", text, call)
    block = named_block(call, callee, text, call)
    is_constant = name.type in ("constant", "scope_resolution")
    return None if block and block.kind != "namespace" and is_constant else block


def _ruby_call_name(call: ts.Node) -> ts.Node | None:
    """The first argument, if it is a name; of `task remind: :environment`, what is before the colon."""
    name = first_part(child(call, "arguments"))
    if name is not None and name.type == "pair":
        needed = child(name, "value")
        is_needed = needed is not None and needed.type in ("simple_symbol", "string", "array")
        name = child(name, "key") if is_needed else None

    is_name = name is not None and name.type in _RUBY_NAMES
    return name if is_name and node_text(child(call, "method")) != "new" else None


_RUBY_NAMES = words("string simple_symbol hash_key_symbol constant scope_resolution")


RUBY = Language(
    name="ruby",
    suffixes=(".rb", ".rake", ".gemspec", ".ru", ".rbi", ".podspec", ".jbuilder", ".thor"),
    module="tree_sitter_ruby",
    definitions={
        **kinds(function="method", method="singleton_method", class_="class", module="module"),
        "call": _ruby_block,
    },
    inside=words(
        "body_statement singleton_class if unless elsif else then begin call do_block block block_body argument_list"
    ),
    identifiers=words("identifier constant instance_variable class_variable global_variable"),
    assignments={"assignment": ("left", "right")},
    other_values="constant",
    # `Line = Struct.new(:price) do … end`
    scopes=words("call"),
    body_starts=words("{ ; end do_block block"),
    is_dull=lambda node: (
        node.type == "call" and node_text(child(node, "method")).startswith("require")
    ),
    owners={"singleton_method": "object"},
    silent=words("self"),
)


# ---- Perl


_POD_PARAGRAPH = re.compile(r"\n\s*\n")


def _pod_text(pod: str) -> str | None:
    """The first paragraph that is no command such as `=head2`."""
    paragraphs = (" ".join(paragraph.split()) for paragraph in _POD_PARAGRAPH.split(pod))
    return next((text for text in paragraphs if text and not text.startswith("=")), None)


def _perl_file_docstring(root: ts.Node) -> str | None:
    """What the POD says below NAME: `Shop::Receipt - writes receipts`."""
    for node in root.named_children:
        if node.type == "pod" and (
            name := re.search(r"^=head1 NAME\s", node_text(node), re.MULTILINE)
        ):
            return _pod_text(node_text(node)[name.start() :])
    return None


def _perl_block(call: ts.Node) -> Block | None:
    """A statement that calls something with a name and a sub: `get '/lamps' => sub { … };`."""
    arguments = child(call, "arguments")
    name = first_part(arguments)
    function = first_child(arguments, "anonymous_subroutine_expression")
    is_statement = call.parent is not None and call.parent.type == "expression_statement"
    if not is_statement or function is None or name is None or name.type not in _PERL_NAMES:
        return None
    text = node_text(name).strip("\"'")
    return named_block(call, node_text(child(call, "function", "method")), text, function)


_PERL_NAMES = words("string_literal interpolated_string_literal autoquoted_bareword")
_PERL_CALLS = (
    "ambiguous_function_call_expression",
    "function_call_expression",
    "method_call_expression",
)

PERL = Language(
    name="perl",
    suffixes=(".pl", ".pm", ".t"),
    module="tree_sitter_perl",
    definitions={
        **kinds(
            function="subroutine_declaration_statement method_declaration_statement",
            class_="class_statement",
            namespace="package_statement",
        ),
        **dict.fromkeys(_PERL_CALLS, _perl_block),
    },
    inside=words("block phaser_statement conditional_statement expression_statement"),
    identifiers=words("scalar array bareword function method"),
    # The POD of a function; that of a module is as long as a page.
    is_prefix=lambda node: (
        node.type == "pod" and node_text(node).startswith(("=head2", "=head3", "=item"))
    ),
    body_starts=words("block"),
    dull=words("use_statement"),
    # The lines after it are in the package.
    is_dull=lambda node: node.type == "package_statement" and first_child(node, "block") is None,
    silent=words("main"),
    is_tolerant=True,
    docstring=lambda _node, prefixes: _pod_text(node_text(prefixes[-1])) if prefixes else None,
    file_docstring=_perl_file_docstring,
)


# ---- Julia


def _inside(node: ts.Node | None, *kinds: str) -> ts.Node | None:
    """The first node inside those of these kinds that begin a node."""
    while node is not None and node.type in kinds:
        node = first_part(node)
    return node


def _julia_call(node: ts.Node) -> ts.Node | None:
    """The call in the head of a function or macro: without its type and `where`."""
    signature = first_child(node, "signature") or node
    call = _inside(signature, "signature", "assignment", "where_expression", "typed_expression")
    return call if call is not None and call.type == "call_expression" else None


def _julia_name(node: ts.Node) -> ts.Node | None:
    """The name of what is called, or of a type without its parameters and supertype."""
    if (name := child(node, "name")) is not None:
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


def _julia_test(macro: ts.Node) -> Block | None:
    """What `@testset "parsing" begin … end` tests; one with a loop has no name of its own."""
    arguments = first_child(macro, "macro_argument_list")
    name, body = (first_child(arguments, kind) for kind in ("string_literal", "compound_statement"))
    is_test = node_text(first_part(macro)) == "@testset" and name is not None and body is not None
    return Block("test", unquoted(name), body) if is_test and body is not None else None


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
        "macrocall_expression": _julia_test,
    },
    find_name=_julia_name,
    inside=words("const_statement macrocall_expression macro_argument_list if_statement block"),
    comments=words("line_comment block_comment"),
    wrappers=words("const_statement macrocall_expression macro_argument_list"),
    is_prefix=lambda node: node.type in ("string_literal", "prefixed_string_literal"),
    annotations=words("macro_identifier"),
    body_starts=words("operator"),
    heads=words("signature type_head identifier"),
    dull=words("using_statement import_statement export_statement public_statement"),
    # `Base.show(…) = …` adds to a function, and no type has functions of its own.
    has_methods=False,
    plain_parents=frozenset({"module"}),
    docstring=_julia_docstring,
)


# ---- Lua


def _lua_block(call: ts.Node) -> Block | None:
    """A statement that calls something with a name and code: `it("adds", function() … end)`.

    The code may be in a table, as of `register_node("lamp", {on_dig = function() … end})`.
    """
    arguments = child(call, "arguments")
    name, function, table = (
        first_child(arguments, kind)
        for kind in ("string", "function_definition", "table_constructor")
    )
    is_statement = call.parent is not None and call.parent.type in ("chunk", "block")
    body = function or (table if _has_function(table) else None)
    if not is_statement or name is None or body is None:
        return None
    text = node_text(child(name, "content"))
    return named_block(call, node_text(child(call, "name")), text, body)


def _has_function(table: ts.Node | None) -> bool:
    values = (child(field, "value") for field in parts(table))
    return any(value is not None and value.type == "function_definition" for value in values)


LUA = Language(
    name="lua",
    suffixes=(".lua",),
    module="tree_sitter_lua",
    definitions={**kinds(function="function_declaration"), "function_call": _lua_block},
    inside=words(
        "variable_declaration assignment_statement table_constructor do_statement if_statement"
        " else_statement elseif_statement block return_statement expression_list arguments function_definition"
    ),
    assignments={
        "assignment_statement": ("variable_list/name", "expression_list/value"),
        "field": ("name", "value"),
    },
    values=kinds(function="function_definition", constant="table_constructor"),
    scopes=words("table_constructor"),
    opaque=words("function_declaration function_definition"),
    wrappers=words("variable_declaration"),
    silent=words("M _M self"),
)


# ---- Bash


# How Bats begins a test: `@test "opens a gate" {`.
_BATS_HEAD = re.compile(
    rb"^([ \t]*+)(@test[ \t]++(?:\"(?:[^\"\\\n]|\\.)++|'[^'\n]++))[\"']([ \t]++)\{", re.MULTILINE
)
_NOT_ASCII = re.compile(rb"[^\x00-\x7f]")


def _for_bash(source: bytes) -> bytes:
    """The source in ASCII, and with a function in place of each test of Bats."""
    # The grammar's scanner calls C's isdigit with whole code points, and that reads a table of 256.
    return _BATS_HEAD.sub(_function_head, _NOT_ASCII.sub(b"_", source))


def _function_head(test: re.Match[bytes]) -> bytes:
    return test[1] + b"_" * len(test[2]) + b"()" + test[3][1:] + b"{"


def _bash_function(node: ts.Node) -> str | Block:
    name = node_text(child(node, "name"))
    body = child(node, "body")
    if name.startswith("@test") and body is not None:
        return Block("test", re.split("[\"']", name, maxsplit=1)[1], body)
    return "function"


BASH = Language(
    name="bash",
    suffixes=(
        *(".sh", ".bash", ".zsh", ".ksh", ".bats", ".ebuild"),
        *(".preinst", ".postinst", ".prerm", ".postrm"),
    ),
    module="tree_sitter_bash",
    definitions={"function_definition": _bash_function},
    inside=words(
        "if_statement elif_clause else_clause compound_statement do_group list declaration_command"
    ),
    identifiers=words("variable_name"),
    assignments={"variable_assignment": ("name", "value")},
    other_values="constant",
    is_tolerant=True,
    rewrite=_for_bash,
)


# ---- PowerShell


def _powershell_docstring(definition: ts.Node, _prefixes: Sequence[ts.Node]) -> str | None:
    """The synopsis of the help in a comment at the top of a definition's body."""
    body = first_child(definition, "script_block")
    comments = (node_text(first_child(parent, "comment")) for parent in (definition, body))
    return next(filter(None, map(synopsis, comments)), None)


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
    # Without the scope where it is seen: `global:Close-Gate`.
    find_name=lambda node: node_text(first_child(node, "function_name", "simple_name")).rpartition(
        ":"
    )[2],
    inside=words("statement_list script_block script_block_body"),
    identifiers=words("variable command_name"),
    body_starts=words("{"),
    is_tolerant=True,
    docstring=_powershell_docstring,
)

LANGUAGES = (PYTHON, PHP, RUBY, BASH, LUA, PERL, JULIA, POWERSHELL)
