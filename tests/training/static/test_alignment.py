"""Words aligned with those of their translations, against a loop written from the equations."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from purlin.training.static.alignment import Alignment, align, best_translations

TEXTS = st.lists(st.integers(0, 5), min_size=1, max_size=5)


def probabilities(alignment: Alignment) -> dict[tuple[int, int], float]:
    pairs = zip(alignment.source.tolist(), alignment.target.tolist(), strict=True)
    return dict(zip(pairs, alignment.probability.tolist(), strict=True))


@given(st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=8))
def test_probabilities_are_those_of_model_1(texts: list[tuple[list[int], list[int]]]) -> None:
    nothing = -1
    expected: dict[tuple[int, int], float] = defaultdict(lambda: 1.0)
    for _ in range(6):
        counts: dict[tuple[int, int], float] = defaultdict(float)
        totals: dict[int, float] = defaultdict(float)
        for source, target in texts:
            for word in target:
                norm = sum(expected[each, word] for each in [*source, nothing])
                for each in [*source, nothing]:
                    counts[each, word] += expected[each, word] / norm
                    totals[each] += expected[each, word] / norm
        expected = defaultdict(float, {key: n / totals[key[0]] for key, n in counts.items()})

    alignment = align([source for source, _ in texts], [target for _, target in texts])
    aligned = probabilities(alignment)
    assert aligned.keys() == {key for key in expected if key[0] != nothing}
    for key, probability in aligned.items():
        assert probability == pytest.approx(expected[key], abs=1e-4)

    occurrences: dict[int, float] = defaultdict(float)
    for (_, word), count in counts.items():
        occurrences[word] += count
    for source, target, inverse in zip(
        alignment.source, alignment.target, alignment.inverse, strict=True
    ):
        assert inverse == pytest.approx(counts[source, target] / occurrences[target], abs=1e-4)


def test_the_textbook_example() -> None:
    # das Haus / the house, das Buch / the book, ein Buch / a book: each word with its own.
    das, haus, buch, ein = range(4)
    the, house, book, a = range(4)
    alignment = align(
        [[das, haus], [das, buch], [ein, buch]], [[the, house], [the, book], [a, book]]
    )
    rows, shares = best_translations(alignment, 4, np.ones(4, bool), count=1, least=0.05)
    assert rows[:, 0].tolist() == [the, house, book, a]
    assert shares.tolist() == [[1.0]] * 4


def test_the_best_translations_are_likely_and_specific() -> None:
    alignment = Alignment(
        source=np.array([0, 0, 0, 0, 2]),
        target=np.array([0, 1, 2, 3, 3]),
        probability=np.array([0.5, 0.3, 0.15, 0.04, 1.0], np.float32),
        # Word 0 comes from everything.
        inverse=np.array([0.01, 1.0, 0.64, 1.0, 0.25], np.float32),
    )
    usable = np.array([True, True, True, True])
    rows, shares = best_translations(alignment, 3, usable, count=2, least=0.05)
    assert rows.tolist() == [[1, 2], [0, 0], [3, 0]]
    np.testing.assert_allclose(shares, [[0.3 / 0.45, 0.15 / 0.45], [0, 0], [1, 0]], rtol=1e-6)

    usable[1] = False
    rows, _ = best_translations(alignment, 3, usable, count=2, least=0.05)
    assert rows[0].tolist() == [2, 0]
