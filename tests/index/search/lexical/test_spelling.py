"""Queries with typos and compounds, by the words that a catalogue has."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from purlin.index.search.corpus import Corpus
from purlin.index.search.lexical.edits import edits
from purlin.index.search.several import search_corpora
from purlin.index.search.why import why
from purlin.index.sources import open_source
from tests.support.corpora import new_corpus

TITLES = [
    "Wireless keyboard, German layout",
    "Keyboard for tablets",
    "Laser printer with duplex unit",
    "Laser printer for photos",
    "Printer paper, white",
    "Polarized sunglasses for men",
    "Sunglasses with case",
    "Reading glasses",
    "Sun hat",
    "Battery charger",
    "Rechargeable battery, AA",
    "Silver ring",
    "Silver ring with stone",
    "Silverring, jeweller",
    "Bluetooth headphones",
    "Kaboard",
    "External drive",
]


@pytest.fixture(scope="module")
def catalogue(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return _catalogue(tmp_path_factory.mktemp("home"), TITLES)


def _catalogue(home: Path, titles: list[str], name: str = "shop") -> Corpus:
    rows = [json.dumps({"id": f"P{number}", "title": title}) for number, title in enumerate(titles)]
    return _built(home, name, "\n".join(rows))


def _built(home: Path, name: str, rows: str) -> Corpus:
    path = home / "a.jsonl"
    path.write_text(rows)
    return new_corpus(home, "product", open_source("product", [path]), name=name)


@pytest.mark.parametrize(
    ("query", "searched"),
    [
        # One edit, and two in a long word; the more frequent of words that are as near.
        ("wireles kebyoard", "wireless keyboard"),
        ("wireless koyboard", "wireless keyboard"),
        ("headfones", "headphones"),
        ("batery", "battery"),
        # Near the end of a word that is longer than its stem.
        ("externla", "external"),
        ("raeding", "reading"),
        ("battrey", "battery"),
        # Two edits from a stem, but more from every word that has it.
        ("extension", "extension"),
        # A word that the catalogue has wins, and so do codes, short words and other first letters.
        ("kaboard", "kaboard"),
        ("KB-keybord 12keybord keybord.com", "KB-keybord 12keybord keybord.com"),
        ("rimg", "rimg"),
        ("eyboard", "eyboard"),
        # Two words in one, and one in two; the pair counts where it is the usual spelling.
        ("laserprinter", "laser printer"),
        ("sun glasses", "sun glasses sunglasses"),
        ("silver ring", "silver ring"),
        # The beginning of a word that is still being typed, as passages have the word; not of one before.
        ("blue", "bluetooth"),
        ("wireless headp", "wireless headphones"),
        ("rea", "reading"),
        ("headp wireless", "headp wireless"),
        ("ba", "ba"),
    ],
)
def test_query_is_searched_in_the_spelling_of_the_catalogue(
    catalogue: Corpus, query: str, searched: str
) -> None:
    result = catalogue.search(query)
    assert result.corrected == (None if query == searched else searched)
    assert result.hits == catalogue.search(searched).hits


def test_words_are_compared_and_not_their_stems(tmp_path: Path) -> None:
    titles = ["Wire", "Wired mouse", "Wires, 10 m", "Wireless mouse", "Coffee machine", "Housing"]
    corpus = _catalogue(tmp_path, titles)
    searched = {query: corpus.search(query).corrected for query in ("wireles", "cofee", "hosuing")}
    assert searched == {"wireles": "wireless", "cofee": "coffee", "hosuing": "housing"}


def test_the_beginning_of_a_code_is_searched_as_the_codes_that_begin_so(tmp_path: Path) -> None:
    titles = ["CLP-M660A toner", "CLP-M660B toner", "OKI 43459433", "006R90321", "XPS 8700 PC"]
    corpus = _catalogue(tmp_path, [*titles, "Phaser 006 R 500", "903 screws", "Lamp, 40 W"])
    searched = {
        "CLPM660 toner": "clpm660a clpm660b toner",
        "oki 43459": "oki 43459433",
        # One passage has each of its parts, but none has all.
        "006r903": "006r90321",
        # The parts of a name, a number of few digits, a quantity, a code of none, and whole codes stay.
        "xps8700": None,
        "4345": None,
        "43459 g": None,
        "clpx660": None,
        "clp-m660a": None,
    }
    assert {query: corpus.search(query).corrected for query in searched} == searched
    assert {hit.title for hit in corpus.search("clpm660", k=2).hits} == set(titles[:2])


def test_the_pieces_of_a_code_are_searched_as_the_code(tmp_path: Path) -> None:
    titles = [
        "OKI 43459433",
        "Power bank 10000 mAh",
        "Sony WH-1000XM4",
        "iPhone 5000",
        "iPhone5000",
    ]
    corpus = _catalogue(tmp_path, [*titles, "Lamp"])
    searched = {
        "4345 9433": "4345 9433 43459433",
        "10 000 mah": "10 000 mah 10000",
        "1000 xm4 sony": "1000 xm4 sony 1000xm4",
        # As many passages have the pieces as the whole.
        "iphone 5000": None,
        "wh 1000xm4": None,
        "4345-9433": None,
    }
    assert {query: corpus.search(query).corrected for query in searched} == searched
    assert corpus.search("4345 9433", k=1).hits[0].title == titles[0]


def test_hits_are_found_and_highlighted_by_the_corrected_word(catalogue: Corpus) -> None:
    hit = catalogue.search("kebyoard tablets", k=1, mode="lexical").hits[0]
    assert (hit.title, hit.score) == (
        "Keyboard for tablets",
        catalogue.search("keyboard tablets", k=1, mode="lexical").hits[0].score,
    )


def test_reason_of_a_hit_tells_the_corrected_words(catalogue: Corpus) -> None:
    hit = catalogue.search("kebyoard tablets", k=1, mode="lexical", explain=True).hits[0]
    assert why("kebyoard tablets", hit).startswith("name: keyboard, tablets")


def test_query_that_names_a_product_is_not_corrected(tmp_path: Path) -> None:
    rows = '{"id": "KEYBORD", "title": "Lamp"}\n{"id": "2", "title": "Keyboard"}'
    result = _built(tmp_path, "a", rows).search("KEYBORD")
    assert (result.corrected, result.hits[0].title) == (None, "Lamp")


def test_each_of_several_corpora_has_its_own_spelling(tmp_path: Path, catalogue: Corpus) -> None:
    other = _catalogue(tmp_path, ["Kebyoard, a band", "Lamp"], "music")
    result = search_corpora([catalogue, other], "kebyoard")

    assert [searched.corrected for searched in result.corpora] == ["keyboard", None]
    for hit in result.hits:
        corpus = catalogue if hit.corpus == "shop" else other
        (alone,) = [each for each in corpus.search("kebyoard").hits if each.id == hit.id]
        assert alone.score == hit.score


def test_only_some_words_of_a_long_query_are_looked_up(catalogue: Corpus) -> None:
    typos = " ".join(["kebyoard", "wireles", "headphnoes", "printre", "chargre"])
    corrected = catalogue.search(typos).corrected
    assert corrected == "keyboard wireless headphones printer chargre"


@pytest.mark.parametrize(
    ("word", "token", "distance"),
    [
        ("abcd", "abcd", 0),
        ("abcd", "abdc", 1),
        ("abcd", "abd", 1),
        ("abcd", "abxcd", 1),
        ("abcd", "axcd", 1),
        ("abcd", "badc", 2),
        ("abcd", "", 4),
        ("ca", "abc", 3),
    ],
)
def test_edits_counts_insertions_deletions_changes_and_swaps(
    word: str, token: str, distance: int
) -> None:
    others = [b"abcdefghijk", b"x"]
    assert edits(word, [token.encode(), *others])[0] == distance
