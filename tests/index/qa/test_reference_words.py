"""Defaults and returned values in the words of references in other languages than English."""

from __future__ import annotations

import pytest

from purlin.index.qa.candidates import span_candidates
from purlin.index.qa.question import parse_question
from purlin.index.qa.signatures import PassageStructure


def candidates(question: str, text: str) -> set[str]:
    spans = span_candidates(parse_question(question), text, PassageStructure())
    return {text[slice(*span)] for span in spans}


# The first four sentences are as in Debian's translated manual pages.
@pytest.mark.parametrize(
    ("text", "default"),
    [
        ("Maximale Zeilenbreite (Vorgabe: 75 Spalten)", "75 Spalten"),
        ("mit weniger als ndots Punkten (Standardwert ist 1) werden", "1"),
        ("Indiquer la longueur maximale des lignes (75 caractères par défaut)", "75 caractères"),
        ("デフォルトのサイズは 1000 行です。", "1000 行"),
        ("COLS 文字で改行を行う (デフォルト:76)。", "76"),
        ("既定値は utf-8 である。", "utf-8"),
        ("El valor predeterminado es simple.", "simple"),
        ("Размер по умолчанию — 10 строк.", "10 строк"),
        ("Domyślnie: roundrobin", "roundrobin"),
        ("缺省值是 roundrobin，可以修改。", "roundrobin"),
    ],
)
def test_defaults(text: str, default: str) -> None:
    assert default in candidates("default value of the setting", text)


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("Die Funktion isatty() gibt einen Zeiger zurück.", "einen Zeiger"),
        ("La fonction renvoie un pointeur sur la chaîne dupliquée.", "un pointeur sur la chaîne dupliquée"),
        ("成功すると、 strdup() 関数は複製された文字列へのポインターを返す。", "複製された文字列へのポインター"),
        ("オブジェクトの識別値を返します。", "オブジェクトの識別値"),
        ("Devuelve la longitud del objeto.", "la longitud del objeto"),
        ("Возвращает длину объекта.", "длину объекта"),
        ("Zwraca długość obiektu.", "długość obiektu"),
    ],
)  # fmt: skip
def test_results(text: str, result: str) -> None:
    assert result in candidates("what does it return", text)


def test_an_english_text_has_no_such_candidates() -> None:
    text = "The predefined default of a standard library returns the retort, or 1 by default."
    assert candidates("default value of it", text) == {"1"}
