"""Where a static encoder starts: its words, how rare they are, and their distilled vectors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from purlin.index.encoder import TextEncoder, Vectors
from purlin.index.encoder.exported import TOKENIZER
from purlin.index.encoder.vocabulary import CONTINUATION, Vocabulary, identifiers, parts
from purlin.index.errors import InvalidInput
from purlin.training.data.pairs.pair import Pair
from purlin.training.static.recipe import StaticRecipe

# Letters up to the end of Latin Extended-B: others are single characters in the base's vocabulary.
LAST_LETTER = "\u024f"
LONGEST_WORD = 24

# Characters of a passage in which words are counted for the vocabulary.
COUNTED_CHARS = 2_000


def choose_words(
    sources: Sequence[Sequence[Pair]], recipe: StaticRecipe
) -> tuple[Vocabulary, NDArray[np.float64]]:
    """Return the vocabulary, and each word's share (words,) of all words of the pairs.

    A word counts once per pair.
    """
    counts: Counter[str] = Counter()
    for pair in (pair for source in sources for pair in source):
        texts = (*pair.queries[:1], pair.comment, pair.passage[:COUNTED_CHARS])
        counts.update({part for text in texts for part in _parts(text)})

    base = _base_words(recipe.teacher / TOKENIZER)
    candidates = (
        (-count, word)
        for word, count in counts.items()
        if count >= recipe.min_pairs and _is_new_word(word) and word not in base
    )
    new = [word for _, word in sorted(candidates)]
    vocabulary = Vocabulary([*base, *new][: recipe.words])

    # A word outside the vocabulary counts for its pieces.
    totals = np.zeros(len(vocabulary))
    for word, count in counts.items():
        np.add.at(totals, list(vocabulary.rows(word)), count)
    return vocabulary, totals / totals.sum()


def _parts(text: str) -> Iterable[str]:
    return (part for identifier in identifiers(text) for part in parts(identifier))


def _base_words(tokenizer: Path) -> dict[str, None]:
    """Return a tokenizer's words and pieces in Latin letters and digits, in its own order."""
    vocabulary = Tokenizer.from_file(str(tokenizer)).get_vocab(with_added_tokens=False)
    ordered = sorted(vocabulary, key=vocabulary.__getitem__)
    return dict.fromkeys(word for word in ordered if _is_latin(word.removeprefix(CONTINUATION)))


def _is_latin(word: str) -> bool:
    return word.isalnum() and max(word) <= LAST_LETTER


def _is_new_word(word: str) -> bool:
    return 1 < len(word) <= LONGEST_WORD and word.isascii() and not word.isdigit()


def distilled(vocabulary: Vocabulary, teacher: TextEncoder, dim: int) -> Vectors:
    """Return unit vectors (words, dim): the principal components of the teacher's vectors."""
    texts = [word.removeprefix(CONTINUATION) for word in vocabulary.words]
    vectors = teacher.encode(texts, role="passage").astype(np.float64)
    if dim > min(vectors.shape):
        raise InvalidInput(
            f"dim is {dim}; {len(texts):,} words of {teacher.name} have {min(vectors.shape)} components.",
            field="dim",
        )

    vectors -= vectors.mean(axis=0)
    # Eigenvectors of the covariance, the largest eigenvalue last.
    components = np.linalg.eigh(vectors.T @ vectors)[1][:, ::-1][:, :dim]
    reduced: Vectors = (vectors @ components).astype(np.float32)
    reduced /= np.maximum(np.linalg.norm(reduced, axis=1, keepdims=True), 1e-12)
    return reduced
