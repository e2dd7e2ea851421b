"""Encoders: what they have in common, those that are released, and how one of any type is opened."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from purlin.index.encoder.ensemble import EnsembleEncoder
from purlin.index.encoder.static import StaticEncoder
from purlin.index.encoder.text_encoder import Plan as Plan
from purlin.index.encoder.text_encoder import TextEncoder as TextEncoder
from purlin.index.encoder.text_encoder import Vectors as Vectors
from purlin.index.encoder.text_encoder import word_by_word as word_by_word
from purlin.index.encoder.transformer import Encoder, can_run_transformers
from purlin.index.encoder.translating import TranslatingEncoder
from purlin.index.records import Kind

_MODELS = Path(__file__).resolve().parents[2] / "models"
TRANSFORMER_ENCODER = _MODELS / "santa-minilm-l6-int8"
STATIC_ENCODER = _MODELS / "static-code-int8"
ENSEMBLE_ENCODER = _MODELS / "ensemble-int8"
LABEL_ENCODER = _MODELS / "labels-minilm-l6-int8"
# Words for the released encoders, wherever a directory can be given.
ENCODERS = {
    "ensemble": ENSEMBLE_ENCODER,
    "transformer": TRANSFORMER_ENCODER,
    "static": STATIC_ENCODER,
    "labels": LABEL_ENCODER,
}
# What an encoder is for: corpora of a kind, or classification by the names of labels.
Purpose: TypeAlias = Kind | Literal["labels"]
_SPECIAL_ENCODERS: Mapping[Purpose | None, Path] = {
    "code": ENSEMBLE_ENCODER,
    "labels": LABEL_ENCODER,
}
SETTINGS = "encoder.json"


def load_encoder(
    directory: Path,
    *,
    threads: int | None = None,
    plan: Plan | None = None,
    opened: Mapping[str, TextEncoder] = MappingProxyType({}),
) -> TextEncoder:
    """Read and verify an encoder directory of any type: a transformer's, a static one, an ensemble.

    A transformer works by `plan`, by default on `threads` threads per call, one per available CPU.
    An ensemble takes parts that are `opened` already, by their fingerprints. Raises NotFound if there
    is no such directory, and Damaged, which names the file.
    """

    def open_single(directory: Path) -> TextEncoder:
        if directory.absolute() == STATIC_ENCODER:
            return translator()
        if is_static(directory):
            return StaticEncoder.load(directory)
        # An ensemble as a part is refused here, too: it has no model.
        return Encoder.load(directory, threads=threads, plan=plan)

    def open_part(directory: Path) -> TextEncoder:
        part = opened.get(encoder_fingerprint(directory) or "")
        return part or open_single(directory)

    if _text(directory, "type") == "ensemble":
        return EnsembleEncoder.load(directory, open_part)
    return open_single(directory)


def default_encoder(purpose: Purpose | None = None, sample: Sequence[str] = ()) -> Path:
    """Return the directory of the released encoder that is best for corpora of a kind, or for labels.

    That is the ensemble for code, and for products if most texts of a `sample` are not English, an
    encoder of its own for classification by labels' names, and the transformer for anything else;
    the static encoder where no transformer can run.
    """
    if not can_run_transformers():
        return STATIC_ENCODER
    if purpose == "product" and not _are_english(sample):
        return ENSEMBLE_ENCODER
    return _SPECIAL_ENCODERS.get(purpose, TRANSFORMER_ENCODER)


def _are_english(texts: Sequence[str]) -> bool:
    """Tell whether at least half of the texts are read as English."""
    return not texts or 2 * sum(map(translator().is_english, texts)) >= len(texts)


@cache
def translator() -> StaticEncoder:
    """Return the released static encoder, which translates words of seventeen languages.

    A process opens it once, for all that search with it or translate.
    """
    return StaticEncoder.load(STATIC_ENCODER)


def in_english(encoder: TextEncoder, text: str) -> str:
    """Return a text in English words; nothing if it is English or the encoder has no dictionary.

    The released transformer, which reads English alone, has that of the static encoder.
    """
    translate = getattr(encoder, "in_english", None)
    if translate is None and encoder.fingerprint == _transformer_fingerprint():
        translate = translator().in_english
    return translate(text) if translate else ""


def translating(encoder: TextEncoder) -> TextEncoder:
    """Return an encoder that reads other languages, too: a released transformer knows English alone."""
    transformers = map(encoder_fingerprint, (TRANSFORMER_ENCODER, LABEL_ENCODER))
    is_released = encoder.fingerprint in transformers
    return TranslatingEncoder(encoder, translator()) if is_released else encoder


@cache
def _transformer_fingerprint() -> str | None:
    return encoder_fingerprint(TRANSFORMER_ENCODER) if STATIC_ENCODER.is_dir() else None


def encoder_for(purpose: Purpose, chosen: Path) -> Path:
    """Return the directory for a purpose, where `chosen` is that for anything else."""
    return default_encoder(purpose) if chosen == default_encoder() else chosen


def is_static(directory: Path) -> bool:
    """Tell whether a directory says that it holds a static encoder."""
    return _text(directory, "type") == "static"


def part_directories(directory: Path) -> list[Path]:
    """Return the directories of an ensemble's parts, which lie beside it; none for other encoders."""
    settings = _unchecked_settings(directory)
    parts = settings.get("parts") if settings.get("type") == "ensemble" else None
    names = parts if isinstance(parts, dict) else {}
    return [directory.absolute().parent / name for name in names]


def transformer_directory(directory: Path) -> Path | None:
    """Return the directory of the transformer that an encoder is or has as a part, if there is one."""
    singles = part_directories(directory) or [directory]
    return next((single for single in singles if not is_static(single)), None)


def find_encoder(
    made_by: Mapping[str, Any],
    directories: Iterable[Path],
    *,
    threads: int | None = None,
    opened: Mapping[str, TextEncoder] = MappingProxyType({}),
) -> TextEncoder | None:
    """Open the encoder with the name and fingerprint of a manifest, if one of `directories` has it.

    Directories of other names are not opened. An ensemble takes parts that are `opened` already.
    Raises Damaged for a directory that cannot be used.
    """
    for directory in directories:
        if encoder_name(directory) == made_by["name"]:
            encoder = load_encoder(directory, threads=threads, opened=opened)
            if encoder.fingerprint == made_by["fingerprint"]:
                return encoder
    return None


def encoder_name(directory: Path) -> str | None:
    """Read the name in an encoder's directory, without opening its model; None without one."""
    return _text(directory, "name")


def encoder_fingerprint(directory: Path) -> str | None:
    """Read the fingerprint in an encoder's directory, without opening its model; None without one."""
    return _text(directory, "fingerprint")


def _text(directory: Path, key: str) -> str | None:
    value = _unchecked_settings(directory).get(key)
    return value if isinstance(value, str) else None


def _unchecked_settings(directory: Path) -> Mapping[str, Any]:
    """Read what an encoder's directory says of itself; empty if that cannot be read."""
    # Whatever is wrong with the directory, loading it reports.
    try:
        settings = json.loads((directory / SETTINGS).read_bytes())
    except (OSError, ValueError):
        return {}
    return settings if isinstance(settings, dict) else {}


def encoder_directory(text: str | Path) -> Path:
    """Return the directory that a word of ENCODERS or a path stands for.

    A directory of that name in the working directory is `./static`.
    """
    return ENCODERS.get(str(text), Path(text))
