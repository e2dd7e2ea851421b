"""Git's index, as git itself writes it, and files that are none."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purlin.index.sources.tracked import Tracked, names_in
from tests.support.files import write_tree

NAMES = ["a.py", "a/b.py", "a/b/c.py", "long/" + "n" * 200 + ".py", "ö.py", "two words", "z" * 9]


def git(root: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=root, capture_output=True, check=True)


@pytest.fixture(params=["sha1", "sha256"])
def repository(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    git(tmp_path, "init", "-q", "--object-format", request.param)
    names = [name for name in NAMES if name != "a/b.py"]
    write_tree(tmp_path, dict.fromkeys(names, ""))
    git(tmp_path, "add", "-f", *names)
    return tmp_path


@pytest.mark.parametrize("version", ["2", "3", "4"])
def test_all_versions_are_read(repository: Path, version: str) -> None:
    git(repository, "update-index", "--index-version", version)
    # An intention to add is a flag that only an extended entry has.
    write_tree(repository, {"later.py": ""})
    git(repository, "add", "--intent-to-add", "later.py")

    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=repository, capture_output=True, check=True
    )
    names = names_in((repository / ".git" / "index").read_bytes())
    assert names == listed.stdout.split(b"\0")[:-1]
    assert len(names) == len(NAMES)


def test_directories_are_tracked_with_their_files(repository: Path) -> None:
    tracked = Tracked(repository, "")
    assert all(map(tracked.has, ["a.py", "a/", "a/b/", "a/b/c.py", "ö.py", "long/"]))
    assert not any(map(tracked.has, ["a", "a/b", "b/", "c.py", "a.pyc", "zz", ""]))

    below = Tracked(repository, "a/")
    assert below.has("b/c.py")
    assert not below.has("a.py")


def test_a_linked_worktree_has_its_own_index(repository: Path, tmp_path: Path) -> None:
    name = ("-c", "user.name=a", "-c", "user.email=a@b")
    git(repository, *name, "commit", "-q", "-m", "first")
    git(repository, "worktree", "add", "-q", "tree")
    write_tree(repository / "tree", {"own.py": ""})
    git(repository / "tree", "add", "own.py")

    assert Tracked(repository / "tree", "").has("own.py")
    assert not Tracked(repository, "").has("own.py")


@pytest.mark.parametrize("content", [b"", b"DIRC", b"gitdir: nowhere", b"gitdir: ../../etc\n"])
def test_what_is_no_repository_tracks_nothing(tmp_path: Path, content: bytes) -> None:
    (tmp_path / ".git").write_bytes(content)
    assert not Tracked(tmp_path, "").has("a.py")
    assert not Tracked(None, "").has("a.py")


@given(st.binary(max_size=300), st.sampled_from([2, 3, 4]), st.integers(0, 2**32 - 1))
def test_any_bytes_are_refused_or_read(rest: bytes, version: int, count: int) -> None:
    content = b"DIRC" + version.to_bytes(4, "big") + count.to_bytes(4, "big") + rest
    try:
        names = names_in(content)
    except ValueError:
        return
    assert len(names) == count
