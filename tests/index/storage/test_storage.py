import io
from pathlib import Path

import numpy as np
import pytest

from purlin.index import storage
from purlin.index.errors import StorageFailed
from tests.support.training_runs import largest_file


@pytest.mark.parametrize(
    "numbers",
    [
        np.arange(6, dtype=np.float16).reshape(2, 3),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.zeros((0, 4), np.float32),
        np.array(7, np.int32),
        np.ones((2, 3, 4), np.bool_),
        np.arange(5, dtype=np.uint8),
        np.arange(3, dtype=">i8"),
    ],
)
def test_read_array_equals_numpy(numbers: np.ndarray) -> None:
    file = io.BytesIO()
    np.save(file, numbers)
    array = storage.read_array(file.getvalue())
    np.testing.assert_array_equal(array, numbers)
    assert (array.dtype, array.flags.writeable) == (numbers.dtype, False)


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
        _saved(np.ones(3)).replace(b"(3,)", b"(9,)"),
        _saved(np.array(["text"])),
    ],
)
def test_read_array_refuses_other_content(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        storage.read_array(content)


def test_array_that_a_full_disk_cuts_is_reported_as_that(tmp_path: Path) -> None:
    with (
        largest_file(100_000),
        pytest.raises(StorageFailed, match=r"The disk is full .*Free some space"),
        storage.storage_errors(),
    ):
        np.save(tmp_path / "vectors.npy", np.zeros(100_000))
