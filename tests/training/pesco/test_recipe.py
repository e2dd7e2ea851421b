"""Recipes, those that are shipped too."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from purlin.index.errors import InvalidInput
from purlin.training.loop.settings import LoopSettings
from purlin.training.pesco.check import TrainingCheck
from purlin.training.pesco.recipe import PescoRecipe, Student, read_recipe
from purlin.training.pesco.teacher import Teacher
from tests.support.paths import ROOT


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("templates = ['no place']", "no place for the label"),
        ("templates = []", "no templates"),
        ("[student]\nloss = 'other'", "must be one of"),
        ("[student]\nfirst = 0.5\nlimit = 0.2", "limit must be"),
        ("[teacher]\nviews = []", "at least one view"),
        ("[model]\nsimilarity = 'dot'", "cosine"),
        ("[model]\nquery_base = 'x'", "one encoder"),
        ("[student]\nrnds = 3", "rounds"),
        ("seed = -1", "seed must be from 0"),
    ],
)
def test_invalid_recipes_are_refused(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "recipe.toml").write_text(content)
    with pytest.raises(InvalidInput, match=message):
        read_recipe(tmp_path / "recipe.toml")


def test_shipped_recipes_hold_their_settings() -> None:
    assert read_recipe(ROOT / "configs" / "pesco-minilm.toml") == PescoRecipe()
    with_teacher = read_recipe(ROOT / "configs" / "pesco-minilm-mpnet.toml")
    assert with_teacher.teacher.base == "encoders/all-mpnet-base-v2"
    assert replace(with_teacher, teacher=replace(with_teacher.teacher, base=None)) == PescoRecipe()
    base_size = read_recipe(ROOT / "configs" / "pesco-mpnet.toml")
    default = PescoRecipe()
    model = replace(default.model, base="sentence-transformers/all-mpnet-base-v2")
    export = replace(default.export, quantization="none")
    assert base_size == replace(default, model=model, export=export)
    paper = read_recipe(ROOT / "configs" / "pesco-simcse-bert-base.toml")
    assert paper.student.temperature == 0.07
    assert paper.student.loop.batch_size == 32
    assert paper.teacher == Teacher(calibrate=False, views=("prompts",), confidence="score")
    assert paper.model.pooling == "first"
    assert paper.student.loop.epsilon == 1e-6
    # Algorithm 1 has no check: no training is so bad that this one would reject it.
    worst = TrainingCheck(kept=0.0, halves_before=1.0, halves=-1.0, spread=0.0)
    assert worst.verdict(paper.check) == ""


def test_template_file_overrides_the_recipe(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("x {label}\n")
    assert read_recipe(None, tmp_path / "t.txt") == replace(PescoRecipe(), templates=("x {label}",))


def test_sample_doubles_until_the_limit() -> None:
    student = Student(first=0.05, growth=2.0, limit=0.3)

    assert [student.texts(number, 1000) for number in range(5)] == [50, 100, 200, 300, 300]
    # A batch at least.
    assert student.texts(0, 100) == 32


def test_trained_texts_are_counted_in_each_epoch() -> None:
    loop = LoopSettings(batch_size=10)
    student = Student(first=0.1, growth=2.0, limit=0.3, rounds=3, loop=loop)

    assert student.trained_texts(1000) == 100 + 200 + 300
    thrice = replace(student, loop=replace(loop, epochs=3.0))
    assert thrice.trained_texts(1000) == 3 * (100 + 200 + 300)
    # `steps` are those of a round, whatever it samples.
    assert replace(student, loop=replace(loop, steps=7)).trained_texts(1000) == 3 * 7 * 10
