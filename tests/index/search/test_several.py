"""Search of several corpora, against a search of each and a sort of all hits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from purlin.index.encoder import Vectors
from purlin.index.errors import InvalidInput, WrongType
from purlin.index.records import Document, Hit, Location, Mode
from purlin.index.search.corpus import Corpus
from purlin.index.search.several import MAX_CORPORA, search_corpora
from purlin.index.search.store.filters import Filter
from tests.support.corpora import new_corpus
from tests.support.documents import functions, source
from tests.support.hash_encoder import HashEncoder

WORDS = "alpha beta gamma delta upload retry parse file_name getUser open close".split()


class ShiftedEncoder(HashEncoder):
    """Another encoder: other vectors, another fingerprint."""

    name = "shifted"
    fingerprint = "shifted-64"

    def encode(self, texts: list[str], **rest: object) -> Vectors:  # type: ignore[override]
        return np.roll(super().encode(texts, **rest), 1, axis=1)  # type: ignore[arg-type]


def _corpus(home: Path, name: str, documents: list[Document], encoder: HashEncoder) -> Corpus:
    return new_corpus(home, "code", [source(f"{name}.py", documents)], encoder, name=name)


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> list[Corpus]:
    home, encoder = tmp_path_factory.mktemp("home"), HashEncoder()
    # With paths, so that the ranking model for repositories takes part.
    shared = [
        replace(document, location=Location(f"src/{WORDS[number % 7]}/m{number % 31}.py", number))
        for number, document in enumerate(functions(240, WORDS))
    ]
    return [
        _corpus(home, "first", shared[:150], encoder),
        _corpus(home, "second", shared[100:], encoder),
        _corpus(home, "third", [Document("x", "code", "x", "alpha beta upload")], encoder),
    ]


def _merged(corpora: list[Corpus], query: str, mode: Mode = "hybrid") -> list[tuple[str, str]]:
    """(corpus, id) of all hits: a stable sort of the rankings, one after the other."""
    hits: list[tuple[str, Hit, float]] = []
    for corpus in corpora:
        ranked = corpus.rank(query, 240, mode=mode)
        assert (np.diff(ranked.scores) <= 0).all()
        corpus_hits = corpus.search(query, k=240, mode=mode).hits
        hits += [
            (corpus.name, hit, float(score))
            for hit, score in zip(corpus_hits, ranked.scores, strict=True)
        ]
    return [(name, hit.id) for name, hit, _ in sorted(hits, key=lambda each: -each[2])]


@pytest.mark.parametrize("mode", ["hybrid", "dense", "lexical"])
@pytest.mark.parametrize("k", [1, 7, 60])
def test_pages_are_a_sort_of_all_rankings(corpora: list[Corpus], mode: Mode, k: int) -> None:
    expected = _merged(corpora, "upload gamma", mode)

    pages: list[Hit] = []
    while page := search_corpora(corpora, "upload gamma", k=k, offset=len(pages), mode=mode).hits:
        pages += page

    assert [(hit.corpus, hit.id) for hit in pages] == expected
    assert [hit.rank for hit in pages] == list(range(1, len(expected) + 1))
    assert search_corpora(corpora, "upload gamma", mode=mode).total == len(expected)


def test_ties_follow_the_order_of_the_corpora(corpora: list[Corpus]) -> None:
    # The same functions are in both.
    first, second, _ = corpora
    names = [hit.corpus for hit in search_corpora([first, second], "m.py::f120", k=2).hits]
    assert names == ["first", "second"]
    names = [hit.corpus for hit in search_corpora([second, first], "m.py::f120", k=2).hits]
    assert names == ["second", "first"]


def test_query_is_encoded_once_per_encoder(tmp_path: Path) -> None:
    encoder, other = HashEncoder(), ShiftedEncoder()
    corpora = [
        _corpus(tmp_path, "a", functions(5, WORDS), encoder),
        _corpus(tmp_path, "b", functions(5, WORDS), encoder),
        _corpus(tmp_path, "c", functions(5, WORDS), other),
    ]
    encoder.encoded.clear()
    other.encoded.clear()

    result = search_corpora(corpora, "retry upload")

    assert (encoder.encoded, other.encoded) == (["retry upload"], ["retry upload"])
    assert [each.encoder for each in result.corpora] == ["hash", "hash", "shifted"]
    assert result.warning is not None
    assert "hash, shifted" in result.warning
    assert search_corpora(corpora, "retry upload", mode="lexical").warning is None
    assert search_corpora(corpora[:2], "retry upload").warning is None


def test_released_encoders_of_one_scale_are_compared_without_a_warning(tmp_path: Path) -> None:
    transformer, ensemble = HashEncoder(), ShiftedEncoder()
    transformer.name, ensemble.name = "santa-minilm-l6-int8", "ensemble-int8"
    corpora = [
        _corpus(tmp_path, "shop", functions(5, WORDS), transformer),
        _corpus(tmp_path, "code", functions(5, WORDS), ensemble),
    ]
    result = search_corpora(corpora, "retry upload")
    assert [each.encoder for each in result.corpora] == [transformer.name, ensemble.name]
    assert result.warning is None


def test_corpus_without_the_field_has_no_hits(corpora: list[Corpus]) -> None:
    result = search_corpora(corpora, "upload", k=300, filter={"language": "go"})
    assert [each.total for each in result.corpora] == [50, 46, 0]
    assert {hit.corpus for hit in result.hits} == {"first", "second"}

    with pytest.raises(InvalidInput, match="None of these corpora has a filterable field 'colour'"):
        search_corpora(corpora, "upload", filter={"colour": "red"})


def test_filter_that_no_corpus_fulfils_is_warned_of(tmp_path: Path) -> None:
    [document] = functions(1, WORDS)
    lamp = replace(document, fields={"brand": "aquila"})
    kettle = replace(document, fields={"brand": "brava", "size": 4})
    corpora = [
        _corpus(tmp_path, name, [document], HashEncoder())
        for name, document in (("lamps", lamp), ("kettles", kettle))
    ]

    def warning(filter: Filter) -> str | None:
        return search_corpora(corpora, "upload", filter=filter).warning

    assert warning({"brand": "brava"}) is None
    assert warning({"brand": "aquile"}) == (
        "No document of these corpora passes the filter. "
        "lamps: No document has 'brand' 'aquile'. Did you mean 'aquila'? "
        "kettles: No document has 'brand' 'aquile'. It has: brava."
    )
    assert warning({"brand": "aquila", "size": 4}) == (
        "No document of these corpora passes the filter. "
        "kettles: No document has 'brand' 'aquila'. It has: brava."
    )
    assert search_corpora(corpora[:1], "upload", filter={"brand": "aquile"}).warning == (
        "No document has 'brand' 'aquile'. Did you mean 'aquila'?"
    )


def test_documents_without_a_field_pass_what_only_excludes(tmp_path: Path) -> None:
    red = Document("a", "code", "a", "alpha", fields={"colour": "red", "size": 4})
    plain = Document("b", "code", "b", "alpha")
    corpora = [
        _corpus(tmp_path, name, [document], HashEncoder())
        for name, document in (("first", red), ("second", plain))
    ]

    def ids(condition: object) -> list[str]:
        result = search_corpora(corpora, "alpha", filter={"colour": condition})  # type: ignore[dict-item]
        return sorted(hit.id for hit in result.hits)

    assert ids("red") == ids({"not": "blue", "gte": "a"}) == ["a"]
    assert ids({"not": "red"}) == ["b"]
    assert ids({"not": ["blue", "green"]}) == ["a", "b"]
    with pytest.raises(InvalidInput, match="has a filterable field 'hue'"):
        search_corpora(corpora, "alpha", filter={"hue": {"not": "red"}})


def test_filter_that_fits_the_values_of_one_corpus_only_has_its_hits(tmp_path: Path) -> None:
    sizes: dict[str, list[int | str]] = {"numbers": [38, 40], "texts": ["M", "L"], "none": []}
    corpora = []
    for name, values in sizes.items():
        documents = [
            replace(document, fields={"size": size, "brand": "a"} if values else {"brand": "a"})
            for document, size in zip(functions(2, WORDS), values or [0, 0], strict=True)
        ]
        corpora.append(_corpus(tmp_path, name, documents, HashEncoder()))

    for position, size in enumerate((40, "L")):
        result = search_corpora(corpora, "upload", filter={"size": size})
        assert [each.total for each in result.corpora] == [
            int(number == position) for number in range(3)
        ]
    with pytest.raises(WrongType, match="'size' has numbers only"):
        search_corpora([corpora[0], corpora[2]], "upload", filter={"size": "L"})


def test_number_of_corpora_is_bounded(corpora: list[Corpus]) -> None:
    with pytest.raises(InvalidInput, match=f"One search takes 1 to {MAX_CORPORA} corpora, not 17"):
        search_corpora([corpora[0]] * 17, "upload")
    with pytest.raises(InvalidInput, match="not 0"):
        search_corpora([], "upload")
