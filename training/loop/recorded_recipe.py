"""The recipe that a run records, by which it is recognized when it is resumed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

# Keys of a recipe that decide how steps are computed, not what is learned from them.
NOT_LEARNED = ("precision", "workers", "timeout_minutes")


# Keys that recipes have got or lost since runs were first recorded, with the value that those runs
# had.
LATER_KEYS: dict[str, Any] = {
    "epsilon": 1e-8,
    "translate": "questions",
    "originals": True,
    "labelled_share": 1.0,
    "trains": "all",
    "summaries": True,
    # Was the default of every format, where none is now; it shows in the digests of the texts.
    "locale": "us",
    # A key of pairs that dev sets have got.
    "translators": [],
    "distilled": True,
    "layers": 0,
    "result": "best",
    "align": False,
    "blend": 0.0,
    "restart": False,
    "base_share": 0.0,
}


def same_recipe(recipe: object, recorded: object) -> bool:
    """Tell whether two recipes, as objects or as JSON, train the same; NOT_LEARNED does not count.

    Precision decides how fast and how exactly steps are computed, not what is learned. A run has to
    be resumable where "auto" means another one, as on another machine, and from a checkpoint that
    recorded "bf16", the default before "auto". A key that is None, or one of LATER_KEYS at its first
    value, counts as absent: runs that are older than such a key, or than its end, can be resumed.
    """
    return bool(_learned(recipe) == _learned(recorded))


def _learned(recipe: object) -> Any:
    def counts(key: str, value: Any) -> bool:
        if key in NOT_LEARNED or value is None:
            return False
        return not (key in LATER_KEYS and value == LATER_KEYS[key])

    def stripped(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: stripped(inner) for key, inner in value.items() if counts(key, inner)}
        if isinstance(value, list):
            return [stripped(inner) for inner in value]
        return value

    return stripped(json.loads(json.dumps(recipe, default=str)))


def digest(examples: Iterable[object]) -> str:
    """Return the SHA-256 (hex) of training examples in their order, by their `repr`.

    A recipe has only their paths, which do not tell whether the contents are the same.
    """
    sha256 = hashlib.sha256()
    for example in examples:
        sha256.update(repr(example).encode())
    return sha256.hexdigest()
