"""Faults done to a real server and real builds. Those that take minutes are in `test_long.py`."""

from __future__ import annotations

import os
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any

import httpx
import pytest
import requests
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable

from app.access import new_key
from app.open_builds import OpenCorpora
from index import builds
from index.classify.trained import publish_classifier
from index.encoder import Encoder
from index.errors import Damaged
from index.indexing.build import build
from index.search.corpus import Corpus
from tests.conftest import HashEncoder, source
from tests.serving import FUNCTIONS, make, numbered
from tests.tiny import staged
from tests.traffic import (
    ROOT,
    Load,
    Request,
    Retrying,
    Server,
    memory_limit,
    purlin,
    run,
    running,
    small_disk,
    until,
)

SEARCH: Request = ("POST", "/search", {"corpus": "code", "query": "sort numbers"})
KEY, KEY_LINE = new_key("test", ["search", "classify", "qa", "admin"])
ADMIN = {"Authorization": f"Bearer {KEY}"}


@pytest.fixture
def built_with(released: Encoder) -> Encoder:
    return released


# ---- whatever the OpenAPI document allows, and what it does not


def conforms(server: Server, known: dict[str, Any], each: int) -> Counter[int]:
    """Send up to `each` requests that the server's description allows, and as many that it does not, to every
    operation; half of them name what exists (`known`). Returns how many got which status."""
    import schemathesis  # takes a second, which other tests need not wait for

    schema = schemathesis.openapi.from_url(f"{server.url}/openapi.json")
    statuses: Counter[int] = Counter()
    with requests.Session() as session:
        for found in schema.get_all_operations():
            operation = found.ok()
            for mode in schemathesis.GenerationMode:
                if (
                    mode.is_positive
                    or operation.body
                    or operation.path_parameters
                    or operation.query
                ):
                    statuses += _sent(operation, mode, known, each, session)
    return statuses


def _sent(
    operation: Any, mode: Any, known: dict[str, Any], most: int, session: requests.Session
) -> Counter[int]:
    from schemathesis.specs.openapi import checks

    statuses: Counter[int] = Counter()
    wanted = [
        checks.status_code_conformance,
        checks.content_type_conformance,
        checks.response_schema_conformance,
    ]

    @settings(
        max_examples=most,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(
        case=operation.as_strategy(mode),
        steered=st.booleans(),
        key=st.sampled_from([*[ADMIN] * 5, {}]),
    )
    def send(case: Any, steered: bool, key: dict[str, str]) -> None:
        if steered:
            _steer(case, known)
        response = case.call(headers=key, session=session)
        statuses[response.status_code] += 1
        assert response.status_code < 500, response.text
        case.validate_response(response, checks=wanted)

    with suppress(Unsatisfiable):  # where any text will do, there is nothing that is not allowed
        send()
    return statuses


def _steer(case: Any, known: dict[str, Any]) -> None:
    for place in (case.path_parameters, case.body):
        if isinstance(place, dict):
            place |= {name: value for name, value in known.items() if name in place}


@pytest.fixture
def described(home: Path, released: Encoder) -> Iterator[tuple[Server, dict[str, Any]]]:
    """A server with keys, and names of what it has."""
    make(home, "code", numbered(30), released)
    make(home, "code", [*FUNCTIONS, *numbered(20)], released)
    known = {"corpus": "code", "name": "code", "document_id": FUNCTIONS[0].id}
    with running(home, keys=KEY_LINE) as server:
        yield server, known


def test_what_the_description_allows_is_answered_as_it_says(
    described: tuple[Server, dict[str, Any]],
) -> None:
    statuses = conforms(*described, each=12)
    print(dict(statuses))
    assert sum(statuses.values()) > 150
    assert {200, 401, 404, 422} <= statuses.keys()


# ---- builds that are killed

_BUILDER = """
import shutil, sys
from pathlib import Path
from index.indexing.build import build
from tests.conftest import HashEncoder, source
from tests.serving import numbered

CHANGES = ("open", "sqlite3.connect", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.chmod", "shutil.rmtree")
home, moments = Path(sys.argv[1]), Path(sys.argv[2])
taken = 0
watching = True

def take(event, _):
    global taken, watching
    if watching and event in CHANGES:
        watching = False
        shutil.copytree(home, moments / f"{taken:04}")
        taken += 1
        watching = True

sys.addaudithook(take)
build(home, "c", "reference", [source("new", numbered(8, "new"))], HashEncoder())
watching = False
"""


def served_title(home: Path) -> str:
    """Title of the best hit of the corpus that is active, after comparing all its files with their checksums."""
    with closing(Corpus.load(builds.current(home, "c"), HashEncoder())) as corpus:
        return corpus.search("new old 3").hits[0].title


def test_a_build_killed_before_any_of_its_changes_leaves_a_whole_corpus(tmp_path: Path) -> None:
    """A copy of the home taken before a change is what a kill at that moment leaves."""
    home, moments = tmp_path / "home", tmp_path / "moments"

    def rebuild(home: Path) -> None:
        build(home, "c", "reference", [source("old", numbered(8, "old"))], HashEncoder())
        assert served_title(home) == "old 3"

    for _ in range(builds.KEPT_BUILDS):
        rebuild(home)
    built = run([sys.executable, "-c", _BUILDER, str(home), str(moments)])
    assert built.returncode == 0, built.stderr
    titles = []
    for moment in sorted(moments.iterdir()):
        titles.append(served_title(moment))
        rebuild(moment)
        left = {path.name for path in (moment / "corpora" / "c").iterdir()}
        assert left == {"CURRENT", *builds.builds(moment, "c")}
    assert served_title(home) == "new 3"
    assert titles.count("old 3") > 20
    assert titles == sorted(
        titles, reverse=True
    )  # from one change on, the new build is the active one


# ---- files that are not as they were written


def _cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


def _flip(at: float) -> Callable[[bytes], bytes]:
    def flipped(content: bytes) -> bytes:
        position = int(at * (len(content) - 1))
        return content[:position] + bytes([content[position] ^ 1]) + content[position + 1 :]

    return flipped


HARMS = [_cut, lambda content: content[:-1], lambda content: b"", _flip(0), _flip(0.5), _flip(1)]


def harmed(home: Path, harms: Sequence[Callable[[bytes], bytes]]) -> Iterator[Path]:
    """Every file of the active build and CURRENT, each harmed in every way; it is whole again afterwards."""
    directory = builds.current(home, "code")
    files = sorted(path for path in directory.rglob("*") if path.is_file())
    for path in [directory.parent / "CURRENT", *files]:
        yield from each_harm(path, harms)


def each_harm(path: Path, harms: Sequence[Callable[[bytes], bytes]] = HARMS) -> Iterator[Path]:
    """One file, harmed in place in one way after the other."""
    whole = path.read_bytes()
    for harm in harms:
        path.write_bytes(harm(whole))
        yield path
    path.write_bytes(whole)


def answer_or_name(home: Path, whole: str, path: Path) -> bool:
    """Open the corpus and search it: the answer is that of the whole corpus, or an error that names the file."""
    with closing(OpenCorpora(home, HashEncoder(), timeout_s=30)) as corpora:
        try:
            with corpora.lease("code") as corpus:
                assert hits(corpus) == whole
            return True
        except Damaged as error:
            named = path.name in error.message
        assert named
        assert corpora.status("code").state == "refused"
        return False


def hits(corpus: Corpus) -> str:
    return repr(corpus.search("read rows of a csv file", explain=True).hits)


def test_every_file_that_was_harmed_is_named(tmp_path: Path) -> None:
    make(tmp_path, "code", FUNCTIONS, HashEncoder())
    with closing(Corpus.load(builds.current(tmp_path, "code"), HashEncoder())) as corpus:
        whole = hits(corpus)
    answered = Counter(
        path.name for path in harmed(tmp_path, HARMS) if answer_or_name(tmp_path, whole, path)
    )
    assert answered.keys() <= {
        "CURRENT"
    }  # without its line break it says the same, and no build but one is there


def answers(server: Server) -> list[tuple[int, Any]]:
    """What is answered from the corpus that is harmed, from another one, and by a classifier."""
    replies = [
        server.client.post(
            "/search", json={"corpus": "code", "query": "read rows of a csv file", "explain": True}
        ),
        server.client.post("/search", json={"corpus": "other", "query": "number 3"}),
        server.client.post(
            "/classify", json={"classifier": "tickets", "texts": ["news about sports"]}
        ),
    ]
    found = [(reply.status_code, reply.json()) for reply in replies]
    return [
        (status, body.get("hits") or body.get("results") or body["detail"])
        for status, body in found
    ]


def test_whatever_is_done_to_what_is_served_it_is_answered_rightly_or_refused_by_name(
    home: Path, released: Encoder
) -> None:
    make(home, "other", numbered(5), released)
    publish_classifier(home, "tickets", staged(home / "staged"))
    shelves = [home / "corpora" / "code", home / "classifiers"]
    with running(home, open_timeout_s=60) as server:
        whole = answers(server)
        assert [status for status, _ in whole] == [200] * 3
        in_memory = (
            path
            for shelf in shelves
            for path in sorted(shelf.rglob("*.*"))
            if path.suffix != ".sqlite"
        )
        for path in [*(path for path in in_memory if path.is_file()), shelves[0] / "CURRENT"]:
            for _ in each_harm(path):
                assert answers(server) == whole
        for _ in each_harm(builds.current(home, "code") / "documents.sqlite"):
            for _ in range(2):
                refused, *others = answers(server)
                assert (refused[0], "documents.sqlite" in refused[1], others) == (
                    503,
                    True,
                    whole[1:],
                )
        make(home, "code", FUNCTIONS, released)
        until(lambda: answers(server) == whole)
        assert "Traceback" not in server.log()


def test_a_corpus_that_is_harmed_while_it_is_served_is_refused_by_the_next_start(
    home: Path,
) -> None:
    with running(home) as server:
        assert server.client.post("/search", json=SEARCH[2]).status_code == 200
        vectors = builds.current(home, "code") / "vectors.npy"
        os.truncate(vectors, vectors.stat().st_size // 2)
        server.kill()
        server.start()
        refused = server.client.post("/search", json=SEARCH[2])
        assert (refused.status_code, "vectors.npy" in refused.json()["detail"]) == (503, True)


# ---- disks


def test_a_full_or_read_only_disk_keeps_nothing_from_being_served(
    tmp_path: Path, released: Encoder
) -> None:
    with small_disk(tmp_path, 16) as remount:
        older = make(tmp_path, "code", numbered(30), released).name
        active = make(tmp_path, "code", FUNCTIONS, released).name
        with running(tmp_path, keys=KEY_LINE) as server:
            server.client.headers.update(ADMIN)
            ballast = tmp_path / "ballast"
            fill(ballast)
            nothing_changes(tmp_path, server, older, active, "The disk is full")
            ballast.unlink()
            remount("ro")
            nothing_changes(tmp_path, server, older, active, "PURLIN_HOME cannot be written to")
            assert server.client.delete("/corpora/code").status_code == 503
            remount("rw")
            assert (
                server.client.post("/corpora/code/activate", json={"build": older}).status_code
                == 200
            )
            until(lambda: server.client.post("/search", json=SEARCH[2]).json()["build"] == older)


_MANY = """
import sys
from pathlib import Path
from index.indexing.build import build
from index.records import Document
from tests.conftest import HashEncoder, source

HashEncoder.dim = 2048
documents = [Document(str(n), "product", "title", "") for n in range(900)]
build(Path(sys.argv[1]), "many", "product", [source("f", documents)], HashEncoder())
"""


def test_a_disk_that_fills_up_with_vectors_is_said(tmp_path: Path) -> None:
    with small_disk(tmp_path, 3):
        done = run([sys.executable, "-c", _MANY, str(tmp_path)])
        assert done.returncode == 1
        assert "The disk is full" in done.stderr
        assert not list((tmp_path / "corpora").glob("many/*"))


def fill(ballast: Path) -> None:
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(bytes(4096)):
            pass


def nothing_changes(home: Path, server: Server, older: str, active: str, why: str) -> None:
    """A build and an activation fail and say why; the active build is served as before, and no litter stays."""
    before = sorted((home / "corpora" / "code").iterdir())
    built = run(purlin("index", "build", "code", ROOT / "app", "--name", "code", "--home", home))
    assert (built.returncode, why in built.stderr) == (1, True), built.stderr
    refused = server.client.post("/corpora/code/activate", json={"build": older})
    assert (refused.status_code, refused.json()["type"]) == (
        503,
        "urn:purlin:problem:storage-failed",
    )
    assert why in refused.json()["detail"]
    found = server.client.post("/search", json=SEARCH[2])
    assert (found.status_code, found.json()["build"]) == (200, active)
    assert sorted((home / "corpora" / "code").iterdir()) == before


# ---- clocks


class Clock(datetime):
    """A clock that a test sets."""

    time = datetime(2026, 5, 1, tzinfo=UTC)

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Any:
        cls.time += timedelta(seconds=1)
        return cls.time


def test_builds_made_after_the_clock_was_set_back_are_the_newest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(builds, "datetime", Clock)
    encoder = HashEncoder()
    made = []
    for hours in (0, 0, -1, -1, 24, -48):
        Clock.time += timedelta(hours=hours)
        made.append(make(tmp_path, "code", numbered(len(made) + 3), encoder).name)
    assert builds.builds(tmp_path, "code") == made[-builds.KEPT_BUILDS :]
    assert builds.roll_back(tmp_path, "code") == made[-2]


# ---- signals


def test_sigterm_in_the_middle_of_requests_finishes_them(home: Path) -> None:
    long = {
        "texts": [f"{n} {'about sorting numbers ' * 8}" for n in range(300)],
        "labels": ["numbers", "files"],
    }
    with running(home, shutdown_timeout_s=150) as server, ThreadPoolExecutor(2) as pool:
        asked = [
            pool.submit(httpx.post, f"{server.url}/classify", json=long, timeout=170)
            for _ in range(2)
        ]
        until(lambda: server.metric("purlin_running") == 2)
        with Load(server.url, lambda _: SEARCH, clients=2) as load:
            until(lambda: load.answered > 2)
            assert server.stop() == 0
            until(lambda: any("ConnectError" in lost for lost in load.lost))
        assert [
            (one.result().status_code, len(one.result().json()["results"])) for one in asked
        ] == [(200, 300)] * 2
        assert load.statuses.keys() == {200}
        assert not [lost for lost in load.lost if "complete" in lost]  # no answer was cut short
        assert "Traceback" not in server.log()


def through_kills(server: Server, kills: int, clients: int = 3) -> tuple[list[float], int, int]:
    """Kill and restart the server under load; each client asks until it is answered, and checks each answer.

    Returns the seconds until ready of each restart, how many requests were answered and how many tries they took.
    """
    ended: list[bool] = []

    def ask_all(number: int) -> tuple[int, int]:
        choose, answered = random.Random(number), 0
        with closing(Retrying(server.url)) as client:
            while not ended:
                wanted = choose.choice(FUNCTIONS)
                response = client.ask(
                    ("POST", "/search", {"corpus": "code", "query": wanted.title, "k": 1})
                )
                assert response.status_code == 200, response.text
                assert response.json()["hits"][0]["document_id"] == wanted.id
                answered += 1
            return answered, client.tries

    with ThreadPoolExecutor(clients) as pool:
        asking = [pool.submit(ask_all, number) for number in range(clients)]
        ready_s = []
        try:
            for _ in range(kills):
                time.sleep(0.3)
                server.kill()
                ready_s.append(server.start())
                until(lambda: server.client.post("/search", json=SEARCH[2]).status_code == 200)
        finally:
            ended.append(True)
        counts = [one.result() for one in asking]
    return ready_s, sum(answered for answered, _ in counts), sum(tries for _, tries in counts)


def test_clients_that_try_again_lose_nothing_when_the_server_is_killed(home: Path) -> None:
    with running(home) as server:
        _, answered, tries = through_kills(server, kills=2)
    assert tries > answered > 3


# ---- memory


def test_a_server_with_600_mb_answers(home: Path) -> None:
    """Under a memory cgroup, which counts what is used; see docs/reliability.md for more than it can do."""
    body = {
        "texts": ["a text about sorting numbers " * 20] * 200,
        "labels": [f"label {n}" for n in range(50)],
    }
    with memory_limit(600) as before, running(home, before=before) as server:
        with Load(server.url, lambda _: SEARCH, clients=2) as load:
            assert server.client.post("/classify", json=body).status_code == 200
            until(lambda: load.answered > 20)
        assert load.statuses.keys() == {200}
        assert not load.lost
        assert server.peak_mb() < 600
