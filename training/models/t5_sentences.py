"""T5 as SANTA uses it, for sentence-transformers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sentence_transformers.base.modules import InputModule
from transformers import AutoTokenizer, T5ForConditionalGeneration

from purlin.training.models.architectures import first_position

T5_TOKENS = 512  # its length in pretraining: the limit if the tokenizer has none


class FirstPosition(InputModule):
    """A module of sentence-transformers whose vectors are the first position of a T5's decoder."""

    def __init__(self, checkpoint: Path) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.tokenizer: Any = AutoTokenizer.from_pretrained(checkpoint, local_files_only=True)
        self.auto_model = T5ForConditionalGeneration.from_pretrained(
            checkpoint, local_files_only=True, use_safetensors=True
        )
        # Without a limit, transformers sets 10**30. T5 itself has no limit.
        self.max_seq_length = min(self.tokenizer.model_max_length, T5_TOKENS)

    def preprocess(
        self, inputs: Sequence[Any], prompt: str | None = None, **_: Any
    ) -> dict[str, Any]:
        """Return `input_ids` and `attention_mask` (n, longest)."""
        texts = [(prompt or "") + text for text in inputs]
        options = {
            "padding": True,
            "truncation": True,
            "max_length": self.max_seq_length,
            "return_tensors": "pt",
        }
        return dict(self.tokenizer(texts, **options))

    def forward(self, features: dict[str, Any], **_: Any) -> dict[str, Any]:
        """Add `sentence_embedding`, the vectors (n, dim)."""
        vectors = first_position(self.auto_model, features["input_ids"], features["attention_mask"])
        return {**features, "sentence_embedding": vectors}

    def get_embedding_dimension(self) -> int:
        """Return the length of a vector."""
        return int(self.auto_model.config.d_model)

    def save(self, output_path: str, *_: Any, **__: Any) -> None:
        """Not supported; the base class requires the method."""
        raise NotImplementedError
