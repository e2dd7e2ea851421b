"""Directories of exported models: written aside and then moved, with digests of their files."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from purlin.index.encoder import SETTINGS
from purlin.index.errors import InvalidInput
from purlin.index.qa.reader_settings import READER_SETTINGS
from purlin.index.reranker import RERANKER_SETTINGS

EXPORTED = (SETTINGS, READER_SETTINGS, RERANKER_SETTINGS)
"""The files of settings, one of which every exported directory has."""


def is_exported(directory: Path) -> bool:
    """Tell whether a directory is an exported encoder or reader rather than a checkpoint."""
    return any((directory / name).is_file() for name in EXPORTED)


def write_settings(path: Path, settings: Any, details: Mapping[str, Any]) -> None:
    """Write an `encoder.json` or `reader.json`: settings, fingerprint, and further details."""
    content = {**asdict(settings), "fingerprint": settings.fingerprint, **details}
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def file_digests(directory: Path, names: Iterable[str]) -> dict[str, str]:
    """Return the SHA-256 of each of the named files that exists in `directory`."""
    paths = [directory / name for name in names]
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths if path.is_file()
    }


@contextmanager
def replacing_directory(out: Path) -> Iterator[Path]:
    """Yield a new directory beside `out`, which replaces `out` if the block succeeds.

    It is removed if the block fails. Raises InvalidInput if `out` exists and is neither empty nor
    an encoder or reader.
    """
    if out.exists() and not _replaceable(out):
        raise InvalidInput(
            f"{out} is neither empty nor an encoder or reader: name another directory.", field="to"
        )

    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}-", dir=out.parent) as work:
        new, old = Path(work) / "new", Path(work) / "old"
        new.mkdir()
        yield new

        if out.exists():
            out.rename(old)
        try:
            new.rename(out)
        # On any failure, also Ctrl-C, the previous directory is restored.
        except BaseException:
            if old.exists():
                old.rename(out)
            raise


def _replaceable(out: Path) -> bool:
    return out.is_dir() and (is_exported(out) or not any(out.iterdir()))


def write_tokenizer(tokenizer: Any, path: Path) -> None:
    """Write a fast tokenizer's `tokenizer.json`, without truncation and padding.

    Encoder and reader truncate and pad themselves.
    """
    if not tokenizer.is_fast:
        raise InvalidInput(
            f"{type(tokenizer).__name__} has no tokenizer.json form. Use a fast tokenizer."
        )

    content = json.loads(tokenizer.backend_tokenizer.to_str())
    content["truncation"] = content["padding"] = None
    path.write_text(json.dumps(content, ensure_ascii=False, separators=(",", ":")))
