"""Questions on where a name is used, such as "who calls parse_header", and the code that answers them."""

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
    """The last name of the symbol whose uses a query asks for; None if it asks for something else."""
    match = _QUESTION.fullmatch(" ".join(query.split()).rstrip("?.! "))
    if match is None:
        return None
    name = SEPARATOR.split(match["used"] or match["subject"])[-1]
    return name if _NAME.fullmatch(name) else None


def users(name: str, documents: Sequence[Document]) -> NDArray[np.bool_]:
    """Which (n,) of the documents have a name as a word of their own and do not define it.

    An outline of a class that defines it has the name, too, and so has a comment.
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
