"""How well a build answers judged queries, and whether it may take the place of the active one.

A document that is judged but not in a build counts as not found, in both builds alike: a build that lost half of its
sources then evaluates worse, which is what the comparison is for. How many there are stands in what is noted, so that
what was deleted on purpose can be told from it: then take it out of the judgements, or use force.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from index import builds
from index.builds import Manifest
from index.encoder import TextEncoder
from index.errors import EncoderMismatch, InvalidInput, PurlinError
from index.evaluation import ranking
from index.evaluation.ranking import Measure, Qrels, Run, Values
from index.records import Mode
from index.search.corpus import Corpus, check_query
from index.search.store import Filter

MEASURES = {name.lower(): name for name in ("nDCG@10", "MRR@100", "Recall@100")}
DEPTH = 100
FILE = "judged.json"

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Judgements:
    """Queries (id -> text), their judged documents, and the measure that decides: one of the values of MEASURES."""

    queries: Mapping[str, str]
    qrels: Qrels
    measure: str = "nDCG@10"

    @classmethod
    def read(cls, queries: Path, qrels: Path, measure: str = "ndcg@10") -> Judgements:
        """From BEIR's files. Raises InvalidInput for what could not be measured once a build is finished."""
        if measure.lower() not in MEASURES:
            raise InvalidInput(
                f"measure is {measure[:40]!r}; it is {', '.join(MEASURES)}.", field="measure"
            )
        found = cls(
            ranking.read_queries(queries), ranking.read_qrels(qrels), MEASURES[measure.lower()]
        )
        if not found.asked:
            raise InvalidInput(
                f"None of the queries judged in {qrels} is in {queries}.", field="qrels"
            )
        if not found.relevant:
            raise InvalidInput(
                f"None of the {len(found.qrels)} judged queries has a relevant document.",
                field="qrels",
            )
        for identifier in found.asked:
            _check(identifier, found.queries[identifier], queries)
        return found

    @property
    def asked(self) -> list[str]:
        """Ids of the queries to ask: those that are judged."""
        return [query for query in self.qrels if query in self.queries]

    @property
    def relevant(self) -> set[str]:
        """Ids of the documents that ought to be found."""
        return {
            document
            for grades in self.qrels.values()
            for document, grade in grades.items()
            if grade > 0
        }

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of all of it but the choice of the measure."""
        content = [{query: self.queries[query] for query in self.asked}, {**self.qrels}]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def _check(identifier: str, text: str, path: Path) -> None:
    try:
        check_query(text)
    except InvalidInput as error:
        raise InvalidInput(
            f"{path}, query {identifier!r}: {error.message}", field="queries"
        ) from None


def ranked(
    corpus: Corpus,
    judged: Judgements,
    *,
    mode: Mode = "hybrid",
    filter: Filter | None = None,
    progress: Progress | None = None,
) -> Run:
    """The best 100 documents of each judged query that there is a text of."""
    run: dict[str, list[str]] = {}
    asked = judged.asked
    for done, query in enumerate(asked, 1):
        hits = corpus.search(judged.queries[query], k=DEPTH, mode=mode, filter=filter).hits
        run[query] = [hit.document_id for hit in hits]
        if progress is not None:
            progress(done, len(asked))
    return run


def check_known(judged: Judgements, found: Iterable[str]) -> None:
    """Refuse judgements none of whose relevant documents is among the ids `found`."""
    if judged.relevant.isdisjoint(found):
        raise InvalidInput(
            f"None of the {len(judged.relevant):,} documents that the queries ask for is in this corpus, such as "
            f"{min(judged.relevant)[:80]!r}: are these the judgements of another one?",
            field="qrels",
        )


def measured(
    made: Path,
    manifest: Manifest,
    encoder: TextEncoder,
    judged: Judgements,
    active: Path | None,
    progress: Progress,
) -> Manifest:
    """The manifest with the measures of the build in `made` among its own, and `judged`: on how many queries, how many
    relevant documents there are and how many the build lacks, and `against`: the active build on the same queries.

    `refused` is set if the whole 95 % interval of the difference (new - active; paired bootstrap) lies below 0. The
    values of each query are kept in the build, so that a later one of another encoder, which cannot open this one, can
    be compared with it. An active build that has none is not compared with; `against` then has the reason.
    """
    values, lacking = _values_of(Corpus.open(made, manifest, encoder), judged, progress)
    measures = [ranking.measure(name, each, len(judged.qrels)) for name, each in values.items()]
    against = _against(active, values, encoder, judged, progress) if active is not None else None
    about = {
        "measure": judged.measure,
        "queries": len(values[judged.measure]),
        "relevant": len(judged.relevant),
        "missing": lacking,
        "against": against,
        "refused": against is not None and against.get("high", 0.0) < 0,
    }
    files = {**manifest.files, FILE: _keep(made / FILE, judged, values)}
    named = {one.name: _rounded(one) for one in measures}
    return replace(manifest, measures={**manifest.measures, **named}, judged=about, files=files)


def _values_of(
    corpus: Corpus, judged: Judgements, progress: Progress
) -> tuple[dict[str, Values], int]:
    """Each measure's values (queries,), and how many relevant documents the build does not have. Closes the corpus."""
    try:
        run = ranked(corpus, judged, progress=progress)
        return ranking.per_query(run, judged.qrels, 0.0), len(judged.relevant) - corpus.count(
            judged.relevant
        )
    finally:
        corpus.close()


def _against(
    active: Path,
    values: Mapping[str, Values],
    encoder: TextEncoder,
    judged: Judgements,
    progress: Progress,
) -> dict[str, Any]:
    try:
        before, lacking = _before(active, encoder, judged, progress)
    except PurlinError as error:
        return {"build": active.name, "problem": error.message}
    found = ranking.difference(judged.measure, before[judged.measure], values[judged.measure])
    figures = {"mean": found.mean_a, "difference": found.mean, "low": found.low, "high": found.high}
    return {"build": active.name, "missing": lacking} | {
        name: round(value, 6) for name, value in figures.items()
    }


def _before(
    active: Path, encoder: TextEncoder, judged: Judgements, progress: Progress
) -> tuple[Mapping[str, Values], int]:
    """The same of the active build; of another encoder's, as it was measured when it was made."""
    try:
        corpus = Corpus.load(active, encoder)
    except EncoderMismatch:
        if (kept := _kept(active, judged)) is None:
            raise
        return kept
    return _values_of(corpus, judged, progress)


def _keep(path: Path, judged: Judgements, values: Mapping[str, Values]) -> dict[str, Any]:
    """Write the values into a build; returns what its manifest says of the file."""
    content = json.dumps(
        {"of": judged.digest, "values": {name: each.tolist() for name, each in values.items()}}
    )
    path.write_text(content)
    return {"bytes": len(content), "sha256": hashlib.sha256(content.encode()).hexdigest()}


def _kept(build: Path, judged: Judgements) -> tuple[dict[str, Values], int] | None:
    """The values that were kept in a build, and how many documents it lacked; None if they are of other judgements."""
    manifest = builds.read_manifest(build)
    if FILE not in manifest.files:
        return None
    kept = json.loads(builds.Files(build, manifest).read(build / FILE))
    if kept["of"] != judged.digest:
        return None
    return {name: np.array(each) for name, each in kept["values"].items()}, int(
        manifest.judged["missing"]
    )


def _rounded(one: Measure) -> dict[str, Any]:
    values = asdict(one)
    return {"queries": one.queries} | {
        name: round(values[name], 6) for name in ("mean", "low", "high")
    }


def told(manifest: Manifest) -> str:
    """What was measured, in a sentence or two; empty if nothing was."""
    judged = manifest.judged
    if not judged:
        return ""
    own, against = manifest.measures[judged["measure"]], judged["against"]
    said = f"{judged['measure']} {own['mean']:.4f} ({own['low']:.4f} to {own['high']:.4f}) on {own['queries']} queries"
    if judged["missing"]:
        said += f"; {judged['missing']:,} of {judged['relevant']:,} relevant documents are not in this build"
    if against is None:
        return f"{said}."
    if "problem" in against:
        return f"{said}. Not compared with the active build: {against['problem']}"
    return (
        f"{said}. The active build {against['build']} has {against['mean']:.4f}"
        + (f" ({against['missing']:,} not in it)" if against["missing"] else "")
        + f"; difference {against['difference']:+.4f}, 95 % interval {against['low']:+.4f} to {against['high']:+.4f}."
    )


def refusal(manifest: Manifest, build: str) -> str:
    """Why a build was not activated, and how to do it all the same."""
    return (
        f"Build {build} of corpus {manifest.name!r} is worse than the active one and was kept, not activated: "
        f"{told(manifest)} Repeat with --force, or `purlin index activate {manifest.name} {build} --force`."
    )
