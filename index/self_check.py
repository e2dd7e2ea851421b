"""Vectors of a few fixed texts, kept with a build: they tell whether another machine's vectors can be compared.

8-bit graphs round activations, and processors differ in the last bits of a float, so one graph gives slightly other
vectors on another processor. Measured between AVX2, AVX512 without VNNI and VNNI over 6,267 functions, the released
encoder's 1 - cosine is at most 0.0005. A graph whose sums saturate without VNNI comes to 0.0115.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from index.encoder import TextEncoder, Vectors
from index.storage import read_array

FILE = "self_check.npy"
TOLERANCE = 0.002  # of 1 - cosine; four times what processors were measured to differ by
TEXTS = (
    "open",
    "dimmable reading lamp, 650 lumen",
    "How do I remove a directory tree that is not empty?",
    "def area(width, height):\n    return abs(width * height)",
    "The default value is False. Raises ValueError if the sequence is empty, or if k is larger than its length.",
    "func (c *Client) Retry(ctx context.Context, attempts int) error {\n\tfor i := 0; i < attempts; i++ {\n"
    "\t\tif err := c.send(ctx); err == nil {\n\t\t\treturn nil\n\t\t}\n\t}\n\treturn ErrGaveUp\n}",
    "Größe, naïve, 数据, данные: 1,024 x_1 HTTPServer 🙂",
    "public List<Order> findOpen(Customer customer) { return orders.stream().filter(order -> order.isOpen() && "
    "order.customer().equals(customer)).sorted(comparing(Order::date)).collect(toList()); } " * 4,
)


def save(directory: Path, encoder: TextEncoder) -> None:
    """Write the vectors of TEXTS, float32 (len(TEXTS), dim), beside a build's other files."""
    np.save(directory / FILE, encoder.encode(TEXTS, role="passage"))


def drift(
    directory: Path, encoder: TextEncoder, read: Callable[[Path], bytes] = Path.read_bytes
) -> float:
    """The largest 1 - cosine between the vectors that `save` wrote and those that `encoder` gives here.

    `read` gives the content of a file. Infinite where the stored vectors are of another shape.
    """
    stored: Vectors = read_array(read(directory / FILE))
    vectors = encoder.encode(TEXTS, role="passage")
    if stored.shape != vectors.shape:
        return float("inf")
    return float(1.0 - np.einsum("ij,ij->i", stored, vectors).min())


def warning(corpus: str, largest: float) -> str | None:
    """What to tell people about a build whose vectors are `largest` (1 - cosine) from this machine's, if anything."""
    if largest <= TOLERANCE:
        return None
    return (
        f"Corpus {corpus!r} was built on a machine whose encoder gives other vectors than this one "
        f"(1 - cosine up to {largest:.4f}, allowed is {TOLERANCE}): its results are worse than measured. "
        "Build the corpus again on this machine."
    )
