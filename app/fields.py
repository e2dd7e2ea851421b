"""Types of the fields that the requests of the API and the arguments of tools share.

Kept apart from the requests, so that tools over stdio start without the packages of the server.
"""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    WrapValidator,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError, ValidationError

from purlin.index.records import is_text
from purlin.index.search.limits import MAX_QUERY_CHARS
from purlin.index.search.store.filters import MAX_CONDITIONS, MAX_VALUES

MAX_OBJECT_KEYS = 100
MAX_VALUE_CHARS = 1_000
MAX_TEXT_CHARS = 2**20
MAX_REQUEST_LABELS = 10_000
MAX_REQUEST_LABEL_CHARS = 1_000
_OPERATORS = 3  # gte, lte and not
MAX_NAME_CHARS = 80  # of an unknown key, when it is compared with the known ones


class Strict(BaseModel):
    """Base of all requests: accepts only known keys, with values of the declared types.

    Pydantic collects all errors before it reports them. Where a client could cause any number of them,
    the number of items is checked first.
    """

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _check_keys(cls, data: Any) -> Any:
        limit_size(data, dict, MAX_OBJECT_KEYS, "an object of at most {} keys")
        if not isinstance(data, dict):
            return data

        keys = _keys(cls)
        # Pydantic itself refuses keys that are no text.
        unknown = [key for key in data if key not in keys and isinstance(key, str) and is_text(key)]
        if unknown:
            errors = [
                InitErrorDetails(
                    type=PydanticCustomError("unknown_key", _remedy(key, keys)),
                    loc=(key,),
                    input=data[key],
                )
                for key in unknown
            ]
            raise ValidationError.from_exception_data(cls.__name__, errors)
        return data


def _keys(model: type[BaseModel]) -> list[str]:
    """Return the keys that requests of a model may have."""
    return [field.alias or name for name, field in model.model_fields.items()]


def _remedy(key: str, keys: list[str]) -> str:
    """Return what is wrong with an unknown key, and what to write instead, to be read after the key."""
    similar = get_close_matches(key[:MAX_NAME_CHARS], keys, 1)
    rule = f"{similar[0]!r} is" if similar else f"known are {', '.join(keys)}"
    return f"is not a known key; {rule}"


def limit_size(
    value: Any, container: type[list[Any] | dict[Any, Any]], max_items: int, rule: str
) -> Any:
    """Return a value, or refuse a list or an object with too many items before any is checked."""
    if isinstance(value, container) and len(value) > max_items:
        raise PydanticCustomError("too_many", f"must be {rule.format(max_items)}")
    return value


# ---- values and filters


def _validate_condition(value: Any, validate: Callable[[Any], Any]) -> Any:
    """Report an invalid condition in one sentence, not as one error per union member."""
    excluded = value.get("not") if isinstance(value, dict) else None
    for values in (value, excluded):
        limit_size(values, list, MAX_VALUES, "a list of at most {} values")

    # What a form sends for an empty field.
    bounds = ("gte", "lte") if isinstance(value, dict) else ()
    if empty := [bound for bound in bounds if value.get(bound, 0) is None]:
        raise PydanticCustomError("condition", f"must have no null: leave {empty[0]} out")

    try:
        if any(isinstance(each, dict) and len(each) > _OPERATORS for each in (value, excluded)):
            raise ValueError
        if isinstance(value, dict) and not all(map(_may_be_bound, value, value.values())):
            raise ValueError
        return validate(value)
    except ValueError:
        rule = (
            "must be a value, a list of values, or an object with gte, lte and not "
            f"(texts: {MAX_VALUE_CHARS} characters; numbers: finite)"
        )
        raise PydanticCustomError("condition", rule) from None


def _may_be_bound(operator: Any, operand: Any) -> bool:
    """Return whether an operator takes this operand: `not` takes anything, the others only bounds."""
    is_plain = isinstance(operand, str | int | float) and not isinstance(operand, bool)
    return operator == "not" or is_plain


def _limit_fields(value: Any) -> Any:
    return limit_size(value, dict, MAX_CONDITIONS, "an object of at most {} fields")


Text = Annotated[str, Field(max_length=MAX_VALUE_CHARS)]
_Value = Text | int | float | bool
_Bound = Text | int | float
# `not` takes any condition but another `not`. Its schema would be longer than all the rest.
_Operand = Annotated[_Bound | bool | list[_Value] | dict[str, _Bound], WithJsonSchema({})]
_FieldCondition = Annotated[
    _Value | list[_Value] | dict[str, _Operand], WrapValidator(_validate_condition)
]
Conditions = Annotated[dict[str, _FieldCondition], BeforeValidator(_limit_fields)]
Query = Annotated[str, Field(min_length=1, max_length=MAX_QUERY_CHARS)]
# A search by a regular expression needs no words.
OptionalQuery = Annotated[str, Field(max_length=MAX_QUERY_CHARS)]
CorpusName = Annotated[str, Field(max_length=64, description="One of GET /corpora.")]


# ---- labels


def suggest(for_list: str, for_item: str) -> WrapValidator:
    """Append a remedy to the error about a list that is too long, or about an item that is."""

    def with_remedy(error: Any) -> InitErrorDetails:
        error_type: Any = error["type"]
        if error_type in ("too_long", "string_too_long"):
            rule = error["msg"].partition(" after validation")[0]
            # An error about an item has the item's index as its location.
            remedy = for_item if error["loc"] else for_list
            error_type = PydanticCustomError(error_type, f"{rule}: {remedy}")

        return InitErrorDetails(
            type=error_type, loc=error["loc"], input=error["input"], ctx=error.get("ctx", {})
        )

    def validate(value: Any, handler: Callable[[Any], Any]) -> Any:
        try:
            return handler(value)
        except ValidationError as error:
            line_errors = [with_remedy(line_error) for line_error in error.errors()]
            raise ValidationError.from_exception_data(error.title, line_errors) from None

    return WrapValidator(validate)


def _refuse_mapping(value: Any) -> Any:
    if isinstance(value, dict):
        rule = "must be a list; a description follows the name of its label, as in "
        raise PydanticCustomError("labels", f'{rule}"delivery = parcels and shipping"')
    return value


Labels = Annotated[
    list[Annotated[str, Field(max_length=MAX_REQUEST_LABEL_CHARS)]],
    Field(max_length=MAX_REQUEST_LABELS),
    suggest(
        "choose among groups of labels first, then within the group",
        "a label is a name or a phrase",
    ),
    BeforeValidator(_refuse_mapping),
]
