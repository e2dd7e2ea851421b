"""The training loop of all papers, on CPU, GPU, and several of either under `accelerate launch`.

A step depends only on the weights, the seed and its number: batches are drawn, and random numbers
seeded, by number. A run that is killed and started again therefore continues along the same curve.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any, Generic

import torch
from accelerate import Accelerator
from torch import Tensor, nn

from purlin.index.errors import InvalidInput
from purlin.training.loop.attention import float32_gradients
from purlin.training.loop.checkpoints import (
    Checkpoints,
    RunState,
    only_run,
    read_record,
    restore_optimizer,
    storing,
)
from purlin.training.loop.metrics import append_metrics, cut_metrics, plot
from purlin.training.loop.precision import Precision
from purlin.training.loop.prefetching import Prefetcher, default_workers
from purlin.training.loop.recorded_recipe import same_recipe
from purlin.training.loop.settings import LoopSettings
from purlin.training.loop.task import B, Task


class Diverged(InvalidInput):
    """The loss or the gradient is not finite. The last checkpoint is unchanged."""


StepProgress = Callable[[int, int, Mapping[str, float]], None]
"""Called after each step with its number, the number of all steps, and the values that were logged.

From a process's third step on, the values include "seconds_left", the estimated time to the last
step.
"""

Progress = Callable[[str], StepProgress]
"""Returns the function to call after each step of a stage, by the stage's name."""

Say = Callable[[str], None]
"""Called with a line of text for the user now and then."""


def train(
    task: Task[B],
    settings: LoopSettings,
    directory: Path,
    accelerator: Accelerator,
    *,
    seed: int,
    recipe: Mapping[str, Any],
    progress: StepProgress | None = None,
    say: Say | None = None,
) -> Path:
    """Train until the end, or resume a killed run of the same recipe; return the resulting checkpoint.

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

    return loop.result()


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
        self.checkpoints = Checkpoints(directory)

        batches = task.batches_per_epoch
        self.total = settings.total_steps(batches)
        self.every = settings.every or batches
        self.parameters = [weight for weight in task.model.parameters() if weight.requires_grad]
        self.optimizer = _optimizer(task, settings)
        self.pace = _Pace()
        # fp16 has too few exponents for small gradients, so that losses are multiplied by a factor.
        self.scaler: torch.amp.GradScaler | None = accelerator.scaler

    def note_precision(self, say: Say) -> None:
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
        workers = self.settings.workers
        if workers is None:
            workers = default_workers(self.accelerator.device, self.accelerator.num_processes)

        prefetcher = Prefetcher(self.task, self.state.step, self.total, workers)
        with closing(prefetcher) as batches, float32_gradients():
            while not self.state.finished:
                self._begin(self.state.step + 1)
                batch = batches.next()
                losses = self._finite(self.task.backward(batch), batch)
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

    def _finite(self, losses: dict[str, float], batch: B) -> dict[str, float]:
        """Return a batch's losses. Raises Diverged if one is not finite."""
        if not all(map(math.isfinite, losses.values())):
            raise Diverged(
                f"The loss is {losses} at step {self.state.step + 1}, batch: "
                f"{self.task.describe(batch)}. The checkpoint before it is kept; lower the learning "
                "rate, or check that batch.",
            )
        return losses

    def _update(self, losses: dict[str, float], batch: B) -> float:
        """Average, clip and apply the gradients; return their norm.

        They are averaged over processes; so are `losses`, in place.
        """
        gradients = [weight.grad for weight in self.parameters if weight.grad is not None]
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
                f"The gradient is {norm} at step {self.state.step + 1}, batch: "
                f"{self.task.describe(batch)}. The checkpoint before it is kept."
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
        logged = {
            **values,
            "learning_rate": settings.rate(step, self.total),
            "seconds": seconds,
            "pairs_per_s": step * settings.batch_size / seconds,
        }

        self.state.finished = step >= self.total
        due = self.state.finished or step % self.every == 0
        if due and (measures := self._measure()):
            self._judge(measures)
            logged |= measures

        if self.accelerator.is_main_process:
            with storing(self.directory):
                append_metrics(self.directory, step, logged)
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

    # -- checkpoints -----------------------------------------------------------------------------

    def result(self) -> Path:
        """Return the best checkpoint, or the last one if that is set or nothing was measured."""
        best_step = self.state.best_step if self.settings.result == "best" else 0
        return self.checkpoints.path(best_step or self.state.step)

    def _write_checkpoint(self) -> None:
        self.state.scaler = self.scaler.state_dict() if self.scaler is not None else {}
        self.checkpoints.write(self.state, self.recipe, self.optimizer, self.task.save)
        with storing(self.directory):
            plot(self.directory)
        self.checkpoints.keep_only((self.state.step, self.state.best_step))

    def resume(self) -> None:
        """Load the last checkpoint, if there is one, and drop what was logged after it."""
        # The main process has made the directory.
        self.accelerator.wait_for_everyone()
        if (checkpoint := self.checkpoints.last()) is not None:
            self._restore(checkpoint)

        if self.accelerator.is_main_process:
            with storing(self.directory):
                cut_metrics(self.directory, self.state.step)
        self.accelerator.wait_for_everyone()

    def _restore(self, checkpoint: Path) -> None:
        record = read_record(checkpoint)
        if not same_recipe(self.recipe, record["recipe"]):
            raise InvalidInput(
                f"{self.directory} holds a run of another recipe or other texts. Give another --out, or "
                "remove it.",
                field="out",
            )

        self.state = RunState.from_record(record["state"])
        if self.scaler is not None and self.state.scaler:
            self.scaler.load_state_dict(self.state.scaler)
        self.task.restore(checkpoint)
        restore_optimizer(self.optimizer, checkpoint)


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


def _optimizer(task: Task[Any], settings: LoopSettings) -> torch.optim.AdamW:
    """Return AdamW: biases and norms are not decayed, `fresh` has a rate of its own."""
    # One group for each combination of decay and rate.
    fresh = set(task.model.fresh())
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
