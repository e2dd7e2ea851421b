"""Searches in another language than that of the passages: vectors, words and reasons."""

from __future__ import annotations

import pytest

from purlin.index import builds
from purlin.index.encoder import STATIC_ENCODER, load_encoder
from purlin.index.indexing.build import build
from purlin.index.search.corpus import Corpus
from purlin.index.sources import open_source
from tests.support.files import write_tree

FILES = {
    "net/upload.py": """
def send_again(parts):
    '''Retry the upload of failed parts.'''
    return [put(part) for part in parts]
""",
    "auth/ban.py": """
def lock_out(visitor):
    '''Ban a visitor after too many wrong passwords.'''
    visitor.banned = True
""",
    "draw/chart.py": """
def legend(chart):
    '''Draw the legend with rounded corners.'''
    # Legende zeichnen: Farben wie im Handbuch
    return chart.box(corners=4)
""",
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    root = tmp_path_factory.mktemp("languages")
    write_tree(root / "source", FILES)
    encoder = load_encoder(STATIC_ENCODER)
    build(root / "home", "code", "code", open_source("code", [root / "source"]), encoder)
    return Corpus.load(builds.current(root / "home", "code"), encoder)


@pytest.mark.parametrize(
    ("query", "title"),
    [
        ("Besucher nach zu vielen falschen Passwörtern aussperren", "lock_out"),
        ("réessayer l'envoi des parties en échec", "send_again"),
        ("спробувати знову завантажити частини", "send_again"),
        ("凡例を描画する", "legend"),
    ],
)
@pytest.mark.parametrize("mode", ["hybrid", "dense", "lexical"])
def test_a_search_in_another_language_finds_english(
    corpus: Corpus, query: str, title: str, mode: str
) -> None:
    hits = corpus.search(query, k=3, mode=mode).hits
    assert hits[0].title == title


def test_reasons_name_the_english_words(corpus: Corpus) -> None:
    query = "Besucher nach zu vielen falschen Passwörtern aussperren"
    hit = corpus.search(query, k=1, explain=True).hits[0]
    assert {"lock", "wrong"} <= set((hit.explanation or {})["terms"])


def test_words_as_they_are_written_count_where_passages_have_them(corpus: Corpus) -> None:
    (hit, *_) = corpus.search("Farben wie im Handbuch", k=3, mode="lexical").hits
    assert hit.title == "legend"


def test_english_searches_have_no_other_words(corpus: Corpus) -> None:
    query = "ban a visitor"
    assert corpus._word_weights(query) == corpus.weights(query)


def test_words_that_no_passage_has_can_be_left_out(corpus: Corpus) -> None:
    weights = corpus._lexical.weights("ban zzz visitor zzz")
    present = corpus._lexical.weights("ban zzz visitor zzz", with_absent=False)
    assert present == {token: weights[token] for token in weights if token != "zzz"}
    assert weights["zzz"] == max(weights.values())
