"""Training a static encoder on a few pairs: its start, its loss, its batches, and whole runs."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from accelerate import Accelerator
from typer.testing import CliRunner

from purlin.cli.commands import app as command_line
from purlin.index.encoder import STATIC_ENCODER, TRANSFORMER_ENCODER, load_encoder
from purlin.index.encoder.static import StaticEncoder
from purlin.index.encoder.vocabulary import Vocabulary
from purlin.index.errors import InvalidInput
from purlin.training.config import load_recipe
from purlin.training.data.pairs.augment import Forms
from purlin.training.data.pairs.pair import Pair, PairSource
from purlin.training.exporting.checks import ExportRefused
from purlin.training.exporting.model_card import Card
from purlin.training.loop.settings import LoopSettings
from purlin.training.static.export import export_static
from purlin.training.static.model import WordVectors, count_words, drop_shared, make_bags
from purlin.training.static.recipe import CHECKPOINTS, StaticRecipe
from purlin.training.static.run import train_static
from purlin.training.static.task import StaticTask, make_schedule
from purlin.training.static.vocabulary import choose_words, distilled
from tests.support.files import write_jsonl
from tests.support.hash_encoder import HashEncoder
from tests.support.paths import ROOT
from tests.support.tiny import tiny_encoder
from tests.support.training_runs import load_without_data, metrics_rows

VERBS = ("open", "close", "read", "write", "copy", "move", "parse", "print")
NOUNS = ("file", "socket", "image", "table", "header")
ROWS = [
    {
        "summary": f"{verb} the {noun} given by its name",
        "code": f"def {verb}{noun.title()}(name):\n    return {noun}_{verb}er(name)",
        "language": "python",
        "source": noun,
    }
    for verb in VERBS
    for noun in NOUNS
]
PAIRS = [Pair((row["summary"],), row["code"], group=row["source"]) for row in ROWS]
pytestmark = pytest.mark.usefixtures("one_process")
RECIPE = """
name = "tiny"
teacher = "teacher"
words = 60
min_pairs = 2
dim = 4
group = 4
temperature = 0.1
loop = { batch_size = 8, steps = 8, learning_rate = 1e-2, fresh_rate = 2.0, every = 4 }
forms = { typed = 0.5 }

[[pairs]]
name = "python"
format = "pairs"
path = "pairs.jsonl"

[[dev]]
name = "same"
format = "pairs"
path = "pairs.jsonl"

[export]
max_tokens = 64
base_model = "a tiny one"
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    tiny_encoder(tmp_path / "teacher")
    write_jsonl(tmp_path / "pairs.jsonl", ROWS)
    (tmp_path / "recipe.toml").write_text(RECIPE)
    return tmp_path


def read(data: Path, **changes: Any) -> StaticRecipe:
    return replace(load_recipe(data / "recipe.toml", StaticRecipe), **changes)


def run(recipe: StaticRecipe, out: Path, stop_at: int | None = None) -> Path:
    def step(number: int, total: int, values: Any) -> None:
        if number == stop_at:
            raise KeyboardInterrupt

    return train_static(recipe, out, progress=lambda name: step, say=lambda line: None, cpu=True)


def small_model(words: list[str], dim: int = 3) -> tuple[WordVectors, Vocabulary]:
    rng = np.random.default_rng(3)
    vectors = rng.standard_normal((len(words), dim)).astype(np.float32)
    return WordVectors(vectors, rng.standard_normal(len(words))), Vocabulary(words)


# -- where training starts -----------------------------------------------------------------------


def test_vocabulary_has_the_bases_words_then_the_most_frequent(data: Path) -> None:
    vocabulary, shares = choose_words([PAIRS], read(data))
    base = ["sports", "business", "world", "about", "the", "news", "of"]
    assert list(vocabulary.words[:7]) == base
    assert vocabulary.words[7:14] == ("by", "def", "given", "its", "name", "return", "file")
    assert len(vocabulary) == 7 + 6 + len(VERBS) + len(NOUNS) + 8  # "opener", "closeer", ...
    assert shares.sum() == pytest.approx(1)
    assert shares[vocabulary.words.index("the")] == shares.max()
    assert shares[vocabulary.words.index("sports")] == 0


@pytest.mark.parametrize(("changes", "expected"), [({"words": 9}, 9), ({"min_pairs": 6}, 7 + 11)])
def test_vocabulary_is_limited(data: Path, changes: dict[str, Any], expected: int) -> None:
    assert len(choose_words([PAIRS], read(data, **changes))[0]) == expected


def test_distilled_vectors_keep_the_teachers_cosines() -> None:
    words = "one two three four five six seven eight".split()
    teacher = HashEncoder()
    full = teacher.encode(words, role="passage").astype(float)
    centred = full - full.mean(axis=0)
    centred /= np.linalg.norm(centred, axis=1, keepdims=True)

    # Eight centred vectors span seven dimensions, so nothing is lost.
    reduced = distilled(Vocabulary(words), teacher, 7)
    np.testing.assert_allclose(reduced @ reduced.T, centred @ centred.T, atol=1e-5)


def test_more_components_than_words_are_refused() -> None:
    with pytest.raises(InvalidInput, match="dim is 3; 2 words"):
        distilled(Vocabulary(["one", "two"]), HashEncoder(), 3)


# -- the model -----------------------------------------------------------------------------------


def test_forward_equals_a_plain_loop() -> None:
    words = ["open", "the", "file"]
    model, vocabulary = small_model(words)
    texts = ["open the file, the FILE, the", "nothing known" * 0, "file"]

    bags = make_bags(count_words(vocabulary, texts, 5))
    for text, vector in zip(texts, model(bags, "query").tolist(), strict=True):
        total = [0.0] * 3
        for row, count in Counter([*vocabulary.rows(text)][:5]).items():
            weight = model.log_weights["query"][row].exp().item() * math.sqrt(count)
            total = [
                old + weight * new
                for old, new in zip(total, model.vectors[row].tolist(), strict=True)
            ]
        length = math.hypot(*total) or 1.0
        assert vector == pytest.approx([value / length for value in total], abs=1e-6)


def test_saved_vectors_and_weights_are_restored(tmp_path: Path) -> None:
    numbers = np.random.default_rng(4).standard_normal((2, 6, 3)).astype(np.float32)
    trained, restored = (WordVectors(vectors, vectors[:, 0]) for vectors in numbers)
    trained.save(tmp_path)
    restored.load(tmp_path)
    for name, weight in trained.state_dict().items():
        assert torch.equal(weight, restored.state_dict()[name])


def test_loss_equals_a_plain_loop(data: Path) -> None:
    pairs = [*PAIRS[:6], replace(PAIRS[0], queries=("another query for it",)), PAIRS[0]]
    recipe = read(data, dev=(), loop=LoopSettings(batch_size=8))
    model, vocabulary = small_model(sorted({word for pair in PAIRS for word in _words(pair)}))
    task = StaticTask(model, vocabulary, [pairs], recipe, Accelerator(cpu=True))
    batch = task.batch(0)
    loss = task.backward(batch)["loss"]

    queries = model(batch.queries, "query").tolist()
    passages = model(batch.passages, "passage").tolist()
    drawn = [pairs[row] for row in batch.rows]
    total = 0.0
    for one, other in ((queries, passages), (passages, queries)):
        for i, vector in enumerate(one):
            scores = {
                j: sum(a * b for a, b in zip(vector, candidate, strict=True)) / recipe.temperature
                for j, candidate in enumerate(other)
                if j == i
                or (
                    drawn[i].passage != drawn[j].passage
                    and drawn[i].queries[0] != drawn[j].queries[0]
                )
            }
            total += math.log(sum(map(math.exp, scores.values()))) - scores[i]
    assert loss == pytest.approx(total / 16, rel=1e-5)


def _words(pair: Pair) -> list[str]:
    return [*pair.queries[0].split(), "def", "return", "name"]


def test_gradients_equal_finite_differences(data: Path) -> None:
    recipe = read(data, dev=(), loop=LoopSettings(batch_size=8))
    model, vocabulary = small_model(["open", "close", "read", "file", "socket", "image"])
    task = StaticTask(model.double(), vocabulary, [PAIRS], recipe, Accelerator(cpu=True))
    batch = task.batch(0)
    double = batch._replace(queries=_double(batch.queries), passages=_double(batch.passages))
    task.backward(double)

    for parameter in model.parameters():
        assert parameter.grad is not None
        gradient = parameter.grad.clone()
        for position in np.ndindex(*parameter.shape):
            parameter.data[position] += 1e-2
            above = task.backward(double)["loss"]
            parameter.data[position] -= 2e-2
            below = task.backward(double)["loss"]
            parameter.data[position] += 1e-2
            assert float(gradient[position]) == pytest.approx((above - below) / 2e-2, abs=2e-3)


def _double(bags: Any) -> Any:
    return bags._replace(repeats=bags.repeats.double())


# -- batches -------------------------------------------------------------------------------------


def test_batches_hold_whole_groups_of_one_package(data: Path) -> None:
    schedule = make_schedule([PAIRS], read(data, loop=LoopSettings(batch_size=8)))
    rows = [schedule.rows(number) for number in range(schedule.batches_per_epoch)]
    assert sorted(np.concatenate(rows)) == list(range(40))
    for batch in rows:
        packages = Counter(PAIRS[row].group for row in batch)
        assert set(packages.values()) <= {4, 8}
        assert all(len({PAIRS[row].group for row in part}) == 1 for part in (batch[:4], batch[4:]))


@pytest.mark.parametrize(
    ("share", "passage", "left"),
    [
        (0.0, "abcdefgh", "abcdefgh"),
        (1.0, "abcdefgh", "defgh"),
        (1.0, "bcdefgh", "defgh"),
        (1.0, "abcdefg", "abcdefg"),  # four words would be left
        (1.0, "defgh", "defgh"),
    ],
)
def test_words_of_the_query_are_left_out_of_its_passage(
    share: float, passage: str, left: str
) -> None:
    counts = Counter(map(ord, passage))
    drop_shared(Counter(map(ord, "abcxxx")), counts, share, random.Random(1))
    assert "".join(map(chr, counts)) == left


def test_shared_words_are_left_out_as_often_as_the_recipe_says() -> None:
    rng = random.Random(1)
    kept = 0
    for _ in range(2_000):
        passage = Counter(range(20))
        drop_shared(Counter(range(5)), passage, 0.3, rng)
        kept += len(passage) - 15
    assert kept / 10_000 == pytest.approx(0.7, abs=0.02)


def test_a_batch_leaves_shared_words_out_of_passages_alone(data: Path) -> None:
    pair = Pair(("read a file",), "def read(path): open path and return its bytes")
    plain = read(data, dev=(), forms=Forms(), loop=LoopSettings(batch_size=2))
    model, vocabulary = small_model(
        ["read", "file", "open", "path", "return", "its", "bytes", "def"]
    )
    batches = []
    for share in (0.0, 1.0):
        recipe = replace(plain, shared_dropout=share)
        task = StaticTask(model, vocabulary, [[pair, pair]], recipe, Accelerator(cpu=True))
        batches.append(task.batch(0))
    words = [
        [vocabulary.words[row] for row in batch.passages.rows[: batch.passages.starts[1]]]
        for batch in batches
    ]
    assert words == [
        ["def", "read", "path", "open", "return", "its", "bytes"],
        ["def", "path", "open", "return", "its", "bytes"],
    ]
    assert torch.equal(batches[0].queries.rows, batches[1].queries.rows)


# -- whole runs ----------------------------------------------------------------------------------


def test_training_learns_the_pairs(data: Path) -> None:
    loop = LoopSettings(batch_size=8, steps=60, learning_rate=2e-2, every=30)
    directory = run(read(data, loop=loop), data / "out")
    rows = metrics_rows(data / "out" / CHECKPOINTS)
    assert rows[-1]["loss"] < rows[0]["loss"] / 2

    encoder = load_encoder(directory)
    assert isinstance(encoder, StaticEncoder)
    queries = encoder.encode([row["summary"] for row in ROWS], role="query")
    passages = encoder.encode([row["code"] for row in ROWS], role="passage")
    is_nearest = (queries @ passages.T).argmax(axis=1) == np.arange(40)
    assert is_nearest.mean() > 0.5

    settings = json.loads((directory / "encoder.json").read_text())
    assert settings["measures"]["dev same MRR@100"] > 0.5
    assert settings["base_model"] == "a tiny one"
    assert "a tiny one" in (directory / "README.md").read_text()


def test_an_interrupted_run_gives_the_same_encoder(data: Path) -> None:
    recipe = read(data)
    whole = run(recipe, data / "whole")
    with pytest.raises(KeyboardInterrupt):
        run(recipe, data / "resumed", stop_at=6)
    resumed = run(recipe, data / "resumed")

    assert load_encoder(whole).fingerprint == load_encoder(resumed).fingerprint
    assert metrics_rows(data / "whole" / CHECKPOINTS) == metrics_rows(
        data / "resumed" / CHECKPOINTS
    )


def test_an_export_unlike_the_model_is_refused(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, vocabulary = small_model(["return", "self", "the", "def", "if", "for"], dim=16)
    card = Card("tiny")
    before = export_static(model, vocabulary, data / "tiny", card, 64).fingerprint

    exact = WordVectors.quantized

    def damaged(self: WordVectors) -> Any:
        vectors, weights = exact(self)
        return -vectors, weights

    monkeypatch.setattr(WordVectors, "quantized", damaged)
    with pytest.raises(ExportRefused, match="Nothing was written"):
        export_static(model, vocabulary, data / "tiny", card, 64)
    assert load_encoder(data / "tiny").fingerprint == before


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("dim = 0", "dim must be"),
        ("group = 0", "group must be"),
        ("max_tokens = 4", "max_tokens must be"),
        ('teacher = "none"', "teacher: .*none does not exist"),
    ],
)
def test_invalid_recipes_are_named(data: Path, line: str, message: str) -> None:
    key = line.split()[0]
    kept = [old for old in RECIPE.splitlines() if not old.startswith(f"{key} =")]
    (data / "recipe.toml").write_text("\n".join([line, *kept]))
    with pytest.raises(Exception, match=message):
        read(data)


def test_names_and_measures_that_cannot_work_are_refused(data: Path) -> None:
    recipe = read(data)
    with pytest.raises(InvalidInput, match="'checkpoints' is that of a directory"):
        replace(recipe, name=CHECKPOINTS)
    with pytest.raises(InvalidInput, match="needs a transformer"):
        replace(recipe, dev=(replace(recipe.dev[0], measure="-loss"),))
    with pytest.raises(InvalidInput, match="Dev sets need different names"):
        replace(recipe, dev=recipe.dev * 2)
    with pytest.raises(InvalidInput, match="at least one"):
        replace(recipe, pairs=())


def test_sources_keep_their_weights(data: Path) -> None:
    source = PairSource("pairs", data / "pairs.jsonl", weight=0.5)
    recipe = read(data, pairs=(source,), loop=LoopSettings(batch_size=4), group=2)
    schedule = make_schedule([PAIRS], recipe)
    assert schedule.batches_per_epoch == 5


def test_the_command_trains_and_says_where(data: Path) -> None:
    files = ["--config", str(data / "recipe.toml"), "--out", str(data / "out")]
    shown = CliRunner().invoke(command_line, ["train", "static", "--cpu", *files])
    assert shown.exit_code == 0, shown.output
    assert "tiny: written" in " ".join(shown.output.split())
    assert load_encoder(data / "out" / "tiny").dim == 4


def test_the_released_recipe_is_valid(tmp_path: Path) -> None:
    recipe = load_without_data(ROOT / "configs" / "static-code.toml", StaticRecipe, tmp_path)
    assert recipe.name == STATIC_ENCODER.name
    assert recipe.teacher == TRANSFORMER_ENCODER
    assert recipe.dim == load_encoder(STATIC_ENCODER).dim
