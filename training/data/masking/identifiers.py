"""Find the names in a piece of source code."""

from __future__ import annotations

from functools import cache

import tree_sitter as ts

from purlin.index.errors import InvalidInput
from purlin.index.records import Span
from purlin.index.sources.code.languages import LANGUAGES
from purlin.index.sources.code.syntax import Language, current_node, grammar, parse

# What makes a program of a bare definition, before and after it, by language; `{indent}` becomes the
# indentation of the lines after its first.
_BARE, _CLASS = ("", ""), ("class _ {", "}")
_SHELLS = {
    **dict.fromkeys("java csharp kotlin scala swift dart groovy gradle".split(), (_BARE, _CLASS)),
    **dict.fromkeys(
        "javascript typescript vue svelte".split(), (_BARE, ("(", ")"), _CLASS, ("_ = {", "}"))
    ),
    "python": (_BARE, ("if 1:\n{indent}", "")),
    "php": (("<?php ", ""), ("<?php class _ {", "}")),
    "cpp": (_BARE, ("class _ {", "};")),
    "rust": (_BARE, ("impl _ {", "}")),
    "elixir": (_BARE, ("defmodule A do\n", "\nend")),
    "objectivec": (_BARE, ("@implementation _\n", "\n@end")),
    "solidity": (_BARE, ("contract _ {", "}")),
}


def identifiers(body: str, language: str) -> tuple[Span, ...]:
    """Spans of the names in code: variables, functions, methods, types, imported libraries.

    `language` is the name of one of `LANGUAGES`; raises InvalidInput for others. The code may be a
    bare method or the outline of a class: it is completed to a program if it does not parse alone.
    """
    # Several grammars share a name: TypeScript with and without JSX.
    shells = [
        (grammar_language, shell)
        for grammar_language in LANGUAGES
        if grammar_language.name == language
        for shell in _SHELLS.get(language, (_BARE,))
    ]

    if not shells:
        names = ", ".join(sorted({each.name for each in LANGUAGES}))
        raise InvalidInput(f"unknown language {language!r}; known are {names}", field="language")

    content = body.encode(errors="replace")
    fallback: list[tuple[int, int]] = []

    for grammar_language, shell in shells:
        prefix, suffix = (part.replace("{indent}", _indentation(body)).encode() for part in shell)
        tree = parse(prefix + content + suffix, grammar_language)
        if tree is None:
            continue

        tokens = _name_tokens(tree, grammar_language, len(prefix), len(content))
        if not tree.root_node.has_error:
            return _character_spans(content, tokens)

        # After a syntax error, keywords may be read as names; in a component, it is markup.
        if not fallback and not grammar_language.component:
            words = {word.encode() for word in _keywords(grammar_language)}
            fallback = [token for token in tokens if content[slice(*token)] not in words]

    return _character_spans(content, fallback)


@cache
def _keywords(language: Language) -> frozenset[str]:
    """The words of the grammar, including those that may also be names (`get`, `print`)."""
    tree_grammar = grammar(language)
    kinds = (
        tree_grammar.node_kind_for_id(kind)
        for kind in range(tree_grammar.node_kind_count)
        if not tree_grammar.node_kind_is_named(kind)
    )

    return frozenset(kind for kind in kinds if kind and kind.isalpha())


def _indentation(body: str) -> str:
    """The shortest indentation of the lines after the first."""
    indented = (
        line[: len(line) - len(line.lstrip())] for line in body.split("\n")[1:] if line.strip()
    )
    return min(indented, key=len, default="")


def _name_tokens(
    tree: ts.Tree, language: Language, offset: int, size: int
) -> list[tuple[int, int]]:
    """Byte spans of the names within the `size` bytes from `offset` on, relative to `offset`."""
    cursor = tree.walk()
    tokens: list[tuple[int, int]] = []

    while True:
        node = current_node(cursor)
        if node.type in language.identifiers and node.is_named:
            start, end = node.start_byte - offset, node.end_byte - offset
            if 0 <= start < end <= size:
                tokens.append((start, end))
        elif cursor.goto_first_child():
            continue

        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return tokens


def _character_spans(content: bytes, spans: list[tuple[int, int]]) -> tuple[Span, ...]:
    """Convert byte spans, sorted and not overlapping, to spans of characters."""
    if content.isascii():
        return tuple(Span(start, end) for start, end in spans)

    character_spans = []
    byte_position = character_position = 0

    for start, end in spans:
        first = character_position + len(content[byte_position:start].decode())
        character_position = first + len(content[start:end].decode())
        byte_position = end
        character_spans.append(Span(first, character_position))

    return tuple(character_spans)
