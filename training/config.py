"""Reading a TOML recipe as a dataclass, so that errors in it are reported before training starts."""

from __future__ import annotations

import dataclasses
import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from difflib import get_close_matches
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from purlin.index.encoder.exported import MAX_PARTS
from purlin.index.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_T = TypeVar("_T")

MAX_RECIPE_BYTES = 1 << 20
MAX_EXTENDED = 8  # recipes that one extends, directly or by way of others
MAX_SEED = (1 << 32) - 1

# The integers of TOML.
INTEGERS = range(-(1 << 63), 1 << 63)


def load_recipe(path: Path, kind: type[_T], *, data: Path | None = None) -> _T:
    """Read the recipe at `path` as a `kind`, a dataclass whose fields are the recipe's keys.

    Paths in the recipe are relative to `data`, by default to its own directory. Raises NotFound if
    the recipe or a file that it names does not exist, and InvalidInput for invalid TOML, an
    unknown or missing key, or a value of the wrong type or out of range. Errors name the key.
    """
    return build_recipe(kind, read_toml(path), root=data or path.parent)


def read_toml(path: Path) -> dict[str, Any]:
    """Return the content of a recipe, unchecked, over that of the recipe that it `extends`.

    That is a file relative to the recipe's directory. Its tables are taken over key by key; any other
    value, a list too, is replaced as a whole. Raises NotFound if a file does not exist and
    InvalidInput if it is not TOML.
    """
    paths, content = [path], _parse_toml(path)
    while "extends" in content:
        name = content.pop("extends")
        _require(name, isinstance(name, str) and name != "", "the file name of a recipe", "extends")
        if len(paths) > MAX_EXTENDED:
            raise InvalidInput(
                f"{path.name} extends more than {MAX_EXTENDED} recipes, one by way of another. Do they "
                "extend each other?",
                field="extends",
            )

        paths.append(paths[-1].parent / name)
        content = _overlaid(_parse_toml(paths[-1]), content)

    return content


def _overlaid(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return `base` with the values of `changes`, tables key by key."""
    tables = {
        name: _overlaid(base[name], value)
        for name, value in changes.items()
        if isinstance(value, dict) and isinstance(base.get(name), dict)
    }
    return {**base, **changes, **tables}


def _parse_toml(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise NotFound(f"The recipe {path} does not exist.", field="config")
    if path.stat().st_size > MAX_RECIPE_BYTES:
        raise InvalidInput(
            f"{path.name} is larger than {MAX_RECIPE_BYTES:,} bytes, so it is not a recipe.",
            field="config",
        )

    # The parser also fails on the encoding, on numbers of thousands of digits and on deep nesting.
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{path.name} is not valid TOML: {error}", field="config") from None


def build_recipe(kind: type[_T], content: Mapping[str, Any], *, root: Path, key: str = "") -> _T:
    """Build a dataclass of the content of a TOML table.

    `key` is the path of that table in the recipe, such as `stages[0]`, for the errors.
    """
    assert is_dataclass(kind)
    recipe_fields: dict[str, Field[Any]] = {field.name: field for field in fields(kind)}
    _refuse_unknown(content, list(recipe_fields), key)

    types = get_type_hints(kind)
    values = {
        name: _convert(types[name], value, root, _join(key, name))
        for name, value in content.items()
    }

    for name, field in recipe_fields.items():
        is_required = field.default is MISSING and field.default_factory is MISSING
        if name not in values and is_required:
            raise InvalidInput(f"The key {_join(key, name)!r} is missing.", field=_join(key, name))

    try:
        return kind(**values)
    except InvalidInput as error:
        prefix = f"{key}: " if key else ""
        raise InvalidInput(prefix + error.message, field=_join(key, error.field or "")) from None


def _refuse_unknown(content: Mapping[str, Any], names: list[str], key: str) -> None:
    for name in content:
        if name not in names:
            similar = get_close_matches(name, names, 1)
            hint = f"did you mean {similar[0]!r}?" if similar else f"use one of {', '.join(names)}."
            raise InvalidInput(
                f"Unknown key {_join(key, name)!r:.200}; {hint}", field=_join(key, name)
            )


def _convert(kind: Any, value: Any, root: Path, key: str) -> Any:
    """Return a TOML value as the type `kind`."""
    origin, arguments = get_origin(kind), get_args(kind)

    # TOML has no null, so a value of `X | None` must be an X.
    if origin in (Union, UnionType):
        kinds = [argument for argument in arguments if argument is not NoneType]
        words = [get_args(each) for each in kinds if get_origin(each) is Literal]
        # Words may stand in place of the first kind, such as "paper" in place of a path.
        is_word = any(value in choices for choices in words)
        return value if is_word else _convert(kinds[0], value, root, key)

    if origin is Literal:
        choices = ", ".join(map(repr, arguments))
        return _require(value, value in arguments, f"one of {choices}", key)

    if origin is tuple:
        _require(value, isinstance(value, list), "a list", key)
        return tuple(
            _convert(arguments[0], item, root, f"{key}[{number}]")
            for number, item in enumerate(value)
        )

    if is_dataclass(kind) and isinstance(kind, type):
        table = _require(value, isinstance(value, dict), "a table", key)
        return build_recipe(kind, table, root=root, key=key)

    return _convert_scalar(kind, value, root, key)


def _convert_scalar(kind: type, value: Any, root: Path, key: str) -> Any:
    if kind is Path:
        name = _require(value, isinstance(value, str) and value != "", "a path in quotes", key)
        return _existing_path(root, name, key)

    # Checked by `type`, since True is an instance of int.
    if type(value) is int:
        _require(value, value in INTEGERS, "a number of at most 64 bits", key)
    if kind is float:
        return float(_require(value, type(value) in (int, float), "a number", key))

    expected = {int: "a whole number", str: "a text in quotes", bool: "true or false"}[kind]
    return _require(value, type(value) is kind, expected, key)


def _existing_path(root: Path, name: str, key: str) -> Path:
    # Too long a name, a directory without permission or an unknown ~user raise.
    try:
        path = root / Path(name).expanduser()
        exists = path.exists()
    except (OSError, RuntimeError, ValueError):
        path, exists = Path(name), False

    if not exists:
        raise NotFound(
            f"{key}: {str(path)[:300]} does not exist. Paths are relative to --data.", field=key
        )
    return path


def _require(value: _T, is_valid: bool, expected: str, key: str) -> _T:
    if not is_valid:
        raise InvalidInput(f"{key} must be {expected}, not {_describe(value)}.", field=key)
    return value


def _describe(value: object) -> str:
    if isinstance(value, list):
        return "a list"
    if isinstance(value, dict):
        return "a table"
    if type(value) is int and value not in INTEGERS:
        return "such a large number"
    return f"{value!r:.80}"


def _join(key: str, name: str) -> str:
    return f"{key}.{name}" if key and name else key or name


def ranged(default: _T, low: float, high: float) -> _T:
    """Return a field of a recipe whose value `check_ranges` requires to be from `low` to `high`."""
    return dataclasses.field(default=default, metadata={"range": (low, high)})


def check_ranges(recipe: DataclassInstance) -> None:
    """Raise InvalidInput for a field outside its range; for the `__post_init__` of recipes."""
    for each in fields(recipe):
        value = getattr(recipe, each.name)
        if value is not None and "range" in each.metadata:
            in_range(each.name, value, *each.metadata["range"])


def in_range(name: str, value: float, low: float, high: float) -> None:
    """Raise InvalidInput unless low <= value <= high; for the `__post_init__` of recipes."""
    if not low <= value <= high:
        shown_low, shown_high, shown = map(_number, (low, high, value))
        raise InvalidInput(
            f"{name} must be from {shown_low} to {shown_high}, not {shown}.", field=name
        )


def _number(value: float) -> str:
    # Six digits of a large whole number would hide by how much it is too large.
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def refuse_repeated(names: Sequence[str], subject: str, field: str) -> None:
    """Raise InvalidInput if a name is repeated; for the `__post_init__` of recipes.

    `subject` says in the message what is named.
    """
    if len(set(names)) < len(names):
        raise InvalidInput(
            f"{subject} need different names; these are {', '.join(names)}.", field=field
        )


def refuse_reserved(name: str, directories: Sequence[str]) -> None:
    """Raise InvalidInput if a recipe has the name of one of its run's directories."""
    if name in directories:
        raise InvalidInput(
            f"The name {name!r} is that of a directory of the run. Rename the recipe.", field="name"
        )


def refuse_unfit_parts(name: str, parts: Sequence[tuple[Path, float]]) -> None:
    """Refuse the parts of the ensemble `name`, directories with their shares, that do not fit together.

    Raises InvalidInput unless there are 2 to `MAX_PARTS` in one directory, of different names, whose
    shares add up to 1.
    """
    if not 2 <= len(parts) <= MAX_PARTS:
        raise InvalidInput(
            f"An ensemble has 2 to {MAX_PARTS} [[parts]], not {len(parts)}.", field="parts"
        )
    if not math.isclose(total := sum(share for _, share in parts), 1.0, abs_tol=1e-6):
        raise InvalidInput(f"The parts' shares add up to {total:.6g}, not 1.", field="parts")

    if len({directory.parent.resolve() for directory, _ in parts}) > 1:
        raise InvalidInput(
            "The parts lie in different directories; an ensemble finds them beside its own.",
            field="parts",
        )
    names = [name, *(directory.name for directory, _ in parts)]
    if len(set(names)) < len(names):
        raise InvalidInput(f"The names {', '.join(names)} are not all different.", field="parts")
