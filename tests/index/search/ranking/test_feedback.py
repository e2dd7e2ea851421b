from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest

from purlin.index.records import Document, Location, Mode
from purlin.index.search.corpus import Corpus
from purlin.index.search.ranking import feedback
from purlin.index.search.why import why
from tests.support.corpora import new_corpus
from tests.support.documents import paged, source
from tests.support.hash_encoder import HashEncoder

WORDS = (
    "red green blue cotton wool shirt shoe lamp desk chair steel glass small large round".split()
)


def _product(number: int, text: str) -> Document:
    return Document(
        id=f"P-{number}",
        kind="product",
        title=text,
        body=text,
        location=Location(),
        fields={"colour": text.split()[0]},
    )


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Corpus]:
    random = np.random.default_rng(0)
    products = [
        _product(number, " ".join(random.choice(WORDS, size=random.integers(2, 12))))
        for number in range(400)
    ]
    home = tmp_path_factory.mktemp("home")
    with closing(new_corpus(home, "product", [source("shop.csv", products)])) as opened:
        yield opened


def _expected(corpus: Corpus, query: str) -> np.ndarray:
    """Scores of the hits that are ranked again, best first, from the definition over all passages."""
    vector = HashEncoder().encode([query], role="query")[0]
    rows = np.arange(len(corpus._dense))
    vectors = np.concatenate(
        [batch for part in corpus._dense._segments for _, batch in part._vectors.batches()]
    ).astype(np.float32)
    cosines = vectors @ vector
    shares = corpus._lexical.scores(corpus._lexical.weights(query), rows)
    weight, power = corpus.manifest.dense_weight, corpus.manifest.lexical_power

    def fused(means: np.ndarray) -> np.ndarray:
        return weight * np.maximum(means, 0) + (1 - weight) * shares**power

    first = np.argsort(-fused(cosines), kind="stable")
    center = vectors[first[:8]].mean(axis=0)
    similarities = vectors @ (center / np.linalg.norm(center))
    return np.sort(fused(0.75 * cosines + 0.25 * similarities)[first[:100]])[::-1]


@pytest.mark.parametrize("query", ["red cotton shirt", "small steel lamp", "round glass"])
def test_first_hits_are_ranked_again_by_how_like_the_first_they_are(
    corpus: Corpus, query: str
) -> None:
    hits = corpus.search(query, k=100).hits
    np.testing.assert_allclose(
        [hit.score for hit in hits], _expected(corpus, query)[: len(hits)], atol=2e-3
    )
    assert all("feedback" in hit.scores for hit in hits)


def test_pages_follow_one_order_beyond_the_hits_that_are_ranked_again(corpus: Corpus) -> None:
    whole = corpus.search("red cotton shirt", k=300).hits
    assert [hit.id for hit in paged(corpus, "red cotton shirt", 300, 30)] == [
        hit.id for hit in whole
    ]
    scores = [hit.score for hit in whole]
    assert scores == sorted(scores, reverse=True)
    assert [("feedback" in hit.scores) for hit in whole] == [True] * 100 + [False] * 200


@pytest.mark.parametrize("mode", ["dense", "lexical"])
def test_one_retriever_has_no_feedback(corpus: Corpus, mode: Mode) -> None:
    assert all("feedback" not in hit.scores for hit in corpus.search("red", mode=mode).hits)


def test_what_is_named_stays_first(corpus: Corpus) -> None:
    first = corpus.search("P-7").hits[0]
    assert (first.document_id, first.score) == ("P-7", 1.0)


def test_first_of_few_hits_tell_nothing(corpus: Corpus) -> None:
    assert corpus.search("red", filter={"colour": "red"}).total < feedback.DEPTH
    assert "feedback" not in corpus.search("red", filter={"colour": "red"}).hits[0].scores


def test_filter_that_allows_nothing_has_no_hits(corpus: Corpus) -> None:
    assert corpus.search("red", filter={"colour": "none"}).hits == ()


def test_explanation_has_the_weight_and_the_reason_counts_it(corpus: Corpus) -> None:
    hit = corpus.search("red cotton shirt", explain=True).hits[0]
    assert hit.explanation is not None
    assert hit.explanation["feedback_weight"] == feedback.WEIGHT
    later = corpus.search("red cotton shirt", offset=feedback.DEPTH, explain=True).hits[0]
    assert later.explanation is not None
    assert later.explanation["feedback_weight"] == 0.0
    alone = {**hit.scores, "dense": 0.01, "lexical": 0.0, "feedback": 0.9}
    assert why("red", replace(hit, scores=alone)).endswith("mostly the other hits")
