"""Self-check of a build: vectors of fixed texts, to compare the machine that built with this one.

8-bit graphs round activations, and processors differ in the last bits of a float, so one graph
gives slightly different vectors on another processor. Between AVX2, AVX512 without VNNI and VNNI,
1 - cosine of the released encoder is at most 0.0005 over 6,267 functions. A graph whose sums
saturate without VNNI reaches 0.0115.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from purlin.index.encoder.text_encoder import TextEncoder, Vectors
from purlin.index.storage import read_array

SELF_CHECK_FILE = "self_check.npy"
# Largest accepted 1 - cosine: four times the difference measured between processors.
TOLERANCE = 0.002
SELF_CHECK_TEXTS = (
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


def write_self_check(directory: Path, encoder: TextEncoder) -> None:
    """Write the vectors of the texts, float32 (texts, dim), beside a build's other files."""
    vectors = encoder.encode(SELF_CHECK_TEXTS, role="passage")
    np.save(directory / SELF_CHECK_FILE, vectors)


def drift(
    directory: Path, encoder: TextEncoder, read: Callable[[Path], bytes] = Path.read_bytes
) -> float:
    """Largest 1 - cosine between a build's self-check vectors and those that `encoder` gives here.

    `read` returns the content of a file.
    """
    return drift_from(read_array(read(directory / SELF_CHECK_FILE)), encoder)


def drift_from(stored: Vectors, encoder: TextEncoder) -> float:
    """Largest 1 - cosine between vectors of the self-check and those that `encoder` gives here.

    It is infinite if the shapes differ.
    """
    vectors = encoder.encode(SELF_CHECK_TEXTS, role="passage")
    if stored.shape != vectors.shape:
        return float("inf")
    return float(1.0 - np.einsum("ij,ij->i", stored, vectors).min())


def drift_warning(corpus: str, largest: float) -> str | None:
    """Warning about a build whose vectors drift by `largest` on this machine, or None."""
    if largest <= TOLERANCE:
        return None
    return (
        f"Corpus {corpus!r} was built on a machine whose encoder gives other vectors than this one "
        f"(1 - cosine up to {largest:.4f}; at most {TOLERANCE} is acceptable), so its results are "
        "worse than measured. Build the corpus again on this machine."
    )
