"""Two encoders as in DPR, for questions and passages: trained, saved and exported as one."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import DPRContextEncoder, DPRQuestionEncoder, DPRReader

from purlin.index.encoder import SETTINGS
from purlin.index.encoder.exported import MODEL
from purlin.index.encoder.transformer import QUERY_MODEL, Encoder
from purlin.index.errors import Damaged, InvalidInput
from purlin.index.qa.reader import Reader, ReadingPassage
from purlin.training.exporting.checks import Quantization
from purlin.training.exporting.encoder import export_encoder
from purlin.training.exporting.model_card import Card
from purlin.training.loop.settings import LoopSettings
from purlin.training.models.padding import pad_texts
from purlin.training.models.settings import ModelSettings
from purlin.training.models.text_model import BertLike, TwoEncoders, load_text_model
from purlin.training.reader.losses import reading_loss
from purlin.training.reader.model import load_reader_model
from purlin.training.reader.recipe import ReaderExport, ReaderRecipe, ReadingSettings
from tests.support.paths import ROOT
from tests.support.readers import tiny_recipe, trained_reader, write_squad
from tests.support.tiny import WORDS, save_bert, save_dpr
from tests.support.training_runs import load_without_data

pytestmark = pytest.mark.usefixtures("graphs_once")

IDS, MASK = pad_texts([[2, 5, 9, 3], [2, 7, 3], [2, 11, 12, 13, 14, 15, 3]], 0)
LENGTHS = {"max_query_tokens": 32, "max_passage_tokens": 32, "max_target_tokens": 32}
TEXTS = ["open the file", "def read ( path ) :", "", "a line of the file = close ( )"]


def dpr_settings(passages: Path, queries: Path, **changes: object) -> ModelSettings:
    return ModelSettings(base=str(passages), query_base=str(queries), **LENGTHS | changes)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def dpr(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Checkpoints of passages and of questions, as published by the authors of DPR."""
    directory = tmp_path_factory.mktemp("dpr")
    passages = save_dpr(directory / "ctx", DPRContextEncoder)
    return passages, save_dpr(directory / "question", DPRQuestionEncoder)


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
    passages = save_bert(tmp_path / "passages")
    queries = save_bert(tmp_path / "queries", initializer_range=0.3)
    model = load_text_model(dpr_settings(passages, queries))

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
    export_encoder(checkpoint, out, Card("dpr"), max_tokens=32, quantization="none")
    return out


@pytest.fixture(scope="module")
def int8(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same in 8 bits."""
    out = tmp_path_factory.mktemp("exported") / "dpr"
    export_encoder(checkpoint, out, Card("dpr"), max_tokens=32)
    return out


@pytest.mark.parametrize("quantization", ["none", "int8"])
def test_the_export_has_an_encoder_for_each_role(
    dpr: tuple[Path, Path], request: pytest.FixtureRequest, quantization: Quantization
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
    saved, options = tmp_path / "saved", {"max_tokens": 32, "quantization": "none"}
    export_encoder(saved, tmp_path / "one", Card("dpr"), **options)
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
    projected = save_dpr(tmp_path / "projected", DPRContextEncoder, projection_dim=16)
    with pytest.raises(InvalidInput, match="projects its vectors"):
        load_text_model(dpr_settings(projected, dpr[1]))


def test_without_query_base_there_is_one_encoder(dpr: tuple[Path, Path]) -> None:
    assert isinstance(load_text_model(replace(dpr_settings(*dpr), query_base=None)), BertLike)


# -- DPR's reader --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def dpr_reader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A reader in the layout of facebook/dpr-reader-*, with what older checkpoints hold beside it."""
    directory = save_dpr(tmp_path_factory.mktemp("reader"), DPRReader)
    weights = load_file(directory / "model.safetensors")
    expected = {"span_predictor.qa_outputs", "span_predictor.qa_classifier"}
    assert {name.rpartition(".")[0] for name in weights if "qa_" in name} == expected

    bert = "span_predictor.encoder.bert_model"
    weights[f"{bert}.embeddings.position_ids"] = torch.arange(64)[None]
    weights[f"{bert}.pooler.dense.weight"] = torch.randn(32, 32)
    weights[f"{bert}.pooler.dense.bias"] = torch.randn(32)
    save_file(weights, directory / "model.safetensors", metadata={"format": "pt"})
    return directory


def paper_recipe(dpr_reader: Path, source: Path, **keys: object) -> ReaderRecipe:
    reading = ReadingSettings(passages=2, depth=2, missing=0.0, max_tokens=48, equations="paper")
    lengths = {"max_query_tokens": 16, "max_passage_tokens": 48, "max_target_tokens": 16}
    model = ModelSettings(base=str(dpr_reader), **lengths)
    return tiny_recipe(dpr_reader, source, model=model, reading=reading, **keys)


@torch.inference_mode()
def test_the_readers_logits_are_those_of_dpr(dpr_reader: Path) -> None:
    ours = load_reader_model(ModelSettings(base=str(dpr_reader), **LENGTHS)).eval()  # type: ignore[arg-type]
    theirs = DPRReader.from_pretrained(dpr_reader).eval()
    expected = theirs(input_ids=IDS, attention_mask=MASK)
    starts, ends, selected = ours(IDS, MASK)

    torch.testing.assert_close(starts, expected.start_logits, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(ends, expected.end_logits, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(selected, expected.relevance_logits, atol=1e-5, rtol=1e-4)


def test_dprs_reader_is_trained_exported_and_served(dpr_reader: Path, tmp_path: Path) -> None:
    """The recipe of the paper's reader, on a file with a question that has no answer."""
    rows = [
        ("def open ( path )", "def", "open the file"),
        ("read ( file )", "read", "read a line"),
        ("file", None, "mode"),
    ]
    squad = write_squad(tmp_path / "squad.jsonl", rows)
    recipe = paper_recipe(
        dpr_reader,
        squad,
        loop=LoopSettings(batch_size=2, steps=2, every=2, precision="fp32"),
        export=ReaderExport(quantization="none"),
    )
    lines: list[str] = []
    directory = trained_reader(recipe, tmp_path / "out", lines.append)
    assert "squad.jsonl (squad, train): 2 questions" in lines

    served = Reader.load(directory, threads=1)
    (logits,) = served.read("open the file", [ReadingPassage("def open ( path )")])
    trained = load_reader_model(recipe.model, tmp_path / "out/reader/step-000002").eval()
    with torch.inference_mode():
        starts, ends, selected = trained(torch.from_numpy(logits.packed.ids)[None])
    np.testing.assert_allclose(logits.start, starts[0], atol=1e-3)
    np.testing.assert_allclose(logits.end, ends[0], atol=1e-3)
    assert logits.selected == pytest.approx(float(selected[0]), abs=1e-3)


def test_the_papers_equations_have_no_additions() -> None:
    """Softmaxes over all tokens, and over passages without the choice of none of them."""
    generator = torch.Generator().manual_seed(6)
    starts, ends = torch.randn(2, 4, 5, generator=generator)
    selected = torch.randn(4, generator=generator)
    right, spans = torch.tensor([2, 1]), torch.tensor([[[0, 4]], [[3, 3]]])
    losses = reading_loss(starts, ends, selected, right, spans, None)

    expected = {
        "select": -torch.log_softmax(selected.reshape(2, 2), 1)[[0, 1], [1, 0]].mean(),
        "span": -(
            torch.log_softmax(starts, 1)[[1, 2], [0, 3]]
            + torch.log_softmax(ends, 1)[[1, 2], [4, 3]]
        ).mean(),
    }
    for name, loss in expected.items():
        torch.testing.assert_close(losses[name], loss)


def test_the_papers_equations_need_answers(dpr_reader: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="set missing = 0"):
        ReadingSettings(equations="paper")

    squad = write_squad(tmp_path / "squad.jsonl", [("file", None, "mode")])
    loop = LoopSettings(batch_size=2, precision="fp32")
    with pytest.raises(InvalidInput, match="has no question with an answer"):
        trained_reader(paper_recipe(dpr_reader, squad, loop=loop), tmp_path / "out")


def test_the_recipe_of_the_papers_reader_is_its_equations(tmp_path: Path) -> None:
    path = ROOT / "configs" / "refqa-dpr-reader.toml"
    recipe = load_without_data(path, ReaderRecipe, tmp_path)

    assert recipe.reading.none_score is None
    assert recipe.model.base == "facebook/dpr-reader-single-nq-base"
    assert all(source.leave_out for source in recipe.questions)


def test_a_converted_checkpoint_is_loaded(dpr_reader: Path, tmp_path: Path) -> None:
    """The message's command converts what the hub's older repositories have, also in two files."""
    shutil.copytree(dpr_reader, tmp_path / "it's old")
    old = tmp_path / "it's old"
    weights = load_file(old / "model.safetensors")
    (old / "model.safetensors").unlink()
    names = sorted(weights)
    for number, half in enumerate((names[:20], names[20:]), start=1):
        file = old / f"pytorch_model-0000{number}-of-00002.bin"
        torch.save({name: weights[name] for name in half}, file)

    settings = ModelSettings(base=str(old), **LENGTHS)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="To convert them: python -c") as error:
        load_reader_model(settings)
    command = error.value.message.partition("To convert them: ")[2]
    assert "weights_only=True" in command
    python = shlex.quote(sys.executable)
    subprocess.run(command.replace("python", python, 1), shell=True, check=True, timeout=120)

    again = load_reader_model(settings).state_dict()
    for name, weight in (
        load_reader_model(replace(settings, base=str(dpr_reader))).state_dict().items()
    ):
        torch.testing.assert_close(again[name], weight, rtol=0, atol=0)
