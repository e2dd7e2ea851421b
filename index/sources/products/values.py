"""Values of product records: text without markup, numbers, prices, ids and web addresses."""

from __future__ import annotations

import html
import json
import math
import re
from collections.abc import Iterable, Mapping
from datetime import date, time
from decimal import Decimal

import lxml.etree
import lxml.html

from purlin.index.errors import InvalidInput
from purlin.index.records import Value
from purlin.index.sources.encodings import valid_text
from purlin.index.sources.words import words

MAX_PRODUCT_ID = 512

# With more tags, these are cut out by a regex: libxml2 drops text nested deeper than 2,047 levels.
MAX_TAGS = 2_000

# What is left of a mapping, or of those in a list.
Rest = Mapping[str, object] | list[Mapping[str, object]] | None

NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,14})(?:\.\d{1,15})?")
_WITH_COMMA = re.compile(r"-?(?:0|[1-9]\d{0,2}(?:\.\d{3}){1,4}|[1-9]\d{0,14}),\d{1,15}")

# Keys of mappings in standard columns that have the text or number itself, the preferred first:
# those of schema.org, WooCommerce and Shopify.
_TEXT_KEYS = ("name", "value", "@value", "title", "rendered", "text", "html", "label")
_MAIN_KEYS = {
    "id": ("value", "@value", "id"),
    "parent": ("sku", "id", "value", "@value"),
    "description": ("text", "html", "rendered", "value", "@value"),
    "bullets": ("text", "html", "rendered", "value", "@value", "name", "title", "label"),
    "price": ("value", "amount", "price", "@value"),
    "url": ("url", "href", "@id", "value", "@value"),
}

# A language, as the keys of texts in several have it: {"en": ..., "de-AT": ...}.
_LANGUAGE_KEY = re.compile(r"(?!id\Z)[a-z]{2}(?:[-_][A-Za-z]{2,4})?")
_TRANSLATED = frozenset(("title", "description", "bullets", "brand", "colour", "category"))

_BLOCK_TAGS = words(
    "br hr p div section article header footer h1 h2 h3 h4 h5 h6 li ul ol dl dt dd table tr"
)
_HTML = lxml.html.HTMLParser(encoding="utf-8", remove_pis=True, huge_tree=True)
_COMMENT = re.compile(r"<!--.*?(?:-->|$)", re.DOTALL)
_TAG = re.compile(r"</?[a-zA-Z][^<>]*>")
_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z]{2,31});")
_CONTROL = dict.fromkeys([*range(1, 9), *range(14, 32), 127], " ")
# Between the items of a cell that lists several: bars or semicolons where it has any, since then a
# comma is within an item ("Clothing, Shoes & Jewelry|Women"). In "1,5 l" it is a decimal one.
_ITEM_ENDS = (re.compile(r"[;|]"), re.compile(r"(?<!\\),(?!\d)"))
CURRENCY_CODES = (
    "aed aud brl cad chf cny czk dkk eur gbp hkd huf inr jpy krw mxn nok nzd pln ron sek sgd try usd "
    "zar"
).split()
_CURRENCY = rf"[$€£¥₹₽₺₩円元]|zł|kr\.?|{'|'.join(CURRENCY_CODES)}"
# In time that grows with the length of a text; "1.299,- €" has no cents.
_MONEY_AMOUNT = r"\d[\d.,'\s]*+-?\s*+"
_MONEY = re.compile(
    rf"(?:{_CURRENCY})\s*+{_MONEY_AMOUNT}|{_MONEY_AMOUNT}(?:{_CURRENCY})", re.IGNORECASE
)
# An abbreviation before the amount may end in a dot: "Rs. 500", "MRP S.R. 20".
_AMOUNT = re.compile(r"(?:[^\d,.-]*\b[^\W\d_]{1,4}\.)*[^\d,.-]*(\d[\d.,' ]*)[^\d]*")


def typed_cell(cell: object, *, decimal_comma: bool = False) -> object:
    """The number, true or false that the cell of a CSV stands for, or the cell as it is.

    With a `decimal_comma` 9,80 and 1.299,00 are numbers, too.
    """
    if decimal_comma and isinstance(cell, str) and _WITH_COMMA.fullmatch(cell):
        return float(cell.replace(".", "").replace(",", "."))
    if isinstance(cell, str) and cell.lower() in ("true", "false"):
        return cell.lower() == "true"
    if not isinstance(cell, str) or not NUMBER.fullmatch(cell):
        return cell
    return float(cell) if "." in cell else int(cell)


def split_value(raw: object, standard: str) -> tuple[object, Rest]:
    """What the cell of a standard column says, without mappings, and the rest of these mappings.

    {"value": "19.99", "currency": "USD"} in a column of prices is 19.99, and the rest is its
    currency. All of a mapping that has none of the expected keys is rest.
    """
    if isinstance(raw, Mapping):
        return _split_mapping(raw, standard)

    if isinstance(raw, list | tuple) and any(isinstance(item, Mapping) for item in raw):
        pairs = [
            _split_mapping(item, standard) if isinstance(item, Mapping) else (item, {})
            for item in raw
        ]
        return [main for main, _ in pairs if main is not None], [rest for _, rest in pairs if rest]

    return raw, None


def _split_mapping(raw: Mapping[str, object], standard: str) -> tuple[object, Mapping[str, object]]:
    keys = _MAIN_KEYS.get(standard, _TEXT_KEYS)
    if standard in _TRANSLATED and all(_LANGUAGE_KEY.fullmatch(str(key)) for key in raw):
        # The first one is the shop's own.
        keys = tuple(raw)
    mains = [key for key in keys if _is_filled_scalar(raw.get(key))][:1]
    if not mains:
        return None, raw

    main = raw[mains[0]]
    if standard == "bullets" and mains == ["value"] and _is_filled_scalar(raw.get("name")):
        # A line of the text, as an attribute is.
        main, mains = f"{raw['name']}: {main}", ["name", "value"]

    # Keys such as JSON-LD's @type tell of the notation, not of the product.
    rest = {
        key: value
        for key, value in raw.items()
        if key not in mains and not str(key).startswith("@")
    }
    return main, rest


def _is_filled_scalar(value: object) -> bool:
    return isinstance(value, str | int | float | Decimal) and value != ""


def field_value(raw: object) -> Value | None:
    """A field's value, or None if there is nothing to display or filter by."""
    if isinstance(raw, str):
        return plain(valid_text(raw)) or None
    if isinstance(raw, bool):
        return raw
    if isinstance(raw, int):
        # Filters compare integers of 64 bits.
        return raw if abs(raw) < 1 << 63 else str(raw)
    if isinstance(raw, float | Decimal):
        return float(raw) if math.isfinite(raw) else None
    if isinstance(raw, date | time):
        return raw.isoformat()

    if isinstance(raw, list | tuple):
        texts = (text_of(item) for item in raw if not isinstance(item, list | tuple))
        return tuple(text for text in texts if text) or None
    return None


def named_value(raw: object) -> Value | None:
    """The value, with numbers as text: a brand may be called 1883."""
    value = field_value(raw)
    return value if value is None or isinstance(value, tuple) else displayed(value)


def text_of(raw: object) -> str:
    """The value as text, a line for each item of a list; empty if there is nothing to display."""
    value = field_value(raw)
    if value is None:
        return ""
    return "\n".join(value) if isinstance(value, tuple) else displayed(value)


def line_of(raw: object) -> str:
    """The value on a single line."""
    value = field_value(raw)
    return "" if value is None else " ".join(displayed(value).split())


def item_lines(raw: object) -> list[str]:
    """A line for each item of a list, or of text with items on lines or between bars or bullets."""
    items: Iterable[object] = [raw]
    if isinstance(raw, list | tuple):
        items = raw
    elif isinstance(raw, str):
        items = _text_items(raw)

    lines = (line for item in items for line in text_of(item).split("\n"))
    without_marks = (re.sub(r"^[•*–-]\s+", "", line) for line in lines)
    return [line for line in without_marks if line]


def _text_items(text: str) -> list[str]:
    if text.startswith("["):
        try:
            return [item for item in json.loads(text) if isinstance(item, str)]
        except (ValueError, RecursionError):
            pass
    return text.split("\n") if "\n" in text.strip() else re.split(r"[|•]", text)


def listed_items(cell: str) -> list[str]:
    """The items of a cell that lists several: categories, tags, the sizes of a product.

    A list in the notation of a program, such as `["Home"]`, is one item.
    """
    text = plain(cell)
    if text.startswith(("[", "{")):
        return [text]
    item_end = next((end for end in _ITEM_ENDS if end.search(text)), _ITEM_ENDS[0])
    items = (item.strip().replace("\\,", ",") for item in item_end.split(text))
    return list(dict.fromkeys(item for item in items if item))


def displayed(value: Value) -> str:
    """A field's value as people read it."""
    if isinstance(value, bool):
        return "Yes" if value else "No"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return ", ".join(dict.fromkeys(value)) if isinstance(value, tuple) else str(value)


def identifier(raw: object) -> str:
    """The id as it is, since judgements and other systems refer to the product by it."""
    text = valid_text(raw.strip()) if isinstance(raw, str) else line_of(raw)
    if len(text) > MAX_PRODUCT_ID:
        raise InvalidInput(
            f"has an id of {len(text):,} characters; the limit is {MAX_PRODUCT_ID}", field="id"
        )
    return text


def price_of(raw: object) -> float | None:
    """A price as a number: 19.99, "$1,299.00", "kr. 99,95"; None for a range or words."""
    value = field_value(raw)
    if isinstance(value, bool | tuple | None) or (isinstance(value, str) and len(value) > 40):
        return None
    if isinstance(value, int | float) or NUMBER.fullmatch(value):
        return float(value)

    amount = _AMOUNT.fullmatch(value)
    if amount is None:
        return None

    # Two digits or one after the last separator are cents; all other separators are for thousands.
    digits = re.sub(r"[' ]|[., ]+$", "", amount[1])
    cents = re.search(r"[.,](\d{1,2})$", digits)
    whole = re.sub(r"[.,]", "", digits[: cents.start()] if cents else digits)

    return float(f"{whole}.{cents[1] if cents else 0}")


def money(value: Value) -> Value:
    """The number of an amount with its currency, "4,90 €", so that it can be filtered by; else the value."""
    if not isinstance(value, str) or not _MONEY.fullmatch(value):
        return value
    price = price_of(value)
    return value if price is None else price


def web_address(raw: object) -> str | None:
    """The address if it is on the web, else None: nothing else may become a link."""
    text = raw.strip() if isinstance(raw, str) else ""
    return valid_text(text) if re.fullmatch(r"https?://\S{1,2000}", text) else None


def plain(text: str) -> str:
    """The text without markup, repeated spaces and empty lines."""
    # Twice, because some feeds escape their markup twice.
    for _ in range(2):
        if _TAG.search(text) or "<!--" in text:
            text = _without_tags(text)
        elif _ENTITY.search(text):
            text = _ENTITY.sub(lambda entity: html.unescape(entity[0]), text)

    lines = (" ".join(line.split()) for line in text.translate(_CONTROL).splitlines())
    return "\n".join(line for line in lines if line)


def _without_tags(text: str) -> str:
    text = _COMMENT.sub(" ", text)
    if len(_TAG.findall(text)) > MAX_TAGS:
        return _TAG.sub(" ", text)

    try:
        root = lxml.html.document_fromstring(text.encode(), parser=_HTML)
    except lxml.etree.LxmlError:
        return ""

    lxml.etree.strip_elements(root, "script", "style", with_tail=False)
    pieces = []
    for event, element in lxml.etree.iterwalk(root, events=("start", "end")):
        text_after_tag = element.text if event == "start" else element.tail
        separator = ""
        if element.tag in _BLOCK_TAGS:
            separator = "\n"
        elif element.tag in ("td", "th"):
            separator = " "
        pieces.append(separator + re.sub(r"\s+", " ", text_after_tag or ""))

    return "".join(pieces)
