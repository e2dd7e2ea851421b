"""Turn schemas of GraphQL, in its schema definition language, into HTML.

Types, their fields and values, and the arguments of these become entries. What is no definition is
passed over, so that schemas of any version of the language are read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from purlin.index.errors import InvalidInput
from purlin.index.sources.references import declarations
from purlin.index.sources.references.declarations import MAX_VALUE_CHARS, Declaration

_TOKEN = re.compile(
    # Descriptions, and texts that are values; a last one may lack its end.
    r'"""(?P<block>(?:\\"""|(?!""").)*)(?:"""|\Z)'
    r'|"(?P<text>(?:[^"\\\n]|\\.)*)"?'
    # Names, numbers and keywords; then marks. Comments, which have no group, are passed over.
    r"|(?P<word>\w+)|(?P<mark>[!&()\[\]{}:=|@])|#[^\n]*",
    re.DOTALL,
)
_KINDS = frozenset(("type", "interface", "input", "enum", "union", "scalar"))
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_ESCAPE = re.compile(r'\\(?:u([\dA-Fa-f]{4})|(["\\/bfnrt]))')
_ESCAPED = dict(zip("bfnrt", "\b\f\n\r\t", strict=True))
_REASON = re.compile(r'\breason\s*:\s*"+((?:[^"\\]|\\.)*)')


def html(text: str) -> str:
    """Return a page with what a schema defines. Raises InvalidInput if it defines nothing."""
    declared = list(_Schema(text).definitions())
    if not declared:
        raise InvalidInput(
            "no schema of GraphQL: it defines no types; queries and fragments are not read"
        )
    return declarations.page("", "", declared)


def anchor_line(text: str, anchor: str) -> int | None:
    """Return the line of the type, field, value or argument that has an anchor; None without one."""
    return declarations.line(text, _Schema(text).definitions(), anchor)


class _Schema:
    """Reads the tokens of a schema once, from the first to the last."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = [token for token in _TOKEN.finditer(text) if token.lastgroup]
        self._next = 0

    def definitions(self) -> Iterator[Declaration]:
        """Yield the types and directives; those that are extended once for each extension."""
        about = ""
        while self._next < len(self._tokens):
            start = self._next
            if (description := self._description()) is not None:
                about = description
            elif (word := self._word()) in _KINDS and (name := self._word()):
                yield self._type(word, name, start, about)
                about = ""
            elif word == "directive" and self._accept("@") and (name := self._word()):
                yield self._member(f"@{name}", start, about)
                about = ""
            elif word != "extend":
                about = ""
                self._next = start
                self._skip_value()

    def _type(self, keyword: str, name: str, start: int, about: str) -> Declaration:
        declaration = Declaration("class", name, "", self._start(start), about)
        if self._accept("implements"):
            self._names("&")
        self._directives(declaration)

        if self._accept("="):
            declaration.facts.append(f"One of: {', '.join(self._names('|'))}")
        declaration.term = self._written(start)
        if self._accept("{"):
            declaration.members = list(self._members("}", keyword))
        return declaration

    def _members(self, closing: str, keyword: str) -> Iterator[Declaration]:
        """Yield the fields of a type, the values of an enumeration, or arguments."""
        about = ""
        while self._next < len(self._tokens) and not self._accept(closing):
            start = self._next
            if (description := self._description()) is not None:
                about = description
            elif name := self._word():
                yield self._member(name, start, about, keyword)
                about = ""
            else:
                self._skip_value()

    def _member(self, name: str, start: int, about: str, keyword: str = "") -> Declaration:
        """Read a field, a value, an argument or a directive behind its name."""
        kinds = {"enum": "data", "argument": "parameter"}
        member = Declaration(kinds.get(keyword, "attribute"), name, "", self._start(start), about)
        if keyword != "argument" and self._accept("("):
            member.kind = "function"
            member.members = list(self._members(")", "argument"))
            takes = ", ".join(each.term for each in member.members)
            member.term = f"{name}({takes})"
        else:
            member.term = name

        if self._accept(":"):
            member.type_name = self._type_name()
            label = "Returns" if member.kind == "function" else "Type"
            member.facts.append(f"{label}: {member.type_name}")
            member.term += f": {member.type_name}"
        if self._accept("="):
            default = self._skip_value()
            member.facts.append(f"Default: {default}")
            member.term += f" = {default}"
        self._directives(member)
        return member

    def _directives(self, declaration: Declaration) -> None:
        """Read directives, such as `@deprecated(reason: "…")`, as lines of a declaration."""
        while self._accept("@"):
            start = self._next - 1
            name = self._word()
            arguments = self._skip_value() if self._is_at("(") else ""
            if name == "deprecated":
                reason = _REASON.search(arguments)
                declaration.facts.append(
                    f"Deprecated: {_unescaped(reason[1]) if reason else 'true'}"
                )
            else:
                declaration.facts.append(self._written(start))

    def _type_name(self) -> str:
        start = self._next
        while self._accept("["):
            pass
        self._word()
        while self._accept("]") or self._accept("!"):
            pass
        return self._written(start)

    def _names(self, separator: str) -> list[str]:
        self._accept(separator)
        names = [self._word()]
        while self._accept(separator):
            names.append(self._word())
        return names

    def _skip_value(self) -> str:
        """Read a token, and all in its brackets if it opens one; return it as it is written."""
        start = self._next
        open_brackets: list[str] = []
        while self._next < len(self._tokens):
            mark = self._tokens[self._next]["mark"] or ""
            self._next += 1
            if mark in _CLOSING:
                open_brackets.append(_CLOSING[mark])
            elif open_brackets and mark == open_brackets[-1]:
                open_brackets.pop()
            if not open_brackets:
                break
        return self._written(start)

    def _description(self) -> str | None:
        """Read a description; None if none comes next."""
        if self._next == len(self._tokens):
            return None
        token = self._tokens[self._next]
        if token.lastgroup == "text":
            self._next += 1
            return _unescaped(token["text"])
        if token.lastgroup == "block":
            self._next += 1
            return _dedented(token["block"].replace('\\"""', '"""'))
        return None

    def _word(self) -> str:
        """Read a word; empty if none comes next."""
        if self._next == len(self._tokens) or self._tokens[self._next].lastgroup != "word":
            return ""
        self._next += 1
        return self._tokens[self._next - 1]["word"]

    def _is_at(self, token: str) -> bool:
        return self._next < len(self._tokens) and self._tokens[self._next][0] == token

    def _accept(self, token: str) -> bool:
        """Read a token if it comes next, and tell whether it did."""
        is_next = self._is_at(token)
        self._next += is_next
        return is_next

    def _start(self, token: int) -> int:
        return self._tokens[token].start()

    def _written(self, start: int) -> str:
        """Return what was read from a token on, on one line."""
        end = self._tokens[self._next - 1].end() if self._next > start else self._start(start)
        written = self._text[self._start(start) : end]
        return " ".join(written[:MAX_VALUE_CHARS].split())


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(
        lambda escape: chr(int(escape[1], 16)) if escape[1] else _ESCAPED.get(escape[2], escape[2]),
        text,
    )


def _dedented(block: str) -> str:
    """Return a block without the indentation that all lines but the first have."""
    first, *rest = block.split("\n")
    indentations = [len(line) - len(line.lstrip()) for line in rest if line.strip()]
    common = min(indentations, default=0)
    return "\n".join([first.strip(), *(line[common:] for line in rest)]).strip()
