"""Hard negatives: labelled ones, those mined anew in each round, and the shares of two processes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from accelerate import Accelerator
from safetensors.torch import load_file, save_file

from purlin.training import mining
from purlin.training.loop.checkpoints import OPTIMIZER
from purlin.training.loop.run import train
from purlin.training.santa.recipe import Stage, StageTeacher
from purlin.training.santa.task import SantaTask
from tests.support.code_pairs import PAIRS, pair_of, spaced, tiny
from tests.support.santa import LOOP, same, task_of, words
from tests.support.training_runs import metrics_rows, run_two_processes


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


# -- several processes ------------------------------------------------------------------------------


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


def share(base: Path, directory: Path) -> SantaTask:
    """Train three steps with every feature, on any number of processes."""
    stage = Stage(
        name="a",
        loop=LOOP,
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
