import hashlib
import io
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from index import builds, storage
from index.builds import Manifest
from index.errors import Busy, Damaged, InvalidInput, NotFound, StorageFailed


def _publish(home: Path, name: str, content: str, activate: bool = True) -> str:
    with builds.locked(home, name) as directory, builds.staging(directory) as made:
        (made / "lexical").mkdir()
        (made / "lexical" / "data").write_text(content)
        manifest = Manifest(
            name=name, kind="code", created_at=content, encoder={}, documents=1, passages=1, skipped=0,
            splitter="whole", dense_weight=0.5, lexical_power=2.0, files=builds.checksums(made),
        )  # fmt: skip
        build = builds.publish(made, manifest)
        if activate:
            builds.switch(directory, build)
    return build


def test_a_published_build_is_read_back_and_verified(tmp_path: Path) -> None:
    build = _publish(tmp_path, "c", "one")
    directory = builds.current(tmp_path, "c")
    assert directory.name == build
    manifest = builds.read_manifest(directory)
    assert manifest.created_at == "one"
    builds.verify(directory, manifest)
    assert builds.corpora(tmp_path) == ["c"]


def test_the_last_three_builds_stay_and_one_can_go_back(tmp_path: Path) -> None:
    made = [_publish(tmp_path, "c", str(i)) for i in range(5)]
    assert builds.builds(tmp_path, "c") == made[-3:]
    builds.activate(tmp_path, "c", made[-3])
    assert builds.current(tmp_path, "c").name == made[-3]
    with pytest.raises(NotFound, match="has no build"):
        builds.activate(tmp_path, "c", made[0])


@pytest.mark.parametrize("name", ["", "..", "a/b", "A", "a" * 65, "-a", "a\n", "."])
def test_no_name_leads_elsewhere(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidInput, match="not a valid corpus name"):
        builds.current(tmp_path, name)


def test_an_unknown_corpus_lists_the_known_ones(tmp_path: Path) -> None:
    _publish(tmp_path, "known", "x")
    with pytest.raises(NotFound, match="Corpora: known"):
        builds.current(tmp_path, "other")
    with pytest.raises(NotFound, match="Corpora: known"):
        builds.delete(tmp_path, "other")


def _truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


def _alter(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("file", ["manifest.json", "lexical/data"])
@pytest.mark.parametrize("harm", [_truncate, _alter, Path.unlink])
def test_every_damaged_file_is_named(
    tmp_path: Path, file: str, harm: Callable[[Path], None]
) -> None:
    good = _publish(tmp_path, "c", "good")
    bad = _publish(tmp_path, "c", "bad", activate=False)
    directory = tmp_path / "corpora" / "c" / bad
    harm(directory / file)
    with pytest.raises(Damaged, match=file):
        builds.verify(directory, builds.read_manifest(directory))
    with pytest.raises(Damaged, match=file):
        builds.activate(tmp_path, "c", bad)
    assert builds.current(tmp_path, "c").name == good


@pytest.mark.parametrize(
    "content", ["", "gone", "../../etc", "20260101T000000000000-000000000000", "\xff"]
)
def test_a_current_that_names_nothing_is_damaged(tmp_path: Path, content: str) -> None:
    _publish(tmp_path, "c", "x")
    (tmp_path / "corpora/c/CURRENT").write_text(content, encoding="latin-1")
    with pytest.raises(Damaged, match="c/CURRENT"):
        builds.current(tmp_path, "c")


def test_a_current_that_cannot_be_read_is_damaged(tmp_path: Path) -> None:
    _publish(tmp_path, "c", "x")
    current = tmp_path / "corpora/c/CURRENT"
    current.unlink()
    current.mkdir()
    with pytest.raises(Damaged, match="c/CURRENT cannot be read: Is a directory"):
        builds.current(tmp_path, "c")


def test_litter_that_cannot_be_swept_is_a_failure_of_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _publish(tmp_path, "c", "x")
    (tmp_path / "corpora/c/.making-x").touch()

    def fails(path: Path, missing_ok: bool = False) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "unlink", fails)
    with pytest.raises(StorageFailed, match="PURLIN_HOME cannot be written to"):
        builds.delete(tmp_path, "c")


def test_two_writers_at_once(tmp_path: Path) -> None:
    with builds.locked(tmp_path, "c"):
        with pytest.raises(Busy, match="'c' is being built"), builds.locked(tmp_path, "c"):
            pass
        with builds.locked(tmp_path, "d"):
            pass
    with builds.locked(tmp_path, "c"):
        pass


def test_the_lock_of_a_killed_process_is_gone_and_its_litter_is_swept(tmp_path: Path) -> None:
    _publish(tmp_path, "c", "x")
    script = (
        "import os, signal, sys; from pathlib import Path; from index import builds as g\n"
        f"with g.locked(Path({str(tmp_path)!r}), 'c') as d, g.staging(d) as m:\n"
        "    (m / 'half').write_text('x'); os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", script], check=False, cwd=Path(__file__).parent.parent)
    assert list((tmp_path / "corpora/c").glob(".making-*"))
    with builds.locked(tmp_path, "c"):
        assert not list((tmp_path / "corpora/c").glob(".making-*"))


def test_deleting_leaves_nothing(tmp_path: Path) -> None:
    _publish(tmp_path, "c", "x")
    _publish(tmp_path, "c", "y")
    builds.delete(tmp_path, "c")
    assert not (tmp_path / "corpora/c").exists()
    assert builds.corpora(tmp_path) == []


def test_a_failure_while_making_leaves_nothing(tmp_path: Path) -> None:
    def failing() -> None:
        with builds.locked(tmp_path, "new") as directory, builds.staging(directory) as made:
            (made / "half").write_text("x")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        failing()
    assert not (tmp_path / "corpora/new").exists()


def _rewritten(home: Path, old: str, new: str) -> Path:
    """A build whose manifest says something else, under the name that vouches for it."""
    build = _publish(home, "c", "x")
    directory = home / "corpora" / "c"
    written = (directory / build / "manifest.json").read_text()
    assert old in written
    content = written.replace(old, new).encode()
    other = directory / f"20260101T000000000000-{hashlib.sha256(content).hexdigest()[:12]}"
    shutil.copytree(directory / build, other)
    (other / "manifest.json").write_bytes(content)
    return other


@pytest.mark.parametrize(("old", "new"), [('"format": 1', '"format": 9'), ('"demote": true,', "")])
def test_what_another_version_wrote_is_refused(tmp_path: Path, old: str, new: str) -> None:
    other = _rewritten(tmp_path, old, new)
    with pytest.raises(Damaged, match=r"another version.*build the corpus again"):
        builds.read_manifest(other)


@pytest.mark.parametrize("old", ['"judged": {},', '"logged": 0,'])
def test_builds_of_before_these_were_noted_are_read(tmp_path: Path, old: str) -> None:
    manifest = builds.read_manifest(_rewritten(tmp_path, old, ""))
    assert (manifest.judged, manifest.logged) == ({}, 0)


# ---- arrays


@pytest.mark.parametrize(
    "numbers",
    [
        np.arange(6, dtype=np.float16).reshape(2, 3),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.zeros((0, 4), np.float32),
        np.array(7, np.int32),
    ],
)
def test_an_array_is_read_as_numpy_reads_it(numbers: np.ndarray) -> None:
    file = io.BytesIO()
    np.save(file, numbers)
    found = storage.read_array(file.getvalue())
    np.testing.assert_array_equal(found, numbers)
    assert (found.dtype, found.flags.writeable) == (numbers.dtype, False)


def _saved(numbers: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, numbers)
    return file.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        _saved(np.ones((3, 4)))[:-1],
        _saved(np.ones((3, 4)))[:20],
        _saved(np.ones((3, 4))).replace(b"(3, 4)", b"(-3,4)"),
        _saved(np.array([{}], dtype=object)),
        _saved(np.ones(3)).replace(b"NUMPY\x01", b"NUMPY\x03"),
    ],
)
def test_what_is_no_array_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        storage.read_array(content)


def test_a_file_is_compared_by_the_pass_that_reads_it(tmp_path: Path) -> None:
    _publish(tmp_path, "c", "good")
    directory = builds.current(tmp_path, "c")
    files = builds.Files(directory, builds.read_manifest(directory))
    assert files.read(directory / "lexical" / "data") == b"good"
    (directory / "lexical" / "data").write_text("evil")
    files.check_others()  # there is no other
    again = builds.Files(directory, builds.read_manifest(directory))
    with pytest.raises(Damaged, match=r"lexical/data was altered"):
        again.read(directory / "lexical" / "data")
