"""Training questions as data; the reader's tests train on them."""

from __future__ import annotations

from pathlib import Path

import pytest

from purlin.index.errors import InvalidInput
from purlin.training.data.questions.sources import QuestionSource
from purlin.training.dev import DevSet


def test_limit_of_no_questions_is_refused() -> None:
    message = "limit must be from 1 to 1,073,741,824, not 0"
    with pytest.raises(InvalidInput, match=message):
        QuestionSource(format="templates", path=Path("reference"), limit=0)
    with pytest.raises(InvalidInput, match=message):
        DevSet(name="dev", format="templates", path=Path("reference"), limit=0)
