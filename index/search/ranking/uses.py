"""Queries for the uses of a name, such as "who calls parse_header", and the code that answers them."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from purlin.index.records import Document
from purlin.index.search.ranking.repository import SEPARATOR

_VERB = "(?:calls?|uses?|using|invokes?|references?|instantiates?)"
_PAST = "(?:called|used|invoked|referenced|instantiated)"
_SYMBOL = r"(?:the )?(?:(?:function|method|class|macro|constant|variable) )?`?(?P<{}>[\w$.:>#\\-]{{1,200}})(?:\(\))?`?"
_QUESTION = re.compile(
    rf"(?:(?:who|what|which \w+) (?:else )?{_VERB}"
    rf"|(?:find |list |show )?(?:all )?(?:the )?(?:callers?|call sites?|usages?|uses|references) (?:of|to)"
    rf"|where do (?:we|they|i) {_VERB}) {_SYMBOL.format('used')}"
    rf"|where (?:is|are) {_SYMBOL.format('subject')} (?:being )?{_PAST}(?: from)?",
    re.IGNORECASE,
)
_NAME = re.compile(r"[^\W\d][\w$]*")


def used_name(query: str) -> str | None:
    """Return the last name of the symbol whose uses a query asks for; None for other queries."""
    match = _QUESTION.fullmatch(" ".join(query.split()).rstrip("?.! "))
    if match is None:
        return None
    name = SEPARATOR.split(match["used"] or match["subject"])[-1]
    return name if _NAME.fullmatch(name) else None


def users(name: str, documents: Sequence[Document]) -> NDArray[np.bool_]:
    """Return which (n,) of the documents contain a name as a whole word, but do not define it.

    The outline of a class that defines the name does not count; a comment with the name does.
    """
    word = re.compile(rf"(?<![\w$]){re.escape(name)}(?![\w$])")
    owners = {
        (document.location.path, _parts(document.title)[:-1])
        for document in documents
        if _parts(document.title)[-1] == name
    }

    return np.array(
        [
            _parts(document.title)[-1] != name
            and (document.location.path, _parts(document.title)) not in owners
            and word.search(document.body) is not None
            for document in documents
        ],
        dtype=np.bool_,
    )


def _parts(title: str) -> tuple[str, ...]:
    return tuple(title.split("."))
