"""Choose between bf16 and fp32 for a run's matrix products, by timing both on the machine at hand.

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
from typing import Literal

import torch
from accelerate import PartialState
from accelerate.utils import broadcast, is_bf16_available
from torch.nn import functional as F

Precision = Literal["bf16", "fp32"]
Step = Callable[[Precision, int], None]
"""Compute once, in a precision, on a number of rows."""

CLEARLY = 1.2  # times as fast, before the precision is worth a change
HOPELESS = 0.5  # times as fast on few rows; more rows are not tried
ROWS = 8, 256
DIMS = 384, 1536  # of a small encoder's feed-forward layer
ROUNDS = 7
SECONDS = 0.3  # for each number of rows, after which no round begins


def choose(
    state: PartialState,
    recorded: Precision | None = None,
    *,
    measure: Callable[[], float] | None = None,
    say: Callable[[str], None] | None = None,
) -> Precision:
    """Return the faster precision on `state.device`, as the main process finds it, in every process alike.

    A GPU takes bf16 if it supports it; a CPU if `measure`, by default a `speedup` taken once per process,
    finds it clearly faster. A run that goes on leaves the precision it has `recorded` only for one that is
    clearly faster: noise does not bend its curve, another machine does not slow it down. The main process
    says which it is in one line.
    """
    chosen: Precision = "fp32"
    if state.is_main_process:
        chosen, reason = _decide(state.device, recorded, measure or _measured)
        if say is not None:
            say(f"precision: {chosen} ({reason})")

    bf16 = torch.tensor([chosen == "bf16"], dtype=torch.int64, device=state.device)
    return "bf16" if int(broadcast(bf16)) else "fp32"


def speedup(step: Step, clock: Callable[[], float] = time.perf_counter) -> float:
    """Return how many times as fast `step` is in bf16 as in fp32.

    Few rows come first: on a processor that emulates bf16 even they tell, and as many as in training
    would take seconds.
    """
    for rows in ROWS:
        ratio = _ratio(step, rows, clock)
        if ratio < HOPELESS:
            break
    return ratio


def training_step(precision: Precision, rows: int) -> None:
    """Pass `rows` through a linear layer on the CPU and back, under autocast as in training."""
    inputs, weight = (torch.ones(size, DIMS[0], requires_grad=True) for size in (rows, DIMS[1]))
    with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
        outputs = F.linear(inputs, weight)
    outputs.float().sum().backward()  # type: ignore[no-untyped-call]


@cache  # accelerate takes one precision a process, so that runs in the same process have to agree
def _measured() -> float:
    with _one_thread():
        return speedup(training_step)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Compute on one thread: on shared cores threads wait for each other longer than few rows take."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _decide(
    device: torch.device, recorded: Precision | None, measure: Callable[[], float]
) -> tuple[Precision, str]:
    """The precision, and why."""
    if device.type != "cpu":
        supported = _supports_bf16(device)
        return (
            "bf16" if supported else "fp32",
            f"{device.type} {'supports' if supported else 'lacks'} bf16",
        )

    ratio = measure()
    least = 1 / CLEARLY if recorded == "bf16" else CLEARLY
    return (
        "bf16" if ratio >= least else "fp32",
        f"bf16 is {ratio:.2g} times as fast as fp32 on this processor",
    )


def _supports_bf16(device: torch.device) -> bool:
    """Whether in hardware: older GPUs emulate bf16."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return bool(is_bf16_available())


def _ratio(step: Step, rows: int, clock: Callable[[], float]) -> float:
    """Median seconds in fp32 by those in bf16, in turns, so that a busy moment slows both."""
    started = clock()
    seconds: dict[Precision, list[float]] = {"fp32": [], "bf16": []}
    for precision in seconds:
        step(precision, rows)  # warm up

    for done in range(ROUNDS):
        if done and clock() - started >= SECONDS:
            break
        for precision, times in seconds.items():
            begun = clock()
            step(precision, rows)
            times.append(clock() - begun)
    return median(seconds["fp32"]) / median(seconds["bf16"])
