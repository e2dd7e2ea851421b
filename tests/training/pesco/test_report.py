"""The report, and the figure of accuracy."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from purlin.training.pesco import publishing
from purlin.training.pesco.figure import draw_accuracy
from purlin.training.pesco.report import render_report
from purlin.training.pesco.teacher import Teacher
from purlin.training.pesco.texts import TextPool
from tests.training.pesco.topics import TEXT_POOL, outcome_of, recipe_of

pytestmark = pytest.mark.usefixtures("one_process", "graphs_once")


class Page(HTMLParser):
    """Which tags there are, and that they close."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_report_is_well_formed_and_escaped(base: Path, tmp_path: Path) -> None:
    labels = ("<script>river</script>", 'music" onload="x')
    pool = TextPool((*TEXT_POOL.texts, "<img src=x onerror=alert(1)> & more"))
    text = render_report(outcome_of(recipe_of(base, rounds=2), tmp_path, labels=labels, pool=pool))
    read = Page()
    read.feed(text)

    assert read.open == []
    assert read.links == []
    assert "script" not in read.tags
    assert "img" not in read.tags
    assert read.tags.count("svg") == 1
    for heading in ("Class balance", "Rounds", "Least confident", "without training", "typical"):
        assert heading in text


def test_report_names_labels_without_texts(base: Path, tmp_path: Path) -> None:
    # The last label has the vectors of the first, and so never the best score.
    repeated_labels = ("river bank", "music", "river  bank")
    recipe = replace(
        recipe_of(base, rounds=1), teacher=Teacher(calibrate=False, views=("prompts",))
    )
    outcome = outcome_of(recipe, tmp_path, labels=repeated_labels)

    assert publishing.summarize(outcome)["shares"]["river  bank"] == 0
    assert "No text got these labels: river  bank." in render_report(outcome)
    assert len(outcome.published.vectors) == len(outcome.published.offsets) == 3


def test_report_describes_the_published_classifier(base: Path, tmp_path: Path) -> None:
    outcome = outcome_of(recipe_of(base, rounds=1), tmp_path)
    labels = np.zeros(len(TEXT_POOL.texts), np.int64)
    swallowed = replace(
        outcome.trained, pseudo_labels=replace(outcome.trained.pseudo_labels, labels=labels)
    )

    assert "No text got these labels: music." in render_report(replace(outcome, trained=swallowed))
    assert "No text got" not in render_report(
        replace(outcome, trained=swallowed, rejection="music is gone")
    )


def test_curves_end_with_their_last_value(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from matplotlib.axes import Axes

    drawn: list[np.ndarray] = []
    plot = Axes.plot

    def noting(axes: Axes, xs: Any, ys: Any, **options: Any) -> Any:
        drawn.append(np.array(ys))
        return plot(axes, xs, ys, **options)

    monkeypatch.setattr(Axes, "plot", noting)
    draw_accuracy({"a": [[0.5, 0.7, 0.9], [0.7, 0.9]]}, tmp_path / "figure.png")
    np.testing.assert_allclose(drawn, [[0.6, 0.8, 0.9]])
