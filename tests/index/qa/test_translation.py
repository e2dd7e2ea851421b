from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purlin.index.encoder import STATIC_ENCODER, TextEncoder, load_encoder
from purlin.index.qa.answer_types import expected_type
from purlin.index.qa.question import parse_question
from purlin.index.qa.translation import foreign_question, is_english
from tests.support.hash_encoder import HashEncoder
from tests.support.paths import ROOT


@pytest.fixture(scope="module")
def encoder() -> TextEncoder:
    return load_encoder(STATIC_ENCODER)


def in_english(encoder: TextEncoder, question: str) -> str:
    foreign = foreign_question(encoder, question)
    assert foreign is not None, question
    return foreign.in_english


def test_no_english_question_is_read_as_another_language(encoder: TextEncoder) -> None:
    read = []
    for path in ROOT.glob("questions/*.jsonl"):
        for record in map(json.loads, path.read_text().splitlines()):
            if foreign_question(encoder, record["question"]) is not None:
                read.append(record["question"])
    assert read == []


# The first is each language's "what is the default value of step in range?", the second "what does
# str.split return?", the third "which exception is raised if the file does not exist?"
QUESTIONS = {
    "de": (
        "Was ist der Standardwert von step bei range?",
        "Was gibt str.split zurück?",
        "Welche Ausnahme wird ausgelöst, wenn die Datei nicht existiert?",
    ),
    "fr": (
        "Quelle est la valeur par défaut de step pour range ?",
        "Que renvoie str.split ?",
        "Quelle exception est levée si le fichier n'existe pas ?",
    ),
    "es": (
        "¿Cuál es el valor predeterminado de step en range?",
        "¿Qué devuelve str.split?",
        "¿Qué excepción se lanza si el archivo no existe?",
    ),
    "it": (
        "Qual è il valore predefinito di step in range?",
        "Che cosa restituisce str.split?",
        "Quale eccezione viene sollevata se il file non esiste?",
    ),
    "pt": (
        "Qual é o valor padrão de step em range?",
        "O que retorna str.split?",
        "Qual exceção é lançada se o arquivo não existe?",
    ),
    "nl": (
        "Wat is de standaardwaarde van step bij range?",
        "Wat geeft str.split terug?",
        "Welke uitzondering treedt op als het bestand niet bestaat?",
    ),
    "pl": (
        "Jaka jest domyślna wartość step w range?",
        "Co zwraca str.split?",
        "Jaki wyjątek jest zgłaszany, jeśli plik nie istnieje?",
    ),
    "cs": (
        "Jaká je výchozí hodnota step u range?",
        "Co vrací str.split?",
        "Jaká výjimka nastane, když soubor neexistuje?",
    ),
    "sv": (
        "Vad är standardvärdet för step i range?",
        "Vad returnerar str.split?",
        "Vilket undantag kastas om filen inte finns?",
    ),
    "da": (
        "Hvad er standardværdien for step i range?",
        "Hvad returnerer str.split?",
        "Hvilken undtagelse kastes, hvis filen ikke findes?",
    ),
    "nb": (
        "Hva er standardverdien for step i range?",
        "Hva returnerer str.split?",
        "Hvilket unntak kastes hvis filen ikke finnes?",
    ),
    "fi": (
        "Mikä on step-parametrin oletusarvo range-funktiossa?",
        "Mitä str.split palauttaa?",
        "Mikä poikkeus heitetään, jos tiedostoa ei ole?",
    ),
    "ru": (
        "Какое значение step у range по умолчанию?",
        "Что возвращает str.split?",
        "Какое исключение возникает, если файл не существует?",
    ),
    "uk": (
        "Яке значення step у range за замовчуванням?",
        "Що повертає str.split?",
        "Який виняток виникає, якщо файл не існує?",
    ),
    "ja": (
        "range の step のデフォルト値は何ですか？",
        "str.split は何を返しますか？",
        "ファイルが存在しないときに送出される例外は何ですか？",
    ),
    "zh": (
        "range 的 step 默认值是什么？",
        "str.split 返回什么？",
        "文件不存在时会引发什么异常？",
    ),
    "ko": (
        "range 의 step 기본값은 무엇인가요?",
        "str.split 은 무엇을 반환하나요?",
        "파일이 없으면 어떤 예외가 발생하나요?",
    ),
}


@pytest.mark.parametrize("language", QUESTIONS)
def test_what_a_question_asks_for_is_read_in_each_language(
    encoder: TextEncoder, language: str
) -> None:
    default, result, exception = (in_english(encoder, each) for each in QUESTIONS[language])
    assert expected_type(default).name == "value"
    assert parse_question(default).asks_for_default
    assert {"step", "range"} <= parse_question(default).words
    assert expected_type(result).name == "result"
    assert expected_type(exception).name == "exception"


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("Was passiert, wenn die Datei fehlt?", "condition"),
        ("À quoi sert functools.wraps ?", "purpose"),
        ("なぜ tuple は変更できないのですか？", "reason"),
        ("¿Cómo puedo leer un archivo?", "advice"),
        ("Можно ли использовать open без mode?", "fact"),
        ("Was gibt dict.get zurück?", ""),
    ],
)
def test_a_statement_is_asked_for_in_other_languages(
    encoder: TextEncoder, question: str, kind: str
) -> None:
    assert parse_question(in_english(encoder, question)).statement == kind


@pytest.mark.parametrize(
    "name", ["os.path.join", "json.dumps()", "follow_symlinks", "--quiet", "OrderedDict", "@wraps"]
)
def test_names_stay_as_they_are(encoder: TextEncoder, name: str) -> None:
    assert name in in_english(encoder, f"Wofür verwendet man {name} in diesem Modul?").split()
    assert name in in_english(encoder, f"{name} は何に使うのですか？").split()


def test_words_as_written_stay_beside_what_is_asked_for(encoder: TextEncoder) -> None:
    foreign = foreign_question(encoder, "Was gibt isatty bei einem Terminal zurück?")
    assert foreign is not None
    assert foreign.as_written == "what does isatty bei einem Terminal return"


def test_an_encoder_of_english_reads_every_question_as_english() -> None:
    assert foreign_question(HashEncoder(), "Was gibt dict.get zurück?") is None


def test_texts_that_name_other_scripts_are_english(encoder: TextEncoder) -> None:
    assert is_english(encoder, "How do I print a URL with 測試 in its host?")
    assert is_english(encoder, 'pkgutil.get_loader("nosuchmodule")')
    assert not is_english(encoder, "datetime の timestamp() は int か float か")


@given(question=st.text(max_size=300))
def test_any_text_is_read(encoder: TextEncoder, question: str) -> None:
    foreign = foreign_question(encoder, question)
    assert foreign is None or foreign.in_english
