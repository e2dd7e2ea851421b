"""What a recipe must have, and the recipes that are shipped."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from purlin.index.errors import InvalidInput, PurlinError
from purlin.training.data.pairs.pair import PairSource
from purlin.training.santa.recipe import SantaRecipe, Stage
from tests.support.paths import ROOT
from tests.support.santa import LOOP
from tests.support.training_runs import load_without_data


def test_groups_of_one_package_need_batches_of_one_source() -> None:
    with pytest.raises(InvalidInput, match="one-source") as error:
        Stage(name="a", loop=LOOP, group=4)
    assert error.value.field == "group"


def test_a_recipe_needs_pairs_and_a_stage() -> None:
    pairs, stage = (PairSource("pairs", Path("pairs.jsonl")),), (Stage(name="a"),)
    with pytest.raises(PurlinError, match=r"at least one \[\[pairs\]\]"):
        SantaRecipe(name="tiny", pairs=(), stage=stage)
    with pytest.raises(PurlinError, match=r"at least one \[\[stage\]\]"):
        SantaRecipe(name="tiny", pairs=pairs, stage=())


def test_a_stage_weighs_the_sources_it_takes() -> None:
    pairs = tuple(PairSource("pairs", Path("x"), name=name, weight=0.5) for name in "abc")
    named = Stage(name="named", pairs=("c", "a"), weights=(3.0, 2.0))
    recipe = SantaRecipe(
        name="tiny", pairs=pairs, stage=(named, Stage(name="few", pairs=("b",)), Stage(name="all"))
    )

    assert [recipe.sources_of(stage) for stage in recipe.stage] == [
        {0: 2.0, 2: 3.0}, {1: 0.5}, {0: 0.5, 1: 0.5, 2: 0.5}
    ]  # fmt: skip
    with pytest.raises(InvalidInput, match=r"weights must be from 1e-06 to 100, not 0"):
        Stage(name="a", pairs=("a",), weights=(0.0,))


# -- shipped recipes --------------------------------------------------------------------------------


CONFIGS = ROOT / "configs"


RECIPES = [*CONFIGS.glob("santa-*.toml"), CONFIGS / "labels-minilm.toml"]


@pytest.mark.parametrize("path", sorted(RECIPES), ids=lambda path: path.stem)
def test_shipped_recipes_are_valid(path: Path, tmp_path: Path) -> None:
    assert load_without_data(path, SantaRecipe, tmp_path).stage


# Per stage its batch size, rate, and epochs if the paper has them.
PAPER = {
    "santa-codet5-base": [(16, 5e-5, 6), (16, 1e-5, 6), (16, 1e-6, None)],
    "santa-t5-base": [(16, 1e-4, 6), (16, 5e-5, 60), (16, 1e-5, None)],
    "santa-codesearch": [(128, 5e-5, 10), (128, 2e-5, 12)],
    "santa-advtest-128": [(128, 5e-5, 10), (128, 1e-5, 12)],
}


@pytest.mark.parametrize("name", PAPER)
def test_recipes_have_the_papers_numbers(name: str) -> None:
    """Section 4 and appendices A.2 and A.4."""
    stages = tomllib.loads((CONFIGS / f"{name}.toml").read_text())["stage"]

    loops = [stage["loop"] for stage in stages]
    for loop, (batch_size, rate, epochs) in zip(loops, PAPER[name], strict=True):
        assert (loop["batch_size"], loop["learning_rate"]) == (batch_size, rate)
        assert loop["warmup"] == 0.1
        assert epochs in (loop.get("epochs"), None)
    assert (stages[-1]["depth"], stages[-1]["hard_negatives"]) == (100, 1)
    assert (stages[0]["sda"], stages[0]["mep"]) == (1.0, 1.0)


def test_the_papers_products_are_english_and_their_negatives_mined() -> None:
    content = tomllib.loads((CONFIGS / "santa-t5-base.toml").read_text())

    assert {source["locale"] for source in content["pairs"]} == {"us"}
    assert (content["dev"][0]["split"], content["pairs"][1]["split"]) == ("dev", "train")
    assert content["stage"][2]["labelled_share"] == 0.0


def test_what_the_paper_does_not_state_is_marked() -> None:
    for name in PAPER:
        lines = (CONFIGS / f"{name}.toml").read_text().splitlines()
        for key in ("max_norm", "precision", "weight_decay", "max_passage_tokens", "seed"):
            stated = [line for line in lines if line.startswith(f"{key} =")]
            assert stated
            assert all("not stated" in line for line in stated)
