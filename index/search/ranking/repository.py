"""Ranking of a repository's code by more than the text of each passage.

In a repository, the names of files and definitions say what the code inside is for, and a file with
several hits is a better place to look than one with a single hit. The model weighs this evidence:

    relevance = 0.49 text + 0.29 path + 0.07 name + 0.15 file
    score     = (relevance + max(definition, quote) * (1 - relevance)) * role

`text` is the fused score of the retrievers, less for a short document, since any of its words makes it
near to a query. `path` and `name` are the shares of the query that the words of the path and of the
definition's name match, `file` is the mean text score of the file's other hits. `definition` is how
much of the query names the symbol that the passage defines, `quote` how much of it is in the passage
word for word. `role` puts tests, examples and the like after other code, or other code after tests if
the query asks for these. `path` and `file` count for the best hit of a file alone: its further hits
stand where their own words put them. Where no text is near the query, `path`, `name` and `file` count
less: then they match its words by chance. Where the query asks who uses a symbol, or what inherits from
it, `definition` is that of passages that do. All parts are in 0-1, so scores are, too.

The weights were fitted on the queries over repositories in docs/results.md: those for files, and the
tuning half of those for functions. docs/lab-notebook.md tells what lost.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from itertools import chain, islice, takewhile

import numpy as np

from purlin.index.encoder import Vectors
from purlin.index.search.arrays import Mask, Rows
from purlin.index.search.contracts import Details
from purlin.index.search.lexical.tokens import tokens

# So many documents are ranked by the model, whatever the page: those with the highest text scores among
# the first ones of each retriever.
DEPTH = 200
# Divided by their sum, these are the weights of the formula above.
RELEVANCE = {"text": 1.0, "path": 0.6, "name": 0.15, "file": 0.3}
# Raises shares of the query's words, because few queries match a path in full.
SHARE_POWER = 0.7
# A symbol that makes up half of a question counts only a quarter: it may be mentioned in passing.
SYMBOL_POWER = 2.0
# The file's hits after its best one that count as evidence.
OTHER_HITS = 5
# The best text score from which on paths, names and files count in full; below, in proportion to it.
NEAR_TEXT = 0.3
SECONDARY_ROLE = 0.5

# Levels of agreement between a symbol in the query and the name of a definition. `FILE_NAME` is for
# the code outside of definitions, whose name is the file's.
SUFFIX, LAST_NAME, OTHER_CASE, FILE_NAME = 0.75, 0.4, 0.9, 0.9
# If the query asks who uses a symbol, its uses come before its definition, also those in tests.
USE, DEFINITION_OF_USED = 0.8, 0.1

_MIN_PREFIX = 4
SEPARATOR = re.compile(r"::|->|[.#\\]")
_NAME = re.compile(r"[^\W\d][\w$]*[!?]?(?:(?:::|->|[.#\\])[\w$]+[!?]?)*(?:\(\))?")
# A name of Lisp; in a sentence, words may have hyphens, too.
_HYPHENATED = re.compile(r"[^\W\d]\w*(?:-\w+)+[!?*]?")
# CamelCase, snake_case, or a name after a separator: in a sentence, other words are just words.
_TELLING = re.compile(r"[a-z0-9][A-Z]|[A-Z]{2}[a-z]|\w_\w|\w(?:::|->|[.#\\])\w|\(\)$")
_MAX_ABBREVIATION = 4
_ABBREVIATION = re.compile(rf"[^\W\d_aeiou]{{2,{_MAX_ABBREVIATION}}}")
_OLD = re.compile(r"(^|/)_?(legacy|deprecated|compat)(/|\.\w+$)")
_VERSION = re.compile(r"v\d+")


@dataclass(frozen=True, slots=True)
class Evidence:
    """The parts of the scores (n,) of n passages, each in 0-1; see the module.

    `related` masks those that use, test or inherit from a symbol, as the query asks.
    """

    text: Vectors
    path: Vectors
    name: Vectors
    file: Vectors
    definition: Vectors
    quote: Vectors
    role: Vectors
    related: Mask

    def scores(self) -> Vectors:
        """Return the scores (n,) in 0-1."""
        missing = (1.0 - self._relevance()) * (1.0 - np.maximum(self.definition, self.quote))
        return np.asarray((1.0 - missing) * self.role, dtype=np.float32)

    def order(self) -> Rows:
        """Rows by score; definitions of one name, which all have the same, by their relevance."""
        return np.lexsort((-self._relevance(), -self.scores()))

    def _relevance(self) -> Vectors:
        relevance: Vectors = sum(self._weighted().values(), np.zeros(len(self.text), np.float32))
        return relevance

    def _weighted(self) -> dict[str, Vectors]:
        total = sum(RELEVANCE.values())
        return {
            part: np.float32(weight / total) * getattr(self, part)
            for part, weight in RELEVANCE.items()
        }

    def take(self, order: Rows) -> Evidence:
        """Return the evidence of these passages, in this order."""
        return Evidence(**{part.name: getattr(self, part.name)[order] for part in fields(self)})

    def parts(self, row: int) -> dict[str, float]:
        """Map each part to what it adds; score = their sum * role."""
        parts = {part: float(values[row]) for part, values in self._weighted().items()}
        rest = 1.0 - sum(parts.values())
        definition, quote = float(self.definition[row]), float(self.quote[row])
        beyond = max(quote - definition, 0.0)
        return parts | {"definition": definition * rest, "quote": beyond * rest}


def weigh(
    query: str,
    weights: Mapping[str, float],
    documents: Details,
    text: Vectors,
    named: Mask,
    existing_paths: Callable[[Iterable[str]], set[str]],
    related: Mask | None = None,
    quoted: Vectors | None = None,
) -> Evidence:
    """Weigh documents (n,) with their text scores, best first.

    `weights` maps the query's tokens to their idf. `named` masks documents whose id or title is the
    query, or whose file and line are in it. The order of the documents decides which of a file's equal
    hits comes first. A document without a path gets no evidence from files. `existing_paths` returns
    those of some paths that the corpus has. If the query asks who uses a symbol, tests it or
    inherits from it, `query` is that symbol, and `related` masks the documents that do. `quoted` (n,) is
    how much of the query each document has word for word.
    """
    total = sum(weights.values()) or 1.0
    tokens_of = dict(zip(documents.paths, documents.path_tokens, strict=True))
    files = [path for path in tokens_of if path is not None]
    file_of = _file_numbers(documents.paths, files)

    # The entries after those of the files belong to documents without a path, and stay 0.
    path_shares = np.zeros(len(files) + len(documents.paths), dtype=np.float32)
    shares = _path_shares([tokens_of[path] for path in files], weights, total)
    path_shares[: len(files)] = shares ** np.float32(SHARE_POWER)

    definition = _definitions(query, weights, documents.titles)
    if related is not None:
        definition = np.maximum(
            related * np.float32(USE), definition * np.float32(DEFINITION_OF_USED)
        )
    # A title in another case is named, too, but one in the query's case comes before it.
    definition[named & (definition < OTHER_CASE)] = 1.0
    definition[documents.modules] *= np.float32(FILE_NAME)

    nearness = np.float32(min(float(text.max(initial=0.0)) / NEAR_TEXT, 1.0))
    superseded = _superseded(files, existing_paths)
    is_old = np.array([path in superseded for path in documents.paths], dtype=np.bool_)
    demoted = is_old | documents.secondary

    evidence = Evidence(
        text=text,
        path=path_shares[file_of] * nearness,
        name=_shares(weights, total, documents.title_tokens) ** np.float32(SHARE_POWER) * nearness,
        file=_other_hits(file_of, text) * nearness,
        definition=definition,
        quote=np.zeros_like(text) if quoted is None else quoted,
        role=np.where(demoted, np.float32(SECONDARY_ROLE), np.float32(1.0)),
        related=np.zeros_like(demoted) if related is None else related,
    )
    is_first = _is_first_of_file(file_of, evidence.order())
    return replace(evidence, path=evidence.path * is_first, file=evidence.file * is_first)


# ---- paths


def _file_numbers(paths: Sequence[str | None], files: Sequence[str]) -> Rows:
    """Return the number (n,) of each document's file; one without a path is a file of its own."""
    numbers = {path: number for number, path in enumerate(files)}
    return np.array(
        [numbers[path] if path is not None else len(files) + row for row, path in enumerate(paths)],
        dtype=np.int64,
    )


def _path_shares(path_tokens: Sequence[str], weights: Mapping[str, float], total: float) -> Vectors:
    """Return the share (files,) of the query's weight that the words of each path match.

    `path_tokens` are the tokens of each path, separated by spaces.
    """
    paths = [f" {words} " for words in path_tokens]
    distinct = frozenset(" ".join(path_tokens).split())
    ordered = sorted(distinct)
    abbreviations = [
        word for word in ordered if len(word) <= _MAX_ABBREVIATION and _is_abbreviation(word)
    ]

    matched = np.zeros(len(paths), dtype=np.float32)
    for token, weight in weights.items():
        words = {*_same_beginning(token, distinct, ordered)}
        words.update(word for word in abbreviations if _abbreviates(word, token))
        # Which paths have a word is looked up for the few words that match.
        has_word = np.zeros(len(paths), dtype=np.bool_)
        for word in words:
            padded = f" {word} "
            has_word |= np.array([padded in path for path in paths])
        matched[has_word] += np.float32(weight)

    return matched / np.float32(total)


def _same_beginning(token: str, distinct: frozenset[str], ordered: Sequence[str]) -> Iterator[str]:
    """Yield the words that equal the token, begin with it or begin it."""
    if token in distinct:
        yield token
    yield from (token[:end] for end in range(_MIN_PREFIX, len(token)) if token[:end] in distinct)
    if len(token) >= _MIN_PREFIX:
        later = islice(ordered, bisect_left(ordered, token), None)
        yield from takewhile(lambda word: word.startswith(token), later)


@lru_cache(maxsize=65_536)
def _is_abbreviation(word: str) -> bool:
    return _ABBREVIATION.fullmatch(word) is not None


def _abbreviates(word: str, token: str) -> bool:
    """Return whether the longer token has the consonants of `word` in this order: ctx, context."""
    if word[0] != token[0] or len(token) <= len(word) + 1:
        return False
    letters = iter(token)
    return all(letter in letters for letter in word)


def _superseded(
    paths: Sequence[str], existing_paths: Callable[[Iterable[str]], set[str]]
) -> set[str]:
    """Return the paths that say legacy code, or whose file also exists outside their version's folder."""
    superseded = {path for path in paths if _is_old(path)}
    current_of = {path: currents for path in paths if (currents := _unversioned(path))}
    if current_of:
        existing = existing_paths(chain.from_iterable(current_of.values()))
        superseded |= {path for path, files in current_of.items() if existing.intersection(files)}
    return superseded


@lru_cache(maxsize=65_536)
def _is_old(path: str) -> bool:
    return _OLD.search(path) is not None


@lru_cache(maxsize=65_536)
def _unversioned(path: str) -> Sequence[str]:
    """Return the paths that the current file may have: `path` without one of its folders such as `v1`."""
    parts = path.split("/")
    return tuple(
        "/".join((*parts[:at], *parts[at + 1 :]))
        for at, folder in enumerate(parts[:-1])
        if _VERSION.fullmatch(folder)
    )


# ---- names


def _shares(weights: Mapping[str, float], total: float, title_tokens: Sequence[str]) -> Vectors:
    """Return the share (n,) of the query's weight that the words of each title match."""
    shares = [
        sum(weights[token] for token in words.split() if token in weights) / total
        for words in title_tokens
    ]
    return np.array(shares, dtype=np.float32)


def names_of(query: str) -> list[str]:
    """Return the names of the symbol that a query consists of, outermost first; none for other queries."""
    query = query.strip()
    is_name = _NAME.fullmatch(query) or _HYPHENATED.fullmatch(query)
    return SEPARATOR.split(query.removesuffix("()")) if is_name else []


def is_telling(name: str) -> bool:
    """Return whether a word can only be the name of a symbol: CamelCase, snake_case and the like."""
    return _TELLING.search(name) is not None


def _symbols(query: str, weights: Mapping[str, float]) -> Iterator[tuple[list[str], float]]:
    """Yield the names of each symbol in the query, and how much of the query's weight it has."""
    if names := names_of(query):
        yield names, 1.0
        return

    total = sum(weights.values()) or 1.0
    for match in _NAME.finditer(query):
        if _TELLING.search(match.group()):
            symbol = match.group().removesuffix("()")
            share = sum(weights.get(token, 0.0) for token in dict.fromkeys(tokens(symbol))) / total
            yield SEPARATOR.split(symbol), share


def _definitions(query: str, weights: Mapping[str, float], titles: Sequence[str]) -> Vectors:
    """Return how much of the query names what each title defines, (n,) in 0-1."""
    levels = np.zeros(len(titles), dtype=np.float32)
    for names, share in _symbols(query, weights):
        for row, title in enumerate(titles):
            level = share**SYMBOL_POWER * _agreement(names, title)
            levels[row] = max(levels[row], level)
    return levels


def _agreement(names: Sequence[str], title: str) -> float:
    """Return 1 if the names are the whole title, less if only its last names, and less for other case."""
    defined = title.split(".")
    if names[-1].lower() != defined[-1].lower():
        return 0.0

    lower = [name.lower() for name in names]
    ends = [name.lower() for name in defined[-len(names) :]]
    level = LAST_NAME
    if lower == ends:
        level = 1.0 if len(defined) == len(names) else SUFFIX
    same_case = list(names) == defined[-len(names) :] or (
        level == LAST_NAME and names[-1] == defined[-1]
    )
    return level if same_case else OTHER_CASE * level


# ---- files


def _earlier_equals(values: Rows) -> Rows:
    """Return for each of the values (n,) how many equal ones come before it."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    lengths = np.diff(np.r_[starts, len(values)])

    counts = np.empty(len(values), dtype=np.int64)
    counts[order] = np.arange(len(values)) - np.repeat(starts, lengths)
    return counts


def _is_first_of_file(files: Rows, order: Rows) -> Mask:
    """Return the mask (n,) of the passages that are the first of their file in this order."""
    is_first = np.zeros(len(files), dtype=np.bool_)
    is_first[order] = _earlier_equals(files[order]) == 0
    return is_first


def _other_hits(files: Rows, text: Vectors) -> Vectors:
    """Return the mean text score (n,) of the `OTHER_HITS` hits after the best one of a passage's file."""
    order = np.argsort(-text, kind="stable")
    position_in_file = np.empty(len(files), dtype=np.int64)
    position_in_file[order] = _earlier_equals(files[order])

    is_counted = (position_in_file >= 1) & (position_in_file <= OTHER_HITS)
    _, group = np.unique(files, return_inverse=True)
    sums = np.bincount(group, np.where(is_counted, text, 0.0))
    return np.asarray(sums[group] / OTHER_HITS, dtype=np.float32)
