"""Batches of the student, and its steps, on a tiny random model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from purlin.index.encoder import Vectors
from purlin.index.errors import InvalidInput
from purlin.training.models.encoding import encode
from purlin.training.models.text_model import TextModel
from purlin.training.pesco.losses import Loss, matching_loss
from purlin.training.pesco.rounds import SelfTraining
from purlin.training.pesco.student import PescoBatch, PescoTask, RoundTexts
from purlin.training.pesco.texts import split_sentences
from tests.training.pesco.topics import RIGHT, TEXT_POOL, TEXTS, TOPIC_NAMES, recipe_of, training_of

pytestmark = pytest.mark.usefixtures("one_process", "graphs_once")


def task_of(base: Path, out: Path, rows: list[int], **student: Any) -> PescoTask:
    recipe = recipe_of(base, **student)
    training = training_of(recipe, out)
    text_model = training.base_model()
    labels = np.array([RIGHT[TEXTS.index(text)] for text in TEXT_POOL.texts])
    rng = np.random.default_rng(1)
    prompts = training.prompt_vectors(text_model)
    keys = training._key_sentences(text_model, np.array(rows), labels, prompts, rng)
    return student_task(training, text_model, labels, np.array(rows), keys)


def student_task(
    training: SelfTraining, text_model: TextModel, labels: Any, rows: Any, keys: Any
) -> PescoTask:
    data = RoundTexts(training.pool.texts, training.labels, labels, rows, keys)
    return PescoTask(text_model, training.recipe, data, training.accelerator, seed=1)


def vectors_of(task: PescoTask, texts: list[str]) -> Vectors:
    most = task.recipe.model.max_passage_tokens
    return encode(task.model, texts, most, task.accelerator)


def words(task: PescoTask, ids: Tensor) -> list[str]:
    decode = task.model.tokenizer.convert_ids_to_tokens
    return [
        " ".join(word for word in decode(row) if word not in ("[CLS]", "[SEP]", "[PAD]"))
        for row in ids.tolist()
    ]


def shown(task: PescoTask, batch: PescoBatch) -> tuple[list[str], list[str], list[str]]:
    """The batch's texts, keys and prompts."""
    rows = words(task, batch.ids)
    n, keys = len(batch.rows), int(batch.has_key.sum())
    assert len(rows) == n + keys + len(batch.classes)
    return rows[:n], rows[n : n + keys], rows[n + keys :]


def spaced(text: str) -> str:
    return text.replace(".", " .")


def test_batch_removes_key_sentences(base: Path, tmp_path: Path) -> None:
    task = task_of(base, tmp_path, list(range(8)))
    batch = task.batch(0)
    texts, batch_keys, _ = shown(task, batch)
    keys = iter(batch_keys)
    for row, text, has_key in zip(batch.rows.tolist(), texts, batch.has_key, strict=True):
        parts = [spaced(part) for part in split_sentences(TEXT_POOL.texts[row])]
        assert bool(has_key) == (len(parts) > 1)
        if not has_key:
            assert text == parts[0]
            continue

        key = next(keys)
        assert key in parts
        assert text == " ".join(part for part in parts if part != key)
    assert not list(keys)
    assert batch.labels.tolist() == task.data.labels[batch.rows].tolist()


def test_key_sentence_is_nearest_to_prompts(base: Path, tmp_path: Path) -> None:
    task = task_of(base, tmp_path, list(range(12)))
    for row, key in zip(task.data.rows.tolist(), task.data.keys.tolist(), strict=True):
        parts, topic = split_sentences(TEXT_POOL.texts[row]), TOPIC_NAMES[task.data.labels[row]]
        vectors = vectors_of(task, [f"about {topic}", f"the {topic}", *parts])
        scores = (vectors[2:] @ vectors[:2].T).mean(axis=1)
        assert key == (int(np.argmax(scores)) if len(parts) > 1 else -1)


def test_random_keys_and_unaugmented_texts(base: Path, tmp_path: Path) -> None:
    texts = TEXT_POOL.texts
    rows = [row for row, text in enumerate(texts) if len(split_sentences(text)) == 3]
    salient, drawn = (task_of(base, tmp_path, rows, key=key) for key in ("salient", "random"))

    assert salient.data.keys.tolist() != drawn.data.keys.tolist()
    assert set(drawn.data.keys.tolist()) == {0, 1, 2}
    whole = task_of(base, tmp_path, rows, augment=False).batch(0)
    assert shown(salient, whole)[0] == [spaced(texts[row]) for row in whole.rows.tolist()]
    assert whole.has_key.all()


def test_batches_depend_on_their_number(base: Path, tmp_path: Path) -> None:
    task = task_of(base, tmp_path, list(range(16)))
    assert task.batches_per_epoch == 2
    first, second = task.batch(0), task.batch(1)

    assert sorted([*first.rows.tolist(), *second.rows.tolist()]) == list(range(16))
    again = task.batch(0)
    assert torch.equal(again.ids, first.ids)
    assert task.batch(2).rows.tolist() != first.rows.tolist()
    prompts = {text for number in range(20) for text in shown(task, task.batch(number))[2]}
    assert prompts == {"about river", "the river", "about music", "the music"}


def test_candidates_contain_labels_of_the_batch(base: Path, tmp_path: Path) -> None:
    training = training_of(
        recipe_of(base, candidates=5), tmp_path, labels=tuple(f"label {n}" for n in range(30))
    )
    labels = np.arange(len(TEXT_POOL.texts)) % 3 + 7
    task = student_task(training, training.base_model(), labels, np.arange(16), np.full(16, -1))
    classes = task.batch(0).classes.tolist()

    assert {7, 8, 9} <= set(classes)
    assert len(set(classes)) == 5


def test_lct_needs_several_sentences(base: Path, tmp_path: Path) -> None:
    training = training_of(recipe_of(base, loss="lct"), tmp_path)
    with pytest.raises(InvalidInput, match="second sentence"):
        student_task(
            training, training.base_model(), np.zeros(60, np.int64), np.arange(8), np.full(8, -1)
        )


@pytest.mark.parametrize("loss", ["plct", "lct", "pcl", "lct+pcl"])
def test_batch_loss_matches_separate_encoding(base: Path, tmp_path: Path, loss: Loss) -> None:
    task = task_of(base, tmp_path, list(range(24)), loss=loss)
    batch, together = task.batch(0), task_of(base, tmp_path, list(range(24))).batch(0)
    parts = shown(task, together)

    assert words(task, batch.ids) == [
        *parts[0],
        *(parts[1] if loss != "pcl" else ()),
        *(parts[2] if loss != "lct" else ()),
    ]
    vectors = [torch.from_numpy(vectors_of(task, [text]))[0] for part in parts for text in part]
    n, k = len(parts[0]), len(parts[1])
    texts, keys, prompts = torch.stack(vectors).split([n, k, len(vectors) - n - k])  # type: ignore[no-untyped-call]
    expected = matching_loss(
        texts, keys, prompts, batch.labels, batch.classes, batch.has_key, kind=loss
    )
    assert task.backward(batch)["loss"] == pytest.approx(float(expected), rel=0.02)


@pytest.mark.parametrize("loss", ["plct", "lct", "pcl", "lct+pcl"])
def test_steps_lower_the_loss(base: Path, tmp_path: Path, loss: Loss) -> None:
    task = task_of(base, tmp_path, list(range(24)), loss=loss)
    batch = task.batch(0)
    trained = [weight for weight in task.model.parameters() if weight.requires_grad]
    optimizer = torch.optim.Adam(trained, lr=1e-3)
    values = []

    for _ in range(8):
        values.append(task.backward(batch)["loss"])
        optimizer.step()
        optimizer.zero_grad()
    assert values[-1] < values[0]
