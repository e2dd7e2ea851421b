"""Training questions as data; the reader's tests train on them."""

from __future__ import annotations

from purlin.training.data.questions import TrainingQuestion


def test_repr_is_stable_for_checkpoint_digests() -> None:
    question = TrainingQuestion("which", 3, 0, 2, "form")
    assert repr(question) == (
        "Asked(question='which', passage=3, start=0, end=2, form='form', answered=True)"
    )
