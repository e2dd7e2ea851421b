"""Turn OpenAPI, AsyncAPI and JSON Schema documents, in JSON or YAML, into HTML.

Each endpoint, its parameters and responses, each channel, operation and message, each schema and its
properties become entries, and their JSON pointers anchors. What another
part of the document describes (`$ref`) is named, not repeated.
"""

from __future__ import annotations

import json
import re
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from typing import Any
from urllib.parse import quote, unquote

from purlin.index.errors import InvalidInput
from purlin.index.sources.references import json_lines, yaml_values
from purlin.index.sources.references.declarations import (
    ENTRY_END,
    MAX_ANCHOR,
    MAX_DEPTH,
    EntryOpenings,
    heading,
    joined,
    lines,
    paragraphs,
    shown_value,
    shown_values,
)

_METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
_JSON_SCHEMA = "json-schema.org"
# Where schemas have names: in OpenAPI 3, in Swagger 2 and older JSON Schema, in newer JSON Schema.
_SCHEMAS = (("components", "schemas"), ("definitions",), ("$defs",))
_COMPOSED = {"allOf": " and ", "oneOf": " or ", "anyOf": " or "}
_FACTS = (
    "in required default const enum format minimum exclusiveMinimum maximum exclusiveMaximum multipleOf"
    " minLength maxLength minItems maxItems pattern deprecated readOnly writeOnly"
    # Of AsyncAPI.
    " action address contentType host url pathname protocol protocolVersion location"
).split()
_FLAGS = frozenset("required deprecated readOnly writeOnly".split())
_CAPITAL = re.compile(r"(?=[A-Z])")

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
        return joined(_Page(_checked(parse(text))).parts())
    except RecursionError:
        raise InvalidInput("nested too deeply; flatten it") from None


def _checked(value: Any) -> Node:
    """Return the document, if it is one of OpenAPI, AsyncAPI or JSON Schema."""
    document = _node(value)
    is_schema = _JSON_SCHEMA in str(document.get("$schema"))
    if not is_schema and document.keys().isdisjoint(("openapi", "swagger", "asyncapi")):
        raise InvalidInput(
            "neither OpenAPI, AsyncAPI nor JSON Schema: it has no key openapi, swagger or asyncapi, and"
            f" no $schema of {_JSON_SCHEMA}; add the key if it is one of them"
        )
    return document


class _Page:
    """The entries of a document."""

    def __init__(self, document: Node) -> None:
        self._document = document
        self._openings = EntryOpenings()

    def parts(self) -> Iterator[str]:
        """Yield the page in pieces: its title, then endpoints, schemas and properties."""
        about = ChainMap(_node(self._document.get("info")), self._document)
        yield heading(_line(about.get("title"))) + _described(about)

        for path, item in _nodes(self._document.get("paths")):
            for method in _METHODS:
                if operation := _node(item.get(method)):
                    pointer = f"/paths{_step(path)}/{method}"
                    yield from self._endpoint(f"{method.upper()} {path}", pointer, item, operation)

        if "asyncapi" in self._document:
            yield from self._messaging()
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
        yield opening + _described(operation)
        if body := self._resolved(operation.get("requestBody")):
            yield _described(body) + lines([f"Body: {_type(_content(body))}"])

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
        yield ENTRY_END

    def _messaging(self) -> Iterator[str]:
        """Yield AsyncAPI's servers, channels, operations and messages."""
        for name, server in _nodes(self._document.get("servers")):
            yield from self._entry("term", name, f"/servers{_step(name)}", server, 0)
        for name, channel in _nodes(self._document.get("channels")):
            yield from self._channel(name, f"/channels{_step(name)}", channel)
        for name, operation in _nodes(self._document.get("operations")):
            yield from self._operation(name, f"/operations{_step(name)}", operation)
        for name, message in _nodes(self._at(("components", "messages"))):
            yield from self._message(name, f"/components/messages{_step(name)}", message)

    def _channel(self, name: str, pointer: str, node: Node) -> Iterator[str]:
        """Yield the entry of a channel with its parameters and what only it has."""
        if not (opening := self._opening("class", pointer, name)):
            return
        channel = ChainMap(node, self._resolved(node))
        messages = _nodes(channel.get("messages"))
        sent = ", ".join(_type(message) or name for name, message in messages)
        facts = [*_facts(channel, ""), *([f"Messages: {sent}"] if sent else [])]
        yield opening + _described(channel) + lines(facts)

        for parameter, each in _nodes(channel.get("parameters")):
            own_pointer = f"{pointer}/parameters{_step(parameter)}"
            yield from self._entry("parameter", parameter, own_pointer, each, 0)
        yield from self._bindings(channel, pointer)
        for message_name, message in _nodes(channel.get("messages")):
            if "$ref" not in message:
                own_pointer = f"{pointer}/messages{_step(message_name)}"
                yield from self._message(message_name, own_pointer, message)
        # Before version 3, a channel has its operations.
        for action in ("publish", "subscribe"):
            if operation := _node(channel.get(action)):
                own_name = _line(operation.get("operationId")) or f"{action} {name}"
                described = ChainMap({"action": action}, operation)
                yield from self._operation(own_name, f"{pointer}/{action}", described)
        yield ENTRY_END

    def _operation(self, name: str, pointer: str, node: Node) -> Iterator[str]:
        """Yield the entry of an operation: what it does in which channel, with which messages."""
        if not (opening := self._opening("function", pointer, name)):
            return
        operation = ChainMap(node, *map(self._resolved, _list(node.get("traits"))))
        reply = self._resolved(operation.get("reply"))
        message = _node(operation.get("message"))
        messages = _list(operation.get("messages")) or _list(message.get("oneOf")) or [message]
        facts = {
            "Channel": _type(_node(operation.get("channel"))),
            "Messages": ", ".join(filter(None, (_type(_node(each)) for each in messages))),
            "Reply channel": _type(_node(reply.get("channel"))),
        }
        named = [f"{label}: {value}" for label, value in facts.items() if value]
        yield opening + _described(operation) + lines([*_facts(operation, ""), *named])
        yield from self._bindings(operation, pointer)
        if "payload" in message:
            message_name = _line(message.get("name")) or "message"
            yield from self._message(message_name, f"{pointer}/message", message)
        yield ENTRY_END

    def _message(self, name: str, pointer: str, node: Node) -> Iterator[str]:
        """Yield the entry of a message, with the properties of its headers and its payload."""
        if not (opening := self._opening("class", pointer, name)):
            return
        message = ChainMap(node, *map(self._resolved, _list(node.get("traits"))))
        payload, payload_pointer = _node(message.get("payload")), f"{pointer}/payload"
        if "schemaFormat" in payload:
            payload, payload_pointer = _node(payload.get("schema")), f"{payload_pointer}/schema"
        payload_type = _type(payload)
        payload_fact = [f"Payload: {payload_type}"] if payload_type else []
        yield opening + _described(message) + lines([*_facts(message, ""), *payload_fact])

        yield from self._properties(_node(message.get("headers")), f"{pointer}/headers", MAX_DEPTH)
        yield from self._properties(payload, payload_pointer, MAX_DEPTH)
        yield from self._bindings(message, pointer)
        yield ENTRY_END

    def _bindings(self, owner: Node, pointer: str) -> Iterator[str]:
        """Yield what protocols add to a channel, an operation or a message: values, and schemas."""
        bindings = list(_nodes(owner.get("bindings")))
        yield lines(value for _, binding in bindings for value in _values(binding))
        for protocol, binding in bindings:
            for key, schema in _nodes(binding):
                if _is_schema(schema):
                    own_pointer = f"{pointer}/bindings{_step(protocol)}{_step(key)}"
                    yield from self._entry("attribute", key, own_pointer, schema, MAX_DEPTH)

    def _entry(self, kind: str, name: str, pointer: str, schema: Node, depth: int) -> Iterator[str]:
        """Yield the entry of a schema, a property, a parameter or a response."""
        if opening := self._opening(kind, pointer, name):
            described = ChainMap(schema, self._resolved(schema))
            yield opening + _described(described) + lines(_facts(described, _type(schema)))
            yield from self._properties(schema, pointer, depth)
            yield ENTRY_END

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
        return self._openings.opening(kind, pointer, map(_line, names))

    def _resolved(self, value: Any) -> Node:
        """Return the node that the references of a node lead to in this document."""
        node = _node(value)
        for _ in range(MAX_DEPTH):
            reference = node.get("$ref")
            if not isinstance(reference, str) or not reference.startswith("#/"):
                break
            if len(reference) > MAX_ANCHOR:
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
            label = "One of" if key == "enum" else _label(key)
            yield f"{label}: {shown_values(values)}"


def _is_schema(node: Node) -> bool:
    return not node.keys().isdisjoint(("$ref", "type", "properties"))


def _values(node: Node, depth: int = MAX_DEPTH) -> Iterator[str]:
    """Yield lines such as `Partitions: 3` of all values in a node that are no schemas."""
    for key, value in node.items():
        if not isinstance(value, dict):
            yield f"{_label(key)}: {shown_value(value)}"
        elif depth and not _is_schema(value):
            yield from _values(value, depth - 1)


def _label(key: str) -> str:
    """Return a key in words: `contentType` -> `Content type`."""
    return " ".join(_CAPITAL.split(key)).capitalize()


def _line(value: Any) -> str:
    """Return a name on one line; empty for what is none."""
    return " ".join(str(value).split()) if isinstance(value, str | int) else ""


def _described(node: Node) -> str:
    """Return the summary and the description of a node."""
    values = (node.get(key) for key in ("summary", "description"))
    return "".join(paragraphs(value) for value in values if isinstance(value, str))
