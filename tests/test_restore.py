from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper
from safetensors.torch import load_file, save_file
from transformers import RobertaConfig, RobertaModel

from index.errors import InvalidInput
from index.exported import MODEL
from tests.readers import tiny_base, tiny_recipe
from tests.tiny import WORDS, save_bert, save_tokenizer, tiny_encoder
from training import model, reader
from training.export import Card, Quantization, export
from training.model import ModelSettings
from training.restore import restore


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(save_bert(tmp_path_factory.mktemp("bert"), layer_norm_eps=1e-5))


def trained(checkpoint: Path) -> Path:
    """With biases and norms that differ, as training leaves them; the exporter keeps one of equal ones."""
    path = checkpoint / "model.safetensors"
    weights = {
        name: value + 0.1 * torch.randn(value.shape) for name, value in load_file(path).items()
    }
    save_file(weights, path, metadata={"format": "pt"})
    return checkpoint


def exported(bert: Path, out: Path, quantization: Quantization) -> Path:
    export(bert, out, Card("tiny"), quantization=quantization, max_tokens=64)
    return out


def test_unquantized_weights_are_restored_exactly(bert: Path, tmp_path: Path) -> None:
    restore(exported(bert, tmp_path / "fp32", "none"), tmp_path)
    before, after = (load_file(place / "model.safetensors") for place in (bert, tmp_path))
    assert after.keys() == before.keys()
    assert all(torch.equal(after[name], before[name]) for name in before)


def test_quantized_weights_are_restored_to_half_a_step(bert: Path, tmp_path: Path) -> None:
    restore(exported(bert, tmp_path / "int8", "int8"), tmp_path)
    before, after = (load_file(place / "model.safetensors") for place in (bert, tmp_path))
    assert after.keys() == before.keys()
    for name, weights in before.items():
        error, largest = (after[name] - weights).abs(), weights.abs().max()
        assert error.max() < 0.03 * largest, (
            name
        )  # smoothing makes steps of some inputs coarser than 1/254
        assert error.mean() < 0.005 * largest, name
    layers = [name for name in before if name.endswith("dense.weight")]
    assert all(
        not torch.equal(after[name], before[name]) for name in layers
    )  # it is not the checkpoint that was read


def test_a_reader_goes_on_from_its_export(tmp_path: Path) -> None:
    recipe = tiny_recipe(
        trained(tiny_base(tmp_path / "base")), tmp_path, export=reader.Export(quantization="none")
    )
    torch.manual_seed(2)
    before = reader.load(recipe.model).eval()
    before.save(tmp_path / "checkpoint")
    samples = [torch.randint(4, 30, (length,)).numpy() for length in (5, 9, 30)]
    reader.export_reader(recipe, tmp_path / "checkpoint", tmp_path / "reader", samples)
    after = reader.load(ModelSettings(base=str(tmp_path / "reader"), max_passage_tokens=64)).eval()
    ids = torch.randint(0, 30, (3, 17))
    with torch.no_grad():
        for one, other in zip(before(ids), after(ids), strict=True):
            torch.testing.assert_close(one, other)
    assert (
        after.tokenizer("close the file ?")["input_ids"]
        == before.tokenizer("close the file ?")["input_ids"]
    )


def test_an_encoder_is_a_base_model(bert: Path, tmp_path: Path) -> None:
    place = exported(bert, tmp_path / "fp32", "none")
    settings = {
        "max_query_tokens": 32,
        "max_passage_tokens": 64,
        "max_target_tokens": 32,
        "dropout": 0.0,
    }
    ids, mask = model.pad_texts([[2, 5, 6, 3], [2, 7, 3]], 0)
    with torch.no_grad():
        before, after = (
            model.load(ModelSettings(base=str(base), **settings)).eval().vectors(ids, mask)  # type: ignore[arg-type]
            for base in (bert, place)
        )
    torch.testing.assert_close(before, after)


def test_the_released_weights_can_be_restored(tmp_path: Path) -> None:
    import onnxruntime  # type: ignore[import-untyped]

    released = Path("models/reference-reader-int8")
    found = reader.load(ModelSettings(base=str(released))).eval()
    session = onnxruntime.InferenceSession(released / MODEL)
    for question, passage in [
        ("default step?", "class range(start, stop, step=1)"),
        ("Größe", "naïve 数据 _x() " * 9),
    ]:
        ids = np.array([found.tokenizer(question, passage)["input_ids"]])
        with torch.no_grad():
            ours = [logits.numpy() for logits in found(torch.from_numpy(ids))]
        theirs = session.run(None, {"input_ids": ids})
        for one, other in zip(ours[:2], theirs[:2], strict=True):
            assert np.corrcoef(one[0], other[0])[0, 1] > 0.99


def broken(place: Path, how: str) -> None:
    if how == "no graph":
        (place / MODEL).write_bytes(b"\x08\x09 nothing")
        return
    graph = onnx.load(place / MODEL)
    for tensor in graph.graph.initializer:
        if how == "a weight of another shape" and tensor.name.endswith("layer.1.output.dense.bias"):
            tensor.CopyFrom(numpy_helper.from_array(np.zeros(3, np.float32), tensor.name))
        if how == "a weight missing" and tensor.name.endswith("layer.1.output.dense.bias"):
            tensor.name += "_away"
    onnx.save(graph, place / MODEL)


@pytest.mark.parametrize("how", ["no graph", "a weight of another shape", "a weight missing"])
def test_what_cannot_be_restored_is_refused_and_leaves_nothing(
    how: str, bert: Path, tmp_path: Path
) -> None:
    place = exported(bert, tmp_path / "fp32", "none")
    broken(place, how)
    (tmp_path / "out").mkdir()
    with pytest.raises(
        InvalidInput, match=r"is no exported BERT encoder or reader .*Name the checkpoint"
    ):
        restore(place, tmp_path / "out")
    assert not list((tmp_path / "out").iterdir())


def test_a_model_with_weights_of_the_same_names_is_refused(tmp_path: Path) -> None:
    """RoBERTa's positions begin at 2."""
    save_tokenizer(tmp_path / "roberta")
    torch.manual_seed(1)
    sizes = {
        "vocab_size": len(WORDS),
        "hidden_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
    }
    config = RobertaConfig(
        **sizes, intermediate_size=64, max_position_embeddings=66, pad_token_id=0
    )
    config.initializer_range = 0.5
    RobertaModel(config, add_pooling_layer=False).save_pretrained(tmp_path / "roberta")
    place = exported(trained(tmp_path / "roberta"), tmp_path / "fp32", "none")
    with pytest.raises(InvalidInput, match="do not do what it does"):
        restore(place, tmp_path)


def test_two_encoders_are_refused(bert: Path, tmp_path: Path) -> None:
    place = exported(bert, tmp_path / "fp32", "none")
    (place / "query.onnx").touch()
    with pytest.raises(InvalidInput, match="it has two encoders"):
        restore(place, tmp_path)


def test_a_graph_that_is_no_bert_is_refused(tmp_path: Path) -> None:
    tiny_encoder(tmp_path / "tiny")
    with pytest.raises(InvalidInput, match="Name the checkpoint"):
        model.load(ModelSettings(base=str(tmp_path / "tiny")))


def test_a_directory_without_a_tokenizer_is_refused(bert: Path, tmp_path: Path) -> None:
    place = exported(bert, tmp_path / "fp32", "none")
    (tmp_path / "out").mkdir()
    for damage in (lambda path: path.write_text("{}"), Path.unlink):
        damage(place / "tokenizer.json")
        with pytest.raises(InvalidInput, match="Name the checkpoint"):
            restore(place, tmp_path / "out")
    assert not list((tmp_path / "out").iterdir())
