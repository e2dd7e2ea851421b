"""Filters on what files are: their kind of content and their language."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import get_args

from purlin.index.errors import InvalidInput
from purlin.index.records import Content
from purlin.index.search.store.filters import Condition, Filter, Scalar
from purlin.index.sources.code.contents import language_name

CONTENTS: tuple[Content, ...] = get_args(Content)


def content_filter(
    field_names: Collection[str], content: Content, filter: Filter | None
) -> Filter | None:
    """Add to a filter that only code, documentation or configuration is searched.

    A corpus that has no field `content` among its `field_names`, such as one of products, is
    searched whole. Raises InvalidInput for another word than those of `CONTENTS`.
    """
    if content not in CONTENTS:
        raise InvalidInput(
            f"content is {content[:40]!r}; use {', '.join(CONTENTS)}.", field="content"
        )
    if content == "all" or "content" not in field_names:
        return filter
    return {"content": content, **(filter or {})}


def with_language_names(filter: Filter | None) -> Filter | None:
    """Let a filter on `language` take the usual names of a language: Golang, C++, JS.

    Repositories store one name for each language, in lower case. Other corpora store what their
    records have, so each value is also compared as it stands.
    """
    condition = (filter or {}).get("language")
    if filter is None or condition is None:
        return filter
    return {**filter, "language": _with_spellings(condition)}


def _with_spellings(condition: Condition) -> Condition:
    if isinstance(condition, Mapping):
        excluded = {key: _with_spellings(condition[key]) for key in condition if key == "not"}
        return {**condition, **excluded}

    if not isinstance(condition, Scalar | Sequence):
        return condition

    spellings: dict[Scalar, None] = {}
    for value in [condition] if isinstance(condition, Scalar) else condition:
        spellings[value] = None
        if isinstance(value, str):
            spellings |= {value.lower(): None, language_name(value): None}

    return list(spellings)
