"""Choose bf16, fp16 or fp32 for a run's matrix products, by timing them on the machine at hand.

bf16 takes a half or a third of the time on processors with AVX512-BF16 or AMX, and up to a hundred
times as long on those with AVX2 only, which emulate it. What a processor claims to support does not
tell its speed, so a small step is timed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from statistics import median
from typing import Literal, get_args

import torch
from accelerate import PartialState
from accelerate.utils import broadcast, is_bf16_available
from torch.nn import functional as F

Precision = Literal["bf16", "fp16", "fp32"]
Step = Callable[[Precision, int], None]
"""Computes once, in a precision, on a number of rows."""

MIN_SPEEDUP = 1.2  # below it, changing the precision is not worthwhile
EMULATED_RATIO = 0.5  # a speedup below it on few rows means emulation: more rows are not tried
ROWS = 8, 256
DIMS = 384, 1536  # of a small encoder's feed-forward layer
ROUNDS = 3, 7  # at least and at most
MEASURE_SECONDS = 0.3  # for each number of rows; no round starts after it but those that have to be


def choose(
    state: PartialState,
    recorded: Precision | None = None,
    *,
    measure: Callable[[], float] | None = None,
    say: Callable[[str], None] | None = None,
) -> Precision:
    """Return the faster precision on `state.device`; the main process decides for all processes.

    A GPU uses bf16 if it supports it, else fp16; a CPU uses bf16 if `measure`, by default a `speedup`
    measured once per process, shows that it is clearly faster. A resumed run leaves its `recorded`
    precision only for a clearly faster one, so that noise does not change its curve and another
    machine does not slow it down. The main process reports the choice to `say` in one line.
    """
    chosen: Precision = "fp32"
    if state.is_main_process:
        chosen, reason = _decide(state.device, recorded, measure or _measured)
        if say is not None:
            say(f"precision: {chosen} ({reason})")

    precisions = get_args(Precision)
    number = torch.tensor([precisions.index(chosen)], dtype=torch.int64, device=state.device)
    agreed: Precision = precisions[int(broadcast(number))]
    return agreed


def speedup(step: Step, clock: Callable[[], float] = time.perf_counter) -> float:
    """Return how many times as fast `step` is in bf16 as in fp32.

    Few rows come first: on a processor that emulates bf16 they are enough to tell, and as many rows
    as in training would take seconds.
    """
    for rows in ROWS:
        ratio = _ratio(step, rows, clock)
        if ratio < EMULATED_RATIO:
            break

    return ratio


def training_step(precision: Precision, rows: int) -> None:
    """Run `rows` forward and backward through a linear layer on the CPU, under autocast."""
    inputs = torch.ones(rows, DIMS[0], requires_grad=True)
    weight = torch.ones(DIMS[1], DIMS[0], requires_grad=True)

    with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
        outputs = F.linear(inputs, weight)
    outputs.float().sum().backward()  # type: ignore[no-untyped-call]


# Accelerate has one precision per process, so all runs in a process have to agree.
@cache
def _measured() -> float:
    with _one_thread():
        return speedup(training_step)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Compute on one thread: on shared cores, waiting for threads takes longer than few rows do."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _decide(
    device: torch.device, recorded: Precision | None, measure: Callable[[], float]
) -> tuple[Precision, str]:
    """Return the precision and the reason for it."""
    if device.type != "cpu":
        if _supports_bf16(device):
            return "bf16", f"{device.type} supports bf16"
        # Of the others, only NVIDIA's have losses scaled, without which small gradients are lost.
        if device.type == "cuda":
            return "fp16", "cuda lacks bf16"
        return "fp32", f"{device.type} lacks bf16"

    ratio = measure()
    threshold = 1 / MIN_SPEEDUP if recorded == "bf16" else MIN_SPEEDUP
    reason = f"bf16 is {ratio:.2g} times as fast as fp32 on this processor"
    return "bf16" if ratio >= threshold else "fp32", reason


def _supports_bf16(device: torch.device) -> bool:
    """Tell whether the hardware supports bf16: older GPUs emulate it."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return bool(is_bf16_available())


def _ratio(step: Step, rows: int, clock: Callable[[], float]) -> float:
    """Return median seconds in fp32 divided by those in bf16.

    The two are measured in turns, so that a busy moment slows both.
    """
    seconds: dict[Precision, list[float]] = {"fp32": [], "bf16": []}

    # The first step in each precision also pays for setup, which on a machine that has just started
    # takes longer than all rounds: they begin after it.
    for precision in seconds:
        step(precision, rows)

    started = clock()
    for finished_rounds in range(ROUNDS[-1]):
        if finished_rounds >= ROUNDS[0] and clock() - started >= MEASURE_SECONDS:
            break
        for precision, times in seconds.items():
            step_started = clock()
            step(precision, rows)
            times.append(clock() - step_started)

    return median(seconds["fp32"]) / median(seconds["bf16"])
