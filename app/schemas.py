"""What goes over the wire. Requests refuse unknown keys and values of another type; nothing is guessed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WrapValidator, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError, ValidationError

from index.classify.zero_shot import DEFAULT_TEMPLATES, RANKED, LabelSet
from index.errors import InvalidInput
from index.qa.ask import MAX_ANSWERS
from index.records import Answer, Classification, Hit, Kind, Location, Mode, Value
from index.search.corpus import MAX_DEPTH, MAX_K, MAX_QUERY_CHARS
from index.search.store import MAX_CONDITIONS, MAX_VALUES

MAX_KEYS = 100  # of an object in a request
MAX_VALUE_CHARS = 1_000
MAX_TEXTS = 10_000
MAX_TEXT_CHARS = 2**20
MAX_LABELS = 10_000
MAX_LABEL_CHARS = 1_000
MAX_TEMPLATES = 8
MAX_TEMPLATE_CHARS = 1_000
MAX_RANKING_BYTES = 64 * 2**20  # of all rankings of one reply together, about
_ENTRY_BYTES = 40  # of one label in a ranking, besides its name
_BOUNDS = 2  # gte and lte


class Strict(BaseModel):
    """Takes the keys that it knows, with values of their own type.

    Pydantic looks at all that is wrong before it says so; where a client decides how much that is, it is bounded first.
    """

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _few_keys(cls, given: Any) -> Any:
        return _no_more(given, dict, MAX_KEYS, "an object of at most {} keys")


def _no_more(given: Any, kind: type[list[Any] | dict[Any, Any]], most: int, rule: str) -> Any:
    if isinstance(given, kind) and len(given) > most:
        raise PydanticCustomError("too_many", f"must be {rule.format(most)}")
    return given


# ---- /search


def _one_message(value: Any, validate: Callable[[Any], Any]) -> Any:
    """Say in one sentence what a condition can be, instead of why it is none of the alternatives."""
    _no_more(value, list, MAX_VALUES, "a list of at most {} values")
    try:
        if isinstance(value, dict) and len(value) > _BOUNDS:
            raise ValueError
        return validate(value)
    except ValueError:
        rule = f"must be a value, a list of values, or an object with gte and lte (texts: {MAX_VALUE_CHARS} characters)"
        raise PydanticCustomError("condition", rule) from None


def _few_fields(given: Any) -> Any:
    return _no_more(given, dict, MAX_CONDITIONS, "an object of at most {} fields")


Text = Annotated[str, Field(max_length=MAX_VALUE_CHARS)]
Scalar = Text | int | float | bool
Condition = Annotated[
    Scalar | list[Scalar] | dict[str, Text | int | float], WrapValidator(_one_message)
]
CorpusName = Annotated[str, Field(max_length=64, description="One of GET /corpora.")]


class SearchRequest(Strict):
    """A query to a corpus. The conditions of `filter` hold all at once; a list means any of its values."""

    query: str = Field(
        min_length=1,
        max_length=MAX_QUERY_CHARS,
        description="What to look for, in words or by name.",
    )
    corpus: CorpusName
    k: int = Field(default=10, ge=1, le=MAX_K, description="Hits to return.")
    offset: int = Field(
        default=0,
        ge=0,
        lt=MAX_DEPTH,
        description=f"Hits to leave out first; offset + k <= {MAX_DEPTH}.",
    )
    mode: Mode = Field(
        default="hybrid", description="Which scores count: both, those of meaning, those of words."
    )
    filter: Annotated[dict[str, Condition], BeforeValidator(_few_fields)] = Field(
        default={},
        description='Field -> a value, a list of values (any of them), or {"gte": …, "lte": …}.',
        examples=[
            {"language": "python", "brand": ["Acme", "Zenith"], "price": {"gte": 10, "lte": 20}}
        ],
    )
    rerank: bool = Field(
        default=False,
        description="No reranker is installed in this version: only false is accepted.",
    )
    explain: bool = Field(
        default=False, description="Adds `timings_ms`, and to each hit how its score came about."
    )

    def check(self) -> None:
        """Refuse what this version cannot do."""
        if self.rerank:
            raise InvalidInput(
                "No reranker is installed in this version: leave `rerank` out or set it to false.",
                field="rerank",
            )


class SearchReply(BaseModel):
    """Hits best first. `total` counts all documents that can be paged to; keys without a value are left out."""

    hits: tuple[Hit, ...]
    total: int
    took_ms: float
    corpus: str
    build: str
    encoder: str
    timings_ms: Mapping[str, float] | None = None


# ---- /qa


class QaRequest(Strict):
    """A question to a reference, in plain words."""

    question: str = Field(
        min_length=1,
        max_length=MAX_QUERY_CHARS,
        description="A whole question in English.",
        examples=["What is the default step of range?"],
    )
    corpus: CorpusName
    k: int = Field(default=3, ge=1, le=MAX_ANSWERS, description="Answers to return.")
    explain: bool = Field(
        default=False, description="Adds `timings_ms` and `read`, how many passages were read."
    )


class QaReply(BaseModel):
    """Answers best first: exact words, `passage[start:end] == text`. `hits` are the passages, as the reader ranks them.

    `answerable` is the probability (0-1) that the corpus answers the question at all.
    """

    answers: tuple[Answer, ...]
    answerable: float
    hits: tuple[Hit, ...]
    took_ms: float
    corpus: str
    build: str
    encoder: str
    reader: str
    read: int | None = None
    timings_ms: Mapping[str, float] | None = None


# ---- /classify


def _remedy(for_list: str, for_item: str) -> WrapValidator:
    """Say what to do about a list, or an item of it, that is too long."""

    def explained(error: Any) -> InitErrorDetails:
        kind: Any = error["type"]
        if kind in ("too_long", "string_too_long"):
            rule = error["msg"].partition(" after validation")[0]
            kind = PydanticCustomError(kind, f"{rule}: {for_item if error['loc'] else for_list}")
        return InitErrorDetails(
            type=kind, loc=error["loc"], input=error["input"], ctx=error.get("ctx", {})
        )

    def validate(value: Any, handler: Callable[[Any], Any]) -> Any:
        try:
            return handler(value)
        except ValidationError as error:
            raise ValidationError.from_exception_data(
                error.title, [explained(one) for one in error.errors()]
            ) from None

    return WrapValidator(validate)


Texts = Annotated[
    list[Annotated[str, Field(max_length=MAX_TEXT_CHARS)]],
    Field(max_length=MAX_TEXTS),
    _remedy("send the rest in another request", "cut it, only its first 256 tokens or so are read"),
]
Labels = Annotated[
    list[Annotated[str, Field(max_length=MAX_LABEL_CHARS)]],
    Field(max_length=MAX_LABELS),
    _remedy(
        "choose among groups of labels first, then within the group",
        "a label is a name or a phrase",
    ),
]
Templates = Annotated[
    list[Annotated[str, Field(max_length=MAX_TEMPLATE_CHARS)]],
    Field(max_length=MAX_TEMPLATES),
    _remedy("keep the best of them", "a template is a sentence around {label}"),
]


class ClassifyRequest(Strict):
    """Texts, and the labels to choose from: by name, or those of a trained classifier."""

    texts: Texts = Field(
        description="What to classify; the encoder reads the first 256 tokens or so of each."
    )
    labels: Labels | None = Field(
        default=None,
        description='Names, or paths such as "Sports > Football > World Cup"; one is enough if multi_label.',
    )
    classifier: str | None = Field(
        default=None, max_length=64, description="One of GET /classifiers."
    )
    templates: Templates = Field(
        default=list(DEFAULT_TEMPLATES),
        description="For `labels`: each has {label} where the label goes.",
    )
    multi_label: bool = Field(
        default=False,
        description="For `labels`: score each on its own instead of letting them share 1.",
    )
    min_score: float = Field(
        default=0.0, ge=0.0, le=1.0, description="Below it a result's label is null."
    )

    def check(self) -> None:
        """Refuse what cannot go together."""
        if (self.labels is None) == (self.classifier is None):
            raise InvalidInput(
                "Give either `labels` or `classifier`, one of the two.", field="labels"
            )
        if self.classifier is not None and "templates" in self.model_fields_set:
            raise InvalidInput(
                "A trained classifier has its own prompts: leave `templates` out.",
                field="templates",
            )
        if self.classifier is not None and self.multi_label:
            raise InvalidInput(
                "A trained classifier was calibrated to choose one of its labels: leave `multi_label` out, or give "
                "`labels` instead.",
                field="multi_label",
            )

    def ranked(self, labels: Sequence[str]) -> int:
        """How many labels a ranking can have, so that no reply is beyond all bounds, however small the request.

        The best label stands there once more, outside of the ranking, and is given in any case.
        """
        longest = max(map(_sent_bytes, labels), default=0) + _ENTRY_BYTES
        return max(1, min(RANKED, MAX_RANKING_BYTES // (longest * max(1, len(self.texts))) - 1))


class ClassifyReply(BaseModel):
    """One result per text, in the order of `texts`.

    A ranking has all labels, or the best 100 of more, and fewer where the reply would get too long. `classifier` and
    `build` are there where a trained one was asked for, `warnings` where there are any.
    """

    results: list[Classification]
    took_ms: float
    encoder: str
    classifier: str | None = None
    build: str | None = None
    warnings: list[str] | None = None


def warnings(chosen: LabelSet, ranked: int) -> list[str] | None:
    """What the sender of these labels should know, or None."""
    found = chosen.warnings()
    if ranked < min(RANKED, len(chosen.labels)):
        found.append(
            f"Rankings have only the best {ranked} labels here, so that the reply does not get too long: send fewer "
            "texts at a time for longer ones."
        )
    return found or None


def _sent_bytes(text: str) -> int:
    """Bytes of a text as JSON."""
    return len(json.dumps(text, ensure_ascii=False).encode())


# ---- /classifiers


class ClassifierStatus(BaseModel):
    """A trained classifier and how it is doing; states as for corpora."""

    name: str
    state: Literal["serving", "opening", "refused"]
    problem: str | None = None
    build: str | None = None
    labels: tuple[str, ...] | None = None


class ClassifierReply(ClassifierStatus):
    """The same with its encoder, when it was made, its size on disk and how well it was measured to do."""

    created_at: str | None = None
    encoder: Mapping[str, Any] | None = None
    bytes: int | None = None
    measures: Mapping[str, Any] | None = None


class ClassifiersReply(BaseModel):
    """All trained classifiers, by name."""

    classifiers: list[ClassifierStatus]


# ---- /corpora


class CorpusStatus(BaseModel):
    """A corpus and how it is doing.

    `serving`: searches are answered, from `build`. `opening`: not yet. `refused`: its files are damaged or its encoder
    is another. `problem` tells what is wrong; next to `serving` it is about a newer build that is not used.
    """

    name: str
    state: Literal["serving", "opening", "refused"]
    problem: str | None = None
    kind: Kind | None = None
    build: str | None = None
    documents: int | None = None
    passages: int | None = None


class Against(BaseModel):
    """A build and the one that was active before it, on the same queries: difference (new - before) and its interval.

    `missing` counts relevant documents that the build before lacked; `problem` says why it could not be compared with.
    """

    build: str
    mean: float | None = None
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    missing: int | None = None
    problem: str | None = None


class Judged(BaseModel):
    """The queries that a build was measured with when it was made, and the measure that decided over it.

    `relevant` counts the documents that ought to be found, `missing` those of them that the build does not have.
    """

    measure: str
    queries: int
    relevant: int
    missing: int
    against: Against | None = None
    refused: bool


class Stale(BaseModel):
    """Files of the sources that changed, came and went since the build, by name and time; at most 30 s old.

    Not `reachable`: the server cannot see the sources. Not `complete`: there were too many to look at all of them.
    """

    reachable: bool
    complete: bool
    changed: int
    added: int
    removed: int


class CorpusReply(CorpusStatus):
    """The same with what its build's manifest says.

    `bytes` is its size on disk, `took_s` how long it took to build, `reused` how many passages were not encoded again,
    `logged` how many earlier queries lead to its documents.
    `measures` are numbers, or {mean, low, high, queries} with the bounds of a 95 % interval. `stale` is there where the
    build knows its sources. `drift` is the largest 1 - cosine between the vectors of a few texts here and on the
    machine that made the build; `warning` says so where it is too large to compare vectors.
    """

    created_at: str | None = None
    encoder: Mapping[str, Any] | None = None
    skipped: int | None = None
    splitter: str | None = None
    dense_weight: float | None = None
    lexical_power: float | None = None
    logged: int | None = None
    sources: tuple[str, ...] | None = None
    reused: int | None = None
    took_s: float | None = None
    bytes: int | None = None
    measures: Mapping[str, Any] | None = None
    judged: Judged | None = None
    stale: Stale | None = None
    drift: float | None = None
    warning: str | None = None


class CorporaReply(BaseModel):
    """All corpora, by name."""

    corpora: list[CorpusStatus]


class ActivateRequest(Strict):
    """The build that is to serve."""

    build: str = Field(max_length=64, description="One of the corpus's builds.")
    force: bool = Field(
        default=False, description="Even one that was refused, as it measured worse."
    )


class ActiveReply(BaseModel):
    """The build that serves from now on."""

    corpus: str
    build: str


class DeletedReply(BaseModel):
    """The corpus that is gone, with all its builds."""

    corpus: str


class DocumentReply(BaseModel):
    """A whole document; `body` is what the offsets of hits count in."""

    id: str
    kind: Kind
    title: str
    summary: str
    body: str
    context: tuple[str, ...]
    location: Location
    fields: Mapping[str, Value]
    corpus: str
    build: str
    took_ms: float


class State(BaseModel):
    """For probes."""

    status: Literal["ok"] = "ok"
