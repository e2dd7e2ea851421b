"""Graphs that are traced once for each architecture, by one process for all: torch takes seconds for each."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from numpy.typing import NDArray
from onnx import numpy_helper

from purlin.training import cross_encoder
from purlin.training.exporting import encoder as encoder_export
from purlin.training.exporting.graphs import trace
from tests.support.processes import alone


@dataclass(frozen=True, slots=True)
class _Traced:
    """A graph; for each constant that is a weight, its name and whether it is transposed."""

    graph: onnx.ModelProto
    weights: dict[str, tuple[str, bool]]


class TracedOnce:
    """Stands in for `trace`: a further model of an architecture gets the graph of the first one.

    Every export compares its graph with its checkpoint, so a wrong weight would be noticed.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._traced: dict[str, _Traced | None] = {}

    def __call__(
        self, graph: torch.nn.Module, transformer: Any, path: Path, outputs: Sequence[str]
    ) -> None:
        """Write a module as an ONNX graph, as `trace` does."""
        architecture = _architecture(graph, transformer, outputs)
        if architecture not in self._traced:
            stored = self.directory / f"{architecture}.onnx"
            weights_file = stored.with_suffix(".json")
            with alone(stored.with_suffix(".lock")):
                if not weights_file.exists():
                    with _distinct_weights(graph):
                        trace(graph, transformer, stored, outputs)
                        weights_file.write_text(json.dumps(_weights(stored, graph)))
            weights = json.loads(weights_file.read_text())
            self._traced[architecture] = (
                None if weights is None else _Traced(onnx.load(stored), weights)
            )

        traced = self._traced[architecture]
        if traced is None:
            trace(graph, transformer, path, outputs)
            return

        state = graph.state_dict()
        model = onnx.ModelProto()
        model.CopyFrom(traced.graph)
        for constant in model.graph.initializer:
            if constant.name in traced.weights:
                name, is_transposed = traced.weights[constant.name]
                weight = state[name].numpy()
                values = np.ascontiguousarray(weight.T if is_transposed else weight)
                constant.CopyFrom(numpy_helper.from_array(values, constant.name))
        onnx.save(model, path)


@contextmanager
def exports_traced_by(trace: TracedOnce) -> Iterator[None]:
    """Have all exports of the block take their graphs from `trace`."""
    with pytest.MonkeyPatch.context() as patched:
        for module in (encoder_export, cross_encoder):
            patched.setattr(module, "trace", trace)
        yield


def _architecture(graph: torch.nn.Module, transformer: Any, outputs: Sequence[str]) -> str:
    """A digest of all that decides a graph but for the weights."""
    settings = [
        {
            name: value
            for name, value in vars(module).items()
            # A private one may be the card of the checkpoint, with its prompts.
            if isinstance(value, str | int | float)
            and not name.startswith("_")
            and name != "name_or_path"
        }
        for module in graph.modules()
    ]
    config = json.loads(transformer.config.to_json_string())
    config.pop("initializer_range", None)
    shapes = [(name, weight.shape, weight.dtype) for name, weight in graph.state_dict().items()]
    parts = [repr(graph), config, settings, shapes, list(outputs)]
    return hashlib.sha256(repr(parts).encode()).hexdigest()


@contextmanager
def _distinct_weights(graph: torch.nn.Module) -> Iterator[None]:
    """Give all weights values of their own meanwhile: equal ones become one constant of a graph."""
    generator = torch.Generator().manual_seed(1)
    own = {name: weight.clone() for name, weight in graph.state_dict().items()}
    with torch.no_grad():
        for parameter in graph.parameters():
            parameter.uniform_(0.5, 1.5, generator=generator)
    try:
        yield
    finally:
        graph.load_state_dict(own)


def _weights(path: Path, graph: torch.nn.Module) -> dict[str, tuple[str, bool]] | None:
    """The weight of each constant in a graph's file; None if one is in it in another form."""
    model = onnx.load(path)
    forms: dict[bytes, tuple[str, bool]] = {}
    for name, weight in graph.state_dict().items():
        values = weight.numpy()
        for form, is_transposed in ((values.T, True), (values, False)):
            forms[_key(form)] = name, is_transposed

    weights = {}
    for constant in model.graph.initializer:
        values = numpy_helper.to_array(constant)
        if weight_form := forms.get(_key(values)):
            weights[constant.name] = weight_form
        elif values.size > 1 and values.dtype == np.float32:
            return None
    return weights


def _key(values: NDArray[Any]) -> bytes:
    return repr(values.shape).encode() + np.ascontiguousarray(values).tobytes()
