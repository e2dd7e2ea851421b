"""Latency of POST /search, or of POST /qa, with one client, and where the time goes.

    python benchmarks/search.py --corpus csn --queries queries.jsonl [--home var] [--rounds 5] [--mode hybrid]
    python benchmarks/search.py --corpus python --questions questions/python.jsonl [--home var] [--rounds 5]

Starts a server of its own on a free loopback port, warms it with one round and then asks every query in each round.
"""

from __future__ import annotations

import argparse
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path

import httpx
import numpy as np

from index.evaluation.answers import read_questions
from index.evaluation.ranking import read_queries


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--corpus", required=True)
    asked = options.add_mutually_exclusive_group(required=True)
    asked.add_argument("--queries", type=Path)
    asked.add_argument("--questions", type=Path)
    options.add_argument("--home", type=Path, default=Path("var"))
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--mode", default="hybrid")
    given = options.parse_args()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [
        sys.executable,
        "-m",
        "purlin",
        "serve",
        "--home",
        str(given.home),
        "--port",
        str(port),
    ]
    server = subprocess.Popen(command)
    try:
        measure(f"http://127.0.0.1:{port}", given)
    finally:
        server.terminate()
        server.wait(30)


def measure(url: str, given: argparse.Namespace) -> None:
    client = httpx.Client(base_url=url, timeout=60)
    wait_ready(client)
    path, bodies = requests(given)
    times, parts = [], []
    for round_number in range(given.rounds + 1):
        for body in bodies:
            started = time.perf_counter()
            answer = client.post(path, json=body).raise_for_status().json()
            if round_number:
                times.append((time.perf_counter() - started) * 1000)
                parts.append(answer["timings_ms"])
    p50, p95, p99 = np.percentile(times, [50, 95, 99])
    print(f"{len(times)} requests: p50 {p50:.2f} ms, p95 {p95:.2f} ms, p99 {p99:.2f} ms")
    stages = {stage: statistics.median(p[stage] for p in parts) for stage in parts[0]}
    stages["HTTP and the rest"] = p50 - sum(stages.values())
    for stage, milliseconds in stages.items():
        print(f"  {stage:>18} {milliseconds:6.2f} ms {milliseconds / p50:4.0%}")


def requests(given: argparse.Namespace) -> tuple[str, list[dict[str, object]]]:
    common = {"corpus": given.corpus, "explain": True}
    if given.questions:
        return "/qa", [
            common | {"question": one.question} for one in read_questions(given.questions)
        ]
    return "/search", [
        common | {"query": query, "mode": given.mode}
        for query in read_queries(given.queries).values()
    ]


def wait_ready(client: httpx.Client) -> None:
    for _ in range(240):
        try:
            if client.get("/readyz").status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.25)
    raise SystemExit("the server did not become ready")


if __name__ == "__main__":
    main()
