"""Texts that calibrate and check exported encoders."""

from __future__ import annotations

import importlib
import inspect

SAMPLE_MODULES = (
    "argparse",
    "calendar",
    "csv",
    "datetime",
    "logging",
    "pathlib",
    "statistics",
    "textwrap",
    "zipfile",
)

SAMPLE_CHARS = 600


def probes() -> list[str]:
    """Return texts of 0 to 300 words in many scripts, each of another length, to check a graph."""
    words = (
        "def read ( path , mode = 'r' ) : return open file line Größe naïve 数据 данные 🙂 x_1 "
        "HTTPServer"
    ).split()
    lengths = (1, 2, 3, 5, 9, 17, 40, 90, 160, 300)
    texts = (
        " ".join(words[(7 * i * i + length) % len(words)] for i in range(length))
        for length in lengths
    )

    return ["", *texts]


def library_texts() -> list[str]:
    """Return some 300 excerpts and lines of code and documentation of Python's standard library."""
    sources = [inspect.getsource(importlib.import_module(name)) for name in SAMPLE_MODULES]

    excerpts = [
        text[i : i + SAMPLE_CHARS]
        for text in sources
        for i in range(0, len(text), 5 * SAMPLE_CHARS)
    ]
    lines = [line.strip() for text in sources for line in text.splitlines()[::60]]
    return [*excerpts, *filter(None, lines)]
