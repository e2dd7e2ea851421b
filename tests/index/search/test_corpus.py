from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from purlin.index.errors import InvalidInput
from purlin.index.records import Document, Hit, Mode
from purlin.index.search.corpus import Corpus
from purlin.index.search.limits import MAX_K, MAX_RANK
from purlin.index.search.ranking.lengths import SHORT
from purlin.index.search.several import search_corpora
from purlin.index.search.store.filters import Filter
from tests.support.corpora import new_corpus
from tests.support.documents import functions, paged, source
from tests.support.hash_encoder import HashEncoder

WORDS = "alpha beta gamma delta upload retry parse file_name getUser DDR4-3200 open close".split()


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    home = tmp_path_factory.mktemp("home")
    return new_corpus(home, "code", [source("m.py", functions(900, WORDS))])


def _all_scores(corpus: Corpus, query: str, mode: Mode) -> np.ndarray:
    """Brute force over every passage, from the definition."""
    query_vector = corpus.encoder.encode([query], role="query")[0]
    rows = np.arange(len(corpus._dense))
    cosines = np.maximum(corpus._dense.scores(query_vector, rows), 0)
    shares = corpus._lexical.scores(corpus._lexical.weights(query), rows)
    weight = {"dense": 1.0, "lexical": 0.0, "hybrid": corpus.manifest.dense_weight}[mode]
    power = corpus.manifest.lexical_power if mode == "hybrid" else 1
    fused = weight * cosines + (1 - weight) * shares**power
    documents = [stored.document for stored in corpus._documents.fetch(range(len(fused)))]
    roles = np.array([document.fields["role"] for document in documents])
    sizes = np.array([len(document.body) for document in documents])
    by_length = 1.0 if mode == "dense" else SHORT["code"].factors(sizes)
    return fused * np.where(roles == "test", 0.9, 1.0) * by_length


@pytest.mark.parametrize("mode", ["hybrid", "dense", "lexical"])
@pytest.mark.parametrize(
    "query", ["retry the upload", "getUser", "DDR4-3200 parse file name", "gamma"]
)
def test_ranking_equals_brute_force(corpus: Corpus, query: str, mode: Mode) -> None:
    expected = np.sort(_all_scores(corpus, query, mode))[::-1]
    result = corpus.search(query, k=150, mode=mode)
    scores = [hit.score for hit in result.hits]
    np.testing.assert_allclose(scores, expected[: len(scores)], atol=2e-3)
    assert len(scores) == min(150, result.total)


def test_query_without_a_vector_is_scored_by_its_words_alone(corpus: Corpus) -> None:
    query = "parse file_name"
    ranked = corpus.rank(query, 10, vector=np.zeros(HashEncoder().dim, np.float32))
    hits = corpus.hits(ranked, 0, 10)
    power = corpus.manifest.lexical_power
    [factor] = SHORT["code"].factors(np.array([len(hits[0].text)]))
    assert hits[0].score == pytest.approx(hits[0].scores["lexical"] ** power * factor, abs=1e-3)


@settings(max_examples=25)
@given(st.integers(1, 40), st.sampled_from(["upload retry", "open", "zzz unknown"]))
def test_pages_are_consistent(corpus: Corpus, k: int, query: str) -> None:
    whole = corpus.search(query, k=120).hits
    pages: list[Hit] = []
    while len(pages) < 120:
        pages.extend(corpus.search(query, k=k, offset=len(pages)).hits)
    assert [hit.id for hit in pages[:120]] == [hit.id for hit in whole]
    assert [hit.rank for hit in pages] == list(range(1, len(pages) + 1))


def test_filters_restrict_hits_and_total(corpus: Corpus) -> None:
    result = corpus.search("upload", k=1000, filter={"language": "go", "n": {"lte": 100}})
    assert result.total == len(result.hits) == 34
    assert all(hit.fields["language"] == "go" and hit.fields["n"] <= 100 for hit in result.hits)  # type: ignore[operator]
    assert corpus.search("upload", filter={"language": "none"}).hits == ()


@pytest.mark.parametrize(
    ("conditions", "warning"),
    [
        ({"language": "pithon"}, "No document has 'language' 'pithon'. Did you mean 'python'?"),
        ({"n": {"lte": 2000}, "language": ["Perl", "Tcl"]}, "'Perl', 'Tcl'. It has: go, python"),
        # Of a long list, only the values that are shown are compared.
        ({"language": ["Perl", "Tcl", "Ada", "pithon"]}, "'Tcl', 'Ada'. It has: go, python"),
        ({"n": {"gte": 5000}}, "No document has a 'n' that the filter passes."),
        ({"n": [1, 4], "language": "go"}, "though some fulfil each of them"),
        ({"language": "go"}, None),
    ],
)
def test_a_filter_that_passes_nothing_says_why(
    corpus: Corpus, conditions: Filter, warning: str | None
) -> None:
    for result in (
        corpus.search("upload", filter=conditions),
        search_corpora([corpus], "upload", filter=conditions),
    ):
        assert bool(result.hits) is (warning is None)
        assert (warning or "") in (result.warning or "")


def test_offset_beyond_the_end_is_an_empty_page(corpus: Corpus) -> None:
    result = corpus.search("upload", k=10, offset=5000)
    assert (result.hits, result.total) == ((), 900)


def test_lexical_hits_have_a_query_word(corpus: Corpus) -> None:
    result = corpus.search("getUser", k=1000, mode="lexical")
    assert result.total == len(result.hits)
    assert all("getUser" in hit.text for hit in result.hits)
    assert corpus.search("zebra", mode="lexical").hits == ()


def test_document_of_many_passages_is_one_hit(tmp_path: Path) -> None:
    long = Document(
        "long", "reference", "long", " ".join(f"word{n % 7} filler." for n in range(900))
    )
    short = Document("short", "reference", "short", "word1 only.")
    opened = new_corpus(tmp_path, "reference", [source("p", [long, short])], splitter="simple")
    assert opened.manifest.passages > 10
    result = opened.search("word1", k=10)
    assert sorted(hit.document_id for hit in result.hits) == ["long", "short"]
    assert result.total == opened.search("word1", mode="lexical").total == 2


@pytest.mark.parametrize("count", [300, 900])
def test_pages_are_consistent_with_many_equal_titles(tmp_path: Path, count: int) -> None:
    rng = np.random.default_rng(1)
    bodies = [
        " ".join(f"w{n}" for n in rng.integers(300, size=rng.integers(2, 40))) for _ in range(count)
    ]
    sections = [Document(f"s{n}", "reference", "Examples", body) for n, body in enumerate(bodies)]
    others = [Document(f"o{n}", "reference", f"other {n}", f"examples w{n}") for n in range(500)]
    with closing(new_corpus(tmp_path, "reference", [source("p", [*others, *sections])])) as opened:
        whole = opened.search("examples", k=1000).hits
        pages = paged(opened, "examples", 1000, 50)
    assert [hit.id for hit in pages] == [hit.id for hit in whole]
    assert [hit.score for hit in whole[:count]] == [1.0] * count


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"query": ""}, "query"),
        ({"query": " \n"}, "query"),
        ({"query": "x" * 4097}, "query"),
        ({"query": "caf\udce9"}, "query"),
        ({"filter": {"language": "caf\udce9"}}, "filter.language"),
        ({"k": 0}, "k"),
        ({"k": MAX_K + 1}, "k"),
        ({"offset": -1}, "offset"),
        ({"offset": MAX_RANK}, "offset"),
        ({"mode": "magic"}, "mode"),
        ({"filter": {"nope": 1}}, "filter.nope"),
    ],
)
def test_invalid_arguments_are_named(
    corpus: Corpus, arguments: dict[str, object], field: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        corpus.search(**{"query": "x", **arguments})  # type: ignore[arg-type]
    assert caught.value.field == field


def test_secondary_code_ranks_lower_unless_kept(tmp_path: Path) -> None:
    same = [
        Document(role, "code", "f", "def upload(): pass", fields={"role": role})
        for role in ("test", "source", "vendored")
    ]
    demoted = new_corpus(tmp_path, "code", [source("f", same)]).search("upload").hits
    assert [hit.id for hit in demoted] == ["source", "test", "vendored"]
    assert demoted[1].score == pytest.approx(0.9 * demoted[0].score, abs=1e-3)
    kept = new_corpus(tmp_path, "code", [source("f", same)], secondary="keep").search("upload").hits
    assert [hit.id for hit in kept] == ["test", "source", "vendored"]


def test_exact_id_or_title_ranks_first(tmp_path: Path) -> None:
    laptop = "thin and light with many ports and a bright screen"
    documents = [
        Document("AB-1", "product", "Battery", "fits XY-2 and XY-2 pro", fields={}),
        Document("XY-2", "product", "Laptop with a long name", laptop),
        Document("Q-9", "product", "Reading lamp", "light for reading in bed"),
    ]
    opened = new_corpus(tmp_path, "product", [source("f", documents)])
    for query, expected in (("XY-2", "XY-2"), (" reading LAMP ", "Q-9")):
        for mode in ("lexical", "hybrid"):
            hit = opened.search(query, mode=mode, explain=True).hits[0]
            assert (hit.id, hit.score) == (expected, 1.0)
            assert hit.explanation is not None
            assert hit.explanation["named"]
