"""Documents, the source files that yield them, and the hits that a search has for them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from purlin.index.records import Document, Hit, Skipped, SourceFile
from purlin.index.search.corpus import Corpus


def functions(count: int, words: Sequence[str]) -> list[Document]:
    """Functions f0, f1, ... of 3 to 29 random words: every third in Go, every fifth a test."""
    random = np.random.default_rng(0)
    return [
        Document(
            id=f"m.py::f{n}",
            kind="code",
            title=f"f{n}",
            body=" ".join(random.choice(words, size=int(random.integers(3, 30)))),
            fields={
                "language": "python" if n % 3 else "go",
                "n": n,
                "role": "test" if n % 5 == 0 else "source",
            },
        )
        for n in range(count)
    ]


def source(path: str, documents: Sequence[Document | Skipped]) -> SourceFile:
    """A source file that yields these documents; its digest follows from them."""
    return SourceFile(
        path, hashlib.sha256(repr(documents).encode()).hexdigest(), lambda: iter(documents)
    )


def paged(corpus: Corpus, query: str, count: int, k: int) -> list[Hit]:
    """The first `count` hits of a query, read in pages of `k`."""
    return [
        hit
        for offset in range(0, count, k)
        for hit in corpus.search(query, k=k, offset=offset).hits
    ]
