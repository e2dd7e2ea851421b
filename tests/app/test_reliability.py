"""Faults of a real server and real builds; tests that take minutes are in `test_long.py`."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any

import httpx
import pytest

from purlin.app.keys import new_key
from purlin.index import builds
from purlin.index.classify.trained import publish_classifier
from purlin.index.encoder.transformer import Encoder
from purlin.index.engines import hosting
from purlin.index.indexing.build import build
from purlin.index.records import Document
from purlin.index.search.corpus import Corpus
from tests.support.documents import source
from tests.support.faults import (
    ADMIN,
    DAMAGES,
    KEY_LINE,
    SEARCH,
    answers_or_names_file,
    conforms,
    damaged,
    damaged_files,
    kill_under_load,
    search_hits,
)
from tests.support.hash_encoder import HashEncoder
from tests.support.paths import ROOT
from tests.support.serving import FUNCTIONS, bearer, make, numbered, until
from tests.support.tiny import staged
from tests.support.traffic import (
    HOST,
    Load,
    Server,
    memory_limit,
    purlin,
    run,
    running,
    small_disk,
)


@pytest.fixture
def built_with(released: Encoder) -> Encoder:
    return released


# ---- requests generated from the OpenAPI document


@pytest.fixture
def described(home: Path, released: Encoder) -> Iterator[tuple[Server, dict[str, Any]]]:
    """A server with keys, and the names of a corpus and a document that exist."""
    make(home, "code", numbered(30), encoder=released)
    make(home, "code", [*FUNCTIONS, *numbered(20)], encoder=released)
    existing = {"corpus": "code", "name": "code", "document_id": FUNCTIONS[0].id}
    with running(home, keys=KEY_LINE) as server:
        yield server, existing


def test_replies_conform_to_the_description(described: tuple[Server, dict[str, Any]]) -> None:
    statuses = conforms(*described, each=8)
    print(dict(statuses))
    assert sum(statuses.values()) > 100
    assert {200, 401, 404, 422} <= statuses.keys()


# ---- builds that are killed

KEPT = [Document("kept", "reference", "kept", "It does not change.")]
_BUILDER = """
import os, shutil, sys
from pathlib import Path
from purlin.index.indexing import reading
from purlin.index.indexing.build import build
from tests.support.hash_encoder import HashEncoder
from tests.support.documents import source
from tests.support.serving import numbered
from tests.app.test_reliability import KEPT

CHANGES = (
    "open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.chmod",
    "os.link", "shutil.rmtree",
)
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
home, moments = Path(sys.argv[1]), Path(sys.argv[2])
copies = 0
watching = True

def copy_before_change(event, arguments):
    global copies, watching
    reads = event == "open" and not arguments[2] & WRITES
    if watching and event in CHANGES and not reads:
        watching = False
        shutil.copytree(home, moments / f"{copies:04}")
        copies += 1
        watching = True

sys.addaudithook(copy_before_change)
sources = [source("new", numbered(8, "new"))]
if len(sys.argv) > 3:
    reading.MOST_CHANGED, reading.SMALLEST_BASE = 1.0, 0
    sources.append(source("kept", KEPT))
segments = build(home, "c", "reference", sources, HashEncoder()).segments
watching = False
print(*segments)
"""


def served_title(home: Path) -> str:
    """Open the active build, which verifies its checksums, and return the title of the best hit."""
    with closing(Corpus.load(builds.current(home, "c"), HashEncoder())) as corpus:
        return corpus.search("new old 3").hits[0].title


@pytest.mark.parametrize("delta", [[], ["delta"]])
def test_a_killed_build_leaves_a_whole_corpus(tmp_path: Path, delta: list[str]) -> None:
    """A copy of the home from before a change is what a kill at that moment leaves behind."""
    home, moments = tmp_path / "home", tmp_path / "moments"

    def rebuild(home: Path) -> None:
        sources = [source("old", numbered(8, "old"))]
        if delta:
            sources.append(source("kept", KEPT))
        build(home, "c", "reference", sources, HashEncoder())
        assert served_title(home) == "old 3"

    for _ in range(builds.KEPT_BUILDS):
        rebuild(home)
    built = run([sys.executable, "-c", _BUILDER, str(home), str(moments), *delta])

    assert built.returncode == 0, built.stderr
    assert built.stdout.split() == ["base", *delta]

    titles = []
    for moment in sorted(moments.iterdir()):
        titles.append(served_title(moment))
        rebuild(moment)

        remaining = {path.name for path in (moment / "corpora" / "c").iterdir()}

        assert remaining == {"CURRENT", *builds.builds(moment, "c")}

    assert served_title(home) == "new 3"
    assert titles.count("old 3") > 20
    # From one change on, the new build is the active one.
    assert titles == sorted(titles, reverse=True)


# ---- damaged files


def test_every_damaged_file_is_named(tmp_path: Path) -> None:
    make(tmp_path, "code", FUNCTIONS)
    with closing(Corpus.load(builds.current(tmp_path, "code"), HashEncoder())) as corpus:
        expected_hits = search_hits(corpus)

    answered = Counter(
        path.name
        for path in damaged_files(tmp_path, DAMAGES)
        if answers_or_names_file(tmp_path, expected_hits, path)
    )

    # CURRENT names the same build without its line break, and only one build exists.
    assert answered.keys() <= {"CURRENT"}


def answers(server: Server) -> list[tuple[int, Any]]:
    """Return statuses and answers of the damaged corpus, of another corpus, and of a classifier."""
    requests = [
        ("/search", {"corpus": "code", "query": "read rows of a csv file", "explain": True}),
        ("/search", {"corpus": "other", "query": "number 3"}),
        ("/classify", {"classifier": "tickets", "texts": ["news about sports"]}),
    ]
    replies = [server.client.post(path, json=body) for path, body in requests]
    bodies = [reply.json() for reply in replies]

    return [
        (reply.status_code, body.get("hits") or body.get("results") or body["detail"])
        for reply, body in zip(replies, bodies, strict=True)
    ]


def test_damage_to_served_files_never_changes_answers(home: Path, released: Encoder) -> None:
    make(home, "other", numbered(5), encoder=released)
    publish_classifier(home, "tickets", staged(home / "staged"))
    directories = [home / "corpora" / "code", home / "classifiers"]

    with running(home, open_timeout_s=60) as server:
        expected = answers(server)
        assert [status for status, _ in expected] == [200] * 3

        # Small files are in memory, so that they are not read again.
        served = [
            path
            for directory in directories
            for path in sorted(directory.rglob("*.*"))
            if path.is_file()
        ]
        for number, path in enumerate([*served, directories[0] / "CURRENT"]):
            # Half of the damages to one file, the others to the next.
            for _ in damaged(path, DAMAGES[number % 2 :: 2]):
                assert answers(server) == expected

        make(home, "code", FUNCTIONS, encoder=released)
        until(lambda: answers(server) == expected)

        assert "Traceback" not in server.log()


def test_a_restart_refuses_a_damaged_corpus(home: Path) -> None:
    with running(home) as server:
        assert server.client.post("/search", json=SEARCH[2]).status_code == 200

        vectors = builds.current(home, "code") / "base" / "vectors.npy"
        os.truncate(vectors, vectors.stat().st_size // 2)
        server.kill()
        server.start()
        refused = server.client.post("/search", json=SEARCH[2])

        assert (refused.status_code, "vectors.npy" in refused.json()["detail"]) == (503, True)


# ---- disks


def test_a_full_or_read_only_disk_is_still_served(tmp_path: Path, released: Encoder) -> None:
    with small_disk(tmp_path, 16) as remount:
        older = make(tmp_path, "code", numbered(30), encoder=released).name
        active = make(tmp_path, "code", FUNCTIONS, encoder=released).name
        with running(tmp_path, keys=KEY_LINE) as server:
            server.client.headers.update(ADMIN)
            ballast = tmp_path / "ballast"
            fill_disk(ballast)
            nothing_changes(tmp_path, server, older, active, "The disk is full")
            ballast.unlink()
            remount("ro")
            nothing_changes(tmp_path, server, older, active, "PURLIN_HOME cannot be written to")

            assert server.client.delete("/corpora/code").status_code == 503

            remount("rw")
            activated = server.client.post("/corpora/code/activate", json={"build": older})

            assert activated.status_code == 200

            until(lambda: server.client.post("/search", json=SEARCH[2]).json()["build"] == older)


_MANY = """
import sys
from pathlib import Path
from purlin.index.indexing.build import build
from purlin.index.records import Document
from tests.support.hash_encoder import HashEncoder
from tests.support.documents import source

HashEncoder.dim = 2048
documents = [Document(str(n), "product", "title", "") for n in range(900)]
build(Path(sys.argv[1]), "many", "product", [source("f", documents)], HashEncoder())
"""


def test_a_disk_filled_by_vectors_is_reported(tmp_path: Path) -> None:
    with small_disk(tmp_path, 3):
        result = run([sys.executable, "-c", _MANY, str(tmp_path)])
        assert result.returncode == 1
        assert "The disk is full" in result.stderr
        assert not list((tmp_path / "corpora").glob("many/*"))


def fill_disk(ballast: Path) -> None:
    """Write a file until the disk is full."""
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(bytes(4096)):
            pass


def nothing_changes(home: Path, server: Server, older: str, active: str, why: str) -> None:
    """Check that a build and an activation fail because of `why`, and change nothing served."""
    before = sorted((home / "corpora" / "code").iterdir())
    built = run(purlin("index", "build", "code", ROOT / "app", "--name", "code", "--home", home))

    assert (built.returncode, why in built.stderr) == (1, True), built.stderr

    refused = server.client.post("/corpora/code/activate", json={"build": older})
    assert refused.status_code == 503
    assert refused.json()["type"] == "urn:purlin:problem:storage-failed"
    assert why in refused.json()["detail"]

    response = server.client.post("/search", json=SEARCH[2])
    assert (response.status_code, response.json()["build"]) == (200, active)
    assert sorted((home / "corpora" / "code").iterdir()) == before


# ---- clocks


class Clock(datetime):
    """A clock that a test sets."""

    time = datetime(2026, 5, 1, tzinfo=UTC)

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Any:
        cls.time += timedelta(seconds=1)
        return cls.time


def test_newest_builds_do_not_depend_on_the_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(builds, "datetime", Clock)
    encoder = HashEncoder()
    names: list[str] = []
    for hours in (0, 0, -1, -1, 24, -48):
        Clock.time += timedelta(hours=hours)
        names.append(make(tmp_path, "code", numbered(len(names) + 3), encoder=encoder).name)

    assert builds.builds(tmp_path, "code") == names[-builds.KEPT_BUILDS :]
    assert hosting.roll_back(tmp_path, "code") == names[-2]


# ---- open files


def test_connections_beyond_few_files_are_closed(home: Path) -> None:
    few_files = ["sh", "-c", 'ulimit -n 64; exec "$@"', "sh"]
    with running(home, before=few_files) as server:
        with ExitStack() as stack:
            for _ in range(150):
                stack.enter_context(socket.create_connection((HOST, server.port), 60))
            until(lambda: "connections are closed unanswered, as 32 are open" in server.log())

        until(lambda: server.metric("process_open_fds") < 32)
        assert server.client.post("/search", json=SEARCH[2]).status_code == 200
        assert "Traceback" not in server.log()


# ---- signals


def test_sigterm_finishes_running_requests(home: Path) -> None:
    long = {
        "texts": [f"{n} {'about sorting numbers ' * 8}" for n in range(300)],
        "labels": ["numbers", "files"],
    }
    # As many threads as clients, however few processors there are.
    options = {"shutdown_timeout_s": 150, "threads": 4}
    with running(home, **options) as server, ThreadPoolExecutor(2) as pool:
        long_requests = [
            pool.submit(httpx.post, f"{server.url}/classify", json=long, timeout=170)
            for _ in range(2)
        ]
        until(lambda: server.metric("purlin_running") == 2)
        with Load(server.url, lambda _: SEARCH, clients=2) as load:
            load.await_answers(2)
            assert server.stop() == 0

            until(lambda: any("ConnectError" in lost for lost in load.lost))

        responses = [request.result() for request in long_requests]
        assert [response.status_code for response in responses] == [200, 200]
        assert [len(response.json()["results"]) for response in responses] == [300, 300]
        assert load.statuses.keys() == {200}
        # No answer was cut short.
        assert not [lost for lost in load.lost if "complete" in lost]
        assert "Traceback" not in server.log()


def test_sighup_reads_the_keys_again_and_ends_nothing(home: Path, tmp_path: Path) -> None:
    first, second = (new_key(name, ["search"]) for name in ("first", "second"))
    file = tmp_path / "keys"
    file.write_text(first[1])

    with running(home, keys_file=file) as server:

        def statuses() -> list[int]:
            return [
                server.client.post("/search", json=SEARCH[2], headers=bearer(secret)).status_code
                for secret, _ in (first, second)
            ]

        assert statuses() == [200, 401]
        file.write_text(second[1])
        server.process.send_signal(signal.SIGHUP)
        until(lambda: statuses() == [401, 200])

        file.write_text("nonsense")
        server.process.send_signal(signal.SIGHUP)
        until(lambda: "the keys stay as they were" in server.log())
        assert statuses() == [401, 200]
        assert server.stop() == 0


def test_a_server_goes_on_without_its_terminal(home: Path) -> None:
    controller, terminal = os.openpty()
    in_terminal = f"""
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl({terminal}, termios.TIOCSCTTY, 0)
for standard in range(3):
    os.dup2({terminal}, standard)
os.execv(sys.executable, [sys.executable, "-m", "purlin", *sys.argv[1:]])
"""
    with running(home, script=in_terminal, pass_fds=(terminal,)) as server:
        os.close(terminal)
        # Its foreground processes get SIGHUP, and what they write from now on fails.
        os.close(controller)
        for _ in range(3):
            assert server.client.post("/search", json=SEARCH[2]).status_code == 200
            # A warning is written.
            server.process.send_signal(signal.SIGHUP)
            time.sleep(0.3)
        assert server.stop() == 0


def test_retrying_clients_survive_kills(home: Path) -> None:
    with running(home) as server:
        _, answered, tries = kill_under_load(server, kills=2)
    assert tries > answered > 3


# ---- memory


def test_a_server_with_600_mb_answers(home: Path) -> None:
    """A memory cgroup limits the server; docs/reliability.md has the requests that need more."""
    body = {
        "texts": ["a text about sorting numbers " * 20] * 200,
        "labels": [f"label {n}" for n in range(50)],
    }
    with memory_limit(600) as before, running(home, before=before) as server:
        with Load(server.url, lambda _: SEARCH, clients=2) as load:
            assert server.client.post("/classify", json=body).status_code == 200
            load.await_answers(20)

        load.assert_all_answered()
        assert server.peak_mb() < 600
