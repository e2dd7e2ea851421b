"""Turn Protocol Buffers, in their language, into HTML.

Messages with their fields, enumerations with their values, and services with their methods become
entries, described by their comments. What is none of these is passed over.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from purlin.index.errors import InvalidInput
from purlin.index.sources.references import declarations
from purlin.index.sources.references.declarations import MAX_DEPTH, MAX_VALUE_CHARS, Declaration

_TOKEN = re.compile(
    r"(?P<comment>//[^\n]*|/\*.*?(?:\*/|\Z))"
    # Texts in either quotes, which may lack their ends; names and numbers; marks.
    r"|\"(?:[^\"\\\n]|\\.)*\"?|'(?:[^'\\\n]|\\.)*'?"
    r"|-?[\w.]+|[{}()<>\[\],;=:]",
    re.DOTALL,
)
# Of statements, as their tokens joined by spaces.
_OPTIONS = r"(?: \[ (?P<options>.*) \])?"
_FIELD = re.compile(
    r"(?:(?P<label>optional|required|repeated) )?(?P<type>map < [\w.]+ , [\w.]+ >|[\w.]+)"
    rf" (?P<name>\w+) = (?P<number>-?\w+){_OPTIONS}"
)
_VALUE = re.compile(rf"(?P<name>\w+) = (?P<number>-?\w+){_OPTIONS}")
_METHOD = re.compile(
    r"rpc (?P<name>\w+) \( (?P<takes>(?:stream )?[\w.]+) \)"
    r" returns \( (?P<returns>(?:stream )?[\w.]+) \)"
)
_BLOCK = re.compile(r"(message|enum|service|extend|oneof) ([\w.]+)")
_DEFAULT = re.compile(r"(?:^|, )default = (\"[^\"]*\"|'[^']*'|\S+)")
_DEPRECATED = re.compile(r"(?:^|, )deprecated = true\b")
_SPACE_IN_MARKS = re.compile(r" (?=[),<>\]])|(?<!returns) (?=\()|(?<=[(<\[]) ")
_MARGIN = re.compile(r"^[ \t]*\*+(?!/) ?", re.MULTILINE)


def html(text: str) -> str:
    """Return a page with what a file declares. Raises InvalidInput if it declares nothing."""
    file = _File(text)
    declared = list(file.statements())
    if not declared:
        raise InvalidInput("no Protocol Buffers: it declares no message, enumeration or service")
    return declarations.page(file.package, "", declared)


def anchor_line(text: str, anchor: str) -> int | None:
    """Return the line of the message, field, value or method that has an anchor; None without one."""
    return declarations.line(text, _File(text).statements(), anchor)


class _File:
    """Reads the tokens of a file once, from the first to the last."""

    def __init__(self, text: str) -> None:
        self.package = ""
        self._text = text
        self._tokens = list(_TOKEN.finditer(text))
        self._next = 0

    def statements(self, block: str = "", depth: int = 0) -> Iterator[Declaration]:
        """Yield what is declared up to the end of a block that is open, or of the file."""
        while self._next < len(self._tokens):
            about = self._comments_before()
            if self._next == len(self._tokens):
                return
            if self._tokens[self._next][0] == "}":
                self._next += 1
                if depth:
                    return
                continue
            yield from self._statement(block, depth, about)

    def _statement(self, block: str, depth: int, about: str) -> Iterator[Declaration]:
        start = self._tokens[self._next].start()
        statement, has_block = self._statement_tokens()
        about = f"{about}\n\n{self._comment_behind()}".strip()

        if has_block and depth < MAX_DEPTH and (opened := _BLOCK.fullmatch(statement)):
            kind, name = opened.groups()
            members = list(self.statements(kind, depth + 1))
            if kind in ("extend", "oneof"):
                # Their fields are named by what encloses them.
                for member in members:
                    member.facts.append(f"{kind.capitalize()}: {name}")
                yield from members
            else:
                yield Declaration("class", name, statement, start, about, members=members)
            return

        if has_block:
            self._skip_block()
        if statement.startswith("package "):
            self.package = statement.removeprefix("package ")
        elif declared := _declared(block, statement, self.package):
            declared.start, declared.about = start, about
            yield declared

    def _statement_tokens(self) -> tuple[str, bool]:
        """Read up to the end of a statement or the begin of its block, and tell whether it has one."""
        tokens: list[str] = []
        brackets = 0
        while self._next < len(self._tokens):
            token = self._tokens[self._next]
            mark = token[0]
            # The value of an option may be a message, in braces.
            is_value = brackets > 0 or tokens[:1] == ["option"]
            if mark == "}" and not is_value:
                break
            self._next += 1
            if mark == ";" and not brackets:
                break
            if mark == "{" and not is_value:
                return " ".join(tokens), True
            brackets += (mark in ("[", "{")) - (mark in ("]", "}"))
            if token.lastgroup != "comment":
                tokens.append(mark)
        return " ".join(tokens), False

    def _skip_block(self) -> None:
        depth = 1
        while depth and self._next < len(self._tokens):
            mark = self._tokens[self._next][0]
            depth += (mark == "{") - (mark == "}")
            self._next += 1

    def _comments_before(self) -> str:
        """Read comments; return those that stand next to each other and to what follows them."""
        comments: list[str] = []
        end = 0
        while self._next < len(self._tokens):
            token = self._tokens[self._next]
            if comments and self._text.count("\n", end, token.start()) > 1:
                comments = []
            if token.lastgroup != "comment":
                break
            comments.append(_comment_text(token[0]))
            end = token.end()
            self._next += 1
        return "\n".join(comments)

    def _comment_behind(self) -> str:
        """Read a comment that begins on the line of the token before; empty without one."""
        if self._next == len(self._tokens):
            return ""
        comment, before = self._tokens[self._next], self._tokens[self._next - 1]
        if comment.lastgroup != "comment" or "\n" in self._text[before.end() : comment.start()]:
            return ""
        self._next += 1
        return _comment_text(comment[0])


def _declared(block: str, statement: str, package: str) -> Declaration | None:
    """Return the field, value or method that a statement declares in a block of some kind."""
    if block == "service":
        return _method(statement)

    form = _VALUE if block == "enum" else _FIELD
    declared = form.fullmatch(statement) if block else None
    if declared is None:
        return None

    options = declared["options"] or ""
    term = _written(statement.partition(" [ ")[0])
    kind, label = ("data", "Number") if block == "enum" else ("attribute", "Field number")
    declaration = Declaration(kind, declared["name"], term, 0)
    if block != "enum":
        type_name = _written(declared["type"])
        repeated = "repeated " if declared["label"] == "repeated" else ""
        value_type = type_name.rpartition(" ")[2].rstrip(">")
        declaration.type_name = value_type.lstrip(".").removeprefix(f"{package}.")
        declaration.facts.append(f"Type: {repeated}{type_name}")
        if declared["label"] == "required":
            declaration.facts.append("Required: true")

    declaration.facts.append(f"{label}: {declared['number']}")
    if default := _DEFAULT.search(options):
        declaration.facts.append(f"Default: {default[1]}")
    if _DEPRECATED.search(options):
        declaration.facts.append("Deprecated: true")
    if options:
        declaration.facts.append(f"Options: {_written(options)}")
    return declaration


def _method(statement: str) -> Declaration | None:
    declared = _METHOD.fullmatch(statement)
    if declared is None:
        return None
    name, takes, returns = declared.groups()
    facts = [f"Takes: {takes}", f"Returns: {returns}"]
    return Declaration("function", name, _written(statement), 0, facts=facts)


def _written(statement: str) -> str:
    """Return tokens without the spaces around marks."""
    return _SPACE_IN_MARKS.sub("", statement[:MAX_VALUE_CHARS])


def _comment_text(comment: str) -> str:
    """Return a comment without its marks, and without the space or the margin of stars behind these."""
    if comment.startswith("//"):
        return comment.lstrip("/").removeprefix(" ")
    return _MARGIN.sub("", comment.removeprefix("/*").removesuffix("*/")).strip()
