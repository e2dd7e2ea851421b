"""Hits with one value of a field as one hit, against a grouping of all hits."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest

from purlin.index.errors import InvalidInput
from purlin.index.records import Document, Hit
from purlin.index.search.corpus import Corpus
from purlin.index.search.grouping import MAX_VARIANTS, can_group, search_grouped
from purlin.index.search.several import search_corpora
from purlin.index.sources.products.records import from_record
from tests.support.corpora import new_corpus
from tests.support.documents import source
from tests.support.serving import FUNCTIONS, make, problem, serving

COLOURS = "red blue green black".split()


def _shirts(count: int) -> list[Document]:
    """One product with `count` variants."""
    parent = {"sku": "SHIRT", "title": "Linen shirt", "price": 40}
    variants = [
        {
            "sku": f"SHIRT-{number}",
            "parent_sku": "SHIRT",
            "title": "Linen shirt",
            "colour": COLOURS[number % len(COLOURS)],
            "price": 40 + number % 2,
            "url": f"https://shop.example/shirt?{number}",
        }
        for number in range(count)
    ]
    return [from_record(record) for record in (parent, *variants)]


def _hats(count: int) -> list[Document]:
    """Products without variants."""
    records = [{"sku": f"HAT-{number}", "title": f"Wool hat {number}"} for number in range(count)]
    return [from_record(record) for record in records]


def _corpus(home: Path, name: str, documents: list[Document]) -> Corpus:
    return new_corpus(home, "product", [source("f", documents)], name=name)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    # More variants than are read at first.
    return _corpus(tmp_path_factory.mktemp("home"), "shop", _shirts(250) + _hats(30))


def _group_ids(hits: tuple[Hit, ...]) -> list[str]:
    """The products of hits, each where its best hit is."""
    return list(dict.fromkeys(str(hit.fields.get("parent", hit.document_id)) for hit in hits))


@pytest.mark.parametrize("query", ["linen shirt", "wool hat 3", "red shirt", "nothing of it"])
@pytest.mark.parametrize("k", [1, 4, 60])
def test_pages_of_groups_are_in_the_order_of_their_best_hits(
    corpus: Corpus, query: str, k: int
) -> None:
    hits = corpus.search(query, k=281).hits
    search = partial(corpus.search, query)
    pages = [search_grouped(search, "parent", k=k, offset=offset) for offset in range(0, 31, k)]

    grouped = [hit for page in pages for hit in page.hits]
    assert _group_ids(tuple(grouped)) == _group_ids(hits)
    assert [hit.rank for hit in grouped] == list(range(1, 32))
    first = {_group_ids((hit,))[0]: hit for hit in reversed(hits)}
    assert [(hit.id, hit.score) for hit in grouped] == [
        (first[group].id, first[group].score) for group in _group_ids(hits)
    ]
    assert {page.total for page in pages} == {281}


def test_variants_have_what_differs_from_the_best_one(tmp_path: Path) -> None:
    corpus = _corpus(tmp_path, "shop", _shirts(3) + _hats(1))
    (shirt, hat) = search_grouped(
        partial(corpus.search, "blue linen shirt"), "parent", k=5, offset=0
    ).hits

    assert (shirt.id, shirt.fields["colour"], hat.variants) == ("SHIRT-1", "blue", ())
    assert shirt.variants is not None
    by_id = {variant.id: variant for variant in shirt.variants}
    assert by_id.keys() == {"SHIRT", "SHIRT-0", "SHIRT-2"}
    assert by_id["SHIRT-2"].fields == {"colour": "green", "price": 40.0}
    assert by_id["SHIRT-2"].url == "https://shop.example/shirt?2"
    assert by_id["SHIRT"].fields == {"price": 40.0}
    scores = [variant.score for variant in shirt.variants]
    assert scores == sorted(scores, reverse=True)
    assert shirt.score >= scores[0]


def test_a_hit_has_a_bounded_number_of_variants(corpus: Corpus) -> None:
    (shirt,) = search_grouped(partial(corpus.search, "shirt"), "parent", k=1, offset=0).hits
    assert len(shirt.variants or ()) == MAX_VARIANTS


def test_products_of_several_corpora_stay_apart(tmp_path: Path) -> None:
    corpora = [_corpus(tmp_path, name, _shirts(2)) for name in ("summer", "winter")]
    page = search_grouped(partial(search_corpora, corpora, "linen shirt"), "parent", k=5, offset=0)

    expected = [("summer", 2), ("winter", 2)]
    assert sorted((hit.corpus, len(hit.variants or ())) for hit in page.hits) == expected


def test_pages_beyond_the_limits_are_refused(corpus: Corpus) -> None:
    search = partial(corpus.search, "shirt")
    with pytest.raises(InvalidInput, match="it must be 1 to 1000"):
        search_grouped(search, "parent", k=1001, offset=0)
    with pytest.raises(InvalidInput, match="at most 10,000"):
        search_grouped(search, "parent", k=1, offset=10_000)


def test_an_unknown_field_is_named(corpus: Corpus) -> None:
    assert can_group("parent", [corpus])
    with pytest.raises(InvalidInput, match=r"no filterable field 'parant'\. Did you mean 'parent'"):
        can_group("parant", [corpus])


@pytest.mark.parametrize("chosen", ["hats", ["hats"], ["hats", "code"]])
def test_a_catalogue_without_variants_may_be_asked_for_them(tmp_path: Path, chosen: object) -> None:
    _corpus(tmp_path, "hats", _hats(2))
    make(tmp_path, "code", FUNCTIONS)
    request = {"corpus": chosen, "query": "wool hat", "k": 1, "offset": 1}
    with serving(tmp_path) as client:
        plain = client.post("/search", json=request).json()
        grouped = client.post("/search", json={**request, "group_by": "parent"}).json()

    assert grouped["hits"] == [{**hit, "variants": []} for hit in plain["hits"]]
    assert grouped["total"] == plain["total"]


def test_code_has_no_variants(tmp_path: Path) -> None:
    make(tmp_path, "code", FUNCTIONS)
    with serving(tmp_path) as client:
        reply = client.post(
            "/search", json={"corpus": "code", "query": "sort", "group_by": "parent"}
        )
    assert problem(reply, 422)["errors"][0]["field"] == "group_by"


@pytest.mark.parametrize(
    ("options", "status", "variants"),
    [
        ({"group_by": "parent"}, 200, [2, 0]),
        ({}, 200, [None] * 4),
        ({"group_by": "maker"}, 422, None),
        ({"group_by": 3}, 422, None),
    ],
    ids=["parent", "none", "unknown", "number"],
)
@pytest.mark.parametrize("chosen", ["shop", ["shop"]], ids=["one", "several"])
def test_requests_choose_a_field(
    tmp_path: Path,
    chosen: object,
    options: Mapping[str, object],
    status: int,
    variants: list[int | None] | None,
) -> None:
    _corpus(tmp_path, "shop", _shirts(2) + _hats(1))
    with serving(tmp_path) as client:
        reply = client.post("/search", json={"corpus": chosen, "query": "shirt", **options})

    assert reply.status_code == status
    if variants is None:
        assert reply.json()["errors"][0]["field"] == "group_by"
        return
    numbers = [len(hit["variants"]) if "variants" in hit else None for hit in reply.json()["hits"]]
    assert numbers == variants
