"""An exported encoder directory -> unit vectors."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, Protocol, Self, get_origin, get_type_hints

import numpy as np
import onnxruntime  # type: ignore[import-untyped]
from numpy.typing import NDArray
from tokenizers import Tokenizer

from index.errors import NotFound
from index.exported import MODEL as MODEL
from index.exported import TOKENIZER as TOKENIZER
from index.exported import read_exported, refusing

Vectors = NDArray[np.float32]
Role = Literal["query", "passage"]

RELEASED_ENCODER = Path(__file__).resolve().parent.parent / "models" / "santa-minilm-l6-int8"
QUERY_MODEL, SETTINGS = "query.onnx", "encoder.json"
BATCH_TOKENS = 256  # of one batch: its activations then stay in a core's cache, see docs/encoder.md
WINDOW = 8192  # texts that are tokenized and sorted by length together; bounds memory
TOKENIZED_AT_ONCE = (
    256  # texts; the tokenizer's own records are many times larger than the ids kept of them
)
_GOLDEN_RATIO = (math.sqrt(5) - 1) / 2
CHARS_PER_TOKEN = (
    64  # a text is cut to this many characters per token of the limit before it is tokenized
)


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

    @property
    def max_tokens(self) -> int:
        """What is beyond is cut off."""
        ...

    def count_tokens(self, texts: Sequence[str], *, role: Role = "passage") -> NDArray[np.int64]:
        """Tokens of each text with its prefix (len(texts),), uncut."""
        ...

    def encode(
        self, texts: Sequence[str], *, role: Role, progress: Callable[[int], None] | None = None
    ) -> Vectors:
        """Unit vectors (len(texts), dim) in the order given; `progress` is told how many more texts are done."""
        ...


@dataclass(frozen=True, slots=True)
class EncoderSettings:
    """The part of `encoder.json` that decides what vectors come out; the rest of that file is for people.

    `files` has the SHA-256 (hex) of the model, of the tokenizer, and of the queries' own model where they have one.
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
            *filter(None, [self.files.get(QUERY_MODEL)]),
        ]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


class Encoder:
    """An encoder directory at work. Safe to share between threads.

    Vectors are of unit length, so that their inner product is the cosine. Texts longer than `max_tokens` are cut
    at the end; `count_tokens` tells which. One batch runs on one thread, and holds texts of one length only: there
    is no padding, and calls from several threads run side by side without waiting for each other.
    """

    def __init__(
        self,
        settings: EncoderSettings,
        tokenizer: Tokenizer,
        sessions: dict[Role, onnxruntime.InferenceSession],
        threads: int,
    ) -> None:
        self.name = settings.name
        self.dim = settings.dim
        self.max_tokens = settings.max_tokens
        self.fingerprint = settings.fingerprint
        self._prefixes: dict[Role, str] = {
            "query": settings.query_prefix,
            "passage": settings.passage_prefix,
        }
        self._tokenizer = tokenizer
        self._sessions = sessions
        self._threads = threads

    @classmethod
    def load(cls, directory: Path, *, threads: int | None = None) -> Self:
        """Read and verify an encoder directory; `threads` per call, by default as many as there are CPUs to use.

        Raises NotFound where there is no such directory, and Damaged naming the file that is missing or altered.
        """
        if not directory.is_dir():
            raise NotFound(
                f"There is no encoder directory {directory}. Give one made by `purlin train export`."
            )
        settings, files = read_exported(directory, "encoder", _settings)
        with refusing("encoder", directory):
            passages = open_session(files[MODEL])
            queries = open_session(files[QUERY_MODEL]) if QUERY_MODEL in files else passages
            tokenizer = open_tokenizer(files[TOKENIZER], settings.max_tokens)
            for session in (passages, queries):
                found = session.get_outputs()[0].shape[-1]
                if found != settings.dim:
                    raise ValueError(f"dim is {settings.dim}, the model's vectors have {found}")
        return cls(
            settings,
            tokenizer,
            {"query": queries, "passage": passages},
            threads or available_cpus(),
        )

    def encode(
        self, texts: Sequence[str], *, role: Role, progress: Callable[[int], None] | None = None
    ) -> Vectors:
        """Unit vectors (len(texts), dim) in the order given; `progress` is told how many more texts are done."""
        vectors: Vectors = np.empty((len(texts), self.dim), dtype=np.float32)
        for start in range(0, len(texts), WINDOW):
            with closing(
                self._run(self.tokenize(texts[start : start + WINDOW], role=role), role)
            ) as batches:
                for rows, found in batches:
                    vectors[start + rows] = found
                    if progress is not None:
                        progress(len(rows))
        return vectors

    def tokenize(self, texts: Sequence[str], *, role: Role) -> list[NDArray[np.int64]]:
        """What the model sees of each text with its prefix: at most `max_tokens` token ids."""
        return [np.array(encoding.ids, dtype=np.int64) for encoding in self._encodings(texts, role)]

    def count_tokens(self, texts: Sequence[str], *, role: Role = "passage") -> NDArray[np.int64]:
        """Tokens of each text with its prefix (len(texts),), uncut: those above `max_tokens` are cut by `encode`.

        Of a text longer than `max_tokens * CHARS_PER_TOKEN` characters only that many are counted.
        """
        special = self._tokenizer.num_special_tokens_to_add(is_pair=False)
        counts = (
            len(encoding.ids) + sum(len(cut.ids) - special for cut in encoding.overflowing)
            for encoding in self._encodings(texts, role)
        )
        return np.fromiter(counts, dtype=np.int64, count=len(texts))

    def _encodings(self, texts: Sequence[str], role: Role) -> Iterator[Any]:
        prefix, limit = self._prefixes[role], self.max_tokens * CHARS_PER_TOKEN
        for start in range(0, len(texts), TOKENIZED_AT_ONCE):
            cut = [(prefix + text)[:limit] for text in texts[start : start + TOKENIZED_AT_ONCE]]
            # A lone surrogate, which JSON can carry, is no text that a tokenizer takes.
            valid = [text.encode(errors="replace").decode() for text in cut]
            yield from self._tokenizer.encode_batch_fast(valid)

    def _run(
        self, ids: Sequence[NDArray[np.int64]], role: Role
    ) -> Generator[tuple[NDArray[np.int64], Vectors]]:
        """(row numbers, their vectors) of batch after batch, `threads` batches at a time."""
        batches = _batches([len(row) for row in ids])
        if len(batches) == 1 or self._threads == 1:
            yield from ((rows, self._run_batch(ids, rows, role)) for rows in batches)
            return
        pool = ThreadPoolExecutor(self._threads)
        try:
            yield from zip(
                batches,
                pool.map(lambda rows: self._run_batch(ids, rows, role), batches),
                strict=True,
            )
        finally:
            pool.shutdown(cancel_futures=True)

    def _run_batch(
        self, ids: Sequence[NDArray[np.int64]], rows: NDArray[np.int64], role: Role
    ) -> Vectors:
        vectors: Vectors = self._sessions[role].run(
            None, {"input_ids": np.stack([ids[row] for row in rows])}
        )[0]
        return vectors


def available_cpus(root: Path = Path("/")) -> int:
    """CPUs this process may use at once: its affinity, or its cgroup's quota rounded up if that is less.

    Reads `cpu.max` (cgroup v2) or `cpu.cfs_quota_us` (v1) of the process's group and those above it, below `root`.
    """
    affinity = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    return min([affinity, *(max(1, math.ceil(quota)) for quota in _quotas(root))])


def _quotas(root: Path) -> Iterator[float]:
    """CPU quotas, in CPUs, of this process's cgroups and their parents; groups without a quota yield nothing."""
    for line in _lines(root / "proc/self/cgroup"):
        _, controllers, group = [*line.split(":", 2), "", ""][:3]
        if controllers and "cpu" not in controllers.split(","):
            continue
        mount = root / "sys/fs/cgroup" / ("cpu" if controllers else "")
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


def _batches(lengths: Sequence[int]) -> list[NDArray[np.int64]]:
    """Row numbers in batches of one length and at most BATCH_TOKENS tokens (or one row), long and short ones mixed.

    Any run of batches has about the same share of long rows, so that rows per second hardly change, and how long the
    rest takes can be told from the first batches.
    """
    each = np.asarray(lengths, dtype=np.int64)
    batches: list[NDArray[np.int64]] = []
    for length in np.unique(each).tolist():
        rows = np.flatnonzero(each == length)
        step = max(1, BATCH_TOKENS // max(1, length))
        batches.extend(rows[start : start + step] for start in range(0, len(rows), step))

    # Multiples of the golden ratio, modulo 1, are spread evenly however many there are.
    order = np.argsort(np.arange(len(batches)) * _GOLDEN_RATIO % 1)
    return [batches[number] for number in order]


def open_session(model: bytes) -> onnxruntime.InferenceSession:
    """One thread per run and no arena, so that no thread spins and no memory is kept between runs.

    SkipLayerNormalization is several times slower on CPUs than the Add and LayerNormalization it would replace.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.enable_cpu_mem_arena = False
    options.enable_mem_pattern = False
    return onnxruntime.InferenceSession(
        model,
        options,
        providers=["CPUExecutionProvider"],
        disabled_optimizers=["SkipLayerNormFusion"],
    )


def open_tokenizer(content: bytes, max_tokens: int) -> Tokenizer:
    """The tokenizer of a `tokenizer.json`, cutting at `max_tokens` and never padding, whatever the file says."""
    tokenizer = Tokenizer.from_str(content.decode())
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_tokens)
    return tokenizer


def _settings(content: Any) -> EncoderSettings:
    settings = EncoderSettings(
        **{field.name: content[field.name] for field in fields(EncoderSettings)}
    )
    for name, kind in get_type_hints(EncoderSettings).items():
        value = getattr(settings, name)
        if type(value) is not (get_origin(kind) or kind):
            raise ValueError(f"{name} is not a {kind}")
        if kind is int and not 1 <= value <= 1 << 16:
            raise ValueError(f"{name} is {value}, not in 1 to {1 << 16}")
    if set(settings.files) - {QUERY_MODEL} != {MODEL, TOKENIZER}:
        raise ValueError(
            f"files are {sorted(settings.files)}, not {MODEL}, {TOKENIZER} and at most {QUERY_MODEL}"
        )
    return settings
