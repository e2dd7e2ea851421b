"""What the contestants of a comparison share: weights, texts, vectors, queries and judgements.

Everything is made once below a scratch directory and is used again afterwards.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.speed.functions import read_rows
from benchmarks.speed.vectors import CachedEncoder, corpus_texts, read_documents
from purlin.index import builds
from purlin.index.builds.manifests import read_manifest
from purlin.index.encoder import TextEncoder
from purlin.index.encoder.transformer import Encoder
from purlin.index.errors import Damaged
from purlin.index.evaluation.ranking import evaluate_run, read_qrels, read_queries
from purlin.index.indexing.build import build
from purlin.index.sources import open_source

CORPORA = {"cosqa": "cosqa", "csn": "csn_challenge"}


@dataclass(frozen=True, slots=True)
class Judged:
    """A data set in BEIR's form: `corpus.jsonl.gz`, `queries.jsonl` and `qrels/dev*.tsv`."""

    name: str
    directory: Path

    @property
    def corpus(self) -> Path:
        return self.directory / "corpus.jsonl.gz"

    def queries(self) -> dict[str, str]:
        return read_queries(self.directory / "queries.jsonl")

    def qrels(self) -> dict[str, dict[str, float]]:
        """Judgements of all development files together."""
        merged: dict[str, dict[str, float]] = {}
        for path in sorted((self.directory / "qrels").glob("dev*.tsv")):
            for query, grades in read_qrels(path).items():
                merged.setdefault(query, {}).update(grades)
        return merged

    def ndcg(self, run: Mapping[str, Sequence[str]]) -> float:
        """nDCG@10 of document ids by query, best first, over the judged queries."""
        measures = evaluate_run(run, self.qrels())
        return next(measure.mean for measure in measures if measure.name == "nDCG@10")


class Shared:
    """The scratch directory's parts of one corpus."""

    def __init__(self, scratch: Path, judged: Judged) -> None:
        self.scratch = scratch
        self.judged = judged
        self.checkpoint = scratch / "checkpoint"
        self.encoder_directory = scratch / "encoder"
        self.texts = scratch / f"texts-{judged.name}.jsonl"
        self.vectors = scratch / f"vectors-{judged.name}.npy"
        self.home = scratch / f"home-{judged.name}"

    def prepare(self) -> None:
        """Make what is missing: weights in both forms, texts, vectors, and Purlin's corpus."""
        self.scratch.mkdir(parents=True, exist_ok=True)
        corpus, name = self.judged.corpus, self.judged.name
        encoder = CachedEncoder(self.encoder(), self.scratch / f"vectors-{name}")
        if not self.vectors.exists():
            write_shared(corpus, encoder, self.texts, self.vectors)
        if not has_build(self.home, name):
            build(self.home, name, "code", open_source("code", [corpus]), encoder)

    def encoder(self) -> Encoder:
        """The base model as sentence-transformers has it and as Purlin exports it, in 8 bits."""
        from purlin.training.exporting.encoder import export_encoder
        from purlin.training.exporting.model_card import Card
        from purlin.training.models.sentence_models import base_checkpoint

        if not self.checkpoint.exists():
            shutil.copytree(base_checkpoint(), self.checkpoint)
        if not self.encoder_directory.exists():
            export_encoder(self.checkpoint, self.encoder_directory, Card("all-MiniLM-L6-v2-int8"))
        return Encoder.load(self.encoder_directory)


def has_build(home: Path, name: str) -> bool:
    """Whether a corpus is there that this version reads; one of another version is removed."""
    if name not in builds.corpora(home):
        return False

    try:
        read_manifest(builds.current(home, name))
    except Damaged:
        shutil.rmtree(home)
        return False
    return True


def write_shared(source: Path, encoder: TextEncoder, texts: Path, vectors: Path) -> None:
    """Write ids with texts, and their vectors in the same order; both or neither."""
    ids = [document.id for document in read_documents(source)]
    contents = list(corpus_texts(source))
    if len(ids) != len(contents):
        raise ValueError(f"{len(ids)} documents have {len(contents)} passages: not one each")

    staging = texts.with_suffix(".part")
    with staging.open("w", encoding="utf-8") as lines:
        for identifier, text in zip(ids, contents, strict=True):
            lines.write(json.dumps({"id": identifier, "text": text}) + "\n")
    staging.replace(texts)

    np.save(vectors, encoder.encode(contents, role="passage"))


def judged_set(name: str, data: Path) -> Judged:
    return Judged(name, data / CORPORA[name])


def load_queries(data: Path, seed: int = 0) -> list[str]:
    """Distinct queries for load, shuffled: those of CoSQA, and summaries of functions.

    There are enough that none is sent twice in a run, so that no cache can answer.
    """
    queries = list(Judged("cosqa", data / "cosqa").queries().values())
    for path in sorted((data / "code_pairs").glob("*.dev.jsonl.gz")):
        queries += [row["summary"] for row in read_rows(path) if 0 < len(row["summary"]) <= 200]

    distinct = list(dict.fromkeys(queries))
    random.Random(seed).shuffle(distinct)
    return distinct
