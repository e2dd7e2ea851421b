"""Quantities of products in one spelling, so that equal ones have equal tokens.

`17"`, 17-inch and 17 in. become 17in; 2 TB and 2,000 GB become 2000gb. BM25 reads products and the
queries for them like this, while encoders and people see what was written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from functools import lru_cache
from typing import NamedTuple

# The units that quantities of a measure are written in, largest first, with their size and names;
# a quantity gets the first that makes it whole. Units without a name of their own are only read.
_MEASURES: tuple[tuple[tuple[str, int, str], ...], ...] = (
    (
        ("", 1_000_000, "tb tib terabyte terabytes"),
        ("gb", 1_000, "gb gib gbyte gbytes gigabyte gigabytes"),
        ("mb", 1, "mb mib mbyte mbytes megabyte megabytes"),
    ),
    (
        ("", 1_000, "gbps gbit/s"),
        ("mbps", 1, "mbps mbit/s"),
    ),
    (
        ("", 1_000, "ghz gigahertz"),
        ("mhz", 1, "mhz megahertz"),
    ),
    (
        ("m", 1_000, "m metre metres meter meters"),
        ("", 10, "cm centimetre centimetres centimeter centimeters"),
        ("mm", 1, "mm millimetre millimetres millimeter millimeters"),
    ),
    (("in", 1, "in inch inches \" ” ″ ''"),),
    (("ft", 1, "ft foot feet"),),
    (
        ("kg", 1_000, "kg kgs kilo kilos kilogram kilograms"),
        ("g", 1, "g gr gram grams gramme grammes"),
    ),
    (("lb", 1, "lb lbs pound pounds"),),
    (("oz", 1, "oz ounce ounces"),),
    (
        ("l", 1_000, "l ltr litre litres liter liters"),
        ("", 10, "cl"),
        ("ml", 1, "ml millilitre millilitres milliliter milliliters"),
    ),
    (
        ("", 1_000, "kw kilowatt kilowatts"),
        ("w", 1, "w watt watts"),
    ),
    (("", 1_000, "kva"), ("va", 1, "va")),
    (("", 1_000, "ah"), ("mah", 1, "mah")),
    (("v", 1, "v volt volts"),),
    (("mp", 1, "mp mpix megapixel megapixels"),),
)
_BYTES = _MEASURES[0]
# The measure of each name of a unit, and the unit's size in it.
_UNITS = {
    name: (measure, size)
    for measure in _MEASURES
    for _, size, names in measure
    for name in names.split()
}

_WORDS = "|".join(sorted((name for name in _UNITS if name[0].isalpha() and name != "in"), key=len))
_MARKS = "|".join(name for name in _UNITS if not name[0].isalpha())
_BLANK = "[ \u00a0\u202f]"
# A number stands by itself, or after the x of 4x2GB: that of "802.11", "1/2" or "DDR4-3200" is no quantity.
# After a blank, "in" is a unit at the end of a phrase only, and it is none in 2-in-1.
_QUANTITY = re.compile(
    rf"""
    (?:(?<=\d[x×*])|(?<![\w.,])(?<!\d/)(?<!\w-))
    (?P<number>[1-9][0-9]{{0,2}}(?:,[0-9]{{3}}){{1,3}}(?:\.[0-9]{{1,4}})?|[0-9]{{1,9}}(?:[.,][0-9]{{1,4}})?)
    (?:
        (?:{_BLANK}|[-\u2011])?(?P<word>{_WORDS})(?!\w|/[^\W\d])
        |(?P<mark>{_MARKS})(?!\w)
        |[-\u2011]?(?P<joined>in)(?![\w-])
        |{_BLANK}(?P<apart>in)(?=\.?{_BLANK}?(?:[),;x×/]|\Z))
    )
    """,
    re.IGNORECASE | re.VERBOSE,
)


class Quantity(NamedTuple):
    """A quantity in a text, from `start` to `end`, in its one spelling."""

    start: int
    end: int
    spelling: str


def quantities(text: str) -> Iterator[Quantity]:
    """Yield the quantities of a text, in order."""
    for match in _QUANTITY.finditer(text):
        unit = match["word"] or match["mark"] or match["joined"] or match["apart"]
        yield Quantity(*match.span(), _spelling(match["number"], unit.lower()))


def in_one_spelling(text: str) -> str:
    """The text with each of its quantities in one spelling."""
    pieces, end = [], 0
    for quantity in quantities(text):
        # What follows, or the x before, must not become part of its word.
        pieces += [text[end : quantity.start], f" {quantity.spelling} "]
        end = quantity.end
    return "".join([*pieces, text[end:]])


@lru_cache(maxsize=16_384)
def _spelling(number: str, unit: str) -> str:
    """The quantity in the largest unit that makes it whole, else in the smallest, with a blank.

    As one word, 15.6in would have the token 6in, which is another quantity.
    """
    measure, size = _UNITS[unit]
    amount = _amount(number)
    # Memory counts 1,024 MB to a GB.
    if measure is _BYTES and amount % 1024 == 0:
        amount = amount / 1024 * 1000

    written = [(name, amount * size / own_size) for name, own_size, _ in measure if name]
    for name, own_amount in written:
        if own_amount == own_amount.to_integral_value():
            return f"{own_amount.normalize():f}{name}"
    name, own_amount = written[-1]
    return f"{own_amount.normalize():f} {name}"


def _amount(number: str) -> Decimal:
    """The number, whose comma is one of thousands before three digits, unless it begins with 0."""
    whole, comma, decimals = number.rpartition(",")
    is_decimal = comma and (len(decimals) != 3 or whole == "0") and "." not in number
    return Decimal(number.replace(",", "." if is_decimal else ""))
