"""Training pairs: a passage, the queries that describe it, and where a recipe takes them from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Literal, NamedTuple

from purlin.index.errors import InvalidInput
from purlin.index.records import Kind, Skipped, Splitter
from purlin.index.sources.encodings import NOT_TEXT
from purlin.training.config import check_ranges, ranged
from purlin.training.data.questions.sources import check_options
from purlin.training.data.templates.rules import RulesChoice

PairFormat = Literal[
    "pairs",
    "codesearchnet",
    "advtest",
    "cosqa",
    "esci",
    "beir",
    "packages",
    "code",
    "product",
    "reference",
    "templates",
    "questions",
    "linked",
    "searches",
    "prompts",
]

# In characters, of a passage or a query.
MAX_PAIR_CHARS = 100_000

# Queries, and also negatives, of one pair.
MAX_TEXTS_PER_PAIR = 100

# A query below both limits is too vague to train on.
MIN_WORDS, MIN_CHARS = 3, 12

# Formats whose queries were typed by people, so short ones are kept.
SEARCH_FORMATS = frozenset({"cosqa", "esci", "beir", "linked", "questions", "searches"})


@dataclass(frozen=True, slots=True)
class Pair:
    """A passage as the encoder sees it, and texts that say what it is about.

    Every one of `queries` belongs to the passage; training draws one of them each time.
    `passage` has the form that `purlin.index.texts.passages.render` gives. `language` is the programming
    language of code. `title` is a product's; its nouns are masked where the passage repeats them.
    `negatives` are passages that people judged irrelevant to the query. `comment` is prose about
    the passage that is not part of it: the comment of code, the bullets of a product. `group` names
    the package that the passage comes from, if the source says so. `searches` tells that the
    queries were written as searches, and are not taken from the comment.
    """

    queries: tuple[str, ...]
    passage: str
    kind: Kind = "code"
    language: str = ""
    title: str = ""
    negatives: tuple[str, ...] = ()
    comment: str = ""
    group: str = ""
    searches: bool = False


@dataclass(frozen=True, slots=True)
class PairSource:
    """Where pairs come from, as a recipe names it. Raises InvalidInput naming the field.

    `limit` is the maximum number of pairs, `weight` how often they are drawn compared with other
    sources. `kind` applies to formats that do not imply one; `split` to formats with several
    splits (in BEIR: the file of judgements; in ESCI train, dev or test).

    `locale` selects the rows of ESCI, by default "us", and of product tables, by default all.
    `size` applies to ESCI. Without `summaries` the whole docstring is the only query of a function
    of CodeSearchNet or AdvTest, as in their evaluations; otherwise its first sentence is another.

    `reference` holds what questions or searches lead to: entries for the formats questions (a set
    that `purlin.index.evaluation.answers` reads) and linked (rows {title, question, entry}),
    documented functions for the format searches (rows {function, queries, split}).

    For the format templates, whose path is a reference, `rules` is a file of custom templates, or
    "paper" for the single one of the paper on reference QA, and `translators` are two models, there
    and back, whose rephrasings are added as queries. With `translate` "pairs" they are pairs of
    their own, of a question and a passage that were both translated, as in that paper. Without
    `originals` there are no others.

    The formats templates and linked produce no questions about the entries that the question sets
    in `leave_out` ask about. `splitter` cuts the passages of templates and questions as the paper's
    splitter of that name does; by default they are those that are served. A training stage selects
    sources by their `name`.

    The format prompts pairs each text in `column`, by default "text", with `prompts` prompts for
    labels of the file `labels`, one a line, drawn at random.
    """

    format: PairFormat
    path: Path
    kind: Kind = "code"
    weight: float = 1.0
    limit: int | None = ranged(None, 1, 10**9)
    locale: str | None = None
    size: Literal["large", "small"] = "large"
    split: str = "train"
    reference: Path | None = None
    rules: RulesChoice | None = None
    translators: tuple[str, ...] = ()
    leave_out: tuple[Path, ...] = ()
    name: str = ""
    splitter: Splitter | None = None
    summaries: bool = True
    translate: Literal["questions", "pairs"] = "questions"
    originals: bool = True
    column: str | None = None
    labels: Path | None = None
    prompts: int = ranged(1, 1, 1000)

    def __post_init__(self) -> None:
        check_ranges(self)
        if not 0 < self.weight <= 100:
            raise InvalidInput(
                f"weight must be above 0 and at most 100, not {self.weight:g}.", field="weight"
            )

        # A split becomes part of a file name, so it must not lead to another directory.
        if not re.fullmatch(r"\w[\w.-]{0,99}", self.split):
            raise InvalidInput(
                f"split must be a name such as train, not {self.split!r:.80}.", field="split"
            )
        if not self.summaries and self.format not in ("codesearchnet", "advtest"):
            raise InvalidInput(
                "summaries = false belongs to the formats codesearchnet and advtest.",
                field="summaries",
            )
        check_options(
            self.format,
            self.reference,
            self.rules,
            self.translators,
            self.leave_out,
            self.splitter,
        )
        self._check_prompts()
        if not self.translators and (self.translate != "questions" or not self.originals):
            name = "originals" if self.translate == "questions" else "translate"
            raise InvalidInput(
                f"{name} needs translators, two models; give them or remove {name}.", field=name
            )

    def _check_prompts(self) -> None:
        if (self.format == "prompts") != bool(self.labels):
            raise InvalidInput(
                "labels, a file of one label a line, belongs to the format prompts, which needs it.",
                field="labels",
            )

        if self.format != "prompts" and (self.column is not None or self.prompts != 1):
            name = "prompts" if self.column is None else "column"
            raise InvalidInput(f"{name} belongs to the format prompts; remove it.", field=name)


class Draft(NamedTuple):
    """A pair before cleaning, with the file and line (counted from 1) that it comes from."""

    pair: Pair
    path: str
    line: int | None = None


Drafts = Iterator[Draft | Skipped]


def clean(pair: Pair, *, allow_short: bool = False) -> Pair:
    """Return the pair without invalid characters and without unusable queries.

    Empty, repeated and too long queries are dropped, short ones too unless `allow_short`. Raises
    InvalidInput, with the reason as its message, if a side is empty, if the sides differ only in
    white space and case, or if the passage is longer than `MAX_PAIR_CHARS`.
    """
    passage = strip_text(pair.passage)
    if not passage:
        raise InvalidInput("the passage is empty")
    if len(passage) > MAX_PAIR_CHARS:
        raise InvalidInput(f"the passage is longer than {MAX_PAIR_CHARS:,} characters")

    negatives = _distinct(pair.negatives)
    negatives.pop(fold(passage), None)

    return replace(
        pair,
        queries=_clean_queries(pair.queries, passage, allow_short),
        passage=passage,
        language=strip_text(pair.language).lower(),
        title=strip_text(pair.title),
        comment=strip_text(pair.comment),
        negatives=tuple(negatives.values())[:MAX_TEXTS_PER_PAIR],
    )


def _clean_queries(queries: Sequence[str], passage: str, allow_short: bool) -> tuple[str, ...]:
    distinct = _distinct(queries)
    if not distinct:
        raise InvalidInput("the query is empty")

    distinct.pop(fold(passage), None)
    if not distinct:
        raise InvalidInput("query and passage are the same")

    kept = [query for query in distinct.values() if allow_short or not _is_short(query)]
    if not kept:
        raise InvalidInput(f"the query has fewer than {MIN_WORDS} words and {MIN_CHARS} characters")
    return tuple(kept[:MAX_TEXTS_PER_PAIR])


def _distinct(texts: Iterable[str]) -> dict[str, str]:
    """Map the folded form of each usable text to its first spelling."""
    spellings: dict[str, str] = {}
    for text in map(strip_text, texts):
        if text and len(text) <= MAX_PAIR_CHARS:
            spellings.setdefault(fold(text), text)
    return spellings


def _is_short(query: str) -> bool:
    return len(query) < MIN_CHARS and len(query.split()) < MIN_WORDS


def strip_text(text: str) -> str:
    """Return the text without NUL, surrogates and surrounding white space."""
    return NOT_TEXT.sub("", text).strip()


def fold(text: str) -> str:
    """Return the text with case and white space normalised, as a key for comparison."""
    return " ".join(text.split()).casefold()


def text_digest(text: str) -> bytes:
    """Return 8 bytes that stand for the text, so that large sets of texts fit in memory."""
    return blake2b(text.encode(errors="replace"), digest_size=8).digest()
