"""Exports of checkpoints as encoders, on tiny models of the classes that are trained."""

from __future__ import annotations

import json
import logging
import os
import shutil
import tomllib
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from transformers import AutoModel, T5Config, T5EncoderModel, T5ForConditionalGeneration

from purlin.index.encoder import SETTINGS, TRANSFORMER_ENCODER
from purlin.index.encoder.exported import MODEL, TOKENIZER
from purlin.index.encoder.transformer import Encoder
from purlin.index.errors import InvalidInput, NotFound
from purlin.training.data.judged import JudgedSet, rank
from purlin.training.exporting import encoder as encoder_export
from purlin.training.exporting.checks import ExportRefused
from purlin.training.exporting.directory import replacing_directory
from purlin.training.exporting.encoder import export_encoder
from purlin.training.exporting.graphs import _without_torchvision
from purlin.training.exporting.model_card import CARD, Card
from purlin.training.exporting.samples import library_texts, probes
from purlin.training.models.sentence_models import base_checkpoint, load_checkpoint
from tests.support.paths import ROOT
from tests.support.tiny import WORDS, save_bert, save_tokenizer

TEXTS = [
    "",
    "open",
    "def read ( path ) : return open ( path )",
    "the line in the file " * 60,
    "write a file to path",
    "x",
]


T5_SIZES = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_bert(tmp_path_factory.mktemp("bert"))


@pytest.fixture(scope="module")
def fp32(bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("encoders") / "fp32"
    export_encoder(bert, out, Card("tiny"), quantization="none")
    return out


@pytest.fixture(scope="module")
def exported(bert: Path, fp32: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An export in 8 bits, from the graph that was traced for `fp32`."""
    out = tmp_path_factory.mktemp("encoders") / "tiny"
    card = Card("tiny", base_model="random", limits=("Knows nothing.",), passage_prefix="the ")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encoder_export, "write_graph", copying(fp32))
        export_encoder(bert, out, card)
    return out


def copying(exported: Path) -> Callable[..., object]:
    """Stand in for `write_graph`, with the graph of an earlier export: tracing takes seconds."""
    return lambda _, path, *__: shutil.copy(exported / MODEL, path)


def mean_pooled(checkpoint: Path, encoder: Encoder, texts: list[str]) -> np.ndarray:
    """Return unit vectors by transformers alone, one text at a time, without padding."""
    model = AutoModel.from_pretrained(checkpoint).eval()
    rows = []
    for ids in encoder.tokenize(texts, role="query"):
        with torch.inference_mode():
            states = model(input_ids=torch.tensor(ids)[None]).last_hidden_state[0]
        rows.append(torch.nn.functional.normalize(states.mean(0), dim=0).numpy())
    return np.stack(rows)


def test_the_fp32_graph_gives_the_checkpoints_vectors(bert: Path, fp32: Path) -> None:
    encoder, texts = Encoder.load(fp32), TEXTS + probes()
    vectors = encoder.encode(texts, role="query")
    assert np.abs(vectors - mean_pooled(bert, encoder, texts)).max() < 1e-5
    assert np.linalg.matrix_rank(vectors) > 5  # not one vector for all
    assert json.loads((fp32 / SETTINGS).read_text())["quantization"] == "none"


def test_the_int8_graph_does_not_depend_on_the_batch(bert: Path, exported: Path) -> None:
    encoder = Encoder.load(exported)
    vectors = encoder.encode(TEXTS * 3, role="query")
    expected = mean_pooled(bert, encoder, TEXTS)
    assert (vectors[: len(TEXTS)] * expected).sum(axis=1).min() > 0.995
    for row, text in enumerate(TEXTS):
        np.testing.assert_allclose(encoder.encode([text], role="query")[0], vectors[row], atol=1e-6)


def test_int8_leaves_no_product_with_floats(exported: Path) -> None:
    graph = onnx.load(exported / MODEL).graph
    kinds = [node.op_type for node in graph.node]
    assert kinds.count("MatMulIntegerToFloat") == 12
    assert "MatMul" not in kinds
    assert kinds.count("MultiHeadAttention") == 2


def test_settings_and_card_are_written(exported: Path) -> None:
    content = json.loads((exported / SETTINGS).read_text())

    assert (content["name"], content["dim"], content["max_tokens"]) == ("tiny", 32, 128)
    assert content["passage_prefix"] == "the "
    assert (content["quantization"], content["base_model"]) == ("int8", "random")
    card = (exported / "README.md").read_text()
    assert "# tiny" in card
    assert "Knows nothing." in card


def test_no_file_names_paths_of_this_machine(exported: Path) -> None:
    root = str(Path(encoder_export.__file__).parents[2]).encode()
    here = [root, b"site-packages", b"stack_trace"]
    for path in [*exported.iterdir(), *TRANSFORMER_ENCODER.iterdir()]:
        content = path.read_bytes()
        assert not [path_part for path_part in here if path_part in content], path


def test_the_tokenizer_does_not_truncate_or_pad(exported: Path) -> None:
    content = json.loads((exported / TOKENIZER).read_text())
    assert content["truncation"] is None
    assert content["padding"] is None


def test_an_export_replaces_the_last_one(
    bert: Path, fp32: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "encoder"
    out.mkdir()
    (out / SETTINGS).write_text("old")
    (out / "old").write_text("old")
    monkeypatch.setattr(encoder_export, "write_graph", copying(fp32))

    exported = export_encoder(bert, out, Card("tiny"), quantization="none")
    assert exported.fingerprint == Encoder.load(fp32).fingerprint
    assert sorted(path.name for path in out.iterdir()) == ["README.md", SETTINGS, MODEL, TOKENIZER]
    assert [path.name for path in tmp_path.iterdir()] == ["encoder"]


def test_pooling_is_the_checkpoints_own(tmp_path: Path) -> None:
    bert = save_bert(tmp_path / "bert", num_hidden_layers=1)
    transformer = Transformer(str(bert))
    checkpoint = tmp_path / "first"
    SentenceTransformer(modules=[transformer, Pooling(32, pooling_mode="cls")], device="cpu").save(
        str(checkpoint)
    )
    encoder = export_encoder(checkpoint, tmp_path / "out", Card("first"), quantization="none")
    model = AutoModel.from_pretrained(bert).eval()

    for ids, vector in zip(
        encoder.tokenize(TEXTS, role="query"), encoder.encode(TEXTS, role="query"), strict=True
    ):
        with torch.inference_mode():
            first = model(input_ids=torch.tensor(ids)[None]).last_hidden_state[0, 0]
        np.testing.assert_allclose(vector, torch.nn.functional.normalize(first, dim=0), atol=1e-5)


def test_a_t5_encoder_can_be_exported(tmp_path: Path) -> None:
    torch.manual_seed(2)
    checkpoint = tmp_path / "t5"
    # One layer is exported faster, and the whole T5 below has two.
    config = T5Config(vocab_size=len(WORDS), **T5_SIZES | {"num_layers": 1})
    T5EncoderModel(config).save_pretrained(checkpoint)
    save_tokenizer(checkpoint)
    encoder = export_encoder(
        checkpoint, tmp_path / "out", Card("t5"), quantization="none", max_tokens=100
    )
    model = T5EncoderModel.from_pretrained(checkpoint).eval()

    for ids, vector in zip(
        encoder.tokenize(TEXTS, role="query"), encoder.encode(TEXTS, role="query"), strict=True
    ):
        with torch.inference_mode():
            mean = model(input_ids=torch.tensor(ids)[None]).last_hidden_state[0].mean(0)
        np.testing.assert_allclose(vector, torch.nn.functional.normalize(mean, dim=0), atol=1e-5)


@pytest.fixture(scope="module")
def whole_t5(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(2)
    checkpoint = tmp_path_factory.mktemp("whole") / "t5"
    # 1,200 rows are enough for int8 to quantize the word table.
    config = T5Config(vocab_size=1200, **T5_SIZES, pad_token_id=0, decoder_start_token_id=0)
    t5 = T5ForConditionalGeneration(config)
    # With equal weights of the last norm all vectors would have one length.
    torch.nn.init.uniform_(t5.decoder.final_layer_norm.weight, 0.1, 2.0)
    t5.save_pretrained(checkpoint)
    save_tokenizer(checkpoint)

    return checkpoint


@pytest.fixture(scope="module")
def whole_t5_fp32(whole_t5: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("encoders") / "t5"
    export_encoder(whole_t5, out, Card("t5"), quantization="none", similarity="dot")
    return out


def first_positions(checkpoint: Path, encoder: Encoder, texts: list[str]) -> np.ndarray:
    """Return unit vectors of the decoder's first state by transformers alone."""
    model = T5ForConditionalGeneration.from_pretrained(checkpoint).eval()
    rows = []

    for ids in encoder.tokenize(texts, role="query"):
        with torch.inference_mode():
            outputs = model(
                input_ids=torch.tensor(ids)[None],
                decoder_input_ids=torch.tensor([[model.config.decoder_start_token_id]]),
                output_hidden_states=True,
            )
        rows.append(
            torch.nn.functional.normalize(outputs.decoder_hidden_states[-1][0, 0], dim=0).numpy()
        )
    return np.stack(rows)


def test_a_whole_t5_gives_its_decoders_first_position(whole_t5: Path, whole_t5_fp32: Path) -> None:
    encoder, texts = Encoder.load(whole_t5_fp32), TEXTS + probes()
    vectors = encoder.encode(texts, role="query")
    assert np.abs(vectors - first_positions(whole_t5, encoder, texts)).max() < 1e-5
    assert np.linalg.matrix_rank(vectors) > 5  # not one vector for all
    assert (encoder.dim, encoder.max_tokens) == (32, 128)
    graph = onnx.load(whole_t5_fp32 / MODEL).graph
    assert [entry.name for entry in graph.input] == ["input_ids"]


def test_vectors_for_dot_products_keep_their_length(whole_t5: Path, whole_t5_fp32: Path) -> None:
    """Training's dot product is measured; the server's vectors have length 1 all the same."""
    encoder = Encoder.load(whole_t5_fp32)
    trained, served = (
        encode(TEXTS, role="passage") for encode in (encoder.trained_vectors, encoder.encode)
    )

    lengths = np.linalg.norm(trained, axis=1)
    assert lengths.std() > 0.01
    np.testing.assert_allclose(np.linalg.norm(served, axis=1), 1.0, atol=1e-6)
    np.testing.assert_allclose(trained / lengths[:, None], served, atol=1e-6)
    np.testing.assert_allclose(
        trained / lengths[:, None], first_positions(whole_t5, encoder, TEXTS), atol=1e-5
    )
    assert json.loads((whole_t5_fp32 / SETTINGS).read_text())["similarity"] == "dot"
    assert "by cosine, since scores lie in 0 to 1" in (whole_t5_fp32 / CARD).read_text()

    texts = {str(number): text for number, text in enumerate(TEXTS)}
    judged_set = JudgedSet(texts, texts, {})
    by_dot, by_cosine = rank(judged_set, encoder), rank(judged_set, encoder, by_cosine=True)
    queries = encoder.trained_vectors(TEXTS, role="query")
    for row, query_id in enumerate(texts):
        assert by_dot[query_id] == [str(n) for n in np.argsort(-(trained @ queries[row]))]
        assert by_cosine[query_id] == [str(n) for n in np.argsort(-(served @ queries[row]))]
    assert by_dot != by_cosine


def test_a_whole_t5_as_int8(
    whole_t5: Path, whole_t5_fp32: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoder_export, "write_graph", copying(whole_t5_fp32))
    encoder = export_encoder(
        whole_t5, tmp_path / "out", Card("t5"), samples=TEXTS + probes(), similarity="dot"
    )
    vectors = encoder.encode(TEXTS * 3, role="query")

    cosines = (vectors[: len(TEXTS)] * first_positions(whole_t5, encoder, TEXTS)).sum(axis=1)
    assert cosines.min() > 0.999
    np.testing.assert_allclose(encoder.encode(TEXTS[1:2], role="query")[0], vectors[1], atol=1e-6)
    kinds = [node.op_type for node in onnx.load(tmp_path / "out" / MODEL).graph.node]
    # 6 of each encoder layer, 10 of each decoder layer.
    assert kinds.count("MatMulIntegerToFloat") == 32
    assert (tmp_path / "out" / MODEL).stat().st_size < 0.6 * (whole_t5_fp32 / MODEL).stat().st_size


def test_modules_json_decides_how_a_t5_is_used(whole_t5: Path, tmp_path: Path) -> None:
    """With a modules.json, a T5 is used as sentence-transformers does."""
    checkpoint = tmp_path / "modules"
    transformer = Transformer(str(whole_t5))
    SentenceTransformer(modules=[transformer, Pooling(32, pooling_mode="mean")], device="cpu").save(
        str(checkpoint)
    )
    config = json.loads((checkpoint / "config.json").read_text())
    (checkpoint / "config.json").write_text(
        json.dumps(config | {"architectures": ["T5ForConditionalGeneration"]})
    )
    loaded = load_checkpoint(checkpoint)

    assert [type(module).__name__ for module in loaded] == ["Transformer", "Pooling"]
    assert type(load_checkpoint(whole_t5)[0]).__name__ == "FirstPosition"


def test_more_tokens_than_positions_are_refused(bert: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="max_tokens is 129, but the model has 128 positions"):
        export_encoder(bert, tmp_path / "out", Card("long"), max_tokens=129)
    assert not (tmp_path / "out").exists()


def test_altered_decoder_weights_are_refused(
    whole_t5: Path, whole_t5_fp32: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    altered = tmp_path / "altered"
    shutil.copytree(whole_t5, altered)
    model = T5ForConditionalGeneration.from_pretrained(whole_t5)
    with torch.no_grad():
        model.decoder.block[1].layer[1].EncDecAttention.o.weight[0] += 0.1
    model.save_pretrained(altered)
    monkeypatch.setattr(encoder_export, "write_graph", copying(whole_t5_fp32))

    with pytest.raises(ExportRefused, match="The none graph's vectors differ"):
        export_encoder(altered, tmp_path / "out", Card("t5"), quantization="none", similarity="dot")
    assert not (tmp_path / "out").exists()


def test_only_warnings_about_torchvision_are_silenced(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("torch.onnx._internal.exporter._registration")
    for inside in (True, False):
        caplog.clear()
        with _without_torchvision() if inside else nullcontext():
            logger.warning("torchvision is not installed. Skipping %s", "torchvision::nms")
            logger.warning("something else")
        logged = [record.getMessage()[:9] for record in caplog.records]
        assert logged == ["torchvisi"] * (not inside) + ["something"]


def test_a_graph_that_differs_is_refused(
    bert: Path, fp32: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One weight of the graph is changed when it is written."""

    def write_other(_: Path, path: Path, *options: object) -> None:
        model = onnx.load(fp32 / MODEL)
        tensors = model.graph.initializer
        norm = next(tensor for tensor in tensors if tensor.name.endswith("LayerNorm.bias"))
        changed = numpy_helper.to_array(norm) + np.float32([0.1] + [0] * 31)
        norm.CopyFrom(numpy_helper.from_array(changed, norm.name))
        onnx.save(model, path)

    _assert_refused(bert, tmp_path, monkeypatch, "none", write_other)


def test_int8_that_is_too_coarse_is_refused(
    bert: Path, fp32: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("purlin.training.exporting.quantize.WEIGHT_LIMIT", 1)
    _assert_refused(bert, tmp_path, monkeypatch, "int8", copying(fp32))


def _assert_refused(
    bert: Path,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    write: Callable[[Path, Path], object],
) -> None:
    out = home / "encoder"
    out.mkdir()
    (out / SETTINGS).write_text("old")
    monkeypatch.setattr(encoder_export, "write_graph", write)

    with pytest.raises(ExportRefused, match=f"The {kind} graph") as caught:
        export_encoder(bert, out, Card("tiny"))
    assert ("--fp32" in caught.value.message) == (kind == "int8")
    assert [path.name for path in home.iterdir()] == ["encoder"]
    assert [path.name for path in out.iterdir()] == [SETTINGS]


def test_nothing_but_an_encoder_is_replaced(bert: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(bert, run / "stage" / "step-1")
    before = sorted(run.rglob("*"))
    for out in (run, run / "stage" / "step-1", run / "stage" / "step-1" / "config.json"):
        with pytest.raises(InvalidInput, match="neither empty nor an encoder or reader"):
            export_encoder(run / "stage" / "step-1", out, Card("tiny"))
    assert sorted(run.rglob("*")) == before


def test_a_failed_replacement_restores_the_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "encoder"
    out.mkdir()
    (out / SETTINGS).write_text("old")
    rename = Path.rename

    def fails(path: Path, to: Path) -> Path:
        if path.name == "new":
            raise KeyboardInterrupt
        return rename(path, to)

    monkeypatch.setattr(Path, "rename", fails)
    with pytest.raises(KeyboardInterrupt), replacing_directory(out):
        pass
    assert (out / SETTINGS).read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["encoder"]


def test_cut_weights_are_refused(bert: Path, tmp_path: Path) -> None:
    checkpoint = tmp_path / "cut"
    shutil.copytree(bert, checkpoint)
    os.truncate(checkpoint / "model.safetensors", 500)
    with pytest.raises(InvalidInput, match="cannot be loaded"):
        export_encoder(checkpoint, tmp_path / "out", Card("none"))


def test_a_directory_without_a_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"config\.json"):
        export_encoder(tmp_path, tmp_path / "out", Card("none"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["bert", "whole_t5"])
def test_pickled_weights_are_refused(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    checkpoint = tmp_path / "pickled"
    shutil.copytree(request.getfixturevalue(kind), checkpoint)
    weights = load_file(checkpoint / "model.safetensors")
    torch.save(weights, checkpoint / "pytorch_model.bin")
    (checkpoint / "model.safetensors").unlink()

    with pytest.raises(InvalidInput, match=r"cannot be loaded: .* checkpoint with safetensors"):
        export_encoder(checkpoint, tmp_path / "out", Card("none"))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["", "a\nb", "../up", "x" * 200])
def test_a_name_is_one_short_word(name: str) -> None:
    with pytest.raises(InvalidInput, match="name"):
        Card(name)


def test_probes_and_samples_are_uneven() -> None:
    lengths = [len(text.split()) for text in probes()]
    assert lengths == sorted(set(lengths))
    assert lengths[0] == 0
    assert lengths[-1] == 300
    assert 200 < len(library_texts()) < 600


@pytest.mark.long
def test_the_base_checkpoint_keeps_its_vectors_in_eight_bits(tmp_path: Path) -> None:
    model = SentenceTransformer(str(base_checkpoint()), device="cpu")
    encoder = export_encoder(base_checkpoint(), tmp_path / "base", Card("base"), max_tokens=256)
    expected = model.encode(probes(), normalize_embeddings=True, show_progress_bar=False)
    cosines = (encoder.encode(probes(), role="passage") * expected).sum(axis=1)
    assert cosines.min() > 0.99


def test_the_released_encoder_matches_its_recipe() -> None:
    recipe = tomllib.loads((ROOT / "configs" / "santa-minilm.toml").read_text())
    settings = json.loads((TRANSFORMER_ENCODER / SETTINGS).read_text())
    assert settings["name"] == recipe["name"] == TRANSFORMER_ENCODER.name
    assert settings["trained_on"] == recipe["export"]["trained_on"]
    assert settings["base_licence"] == "Apache-2.0"
