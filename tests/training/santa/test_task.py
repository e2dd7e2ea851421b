"""A stage's batches, masks and losses, and a teacher's ranking, on tiny random models."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from scipy.special import softmax
from sentence_transformers import SentenceTransformer
from torch import Tensor

from purlin.index.errors import InvalidInput
from purlin.index.records import Role
from purlin.training.data.pairs.augment import Forms
from purlin.training.data.pairs.pair import Pair
from purlin.training.encoded import RoleEncoder
from purlin.training.exporting.encoder import export_encoder
from purlin.training.exporting.model_card import Card
from purlin.training.loop.devices import make_accelerator
from purlin.training.loop.run import train
from purlin.training.models.text_model import load_text_model
from purlin.training.santa.recipe import Stage, StageTeacher
from purlin.training.santa.task import SantaTask
from tests.support.code_pairs import PAIRS, VERBS, pair_of, spaced, tiny
from tests.support.santa import LOOP, same, task_of, words
from tests.support.training_runs import metrics_rows

pytestmark = pytest.mark.usefixtures("graphs_once")


# -- batches ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mask", ["entity", "span"])
def test_a_batch_depends_on_number_and_seed_only(bert: Path, tmp_path: Path, mask: Any) -> None:
    stage = Stage(name="a", loop=LOOP, mep=1.0, mask=mask)
    task, again, other_seed = (task_of(bert, tmp_path, stage, seed=seed) for seed in (1, 1, 2))
    again.batch(7)  # earlier batches make no difference
    names = ("rows", "queries", "passages", "masked", "query_texts", "passage_texts")
    assert all(same(getattr(task.batch(3), name), getattr(again.batch(3), name)) for name in names)
    assert not same(task.batch(3).rows, other_seed.batch(3).rows)
    assert not same(task.batch(3).query_texts, task.batch(4).query_texts)


def test_batches_hold_the_texts_of_their_rows(bert: Path, tmp_path: Path) -> None:
    task = task_of(bert, tmp_path, Stage(name="a", loop=LOOP))
    queries_by_row: dict[int, set[str]] = {}
    for number in range(10 * task.batches_per_epoch):
        batch = task.batch(number)
        assert words(task, batch.passages[0]) == [spaced(PAIRS[row].passage) for row in batch.rows]
        for row, query in zip(batch.rows.tolist(), words(task, batch.queries[0]), strict=True):
            queries_by_row.setdefault(row, set()).add(query)
    assert queries_by_row == {row: set(pair.queries) for row, pair in enumerate(PAIRS)}


def test_batches_do_not_change_the_models_tokenizer(bert: Path, tmp_path: Path) -> None:
    """Dev sets are encoded while a batch is drawn: a shared limit would cut their texts."""
    task = task_of(bert, tmp_path, Stage(name="a", loop=LOOP, mep=1.0))
    task.model.tokenizer("read", truncation=True, max_length=5)
    task.batch(0)
    assert task.model.tokenizer.backend_tokenizer.truncation["max_length"] == 5


# -- masking ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("base", "name"), [("bert", "[unused{}]"), ("t5", "<extra_id_{}>")])
def test_an_entity_has_one_sentinel_everywhere(
    bases: dict[str, Path], tmp_path: Path, base: str, name: str
) -> None:
    pairs = [pair_of("read", "file"), pair_of("copy", "map")]
    stage = Stage(name="a", loop=replace(LOOP, batch_size=2), mep=1.0)
    task = task_of(bases[base], tmp_path, stage, pairs)
    batch = task.batch(0)

    assert batch.masked is not None

    s = [name.format(number) for number in range(4)]
    masked = words(task, batch.masked[0])
    assert masked == [f"def {s[0]} ( {s[1]} , {s[2]} ): return {s[1]} . {s[3]} ( {s[2]} )"] * 2
    targets = batch.masked[2]
    for row, target in zip(batch.rows.tolist(), words(task, targets.clamp(min=0)), strict=True):
        verb, noun = ("read", "file") if row == 0 else ("copy", "map")
        assert target == f"{s[0]} {verb}_{noun} {s[1]} {noun} {s[2]} mode {s[3]} {verb}"


def hidden(task: SantaTask) -> list[int]:
    """Count the sentinels in each target of the first batch."""
    batch = task.batch(0)
    assert batch.masked is not None
    spare = set(
        task.model.tokenizer.convert_tokens_to_ids([f"[unused{number}]" for number in range(20)])
    )
    return [sum(token in spare for token in row) for row in batch.masked[2].tolist()]


def test_all_entities_are_masked(bert: Path, tmp_path: Path) -> None:
    assert hidden(task_of(bert, tmp_path, Stage(name="a", loop=LOOP, mep=1.0))) == [4] * 8


def test_spans_are_masked_without_entities(bert: Path, tmp_path: Path) -> None:
    stage = Stage(name="a", loop=LOOP, mep=1.0, mask="span")
    assert hidden(task_of(bert, tmp_path, stage)) == [1] * 8  # 15 % of 16 words, in runs of three
    prose = [replace(pair, kind="reference") for pair in PAIRS]
    assert hidden(task_of(bert, tmp_path, replace(stage, mask="entity"), prose)) == [1] * 8


def test_pairs_without_anything_to_mask_train(bert: Path, tmp_path: Path) -> None:
    pairs = [Pair((f"{verb} the file at once",), verb, "reference") for verb in VERBS]
    task = task_of(bert, tmp_path, Stage(name="a", loop=LOOP, mep=1.0), pairs)
    losses = task.backward(task.batch(0))
    assert losses["mep"] == 0.0
    assert losses["loss"] == losses["sda"] > 0


# -- the loss ---------------------------------------------------------------------------------------


def vectors_of(task: SantaTask, texts: tuple[Tensor, Tensor]) -> np.ndarray[Any, Any]:
    with torch.no_grad():
        return task.model.vectors(*texts).double().numpy()


def test_copies_are_no_negatives(bert: Path, tmp_path: Path) -> None:
    """Compare the loss with a loop over pairs.

    Pairs 0 and 1 share a passage, 2 and 3 a query; 0's passage is a labelled negative as well.
    """
    pairs = [
        Pair((f"{verb} the file",), pair_of(verb, "file").passage, "code", "python")
        for verb in VERBS[:6]
    ]
    pairs[1] = replace(pairs[1], passage=pairs[0].passage)
    pairs[3] = replace(pairs[3], queries=pairs[2].queries)
    labelled = pair_of("find", "map").passage
    pairs = [
        replace(pair, negatives=(pairs[0].passage if row == 5 else labelled,))
        for row, pair in enumerate(pairs)
    ]
    stage = Stage(name="a", loop=replace(LOOP, batch_size=6), hard_negatives=1, temperature=0.1)
    task = task_of(bert, tmp_path, stage, pairs)
    batch = task.batch(0)
    queries, passages = vectors_of(task, batch.queries), vectors_of(task, batch.passages)
    texts = [pairs[row].passage for row in batch.rows] + [
        pairs[row].negatives[0] for row in batch.rows
    ]
    losses, left_out = [], 0
    for number, row in enumerate(batch.rows):
        scores = []
        for column, text in enumerate(texts):
            same_passage = text == pairs[row].passage
            same_query = column < 6 and pairs[batch.rows[column]].queries == pairs[row].queries
            if column == number or not (same_passage or same_query):
                scores.append(queries[number] @ passages[column] / 0.1)
            else:
                left_out += 1
        losses.append(np.log(np.exp(scores).sum()) - queries[number] @ passages[number] / 0.1)

    assert left_out == 6  # 0 and 1 each other and 5's negative, 2 and 3 each other
    assert task.backward(batch)["sda"] == pytest.approx(np.mean(losses), rel=1e-5)


def test_copies_are_recognized_in_any_form(bert: Path, tmp_path: Path) -> None:
    pairs = [replace(pair, comment="Does so at once.") for pair in PAIRS]
    plain = task_of(bert, tmp_path, Stage(name="a", loop=LOOP), pairs).batch(0)
    drawn = task_of(
        bert, tmp_path, Stage(name="a", loop=LOOP, forms=Forms(whole_comment=0.5, typed=0.5)), pairs
    ).batch(0)

    assert same(plain.rows, drawn.rows)
    assert plain.passages[0].shape != drawn.passages[0].shape
    assert same(plain.passage_texts, drawn.passage_texts)
    assert same(plain.query_texts, drawn.query_texts)


@pytest.mark.parametrize("base", ["bert", "t5"])
def test_half_precision_gives_nearly_the_same_loss(
    bases: dict[str, Path], tmp_path: Path, base: str
) -> None:
    stage = Stage(name="a", loop=LOOP, mep=1.0, temperature=0.1)
    exact, half = (task_of(bases[base], tmp_path, stage) for _ in range(2))
    expected = exact.backward(exact.batch(0))
    AcceleratorState._reset_state(reset_partial_state=True)
    half.accelerator = make_accelerator(replace(LOOP, precision="bf16"), cpu=True)
    losses = half.backward(half.batch(0))

    assert losses == pytest.approx(expected, rel=0.05)
    assert losses != expected
    assert all(gradient.dtype == torch.float32 for gradient in gradients(half).values())


def gradients(task: SantaTask) -> dict[str, Tensor]:
    return {
        name: weight.grad
        for name, weight in task.model.named_parameters()
        if weight.grad is not None
    }


@pytest.mark.parametrize("base", ["bert", "t5"])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"mep": 2.0},
        {"mep": 1.0, "mask": "span", "hard_negatives": 1},
        {"teacher": 2.0, "hard_negatives": 1},
        {"sda": 0.0, "mep": 1.0, "teacher": 1.0},
    ],
)
def test_computing_in_parts_gives_the_same_gradients(
    bases: dict[str, Path], teacher_base: Path, tmp_path: Path, base: str, changes: dict[str, Any]
) -> None:
    pairs = [replace(pair, negatives=(PAIRS[0].passage,)) for pair in PAIRS]
    if weight := changes.get("teacher"):
        changes = {**changes, "teacher": StageTeacher(base=teacher_base, weight=weight)}
    stage = Stage(name="a", loop=LOOP, temperature=0.1, **changes)
    whole, parted = (
        task_of(bases[base], tmp_path, each_stage, pairs)
        for each_stage in (stage, replace(stage, part=3))
    )
    expected, losses = (task.backward(task.batch(1)) for task in (whole, parted))

    assert losses == pytest.approx(expected, rel=1e-5)
    assert losses["loss"] == pytest.approx(
        sum(value for name, value in losses.items() if name != "loss")
    )
    assert gradients(parted).keys() == gradients(whole).keys()
    for name, gradient in gradients(whole).items():
        torch.testing.assert_close(gradients(parted)[name], gradient, rtol=1e-4, atol=1e-6)


# -- a teacher's ranking ----------------------------------------------------------------------------


@pytest.fixture
def teacher_base(bert: Path, tmp_path: Path) -> Path:
    """An encoder with other weights than the student's, as a checkpoint."""
    directory = tmp_path / "teacher"
    teacher = tiny(bert, dropout=0.0)
    torch.manual_seed(8)
    with torch.no_grad():
        for weight in teacher.parameters():
            weight.add_(0.2 * torch.randn_like(weight))

    teacher.save(directory)
    return directory


@pytest.mark.parametrize("exported", [False, True])
def test_the_teachers_loss_is_the_divergence_of_its_ranking(
    bert: Path, teacher_base: Path, tmp_path: Path, exported: bool
) -> None:
    directory = teacher_base
    if exported:
        directory = tmp_path / "exported"
        export_encoder(teacher_base, directory, Card("teacher"), quantization="none")
    teacher = StageTeacher(base=directory, weight=3.0, temperature=0.2)
    pairs = [replace(pair, negatives=(PAIRS[0].passage,)) for pair in PAIRS]
    stage = Stage(name="a", loop=LOOP, temperature=0.1, hard_negatives=1, teacher=teacher)
    task = task_of(bert, tmp_path, stage, pairs)
    batch = task.batch(1)

    assert batch.texts is not None
    queries, passages = batch.texts
    own = SentenceTransformer(str(teacher_base), device="cpu")
    teacher_queries, teacher_passages = (
        own.encode(texts, normalize_embeddings=True).tolist() for texts in (queries, passages)
    )
    student_queries, student_passages = (
        vectors_of(task, texts).tolist() for texts in (batch.queries, batch.passages)
    )

    total = 0.0
    for teacher_query, student_query in zip(teacher_queries, student_queries, strict=True):
        p = softmax([np.dot(teacher_query, each) / 0.2 for each in teacher_passages])
        q = softmax([np.dot(student_query, each) / 0.1 for each in student_passages])
        total += sum(a * math.log(a / b) for a, b in zip(p, q, strict=True))
    losses = task.backward(batch)
    assert losses["teacher"] == pytest.approx(3.0 * total / len(queries), rel=1e-3)
    assert losses["loss"] == pytest.approx(losses["sda"] + losses["teacher"])


def test_a_student_learns_its_teachers_ranking_without_labels(
    bert: Path, teacher_base: Path, tmp_path: Path
) -> None:
    loop = replace(LOOP, steps=25, learning_rate=1e-2, every=1000)
    # Cosines of a random encoder are close to each other.
    teacher = StageTeacher(base=teacher_base, temperature=0.005)
    stage = Stage(name="a", loop=loop, sda=0.0, temperature=0.005, teacher=teacher)
    task = task_of(bert, tmp_path, stage)
    train(task, loop, tmp_path, task.accelerator, seed=1, recipe={})

    curve = metrics_rows(tmp_path)
    assert "sda" not in curve[0]
    assert curve[-1]["teacher"] < 0.5 * curve[0]["teacher"]


def test_a_query_is_encoded_as_a_query_by_the_teacher(
    bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    roles = list[str]()

    def knowing(directory: Path, accelerator: Accelerator, **options: Any) -> RoleEncoder:
        def encode(texts: Sequence[str], role: Role) -> np.ndarray[Any, Any]:
            roles.append(role)
            return np.ones((len(texts), 1), np.float32)

        return encode

    monkeypatch.setattr("purlin.training.santa.task.role_encoder", knowing)
    stage = Stage(name="a", loop=LOOP, teacher=StageTeacher(base=bert))
    task = task_of(bert, tmp_path, stage)
    task.backward(task.batch(0))
    assert roles == ["query", "passage"]


# -- training ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("base", "changes"),
    [
        ("bert", {"mep": 1.0}),
        ("bert", {"sda": 0.0, "mep": 1.0}),
        ("t5", {"mep": 1.0, "mask": "span", "part": 4}),
    ],
)
def test_training_lowers_every_loss(
    bases: dict[str, Path], tmp_path: Path, base: str, changes: dict[str, Any]
) -> None:
    loop = replace(LOOP, steps=25, learning_rate=1e-2, every=1000)
    stage = Stage(name="a", loop=loop, temperature=0.1, **changes)
    task = task_of(bases[base], tmp_path, stage)
    train(task, loop, tmp_path, task.accelerator, seed=1, recipe={})
    curve = metrics_rows(tmp_path)

    for name in {"sda", "mep"} & curve[0].keys():
        assert curve[-1][name] < 0.8 * curve[0][name], name


def test_a_decoder_trains_alone_on_a_frozen_encoder(bert: Path, tmp_path: Path) -> None:
    stage = Stage(name="a", loop=replace(LOOP, steps=8), sda=0.0, mep=1.0, trains="decoder")
    task = task_of(bert, tmp_path, stage)
    before = {name: weight.clone() for name, weight in task.model.state_dict().items()}
    train(task, stage.loop, tmp_path, task.accelerator, seed=1, recipe={})

    after = task.model.state_dict()
    changed = {name for name in after if not torch.equal(after[name], before[name])}
    assert changed
    assert all(name.startswith("decoder.") for name in changed)
    losses = [row["mep"] for row in metrics_rows(tmp_path)]
    assert losses[-1] < losses[0]


def test_the_next_stage_starts_from_the_trained_decoder(bert: Path, tmp_path: Path) -> None:
    alone = Stage(name="a", loop=replace(LOOP, steps=1), sda=0.0, mep=1.0, trains="decoder")
    first = task_of(bert, tmp_path, alone)
    checkpoint = train(first, alone.loop, tmp_path, first.accelerator, seed=1, recipe={})

    second = load_text_model(first.model.settings, checkpoint)
    for name, weight in first.model.state_dict().items():
        assert torch.equal(second.state_dict()[name], weight)
    assert all(weight.requires_grad for weight in second.parameters())


def test_a_stage_without_a_decoder_to_train_is_refused(
    bases: dict[str, Path], tmp_path: Path
) -> None:
    with pytest.raises(InvalidInput, match="set sda = 0 and mep above 0"):
        Stage(name="a", mep=1.0, trains="decoder")
    stage = Stage(name="a", loop=LOOP, sda=0.0, mep=1.0, trains="decoder")
    with pytest.raises(InvalidInput, match="a T5 predicts with its pretrained one"):
        task_of(bases["t5"], tmp_path, stage)
