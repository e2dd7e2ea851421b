"""Encoding by the workers of a Ray cluster: many processes, on one machine or on several.

The process that builds sends chunks of texts to the cluster and puts the vectors back in order. A
chunk whose worker is killed, or whose machine is lost, is encoded by another worker. Each worker
gets the encoder's files from the process that builds, and has to give the same vectors for the
texts of the self-check before it encodes others.

Ray starts tasks on whatever machines it has at that time: those that join during a build help, too.
"""

from __future__ import annotations

import logging
import socket
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from purlin.index.encoder import TextEncoder, Vectors, load_encoder, part_directories
from purlin.index.encoder.self_check import SELF_CHECK_TEXTS, TOLERANCE, drift_from
from purlin.index.errors import EncoderMismatch, EngineFailed, InvalidInput, NotFound
from purlin.index.records import Architecture, Role

RAY_EXTRA = "pip install 'purlin-search[ray]'"
# Texts of one task: some seconds of work, so that little is lost with a worker.
CHUNK_TEXTS = 256
# How often one chunk may lose its worker before the build gives up.
_MAX_LOSSES = 10
_CONNECT_S = 5.0
# Tasks per CPU of the cluster that are under way at a time: one runs, one waits.
_TASKS_PER_CPU = 2


class RayEncoder:
    """A `TextEncoder` whose texts are encoded by a Ray cluster, one thread per task.

    `address` is that of the cluster ("auto" for the one that runs on this machine), or "local" for
    workers on this machine alone, one per CPU. Vectors are those of the encoder in `directory`, to
    the last bits of a float: batches are composed of other texts. Safe to share between threads.

    Raises NotFound without Ray, EngineFailed if no cluster answers at the address, and whatever
    `load_encoder` does.
    """

    def __init__(self, directory: Path, address: str) -> None:
        self._encoder = load_encoder(directory, threads=1)
        self._ray = _connected(address)
        directory = directory.absolute()
        files = _files(directory)
        expected = self._encoder.encode(SELF_CHECK_TEXTS, role="passage")
        # In a list, since Ray would send a bare reference's content with each task.
        self._model = [self._ray.put((directory.name, files, expected))]
        self._task = self._ray.remote(max_retries=_MAX_LOSSES, num_cpus=1)(_encode).options(
            scheduling_strategy="SPREAD", name="purlin encode"
        )

        self.name = self._encoder.name
        self.dim = self._encoder.dim
        self.max_tokens = self._encoder.max_tokens
        self.fingerprint = self._encoder.fingerprint
        self.architecture: Architecture = self._encoder.architecture

    @property
    def cpus(self) -> int:
        """Number of CPUs that the cluster has now."""
        return max(1, int(self._ray.cluster_resources().get("CPU", 0)))

    def count_tokens(self, texts: Sequence[str], *, role: Role = "passage") -> NDArray[np.int64]:
        """Count the tokens (texts,) of each text with its prefix, before the cut; done here."""
        return self._encoder.count_tokens(texts, role=role)

    def encode(
        self, texts: Sequence[str], *, role: Role, progress: Callable[[int], None] | None = None
    ) -> Vectors:
        """Return unit vectors (texts, dim) in the order of the texts.

        Raises EngineFailed if the cluster is lost or loses its workers again and again, and
        EncoderMismatch if a worker's vectors differ from those of this machine.
        """
        vectors: Vectors = np.empty((len(texts), self.dim), dtype=np.float32)
        chunks = iter(range(0, len(texts), CHUNK_TEXTS))
        running: dict[Any, int] = {}

        try:
            while True:
                room = max(0, _TASKS_PER_CPU * self.cpus - len(running))
                for start in islice(chunks, room):
                    chunk = list(texts[start : start + CHUNK_TEXTS])
                    running[self._task.remote(self._model, self.fingerprint, chunk, role)] = start
                if not running:
                    return vectors

                finished, _ = self._ray.wait(list(running), num_returns=1)
                start = running.pop(finished[0])
                chunk_vectors = self._ray.get(finished[0])
                vectors[start : start + len(chunk_vectors)] = chunk_vectors
                if progress is not None:
                    progress(len(chunk_vectors))
        except self._ray.exceptions.RayTaskError as error:
            raise _task_failure(error) from error
        except self._ray.exceptions.RayError as error:
            raise EngineFailed(
                f"The Ray cluster could not encode the texts ({type(error).__name__}). See `ray "
                "status`; the same command goes on from the vectors that are finished."
            ) from error
        finally:
            for task in running:
                self._ray.cancel(task)

    def close(self) -> None:
        """Leave the cluster; one that `address` "local" started ends."""
        self._ray.shutdown()


def _connected(address: str) -> Any:
    """Return the module `ray`, connected to a cluster."""
    try:
        import ray
    except ModuleNotFoundError as error:
        raise NotFound(f"Ray is not installed: {RAY_EXTRA}.", field="ray") from error

    _check_address(address)
    # Workers on this machine alone are nobody else's business.
    local: dict[str, Any] = {"_node_ip_address": "127.0.0.1"} if address == "local" else {}
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **local)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise _no_cluster(address, error) from error
    return ray


def _check_address(address: str) -> None:
    """Raise an error for an address where nothing listens: Ray itself waits for two minutes."""
    if address in ("auto", "local"):
        return

    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise InvalidInput(
            f"{address[:80]!r} is no address of a Ray cluster; give host:port, auto or local.",
            field="ray",
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_S).close()
    except OSError as error:
        raise _no_cluster(address, error) from error


def _no_cluster(address: str, error: Exception) -> EngineFailed:
    return EngineFailed(
        f"No Ray cluster answers at {address!r} ({error}). Start one with `ray start --head`, "
        "or use 'local' for workers on this machine.",
        field="ray",
    )


def _task_failure(error: Any) -> Exception:
    """Return what a worker raised as an error for people."""
    if isinstance(error.cause, EncoderMismatch):
        return EncoderMismatch(error.cause.message)
    return EngineFailed(
        f"A worker of the Ray cluster failed: {error.cause!r}. All machines need the same version "
        f"of Purlin: {RAY_EXTRA}."
    )


# ---- in the workers


def _encode(model: Sequence[Any], fingerprint: str, texts: list[str], role: Role) -> Vectors:
    """Encode one chunk; `model` has the reference of the encoder's files."""
    return _worker_encoder(fingerprint, model[0]).encode(texts, role=role)


@lru_cache(maxsize=1)
def _worker_encoder(fingerprint: str, model: Any) -> TextEncoder:
    """Open the encoder, once per worker process, and compare its vectors with the builder's."""
    import ray

    name, files, expected = ray.get(model)
    encoder = _opened(name, files)

    drift = drift_from(expected, encoder)
    if encoder.fingerprint != fingerprint or drift > TOLERANCE:
        address = ray.get_runtime_context().get_node_id()[:12]
        raise EncoderMismatch(
            f"The encoder gives other vectors on the Ray node {address} than where the corpus is "
            f"built (1 - cosine {drift:.4f}, at most {TOLERANCE} is acceptable). Leave that machine out."
        )
    return encoder


def _files(directory: Path) -> dict[str, bytes]:
    """Read an encoder's files and those of its parts: DIRECTORY/FILE -> content."""
    return {
        f"{each.name}/{path.name}": path.read_bytes()
        for each in (directory, *part_directories(directory))
        for path in each.iterdir()
        if path.is_file()
    }


def _opened(name: str, files: Mapping[str, bytes]) -> TextEncoder:
    """Open the encoder in the directory `name` of the files."""
    with tempfile.TemporaryDirectory() as scratch:
        for path, content in files.items():
            Path(scratch, path).parent.mkdir(exist_ok=True)
            Path(scratch, path).write_bytes(content)
        return load_encoder(Path(scratch, name), threads=1)
