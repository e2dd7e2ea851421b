"""Graphs that are traced once for each architecture, since torch takes seconds for each."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx import numpy_helper

from purlin.training.exporting.graphs import trace


@dataclass(frozen=True, slots=True)
class _Traced:
    """A graph; for each constant that is a weight, its name and whether it is transposed."""

    graph: onnx.ModelProto
    weights: dict[str, tuple[str, bool]]


class TracedOnce:
    """Stands in for `trace`: a further model of an architecture gets the graph of the first one.

    Every export compares its graph with its checkpoint, so a wrong weight would be noticed.
    """

    def __init__(self) -> None:
        self._traced: dict[str, _Traced | None] = {}

    def __call__(
        self, graph: torch.nn.Module, transformer: Any, path: Path, outputs: Sequence[str]
    ) -> None:
        """Write a module as an ONNX graph, as `trace` does."""
        architecture = _architecture(graph, transformer, outputs)
        if architecture not in self._traced:
            with _distinct_weights(graph):
                trace(graph, transformer, path, outputs)
                self._traced[architecture] = _read(path, graph)

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


def _architecture(graph: torch.nn.Module, transformer: Any, outputs: Sequence[str]) -> str:
    """A digest of all that decides a graph but for the weights."""
    settings = [
        {
            name: value
            for name, value in vars(module).items()
            if isinstance(value, str | int | float) and name != "name_or_path"
        }
        for module in graph.modules()
    ]
    shapes = [(name, weight.shape, weight.dtype) for name, weight in graph.state_dict().items()]
    parts = [repr(graph), transformer.config.to_json_string(), settings, shapes, list(outputs)]
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


def _read(path: Path, graph: torch.nn.Module) -> _Traced | None:
    """The graph with the names of its weights; None if one is in it in another form."""
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
    return _Traced(model, weights)


def _key(values: NDArray[Any]) -> bytes:
    return repr(values.shape).encode() + np.ascontiguousarray(values).tobytes()
