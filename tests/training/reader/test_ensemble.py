"""Several readers as one: what they compute together, how they are joined, and what is refused."""

from __future__ import annotations

import json
import shutil
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from purlin.cli.commands import app as command_line
from purlin.index.errors import Damaged, InvalidInput
from purlin.index.qa.reader import Reader
from purlin.index.qa.reader_settings import READER_SETTINGS, EnsembleReaderSettings
from purlin.training.config import load_recipe
from purlin.training.exporting.directory import write_settings
from purlin.training.reader.ensemble import ReaderEnsembleRecipe, make_reader_ensemble
from tests.support.paths import ROOT
from tests.support.readers import QUESTIONS, RANGE, read_answers, tiny_reader

RECIPE = """
name = "both"

[[parts]]
reader = "first"
share = 0.75

[[parts]]
reader = "second"
share = 0.25

[export]
prior_weight = 0.4
calibration = [0.1, 1.0, -1.0, 0.2, 0.3]
limits = ["English."]
"""

pytestmark = pytest.mark.usefixtures("graphs_once")


@pytest.fixture(scope="module")
def readers(tmp_path_factory: pytest.TempPathFactory, graphs_once: None) -> Path:
    """Two readers of one tokenizer and of different weights."""
    directory = tmp_path_factory.mktemp("readers")
    for seed, name in enumerate(["first", "second"]):
        tiny_reader(directory / f"made-{name}", seed).rename(directory / name)
    return directory


@pytest.fixture
def parts(readers: Path, tmp_path: Path) -> Path:
    for name in ("first", "second"):
        shutil.copytree(readers / name, tmp_path / name)
    return tmp_path


def read(parts: Path, text: str = RECIPE) -> ReaderEnsembleRecipe:
    (parts / "recipe.toml").write_text(text)
    return load_recipe(parts / "recipe.toml", ReaderEnsembleRecipe)


def rewrite(directory: Path, **changes: Any) -> None:
    """Change settings of an ensemble, with the fingerprint that fits them."""
    path = directory / READER_SETTINGS
    content = json.loads(path.read_text())
    del content["fingerprint"]
    write_settings(path, EnsembleReaderSettings(**(content | changes)), {})


def test_logits_are_the_weighted_means(parts: Path) -> None:
    directory = make_reader_ensemble(read(parts))
    passages = [RANGE, *[RANGE] * 3]

    together = Reader.load(directory).read(QUESTIONS[0], passages)
    first, second = (
        Reader.load(parts / name).read(QUESTIONS[0], passages) for name in ("first", "second")
    )

    for joined, one, other in zip(together, first, second, strict=True):
        assert np.abs(one.start - other.start).max() > 0.1
        np.testing.assert_allclose(joined.start, 0.75 * one.start + 0.25 * other.start, atol=1e-6)
        np.testing.assert_allclose(joined.end, 0.75 * one.end + 0.25 * other.end, atol=1e-6)
        assert joined.selected == pytest.approx(
            0.75 * one.selected + 0.25 * other.selected, abs=1e-6
        )


def test_an_ensemble_is_a_reader_with_weights_of_its_own(parts: Path) -> None:
    directory = make_reader_ensemble(read(parts))
    assert directory == parts / "both"

    reader = Reader.load(directory)
    assert (reader.name, reader.settings.prior_weight) == ("both", 0.4)
    assert reader.settings.calibration == (0.1, 1.0, -1.0, 0.2, 0.3)
    assert reader.fingerprint != Reader.load(parts / "first").fingerprint
    assert read_answers(reader, QUESTIONS[0], [RANGE]).answers

    card = (directory / "README.md").read_text()
    assert "[first](../first/README.md): 0.75 of the logits" in card
    assert "- English." in card

    # Making it again replaces it, with the same result.
    assert Reader.load(make_reader_ensemble(read(parts))).fingerprint == reader.fingerprint


def test_the_command_tells_how_it_is_served(parts: Path) -> None:
    read(parts)
    result = CliRunner().invoke(
        command_line, ["train", "ensemble", "--config", str(parts / "recipe.toml")]
    )
    assert result.exit_code == 0, result.output
    assert "PURLIN_READER=" in result.output
    assert (parts / "both" / READER_SETTINGS).is_file()


@pytest.mark.parametrize(
    ("text", "replacement", "message"),
    [
        ("share = 0.25", "share = -0.25", "share"),
        ('reader = "second"', 'reader = "other/second"', "lie in different directories"),
        ('name = "both"', 'name = "../both"', "is not one word"),
        ('reader = "second"', 'encoder = "second"', "encoder"),
    ],
)
def test_recipes_that_do_not_fit_are_refused(
    parts: Path, text: str, replacement: str, message: str
) -> None:
    shutil.copytree(parts / "second", parts / "other" / "second")
    with pytest.raises(InvalidInput, match=message):
        read(parts, RECIPE.replace(text, replacement))


def test_the_shipped_recipe_joins_the_teachers_parts(tmp_path: Path) -> None:
    path = ROOT / "configs" / "refqa-ensemble.toml"
    for part in tomllib.loads(path.read_text())["parts"]:
        (tmp_path / part["reader"]).mkdir(parents=True)
    recipe = load_recipe(path, ReaderEnsembleRecipe, data=tmp_path)
    teacher = tomllib.loads((path.parent / "refqa-l12-onward.toml").read_text())["teacher"]["base"]

    assert tmp_path / teacher == recipe.parts[0].reader.parent / recipe.name
    assert sum(part.share for part in recipe.parts) == 1.0


def test_parts_must_read_the_same_tokens(parts: Path) -> None:
    path = parts / "second" / READER_SETTINGS
    reader = Reader.load(parts / "second")
    object.__setattr__(reader.settings, "max_tokens", 32)
    write_settings(path, reader.settings, {})

    with pytest.raises(
        InvalidInput, match="its part second does not read the same tokens as the others: take"
    ):
        make_reader_ensemble(read(parts))
    assert not (parts / "both").exists()


def test_an_ensemble_is_no_part_of_another(parts: Path) -> None:
    make_reader_ensemble(read(parts))
    recipe = read(parts, RECIPE.replace('"both"', '"all"').replace('"second"', '"both"'))
    with pytest.raises(InvalidInput, match="both is an ensemble itself"):
        make_reader_ensemble(recipe)


def test_a_replaced_part_is_refused(parts: Path) -> None:
    directory = make_reader_ensemble(read(parts))

    shutil.rmtree(parts / "second")
    with pytest.raises(Damaged, match=r"second/reader\.json"):
        Reader.load(directory)

    shutil.copytree(parts / "first", parts / "second")
    with pytest.raises(Damaged, match=r"both/reader\.json .*its part second is another reader"):
        Reader.load(directory)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"parts": {"first": "", "../second": ""}}, "is no name of another directory"),
        ({"parts": {"first": "", "both": ""}}, "is no name of another directory"),
        ({"parts": {}, "shares": {}}, "it has 0 parts"),
        ({"shares": {"first": 1.0}}, "its shares are of other readers than its parts"),
        ({"shares": {"first": 1.5, "second": -0.5}}, "a share is not above 0 and at most 1"),
        ({"shares": {"first": 0.5, "second": 0.25}}, "its shares do not add up to 1"),
        ({"files": {"model.onnx": ""}}, "its values do not fit together"),
        ({"max_tokens": 32}, "does not read the same tokens as the others"),
    ],
)
def test_settings_that_do_not_fit_are_named(
    parts: Path, changes: dict[str, Any], message: str
) -> None:
    directory = make_reader_ensemble(read(parts))
    rewrite(directory, **changes)
    with pytest.raises(Damaged, match=message):
        Reader.load(directory)
