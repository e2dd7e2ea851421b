"""YAML becomes the values that JSON would have, whatever it holds."""

from __future__ import annotations

import time

import pytest

from purlin.index.errors import InvalidInput
from purlin.index.sources.references.yaml_values import MAX_DEPTH, MAX_VALUES, line, value


def test_words_are_those_of_json_and_all_else_is_text() -> None:
    text = """
        plain: [true, False, null, ~, "true", 'null', no, on, 0755, 1:30, 1e3, 2020-01-01]
        200: {y: !!python/object/apply:os.getcwd [], z: !secret x}
        block: |
          - one
            two
        empty:
    """
    numbers = ["0755", "1:30", "1e3", "2020-01-01"]
    assert value(text) == {
        "plain": [True, False, None, None, "true", "null", "no", "on", *numbers],
        "200": {"y": [], "z": "x"},
        "block": "- one\n  two\n",
        "empty": None,
    }
    assert value("") is None
    assert value("first: 1\n---\nsecond: 2") == {"first": "1"}


def test_aliases_and_merged_keys_stand_for_what_has_their_anchor() -> None:
    text = """
        a: &a {x: 1, y: 2}
        b: &b {y: 3, z: 4}
        both: {<<: [*a, *b], x: 5}
        one: {<<: *b}
        list: [*a, &c text, *c]
    """
    read = value(text)
    assert read["both"] == {"x": "5", "y": "2", "z": "4"}
    assert read["one"] == {"y": "3", "z": "4"}
    assert read["list"] == [{"x": "1", "y": "2"}, "text", "text"]


@pytest.mark.parametrize(
    "mark", ["[*a{0},*a{0},*a{0},*a{0}]", "{{<<: [*a{0},*a{0}], k{0}: *a{0}}}"]
)
def test_aliases_count_as_what_they_stand_for(mark: str) -> None:
    lines = [f"a{number + 1}: &a{number + 1} {mark.format(number)}" for number in range(40)]
    with pytest.raises(InvalidInput, match="more than 500,000 values"):
        value("a0: &a0 {x: 1}\n" + "\n".join(lines))


def test_sizes_up_to_the_limits_are_read() -> None:
    assert len(value("- a\n" * (MAX_VALUES - 1))) == MAX_VALUES - 1
    with pytest.raises(InvalidInput, match="split it"):
        value("- a\n" * MAX_VALUES)

    value("[" * (MAX_DEPTH - 1) + "x" + "]" * (MAX_DEPTH - 1))
    with pytest.raises(InvalidInput, match="more than 100 levels deep; flatten it"):
        value("[" * MAX_DEPTH + "x" + "]" * MAX_DEPTH)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: &a [*a]", r"an alias of no value, \*a \(line 1\)"),
        ("a: 1\nb: *b", r"an alias of no value, \*b \(line 2\)"),
        ("a: 1\n[b]: 2", r"a key that is no text \(line 2\); quote it"),
        ("%TAG !e! tag:e,2000:\n---\na: 1", "a %TAG directive"),
        ("a: [", "not valid YAML: did not find expected node content"),
        ("\x01", "not valid YAML: unacceptable character #x0001"),
    ],
)
def test_what_is_not_read_has_a_reason(text: str, reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        value(text)


@pytest.mark.parametrize("text", ["[", "- ", "? ", "{", "[\n", "%TAG !a! tag:a\n", "&a ", "? a\n"])
def test_the_time_for_hostile_text_is_bounded(text: str) -> None:
    started = time.process_time()
    with pytest.raises(InvalidInput):
        value(text * (1_000_000 // len(text)) + "]")
    with pytest.raises(InvalidInput):
        line("first: " + text * (1_000_000 // len(text)) + "]", ["last"])
    assert time.process_time() - started < 10


def test_the_time_for_many_merged_values_is_bounded() -> None:
    text = "a: 1\n<<:\n" + "".join(f"- {{k{number}: {number}}}\n" for number in range(100_000))
    started = time.process_time()
    read = value(text)
    assert time.process_time() - started < 30
    assert (len(read), read["a"], read["k99999"]) == (100_001, "1", "99999")


def test_lines_are_those_of_keys_and_items_as_they_are_written() -> None:
    text = """? [a, b]
: x
a: &a
  - one
  - {<<: *m, k: {l: 2}}
b: *a
---
c: 3
"""
    lines = {"a": 3, "a 0": 4, "a 1 k l": 5, "a 2": None, "b": 6, "b 0": None, "c": None}
    assert {keys: line(text, keys.split()) for keys in lines} == lines
    assert line(text, []) is None
    assert line("", ["a"]) is None
    with pytest.raises(InvalidInput, match="more than 100 levels deep"):
        line("a: " + "[" * (MAX_DEPTH + 1) + "\nb: 1", ["b"])
