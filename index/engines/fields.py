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
from collections.abc import Mapping

from purlin.index.errors import InvalidInput
from purlin.index.records import Value
from purlin.index.search.store.filters import Clause, FieldType, Filter, Scalar, clauses, filterable

VALUES, RANGES = "values", "ranges"
# What Milvus takes in one array.
MAX_VALUES = 4096
# Values of a list that a range looks at one by one; a longer list is not compared.
MAX_COMPARED = 64
# Bytes of a text that are kept to be compared; a bound must be shorter.
_KEPT_BYTES = 64


def hashed(*parts: str) -> int:
    """Signed 64-bit hash of some texts."""
    content = "\0".join(parts).encode("utf-8", "surrogatepass")
    digest = hashlib.blake2b(content, digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


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


def stored(
    fields: Mapping[str, Value], *, any_case: bool = False
) -> tuple[list[int], dict[str, str], dict[str, int]]:
    """Return a document's `values` and `ranges`, and how many values each of its fields has.

    `any_case` as for `filterable`.
    """
    values: dict[int, None] = {}
    ranges: dict[str, str] = {}
    widths: dict[str, int] = defaultdict(int)

    for name, value in filterable(fields, any_case=any_case):
        values[_hash_of(name, value)] = None
        if widths[name] < MAX_COMPARED:
            ranges[_path(name, widths[name])] = _key(value)
        widths[name] += 1

    return list(values), ranges, dict(widths)


def expression(
    conditions: Filter, field_types: Mapping[str, FieldType], widths: Mapping[str, int]
) -> str:
    """Return a filter as an expression of Milvus.

    `field_types` has the type of each field, `widths` maps those that are lists to their largest
    number of values. Raises InvalidInput, which names the field.
    """
    return " and ".join(_test(clause, widths) for clause in clauses(conditions, field_types))


def _test(clause: Clause, widths: Mapping[str, int]) -> str:
    width = widths.get(clause.name, 1)
    test = _one_of(clause) if clause.values else _range(clause, width)
    # Without `exists`, a comparison with a value that is not there is unknown, and so is its opposite.
    return f"(not ({test}))" if clause.excludes else test


def _one_of(clause: Clause) -> str:
    hashes = [str(_hash_of(clause.name, value)) for value in clause.values]
    return f"array_contains_any({VALUES}, [{', '.join(hashes)}])"


def _range(clause: Clause, width: int) -> str:
    """Condition that any of the field's first `width` values is within the bounds."""
    if width > MAX_COMPARED:
        raise InvalidInput(
            f"{clause.name!r} has lists of up to {width} values; this corpus is in Milvus, where "
            f"ranges look at no more than {MAX_COMPARED}. Filter by values.",
            field=f"filter.{clause.name}",
        )

    bounds = {"gte": clause.gte, "lte": clause.lte}
    tests = [
        test
        for operator, bound in bounds.items()
        if bound is not None
        for test in _bound(clause.name, operator, bound)
    ]

    positions = []
    for position in range(width):
        path = f'{RANGES}["{_path(clause.name, position)}"]'
        exists = [f"exists {path}"] if clause.excludes else []
        positions.append(" and ".join([*exists, *(f"{path} {test}" for test in tests)]))

    return f"({' or '.join(f'({position})' for position in positions)})"


def _bound(name: str, operator: str, bound: int | float | str) -> tuple[str, str]:
    """What a key has to fulfil: the bound, and to be of its type."""
    if isinstance(bound, str) and len(bound.encode()) >= _KEPT_BYTES:
        raise InvalidInput(
            f"A bound has {len(bound.encode())} bytes; in Milvus, at most {_KEPT_BYTES - 1} are "
            "allowed. Shorten it.",
            field=f"filter.{name}.{operator}",
        )

    key = _key(bound)
    if bound != bound:
        # Nothing compares with what is not a number.
        return '== "n"', '== "n"'

    if operator == "gte":
        return f'>= "{key}"', f'< "{chr(ord(key[0]) + 1)}"'
    return f'<= "{key}"', f'>= "{key[0]}"'
