"""Two encoders as in DPR, for questions and passages: trained, saved and exported as one."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import DPRConfig, DPRContextEncoder, DPRQuestionEncoder

from purlin.index.encoder import MODEL, QUERY_MODEL, SETTINGS, Encoder
from purlin.index.errors import Damaged, InvalidInput
from purlin.training import export
from purlin.training.model import BertLike, ModelSettings, TwoEncoders, load_text_model, pad_texts
from tests.tiny import WORDS, save_bert, save_tokenizer

IDS, MASK = pad_texts([[2, 5, 9, 3], [2, 7, 3], [2, 11, 12, 13, 14, 15, 3]], 0)
TEXTS = ["open the file", "def read ( path ) :", "", "a line of the file = close ( )"]


def save_dpr(kind: type, directory: Path, **changes: int) -> Path:
    torch.manual_seed(len(kind.__name__))
    values = {
        "vocab_size": len(WORDS),
        "hidden_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
        "intermediate_size": 48,
        "max_position_embeddings": 64,
        "initializer_range": 0.2,
    }
    kind(DPRConfig(**values | changes)).save_pretrained(directory)
    save_tokenizer(directory)

    return directory


def dpr_settings(passages: Path, queries: Path, **changes: object) -> ModelSettings:
    lengths = {"max_query_tokens": 32, "max_passage_tokens": 32, "max_target_tokens": 32}
    return ModelSettings(base=str(passages), query_base=str(queries), **lengths | changes)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def dpr(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Checkpoints of passages and of questions, as published by the authors of DPR."""
    directory = tmp_path_factory.mktemp("dpr")
    return save_dpr(DPRContextEncoder, directory / "ctx"), save_dpr(
        DPRQuestionEncoder, directory / "question"
    )


@torch.inference_mode()
def test_the_vectors_are_those_of_dpr(dpr: tuple[Path, Path]) -> None:
    model = load_text_model(dpr_settings(*dpr, pooling="first", similarity="dot")).eval()
    passages, questions = (
        DPRContextEncoder.from_pretrained(dpr[0]),
        DPRQuestionEncoder.from_pretrained(dpr[1]),
    )
    for role, theirs in (("passage", passages), ("query", questions)):
        expected = theirs.eval()(input_ids=IDS, attention_mask=MASK).pooler_output
        torch.testing.assert_close(model.vectors(IDS, MASK, role), expected, atol=1e-5, rtol=1e-4)


@torch.inference_mode()
def test_a_saved_model_gives_the_same_vectors(dpr: tuple[Path, Path], tmp_path: Path) -> None:
    settings = dpr_settings(*dpr, pooling="first")
    model = load_text_model(settings).eval()
    model.save(tmp_path)
    again = load_text_model(settings, tmp_path).eval()
    for role in ("query", "passage"):
        torch.testing.assert_close(again.vectors(IDS, MASK, role), model.vectors(IDS, MASK, role))


def test_a_loss_on_both_reaches_both(tmp_path: Path) -> None:
    model = load_text_model(
        dpr_settings(
            save_bert(tmp_path / "passages"), save_bert(tmp_path / "queries", initializer_range=0.3)
        )
    )

    assert isinstance(model, TwoEncoders)

    scores = model.vectors(IDS, MASK, "query") @ model.vectors(IDS, MASK, "passage").T
    scores.logsumexp(1).sum().backward()  # type: ignore[no-untyped-call]
    for side in (model.queries, model.passages):
        gradients = [
            weight.grad for weight in side.transformer.parameters() if weight.grad is not None
        ]
        assert sum(float(gradient.abs().sum()) for gradient in gradients) > 0


@pytest.fixture(scope="module")
def checkpoint(dpr: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("checkpoint") / "two"
    load_text_model(dpr_settings(*dpr, pooling="first")).save(directory)
    return directory


@pytest.fixture(scope="module")
def fp32(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The exported encoders; tests that change a file take a copy."""
    out = tmp_path_factory.mktemp("exported") / "dpr"
    export.export(checkpoint, out, export.Card("dpr"), max_tokens=32, quantization="none")
    return out


@pytest.fixture(scope="module")
def int8(checkpoint: Path, fp32: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same in 8 bits, from the graphs that were traced for `fp32`."""

    def copy_graph(_: Path, path: Path) -> None:
        shutil.copy(fp32 / path.name, path)

    out = tmp_path_factory.mktemp("exported") / "dpr"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(export, "write_graph", copy_graph)
        export.export(checkpoint, out, export.Card("dpr"), max_tokens=32)
    return out


@pytest.mark.parametrize("quantization", ["none", "int8"])
def test_the_export_has_an_encoder_for_each_role(
    dpr: tuple[Path, Path], request: pytest.FixtureRequest, quantization: export.Quantization
) -> None:
    model = load_text_model(dpr_settings(*dpr, pooling="first")).eval()
    encoder = Encoder.load(request.getfixturevalue("fp32" if quantization == "none" else "int8"))
    for role in ("query", "passage"):
        ids, mask = pad_texts([row.tolist() for row in encoder.tokenize(TEXTS, role=role)], 0)
        with torch.inference_mode():
            expected = model.vectors(ids, mask, role).numpy()
        cosines = (expected * encoder.encode(TEXTS, role=role)).sum(axis=1)
        assert cosines.min() > (0.9999 if quantization == "none" else 0.99)

    assert not np.allclose(
        encoder.encode(TEXTS, role="query"), encoder.encode(TEXTS, role="passage"), atol=0.1
    )


def test_the_queries_model_is_fingerprinted(
    dpr: tuple[Path, Path], fp32: Path, tmp_path: Path
) -> None:
    one_encoder = replace(dpr_settings(*dpr, pooling="first"), query_base=None)
    load_text_model(one_encoder).save(tmp_path / "saved")
    export.export(
        tmp_path / "saved",
        tmp_path / "one",
        export.Card("dpr"),
        max_tokens=32,
        quantization="none",
    )
    shutil.copytree(fp32, tmp_path / "two")

    assert (tmp_path / "one" / MODEL).read_bytes() == (tmp_path / "two" / MODEL).read_bytes()
    assert Encoder.load(tmp_path / "one").fingerprint != Encoder.load(tmp_path / "two").fingerprint
    (tmp_path / "two" / QUERY_MODEL).write_bytes((tmp_path / "two" / MODEL).read_bytes())
    with pytest.raises(Damaged, match=QUERY_MODEL):
        Encoder.load(tmp_path / "two")


def test_settings_with_another_file_are_refused(fp32: Path, tmp_path: Path) -> None:
    shutil.copytree(fp32, tmp_path / "dpr")
    settings = tmp_path / "dpr" / SETTINGS
    settings.write_text(settings.read_text().replace(f'"{QUERY_MODEL}"', '"../query.onnx"'))
    with pytest.raises(Damaged, match=r"encoder\.json"):
        Encoder.load(tmp_path / "dpr")


def test_encoders_that_do_not_fit_are_refused(dpr: tuple[Path, Path], tmp_path: Path) -> None:
    wide = save_bert(tmp_path / "wide", hidden_size=64)

    with pytest.raises(InvalidInput, match="different lengths"):
        load_text_model(dpr_settings(dpr[0], wide))
    with pytest.raises(InvalidInput, match="different tokenizers"):
        load_text_model(dpr_settings(dpr[0], save_bert(tmp_path / "other", [*WORDS, "more"])))
    with pytest.raises(InvalidInput, match="projects its vectors"):
        load_text_model(
            dpr_settings(
                save_dpr(DPRContextEncoder, tmp_path / "projected", projection_dim=16), dpr[1]
            )
        )


def test_without_query_base_there_is_one_encoder(dpr: tuple[Path, Path]) -> None:
    assert isinstance(load_text_model(replace(dpr_settings(*dpr), query_base=None)), BertLike)
