"""The tool `classify`."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from purlin.app.agents.backend import Backend
from purlin.app.agents.budget import Part, Result, fit
from purlin.app.agents.tool import MAX_SHOWN, Budget, Tool
from purlin.app.fields import MAX_TEXT_CHARS, Labels, Strict

MAX_TEXTS_PER_CALL = 100


class ClassifyTexts(Strict):
    """Arguments of `classify`."""

    texts: list[Annotated[str, Field(max_length=MAX_TEXT_CHARS)]] = Field(
        min_length=1,
        max_length=MAX_TEXTS_PER_CALL,
        description="The texts, each at most a few paragraphs.",
    )
    labels: Labels | None = Field(
        default=None,
        description="Labels to choose from, as plain words; give these or `classifier`.",
    )
    classifier: str | None = Field(
        default=None, max_length=64, description="A trained classifier's name."
    )
    multi_label: bool = Field(default=False, description="Score each of `labels` on its own.")
    transductive: bool = Field(
        default=False,
        description="Let similar texts decide together: for some 100 of one kind, 50 gain nothing. "
        "Not with `classifier` or multi_label.",
    )
    max_tokens: int = Budget


def classify_texts(arguments: ClassifyTexts, backend: Backend) -> Result:
    """Find the best labels of each text."""
    reply = backend.classify(arguments.model_dump(exclude={"max_tokens"}))

    parts = []
    for result in reply.results:
        ranking = [
            {"label": label.label, "score": round(label.score, 4)} for label in result.ranking[:3]
        ]
        text = ", ".join(f"{label['label']} {label['score']:.2f}" for label in ranking)
        fields: dict[str, Any] = {
            "label": result.label,
            "margin": round(result.margin, 4),
            "ranking": ranking,
        }
        if result.labels is not None:
            fields["labels"] = list(result.labels)
        parts.append(Part(text, fields))

    structured = {"encoder": reply.encoder}
    if reply.classifier:
        structured["classifier"] = reply.classifier
    text = f"{len(parts)} texts, the best labels of each"
    if reply.warnings:
        text = f"{text}. {reply.warnings[0][:MAX_SHOWN]}"
    head = Result(text, structured)
    return fit(lambda _: head, "results", parts, arguments.max_tokens)


CLASSIFY = Tool(
    "classify",
    "Classify texts",
    "classify",
    f"Choose a label for each of up to {MAX_TEXTS_PER_CALL} texts at once: by the names of the "
    "labels, or by a trained classifier. Use it to sort, route or filter many texts (tickets, "
    "reviews, log lines) without reading each. "
    "Labels work best as plain words that say what they mean. Not for a text that you have read anyway, or for "
    "extracting facts; only the beginning of long texts counts, a few hundred tokens.",
    ClassifyTexts,
    classify_texts,
)
