"""Measure POST /search or POST /qa: latency and the share of each stage, then throughput.

    python -m benchmarks.speed.search --corpus csn --queries queries.jsonl [--mode hybrid]
    python -m benchmarks.speed.search --corpus csn --queries queries.jsonl --workers 2 --clients 8
    python -m benchmarks.speed.search --corpus python --questions questions/python.jsonl

Starts a server on a free loopback port. After one round of warming up, one client sends every query
once in each of `--rounds` rounds. Then `--clients` clients send queries for `--seconds`.
"""

from __future__ import annotations

import argparse
import http.client
import itertools
import json
import socket
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import numpy as np

from purlin.index.evaluation.answers import read_questions
from purlin.index.evaluation.ranking import read_queries


def measure_latency(url: str, options: argparse.Namespace) -> None:
    """Send every request in turn and print percentiles and the median of each stage."""
    client = httpx.Client(base_url=url, timeout=60)
    wait_ready(client)
    path, bodies = request_bodies(options)

    times, timings = [], []
    for round_number in range(options.rounds + 1):
        for body in bodies:
            started = time.perf_counter()
            reply = client.post(path, json=body).raise_for_status().json()
            # Round 0 warms the server up and is not counted.
            if round_number:
                times.append((time.perf_counter() - started) * 1000)
                timings.append(reply["timings_ms"])

    p50, p95, p99 = np.percentile(times, [50, 95, 99])
    print(f"{len(times)} requests: p50 {p50:.2f} ms, p95 {p95:.2f} ms, p99 {p99:.2f} ms")

    stages = {stage: statistics.median(timing[stage] for timing in timings) for stage in timings[0]}
    stages["HTTP and the rest"] = p50 - sum(stages.values())
    for stage, milliseconds in stages.items():
        print(f"  {stage:>18} {milliseconds:6.2f} ms {milliseconds / p50:4.0%}")
    own = sum(stages.get(stage, 0.0) for stage in ("encode", "dense", "lexical"))
    print(f"outside encoding and the two retrievers: {1 - own / p50:.0%}")

    if options.clients:
        measure_throughput(url, path, bodies, options)


def measure_throughput(
    url: str, path: str, bodies: list[dict[str, object]], options: argparse.Namespace
) -> None:
    """Send requests from several clients, each the next when the last is answered."""
    address = url.removeprefix("http://")
    encoded = [json.dumps({**body, "explain": False}).encode() for body in bodies]
    deadline = time.perf_counter() + options.seconds
    times: list[float] = []
    refused: list[int] = []

    def client(number: int) -> None:
        connection = http.client.HTTPConnection(address, timeout=60)
        for body in itertools.cycle(encoded[number:] + encoded[:number]):
            started = time.perf_counter()
            if started > deadline:
                break
            connection.request("POST", path, body, {"Content-Type": "application/json"})
            reply = connection.getresponse()
            reply.read()
            if reply.status == 200:
                times.append((time.perf_counter() - started) * 1000)
            else:
                refused.append(reply.status)
        connection.close()

    with ThreadPoolExecutor(options.clients) as pool:
        for finished in [pool.submit(client, number) for number in range(options.clients)]:
            finished.result()

    p50, p95 = np.percentile(times, [50, 95])
    print(
        f"{options.clients} clients, {options.workers} workers: "
        f"{len(times) / options.seconds:.1f} replies/s, p50 {p50:.2f} ms, p95 {p95:.2f} ms, "
        f"{len(refused)} refused"
    )


def request_bodies(options: argparse.Namespace) -> tuple[str, list[dict[str, object]]]:
    """The endpoint's path, and the body of each request."""
    common = {"corpus": options.corpus, "explain": True}
    if options.questions:
        questions = read_questions(options.questions)
        return "/qa", [common | {"question": question.question} for question in questions]

    queries = read_queries(options.queries).values()
    return "/search", [common | {"query": query, "mode": options.mode} for query in queries]


def wait_ready(client: httpx.Client) -> None:
    """Poll /readyz for up to a minute; exit if the server is not ready by then."""
    for _ in range(240):
        try:
            if client.get("/readyz").status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.25)
    raise SystemExit("the server did not become ready within 60 s; see its output above")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpus", required=True)
    requests = parser.add_mutually_exclusive_group(required=True)
    requests.add_argument("--queries", type=Path)
    requests.add_argument("--questions", type=Path)
    parser.add_argument("--home", type=Path, default=Path("var"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--mode", default="hybrid")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--clients", type=int, default=0, help="0 leaves throughput out")
    parser.add_argument("--seconds", type=float, default=15.0)
    options = parser.parse_args()

    # The system chooses a free port; it is released for the server to bind.
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]

    command = [sys.executable, "-m", "purlin", "serve"]
    command += ["--home", str(options.home), "--port", str(port)]
    command += ["--workers", str(options.workers)]
    server = subprocess.Popen(command)
    try:
        measure_latency(f"http://127.0.0.1:{port}", options)
    finally:
        server.terminate()
        server.wait(30)


if __name__ == "__main__":
    main()
