"""The transformer encoder: texts -> unit vectors by an exported graph."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import math
import os
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from purlin.index.cpus import available_cpus
from purlin.index.distinct import sorted_distinct
from purlin.index.encoder.exported import (
    MODEL,
    TOKENIZER,
    check_directory,
    check_settings,
    read_exported,
    refusing,
    settings_of,
)
from purlin.index.encoder.text_encoder import Plan, Vectors, normalize
from purlin.index.errors import NotFound
from purlin.index.records import Architecture, Role, printable

if TYPE_CHECKING:
    import onnxruntime  # type: ignore[import-untyped]
    from tokenizers import Tokenizer

# onnxruntime reports to its maker and keeps an id below the home directory, unless this is set before
# it is imported.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

Sessions: TypeAlias = "dict[Role, onnxruntime.InferenceSession]"

TRANSFORMER_EXTRA = "pip install 'purlin-search[transformer]'"
QUERY_MODEL = "query.onnx"
# Texts that are tokenized and sorted by length together; bounds memory.
WINDOW = 8192
# Texts per call of the tokenizer, whose own records are many times larger than the token ids.
TOKENIZED_AT_ONCE = 256
# Before it is tokenized, a text is cut to this many characters per token of the limit.
CHARS_PER_TOKEN = 64
_GOLDEN_RATIO = (math.sqrt(5) - 1) / 2


def can_run_transformers() -> bool:
    """Tell whether the packages of the extra `transformer` are installed."""
    return importlib.util.find_spec("onnxruntime") is not None


def require_transformers(component: str) -> None:
    """Raise NotFound if `component`, "encoder" or "reader", cannot run for want of packages."""
    if not can_run_transformers():
        raise NotFound(
            f"The {component} is a transformer, and onnxruntime is not installed: {TRANSFORMER_EXTRA}."
        )


@dataclass(frozen=True, slots=True)
class EncoderSettings:
    """The part of `encoder.json` that determines the vectors; the rest of that file is for people.

    `files` has the SHA-256 (hex) of the model, the tokenizer, and the separate query model if there
    is one. With `similarity` "dot" the model's vectors have any length; see
    `Encoder.trained_vectors`.
    """

    name: str
    dim: int
    max_tokens: int
    query_prefix: str
    passage_prefix: str
    files: dict[str, str]
    similarity: str = "cosine"

    @property
    def fingerprint(self) -> str:
        """SHA-256 (hex) over everything that changes a unit vector.

        Vectors of equal fingerprints can be compared.
        """
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
    """A loaded transformer. Safe to share between threads.

    Vectors have unit length, so their inner product is the cosine. Texts longer than `max_tokens`
    are cut at the end; `count_tokens` shows which. A batch runs on one thread and holds texts of
    one length only, so there is no padding, and calls from several threads do not wait for each
    other.
    """

    def __init__(
        self,
        settings: EncoderSettings,
        tokenizer: Tokenizer,
        sessions: Sessions,
        plan: Plan,
        single: Sessions | None = None,
    ) -> None:
        """Take open sessions; `single` has those for calls of one text, if they are others."""
        self.name = settings.name
        self.dim = settings.dim
        self.max_tokens = settings.max_tokens
        self.architecture: Architecture = "transformer"
        self.fingerprint = settings.fingerprint
        self.similarity = settings.similarity

        self._prefixes: dict[Role, str] = {
            "query": settings.query_prefix,
            "passage": settings.passage_prefix,
        }

        self._tokenizer = tokenizer
        self.plan = plan
        self._settings = settings
        self._sessions = sessions
        self._single = single or sessions

    @classmethod
    def load(cls, directory: Path, *, threads: int | None = None, plan: Plan | None = None) -> Self:
        """Read and verify an encoder directory.

        It works by `plan`, by default on `threads` threads per call, one per available CPU. Raises
        NotFound if there is no such directory or no onnxruntime, and Damaged, which names the file.
        """
        require_transformers("encoder")
        check_directory(directory, "encoder", "export")

        plan = plan or Plan(threads or available_cpus())
        settings, files = read_exported(directory, "encoder", _settings)
        with refusing("encoder", directory):
            sessions = _open_sessions(files, threads=1)
            single = None
            if plan.query_threads > 1:
                single = _open_sessions(files, threads=plan.query_threads)
            tokenizer = open_tokenizer(files[TOKENIZER], settings.max_tokens)
            for session in sessions.values():
                dim = session.get_outputs()[0].shape[-1]
                if dim != settings.dim:
                    raise ValueError(f"dim is {settings.dim}, the model's vectors have {dim}")

        return cls(settings, tokenizer, sessions, plan, single)

    def with_plan(self, plan: Plan) -> Encoder:
        """Return an encoder that shares the sessions of this one, and so its `query_threads`."""
        plan = replace(plan, query_threads=self.plan.query_threads)
        return Encoder(self._settings, self._tokenizer, self._sessions, plan, self._single)

    def encode(
        self, texts: Sequence[str], *, role: Role, progress: Callable[[int], None] | None = None
    ) -> Vectors:
        """Return unit vectors (texts, dim) in the order of the texts.

        `progress` is called with the number of texts finished since the last call.
        """
        vectors = self.trained_vectors(texts, role=role, progress=progress)
        if self.similarity == "dot":
            normalize(vectors)
        return vectors

    def trained_vectors(
        self, texts: Sequence[str], *, role: Role, progress: Callable[[int], None] | None = None
    ) -> Vectors:
        """Return the vectors (texts, dim) whose inner product the model was trained with.

        They have unit length unless its similarity is "dot". The server ranks by cosine all the
        same, since its scores lie in 0 to 1, which no dot product has as its bounds.
        """
        vectors: Vectors = np.empty((len(texts), self.dim), dtype=np.float32)
        for start in range(0, len(texts), WINDOW):
            ids = self.tokenize(texts[start : start + WINDOW], role=role)

            # Closed even if `progress` raises, so that no thread works on.
            with closing(self._run(ids, role)) as batches:
                for rows, batch_vectors in batches:
                    vectors[start + rows] = batch_vectors
                    if progress is not None:
                        progress(len(rows))
        return vectors

    def tokenize(self, texts: Sequence[str], *, role: Role) -> list[NDArray[np.int64]]:
        """Token ids of each text with its prefix, at most `max_tokens`."""
        return [np.array(encoding.ids, dtype=np.int64) for encoding in self._encodings(texts, role)]

    def count_tokens(self, texts: Sequence[str], *, role: Role = "passage") -> NDArray[np.int64]:
        """Count the tokens (texts,) of each text with its prefix; `encode` cuts above `max_tokens`.

        Only the first `max_tokens * CHARS_PER_TOKEN` characters of a text are counted.
        """
        special = self._tokenizer.num_special_tokens_to_add(is_pair=False)
        # Each overflowing part repeats the special tokens.
        counts = (
            len(encoding.ids) + sum(len(part.ids) - special for part in encoding.overflowing)
            for encoding in self._encodings(texts, role)
        )
        return np.fromiter(counts, dtype=np.int64, count=len(texts))

    def _encodings(self, texts: Sequence[str], role: Role) -> Iterator[Any]:
        prefix, limit = self._prefixes[role], self.max_tokens * CHARS_PER_TOKEN
        for start in range(0, len(texts), TOKENIZED_AT_ONCE):
            cut = [(prefix + text)[:limit] for text in texts[start : start + TOKENIZED_AT_ONCE]]
            # The tokenizer rejects lone surrogates, which JSON can hold.
            yield from self._tokenizer.encode_batch_fast(list(map(printable, cut)))

    def _run(
        self, ids: Sequence[NDArray[np.int64]], role: Role
    ) -> Generator[tuple[NDArray[np.int64], Vectors]]:
        """Yield (row numbers, their vectors) of each batch; several run at a time, by the plan."""
        sessions = self._single if len(ids) == 1 else self._sessions
        session = sessions[role]

        batches = _batches([len(row) for row in ids], self.plan.batch_tokens)
        if len(batches) == 1 or self.plan.threads == 1:
            yield from ((rows, _run_batch(session, ids, rows)) for rows in batches)
            return

        pool = ThreadPoolExecutor(self.plan.threads)
        results = pool.map(lambda rows: _run_batch(session, ids, rows), batches)
        try:
            yield from zip(batches, results, strict=True)
        finally:
            pool.shutdown(cancel_futures=True)


def _run_batch(
    session: onnxruntime.InferenceSession, ids: Sequence[NDArray[np.int64]], rows: NDArray[np.int64]
) -> Vectors:
    batch = np.stack([ids[row] for row in rows])
    vectors: Vectors = session.run(None, {"input_ids": batch})[0]
    return vectors


def _open_sessions(files: Mapping[str, bytes], threads: int) -> Sessions:
    """Open the sessions of both roles, which are one where an encoder has no query model."""
    passages = open_session(files[MODEL], threads)
    queries = open_session(files[QUERY_MODEL], threads) if QUERY_MODEL in files else passages
    return {"query": queries, "passage": passages}


def _batches(lengths: Sequence[int], batch_tokens: int) -> list[NDArray[np.int64]]:
    """Row numbers in batches of one length each and at most `batch_tokens` tokens, or of one row.

    Batches of long and of short rows are mixed: any run of batches has about the same share of long
    rows, so the rate hardly changes and the first batches predict the remaining time.
    """
    row_lengths = np.asarray(lengths, dtype=np.int64)
    batches: list[NDArray[np.int64]] = []
    for length in sorted_distinct(row_lengths).tolist():
        rows = np.flatnonzero(row_lengths == length)
        step = max(1, batch_tokens // max(1, length))
        batches.extend(rows[start : start + step] for start in range(0, len(rows), step))

    # Multiples of the golden ratio, modulo 1, are spread evenly however many there are.
    order = np.argsort(np.arange(len(batches)) * _GOLDEN_RATIO % 1)
    return [batches[number] for number in order]


def open_session(model: bytes, threads: int = 1) -> onnxruntime.InferenceSession:
    """Open an ONNX model that runs on `threads` threads and keeps no memory between runs."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.enable_cpu_mem_arena = False
    options.enable_mem_pattern = False
    # Threads that spin between the operators take the processor from other requests.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")

    # On CPUs, SkipLayerNormalization is several times slower than the Add and LayerNormalization
    # that it would replace.
    return onnxruntime.InferenceSession(
        model,
        options,
        providers=["CPUExecutionProvider"],
        disabled_optimizers=["SkipLayerNormFusion"],
    )


def open_tokenizer(content: bytes, max_tokens: int) -> Tokenizer:
    """Open a `tokenizer.json`; it cuts at `max_tokens` and never pads, whatever the file says."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_str(content.decode())
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_tokens)
    return tokenizer


def _settings(values: Any) -> EncoderSettings:
    # Encoders that earlier versions exported name no similarity.
    values = {"similarity": "cosine", **values}
    settings = settings_of(EncoderSettings, values)

    check_settings(
        settings,
        numbers=("dim", "max_tokens"),
        texts=("name", "query_prefix", "passage_prefix"),
        files=[MODEL, TOKENIZER, *settings.files.keys() & {QUERY_MODEL}],
    )
    if settings.similarity not in ("cosine", "dot"):
        raise ValueError(f"similarity is {settings.similarity!r}, not cosine or dot")
    return settings
