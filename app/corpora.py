"""The corpora being served."""

from __future__ import annotations

from pathlib import Path

from app.builds import OpenBuilds
from index.builds import CORPORA
from index.encoder import TextEncoder
from index.lookups import Lookups
from index.search.corpus import Corpus


class OpenCorpora(OpenBuilds[Corpus]):
    """All corpora below `home`, opened with one encoder; those made with another are refused.

    `filters` counts how often the row mask of a filter was there, over all of them.
    """

    def __init__(self, home: Path, encoder: TextEncoder, *, timeout_s: float) -> None:
        self.filters = Lookups()
        self._encoder = encoder
        super().__init__(home, CORPORA, self._opened, timeout_s=timeout_s)

    def _opened(self, build: Path) -> Corpus:
        corpus = Corpus.load(build, self._encoder)
        corpus.filter_lookups = self.filters
        if corpus.warning is not None:
            self._log.warning("%s", corpus.warning)
        return corpus
