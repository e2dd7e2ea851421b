"""Source code -> one document per function, method and class, in every language of `languages.py`.

The syntax tree is walked with a cursor that enters only what may hold definitions. A tree-sitter query would be
shorter, but its time is quadratic in a run of tokens (100 kB of brackets take 8 s) and it cannot be interrupted:
the progress callback of `QueryCursor.matches` crashes the interpreter in tree-sitter 0.26.1.
"""

from __future__ import annotations

import hashlib
import inspect
import re
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import tree_sitter as ts

from index.errors import InvalidInput
from index.records import Document, Location, Secondary, Skipped, SourceFile, Span
from index.sources.files import read_bounded, role, walk
from index.sources.languages import BY_SUFFIX, LANGUAGES, Language, grammar, keywords

VERSION = 1
PARSE_SECONDS = (
    5.0  # looked at between the parser's steps; one step of error recovery may take longer
)
MAX_TREE_DEPTH = 200
MAX_NESTING = 16
MAX_NAME = 200  # characters
MAX_SIGNATURE_LINE = 300  # characters
MAX_GAP_BYTES = 400  # bytes of white space between a doc comment and its definition
LICENCE_ROWS = 5  # a licence begins in one of the first lines

_FUNCTIONS = frozenset({"function", "method"})
_NAMES_ONLY = frozenset({"scope", "namespace"})
_DOTTED = re.compile(r"[\w$#]+((\.|::|\\)[\w$#]+)+")
_SEPARATOR = re.compile(r"\.|::|\\")
_OWNER = re.compile(r"(\w+)(\[[^\]]*\])?\W*$")  # Go's `(c *Cache[K, V])`, Ruby's `self`
_STRING = re.compile(r"""[rRuU]?("{3}|'{3}|"|')(.*)\1""", re.DOTALL)
_LETTERS = re.compile(r"\w")
_LICENCE = re.compile(
    r"\bcopyright:? (\(c\)|©|\d{4}|by )|\ball rights reserved\b|\blicen[cs]ed under\b|SPDX-|@licen[cs]e|@fileoverview"
    r"|permission is hereby granted",
    re.IGNORECASE,
)
_PRAGMA = re.compile(
    r"\s*(go:\w|\+build |nolint|eslint|js[hl]int|tslint|biome-|prettier-|istanbul |c8 |v8 |@ts-|ts-|@flow|globals? \w"
    r"|noinspection|rubocop:|frozen_string_literal|-\*-|(en)?coding[:=]|typed: |phpcs:|phpstan-|@codeCoverageIgnore"
    r"|:nodoc:|:\w+:$|!/|#?(end)?region\b|cspell:|NOSONAR|NOLINT|CHECKSTYLE|@formatter:)"
)
_BODY_STARTS = frozenset({"{", ";", "end", "field_declaration_list"})


def files(
    root: Path, *, secondary: Secondary = "demote", entities: bool = False
) -> Iterator[SourceFile | Skipped]:
    """The source files below a directory (or `root` itself, if it is a file), sorted, and what cannot be read.

    `secondary="leave-out"` skips test, vendored, generated and minified files; otherwise they are there, told by
    `fields["role"]`. `entities=True` also fills in the identifier spans, which takes several times longer.
    """
    single = not root.is_dir()
    for name in [root.name] if single else walk(root):
        if isinstance(name, Skipped):
            yield name
        elif language := BY_SUFFIX.get(Path(name).suffix.lower()):
            path = root if single else root / name
            yield _source_file(path, name, language, secondary, entities)
        elif single:
            yield Skipped(name, f"not source code in a known language ({', '.join(BY_SUFFIX)})")


def names(root: Path) -> Iterator[str]:
    """Names of the source files below a directory, of whatever part; none of them is opened."""
    for name in walk(root):
        if isinstance(name, str) and Path(name).suffix.lower() in BY_SUFFIX:
            yield name


def _source_file(
    path: Path, name: str, language: Language, secondary: Secondary, entities: bool
) -> SourceFile | Skipped:
    content = _content(path, name)
    if isinstance(content, Skipped):
        return content
    part = role(name, content)
    if secondary == "leave-out" and part != "source":
        return Skipped(name, f"left out as {part} code")
    digest = _digest(content, name, entities)

    def read() -> Iterator[Document | Skipped]:
        content = _content(path, name)
        if isinstance(content, Skipped):
            yield replace(content, passing=True)
        elif _digest(content, name, entities) != digest:
            yield Skipped(
                name, "changed while it was being read; build again to include it", passing=True
            )
        else:
            yield from _documents(content, name, language, part, entities)

    return SourceFile(name, digest, read)


def _content(path: Path, name: str) -> bytes | Skipped:
    content = read_bounded(path, name)
    if isinstance(content, Skipped):
        return content
    if b"\0" in content:
        return Skipped(name, "binary: it holds a zero byte")
    try:
        content.decode()
    except UnicodeDecodeError as error:
        return Skipped(name, f"not UTF-8: {error.reason}", content.count(b"\n", 0, error.start) + 1)
    return content.removeprefix(b"\xef\xbb\xbf")


def _digest(content: bytes, name: str, entities: bool) -> str:
    return hashlib.sha256(f"code {VERSION} {entities} {name}\0".encode() + content).hexdigest()


def _documents(
    source: bytes, path: str, language: Language, part: str, entities: bool
) -> Iterator[Document | Skipped]:
    tree = _parse(source, language)
    if tree is None:
        yield Skipped(path, f"takes more than {PARSE_SECONDS:g} s to parse", passing=True)
        return
    definitions = _Walk(source, language).run(tree.root_node)
    lines = source.split(b"\n")
    seen: Counter[str] = Counter()
    for definition in definitions:
        body = (
            _outline(definition, lines)
            if definition.kind not in _FUNCTIONS
            else definition.text(source)
        )
        document = _document(definition, source, path, body.decode(), part)
        seen[document.title] += 1
        if seen[document.title] > 1:
            document = replace(document, id=f"{document.id}~{seen[document.title]}")
        yield (
            replace(document, entities=identifiers(document.body, language.name))
            if entities
            else document
        )
    if tree.root_node.has_error:
        read = (
            f"the {len(definitions)} sound definitions of the file were read"
            if definitions
            else "nothing was read"
        )
        yield Skipped(
            path, f"does not parse here; {read}", _first_error(tree.root_node).start_point.row + 1
        )


def _document(definition: _Definition, source: bytes, path: str, body: str, part: str) -> Document:
    title = ".".join(definition.names)
    first_line = definition.outer.start_point.row + 1
    head, signature = (
        source[slice(*span)].decode() for span in (definition.head, definition.signature)
    )
    atom = Span(len(head), len(head) + len(signature))
    return Document(
        id=f"{path}::{title}",
        kind="code",
        title=title,
        body=body,
        summary=definition.summary,
        context=definition.names[:-1],
        location=Location(path, first_line, first_line + definition.text(source).count(b"\n")),
        fields={
            "language": definition.language.name,
            "name": definition.names[-1],
            "kind": definition.kind,
            "path": path,
            "signature": _one_line(signature),
            "role": part,
        },
        atoms=(atom,) if atom.end <= len(body) else (),
    )


def _one_line(signature: str) -> str:
    line = " ".join(signature[: 10 * MAX_SIGNATURE_LINE].split())
    return line.removesuffix("=>").removesuffix(":").rstrip()[:MAX_SIGNATURE_LINE]


def _outline(definition: _Definition, lines: list[bytes]) -> bytes:
    """A class without the bodies of the definitions inside it, and without their doc comments: whole lines.

    Blank lines that follow a body go with it.
    """
    start, end = definition.outer.start_point, definition.outer.end_point
    cut: set[int] = set()
    for part in definition.parts:
        cut.update(range(part.doc_row, part.outer.end_point.row + 1))
    for part in definition.parts:
        cut.difference_update(range(part.outer.start_point.row, part.signature_row + 1))
    kept = []
    for row in range(start.row, end.row + 1):
        if row - 1 in cut and not lines[row].strip():
            cut.add(row)
        if row not in cut:
            line = lines[row][: end.column] if row == end.row else lines[row]
            kept.append(line[start.column :] if row == start.row else line)
    return b"\n".join(kept).rstrip()


def _parse(source: bytes, language: Language) -> ts.Tree | None:
    """The syntax tree; None if it takes longer than `PARSE_SECONDS`."""
    deadline = time.monotonic() + PARSE_SECONDS
    try:
        return ts.Parser(grammar(language)).parse(
            lambda offset, _point: source[offset : offset + 65536],
            progress_callback=lambda _offset, _has_error: time.monotonic() > deadline,
        )
    except ValueError:
        return None


def _first_error(root: ts.Node) -> ts.Node:
    """The first node below the root that is an error or a missing token, on the path of nodes that have one inside."""
    node, cursor = root, root.walk()
    while (node == root or not (node.is_error or node.is_missing)) and cursor.goto_first_child():
        while not (child := _at(cursor)).has_error and cursor.goto_next_sibling():
            pass
        if not child.has_error:
            break
        node = child
    return node


def _at(cursor: ts.TreeCursor) -> ts.Node:
    node = cursor.node
    assert node is not None  # only of an empty tree
    return node


@dataclass(slots=True)
class _Definition:
    """A definition in a tree. `outer` includes decorators or `export`.

    `signature` are byte offsets and `signature_row` is its last row; `doc_row` is where the doc comment starts, or
    the definition; `parts` are the definitions directly inside; `broken` tells of a syntax error outside of them.
    """

    kind: str
    names: tuple[str, ...]
    language: Language
    outer: ts.Node
    depth: int
    signature: tuple[int, int]
    signature_row: int
    summary: str
    doc_row: int
    parts: list[_Definition] = field(default_factory=list)
    broken: bool = False

    @property
    def head(self) -> tuple[int, int]:
        """What comes before the signature, as byte offsets: decorators, attributes."""
        return self.outer.start_byte, self.signature[0]

    def text(self, source: bytes) -> bytes:
        """The whole definition, without white space at its end."""
        return source[self.outer.start_byte : self.outer.end_byte].rstrip()


class _Walk:
    """One pass over a syntax tree, in source order, that collects its definitions."""

    def __init__(self, source: bytes, language: Language) -> None:
        self._source = source
        self._language = language
        self._found: list[_Definition] = []
        self._open: list[_Definition] = []  # the definitions around the cursor, outermost first
        self._comments: list[ts.Node] = []  # the last run of comments on adjacent lines
        self._wrapper: tuple[ts.Node, int] | None = (
            None  # outermost of a chain, and the depth of the innermost
        )

    def run(self, root: ts.Node) -> list[_Definition]:
        """The definitions that parsed cleanly, in source order."""
        cursor, depth = root.walk(), 0
        while depth >= 0:
            enter = depth == 0 or (self._visit(_at(cursor), depth) and depth < MAX_TREE_DEPTH)
            if enter and cursor.goto_first_child():
                depth += 1
                continue
            while depth >= 0 and not cursor.goto_next_sibling():
                cursor.goto_parent()
                depth -= 1
        return [found for found in self._found if not found.broken]

    def _visit(self, node: ts.Node, depth: int) -> bool:
        """Take note of a node, and tell whether what is inside it matters."""
        while self._open and self._open[-1].depth >= depth:
            self._open.pop()
        kind = node.type
        if node.is_error or node.is_missing:
            self._mark_broken()
            return True
        if not node.is_named:
            return False
        if kind in self._language.comments:
            self._add_comment(node)
            return False
        if candidate := self._candidate(node):
            return self._add(node, depth, *candidate)
        if kind in self._language.wrappers:
            self._add_wrapper(node, depth)
        return self._enters(node)

    def _enters(self, node: ts.Node) -> bool:
        if node.type in self._language.inside:
            return True
        if node.has_error:
            self._mark_broken()
        return False

    def _mark_broken(self) -> None:
        if self._open:
            self._open[-1].broken = True

    def _candidate(self, node: ts.Node) -> tuple[str, tuple[str, ...], ts.Node] | None:
        """Kind, own names and the node with the body, if the node defines something."""
        language, inner, name_field = self._language, node, "name"
        kind = language.definitions.get(node.type)
        if kind is None:
            if node.type not in language.assignments:
                return None
            name_field, value_field = language.assignments[node.type]
            value = node.child_by_field_name(value_field)
            if value is None or value.type not in language.values:
                return None
            kind, inner = language.values[value.type], value
        names = self._names(node, name_field, kind)
        return None if names is None else (kind, names, inner)

    def _names(self, node: ts.Node, name_field: str, kind: str) -> tuple[str, ...] | None:
        """The names that a node gives, after the type's that a method belongs to; None if it cannot be named."""
        text = (
            self._short_text(node.child_by_field_name(name_field)).strip("\"'")
            if name_field
            else "default"
        )
        parts = _SEPARATOR.split(text) if _DOTTED.fullmatch(text) else text.split()
        spoken = tuple(part for part in parts if part not in self._language.silent)
        if kind in _NAMES_ONLY:
            return spoken
        names = spoken or tuple(parts[-1:])
        return self._owner(node) + names if len(text.split()) == 1 else None

    def _owner(self, node: ts.Node) -> tuple[str, ...]:
        owner_field = self._language.owners.get(node.type)
        match = (
            _OWNER.search(self._short_text(node.child_by_field_name(owner_field)))
            if owner_field
            else None
        )
        known = (*self._language.silent, *self._context()[-1:])
        return (match[1],) if match and match[1] not in known else ()

    def _short_text(self, node: ts.Node | None) -> str:
        """The node's text; empty if there is no node or it is too long for a name."""
        if node is None or node.end_byte - node.start_byte > MAX_NAME:
            return ""
        return self._source[node.start_byte : node.end_byte].decode()

    def _context(self) -> tuple[str, ...]:
        return self._open[-1].names if self._open else ()

    def _add(
        self, node: ts.Node, depth: int, kind: str, names: tuple[str, ...], inner: ts.Node
    ) -> bool:
        """Keep a definition; true if others may be inside it."""
        parent = self._open[-1] if self._open else None
        function = kind in _FUNCTIONS
        if len(self._open) >= MAX_NESTING or (function and node.has_error):
            return False
        if kind == "function" and (len(names) > 1 or (parent and parent.kind != "namespace")):
            kind = "method"
        definition = self._define(node, depth, kind, names, inner)
        if kind not in _NAMES_ONLY:
            self._found.append(definition)
            if parent:
                parent.parts.append(definition)
        if not function:
            self._open.append(definition)
        return not function

    def _define(
        self, node: ts.Node, depth: int, kind: str, names: tuple[str, ...], inner: ts.Node
    ) -> _Definition:
        outer = self._outer(node, depth)
        start = _after_annotations(outer, self._language)
        end, row = _head_end(inner, self._language)
        if self._language.docstrings:
            summary, doc_row = _docstring(inner), outer.start_point.row
        else:
            summary, doc_row = self._doc_comment(outer)
        names = self._context() + names
        signature = (start, max(start, end))
        return _Definition(
            kind, names, self._language, outer, depth, signature, row, summary, doc_row
        )

    def _add_wrapper(self, node: ts.Node, depth: int) -> None:
        """Remember a node that belongs to the one definition it holds; `const a = …, b = …` holds two."""
        beside = self._language.annotations | self._language.comments
        held = sum(child.type not in beside for child in node.named_children)
        self._wrapper = (self._outer(node, depth), depth) if held == 1 else None

    def _outer(self, node: ts.Node, depth: int) -> ts.Node:
        """The outermost of the wrappers directly around a node, or the node itself."""
        if (
            self._wrapper
            and self._wrapper[1] == depth - 1
            and node.end_byte <= self._wrapper[0].end_byte
        ):
            return self._wrapper[0]
        return node

    def _add_comment(self, node: ts.Node) -> None:
        column = node.start_point.column
        own_line = (
            column <= MAX_GAP_BYTES
            and not self._source[node.start_byte - column : node.start_byte].strip()
        )
        if not own_line or not self._comments or not self._touches(self._comments[-1], node):
            self._comments.clear()
        if own_line:
            self._comments.append(node)

    def _touches(self, comment: ts.Node, node: ts.Node) -> bool:
        """Whether a node begins on the same line as the comment ends, or on the next."""
        if not 0 <= node.start_byte - comment.end_byte <= MAX_GAP_BYTES:
            return False
        gap = self._source[comment.end_byte : node.start_byte]
        return not gap.strip() and gap.count(b"\n") <= 1

    def _doc_comment(self, outer: ts.Node) -> tuple[str, int]:
        """The doc comment directly above, cleaned, and the row it starts in; no text and the node's row if none."""
        row = outer.start_point.row
        if not self._comments or not self._touches(self._comments[-1], outer):
            return "", row
        texts: list[str] = []
        for comment in reversed(self._comments):
            text = self._source[comment.start_byte : comment.end_byte].decode()
            block = text.startswith(("/*", "=begin"))
            if block and texts:
                break
            texts.append(text)
            row = comment.start_point.row
            if block:
                break
        text = "\n".join(reversed(texts))
        licence = row <= LICENCE_ROWS and not self._found and _LICENCE.search(text)
        return ("" if licence else _prose(text)), row


def _after_annotations(outer: ts.Node, language: Language) -> int:
    """Where the first token starts that is no decorator, annotation or attribute; a byte offset."""
    cursor = outer.walk()
    while True:
        node = _at(cursor)
        beside = node.type in language.annotations or node.type in language.comments
        if not beside and not cursor.goto_first_child():
            return node.start_byte
        while beside and not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return outer.start_byte


def _head_end(inner: ts.Node, language: Language) -> tuple[int, int]:
    """Byte offset and row where the signature ends: before the body, and before comments in front of it."""
    body = inner.child_by_field_name("body")
    last = inner
    for child in inner.children:
        if child == body or child.type in _BODY_STARTS:
            break
        if child.type not in language.comments:
            last = child
    return last.end_byte, last.end_point.row


def _docstring(inner: ts.Node) -> str:
    """Python's: the string that a body begins with, without its quotes and common indentation."""
    node = inner.child_by_field_name("body")
    for kind in ("expression_statement", "string"):
        node = node.named_child(0) if node is not None and node.named_child_count else None
        if node is None or node.type != kind:
            return ""
    match = _STRING.fullmatch((node.text or b"").decode()) if node is not None else None
    return inspect.cleandoc(match[2].removeprefix("\\\n")).strip() if match else ""


def _prose(comment: str) -> str:
    """What a comment says: without its markers, pragmas and rulers."""
    lines = (_unmarked(line) for line in comment.removesuffix("*/").splitlines())
    said = [
        line for line in lines if not _PRAGMA.match(line) and (not line or _LETTERS.search(line))
    ]
    return inspect.cleandoc("\n".join(said).rstrip())


def _unmarked(line: str) -> str:
    stripped = line.strip()
    for marker in ("/**", "/*!", "/*", "*", "///", "//", "#", "=begin", "=end"):
        if stripped.startswith(marker):
            return stripped.removeprefix(marker).removeprefix(" ")
    return line.rstrip()


def identifiers(body: str, language: str) -> tuple[Span, ...]:
    """Spans of the names in a piece of code: variables, functions, methods, types, imported libraries.

    `language` is the name of one of `LANGUAGES`; raises InvalidInput for others. The code may be a bare method or
    the outline of a class: it is completed to a program where it does not parse by itself.
    """
    shells = [
        (known, shell) for known in LANGUAGES if known.name == language for shell in known.shells
    ]
    if not shells:
        names = ", ".join(sorted({known.name for known in LANGUAGES}))
        raise InvalidInput(f"unknown language {language!r}; known are {names}", field="language")
    content = body.encode(errors="replace")
    found: list[tuple[int, int]] = []
    for known, shell in shells:
        prefix, suffix = (part.replace("{indent}", _indentation(body)).encode() for part in shell)
        tree = _parse(prefix + content + suffix, known)
        if tree is not None and not tree.root_node.has_error:
            return _character_spans(content, _tokens(tree, known, len(prefix), len(content)))
        if tree is not None and not found:
            words = {word.encode() for word in keywords(known)}
            tokens = _tokens(tree, known, len(prefix), len(content))
            found = [token for token in tokens if content[slice(*token)] not in words]
    return _character_spans(content, found)


def _indentation(body: str) -> str:
    """The least white space that the lines after the first begin with."""
    indented = (
        line[: len(line) - len(line.lstrip())] for line in body.split("\n")[1:] if line.strip()
    )
    return min(indented, key=len, default="")


def _tokens(tree: ts.Tree, language: Language, offset: int, size: int) -> list[tuple[int, int]]:
    """(start, end) byte offsets, less `offset`, of the names that lie in the `size` bytes after it."""
    cursor, found = tree.walk(), []
    while True:
        node = _at(cursor)
        if node.type in language.identifiers and node.is_named:
            start, end = node.start_byte - offset, node.end_byte - offset
            if 0 <= start < end <= size:
                found.append((start, end))
        elif cursor.goto_first_child():
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return found


def _character_spans(content: bytes, spans: list[tuple[int, int]]) -> tuple[Span, ...]:
    """Byte spans, in order and apart, as spans of characters."""
    if content.isascii():
        return tuple(Span(start, end) for start, end in spans)
    result, done, characters = [], 0, 0
    for start, end in spans:
        first = characters + len(content[done:start].decode())
        characters, done = first + len(content[start:end].decode()), end
        result.append(Span(first, characters))
    return tuple(result)
