"""Errors of `purlin.app`, and those of pydantic in words. Imports no web framework."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from purlin.index.errors import PurlinError

MAX_ERRORS = 10
_MAX_IN_DETAIL = 3  # errors that the sentence mentions
MAX_QUOTED_CHARS = 60  # of anything that the client sent
_MAX_NAMES = 20  # corpora that a sentence names


class Opening(PurlinError):
    """The corpus is still being opened; a later attempt may succeed."""


class NotJson(PurlinError):
    """The body of a request cannot be read as JSON."""


class ClientLeft(PurlinError):
    """The client disconnected before the reply was sent; nobody reads this problem."""


def listed(names: Sequence[str]) -> str:
    """Return the first of some corpora's names as a list in a sentence."""
    return ", ".join(names[:_MAX_NAMES])


def explain(errors: Sequence[Mapping[str, Any]]) -> tuple[str, list[tuple[str, str]]]:
    """Return pydantic's errors as a sentence, and as (field, message) pairs.

    Locations begin with `body`.
    """
    field_errors = [(_field(error["loc"]), _message(error)) for error in errors[:MAX_ERRORS]]
    detail = "; ".join(f"{field} {message}" for field, message in field_errors[:_MAX_IN_DETAIL])
    if len(errors) > _MAX_IN_DETAIL:
        detail += f"; and {len(errors) - _MAX_IN_DETAIL} more"
    return f"{detail}.", field_errors


def _field(location: Sequence[str | int]) -> str:
    """Return a location as a path.

    ("body", "filter", "language") -> filter.language; ("body", "texts", 3) -> texts[3]; ("body",)
    -> body.
    """
    keys = location[1:] or location
    path = "".join(
        f"[{key}]" if isinstance(key, int) else f".{key[:MAX_QUOTED_CHARS]}" for key in keys
    )
    return path.removeprefix(".")


def _message(error: Mapping[str, Any]) -> str:
    """Return what is wrong with a field, to be read after its name."""
    if error["type"] == "missing":
        return "is required"
    if error["type"] == "unknown_key":
        return str(error["msg"])
    if error["type"] == "string_unicode":
        return f"must be valid Unicode, without half of a surrogate pair; {_describe_input(error)}"
    if error["type"] == "model_attributes_type":
        return "must be a JSON object"

    # Pydantic's "Input should be" becomes "must be", without the notes that it adds for developers.
    rule = re.sub(r"^[A-Z]\w* should ", "must ", error["msg"])
    rule = rule.replace("a valid dictionary", "an object")
    return f"{rule.partition(' after validation')[0]}; {_describe_input(error)}"


def _describe_input(error: Mapping[str, Any]) -> str:
    """Describe the rejected value in a few words, never with a long text itself."""
    value = error["input"]
    if error["type"].endswith(("too_long", "too_short")):
        return f"it has {len(value)}"
    if isinstance(value, dict):
        keys = _shorten(", ".join(map(str, list(value)[:5])))
        return f"it is an object with {keys or 'no keys'}"
    if isinstance(value, list):
        return f"it is a list of {len(value)}"

    # Cut before it is serialized: the value may have a million characters.
    excerpt = value[: MAX_QUOTED_CHARS + 1] if isinstance(value, str) else value
    return f"it is {_shorten(json.dumps(excerpt))}"


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_QUOTED_CHARS else f"{text[:MAX_QUOTED_CHARS]}…"
