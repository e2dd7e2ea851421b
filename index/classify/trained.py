"""Trained classifiers on disk: an encoder of their own, their labels, and how its cosines become probabilities.

    classifier.json   format, name, labels, prompts, offsets, temperature, measures, created, fingerprint
    labels.npy        optional: float32 (labels, dim), the labels' vectors in place of those of their prompts
    encoder/          the encoder directory, see index/encoder.py

A finished one is published as a build below HOME/classifiers/NAME, see index/generations.py.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import numpy as np

from index import builds, storage
from index.builds import CLASSIFIERS
from index.classify.zero_shot import (
    RANKED,
    LabelSet,
    Scores,
    check_labels,
    check_texts,
    rank,
    shared_scores,
)
from index.encoder import Encoder, TextEncoder, Vectors
from index.errors import InvalidInput, PurlinError
from index.exported import refusing
from index.records import Classification

FORMAT = 1
ABOUT, VECTORS, ENCODER = "classifier.json", "labels.npy", "encoder"
MAX_LABELS = 10_000
MAX_LABEL_CHARS = 1_000
MAX_PROMPTS = 100  # of one label
MAX_PROMPT_CHARS = 4_000
MAX_BYTES = 64 * 2**20  # of classifier.json, and of one classifier's prompts together
_HEADER_BYTES = 4096  # that labels.npy may have beside its numbers
_MAX_DIM = 1 << 16


@dataclass(frozen=True, slots=True)
class Trained:
    """What classifies besides the encoder.

    `prompts` has each label's prompts, filled in; `offsets` what is subtracted from each label's mean cosine (eq. 2);
    the differences over `temperature` go into a softmax. `vectors` (labels, dim), where given, stand in for the mean
    vectors of the prompts. `fingerprint` is the encoder's.
    """

    name: str
    labels: tuple[str, ...]
    prompts: tuple[tuple[str, ...], ...]
    offsets: tuple[float, ...]
    temperature: float
    measures: Mapping[str, Any]
    fingerprint: str
    vectors: Vectors | None = None
    created: str = field(default_factory=lambda: f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}")


_KEYS = tuple(one.name for one in fields(Trained) if one.name != "vectors")


@dataclass(frozen=True, slots=True)
class Manifest:
    """Name, age and files of a published classifier. `files` maps a relative path to its size and SHA-256."""

    name: str
    created_at: str
    files: Mapping[str, Mapping[str, Any]]
    format: int = FORMAT

    def to_json(self) -> str:
        """One JSON object."""
        return json.dumps(asdict(self), ensure_ascii=False, indent=1) + "\n"


# ---- files


def write_classifier(directory: Path, trained: Trained) -> None:
    """Write `classifier.json` and, where there are vectors, `labels.npy`; each appears whole or not at all.

    The encoder is not written here: export it to `directory / "encoder"`. Raises InvalidInput for what
    `read_classifier` would not take, and StorageFailed.
    """
    try:
        _check(trained)
    except (ValueError, PurlinError) as error:
        raise InvalidInput(f"Such a classifier cannot be written: {error}") from error
    values = {"format": FORMAT} | {name: getattr(trained, name) for name in _KEYS}
    text = json.dumps(values, ensure_ascii=False, indent=1, allow_nan=False) + "\n"
    with storage.storage_errors():
        directory.mkdir(parents=True, exist_ok=True)
        (directory / VECTORS).unlink(missing_ok=True)
        if trained.vectors is not None:
            with storage.atomic_write(directory / VECTORS) as file:
                np.save(file, trained.vectors, allow_pickle=False)
        with storage.atomic_write(directory / ABOUT) as file:
            file.write(text.encode())


def read_classifier(directory: Path, read: Callable[[Path], bytes] = Path.read_bytes) -> Trained:
    """What `write_classifier` wrote; `read` gives the content of a file.

    Raises Damaged naming the file that is missing, too large or wrong.
    """
    path = directory / ABOUT
    with refusing("classifier", path):
        _check_size(path, MAX_BYTES)
        trained = _trained(json.loads(read(path)))
        _check(trained)
    return replace(trained, vectors=_read_vectors(directory / VECTORS, len(trained.labels), read))


def publish(home: Path, name: str, staged: Path) -> str:
    """Make what is in `staged` the active build of classifier `name`; returns the build's name.

    It is opened for a check, copied, and removed once the build is active; the last three builds stay. Raises Damaged,
    InvalidInput, Busy and StorageFailed, and has changed nothing then.
    """
    trained = read_classifier(staged)
    if trained.name != name:
        raise InvalidInput(
            f"{staged / ABOUT} is of classifier {trained.name!r}, not {name!r}.", field="name"
        )
    _label_set(trained, _encoder(staged, trained), staged)
    with builds.locked(home, name, CLASSIFIERS) as directory, builds.staging(directory) as made:
        with storage.storage_errors():
            shutil.copytree(staged, made, dirs_exist_ok=True)
            (made / "manifest.json").unlink(missing_ok=True)
            build = builds.publish(made, Manifest(name, trained.created, builds.checksums(made)))
            builds.switch(directory, build)
    shutil.rmtree(staged, ignore_errors=True)
    return build


# ---- at work


class TrainedClassifier:
    """An open build of a classifier. Safe to share between threads."""

    def __init__(
        self, trained: Trained, encoder: TextEncoder, label_set: LabelSet, directory: Path
    ) -> None:
        self.name = trained.name
        self.build = directory.name
        self.trained = trained
        self.encoder = encoder
        self.label_set = label_set
        self.bytes = sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())
        self._offsets = np.array(trained.offsets, np.float64)

    @classmethod
    def load(cls, directory: Path, shared: TextEncoder | None = None) -> Self:
        """Open a published build, or refuse it by Damaged naming the file; `shared` is used if it is its encoder."""
        listing = builds.read_manifest_json(directory)
        with refusing("classifier", directory / "manifest.json"):
            if listing.get("format") != FORMAT:
                raise ValueError("it was written by another version")
        files = builds.Files(directory, Manifest(**listing))
        trained = read_classifier(directory, files.read)
        files.check_others()
        mine = shared is not None and shared.fingerprint == trained.fingerprint
        encoder = shared if mine and shared is not None else _encoder(directory, trained)
        return cls(trained, encoder, _label_set(trained, encoder, directory), directory)

    def classify(
        self, texts: Sequence[str], *, min_score: float = 0.0, ranked: int = RANKED
    ) -> list[Classification]:
        """One result per text, in the order given; the scores of one text sum to 1. Raises InvalidInput."""
        check_texts(texts)
        return rank(
            self.encoder, texts, self.label_set, self._scores, min_score=min_score, ranked=ranked
        )

    def close(self) -> None:
        """Nothing is held open."""

    def _scores(self, cosines: Vectors) -> Scores:
        return shared_scores(cosines - self._offsets, self.trained.temperature)


def _encoder(directory: Path, trained: Trained) -> Encoder:
    with refusing("classifier", directory / ENCODER):
        if not (directory / ENCODER).is_dir():
            raise ValueError("there is no such directory")
        encoder = Encoder.load(directory / ENCODER)
        if encoder.fingerprint != trained.fingerprint:
            raise ValueError(f"it is not the encoder that {ABOUT} names")
    return encoder


def _label_set(trained: Trained, encoder: TextEncoder, directory: Path) -> LabelSet:
    """The labels with their own vectors, or the mean vector of each one's prompts (eq. 2)."""
    if trained.vectors is None:
        return LabelSet.of(trained.labels, _mean_vectors(trained.prompts, encoder))
    with refusing("classifier", directory / VECTORS):
        if trained.vectors.shape[1] != encoder.dim:
            raise ValueError(
                f"its vectors have {trained.vectors.shape[1]} numbers, the encoder's {encoder.dim}"
            )
    return LabelSet.of(trained.labels, trained.vectors)


def _mean_vectors(prompts: Sequence[Sequence[str]], encoder: TextEncoder) -> Vectors:
    """(labels, dim), the prompts of all labels encoded in one call."""
    vectors = encoder.encode([prompt for label in prompts for prompt in label], role="query")
    counts = [len(label) for label in prompts]
    sums = np.add.reduceat(vectors, np.cumsum([0, *counts[:-1]]), axis=0)
    means: Vectors = (sums / np.array(counts)[:, None]).astype(np.float32)
    return means


# ---- reading and checking


def _trained(values: Any) -> Trained:
    """A parsed `classifier.json` with the types of `Trained`, or ValueError."""
    if not isinstance(values, dict) or values.keys() != {"format", *_KEYS}:
        raise ValueError(f"its keys are not format, {', '.join(_KEYS)}")
    if values.pop("format") != FORMAT:
        raise ValueError(f"it was written by another version; this one reads format {FORMAT}")
    for key in ("labels", "prompts", "offsets"):
        values[key] = tuple(_list(values[key], key))
    values["prompts"] = tuple(tuple(_list(of_label, "prompts")) for of_label in values["prompts"])
    return Trained(**values)


def _list(value: Any, key: str) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{key} is not a list")
    return value


def _check(trained: Trained) -> None:
    """Raises ValueError or InvalidInput saying what is wrong with the values."""
    for key in ("name", "fingerprint", "created"):
        _check_text(getattr(trained, key), key, MAX_LABEL_CHARS)
    builds.builds_directory(Path(), trained.name, CLASSIFIERS)
    if not isinstance(trained.measures, Mapping):
        raise ValueError("measures is not an object")
    count = len(trained.labels)
    if not 2 <= count <= MAX_LABELS:
        raise ValueError(f"there are {count} labels, not 2 to {MAX_LABELS:,}")
    for label in trained.labels:
        _check_text(label, "a label", MAX_LABEL_CHARS)
    check_labels(trained.labels)
    check_prompts(trained.prompts, count)
    _check_numbers(trained, count)


def check_prompts(prompts: Sequence[Sequence[str]], count: int) -> None:
    """Raises ValueError for more or longer prompts of `count` labels than a classifier may have."""
    if len(prompts) != count:
        raise ValueError(f"there are {count} labels, and prompts of {len(prompts)}")
    for of_label in prompts:
        if not 1 <= len(of_label) <= MAX_PROMPTS:
            raise ValueError(f"a label has {len(of_label)} prompts, not 1 to {MAX_PROMPTS}")
        for text in of_label:
            _check_text(text, "a prompt", MAX_PROMPT_CHARS)


def _check_numbers(trained: Trained, count: int) -> None:
    if len(trained.offsets) != count:
        raise ValueError(f"there are {count} labels and {len(trained.offsets)} offsets")
    if not all(_is_number(offset) and abs(offset) <= 1e6 for offset in trained.offsets):
        raise ValueError("an offset is no number within a million")
    if not (_is_number(trained.temperature) and 1e-6 <= trained.temperature <= 1e6):
        raise ValueError("temperature is no number from 0.000001 to a million")
    if trained.vectors is not None:
        _check_vectors(trained.vectors, count)


def _check_vectors(vectors: Vectors, count: int) -> None:
    if vectors.dtype != np.float32 or vectors.ndim != 2 or len(vectors) != count:
        raise ValueError(
            f"it holds {vectors.dtype} of shape {vectors.shape}, not float32 of shape ({count}, dim)"
        )
    if not 1 <= vectors.shape[1] <= _MAX_DIM or not np.isfinite(vectors).all():
        raise ValueError("its numbers are not all finite, or have no dimension")


def _check_text(value: Any, what: str, longest: int) -> None:
    if not isinstance(value, str) or not value.strip() or len(value) > longest:
        raise ValueError(f"{what} is no text of 1 to {longest:,} characters")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _read_vectors(path: Path, count: int, read: Callable[[Path], bytes]) -> Vectors | None:
    if not path.exists():
        return None
    with refusing("classifier", path):
        _check_size(path, count * _MAX_DIM * 4 + _HEADER_BYTES)
        vectors: Vectors = storage.read_array(read(path))
        _check_vectors(vectors, count)
        return vectors


def _check_size(path: Path, most: int) -> None:
    if path.stat().st_size > most:
        raise ValueError(f"it has more than {most:,} bytes")
