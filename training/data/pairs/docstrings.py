"""Docstrings and comments: cutting them out of code, and finding their first sentence."""

from __future__ import annotations

import re
from itertools import islice

from purlin.training.data.pairs.pair import Pair

# Only the first string literals of a function can be its docstring.
MAX_LITERALS = 5

# Characters that are compared to tell whether a literal is the docstring.
COMPARED_CHARS = 40

# A sentence ends at punctuation, at a blank line, or before a section such as "Args:" or "@param".
_SENTENCE_END = re.compile(
    r"(?<!e\.g\.)(?<!i\.e\.)(?<=[.!?])\s+(?=[^\sa-z])|(?<=[。！？])"
    r"|\n[^\S\n]*(?=\n|[@:]\w|(?:[A-Z][a-z]+):[^\S\n]*\n)"
)
_OPENING = re.compile(r'^[ \t]*[rRuU]?("""|\'\'\'|"|\')', re.MULTILINE)
_CLOSING = {quote: re.compile(rf"(?<!\\){quote}") for quote in ('"""', "'''", '"', "'")}
_LINE_END = re.compile(r"[ \t]*;?[ \t]*(?:\n|\Z)")
_COMMENT = re.compile(
    r'^[ \t]*[rRuU]?(?:""".*?(?:"""|\Z)|\'\'\'.*?(?:\'\'\'|\Z))|/\*.*?(?:\*/|\Z)|(?://|#)[^\n]*',
    re.DOTALL | re.MULTILINE,
)
_WORD = re.compile(r"\w+")


def pair_from_docstring(
    code: str, docstring: str, *, summary: str = "", language: str = ""
) -> Pair:
    """Pair code without its docstring with the docstring and the docstring's first sentence."""
    first, _ = first_sentence(docstring, summary)
    passage = without_docstring(code, docstring)
    return Pair((first, docstring), passage, "code", language, comment=docstring)


def without_docstring(code: str, docstring: str) -> str:
    """Return the code without the string literal, on lines of its own, that holds `docstring`.

    Code without such a literal is returned unchanged. Text is compared rather than parsed, so
    broken code works too.
    """
    expected = letters_and_digits(docstring)

    for opening in islice(_OPENING.finditer(code), MAX_LITERALS):
        closing = _CLOSING[opening[1]].search(code, opening.end())
        if not closing:
            continue
        line_end = _LINE_END.match(code, closing.end())
        if not line_end:
            continue

        literal = letters_and_digits(code[opening.end() : closing.start()])
        length = min(len(literal), len(expected), COMPARED_CHARS)
        if length and literal[:length] == expected[:length]:
            return code[: opening.start()] + code[line_end.end() :]

    return code


def first_sentence(text: str, summary: str = "") -> tuple[str, str]:
    """Split a text into its first sentence and the rest.

    A `summary` stands for the first sentence; if the text begins with it, it is cut off there.
    """
    text = text.strip()
    words = summary.split()[:200]

    # White space may differ between the two, so they are compared word by word.
    parts = text.split(maxsplit=len(words))
    *begun, last = parts[: len(words)] or [""]
    if words and begun == words[:-1] and last.startswith(words[-1]):
        rest = last.removeprefix(words[-1]).lstrip(".!?:;")
        return summary, " ".join([rest, *parts[len(words) :]]).strip()

    ends = (match.start() for match in _SENTENCE_END.finditer(text) if match.start())
    end = next(ends, len(text))
    return summary or " ".join(text[:end].split()), text[end:].strip()


def without_comments(code: str) -> str:
    """Return code roughly without the comments and docstrings of any language.

    This is good enough for comparing two texts that are cut by the same rule.
    """
    return _COMMENT.sub("", code)


def letters_and_digits(text: str) -> str:
    """Return only the letters and digits of the text, in lower case."""
    return "".join(_WORD.findall(text.lower())).replace("_", "")
