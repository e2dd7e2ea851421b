"""Writes the postings of a segment with bounded memory: runs on disk, then one merge.

A run is a segment of some of the texts. It is merged as the segments are from which rows are
copied. The files are the same however many runs there were.
"""

from __future__ import annotations

import shutil
import tempfile
from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain, pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from purlin.index.search.lexical.languages import (
    ENGLISH,
    LANGUAGE_FILE,
    SAMPLE_CHARS,
    Language,
    detect,
)
from purlin.index.search.lexical.postings import (
    CODEC,
    GROUP,
    GROUP_TOKENS_FILE,
    GROUPS_FILE,
    LENGTHS_FILE,
    LONG,
    POSTINGS_FILE,
    TERMS_FILE,
    Postings,
    burdens,
    mean_length,
    record_bytes,
    tier_bytes,
    tier_sizes,
)
from purlin.index.search.lexical.tokens import fold, split, words
from purlin.index.storage import TEMPORARY
from purlin.index.storage.blocks import BlockWriter

# Tokens of texts in a run, and entries that are merged together: each takes about 40 bytes.
RUN_TOKENS = 4_000_000
_MERGED_ENTRIES = 2_000_000
_MAX_COUNT = np.iinfo(np.uint16).max
_MAX_CACHED_WORDS = 200_000


class _Entries(NamedTuple):
    """Tokens in the order of their bytes, how many entries each has, and the entries' columns."""

    tokens: Sequence[bytes]
    sizes: NDArray[np.int64]
    rows: NDArray[np.int32]
    counts: NDArray[np.uint16]


class _Vocabulary(dict[bytes, int]):
    """Token -> its number in a run; a token gets one when it is looked up first."""

    def __missing__(self, token: bytes) -> int:
        number = self[token] = len(self)
        return number


class Tokenizer(dict[str, tuple[bytes, ...]]):
    """Cuts texts into the tokens that a segment stores, and remembers the tokens of their words."""

    def __init__(self, language: Language) -> None:
        super().__init__()
        self.language = language

    def __missing__(self, word: str) -> tuple[bytes, ...]:
        tokens = tuple(token.encode(*CODEC) for token in split(word, self.language))
        if len(self) < _MAX_CACHED_WORDS:
            self[word] = tokens
        return tokens

    def tokens(self, text: str) -> list[bytes]:
        """Return the tokens of a text in their order."""
        return list(chain.from_iterable(map(self.__getitem__, words(text))))


class LexicalBuilder:
    """Collects texts row by row, and rows of other segments, into the postings of a segment.

    `directory` is created. `language` is that of the texts; with None it is detected by the first of
    them, and rows can be added by `add` only. `run_tokens` bounds the memory.
    """

    def __init__(
        self, directory: Path, run_tokens: int = RUN_TOKENS, *, language: Language | None = ENGLISH
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._run_tokens = run_tokens
        self._scratch = Path(tempfile.mkdtemp(prefix=TEMPORARY, dir=directory))
        self._lengths = array("i")

        # Tokens of the texts of this run, and the row and length of each text.
        self._vocabulary = _Vocabulary()
        self._tokens, self._text_rows, self._text_lengths = array("i"), array("i"), array("i")
        # Segments to merge, each with the row here of each of its rows, or -1.
        self._sources: dict[Postings, NDArray[np.int64]] = {}

        # None until the language is detected, by the first texts.
        self._tokenizer = None if language is None else Tokenizer(language)
        self._sample: list[str] = []
        self._sample_chars = 0

    def add(self, text: str) -> None:
        """Append one row."""
        if self._tokenizer is not None:
            self.add_tokens(self._tokenizer.tokens(text))
            return
        self._sample.append(text)
        self._sample_chars += len(text)
        if self._sample_chars >= SAMPLE_CHARS:
            self._detect_language()

    def _detect_language(self) -> Tokenizer:
        """Detect the language of the sample, and append its rows."""
        self._tokenizer = Tokenizer(detect(fold(text).lower() for text in self._sample))
        for text in self._sample:
            self.add(text)
        self._sample.clear()
        return self._tokenizer

    def add_tokens(self, tokens: Iterable[bytes]) -> None:
        """Append one row by the tokens that a `Tokenizer` of the builder's language made of it."""
        before = len(self._tokens)
        self._tokens.extend(map(self._vocabulary.__getitem__, tokens))
        self._text_rows.append(len(self._lengths))
        self._text_lengths.append(len(self._tokens) - before)
        self._lengths.append(len(self._tokens) - before)
        if len(self._tokens) >= self._run_tokens:
            self._end_run()

    def copy(self, postings: Postings, start: int, end: int) -> None:
        """Append the rows `start` to `end` - 1 of another segment."""
        if postings not in self._sources:
            self._sources[postings] = np.full(len(postings), -1)
        first = len(self._lengths)
        self._sources[postings][start:end] = np.arange(first, first + end - start)
        self._lengths.extend(postings.lengths[start:end].tolist())

    def close(self) -> None:
        """Write the files. Raises OSError."""
        tokenizer = self._detect_language() if self._tokenizer is None else self._tokenizer
        if self._sources and self._tokens:
            self._end_run()

        lengths = np.array(self._lengths, np.int32)
        with _Writer(self._directory, lengths) as writer:
            if self._tokens:
                # All texts are in the first run, in their order.
                writer.write(self._entries_of_run())
            for entries in _merged([_Copy(*each) for each in self._sources.items()], len(lengths)):
                writer.write(entries)

        if tokenizer.language is not ENGLISH:
            (self._directory / LANGUAGE_FILE).write_text(tokenizer.language.name)
        self.abandon()

    def abandon(self) -> None:
        """Remove what was written for the merge."""
        self._sources.clear()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _end_run(self) -> None:
        """Write the texts since the last run as a segment."""
        directory = self._scratch / str(len(self._sources))
        directory.mkdir()
        with _Writer(directory, np.array(self._text_lengths, np.int32)) as writer:
            writer.write(self._entries_of_run())
        self._sources[Postings.load(directory)] = np.array(self._text_rows, np.int64)

        self._vocabulary = _Vocabulary()
        for column in (self._tokens, self._text_rows, self._text_lengths):
            del column[:]

    def _entries_of_run(self) -> _Entries:
        """Return the entries of the texts since the last run, whose rows count from 0."""
        ordered = sorted(self._vocabulary)
        rank = np.empty(len(ordered), np.int64)
        rank[[self._vocabulary[token] for token in ordered]] = np.arange(len(ordered))

        count = len(self._text_lengths)
        keys = rank[np.array(self._tokens)] * count
        keys += np.repeat(np.arange(count), np.array(self._text_lengths))
        unique, counts = np.unique(keys, return_counts=True)
        tokens, rows = np.divmod(unique, count)

        return _Entries(
            ordered,
            np.bincount(tokens, minlength=len(ordered)),
            rows.astype(np.int32),
            np.minimum(counts, _MAX_COUNT).astype(np.uint16),
        )


class _Copy:
    """Entries of another segment whose rows are copied: `rows` maps each to that here, or -1."""

    def __init__(self, postings: Postings, rows: NDArray[np.int64]) -> None:
        self._postings = postings
        self._rows = rows
        self._groups = postings.records()
        self._pending: tuple[list[bytes], NDArray[np.int64], int] | None = None

    def marks(self) -> Iterator[tuple[bytes, int]]:
        """Yield some tokens in their order, each with the entries from it to the next mark."""
        for tokens, counts, _ in self._postings.records():
            yield tokens[0], int(counts.sum())

    def take(self, stop: bytes | None) -> _Entries:
        """Return the entries of all further tokens before `stop`; None means all."""
        tokens: list[bytes] = []
        columns = [(np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0, np.uint16))]
        for names, counts, start in self._further_groups(stop):
            sizes, rows, frequencies = self._entries(counts, start)
            tokens += names
            columns.append((sizes, rows, frequencies))
        return _Entries(tokens, *map(np.concatenate, zip(*columns, strict=True)))

    def _further_groups(
        self, stop: bytes | None
    ) -> Iterator[tuple[list[bytes], NDArray[np.int64], int]]:
        """Yield the tokens before `stop` by group; the rest of a group stays for the next call."""
        while (group := self._pending or next(self._groups, None)) is not None:
            self._pending = None
            names, counts, start = group
            before = len(names) if stop is None else sum(name < stop for name in names)

            if before < len(names):
                later = start + int(record_bytes(counts[:before]).sum())
                self._pending = names[before:], counts[before:], later

            if before:
                yield names[:before], counts[:before], start

            if self._pending is not None:
                return

    def _entries(
        self, counts: NDArray[np.int64], start: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.uint16]]:
        """Return the sizes and entries of the copied rows in neighbouring records."""
        content = self._postings.read_bytes(start, start + int(record_bytes(counts).sum()))
        units = np.frombuffer(content, np.uint16)
        parts, number_of = _parts(counts)
        entries = _positions(parts[:, 0], parts[:, 1])
        rows = units[entries.rows].astype(np.int64) | units[entries.rows + 1].astype(np.int64) << 16

        rows, numbers = self._rows[rows], np.repeat(number_of, parts[:, 1])
        kept = np.flatnonzero(rows >= 0)
        # Tiers of one token are in several parts, and files may be copied in another order.
        order = kept[np.lexsort((rows[kept], numbers[kept]))]
        sizes = np.bincount(numbers[order], minlength=len(counts))
        return sizes, rows[order].astype(np.int32), units[entries.counts[order]]


class _Positions(NamedTuple):
    """Where the row (2 units) and the count (1 unit) of each entry are, in units of uint16."""

    rows: NDArray[np.int64]
    counts: NDArray[np.int64]


def _positions(starts: NDArray[np.int64], sizes: NDArray[np.int64]) -> _Positions:
    """Return the positions of the entries of tiers that begin at these units and have these sizes."""
    within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    starts_of = np.repeat(starts, sizes)
    return _Positions(starts_of + 2 * within, starts_of + 2 * np.repeat(sizes, sizes) + within)


def _parts(counts: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the start (in units) and size of each tier of neighbouring records, and its record."""
    sizes = record_bytes(counts)
    starts = (np.cumsum(sizes) - sizes) // 2
    numbers = np.arange(len(counts))
    short = counts <= LONG

    parts = [np.stack([starts[short], counts[short]], axis=1)]
    records = [numbers[short]]

    for number in np.flatnonzero(~short).tolist():
        tiers = tier_sizes(int(counts[number]))
        first = int(starts[number]) + 2 * len(tiers)
        tier_starts = accumulate((tier_bytes(size) // 2 for size in tiers[:-1]), initial=first)
        parts.append(np.stack([np.fromiter(tier_starts, np.int64), tiers], axis=1))
        records.append(np.full(len(tiers), number))

    return np.concatenate(parts), np.concatenate(records)


# ---- merge


def _merged(sources: Sequence[_Copy], rows: int) -> Iterator[_Entries]:
    """Yield the entries of all sources in the order of their tokens, in bounded parts."""
    for stop in [*_stops(sources), None]:
        parts = [source.take(stop) for source in sources]
        tokens = sorted(set(chain.from_iterable(part.tokens for part in parts)))
        if not tokens:
            continue

        number_of = {token: number for number, token in enumerate(tokens)}
        numbers = np.concatenate(
            [
                np.repeat([number_of[token] for token in part.tokens], part.sizes)
                if part.tokens
                else np.zeros(0, np.int64)
                for part in parts
            ]
        ).astype(np.int64)
        all_rows = np.concatenate([part.rows for part in parts])
        counts = np.concatenate([part.counts for part in parts])
        order = np.argsort(numbers * rows + all_rows, kind="stable")
        sizes = np.bincount(numbers, minlength=len(tokens))

        # Some tokens of a segment are in none of the rows that are copied from it.
        used = np.flatnonzero(sizes)
        yield _Entries(
            [tokens[number] for number in used.tolist()],
            sizes[used],
            all_rows[order],
            counts[order],
        )


def _stops(sources: Iterable[_Copy]) -> Iterator[bytes]:
    """Yield tokens at which to cut, so that about `_MERGED_ENTRIES` lie between two cuts."""
    entries = 0
    for token, following in sorted(chain.from_iterable(source.marks() for source in sources)):
        if entries + following > _MERGED_ENTRIES and entries:
            yield token
            entries = 0
        entries += following


class _Writer:
    """Writes the files of a segment's postings, token by token in their order."""

    def __init__(self, directory: Path, lengths: NDArray[np.int32]) -> None:
        self._directory = directory
        self._lengths = lengths
        self._mean = mean_length(lengths)

        self._postings = BlockWriter(directory / POSTINGS_FILE)
        self._terms = BlockWriter(directory / TERMS_FILE)

        # Tokens that are in no group yet, with the number of rows of each.
        self._pending: list[tuple[bytes, int]] = []
        self._pending_start = 0

        self._groups = array("q")
        self._firsts: list[bytes] = []

    def __enter__(self) -> _Writer:
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        if error is not None:
            self._postings.abandon()
            self._terms.abandon()
            return

        if self._pending:
            self._end_group(self._pending)
        self._groups.append(self._terms.tell())
        self._postings.close()
        self._terms.close()

        np.save(self._directory / GROUPS_FILE, np.array(self._groups, np.int64))
        names = b"".join(token + b"\n" for token in self._firsts)
        (self._directory / GROUP_TOKENS_FILE).write_bytes(names)
        np.save(self._directory / LENGTHS_FILE, self._lengths)

    def write(self, entries: _Entries) -> None:
        """Append the records of further tokens."""
        sizes = entries.sizes
        rows, counts, floors = self._in_tiers(entries)
        units = np.zeros(int(record_bytes(sizes).sum()) // 2, np.uint16)
        parts, records = _parts(sizes)
        # `_parts` puts those of long records last: restore the order of the entries.
        order = np.argsort(records, kind="stable")
        positions = _positions(parts[order, 0], parts[order, 1])
        units[positions.rows] = rows & 0xFFFF
        units[positions.rows + 1] = rows >> 16
        units[positions.counts] = counts

        starts = record_bytes(sizes).cumsum() - record_bytes(sizes)
        for record, least in floors.items():
            start = int(starts[record]) // 2
            units[start : start + 2 * len(least)] = least.view(np.uint16)
        self._postings.write(units.tobytes())
        self._add_terms(entries)

    def _in_tiers(
        self, entries: _Entries
    ) -> tuple[NDArray[np.int32], NDArray[np.uint16], dict[int, NDArray[np.float32]]]:
        """Return rows and counts, in long records ordered by tier, and the least burden of each tier."""
        rows, counts = entries.rows.copy(), entries.counts.copy()
        ends = np.cumsum(entries.sizes)
        floors = {}
        for record in np.flatnonzero(entries.sizes > LONG).tolist():
            start, end = int(ends[record] - entries.sizes[record]), int(ends[record])
            burden = burdens(self._lengths[rows[start:end]], counts[start:end], self._mean)
            lightest = np.argsort(burden, kind="stable")
            bounds = list(accumulate(tier_sizes(end - start), initial=0))
            floors[record] = burden[lightest[bounds[:-1]]]

            tiers = [np.sort(lightest[first:last]) for first, last in pairwise(bounds)]
            order = start + np.concatenate(tiers)
            rows[start:end], counts[start:end] = rows[order], counts[order]
        return rows, counts, floors

    def _add_terms(self, entries: _Entries) -> None:
        self._pending += zip(entries.tokens, entries.sizes.tolist(), strict=True)
        whole = len(self._pending) // GROUP * GROUP
        for start in range(0, whole, GROUP):
            self._end_group(self._pending[start : start + GROUP])
        del self._pending[:whole]

    def _end_group(self, terms: Sequence[tuple[bytes, int]]) -> None:
        self._groups.append(self._terms.tell())
        self._firsts.append(terms[0][0])
        table = np.empty((len(terms), 2), np.uint32)
        table[:, 0] = np.cumsum([len(token) for token, _ in terms])
        table[:, 1] = [count for _, count in terms]

        self._terms.write(np.array([len(terms), self._pending_start], np.uint64).tobytes())
        self._terms.write(table.tobytes())
        self._terms.write(b"".join(token for token, _ in terms))
        # Groups begin at whole int32, so that their tables can be read in place.
        self._terms.write(bytes(-self._terms.tell() % 8))
        self._pending_start += int(record_bytes(table[:, 1].astype(np.int64)).sum())
