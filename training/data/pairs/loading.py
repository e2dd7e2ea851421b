"""Loading all pairs of a recipe, without repeats and without evaluation data, and the report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

from purlin.index.errors import InvalidInput
from purlin.index.records import Skipped
from purlin.training.data.pairs.formats import read_pairs
from purlin.training.data.pairs.held_out import Match, read_held_out, remove_held_out
from purlin.training.data.pairs.pair import Pair, PairSource, text_digest

# Reasons that are printed for one source.
MAX_REASONS = 5


@dataclass(slots=True)
class SourceReport:
    """How many pairs of one source were kept, and why the others were not.

    `masks` says what masked entity prediction will mask in them, if it will.
    """

    name: str
    kept: int = 0
    repeated: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    removed: Counter[Match] = field(default_factory=Counter)
    masks: str = ""

    @property
    def read(self) -> int:
        """Number of rows or documents that were read."""
        return self.kept + self.repeated + self.skipped.total() + self.removed.total()

    def __str__(self) -> str:
        identical, near, query = (self.removed[match] for match in get_args(Match))
        lines = [
            f"{self.name}: {self.kept:,} pairs of {self.read:,} read, {self.repeated:,} repeated, "
            f"{self.skipped.total():,} skipped; in an evaluation set: {identical:,} identical, "
            f"{near:,} nearly, {query:,} by their query"
        ]

        for reason, count in self.skipped.most_common(MAX_REASONS):
            lines.append(f"  {count:,} skipped: {reason}")
        if self.masks:
            lines.append(f"  masks: {self.masks}")

        return "\n".join(lines)


@dataclass(slots=True)
class Report:
    """The reports of all sources; `held_out` evaluation documents were compared with the pairs.

    `not_held_out` counts, by reason, the rows of evaluation sets that could not be.
    """

    sources: list[SourceReport]
    held_out: int = 0
    not_held_out: Counter[str] = field(default_factory=Counter)

    def counts(self) -> tuple[str, ...]:
        """Return what a model card says was trained on, if its recipe says nothing."""
        return tuple(f"{source.name}: {source.kept:,} pairs" for source in self.sources)

    def __str__(self) -> str:
        kept = sum(source.kept for source in self.sources)
        removed = sum(source.removed.total() for source in self.sources)
        total = (
            f"{kept:,} pairs; {removed:,} removed as copies from {self.held_out:,} "
            "evaluation documents"
        )
        lines = [*map(str, self.sources), total]

        for reason, count in self.not_held_out.most_common(MAX_REASONS):
            lines.append(f"  evaluation rows that could not be compared, {count:,}: {reason}")

        return "\n".join(lines)


def load_pairs(
    sources: Sequence[PairSource],
    exclude: Sequence[Path] = (),
) -> tuple[list[list[Pair]], Report]:
    """Return the pairs of each source, in the order of `sources`, and a report.

    Repeats and whatever is in the evaluation sets `exclude` are removed, after the limits of the
    sources were applied. Raises what `read_pairs` and `read_held_out` raise, and InvalidInput if no
    pair of a source remains.
    """
    held_out = read_held_out(exclude)
    digests: set[bytes] = set()
    loaded: list[list[Pair]] = []
    reports: list[SourceReport] = []

    for source in sources:
        report = SourceReport(f"{source.path.name} ({source.format})")
        new_pairs = _new_pairs(source, digests, report)
        pairs, report.removed = remove_held_out(new_pairs, held_out)
        report.kept = len(pairs)
        if not pairs:
            raise InvalidInput(f"Nothing remains of {source.path}. {report}", field="sources")

        loaded.append(pairs)
        reports.append(report)

    return loaded, Report(reports, held_out.documents, held_out.skipped)


def _new_pairs(
    source: PairSource,
    digests: set[bytes],
    report: SourceReport,
) -> Iterator[Pair]:
    """Yield the source's pairs that are not in `digests`, and add them; count all others."""
    for pair in read_pairs(source):
        if isinstance(pair, Skipped):
            # What follows a colon is about the single row, so it would split the counts.
            report.skipped[pair.reason.partition(":")[0]] += 1
            continue

        digest = text_digest("\0".join((*pair.queries, pair.passage)))
        if digest in digests:
            report.repeated += 1
        else:
            digests.add(digest)
            yield pair
