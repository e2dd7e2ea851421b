"""The training loop of all three papers, on CPU, GPU, and several of either under `accelerate
launch`.

A step depends only on the weights, the seed and its number: batches are drawn, and random numbers
seeded, by number. A run that is killed and started again therefore continues along the same curve.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import multiprocessing
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Generic, Literal, Protocol, TypeVar

import torch
from accelerate import Accelerator, InitProcessGroupKwargs, PartialState
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from purlin.index.errors import Damaged, InvalidInput, PurlinError, StorageFailed
from purlin.index.storage import exclusive
from purlin.training.attention import float32_gradients
from purlin.training.config import in_range
from purlin.training.precision import Precision, choose

B = TypeVar("B")
NVIDIA = Path("/proc/driver/nvidia/version")  # exists where the driver of a GPU is loaded
MAX_WORKERS = 4  # by default
AHEAD = 2  # batches that a worker prepares before they are needed
METRICS = "metrics.jsonl"
CURVES = "curves.png"
STATE = "training.json"
OPTIMIZER = "optimizer.safetensors"
# Keys of a recipe that decide how steps are computed, not what is learned from them.
NOT_LEARNED = ("precision", "workers", "timeout_minutes")
# Keys that recipes have got since runs were first recorded, with the value that those runs had.
LATER_KEYS: dict[str, Any] = {
    "epsilon": 1e-8,
    "translate": "questions",
    "originals": True,
    "labelled_share": 1.0,
    "trains": "all",
    "summaries": True,
    # Was the default of every format, where none is now; it shows in the digests of the texts.
    "locale": "us",
    # A key of pairs that dev sets have got.
    "translators": [],
    "distilled": True,
    "layers": 0,
}


class Diverged(InvalidInput):
    """The loss or the gradient is not finite. The last checkpoint is unchanged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopSettings:
    """How long, how fast and how often.

    `batch_size` counts pairs over all processes; a step uses `accumulation` batches. After each
    `every` steps (0: after each epoch) and at the end, the model is measured on the dev sets and a
    checkpoint is written; after `patience` measurements without a better one training stops (0:
    never). `warmup` is a share of all steps; after it the learning rate falls linearly to 0.
    `fresh_rate` multiplies the rate of parameters that the base model lacks and that start at
    random. `epsilon` is Adam's. `precision` "auto" is bf16 if that is clearly faster, else fp32.
    """

    batch_size: int = 128
    accumulation: int = 1
    epochs: float = 1.0
    steps: int | None = None
    learning_rate: float = 2e-5
    fresh_rate: float = 1.0
    warmup: float = 0.1
    weight_decay: float = 0.01
    epsilon: float = 1e-8
    max_norm: float = 1.0
    every: int = 200
    patience: int = 0
    precision: Literal["auto", "bf16", "fp16", "fp32"] = "auto"
    workers: int | None = None
    timeout_minutes: int = 120

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
        in_range("epsilon", self.epsilon, 1e-16, 1.0)
        in_range("max_norm", self.max_norm, 1e-9, 1e9)
        in_range("every", self.every, 0, 1 << 30)
        in_range("patience", self.patience, 0, 1 << 30)
        in_range("workers", self.workers or 0, 0, 64)
        in_range("timeout_minutes", self.timeout_minutes, 1, 10_000)

    def total_steps(self, batches_per_epoch: int) -> int:
        """Return the number of steps of the whole run."""
        if self.steps:
            return self.steps
        return max(1, math.ceil(self.epochs * batches_per_epoch / self.accumulation))

    def rate(self, step: int, total: int) -> float:
        """Return the learning rate of a step from 1 to `total`."""
        warmup_steps = max(1, round(self.warmup * total))
        if step <= warmup_steps:
            return self.learning_rate * max(step / warmup_steps, 0.0)

        share = (total - step) / max(1, total - warmup_steps)
        return self.learning_rate * max(share, 0.0)


class Task(Protocol[B]):
    """A model, its data, its loss and its dev measures; `B` is the type of a batch."""

    @property
    def model(self) -> nn.Module:
        """The module whose parameters are trained."""
        ...

    def fresh(self) -> Sequence[nn.Parameter]:
        """Return the parameters that start at random beside pretrained ones."""
        ...

    def batches_per_epoch(self) -> int:
        """Return the number of batches in which every pair comes once."""
        ...

    def batch(self, number: int) -> B:
        """Return this process's part of batch `number`, counted from 0 over all epochs.

        The same number always gives the same batch.
        """
        ...

    def prepare(self, number: int) -> None:
        """Do what needs the current weights before batch `number` is drawn."""
        ...

    def ready(self, number: int) -> bool:
        """Tell whether the batch can be drawn while the steps before it are computed."""
        ...

    def backward(self, batch: B) -> dict[str, float]:
        """Add the batch's gradients; return the losses by name, their sum as "loss"."""
        ...

    def describe(self, batch: B) -> str:
        """Return a few words that identify the batch in an error message."""
        ...

    def measure(self) -> dict[str, float]:
        """Return dev measures, the one to maximize first; empty without dev sets."""
        ...

    def save(self, directory: Path) -> None:
        """Write the model for `restore` and other tools."""
        ...

    def restore(self, directory: Path) -> None:
        """Load the weights that `save` wrote."""
        ...


@dataclass(slots=True)
class RunState:
    """What a checkpoint records besides weights and optimizer.

    `seconds` of training so far; `stale`: measurements since the best one; `measures` by step;
    `precision` by the first step computed in it; `scaler`: the factor of fp16's losses, and for how
    many steps it has been the same.
    """

    step: int = 0
    best_step: int = 0
    stale: int = 0
    finished: bool = False
    seconds: float = 0.0
    measures: dict[int, dict[str, float]] = field(default_factory=dict)
    precision: dict[int, Precision] = field(default_factory=dict)
    scaler: dict[str, Any] = field(default_factory=dict)

    def best(self) -> float:
        """Return the best value of the first measure so far, or -inf without any."""
        if self.best_step not in self.measures:
            return -math.inf
        return next(iter(self.measures[self.best_step].values()))


StepProgress = Callable[[int, int, Mapping[str, float]], None]
"""Called after each step with its number, the number of all steps, and the values that were logged.

From a process's third step on, the values include "seconds_left", the estimated time to the last
step.
"""


def make_accelerator(
    settings: LoopSettings,
    *,
    cpu: bool = False,
    out: Path | None = None,
    say: Callable[[str], None] | None = None,
) -> Accelerator:
    """Return the accelerator of this process, one of those that `accelerate launch` started.

    Precision "auto" is measured (`precision.choose`), also when the run in `out` is resumed: its
    checkpoints may come from another machine. The choice and the device are reported to `say`.
    """
    # Both start the processes' group, whichever comes first: the other one then finds it.
    timeout = timedelta(minutes=settings.timeout_minutes)
    precision = settings.precision
    if precision == "auto":
        # The processes have to agree before there is an Accelerator.
        state = PartialState(cpu=cpu, timeout=timeout)
        precision = choose(state, recorded_precision(out) if out else None, say=say)
    elif precision == "fp16" and (cpu or not torch.cuda.is_available()):
        raise InvalidInput(
            'precision "fp16" needs a GPU. Set "auto", "bf16" or "fp32".', field="precision"
        )

    accelerator = Accelerator(
        mixed_precision="no" if precision == "fp32" else precision,
        cpu=cpu,
        kwargs_handlers=[InitProcessGroupKwargs(timeout=timeout)],
    )
    if say is not None and accelerator.is_main_process:
        say(device_line(accelerator.device, accelerator.num_processes))
    return accelerator


def device_line(device: torch.device, processes: int) -> str:
    """Describe what a run computes on, and which GPUs it leaves unused and why."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    hint = _unused_gpus(device, processes)
    count = f"{processes} {'process' if processes == 1 else 'processes'}"
    return f"device: {name}, {count}{'; WARNING: ' if hint else ''}{hint}"


def _unused_gpus(device: torch.device, processes: int) -> str:
    """Say which GPUs of this machine a run does not use, and what would; "" if there are none."""
    visible = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if device.type == "cpu" and visible:
        return "a GPU is there and not used: leave out --cpu"
    if device.type == "cuda" and processes < visible:
        return (
            f"{visible - processes} of {visible} GPUs are not used: start with accelerate launch "
            f"--num_processes {visible} -m purlin train …"
        )
    # A build of torch for CPUs sees no GPU at all.
    if device.type == "cpu" and torch.version.cuda is None and NVIDIA.exists():
        return "a GPU is there, but this torch is built for CPUs: install one for CUDA"
    return ""


def default_workers(device: torch.device, processes: int) -> int:
    """Return how many processes prepare batches for one that trains on `device`."""
    if device.type == "cpu":
        return 0
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(0, min(MAX_WORKERS, (cores or 1) // processes - 1))


def recorded_precision(out: Path) -> Precision | None:
    """Return the precision of the last steps in `out`, over all stages; None without a record."""
    states = [path for path in out.glob(f"*/step-[0-9]*/{STATE}") if path.is_file()]

    for path in sorted(states, key=lambda path: path.stat().st_mtime, reverse=True):
        # A damaged checkpoint is reported when the run is resumed from it.
        with suppress(Damaged):
            recorded: dict[str, Precision] = _read_state(path.parent)["state"].get("precision", {})
            return next(reversed(recorded.values()), None)
    return None


def same_recipe(recipe: object, recorded: object) -> bool:
    """Tell whether two recipes, as objects or as JSON, train the same; NOT_LEARNED does not count.

    Precision decides how fast and how exactly steps are computed, not what is learned. A run has to
    be resumable where "auto" means another one, as on another machine, and from a checkpoint that
    recorded "bf16", the default before "auto". A key that is None, or one of LATER_KEYS at its first
    value, counts as absent: runs that are older than the key can be resumed.
    """
    return bool(_learned(recipe) == _learned(recorded))


def _learned(recipe: object) -> Any:
    def counts(key: str, value: Any) -> bool:
        if key in NOT_LEARNED or value is None:
            return False
        return not (key in LATER_KEYS and value == LATER_KEYS[key])

    def stripped(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: stripped(inner) for key, inner in value.items() if counts(key, inner)}
        if isinstance(value, list):
            return [stripped(inner) for inner in value]
        return value

    return stripped(json.loads(json.dumps(recipe, default=str)))


def train(
    task: Task[B],
    settings: LoopSettings,
    directory: Path,
    accelerator: Accelerator,
    *,
    seed: int,
    recipe: Mapping[str, Any],
    progress: StepProgress | None = None,
    say: Callable[[str], None] | None = None,
) -> Path:
    """Train until the end, or resume a killed run of the same recipe; return the best checkpoint.

    `directory` gets step-NNNNNN/ (the last and the best checkpoint), metrics.jsonl and curves.png.
    `recipe` is all that decides the curve. `say` is called when the run is resumed in another
    precision.

    Raises Diverged if the loss is not finite, StorageFailed if a checkpoint cannot be written, Busy
    if another run trains in `directory`, and InvalidInput if that holds a run of another recipe, or
    if the processes cannot share a batch evenly. Checkpoints written before remain.
    """
    if settings.batch_size % accelerator.num_processes:
        raise InvalidInput(
            f"batch_size {settings.batch_size} must be a multiple of the "
            f"{accelerator.num_processes} processes.",
            field="batch_size",
        )

    loop = _Loop(task, settings, directory, accelerator, seed, dict(recipe))
    with only_run(directory) if accelerator.is_main_process else nullcontext():
        loop.resume()
        if not loop.state.finished:
            loop.note_precision(say or (lambda line: None))
            loop.run(progress or (lambda step, total, values: None))
        accelerator.wait_for_everyone()

    return loop.checkpoint_path(loop.state.best_step or loop.state.step)


@contextmanager
def only_run(directory: Path) -> Iterator[None]:
    """Lock a run's directory. Raises Busy if another run has it, whose checkpoints this would replace."""
    with storing(directory):
        directory.mkdir(parents=True, exist_ok=True)
    busy = f"Another process is training in {directory}: wait for it, or give another --out."
    with exclusive(directory, busy):
        yield


def digest(examples: Iterable[object]) -> str:
    """Return the SHA-256 (hex) of training examples in their order, by their `repr`.

    A recipe has only their paths, which do not tell whether the contents are the same.
    """
    sha256 = hashlib.sha256()
    for example in examples:
        sha256.update(repr(example).encode())
    return sha256.hexdigest()


def best_measures(checkpoint: Path) -> dict[str, float]:
    """Return the dev measures of a checkpoint that `train` returned."""
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
        f"The checkpoint {checkpoint} is damaged: {error}. Remove it to resume from the one before."
    )


class _Loop(Generic[B]):
    """One run: its task, optimizer and state, and the directory of its checkpoints."""

    def __init__(
        self,
        task: Task[B],
        settings: LoopSettings,
        directory: Path,
        accelerator: Accelerator,
        seed: int,
        recipe: dict[str, Any],
    ) -> None:
        self.task = task
        self.settings = settings
        self.directory = directory
        self.accelerator = accelerator
        self.seed = seed
        self.recipe = recipe
        self.state = RunState()

        batches = task.batches_per_epoch()
        self.total = settings.total_steps(batches)
        self.every = settings.every or math.ceil(batches / settings.accumulation)
        self.parameters = [weight for weight in task.model.parameters() if weight.requires_grad]
        self.optimizer = _optimizer(task, settings)
        self.pace = _Pace()
        # fp16 has too few exponents for small gradients, so that losses are multiplied by a factor.
        self.scaler: torch.amp.GradScaler | None = accelerator.scaler

    def note_precision(self, say: Callable[[str], None]) -> None:
        """Record the precision of the next steps; report to `say` if it is another one."""
        mixed = self.accelerator.mixed_precision
        precision: Precision = "fp32" if mixed == "no" else mixed
        before = next(reversed(self.state.precision.values()), None)
        if precision == before:
            return

        self.state.precision[self.state.step + 1] = precision
        if before is not None and self.accelerator.is_main_process:
            say(
                f"from step {self.state.step + 1:,} on in {precision}; the steps before were computed "
                f"in {before}"
            )

    def run(self, progress: StepProgress) -> None:
        started = time.monotonic() - self.state.seconds
        per_step = self.settings.accumulation
        workers = self.settings.workers
        if workers is None:
            workers = default_workers(self.accelerator.device, self.accelerator.num_processes)

        prefetcher = _Prefetcher(
            self.task, self.state.step * per_step, self.total * per_step, workers
        )
        with closing(prefetcher) as batches, float32_gradients():
            while not self.state.finished:
                losses: dict[str, float] = {}
                self._begin(self.state.step + 1)
                for _ in range(per_step):
                    batch = batches.next()
                    self._add_losses(losses, self.task.backward(batch), batch)
                norm = self._update(losses, batch)

                self.state.step += 1
                self.state.seconds = time.monotonic() - started
                self._finish_step({**losses, "gradient_norm": norm}, progress)

    def _begin(self, step: int) -> None:
        """Seed the random numbers of a step, and set its learning rates."""
        self.task.model.train()
        # Seeded by step, so that a resumed run draws the same dropout.
        torch.manual_seed(hash((self.seed, step, self.accelerator.process_index)) & 0x7FFF_FFFF)

        for group in self.optimizer.param_groups:
            group["lr"] = self.settings.rate(step, self.total) * group["multiple"]

    def _add_losses(self, sums: dict[str, float], losses: Mapping[str, float], batch: B) -> None:
        """Add a batch's losses to those of its step, as their share of the mean."""
        if not all(map(math.isfinite, losses.values())):
            raise Diverged(
                f"The loss is {losses} at step {self.state.step + 1}, batch: "
                f"{self.task.describe(batch)}. The checkpoint before it is kept; lower the learning "
                "rate, or check that batch.",
            )

        for name, value in losses.items():
            sums[name] = sums.get(name, 0.0) + value / self.settings.accumulation

    def _update(self, losses: dict[str, float], last: B) -> float:
        """Average, clip and apply the gradients; return their norm.

        They are averaged over accumulated batches and processes; so are `losses`, in place.
        """
        gradients = [weight.grad for weight in self.parameters if weight.grad is not None]
        torch._foreach_div_(gradients, self.settings.accumulation)

        if self.accelerator.num_processes > 1:
            means = torch.tensor(list(losses.values()), device=gradients[0].device)
            _average([*gradients, means], self.accelerator)
            losses.update(zip(losses, means.tolist(), strict=True))

        if self.scaler is not None:
            self.scaler.unscale_(self.optimizer)
        # A gradient that is not finite must not reach the weights.
        norm = float(nn.utils.clip_grad_norm_(self.parameters, self.settings.max_norm))
        if not math.isfinite(norm) and not self._can_scale_less():
            raise Diverged(
                f"The gradient is {norm} at step {self.state.step + 1}, last batch: "
                f"{self.task.describe(last)}. The checkpoint before it is kept."
            )

        if self.scaler is None:
            self.optimizer.step()
        else:
            # Leaves the step out if a gradient overflowed, and scales the next losses less.
            self.scaler.step(self.optimizer)
            self.scaler.update()
        self.optimizer.zero_grad()
        return norm

    def _can_scale_less(self) -> bool:
        """Tell whether a gradient that overflowed may have done so because losses are scaled."""
        return self.scaler is not None and self.scaler.get_scale() > 1.0

    def _finish_step(self, values: dict[str, float], progress: StepProgress) -> None:
        """Measure and write a checkpoint if it is due, then log and report the step."""
        step, settings, seconds = self.state.step, self.settings, self.state.seconds
        pairs = step * settings.batch_size * settings.accumulation
        logged = {
            **values,
            "learning_rate": settings.rate(step, self.total),
            "seconds": seconds,
            "pairs_per_s": pairs / seconds,
        }

        self.state.finished = step >= self.total
        due = self.state.finished or step % self.every == 0
        if due and (measures := self._measure()):
            self._judge(measures)
            logged |= measures

        if self.accelerator.is_main_process:
            self._write_metrics(logged)
            if due:
                self._write_checkpoint()
        self.accelerator.wait_for_everyone()

        progress(step, self.total, logged | self.pace.estimate(step, self.total))

    def _measure(self) -> dict[str, float]:
        self.task.model.eval()
        with torch.no_grad():
            return self.task.measure()

    def _judge(self, measures: dict[str, float]) -> None:
        """Record measures, and finish the run if they have not improved for long enough."""
        better = next(iter(measures.values())) > self.state.best()
        self.state.measures[self.state.step] = measures

        if better:
            self.state.best_step, self.state.stale = self.state.step, 0
        else:
            self.state.stale += 1

        if self.settings.patience and self.state.stale >= self.settings.patience:
            self.state.finished = True

    def _write_metrics(self, values: Mapping[str, float]) -> None:
        with storing(self.directory), (self.directory / METRICS).open("a") as stream:
            stream.write(json.dumps({"step": self.state.step, **values}) + "\n")

    # -- checkpoints -----------------------------------------------------------------------------

    def checkpoint_path(self, step: int) -> Path:
        return self.directory / f"step-{step:06d}"

    def _write_checkpoint(self) -> None:
        """Write a checkpoint beside the others and rename it: a complete one exists at any time."""
        new = self.directory / f".step-{self.state.step}"
        current = self.checkpoint_path(self.state.step)
        best = self.checkpoint_path(self.state.best_step)
        self.state.scaler = self.scaler.state_dict() if self.scaler is not None else {}
        content = {"state": asdict(self.state), "recipe": self.recipe}

        with storing(self.directory, new):
            shutil.rmtree(new, ignore_errors=True)
            new.mkdir(parents=True)
            self.task.save(new)
            save_file(_flat(self.optimizer), new / OPTIMIZER)
            (new / STATE).write_text(json.dumps(content, indent=2, default=str))
            _flush(new)
            new.rename(current)
            plot(self.directory)

        for checkpoint in self._checkpoints():
            if checkpoint not in (current, best):
                shutil.rmtree(checkpoint)

    def _checkpoints(self) -> list[Path]:
        """Return all checkpoints, the last one last: numbers of a million steps are longer."""
        return sorted(
            self.directory.glob("step-[0-9]*"),
            key=lambda path: int(path.name.removeprefix("step-")),
        )

    def resume(self) -> None:
        """Load the last checkpoint, if there is one, and drop what was logged after it."""
        # The main process has made the directory.
        self.accelerator.wait_for_everyone()
        if checkpoints := self._checkpoints():
            self._restore(checkpoints[-1])

        if self.accelerator.is_main_process:
            with storing(self.directory):
                _cut_metrics(self.directory / METRICS, self.state.step)
        self.accelerator.wait_for_everyone()

    def _restore(self, checkpoint: Path) -> None:
        content = _read_state(checkpoint)
        if not same_recipe(self.recipe, content["recipe"]):
            raise InvalidInput(
                f"{self.directory} holds a run of another recipe or other texts. Give another --out, or "
                "remove it.",
                field="out",
            )

        # JSON's keys are texts; older checkpoints record no precision.
        state = content["state"]
        for name in ("measures", "precision"):
            state[name] = {int(step): value for step, value in state.get(name, {}).items()}
        self.state = RunState(**state)

        if self.scaler is not None and self.state.scaler:
            self.scaler.load_state_dict(self.state.scaler)
        self.task.restore(checkpoint)
        try:
            _unflatten(self.optimizer, load_file(checkpoint / OPTIMIZER))
        except (OSError, SafetensorError) as error:
            raise _damaged(checkpoint, error) from error


class _Pace:
    """Estimates the time left from the steps of this process, with their measures and checkpoints.

    The first step is left out, as it also pays for what happens only once.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.first: tuple[int, float] | None = None

    def estimate(self, step: int, total: int) -> dict[str, float]:
        """Return {"seconds_left": ...} after `step`; empty until two steps after the first one."""
        now = self.clock()
        if self.first is None:
            self.first = step, now

        first_step, first_time = self.first
        steps = step - first_step
        if steps < 2:
            return {}
        return {"seconds_left": (now - first_time) / steps * (total - step)}


class _Prefetcher(Generic[B]):
    """Returns batches `number` to `end` - 1 in order, prepared ahead where the task is ready for it.

    With `workers` they are prepared by as many processes, otherwise by a thread. A worker has the
    task as it was when its process began: after each batch that the task has to be prepared for,
    new ones begin. Order and content are the same in all cases.
    """

    def __init__(self, task: Task[B], number: int, end: int, workers: int = 0) -> None:
        self.task = task
        self.number = number
        self.end = end
        self.workers = workers
        self.batches: Iterator[B | PurlinError] | None = None

        self.thread = ThreadPoolExecutor(1)
        self.coming: Future[B] | None = None
        if workers and "fork" not in multiprocessing.get_all_start_methods():
            raise InvalidInput(
                "workers need a system that can fork processes: set workers = 0.", field="workers"
            )

    def next(self) -> B:
        # Mining needs the current weights, so it cannot run ahead.
        if not self.task.ready(self.number):
            self.batches = None
        self.task.prepare(self.number)
        return self._from_workers() if self.workers else self._from_thread()

    def _from_workers(self) -> B:
        self.batches = self.batches or iter(self._loader())
        self.number += 1
        prepared = next(self.batches)
        if isinstance(prepared, PurlinError):
            raise prepared
        return prepared

    def _from_thread(self) -> B:
        """Return the batch that the thread has prepared, and have it prepare the next one."""
        batch = self.coming.result() if self.coming else self.task.batch(self.number)
        self.number += 1
        ready = self.task.ready(self.number)
        self.coming = self.thread.submit(self.task.batch, self.number) if ready else None
        return batch

    def _loader(self) -> DataLoader[B | PurlinError]:
        """Return the batches from the current one to the last that the task is ready for."""
        numbers = list(itertools.takewhile(self.task.ready, range(self.number, self.end)))
        return DataLoader(
            _Batches(self.task, numbers),
            batch_size=None,
            num_workers=self.workers,
            prefetch_factor=AHEAD,
            # Inherits the task's texts and tokenizers, which would take long to copy.
            multiprocessing_context="fork",
            worker_init_fn=_begin_worker,
            # The seed of the workers must not come from the run's random numbers.
            generator=torch.Generator(),
        )

    def close(self) -> None:
        # Ends the workers, which would otherwise wait for a reader of their batches.
        self.batches = None
        self.thread.shutdown(cancel_futures=True)


class _Batches(Dataset[Any]):
    """A task's batches of some numbers, as torch's loader takes them.

    An expected error is returned: one that is raised would reach the run with another message.
    """

    def __init__(self, task: Task[Any], numbers: Sequence[int]) -> None:
        self.task = task
        self.numbers = numbers

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, index: int) -> Any:
        try:
            return self.task.batch(self.numbers[index])
        except PurlinError as error:
            return error


def _begin_worker(worker: int) -> None:
    """Keep a new worker from using the threads that its parent had."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"


def add_gradients(loss: Tensor, accelerator: Accelerator) -> None:
    """Run the backward pass of a loss, multiplied by fp16's factor if there is one.

    The factor is taken out of the gradients before they are used.
    """
    scaler = accelerator.scaler
    scaled: Tensor = loss if scaler is None else scaler.scale(loss)
    scaled.backward()  # type: ignore[no-untyped-call]


def _optimizer(task: Task[Any], settings: LoopSettings) -> torch.optim.AdamW:
    """Return AdamW: biases and norms are not decayed, `fresh` has a rate of its own."""
    # One group for each combination of decay and rate.
    fresh = set(task.fresh())
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}

    for weight in task.model.parameters():
        decay = settings.weight_decay if weight.ndim > 1 else 0.0
        multiple = settings.fresh_rate if weight in fresh else 1.0
        if weight.requires_grad:
            groups.setdefault((decay, multiple), []).append(weight)

    parameter_groups = [
        {"params": weights, "weight_decay": decay, "multiple": multiple}
        for (decay, multiple), weights in groups.items()
    ]
    return torch.optim.AdamW(
        parameter_groups, lr=settings.learning_rate, eps=settings.epsilon, fused=True
    )


def _average(tensors: list[Tensor], accelerator: Accelerator) -> None:
    """Average tensors over all processes, in place, in one message."""
    # One message for all tensors costs much less than one for each.
    joined = torch.cat([tensor.flatten() for tensor in tensors])
    means = accelerator.reduce(joined, "mean").split([tensor.numel() for tensor in tensors])
    for tensor, mean in zip(tensors, means, strict=True):
        tensor.copy_(mean.view_as(tensor))


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

    # Rates and decay come from the settings, not from the checkpoint.
    parameter_groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": state, "param_groups": parameter_groups})


def _cut_metrics(path: Path, step: int) -> None:
    """Remove what was logged after `step`, the checkpoint from which the run is resumed."""
    if not path.is_file():
        return

    # A killed process may have left half a line.
    lines = [line for line in path.read_text().splitlines() if line.endswith("}")]
    kept = [line for line in lines if json.loads(line)["step"] <= step]

    new = path.with_name(f".{path.name}")
    new.write_text("".join(line + "\n" for line in kept))
    new.replace(path)


@contextmanager
def storing(directory: Path, partial: Path | None = None) -> Iterator[None]:
    """Raise StorageFailed for a failure to write in this block, and remove `partial`."""
    try:
        yield
    except Exception as error:
        if partial is not None:
            shutil.rmtree(partial, ignore_errors=True)

        # tokenizers raises bare Exceptions when it cannot write.
        storage_error = isinstance(error, OSError | SafetensorError) or type(error) is Exception
        if not storage_error:
            raise
        raise StorageFailed(
            f"{directory} cannot be written: {error}. The checkpoint before it is kept: make room, then "
            "run the same command again to resume from it."
        ) from error


def _flush(directory: Path) -> None:
    """Wait until all files in `directory`, and their names, are on the disk."""
    # A directory's own entry has to be flushed too, or a power cut could lose the names.
    for path in [*directory.rglob("*"), directory]:
        handle = os.open(path, os.O_RDONLY)
        os.fsync(handle)
        os.close(handle)


def plot(directory: Path) -> None:
    """Draw metrics.jsonl over the steps: losses above, dev measures below."""
    from matplotlib.figure import Figure

    rows = [json.loads(line) for line in (directory / METRICS).read_text().splitlines()]
    not_losses = ("step", "learning_rate", "seconds", "pairs_per_s", "gradient_norm")
    losses = [name for name in rows[0] if name not in not_losses and not name.startswith("dev ")]
    names = dict.fromkeys(name for row in rows for name in row)
    measures = [name for name in names if name.startswith("dev ")]

    figure = Figure(figsize=(8, 6), layout="constrained")
    above, below = figure.subplots(2, sharex=True)
    _draw(above, rows, losses, marker="")
    _draw(below, rows, measures, marker=".")
    above.set_ylabel("loss")
    below.set(xlabel="step", ylabel="dev measure")

    # Written aside and renamed, so that a viewer never sees half a picture.
    new = directory / f".{CURVES}"
    figure.savefig(new, dpi=120)
    new.replace(directory / CURVES)


def _draw(
    axes: Any, rows: Sequence[Mapping[str, float]], names: Sequence[str], *, marker: str
) -> None:
    for name in names:
        points = [(row["step"], row[name]) for row in rows if name in row]
        steps, values = zip(*points, strict=True)
        axes.plot(steps, values, marker=marker, label=name, linewidth=1)

    axes.grid(alpha=0.3)
    if names:
        axes.legend(fontsize="small")
