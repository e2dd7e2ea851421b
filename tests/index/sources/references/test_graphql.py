"""Schemas of GraphQL become entries of types, fields, values and arguments."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given

from purlin.index.sources.references import graphql, manual
from tests.support.files import write_tree
from tests.support.references import by_id, only_skipped, read_in_linear_time, tokens_in_any_order

MILL = '''# Of the mill.
schema { query: Query }

"""
What can be read.
  - indented
"""
type Query implements Node & Root @key(fields: "id") {
  "Lists the sacks, \\"full\\" ones first."
  sacks(
    "How many a page has."
    first: Int = 20
    grain: Grain, sort: [Key!] = [{by: AGE}]
  ): [Sack!]! @deprecated(reason: "Use `bags`.")
  loft: Loft @cost(weight: 3)
}

enum Grain {
  RYE
  "Only in summer."
  OATS @deprecated
}
union Store = | Loft | Cellar
scalar Weight
input Filter { grains: [Grain!] = RYE }
extend type Loft { floor: Int! }
directive @cost("In points." weight: Int = 1) repeatable on FIELD_DEFINITION | OBJECT
'''


def test_types_fields_values_and_arguments_are_entries(tmp_path: Path) -> None:
    write_tree(tmp_path, {"mill.graphqls": MILL})
    entries = {key.partition("#")[2]: each for key, each in by_id(tmp_path).items()}
    bodies = {anchor: each.body for anchor, each in entries.items()}

    assert bodies["Query"] == (
        'type Query implements Node & Root @key(fields: "id")\n\nWhat can be read.\n\n- indented\n\n'
        '@key(fields: "id")'
    )
    assert bodies["Query.sacks"] == (
        "sacks(first: Int = 20, grain: Grain, sort: [Key!] = [{by: AGE}]): [Sack!]!\n\n"
        'Lists the sacks, "full" ones first.\n\nReturns: [Sack!]!\nDeprecated: Use `bags`.'
    )
    first = entries["Query.sacks.first"]
    assert (first.title, first.context) == ("Query.sacks.first", ("Query", "Query.sacks"))
    assert first.body == "first: Int = 20\n\nHow many a page has.\n\nType: Int\nDefault: 20"
    # What has the type of an enumeration may have its values.
    assert bodies["Query.sacks.grain"] == "grain: Grain\n\nType: Grain\nOne of: RYE, OATS"
    assert bodies["Query.loft"] == "loft: Loft\n\nType: Loft\n@cost(weight: 3)"

    assert bodies["Grain"] == "enum Grain\n\nOne of: RYE, OATS"
    assert bodies["Grain.OATS"] == "OATS\n\nOnly in summer.\n\nDeprecated: true"
    assert bodies["Store"] == "union Store = | Loft | Cellar\n\nOne of: Loft, Cellar"
    assert bodies["Weight"] == "scalar Weight"
    assert bodies["Filter.grains"] == (
        "grains: [Grain!] = RYE\n\nType: [Grain!]\nDefault: RYE\nOne of: RYE, OATS"
    )
    assert entries["Loft.floor"].context == ("Loft",)
    assert bodies["@cost.weight"] == "weight: Int = 1\n\nIn points.\n\nType: Int\nDefault: 1"
    directives = {anchor: each.fields["directive"] for anchor, each in entries.items()}
    assert directives["Query.sacks"] == directives["@cost"] == "function"
    assert directives["Grain.RYE"] == "data"


def test_anchors_have_lines() -> None:
    for anchor, line in (("Query.sacks.first", 12), ("Grain.OATS", 21), ("Loft.floor", 26)):
        assert manual.anchor_line("mill.gql", MILL, anchor) == line
    assert manual.anchor_line("mill.gql", MILL, "Query.none") is None


def test_queries_are_no_schema(tmp_path: Path) -> None:
    query = "query Sacks($first: Int = 3) { sacks(first: $first) { type } }\nfragment A on B { c }"
    write_tree(tmp_path, {"sacks.graphql": query})
    assert only_skipped(tmp_path) == (
        "no schema of GraphQL: it defines no types; queries and fragments are not read"
    )


@pytest.mark.parametrize(
    "part",
    [
        *('"""', '"""\\"""', "type A {", "type A{a(b:[", "a(" * 9, "@a(", "enum E{A@b(c:", "type "),
        *('"\\', "directive @a(", "[[", "{" * 9, "union A = B | ", "type A implements B & ", "#"),
    ],
)
def test_hostile_schemas_take_linear_time(part: str) -> None:
    text = "type T { a: Int }\n" + part * (400_000 // len(part))
    read_in_linear_time(graphql.html, text)


TOKENS = (
    *("type ", "enum ", "A ", "b", "{", "}", "(", ")"),
    *(":", "=", "@", '"', '"""', "\\", "\n", "[", "|"),
)


@given(tokens_in_any_order(TOKENS))
def test_no_text_breaks_the_reader(text: str) -> None:
    html = graphql.html("type T { own: Int }\n" + text)
    assert 'id="T.own"' in html
    assert graphql.anchor_line(text, "A") is None or "A" in text
