"""The ablations of SANTA: which recipe makes which row of the paper's table 3."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.training import santa as ablation
from purlin.training.data.pairs.pair import PairSource
from purlin.training.santa.recipe import SantaRecipe, Stage, StageTeacher
from tests.support.files import write_jsonl
from tests.support.hash_encoder import HashEncoder

RECIPE = SantaRecipe(
    name="tiny",
    pairs=(PairSource("pairs", Path("x")),),
    stage=(
        Stage(name="decoder", trains="decoder", sda=0.0, mep=1.0),
        Stage(name="pretrain", mep=1.0, temperature=0.05),
        Stage(name="in-batch", temperature=0.05),
        Stage(name="hard", hard_negatives=1),
    ),
)


def stages(cell: str, recipe: SantaRecipe = RECIPE) -> list[tuple[str, float, float, str]]:
    cell_recipe = ablation.recipe_of_cell(recipe, cell, 1)
    return (
        [(stage.name, stage.sda, stage.mep, stage.mask) for stage in cell_recipe.stage]
        if cell_recipe
        else []
    )


def test_cells_are_the_rows_of_table_3() -> None:
    zero_shot = ["baseline", "+MEP", "+SDA", "span mask", "entity mask", "+SDA +teacher", "teacher"]
    assert [cell for cell in ablation.CELLS if "," not in cell] == zero_shot
    assert {f"{cell}, in-batch" for cell in zero_shot} <= set(ablation.CELLS)

    assert stages("baseline") == []
    assert stages("baseline, in-batch") == [("in-batch", 1.0, 0.0, "entity")]
    # Alignment alone has no use for a decoder.
    assert stages("+SDA") == [("pretrain", 1.0, 0.0, "entity")]
    assert stages("+MEP") == [("decoder", 0.0, 1.0, "entity"), ("pretrain", 0.0, 1.0, "entity")]
    assert stages("span mask, in-batch") == [
        ("decoder", 0.0, 1.0, "span"), ("pretrain", 1.0, 1.0, "span"), ("in-batch", 1.0, 0.0, "entity")
    ]  # fmt: skip
    assert [name for name, *_ in stages("entity mask, hard negatives")] == [
        "decoder", "pretrain", "in-batch", "hard"
    ]  # fmt: skip


def test_recipes_without_a_decoder_stage_have_all_rows_too() -> None:
    plain = replace(RECIPE, stage=RECIPE.stage[1:])
    assert stages("entity mask, in-batch", plain) == [
        ("pretrain", 1.0, 1.0, "entity"), ("in-batch", 1.0, 0.0, "entity")
    ]  # fmt: skip


def test_dpr_has_two_encoders_and_dot_products() -> None:
    cell_recipe = ablation.recipe_of_cell(RECIPE, "DPR, in-batch", 7, "bert")
    assert cell_recipe
    assert (cell_recipe.model.base, cell_recipe.model.query_base, cell_recipe.model.pooling) == (
        "bert",
        "bert",
        "first",
    )
    assert (cell_recipe.model.similarity, cell_recipe.seed) == ("dot", 7)
    assert [(stage.name, stage.temperature) for stage in cell_recipe.stage] == [("in-batch", 1.0)]


def test_a_teacher_joins_alignment_or_stands_alone(tmp_path: Path) -> None:
    teacher = StageTeacher(base=tmp_path, temperature=0.02)
    for cell, sda in (("+SDA +teacher", 1.0), ("teacher", 0.0), ("+SDA", 1.0)):
        cell_recipe = ablation.recipe_of_cell(RECIPE, f"{cell}, in-batch", 1, teacher=teacher)
        assert cell_recipe

        pretraining, fine_tuning = cell_recipe.stage
        assert (pretraining.sda, pretraining.mep) == (sda, 0.0)
        assert pretraining.teacher == (teacher if "teacher" in cell else None)
        assert fine_tuning.teacher is None


def test_a_row_has_means_deviations_and_paired_differences() -> None:
    runs = [{"c": {"a": 0.2, "b": 0.6}}, {"c": {"a": 0.4, "b": 1.0}}]
    base = [{"c": {"a": 0.1, "b": 0.3}}]
    gains = np.array([0.3 - 0.1, 0.8 - 0.3])
    half = 1.96 * gains.std() / np.sqrt(2)
    deviation = np.std([0.4, 0.7], ddof=1)
    assert ablation.table_row("row", runs, base) == (
        f"| row | 0.5500 s {deviation:.4f} (+0.3500 ± {half:.4f}) |"
    )


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, str]]]:
    """Stands for training: the directories and stages of each call."""
    calls: list[tuple[str, str]] = []

    def train(recipe: SantaRecipe, out: Path, **_: Any) -> Path:
        calls.append((out.parent.name, " ".join(stage.name for stage in recipe.stage)))
        return out

    monkeypatch.setattr(ablation, "train_santa", train)
    monkeypatch.setattr(ablation, "export_base", lambda recipe, directory: directory)
    monkeypatch.setattr(ablation, "load_encoder", lambda directory: HashEncoder())
    return calls


def test_the_table_has_a_row_for_each_cell_on_a_published_set(
    trained: list[tuple[str, str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(ablation.config, "load_recipe", lambda *_, **__: RECIPE)
    rows = [
        {"idx": number, "docstring_tokens": [word], "function": f"def {word}(): pass"}
        for number, word in enumerate(["open", "close"])
    ]
    test = write_jsonl(tmp_path / "test.jsonl", rows)
    command = [
        *("santa.py", "--data", tmp_path, "--recipe", "x", "--out", tmp_path / "out"),
        *("--judged", f"advtest={test}", "--seeds", 1, 2, "--cells", "+SDA", "+SDA, in-batch"),
        "--bm25",
    ]
    monkeypatch.setattr(sys, "argv", list(map(str, command)))
    ablation.main()

    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "| cell | advtest MRR@100 (2 queries) | advtest nDCG@100 (2 queries) |"
    names = [line.split(" | ")[0].removeprefix("| ") for line in lines[2:]]
    assert names == ["baseline", "+SDA", "+SDA, in-batch", "BM25"]
    assert trained == [("+SDA", "pretrain"), ("+SDA", "pretrain in-batch")] * 2

    # A second call reads what the first one measured.
    ablation.main()
    assert len(trained) == 4
    assert capsys.readouterr().out.splitlines() == lines
