"""Corrects the spelling of queries: words that no passage has, and compounds in one word or two."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import islice, pairwise

from purlin.index.search.lexical.edits import nearest_form
from purlin.index.search.lexical.languages import Language
from purlin.index.search.lexical.tokens import FEWEST_IN_PART, fold, matches, split
from purlin.index.search.lexical.vocabulary import LONGEST_WORD, Vocabulary
from purlin.index.texts.quantities import quantities

# Words of fewer letters have too many others one edit away.
_FEWEST_LETTERS = 5
# Fewer letters begin too many words.
_FEWEST_BEGUN = 3
# At least so many passages must have both parts of a compound; a single one may have them by chance.
_FEWEST_TOGETHER = 2
# So many words are looked up, each of which reads all tokens with its first letter, and so many pairs.
_MOST_LOOKED_UP, _MOST_PAIRS = 4, 16
# A word by itself: parts of codes, addresses and names with hyphens stay as they are.
_WORD = re.compile(rf"(?<![\w'’./-])[^\W\d_]{{3,{LONGEST_WORD}}}(?![\w'’/-]|\.\w)")
# What may be a code without separators, which few digits are not.
_CODE = re.compile(
    rf"(?<![\w'’./-])(?:(?=[a-z]*\d)(?=\d*[a-z])[a-z0-9]{{4,{LONGEST_WORD}}}|\d{{5,{LONGEST_WORD}}})"
    r"(?![\w'’/-]|\.\w)",
    re.IGNORECASE | re.ASCII,
)
# A part of a code between blanks.
_PIECE = re.compile(r"(?<!\S)[a-z0-9]+(?!\S)")


def corrected(query: str, vocabulary: Vocabulary) -> str:
    """Return the query as it should be searched; the same if all its words are in the vocabulary.

    A word that no passage has, not even in compounds, is replaced by the two words that it consists of,
    else by the nearest word. For two words that are mostly written as one, and for two pieces of a code,
    that one is appended. The last word of the query may be the beginning of one, as it is while people
    type, and any word with digits the beginning of a code. The unit of a quantity stays as it is, because
    passages are searched by another spelling of it.
    """
    query = _with_whole_codes(query, vocabulary)
    lookups, language = 0, vocabulary.language
    unit_ends = {quantity.end for quantity in quantities(query)}
    query_end = len(query.rstrip())

    def spelled(match: re.Match[str]) -> str:
        nonlocal lookups
        word = fold(match[0])
        is_last = match.end() == query_end

        stays = (
            len(word) < (_FEWEST_BEGUN if is_last else _FEWEST_LETTERS)
            or not (word.isascii() and word.isalpha())
            or word.lower() in language.common
            or match.end() in unit_ends
            or any(map(vocabulary.df, split(word, language)))
        )
        if stays or lookups == _MOST_LOOKED_UP:
            return match[0]

        lookups += 1
        return _catalogue_spelling(word, vocabulary, is_last=is_last) or match[0]

    text = _WORD.sub(spelled, query)
    return " ".join([text, *_compounds(text, vocabulary), *_joined_codes(text, vocabulary)])


def as_written(
    text: str, query: str, passage_with: Callable[[str], str], language: Language
) -> str:
    """Return a corrected query whose new words are spelled as in a passage, as tokens are stems.

    `passage_with` gives a passage that has a token, or an empty text.
    """
    typed = tuple(map(fold, _words(query)))

    def written(match: re.Match[str]) -> str:
        word_tokens = split(fold(match[0]), language)

        # Compounds end as the query has their last word.
        if fold(match[0]).lower().endswith(typed) or len(word_tokens) != 1:
            return match[0]

        passage = passage_with(word_tokens[0])
        spans = matches(passage, frozenset(word_tokens), language)
        spellings = (passage[start:end] for start, end in spans)
        same = (each for each in spellings if split(fold(each), language) == word_tokens)
        return next(same, match[0]).lower()

    return _WORD.sub(written, text)


def _with_whole_codes(query: str, vocabulary: Vocabulary) -> str:
    """Return the query with the codes that begin with a word of it in place of that word.

    A word of which some passage has all parts stays: "xps8700" finds "XPS 8700" by these.
    """
    quantity_starts = {quantity.start for quantity in quantities(query)}

    def completed(match: re.Match[str]) -> str:
        whole, *parts = split(match[0], vocabulary.language)
        has_tokens = vocabulary.df(whole) or (parts and vocabulary.together(*parts))
        if has_tokens or match.start() in quantity_starts:
            return match[0]
        return " ".join(vocabulary.codes(whole)) or match[0]

    return _CODE.sub(completed, query, count=_MOST_LOOKED_UP)


def _catalogue_spelling(word: str, vocabulary: Vocabulary, *, is_last: bool) -> str | None:
    """Return an unknown word in the passages' spelling; None if they have nothing like it.

    None also for a word that some compounds end with, which are searched by it.
    """
    is_long = len(word) >= _FEWEST_LETTERS
    if is_long and (two_words := _two_words(word, vocabulary)):
        return two_words
    if any(map(vocabulary.compounds, split(word.lower(), vocabulary.language))):
        return None
    if is_long and (nearest := vocabulary.nearest(word.lower())):
        return nearest
    return _completed(word, vocabulary) if is_last else None


def _two_words(word: str, vocabulary: Vocabulary) -> str:
    """Return the word as the two words that most passages have together; empty if it has no such parts."""
    language = vocabulary.language
    counts = {}

    for end in range(FEWEST_IN_PART, len(word) - FEWEST_IN_PART + 1):
        first, second = word[:end], word[end:]
        tokens = (*split(first.lower(), language), *split(second.lower(), language))
        # Words that are left out of searches have no token.
        if len(tokens) == 2 and all(map(vocabulary.df, tokens)):
            counts[f"{first} {second}"] = vocabulary.together(*tokens)

    best = max(counts, key=counts.__getitem__, default="")
    return best if counts.get(best, 0) >= _FEWEST_TOGETHER else ""


def _completed(word: str, vocabulary: Vocabulary) -> str | None:
    """Return the most frequent word that begins with this one; None if no passage has one."""
    token = vocabulary.completion(word.lower())
    return None if token is None else nearest_form(token, word.lower(), vocabulary.language)


def _compounds(text: str, vocabulary: Vocabulary) -> Iterator[str]:
    """Yield the compound of each two words, if more passages have it than have both words."""
    language = vocabulary.language
    fewest = 1 if language.links else _FEWEST_TOGETHER
    searched = {token for word in _words(text) for token in split(fold(word), language)}

    for first, second in islice(_pairs(text, language), _MOST_PAIRS):
        tokens = (*split(fold(first), language), *split(fold(second), language))
        if len(tokens) != 2:
            continue

        best, most = "", 0
        for compound in _joined(first, second, language):
            joined = split(fold(compound), language)
            if len(joined) == 1 and joined[0] not in searched:
                df = vocabulary.df(joined[0])
                best, most = (compound, df) if df > most else (best, most)

        if most >= fewest and most > vocabulary.together(*tokens):
            searched.update(split(fold(best), language))
            yield best


def _joined_codes(text: str, vocabulary: Vocabulary) -> Iterator[str]:
    """Yield the code of each two pieces, if more passages have it than have both: "4345 9433", "10 000"."""
    pieces = list(_PIECE.finditer(text.lower()))[: _MOST_PAIRS + 1]
    for first, second in pairwise(pieces):
        code = first[0] + second[0]
        if second.start() - first.end() != 1 or not _CODE.fullmatch(code):
            continue

        tokens = [split(piece, vocabulary.language)[:1] for piece in (first[0], second[0], code)]
        # Common words have no token.
        if all(tokens):
            [of_first], [of_second], [of_code] = tokens
            if vocabulary.df(of_code) > vocabulary.together(of_first, of_second):
                yield code


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]


def _pairs(text: str, language: Language) -> Iterator[tuple[str, str]]:
    """Yield pairs of words that may be one.

    There is only a space between them or, in languages that write compounds as one word, common words.
    """
    if language.links:
        yield from pairwise(word for word in _words(text) if fold(word) not in language.common)
        return
    for first, second in pairwise(_WORD.finditer(text)):
        if text[first.end() : second.start()].isspace():
            yield first[0].lower(), second[0].lower()


def _joined(first: str, second: str, language: Language) -> Iterator[str]:
    """Yield the ways to write two words as one."""
    for link in language.links or ("",):
        yield first + link + second
    # In "Tisch für den Garten" the word that says what it is comes first, in a compound last.
    for link in language.links:
        yield second + link + first
