"""Words of other languages for a static encoder: their places, their evidence, and whole runs."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from purlin.cli.commands import app as command_line
from purlin.index.encoder.static import ENGLISH_FILES, LANGUAGE_WEIGHTS, StaticEncoder
from purlin.index.encoder.vocabulary import Vocabulary
from purlin.index.errors import InvalidInput, NotFound
from purlin.training.static.languages import (
    LanguagesRecipe,
    Translation,
    add_languages,
    read_translations,
    tell_languages,
    translate_words,
)
from tests.support.files import write_jsonl
from tests.support.static_files import WORDS, write_static

GERMAN = {"file": "datei", "name": "name", "response": "antwort", "get": "hole", "the": "die"}
FRENCH = {"file": "fichier", "name": "nom", "response": "reponse", "get": "obtenir", "the": "le"}


def rows() -> list[dict[str, str]]:
    """Every two words of English in both languages, several times."""
    return [
        {
            "language": language,
            "text": f"{words[first]} {words[second]}",
            "english": f"{first} {second}",
        }
        for language, words in (("de", GERMAN), ("fr", FRENCH))
        for first in words
        for second in words
        if first != second
    ]


@pytest.fixture
def recipe(tmp_path: Path) -> LanguagesRecipe:
    write_jsonl(tmp_path / "translations.jsonl", rows())
    return LanguagesRecipe(
        name="tiny",
        base=write_static(tmp_path / "base"),
        translations=(tmp_path / "translations.jsonl",),
        held_out=4,
        words=100,
    )


def test_a_run_adds_words_and_keeps_english(recipe: LanguagesRecipe, tmp_path: Path) -> None:
    said: list[str] = []
    encoder = StaticEncoder.load(add_languages(recipe, tmp_path / "out", say=said.append))
    assert said[0] == "translations by language: de 20, fr 20"

    for name in ENGLISH_FILES:
        assert (tmp_path / "out/tiny" / name).read_bytes() == (recipe.base / name).read_bytes()
    base = StaticEncoder.load(recipe.base)
    texts = ["get the file", "javascript response", ""]
    assert np.array_equal(encoder.encode(texts, role="query"), base.encode(texts, role="query"))

    # Each word has the vector of its own translation.
    english = base.encode(list(GERMAN), role="passage")
    for language in (GERMAN, FRENCH):
        own_words = [word for word in language.values() if word not in WORDS]
        scores = encoder.encode(own_words, role="query") @ english.T
        nearest = [list(language.values())[row] for row in scores.argmax(1)]
        assert nearest == own_words

    assert encoder.in_english("datei antwort") == "file response"
    assert encoder.in_english("nom fichier") == "name file"

    settings = json.loads((tmp_path / "out/tiny/encoder.json").read_text())
    assert f"{settings['measures']['translations MRR']:.4f}" in said[-1]


def test_words_have_the_rows_of_their_translations() -> None:
    languages, english = Vocabulary(["datei", "hole", "nie"]), Vocabulary(WORDS)
    translations = [
        Translation("hole datei", "get file"),
        Translation("hole datei", "get file 2"),
        # Pieces of words translate nothing, and long texts tell little.
        Translation("datei", "prefix"),
        Translation("datei", "file"),
        Translation("hole " * 30, "name " * 30),
        Translation("", "name"),
        Translation("nie", "unknown"),
    ]
    rows, shares = translate_words(languages, english, translations)
    assert [WORDS[row] for row in rows[:2, 0]] == ["file", "get"]
    assert shares[2].tolist() == [0, 0, 0]
    np.testing.assert_allclose(shares[:2].sum(axis=1), 1, rtol=1e-6)
    used = {WORDS[row] for row in rows[shares > 0]}
    assert used <= {"file", "get", "pre"}


def test_words_tell_languages_by_their_frequency() -> None:
    german = [Translation("die datei und die logs", "the file and the logs")] * 20
    languages = Vocabulary(["die", "datei", "logs", "##ei", "utf8", "x", "größe", "seldom"])
    english = Vocabulary(["die", "the", "file"])
    evidence = tell_languages(languages, english, {"de": german}, ["logs seldom"] * 50)
    evidence_of = dict(zip(languages.words, evidence.tolist(), strict=True))
    assert evidence_of == {
        # Far more frequent in German, but English has the word, too.
        "die": 1.0,
        "datei": 3.0,
        "logs": 0.0,
        "##ei": 0.0,
        "utf8": 0.0,
        "x": 0.0,
        "größe": 3.0,
        "seldom": -1.0,
    }


def test_each_language_has_as_many_translations_at_most(recipe: LanguagesRecipe) -> None:
    records = [
        {"language": language, "text": f"text {number}", "english": "x"}
        for language, count in (("de", 500), ("fr", 30))
        for number in range(count)
    ]
    write_jsonl(recipe.translations[0], records)
    limited = LanguagesRecipe(name="x", translations=recipe.translations, limit=100, held_out=4)
    drawn = read_translations(limited)
    assert {language: len(texts) for language, texts in drawn.items()} == {"de": 100, "fr": 30}
    # From the whole table, not from its beginning, and none twice.
    numbers = Counter(int(text.split()[1]) for text, _ in drawn["de"])
    assert max(numbers.values()) == 1
    assert max(numbers) > 400
    assert drawn == read_translations(limited)


@pytest.mark.parametrize(
    ("records", "problem"),
    [
        ([], "0 rows"),
        ([{"language": "de", "text": "Datei"}], "0 rows"),
        ([{"language": "de", "text": "Datei", "english": "file"}] * 4, "4 rows; held_out"),
    ],
)
def test_too_few_translations_are_refused(
    recipe: LanguagesRecipe, tmp_path: Path, records: list[dict[str, str]], problem: str
) -> None:
    write_jsonl(recipe.translations[0], records)
    with pytest.raises(InvalidInput, match=problem):
        add_languages(recipe, tmp_path / "out", say=str)
    assert not (tmp_path / "out").exists()


def test_a_table_that_does_not_exist_is_named(tmp_path: Path) -> None:
    recipe = LanguagesRecipe(name="x", translations=(tmp_path / "no.jsonl",))
    with pytest.raises(NotFound, match=r"no\.jsonl"):
        read_translations(recipe)


def test_the_command_trains_and_tells_what_it_wrote(
    recipe: LanguagesRecipe, tmp_path: Path
) -> None:
    config = tmp_path / "tiny.toml"
    config.write_text(
        'name = "tiny"\nbase = "base"\ntranslations = ["translations.jsonl"]\nheld_out = 4\nwords = 100\n'
    )
    arguments = ["train", "languages", "--config", str(config), "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(command_line, arguments)
    assert result.exit_code == 0, result.output
    assert "tiny" in result.output
    assert np.load(tmp_path / "out/tiny" / LANGUAGE_WEIGHTS).shape[1] == 4
