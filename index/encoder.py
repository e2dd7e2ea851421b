"""An exported encoder directory -> unit vectors."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, Protocol, Self, get_origin, get_type_hints

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from tokenizers import Tokenizer

from index.errors import Damaged, NotFound

Vectors = NDArray[np.float32]
Role = Literal["query", "passage"]

RELEASED = Path(__file__).resolve().parent.parent / "models" / "all-MiniLM-L6-v2-int8"
MODEL, TOKENIZER, SETTINGS = "model.onnx", "tokenizer.json", "encoder.json"
BATCH_TOKENS = 4096  # rows * longest row of one batch; larger batches were not faster, see docs/encoder.md
WINDOW = 8192  # texts sorted by length together: bounds memory, and leaves next to no padding
CHARS_PER_TOKEN = 64  # a text is cut to this many characters per token of the limit before it is tokenized


class TextEncoder(Protocol):
    """What a corpus needs of an encoder; `Encoder` below is the real one, tests bring a hashed bag of words."""

    @property
    def name(self) -> str:
        """What people call it."""
        ...

    @property
    def dim(self) -> int:
        """Length of a vector."""
        ...

    @property
    def fingerprint(self) -> str:
        """Changes whenever the same text would get another vector."""
        ...

    def encode(self, texts: Sequence[str], *, role: Role, progress: Callable[[int], None] | None = None) -> Vectors:
        """Unit vectors (len(texts), dim) in the order given; `progress` is told how many more texts are done."""
        ...


@dataclass(frozen=True, slots=True)
class Settings:
    """The part of `encoder.json` that decides what vectors come out; the rest of that file is for people.

    `files` has the SHA-256 (hex) of the model and the tokenizer.
    """

    name: str
    dim: int
    max_tokens: int
    query_prefix: str
    passage_prefix: str
    files: dict[str, str]

    @property
    def fingerprint(self) -> str:
        """SHA-256 (hex) over everything that changes a vector: equal fingerprints, comparable vectors."""
        parts = [
            self.dim,
            self.max_tokens,
            self.query_prefix,
            self.passage_prefix,
            self.files[MODEL],
            self.files[TOKENIZER],
        ]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


class Encoder:
    """An encoder directory at work. Safe to share between threads.

    Vectors are of unit length, so that their inner product is the cosine. Texts longer than `max_tokens` are cut
    at the end; `count_tokens` tells which.
    """

    def __init__(self, settings: Settings, tokenizer: Tokenizer, session: onnxruntime.InferenceSession) -> None:
        self.name = settings.name
        self.dim = settings.dim
        self.max_tokens = settings.max_tokens
        self.fingerprint = settings.fingerprint
        self._prefixes: dict[Role, str] = {"query": settings.query_prefix, "passage": settings.passage_prefix}
        self._tokenizer = tokenizer
        self._session = session

    @classmethod
    def load(cls, directory: Path, *, threads: int | None = None) -> Self:
        """Read and verify an encoder directory; `threads` per call, by default as many as there are CPUs to use.

        Raises NotFound where there is no such directory, and Damaged naming the file that is missing or altered.
        """
        if not directory.is_dir():
            raise NotFound(f"There is no encoder directory {directory}. Give one made by `purlin train export`.")
        settings = _read_settings(directory / SETTINGS)
        model, tokenizer = (_read_verified(directory / name, settings.files[name]) for name in (MODEL, TOKENIZER))
        session = _open_session(model, threads or available_cpus())
        return cls(settings, _open_tokenizer(tokenizer, settings.max_tokens), session)

    def encode(self, texts: Sequence[str], *, role: Role, progress: Callable[[int], None] | None = None) -> Vectors:
        """Unit vectors (len(texts), dim) in the order given; `progress` is told how many more texts are done."""
        vectors: Vectors = np.empty((len(texts), self.dim), dtype=np.float32)
        for start in range(0, len(texts), WINDOW):
            ids = self._tokenize(texts[start : start + WINDOW], role)
            for rows in _batches([len(row) for row in ids]):
                vectors[start + rows] = self._run([ids[row] for row in rows])
                if progress is not None:
                    progress(len(rows))
        return vectors

    def count_tokens(self, texts: Sequence[str], *, role: Role = "passage") -> NDArray[np.int64]:
        """Tokens of each text with its prefix (len(texts),), uncut: those above `max_tokens` are cut by `encode`.

        A text of far more characters than any `max_tokens` tokens have is counted up to there.
        """
        counts: NDArray[np.int64] = np.empty(len(texts), dtype=np.int64)
        special = self._tokenizer.num_special_tokens_to_add(is_pair=False)
        for start in range(0, len(texts), WINDOW):
            for row, encoding in enumerate(self._encodings(texts[start : start + WINDOW], role), start):
                counts[row] = len(encoding.ids) + sum(len(cut.ids) - special for cut in encoding.overflowing)
        return counts

    def _tokenize(self, texts: Sequence[str], role: Role) -> list[NDArray[np.int64]]:
        return [np.array(encoding.ids, dtype=np.int64) for encoding in self._encodings(texts, role)]

    def _encodings(self, texts: Sequence[str], role: Role) -> Iterator[Any]:
        prefix, limit = self._prefixes[role], self.max_tokens * CHARS_PER_TOKEN
        cut = [(prefix + text)[:limit] for text in texts]
        for start in range(0, len(cut), 256):
            yield from self._tokenizer.encode_batch_fast(cut[start : start + 256])

    def _run(self, ids: list[NDArray[np.int64]]) -> Vectors:
        shape = len(ids), max(len(row) for row in ids)
        input_ids, mask = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
        for number, row in enumerate(ids):
            input_ids[number, : len(row)] = row
            mask[number, : len(row)] = 1
        vectors: Vectors = self._session.run(None, {"input_ids": input_ids, "attention_mask": mask})[0]
        return vectors


def available_cpus(root: Path = Path("/")) -> int:
    """CPUs this process may use at once: its affinity, or its cgroup's quota rounded up if that is less.

    Reads `cpu.max` (cgroup v2) or `cpu.cfs_quota_us` (v1) of the process's group and those above it, below `root`.
    """
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min([affinity, *(max(1, math.ceil(quota)) for quota in _quotas(root))])


def _quotas(root: Path) -> Iterator[float]:
    """CPU quotas, in CPUs, of this process's cgroups and their parents; groups without a quota yield nothing."""
    for line in _lines(root / "proc/self/cgroup"):
        _, controllers, group = line.split(":", 2)
        mount = root / "sys/fs/cgroup" / ("" if not controllers else "cpu")
        if controllers and "cpu" not in controllers.split(","):
            continue
        parts = [part for part in group.split("/") if part and part != ".."]
        for depth in range(len(parts) + 1):
            yield from _quota(mount.joinpath(*parts[:depth]))


def _quota(group: Path) -> Iterator[float]:
    numbers = " ".join(_lines(group / "cpu.max")).split()
    if not numbers:
        numbers = _lines(group / "cpu.cfs_quota_us") + _lines(group / "cpu.cfs_period_us")
    if len(numbers) == 2 and numbers[0].isdigit() and numbers[1].isdigit() and int(numbers[1]):
        yield int(numbers[0]) / int(numbers[1])


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []


def _batches(lengths: Sequence[int]) -> Iterator[NDArray[np.int64]]:
    """Row numbers, longest first, in batches of at most BATCH_TOKENS tokens with padding (or one row)."""
    order = np.argsort(np.negative(lengths), kind="stable")
    start = 0
    while start < len(order):
        rows = max(1, BATCH_TOKENS // max(1, lengths[order[start]]))
        yield order[start : start + rows]
        start += rows


def _open_session(model: bytes, threads: int) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.enable_mem_pattern = False
    options.add_session_config_entry("session.force_spinning_stop", "1")
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _open_tokenizer(content: bytes, max_tokens: int) -> Tokenizer:
    tokenizer = Tokenizer.from_str(content.decode())
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_tokens)
    return tokenizer


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise _damaged(path, error.strerror or "unreadable") from error


def _read_verified(path: Path, digest: str) -> bytes:
    content = _read_bytes(path)
    if hashlib.sha256(content).hexdigest() != digest:
        raise _damaged(path, f"its content is not what {SETTINGS} says")
    return content


def _read_settings(path: Path) -> Settings:
    try:
        content = json.loads(_read_bytes(path))
        settings = Settings(**{field.name: content[field.name] for field in fields(Settings)})
        _check(settings)
        if settings.fingerprint != content["fingerprint"]:
            raise ValueError("its fingerprint does not fit its settings")
    except (ValueError, KeyError, TypeError) as error:
        raise _damaged(path, repr(error)) from error
    return settings


def _check(settings: Settings) -> None:
    for name, kind in get_type_hints(Settings).items():
        value = getattr(settings, name)
        if type(value) is not (get_origin(kind) or kind):
            raise ValueError(f"{name} is not a {kind}")
        if kind is int and not 1 <= value <= 1 << 16:
            raise ValueError(f"{name} is {value}, not in 1 to {1 << 16}")


def _damaged(path: Path, reason: str) -> Damaged:
    return Damaged(f"The encoder's file {path} is missing or altered: {reason}. Export or install the encoder again.")
