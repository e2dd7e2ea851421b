"""PESCO's losses, student, rounds and command, on a tiny random model."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from torch import Tensor
from torch.nn import functional as F

from purlin import cli
from purlin.index import builds
from purlin.index.builds.catalogs import CLASSIFIERS
from purlin.index.classify.trained import TrainedClassifier
from purlin.index.encoder import Vectors
from purlin.index.errors import Busy, Damaged, InvalidInput, NotFound, PurlinError, StorageFailed
from purlin.training.exporting import encoder as encoder_export
from purlin.training.exporting.checks import ExportRefused
from purlin.training.loop.devices import make_accelerator
from purlin.training.loop.settings import LoopSettings
from purlin.training.models.encoding import encode
from purlin.training.models.settings import ModelSettings
from purlin.training.models.text_model import TextModel
from purlin.training.pesco import publishing, rounds, self_training, serving
from purlin.training.pesco.check import CheckLimits, TrainingCheck
from purlin.training.pesco.figure import ACCURACY, draw_accuracy
from purlin.training.pesco.losses import Loss, matching_loss
from purlin.training.pesco.outcome import CalibratedClassifier, Outcome
from purlin.training.pesco.recipe import ClassifierExport, PescoRecipe, Student, read_recipe
from purlin.training.pesco.report import render_report
from purlin.training.pesco.round_state import ROUND_STATE, RoundState
from purlin.training.pesco.rounds import SelfTraining
from purlin.training.pesco.self_training import RUN, train_pesco
from purlin.training.pesco.serving import cross_fitted_scores, distill_head, fit_temperature
from purlin.training.pesco.student import PescoBatch, PescoTask, RoundTexts
from purlin.training.pesco.teacher import Teacher, class_offsets
from purlin.training.pesco.texts import Labelled, TextPool, split_sentences
from purlin.training.pesco.views import linear_head
from tests.support.blobs import blobs
from tests.support.files import write_jsonl
from tests.support.paths import ROOT
from tests.support.tiny import SPECIAL, save_bert
from tests.support.training_runs import largest_file, metrics_rows, run_two_processes

TOPICS = {
    "river": "water bank boat bridge flow fish".split(),
    "music": "song album guitar band voice concert".split(),
}
TOPIC_NAMES = tuple(TOPICS)
COMMON = "the a of and in is it was about this text new old".split()


def topic_texts(count: int, seed: int = 1) -> tuple[list[str], list[int]]:
    """Texts of one to three sentences with words of their topic, and sometimes its name."""
    rng = np.random.default_rng(seed)
    texts, labels = [], []
    for number in range(count):
        label = number % 2
        own = [*TOPICS[TOPIC_NAMES[label]], TOPIC_NAMES[label], TOPIC_NAMES[label]]
        parts = [
            " ".join([*rng.choice(COMMON, 2), *rng.choice(own, 3)]) for _ in range(1 + number % 3)
        ]
        texts.append(". ".join(parts) + ".")
        labels.append(label)
    return texts, labels


TEXTS, RIGHT = topic_texts(60)
TEXT_POOL = TextPool(tuple(dict.fromkeys(TEXTS)))
LOOP = LoopSettings(batch_size=8, learning_rate=1e-3, every=100, precision="fp32")


pytestmark = pytest.mark.usefixtures("one_process", "graphs_once")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random BERT that knows all words of TEXTS: mean-pooled, it is much like a bag of words."""
    words = [*SPECIAL, ".", *COMMON, *TOPICS["river"], *TOPICS["music"], *TOPIC_NAMES]
    size = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    size |= {"intermediate_size": 16, "max_position_embeddings": 64}
    return save_bert(tmp_path_factory.mktemp("base"), words, **size)


def recipe_of(base: Path, **student: Any) -> PescoRecipe:
    options = {"rounds": 2, "first": 0.3, "limit": 0.6, "converged": 0.0, "loop": LOOP, **student}
    return PescoRecipe(
        templates=("about {label}", "the {label}"),
        model=ModelSettings(base=str(base), dropout=0.0, max_passage_tokens=48),
        student=Student(**options),
        check=CheckLimits(kept=0.0, halves=2.0, spread=0.0),
        export=ClassifierExport(max_tokens=48, quantization="none"),
    )


def training_of(
    recipe: PescoRecipe,
    out: Path,
    pool: TextPool = TEXT_POOL,
    labels: tuple[str, ...] = TOPIC_NAMES,
) -> SelfTraining:
    return SelfTraining(recipe, pool, labels, out, make_accelerator(LOOP, cpu=True), None)


def quiet(name: str) -> Callable[[int, int, Mapping[str, float]], None]:
    return lambda step, total, values: None


def publish_topics(recipe: PescoRecipe, out: Path, home: Path, **changes: Any) -> Path:
    options = {"name": "topics", "progress": quiet, "say": lambda line: None, "cpu": True}
    options |= {"labels": TOPIC_NAMES, **changes}
    pool, labels = options.pop("pool", TEXT_POOL), options.pop("labels")
    return train_pesco(recipe, pool, labels, out=out, home=home, **options)


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


@given(
    st.sampled_from(["plct", "lct", "pcl", "lct+pcl"]),
    st.lists(st.tuples(st.integers(0, 2), st.booleans()), min_size=1, max_size=6),
    st.sampled_from([0.07, 1.0]),
    st.integers(0, 1000),
)
def test_losses_match_the_equations(
    kind: Loss, batch: list[tuple[int, bool]], gamma: float, seed: int
) -> None:
    torch.manual_seed(seed)
    labels, has_key = map(list, zip(*batch, strict=True))
    texts, prompts = (F.normalize(torch.randn(count, 5), dim=1) for count in (len(batch), 3))
    keys = F.normalize(torch.randn(sum(has_key), 5), dim=1).reshape(-1, 5)
    order = torch.tensor([2, 0, 1])
    batch_labels, keyed = torch.tensor(labels), torch.tensor(has_key)
    vectors = (texts, keys, prompts[order])
    loss = matching_loss(*vectors, batch_labels, order, keyed, kind=kind, temperature=gamma)

    assert float(loss) == pytest.approx(
        by_hand(texts, keys, prompts, labels, has_key, kind, gamma), abs=1e-4
    )


@pytest.mark.parametrize("kind", ["plct", "lct", "pcl", "lct+pcl"])
def test_parts_of_a_batch_have_the_loss_of_the_whole(kind: Loss) -> None:
    torch.manual_seed(1)
    texts, prompts = F.normalize(torch.randn(6, 5), dim=1), F.normalize(torch.randn(3, 5), dim=1)
    labels, classes = torch.tensor([0, 1, 0, 2, 1, 0]), torch.arange(3)
    has_key = torch.tensor([True, True, False, True, False, True])
    keys = F.normalize(torch.randn(4, 5), dim=1)
    whole = matching_loss(texts, keys, prompts, labels, classes, has_key, kind=kind)

    options = {"key_labels": labels[has_key], "processes": 2, "kind": kind}
    parts = [
        matching_loss(texts[part], keys, prompts, labels[part], classes, has_key[part], **options)
        for part in (slice(0, None, 2), slice(1, None, 2))
    ]
    assert float(sum(parts)) / 2 == pytest.approx(float(whole), abs=1e-5)


# -- the student's batches -------------------------------------------------------------------------------------------


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


# -- rounds ----------------------------------------------------------------------------------------------------------


def test_sample_doubles_until_the_limit() -> None:
    student = Student(first=0.05, growth=2.0, limit=0.3)

    assert [student.texts(number, 1000) for number in range(5)] == [50, 100, 200, 300, 300]
    # A batch at least.
    assert student.texts(0, 100) == 32


class Stop(Exception):
    pass


def stopping(at: int) -> Callable[[str], Any]:
    def progress(name: str) -> Any:
        def on_step(step: int, total: int, values: Mapping[str, float]) -> None:
            if step == at:
                raise Stop

        return on_step

    return progress


@pytest.mark.parametrize("name", ["My Tickets", "../x", "Großes", ""])
def test_invalid_name_is_refused_early(base: Path, tmp_path: Path, name: str) -> None:
    log: list[str] = []
    with pytest.raises(InvalidInput, match="is not a valid classifier name"):
        publish_topics(recipe_of(base), tmp_path / "out", tmp_path, name=name, say=log.append)
    assert not log
    assert not (tmp_path / "out").exists()


def test_encoding_of_many_texts_is_shown(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[tuple[str, int, int]] = []

    def progress(stage: str) -> Any:
        return lambda done, total, values: shown.append((stage, done, total))

    monkeypatch.setattr(rounds, "SHOWN_TEXTS", len(TEXT_POOL.texts) - 1)
    publish_topics(recipe_of(base, rounds=0), tmp_path / "out", tmp_path, progress=progress)
    count = len(TEXT_POOL.texts)
    assert shown[-1] == ("encode texts", count, count)

    shown.clear()
    monkeypatch.setattr(rounds, "SHOWN_TEXTS", count)
    publish_topics(recipe_of(base, rounds=0), tmp_path / "few", tmp_path, progress=progress)
    assert not shown


def test_killed_run_resumes_to_the_same_weights(base: Path, tmp_path: Path) -> None:
    recipe = recipe_of(base, rounds=3)
    log: list[str] = []
    whole = training_of(recipe, tmp_path / "whole").train(quiet, log.append).state_dict()

    # The last step of the first round, then steps within the second and the third.
    for step in (1, 2, 3, 4):
        with pytest.raises(Stop):
            training_of(recipe, tmp_path / "killed").train(stopping(step), lambda line: None)

    resumed_log: list[str] = []
    resumed = training_of(recipe, tmp_path / "killed").train(quiet, resumed_log.append).state_dict()
    assert resumed_log == [line for line in log if line.startswith("round ")]
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)

    # A finished run takes no further step, and the first checkpoints are not needed any more.
    again = training_of(recipe, tmp_path / "killed").train(stopping(1), lambda line: None)
    assert all(torch.equal(whole[name], weight) for name, weight in again.state_dict().items())
    assert not list((tmp_path / "killed").glob("round-00/step-*"))


def test_training_stops_when_labels_converge(base: Path, tmp_path: Path) -> None:
    frozen = replace(LOOP, learning_rate=0.0)
    training = training_of(recipe_of(base, rounds=9, loop=frozen), tmp_path)
    training.train(quiet, lambda line: None)
    assert [round_.texts for round_ in training.rounds] == [18, 36, 0]
    assert [round_.agreement for round_ in training.rounds] == [1.0, 1.0, 1.0]


def test_resuming_refuses_another_recipe(base: Path, tmp_path: Path) -> None:
    recipe = recipe_of(base)
    with pytest.raises(Stop):
        publish_topics(recipe, tmp_path / "out", tmp_path, progress=stopping(1))
    for changed, labels in ((replace(recipe, seed=2), TOPIC_NAMES), (recipe, TOPIC_NAMES[::-1])):
        with pytest.raises(InvalidInput, match="another recipe"):
            publish_topics(changed, tmp_path / "out", tmp_path, labels=labels)

    (tmp_path / "out" / RUN).write_text("{")
    with pytest.raises(InvalidInput, match="another recipe"):
        publish_topics(recipe, tmp_path / "out", tmp_path)


def test_run_without_rounds_can_be_replaced(base: Path, tmp_path: Path) -> None:
    recipe = recipe_of(base, rounds=0)
    wrong = replace(recipe, model=replace(recipe.model, base=str(tmp_path / "none")))
    with pytest.raises(PurlinError, match="none"):
        publish_topics(wrong, tmp_path / "out", tmp_path / "home")
    assert publish_topics(recipe, tmp_path / "out", tmp_path / "home").is_dir()


def test_second_run_in_a_directory_is_refused(base: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    handle = os.open(out, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)

    with pytest.raises(Busy, match="Another process is training in"):
        publish_topics(recipe_of(base, rounds=0), out, tmp_path / "home")
    os.close(handle)
    assert not list(out.iterdir())
    assert publish_topics(recipe_of(base, rounds=0), out, tmp_path / "home").is_dir()


def test_unwritable_home_is_refused_early(base: Path, tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file")
    with pytest.raises(StorageFailed):
        publish_topics(recipe_of(base), tmp_path / "out", tmp_path / "home")
    assert not (tmp_path / "out").exists()


def test_leftovers_of_an_export_are_not_published(base: Path, tmp_path: Path) -> None:
    leftovers = tmp_path / "out" / "classifier" / ".encoder-x" / "new"
    leftovers.mkdir(parents=True)
    (leftovers / "model.onnx").write_text("half")
    built = publish_topics(recipe_of(base, rounds=0), tmp_path / "out", tmp_path / "home")
    assert not [path for path in built.rglob("*") if path.name.startswith(".")]


@pytest.mark.parametrize(
    ("templates", "message"),
    [
        (tuple(f"{n} {{label}}" for n in range(101)), "a label has 101 prompts, not 1 to 100: give"),
        (("x " * 2_000 + "{label}",), "a prompt is not a text of 1 to 4,000 characters: give fewer"),
    ],
)  # fmt: skip
def test_unpublishable_prompts_are_refused_early(
    base: Path, tmp_path: Path, templates: tuple[str, ...], message: str
) -> None:
    recipe = replace(recipe_of(base), templates=templates)
    with pytest.raises(InvalidInput, match=message) as error:
        publish_topics(recipe, tmp_path / "out", tmp_path / "home")
    assert error.value.field == "templates"
    assert not (tmp_path / "out").exists()


def test_few_or_short_texts_are_not_all_that_weights_are_rounded_by() -> None:
    short = [f"play some jazz {number}" for number in range(400)]
    samples = publishing.quantization_samples(short)
    assert samples[:300] == short[:300]
    assert sum(map(len, samples)) > publishing.MIN_SAMPLE_CHARS

    long = [f"{text} in the kitchen, please" * 5 for text in short]
    assert publishing.quantization_samples(long) == long[:300]


def test_refused_export_resumes_without_training(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = recipe_of(base)
    eight = replace(recipe, export=replace(recipe.export, quantization="int8", serve="prompts"))
    monkeypatch.setattr(encoder_export, "MIN_COSINE", 2.0)
    with pytest.raises(ExportRefused, match="quantization"):
        publish_topics(eight, tmp_path / "out", tmp_path / "home")
    checked = replace(recipe, check=CheckLimits())

    # The first step would raise Stop.
    built = publish_topics(checked, tmp_path / "out", tmp_path / "home", progress=stopping(1))
    assert published_classifier(tmp_path / "home").build == built.name
    whole = publish_topics(checked, tmp_path / "again", tmp_path / "other")
    assert (built / "labels.npy").read_bytes() == (whole / "labels.npy").read_bytes()


def test_too_many_tokens_are_refused_early(base: Path, tmp_path: Path) -> None:
    recipe = recipe_of(base)
    longer = replace(recipe, export=replace(recipe.export, max_tokens=65))
    with pytest.raises(InvalidInput, match="max_tokens is 65, but the model has 64 positions"):
        publish_topics(longer, tmp_path / "out", tmp_path / "home")
    assert not list((tmp_path / "out").glob("round-*"))


def test_claiming_resumes_after_full_disk(base: Path, tmp_path: Path) -> None:
    described = self_training.describe_run(recipe_of(base), TEXT_POOL, TOPIC_NAMES)
    with largest_file(10), pytest.raises(StorageFailed):
        self_training.claim_directory(tmp_path, described)

    assert not (tmp_path / RUN).exists()
    self_training.claim_directory(tmp_path, described)
    with largest_file(10):
        self_training.claim_directory(tmp_path, described)
    assert (tmp_path / RUN).read_text() == described


def test_damaged_round_is_named(base: Path, tmp_path: Path) -> None:
    (tmp_path / "round-00").mkdir()
    (tmp_path / "round-00" / ROUND_STATE).write_bytes(b"PK\x03\x04 nothing")
    with pytest.raises(Damaged, match="round-00"):
        training_of(recipe_of(base), tmp_path).train(quiet, lambda line: None)


# -- a teacher of another model ---------------------------------------------------------------------------------------


def right_labels(pool: TextPool) -> np.ndarray:
    return np.array([RIGHT[TEXTS.index(text)] for text in pool.texts])


def test_other_encoder_corrects_the_labels(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A teacher whose vectors are the topics is right where the student's random ones are not."""
    opened: list[Path] = []

    def knowing(directory: Path, accelerator: Any) -> Any:
        opened.append(directory)

        def topics(text: str) -> list[bool]:
            return [any(word in text for word in (name, *TOPICS[name])) for name in TOPICS]

        return lambda texts: np.array([topics(text) for text in texts], np.float32)

    monkeypatch.setattr(rounds, "frozen_encoder", knowing)
    (tmp_path / "large").mkdir()
    alone = recipe_of(base, rounds=0)
    alone = replace(alone, teacher=Teacher(views=("prompts",)))
    with_teacher = replace(alone, teacher=replace(alone.teacher, base=str(tmp_path / "large")))

    shares = []
    for name, recipe in (("alone", alone), ("taught", with_teacher), ("taught", with_teacher)):
        training = training_of(recipe, tmp_path / name)
        training.train(quiet, lambda line: None)
        shares.append(float((training.pseudo_labels(0) == right_labels(TEXT_POOL)).mean()))

    assert shares[0] < 0.9
    assert shares[1] == shares[2] == 1.0
    # A run that is resumed reads what it has computed.
    assert opened == [tmp_path / "large"]


def test_card_names_the_other_encoder(base: Path, tmp_path: Path) -> None:
    own_base = tmp_path / "large"
    shutil.copytree(base, own_base)
    recipe = recipe_of(base, rounds=0)
    with_teacher = replace(recipe, teacher=replace(recipe.teacher, base=str(own_base)))
    built = publish_topics(with_teacher, tmp_path / "out", tmp_path / "home")
    card = (built / "encoder/README.md").read_text()
    assert f"{len(TEXT_POOL.texts)} texts without labels, labelled also by large" in card


def test_missing_teacher_is_named(base: Path, tmp_path: Path) -> None:
    recipe = replace(recipe_of(base), teacher=Teacher(base=str(tmp_path / "none")))
    with pytest.raises(NotFound, match=r"There is no encoder in .*none"):
        publish_topics(recipe, tmp_path / "out", tmp_path / "home")
    assert not (tmp_path / "out").exists()


# -- several processes ------------------------------------------------------------------------------------------------


def share(base: Path, directory: Path) -> Path:
    """Publish a classifier, on any number of processes."""
    recipe = recipe_of(base, rounds=2, loss="lct+pcl")
    recipe = replace(recipe, export=replace(recipe.export, serve="prompts"))
    built = publish_topics(recipe, directory / "out", directory / "home")
    assert built.is_dir(), built
    return built


def test_two_processes_train_as_one_does(base: Path, tmp_path: Path) -> None:
    alone = share(base, tmp_path / "one")
    run_two_processes(share, base, tmp_path / "two")
    together = builds.current(tmp_path / "two/home", "topics", CLASSIFIERS)

    vectors = [
        TrainedClassifier.load(build).encoder.encode(TEXTS, role="query")
        for build in (alone, together)
    ]
    np.testing.assert_allclose(vectors[1], vectors[0], atol=1e-4)
    for number in (0, 1):
        states = [
            RoundState.read(tmp_path / name / f"out/round-{number:02d}" / ROUND_STATE)
            for name in ("one", "two")
        ]
        np.testing.assert_array_equal(states[1].rows, states[0].rows)
        losses = [
            [row["loss"] for row in metrics_rows(tmp_path / name / f"out/round-{number:02d}")]
            for name in ("one", "two")
        ]
        assert losses[1] == pytest.approx(losses[0], abs=1e-4)


# -- the end ---------------------------------------------------------------------------------------------------------


def published_classifier(home: Path) -> TrainedClassifier:
    return TrainedClassifier.load(builds.current(home, "topics", CLASSIFIERS))


@pytest.mark.parametrize(("serve", "quantization"), [("prompts", "none"), ("head", "int8")])
def test_run_publishes_an_accurate_classifier(
    base: Path, tmp_path: Path, serve: Any, quantization: Any
) -> None:
    texts, right = topic_texts(30, seed=9)
    recipe = recipe_of(base, rounds=2, loop=replace(LOOP, learning_rate=0.02, epochs=3.0))
    recipe = replace(recipe, export=replace(recipe.export, serve=serve, quantization=quantization))
    built = publish_topics(
        recipe, tmp_path / "out", tmp_path / "home", dev=Labelled(tuple(texts), tuple(right))
    )
    classifier = published_classifier(tmp_path / "home")

    assert (tmp_path / "out" / ACCURACY).read_bytes().startswith(b"\x89PNG")
    assert classifier.build == built.name
    predicted = [result.label for result in classifier.classify(texts)]
    accuracy = np.mean([name == TOPIC_NAMES[k] for name, k in zip(predicted, right, strict=True)])
    assert accuracy > 0.9
    measures = classifier.spec.measures
    assert measures["encoder"] == "trained"
    assert measures["rounds"] == 2
    assert measures["dev accuracy"] == pytest.approx(accuracy, abs=0.1)
    assert len(measures["dev accuracy by prompts"]) == 3
    assert sum(measures["shares"].values()) == pytest.approx(1, abs=0.01)
    assert classifier.spec.prompts[0] == ("about river", "the river")
    assert (classifier.spec.vectors is None) == (serve == "prompts")
    assert (built / publishing.REPORT).read_text() == (
        tmp_path / "out" / publishing.REPORT
    ).read_text()


def test_curves_end_with_their_last_value(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    drawn: list[np.ndarray] = []
    plot = Axes.plot

    def noting(axes: Axes, xs: Any, ys: Any, **options: Any) -> list[Line2D]:
        drawn.append(np.array(ys))
        return plot(axes, xs, ys, **options)

    monkeypatch.setattr(Axes, "plot", noting)
    draw_accuracy({"a": [[0.5, 0.7, 0.9], [0.7, 0.9]]}, tmp_path / "figure.png")
    np.testing.assert_allclose(drawn, [[0.6, 0.8, 0.9]])


def test_similar_labels_are_logged_once(base: Path, tmp_path: Path) -> None:
    log: list[str] = []
    labels = (TOPIC_NAMES[0], TOPIC_NAMES[0].title(), TOPIC_NAMES[1])
    options = {"say": log.append, "labels": labels}
    publish_topics(recipe_of(base, rounds=1), tmp_path / "out", tmp_path / "home", **options)
    pair = f"The labels {labels[0]!r} and {labels[1]!r} are nearly the same to the encoder (cosine 1.00)"
    assert [line.partition(":")[0] for line in log].count(pair) == 1


def test_failed_check_keeps_untrained_encoder(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = TrainingCheck(kept=0.5, halves_before=0.4, halves=0.1, spread=0.4)
    monkeypatch.setattr(serving, "check_training", lambda *_: failed)
    recipe = replace(recipe_of(base, rounds=2), check=CheckLimits())
    recipe = replace(recipe, export=replace(recipe.export, serve="prompts"))
    log: list[str] = []
    publish_topics(recipe, tmp_path / "out", tmp_path / "home", say=log.append)
    fitting, decision, exporting = log[-3:]
    assert fitting == "fitting the classifier"
    assert decision.startswith("the untrained encoder is kept: ")
    assert exporting == "exporting the encoder"
    classifier = published_classifier(tmp_path / "home")
    spec = classifier.spec
    assert spec.measures["encoder"] == "untrained"
    assert spec.measures["kept"]
    training = training_of(recipe, tmp_path / "none")
    base_model = training.base_model()
    texts = list(TEXT_POOL.texts)
    vectors = classifier.encoder.encode(texts, role="query")
    np.testing.assert_allclose(vectors, training.encode(base_model, texts), atol=1e-4)

    page = (tmp_path / "out" / publishing.REPORT).read_text()
    assert "The untrained encoder is published" in page

    # It has its own calibration.
    for prompts, offset in zip(spec.prompts, spec.offsets, strict=True):
        cosines = vectors @ classifier.encoder.encode(prompts, role="query").mean(0)
        assert cosines.min() < offset < cosines.max()


def outcome_of(recipe: PescoRecipe, out: Path, **changes: Any) -> Outcome:
    """The outcome of a run that is not exported."""
    training = training_of(recipe, out, **changes)
    trained_model = training.train(quiet, lambda line: None)
    return self_training.compare_outcome(training, trained_model, "topics")


def test_temperature_follows_the_first_teacher(base: Path, tmp_path: Path) -> None:
    training = training_of(recipe_of(base, rounds=2), tmp_path)
    trained = training.train(quiet, lambda line: None)
    classifier = serving.calibrated_classifier(training, 2, trained)
    embeddings = training.embeddings(2, trained)

    pool, prompts = embeddings.pool, embeddings.prompts
    offsets = training.prompt_offsets(pool, prompts)
    scores = cross_fitted_scores(pool, training.pseudo_labels(2), prompts, offsets)
    assert classifier.temperature == fit_temperature(scores, training.pseudo_labels(0))

    # A first teacher that agrees less makes scores less confident.
    path = training.round_directory(0) / ROUND_STATE
    state = RoundState.read(path)
    state.scores[::3] *= -1
    state.write(path)
    assert serving.calibrated_classifier(training, 2, trained).temperature > classifier.temperature


def test_zero_rounds_publish_untrained_encoder(base: Path, tmp_path: Path) -> None:
    log: list[str] = []
    publish_topics(recipe_of(base, rounds=0), tmp_path / "out", tmp_path / "home", say=log.append)

    assert not (tmp_path / "out" / ACCURACY).exists()
    decision, exporting = log[-2:]
    assert decision == "nothing was trained: the encoder is the one it started from"
    assert exporting == "exporting the encoder"
    outcome = outcome_of(recipe_of(base, rounds=0), tmp_path)
    assert outcome.check is None
    assert outcome.untrained is outcome.trained is outcome.published
    assert publishing.summarize(outcome)["encoder"] == "untrained"
    assert "Nothing was trained" in render_report(outcome)


def test_report_names_labels_without_texts(base: Path, tmp_path: Path) -> None:
    # The last label has the vectors of the first, and so never the best score.
    repeated_labels = ("river bank", "music", "river  bank")
    recipe = replace(
        recipe_of(base, rounds=1), teacher=Teacher(calibrate=False, views=("prompts",))
    )
    outcome = outcome_of(recipe, tmp_path, labels=repeated_labels)

    assert publishing.summarize(outcome)["shares"]["river  bank"] == 0
    assert "No text got these labels: river  bank." in render_report(outcome)
    assert len(outcome.published.vectors) == len(outcome.published.offsets) == 3


def test_report_describes_the_published_classifier(base: Path, tmp_path: Path) -> None:
    outcome = outcome_of(recipe_of(base, rounds=1), tmp_path)
    labels = np.zeros(len(TEXT_POOL.texts), np.int64)
    swallowed = replace(
        outcome.trained, pseudo_labels=replace(outcome.trained.pseudo_labels, labels=labels)
    )

    assert "No text got these labels: music." in render_report(replace(outcome, trained=swallowed))
    assert "No text got" not in render_report(
        replace(outcome, trained=swallowed, rejection="music is gone")
    )


def test_typical_words_follow_published_labels(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calibrated_classifier = serving.calibrated_classifier

    def swallowing(training: SelfTraining, number: int, text_model: Any) -> CalibratedClassifier:
        classifier = calibrated_classifier(training, number, text_model)
        swallowed = replace(
            classifier.pseudo_labels, labels=np.zeros_like(classifier.pseudo_labels.labels)
        )
        return replace(classifier, pseudo_labels=swallowed) if number else classifier

    monkeypatch.setattr(self_training, "calibrated_classifier", swallowing)
    recipe = recipe_of(base, rounds=1)
    assert outcome_of(recipe, tmp_path).typical_words[1] == []
    monkeypatch.setattr(TrainingCheck, "verdict", lambda *_: "music is gone")
    assert outcome_of(recipe, tmp_path).typical_words[1]


def test_dev_accuracy_belongs_to_its_rows(base: Path, tmp_path: Path) -> None:
    recipe, texts = recipe_of(base, rounds=1), tuple(TEXTS)
    right, wrong = (Labelled(texts, tuple(abs(label - flip) for label in RIGHT)) for flip in (0, 1))

    def accuracies(dev: Labelled | None) -> list[float | None]:
        training = replace(training_of(recipe, tmp_path), dev=dev)
        training.train(quiet, lambda line: None)
        return [round_.dev_accuracy for round_ in training.rounds]

    first = accuracies(right)
    assert None not in first
    assert accuracies(right) == first
    # The finished rounds were measured on other rows.
    assert accuracies(wrong) == [None, None]
    assert accuracies(None) == [None, None]


def test_label_without_texts_keeps_its_prompts() -> None:
    every, labels, prompts = blobs((120,) * 4)
    # Every second text is held out.
    texts, labels = every[1::2], labels[::2]
    pool = every[::2][labels < 3]
    offsets = class_offsets((pool @ prompts.T).astype(np.float64), calibrate=True)
    vectors, offset = distill_head(pool, labels[labels < 3], prompts, offsets)
    predicted = (texts @ vectors.T - offset).argmax(1)

    assert (predicted[labels == 3] == 3).mean() > 0.9
    assert (predicted[labels < 3] == labels[labels < 3]).mean() > 0.95
    weights, bias = linear_head(pool, labels[labels < 3], 4)
    # A head alone never predicts the absent label.
    assert ((texts @ weights.T + bias).argmax(1) != 3).all()


def test_prompts_weigh_more_with_fewer_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    texts, labels, prompts = blobs((15,) * 4)
    # The teacher takes texts of label 1 for those of label 2.
    pseudo_labels = np.where(labels == 1, 2, labels)[labels != 2]
    pool, offsets = texts[labels != 2], np.zeros(4)
    label_scores = {}

    for worth in (0, 15, 1_000_000):
        monkeypatch.setattr(serving, "PROMPT_WEIGHT_TEXTS", worth)
        vectors, offset = distill_head(pool, pseudo_labels, prompts, offsets)
        assert vectors.dtype == np.float32
        assert offset.dtype == np.float64
        scores = pool @ vectors.T - offset
        label_scores[worth] = scores[labels[labels != 2] == 1][:, [1, 2]].mean(0)
        weights, bias = linear_head(pool, pseudo_labels, 4)
        present = [0, 2, 3]
        expected = {0: pool @ weights.T + bias, 1_000_000: pool @ prompts.T}.get(worth)
        if expected is not None:
            np.testing.assert_array_equal(
                scores[:, present].argmax(1), expected[:, present].argmax(1)
            )
    assert label_scores[0][1] > label_scores[15][1] > label_scores[1_000_000][1]


def test_cross_fitting_ignores_the_held_out_fold() -> None:
    rng = np.random.default_rng(4)
    texts, _, prompts = blobs((50,) * 4)
    texts, labels, offsets = texts[rng.permutation(200)], rng.integers(4, size=200), np.zeros(4)
    vectors, offset = distill_head(texts, labels, prompts, offsets)
    by_heart = ((texts @ vectors.T - offset).argmax(1) == labels).mean()
    scores = cross_fitted_scores(texts, labels, prompts, offsets)

    assert by_heart > 0.3 > (scores.argmax(1) == labels).mean()
    present = np.arange(200) % 5 != 2
    vectors, offset = distill_head(texts[present], labels[present], prompts, offsets)
    np.testing.assert_allclose(scores[2::5], texts[2::5] @ vectors.T - offset, atol=1e-5)


def test_single_label_trains_no_head() -> None:
    texts, labels, prompts = blobs((20,) * 4)
    offsets = np.zeros(4)
    vectors, offset = distill_head(texts, np.zeros_like(labels), prompts, offsets)
    assert vectors is prompts
    assert offset is offsets


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


def test_report_is_well_formed_and_escaped(base: Path, tmp_path: Path) -> None:
    labels = ("<script>river</script>", 'music" onload="x')
    pool = TextPool((*TEXT_POOL.texts, "<img src=x onerror=alert(1)> & more"))
    text = render_report(outcome_of(recipe_of(base, rounds=2), tmp_path, labels=labels, pool=pool))
    read = Page()
    read.feed(text)

    assert read.open == []
    assert read.links == []
    assert "script" not in read.tags
    assert "img" not in read.tags
    assert read.tags.count("svg") == 1
    for heading in ("Class balance", "Rounds", "Least confident", "without training", "typical"):
        assert heading in text


def test_temperature_maximizes_likelihood() -> None:
    rng = np.random.default_rng(1)
    labels = rng.integers(3, size=4000)
    scores = 0.1 * np.eye(3)[labels] + 0.05 * rng.standard_normal((4000, 3))
    temperature = fit_temperature(scores, labels)

    # For Gaussians it is the variance over the distance.
    assert temperature == pytest.approx(0.05**2 / 0.1, rel=0.1)


# -- recipes and the command -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "message"),
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
    ],
)
def test_invalid_recipes_are_refused(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "recipe.toml").write_text(content)
    with pytest.raises(InvalidInput, match=message):
        read_recipe(tmp_path / "recipe.toml")


def test_shipped_recipes_hold_their_settings() -> None:
    assert read_recipe(ROOT / "configs" / "pesco-minilm.toml") == PescoRecipe()
    with_teacher = read_recipe(ROOT / "configs" / "pesco-minilm-mpnet.toml")
    assert with_teacher.teacher.base == "encoders/all-mpnet-base-v2"
    assert replace(with_teacher, teacher=replace(with_teacher.teacher, base=None)) == PescoRecipe()
    base_size = read_recipe(ROOT / "configs" / "pesco-mpnet.toml")
    default = PescoRecipe()
    model = replace(default.model, base="sentence-transformers/all-mpnet-base-v2")
    export = replace(default.export, quantization="none")
    assert base_size == replace(default, model=model, export=export)
    paper = read_recipe(ROOT / "configs" / "pesco-simcse-bert-base.toml")
    assert paper.student.temperature == 0.07
    assert paper.student.loop.batch_size == 32
    assert paper.teacher == Teacher(calibrate=False, views=("prompts",), confidence="score")
    assert paper.model.pooling == "first"
    assert paper.student.loop.epsilon == 1e-6
    # Algorithm 1 has no check: no training is so bad that this one would reject it.
    worst = TrainingCheck(kept=0.0, halves_before=1.0, halves=-1.0, spread=0.0)
    assert worst.verdict(paper.check) == ""


def test_template_file_overrides_the_recipe(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("x {label}\n")
    assert read_recipe(None, tmp_path / "t.txt") == replace(PescoRecipe(), templates=("x {label}",))


def test_the_command_trains_and_publishes(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_jsonl(tmp_path / "texts.jsonl", ({"text": text} for text in TEXTS))
    (tmp_path / "labels.txt").write_text("\n".join(TOPIC_NAMES))
    write_jsonl(tmp_path / "dev.jsonl", [{"text": "river boat", "label": "river"}])
    (tmp_path / "recipe.toml").write_text(
        f'templates = ["about {{label}}"]\n[model]\nbase = "{base}"\ndropout = 0.0\nmax_passage_tokens = 48\n'
        '[student]\nrounds = 1\nloop = { batch_size = 8, precision = "fp32" }\n[export]\nmax_tokens = 48\n'
    )
    monkeypatch.chdir(tmp_path)
    arguments = "--texts texts.jsonl --labels labels.txt --config recipe.toml --dev dev.jsonl"
    arguments += " --name topics --home home --cpu"
    monkeypatch.setattr("sys.argv", ["purlin", "train", "pesco", *arguments.split()])

    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 0
    output = capsys.readouterr()
    assert "published; POST /classify takes it as classifier 'topics'" in output.out.replace(
        "\n", ""
    )
    assert "round 1: 8 texts to train on" in output.err
    assert published_classifier(tmp_path / "home").classify(["the music"])[0].label in TOPIC_NAMES
    (tmp_path / "labels.txt").write_text("one\n")
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 1
    assert "a classifier has 2 to 10,000" in capsys.readouterr().err.replace("\n", " ")
