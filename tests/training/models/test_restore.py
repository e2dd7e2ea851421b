"""Checkpoints restored from exported graphs: exactly from 32 bits, nearly from 8."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper
from safetensors.torch import load_file, save_file
from transformers import RobertaConfig, RobertaModel

from purlin.index.encoder.exported import MODEL
from purlin.index.errors import InvalidInput
from purlin.training.exporting.encoder import export_encoder
from purlin.training.exporting.model_card import Card
from purlin.training.models.padding import pad_texts
from purlin.training.models.pretrained import base_name, base_path
from purlin.training.models.restore import restore
from purlin.training.models.settings import ModelSettings
from purlin.training.models.text_model import load_text_model
from purlin.training.reader.export import export_reader
from purlin.training.reader.model import load_reader_model
from purlin.training.reader.recipe import ReaderExport
from tests.support.readers import tiny_base, tiny_recipe
from tests.support.tiny import WORDS, save_bert, save_tokenizer, tiny_encoder

pytestmark = pytest.mark.usefixtures("graphs_once")


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(save_bert(tmp_path_factory.mktemp("bert"), layer_norm_eps=1e-5))


def trained(checkpoint: Path) -> Path:
    """Make biases and norms differ, as after training: the exporter merges equal ones."""
    path = checkpoint / "model.safetensors"
    weights = {
        name: value + 0.1 * torch.randn(value.shape) for name, value in load_file(path).items()
    }
    save_file(weights, path, metadata={"format": "pt"})
    return checkpoint


def export_fp32(checkpoint: Path, out: Path) -> Path:
    export_encoder(checkpoint, out, Card("tiny"), quantization="none", max_tokens=64)
    return out


@pytest.fixture(scope="module")
def fp32(bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The exported `bert`; tests that damage it take a copy."""
    return export_fp32(bert, tmp_path_factory.mktemp("exported") / "fp32")


@pytest.fixture
def damageable(fp32: Path, tmp_path: Path) -> Path:
    return shutil.copytree(fp32, tmp_path / "fp32")


def test_unquantized_weights_are_restored_exactly(bert: Path, fp32: Path, tmp_path: Path) -> None:
    restore(fp32, tmp_path)
    before, after = (load_file(directory / "model.safetensors") for directory in (bert, tmp_path))
    assert after.keys() == before.keys()
    assert all(torch.equal(after[name], before[name]) for name in before)


def test_quantized_weights_are_restored_to_half_a_step(bert: Path, tmp_path: Path) -> None:
    export_encoder(bert, tmp_path / "int8", Card("tiny"), max_tokens=64)
    restore(tmp_path / "int8", tmp_path)
    before, after = (load_file(directory / "model.safetensors") for directory in (bert, tmp_path))
    assert after.keys() == before.keys()
    for name, weights in before.items():
        error, largest = (after[name] - weights).abs(), weights.abs().max()
        # Smoothing makes steps of some inputs coarser than 1/254.
        assert error.max() < 0.03 * largest, name
        assert error.mean() < 0.005 * largest, name

    # The weights come from the graph, not from the checkpoint.
    layers = [name for name in before if name.endswith("dense.weight")]
    assert all(not torch.equal(after[name], before[name]) for name in layers)


def test_a_reader_is_a_base_model(tmp_path: Path) -> None:
    recipe = tiny_recipe(
        trained(tiny_base(tmp_path / "base")),
        tmp_path,
        export=ReaderExport(quantization="none"),
    )
    torch.manual_seed(2)
    before = load_reader_model(recipe.model).eval()
    before.save(tmp_path / "checkpoint")
    samples = [torch.randint(4, 30, (length,)).numpy() for length in (5, 9, 30)]
    export_reader(recipe, tmp_path / "checkpoint", tmp_path / "reader", samples)
    after = load_reader_model(
        ModelSettings(base=str(tmp_path / "reader"), max_passage_tokens=64)
    ).eval()
    ids = torch.randint(0, 30, (3, 17))
    with torch.no_grad():
        for expected, actual in zip(before(ids), after(ids), strict=True):
            torch.testing.assert_close(expected, actual)

    tokens = [model.tokenizer("close the file ?")["input_ids"] for model in (before, after)]
    assert tokens[0] == tokens[1]


def test_an_encoder_is_a_base_model(bert: Path, fp32: Path) -> None:
    settings = {"max_query_tokens": 32, "max_passage_tokens": 64, "max_target_tokens": 32}
    ids, mask = pad_texts([[2, 5, 6, 3], [2, 7, 3]], 0)
    with torch.no_grad():
        before, after = (
            load_text_model(ModelSettings(base=str(base), **settings)).eval().vectors(ids, mask)
            for base in (bert, fp32)
        )

    torch.testing.assert_close(before, after)


def test_the_released_weights_can_be_restored(tmp_path: Path) -> None:
    import onnxruntime  # type: ignore[import-untyped]

    released = Path("models/reference-reader-int8")
    model = load_reader_model(ModelSettings(base=str(released))).eval()
    session = onnxruntime.InferenceSession(released / MODEL)
    for question, passage in [
        ("default step?", "class range(start, stop, step=1)"),
        ("Größe", "naïve 数据 _x() " * 9),
    ]:
        ids = np.array([model.tokenizer(question, passage)["input_ids"]])
        with torch.no_grad():
            ours = [logits.numpy() for logits in model(torch.from_numpy(ids))]
        theirs = session.run(None, {"input_ids": ids})
        for restored_logits, graph_logits in zip(ours[:2], theirs[:2], strict=True):
            assert np.corrcoef(restored_logits[0], graph_logits[0])[0, 1] > 0.99


def damage(directory: Path, how: str) -> None:
    if how == "no graph":
        (directory / MODEL).write_bytes(b"\x08\x09 nothing")
        return
    graph = onnx.load(directory / MODEL)

    for tensor in graph.graph.initializer:
        if how == "a weight of another shape" and tensor.name.endswith("layer.1.output.dense.bias"):
            tensor.CopyFrom(numpy_helper.from_array(np.zeros(3, np.float32), tensor.name))
        if how == "a weight missing" and tensor.name.endswith("layer.1.output.dense.bias"):
            tensor.name += "_away"
    onnx.save(graph, directory / MODEL)


@pytest.mark.parametrize("how", ["no graph", "a weight of another shape", "a weight missing"])
def test_a_damaged_graph_is_refused(how: str, damageable: Path, tmp_path: Path) -> None:
    damage(damageable, how)
    (tmp_path / "out").mkdir()
    with pytest.raises(
        InvalidInput, match=r"is not an exported BERT encoder or reader .*Name the checkpoint"
    ):
        restore(damageable, tmp_path / "out")
    assert not list((tmp_path / "out").iterdir())


def test_another_model_with_the_same_names_is_refused(tmp_path: Path) -> None:
    """RoBERTa's positions begin at 2."""
    save_tokenizer(tmp_path / "roberta")
    torch.manual_seed(1)
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4}
    sizes |= {"intermediate_size": 64, "max_position_embeddings": 66}
    config = RobertaConfig(vocab_size=len(WORDS), pad_token_id=0, **sizes)
    config.initializer_range = 0.5
    RobertaModel(config, add_pooling_layer=False).save_pretrained(tmp_path / "roberta")
    directory = export_fp32(trained(tmp_path / "roberta"), tmp_path / "fp32")

    with pytest.raises(InvalidInput, match="computes something else"):
        restore(directory, tmp_path)


def test_two_encoders_are_refused(damageable: Path, tmp_path: Path) -> None:
    (damageable / "query.onnx").touch()
    with pytest.raises(InvalidInput, match="it has two encoders"):
        restore(damageable, tmp_path)


def test_a_graph_that_is_no_bert_is_refused(tmp_path: Path) -> None:
    tiny_encoder(tmp_path / "tiny")
    with pytest.raises(InvalidInput, match="Name the checkpoint"):
        load_text_model(ModelSettings(base=str(tmp_path / "tiny")))


def test_a_directory_without_a_tokenizer_is_refused(damageable: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    for damaging in (lambda path: path.write_text("{}"), Path.unlink):
        damaging(damageable / "tokenizer.json")
        with pytest.raises(InvalidInput, match="Name the checkpoint"):
            restore(damageable, tmp_path / "out")
    assert not list((tmp_path / "out").iterdir())


def test_words_name_released_encoders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    restored = Path(base_path("labels"))

    weights = load_file(restored / "model.safetensors")
    assert weights["embeddings.word_embeddings.weight"].shape == (30522, 384)
    assert base_name("labels") == "labels-minilm-l6-int8"
    assert base_name("org/model") == base_path("org/model") == "org/model"


def test_a_path_is_no_word(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    save_bert(tmp_path / "labels")
    assert base_path("./labels") == "./labels"
    assert base_name("./labels") == "./labels"
