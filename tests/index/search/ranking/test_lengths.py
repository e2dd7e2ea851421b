from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from purlin.index import builds
from purlin.index.indexing.build import build
from purlin.index.records import Document
from purlin.index.search.corpus import Corpus
from purlin.index.search.ranking.lengths import SHORT, Short
from tests.support.documents import source
from tests.support.hash_encoder import HashEncoder

GETTER = "def retries(): return upload.retries"
WORK = (
    "def send(upload):\n    for attempt in range(upload.retries):\n        if put(upload):\n"
    "            return attempt\n        wait(2**attempt)\n    raise UploadFailed(upload)\n"
)


def test_factors_rise_with_the_logarithm_of_the_length() -> None:
    # From 32, 64 is half way to 128.
    factors = Short(128, 0.6).factors(np.array([0, 5, 32, 64, 128, 5000]))
    assert factors.tolist() == pytest.approx([0.6, 0.6, 0.6, 0.8, 1.0, 1.0])


def test_short_records_of_code_rank_after_longer_ones(tmp_path: Path) -> None:
    assert 32 < len(GETTER) < 160 < len(WORK)
    documents = [Document("getter", "code", "", GETTER), Document("work", "code", "", WORK)]
    encoder = HashEncoder()
    build(tmp_path, "c", "code", [source("records.jsonl", documents)], encoder)

    with closing(Corpus.load(builds.current(tmp_path, "c"), encoder)) as corpus:
        first, second = corpus.search("upload retries", mode="lexical", explain=True).hits
        assert (first.id, second.id) == ("work", "getter")

        # The words alone would have the getter first, and so the named one is.
        assert second.scores["lexical"] > first.scores["lexical"]
        [factor] = SHORT["code"].factors(np.array([len(GETTER)])).tolist()
        assert first.explanation is not None
        assert second.explanation is not None
        assert (first.explanation["prior"], second.explanation["prior"]) == (1.0, factor)
        assert second.score == pytest.approx(second.scores["lexical"] * factor, abs=1e-3)

        named = corpus.search("getter", mode="lexical").hits[0]
        assert (named.id, named.score) == ("getter", 1.0)
