"""Texts as token ids: those of different lengths in one tensor, and in groups of similar length."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor


def pad(rows: Sequence[Sequence[int]], value: int) -> Tensor:
    """Return rows of ids as (n, longest), padded with `value`; one column if all are empty."""
    longest = max([1, *map(len, rows)])
    padded = [[*row, *[value] * (longest - len(row))] for row in rows]
    return torch.tensor(padded, dtype=torch.long).reshape(len(rows), longest)


def pad_texts(rows: Sequence[Sequence[int]], filler: int) -> tuple[Tensor, Tensor]:
    """Return ids and mask, both (n, longest)."""
    return pad(rows, filler), pad([[1] * len(row) for row in rows], 0)


def tokenized(tokenizer: Any, texts: Sequence[str], max_tokens: int) -> tuple[Tensor, Tensor]:
    """Return ids and mask (n, longest) of texts, which are cut at `max_tokens`."""
    rows = tokenizer(list(texts), truncation=True, max_length=max_tokens)["input_ids"]
    return pad_texts(rows, tokenizer.pad_token_id)


def in_groups(
    run: Callable[[Tensor, Tensor], tuple[Tensor, ...]], ids: Tensor, mask: Tensor, size: int
) -> tuple[Tensor, ...]:
    """Return what `run` computes from `ids` and `mask` (n, T), in groups of `size` texts.

    Texts of similar length form a group and are cut to the longest of them, so that little of the
    work is padding. The results, each (n, ...), are in the order of `ids`.
    """
    lengths = mask.sum(1)
    # Neighbours in this order have similar lengths.
    order = lengths.argsort()

    results = []
    for rows in torch.split(order, size):
        longest = int(lengths[rows].max())
        results.append(run(ids[rows, :longest], mask[rows, :longest]))

    original_order = order.argsort()
    return tuple(torch.cat(parts)[original_order] for parts in zip(*results, strict=True))
