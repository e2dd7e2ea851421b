"""Vectors of many texts by an encoder that is not trained: computed once, kept in a directory."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from hashlib import file_digest
from pathlib import Path

import numpy as np
from accelerate import Accelerator

from purlin.index.encoder import Vectors, load_encoder
from purlin.index.errors import NotFound
from purlin.index.pace import StageProgress
from purlin.index.records import Role
from purlin.training.exporting.directory import is_exported
from purlin.training.loop.checkpoints import storing
from purlin.training.loop.recorded_recipe import digest
from purlin.training.models.sentence_models import load_checkpoint, prompt_of
from purlin.training.pieces import Pieces

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
    progress: StageProgress = lambda encoded_count, total: None,
) -> Vectors:
    """Vectors (texts, dim) by the encoder in `source`, read from `directory` or written there.

    `encoder` opens it, and is called only if vectors are missing. Vectors of another encoder or of
    other texts are removed first. `progress` gets the texts done and all of them, after each piece.
    Raises StorageFailed, and Damaged for a piece that cannot be read.
    """
    about = {"encoder": identity_of(source), "texts": digest(texts)}
    pieces = Pieces(directory, about, len(texts), PIECE)
    if directory.exists() and not pieces.belongs():
        # What stayed would be taken for pieces of these texts.
        with storing(directory):
            shutil.rmtree(directory)

    if pieces.missing():
        encode = encoder()
        pieces.compute(
            lambda rows: {"vectors": encode(texts[rows]).astype(np.float32)}, progress=progress
        )
    return np.concatenate([pieces.read(number)["vectors"] for number in range(len(pieces.paths))])


def identity_of(source: Path) -> dict[str, str]:
    """Return the SHA-256 of each of an encoder's files that decide its vectors."""
    digests = {}
    for path in sorted(source.rglob("*")):
        if path.suffix in (".onnx", ".safetensors", ".json"):
            with path.open("rb") as file:
                digests[str(path.relative_to(source))] = file_digest(file, "sha256").hexdigest()

    return digests
