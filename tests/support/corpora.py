"""Corpora that are built and opened at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from purlin.index import builds
from purlin.index.encoder import TextEncoder
from purlin.index.indexing.build import build
from purlin.index.indexing.builder import Options
from purlin.index.records import Kind, Skipped, SourceFile
from purlin.index.search.corpus import Corpus
from purlin.index.sources import open_source
from tests.support.files import write_tree
from tests.support.hash_encoder import HashEncoder


def new_corpus(
    home: Path,
    kind: Kind,
    sources: Iterable[SourceFile | Skipped],
    encoder: TextEncoder | None = None,
    name: str = "c",
    **options: Any,
) -> Corpus:
    """Build a corpus and open it."""
    encoder = encoder or HashEncoder()
    build(home, name, kind, sources, encoder, options=Options(**options))
    return Corpus.load(builds.current(home, name), encoder)


@contextmanager
def open_repository(directory: Path, files: Mapping[str, str]) -> Iterator[Corpus]:
    """Write files, by their path, and open a corpus of their code."""
    sources = open_source("code", [write_tree(directory / "sources", files)])
    with closing(new_corpus(directory / "home", "code", sources)) as corpus:
        yield corpus
