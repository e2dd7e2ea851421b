"""Requests of the HTTP API: unknown keys and values of other types are refused, nothing is converted."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Annotated, Any

from pydantic import Field, WrapValidator
from pydantic_core import PydanticCustomError

from purlin.app.fields import (
    MAX_TEXT_CHARS,
    Conditions,
    CorpusName,
    Labels,
    OptionalQuery,
    Query,
    Strict,
    Text,
    limit_size,
    suggest,
)
from purlin.index.classify.labels import DEFAULT_TEMPLATES
from purlin.index.classify.scores import RANKED
from purlin.index.errors import InvalidInput
from purlin.index.qa.ask import MAX_ANSWERS
from purlin.index.records import KINDS, Kind, Mode
from purlin.index.search.corpus import RERANK_DEPTH
from purlin.index.search.limits import MAX_K, MAX_RANK
from purlin.index.search.several import MAX_CORPORA

MAX_REQUEST_TEXTS = 10_000
MAX_REQUEST_TEMPLATES = 8
MAX_TEMPLATE_CHARS = 1_000
MAX_RANKING_BYTES = 64 * 2**20  # of all rankings of one reply together, approximately
_RANKING_ITEM_BYTES = 40  # of one label in a ranking, without its name


# ---- /search


class CorporaOfKind(Strict):
    """All corpora of a kind that are in service."""

    kind: Kind


def _validate_corpora(value: Any, validate: Callable[[Any], Any]) -> Any:
    """Report an invalid choice in one sentence, not as one error per union member."""
    limit_size(value, list, MAX_CORPORA, "a list of at most {} names")

    try:
        return validate(value)
    except ValueError:
        rule = (
            'must be a name of at most 64 characters, a list of names, or {"kind": …} with one of '
            f"{', '.join(KINDS)}"
        )
        raise PydanticCustomError("corpora", rule) from None


CorpusNames = Annotated[list[CorpusName], Field(min_length=1, max_length=MAX_CORPORA)]


class SearchRequest(Strict):
    """A query to a corpus, or to several at once, whose hits are merged by score.

    All conditions of `filter` must hold; a list matches any of its values, `not` excludes. If
    several corpora are searched, one without a field of `filter` has no hits, unless the condition
    only excludes.
    """

    query: OptionalQuery = Field(
        description="What to search for, in words or by name; may be empty if the filter has a regular expression.",
    )
    corpus: Annotated[
        CorpusName | CorpusNames | CorporaOfKind, WrapValidator(_validate_corpora)
    ] = Field(
        description=f'One of GET /corpora; or a list of up to {MAX_CORPORA}; or {{"kind": …}} for all of a kind.',
        examples=["code", ["code", "docs"], {"kind": "code"}],
    )
    k: int = Field(default=10, ge=1, le=MAX_K, description="Hits to return.")
    offset: int = Field(
        default=0,
        ge=0,
        lt=MAX_RANK,
        description=f"Hits to skip; offset + k <= {MAX_RANK}.",
    )
    mode: Mode = Field(
        default="hybrid",
        description="Scores that count: both, dense (by meaning) or lexical (by words).",
    )
    filter: Conditions = Field(
        default={},
        description='Field -> a value, a list of values (any of them), {"gte": …, "lte": …}, or {"not": …} with any of '
        "these, which leaves out documents with such a value and keeps those without the field. "
        "A text for a field that has only numbers is refused, and so is the reverse; where a field has both, "
        'a number may be written either way (38, "38"). '
        "Languages may be given by their usual names (Golang, C++, JS). "
        '{"text": {"matches": …}} asks for hits with a line that matches a regular expression; what stands '
        "before a definition of code, such as its comment or imports, counts as its own, and is then the text.",
        examples=[
            {"language": "python", "brand": ["Acme", "Zenith"], "price": {"gte": 10, "lte": 20}},
            {"condition": {"not": ["refurbished", "used"]}, "price": {"gte": 10, "not": 15}},
        ],
    )
    group_by: Text | None = Field(
        default=None,
        description="Field by whose value hits are grouped: the best of a group is the hit, the others are its "
        '`variants`. "parent" groups variants of products, and is allowed for any catalogue.',
        examples=["parent"],
    )
    rerank: bool | None = Field(
        default=None,
        description=f"Whether a reranker scores the first {RERANK_DEPTH} hits again; the default is to do so where "
        "that is known to help.",
    )
    explain: bool = Field(
        default=False, description="Adds `timings_ms`, and an explanation of its score to each hit."
    )


# ---- /qa


class QaRequest(Strict):
    """A question to a corpus, in plain words."""

    question: Query = Field(
        description="A whole question in English.",
        examples=["What is the default step of range?"],
    )
    corpus: CorpusName
    k: int = Field(default=3, ge=1, le=MAX_ANSWERS, description="Answers to return.")
    explain: bool = Field(
        default=False,
        description="Adds `timings_ms`, and `read`: the number of passages that were read.",
    )


# ---- /classify


Texts = Annotated[
    list[Annotated[str, Field(max_length=MAX_TEXT_CHARS)]],
    Field(max_length=MAX_REQUEST_TEXTS),
    suggest(
        "send the rest in another request",
        "shorten it: only about the first 256 tokens are read",
    ),
]
Templates = Annotated[
    list[Annotated[str, Field(max_length=MAX_TEMPLATE_CHARS)]],
    Field(max_length=MAX_REQUEST_TEMPLATES),
    suggest("keep the best of them", "a template is a sentence around {label}"),
]


class ClassifyRequest(Strict):
    """Texts, and the labels to choose from: given by name, or those of a trained classifier."""

    texts: Texts = Field(
        description="Texts to classify; the encoder reads about the first 256 tokens of each."
    )
    labels: Labels | None = Field(
        default=None,
        description='Names, paths such as "Sports > Football > World Cup", or a name with the wordings that are '
        'compared instead of it, as "fault = broken product | it does not work"; one is enough if multi_label.',
    )
    classifier: str | None = Field(
        default=None, max_length=64, description="One of GET /classifiers."
    )
    templates: Templates = Field(
        default=list(DEFAULT_TEMPLATES),
        description="For `labels`: sentences with {label} in place of the label.",
    )
    multi_label: bool = Field(
        default=False,
        description="For `labels`: each label is scored on its own, and the scores need not add up to 1; a result "
        "has all `labels` that fit.",
    )
    transductive: bool = Field(
        default=False,
        description="For `labels`: a text's neighbours among the others count, too; meant for hundreds of texts of "
        "one kind. A result then depends on all texts of the request.",
    )
    min_score: float = Field(
        default=0.0,
        ge=0.0,
        le=1.0,
        description="A result whose best score is lower has the label null. With multi_label, the labels that score "
        "at least this fit; if it is 0, those that score 0.5 or more and have at least a third of the best one's odds.",
    )

    def check(self) -> None:
        """Raise InvalidInput for keys that exclude each other."""
        if (self.labels is None) == (self.classifier is None):
            raise InvalidInput(
                "Send either `labels` or `classifier`: exactly one of the two.", field="labels"
            )
        if self.classifier is None:
            return

        if "templates" in self.model_fields_set:
            raise InvalidInput(
                "A trained classifier has its own prompts: omit `templates`.", field="templates"
            )
        if self.multi_label:
            raise InvalidInput(
                "A trained classifier is calibrated to choose one of its labels: "
                "omit `multi_label`, or send `labels` instead.",
                field="multi_label",
            )
        if self.transductive:
            raise InvalidInput(
                "A trained classifier has learnt from other texts already: omit `transductive`, or "
                "send `labels` instead.",
                field="transductive",
            )

    def ranking_length(self, labels: Sequence[str]) -> int:
        """Return how many labels a ranking may have without making the reply too large.

        A result also has its best label outside the ranking, hence `- 1`.
        """
        label_bytes = max(map(_json_bytes, labels), default=0) + _RANKING_ITEM_BYTES
        within_limit = MAX_RANKING_BYTES // (label_bytes * max(1, len(self.texts))) - 1
        return max(1, min(RANKED, within_limit))


def _json_bytes(text: str) -> int:
    """Return the size of a text as JSON, in bytes."""
    return len(json.dumps(text, ensure_ascii=False).encode())


# ---- /corpora


class ActivateRequest(Strict):
    """The build to activate."""

    build: str = Field(max_length=64, description="One of the corpus's builds.")
    force: bool = Field(
        default=False, description="Activate it even if it was refused because it measured worse."
    )


# ---- /classifiers


class ActivateClassifierRequest(Strict):
    """The build to activate."""

    build: str = Field(max_length=64, description="One of the classifier's builds.")
