"""Growth curves: what a corpus of 10k to 5M passages costs to build, open and search.

    python -m benchmarks.speed.growth --functions DIR --scratch DIR --data DIR [--sizes 10000 100000 1000000]
        [--encoder static] [--parts build serve recall] [--windows]

FUNCTIONS is what `benchmarks.speed.functions` collected. The corpora are nested random subsets of it.
With `--windows`, functions are cut into windows of 8 lines, each 2 lines after the one before, of
which there are six times as many.

Of each corpus, `build` measures time, peak memory and disk of a build in a process of its own;
`serve` the time until a server answers, its memory, its latencies and its stages; `recall` the
share of the exact nearest ten functions among the first ten of dense search. The exact ones are
found by comparing queries with the vector of every function, encoded once more, in float32.

Each part of each size is recorded when it is complete, so a run that was stopped goes on.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict
from functools import partial
from itertools import chain, islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.options import command_parser
from benchmarks.speed.corpora import has_build, load_queries
from benchmarks.speed.functions import Row, code_digest, read_functions
from benchmarks.speed.load import Client, Request, measure
from benchmarks.speed.processes import Running, directory_mb, free_port, serving
from benchmarks.speed.records import Records
from benchmarks.speed.stages import share_elsewhere, stage_means
from benchmarks.speed.steady import Steady
from benchmarks.speed.vectors import corpus_texts
from purlin.index import builds
from purlin.index.builds.manifests import read_manifest
from purlin.index.encoder import TextEncoder, Vectors, encoder_directory, load_encoder

Rows = NDArray[np.int64]

SIZES = (10_000, 100_000, 1_000_000)
PARTS = ("build", "serve", "recall")
CORPUS = "functions"
DEPTH = 10
RECALL_QUERIES = 200
STAGE_QUERIES = 100
LATENCY_QUERIES = 300
WARM_UP = 30
BLOCK = 8192
WINDOW_LINES, WINDOW_STEP = 8, 2
# A function counts as found if its exact score is this close to the tenth: vectors are stored in
# float16, whose rounding may swap neighbours.
TIE = 1e-3


class Subset:
    """The `size` rows whose codes have the least digests, and everything made of them."""

    def __init__(
        self, functions: Path, scratch: Path, size: int, encoder: Path, *, windows: bool = False
    ) -> None:
        self.functions, self.size, self.encoder, self.windows = functions, size, encoder, windows
        directory = scratch / f"growth-{size}{'-windows' if windows else ''}"
        self.source = directory / "corpus.jsonl"
        self.home = directory / f"home-{encoder.name}"
        self.truth = directory / f"exact-{encoder.name}.json"
        self.log = directory / "server.log"

    @property
    def key(self) -> dict[str, str | int]:
        """What names this subset in the records."""
        return {"encoder": self.encoder.name, "size": self.size, "windows": self.windows}

    def write(self) -> None:
        """Write the corpus in BEIR's form. Raises ValueError if there are too few rows."""
        if self.source.exists():
            return

        digests = np.unique(np.fromiter((code_digest(row["code"]) for row in self._rows()), "u8"))
        if len(digests) < self.size:
            raise ValueError(f"{len(digests):,} rows are there, {self.size:,} are needed")
        chosen = set(digests[: self.size].tolist())

        self.source.parent.mkdir(parents=True, exist_ok=True)
        staging = self.source.with_suffix(".part")
        with staging.open("w", encoding="utf-8") as lines:
            for row in self._rows():
                digest = code_digest(row["code"])
                # Windows of different functions may be alike: the first one counts.
                if digest in chosen:
                    chosen.remove(digest)
                    lines.write(json.dumps(beir_record(row), ensure_ascii=False) + "\n")
        staging.replace(self.source)

    def _rows(self) -> Iterator[Row]:
        rows = read_functions(self.functions)
        return chain.from_iterable(map(windows_of, rows)) if self.windows else rows


def windows_of(function: Row) -> Iterator[Row]:
    """Cut a function into windows of its lines; the last one may be shorter."""
    lines = function["code"].split("\n")
    for start in range(0, max(len(lines) - WINDOW_LINES + WINDOW_STEP, 1), WINDOW_STEP):
        yield function | {
            "id": f"{function['id']}:{start}",
            "docstring": function["docstring"] if start == 0 else "",
            "code": "\n".join(lines[start : start + WINDOW_LINES]),
        }


def beir_record(row: dict[str, str]) -> dict[str, str]:
    names = {"id": "_id", "name": "title", "code": "text"}
    return {names.get(key, key): value for key, value in row.items()}


# ---- build


def measure_build(subset: Subset, records: Records) -> None:
    """Build in a process of its own; the peak is that of the process, as the kernel counted it."""
    command = [sys.executable, "-m", "purlin", "index", "build", "code", subset.source]
    command += ["--name", CORPUS, "--home", subset.home, "--encoder", subset.encoder]
    started = time.monotonic()
    pid = os.posix_spawn(sys.executable, list(map(str, command)), os.environ)
    _, status, usage = os.wait4(pid, 0)
    seconds = time.monotonic() - started
    if status:
        raise RuntimeError(f"the build ended with {os.waitstatus_to_exitcode(status)}")

    manifest = read_manifest(builds.current(subset.home, CORPUS))
    records.add(
        part="build",
        **subset.key,
        passages=manifest.passages,
        seconds=seconds,
        cpu_seconds=usage.ru_utime + usage.ru_stime,
        peak_mb=usage.ru_maxrss / 1024,
        disk_mb=directory_mb(subset.home),
        measures=dict(manifest.measures),
    )


# ---- serve


def serve(subset: Subset) -> AbstractContextManager[Running]:
    port = free_port()
    command = [sys.executable, "-m", "purlin", "serve", "--home", subset.home, "--port", str(port)]
    ready = search_request("a function that opens a file")
    return serving([*command, "--encoder", subset.encoder], port, ready, log=subset.log)


def read_through(directory: Path) -> None:
    """Read all files below a directory, so that the kernel has them in memory."""
    for path in directory.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                while file.read(2**24):
                    pass


def search_request(query: str, mode: str = "hybrid") -> Request:
    body = {"query": query, "corpus": CORPUS, "k": DEPTH, "mode": mode}
    return Request("POST", "/search", body)


def measure_service(
    subset: Subset, queries: Sequence[str], records: Records, steady: Steady
) -> None:
    """Opening, memory, latency with one and eight clients, and the shares of a query's stages.

    The corpus is in the page cache, as after some thousand queries: the first ones would measure
    the disk.
    """
    read_through(subset.home)
    with serve(subset) as running:
        opened = running.memory()
        loads, undisturbed = {}, []
        for clients, start in ((1, 0), (8, LATENCY_QUERIES)):
            requests = [search_request(query) for query in queries[start : start + LATENCY_QUERIES]]
            work = partial(measure, running.port, requests, clients, WARM_UP)
            loads[clients], is_steady = steady.measured(work)
            undisturbed.append(is_steady)
        searched = running.memory()
        stages = stage_means(running.port, list(map(search_request, queries[:STAGE_QUERIES])))

    records.add(
        part="serve",
        **subset.key,
        opening_s=running.seconds,
        opened=opened,
        searched=searched,
        one=asdict(loads[1]),
        eight=asdict(loads[8]),
        steady=all(undisturbed),
        stages=stages,
        elsewhere=share_elsewhere(stages),
    )


# ---- recall


def measure_recall(subset: Subset, queries: Sequence[str], records: Records) -> None:
    """Recall@10 of dense search over HTTP, so that it is that of what is served."""
    if not subset.truth.exists():
        encoder = load_encoder(subset.encoder)
        texts, ids = corpus_texts(subset.source), corpus_ids(subset.source)
        truth = exact_scores(encoder, queries, texts, ids)
        subset.truth.write_text(json.dumps(truth), encoding="utf-8")
    truth = json.loads(subset.truth.read_text(encoding="utf-8"))

    recalls = []
    with serve(subset) as running:
        client = Client(running.port)
        for query in queries:
            _, reply = client.send(search_request(query, "dense"))
            ids = [hit["document_id"] for hit in json.loads(reply)["hits"]]
            recalls.append(recall(ids, truth[query]))
        client.close()

    records.add(
        part="recall",
        **subset.key,
        queries=len(queries),
        recall=statistics.fmean(recalls),
        least=min(recalls),
    )


def corpus_ids(source: Path) -> Iterator[str]:
    with source.open(encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)["_id"]


def exact_scores(
    encoder: TextEncoder, queries: Sequence[str], texts: Iterator[str], ids: Iterator[str]
) -> dict[str, dict[str, float]]:
    """Of each query the nearest 3 x `DEPTH` texts and their cosines, by comparing it with all."""
    query_vectors = encoder.encode(queries, role="query")
    scores = np.empty((len(queries), 0), np.float32)
    rows = np.empty((len(queries), 0), np.int64)
    names = list(ids)
    start = 0

    for block in iter(lambda: list(islice(texts, BLOCK)), []):
        block_rows = np.arange(start, start + len(block))
        block_scores = query_vectors @ encoder.encode(block, role="passage").T
        scores = np.hstack([scores, block_scores])
        rows = np.hstack([rows, np.broadcast_to(block_rows, block_scores.shape)])
        scores, rows = nearest(scores, rows, 3 * DEPTH)
        start += len(block)

    return {
        query: {names[row]: float(score) for row, score in zip(*pair, strict=True)}
        for query, *pair in zip(queries, rows, scores, strict=True)
    }


def nearest(scores: Vectors, rows: Rows, count: int) -> tuple[Vectors, Rows]:
    """The `count` best columns of each line, in no order; all if there are no more."""
    if scores.shape[1] <= count:
        return scores, rows
    best = np.argpartition(-scores, count, axis=1)[:, :count]
    return np.take_along_axis(scores, best, 1), np.take_along_axis(rows, best, 1)


def recall(ids: Sequence[str], exact: dict[str, float]) -> float:
    """Share of the first `DEPTH` places that hold a function as near as the exact tenth."""
    tenth = sorted(exact.values(), reverse=True)[:DEPTH][-1]
    return sum(exact.get(identifier, -1.0) >= tenth - TIE for identifier in ids) / DEPTH


# ---- the run


def measure_size(
    subset: Subset, parts: Sequence[str], data: Path, records: Records, steady: Steady
) -> None:
    queries = load_queries(data)
    subset.write()
    if not has_build(subset.home, CORPUS):
        measure_build(subset, records)

    if "serve" in parts and not records.has(part="serve", **subset.key):
        measure_service(subset, queries, records, steady)
    if "recall" in parts and not records.has(part="recall", **subset.key):
        measure_recall(subset, queries[-RECALL_QUERIES:], records)


def main() -> None:
    parser = command_parser(__doc__)
    parser.add_argument("--functions", type=Path, required=True)
    parser.add_argument("--scratch", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True, help="the directory of the data sets")
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--encoder", default="static")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--windows", action="store_true", help="cut functions into windows")
    options = parser.parse_args()

    records, steady = Records(options.scratch, "growth"), Steady()
    encoder = encoder_directory(options.encoder)
    for size in options.sizes:
        subset = Subset(
            options.functions, options.scratch.absolute(), size, encoder, windows=options.windows
        )
        measure_size(subset, options.parts, options.data, records, steady)


if __name__ == "__main__":
    main()
