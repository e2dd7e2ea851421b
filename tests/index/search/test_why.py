from __future__ import annotations

from dataclasses import replace

import pytest

from purlin.index.records import Hit, Location
from purlin.index.search.why import why

HIT = Hit(
    id="web/session.py::sign_cookie",
    document_id="web/session.py::sign_cookie",
    rank=1,
    score=0.5,
    scores={"dense": 0.61, "lexical": 0.5},
    title="sign_cookie",
    text="def sign_cookie(secret):\n    return hmac(secret)",
    highlights=(),
    location=Location("web/session.py", 1, 2),
    fields={},
    explanation={"dense_weight": 0.5, "lexical_power": 1.0, "named": False},
)


def test_words_are_told_by_the_first_place_that_has_them() -> None:
    reason = why("where are session cookies signed with the secret", HIT)
    assert (
        reason == "name: cookies, signed; path: session; text: secret; meaning 0.61; mostly meaning"
    )


@pytest.mark.parametrize(
    ("query", "title", "reason"),
    [
        ("was_installed_by_pip", "install", "name: installed; "),
        ("signCookieLater", "sign_cookie", "name: sign, Cookie; "),
        ("sign_cookie", "SignCookie", "name: sign_cookie; "),
        ("cookie-sign", "sign_cookie", "name: cookie-sign; "),
        ("sign_all", "sign", "name: sign; "),
        ("(node:internal/sign/cookie:154:30)", "node.Cookie", "name: node, cookie; "),
    ],
)
def test_of_a_name_only_the_words_are_told_that_match(query: str, title: str, reason: str) -> None:
    hit = replace(HIT, title=title, text="", location=Location(None))
    assert why(query, hit).startswith(reason)


def test_a_word_that_several_names_of_a_query_have_is_told_once() -> None:
    hit = replace(HIT, title="cookie", text="", location=Location(None))
    assert why("client.cookie = server.Cookie.read(cookie)", hit).startswith("name: cookie; ")


def test_stretches_of_a_script_without_spaces_are_told_apart() -> None:
    hit = replace(HIT, text="# クッキーに署名する\ndef f(): ...")
    assert (
        why("クッキーの署名はどこ", hit)
        == "text: クッキー, の署名はどこ; meaning 0.61; mostly meaning"
    )


def test_named_hit_has_no_other_reason() -> None:
    named = replace(HIT, explanation={"named": True})
    assert why("sign_cookie", named) == "it is what you named"


@pytest.mark.parametrize(
    ("scores", "parts", "most"),
    [
        ({"dense": 0.3, "lexical": 0.4}, {}, "words"),
        ({"dense": 0.4, "lexical": 0.3}, {}, "meaning"),
        ({"dense": 0.3, "lexical": 0.4, "log": 0.9}, {}, "earlier queries"),
        ({"dense": 0.3, "lexical": 0.4}, {"text": 0.1, "path": 0.2, "name": 0.1}, "its path"),
        ({"dense": 0.3, "lexical": 0.4}, {"text": 0.1, "name": 0.1, "definition": 0.1}, "its name"),
        ({"dense": 0.3, "lexical": 0.4}, {"text": 0.4, "path": 0.2}, "words"),
        ({"dense": 0.0, "lexical": 0.0}, {"text": 0.0, "file": 0.1}, "its file"),
    ],
)
def test_largest_part_of_the_score_is_told(
    scores: dict[str, float], parts: dict[str, float], most: str
) -> None:
    explanation = {"dense_weight": 0.5, "lexical_power": 1.0, "parts": parts}
    hit = replace(HIT, scores=scores, explanation=explanation)
    assert why("cookie", hit).endswith(f"; meaning {scores['dense']:.2f}; mostly {most}")


def test_meaning_alone_is_told_once() -> None:
    assert why("unrelated", HIT) == "meaning 0.61"


def test_single_retriever_is_not_compared() -> None:
    assert why("unrelated", replace(HIT, scores={"dense": 0.2})) == "meaning 0.20"
    assert why("cookie", replace(HIT, scores={"lexical": 0.2})) == "name: cookie"
