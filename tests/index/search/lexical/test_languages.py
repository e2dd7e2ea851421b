"""Catalogues in other languages than English: which one it is, and how words are found in it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple, NoReturn

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from purlin.index import builds
from purlin.index.builds.manifests import read_manifest
from purlin.index.indexing.build import build
from purlin.index.search.corpus import Corpus
from purlin.index.search.lexical.bm25 import Lexical
from purlin.index.search.lexical.builder import RUN_TOKENS, LexicalBuilder
from purlin.index.search.lexical.languages import (
    CZECH,
    DANISH,
    DUTCH,
    ENGLISH,
    FRENCH,
    GERMAN,
    ITALIAN,
    LANGUAGE_FILE,
    LANGUAGES,
    NORWEGIAN,
    POLISH,
    SAMPLE_CHARS,
    SPANISH,
    SWEDISH,
    Language,
    detect,
)
from purlin.index.search.lexical.postings import Postings
from purlin.index.search.lexical.tokens import fold, have_any, matches, tokens, words
from purlin.index.search.why import why
from purlin.index.sources import open_source
from tests.support.corpora import new_corpus
from tests.support.documents import source
from tests.support.hash_encoder import HashEncoder
from tests.support.serving import numbered


class Catalogue(NamedTuple):
    language: Language
    heads: str
    rows: list[str]


# Rows of id, title and description.
CATALOGUES = [
    Catalogue(
        GERMAN,
        "Artikelnummer;Bezeichnung;Beschreibung",
        [
            "A1;Wasserkocher Glas;Kocht das Wasser in wenigen Minuten und schaltet sich dann ab",
            "A2;Esstisch Eiche;Massives Holz, mit Öl behandelt, für die ganze Familie",
            "A3;Couchtisch rund;Ein Tischlein aus Nussbaum, das zu jedem Sofa passt",
            "A4;Hausschuh Filz;Für kalte Füße, auch in Größe 40, aber ohne Absatz",
            "A5;Bücherregal Kiefer;Platz für Ordner, die nicht in den Schrank passen",
            "A6;Gartenschlauch 20 m;Mit einer Brause, die sich einfach wechseln lässt",
        ],
    ),
    Catalogue(
        FRENCH,
        "Référence;Désignation;Description",
        [
            "A1;Bouilloire en verre;Elle fait bouillir l'eau, puis s'arrête dans la minute",
            "A2;Chaussure verte;Une chaussure légère avec des semelles pour la montagne",
            "A3;Vélo bleu;Un vélo imprimé avec les couleurs du club et une sonnette",
            "A4;Oreiller en duvet;Il garde sa forme et convient aux enfants",
        ],
    ),
    Catalogue(
        DUTCH,
        "Artikelnummer;Naam;Omschrijving",
        [
            "A1;Waterkoker glas;Kookt het water in een minuut en slaat dan af",
            "A2;Witte schoen;Een schoen voor wie graag naar buiten gaat",
            "A3;Boekenkast grenen;Met ruimte voor de mappen die niet in het bureau passen",
            "A4;Broodmes;Het lemmet is van staal en zonder kartels",
        ],
    ),
    Catalogue(
        SPANISH,
        "Referencia;Nombre;Descripción",
        [
            "A1;Zapato rojo;Un zapato para los niños con una suela que no resbala",
            "A2;Cafetera eléctrica;Ella hace el café en un minuto y muy bien, sin ruido, por las mañanas",
            "A3;Lámpara de mesa;Es la luz más cálida para leer los libros por la noche",
        ],
    ),
    Catalogue(
        ITALIAN,
        "Codice;Nome;Descrizione",
        [
            "A1;Scarpa rossa;Una scarpa per i bambini con la suola che non scivola",
            "A2;Bollitore elettrico;Il bollitore che scalda anche il latte per la colazione",
            "A3;Lampada da tavolo;La luce più calda della casa per leggere nella notte",
        ],
    ),
    Catalogue(
        SWEDISH,
        "Artikelnummer;Benämning;Beskrivning",
        [
            "A1;Vattenkokare glas;Kokar vatten på en minut och stängs av när det är klart",
            "A2;Löparskor dam;Lätta skor för asfalt, även för den som springer till jobbet",
            "A3;Bokhylla ek;Med plats för pärmar som inte ryms i skåpet, från golv upp till tak",
            "A4;Brödkniv;Bladet är av stål utan tandning, att slipa hos smeden",
            "A5;Svampbok;Med en nyckel till de vanligaste arterna",
        ],
    ),
    Catalogue(
        DANISH,
        "Varenummer;Navn;Beskrivelse",
        [
            "A1;Elkedel i glas;Koger vandet på et minut og slukker af sig selv, uden at du skal tænke på det",
            "A2;Løbesko til damer;Lette sko til asfalt, også hvis du løber efter bussen",
            "A3;Reol i eg;Med plads til mapper, der ikke kan være i skabet",
            "A4;Bog om barndommen;Fortalt af en, der blev født ved havet",
            "A5;Kurv til en cykel;Flettet af pil, den hænges op foran styret",
        ],
    ),
    Catalogue(
        NORWEGIAN,
        "Varenummer;Produktnavn;Beskrivelse",
        [
            "A1;Vannkoker i glass;Koker vannet på et minutt og slår seg av, uten at du må tenke på det",
            "A2;Joggesko til damer;Lette sko til asfalt, også hvis du løper etter bussen",
            "A3;Hylle i eik;Med plass til permer som ikke får plass i skapet, eller noe annet",
            "A4;Bok om fisk;Fortalt av en som bor ved havet",
            "A5;Kurv til sykkel;Flettet av pil, den henges opp foran styret",
        ],
    ),
    Catalogue(
        POLISH,
        "Numer artykułu;Nazwa;Opis",
        [
            "A1;Czajnik szklany;Gotuje wodę w minutę oraz wyłącza się przez czujnik",
            "A2;But zimowy;Ocieplany but dla dzieci, który jest wodoodporny i nie ślizga się na lodzie",
            "A3;Smycz;Dla psów i kotów, od małych do dużych, także po zmroku bardzo widoczna",
            "A4;Nóż kuchenny;Ze stali, z którą przez lata nie ma kłopotu, tylko ją ostrz",
        ],
    ),
    Catalogue(
        CZECH,
        "Kód;Název;Popis",
        [
            "A1;Skleněná konvice;Uvaří vodu za minutu a pak se vypne, takže ji nemusíte hlídat",
            "A2;Zimní bota;Zateplená bota pro děti, která je nepromokavá a neklouže na ledě",
            "A3;Vodítko;Pro psy, které nebo vodíte podle nohy, nebo při běhu",
            "A4;Kuchařský nůž;Z oceli, se kterou nejsou potíže, jen ho občas nabruste",
            "A5;Kniha o ptácích;Průvodce, který je také pro malé čtenáře",
        ],
    ),
]
# Sentences of each language, which are no catalogue.
ENGLISH_TEXTS = [
    "Boils the water in a few minutes and then switches itself off",
    "A lamp for the desk which you can dim, made by De Lucca in La Spezia",
    "Shoes for children with a sole that does not slip, by Die Zwei",
]


def _home(tmp_path: Path, rows: list[str], heads: str, file: str = "a.csv") -> Path:
    directory = tmp_path / "catalogue"
    directory.mkdir(exist_ok=True)
    (directory / file).write_text("\n".join([heads, *rows]), encoding="utf-8")
    return directory


def _built(home: Path, directory: Path) -> Corpus:
    return new_corpus(home, "product", open_source("product", [directory]), name="shop")


def _language(home: Path) -> str:
    """The language of the active build's segments, which all have the same."""
    directory = builds.current(home, "shop")
    segments = read_manifest(directory).segments
    [name] = {Postings.load(directory / segment / "lexical").language.name for segment in segments}
    return name


@pytest.fixture(scope="module", params=CATALOGUES, ids=lambda catalogue: catalogue.language.name)
def shop(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Corpus]:
    tmp_path = tmp_path_factory.mktemp("shop")
    catalogue: Catalogue = request.param
    return catalogue.language.name, _built(
        tmp_path, _home(tmp_path, catalogue.rows, catalogue.heads)
    )


FOUND = {
    "german": {
        # Plural and singular, umlauts as two letters or none, an inflected adjective, upper case.
        "hausschuhe": "A4",
        "fuesse": "A4",
        "FUSSE": "A4",
        "massive": "A2",
        "wasserkochern": "A1",
        # A compound by its words, in either order and with what links them.
        "kocher wasser": "A1",
        "schlauch für den garten": "A6",
        "regal für bücher": "A5",
        "regal buch": "A5",
    },
    "french": {
        "chaussures": "A2",
        "vert": "A2",
        "velos bleus": "A3",
        "imprimées": "A3",
        "imprimee": "A3",
        "oreillers": "A4",
    },
    "dutch": {"schoenen": "A2", "wit": "A2", "kast voor boeken": "A3"},
    "spanish": {"zapatos": "A1", "rojas": "A1", "cafeteras electricas": "A2", "lamparas": "A3"},
    "italian": {"scarpe": "A1", "rosso": "A1", "bollitori elettrici": "A2", "lampade": "A3"},
    "swedish": {
        "skor": "A2",
        "vattenkokaren": "A1",
        "hylla": "A3",
        "kniv för bröd": "A4",
        # Plurals that change a vowel, or lose one.
        "böcker": "A5",
        "nycklar": "A5",
    },
    "danish": {
        "elkedler": "A1",
        "lobesko": "A2",
        "reolen": "A3",
        "bøger": "A4",
        "cykler": "A5",
        "kurve": "A5",
    },
    "norwegian": {
        "vannkokeren": "A1",
        "sko": "A2",
        "hyller": "A3",
        "bøkene": "A4",
        "sykler": "A5",
        "kurver": "A5",
    },
    # Plurals and cases, with and without marks.
    "polish": {"zimowych butów": "A2", "psow": "A3", "kot": "A3", "szklane": "A1", "NOZE": "A4"},
    "czech": {
        "konvici": "A1",
        "zimních bot": "A2",
        "dite": "A2",
        "vodítkem": "A3",
        "kuchařského nože": "A4",
        "knihy": "A5",
        "ptáci": "A5",
    },
}


def test_words_are_found_in_their_other_forms(shop: tuple[str, Corpus]) -> None:
    language, corpus = shop
    for query, document in FOUND[language].items():
        hit = corpus.search(query, k=1, mode="lexical").hits[0]
        assert (query, hit.document_id) == (query, document)


def test_what_is_found_is_told_and_highlighted(shop: tuple[str, Corpus]) -> None:
    language, corpus = shop
    query, word = {
        "german": ("ordnern", "Ordner"),
        "french": ("semelle", "semelles"),
        "dutch": ("map", "mappen"),
        "spanish": ("suelas", "suela"),
        "italian": ("suole", "suola"),
        "swedish": ("pärm", "pärmar"),
        "danish": ("mappe", "mapper"),
        "norwegian": ("perm", "permer"),
        "polish": ("kotami", "kotów"),
        "czech": ("čtenářů", "čtenáře"),
    }[language]
    hit = corpus.search(query, k=1, mode="lexical", explain=True).hits[0]

    assert [hit.text[start:end] for start, end in hit.highlights] == [word]
    assert hit.explanation is not None
    assert hit.explanation["language"] == language
    assert hit.explanation["terms"].keys() == set(tokens(query, LANGUAGES[language]))
    assert why(query, hit) == f"text: {query}"


def test_words_find_compounds_that_end_with_them(tmp_path: Path) -> None:
    """A word that the catalogue has itself, too, finds these after it; "uhr" is in no other word."""
    rows = [
        *CATALOGUES[0].rows,
        "A7;Box für eine Uhr;Aus Holz, mit einem Kissen und auch mit Schloss",
        "A8;Damenuhr;Eine Armbanduhr aus Edelstahl, damit sie lange hält",
        "A9;Zeltabspannung;Damit das Zelt bei Sturm nicht wegfliegt",
    ]
    corpus = _built(tmp_path, _home(tmp_path, rows, CATALOGUES[0].heads))

    [box, watch] = corpus.search("uhr", mode="lexical", explain=True).hits
    assert (box.document_id, watch.document_id) == ("A7", "A8")
    assert watch.explanation is not None
    assert watch.explanation["terms"].keys() == {"uhr"}
    assert why("uhr", watch) == "name: uhr"
    assert [watch.text[start:end] for start, end in watch.highlights] == ["Armbanduhr"]

    tables = corpus.search("runde tische", mode="lexical")
    assert [hit.document_id for hit in tables.hits] == ["A3", "A2"]
    assert tables.total == 2
    # As frequent as its compounds: the rarer word counts for more.
    assert tables.hits[0].score > 2 * tables.hits[1].score > 0.2
    assert tables.corrected is None


@given(st.integers(0, 2**32), st.integers(1, 30))
def test_the_first_rows_by_compounds_are_those_of_all_scores(seed: int, depth: int) -> None:
    rng = np.random.default_rng(seed)
    words = ["uhr", "damenuhr", "herrenuhr", "holz", "buchenholz", "buch", "damen", "rot"]
    texts = [" ".join(rng.choice(words, rng.integers(1, 6))) for _ in range(60)]
    lexical = Lexical([_postings(texts, GERMAN)])

    weights = lexical.weights("rote uhr holz")
    _, scores = lexical.search(weights, depth)
    every = lexical.scores(weights, np.arange(60))
    np.testing.assert_allclose(scores, np.sort(every[every > 0])[::-1][:depth], rtol=1e-5)

    assert len(lexical.matching(weights)) == np.count_nonzero(every)
    explained = [sum(each.values()) for each in lexical.explain(weights, np.arange(60))]
    np.testing.assert_allclose(np.minimum(explained, 1.0), every, rtol=1e-5)


class _LookedUp(frozenset[str]):
    """Tokens of a query that may be looked up, but not read one by one: they can be many."""

    def __iter__(self) -> NoReturn:
        raise AssertionError


@pytest.mark.parametrize(
    ("token", "language", "has_any"),
    [
        ("uhr", GERMAN, True),
        ("damenuhr", GERMAN, True),
        ("damenuhr", ENGLISH, False),
        ("uhr", ENGLISH, True),
        ("abuhr", GERMAN, False),
        ("uhren", GERMAN, False),
        ("mobil", GERMAN, False),
        ("teil24", GERMAN, False),
    ],
)
def test_a_text_has_the_compounds_that_end_with_a_token(
    token: str, language: Language, has_any: bool
) -> None:
    query_tokens = _LookedUp({"uhr", "il", "l24"})
    assert have_any(["holz", token], query_tokens, language) is has_any


def test_only_the_first_words_of_a_query_find_compounds() -> None:
    """Each one reads the whole vocabulary, and a query may have hundreds."""
    lexical = Lexical([_postings(["Damenuhr aus Holz", "Lampe"], GERMAN)])
    others = " ".join(f"rost{number}" for number in range(30))
    assert len(lexical.matching(lexical.weights(f"uhr {others}"))) == 1

    weights = lexical.weights(f"{others} {others.replace('rost', 'blech')} uhr")
    assert len(lexical.matching(weights)) == 0
    assert weights["uhr"] == weights["rost1"]


def test_the_ends_of_compounds_are_no_typos(tmp_path: Path) -> None:
    corpus = _built(tmp_path, _home(tmp_path, CATALOGUES[0].rows, CATALOGUES[0].heads))
    assert corpus.search("wasser", mode="lexical").corrected is None
    assert corpus.search("regale", mode="lexical").corrected is None
    assert corpus.search("bücheregal", mode="lexical").corrected == "bücherregal"


def test_english_words_are_not_searched_as_compounds(tmp_path: Path) -> None:
    rows = ["A1;Bookshelf;It has room for the folders that you keep", "A2;Table;For the garden"]
    corpus = _built(tmp_path, _home(tmp_path, rows, "sku;name;description"))
    assert corpus.search("books shelf", mode="lexical").hits == ()
    assert corpus.search("book for the shelf", mode="lexical").corrected is None


def test_a_common_word_in_odd_case_is_no_typo(tmp_path: Path) -> None:
    corpus = _built(tmp_path, _home(tmp_path, ["A1;Kettle;Boils water"], "sku;name;description"))
    assert corpus.search("wHere kettle", mode="lexical").corrected is None


# ---- which language


@pytest.mark.parametrize("catalogue", CATALOGUES, ids=lambda catalogue: catalogue.language.name)
def test_the_language_is_told_by_common_words(catalogue: Catalogue) -> None:
    texts = [fold(row).lower() for row in catalogue.rows]
    english = [text.lower() for text in ENGLISH_TEXTS]
    assert detect(texts) is detect(reversed(texts)) is catalogue.language
    # Among some English texts still; among as many, and from few words, it is English.
    assert detect([*texts * 4, *english]) is catalogue.language
    assert detect([*texts, *english * 4]) is ENGLISH
    assert detect(texts[:1]) is ENGLISH


@pytest.mark.parametrize(
    "text",
    [
        "Uma mesa para quem não tem espaço, com gavetas e pés de madeira. É leve, se dobra e serve como mesa de "
        "jantar ou de trabalho em casa. Por ser baixa, pode ficar entre as camas e sobre o tapete da sua sala.",
        "Stolík na noviny, ktorý je ľahký a dá sa zložiť. Od dubu po orech, bez laku, za málo peňazí. Vojde sa do "
        "bytu aj na chatu, ako pre deti, tak pre dospelých, alebo pri posteli. Sú so zásuvkou, keď ju treba.",
    ],
    ids=["portuguese", "slovak"],
)
def test_languages_without_stems_are_none_of_their_neighbours(text: str) -> None:
    assert detect([fold(text).lower()] * 10) is ENGLISH


@pytest.mark.parametrize(
    ("language", "text"),
    [
        (
            GERMAN,
            "Hülle für iPhone 13 Pro mit Fach. Glas für das iPhone 15 Pro. Kabel für iPad Pro und MacBook Pro. "
            "Armband für die Watch5 Pro ohne Schnalle. Tasche für iPhone 14 Pro, sehr dünn.",
        ),
        (
            SPANISH,
            "Pack de dos camisetas muy ligeras. Silla con dos ruedas y asiento del mejor plástico. Juego de dos "
            "sartenes para el horno. Lote de dos toallas sin costuras. Mochila con dos bolsillos y las asas por "
            "detrás.",
        ),
    ],
    ids=["pro", "dos"],
)
def test_words_of_names_and_of_the_language_itself_do_not_hide_it(
    language: Language, text: str
) -> None:
    assert detect([fold(text).lower()] * 10) is language


def test_names_and_codes_are_english() -> None:
    assert detect([]) is ENGLISH
    assert detect(["de longhi la spezia el paso le creuset die hard"] * 1000) is ENGLISH
    assert detect(["und"] * 1000) is ENGLISH
    assert (
        detect(["kt-1700 ddr4-3200 w", *["usb"] * 100_000, "und mit das fur der" * 10]) is ENGLISH
    )


@given(st.lists(st.text(max_size=40), max_size=20))
def test_any_texts_have_a_language(texts: list[str]) -> None:
    assert detect(texts) in LANGUAGES.values()


WORDS = sorted({word for catalogue in CATALOGUES for row in catalogue.rows for word in words(row)})


@given(
    st.sampled_from(sorted(LANGUAGES)),
    st.lists(st.sampled_from(WORDS) | st.text(min_size=1, max_size=12), max_size=8),
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=3),
)
def test_highlights_are_the_words_that_share_a_token(
    name: str, text_words: list[str], query_words: list[str]
) -> None:
    language = LANGUAGES[name]
    text = " ".join(text_words)
    query = frozenset(tokens(" ".join(query_words), language))
    spans = list(matches(text, query, language))
    assert all(not query.isdisjoint(tokens(text[start:end], language)) for start, end in spans)
    assert bool(spans) == (not query.isdisjoint(tokens(text, language)))


@given(
    st.sampled_from(sorted(LANGUAGES)),
    st.lists(st.sampled_from(WORDS), max_size=12),
    st.lists(st.sampled_from(WORDS) | st.text(max_size=40), max_size=6).map(" ".join),
)
def test_any_query_is_corrected_to_words_that_are_found(
    name: str, text_words: list[str], query: str
) -> None:
    index = Lexical([_postings([" ".join(text_words), "wasser wasserkocher der"], LANGUAGES[name])])
    corrected = index.corrected(query)
    # What was put into the place of words, or behind them, has a token of the catalogue.
    for word in set(corrected.split()) - set(query.split()):
        assert any(map(index.vocabulary.df, tokens(word, index.language)))


# ---- on disk


def _postings(texts: list[str], language: Language | None) -> Postings:
    with TemporaryDirectory() as directory:
        _files(Path(directory), texts, language)
        return Postings.load(Path(directory))


def _files(
    directory: Path, texts: list[str], language: Language | None, run_tokens: int = RUN_TOKENS
) -> dict[str, bytes]:
    builder = LexicalBuilder(directory, run_tokens, language=language)
    for text in texts:
        builder.add(text)
    builder.close()
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


def test_english_texts_have_the_files_that_they_had_before_other_languages(tmp_path: Path) -> None:
    texts = [*ENGLISH_TEXTS, "read_csv getHTTPResponse DDR4-3200 größe 検索 naïve cafés"] * 5
    detected_files = _files(tmp_path / "detected", texts, None)
    assert detected_files == _files(tmp_path / "english", texts, ENGLISH)
    assert LANGUAGE_FILE not in detected_files
    # It changes with the files' format, and with Snowball's English stemmer.
    digest = hashlib.sha256(
        b"".join(name.encode() + content for name, content in detected_files.items())
    ).hexdigest()
    assert digest == "babf2b13e21be0fcfa115c6cef7dc4cec32f697a5855aba39c66489c925ac5d3"


def test_the_language_is_told_by_the_first_texts(tmp_path: Path) -> None:
    german = CATALOGUES[0].rows
    many = german * (SAMPLE_CHARS // len("".join(german)) + 1)
    files = _files(tmp_path / "told", [*many, *ENGLISH_TEXTS * 5000], None)
    assert files[LANGUAGE_FILE] == b"german"
    assert Postings.load(tmp_path / "told").language is GERMAN
    assert len(Postings.load(tmp_path / "told")) == len(many) + 15_000


def test_runs_of_another_language_give_the_same_files(tmp_path: Path) -> None:
    texts = CATALOGUES[0].rows * 3
    runs = _files(tmp_path / "runs", texts, None, run_tokens=10)
    assert runs == _files(tmp_path / "one", texts, None)


def test_references_and_code_are_english(tmp_path: Path) -> None:
    documents = numbered(3)
    german = [
        document.__class__(
            document.id, "reference", document.title, " ".join(CATALOGUES[0].rows), fields={}
        )
        for document in documents
    ]
    build(tmp_path, "shop", "reference", [source("all", german)], HashEncoder())
    assert _language(tmp_path) == "english"


# ---- later builds

ENGLISH_ROWS = [f"E{number};{text};{text}" for number, text in enumerate(ENGLISH_TEXTS)]
HEADS = "sku;name;description"


def test_the_language_stays_as_long_as_a_file_does(tmp_path: Path) -> None:
    german = CATALOGUES[0].rows
    directory = _home(tmp_path, german, HEADS, "a.csv")
    _home(tmp_path, ["B1;Hausschuhe;Ganz aus Wolle"], HEADS, "b.csv")
    _built(tmp_path, directory).close()
    assert _language(tmp_path) == "german"

    # Nearly all of it is English now, but one file is as it was.
    _home(tmp_path, ENGLISH_ROWS, HEADS, "a.csv")
    corpus = _built(tmp_path, directory)
    assert _language(tmp_path) == "german"
    assert corpus.search("hausschuh", mode="lexical").hits[0].document_id == "B1"

    # Now that one has changed, too, and the other one is taken over.
    _home(tmp_path, ["B1;Slippers;All of wool"], HEADS, "b.csv")
    _built(tmp_path, directory).close()
    assert _language(tmp_path) == "german"

    # None is as it was.
    _home(tmp_path, [*ENGLISH_ROWS, "E9;Kettle;Boils"], HEADS, "a.csv")
    _home(tmp_path, ["B1;Slippers;All of felt"], HEADS, "b.csv")
    _built(tmp_path, directory).close()
    assert _language(tmp_path) == "english"


def test_a_delta_has_the_language_of_its_base(tmp_path: Path) -> None:
    rows = CATALOGUES[0].rows
    directory = tmp_path
    for file in range(20):
        numbered_rows = [f"F{file}-{number}-{row}" for number in range(9) for row in rows]
        directory = _home(tmp_path, numbered_rows, HEADS, f"{file}.csv")
    _built(tmp_path, directory).close()
    _home(tmp_path, ["N1;Gelbe Hausschuhe;Shoes for the house"], HEADS, "0.csv")

    corpus = _built(tmp_path, directory)
    assert read_manifest(builds.current(tmp_path, "shop")).segments == ("base", "delta")
    assert _language(tmp_path) == "german"
    assert corpus.search("gelber hausschuh", mode="lexical").hits[0].document_id == "N1"


def test_an_open_build_in_the_language_is_shared(tmp_path: Path) -> None:
    directory = _home(tmp_path, CATALOGUES[0].rows, HEADS)
    corpus = _built(tmp_path, directory)
    again = Corpus.load(builds.current(tmp_path, "shop"), HashEncoder(), corpus)
    assert (
        again.search("hausschuhe", mode="lexical").hits
        == corpus.search("hausschuhe", mode="lexical").hits
    )


def test_words_of_a_large_catalogue_that_end_alike() -> None:
    texts = [f"w{letter}{second}schuh" for letter in "bcdfghklmn" for second in "bcdfghklmn"]
    postings = _postings([*texts, "schuh", "zschuh", "schuhband"] * 2, GERMAN)
    ending = postings.words_ending("schuh", 3)
    assert ending == dict.fromkeys(map(str.encode, texts), 2)
    assert np.all([postings.words_ending(word, 0) == {} for word in ("x" * 70, "schuhschuh")])


def test_the_build_lists_the_language_and_checks_it(tmp_path: Path) -> None:
    _built(tmp_path, _home(tmp_path, CATALOGUES[0].rows, HEADS)).close()
    directory = builds.current(tmp_path, "shop")
    listed = json.loads((directory / "manifest.json").read_bytes())["files"]
    assert f"base/lexical/{LANGUAGE_FILE}" in listed
    (directory / "base" / "lexical" / LANGUAGE_FILE).unlink()
    with pytest.raises(builds.Damaged, match=r"language\.txt is missing"):
        Corpus.load(directory, HashEncoder())


@pytest.mark.parametrize(
    ("language", "plural", "singular"),
    [
        ("danish", "tænger", "tang"),
        ("danish", "stænger", "stang"),
        ("norwegian", "tenger", "tang"),
        ("norwegian", "stenger", "stang"),
    ],
)
def test_plurals_of_tongs_and_bars_have_their_vowel(
    language: str, plural: str, singular: str
) -> None:
    assert tokens(plural, LANGUAGES[language]) == tokens(singular, LANGUAGES[language])
