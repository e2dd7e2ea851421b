"""Sources of any kind, opened by their paths."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from purlin.index.errors import InvalidInput, NotFound
from purlin.index.records import Document, Kind, Skipped, SourceFile
from purlin.index.sources import names, open_source
from tests.support.files import write_tree as write
from tests.support.privileges import unprivileged


def test_stamps_of_several_roots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {"x/a.py": "def f(): pass", "y/a.py": "def f(): pass"})
    roots = [tmp_path / "x", tmp_path / "y"]
    monkeypatch.setattr("purlin.index.sources.files.RACY_NS", -(10**12))
    first = [file for file in open_source("code", roots) if isinstance(file, SourceFile)]
    stamps = {file.path: (file.stamp, file.digest) for file in first if file.stamp}

    monkeypatch.setattr(
        "purlin.index.sources.code.repository.read_bounded", lambda _path, name: Skipped(name, "")
    )
    again = [
        file for file in open_source("code", roots, digests=stamps) if isinstance(file, SourceFile)
    ]

    assert [(f.path, f.digest) for f in again] == [(f.path, f.digest) for f in first]


def test_shell_script_beyond_ascii(tmp_path: Path) -> None:
    script = tmp_path / "deploy.sh"
    script.write_text(
        '# 部署 \U0001f680 a release\ndeploy() {\n  echo "“{\U0010ffff”"\n}\n', encoding="utf-8"
    )

    (document,) = _opened(script)

    assert document.title == "deploy"
    assert document.summary == "部署 \U0001f680 a release"
    assert "“{\U0010ffff”" in document.body


def test_path_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="nowhere") as caught:
        open_source("code", [tmp_path, tmp_path / "nowhere"])
    assert caught.value.field == "path"


def test_no_path_and_an_unknown_kind_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no path"):
        open_source("code", [])
    with pytest.raises(InvalidInput, match="music"):
        open_source("music", [tmp_path])  # type: ignore[arg-type]


def _opened(*roots: Path) -> list[Document]:
    sources = [file for file in open_source("code", roots) if isinstance(file, SourceFile)]
    return [item for file in sources for item in file.read() if isinstance(item, Document)]


def test_several_roots_get_prefixes(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "x/app/a.py": "def f(): pass",
            "y/app/a.py": "def f(): pass",
            "y/lib/a.py": "def f(): pass",
        },
    )

    assert [d.id for d in _opened(tmp_path / "x" / "app")] == ["a.py::f"]

    items = _opened(tmp_path / "x" / "app", tmp_path / "y" / "app", tmp_path / "y" / "lib")

    assert [d.id for d in items] == ["app/a.py::f", "app~2/a.py::f", "lib/a.py::f"]
    assert [d.location.path for d in items] == ["app/a.py", "app~2/a.py", "lib/a.py"]


def test_prefixes_apply_to_skipped_files_and_digests(tmp_path: Path) -> None:
    write(tmp_path, {"x/a.py": "def f(): pass", "y/a.py": "def f(): pass"})
    (tmp_path / "y" / "b.py").write_bytes(b"\0")
    items = list(open_source("code", [tmp_path / "x", tmp_path / "y"]))
    assert [item.path for item in items] == ["x/a.py", "y/a.py", "y/b.py"]
    digests = [item.digest for item in items if isinstance(item, SourceFile)]
    assert len(set(digests)) == 2


@pytest.fixture
def denied() -> Iterator[Path]:
    """Of `listed` only the names can be read, of `closed` nothing; beside them are readable files."""
    paths = [
        f"{folder}/a.{suffix}"
        for folder in ("listed", "closed", "open")
        for suffix in ("csv", "html", "py")
    ]

    with tempfile.TemporaryDirectory() as name:
        root = write(Path(name), dict.fromkeys(paths, ""))
        root.chmod(0o755)
        (root / "listed").chmod(0o644)
        (root / "closed").chmod(0)
        yield root
        (root / "listed").chmod(0o755)
        (root / "closed").chmod(0o755)


@pytest.mark.parametrize(
    ("kind", "suffix"), [("product", "csv"), ("reference", "html"), ("code", "py")]
)
def test_unreadable_files_are_reported(denied: Path, kind: Kind, suffix: str) -> None:
    # Imports the reader while the interpreter's own library can be read.
    list(names(kind, [denied]))

    with unprivileged():
        items = list(open_source(kind, [denied]))
        assert f"open/a.{suffix}" in set(names(kind, [denied]))

    assert f"open/a.{suffix}" in [item.path for item in items if isinstance(item, SourceFile)]

    reasons = {item.path.rstrip("/"): item.reason for item in items if isinstance(item, Skipped)}

    assert reasons["closed"] == "the directory cannot be read: Permission denied"
    assert reasons[f"listed/a.{suffix}"] == "cannot be read: Permission denied"


def test_unreadable_roots_are_refused(denied: Path, tmp_path: Path) -> None:
    with (
        unprivileged(),
        pytest.raises(InvalidInput, match=r"listed/a\.py' cannot be read: Permission denied"),
    ):
        open_source("code", [denied / "listed" / "a.py"])

    odd = tmp_path / os.fsdecode(b"caf\xe9")
    odd.mkdir()
    (tmp_path / "link").symlink_to(odd, target_is_directory=True)

    for root in (odd, tmp_path / "link"):
        with pytest.raises(InvalidInput, match="is not UTF-8; rename it"):
            open_source("code", [root])


def test_secondary_reaches_the_reader(tmp_path: Path) -> None:
    write(tmp_path, {"tests/a.py": "def f(): pass"})
    (item,) = open_source("code", [tmp_path], secondary="leave-out")
    assert item == Skipped("tests/a.py", "left out as test code", by_choice=True)
