"""Add words of other languages to a static encoder, each with the English words that translate it.

The vectors of English texts stay as they are. A text in another language is read in the English words
of its translations, which an alignment of translated texts tells: by each as much as it is probable.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from purlin.index.encoder import STATIC_ENCODER, Vectors
from purlin.index.encoder.static import TRANSLATIONS, StaticEncoder
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
from purlin.training.static.alignment import align, best_translations
from purlin.training.static.export import export_languages, with_languages
from purlin.training.static.recipe import StaticExport

# Words of a translation that is aligned: in longer ones hardly a word tells its translation.
MAX_WORDS = 24
# Characters of a word in the vocabulary.
MAX_WORD_CHARS = 24
# So often a word or piece must occur to be in the vocabulary, and in a language to tell it.
MIN_COUNT = 2
MIN_TELLING_COUNT = 4
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

# So probable a translation must be to count.
LEAST_PROBABILITY = 0.05


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
    are told from English ones. The vocabulary has `words` words and pieces.
    """

    name: str
    translations: tuple[Path, ...]
    base: Path = STATIC_ENCODER
    english_texts: tuple[Path, ...] = ()
    english_column: str = "docstring"
    limit: int = ranged(300_000, 10, 10_000_000)
    held_out: int = ranged(2_000, 1, 100_000)
    words: int = ranged(200_000, 10, 1 << 20)
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
    say(f"{len(languages):,} words and pieces")

    pairs = list(chain.from_iterable(by_language.values()))
    random.Random(recipe.seed).shuffle(pairs)
    measured, learnt = pairs[: recipe.held_out], pairs[recipe.held_out :]
    translations, shares = translate_words(languages, english, learnt)
    columns = np.hstack([evidence[:, None], shares]).astype(np.float16)
    encoder = with_languages(recipe.base, languages, translations, columns)
    measure = translation_mrr(encoder, base, measured)
    say(f"MRR of a text's English among {len(measured):,}: {measure:.4f}")
    export = recipe.export
    card = recipe_card(recipe.name, export, export.base_model, {"translations MRR": measure})
    export_languages(recipe.base, out / recipe.name, languages, translations, columns, card)
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
            if count >= MIN_TELLING_COUNT:
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


# ---- translations


def translate_words(
    languages: Vocabulary, english: Vocabulary, translations: Sequence[Translation]
) -> tuple[NDArray[np.uint16], NDArray[np.float32]]:
    """Return the rows of the English words (words, TRANSLATIONS) that translate each word, and their shares."""
    vocabulary = untranslated(english, languages)
    sources, targets = [], []
    for text, text_in_english in translations:
        source = list(islice(vocabulary.rows_of(identifiers(text)), MAX_WORDS + 1))
        target = list(islice(english.rows(text_in_english), MAX_WORDS + 1))
        if source and target and max(len(source), len(target)) <= MAX_WORDS:
            sources.append(source)
            targets.append(target)

    is_word = np.array([word.isalpha() and len(word) > 1 for word in english.words])
    rows, shares = best_translations(
        align(sources, targets),
        len(vocabulary),
        is_word,
        count=TRANSLATIONS,
        least=LEAST_PROBABILITY,
    )
    first = len(english)
    return rows[first:].astype(np.uint16), shares[first:]


def untranslated(english: Vocabulary, languages: Vocabulary) -> MultilingualVocabulary:
    """Return the vocabulary of English and other languages, whose words say nothing yet."""
    empty = np.zeros((len(languages), TRANSLATIONS))
    return MultilingualVocabulary(
        english,
        languages,
        empty[:, 0].astype(np.float32),
        empty.astype(np.uint16),
        empty.astype(np.float32),
    )


def _english_vectors(base: StaticEncoder, texts: Sequence[str]) -> Vectors:
    """Return unit vectors (texts, dim) half way between those of a query and of a passage."""
    both = base.encode(texts, role="query") + base.encode(texts, role="passage")
    return _unit(both)


def _unit(vectors: Vectors) -> Vectors:
    unit: Vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
    return unit


def translation_mrr(
    encoder: StaticEncoder, base: StaticEncoder, translations: Sequence[Translation]
) -> float:
    """Return the mean reciprocal rank of a text's English among the English of all of them."""
    vectors = encoder.encode([translation.text for translation in translations], role="query")
    english = _english_vectors(base, [translation.english for translation in translations])
    scores = vectors @ english.T
    ranks = (scores >= scores.diagonal()[:, None]).sum(axis=1)
    return float((1 / ranks).mean())
