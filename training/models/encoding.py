"""Vectors of many texts by the model that is trained."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from accelerate import Accelerator

from purlin.index.encoder import Vectors
from purlin.index.pace import StageProgress
from purlin.index.records import Role
from purlin.training.models.padding import pad_texts
from purlin.training.models.text_model import TextModel

_BATCH_TOKENS = 32_768

# On a CPU, batches that fit its caches are a quarter faster than those of 8,192 tokens.
_CPU_BATCH_TOKENS = 2048
_TOKENIZED_AT_ONCE = 256


def encode(
    text_model: TextModel,
    texts: Sequence[str],
    max_tokens: int,
    accelerator: Accelerator,
    role: Role = "passage",
    progress: StageProgress | None = None,
) -> Vectors:
    """Return vectors (len(texts), D) in the order of `texts`, without gradients.

    Texts of similar length share a batch. The model keeps its mode, training or evaluation.
    `progress` gets the texts done and all of them, after each batch.
    """
    training, tokenizer = text_model.training, text_model.tokenizer
    text_model.eval()

    rows = [
        ids
        for start in range(0, len(texts), _TOKENIZED_AT_ONCE)
        for ids in tokenizer(
            list(texts[start : start + _TOKENIZED_AT_ONCE]), truncation=True, max_length=max_tokens
        )["input_ids"]
    ]
    order = sorted(range(len(rows)), key=lambda row: len(rows[row]))
    batch_tokens = _CPU_BATCH_TOKENS if accelerator.device.type == "cpu" else _BATCH_TOKENS

    vectors = np.empty((len(rows), 0), dtype=np.float32)
    with torch.no_grad(), accelerator.autocast():
        while order:
            # The longest texts come first, so the first text of a batch sets its width.
            batch = [order.pop()]
            while order and (len(batch) + 1) * len(rows[batch[0]]) <= batch_tokens:
                batch.append(order.pop())

            ids, mask = pad_texts([rows[row] for row in batch], tokenizer.pad_token_id)
            batch_vectors = text_model.vectors(
                ids.to(accelerator.device), mask.to(accelerator.device), role
            )
            if not vectors.shape[1]:
                vectors = np.empty((len(rows), batch_vectors.shape[1]), dtype=np.float32)
            vectors[batch] = batch_vectors.cpu().numpy()
            if progress is not None:
                progress(len(rows) - len(order), len(rows))

    text_model.train(training)
    return vectors
