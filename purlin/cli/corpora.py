"""What commands share that open corpora: by name, or that of a directory; and filters."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from purlin.cli import terminal

if TYPE_CHECKING:
    from purlin.index.encoder import TextEncoder
    from purlin.index.records import Kind
    from purlin.index.search.corpus import Corpus
    from purlin.index.search.store.filters import Condition, Scalar
    from purlin.index.workspaces.workspace import Workspace

# A condition of --filter, split at its first operator.
_CONDITION = re.compile(r"(.+?)(<=|>=|!=|=)(.*)", re.S)
_BOUNDS = {"<=": "lte", ">=": "gte"}


def open_corpora(home: Path, names: Sequence[str], encoder: Path | str | None) -> list[Corpus]:
    """Open the active builds of corpora; warnings about them go to stderr.

    Without `encoder`, each is opened with the encoder that made it, if that is PURLIN_ENCODER or a
    released one.
    """
    from purlin.index import builds
    from purlin.index.builds.manifests import read_manifest
    from purlin.index.engines.hosting import open_corpus

    # By the fingerprint that a build names.
    encoders: dict[str, TextEncoder] = {}
    opened = []
    for name in dict.fromkeys(names):
        directory = builds.current(home, name)
        made_by = read_manifest(directory).encoder
        fingerprint = made_by["fingerprint"]
        if fingerprint not in encoders:
            encoders[fingerprint] = _open_encoder(encoder, made_by)

        corpus = open_corpus(directory, encoders[fingerprint])
        if corpus.warning is not None:
            terminal.print_note(f"warning: {corpus.warning}")
        opened.append(corpus)
    return opened


def _open_encoder(encoder: Path | str | None, made_by: Mapping[str, Any]) -> TextEncoder:
    """Open the encoder that made a build, or else the one that was chosen."""
    from purlin.index.encoder import (
        ENCODERS,
        default_encoder,
        encoder_directory,
        find_encoder,
        load_encoder,
    )

    chosen = encoder or os.environ.get("PURLIN_ENCODER")
    preferred = encoder_directory(chosen) if chosen else default_encoder()
    if encoder is None and (maker := find_encoder(made_by, (preferred, *ENCODERS.values()))):
        return maker
    return load_encoder(preferred)


@contextlib.contextmanager
def opened_directory(path: str | None, kind: Kind, encoder: str | None) -> Iterator[Workspace]:
    """Open the index around a directory or file, or of a git URL, with progress and its notes."""
    from purlin.index.workspaces.better_vectors import open_directory

    path = path or "."
    expanded = Path(path).expanduser()
    if expanded.is_file():
        path = str(expanded.parent)
    with terminal.progress() as progress:
        directory = open_directory(path, kind=kind, encoder=encoder, progress=progress)
    with directory as workspace:
        for note in workspace.notes:
            terminal.print_note(note)
        yield workspace


def parse_filter(conditions: Sequence[str] | None) -> dict[str, Condition] | None:
    """`["language=python", "price<=50", "brand!=Acme"]` -> a filter; conditions on one field are joined.

    A value that reads as a number means both text and number, a bound that does is a number.
    """
    from purlin.index.errors import InvalidInput

    values_of: dict[str, list[Scalar]] = {}
    others: dict[str, dict[str, Any]] = {}
    for text in conditions or []:
        name, operator, value = _split_condition(text)
        if operator == "=":
            values_of.setdefault(name, []).extend(_readings(value))
        elif operator == "!=":
            others.setdefault(name, {}).setdefault("not", []).extend(_readings(value))
        else:
            others.setdefault(name, {})[_BOUNDS[operator]] = _readings(value)[-1]

    if both := next(iter(values_of.keys() & others.keys()), None):
        raise InvalidInput(
            f"--filter {both}= and another condition on {both} cannot be combined; leave one out.",
            field="filter",
        )
    return {**values_of, **others} or None


def _split_condition(text: str) -> tuple[str, str, str]:
    """The field, the operator and the value of a condition. Raises InvalidInput."""
    from purlin.index.errors import InvalidInput

    match = _CONDITION.fullmatch(text)
    if match is None:
        raise InvalidInput(
            "--filter takes FIELD=VALUE, FIELD!=VALUE, FIELD>=NUMBER or FIELD<=NUMBER; "
            f"{text[:80]!r} was given.",
            field="filter",
        )
    return match[1], match[2], match[3]


def _readings(value: str) -> list[Scalar]:
    """The value as text, and as a number if it reads as one."""
    with contextlib.suppress(ValueError):
        return [value, float(value)]
    return [value]
