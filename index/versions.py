"""Versions of the rules by which sources become documents, and documents what is searched.

A build records those that it was made by. Raised by one, a version has the next build of a corpus make
anew what depends on it. Until then the build serves on, with a warning.
"""

from __future__ import annotations

from purlin.index.records import Kind

# Raised when `split`, `render`, `lexical_text`, the tokens of BM25, the values that filters compare or
# what is stored of a document are anything else: builds then take over no passages of earlier ones.
TEXTS = 10

# Each is raised when its reader makes other documents of the same files, and is part of their digests.
CODE = 26
CATALOGUES = 14
MANUALS = 30
DOCSTRINGS = 5
BEIR = 2
# Of what several paths of a corpus add to their documents.
PREFIXES = 3

_READERS: dict[Kind, tuple[int, ...]] = {
    "code": (CODE,),
    "product": (CATALOGUES,),
    # A corpus of products in BEIR's format goes through the reader of catalogues.
    "reference": (MANUALS, DOCSTRINGS),
}


def readers(kind: Kind) -> tuple[int, ...]:
    """Return the versions of all readers that a corpus of this kind may have been read by."""
    return *_READERS[kind], BEIR, PREFIXES
