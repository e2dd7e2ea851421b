from __future__ import annotations

import hashlib
import os
import stat
import threading
from pathlib import Path

import pytest

from purlin.index import builds, cache
from purlin.index.builds.manifests import read_manifest
from purlin.index.errors import Busy, Damaged, InvalidInput, NotFound, StorageFailed
from purlin.index.file_filters import CONTENTS
from purlin.index.storage import exclusive
from purlin.index.workspaces import workspace
from purlin.index.workspaces.workspace import Workspace, open_workspace
from tests.support.hash_encoder import HashEncoder

BASKET = "def add_article(basket, article):\n    basket.append(article)\n"
MAIL = "def send_receipt(order):\n    return smtp(order)\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "Shop of Ours"
    (root / ".git").mkdir(parents=True)
    (root / "src").mkdir()
    (root / "src" / "basket.py").write_text(BASKET)
    (root / "mail.py").write_text(MAIL)
    return root


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def _open(root: Path, kept: Path, encoder: HashEncoder) -> Workspace:
    return open_workspace(root, cache_directory=kept, encoder=encoder)


def _found(opened: Workspace, query: str) -> list[str]:
    hits = opened.search(query, 10, content="all").hits
    return [hit.id for hit in hits]


def test_first_use_indexes_and_second_reads_it(
    root: Path, kept: Path, encoder: HashEncoder
) -> None:
    with _open(root, kept, encoder) as opened:
        assert opened.root == root
        assert "indexed 2 files" in opened.notes[0]
        assert _found(opened, "send_receipt")[0] == "mail.py::send_receipt"
        assert opened.corpus.document("mail.py::send_receipt").body == MAIL.strip()
        assert opened.corpus.name.startswith("shop-of-ours-")

    encoder.encoded.clear()
    with _open(root, kept, encoder) as opened:
        assert opened.notes == ()
        assert encoder.encoded == []
        assert not opened.refresh()
        assert _found(opened, "add_article")[0] == "src/basket.py::add_article"
    with pytest.raises(NotFound, match="refresh"):
        opened.search("add_article")


def test_changed_added_and_removed_files_are_seen(
    root: Path, kept: Path, encoder: HashEncoder
) -> None:
    with _open(root, kept, encoder) as opened:
        encoder.encoded.clear()
        (root / "mail.py").write_text(MAIL.replace("receipt", "reminder"))
        (root / "src" / "basket.py").unlink()
        (root / "price.py").write_text("def format_price(cents):\n    return cents / 100\n")
        assert opened.refresh()
        assert len(encoder.encoded) == 2
        expected = ["mail.py::send_reminder", "price.py::format_price"]
        assert sorted(_found(opened, "price reminder")) == expected


def test_refreshed_index_answers_as_a_new_one(
    root: Path, kept: Path, tmp_path: Path, encoder: HashEncoder
) -> None:
    with _open(root, kept, encoder) as opened:
        (root / "mail.py").write_text(MAIL + "\n\n" + BASKET.replace("basket", "outbox"))
        opened.refresh()
        with _open(root, tmp_path / "other", encoder) as new:
            for query in ("article", "append to the basket", "smtp order", "send_receipt"):
                hits, expected = (each.search(query, content="all").hits for each in (opened, new))
                assert hits == expected


def test_directory_below_a_repository_is_searched_with_all_of_it(
    root: Path, kept: Path, encoder: HashEncoder
) -> None:
    with _open(root / "src", kept, encoder) as opened:
        assert opened.root == root
        assert "mail.py::send_receipt" in _found(opened, "send_receipt")


def test_other_process_is_waited_for_and_then_answered_without(
    root: Path, kept: Path, encoder: HashEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workspace, "WAIT_S", 0.05)
    with _open(root, kept, encoder) as opened:
        (root / "mail.py").write_text(MAIL.replace("receipt", "reminder"))
        state = cache.state_directory(cache.home_of(kept), opened.corpus.name)
        with exclusive(state, "busy"):
            assert not opened.refresh()
            assert "another process is indexing" in opened.notes[0]
            assert opened.is_behind
            assert "mail.py::send_receipt" in _found(opened, "send")
            with _open(root, kept, encoder) as second:
                assert "mail.py::send_receipt" in _found(second, "send")
        assert opened.refresh()
        assert "mail.py::send_reminder" in _found(opened, "send")


def test_first_index_of_another_process_is_waited_for(
    root: Path, kept: Path, encoder: HashEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workspace, "FIRST_WAIT_S", 0.05)
    with _open(root, kept, encoder) as opened:
        name = opened.corpus.name
    home = cache.home_of(kept)
    builds.delete(home, name)
    with exclusive(cache.state_directory(home, name), "busy"):
        with pytest.raises(Busy, match="try again later"):
            _open(root, kept, encoder)


def test_threads_that_start_together_index_once(
    root: Path, kept: Path, encoder: HashEncoder
) -> None:
    first_hits: list[list[str]] = []

    def search() -> None:
        with _open(root, kept, encoder) as opened:
            first_hits.append(_found(opened, "send_receipt")[:1])

    threads = [threading.Thread(target=search) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert first_hits == [["mail.py::send_receipt"]] * 4
    assert len(encoder.encoded) == 2 + 4  # each function once, and a query of each thread


def test_cache_of_another_version_is_made_again(
    root: Path, kept: Path, encoder: HashEncoder
) -> None:
    with _open(root, kept, encoder) as opened:
        name = opened.corpus.name
    active = builds.current(cache.home_of(kept), name)
    manifest = (active / "manifest.json").read_text().replace('"format": ', '"format": 9')
    (active / "manifest.json").write_text(manifest)
    digest = hashlib.sha256(manifest.encode()).hexdigest()[:12]
    other = active.rename(active.with_name(f"{active.name.partition('-')[0]}-{digest}"))
    (active.parent / "CURRENT").write_text(other.name)
    with pytest.raises(Damaged, match="another version"):
        read_manifest(builds.current(cache.home_of(kept), name))
    with _open(root, kept, encoder) as opened:
        assert "indexed 2 files" in opened.notes[0]
        assert _found(opened, "send_receipt")[0] == "mail.py::send_receipt"


@pytest.mark.parametrize("file", ["manifest.json", "base/vectors.npy", "base/documents.bin"])
def test_damaged_index_is_made_again(
    root: Path, kept: Path, encoder: HashEncoder, file: str
) -> None:
    with _open(root, kept, encoder) as opened:
        name = opened.corpus.name
    (builds.current(cache.home_of(kept), name) / file).write_bytes(b"x")
    with _open(root, kept, encoder) as opened:
        assert _found(opened, "send_receipt")[0] == "mail.py::send_receipt"


def test_damaged_origin_is_made_again(root: Path, kept: Path, encoder: HashEncoder) -> None:
    with _open(root, kept, encoder) as opened:
        name = opened.corpus.name
    origin = cache.state_directory(cache.home_of(kept), name) / cache.ORIGIN_FILE
    for content in ("", "[]", '{"root": 1}', "\0"):
        origin.write_text(content)
        assert [entry.root for entry in cache.entries(kept)] == [Path("?")]
        _open(_worktree(root, f"branch {len(content)}"), kept, encoder).close()
        cache.remove(kept, cache.entries(kept)[-1])


def test_cache_that_cannot_be_written_is_replaced_for_this_time(
    root: Path, kept: Path, encoder: HashEncoder
) -> None:
    kept.write_text("a file")
    with _open(root, kept, encoder) as opened:
        assert "is not kept; set PURLIN_CACHE" in opened.notes[0]
        assert _found(opened, "send_receipt")[0] == "mail.py::send_receipt"
        temporary = Path(opened._cache)
        assert temporary.is_dir()
    assert not temporary.exists()


def test_only_the_user_may_read_the_cache(root: Path, kept: Path, encoder: HashEncoder) -> None:
    _open(root, kept, encoder).close()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o700


def test_failing_disk_names_the_cache(
    root: Path, kept: Path, encoder: HashEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(builds, "publish", full)
    with pytest.raises(StorageFailed, match="PURLIN_CACHE"):
        _open(root, kept, encoder)


# ---- worktrees


def _worktree(root: Path, name: str) -> Path:
    """Another worktree of the repository, with the same files."""
    own = root / ".git" / "worktrees" / name
    own.mkdir(parents=True)
    (own / "commondir").write_text("../..\n")
    worktree = root.parent / name
    (worktree / "src").mkdir(parents=True)
    (worktree / ".git").write_text(f"gitdir: {own}\n")
    (worktree / "src" / "basket.py").write_text(BASKET)
    (worktree / "mail.py").write_text(MAIL)
    return worktree


def test_worktree_starts_from_the_index_of_another(
    root: Path, kept: Path, encoder: HashEncoder
) -> None:
    _open(root, kept, encoder).close()
    encoder.encoded.clear()
    worktree = _worktree(root, "branch")
    (worktree / "mail.py").write_text(MAIL.replace("receipt", "reminder"))

    with _open(worktree, kept, encoder) as opened:
        assert len(encoder.encoded) == 1
        assert _found(opened, "send")[0] == "mail.py::send_reminder"
        assert opened.corpus.name.startswith("branch-")
        assert opened.corpus.manifest.sources == (str(worktree),)
    with _open(root, kept, encoder) as opened:
        assert opened.notes == ()
        assert _found(opened, "send")[0] == "mail.py::send_receipt"


def test_damaged_index_of_another_worktree_is_not_used(
    root: Path, kept: Path, encoder: HashEncoder
) -> None:
    with _open(root, kept, encoder) as opened:
        name = opened.corpus.name
    (builds.current(cache.home_of(kept), name) / "base/vectors.npy").write_bytes(b"x")
    encoder.encoded.clear()
    with _open(_worktree(root, "branch"), kept, encoder) as opened:
        assert len(encoder.encoded) == 2
        assert _found(opened, "send")[0] == "mail.py::send_receipt"


def test_directory_outside_of_git_has_no_other_worktrees(
    tmp_path: Path, kept: Path, encoder: HashEncoder
) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "mail.py").write_text(MAIL)
        encoder.encoded.clear()
        _open(tmp_path / name, kept, encoder).close()
        assert len(encoder.encoded) == 1


# ---- what is refused


def test_directory_without_anything_to_index_is_refused(
    tmp_path: Path, kept: Path, encoder: HashEncoder
) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidInput, match="no files that Purlin reads"):
        _open(tmp_path / "empty", kept, encoder)
    with pytest.raises(InvalidInput, match="no documentation that Purlin reads"):
        open_workspace(tmp_path / "empty", kind="reference", cache_directory=kept, encoder=encoder)


def test_too_many_files_are_refused_before_any_is_read(
    root: Path, kept: Path, encoder: HashEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workspace, "MAX_FILES", 1)
    with pytest.raises(InvalidInput, match="more than 1 files"):
        _open(root, kept, encoder)
    assert encoder.encoded == []
    assert builds.corpora(cache.home_of(kept)) == []


def test_files_that_cannot_be_read_are_passed_over(
    root: Path, kept: Path, encoder: HashEncoder
) -> None:
    (root / "binary.py").write_bytes(b"\0" * 100)
    (root / "huge.py").write_bytes(b"# " + b"x" * (3 << 20))
    (root / "circle").symlink_to(root, target_is_directory=True)
    (root / "gone.py").symlink_to(root / "nowhere.py")
    os.mkfifo(root / "pipe.py")
    with _open(root, kept, encoder) as opened:
        assert opened.corpus.count(["mail.py::send_receipt", "src/basket.py::add_article"]) == 2
        assert "circle" not in str(opened.corpus.listing.names(100))


def test_files_that_cannot_be_read_are_noted_once(
    root: Path, kept: Path, encoder: HashEncoder
) -> None:
    (root / "legacy").mkdir()
    (root / "legacy" / "latin.py").write_bytes(
        b"price = 'caf\x81\x81\x81\x81\x81\x81\x81\x81\x81\x81\x81\x81'\n"
    )
    # These are left out for what they are.
    (root / "LICENSE").write_bytes(b"\xe9")
    (root / "rows.csv").write_bytes(b"\xe9")
    (root / "rows.json").write_text(" " * (65 << 10))
    (root / "photo.png").write_bytes(b"\0")
    first = "legacy/latin.py: not UTF-8, "
    with _open(root, kept, encoder) as opened:
        assert opened.notes[1].startswith(f"1 file could not be read: {first}")
        assert not opened.refresh()
        assert opened.notes == ()

        (root / "mail.py").write_bytes(b"\0")
        (root / "zero.md").write_bytes(b"\0")
        opened.refresh()
        assert opened.notes[1].startswith(f"3 files could not be read, the first: {first}")
    with _open(root, kept, encoder) as opened:
        assert opened.notes == ()
        # Nothing that is searched changes, yet the file is missed.
        (root / "new.py").write_bytes(b"\0")
        opened.refresh()
        assert opened.notes[1].startswith("4 files could not be read")
        assert not opened.refresh()


def test_only_what_cannot_be_read_is_counted_in_the_refusal(
    tmp_path: Path, kept: Path, encoder: HashEncoder
) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "LICENSE").write_text("All rights reserved.\n")
    with pytest.raises(InvalidInput, match=r"\.gitignore leaves them out\.$"):
        _open(tmp_path / "old", kept, encoder)
    (tmp_path / "old" / "latin.py").write_bytes(b"\x81")
    with pytest.raises(InvalidInput, match=r"\(1 file could not be read: latin\.py: not UTF-8"):
        _open(tmp_path / "old", kept, encoder)


def test_content_chooses_the_files(root: Path, kept: Path, encoder: HashEncoder) -> None:
    (root / "README.md").write_text("# Receipts\n\nWe send a receipt with each order.\n")
    (root / "settings.toml").write_text('[receipt]\nsender = "order@example.org"\n')
    with _open(root, kept, encoder) as opened:
        paths = {
            content: {
                str(hit.location.path) for hit in opened.search("order", content=content).hits
            }
            for content in CONTENTS
        }
    assert paths["code"] == {"mail.py", "src/basket.py"}
    assert paths["docs"] == {"README.md"}
    assert paths["config"] == {"settings.toml"}
    assert paths["all"] == paths["code"] | paths["docs"] | paths["config"]


def test_unknown_content_is_refused(root: Path, kept: Path, encoder: HashEncoder) -> None:
    with _open(root, kept, encoder) as opened, pytest.raises(InvalidInput, match="code, docs"):
        opened.search("send", content="pictures")  # type: ignore[arg-type]


# ---- the size of the cache


def test_least_recently_used_indexes_are_dropped(
    tmp_path: Path, kept: Path, encoder: HashEncoder
) -> None:
    for age, name in enumerate(("new", "old", "older")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "mail.py").write_text(MAIL)
        with _open(tmp_path / name, kept, encoder) as opened:
            state = cache.state_directory(cache.home_of(kept), opened.corpus.name)
        os.utime(state, (1e9 - age, 1e9 - age))

    names = [entry.root.name for entry in cache.entries(kept)]
    assert names == ["older", "old", "new"]
    older, old, new = cache.entries(kept)
    assert older.bytes > 1000

    with exclusive(cache.state_directory(cache.home_of(kept), older.name), "busy"):
        assert cache.trim(kept, {new.name}, limit=0) == [old]
    assert [entry.root.name for entry in cache.entries(kept)] == ["older", "new"]
    assert builds.corpora(cache.home_of(kept)) == sorted([older.name, new.name])
    assert cache.trim(kept, {new.name}, limit=older.bytes + new.bytes) == []


def test_cache_directory_follows_the_platform(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PURLIN_CACHE", raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache.cache_directory() == Path("/somewhere/purlin")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache.cache_directory() == Path.home() / ".cache/purlin"
    monkeypatch.setattr("sys.platform", "darwin")
    assert cache.cache_directory() == Path.home() / "Library/Caches/purlin"
    monkeypatch.setenv("PURLIN_CACHE", "/elsewhere")
    assert cache.cache_directory() == Path("/elsewhere")
