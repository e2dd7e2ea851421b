"""The recipe that a run records, by which it is recognized when it is resumed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

# Keys of a recipe that decide how steps are computed, not what is learned from them.
NOT_LEARNED = ("precision", "workers", "timeout_minutes")


def same_recipe(recipe: object, recorded: object) -> bool:
    """Tell whether two recipes, as objects or as JSON, train the same; NOT_LEARNED does not count.

    Precision decides how fast and how exactly steps are computed, not what is learned. A run has to
    be resumable where "auto" means another one, as on another machine, and from a checkpoint that
    recorded "bf16", the default before "auto". A key that is None counts as absent.
    """
    return bool(_learned(recipe) == _learned(recorded))


def _learned(recipe: object) -> Any:
    def stripped(value: Any) -> Any:
        if isinstance(value, dict):
            return {
                key: stripped(inner)
                for key, inner in value.items()
                if inner is not None and key not in NOT_LEARNED
            }
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
