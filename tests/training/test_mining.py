"""Mining hard negatives: compared with a plain ranking, by one process and by several."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from accelerate import Accelerator, InitProcessGroupKwargs
from hypothesis import given
from hypothesis import strategies as st

from purlin.index.errors import StorageFailed
from purlin.training import mining
from purlin.training.data.pairs.pair import Pair
from purlin.training.loop.devices import make_accelerator
from purlin.training.loop.settings import LoopSettings
from purlin.training.models.encoding import encode
from tests.support.code_pairs import PAIRS, save_code_bert, tiny
from tests.support.training_runs import largest_file, run_two_processes

pytestmark = pytest.mark.usefixtures("one_process")


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_code_bert(tmp_path_factory.mktemp("bert"))


@pytest.fixture
def accelerator() -> Accelerator:
    return make_accelerator(LoopSettings(precision="fp32"), cpu=True)


def test_mining_equals_exhaustive_search(
    bert: Path, tmp_path: Path, accelerator: Accelerator
) -> None:
    pairs = [
        *PAIRS[:20],
        replace(PAIRS[0], queries=("another one",)),
        replace(PAIRS[1], passage="return path"),
    ]
    text_model = tiny(bert).train()
    mining.mine(text_model, pairs, tmp_path / "mined.npy", depth=4, accelerator=accelerator)

    assert text_model.training

    queries = encode(text_model, [pair.queries[0] for pair in pairs], 16, accelerator)
    passages = encode(text_model, [pair.passage for pair in pairs], 48, accelerator)
    expected = []
    for row, pair in enumerate(pairs):
        scored = [
            (-float(queries[row] @ passages[candidate_row].astype(np.float16)), candidate_row)
            for candidate_row, candidate in enumerate(pairs)
            if candidate.passage != pair.passage and not {*candidate.queries} & {*pair.queries}
            if candidate.passage not in [before.passage for before in pairs[:candidate_row]]
        ]
        expected.append([candidate_row for _, candidate_row in sorted(scored)[:4]])
    mined = np.load(tmp_path / "mined.npy")
    assert mined.dtype == np.int32
    assert mined.tolist() == expected
    assert [path.name for path in tmp_path.iterdir()] == ["mined.npy"]


COPIES = [
    PAIRS[0],
    replace(PAIRS[0], queries=("x",)),
    replace(PAIRS[5], queries=PAIRS[0].queries[1:]),
    PAIRS[9],
]


RIGHT_FOR_TWO_QUERIES = [
    Pair(("first query",), PAIRS[3].passage),
    Pair(("second query",), PAIRS[3].passage),
    replace(PAIRS[7], queries=("second query",)),
    PAIRS[12],
]


@pytest.mark.parametrize(
    ("pairs", "depth", "expected"),
    [
        (COPIES, 3, [{3}, {2, 3}, {3}, {0, 2}]),
        (COPIES, 50, [{3}, {2, 3}, {3}, {0, 2}]),
        # Pairs without any negative stand for themselves, which the loss leaves out.
        ([PAIRS[0], replace(PAIRS[5], queries=PAIRS[0].queries)], 2, [{0}, {1}]),
        (RIGHT_FOR_TWO_QUERIES, 4, [{2, 3}, {3}, {3}, {0, 2}]),
        # What people judged irrelevant to another query.
        ([replace(PAIRS[0], negatives=("return path",)), PAIRS[1]], 2, [{1, 2}, {0, 2}]),
    ],
)
def test_right_passages_are_never_mined(
    bert: Path,
    tmp_path: Path,
    accelerator: Accelerator,
    pairs: list[Pair],
    depth: int,
    expected: list[set[int]],
) -> None:
    mining.mine(tiny(bert), pairs, tmp_path / "m.npy", depth=depth, accelerator=accelerator)

    mined = np.load(tmp_path / "m.npy")
    assert mined.shape == (len(pairs), depth)
    assert [set(row) for row in mined.tolist()] == expected


def test_candidates_are_passages_then_other_negatives() -> None:
    pairs = [replace(PAIRS[0], negatives=("return path", PAIRS[1].passage)), PAIRS[1]]
    assert mining.candidate_passages(pairs) == [PAIRS[0].passage, PAIRS[1].passage, "return path"]


@given(st.integers(1, 12), st.integers(1, 9), st.integers(1, 9))
def test_search_in_blocks_equals_one_ranking(passages: int, queries: int, depth: int) -> None:
    rng = np.random.default_rng(passages * 100 + queries * 10 + depth)
    # Whole numbers, so that there are ties, which go to the lower row.
    query_vectors = rng.integers(-2, 3, (queries, 2)).astype(np.float32)
    passage_vectors = rng.integers(-2, 3, (passages, 2)).astype(np.float16)
    expected = np.argsort(-(query_vectors @ passage_vectors.T), axis=1, kind="stable")

    rows = mining.best_rows(query_vectors, passage_vectors, depth, torch.device("cpu"))
    scores = np.take_along_axis(query_vectors @ passage_vectors.T, rows, axis=1)
    best = np.take_along_axis(query_vectors @ passage_vectors.T, expected[:, :depth], axis=1)
    assert np.array_equal(scores, best)


def mine_slowly(base: Path, out: Path) -> None:
    """Mine where a barrier gives up after eight seconds, and the first process encodes for ten."""
    limit = InitProcessGroupKwargs(timeout=timedelta(seconds=8))
    accelerator = Accelerator(cpu=True, kwargs_handlers=[limit])
    plain = mining.encode

    def slow(*arguments: Any) -> Any:
        if accelerator.is_main_process:
            time.sleep(10)
        return plain(*arguments)

    mining.encode = slow
    mining.mine(tiny(base), PAIRS[:8], out, depth=2, accelerator=accelerator)


@pytest.mark.long
def test_a_process_waits_longer_than_a_barrier_would(bert: Path, tmp_path: Path) -> None:
    run_two_processes(mine_slowly, bert, tmp_path / "mined.npy")
    assert np.load(tmp_path / "mined.npy").shape == (8, 2)


def test_mined_negatives_are_written_atomically(
    bert: Path, tmp_path: Path, accelerator: Accelerator
) -> None:
    with largest_file(30_000), pytest.raises(StorageFailed, match="cannot be written"):
        mining.mine(tiny(bert), PAIRS, tmp_path / "m.npy", depth=1000, accelerator=accelerator)
    assert not (tmp_path / "m.npy").exists()
