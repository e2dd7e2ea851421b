"""What PESCO reads: unlabelled texts, labels and templates; their sentences and words."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from purlin.index.classify.trained import MAX_CLASSIFIER_LABEL_CHARS, MAX_CLASSIFIER_LABELS
from purlin.index.classify.zero_shot import check_labels, check_templates, label_name
from purlin.index.errors import InvalidInput
from purlin.index.evaluation import labels as labelled
from purlin.index.evaluation.labels import MAX_READ_CHARS
from purlin.index.evaluation.ranking import parsed, read_lines, read_list
from purlin.index.records import Skipped
from purlin.index.sources.tables import Row, read_rows, table_format

MIN_TEXTS = 32
TEXTS_PER_LABEL = 4

# About 4,000 words, more than any encoder reads.
MAX_POOL_TEXT_CHARS = 20_000
MAX_LINES = 20_000_000
JSON_LINES = (".jsonl", ".ndjson")
MAX_RECIPE_TEMPLATES = 32
MAX_SHOWN_COLUMNS = 20

# Shorter sentences are joined with the one before them.
MIN_SENTENCE_WORDS = 3
MAX_SENTENCES = 32

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[.!?][\"')\]])\s+|\n\s*|(?<=[。！？])")
_SURROGATE, _REPLACEMENT = re.compile("[\ud800-\udfff]"), "\ufffd"
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?|\d+|[!?]")


@dataclass(frozen=True, slots=True)
class TextPool:
    """Distinct unlabelled texts in the order of their file.

    Counts what was left out: `empty` and `repeated` texts, and those `beyond_limit`. `cut` texts
    were shortened, and `undecoded` ones have U+FFFD for bytes that are not UTF-8.
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
                f"{self.undecoded:,} with {_REPLACEMENT} where it is not UTF-8 (convert the file first)"
            )
        return ", ".join(parts)


# A round's state on disk has a digest of the repr, and so of the name of this class.
@dataclass(frozen=True, slots=True)
class Labelled:
    """Texts and the numbers of their labels, for measuring only."""

    texts: tuple[str, ...]
    labels: tuple[int, ...]


def read_pool(path: Path, *, labels: int, limit: int, seed: int, column: str = "text") -> TextPool:
    """Read the key or `column` of JSON Lines and tables, or one text a line of other files.

    All but Parquet may end in .gz. Texts are stripped and cut to MAX_POOL_TEXT_CHARS; if there are
    more than `limit`, that many are sampled. Raises NotFound, and InvalidInput naming the line that
    is not a text, or if there are too few distinct texts to learn `labels` labels from.
    """
    # A dict keeps the order and finds repeated texts.
    distinct: dict[str, None] = {}
    empty = repeated = cut = undecoded = 0
    for text in _read_texts(path, column):
        text = text.strip()
        cut += len(text) > MAX_POOL_TEXT_CHARS
        text = text[:MAX_POOL_TEXT_CHARS]
        empty += not text
        repeated += text in distinct
        undecoded += _REPLACEMENT in text
        if text:
            distinct[text] = None

    _check_enough(len(distinct), repeated, labels)
    texts = list(distinct)
    if len(texts) > limit:
        rows = random.Random(seed).sample(range(len(texts)), limit)
        texts = [texts[row] for row in sorted(rows)]

    return TextPool(tuple(texts), empty, repeated, cut, len(distinct) - len(texts), undecoded)


def _check_enough(count: int, repeated: int, labels: int) -> None:
    minimum = max(MIN_TEXTS, TEXTS_PER_LABEL * labels)
    if count >= minimum:
        return

    texts = "is 1 text" if count == 1 else f"are {count:,} different texts"
    repeats = f" ({repeated:,} lines repeat one of them)" if repeated else ""
    raise InvalidInput(
        f"There {texts}{repeats}; learning {labels} labels takes at least {minimum}, and a "
        "thousand or more to be worth it. Give more texts, or classify without training: "
        "POST /classify takes the labels as they are.",
        field="texts",
    )


def read_labelled_texts(path: Path, labels: Sequence[str]) -> Labelled:
    """Read JSON Lines {text, label}.

    Raises InvalidInput naming the line whose label is not in `labels`.
    """
    numbers = {label_name(label): number for number, label in enumerate(labels)}
    texts, label_numbers = [], []
    for line_number, text, label in labelled.labelled_rows(path):
        if label is None or label not in numbers:
            raise InvalidInput(
                f"{path.name}:{line_number}: {label!r:.80} is none of the given labels.",
                field="dev",
            )
        texts.append(_valid_unicode(text)[:MAX_POOL_TEXT_CHARS])
        label_numbers.append(numbers[label])

    return Labelled(tuple(texts), tuple(label_numbers))


def read_labels(path: Path) -> tuple[str, ...]:
    """Read one label a line, in order, skipping blank lines. Raises NotFound and InvalidInput.

    A line is a name, or `name = one wording | another`.
    """
    labels = tuple(read_list(path))
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


# ---- files


def _read_texts(path: Path, column: str) -> Iterator[str]:
    is_json = table_format(path) in JSON_LINES
    if table_format(path) and not is_json and path.is_file():
        yield from _table_texts(path, column)
        return

    # One invalid byte in a plain text is no reason to refuse it; in JSON it is.
    lines = read_lines(
        path, longest=MAX_READ_CHARS, most=MAX_LINES, errors="strict" if is_json else "replace"
    )

    for number, line in lines:
        if "\0" in line:
            raise InvalidInput(
                f"{path.name}:{number} has zero bytes, as UTF-16 has; save it as UTF-8.",
                field="texts",
            )
        yield _text_of_json(path, number, line, column) if is_json else line


def _table_texts(path: Path, column: str) -> Iterator[str]:
    """Yield the column of a CSV, TSV, JSON or Parquet file; a null is an empty text."""
    for row in read_rows(path, path.name):
        if isinstance(row, Skipped):
            line = f":{row.line}" if row.line else ""
            raise InvalidInput(
                f"{path.name}{line} {row.reason}. Correct the file, or give JSON Lines of "
                '{"text": "..."}.',
                field="texts",
            )

        # Any object stands for a column that is missing.
        match row.record.get(column, row):
            case str(text):
                yield _valid_unicode(text)
            case None:
                yield ""
            case _:
                raise InvalidInput(_without_text(path, row, column), field="texts")


def _without_text(path: Path, row: Row, column: str) -> str:
    columns = ", ".join(repr(column) for column in list(row.record)[:MAX_SHOWN_COLUMNS])
    return (
        f"{path.name}:{row.number} has no text in a column {column!r:.80}; its columns are "
        f"{columns:.200}. Name that of the texts with --column."
    )


def _text_of_json(path: Path, number: int, line: str, column: str) -> str:
    record = parsed(line)
    text = record.get(column) if isinstance(record, dict) else None
    if isinstance(text, str):
        return _valid_unicode(text)

    raise InvalidInput(
        f"{path.name}:{number} is not a JSON object such as {json.dumps({column: '...'})}. "
        "Name the key of the texts with --column.",
        field="texts",
    )


def _valid_unicode(text: str) -> str:
    """Replace lone surrogates, which tokenizers refuse; tables have them for invalid bytes."""
    return _SURROGATE.sub(_REPLACEMENT, text)
