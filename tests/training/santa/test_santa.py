"""SANTA's task, hard negatives and dev sets on tiny random models, and whole runs."""

from __future__ import annotations

import json
import math
import shutil
import signal
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from torch import Tensor

from purlin import cli
from purlin.index.encoder.transformer import Encoder
from purlin.index.errors import InvalidInput, NotFound, PurlinError
from purlin.index.records import Role
from purlin.training import config, mining
from purlin.training.data.pairs.augment import Forms
from purlin.training.data.pairs.pair import Pair, PairSource
from purlin.training.dev import DevEvaluator
from purlin.training.encoded import RoleEncoder
from purlin.training.exporting.encoder import export_encoder
from purlin.training.exporting.model_card import Card
from purlin.training.loop.checkpoints import OPTIMIZER
from purlin.training.loop.devices import make_accelerator
from purlin.training.loop.recorded_recipe import same_recipe
from purlin.training.loop.run import train
from purlin.training.loop.settings import LoopSettings
from purlin.training.models.text_model import load_text_model
from purlin.training.santa.recipe import SantaRecipe, Stage, StageTeacher
from purlin.training.santa.run import REPORT, _recipe_until, train_santa
from purlin.training.santa.task import SantaTask
from tests.support.code_pairs import (
    PAIRS,
    VERBS,
    pair_of,
    save_code_bert,
    spaced,
    tiny,
    vocabulary,
)
from tests.support.files import write_jsonl
from tests.support.paths import ROOT
from tests.support.tiny import save_t5
from tests.support.training_runs import (
    load_without_data,
    metrics_rows,
    run_script,
    run_two_processes,
)

pytestmark = pytest.mark.usefixtures("graphs_once")

LOOP = LoopSettings(batch_size=8, steps=3, learning_rate=1e-3, every=2, precision="fp32")


@pytest.fixture(autouse=True)
def accelerator(one_process: None) -> Accelerator:
    return make_accelerator(LOOP, cpu=True)


# -- tiny models ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    home = tmp_path_factory.mktemp("bases")
    return {
        "bert": save_code_bert(home / "bert"),
        "t5": save_t5(
            home / "t5",
            vocabulary("<extra_id_{}>"),
            d_model=16,
            d_ff=32,
            num_layers=1,
            num_heads=2,
        ),
    }


@pytest.fixture(scope="module")
def bert(bases: dict[str, Path]) -> Path:
    return bases["bert"]


def task_of(
    base: Path, directory: Path, stage: Stage, *sources: Sequence[Pair], **changes: Any
) -> SantaTask:
    values = {"seed": 5, "directory": directory, **changes}
    text_model = tiny(base, dropout=0.0).eval()
    return SantaTask(
        text_model, sources or [PAIRS], stage, make_accelerator(LOOP, cpu=True), **values
    )


def words(task: SantaTask, ids: Tensor) -> list[str]:
    """Return the words of each row, without [CLS], [SEP] and padding."""
    names = task.model.tokenizer.convert_ids_to_tokens
    return [
        " ".join(word for word in names(row) if word not in ("[CLS]", "[SEP]", "[PAD]"))
        for row in ids.tolist()
    ]


# -- batches -------------------------------------------------------------------------------------


def test_groups_of_one_package_need_batches_of_one_source() -> None:
    with pytest.raises(InvalidInput, match="one-source") as error:
        Stage(name="a", loop=LOOP, group=4)
    assert error.value.field == "group"


def same(a: Any, b: Any) -> bool:
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return bool((a == b).all()) if a is not None else b is None


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


# -- masking -------------------------------------------------------------------------------------


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


# -- the loss ------------------------------------------------------------------------------------


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


# -- a teacher's ranking -------------------------------------------------------------------------


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


def softmax(scores: list[float]) -> list[float]:
    exponentials = [math.exp(score) for score in scores]
    return [each / sum(exponentials) for each in exponentials]


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


def test_a_missing_teacher_is_refused_before_the_first_stage(bert: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    text = 'depth = 5\nteacher = {base = "empty"}'
    path = write_recipe(tmp_path, bert, lambda recipe: recipe.replace("depth = 5", text))
    recipe = config.load_recipe(path, SantaRecipe, data=tmp_path)
    with pytest.raises(NotFound, match="There is no encoder in"):
        train_santa(recipe, tmp_path / "out", progress=refusing, say=refusing, cpu=True)
    assert not (tmp_path / "out").exists()


def refusing(*arguments: Any) -> Any:
    raise AssertionError("nothing is trained")


def test_a_run_is_another_with_another_teacher(bert: Path, tmp_path: Path) -> None:
    source = PairSource("pairs", tmp_path / "p.jsonl")
    directory = tmp_path / "teacher"
    shutil.copytree(bert, directory)
    stage = Stage(name="a", teacher=StageTeacher(base=directory))
    recipe = SantaRecipe(name="tiny", pairs=(source,), stage=(stage,))
    before = _recipe_until(recipe, 0, ["d"])

    (directory / "model.safetensors").write_bytes(b"other weights")
    assert not same_recipe(_recipe_until(recipe, 0, ["d"]), before)


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


# -- hard negatives ------------------------------------------------------------------------------


def test_labelled_negatives_come_before_mined_ones(bert: Path, tmp_path: Path) -> None:
    labelled = pair_of("find", "map").passage
    pairs = [
        replace(pair, negatives=(labelled,) if row % 2 else ())
        for row, pair in enumerate(PAIRS[:8])
    ]
    stage = Stage(name="a", loop=LOOP, hard_negatives=2, depth=3)
    task = task_of(bert, tmp_path, stage, pairs)
    task.prepare(0)
    mined = np.load(tmp_path / "mined-0.npy")

    assert mined.shape == (8, 3)
    drawn: set[tuple[int, str]] = set()
    for number in range(12):
        batch = task.batch(number)
        negatives = words(task, batch.passages[0])[8:]
        for slot, row in enumerate(batch.rows.tolist()):
            candidates = [spaced(task.negatives.candidates[candidate]) for candidate in mined[row]]
            first, second = negatives[2 * slot : 2 * slot + 2]
            assert first == spaced(labelled) if row % 2 else first in candidates
            assert second in candidates
            drawn.add((row, second))
    assert len(drawn) > 16  # at random, not always the best


@pytest.mark.parametrize(("share", "low", "high"), [(0.0, 0, 0), (0.5, 60, 130), (1.0, 192, 192)])
def test_hard_negatives_are_labelled_in_the_stages_share(
    bert: Path, tmp_path: Path, share: float, low: int, high: int
) -> None:
    """The paper draws all of them from the ranking; by default the labelled ones come first."""
    labelled = "return path"
    pairs = [replace(pair, negatives=(labelled,)) for pair in PAIRS]
    stage = Stage(name="a", loop=LOOP, hard_negatives=1, depth=1, labelled_share=share)
    task = task_of(bert, tmp_path, stage, pairs)
    task.negatives.candidates = mining.candidate_passages(pairs)
    task.negatives.mined = np.zeros((len(pairs), 1), np.int32)
    task.negatives.round = 0

    drawn = [
        negative
        for number in range(24)
        for negative in words(task, task.batch(number).passages[0])[LOOP.batch_size :]
    ]
    assert len(drawn) == 192
    assert low <= drawn.count(labelled) <= high


def test_hard_negatives_are_mined_every_refresh_epochs(bert: Path, tmp_path: Path) -> None:
    task = task_of(bert, tmp_path, Stage(name="a", loop=LOOP, hard_negatives=1, depth=3, refresh=2))
    per_round = 2 * task.batches_per_epoch
    task.prepare(0)
    first = (tmp_path / "mined-0.npy").read_bytes()

    assert task.ready(per_round - 1)
    assert not task.ready(per_round)

    with torch.no_grad():
        next(task.model.parameters()).add_(torch.randn(next(task.model.parameters()).shape))
    task.prepare(per_round)
    assert (tmp_path / "mined-1.npy").read_bytes() != first
    resumed = task_of(bert, tmp_path, task.stage)
    resumed.prepare(per_round + 1)  # within a round: reads the file of its beginning
    assert same(resumed.negatives.mined, np.load(tmp_path / "mined-1.npy"))
    np.save(tmp_path / "mined-0.npy", np.zeros((2, 3), np.int32))
    resumed.prepare(0)  # at the beginning of a round: replaces the file of another run
    assert (tmp_path / "mined-0.npy").read_bytes() == first


def mine_share(base: Path, out: Path) -> None:
    """Mine in this process's share, and write how many texts it encoded at a time."""
    calls: list[int] = []
    accelerator = Accelerator(cpu=True)
    plain = mining.encode

    def counting(model: Any, texts: Any, *rest: Any) -> Any:
        calls.append(len(texts))
        return plain(model, texts, *rest)

    mining.encode = counting
    mining._QUERIES_AT_ONCE, mining._PASSAGES_AT_ONCE = 3, 5
    mining.mine(tiny(base), PAIRS[:21], out, depth=4, accelerator=accelerator)
    Path(f"{out}.{accelerator.process_index}").write_text(repr(calls))


def share_both(base: Path, directory: Path) -> None:
    """Train and then mine, in one start of two processes: importing torch takes seconds."""
    share_and_save(base, directory / "trained")
    mine_share(base, directory / "mined.npy")


@pytest.fixture(scope="module")
def shared(bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where two processes have trained and mined."""
    directory = tmp_path_factory.mktemp("shared")
    (directory / "trained").mkdir()
    run_two_processes(share_both, bert, directory)
    return directory


def test_two_processes_mine_their_shares(
    bert: Path, shared: Path, tmp_path: Path, accelerator: Accelerator
) -> None:
    mining.mine(tiny(bert), PAIRS[:21], tmp_path / "one.npy", depth=4, accelerator=accelerator)

    assert np.load(shared / "mined.npy").tolist() == np.load(tmp_path / "one.npy").tolist()
    # Passages, then queries: 11 and 10 of 21, each in one process only.
    encoded = {(shared / f"mined.npy.{process}").read_text() for process in (0, 1)}
    assert encoded == {"[11, 11]", "[10, 10]"}
    assert not list(shared.glob(".*"))


# -- whole runs ----------------------------------------------------------------------------------


HELD = '{name = "held", path = "dev.jsonl", format = "pairs"}'


def write_recipe(home: Path, base: Path, changes: Callable[[str], str] = str) -> Path:
    """Write a recipe of two stages on 24 pairs, which mines hard negatives three times."""
    lines = [
        {"queries": pair.queries, "code": pair.passage, "language": "python"} for pair in PAIRS
    ]
    write_jsonl(home / "pairs.jsonl", lines[:24])
    write_jsonl(home / "dev.jsonl", ({**line, "query": line["queries"][0]} for line in lines))
    text = f"""
        name = "tiny"
        seed = 3
        model = {{base = "{base}", max_query_tokens = 16, max_passage_tokens = 48, max_target_tokens = 32}}
        pairs = [{{format = "pairs", path = "pairs.jsonl"}}]
        dev = [{HELD}]
        export = {{max_tokens = 48, quantization = "none", base_share = 0.25}}

        [[stage]]
        name = "pretrain"
        mep = 1.0
        loop = {{batch_size = 8, epochs = 2, learning_rate = 1e-3, every = 4, precision = "fp32"}}

        [[stage]]
        name = "finetune"
        temperature = 0.1
        hard_negatives = 1
        depth = 5
        loop = {{batch_size = 8, epochs = 3, learning_rate = 1e-3, every = 2, precision = "fp32"}}
    """
    path = home / "recipe.toml"
    path.write_text(changes(text))
    return path


TRAIN = ("train", "santa", "--cpu", "--config")


def command(*arguments: object) -> None:
    """Run `purlin ...` in this process."""
    terminated = signal.getsignal(signal.SIGTERM)
    before, sys.argv = sys.argv, ["purlin", *map(str, arguments)]

    try:
        cli.main()
    except SystemExit as exit_info:
        if exit_info.code:
            raise
    finally:
        sys.argv = before
        signal.signal(signal.SIGTERM, terminated)


@pytest.fixture(scope="module")
def trained(bases: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("trained")
    recipe = write_recipe(home, bases["bert"])
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    AcceleratorState._reset_state(reset_partial_state=True)
    command(*TRAIN, recipe, "--out", home / "out")
    torch.set_num_threads(threads)
    return home


def test_a_trained_encoder_builds_an_index(
    trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    encoder = Encoder.load(trained / "out/tiny")

    assert encoder.encode(["read the file"], role="query").shape == (1, 32)

    card = json.loads((trained / "out/tiny/encoder.json").read_text())
    assert card["trained_on"][0].startswith("pairs.jsonl")
    assert card["measures"].keys() == {"dev mean", "dev held MRR@100"}
    (trained / "code").mkdir()
    (trained / "code/shop.py").write_text(
        'def copy_map(map, mode):\n    """Copy the map."""\n    return map.copy(mode)\n'
    )
    options = ("--home", trained / "home", "--encoder", trained / "out/tiny")
    command("index", "build", "code", trained / "code", "--name", "shop", *options)
    command("search", "shop", "copy the map", *options)
    assert "copy_map" in capsys.readouterr().out


def test_the_export_is_averaged_with_the_base(trained: Path, bert: Path) -> None:
    finetune = trained / "out/finetune"
    state = json.loads((max(finetune.glob("step-*")) / "training.json").read_text())["state"]
    best = finetune / f"step-{state['best_step']:06d}"
    weights = [
        load_file(directory / "model.safetensors")
        for directory in (bert, best, trained / "out/averaged")
    ]
    name = "encoder.layer.0.attention.self.query.weight"

    torch.testing.assert_close(weights[2][name], 0.25 * weights[0][name] + 0.75 * weights[1][name])
    assert not torch.equal(weights[0][name], weights[1][name])


def test_a_run_records_what_was_masked(trained: Path) -> None:
    report = (trained / "out" / REPORT).read_text()
    assert "masks: identifiers by Python's tokenizer and tree-sitter" in report
    assert "pairs; 0 removed as copies" in report


def test_the_card_has_the_measures_of_the_export(trained: Path) -> None:
    recipe = config.load_recipe(trained / "recipe.toml", SantaRecipe)
    mixed = load_text_model(recipe.model, trained / "out/averaged")
    expected = DevEvaluator(
        recipe.dev, mixed, make_accelerator(LoopSettings(precision="fp32"), cpu=True)
    ).measure()
    assert json.loads((trained / "out/tiny/encoder.json").read_text())["measures"] == pytest.approx(
        expected
    )


def test_a_finished_run_is_only_exported_again(trained: Path, bert: Path) -> None:
    stages = [
        path for stage in ("pretrain", "finetune") for path in (trained / "out" / stage).rglob("*")
    ]
    kept = (".safetensors", ".png", ".npy")
    before = {path: path.stat().st_mtime_ns for path in stages if path.suffix in kept}
    exported = (trained / "out/tiny/model.onnx").stat().st_mtime_ns
    command(*TRAIN, trained / "recipe.toml", "--out", trained / "out")

    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert (trained / "out/tiny/model.onnx").stat().st_mtime_ns > exported


# Each run is killed in a process of its own, forked so that torch is imported once.
KILLED = """
import os, signal, sys
from pathlib import Path
from purlin.training.config import load_recipe
from purlin.training.santa.recipe import SantaRecipe
from purlin.training.santa.run import train_santa

recipe, out = load_recipe(Path(sys.argv[1]), SantaRecipe), Path(sys.argv[2])

def killing(stage, step):
    def of_stage(name):
        def progress(number, total, values):
            if (name, number) == (stage, step):
                os.kill(os.getpid(), signal.SIGKILL)
        return progress
    return of_stage

for stage, step in (("pretrain", 5), ("finetune", 5)):
    pid = os.fork()
    if not pid:
        train_santa(recipe, out, progress=killing(stage, step), say=lambda line: None, cpu=True)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    logged = len((out / stage / "metrics.jsonl").read_text().splitlines())
    print(stage, os.waitstatus_to_exitcode(status), logged)
"""


def stopped_run(
    recipe: SantaRecipe, out: Path, at: int, say: Callable[[str], object] = str
) -> list[tuple[str, int]]:
    """Train until a step of this number, and return the steps of each stage."""
    steps = list[tuple[str, int]]()

    def progress(name: str) -> Callable[[int, int, Mapping[str, float]], None]:
        def step(number: int, total: int, values: Mapping[str, float]) -> None:
            steps.append((name, number))
            if number == at:
                raise KeyboardInterrupt

        return step

    with pytest.raises(KeyboardInterrupt):
        train_santa(recipe, out, progress=progress, say=say, cpu=True)
    return steps


def test_a_killed_run_resumes_along_the_same_curve(trained: Path, tmp_path: Path) -> None:
    printed = run_script(KILLED, trained / "recipe.toml", tmp_path)
    expected = [f"pretrain {-signal.SIGKILL} 5", f"finetune {-signal.SIGKILL} 5"]
    assert printed.splitlines() == expected
    recipe = config.load_recipe(trained / "recipe.toml", SantaRecipe)
    # The run is resumed from the checkpoint of step 4; 9 is the last step, no need to export.
    assert stopped_run(recipe, tmp_path, 9) == [("finetune", number) for number in range(5, 10)]
    for stage in ("pretrain", "finetune"):
        assert metrics_rows(tmp_path / stage) == metrics_rows(trained / "out" / stage)


def test_a_run_is_not_resumed_with_other_texts(bert: Path, tmp_path: Path) -> None:
    recipe = config.load_recipe(write_recipe(tmp_path, bert), SantaRecipe)
    stopped_run(recipe, tmp_path / "out", 5)
    kept = (tmp_path / "pairs.jsonl").read_text()

    for changed in (kept.replace("open", "shut"), "".join(kept.splitlines(keepends=True)[:-4])):
        (tmp_path / "pairs.jsonl").write_text(changed)
        with pytest.raises(InvalidInput, match="other texts"):
            stopped_run(recipe, tmp_path / "out", 5)

    (tmp_path / "pairs.jsonl").write_text(kept)
    assert stopped_run(recipe, tmp_path / "out", 5) == [("pretrain", 5)]


# -- several processes ---------------------------------------------------------------------------


def share(base: Path, directory: Path) -> SantaTask:
    """Train three steps with every feature, on any number of processes."""
    stage = Stage(
        name="a",
        loop=replace(LOOP, accumulation=2),
        temperature=0.1,
        mep=1.0,
        hard_negatives=1,
        depth=5,
        teacher=StageTeacher(base=base),
    )
    pairs = [replace(pair, passage=pair.passage * (1 + row % 3)) for row, pair in enumerate(PAIRS)]
    task = task_of(base, directory, stage, pairs)
    train(task, stage.loop, directory, task.accelerator, seed=1, recipe={})

    return task


def share_and_save(base: Path, directory: Path) -> None:
    """Write each process's weights after training."""
    task = share(base, directory)
    weights = {name: weight.contiguous() for name, weight in task.model.state_dict().items()}
    process, processes = task.accelerator.process_index, task.accelerator.num_processes
    save_file(weights, directory / f"weights-{process}-of-{processes}.safetensors")


def test_two_processes_train_as_one_does(bert: Path, shared: Path, tmp_path: Path) -> None:
    alone, together = share(bert, tmp_path / "one"), shared / "trained"

    for single_row, shared_row in zip(
        metrics_rows(tmp_path / "one"), metrics_rows(together), strict=True
    ):
        assert shared_row == pytest.approx(single_row, abs=1e-4)
    first, second = (
        load_file(together / f"weights-{process}-of-2.safetensors") for process in (0, 1)
    )
    for name, weight in alone.model.state_dict().items():
        assert torch.equal(first[name], second[name])
        # The gradients of these biases are rounding errors, which Adam scales up.
        if not name.endswith(("key.bias", "in_proj_bias")):
            torch.testing.assert_close(first[name], weight, atol=1e-4, rtol=1e-4)
    moments = [
        load_file(directory / "step-000003" / OPTIMIZER)
        for directory in (tmp_path / "one", together)
    ]
    for name, value in moments[0].items():
        torch.testing.assert_close(moments[1][name], value, atol=1e-4, rtol=1e-4)


# -- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("batch_size = 8", "batch_size = 64", "A batch of 64 exceeds the 24 pairs"),
        ('name = "finetune"', 'name = "pretrain"', "Stages need different names"),
        (HELD, f"{HELD}, {HELD}", "Dev sets need different names; these are held, held"),
        ('name = "finetune"', 'name = "b"\npairs = ["c"]', "named 'c'; give each a name."),
        ('name = "finetune"', 'name = "../up"', "letters, digits and dashes"),
        ("depth = 5", "depth = 0", "depth must be from 1"),
        ("hard_negatives = 1", "hard_negatives = 6", "depth must be from 6"),
        ("mep = 1.0", "sda = 0.0", "trains nothing"),
        ('every = 2, precision = "fp32"', 'every = 2, precision = "bf16"', "same precision"),
        ("mep = 1.0", "weights = [2.0]", "0 pairs and 1 weights"),
        ('path = "dev.jsonl"', 'path = "dev.jsonl", measure = "MAP"', "must be one of 'MRR@100'"),
        ('name = "finetune"', 'name = "tiny"', "has the recipe's name"),
        ('name = "finetune"', 'name = "averaged"', "Rename the stage"),
        ('name = "tiny"', 'name = "averaged"', "Rename the recipe"),
        ("max_target_tokens = 32", "max_target_tokens = 32, scratch = {dim = 16}", "leave base_share out"),
        ("seed = 3", "seed = -1", "seed must be from 0"),
        ("max_tokens = 48", "max_tokens = 65", "export.max_tokens is 65, but the model has 64 positions"),
        ("mep = 1.0", "part = 0", "part must be from 1"),
        ("mep = 1.0", 'teacher = {base = "none"}', "none does not exist"),
        ("mep = 1.0", 'teacher = {base = ".", weight = 0}', "weight must be from 0.001"),
        ("mep = 1.0", 'mep = 1.0\nsda = 0.0\ntrains = "decoder"\nteacher = {base = "."}', "leave the teacher out"),
    ],
)  # fmt: skip
def test_an_invalid_recipe_is_one_error_line(
    bert: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, words: str
) -> None:
    recipe = write_recipe(tmp_path, bert, lambda text: text.replace(old, new, 1))

    with pytest.raises(SystemExit) as exit:
        command(*TRAIN, recipe, "--out", tmp_path / "out")
    printed = " ".join(capsys.readouterr().err.split())
    assert exit.value.code == 1
    assert words in printed
    assert not (tmp_path / "out").exists()


def test_missing_libraries_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name: None if name == "accelerate" else name
    )

    with pytest.raises(SystemExit):
        command(*TRAIN, tmp_path / "recipe.toml")
    printed = capsys.readouterr().err
    assert "Training needs accelerate. Run `make install-dev`" in printed
    assert "Traceback" not in printed


def test_a_recipe_needs_pairs_and_a_stage() -> None:
    pairs, stage = (PairSource("pairs", Path("pairs.jsonl")),), (Stage(name="a"),)
    with pytest.raises(PurlinError, match=r"at least one \[\[pairs\]\]"):
        SantaRecipe(name="tiny", pairs=(), stage=stage)
    with pytest.raises(PurlinError, match=r"at least one \[\[stage\]\]"):
        SantaRecipe(name="tiny", pairs=pairs, stage=())


def test_a_stage_weighs_the_sources_it_takes() -> None:
    pairs = tuple(PairSource("pairs", Path("x"), name=name, weight=0.5) for name in "abc")
    named = Stage(name="named", pairs=("c", "a"), weights=(3.0, 2.0))
    recipe = SantaRecipe(
        name="tiny", pairs=pairs, stage=(named, Stage(name="few", pairs=("b",)), Stage(name="all"))
    )

    assert [recipe.sources_of(stage) for stage in recipe.stage] == [
        {0: 2.0, 2: 3.0}, {1: 0.5}, {0: 0.5, 1: 0.5, 2: 0.5}
    ]  # fmt: skip
    with pytest.raises(InvalidInput, match=r"weights must be from 1e-06 to 100, not 0"):
        Stage(name="a", pairs=("a",), weights=(0.0,))


# -- recipes -------------------------------------------------------------------------------------

CONFIGS = ROOT / "configs"


RECIPES = [*CONFIGS.glob("santa-*.toml"), CONFIGS / "labels-minilm.toml"]


@pytest.mark.parametrize("path", sorted(RECIPES), ids=lambda path: path.stem)
def test_shipped_recipes_are_valid(path: Path, tmp_path: Path) -> None:
    assert load_without_data(path, SantaRecipe, tmp_path).stage


# Per stage its batch size, rate, and epochs if the paper has them.
PAPER = {
    "santa-codet5-base": [(16, 5e-5, 6), (16, 1e-5, 6), (16, 1e-6, None)],
    "santa-t5-base": [(16, 1e-4, 6), (16, 5e-5, 60), (16, 1e-5, None)],
    "santa-codesearch": [(128, 5e-5, 10), (128, 2e-5, 12)],
    "santa-advtest-128": [(128, 5e-5, 10), (128, 1e-5, 12)],
}


@pytest.mark.parametrize("name", PAPER)
def test_recipes_have_the_papers_numbers(name: str) -> None:
    """Section 4 and appendices A.2 and A.4."""
    stages = tomllib.loads((CONFIGS / f"{name}.toml").read_text())["stage"]

    loops = [stage["loop"] for stage in stages]
    for loop, (batch_size, rate, epochs) in zip(loops, PAPER[name], strict=True):
        assert (loop["batch_size"], loop["learning_rate"]) == (batch_size, rate)
        assert loop["warmup"] == 0.1
        assert epochs in (loop.get("epochs"), None)
    assert (stages[-1]["depth"], stages[-1]["hard_negatives"]) == (100, 1)
    assert (stages[0]["sda"], stages[0]["mep"]) == (1.0, 1.0)


def test_the_papers_products_are_english_and_their_negatives_mined() -> None:
    content = tomllib.loads((CONFIGS / "santa-t5-base.toml").read_text())

    assert {source["locale"] for source in content["pairs"]} == {"us"}
    assert (content["dev"][0]["split"], content["pairs"][1]["split"]) == ("dev", "train")
    assert content["stage"][2]["labelled_share"] == 0.0


def test_what_the_paper_does_not_state_is_marked() -> None:
    for name in PAPER:
        lines = (CONFIGS / f"{name}.toml").read_text().splitlines()
        for key in ("max_norm", "precision", "weight_decay", "max_passage_tokens", "seed"):
            stated = [line for line in lines if line.startswith(f"{key} =")]
            assert stated
            assert all("not stated" in line for line in stated)
