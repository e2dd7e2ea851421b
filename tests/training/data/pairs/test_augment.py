"""The forms of a pair's texts that training draws."""

from __future__ import annotations

import ast
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purlin.index.errors import InvalidInput
from purlin.training.data.pairs.augment import Forms, draw, search_box_query, with_comment
from purlin.training.data.pairs.pair import Pair

PYTHON = Pair(
    ("Return the depth in metres.", "Return the depth in metres.\n\nTides count."),
    "def depth(at: dict[str, int],\n          low=(1, 2)) -> float:  # metres\n    return at['x'] - low[0]",
    language="python",
    comment="Return the depth in metres.\n\nTides count.",
)
GO = Pair(
    ("Depth is that of the sea.",),
    "func Depth() int {\n}",
    language="go",
    comment="Depth is that of the sea. Or so.",
)


def test_python_docstring_follows_the_head() -> None:
    whole = with_comment(PYTHON, whole=True)
    assert (
        ast.get_docstring(ast.parse(whole).body[0]) == "Return the depth in metres.\n\nTides count."
    )  # type: ignore[arg-type]
    assert whole.startswith(
        'def depth(at: dict[str, int],\n          low=(1, 2)) -> float:  # metres\n    """Return'
    )
    rest = with_comment(PYTHON, whole=False)
    assert '    """Tides count."""\n    return' in rest
    assert "Return the depth" not in rest


def test_other_comments_precede_the_code() -> None:
    assert with_comment(GO, whole=True) == f"Depth is that of the sea.\n{GO.passage}"
    assert with_comment(GO, whole=False) == f"Or so.\n{GO.passage}"


def test_comment_without_rest_adds_nothing() -> None:
    pair = Pair(("Close it.",), "func Close() {\n}", language="go", comment="Close it.")
    assert with_comment(pair, whole=False) == pair.passage


@pytest.mark.parametrize("code", ["def f(x): return x", "x = 1", "def f(x):\n"])
def test_code_without_a_body_has_the_comment_before(code: str) -> None:
    pair = Pair(("Say it",), code, language="python", comment="Say it")
    assert with_comment(pair, whole=True) == f"Say it\n{code}"


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0\r")), st.booleans())
def test_python_with_any_comment_parses(comment: str, whole: bool) -> None:
    pair = Pair(
        ("Say it",), "def f(x):\n    return x", language="python", comment=f"Say it. {comment}"
    )
    assert ast.parse(with_comment(pair, whole=whole))


def test_search_box_query_adds_the_language() -> None:
    forms = {
        search_box_query(
            "Returns the `list` of open, unread files.", "javascript", random.Random(seed)
        )
        for seed in range(300)
    }
    words = {"returns", "the", "list", "of", "open", "unread", "files"}
    extra = {word for form in forms for word in form.split()} - words
    assert extra == {"javascript", "js", "in", "how", "to"}
    assert "javascript list open unread files" in forms
    assert all(4 <= len(form.split()) <= 11 for form in forms)


@given(st.text(), st.sampled_from(["", "python", "go"]), st.integers(0, 50))
def test_search_box_query_is_never_empty(query: str, language: str, seed: int) -> None:
    assert search_box_query(query, language, random.Random(seed)).strip() or not query.strip()


def test_product_queries_are_words_of_the_title() -> None:
    title, passage = "Harrow enamel mug", "Harrow enamel mug\nFor camps."
    mug = Pair(("Holds 12 oz of tea",), passage, "product", title=title, comment="Holds")
    drawn = [draw(mug, Forms(typed=1.0), random.Random(seed)) for seed in range(100)]
    assert {passage for _, passage in drawn} == {"Harrow enamel mug\nFor camps.\nHolds"}
    assert {"mug", "Harrow enamel mug", "Harrow mug"} <= {query for query, _ in drawn}
    assert draw(mug, Forms(), random.Random(1)) == ("Holds 12 oz of tea", mug.passage)


def test_draw_keeps_the_shares() -> None:
    rng, forms = random.Random(1), Forms(whole_comment=0.2, rest_of_comment=0.3, typed=0.5)
    drawn = [draw(PYTHON, forms, rng) for _ in range(2000)]
    shares = [
        sum(map(is_so, drawn)) / len(drawn)
        for is_so in (
            lambda pair: "Return the depth" in pair[1],
            lambda pair: "Tides count" in pair[1] and "Return the depth" not in pair[1],
            lambda pair: pair[0] not in PYTHON.queries,
        )
    ]
    assert shares == pytest.approx([0.2, 0.3, 0.5], abs=0.04)


@pytest.mark.parametrize("name", ["whole_comment", "typed"])
def test_invalid_shares_are_named(name: str) -> None:
    with pytest.raises(InvalidInput, match=name):
        Forms(**{name: 1.5})
    with pytest.raises(InvalidInput, match="rest_of_comment"):
        Forms(whole_comment=0.7, rest_of_comment=0.4)
    assert Forms(whole_comment=0.9, rest_of_comment=0.1).rest_of_comment == 0.1


def test_searches_stay_as_they_are_beside_the_whole_comment_or_none() -> None:
    pair = replace(GO, queries=("how deep is the sea", "depth of water"), searches=True)
    forms = Forms(whole_comment=0.1, rest_of_comment=0.4, typed=1.0)
    drawn = [draw(pair, forms, random.Random(seed)) for seed in range(400)]
    assert {query for query, _ in drawn} == set(pair.queries)
    whole = with_comment(pair, whole=True)
    assert {passage for _, passage in drawn} == {pair.passage, whole}
    assert 160 < sum(passage == whole for _, passage in drawn) < 240
