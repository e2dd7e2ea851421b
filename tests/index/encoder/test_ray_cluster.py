"""Encoding by a Ray cluster: the same vectors as here, whatever happens to the workers."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from purlin.index.encoder import STATIC_ENCODER, TextEncoder, load_encoder
from purlin.index.encoder.ray_cluster import CHUNK_TEXTS, RayEncoder
from purlin.index.errors import Damaged, EncoderMismatch, EngineFailed, InvalidInput, NotFound

ray = pytest.importorskip("ray", reason="takes Ray, which is in purlin-search[dev]")

# Uneven, with an empty text, and a last chunk that is not full.
TEXTS = [
    f"{'word ' * (row % 37)}number {row}" * (row % 5 > 0) for row in range(9 * CHUNK_TEXTS + 3)
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayEncoder]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "disabled")
        patch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        encoder = RayEncoder(STATIC_ENCODER, "local")
        yield encoder
        encoder.close()


@pytest.fixture(scope="module")
def here() -> TextEncoder:
    return load_encoder(STATIC_ENCODER)


def test_vectors_equal_those_of_one_machine(cluster: RayEncoder, here: TextEncoder) -> None:
    counts: list[int] = []

    vectors = cluster.encode(TEXTS, role="passage", progress=counts.append)

    np.testing.assert_array_equal(vectors, here.encode(TEXTS, role="passage"))
    assert sum(counts) == len(TEXTS)
    assert cluster.encode([], role="query").shape == (0, here.dim)
    assert cluster.fingerprint == here.fingerprint
    np.testing.assert_array_equal(cluster.count_tokens(TEXTS[:50]), here.count_tokens(TEXTS[:50]))


def test_killed_workers_lose_nothing(cluster: RayEncoder, here: TextEncoder) -> None:
    killed: list[int] = []

    def kill_a_worker(_count: int) -> None:
        if len(killed) < 2:
            killed.append(_worker_pid())
            os.kill(killed[-1], signal.SIGKILL)

    vectors = cluster.encode(TEXTS, role="passage", progress=kill_a_worker)

    assert len(set(killed)) == 2
    np.testing.assert_array_equal(vectors, here.encode(TEXTS, role="passage"))


def _worker_pid() -> int:
    """Process id of a worker that has encoded something."""

    @ray.remote(num_cpus=1)
    def process() -> int:
        return os.getpid()

    return int(ray.get(process.remote()))


def test_worker_with_other_vectors_is_refused(cluster: RayEncoder) -> None:
    name, files, expected = ray.get(cluster._model[0])
    other = [ray.put((name, files, expected[:, ::-1]))]

    with pytest.raises(EncoderMismatch, match="other vectors on the Ray node"):
        _encode_with(cluster, other)


def test_worker_that_cannot_open_the_encoder_is_reported(cluster: RayEncoder) -> None:
    with pytest.raises(EngineFailed, match="same version of Purlin"):
        _encode_with(cluster, [ray.put(("encoder", {}, None))])


def _encode_with(cluster: RayEncoder, model: list[object]) -> None:
    """Encode with other content for the workers, in workers that have no encoder yet."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cluster, "_model", model)
        patch.setattr(cluster, "fingerprint", "0" * 64)
        cluster.encode(["text"], role="passage")


@pytest.mark.parametrize("address", ["", "nonsense", "ray://head", "host:0", "host:70000"])
def test_invalid_address_is_refused(address: str) -> None:
    with pytest.raises(InvalidInput, match="host:port, auto or local") as caught:
        RayEncoder(STATIC_ENCODER, address)
    assert caught.value.field == "ray"


def test_cluster_that_does_not_answer_is_named() -> None:
    with pytest.raises(EngineFailed, match=r"No Ray cluster answers at '127\.0\.0\.1:1'"):
        RayEncoder(STATIC_ENCODER, "127.0.0.1:1")


def test_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)

    with pytest.raises(NotFound, match=r"purlin-search\[ray\]"):
        RayEncoder(STATIC_ENCODER, "local")


def test_damaged_encoder_is_reported_before_ray_starts(tmp_path: Path) -> None:
    directory = shutil.copytree(STATIC_ENCODER, tmp_path / "encoder")
    (directory / "encoder.json").write_text("{}")

    with pytest.raises(Damaged, match=r"encoder\.json"):
        RayEncoder(directory, "local")
