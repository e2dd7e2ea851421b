"""Queries, judgements and runs in their usual files, and measures of a run.

Measures are trec_eval's: gains are linear in the grade, a negative grade gains nothing, and a query
that is judged but missing from the run counts 0. Queries without a relevant document are left out.
"""

from __future__ import annotations

import gzip
import json
import math
import re
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote_to_bytes

import numpy as np
from numpy.typing import NDArray

from purlin.index.errors import InvalidInput, NotFound, StorageFailed
from purlin.index.storage import atomic_write

Qrels = Mapping[str, Mapping[str, float]]
Run = Mapping[str, Sequence[str]]
Values = NDArray[np.float64]

RESAMPLES = 10_000
MAX_LINE_CHARS = 1 << 20
MAX_LIST_LINES = 1_000_000
# Random numbers drawn at a time.
_BLOCK = 1 << 20
# All other white space does not count as printable.
_ESCAPED_PRINTABLE = frozenset(" %")
_ESCAPES = re.compile("(?:%[0-9A-Fa-f]{2})+")


@dataclass(frozen=True, slots=True)
class Measure:
    """A mean over queries with its 95 % interval.

    `left_out` counts the judged queries without a relevant document.
    """

    name: str
    mean: float
    low: float
    high: float
    queries: int
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Difference:
    """Comparison of runs a and b over the same queries.

    `mean` is b - a with its 95 % interval; `p` is that of a two-sided paired test.
    """

    name: str
    mean_a: float
    mean_b: float
    mean: float
    low: float
    high: float
    p: float
    queries: int


# ---- measures


def evaluate_run(run: Run, qrels: Qrels) -> list[Measure]:
    """MRR@100, nDCG@10 and Recall@100 of a run (query -> document ids, best first).

    A document is relevant if its grade is above 0. Intervals are percentiles of 10,000 bootstrap
    resamples of the queries, the same in every call. Raises InvalidInput if no query has a relevant document.
    """
    return [measure(name, values, len(qrels)) for name, values in per_query(run, qrels).items()]


def compare_runs(run_a: Run, run_b: Run, qrels: Qrels) -> list[Difference]:
    """Difference of runs b and a in each measure of `evaluate_run`, paired by query.

    Intervals are by paired bootstrap; `p` is by 10,000 random exchanges of a's and b's values (sign
    flips), so it is at least 1e-4.
    """
    values_a, values_b = per_query(run_a, qrels), per_query(run_b, qrels)
    return [difference(name, values_a[name], values_b[name]) for name in values_a]


def reciprocal_rank(ranking: Sequence[str], relevant: Collection[str], depth: int = 100) -> float:
    """1 / rank of the first relevant document, or 0 if none is among the first `depth`."""
    return next(
        (1.0 / rank for rank, document in _ranked(ranking, depth) if document in relevant), 0.0
    )


def ndcg(ranking: Sequence[str], gains: Mapping[str, float], depth: int = 10) -> float:
    """Gains discounted by log2(rank + 1), as a share of those of the best possible ranking.

    It is 0 if no document has a gain.
    """
    ideal = sorted((gain for gain in gains.values() if gain > 0), reverse=True)[:depth]
    best = sum(gain / math.log2(rank + 1) for rank, gain in enumerate(ideal, 1))
    gained = sum(
        max(gains.get(document, 0.0), 0.0) / math.log2(rank + 1)
        for rank, document in _ranked(ranking, depth)
    )
    return gained / best if best else 0.0


def recall(ranking: Sequence[str], relevant: Collection[str], depth: int = 100) -> float:
    """Share of the relevant documents among the first `depth`; 0 if no document is relevant."""
    retrieved = sum(document in relevant for _, document in _ranked(ranking, depth))
    return retrieved / len(relevant) if relevant else 0.0


def _ranked(ranking: Sequence[str], depth: int) -> Iterator[tuple[int, str]]:
    """Yield ranks and documents; one that is ranked twice counts only at its first rank."""
    return zip(range(1, depth + 1), dict.fromkeys(ranking), strict=False)


def per_query(run: Run, qrels: Qrels) -> dict[str, Values]:
    """Map each measure to its values (queries,) in the order of the judgements.

    Queries without a relevant document are left out. Raises InvalidInput if that are all.
    """
    relevant = {
        query: documents
        for query, grades in qrels.items()
        if (documents := {document for document, grade in grades.items() if grade > 0})
    }
    if not relevant:
        raise InvalidInput(
            f"None of the {len(qrels)} judged queries has a relevant document.", field="qrels"
        )

    ranks = [reciprocal_rank(run.get(query, ()), ids) for query, ids in relevant.items()]
    ndcgs = [ndcg(run.get(query, ()), qrels[query]) for query in relevant]
    recalls = [recall(run.get(query, ()), ids) for query, ids in relevant.items()]
    return {"MRR@100": np.array(ranks), "nDCG@10": np.array(ndcgs), "Recall@100": np.array(recalls)}


def measure(name: str, values: Values, judged: int) -> Measure:
    """Mean of values (queries,) with its bootstrap interval; `judged` includes left-out queries."""
    low, high = _interval(values)
    return Measure(name, float(values.mean()), low, high, len(values), judged - len(values))


def difference(name: str, values_a: Values, values_b: Values) -> Difference:
    """Paired difference of values b and a (queries,), with its interval and p."""
    differences = values_b - values_a
    low, high = _interval(differences)
    means = float(values_a.mean()), float(values_b.mean()), float(differences.mean())
    return Difference(name, *means, low, high, _sign_flip(differences), len(differences))


def _interval(values: Values) -> tuple[float, float]:
    def means(generator: np.random.Generator, rows: int) -> Values:
        resamples = generator.integers(len(values), size=(rows, len(values)))
        return np.asarray(values[resamples].mean(axis=1))

    low, high = np.percentile(resampled(means, len(values)), (2.5, 97.5))
    return float(low), float(high)


def _sign_flip(differences: Values) -> float:
    def means(generator: np.random.Generator, rows: int) -> Values:
        signs = generator.integers(2, size=(rows, len(differences)), dtype=np.int8) * 2.0 - 1.0
        return np.asarray(signs @ differences / len(differences))

    # The tolerance keeps equal means equal whatever the order of their sums.
    extreme = np.abs(resampled(means, len(differences))) >= abs(differences.mean()) - 1e-12
    return (1 + int(extreme.sum())) / (1 + RESAMPLES)


def resampled(means: Callable[[np.random.Generator, int], Values], width: int) -> Values:
    """`RESAMPLES` means, drawn in blocks so that memory does not grow with the number of queries.

    `means(generator, rows)` draws `rows` means, each from `width` random numbers. The result is the
    same in every call.
    """
    generator = np.random.default_rng(0)
    block = max(1, _BLOCK // width)
    sizes = (min(block, RESAMPLES - start) for start in range(0, RESAMPLES, block))
    return np.concatenate([means(generator, rows) for rows in sizes])


# ---- files


def read_queries(path: Path) -> dict[str, str]:
    """Query id -> text, from JSON lines with `_id` and `text` (BEIR; gzip by suffix).

    Raises InvalidInput for a malformed line.
    """
    queries: dict[str, str] = {}
    for number, record in read_records(path):
        identifier, text = _query(record, path, number)
        if identifier in queries:
            raise malformed(path, number, f"query {identifier!r} comes twice")
        queries[identifier] = text
    return queries


def _query(record: Any, path: Path, number: int) -> tuple[str, str]:
    match record:
        case {"_id": str() | int() as identifier, "text": str(text)}:
            return str(identifier), text
    raise malformed(path, number, 'expected {"_id": ..., "text": ...}')


def read_qrels(path: Path) -> dict[str, dict[str, float]]:
    """Query id -> document id -> grade, which may be fractional; gzip by suffix.

    Reads tab-separated `query-id corpus-id score` with or without a header (BEIR), and TREC's four
    columns `query 0 document grade`, whose ids `escaped` wrote. If a document has several
    grades, the last counts, as in BEIR's own reader. Raises InvalidInput for a malformed line.
    """
    qrels: dict[str, dict[str, float]] = {}
    for number, line in read_lines(path):
        query, document, score = _judgement(line, path, number)
        if number == 1 and _is_header(score):
            continue

        qrels.setdefault(query, {})[document] = _grade(score, path, number)
    return qrels


def _judgement(line: str, path: Path, number: int) -> tuple[str, str, str]:
    match line.rstrip("\n").split("\t"):
        case [query, document, score] if query and document:
            return query, document, score

    match line.split():
        case [query, _, document, score]:
            return unescaped(query), unescaped(document), score
    raise malformed(
        path, number, "expected 3 tab-separated columns (query, document, grade), or TREC's 4"
    )


def _is_header(score: str) -> bool:
    try:
        float(score)
    except ValueError:
        return True
    return False


def write_run(path: Path, run: Run) -> int:
    """Write a TREC run of six columns with escaped ids; returns how many ids escaping changed.

    The score is 1 / rank. The file appears whole or not at all. Raises InvalidInput for an empty
    id, and StorageFailed if the file cannot be written.
    """
    identifiers = {*run, *chain.from_iterable(run.values())}
    if "" in identifiers:
        raise InvalidInput(
            "An id is empty, which a TREC run cannot represent. Give each query and document an id."
        )

    try:
        with atomic_write(path) as file:
            file.writelines(line.encode() for line in _run_lines(run))
    except OSError as error:
        raise StorageFailed(f"{path} cannot be written: {error.strerror}.") from error
    return sum(escaped(identifier) != identifier for identifier in identifiers)


def _run_lines(run: Run) -> Iterator[str]:
    for query, ranking in run.items():
        for rank, document in enumerate(ranking, 1):
            yield f"{escaped(query)}\tQ0\t{escaped(document)}\t{rank}\t{1 / rank!r}\tpurlin\n"


def escaped(identifier: str) -> str:
    """Escape an id for a TREC column: `%`, white space and unprintable characters become %XX."""
    if identifier.isprintable() and not _ESCAPED_PRINTABLE.intersection(identifier):
        return identifier

    return "".join(
        character
        if character.isprintable() and character not in _ESCAPED_PRINTABLE
        else quote(character, safe="", errors="surrogatepass")
        for character in identifier
    )


def unescaped(column: str) -> str:
    """Undo `escaped`; a %XX that is not valid UTF-8 stays unchanged."""
    return _ESCAPES.sub(_decoded, column)


def _decoded(escapes: re.Match[str]) -> str:
    try:
        return unquote_to_bytes(escapes[0]).decode(errors="surrogatepass")
    except UnicodeDecodeError:
        return escapes[0]


def read_lines(path: Path, *, most: float = math.inf) -> Iterator[tuple[int, str]]:
    """Yield line numbers, from 1, and the lines that are not blank; gzip by suffix.

    Raises NotFound without a file, and InvalidInput for a line of more than `MAX_LINE_CHARS`
    characters, for more than `most` lines, and for bytes that cannot be decoded.
    """
    if not path.is_file():
        raise NotFound(f"{path} does not exist or is not a file.", field="path")

    open_file = gzip.open if path.suffix == ".gz" else open
    number = 0
    try:
        with open_file(path, "rt", encoding="utf-8-sig") as handle:
            while line := handle.readline(MAX_LINE_CHARS + 1):
                number += 1
                if len(line) > MAX_LINE_CHARS:
                    raise malformed(path, number, f"longer than {MAX_LINE_CHARS:,} characters")
                if number > most:
                    raise malformed(
                        path, number, f"at most {most:,} lines are allowed; split the file"
                    )
                if line.strip():
                    yield number, line
    except (OSError, EOFError, UnicodeError, zlib.error) as error:
        not_utf8 = "it is not UTF-8; convert it, such as with `iconv -f cp1252 -t utf-8`"
        reason = not_utf8 if isinstance(error, UnicodeError) else error
        raise malformed(path, number + 1, f"cannot be read: {reason}") from error


def read_records(path: Path, *, most: float = math.inf) -> Iterator[tuple[int, Any]]:
    """Yield line numbers, from 1, and the JSON values of the lines.

    Raises as `read_lines` does, and InvalidInput for invalid JSON.
    """
    for number, line in read_lines(path, most=most):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise malformed(path, number, f"not valid JSON: {error}") from error
        yield number, record


def read_list(path: Path) -> list[str]:
    """Stripped lines of a list, such as label names, without blank ones.

    Raises as `read_lines` does.
    """
    return [line.strip() for _, line in read_lines(path, most=MAX_LIST_LINES)]


def _grade(text: str, path: Path, number: int) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise malformed(path, number, f"grade {text.strip()!r} is not a number")
    return value


def malformed(path: Path, number: int, problem: str) -> InvalidInput:
    """Error for a line that a reader cannot use."""
    return InvalidInput(f"{path}, line {number}: {problem}.", field="path")
