"""Regular expressions: what they match is compared with grep, and what they may cost is bounded."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from purlin.index.errors import InvalidInput
from purlin.index.search.store import regexps
from purlin.index.search.store.regexps import compiled

_ATOMS = st.sampled_from(
    ["a", "b", "_", "=", ".", "[ab]", "[^a]", "(a|b_)", "(_b|=)", r"\(", r"\.", r"\w", r"\b"]
)
_REPEATED = st.builds(
    lambda atom, repeat: atom if atom == r"\b" else atom + repeat,
    _ATOMS,
    st.sampled_from(["", "", "*", "+", "?", "{2}", "{1,3}"]),
)
_PATTERNS = st.builds(
    lambda start, atoms, end: start + "".join(atoms) + end,
    st.sampled_from(["", "", "^", r"^ *"]),
    st.lists(_REPEATED, min_size=1, max_size=4),
    st.sampled_from(["", "", "$"]),
)
_LINES = st.lists(st.text("ab_=.( ", max_size=12), min_size=1, max_size=8)


@settings(max_examples=150)
@given(pattern=_PATTERNS, lines=_LINES)
def test_lines_match_as_grep_has_it(tmp_path: Path, pattern: str, lines: list[str]) -> None:
    file = tmp_path / "lines.txt"
    file.write_text("".join(f"{line}\n" for line in lines))
    grep = subprocess.run(
        ["grep", "-nE", "--", pattern, str(file)], capture_output=True, text=True, check=False
    )
    numbers = [int(line.partition(":")[0]) for line in grep.stdout.splitlines()]

    text = "\n".join(lines)
    spans = list(compiled(pattern).spans(text))
    assert [text.count("\n", 0, end) + 1 for _, end in spans] == numbers
    assert [text[start:end] for start, end in spans] == [
        lines[number - 1].lstrip() for number in numbers
    ]


def test_lines_beyond_the_first_piece_are_found() -> None:
    long = "x" * 9000 + "needle"
    text = "first\n" * 3000 + long + "\nlast needle"
    spans = list(compiled("needle$").spans(text))
    # Of a long line, it is the piece.
    assert [text[start:end] for start, end in spans] == [long[8000:], "last needle"]


def test_a_carriage_return_ends_a_line() -> None:
    assert list(compiled("b$").spans("ab\r\nba\r\n")) == [(0, 3)]


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("é(b", "at character 2: unclosed group"),
        (r"a(?=b)", "at character 2: look-around"),
        (r"(a)\1", "at character 4: backreferences are not supported"),
        ("*a", "at character 1: repetition operator missing expression"),
        (r"\pL{400}", "Compiled regex exceeds size limit"),
        ("", "one line of valid Unicode, and not empty"),
        ("a\nb", "one line"),
        ("\ud800", "valid Unicode"),
        ("a" * 501, "has 501 characters; at most 500"),
        (".{0,600}b", "repeats 600 times; at most 500"),
        ("(.?x){600}", "repeats 600 times"),
        ("(.{40}){40}", "repeats 1,640 times"),
        ("(?x)(.{100}#)\n){100}".replace("\n", ""), "repeats"),
    ],
)
def test_what_is_wrong_with_a_pattern_is_said(pattern: str, problem: str) -> None:
    with pytest.raises(InvalidInput, match="regular expression") as refused:
        compiled(pattern)
    assert problem in str(refused.value)


@pytest.mark.parametrize(
    "pattern",
    [
        r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
        r"(\d{1,3}\.){3}\d{1,3}",
        r"foo.{0,100}bar.{0,100}baz",
    ],
)
def test_usual_counts_are_allowed(pattern: str) -> None:
    assert not list(compiled(pattern).spans("nothing of the kind"))


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|aa)+$", "(.*a){20}b$", r"(\w*\s*)*:$"])
def test_patterns_that_backtracking_would_not_end_take_no_time(pattern: str) -> None:
    started = time.process_time()
    assert not list(compiled(pattern).spans("\n".join(["a" * 3000 + "!"] * 30)))
    assert time.process_time() - started < 1.0


def test_a_scan_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regexps, "MAX_SECONDS", 0.0)
    with pytest.raises(InvalidInput, match="takes more than 0 s of a processor in these documents"):
        list(compiled("a").passing(iter(["a"] * 1000)))
