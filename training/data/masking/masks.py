"""Masked entity prediction (SANTA, eq. 6 and 7, appendix A.3): masked texts and targets.

A passage and its entities become a masked text, in which a sentinel replaces every entity, and a
target, which lists the entity of each sentinel. The ablation masks random spans instead.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from purlin.index.records import Kind, Span
from purlin.training.data.masking.nouns import singular

_WORD = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True, slots=True)
class Masked:
    """A masked text and its target (eq. 6 and 7), and the number of entities in the target.

    `target` is `<mask>_1 ent_1 <mask>_2 ent_2 …`, or empty if nothing was masked. It has no final
    sentinel, as in the paper's Y_d.
    """

    text: str
    target: str
    entities: int


def mask_entities(
    text: str,
    spans: Iterable[Span],
    sentinels: Sequence[str],
    *,
    kind: Kind = "code",
) -> Masked:
    """Replace every entity by a sentinel, numbered in the order of first occurrence.

    Occurrences of the same entity get the same sentinel. In code the same entities are spelled
    alike; in products case and number are ignored too, and the target has the first spelling. If
    there are more entities than sentinels, those that occur first are masked, since the encoder's
    limit cuts off the end.

    Of overlapping spans the first counts. A sentinel that occurs in the text itself is not used,
    and a span that contains one is not masked.
    """
    groups: dict[str, list[Span]] = {}
    for span in _separate(text, spans, sentinels):
        word = text[span.start : span.end]
        groups.setdefault(singular(word) if kind == "product" else word, []).append(span)

    return _replace(text, list(groups.values()), sentinels)


def mask_spans(
    text: str,
    sentinels: Sequence[str],
    rng: random.Random,
    share: float = 0.15,
    mean_length: float = 3.0,
) -> Masked:
    """Mask `share` (above 0) of the words in random runs, each by its own sentinel: T5's span corruption.

    A run has `mean_length` words on average. Words are runs of letters and digits, or single other
    characters. At least one word is masked and one kept; a text of one word stays unchanged. If
    the sentinels are too few for the whole text, its beginning is masked.
    """
    # The words that the sentinels are enough for.
    reach = int(len(_unused(text, sentinels)) * mean_length / share)
    words = [match.span() for match in _WORD.finditer(text)][:reach]

    spans = [
        Span(words[first][0], words[end - 1][1])
        for first, end in _random_runs(len(words), rng, share, mean_length)
    ]
    groups = [[span] for span in _separate(text, spans, sentinels)]
    return _replace(text, groups, sentinels)


def _random_runs(
    size: int, rng: random.Random, share: float, mean_length: float
) -> Iterator[tuple[int, int]]:
    """Yield (first, end) of runs of `size` items, at least one item apart."""
    hidden = min(max(1, round(size * share)), size - 1)
    if hidden < 1:
        return
    kept = size - hidden
    count = min(max(1, round(hidden / mean_length)), kept + 1)

    # Each gap is at least 1. Two items more than are kept let the first and the last gap be 0.
    gaps = _random_parts(kept + 2, count + 1, rng)
    lengths = _random_parts(hidden, count, rng)

    end = -1
    for gap, length in zip(gaps, lengths, strict=False):
        end += gap + length
        yield end - length, end


def _random_parts(total: int, count: int, rng: random.Random) -> list[int]:
    """Return `count` numbers of at least 1 whose sum is `total`, all ways equally likely."""
    cuts = sorted(rng.sample(range(1, total), count - 1))
    return [end - start for start, end in pairwise([0, *cuts, total])]


def entity_share(text: str, spans: Iterable[Span]) -> float:
    """Return the share of the text's words (see `mask_spans`) that lie in the spans."""
    words = len(_WORD.findall(text))
    inside = sum(
        len(_WORD.findall(text[span.start : span.end])) for span in _separate(text, spans, ())
    )
    return min(1.0, inside / words) if words else 0.0


def _separate(text: str, spans: Iterable[Span], sentinels: Sequence[str]) -> Iterator[Span]:
    """Yield the valid spans of the text, in order.

    Spans that are empty, overlap an earlier one or contain a sentinel are not valid.
    """
    present = [name for name in sentinels if name in text]
    end = 0

    for span in sorted(spans, key=lambda span: (span.start, span.end)):
        if not end <= span.start < span.end <= len(text):
            continue

        if not any(name in text[span.start : span.end] for name in present):
            end = span.end
            yield span


def _unused(text: str, sentinels: Sequence[str]) -> list[str]:
    return [name for name in sentinels if name not in text]


def _replace(text: str, groups: Sequence[Sequence[Span]], sentinels: Sequence[str]) -> Masked:
    """Replace each group of spans by a sentinel; groups beyond the last sentinel stay."""
    named_groups = list(zip(_unused(text, sentinels), groups, strict=False))
    target = " ".join(
        f"{name} {text[group[0].start : group[0].end]}" for name, group in named_groups
    )

    pieces: list[str] = []
    copied = 0
    named_spans = sorted(
        (span.start, span.end, name) for name, group in named_groups for span in group
    )
    for start, end, name in named_spans:
        pieces += [text[copied:start], name]
        copied = end

    return Masked("".join([*pieces, text[copied:]]), target, len(named_groups))


def target_entities(target: str, sentinels: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield (sentinel, entity) of a target."""
    if not target:
        return
    _, *parts = re.split(f"({_any_of(sentinels)})", f"{target} ")
    for name, entity in zip(parts[::2], parts[1::2], strict=True):
        # Without the blanks around the entity.
        yield name, entity[1:-1]


def _any_of(names: Iterable[str]) -> str:
    return "|".join(map(re.escape, names))
