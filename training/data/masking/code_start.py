"""Where the code begins in a passage that has prose before it."""

from __future__ import annotations

import re

# Characters of prose that may precede the code.
MAX_PROSE = 4_000


def code_start(passage: str, language: str) -> int:
    """Return the offset of the line where the code begins, after any prose in the passage.

    It is the first line that looks like the head of a definition, or 0 if there is none within
    `MAX_PROSE` characters, or in a language whose heads are not described here. A parser is no
    help: most English sentences are valid Ruby programs.
    """
    pattern = _HEADS.get(language)
    head = pattern.search(passage, 0, MAX_PROSE) if pattern else None
    return head.start() if head else 0


def _head(*forms: str) -> re.Pattern[str]:
    return re.compile(rf"^[ \t]*(?=\S)(?:{'|'.join(forms)})", re.MULTILINE)


# The rest of a line that opens a body.
_OPEN = r"[^.\n]*(?:\{|$)"

_MODIFIERS = (
    r"(?:(?:public|protected|private|static|final|abstract|readonly|synchronized|native|default|strictfp|async|get|set"
    r"|override|export|declare)\s+){0,8}"
)

_SCRIPT_HEAD = _head(
    rf"{_MODIFIERS}function\b[ \t]*\*?[ \t]*[\w$]*[ \t]*[(<]",
    rf"{_MODIFIERS}(?:class|interface|enum|namespace)\s+[\w$]+{_OPEN}",
    r"(?:export\s+)?(?:const|let|var)\s+[\w$]+[^=\n]*=",
    # a.b = function
    r"[\w$.\[\]'\"#-]+[ \t]*[:=][ \t]*(?:async\b|function\b|\(|[\w$]+[ \t]*=>|class\b|\{)",
    # A method.
    rf"{_MODIFIERS}\*?[ \t]*(?:[\w$#]+|\[[^\]\n]+\])[ \t]*(?:<[^\n(]*>)?\((?:[^\n]*\{{|[\w$, {{=]*$)",
    r"(?:async[ \t]*)?(?:\([^\n]*\)|[\w$]+)[ \t]*=>",
)

_HEADS = {
    "python": _head(
        r"(?:async[ \t]+)?def[ \t]+\w+[ \t]*[\[(\\]",
        r"class[ \t]+\w+[ \t]*[\[(:]",
        r"@[\w.]+[ \t]*(?:\(|$)",
    ),
    "javascript": _SCRIPT_HEAD,
    "typescript": _SCRIPT_HEAD,
    "go": _head(
        r"func[ \t]*(?:\(|\w+[ \t]*[\[(])", r"type[ \t]+\w+[^\n.]*[ \t](?:struct|interface|func)\b"
    ),
    "java": _head(
        r"@(?:[a-z]\w*\.)*[A-Z]\w*",
        rf"{_MODIFIERS}(?:class|interface|enum|record|@interface)\s+\w+{_OPEN}",
        # A method, but not "the name(s)" in prose.
        rf"{_MODIFIERS}(?:<[^\n]*>\s*)?[\w.]+(?:<[^\n(]*>)?(?:\[\])*\s+[\w$]+\s?\((?!s\))",
        rf"{_MODIFIERS}[A-Z]\w*\s?\([^\n]*[{{,(]$",
    ),
    "php": _head(
        r"#\[",
        rf"{_MODIFIERS}function\s*&?\s*\w+\s*\(",
        rf"{_MODIFIERS}(?:class|interface|trait|enum)\s+\w+{_OPEN}",
    ),
    "ruby": _head(
        r"def[ \t]+[^\s.]+(?:\.[^\s.]+)?(?:[ \t]*[(;=#&*]|[ \t]*$|[ \t]+\w+[ \t]*(?:=|,|$))",
        r"(?:class|module)[ \t]+(?:[A-Z][\w:]*|<<)[ \t]*(?:<|;|$)",
    ),
}
