from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.qa.features import (
    PASSAGE,
    SPAN,
    Sought,
    evidence,
    passage_clues,
    passage_scores,
    weighed,
)
from index.qa.signatures import Entry, Parameter, entry_of
from index.records import Document, Hit, Location, Passage

OPEN = "shop.open(door, hour=9, quiet=False)"


def found(
    title: str, body: str = "It is so.", *, score: float = 0.5, page: str = "a.html", **fields: str
) -> tuple[Hit, Document]:
    document = Document(title, "reference", title, body, location=Location(page), fields=fields)
    scores = {"dense": score, "lexical": score / 2}
    return Hit(
        title, title, 1, score, scores, title, body, (), document.location, document.fields
    ), document


def clues(question: str, *passages: tuple[Hit, Document]) -> list[dict[str, float]]:
    return [
        dict(zip(PASSAGE, row, strict=True)) for row in passage_clues(question, passages).tolist()
    ]


def test_clues_of_passages() -> None:
    method = found(
        "shop.Basket.add",
        "add(apple)\n\nRaises FullError.",
        directive="method",
        signature="add(apple)",
    )
    section = found(
        "shop — Shops",
        "It sells apples.",
        score=0.4,
        page="b.html",
        directive="section",
        module="shop",
    )
    named, other = clues("which method raises FullError: basket.add", method, section)
    assert (
        named["kind"]
        == named["named"]
        == named["qualified"]
        == named["first"]
        == named["has"]
        == 1.0
    )
    assert (
        other["kind"]
        == other["named"]
        == other["qualified"]
        == other["first"]
        == other["has"]
        == 0.0
    )
    assert (named["dense"], named["lexical"]) == (0.5, 0.25)
    assert named["page"] + other["page"] == pytest.approx(1.0)
    assert named["page"] > other["page"]
    assert [each["module"] for each in clues("which module sells apples", method, section)] == [
        0.0,
        1.0,
    ]
    assert [each["has"] for each in clues("which argument", method, section)] == [1.0, 0.0]


def test_scores_are_the_weighted_sum_and_there_may_be_none() -> None:
    passages = [found("shop.open", score=0.9), found("shop.close", score=0.1)]
    [first, second] = passage_scores("how do I close it", passages)
    sums = [
        sum(PASSAGE[name] * value for name, value in each.items())
        for each in clues("how do I close it", *passages)
    ]
    assert [first, second] == pytest.approx(sums)
    assert passage_scores("anything", []).shape == (0,)


ENTRY = Entry(
    "function",
    "shop",
    len(OPEN),
    ((0, 9),),
    (
        Parameter("door", None, optional=False),
        Parameter("hour", (21, 22), optional=True),
        Parameter("quiet", (30, 35), optional=True, switch=True),
    ),
)
TEXT = (
    f"{OPEN}\n\nOpen the shop at hour, 8 on Mondays. If quiet, nobody is told. "
    "The default is late. Raises shop.Error."
)


@pytest.mark.parametrize(
    ("question", "places"),
    [
        ("which function opens it", {"shop.open": {"typed", "own"}}),
        (
            "which argument keeps it secret",
            {"door": {"typed"}, "hour": {"typed"}, "quiet": {"typed", "switch"}},
        ),
        ("which module is for shops", {"shop": {"module"}}),
        ("what does it raise", {"shop.Error": {"typed"}}),
        ("the hour by default", {"9": {"typed"}, "False": {"typed"}, "8": {"typed"}}),
        ("shop.open() on Mondays", {"9": {"literal"}, "False": {"literal"}, "8": {"literal"}}),
        ("which attribute is it", {}),
    ],
)
def test_places_of_what_is_sought(question: str, places: dict[str, set[str]]) -> None:
    seen: dict[str, set[str]] = {}
    for (start, end), special in Sought(question).places(TEXT, ENTRY).items():
        names = {name for name, value in special.items() if value and name != "optional"}
        seen[TEXT[start:end]] = seen.get(TEXT[start:end], set()) | names
    assert seen == places


def test_clues_of_spans() -> None:
    sought = Sought("what is the default hour of shop.open")
    start = TEXT.index("late")
    told = sought.clues(TEXT, ENTRY, (start, start + 4), None)
    assert (told["default"], told["said"], told["echo"], told["signature"]) == (1.0, 1.0, 0.0, 0.0)
    name = sought.clues(TEXT, ENTRY, (0, 9), None)
    assert (name["default"], name["echo"], name["signature"]) == (0.0, 1.0, 1.0)
    assert sought.clues(TEXT, ENTRY, (21, 22), {})["signature"] == 0.0
    assert weighed(name) == pytest.approx(sum(SPAN[clue] * value for clue, value in name.items()))
    assert weighed({"typed": 1.0, "echo": 1.0}) == pytest.approx(SPAN["typed"] + SPAN["echo"])


@given(st.text(max_size=80), st.text(max_size=120))
def test_places_are_within_the_text_whatever_is_asked(question: str, body: str) -> None:
    signature = body.partition("\n")[0]
    document = Document("d", "reference", "f", body, fields={"signature": signature, "module": "f"})
    for end in (len(body), len(body) // 2):
        entry, sought = entry_of(document, Passage("d", 0, 0, end)), Sought(question)
        for place, special in sought.places(body[:end], entry).items():
            assert 0 <= place[0] < place[1] <= end
            assert sought.clues(body[:end], entry, place, special).keys() <= SPAN.keys()


def test_evidence_is_the_best_scores_and_the_rarest_word_that_is_missing() -> None:
    hit, document = found("shop.open", "Opens doors.", score=0.8)
    other, _ = found("shop.close", score=0.6)
    weights = {"open": 2.0, "door": 3.0, "yacht": 7.0, "sail": 5.0}
    assert evidence([other, hit], document, weights, 0.5) == (0.8, 0.4, 7.0, 0.0)
    assert evidence([hit], document, {"open": 2.0, "door": 3.0}, 0.8)[2:] == (
        0.0,
        pytest.approx(math.log(4.0)),
    )
    assert evidence([], None, {"open": 2.0}, 0.0) == (
        0.0,
        0.0,
        2.0,
        pytest.approx(math.log(1e-4 / 0.9999)),
    )
