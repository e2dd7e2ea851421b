"""Model cards: what is said of an exported model, in Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from purlin.index.errors import InvalidInput

CARD = "README.md"
FINGERPRINT = (
    "`encoder.json` holds the settings, the SHA-256 of the other files, and a fingerprint over all that changes a "
    "vector. An index remembers the fingerprint of the encoder that it was made with."
)
"""What cards say of an encoder's settings."""


@dataclass(frozen=True, slots=True)
class Card:
    """What a model card says of a model, and an encoder's prefixes. `measures`: name -> value."""

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

    def text(
        self,
        description: str,
        facts: Mapping[str, str] = MappingProxyType({}),
        sections: Mapping[str, str] = MappingProxyType({}),
    ) -> str:
        """Return the card in Markdown: a description, facts in a list, and further `sections`.

        A model without a base model, such as an ensemble, has no licence and no training of its own.
        """
        sections = {
            **sections,
            "Measures": _table(self.measures),
            "Limits": markdown_list(self.limits),
        }
        if self.base_model:
            facts = {"Base model": f"{self.base_model}, licence {self.base_licence}", **facts}
            sections = {"Trained on": markdown_list(self.trained_on), **sections}

        parts = [f"# {self.name}", description]
        if facts:
            parts.append(markdown_list(f"**{name}**: {fact}" for name, fact in facts.items()))
        parts += [f"## {heading}\n{content}" for heading, content in sections.items()]
        return "\n\n".join(parts) + "\n"


def recipe_card(
    name: str,
    export: Any,
    base_model: str,
    measures: Mapping[str, float],
    trained_on: Sequence[str] = (),
) -> Card:
    """Return the card of a recipe's model, with the licence, training data and limits of its `export`.

    `trained_on` names the training data where the `export` names none.
    """
    return Card(
        name,
        base_model=base_model,
        base_licence=export.base_licence,
        trained_on=export.trained_on or trained_on,
        measures=measures,
        limits=export.limits,
    )


def markdown_list(items: Iterable[str]) -> str:
    """Return the items as a list in Markdown, or "None recorded." if there are none."""
    return "\n".join(f"- {item}" for item in items) or "None recorded."


def _table(measures: Mapping[str, float]) -> str:
    rows = [f"| {name} | {value:.4g} |" for name, value in measures.items()]
    return "\n".join(["| what | value |", "|---|---|", *(rows or ["| none recorded | |"])])
