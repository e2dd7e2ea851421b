"""How a server tells what has changed since a build: fresh, bounded, and to whom it may be told."""

from __future__ import annotations

import json
import shutil
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from purlin.app.corpora import freshness
from purlin.app.routes import _without_directories
from purlin.index.indexing.staleness import Staleness
from tests.support.changing_sources import build_sources, write_project
from tests.support.serving import bearer, serving, until

KEYS = "operator admin,search the-key-of-the-operator; reader search the-key-of-the-reader"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return write_project(tmp_path / "project")


def shown(client: Any, key: str | None = None) -> dict[str, Any]:
    headers = bearer(key) if key else {}
    client.post("/search", json={"query": "a", "corpus": "c"}, headers=headers)
    description: dict[str, Any] = client.get("/corpora/c", headers=headers).json()
    return description


def test_description_has_fresh_staleness(
    tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_sources(tmp_path, "code", project)
    with serving(tmp_path) as client:
        fresh = {"reachable": True, "complete": True, "changed": 0, "added": 0, "removed": 0}
        assert shown(client)["stale"] == fresh
        (project / "c.go").unlink()
        assert shown(client)["stale"] == fresh  # the look before is still good
        monkeypatch.setattr(freshness, "RECHECK_S", 0.0)
        assert shown(client)["stale"] == fresh | {"removed": 1}
        shutil.rmtree(project)
        assert shown(client)["stale"]["reachable"] is False


def test_hits_and_documents_of_changed_files_are_marked(
    tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(freshness, "RECHECK_FILE_S", 30.0)
    build_sources(tmp_path, "code", project)
    with serving(tmp_path) as client:
        assert stale_paths(client, "c") == []
        (project / "c.go").unlink()
        (project / "a.py").write_text("def a():\n    return 3\n")
        assert stale_paths(client, "c") == []  # the look before is still good
        monkeypatch.setattr(freshness, "RECHECK_FILE_S", 0.0)
        assert stale_paths(client, "c") == ["a.py", "c.go"]
        assert stale_paths(client, ["c"]) == ["a.py", "c.go"]
        assert client.get("/corpora/c/documents/a.py::a").json()["stale"] is True
        assert "stale" not in client.get("/corpora/c/documents/lib%2Fb.py::b").json()
        shutil.rmtree(project)
        assert stale_paths(client, "c") == []  # as on a drive that was taken away


def stale_paths(client: Any, corpus: str | list[str]) -> list[str]:
    hits = client.post("/search", json={"query": "a", "corpus": corpus}).json()["hits"]
    assert len(hits) == 4
    return sorted(hit["location"]["path"] for hit in hits if hit.get("stale"))


def test_searches_do_not_wait_for_a_hanging_drive(
    tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead, begun = threading.Event(), threading.Semaphore(0)

    def hang(*_: object) -> set[str]:
        begun.release()
        dead.wait(60)
        return {"a.py"}

    monkeypatch.setattr("purlin.index.indexing.staleness.changed_since", hang)
    monkeypatch.setattr(freshness, "WAIT_S", 0.05)
    build_sources(tmp_path, "code", project)
    with serving(tmp_path) as client:
        assert [stale_paths(client, "c") for _ in range(3)] == [[]] * 3
        assert begun.acquire(timeout=60)
        assert not begun.acquire(blocking=False)  # one look, not three
        dead.set()
        until(lambda: stale_paths(client, "c") == ["a.py"])


def test_one_look_serves_all_records_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = tmp_path / "corpus.jsonl"
    records.touch()
    manifest = SimpleNamespace(local_roots=[records])
    corpus: Any = SimpleNamespace(name="c", build="b", manifest=manifest)
    looked: list[list[str]] = []

    def look(_: object, names: list[str]) -> set[str]:
        looked.append(sorted(names))
        return set(names)

    monkeypatch.setattr("purlin.index.indexing.staleness.changed_since", look)
    monkeypatch.setattr(freshness, "RECHECK_FILE_S", 30.0)
    fresh = freshness.Freshness(SimpleNamespace())  # type: ignore[arg-type]
    assert fresh.changed(corpus, ["a.py", None]) == {"a.py"}
    assert fresh.changed(corpus, ["b.py", "c.py"]) == {"b.py", "c.py"}
    assert looked == [["a.py"]]

    records.unlink()
    corpus.build = "another"
    assert fresh.changed(corpus, ["a.py"]) == {"a.py"}
    assert fresh.changed(corpus, ["a.py", "b.py"]) == {"a.py", "b.py"}
    assert looked == [["a.py"], ["a.py"], ["b.py"]]


def test_looks_share_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = set()

    def look(_: object, names: list[str]) -> set[str]:
        threads.add(threading.current_thread())
        return set(names)

    monkeypatch.setattr("purlin.index.indexing.staleness.changed_since", look)
    fresh = freshness.Freshness(SimpleNamespace())  # type: ignore[arg-type]
    for number in range(50):
        assert fresh.changed(corpus_of("c"), [f"{number}.py"]) == {f"{number}.py"}
    # One, or a few more where a look is asked for before the thread of the last one is idle again.
    assert len(threads) < 10


def test_a_hanging_drive_does_not_hold_up_other_corpora(monkeypatch: pytest.MonkeyPatch) -> None:
    dead = threading.Event()

    def look(manifest: Any, names: list[str]) -> set[str]:
        if "dead" in manifest.sources[0]:
            dead.wait(60)
        return set(names)

    monkeypatch.setattr("purlin.index.indexing.staleness.changed_since", look)
    fresh = freshness.Freshness(SimpleNamespace())  # type: ignore[arg-type]
    monkeypatch.setattr(freshness, "WAIT_S", 0.05)
    for _ in range(3):
        assert fresh.changed(corpus_of("dead"), ["a.py"]) == set()
    monkeypatch.setattr(freshness, "WAIT_S", 30.0)
    assert fresh.changed(corpus_of("c"), ["a.py"]) == {"a.py"}
    dead.set()
    until(lambda: fresh.changed(corpus_of("dead"), ["a.py"]) == {"a.py"})


def test_looks_go_on_when_threads_can_be_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("purlin.index.indexing.staleness.changed_since", lambda _, names: {*names})
    fresh = freshness.Freshness(SimpleNamespace())  # type: ignore[arg-type]
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", fail)
        with pytest.raises(RuntimeError):
            fresh.changed(corpus_of("c"), ["a.py"])

    assert fresh.changed(corpus_of("c"), ["a.py"]) == {"a.py"}


def corpus_of(name: str) -> Any:
    source = f"/sources/of/{name}"
    manifest = SimpleNamespace(sources=[source], local_roots=[Path(source)])
    return SimpleNamespace(name=name, build="b", manifest=manifest)


def test_only_an_admin_sees_source_paths(tmp_path: Path, project: Path) -> None:
    build_sources(tmp_path, "code", project)
    with serving(tmp_path, keys=KEYS) as client:
        assert shown(client, "the-key-of-the-operator")["sources"] == [str(project)]
        description = shown(client, "the-key-of-the-reader")
    assert description["sources"] == ["project"]
    assert str(tmp_path) not in json.dumps(description)
    with serving(tmp_path) as client:
        assert str(tmp_path) not in json.dumps(shown(client))


@pytest.mark.parametrize(
    ("source", "shown_source"),
    [
        ("/home/me/my project", "my project"),
        ("/", ""),
        ("a small catalogue", "a small catalogue"),
        ("the Python reference in /usr/share/doc/python3/html", "the Python reference in html"),
        ("either/or", "either/or"),
    ],
)
def test_paths_are_cut_to_their_last_part(source: str, shown_source: str) -> None:
    assert _without_directories(source) == shown_source


def test_requests_do_not_wait_for_a_hanging_check(
    tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead, begun = threading.Event(), threading.Semaphore(0)

    def hang(*_: object) -> Staleness:
        begun.release()
        dead.wait(60)
        return Staleness(reachable=True)

    monkeypatch.setattr("purlin.index.indexing.staleness.find_staleness", hang)
    monkeypatch.setattr(freshness, "WAIT_S", 0.05)
    build_sources(tmp_path, "code", project)
    with serving(tmp_path) as client:
        for _ in range(3):
            description = shown(client)
            assert description["state"] == "serving"
            assert "stale" not in description
        assert begun.acquire(timeout=60)
        assert not begun.acquire(blocking=False)  # one look, not three
        dead.set()
