"""Measures against worked examples and ir_measures; files against their formats."""

from __future__ import annotations

import gzip
import itertools
import math
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import ir_measures
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from ir_measures import RR, R, nDCG

from purlin.index.errors import InvalidInput, NotFound, StorageFailed
from purlin.index.evaluation.ranking import (
    compare_runs,
    escaped,
    evaluate_run,
    ndcg,
    read_qrels,
    read_queries,
    recall,
    reciprocal_rank,
    unescaped,
    write_run,
)

DOCUMENTS = [f"d{number}" for number in range(130)]
grades = st.dictionaries(st.sampled_from(DOCUMENTS), st.integers(-1, 3), min_size=1, max_size=30)
rankings = st.lists(st.sampled_from(DOCUMENTS), unique=True)
judgements = st.dictionaries(st.sampled_from(["q1", "q2", "q3", "q4"]), grades, min_size=1)
runs = st.dictionaries(st.sampled_from(["q1", "q2", "q3", "q4", "unjudged"]), rankings)


def test_reciprocal_rank_within_the_depth() -> None:
    assert reciprocal_rank(["a", "b", "c"], {"b", "c"}) == 0.5
    assert reciprocal_rank(["a", "b", "c"], {"c"}, depth=2) == 0.0
    assert reciprocal_rank([], {"c"}) == 0.0


def test_ndcg_with_fractional_grades_by_hand() -> None:
    gains = {"a": 0.5, "b": 2.5, "c": 0.0, "d": -1.0}
    gained = 0.0 + 0.5 / math.log2(3) + 2.5 / math.log2(5)
    assert ndcg(["c", "a", "d", "b"], gains) == pytest.approx(gained / (2.5 + 0.5 / math.log2(3)))
    assert ndcg(["b", "a"], gains) == 1.0
    assert ndcg(["c", "a"], gains, depth=1) == 0.0
    assert ndcg(["c"], {"c": 0.0}) == 0.0


def test_ndcg_ignores_the_order_of_equal_grades() -> None:
    gains = {"a": 2.0, "b": 2.0, "c": 1.0}
    assert ndcg(["a", "b", "c"], gains) == ndcg(["b", "a", "c"], gains) == 1.0


def test_recall_counts_a_repeated_document_once() -> None:
    assert recall(["a", "x", "b"], {"a", "b", "c", "d"}) == 0.5
    assert recall(["a", "x", "b"], {"a", "b", "c", "d"}, depth=2) == 0.25
    assert recall(["a", "a", "a", "b"], {"a", "b"}, depth=2) == 1.0


def test_missing_queries_count_zero() -> None:
    qrels = {"q1": {"a": 1.0}, "q2": {"b": 0.5}, "q3": {"c": 0.0}}
    mrr, gain, share = evaluate_run({"q1": ["x", "a"], "q3": ["c"]}, qrels)
    assert (mrr.name, mrr.mean, mrr.queries, mrr.left_out) == ("MRR@100", 0.25, 2, 1)
    assert (gain.name, gain.mean, gain.queries) == ("nDCG@10", pytest.approx(0.5 / math.log2(3)), 2)
    assert (share.name, share.mean, share.queries) == ("Recall@100", 0.5, 2)


def test_no_relevant_document_is_refused() -> None:
    with pytest.raises(InvalidInput, match="None of the 1 judged queries"):
        evaluate_run({"q": ["a"]}, {"q": {"a": 0.0}})


def test_interval_of_binary_values_is_binomial() -> None:
    qrels = {f"q{number}": {"a": 1.0} for number in range(400)}
    run = {f"q{number}": ["a"] for number in range(100)}
    mrr = evaluate_run(run, qrels)[0]
    spread = 1.96 * math.sqrt(0.25 * 0.75 / 400)
    assert (mrr.low, mrr.high) == pytest.approx((0.25 - spread, 0.25 + spread), abs=0.005)
    assert evaluate_run(run, qrels)[0] == mrr


def test_one_query_has_an_interval_without_width() -> None:
    mrr = evaluate_run({"q": ["x", "a"]}, {"q": {"a": 1.0}})[0]
    assert (mrr.low, mrr.mean, mrr.high) == (0.5, 0.5, 0.5)


def _qrels(judged: dict[str, dict[str, int]]) -> list[ir_measures.Qrel]:
    return [
        ir_measures.Qrel(query, document, grades_of[document])
        for query, grades_of in judged.items()
        for document in grades_of
    ]


def _scored(run: dict[str, list[str]]) -> Iterator[ir_measures.ScoredDoc]:
    for query, ranking in run.items():
        for rank, document in enumerate(ranking):
            yield ir_measures.ScoredDoc(query, document, float(-rank))


@given(judgements, runs)
def test_measures_equal_those_of_ir_measures(
    qrels: dict[str, dict[str, int]], run: dict[str, list[str]]
) -> None:
    assume(all(any(grade > 0 for grade in judged.values()) for judged in qrels.values()))
    theirs = ir_measures.calc_aggregate(
        [RR @ 100, nDCG @ 10, R @ 100], _qrels(qrels), list(_scored(run))
    )
    ours = [measure.mean for measure in evaluate_run(run, qrels)]
    assert ours == pytest.approx([theirs[RR @ 100], theirs[nDCG @ 10], theirs[R @ 100]], abs=1e-9)


def test_compare_finds_a_small_steady_gain() -> None:
    ranks = itertools.cycle([1, 2, 3, 5, 8])
    qrels = {f"q{number}": {"a": 1.0} for number in range(60)}
    run_a = {query: [*map(str, range(next(ranks))), "a"] for query in qrels}
    run_b = {query: ranking[1:] for query, ranking in run_a.items()}
    mrr = compare_runs(run_a, run_b, qrels)[0]
    assert mrr.mean == pytest.approx(mrr.mean_b - mrr.mean_a)
    assert 0 < mrr.low < mrr.mean < mrr.high
    assert mrr.p == pytest.approx(1e-4, rel=0.01)
    assert mrr.queries == 60


def test_compare_of_equal_runs_finds_no_difference() -> None:
    qrels = {f"q{number}": {"a": 1.0} for number in range(40)}
    run_a = {query: ["a"] if number % 2 else ["x", "a"] for number, query in enumerate(qrels)}
    run_b = {query: ["x", "a"] if number % 2 else ["a"] for number, query in enumerate(qrels)}
    same, mirrored = compare_runs(run_a, run_a, qrels)[0], compare_runs(run_a, run_b, qrels)[0]
    assert (same.mean, same.low, same.high, same.p) == (0.0, 0.0, 0.0, 1.0)
    assert (mirrored.mean, mirrored.p) == (0.0, 1.0)
    assert mirrored.low < 0 < mirrored.high


def test_sign_test_p_of_few_queries() -> None:
    qrels = {f"q{number}": {"a": 1.0} for number in range(4)}
    better = compare_runs({}, {query: ["a"] for query in qrels}, qrels)[0]
    assert better.p == pytest.approx(2 / 2**4, abs=0.01)


def test_drawing_in_blocks_changes_no_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    qrels = {f"q{number}": {"a": 1.0} for number in range(30)}
    run = {query: ["a"] for query in list(qrels)[:10]}
    whole = evaluate_run(run, qrels)[0]
    monkeypatch.setattr("purlin.index.evaluation.ranking._BLOCK", 30 * 7)
    assert evaluate_run(run, qrels)[0] == whole


@pytest.mark.parametrize("name", ["queries.jsonl", "queries.jsonl.gz"])
def test_read_queries_plain_and_packed(tmp_path: Path, name: str) -> None:
    lines = '\ufeff{"_id": "q1", "text": "größe 42", "split": "dev"}\n\n{"_id": 2, "text": ""}\n'
    content = lines.encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    assert read_queries(tmp_path / name) == {"q1": "größe 42", "2": ""}


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"_id": "q2", "text"', "line 2: not valid JSON"),
        ('{"_id": "q2"}', "line 2: expected"),
        ('["q2", "text"]', "line 2: expected"),
        ('{"_id": "q1", "text": "again"}', "line 2: query 'q1' comes twice"),
        ("[" * 100_000, "line 2: not valid JSON"),
        (" " * (1 << 20) + "{}", "line 2: longer than 1,048,576"),
    ],
)
def test_malformed_query_is_named(tmp_path: Path, line: str, problem: str) -> None:
    path = tmp_path / "queries.jsonl"
    path.write_text(f'{{"_id": "q1", "text": "one"}}\n{line}\n', encoding="utf-8")
    with pytest.raises(InvalidInput, match=problem) as raised:
        read_queries(path)
    assert str(path) in raised.value.message


def test_unreadable_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="does not exist"):
        read_queries(tmp_path / "none.jsonl")
    packed = tmp_path / "cut.jsonl.gz"
    packed.write_bytes(gzip.compress(b'{"_id": "q1", "text": "one"}\n' * 100)[:-9])
    with pytest.raises(InvalidInput, match=r"cut\.jsonl\.gz, line \d+: "):
        read_queries(packed)
    latin = tmp_path / "latin.jsonl"
    latin.write_bytes('{"_id": "q1", "text": "größe"}\n'.encode("latin-1"))
    with pytest.raises(InvalidInput, match="line 1: cannot be read"):
        read_queries(latin)


def test_read_qrels_of_beir_and_trec(tmp_path: Path) -> None:
    expected = {"q1": {"a b": 2.5, "c": 0.0}, "q2": {"a b": -1.0}}
    rows = "q1\ta b\t2.5\nq1\tc\t0\n\nq2\ta b\t-1\n"
    for text in (f"query-id\tcorpus-id\tscore\n{rows}", rows, rows.replace("\n", "\r\n")):
        (tmp_path / "qrels.tsv").write_text(text, encoding="utf-8", newline="")
        assert read_qrels(tmp_path / "qrels.tsv") == expected
    (tmp_path / "qrels.txt").write_text("q1 0 a 3\nq1\t0\tb\t0\n", encoding="utf-8")
    assert read_qrels(tmp_path / "qrels.txt") == {"q1": {"a": 3.0, "b": 0.0}}


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("q1\ta\thigh", "line 2: grade 'high' is not a number"),
        ("q1\ta\tnan", "line 2: grade 'nan'"),
        ("q1\ta", "line 2: expected 3 tab-separated columns"),
        ("q1\t\t1", "line 2: expected 3 tab-separated columns"),
    ],
)
def test_a_malformed_judgement_is_named_by_line(tmp_path: Path, line: str, problem: str) -> None:
    path = tmp_path / "qrels.tsv"
    path.write_text(f"q1\td\t1\n{line}\n", encoding="utf-8")
    with pytest.raises(InvalidInput, match=problem):
        read_qrels(path)


tricky = st.sampled_from(
    ["%", "%20", "%2", "% 41", "%e9", " ", "\t", "\r\n", "\x85", "\u2028", "\ufeff", "\ud83d\ude00"]
)
identifiers = (
    st.lists(st.text(st.characters(exclude_categories=[])) | tricky, min_size=1)
    .map("".join)
    .filter(len)
)


@settings(max_examples=60)
@given(
    st.dictionaries(
        identifiers, st.lists(identifiers, unique=True, min_size=1, max_size=4), max_size=4
    )
)
@example({"a b%20c": ["src/my file.py", "src/my%20file.py", "\ufeff", "\ud800", "\xe9t\xe9"]})
def test_run_file_round_trips_any_ids(tmp_path: Path, run: dict[str, list[str]]) -> None:
    path = tmp_path / "run.txt"
    write_run(path, run)
    rows = [line.split() for line in path.read_text(encoding="utf-8").splitlines()]
    assert {len(row) for row in rows} <= {6}
    expected = [(query, document) for query, ranking in run.items() for document in ranking]
    assert [(unescaped(row[0]), unescaped(row[2])) for row in rows] == expected
    theirs = [(row.query_id, row.doc_id, row.score) for row in ir_measures.read_trec_run(str(path))]
    assert theirs == [(row[0], row[2], float(row[4])) for row in rows]


@given(identifiers)
def test_escaped_ids_are_url_encoded(identifier: str) -> None:
    column = escaped(identifier)
    assert column.isprintable()
    assert column.split() == [column]
    assert unquote(column, errors="surrogatepass") == identifier


def test_ids_are_escaped_no_more_than_columns_need(tmp_path: Path) -> None:
    assert [escaped(text) for text in ("größe/ü+é~?&=#", "日本", "a b", "100%", "a\u00a0b")] == [
        "größe/ü+é~?&=#", "日本", "a%20b", "100%25", "a%C2%A0b",
    ]  # fmt: skip
    assert write_run(tmp_path / "run.txt", {"q": ["plain", "größe"]}) == 0
    assert write_run(tmp_path / "run.txt", {"q 1": ["a b", "c"], "q 2": ["a b", "d%"]}) == 4


@pytest.mark.parametrize("column", ["100%", "%zz", "%ff", "%e9t%e9", "%"])
def test_what_is_no_escape_stays_as_it_is(column: str) -> None:
    assert unescaped(column) == column


def test_only_trec_qrels_are_unescaped(tmp_path: Path) -> None:
    (tmp_path / "trec.txt").write_text("q%201 0 my%20file.py 2\n", encoding="utf-8")
    (tmp_path / "beir.tsv").write_text("q%201\tmy%20file.py\t2\n", encoding="utf-8")
    assert read_qrels(tmp_path / "trec.txt") == {"q 1": {"my file.py": 2.0}}
    assert read_qrels(tmp_path / "beir.tsv") == {"q%201": {"my%20file.py": 2.0}}


def test_a_written_run_is_one_that_ir_measures_reads(tmp_path: Path) -> None:
    path = tmp_path / "run.txt"
    write_run(path, {"q1": ["b", "a"]})
    row = path.read_text(encoding="utf-8").splitlines()[1]
    assert row.split() == ["q1", "Q0", "a", "2", "0.5", "purlin"]
    read = [(row.query_id, row.doc_id, row.score) for row in ir_measures.read_trec_run(str(path))]
    assert read == [("q1", "b", 1.0), ("q1", "a", 0.5)]


def test_failed_write_leaves_the_old_run(tmp_path: Path) -> None:
    path = tmp_path / "run.txt"
    write_run(path, {"q": ["old"]})
    with pytest.raises(InvalidInput, match="An id is empty"):
        write_run(path, {"q": ["a", ""]})
    with pytest.raises(StorageFailed, match="No such file"):
        write_run(tmp_path / "missing" / "run.txt", {"q": ["a"]})
    assert path.read_text(encoding="utf-8").split()[2] == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["run.txt"]


def test_of_several_grades_the_last_counts(tmp_path: Path) -> None:
    path = tmp_path / "qrels.tsv"
    path.write_text("query-id\tcorpus-id\tscore\nq\td\t1\nq\te\t2\nq\td\t3\n")
    assert read_qrels(path) == {"q": {"d": 3.0, "e": 2.0}}
