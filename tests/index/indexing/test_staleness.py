"""How far sources have moved on since a build: by names and times, bounded, and told to whom it may be told."""

from __future__ import annotations

import json
import shutil
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from purlin.app.corpora import freshness
from purlin.app.corpora.freshness import corpus_staleness
from purlin.app.routes import _without_directories
from purlin.index.builds import current
from purlin.index.builds.manifests import read_manifest
from purlin.index.indexing import staleness
from purlin.index.indexing.build import build
from purlin.index.indexing.staleness import Staleness
from purlin.index.records import Kind, Secondary
from purlin.index.search.corpus import Corpus
from purlin.index.sources import names, open_source
from tests.support.hash_encoder import HashEncoder
from tests.support.serving import serving, until

KEYS = "operator admin,search the-key-of-the-operator; reader search the-key-of-the-reader"
PAGE = "<html><title>{0}</title><body><h1>{0}</h1><p>Tells of {0}, at length.</p></body></html>"


def built(home: Path, kind: Kind, *roots: Path, secondary: Secondary = "demote") -> None:
    origin = tuple(str(root.absolute()) for root in roots)
    build(
        home, "c", kind, open_source(kind, roots, secondary=secondary), HashEncoder(), origin=origin
    )
    time.sleep(
        2 * staleness._TICK_S
    )  # what is written sooner may pass for older than a build that was made in no time


def moved(home: Path) -> Staleness | None:
    corpus = Corpus.load(current(home, "c"), HashEncoder())
    try:
        return corpus_staleness(corpus)
    finally:
        corpus.close()


def write(root: Path, **files: str) -> None:
    for name, content in files.items():
        path = root / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


@pytest.fixture
def code(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    write(
        root,
        a_py="def a():\n    return 1\n",
        lib__b_py="def b():\n    return 2\n",
        c_go="package c\nfunc C() {}\n",
    )
    write(
        root,
        tests__test_py="def test():\n    assert 1\n",
        notes_txt="no code",
        build__gen_py="def g(): pass\n",
    )
    (root / ".gitignore").write_text("build/\n")
    return root


def test_changed_added_and_removed_files_are_counted(tmp_path: Path, code: Path) -> None:
    built(tmp_path, "code", code)
    assert moved(tmp_path) == Staleness(reachable=True)
    write(
        code,
        a_py="def a():\n    return 3\n",
        lib__new_py="def n(): pass\n",
        lib__new_go="package n\n",
    )
    write(code, notes_txt="still no code", build__more_py="def m(): pass\n")
    (code / "c.go").unlink()
    assert moved(tmp_path) == Staleness(reachable=True, changed=1, added=2, removed=1)
    built(tmp_path, "code", code)
    assert moved(tmp_path) == Staleness(reachable=True)


def test_file_replaced_by_an_older_one_has_changed(tmp_path: Path, code: Path) -> None:
    (tmp_path / "older.py").write_text("def older(): pass\n")
    built(tmp_path, "code", code)
    (tmp_path / "older.py").replace(code / "a.py")
    assert moved(tmp_path) == Staleness(reachable=True, changed=1)


def test_files_left_out_on_purpose_are_not_new(tmp_path: Path, code: Path) -> None:
    built(tmp_path, "code", code, secondary="leave-out")
    assert moved(tmp_path) == Staleness(reachable=True)


def test_generated_files_beside_pages_do_not_count(tmp_path: Path) -> None:
    root = tmp_path / "html"
    write(
        root,
        index_html=PAGE.format("one"),
        library__two_html=PAGE.format("two"),
        genindex_html=PAGE.format("all"),
    )
    write(root, readme_txt="plain", _static__x_html="no page")
    (root / "_static").mkdir(exist_ok=True)
    built(tmp_path, "reference", root)
    assert moved(tmp_path) == Staleness(reachable=True)
    write(
        root,
        library__three_html=PAGE.format("three"),
        genindex_html=PAGE.format("more"),
        more_txt="plain",
    )
    assert moved(tmp_path) == Staleness(reachable=True, added=1)
    write(root, manual_rst="Manual\n======\nText.\n")
    # Beside .rst, .txt is read, too; the build has listed readme.txt as left out.
    assert moved(tmp_path) == Staleness(reachable=True, added=3)


def test_tables_and_single_files(tmp_path: Path) -> None:
    root = tmp_path / "shop"
    write(root, goods_csv="id,title\n1,Lamp\n", notes_pdf="none")
    built(tmp_path, "product", root)
    assert moved(tmp_path) == Staleness(reachable=True)
    write(root, more_csv="id,title\n2,Chair\n")
    assert moved(tmp_path) == Staleness(reachable=True, added=1)
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text(json.dumps({"_id": "1", "title": "one", "text": "two"}) + "\n")
    built(tmp_path, "product", corpus)
    assert moved(tmp_path) == Staleness(reachable=True)
    corpus.write_text(json.dumps({"_id": "1", "title": "one", "text": "three"}) + "\n")
    assert moved(tmp_path) == Staleness(reachable=True, changed=1)


def test_several_sources_of_the_same_name(tmp_path: Path, code: Path) -> None:
    second = tmp_path / "elsewhere" / "project"
    write(second, a_py="def other(): pass\n", z_py="def z(): pass\n")
    built(tmp_path, "code", code, second, second / "z.py")
    assert moved(tmp_path) == Staleness(reachable=True)
    write(second, a_py="def changed(): pass\n", new_py="def n(): pass\n")
    (code / "a.py").unlink()
    assert moved(tmp_path) == Staleness(reachable=True, changed=1, added=1, removed=1)
    shutil.rmtree(second)
    assert moved(tmp_path) == Staleness(reachable=False)


def test_names_are_those_that_a_build_reads(tmp_path: Path, code: Path) -> None:
    for roots in ([code], [code, code / "a.py"]):
        read = {file.path for file in open_source("code", roots)}
        assert set(names("code", roots)) == read


def test_sources_without_paths_have_no_staleness(tmp_path: Path, code: Path) -> None:
    for origin in ((), ("a small catalogue",), (str(code), "and more")):
        build(tmp_path, "c", "code", open_source("code", [code]), HashEncoder(), origin=origin)
        assert moved(tmp_path) is None


def test_file_and_time_limits_are_kept(
    tmp_path: Path, code: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built(tmp_path, "code", code)
    for path in code.rglob("*.py"):
        path.touch()
    monkeypatch.setattr(staleness, "MAX_FILES", 2)
    limited = moved(tmp_path)
    assert limited is not None
    assert not limited.complete
    assert limited.changed + limited.added + limited.removed <= 2
    monkeypatch.setattr(staleness, "MAX_FILES", 1000)
    monkeypatch.setattr(staleness, "TIME_LIMIT_S", -1.0)
    assert moved(tmp_path) == Staleness(reachable=True, complete=False)


# ---- over HTTP


def shown(client: Any, key: str | None = None) -> dict[str, Any]:
    client.post("/search", json={"query": "a", "corpus": "c"}, headers=bearer(key))
    description: dict[str, Any] = client.get("/corpora/c", headers=bearer(key)).json()
    return description


def bearer(key: str | None) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"} if key else {}


def test_description_has_fresh_staleness(
    tmp_path: Path, code: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(freshness, "WAIT_S", 30.0)
    built(tmp_path, "code", code)
    with serving(tmp_path) as client:
        fresh = {"reachable": True, "complete": True, "changed": 0, "added": 0, "removed": 0}
        assert shown(client)["stale"] == fresh
        (code / "c.go").unlink()
        assert shown(client)["stale"] == fresh  # the look before is still good
        monkeypatch.setattr(freshness, "RECHECK_S", 0.0)
        assert shown(client)["stale"] == fresh | {"removed": 1}
        shutil.rmtree(code)
        assert shown(client)["stale"]["reachable"] is False


def test_hits_and_documents_of_changed_files_are_marked(
    tmp_path: Path, code: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(freshness, "WAIT_S", 30.0)
    built(tmp_path, "code", code)
    with serving(tmp_path) as client:
        assert stale_paths(client, "c") == []
        (code / "c.go").unlink()
        (code / "a.py").write_text("def a():\n    return 3\n")
        assert stale_paths(client, "c") == []  # the look before is still good
        monkeypatch.setattr(freshness, "RECHECK_FILE_S", 0.0)
        assert stale_paths(client, "c") == ["a.py", "c.go"]
        assert stale_paths(client, ["c"]) == ["a.py", "c.go"]
        assert client.get("/corpora/c/documents/a.py::a").json()["stale"] is True
        assert "stale" not in client.get("/corpora/c/documents/lib%2Fb.py::b").json()
        shutil.rmtree(code)
        assert stale_paths(client, "c") == []  # as on a drive that was taken away


def stale_paths(client: Any, corpus: str | list[str]) -> list[str]:
    hits = client.post("/search", json={"query": "a", "corpus": corpus}).json()["hits"]
    assert len(hits) == 4
    return sorted(hit["location"]["path"] for hit in hits if hit.get("stale"))


def test_searches_do_not_wait_for_a_hanging_drive(
    tmp_path: Path, code: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead, begun = threading.Event(), threading.Semaphore(0)

    def hang(*_: object) -> set[str]:
        begun.release()
        dead.wait(60)
        return {"a.py"}

    monkeypatch.setattr("purlin.index.indexing.staleness.changed_since", hang)
    monkeypatch.setattr(freshness, "WAIT_S", 0.05)
    built(tmp_path, "code", code)
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
    manifest = SimpleNamespace(sources=[str(records)])
    corpus: Any = SimpleNamespace(name="c", build="b", manifest=manifest)
    looked: list[list[str]] = []

    def look(_: object, names: list[str]) -> set[str]:
        looked.append(sorted(names))
        return set(names)

    monkeypatch.setattr("purlin.index.indexing.staleness.changed_since", look)
    monkeypatch.setattr(freshness, "WAIT_S", 30.0)
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
    monkeypatch.setattr(freshness, "WAIT_S", 30.0)
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


def corpus_of(name: str) -> Any:
    manifest = SimpleNamespace(sources=[f"/sources/of/{name}"])
    return SimpleNamespace(name=name, build="b", manifest=manifest)


def test_changed_files_of_several_roots(tmp_path: Path, code: Path) -> None:
    other = tmp_path / "other"
    write(other, a_py="def x():\n    return 1\n")
    built(tmp_path, "code", code, other)
    manifest = read_manifest(current(tmp_path, "c"))
    (other / "a.py").write_text("def x():\n    return 2\n")
    names = ["other/a.py", "project/a.py", "project/gone.py", "elsewhere/a.py"]
    assert staleness.changed_since(manifest, names) == {"other/a.py", "project/gone.py"}


def test_only_an_admin_sees_source_paths(tmp_path: Path, code: Path) -> None:
    built(tmp_path, "code", code)
    with serving(tmp_path, keys=KEYS) as client:
        assert shown(client, "the-key-of-the-operator")["sources"] == [str(code)]
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
    tmp_path: Path, code: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead, begun = threading.Event(), threading.Semaphore(0)

    def hang(*_: object) -> Staleness:
        begun.release()
        dead.wait(60)
        return Staleness(reachable=True)

    monkeypatch.setattr("purlin.index.indexing.staleness.find_staleness", hang)
    monkeypatch.setattr(freshness, "WAIT_S", 0.05)
    built(tmp_path, "code", code)
    with serving(tmp_path) as client:
        for _ in range(3):
            description = shown(client)
            assert description["state"] == "serving"
            assert "stale" not in description
        assert begun.acquire(timeout=60)
        assert not begun.acquire(blocking=False)  # one look, not three
        dead.set()
