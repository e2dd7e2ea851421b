"""A TOML recipe -> a dataclass. What is unknown, of a wrong type or missing fails here, before anything is loaded."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from difflib import get_close_matches
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from index.errors import InvalidInput, NotFound

T = TypeVar("T")
MAX_BYTES = 1 << 20
MAX_SEED = (1 << 32) - 1
INTEGERS = range(-(1 << 63), 1 << 63)  # those of TOML


def read(path: Path, kind: type[T], *, data: Path | None = None) -> T:
    """The recipe at `path` as a `kind`, a dataclass whose fields are the keys and whose defaults are the recipe's.

    Paths in it are relative to `data`, by default to the recipe's own directory. Raises NotFound for a recipe, or a
    file it names, that does not exist, and InvalidInput for TOML that is broken, a key that is unknown or missing, or
    a value of a wrong type or outside its range; each names the key.
    """
    return build(kind, tables(path), root=data or path.parent)


def tables(path: Path) -> dict[str, Any]:
    """What a recipe says, unchecked. Raises NotFound without one, and InvalidInput for what is no TOML."""
    if not path.is_file():
        raise NotFound(f"The recipe {path} does not exist.", field="config")
    if path.stat().st_size > MAX_BYTES:
        raise InvalidInput(
            f"{path.name} is larger than {MAX_BYTES:,} bytes: that is no recipe.", field="config"
        )
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (
        ValueError,
        RecursionError,
    ) as error:  # of its syntax, its encoding, numbers of thousands of digits, nesting
        raise InvalidInput(f"{path.name} is not valid TOML: {error}", field="config") from None


def build(kind: type[T], content: Mapping[str, Any], *, root: Path, key: str = "") -> T:
    """`content` as a `kind`; errors name keys by their way from the top, such as `stages[0].epochs`."""
    assert is_dataclass(kind)
    known: dict[str, Field[Any]] = {field.name: field for field in fields(kind)}
    for name in content:
        if name not in known:
            near = get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}."
            raise InvalidInput(
                f"Unknown key {_join(key, name)!r:.200}; {hint}", field=_join(key, name)
            )
    types = get_type_hints(kind)
    values = {
        name: _value(types[name], value, root, _join(key, name)) for name, value in content.items()
    }
    for name, field in known.items():
        if name not in values and field.default is MISSING and field.default_factory is MISSING:
            raise InvalidInput(f"The key {_join(key, name)!r} is missing.", field=_join(key, name))
    try:
        return kind(**values)
    except InvalidInput as error:
        where = f"{key}: " if key else ""
        raise InvalidInput(where + error.message, field=_join(key, error.field or "")) from None


def _value(kind: Any, value: Any, root: Path, key: str) -> Any:
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (
        Union,
        UnionType,
    ):  # only `X | None`: TOML has no null, so a value that is there is an X
        return _value(next(part for part in inner if part is not NoneType), value, root, key)
    if origin is Literal:
        return _checked(value, value in inner, f"one of {', '.join(map(repr, inner))}", key)
    if origin is tuple:
        _checked(value, isinstance(value, list), "a list", key)
        return tuple(
            _value(inner[0], item, root, f"{key}[{number}]") for number, item in enumerate(value)
        )
    if is_dataclass(kind) and isinstance(kind, type):
        return build(
            kind, _checked(value, isinstance(value, dict), "a table", key), root=root, key=key
        )
    return _plain(kind, value, root, key)


def _plain(kind: type, value: Any, root: Path, key: str) -> Any:
    if kind is Path:
        return _existing(
            root,
            _checked(value, isinstance(value, str) and value != "", "a path in quotes", key),
            key,
        )
    if type(value) is int:
        _checked(value, value in INTEGERS, "a number of at most 64 bits", key)
    if kind is float:
        return float(_checked(value, type(value) in (int, float), "a number", key))
    what = {int: "a whole number", str: "a text in quotes", bool: "true or false"}[kind]
    return _checked(value, type(value) is kind, what, key)


def _existing(root: Path, name: str, key: str) -> Path:
    try:
        path = root / Path(name).expanduser()
        found = path.exists()
    except (
        OSError,
        RuntimeError,
        ValueError,
    ):  # too long a name, a closed directory, an unknown ~user
        path, found = Path(name), False
    if not found:
        raise NotFound(
            f"{key}: {str(path)[:300]} does not exist. Paths are relative to --data.", field=key
        )
    return path


def _checked(value: T, right: bool, expected: str, key: str) -> T:
    if not right:
        raise InvalidInput(f"{key} must be {expected}, not {_shown(value)}.", field=key)
    return value


def _shown(value: object) -> str:
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "a table"
    if type(value) is int and value not in INTEGERS:
        return "so large a number"
    return f"{value!r:.80}"


def _join(key: str, name: str) -> str:
    return f"{key}.{name}" if key and name else key or name


def in_range(name: str, value: float, low: float, high: float) -> None:
    """For `__post_init__`: raise InvalidInput unless low <= value <= high."""
    if not low <= value <= high:
        raise InvalidInput(f"{name} must be from {low:g} to {high:g}, not {value:g}.", field=name)
