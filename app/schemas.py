"""What goes over the wire. Requests refuse unknown keys and values of another type; nothing is guessed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, WrapValidator
from pydantic_core import PydanticCustomError, ValidationError

from index.classifier import DEFAULT_TEMPLATES, RANKED, Classification
from index.corpus import MAX_DEPTH, MAX_K, MAX_QUERY_CHARS
from index.errors import InvalidInput, NotFound
from index.records import Hit, Kind, Location, Mode, Value

MAX_VALUE_CHARS = 1_000
MAX_TEXTS = 10_000
MAX_TEXT_CHARS = 1_000_000
MAX_LABELS = 10_000
MAX_LABEL_CHARS = 1_000
MAX_TEMPLATES = 8
MAX_TEMPLATE_CHARS = 1_000
MAX_RANKING_CHARS = 64 * 2**20  # of all rankings of one reply together, about
_ENTRY_CHARS = 40  # of one label in a ranking, besides its name


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


# ---- /search


def _one_message(value: Any, validate: Callable[[Any], Any]) -> Any:
    """Say in one sentence what a condition can be, instead of why it is none of the alternatives."""
    try:
        return validate(value)
    except ValidationError:
        rule = f"must be a value, a list of values, or an object with gte and lte (texts: {MAX_VALUE_CHARS} characters)"
        raise PydanticCustomError("condition", rule) from None


Text = Annotated[str, Field(max_length=MAX_VALUE_CHARS)]
Scalar = Text | int | float | bool
Condition = Annotated[Scalar | list[Scalar] | dict[str, Text | int | float], WrapValidator(_one_message)]
CorpusName = Annotated[str, Field(max_length=64, description="One of GET /corpora.")]


class SearchRequest(_Request):
    """A query to a corpus. The conditions of `filter` hold all at once; a list means any of its values."""

    query: str = Field(min_length=1, max_length=MAX_QUERY_CHARS)
    corpus: CorpusName
    k: int = Field(default=10, ge=1, le=MAX_K, description="Hits to return.")
    offset: int = Field(
        default=0, ge=0, lt=MAX_DEPTH, description=f"Hits to leave out first; offset + k <= {MAX_DEPTH}."
    )
    mode: Mode = "hybrid"
    filter: dict[str, Condition] = Field(
        default={}, examples=[{"language": "python", "brand": ["Acme", "Zenith"], "price": {"gte": 10, "lte": 20}}]
    )
    rerank: bool = Field(default=False, description="No reranker is installed in this version: only false is accepted.")
    explain: bool = Field(default=False, description="Adds `timings_ms`, and to each hit how its score came about.")

    def check(self) -> None:
        """Refuse what this version cannot do."""
        if self.rerank:
            raise InvalidInput(
                "No reranker is installed in this version: leave `rerank` out or set it to false.", field="rerank"
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


# ---- /classify


class ClassifyRequest(_Request):
    """Texts, and the labels to choose from: by name, or those of a trained classifier."""

    texts: list[Annotated[str, Field(max_length=MAX_TEXT_CHARS)]] = Field(max_length=MAX_TEXTS)
    labels: list[Annotated[str, Field(max_length=MAX_LABEL_CHARS)]] | None = Field(default=None, max_length=MAX_LABELS)
    classifier: str | None = Field(default=None, max_length=64)
    templates: list[Annotated[str, Field(max_length=MAX_TEMPLATE_CHARS)]] = Field(
        default=list(DEFAULT_TEMPLATES), max_length=MAX_TEMPLATES, description="Each has {label} where the label goes."
    )
    multi_label: bool = Field(default=False, description="Score each label on its own instead of letting them share 1.")
    min_score: float = Field(default=0.0, ge=0.0, le=1.0, description="Below it a result's label is null.")

    def chosen_labels(self) -> list[str]:
        """The labels to choose from. InvalidInput or NotFound where that is not clear."""
        if (self.labels is None) == (self.classifier is None):
            raise InvalidInput("Give either `labels` or `classifier`, one of the two.", field="labels")
        if self.labels is None:
            raise NotFound(
                f"There is no classifier {str(self.classifier)[:64]!r}: none is installed. Give `labels` instead.",
                field="classifier",
            )
        self._check_reply(self.labels)
        return self.labels

    def _check_reply(self, labels: list[str]) -> None:
        """Refuse what would take a reply beyond all bounds, from however small a request."""
        longest = sorted(map(len, labels), reverse=True)[:RANKED]
        most = MAX_RANKING_CHARS // (sum(longest) + _ENTRY_CHARS * len(longest) or 1)
        if len(self.texts) > most:
            raise InvalidInput(
                f"With these labels the rankings of {len(self.texts)} texts are too long for one reply: "
                f"send at most {most} texts at a time.",
                field="texts",
            )


class ClassifyReply(BaseModel):
    """One result per text, in the order of `texts`. A ranking has all labels, or the best 100 of more."""

    results: list[Classification]
    took_ms: float
    encoder: str


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


class CorpusReply(CorpusStatus):
    """The same with what its build's manifest says, `measures` among it.

    `bytes` is its size on disk, `took_s` how long it took to build, `reused` how many passages were not encoded again.
    """

    created_at: str | None = None
    encoder: Mapping[str, Any] | None = None
    skipped: int | None = None
    splitter: str | None = None
    dense_weight: float | None = None
    lexical_power: float | None = None
    sources: tuple[str, ...] | None = None
    reused: int | None = None
    took_s: float | None = None
    bytes: int | None = None
    measures: Mapping[str, Any] | None = None


class CorporaReply(BaseModel):
    """All corpora, by name."""

    corpora: list[CorpusStatus]


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
