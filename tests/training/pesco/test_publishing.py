"""What of a run is exported and published."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from purlin.training.exporting import encoder as encoder_export
from purlin.training.exporting.checks import ExportRefused
from purlin.training.pesco import publishing
from purlin.training.pesco.check import CheckLimits
from tests.training.pesco.topics import (
    TEXT_POOL,
    publish_topics,
    published_classifier,
    recipe_of,
    stopping,
)

pytestmark = pytest.mark.usefixtures("one_process", "graphs_once")


def test_leftovers_of_an_export_are_not_published(base: Path, tmp_path: Path) -> None:
    leftovers = tmp_path / "out" / "classifier" / ".encoder-x" / "new"
    leftovers.mkdir(parents=True)
    (leftovers / "model.onnx").write_text("half")
    built = publish_topics(recipe_of(base, rounds=0), tmp_path / "out", tmp_path / "home")
    assert not [path for path in built.rglob("*") if path.name.startswith(".")]


def test_few_or_short_texts_are_not_all_that_weights_are_rounded_by() -> None:
    short = [f"play some jazz {number}" for number in range(400)]
    samples = publishing.quantization_samples(short)
    assert samples[:300] == short[:300]
    assert sum(map(len, samples)) > publishing.MIN_SAMPLE_CHARS

    long = [f"{text} in the kitchen, please" * 5 for text in short]
    assert publishing.quantization_samples(long) == long[:300]


def test_refused_export_resumes_without_training(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = recipe_of(base)
    eight = replace(recipe, export=replace(recipe.export, quantization="int8", serve="prompts"))
    monkeypatch.setattr(encoder_export, "MIN_COSINE", 2.0)
    with pytest.raises(ExportRefused, match="quantization"):
        publish_topics(eight, tmp_path / "out", tmp_path / "home")
    checked = replace(recipe, check=CheckLimits())

    # The first step would raise Stop.
    built = publish_topics(checked, tmp_path / "out", tmp_path / "home", progress=stopping(1))
    assert published_classifier(tmp_path / "home").build == built.name
    whole = publish_topics(checked, tmp_path / "again", tmp_path / "other")
    assert (built / "labels.npy").read_bytes() == (whole / "labels.npy").read_bytes()


def test_card_names_the_other_encoder(base: Path, tmp_path: Path) -> None:
    own_base = tmp_path / "large"
    shutil.copytree(base, own_base)
    recipe = recipe_of(base, rounds=0)
    with_teacher = replace(recipe, teacher=replace(recipe.teacher, base=str(own_base)))
    built = publish_topics(with_teacher, tmp_path / "out", tmp_path / "home")
    card = (built / "encoder/README.md").read_text()
    assert f"{len(TEXT_POOL.texts)} texts without labels, labelled also by large" in card
