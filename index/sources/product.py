"""Read product tables (JSON Lines, JSON arrays, CSV, Parquet, XML) as one document per product.

Columns are recognised by the names that shops give them (`product_columns`); all others become fields, and
those too long to filter by are also part of the body. Rows are streamed: memory holds one block of
rows and, to detect repeated ids, a digest per id.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

from purlin.index.digests import DigestMap, digest
from purlin.index.errors import InvalidInput, NotFound
from purlin.index.product_fields import codes_and_quantities, units_of
from purlin.index.records import (
    MAX_FILTERABLE_CHARS,
    PART,
    Document,
    Location,
    Skipped,
    SourceFile,
    Span,
    Value,
)
from purlin.index.sources import nouns
from purlin.index.sources.files import file_stamp, files_below, unchanged
from purlin.index.sources.parts import Part, Records, cut
from purlin.index.sources.product_columns import (
    ICECAT,
    JUDGEMENT_COLUMNS,
    TEXT_COLUMNS,
    check_roles,
    column_names,
    listing,
    may_be_id,
    standard_of,
)
from purlin.index.sources.product_rows import joined, paired_attributes, paired_columns
from purlin.index.sources.product_values import (
    NUMBER,
    checked,
    displayed,
    field_value,
    identifier,
    line_of,
    named_value,
    price_of,
    split_value,
    text_of,
    typed_cell,
    web_address,
)
from purlin.index.sources.tables import (
    MAX_ROW,
    TABLE_SUFFIXES,
    TOO_LONG,
    Row,
    read_rows,
    table_format,
)

VERSION = 5
MAX_PRODUCT_FIELDS = 1_000
MAX_ATTRIBUTE_NESTING = 5

# Characters of the body that serve as title if there is none.
MAX_TITLE_FROM_BODY = 80

# Keys of an attribute's name and value in lists of attributes.
_NAME_KEYS = ("name", "key", "label", "attribute_code", "attribute_name")
_VALUE_KEYS = ("value", "values", "options", "attribute_value")
_UNIT_KEYS = ("unit", "units", "unitText", "unit_text", "uom")

_NO_PROSE = re.compile("[!-~]+")

# Rows that decide whether a table holds products.
SAMPLE_ROWS = 50
# The cells of these formats are all text.
_TEXT_FORMATS = (".csv", ".tsv", ".xml")


def files(
    path: Path, *, columns: Mapping[str, str] | None = None, entities: bool = False
) -> Iterator[SourceFile | Skipped]:
    """Yield the product tables at `path`: a file, or a directory with all below it, sorted by path.

    `columns` maps standard columns (keys of `product_columns.COLUMNS`) to the names in these files that are not
    recognised; a file or row without such a column is read by the known names. `entities` asks for
    entity spans, which only training needs.

    Raises NotFound for a missing path, InvalidInput for a file of another kind or an unknown
    standard column.
    """
    columns = dict(columns or {})
    check_roles(columns)

    if not path.exists():
        raise NotFound(f"{path} does not exist.", field="path")

    if path.is_file() and not table_format(path):
        raise InvalidInput(
            f"{path.name} is no product table: give one of {', '.join(TABLE_SUFFIXES)}.",
            field="path",
        )

    return _files(path, columns, entities)


def from_record(
    record: Mapping[str, object],
    *,
    columns: Mapping[str, str] | None = None,
    entities: bool = False,
) -> Document:
    """Make a document of one product record; `columns` and `entities` as for `files`.

    The body is the description, then a line for each bullet and for texts of other columns that are
    too long to filter by, then `Name: value` lines for brand, category, colour, codes, quantities
    with units and attributes; these lines are its atoms. The summary is the body without the
    `Name: value` lines.

    Raises InvalidInput for a record without text, with characters that are not valid text, or
    beyond the limits on length, depth and number of fields.
    """
    names = _recognised(record, columns or {})
    values, rest = _standard_values(record, names)

    pairs = paired_columns(name for name in record if name not in names.values())
    attributes, attribute_prose = _attributes(record, values.get("attributes"))
    attributes |= dict(_flat(paired_attributes(record, pairs)))
    named = {key: named_value(values.get(key)) for key in ("brand", "category", "colour")}
    excluded = {*names.values(), *pairs, *pairs.values()}
    others = dict(_flat({**_other_columns(record, excluded), **rest}))

    description = text_of(values.get("description"))
    lines = [
        *_bullets(values.get("bullets")),
        *attribute_prose,
        *_other_prose(others, description),
    ]
    summary, _ = _compose(description, lines)
    named_lines = [
        *_named_lines({**named, **codes_and_quantities(others)}),
        *_named_lines(attributes),
    ]
    body, atoms = _compose(description, [*lines, *named_lines])

    title = line_of(values.get("title")) or _title_from_body(body)
    if not title:
        raise InvalidInput("has no title and no other text", field="title")
    if len(title) + len(body) > MAX_ROW:
        raise InvalidInput(TOO_LONG, field="description")

    # These two are fields only: nobody searches for their text.
    price = values.get("price") if "price" in names else _nested_price(others)
    unnamed = {"locale": named_value(values.get("locale")), "price": price_of(price)}
    return Document(
        id=identifier(values.get("id")) or _content_id(title, body),
        kind="product",
        title=title,
        body=body,
        summary=summary,
        location=Location(url=web_address(values.get("url"))),
        fields=_fields(others, attributes, named | unnamed),
        entities=nouns.shared_nouns(title, body) if entities else (),
        atoms=atoms,
    )


def _recognised(record: Mapping[str, object], columns: Mapping[str, str]) -> dict[str, str]:
    """The standard columns in which a record has values, and their names in it."""
    filled_names = [name for name, value in record.items() if value not in (None, "", [], {})]
    return column_names(filled_names, columns, record)


# Files


def _files(path: Path, columns: dict[str, str], entities: bool) -> Iterator[SourceFile | Skipped]:
    root = path if path.is_dir() else path.parent
    paths: list[Path | Skipped] = []
    if path.is_dir():
        paths = list(files_below(path, _is_not_hidden))
    elif path.is_file() and _is_not_hidden(path.name):
        paths = [path]

    yield from (item for item in paths if isinstance(item, Skipped))
    for file in sorted(item for item in paths if isinstance(item, Path)):
        name = file.relative_to(root).as_posix()
        if not table_format(file):
            yield Skipped(name, f"is no product table ({', '.join(TABLE_SUFFIXES)})")
            continue

        try:
            yield from _tables(file, name, columns, entities)
        except OSError as error:
            yield Skipped(name, f"cannot be read: {error.strerror}")


def _tables(
    path: Path, name: str, columns: Mapping[str, str], entities: bool
) -> Iterator[SourceFile]:
    """Yield a table as one file, or as its parts if it is long."""
    before = file_stamp(path)
    options = [
        VERSION,
        table_format(path),
        sorted(columns.items()),
        nouns.NOUN_RULES if entities else None,
    ]
    is_text = table_format(path) in _TEXT_FORMATS

    def read(rows: Callable[[], Iterator[Row | Skipped]]) -> Iterator[Document | Skipped]:
        documents = _documents(rows(), name, columns, entities, is_text)
        return unchanged(documents, path, name, before)

    with path.open("rb") as handle:
        content = hashlib.file_digest(handle, "sha256")
    content.update(json.dumps(options).encode())

    parts = _parts(path, name, columns)
    if not parts:
        rows = partial(_checked_rows, path, name, columns)
        yield SourceFile(name, content.hexdigest(), partial(read, rows))
    records = Records(partial(read_rows, path, name))
    for part in parts:
        part_digest = hashlib.sha256(json.dumps([*options, part.name]).encode()).hexdigest()
        rows = partial(records.read, part)
        yield SourceFile(f"{name}{PART}{part.name}", part_digest, partial(read, rows))


def _parts(path: Path, name: str, columns: Mapping[str, str]) -> list[Part]:
    """Cut a table of products; it has no parts if it is read, or refused, as a whole."""
    try:
        rows, reason = _sampled(path, name, columns)
        return [] if reason else cut(_identified(row, columns) for row in rows)
    except InvalidInput:
        return []


def _identified(row: Row | Skipped, columns: Mapping[str, str]) -> tuple[str | None, bytes]:
    """The id of a row's product, if the row has one, and its content.

    A broken row is known by its number; after an error that may not repeat, nothing is.
    """
    if isinstance(row, Skipped):
        return None if row.passing else f"{PART}{row.line}", f"{row.line} {row.reason}".encode(
            errors="replace"
        )
    content = repr(row.record).encode(errors="surrogatepass")
    try:
        return _row_id(row.record, columns) or None, content
    except InvalidInput:
        return f"{PART}{row.number}", b"%d " % row.number + content


def _row_id(record: Mapping[str, object], columns: Mapping[str, str]) -> str:
    """The id that `from_record` finds in a record; empty if there is none. Raises InvalidInput."""
    column = _recognised(record, columns).get("id")
    return identifier(split_value(record.get(column), "id")[0]) if column else ""


def names(root: Path) -> Iterator[str]:
    """Names of the product tables below a directory; none of them is opened."""
    for file in files_below(root, _is_not_hidden):
        if isinstance(file, Path) and table_format(file):
            yield file.relative_to(root).as_posix()


def _is_not_hidden(name: str) -> bool:
    return not name.startswith(".")


def _sampled(
    path: Path, name: str, columns: Mapping[str, str]
) -> tuple[Iterator[Row | Skipped], str | None]:
    """The rows of a table, and why it holds no products, judging by the first ones."""
    rows = read_rows(path, name)
    sample = list(islice(rows, SAMPLE_ROWS))
    records = [row.record for row in sample if isinstance(row, Row)]
    return chain(sample, rows), _reason_to_skip(records, columns)


def _checked_rows(path: Path, name: str, columns: Mapping[str, str]) -> Iterator[Row | Skipped]:
    """The rows of a table, none but the broken ones among the first if it holds no products."""
    rows, reason = _sampled(path, name, columns)
    if reason is None:
        yield from rows
        return
    yield Skipped(name, reason)
    yield from (row for row in islice(rows, SAMPLE_ROWS) if isinstance(row, Skipped))


def _documents(
    rows: Iterable[Row | Skipped],
    name: str,
    columns: Mapping[str, str],
    entities: bool,
    is_text: bool,
) -> Iterator[Document | Skipped]:
    """The products of rows. The cells of formats that are all text may be numbers."""
    # Digest of an id -> the first half of its content's digest.
    contents = DigestMap()
    for row in joined(rows, columns):
        if isinstance(row, Skipped):
            yield row
            continue

        try:
            record = _with_numbers(row.record, columns) if is_text else row.record
            document = from_record(record, columns=columns, entities=entities)
        except InvalidInput as error:
            yield Skipped(name, error.message, row.number)
            continue

        # An exact repeat is dropped without a word: exports often have one row per variant.
        key, content = digest(document.id), int.from_bytes(_content_digest(document)[:7])
        earlier = contents.get(key)
        if earlier is None:
            contents.add(key, content)
            yield document
        elif earlier != content:
            yield Skipped(name, "repeats an id with other content", row.number)


def _content_digest(document: Document) -> bytes:
    content = json.dumps(
        [document.title, document.body, document.location.url, dict(document.fields)],
        sort_keys=True,
    )
    return hashlib.blake2b(content.encode(), digest_size=16).digest()


def _reason_to_skip(
    sample: Sequence[Mapping[str, object]], columns: Mapping[str, str]
) -> str | None:
    """Why a table holds no products, judging by its first rows, or None."""
    if not sample:
        return None

    present = list(dict.fromkeys(chain.from_iterable(sample)))
    has_text = column_names(present, columns).keys() & TEXT_COLUMNS
    if has_text or any(map(ICECAT.match, present)):
        return None
    return (
        f"none of its columns is known to hold text; it has {listing(present)}; "
        '--column title="COLUMN" assigns the title'
    )


# Rows


def _standard_values(
    record: Mapping[str, object], names: Mapping[str, str]
) -> tuple[dict[str, object], dict[str, object]]:
    """Values by standard column, and by the file's column what is left of mappings in them."""
    values: dict[str, object] = {}
    rest: dict[str, object] = {}

    for standard, name in names.items():
        values[standard] = record.get(name)
        if standard != "attributes":
            values[standard], left = split_value(record.get(name), standard)
            rest[name] = _by_key(left) if isinstance(left, list) else left
    return values, rest


def _other_columns(record: Mapping[str, object], excluded: Set[str]) -> dict[str, object]:
    """The columns that are not `excluded`, without those of an ESCI judgement."""
    excluded = excluded | {""}
    if "query_id" in record:
        excluded |= JUDGEMENT_COLUMNS

    return {
        name: _amount(value) if standard_of(name) == "price" else value
        for name, value in record.items()
        if name not in excluded and not ICECAT.match(name)
    }


def _nested_price(others: Mapping[str, Value]) -> object:
    """The first price among schema.org's offers or Shopify's variants, or None."""
    prices = others.get("offers.price", others.get("variants.price"))
    return prices[0] if isinstance(prices, tuple) else prices


def _amount(cell: object) -> object:
    """The number of a price beside the one that counts, such as that of a sale."""
    price = price_of(cell) if isinstance(cell, str) else None
    return cell if price is None else price


def _with_numbers(record: Mapping[str, object], columns: Mapping[str, str]) -> dict[str, object]:
    """A row of texts whose cells are numbers, true or false where they say so.

    Not in standard columns, which are text.

    So are all columns that may hold ids: as numbers, 10.10 and 10.1 would be the same.
    """
    standard = set(column_names(list(record), columns).values())
    return {
        name: cell if name in standard else _with_number(name, cell)
        for name, cell in record.items()
    }


def _with_number(name: str, cell: object) -> object:
    if isinstance(cell, Mapping):
        return {key: _with_number(key, value) for key, value in cell.items()}
    return cell if may_be_id(name) else typed_cell(cell)


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
            # A text without a space is an address or encoded data.
            if (
                (is_prose or len(text) > MAX_FILTERABLE_CHARS)
                and not _NO_PROSE.fullmatch(text)
                and text not in description
            ):
                yield from text.split("\n")


def _texts(fields: Mapping[str, Value]) -> Iterator[str]:
    for value in fields.values():
        yield from value if isinstance(value, tuple) else [value] if isinstance(value, str) else []


def _attributes(record: Mapping[str, object], column: object) -> tuple[dict[str, Value], list[str]]:
    """Attributes by name, and lines of prose if the attributes column holds prose instead."""
    if isinstance(column, str) and column.startswith(("{", "[{")):
        column = _json_cell(column)

    # A list of attributes with a single element is a mapping in XML.
    if isinstance(column, Mapping) and _is_attribute(column):
        column = [column]

    prose: list[str] = []
    if isinstance(column, list):
        prose = _bullets([item for item in column if not isinstance(item, Mapping)])
        column = _named_attributes([item for item in column if isinstance(item, Mapping)])
    elif not isinstance(column, Mapping):
        prose, column = _bullets(column), {}

    icecat = {name: value for name, value in record.items() if ICECAT.match(name)}
    return dict(_flat({**column, **icecat})), prose


def _is_attribute(pair: Mapping[str, object]) -> bool:
    return any(map(pair.get, _NAME_KEYS)) and any(key in pair for key in _VALUE_KEYS)


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
    return _by_key(others) | named


def _by_key(mappings: Iterable[Mapping[str, object]]) -> dict[str, object]:
    """Lists of the values of each key, also of a single value, so that a field has one type.

    [{"size": "S"}, {"size": "M"}] becomes {"size": ["S", "M"]}.
    """
    values: dict[str, Any] = {}
    for mapping in mappings:
        for key, value in mapping.items():
            values.setdefault(str(key), []).extend(value if isinstance(value, list) else [value])
    return values


def _json_cell(cell: str) -> object:
    try:
        return json.loads(cell, parse_constant=lambda _: None)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(
            f"has attributes that are not valid JSON: {error}", field="attributes"
        ) from error


def _flat(
    values: Mapping[str, object], prefix: str = "", depth: int = 1
) -> Iterator[tuple[str, Value]]:
    if depth > MAX_ATTRIBUTE_NESTING:
        raise InvalidInput(
            f"nests attributes deeper than {MAX_ATTRIBUTE_NESTING} levels", field="attributes"
        )

    for key, value in values.items():
        name = prefix + str(key)
        if isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
            yield from _flat(
                _named_attributes([item for item in value if isinstance(item, Mapping)]),
                f"{name}.",
                depth + 1,
            )
            value = [item for item in value if not isinstance(item, Mapping)]

        if isinstance(value, Mapping):
            quantity = _quantity(name, value)
            yield from _flat(quantity or value, "" if quantity else f"{name}.", depth + 1)
        elif name and (typed := _typed(name, field_value(value))) is not None:
            yield checked(name), typed


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


def _bullets(raw: object) -> list[str]:
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


def _named_lines(values: Mapping[str, Value | None]) -> list[str]:
    """A line `Name: value` for each value; a quantity has its unit behind it."""
    present = {name: value for name, value in values.items() if value is not None}
    units = units_of(present)
    unit_names = set(units.values())

    lines = []
    for name, value in present.items():
        if name in unit_names:
            continue
        unit = displayed(present[units[name]]) if name in units else ""
        lines.append(f"{_readable(name)}: {' '.join(f'{displayed(value)} {unit}'.split())}")
    return lines


def _readable(name: str) -> str:
    words = " ".join(re.sub(r"[_.]+", " ", ICECAT.sub("", name)).split())
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


def _content_id(title: str, body: str) -> str:
    return hashlib.sha256(f"{title}\n{body}".encode()).hexdigest()[:16]
