"""Texts in other languages: which are read so, what their vectors are, and whether they find English."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from purlin.index.encoder import ENSEMBLE_ENCODER, STATIC_ENCODER, load_encoder
from purlin.index.encoder.ensemble import PROJECTION, EnsembleEncoder
from purlin.index.encoder.static import (
    LANGUAGE_VECTORS,
    LANGUAGE_VOCABULARY,
    LANGUAGE_WEIGHTS,
    VECTORS,
    WEIGHTS,
    StaticEncoder,
    StaticSettings,
    pack,
    unpack,
)
from purlin.index.encoder.vocabulary import MultilingualVocabulary, Vocabulary
from purlin.index.errors import Damaged
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
    texts = [record.get("question") or record["query"] for record in records]
    assert len(texts) > 2000
    assert [text for text in texts if not released_static.is_english(text)] == []


# ---- vectors


def test_vectors_are_sums_over_the_words_of_both_vocabularies(
    directory: Path, encoder: StaticEncoder
) -> None:
    vectors, weights = np.load(directory / VECTORS), np.load(directory / WEIGHTS)
    their_vectors = unpack(np.load(directory / LANGUAGE_VECTORS))
    scales = np.load(directory / LANGUAGE_WEIGHTS)[:, 0]
    rows = {word: row for row, word in enumerate(EVIDENCE)}

    # "response" is known of English alone, "file" of both: here it is that of the other language.
    expected = np.zeros(8)
    for word in ("datei", "lesen", "file", "чита", "##ть"):
        expected += float(scales[rows[word]]) * their_vectors[rows[word]].astype(float)
    response = WORDS.index("response")
    expected += float(weights[response, 0]) * vectors[response].astype(float)

    vector = encoder.encode(["Datei lesen: file response, читать"], role="query")[0]
    np.testing.assert_allclose(vector, expected / np.linalg.norm(expected), atol=1e-6)


@given(st.text(max_size=80), st.sampled_from(["query", "passage"]))
def test_english_texts_keep_their_vectors(
    tmp_path_factory: pytest.TempPathFactory, text: str, role: str
) -> None:
    base = tmp_path_factory.getbasetemp() / "english-alone"
    if not base.exists():
        write_static(base)
    alone = StaticEncoder.load(base)
    joined = MultilingualVocabulary(
        Vocabulary(WORDS), Vocabulary(list(EVIDENCE)), list(EVIDENCE.values()), [-1] * len(EVIDENCE)
    )
    if joined.is_english(text):
        assert list(joined.rows(text)) == list(alone.vocabulary.rows(text))
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
    translated = [texts[0], "file read", "", "read file", texts[-1]]
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


# ---- files


@given(st.lists(st.lists(st.integers(-7, 7), min_size=6, max_size=6), min_size=1, max_size=9))
def test_two_components_are_packed_into_a_byte(rows: list[list[int]]) -> None:
    vectors = np.array(rows, dtype=np.int8)
    packed = pack(vectors)
    assert (packed.dtype, packed.shape) == (np.uint8, (len(rows), 3))
    assert packed[0, 0] == (rows[0][0] + 8) + 16 * (rows[0][1] + 8)
    assert np.array_equal(unpack(packed), vectors)


@pytest.mark.parametrize("name", [LANGUAGE_VECTORS, LANGUAGE_WEIGHTS, LANGUAGE_VOCABULARY])
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
        (LANGUAGE_VECTORS, np.zeros((3, 4), np.uint8)),
        (LANGUAGE_VECTORS, np.zeros((len(EVIDENCE), 8), np.int8)),
        (LANGUAGE_WEIGHTS, np.zeros((len(EVIDENCE), 2), np.float32)),
        (LANGUAGE_WEIGHTS, np.zeros((len(EVIDENCE), 3), np.float64)),
        # The nearest English word is none of those that there are.
        (LANGUAGE_WEIGHTS, np.full((len(EVIDENCE), 3), len(WORDS), np.float32)),
        (LANGUAGE_WEIGHTS, np.full((len(EVIDENCE), 3), -2, np.float32)),
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
