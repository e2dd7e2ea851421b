"""Queries about the default of a setting, and the code that sets it.

"Change the default timeout of the API" wants a line such as `DEFAULT_TIMEOUT = 60` rather than what waits.
"""

from __future__ import annotations

import re
from collections.abc import Set as AbstractSet

from purlin.index.records import Document
from purlin.index.search.lexical.tokens import tokens
from purlin.index.search.ranking.roles import is_test

_NAME = r"\w[\w.-]{0,100}"
_LINK = r"(?:and|or|where|of|for|in|to|is|from|set)\b"
_ON_DEFAULT = re.compile(
    r"(?:change|decrease|find|increase|lower|override|raise|reduce|set|what(?: is|'s)|where is(?: the value of)?)"
    r" the default (?:(?:value|setting|size|number|amount|length) )?(?:(?:of|for) )?(?:the )?"
    rf"(?P<setting>(?:--)?{_NAME}(?: (?!{_LINK}){_NAME}){{0,3}})(?:,? {_LINK}.{{0,200}})?",
    re.IGNORECASE,
)
# An assignment, or an argument or entry with a value.
_VALUE = re.compile(r"[=:]\s*\S")
_DEFAULT = "default"

# How much of what its text lacks such code gets, where all of it would be a name's.
SET = 0.4


def setting_in(query: str) -> frozenset[str] | None:
    """Return the tokens of the setting whose default a query is about; None for another query."""
    match = _ON_DEFAULT.fullmatch(" ".join(query.split()).rstrip("?.! "))
    return (frozenset(tokens(match["setting"])) or None) if match else None


def sets_default(setting: AbstractSet[str], document: Document) -> bool:
    """Return whether a document, other than a test, has a line that sets the default of a setting.

    Either the line says that it is a default, or the name of what it is in.
    """
    if is_test(document):
        return False
    is_of_defaults = _DEFAULT in tokens(document.title)
    return any(
        (is_of_defaults or _DEFAULT in line.lower())
        and _VALUE.search(line) is not None
        and setting <= frozenset(tokens(line))
        for line in document.body.split("\n")
    )
