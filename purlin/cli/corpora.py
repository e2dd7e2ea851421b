"""What commands share that open corpora: by name, with the encoder of their build, and filters."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from purlin.cli import terminal

if TYPE_CHECKING:
    from purlin.index.builds import Manifest
    from purlin.index.encoder import TextEncoder
    from purlin.index.search.corpus import Corpus
    from purlin.index.search.filters import Scalar


def open_corpora(home: Path, names: Sequence[str], encoder: Path | str | None) -> list[Corpus]:
    """Open the active builds of corpora; warnings about them go to stderr.

    Without `encoder`, each is opened with the encoder that made it, if that is PURLIN_ENCODER or a
    released one.
    """
    from purlin.index import builds
    from purlin.index.encoder import load_encoder
    from purlin.index.search.corpus import Corpus

    loaded: dict[Path, TextEncoder] = {}
    opened = []
    for name in dict.fromkeys(names):
        directory = builds.current(home, name)
        maker = _encoder_directory(encoder, builds.read_manifest(directory))
        if maker not in loaded:
            loaded[maker] = load_encoder(maker)
        corpus = Corpus.load(directory, loaded[maker])
        if corpus.warning is not None:
            terminal.print_note(f"warning: {corpus.warning}")
        opened.append(corpus)
    return opened


def _encoder_directory(encoder: Path | str | None, manifest: Manifest) -> Path:
    """Directory of the encoder to open a build with."""
    from purlin.index.encoder import ENCODERS, SETTINGS, default_encoder, encoder_directory

    chosen = encoder or os.environ.get("PURLIN_ENCODER")
    preferred = encoder_directory(chosen) if chosen else default_encoder()
    if encoder is not None:
        return preferred
    for directory in (preferred, *ENCODERS.values()):
        # A directory that is missing or damaged is not that encoder.
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            settings = json.loads((directory / SETTINGS).read_bytes())
            if settings["fingerprint"] == manifest.encoder["fingerprint"]:
                return directory
    return preferred


def parse_filter(conditions: Sequence[str] | None) -> dict[str, list[Scalar]] | None:
    """`["language=python", "year=2020"]` -> a filter; a value that reads as a number means both text and number."""
    from purlin.index.errors import InvalidInput

    values_of: dict[str, list[Scalar]] = {}
    for text in conditions or []:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise InvalidInput(
                f"--filter takes FIELD=VALUE; {text[:80]!r} was given.", field="filter"
            )
        values_of.setdefault(name, []).append(value)
        with contextlib.suppress(ValueError):
            values_of[name].append(float(value))
    return values_of or None
