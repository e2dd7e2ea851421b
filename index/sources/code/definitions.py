"""Find the definitions in a syntax tree, and the lines of the file that are in none of them.

A cursor walks the tree and enters only nodes that may contain definitions; what they are is data,
in `languages`. The tags queries that some grammars bring would be shorter, but their time is
quadratic in a run of tokens (100 kB of brackets take 8 s), and they cannot be interrupted: the
progress callback of `QueryCursor.matches` crashes the interpreter in tree-sitter 0.26.1. They also
know neither owners nor doc comments, and a third of the grammars have none.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import tree_sitter as ts

from purlin.index.sources.code.comments import prose
from purlin.index.sources.code.node_comments import MAX_GAP_BYTES, NodeComments
from purlin.index.sources.code.outlines import (
    LEAVES,
    MAX_NAME_BYTES,
    MAX_NESTING,
    MIN_CONSTANT_LINES,
    Definition,
    Outline,
)
from purlin.index.sources.code.syntax import Block, Language, current_node, last_row
from purlin.index.sources.words import words

MAX_TREE_DEPTH = 200

_NAMES_ONLY = frozenset({"scope", "namespace"})
# Nodes around what a file begins with.
_FRAMES = words(
    "preproc_ifdef preproc_if namespace_definition declaration_list linkage_specification"
    " header imports declarations class_name_statement extends_statement"
)
_AROUND_TYPES = frozenset({"namespace", "module"})
_AROUND_CONSTANTS = frozenset({"scope", "namespace", "module"})

# Parts of a qualified name, the last of which may be an operator.
_DOTTED = re.compile(r"[\w$#~]+((\.|::|\\|:|-+)[\w$#~]+)*((\.|::)operator\W+)?")
_BACKTICKS = re.compile(r"`([^`]+)`")
# C++'s `operator new`, and operators that convert to a type.
_OPERATOR_WORD = re.compile(r"((?:\w+::)*)(operator [\w: ]+)")
_SEPARATOR = re.compile(r"\.|::|\\|:(?=\w)")
_GENERICS = re.compile(r"(?<!operator)(?<!operator<)<[^<>]*>")
# The type in Go's receiver `(c *Cache[K, V])`, and Ruby's `self`.
_OWNER = re.compile(r"(\w+)(\[[^\]]*\])?\W*$")


def outline(root: ts.Node, source: bytes, language: Language) -> Outline:
    """Walk a syntax tree, once."""
    return _Walk(source, language).run(root)


class _Candidate(NamedTuple):
    """What a node may define: a kind, its names, and the node with its body."""

    kind: str
    names: tuple[str, ...]
    inner: ts.Node


class _Walk:
    """One pass over a syntax tree, in source order, that collects its definitions."""

    def __init__(self, source: bytes, language: Language) -> None:
        self._source = source
        self._language = language
        self._definitions: list[Definition] = []
        self._dull_rows: set[int] = set()
        self._quiet_rows: set[int] = set()

        self._comments = NodeComments(source)

        # The definitions around the cursor, outermost first, and the nodes that belong to what
        # follows: attributes.
        self._open: list[Definition] = []
        self._prefixes: list[ts.Node] = []

        # The outermost wrapper of a chain, and the depth of the innermost.
        self._wrapper: tuple[ts.Node, int] | None = None

    def run(self, root: ts.Node) -> Outline:
        cursor, depth = root.walk(), 0
        while depth >= 0:
            enters = depth == 0 or (
                self._visit(current_node(cursor), depth) and depth < MAX_TREE_DEPTH
            )
            if enters and cursor.goto_first_child():
                depth += 1
                continue

            # No children to visit: on to the next node that is not inside this one.
            while depth >= 0 and not cursor.goto_next_sibling():
                cursor.goto_parent()
                depth -= 1

        sound = [definition for definition in self._definitions if not definition.has_error]
        quiet_rows = self._quiet_rows | self._comments.rows
        return Outline(sound, self._dull_rows, quiet_rows, *self._file_summary(root))

    def _file_summary(self, root: ts.Node) -> tuple[str, int]:
        """The file's own docstring or first comment, unless it is a licence or a definition's."""
        read_docstring = self._language.file_docstring
        if read_docstring is not None and (docstring := read_docstring(root)) is not None:
            return docstring, 0
        return self._comments.file_summary(
            {each.doc_row for each in self._definitions if each.summary}
        )

    def _visit(self, node: ts.Node, depth: int) -> bool:
        """Record a node; true if the nodes inside it are to be visited."""
        self._leave(node, depth)
        kind, language = node.type, self._language
        if node.is_error or node.is_missing:
            self._mark_error(node.parent)
            return True

        if self._is_part(node, depth):
            return False

        if kind in language.comments:
            self._add_comment(node)
            return False

        if kind in language.dull or (language.is_dull and language.is_dull(node)):
            self._add_dull(node)
            return False

        if self._is_lead(node) or (language.is_prefix and language.is_prefix(node)):
            self._prefixes.append(node)
            return False

        if candidate := self._candidate(node):
            return self._add(node, depth, candidate)

        if kind in language.wrappers:
            self._add_wrapper(node, depth)
        elif self._wrapper is None:
            self._prefixes.clear()
        if kind not in _FRAMES:
            self._comments.leave_top(node)
        return self._enters(node)

    def _is_part(self, node: ts.Node, depth: int) -> bool:
        """Whether a node is a token, or the rest of the definition right before it; both are noted."""
        if node.is_named:
            return self._ends_last(node, depth)
        self._add_token(node)
        return True

    def _add_token(self, token: ts.Node) -> None:
        """Remember a keyword before a definition, such as `external`, until its statement ends."""
        if not self._language.leads:
            return
        if token.type in ("{", "}", ";"):
            self._prefixes.clear()
        elif token.type.isalpha() and self._wrapper is None:
            self._prefixes.append(token)

    def _is_lead(self, node: ts.Node) -> bool:
        """Whether a node begins the signature of the definition after it."""
        leads = self._language.leads
        return bool(leads) and (node.type in leads or not node.is_named)

    def _ends_last(self, node: ts.Node, depth: int) -> bool:
        """Add the node to the definition right before it, if it is the end of that."""
        language, last = self._language, self._definitions[-1] if self._definitions else None
        if language.is_tail is None or last is None or last.depth != depth:
            return False
        is_near = 0 <= node.start_byte - last.end <= MAX_GAP_BYTES
        gap = self._source[last.end : node.start_byte] if is_near else b"-"
        if gap.strip() or not language.is_tail(last.kind, node):
            return False

        last.extend(node.end_byte, *self._last_point(node))
        if not last.summary and language.docstring is not None:
            last.summary = language.docstring(node, ()) or ""
        return True

    def _leave(self, node: ts.Node, depth: int) -> None:
        """Close the definitions, and the wrapper, that end before a node."""
        while self._open and self._open[-1].depth >= depth:
            self._open.pop()

        # What stood before the wrapper belonged to the definition inside it.
        if self._wrapper and node.start_byte >= self._wrapper[0].end_byte:
            self._wrapper = None
            self._prefixes.clear()

    def _enters(self, node: ts.Node) -> bool:
        if node.type in self._language.inside:
            return True
        if node.has_error:
            self._mark_error(node)
        return False

    def _mark_error(self, node: ts.Node | None) -> None:
        """Note that the innermost definition has an error, which is in this node.

        An error in a statement of one line leaves open what that says, not where the definition ends.
        """
        is_line = node is not None and node.start_point.row == node.end_point.row
        if self._open and not is_line and not self._language.is_tolerant:
            self._open[-1].has_error = True

    def _candidate(self, node: ts.Node) -> _Candidate | None:
        """What the node defines, if anything."""
        language, inner = self._language, node
        kind: str | Block | None

        if (entry := language.definitions.get(node.type)) is not None:
            kind = entry if isinstance(entry, str) else entry(node)
            name: ts.Node | str | None = None
            if isinstance(kind, Block):
                kind, name, inner = kind
            elif kind:
                name = language.find_name(node)
            text = name if isinstance(name, str) else _unquoted(self._short_text(name))
        elif node.type in language.assignments:
            name_path, value_path = language.assignments[node.type]
            value = _at(node, value_path)
            if value is None:
                return None

            kind, inner = language.values.get(value.type, language.other_values), value
            text = "default"
            if name_path:
                text = _unquoted(self._short_text(_at(node, name_path)))
        else:
            return None

        if kind == "constant" and not self._is_constant(node, text):
            # The functions inside an object carry its name, though it has no document.
            kind = "scope" if inner.type in language.scopes else None
        if not kind or (kind == "type" and self._is_member()):
            return None

        names = self._names(node, text, kind)
        return None if names is None else _Candidate(kind, names, inner)

    def _is_constant(self, node: ts.Node, text: str) -> bool:
        """Whether a value of several lines belongs to the file, not to a function or class."""
        language = self._language
        if node.end_point.row - node.start_point.row + 1 < MIN_CONSTANT_LINES:
            return False
        if not _DOTTED.fullmatch(text) or set(_SEPARATOR.split(text)) <= language.silent:
            return False
        if any(definition.kind not in _AROUND_CONSTANTS for definition in self._open):
            return False

        ancestor = node.parent
        while ancestor is not None and ancestor.type not in language.opaque:
            ancestor = ancestor.parent
        return ancestor is None

    def _is_member(self) -> bool:
        """Whether the cursor is inside a class or the like, whose outline has its types."""
        return any(definition.kind not in _AROUND_TYPES for definition in self._open)

    def _names(self, node: ts.Node, text: str, kind: str) -> tuple[str, ...] | None:
        """The node's names, after that of the type a method belongs to; None if it has no name."""
        if self._language.generics:
            while (plain := _GENERICS.sub("", text)) != text:
                text = plain

        # A test may be named by a sentence, also in Kotlin's backticks, and so may what groups tests.
        is_sentence = kind == "namespace" and len(text.split()) > 1
        if text and (kind in ("test", "block") or is_sentence):
            return (text,)
        if (quoted := _BACKTICKS.fullmatch(text)) is not None:
            return (*self._owner(node), quoted[1])
        if (operator := _OPERATOR_WORD.fullmatch(text)) is not None:
            return (*operator[1].split("::")[:-1], operator[2])

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

    def _add(self, node: ts.Node, depth: int, candidate: _Candidate) -> bool:
        """Record a definition; true if others may be inside it."""
        kind = candidate.kind
        if kind not in _NAMES_ONLY:
            self._comments.leave_top(node)
        parent = self._open[-1] if self._open else None
        is_leaf = kind in LEAVES
        is_broken = is_leaf and node.has_error and not self._language.is_tolerant
        if len(self._open) >= MAX_NESTING or is_broken:
            self._prefixes.clear()
            return False

        is_inside = parent is not None and parent.kind not in self._language.plain_parents
        is_qualified = len(candidate.names) > 1 and self._language.has_methods
        if kind == "function" and (is_qualified or is_inside):
            candidate = candidate._replace(kind="method")

        definition = self._define(node, depth, candidate)
        self._prefixes.clear()
        if self._continues(definition):
            return False

        if kind in _NAMES_ONLY:
            self._quiet_rows.update((definition.signature_row, *definition.rows))
        else:
            self._definitions.append(definition)
            if (owner := self._document_around()) is not None:
                owner.members.append(definition)

        # What a function defines inside is part of its body.
        if not is_leaf:
            self._open.append(definition)

        return not is_leaf

    def _document_around(self) -> Definition | None:
        """The innermost definition around the cursor that is more than a name."""
        return next((each for each in reversed(self._open) if each.kind not in _NAMES_ONLY), None)

    def _continues(self, definition: Definition) -> bool:
        """Add a further equation or clause of a function to its first, if this is one."""
        if not self._language.has_clauses or not self._definitions:
            return False

        last = self._definitions[-1]
        if not definition.continues(last) or last.depth != definition.depth:
            return False
        last.extend(definition.end, definition.rows[1], definition.columns[1])
        return True

    def _define(self, node: ts.Node, depth: int, candidate: _Candidate) -> Definition:
        language, (kind, names, inner) = self._language, candidate
        outer = self._outer(node, depth)
        first = self._prefixes[0] if self._prefixes else outer
        leads = [each for each in self._prefixes if self._is_lead(each)]
        start = leads[0].start_byte if leads else _after_annotations(outer, language)
        head_end, signature_row = self._head_end(node, inner, kind)
        end_row, end_column = self._last_point(outer)

        summary: str | None = None
        doc_row = first.start_point.row
        if language.docstring is not None and kind != "constant":
            summary = language.docstring(inner, self._prefixes)
        if summary is None:
            summary, doc_row = self._comments.doc_comment(first, is_first=not self._definitions)

        return Definition(
            kind=kind,
            names=self._context() + names,
            start=first.start_byte,
            end=outer.end_byte,
            rows=(first.start_point.row, end_row),
            columns=(first.start_point.column, end_column),
            head_row=outer.start_point.row,
            signature=(start, max(start, head_end)),
            signature_row=signature_row,
            summary=summary,
            doc_row=doc_row,
            depth=depth,
            role=self._role(node, start, head_end),
            is_test=kind == "test" or self._is_for_tests(),
        )

    def _role(self, node: ts.Node, start: int, end: int) -> str:
        """The signature of a scope that says what the definitions inside are for, on one line.

        Definitions inside have it, too.
        """
        has_role = self._language.has_role
        if has_role is None or not has_role(node) or end - start > MAX_NAME_BYTES:
            return self._open[-1].role if self._open else ""
        return " ".join(self._source[start:end].decode().split())

    def _is_for_tests(self) -> bool:
        """Whether the definition after the prefixes is marked as a test's, or one around it is."""
        if self._open and self._open[-1].is_test:
            return True
        mark = self._language.test_mark
        return mark is not None and any(
            mark.match(self._short_text(prefix)) for prefix in self._prefixes
        )

    def _head_end(self, node: ts.Node, inner: ts.Node, kind: str) -> tuple[int, int]:
        """Byte offset and row where the signature ends: before the body and comments above it."""
        language = self._language
        if kind == "constant":
            equals = self._source.find(b"=", node.start_byte, inner.end_byte)
            end = inner.start_byte if inner != node else equals if equals >= 0 else node.end_byte
            return end, node.start_point.row + self._source.count(b"\n", node.start_byte, end)

        body = inner.child_by_field_name("body")
        # A function that returns a function has the parameters of both.
        while body is not None and body.type == inner.type:
            inner, body = body, body.child_by_field_name("body")
        last = inner
        if inner != node and inner.children and inner.children[0].type in language.body_starts:
            return inner.start_byte, inner.start_point.row
        for child in inner.children:
            if child == body or child.type in language.body_starts:
                break
            if child.type not in language.comments:
                last = child
            if child.type in language.heads:
                break

        # In some grammars, a line break belongs to the head.
        text = self._source[last.start_byte : last.end_byte].rstrip()
        return last.start_byte + len(text), last_row(last)

    def _last_point(self, node: ts.Node) -> tuple[int, int]:
        """Row and column where a node's text ends; in some grammars its line break belongs to it."""
        row, column = last_row(node), node.end_point.column
        if row != node.end_point.row:
            column = node.end_byte - 1 - (self._source.rfind(b"\n", 0, node.end_byte - 1) + 1)
        return row, column

    def _add_wrapper(self, node: ts.Node, depth: int) -> None:
        """Remember a node that wraps exactly one definition; `const a = …, b = …` wraps two."""
        language = self._language
        # Of `Base.@kwdef struct …`, Julia's grammar has `Base` beside the struct.
        ignored = language.annotations | language.comments | language.identifiers
        wrapped_count = 1
        if node.type not in language.assignments:
            wrapped_count = sum(child.type not in ignored for child in node.named_children)

        self._wrapper = (self._outer(node, depth), depth) if wrapped_count == 1 else None
        if wrapped_count > 1:
            self._quiet_rows.update((node.start_point.row, last_row(node)))

    def _outer(self, node: ts.Node, depth: int) -> ts.Node:
        """The outermost of the wrappers directly around a node, or the node itself."""
        if self._wrapper is None:
            return node

        wrapper, wrapper_depth = self._wrapper
        is_inside = wrapper_depth == depth - 1 and node.end_byte <= wrapper.end_byte
        return wrapper if is_inside else node

    def _add_dull(self, node: ts.Node) -> None:
        # A comment above the first import is the file's, those above further ones are theirs.
        if self._dull_rows:
            self._comments.drop_comment_of(node)
        self._dull_rows.update(range(node.start_point.row, last_row(node) + 1))
        self._prefixes.clear()
        if node.has_error:
            self._mark_error(node)

    def _add_comment(self, node: ts.Node) -> None:
        if not (self._language.docs_follow and self._describes_last(node)):
            self._comments.add(node)

    def _describes_last(self, comment: ts.Node) -> bool:
        """Add a doc comment to the definition that it follows, if that has none above."""
        last = self._definitions[-1] if self._definitions else None
        if last is None or last.summary or not 0 <= comment.start_byte - last.end <= MAX_GAP_BYTES:
            return False
        gap = self._source[last.end : comment.start_byte]
        text = self._source[comment.start_byte : comment.end_byte].decode()
        if gap.strip() or gap.count(b"\n") > 1 or not text.startswith("(**"):
            return False

        last.summary = prose(text)
        last.extend(comment.end_byte, last_row(comment), comment.end_point.column)
        return True


def _at(node: ts.Node, path: str) -> ts.Node | None:
    """The node at a path of fields; a part may be the type of a child, too."""
    target: ts.Node | None = node
    for part in path.split("/"):
        parent, target = target, None
        if parent is not None:
            children = (child for child in parent.named_children if child.type == part)
            target = parent.child_by_field_name(part) or next(children, None)
    return target


def _unquoted(name: str) -> str:
    """A name without quotes around it; Haskell's `foldl'` keeps its own."""
    is_quoted = len(name) > 1 and name[0] in "\"'" and name[-1] == name[0]
    return name[1:-1] if is_quoted else name


def _after_annotations(outer: ts.Node, language: Language) -> int:
    """Byte offset of the first token that is no decorator, annotation or attribute."""
    cursor, skips = outer.walk(), False
    while True:
        node = current_node(cursor)
        is_skipped = node.type in language.annotations or node.type in language.comments
        skips = skips or is_skipped
        if not is_skipped and not cursor.goto_first_child():
            # The first token may have no node of its own.
            return node.start_byte if skips else outer.start_byte

        while is_skipped and not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return outer.start_byte
