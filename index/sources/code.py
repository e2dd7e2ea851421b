"""Read source code as one document per function, method and class, in every known language.

A cursor walks the syntax tree and enters only nodes that may contain definitions. A tree-sitter
query would be shorter, but its time is quadratic in a run of tokens (100 kB of brackets take 8 s)
and it cannot be interrupted: the progress callback of `QueryCursor.matches` crashes the interpreter
in tree-sitter 0.26.1.
"""

from __future__ import annotations

import hashlib
import inspect
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import tree_sitter as ts

from index.errors import InvalidInput
from index.records import Document, Location, Secondary, Skipped, SourceFile, Span, Stamp
from index.sources.files import Content, file_stamp, read_bounded, walk
from index.sources.languages import BY_SUFFIX, LANGUAGES, Language, grammar, keywords
from index.sources.roles import role

VERSION = 2

# Checked between the parser's steps; one step of error recovery may take longer.
PARSE_SECONDS = 5.0
MAX_TREE_DEPTH = 200
MAX_NESTING = 16
MAX_NAME_BYTES = 200
MAX_SIGNATURE_LINE = 300  # characters

# White space between a doc comment and its definition.
MAX_GAP_BYTES = 400

# A licence begins in one of the first rows of a file.
LICENCE_ROWS = 5

_FUNCTIONS = frozenset({"function", "method"})
_NAMES_ONLY = frozenset({"scope", "namespace"})
_DOTTED = re.compile(r"[\w$#]+((\.|::|\\)[\w$#]+)+")
_SEPARATOR = re.compile(r"\.|::|\\")
# The type in Go's receiver `(c *Cache[K, V])`, and Ruby's `self`.
_OWNER = re.compile(r"(\w+)(\[[^\]]*\])?\W*$")
_STRING = re.compile(r"""[rRuU]?("{3}|'{3}|"|')(.*)\1""", re.DOTALL)
_LETTERS = re.compile(r"\w")
_LICENCE = re.compile(
    r"\bcopyright:? (\(c\)|©|\d{4}|by )|\ball rights reserved\b|\blicen[cs]ed under\b|SPDX-|@licen[cs]e|@fileoverview"
    r"|permission is hereby granted",
    re.IGNORECASE,
)

# Comment lines that speak to a tool rather than to a reader.
_PRAGMA = re.compile(
    r"\s*(go:\w|\+build |nolint|eslint|js[hl]int|tslint|biome-|prettier-|istanbul |c8 |v8 |@ts-|ts-|@flow|globals? \w"
    r"|noinspection|rubocop:|frozen_string_literal|-\*-|(en)?coding[:=]|typed: |phpcs:|phpstan-|@codeCoverageIgnore"
    r"|:nodoc:|:\w+:$|!/|#?(end)?region\b|cspell:|NOSONAR|NOLINT|CHECKSTYLE|@formatter:)"
)
_BODY_STARTS = frozenset({"{", ";", "end", "field_declaration_list"})


def files(
    root: Path,
    *,
    secondary: Secondary = "demote",
    entities: bool = False,
    digests: Mapping[str, tuple[Stamp, str]] | None = None,
) -> Iterator[SourceFile | Skipped]:
    """Yield the source files below a directory (or `root` itself, if it is a file), sorted.

    What cannot be read is a `Skipped`. `secondary="leave-out"` skips test, vendored, generated and
    minified files; otherwise their documents have that role in `fields["role"]`. `entities=True`
    also fills in the spans of identifiers, which takes several times longer.

    `digests` has stamps and digests of an earlier listing by path: a file that still has its stamp
    is not opened, if that listing was made by the same version with the same options.
    """
    options = _Options(secondary, entities)
    digests = digests or {}
    is_single_file = not root.is_dir()

    for name in [root.name] if is_single_file else walk(root):
        if isinstance(name, Skipped):
            yield name
        elif language := BY_SUFFIX.get(Path(name).suffix.lower()):
            path = root if is_single_file else root / name
            yield _source_file(path, name, language, options, digests.get(name))
        elif is_single_file:
            yield Skipped(name, f"not source code in a known language ({', '.join(BY_SUFFIX)})")


def names(root: Path) -> Iterator[str]:
    """Names of the source files below a directory, of any role; none of them is opened."""
    for name in walk(root):
        if isinstance(name, str) and Path(name).suffix.lower() in BY_SUFFIX:
            yield name


@dataclass(frozen=True, slots=True)
class _Options:
    secondary: Secondary
    entities: bool

    @property
    def tag(self) -> str:
        """What digests begin with: all that documents depend on besides name and content."""
        leaves_out = self.secondary == "leave-out"
        return f"code {VERSION}{' entities' * self.entities}{' source-only' * leaves_out}:"

    def digest(self, content: bytes, name: str) -> str:
        return self.tag + hashlib.sha256(f"{name}\0".encode() + content).hexdigest()


def _source_file(
    path: Path,
    name: str,
    language: Language,
    options: _Options,
    earlier: tuple[Stamp, str] | None,
) -> SourceFile | Skipped:
    if earlier is not None and earlier[1].startswith(options.tag):
        stamp, digest = earlier
        if file_stamp(path) == stamp:
            read = partial(_read, path, name, language, options, digest)
            return SourceFile(name, digest, read, stamp)

    content = _content(path, name)
    if isinstance(content, Skipped):
        return content

    file_role = role(name, content.data)
    if options.secondary == "leave-out" and file_role != "source":
        return Skipped(name, f"left out as {file_role} code")

    digest = options.digest(content.data, name)
    read = partial(_read, path, name, language, options, digest)
    return SourceFile(name, digest, read, content.stamp)


def _read(
    path: Path, name: str, language: Language, options: _Options, digest: str
) -> Iterator[Document | Skipped]:
    # Read again rather than kept: a build lists all files before it parses the first.
    content = _content(path, name)
    if isinstance(content, Skipped):
        yield replace(content, passing=True)
    elif options.digest(content.data, name) != digest:
        yield Skipped(
            name, "changed while it was being read; build again to include it", passing=True
        )
    else:
        file_role = role(name, content.data)
        yield from _documents(content.data, name, language, file_role, options.entities)


def _content(path: Path, name: str) -> Content | Skipped:
    content = read_bounded(path, name)
    if isinstance(content, Skipped):
        return content
    if b"\0" in content.data:
        return Skipped(name, "binary: it holds a zero byte")

    try:
        content.data.decode()
    except UnicodeDecodeError as error:
        line = content.data.count(b"\n", 0, error.start) + 1
        return Skipped(name, f"not UTF-8: {error.reason}", line)

    return replace(content, data=content.data.removeprefix(b"\xef\xbb\xbf"))


def _documents(
    source: bytes, path: str, language: Language, file_role: str, entities: bool
) -> Iterator[Document | Skipped]:
    tree = _parse(source, language)
    if tree is None:
        yield Skipped(path, f"takes more than {PARSE_SECONDS:g} s to parse", passing=True)
        return

    definitions = _Walk(source, language).run(tree.root_node)
    lines = source.split(b"\n")
    title_counts: Counter[str] = Counter()

    for definition in definitions:
        is_function = definition.kind in _FUNCTIONS
        body = definition.text(source) if is_function else _outline(definition, lines)
        document = _document(definition, source, path, body.decode(), file_role)

        # Overloads and redefinitions share a title; their ids must not.
        title_counts[document.title] += 1
        if title_counts[document.title] > 1:
            document = replace(document, id=f"{document.id}~{title_counts[document.title]}")
        if entities:
            document = replace(document, entities=identifiers(document.body, language.name))

        yield document

    if tree.root_node.has_error:
        outcome = "nothing was read"
        if definitions:
            outcome = f"the {len(definitions)} sound definitions of the file were read"

        error_line = _first_error(tree.root_node).start_point.row + 1
        yield Skipped(path, f"does not parse here; {outcome}", error_line)


def _document(
    definition: _Definition, source: bytes, path: str, body: str, file_role: str
) -> Document:
    title = ".".join(definition.names)
    first_line = definition.outer.start_point.row + 1
    head = source[slice(*definition.head)].decode()
    signature = source[slice(*definition.signature)].decode()
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
            "role": file_role,
        },
        atoms=(atom,) if atom.end <= len(body) else (),
    )


def _one_line(signature: str) -> str:
    line = " ".join(signature[: 10 * MAX_SIGNATURE_LINE].split())
    return line.removesuffix("=>").removesuffix(":").rstrip()[:MAX_SIGNATURE_LINE]


def _outline(definition: _Definition, lines: list[bytes]) -> bytes:
    """The lines of a class without the bodies and doc comments of the definitions inside it.

    Blank lines that follow a body are left out with it.
    """
    start, end = definition.outer.start_point, definition.outer.end_point
    cut_rows: set[int] = set()

    for member in definition.members:
        cut_rows.update(range(member.doc_row, member.outer.end_point.row + 1))

    # Afterwards, since on one line a member may begin where the one before it ends.
    for member in definition.members:
        cut_rows.difference_update(range(member.outer.start_point.row, member.signature_row + 1))

    outline = []
    for row in range(start.row, end.row + 1):
        if row - 1 in cut_rows and not lines[row].strip():
            cut_rows.add(row)
        if row not in cut_rows:
            line = lines[row][: end.column] if row == end.row else lines[row]
            outline.append(line[start.column :] if row == start.row else line)

    return b"\n".join(outline).rstrip()


def _parse(source: bytes, language: Language) -> ts.Tree | None:
    """The syntax tree, or None if parsing takes longer than `PARSE_SECONDS`."""
    deadline = time.monotonic() + PARSE_SECONDS
    try:
        return ts.Parser(grammar(language)).parse(
            lambda offset, _point: source[offset : offset + 65536],
            progress_callback=lambda _offset, _has_error: time.monotonic() > deadline,
        )
    except ValueError:
        return None


def _first_error(root: ts.Node) -> ts.Node:
    """The first node below the root that is an error or a missing token."""
    node, cursor = root, root.walk()
    while (node == root or not (node.is_error or node.is_missing)) and cursor.goto_first_child():
        # Follow the first child with an error inside.
        while not (child := _current_node(cursor)).has_error and cursor.goto_next_sibling():
            pass
        if not child.has_error:
            break
        node = child

    return node


def _current_node(cursor: ts.TreeCursor) -> ts.Node:
    node = cursor.node
    # It is None only for a cursor without a tree.
    assert node is not None
    return node


@dataclass(slots=True)
class _Definition:
    """A definition in a tree.

    `outer` is its node, with decorators or `export`. `signature` is its byte offsets, and
    `signature_row` the last row of it. `doc_row` is where the doc comment starts, or the definition
    if it has none. `members` are the definitions directly inside, and `has_error` says that there
    is a syntax error outside of these.
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
    members: list[_Definition] = field(default_factory=list)
    has_error: bool = False

    @property
    def head(self) -> tuple[int, int]:
        """Byte offsets of what precedes the signature: decorators, attributes."""
        return self.outer.start_byte, self.signature[0]

    def text(self, source: bytes) -> bytes:
        """The whole definition, without white space at its end."""
        return source[self.outer.start_byte : self.outer.end_byte].rstrip()


class _Walk:
    """One pass over a syntax tree, in source order, that collects its definitions."""

    def __init__(self, source: bytes, language: Language) -> None:
        self._source = source
        self._language = language
        self._definitions: list[_Definition] = []

        # The definitions around the cursor, outermost first.
        self._open: list[_Definition] = []

        # The last run of comments on adjacent lines.
        self._comments: list[ts.Node] = []

        # The outermost wrapper of a chain, and the depth of the innermost.
        self._wrapper: tuple[ts.Node, int] | None = None

    def run(self, root: ts.Node) -> list[_Definition]:
        """The definitions that parsed cleanly, in source order."""
        cursor, depth = root.walk(), 0
        while depth >= 0:
            enters = depth == 0 or (
                self._visit(_current_node(cursor), depth) and depth < MAX_TREE_DEPTH
            )
            if enters and cursor.goto_first_child():
                depth += 1
                continue

            # No children to visit: on to the next node that is not inside this one.
            while depth >= 0 and not cursor.goto_next_sibling():
                cursor.goto_parent()
                depth -= 1

        return [definition for definition in self._definitions if not definition.has_error]

    def _visit(self, node: ts.Node, depth: int) -> bool:
        """Record a node; true if the nodes inside it are to be visited."""
        while self._open and self._open[-1].depth >= depth:
            self._open.pop()

        kind = node.type
        if node.is_error or node.is_missing:
            self._mark_error()
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
            self._mark_error()
        return False

    def _mark_error(self) -> None:
        if self._open:
            self._open[-1].has_error = True

    def _candidate(self, node: ts.Node) -> tuple[str, tuple[str, ...], ts.Node] | None:
        """Kind, names and the node with the body, if the node defines something, else None."""
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
        """The node's names, after that of the type a method belongs to; None if it has no name."""
        text = "default"
        if name_field:
            text = self._short_text(node.child_by_field_name(name_field)).strip("\"'")

        parts = _SEPARATOR.split(text) if _DOTTED.fullmatch(text) else text.split()
        telling_parts = tuple(part for part in parts if part not in self._language.silent)
        if kind in _NAMES_ONLY:
            return telling_parts

        names = telling_parts or tuple(parts[-1:])
        return self._owner(node) + names if len(text.split()) == 1 else None

    def _owner(self, node: ts.Node) -> tuple[str, ...]:
        """The type that a method belongs to, unless the names around the node say it already."""
        owner_field = self._language.owners.get(node.type)
        if not owner_field:
            return ()

        match = _OWNER.search(self._short_text(node.child_by_field_name(owner_field)))
        implied_names = (*self._language.silent, *self._context()[-1:])
        return (match[1],) if match and match[1] not in implied_names else ()

    def _short_text(self, node: ts.Node | None) -> str:
        """The node's text, or empty if there is no node or its text is too long for a name."""
        if node is None or node.end_byte - node.start_byte > MAX_NAME_BYTES:
            return ""
        return self._source[node.start_byte : node.end_byte].decode()

    def _context(self) -> tuple[str, ...]:
        return self._open[-1].names if self._open else ()

    def _add(
        self, node: ts.Node, depth: int, kind: str, names: tuple[str, ...], inner: ts.Node
    ) -> bool:
        """Record a definition; true if others may be inside it."""
        parent = self._open[-1] if self._open else None
        is_function = kind in _FUNCTIONS
        if len(self._open) >= MAX_NESTING or (is_function and node.has_error):
            return False

        if kind == "function" and (len(names) > 1 or (parent and parent.kind != "namespace")):
            kind = "method"

        definition = self._define(node, depth, kind, names, inner)
        if kind not in _NAMES_ONLY:
            self._definitions.append(definition)
            if parent:
                parent.members.append(definition)

        # What a function defines inside is part of its body.
        if not is_function:
            self._open.append(definition)

        return not is_function

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
        """Remember a node that wraps exactly one definition; `const a = …, b = …` wraps two."""
        ignored = self._language.annotations | self._language.comments
        wrapped_count = sum(child.type not in ignored for child in node.named_children)
        self._wrapper = (self._outer(node, depth), depth) if wrapped_count == 1 else None

    def _outer(self, node: ts.Node, depth: int) -> ts.Node:
        """The outermost of the wrappers directly around a node, or the node itself."""
        if self._wrapper is None:
            return node

        wrapper, wrapper_depth = self._wrapper
        is_inside = wrapper_depth == depth - 1 and node.end_byte <= wrapper.end_byte
        return wrapper if is_inside else node

    def _add_comment(self, node: ts.Node) -> None:
        column = node.start_point.column
        before = self._source[node.start_byte - column : node.start_byte]
        is_on_own_line = column <= MAX_GAP_BYTES and not before.strip()

        last = self._comments[-1] if self._comments else None

        if not is_on_own_line or last is None or not self._touches(last, node):
            self._comments.clear()
        if is_on_own_line:
            self._comments.append(node)

    def _touches(self, comment: ts.Node, node: ts.Node) -> bool:
        """Whether a node begins on the line where the comment ends, or on the next."""
        if not 0 <= node.start_byte - comment.end_byte <= MAX_GAP_BYTES:
            return False
        gap = self._source[comment.end_byte : node.start_byte]
        return not gap.strip() and gap.count(b"\n") <= 1

    def _doc_comment(self, outer: ts.Node) -> tuple[str, int]:
        """Text and first row of the doc comment above; "" and the node's row without one."""
        row = outer.start_point.row
        if not self._comments or not self._touches(self._comments[-1], outer):
            return "", row

        # One block comment, or a run of line comments.
        texts: list[str] = []
        for comment in reversed(self._comments):
            text = self._source[comment.start_byte : comment.end_byte].decode()
            is_block = text.startswith(("/*", "=begin"))
            if is_block and texts:
                break

            texts.append(text)
            row = comment.start_point.row
            if is_block:
                break

        text = "\n".join(reversed(texts))
        is_licence = row <= LICENCE_ROWS and not self._definitions and _LICENCE.search(text)

        return ("" if is_licence else _prose(text)), row


def _after_annotations(outer: ts.Node, language: Language) -> int:
    """Byte offset of the first token that is no decorator, annotation or attribute."""
    cursor = outer.walk()
    while True:
        node = _current_node(cursor)
        is_skipped = node.type in language.annotations or node.type in language.comments
        if not is_skipped and not cursor.goto_first_child():
            return node.start_byte

        while is_skipped and not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return outer.start_byte


def _head_end(inner: ts.Node, language: Language) -> tuple[int, int]:
    """Byte offset and row where the signature ends: before the body and the comments above it."""
    body = inner.child_by_field_name("body")
    last = inner

    for child in inner.children:
        if child == body or child.type in _BODY_STARTS:
            break
        if child.type not in language.comments:
            last = child

    return last.end_byte, last.end_point.row


def _docstring(inner: ts.Node) -> str:
    """The string that a Python body begins with, without its quotes and common indentation."""
    node = inner.child_by_field_name("body")
    for kind in ("expression_statement", "string"):
        node = node.named_child(0) if node is not None and node.named_child_count else None
        if node is None or node.type != kind:
            return ""
    match = _STRING.fullmatch((node.text or b"").decode()) if node is not None else None
    return inspect.cleandoc(match[2].removeprefix("\\\n")).strip() if match else ""


def _prose(comment: str) -> str:
    """A comment's text, without its markers, pragmas and rulers."""
    lines = (_unmarked(line) for line in comment.removesuffix("*/").splitlines())
    prose_lines = [
        line for line in lines if not _PRAGMA.match(line) and (not line or _LETTERS.search(line))
    ]
    return inspect.cleandoc("\n".join(prose_lines).rstrip())


def _unmarked(line: str) -> str:
    stripped = line.strip()
    for marker in ("/**", "/*!", "/*", "*", "///", "//", "#", "=begin", "=end"):
        if stripped.startswith(marker):
            return stripped.removeprefix(marker).removeprefix(" ")
    return line.rstrip()


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
        for shell in grammar_language.shells
    ]

    if not shells:
        names = ", ".join(sorted({each.name for each in LANGUAGES}))
        raise InvalidInput(f"unknown language {language!r}; known are {names}", field="language")

    content = body.encode(errors="replace")
    fallback: list[tuple[int, int]] = []

    for grammar_language, shell in shells:
        prefix, suffix = (part.replace("{indent}", _indentation(body)).encode() for part in shell)
        tree = _parse(prefix + content + suffix, grammar_language)
        if tree is None:
            continue

        tokens = _name_tokens(tree, grammar_language, len(prefix), len(content))
        if not tree.root_node.has_error:
            return _character_spans(content, tokens)

        # After a syntax error, keywords may be read as names.
        if not fallback:
            words = {word.encode() for word in keywords(grammar_language)}
            fallback = [token for token in tokens if content[slice(*token)] not in words]

    return _character_spans(content, fallback)


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
        node = _current_node(cursor)
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
