"""Model cards: what is said of an exported model, in Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from purlin.index.errors import InvalidInput

CARD = "README.md"


@dataclass(frozen=True, slots=True)
class Card:
    """The contents of the model card, and the encoder's prefixes. `measures`: name -> value."""

    name: str
    base_model: str = "unknown"
    base_licence: str = "unknown"
    trained_on: Sequence[str] = ()
    measures: Mapping[str, float] = field(default_factory=dict)
    limits: Sequence[str] = ()
    query_prefix: str = ""
    passage_prefix: str = ""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9][\w.-]{0,99}", self.name):
            raise InvalidInput(
                f"The name {self.name[:120]!r} is not one word of at most 100 letters, digits, dots and "
                "dashes.",
                field="name",
            )

    def details(self) -> dict[str, Any]:
        """Return what an `encoder.json` says of the model beside its settings."""
        return {
            "base_model": self.base_model,
            "base_licence": self.base_licence,
            "trained_on": list(self.trained_on),
            "measures": dict(self.measures),
        }


BASE_CARD = Card(
    name="all-MiniLM-L6-v2-int8",
    base_model="sentence-transformers/all-MiniLM-L6-v2",
    base_licence="Apache-2.0",
    limits=(
        "Trained on English text and questions, among it CodeSearchNet; other languages share few of "
        "its 30,522 words.",
        "Case is ignored, accents are removed, and identifiers fall into pieces that were frequent in "
        "prose.",
    ),
)


def markdown_list(items: Iterable[str]) -> str:
    """Return the items as a list for a model card."""
    return "\n".join(f"- {item}" for item in items) or "None recorded."


def markdown_measures(measures: Mapping[str, float], number_format: str) -> str:
    """Return a model card's table of measures."""
    rows = [f"| {name} | {value:{number_format}} |" for name, value in measures.items()]
    return "\n".join(["| what | value |", "|---|---|", *(rows or ["| none recorded | |"])])
