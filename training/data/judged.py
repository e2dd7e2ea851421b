"""Judged sets: queries with passages that people judged, their rankings and measures."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from purlin.index.encoder import TextEncoder, Vectors
from purlin.index.encoder.transformer import Encoder
from purlin.index.evaluation.ranking import Measure, evaluate_run, measure, ndcg, reciprocal_rank
from purlin.index.highest import highest
from purlin.index.pace import StageProgress
from purlin.index.records import Role
from purlin.index.search.arrays import Rows
from purlin.index.search.lexical.tokens import tokens

# Passages of each query's ranking that are judged.
RANKING_DEPTH = 100
_QUERIES_AT_ONCE = 256

# BM25's parameters, as in Anserini.
_K1 = 0.9
_B = 0.4


@dataclass(frozen=True, slots=True)
class JudgedSet:
    """Texts and judgements: `qrels` holds a grade by query id and passage id.

    With `candidates`, a query's ranking has only these passages.
    """

    queries: dict[str, str]
    passages: dict[str, str]
    qrels: dict[str, dict[str, float]]
    candidates: dict[str, tuple[str, ...]] | None = None
    name: str = ""


# -- ranking ---------------------------------------------------------------------------------------


def rank(
    judged: JudgedSet,
    encoder: TextEncoder,
    *,
    by_cosine: bool = False,
    progress: StageProgress = lambda encoded_count, total: None,
) -> dict[str, list[str]]:
    """Rank passages by an encoder, exhaustively; see `ranked`.

    A model that was trained with dot products ranks by them unless `by_cosine`, as in the server.
    `progress` is called with the number of texts encoded so far, and of all.
    """
    total, encoded_count = len(judged.queries) + len(judged.passages), 0

    def advance(count: int) -> None:
        nonlocal encoded_count
        encoded_count += count
        progress(encoded_count, total)

    def encode(texts: Iterable[str], role: Role) -> Vectors:
        if isinstance(encoder, Encoder) and not by_cosine:
            return encoder.trained_vectors(list(texts), role=role, progress=advance)
        return encoder.encode(list(texts), role=role, progress=advance)

    queries = encode(judged.queries.values(), "query")
    return ranked(judged, queries, encode(judged.passages.values(), "passage"))


def ranked(judged: JudgedSet, queries: Vectors, passages: Vectors) -> dict[str, list[str]]:
    """Return the ids of the best `RANKING_DEPTH` passages of each query, from their vectors.

    Both have the order of `judged`. If it has candidates, only these are ranked.
    """
    ids, candidates = list(judged.passages), _candidate_rows(judged)
    run: dict[str, list[str]] = {}

    query_ids = list(judged.queries)
    for start in range(0, len(query_ids), _QUERIES_AT_ONCE):
        part = slice(start, start + _QUERIES_AT_ONCE)
        for query_id, scores in zip(query_ids[part], queries[part] @ passages.T, strict=True):
            rows = _best(scores, candidates.get(query_id))
            run[query_id] = [ids[row] for row in rows]
    return run


def _candidate_rows(judged: JudgedSet) -> dict[str, Rows]:
    row_of = {id_: row for row, id_ in enumerate(judged.passages)}
    return {
        query_id: np.array([row_of[id_] for id_ in ids])
        for query_id, ids in (judged.candidates or {}).items()
    }


def _best(scores: Vectors, candidates: Rows | None = None) -> Rows:
    """Return the rows of the `RANKING_DEPTH` highest scores (n,); of equal ones the lower row."""
    if candidates is not None:
        return candidates[_best(scores[candidates])]
    return highest(scores, RANKING_DEPTH)


def rank_by_words(judged: JudgedSet) -> dict[str, list[str]]:
    """Rank passages by BM25 over the words that Purlin's index has: a baseline."""
    ids = list(judged.passages)
    counts = [Counter(tokens(text)) for text in judged.passages.values()]
    lengths = np.array([count.total() for count in counts], dtype=np.float64)
    norms = _K1 * (1 - _B + _B * lengths / max(1.0, lengths.mean()))

    postings: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for row, count in enumerate(counts):
        for token, number in count.items():
            postings[token].append((row, number))

    run, candidates = {}, _candidate_rows(judged)
    for query_id, query in judged.queries.items():
        scores = np.zeros(len(ids), dtype=np.float32)
        for token in tokens(query):
            rows, times = np.array(postings.get(token, []), dtype=np.int64).reshape(-1, 2).T
            weight = math.log(1 + (len(ids) - len(rows) + 0.5) / (len(rows) + 0.5))
            scores[rows] += weight * times * (_K1 + 1) / (times + norms[rows])
        run[query_id] = [ids[row] for row in _best(scores, candidates.get(query_id))]
    return run


# -- measures --------------------------------------------------------------------------------------


def query_values(
    judged: JudgedSet, run: Mapping[str, Sequence[str]]
) -> dict[str, dict[str, float]]:
    """Return each query's values by the name of set and measure.

    For code MRR@100 and nDCG@100, for ESCI nDCG@100 in two classes, of which only exact matches
    (grade 1) are relevant, and in four. Queries without a relevant passage have no value.
    """
    exact = {
        query_id: {id_: 1.0 for id_, grade in grades.items() if grade >= 1}
        for query_id, grades in judged.qrels.items()
    }
    if judged.name == "esci":
        return {
            "esci nDCG@100 two-class": ndcg_values(exact, run),
            "esci nDCG@100 four-class": ndcg_values(judged.qrels, run),
        }

    ranks = {
        query_id: reciprocal_rank(run.get(query_id, ()), grades, RANKING_DEPTH)
        for query_id, grades in exact.items()
        if grades
    }
    return {
        f"{judged.name} MRR@100": ranks,
        f"{judged.name} nDCG@100": ndcg_values(judged.qrels, run),
    }


def ndcg_values(
    qrels: Mapping[str, Mapping[str, float]], run: Mapping[str, Sequence[str]]
) -> dict[str, float]:
    """Return nDCG@100 of each query that has a relevant passage."""
    return {
        query_id: ndcg(run.get(query_id, ()), grades, RANKING_DEPTH)
        for query_id, grades in qrels.items()
        if any(grade > 0 for grade in grades.values())
    }


def mean_measure(name: str, run: Mapping[str, Sequence[str]], judged: JudgedSet) -> float:
    """Return the mean of nDCG@100 or of one of `evaluate_run`'s measures."""
    if name == "nDCG@100":
        return float(np.mean(list(ndcg_values(judged.qrels, run).values())))
    return {mean.name: mean.mean for mean in evaluate_run(run, judged.qrels)}[name]


def measures(
    sets: Sequence[JudgedSet], runs: Sequence[Mapping[str, Sequence[str]]]
) -> list[Measure]:
    """Return the mean of every measure with its interval; for several languages also over these.

    As in the paper's table 6, the mean over languages weighs them alike.
    """
    means: dict[str, list[Measure]] = defaultdict(list)
    for judged, run in zip(sets, runs, strict=True):
        for name, values in query_values(judged, run).items():
            mean = measure(name, np.array(list(values.values())), len(judged.queries))
            means[name.partition(" ")[2]].append(mean)

    overall = [
        _mean_of(f"overall {name}", of_sets) for name, of_sets in means.items() if len(of_sets) > 1
    ]
    return [mean for of_sets in means.values() for mean in of_sets] + overall


def _mean_of(name: str, means: Sequence[Measure]) -> Measure:
    """Return the mean of independent means; the squares of their intervals add up."""
    mean = float(np.mean([item.mean for item in means]))
    below = math.hypot(*(item.mean - item.low for item in means)) / len(means)
    above = math.hypot(*(item.high - item.mean for item in means)) / len(means)
    queries = sum(item.queries for item in means)
    left_out = sum(item.left_out for item in means)
    return Measure(name, mean, mean - below, mean + above, queries, left_out)
