"""Measure POST /search or POST /qa with one client: latency, and the share of each stage.

    python -m benchmarks.speed.search --corpus csn --queries queries.jsonl [--mode hybrid]
    python -m benchmarks.speed.search --corpus python --questions questions/python.jsonl

Starts a server on a free loopback port. After one round of warming up, every query is sent once in
each of `--rounds` rounds.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.options import command_parser
from benchmarks.speed.load import Client, Request
from benchmarks.speed.processes import READY, free_port, serving
from purlin.index.evaluation.answers import read_questions
from purlin.index.evaluation.ranking import read_queries


def measure_latency(port: int, requests: Sequence[Request], rounds: int) -> None:
    """Send every request in turn and print percentiles and the median of each stage."""
    client = Client(port)
    times, timings = [], []
    for round_number in range(rounds + 1):
        for request in requests:
            started = time.perf_counter()
            reply = json.loads(client.content(request))
            # Round 0 warms the server up and is not counted.
            if round_number:
                times.append((time.perf_counter() - started) * 1000)
                timings.append(reply["timings_ms"])
    client.close()

    p50, p95, p99 = np.percentile(times, [50, 95, 99])
    print(f"{len(times)} requests: p50 {p50:.2f} ms, p95 {p95:.2f} ms, p99 {p99:.2f} ms")

    stages = {stage: statistics.median(timing[stage] for timing in timings) for stage in timings[0]}
    stages["HTTP and the rest"] = p50 - sum(stages.values())
    for stage, milliseconds in stages.items():
        print(f"  {stage:>18} {milliseconds:6.2f} ms {milliseconds / p50:4.0%}")
    own = sum(stages.get(stage, 0.0) for stage in ("encode", "dense", "lexical"))
    print(f"outside encoding and the two retrievers: {1 - own / p50:.0%}")


def requests_of(options: argparse.Namespace) -> list[Request]:
    common = {"corpus": options.corpus, "explain": True}
    if options.questions:
        questions = read_questions(options.questions)
        return [Request("POST", "/qa", common | {"question": each.question}) for each in questions]

    common |= {"mode": options.mode}
    queries = read_queries(options.queries).values()
    return [Request("POST", "/search", common | {"query": query}) for query in queries]


def main() -> None:
    parser = command_parser(__doc__)
    parser.add_argument("--corpus", required=True)
    texts = parser.add_mutually_exclusive_group(required=True)
    texts.add_argument("--queries", type=Path)
    texts.add_argument("--questions", type=Path)
    parser.add_argument("--home", type=Path, default=Path("var"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--mode", default="hybrid")
    options = parser.parse_args()

    port = free_port()
    command = [sys.executable, "-m", "purlin", "serve", "--home", options.home, "--port", str(port)]
    with tempfile.TemporaryDirectory() as scratch:
        with serving(command, port, READY, log=Path(scratch) / "server.log"):
            measure_latency(port, requests_of(options), options.rounds)


if __name__ == "__main__":
    main()
