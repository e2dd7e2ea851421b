import pytest

from purlin.index.search.corpus import Corpus
from tests.support.corpora import new_corpus
from tests.support.documents import functions, source

WORDS = "alpha beta gamma delta upload retry parse file_name getUser DDR4-3200 open close".split()


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    home = tmp_path_factory.mktemp("home")
    return new_corpus(home, "code", [source("m.py", functions(60, WORDS))])


def test_hits_have_highlights_and_an_explanation_of_their_score(corpus: Corpus) -> None:
    hit = corpus.search("retries of uploads", k=1, explain=True).hits[0]
    marked = {hit.text[start:end] for start, end in hit.highlights}
    assert marked == {"retry", "upload"}
    assert hit.explanation is not None
    assert sum(hit.explanation["terms"].values()) == pytest.approx(hit.scores["lexical"], abs=1e-3)
    weight = hit.explanation["dense_weight"]
    power = hit.explanation["lexical_power"]
    expected = weight * hit.scores["dense"] + (1 - weight) * hit.scores["lexical"] ** power
    assert hit.score == pytest.approx(expected * hit.explanation["prior"], abs=1e-3)


def test_hits_of_a_later_page_have_explanations_of_their_own(corpus: Corpus) -> None:
    whole = corpus.search("retries of uploads", k=9, explain=True).hits
    page = corpus.search("retries of uploads", k=3, offset=5, explain=True).hits
    assert page == whole[5:8]
    assert len({str(hit.explanation) for hit in page}) > 1
