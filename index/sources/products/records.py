"""Make documents of product records.

Columns are recognised by the names that shops give them (`columns`); all others become
fields, and those too long to filter by are also part of the body.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Set

from purlin.index.errors import InvalidInput
from purlin.index.records import MAX_FILTERABLE_CHARS, Document, Location, Span, Value
from purlin.index.sources.products.attributes import (
    attributes_of,
    flat_fields,
    paired_columns,
    values_by_key,
)
from purlin.index.sources.products.columns import (
    column_names,
    lists_items,
    named_freely,
    standard_of,
)
from purlin.index.sources.products.values import (
    displayed,
    identifier,
    item_lines,
    line_of,
    listed_items,
    money,
    named_value,
    price_of,
    split_value,
    text_of,
    web_address,
)
from purlin.index.sources.tables import MAX_ROW, TOO_LONG
from purlin.index.texts.product_fields import (
    ICECAT,
    has_trait_name,
    is_option,
    searched_columns,
    units_of,
    without_unit,
)

MAX_PRODUCT_FIELDS = 1_000

# Characters of the body that serve as title if there is none.
MAX_TITLE_FROM_BODY = 80

# A text without a space is an address or encoded data.
_NO_PROSE = re.compile("[!-~]+")


def from_record(
    record: Mapping[str, object], *, columns: Mapping[str, str] | None = None
) -> Document:
    """Make a document of one product record; `columns` as for `catalogue.files`.

    The body is the description, then a line for each bullet and for texts of other columns that are
    too long to filter by, then `Name: value` lines for brand, category, colour, options, codes,
    quantities with units and attributes; these lines are its atoms. The summary is the body without the
    `Name: value` lines.

    Raises InvalidInput for a record without text, with characters that are not valid text, or
    beyond the limits on length, depth and number of fields.
    """
    record = _with_listed_items(record)
    names = _recognised(record, columns or {})
    values, rest = _standard_values(record, names)

    pairs = paired_columns(name for name in record if name not in names.values())
    attributes, attribute_prose = attributes_of(record, values.get("attributes"), pairs)
    named = {key: named_value(values.get(key)) for key in ("brand", "category", "colour")}
    excluded = {*names.values(), *pairs, *pairs.values()}
    others = {
        # A size such as "EUR 38" is no amount.
        name: value if is_option(name) else money(value)
        for name, value in flat_fields({**_other_columns(record, excluded), **rest})
    }

    description = text_of(values.get("description"))
    lines = [
        *item_lines(values.get("bullets")),
        *attribute_prose,
        *_other_prose(others, description),
    ]
    summary, _ = _compose(description, lines)
    searched = searched_columns(others)
    named_lines = [*_named_lines({**named, **searched}), *_named_lines(attributes)]
    body, atoms = _compose(description, [*lines, *named_lines])

    title = line_of(values.get("title"))
    if summary or attributes or any(named.values()) or _names_product(searched):
        title = title or _title_from_body(body)
    if not title:
        raise InvalidInput("has no title and no other text", field="title")
    if len(title) + len(body) > MAX_ROW:
        raise InvalidInput(TOO_LONG, field="description")

    price = values.get("price") if "price" in names else _nested_price(others)
    unsearched = _unsearched(values, price)
    return Document(
        id=identifier(values.get("id"))
        or hashlib.sha256(f"{title}\n{body}".encode()).hexdigest()[:16],
        kind="product",
        title=title,
        body=body,
        summary=summary,
        location=Location(url=web_address(values.get("url"))),
        fields=_fields(others, attributes, named | unsearched),
        atoms=atoms,
    )


def _unsearched(values: Mapping[str, object], price: object) -> dict[str, Value | None]:
    """Return the fields whose text nobody searches for."""
    return {
        "locale": named_value(values.get("locale")),
        # In WooCommerce's export, "id:12".
        "parent": identifier(values.get("parent")).removeprefix("id:") or None,
        "price": price_of(price),
    }


def _names_product(columns: Iterable[str]) -> bool:
    """Return whether a column tells what a product is, as a size or a material alone does not."""
    return any(not (is_option(name) or has_trait_name(name)) for name in columns)


def record_id(record: Mapping[str, object], columns: Mapping[str, str]) -> str:
    """The id that `from_record` finds in a record; empty if there is none. Raises InvalidInput."""
    column = _recognised(record, columns).get("id")
    return identifier(split_value(record.get(column), "id")[0]) if column else ""


def _recognised(record: Mapping[str, object], columns: Mapping[str, str]) -> dict[str, str]:
    """The standard columns in which a record has values, and their names in it."""
    filled_names = [name for name, value in record.items() if value not in (None, "", [], {})]
    return column_names(filled_names, columns, record)


def _with_listed_items(record: Mapping[str, object]) -> dict[str, object]:
    """The record with a list for each text that lists several items, so that each can be filtered by."""
    lists = {
        name: items
        for name, cell in record.items()
        if isinstance(cell, str) and lists_items(name) and len(items := listed_items(cell)) > 1
    }
    return {**record, **lists}


# Fields


def _standard_values(
    record: Mapping[str, object], names: Mapping[str, str]
) -> tuple[dict[str, object], dict[str, object]]:
    """Values by standard column, and by the file's column what is left of mappings in them."""
    values: dict[str, object] = {}
    rest: dict[str, object] = {}

    for standard, name in names.items():
        values[standard] = record.get(name)
        if standard != "attributes":
            values[standard], remainder = split_value(record.get(name), standard)
            rest[name] = values_by_key(remainder) if isinstance(remainder, list) else remainder
    return values, rest


def _other_columns(record: Mapping[str, object], excluded: Set[str]) -> dict[str, object]:
    """The columns that become fields under their own names: those that are not `excluded`."""
    return {
        name: _amount(record[name]) if standard_of(name) == "price" else record[name]
        for name in named_freely(record)
        if name not in excluded
    }


def _nested_price(others: Mapping[str, Value]) -> object:
    """The first price among schema.org's offers or Shopify's variants, or None."""
    prices = others.get("offers.price", others.get("variants.price"))
    return prices[0] if isinstance(prices, tuple) else prices


def _amount(cell: object) -> object:
    """The number of a price beside the one that counts, such as that of a sale."""
    price = price_of(cell) if isinstance(cell, str) else None
    return cell if price is None else price


def _fields(
    others: Mapping[str, Value], attributes: Mapping[str, Value], named: Mapping[str, Value | None]
) -> dict[str, Value]:
    fields = {**others, **{f"attrs.{name}": value for name, value in attributes.items()}}
    fields |= {name: value for name, value in named.items() if value is not None}

    if len(fields) > MAX_PRODUCT_FIELDS:
        raise InvalidInput(
            f"has {len(fields):,} fields; the limit is {MAX_PRODUCT_FIELDS:,}", field="attributes"
        )

    if sum(map(len, _texts(fields))) > MAX_ROW:
        raise InvalidInput(TOO_LONG, field="attributes")

    return fields


def _other_prose(others: Mapping[str, Value], description: str) -> Iterator[str]:
    """Lines of further descriptions, and of texts too long to filter by, so that they are searched."""
    for name, value in others.items():
        is_prose = standard_of(name) in ("description", "bullets")
        for text in _texts({name: value}):
            if (
                (is_prose or len(text) > MAX_FILTERABLE_CHARS)
                and not _NO_PROSE.fullmatch(text)
                and text not in description
            ):
                yield from text.split("\n")


def _texts(fields: Mapping[str, Value]) -> Iterator[str]:
    for value in fields.values():
        yield from value if isinstance(value, tuple) else [value] if isinstance(value, str) else []


# Body and title


def _named_lines(values: Mapping[str, Value | None]) -> list[str]:
    """A line `Name: value` for each value; a quantity has its unit behind it."""
    present = {name: value for name, value in values.items() if value is not None}
    units = units_of(present)
    unit_names = set(units.values())

    lines = []
    for name, value in present.items():
        if name in unit_names:
            continue
        label, unit = without_unit(name, present, units)
        quantity = f"{displayed(value)} {displayed(unit)}"
        lines.append(f"{_readable(label)}: {' '.join(quantity.split())}")
    return lines


def _readable(name: str) -> str:
    words = " ".join(re.sub(r"[_.]+", " ", ICECAT.sub("", name.removeprefix("options."))).split())
    return words[:1].upper() + words[1:]


def _compose(description: str, lines: Iterable[str]) -> tuple[str, tuple[Span, ...]]:
    """The description and the lines as one text, and the spans of the lines in it."""
    atoms = []
    parts = [description] if description else []
    offset = len(description) + 1 if description else 0
    for line in lines:
        atoms.append(Span(offset, offset + len(line)))
        parts.append(line)
        offset += len(line) + 1

    return "\n".join(parts), tuple(atoms)


def _title_from_body(body: str) -> str:
    line = body.partition("\n")[0]
    if len(line) <= MAX_TITLE_FROM_BODY:
        return line
    return f"{line[:MAX_TITLE_FROM_BODY].rstrip()}…"
