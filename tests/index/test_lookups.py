"""What is made at its first use."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from purlin.index.lookups import Once


def test_a_value_is_made_once_however_many_threads_use_it() -> None:
    made: list[object] = []

    def make() -> object:
        made.append(object())
        return made[-1]

    once = Once(make)
    assert once.value is None
    with ThreadPoolExecutor(8) as pool:
        values = list(pool.map(lambda _: once(), range(50)))

    assert len(made) == 1
    assert values == made * 50
    assert once.value is made[0]


def test_a_value_that_could_not_be_made_is_made_at_the_next_use() -> None:
    outcomes = iter([None, 3])

    def make() -> int:
        outcome = next(outcomes)
        if outcome is None:
            raise OSError("not yet")
        return outcome

    once = Once(make)
    with pytest.raises(OSError, match="not yet"):
        once()
    assert once() == once() == 3
