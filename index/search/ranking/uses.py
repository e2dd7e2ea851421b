"""Queries for tests, and for what uses a name or inherits from it, and the code that answers them.

"Who calls parse_header" wants uses, "tests of parse_header" those in tests, "what implements Codec"
heirs: classes and the like that name it as what they extend, implement or include.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from purlin.index.records import Document
from purlin.index.search.arrays import Mask
from purlin.index.search.lexical.tokens import pieces
from purlin.index.search.ranking.repository import SEPARATOR
from purlin.index.search.ranking.roles import is_test

_VERB = "(?:calls?|uses?|using|invokes?|references?|instantiates?|depends? on)"
_PAST = "(?:called|used|invoked|referenced|instantiated)"
_SYMBOL = r"(?:the )?(?:(?:function|method|class|macro|constant|variable) )?`?([\w$.:>#\\-]{1,200})(?:\(\))?`?"
_ON_SYMBOL = re.compile(_SYMBOL, re.IGNORECASE)
_CHANGE = "(?:change|rename|remove|delete)"
_ON_USES = re.compile(
    rf"(?:(?:who|what|which \w+) (?:else )?{_VERB}"
    rf"|(?:find |list |show )?(?:all )?(?:the )?(?:callers?|call sites?|usages?|uses|references) (?:of|to)"
    rf"|where do (?:we|they|i) {_VERB}) {_SYMBOL}"
    rf"|where (?:is|are) {_SYMBOL} (?:being )?{_PAST}(?: from)?"
    rf"|what (?:would |will |could )?breaks? if (?:(?:i|we|you) {_CHANGE}d? )?{_SYMBOL}"
    rf"(?: to .{{1,200}}| (?:is |was |were )?{_CHANGE}[ds]\b.{{0,200}})?",
    re.IGNORECASE,
)
_INHERITS = (
    "(?:implement(?:s|ing)?|extend(?:s|ing)?|subclass(?:es|ing)?"
    "|(?:inherit(?:s|ing)?|deriv(?:es?|ed|ing)) from|conform(?:s|ing)? to)"
)
_TYPE = "(?:interface|class|trait|protocol|behaviou?r|type ?class|module|mixin)"
_ON_HEIRS = re.compile(
    rf"(?:(?:who|what|which \w+) {_INHERITS}"
    r"|(?:find |list |show )?(?:all )?(?:the )?"
    rf"(?:(?:implementations?|implement[eo]rs|subclasses|subtypes|heirs|derived classes) of"
    rf"|(?:classes|types|structs|modules) (?:that |which )?{_INHERITS}))"
    rf" {_SYMBOL}(?: {_TYPE})?",
    re.IGNORECASE,
)
_KINDS_OF_TESTS = (
    "unit|integration|regression|end-to-end|e2e|acceptance|functional|system|browser|smoke|stress"
)
_BEFORE_TESTS = (
    "(?:(?:find|list|show|me|where|which|what|is|are|there|all|any|the|a|an|our|existing"
    f"|{_KINDS_OF_TESTS}) )*"
)
_TESTS = r"(?:tests|specs|test ?cases|test ?suites?)"
_COVER = "(?:checks?|checking|covers?|covering|tests?|testing|uses?|using|calls?|calling)"
# "Test for a prime" and "test whether a file exists" are what a function does.
_NOT_A_CONDITION = r"(?! (?:for|if|whether)\b)"
# Each has what is tested as its group: a symbol, or a phrase such as "the parser".
_ON_TESTS = re.compile(
    rf"{_BEFORE_TESTS}(?:{_TESTS}|test|spec) (?:of|that(?: {_COVER})?|checking|covering|covers?) (.+)"
    rf"|{_BEFORE_TESTS}(?:{_TESTS}|(?:a|the|{_KINDS_OF_TESTS}) test)"
    rf" (?:for|on|which(?: {_COVER})?) (.+)"
    rf"|{_BEFORE_TESTS}{_TESTS} {_COVER} (.+)"
    r"|(?:where|how) (?:is|are) (.+?) (?:being )?tested"
    rf"|(?:where|how) (?:do|does|can|should) (?:we|you|they|i|one) test{_NOT_A_CONDITION} (.+)"
    rf"|(?:what|which \w+) tests{_NOT_A_CONDITION} (.+)",
    re.IGNORECASE,
)
# Lisps have hyphens in names.
_NAME = re.compile(r"[^\W\d][\w$]*(?:-[\w$]+)*")
# What a member is named with, if that is a class or a constant: `User.find`.
_RECEIVER = re.compile(r"(?<![\w$])([A-Z][\w$]*)(?:::|->|[.#])\Z")
_MAX_RECEIVER = 100  # characters
# Parameters of a class, other than in Python, and those of its type: `class Box<T extends Codec>`.
_PARAMETERS = re.compile(r"\([^()]*\)|<[^<>]*>")
# The results of a type of functions: `type Open func(name string) Codec`, `type Open = () => Codec`.
_RESULTS = {"go": re.compile(r"\bfunc\b.*"), "typescript": re.compile("=>.*")}
# Beginnings of lines in a body that name what it inherits from, by language; PHP's are those of traits.
_HERITAGE = {
    "elixir": "@behaviou?r|use",
    "crystal": "include|extend",
    "ruby": "include|extend|prepend",
    "perl": "extends|with|use +(?:parent|base)",
    "php": "use",
}


Verb = Literal["uses", "tests", "inherits from"]


@dataclass(frozen=True, slots=True)
class Relation:
    """What code has to do with a symbol, which is written as in the query that asks for such code."""

    verb: Verb
    symbol: str

    @property
    def name(self) -> str:
        """The name of the symbol without those of what it is in."""
        return _last_name(self.symbol)

    def holds(self, documents: Sequence[Document]) -> Mask:
        """Return which (n,) of the documents have this relation to the symbol."""
        related = {"uses": _are_users, "tests": _are_covering_tests, "inherits from": _are_heirs}
        return np.array(related[self.verb](self.symbol, documents), dtype=np.bool_)


def relation_in(query: str) -> Relation | None:
    """Return the relation to a symbol that a query asks for; None for a query that asks for none."""
    text = _as_question(query)
    # In this order: "which tests use X" wants tests alone.
    return (
        _relation("tests", _ON_SYMBOL.fullmatch(_tested_in(query) or ""))
        or _relation("uses", _ON_USES.fullmatch(text))
        or _relation("inherits from", _ON_HEIRS.fullmatch(text))
    )


def asks_for_tests(query: str) -> bool:
    """Return whether a query asks for tests rather than for the code that they test."""
    return _tested_in(query) is not None


def _tested_in(query: str) -> str | None:
    """Return what a query asks for tests of, a symbol or a phrase; None if it wants no tests."""
    match = _ON_TESTS.fullmatch(_as_question(query))
    return next(filter(None, match.groups())) if match else None


def _as_question(query: str) -> str:
    return " ".join(query.split()).rstrip("?.! ")


def _relation(verb: Verb, match: re.Match[str] | None) -> Relation | None:
    """Return the relation to the symbol that a question names; None if that is no name."""
    if match is None:
        return None
    relation = Relation(verb, next(filter(None, match.groups())))
    return relation if _NAME.fullmatch(relation.name) else None


def _last_name(symbol: str) -> str:
    return SEPARATOR.split(symbol)[-1]


def _are_users(symbol: str, documents: Sequence[Document]) -> list[bool]:
    """Return whether each document uses a symbol, but does not define its name.

    The outline of a class that defines the name does not count; a comment with the name does.
    """
    name = _last_name(symbol)
    owners = {
        (document.location.path, _parts(document.title)[:-1])
        for document in documents
        if _parts(document.title)[-1] == name
    }

    return [
        _parts(document.title)[-1] != name
        and (document.location.path, _parts(document.title)) not in owners
        and first_use(symbol, document.body) is not None
        for document in documents
    ]


def first_use(symbol: str, text: str) -> int | None:
    """Return the offset of the first use of a symbol in a text, its name as a whole word; None without.

    If the symbol is a member of a class, members of other classes do not count: `Group.find` is no
    use of `User.find`. `ADMIN.find` is one, since a constant may hold an object of any class.
    """
    *outer, name = SEPARATOR.split(symbol)
    owner = outer[-1] if outer and outer[-1][:1].isupper() else None
    for match in re.finditer(_word(name), text):
        start = match.start()
        receiver = _RECEIVER.search(text, max(0, start - _MAX_RECEIVER), start) if owner else None
        if _may_have(receiver and receiver[1], owner):
            return start
    return None


def _may_have(receiver: str | None, owner: str | None) -> bool:
    """Return whether what stands before a name may have the member of this name of the class `owner`."""
    if owner is None or receiver in (None, owner):
        return True
    return receiver.isupper() and not owner.isupper()


def _are_covering_tests(symbol: str, documents: Sequence[Document]) -> list[bool]:
    """Return whether each document is a test that uses a symbol, or has its words in its name."""
    words = _words(_last_name(symbol))
    return [
        is_test(document)
        and (
            (not words.isspace() and words in "".join(map(_words, _parts(document.title)[-2:])))
            or first_use(symbol, document.body) is not None
        )
        for document in documents
    ]


def _words(name: str) -> str:
    """Return the words of a name, with spaces around each: " parse header " of `parseHeader`."""
    return f" {' '.join(pieces(name)).lower()} "


def _are_heirs(symbol: str, documents: Sequence[Document]) -> list[bool]:
    """Return whether each document inherits from a symbol: by its head, or by lines inside.

    Of what is in an extension or implementation of a type, such as Rust's `impl Codec for Gzip`, that is
    what its context says.
    """
    name = _last_name(symbol)
    word = _word(name)
    return [
        _parts(document.title)[-1] != name and _inherits(document, word) for document in documents
    ]


def _inherits(document: Document, word: str) -> bool:
    """Return whether a document inherits from what the pattern `word` matches."""
    if document.fields.get("kind") in ("function", "method"):
        # Only the head of a scope has several words.
        return any(" " in outer and re.search(word, outer) for outer in document.context)

    head = str(document.fields.get("signature", ""))
    language = str(document.fields.get("language"))
    if language != "python":
        head = _PARAMETERS.sub("", head)
    if language in _RESULTS:
        head = _RESULTS[language].sub("", head)
    if re.search(word, head):
        return True
    if language not in _HERITAGE:
        return False

    line = rf"^[ \t]*(?:{_HERITAGE[language]})\b[^\n]{{0,200}}{word}"
    return re.search(line, document.body, re.MULTILINE) is not None


def _word(name: str) -> str:
    """Return a pattern of a name as a whole word."""
    letters = r"\w$-" if "-" in name else r"\w$"
    return rf"(?<![{letters}]){re.escape(name)}(?![{letters}])"


def _parts(title: str) -> tuple[str, ...]:
    return tuple(title.split("."))
