"""Add words of other languages to a static encoder: each lies where its translations lie.

The vectors of English texts stay as they are. A word's vector is the mean of the vectors of the
English texts whose translations have the word, less most of what all English texts have in common,
as in the first step of Reimers and Gurevych (2020), who train a student to place translations where
their teacher places the English texts. A word that occurs in translations of everything, such as an
article, has a short vector, and counts for little.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse  # type: ignore[import-untyped]
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from purlin.index.encoder import STATIC_ENCODER, Vectors
from purlin.index.encoder.static import VECTORS, WEIGHTS, StaticEncoder
from purlin.index.encoder.vocabulary import (
    CONTINUATION,
    MultilingualVocabulary,
    Vocabulary,
    identifiers,
)
from purlin.index.errors import InvalidInput, NotFound
from purlin.index.records import Skipped
from purlin.training.config import MAX_SEED, check_ranges, ranged
from purlin.training.data.pairs.rows import read_table_rows
from purlin.training.exporting.model_card import recipe_card
from purlin.training.loop.run import Say
from purlin.training.static.export import export_languages, with_languages
from purlin.training.static.recipe import StaticExport

# Words of a translation that are read, and characters of a word in the vocabulary.
MAX_WORDS = 64
MAX_WORD_CHARS = 24
# So often a word or piece must occur to be in the vocabulary, and in a language to tell it.
MIN_COUNT = 4
# Letters that have a piece of their own; Chinese has the most.
ALPHABET = 6_000
UNKNOWN = "[UNK]"

# A word tells a language by the logarithm of how many times as frequent it is there as in English:
# nothing if that is within TELLING of 0, at most MAX_EVIDENCE, and for a word of the English
# vocabulary only from TELLING_ENGLISH on. Names and loanwords are frequent in both.
TELLING = 1.5
TELLING_ENGLISH = 4.0
MAX_EVIDENCE = 3.0
LEAST_SHARE = 2e-6  # of all words, which those have that do not occur

ENCODED_AT_ONCE = 100_000


class Translation(NamedTuple):
    """A text in another language, and what it is in English."""

    text: str
    english: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguagesRecipe:
    """Which translations are read, and the static encoder `base` whose English words stay.

    `translations` are tables with the columns `language`, `text` and `english`; `limit` of each
    language, drawn by `seed`, are read, and `held_out` of them are only measured. `english_texts`
    are further tables whose column `english_column` has English, by which words of other languages
    are told from English ones. The vocabulary has `words` words and pieces. `common` is the share of
    the mean of all vectors that is taken off each word's.
    """

    name: str
    translations: tuple[Path, ...]
    base: Path = STATIC_ENCODER
    english_texts: tuple[Path, ...] = ()
    english_column: str = "docstring"
    limit: int = ranged(120_000, 10, 10_000_000)
    held_out: int = ranged(2_000, 1, 100_000)
    words: int = ranged(64_000, 10, 1 << 20)
    common: float = ranged(0.9, 0.0, 1.0)
    seed: int = ranged(1, 0, MAX_SEED)
    export: StaticExport = field(default_factory=StaticExport)

    def __post_init__(self) -> None:
        check_ranges(self)


def add_languages(recipe: LanguagesRecipe, out: Path, *, say: Say) -> Path:
    """Make the encoder of a recipe; return its directory `out`/NAME.

    Raises NotFound and InvalidInput for tables that do not exist or have no translations.
    """
    base = StaticEncoder.load(recipe.base)
    english = base.vocabulary
    if isinstance(english, MultilingualVocabulary):
        english = english.english

    by_language = read_translations(recipe)
    counts = ", ".join(f"{name} {len(pairs):,}" for name, pairs in sorted(by_language.items()))
    say(f"translations by language: {counts}")
    languages = choose_pieces(by_language, recipe.words)
    evidence = tell_languages(languages, english, by_language, _english_texts(recipe))
    vocabulary = MultilingualVocabulary(english, languages, evidence.tolist())
    say(f"{len(languages):,} words and pieces")

    translations = list(chain.from_iterable(by_language.values()))
    random.Random(recipe.seed).shuffle(translations)
    measured, learnt = translations[: recipe.held_out], translations[recipe.held_out :]
    means = place_words(vocabulary, base, learnt, recipe.common)
    vectors, scales = round_to_4_bits(means * _length(recipe.base) / _median_length(means))

    columns = np.stack([scales, evidence], axis=1)
    encoder = with_languages(recipe.base, languages, vectors, columns)
    measure = translation_mrr(encoder, base, measured)
    say(f"MRR of a text's English among {len(measured):,}: {measure:.4f}")
    export = recipe.export
    card = recipe_card(recipe.name, export, export.base_model, {"translations MRR": measure})
    export_languages(recipe.base, out / recipe.name, languages, vectors, columns, card)
    return out / recipe.name


# ---- reading


def read_translations(recipe: LanguagesRecipe) -> dict[str, list[Translation]]:
    """Return at most `limit` translations of each language, drawn by the recipe's seed."""
    rng = random.Random(recipe.seed)
    by_language: dict[str, list[Translation]] = {}
    counts: Counter[str] = Counter()

    for record in _records(recipe.translations, ("language", "text", "english")):
        language, text, english = record
        counts[language] += 1
        drawn = by_language.setdefault(language, [])
        if len(drawn) < recipe.limit:
            drawn.append(Translation(text, english))
        # Reservoir sampling: each row is kept with the same probability.
        elif (row := rng.randrange(counts[language])) < recipe.limit:
            drawn[row] = Translation(text, english)

    if sum(counts.values()) <= recipe.held_out:
        raise InvalidInput(
            f"The translations have {sum(counts.values()):,} rows; held_out alone is {recipe.held_out:,}. "
            "Name more tables, or hold out fewer.",
            field="translations",
        )
    return by_language


def _english_texts(recipe: LanguagesRecipe) -> Iterator[str]:
    for (text,) in _records(recipe.english_texts, (recipe.english_column,)):
        yield text


def _records(paths: Iterable[Path], columns: Sequence[str]) -> Iterator[list[str]]:
    """Yield the values of the columns of each row that has all of them."""
    for path in paths:
        if not path.exists():
            raise NotFound(f"There is no table {path}. Name a file or a directory.")
        for row in read_table_rows(path):
            if isinstance(row, Skipped):
                continue
            values = [row.record.get(column) for column in columns]
            texts = [value for value in values if isinstance(value, str) and value]
            if len(texts) == len(columns):
                yield texts


def _words(text: str) -> list[str]:
    return [word.lower() for word in identifiers(text)]


# ---- words and languages


def choose_pieces(by_language: Mapping[str, Sequence[Translation]], count: int) -> Vocabulary:
    """Return the words and pieces of all languages, as WordPiece chooses them.

    Of pairs of pieces that are as frequent, it joins any first: another run has other rare pieces.
    """
    tokenizer = Tokenizer(models.WordPiece(unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.WordPieceTrainer(
        vocab_size=count + 1,
        min_frequency=MIN_COUNT,
        limit_alphabet=ALPHABET,
        special_tokens=[UNKNOWN],
        continuing_subword_prefix=CONTINUATION,
        show_progress=False,
    )
    texts = (
        " ".join(word[:MAX_WORD_CHARS] for word in _words(translation.text))
        for translations in by_language.values()
        for translation in translations
    )
    tokenizer.train_from_iterator(texts, trainer)

    return Vocabulary(sorted(tokenizer.get_vocab().keys() - {UNKNOWN}))


def tell_languages(
    languages: Vocabulary,
    english: Vocabulary,
    by_language: Mapping[str, Sequence[Translation]],
    english_texts: Iterable[str],
) -> NDArray[np.float32]:
    """Return by how much each word (words,) tells that a text is in one of these languages."""
    shares: dict[str, float] = {}
    english_counts: Counter[str] = Counter()
    for translations in by_language.values():
        counts = Counter(word for text, _ in translations for word in _words(text))
        total = counts.total()
        for word, count in counts.items():
            if count >= MIN_COUNT:
                shares[word] = max(shares.get(word, 0.0), count / total)
        english_counts.update(word for _, text in translations for word in _words(text))

    english_counts.update(word for text in english_texts for word in _words(text))
    english_total = max(1, english_counts.total())

    evidence = np.zeros(len(languages), dtype=np.float32)
    for row, word in enumerate(languages.words):
        share, english_share = shares.get(word, 0.0), english_counts[word] / english_total
        ratio = np.log((share + LEAST_SHARE) / (english_share + LEAST_SHARE))
        evidence[row] = _evidence(word, float(ratio), is_english=english.row(word) is not None)
    return evidence


def _evidence(word: str, ratio: float, *, is_english: bool) -> float:
    """By how much a word speaks against English; `ratio` is a logarithm."""
    if word.startswith(CONTINUATION):
        return 0.0
    if is_english:
        return 1.0 if ratio >= TELLING_ENGLISH else -1.0
    if not word.isascii():
        return MAX_EVIDENCE
    # Letters alone, and words with digits, are names of something in any language.
    if len(word) == 1 or not word.isalpha() or abs(ratio) < TELLING:
        return 0.0
    return min(max(ratio, -1.0), MAX_EVIDENCE)


# ---- vectors


def place_words(
    vocabulary: MultilingualVocabulary,
    base: StaticEncoder,
    translations: Sequence[Translation],
    common: float,
) -> Vectors:
    """Return for each word of other languages (words, dim) the mean of its translations' vectors.

    A text counts for each of its words by one over their number. `common` of the mean of all is
    taken off.
    """
    first, size = len(vocabulary.english), len(vocabulary.languages)
    sums = np.zeros((size, base.dim), dtype=np.float32)
    totals = np.zeros(size, dtype=np.float32)

    for start in range(0, len(translations), ENCODED_AT_ONCE):
        part = translations[start : start + ENCODED_AT_ONCE]
        shares = _word_shares(vocabulary, [text for text, _ in part])[:, first:]
        sums += shares.T @ _english_vectors(base, [english for _, english in part])
        totals += np.asarray(shares.sum(axis=0)).ravel()

    mean = sums.sum(0) / max(totals.sum(), 1e-9)
    vectors: Vectors = sums / np.maximum(totals, 1e-9)[:, None] - common * mean
    vectors[totals == 0] = 0.0
    return vectors


def _word_shares(vocabulary: MultilingualVocabulary, texts: Sequence[str]) -> Any:
    """Return a sparse matrix (texts, words): one over the number of a text's words for each of them."""
    rows_by_text = [
        list(islice(vocabulary.rows_of(identifiers(text)), MAX_WORDS)) for text in texts
    ]
    sizes = np.array(list(map(len, rows_by_text)))
    shares = np.repeat(1 / np.maximum(sizes, 1), sizes).astype(np.float32)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    columns = np.fromiter(chain.from_iterable(rows_by_text), dtype=np.int64, count=starts[-1])
    return sparse.csr_matrix((shares, columns, starts), shape=(len(texts), len(vocabulary)))


def _english_vectors(base: StaticEncoder, texts: Sequence[str]) -> Vectors:
    """Return unit vectors (texts, dim) half way between those of a query and of a passage."""
    both = base.encode(texts, role="query") + base.encode(texts, role="passage")
    lengths = np.linalg.norm(both, axis=1, keepdims=True)
    vectors: Vectors = both / np.maximum(lengths, 1e-9)
    return vectors


def _length(base: Path) -> float:
    """The median length of a weighted vector of an English word."""
    weights = np.load(base / WEIGHTS).mean(axis=1, keepdims=True)
    return _median_length(np.load(base / VECTORS) * weights)


def _median_length(vectors: Vectors) -> float:
    lengths = np.linalg.norm(vectors, axis=1)
    return float(np.median(lengths[lengths > 0])) if lengths.any() else 1.0


def round_to_4_bits(vectors: Vectors) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Return the vectors (words, dim) in whole numbers from -7 to 7, and each one's scale (words,)."""
    scales = np.maximum(np.abs(vectors).max(axis=1), 1e-12).astype(np.float32) / 7
    return np.rint(vectors / scales[:, None]).astype(np.int8), scales


def translation_mrr(
    encoder: StaticEncoder, base: StaticEncoder, translations: Sequence[Translation]
) -> float:
    """Return the mean reciprocal rank of a text's English among the English of all of them."""
    vectors = encoder.encode([translation.text for translation in translations], role="query")
    english = _english_vectors(base, [translation.english for translation in translations])
    scores = vectors @ english.T
    ranks = (scores >= scores.diagonal()[:, None]).sum(axis=1)
    return float((1 / ranks).mean())
