"""Tables that are written as words: sets of them, and the kinds that they are of."""

from __future__ import annotations


def words(text: str) -> frozenset[str]:
    """Return the words of a text: `"note tip warning"`."""
    return frozenset(text.split())


def kinds(**words_by_kind: str) -> dict[str, str]:
    """Map words to kinds: `class_="class type", enum="enum"` -> {class: class, type: class, enum: enum}."""
    return {word: kind.rstrip("_") for kind, text in words_by_kind.items() for word in text.split()}
