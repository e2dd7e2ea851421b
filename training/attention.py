"""Attention in training on a CPU, whose fused backward pass is several times as fast in float32 as in bfloat16."""

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
    """While entered, fused attention on a CPU computes gradients of bfloat16 in float32, and gives them in bfloat16.

    torch's own pass in bfloat16 makes no use of the CPU's matrix unit and takes four times as long, half of a whole
    training step under autocast (benchmarks/attention.py). It is replaced in all threads, and put back at the end.
    """
    kernel = torch.library.get_kernel(f"aten::{BACKWARD}", "CPU")

    def backward(keys: Any, *args: Any, **kwargs: Any) -> Any:
        if args[0].dtype != torch.bfloat16:
            return kernel.call_boxed(keys, *args, **kwargs)
        exact = {name: _float32(value) for name, value in kwargs.items()}
        return tuple(
            found.bfloat16() for found in kernel.call_boxed(keys, *map(_float32, args), **exact)
        )

    with torch.library._scoped_library("aten", "IMPL") as library:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "(?s).*Overriding a previously registered kernel")
            library.impl(BACKWARD, backward, "CPU", with_keyset=True)
        yield


def _float32(value: Any) -> Any:
    return value.float() if isinstance(value, Tensor) and value.is_floating_point() else value
