"""Milliseconds that fused attention takes on this CPU by type, and with gradients in float32 as training has them.

    python benchmarks/attention.py [--tokens 32 100 256] [--texts 32] [--threads 1]

MiniLM's 12 heads of 32; a third of half of the texts is padding. The least of five turns.
"""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import nullcontext
from pathlib import Path

import torch
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).parents[1]))

from training.attention import float32_gradients

HEADS, WIDTH, TURNS = 12, 32, 5


def turn(tokens: int, texts: int, dtype: torch.dtype, ours: bool) -> tuple[float, float]:
    """Milliseconds forward and backward."""
    states = [
        torch.randn(texts, HEADS, tokens, WIDTH, dtype=dtype, requires_grad=True) for _ in range(3)
    ]
    seen = torch.ones(texts, 1, 1, tokens, dtype=torch.bool)
    seen[::2, ..., tokens * 2 // 3 :] = False
    with float32_gradients() if ours else nullcontext():
        started = time.perf_counter()
        found = F.scaled_dot_product_attention(*states, attn_mask=seen)
        middle = time.perf_counter()
        found.backward(torch.ones_like(found))  # type: ignore[no-untyped-call]
        ended = time.perf_counter()
    return (middle - started) * 1000, (ended - middle) * 1000


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--tokens", type=int, nargs="+", default=[32, 100, 256])
    options.add_argument("--texts", type=int, default=32)
    options.add_argument("--threads", type=int, default=1)
    given = options.parse_args()
    torch.set_num_threads(given.threads)
    rows = {
        "bfloat16": (torch.bfloat16, False),
        "float32": (torch.float32, False),
        "bfloat16, gradients in float32": (torch.bfloat16, True),
    }
    print("| tokens | type | forward, ms | backward, ms |\n|---|---|---|---|")
    for tokens in given.tokens:
        for name, (dtype, ours) in rows.items():
            times = [turn(tokens, given.texts, dtype, ours) for _ in range(TURNS)]
            print(
                f"| {tokens} | {name} | {min(t for t, _ in times):.1f} | {min(t for _, t in times):.1f} |"
            )


if __name__ == "__main__":
    main()
