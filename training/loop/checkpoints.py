"""Checkpoints of a run: what they record, and how they are written and read."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.optim import Optimizer

from purlin.index.errors import Damaged, StorageFailed
from purlin.index.storage import exclusive, fsync
from purlin.training.loop.precision import Precision

STATE = "training.json"
OPTIMIZER = "optimizer.safetensors"


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

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> RunState:
        """Return the state that a checkpoint has in JSON."""
        # JSON's keys are texts.
        by_step = {
            name: {int(step): value for step, value in record[name].items()}
            for name in ("measures", "precision")
        }
        return cls(**{**record, **by_step})


class Checkpoints:
    """The checkpoints of one run, step-NNNNNN/ in its directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def path(self, step: int) -> Path:
        """Return the directory of a step's checkpoint, whether or not it exists."""
        return self.directory / f"step-{step:06d}"

    def last(self) -> Path | None:
        """Return the checkpoint of the last step, or None if there is none."""
        return next(reversed(self._all()), None)

    def write(
        self,
        state: RunState,
        recipe: Mapping[str, Any],
        optimizer: Optimizer,
        save_model: Callable[[Path], None],
    ) -> None:
        """Write a checkpoint beside the others and rename it: a complete one exists at any time.

        `save_model` writes the model into a directory. Raises StorageFailed.
        """
        new = self.directory / f".step-{state.step}"
        content = {"state": asdict(state), "recipe": recipe}

        with storing(self.directory, new):
            shutil.rmtree(new, ignore_errors=True)
            new.mkdir(parents=True)
            save_model(new)
            save_file(_optimizer_tensors(optimizer), new / OPTIMIZER)
            (new / STATE).write_text(json.dumps(content, indent=2, default=str))
            _flush(new)
            new.rename(self.path(state.step))

    def keep_only(self, steps: Iterable[int]) -> None:
        """Remove the checkpoints of all other steps."""
        kept = {self.path(step) for step in steps}
        for checkpoint in self._all():
            if checkpoint not in kept:
                shutil.rmtree(checkpoint)

    def _all(self) -> list[Path]:
        """Return all checkpoints, the last one last: numbers of a million steps are longer."""
        return sorted(
            self.directory.glob("step-[0-9]*"),
            key=lambda path: int(path.name.removeprefix("step-")),
        )


def read_record(checkpoint: Path) -> dict[str, Any]:
    """Return the "state" and the "recipe" that a checkpoint records. Raises Damaged."""
    try:
        content: dict[str, Any] = json.loads((checkpoint / STATE).read_text())
    except (OSError, ValueError) as error:
        raise _damaged(checkpoint, error) from error
    return content


def restore_optimizer(optimizer: Optimizer, checkpoint: Path) -> None:
    """Load an optimizer's moments from a checkpoint. Raises Damaged."""
    try:
        tensors = load_file(checkpoint / OPTIMIZER)

        state: dict[int, dict[str, Tensor]] = {}
        for key, value in tensors.items():
            number, _, name = key.partition(".")
            state.setdefault(int(number), {})[name] = value

        # Rates and decay come from the settings, not from the checkpoint.
        parameter_groups = optimizer.state_dict()["param_groups"]
        optimizer.load_state_dict({"state": state, "param_groups": parameter_groups})
    except (OSError, SafetensorError) as error:
        raise _damaged(checkpoint, error) from error


def dev_measures(checkpoint: Path) -> dict[str, float]:
    """Return the dev measures of a checkpoint that `train` returned."""
    state = read_record(checkpoint)["state"]
    measures: dict[str, float] = state["measures"].get(str(state["step"]), {})
    return measures


def recorded_precision(out: Path) -> Precision | None:
    """Return the precision of the last steps in `out`, over all stages; None without a record."""
    states = [path for path in out.glob(f"*/step-[0-9]*/{STATE}") if path.is_file()]

    for path in sorted(states, key=lambda path: path.stat().st_mtime, reverse=True):
        # A damaged checkpoint, or one of an earlier version, is reported when the run is resumed from it.
        with suppress(Damaged):
            recorded: dict[str, Precision] = read_record(path.parent)["state"].get("precision", {})
            return next(reversed(recorded.values()), None)
    return None


@contextmanager
def only_run(directory: Path) -> Iterator[None]:
    """Lock a run's directory. Raises Busy if another run has it, whose checkpoints this would replace."""
    with storing(directory):
        directory.mkdir(parents=True, exist_ok=True)
    busy = f"Another process is training in {directory}: wait for it, or give another --out."
    with exclusive(directory, busy):
        yield


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


def _optimizer_tensors(optimizer: Optimizer) -> dict[str, Tensor]:
    """Return an optimizer's moments, named NUMBER.NAME by the number of their parameter."""
    states = optimizer.state_dict()["state"]
    return {
        f"{number}.{name}": value
        for number, state in states.items()
        for name, value in state.items()
    }


def _damaged(checkpoint: Path, error: Exception) -> Damaged:
    return Damaged(
        f"The checkpoint {checkpoint} is damaged: {error}. Remove it to resume from the one before."
    )


def _flush(directory: Path) -> None:
    """Wait until all files in `directory`, and their names, are on the disk."""
    # A directory's own entry has to be flushed too, or a power cut could lose the names.
    for path in [*directory.rglob("*"), directory]:
        fsync(path)
