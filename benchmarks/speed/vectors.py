"""Vectors of passages, encoded once and shared by all that is measured on them.

    python -m benchmarks.speed.vectors ENCODER CORPUS.jsonl.gz OUT [--threads 1] [--characters N]

Encoding a corpus with a transformer takes far longer than anything measured on it afterwards. A
run that was stopped goes on after the last complete chunk. `--characters` encodes only the first N
of each text, for a measurement of vectors alone. Texts cut too short are alike: with 60 characters
many functions have the same vector.
"""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from benchmarks.options import command_parser
from purlin.index.encoder import TextEncoder, Vectors, load_encoder
from purlin.index.records import Document, Kind, Role, SourceFile
from purlin.index.sources import open_source
from purlin.index.texts.passages import render, split

CHUNK = 2048
KEY_BYTES = 16
_Item = TypeVar("_Item")


class CachedEncoder:
    """An encoder that encodes no passage twice, and keeps their vectors in a directory of chunks."""

    def __init__(self, encoder: TextEncoder, directory: Path | None = None) -> None:
        """Read what an earlier call kept; without a directory, vectors are kept in memory alone."""
        self._encoder, self._directory = encoder, directory
        self._vectors: dict[bytes, Vectors] = {}
        for chunk in _chunks(directory) if directory else ():
            self._vectors |= zip(chunk["keys"].tolist(), chunk["vectors"], strict=True)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._encoder, name)

    def encode(
        self, texts: Sequence[str], *, role: Role, progress: Callable[[int], None] | None = None
    ) -> Vectors:
        if role == "query":
            return self._encoder.encode(texts, role=role, progress=progress)

        keys = [text_key(text) for text in texts]
        missing = {
            key: text for key, text in zip(keys, texts, strict=True) if key not in self._vectors
        }
        for chunk in chunked(missing.items()):
            self._add(dict(chunk))
        if progress is not None:
            progress(len(texts))
        return np.stack([self._vectors[key] for key in keys])

    def _add(self, texts: dict[bytes, str]) -> None:
        """Encode texts by their keys, and write them as the next chunk."""
        started = time.monotonic()
        vectors = self._encoder.encode(list(texts.values()), role="passage")
        self._vectors |= zip(texts, vectors, strict=True)
        if self._directory is None:
            return

        self._directory.mkdir(parents=True, exist_ok=True)
        path = self._directory / f"chunk-{len(list(self._directory.glob('chunk-*.npz'))):05}.npz"
        staging = path.with_suffix(".part")
        with staging.open("wb") as file:
            keys = np.frombuffer(b"".join(texts), f"V{KEY_BYTES}")
            np.savez(file, keys=keys, vectors=vectors)
        # Replaced at once, so that a run that is stopped leaves whole chunks.
        staging.replace(path)
        rate = len(texts) / (time.monotonic() - started)
        print(f"{len(self._vectors):,} texts, {rate:.0f}/s", file=sys.stderr, flush=True)


def read_matrix(directory: Path) -> NDArray[np.float16]:
    """Vectors (texts, dim) of all chunks, in the order of the corpus."""
    return np.concatenate([chunk["vectors"].astype(np.float16) for chunk in _chunks(directory)])


def _chunks(directory: Path) -> Iterator[Any]:
    """Open the chunks, in the order of the corpus."""
    return map(np.load, sorted(directory.glob("chunk-*.npz")))


def chunked(items: Iterable[_Item]) -> Iterator[list[_Item]]:
    iterator = iter(items)
    return iter(lambda: list(islice(iterator, CHUNK)), [])


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


def main() -> None:
    parser = command_parser(__doc__)
    parser.add_argument("encoder", type=Path)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--characters", type=int)
    options = parser.parse_args()

    encoder = CachedEncoder(load_encoder(options.encoder, threads=options.threads), options.out)
    for chunk in chunked(text[: options.characters] for text in corpus_texts(options.corpus)):
        encoder.encode(chunk, role="passage")


if __name__ == "__main__":
    main()
