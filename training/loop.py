"""The training loop: one for all three papers, on CPU, GPU, and several of either under `accelerate launch`.

A step is a function of the weights, the seed and its number alone (batches are drawn and random numbers seeded by
number), so a run that is killed and started again goes on along the same curve.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Generic, Literal, Protocol, TypeVar

import torch
from accelerate import Accelerator, PartialState
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from index.errors import Damaged, InvalidInput, StorageFailed
from training.attention import float32_gradients
from training.config import in_range
from training.precision import Precision, choose

B = TypeVar("B")
METRICS, CURVES, STATE, OPTIMIZER = (
    "metrics.jsonl",
    "curves.png",
    "training.json",
    "optimizer.safetensors",
)


class Diverged(InvalidInput):
    """The loss is no number any more. The last checkpoint is as it was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopSettings:
    """How long, how fast, how often. `batch_size` counts pairs over all processes; one step takes `accumulation` of
    them. `every` steps (0: after each epoch) and at the end the dev measure is taken and a checkpoint written; after
    `patience` measures without a better one training stops (0: never). `warmup` is a share of all steps; after it the
    learning rate falls linearly to 0; `fresh_rate` times as high for what the base model lacks and starts at random.
    `precision` "auto" is bf16 where that is clearly faster, else fp32.
    """

    batch_size: int = 128
    accumulation: int = 1
    epochs: float = 1.0
    steps: int | None = None
    learning_rate: float = 2e-5
    fresh_rate: float = 1.0
    warmup: float = 0.1
    weight_decay: float = 0.01
    max_norm: float = 1.0
    every: int = 200
    patience: int = 0
    precision: Literal["auto", "bf16", "fp32"] = "auto"

    def __post_init__(self) -> None:
        in_range("batch_size", self.batch_size, 2, 1 << 20)
        in_range("accumulation", self.accumulation, 1, 10_000)
        in_range("epochs", self.epochs, 1e-6, 100_000)
        if self.steps is not None:
            in_range("steps", self.steps, 1, 1 << 30)
        in_range("learning_rate", self.learning_rate, 0.0, 1.0)
        in_range("fresh_rate", self.fresh_rate, 0.0, 1e6)
        in_range("warmup", self.warmup, 0.0, 1.0)
        in_range("weight_decay", self.weight_decay, 0.0, 1.0)
        in_range("max_norm", self.max_norm, 1e-9, 1e9)
        in_range("every", self.every, 0, 1 << 30)
        in_range("patience", self.patience, 0, 1 << 30)

    def total_steps(self, batches_per_epoch: int) -> int:
        """Steps of the whole run."""
        return self.steps or max(1, math.ceil(self.epochs * batches_per_epoch / self.accumulation))

    def rate(self, step: int, total: int) -> float:
        """Learning rate of step 1 to `total`."""
        rising = max(1, round(self.warmup * total))
        share = step / rising if step <= rising else (total - step) / max(1, total - rising)
        return self.learning_rate * max(share, 0.0)


class Task(Protocol[B]):
    """What is trained on what."""

    @property
    def model(self) -> nn.Module:
        """Whose parameters are trained."""
        ...

    def fresh(self) -> Sequence[nn.Parameter]:
        """Those parameters that start at random beside pretrained ones."""
        ...

    def batches_per_epoch(self) -> int:
        """Batches until every pair came once."""
        ...

    def batch(self, number: int) -> B:
        """The batch of this number, counted from 0 over all epochs: this process's part of it, and always the same."""
        ...

    def prepare(self, number: int) -> None:
        """Do what the weights of this moment are needed for before batch `number` is made."""
        ...

    def ready(self, number: int) -> bool:
        """Whether the batch can be made while the steps before it are computed."""
        ...

    def backward(self, batch: B) -> dict[str, float]:
        """Add the batch's gradients; return the losses by name, their sum as "loss"."""
        ...

    def describe(self, batch: B) -> str:
        """A few words that tell people which batch it is."""
        ...

    def measure(self) -> dict[str, float]:
        """Dev measures, the one to maximize first; empty if there are none."""
        ...

    def save(self, directory: Path) -> None:
        """Write the model where `restore` and other tools find it."""
        ...

    def restore(self, directory: Path) -> None:
        """Take the weights from a directory that `save` wrote."""
        ...


@dataclass(slots=True)
class State:
    """What a checkpoint knows beside weights and optimizer. `seconds` of training so far; measures by step; each
    precision by the first step in it.
    """

    step: int = 0
    best_step: int = 0
    stale: int = 0
    finished: bool = False
    seconds: float = 0.0
    measures: dict[int, dict[str, float]] = field(default_factory=dict)
    precision: dict[int, Precision] = field(default_factory=dict)

    def best(self) -> float:
        """The best value of the first measure so far."""
        return (
            next(iter(self.measures[self.best_step].values()))
            if self.best_step in self.measures
            else -math.inf
        )


Progress = Callable[[int, int, Mapping[str, float]], None]
"""Is told the step, how many there are, and what was logged of it; from a process's third step on also
"seconds_left" until the last step, at the pace so far."""


def make_accelerator(
    settings: LoopSettings,
    *,
    cpu: bool = False,
    out: Path | None = None,
    say: Callable[[str], None] | None = None,
) -> Accelerator:
    """One process of however many `accelerate launch` started.

    Precision "auto" is measured (`precision.choose`), also where the run in `out` goes on: its checkpoints may come
    from another machine. What was chosen is told to `say`.
    """
    chosen = settings.precision
    if chosen == "auto":
        state = PartialState(cpu=cpu)  # the processes have to agree before there is an Accelerator
        chosen = choose(state, recorded_precision(out) if out else None, say=say)
    return Accelerator(mixed_precision="no" if chosen == "fp32" else chosen, cpu=cpu)


def recorded_precision(out: Path) -> Precision | None:
    """Return the precision of the last steps in `out`, over all stages; None without a record."""
    states = [path for path in out.glob(f"*/step-[0-9]*/{STATE}") if path.is_file()]
    for path in sorted(states, key=lambda path: path.stat().st_mtime, reverse=True):
        with suppress(Damaged):  # is reported when it is gone on from
            recorded: dict[str, Precision] = _read_state(path.parent)["state"].get("precision", {})
            return next(reversed(recorded.values()), None)
    return None


def same_recipe(one: object, other: object) -> bool:
    """Tell whether two recipes, as objects or as JSON, train the same; their `precision` does not count.

    It says how fast and how exactly steps are computed, not what is learned from what. A run has to go on
    where "auto" means another one, as on another machine, and from a checkpoint that recorded "bf16", the
    default before "auto".
    """
    return bool(_without_precision(one) == _without_precision(other))


def _without_precision(recipe: object) -> Any:
    def stripped(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: stripped(inner) for key, inner in value.items() if key != "precision"}
        return [stripped(inner) for inner in value] if isinstance(value, list) else value

    return stripped(json.loads(json.dumps(recipe, default=str)))


def train(
    task: Task[B],
    settings: LoopSettings,
    directory: Path,
    accelerator: Accelerator,
    *,
    seed: int,
    recipe: Mapping[str, Any],
    progress: Progress | None = None,
    say: Callable[[str], None] | None = None,
) -> Path:
    """Train until the end, or go on where a killed run of the same recipe stopped; return the best checkpoint.

    `directory` gets step-NNNNNN/ (the last and the best checkpoint), metrics.jsonl and curves.png. Raises Diverged
    when the loss is not finite, StorageFailed when a checkpoint cannot be written, and InvalidInput where `directory`
    holds a run of another `recipe`, which is all that decides the curve, or the processes cannot share a batch evenly;
    checkpoints written before stay. `say` is told where the run goes on in another precision.
    """
    if settings.batch_size % accelerator.num_processes:
        raise InvalidInput(
            f"batch_size {settings.batch_size} must be a multiple of the {accelerator.num_processes} processes.",
            field="batch_size",
        )
    loop = _Loop(task, settings, directory, accelerator, seed, dict(recipe))
    loop.resume()
    if not loop.state.finished:
        loop.note_precision(say or (lambda line: None))
        loop.run(progress or (lambda step, total, values: None))
    accelerator.wait_for_everyone()
    return loop.place(loop.state.best_step or loop.state.step)


def digest(things: Iterable[object]) -> str:
    """SHA-256 (hex) of the things that are trained on, in their order: paths do not tell that these are the same."""
    found = hashlib.sha256()
    for thing in things:
        found.update(repr(thing).encode())
    return found.hexdigest()


def best_measures(checkpoint: Path) -> dict[str, float]:
    """The dev measures of a checkpoint that `train` returned."""
    state = _read_state(checkpoint)["state"]
    measures: dict[str, float] = state["measures"].get(str(state["best_step"]), {})
    return measures


def _read_state(checkpoint: Path) -> dict[str, Any]:
    try:
        content: dict[str, Any] = json.loads((checkpoint / STATE).read_text())
    except (OSError, ValueError) as error:
        raise _damaged(checkpoint, error) from error
    return content


def _damaged(checkpoint: Path, error: Exception) -> Damaged:
    return Damaged(
        f"The checkpoint {checkpoint} is damaged: {error}. Remove it to go on from the one before."
    )


class _Loop(Generic[B]):
    def __init__(
        self,
        task: Task[B],
        settings: LoopSettings,
        directory: Path,
        accelerator: Accelerator,
        seed: int,
        recipe: dict[str, Any],
    ) -> None:
        self.task, self.settings, self.directory, self.accelerator = (
            task,
            settings,
            directory,
            accelerator,
        )
        self.seed, self.recipe, self.state = seed, recipe, State()
        self.total = settings.total_steps(task.batches_per_epoch())
        self.every = settings.every or math.ceil(task.batches_per_epoch() / settings.accumulation)
        self.parameters = [weight for weight in task.model.parameters() if weight.requires_grad]
        self.optimizer = _optimizer(task, settings)
        self.pace = _Pace()

    def note_precision(self, say: Callable[[str], None]) -> None:
        """Record in which precision the next steps are taken, and tell where it is another one."""
        precision: Precision = "fp32" if self.accelerator.mixed_precision == "no" else "bf16"
        before = next(reversed(self.state.precision.values()), None)
        if precision == before:
            return

        self.state.precision[self.state.step + 1] = precision
        if before is not None and self.accelerator.is_main_process:
            say(
                f"from step {self.state.step + 1:,} on in {precision}; the steps before were taken in {before}"
            )

    def run(self, progress: Progress) -> None:
        started = time.monotonic() - self.state.seconds
        per_step = self.settings.accumulation
        with closing(_Reader(self.task, self.state.step * per_step)) as reader, float32_gradients():
            while not self.state.finished:
                values: dict[str, float] = {}
                self._begin(self.state.step + 1)
                for _ in range(per_step):
                    batch = reader.next()
                    self._add(values, self.task.backward(batch), batch)
                values["gradient_norm"] = self._update(values, batch)
                self.state.step, self.state.seconds = (
                    self.state.step + 1,
                    time.monotonic() - started,
                )
                self._note(values, progress)

    def _begin(self, step: int) -> None:
        self.task.model.train()
        torch.manual_seed(hash((self.seed, step, self.accelerator.process_index)) & 0x7FFF_FFFF)
        for group in self.optimizer.param_groups:
            group["lr"] = self.settings.rate(step, self.total) * group["multiple"]

    def _add(self, values: dict[str, float], found: Mapping[str, float], batch: B) -> None:
        if not all(map(math.isfinite, found.values())):
            raise Diverged(
                f"The loss is {found} at step {self.state.step + 1}, batch: {self.task.describe(batch)}. "
                "The checkpoint before it is kept; lower the learning rate, or look at that batch.",
            )
        for name, value in found.items():
            values[name] = values.get(name, 0.0) + value / self.settings.accumulation

    def _update(self, values: dict[str, float], last: B) -> float:
        """Average gradients over accumulated batches and processes, clip them, and take the step; their norm.

        Losses in `values` become those of all processes.
        """
        gradients = [weight.grad for weight in self.parameters if weight.grad is not None]
        torch._foreach_div_(gradients, self.settings.accumulation)
        if self.accelerator.num_processes > 1:
            losses = torch.tensor(list(values.values()), device=gradients[0].device)
            _average([*gradients, losses], self.accelerator)
            values.update(zip(values, losses.tolist(), strict=True))
        norm = float(nn.utils.clip_grad_norm_(self.parameters, self.settings.max_norm))
        if not math.isfinite(norm):
            raise Diverged(
                f"The gradient is {norm} at step {self.state.step + 1}, last batch: {self.task.describe(last)}. "
                "The checkpoint before it is kept."
            )
        self.optimizer.step()
        self.optimizer.zero_grad()
        return norm

    def _note(self, values: dict[str, float], progress: Progress) -> None:
        step, settings = self.state.step, self.settings
        pairs = settings.batch_size * settings.accumulation
        self.state.finished = step >= self.total
        due = self.state.finished or step % self.every == 0
        logged = {
            **values,
            "learning_rate": settings.rate(step, self.total),
            "seconds": self.state.seconds,
        }
        logged["pairs_per_s"] = step * pairs / self.state.seconds
        if due and (measures := self._measure()):
            self._judge(measures)
            logged |= measures
        if self.accelerator.is_main_process:
            self._write_metrics(logged)
            if due:
                self._checkpoint()
        self.accelerator.wait_for_everyone()
        progress(step, self.total, logged | self.pace.left(step, self.total))

    def _measure(self) -> dict[str, float]:
        self.task.model.eval()
        with torch.no_grad():
            return self.task.measure()

    def _judge(self, measures: dict[str, float]) -> None:
        better = next(iter(measures.values())) > self.state.best()
        self.state.measures[self.state.step] = measures
        self.state.best_step = self.state.step if better else self.state.best_step
        self.state.stale = 0 if better else self.state.stale + 1
        if self.settings.patience and self.state.stale >= self.settings.patience:
            self.state.finished = True

    def _write_metrics(self, values: Mapping[str, float]) -> None:
        with storing(self.directory), (self.directory / METRICS).open("a") as stream:
            stream.write(json.dumps({"step": self.state.step, **values}) + "\n")

    # -- checkpoints -------------------------------------------------------------------------------------------------

    def place(self, step: int) -> Path:
        return self.directory / f"step-{step:06d}"

    def _checkpoint(self) -> None:
        """Written aside, then renamed: at any moment the last complete one is there."""
        new = self.directory / f".step-{self.state.step}"
        with storing(self.directory, new):
            shutil.rmtree(new, ignore_errors=True)
            new.mkdir(parents=True)
            self.task.save(new)
            save_file(_flat(self.optimizer), new / OPTIMIZER)
            (new / STATE).write_text(
                json.dumps(
                    {"state": asdict(self.state), "recipe": self.recipe}, indent=2, default=str
                )
            )
            _flush(new)
            new.rename(self.place(self.state.step))
            plot(self.directory)
        for old in self._checkpoints():
            if old not in (self.place(self.state.step), self.place(self.state.best_step)):
                shutil.rmtree(old)

    def _checkpoints(self) -> list[Path]:
        return sorted(
            self.directory.glob("step-[0-9]*"),
            key=lambda place: int(place.name.removeprefix("step-")),
        )

    def resume(self) -> None:
        if self.accelerator.is_main_process:
            with storing(self.directory):
                self.directory.mkdir(parents=True, exist_ok=True)
        self.accelerator.wait_for_everyone()
        if known := self._checkpoints():
            self._restore(known[-1])
        if self.accelerator.is_main_process:
            with storing(self.directory):
                _cut_metrics(self.directory / METRICS, self.state.step)
        self.accelerator.wait_for_everyone()

    def _restore(self, last: Path) -> None:
        content = _read_state(last)
        if not same_recipe(content["recipe"], self.recipe):
            raise InvalidInput(
                f"{self.directory} holds a run of another recipe or other texts. Give another --out, or remove it.",
                field="out",
            )
        known = content["state"]
        for name in (
            "measures",
            "precision",
        ):  # JSON's keys are texts; older checkpoints record no precision
            known[name] = {int(step): value for step, value in known.get(name, {}).items()}
        self.state = State(**known)
        self.task.restore(last)
        try:
            _unflatten(self.optimizer, load_file(last / OPTIMIZER))
        except (OSError, SafetensorError) as error:
            raise _damaged(last, error) from error


class _Pace:
    """Seconds a process takes for a step, with its share of measures and checkpoints.

    They count from the end of its first step, which also pays for all that happens once.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.first: tuple[int, float] | None = None

    def left(self, step: int, total: int) -> dict[str, float]:
        """Return {"seconds_left": ...} at the end of `step`; nothing until two steps after the first one."""
        now = self.clock()
        if self.first is None:
            self.first = step, now

        steps = step - self.first[0]
        return (
            {"seconds_left": (now - self.first[1]) / steps * (total - step)} if steps >= 2 else {}
        )


class _Reader(Generic[B]):
    """Batches in order; the next one is made while this one is computed, where the task is ready for it."""

    def __init__(self, task: Task[B], number: int) -> None:
        self.task, self.number = task, number
        self.thread = ThreadPoolExecutor(1)
        self.coming: Future[B] | None = None

    def next(self) -> B:
        self.task.prepare(self.number)
        batch = self.coming.result() if self.coming else self.task.batch(self.number)
        self.number += 1
        ready = self.task.ready(self.number)
        self.coming = self.thread.submit(self.task.batch, self.number) if ready else None
        return batch

    def close(self) -> None:
        self.thread.shutdown(cancel_futures=True)


def _optimizer(task: Task[Any], settings: LoopSettings) -> torch.optim.AdamW:
    """Biases and norms are not decayed; what is fresh learns at its own rate."""
    fresh = set(task.fresh())
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for weight in task.model.parameters():
        key = (
            settings.weight_decay if weight.ndim > 1 else 0.0,
            settings.fresh_rate if weight in fresh else 1.0,
        )
        if weight.requires_grad:
            groups.setdefault(key, []).append(weight)
    known = [
        {"params": weights, "weight_decay": key[0], "multiple": key[1]}
        for key, weights in groups.items()
    ]
    return torch.optim.AdamW(known, lr=settings.learning_rate, fused=True)


def _average(gradients: list[Tensor], accelerator: Accelerator) -> None:
    """In place, over all processes, as one message."""
    together = accelerator.reduce(torch.cat([gradient.flatten() for gradient in gradients]), "mean")
    for gradient, mean in zip(
        gradients, together.split([gradient.numel() for gradient in gradients]), strict=True
    ):
        gradient.copy_(mean.view_as(gradient))


def _flat(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    states = optimizer.state_dict()["state"]
    return {
        f"{number}.{name}": value
        for number, state in states.items()
        for name, value in state.items()
    }


def _unflatten(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        number, _, name = key.partition(".")
        state.setdefault(int(number), {})[name] = value
    optimizer.load_state_dict(
        {"state": state, "param_groups": optimizer.state_dict()["param_groups"]}
    )


def _cut_metrics(path: Path, step: int) -> None:
    """Forget what was logged after the checkpoint that is gone on from."""
    if path.is_file():
        lines = [line for line in path.read_text().splitlines() if line.endswith("}")]
        new = path.with_name(f".{path.name}")
        new.write_text("".join(line + "\n" for line in lines if json.loads(line)["step"] <= step))
        new.replace(path)


@contextmanager
def storing(directory: Path, partial: Path | None = None) -> Iterator[None]:
    """What cannot be written in this block becomes StorageFailed, and `partial` is removed."""
    try:
        yield
    except Exception as error:
        if partial is not None:
            shutil.rmtree(partial, ignore_errors=True)
        if (
            not isinstance(error, OSError | SafetensorError) and type(error) is not Exception
        ):  # as tokenizers raises
            raise
        raise StorageFailed(
            f"{directory} cannot be written: {error}. The checkpoint before is kept: make room and start again with "
            "the same command to go on from it."
        ) from error


def _flush(directory: Path) -> None:
    for path in [*directory.rglob("*"), directory]:
        handle = os.open(path, os.O_RDONLY)
        os.fsync(handle)
        os.close(handle)


def plot(directory: Path) -> None:
    """Draw metrics.jsonl: losses above, dev measures below, over the steps."""
    from matplotlib.figure import Figure

    rows = [json.loads(line) for line in (directory / METRICS).read_text().splitlines()]
    ours = ("step", "learning_rate", "seconds", "pairs_per_s", "gradient_norm")
    losses = [name for name in rows[0] if name not in ours and not name.startswith("dev ")]
    measured = [
        name for name in {name: None for row in rows for name in row} if name.startswith("dev ")
    ]
    figure = Figure(figsize=(8, 6), layout="constrained")
    above, below = figure.subplots(2, sharex=True)
    for axes, names, marker in ((above, losses, ""), (below, measured, ".")):
        for name in names:
            there = [row for row in rows if name in row]
            axes.plot(
                [row["step"] for row in there],
                [row[name] for row in there],
                marker=marker,
                label=name,
                linewidth=1,
            )
        axes.grid(alpha=0.3)
        if names:
            axes.legend(fontsize="small")
    above.set_ylabel("loss")
    below.set(xlabel="step", ylabel="dev measure")
    new = directory / f".{CURVES}"
    figure.savefig(new, dpi=120)
    new.replace(directory / CURVES)
