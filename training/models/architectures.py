"""What differs between architectures: how a text becomes a vector, and how long it may be."""

from __future__ import annotations

from typing import Any, Literal

import torch

from purlin.index.errors import InvalidInput

Similarity = Literal["cosine", "dot"]


def refuse_longer(name: str, max_tokens: int, model: torch.nn.Module) -> None:
    """Raise InvalidInput if a model has too few positions for `max_tokens`, the setting `name`."""
    limits = [limit for module in model.modules() if (limit := positions(module)) is not None]
    longest = min(limits, default=max_tokens)
    if max_tokens > longest:
        raise InvalidInput(
            f"{name} is {max_tokens}, but the model has {longest} positions.", field=name
        )


def positions(transformer: Any) -> int | None:
    """Return the tokens of the longest text, or None if no table of positions limits it."""
    table = getattr(getattr(transformer, "embeddings", None), "position_embeddings", None)
    if not isinstance(table, torch.nn.Embedding):
        return None

    # RoBERTa numbers positions from the one after its padding's.
    unused = 0 if table.padding_idx is None else table.padding_idx + 1
    return table.num_embeddings - unused


def first_position(t5: Any, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Return SANTA's eq. 1: `ids`, `mask` (B, T) -> the T5 decoder's state (B, D) at its start."""
    states = t5.encoder(input_ids=ids, attention_mask=mask).last_hidden_state

    start = ids.new_full((ids.shape[0], 1), t5.config.decoder_start_token_id)
    decoded = t5.decoder(
        input_ids=start, encoder_hidden_states=states, encoder_attention_mask=mask, use_cache=False
    )
    first: torch.Tensor = decoded.last_hidden_state[:, 0]
    return first
