"""Dev sets: judged queries, or pairs, that a model in training is measured on by exhaustive search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from accelerate import Accelerator

from index.encoder import Role, Vectors
from index.errors import InvalidInput, NotFound
from index.evaluation.ranking import evaluate_run, read_qrels, read_queries
from index.passages import render
from index.records import Document, Kind, SourceFile
from index.sources import beir
from training.config import in_range
from training.data.pairs import Pair, PairSource, read
from training.losses import contrastive
from training.model import TextModel, pad_texts

DEPTH = 100
LOSS_BATCH = 32
_BATCH_TOKENS, _CPU_BATCH_TOKENS = (
    32_768,
    2048,
)  # on a CPU, what fits its caches is a quarter faster than 8,192
_TOKENIZED_AT_ONCE = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class DevSet:
    """A directory in BEIR's form (corpus, queries.jsonl, qrels/`split`.tsv), a file of pairs, questions by template
    over the entries of `split` of a reference, or the questions of `split` of a set over `reference`.

    For pairs, each query's own passage is relevant, and those of the same query; `limit` takes the first so many.
    `measure` is one of index.evaluation.ranking's names, or "-loss", eq. 3 over batches of LOSS_BATCH
    with its sign turned, so that here too more is better: by the loss on such data the paper on
    reference QA chooses its epoch.
    """

    name: str
    path: Path
    format: Literal["beir", "pairs", "templates", "questions"] = "beir"
    kind: Kind = "code"
    split: str = "dev"
    reference: Path | None = None
    limit: int | None = None
    measure: Literal["MRR@100", "nDCG@10", "Recall@100", "-loss"] = "MRR@100"

    def __post_init__(self) -> None:
        in_range("limit", self.limit or 1, 1, 1 << 30)
        if (self.format == "questions") != bool(self.reference):
            raise InvalidInput(
                "reference belongs to the format questions, which needs one.", field="reference"
            )


@dataclass(frozen=True, slots=True)
class Judged:
    """Texts and judgements of one dev set, ready to be encoded."""

    queries: dict[str, str]
    passages: dict[str, str]
    qrels: dict[str, dict[str, float]]


class Dev:
    """Measures a model on dev sets; the mean over the sets comes first."""

    def __init__(
        self,
        sets: Sequence[DevSet],
        text_model: TextModel,
        accelerator: Accelerator,
        *,
        temperature: float = 1.0,
    ) -> None:
        self.sets = [(known, read_judged(known)) for known in sets]
        self.model, self.accelerator, self.temperature = text_model, accelerator, temperature

    def measure(self) -> dict[str, float]:
        """`dev mean` and `dev NAME MEASURE` for each set; empty without sets."""
        found = {
            f"dev {known.name} {known.measure}": self._value(known, judged)
            for known, judged in self.sets
        }
        return {"dev mean": float(np.mean(list(found.values()))), **found} if found else {}

    def _value(self, known: DevSet, judged: Judged) -> float:
        if known.measure == "-loss":
            return -loss(self.model, judged, self.accelerator, self.temperature)
        run = ranking(self.model, judged, self.accelerator)
        return next(
            measure.mean
            for measure in evaluate_run(run, judged.qrels)
            if measure.name == known.measure
        )


def read_judged(known: DevSet) -> Judged:
    """Read a dev set. Raises NotFound and InvalidInput as the readers of `index` do, or if nothing is judged."""
    judged = _read(known)
    if not judged.queries or not judged.passages:
        raise InvalidInput(
            f"The dev set {known.name} has no judged query or no passage.", field="dev"
        )
    return judged


def _read(known: DevSet) -> Judged:
    if known.format != "beir":
        given = {
            name: getattr(known, name)
            for name in ("format", "path", "kind", "limit", "split", "reference")
        }
        return _judged_pairs([pair for pair in read(PairSource(**given)) if isinstance(pair, Pair)])
    qrels = read_qrels(known.path / "qrels" / f"{known.split}.tsv")
    queries = read_queries(known.path / "queries.jsonl")
    asked = {number: queries[number] for number in islice(qrels, known.limit) if number in queries}
    corpora = [
        path
        for name in ("corpus.jsonl", "corpus.jsonl.gz")
        if (path := known.path / name).is_file()
    ]
    if not corpora:
        raise NotFound(f"{known.path} has no corpus.jsonl or corpus.jsonl.gz.", field="dev")
    documents = (
        each
        for file in beir.files(corpora[0], known.kind)
        if isinstance(file, SourceFile)
        for each in file.read()
    )
    passages = {each.id: render(each) for each in documents if isinstance(each, Document)}
    return Judged(asked, passages, {number: qrels[number] for number in asked})


def _judged_pairs(pairs: Sequence[Pair]) -> Judged:
    ids = {
        passage: str(number)
        for number, passage in enumerate(dict.fromkeys(pair.passage for pair in pairs))
    }
    relevant: dict[str, dict[str, float]] = {}
    for pair in pairs:
        relevant.setdefault(pair.queries[0], {})[ids[pair.passage]] = 1.0
    return Judged(
        {str(number): pair.queries[0] for number, pair in enumerate(pairs)},
        {number: passage for passage, number in ids.items()},
        {str(number): relevant[pair.queries[0]] for number, pair in enumerate(pairs)},
    )


def ranking(
    text_model: TextModel, judged: Judged, accelerator: Accelerator
) -> dict[str, list[str]]:
    """The best `DEPTH` passages of every query by exhaustive search."""
    settings = text_model.settings
    queries = encode(
        text_model, list(judged.queries.values()), settings.max_query_tokens, accelerator, "query"
    )
    passages = encode(
        text_model, list(judged.passages.values()), settings.max_passage_tokens, accelerator
    )
    ids = list(judged.passages)
    best = np.argsort(-(queries @ passages.T), axis=1, kind="stable")[:, :DEPTH]
    return {
        number: [ids[row] for row in rows]
        for number, rows in zip(judged.queries, best, strict=True)
    }


def loss(
    text_model: TextModel, judged: Judged, accelerator: Accelerator, temperature: float
) -> float:
    """Mean over the queries of eq. 3, each with its first relevant passage, those of LOSS_BATCH queries being each
    other's negatives."""
    settings = text_model.settings
    relevant = [judged.qrels[number] for number in judged.queries]
    ids = [next(iter(each)) for each in relevant]
    passages = encode(
        text_model,
        [judged.passages[each] for each in ids],
        settings.max_passage_tokens,
        accelerator,
    )
    queries = encode(
        text_model, list(judged.queries.values()), settings.max_query_tokens, accelerator, "query"
    )
    total = 0.0
    for start in range(0, len(ids), LOSS_BATCH):
        part = slice(start, start + LOSS_BATCH)
        asked, given = torch.from_numpy(queries[part]), torch.from_numpy(passages[part])
        right = torch.tensor([[other in each for other in ids[part]] for each in relevant[part]])
        own = torch.arange(len(given))
        total += float(
            contrastive(asked, given, own, temperature=temperature, excluded=right)
        ) * len(given)
    return total / len(ids)


def encode(
    text_model: TextModel,
    texts: Sequence[str],
    max_tokens: int,
    accelerator: Accelerator,
    role: Role = "passage",
) -> Vectors:
    """Vectors (len(texts), D) in the order given, in batches of similar length; the model is left in its mode."""
    training, tokenizer = text_model.training, text_model.tokenizer
    text_model.eval()
    parts = (
        list(texts[start : start + _TOKENIZED_AT_ONCE])
        for start in range(0, len(texts), _TOKENIZED_AT_ONCE)
    )
    rows = [
        ids
        for part in parts
        for ids in tokenizer(part, truncation=True, max_length=max_tokens)["input_ids"]
    ]
    order = sorted(range(len(rows)), key=lambda number: len(rows[number]))
    most = _CPU_BATCH_TOKENS if accelerator.device.type == "cpu" else _BATCH_TOKENS
    found = np.empty((len(rows), 0), dtype=np.float32)
    with torch.no_grad(), accelerator.autocast():
        while order:
            batch = [order.pop()]
            while order and (len(batch) + 1) * len(rows[batch[0]]) <= most:
                batch.append(order.pop())
            ids, mask = pad_texts([rows[number] for number in batch], tokenizer.pad_token_id)
            vectors = (
                text_model.vectors(ids.to(accelerator.device), mask.to(accelerator.device), role)
                .cpu()
                .numpy()
            )
            if not found.shape[1]:
                found = np.empty((len(rows), vectors.shape[1]), dtype=np.float32)
            found[batch] = vectors
    text_model.train(training)
    return found
