"""What is stored as builds, corpora and classifiers, and the words for it in messages."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Catalog:
    """What is stored, corpora or classifiers: its folder below HOME, and the words for messages.

    `item` is the noun in the singular, `create` the command that makes one, `rebuild` the remedy
    for a damaged build, and `command` the one whose `show` and `activate` list builds and go back.
    """

    folder: str
    item: str
    create: str
    rebuild: str
    command: str


CORPORA = Catalog(
    "corpora", "corpus", "`purlin index build`", "build the corpus again", "purlin index"
)
CLASSIFIERS = Catalog(
    "classifiers",
    "classifier",
    "`purlin train pesco`",
    "train the classifier again",
    "purlin classifier",
)


def damage_message(directory: Path, file: str, problem: str) -> str:
    """Error message for a build that is not used: its file, the problem and the remedy."""
    name = directory.parent.name
    catalog = CLASSIFIERS if directory.parent.parent.name == CLASSIFIERS.folder else CORPORA

    remedy = catalog.rebuild[0].upper() + catalog.rebuild[1:]
    return (
        f"{name}/{directory.name}/{file} {problem}; this build is not used. "
        f"{remedy}, or go back with `{catalog.command} activate {name} BUILD`."
    )
