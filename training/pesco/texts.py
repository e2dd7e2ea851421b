"""What PESCO reads: unlabelled texts, labels and templates; their sentences and words."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from purlin.index.classify.labelled import read_labelled
from purlin.index.classify.labels import check_labels, check_templates, label_name
from purlin.index.classify.texts import (
    REPLACEMENT,
    filled_rows,
    format_of_lines,
    read_label_lines,
    read_texts,
    tag_warnings,
    without_tags,
)
from purlin.index.classify.trained import MAX_CLASSIFIER_LABEL_CHARS, MAX_CLASSIFIER_LABELS
from purlin.index.errors import InvalidInput
from purlin.index.evaluation.ranking import read_list
from purlin.index.sources.tables import table_format

MIN_TEXTS = 32
TEXTS_PER_LABEL = 4

# About 4,000 words, more than any encoder reads.
MAX_POOL_TEXT_CHARS = 20_000
MAX_RECIPE_TEMPLATES = 32

# Shorter sentences are joined with the one before them.
MIN_SENTENCE_WORDS = 3
MAX_SENTENCES = 32

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[.!?][\"')\]])\s+|\n\s*|(?<=[。！？])")
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?|\d+|[!?]")


@dataclass(frozen=True, slots=True)
class TextPool:
    """Distinct unlabelled texts in the order of their file.

    Counts what was left out: `empty` and `repeated` texts, and those `beyond_limit`. `cut` texts
    were shortened, and `undecoded` ones have U+FFFD for bytes that could not be decoded.
    """

    texts: tuple[str, ...]
    empty: int = 0
    repeated: int = 0
    cut: int = 0
    beyond_limit: int = 0
    undecoded: int = 0

    def __str__(self) -> str:
        counts = {
            "empty": self.empty,
            "repeated": self.repeated,
            "beyond the limit": self.beyond_limit,
        }

        parts = [f"{len(self.texts):,} different texts"]
        parts += [f"{count:,} {kind} left out" for kind, count in counts.items() if count]
        if self.cut:
            parts.append(f"{self.cut:,} cut to {MAX_POOL_TEXT_CHARS:,} characters")
        if self.undecoded:
            parts.append(
                f"{self.undecoded:,} with {REPLACEMENT} for undecoded bytes (convert the file first)"
            )
        return ", ".join(parts)


# A round's state on disk has a digest of the repr, and so of the name of this class.
@dataclass(frozen=True, slots=True)
class Labelled:
    """Texts and the numbers of their labels, for measuring only."""

    texts: tuple[str, ...]
    labels: tuple[int, ...]


def read_pool(
    path: Path,
    *,
    labels: int,
    limit: int,
    seed: int,
    column: str | None = None,
    html: bool = False,
) -> TextPool:
    """Read the different texts of a file, as `read_texts` does, cut to MAX_POOL_TEXT_CHARS.

    With `html`, tags are taken out. If there are more than `limit`, that many are sampled. Raises as
    `read_texts` does, and InvalidInput if there are too few to learn `labels` labels from.
    """
    # A dict keeps the order and finds repeated texts.
    distinct: dict[str, None] = {}
    empty = repeated = cut = undecoded = 0
    rows = read_texts(path, str(path), column=column)
    for row in without_tags(rows) if html else rows:
        cut += len(row.text) > MAX_POOL_TEXT_CHARS
        text = row.text[:MAX_POOL_TEXT_CHARS]
        empty += not text
        repeated += text in distinct
        undecoded += REPLACEMENT in text
        if text:
            distinct[text] = None

    _check_enough(len(distinct), repeated, labels)
    texts = list(distinct)
    if len(texts) > limit:
        positions = random.Random(seed).sample(range(len(texts)), limit)
        texts = [texts[position] for position in sorted(positions)]

    return TextPool(
        tuple(texts),
        empty=empty,
        repeated=repeated,
        cut=cut,
        beyond_limit=len(distinct) - len(texts),
        undecoded=undecoded,
    )


def pool_warnings(pool: TextPool, path: Path, *, html: bool) -> Iterator[str]:
    """Warn of a table that was read as lines and, unless `html` has them taken out, of tags."""
    if not table_format(path) and (kind := format_of_lines(pool.texts)):
        yield (
            f"{path} looks like {kind.upper()}, and each line was read as a text: rename it to "
            f".{kind} to read its rows"
        )
    if not html:
        yield from tag_warnings(pool.texts)


def _check_enough(count: int, repeated: int, labels: int) -> None:
    minimum = max(MIN_TEXTS, TEXTS_PER_LABEL * labels)
    if count >= minimum:
        return

    advice = ", and a thousand or more to be worth it" if minimum < 1_000 else ""
    texts = "is 1 text" if count == 1 else f"are {count:,} different texts"
    repeats = f" ({repeated:,} lines repeat one of them)" if repeated else ""
    raise InvalidInput(
        f"There {texts}{repeats}; learning {labels:,} labels takes at least {minimum:,}{advice}. "
        "Give more texts, or classify without training: POST /classify and `purlin classify` take "
        "the labels as they are.",
        field="texts",
    )


def read_labelled_texts(
    path: Path,
    labels: Sequence[str],
    note: Callable[[str], None],
    *,
    column: str = "text",
    label_column: str = "label",
    html: bool = False,
) -> Labelled:
    """Read labelled texts: a table with a column of texts and one of labels.

    With `html`, tags are taken out. `note` is told how many rows have no text. Raises InvalidInput
    naming the row that has no label or one that is not in `labels`, and if no row has a text.
    """
    numbers = {label_name(label): number for number, label in enumerate(labels)}
    texts, label_numbers = [], []
    rows = read_labelled(path, column=column, label_column=label_column)
    for row in filled_rows(without_tags(rows) if html else rows, note):
        if not row.labels:
            raise InvalidInput(
                f"Row {row.id} of {path.name} has no label, but the classifier gives each text one: "
                "leave such rows out.",
                field="dev",
            )

        label = next(iter(row.labels))
        if label not in numbers:
            raise InvalidInput(
                f"Row {row.id} of {path.name}: {label!r:.80} is none of the given labels.",
                field="dev",
            )
        texts.append(row.text[:MAX_POOL_TEXT_CHARS])
        label_numbers.append(numbers[label])

    if not texts:
        raise InvalidInput(f"No row of {path.name} has a text: give labelled texts.", field="dev")
    return Labelled(tuple(texts), tuple(label_numbers))


def read_labels(path: Path) -> tuple[str, ...]:
    """Read one label a line, in order, skipping blank lines. Raises NotFound and InvalidInput.

    A line is a name, or `name = one wording | another`.
    """
    labels = tuple(read_label_lines(path))
    check_labels(labels)

    if not 2 <= len(labels) <= MAX_CLASSIFIER_LABELS:
        count = "1 label" if len(labels) == 1 else f"{len(labels):,} labels"
        raise InvalidInput(
            f"{path.name} has {count}; a classifier has 2 to {MAX_CLASSIFIER_LABELS:,}.",
            field="labels",
        )

    for label in labels:
        if len(label) > MAX_CLASSIFIER_LABEL_CHARS:
            raise InvalidInput(
                f"The label {label[:40]!r}… has {len(label):,} characters; "
                f"{MAX_CLASSIFIER_LABEL_CHARS:,} are allowed.",
                field="labels",
            )

    return labels


def read_templates(path: Path) -> tuple[str, ...]:
    """Read one template a line, each with {label}. Raises NotFound and InvalidInput."""
    templates = tuple(read_list(path))
    check_templates(templates)
    if len(templates) > MAX_RECIPE_TEMPLATES:
        raise InvalidInput(
            f"There are {len(templates)} templates; {MAX_RECIPE_TEMPLATES} are allowed.",
            field="templates",
        )

    return templates


def split_sentences(text: str) -> list[str]:
    """Split a text into its sentences, verbatim and in order.

    A very short sentence is part of the one before. After MAX_SENTENCES the rest is ignored, as an
    encoder would not see it.
    """
    spans: list[tuple[int, int]] = []
    start = 0
    ends = [(match.start(), match.end()) for match in _SENTENCE_END.finditer(text)]
    for end, next_start in [*ends, (len(text), len(text))]:
        if text[start:end].strip():
            short = len(text[start:end].split()) < MIN_SENTENCE_WORDS
            if spans and short:
                spans[-1] = (spans[-1][0], end)
            else:
                spans.append((start, end))
        start = next_start

    return [text[start:end].strip() for start, end in spans[:MAX_SENTENCES]]


def remove_sentence(text: str, sentence: str) -> str:
    """Remove the first occurrence of the sentence (x minus k, in section 4.1.1)."""
    before, _, after = text.partition(sentence)
    return f"{before.rstrip()} {after.lstrip()}".strip()


def split_halves(text: str) -> tuple[str, str]:
    """Split a text in two parts of similar length, between sentences or else between words."""
    parts = split_sentences(text)
    if len(parts) < 2:
        parts = text.split()

    total = sum(map(len, parts))
    length = cut = 0
    while cut < len(parts) - 1 and length < total / 2:
        length += len(parts[cut])
        cut += 1

    return " ".join(parts[:cut]) or text, " ".join(parts[cut:]) or text


def words_and_pairs(text: str) -> set[str]:
    """The distinct lower-case words of a text, and its pairs of consecutive words."""
    words = _WORD.findall(text.lower())
    return {*words, *(f"{first} {second}" for first, second in pairwise(words))}
