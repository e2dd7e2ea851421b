"""Corpora that a server builds while it serves: by its own plan, and in a process of their own."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from purlin.app.corpora import building, indexer
from purlin.app.corpora.building import demo_jobs
from purlin.app.corpora.indexer import Indexer
from purlin.index import builds
from purlin.index.demo import Demo
from purlin.index.encoder import ENSEMBLE_ENCODER, TRANSFORMER_ENCODER, load_encoder
from purlin.index.engines import hosting
from purlin.index.indexing.build import build
from purlin.index.indexing.builder import Options
from purlin.index.records import Document
from tests.support.documents import source
from tests.support.hash_encoder import HashEncoder
from tests.support.serving import numbered, problem, until
from tests.support.static_files import write_static
from tests.support.traffic import Server, running


@pytest.fixture
def static(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A static encoder in place of the released one."""
    directory = write_static(tmp_path / "static")
    monkeypatch.setattr(building, "STATIC_ENCODER", directory)
    return directory


@pytest.fixture
def one_demo(monkeypatch: pytest.MonkeyPatch) -> list[Document]:
    """The documents of a small demo corpus `python` in place of all others."""
    documents = numbered(3)
    demo = Demo("python", "reference", "three", lambda: iter([source("all", documents)]))
    monkeypatch.setattr(indexer, "demos", lambda: (demo,))
    monkeypatch.setattr(building, "demos", lambda: (demo,))
    return documents


# ---- what is to be built


def test_every_demo_is_made_with_the_static_encoder_first(tmp_path: Path, static: Path) -> None:
    jobs = demo_jobs(tmp_path, TRANSFORMER_ENCODER, "of the released one")
    assert [(job.corpus, job.encoders) for job in jobs] == [
        ("products", (static,)),
        ("code", (static,)),
        ("python", (static,)),
        ("products", (TRANSFORMER_ENCODER,)),
        ("code", (ENSEMBLE_ENCODER,)),
        ("python", (TRANSFORMER_ENCODER,)),
    ]
    jobs = demo_jobs(tmp_path, static, load_encoder(static).fingerprint)
    assert [job.corpus for job in jobs] == ["products", "code", "python"]


def test_only_what_is_missing_is_made(
    tmp_path: Path, static: Path, one_demo: list[Document], encoder: HashEncoder
) -> None:
    home, chosen = tmp_path / "home", (TRANSFORMER_ENCODER, encoder.fingerprint)
    documents = [source("all", one_demo)]

    def tiers() -> list[Path]:
        return [job.encoders[0] for job in demo_jobs(home, *chosen)]

    assert tiers() == [static, TRANSFORMER_ENCODER]
    # The server was stopped between the two.
    options = Options(origin=("three",))
    build(home, "python", "reference", documents, load_encoder(static), options=options)
    assert tiers() == [TRANSFORMER_ENCODER]
    build(home, "python", "reference", documents, encoder, options=Options(origin=("three",)))
    assert tiers() == []
    # Somebody's own corpus of that name.
    options = Options(origin=("/home/me/docs",))
    build(home, "python", "reference", documents, load_encoder(static), options=options)
    assert tiers() == []


def test_what_was_deleted_is_not_made_by_a_server(
    tmp_path: Path, static: Path, one_demo: list[Document], encoder: HashEncoder
) -> None:
    def corpora() -> set[str]:
        return {job.corpus for job in demo_jobs(tmp_path, TRANSFORMER_ENCODER, encoder.fingerprint)}

    def make() -> None:
        options = Options(origin=("three",))
        build(tmp_path, "python", "reference", [source("all", one_demo)], encoder, options=options)

    make()
    hosting.delete(tmp_path, "python")
    assert corpora() == set()
    job = {"corpus": "python", "task": "demo", "encoders": [str(static)]}
    assert events_of(tmp_path, job) == [{"end": "unchanged"}]
    assert builds.corpora(tmp_path) == []
    # By `purlin index demo`; from then on it is looked after again.
    make()
    outdated = encoder.fingerprint + "-new"
    assert demo_jobs(tmp_path, static, outdated)


# ---- the indexer


def events_of(home: Path, job: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    events: list[Mapping[str, Any]] = []
    Indexer(home, events.append).work(job)
    return events


def test_demo_is_built_once_per_encoder(
    tmp_path: Path, static: Path, one_demo: list[Document]
) -> None:
    other = write_static(tmp_path / "other", dim=4)
    job = {"corpus": "python", "task": "demo", "encoders": [str(static)]}
    better = job | {"encoders": [str(other)]}

    events = events_of(tmp_path, job)
    assert {"stage": "read", "done": 3, "total": 3} in events
    assert {"stage": "encode", "done": 3, "total": 3} in events
    assert events[-1] == {"end": "built", "remarks": []}
    assert events_of(tmp_path, job) == [{"end": "unchanged"}]

    assert events_of(tmp_path, better)[-1] == {"end": "built", "remarks": []}
    manifest = builds.active_manifest(tmp_path, "python")
    assert manifest is not None
    assert manifest.encoder["dim"] == 4
    assert events_of(tmp_path, better) == [{"end": "unchanged"}]


def test_somebodys_own_corpus_is_left_alone(
    tmp_path: Path, static: Path, one_demo: list[Document], encoder: HashEncoder
) -> None:
    options = Options(origin=("/docs",))
    build(tmp_path, "python", "reference", [source("x", one_demo)], encoder, options=options)
    job = {"corpus": "python", "task": "demo", "encoders": [str(static)]}
    assert events_of(tmp_path, job) == [{"end": "unchanged"}]


def test_failures_are_told_and_do_not_end_it(
    tmp_path: Path, static: Path, one_demo: list[Document], monkeypatch: pytest.MonkeyPatch
) -> None:
    job = {"corpus": "python", "task": "demo", "encoders": [str(tmp_path / "none")]}
    (event,) = events_of(tmp_path, job)
    assert event["end"] == "failed"
    assert "no encoder directory" in event["message"]

    with builds.locked(tmp_path, "python"):
        assert events_of(tmp_path, job | {"encoders": [str(static)]}) == [{"end": "busy"}]

    def fail() -> Iterator[Any]:
        raise ZeroDivisionError("unforeseen")

    (demo,) = indexer.demos()
    monkeypatch.setattr(indexer, "demos", lambda: (replace(demo, sources=fail),))
    (event,) = events_of(tmp_path, job | {"encoders": [str(static)]})
    assert event["message"] == "It cannot be built (ZeroDivisionError); see the log."
    assert "unforeseen" in event["trace"]
    assert not (tmp_path / "corpora" / "python").exists()


def test_corpus_that_is_deleted_as_soon_as_it_is_built_ends_nothing(
    tmp_path: Path, static: Path, one_demo: list[Document], monkeypatch: pytest.MonkeyPatch
) -> None:
    def build_and_delete(home: Path, name: str, *arguments: Any, **options: Any) -> None:
        build(home, name, *arguments, **options)
        builds.delete(home, name)

    monkeypatch.setattr(indexer, "build", build_and_delete)
    job = {"corpus": "python", "task": "demo", "encoders": [str(static)]}
    event = events_of(tmp_path, job)[-1]
    assert event["end"] == "failed"
    assert "python" in event["message"]


def test_corpus_that_was_deleted_while_its_job_waited_is_no_failure(
    tmp_path: Path, static: Path
) -> None:
    job = {"corpus": "code", "task": "repeat", "encoders": [str(static)]}
    assert events_of(tmp_path, job) == [{"end": "unchanged"}]


# ---- a server

# What `purlin serve` does, with all the time that a build needs to be undone on a busy machine.
PATIENT = """
import sys
from purlin.app.corpora import building
from purlin.cli.commands import app
building.STOP_TIMEOUT_S = 120
app(sys.argv[1:])
"""


@pytest.fixture
def demo_server(tmp_path: Path) -> Iterator[Server]:
    """`purlin serve --demo` with an encoder that needs no time."""
    encoder = write_static(tmp_path / "encoder")
    with running(tmp_path / "home", script=PATIENT, demo=1, encoder=encoder) as server:
        yield server


def state(client: httpx.Client, corpus: str) -> dict[str, Any]:
    description: dict[str, Any] = client.get(f"/corpora/{corpus}").json()
    return description


def indexers(home: Path) -> list[int]:
    """Processes that build into `home`."""
    command_line = f"purlin.app.corpora.indexer\0{home}\0".encode()
    processes = []
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            if command_line in (directory / "cmdline").read_bytes():
                processes.append(int(directory.name))
        except OSError:
            pass
    return processes


def test_server_serves_while_the_demo_is_built(tmp_path: Path, demo_server: Server) -> None:
    client = demo_server.client
    ready = client.get("/readyz")
    assert ready.status_code == 200
    assert {"code", "python"} <= ready.json()["building"].keys()
    listed = client.get("/corpora").json()["corpora"]
    assert [corpus["name"] for corpus in listed] == ["code", "products", "python"]
    assert state(client, "python")["state"] == "building"
    assert state(client, "python")["kind"] == "reference"

    refused = client.post("/search", json={"query": "sort", "corpus": "code"})
    assert problem(refused, 503)["type"] == "urn:purlin:problem:opening"
    assert "still being built" in refused.json()["detail"]
    assert refused.headers["retry-after"]

    until(lambda: state(client, "products")["state"] == "serving")
    assert client.post("/search", json={"query": "file name", "corpus": "products"}).json()["hits"]
    until(lambda: state(client, "code")["building"]["done"] > 0)
    assert state(client, "code")["building"]["stage"] == "read"
    assert len(indexers(tmp_path / "home")) == 1

    # Ctrl-C.
    demo_server.process.send_signal(signal.SIGINT)
    assert demo_server.process.wait(180) == 0
    assert "Traceback" not in demo_server.log()
    assert indexers(tmp_path / "home") == []
    assert [path.name for path in (tmp_path / "home" / "corpora").iterdir()] == ["products"]


def test_indexer_ends_with_a_server_that_is_killed(tmp_path: Path, demo_server: Server) -> None:
    until(lambda: state(demo_server.client, "code")["building"].get("done", 0) > 0)
    demo_server.kill()
    until(lambda: not indexers(tmp_path / "home"))
    assert not list((tmp_path / "home").rglob(".making-*"))
