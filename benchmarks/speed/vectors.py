"""Vectors of passages, encoded once and shared by every contestant of a comparison.

    python -m benchmarks.speed.vectors ENCODER CORPUS.jsonl.gz OUT [--threads 1] [--characters N]

Encoding a corpus with a transformer takes far longer than anything measured on it afterwards. A
run that was stopped goes on after the last complete chunk. `--characters` encodes only the first N
of each text, for a measurement of vectors alone. Texts cut too short are alike: with 60 characters
many functions have the same vector.
"""

from __future__ import annotations

import argparse
import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from purlin.index.encoder import TextEncoder, Vectors, load_encoder
from purlin.index.records import Document, Kind, Role, SourceFile
from purlin.index.sources import open_source
from purlin.index.texts.passages import render, split

CHUNK = 2048
KEY_BYTES = 12


class VectorCache:
    """Vectors by text, in a directory of chunks; all are read at opening."""

    def __init__(self, directory: Path) -> None:
        keys = [key for chunk in _chunks(directory) for key in chunk["keys"].tolist()]
        self._rows = {key: row for row, key in enumerate(keys)}
        self._vectors = read_matrix(directory)

    def missing(self, texts: Sequence[str]) -> list[int]:
        """Positions of the texts that have no vector."""
        return [number for number, text in enumerate(texts) if text_key(text) not in self._rows]

    def vectors(self, texts: Sequence[str]) -> Vectors:
        """Vectors (texts, dim) as float32. Raises KeyError for a text that has none."""
        rows = [self._rows[text_key(text)] for text in texts]
        vectors: Vectors = self._vectors[rows].astype(np.float32)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def read_matrix(directory: Path) -> NDArray[np.float16]:
    """Vectors (texts, dim) of all chunks, in the order of the corpus; (0, 0) if there are none."""
    vectors = [chunk["vectors"] for chunk in _chunks(directory)]
    return np.concatenate(vectors or [np.empty((0, 0), np.float16)])


def _chunks(directory: Path) -> Iterator[Any]:
    """Open the chunks, in the order of the corpus."""
    return map(np.load, sorted(directory.glob("chunk-*.npz")))


class CachedEncoder:
    """An encoder that looks passages up first; what has no vector is encoded."""

    def __init__(self, encoder: TextEncoder, cache: VectorCache) -> None:
        self._encoder, self._cache = encoder, cache

    def __getattr__(self, name: str) -> Any:
        return getattr(self._encoder, name)

    def encode(
        self, texts: Sequence[str], *, role: Role, progress: Callable[[int], None] | None = None
    ) -> Vectors:
        if role == "query":
            return self._encoder.encode(texts, role=role, progress=progress)

        missing = self._cache.missing(texts)
        present = sorted({*range(len(texts))} - {*missing})
        vectors = np.empty((len(texts), self._encoder.dim), np.float32)
        if missing:
            vectors[missing] = self._encoder.encode([texts[row] for row in missing], role=role)
        if present:
            vectors[present] = self._cache.vectors([texts[row] for row in present])

        if progress is not None:
            progress(len(texts))
        return vectors


def text_key(text: str) -> bytes:
    return hashlib.blake2b(text.encode(errors="replace"), digest_size=KEY_BYTES).digest()


def read_documents(path: Path, kind: Kind = "code") -> Iterator[Document]:
    """The documents of a corpus in BEIR's form."""
    for file in open_source(kind, [path]):
        if isinstance(file, SourceFile):
            yield from (item for item in file.read() if isinstance(item, Document))


def corpus_texts(path: Path) -> Iterator[str]:
    """What Purlin gives its encoder for each passage of a BEIR corpus of functions."""
    for document in read_documents(path):
        yield from (render(document, passage) for passage in split(document))


def encode_corpus(encoder: TextEncoder, texts: Iterator[str], directory: Path) -> int:
    """Encode chunk after chunk; those that are there are skipped. Returns the number of texts."""
    directory.mkdir(parents=True, exist_ok=True)
    total = 0

    for number, chunk in enumerate(iter(lambda: list(islice(texts, CHUNK)), [])):
        total += len(chunk)
        path = directory / f"chunk-{number:05}.npz"
        if path.exists():
            continue

        started = time.monotonic()
        vectors = encoder.encode(chunk, role="passage").astype(np.float16)
        staging = path.with_suffix(".part")
        with staging.open("wb") as file:
            keys = np.frombuffer(b"".join(map(text_key, chunk)), f"V{KEY_BYTES}")
            np.savez(file, keys=keys, vectors=vectors)
        staging.replace(path)

        rate = len(chunk) / (time.monotonic() - started)
        print(f"{total:,} texts, {rate:.0f}/s", flush=True)

    return total


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("encoder", type=Path)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--characters", type=int)
    options = parser.parse_args()

    encoder = load_encoder(options.encoder, threads=options.threads)
    texts = (text[: options.characters] for text in corpus_texts(options.corpus))
    encode_corpus(encoder, texts, options.out)


if __name__ == "__main__":
    main()
