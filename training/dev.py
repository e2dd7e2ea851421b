"""Dev sets: judged queries or pairs that measure a model in training, by exhaustive search."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from accelerate import Accelerator

from purlin.index.encoder import TextEncoder
from purlin.index.errors import InvalidInput
from purlin.index.evaluation.ranking import read_qrels, read_queries
from purlin.index.records import Document, Kind, Splitter
from purlin.index.texts.passages import render
from purlin.training.config import MAX_SEED, check_ranges, in_range, ranged, refuse_repeated
from purlin.training.data.judged import JudgedSet, mean_measure, rank, ranked
from purlin.training.data.pairs.documents import find_file, read_documents
from purlin.training.data.pairs.formats import read_pairs
from purlin.training.data.pairs.pair import Pair, PairSource
from purlin.training.data.published import JUDGED_NAMES, JudgedName, read_judged
from purlin.training.data.templates.rules import RulesChoice
from purlin.training.exporting.model_card import Card
from purlin.training.losses import contrastive
from purlin.training.models.encoding import encode
from purlin.training.models.text_model import TextModel

# Queries whose passages are each other's negatives in the loss.
LOSS_BATCH = 32

DevFormat = Literal[
    "beir", "pairs", "templates", "questions", "searches", "advtest", "codesearchnet", "esci"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class DevSet:
    """Data that a model is measured on, as a recipe names it. Raises InvalidInput naming the field.

    By format, `path` is a directory in BEIR's form (corpus, queries.jsonl, qrels/`split`.tsv), a
    file of pairs, a reference whose entries of `split` are asked about by template, a question set
    over `reference`, of which the questions of `split` are used, searches that lead to functions of
    `reference`, or a published set that `read_judged` reads, with whole queries and, for ESCI,
    rankings of the judged products alone. Every query of a pair is judged; relevant to it are
    the pair's passage and those of equal queries. `limit` is the maximum number of pairs, and of
    queries: the first of each pair go before the others.

    `measure` is one of `purlin.index.evaluation.ranking`'s names or "-loss", eq. 3 over batches of
    `LOSS_BATCH` queries with its sign inverted, so that higher is better here too. The paper on
    reference QA selects its epoch by the loss on such data.

    `rules`, `translators` and `originals` make questions by template, and `splitter` cuts their
    passages, as the keys of that name in `purlin.training.data.pairs.pair.PairSource` do; what is
    translated is questions and passages both.
    """

    name: str
    path: Path
    format: DevFormat = "beir"
    kind: Kind = "code"
    split: str = "dev"
    reference: Path | None = None
    limit: int | None = ranged(None, 1, 1 << 30)
    measure: Literal["MRR@100", "nDCG@10", "nDCG@100", "Recall@100", "-loss"] = "MRR@100"
    rules: RulesChoice | None = None
    translators: tuple[str, ...] = ()
    originals: bool = True
    splitter: Splitter | None = None

    def __post_init__(self) -> None:
        check_ranges(self)
        # Refuses the keys that the format does not use.
        self.pair_source()

    def pair_source(self) -> PairSource:
        """Return the source of the pairs of this set, by its format."""
        return PairSource(
            format=self.format,
            path=self.path,
            kind=self.kind,
            limit=self.limit,
            split=self.split,
            reference=self.reference,
            rules=self.rules,
            translators=self.translators,
            translate="pairs" if self.translators else "questions",
            originals=self.originals,
            splitter=self.splitter,
        )


def check_recipe(
    name: str, seed: int, pairs: Sequence[PairSource], dev: Sequence[DevSet], *, losses: bool
) -> None:
    """Raise InvalidInput, naming the field, unless a recipe can be run on its pairs and dev sets.

    Without `losses`, no dev set may be measured by its loss.
    """
    Card(name)  # refuses a name that cannot be exported
    in_range("seed", seed, 0, MAX_SEED)
    if not pairs:
        raise InvalidInput("A recipe needs at least one [[pairs]].", field="pairs")

    refuse_repeated([dev_set.name for dev_set in dev], "Dev sets", "dev")
    by_loss = [dev_set.name for dev_set in dev if dev_set.measure == "-loss"]
    if by_loss and not losses:
        raise InvalidInput(
            f"The dev set {by_loss[0]} has the measure '-loss', which needs a transformer that is "
            "trained; take another.",
            field="dev",
        )


def encoder_measures(
    sets: Sequence[tuple[DevSet, JudgedSet]], encoder: TextEncoder
) -> dict[str, float]:
    """Return "dev NAME MEASURE" of each set, ranked by an encoder."""
    return {
        f"dev {dev_set.name} {dev_set.measure}": mean_measure(
            dev_set.measure, rank(data, encoder), data
        )
        for dev_set, data in sets
    }


def with_mean(values: dict[str, float]) -> dict[str, float]:
    """Return measures with "dev mean" before them; empty if there are none."""
    return {"dev mean": float(np.mean(list(values.values()))), **values} if values else {}


class DevEvaluator:
    """Measures a model on dev sets."""

    def __init__(
        self,
        sets: Sequence[DevSet],
        text_model: TextModel,
        accelerator: Accelerator,
        *,
        temperature: float = 1.0,
    ) -> None:
        """Read the dev sets. `temperature` is that of the measure "-loss"."""
        self.sets = [(dev_set, read_dev_set(dev_set)) for dev_set in sets]
        self.model = text_model
        self.accelerator = accelerator
        self.temperature = temperature

    def measure(self) -> dict[str, float]:
        """Return "dev mean" and "dev NAME MEASURE" of each set; empty if there are no sets."""
        return with_mean(
            {
                f"dev {dev_set.name} {dev_set.measure}": self._value(dev_set, data)
                for dev_set, data in self.sets
            }
        )

    def _value(self, dev_set: DevSet, data: JudgedSet) -> float:
        if dev_set.measure == "-loss":
            return -dev_loss(self.model, data, self.accelerator, self.temperature)

        run = rank_passages(self.model, data, self.accelerator)
        return mean_measure(dev_set.measure, run, data)


def read_dev_set(dev_set: DevSet) -> JudgedSet:
    """Read a dev set.

    Raises NotFound and InvalidInput as the readers of its format do, and InvalidInput if nothing
    in it is judged.
    """
    if dev_set.format == "beir":
        data = _read_beir(dev_set)
    elif dev_set.format in JUDGED_NAMES:
        data = _read_published(dev_set, dev_set.format)
    else:
        data = _read_pairs(dev_set)

    if not data.queries or not data.passages:
        raise InvalidInput(
            f"The dev set {dev_set.name} has no judged query or no passage.", field="dev"
        )

    return data


def _read_beir(dev_set: DevSet) -> JudgedSet:
    qrels = read_qrels(dev_set.path / "qrels" / f"{dev_set.split}.tsv")
    texts = read_queries(dev_set.path / "queries.jsonl")
    queries = {id_: texts[id_] for id_ in islice(qrels, dev_set.limit) if id_ in texts}

    documents = read_documents(dev_set.kind, find_file(dev_set.path, "corpus.jsonl"))
    passages = {
        document.id: render(document) for document in documents if isinstance(document, Document)
    }
    return JudgedSet(queries, passages, {id_: qrels[id_] for id_ in queries})


def _read_published(dev_set: DevSet, name: JudgedName) -> JudgedSet:
    sets = read_judged(name, dev_set.path, dev_set.split)
    if len(sets) > 1:
        raise InvalidInput(
            f"The dev set {dev_set.name} has {len(sets)} languages: name one's directory, or a dev "
            "set for each.",
            field="path",
        )

    data, limit = sets[0], dev_set.limit
    queries = dict(islice(data.queries.items(), limit))
    return replace(data, queries=queries, qrels={id_: data.qrels[id_] for id_ in queries})


def _read_pairs(dev_set: DevSet) -> JudgedSet:
    pairs = [pair for pair in read_pairs(dev_set.pair_source()) if isinstance(pair, Pair)]

    # Pairs may share a passage, which must have a single id.
    passages = dict.fromkeys(pair.passage for pair in pairs)
    ids = {passage: str(number) for number, passage in enumerate(passages)}

    relevant: dict[str, dict[str, float]] = {}
    for pair in pairs:
        for query in pair.queries:
            relevant.setdefault(query, {})[ids[pair.passage]] = 1.0

    queries = list(islice(_in_turns(pairs), dev_set.limit))
    return JudgedSet(
        {str(number): query for number, query in enumerate(queries)},
        {id_: passage for passage, id_ in ids.items()},
        {str(number): relevant[query] for number, query in enumerate(queries)},
    )


def _in_turns(pairs: Sequence[Pair]) -> Iterator[str]:
    """Yield the first query of each pair, then the second ones, and so on.

    Queries of one passage stand apart, as passages that `dev_loss` contrasts should differ.
    """
    for turn in range(max((len(pair.queries) for pair in pairs), default=0)):
        yield from (pair.queries[turn] for pair in pairs if turn < len(pair.queries))


def rank_passages(
    text_model: TextModel, data: JudgedSet, accelerator: Accelerator
) -> dict[str, list[str]]:
    """Return the ids of the best `RANKING_DEPTH` passages of each query, by exhaustive search."""
    settings = text_model.settings
    queries = encode(
        text_model, list(data.queries.values()), settings.max_query_tokens, accelerator, "query"
    )
    passages = encode(
        text_model, list(data.passages.values()), settings.max_passage_tokens, accelerator
    )

    return ranked(data, queries, passages)


def dev_loss(
    text_model: TextModel, data: JudgedSet, accelerator: Accelerator, temperature: float
) -> float:
    """Return the mean of eq. 3 over the queries, each with its first relevant passage.

    The passages of `LOSS_BATCH` queries are each other's negatives.
    """
    settings = text_model.settings
    relevant = [data.qrels[query_id] for query_id in data.queries]
    passage_ids = [next(iter(grades)) for grades in relevant]

    texts = [data.passages[passage_id] for passage_id in passage_ids]
    passages = encode(text_model, texts, settings.max_passage_tokens, accelerator)
    queries = encode(
        text_model, list(data.queries.values()), settings.max_query_tokens, accelerator, "query"
    )

    total = 0.0
    for start in range(0, len(passage_ids), LOSS_BATCH):
        part = slice(start, start + LOSS_BATCH)
        batch_queries = torch.from_numpy(queries[part])
        batch_passages = torch.from_numpy(passages[part])

        # Passages that are relevant to the query too are not its negatives.
        is_relevant = torch.tensor(
            [
                [passage_id in grades for passage_id in passage_ids[part]]
                for grades in relevant[part]
            ]
        )
        own = torch.arange(len(batch_passages))
        mean = contrastive(
            batch_queries, batch_passages, own, temperature=temperature, excluded=is_relevant
        )
        total += float(mean) * len(batch_passages)

    return total / len(passage_ids)
