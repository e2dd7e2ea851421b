"""The losses of SANTA and of rankers, and gradient caching for contrastive batches larger than
memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

IGNORED = -100  # target of a position that does not count, as in torch's cross entropy
PART = 512  # rows of logits computed at a time


def contrastive(
    queries: Tensor,
    passages: Tensor,
    positives: Tensor,
    *,
    temperature: float = 1.0,
    excluded: Tensor | None = None,
) -> Tensor:
    """Return SANTA's eq. 3 and 5: the mean over queries of -log softmax at the positive passage.

    `queries` (B, D); `passages` (P, D) with P >= B: the positives of all queries, then any hard
    negatives; `positives` (B,): the row of each query's passage. All other passages are negatives,
    except where `excluded` (B, P) is true: passages that only look irrelevant, such as a second
    copy of the positive. Similarity is the dot product divided by the temperature.
    """
    scores = queries @ passages.T / temperature  # (B, P)

    if excluded is not None:
        own = F.one_hot(positives, passages.shape[0]).bool()
        scores = scores.masked_fill(excluded & ~own, float("-inf"))

    return F.cross_entropy(scores.float(), positives)


def reconstruction(states: Tensor, words: Tensor, targets: Tensor) -> Tensor:
    """Return SANTA's eq. 7: the mean over target tokens of -log P given the tokens before.

    `states` (N, D) belong to the N of `targets` (B, K) that are not IGNORED; their products with
    `words` (V, D) are the logits. Only `PART` rows of logits exist at a time, as all of them would
    take gigabytes. Under autocast the products have its type. The paper sums over the tokens of one
    document; the mean keeps the scale of the loss independent of the targets' lengths.
    """
    labels = targets[targets != IGNORED]

    device = states.device.type
    if torch.is_autocast_enabled(device):
        dtype = torch.get_autocast_dtype(device)
        states, words = states.to(dtype), words.to(dtype)

    total: Tensor = _CrossEntropy.apply(states, words, labels)  # type: ignore[no-untyped-call]
    return total / max(1, len(labels))


def listwise(scores: Tensor, relevant: Tensor) -> Tensor:
    """Return the mean over lists of -log softmax at the relevant candidate (ListNet, top one).

    `scores` (B, P); `relevant` (B,) counts candidates from 1. 0 is "none of them", a choice whose
    score is 0: scores thereby mean the same for every query, as the logit of being relevant.
    """
    choices = F.pad(scores.float(), (1, 0), value=0.0)  # (B, 1 + P)
    return F.cross_entropy(choices, relevant)


def list_divergence(scores: Tensor, teacher: Tensor) -> Tensor:
    """Return the mean over lists of KL(teacher || student), softmax over the P candidates (B, P)."""
    student_logs = F.log_softmax(scores.float(), dim=1)
    teacher_logs = F.log_softmax(teacher.float(), dim=1)
    return F.kl_div(student_logs, teacher_logs, reduction="batchmean", log_target=True)


class _CrossEntropy(torch.autograd.Function):
    """Sum over rows of -log softmax(states @ words.T) at `labels` (N,).

    Gradients are computed in the forward pass, while each part of the logits exists.
    """

    @staticmethod
    def forward(ctx: Any, states: Tensor, words: Tensor, labels: Tensor) -> Tensor:
        dtype = torch.promote_types(states.dtype, torch.float32)
        total = torch.zeros((), dtype=dtype, device=states.device)
        states_gradient = torch.zeros_like(states)
        words_gradient = torch.zeros_like(words, dtype=dtype)

        for start in range(0, len(labels), PART):
            rows = slice(start, start + PART)
            part, correct = states[rows], labels[rows, None]
            scores = (part @ words.T).to(dtype)
            highest = scores.amax(1, keepdim=True)
            correct_scores = scores.gather(1, correct)

            exponentials = scores.sub_(highest).exp_()
            sums = exponentials.sum(1, keepdim=True)
            total += (sums.log() + highest - correct_scores).sum()

            # softmax - one_hot: the gradient of the scores, in the memory of the scores.
            minus_one = torch.full_like(correct_scores, -1.0)
            exponentials.div_(sums).scatter_add_(1, correct, minus_one)
            slope = exponentials.to(states.dtype)
            states_gradient[rows] = slope @ words
            # Words of a frozen encoder need none, which saves a third of the products.
            if ctx.needs_input_grad[1]:
                words_gradient += slope.T @ part

        ctx.save_for_backward(states_gradient, words_gradient)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        states_gradient, words_gradient = ctx.saved_tensors
        return states_gradient * gradients[0], words_gradient * gradients[0], None


def cached_backward(
    encode: Sequence[Callable[[], Tensor]],
    loss: Callable[[Tensor], Tensor],
    backward: Callable[[Tensor], None] = Tensor.backward,
) -> Tensor:
    """Backpropagate `loss(cat([part() for part in encode]))` in the memory of one part.

    GradCache (Gao et al. 2021). Each part gives vectors (n, D) and is computed twice, the second
    time with the same random numbers. Gradients are added to those of the parameters. Returns the
    loss, detached. `backward` computes the gradients of the loss.
    """
    # The generators of the CPU and of all GPUs are set back for the second time.
    gpus = range(torch.cuda.device_count())
    random_states, outputs = [], []
    for part in encode:
        random_states.append((torch.get_rng_state(), [*map(torch.cuda.get_rng_state, gpus)]))
        with torch.no_grad():
            outputs.append(part())

    # The loss is differentiated with respect to the vectors only, which are small.
    vectors = torch.cat(outputs).requires_grad_()
    value = loss(vectors)
    backward(value)
    assert vectors.grad is not None

    gradients = torch.split(vectors.grad, [len(output) for output in outputs])
    for part, (cpu_state, gpu_states), gradient in zip(
        encode, random_states, gradients, strict=True
    ):
        with torch.random.fork_rng(gpus):
            torch.set_rng_state(cpu_state)
            torch.cuda.set_rng_state_all(gpu_states)
            part().backward(gradient)  # type: ignore[no-untyped-call]
    return value.detach()
