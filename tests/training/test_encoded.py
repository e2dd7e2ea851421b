"""Vectors that are computed once, by an encoder that is not trained."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from purlin.cli.train import train_export
from purlin.index.encoder import Vectors
from purlin.index.encoder.transformer import Encoder
from purlin.index.errors import NotFound, StorageFailed
from purlin.index.records import Role
from purlin.training import encoded
from purlin.training.encoded import encode_once, frozen_encoder, role_encoder
from purlin.training.exporting.encoder import export_encoder
from purlin.training.exporting.model_card import Card
from purlin.training.loop.devices import make_accelerator
from purlin.training.loop.settings import LoopSettings
from tests.support.tiny import WORDS, save_bert

TEXTS = [" ".join(WORDS[4 + number : 9 + number]) for number in range(7)]

pytestmark = pytest.mark.usefixtures("one_process", "graphs_once")


class Interrupted(Exception):
    """Stands for a kill."""


def by_length(texts: Sequence[str]) -> Vectors:
    return np.array([[len(text), number] for number, text in enumerate(texts)], np.float32)


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An encoder's directory, as far as it is read, and pieces of three texts."""
    monkeypatch.setattr(encoded, "PIECE", 3)
    (tmp_path / "source").mkdir()
    (tmp_path / "source/model.onnx").write_bytes(b"weights")
    return tmp_path / "source"


def test_vectors_are_computed_once(source: Path, tmp_path: Path) -> None:
    done: list[tuple[int, int]] = []

    def stopping(texts: Sequence[str]) -> Vectors:
        if len(done) == 2:
            raise Interrupted
        return by_length(texts)

    def note(count: int, total: int) -> None:
        done.append((count, total))

    out = tmp_path / "vectors"
    with pytest.raises(Interrupted):
        encode_once(lambda: stopping, source, TEXTS, out, progress=note)
    assert done == [(3, 7), (6, 7)]

    calls: list[int] = []

    def counting(texts: Sequence[str]) -> Vectors:
        calls.append(len(texts))
        return by_length(texts)

    vectors = encode_once(lambda: counting, source, TEXTS, out)
    assert calls == [1]
    pieces = [TEXTS[:3], TEXTS[3:6], TEXTS[6:]]
    np.testing.assert_array_equal(vectors, np.concatenate([by_length(part) for part in pieces]))

    def unopened() -> encoded.FrozenEncoder:
        raise AssertionError("nothing is missing")

    np.testing.assert_array_equal(encode_once(unopened, source, TEXTS, out), vectors)


def test_other_texts_and_encoders_are_encoded_again(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "vectors"
    encode_once(lambda: by_length, source, TEXTS, out)
    fewer = encode_once(lambda: by_length, source, TEXTS[:2], out)
    np.testing.assert_array_equal(fewer, by_length(TEXTS[:2]))

    (source / "model.onnx").write_bytes(b"other weights")
    changed = encode_once(lambda: lambda texts: -by_length(texts), source, TEXTS[:2], out)
    np.testing.assert_array_equal(changed, -fewer)


def test_vectors_of_other_texts_that_cannot_be_removed_are_refused(
    source: Path, tmp_path: Path
) -> None:
    encode_once(lambda: by_length, source, TEXTS, tmp_path / "large")
    out = tmp_path / "vectors"
    out.symlink_to(tmp_path / "large")
    with pytest.raises(StorageFailed, match="vectors cannot be written"):
        encode_once(lambda: by_length, source, TEXTS[::-1], out)


def test_exported_encoders_and_checkpoints_give_their_own_vectors(tmp_path: Path) -> None:
    bert = save_bert(tmp_path / "bert")
    SentenceTransformer(str(bert), device="cpu").save(str(tmp_path / "checkpoint"))
    export_encoder(
        tmp_path / "checkpoint", tmp_path / "exported", Card("tiny"), quantization="none"
    )
    accelerator = make_accelerator(LoopSettings(precision="fp32"), cpu=True)

    expected = Encoder.load(tmp_path / "exported").encode(TEXTS, role="query")
    for name in ("checkpoint", "exported"):
        vectors = frozen_encoder(tmp_path / name, accelerator)(TEXTS)
        np.testing.assert_allclose(vectors, expected, atol=1e-5)
    with pytest.raises(NotFound, match="There is no encoder in"):
        frozen_encoder(tmp_path / "none", accelerator)


def test_a_checkpoint_puts_its_prompts_in_front_and_reads_no_further_than_told(
    tmp_path: Path,
) -> None:
    model = SentenceTransformer(
        str(save_bert(tmp_path / "bert")), device="cpu", prompts={"query": "read: "}
    )
    model.save(str(tmp_path / "checkpoint"))
    accelerator = make_accelerator(LoopSettings(precision="fp32"), cpu=True)
    encode = role_encoder(tmp_path / "checkpoint", accelerator, max_tokens=6)

    def plain(texts: Sequence[str]) -> Vectors:
        vectors: Vectors = model.encode(list(texts), prompt="", normalize_embeddings=True)
        return vectors

    model.max_seq_length = 6
    long = "file line path map " * 9
    queries = encode(["file line", long], "query")
    np.testing.assert_allclose(queries, plain(["read: file line", f"read: {long}"]), atol=1e-6)
    np.testing.assert_allclose(encode(["file line"], "passage"), plain(["file line"]), atol=1e-6)
    assert not np.allclose(queries[0], plain(["file line"])[0], atol=1e-3)


@pytest.mark.parametrize("name", ["passage", "document"])
def test_an_export_keeps_the_prompts_of_its_checkpoint(name: str, tmp_path: Path) -> None:
    model = SentenceTransformer(
        str(save_bert(tmp_path / "bert")),
        device="cpu",
        prompts={"query": "read: ", name: "path: "},
    )
    model.save(str(tmp_path / "checkpoint"))
    train_export(tmp_path / "checkpoint", tmp_path / "exported", name="tiny", fp32=True)

    settings = json.loads((tmp_path / "exported" / "encoder.json").read_text())
    assert (settings["query_prefix"], settings["passage_prefix"]) == ("read: ", "path: ")
    accelerator = make_accelerator(LoopSettings(precision="fp32"), cpu=True)
    roles: tuple[Role, ...] = ("query", "passage")
    for role in roles:
        expected = role_encoder(tmp_path / "checkpoint", accelerator)(TEXTS, role)
        vectors = Encoder.load(tmp_path / "exported").encode(TEXTS, role=role)
        np.testing.assert_allclose(vectors, expected, atol=1e-5)
