"""Read passages for a question: a cross-encoder's logits for the answer's start and end.

The model reads `[CLS] question [SEP] passage [SEP]`, or what its tokenizer puts around two texts. It
returns two logits for each token, that an answer starts and that it ends there, and one for the
passage, that it answers at all (reference QA, eq. 1-3). `purlin.index.qa.spans` turns these logits
into answers.
"""

from __future__ import annotations

import time
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from purlin.index.cpus import available_cpus
from purlin.index.encoder.exported import MODEL, TOKENIZER, check_directory, read_exported, refusing
from purlin.index.encoder.transformer import open_session, require_transformers
from purlin.index.qa.reader_settings import (
    READER_SETTINGS,
    EnsembleReaderSettings,
    ReaderSettings,
    check_part_settings,
    parse_settings,
)
from purlin.index.qa.signatures import CharSpan, PassageStructure, passage_structure
from purlin.index.records import Document, Passage, printable
from purlin.index.texts.passages import render

# Packages of the extra `transformer`: imported when a reader is loaded.
if TYPE_CHECKING:
    from onnxruntime import InferenceSession  # type: ignore[import-untyped]
    from tokenizers import Tokenizer

RELEASED_READER = Path(__file__).resolve().parents[2] / "models" / "reference-reader-l12-int8"
MAX_QUESTION_TOKENS = 64
MIN_SPAN_LOGIT = -25.0  # log probabilities below are all the same to the ranking
_MAX_CHARS_PER_TOKEN = 40  # the rest of a text is not tokenized

Ids = NDArray[np.int64]
Floats = NDArray[np.float32]

NO_STRUCTURE = PassageStructure()


@dataclass(frozen=True, slots=True)
class ReadingPassage:
    """A passage as the reader sees it.

    Answers are spans of `text`; `context`, the enclosing terms, is read too. `prior` is the
    passage's score before reading, in log odds up to a constant.
    """

    text: str
    context: str = ""
    prior: float = 0.0
    structure: PassageStructure = NO_STRUCTURE


@dataclass(frozen=True, slots=True)
class PackedPassage:
    """Model input for a question and a passage.

    `ids` (t,) has all tokens, and `first` is the index of the passage's first one. `offsets` has start
    and end of each of the passage's tokens in the characters of its `model_text`.
    """

    ids: Ids
    first: int
    offsets: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class PassageLogits:
    """Logits of a passage: `start` and `end` (t,) of each token, `selected` of the whole passage."""

    packed: PackedPassage
    start: Floats
    end: Floats
    selected: float


class TokenScores:
    """How likely an answer starts and ends at each of the passage's tokens (eq. 1 and 2).

    `start` and `end` (t,) are log probabilities. `offsets` has start and end of each token in the
    characters of `passage.text`; they are negative in the context, where no answer may be.
    """

    def __init__(self, passage: ReadingPassage, logits: PassageLogits) -> None:
        packed = logits.packed
        of_passage = slice(packed.first, packed.first + len(packed.offsets))
        self.start = _log_softmax(logits.start[of_passage])
        self.end = _log_softmax(logits.end[of_passage])

        context_chars = len(model_text(passage)) - len(passage.text)
        self.offsets = [
            (first - context_chars, last - context_chars) for first, last in packed.offsets
        ]

    def of(self, span: CharSpan) -> float | None:
        """Return the log probability of a span of the passage's text; None if it was cut off."""
        first = bisect_right(self.offsets, span[0], key=lambda offset: offset[1])
        last = bisect_left(self.offsets, span[1], key=lambda offset: offset[0]) - 1

        is_whole = first <= last and self.offsets[last][1] >= span[1]
        return float(self.start[first] + self.end[last]) if is_whole else None


def _log_softmax(logits: Floats) -> Floats:
    if not len(logits):
        return logits
    shifted = logits - logits.max()
    result: Floats = shifted - np.log(np.exp(shifted).sum())
    return result


class Packer:
    """Packs a question and a passage into one sequence of ids, for training and for serving."""

    def __init__(self, tokenizer: Tokenizer, max_tokens: int) -> None:
        tokenizer.no_padding()
        tokenizer.no_truncation()
        self.tokenizer = tokenizer
        self.max_tokens = max_tokens

        self.start, self.between, self.end = _special_ids(tokenizer)

    def pack(self, question: str, passages: Sequence[ReadingPassage]) -> list[PackedPassage]:
        """Pack each passage into at most `max_tokens` ids; the question gets a third at most."""
        max_question_tokens = min(MAX_QUESTION_TOKENS, self.max_tokens // 3)
        question_ids = self._tokenize([question], MAX_QUESTION_TOKENS)[0].ids
        head = [*self.start, *question_ids[:max_question_tokens], *self.between]

        room = self.max_tokens - len(head) - len(self.end)
        texts = [model_text(passage) for passage in passages]
        packed = []
        for encoding in self._tokenize(texts, self.max_tokens):
            ids = np.array([*head, *encoding.ids[:room], *self.end], dtype=np.int64)
            packed.append(PackedPassage(ids, len(head), tuple(encoding.offsets[:room])))
        return packed

    def _tokenize(self, texts: Sequence[str], max_tokens: int) -> list[Any]:
        # The tokenizer refuses text that is not valid Unicode, so that it is replaced.
        max_chars = max_tokens * _MAX_CHARS_PER_TOKEN
        cut = [printable(text[:max_chars]) for text in texts]
        encodings: list[Any] = self.tokenizer.encode_batch(cut, add_special_tokens=False)
        return encodings


def _special_ids(tokenizer: Tokenizer) -> tuple[list[int], list[int], list[int]]:
    """Return the ids before the question, between question and passage, and after the passage.

    They are those that the tokenizer itself puts around a pair of texts: [CLS], [SEP], [SEP] for
    BERT; <s>, </s></s>, </s> for MPNet, whose vocabulary has "[CLS]" and "[SEP]", too. If the
    tokenizer adds none, they are BERT's. Raises ValueError if the vocabulary lacks those.
    """
    around_one: list[int] = tokenizer.encode("").ids
    around_two: list[int] = tokenizer.encode("", "").ids
    if len(around_one) == 2:
        between = around_two[1:-1] or around_one[1:]
        return around_one[:1], between, around_one[1:]

    cls, sep = tokenizer.token_to_id("[CLS]"), tokenizer.token_to_id("[SEP]")
    if cls is None or sep is None:
        raise ValueError("the tokenizer has no [CLS] and [SEP]")
    return [cls], [sep], [sep]


def reading_passage(document: Document, passage: Passage, prior: float = 0.0) -> ReadingPassage:
    """Return a passage as the reader sees it: its context is what the encoder reads before its text."""
    text = document.body[passage.start : passage.end]
    context = render(document, passage).removesuffix(text).rstrip("\n")
    return ReadingPassage(text, context, prior, passage_structure(document, passage))


def model_text(passage: ReadingPassage) -> str:
    """Return the text of a passage that the model reads."""
    return f"{passage.context}\n{passage.text}" if passage.context else passage.text


class Reader:
    """An open reader directory; safe to share between threads."""

    def __init__(
        self,
        settings: ReaderSettings,
        packer: Packer,
        graphs: Sequence[tuple[InferenceSession, float]],
        threads: int,
    ) -> None:
        """Take open graphs, each with the share of its logits in the mean; the shares add up to 1."""
        self.settings = settings
        self.packer = packer
        self.name = settings.name
        self.fingerprint = settings.fingerprint

        self._graphs = tuple(graphs)
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="reader")

    @classmethod
    def load(cls, directory: Path, *, threads: int | None = None) -> Self:
        """Read and verify a reader directory.

        Raises NotFound if there is no such directory or no onnxruntime, and Damaged, which names the
        file, if one was altered.
        """
        require_transformers("reader")
        check_directory(directory, "reader", "refqa")
        settings, files = read_exported(directory, "reader", parse_settings)
        if isinstance(settings, EnsembleReaderSettings):
            packer, graphs = _open_parts(directory, settings)
        else:
            packer = _open_packer(directory, settings, files)
            graphs = [(_open_graph(directory, files), 1.0)]
        return cls(settings, packer, graphs, threads or available_cpus())

    def read(
        self, question: str, passages: Sequence[ReadingPassage], *, deadline: float | None = None
    ) -> list[PassageLogits]:
        """Return the logits of the first passages: as many as are read before the `deadline`.

        A deadline is a time of `time.monotonic()`. The first passage is read in any case.
        """
        return list(self._run(self.packer.pack(question, passages), deadline))

    def _run(
        self, packed_passages: Sequence[PackedPassage], deadline: float | None
    ) -> Iterator[PassageLogits]:
        """Run the model on one passage per thread at a time, in order, until the deadline."""

        def run_in_time(packed: PackedPassage) -> PassageLogits | None:
            is_late = deadline is not None and time.monotonic() > deadline
            return None if is_late else self._run_model(packed)

        pending = [self._pool.submit(run_in_time, packed) for packed in packed_passages]
        for number, future in enumerate(pending):
            logits = future.result()
            # Without any logits there would be no answer at all.
            if logits is None and number == 0:
                logits = self._run_model(packed_passages[0])
            if logits is None:
                return
            yield logits

    def _run_model(self, packed: PackedPassage) -> PassageLogits:
        inputs = {"input_ids": packed.ids[None]}
        outputs = [
            [np.float32(share) * logits[0] for logits in session.run(None, inputs)]
            for session, share in self._graphs
        ]
        start, end, selected = (sum(logits) for logits in zip(*outputs, strict=True))
        return PassageLogits(packed, start, end, float(selected))

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown(cancel_futures=True)


def _open_packer(directory: Path, settings: ReaderSettings, files: Mapping[str, bytes]) -> Packer:
    from tokenizers import Tokenizer

    with refusing("reader", directory):
        return Packer(Tokenizer.from_str(files[TOKENIZER].decode()), settings.max_tokens)


def _open_graph(directory: Path, files: Mapping[str, bytes]) -> InferenceSession:
    with refusing("reader", directory):
        return open_session(files[MODEL])


def _open_parts(
    directory: Path, settings: EnsembleReaderSettings
) -> tuple[Packer, list[tuple[InferenceSession, float]]]:
    """Open the parts of an ensemble: the packer that they share, and each graph with its share."""
    directories = {name: directory.absolute().parent / name for name in settings.parts}
    parts = {
        name: read_exported(part_directory, "reader", parse_settings)
        for name, part_directory in directories.items()
    }
    with refusing("reader", directory / READER_SETTINGS):
        check_part_settings(settings, {name: part for name, (part, _) in parts.items()})

    first = next(iter(parts))
    packer = _open_packer(directories[first], *parts[first])
    graphs = [
        (_open_graph(directories[name], files), settings.shares[name])
        for name, (_, files) in parts.items()
    ]
    return packer, graphs
