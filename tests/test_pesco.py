"""PESCO's losses, student, rounds and command, on a tiny random model."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from accelerate.state import AcceleratorState
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

import purlin
from index import builds
from index.builds import CLASSIFIERS
from index.classify.trained import TrainedClassifier
from index.errors import Busy, Damaged, InvalidInput, PurlinError, StorageFailed
from tests.test_pesco_labels import blobs
from tests.tiny import SPECIAL, save_bert
from tests.training_runs import largest_file
from training import export
from training.export import ExportRefused
from training.loop import LoopSettings, make_accelerator
from training.model import ModelSettings
from training.pesco import self_training
from training.pesco.losses import Loss, matching, several
from training.pesco.report import page
from training.pesco.self_training import (
    RUN,
    TAUGHT,
    Batch,
    Course,
    Export,
    PescoTask,
    Recipe,
    Student,
    distilled,
    left_out,
)
from training.pesco.teacher import Check, Limits, Teacher, head, offsets
from training.pesco.texts import Labelled, Pool, sentences
from training.santa import averaged

ROOT = Path(__file__).parent.parent
TOPICS = {
    "river": "water bank boat bridge flow fish".split(),
    "music": "song album guitar band voice concert".split(),
}
LABELS = tuple(TOPICS)
COMMON = "the a of and in is it was about this text new old".split()


def made(count: int, seed: int = 1) -> tuple[list[str], list[int]]:
    """Texts of one to three sentences with words of their topic, and sometimes its name."""
    rng = np.random.default_rng(seed)
    texts, labels = [], []
    for number in range(count):
        label = number % 2
        own = [*TOPICS[LABELS[label]], LABELS[label], LABELS[label]]
        parts = [
            " ".join([*rng.choice(COMMON, 2), *rng.choice(own, 3)]) for _ in range(1 + number % 3)
        ]
        texts.append(". ".join(parts) + ".")
        labels.append(label)
    return texts, labels


TEXTS, RIGHT = made(60)
POOL = Pool(tuple(dict.fromkeys(TEXTS)))
LOOP = LoopSettings(batch_size=8, learning_rate=1e-3, every=100, precision="fp32")


pytestmark = pytest.mark.usefixtures("one_process")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random BERT that knows all words of TEXTS: mean-pooled, it is much like a bag of words."""
    words = [*SPECIAL, ".", *COMMON, *TOPICS["river"], *TOPICS["music"], *LABELS]
    size = {
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 16,
    }
    return save_bert(tmp_path_factory.mktemp("base"), words, max_position_embeddings=64, **size)


def recipe_of(base: Path, **student: Any) -> Recipe:
    known = {"rounds": 2, "first": 0.3, "limit": 0.6, "converged": 0.0, "loop": LOOP, **student}
    return Recipe(
        templates=("about {label}", "the {label}"),
        model=ModelSettings(base=str(base), dropout=0.0, max_passage_tokens=48),
        student=Student(**known),
        check=Limits(kept=0.0, halves=2.0, spread=0.0),
        export=Export(max_tokens=48, quantization="none"),
    )


def course_of(
    recipe: Recipe, out: Path, pool: Pool = POOL, labels: tuple[str, ...] = LABELS
) -> Course:
    return Course(recipe, pool, labels, out, make_accelerator(LOOP, cpu=True), None)


def quiet(name: str) -> Callable[[int, int, Mapping[str, float]], None]:
    return lambda step, total, values: None


def run(recipe: Recipe, out: Path, home: Path, **changes: Any) -> Path:
    known = {
        "name": "topics",
        "progress": quiet,
        "say": lambda line: None,
        "cpu": True,
        "labels": LABELS,
        **changes,
    }
    pool, labels = known.pop("pool", POOL), known.pop("labels")
    return self_training.run(recipe, pool, labels, out=out, home=home, **known)


# -- losses ----------------------------------------------------------------------------------------------------------


def by_hand(
    texts: Tensor,
    keys: Tensor,
    prompts: Tensor,
    labels: list[int],
    has_key: list[bool],
    kind: str,
    gamma: float,
) -> float:
    """The equations, text by text."""
    key_of = {i: keys[n] for n, i in enumerate(i for i, there in enumerate(has_key) if there)}
    losses = []
    for i, text in enumerate(texts):
        same = [key for j, key in key_of.items() if labels[j] == labels[i]]
        groups = {
            "lct": (same, list(key_of.values())),
            "pcl": ([prompts[labels[i]]], list(prompts)),
            "plct": ([*same, prompts[labels[i]]], [*key_of.values(), *prompts]),
        }
        loss = 0.0
        for part in kind.split("+"):
            if part == "lct" and i not in key_of:
                continue
            positives, candidates = groups["pcl" if i not in key_of else part]
            below = sum(np.exp(float(text @ m) / gamma) for m in candidates)
            loss -= np.mean([np.log(np.exp(float(text @ a) / gamma) / below) for a in positives])
        losses.append(loss)
    if kind == "pcl" or kind == "plct":
        return float(np.mean(losses))
    alone = "pcl" in kind
    with_keys = [loss for i, loss in enumerate(losses) if i in key_of]
    if not alone:
        return float(sum(with_keys) / max(1, len(with_keys)))
    pcl = by_hand(texts, keys, prompts, labels, has_key, "pcl", gamma)
    return pcl + by_hand(texts, keys, prompts, labels, has_key, "lct", gamma)


@settings(deadline=None)
@given(
    st.sampled_from(["plct", "lct", "pcl", "lct+pcl"]),
    st.lists(st.tuples(st.integers(0, 2), st.booleans()), min_size=1, max_size=6),
    st.sampled_from([0.07, 1.0]),
    st.integers(0, 1000),
)
def test_losses_are_those_of_the_equations(
    kind: Loss, batch: list[tuple[int, bool]], gamma: float, seed: int
) -> None:
    torch.manual_seed(seed)
    labels, has_key = map(list, zip(*batch, strict=True))
    texts, prompts = (
        F.normalize(torch.randn(len(batch), 5), dim=1),
        F.normalize(torch.randn(3, 5), dim=1),
    )
    keys = F.normalize(torch.randn(sum(has_key), 5), dim=1).reshape(-1, 5)
    order = torch.tensor([2, 0, 1])
    found = matching(
        texts,
        keys,
        prompts[order],
        torch.tensor(labels),
        order,
        torch.tensor(has_key),
        kind=kind,
        temperature=gamma,
    )
    assert float(found) == pytest.approx(
        by_hand(texts, keys, prompts, labels, has_key, kind, gamma), abs=1e-4
    )


def test_several_positives_share_the_loss() -> None:
    scores = torch.tensor([[1.0, 2.0, 3.0]], requires_grad=True)
    loss = several(scores, torch.tensor([[True, False, True]]))
    logs = scores.detach().log_softmax(1)[0]
    assert float(loss.detach()) == pytest.approx(-float(logs[0] + logs[2]) / 2)
    loss.sum().backward()  # type: ignore[no-untyped-call]
    assert scores.grad is not None
    assert torch.isfinite(scores.grad).all()


# -- the student's batches -------------------------------------------------------------------------------------------


def task_of(base: Path, out: Path, rows: list[int], **student: Any) -> PescoTask:
    recipe = recipe_of(base, **student)
    course = course_of(recipe, out)
    text_model = course.base()
    labels = np.array([RIGHT[TEXTS.index(text)] for text in POOL.texts])
    rng = np.random.default_rng(1)
    keys = course._keys(text_model, np.array(rows), labels, course.prompts(text_model), rng)
    return PescoTask(text_model, course, np.array(rows), labels, keys, seed=1)


def words(task: PescoTask, ids: Tensor) -> list[str]:
    decode = task.model.tokenizer.convert_ids_to_tokens
    return [
        " ".join(word for word in decode(row) if word not in ("[CLS]", "[SEP]", "[PAD]"))
        for row in ids.tolist()
    ]


def shown(task: PescoTask, batch: Batch) -> tuple[list[str], list[str], list[str]]:
    """The batch's texts, keys and prompts."""
    found = words(task, batch.ids)
    n, keys = len(batch.rows), int(batch.has_key.sum())
    assert len(found) == n + keys + len(batch.classes)
    return found[:n], found[n : n + keys], found[n + keys :]


def spaced(text: str) -> str:
    return text.replace(".", " .")


def test_the_student_sees_texts_without_their_key_sentences(base: Path, tmp_path: Path) -> None:
    task = task_of(base, tmp_path, list(range(8)))
    batch = task.batch(0)
    texts, found, _ = shown(task, batch)
    keys = iter(found)
    for row, text, has_key in zip(batch.rows.tolist(), texts, batch.has_key, strict=True):
        parts = [spaced(part) for part in sentences(POOL.texts[row])]
        assert bool(has_key) == (len(parts) > 1)
        if not has_key:
            assert text == parts[0]  # one sentence: nothing to take out, and no key
            continue
        key = next(keys)
        assert key in parts
        assert text == " ".join(part for part in parts if part != key)
    assert not list(keys)
    assert batch.labels.tolist() == task.labels[batch.rows].tolist()


def test_the_key_sentence_is_the_one_nearest_to_the_labels_prompts(
    base: Path, tmp_path: Path
) -> None:
    task = task_of(base, tmp_path, list(range(12)))
    course, text_model = task.course, task.model
    for row, key in zip(task.rows.tolist(), task.keys.tolist(), strict=True):
        parts = sentences(POOL.texts[row])
        scores = []
        for part in parts:
            filled = [f"about {LABELS[task.labels[row]]}", f"the {LABELS[task.labels[row]]}"]
            vectors = course.vectors(text_model, [part, *filled])
            scores.append(float(np.mean([vectors[0] @ vectors[1], vectors[0] @ vectors[2]])))
        assert key == (int(np.argmax(scores)) if len(parts) > 1 else -1)


def test_random_keys_and_no_augmentation(base: Path, tmp_path: Path) -> None:
    rows = [row for row in range(len(POOL.texts)) if len(sentences(POOL.texts[row])) == 3]
    salient, drawn = (task_of(base, tmp_path, rows, key=key) for key in ("salient", "random"))
    assert salient.keys.tolist() != drawn.keys.tolist()
    assert set(drawn.keys.tolist()) == {0, 1, 2}
    whole = task_of(base, tmp_path, rows, augment=False).batch(0)
    assert shown(salient, whole)[0] == [spaced(POOL.texts[row]) for row in whole.rows.tolist()]
    assert whole.has_key.all()


def test_batches_follow_from_their_number(base: Path, tmp_path: Path) -> None:
    task = task_of(base, tmp_path, list(range(16)))
    assert task.batches_per_epoch() == 2
    one, other = task.batch(0), task.batch(1)
    assert sorted([*one.rows.tolist(), *other.rows.tolist()]) == list(range(16))
    again = task.batch(0)
    assert torch.equal(again.ids, one.ids)
    assert task.batch(2).rows.tolist() != one.rows.tolist()
    prompts = {text for number in range(20) for text in shown(task, task.batch(number))[2]}
    assert prompts == {"about river", "the river", "about music", "the music"}


def test_of_many_labels_those_of_the_batch_and_some_others_are_candidates(
    base: Path, tmp_path: Path
) -> None:
    course = course_of(
        recipe_of(base, candidates=5), tmp_path, labels=tuple(f"label {n}" for n in range(30))
    )
    labels = np.arange(len(POOL.texts)) % 3 + 7
    task = PescoTask(course.base(), course, np.arange(16), labels, np.full(16, -1), seed=1)
    classes = task.batch(0).classes.tolist()
    assert {7, 8, 9} <= set(classes)
    assert len(set(classes)) == 5


def test_lct_needs_texts_of_several_sentences(base: Path, tmp_path: Path) -> None:
    course = course_of(recipe_of(base, loss="lct"), tmp_path)
    with pytest.raises(InvalidInput, match="second sentence"):
        PescoTask(
            course.base(), course, np.arange(8), np.zeros(60, np.int64), np.full(8, -1), seed=1
        )


@pytest.mark.parametrize("loss", ["plct", "lct", "pcl", "lct+pcl"])
def test_the_loss_is_that_of_texts_keys_and_prompts_encoded_alone(
    base: Path, tmp_path: Path, loss: Loss
) -> None:
    task = task_of(base, tmp_path, list(range(24)), loss=loss)
    batch, together = task.batch(0), task_of(base, tmp_path, list(range(24))).batch(0)
    parts = shown(task, together)
    assert words(task, batch.ids) == [
        *parts[0],
        *(parts[1] if loss != "pcl" else ()),
        *(parts[2] if loss != "lct" else ()),
    ]
    vectors = [
        torch.from_numpy(task.course.vectors(task.model, [text]))[0]
        for part in parts
        for text in part
    ]
    n, k = len(parts[0]), len(parts[1])
    texts, keys, prompts = torch.stack(vectors).split([n, k, len(vectors) - n - k])  # type: ignore[no-untyped-call]
    expected = matching(texts, keys, prompts, batch.labels, batch.classes, batch.has_key, kind=loss)
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


# -- rounds ----------------------------------------------------------------------------------------------------------


def test_texts_double_until_the_limit() -> None:
    student = Student(first=0.05, growth=2.0, limit=0.3)
    assert [student.texts(number, 1000) for number in range(5)] == [50, 100, 200, 300, 300]
    assert student.texts(0, 100) == 32  # a batch at least


class Stop(Exception):
    pass


def stopping(at: int) -> Callable[[str], Any]:
    def progress(name: str) -> Any:
        def tell(step: int, total: int, values: Mapping[str, float]) -> None:
            if step == at:
                raise Stop

        return tell

    return progress


def test_a_run_that_was_killed_goes_on_to_the_same_end(base: Path, tmp_path: Path) -> None:
    recipe = recipe_of(base, rounds=3)
    said: list[str] = []
    whole = course_of(recipe, tmp_path / "whole").go(quiet, said.append).state_dict()
    for step in (
        1,
        2,
        3,
        4,
    ):  # the last step of the first round, then within the second and the third
        with pytest.raises(Stop):
            course_of(recipe, tmp_path / "killed").go(stopping(step), lambda line: None)
    told: list[str] = []
    other = course_of(recipe, tmp_path / "killed").go(quiet, told.append).state_dict()
    assert told == [line for line in said if line.startswith("round ")]
    assert all(torch.equal(whole[name], other[name]) for name in whole)
    again = course_of(recipe, tmp_path / "killed").go(
        stopping(1), lambda line: None
    )  # nothing is left to do
    assert all(torch.equal(whole[name], weight) for name, weight in again.state_dict().items())
    assert not list(
        (tmp_path / "killed").glob("round-00/step-*")
    )  # nothing starts from it any more


def test_it_stops_when_the_labels_stay(base: Path, tmp_path: Path) -> None:
    frozen = replace(LOOP, learning_rate=0.0)
    course = course_of(recipe_of(base, rounds=9, loop=frozen), tmp_path)
    course.go(quiet, lambda line: None)
    assert [known.texts for known in course.rounds] == [18, 36, 0]
    assert [known.agreement for known in course.rounds] == [1.0, 1.0, 1.0]


def test_another_recipe_does_not_go_on(base: Path, tmp_path: Path) -> None:
    recipe = recipe_of(base)
    with pytest.raises(Stop):
        run(recipe, tmp_path / "out", tmp_path, progress=stopping(1))
    for changed, labels in ((replace(recipe, seed=2), LABELS), (recipe, LABELS[::-1])):
        with pytest.raises(InvalidInput, match="another recipe"):
            run(changed, tmp_path / "out", tmp_path, labels=labels)


def test_another_precision_goes_on(base: Path, tmp_path: Path) -> None:
    recipe = recipe_of(base, rounds=1)
    with pytest.raises(Stop):
        run(recipe, tmp_path / "out", tmp_path / "home", progress=stopping(1))
    assert '"precision": "fp32"' in (tmp_path / "out/run.json").read_text()

    AcceleratorState._reset_state(reset_partial_state=True)
    other = replace(recipe, student=replace(recipe.student, loop=replace(LOOP, precision="bf16")))
    with pytest.raises(Stop):
        run(other, tmp_path / "out", tmp_path / "home", progress=stopping(1))
    (tmp_path / "out/run.json").write_text("{")
    with pytest.raises(InvalidInput, match="another recipe"):
        run(other, tmp_path / "out", tmp_path / "home")


def test_a_run_that_taught_nothing_gives_way_to_another_recipe(base: Path, tmp_path: Path) -> None:
    recipe = recipe_of(base, rounds=0)
    wrong = replace(recipe, model=replace(recipe.model, base=str(tmp_path / "none")))
    with pytest.raises(PurlinError, match="none"):
        run(wrong, tmp_path / "out", tmp_path / "home")
    assert run(recipe, tmp_path / "out", tmp_path / "home").is_dir()


def test_two_runs_do_not_share_a_directory(base: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    handle = os.open(out, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    with pytest.raises(Busy, match="Another process is training in"):
        run(recipe_of(base, rounds=0), out, tmp_path / "home")
    os.close(handle)
    assert not list(out.iterdir())
    assert run(recipe_of(base, rounds=0), out, tmp_path / "home").is_dir()


def test_a_home_that_cannot_be_written_to_is_refused_before_training(
    base: Path, tmp_path: Path
) -> None:
    (tmp_path / "home").write_text("a file")
    with pytest.raises(StorageFailed):
        run(recipe_of(base), tmp_path / "out", tmp_path / "home")
    assert not (tmp_path / "out").exists()


def test_what_a_killed_export_left_is_not_published(base: Path, tmp_path: Path) -> None:
    left = tmp_path / "out" / "classifier" / ".encoder-x" / "new"
    left.mkdir(parents=True)
    (left / "model.onnx").write_text("half")
    built = run(recipe_of(base, rounds=0), tmp_path / "out", tmp_path / "home")
    assert not [path for path in built.rglob("*") if path.name.startswith(".")]


@pytest.mark.parametrize(
    ("templates", "said"),
    [
        (
            tuple(f"{number} {{label}}" for number in range(101)),
            "a label has 101 prompts, not 1 to 100: give fewer",
        ),
        (
            ("x " * 2_000 + "{label}",),
            "a prompt is no text of 1 to 4,000 characters: give fewer or shorter ones",
        ),
    ],
)
def test_prompts_that_cannot_be_published_are_refused_before_training(
    base: Path, tmp_path: Path, templates: tuple[str, ...], said: str
) -> None:
    with pytest.raises(InvalidInput, match=said) as caught:
        run(replace(recipe_of(base), templates=templates), tmp_path / "out", tmp_path / "home")
    assert caught.value.field == "templates"
    assert not (tmp_path / "out").exists()


def test_a_refused_export_is_made_again_without_training(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = recipe_of(base)
    eight = replace(recipe, export=replace(recipe.export, quantization="int8", serve="prompts"))
    monkeypatch.setattr(export, "MIN_COSINE", 2.0)  # of 8 bits
    with pytest.raises(ExportRefused, match="quantization"):
        run(eight, tmp_path / "out", tmp_path / "home")
    other = replace(recipe, check=Limits())
    built = run(
        other, tmp_path / "out", tmp_path / "home", progress=stopping(1)
    )  # which no step is told to
    assert opened(tmp_path / "home").build == built.name
    whole = run(other, tmp_path / "again", tmp_path / "other")
    assert (built / "labels.npy").read_bytes() == (whole / "labels.npy").read_bytes()


def test_texts_longer_than_the_positions_are_refused_before_training(
    base: Path, tmp_path: Path
) -> None:
    recipe = recipe_of(base)
    with pytest.raises(
        InvalidInput, match=r"export.max_tokens is 65, but the model has 64 positions"
    ):
        run(
            replace(recipe, export=replace(recipe.export, max_tokens=65)),
            tmp_path / "out",
            tmp_path / "home",
        )
    assert not list((tmp_path / "out").glob("round-*"))


def test_a_run_that_finds_the_disk_full_goes_on_when_there_is_room(
    base: Path, tmp_path: Path
) -> None:
    described = run._described(recipe_of(base), POOL, LABELS)
    with largest_file(10), pytest.raises(StorageFailed):
        run._same_run(tmp_path, described)
    assert not (tmp_path / RUN).exists()
    run._same_run(tmp_path, described)
    with largest_file(10):
        run._same_run(tmp_path, described)
    assert (tmp_path / RUN).read_text() == described


def test_a_damaged_round_is_named(base: Path, tmp_path: Path) -> None:
    (tmp_path / "round-00").mkdir()
    (tmp_path / "round-00" / TAUGHT).write_bytes(b"PK\x03\x04 nothing")
    with pytest.raises(Damaged, match="round-00"):
        course_of(recipe_of(base), tmp_path).go(quiet, lambda line: None)


def test_the_base_is_mixed_in(base: Path, tmp_path: Path) -> None:
    course = course_of(recipe_of(base, base_share=0.5), tmp_path)
    changed = course.base()
    with torch.no_grad():
        for weight in changed.parameters():
            weight += 1.0
    changed.save(tmp_path)
    expected = averaged(course.base(), changed, 0.5).state_dict()
    found = course._model(tmp_path).state_dict()
    trained = [
        name for name in expected if name.startswith("transformer.") and "pooler" not in name
    ]
    assert trained
    assert all(torch.allclose(found[name], expected[name]) for name in trained)


# -- the end ---------------------------------------------------------------------------------------------------------


def opened(home: Path) -> TrainedClassifier:
    return TrainedClassifier.load(builds.current(home, "topics", CLASSIFIERS))


@pytest.mark.parametrize(("serve", "quantization"), [("prompts", "none"), ("head", "int8")])
def test_a_run_publishes_a_classifier_that_is_right(
    base: Path, tmp_path: Path, serve: Any, quantization: Any
) -> None:
    texts, right = made(30, seed=9)
    recipe = recipe_of(base, rounds=2, loop=replace(LOOP, learning_rate=0.02, epochs=3.0))
    recipe = replace(recipe, export=replace(recipe.export, serve=serve, quantization=quantization))
    built = run(
        recipe, tmp_path / "out", tmp_path / "home", dev=Labelled(tuple(texts), tuple(right))
    )
    classifier = opened(tmp_path / "home")
    assert classifier.build == built.name
    found = [one.label for one in classifier.classify(texts)]
    accuracy = np.mean([label == LABELS[known] for label, known in zip(found, right, strict=True)])
    assert accuracy > 0.9
    told = classifier.trained.measures
    assert told["encoder"] == "trained"
    assert told["rounds"] == 2
    assert told["dev accuracy"] == pytest.approx(accuracy, abs=0.1)
    assert len(told["dev accuracy by prompts"]) == 3
    assert sum(told["shares"].values()) == pytest.approx(1, abs=0.01)
    assert classifier.trained.prompts[0] == ("about river", "the river")
    assert (classifier.trained.vectors is None) == (serve == "prompts")
    assert (built / run.REPORT).read_text() == (tmp_path / "out" / run.REPORT).read_text()


def test_labels_that_are_nearly_the_same_are_told_once(base: Path, tmp_path: Path) -> None:
    said: list[str] = []
    labels = (LABELS[0], LABELS[0].title(), LABELS[1])
    run(
        recipe_of(base, rounds=1),
        tmp_path / "out",
        tmp_path / "home",
        say=said.append,
        labels=labels,
    )
    pair = f"The labels {labels[0]!r} and {labels[1]!r} are nearly the same to the encoder (cosine 1.00)"
    assert [line.partition(":")[0] for line in said].count(pair) == 1


def test_the_untrained_encoder_is_kept_where_training_made_things_worse(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        run, "check", lambda *_: Check(kept=0.5, halves_before=0.4, halves=0.1, spread=0.4)
    )
    recipe = replace(recipe_of(base, rounds=2), check=Limits())
    recipe = replace(recipe, export=replace(recipe.export, serve="prompts"))
    said: list[str] = []
    run(recipe, tmp_path / "out", tmp_path / "home", say=said.append)
    assert said[-1].startswith("the untrained encoder is kept: ")
    classifier = opened(tmp_path / "home")
    told = classifier.trained
    assert told.measures["encoder"] == "untrained"
    assert told.measures["kept"]
    course = course_of(recipe, tmp_path / "none")
    base_model = course.base()
    texts = list(POOL.texts)
    found, expected = (
        classifier.encoder.encode(texts, role="query"),
        course.vectors(base_model, texts),
    )
    np.testing.assert_allclose(found, expected, atol=1e-4)
    page = (tmp_path / "out" / run.REPORT).read_text()
    assert "The untrained encoder is published" in page
    for prompts, offset in zip(told.prompts, told.offsets, strict=True):  # its own calibration
        cosines = found @ classifier.encoder.encode(prompts, role="query").mean(0)
        assert cosines.min() < offset < cosines.max()


def ended(recipe: Recipe, out: Path, **changes: Any) -> run.Outcome:
    """What a run comes to, without exporting it."""
    course = course_of(recipe, out, **changes)
    return run._outcome(course, course.go(quiet, lambda line: None), "topics")[0]


def test_scores_are_as_sure_as_the_first_teacher_is_right(base: Path, tmp_path: Path) -> None:
    course = course_of(recipe_of(base, rounds=2), tmp_path)
    trained = course.go(quiet, lambda line: None)
    served, seen = run.serve(course, 2, trained), course.see(2, trained)
    scores = left_out(
        seen.pool, course.taught(2), seen.prompts, course.levels(seen.pool, seen.prompts)
    )
    assert served.temperature == run.temperature(scores, course.taught(0))
    path = course.place(0) / TAUGHT  # a first teacher that disagrees more makes less sure
    taught = run._read_taught(path)
    taught["scores"][::3] *= -1
    run._write_taught(path, taught)
    assert run.serve(course, 2, trained).temperature > served.temperature


def test_nothing_trained_is_the_untrained_encoder(base: Path, tmp_path: Path) -> None:
    said: list[str] = []
    run(recipe_of(base, rounds=0), tmp_path / "out", tmp_path / "home", say=said.append)
    assert said[-1] == "nothing was trained: the encoder is the one it started from"
    outcome = ended(recipe_of(base, rounds=0), tmp_path)
    assert outcome.check is None
    assert outcome.before is outcome.after is outcome.served
    assert run.measures(outcome)["encoder"] == "untrained"
    assert "Nothing was trained" in page(outcome)


def test_a_label_that_never_occurs_is_told_of(base: Path, tmp_path: Path) -> None:
    twice = (
        "river bank",
        "music",
        "river  bank",
    )  # the last has the first's vectors, and so never comes first
    recipe = replace(
        recipe_of(base, rounds=1), teacher=Teacher(calibrate=False, views=("prompts",))
    )
    outcome = ended(recipe, tmp_path, labels=twice)
    assert run.measures(outcome)["shares"]["river  bank"] == 0
    assert "No text got these labels: river  bank." in page(outcome)
    assert len(outcome.served.vectors) == len(outcome.served.offsets) == 3


def test_the_report_is_about_the_classifier_that_is_published(base: Path, tmp_path: Path) -> None:
    outcome = ended(recipe_of(base, rounds=1), tmp_path)
    labels = np.zeros(len(POOL.texts), np.int64)
    swallowed = replace(outcome.after, found=replace(outcome.after.found, labels=labels))
    assert "No text got these labels: music." in page(replace(outcome, after=swallowed))
    assert "No text got" not in page(replace(outcome, after=swallowed, kept="music is gone"))


def test_typical_words_are_those_of_the_published_labels(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = run.serve

    def swallowing(course: Course, number: int, text_model: Any) -> run.Served:
        known = served(course, number, text_model)
        gone = replace(known.found, labels=np.zeros_like(known.found.labels))
        return replace(known, found=gone) if number else known

    monkeypatch.setattr(run, "serve", swallowing)
    recipe = recipe_of(base, rounds=1)
    assert ended(recipe, tmp_path).typical[1] == []
    monkeypatch.setattr(Check, "verdict", lambda *_: "music is gone")
    assert ended(recipe, tmp_path).typical[1]


def test_rounds_are_measured_on_the_dev_rows_given(base: Path, tmp_path: Path) -> None:
    recipe, texts = recipe_of(base, rounds=1), tuple(TEXTS)
    right, wrong = (
        Labelled(texts, tuple(RIGHT)),
        Labelled(texts, tuple(1 - label for label in RIGHT)),
    )

    def told(dev: Labelled | None) -> list[float | None]:
        course = replace(course_of(recipe, tmp_path), dev=dev)
        course.go(quiet, lambda line: None)
        return [known.dev for known in course.rounds]

    first = told(right)
    assert None not in first
    assert told(right) == first
    assert told(wrong) == [None, None]  # the rounds are over, and were measured on others
    assert told(None) == [None, None]


def test_a_label_without_texts_is_served_by_its_prompts() -> None:
    every, labels, prompts = blobs((120,) * 4)
    texts, labels = every[1::2], labels[::2]  # the others are learnt from
    pool = every[::2][labels < 3]
    less = offsets((pool @ prompts.T).astype(np.float64), calibrate=True)
    vectors, offset = distilled(pool, labels[labels < 3], prompts, less)
    found = (texts @ vectors.T - offset).argmax(1)
    assert (found[labels == 3] == 3).mean() > 0.9
    assert (found[labels < 3] == labels[labels < 3]).mean() > 0.95
    weights, bias = head(pool, labels[labels < 3], 4)
    assert ((texts @ weights.T + bias).argmax(1) != 3).all()  # which a head alone would never find


def test_prompts_weigh_the_more_the_fewer_texts_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    texts, labels, prompts = blobs((15,) * 4)
    taught = np.where(labels == 1, 2, labels)[
        labels != 2
    ]  # the teacher has it that texts of label 1 are of label 2
    pool, less = texts[labels != 2], np.zeros(4)
    found = {}
    for worth in (0, 15, 1_000_000):
        monkeypatch.setattr(run, "PROMPTED", worth)
        vectors, offset = distilled(pool, taught, prompts, less)
        assert vectors.dtype == np.float32
        assert offset.dtype == np.float64
        scores = pool @ vectors.T - offset
        found[worth] = scores[labels[labels != 2] == 1][:, [1, 2]].mean(0)
        weights, bias = head(pool, taught, 4)
        there = [0, 2, 3]
        expected = {0: pool @ weights.T + bias, 1_000_000: pool @ prompts.T}.get(worth)
        if expected is not None:
            np.testing.assert_array_equal(scores[:, there].argmax(1), expected[:, there].argmax(1))
    assert found[0][1] > found[15][1] > found[1_000_000][1]


def test_what_is_left_out_is_not_learnt_from() -> None:
    rng = np.random.default_rng(4)
    texts, _, prompts = blobs((50,) * 4)
    texts, labels, less = (
        texts[rng.permutation(200)],
        rng.integers(4, size=200),
        np.zeros(4),
    )  # nothing to be learnt
    vectors, offset = distilled(texts, labels, prompts, less)
    by_heart = ((texts @ vectors.T - offset).argmax(1) == labels).mean()
    scores = left_out(texts, labels, prompts, less)
    assert by_heart > 0.3 > (scores.argmax(1) == labels).mean()
    there = np.arange(200) % 5 != 2
    vectors, offset = distilled(texts[there], labels[there], prompts, less)
    np.testing.assert_allclose(scores[2::5], texts[2::5] @ vectors.T - offset, atol=1e-5)


def test_one_label_alone_teaches_no_head() -> None:
    texts, labels, prompts = blobs((20,) * 4)
    less = np.zeros(4)
    vectors, offset = distilled(texts, np.zeros_like(labels), prompts, less)
    assert vectors is prompts
    assert offset is less


class Page(HTMLParser):
    """Which tags there are, and that they close."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_report_is_whole_and_safe(base: Path, tmp_path: Path) -> None:
    labels = ("<script>river</script>", 'music" onload="x')
    pool = Pool((*POOL.texts, "<img src=x onerror=alert(1)> & more"))
    text = page(ended(recipe_of(base, rounds=2), tmp_path, labels=labels, pool=pool))
    read = Page()
    read.feed(text)
    assert read.open == []
    assert read.links == []
    assert "script" not in read.tags
    assert "img" not in read.tags
    assert read.tags.count("svg") == 2
    for heading in ("Class balance", "Rounds", "least sure", "without training", "typical"):
        assert heading in text


def test_temperature_makes_the_labels_likely() -> None:
    rng = np.random.default_rng(1)
    labels = rng.integers(3, size=4000)
    scores = 0.1 * np.eye(3)[labels] + 0.05 * rng.standard_normal((4000, 3))
    found = run.temperature(scores, labels)
    assert found == pytest.approx(
        0.05**2 / 0.1, rel=0.1
    )  # of Gaussians: the variance over the distance


# -- recipes and the command -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("templates = ['no place']", "no place for the label"),
        ("templates = []", "no templates"),
        ("[student]\nloss = 'other'", "must be one of"),
        ("[student]\nfirst = 0.5\nlimit = 0.2", "limit must be"),
        ("[teacher]\nviews = []", "at least one view"),
        ("[model]\nsimilarity = 'dot'", "cosine"),
        ("[model]\nquery_base = 'x'", "one encoder"),
        ("[student]\nrnds = 3", "rounds"),
        ("seed = -1", "seed must be from 0"),
        ("[student]\nbase_share = 0.5\n[model.scratch]\ndim = 16", "leave base_share out"),
    ],
)
def test_recipes_that_are_refused(tmp_path: Path, content: str, said: str) -> None:
    (tmp_path / "recipe.toml").write_text(content)
    with pytest.raises(InvalidInput, match=said):
        run.read_recipe(tmp_path / "recipe.toml")


def test_the_recipes_that_come_along() -> None:
    assert run.read_recipe(ROOT / "configs" / "pesco-minilm.toml") == Recipe()
    paper = run.read_recipe(ROOT / "configs" / "pesco-simcse-bert-base.toml")
    assert paper.student.temperature == 0.07
    assert paper.student.loop.batch_size == 32
    assert paper.teacher == Teacher(calibrate=False, views=("prompts",), confidence="score")


def test_templates_of_a_file_go_before_the_recipes(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("x {label}\n")
    assert run.read_recipe(None, tmp_path / "t.txt") == replace(Recipe(), templates=("x {label}",))


def command(monkeypatch: pytest.MonkeyPatch, *args: object) -> None:
    monkeypatch.setattr("sys.argv", ["purlin", "train", "pesco", *map(str, args)])
    purlin.main()


def test_the_command(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "texts.jsonl").write_text(
        "".join(json.dumps({"text": text}) + "\n" for text in TEXTS)
    )
    (tmp_path / "labels.txt").write_text("\n".join(LABELS))
    (tmp_path / "dev.jsonl").write_text(json.dumps({"text": "river boat", "label": "river"}) + "\n")
    (tmp_path / "recipe.toml").write_text(
        f'templates = ["about {{label}}"]\n[model]\nbase = "{base}"\ndropout = 0.0\nmax_passage_tokens = 48\n'
        '[student]\nrounds = 1\nloop = { batch_size = 8, precision = "fp32" }\n[export]\nmax_tokens = 48\n'
    )
    files = {
        "texts": "texts.jsonl",
        "labels": "labels.txt",
        "config": "recipe.toml",
        "dev": "dev.jsonl",
    }
    given = [part for key, name in files.items() for part in (f"--{key}", tmp_path / name)]
    with pytest.raises(SystemExit) as stopped:
        command(monkeypatch, *given, "--name", "topics", "--home", tmp_path / "home", "--cpu")
    assert stopped.value.code == 0
    told = capsys.readouterr()
    assert "published; POST /classify takes it as classifier 'topics'" in told.out.replace("\n", "")
    assert "round 1: 8 texts to train on" in told.err
    assert opened(tmp_path / "home").classify(["the music"])[0].label in LABELS
    (tmp_path / "labels.txt").write_text("one\n")
    with pytest.raises(SystemExit) as stopped:
        command(monkeypatch, *given, "--name", "topics", "--home", tmp_path / "home")
    assert stopped.value.code == 1
    assert "a classifier has 2 to 10,000" in capsys.readouterr().err.replace("\n", " ")


def test_a_name_that_leads_elsewhere_is_refused_before_anything_is_done(
    base: Path, tmp_path: Path
) -> None:
    for name in ("../x", "Großes", ""):
        with pytest.raises(PurlinError):
            run(recipe_of(base), tmp_path / "out", tmp_path / "home", name=name)
    assert not (tmp_path / "out").exists()
