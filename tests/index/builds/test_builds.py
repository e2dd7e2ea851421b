import errno
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from purlin.index import builds
from purlin.index.builds import build_files
from purlin.index.builds.build_files import Files
from purlin.index.builds.manifests import Manifest, read_manifest
from purlin.index.errors import Busy, Damaged, InvalidInput, NotFound, StorageFailed
from purlin.index.storage.blocks import BlockWriter, seal
from tests.support.paths import ROOT
from tests.support.privileges import unprivileged


def _publish(home: Path, name: str, content: str, activate: bool = True) -> str:
    with builds.locked(home, name) as directory, builds.staging(directory) as staging_dir:
        (staging_dir / "lexical").mkdir()
        (staging_dir / "lexical" / "data").write_text(content)
        with BlockWriter(staging_dir / "large") as file:
            file.write(content.encode() * 4000)
        manifest = Manifest(
            name=name, kind="code", created_at=content, encoder={}, documents=1, passages=1, skipped=0,
            splitter="whole", dense_weight=0.5, lexical_power=2.0, segments=("base",), texts=1, sources=("/src",),
            files=build_files.checksums(staging_dir),
        )  # fmt: skip
        build = builds.publish(staging_dir, manifest.to_json())
        if activate:
            builds.switch(directory, build)
    return build


def test_published_build_is_read_and_verified(tmp_path: Path) -> None:
    build = _publish(tmp_path, "c", "one")
    directory = builds.current(tmp_path, "c")
    assert directory.name == build
    manifest = read_manifest(directory)
    assert manifest.created_at == "one"
    build_files.verify(directory, manifest.files)
    assert builds.corpora(tmp_path) == ["c"]


def test_last_three_builds_are_kept(tmp_path: Path) -> None:
    published = [_publish(tmp_path, "c", str(i)) for i in range(5)]
    assert builds.builds(tmp_path, "c") == published[-3:]
    builds.activate(tmp_path, "c", published[-3])
    assert builds.current(tmp_path, "c").name == published[-3]
    with pytest.raises(NotFound, match="has no build"):
        builds.activate(tmp_path, "c", published[0])


@pytest.mark.parametrize("name", ["", "..", "a/b", "A", "a" * 65, "-a", "a\n", "."])
def test_invalid_names_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidInput, match="not a valid corpus name"):
        builds.current(tmp_path, name)


def _truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


def _alter(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("file", ["manifest.json", "lexical/data", "large", "large.sums"])
@pytest.mark.parametrize("harm", [_truncate, _alter, Path.unlink])
def test_damaged_file_is_named(tmp_path: Path, file: str, harm: Callable[[Path], None]) -> None:
    good = _publish(tmp_path, "c", "good")
    bad = _publish(tmp_path, "c", "bad", activate=False)
    directory = tmp_path / "corpora" / "c" / bad
    harm(directory / file)
    with pytest.raises(Damaged, match=file):
        build_files.verify(directory, read_manifest(directory).files)
    with pytest.raises(Damaged, match=file):
        builds.activate(tmp_path, "c", bad)
    assert builds.current(tmp_path, "c").name == good


@pytest.mark.parametrize(
    "content", ["", "gone", "../../etc", "20260101T000000000000-000000000000", "\xff"]
)
def test_current_without_a_build_is_damaged(tmp_path: Path, content: str) -> None:
    _publish(tmp_path, "c", "x")
    (tmp_path / "corpora/c/CURRENT").write_text(content, encoding="latin-1")
    with pytest.raises(Damaged, match="c/CURRENT"):
        builds.current(tmp_path, "c")


def test_unreadable_current_is_damaged(tmp_path: Path) -> None:
    _publish(tmp_path, "c", "x")
    current = tmp_path / "corpora/c/CURRENT"
    current.unlink()
    current.mkdir()
    with pytest.raises(Damaged, match=r"c/CURRENT cannot be read \(Is a directory\)"):
        builds.current(tmp_path, "c")


def _read_active(home: Path, name: str) -> Manifest:
    assert builds.names(home) == [name]
    assert builds.exists(home, name)
    return read_manifest(builds.current(home, name))


@pytest.mark.parametrize("hidden", ["", "c", "c/CURRENT", "c/{build}", "c/{build}/manifest.json"])
def test_what_this_user_may_not_read_is_named(hidden: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        home.chmod(0o755)
        path = home / "corpora" / hidden.format(build=_publish(home, "c", "x"))
        mode = path.stat().st_mode
        path.chmod(0)
        with unprivileged(), pytest.raises(Damaged, match="denied: give this user read"):
            _read_active(home, "c")
        path.chmod(mode)


def test_litter_that_cannot_be_removed_raises(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _publish(tmp_path, "c", "x")
    (tmp_path / "corpora/c/.making-x").touch()

    def fails(path: Path, missing_ok: bool = False) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "unlink", fails)
    with pytest.raises(StorageFailed, match="PURLIN_HOME cannot be written to"):
        builds.delete(tmp_path, "c")


def test_second_writer_is_busy(tmp_path: Path) -> None:
    with builds.locked(tmp_path, "c"):
        with pytest.raises(Busy, match="'c' is being built"), builds.locked(tmp_path, "c"):
            pass
        with builds.locked(tmp_path, "d"):
            pass
    with builds.locked(tmp_path, "c"):
        pass


def test_the_lock_is_on_the_directory_that_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = ExitStack()
    first.enter_context(builds.locked(tmp_path, "c"))
    flock = fcntl.flock

    def flock_late(handle: int, operation: int) -> None:
        # The first process ends without a build, and so removes the directory that is open already.
        first.close()
        flock(handle, operation)

    monkeypatch.setattr(fcntl, "flock", flock_late)
    with builds.locked(tmp_path, "c") as directory:
        assert directory.is_dir()
        with pytest.raises(Busy), builds.locked(tmp_path, "c"):
            pass


def test_killed_process_leaves_no_lock_or_litter(tmp_path: Path) -> None:
    _publish(tmp_path, "c", "x")
    script = (
        "import os, signal, sys; from pathlib import Path; from purlin.index import builds as g\n"
        f"with g.locked(Path({str(tmp_path)!r}), 'c') as d, g.staging(d) as m:\n"
        "    (m / 'half').write_text('x'); os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", script], check=False, cwd=ROOT)
    assert list((tmp_path / "corpora/c").glob(".making-*"))
    with builds.locked(tmp_path, "c"):
        assert not list((tmp_path / "corpora/c").glob(".making-*"))


def test_delete_leaves_nothing(tmp_path: Path) -> None:
    _publish(tmp_path, "c", "x")
    _publish(tmp_path, "c", "y")
    builds.delete(tmp_path, "c")
    assert not (tmp_path / "corpora/c").exists()
    assert builds.corpora(tmp_path) == []


def test_failed_build_leaves_nothing(tmp_path: Path) -> None:
    def failing() -> None:
        with builds.locked(tmp_path, "new") as directory, builds.staging(directory) as staging_dir:
            (staging_dir / "half").write_text("x")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        failing()
    assert not (tmp_path / "corpora/new").exists()


def test_build_interrupted_as_its_directory_is_made_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mkdir = os.mkdir

    def mkdir_interrupted(path: str, mode: int = 0o777) -> None:
        mkdir(path, mode)
        if ".making-" in os.fspath(path):
            raise KeyboardInterrupt

    monkeypatch.setattr(os, "mkdir", mkdir_interrupted)
    with (
        pytest.raises(KeyboardInterrupt),
        builds.locked(tmp_path, "new") as directory,
        builds.staging(directory),
    ):
        pass
    assert not (tmp_path / "corpora/new").exists()


def _rewritten(home: Path, old: str, new: str) -> Path:
    """A build whose manifest says something else, under the name that vouches for it."""
    build = _publish(home, "c", "x")
    directory = home / "corpora" / "c"
    written = (directory / build / "manifest.json").read_text()
    assert old in written
    content = written.replace(old, new).encode()
    rewritten = directory / f"20260101T000000000000-{hashlib.sha256(content).hexdigest()[:12]}"
    shutil.copytree(directory / build, rewritten)
    (rewritten / "manifest.json").write_bytes(content)
    return rewritten


@pytest.mark.parametrize(
    ("old", "new"),
    [('"format": 6', '"format": 7'), ('"format": 6', '"format": 5'), ('"demote": true,', "")],
)
def test_build_of_another_version_is_refused(tmp_path: Path, old: str, new: str) -> None:
    directory = _rewritten(tmp_path, old, new)
    with pytest.raises(Damaged, match=r"another version.*build the corpus again") as refusal:
        read_manifest(directory)
    assert "(`purlin index build code ... --name c`)" in refusal.value.message


def test_file_is_verified_as_it_is_read(tmp_path: Path) -> None:
    _publish(tmp_path, "c", "good")
    directory = builds.current(tmp_path, "c")
    files = build_files.Files(directory, read_manifest(directory).files)
    assert files.read(directory / "lexical" / "data") == b"good"
    (directory / "lexical" / "data").write_text("evil")
    files.check_others()  # there is no other
    again = build_files.Files(directory, read_manifest(directory).files)
    with pytest.raises(Damaged, match=r"lexical/data was altered"):
        again.read(directory / "lexical" / "data")


def test_block_files_are_listed_with_their_sums(tmp_path: Path) -> None:
    build = _publish(tmp_path, "c", "content")
    directory = tmp_path / "corpora" / "c" / build
    files = read_manifest(directory).files
    assert set(files) == {"large", "lexical/data"}
    digest = hashlib.sha256((directory / "large.sums").read_bytes()).hexdigest()
    assert files["large"] == {"bytes": 28_000, "blocks": digest}


def test_each_file_is_opened_as_it_is_listed(tmp_path: Path) -> None:
    build = _publish(tmp_path, "c", "content")
    directory = tmp_path / "corpora" / "c" / build
    files = Files(directory, read_manifest(directory).files)
    with pytest.raises(Damaged, match="is not listed"):
        files.blocks(directory / "lexical" / "data")
    with pytest.raises(Damaged, match="is not listed"):
        files.read(directory / "large")
    assert bytes(files.blocks(directory / "large").read(7000, 7010)) == b"contentcon"

    # What is open is not read again.
    (directory / "large").write_bytes(b"")
    files.check_others()


def test_linked_files_keep_their_sums(tmp_path: Path) -> None:
    for name in ("large", "plain"):
        (tmp_path / name).write_bytes(b"x" * 5000)
    seal(tmp_path / "large")
    for name in ("large", "plain"):
        build_files.link(tmp_path / name, tmp_path / "copy" / name)
    entries = build_files.checksums(tmp_path / "copy")
    expected = {"large": ["blocks", "bytes"], "plain": ["bytes", "sha256"]}
    assert {name: sorted(entry) for name, entry in entries.items()} == expected


def test_builds_without_current_are_named_with_the_remedy(tmp_path: Path) -> None:
    _publish(tmp_path, "whole", "one")
    published = [_publish(tmp_path, "c", text) for text in ("one", "two")]
    (tmp_path / "corpora" / "c" / "CURRENT").unlink()
    (tmp_path / "corpora" / "empty").mkdir()

    (message,) = builds.inactive(tmp_path)
    assert f"`purlin index activate c {published[1]}`" in message
    with pytest.raises(NotFound, match="c has builds, but no CURRENT"):
        builds.current(tmp_path, "c")
    assert builds.names(tmp_path) == ["whole"]

    builds.activate(tmp_path, "c", published[1])
    assert builds.inactive(tmp_path) == []
    assert builds.current(tmp_path, "c").name == published[1]


def test_unknown_corpus_lists_existing_ones(tmp_path: Path) -> None:
    _publish(tmp_path, "shop", "x")
    with pytest.raises(NotFound, match="Corpora: shop"):
        builds.current(tmp_path, "other")
    with pytest.raises(NotFound, match="Corpora: shop"):
        builds.delete(tmp_path, "other")


def test_file_system_without_locks_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = _publish(tmp_path, "c", "x")

    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with pytest.raises(StorageFailed, match=r"corpora/c cannot be locked .*PURLIN_HOME"):
        builds.activate(tmp_path, "c", build)
    assert builds.builds(tmp_path, "c") == [build]
