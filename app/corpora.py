"""The corpora being served."""

from __future__ import annotations

from pathlib import Path

from app.builds import OpenBuilds
from index.corpus import Corpus
from index.encoder import TextEncoder
from index.generations import CORPORA
from index.lookups import Lookups


class OpenCorpora(OpenBuilds[Corpus]):
    """All corpora below `home`, opened with one encoder; those made with another are refused.

    `filters` counts how often the row mask of a filter was there, over all of them.
    """

    def __init__(self, home: Path, encoder: TextEncoder, *, timeout_s: float) -> None:
        self.filters = filters = Lookups()
        super().__init__(home, CORPORA, lambda build: Corpus.load(build, encoder, filters=filters), timeout_s=timeout_s)
