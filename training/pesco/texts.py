"""What PESCO reads: unlabelled texts, labels and templates; their sentences and words."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from index.classify.trained import MAX_LABEL_CHARS, MAX_LABELS
from index.classify.zero_shot import check_labels, check_templates
from index.errors import InvalidInput
from index.evaluation import labels as labelled
from index.evaluation.labels import MAX_READ_CHARS
from index.evaluation.ranking import parsed, read_lines, read_list

MIN_TEXTS = 32
TEXTS_PER_LABEL = 4
MAX_CHARS = 20_000  # of a text: about 4,000 words, more than any encoder reads
MAX_LINES = 20_000_000
JSON_LINES = (".jsonl", ".ndjson")
MAX_TEMPLATES = 32
SHORT_WORDS = 3  # a sentence of fewer goes with the one before it
MAX_SENTENCES = 32
_END = re.compile(r"(?<=[.!?])\s+|(?<=[.!?][\"')\]])\s+|\n\s*|(?<=[。！？])")
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?|\d+|[!?]")


@dataclass(frozen=True, slots=True)
class Pool:
    """Different texts without labels, in the file's order, and what was left out or cut."""

    texts: tuple[str, ...]
    empty: int = 0
    repeated: int = 0
    cut: int = 0
    left: int = 0

    def __str__(self) -> str:
        counts = {"empty": self.empty, "repeated": self.repeated, "beyond the limit": self.left}
        left = [f"{count:,} {what} left out" for what, count in counts.items() if count]
        cut = [f"{self.cut:,} cut to {MAX_CHARS:,} characters"] if self.cut else []
        return ", ".join([f"{len(self.texts):,} different texts", *left, *cut])


@dataclass(frozen=True, slots=True)
class Labelled:
    """Texts and the numbers of their labels, for measuring only."""

    texts: tuple[str, ...]
    labels: tuple[int, ...]


def read_pool(path: Path, *, labels: int, limit: int, seed: int) -> Pool:
    """The texts of JSON Lines with a key "text" (.jsonl), or one a line (other names); either may end in .gz.

    Texts are stripped and cut to MAX_CHARS; of more than `limit` as many are drawn. Raises NotFound, and InvalidInput
    naming the line that is no text, or where too few different texts are there to learn `labels` labels from.
    """
    seen: dict[str, None] = {}
    empty = repeated = cut = 0
    for text in _texts(path):
        text = text.strip()
        cut += len(text) > MAX_CHARS
        text = text[:MAX_CHARS]
        empty += not text
        repeated += text in seen
        if text:
            seen[text] = None
    _refuse_few(len(seen), repeated, labels)
    kept = list(seen)
    if len(kept) > limit:
        kept = [kept[row] for row in sorted(random.Random(seed).sample(range(len(kept)), limit))]
    return Pool(tuple(kept), empty, repeated, cut, len(seen) - len(kept))


def _refuse_few(count: int, repeated: int, labels: int) -> None:
    wanted = max(MIN_TEXTS, TEXTS_PER_LABEL * labels)
    if count < wanted:
        again = f" ({repeated:,} lines repeat one of them)" if repeated else ""
        raise InvalidInput(
            f"There {'is 1 text' if count == 1 else f'are {count:,} different texts'}{again}; learning {labels} labels "
            f"takes at least {wanted}, and a thousand or more to be worth it. Give more texts, or classify without "
            "training: POST /classify takes the labels as they are.",
            field="texts",
        )


def read_labelled(path: Path, labels: Sequence[str]) -> Labelled:
    """JSON Lines {text, label}; raises InvalidInput for a label that is not among `labels`, by its line."""
    numbers = {label: number for number, label in enumerate(labels)}
    texts, known = [], []
    for number, text, label in labelled.labelled_rows(path):
        if label not in numbers:
            raise InvalidInput(
                f"{path.name}:{number}: {label!r:.80} is none of the labels given.", field="dev"
            )
        texts.append(_valid(text)[:MAX_CHARS])
        known.append(numbers[label])
    return Labelled(tuple(texts), tuple(known))


def read_labels(path: Path) -> tuple[str, ...]:
    """One label a line, in order; blank lines are passed over. Raises NotFound and InvalidInput."""
    labels = tuple(read_list(path))
    check_labels(labels)
    if not 2 <= len(labels) <= MAX_LABELS:
        raise InvalidInput(
            f"{path.name} has {len(labels):,} label{'s' * (len(labels) > 1)}; a classifier has 2 to {MAX_LABELS:,}.",
            field="labels",
        )
    if long := next((label for label in labels if len(label) > MAX_LABEL_CHARS), None):
        raise InvalidInput(
            f"The label {long[:40]!r}… has {len(long):,} characters; {MAX_LABEL_CHARS:,} are allowed.",
            field="labels",
        )
    return labels


def read_templates(path: Path) -> tuple[str, ...]:
    """One template a line, each with {label}. Raises NotFound and InvalidInput."""
    templates = tuple(read_list(path))
    check_templates(templates)
    if len(templates) > MAX_TEMPLATES:
        raise InvalidInput(
            f"There are {len(templates)} templates; {MAX_TEMPLATES} are allowed.", field="templates"
        )
    return templates


def sentences(text: str) -> list[str]:
    """The sentences of a text, verbatim and in order; very short ones are part of the one before.

    Beyond MAX_SENTENCES the rest is not looked at, as an encoder would not see it.
    """
    found: list[tuple[int, int]] = []
    start = 0
    for end, following in [
        *((match.start(), match.end()) for match in _END.finditer(text)),
        (len(text), len(text)),
    ]:
        if text[start:end].strip():
            short = found and len(text[start:end].split()) < SHORT_WORDS
            found[-1:] = [(found[-1][0], end)] if short else [*found[-1:], (start, end)]
        start = following
    return [text[start:end].strip() for start, end in found[:MAX_SENTENCES]]


def without(text: str, sentence: str) -> str:
    """The text with its first occurrence of the sentence taken out (x minus k, in section 4.1.1)."""
    before, _, after = text.partition(sentence)
    return f"{before.rstrip()} {after.lstrip()}".strip()


def halves(text: str) -> tuple[str, str]:
    """Two parts of about the same length, at the end of a sentence where there is more than one, else of a word."""
    parts = sentences(text)
    if len(parts) < 2:
        parts = text.split()
    total, so_far, cut = sum(map(len, parts)), 0, 0
    while cut < len(parts) - 1 and so_far < total / 2:
        so_far, cut = so_far + len(parts[cut]), cut + 1
    return " ".join(parts[:cut]) or text, " ".join(parts[cut:]) or text


def words(text: str) -> set[str]:
    """The different words of a text in lower case, and the pairs of words that follow each other."""
    found = _WORD.findall(text.lower())
    return {*found, *(f"{one} {other}" for one, other in pairwise(found))}


# ---- files


def _texts(path: Path) -> Iterator[str]:
    rows = any(suffix.lower() in JSON_LINES for suffix in path.suffixes[-2:])
    for number, line in read_lines(
        path, longest=MAX_READ_CHARS, most=MAX_LINES, errors="strict" if rows else "replace"
    ):
        if "\0" in line:
            raise InvalidInput(
                f"{path.name}:{number} has zero bytes, as UTF-16 has; save it as UTF-8.",
                field="texts",
            )
        yield _text(path, number, line) if rows else line


def _text(path: Path, number: int, line: str) -> str:
    match parsed(line):
        case {"text": str(text)}:
            return _valid(text)
    raise InvalidInput(
        f'{path.name}:{number} is no JSON object such as {{"text": "..."}}.', field="texts"
    )


def _valid(text: str) -> str:
    """A lone surrogate is no text that a tokenizer takes."""
    return text.encode(errors="replace").decode()
