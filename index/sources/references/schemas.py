"""Turn OpenAPI and JSON Schema documents, in JSON or YAML, into HTML.

Each endpoint, its parameters and responses, each schema and its properties become entries, and their
JSON pointers anchors. What another part of the document describes (`$ref`) is named, not repeated.
"""

from __future__ import annotations

import json
import re
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from functools import lru_cache
from html import escape
from itertools import islice
from typing import Any
from urllib.parse import quote, unquote

from markdown_it import MarkdownIt

from purlin.index.errors import InvalidInput
from purlin.index.sources.references import json_lines, yaml_values
from purlin.index.sources.references.markdown import MAX_INLINE
from purlin.index.sources.references.page_markup import marked

MAX_ENTRIES = 20_000  # of a document
MAX_CHARS = 32 << 20  # of its page, which repeats what many references lead to
MAX_DEPTH = 8  # of properties within properties, and of references to references
MAX_NAME, MAX_POINTER = 200, 1_000  # characters
MAX_VALUES, MAX_VALUE_CHARS = 100, 1_000  # of an enumeration

_METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
_JSON_SCHEMA = "json-schema.org"
# Where schemas have names: in OpenAPI 3, in Swagger 2 and older JSON Schema, in newer JSON Schema.
_SCHEMAS = (("components", "schemas"), ("definitions",), ("$defs",))
_COMPOSED = {"allOf": " and ", "oneOf": " or ", "anyOf": " or "}
_FACTS = (
    "in required default const enum format minimum exclusiveMinimum maximum exclusiveMaximum multipleOf"
    " minLength maxLength minItems maxItems pattern deprecated readOnly writeOnly"
).split()
_FLAGS = frozenset("required deprecated readOnly writeOnly".split())
_CAPITAL = re.compile(r"(?=[A-Z])")
# What escapes may write that is no character: a zero, and half of a surrogate pair.
_NOT_TEXT = re.compile("[\0\ud800-\udfff]")

# Tags stay text: most are types such as `List<String>`.
_COMMONMARK = MarkdownIt("commonmark", {"html": False, "maxNesting": MAX_INLINE}).enable("table")
_IS_MARKED = re.compile(r"[\n`*_#\[&\\~<!]|^\s*(?:[-+>]|\d+[.)]) ")
_HEADING = re.compile(r"<(/?)h[1-6]>")

Node = MutableMapping[str, Any]


def html(text: str) -> str:
    """Return a page with the entries of a document in JSON.

    Raises InvalidInput if it is no such document, has too many entries or makes too long a page.
    """
    return _page(_json, text)


def html_of_yaml(text: str) -> str:
    """Return the same page of a document in YAML."""
    return _page(yaml_values.value, text)


def anchor_line(text: str, anchor: str) -> int | None:
    """Return the line of what a pointer leads to in a document in JSON; None without one."""
    return json_lines.line(text, _steps(anchor))


def anchor_line_of_yaml(text: str, anchor: str) -> int | None:
    """Return the same of a document in YAML; what an alias repeats has no line. Raises as `html` does."""
    return yaml_values.line(text, _steps(anchor))


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise InvalidInput(f"not valid JSON: {error}") from None


def _page(parse: Callable[[str], Any], text: str) -> str:
    try:
        return _joined(_Page(_checked(parse(text))).parts())
    except RecursionError:
        raise InvalidInput("nested too deeply; flatten it") from None


def _checked(value: Any) -> Node:
    """Return the document, if it is one of OpenAPI or JSON Schema."""
    document = _node(value)
    is_schema = _JSON_SCHEMA in str(document.get("$schema"))
    if not is_schema and document.keys().isdisjoint(("openapi", "swagger")):
        raise InvalidInput(
            "neither OpenAPI nor JSON Schema: it has no key openapi or swagger, and no $schema"
            f" of {_JSON_SCHEMA}; add the key if it is either"
        )
    return document


def _joined(parts: Iterable[str]) -> str:
    page, room = [], MAX_CHARS
    for part in parts:
        page.append(part)
        room -= len(part)
        if room < 0:
            raise InvalidInput(
                f"its page is longer than {MAX_CHARS:,} characters, with what each $ref leads to;"
                " split it"
            )
    return _NOT_TEXT.sub("\ufffd", "".join(page))


class _Page:
    """The entries of a document."""

    def __init__(self, document: Node) -> None:
        self._document = document
        self._room = MAX_ENTRIES

    def parts(self) -> Iterator[str]:
        """Yield the page in pieces: its title, then endpoints, schemas and properties."""
        about = ChainMap(_node(self._document.get("info")), self._document)
        title = escape(_line(about.get("title")))
        yield f"<title>{title}</title><h1>{title}</h1>" if title else ""
        yield _paragraphs(about)

        for path, item in _nodes(self._document.get("paths")):
            for method in _METHODS:
                if operation := _node(item.get(method)):
                    pointer = f"/paths{_step(path)}/{method}"
                    yield from self._endpoint(f"{method.upper()} {path}", pointer, item, operation)

        yield from self._properties(self._document, "", MAX_DEPTH)
        for keys in _SCHEMAS:
            at = "".join(map(_step, keys))
            for name, schema in _nodes(self._at(keys)):
                yield from self._entry("class", name, at + _step(name), schema, MAX_DEPTH)

    def _endpoint(self, name: str, pointer: str, item: Node, operation: Node) -> Iterator[str]:
        """Yield the entry of an endpoint, with its parameters, body and responses."""
        opening = self._opening("function", pointer, name, _line(operation.get("operationId")))
        if not opening:
            return
        yield opening + _paragraphs(operation)
        if body := self._resolved(operation.get("requestBody")):
            yield _paragraphs(body) + _lines([f"Body: {_type(_content(body))}"])

        for owner, at in ((operation, pointer), (item, pointer.rpartition("/")[0])):
            for number, each in enumerate(_list(owner.get("parameters"))):
                parameter = self._resolved(each)
                described = ChainMap(parameter, _node(parameter.get("schema")))
                own_name = _line(parameter.get("name"))
                own_pointer = f"{at}/parameters/{number}"
                yield from self._entry("parameter", own_name, own_pointer, described, 0)

        for status, each in _nodes(operation.get("responses")):
            response = self._resolved(each)
            described = ChainMap(response, _content(response))
            own_pointer = f"{pointer}/responses{_step(status)}"
            yield from self._entry("term", status, own_pointer, described, 0)
        yield "</dd></dl>"

    def _entry(self, kind: str, name: str, pointer: str, schema: Node, depth: int) -> Iterator[str]:
        """Yield the entry of a schema, a property, a parameter or a response."""
        if opening := self._opening(kind, pointer, name):
            described = ChainMap(schema, self._resolved(schema))
            yield opening + _paragraphs(described) + _lines(_facts(described, _type(schema)))
            yield from self._properties(schema, pointer, depth)
            yield "</dd></dl>"

    def _properties(self, schema: Node, pointer: str, depth: int) -> Iterator[str]:
        """Yield the properties of a schema, of its items and of what it is composed of."""
        if depth <= 0:
            return
        required = {name for name in _list(schema.get("required")) if isinstance(name, str)}
        for name, each in _nodes(schema.get("properties")):
            own_pointer = f"{pointer}/properties{_step(name)}"
            described = ChainMap({"required": name in required}, each)
            yield from self._entry("attribute", name, own_pointer, described, depth - 1)

        yield from self._properties(_node(schema.get("items")), f"{pointer}/items", depth - 1)
        for key in _COMPOSED:
            for number, part in enumerate(_list(schema.get(key))):
                yield from self._properties(_node(part), f"{pointer}/{key}/{number}", depth - 1)

    def _opening(self, kind: str, pointer: str, *names: str) -> str:
        """Return how an entry begins; empty without a name, or with one that is too long."""
        names = tuple(filter(None, map(_line, names)))
        if not names or len("".join(names)) > MAX_NAME or len(pointer) > MAX_POINTER:
            return ""
        self._room -= 1
        if self._room < 0:
            raise InvalidInput(
                f"more than {MAX_ENTRIES:,} endpoints, parameters and properties; split it"
            )
        terms = "</dt><dt>".join(marked(name, [name]) for name in names)
        return f'<dl class="std {kind}"><dt id="{escape(pointer)}">{terms}</dt><dd>'

    def _resolved(self, value: Any) -> Node:
        """Return the node that the references of a node lead to in this document."""
        node = _node(value)
        for _ in range(MAX_DEPTH):
            reference = node.get("$ref")
            if not isinstance(reference, str) or not reference.startswith("#/"):
                break
            if len(reference) > MAX_POINTER:
                return {}
            node = self._at(_steps(reference[1:]))
        return node

    def _at(self, steps: Iterable[str]) -> Node:
        node = self._document
        for step in steps:
            node = _node(node.get(step))
        return node


def _node(value: Any) -> Node:
    return value if isinstance(value, MutableMapping) else {}


def _nodes(value: Any) -> Iterator[tuple[str, Node]]:
    """Yield the objects in an object, with their names."""
    return ((name, node) for name, node in _node(value).items() if isinstance(node, dict))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _step(key: str) -> str:
    """Return a key as a step of a JSON pointer in an address."""
    return "/" + quote(key.replace("~", "~0").replace("/", "~1"), safe="~", errors="replace")


def _steps(pointer: str) -> Iterator[str]:
    """Yield the keys that a JSON pointer in an address leads through."""
    steps = map(unquote, pointer.split("/")[1:])
    return (step.replace("~1", "/").replace("~0", "~") for step in steps)


def _content(body: Node) -> Node:
    """Return the schema of what is sent, of the first media type; Swagger has a single schema."""
    media = next(iter(_node(body.get("content")).values()), body)
    return _node(_node(media).get("schema"))


def _type(schema: Node, depth: int = 3) -> str:
    """Return a schema's type: its name, "array of Item", "string or null"; empty without any."""
    if reference := schema.get("$ref"):
        return _line(reference).rpartition("/")[2]
    kind = schema.get("type")
    of = _type(_node(schema.get("items")), depth - 1) if depth and kind == "array" else ""
    if kind:
        return f"array of {of}" if of else " or ".join(map(str, _list(kind) or [kind]))

    for key, word in _COMPOSED.items():
        parts = _list(schema.get(key))[:MAX_DEPTH] if depth else []
        if names := list(filter(None, (_type(_node(part), depth - 1) for part in parts))):
            return word.join(names)
    return ""


def _facts(schema: Node, type_name: str) -> Iterator[str]:
    """Yield lines such as `Type: integer` and `Default: 20`."""
    if type_name:
        yield f"Type: {type_name}"
    for key in _FACTS:
        value = schema.get(key)
        values = _list(value) if key == "enum" else [value]
        # A flag that is off says nothing; a schema's `required` lists properties, which say it themselves.
        is_said = value is True if key in _FLAGS else key in schema
        if is_said and values:
            label = "One of" if key == "enum" else " ".join(_CAPITAL.split(key)).capitalize()
            shown = ", ".join(map(_value, values[:MAX_VALUES]))
            more = len(values) - MAX_VALUES
            yield f"{label}: {shown}" + (f" and {more:,} more" if more > 0 else "")


def _value(value: Any) -> str:
    if isinstance(value, str) and value:
        return value[:MAX_VALUE_CHARS]
    # In pieces: a long value may be that of many references. Each piece has a character.
    pieces = json.JSONEncoder(ensure_ascii=False).iterencode(value)
    return "".join(islice(pieces, MAX_VALUE_CHARS))[:MAX_VALUE_CHARS]


def _line(value: Any) -> str:
    """Return a name on one line; empty for what is none."""
    return " ".join(str(value).split()) if isinstance(value, str | int) else ""


def _paragraphs(node: Node) -> str:
    """Return the summary and the description of a node."""
    values = (node.get(key) for key in ("summary", "description"))
    return "".join(_rendered(value) for value in values if isinstance(value, str))


@lru_cache(maxsize=256)  # A response or a schema is described wherever a reference leads to it.
def _rendered(text: str) -> str:
    """Render CommonMark, in which descriptions are written; a heading within an entry is a paragraph."""
    markup = str(_COMMONMARK.render(text)) if _IS_MARKED.search(text) else f"<p>{escape(text)}</p>"
    return _HEADING.sub(r"<\1p>", markup)


def _lines(lines: Iterable[str]) -> str:
    return f"<p>{'<br>'.join(map(escape, lines))}</p>"
