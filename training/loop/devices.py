"""What a run computes on: its devices, its processes, and what these exchange."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed.nn
from accelerate import Accelerator, InitProcessGroupKwargs, PartialState
from torch import Tensor

from purlin.index.errors import InvalidInput
from purlin.training.loop.checkpoints import recorded_precision
from purlin.training.loop.precision import choose
from purlin.training.loop.settings import LoopSettings

NVIDIA = Path("/proc/driver/nvidia/version")  # exists where the driver of a GPU is loaded


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


def add_gradients(loss: Tensor, accelerator: Accelerator) -> None:
    """Run the backward pass of a loss, multiplied by fp16's factor if there is one.

    The factor is taken out of the gradients before they are used.
    """
    scaler = accelerator.scaler
    scaled: Tensor = loss if scaler is None else scaler.scale(loss)
    scaled.backward()  # type: ignore[no-untyped-call]


def gathered(tensor: Tensor, accelerator: Accelerator) -> Tensor:
    """Concatenate the tensors of all processes; gradients flow back to each of them."""
    if accelerator.num_processes == 1:
        return tensor

    # The differentiable gather supports floats only.
    if not tensor.is_floating_point():
        tensors: Tensor = accelerator.gather(tensor)
        return tensors
    return torch.cat(torch.distributed.nn.all_gather(tensor))  # type: ignore[no-untyped-call]
