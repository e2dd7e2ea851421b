"""Product tables (JSON lines, JSON arrays, CSV, Parquet) -> one document per product.

Columns are known by name, whatever the shop calls them (`COLUMNS`); all others become fields, and what is too long to
filter by is also read. Rows are streamed: memory holds one block of rows and, to tell repeats, a digest for each id.
"""

from __future__ import annotations

import hashlib
import html
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, time
from decimal import Decimal
from functools import lru_cache, partial
from itertools import chain, islice
from pathlib import Path

import lxml.etree
import lxml.html

from index.errors import InvalidInput, NotFound
from index.records import MAX_FILTERABLE_CHARS, Document, Location, Skipped, SourceFile, Span, Value
from index.sources import nouns
from index.sources.files import files_below
from index.sources.tables import MAX_ROW, TABLE_SUFFIXES, TOO_LONG, Row, read_rows, table_format

VERSION = 2
MAX_PRODUCT_FIELDS = 1_000
MAX_ATTRIBUTE_NESTING = 5
MAX_PRODUCT_ID = 512
MAX_TAGS = (
    2_000  # beyond, tags are cut out unread: libxml2 drops what is nested deeper than 2,047 levels
)
MAX_OPENING = 80  # characters of the body that stand for a missing title

COLUMNS: dict[str, tuple[str, ...]] = {
    "id": (
        "id",
        "_id",
        "product_id",
        "sku",
        "item_id",
        "asin",
        "parent_asin",
        "handle",
        "variant_sku",
        "gtin",
        "ean",
    ),
    "title": ("title", "name", "product_title", "product_name", "item_name", "display_name"),
    "description": (
        *("description", "product_description", "body_html", "long_description", "text", "body"),
        *("short_description", "summary"),
    ),
    "bullets": (
        "bullets",
        "bullet_points",
        "product_bullet_point",
        "features",
        "product_features",
        "highlights",
    ),
    "brand": ("brand", "product_brand", "brand_name", "vendor", "manufacturer", "supplier"),
    "colour": ("colour", "color", "product_colour", "product_color", "color_name"),
    "category": (
        *(
            "category",
            "categories",
            "product_category",
            "category_name",
            "google_product_category",
            "product_type",
        ),
        *("product_class", "main_category"),
    ),
    "price": ("price", "product_price", "sale_price", "regular_price", "variant_price"),
    "url": ("url", "link", "product_url", "permalink"),
    "locale": ("locale", "product_locale", "lang"),
    "attributes": (
        "attributes",
        "attrs",
        "product_attributes",
        "specifications",
        "specs",
        "details",
        "properties",
    ),
}
"""Our columns and the names they go by, the preferred first; case, spaces and punctuation do not matter."""

_ALIASES = {
    alias: (order, ours) for ours, known in COLUMNS.items() for order, alias in enumerate(known)
}
_TEXT = {"title", "description", "bullets", "attributes"}
_JUDGEMENT = {
    *(
        "example_id",
        "query",
        "query_id",
        "esci_label",
        "small_version",
        "large_version",
        "split",
        "product_text",
    ),
}
_BREAKS = {
    *(
        "br",
        "hr",
        "p",
        "div",
        "section",
        "article",
        "header",
        "footer",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
    ),
    *("li", "ul", "ol", "dl", "dt", "dd", "table", "tr"),
}
_HTML = lxml.html.HTMLParser(encoding="utf-8", remove_pis=True, huge_tree=True)
_COMMENT = re.compile(r"<!--.*?(?:-->|$)", re.DOTALL)
_TAG = re.compile(r"</?[a-zA-Z][^<>]*>")
_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z]{2,31});")
_NOT_TEXT = re.compile("[\0\ud800-\udfff]")
_CONTROL = dict.fromkeys([*range(1, 9), *range(14, 32), 127], " ")
_NO_PROSE = re.compile("[!-~]+")
_NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,14})(?:\.\d{1,15})?")
_AMOUNT = re.compile(r"[^\d,.-]*(\d[\d.,' ]*)[^\d]*")
_ICECAT = re.compile(r"attr_([tnb])_(?=.)")
_SAMPLE = 50


def files(
    path: Path, *, columns: Mapping[str, str] | None = None, entities: bool = False
) -> Iterator[SourceFile | Skipped]:
    """The product tables at `path`, a file or a directory that is searched to any depth, sorted by path.

    `columns` says what our columns (the keys of `COLUMNS`) are called in these files, where the known names do not
    tell; `entities` asks for entity spans, which only training needs. Raises NotFound for a missing path, InvalidInput
    for a file of another kind or an unknown column of ours and, while reading, for a column that a file does not have.
    """
    chosen = dict(columns or {})
    if unknown := sorted(chosen.keys() - COLUMNS.keys()):
        raise InvalidInput(
            f"Unknown column {unknown[0]!r}; known are {', '.join(COLUMNS)}.", field="columns"
        )

    if not path.exists():
        raise NotFound(f"{path} does not exist.", field="path")

    if path.is_file() and not table_format(path):
        raise InvalidInput(
            f"{path.name} is no product table: give one of {', '.join(TABLE_SUFFIXES)}.",
            field="path",
        )

    return _files(path, chosen, entities)


def from_record(
    record: Mapping[str, object],
    *,
    columns: Mapping[str, str] | None = None,
    entities: bool = False,
) -> Document:
    """One product record as a document of kind "product"; `columns` and `entities` as for `files`.

    The body is the description, then a line for each bullet and for the texts of other columns that are too long to
    filter by, then `Name: value` lines for brand, category, colour and attributes; these lines are its atoms. The
    summary is the body without the `Name: value` lines. Raises InvalidInput for a record without any text, with
    characters that no text has, or beyond the limits on length, depth and number of fields.
    """
    names = _mapping(
        [name for name, value in record.items() if value not in (None, "", [], {})], columns or {}
    )
    ours = {key: record.get(name) for key, name in names.items()}
    attributes, prose = _attributes(record, ours.get("attributes"))
    named = {key: _worded(ours.get(key)) for key in ("brand", "category", "colour")}
    others = dict(_flat(_others(record, names)))
    description = _text(ours.get("description"))
    lines = [*_bullets(ours.get("bullets")), *prose, *_long_texts(others, description)]
    summary, _ = _compose(description, lines)
    body, atoms = _compose(description, [*lines, *_named_lines(named), *_named_lines(attributes)])
    title = _line(ours.get("title")) or _opening(body)

    if not title:
        raise InvalidInput("has no title and no other text", field="title")
    if len(title) + len(body) > MAX_ROW:
        raise InvalidInput(TOO_LONG, field="description")

    alone = {"locale": _worded(ours.get("locale")), "price": _price(ours.get("price"))}
    return Document(
        id=_identifier(ours.get("id"))
        or hashlib.sha256(f"{title}\n{body}".encode()).hexdigest()[:16],
        kind="product",
        title=title,
        body=body,
        summary=summary,
        location=Location(url=_web_address(ours.get("url"))),
        fields=_fields(others, attributes, named | alone),
        entities=nouns.shared_nouns(title, body) if entities else (),
        atoms=atoms,
    )


# Files


def _files(path: Path, columns: dict[str, str], entities: bool) -> Iterator[SourceFile | Skipped]:
    root = path if path.is_dir() else path.parent
    alone = [path] if path.is_file() and _is_shown(path.name) else []
    found = list(files_below(path, _is_shown)) if path.is_dir() else alone
    yield from (one for one in found if isinstance(one, Skipped))

    for file in sorted(one for one in found if isinstance(one, Path)):
        name = file.relative_to(root).as_posix()
        if not table_format(file):
            yield Skipped(name, f"is no product table ({', '.join(TABLE_SUFFIXES)})")
            continue

        try:
            digest = _digest(file, columns, entities)
        except OSError as error:
            yield Skipped(name, f"cannot be read: {error.strerror}")
            continue

        yield SourceFile(name, digest, partial(_read, file, name, columns, entities))


def names(root: Path) -> Iterator[str]:
    """Names of the product tables below a directory; none of them is opened."""
    for file in files_below(root, _is_shown):
        if isinstance(file, Path) and table_format(file):
            yield file.relative_to(root).as_posix()


def _is_shown(name: str) -> bool:
    return not name.startswith(".")


def _digest(path: Path, columns: Mapping[str, str], entities: bool) -> str:
    options = [
        VERSION,
        table_format(path),
        sorted(columns.items()),
        nouns.RULES if entities else None,
    ]

    with path.open("rb") as handle:
        content = hashlib.file_digest(handle, "sha256")

    content.update(json.dumps(options).encode())
    return content.hexdigest()


def _read(
    path: Path, name: str, columns: Mapping[str, str], entities: bool
) -> Iterator[Document | Skipped]:
    rows = read_rows(path, name)
    first = list(islice(rows, _SAMPLE))

    if reason := _unfit([row.record for row in first if isinstance(row, Row)], columns, name):
        yield Skipped(name, reason)
        rows, first = iter(()), [row for row in first if isinstance(row, Skipped)]

    is_text = table_format(path) in (".csv", ".tsv")
    seen: dict[str, bytes] = {}

    for row in chain(first, rows):
        if isinstance(row, Skipped):
            yield row
            continue
        try:
            record = _with_numbers(row.record, columns) if is_text else row.record
            document = from_record(record, columns=columns, entities=entities)
        except InvalidInput as error:
            yield Skipped(name, error.message, row.number)
            continue
        yield from _unless_seen(
            document, seen, Skipped(name, "repeats an id with other content", row.number)
        )


def _unless_seen(
    document: Document, seen: dict[str, bytes], repeated: Skipped
) -> Iterator[Document | Skipped]:
    shown = json.dumps(
        [document.title, document.body, document.location.url, dict(document.fields)],
        sort_keys=True,
    )

    content = hashlib.blake2b(shown.encode(), digest_size=16).digest()

    if document.id not in seen:
        seen[document.id] = content
        yield document
    elif seen[document.id] != content:
        yield repeated


def _unfit(
    sample: Sequence[Mapping[str, object]], columns: Mapping[str, str], name: str
) -> str | None:
    """Why a table is left out, judged by its first rows; a column that was asked for and is missing raises."""
    if not sample:
        return None

    present = list(dict.fromkeys(chain.from_iterable(sample)))
    shown = ", ".join(present[:30]) or "none"

    for theirs in columns.values():
        if theirs not in present:
            raise InvalidInput(f"{name} has no column {theirs!r}; it has {shown}.", field="columns")

    known = _mapping(present, columns).keys() & _TEXT or any(map(_ICECAT.match, present))
    return None if known else f"none of its columns is known to hold text; it has {shown}"


# Rows


def _mapping(names: Sequence[str], columns: Mapping[str, str]) -> dict[str, str]:
    """Our columns -> theirs: what was asked for, then the preferred of the known names."""
    taken = set(columns.values())
    known = sorted(
        (*_ALIASES[key], name)
        for name in names
        if name not in taken and (key := _key(name)) in _ALIASES
    )
    return {ours: name for _, ours, name in reversed(known)} | dict(columns)


@lru_cache(maxsize=4096)
def _key(name: str) -> str:
    return re.sub(r"\W+", "_", name.lower()).strip("_")


def _others(record: Mapping[str, object], names: Mapping[str, str]) -> dict[str, object]:
    """The columns that are none of ours. ESCI's rows judge a product for a query: what is not the product's is out."""
    left_out = {"", *names.values(), *(_JUDGEMENT if "query_id" in record else ())}
    return {
        name: value
        for name, value in record.items()
        if name not in left_out and not _ICECAT.match(name)
    }


def _with_numbers(record: Mapping[str, object], columns: Mapping[str, str]) -> dict[str, object]:
    """A CSV row whose cells are numbers where they read as such, but for the columns that are ours, which are text."""
    ours = set(_mapping(list(record), columns).values())
    return {name: cell if name in ours else _number(cell) for name, cell in record.items()}


def _number(cell: object) -> object:
    if not isinstance(cell, str) or not _NUMBER.fullmatch(cell):
        return cell
    return float(cell) if "." in cell else int(cell)


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


def _long_texts(others: Mapping[str, Value], description: str) -> Iterator[str]:
    """Lines of the texts that no filter takes, so that they can be found; one without a blank is an address or data."""
    for text in _texts(others):
        if (
            len(text) > MAX_FILTERABLE_CHARS
            and not _NO_PROSE.fullmatch(text)
            and text not in description
        ):
            yield from text.split("\n")


def _texts(fields: Mapping[str, Value]) -> Iterator[str]:
    for value in fields.values():
        yield from value if isinstance(value, tuple) else [value] if isinstance(value, str) else []


def _attributes(record: Mapping[str, object], given: object) -> tuple[dict[str, Value], list[str]]:
    """Attributes under the names the file has for them, and lines of prose where the column holds that instead."""
    if isinstance(given, str) and given.startswith(("{", "[{")):
        given = _json_cell(given)
    if isinstance(given, list) and all(isinstance(pair, Mapping) for pair in given):
        given = {str(pair.get("name", "")): pair.get("value") for pair in given}

    loose = {name: value for name, value in record.items() if _ICECAT.match(name)}
    if isinstance(given, Mapping):
        return dict(_flat({**given, **loose})), []

    return dict(_flat(loose)), _bullets(given)


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
        if isinstance(value, Mapping):
            yield from _flat(value, f"{name}.", depth + 1)
        elif name and (typed := _typed(name, _value(value))) is not None:
            yield _checked(name), typed


def _typed(name: str, value: Value | None) -> Value | None:
    """Icecat's names tell the type, which a CSV's cells do not."""
    icecat = _ICECAT.match(name)
    if icecat and icecat[1] == "n" and isinstance(value, str):
        return float(value) if _NUMBER.fullmatch(value) else value
    if icecat and icecat[1] == "b" and str(value).lower() in ("true", "false", "1", "0"):
        return str(value).lower() in ("true", "1")
    return value


def _bullets(raw: object) -> list[str]:
    """A line for each item of a list, or of text that has them on lines or between bars or dots."""
    items = (
        raw
        if isinstance(raw, list | tuple)
        else _text_items(raw)
        if isinstance(raw, str)
        else [raw]
    )

    lines = (line for item in items for line in _text(item).split("\n"))

    return [line for line in (re.sub(r"^[•*–-]\s+", "", line) for line in lines) if line]


def _text_items(text: str) -> list[str]:
    if text.startswith("["):
        try:
            return [item for item in json.loads(text) if isinstance(item, str)]
        except (ValueError, RecursionError):
            pass
    return text.split("\n") if "\n" in text.strip() else re.split(r"[|•]", text)


def _named_lines(values: Mapping[str, Value | None]) -> list[str]:
    present = ((_readable(name), value) for name, value in values.items() if value is not None)
    return [f"{name}: {' '.join(_shown(value).split())}" for name, value in present]


def _readable(name: str) -> str:
    words = " ".join(re.sub(r"[_.]+", " ", _ICECAT.sub("", name)).split())
    return words[:1].upper() + words[1:]


def _compose(description: str, lines: Iterable[str]) -> tuple[str, tuple[Span, ...]]:
    body, atoms = description, []
    parts = [description] if description else []
    offset = len(description) + 1 if description else 0

    for line in lines:
        atoms.append(Span(offset, offset + len(line)))
        parts.append(line)
        offset += len(line) + 1

    body = "\n".join(parts)
    return body, tuple(atoms)


def _opening(body: str) -> str:
    line = body.partition("\n")[0]
    return line if len(line) <= MAX_OPENING else f"{line[:MAX_OPENING].rstrip()}…"


# Values


def _value(raw: object) -> Value | None:
    """A field's value; None where there is nothing to show or filter by."""
    if isinstance(raw, str):
        return _plain(raw) or None
    if isinstance(raw, bool):
        return raw
    if isinstance(raw, int):
        return raw if abs(raw) < 1 << 63 else str(raw)
    if isinstance(raw, float | Decimal):
        return float(raw) if math.isfinite(raw) else None
    if isinstance(raw, date | time):
        return raw.isoformat()

    if isinstance(raw, list | tuple):
        return (
            tuple(
                text for item in raw if not isinstance(item, list | tuple) and (text := _text(item))
            )
            or None
        )

    return None


def _worded(raw: object) -> Value | None:
    """As `_value`, but a brand called 1883 is text."""
    value = _value(raw)
    return value if value is None or isinstance(value, tuple) else _shown(value)


def _text(raw: object) -> str:
    value = _value(raw)
    return "" if value is None else "\n".join(value) if isinstance(value, tuple) else _shown(value)


def _line(raw: object) -> str:
    value = _value(raw)
    return "" if value is None else " ".join(_shown(value).split())


def _shown(value: Value) -> str:
    if isinstance(value, bool):
        return "Yes" if value else "No"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return ", ".join(value) if isinstance(value, tuple) else str(value)


def _identifier(raw: object) -> str:
    """An id is kept as it is: it is what judgements and other systems name the product by."""
    text = _checked(raw.strip()) if isinstance(raw, str) else _line(raw)
    if len(text) > MAX_PRODUCT_ID:
        raise InvalidInput(
            f"has an id of {len(text):,} characters; the limit is {MAX_PRODUCT_ID}", field="id"
        )
    return text


def _price(raw: object) -> float | None:
    """A price as a number, whatever the currency: 19.99, "$1,299.00", "1.299,00 EUR"; None for a range or words."""
    value = _value(raw)
    if isinstance(value, bool | tuple | None) or (isinstance(value, str) and len(value) > 40):
        return None
    if isinstance(value, int | float) or _NUMBER.fullmatch(value):
        return float(value)

    amount = _AMOUNT.fullmatch(value)
    if amount is None:
        return None

    digits = re.sub(r"[' ]|[., ]+$", "", amount[1])
    cents = re.search(r"[.,](\d{1,2})$", digits)
    whole = re.sub(r"[.,]", "", digits[: cents.start()] if cents else digits)

    return float(f"{whole}.{cents[1] if cents else 0}")


def _web_address(raw: object) -> str | None:
    text = raw.strip() if isinstance(raw, str) else ""
    return _checked(text) if re.fullmatch(r"https?://\S{1,2000}", text) else None


def _checked(text: str) -> str:
    if _NOT_TEXT.search(text):
        raise InvalidInput("holds bytes that are not text; save the file as UTF-8")
    return text


def _plain(text: str) -> str:
    """Text without markup, which some feeds escape twice: runs of blanks become one space, empty lines go."""
    _checked(text)
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
        near = element.text if event == "start" else element.tail
        mark = "\n" if element.tag in _BREAKS else " " if element.tag in ("td", "th") else ""
        pieces.append(mark + re.sub(r"\s+", " ", near or ""))

    return "".join(pieces)
