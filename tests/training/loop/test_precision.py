"""The choice of bf16 or fp32 on simulated processors, and on this one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import PartialState
from accelerate.state import AcceleratorState

from purlin.index.errors import InvalidInput
from purlin.training.loop import devices, precision
from purlin.training.loop.devices import device_line, make_accelerator
from purlin.training.loop.precision import ROUNDS, Precision, choose, speedup, training_step
from purlin.training.loop.settings import LoopSettings
from tests.support.training_runs import run_two_processes

pytestmark = pytest.mark.usefixtures("one_process")


class Processor:
    """Takes `seconds` per row in each precision, ten times as long at first, by its own clock."""

    def __init__(self, seconds: Mapping[Precision, float]) -> None:
        self.seconds, self.now = seconds, 0.0
        self.steps = list[tuple[Precision, int]]()

    def clock(self) -> float:
        return self.now

    def step(self, precision: Precision, rows: int) -> None:
        first = precision not in {name for name, _ in self.steps}
        self.steps.append((precision, rows))
        self.now += self.seconds[precision] * rows * (10 if first else 1)


@pytest.mark.parametrize("ratio", [3.0, 1.0, 0.6, 0.2, 0.01])
def test_the_speedup_leaves_out_the_first_steps(ratio: float) -> None:
    processor = Processor({"fp32": 4e-5 * ratio, "bf16": 4e-5})
    assert speedup(processor.step, processor.clock) == pytest.approx(ratio)


def test_emulated_bf16_is_measured_on_few_rows() -> None:
    """28 million multiplications and additions: 0.07 s a step at 0.4 GFLOP/s."""
    processor = Processor({"fp32": 0.0007 / 8, "bf16": 0.07 / 8})
    processor.steps = [("bf16", 0), ("fp32", 0)]  # already warm
    assert speedup(processor.step, processor.clock) == pytest.approx(0.01)
    assert {rows for _, rows in processor.steps[2:]} == {8}
    assert processor.now < 1


def test_a_slow_processor_is_measured_in_fewer_rounds() -> None:
    processor = Processor({"fp32": 0.2 / 256, "bf16": 0.2 / 256})
    assert speedup(processor.step, processor.clock) == pytest.approx(1.0)
    large = [name for name, rows in processor.steps if rows == 256]
    # Once to warm up, and in the rounds that there have to be.
    assert large.count("fp32") == large.count("bf16") == 1 + ROUNDS[0]


@pytest.mark.parametrize("setup", [(0.5, 0.5, 0.0, 0.01), (*[0.0] * 9, 0.02)])
def test_a_disturbed_round_does_not_decide(setup: tuple[float, ...]) -> None:
    """A setup of a second before bf16 meets a busy moment, and one busy moment later."""
    processor = Processor({"fp32": 2e-5, "bf16": 1e-5})
    delays = iter([*setup, *[0.0] * 100])

    def step(name: Precision, rows: int) -> None:
        processor.step(name, rows)
        processor.now += next(delays)

    assert speedup(step, processor.clock) == pytest.approx(2.0)


def test_a_fast_processor_is_measured_in_all_rounds() -> None:
    processor = Processor({"fp32": 2e-5, "bf16": 1e-5})
    speedup(processor.step, processor.clock)
    assert len(processor.steps) == 2 * 2 * (1 + ROUNDS[-1])


@pytest.mark.parametrize(
    ("ratio", "recorded", "expected"),
    [
        (2.2, None, "bf16"),
        (1.25, None, "bf16"),
        (1.15, None, "fp32"),
        (0.01, None, "fp32"),
        (1.15, "bf16", "bf16"),
        (0.9, "bf16", "bf16"),  # not clearly slower
        (0.8, "bf16", "fp32"),
        (0.01, "bf16", "fp32"),
        (1.15, "fp32", "fp32"),
        (2.2, "fp32", "bf16"),
    ],
)
def test_the_clearly_faster_precision_is_chosen(
    ratio: float, recorded: Precision | None, expected: Precision
) -> None:
    lines: list[str] = []

    assert (
        choose(PartialState(cpu=True), recorded, measure=lambda: ratio, say=lines.append)
        == expected
    )
    assert lines == [
        f"precision: {expected} (bf16 is {ratio:.2g} times as fast as fp32 on this processor)"
    ]


@pytest.mark.parametrize("supported", [True, False])
def test_a_gpu_is_not_measured(supported: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def measure() -> float:
        raise AssertionError("a GPU was measured")

    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: supported)
    expected = ("bf16", "cuda supports bf16") if supported else ("fp16", "cuda lacks bf16")
    assert precision._decide(torch.device("cuda"), None, measure) == expected


def test_measuring_restores_the_threads() -> None:
    torch.set_num_threads(2)
    precision._measured.cache_clear()
    assert 1e-4 < precision._measured() < 1e2
    assert torch.get_num_threads() == 2


def test_the_timed_step_computes_in_its_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    types: list[torch.dtype] = []
    linear: Callable[..., torch.Tensor] = precision.F.linear

    def recorded(*args: torch.Tensor) -> torch.Tensor:
        types.append((outputs := linear(*args)).dtype)
        return outputs

    monkeypatch.setattr(precision.F, "linear", recorded)
    training_step("fp32", 2)
    training_step("bf16", 2)
    assert types == [torch.float32, torch.bfloat16]


def test_an_accelerator_uses_the_measured_precision() -> None:
    lines: list[str] = []
    accelerator = make_accelerator(LoopSettings(), cpu=True, say=lines.append)
    chosen = "fp32" if accelerator.mixed_precision == "no" else accelerator.mixed_precision

    assert lines[0].split(" (")[0] == f"precision: {chosen}"
    assert lines[1:] == ["device: cpu, 1 process"]

    with accelerator.autocast():
        product = torch.ones(2, 2) @ torch.ones(2, 2)
    assert product.dtype == {"fp32": torch.float32, "bf16": torch.bfloat16}[chosen]
    again = make_accelerator(LoopSettings(), cpu=True)  # by another run in this process
    assert again.mixed_precision == accelerator.mixed_precision


@pytest.mark.parametrize("name", ["bf16", "fp32"])
def test_a_named_precision_is_not_measured(
    name: Precision, monkeypatch: pytest.MonkeyPatch
) -> None:
    AcceleratorState._reset_state(reset_partial_state=True)
    monkeypatch.setattr(precision, "_measured", lambda: pytest.fail("it was measured"))
    lines: list[str] = []
    accelerator = make_accelerator(LoopSettings(precision=name), cpu=True, say=lines.append)
    assert accelerator.mixed_precision == {"bf16": "bf16", "fp32": "no"}[name]
    assert lines == ["device: cpu, 1 process"]


def test_unused_gpu_is_pointed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Fast GPU")

    assert device_line(torch.device("cpu"), 2) == (
        "device: cpu, 2 processes; WARNING: a GPU is there and not used: leave out --cpu"
    )
    assert device_line(torch.device("cuda"), 1) == (
        "device: Fast GPU, 1 process; WARNING: 3 of 4 GPUs are not used: start with accelerate launch "
        "--num_processes 4 -m purlin train …"
    )
    assert device_line(torch.device("cuda"), 4) == "device: Fast GPU, 4 processes"


def test_a_build_for_cpus_beside_a_gpu_is_pointed_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(torch.version, "cuda", None)
    monkeypatch.setattr(devices, "NVIDIA", tmp_path / "version")
    assert device_line(torch.device("cpu"), 1) == "device: cpu, 1 process"

    (tmp_path / "version").touch()
    assert "WARNING: a GPU is there, but this torch is built for CPUs" in device_line(
        torch.device("cpu"), 1
    )


def test_fp16_on_a_cpu_is_refused() -> None:
    with pytest.raises(InvalidInput, match='precision "fp16" needs a GPU') as error:
        make_accelerator(LoopSettings(precision="fp16"), cpu=True)
    assert error.value.field == "precision"


def test_processes_give_up_after_the_recipes_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever of the two starts the group of processes, it gets the same limit."""
    timeouts: list[timedelta] = []
    state, handler = devices.PartialState, devices.InitProcessGroupKwargs

    def recorded(kind: Callable[..., Any], *args: Any, timeout: timedelta, **keys: Any) -> Any:
        timeouts.append(timeout)
        return kind(*args, **keys) if kind is state else kind(timeout=timeout)

    monkeypatch.setattr(devices, "PartialState", partial(recorded, state))
    monkeypatch.setattr(devices, "InitProcessGroupKwargs", partial(recorded, handler))
    make_accelerator(LoopSettings(timeout_minutes=90), cpu=True)
    assert timeouts == [timedelta(minutes=90)] * 2
    with pytest.raises(InvalidInput, match="timeout_minutes must be from 1"):
        LoopSettings(timeout_minutes=0)


def choose_twice(out: Path) -> None:
    """Choose in two processes, which measure opposite speeds; write what each has chosen."""
    state, lines = PartialState(cpu=True), list[str]()
    assert state.num_processes == 2

    for number, ratios in enumerate([(3.0, 0.1), (0.1, 3.0)]):
        ratio = ratios[state.process_index]
        chosen = choose(state, measure=partial(float, ratio), say=lines.append)
        (out / f"{state.process_index}-{number}").write_text(chosen)
    (out / f"{state.process_index}-lines").write_text("".join(lines))


def test_all_processes_use_the_main_ones_precision(tmp_path: Path) -> None:
    run_two_processes(choose_twice, tmp_path)

    chosen = {path.name: path.read_text() for path in tmp_path.glob("[01]-[01]")}
    assert chosen == {"0-0": "bf16", "1-0": "bf16", "0-1": "fp32", "1-1": "fp32"}
    assert (tmp_path / "0-lines").read_text().count("precision: ") == 2
    assert (tmp_path / "1-lines").read_text() == ""
