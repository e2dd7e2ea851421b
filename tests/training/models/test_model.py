"""Both kinds of model, compared with numpy, transformers and sentence-transformers."""

from __future__ import annotations

import json
import logging
import pickle
import re
import shutil
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import huggingface_hub.constants
import numpy as np
import pytest
import torch
from safetensors.torch import load as load_bytes
from safetensors.torch import load_file, save, save_file
from sentence_transformers import SentenceTransformer
from torch import Tensor
from transformers import (
    AutoModel,
    BertConfig,
    DistilBertConfig,
    DistilBertModel,
    ElectraConfig,
    ElectraModel,
    GPT2Config,
    GPT2Model,
    RobertaConfig,
    RobertaModel,
    T5ForConditionalGeneration,
)

from purlin.index.encoder import TRANSFORMER_ENCODER
from purlin.index.errors import Damaged, InvalidInput, NotFound
from purlin.training.losses import IGNORED, reconstruction
from purlin.training.models import pretrained
from purlin.training.models.architectures import positions
from purlin.training.models.padding import pad, pad_texts
from purlin.training.models.settings import ModelSettings, Scratch
from purlin.training.models.text_model import (
    DECODER,
    BertLike,
    FirstDecoderPosition,
    TextModel,
    load_text_model,
)
from tests.support.tiny import WORDS, save_bert, save_t5, save_tokenizer

DIM = 32
ROWS = [[2, 5, 9, 14, 3], [2, 3], [2, 7, 8, 9, 10, 11, 12, 3], [2, 20, 3]]
TARGETS = [[10, 4, 11], [], [12, 5, 6, 13, 7], [10]]
TEXTS = ["", "open", "def read ( path ) : return open ( path )", "the line in the file " * 30]


def saved(model: Any, directory: Path) -> Path:
    model.save_pretrained(directory)
    save_tokenizer(directory)
    return directory


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_bert(tmp_path_factory.mktemp("bert"))


@pytest.fixture(scope="module")
def t5(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_t5(tmp_path_factory.mktemp("t5"))


@pytest.fixture(params=["bert", "t5"])
def base(request: pytest.FixtureRequest) -> Path:
    path: Path = request.getfixturevalue(request.param)
    return path


def settings(base: Path | str, **changes: Any) -> ModelSettings:
    return ModelSettings(base=str(base), max_query_tokens=32, **changes)


def opened(base: Path, **changes: Any) -> TextModel:
    torch.manual_seed(3)  # of the light decoder
    return load_text_model(settings(base, **changes)).eval()


def texts() -> tuple[Tensor, Tensor]:
    return pad_texts(ROWS, 0)


# -- vectors -------------------------------------------------------------------------------------


@torch.inference_mode()
def test_vectors_depend_on_neither_padding_nor_batch(base: Path) -> None:
    model = opened(base)
    together = model.vectors(*texts())
    assert torch.linalg.matrix_rank(together) == len(ROWS)
    for row, ids in enumerate(ROWS):
        alone = model.vectors(*pad_texts([ids], 0))
        wide = model.vectors(pad([[*ids, *[17] * 9]], 0), pad([[*[1] * len(ids), *[0] * 9]], 0))
        torch.testing.assert_close(together[row], alone[0], atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(wide, alone, atol=1e-5, rtol=1e-4)


@torch.inference_mode()
def test_only_cosine_normalizes_vectors(base: Path) -> None:
    unit, plain = (
        opened(base, similarity=each).vectors(*texts()).numpy() for each in ("cosine", "dot")
    )
    assert unit.dtype == plain.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(unit, axis=1), 1, atol=1e-6)
    lengths = np.linalg.norm(plain, axis=1, keepdims=True)
    assert abs(lengths - 1).min() > 0.1
    np.testing.assert_allclose(unit, plain / lengths, atol=1e-6)


@torch.inference_mode()
def test_mean_pooling_is_the_mean_over_a_texts_tokens(bert: Path) -> None:
    vectors = opened(bert, similarity="dot").vectors(*texts()).numpy()
    plain = AutoModel.from_pretrained(bert).eval()
    for row, ids in enumerate(ROWS):
        states = plain(input_ids=torch.tensor([ids])).last_hidden_state[0].numpy()
        np.testing.assert_allclose(vectors[row], states.mean(axis=0), atol=1e-5)


@torch.inference_mode()
@pytest.mark.parametrize("pooling", ["first", "pooler"])
def test_first_token_and_pooler_are_those_of_transformers(
    tmp_path: Path, pooling: Literal["first", "pooler"]
) -> None:
    base = save_bert(tmp_path / "base", pooler=True)
    model = opened(base, pooling=pooling)
    plain = AutoModel.from_pretrained(base).eval()
    model.save(tmp_path / "saved")
    reopened = SentenceTransformer(str(tmp_path / "saved"), device="cpu")

    for text in TEXTS[1:]:
        ids = model.tokenizer(text, truncation=True, max_length=64, return_tensors="pt")
        output = plain(**ids)
        expected = output.pooler_output if pooling == "pooler" else output.last_hidden_state[:, 0]
        unit = torch.nn.functional.normalize(expected, dim=1)
        vectors = model.vectors(ids["input_ids"], ids["attention_mask"])
        torch.testing.assert_close(vectors, unit, atol=1e-5, rtol=1e-4)

        # The checkpoint is the same model to other tools, and to the export.
        cut = model.tokenizer.decode(ids["input_ids"][0], skip_special_tokens=True)
        stored = torch.from_numpy(reopened.encode([cut], show_progress_bar=False))
        torch.testing.assert_close(stored, unit, atol=1e-5, rtol=1e-4)


def test_a_model_without_a_pooler_is_refused(bert: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="lacks 2 weights, the first is pooler"):
        opened(bert, pooling="pooler")
    config = DistilBertConfig(vocab_size=len(WORDS), dim=DIM, hidden_dim=64, n_layers=1, n_heads=2)
    distilled = saved(DistilBertModel(config), tmp_path / "distilled")
    with pytest.raises(InvalidInput, match='has no pooler: use pooling "first"'):
        opened(distilled, pooling="pooler")


@torch.inference_mode()
def test_a_t5s_vector_is_its_decoders_first_state(t5: Path) -> None:
    vectors = opened(t5, similarity="dot").vectors(*texts())
    plain = T5ForConditionalGeneration.from_pretrained(t5).eval()

    for row, ids in enumerate(ROWS):
        # The token after the start does not change the first state.
        start = torch.tensor([[plain.config.decoder_start_token_id, 9]])
        states = plain(
            input_ids=torch.tensor([ids]), decoder_input_ids=start, output_hidden_states=True
        )
        torch.testing.assert_close(
            vectors[row], states.decoder_hidden_states[-1][0, 0], atol=1e-5, rtol=1e-4
        )


@torch.inference_mode()
def test_a_text_without_tokens_has_a_finite_vector(base: Path) -> None:
    vectors = opened(base).vectors(*pad_texts([[], [2, 5, 3]], 0))
    assert bool(vectors.isfinite().all())


# -- prediction ----------------------------------------------------------------------------------


def logits(model: TextModel, vectors: Tensor, ids: Tensor, mask: Tensor, targets: Tensor) -> Tensor:
    states, words = model.predict(vectors, ids, mask, targets)
    return states @ words.T


def predicted(
    model: TextModel, rows: list[list[int]] = ROWS, targets: list[list[int]] = TARGETS
) -> Tensor:
    ids, mask = pad_texts(rows, 0)
    return logits(model, model.vectors(*texts())[: len(rows)], ids, mask, pad(targets, IGNORED))


def loss(
    model: TextModel, targets: list[list[int]] = TARGETS, *, vectors: Tensor | None = None
) -> Tensor:
    (ids, mask), labels = texts(), pad(targets, IGNORED)
    used_vectors = model.vectors(ids, mask) if vectors is None else vectors
    return reconstruction(*model.predict(used_vectors, ids, mask, labels), labels)


@torch.inference_mode()
def test_logits_are_those_of_the_targets_in_order(base: Path) -> None:
    model = opened(base)
    whole = predicted(model)
    assert whole.shape == (sum(map(len, TARGETS)), len(WORDS))
    # Each row gives the same alone, without padding; row 1 has no targets.
    for row, start, end in ((0, 0, 3), (2, 3, 8), (3, 8, 9)):
        ids, mask = pad_texts([ROWS[row]], 0)
        alone = logits(model, model.vectors(ids, mask), ids, mask, pad([TARGETS[row]], IGNORED))
        torch.testing.assert_close(whole[start:end], alone, atol=1e-4, rtol=1e-4)


@torch.inference_mode()
def test_a_token_changes_only_the_predictions_after_it(base: Path) -> None:
    model = opened(base)
    before = predicted(model, ROWS[:1], [[10, 4, 11, 5]])
    for position in range(4):
        changed = [10, 4, 11, 5]
        changed[position] = 21
        same = (predicted(model, ROWS[:1], [changed]) - before).abs().amax(1) < 1e-6
        assert same.tolist() == [number <= position for number in range(4)]


@torch.inference_mode()
def test_a_light_decoders_states_are_as_long_as_a_words(bert: Path) -> None:
    """BERT's word embeddings are short: of shorter states, no word gets a probability to speak of."""
    model = opened(bert)
    (ids, mask), labels = texts(), pad(TARGETS, IGNORED)
    states, _ = model.predict(model.vectors(ids, mask), ids, mask, labels)
    lengths = states.norm(dim=1)
    torch.testing.assert_close(lengths, torch.full_like(lengths, DIM**0.5), atol=1e-3, rtol=0)


@pytest.mark.parametrize("tied", [True, False])
@torch.inference_mode()
def test_a_t5_predicts_as_transformers_own(tied: bool, tmp_path: Path) -> None:
    """Untied, as in version 1.1, the states are not scaled."""
    directory = save_t5(tmp_path, tie_word_embeddings=tied)
    config = json.loads((directory / "config.json").read_text())
    (directory / "config.json").write_text(json.dumps(config | {"tie_word_embeddings": tied}))
    plain = T5ForConditionalGeneration.from_pretrained(directory).eval()
    (ids, mask), targets = texts(), pad(TARGETS, IGNORED)
    expected = plain(input_ids=ids, attention_mask=mask, labels=targets).loss
    value = loss(opened(directory))

    assert float(value) == pytest.approx(float(expected), rel=1e-5)
    assert (plain.config.scale_decoder_outputs, plain.training) == (tied, False)


@torch.inference_mode()
def test_the_light_decoder_reads_vector_and_masked_text(bert: Path) -> None:
    model = opened(bert)
    before = predicted(model)
    (ids, mask), targets = texts(), pad(TARGETS, IGNORED)
    vectors = model.vectors(ids, mask)
    other_vector = logits(model, vectors.roll(1, dims=0), ids, mask, targets)
    other_text = logits(model, vectors, torch.where(ids == 9, 19, ids), mask, targets)

    assert bool(((other_vector - before).abs().amax(1) > 1e-3).all())
    assert bool(((other_text - before).abs().amax(1)[:8] > 1e-3).all())  # rows 0 and 2 have word 9
    torch.testing.assert_close(other_text[8:], before[8:], atol=1e-5, rtol=1e-4)
    # Only the direction of a vector counts.
    torch.testing.assert_close(logits(model, vectors * 7, ids, mask, targets), before)


def test_prediction_trains_the_encoder_through_the_vector(bert: Path) -> None:
    model = opened(bert)

    assert isinstance(model, BertLike)

    loss(model, vectors=model.vectors(*texts()).detach()).backward()
    layers = list(model.transformer.encoder.parameters())
    assert all(weight.grad is None for weight in layers)
    assert all(weight.grad is not None for weight in model.decoder.parameters())
    loss(model).backward()
    assert all(weight.grad is not None for weight in layers)
    assert sum(float(weight.grad.abs().sum()) for weight in layers) > 1e-3


@pytest.mark.parametrize("targets", [[[], [], [], []], [[], [4], [], []]])
def test_rows_without_targets_have_a_finite_loss(base: Path, targets: list[list[int]]) -> None:
    model = opened(base)
    value = loss(model, targets)
    value.backward()
    count = sum(map(len, targets))

    assert len(predicted(model, targets=targets)) == count
    assert (float(value.detach()) > 0) == bool(count)
    assert all(
        weight.grad is None or bool(weight.grad.isfinite().all()) for weight in model.parameters()
    )


def test_an_empty_masked_text_has_finite_logits(base: Path) -> None:
    for rows in ([[], [5]], [[], []]):
        logits = predicted(opened(base), rows, [[4, 5], [6]])
        assert bool(logits.isfinite().all())


# -- saving and loading --------------------------------------------------------------------------


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
@torch.inference_mode()
def test_a_saved_model_loads_unchanged(base: Path, similarity: Any, tmp_path: Path) -> None:
    model = opened(base, similarity=similarity)
    for weight in model.parameters():
        weight.add_(0.01)
    model.save(tmp_path / "new")
    torch.manual_seed(99)
    again = load_text_model(model.settings, tmp_path / "new").eval()

    assert torch.equal(again.vectors(*texts()), model.vectors(*texts()))
    assert torch.equal(predicted(again), predicted(model))
    written = {path.suffix for path in (tmp_path / "new").rglob("*")}
    assert not written & {".bin", ".pt", ".pkl"}


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_sentence_transformers_loads_the_bert_kind(
    bert: Path, similarity: Any, tmp_path: Path
) -> None:
    model = opened(bert, similarity=similarity)
    model.save(tmp_path)
    loaded = SentenceTransformer(str(tmp_path), device="cpu")
    rows = model.tokenizer(TEXTS, truncation=True, max_length=128)["input_ids"]
    with torch.inference_mode():
        expected = model.vectors(*pad_texts(rows, 0)).numpy()

    np.testing.assert_allclose(loaded.encode(TEXTS, show_progress_bar=False), expected, atol=1e-5)
    assert loaded.get_embedding_dimension() == DIM


def test_a_text_is_cut_where_the_settings_say(base: Path) -> None:
    model = opened(base)
    most = model.settings.max_query_tokens
    row = model.tokenizer(TEXTS[3], truncation=True, max_length=most)["input_ids"]
    assert len(row) == 32
    assert row[-1] == 3  # a special token still ends it


def test_a_t5_from_scratch_takes_the_bases_words(tmp_path: Path) -> None:
    """A tokenizer is enough; no weights are read."""
    shutil.copy(TRANSFORMER_ENCODER / "tokenizer.json", tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(BertConfig(vocab_size=30522).to_dict()))
    kind = {"pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]", "unk_token": "[UNK]"}
    (tmp_path / "tokenizer_config.json").write_text(
        json.dumps(kind | {"tokenizer_class": "PreTrainedTokenizerFast"})
    )
    scratch = Scratch(dim=16, layers=1, heads=2, feed_forward=24)
    torch.manual_seed(1)
    model = load_text_model(
        settings(tmp_path, scratch=scratch, dropout=0.25, gradient_checkpointing=True)
    )

    assert isinstance(model, FirstDecoderPosition)

    config = model.t5.config
    sizes = (config.vocab_size, config.d_model, config.num_layers, config.dropout_rate)
    assert sizes == (30522, 16, 1, 0.25)
    assert model.t5.encoder.gradient_checkpointing
    assert config.decoder_start_token_id == model.tokenizer.pad_token_id == 0
    ids = model.tokenizer(["open a file"])["input_ids"]
    assert ids == [[101, 2330, 1037, 5371, 102]]
    model.save(tmp_path / "new")
    # `scratch` only says how the run began: the weights are the saved ones.
    again = load_text_model(model.settings, tmp_path / "new")
    assert torch.equal(
        again.eval().vectors(*pad_texts(ids, 0)), model.eval().vectors(*pad_texts(ids, 0))
    )
    assert again.tokenizer(["open a file"])["input_ids"] == ids


@pytest.mark.parametrize(
    ("kind", "config", "dropouts"),
    [
        (
            RobertaModel,
            RobertaConfig(
                vocab_size=len(WORDS),
                hidden_size=DIM,
                num_hidden_layers=1,
                num_attention_heads=2,
                intermediate_size=40,
                max_position_embeddings=130,
                pad_token_id=0,
            ),
            ["hidden_dropout_prob", "attention_probs_dropout_prob"],
        ),
        (
            DistilBertModel,
            DistilBertConfig(vocab_size=len(WORDS), dim=DIM, n_layers=1, n_heads=2, hidden_dim=40),
            ["dropout", "attention_dropout"],
        ),
    ],
)
def test_encoders_like_bert_are_loaded(
    kind: Any, config: Any, dropouts: list[str], tmp_path: Path
) -> None:
    saved(kind(config), tmp_path)
    model = load_text_model(settings(tmp_path, dropout=0.3))

    assert isinstance(model, BertLike)
    assert [getattr(model.transformer.config, name) for name in dropouts] == [0.3, 0.3]

    longest = positions(model.transformer)
    assert longest is not None
    model.vectors(*pad_texts([[9] * longest], 0))
    with pytest.raises((IndexError, RuntimeError)):
        model.vectors(*pad_texts([[9] * (longest + 1)], 0))
    logits = predicted(model.eval())
    assert logits.shape == (9, len(WORDS))


def test_dropout_is_the_bases_unless_set(base: Path) -> None:
    for dropout, count in ((None, 0.1), (0.0, 0.0)):
        model = opened(base, dropout=dropout)
        inner = model.t5 if isinstance(model, FirstDecoderPosition) else model.transformer
        assert (
            max(part.p for part in inner.modules() if isinstance(part, torch.nn.Dropout)) == count
        )


def test_frozen_layers_keep_the_weights_of_the_base(bert: Path) -> None:
    model = opened(bert, frozen_layers=1)
    before = {name: weight.clone() for name, weight in model.named_parameters()}

    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model.vectors(*texts())[:, 0].sum().backward()
    optimizer.step()

    changed = {
        name for name, weight in model.named_parameters() if not torch.equal(weight, before[name])
    }
    assert any(name.startswith("transformer.encoder.layer.1.") for name in changed)
    kept = ("transformer.embeddings.", "transformer.encoder.layer.0.", "decoder.")
    assert not any(name.startswith(kept) for name in changed)


def test_frozen_layers_change_no_gradient_of_the_others(bert: Path) -> None:
    gradients = []
    for frozen_layers in (0, 1):
        model = opened(bert, frozen_layers=frozen_layers)
        model.vectors(*texts())[:, 0].sum().backward()
        layer = model.get_submodule("transformer.encoder.layer.1")
        gradients.append([weight.grad for weight in layer.parameters()])

    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize(
    ("name", "frozen_layers", "message"),
    [
        ("bert", 3, "frozen_layers must be from 1 to 2, not 3"),
        ("t5", 1, "no list of layers to choose from: set frozen_layers to 0"),
    ],
)
def test_too_many_frozen_layers_are_refused(
    request: pytest.FixtureRequest, name: str, frozen_layers: int, message: str
) -> None:
    with pytest.raises(InvalidInput, match=message) as raised:
        opened(request.getfixturevalue(name), frozen_layers=frozen_layers)
    assert raised.value.field == "frozen_layers"


# -- refused base models -------------------------------------------------------------------------


def copied(base: Path, to: Path) -> Path:
    shutil.copytree(base, to)
    return to


def refused(error: type[Exception], message: str, base: Path | str, **changes: Any) -> None:
    with pytest.raises(error, match=message) as caught:
        load_text_model(settings(base, **changes))
    assert "\n" not in str(caught.value)


def test_a_directory_without_tokenizer_or_config_is_refused(base: Path, tmp_path: Path) -> None:
    directory = copied(base, tmp_path / "x")
    (directory / "tokenizer.json").unlink()
    refused(InvalidInput, r"has no tokenizer \(tokenizer\.json\)", directory)
    (directory / "config.json").unlink()
    refused(NotFound, r"has no config\.json", directory)


class Planted:
    """Writes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str, str]]:
        return open, (str(self.path), "w")


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt"])
def test_pickled_weights_are_not_read(base: Path, name: str, tmp_path: Path) -> None:
    directory = copied(base, tmp_path / "x")
    (directory / "model.safetensors").unlink()
    (directory / name).write_bytes(pickle.dumps(Planted(tmp_path / "planted")))
    refused(InvalidInput, r"Pickled weights \(\.bin, \.pt\) are refused", directory)
    # They are not read either if another file is safe.
    save_file({"x": torch.zeros(1)}, directory / "other.safetensors")
    refused(NotFound, "cannot be loaded", directory)

    assert not (tmp_path / "planted").exists()
    with pickle.loads((directory / name).read_bytes()):  # the trap works
        assert (tmp_path / "planted").exists()


def test_a_shard_that_is_pickled_is_not_read(base: Path, tmp_path: Path) -> None:
    directory = copied(base, tmp_path / "x")
    names = load_file(directory / "model.safetensors")
    (directory / "model.safetensors").rename(directory / "other.safetensors")
    (directory / "shard.bin").write_bytes(pickle.dumps(Planted(tmp_path / "planted")))
    content = {"metadata": {}, "weight_map": dict.fromkeys(names, "shard.bin")}
    (directory / "model.safetensors.index.json").write_text(json.dumps(content))
    refused(InvalidInput, "or not for all of them. Pickled", directory)
    (directory / "model.safetensors.index.json").write_text("[]")
    refused(InvalidInput, "or not for all of them. Pickled", directory)

    assert not (tmp_path / "planted").exists()


def test_weights_that_do_not_fit_are_refused(base: Path, tmp_path: Path) -> None:
    directory = copied(base, tmp_path / "x")
    path = directory / "model.safetensors"
    weights, content = load_bytes(path.read_bytes()), path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    refused(NotFound, "cannot be loaded", directory)
    name = next(name for name in weights if name.endswith("weight") and "layer" in name)
    save_file({key: value for key, value in weights.items() if key != name}, path, {"format": "pt"})
    refused(InvalidInput, f"lacks 1 weights, the first is .*{name}", directory)
    save_file(weights | {name: torch.zeros(3, 3)}, path, {"format": "pt"})
    refused(NotFound, "cannot be loaded", directory)


def test_a_broken_tokenizer_or_config_is_refused(base: Path, tmp_path: Path) -> None:
    for number, name in enumerate(("tokenizer.json", "config.json")):
        directory = copied(base, tmp_path / str(number))
        (directory / name).write_text('{"version": 1')
        refused(NotFound, "The base model .* cannot be loaded", directory)


def test_models_of_other_classes_are_refused(tmp_path: Path) -> None:
    sizes = {"n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 64}
    gpt2 = saved(GPT2Model(GPT2Config(vocab_size=len(WORDS), **sizes)), tmp_path / "gpt2")
    refused(InvalidInput, "is a gpt2: give a T5 or a BERT-like encoder", gpt2)

    sizes = {"embedding_size": 8, "hidden_size": 16, "intermediate_size": 16}
    sizes |= {"num_hidden_layers": 1, "num_attention_heads": 2}
    config = ElectraConfig(vocab_size=len(WORDS), **sizes)
    electra = saved(ElectraModel(config), tmp_path / "electra")
    refused(InvalidInput, "word embeddings shorter than its states", electra)


def test_code_that_a_base_brings_is_not_run(bert: Path, tmp_path: Path) -> None:
    directory = copied(bert, tmp_path / "x")
    config = json.loads((directory / "config.json").read_text()) | {
        "model_type": "own",
        "auto_map": {"AutoConfig": "own.Config", "AutoModel": "own.Model"},
    }
    (directory / "config.json").write_text(json.dumps(config))
    (directory / "own.py").write_text(
        f"open({str(tmp_path / 'planted')!r}, 'w')\nclass Config: pass\n"
    )
    refused(NotFound, "cannot be loaded", directory)

    assert not (tmp_path / "planted").exists()


def test_a_tokenizer_that_is_not_fast_is_refused(bert: Path, tmp_path: Path) -> None:
    directory = copied(bert, tmp_path / "x")
    (directory / "tokenizer.json").unlink()
    (directory / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "EsmTokenizer"})
    )
    (directory / "vocab.txt").write_text("<cls>\n<pad>\n<eos>\n<unk>\nA\nB\n")
    refused(InvalidInput, "has no fast tokenizer", directory)


def test_a_tokenizer_without_padding_is_refused(bert: Path, tmp_path: Path) -> None:
    directory = copied(bert, tmp_path / "x")
    config = json.loads((directory / "tokenizer_config.json").read_text())
    (directory / "tokenizer_config.json").write_text(
        json.dumps({k: v for k, v in config.items() if k != "pad_token"})
    )
    refused(InvalidInput, "has no padding token", directory)


def test_texts_longer_than_the_positions_are_refused(bert: Path) -> None:
    message = "max_passage_tokens must be from 4 to 128, not 129"
    refused(InvalidInput, message, bert, max_passage_tokens=129)


def test_a_checkpoint_that_has_lost_its_decoder_is_damaged(bert: Path, tmp_path: Path) -> None:
    model = opened(bert)
    model.save(tmp_path)
    (tmp_path / DECODER).unlink()
    with pytest.raises(Damaged, match=DECODER):
        load_text_model(model.settings, tmp_path)
    load_text_model(model.settings, tmp_path, decoder=False)
    load_text_model(replace(model.settings, base=str(tmp_path)))  # a base model has none


def test_another_decoders_weights_are_refused(bert: Path, tmp_path: Path) -> None:
    model = opened(bert)
    model.save(tmp_path)
    for content in (save({"weight": torch.ones(2)}), b"no tensors"):
        (tmp_path / DECODER).write_bytes(content)
        with pytest.raises(InvalidInput, match="is not this model's decoder"):
            load_text_model(model.settings, tmp_path)


@pytest.mark.parametrize(
    "name", ["nobody/no-such-model", "no/such/directory", "..", "a b", "static"]
)
def test_a_hub_name_without_a_network_is_one_sentence(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    if name == "..":
        refused(NotFound, re.escape("no config.json"), name)
        return
    what = re.escape(f"The base model {name} cannot be loaded: ")
    # Those of other architectures, static and ensemble, are no base.
    refused(NotFound, rf"{what}.* one of transformer, labels for a released encoder", name)


def test_a_hub_without_an_address_is_not_asked(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its client would try each file six times."""
    for proxy in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(proxy, raising=False)
        monkeypatch.delenv(proxy.upper(), raising=False)
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", "https://hub.invalid")
    monkeypatch.setattr(logging.getLogger("huggingface_hub"), "propagate", True)

    refused(NotFound, "nobody/no-such-model cannot be loaded", "nobody/no-such-model")
    assert "Retrying" not in caplog.text


@pytest.mark.parametrize("endpoint", ["service-without-a-port://localhost", "http://localhost:9"])
def test_a_hub_with_an_address_is_asked(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", endpoint)
    assert pretrained._hub_has_address()


def test_a_directory_needs_no_hub(bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no name server answers, looking up the hub's name takes many seconds."""

    def fail(*_: object) -> None:
        pytest.fail("an address was looked up")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    opened(bert)


@pytest.mark.parametrize(
    ("kind", "values", "message"),
    [
        (ModelSettings, {"max_query_tokens": 3}, "max_query_tokens must be from 4"),
        (ModelSettings, {"max_target_tokens": 9000}, "max_target_tokens must be from 4 to 8,192"),
        (ModelSettings, {"dropout": 1.0}, "dropout must be from 0 to 0.9"),
        (Scratch, {"dim": 100, "heads": 3}, "dim 100 must be a multiple of heads 3"),
        (Scratch, {"layers": 0}, "layers must be from 1"),
        (Scratch, {"feed_forward": 0}, "feed_forward must be from 8"),
    ],
)
def test_settings_out_of_range_are_refused(kind: Any, values: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        kind(**values)


# -- rows ----------------------------------------------------------------------------------------


def test_rows_are_padded_to_the_longest() -> None:
    ids, mask = pad_texts([[5, 6], [7]], 9)
    assert ids.tolist() == [[5, 6], [7, 9]]
    assert mask.tolist() == [[1, 1], [1, 0]]
    assert pad([[5], []], IGNORED).tolist() == [[5], [IGNORED]]
    assert pad([[], []], 3).tolist() == [[3], [3]]
    assert pad([], 3).shape == (0, 1)
