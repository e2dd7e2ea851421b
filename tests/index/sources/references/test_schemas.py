"""OpenAPI and JSON Schema documents become entries with JSON pointers for anchors."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purlin.index.errors import InvalidInput
from purlin.index.sources.references import declarations, json_lines, manual, schemas, yaml_values
from tests.support.files import write_tree
from tests.support.references import by_id, only_skipped, read

SHOP = {
    "openapi": "3.1.0",
    "info": {"title": "Shop", "description": "Items of the shop."},
    "paths": {
        "/items": {
            "parameters": [{"name": "X-Tenant", "in": "header", "required": True}],
            "get": {
                "operationId": "listItems",
                "summary": "Lists the items.",
                "parameters": [
                    {
                        "name": "limit",
                        "in": "query",
                        "description": "How many a page has.",
                        "required": False,
                        "schema": {"type": "integer", "default": 20, "maximum": 100},
                    },
                    {"$ref": "#/components/parameters/Sort"},
                ],
                "responses": {
                    "200": {
                        "description": "A page.",
                        "content": {
                            "application/json": {
                                "schema": {
                                    "type": "array",
                                    "items": {"$ref": "#/components/schemas/Item"},
                                }
                            }
                        },
                    }
                },
            },
            "post": {
                "requestBody": {
                    "content": {
                        "application/json": {"schema": {"$ref": "#/components/schemas/Item"}}
                    }
                },
                "responses": {"409": {"description": "Its code is in use."}},
            },
        },
        "/items/{id}": {"delete": {"summary": "Removes an item."}},
    },
    "components": {
        "parameters": {
            "Sort": {"name": "sort", "schema": {"$ref": "#/components/schemas/SortKey"}}
        },
        "schemas": {
            "SortKey": {"type": "string", "enum": ["price", "age"], "default": "age"},
            "Item": {
                "type": "object",
                "required": ["code"],
                "properties": {
                    "code": {"type": "string", "pattern": "^[A-Z]+$"},
                    "stock": {
                        "type": "object",
                        "properties": {"shelf": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
                    },
                },
            },
        },
    },
}
GET = "openapi.json#/paths/~1items/get"
ITEM = "openapi.json#/components/schemas/Item"


def test_endpoints_parameters_responses_and_properties_are_entries(tmp_path: Path) -> None:
    write_tree(tmp_path, {"openapi.json": json.dumps(SHOP)})
    documents = by_id(tmp_path)

    assert documents[GET].title == "GET /items, listItems"
    assert documents[GET].body == "GET /items\nlistItems\n\nLists the items."
    limit = documents[f"{GET}/parameters/0"]
    assert (limit.title, limit.context) == ("limit", ("GET /items, listItems",))
    assert limit.location.url == f"{GET}/parameters/0"
    assert limit.body == (
        "limit\n\nHow many a page has.\n\nType: integer\nIn: query\nDefault: 20\nMaximum: 100"
    )
    # What a reference leads to tells the values; its name is the type.
    assert documents[f"{GET}/parameters/1"].body == (
        "sort\n\nType: SortKey\nDefault: age\nOne of: price, age"
    )
    tenant = documents["openapi.json#/paths/~1items/parameters/0"]
    assert tenant.body == "X-Tenant\n\nIn: header\nRequired: true"
    assert documents[f"{GET}/responses/200"].body == "200\n\nA page.\n\nType: array of Item"

    post = documents["openapi.json#/paths/~1items/post"]
    assert post.body == "POST /items\n\nBody: Item"
    assert "openapi.json#/paths/~1items~1%7Bid%7D/delete" in documents

    assert documents[f"{ITEM}/properties/code"].body == (
        "code\n\nType: string\nRequired: true\nPattern: ^[A-Z]+$"
    )
    shelf = documents[f"{ITEM}/properties/stock/properties/shelf"]
    assert (shelf.context, shelf.body) == (("Item", "stock"), "shelf\n\nType: string or null")


def test_swagger_2_has_schemas_in_its_parameters_and_definitions(tmp_path: Path) -> None:
    order = {"properties": {"count": {"type": "integer", "default": 1}}}
    body = {"name": "order", "in": "body", "schema": {"$ref": "#/definitions/Order"}}
    size = {"name": "size", "in": "query", "type": "integer", "default": 10}
    paths = {"/orders": {"post": {"parameters": [body, size]}}}
    document = {"swagger": "2.0", "paths": paths, "definitions": {"Order": order}}
    write_tree(tmp_path, {"shop.swagger.json": json.dumps(document)})

    bodies = {each.title: each.body for each in by_id(tmp_path).values()}
    assert bodies["order"] == "order\n\nType: Order\nIn: body"
    assert bodies["size"] == "size\n\nType: integer\nIn: query\nDefault: 10"
    assert bodies["count"] == "count\n\nType: integer\nDefault: 1"


HARBOUR = """asyncapi: 3.0.0
info: {title: Harbour}
servers:
  quay: {host: "quay.example:5671", protocol: amqps}
channels:
  arrivals:
    address: ships.{berth}.arrived
    description: Ships that have moored.
    parameters:
      berth: {description: Where., enum: [north, south], default: south}
    messages:
      arrived: {$ref: '#/components/messages/arrived'}
      left: {summary: A ship left., payload: {properties: {tide: {type: number}}}}
    bindings:
      kafka:
        partitions: 3
        topicConfiguration: {retention.ms: 60000}
        query: {type: object, properties: {full: {type: boolean, default: false}}}
operations:
  announce:
    action: send
    channel: {$ref: '#/channels/arrivals'}
    traits: [{$ref: '#/components/operationTraits/slow'}]
    messages: [{$ref: '#/channels/arrivals/messages/arrived'}]
    reply: {channel: {$ref: '#/channels/departures'}}
components:
  operationTraits:
    slow: {summary: Tells once an hour.}
  messages:
    arrived:
      contentType: application/json
      headers: {properties: {trace: {type: string}}}
      payload:
        schemaFormat: application/schema+yaml;version=draft-07
        schema: {properties: {draught: {type: number, maximum: 12}}}
"""


def test_asyncapi_has_channels_operations_and_messages(tmp_path: Path) -> None:
    write_tree(tmp_path, {"harbour-asyncapi.yml": HARBOUR})
    documents = by_id(tmp_path)
    bodies = {key.partition("#")[2]: (each.context, each.body) for key, each in documents.items()}

    assert bodies["/servers/quay"] == ((), "quay\n\nHost: quay.example:5671\nProtocol: amqps")
    assert bodies["/channels/arrivals"] == (
        (),
        "arrivals\n\nShips that have moored.\n\nAddress: ships.{berth}.arrived\n"
        "Messages: arrived, left\n\nPartitions: 3\nRetention.ms: 60000",
    )
    berth = "berth\n\nWhere.\n\nDefault: south\nOne of: north, south"
    assert bodies["/channels/arrivals/parameters/berth"] == (("arrivals",), berth)
    full = "/channels/arrivals/bindings/kafka/query/properties/full"
    assert bodies[full] == (("arrivals", "query"), "full\n\nType: boolean\nDefault: false")
    # A message that only this channel has is described in it.
    assert bodies["/channels/arrivals/messages/left/payload/properties/tide"][0] == (
        "arrivals",
        "left",
    )
    assert bodies["/operations/announce"] == (
        (),
        "announce\n\nTells once an hour.\n\nAction: send\nChannel: arrivals\n"
        "Messages: arrived\nReply channel: departures",
    )
    arrived = "/components/messages/arrived"
    assert bodies[arrived] == ((), "arrived\n\nContent type: application/json")
    assert bodies[f"{arrived}/headers/properties/trace"][0] == ("arrived",)
    draught = f"{arrived}/payload/schema/properties/draught"
    assert bodies[draught] == (("arrived",), "draught\n\nType: number\nMaximum: 12")
    assert manual.anchor_line("harbour-asyncapi.yml", HARBOUR, draught) == 35


def test_operations_of_asyncapi_2_belong_to_channels(tmp_path: Path) -> None:
    message = {"name": "measured", "payload": {"properties": {"lumen": {"type": "integer"}}}}
    subscribe = {"operationId": "onMeasured", "summary": "Light.", "message": message}
    sent = {"message": {"oneOf": [{"$ref": "#/components/messages/on"}, {"$ref": "#/x/off"}]}}
    channels = {"light/{id}": {"subscribe": subscribe, "publish": sent}}
    write_tree(tmp_path, {"asyncapi.json": json.dumps({"asyncapi": "2.6.0", "channels": channels})})

    entries = {each.title: (each.context, each.body) for each in by_id(tmp_path).values()}
    channel = "light/{id}"
    assert entries["onMeasured"] == ((channel,), "onMeasured\n\nLight.\n\nAction: subscribe")
    lumen = ((channel, "onMeasured", "measured"), "lumen\n\nType: integer")
    assert entries["lumen"] == lumen
    assert entries[f"publish {channel}"][1] == (
        f"publish {channel}\n\nAction: publish\nMessages: on, off"
    )


def test_json_schema_has_properties_and_definitions(tmp_path: Path) -> None:
    document = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Settings of the loom",
        "properties": {
            "weave": {"enum": ["plain", "twill"], "default": False},
            "threads": {"type": "array", "items": {"properties": {"colour": {"type": "string"}}}},
        },
        "$defs": {"Base": {"allOf": [{"properties": {"depth": {"minimum": 0}}}]}},
    }
    write_tree(tmp_path, {"settings.schema.json": json.dumps(document)})

    documents = by_id(tmp_path)
    bodies = {each.title: (each.context, each.body) for each in documents.values()}
    assert bodies["weave"] == ((), "weave\n\nDefault: false\nOne of: plain, twill")
    assert bodies["colour"] == (("threads",), "colour\n\nType: string")
    assert bodies["depth"] == (("Base",), "depth\n\nMinimum: 0")
    titles = {each.fields["page_title"] for each in documents.values()}
    assert titles == {"Settings of the loom"}


def test_other_json_is_no_page_and_a_file_that_is_named_alone_says_why(tmp_path: Path) -> None:
    write_tree(tmp_path, {"package.json": "{}", "index.html": "<h1>Loom</h1><p>Weaves.</p>"})
    documents, skipped = read(tmp_path)
    assert ([each.title for each in documents], skipped) == (["Loom"], [])

    assert only_skipped(tmp_path / "package.json").startswith(
        "neither OpenAPI, AsyncAPI nor JSON Schema"
    )
    write_tree(tmp_path, {"petstore.json": json.dumps(SHOP), "broken.json": '{"openapi": '})
    assert read(tmp_path / "petstore.json")[0][0].title == "Shop"
    assert only_skipped(tmp_path / "broken.json") == (
        "not valid JSON: Expecting value: line 1 column 13 (char 12)"
    )


@pytest.mark.parametrize("text", ["[" * 100_000, "[]", '{"openapi": 1e', "null"])
def test_what_is_no_such_document_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        schemas.html(text)


def test_hostile_documents_stay_small(monkeypatch: pytest.MonkeyPatch) -> None:
    # References that lead to each other, keys of any length, and properties of any depth and number.
    circle = {"$ref": "#/definitions/a"}
    deep: dict[str, object] = {}
    for _ in range(100):
        deep = {"properties": {"p" * 190: deep}}
    definitions = {"a": circle, "deep": deep, "k" * 100_000: {"properties": {"x": {}}}}
    document = {"swagger": "2.0", "definitions": definitions, "paths": {"/a": {"get": 1}, "/b": 2}}
    assert len(schemas.html(json.dumps(document))) < 20_000

    many = {f"p{number}": {} for number in range(100)}
    monkeypatch.setattr(declarations, "MAX_ENTRIES", 10)
    large = {"openapi": "3.0.0", "definitions": {"many": {"properties": many}}}
    with pytest.raises(InvalidInput, match="more than 10 entries"):
        schemas.html(json.dumps(large))


def test_what_many_references_lead_to_is_not_read_as_often() -> None:
    """Each of these took minutes or gigabytes when what it leads to was copied for each property."""
    properties = {f"p{number}": {"$ref": "#/$defs/a"} for number in range(1_000)}
    long_values: list[dict[str, object]] = [
        {"default": list(range(100_000))},
        {"required": list(range(100_000)), **dict.fromkeys(map(str, range(100_000)), 0)},
        {"$ref": "#/" + "a/" * 100_000},
    ]
    for node in long_values:
        document = {"openapi": "3.1.0", "properties": properties, "$defs": {"a": node}}
        started = time.process_time()
        schemas.html(json.dumps(document))
        assert time.process_time() - started < 10

    described = {"a": {"description": "long " * 10_000}}
    document = {"openapi": "3.1.0", "properties": properties, "$defs": described}
    with pytest.raises(InvalidInput, match=r"longer than 33,554,432 characters, .*; split it"):
        schemas.html(json.dumps(document))


def test_a_required_list_of_any_length_is_looked_up_in_no_time() -> None:
    names = [f"p{number}" for number in range(2_000)]
    schema = {"required": [*range(200_000), {}, *names], "properties": {name: {} for name in names}}
    started = time.process_time()
    page = schemas.html(json.dumps({"swagger": "2.0", "definitions": {"A": schema}}))
    assert time.process_time() - started < 10
    assert page.count("Required: true") == 2_000


def test_names_that_are_missing_or_null_make_no_entries() -> None:
    endpoint = {
        "operationId": None,
        "parameters": [{"$ref": "common.json#/Limit"}, {"in": "query"}],
    }
    document = {"openapi": "3.1.0", "info": {"title": None}, "paths": {"/a": {"get": endpoint}}}
    page = schemas.html(json.dumps(document))
    assert page.count("<dt") == 1
    assert "None" not in page


@pytest.mark.parametrize("escape", ["\\ud800", "\\u0000"])
def test_escapes_that_are_no_characters_are_marked(tmp_path: Path, escape: str) -> None:
    text = '{"swagger": "2.0", "definitions": {"KEY": {"pattern": "[^KEY]"}}}'
    write_tree(tmp_path, {"openapi.json": text.replace("KEY", escape)})
    [document] = read(tmp_path)[0]
    assert document.body == "\ufffd\n\nPattern: [^\ufffd]"


def test_values_of_the_wrong_type_are_passed_over() -> None:
    strange = {
        "openapi": 3,
        "info": [],
        "paths": {
            "/a": {"parameters": {}, "get": {"parameters": [1, {"name": 5}], "responses": []}}
        },
        "components": {
            "schemas": {"A": {"required": True, "enum": 5, "properties": [], "allOf": {}}}
        },
    }
    html = schemas.html(json.dumps(strange))
    assert "GET /a" in html
    assert ">5<" in html
    assert "One of" not in html
    assert "None" not in html


def test_a_change_of_the_file_changes_its_digest(tmp_path: Path) -> None:
    write_tree(tmp_path, {"openapi.json": json.dumps(SHOP)})
    [before] = manual.files(tmp_path)
    write_tree(tmp_path, {"openapi.json": json.dumps({**SHOP, "info": {"title": "Store"}})})
    [after] = manual.files(tmp_path)
    assert before.digest != after.digest  # type: ignore[union-attr]


PUMP = """\
openapi: 3.0.3
info: {title: Pumps}
paths:
  /pumps/{id}:
    get: &get
      operationId: readPump
      parameters:
        - {name: since, schema: {type: string, default: 2020-01-01}}
        - name: mode
          schema: {type: string, enum: [on, off, no], default: off}
      responses:
        200: {description: A pump.}
    head:
      <<: *get
      operationId: peekPump
"""


def test_yaml_is_read_as_the_json_that_it_stands_for(tmp_path: Path) -> None:
    write_tree(tmp_path, {"yaml/openapi.yml": PUMP, "yaml/compose.yaml": "services: {}"})
    entries = by_id(tmp_path / "yaml")
    get = "openapi.yml#/paths/~1pumps~1%7Bid%7D/get"
    assert entries[get].title == "GET /pumps/{id}, readPump"
    assert entries[f"{get}/parameters/0"].body == "since\n\nType: string\nDefault: 2020-01-01"
    assert (
        entries[f"{get}/parameters/1"].body
        == "mode\n\nType: string\nDefault: off\nOne of: on, off, no"
    )
    assert entries[f"{get}/responses/200"].body == "200\n\nA pump."
    head = get.replace("/get", "/head")
    assert entries[head].title == "HEAD /pumps/{id}, peekPump"
    assert f"{head}/parameters/1" in entries

    assert schemas.html_of_yaml(json.dumps(SHOP)) == schemas.html(json.dumps(SHOP))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: b: c", "not valid YAML: mapping values are not allowed in this context (line 1)"),
        ("a: 1\n---\nb: 2", "neither OpenAPI, AsyncAPI nor JSON Schema"),
        ("name: Pumps", "neither OpenAPI, AsyncAPI nor JSON Schema"),
        ("- 5", "neither OpenAPI, AsyncAPI nor JSON Schema"),
    ],
)
def test_yaml_that_is_no_openapi_is_left_out_with_a_reason(
    tmp_path: Path, text: str, reason: str
) -> None:
    write_tree(tmp_path, {"openapi.yaml": text})
    assert only_skipped(tmp_path).startswith(reason)


def test_yaml_whose_aliases_nest_too_deeply_is_left_out(tmp_path: Path) -> None:
    """Each alias may lead a hundred levels down, to the next one."""
    nested = "[" * 97 + "{}" + "]" * 97
    anchors = [f"a0: &a0 {nested.format('x')}"]
    anchors += [f"a{n}: &a{n} {nested.format(f'*a{n - 1}')}" for n in range(1, 30)]
    schema = "components: {schemas: {A: {default: *a29}}}"
    write_tree(tmp_path, {"openapi.yaml": "\n".join(["openapi: 3.1.0", *anchors, schema])})
    assert only_skipped(tmp_path) == "nested too deeply; flatten it"


def values() -> st.SearchStrategy[object]:
    """Objects and lists of what JSON has, with names and texts that markup and pointers escape."""
    name = st.text('ab /~%"\\:#-\u00e4\U0001f600', max_size=4)
    leaf = st.none() | st.booleans() | st.integers() | name
    return st.recursive(
        leaf, lambda each: st.lists(each, max_size=4) | st.dictionaries(name, each, max_size=4)
    )


def pointers(value: object, at: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the keys that lead to each member of a value."""
    members: Iterable[tuple[object, object]] = ()
    if isinstance(value, dict):
        members = value.items()
    elif isinstance(value, list):
        members = enumerate(value)
    for name, member in members:
        yield (*at, str(name))
        yield from pointers(member, (*at, str(name)))


def as_text(value: object) -> object:
    """Return a value as YAML's reader makes it: numbers stay as they are written."""
    if isinstance(value, dict):
        return {name: as_text(member) for name, member in value.items()}
    if isinstance(value, list):
        return list(map(as_text, value))
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


@given(values(), st.sampled_from([None, 1]))
def test_values_and_lines_of_json_are_those_of_the_same_text_as_yaml(
    value: object, indent: int | None
) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    assert yaml_values.value(text) == as_text(value)

    lines = text.split("\n")
    earlier = 1
    for keys in pointers(value):
        line = json_lines.line(text, keys)
        assert line is not None
        assert line == yaml_values.line(text, keys)
        assert json_lines.line(text, (*keys, "none")) is None
        assert yaml_values.line(text, (*keys, "none")) is None

        # Written with an indent, each member begins a line.
        assert line == 1 if indent is None else line > earlier
        assert keys[-1].isdecimal() or json.dumps(keys[-1], ensure_ascii=False) in lines[line - 1]
        earlier = line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('{"a": [1,\n{"b": 2}], "c"', 2),  # what stands behind is not read
        ('{"a": [1 2, {"b": 2}]}', None),
        ('{"a": ' + "[" * 100_000, None),
        ('{"a" [1, {"b": 2}]}', None),
        ('{1: 2, "a": [1, {"b": 2}]}', 1),
        ("", None),
    ],
)
def test_lines_of_broken_json_end_at_the_error(text: str, line: int | None) -> None:
    assert json_lines.line(text, ("a", "1", "b")) == line


def test_enumerations_tell_how_many_values_are_left_out() -> None:
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    enum = [f"v{number}" for number in range(declarations.MAX_VALUES + 3)]
    html = schemas.html(json.dumps({**schema, "properties": {"a": {"enum": enum}}}))
    assert "v99 and 3 more<" in html
    html = schemas.html(json.dumps({**schema, "properties": {"a": {"enum": enum[:-3]}}}))
    assert "v99<" in html


def test_descriptions_are_commonmark(tmp_path: Path) -> None:
    described = "# Modes\n\nOf a `List<String>`:\n\n- `wide` opens\n- **shut** closes <b>"
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    properties = {"mode": {"description": described}, "size": {"description": "1 < 2 & 3"}}
    write_tree(tmp_path, {"a.schema.json": json.dumps({**schema, "properties": properties})})
    entries = by_id(tmp_path)
    assert entries["a.schema.json#/properties/mode"].body == (
        "mode\n\nModes\n\nOf a List<String>:\n\n- wide opens\n- shut closes <b>"
    )
    assert entries["a.schema.json#/properties/size"].body == "size\n\n1 < 2 & 3"


def test_parts_have_the_line_of_their_key() -> None:
    get = "/paths/~1pumps~1%7Bid%7D/get"
    for pointer, line in (("/paths", 3), (f"{get}/parameters/1", 9), (f"{get}/responses/200", 12)):
        assert manual.anchor_line("openapi.yml", PUMP, pointer) == line
    assert (
        manual.anchor_line("openapi.yml", PUMP, "/paths/~1pumps~1%7Bid%7D/head/parameters/1")
        is None
    )

    text = json.dumps(SHOP, indent=2)
    limit = "/paths/~1items/get/parameters/0"
    line = manual.anchor_line("openapi.json", text, limit)
    assert line
    assert '"name": "limit"' in text.splitlines()[line]
