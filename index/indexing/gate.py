"""The quality gate: how well a build answers judged queries, and whether it may become active.

A judged document that is not in a build counts as not retrieved, in both builds alike: a build that
lost half of its sources measures worse, which is what the comparison is for. The number of missing
documents is recorded, to tell a loss from a deletion on purpose. In that case, remove the documents
from the judgements or use force.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from purlin.index.builds import build_files
from purlin.index.builds.manifests import Manifest, read_manifest
from purlin.index.encoder import TextEncoder
from purlin.index.engines.hosting import open_corpus
from purlin.index.errors import EncoderMismatch, InvalidInput, PurlinError
from purlin.index.evaluation import ranking
from purlin.index.evaluation.ranking import Measure, Qrels, Run, Values
from purlin.index.pace import StageProgress
from purlin.index.records import Mode
from purlin.index.search.corpus import Corpus
from purlin.index.search.limits import check_query
from purlin.index.search.store.filters import Filter

MEASURES = {name.lower(): name for name in ("nDCG@10", "MRR@100", "Recall@100")}
RUN_DEPTH = 100
JUDGED_FILE = "judged.json"


@dataclass(frozen=True, slots=True)
class Judgements:
    """Queries (id -> text), their judged documents, and the deciding measure (see MEASURES)."""

    queries: Mapping[str, str]
    qrels: Qrels
    measure: str = "nDCG@10"

    @classmethod
    def read(cls, queries: Path, qrels: Path, measure: str = "ndcg@10") -> Judgements:
        """Read BEIR's files.

        Raises InvalidInput for anything that would make the measurement of a finished build fail.
        """
        if measure.lower() not in MEASURES:
            raise InvalidInput(
                f"measure is {measure[:40]!r}; use {', '.join(MEASURES)}.", field="measure"
            )

        texts = ranking.read_queries(queries)
        judgements = cls(texts, ranking.read_qrels(qrels), MEASURES[measure.lower()])
        if not judgements.query_ids:
            raise InvalidInput(
                f"None of the queries judged in {qrels} is in {queries}.", field="qrels"
            )
        if not judgements.relevant_ids:
            raise InvalidInput(
                f"None of the {len(judgements.qrels)} judged queries has a relevant document.",
                field="qrels",
            )

        for identifier in judgements.query_ids:
            _check_text(identifier, texts[identifier], queries)
        return judgements

    @property
    def query_ids(self) -> list[str]:
        """Ids of the queries that are judged and have a text."""
        return [query for query in self.qrels if query in self.queries]

    @property
    def relevant_ids(self) -> set[str]:
        """Ids of the documents that are relevant to any query."""
        return {
            document
            for grades in self.qrels.values()
            for document, grade in grades.items()
            if grade > 0
        }

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of queries and judgements, not of the choice of the measure."""
        content = [{query: self.queries[query] for query in self.query_ids}, {**self.qrels}]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def _check_text(identifier: str, text: str, path: Path) -> None:
    try:
        check_query(text)
    except InvalidInput as error:
        raise InvalidInput(
            f"{path}, query {identifier!r}: {error.message}", field="queries"
        ) from None


def run_queries(
    corpus: Corpus,
    judged: Judgements,
    *,
    mode: Mode = "hybrid",
    filter: Filter | None = None,
    progress: StageProgress | None = None,
) -> Run:
    """Search for each judged query that has a text; returns its best 100 documents."""
    run: dict[str, list[str]] = {}
    query_ids = judged.query_ids

    for searched_count, query in enumerate(query_ids, 1):
        text = judged.queries[query]
        hits = corpus.search(text, k=RUN_DEPTH, mode=mode, filter=filter).hits
        run[query] = [hit.document_id for hit in hits]

        if progress is not None:
            progress(searched_count, len(query_ids))

    return run


def check_judged_documents(judged: Judgements, available: Iterable[str]) -> None:
    """Raise InvalidInput if none of the relevant documents is among the `available` ids."""
    relevant = judged.relevant_ids
    if relevant.isdisjoint(available):
        raise InvalidInput(
            f"None of the {len(relevant):,} relevant documents is in this corpus, such as "
            f"{min(relevant)[:80]!r}. Are these the judgements of another corpus?",
            field="qrels",
        )


def measure_build(
    staging_dir: Path,
    manifest: Manifest,
    encoder: TextEncoder,
    judged: Judgements,
    active: Path | None,
    progress: StageProgress,
) -> Manifest:
    """Measure the build in `staging_dir`, and return its manifest with the measures and `judged`.

    `judged` has the number of queries, how many relevant documents there are and how many the build
    lacks, and `against`: the same for the active build. `refused` is set if the whole 95 % interval
    of the difference (new - active; paired bootstrap) is below 0.

    The values of each query are stored in the build. So a later build of another encoder, which
    cannot open this one, can be compared with it. If the active build cannot be measured and has no
    such values, `against` has the reason.
    """
    corpus = Corpus.open(staging_dir, manifest, encoder)
    values, missing = _measured(corpus, judged, progress)
    measures = [
        ranking.measure(name, of_queries, len(judged.qrels)) for name, of_queries in values.items()
    ]
    against = _against(active, values, encoder, judged, progress) if active is not None else None

    outcome = {
        "measure": judged.measure,
        "queries": len(values[judged.measure]),
        "relevant": len(judged.relevant_ids),
        "missing": missing,
        "against": against,
        "refused": against is not None and against.get("high", 0.0) < 0,
    }
    written = _write_values(staging_dir / JUDGED_FILE, judged, values)
    return replace(
        manifest,
        measures={**manifest.measures, **{item.name: _rounded(item) for item in measures}},
        judged=outcome,
        files={**manifest.files, JUDGED_FILE: written},
    )


def _measured(
    corpus: Corpus, judged: Judgements, progress: StageProgress
) -> tuple[dict[str, Values], int]:
    """Values (queries,) of each measure, and the number of missing documents. Closes the corpus."""
    try:
        run = run_queries(corpus, judged, progress=progress)
        values = ranking.per_query(run, judged.qrels)
        relevant = judged.relevant_ids
        return values, len(relevant) - corpus.count(relevant)
    finally:
        corpus.close()


def _against(
    active: Path,
    values: Mapping[str, Values],
    encoder: TextEncoder,
    judged: Judgements,
    progress: StageProgress,
) -> dict[str, Any]:
    """Comparison with the active build, or the reason why there is none."""
    try:
        before, missing = _active_values(active, encoder, judged, progress)
    except PurlinError as error:
        return {"build": active.name, "problem": error.message}

    result = ranking.difference(judged.measure, before[judged.measure], values[judged.measure])
    figures = {
        "mean": result.mean_a,
        "difference": result.mean,
        "low": result.low,
        "high": result.high,
    }
    rounded = {name: round(value, 6) for name, value in figures.items()}
    return {"build": active.name, "missing": missing} | rounded


def _active_values(
    active: Path, encoder: TextEncoder, judged: Judgements, progress: StageProgress
) -> tuple[Mapping[str, Values], int]:
    """Measure the active build; if it is of another encoder, use the values stored with it."""
    try:
        corpus = open_corpus(active, encoder)
    except EncoderMismatch:
        if (stored := _stored_values(active, judged)) is None:
            raise
        return stored
    return _measured(corpus, judged, progress)


def _write_values(path: Path, judged: Judgements, values: Mapping[str, Values]) -> dict[str, Any]:
    """Write the values into a build; returns the manifest's entry for the file."""
    lists = {name: of_queries.tolist() for name, of_queries in values.items()}
    content = json.dumps({"of": judged.digest, "values": lists})
    path.write_text(content)
    return {"bytes": len(content), "sha256": hashlib.sha256(content.encode()).hexdigest()}


def _stored_values(build: Path, judged: Judgements) -> tuple[dict[str, Values], int] | None:
    """Values and number of missing documents stored in a build, or None for other judgements."""
    manifest = read_manifest(build)
    if JUDGED_FILE not in manifest.files:
        return None

    stored = json.loads(build_files.Files(build, manifest.files).read(build / JUDGED_FILE))
    if stored["of"] != judged.digest:
        return None
    values = {name: np.array(of_queries) for name, of_queries in stored["values"].items()}
    return values, int(manifest.judged["missing"])


def _rounded(measure: Measure) -> dict[str, Any]:
    values = asdict(measure)
    figures = {name: round(values[name], 6) for name in ("mean", "low", "high")}
    return {"queries": measure.queries} | figures


def measurement_summary(manifest: Manifest) -> str:
    """Describe a build's measurement in a sentence or two; empty if there was none."""
    judged = manifest.judged
    if not judged:
        return ""

    own, against = manifest.measures[judged["measure"]], judged["against"]
    summary = (
        f"{judged['measure']} {own['mean']:.4f} ({own['low']:.4f} to {own['high']:.4f}) "
        f"on {own['queries']} queries"
    )
    if judged["missing"]:
        summary += (
            f"; {judged['missing']:,} of {judged['relevant']:,} relevant documents are not in this "
            "build"
        )

    if against is None:
        return f"{summary}."
    if "problem" in against:
        return f"{summary}. Not compared with the active build: {against['problem']}"

    missing = f" ({against['missing']:,} not in it)" if against["missing"] else ""
    return (
        f"{summary}. The active build {against['build']} has {against['mean']:.4f}{missing}; "
        f"difference {against['difference']:+.4f}, "
        f"95 % interval {against['low']:+.4f} to {against['high']:+.4f}."
    )


def refusal_message(manifest: Manifest, build: str) -> str:
    """Explain why a build was not activated, and how to activate it anyway."""
    return (
        f"Build {build} of corpus {manifest.name!r} is worse than the active one and was kept, not "
        f"activated: {measurement_summary(manifest)} Repeat with --force, or `purlin index "
        f"activate {manifest.name} {build} --force`."
    )
