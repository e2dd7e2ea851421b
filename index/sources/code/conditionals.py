"""Resolve what C's preprocessor would, where the grammar could not read on otherwise.

A grammar reads `#if` and its branches as if all were compiled. That fails where a branch opens a brace
that another one, or the code below, closes, or ends in the middle of a statement: the function around
it, and all that follow, may be lost. Such a conditional is replaced by one of its branches.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from purlin.index.sources.code.syntax import blanked

# Comments; what is no code, so that braces in it do not count; directives, with the lines they go on in.
_TOKEN = re.compile(
    rb"(?P<comment>//[^\n]*+|/\*.*?(?:\*/|\Z))"
    rb'|"(?:\\.|[^"\\\n])*+"?'
    rb"|'(?:\\.|[^'\\\n])*+'?"
    rb"|^[ \t]*(?P<directive>\#)[ \t]*(?P<name>\w*)(?:/\*.*?(?:\*/|\Z)|\\\r\n|\\.|[^\n\\])*+"
    rb"|(?P<brace>[{}])",
    re.MULTILINE | re.DOTALL,
)
_CONDITIONAL = re.compile(rb"^[ \t]*#[ \t]*if", re.MULTILINE)
# Conditions that do not hold in C; in C++, the second has what only C's headers need.
_FALSE = re.compile(rb"[ \t]*#[ \t]*(?:if[ \t]+0\b|if(?:def|[ \t]+defined)[ \t(]+__cplusplus\b)")
_ELSE = re.compile(rb"\s*else\b")


@dataclass(slots=True)
class _Branch:
    """A branch: where its directive begins and ends, and what is told of its code.

    `opened` is how many braces are open at its end, and `lowest` at the lowest point; both can be
    negative. `last` is the last byte of code, 0 if there is none.
    """

    start: int
    body: int
    opened: int = 0
    lowest: int = 0
    last: int = 0
    begins_with_else: bool = False

    def add(self, opened: int, lowest: int, last: int) -> None:
        """Append a stretch of code."""
        self.lowest = min(self.lowest, self.opened + lowest)
        self.opened += opened
        self.last = last or self.last

    def add_text(self, text: bytes) -> None:
        """Append code without braces."""
        if code := text.strip():
            self.begins_with_else |= not self.last and _ELSE.match(code) is not None
            self.last = code[-1]

    def is_whole(self) -> bool:
        """Whether the grammar can read this as statements or declarations."""
        is_balanced = self.opened == 0 == self.lowest
        return is_balanced and not self.begins_with_else and self.last in b"\0;}"


def resolved(source: bytes) -> bytes:
    """The source with spaces for what must not be read; every offset stays."""
    if not _CONDITIONAL.search(source):
        return source

    content = bytearray(source)
    for start, end in _unread(source):
        content[start:end] = blanked(source[start:end])
    return bytes(content)


def _unread(source: bytes) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of directives and branches that the grammar shall not see."""
    # The branches of each conditional that is open, in the file, which counts as one.
    conditionals = [[_Branch(0, 0)]]
    end = 0
    for token in _TOKEN.finditer(source):
        branch = conditionals[-1][-1]
        branch.add_text(source[end : token.start()])
        end = token.end()
        if not token["directive"]:
            if brace := token["brace"]:
                opened = 1 if brace == b"{" else -1
                branch.add(opened, min(opened, 0), brace[0])
            elif not token["comment"]:
                branch.add_text(token[0])
            continue

        name = token["name"]
        if name.startswith(b"if"):
            conditionals.append([_Branch(*token.span())])
        elif name.startswith(b"el") and len(conditionals) > 1:
            conditionals[-1].append(_Branch(*token.span()))
        elif name == b"endif" and len(conditionals) > 1:
            branches = conditionals.pop()
            yield from _close(branches, _Branch(*token.span()), source, conditionals[-1][-1])


def _close(
    branches: list[_Branch], end: _Branch, source: bytes, around: _Branch
) -> Iterator[tuple[int, int]]:
    """Yield what is not read of a conditional: nothing, or all but one branch.

    The code of that branch is added to the branch around.
    """
    # Where the condition is false, the branch after it, or nothing.
    is_false = _FALSE.match(source, branches[0].start) is not None
    chosen = [*branches, end][1 if is_false else 0]
    around.add(chosen.opened, chosen.lowest, chosen.last)
    if all(branch.is_whole() for branch in branches):
        return

    for branch, following in zip(branches, [*branches[1:], end], strict=True):
        yield branch.start, branch.body if branch is chosen else following.start
    yield end.start, end.body
