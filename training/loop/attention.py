"""Speed up the backward pass of fused attention on a CPU, which is slow in bfloat16."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

BACKWARD = "_scaled_dot_product_flash_attention_for_cpu_backward"


@contextmanager
def float32_gradients() -> Iterator[None]:
    """Compute bfloat16 gradients of fused CPU attention in float32 within this context.

    torch's own bfloat16 kernel does not use the CPU's matrix unit: it takes four times as long,
    half of a training step under autocast (benchmarks/training/attention.py). The kernel is replaced in all
    threads and restored on exit. Gradients are still returned in bfloat16.
    """
    kernel = torch.library.get_kernel(f"aten::{BACKWARD}", "CPU")

    def backward(keys: Any, *args: Any, **kwargs: Any) -> Any:
        if args[0].dtype != torch.bfloat16:
            return kernel.call_boxed(keys, *args, **kwargs)

        exact_args = map(_float32, args)
        exact_kwargs = {name: _float32(value) for name, value in kwargs.items()}
        gradients = kernel.call_boxed(keys, *exact_args, **exact_kwargs)
        return tuple(gradient.bfloat16() for gradient in gradients)

    with torch.library._scoped_library("aten", "IMPL") as library:
        # torch warns whenever a kernel is overridden, which is the purpose here.
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "(?s).*Overriding a previously registered kernel")
            library.impl(BACKWARD, backward, "CPU", with_keyset=True)

        yield


def _float32(value: Any) -> Any:
    return value.float() if isinstance(value, Tensor) and value.is_floating_point() else value
