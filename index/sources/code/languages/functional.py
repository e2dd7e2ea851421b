"""Elixir, Haskell and OCaml."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import tree_sitter as ts

from purlin.index.sources.code.languages.nodes import (
    child,
    first_child,
    first_part,
    node_text,
    parts,
    unquoted,
)
from purlin.index.sources.code.syntax import Language, blanked
from purlin.index.sources.words import kinds, words

# ---- Elixir


def _elixir_kind(node: ts.Node) -> str | None:
    """What a call defines: modules and functions are calls of macros."""
    word = node_text(child(node, "target"))
    return _ELIXIR_KINDS.get(word)


_ELIXIR_KINDS = kinds(
    module="defmodule defimpl",
    interface="defprotocol",
    function="def defp defguard defguardp defdelegate",
    macro="defmacro defmacrop",
    test="test",
    namespace="describe",
)


def _elixir_name(node: ts.Node) -> ts.Node | str | None:
    """The name in the head of a definition: before its parameters, and before `when`."""
    if node_text(child(node, "target")) == "describe":
        return None
    arguments = first_child(node, "arguments")
    head = first_part(arguments)
    if node_text(child(node, "target")) == "defimpl":
        owner = child(first_child(first_child(arguments, "keywords"), "pair"), "value")
        return ".".join(filter(None, (node_text(head), node_text(owner))))

    if node_text(child(head, "operator")) == "when":
        head = child(head, "left")
    if head is None or head.type in ("identifier", "alias", "string"):
        return head
    return child(head, "target", "operator")


def _elixir_attribute(node: ts.Node) -> str:
    """The name of a module attribute like `@doc`; empty for other nodes."""
    if node.type != "unary_operator":
        return ""
    return node_text(child(child(node, "operand") or node, "target"))


def _elixir_docstring(definition: ts.Node, prefixes: Sequence[ts.Node]) -> str:
    attributes = list(prefixes)
    if _elixir_kind(definition) in ("module", "interface"):
        attributes = list(parts(first_child(definition, "do_block")))

    for attribute in attributes:
        if _elixir_attribute(attribute) in ("doc", "moduledoc"):
            call = child(attribute, "operand")
            return unquoted(first_child(first_child(call, "arguments"), "string", "sigil"))
    return ""


ELIXIR = Language(
    name="elixir",
    suffixes=(".ex", ".exs"),
    module="tree_sitter_elixir",
    definitions={"call": _elixir_kind},
    find_name=_elixir_name,
    inside=words("do_block"),
    # A name and the `def` before it are the same kind of node.
    identifiers=frozenset(),
    is_prefix=lambda node: (
        _elixir_attribute(node) in ("doc", "spec", "impl", "deprecated", "since", "dialyzer")
    ),
    body_starts=words("do_block"),
    is_dull=lambda node: (
        _elixir_attribute(node) == "moduledoc"
        or (
            node.type == "call"
            and node_text(child(node, "target")) in ("alias", "import", "require", "use")
        )
    ),
    has_clauses=True,
    plain_parents=frozenset({"module", "interface"}),
    docstring=_elixir_docstring,
    file_docstring=lambda _root: "",
)


# ---- Haskell


_HASKELL_CONSTRUCTOR = re.compile(r"\b[A-Z][\w.']*")


def _haskell_name(node: ts.Node) -> ts.Node | str | None:
    """The name, without the parentheses around an operator; of an instance, class and type."""
    if node.type == "instance":
        type_text = node_text(_last(first_child(node, "type_patterns")))
        # Of `(Either a b)` the constructor; `(a, b)` and `(a -> b)` have none.
        constructor = _HASKELL_CONSTRUCTOR.search(type_text)
        instance_of = constructor[0] if constructor else "".join(type_text.split())
        return f"{node_text(child(node, 'name'))}.{instance_of}"

    name = child(node, "name")
    if name is None:
        name = child(first_child(node, "infix") or node, "operator")
    return first_child(name, "operator") or name if name is not None else None


def _last(node: ts.Node | None) -> ts.Node | None:
    return node.named_children[-1] if node is not None and node.named_child_count else None


# Of the C preprocessor: to the end of the line, or of the last that a backslash continues.
_DIRECTIVE = re.compile(
    rb"^#[ \t]*(?:if|ifdef|ifndef|elif|else|endif|define|undef|include|error|warning)\b(?:[^\n\\]|\\.|\\\n)*",
    re.MULTILINE,
)


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
    inside=words("declarations class_declarations imports"),
    identifiers=words("variable constructor name"),
    comments=words("comment haddock"),
    body_starts=words("class_declarations match where"),
    dull=words("import header pragma"),
    has_clauses=True,
    # The grammar reads nothing from `#else` to `#endif`.
    rewrite=partial(_DIRECTIVE.sub, lambda directive: blanked(directive[0])),
)


# ---- OCaml


def _ocaml_kind(node: ts.Node) -> str:
    """What a `let` defines: a function has parameters, or is `fun` or `function`."""
    body = child(node, "body")
    is_function = first_child(node, "parameter") or (
        body is not None and body.type in ("fun_expression", "function_expression")
    )
    return "function" if is_function else "constant"


def _ocaml_name(node: ts.Node) -> ts.Node | None:
    return (
        child(node, "pattern", "name")
        or first_child(
            first_child(node, "constructor_declaration") or node,
            "value_name", "module_name", "module_type_name", "class_name", "class_type_name",
            "method_name", "constructor_name", "parenthesized_operator",
        )
    )  # fmt: skip


OCAML = Language(
    name="ocaml",
    suffixes=(".ml",),
    module="tree_sitter_ocaml",
    function="language_ocaml",
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
    inside=words(
        "value_definition type_definition module_definition class_definition class_type_definition structure"
        " signature functor object_expression class_body_type"
    ),
    identifiers=words(
        "value_name value_pattern module_name type_constructor constructor_name field_name method_name"
    ),
    wrappers=words(
        "value_definition type_definition module_definition class_definition class_type_definition"
    ),
    body_starts=words("="),
    dull=words("open_module"),
    docs_follow=True,
    plain_parents=frozenset({"module", "interface"}),
)
OCAML_INTERFACE = replace(OCAML, suffixes=(".mli",), function="language_ocaml_interface")

LANGUAGES = (ELIXIR, HASKELL, OCAML_INTERFACE, OCAML)
