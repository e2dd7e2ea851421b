from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from purlin.index.records import Document, Kind
from purlin.index.search.corpus import Corpus
from purlin.index.search.ranking.fusion import (
    DENSE,
    HYBRID,
    LEXICAL,
    WORDS_LEAD,
    Fusion,
)
from tests.support.corpora import new_corpus
from tests.support.documents import source


def test_weighted_mean_by_hand() -> None:
    cosines, shares = np.array([0.5, -0.2, 1.0], np.float32), np.array([0.1, 0.4, 1.0], np.float32)
    np.testing.assert_allclose(
        Fusion(0.75, 2).fuse(cosines, shares), [0.3775, 0.04, 1.0], rtol=1e-6
    )
    np.testing.assert_allclose(DENSE.fuse(cosines, shares), [0.5, 0.0, 1.0])
    np.testing.assert_allclose(LEXICAL.fuse(cosines, shares), [0.1, 0.4, 1.0])


@given(st.floats(-1, 1, width=32), st.floats(0, 1, width=32), st.floats(0, 1), st.floats(1, 9))
def test_fused_scores_are_within_0_and_1(
    cosine: float, share: float, weight: float, power: float
) -> None:
    fused = Fusion(weight, power).fuse(
        np.array([cosine], np.float32), np.array([share], np.float32)
    )
    assert 0 <= fused[0] <= 1


@pytest.mark.parametrize("fusion", HYBRID.values(), ids=str)
def test_both_retrievers_count_for_every_kind(fusion: Fusion) -> None:
    assert 0 < fusion.dense_weight < 1
    assert fusion.lexical_power >= 1


def _corpus(home: Path, kind: Kind) -> Corpus:
    titles = ["EliteBook 8540p", "Drive 1000 GB", "Kettle 1500 W"]
    titles += [f"Pen {n}, box 2024" for n in range(30)]
    made = [Document(f"P{n}", kind, title, title) for n, title in enumerate(titles)]
    return new_corpus(home, kind, [source("shop.csv", made)])


@pytest.mark.parametrize(
    ("query", "has_code"),
    [
        ("elitebook 8540p battery", True),
        ("elitebook8540", True),
        ("elitebook battery", False),
        # Quantities, a number that many products have, and a code that none has.
        ("drive 1 tb", False),
        ("kettle 1500w", False),
        ("pen 2024", False),
        ("elitebook 9999x", False),
        (" ".join(f"x{number}y" for number in range(100, 200)) + " 8540p", False),
    ],
)
def test_words_lead_for_products_where_a_query_has_a_code(
    tmp_path: Path, query: str, has_code: bool
) -> None:
    weights = {}
    for kind in ("product", "reference"):
        corpus = _corpus(tmp_path / kind, kind)
        hit = corpus.search(query, k=1, explain=True).hits[0]
        assert hit.explanation is not None
        weights[kind] = hit.explanation["dense_weight"]
        corpus.close()

    expected = WORDS_LEAD if has_code else HYBRID["transformer", "product"].dense_weight
    assert weights == {
        "product": expected,
        "reference": HYBRID["transformer", "reference"].dense_weight,
    }
