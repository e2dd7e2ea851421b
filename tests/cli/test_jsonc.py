"""Edits of JSON with comments: what else a file has stays as it is."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purlin.cli.jsonc import MAX_DEPTH, NotJson, parse, remove_value, set_value

PATH = ["mcpServers", "purlin"]
ENTRY = {"command": "purlin", "args": ["mcp"]}

SETTINGS = """\
// Settings of an editor.
{
    "theme": "dark", // at night
    /* servers
       of mine */
    "mcpServers": {
        "other": {"command": "o", "args": [1, 2,], /* why */ "env": {}}, // keep
    },
    "font": {"size": 1.5e1}
}
"""


def test_a_member_is_added_and_nothing_else_changes() -> None:
    edited = set_value(SETTINGS, PATH, ENTRY)

    added = """\
        "purlin": {
            "command": "purlin",
            "args": ["mcp"]
        },
"""
    before, after = SETTINGS.split("// keep\n")
    assert edited == f"{before}// keep\n{added}{after}"
    assert set_value(edited, PATH, ENTRY) == edited
    assert remove_value(edited, PATH) == SETTINGS


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", '{\n  "a": {\n    "b": 1\n  }\n}\n'),
        ("// nothing yet", '// nothing yet\n{\n  "a": {\n    "b": 1\n  }\n}\n'),
        ("{}", '{\n  "a": {\n    "b": 1\n  }\n}'),
        ('{"x":1}', '{"x":1, "a": {"b": 1}}'),
        ('{"x":1,}', '{"x":1, "a": {"b": 1}}'),
        ('{\n\t"x": 1 // one\n}', '{\n\t"x": 1, // one\n\t"a": {\n\t\t"b": 1\n\t}\n}'),
        ('{\r\n  "x": 1\r\n}', '{\r\n  "x": 1,\r\n  "a": {\r\n    "b": 1\r\n  }\r\n}'),
        ('{"a": {"b": 2}, "x": 1}', '{"a": {"b": 1}, "x": 1}'),
        ('{\n  "a": {\n    // none\n  }\n}', '{\n  "a": {\n    // none\n    "b": 1\n  }\n}'),
    ],
)
def test_layout_is_followed(text: str, expected: str) -> None:
    assert set_value(text, ["a", "b"], 1) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": 1}', "{}"),
        ('{"a": 1, "b": 2}', '{ "b": 2}'),
        ('{"b": 2, "a": 1}', '{"b": 2}'),
        ('{\n  "b": 2,\n  "a": 1\n}', '{\n  "b": 2\n}'),
        ('{\n  "a": 1,\n  "b": 2\n}', '{\n  "b": 2\n}'),
        ('{"b": 2}', '{"b": 2}'),
        ("", ""),
    ],
)
def test_a_member_is_removed_with_its_comma(text: str, expected: str) -> None:
    assert remove_value(text, ["a"]) == expected


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("{", "line 1"),
        ('{"a": 1', "line 1"),
        ('{\n"a" 1}', "line 2"),
        ('{"a": }', "a value is expected"),
        ('{"a": tru}', "tru is no value"),
        (r'{"a\q": 1}', "is no value"),
        ('{"a": 1} x', "after the end"),
        ('{"a": 1, "a": 2}', "there twice"),
        ("{a: 1}", "double quotes"),
        ("[1 2]", "comma"),
        ("/* never ends {}", "a value is expected"),
        ("[" * (MAX_DEPTH + 2), "nested"),
        ("[]", "an object is expected"),
        ('{"mcpServers": []}', "an object is expected around 'purlin'"),
    ],
)
def test_what_is_no_json_is_refused(text: str, where: str) -> None:
    with pytest.raises(NotJson, match=where):
        set_value(text, PATH, ENTRY)


_NAMES = st.text(st.characters(codec="utf-8"), max_size=4)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_NAMES, inner, max_size=3),
    max_leaves=8,
)


@given(
    st.dictionaries(_NAMES, _VALUES, max_size=3),
    st.lists(_NAMES, min_size=1, max_size=3),
    _VALUES,
    st.sampled_from([None, 2, "\t"]),
)
def test_edits_mean_the_same_as_on_the_values(
    settings: dict[str, Any], path: list[str], value: Any, indent: int | str | None
) -> None:
    text = json.dumps(settings, indent=indent)
    assert parse(text) == settings

    expected = json.loads(text)
    inner = expected
    for name in path[:-1]:
        inner = inner.setdefault(name, {})
        if not isinstance(inner, dict):
            with pytest.raises(NotJson):
                set_value(text, path, value)
            return

    inner[path[-1]] = value
    edited = set_value(text, path, value)
    assert json.loads(edited) == expected

    del inner[path[-1]]
    assert json.loads(remove_value(edited, path)) == expected
