"""Searches in another language than that of the passages: vectors, words and reasons."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from purlin.index import builds
from purlin.index.encoder import (
    STATIC_ENCODER,
    TRANSFORMER_ENCODER,
    TextEncoder,
    in_english,
    load_encoder,
)
from purlin.index.indexing.build import build
from purlin.index.records import Document, Mode
from purlin.index.search.corpus import Corpus
from purlin.index.search.several import search_corpora
from purlin.index.sources import open_source
from tests.support.documents import source
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
    assert {"password", "wrong"} <= set((hit.explanation or {})["terms"])


def test_words_as_they_are_written_count_where_passages_have_them(corpus: Corpus) -> None:
    (hit, *_) = corpus.search("Farben wie im Handbuch", k=3, mode="lexical").hits
    assert hit.title == "legend"


def test_english_searches_have_no_other_words(corpus: Corpus) -> None:
    query = "ban a visitor"
    assert corpus.rank(query, 1).query.weights == corpus.weights(query)


def test_words_that_no_passage_has_can_be_left_out(corpus: Corpus) -> None:
    weights = corpus._lexical.weights("ban zzz visitor zzz")
    present = corpus._lexical.weights("ban zzz visitor zzz", with_absent=False)
    assert present == {token: weights[token] for token in weights if token != "zzz"}
    assert weights["zzz"] == max(weights.values())


GOODS = {
    "kettle": "Steel kettle with limescale filter",
    "socks": "Warm socks of merino wool for winter",
    "hose": "Garden hose with tap connector",
    "drill": "Cordless drill with two batteries",
    "tote": "Linen tote bag with inner pocket",
}
WAREN = {
    "kettle": "Wasserkocher aus Stahl mit Kalkfilter",
    "socks": "Warme Socken aus Wolle für den Winter",
    "hose": "Gartenschlauch mit Anschluss für den Wasserhahn",
    "drill": "Akkuschrauber mit zwei Batterien",
    "tote": "Tasche aus Leinen mit Innenfach",
}


def _shop(home: Path, goods: Mapping[str, str], encoder: TextEncoder) -> Corpus:
    documents = [Document(key, "product", title, "") for key, title in goods.items()]
    build(home, "shop", "product", [source("shop", documents)], encoder)
    return Corpus.load(builds.current(home, "shop"), encoder)


@pytest.fixture(scope="module")
def transformer() -> TextEncoder:
    return load_encoder(TRANSFORMER_ENCODER)


@pytest.mark.parametrize(
    ("query", "key"),
    [("Wollsocken", "socks"), ("Bohrmaschine", "drill"), ("Gartenschlauch", "hose")],
)
@pytest.mark.parametrize("mode", ["hybrid", "dense", "lexical"])
def test_english_products_are_found_in_another_language(
    tmp_path: Path, transformer: TextEncoder, query: str, key: str, mode: Mode
) -> None:
    (hit, *_) = _shop(tmp_path, GOODS, transformer).search(query, mode=mode).hits
    assert hit.id == key


def test_words_of_the_catalogue_are_not_translated(
    tmp_path: Path, transformer: TextEncoder
) -> None:
    shop = _shop(tmp_path, GOODS, transformer)
    # "Tote" are the dead.
    assert in_english(transformer, "tote bag")
    assert shop.rank("tote bag", 1).query.read == "tote bag"
    assert shop.rank("Wollsocken", 1).query.read == "wool socks"


def test_products_in_another_language_are_searched_as_the_query_is_written(
    tmp_path: Path, transformer: TextEncoder
) -> None:
    shop = _shop(tmp_path, WAREN, transformer)
    assert shop.rank("Bohrmaschine", 1).query.read == "Bohrmaschine"
    assert shop.rank("Bohrmaschine", 1).query.weights == shop.weights("Bohrmaschine")


def test_a_translated_query_is_encoded_for_each_corpus(
    tmp_path: Path, transformer: TextEncoder
) -> None:
    english = _shop(tmp_path / "english", GOODS, transformer)
    german = _shop(tmp_path / "german", WAREN, transformer)
    alone = [shop.search("Bohrmaschine", k=1, mode="dense").hits[0] for shop in (english, german)]

    together = search_corpora([english, german], "Bohrmaschine", k=10, mode="dense").hits
    assert {hit.score for hit in alone} <= {hit.score for hit in together}
