"""`purlin classifier`: what is done with trained classifiers."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from purlin.cli.commands import app
from purlin.index import builds
from purlin.index.builds.catalogs import CLASSIFIERS
from purlin.index.classify.trained import ABOUT, publish_classifier
from purlin.index.errors import NotFound
from tests.support.tiny import LABELS, staged


def run(home: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["classifier", *arguments, "--home", str(home)])


def test_classifiers_are_listed_shown_activated_and_deleted(tmp_path: Path) -> None:
    assert "make one with `purlin train pesco`" in run(tmp_path, "list").output
    first, second = (
        publish_classifier(tmp_path, "tickets", staged(tmp_path / str(number), labels=labels))
        for number, labels in enumerate((LABELS, LABELS[::-1]))
    )

    header, row = run(tmp_path, "list").output.splitlines()
    assert header.split() == ["classifier", "labels", "trained", "build"]
    assert (*row.split()[:2], row.split()[-1]) == ("tickets", "3", second)

    shown = run(tmp_path, "show", "tickets").output
    assert shown.startswith(f"build {first}\nbuild {second}\nactive {second}, ")
    assert '"agreement": 0.9' in shown

    assert run(tmp_path, "activate", "tickets", first).output == f"tickets: {first} is active\n"
    assert builds.current(tmp_path, "tickets", CLASSIFIERS).name == first

    assert run(tmp_path, "delete", "tickets").output == "tickets: deleted\n"
    assert builds.names(tmp_path, CLASSIFIERS) == []


def test_a_damaged_classifier_is_listed_as_refused(tmp_path: Path) -> None:
    publish_classifier(tmp_path, "tickets", staged(tmp_path / "staged"))
    (builds.current(tmp_path, "tickets", CLASSIFIERS) / ABOUT).write_text("{}")

    listed = run(tmp_path, "list").output
    assert "refused" in listed.splitlines()[1]
    assert "tickets: The classifier's file" in listed


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["show", "tickets"], "no classifier 'tickets'"),
        (["activate", "tickets", "x"], "Classifier 'tickets' has no build 'x'. Builds: none."),
        (["delete", "tickets"], "no classifier 'tickets'"),
    ],
)
def test_unknown_classifiers_are_not_found(
    tmp_path: Path, arguments: list[str], words: str
) -> None:
    error = run(tmp_path, *arguments).exception
    assert isinstance(error, NotFound)
    assert words in str(error)
