"""The losses of SANTA, and a way to take the contrastive one over batches larger than memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

IGNORED = -100  # the target of a position that does not count, as torch's cross entropy has it
PART = 512  # rows of logits at a time


def contrastive(
    queries: Tensor,
    passages: Tensor,
    positives: Tensor,
    *,
    temperature: float = 1.0,
    excluded: Tensor | None = None,
) -> Tensor:
    """SANTA's eq. 3 and 5: mean over the queries of -log softmax at their positive passage.

    `queries` (B, D); `passages` (P, D), P >= B: the positives of all queries and any hard negatives;
    `positives` (B,) says which passage belongs to each query. All other passages are its negatives, but for those
    where `excluded` (B, P) is true: passages that only look irrelevant, such as a second copy of the positive.
    Similarity is the dot product over the temperature.
    """
    scores = queries @ passages.T / temperature  # (B, P)
    if excluded is not None:
        own = F.one_hot(positives, passages.shape[0]).bool()
        scores = scores.masked_fill(excluded & ~own, float("-inf"))
    return F.cross_entropy(scores.float(), positives)


def reconstruction(states: Tensor, words: Tensor, targets: Tensor) -> Tensor:
    """SANTA's eq. 7: -log P of each target token given those before it, averaged over the batch's tokens.

    `states` (N, D) for the N of `targets` (B, K) that are not IGNORED; their products with `words` (V, D) are the
    logits, which are made and forgotten `PART` rows at a time: all of them would take gigabytes. Under autocast the
    products are of its type. The paper writes the sum over one document's tokens; the mean keeps the scale of the loss
    whatever the targets' lengths are.
    """
    wanted = targets[targets != IGNORED]
    device = states.device.type
    if torch.is_autocast_enabled(device):
        states, words = (each.to(torch.get_autocast_dtype(device)) for each in (states, words))
    total: Tensor = _CrossEntropy.apply(states, words, wanted)  # type: ignore[no-untyped-call]
    return total / max(1, len(wanted))


class _CrossEntropy(torch.autograd.Function):
    """Sum over rows of -log softmax(states @ words.T) at `wanted` (N,); gradients are computed on the way forward."""

    @staticmethod
    def forward(ctx: Any, states: Tensor, words: Tensor, wanted: Tensor) -> Tensor:
        dtype = torch.promote_types(states.dtype, torch.float32)
        total = torch.zeros((), dtype=dtype, device=states.device)
        of_states, of_words = torch.zeros_like(states), torch.zeros_like(words, dtype=dtype)
        for start in range(0, len(wanted), PART):
            rows = slice(start, start + PART)
            part, right = states[rows], wanted[rows, None]
            scores = (part @ words.T).to(dtype)
            highest = scores.amax(1, keepdim=True)
            of_right = scores.gather(1, right)
            chances = scores.sub_(highest).exp_()
            whole = chances.sum(1, keepdim=True)
            total += (whole.log() + highest - of_right).sum()
            chances.div_(whole).scatter_add_(
                1, right, torch.full_like(of_right, -1.0)
            )  # now the scores' gradients
            slope = chances.to(states.dtype)
            of_states[rows] = slope @ words
            of_words += slope.T @ part
        ctx.save_for_backward(of_states, of_words)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        of_states, of_words = ctx.saved_tensors
        return of_states * gradients[0], of_words * gradients[0], None


def cached_backward(
    encode: Sequence[Callable[[], Tensor]],
    loss: Callable[[Tensor], Tensor],
) -> Tensor:
    """Backward of `loss(cat([part() for part in encode]))` in the memory of one part (GradCache, Gao et al. 2021).

    Each part gives vectors (n, D) and is computed twice, the second time with the same random numbers. Gradients are
    added to the parameters'. Returns the loss, detached.
    """
    states, found = [], []
    for part in encode:
        states.append(_random_state())
        with torch.no_grad():
            found.append(part())
    vectors = torch.cat(found).requires_grad_()
    value = loss(vectors)
    value.backward()  # type: ignore[no-untyped-call]
    assert vectors.grad is not None
    gradients = torch.split(vectors.grad, [len(part) for part in found])
    for part, state, gradient in zip(encode, states, gradients, strict=True):
        with _replayed(state):
            part().backward(gradient)  # type: ignore[no-untyped-call]
    return value.detach()


RandomState = tuple[Tensor, list[Tensor]]


def _random_state() -> RandomState:
    return (
        torch.get_rng_state(),
        torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    )


@contextmanager
def _replayed(state: RandomState) -> Iterator[None]:
    now = _random_state()
    _set_random_state(state)
    try:
        yield
    finally:
        _set_random_state(now)


def _set_random_state(state: RandomState) -> None:
    torch.set_rng_state(state[0])
    if state[1]:
        torch.cuda.set_rng_state_all(state[1])
