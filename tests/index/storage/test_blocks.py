from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xxhash import xxh3_64_intdigest

from purlin.index.errors import Altered, Damaged
from purlin.index.storage import blocks
from purlin.index.storage.blocks import BLOCK, BlockFile, BlockWriter, Unchecked, seal, sums_path

SIZES = st.sampled_from([0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK, 5 * BLOCK + 77])


# On disk, the kernel copies blocks from a mapping or, where it cannot, reads them one by one.
HELD = pytest.mark.parametrize("held", ["disk", "unmapped", "memory"])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write(tmp_path / "file", content_of(5 * BLOCK + 77))


def content_of(size: int) -> bytes:
    return np.random.default_rng(size).bytes(size)


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    seal(path)
    return path


def opened(path: Path, held: str) -> BlockFile:
    """Open a file whose content stays on disk or is in memory."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "MOST_IN_MEMORY", 2**20 if held == "memory" else -1)
        if held == "unmapped":
            patch.setattr(blocks, "_mapped", lambda *_: None)
        return Unchecked().blocks(path)


@given(SIZES, st.lists(st.integers(0, 3 * BLOCK), max_size=8), st.integers(1, 600))
def test_written_in_parts_is_written_whole(size: int, cuts: list[int], chunk: int) -> None:
    content = content_of(size)
    with TemporaryDirectory() as directory:
        path = Path(directory) / "file"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(blocks, "_CHUNK", chunk)
            with BlockWriter(path) as file:
                bounds = [0, *sorted(cuts), max([size, *cuts])]
                for start, stop in pairwise(bounds):
                    assert file.write(content[start:stop]) == len(content[start:stop])
                assert file.tell() == size
        assert path.read_bytes() == content
        written = np.fromfile(sums_path(path), "<u8").tolist()
        assert written == [
            xxh3_64_intdigest(content[start : start + BLOCK]) for start in range(0, size, BLOCK)
        ]
        seal(path)
        assert np.fromfile(sums_path(path), "<u8").tolist() == written


@HELD
@given(size=SIZES, start=st.integers(0, 6 * BLOCK), stop=st.integers(0, 6 * BLOCK))
def test_any_range_is_what_was_written(held: str, size: int, start: int, stop: int) -> None:
    content = content_of(size)
    with TemporaryDirectory() as directory:
        with closing(opened(write(Path(directory) / "file", content), held)) as file:
            assert bytes(file.read(start, stop)) == content[start:stop]
            assert file.size == size


@HELD
@given(
    length=st.integers(1, 2 * BLOCK + 5),
    offset=st.integers(0, 100),
    numbers=st.lists(st.integers(0, 10**6), max_size=20),
)
def test_any_rows_are_what_was_written(
    held: str, length: int, offset: int, numbers: list[int]
) -> None:
    content = content_of(5 * BLOCK + 77)
    count = (len(content) - offset) // length
    rows = np.array(numbers, dtype=np.int64) % count
    with TemporaryDirectory() as directory:
        with closing(opened(write(Path(directory) / "file", content), held)) as file:
            selected = file.rows(rows, length, offset)
    assert selected.shape == (len(rows), length)
    for row, selected_row in zip(rows.tolist(), selected, strict=True):
        start = offset + row * length
        assert selected_row.tobytes() == content[start : start + length]


@HELD
@given(ranges=st.lists(st.tuples(st.integers(0, 20_000), st.integers(1, 9000)), max_size=20))
def test_any_parts_are_what_was_written(held: str, ranges: list[tuple[int, int]]) -> None:
    content = content_of(5 * BLOCK + 77)
    starts = np.array([start for start, _ in ranges], dtype=np.int64)
    stops = np.minimum(starts + [length for _, length in ranges], len(content)).astype(np.int64)
    with TemporaryDirectory() as directory:
        with closing(opened(write(Path(directory) / "file", content), held)) as file:
            parts = file.parts(starts, stops)
    assert parts == [
        content[start:stop] for start, stop in zip(starts.tolist(), stops.tolist(), strict=True)
    ]


@HELD
@pytest.mark.parametrize("rows", [[-1], [0, 207]])
def test_rows_beyond_the_file_are_refused(path: Path, held: str, rows: list[int]) -> None:
    with closing(opened(path, held)) as file, pytest.raises(IndexError, match="beyond"):
        file.rows(np.array(rows), 100)


def test_a_closed_file_says_so(path: Path) -> None:
    file = opened(path, "disk")
    file.close()
    with pytest.raises(ValueError, match="file is closed"):
        file.read(0, 1)


@given(st.integers(0, 5 * BLOCK + 76), st.integers(0, 7))
def test_a_flipped_bit_is_noticed_where_it_is_read(position: int, bit: int) -> None:
    content = content_of(5 * BLOCK + 77)
    altered = bytearray(content)
    altered[position] ^= 1 << bit
    with TemporaryDirectory() as directory:
        path = write(Path(directory) / "file", content)
        with closing(opened(path, "disk")) as file:
            path.write_bytes(altered)
            for start in range(0, len(content), 1000):
                stop = min(start + 1000, len(content))
                sound = (
                    start // BLOCK > position // BLOCK or (stop - 1) // BLOCK < position // BLOCK
                )
                if sound:
                    assert bytes(file.read(start, stop)) == content[start:stop]
                else:
                    with pytest.raises(Altered, match="file was altered"):
                        file.read(start, stop)
                    with pytest.raises(Altered, match="file was altered"):
                        file.rows(np.array([0]), stop - start, start)
            with pytest.raises(Altered):
                file.check()


@HELD
@pytest.mark.parametrize("size", [0, 1, BLOCK, 5 * BLOCK])
def test_a_cut_file_is_noticed_or_in_memory(path: Path, held: str, size: int) -> None:
    content = path.read_bytes()
    with closing(opened(path, held)) as file:
        os.truncate(path, size)
        if held == "memory":
            assert bytes(file.read(0, file.size)) == content
        else:
            with pytest.raises(Altered, match=r"file was (cut|altered)"):
                file.read(5 * BLOCK + 70, 5 * BLOCK + 71)
            with pytest.raises(Altered, match=r"file was (cut|altered)"):
                file.rows(np.array([0, 204]), 100)


@HELD
@pytest.mark.parametrize("harm", [Path.unlink, lambda path: path.rename(path.with_name("other"))])
def test_a_removed_file_can_still_be_read(
    path: Path, held: str, harm: Callable[[Path], None]
) -> None:
    content = path.read_bytes()
    with closing(opened(path, held)) as file:
        harm(path)
        path.write_bytes(b"another file of this name")
        assert bytes(file.read(100, 9000)) == content[100:9000]
        file.check()


HARMS: list[Callable[[Path], object]] = [
    lambda path: os.truncate(path, BLOCK),
    lambda path: os.truncate(path, 6 * BLOCK),
    lambda path: os.truncate(sums_path(path), 8),
    lambda path: sums_path(path).write_bytes(bytes(48)),
]


@pytest.mark.parametrize("harm", HARMS)
def test_damage_before_opening_is_noticed(path: Path, harm: Callable[[Path], object]) -> None:
    size = path.stat().st_size
    harm(path)
    sums = sums_path(path).read_bytes()
    with pytest.raises(Damaged, match="file"):
        with closing(BlockFile(path, size, sums)) as file:
            file.check()


def test_a_missing_file_is_named(path: Path) -> None:
    with pytest.raises(Damaged, match="far is missing"):
        BlockFile(path.with_name("far"), 3, bytes(8))


def descriptors(directory: Path) -> int:
    """Number of files of a directory that this process has open; others come and go."""
    open_files = [entry.resolve() for entry in list(Path("/proc/self/fd").iterdir())]
    return sum(file.is_relative_to(directory) for file in open_files)


def test_rows_and_parts_outlive_later_reads(path: Path) -> None:
    content = content_of(5 * BLOCK + 77)
    with closing(opened(path, "disk")) as file:
        rows = file.rows(np.arange(0, 20, 2), 1024)
        parts = file.parts(np.array([5, 3 * BLOCK]), np.array([BLOCK + 9, 3 * BLOCK + 1]))
        file.rows(np.arange(1, 20, 2), 1024)
    assert rows.tobytes() == b"".join(
        content[start : start + 1024] for start in range(0, 20 * 1024, 2048)
    )
    assert parts == [content[5 : BLOCK + 9], content[3 * BLOCK : 3 * BLOCK + 1]]


@pytest.mark.parametrize("buffer_blocks", [1, 512])
def test_threads_do_not_share_buffers(
    path: Path, buffer_blocks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "_BUFFER_BYTES", buffer_blocks * BLOCK)
    monkeypatch.setattr(blocks, "_buffers", deque(maxlen=4))
    content = content_of(5 * BLOCK + 77)
    with closing(opened(path, "disk")) as file, ThreadPoolExecutor(8) as pool:

        def read(start: int) -> bool:
            starts = np.array([start, start + 2 * BLOCK])
            expected = [content[first : first + 3000] for first in starts]
            return file.parts(starts, starts + 3000) == expected

        assert all(pool.map(read, range(2000)))


def test_the_kernel_copies_blocks_in_one_call(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = content_of(5 * BLOCK + 77)
    starts = np.array([5, 3 * BLOCK, 5 * BLOCK + 70])
    expected = [content[start : start + 7] for start in starts]
    with closing(opened(path, "disk")) as file:
        with monkeypatch.context() as patch:
            patch.setattr(BlockFile, "_fill", None)
            assert file.parts(starts, starts + 7) == expected
        # A system that has no memory files, or a buffer that is as large as many blocks.
        with monkeypatch.context() as patch:
            patch.delattr(os, "memfd_create")
            patch.setattr(blocks, "_buffers", deque(maxlen=4))
            assert file.parts(starts, starts + 7) == expected
        with monkeypatch.context() as patch:
            patch.setattr(blocks, "_BUFFER_BYTES", BLOCK)
            assert file.parts(starts, starts + 7) == expected


def test_a_forked_process_has_buffers_of_its_own(path: Path) -> None:
    program = f"""
import os, sys
import numpy as np
from pathlib import Path
from purlin.index.storage import blocks
blocks.MOST_IN_MEMORY = -1
file = blocks.Unchecked().blocks(Path({str(path)!r}))
row = file.rows(np.array([3]), 100)
kept = len(blocks._buffers)
child = os.fork()
if not child:
    os._exit(len(blocks._buffers) or int((file.rows(np.array([3]), 100) != row).any()))
print(kept, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert output.stdout.split() == [b"1", b"0"]


@HELD
def test_descriptors_are_closed(path: Path, held: str) -> None:
    files = [opened(path, held) for _ in range(5)]
    # A mapping keeps a descriptor of its own.
    assert descriptors(path.parent) == 5 * {"disk": 2, "unmapped": 1, "memory": 0}[held]
    files[0].close()
    files.clear()
    gc.collect()
    assert descriptors(path.parent) == 0


def test_an_abandoned_file_has_no_sums(tmp_path: Path) -> None:
    with suppress(RuntimeError), BlockWriter(tmp_path / "file") as file:
        file.write(b"x")
        raise RuntimeError
    assert not sums_path(tmp_path / "file").exists()
