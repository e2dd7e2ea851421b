"""The encoder at work, on the released model."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from purlin.index.encoder import (
    ENSEMBLE_ENCODER,
    LABEL_ENCODER,
    SETTINGS,
    STATIC_ENCODER,
    TRANSFORMER_ENCODER,
    Purpose,
    default_encoder,
    encoder_for,
    load_encoder,
)
from purlin.index.encoder.exported import MODEL, TOKENIZER
from purlin.index.encoder.text_encoder import BATCH_TOKENS
from purlin.index.encoder.transformer import CHARS_PER_TOKEN, TOKENIZED_AT_ONCE, Encoder, _batches
from purlin.index.errors import Damaged, NotFound

UNEVEN = [
    "open a file",
    "def read(path):\n    with open(path) as lines:\n        return [line.strip() for line in lines]",
    "",
    "Größe des Fensters ändern 🙂",
    "SELECT name FROM users " * 20,
    "x",
    "数据库查询优化",
    "close a socket",
]


@pytest.fixture(scope="module")
def released() -> Encoder:
    return Encoder.load(TRANSFORMER_ENCODER, threads=2)


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    return shutil.copytree(TRANSFORMER_ENCODER, tmp_path / "encoder")


def test_vectors_have_unit_length(released: Encoder) -> None:
    vectors = released.encode(UNEVEN, role="passage")
    assert vectors.shape == (len(UNEVEN), 384)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)


def test_a_query_is_nearest_to_the_text_of_its_meaning(released: Encoder) -> None:
    texts = [
        "def load(path): return json.load(open(path))",
        "def area(radius): return pi * radius ** 2",
    ]
    queries = released.encode(["parse a JSON file", "size of a circle"], role="query")
    assert (queries @ released.encode(texts, role="passage").T).argmax(axis=1).tolist() == [0, 1]


def test_vectors_do_not_depend_on_their_batch(released: Encoder) -> None:
    texts = [f"{text} {number}" for number in range(6) for text in UNEVEN]
    together = released.encode(texts, role="passage")
    alone = np.concatenate([released.encode([text], role="passage") for text in texts])
    np.testing.assert_allclose(together, alone, atol=1e-6)
    np.testing.assert_allclose(
        released.encode(texts[::-1], role="passage")[::-1], together, atol=1e-6
    )


def test_one_thread_gives_what_two_give(released: Encoder) -> None:
    single = Encoder.load(TRANSFORMER_ENCODER, threads=1)
    np.testing.assert_array_equal(
        single.encode(UNEVEN, role="passage"), released.encode(UNEVEN, role="passage")
    )


def test_concurrent_callers_get_their_own_vectors(released: Encoder) -> None:
    texts = [f"{text} {number}" for number in range(5) for text in UNEVEN]
    expected = released.encode(texts, role="query")
    with ThreadPoolExecutor(6) as pool:
        calls = [
            pool.submit(released.encode, texts[row : row + 3], role="query")
            for row in range(len(texts) - 3)
        ]
        for row, call in enumerate(calls):
            np.testing.assert_allclose(call.result(), expected[row : row + 3], atol=1e-6)


def test_no_texts_give_no_vectors(released: Encoder) -> None:
    assert released.encode([], role="passage").shape == (0, 384)
    assert released.count_tokens([]).tolist() == []


def test_progress_adds_up_to_the_number_of_texts(released: Encoder) -> None:
    steps: list[int] = []
    released.encode(UNEVEN * 5, role="passage", progress=steps.append)
    assert sum(steps) == len(UNEVEN) * 5
    assert len(steps) > 1


def test_an_error_in_progress_stops_the_work(released: Encoder) -> None:
    calls: list[int] = []

    def stop(count: int) -> None:
        calls.append(count)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        released.encode(UNEVEN * 20, role="passage", progress=stop)
    assert len(calls) == 1


def test_a_long_text_is_cut_and_counted(released: Encoder) -> None:
    words = [f"word{number % 7}" for number in range(10_000)]
    long, cut = " ".join(words), " ".join(words[:400])
    np.testing.assert_allclose(
        released.encode([long], role="passage"), released.encode([cut], role="passage"), atol=1e-6
    )
    counts = released.count_tokens(["open a file", cut, long])
    assert counts[0] == 5
    assert counts[1] == 802
    assert released.max_tokens < counts[2] <= released.max_tokens * CHARS_PER_TOKEN
    assert len(released.tokenize([long], role="passage")[0]) == released.max_tokens


def test_a_megabyte_of_blanks_is_no_trouble(released: Encoder) -> None:
    assert np.isfinite(
        released.encode([" " * 1_000_000, "\n" * 1_000_000 + "end"], role="passage")
    ).all()


def test_prefixes_belong_to_their_role(copied: Path) -> None:
    content = json.loads((copied / SETTINGS).read_text())
    before = Encoder.load(copied)
    content |= {"query_prefix": "query: ", "passage_prefix": "passage: "}
    (copied / SETTINGS).write_text(json.dumps(content))
    with pytest.raises(Damaged, match=r"encoder\.json"):
        Encoder.load(copied)
    content["fingerprint"] = _fingerprint_of(content)
    (copied / SETTINGS).write_text(json.dumps(content))
    after = Encoder.load(copied)
    assert after.fingerprint != before.fingerprint
    np.testing.assert_allclose(
        after.encode(["x"], role="query"), before.encode(["query: x"], role="passage"), atol=1e-6
    )
    np.testing.assert_allclose(
        after.encode(["x"], role="passage"), before.encode(["passage: x"], role="query"), atol=1e-6
    )


def _fingerprint_of(content: dict[str, object]) -> str:
    from dataclasses import fields

    from purlin.index.encoder.transformer import EncoderSettings

    return EncoderSettings(
        **{
            field.name: content[field.name]
            for field in fields(EncoderSettings)
            if field.name in content
        }
    ).fingerprint  # type: ignore[arg-type]


@settings(max_examples=25)
@given(texts=st.lists(st.text(st.characters(), max_size=60), max_size=6))
def test_any_text_gets_a_finite_unit_vector(released: Encoder, texts: list[str]) -> None:
    vectors = released.encode(texts, role="query")
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), np.ones(len(texts)), atol=1e-5)
    assert (released.count_tokens(texts, role="query") >= 2).all()


@given(
    lengths=st.lists(st.integers(1, 600), max_size=2 * TOKENIZED_AT_ONCE),
    batch_tokens=st.integers(1, 2048),
)
def test_batches_hold_every_row_once_and_one_length_each(
    lengths: list[int], batch_tokens: int
) -> None:
    batches = _batches(lengths, batch_tokens)
    assert sorted(row for batch in batches for row in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len({lengths[row] for row in batch}) == 1
        assert len(batch) == 1 or len(batch) * lengths[batch[0]] <= batch_tokens


@given(
    seed=st.integers(0, 2**32 - 1),
    count=st.integers(2000, 8192),
    typical=st.floats(2, 5),
    spread=st.floats(0.1, 1.5),
)
def test_batches_advance_texts_and_tokens_evenly(
    seed: int, count: int, typical: float, spread: float
) -> None:
    lengths = np.random.default_rng(seed).lognormal(typical, spread, count).clip(3, 256).astype(int)
    rows = np.concatenate(_batches(lengths.tolist(), BATCH_TOKENS))
    tokens_done = np.cumsum(lengths[rows]) / lengths.sum()
    assert np.abs(tokens_done - np.arange(1, count + 1) / count).max() < 0.1


def test_a_missing_directory_says_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="purlin train export"):
        Encoder.load(tmp_path / "nothing")


@pytest.mark.parametrize("name", [MODEL, TOKENIZER, SETTINGS])
def test_a_missing_file_is_named(copied: Path, name: str) -> None:
    (copied / name).unlink()
    with pytest.raises(Damaged, match=name.replace(".", r"\.")) as raised:
        Encoder.load(copied)
    assert str(copied) not in raised.value.message, "clients see it"


@pytest.mark.parametrize("name", [MODEL, TOKENIZER, SETTINGS])
def test_a_truncated_file_is_named(copied: Path, name: str) -> None:
    content = (copied / name).read_bytes()
    (copied / name).write_bytes(content[: len(content) // 2])
    with pytest.raises(Damaged, match=rf"/{name}".replace(".", r"\.")):
        Encoder.load(copied)


@pytest.mark.parametrize("name", [MODEL, TOKENIZER])
def test_one_altered_byte_is_named(copied: Path, name: str) -> None:
    content = bytearray((copied / name).read_bytes())
    content[len(content) // 3] ^= 1
    (copied / name).write_bytes(content)
    with pytest.raises(Damaged, match=rf"/{name}".replace(".", r"\.")):
        Encoder.load(copied)


@pytest.mark.parametrize(
    "change",
    [
        {"max_tokens": 0},
        {"max_tokens": "256"},
        {"max_tokens": True},
        {"max_tokens": 10**9},
        {"dim": None},
        {"files": []},
        {"files": {MODEL: "a"}},
        {"name": 5},
        *([], None, 3, "files"),
    ],
)
def test_wrong_settings_are_refused(copied: Path, change: object) -> None:
    settings = json.loads((copied / SETTINGS).read_text())
    content = settings | change if isinstance(change, dict) else change
    (copied / SETTINGS).write_text(json.dumps(content))
    with pytest.raises(Damaged, match=r"encoder\.json"):
        Encoder.load(copied)


def test_the_dimension_must_be_the_models(copied: Path) -> None:
    content = json.loads((copied / SETTINGS).read_text()) | {"dim": 12}
    content["fingerprint"] = _fingerprint_of(content)
    (copied / SETTINGS).write_text(json.dumps(content))
    with pytest.raises(Damaged, match="384"):
        Encoder.load(copied)


GERMAN_TITLES = [
    "Schlagbohrmaschine mit Schnellspannbohrfutter und Zusatzhandgriff",
    "Gartenschlauch mit Anschlussstück und Spritzdüse, zwanzig Meter",
]


@pytest.mark.parametrize("purpose", ["product", "reference"])
def test_products_in_another_language_have_the_ensemble(purpose: Purpose) -> None:
    english = ["Quiet kettle of brushed steel", "Garden hose with spray gun"]
    expected = ENSEMBLE_ENCODER if purpose == "product" else TRANSFORMER_ENCODER
    assert default_encoder(purpose, [*GERMAN_TITLES, *english[:1]]) == expected
    assert default_encoder(purpose, [*GERMAN_TITLES, *english]) == TRANSFORMER_ENCODER
    assert default_encoder(purpose, english) == TRANSFORMER_ENCODER


def test_transformer_names_the_extra_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert default_encoder() == default_encoder("product") == TRANSFORMER_ENCODER
    assert default_encoder("code") == encoder_for("code", TRANSFORMER_ENCODER) == ENSEMBLE_ENCODER
    assert encoder_for("reference", TRANSFORMER_ENCODER) == TRANSFORMER_ENCODER
    assert default_encoder("labels") == encoder_for("labels", TRANSFORMER_ENCODER) == LABEL_ENCODER
    assert encoder_for("code", STATIC_ENCODER) == STATIC_ENCODER
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)

    assert default_encoder() == default_encoder("code") == STATIC_ENCODER
    assert default_encoder("labels") == STATIC_ENCODER
    assert default_encoder("product", GERMAN_TITLES) == STATIC_ENCODER
    assert encoder_for("code", STATIC_ENCODER) == STATIC_ENCODER
    with pytest.raises(NotFound, match=r"encoder .* 'purlin-search\[transformer\]'"):
        Encoder.load(TRANSFORMER_ENCODER)
    with pytest.raises(NotFound, match=r"encoder .* 'purlin-search\[transformer\]'"):
        load_encoder(ENSEMBLE_ENCODER)


@pytest.mark.parametrize(
    "script",
    [
        "from purlin.index.encoder import *; load_encoder(TRANSFORMER_ENCODER)",
        "import purlin.training.exporting.layer_inputs",
    ],
)
def test_onnxruntime_sends_nothing_to_its_maker(script: str, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("ORT_DISABLE_TELEMETRY", "XDG_CACHE_HOME")
    }
    subprocess.run(
        [sys.executable, "-c", script], env={**environment, "HOME": str(tmp_path)}, check=True
    )
    # It would keep the id of the machine and what is not sent yet here.
    assert list(tmp_path.rglob("*onnxruntime*")) == []
