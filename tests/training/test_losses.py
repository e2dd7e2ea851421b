"""Losses compared with their equations, and cached gradients with plain ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from random import Random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import log_softmax
from torch import Tensor, nn

from purlin.training import losses
from purlin.training.losses import (
    IGNORED,
    cached_backward,
    contrastive,
    list_divergence,
    listwise,
    reconstruction,
)


def by_equation(
    queries: Tensor,
    passages: Tensor,
    positives: Sequence[int],
    temperature: float,
    excluded: Sequence[Sequence[bool]],
) -> float:
    """Return the mean over queries of -f(q, d+) + log(e^f(q, d+) + sum over d- of e^f(q, d-))."""
    total = 0.0

    for row, (query, positive) in enumerate(zip(queries.tolist(), positives, strict=True)):
        f = [
            sum(a * b for a, b in zip(query, passage, strict=True)) / temperature
            for passage in passages.tolist()
        ]
        negatives = [f[d] for d in range(len(f)) if d != positive and not excluded[row][d]]
        total += -f[positive] + math.log(
            math.exp(f[positive]) + sum(math.exp(each) for each in negatives)
        )
    return total / len(queries)


@given(
    queries=st.integers(1, 6),
    more=st.integers(0, 8),
    dim=st.integers(1, 7),
    temperature=st.floats(0.05, 4),
    seed=st.integers(0, 1 << 30),
)
def test_the_contrastive_loss_is_the_papers(
    queries: int, more: int, dim: int, temperature: float, seed: int
) -> None:
    """With positives in any order, with and without hard negatives and exclusions."""
    random = torch.Generator().manual_seed(seed)
    q = torch.rand(queries, dim, generator=random, dtype=torch.float64) - 0.5
    p = torch.rand(queries + more, dim, generator=random, dtype=torch.float64) - 0.5
    positives = torch.randperm(len(p), generator=random)[:queries]
    excluded = torch.rand(len(q), len(p), generator=random) < 0.3
    loss = contrastive(q, p, positives, temperature=temperature, excluded=excluded)

    assert float(loss) == pytest.approx(
        by_equation(q, p, positives.tolist(), temperature, excluded.tolist()), rel=1e-5, abs=1e-5
    )


def test_an_excluded_positive_still_counts() -> None:
    q, p = torch.randn(2, 4), torch.randn(5, 4)
    everything = torch.ones(2, 5, dtype=torch.bool)

    # The positive is compared with nothing.
    assert float(contrastive(q, p, torch.arange(2), excluded=everything)) == 0.0
    only_own = torch.eye(2, 5, dtype=torch.bool)
    assert torch.equal(
        contrastive(q, p, torch.arange(2), excluded=only_own),
        contrastive(q, p, torch.arange(2), excluded=None),
    )


def test_what_is_excluded_gets_no_gradient() -> None:
    q, p = torch.randn(2, 4), torch.randn(5, 4, requires_grad=True)
    excluded = torch.zeros(2, 5, dtype=torch.bool)
    excluded[:, 3] = True
    contrastive(q, p, torch.arange(2), excluded=excluded).backward()
    assert p.grad is not None
    assert [bool(row.abs().sum() > 0) for row in p.grad] == [True, True, True, False, True]


def test_half_precision_vectors_give_a_finite_loss() -> None:
    q, p = (
        torch.randn(2, 4, dtype=torch.bfloat16) * 20,
        torch.randn(3, 4, dtype=torch.bfloat16) * 20,
    )
    loss = contrastive(
        q, p, torch.arange(2), temperature=0.01, excluded=torch.ones(2, 3, dtype=torch.bool)
    )

    assert loss.dtype == torch.float32
    assert float(loss) == 0.0


@given(
    lengths=st.lists(st.integers(0, 5), min_size=1, max_size=5),
    words=st.integers(1, 9),
    part=st.integers(1, 8),
    seed=st.integers(0, 1 << 30),
)
def test_reconstruction_is_the_papers_per_token(
    lengths: list[int], words: int, part: int, seed: int
) -> None:
    """Eq. 7 sums -log P over a target's tokens; ours is the mean over all tokens."""
    random = torch.Generator().manual_seed(seed)
    targets = torch.full((len(lengths), max(lengths)), IGNORED)
    for row, length in enumerate(lengths):
        targets[row, :length] = torch.randint(words, (length,), generator=random)
    states, vocabulary = (
        torch.randn(n, 3, generator=random, dtype=torch.float64) for n in (sum(lengths), words)
    )
    total, count = 0.0, 0
    for row, length in enumerate(lengths):
        for target in targets[row, :length].tolist():
            chances = [math.exp(float(states[count] @ word)) for word in vocabulary]
            total -= math.log(chances[target] / sum(chances))
            count += 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(losses, "PART", part)
        loss = float(reconstruction(states, vocabulary, targets))
        inputs = [each.requires_grad_() for each in (states, vocabulary)]
        assert torch.autograd.gradcheck(lambda *tensors: reconstruction(*tensors, targets), inputs)

    assert loss == pytest.approx(total / max(1, count), rel=1e-5, abs=1e-6)


def test_reconstruction_equals_torch_in_half_precision() -> None:
    """Also with scores whose exponentials overflow."""
    random = torch.Generator().manual_seed(3)
    states, vocabulary = (
        30 * torch.randn(700, 8, generator=random),
        torch.randn(50, 8, generator=random),
    )
    targets = torch.randint(50, (7, 100), generator=random)
    plain, ours = (
        [each.clone().requires_grad_() for each in (states, vocabulary)] for _ in range(2)
    )
    with torch.autocast("cpu", torch.bfloat16):
        scores = nn.functional.linear(*plain)
        loss = reconstruction(*ours, targets)
    expected = nn.functional.cross_entropy(scores.float(), targets.flatten())
    (3 * expected).backward()
    (3 * loss).backward()

    torch.testing.assert_close(loss, expected)
    for our_input, torch_input in zip(ours, plain, strict=True):
        assert our_input.grad is not None
        assert torch_input.grad is not None
        torch.testing.assert_close(
            our_input.grad,
            torch_input.grad,
            rtol=0.02,
            atol=0.01 * float(torch_input.grad.abs().max()),
        )


def test_words_of_a_frozen_encoder_leave_the_states_gradient_as_it_is() -> None:
    torch.manual_seed(4)
    words, targets = torch.randn(9, 5), torch.randint(0, 9, (3, 4))
    gradients = []
    for is_trained in (True, False):
        torch.manual_seed(5)
        states = torch.randn(12, 5, requires_grad=True)
        table = words.clone().requires_grad_(is_trained)
        reconstruction(states, table, targets).backward()
        assert (table.grad is not None) == is_trained
        gradients.append(states.grad)
    assert torch.equal(*gradients)


def test_nothing_to_reconstruct_has_zero_loss() -> None:
    states = torch.randn(0, 3, requires_grad=True)
    loss = reconstruction(states, torch.randn(7, 3), torch.full((3, 2), IGNORED))
    loss.backward()
    assert float(loss.detach()) == 0.0
    assert states.grad is not None


class Small(nn.Module):
    """Two layers with dropout between them."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(6, 16), nn.Dropout(0.5), nn.Linear(16, 4))

    def forward(self, rows: Tensor) -> Tensor:
        return self.layers(rows)


def gradients(model: nn.Module) -> list[Tensor]:
    all_gradients = [weight.grad for weight in model.parameters()]
    assert all(gradient is not None for gradient in all_gradients)
    return [gradient.clone() for gradient in all_gradients if gradient is not None]


def aligned(vectors: Tensor) -> Tensor:
    half = len(vectors) // 2
    return contrastive(vectors[:half], vectors[half:], torch.arange(half), temperature=0.3)


def in_one_go(
    model: nn.Module, parts: Sequence[Tensor], loss: Callable[[Tensor], Tensor]
) -> tuple[Tensor, list[Tensor]]:
    model.zero_grad()
    value = loss(torch.cat([model(part) for part in parts]))
    value.backward()
    return value.detach(), gradients(model)


@given(sizes=st.lists(st.integers(1, 4), min_size=1, max_size=5), seed=st.integers(0, 1 << 30))
def test_a_batch_in_parts_gives_the_gradients_of_the_whole(sizes: list[int], seed: int) -> None:
    """With parts of different sizes, and dropout that draws as without parts."""
    torch.manual_seed(seed)
    model = Small()
    parts = [torch.randn(size, 6) for size in sizes]
    loss = aligned if sum(sizes) % 2 == 0 else lambda vectors: vectors.square().sum()
    torch.manual_seed(seed + 1)
    expected, plain = in_one_go(model, parts, loss)
    model.zero_grad()
    torch.manual_seed(seed + 1)
    value = cached_backward([partial(model, part) for part in parts], loss)

    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(gradients(model), plain)
    assert not value.requires_grad


def test_dropout_differs_between_parts() -> None:
    """A part is computed twice with the same random numbers, which then continue."""
    torch.manual_seed(0)
    model, rows, outputs = Small(), torch.randn(2, 6), list[Tensor]()

    def part() -> Tensor:
        outputs.append(model(rows))
        return outputs[-1]

    torch.manual_seed(1)
    cached_backward([part, part], lambda vectors: vectors.sum() * torch.rand(1)[0])
    after = torch.rand(4)
    first, second, first_again, second_again = outputs
    assert torch.equal(first, first_again)
    assert torch.equal(second, second_again)
    assert not torch.equal(first, second)
    torch.manual_seed(1)
    for _ in range(2):
        model(rows)
    torch.rand(1)  # the loss's own
    assert torch.equal(after, torch.rand(4))


def test_gradients_are_accumulated() -> None:
    torch.manual_seed(0)
    model = Small().eval()
    parts = [torch.randn(size, 6) for size in (3, 1)]
    _, once = in_one_go(model, parts, aligned)
    cached_backward([partial(model, part) for part in parts], aligned)
    torch.testing.assert_close(gradients(model), [2 * gradient for gradient in once])


def test_only_one_part_is_kept_in_memory() -> None:
    """First no graph is kept; then each part's graph is freed before the next part."""
    model, kept = Small().eval(), list[bool]()

    def part(rows: Tensor) -> Tensor:
        vectors = model(rows)
        kept.append(vectors.requires_grad)
        if vectors.requires_grad:
            vectors.register_hook(lambda _: order.append("backward"))
            order.append("forward")
        return vectors

    order = list[str]()
    cached_backward(
        [partial(part, torch.randn(2, 6)) for _ in range(3)], lambda vectors: vectors.sum()
    )
    assert kept == [False] * 3 + [True] * 3
    assert order == ["forward", "backward"] * 3


# -- lists -----------------------------------------------------------------------------------------


def lists(seed: int, count: int, size: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(2, count, size, generator=generator, dtype=torch.float64) * 3
    return scores[0], scores[1]


SIZES = {
    "seed": st.integers(0, 1 << 30),
    "count": st.integers(1, 5),
    "size": st.integers(2, 9),
}


@given(**SIZES)
def test_listwise_is_cross_entropy_with_a_choice_of_none(seed: int, count: int, size: int) -> None:
    scores, _ = lists(seed, count, size)
    relevant = [Random(seed + row).randint(0, size) for row in range(count)]
    total = 0.0
    for row, choice in zip(scores.tolist(), relevant, strict=True):
        total -= log_softmax([0.0, *row])[choice]
    loss = float(listwise(scores, torch.tensor(relevant)))
    assert loss == pytest.approx(total / count, rel=1e-5, abs=1e-6)


@given(**SIZES)
def test_list_divergence_is_kl_of_the_teacher_from_the_student(
    seed: int, count: int, size: int
) -> None:
    scores, teacher = lists(seed, count, size)
    total = 0.0
    for student_row, teacher_row in zip(scores.tolist(), teacher.tolist(), strict=True):
        p, q = log_softmax(teacher_row), log_softmax(student_row)
        total += sum(math.exp(a) * (a - b) for a, b in zip(p, q, strict=True))
    loss = float(list_divergence(scores, teacher))
    assert loss == pytest.approx(total / count, rel=1e-4, abs=1e-5)
