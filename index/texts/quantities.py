"""Quantities of products in one spelling, so that equal ones have equal tokens.

`17"`, 17-inch and 17 in. become 17in; 2 TB and 2,000 GB become 2000gb. BM25 reads products and the
queries for them like this, while encoders and people see what was written. The answers of references have
units of their own (`purlin.index.qa.answer_types`): pixels and seconds, but no kilograms.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from functools import lru_cache
from typing import NamedTuple

# The units that quantities of a measure are written in, largest first, with their size and names as
# people write them; a quantity gets the first that makes it whole. Units without a name of their own
# are only read.
_MEASURES: tuple[tuple[tuple[str, int, str], ...], ...] = (
    (
        ("", 1_000_000, "TB TiB terabyte terabytes"),
        ("gb", 1_000, "GB GiB GByte GBytes gigabyte gigabytes"),
        ("mb", 1, "MB MiB MByte MBytes megabyte megabytes"),
    ),
    (("", 1_000, "Gbps Gbit/s"), ("mbps", 1, "Mbps Mbit/s")),
    (("", 1_000, "GHz gigahertz"), ("mhz", 1, "MHz megahertz")),
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
    (("", 1_000, "kW kilowatt kilowatts"), ("w", 1, "W watt watts")),
    (("", 1_000, "kVA"), ("va", 1, "VA")),
    (("", 1_000, "Ah"), ("mah", 1, "mAh")),
    (("v", 1, "V volt volts"),),
    (
        ("uf", 1_000_000, "uF µF μF microfarad microfarads"),
        ("nf", 1_000, "nF nanofarad nanofarads"),
        ("pf", 1, "pF picofarad picofarads"),
    ),
    (("", 1_000, "mH"), ("uh", 1, "uH µH μH")),
    (("k ohm", 1_000, "kΩ kohm kohms"), ("ohm", 1, "Ω ohm ohms")),
    (("mp", 1, "MP Mpix megapixel megapixels"),),
)
_BYTES = _MEASURES[0]
# The measure of each name of a unit in lower case, and the unit's size in it.
_UNITS = {
    name.lower(): (measure, size)
    for measure in _MEASURES
    for _, size, names in measure
    for name in names.split()
}
# Units whose quantities are left as they are: few products have them in several spellings.
_OTHER_UNITS = "Wh kWh mg km Hz kHz K dB rpm dpi ppm min minutes hours days months years"
_WRITTEN = {
    name.lower(): name
    for name in " ".join(
        [*(row[2] for measure in _MEASURES for row in measure), _OTHER_UNITS]
    ).split()
    if name[0].isalpha()
}

_WORDS = "|".join(sorted((name for name in _UNITS if name[0].isalpha() and name != "in"), key=len))
_MARKS = "|".join(name for name in _UNITS if not name[0].isalpha())
_BLANK = "[ \u00a0\u202f]"
# A number stands by itself, or after the x of 4x2GB: that of "802.11", "1/2" or "DDR4-3200" is no quantity.
# After a blank, "in" is a unit at the end of a phrase only, and it is none in 2-in-1. 4k7 is 4.7 kΩ in the
# code of IEC 60062, and 4.7k is, too; .1uF is 0.1.
_QUANTITY = re.compile(
    rf"""
    (?:(?<=\d[x×*])|(?<![\w.,])(?<!\d/)(?<!\w-))
    (?:
        (?P<kilohms>[0-9]{{1,3}}(?:k[0-9]|[.,][0-9]{{1,2}}k))(?:{_BLANK}?(?:Ω|ohms?))?(?!\w)
        |(?P<number>[1-9][0-9]{{0,2}}(?:,[0-9]{{3}}){{1,3}}(?:\.[0-9]{{1,4}})?|[0-9]{{1,9}}(?:[.,][0-9]{{1,4}})?|\.[0-9]{{1,4}})
        (?:
            (?:{_BLANK}|[-\u2011])?(?P<word>{_WORDS})(?!\w|/[^\W\d])
            |(?P<mark>{_MARKS})(?!\w)
            |[-\u2011]?(?P<joined>in)(?![\w-])
            |{_BLANK}(?P<apart>in)(?=\.?{_BLANK}?(?:[),;x×/]|\Z))
        )
    )
    """,
    re.IGNORECASE | re.VERBOSE,
)
# A metric thread and its length or pitch: M6x30 has the word M6, as M6 x 30 has.
_THREAD = re.compile(r"(?<!\w)(M\d{1,2}(?:[.,]\d)?)[x×*](?=\d)", re.IGNORECASE)


class Quantity(NamedTuple):
    """A quantity in a text, from `start` to `end`, in its one spelling."""

    start: int
    end: int
    spelling: str


def unit_of(word: str) -> str | None:
    """The unit that a word is whatever its case, as people write it; None if it is none."""
    return _WRITTEN.get(word.lower())


def quantities(text: str) -> Iterator[Quantity]:
    """Yield the quantities of a text, in order."""
    for match in _QUANTITY.finditer(text):
        if kilohms := match["kilohms"]:
            number, unit = kilohms.lower().rstrip("k").replace("k", "."), "kohm"
        else:
            unit = (match["word"] or match["mark"] or match["joined"] or match["apart"]).lower()
            number = match["number"]
        # Where case is ignored, i and s also match ı and ſ.
        if unit in _UNITS:
            yield Quantity(*match.span(), _spelling(number, unit))


def in_one_spelling(text: str) -> str:
    """The text with each of its quantities in one spelling, and threads apart from their lengths."""
    text = _THREAD.sub(r"\1 x ", text)
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
