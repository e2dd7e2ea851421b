"""Sentinels, and masked texts as token ids.

Sentinels are spare tokens of the tokenizer: `<extra_id_0>` to `<extra_id_99>` of T5 and CodeT5,
`[unused0]` to `[unused99]` of BERT.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from itertools import pairwise
from typing import Any

from tokenizers import AddedToken

from purlin.index.encoder.transformer import CHARS_PER_TOKEN
from purlin.index.errors import InvalidInput
from purlin.training.data.masking.masks import Masked, target_entities

MAX_SENTINELS = 100
_SENTINELS = ("<extra_id_{}>", "[unused{}]")


def sentinels(tokenizer: Any) -> tuple[str, ...]:
    """Return the spare tokens of a tokenizer in their order, at most `MAX_SENTINELS`.

    Raises InvalidInput if it has none.
    """
    vocabulary = tokenizer.get_vocab()
    for form in _SENTINELS:
        names = (form.format(number) for number in range(MAX_SENTINELS))
        spare = tuple(name for name in names if name in vocabulary)
        if spare:
            return spare

    raise InvalidInput(
        "The tokenizer has neither <extra_id_0>, <extra_id_1> … nor [unused0], [unused1] …, which "
        "masked entity prediction needs as masks. Train with mep = 0, or from a base model of the "
        "T5 or BERT family.",
        field="mep",
    )


def prepare_tokenizer(tokenizer: Any) -> tuple[Any, tuple[str, ...]]:
    """Return a copy of a fast tokenizer that keeps each sentinel as one token, and the sentinels.

    BERT's tokenizer would split `[unused0]`. The ids and the size of the vocabulary stay the same,
    and the original is not changed.
    """
    spare = sentinels(tokenizer)
    prepared = copy.deepcopy(tokenizer)

    added = prepared.added_tokens_encoder
    new = [AddedToken(name, special=True, normalized=False) for name in spare if name not in added]
    prepared.add_tokens(new, special_tokens=True)
    return prepared, spare


def encode_masked(
    tokenizer: Any,
    masked: Sequence[Masked],
    sentinels: Sequence[str],
    max_tokens: int,
    max_target_tokens: int,
) -> list[tuple[list[int], list[int]]]:
    """Return the ids of each text and of its target, cut to the limits, without special tokens.

    `tokenizer` must come from `prepare_tokenizer`. A target is cut between entities: it loses those
    that do not fit, and those whose sentinel was cut off from the text, which no model could predict.
    """
    texts = [item.text[: max_tokens * CHARS_PER_TOKEN] for item in masked]
    targets = [
        "".join(f"{name} {entity}" for name, entity in target_entities(item.target, sentinels))
        for item in masked
    ]

    # One token more than the limit shows whether the last entity ends there.
    text_ids = _tokenize(tokenizer, texts, max_tokens)
    target_ids = _tokenize(tokenizer, targets, max_target_tokens + 1)

    sentinel_ids = set(tokenizer.convert_tokens_to_ids(list(sentinels)))
    return [
        (
            text,
            _predictable(target, sentinel_ids, sentinel_ids.intersection(text), max_target_tokens),
        )
        for text, target in zip(text_ids, target_ids, strict=True)
    ]


def _tokenize(tokenizer: Any, texts: Sequence[str], max_tokens: int) -> list[list[int]]:
    if not texts:
        return []

    encoded = tokenizer(
        list(texts),
        add_special_tokens=False,
        truncation=True,
        max_length=max_tokens,
        return_attention_mask=False,
        return_token_type_ids=False,
    )
    ids: list[list[int]] = encoded["input_ids"]
    return ids


def _predictable(
    target: list[int], sentinel_ids: AbstractSet[int], visible: AbstractSet[int], limit: int
) -> list[int]:
    """Return the first entities of a target that are visible and end within `limit`.

    Each entity reaches from its sentinel to the next.
    """
    kept = 0
    starts = [position for position, token in enumerate(target) if token in sentinel_ids]
    for start, end in pairwise([*starts, len(target)]):
        if target[start] not in visible or end > limit:
            break
        kept = end
    return target[:kept]
