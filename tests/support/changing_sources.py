"""Sources that change after a build of theirs."""

from __future__ import annotations

import time
from pathlib import Path

from purlin.index.indexing import staleness
from purlin.index.indexing.build import build
from purlin.index.indexing.builder import Options
from purlin.index.records import Kind, Secondary
from purlin.index.sources import open_source
from tests.support.hash_encoder import HashEncoder


def build_sources(home: Path, kind: Kind, *roots: Path, secondary: Secondary = "demote") -> None:
    """Build a corpus "c" that records where its sources are, older than what is written next."""
    options = Options(origin=tuple(str(root.absolute()) for root in roots))
    files = open_source(kind, roots, secondary=secondary)
    build(home, "c", kind, files, HashEncoder(), options=options)
    let_time_pass()


def let_time_pass() -> None:
    """Wait until what is written cannot pass for older than a build that was made in no time."""
    time.sleep(2 * staleness._TICK_S)


def write(root: Path, **files: str) -> None:
    """Write files: `lib__b_py` is lib/b.py."""
    for name, content in files.items():
        path = root / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


def write_project(root: Path) -> Path:
    """Write three files that are read, one that may be left out, and two that never are."""
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
