"""Search services side by side: requests per second, latency, memory and nDCG@10."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

from benchmarks.peers.contestants import CONTESTANTS, Contestant
from benchmarks.speed.corpora import Shared, judged_set, load_queries
from benchmarks.speed.load import Client, measure
from benchmarks.speed.processes import Running
from benchmarks.speed.records import Records
from benchmarks.speed.stages import share_elsewhere, stage_means
from benchmarks.speed.steady import Steady

CLIENTS = (1, 8)
# One process each, whose metrics are its own.
STAGED = ("purlin", "purlin-dense")
WARM_UP = 30


def compare(
    scratch: Path, data: Path, corpus: str, names: Sequence[str], rounds: int, requests: int
) -> None:
    """Measure the services in turns: A B C, A B C, ...; a round that is recorded is not repeated.

    All services run at the same time and only one of them has work, while the machine is steady.
    """
    shared = Shared(scratch, judged_set(corpus, data))
    shared.prepare()
    contestants = [CONTESTANTS[name](shared) for name in names]
    for contestant in contestants:
        contestant.prepare()

    records, steady = Records(scratch, "search"), Steady()
    queries = load_queries(data)
    with ExitStack() as stack:
        services = [
            (contestant, stack.enter_context(contestant.serve())) for contestant in contestants
        ]
        for contestant, running in services:
            measure_quality(contestant, running, records)
        for contestant, running in services:
            if contestant.name in STAGED:
                measure_stages(contestant, running, records, queries[:requests])
        for number in range(rounds):
            for clients in CLIENTS:
                start = (number * len(CLIENTS) + CLIENTS.index(clients)) * requests
                part = [queries[(start + offset) % len(queries)] for offset in range(requests)]
                for contestant, running in services:
                    measure_load(contestant, running, records, steady, part, clients, number)


def measure_quality(contestant: Contestant, running: Running, records: Records) -> None:
    """nDCG@10 on the judged queries, through the same requests that are timed afterwards."""
    judged = contestant.shared.judged
    key = {"part": "quality", "corpus": judged.name, "contestant": contestant.name}
    if records.has(**key):
        return

    client = Client(running.port)
    qrels = judged.qrels()
    run: dict[str, list[str]] = {}
    for identifier, query in judged.queries().items():
        if identifier in qrels:
            run[identifier] = contestant.ids(client.content(contestant.request(query)))
    client.close()

    records.add(**key, ndcg=judged.ndcg(run), queries=len(run), opening_s=running.seconds)


def measure_stages(
    contestant: Contestant, running: Running, records: Records, queries: Sequence[str]
) -> None:
    """Where the time of one of Purlin's searches goes, with one client."""
    key = {"part": "stages", "corpus": contestant.shared.judged.name, "contestant": contestant.name}
    if records.has(**key):
        return

    requests = [contestant.request(query) for query in queries]
    measure(running.port, requests, 1)  # in the page cache, as after some thousand queries
    stages = stage_means(running.port, requests)
    records.add(**key, stages=stages, elsewhere=share_elsewhere(stages))


def measure_load(
    contestant: Contestant,
    running: Running,
    records: Records,
    steady: Steady,
    queries: Sequence[str],
    clients: int,
    number: int,
) -> None:
    corpus = contestant.shared.judged.name
    key = {"part": "load", "corpus": corpus, "contestant": contestant.name}
    key_of_round = key | {"clients": clients, "round": number}
    if records.has(**key_of_round):
        return

    requests = [contestant.request(query) for query in queries]
    load, is_steady = steady.measured(lambda: measure(running.port, requests, clients, WARM_UP))
    records.add(**key_of_round | asdict(load) | running.memory(), steady=is_steady)
