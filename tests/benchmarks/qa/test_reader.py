"""The benchmark that tunes a reader: what it fits, and under which weights."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.qa import reader as benchmark
from purlin.index.evaluation.answers import Question
from purlin.index.qa.features import PASSAGE_WEIGHTS, SPAN_WEIGHTS
from purlin.index.qa.reader_settings import ReaderSettings
from purlin.index.qa.sentences import SENTENCE_WEIGHTS


@dataclass
class FakeReader:
    """A reader that has only settings."""

    settings: Any
    cache: dict[bytes, Any] = field(default_factory=dict)


@dataclass
class FakeCorpus:
    name: str = "python"


def test_calibration_is_fitted_under_the_fitted_weights(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for weights in (PASSAGE_WEIGHTS, SPAN_WEIGHTS, SENTENCE_WEIGHTS):
        for name, weight in weights.items():
            monkeypatch.setitem(weights, name, weight)  # restored afterwards

    weights = {"prior_weight": 0.1, "calibration": (0.0,) * 6}
    reader = FakeReader(ReaderSettings(name="reader", max_tokens=256, files={}, **weights))
    questions = [
        Question("1", "what is the default of x?", ("1",), "a", "default value", "dev"),
        Question("2", "what is the default of y?", (), None, "default value", "dev"),
        Question("3", "why does z stop?", ("It ends.",), "b", "reason", "dev"),
    ]
    monkeypatch.setattr(benchmark.CachingReader, "load", lambda directory: reader)
    monkeypatch.setattr(benchmark, "load_corpora", lambda options: [(FakeCorpus(), questions)])
    passages, spans = np.full(len(PASSAGE_WEIGHTS), 2.0), np.full(1 + len(SPAN_WEIGHTS), 3.0)
    monkeypatch.setattr(benchmark, "fit_weights", lambda *_: (passages, spans, np.ones(1)))

    def fit_sentences(statements: list[tuple[Any, Question]], _: FakeReader) -> Any:
        assert [question.id for _, question in statements] == ["3"]
        # They decide which sentences are read.
        assert set(PASSAGE_WEIGHTS.values()) == {2.0}
        return np.full(1 + len(SENTENCE_WEIGHTS), 4.0), 1.0

    monkeypatch.setattr(benchmark, "fit_sentences", fit_sentences)

    def question_features(corpus: Any, reader: FakeReader, questions: list[Question]) -> Any:
        assert reader.settings.prior_weight == 3.0
        assert set(PASSAGE_WEIGHTS.values()) == {2.0}
        assert set(SPAN_WEIGHTS.values()) == {3.0}
        assert set(SENTENCE_WEIGHTS.values()) == {4.0}
        return np.arange(4.0 * len(questions)).reshape(-1, 4)

    written = []
    monkeypatch.setattr(benchmark, "question_features", question_features)
    monkeypatch.setattr(benchmark, "write_settings", lambda reader, _: written.append(reader))
    arguments = ["--reader", str(Path("dir")), "--on", "python", "q.jsonl", "--brief", "--write"]
    monkeypatch.setattr(sys, "argv", ["reader.py", *arguments])

    benchmark.main()
    (out,) = written
    assert out.settings.prior_weight == 3.0
    assert "prior_weight 3.0 SPAN" in capsys.readouterr().out
