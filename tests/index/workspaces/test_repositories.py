from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from purlin.index.errors import InvalidInput, NotFound
from purlin.index.storage import exclusive
from purlin.index.workspaces import repositories
from purlin.index.workspaces.repositories import clone, common_directory, find_root, is_url

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="takes git: apt-get install git")


def test_nearest_directory_with_git_is_the_root(tmp_path: Path) -> None:
    inner = tmp_path / "outer" / "inner"
    (inner / "src").mkdir(parents=True)
    (tmp_path / "outer" / ".git").mkdir()
    assert find_root(inner / "src") == tmp_path / "outer"
    (inner / ".git").write_text("gitdir: elsewhere\n")
    assert find_root(inner / "src") == inner


def test_directory_without_git_is_its_own_root(tmp_path: Path) -> None:
    assert find_root(tmp_path) == tmp_path


def test_home_and_file_system_are_no_repositories(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".git").mkdir()
    (tmp_path / "notes").mkdir()
    for directory in (tmp_path, Path("/")):
        with pytest.raises(InvalidInput, match="change to a directory in it"):
            find_root(directory)
    assert find_root(tmp_path / "notes") == tmp_path / "notes"


def test_missing_directory_and_file_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file.py").write_text("")
    with pytest.raises(NotFound, match="nowhere"):
        find_root(tmp_path / "nowhere")
    with pytest.raises(InvalidInput, match="the directory that it is in"):
        find_root(tmp_path / "file.py")


@pytest.mark.parametrize("pointer", ["", "gitdir: nowhere", "gitdir: \0", "\udc80"])
def test_damaged_git_file_has_no_common_directory(tmp_path: Path, pointer: str) -> None:
    (tmp_path / ".git").write_bytes(os.fsencode(pointer))
    assert common_directory(tmp_path) is None


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    repository = tmp_path / "shop"
    repository.mkdir()
    (repository / "mail.py").write_text("def send_receipt(): ...\n")
    _git(repository, "init", "--quiet")
    _commit(repository)
    return repository


def _git(directory: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=Test", "-c", "user.email=test@example.org")
    subprocess.run(["git", *identity, *arguments], cwd=directory, check=True)


def _commit(directory: Path) -> None:
    _git(directory, "add", ".")
    _git(directory, "commit", "--quiet", "--message", "Files")


@needs_git
def test_worktrees_share_a_common_directory(repository: Path, tmp_path: Path) -> None:
    _git(repository, "worktree", "add", "--quiet", str(tmp_path / "branch"))
    assert common_directory(tmp_path / "branch") == repository / ".git"
    assert common_directory(repository) == repository / ".git"


@needs_git
def test_url_is_cloned_once_and_fetched_when_it_is_old(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, clones = repository.as_uri(), tmp_path / "clones"
    cloned, warning = clone(url, clones)
    assert warning is None
    assert cloned.name.startswith("shop-")
    assert (cloned / "mail.py").is_file()

    (repository / "price.py").write_text("")
    _commit(repository)
    assert clone(url, clones) == (cloned, None)
    assert not (cloned / "price.py").exists()

    monkeypatch.setattr(repositories, "FETCH_AGE_S", -1.0)
    assert clone(url, clones) == (cloned, None)
    assert (cloned / "price.py").exists()

    shutil.rmtree(repository)
    again, warning = clone(url, clones)
    assert again == cloned
    assert "could not be cloned" in str(warning)
    assert "hours ago" in str(warning)
    assert [path.name for path in clones.iterdir()] == [cloned.name]


@needs_git
def test_clone_from_before_the_clock_was_set_back_is_fetched(
    repository: Path, tmp_path: Path
) -> None:
    url, clones = repository.as_uri(), tmp_path / "clones"
    cloned, _ = clone(url, clones)
    (repository / "price.py").write_text("")
    _commit(repository)
    _make_old(cloned, hours=-100)

    assert clone(url, clones) == (cloned, None)
    assert (cloned / "price.py").exists()


@pytest.mark.parametrize("was_fetched", [True, False])
@needs_git
def test_failed_fetch_leaves_a_clone_as_old_as_it_was(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, was_fetched: bool
) -> None:
    url, clones = repository.as_uri(), tmp_path / "clones"
    cloned, _ = clone(url, clones)
    if was_fetched:
        monkeypatch.setattr(repositories, "FETCH_AGE_S", -1.0)
        assert clone(url, clones) == (cloned, None)
        monkeypatch.undo()
    _make_old(cloned, hours=5)
    shutil.rmtree(repository)

    for _ in range(2):
        again, warning = clone(url, clones)
        assert again == cloned
        assert "could not be cloned" in str(warning)
        assert "This searches the clone of 5 hours ago." in str(warning)


@needs_git
def test_old_clone_is_searched_while_another_process_fetches_it(
    repository: Path, tmp_path: Path
) -> None:
    url, clones = repository.as_uri(), tmp_path / "clones"
    cloned, _ = clone(url, clones)
    _make_old(cloned, hours=5)

    with exclusive(cloned, "busy"):
        again, warning = clone(url, clones)
    assert again == cloned
    assert warning == (
        f"{url} is being fetched by another process. This searches the clone of 5 hours ago."
    )
    assert clone(url, clones) == (cloned, None)


def _make_old(cloned: Path, *, hours: float) -> None:
    then = time.time() - hours * 3600
    for name in ("FETCH_HEAD", "HEAD"):
        if (cloned / ".git" / name).exists():
            os.utime(cloned / ".git" / name, (then, then))


@needs_git
def test_repository_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="Check the URL and the network"):
        clone((tmp_path / "nowhere").as_uri(), tmp_path / "clones")
    assert list((tmp_path / "clones").iterdir()) == []


@needs_git
def test_slow_clone_is_given_up(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repositories, "CLONE_SECONDS", 0.0)
    with pytest.raises(NotFound, match="within 0 s"):
        clone(repository.as_uri(), tmp_path / "clones")


@pytest.mark.parametrize(
    "url",
    [
        "ext::sh -c date",
        "http://example.org/a",
        "--upload-pack=date",
        "https:///a",
        "a@b:c",
        "ssh:x",
    ],
)
def test_other_urls_are_refused_without_running_git(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setattr(repositories, "_git", lambda *_, **__: pytest.fail("git ran"))
    with pytest.raises(InvalidInput, match="https://, ssh://, git://, file://"):
        clone(url, tmp_path)


def test_password_in_a_url_is_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(NotFound, match=r"git is needed to clone https://example\.org/a;"):
        clone("https://me:secret@example.org/a", tmp_path)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("https://example.org/a.git", True),
        ("git@example.org:a.git", True),
        ("ext::sh", True),
        ("src", False),
        ("/usr/lib", False),
        ("--upload-pack=x", False),
    ],
)
def test_urls_are_told_from_directories(path: str, expected: bool) -> None:
    assert is_url(path) is expected
