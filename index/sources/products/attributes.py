"""Make flat fields of nested values: attributes in mappings, in lists, in pairs of columns."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from purlin.index.errors import InvalidInput
from purlin.index.records import Value
from purlin.index.sources.encodings import valid_text
from purlin.index.sources.products.values import NUMBER, field_value, item_lines, text_of
from purlin.index.sources.tables import MAX_NAME_CHARS, name_too_long
from purlin.index.texts.product_fields import ICECAT, key_of

MAX_ATTRIBUTE_NESTING = 5

# Keys of an attribute's name and value in lists of attributes.
_NAME_KEYS = ("name", "key", "label", "attribute_code", "attribute_name")
_VALUE_KEYS = ("value", "values", "options", "attribute_value")
_UNIT_KEYS = ("unit", "units", "unitText", "unit_text", "uom")

# How an attribute begins in Magento's "colour=Blue,material=Cotton|Linen".
_ASSIGNMENT = re.compile(r"(?:^|,)\s*([^\W\d]\w{0,63})=")

# What Shopify writes as the only option of a product without variants.
_NO_VARIANTS = "Default Title"


def attributes_of(
    record: Mapping[str, object], column: object, pairs: Mapping[str, str]
) -> tuple[dict[str, Value], list[str]]:
    """Attributes by name, and lines of prose if the attributes column holds prose instead.

    `pairs` are the `paired_columns` of the record.
    """
    if isinstance(column, str) and column.startswith(("{", "[{")):
        column = _json_cell(column)

    elif isinstance(column, str) and _ASSIGNMENT.match(column):
        column = _assigned(column)

    # A list of attributes with a single element is a mapping in XML.
    if isinstance(column, Mapping) and _is_attribute(column):
        column = [column]

    prose: list[str] = []
    if isinstance(column, list):
        prose = item_lines([item for item in column if not isinstance(item, Mapping)])
        column = _named_attributes([item for item in column if isinstance(item, Mapping)])
    elif not isinstance(column, Mapping):
        prose, column = item_lines(column), {}

    icecat = {name: value for name, value in record.items() if ICECAT.match(name)}
    return dict(flat_fields({**column, **icecat, **_paired_attributes(record, pairs)})), prose


def _is_attribute(pair: Mapping[str, object]) -> bool:
    return any(map(pair.get, _NAME_KEYS)) and any(key in pair for key in _VALUE_KEYS)


def paired_columns(names: Iterable[str]) -> dict[str, str]:
    """Map columns that name an attribute to those of its value: "Option1 Name" to "Option1 Value"."""
    names_by_key = {key_of(name): name for name in names}
    pairs = {}

    for key, name in names_by_key.items():
        base = key.removesuffix("_name")
        values = (names_by_key.get(base + suffix) for suffix in ("_value", "_values", "_value_s"))
        value_name = next(filter(None, values), None)
        if base != key and value_name is not None:
            pairs[name] = value_name

    return pairs


def _paired_attributes(record: Mapping[str, object], pairs: Mapping[str, str]) -> dict[str, object]:
    """Attributes of the pairs of columns, with numbers as they stand there: sizes are names."""
    attributes: dict[str, object] = {}
    for name_column, value_column in pairs.items():
        name, value = record[name_column], record[value_column]
        if isinstance(name, str) and name and value not in ("", None, _NO_VARIANTS):
            attributes[name] = value if isinstance(value, list) else str(value)
    return attributes


def _named_attributes(pairs: Sequence[Mapping[str, object]]) -> dict[str, object]:
    """Attributes of a list of {"name": ..., "value": ...}, as many feeds have them.

    All keys of the other mappings in the list are attributes. The unit of a single value becomes an
    attribute beside it, so that the value stays a number; several values have theirs behind them.
    """
    attributes: dict[str, list[object]] = {}
    units: dict[str, list[object]] = {}
    others = []
    for pair in pairs:
        name = next((pair[key] for key in _NAME_KEYS if pair.get(key)), None)
        value_key = next((key for key in _VALUE_KEYS if key in pair), None)
        if name is None or value_key is None:
            others.append(pair)
            continue

        value = pair[value_key]
        values = value if isinstance(value, list) else [value]
        attributes.setdefault(str(name), []).extend(values)
        unit = next((pair[key] for key in _UNIT_KEYS if pair.get(key)), None)
        units.setdefault(str(name), []).extend([unit] * len(values))

    named: dict[str, object] = {}
    for name, values in attributes.items():
        if len(values) == 1:
            named |= {name: values[0], f"{name}.unit": units[name][0]}
        else:
            named[name] = [
                value if unit is None else f"{text_of(value)} {text_of(unit)}"
                for value, unit in zip(values, units[name], strict=True)
            ]
    return values_by_key(others) | named


def values_by_key(mappings: Iterable[Mapping[str, object]]) -> dict[str, object]:
    """Lists of the values of each key, also of a single value, so that a field has one type.

    [{"size": "S"}, {"size": "M"}] becomes {"size": ["S", "M"]}.
    """
    values: dict[str, Any] = {}
    for mapping in mappings:
        for key, value in mapping.items():
            values.setdefault(str(key), []).extend(value if isinstance(value, list) else [value])
    return values


def _assigned(cell: str) -> dict[str, object]:
    """Attributes of a cell such as "colour=Blue,material=Cotton|Linen"; bars are between several values."""
    _, *parts = _ASSIGNMENT.split(cell)
    return {
        name: listed if len(listed := value.split("|")) > 1 else value
        for name, value in zip(parts[::2], parts[1::2], strict=True)
    }


def _json_cell(cell: str) -> object:
    try:
        return json.loads(cell, parse_constant=lambda _: None)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(
            f"has attributes that are not valid JSON: {error}", field="attributes"
        ) from error


def flat_fields(
    values: Mapping[str, object], prefix: str = "", depth: int = 1
) -> Iterator[tuple[str, Value]]:
    """Yield a field for each value, named by the keys that lead to it, with dots between them.

    Raises InvalidInput beyond `MAX_ATTRIBUTE_NESTING` levels and for names that are too long.
    """
    if depth > MAX_ATTRIBUTE_NESTING:
        raise InvalidInput(
            f"nests attributes deeper than {MAX_ATTRIBUTE_NESTING} levels", field="attributes"
        )

    for key, value in values.items():
        name = prefix + str(key)
        if len(name) > MAX_NAME_CHARS:
            raise InvalidInput(name_too_long(len(name)), field="attributes")
        if isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
            yield from flat_fields(
                _named_attributes([item for item in value if isinstance(item, Mapping)]),
                f"{name}.",
                depth + 1,
            )
            value = [item for item in value if not isinstance(item, Mapping)]

        if isinstance(value, Mapping):
            quantity = _quantity(name, value)
            yield from flat_fields(quantity or value, "" if quantity else f"{name}.", depth + 1)
        elif name and (typed := _typed(name, field_value(value))) is not None:
            yield valid_text(name), typed


def _quantity(name: str, parts: Mapping[str, object]) -> dict[str, object] | None:
    """The fields of a mapping such as {"value": 2, "unit": "TB"}, or None if it is no quantity."""
    keys = {key for key in parts if not key.startswith("@")}
    unit_keys = keys.intersection(_UNIT_KEYS)
    if "value" not in keys or not unit_keys or keys - {"value", *unit_keys}:
        return None
    return {name: parts["value"], f"{name}.unit": parts[min(unit_keys)]}


def _typed(name: str, value: Value | None) -> Value | None:
    """Convert by the type in an Icecat name, which the cells of a CSV do not have."""
    icecat = ICECAT.match(name)
    if icecat and icecat[1] == "n" and isinstance(value, str):
        return float(value) if NUMBER.fullmatch(value) else value
    if icecat and icecat[1] == "b" and str(value).lower() in ("true", "false", "1", "0"):
        return str(value).lower() in ("true", "1")
    return value
