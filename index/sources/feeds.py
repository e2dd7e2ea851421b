"""Read products of XML: Google Merchant feeds (RSS 2.0 and Atom), and files of `<product>` elements.

Feeds come from others. Document types are refused, so there are no entities to expand and no other
files to fetch. They are streamed: memory holds one product, whose size is limited, and one tag.
"""

from __future__ import annotations

import codecs
import html
import io
import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from xml.parsers import expat

from purlin.index.errors import InvalidInput
from purlin.index.records import Skipped
from purlin.index.sources.encodings import text_codec
from purlin.index.sources.tables import MAX_ROW, TOO_LONG, Row, open_bytes
from purlin.index.sources.words import words

PRODUCT_ELEMENTS = ("item", "entry", "product", "offer", "shopitem", "article", "record", "row")
MAX_NESTING = 64
# Levels at which elements of other names may be products, and how many names are counted.
_PRODUCT_LEVELS = range(2, 5)
_MAX_NAMES = 1_000
_CHUNK_BYTES = 1 << 16
# What an element counts beside its characters: many empty ones fill the memory, too.
_ELEMENT_CHARS = 32
_DECLARED = re.compile(rb"<\?xml[^>]{0,200}?encoding\s{0,9}=\s{0,9}[\"']([\w.-]{1,40})")

_HTML_TAGS = words("b br div em h1 h2 h3 h4 h5 h6 i li ol p span strong table u ul")
# Google's own elements come before those of RSS or Atom with the same name, and these before others.
_PREFIXES = ("g", "")


@dataclass(slots=True)
class _Element:
    """An element with its name as written, `g:price`, and its texts and elements in order."""

    name: str
    attributes: Mapping[str, str]
    content: list[str | _Element] = field(default_factory=list)

    @property
    def elements(self) -> list[_Element]:
        return [part for part in self.content if isinstance(part, _Element)]

    @property
    def text(self) -> str:
        """The text outside of the elements in it."""
        return "".join(part for part in self.content if isinstance(part, str)).strip()


def read_feed(path: Path, name: str) -> Iterator[Row | Skipped]:
    """Yield the products of a feed, which may be gzipped; their numbers are those of their lines.

    Where no element has a usual name, those that are repeated are products: `<book>` in a `<catalog>`.
    """
    with open_bytes(path) as stream:
        feed = _Feed(name, PRODUCT_ELEMENTS)
        yield from feed.rows(stream)
        if feed.is_other_xml and (repeated := feed.repeated_element()):
            stream.seek(0)
            feed = _Feed(name, (repeated,))
            yield from feed.rows(stream)

    if feed.is_other_xml:
        names = ", ".join(f"<{name}>" for name in PRODUCT_ELEMENTS)
        yield Skipped(
            name,
            f"has no products: none of its elements is {names}, and no other one that has elements "
            "in it is repeated",
        )


def _utf8_or_raw(stream: io.BufferedIOBase) -> tuple[Iterator[bytes], str | None]:
    """Content as UTF-8 if it declares an encoding that is decoded here, else for expat to decode."""
    chunks = iter(lambda: stream.read(_CHUNK_BYTES), b"")
    first = next(chunks, b"")
    content = chain([first], chunks)

    declared = _DECLARED.match(first)
    codec = text_codec(declared[1].decode("ascii")) if declared else None
    if codec is None:
        return content, None
    return (text.encode() for text in codecs.iterdecode(content, codec)), "utf-8"


class _Feed:
    """The products of one feed, each complete once its end tag is read."""

    def __init__(self, name: str, product_elements: Container[str]) -> None:
        self._name = name
        self._product_elements = product_elements
        self._rows: list[Row | Skipped] = []
        # Whether all was read, and there was no product.
        self.is_other_xml = False
        self._has_products = False

        # How many elements of each level and name have others in them, and which of the open ones do.
        self._parents: Counter[tuple[int, str]] = Counter()
        self._open_parents: list[bool] = []

        # The elements that are open: how many, and those of a product, the product first.
        self._depth = 0
        self._open: list[_Element] = []
        # Where the product is; its size, beyond the limit of which no more is kept.
        self._product_depth, self._line, self._chars = 0, 0, 0

    def rows(self, stream: io.BufferedIOBase) -> Iterator[Row | Skipped]:
        """Yield products, up to the first place that is not well-formed."""
        content, encoding = _utf8_or_raw(stream)
        self._parser = parser = self._new_parser(encoding)
        fed_bytes = 0

        try:
            for chunk in content:
                parser.Parse(chunk)
                yield from self._take_rows()

                fed_bytes += len(chunk)
                if fed_bytes - parser.CurrentByteIndex > MAX_ROW + _CHUNK_BYTES:
                    raise InvalidInput(f"has a tag or comment that {TOO_LONG}")
            parser.Parse(b"", True)
        except (expat.ExpatError, ValueError, LookupError, InvalidInput) as error:
            yield from self._take_rows()
            reason = f"{_reason(error)}; the products after it are left out, too"
            line = parser.CurrentLineNumber
            yield Skipped(self._name, reason, line, cut_off=self._has_products)
            return

        yield from self._take_rows()
        self.is_other_xml = not self._has_products

    def repeated_element(self) -> str | None:
        """The name of most elements with others in them, at the first level where one is repeated."""
        for level in _PRODUCT_LEVELS:
            at_level = {name: n for (depth, name), n in self._parents.items() if depth == level}
            if at_level and max(at_level.values()) > 1:
                return max(at_level, key=at_level.__getitem__)
        return None

    def _new_parser(self, encoding: str | None) -> expat.XMLParserType:
        parser = expat.ParserCreate(encoding)
        parser.buffer_text = True
        parser.StartDoctypeDeclHandler = _refuse_document_type
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._add_text
        return parser

    def _take_rows(self) -> list[Row | Skipped]:
        rows, self._rows = self._rows, []
        return rows

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > MAX_NESTING:
            raise InvalidInput(f"nests elements deeper than {MAX_NESTING} levels")

        if not self._product_depth:
            if _local(name).lower() not in self._product_elements:
                if self._open_parents:
                    self._open_parents[-1] = True
                self._open_parents.append(False)
                return
            self._product_depth, self._line = self._depth, self._parser.CurrentLineNumber
            self._chars = 0
            self._has_products = True

        self._chars += _ELEMENT_CHARS + len(name) + sum(map(len, chain(*attributes.items())))
        if self._chars <= MAX_ROW:
            element = _Element(name, attributes)
            if self._open:
                self._open[-1].content.append(element)
            self._open.append(element)

    def _add_text(self, text: str) -> None:
        if self._product_depth:
            self._chars += len(text)
            if self._chars <= MAX_ROW:
                self._open[-1].content.append(text)

    def _end(self, name: str) -> None:
        self._depth -= 1
        if not self._product_depth:
            element = (self._depth + 1, _local(name).lower())
            if self._open_parents.pop() and len(self._parents) < _MAX_NAMES:
                self._parents[element] += 1
            return

        if self._depth >= self._product_depth:
            # Beyond the limit, elements were not opened, and the product is given up.
            if self._chars <= MAX_ROW:
                self._open.pop()
            return

        if self._chars <= MAX_ROW:
            self._rows.append(Row(self._line, _record(self._open[0])))
        else:
            self._rows.append(Skipped(self._name, TOO_LONG, self._line))
        self._product_depth = 0
        self._open.clear()


def _refuse_document_type(*_declaration: object) -> None:
    raise InvalidInput("has a document type, which is not read: remove <!DOCTYPE ...>")


def _reason(error: Exception) -> str:
    if isinstance(error, InvalidInput):
        return error.message

    if isinstance(error, expat.ExpatError):
        message = expat.ErrorString(error.code)
        if message == expat.errors.XML_ERROR_UNDEFINED_ENTITY:
            message += ", which HTML may have, but not XML: write &#160; for &nbsp;"
        return f"is not well-formed XML: {message}"

    return f"is not in the encoding that it declares: {error}"


# Values


def _local(name: str) -> str:
    """A name without its namespace."""
    return name.rpartition(":")[2]


def _record(product: _Element) -> dict[str, object]:
    record = _mapping(product)
    if _local(product.name) == "entry" and "content" in record:
        # Atom's name of what others call a description.
        record.setdefault("description", record.pop("content"))
    return record


def _mapping(element: _Element) -> dict[str, object]:
    """Attributes and elements by name; elements of the same name become a list."""
    values: dict[str, list[object]] = {}
    for child in element.elements:
        values.setdefault(_name_of(child), []).append(_value(child))

    names = _short_names(values)
    mapping: dict[str, object] = {
        name: _alone(values[name_in_feed]) for name_in_feed, name in names.items()
    }
    return {**_attributes(element), **mapping}


def _name_of(element: _Element) -> str:
    """The name of an element; links to anything but the product's page are told apart."""
    relation = element.attributes.get("rel", "alternate")
    is_page = _local(element.name) != "link" or relation == "alternate"
    return element.name if is_page else f"{element.name}.{relation}"


def _short_names(names: Iterable[str]) -> dict[str, str]:
    """Map names to those without namespaces; where two would be the same, one keeps its prefix.

    A name without a prefix is left out if Google has the same: the `id` of an Atom entry.
    """

    def order(name: str) -> int:
        prefix = name.rpartition(":")[0]
        return _PREFIXES.index(prefix) if prefix in _PREFIXES else len(_PREFIXES)

    names = list(names)
    preferred = {_local(name): name for name in sorted(names, key=order, reverse=True)}
    return {
        name: _local(name) if preferred[_local(name)] == name else name
        for name in names
        if ":" in name or preferred[name] == name
    }


def _alone(values: list[object]) -> object:
    """The value of an element, or the values of several with its name, each text once."""
    if all(isinstance(value, str) for value in values):
        values = list(dict.fromkeys(values))
    return values[0] if len(values) == 1 else values


def _value(element: _Element) -> object:
    """Text, a mapping of what has names, or a list of elements that are all of one kind."""
    children = element.elements
    if children and (element.text or any(child.name.lower() in _HTML_TAGS for child in children)):
        return "".join(map(_markup, element.content))

    if not children:
        attributes = _attributes(element)
        if _local(element.name) == "link":
            return element.text or attributes.get("href", "")
        if not element.text:
            return attributes or ""
        return {"value": element.text, **attributes} if attributes else element.text

    kinds = {child.name for child in children}
    if len(kinds) == 1 and (len(children) > 1 or _is_plural(element.name, children[0].name)):
        return [_value(child) for child in children]
    return _mapping(element)


def _attributes(element: _Element) -> dict[str, str]:
    """Attributes of an element without those that tell of the notation only."""
    return {
        _local(name): value
        for name, value in element.attributes.items()
        if not name.startswith(("xml", "xsi:"))
        and name != "isPermaLink"
        and (name, value) not in {("type", "text"), ("type", "html"), ("type", "xhtml")}
    }


def _is_plural(name: str, singular: str) -> bool:
    return _local(name).lower() in (f"{_local(singular).lower()}s", f"{_local(singular[:-1])}ies")


def _markup(part: str | _Element) -> str:
    """HTML in XML as text, from which tags are taken later."""
    if isinstance(part, str):
        return html.escape(part, quote=False)
    name = _local(part.name)
    return f"<{name}>{''.join(map(_markup, part.content))}</{name}>"
