"""Directories of exported models: written aside and then moved, with digests of their files."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from purlin.index.encoder import SETTINGS
from purlin.index.encoder.transformer import Encoder, EncoderSettings
from purlin.index.errors import InvalidInput
from purlin.index.qa.reader import Reader
from purlin.index.qa.reader_settings import READER_SETTINGS, ReaderSettings
from purlin.index.reranker import RERANKER_SETTINGS, Reranker, RerankerSettings
from purlin.training.exporting.saturation import prevent_saturation

EXPORTED: dict[str, Any] = {
    SETTINGS: (Encoder, EncoderSettings),
    READER_SETTINGS: (Reader, ReaderSettings),
    RERANKER_SETTINGS: (Reranker, RerankerSettings),
}


def is_exported(directory: Path) -> bool:
    """Tell whether a directory is an exported encoder or reader rather than a checkpoint."""
    return any((directory / name).is_file() for name in EXPORTED)


def export_again(exported: Path, out: Path) -> None:
    """Write an exported 8-bit encoder or reader to `out` with weights that cannot saturate.

    For directories exported by earlier versions whose checkpoint is no longer available. Replaces
    `out`. The fingerprint changes, so corpora have to be built again.
    """
    settings_name = next(name for name in EXPORTED if (exported / name).is_file())
    model_type, _ = EXPORTED[settings_name]
    # Refuses a damaged directory before anything is written.
    model_type.load(exported)

    with replacing_directory(out) as new:
        for path in exported.iterdir():
            shutil.copyfile(path, new / path.name)
        for path in new.glob("*.onnx"):
            prevent_saturation(path)

        _update_digests(new / settings_name)
        model_type.load(new)


def write_settings(path: Path, settings: Any, details: Mapping[str, Any]) -> None:
    """Write an `encoder.json` or `reader.json`: settings, fingerprint, and further details."""
    _write_json(path, {**asdict(settings), "fingerprint": settings.fingerprint, **details})


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


def _update_digests(settings_path: Path) -> None:
    """Update digests and fingerprint of an `encoder.json` or `reader.json` from its directory."""
    _, settings_type = EXPORTED[settings_path.name]
    content = json.loads(settings_path.read_bytes())
    content["files"] = file_digests(settings_path.parent, content["files"])

    names = {each.name for each in fields(settings_type)} & content.keys()
    settings = settings_type(**{name: content[name] for name in names})
    _write_json(settings_path, content | {"fingerprint": settings.fingerprint})


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n")


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
