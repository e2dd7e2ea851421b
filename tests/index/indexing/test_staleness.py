"""How far sources have moved on since a build: by names and times, bounded."""

from __future__ import annotations

import json
import math
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from purlin.index.builds import current
from purlin.index.builds.manifests import read_manifest
from purlin.index.indexing import staleness
from purlin.index.indexing.build import build
from purlin.index.indexing.builder import Options
from purlin.index.indexing.staleness import (
    Staleness,
    changed_since,
    find_staleness,
    seconds_since_write,
)
from purlin.index.search.corpus import Corpus
from purlin.index.sources import names, open_source
from tests.support.changing_sources import build_sources, write, write_project
from tests.support.hash_encoder import HashEncoder

PAGE = "<html><title>{0}</title><body><h1>{0}</h1><p>Tells of {0}, at length.</p></body></html>"


def moved(home: Path) -> Staleness | None:
    with closing(Corpus.load(current(home, "c"), HashEncoder())) as corpus:
        read_and_skipped = corpus.listing.names(staleness.MAX_FILES)
        return find_staleness(corpus.manifest, *read_and_skipped)


@pytest.fixture
def code(tmp_path: Path) -> Path:
    return write_project(tmp_path / "project")


def test_changed_added_and_removed_files_are_counted(tmp_path: Path, code: Path) -> None:
    build_sources(tmp_path, "code", code)
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
    build_sources(tmp_path, "code", code)
    assert moved(tmp_path) == Staleness(reachable=True)


def test_pauses_while_a_build_ends_change_nothing(
    tmp_path: Path, code: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def monotonic_after_a_pause() -> float:
        time.sleep(5 * staleness._TICK_S)
        return time.monotonic()

    clock = SimpleNamespace(monotonic=monotonic_after_a_pause)
    monkeypatch.setattr("purlin.index.indexing.builder.time", clock)
    build_sources(tmp_path, "code", code)
    assert moved(tmp_path) == Staleness(reachable=True)


def test_the_time_to_load_a_reader_does_not_count(
    tmp_path: Path, code: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0

    def names_by_a_reader_that_is_loaded(*arguments: Any) -> Iterator[str]:
        nonlocal now
        now += 2 * staleness.TIME_LIMIT_S
        return names(*arguments)

    build_sources(tmp_path, "code", code)
    monkeypatch.setattr("purlin.index.sources.names", names_by_a_reader_that_is_loaded)
    monkeypatch.setattr(staleness, "time", SimpleNamespace(monotonic=lambda: now, time=time.time))
    assert moved(tmp_path) == Staleness(reachable=True)


def test_file_replaced_by_an_older_one_has_changed(tmp_path: Path, code: Path) -> None:
    (tmp_path / "older.py").write_text("def older(): pass\n")
    build_sources(tmp_path, "code", code)
    (tmp_path / "older.py").replace(code / "a.py")
    assert moved(tmp_path) == Staleness(reachable=True, changed=1)


@pytest.mark.parametrize("linked", ["current", "current/shop.csv"])
def test_a_link_to_an_earlier_export_has_changed(tmp_path: Path, linked: str) -> None:
    for day in ("monday", "tuesday"):
        write(tmp_path / day, shop_csv=f"id,title\n1,Saw of {day}\n")
    current_link = tmp_path / "current"
    current_link.symlink_to(tmp_path / "tuesday")
    build_sources(tmp_path, "product", tmp_path / linked)
    assert moved(tmp_path) == Staleness(reachable=True)

    (tmp_path / "new").symlink_to(tmp_path / "monday")
    (tmp_path / "new").replace(current_link)
    assert moved(tmp_path) == Staleness(reachable=True, changed=1)
    manifest = read_manifest(current(tmp_path, "c"))
    assert changed_since(manifest, ["shop.csv"]) == {"shop.csv"}


def test_the_last_write_of_a_catalogue_is_that_of_any_of_its_files(tmp_path: Path) -> None:
    shop = tmp_path / "shop"
    write(shop, a_csv="id,title\n1,Saw\n", b_csv="id,title\n2,Axe\n", notes_txt="no table")
    now = time.time()
    for name, age in (("a.csv", 900), ("b.csv", 300), ("notes.txt", 0)):
        os.utime(shop / name, (now - age, now - age))
    build_sources(tmp_path, "product", shop)
    manifest = read_manifest(current(tmp_path, "c"))
    assert 300 <= seconds_since_write(manifest) < 600

    # As by a drive whose clock is ahead.
    os.utime(shop / "a.csv", (now + 900, now + 900))
    assert seconds_since_write(manifest) == math.inf
    shutil.rmtree(shop)
    assert seconds_since_write(manifest) == math.inf


def test_files_left_out_on_purpose_are_not_new(tmp_path: Path, code: Path) -> None:
    build_sources(tmp_path, "code", code, secondary="leave-out")
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
    build_sources(tmp_path, "reference", root)
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
    build_sources(tmp_path, "product", root)
    assert moved(tmp_path) == Staleness(reachable=True)
    write(root, more_csv="id,title\n2,Chair\n")
    assert moved(tmp_path) == Staleness(reachable=True, added=1)
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text(json.dumps({"_id": "1", "title": "one", "text": "two"}) + "\n")
    build_sources(tmp_path, "product", corpus)
    assert moved(tmp_path) == Staleness(reachable=True)
    corpus.write_text(json.dumps({"_id": "1", "title": "one", "text": "three"}) + "\n")
    assert moved(tmp_path) == Staleness(reachable=True, changed=1)


def test_several_sources_of_the_same_name(tmp_path: Path, code: Path) -> None:
    second = tmp_path / "elsewhere" / "project"
    write(second, a_py="def other(): pass\n", z_py="def z(): pass\n")
    build_sources(tmp_path, "code", code, second, second / "z.py")
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
        options = Options(origin=origin)
        build(tmp_path, "c", "code", open_source("code", [code]), HashEncoder(), options=options)
        assert moved(tmp_path) is None


def test_file_and_time_limits_are_kept(
    tmp_path: Path, code: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_sources(tmp_path, "code", code)
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


def test_changed_files_of_several_roots(tmp_path: Path, code: Path) -> None:
    other = tmp_path / "other"
    write(other, a_py="def x():\n    return 1\n")
    build_sources(tmp_path, "code", code, other)
    manifest = read_manifest(current(tmp_path, "c"))
    (other / "a.py").write_text("def x():\n    return 2\n")
    names = ["other/a.py", "project/a.py", "project/gone.py", "elsewhere/a.py"]
    assert staleness.changed_since(manifest, names) == {"other/a.py", "project/gone.py"}
