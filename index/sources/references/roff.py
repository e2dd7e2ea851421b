"""Read the source of manual pages as lines of text and macros.

Conditions are those of a terminal. Of programs, only macros that a page defines are run: each line
of such a macro takes the place of its call. The time is linear in the length of the page.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from operator import eq, ge, gt, le, lt

from purlin.index.sources.references.page_markup import BOLD, ITALIC, PLAIN
from purlin.index.sources.words import words

# Of what a page defines and nests.
MAX_STRINGS = 500
MAX_STRING = 500  # characters
MAX_LINE_CONDITIONS = 8
MAX_OPEN_CONDITIONS = 30
MAX_MACROS = 500
MAX_BODY = 100  # lines of a macro
MAX_BODY_LINE = 500  # characters
MAX_CALL = 2_000  # characters of a macro's arguments
MAX_CALLS = 8  # of macros by macros, within each other
MAX_RUN = 2 << 20  # characters of all lines that macros stand for
LINE_COST = 20  # characters that a line counts beside its own

_FONTS = {"B": BOLD, "3": BOLD, "BI": BOLD, "CB": BOLD, "I": ITALIC, "2": ITALIC, "CI": ITALIC}

# By name: the em dash is `\(em` or `\[em]`.
_CHARACTERS = dict(
    item.split("=", 1)
    for item in (
        "em=— en=– hy=- bu=• aq=' dq=\" lq=“ rq=” oq=‘ cq=’ Bq=„ bq=‚ Fo=« Fc=» fo=‹ fc=› co=© rg=® tm=™ "
        "ha=^ ti=~ rs=\\ sl=/ ba=| bv=| br=│ at=@ sh=# Do=$ Eu=€ Po=£ Ye=¥ ct=¢ ga=` aa=´ de=° sc=§ ps=¶ "
        "dg=† dd=‡ lB=[ rB=] lC={ rC=} la=⟨ ra=⟩ -> =→ <-=← ua=↑ da=↓ <>=↔ rA=⇒ lA=⇐ mu=× di=÷ +-=± pl=+ mi=− "
        "eq== !==≠ <==≤ >==≥ ~~=≈ ==≡ if=∞ ss=ß ae=æ AE=Æ oe=œ OE=Œ /o=ø /O=Ø oA=Å oa=å -D=Ð Sd=ð TP=Þ Tp=þ "
        "12=½ 14=¼ 34=¾ S1=¹ S2=² S3=³ mc=µ *a=α *b=β *p=π ci=○ sq=□ ul=_ rn=‾ r!=¡ r?=¿ no=¬ f/=⁄ pc=·"
    ).split(" ")
    if "=" in item.strip("=")
)
_CHARACTERS |= {"->": "→", "==": "≡", "!=": "≠", "<=": "≤", ">=": "≥", "eq": "=", "ff": "ff"}
# `\['e]` is an e with the accent that its first character stands for.
_ACCENTS = dict(zip("'`^~:,v", "\u0301\u0300\u0302\u0303\u0308\u0327\u030c", strict=True))
# One character, or a letter with its accent: `u00E9`, `u0041_0301`.
_UNICODE = re.compile(r"u(?:ni)?([0-9A-Fa-f]{4,6})(?:_([0-9A-Fa-f]{4,6}))?")
_STRINGS = {"lq": "“", "rq": "”", "R": "®", "Tm": "™", "Aq": "'", "Lq": "“", "Rq": "”", "Ba": "|"}

# Each alternative begins otherwise and has a bounded end, so that time stays linear.
_ESCAPE = re.compile(
    r"""\\(?:
        (?P<comment>["#].*)
        |\((?P<two>..)
        |\[(?P<long>[^\]\n]{0,100})\]
        |\*(?:\((?P<string2>..)|\[(?P<string>[^\]\n]{0,100})\]|(?P<string1>.))
        |f(?:\((?P<font2>..)|\[(?P<font>[^\]\n]{0,20})\]|(?P<font1>.))
        |s(?:[+-]?\d{1,2}|[+-]?\[[^\]\n]{0,20}\]|[+-]?'[^'\n]{0,20}'|\([+-]?..)
        |[mMFgkVYnO][+-]?(?:\(..|\[[^\]\n]{0,100}\]|.)
        |[AbBCDhHlLNoRSvwxXZ](?P<quote>['"|!])(?P<measure>[^\n]{0,200}?)(?P=quote)
        |z
        |(?P<char>.)
        |\Z
    )""",
    re.VERBOSE,
)
# What stands for a space after a backslash, and what for another character.
_BLANKS = frozenset("0 ~t")
_LITERAL = {"-": "-", "e": "\\", "\\": "\\", "'": "´", "`": "`", ".": ".", "_": "_"}

# A macro or request with its arguments: `.SH NAME`.
_CONTROL = re.compile(r"[.'][ \t]*(\\?[^\s\\\"]{0,30})[ \t]*(.*)", re.DOTALL)
# An argument in quotes, where two stand for one, or a word, in which a backslash takes the next character along.
_TOKEN = re.compile(r'"((?:[^"]|"")*)"?|((?:\\[ \t]|\\[^ \t]|[^\s\\])+)|\\\Z')
# Two strings between three quotes are compared; what else is unknown is false.
_CONDITION = re.compile(
    r"""!?(?:[noetv]\b|\\n\(\.g|\\n\[\.g\]
    |(?P<quote>["'])(?P<left>(?:(?!(?P=quote)).)*+)(?P=quote)(?P<right>(?:(?!(?P=quote)).)*+)(?P=quote)
    |\S*)[ \t]*""",
    re.VERBOSE,
)
# `1`, `(2>1)`
_NUMBERS = re.compile(r"\(?(\d{1,9})(?:([-<>=]=?)(\d{1,9}))?\)?")
# A number, and a difference of two, is true if it is more than zero.
_COMPARISONS = {"<": lt, "<=": le, ">=": ge, "=": eq, "==": eq}
# In a macro: one of its arguments, all of them, or how many there are.
_ARGUMENT = re.compile(r"\\\$(?:([1-9])|\[([1-9])\]|([*@]))|(\\n(?:\(\.\$|\[\.\$\]))")
# Conditions that hold on a terminal.
_TRUE = frozenset(["n", "o", r"\n(.g", r"\n[.g]", "!t", "!v"])
_DEFINITIONS = words("de de1 dei dei1 am am1 ami ami1")


class Strings:
    """The strings that a page defines, by name, and the text that escapes stand for."""

    def __init__(self) -> None:
        self._strings = dict(_STRINGS)

    def define(self, arguments: str) -> None:
        """Define a string by the arguments of `.ds`; what is too long or too much is left out."""
        name, _, value = arguments.partition(" ")
        if len(self._strings) < MAX_STRINGS:
            self._strings[name] = self.text(value.strip().removeprefix('"'))[:MAX_STRING]

    def text(self, source: str) -> str:
        """Text with the marks of fonts, without any escape."""
        return _ESCAPE.sub(self._replace, source) if "\\" in source else source

    def _replace(self, match: re.Match[str]) -> str:
        kind, name = match.lastgroup, match[match.lastgroup or 0]

        if kind in ("two", "long"):
            return _character(name)
        if kind in ("string2", "string", "string1"):
            return self._strings.get(name, "")
        if kind in ("font2", "font", "font1"):
            return _FONTS.get(name, PLAIN)
        if kind == "char":
            return " " if name in _BLANKS else _LITERAL.get(name, "")

        return ""


def _character(name: str) -> str:
    if name in _CHARACTERS:
        return _CHARACTERS[name]

    if match := _UNICODE.fullmatch(name):
        codes = [int(digits, 16) for digits in match.groups() if digits]
        valid = all(code < 0x110000 and not 0xD800 <= code < 0xE000 for code in codes)
        return unicodedata.normalize("NFC", "".join(map(chr, codes))) if valid else ""

    if len(name) == 2 and name[0] in _ACCENTS:
        return unicodedata.normalize("NFC", name[1] + _ACCENTS[name[0]])
    return ""


def tokens(arguments: str) -> list[str]:
    """The arguments of a macro, with their escapes; quotes around them are dropped."""
    return [token for token, _ in quoted_tokens(arguments)]


def quoted_tokens(arguments: str) -> list[tuple[str, bool]]:
    """The arguments of a macro, each with whether it stood in quotes."""
    return [
        (match[2], False) if match[2] is not None else ((match[1] or "").replace('""', '"'), True)
        for match in _TOKEN.finditer(arguments)
        if match[0] != "\\"
    ]


class Macros:
    """Reads the lines of a page.

    `runs` tells of a macro that the page defines whether its lines come instead of it.
    """

    def __init__(
        self, strings: Strings, runs: Callable[[str], bool] = lambda _macro: False
    ) -> None:
        self._strings = strings
        self._runs = runs
        self._conditions = _Conditions(strings)
        self._macros: dict[str, list[str]] = {}
        self._run_chars = 0

        # The definition that is being read: its macro, its lines and what ends it.
        self._defined = ""
        self._body: list[str] = []
        self._end = ""

    def read(self, source: str) -> Iterator[tuple[int, str, str]]:
        """Each line of what a terminal would show: its number, macro and arguments, or "" and text.

        Comments, definitions of macros and what stands under false conditions are left out.
        """
        for number, line in _joined_lines(source):
            for macro, text in self._read(line, MAX_CALLS):
                yield number, macro, text

    def _read(self, line: str, calls_left: int) -> Iterator[tuple[str, str]]:
        """Macro and arguments of a line, "" and its text, or those of the macro that it calls."""
        if self._end:
            self._define(line)
            return

        line = self._conditions.applied(line)
        control = _CONTROL.match(line)
        if control is None:
            if line is not _Conditions.NOTHING:
                yield "", line
            return

        macro, arguments = control[1], control[2].split('\\"')[0].rstrip(" \t")
        if macro in _DEFINITIONS or macro == "ig":
            self._begin_definition(macro, arguments.split())
        elif macro == "ds":
            self._strings.define(arguments)
        elif macro in self._macros and calls_left and len(arguments) <= MAX_CALL:
            yield from self._run(macro, tokens(arguments), calls_left - 1)
        elif macro and not macro.startswith("\\"):
            yield macro, arguments

    def _begin_definition(self, request: str, words: Sequence[str]) -> None:
        ends = words[1:2] if request in _DEFINITIONS else words[:1]
        self._end = ends[0] if ends else "."
        self._body = []
        self._defined = words[0] if words and request in ("de", "de1") else ""

    def _define(self, line: str) -> None:
        """Add a line to the definition of a macro, or end it."""
        if line[:1] not in (".", "'") or line[1:].strip() != self._end:
            if len(self._body) <= MAX_BODY:
                # In a definition, a backslash stands before each that is for its call.
                self._body.append(line[: MAX_BODY_LINE + 1].replace("\\\\", "\\"))
            return

        self._end = ""
        is_short = len(self._body) <= MAX_BODY and all(
            len(body_line) <= MAX_BODY_LINE for body_line in self._body
        )
        self._macros.pop(self._defined, None)
        is_run = bool(self._defined) and self._runs(self._defined)
        if is_short and is_run and len(self._macros) < MAX_MACROS:
            self._macros[self._defined] = self._body

    def _run(
        self, macro: str, arguments: Sequence[str], calls_left: int
    ) -> Iterator[tuple[str, str]]:
        def argument(match: re.Match[str]) -> str:
            if match[4]:
                return str(len(arguments))
            if match[3]:
                return " ".join(arguments)
            number = int(match[1] or match[2])
            return arguments[number - 1] if number <= len(arguments) else ""

        for line in self._macros[macro]:
            line = _ARGUMENT.sub(argument, line)
            self._run_chars += len(line) + LINE_COST
            if self._run_chars > MAX_RUN:
                return
            yield from self._read(line, calls_left)


def _joined_lines(source: str) -> Iterator[tuple[int, str]]:
    """The lines of a page with their numbers; one that ends in a backslash goes on in the next."""
    parts: list[str] = []
    first = 1

    for number, line in enumerate(source.split("\n"), 1):
        if line.endswith("\\"):
            parts.append(line[:-1])
            continue

        yield first, "".join((*parts, line)).rstrip("\r")
        parts.clear()
        first = number + 1

    if parts:
        yield first, "".join(parts) + "\\"


class _Conditions:
    """Applies `.if`, `.ie` and `.el`, also to several lines between `\\{` and `\\}`."""

    NOTHING = "."

    def __init__(self, strings: Strings) -> None:
        self._strings = strings
        self._hidden = 0
        self._results: list[bool] = []

    def applied(self, line: str) -> str:
        """What is left of a line; NOTHING if that is nothing."""
        if self._hidden:
            self._hidden += line.count("\\{") - line.count("\\}")
            self._hidden = max(self._hidden, 0)
            return self.NOTHING

        for _ in range(MAX_LINE_CONDITIONS):
            control = _CONTROL.match(line)
            if control is None or control[1] not in ("if", "ie", "el"):
                break
            rest = control[2]
            if control[1] == "el":
                is_true = not (self._results.pop() if self._results else True)
            else:
                condition = _CONDITION.match(rest)
                text = condition[0] if condition else ""
                rest = rest[len(text) :]
                is_true = condition is not None and self._holds(condition)
            if control[1] == "ie" and len(self._results) < MAX_OPEN_CONDITIONS:
                self._results.append(is_true)
            if not is_true:
                self._hidden = max(0, control[2].count("\\{") - control[2].count("\\}"))
                return self.NOTHING
            line = rest.lstrip(" \t").removeprefix("\\{").lstrip(" \t") or self.NOTHING

        if "\\}" in line or "\\{" in line:
            line = line.replace("\\}", "").replace("\\{", "").rstrip() or self.NOTHING
        return line

    def _holds(self, condition: re.Match[str]) -> bool:
        text = condition[0].strip()
        if numbers := _NUMBERS.fullmatch(text.removeprefix("!")):
            compare = _COMPARISONS.get(numbers[2], gt)
            is_true = bool(compare(int(numbers[1]), int(numbers[3] or 0)))
            return is_true != text.startswith("!")
        if condition["quote"] is None:
            return text in _TRUE
        left_text = self._strings.text(condition["left"])
        right_text = self._strings.text(condition["right"])
        return (left_text == right_text) != text.startswith("!")
