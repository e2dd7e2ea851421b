from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from purlin.app.encoding import BLOCK_TEXTS, SHORT_CALL_TEXTS, BoundedEncoder, Encoders
from purlin.app.errors import ClientLeft
from purlin.app.overload import client_gone
from purlin.index.encoder import STATIC_ENCODER, Vectors, encoder_fingerprint, load_encoder
from purlin.index.errors import Damaged
from tests.support.blocking import BackgroundCall, BlockingEncoder
from tests.support.hash_encoder import HashEncoder
from tests.support.serving import until
from tests.support.static_files import SELF_CHECK_WORDS, write_static


@pytest.fixture
def blocking() -> Iterator[BlockingEncoder]:
    encoder = BlockingEncoder()
    yield encoder
    encoder.permits.release(1_000)


def encoding(bounded: BoundedEncoder, *texts: str) -> BackgroundCall:
    return BackgroundCall(lambda: bounded.encode(texts, role="query"))


def test_short_calls_are_bounded(blocking: BlockingEncoder) -> None:
    bounded = BoundedEncoder(blocking, max_calls=2)
    calls = [encoding(bounded, f"text {number}", "more") for number in range(5)]
    until(lambda: len(blocking.calls) == 2)

    # A third call would be recorded at once if it were let in.
    for call in calls:
        call.join(0.02)
    assert len(blocking.calls) == 2

    blocking.permits.release(5)
    for number, call in enumerate(calls):
        expected = HashEncoder().encode([f"text {number}", "more"], role="query")
        np.testing.assert_array_equal(call.outcome(), expected)
    assert len(blocking.calls) == 5


def test_long_calls_take_no_slot(blocking: BlockingEncoder) -> None:
    bounded = BoundedEncoder(blocking, max_calls=1)
    texts = [f"text {number}" for number in range(SHORT_CALL_TEXTS + 1)]
    long = encoding(bounded, *texts)
    until(lambda: len(blocking.calls) == 1)

    short = encoding(bounded, "short")
    until(lambda: len(blocking.calls) == 2)
    another = encoding(bounded, *texts)
    until(lambda: len(blocking.calls) == 3)

    blocking.permits.release(3)
    assert [len(call.outcome()) for call in (long, short, another)] == [len(texts), 1, len(texts)]


def test_texts_are_translated_by_the_encoder_that_knows_their_language() -> None:
    static = BoundedEncoder(load_encoder(STATIC_ENCODER), max_calls=1)
    assert "file" in static.in_english("Datei löschen").split()
    assert static.in_english("delete a file") == ""
    assert BoundedEncoder(HashEncoder(), max_calls=1).in_english("Datei löschen") == ""


def test_slots_come_back_after_a_failure(blocking: BlockingEncoder) -> None:
    bounded = BoundedEncoder(blocking, max_calls=1)
    blocking.permits.release(3)
    assert isinstance(encoding(bounded, "bad").outcome(), ZeroDivisionError)
    assert encoding(bounded, "good").outcome().shape == (1, blocking.dim)
    assert encoding(bounded, "after").outcome().shape == (1, blocking.dim)


def test_gone_clients_are_not_encoded_for(blocking: BlockingEncoder) -> None:
    bounded = BoundedEncoder(blocking, max_calls=1)
    gone = threading.Event()

    def encode_for_a_leaving_client() -> Vectors:
        client_gone.set(gone)
        return bounded.encode(["nobody reads this"], role="query")

    first = encoding(bounded, "first")
    until(lambda: len(blocking.calls) == 1)
    waiting = BackgroundCall(encode_for_a_leaving_client)
    waiting.join(0.02)
    gone.set()

    blocking.permits.release(1)
    assert len(first.outcome()) == 1
    assert isinstance(waiting.outcome(), ClientLeft)
    assert isinstance(BackgroundCall(encode_for_a_leaving_client).outcome(), ClientLeft)
    assert blocking.calls == [["first"]]


def test_long_calls_are_split_into_blocks() -> None:
    bounded = BoundedEncoder(HashEncoder(), max_calls=1)
    texts = [f"text {number}" for number in range(BLOCK_TEXTS * 2 + 5)]
    counts: list[int] = []

    vectors = bounded.encode(texts, role="passage", progress=counts.append)
    np.testing.assert_array_equal(vectors, HashEncoder().encode(texts, role="passage"))
    assert counts == [BLOCK_TEXTS, BLOCK_TEXTS, 5]


def test_long_calls_end_when_the_client_leaves() -> None:
    bounded = BoundedEncoder(HashEncoder(), max_calls=1)
    texts = [f"text {number}" for number in range(BLOCK_TEXTS * 2 + 5)]
    gone = threading.Event()
    counts: list[int] = []

    def leave(count: int) -> None:
        counts.append(count)
        gone.set()

    def encode_until_gone() -> Vectors:
        client_gone.set(gone)
        return bounded.encode(texts, role="passage", progress=leave)

    assert isinstance(BackgroundCall(encode_until_gone).outcome(), ClientLeft)
    assert counts == [BLOCK_TEXTS]


# ---- the encoder for labels


@pytest.fixture
def released(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str | None, Path]:
    """Two encoders in the place of the released ones: that for labels, and that for all else."""
    directories = {
        None: write_static(tmp_path / "own", SELF_CHECK_WORDS),
        "labels": write_static(tmp_path / "labels", SELF_CHECK_WORDS, dim=12),
    }
    monkeypatch.setattr("purlin.app.encoding.default_encoder", lambda use=None: directories[use])
    return directories


def test_labels_have_an_encoder_beside_the_released_one(released: dict[str | None, Path]) -> None:
    encoders = Encoders(load_encoder(released[None]))
    labels = encoders.for_labels()

    assert labels.fingerprint == encoder_fingerprint(released["labels"])
    assert labels.encode(["open"], role="query").shape == (1, 12)
    assert encoders.for_labels() is labels, "it is opened once"


def test_an_encoder_of_your_own_classifies_too(released: dict[str | None, Path]) -> None:
    encoders = Encoders(HashEncoder())
    assert encoders.for_labels() is encoders.own


def test_a_damaged_encoder_for_labels_is_refused(released: dict[str | None, Path]) -> None:
    (released["labels"] / "vectors.npy").write_bytes(b"")
    encoders = Encoders(load_encoder(released[None]))

    with pytest.raises(Damaged, match=r"vectors\.npy"):
        encoders.for_labels()
