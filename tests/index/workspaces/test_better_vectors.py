"""A directory is searched with static vectors first, then with the better ones that a process has made."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from purlin.app.agents.local import LocalCorpora
from purlin.cli import run_quick
from purlin.index.errors import InvalidInput, NotFound, StorageFailed
from purlin.index.storage import exclusive
from purlin.index.workspaces import better_vectors
from purlin.index.workspaces.better_vectors import BestWorkspace, build_better, open_directory
from purlin.index.workspaces.workspace import Workspace

STATIC, BETTER = "static-code-int8", "ensemble-int8"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "shop"
    (root / ".git").mkdir(parents=True)
    (root / "mail.py").write_text("def send_receipt(order):\n    return smtp(order)\n")
    (root / "guide.md").write_text("# Sessions\n\nA session is kept for 30 days.\n")
    return root


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PURLIN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Path, str]]:
    """The directories and kinds that a process was started for, none of which is."""
    calls: list[tuple[Path, str]] = []
    monkeypatch.delenv("PURLIN_BACKGROUND")
    monkeypatch.setattr(better_vectors, "_spawn", lambda root, kind, _: calls.append((root, kind)))
    return calls


def encoder_of(opened: Workspace | BestWorkspace) -> str:
    with opened as workspace:
        return workspace.corpus.encoder.name


def better(root: Path) -> None:
    made = build_better(root, "code")
    assert made is not None
    made.close()


def test_a_search_uses_better_vectors_once_there_are_some(root: Path) -> None:
    assert encoder_of(open_directory(root)) == STATIC
    better(root)
    assert encoder_of(open_directory(root)) == BETTER
    # Whoever names an encoder gets it.
    assert encoder_of(open_directory(root, encoder="static")) == STATIC


def test_few_changed_files_are_indexed_and_many_leave_the_static_vectors(root: Path) -> None:
    better(root)
    for number in range(better_vectors.MAX_FILES_IN_SEARCH):
        (root / f"price{number}.py").write_text(f"def price_{number}():\n    return {number}\n")
    (root / "guide.md").unlink()
    opened = open_directory(root)
    with opened as workspace:
        assert workspace.corpus.encoder.name == BETTER
        assert "price4.py::price_4" in {hit.id for hit in workspace.search("price", 20).hits}
        assert not workspace.search("sessions", 20, content="docs").hits

        for number in range(better_vectors.MAX_FILES_IN_SEARCH + 1):
            (root / f"cost{number}.py").write_text(f"def cost_{number}():\n    return {number}\n")
        opened.refresh()
        assert opened.corpus.encoder.name == STATIC
        assert "cost5.py::cost_5" in {hit.id for hit in opened.current.search("cost", 20).hits}

        better(root)
        opened.refresh()
        assert opened.corpus.encoder.name == BETTER


def test_a_large_new_file_leaves_the_static_vectors(root: Path) -> None:
    better(root)
    size = better_vectors.MAX_NEW_BYTES_IN_SEARCH
    (root / "price.py").write_text("def price():\n    return 1\n".ljust(size, "#"))
    assert encoder_of(open_directory(root)) == BETTER
    (root / "cost.py").write_text("def cost():\n    return 1\n".ljust(size + 1, "#"))
    assert encoder_of(open_directory(root)) == STATIC


def test_while_another_process_indexes_static_vectors_serve(root: Path, directory: Path) -> None:
    better(root)
    (root / "mail.py").write_text("def send_reminder(order):\n    return smtp(order)\n")
    [state] = (directory / "home" / "workspaces").glob("*-ensemble")
    with exclusive(state, "busy"):
        opened = open_directory(root)
        with opened as workspace:
            assert workspace.corpus.encoder.name == STATIC
            assert workspace.search("remind", 1).hits[0].id == "mail.py::send_reminder"


def test_an_index_that_another_process_made_meanwhile_is_not_replaced(
    root: Path, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    better(root)
    names = iter(["earlier", "later"])
    monkeypatch.setattr(Workspace, "_active", lambda self: next(names))
    (root / "mail.py").write_text("def send_reminder(order):\n    return smtp(order)\n")
    monkeypatch.setattr(Workspace, "_build", lambda *_: pytest.fail("it was made again"))
    workspace = BestWorkspace(root, "code", directory)
    assert workspace._caught_up() is None
    workspace.close()


def test_a_full_disk_names_the_cache(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    better(root)
    (root / "mail.py").write_text("def send_reminder(order):\n    return smtp(order)\n")

    def full(*_: object) -> None:
        raise StorageFailed("The disk is full; set PURLIN_HOME to another one.")

    monkeypatch.setattr(Workspace, "_build", full)
    with pytest.raises(StorageFailed, match="set PURLIN_CACHE to another one"):
        open_directory(root)


def test_a_process_is_started_again_after_the_clock_was_set_back(
    root: Path, started: list[tuple[Path, str]]
) -> None:
    open_directory(root)
    (file,) = (root.parent / "cache" / "home" / "workspaces").glob("*/started")
    tomorrow = time.time() + 86_400
    os.utime(file, (tomorrow, tomorrow))
    open_directory(root)

    assert started == [(root, "code")] * 2


def test_a_process_is_started_once_and_again_if_it_has_not_ended_its_work(
    root: Path, started: list[tuple[Path, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = open_directory(root)
    assert "a process of low priority makes better vectors" in opened.notes[-1]
    assert encoder_of(opened) == STATIC
    assert encoder_of(open_directory(root)) == STATIC
    assert started == [(root, "code")]

    monkeypatch.setattr(better_vectors, "RETRY_S", 0.0)
    assert encoder_of(open_directory(root)) == STATIC
    assert started == [(root, "code")] * 2

    # Its work done, it is started again only when the index falls behind.
    monkeypatch.undo()
    monkeypatch.setenv("PURLIN_CACHE", str(root.parent / "cache"))
    better(root)
    assert encoder_of(open_directory(root)) == BETTER
    assert not list((root.parent / "cache" / "home" / "workspaces").glob("*/started"))


@pytest.mark.parametrize("reason", ["switched off", "named", "too large", "no transformer"])
def test_no_process_is_started(
    root: Path, started: list[tuple[Path, str]], monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    if reason == "switched off":
        monkeypatch.setenv("PURLIN_BACKGROUND", "off")
    if reason == "too large":
        monkeypatch.setattr(better_vectors, "MAX_PASSAGES", 0)
    if reason == "no transformer":
        monkeypatch.setattr("purlin.index.encoder.can_run_transformers", lambda: False)
        assert build_better(root, "code") is None
    encoder = "static" if reason == "named" else None
    assert encoder_of(open_directory(root, encoder=encoder)) == STATIC
    assert started == []


def test_the_process_makes_the_index(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PURLIN_BACKGROUND")
    # What a repository has must not be run.
    (root / "purlin").mkdir()
    (root / "purlin" / "__main__.py").write_text("open('run', 'w').close()\n")
    monkeypatch.chdir(root)

    def at_full_priority(command: list[str], **options: Any) -> subprocess.Popen[bytes]:
        """Start the process; of the lowest priority, it would hardly run while other tests do."""
        return start([word for word in command if word != "--background"], **options)

    start = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", at_full_priority)
    opened = open_directory()
    with opened:
        assert opened.corpus.encoder.name == STATIC
        deadline = time.monotonic() + 120
        while opened.corpus.encoder.name == STATIC and time.monotonic() < deadline:
            time.sleep(0.2)
            opened.refresh()
        assert opened.corpus.encoder.name == BETTER
        assert isinstance(opened, BestWorkspace)
        assert opened._process is not None
        assert opened._process.wait(60) == 0
    assert not (root / "run").exists()


def test_agents_get_better_vectors_in_the_same_session(root: Path, tmp_path: Path) -> None:
    corpora = LocalCorpora(root, tmp_path / "home")
    assert corpora.search(["workspace"], "receipt", 1, {}, "code").encoder == STATIC
    better(root)
    reply = corpora.search(["workspace"], "receipt", 1, {"language": "Python"}, "code")
    assert reply.encoder == BETTER
    assert [hit.id for hit in reply.hits] == ["mail.py::send_receipt"]


def test_a_directory_may_be_built_before_it_is_searched(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    niceness: list[int] = []
    monkeypatch.setattr(os, "nice", niceness.append, raising=False)
    for arguments in (["build", str(root)], ["build", "--docs", "--background", str(root)]):
        assert run_quick("cache", arguments) == 0
        assert "indexed " in capsys.readouterr().err
    assert niceness == [19]
    assert encoder_of(open_directory(root)) == BETTER
    assert encoder_of(open_directory(root, kind="reference")) == "santa-minilm-l6-int8"

    with pytest.raises(SystemExit, match="2"):
        run_quick("cache", ["list", str(root)])
    monkeypatch.setattr("purlin.index.encoder.can_run_transformers", lambda: False)
    assert run_quick("cache", ["build", str(root)]) == 1
    assert "purlin-search[transformer]" in capsys.readouterr().err


def test_errors_are_those_of_a_workspace(tmp_path: Path) -> None:
    (tmp_path / "empty" / ".git").mkdir(parents=True)
    with pytest.raises(InvalidInput, match="no files"):
        open_directory(tmp_path / "empty")
    with pytest.raises(NotFound):
        open_directory(tmp_path / "nowhere")
    with pytest.raises(NotFound, match="refresh"):
        _ = BestWorkspace(tmp_path, "code", tmp_path).corpus
