"""Term frequencies of a segment's texts on disk, read token by token.

    terms.bin      groups of 64 tokens in the order of their bytes: uint64 (2,), how many they are and
                   where the record of the first begins; uint32 (tokens, 2), where the text of each
                   ends and how many rows have it; the texts, padded to 8 bytes
    groups.npy     int64 (groups + 1,): where each group begins
    groups.txt     the first token of each group in UTF-8, one a line
    postings.bin   a record for each token, in the same order
    language.txt   the name of the texts' language, if that is not English
    lengths.npy    int32 (rows,): the number of tokens of each row

A record has the rows, int32 in ascending order, and how often each has the token, uint16. A record
of more than `LONG` rows has several such tiers. The first has the rows to whose score the token can
add most; before them is the least burden of each tier, float32 (tiers,): see `burdens`. So a search
reads the first tier of a frequent token, and only those others that some of its candidates may be in.

`terms.bin` and `postings.bin` are read by verified block, see `purlin.index.storage.blocks`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from purlin.index.distinct import sorted_distinct
from purlin.index.lookups import RecentlyUsed
from purlin.index.search.lexical.languages import ENGLISH, LANGUAGE_FILE, LANGUAGES, Language
from purlin.index.storage import read_array
from purlin.index.storage.blocks import UNCHECKED, BlockFile, FileReader

B = 0.75
# Records of more rows have tiers.
LONG = 4096
# Shares of a record's rows that are in its tiers but the last.
TIERS = (1 / 64, 3 / 64, 1 / 8)
GROUP = 64
POSTINGS_FILE, TERMS_FILE, LENGTHS_FILE = "postings.bin", "terms.bin", "lengths.npy"
GROUPS_FILE, GROUP_TOKENS_FILE = "groups.npy", "groups.txt"
# Bytes of recently read tiers that are kept: queries have most of their frequent words in common.
MOST_RECENT = 24 * 2**20
_RECENT_TOKENS = 4096
# Any text can be tokenized, even one with lone surrogates.
CODEC = ("utf-8", "surrogatepass")

_Rows = NDArray[np.int32]
_Counts = NDArray[np.uint16]


def burdens(
    lengths: NDArray[np.int32], counts: NDArray[np.uint16], mean: float
) -> NDArray[np.float32]:
    """Return the burdens of rows (n,): a token adds 1 / (1 + K1 * burden) of its idf to a row's score.

    If the mean length becomes m, no burden falls below min(1, mean / m) of what it was.
    """
    by_length = np.float32(1.0 - B) + np.float32(B / mean) * lengths.astype(np.float32)
    return np.asarray(by_length / counts.astype(np.float32), dtype=np.float32)


def mean_length(lengths: NDArray[np.int32]) -> float:
    """Return the mean length of texts, which count as having at least one token in all."""
    return max(int(lengths.sum(dtype=np.int64)), 1) / max(len(lengths), 1)


def tier_sizes(count: int) -> list[int]:
    """Rows in each tier of a record."""
    if count <= LONG:
        return [count]
    first = [int(count * share) for share in TIERS]
    return [*first, count - sum(first)]


def tier_bytes(count: int) -> int:
    """Bytes of a tier, rounded up to whole int32."""
    return (6 * count + 3) // 4 * 4


def record_bytes(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Bytes of records of so many rows."""
    sizes = (6 * counts + 3) // 4 * 4
    for position in np.flatnonzero(counts > LONG).tolist():
        tiers = tier_sizes(int(counts[position]))
        sizes[position] = 4 * len(tiers) + sum(map(tier_bytes, tiers))
    return sizes


@dataclass(frozen=True, slots=True)
class Tier:
    """Some rows of a token: where they begin in the file, how many, and their least burden."""

    start: int
    count: int
    least_burden: float


class Postings:
    """Term frequencies of one segment, open for reading; safe to share between threads."""

    def __init__(
        self,
        lengths: NDArray[np.int32],
        groups: NDArray[np.int64],
        group_tokens: Sequence[bytes],
        terms: BlockFile,
        postings: BlockFile,
        language: Language = ENGLISH,
    ) -> None:
        self.lengths = lengths
        self.language = language
        self.mean = mean_length(lengths)
        self._groups = groups
        self._firsts = group_tokens
        self._terms = terms
        self._postings = postings

        self.tiers = lru_cache(_RECENT_TOKENS)(self._tiers)
        # By where tiers begin.
        self._recent: RecentlyUsed[int, tuple[_Rows, _Counts]] = RecentlyUsed(
            MOST_RECENT, lambda entries: tier_bytes(len(entries[1]))
        )

    @classmethod
    def load(cls, directory: Path, files: FileReader = UNCHECKED) -> Postings:
        """Open the files of `purlin.index.search.lexical.builder`. Raises Damaged."""
        lengths, groups = (
            read_array(files.read(directory / name)) for name in (LENGTHS_FILE, GROUPS_FILE)
        )
        group_tokens = files.read(directory / GROUP_TOKENS_FILE).split(b"\n")[:-1]
        terms, postings = (files.blocks(directory / name) for name in (TERMS_FILE, POSTINGS_FILE))

        language = ENGLISH
        # English postings have no such file. If it is missing from a build, the manifest tells.
        if (directory / LANGUAGE_FILE).exists():
            language = LANGUAGES[files.read(directory / LANGUAGE_FILE).decode()]

        return cls(lengths, groups, group_tokens, terms, postings, language)

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.lengths)

    def _tiers(self, token: str) -> Sequence[Tier]:
        """Tiers of the token's record, none if no text has it. Raises Altered."""
        content = token.encode(*CODEC)
        group = bisect_right(self._firsts, content) - 1
        if group < 0:
            return ()
        names, starts, counts = self._group(group)
        number = bisect_left(names, content)
        if number == len(names) or names[number] != content:
            return ()

        start, sizes = int(starts[number]), tier_sizes(int(counts[number]))
        if len(sizes) == 1:
            return (Tier(start, sizes[0], 0.0),)
        table = np.frombuffer(self._postings.read(start, start + 4 * len(sizes)), np.float32)
        tier_starts = accumulate(map(tier_bytes, sizes[:-1]), initial=start + 4 * len(sizes))
        return tuple(map(Tier, tier_starts, sizes, table.tolist()))

    def _group(self, group: int) -> tuple[list[bytes], NDArray[np.int64], NDArray[np.int64]]:
        """Tokens of a group, where the record of each begins, and how many rows it has."""
        content = self._terms.read(int(self._groups[group]), int(self._groups[group + 1]))
        size, start = np.frombuffer(content[:16], np.uint64).tolist()
        table = np.frombuffer(content, np.uint32, 2 * size, 16).reshape(size, 2)

        text, ends = bytes(content[16 + 8 * size :]), table[:, 0].tolist()
        names = [text[first:last] for first, last in pairwise([0, *ends])]
        counts = table[:, 1].astype(np.int64)
        sizes = record_bytes(counts)
        return names, start + np.cumsum(sizes) - sizes, counts

    def words_like(
        self, beginning: str, sizes: range, fewest_rows: int, *, digits: bool = False
    ) -> dict[bytes, int]:
        """Return tokens of ASCII letters with this beginning and one of these sizes, and their row counts.

        With `digits`, tokens may have these, too. Those in fewer than `fewest_rows` rows are left out.
        Raises Altered.
        """
        letters = beginning.encode()
        first = max(bisect_right(self._firsts, letters) - 1, 0)
        last = bisect_left(self._firsts, letters[:-1] + bytes([letters[-1] + 1]))
        row_counts = {}

        for content, starts, ends, counts in self._tables(first, last):
            lengths = ends - starts
            fits = (lengths >= sizes.start) & (lengths < sizes.stop) & (counts >= fewest_rows)

            for token, count in _words(content, starts[fits], ends[fits], counts[fits], digits):
                if token.startswith(letters):
                    row_counts[token] = count

        return row_counts

    def words_ending(self, ending: str, longer: int) -> dict[bytes, int]:
        """Return tokens of ASCII letters with this ending, and their row counts. Raises Altered.

        The tokens are longer than the ending by at least `longer` letters.
        """
        letters = ending.encode()
        row_counts: dict[bytes, int] = {}

        for content, starts, ends, counts in self._tables(0, len(self._firsts)):
            codes = np.frombuffer(content, np.uint8)
            fits = ends - starts >= len(letters) + longer
            for before_end, code in enumerate(reversed(letters), 1):
                fits[fits] = codes[ends[fits] - before_end] == code

            row_counts.update(_words(content, starts[fits], ends[fits], counts[fits]))

        return row_counts

    def _tables(
        self, first: int, last: int
    ) -> Iterator[tuple[bytes, NDArray[np.int64], NDArray[np.int64], NDArray[np.uint32]]]:
        """Yield the tokens of groups: their texts, where each begins and ends, and its rows."""
        if last <= first:
            return
        start = int(self._groups[first])
        content = bytes(self._terms.read(start, int(self._groups[last])))
        begins = self._groups[first:last] - start
        group_sizes = np.frombuffer(content, np.uint64)[begins // 8].astype(np.int64)

        # All groups have the same size but the last of the file.
        for size in sorted_distinct(group_sizes).tolist():
            tables = begins[group_sizes == size] + 16
            entries = tables[:, None] // 4 + np.arange(2 * size)
            table = np.frombuffer(content, np.uint32)[entries].reshape(-1, size, 2)
            texts = tables[:, None] + 8 * size
            ends = texts + table[..., 0].astype(np.int64)
            starts = np.concatenate([texts, ends[:, :-1]], axis=1)
            yield content, starts, ends, table[..., 1]

    def records(self) -> Iterator[tuple[list[bytes], NDArray[np.int64], int]]:
        """Yield the tokens of each group, how many rows each has, and where the records begin."""
        for group in range(len(self._firsts)):
            names, starts, counts = self._group(group)
            yield names, counts, int(starts[0])

    def read_bytes(self, start: int, stop: int) -> memoryview:
        """Content of whole records. Raises Altered."""
        return self._postings.read(start, stop)

    def read(self, tier: Tier) -> tuple[_Rows, _Counts]:
        """Rows of a tier, in ascending order, and how often each has the token. Raises Altered."""
        if (entries := self._recent.get(tier.start)) is not None:
            return entries

        content = self._postings.read(tier.start, tier.start + tier_bytes(tier.count))
        rows = np.frombuffer(content, np.int32, tier.count)
        entries = rows, np.frombuffer(content, np.uint16, tier.count, 4 * tier.count)
        self._recent.put(tier.start, entries)
        return entries


def _words(
    content: bytes,
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    counts: NDArray[np.uint32],
    digits: bool = False,
) -> Iterator[tuple[bytes, int]]:
    """Yield the tokens of ASCII letters alone, or of `digits`, too, from `starts` to `ends`, and their rows."""
    spans = zip(starts.tolist(), ends.tolist(), strict=True)
    for (start, end), count in zip(spans, counts.tolist(), strict=True):
        token = content[start:end]
        if token.isalpha() or (digits and token.isalnum()):
            yield token, count


def common_rows(
    candidates: NDArray[np.integer], rows: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the positions (m,) of candidates that are among ascending rows, and their positions there."""
    entries = rows.searchsorted(candidates.astype(np.int32, copy=False))
    positions = (
        np.flatnonzero(rows.take(entries, mode="clip") == candidates) if len(rows) else entries[:0]
    )
    return positions, entries[positions]
