"""What `make docs` prints: docs/api.md, made of the OpenAPI document, the client's signatures and the recipes' keys."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from app import client
from app.access import needs
from app.main import create_app
from app.problems import PROBLEMS, Left
from app.settings import Settings

Schema = Mapping[str, Any]

TOP = """\
# API reference
Made by `make docs` from the server's own description, which is at `/openapi.json`; not to be edited by hand. The
[guide](guide.md) shows how to use it; limits that are not of a single field are in [limits](limits.md).

Bodies are JSON (`Content-Type: application/json`). Requests refuse keys that they do not know and values of another
type. Where the server has keys, one is sent as `Authorization: Bearer KEY`, and *scope* is what it must be allowed
([running](running.md#who-may-do-what)). Keys without a value are left out of replies; only the `label` of a text that
got none is null.
"""
GROUPS = {  # by the first part of a path
    "search": "Search",
    "qa": "Questions",
    "classify": "Classification",
    "classifiers": "Classification",
    "corpora": "Corpora",
    "v1": "Other protocols",
    "embed": "Other protocols",
    "rerank": "Other protocols",
    "livez": "Probes",
    "readyz": "Probes",
}
ELSEWHERE = """\
| not in the OpenAPI document | |
|---|---|
| `POST /mcp` | tools for agents, by the Model Context Protocol: [agents](agents.md) |
| `GET /metrics` | figures for Prometheus: [running](running.md#watching) |
| `GET /`, `GET /web/FILE` | the page |
"""
OTHERS = {  # problems that no exception of `PROBLEMS` stands for
    "not-json": (400, "The body is not JSON."),
    "no-key": (401, "The server has keys, and none of them was sent."),
    "not-allowed": (403, "The key lacks the scope."),
    "rate": (429, "The key has used up its rate; `Retry-After` tells the seconds to wait."),
    "overloaded": (503, "Too many requests wait; `Retry-After` tells the seconds to wait."),
}
BLANK = {
    400: "The body cannot be decoded.",
    404: "There is nothing at this path.",
    405: "The path does not take this method.",
    408: "The body took too long to arrive.",
    413: "The body is too large.",
    415: "The `Content-Type` is not `application/json`.",
    500: "Something went wrong in the server; its log has the details.",
}


def page() -> str:
    """All of docs/api.md."""
    openapi = create_app(Settings()).openapi()
    schemas: Mapping[str, Schema] = openapi["components"]["schemas"]
    parts = [TOP, *_operations(openapi["paths"], schemas), ELSEWHERE, _problems()]
    parts += [
        "## Objects\n",
        *(_object(name, schemas[name]) for name in sorted(schemas) if not _is_request(name)),
    ]
    return "\n".join([*parts, *_client(), *_recipes()])


def _is_request(name: str) -> bool:
    return name.endswith("Request")  # shown with the operation that takes it


# ---- operations


def _operations(
    paths: Mapping[str, Mapping[str, Schema]], schemas: Mapping[str, Schema]
) -> Iterator[str]:
    grouped: dict[str, list[str]] = {title: [] for title in GROUPS.values()}
    for path, operations in paths.items():
        for method, operation in operations.items():
            grouped[GROUPS[path.split("/")[1]]].append(
                _operation(method.upper(), path, operation, schemas)
            )
    for title, shown in grouped.items():
        yield f"## {title}\n"
        yield from shown


def _operation(method: str, path: str, operation: Schema, schemas: Mapping[str, Schema]) -> str:
    scopes = needs(method, path)
    reply = _shape(operation["responses"]["200"]["content"]["application/json"]["schema"])
    lines = [f"### {method} {path}", operation["description"], ""]
    lines.append(
        f"- Scope: {' or '.join(f'`{scope}`' for scope in scopes)}" if scopes else "- No key needed"
    )
    lines.append(f"- Reply: {reply}")
    lines.append(f"- Errors: {_errors(operation['responses'])}")
    body = operation.get("requestBody")
    if body is None:
        return "\n".join([*lines, ""])
    name = body["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
    return "\n".join([*lines, "", *_fields(schemas[name], request=True), ""])


def _errors(statuses: Iterable[str]) -> str:
    known = [int(status) for status in statuses if status != "200"]
    return f"{', '.join(map(_named, sorted(known)))} ([Errors](#errors))"


def _named(status: int) -> str:
    """A status with its problem type, if there is one and no more."""
    slugs = [slug for slug, (found, _) in _problem_types().items() if found == status]
    return f"{status} `{slugs[0]}`" if len(slugs) == 1 else str(status)


def _problem_types() -> dict[str, tuple[int, str]]:
    known = {
        slug: (int(status), _first(kind.__doc__))
        for kind, (status, slug) in PROBLEMS.items()
        if kind is not Left
    }
    return dict(sorted((known | OTHERS).items(), key=lambda item: (item[1][0], item[0])))


def _problems() -> str:
    rows = [
        f"| {status} | `urn:purlin:problem:{slug}` | {about} |"
        for slug, (status, about) in _problem_types().items()
    ]
    rows += [f"| {status} | `about:blank` | {about} |" for status, about in BLANK.items()]
    return "\n".join(
        [
            "## Errors",
            "Every error is a [Problem](#problem) (RFC 9457, `application/problem+json`) of one of these types:",
            "",
            "| status | type | when |",
            "|---|---|---|",
            *rows,
            "",
        ]
    )


# ---- schemas


def _object(name: str, schema: Schema) -> str:
    return "\n".join(
        [f"### {name}", schema["description"], "", *_fields(schema, request=False), ""]
    )


def _fields(schema: Schema, *, request: bool) -> list[str]:
    required = schema.get("required", ())
    head = ["field", "type", "default", "limits", "what"] if request else ["field", "type", "what"]
    rows = []
    for name, one in schema["properties"].items():
        about = _line(one.get("description", ""))
        if request:
            default = "required" if name in required else _default(one)
            rows.append([f"`{name}`", _shape(one), default, _limits(one), about])
        else:
            rows.append([f"`{name}`", _shape(one), about])
    if not any(row[-1] for row in rows):
        head, rows = head[:-1], [row[:-1] for row in rows]
    return _table(head, rows)


def _default(schema: Schema) -> str:
    return f"`{_json(schema['default'])}`" if schema.get("default") is not None else "none"


def _shape(schema: Schema) -> str:
    """A type in words."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "enum" in schema or "const" in schema:
        return " or ".join(
            f"`{_json(value)}`" for value in schema.get("enum", [schema.get("const")])
        )
    if "anyOf" in schema:
        return " or ".join(_alternatives(schema["anyOf"]))
    if schema.get("type") == "array":
        inner = schema.get("prefixItems")
        return (
            f"[{', '.join(map(_shape, inner))}]" if inner else f"list of {_shape(schema['items'])}"
        )
    values = schema.get("additionalProperties")
    if isinstance(values, Mapping) and "type" in values:
        return f"object of {_shape(values)}"
    return str(schema.get("type", "any"))


def _alternatives(schemas: Sequence[Schema]) -> list[str]:
    """Each once; every integer is a number."""
    shapes = dict.fromkeys(_shape(one) for one in schemas if one.get("type") != "null")
    return [shape for shape in shapes if shape != "integer" or "number" not in shapes]


def _limits(schema: Schema) -> str:
    """Bounds of a value and of what is in it, in words."""
    found = [
        _range(schema, "minLength", "maxLength", " characters"),
        _range(schema, "minItems", "maxItems", " items"),
    ]
    found.append(_range(schema, "minimum", "maximum", ""))
    if "exclusiveMaximum" in schema:
        found.append(f"below {schema['exclusiveMaximum']:,.0f}")
    found += [_limits(one) for one in schema.get("anyOf", ())]
    if schema.get("type") == "array" and (inner := _limits(schema.get("items", {}))):
        found.append(f"each {inner}")
    return ", ".join(dict.fromkeys(filter(None, found)))


def _range(schema: Schema, least: str, most: str, unit: str) -> str:
    low, high = schema.get(least), schema.get(most)
    if high is None:
        return "" if not low else f"at least {low:g}{unit}"
    return f"at most {high:,.0f}{unit}" if low is None else f"{low:g} to {high:,.0f}{unit}"


# ---- Python


def _client() -> Iterator[str]:
    yield "## The Python client\n`app.client`; how to use it is told in [client](client.md).\n"
    for made in (client.Client, client.AsyncClient):
        yield f"### {made.__name__}{_signature(made)}\n{_doc(made)}\n"
    for name in ("search", "classify", "qa", "corpora", "corpus", "document", "health"):
        method = getattr(client.Client, name)
        yield f"- `{name}{_signature(method)}`: {_line(_doc(method))}"
    yield "\n### What comes back\n"
    for name, kind in vars(client).items():
        if is_dataclass(kind) and kind.__module__ == client.__name__ and not name.startswith("_"):
            yield f"- `{name}({', '.join(one.name for one in fields(kind))})`: {_line(_doc(kind))}"
    yield ""


def _signature(kind: Any) -> str:
    parameters = inspect.signature(kind).parameters.values()
    shown, starred = [], False
    for one in parameters:
        if one.name == "self":
            continue
        if one.kind is one.KEYWORD_ONLY and not starred:
            starred = True
            shown.append("*")
        shown.append(one.name if one.default is one.empty else f"{one.name}={one.default!r}")
    return f"({', '.join(shown)})"


def _recipes() -> Iterator[str]:
    from training import reader, santa
    from training.pesco import self_training as pesco

    yield (
        "## Recipes\nThe keys of the TOML files that `purlin train` takes; how to use them is told in "
        "[training](training.md), [qa](qa.md) and [pesco](pesco.md). A list of tables is written `[[key]]`.\n"
    )
    shown: dict[type, str] = {}
    for command, kind in (
        ("santa", santa.SantaRecipe),
        ("refqa", reader.ReaderRecipe),
        ("pesco", pesco.Recipe),
    ):
        yield f"### purlin train {command}\n"
        yield from _recipe(kind, "", shown)


def _recipe(kind: Any, key: str, shown: dict[type, str]) -> Iterator[str]:
    """A table of a recipe, then those in it; what was shown already is referred to."""
    types = get_type_hints(kind)
    inner = {name: table for name, one in types.items() if (table := _table_in(one)) is not None}
    new = {
        table: f"{key}.{name}" if key else name
        for name, table in reversed(inner.items())
        if table not in shown
    }
    shown.update(new)
    if key:
        yield f"#### {key}\n"
    yield f"{_doc(kind)}\n"
    rows = []
    for one in fields(kind):
        default = _toml_default(one)
        if one.name in inner:
            default = f"{'required, ' if default == 'required' else ''}see {shown[inner[one.name]]}"
        rows.append([f"`{one.name}`", _toml_type(types[one.name]), default])
    yield "\n".join(_table(["key", "type", "default"], rows)) + "\n"
    for table in reversed(new):
        yield from _recipe(table, new[table], shown)


def _table_in(kind: Any) -> Any:
    """The dataclass that a type is, or holds."""
    if is_dataclass(kind):
        return kind
    return next((found for one in get_args(kind) if (found := _table_in(one)) is not None), None)


def _toml_type(kind: Any) -> str:
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Literal:
        return " or ".join(f"`{_json(value)}`" for value in inner)
    if origin is tuple:
        return f"list of {_toml_type(inner[0])}"
    if origin in (Union, UnionType):
        return next(_toml_type(one) for one in inner if one is not NoneType)
    known = {int: "whole number", float: "number", str: "text", bool: "true or false", Path: "path"}
    return known.get(kind, "table")


def _toml_default(one: Field[Any]) -> str:
    if one.default is MISSING:
        return "required" if one.default_factory is MISSING else ""
    return "none" if one.default is None else f"`{_json(one.default)}`"


# ---- text


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return ["| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows]]


def _doc(thing: Any) -> str:
    return inspect.getdoc(thing) or ""


def _first(doc: str | None) -> str:
    return _line(inspect.cleandoc(doc or "").partition("\n\n")[0])


def _line(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    sys.stdout.write(page())
