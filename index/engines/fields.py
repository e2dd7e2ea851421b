"""Fields of documents as Milvus stores and filters them, without any text that needs quoting.

A document's `values` are 64-bit hashes of its fields with their values, which equality looks up.
Its `ranges` map hashes of field names to keys that sort as the values do: hexadecimal digits, after
`n` for a number and `t` for a text. So an expression holds names of columns, digits and letters,
whatever a filter says, and means the same to every version of Milvus.
"""

from __future__ import annotations

import hashlib
import struct
from collections import defaultdict
from collections.abc import Mapping, Sequence

from purlin.index.errors import InvalidInput
from purlin.index.records import Value
from purlin.index.search.filters import Filter, Scalar, clauses, filterable

VALUES, RANGES = "values", "ranges"
# What Milvus takes in one array.
MAX_VALUES = 4096
# Values of a list that a range looks at one by one; a longer list is not compared.
MAX_COMPARED = 64
# Bytes of a text that are kept to be compared; a bound must be shorter.
_KEPT_BYTES = 64
_OPERATORS = {"gte": ">=", "lte": "<="}


def hashed(*parts: str) -> int:
    """Signed 64-bit hash of some texts."""
    content = "\0".join(parts).encode("utf-8", "surrogatepass")
    digest = hashlib.blake2b(content, digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def folded(title: str) -> str:
    """A title as its hash has it: the case of ASCII letters does not matter."""
    return "".join(letter.lower() if letter.isascii() else letter for letter in title)


def _number_key(value: int | float) -> str:
    """Hexadecimal digits that sort as numbers do, whole ones of 64 bits exactly."""
    nearest = float(value) + 0.0
    bits = struct.unpack(">Q", struct.pack(">d", nearest))[0]
    # Negative numbers in reverse, before the others.
    sortable = bits ^ (2**64 - 1 if bits >> 63 else 2**63)
    rest = value - int(nearest) if isinstance(value, int) else 0
    return f"n{sortable:016x}{rest + 2048:03x}"


def _key(value: Scalar) -> str:
    if isinstance(value, str):
        return f"t{value.encode()[:_KEPT_BYTES].hex()}"
    return _number_key(value)


def _hash_of(name: str, value: Scalar) -> int:
    text = value if isinstance(value, str) else _number_key(value)
    return hashed(name, "t" if isinstance(value, str) else "n", text)


def _path(name: str, position: int) -> str:
    return f"{hashed(name) & (2**64 - 1):016x}{position:02x}"


def stored(fields: Mapping[str, Value]) -> tuple[list[int], dict[str, str], dict[str, int]]:
    """Return a document's `values` and `ranges`, and how many values each of its fields has."""
    values: dict[int, None] = {}
    ranges: dict[str, str] = {}
    widths: dict[str, int] = defaultdict(int)
    for name, value in filterable(fields):
        values[_hash_of(name, value)] = None
        if widths[name] < MAX_COMPARED:
            ranges[_path(name, widths[name])] = _key(value)
        widths[name] += 1
    return list(values), ranges, dict(widths)


def expression(conditions: Filter, numeric: Mapping[str, bool], widths: Mapping[str, int]) -> str:
    """Return a filter as an expression of Milvus.

    `numeric` maps each field to whether any of its values is a number, `widths` those that are
    lists to their largest number of values. Raises InvalidInput, which names the field.
    """
    clauses(conditions, numeric)
    parts = []
    for name, condition in conditions.items():
        if isinstance(condition, Mapping):
            parts.append(_range(name, condition, widths.get(name, 1)))
        else:
            parts.append(_one_of(name, condition))
    return " and ".join(parts)


def _one_of(name: str, condition: Scalar | Sequence[Scalar]) -> str:
    values = [condition] if isinstance(condition, Scalar) else condition
    hashes = [_hash_of(name, _plain(value)) for value in values]
    return f"array_contains_any({VALUES}, [{', '.join(map(str, hashes))}])"


def _plain(value: Scalar) -> Scalar:
    return str(value).lower() if isinstance(value, bool) else value


def _range(name: str, bounds: Mapping[str, int | float | str], width: int) -> str:
    if width > MAX_COMPARED:
        raise InvalidInput(
            f"{name!r} has lists of up to {width} values; this corpus is in Milvus, where ranges "
            f"look at no more than {MAX_COMPARED}. Filter by values.",
            field=f"filter.{name}",
        )
    conditions = [_bound(name, operator, bound) for operator, bound in bounds.items()]
    positions = (
        " and ".join(
            condition.format(path=f'{RANGES}["{_path(name, position)}"]')
            for condition in conditions
        )
        for position in range(width)
    )
    return f"({' or '.join(f'({position})' for position in positions)})"


def _bound(name: str, operator: str, bound: int | float | str) -> str:
    if isinstance(bound, str) and len(bound.encode()) >= _KEPT_BYTES:
        raise InvalidInput(
            f"A bound has {len(bound.encode())} bytes; in Milvus, at most {_KEPT_BYTES - 1} are "
            "allowed. Shorten it.",
            field=f"filter.{name}.{operator}",
        )
    key = _key(bound)
    # Numbers are not compared with texts.
    others = (
        f'{{path}} < "{chr(ord(key[0]) + 1)}"' if operator == "gte" else f'{{path}} >= "{key[0]}"'
    )
    return f'{{path}} {_OPERATORS[operator]} "{key}" and {others}'
