"""Filters: conditions on the fields of documents, checked and turned into typed clauses."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from types import UnionType
from typing import Any, Literal, cast

from purlin.index.errors import InvalidInput, WrongType
from purlin.index.records import MAX_FILTERABLE_CHARS, Kind, Value, is_text
from purlin.index.texts.product_fields import key_of

Scalar = str | int | float | bool
# Mappings have the bounds `gte` and `lte`, and under `not` another condition.
Condition = Scalar | Sequence[Scalar] | Mapping[str, Any]
Filter = Mapping[str, Condition]
# The values of a field; true and false are texts.
FieldType = Literal["texts", "numbers", "both"]

# Kinds whose texts are compared in any case. Paths and names of code differ by theirs.
ANY_CASE: frozenset[Kind] = frozenset({"product"})

MAX_CONDITIONS = 32
MAX_VALUES = 1000
_LISTED = 30  # field names in an error
_OPERATORS = ("gte", "lte")
_NOT = "not"
# What a line of the text must match, whether or not there is a field of that name.
_TEXT, _MATCHES = "text", "matches"
_NUMBER = re.compile(r"-?[0-9]{1,15}(?:\.[0-9]{1,15})?")
# Python's types of values that cannot equal any of a field of this type.
_OTHER: Mapping[FieldType, type | UnionType] = {"numbers": str | bool, "texts": int | float}
# A number as people write one. Codes such as 007 and 1.50 are none.
_PLAIN_NUMBER = re.compile(r"(?!-0\Z)-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{0,5}[1-9])?")
_CATEGORY = "category"
# Between the levels of a category, as Google and most shops write them, and as Magento does.
_LEVEL = re.compile("[>/]")
_LAST = "\U0010ffff"  # sorts after every character


def beginning_with(prefix: str) -> dict[str, str]:
    """Return the condition that a value begins with `prefix`; a bound is one character longer."""
    return {"gte": prefix, "lte": prefix + _LAST}


def matching_line(pattern: str) -> dict[str, Condition]:
    """Return the condition that a line of the text matches a regular expression."""
    return {_TEXT: {_MATCHES: pattern}}


def pattern_in(conditions: Filter | None) -> str | None:
    """Return the regular expression that a line of the text must match, if the filter has one."""
    condition = (conditions or {}).get(_TEXT)
    pattern = condition.get(_MATCHES) if isinstance(condition, Mapping) else None
    if pattern is not None and not isinstance(pattern, str):
        raise InvalidInput(
            "matches takes a regular expression, as a text.", field=f"filter.{_TEXT}.{_MATCHES}"
        )
    return pattern


def on_fields(conditions: Filter) -> Filter:
    """Return the filter without the regular expression: what is left concerns fields."""
    if pattern_in(conditions) is None:
        return conditions
    condition = cast(Mapping[str, Any], conditions[_TEXT])
    others = {operator: bound for operator, bound in condition.items() if operator != _MATCHES}
    rest = {name: value for name, value in conditions.items() if name != _TEXT}
    return rest | ({_TEXT: others} if others else {})


def folded(conditions: Filter) -> Filter:
    """Return the filter with its texts as `filterable` yields those of kinds in `ANY_CASE`."""
    return {name: _folded_condition(condition) for name, condition in conditions.items()}


def _folded_condition(condition: Condition) -> Condition:
    if isinstance(condition, Mapping):
        return {
            operator: bound if operator == _MATCHES else _folded_condition(bound)
            for operator, bound in condition.items()
        }
    if isinstance(condition, Scalar):
        return _folded(condition)
    return [_folded(value) for value in condition] if isinstance(condition, Sequence) else condition


def _folded(value: Scalar) -> Scalar:
    """Return a text in one case, without blanks around it and with single ones between its words."""
    return " ".join(value.casefold().split()) if isinstance(value, str) else value


@dataclass(frozen=True, slots=True)
class Clause:
    """A condition on the field `name`: one of its values is among `values`, or else within the bounds.

    With `excludes`, none may be, and documents without the field pass. Integers and real numbers are
    compared as numbers, and never with texts; true and false are texts.
    """

    name: str
    values: tuple[Scalar, ...] = ()
    gte: int | float | str | None = None
    lte: int | float | str | None = None
    excludes: bool = False


def clauses(conditions: Filter, field_types: Mapping[str, FieldType]) -> list[Clause]:
    """Check a filter, and return a clause for each condition; a document must fulfil all.

    `field_types` has the fields of the corpus. Raises InvalidInput, which names the field.
    """
    if len(conditions) > MAX_CONDITIONS:
        raise InvalidInput(
            f"filter has {len(conditions)} fields; at most {MAX_CONDITIONS} are allowed.",
            field="filter",
        )

    checked = []
    for name, condition in conditions.items():
        if name not in field_types:
            raise InvalidInput(unknown_field(name, list(field_types)), field=f"filter.{name[:80]}")
        for part, excludes in _parts(name, condition):
            field = f"filter.{name}.{_NOT}" if excludes else f"filter.{name}"
            if isinstance(part, Mapping):
                clause = _range(name, field, part, has_numbers=field_types[name] != "texts")
            else:
                clause = _one_of(name, field, part, is_mixed=field_types[name] == "both")
            checked.append(replace(clause, excludes=excludes))
    return checked


def _parts(name: str, condition: Condition) -> Iterator[tuple[Condition, bool]]:
    """Yield what a field must be, and what it must not be (with True): a range may have a `not`, too."""
    if not isinstance(condition, Mapping) or _NOT not in condition:
        yield condition, False
        return

    excluded = condition[_NOT]
    if isinstance(excluded, Mapping) and _NOT in excluded:
        raise InvalidInput(
            "not stands in another not: write the condition without both.",
            field=f"filter.{name[:80]}.{_NOT}",
        )
    if bounds := {operator: bound for operator, bound in condition.items() if operator != _NOT}:
        yield bounds, False
    yield excluded, True


def only_excludes(condition: Condition) -> bool:
    """Return whether a condition only excludes, so that documents without the field pass."""
    return isinstance(condition, Mapping) and condition.keys() == {_NOT}


def unknown_field(name: str, names: list[str]) -> str:
    """Return the error message for a field that a corpus lacks, with those of its `names` that are similar."""
    names_by_key = {key_of(field_name): field_name for field_name in names}
    similar_keys = get_close_matches(key_of(name[:80]), names_by_key, 3)
    similar = ", ".join(repr(names_by_key[key]) for key in similar_keys)

    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    some = (", ".join(names[:_LISTED]) or "none") + more
    hint = f"Did you mean {similar}?" if similar else f"It has: {some}."

    return (
        f"This corpus has no filterable field {name[:80]!r}. {hint} "
        f"(Texts over {MAX_FILTERABLE_CHARS} characters cannot be filtered on.)"
    )


def no_document_passes(name: str, condition: Condition, texts: Sequence[str]) -> str:
    """Return a warning that a condition passes no document, with those of the field's `texts` that are similar."""
    if isinstance(condition, Mapping):
        return f"No document has a {name!r} that the filter passes."

    # A list may have a thousand long values.
    values = _values_in(condition)[:3]
    similar = {
        text: None
        for value in values
        if isinstance(value, str)
        for text in get_close_matches(str(_folded(value[:80])), texts, 3)
    }
    shown = ", ".join(repr(value)[:80] for value in values)
    if similar:
        hint = f" Did you mean {', '.join(map(repr, similar))}?"
    else:
        hint = f" It has: {', '.join(texts)}." if 0 < len(texts) <= _LISTED else ""
    return f"No document has {name!r} {shown}.{hint}"


def _one_of(
    name: str, field: str, condition: Scalar | Sequence[Scalar], *, is_mixed: bool
) -> Clause:
    if not isinstance(condition, Scalar | Sequence):
        raise InvalidInput(
            "A condition must be a value, a list of values, or an object with gte and lte.",
            field=field,
        )
    values: list[Scalar] = [condition] if isinstance(condition, Scalar) else list(condition)
    if not values or len(values) > MAX_VALUES:
        raise InvalidInput(
            f"A list must have 1 to {MAX_VALUES} values; this one has {len(values)}.",
            field=field,
        )
    if not all(isinstance(value, Scalar) for value in values):
        raise InvalidInput("A value must be a text, a number, true or false.", field=field)

    stored = [_stored(value, field) for value in values]
    if is_mixed:
        stored += [spelling for value in stored for spelling in _as_other_type(value)]
    return Clause(name, tuple(stored))


def _as_other_type(value: Scalar) -> Iterator[Scalar]:
    """Yield the text of a number, or the number in a text: sizes are "M", "38" and 38."""
    if isinstance(value, str):
        if _PLAIN_NUMBER.fullmatch(value):
            yield float(value)
    elif value == value and _PLAIN_NUMBER.fullmatch(text := f"{value:.15g}"):
        yield text


def check_types(conditions: Filter, field_types: Mapping[str, FieldType]) -> None:
    """Raise WrongType for a condition of texts on a field of numbers, or the reverse.

    No value could fulfil it. A list with both texts and numbers passes. Whatever else may be wrong with
    a condition is left to `clauses`.
    """
    for name, condition in conditions.items():
        for part, excludes in _parts(name, condition):
            own = field_types.get(name, "both")
            if _is_of_other_type(part, own):
                field = f"filter.{name[:80]}" + (f".{_NOT}" if excludes else "")
                raise WrongType(_remedy(name, part, own), field=field)


def _values_in(condition: Condition) -> Sequence[Any]:
    """Return the values of a condition, or its bounds; none if it has no valid type."""
    if isinstance(condition, Mapping):
        return list(condition.values())
    if isinstance(condition, Scalar):
        return [condition]
    return condition if isinstance(condition, Sequence) else []


def _is_of_other_type(condition: Condition, own: FieldType) -> bool:
    values, other_type = _values_in(condition), _OTHER.get(own)
    if not values or not other_type or not all(isinstance(value, other_type) for value in values):
        return False
    # True and false are texts, though Python counts them among the numbers.
    return own != "texts" or not any(isinstance(value, bool) for value in values)


def _remedy(name: str, condition: Condition, field_type: FieldType) -> str:
    """Return the error message for a condition whose type is not that of its field."""
    is_range, value = isinstance(condition, Mapping), _values_in(condition)[0]
    shown = str(value)[:40]

    if field_type == "texts":
        remedy = "give texts as bounds" if is_range else f'give it as a text, in quotes: "{shown}"'
        if not is_range and value in (0, 1):
            remedy += f", or as {str(bool(value)).lower()}"
        return f"{name!r} has texts only, no numbers to compare with; {remedy}."
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        return f"{name!r} has numbers only; give a number, {shown} without quotes."
    # Over HTTP, and on the command line.
    forms = f"""{{"lte": 50}}, or --filter '{name}<=50'"""
    remedy = "give numbers as bounds" if is_range else f"give a number, or a range as {forms}"
    return f"{name!r} has numbers only, and {json.dumps(value)[:60]} is not a number; {remedy}."


def _range(
    name: str, field: str, bounds: Mapping[str, int | float | str], *, has_numbers: bool
) -> Clause:
    unknown = [operator for operator in bounds if operator not in _OPERATORS]
    if unknown or not bounds:
        operator = repr(unknown[0][:40]) if unknown else "nothing"
        raise InvalidInput(
            f"A condition takes gte, lte and not; {operator} was given.", field=field
        )

    for operator, bound in bounds.items():
        if isinstance(bound, bool) or not isinstance(bound, (int, float, str)):
            raise InvalidInput(f"{operator} takes a number or a text.", field=f"{field}.{operator}")
        if not isinstance(bound, str) and not has_numbers:
            raise InvalidInput(
                f"{name!r} has no numbers to compare with.", field=f"{field}.{operator}"
            )
        # It would be compared with texts only, and no number would pass.
        if has_numbers and isinstance(bound, str) and _NUMBER.fullmatch(bound):
            raise InvalidInput(
                f"{name!r} has numbers; give {operator} as a number, {bound} without quotes.",
                field=f"{field}.{operator}",
            )
        _stored(bound, f"{field}.{operator}")

    gte, lte = bounds.get("gte"), bounds.get("lte")
    _check_order(gte, lte, field)
    return Clause(name, gte=gte, lte=lte)


def _check_order(gte: int | float | str | None, lte: int | float | str | None, field: str) -> None:
    """Raise InvalidInput for bounds that nothing can lie between."""
    if gte is None or lte is None:
        return

    if isinstance(gte, str) != isinstance(lte, str):
        raise InvalidInput(
            "The bounds of a range must both be numbers, or both texts.", field=field
        )
    # Bounds of one type have an order, which mypy cannot tell.
    if cast(Any, gte) > cast(Any, lte):
        raise InvalidInput(
            f"The lower bound {gte!r:.80} is above the upper one, {lte!r:.80}: swap them.",
            field=field,
        )


def _stored(value: Scalar, field: str) -> Scalar:
    """Return a value in the form in which fields are stored. Raises InvalidInput if it has none."""
    if isinstance(value, bool):
        return str(value).lower()

    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise InvalidInput("A whole number must fit in 64 bits.", field=field)

    if isinstance(value, str) and not is_text(value):
        raise InvalidInput(
            f"{value[:80]!r} is not valid Unicode; send UTF-8.",
            field=field,
        )

    return value


def filterable(
    fields: Mapping[str, Value], *, any_case: bool = False
) -> Iterator[tuple[str, Scalar]]:
    """Yield (name, value) of all fields that are short enough; a list yields each of its values.

    With `any_case`, as for products, texts are folded in case and blanks, and a category that is a path
    yields the categories above it, too.
    """
    for name, field_value in fields.items():
        values: Iterable[Scalar]
        values = field_value if isinstance(field_value, tuple) else (field_value,)
        if any_case and name == _CATEGORY:
            values = _with_levels(values)

        for value in values:
            if isinstance(value, str):
                if len(value) <= MAX_FILTERABLE_CHARS:
                    yield name, _folded(value) if any_case else value
            elif isinstance(value, bool):
                yield name, str(value).lower()
            # Nothing compares with what is not a number.
            elif value == value:
                yield name, _fitting(value)


def _with_levels(values: Iterable[Scalar]) -> Iterator[Scalar]:
    """Yield categories and those above them: "Parts" and "Parts > Chains" of the latter."""
    levels: dict[Scalar, None] = {}
    for value in values:
        if isinstance(value, str) and len(value) <= MAX_FILTERABLE_CHARS:
            ends = (match.start() for match in _LEVEL.finditer(value))
            levels |= dict.fromkeys(above for end in ends if (above := value[:end].rstrip()))
        levels[value] = None
    yield from levels


def _fitting(value: int | float) -> int | float:
    """Return the value, as a float if it is an integer beyond 64 bits."""
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return float(value)
    return value
