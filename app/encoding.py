"""Encoders as requests use them: few calls side by side, and none for a client that has left."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from purlin.app.metrics import Metrics
from purlin.app.overload import raise_if_client_gone
from purlin.index.encoder import (
    TextEncoder,
    Vectors,
    default_encoder,
    encoder_fingerprint,
    find_encoder,
    in_english,
    load_encoder,
)
from purlin.index.encoder.text_encoder import plan_of
from purlin.index.errors import EncoderMismatch, NotFound
from purlin.index.records import Architecture, Role

SHORT_CALL_TEXTS = 8  # calls with more texts take no slot
BLOCK_TEXTS = 256  # after so many texts, a long call checks whether its client is still there


class BoundedEncoder:
    """An encoder for many threads that runs at most `max_calls` short calls at once.

    Short calls have up to SHORT_CALL_TEXTS texts. More of them than there are CPUs would only take the
    interpreter's lock from each other. Long calls go to the encoder in blocks and take no slot, so
    that a search never waits for a list of thousands of texts.

    A call raises ClientLeft once the client of its request has closed the connection.
    """

    def __init__(
        self, encoder: TextEncoder, *, max_calls: int, metrics: Metrics | None = None
    ) -> None:
        self._encoder = encoder
        self._slots = threading.BoundedSemaphore(max_calls)
        self._batch_texts = (metrics or Metrics()).batch_texts
        self.name = encoder.name
        self.dim = encoder.dim
        self.fingerprint = encoder.fingerprint
        self.max_tokens = encoder.max_tokens
        self.architecture: Architecture = encoder.architecture

    def count_tokens(self, texts: Sequence[str], *, role: Role = "passage") -> NDArray[np.int64]:
        """Tokens of each text with its prefix, before it is cut: (len(texts),)."""
        return self._encoder.count_tokens(texts, role=role)

    def in_english(self, text: str) -> str:
        """Return the words of a text in English; none if it is English or the encoder knows no other."""
        return in_english(self._encoder, text)

    def encode(
        self, texts: Sequence[str], *, role: Role, progress: Callable[[int], None] | None = None
    ) -> Vectors:
        """Unit vectors (len(texts), dim); `progress` receives the texts of each finished batch."""
        if len(texts) <= SHORT_CALL_TEXTS and progress is None:
            with self._slots:
                return self._encode_block(texts, role)

        vectors: Vectors = np.empty((len(texts), self.dim), dtype=np.float32)
        for start in range(0, len(texts), BLOCK_TEXTS):
            block = texts[start : start + BLOCK_TEXTS]
            vectors[start : start + len(block)] = self._encode_block(block, role, progress)
        return vectors

    def _encode_block(
        self, texts: Sequence[str], role: Role, progress: Callable[[int], None] | None = None
    ) -> Vectors:
        # The client may have left while this call waited for a slot or encoded the block before.
        raise_if_client_gone()
        self._batch_texts.observe(len(texts))
        return self._encoder.encode(texts, role=role, progress=progress)


class Encoders:
    """The server's own encoder, and others that builds were made with.

    `own` answers all requests that concern neither a corpus nor labels. One of the `others` is opened,
    with `threads` per call, when a build that it made is; it has its own slots, and stays open.
    """

    def __init__(
        self,
        own: TextEncoder,
        others: Sequence[Path] = (),
        *,
        max_calls: int = 1,
        threads: int | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        self._max_calls = max_calls
        self._threads = threads
        self._metrics = metrics or Metrics()
        self._others = others

        self._lock = threading.Lock()
        self.own = self._bounded(own)
        self._by_fingerprint: dict[str, TextEncoder] = {own.fingerprint: self.own}
        self._plan = plan_of(own)
        # An ensemble that has it as a part does not open it again.
        self._opened = {own.fingerprint: own}

    def for_labels(self) -> TextEncoder:
        """Return the encoder for classification by the names of labels.

        If the server's own encoder is the default, this is the released encoder for labels, opened at the
        first call; otherwise it is the server's own. Raises Damaged and NotFound.
        """
        with self._lock:
            if self.own.fingerprint != encoder_fingerprint(default_encoder()):
                return self.own
            directory = default_encoder("labels")
            opened = self._by_fingerprint.get(encoder_fingerprint(directory) or "")
            # The plan of the server's own encoder fits: both have the same layers.
            return opened or self._keep(load_encoder(directory, plan=self._plan))

    def of_build(self, encoder: Mapping[str, Any]) -> TextEncoder:
        """Return the encoder with the name and fingerprint of a manifest, else the server's own.

        Raises Damaged if its directory cannot be used, and EncoderMismatch if its packages are not
        installed.
        """
        with self._lock:
            opened = self._by_fingerprint.get(encoder["fingerprint"])
            if opened is not None:
                return opened

            try:
                maker = find_encoder(
                    encoder, self._others, threads=self._threads, opened=self._opened
                )
            except NotFound as error:
                raise EncoderMismatch(error.message) from error
            if maker is None:
                return self.own
            return self._keep(maker)

    def _keep(self, encoder: TextEncoder) -> TextEncoder:
        bounded = self._by_fingerprint[encoder.fingerprint] = self._bounded(encoder)
        return bounded

    def _bounded(self, encoder: TextEncoder) -> TextEncoder:
        return BoundedEncoder(encoder, max_calls=self._max_calls, metrics=self._metrics)
