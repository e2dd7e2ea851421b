"""Quantization of exported graphs, and the checks that a graph computes what its checkpoint does."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from purlin.index.errors import InvalidInput
from purlin.training.exporting.layer_inputs import TokenIds
from purlin.training.exporting.quantize import quantize
from purlin.training.exporting.saturation import saturating_layers

Quantization = Literal["int8", "none"]


class ExportRefused(InvalidInput):
    """The exported graph does not compute what the checkpoint computes. Nothing was written."""


def quantize_graphs(directory: Path, samples: Sequence[TokenIds]) -> None:
    """Quantize every graph in `directory`, with scales measured on `samples`, rows of token ids.

    Raises ExportRefused if a quantized graph can saturate.
    """
    for path in sorted(directory.glob("*.onnx")):
        quantize(path, path, [ids[None] for ids in samples])
    refuse_saturation(directory)


def refuse_saturation(directory: Path) -> None:
    """Raise ExportRefused if a graph would compute something else on processors without VNNI."""
    for path in sorted(directory.glob("*.onnx")):
        if layers := saturating_layers(path):
            raise ExportRefused(
                f"{path.name} has {len(layers)} layers whose sums can exceed 16 bits (the first: "
                f"{layers[0]}): processors without VNNI would compute other results. Nothing was "
                "written."
            )


def refuse_difference(
    outputs: str,
    quantization: Quantization,
    *,
    difference: float,
    max_difference: float,
    similarity: float,
    min_similarity: float,
    similarity_name: str,
) -> None:
    """Raise ExportRefused if a graph's `outputs` are not close enough to the checkpoint's.

    A graph without quantization is judged by the largest difference, one in 8 bits by similarity.
    """
    exact = quantization == "none"
    is_close = difference <= max_difference if exact else similarity >= min_similarity
    if is_close:
        return

    remedy = (
        ""
        if exact
        else ' Keep 32-bit weights: quantization = "none" below [export] of a recipe (--config), or '
        "--fp32 of `purlin train export`."
    )
    raise ExportRefused(
        f"The {quantization} graph's {outputs} differ from the checkpoint's by up to {difference:.2g} "
        f"({similarity_name} {similarity:.4f}); allowed are {max_difference} without quantization, "
        f"a {similarity_name} of {min_similarity} with int8. Nothing was written.{remedy}"
    )
