"""Trained classifiers on disk: an encoder, labels, and how cosines become probabilities.

    classifier.json   format, name, labels, prompts, offsets, temperature, measures, created,
                      fingerprint
    labels.npy        optional: float32 (labels, dim), the labels' vectors in place of those of
                      their prompts
    encoder/          the encoder directory, see purlin.index.encoder

A finished one is published as a build below HOME/classifiers/NAME, see purlin.index.builds.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import numpy as np

from purlin.index import builds, storage
from purlin.index.builds import build_files
from purlin.index.builds.catalogs import CLASSIFIERS
from purlin.index.builds.manifests import read_manifest_json
from purlin.index.classify.labels import LabelSet, check_labels, mean_vectors
from purlin.index.classify.scores import RANKED, ClassScores, check_texts, rank, shared_scores
from purlin.index.encoder import TextEncoder, Vectors
from purlin.index.encoder.exported import refusing
from purlin.index.encoder.transformer import Encoder
from purlin.index.errors import InvalidInput, PurlinError
from purlin.index.records import Classification

CLASSIFIER_FORMAT = 1
ABOUT, VECTORS, ENCODER = "classifier.json", "labels.npy", "encoder"
MAX_CLASSIFIER_LABELS = 10_000
MAX_CLASSIFIER_LABEL_CHARS = 1_000
MAX_PROMPTS_PER_LABEL = 100
MAX_PROMPT_CHARS = 4_000
MAX_CLASSIFIER_JSON_BYTES = 64 * 2**20

# What labels.npy may have beside its numbers.
_HEADER_BYTES = 4096
_MAX_DIM = 1 << 16


@dataclass(frozen=True, slots=True)
class ClassifierSpec:
    """What classifies besides the encoder.

    `prompts` has the filled templates of each label; `offsets` is subtracted from each label's mean
    cosine (eq. 2), and the differences over `temperature` go into a softmax. `vectors` (labels,
    dim), if any, replace the mean vectors of the prompts. `fingerprint` is the encoder's.
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


_JSON_KEYS = tuple(key.name for key in fields(ClassifierSpec) if key.name != "vectors")


# ---- files


def write_classifier(directory: Path, spec: ClassifierSpec) -> None:
    """Write `classifier.json` and, if there are vectors, `labels.npy`, each atomically.

    The encoder is not written here: export it to `directory / "encoder"`. Raises InvalidInput for
    what `read_classifier` would refuse, and StorageFailed.
    """
    try:
        _check(spec)
    except (ValueError, PurlinError) as error:
        raise InvalidInput(f"The classifier cannot be written: {error}") from error

    values = {"format": CLASSIFIER_FORMAT} | {name: getattr(spec, name) for name in _JSON_KEYS}
    text = json.dumps(values, ensure_ascii=False, indent=1, allow_nan=False) + "\n"

    with storage.storage_errors():
        directory.mkdir(parents=True, exist_ok=True)
        # Vectors of an earlier classifier must not stay beside the new labels.
        (directory / VECTORS).unlink(missing_ok=True)
        if spec.vectors is not None:
            with storage.atomic_write(directory / VECTORS) as file:
                np.save(file, spec.vectors, allow_pickle=False)

        with storage.atomic_write(directory / ABOUT) as file:
            file.write(text.encode())


def read_classifier(
    directory: Path, read: Callable[[Path], bytes] = Path.read_bytes
) -> ClassifierSpec:
    """Read what `write_classifier` wrote; `read` returns the content of a file.

    Raises Damaged naming the file that is missing, too large or invalid.
    """
    path = directory / ABOUT
    with refusing("classifier", path):
        _check_size(path, MAX_CLASSIFIER_JSON_BYTES)
        spec = _parse(json.loads(read(path)))
        _check(spec)

    return replace(spec, vectors=_read_vectors(directory / VECTORS, len(spec.labels), read))


def publish_classifier(home: Path, name: str, staged: Path) -> str:
    """Publish the directory `staged` as the active build of classifier `name`; returns the build.

    It is opened for a check, copied, and removed once the build is active; the last three builds
    are kept. Raises Damaged, InvalidInput, Busy and StorageFailed; nothing has changed then.
    """
    spec = read_classifier(staged)
    if spec.name != name:
        raise InvalidInput(
            f"{staged / ABOUT} is of classifier {spec.name!r}, not {name!r}.", field="name"
        )
    # Opening it checks that the encoder and the vectors belong together.
    _label_set(spec, _encoder(staged, spec), staged)

    with builds.locked(home, name, CLASSIFIERS) as directory, builds.staging(directory) as copy:
        with storage.storage_errors():
            shutil.copytree(staged, copy, dirs_exist_ok=True)
            (copy / "manifest.json").unlink(missing_ok=True)
            manifest = {
                "name": name,
                "created_at": spec.created,
                "files": build_files.checksums(copy),
                "format": CLASSIFIER_FORMAT,
            }
            build = builds.publish(copy, json.dumps(manifest, ensure_ascii=False, indent=1) + "\n")
            builds.switch(directory, build)

    shutil.rmtree(staged, ignore_errors=True)
    return build


def activate_classifier(home: Path, name: str, build: str) -> None:
    """Make a finished build of a classifier the active one, after it was opened for a check.

    Raises NotFound, Damaged, Busy and StorageFailed; nothing has changed then.
    """
    builds.check_finished(home, name, build, CLASSIFIERS)

    with builds.locked(home, name, CLASSIFIERS) as directory, storage.storage_errors():
        TrainedClassifier.load(directory / build)
        builds.switch(directory, build)


# ---- serving


class TrainedClassifier:
    """An open build of a classifier. Safe to share between threads."""

    def __init__(
        self, spec: ClassifierSpec, encoder: TextEncoder, label_set: LabelSet, directory: Path
    ) -> None:
        self.name = spec.name
        self.build = directory.name
        self.spec = spec
        self.encoder = encoder
        self.label_set = label_set
        self.bytes = sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())
        self._offsets = np.array(spec.offsets, np.float64)

    @classmethod
    def load(cls, directory: Path, shared: TextEncoder | None = None) -> Self:
        """Open a published build. Raises Damaged naming the file.

        If `shared` is the classifier's encoder, it is used and none is loaded.
        """
        listing = read_manifest_json(directory)
        with refusing("classifier", directory / "manifest.json"):
            if listing.get("format") != CLASSIFIER_FORMAT:
                raise ValueError("it was written by another version")

        files = build_files.Files(directory, listing["files"])
        spec = read_classifier(directory, files.read)
        files.check_others()

        encoder = shared
        if encoder is None or encoder.fingerprint != spec.fingerprint:
            encoder = _encoder(directory, spec)
        return cls(spec, encoder, _label_set(spec, encoder, directory), directory)

    def classify(
        self, texts: Sequence[str], *, min_score: float = 0.0, ranked: int = RANKED
    ) -> list[Classification]:
        """Classify each text, in the given order; the scores of one text sum to 1.

        Raises InvalidInput.
        """
        check_texts(texts)
        return rank(
            self.encoder, texts, self.label_set, self._scores, min_score=min_score, ranked=ranked
        )

    def close(self) -> None:
        """Do nothing, as nothing is held open; corpora need it."""

    def _scores(self, cosines: Vectors) -> ClassScores:
        return shared_scores(cosines - self._offsets, self.spec.temperature)


def _encoder(directory: Path, spec: ClassifierSpec) -> Encoder:
    with refusing("classifier", directory / ENCODER):
        if not (directory / ENCODER).is_dir():
            raise ValueError("there is no such directory")

        encoder = Encoder.load(directory / ENCODER)
        if encoder.fingerprint != spec.fingerprint:
            raise ValueError(f"it is not the encoder that {ABOUT} names")

    return encoder


def _label_set(spec: ClassifierSpec, encoder: TextEncoder, directory: Path) -> LabelSet:
    """The labels with the vectors of labels.npy, or the mean vectors of their prompts (eq. 2)."""
    if spec.vectors is None:
        return LabelSet.of(spec.labels, mean_vectors(spec.prompts, encoder))

    with refusing("classifier", directory / VECTORS):
        dim = spec.vectors.shape[1]
        if dim != encoder.dim:
            raise ValueError(f"its vectors have {dim} numbers, the encoder's {encoder.dim}")

    return LabelSet.of(spec.labels, spec.vectors)


# ---- reading and checking


def _parse(values: Any) -> ClassifierSpec:
    """Turn a parsed `classifier.json` into a ClassifierSpec. Raises ValueError."""
    if not isinstance(values, dict) or values.keys() != {"format", *_JSON_KEYS}:
        raise ValueError(f"its keys are not format, {', '.join(_JSON_KEYS)}")
    if values.pop("format") != CLASSIFIER_FORMAT:
        raise ValueError(
            f"it was written by another version; this one reads format {CLASSIFIER_FORMAT}"
        )

    for key in ("labels", "prompts", "offsets"):
        values[key] = tuple(_list(values[key], key))
    values["prompts"] = tuple(tuple(_list(of_label, "prompts")) for of_label in values["prompts"])
    return ClassifierSpec(**values)


def _list(value: Any, key: str) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{key} is not a list")
    return value


def _check(spec: ClassifierSpec) -> None:
    """Raise ValueError or InvalidInput for values that cannot be served."""
    for key in ("name", "fingerprint", "created"):
        _check_text(getattr(spec, key), key, MAX_CLASSIFIER_LABEL_CHARS)
    builds.check_name(spec.name, CLASSIFIERS)
    if not isinstance(spec.measures, Mapping):
        raise ValueError("measures is not an object")

    count = len(spec.labels)
    if not 2 <= count <= MAX_CLASSIFIER_LABELS:
        raise ValueError(f"there are {count} labels, not 2 to {MAX_CLASSIFIER_LABELS:,}")
    for label in spec.labels:
        _check_text(label, "a label", MAX_CLASSIFIER_LABEL_CHARS)
    check_labels(spec.labels)

    check_prompts(spec.prompts, count)
    _check_numbers(spec, count)


def check_prompts(prompts: Sequence[Sequence[str]], count: int) -> None:
    """Raise ValueError if a classifier of `count` labels cannot have these prompts."""
    if len(prompts) != count:
        raise ValueError(f"there are {count} labels, and prompts of {len(prompts)}")

    for of_label in prompts:
        if not 1 <= len(of_label) <= MAX_PROMPTS_PER_LABEL:
            raise ValueError(
                f"a label has {len(of_label)} prompts, not 1 to {MAX_PROMPTS_PER_LABEL}"
            )
        for text in of_label:
            _check_text(text, "a prompt", MAX_PROMPT_CHARS)


def _check_numbers(spec: ClassifierSpec, count: int) -> None:
    if len(spec.offsets) != count:
        raise ValueError(f"there are {count} labels and {len(spec.offsets)} offsets")
    if not all(_is_number(offset) and abs(offset) <= 1e6 for offset in spec.offsets):
        raise ValueError("an offset is not a number from -1,000,000 to 1,000,000")

    if not (_is_number(spec.temperature) and 1e-6 <= spec.temperature <= 1e6):
        raise ValueError("temperature is not a number from 0.000001 to 1,000,000")

    if spec.vectors is not None:
        _check_vectors(spec.vectors, count)


def _check_vectors(vectors: Vectors, count: int) -> None:
    if vectors.dtype != np.float32 or vectors.ndim != 2 or len(vectors) != count:
        raise ValueError(
            f"it holds {vectors.dtype} of shape {vectors.shape}, "
            f"not float32 of shape ({count}, dim)"
        )

    if not 1 <= vectors.shape[1] <= _MAX_DIM:
        raise ValueError(f"its vectors have {vectors.shape[1]} numbers, not 1 to {_MAX_DIM:,}")

    if not np.isfinite(vectors).all():
        raise ValueError("its numbers are not all finite")


def _check_text(value: Any, what: str, longest: int) -> None:
    if not isinstance(value, str) or not value.strip() or len(value) > longest:
        raise ValueError(f"{what} is not a text of 1 to {longest:,} characters")


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
