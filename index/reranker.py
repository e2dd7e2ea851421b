"""Score hits again with a cross-encoder, which reads query and passage together.

The model reads `[CLS] query [SEP] passage [SEP]` and returns one logit, 0 where it is as likely as
not that the passage is relevant: its logistic function is in 0-1 and means the same for every
query. A reader's logit that a passage answers is one, too, so that a reader can rerank references.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from purlin.index.cpus import available_cpus
from purlin.index.encoder.exported import (
    MODEL,
    TOKENIZER,
    fingerprint_of,
    read_exported,
    refusing,
    settings_of,
)
from purlin.index.encoder.transformer import open_session, require_transformers
from purlin.index.errors import InvalidInput, NotFound
from purlin.index.lookups import Once
from purlin.index.qa.reader import (
    Floats,
    Packer,
    Reader,
    ReadingPassage,
    model_text,
    reading_passage,
)
from purlin.index.qa.reader_settings import READER_SETTINGS
from purlin.index.records import KINDS, Document, Kind, Passage

if TYPE_CHECKING:
    import onnxruntime  # type: ignore[import-untyped]
    from tokenizers import Tokenizer

RERANKER_SETTINGS = "reranker.json"
RELEASED_RERANKER = Path(__file__).resolve().parents[1] / "models" / "reranker-int8"
# The share of a reader's relevance in the score of a reference's hit; see docs/encoder.md.
READER_WEIGHT = 0.15
# The most tokens that a pair is counted to, and that a reranker may read.
_UNCUT_TOKENS = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class RerankerSettings:
    """The content of `reranker.json`; `files` has the SHA-256 (hex) of model and tokenizer.

    `weights` has, for each kind that the model can rerank, the share (0-1) of its relevance in the
    score; the rest is the score of the search. `default` are the kinds that are reranked unless a
    request says otherwise.
    """

    name: str
    max_tokens: int
    weights: dict[str, float]
    default: tuple[str, ...]
    files: dict[str, str]

    @property
    def fingerprint(self) -> str:
        """SHA-256 (hex) over everything that changes a score."""
        return fingerprint_of(self)


class Reranker:
    """An open reranker directory; safe to share between threads."""

    def __init__(
        self,
        settings: RerankerSettings,
        packer: Packer,
        session: onnxruntime.InferenceSession,
        threads: int,
    ) -> None:
        self.settings = settings
        self.packer = packer
        self.name = settings.name
        self.weights: Mapping[str, float] = settings.weights
        self.default: Sequence[str] = settings.default

        self._session = session
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="reranker")

    @classmethod
    def load(cls, directory: Path, *, threads: int | None = None) -> Self:
        """Read and verify a reranker directory.

        Raises NotFound if there is none or no onnxruntime, InvalidInput for a directory of another
        component, and Damaged with the name of a file that was altered.
        """
        require_transformers("reranker")
        _check_directory(directory)
        from tokenizers import Tokenizer

        settings, files = read_exported(directory, "reranker", _parse_settings)
        with refusing("reranker", directory):
            tokenizer: Tokenizer = Tokenizer.from_str(files[TOKENIZER].decode())
            packer = Packer(tokenizer, settings.max_tokens)
            return cls(settings, packer, open_session(files[MODEL]), threads or available_cpus())

    def relevance(
        self,
        query: str,
        passages: Sequence[tuple[Document, Passage]],
        *,
        deadline: float | None = None,
    ) -> Floats:
        """Return the relevance in 0-1 of the passages that are read before the `deadline`."""
        texts = [model_text(reading_passage(document, passage)) for document, passage in passages]
        return logistic(self.logits(query, texts, deadline=deadline))

    def logits(self, query: str, texts: Sequence[str], *, deadline: float | None = None) -> Floats:
        """Return the logits (n,) of the first n texts: all that are read before the `deadline`.

        A deadline is a time of `time.monotonic()`. One pair is read per thread at a time: larger
        batches are no faster (docs/encoder.md).
        """
        packed = self.packer.pack(query, [ReadingPassage(text) for text in texts])

        def run_in_time(ids: NDArray[np.int64]) -> float | None:
            if deadline is not None and time.monotonic() > deadline:
                return None
            return float(self._session.run(None, {"input_ids": ids[None]})[0][0])

        read = self._pool.map(run_in_time, [each.ids for each in packed])
        in_time = takewhile(lambda logit: logit is not None, read)
        return np.array(list(in_time), dtype=np.float32)

    def count_tokens(self, query: str, texts: Sequence[str]) -> list[int]:
        """Count the tokens of each pair before it is cut to `max_tokens`."""
        longest = Packer(self.packer.tokenizer, _UNCUT_TOKENS)
        return [len(each.ids) for each in longest.pack(query, [ReadingPassage(t) for t in texts])]

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown(cancel_futures=True)


class ReadingReranker:
    """A reader as the reranker of references: the relevance is that of a passage that answers."""

    def __init__(self, reader: Reader) -> None:
        self.name = reader.name
        self.weights: Mapping[str, float] = {"reference": READER_WEIGHT}
        self._reader = reader

    def relevance(
        self,
        query: str,
        passages: Sequence[tuple[Document, Passage]],
        *,
        deadline: float | None = None,
    ) -> Floats:
        """Return the relevance in 0-1 of the passages that are read before the `deadline`."""
        read = self._reader.read(
            query,
            [reading_passage(document, passage) for document, passage in passages],
            deadline=deadline,
        )
        return logistic(np.array([each.selected for each in read], dtype=np.float32))


class Rerankers:
    """The models that score hits again: a reranker directory's, and the reader for references.

    Both are loaded on first use. `reader` returns the reader, or raises NotFound.
    """

    def __init__(self, directory: Path, reader: Callable[[], Reader]) -> None:
        self._directory = directory
        self._reader = reader
        # None if the directory is the default one, and is missing.
        self.installed = Once(self._load)

    def choose(self, kind: Kind, requested: bool | None) -> Reranker | ReadingReranker | None:
        """Return the model that scores hits of this kind again, or None for none.

        Without a request (None) it is one that is known to help this kind. Raises InvalidInput if
        one is requested and there is none, and Damaged.
        """
        if requested is False:
            return None

        reranker = self.installed()
        if reranker is not None and kind in reranker.weights:
            return reranker if requested or kind in reranker.default else None

        if kind == "reference" and requested:
            with suppress(NotFound):
                return ReadingReranker(self._reader())

        if requested:
            raise InvalidInput(
                f"This server has no reranker for corpora of kind {kind}: omit `rerank`, or train "
                "one with `purlin train ranker` and set PURLIN_RERANKER to its directory.",
                field="rerank",
            )

        return None

    def _load(self) -> Reranker | None:
        is_missing = self._directory == RELEASED_RERANKER and not self._directory.is_dir()
        return None if is_missing else Reranker.load(self._directory)

    def close(self) -> None:
        """End the threads of the reranker, if it was loaded."""
        if self.installed.value is not None:
            self.installed.value.close()


def logistic(logits: Floats) -> Floats:
    """Return 1 / (1 + exp(-logits)), without overflow."""
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * logits)), dtype=np.float32)


def _check_directory(directory: Path) -> None:
    """Raise NotFound or InvalidInput, which name the directory but not where it is."""
    remedy = "Give one made by `purlin train ranker`."

    if not directory.is_dir():
        raise NotFound(f"There is no reranker directory {directory.name}. {remedy}", field="rerank")

    if not (directory / RERANKER_SETTINGS).is_file():
        actual_kind = "a reader" if (directory / READER_SETTINGS).is_file() else "something else"
        raise InvalidInput(
            f"The directory {directory.name} has no {RERANKER_SETTINGS}: it is {actual_kind}, no "
            f"reranker. {remedy}",
            field="rerank",
        )


def _parse_settings(content: Any) -> RerankerSettings:
    """Check the content of `reranker.json`. Raises ValueError or KeyError, for `read_exported`."""
    weights = {str(kind): float(share) for kind, share in content["weights"].items()}
    default = tuple(map(str, content["default"]))
    settings = settings_of(RerankerSettings, {**content, "weights": weights, "default": default})

    if not 16 <= settings.max_tokens <= _UNCUT_TOKENS or set(settings.files) != {MODEL, TOKENIZER}:
        raise ValueError("its values do not fit together")
    check_weights(settings.weights, settings.default)
    return settings


def check_weights(weights: Mapping[str, float], default: Sequence[str]) -> None:
    """Raise InvalidInput for unknown kinds, and for shares that are not in 0-1."""
    for kind, share in weights.items():
        if kind not in KINDS:
            raise InvalidInput(
                f"weights has {kind!r:.40}; kinds are {', '.join(KINDS)}.", field="weights"
            )

        if not (math.isfinite(share) and 0.0 <= share <= 1.0):
            raise InvalidInput(
                f"weights.{kind} is {share:g}; a share is from 0 to 1.", field="weights"
            )

    if unweighted := [kind for kind in default if kind not in weights]:
        raise InvalidInput(
            f"default has {unweighted[0]!r:.40}, which has no weight: give it one.", field="default"
        )
