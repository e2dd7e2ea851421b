"""What readers and rerankers share: a BERT-class encoder that reads two texts, a linear head, and
their graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from torch import Tensor, nn

from purlin.index.encoder.exported import MODEL, TOKENIZER
from purlin.index.encoder.transformer import open_session
from purlin.index.errors import Damaged
from purlin.index.qa.reader import Packer
from purlin.training.exporting.checks import Quantization, quantize_graphs
from purlin.training.exporting.directory import file_digests, replacing_directory, write_tokenizer
from purlin.training.exporting.graphs import trace
from purlin.training.exporting.layer_inputs import TokenIds
from purlin.training.exporting.saturation import FloatArray
from purlin.training.models.padding import pad_texts
from purlin.training.models.restore import HEAD
from purlin.training.models.saved_model import SavedModel
from purlin.training.models.text_model import BertLike, load_text_model
from purlin.training.reasons import first_line

# Pairs of texts are few in a batch and differ much in length: groups of 32 are a third padding.
PAIRS_PER_GROUP = 8

PRECISIONS: dict[Quantization, str] = {
    "int8": "8-bit, with 8-bit activations at fixed scales",
    "none": "32-bit",
}
"""What model cards say of the weights."""

Outputs = list[tuple[FloatArray, ...]]
"""The outputs of a model for each of some sequences."""


class CrossEncoder(SavedModel):
    """An encoder with a linear layer of `outputs` logits on its states, untrained at first."""

    def __init__(self, text_model: BertLike, outputs: int) -> None:
        super().__init__()
        self.settings = text_model.settings
        self.transformer = text_model.transformer
        self.tokenizer = text_model.tokenizer
        self.head = nn.Linear(self.transformer.config.hidden_size, outputs)

    def states(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return the states (n, t, hidden) of `ids` and `mask` (n, t); without a mask all count."""
        if mask is None:
            mask = torch.ones_like(ids)
        output: Any = self.transformer(input_ids=ids, attention_mask=mask)
        states: Tensor = output.last_hidden_state
        return states

    def packer(self, max_tokens: int) -> Packer:
        """Return what packs two texts for this model."""
        # A tokenizer of its own: packing changes the settings.
        tokenizer = Tokenizer.from_str(self.tokenizer.backend_tokenizer.to_str())
        return Packer(tokenizer, max_tokens)

    def padded(self, sequences: Sequence[TokenIds]) -> tuple[Tensor, Tensor]:
        """Return ids and mask (n, longest) of packed sequences."""
        return pad_texts([ids.tolist() for ids in sequences], self.tokenizer.pad_token_id or 0)

    def fresh(self) -> list[nn.Parameter]:
        """Return the parameters of the head."""
        return list(self.head.parameters())

    def save(self, directory: Path) -> None:
        """Write weights and tokenizer, never pickled."""
        self.transformer.save_pretrained(directory)
        self.tokenizer.save_pretrained(directory)

        weights = self.head.state_dict()
        save_file({name: weight.contiguous() for name, weight in weights.items()}, directory / HEAD)

    def load(self, directory: Path) -> None:
        """Load the weights that `save` wrote. Raises Damaged for a head that cannot be read."""
        saved = load_text_model(self.settings, directory, decoder=False)
        assert isinstance(saved, BertLike)
        self.transformer.load_state_dict(saved.transformer.state_dict())
        self.load_head(directory)

    def load_head(self, directory: Path, *, output: int = 0) -> None:
        """Load the head that `save` wrote to `directory`; raise Damaged if that is impossible.

        A head of one output takes `output` of a file with several.
        """
        path = directory / HEAD
        try:
            weights = load_file(path)
            if self.head.out_features == 1 < len(weights["bias"]):
                weights = {name: rows[output : output + 1] for name, rows in weights.items()}
            self.head.load_state_dict(weights)
        except (OSError, KeyError, RuntimeError, SafetensorError) as error:
            reason = first_line(error)
            raise Damaged(
                f"{path} is damaged: {reason}. Remove {directory} to resume from the checkpoint "
                "before it, or name another base."
            ) from error


Compare = Callable[[Outputs, Outputs, Quantization], None]
"""Raises ExportRefused if a graph's outputs, the second ones, are not those of the checkpoint."""


@contextmanager
def exported_graph(
    trained: CrossEncoder,
    out: Path,
    names: Sequence[str],
    samples: Sequence[TokenIds],
    quantization: Quantization,
    compare: Compare,
) -> Iterator[tuple[Path, dict[str, str]]]:
    """Write the tokenizer and the graph of a model, whose outputs are `names`, to a new directory.

    Yields it with the digests of both; it replaces `out` if the block succeeds. The scales of int8
    are measured on `samples`, sequences of two texts, for which `compare` gets the outputs of the
    checkpoint and of the graph, first without quantization.
    """
    with torch.no_grad():
        expected = [_first(trained(torch.from_numpy(ids)[None])) for ids in samples]

    with replacing_directory(out) as new:
        write_tokenizer(trained.tokenizer, new / TOKENIZER)
        trace(_Graph(trained), trained.transformer, new / MODEL, names)
        compare(expected, _graph_outputs(new / MODEL, samples), "none")

        if quantization == "int8":
            quantize_graphs(new, samples)
            compare(expected, _graph_outputs(new / MODEL, samples), "int8")
        yield new, file_digests(new, (MODEL, TOKENIZER))


class _Graph(nn.Module):
    """What the ONNX graph computes: the model's outputs for ids (n, t) without padding."""

    def __init__(self, trained: CrossEncoder) -> None:
        super().__init__()
        self.trained = trained

    def forward(self, input_ids: Tensor) -> Tensor | tuple[Tensor, ...]:
        outputs: Tensor | tuple[Tensor, ...] = self.trained(input_ids)
        return outputs


def _first(outputs: Tensor | tuple[Tensor, ...]) -> tuple[FloatArray, ...]:
    """Return the outputs of the only sequence."""
    parts = outputs if isinstance(outputs, tuple) else (outputs,)
    return tuple(part[0].numpy() for part in parts)


def _graph_outputs(path: Path, samples: Sequence[TokenIds]) -> Outputs:
    session = open_session(path.read_bytes())
    return [
        tuple(output[0] for output in session.run(None, {"input_ids": ids[None]}))
        for ids in samples
    ]
