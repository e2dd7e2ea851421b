"""Corpora of the files of small repositories."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from purlin.index import builds
from purlin.index.indexing.build import build
from purlin.index.search.corpus import Corpus
from purlin.index.sources import open_source
from tests.support.hash_encoder import HashEncoder


@contextmanager
def open_repository(directory: Path, files: Mapping[str, str]) -> Iterator[Corpus]:
    """Write files, by their path, and open a corpus of their code."""
    home, root, encoder = directory / "home", directory / "sources", HashEncoder()
    for path, content in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(content)

    build(home, "code", "code", open_source("code", [root]), encoder)
    with closing(Corpus.load(builds.current(home, "code"), encoder)) as corpus:
        yield corpus
