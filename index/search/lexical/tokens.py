"""Tokens of texts: identifiers and model numbers as a whole and in parts, words stemmed."""

from __future__ import annotations

import re
import threading
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import cache, lru_cache
from itertools import accumulate, chain

import Stemmer

from purlin.index.search.lexical.languages import (
    CZECH,
    ENGLISH,
    FRENCH,
    NORTHERN,
    POLISH,
    Language,
)
from purlin.index.texts.unspaced import HAN, KATAKANA, OTHER_UNSPACED

_MAX_TOKEN_CHARS = 64
# Letters of each part of a compound.
FEWEST_IN_PART = 3

# Regular expressions of a run of letters and digits, and of one of a script without spaces.
LETTERS = rf"[^\W_{KATAKANA}{OTHER_UNSPACED}]+"
# A run of katakana is nearly always a word of its own.
UNSPACED_RUN = rf"[{KATAKANA}]+|[{OTHER_UNSPACED}]+"
_UNSPACED, _HAN_CHARACTER = f"[{KATAKANA}{OTHER_UNSPACED}]", f"[{HAN}]"
# Voicing marks of kana, and vowels and finals of Hangul, in texts that are not composed.
_JOINING = re.compile("[\u3099\u309a\u1160-\u11ff]")

# The option of a command: -a.
_OPTION = r"-(?<![^\s|,/'\"`]-)[A-Za-z](?![-\w])"
# A word is what a person would call one name: DDR4-3200, os.path.join, read_csv, Foo::bar, C++.
_WORD = re.compile(rf"[A-Za-z](?:\+\+|\#)(?!\w)|[^\W_]+(?:(?:::|->|[-_.'’])[^\W_]+)*|{_OPTION}")
# The same for a text with scripts without spaces, each run of which is a word.
_WORD_OR_RUN = (
    rf"[A-Za-z](?:\+\+|\#)(?![^\W{KATAKANA}{OTHER_UNSPACED}])"
    rf"|{LETTERS}(?:(?:::|->|[-_.'’]){LETTERS})*|{UNSPACED_RUN}|{_OPTION}"
)
# The same for ASCII, in half the time.
_ASCII_WORD = re.compile(
    rf"[A-Za-z](?:\+\+|\#)(?!\w)|[A-Za-z0-9]+(?:(?:::|->|[-_.'])[A-Za-z0-9]+)*|{_OPTION}", re.ASCII
)
_SEPARATORS = re.compile(r"[-_.':>]")
_PIECE = re.compile(r"[^\W_]+")
# Inside a piece: an acronym, a capitalised or lower-case run, a number; other scripts stay whole.
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_A-Za-z]+")


# Latin letters that NFKD leaves as they are, and how they are written where keyboards lack them. A capital
# that becomes two letters begins a word more often than it stands in a word of capitals.
_PAIRS_OF = {"ß": "ss", "æ": "ae", "œ": "oe", "þ": "th", "ẞ": "SS", "Æ": "Ae", "Œ": "Oe", "Þ": "Th"}
_LETTERS_OF: dict[int, int | str | None] = {
    **str.maketrans("łøđðıħŧŁØĐÐĦŦ", "loddihtLODDHT"),
    **{ord(letter): pair for letter, pair in _PAIRS_OF.items()},
}


class _Bare(dict[int, int | str | None]):
    """Characters without marks, for `str.translate`: accents, and vowel signs, which would end a word.

    What makes another kana of one, as が of か, stays.
    """

    def __missing__(self, code: int) -> int | str | None:
        is_mark = unicodedata.category(chr(code))[0] == "M" and code not in (0x3099, 0x309A)
        self[code] = None if is_mark else code
        return self[code]


_BARE = _Bare(_LETTERS_OF)


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    """Compile a pattern once it is needed: whole scripts take longer than a search without them."""
    return re.compile(pattern)


def words(text: str) -> list[str]:
    """Return the words of `text`, in order; `split` gives the tokens of each."""
    folded = fold(text)
    return _pattern(folded).findall(folded)


def _pattern(folded: str) -> re.Pattern[str]:
    if folded.isascii():
        return _ASCII_WORD
    return compiled(_WORD_OR_RUN) if compiled(_UNSPACED).search(folded) else _WORD


def tokens(text: str, language: Language = ENGLISH) -> list[str]:
    """Return every word of `text` as a whole and in parts, in order, in lower case and stemmed.

    Common words of the language are left out.

    `getHTTPResponses` -> gethttprespons, get, http, respons
    `DDR4-3200` -> ddr43200, ddr4, 3200, ddr, 4
    `検索エンジン` -> 検, 検索, 索, エン, ンジ, ジン
    """
    return [token for word in words(text) for token in split(word, language)]


def ends_compounds(token: str, language: Language) -> bool:
    """Return whether compounds that end with a token are searched by it, too: "uhr" finds "damenuhr"."""
    is_word = len(token) >= FEWEST_IN_PART and token.isascii() and token.isalpha()
    return is_word and bool(language.links)


def have_any(
    text_tokens: Collection[str], query_tokens: AbstractSet[str], language: Language = ENGLISH
) -> bool:
    """Return whether a text's tokens have any of a query's, or a compound that ends with one."""
    if not query_tokens.isdisjoint(text_tokens):
        return True
    if not language.links:
        return False

    # A token has few ends, but a query may have many tokens.
    endings = (
        token[start:]
        for token in text_tokens
        for start in range(FEWEST_IN_PART, len(token) - FEWEST_IN_PART + 1)
    )
    return any(ending in query_tokens and ends_compounds(ending, language) for ending in endings)


def distinct_tokens(text: str) -> str:
    """Return the distinct tokens of `text`, separated by spaces, which no token has."""
    return " ".join(dict.fromkeys(tokens(text)))


def matches(
    text: str, query_tokens: frozenset[str], language: Language = ENGLISH
) -> Iterator[tuple[int, int]]:
    """Yield (start, end) character offsets of words, or parts of words, that match the query.

    Where `ends_compounds`, compounds match as a whole.
    """
    if text.isascii():
        yield from _matches(text, query_tokens, language)
        return

    # Folding changes lengths: `ends` maps offsets in the folded text back to characters.
    folded = _folded_characters(text)
    ends = list(accumulate(map(len, folded)))
    previous_end = 0
    for folded_start, folded_end in _matches("".join(folded), query_tokens, language):
        start = bisect_right(ends, folded_start)
        # Combining accents that follow belong to the match.
        end = bisect_right(ends, ends[bisect_left(ends, folded_end)])
        # One character, such as ½, can hold two words.
        if start >= previous_end:
            yield start, end
            previous_end = end


def _matches(
    folded: str, query_tokens: frozenset[str], language: Language
) -> Iterator[tuple[int, int]]:
    pattern = _pattern(folded)
    lines: Iterable[tuple[int, int]] = [(0, len(folded))]
    # How the stemmer changes the end of a word is known of English alone.
    if folded.isascii() and language is ENGLISH:
        lines = _lines_to_search(folded, query_tokens)
    for match in chain.from_iterable(pattern.finditer(folded, *line) for line in lines):
        word = match.group()
        if not have_any(split(word, language), query_tokens, language):
            continue
        if _is_run(word):
            yield from _gram_matches(word, match.start(), query_tokens)
            continue
        if have_any([_stem(_joined(word), language)], query_tokens, language):
            yield match.span()
            continue

        for part in _PART.finditer(word):
            if have_any([_stem(part.group().lower(), language)], query_tokens, language):
                yield match.start() + part.start(), match.start() + part.end()


def _gram_matches(run: str, offset: int, query_tokens: frozenset[str]) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of the stretches of `run` whose grams match the query."""
    start = end = 0
    for gram_start, gram in _grams(run):
        if gram not in query_tokens:
            continue

        if gram_start > end:
            if end:
                yield offset + start, offset + end
            start = gram_start
        end = gram_start + len(gram)

    yield offset + start, offset + end


def _lines_to_search(text: str, query_tokens: frozenset[str]) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of the lines of an ASCII text in which a word can match the query.

    No word goes on in the next line, and to look for letters is ten times faster than for words.
    """
    letters = _SEPARATORS.sub("", text.lower())
    beginnings = [letters_of for letters_of in _beginnings(query_tokens) if letters_of in letters]
    if not beginnings:
        return

    start = 0
    for line, line_letters in zip(text.split("\n"), letters.split("\n"), strict=True):
        end = start + len(line)
        if any(beginning in line_letters for beginning in beginnings):
            yield start, end
        start = end + 1


@lru_cache(maxsize=256)
def _beginnings(query_tokens: frozenset[str]) -> Sequence[str]:
    return tuple({_beginning(token) for token in query_tokens})


def _beginning(stem: str) -> str:
    """Return letters with which every word of this stem begins.

    The stemmer cuts words, and replaces the end of what is left in a few ways only: happy -> happi,
    hoping -> hope, ability -> abl, skies -> sky, dying -> die.
    """
    if len(stem) > 2 and stem[-1] in "eily":
        return stem[:-2] if stem.endswith("ie") else stem[:-1]
    return stem


def fold(text: str) -> str:
    """Return the text without marks on its letters, and æ, ø or ł as ae, o or l; upper case stays."""
    if text.isascii():
        return text
    decomposed = unicodedata.normalize("NFKD", text)
    # NFKD takes kana and Hangul apart.
    return unicodedata.normalize("NFC", decomposed.translate(_BARE))


_fold_character = lru_cache(maxsize=65_536)(fold)


def _folded_characters(text: str) -> list[str]:
    """Return what each character is folded to, "" for one that is composed with the character before it."""
    folded = list(map(_fold_character, text))
    if not _JOINING.search("".join(folded)):
        return folded

    base = 0
    for position, piece in enumerate(folded):
        if position and _JOINING.match(piece):
            folded[base] = unicodedata.normalize("NFC", folded[base] + piece)
            folded[position] = ""
        elif piece:
            base = position
    return folded


def _joined(word: str) -> str:
    return word.lower() if word[-1] in "+#" else "".join(_PIECE.findall(word)).lower()


def split(word: str, language: Language = ENGLISH) -> tuple[str, ...]:
    """Return the distinct tokens of a word: the joined whole, pieces between separators, parts of pieces.

    A run of a script without spaces is split into overlapping pairs of characters.
    """
    if _is_run(word):
        return tuple(dict.fromkeys(gram for _, gram in _grams(word)))
    return _split_name(word, language)


def pieces(word: str) -> list[str]:
    """Return the parts of a name as they are written: `getHTTPResponse` -> get, HTTP, Response.

    A run of a script without spaces has none.
    """
    return [] if _is_run(word) else _PART.findall(word)


def _is_run(word: str) -> bool:
    """Return whether a word is a run of a script without spaces."""
    return not word.isascii() and compiled(_UNSPACED).match(word) is not None


def _grams(run: str) -> Iterator[tuple[int, str]]:
    """Yield the offset and text of each pair of characters, and of characters that can be a word."""
    for start, character in enumerate(run):
        if len(run) == 1 or compiled(_HAN_CHARACTER).match(character):
            yield start, character
        if start + 1 < len(run):
            yield start, run[start : start + 2]


@lru_cache(maxsize=65_536)
def _split_name(word: str, language: Language) -> tuple[str, ...]:
    lower = word.lower()
    if word.isalnum():
        # A word in lower case is its own only part.
        names = (
            [lower]
            if word == lower and word.isascii() and word.isalpha()
            else [lower, *map(str.lower, _PART.findall(word))]
        )
    else:
        # No part reaches over a separator.
        parts = [*_PIECE.findall(word), *_PART.findall(word)]
        names = [_joined(word), *map(str.lower, parts)]

    common = language.common
    if word[0] == "-":
        # A name of its own: `-a` is no article, and `-N` is not `-n`.
        names = [word, *names]
    kept = (name for name in names if name not in common and len(name) <= _MAX_TOKEN_CHARS)
    return tuple(dict.fromkeys(_stem(name, language) for name in kept))


# Snowball keeps the s of "vélos", "bleus" and "oreillers", which it cuts as a verb's ending without it;
# of "imprimée", é is an e here.
_FRENCH_ENDING = re.compile(r"(?<=..e)es?$|(?<=..[^s])s$")
# "ó" is an o here, with which Snowball keeps the ending of "kotów".
_POLISH_ENDING = re.compile(r"(?<=...)ow$")
# The same of Czech "-ích", "-ým" and "-ého", of which the vowel stays; "-mi" is Snowball's after "a".
_CZECH_ENDING = re.compile(r"(?<=...)(?:(?<=[aiy])ch|(?<=[iy])mi?|(?<=e)(?:ho|mu))$")
# Snowball keeps the e of "cykel", which "cyklar" and "cykler" lack, and the second k of "sykkel".
_NORTHERN_EL = re.compile(r"(?<=[aeiouy])([cnrs]?)([bdfgkmprstvx])\2?(?:eln?|l)$")
# A stemmer must not be shared between threads.
_local = threading.local()


@lru_cache(maxsize=262_144)
def _stem(token: str, language: Language) -> str:
    stemmers = getattr(_local, "stemmers", None)
    if stemmers is None:
        stemmers = _local.stemmers = {}

    stemmer = stemmers.get(language.name)
    if stemmer is None:
        # Its own cache is small and slow to drop words; `_stem` has a larger one.
        stemmer = stemmers[language.name] = Stemmer.Stemmer(language.name, 0)

    if language.plurals:
        token = _plural_ending(language).sub(lambda plural: language.plurals[plural[1]], token)
    if language is FRENCH:
        token = _FRENCH_ENDING.sub("", token)
    elif language is POLISH:
        token = _POLISH_ENDING.sub("", token)
    elif language is CZECH:
        token = _CZECH_ENDING.sub("", token)

    stem = str(stemmer.stemWord(token))
    return _NORTHERN_EL.sub(r"\1\2l", stem) if language in NORTHERN else stem


@cache
def _plural_ending(language: Language) -> re.Pattern[str]:
    """Return what matches a plural that changes a vowel at the end of a word: "barnböckernas"."""
    return re.compile(rf"({'|'.join(language.plurals)})(?:[ae]|e?n[ae])?s?$")
