"""A question and passages -> answers: exact stretches of the passages, and whether the passages answer it at all.

A cross-encoder reads `[CLS] question [SEP] passage [SEP]` and says of each token whether an answer starts or ends
there, and of each passage how well it answers (reference QA, eq. 1-3). To eq. 3's softmax over the passages one more
choice is added, "none of them", whose score is 0: so the model can say that the reference is silent.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import time
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Self

import numpy as np
import onnxruntime  # type: ignore[import-untyped]
from numpy.typing import NDArray
from tokenizers import Tokenizer

from index.encoder import available_cpus, open_session
from index.errors import NotFound
from index.exported import MODEL as MODEL
from index.exported import TOKENIZER as TOKENIZER
from index.exported import read_exported, refusing
from index.passages import render
from index.qa.features import Sought, weighed
from index.qa.signatures import Entry, Place, entry_of
from index.records import Document, Passage

SETTINGS = "reader.json"
RELEASED = Path(__file__).resolve().parents[2] / "models" / "reference-reader-int8"
MAX_QUESTION_TOKENS = 64
MAX_ANSWER_TOKENS = 24
MAX_ANSWERS = 20
CHARS_PER_TOKEN = 40  # more of a text is not looked at
UNLIKELY = -25.0  # less probable spans are all the same
NOTHING = -1e9  # of a passage without spans
_BEST = 8  # starts, and ends, of a passage that are combined

Ids = NDArray[np.int64]
Floats = NDArray[np.float32]

NO_ENTRY = Entry()


@dataclass(frozen=True, slots=True)
class Readable:
    """A passage before the reader: `before` (the terms that enclose it) is read too, answers are spans of `text`.

    `prior` is what is known of its relevance beforehand, in log odds but for a constant; `entry` what its structure
    says.
    """

    text: str
    before: str = ""
    prior: float = 0.0
    entry: Entry = NO_ENTRY


@dataclass(frozen=True, slots=True)
class Found:
    """An answer: `text[start:end]` of the passage with this number. `score` is in 0-1, comparable between questions."""

    passage: int
    start: int
    end: int
    score: float


@dataclass(frozen=True, slots=True)
class Reading:
    """What came of a question. `answerable` is eq. 3's probability (0-1) that the passages read answer it.

    `answers` are best first and do not overlap. `relevance` (n,) has each passage's probability, 0 for those that were
    not `read` before time was up.
    """

    answers: tuple[Found, ...]
    answerable: float
    relevance: Floats
    read: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What `reader.json` says. `files` has SHA-256 (hex) of model and tokenizer.

    `prior_weight` is what a passage's prior counts beside the clues of `index.qa.features.SPAN`. The
    probability that the corpus has an answer is the logistic function of `calibration`: a constant,
    and weights of `index.qa.features.evidence`.
    """

    name: str
    max_tokens: int
    prior_weight: float
    calibration: tuple[float, ...]
    files: dict[str, str]

    @property
    def fingerprint(self) -> str:
        """SHA-256 (hex) over all that changes an answer."""
        content = {key: value for key, value in asdict(self).items() if key != "name"}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Packed:
    """Ids (t,) as the model reads them, the first token of the passage, and the characters of each of its tokens."""

    ids: Ids
    first: int
    offsets: tuple[tuple[int, int], ...]  # into before + text


@dataclass(frozen=True, slots=True)
class Span:
    """Characters of `Readable.text`, and the logarithm of the probability that they are the answer within it."""

    start: int
    end: int
    score: float


class Packer:
    """Question and passage -> one sequence of ids; the same in training and in serving."""

    def __init__(self, tokenizer: Tokenizer, max_tokens: int) -> None:
        tokenizer.no_padding()
        tokenizer.no_truncation()
        self.tokenizer, self.max_tokens = tokenizer, max_tokens
        cls, sep = tokenizer.token_to_id("[CLS]"), tokenizer.token_to_id("[SEP]")
        if cls is None or sep is None:
            raise ValueError("the tokenizer has no [CLS] and [SEP]")
        self.cls, self.sep = int(cls), int(sep)

    def pack(self, question: str, passages: Sequence[Readable]) -> list[Packed]:
        """One sequence of at most `max_tokens` ids per passage; a question gets at most a third of them."""
        asked = self._tokens([question], MAX_QUESTION_TOKENS)[0].ids[
            : min(MAX_QUESTION_TOKENS, self.max_tokens // 3)
        ]
        head = [self.cls, *asked, self.sep]
        room = self.max_tokens - len(head) - 1
        packed = []
        for found in self._tokens([shown(passage) for passage in passages], self.max_tokens):
            ids = np.array([*head, *found.ids[:room], self.sep], dtype=np.int64)
            packed.append(Packed(ids, len(head), tuple(found.offsets[:room])))
        return packed

    def _tokens(self, texts: Sequence[str], limit: int) -> list[Any]:
        cut = [text[: limit * CHARS_PER_TOKEN].encode(errors="replace").decode() for text in texts]
        found: list[Any] = self.tokenizer.encode_batch(cut, add_special_tokens=False)
        return found


def readable(document: Document, passage: Passage, prior: float = 0.0) -> Readable:
    """A passage as the reader sees it, in training and in serving: what the encoder reads of it, its text last."""
    text = document.body[passage.start : passage.end]
    return Readable(
        text,
        render(document, passage).removesuffix(text).rstrip("\n"),
        prior,
        entry_of(document, passage),
    )


def shown(passage: Readable) -> str:
    """The text that the model reads of a passage."""
    return f"{passage.before}\n{passage.text}" if passage.before else passage.text


class Reader:
    """A reader directory at work. Safe to share between threads."""

    def __init__(
        self,
        settings: Settings,
        packer: Packer,
        session: onnxruntime.InferenceSession,
        threads: int,
    ) -> None:
        self.settings, self.name, self.fingerprint = settings, settings.name, settings.fingerprint
        self._packer, self._session = packer, session
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="reader")

    @classmethod
    def load(cls, directory: Path, *, threads: int | None = None) -> Self:
        """Read and verify a reader directory. Raises NotFound without one, Damaged naming the file that is altered."""
        if not directory.is_dir():
            raise NotFound(
                f"There is no reader directory {directory}. Give one made by `purlin train refqa`."
            )
        settings, files = read_exported(directory, "reader", _settings)
        with refusing("reader", directory):
            packer = Packer(Tokenizer.from_str(files[TOKENIZER].decode()), settings.max_tokens)
            return cls(settings, packer, open_session(files[MODEL]), threads or available_cpus())

    def read(
        self,
        question: str,
        passages: Sequence[Readable],
        *,
        k: int = 3,
        deadline: float | None = None,
    ) -> Reading:
        """The `k` best answers from `passages`, which are read in their order until the `deadline`.

        A deadline is a time of `time.monotonic()`; the first passage is read whatever the time.
        """
        packed = self._packer.pack(question, passages)
        outputs = list(self._outputs(packed, deadline))
        sought = Sought(question)
        spans, shares = normalized(
            [
                self._weighed(passage.prior, span_clues(sought, passage, one, output))
                for passage, one, output in zip(passages, packed, outputs, strict=False)
            ]
        )
        relevance = np.zeros(len(passages), dtype=np.float32)
        relevance[: len(shares)] = shares
        selected = np.array([output[2][0] for output in outputs], dtype=np.float32)
        return Reading(
            tuple(_ranked(spans, shares, k)), any_answer(selected), relevance, len(outputs)
        )

    def _weighed(self, prior: float, found: Iterable[tuple[Span, dict[str, float]]]) -> list[Span]:
        """Spans with all that speaks for them: scores are log odds but for a constant."""
        base = self.settings.prior_weight * prior
        return [Span(span.start, span.end, base + weighed(clues)) for span, clues in found]

    def _outputs(self, packed: Sequence[Packed], deadline: float | None) -> Iterator[list[Floats]]:
        """Start logits (1, t), end logits (1, t) and selection (1,) of passage after passage, some at a time."""

        def run(ids: Ids) -> list[Floats] | None:
            if deadline is not None and time.monotonic() > deadline:
                return None
            found: list[Floats] = self._session.run(None, {"input_ids": ids[None]})
            return found

        pending = [self._pool.submit(run, one.ids) for one in packed]
        for number, future in enumerate(pending):
            found = future.result()
            if found is None and number == 0:
                found = self._session.run(None, {"input_ids": packed[0].ids[None]})
            if found is None:
                return
            yield found

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown(cancel_futures=True)


def any_answer(logits: Floats) -> float:
    """Eq. 3's probability that any passage answers, from their logits (n,): the share of all choices but "none"."""
    if not len(logits):
        return 0.0
    highest = float(logits.max())
    log_sum = highest + math.log(float(np.exp(logits - highest).sum()))
    return 1 / (1 + math.exp(-max(-50.0, min(50.0, log_sum))))


def span_clues(
    sought: Sought, passage: Readable, packed: Packed, output: Sequence[Floats]
) -> Iterator[tuple[Span, dict[str, float]]]:
    """The spans of a passage, by the reader's start, end and selection logits, each with its clues."""
    places, selected = sought.places(passage.text, passage.entry), float(output[2][0])
    for span in best_spans(output[0][0], output[1][0], packed, passage, places):
        place = span.start, span.end
        clues = sought.clues(passage.text, passage.entry, place, places.get(place))
        yield span, {**clues, "selected": selected, "read": max(span.score, UNLIKELY)}


def normalized(spans: Sequence[Sequence[Span]]) -> tuple[list[list[Span]], Floats]:
    """Each passage's probability (n,), and its spans, best first, with the logarithm of theirs within it."""
    sums = np.array([_log_sum([span.score for span in found]) for found in spans], dtype=np.float64)
    within = [
        sorted(
            (Span(span.start, span.end, span.score - total) for span in found),
            key=lambda span: -span.score,
        )
        for found, total in zip(spans, sums, strict=True)
    ]
    return within, np.exp(sums - _log_sum(sums.tolist())).astype(np.float32)


def _log_sum(scores: Sequence[float]) -> float:
    """The logarithm of the sum of powers; that of none is far below all others."""
    highest = max(scores, default=NOTHING)
    return (
        highest + math.log(sum(math.exp(score - highest) for score in scores))
        if scores
        else NOTHING
    )


def best_spans(
    starts: Floats, ends: Floats, packed: Packed, passage: Readable, places: Collection[Place] = ()
) -> list[Span]:
    """Valid spans of a passage, best first, from eq. 1 and 2's logits (t,): in its text, in order, not too long.

    Those of `places`, where the expected answer type is, are among them, however unlikely.
    """
    here = slice(packed.first, packed.first + len(packed.offsets))
    start, end = _log_softmax(starts[here]), _log_softmax(ends[here])
    skip = len(shown(passage)) - len(passage.text)
    inside = np.array(
        [first >= skip and last > first for first, last in packed.offsets], dtype=bool
    )
    found: dict[tuple[int, int], float] = {}
    for first in _highest(start, inside):
        for last in _highest(end, inside):
            if first <= last < first + MAX_ANSWER_TOKENS:
                place = whole_words(
                    passage.text, packed.offsets[first][0] - skip, packed.offsets[last][1] - skip
                )
                score = float(start[first] + end[last])
                found[place] = max(score, found.get(place, -math.inf))
    for place in places:
        if (tokens := _tokens_of(place, packed, skip)) is not None:
            found.setdefault(place, float(start[tokens[0]] + end[tokens[1]]))
    spans = [Span(*place, score) for place, score in found.items() if place[0] < place[1]]
    return sorted(spans, key=lambda span: -span.score)


def _tokens_of(place: Place, packed: Packed, skip: int) -> tuple[int, int] | None:
    """First and last token, counted from the passage's first, of characters of its text; None if they were cut off."""
    first = bisect_right(packed.offsets, place[0] + skip, key=lambda offset: offset[1])
    last = bisect_left(packed.offsets, place[1] + skip, key=lambda offset: offset[0]) - 1
    whole = first <= last and packed.offsets[last][1] >= place[1] + skip
    return (first, last) if whole else None


def _highest(scores: Floats, allowed: NDArray[np.bool_]) -> list[int]:
    order = np.argsort(np.where(allowed, -scores, np.inf), kind="stable")[:_BEST]
    return [int(place) for place in order if allowed[place]]


def _log_softmax(logits: Floats) -> Floats:
    if not len(logits):
        return logits
    shifted = logits - logits.max()
    result: Floats = shifted - np.log(np.exp(shifted).sum())
    return result


_WORD = re.compile(r"\w")


def whole_words(text: str, start: int, end: int) -> tuple[int, int]:
    """The span, grown to whole words and without white space and stops at its ends."""
    while 0 < start < len(text) and _WORD.match(text[start]) and _WORD.match(text[start - 1]):
        start -= 1
    while 0 < end < len(text) and _WORD.match(text[end]) and _WORD.match(text[end - 1]):
        end += 1
    while start < end and (text[start].isspace() or text[start] in ",;:"):
        start += 1
    while start < end and (text[end - 1].isspace() or text[end - 1] in ",;:."):
        end -= 1
    return start, end


def _ranked(spans: Sequence[Sequence[Span]], shares: Floats, k: int) -> Iterator[Found]:
    """The best `k` over all passages by share times probability; no two of a passage overlap."""
    every = [
        Found(number, span.start, span.end, float(share) * math.exp(span.score))
        for number, (found, share) in enumerate(zip(spans, shares, strict=True))
        for span in found
    ]
    taken: list[Found] = []
    for found in sorted(every, key=lambda one: (-one.score, one.passage, one.start)):
        if len(taken) == k:
            break
        if all(
            found.passage != one.passage or found.end <= one.start or one.end <= found.start
            for one in taken
        ):
            taken.append(found)
    yield from taken


def logistic(features: Sequence[float], weights: Sequence[float]) -> float:
    """Probability from `weights`: a constant, then one per feature."""
    value = weights[0] + sum(
        weight * feature for weight, feature in zip(weights[1:], features, strict=True)
    )
    return round(1 / (1 + math.exp(-max(-30.0, min(30.0, value)))), 6)


def _settings(content: Any) -> Settings:
    values = {field.name: content[field.name] for field in fields(Settings)}
    settings = Settings(**{**values, "calibration": tuple(map(float, values["calibration"]))})
    valid = len(settings.calibration) == 5 and 16 <= settings.max_tokens <= 8192
    if not valid or set(settings.files) != {MODEL, TOKENIZER}:
        raise ValueError("its values do not fit together")
    for name, numbers in (
        ("prior_weight", [settings.prior_weight]),
        ("calibration", settings.calibration),
    ):
        if not all(map(math.isfinite, numbers)):
            raise ValueError(f"its {name} is no finite number")
    return settings
