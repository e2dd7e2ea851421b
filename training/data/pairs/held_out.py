"""Keeping evaluation sets out of training: which pairs are copies of their documents or queries."""

from __future__ import annotations

import re
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from purlin.index.errors import InvalidInput
from purlin.index.evaluation.ranking import read_queries
from purlin.index.records import KINDS, Document, Skipped, SourceFile
from purlin.index.sources import beir
from purlin.index.texts.passages import render
from purlin.training.data.pairs.docstrings import letters_and_digits, without_comments
from purlin.training.data.pairs.documents import find_file, product_pair
from purlin.training.data.pairs.formats import read_pairs
from purlin.training.data.pairs.pair import Pair, PairSource, text_digest

Match = Literal["identical", "near", "query"]

# Tokens in one shingle.
SHINGLE = 8

# A passage with fewer shingles is only compared as a whole.
MIN_SHINGLES = 5

# Shorter queries are too common to tell that a pair is a copy.
MIN_QUERY_WORDS = 6

_TOKEN = re.compile(r"\w+")
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


class HeldOutDocument(NamedTuple):
    """A document of an evaluation set: its texts, as training may see them, and its queries."""

    texts: tuple[str, ...] = ()
    queries: tuple[str, ...] = ()


class HeldOut:
    """The documents and queries of evaluation sets, to recognise copies of them in training data.

    For each text of a document, with and without comments, two forms are stored: a digest of its
    letters and digits, and its shingles, hashes of `SHINGLE` tokens in a row. The hashes are
    polynomials over the CRC-32 of the tokens: fast in numpy, the same on every machine, and strong
    enough where half of a passage must match a single document.
    """

    def __init__(self, documents: Iterable[HeldOutDocument | Skipped]) -> None:
        """Index the documents. One may lack queries, and queries may come without texts.

        `skipped` counts, by reason, the rows of which nothing can be held out.
        """
        self.skipped: Counter[str] = Counter()
        self._digests: set[bytes] = set()
        self._queries: set[bytes] = set()
        shingles: list[NDArray[np.uint64]] = []

        for document in documents:
            if isinstance(document, Skipped):
                self.skipped[document.reason.partition(":")[0]] += 1
                continue

            texts, queries = document
            self._queries.update(map(_normal_digest, filter(_is_specific, queries)))
            forms = {
                letters_and_digits(form): form
                for text in texts
                for form in (text, without_comments(text))
            }
            self._digests.update(text_digest(normal) for normal in forms if normal)
            if texts:
                hashes = np.concatenate([_shingles(form) for form in forms.values()])
                shingles.append(np.unique(hashes))

        self.documents = len(shingles)
        self._index(shingles)

    def _index(self, shingles: Sequence[NDArray[np.uint64]]) -> None:
        """Sort all shingles; a parallel array holds the number of the document of each."""
        lengths = [len(hashes) for hashes in shingles]
        numbers = np.repeat(np.arange(len(shingles), dtype=np.uint32), lengths)
        joined = np.concatenate([np.empty(0, np.uint64), *shingles])

        order = np.argsort(joined, kind="stable")
        self._shingles: NDArray[np.uint64] = joined[order]
        self._numbers: NDArray[np.uint32] = numbers[order]

    def matches(self, pair: Pair) -> Match | None:
        """Return how the pair matches an evaluation set, or None.

        identical: the passage is one of the documents. query: one of the queries is, if it has at
        least `MIN_QUERY_WORDS`. near: a document contains half of the passage's shingles. A
        product's title counts as a query, and its comment, if long enough, as a passage.
        """
        whole_texts, partial_texts = [pair.passage], [pair.passage]
        if pair.kind == "code":
            bare = without_comments(pair.passage)
            # A comment may stand on the first line, without the marks of a comment.
            _, _, after_first_line = pair.passage.partition("\n")
            whole_texts = [bare, pair.passage, after_first_line]
            partial_texts = [bare]
        elif pair.kind == "product" and _is_specific(pair.comment):
            whole_texts = partial_texts = [pair.passage, pair.comment]

        if any(_normal_digest(text) in self._digests for text in whole_texts):
            return "identical"

        queries = filter(_is_specific, (*pair.queries, pair.title))
        if any(_normal_digest(query) in self._queries for query in queries):
            return "query"

        if any(self._is_near(_shingles(text)) for text in partial_texts):
            return "near"
        return None

    def _is_near(self, shingles: NDArray[np.uint64]) -> bool:
        """Return whether a single document has at least half of these shingles."""
        if len(shingles) < MIN_SHINGLES or not len(self._shingles):
            return False

        first = np.searchsorted(self._shingles, shingles)
        nearest = self._shingles[np.minimum(first, len(self._shingles) - 1)]
        is_indexed = nearest == shingles
        if 2 * np.count_nonzero(is_indexed) < len(shingles):
            return False

        # The same shingle may be in several documents: count each document's share.
        last = np.searchsorted(self._shingles, shingles[is_indexed], side="right")
        ranges = zip(first[is_indexed].tolist(), last.tolist(), strict=True)
        counts = np.bincount(np.concatenate([self._numbers[start:end] for start, end in ranges]))
        return bool(2 * counts.max() >= len(shingles))


def read_held_out(paths: Sequence[Path]) -> HeldOut:
    """Read evaluation sets: directories in BEIR's form, their corpora alone, or files of pairs.

    Raises NotFound for a missing path and InvalidInput for a set without documents.
    """
    return HeldOut(chain.from_iterable(map(_read_set, paths)))


def _read_set(path: Path) -> Iterator[HeldOutDocument | Skipped]:
    if not path.is_dir() and not beir.is_corpus(path):
        # A query too short to train on has a passage to hold out like any other.
        for pair in read_pairs(PairSource("pairs", path), allow_short=True):
            if isinstance(pair, Pair):
                yield HeldOutDocument((pair.passage,), (*pair.queries, pair.title))
            else:
                yield pair
        return

    if path.is_dir():
        queries = read_queries(find_file(path, "queries.jsonl"))
        yield HeldOutDocument(queries=tuple(queries.values()))
        path_of_corpus = find_file(path, "corpus.jsonl")
    else:
        path_of_corpus = path

    texts, titles = _read_corpus(path_of_corpus)
    if not texts:
        raise InvalidInput(
            f"{path} has no document, so nothing could be kept out of training.", field="exclude"
        )
    for id_, forms in texts.items():
        yield HeldOutDocument(tuple(forms), (titles[id_],))


def _read_corpus(path: Path) -> tuple[dict[str, set[str]], dict[str, str]]:
    """Return the texts and the title of each document, by its id.

    The kind of a corpus is not known here, so each document is read as every kind.
    """
    texts: defaultdict[str, set[str]] = defaultdict(set)
    titles: dict[str, str] = {}

    for file in chain.from_iterable(beir.files(path, kind) for kind in KINDS):
        for document in file.read() if isinstance(file, SourceFile) else ():
            if isinstance(document, Document):
                titles[document.id] = document.title
                texts[document.id].update(_training_texts(document))

    return texts, titles


def _training_texts(document: Document) -> Iterator[str]:
    """Yield the texts that training on the document may see: its own and those of the encoder.

    A short title alone does not identify a document.
    """
    yield document.body or document.title

    passages = [render(document)]
    if document.kind == "product":
        with suppress(InvalidInput):
            passages.append(product_pair(document).passage)
    for passage in passages:
        if passage != document.title or _is_specific(passage):
            yield passage


def remove_held_out(pairs: Iterable[Pair], held_out: HeldOut) -> tuple[list[Pair], Counter[Match]]:
    """Return the pairs that match no evaluation set, and counts of the others by how they match."""
    kept: list[Pair] = []
    removed: Counter[Match] = Counter()

    for pair in pairs:
        match = held_out.matches(pair)
        if match:
            removed[match] += 1
        else:
            kept.append(pair)

    return kept, removed


def _normal_digest(text: str) -> bytes:
    return text_digest(letters_and_digits(text))


def _is_specific(query: str) -> bool:
    return len(query.split()) >= MIN_QUERY_WORDS


def _shingles(text: str) -> NDArray[np.uint64]:
    """Hash each run of `SHINGLE` tokens: distinct and sorted (at most tokens - SHINGLE + 1,)."""
    encoded = [token.encode(errors="replace") for token in _TOKEN.findall(text)]
    tokens = np.fromiter(map(zlib.crc32, encoded), np.uint64, len(encoded))
    count = max(0, len(tokens) - SHINGLE + 1)

    hashes = np.zeros(count, dtype=np.uint64)
    for offset in range(SHINGLE):
        hashes = hashes * _MULTIPLIER + tokens[offset : offset + count]
    return np.unique(hashes)
