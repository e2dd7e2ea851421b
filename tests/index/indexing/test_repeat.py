from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any

import pytest

from purlin.index import builds
from purlin.index.indexing import builder, staleness
from purlin.index.indexing.build import build
from purlin.index.indexing.builder import Options
from purlin.index.indexing.repeat import is_due, repeat_build, why_not_repeatable
from purlin.index.sources import open_source
from tests.support.changing_sources import let_time_pass
from tests.support.documents import source
from tests.support.hash_encoder import HashEncoder
from tests.support.serving import numbered


@pytest.mark.parametrize(
    ("difference", "remedy"),
    [
        ({"sources": ("a small catalogue",)}, "names no directories or files"),
        ({"logged": 3}, "`purlin index build --query-log`"),
        ({"judged": {"measure": "nDCG@10"}}, "`purlin index build --queries`"),
        # Else the build would be made on this machine, and replace that in Milvus.
        ({"engine": {"collection": "c"}}, "`purlin index build --backend milvus`"),
    ],
)
def test_builds_that_need_more_than_their_manifest_are_not_repeated(
    tmp_path: Path, difference: dict[str, Any], remedy: str
) -> None:
    options = Options(origin=(str(tmp_path),))
    files = [source("all", numbered(3))]
    manifest = build(tmp_path, "c", "code", files, HashEncoder(), options=options)
    assert why_not_repeatable(manifest) is None

    reason = why_not_repeatable(replace(manifest, **difference))
    assert reason is not None
    assert remedy in reason


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home whose corpus `c` has three builds of a catalogue of two files."""
    catalogue = tmp_path / "catalogue"
    catalogue.mkdir()
    (catalogue / "others.csv").write_text("id,title\nO1,desk\n")
    options = Options(origin=(str(catalogue),))
    for number in range(3):
        (catalogue / "lamps.csv").write_text(f"id,title\nL1,lamp {number}\n")
        sources = open_source("product", [catalogue])
        build(tmp_path, "c", "product", sources, HashEncoder(), options=options)
        let_time_pass()
    return tmp_path


def test_a_touched_source_is_compared_once_and_costs_no_older_build(home: Path) -> None:
    *older, active = builds.builds(home, "c")
    assert (len(older), is_due(home, "c")) == (2, False)

    for _ in range(3):
        # Also where a copy keeps the time of the last write.
        (home / "catalogue" / "lamps.csv").touch()
        assert is_due(home, "c")
        again = repeat_build(home, "c", HashEncoder())
        let_time_pass()
        assert not is_due(home, "c")
        assert again.reused == again.passages == 2
        assert builds.builds(home, "c")[:-1] == older

    assert builds.current(home, "c").name != active
    assert builds.previous(home, "c") == older[-1]


def test_a_look_at_the_sources_is_whole_however_many_files(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staleness, "MAX_FILES", 1)
    assert not is_due(home, "c")
    (home / "catalogue" / "others.csv").write_text("id,title\nO1,table\n")
    assert is_due(home, "c")


def test_a_clock_that_is_set_back_hides_no_change(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Tomorrow(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Any:
            return datetime.now(tz) + timedelta(days=1)

    with monkeypatch.context() as patched:
        patched.setattr(builder, "datetime", Tomorrow)
        (home / "catalogue" / "lamps.csv").write_text("id,title\nL1,lantern\n")
        repeat_build(home, "c", HashEncoder())
    # Nothing has changed since, which times cannot tell.
    assert is_due(home, "c")
    repeat_build(home, "c", HashEncoder())
    let_time_pass()
    assert not is_due(home, "c")

    (home / "catalogue" / "lamps.csv").write_text("id,title\nL1,candle\n")
    assert is_due(home, "c")
    assert repeat_build(home, "c", HashEncoder()).reused == 1
