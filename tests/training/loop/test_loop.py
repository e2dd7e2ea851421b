"""The training loop on a task of a few numbers, above all that it is resumed exactly."""

from __future__ import annotations

import errno
import json
import math
import shutil
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from purlin.index.errors import Busy, Damaged, InvalidInput, StorageFailed
from purlin.training.loop import precision, run
from purlin.training.loop.checkpoints import OPTIMIZER, STATE, dev_measures, recorded_precision
from purlin.training.loop.devices import add_gradients, make_accelerator
from purlin.training.loop.metrics import CURVES, METRICS, plot
from purlin.training.loop.prefetching import Prefetcher, default_workers
from purlin.training.loop.recorded_recipe import digest, same_recipe
from purlin.training.loop.run import Diverged, _Pace, train
from purlin.training.loop.settings import LoopSettings
from purlin.training.loop.task import Task
from purlin.training.models.saved_model import SavedModel
from tests.support.training_runs import largest_file, metrics_rows

RECIPE: dict[str, Any] = {"seed": 7, "where": Path("pairs.jsonl"), "stage": [{"rate": 0.01}]}
STEPS = 6
DRAW = plot


class Stop(Exception):
    pass


class Net(SavedModel):
    def __init__(self, inner: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, inner), nn.Dropout(0.5), nn.Linear(inner, 1))

    def forward(self, inputs: Tensor) -> Tensor:
        return self.layers(inputs)

    def fresh(self) -> list[nn.Parameter]:
        return list(self.layers[2].parameters())

    def save(self, directory: Path) -> None:
        save_file(self.state_dict(), directory / "model.safetensors")

    def load(self, directory: Path) -> None:
        self.load_state_dict(load_file(directory / "model.safetensors"))


class Regression(Task[tuple[int, Tensor]]):
    """Learns numbers from numbers.

    `measures` are the dev measures to come, `poisoned` the number of a batch of NaN.
    """

    def __init__(
        self, *, measures: Iterable[float] = (), poisoned: int | None = None, inner: int = 8
    ) -> None:
        torch.manual_seed(1)
        self.model = Net(inner)
        self.batches_per_epoch = 5
        self.measures, self.poisoned, self.log = iter(measures), poisoned, list[str]()

    def batch(self, number: int) -> tuple[int, Tensor]:
        self.log.append(f"batch {number}")
        inputs = torch.randn(8, 4, generator=torch.Generator().manual_seed(number))
        return number, inputs * math.nan if number == self.poisoned else inputs

    def prepare(self, number: int) -> None:
        self.log.append(f"prepare {number}")

    def backward(self, batch: tuple[int, Tensor]) -> dict[str, float]:
        loss = self.loss(batch[1])
        loss.backward()
        self.log.append(f"backward {batch[0]}")
        return {"loss": float(loss.detach()), "half": float(loss.detach()) / 2}

    def loss(self, batch: Tensor) -> Tensor:
        return ((self.model(batch)[:, 0] - batch.sum(1)) ** 2).mean()

    def describe(self, batch: tuple[int, Tensor]) -> str:
        return f"number {batch[0]}"

    def measure(self) -> dict[str, float]:
        assert not self.model.training
        value = next(self.measures, None)
        return {} if value is None else {"dev mean": value, "dev other": -value}


@pytest.fixture(autouse=True)
def accelerator(one_process: None) -> Accelerator:
    return make_accelerator(LoopSettings(precision="fp32"), cpu=True)


def settings(**changes: Any) -> LoopSettings:
    values = {"batch_size": 8, "steps": STEPS, "learning_rate": 0.01, "every": 2}
    return LoopSettings(**{**values, "precision": "fp32", **changes})


@pytest.fixture(autouse=True)
def empty_curves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw no curves, which takes longer than these runs."""
    monkeypatch.setattr(run, "plot", lambda directory: (directory / CURVES).touch())


def go(
    task: Any,
    directory: Path,
    loop_settings: LoopSettings,
    *,
    stop: int | None = None,
    **changes: Any,
) -> Path:
    """Train; after `stop` steps the run is interrupted."""

    def progress(step: int, total: int, values: Mapping[str, float]) -> None:
        if step == stop:
            raise Stop

    values = {"seed": 7, "recipe": RECIPE, "progress": progress, **changes}
    return train(
        task, loop_settings, directory, make_accelerator(loop_settings, cpu=True), **values
    )


def checkpoints(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir() if path.is_dir())


def same_files(directory: Path, expected: Path) -> bool:
    tensors = [
        (load_file(directory / name), load_file(expected / name))
        for name in ("model.safetensors", OPTIMIZER)
    ]
    return all(
        a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a) for a, b in tensors
    )


def test_a_stopped_run_resumes_along_the_same_curve(tmp_path: Path) -> None:
    loop_settings = settings()
    whole = go(Regression(), tmp_path / "whole", loop_settings)
    expected = metrics_rows(tmp_path / "whole")

    assert [row["step"] for row in expected] == list(range(1, STEPS + 1))
    for stop in range(1, STEPS + 1):
        directory = tmp_path / f"stopped-{stop}"
        with pytest.raises(Stop):
            go(Regression(), directory, loop_settings, stop=stop)
        resumed = go(Regression(), directory, loop_settings)
        assert metrics_rows(directory) == expected
        assert same_files(resumed, whole)


def test_another_seed_is_another_curve(tmp_path: Path) -> None:
    for seed in (1, 2):
        go(Regression(), tmp_path / str(seed), settings(), seed=seed)
    assert metrics_rows(tmp_path / "1") != metrics_rows(tmp_path / "2")  # by dropout alone


def test_a_finished_run_is_left_alone(tmp_path: Path) -> None:
    loop_settings = settings()
    first = go(Regression(measures=[0.5] * 3), tmp_path, loop_settings)
    before = {path: path.stat().st_mtime_ns for path in first.iterdir()}
    task = Regression()
    assert go(task, tmp_path, loop_settings) == first
    assert task.log == []
    assert {path: path.stat().st_mtime_ns for path in first.iterdir()} == before


@pytest.mark.parametrize(
    ("measures", "patience", "best", "last"),
    [
        ([0.1, 0.3, 0.2, 0.3, 0.9], 2, 4, 8),  # an equal measure is not better
        ([0.1, 0.3, 0.2, 0.4, 0.3], 2, 8, 10),
        ([0.5, 0.4, 0.3, 0.2, 0.1], 0, 2, 10),
        ([-0.5, -0.1, -0.2, -0.3, 0.0], 2, 4, 8),
        ([math.nan, 0.1, 0.05, 0.0, 0.9], 2, 4, 8),
    ],
)
def test_training_stops_early_with_the_best_checkpoint(
    tmp_path: Path, measures: list[float], patience: int, best: int, last: int
) -> None:
    loop_settings = settings(patience=patience, steps=10)
    checkpoint = go(Regression(measures=measures), tmp_path, loop_settings)

    assert checkpoint == tmp_path / f"step-{best:06d}"
    assert checkpoints(tmp_path) == sorted({f"step-{best:06d}", f"step-{last:06d}"})
    expected = {"dev mean": measures[best // 2 - 1], "dev other": -measures[best // 2 - 1]}
    assert dev_measures(checkpoint) == expected
    assert metrics_rows(tmp_path)[-1]["step"] == last


def test_a_run_may_result_in_its_last_checkpoint(tmp_path: Path) -> None:
    loop_settings = settings(result="last", steps=6)
    checkpoint = go(Regression(measures=[0.5, 0.9, 0.4]), tmp_path, loop_settings)

    assert checkpoint == tmp_path / "step-000006"
    assert dev_measures(checkpoint) == {"dev mean": 0.4, "dev other": -0.4}


def test_patience_is_resumed(tmp_path: Path) -> None:
    loop_settings, measures = settings(patience=2, steps=10), [0.5, 0.4, 0.3, 0.9]
    with pytest.raises(Stop):
        go(Regression(measures=measures), tmp_path, loop_settings, stop=5)
    assert (
        go(Regression(measures=measures[2:]), tmp_path, loop_settings) == tmp_path / "step-000002"
    )
    assert metrics_rows(tmp_path)[-1]["step"] == 6


def test_without_a_number_of_steps_each_epoch_is_measured(tmp_path: Path) -> None:
    task = Regression(measures=[0.1] * 9)

    assert task.batches_per_epoch == 5
    go(task, tmp_path, settings(every=0, steps=15))
    measured = [row["step"] for row in metrics_rows(tmp_path) if "dev mean" in row]
    assert measured == [5, 10, 15]


def test_steps_are_counted_as_numbers(tmp_path: Path) -> None:
    loop_settings = settings()
    go(Regression(), tmp_path, loop_settings)
    (tmp_path / "step-000006").rename(tmp_path / "step-1000000")
    state = tmp_path / "step-1000000" / STATE
    state.write_text(state.read_text().replace('"step": 6', '"step": 1000000'))
    (tmp_path / "step-999999").mkdir()
    assert go(Regression(), tmp_path, loop_settings).name == "step-1000000"


def test_a_loss_that_is_not_finite_stops_the_run(tmp_path: Path) -> None:
    loop_settings = settings()
    with pytest.raises(Diverged, match=r"nan.* at step 6, batch: number 5"):
        go(Regression(poisoned=5), tmp_path, loop_settings)
    assert checkpoints(tmp_path) == ["step-000004"]
    assert len(metrics_rows(tmp_path)) == 5
    go(Regression(), tmp_path, loop_settings)
    go(Regression(), tmp_path / "whole", loop_settings)
    assert metrics_rows(tmp_path) == metrics_rows(tmp_path / "whole")


def test_a_gradient_that_is_not_finite_stops_the_run(tmp_path: Path) -> None:
    class Root(Regression):
        def loss(self, batch: Tensor) -> Tensor:
            return (self.model(batch) * 0).sum().sqrt()

    task = Root()
    before = [weight.clone() for weight in task.model.parameters()]
    with pytest.raises(Diverged, match=r"gradient is nan at step 1, batch: number 0"):
        go(task, tmp_path, settings())
    assert all(torch.equal(a, b) for a, b in zip(before, task.model.parameters(), strict=True))


# -- storage -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left on device"), Exception("No space left")]
)
def test_a_full_disk_leaves_the_last_checkpoint(tmp_path: Path, error: Exception) -> None:
    class Full(Regression):
        saved = 0

        def save(self, directory: Path) -> None:
            super().save(directory)
            self.saved += 1
            if self.saved == 2:
                raise error

    loop_settings = settings()
    with pytest.raises(StorageFailed, match=r"No space left.*make room"):
        go(Full(), tmp_path, loop_settings)
    assert sorted(path.name for path in tmp_path.iterdir()) == [CURVES, METRICS, "step-000002"]
    go(Regression(), tmp_path, loop_settings)
    go(Regression(), tmp_path / "whole", loop_settings)
    assert metrics_rows(tmp_path) == metrics_rows(tmp_path / "whole")


def test_a_checkpoint_that_does_not_fit_is_one_error(tmp_path: Path) -> None:
    loop_settings = settings()
    with pytest.raises(Stop):
        go(Regression(inner=50_000), tmp_path, loop_settings, stop=3)
    with largest_file(200_000), pytest.raises(StorageFailed, match="cannot be written"):
        go(Regression(inner=50_000), tmp_path, loop_settings)
    assert checkpoints(tmp_path) == ["step-000002"]
    assert go(Regression(inner=50_000), tmp_path, loop_settings).name == "step-000006"


def test_a_bug_in_saving_is_not_a_full_disk(tmp_path: Path) -> None:
    class Broken(Regression):
        def save(self, directory: Path) -> None:
            raise AttributeError("no such thing")

    with pytest.raises(AttributeError):
        go(Broken(), tmp_path, settings())
    assert checkpoints(tmp_path) == []


def test_a_directory_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageFailed, match="file"):
        go(Regression(), tmp_path / "file" / "run", settings())


def test_a_digest_tells_texts_and_their_order_apart() -> None:
    digests = [digest(texts) for texts in (["a", "b"], ["b", "a"], ["ab"], ["a"], [])]
    assert len(set(digests)) == 5
    assert digest(iter(["a", "b"])) == digests[0]
    assert digest(["\ud800"]) != digest(["?"])


def test_a_second_run_in_a_directory_is_refused(tmp_path: Path) -> None:
    expected = go(Regression(), tmp_path / "alone", settings())

    def second_run(step: int, total: int, values: Mapping[str, float]) -> None:
        with pytest.raises(Busy, match=f"training in {tmp_path / 'both'}: wait for it"):
            go(Regression(), tmp_path / "both", settings())

    first = go(Regression(), tmp_path / "both", settings(), progress=second_run)
    assert same_files(first, expected)
    assert go(Regression(), tmp_path / "both", settings()) == first


def test_a_run_of_another_recipe_is_refused(tmp_path: Path) -> None:
    loop_settings = settings()
    go(Regression(), tmp_path, loop_settings)
    with pytest.raises(InvalidInput, match=r"another recipe.*--out"):
        go(Regression(), tmp_path, loop_settings, recipe={**RECIPE, "seed": 8})


# -- precision -----------------------------------------------------------------------------------


def in_precision(name: str, recorded: str | None = None) -> dict[str, Any]:
    """Return arguments of `go`; the recipe names `recorded`, by default the same precision."""
    loops = {"stage": [{"loop": {"precision": recorded or name, "steps": STEPS}}]}
    return {"loop_settings": settings(precision=name), "recipe": RECIPE | loops}


def steps_by_precision(checkpoint: Path) -> dict[str, str]:
    precision: dict[str, str] = json.loads((checkpoint / STATE).read_text())["state"]["precision"]
    return precision


def another_machine() -> None:
    """Reset accelerate, which has one precision per process."""
    AcceleratorState._reset_state(reset_partial_state=True)


def test_another_precision_is_reported_and_recorded(tmp_path: Path) -> None:
    lines: list[str] = []
    with pytest.raises(Stop):
        go(Regression(), tmp_path, **in_precision("fp32"), stop=3, say=lines.append)
    assert steps_by_precision(tmp_path / "step-000002") == {"1": "fp32"}
    assert recorded_precision(tmp_path.parent) == "fp32"
    with pytest.raises(Stop):
        go(Regression(), tmp_path, **in_precision("fp32"), stop=3, say=lines.append)
    assert lines == []

    another_machine()
    end = go(Regression(), tmp_path, **in_precision("bf16"), say=lines.append)
    assert lines == ["from step 3 on in bf16; the steps before were computed in fp32"]
    assert steps_by_precision(end) == {"1": "fp32", "3": "bf16"}
    assert recorded_precision(tmp_path.parent) == "bf16"

    go(Regression(), tmp_path, **in_precision("bf16"), say=lines.append)
    assert len(lines) == 1  # the run is finished: no step is computed


def test_a_checkpoint_of_an_earlier_version_has_no_precision(tmp_path: Path) -> None:
    with pytest.raises(Stop):
        go(Regression(), tmp_path, **in_precision("fp32"), stop=3)
    path = tmp_path / "step-000002" / STATE
    content = json.loads(path.read_text())
    del content["state"]["precision"]
    path.write_text(json.dumps(content))
    assert recorded_precision(tmp_path.parent) is None


def test_auto_keeps_the_recorded_precision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def mixed_precision(speedup: float) -> str:
        another_machine()
        monkeypatch.setattr(precision, "_measured", lambda: speedup)
        return make_accelerator(LoopSettings(), cpu=True, out=tmp_path).mixed_precision

    assert mixed_precision(1.0) == "no"
    another_machine()
    with pytest.raises(Stop):
        go(Regression(), tmp_path / "stage", **in_precision("bf16"), stop=3)
    assert mixed_precision(1.0) == "bf16"
    assert mixed_precision(0.01) == "no"
    (tmp_path / "stage/step-000002" / STATE).write_text("{")
    assert mixed_precision(1.0) == "no"  # damage is reported when the run is resumed


def test_recipes_are_the_same_in_any_precision() -> None:
    recipe = {
        "stage": ({"loop": LoopSettings().steps, "precision": "bf16"}, {"precision": "auto"}),
        "path": Path("a"),
    }
    recorded = {"stage": [{"loop": None, "precision": "auto"}, {}], "path": "a", "later": None}
    assert same_recipe(recipe, recorded)
    assert not same_recipe(recipe, {**recorded, "path": "b"})
    assert not same_recipe(recipe, {**recorded, "stage": recorded["stage"][:1]})


# -- time left -----------------------------------------------------------------------------------


def test_the_time_left_follows_the_pace() -> None:
    now = 0.0
    pace = _Pace(lambda: now)
    estimates = []
    # The run is resumed after step 4.
    for step, seconds in enumerate([60.0, 2.0, 2.0, 8.0, 2.0, 2.0], start=5):
        now += seconds
        estimates.append(pace.estimate(step, 10).get("seconds_left"))
    assert estimates == [None, None, 2.0 * 3, 4.0 * 2, 3.5, 0.0]


def test_only_progress_has_the_time_left(tmp_path: Path) -> None:
    estimates: list[float | None] = []

    def progress(step: int, total: int, values: Mapping[str, float]) -> None:
        estimates.append(values.get("seconds_left"))

    go(Regression(), tmp_path, settings(), progress=progress)

    assert estimates[:2] == [None, None]
    assert all(seconds is not None and seconds > 0 for seconds in estimates[2:-1])
    assert estimates[-1] == 0
    assert "seconds_left" not in (tmp_path / METRICS).read_text()


@pytest.mark.parametrize("name", [STATE, OPTIMIZER])
def test_a_damaged_checkpoint_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(Stop):
        go(Regression(measures=[0.5, 0.1]), tmp_path, settings(), stop=4)
    damaged = tmp_path / "step-000004" / name
    damaged.write_bytes(damaged.read_bytes()[:20])
    with pytest.raises(Damaged, match="step-000004 is damaged"):
        go(Regression(), tmp_path, settings())
    shutil.rmtree(damaged.parent)
    assert go(Regression(measures=[0.1, 0.7]), tmp_path, settings()).name == "step-000006"


def test_a_torn_line_of_metrics_is_dropped(tmp_path: Path) -> None:
    loop_settings = settings()
    with pytest.raises(Stop):
        go(Regression(), tmp_path, loop_settings, stop=3)
    with (tmp_path / METRICS).open("a") as stream:
        stream.write('{"step": 4, "loss": 0.1')
    go(Regression(), tmp_path, loop_settings)
    assert [row["step"] for row in metrics_rows(tmp_path)] == list(range(1, STEPS + 1))
    assert {path.name for path in tmp_path.iterdir()} == {METRICS, CURVES, "step-000006"}


def test_a_checkpoint_holds_the_recipe_and_no_pickle(tmp_path: Path) -> None:
    checkpoint = go(Regression(measures=[0.1, 0.2, 0.3]), tmp_path, settings())

    recorded = json.loads((checkpoint / STATE).read_text())["recipe"]
    assert recorded == {**RECIPE, "where": "pairs.jsonl"}
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} == {".json", ".jsonl", ".png", ".safetensors"}
    pickles = (b"PK", b"\x80\x02", b"\x80\x04", b"\x80\x05")
    assert not [path for path in files if path.read_bytes().startswith(pickles)]


def test_metrics_and_curves_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "plot", DRAW)
    go(Regression(measures=[0.1, 0.2, 0.3]), tmp_path, settings())
    lines = [json.loads(line) for line in (tmp_path / METRICS).read_text().splitlines()]
    always = {"step", "loss", "half", "gradient_norm", "learning_rate", "seconds", "pairs_per_s"}
    assert [set(line) - always for line in lines] == [set(), {"dev mean", "dev other"}] * 3
    assert all(line["seconds"] > 0 and line["pairs_per_s"] > 0 for line in lines)
    picture = (tmp_path / CURVES).read_bytes()
    assert picture.startswith(b"\x89PNG\r\n\x1a\n")
    assert picture.endswith(b"IEND\xaeB`\x82")


# -- the step ------------------------------------------------------------------------------------


def first_moments(checkpoint: Path) -> Tensor:
    """The gradients of a first step: Adam's first moment is a tenth of them."""
    kept = load_file(checkpoint / OPTIMIZER)
    return torch.cat(
        [kept[name].flatten() * 10 for name in sorted(kept) if name.endswith("exp_avg")]
    )


def test_gradients_are_clipped(tmp_path: Path) -> None:
    free = first_moments(go(Regression(), tmp_path / "free", settings(steps=1, max_norm=1e9)))
    clipped = first_moments(go(Regression(), tmp_path / "cut", settings(steps=1, max_norm=0.5)))
    assert free.norm() > 1
    torch.testing.assert_close(clipped, free * 0.5 / free.norm())
    assert metrics_rows(tmp_path / "cut")[0]["gradient_norm"] == pytest.approx(
        float(free.norm()), rel=1e-5
    )


def test_what_is_fresh_learns_at_its_own_rate(tmp_path: Path) -> None:
    task = Regression()
    before = [weight.detach().clone() for weight in task.model.parameters()]
    rates = settings(steps=2, learning_rate=1e-3, fresh_rate=0.0, weight_decay=0.5, warmup=0.5)

    go(task, tmp_path, rates)
    changed = [
        not torch.equal(old, new) for old, new in zip(before, task.model.parameters(), strict=True)
    ]

    assert changed == [True, True, False, False]


def test_weights_decay_and_biases_do_not(tmp_path: Path) -> None:
    class Idle(Regression):
        def loss(self, batch: Tensor) -> Tensor:
            return self.model(batch).sum() * 0

    task = Idle()
    before = {name: weight.clone() for name, weight in task.model.named_parameters()}
    go(task, tmp_path, settings(steps=1, learning_rate=0.1, weight_decay=0.5))
    for name, weight in task.model.named_parameters():
        torch.testing.assert_close(
            weight, before[name] * (0.95 if name.endswith("weight") else 1.0)
        )


def test_epsilon_bounds_the_step(tmp_path: Path) -> None:
    task = Regression()
    before = [weight.detach().clone() for weight in task.model.parameters()]
    with_epsilon = settings(steps=1, learning_rate=0.1, weight_decay=0.0, epsilon=1.0)
    gradients = first_moments(go(task, tmp_path, with_epsilon))
    moved = torch.cat(
        [
            (old - new.detach()).flatten()
            for old, new in zip(before, task.model.parameters(), strict=True)
        ]
    )

    # Adam's first step.
    expected = 0.1 * gradients / (gradients.abs() + 1.0)
    torch.testing.assert_close(
        moved.abs().sort()[0], expected.abs().sort()[0], atol=1e-6, rtol=1e-4
    )


def test_the_rate_rises_and_falls_along_straight_lines(tmp_path: Path) -> None:
    loop_settings = settings(steps=10, warmup=0.4, learning_rate=0.08)
    go(Regression(), tmp_path, loop_settings)

    rates = [row["learning_rate"] / 0.08 for row in metrics_rows(tmp_path)]
    assert rates == pytest.approx([1 / 4, 2 / 4, 3 / 4, 1, 5 / 6, 4 / 6, 3 / 6, 2 / 6, 1 / 6, 0])


@given(total=st.integers(1, 500), warmup=st.floats(0, 1))
def test_the_rate_is_never_outside_its_bounds(total: int, warmup: float) -> None:
    loop_settings = LoopSettings(warmup=warmup, learning_rate=1.0)
    rates = [loop_settings.rate(step, total) for step in range(1, total + 1)]
    top = rates.index(max(rates))
    assert max(rates) == pytest.approx(1.0)
    assert all(0 <= rate <= 1 + 1e-9 for rate in rates)
    assert rates == [*sorted(rates[:top]), *sorted(rates[top:], reverse=True)]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"steps": 3}, 3),
        ({"epochs": 2.0}, 10),
        ({"epochs": 0.01}, 1),
    ],
)
def test_how_long_a_run_is(changes: dict[str, Any], expected: int) -> None:
    assert LoopSettings(**changes).total_steps(5) == expected


def test_the_next_batch_waits_until_the_task_is_ready(tmp_path: Path) -> None:
    class Unready(Regression):
        def ready(self, number: int) -> bool:
            return number != 2

    task = Unready()
    go(task, tmp_path, settings(steps=4))
    assert task.log.index("backward 1") < task.log.index("prepare 2") < task.log.index("batch 2")
    assert [line for line in task.log if line.startswith("backward")] == [
        f"backward {n}" for n in range(4)
    ]


def test_an_error_while_making_a_batch_is_raised(tmp_path: Path) -> None:
    class Broken(Regression):
        def batch(self, number: int) -> tuple[int, Tensor]:
            if number == 3:
                raise InvalidInput("no such pair")
            return super().batch(number)

    with pytest.raises(InvalidInput, match="no such pair"):
        go(Broken(), tmp_path, settings())
    assert checkpoints(tmp_path) == ["step-000002"]


def test_a_batch_that_processes_cannot_share_is_refused(tmp_path: Path) -> None:
    three = cast(Accelerator, SimpleNamespace(num_processes=3))
    with pytest.raises(InvalidInput, match="batch_size 8 must be a multiple of the 3 processes"):
        train(Regression(), settings(), tmp_path, three, seed=1, recipe={})


@pytest.mark.parametrize(
    ("name", "value"),
    [("batch_size", 1), ("epochs", 0.0), ("warmup", 1.5),
     ("learning_rate", -1.0), ("every", -1), ("steps", 0)],
)  # fmt: skip
def test_a_setting_outside_its_range_is_named(name: str, value: float) -> None:
    with pytest.raises(InvalidInput, match=name):
        LoopSettings(**{name: value})


# -- workers and fp16's factor -------------------------------------------------------------------


class Mining(Regression):
    """Draws batches from a number that is mined, from the weights, every four batches."""

    mined = -1

    def ready(self, number: int) -> bool:
        return number // 4 == self.mined

    def prepare(self, number: int) -> None:
        self.mined = number // 4

    def batch(self, number: int) -> tuple[int, Tensor]:
        return number, torch.full((8, 4), 10.0 * self.mined + number)


@pytest.mark.parametrize("kind", [Regression, Mining])
def test_workers_prepare_the_same_batches_in_order(kind: type[Regression]) -> None:
    batches = {}
    for workers in (0, 2):
        task = kind()
        with closing(Prefetcher(task, 3, 14, workers)) as prefetcher:
            batches[workers] = [prefetcher.next() for _ in range(3, 14)]

    assert [number for number, _ in batches[2]] == list(range(3, 14))
    for (_, expected), (_, inputs) in zip(batches[0], batches[2], strict=True):
        assert torch.equal(expected, inputs)


def test_a_run_with_workers_is_the_same_run(tmp_path: Path) -> None:
    """Also where a run without them was stopped: they do not belong to the recipe."""
    alone = go(Regression(), tmp_path / "alone", settings(workers=0))
    with pytest.raises(Stop):
        go(Regression(), tmp_path / "both", settings(workers=0), stop=3)
    both = go(Regression(), tmp_path / "both", settings(workers=2))

    expected, weights = (load_file(path / "model.safetensors") for path in (alone, both))
    assert all(torch.equal(expected[name], weights[name]) for name in expected)


def test_an_error_in_a_worker_reaches_the_run(tmp_path: Path) -> None:
    class Broken(Regression):
        def batch(self, number: int) -> tuple[int, Tensor]:
            raise InvalidInput(f"pair {number} cannot be read", field="path")

    with pytest.raises(InvalidInput, match=r"^pair 0 cannot be read$") as error:
        go(Broken(), tmp_path, settings(workers=1))
    assert error.value.field == "path"


def test_a_cpu_has_no_workers_and_a_gpu_has_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("purlin.training.loop.prefetching.available_cpus", lambda: 16)
    assert default_workers(torch.device("cpu"), 1) == 0
    assert default_workers(torch.device("cuda"), 1) == 4
    assert default_workers(torch.device("cuda"), 8) == 1

    # A container's quota counts: workers beyond it would slow the training down.
    monkeypatch.setattr("purlin.training.loop.prefetching.available_cpus", lambda: 2)
    assert default_workers(torch.device("cuda"), 1) == 1


def test_workers_need_a_system_that_forks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("multiprocessing.get_all_start_methods", lambda: ["spawn"])
    with pytest.raises(InvalidInput, match="set workers = 0"):
        Prefetcher(Regression(), 0, 4, 1)


class Scaled(Regression):
    """Multiplies its losses by a factor, as a run in fp16 does."""

    def __init__(self, accelerator: Accelerator) -> None:
        super().__init__()
        self.accelerator = accelerator

    def backward(self, batch: tuple[int, Tensor]) -> dict[str, float]:
        loss = self.loss(batch[1])
        add_gradients(loss, self.accelerator)
        return {"loss": float(loss.detach()), "half": float(loss.detach()) / 2}


def go_scaled(directory: Path, scale: float, **changes: Any) -> Path:
    """Train on a CPU with the factor that a GPU's fp16 has."""
    loop_settings = settings()
    accelerator = make_accelerator(loop_settings, cpu=True)
    accelerator.scaler = torch.amp.GradScaler("cpu", init_scale=scale, growth_interval=3)
    values = {"seed": 7, "recipe": RECIPE, **changes}
    return train(Scaled(accelerator), loop_settings, directory, accelerator, **values)


def test_a_factor_of_the_losses_does_not_change_the_weights(tmp_path: Path) -> None:
    plain = go(Regression(), tmp_path / "plain", settings())
    scaled = go_scaled(tmp_path / "scaled", 2.0**12)

    expected, weights = (load_file(path / "model.safetensors") for path in (plain, scaled))
    for name in expected:
        torch.testing.assert_close(weights[name], expected[name], rtol=1e-5, atol=1e-6)


def test_a_step_that_overflows_is_left_out_and_scaled_less(tmp_path: Path) -> None:
    last = go_scaled(tmp_path, 2.0**127)
    weights = load_file(last / "model.safetensors")
    assert all(torch.isfinite(weight).all() for weight in weights.values())
    rows = metrics_rows(tmp_path)
    assert not math.isfinite(rows[0]["gradient_norm"])

    state = json.loads((last / "training.json").read_text())["state"]
    assert 1.0 <= state["scaler"]["scale"] < 2.0**127


def test_a_resumed_run_keeps_the_factor(tmp_path: Path) -> None:
    whole = go_scaled(tmp_path / "whole", 2.0**12)

    def stop(step: int, total: int, values: Mapping[str, float]) -> None:
        if step == 5:
            raise Stop

    with pytest.raises(Stop):
        go_scaled(tmp_path / "parts", 2.0**12, progress=stop)
    parts = go_scaled(tmp_path / "parts", 1.0)

    states = [json.loads((path / "training.json").read_text())["state"] for path in (whole, parts)]
    assert states[0]["scaler"] == states[1]["scaler"]
