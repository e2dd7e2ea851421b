"""Training a reranker: its candidates, its batches, whole runs, and exports."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from tokenizers import pre_tokenizers

from purlin.index.encoder import load_encoder
from purlin.index.errors import InvalidInput, NotFound
from purlin.index.reranker import Reranker
from purlin.training.config import build_recipe
from purlin.training.data.pairs.loading import load_pairs
from purlin.training.data.pairs.pair import Pair, PairSource
from purlin.training.loop.devices import make_accelerator
from purlin.training.loop.settings import LoopSettings
from purlin.training.losses import listwise
from purlin.training.models.settings import ModelSettings
from purlin.training.ranker.lists import make_lists, nearest
from purlin.training.ranker.model import load_ranker_model
from purlin.training.ranker.recipe import (
    RankerExport,
    RankerRecipe,
    RankingSettings,
)
from purlin.training.ranker.run import train_ranker
from purlin.training.ranker.task import RankerTask
from purlin.training.reader.model import load_reader_model
from tests.support.files import write_jsonl
from tests.support.paths import ROOT
from tests.support.tiny import WORDS, save_bert, tiny_encoder

pytestmark = pytest.mark.usefixtures("graphs_once")

NAMES = ["open", "close", "read", "write"]
OBJECTS = ["file", "line", "path", "mode"]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A base model, an encoder, and pairs: `read line` and the function that does it."""
    directory = tmp_path_factory.mktemp("training")
    save_bert(directory / "base", WORDS, pre_tokenizers.BertPreTokenizer())
    tiny_encoder(directory / "encoder")
    rows = [
        {"query": f"{name} the {noun} in a path", "passage": f"def {name} ( {noun} ) : return"}
        for name in NAMES
        for noun in OBJECTS
    ]
    write_jsonl(directory / "pairs.jsonl", rows)
    return directory


def recipe(directory: Path, **keys: Any) -> RankerRecipe:
    values: dict[str, Any] = {
        "name": "tiny-ranker",
        "pairs": (PairSource(format="pairs", path=directory / "pairs.jsonl"),),
        "ranking": RankingSettings(
            encoder=directory / "encoder", candidates=3, depth=6, max_tokens=24, held_out=2
        ),
        "model": ModelSettings(base=str(directory / "base")),
        "loop": LoopSettings(
            batch_size=8, steps=60, every=60, learning_rate=3e-3, precision="fp32"
        ),
        "export": RankerExport(quantization="none"),
    }
    return RankerRecipe(**values | keys)


def run(recipe: RankerRecipe, out: Path, lines: list[str] | None = None) -> Path:
    say = (lambda line: None) if lines is None else lines.append
    return train_ranker(recipe, out, progress=lambda name: lambda *_: None, say=say, cpu=True)


# ---- candidates


def test_nearest_are_the_best_products_without_copies() -> None:
    generator = np.random.default_rng(3)
    pairs = [Pair((f"query {n % 37}",), f"passage {n % 53}") for n in range(550)]
    queries, passages = generator.standard_normal((2, len(pairs), 16)).astype(np.float32)
    mined = nearest(pairs, queries, passages, 5)

    for own in (0, 17, 515):
        order = np.argsort(-(passages @ queries[own]))
        kept = [
            row
            for row in order.tolist()
            if pairs[row].passage != pairs[own].passage and pairs[row].queries != pairs[own].queries
        ]
        assert mined[own].tolist() == kept[:5]


def test_too_few_candidates_are_repeated() -> None:
    pairs = [Pair(("a",), "one"), Pair(("b",), "two"), Pair(("a",), "three")]
    vectors = np.eye(3, dtype=np.float32)
    assert nearest(pairs, vectors, vectors, 3).tolist() == [[1, 1, 1], [0, 2, 0], [1, 1, 1]]
    assert nearest(pairs[:1], vectors[:1], vectors[:1], 2).tolist() == [[0, 0]]


# ---- whole runs


def test_a_batch_has_lists_and_the_loss_of_their_logits(directory: Path, tmp_path: Path) -> None:
    settings = recipe(directory)
    loaded, _ = load_pairs(settings.pairs)
    encoder = load_encoder(settings.ranking.encoder)
    source = make_lists(loaded[0], settings, encoder, tmp_path, print)
    model = load_ranker_model(settings.model).eval()
    accelerator = make_accelerator(settings.loop, cpu=True, out=tmp_path, say=str)
    task = RankerTask(model, [source], settings, accelerator)

    batch = task.batch(0)
    assert len(batch.sequences) == 3 * len(batch.relevant) == 3 * 8
    assert [ids.tolist() for ids in task.batch(0).sequences] == [
        ids.tolist() for ids in batch.sequences
    ]
    # Together, two processes see the same batch.
    for process in range(2):
        task.accelerator = cast(Any, SimpleNamespace(process_index=process, num_processes=2))
        assert task.batch(0).rows.tolist() == batch.rows[process::2].tolist()
        assert task.batch(0).relevant == batch.relevant[process::2]
        assert task.batch(0).sequences[0].tolist() == batch.sequences[3 * process].tolist()
    task.accelerator = accelerator

    # A query's own passage has the query's verb and object, and comes first unless it is left out.
    words = model.tokenizer.convert_ids_to_tokens
    for number, relevant in enumerate(batch.relevant):
        lists = [words(ids.tolist()) for ids in batch.sequences[3 * number : 3 * number + 3]]
        right = [text[1] in text[9:] and text[3] in text[9:] for text in lists]
        assert right == ([True, False, False] if relevant else [False] * 3)

    with torch.no_grad():
        logits = [float(model(torch.from_numpy(ids)[None])) for ids in batch.sequences]
    expected = listwise(torch.tensor(logits).reshape(-1, 3), torch.tensor(batch.relevant))
    assert task.backward(batch)["loss"] == pytest.approx(float(expected), rel=1e-4)
    assert all(parameter.grad is not None for parameter in model.head.parameters())


def test_a_run_writes_a_reranker(directory: Path, tmp_path: Path) -> None:
    lines: list[str] = []
    loop = LoopSettings(batch_size=4, steps=6, every=3, precision="fp32")
    trained = run(recipe(directory, loop=loop), tmp_path, lines)
    assert lines[0] == "device: cpu, 1 process"

    assert Reranker.load(trained, threads=1).weights == {"code": 0.3, "product": 0.3}
    card = (trained / "README.md").read_text()
    assert "code: 0.30 of the score" in card
    assert "dev mrr" in card
    assert "## Trained on\nNone recorded." in card  # the recipe does not say on what


# ---- model


def test_layers_are_kept_evenly(tmp_path: Path) -> None:
    base = save_bert(tmp_path, WORDS, pre_tokenizers.BertPreTokenizer(), num_hidden_layers=6)
    whole = load_ranker_model(ModelSettings(base=str(base)))
    for count, kept in ((3, [1, 3, 5]), (4, [1, 2, 3, 5]), (1, [5]), (6, [0, 1, 2, 3, 4, 5])):
        model = load_ranker_model(ModelSettings(base=str(base), layers=count))
        weights = [layer.output.dense.weight for layer in model.transformer.encoder.layer]
        expected = [whole.transformer.encoder.layer[n].output.dense.weight for n in kept]
        assert all(torch.equal(a, b) for a, b in zip(weights, expected, strict=True))
    with pytest.raises(InvalidInput, match="layers is 7, but the base model has 6"):
        load_ranker_model(ModelSettings(base=str(base), layers=7))


@torch.no_grad()
def test_a_pruned_model_is_restored_as_it_was(directory: Path, tmp_path: Path) -> None:
    settings = ModelSettings(base=str(directory / "base"), layers=1)
    trained, restored = load_ranker_model(settings).eval(), load_ranker_model(settings).eval()
    for weight in trained.parameters():
        weight.mul_(1.5)
    trained.save(tmp_path)
    restored.load(tmp_path)

    ids = torch.randint(4, len(WORDS), (2, 9))
    assert torch.equal(trained(ids), restored(ids))


def test_a_readers_selection_is_the_first_head(directory: Path, tmp_path: Path) -> None:
    reading = load_reader_model(ModelSettings(base=str(directory / "base")))
    reading.save(tmp_path)
    ids = torch.randint(4, len(WORDS), (3, 12))
    selected = reading.eval()(ids)[2]
    ranking = load_ranker_model(ModelSettings(base=str(tmp_path)))
    assert torch.allclose(ranking.eval()(ids), selected, atol=1e-6)


# ---- recipes


@pytest.mark.parametrize(
    ("table", "change", "words"),
    [
        ("ranking", {"candidates": 1}, "candidates must be from 2"),
        ("ranking", {"depth": 2}, "depth must be from 3"),
        ("ranking", {"missing": 1.0}, "missing must be from 0 to 0.9"),
        ("ranking", {"max_tokens": 8}, "max_tokens must be from 16"),
        ("ranking", {"dept": 3}, "did you mean 'depth'"),
        ("export", {"weights": {"code": 1.5}}, "code must be from 0 to 1"),
        ("export", {"default": ["reference"]}, "'reference', which has no weight"),
        ("export", {"default": ["music"]}, "'music', which has no weight"),
    ],
)
def test_a_wrong_key_is_named(
    directory: Path, table: str, change: dict[str, Any], words: str
) -> None:
    content: dict[str, Any] = {
        "name": "a",
        "pairs": [{"format": "pairs", "path": "pairs.jsonl"}],
        "ranking": {"encoder": "encoder", "candidates": 3},
        "export": {},
    }
    content[table] = content[table] | change
    with pytest.raises(InvalidInput, match=words) as refusal:
        build_recipe(RankerRecipe, content, root=directory)
    assert str(refusal.value.field).startswith(table)


def test_a_missing_encoder_is_named(directory: Path) -> None:
    pairs = [{"format": "pairs", "path": "pairs.jsonl"}]
    content = {"name": "a", "pairs": pairs, "ranking": {"encoder": "gone"}}
    with pytest.raises(NotFound, match=r"ranking\.encoder"):
        build_recipe(RankerRecipe, content, root=directory)


def test_the_released_recipe_is_valid() -> None:
    from purlin.training.config import read_toml

    content = read_toml(ROOT / "configs" / "rerank-minilm.toml")
    export = build_recipe(RankerExport, content["export"], root=Path(), key="export")
    assert export.quantization == "int8"
    assert replace(export, default=("code",)).shares() == export.shares()
