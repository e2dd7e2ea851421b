"""Reading pairs of any format: limits, damage, and arbitrary rows."""

from __future__ import annotations

import gzip
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from purlin.index.errors import InvalidInput, NotFound
from purlin.training.data.pairs.formats import read_pairs
from purlin.training.data.pairs.pair import Pair, PairSource
from tests.support.files import write_jsonl
from tests.support.pair_files import assert_clean, read_all


def test_source_without_usable_pairs_is_refused(tmp_path: Path) -> None:
    path = write_jsonl(
        tmp_path / "a.jsonl", [{"text": "one column only"}, {"text": "another of these"}]
    )
    with pytest.raises(
        InvalidInput, match=r"a\.jsonl has no usable pair.*2 were skipped.*line 1\): has no passage"
    ):
        list(read_pairs(PairSource("pairs", path)))
    path.write_text("")
    with pytest.raises(InvalidInput, match="holds no rows"):
        list(read_pairs(PairSource("pairs", path)))
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidInput, match="it is empty"):
        list(read_pairs(PairSource("pairs", tmp_path / "empty")))
    with pytest.raises(NotFound, match=r"none\.jsonl"):
        read_pairs(PairSource("pairs", tmp_path / "none.jsonl"))


def test_limit_and_damaged_gzip(tmp_path: Path) -> None:
    rows = "".join(
        json.dumps({"query": f"the row number {n}", "passage": f"n = {n}"}) + "\n"
        for n in range(500)
    )
    whole = tmp_path / "a.jsonl.gz"
    whole.write_bytes(gzip.compress(rows.encode()))
    assert len(list(read_pairs(PairSource("pairs", whole, limit=3)))) == 3
    cut = tmp_path / "b.jsonl.gz"
    cut.write_bytes(whole.read_bytes()[:-40])
    pairs, (skipped,) = read_all(PairSource("pairs", cut))
    assert 0 < len(pairs) < 501
    assert "cannot be read from here on" in skipped.reason


_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(exclude_categories=())),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
_COLUMN = st.sampled_from(
    "query queries docstring summary text passage code doc label docstring_tokens".split()
)
_TABLE = st.sampled_from(["pairs", "codesearchnet", "advtest", "cosqa", "esci"])


@settings(max_examples=150)
@given(
    rows=st.lists(st.dictionaries(_COLUMN | st.text(max_size=4), _JSON), max_size=4), format=_TABLE
)
def test_arbitrary_rows_give_clean_pairs(rows: list[dict[str, Any]], format: Any) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = write_jsonl(
            Path(directory) / "rows.jsonl",
            [*rows, {"query": "how to sort a list", "passage": "sorted(x)"}],
        )
        try:
            items = list(read_pairs(PairSource(format, path)))
        except InvalidInput:
            # The valid row that is added makes a pair in this format only.
            assert format != "pairs"
            return
    for pair in (item for item in items if isinstance(item, Pair)):
        assert_clean(pair)
