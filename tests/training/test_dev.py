"""Dev sets: what is judged in them, and the measures of a model on them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from accelerate import Accelerator
from torch import Tensor

from purlin.index.errors import InvalidInput, NotFound
from purlin.index.evaluation.ranking import evaluate_run
from purlin.training.data.judged import JudgedSet
from purlin.training.dev import LOSS_BATCH, DevEvaluator, DevSet, rank_passages, read_dev_set
from purlin.training.loop.devices import make_accelerator
from purlin.training.loop.settings import LoopSettings
from purlin.training.models.encoding import encode
from purlin.training.models.settings import ModelSettings
from purlin.training.models.text_model import TextModel
from tests.support.code_pairs import PAIRS, save_code_bert, tiny
from tests.support.files import write_jsonl

pytestmark = pytest.mark.usefixtures("one_process")


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_code_bert(tmp_path_factory.mktemp("bert"))


@pytest.fixture
def accelerator() -> Accelerator:
    return make_accelerator(LoopSettings(precision="fp32"), cpu=True)


class Counting(TextModel):
    """Counts words: the texts that share most words are nearest."""

    def _vectors(self, ids: Tensor, mask: Tensor, role: str) -> Tensor:
        counts = torch.zeros(len(ids), len(self.tokenizer))
        return counts.scatter_add_(1, ids, mask.float())


@pytest.fixture
def counting(bert: Path) -> Counting:
    return Counting(ModelSettings(base=str(bert)), tiny(bert).tokenizer)


def write_beir(directory: Path) -> Path:
    texts = ["read the file", "copy the map at once", "close a line", "move"]
    corpus = {f"d{number}": text for number, text in enumerate(texts, start=1)}
    queries = {"q1": "read file", "q2": "copy the line a", "q3": "move", "unjudged": "read"}
    (directory / "qrels").mkdir(parents=True)
    for name, texts in (("corpus", corpus), ("queries", queries)):
        rows = ({"_id": key, "title": "", "text": text} for key, text in texts.items())
        write_jsonl(directory / f"{name}.jsonl", rows)
    judged = [("q1", "d1"), ("q2", "d2"), ("q3", "d4"), ("q3", "d1"), ("gone", "d1")]
    lines = "".join(f"{query}\t{document}\t1\n" for query, document in judged)
    (directory / "qrels/dev.tsv").write_text("query-id\tcorpus-id\tscore\n" + lines)

    return directory


def test_measures_of_a_judged_directory(
    counting: Counting, tmp_path: Path, accelerator: Accelerator
) -> None:
    dev_set = DevSet(name="small", path=write_beir(tmp_path), kind="reference")
    judged = read_dev_set(dev_set)

    assert judged.queries == {"q1": "read file", "q2": "copy the line a", "q3": "move"}
    assert judged.passages.keys() == {"d1", "d2", "d3", "d4"}

    run = rank_passages(counting, judged, accelerator)
    assert [run[query][0] for query in ("q1", "q2", "q3")] == ["d1", "d3", "d4"]
    assert run["q2"][1] == "d2"
    second = replace(dev_set, name="two", measure="Recall@100")
    measures = DevEvaluator([dev_set, second], counting.train(), accelerator).measure()
    assert counting.training
    assert measures == {
        "dev mean": pytest.approx(11 / 12),
        "dev small MRR@100": pytest.approx(5 / 6),
        "dev two Recall@100": 1.0,
    }
    expected = {measure.name: measure.mean for measure in evaluate_run(run, judged.qrels)}
    assert expected["MRR@100"] == measures["dev small MRR@100"]
    assert read_dev_set(replace(dev_set, limit=2)).queries.keys() == {"q1", "q2"}


def test_measures_of_pairs(counting: Counting, tmp_path: Path, accelerator: Accelerator) -> None:
    rows = [
        ("read the file at once", "read the file"),
        ("copy the map at once", "copy a line"),
        ("copy the map at once", "copy the map"),
        ("how to read a file", "read the file"),
    ]
    write_jsonl(tmp_path / "dev.jsonl", ({"query": query, "code": code} for query, code in rows))
    dev_set = DevSet(name="held", path=tmp_path / "dev.jsonl", format="pairs")

    assert read_dev_set(dev_set) == JudgedSet(
        {str(number): query for number, (query, _) in enumerate(rows)},
        {"0": "read the file", "1": "copy a line", "2": "copy the map"},
        {"0": {"0": 1.0}, "1": {"1": 1.0, "2": 1.0}, "2": {"1": 1.0, "2": 1.0}, "3": {"0": 1.0}},
    )
    expected = {"dev mean": 1.0, "dev held MRR@100": 1.0}
    assert DevEvaluator([dev_set], counting.eval(), accelerator).measure() == expected
    assert not counting.training


def test_dev_loss_is_equation_3(bert: Path, tmp_path: Path, accelerator: Accelerator) -> None:
    lines = [
        {"query": pair.queries[0], "code": passage_of.passage}
        for number, pair in enumerate(PAIRS)
        for passage_of in (pair, PAIRS[(number + 1) % 3])
    ]
    write_jsonl(tmp_path / "dev.jsonl", lines)
    dev_set = DevSet(name="held", path=tmp_path / "dev.jsonl", format="pairs", measure="-loss")
    text_model, judged = tiny(bert).eval(), read_dev_set(dev_set)
    queries = encode(text_model, [*judged.queries.values()], 32, accelerator)
    passages = encode(text_model, [*judged.passages.values()], 32, accelerator)
    scores = dict(zip(judged.queries, np.exp(queries @ passages.T / 0.5).tolist(), strict=True))
    columns = {name: column for column, name in enumerate(judged.passages)}
    relevant = {number: next(iter(judged.qrels[number])) for number in judged.queries}
    losses = []
    for numbers in (
        list(relevant)[start : start + LOSS_BATCH] for start in range(0, len(relevant), LOSS_BATCH)
    ):
        for number in numbers:
            right = scores[number][columns[relevant[number]]]
            others = [relevant[other] for other in numbers]
            wrong = sum(
                scores[number][columns[name]] for name in others if name not in judged.qrels[number]
            )
            losses.append(-np.log(right / (right + wrong)))
    measures = DevEvaluator([dev_set], text_model, accelerator, temperature=0.5).measure()

    assert measures == {
        "dev mean": pytest.approx(-np.mean(losses), rel=1e-4),
        "dev held -loss": measures["dev mean"],
    }
    assert len(relevant) > LOSS_BATCH or len(relevant) == len(lines)


def test_a_dev_set_without_judgements_is_refused(tmp_path: Path) -> None:
    dev_set = DevSet(name="small", path=write_beir(tmp_path), kind="reference")
    (tmp_path / "queries.jsonl").write_text('{"_id": "other", "text": "read"}\n')
    with pytest.raises(InvalidInput, match="small has no judged query"):
        read_dev_set(dev_set)
    (tmp_path / "corpus.jsonl").unlink()
    with pytest.raises(NotFound, match=r"no corpus\.jsonl"):
        read_dev_set(dev_set)
