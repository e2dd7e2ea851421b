from contextlib import closing
from pathlib import Path

import pytest

from purlin.index.records import Document
from purlin.index.search.lexical.languages import ENGLISH, FRENCH, GERMAN, Language
from purlin.index.search.lexical.tokens import split
from purlin.index.search.ranking import accessories
from purlin.index.search.ranking.accessories import FACTOR, is_accessory
from purlin.index.search.why import why
from tests.support.corpora import new_corpus
from tests.support.documents import source


def _product(title: str, brand: str = "") -> Document:
    return Document(title, "product", title, title, fields={"brand": brand} if brand else {})


@pytest.mark.parametrize(
    ("query", "title", "brand", "language", "expected"),
    [
        ("iphone 12", "Slim Case for iPhone 12", "", ENGLISH, True),
        ("iphone 12", "Cover, compatible with iPhone 12", "", ENGLISH, True),
        ("iphone 12", "iPhone 12, for all networks", "", ENGLISH, False),
        ("iphone 12", "Slim Case for Galaxy S21", "", ENGLISH, False),
        ("iphone 12 case", "Slim Case for iPhone 12", "", ENGLISH, False),
        ("case for iphone 12", "Kickstand for iPhone 12 case", "", ENGLISH, True),
        # Whoever names another accessory may call it otherwise.
        ("iphone 12 cover", "Slim Case for iPhone 12", "", ENGLISH, False),
        ("iphone12", "Slim Case for iPhone 12", "", ENGLISH, True),
        ("for iphone 12", "Slim Case for iPhone 12", "", ENGLISH, False),
        ("shoes men", "Running shoes for men", "", ENGLISH, False),
        # The maker of a drill sells batteries for it, too.
        ("bosch akkuschrauber", "Bosch Akku für Akkuschrauber", "Bosch", GERMAN, True),
        ("bosch akkuschrauber", "Bosch Akku für Akkuschrauber", "", GERMAN, False),
        ("akkus", "Bosch Akku für Akkuschrauber", "Bosch", GERMAN, False),
        ("bohrmaschine", "Ständer für Schlagbohrmaschine", "", GERMAN, True),
        ("bohrmaschine", "Tischbohrmaschine für Holz", "", GERMAN, False),
        ("aspirateur", "Sac pour aspirateur", "", FRENCH, True),
        ("forum", "Forum poster, platform format", "", ENGLISH, False),
    ],
)
def test_what_only_goes_with_the_product_that_is_named(
    query: str, title: str, brand: str, language: Language, expected: bool
) -> None:
    assert is_accessory(query, _product(title, brand), language) is expected


def test_the_words_of_a_query_are_split_once_for_all_products(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    splits = []

    def counted(word: str, language: Language) -> tuple[str, ...]:
        splits.append(word)
        return split(word, language)

    monkeypatch.setattr(accessories, "split", counted)
    for number in range(9):
        is_accessory("a kettle of glass", _product(f"Lid for kettle {number}"), ENGLISH)
    assert splits == ["a", "kettle", "of", "glass"]


def test_accessories_rank_after_what_they_go_with(tmp_path: Path) -> None:
    titles = ["Case for dishwasher", "Dishwasher 60 cm", "Quiet kettle"]
    sources = [source("shop.csv", map(_product, titles))]
    with closing(new_corpus(tmp_path, "product", sources)) as corpus:
        first, second = corpus.search("dishwasher", k=2, explain=True).hits
        assert (first.title, second.title) == (titles[1], titles[0])
        assert second.explanation is not None
        assert (second.explanation["prior"], second.explanation["accessory"]) == (FACTOR, True)
        assert "goes with what you named" in why("dishwasher", second)
        assert "goes with what you named" not in why("dishwasher", first)

        # Whoever names the accessory, or the whole title, gets it first, with its full score.
        for query in ("dishwasher case", titles[0]):
            hit = corpus.search(query, k=1, explain=True).hits[0]
            assert hit.title == titles[0]
            assert hit.explanation is not None
            assert hit.explanation["prior"] == 1.0
        assert hit.score == 1.0
