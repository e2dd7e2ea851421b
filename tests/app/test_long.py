"""Minutes of load and faults, run by `make test-long`; what was measured is in docs/reliability.md.

`SHARE` in the environment scales counts and times: `make test-long SHARE=0.1` is quick, and proves
a tenth as much.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from purlin.index import builds
from purlin.index.cpus import available_cpus
from purlin.index.encoder.transformer import Encoder
from purlin.index.search.corpus import Corpus
from tests.support.faults import (
    ADMIN,
    KEY_LINE,
    SEARCH,
    answers_or_names_file,
    conforms,
    damaged_files,
    flip,
    kill_under_load,
    search_hits,
)
from tests.support.hash_encoder import HashEncoder
from tests.support.paths import ROOT
from tests.support.serving import FUNCTIONS, make, numbered, until
from tests.support.traffic import (
    Load,
    Reply,
    Request,
    Sender,
    Server,
    memory_limit,
    purlin,
    running,
)

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]

SHARE = float(os.environ.get("SHARE", "1"))
DAY = 86_400  # requests: one a second


def sized(full: float) -> int:
    """Return the share of a full count that SHARE asks for, at least 1."""
    return max(1, round(full * SHARE))


@pytest.fixture
def built_with(released: Encoder) -> Encoder:
    return released


class Samples:
    """Memory and open files of a server over time."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.memory_mb: list[float] = []
        self.files: list[int] = []

    def take(self) -> None:
        self.memory_mb.append(self._server.memory_mb())
        self.files.append(self._server.open_files())

    def every(self, pause_s: float, seconds: float) -> None:
        """Take samples for a while, one at least."""
        deadline = time.monotonic() + seconds
        self.take()
        while time.monotonic() < deadline:
            time.sleep(pause_s)
            self.take()

    def grown_mb(self) -> float:
        """Return the growth of memory from the middle to the last third; the first is warm-up."""
        third = len(self.memory_mb) // 3
        assert third > 0
        return float(
            np.median(self.memory_mb[-third:]) - np.median(self.memory_mb[third : 2 * third])
        )

    def __str__(self) -> str:
        memory, files = self.memory_mb, self.files
        return (
            f"memory {memory[0]:.0f} MB at first, {memory[-1]:.0f} MB at last, at most {max(memory):.0f} MB, "
            f"grown by {self.grown_mb():+.1f} MB; open files {files[0]} at first, {files[-1]} at last"
        )


# ---- the OpenAPI document


def test_thousands_of_replies_conform_to_the_description(home: Path, released: Encoder) -> None:
    make(home, "code", [*FUNCTIONS, *numbered(300)], encoder=released)
    existing = {"corpus": "code", "name": "code", "document_id": FUNCTIONS[0].id}
    with running(home, keys=KEY_LINE) as server:
        statuses = conforms(server, existing, each=sized(150))

    print(f"\n{sum(statuses.values())} requests: {dict(sorted(statuses.items()))}")

    assert sum(statuses.values()) >= sized(2000)
    assert max(statuses) < 500


# ---- overload


def quantile_ms(share: float, replies: list[Reply]) -> float:
    """Return a quantile of the time that answers took, in milliseconds."""
    return float(np.quantile([reply.took_s for reply in replies], share)) * 1000


def overload(
    server: Server, requests: list[Request], seconds: float
) -> tuple[dict[str, float], Samples]:
    """Offer ten times the capacity of the server.

    Returns rates per second and times in milliseconds, and samples of memory and files.
    """
    sender, samples = Sender(server.port, requests), Samples(server)
    first_s = max(3, seconds / 6)

    # After a warm-up: one client alone, then as many as may wait.
    sender.closed(1, 2)
    alone = sender.closed(1, first_s)
    full = sender.closed(4 * available_cpus(), first_s)
    capacity = sum(reply.status == 200 for reply in full) / first_s

    with ThreadPoolExecutor(1) as pool:
        sampling = pool.submit(samples.every, 1.0, seconds)
        started = time.perf_counter()
        replies = sender.offered(10 * capacity, seconds)
        took_s = time.perf_counter() - started
        sampling.result()

    time.sleep(2)
    again = sender.closed(1, 3)

    assert {reply.status for reply in replies} == {200, 503}

    accepted = [reply for reply in replies if reply.status == 200]
    refused = [reply for reply in replies if reply.status == 503]

    results = {
        "capacity": capacity,
        "offered": len(replies) / took_s,
        "accepted": len(accepted) / took_s,
    }
    phases = {"unloaded": alone, "accepted": accepted, "refused": refused, "2 s later": again}
    quantiles = {"p50": 0.5, "p99": 0.99, "max": 1.0}
    for phase, phase_replies in phases.items():
        for name, share in quantiles.items():
            results[f"{phase} {name}"] = quantile_ms(share, phase_replies)

    return results, samples


def test_ten_times_the_capacity_is_refused_quickly(home: Path) -> None:
    """The requests are heavy enough that one event loop can refuse ten times the capacity."""
    requests: list[Request] = [
        (
            "POST",
            "/classify",
            {"texts": [f"{word} {n} of a list" * 8 for n in range(8)], "labels": ["one", "two"]},
        )
        for word in ("sort", "read", "fetch", "count")
    ]
    with running(home) as server:
        results, samples = overload(server, requests, max(5, 60 * SHARE))
        shown = ", ".join(f"{name} {value:.1f}" for name, value in results.items())
        print(f"\nper s and ms: {shown}; {samples}")

    assert results["accepted p99"] < 3 * results["unloaded p99"]
    assert results["refused p99"] < 50
    assert results["2 s later p50"] < 1.5 * results["unloaded p50"]
    assert samples.grown_mb() < 10


# ---- kills


def test_retrying_clients_survive_twenty_kills(home: Path) -> None:
    with running(home) as server:
        ready_s, answered, tries = kill_under_load(server, kills=sized(20))
    print(f"\n{len(ready_s)} kills: ready after {min(ready_s):.1f} to {max(ready_s):.1f} s; {answered} requests of "
          f"3 clients answered in {tries} tries")  # fmt: skip
    assert max(ready_s) < 5


def test_randomly_killed_builds_leave_a_whole_corpus(tmp_path: Path, released: Encoder) -> None:
    sources = tmp_path / "sources"
    sources.mkdir()
    choose = random.Random(0)
    command = purlin("index", "build", "code", sources, "--name", "c", "--home", tmp_path)

    # How long a build takes decides when it is killed.
    write_sources(sources, 0)
    took_s = timed(command)
    write_sources(sources, 1)
    took_s = min(took_s, timed(command))

    finished = 0
    with running(tmp_path) as server:
        for version in range(2, 2 + sized(50)):
            before = builds.current(tmp_path, "c").name
            write_sources(sources, version)
            killed_after(command, choose.uniform(0, 1.1 * took_s))

            now = check_whole(tmp_path, released)
            finished += now != before
            answer = server.client.post("/search", json={"corpus": "c", "query": "version"})

            assert (answer.status_code, len(answer.json()["hits"])) == (200, 10)

            write_sources(sources, -version)
            timed(command)

            assert check_whole(tmp_path, released) != now

            remaining = {path.name for path in (tmp_path / "corpora" / "c").iterdir()}
            assert remaining == {"CURRENT", *builds.builds(tmp_path, "c")}

    latest_s = 1.1 * took_s
    print(
        f"\n{sized(50)} kills within {latest_s:.1f} s of a build's start; {finished} after its end"
    )


def write_sources(directory: Path, version: int) -> None:
    """Write 200 functions that all differ from those of any other version."""
    for number in range(20):
        functions = (
            f"def f{n}_{number}():\n    return 'version {version} of {n}'\n\n" for n in range(10)
        )
        (directory / f"m{number}.py").write_text("".join(functions))


def timed(command: list[str]) -> float:
    """Run a command that succeeds, and return how many seconds it took."""
    started = time.monotonic()
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return time.monotonic() - started


def killed_after(command: list[str], seconds: float) -> None:
    """Start a command and kill it after some seconds, if it still runs."""
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        time.sleep(seconds)
        process.kill()
    assert process.returncode in (0, -signal.SIGKILL)


def check_whole(home: Path, encoder: Encoder) -> str:
    """Check that the active build is whole and of a single version, and return its name."""
    with closing(Corpus.load(builds.current(home, "c"), encoder)) as corpus:
        hits = corpus.search("version", k=200).hits
        assert len(hits) == 200
        assert len({hit.text.split("version ")[1].split()[0] for hit in hits}) == 1
        return corpus.build


# ---- files


def test_damage_to_any_byte_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The corpus is large enough to have every kind of file."""
    monkeypatch.setattr("purlin.index.search.dense.EXACT_ROWS", 4096)
    make(tmp_path, "code", [*FUNCTIONS, *numbered(4_500)])
    with closing(Corpus.load(builds.current(tmp_path, "code"), HashEncoder())) as corpus:
        expected_hits = search_hits(corpus)

    choose = random.Random(0)
    flips = [flip(choose.random()) for _ in range(sized(30))]
    cuts = [_cut_to(choose.random()) for _ in range(sized(30))]

    damages: Counter[str] = Counter()
    answered: Counter[str] = Counter()
    for path in damaged_files(tmp_path, [*flips, *cuts]):
        damages[path.name] += 1
        answered[path.name] += answers_or_names_file(tmp_path, expected_hits, path)

    print(f"\n{damages.total()} damages of {len(damages)} files ({', '.join(sorted(damages))}); "
          f"still right: {dict(answered)}")  # fmt: skip
    files = {"dense.faiss", "vectors.npy", "documents.bin", "manifest.json", "CURRENT"}

    assert files <= damages.keys()
    assert not any(count for name, count in answered.items() if name != "CURRENT")


def _cut_to(share: float) -> Any:
    return lambda content: content[: int(share * len(content))]


# ---- memory and clocks


def test_a_server_with_600_mb_under_heavy_requests(home: Path, released: Encoder) -> None:
    make(home, "code", [*FUNCTIONS, *numbered(20_000)], encoder=released)
    texts = [f"text {n} about sorting numbers" for n in range(sized(10_000))]
    labels = [f"label {n}" for n in range(20)]
    heavy: Request = ("POST", "/classify", {"texts": texts, "labels": labels})
    deep_search = {"corpus": "code", "query": "number", "k": 1000, "explain": True}
    deep: Request = ("POST", "/search", deep_search)
    requests = [heavy, deep, deep, SEARCH]

    with memory_limit(600) as before, running(home, before=before) as server:
        samples = Samples(server)
        with Load(server.url, lambda choose: choose.choice(requests), clients=4) as load:
            samples.every(0.5, max(10, 60 * SHARE))
        print(f"\n{dict(load.statuses)}, {samples}, peak {server.peak_mb():.0f} MB")

        load.assert_all_answered()
        assert server.client.post("/search", json=SEARCH[2]).status_code == 200


LIBFAKETIME = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)


@pytest.mark.skipif(LIBFAKETIME is None, reason="takes a library: apt-get install faketime")
def test_a_wall_clock_set_back_changes_nothing(
    home: Path, released: Encoder, tmp_path: Path
) -> None:
    """Only the wall clock of the server process is set back: the monotonic clock cannot be set."""
    clock = tmp_path / "clock"
    clock.write_text("+0")
    env = {
        "LD_PRELOAD": str(LIBFAKETIME),
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    with running(home, env=env, keys=f"{KEY_LINE} 100000", log="json") as server:
        for offset in ("+0", "-1d", "+2d", "-30d"):
            clock.write_text(offset)
            built = make(home, "code", [*FUNCTIONS, *numbered(len(offset))], encoder=released).name
            until(lambda: search(server)["build"] == built)  # noqa: B023 - called at once

            assert search(server)["took_ms"] >= 0

        stamps = [
            line.split('"time": "')[1][:10]
            for line in server.log().splitlines()
            if '"time": "' in line
        ]
        assert server.stop() == 0

    print(f"\ndays in the log: {sorted(set(stamps))}")
    assert len(set(stamps)) > 2


def search(server: Server) -> dict[str, Any]:
    """Return the body of a successful search."""
    response = server.client.post("/search", json=SEARCH[2], headers=ADMIN)
    assert response.status_code == 200, response.text
    body: dict[str, Any] = response.json()
    return body


# ---- months of builds, a day of traffic


def test_a_thousand_builds_under_load(home: Path, released: Encoder) -> None:
    sizes: dict[str, int] = {}

    def note(response: httpx.Response) -> tuple[str, int]:
        body = response.json()
        return body["build"], body["total"]

    with running(home) as server:
        samples = Samples(server)
        with Load(server.url, lambda _: SEARCH, clients=3, note=note, max_s=3000) as load:
            sizes[builds.current(home, "code").name] = len(FUNCTIONS)
            for turn in range(sized(1000)):
                documents = [*FUNCTIONS, *numbered(turn % 7 + 1, f"number {turn % 5}")]
                build = make(home, "code", documents, encoder=released).name
                sizes[build] = len(documents)
                until(lambda: server.client.get("/corpora/code").json()["build"] == build)  # noqa: B023
                samples.take()

        print(f"\n{sized(1000)} builds, {load.answered} queries {dict(load.statuses)}, answers from "
              f"{len({build for build, _ in load.replies})} builds; {samples}")  # fmt: skip

    load.assert_all_answered()
    assert all(sizes[build] == total for build, total in load.replies)
    assert samples.grown_mb() < 10
    assert samples.files[-1] <= samples.files[len(samples.files) // 3] + 5


READ = [
    "/corpora",
    "/corpora/many",
    "/classifiers",
    "/livez",
    "/readyz",
    "/metrics",
    "/openapi.json",
]
LABELS = [
    ["sport", "politics", "science"],
    [f"label {n}" for n in range(200)],
    ["a > b", "a > c", "d"],
]


def mixed(choose: random.Random) -> Request:
    """Return a request of one of many kinds, a few of them invalid."""
    words = ["sort", "read", "number", "csv", "page", "fetch", "3", "url", "ünïcode"]
    query = " ".join(choose.choices(words, k=3))
    search = {
        "corpus": choose.choice(["code", "many"]),
        "query": query,
        "k": choose.choice([1, 10, 10, 100]),
    }
    options: list[dict[str, Any]] = [
        {}, {"mode": "dense"}, {"mode": "lexical"}, {"explain": True}, {"offset": 20},
        {"corpus": "code", "filter": {"language": "python"}}, {"corpus": "code", "filter": {"lines": {"gte": 2}}},
    ]  # fmt: skip
    texts = [f"{query} {n}" for n in range(choose.choice([1, 1, 5, 50]))]

    weights = [70, 10, 8, 8, 2, 1, 1]
    requests: list[Request] = [
        ("POST", "/search", search | choose.choice(options)),
        ("POST", "/classify", {"texts": texts, "labels": choose.choice(LABELS)}),
        ("GET", choose.choice(READ), None),
        ("GET", f"/corpora/many/documents/n{choose.randrange(600)}", None),
        ("POST", "/search", search | {"k": 0}),
        ("POST", "/search", search | {"corpus": "none"}),
        ("POST", "/qa", {"corpus": "many", "question": query}),
    ]
    return choose.choices(requests, weights)[0]


def day_of(home: Path, encoder: Encoder, seconds: float, samples: Samples) -> Iterator[str]:
    """Sample the server, activate a build 24 times, and yield the name of each."""
    started = time.monotonic()
    for hour in range(24):
        samples.every(1.0, started + seconds * (hour + 1) / 24 - time.monotonic())
        yield make(home, "many", numbered(500 + hour), encoder=encoder).name


def test_a_day_of_traffic_in_fifteen_minutes(home: Path, released: Encoder) -> None:
    make(home, "many", numbered(500), encoder=released)
    seconds = 900 * SHARE
    min_requests = DAY * SHARE

    with running(home) as server:
        samples = Samples(server)
        with Load(server.url, mixed, clients=4, max_s=seconds) as load:
            builds = list(day_of(home, released, seconds, samples))
        print(f"\n{load.answered} requests in {seconds:.0f} s (a day at one a second: {min_requests:.0f}), "
              f"{dict(sorted(load.statuses.items()))}, {len(builds)} builds; {samples}")  # fmt: skip

    assert load.statuses.keys() <= {200, 404, 422}
    assert not load.lost
    assert load.answered >= min_requests
    assert samples.grown_mb() < 10
    assert samples.files[-1] <= samples.files[len(samples.files) // 3] + 5
