"""What commands share that open corpora: by name, with the encoder of their build, and filters."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from purlin.cli import terminal

if TYPE_CHECKING:
    from purlin.index.search.corpus import Corpus
    from purlin.index.search.store import Scalar


def open_corpora(home: Path, names: Sequence[str], encoder: Path | str | None) -> list[Corpus]:
    """Open the active builds of corpora; warnings about them go to stderr."""
    from purlin.index import builds
    from purlin.index.encoder import encoder_directory, load_encoder
    from purlin.index.search.corpus import Corpus

    directories = [builds.current(home, name) for name in dict.fromkeys(names)]
    choice = str(encoder or os.environ.get("PURLIN_ENCODER") or "transformer")
    loaded = load_encoder(encoder_directory(choice))
    opened = [Corpus.load(directory, loaded) for directory in directories]
    for corpus in opened:
        if corpus.warning is not None:
            terminal.print_note(f"warning: {corpus.warning}")
    return opened


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
