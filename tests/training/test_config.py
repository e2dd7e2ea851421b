"""Recipes: valid ones become dataclasses, and errors name the key."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purlin.index.errors import InvalidInput, NotFound
from purlin.training.config import (
    MAX_RECIPE_BYTES,
    MAX_SEED,
    build_recipe,
    in_range,
    load_recipe,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    epochs: float = 1.0
    steps: int | None = None

    def __post_init__(self) -> None:
        in_range("epochs", self.epochs, 0.5, 100)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    name: str
    loop: Loop = field(default_factory=Loop)
    mask: Literal["entity", "span"] = "entity"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    name: str
    stage: tuple[Stage, ...] = ()
    loop: Loop = field(default_factory=Loop)
    seed: int = 1
    rate: float = 0.5
    shuffle: bool = True
    limits: tuple[str, ...] = ()
    exclude: tuple[Path, ...] = ()
    extra: Path | Literal["paper"] | None = None
    part: int | None = None


HERE = Path(__file__).parent


def read_text(text: str, directory: Path) -> Recipe:
    (directory / "recipe.toml").write_text(text, encoding="utf-8")
    return load_recipe(directory / "recipe.toml", Recipe)


def test_recipe_is_read_with_defaults(tmp_path: Path) -> None:
    (tmp_path / "dev.jsonl").write_text("")
    recipe = read_text(
        """
        name = "code"
        rate = 2
        limits = ["English"]
        exclude = ["dev.jsonl"]
        part = 8
        [loop]
        steps = 7
        [[stage]]
        name = "align"
        [[stage]]
        name = "fine"
        mask = "span"
        loop.epochs = 6
        """,
        tmp_path,
    )
    assert recipe == Recipe(
        name="code",
        rate=2.0,
        limits=("English",),
        exclude=(tmp_path / "dev.jsonl",),
        part=8,
        loop=Loop(steps=7),
        stage=(Stage(name="align"), Stage(name="fine", mask="span", loop=Loop(epochs=6.0))),
    )
    assert type(recipe.rate) is float
    assert type(recipe.stage[1].loop.epochs) is float


def test_word_stands_in_place_of_a_path(tmp_path: Path) -> None:
    assert read_text('name = "x"\nextra = "paper"', tmp_path).extra == "paper"
    (tmp_path / "other").write_text("")
    assert read_text('name = "x"\nextra = "other"', tmp_path).extra == tmp_path / "other"


def test_paths_are_relative_to_data(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "here").write_text("")
    (tmp_path / "recipe.toml").write_text('name = "x"\nextra = "here"')
    assert (
        load_recipe(tmp_path / "recipe.toml", Recipe, data=tmp_path / "data").extra
        == tmp_path / "data" / "here"
    )
    with pytest.raises(NotFound, match=r"extra: .*here does not exist"):
        load_recipe(tmp_path / "recipe.toml", Recipe)


def test_a_recipe_extends_another(tmp_path: Path) -> None:
    """Tables are taken over key by key, lists are replaced; files are relative to their recipe."""
    (tmp_path / "first.toml").write_text(
        'name = "a"\nseed = 3\nlimits = ["x", "y"]\n[loop]\nepochs = 2.0\nsteps = 5\n'
    )
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "second.toml").write_text('extends = "../first.toml"\n[loop]\nsteps = 6\n')
    recipe = read_text('extends = "more/second.toml"\nname = "b"\nlimits = ["z"]\n', tmp_path)
    assert recipe == Recipe(name="b", seed=3, limits=("z",), loop=Loop(epochs=2.0, steps=6))

    with pytest.raises(InvalidInput, match="Do they extend each other") as error:
        read_text('extends = "recipe.toml"', tmp_path)
    assert error.value.field == "extends"
    with pytest.raises(NotFound, match=r"absent\.toml"):
        read_text('extends = "absent.toml"', tmp_path)
    with pytest.raises(InvalidInput, match="file name of a recipe"):
        read_text("extends = 1", tmp_path)


@pytest.mark.parametrize(
    ("line", "key", "message"),
    [
        ("sede = 2", "sede", "Unknown key 'sede'; did you mean 'seed'?"),
        ("zzz = 2", "zzz", "Unknown key 'zzz'; use one of name, stage, loop"),
        ("loop.epoch = 2", "loop.epoch", "Unknown key 'loop.epoch'; did you mean 'epochs'?"),
        ("stage = [{name = 'a'}, {}]", "stage[1].name", "The key 'stage[1].name' is missing."),
        ("seed = 1.0", "seed", "seed must be a whole number, not 1.0."),
        ("seed = '1'", "seed", "seed must be a whole number, not '1'."),
        ("seed = true", "seed", "seed must be a whole number, not True."),
        ("rate = true", "rate", "rate must be a number, not True."),
        ("rate = '0.5'", "rate", "rate must be a number, not '0.5'."),
        ("rate = 1979-05-27", "rate", "rate must be a number, not datetime.date"),
        ("shuffle = 1", "shuffle", "shuffle must be true or false, not 1."),
        ("limits = 'one'", "limits", "limits must be a list, not 'one'."),
        ("limits = ['one', 2]", "limits[1]", "limits[1] must be a text in quotes, not 2."),
        ("limits = {}", "limits", "limits must be a list, not a table."),
        ("loop = 3", "loop", "loop must be a table, not 3."),
        ("loop = [{}]", "loop", "loop must be a table, not a list."),
        ("part = 'all'", "part", "part must be a whole number, not 'all'."),
        ("stage = {name = 'a'}", "stage", "stage must be a list, not a table."),
        ("stage = ['a']", "stage[0]", "stage[0] must be a table, not 'a'."),
        (
            "stage = [{name = 'a', mask = 'word'}]",
            "stage[0].mask",
            "stage[0].mask must be one of 'entity', 'span', not 'word'.",
        ),
        (
            "stage = [{name = 'a', loop.epochs = 'many'}]",
            "stage[0].loop.epochs",
            "stage[0].loop.epochs must be a number, not 'many'.",
        ),
        (
            "stage = [{name = 'a', loop.epochs = 0}]",
            "stage[0].loop.epochs",
            "stage[0].loop: epochs must be from 0.5 to 100, not 0.",
        ),
        ("loop.epochs = nan", "loop.epochs", "loop: epochs must be from 0.5 to 100, not nan."),
        ("loop.epochs = inf", "loop.epochs", "loop: epochs must be from 0.5 to 100, not inf."),
        ("extra = 1", "extra", "extra must be a path in quotes, not 1."),
        ("extra = ''", "extra", "extra must be a path in quotes, not ''."),
        (
            "seed = 0x8000000000000000",
            "seed",
            "seed must be a number of at most 64 bits, not such a large number.",
        ),
        (
            f"rate = 0x{'f' * 4000}",
            "rate",
            "rate must be a number of at most 64 bits, not such a large number.",
        ),
        (f"shuffle = 0x{'f' * 4000}", "shuffle", "shuffle must be a number of at most 64 bits"),
        (f"limits = 0x{'f' * 4000}", "limits", "limits must be a list, not such a large number."),
        (f"limits = {'[' * 5000}", "config", "not valid TOML"),
        (f"seed = {'9' * 5000}", "config", "not valid TOML"),
        (f"loop.{'x.' * 5000}y = 1", "loop.x", "Unknown key 'loop.x'"),
        (f"seed.{'x.' * 5000}y = 1", "seed", "seed must be a whole number, not a table."),
        ("seed = ", "config", "recipe.toml is not valid TOML: Invalid value"),
        ("name = 'y'", "config", "recipe.toml is not valid TOML: Cannot overwrite a value"),
    ],
)
def test_errors_name_the_key(line: str, key: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_text(f"name = 'x'\n{line}", tmp_path)
    assert message in caught.value.message
    assert caught.value.field == key


def test_a_missing_key_at_the_top_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="The key 'name' is missing"):
        read_text("", tmp_path)


@pytest.mark.parametrize(
    "name", ["none.jsonl", "~nobody-of-this-name/x", "a\\u0000b", "x" * 5000, "x/" * 5000]
)
def test_missing_file_is_named_by_its_key(name: str, tmp_path: Path) -> None:
    with pytest.raises(
        NotFound, match=r"exclude\[1\]: .* does not exist\. Paths are relative to --data"
    ) as caught:
        read_text(f'name = "x"\nexclude = [".", "{name}"]', tmp_path)
    assert caught.value.field == "exclude[1]"
    assert len(caught.value.message) < 500


def test_messages_cut_long_values(tmp_path: Path) -> None:
    for line in (f"seed = '{'x' * 10_000}'", f"{'x' * 10_000} = 1", f"loop.{'x' * 10_000} = 1"):
        with pytest.raises(InvalidInput) as caught:
            read_text(f"name = 'x'\n{line}", tmp_path)
        assert len(caught.value.message) < 500


def test_a_missing_invalid_or_large_recipe_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="does not exist") as caught:
        load_recipe(tmp_path / "none.toml", Recipe)
    assert caught.value.field == "config"
    with pytest.raises(NotFound, match="does not exist"):
        load_recipe(tmp_path, Recipe)
    (tmp_path / "latin.toml").write_bytes(b'name = "caf\xe9"')
    with pytest.raises(InvalidInput, match=r"latin\.toml is not valid TOML"):
        load_recipe(tmp_path / "latin.toml", Recipe)
    (tmp_path / "big.toml").write_bytes(b"#" * (MAX_RECIPE_BYTES + 1))
    with pytest.raises(InvalidInput, match="larger than 1,048,576 bytes"):
        load_recipe(tmp_path / "big.toml", Recipe)


@pytest.mark.parametrize("value", [1, 1.5, 3])
def test_value_in_range_passes(value: float) -> None:
    in_range("x", value, 1, 3)


@pytest.mark.parametrize("value", [0.999, 3.001, float("nan"), float("-inf")])
def test_value_out_of_range_is_refused(value: float) -> None:
    with pytest.raises(InvalidInput, match="x must be from 1 to 3"):
        in_range("x", value, 1, 3)


def test_range_shows_whole_numbers_in_full() -> None:
    message = "seed must be from 0 to 4,294,967,295, not 4,294,967,296."
    with pytest.raises(InvalidInput, match=message):
        in_range("seed", MAX_SEED + 1, 0, MAX_SEED)


PLAIN = st.one_of(
    st.booleans(), st.integers(), st.integers(1 << 62, 1 << 70), st.floats(), st.text(), st.none()
)
VALUES = st.one_of(
    PLAIN, st.lists(PLAIN, max_size=3), st.dictionaries(st.text(max_size=5), PLAIN, max_size=3)
)
KEYS = st.sampled_from(
    ["name", "stage", "loop", "seed", "rate", "shuffle", "limits", "exclude", "extra", "part"]
)


@given(st.dictionaries(KEYS | st.text(max_size=9), VALUES, max_size=5))
def test_any_values_build_or_are_refused(content: dict[str, Any]) -> None:
    refused: InvalidInput | NotFound
    try:
        recipe = build_recipe(Recipe, content, root=HERE)
    except (InvalidInput, NotFound) as error:
        refused = error
    else:
        assert recipe.name == content["name"]
        values = (recipe.seed, recipe.rate, recipe.shuffle)
        assert [type(value) for value in values] == [int, float, bool]
        return
    assert refused.field is not None
    assert len(refused.message) < 500
