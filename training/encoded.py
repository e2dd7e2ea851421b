"""Vectors of many texts by an encoder that is not trained: computed once, kept in a directory.

What a larger model says of the texts is the expensive part of learning from it. The vectors are
written in pieces, so that a run that was killed goes on where it stopped.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from hashlib import file_digest
from pathlib import Path
from typing import Any

import numpy as np
from accelerate import Accelerator

from purlin.index.encoder import Vectors, load_encoder
from purlin.index.errors import Damaged, NotFound
from purlin.index.records import Role
from purlin.index.storage import atomic_write
from purlin.training.exporting.directory import is_exported
from purlin.training.loop.checkpoints import storing
from purlin.training.loop.recorded_recipe import digest
from purlin.training.models.sentence_models import load_checkpoint, prompt_of

ABOUT = "encoded.json"

# Texts of a piece: at 3 texts a second, at most three minutes of work are lost.
PIECE = 512

FrozenEncoder = Callable[[Sequence[str]], Vectors]
"""Returns unit vectors (texts, dim)."""

RoleEncoder = Callable[[Sequence[str], Role], Vectors]
"""Returns unit vectors (texts, dim) of queries or of passages."""


def frozen_encoder(directory: Path, accelerator: Accelerator) -> FrozenEncoder:
    """Open an encoder, all of whose texts are queries. Raises what `role_encoder` does."""
    encode = role_encoder(directory, accelerator)
    return lambda texts: encode(texts, "query")


def role_encoder(
    directory: Path, accelerator: Accelerator, *, max_tokens: int | None = None
) -> RoleEncoder:
    """Open an exported encoder, on the CPU, or a checkpoint, on the accelerator's device.

    A checkpoint reads at most `max_tokens` of a text, an exported encoder as many as it always
    does. Raises NotFound if there is neither, and what loading them raises.
    """
    require_encoder(directory)
    if is_exported(directory):
        exported = load_encoder(directory)
        return lambda texts, role: exported.encode(texts, role=role)

    checkpoint = load_checkpoint(directory).to(accelerator.device)
    if max_tokens is not None:
        checkpoint.max_seq_length = min(max_tokens, checkpoint.max_seq_length or max_tokens)

    def encode(texts: Sequence[str], role: Role) -> Vectors:
        vectors: Vectors = checkpoint.encode(
            list(texts),
            prompt=prompt_of(checkpoint, role) or None,
            normalize_embeddings=True,
            show_progress_bar=False,
        )
        return vectors

    return encode


def require_encoder(directory: Path) -> None:
    """Raise NotFound unless the directory may hold an encoder."""
    if not (is_exported(directory) or (directory / "config.json").is_file()):
        raise NotFound(
            f"There is no encoder in {directory}. Give a directory made by `purlin train export`, or "
            "that of a checkpoint.",
            field="base",
        )


def encode_once(
    encoder: Callable[[], FrozenEncoder],
    source: Path,
    texts: Sequence[str],
    directory: Path,
    *,
    progress: Callable[[int, int], None] = lambda encoded_count, total: None,
) -> Vectors:
    """Vectors (texts, dim) by the encoder in `source`, read from `directory` or written there.

    `encoder` opens it, and is called only if vectors are missing. Vectors of another encoder or of
    other texts are removed first. `progress` gets the texts done and all of them, after each piece.
    Raises StorageFailed, and Damaged for a piece that cannot be read.
    """
    _claim(directory, {"encoder": identity_of(source), "texts": digest(texts)})
    paths = {start: directory / f"{start:09d}.npy" for start in range(0, len(texts), PIECE)}

    missing = [start for start, path in paths.items() if not path.is_file()]
    encode = encoder() if missing else None
    for start in missing:
        assert encode is not None
        vectors = encode(texts[start : start + PIECE]).astype(np.float32)
        with storing(directory), atomic_write(paths[start]) as stream:
            np.save(stream, vectors, allow_pickle=False)
        progress(min(start + PIECE, len(texts)), len(texts))

    return np.concatenate([_read_piece(path) for path in paths.values()])


def _claim(directory: Path, about: dict[str, Any]) -> None:
    """Empty the directory unless it has vectors of the same encoder and texts."""
    path = directory / ABOUT
    try:
        if json.loads(path.read_bytes()) == about:
            return
    # Whatever is there cannot be told to be of these texts.
    except (OSError, ValueError):
        pass

    with storing(directory):
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        with atomic_write(path) as stream:
            stream.write(json.dumps(about).encode())


def identity_of(source: Path) -> dict[str, str]:
    """Return the SHA-256 of each of an encoder's files that decide its vectors."""
    digests = {}
    for path in sorted(source.rglob("*")):
        if path.suffix in (".onnx", ".safetensors", ".json"):
            with path.open("rb") as file:
                digests[str(path.relative_to(source))] = file_digest(file, "sha256").hexdigest()

    return digests


def _read_piece(path: Path) -> Vectors:
    try:
        with path.open("rb") as file:
            vectors: Vectors = np.load(file, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise Damaged(f"{path} is damaged: {error}. Remove it to compute it again.") from error
    return vectors
