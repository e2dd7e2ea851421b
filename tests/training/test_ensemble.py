"""Making an ensemble: its matrix, its sample of pairs, whole runs, and what is refused."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from purlin.cli.commands import app as command_line
from purlin.index.encoder import ENSEMBLE_ENCODER, SETTINGS, load_encoder
from purlin.index.errors import InvalidInput
from purlin.training.config import load_recipe
from purlin.training.data.pairs.pair import Pair, PairSource
from purlin.training.ensemble import EnsembleRecipe, draw, fit, make_ensemble
from tests.support.files import write_jsonl
from tests.support.paths import ROOT
from tests.support.static_files import WORDS, write_static
from tests.support.training_runs import load_without_data

ROWS = [
    {
        "summary": f"get {first} of the {second}",
        "code": f"def get_{first}({second}):\n    return {second}.{first}",
        "language": "python",
    }
    for first in WORDS[:6]
    for second in WORDS[3:7]
]
RECIPE = """
name = "joint"
dim = 5
sample = 20

[[parts]]
encoder = "wide"
share = 0.75

[[parts]]
encoder = "narrow"
share = 0.25

[[pairs]]
name = "python"
format = "pairs"
path = "pairs.jsonl"

[[dev]]
name = "same"
format = "pairs"
path = "pairs.jsonl"
"""
DEV = RECIPE[RECIPE.index("[[dev]]") :]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    write_static(tmp_path / "wide", dim=8)
    write_static(tmp_path / "narrow", WORDS[:-2], dim=4)
    write_jsonl(tmp_path / "pairs.jsonl", ROWS)
    (tmp_path / "recipe.toml").write_text(RECIPE)
    return tmp_path


def read(data: Path, text: str = RECIPE) -> EnsembleRecipe:
    (data / "recipe.toml").write_text(text)
    return load_recipe(data / "recipe.toml", EnsembleRecipe)


# -- the matrix ----------------------------------------------------------------------------------


def test_with_all_dimensions_products_are_weighted_sums() -> None:
    rng = np.random.default_rng(1)
    sample = rng.standard_normal((50, 7)).astype(np.float32)
    shares = np.array([0.8] * 4 + [0.2] * 3)

    matrix = fit(sample, shares, 7)

    for query in sample[:5]:
        for passage in sample[5:10]:
            parts = 0.8 * query[:4] @ passage[:4] + 0.2 * query[4:] @ passage[4:]
            assert (query @ matrix) @ (passage @ matrix) == pytest.approx(parts, abs=1e-4)


def test_fewer_dimensions_are_the_best_that_a_sample_has() -> None:
    rng = np.random.default_rng(2)
    sample = (rng.standard_normal((60, 7)) * np.geomspace(1, 0.1, 7)).astype(np.float32)
    shares = np.array([0.6] * 4 + [0.4] * 3)

    reduced = sample @ fit(sample, shares, 3)

    # Eckart and Young: no other three dimensions keep the products as well.
    left, values, _ = np.linalg.svd(sample * np.sqrt(shares), full_matrices=False)
    best = left[:, :3] * values[:3]
    np.testing.assert_allclose(reduced @ reduced.T, best @ best.T, atol=1e-5)


# -- the sample ----------------------------------------------------------------------------------


def test_sources_are_drawn_by_their_weights(data: Path) -> None:
    few = [Pair((f"few {number}",), "def few(): ...") for number in range(10)]
    many = [Pair((f"many {number}",), "def many(): ...") for number in range(100)]
    sources = (
        PairSource("pairs", data / "pairs.jsonl", weight=5.0),
        PairSource("pairs", data / "pairs.jsonl", weight=1.5),
    )
    recipe = replace(read(data), pairs=sources, sample=20)

    drawn = draw([few, many], recipe)

    # 50 and 150 of 200, so 5 and 15 of 20; no pair comes twice.
    assert Counter(query.split()[0] for query, _ in drawn) == {"few": 5, "many": 15}
    assert len(set(drawn)) == 20
    assert draw([few, many], recipe) == drawn
    # A source has no more than it has.
    assert len(draw([few, many], replace(recipe, sample=1000))) == 110


# -- runs ----------------------------------------------------------------------------------------


def test_an_ensemble_is_written_beside_its_parts(data: Path) -> None:
    lines: list[str] = []
    directory = make_ensemble(read(data), say=lines.append)

    assert directory == data / "joint"
    encoder = load_encoder(directory)
    assert (encoder.name, encoder.dim, encoder.architecture) == ("joint", 5, "ensemble")
    settings = json.loads((directory / SETTINGS).read_text())
    assert settings["shares"] == {"wide": 0.75, "narrow": 0.25}
    assert 0 < settings["measures"]["dev same MRR@100"] <= 1
    assert "pairs are encoded by" in lines[-1]

    card = (directory / "README.md").read_text()
    assert "- [wide](../wide/README.md): 0.75 of the score" in card
    assert "| dev same MRR@100 |" in card
    # Again with the same result, over the first.
    assert load_encoder(make_ensemble(read(data), say=lines.append)).fingerprint == (
        encoder.fingerprint
    )


def test_the_command_says_where(data: Path) -> None:
    shown = CliRunner().invoke(
        command_line, ["train", "ensemble", "--config", str(data / "recipe.toml")]
    )
    assert shown.exit_code == 0, shown.output
    assert "joint: written" in " ".join(shown.output.split())


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("share = 0.25", "share = 0.3", r"shares add up to 1\.05, not 1"),
        ("share = 0.25", "share = 0.0", "share"),
        ('encoder = "narrow"', 'encoder = "wide"', "joint, wide, wide are not all different"),
        ('name = "joint"', 'name = "wide"', "wide, wide, narrow are not all different"),
        ('name = "joint"', 'name = "a b"', "not one word"),
        ('encoder = "narrow"', 'encoder = "elsewhere/narrow"', "in different directories"),
        ("sample = 20", "sample = 1", "sample"),
        ('name = "same"', 'name = "same"\nmeasure = "-loss"', "needs a transformer"),
        ("[[dev]]", f"{DEV}[[dev]]", "need different names"),
    ],
)
def test_invalid_recipes_are_refused(data: Path, old: str, new: str, message: str) -> None:
    (data / "elsewhere").mkdir()
    write_static(data / "elsewhere" / "narrow")
    assert old in RECIPE
    with pytest.raises(InvalidInput, match=message):
        read(data, RECIPE.replace(old, new))


def test_one_part_or_no_pairs_are_refused(data: Path) -> None:
    recipe = read(data)
    with pytest.raises(InvalidInput, match=r"2 to 4 \[\[parts\]\], not 1"):
        replace(recipe, parts=recipe.parts[:1])
    with pytest.raises(InvalidInput, match=r"at least one \[\[pairs\]\]"):
        replace(recipe, pairs=())


def test_more_dimensions_than_the_parts_have_are_refused(data: Path) -> None:
    with pytest.raises(InvalidInput, match="dim is 13; the parts have 12 together"):
        make_ensemble(replace(read(data), dim=13), say=print)
    assert not (data / "joint").exists()


def test_the_released_recipe_is_valid(tmp_path: Path) -> None:
    recipe = load_without_data(ROOT / "configs" / "ensemble.toml", EnsembleRecipe, tmp_path)
    released = json.loads((ENSEMBLE_ENCODER / SETTINGS).read_text())
    assert recipe.name == released["name"]
    assert recipe.dim == released["dim"]
    assert {part.encoder.name: part.share for part in recipe.parts} == released["shares"]
