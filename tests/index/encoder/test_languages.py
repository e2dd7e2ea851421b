"""Texts in other languages: which are read so, what their vectors are, and whether they find English."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from purlin.index.encoder import ENSEMBLE_ENCODER, STATIC_ENCODER, load_encoder
from purlin.index.encoder.ensemble import PROJECTION, EnsembleEncoder
from purlin.index.encoder.static import (
    LANGUAGE_TRANSLATIONS,
    LANGUAGE_VOCABULARY,
    LANGUAGE_WEIGHTS,
    TRANSLATIONS,
    VECTORS,
    WEIGHTS,
    StaticEncoder,
    StaticSettings,
)
from purlin.index.encoder.vocabulary import MultilingualVocabulary, SortedWords
from purlin.index.errors import Damaged
from purlin.index.records import Role
from tests.support.paths import ROOT
from tests.support.static_files import (
    WORDS,
    digests_of,
    write_multilingual,
    write_settings,
    write_static,
)

EVIDENCE = {
    "datei": 3.0,
    "die": 1.0,
    "file": -1.0,
    "lesen": 2.0,
    "чита": 3.0,
    "##ть": 0.0,
    "bohr": 0.0,
    "##schrauber": 0.0,
    "文件": 3.0,
    "##名": 0.0,
}


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_multilingual(tmp_path_factory.mktemp("encoders") / "static", EVIDENCE)


@pytest.fixture(scope="module")
def encoder(directory: Path) -> StaticEncoder:
    return StaticEncoder.load(directory)


@pytest.fixture(scope="module")
def english_encoder(tmp_path_factory: pytest.TempPathFactory) -> StaticEncoder:
    return StaticEncoder.load(write_static(tmp_path_factory.mktemp("encoders") / "english"))


@pytest.fixture(scope="module")
def released_static() -> StaticEncoder:
    return StaticEncoder.load(STATIC_ENCODER)


# ---- which language


@pytest.mark.parametrize(
    ("text", "english"),
    [
        ("", True),
        ("the file name", True),
        ("getHTTPResponse", True),
        ("Datei lesen", False),
        # One word of each: the evidence decides.
        ("die the", True),
        ("Datei file", False),
        ("datei file file file file", True),
        # Letters that English has not, whether the word is known or not.
        ("читать", False),
        ("名", False),
        ("Größe", False),
        # Accents are taken off.
        ("café", True),
        # Without a word that tells, fewer pieces do.
        ("bohrschrauber", False),
        ("prefix", True),
        ("qq", True),
    ],
)
def test_words_decide_on_the_language(encoder: StaticEncoder, text: str, english: bool) -> None:
    assert encoder.is_english(text) == english


def test_questions_and_searches_of_this_repository_are_read_as_english(
    released_static: StaticEncoder,
) -> None:
    files = [
        *(ROOT / "questions").glob("*.jsonl"),
        *(ROOT / "questions/repositories").glob("**/*.jsonl"),
    ]
    records = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    # The ids of searches in another language end with it.
    texts = [
        record.get("question") or record["query"]
        for record in records
        if not re.search(r"-[a-z]{2}$", record.get("id", ""))
    ]
    assert len(texts) > 2000
    assert [text for text in texts if not released_static.is_english(text)] == []


# ---- vectors


@pytest.mark.parametrize("role", ["query", "passage"])
def test_words_of_other_languages_have_the_vectors_of_their_translations(
    directory: Path, encoder: StaticEncoder, role: Role
) -> None:
    vectors, weights = np.load(directory / VECTORS), np.load(directory / WEIGHTS)
    # "response" is known of English alone, "lesen" has no translation, "datei" occurs twice.
    amounts = {
        "file": 0.75 * np.sqrt(2) + 1,
        "filename": 0.25 * np.sqrt(2),
        "response": 1,
    }
    expected = np.zeros(8)
    for word, amount in amounts.items():
        row = WORDS.index(word)
        column = ("query", "passage").index(role)
        expected += float(amount * weights[row, column]) * vectors[row].astype(float)

    vector = encoder.encode(["Datei lesen: datei response, 文件"], role=role)[0]
    np.testing.assert_allclose(vector, expected / np.linalg.norm(expected), atol=1e-6)


@given(st.text(max_size=80), st.sampled_from(["query", "passage"]))
def test_english_texts_keep_their_vectors(
    encoder: StaticEncoder, english_encoder: StaticEncoder, text: str, role: Role
) -> None:
    joined = encoder.vocabulary
    assert isinstance(joined, MultilingualVocabulary)
    if joined.is_english(text):
        alone = english_encoder.encode([text], role=role)
        assert np.array_equal(encoder.encode([text], role=role), alone)
    # Any text has rows that exist, whatever its language.
    assert all(0 <= row < len(joined) for row in joined.rows(text))


@pytest.mark.parametrize(
    ("text", "english"),
    [
        ("Datei lesen: filename", "file filename"),
        ("lesen", ""),
        ("the file", ""),
        ("", ""),
    ],
)
def test_words_of_other_languages_in_english(
    encoder: StaticEncoder, text: str, english: str
) -> None:
    assert encoder.in_english(text) == english


def test_the_transformer_of_an_ensemble_reads_other_languages_in_english_words() -> None:
    ensemble = load_encoder(ENSEMBLE_ENCODER)
    assert isinstance(ensemble, EnsembleEncoder)
    transformer, static = ensemble.parts
    matrix = np.load(ENSEMBLE_ENCODER / PROJECTION)
    # The last has no word that is known of any language.
    texts = ["read the file", "die Datei lesen", "", "прочитать файл", "ᚠᚢᚦᚨᚱᚲ"]
    translated = [static.in_english(text) or text for text in texts]
    assert translated == [texts[0], "the file read", "", "read file", texts[-1]]
    progress: list[int] = []
    vectors = ensemble.encode(texts, role="query", progress=progress.append)

    parts = [transformer.encode(translated, role="query"), static.encode(texts, role="query")]
    expected = np.hstack(parts) @ matrix
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(vectors, expected, atol=1e-6)
    assert sum(progress) == len(texts)


@pytest.mark.parametrize(
    "query",
    [
        "Besucher nach zu vielen falschen Passwörtern aussperren",
        "bloquer les visiteurs après trop de mots de passe incorrects",
        "bloquear a los visitantes tras demasiadas contraseñas incorrectas",
        "bloccare i visitatori dopo troppe password sbagliate",
        "bloquear visitantes após muitas senhas erradas",
        "bezoekers blokkeren na te veel foute wachtwoorden",
        "zablokuj odwiedzających po zbyt wielu błędnych hasłach",
        "zablokovat návštěvníky po příliš mnoha chybných heslech",
        "blockera besökare efter för många felaktiga lösenord",
        "bloker besøgende efter for mange forkerte adgangskoder",
        "blokker besøkende etter for mange gale passord",
        "estä kävijät liian monen väärän salasanan jälkeen",
        "блокировать посетителей после слишком многих неверных паролей",
        "блокувати відвідувачів після занадто багатьох неправильних паролів",
        "間違ったパスワードが多すぎる訪問者を締め出す",
        "密码错误次数过多后锁定访问者",
        "잘못된 암호를 너무 많이 입력한 방문자를 차단",
    ],
)
def test_each_language_finds_english(released_static: StaticEncoder, query: str) -> None:
    passages = [
        "ban clients whose login failed too often: wrong password",
        "draw the chart with rounded corners and a legend",
        "read the configuration file and merge it with the defaults",
        "compress the backup and upload it to the remote server",
        "sort the list of products by their price",
    ]
    vector = released_static.encode([query], role="query")[0]
    scores = released_static.encode(passages, role="passage") @ vector
    assert scores.argmax() == 0


@given(
    st.sets(st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]))), st.text()
)
def test_sorted_words_are_looked_up_in_their_file(words: set[str], missing: str) -> None:
    in_order = sorted({*words, "word"})
    vocabulary = SortedWords("\n".join(in_order).encode())
    assert list(vocabulary) == in_order
    assert vocabulary[1:] == in_order[1:]
    assert [vocabulary.row(word) for word in in_order] == list(range(len(in_order)))
    assert vocabulary.row(missing) == (in_order.index(missing) if missing in in_order else None)
    assert vocabulary.row("\ud800") is None


# ---- files


@pytest.mark.parametrize("name", [LANGUAGE_TRANSLATIONS, LANGUAGE_WEIGHTS, LANGUAGE_VOCABULARY])
def test_all_files_of_other_languages_or_none_are_there(tmp_path: Path, name: str) -> None:
    directory = write_multilingual(tmp_path / "static", EVIDENCE)
    files = json.loads((directory / "encoder.json").read_text())["files"]
    del files[name]
    write_settings(directory, StaticSettings("static", "tiny-static", 8, 100, files))
    with pytest.raises(Damaged, match=r"encoder\.json"):
        StaticEncoder.load(directory)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        (LANGUAGE_TRANSLATIONS, np.zeros((3, TRANSLATIONS), np.uint16)),
        (LANGUAGE_TRANSLATIONS, np.zeros((len(EVIDENCE), TRANSLATIONS), np.int16)),
        # These English words do not exist.
        (LANGUAGE_TRANSLATIONS, np.full((len(EVIDENCE), TRANSLATIONS), len(WORDS), np.uint16)),
        (LANGUAGE_WEIGHTS, np.zeros((len(EVIDENCE), TRANSLATIONS), np.float16)),
        (LANGUAGE_WEIGHTS, np.zeros((len(EVIDENCE), 1 + TRANSLATIONS), np.float32)),
        (LANGUAGE_WEIGHTS, np.full((len(EVIDENCE), 1 + TRANSLATIONS), np.nan, np.float16)),
        (LANGUAGE_WEIGHTS, np.full((len(EVIDENCE), 1 + TRANSLATIONS), -1, np.float16)),
    ],
)
def test_files_of_another_shape_are_refused(tmp_path: Path, name: str, content: np.ndarray) -> None:
    directory = write_multilingual(tmp_path / "static", EVIDENCE)
    np.save(directory / name, content)
    files = json.loads((directory / "encoder.json").read_text())["files"]
    settings = StaticSettings("static", "tiny-static", 8, 100, files | digests_of(directory, name))
    write_settings(directory, settings)
    with pytest.raises(Damaged, match=name):
        StaticEncoder.load(directory)


def test_other_languages_change_the_fingerprint(tmp_path: Path, encoder: StaticEncoder) -> None:
    assert StaticEncoder.load(write_static(tmp_path / "a")).fingerprint != encoder.fingerprint
