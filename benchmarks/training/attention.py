"""Time scaled dot-product attention on this CPU, forward and backward, in each data type.

    python -m benchmarks.training.attention [--tokens 32 100 256] [--texts 32] [--threads 1]

The third row is what training uses: bfloat16 with gradients in float32. Shapes are those of
MiniLM: 12 heads of width 32. In every second text the last third of the tokens is padding. Times
are the shortest of five runs, in milliseconds.
"""

from __future__ import annotations

import time
from contextlib import nullcontext

import torch
from torch.nn import functional as F

from benchmarks.options import command_parser
from purlin.training.loop.attention import float32_gradients

HEADS, HEAD_WIDTH, RUNS = 12, 32, 5


def time_attention(
    tokens: int, texts: int, dtype: torch.dtype, patched: bool
) -> tuple[float, float]:
    """Milliseconds of one forward and one backward pass; `patched` is training's own backward."""
    shape = (texts, HEADS, tokens, HEAD_WIDTH)
    states = [torch.randn(*shape, dtype=dtype, requires_grad=True) for _ in range(3)]
    mask = torch.ones(texts, 1, 1, tokens, dtype=torch.bool)
    mask[::2, ..., tokens * 2 // 3 :] = False

    with float32_gradients() if patched else nullcontext():
        started = time.perf_counter()
        output = F.scaled_dot_product_attention(*states, attn_mask=mask)
        forward_ended = time.perf_counter()
        output.backward(torch.ones_like(output))  # type: ignore[no-untyped-call]
        ended = time.perf_counter()

    return (forward_ended - started) * 1000, (ended - forward_ended) * 1000


def main() -> None:
    parser = command_parser(__doc__)
    parser.add_argument("--tokens", type=int, nargs="+", default=[32, 100, 256])
    parser.add_argument("--texts", type=int, default=32)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()

    torch.set_num_threads(options.threads)
    variants = {
        "bfloat16": (torch.bfloat16, False),
        "float32": (torch.float32, False),
        "bfloat16, gradients in float32": (torch.bfloat16, True),
    }

    print("| tokens | type | forward, ms | backward, ms |\n|---|---|---|---|")
    for tokens in options.tokens:
        for name, (dtype, patched) in variants.items():
            times = [time_attention(tokens, options.texts, dtype, patched) for _ in range(RUNS)]
            # Other work on the machine only ever adds time, so the shortest run counts.
            forward = min(forward for forward, _ in times)
            backward = min(backward for _, backward in times)
            print(f"| {tokens} | {name} | {forward:.1f} | {backward:.1f} |")


if __name__ == "__main__":
    main()
