"""Builds that are measured when they are made, and refused where they are worse than the active one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.open_builds import OpenCorpora
from index import builds
from index.builds import Manifest
from index.errors import EncoderMismatch, InvalidInput, NotFound, Worse
from index.evaluation import ranking
from index.indexing import gate
from index.indexing.build import build
from index.indexing.gate import Judgements
from index.records import Document
from index.search.corpus import Corpus
from tests.conftest import HashEncoder, source
from tests.serving import problem, serving

COUNT = 20
ADMIN = {"Authorization": "Bearer the-key-of-the-operator"}
KEYS = "operator admin the-key-of-the-operator"


def documents(found: int = COUNT, count: int = COUNT) -> list[Document]:
    """`count` documents, the first `found` of which hold the word that their query asks for."""
    words = [word(n) if n < found else "nothing" for n in range(count)]
    return [
        Document(f"d{n}", "reference", "entry", f"Tells of {one}.") for n, one in enumerate(words)
    ]


def word(number: int) -> str:
    return 3 * chr(ord("a") + number)


JUDGED = Judgements(
    {f"q{n}": word(n) for n in range(COUNT)}, {f"q{n}": {f"d{n}": 1.0} for n in range(COUNT)}
)


def made(
    home: Path, contents: list[Document], *, force: bool = False, judged: Judgements | None = JUDGED
) -> Manifest:
    return build(
        home, "c", "reference", [source("all", contents)], HashEncoder(), judged=judged, force=force
    )


def active(home: Path) -> str:
    return builds.current(home, "c").name


def refused(home: Path, contents: list[Document]) -> tuple[str, str]:
    """The build that was refused, and why."""
    before = builds.builds(home, "c")
    with pytest.raises(Worse) as raised:
        made(home, contents)
    (new,) = set(builds.builds(home, "c")) - set(before)
    return new, raised.value.message


def test_a_first_build_is_measured_as_the_evaluation_would(tmp_path: Path) -> None:
    manifest = made(tmp_path, documents(15))
    directory = builds.current(tmp_path, "c")
    assert builds.read_manifest(directory) == manifest
    opened = Corpus.load(directory, HashEncoder())
    for one in ranking.evaluate_run(gate.run_queries(opened, JUDGED), JUDGED.qrels):
        noted = manifest.measures[one.name]
        assert noted == pytest.approx(
            {"queries": 20, "mean": one.mean, "low": one.low, "high": one.high}, abs=1e-6
        )
    opened.close()
    assert manifest.measures["dense recall@100"] == 1.0
    assert 0.4 < manifest.measures["nDCG@10"]["low"] < manifest.measures["nDCG@10"]["mean"] < 1.0
    assert manifest.judged == {
        "measure": "nDCG@10", "queries": 20, "relevant": 20, "missing": 0, "against": None, "refused": False,
    }  # fmt: skip


def test_a_worse_build_is_kept_but_not_activated_and_the_message_says_all_that_is_needed(
    tmp_path: Path,
) -> None:
    made(tmp_path, documents())
    good = active(tmp_path)
    new, message = refused(tmp_path, documents(5))
    assert active(tmp_path) == good
    manifest = builds.read_manifest(builds.current(tmp_path, "c").parent / new)
    against = manifest.judged["against"]
    assert manifest.judged["refused"]
    assert against["build"] == good
    assert against["mean"] == 1.0
    assert against["low"] < against["difference"] < against["high"] < 0
    assert manifest.measures["nDCG@10"]["mean"] - against["mean"] == pytest.approx(
        against["difference"], abs=1e-5
    )
    for part in (
        new,
        good,
        "--force",
        "1.0000",
        f"{against['low']:+.4f} to {against['high']:+.4f}",
    ):
        assert part in message


def test_a_difference_within_its_interval_is_no_reason_to_refuse(tmp_path: Path) -> None:
    made(tmp_path, documents())
    against = made(tmp_path, documents(19)).judged["against"]
    assert against["low"] < against["difference"] < 0
    assert against["high"] == 0.0
    assert len(builds.builds(tmp_path, "c")) == 2
    assert active(tmp_path) == builds.builds(tmp_path, "c")[-1]


def test_a_better_build_is_activated_and_the_difference_noted(tmp_path: Path) -> None:
    made(tmp_path, documents(5))
    manifest = made(tmp_path, documents())
    assert manifest.judged["against"]["low"] > 0
    assert active(tmp_path) == builds.builds(tmp_path, "c")[-1]
    assert "difference +" in gate.measurement_summary(manifest)


def test_the_measure_that_is_named_decides(tmp_path: Path) -> None:
    made(tmp_path, documents())
    by_recall = Judgements(JUDGED.queries, JUDGED.qrels, "Recall@100")
    manifest = made(
        tmp_path, documents(5), judged=by_recall
    )  # all 20 are still among the first 100
    assert manifest.measures["nDCG@10"]["mean"] < 0.9
    assert manifest.judged["against"]["difference"] == 0.0


def test_force_activates_what_is_worse(tmp_path: Path) -> None:
    made(tmp_path, documents())
    manifest = made(tmp_path, documents(5), force=True)
    assert manifest.judged["against"]["high"] < 0
    assert not manifest.judged["refused"]
    assert active(tmp_path) == builds.builds(tmp_path, "c")[-1]


def test_documents_that_went_missing_count_as_not_found_and_are_told(tmp_path: Path) -> None:
    made(tmp_path, documents())
    _, message = refused(tmp_path, documents(8, count=8))
    assert "12 of 20 relevant documents are not in this build" in message


def test_refused_builds_do_not_push_out_good_ones_and_are_never_rolled_back_to(
    tmp_path: Path,
) -> None:
    made(tmp_path, documents(19))
    made(tmp_path, documents())
    first, second = builds.builds(tmp_path, "c")
    for found in (1, 2, 3, 4):
        last, _ = refused(tmp_path, documents(found))
    assert builds.builds(tmp_path, "c") == [first, second, last]
    made(tmp_path, documents(20, count=21))
    assert builds.builds(tmp_path, "c")[:3] == [first, second, last]
    assert builds.roll_back(tmp_path, "c") == second
    assert builds.roll_back(tmp_path, "c") == first
    with pytest.raises(NotFound, match="no build before"):
        builds.roll_back(tmp_path, "c")


def test_a_refused_build_is_activated_only_by_force(tmp_path: Path) -> None:
    made(tmp_path, documents())
    new, _ = refused(tmp_path, documents(5))
    with pytest.raises(Worse, match="was refused"):
        builds.activate(tmp_path, "c", new)
    with serving(tmp_path, keys=KEYS) as client:
        answer = client.post("/corpora/c/activate", json={"build": new}, headers=ADMIN)
        assert problem(answer, 409)["type"] == "urn:purlin:problem:worse"
        answer = client.post(
            "/corpora/c/activate", json={"build": new, "force": True}, headers=ADMIN
        )
        assert answer.json() == {"corpus": "c", "build": new}
    assert active(tmp_path) == new


def test_a_server_without_a_readable_current_passes_over_a_refused_build(tmp_path: Path) -> None:
    made(tmp_path, documents())
    good = active(tmp_path)
    refused(tmp_path, documents(5))
    (tmp_path / "corpora/c/CURRENT").write_text("torn")
    corpora = OpenCorpora(tmp_path, HashEncoder(), timeout_s=10)
    with corpora.lease("c") as opened:
        assert opened.build == good
    corpora.close()


def test_judgements_of_another_corpus_are_refused_before_anything_is_encoded(
    tmp_path: Path,
) -> None:
    other = Judgements({"q": "bbb"}, {"q": {"elsewhere.py::f": 1.0}})
    encoder = HashEncoder()
    with pytest.raises(
        InvalidInput, match=r"None of the 1 relevant documents .* 'elsewhere.py::f'. Are these"
    ):
        build(tmp_path, "c", "reference", [source("all", documents())], encoder, judged=other)
    assert encoder.encoded == []
    assert not (tmp_path / "corpora/c").exists()
    made(tmp_path, documents())
    with pytest.raises(InvalidInput, match="Are these the judgements of another corpus"):
        made(tmp_path, documents(5), judged=other)
    assert len(builds.builds(tmp_path, "c")) == 1


class Other(HashEncoder):
    fingerprint = "hash-other"


def test_a_build_of_another_encoder_is_compared_by_what_was_kept_of_it(tmp_path: Path) -> None:
    made(tmp_path, documents(19))
    before = active(tmp_path)
    noted = builds.read_manifest(builds.current(tmp_path, "c")).measures["nDCG@10"]["mean"]
    with pytest.raises(Worse, match="is worse"):
        build(tmp_path, "c", "reference", [source("all", documents(5))], Other(), judged=JUDGED)
    assert active(tmp_path) == before
    manifest = build(
        tmp_path, "c", "reference", [source("all", documents())], Other(), judged=JUDGED
    )
    against = manifest.judged["against"]
    assert (against["build"], against["mean"], against["missing"]) == (before, noted, 0)
    assert active(tmp_path) != before


def test_without_the_same_judgements_a_build_of_another_encoder_is_not_compared(
    tmp_path: Path,
) -> None:
    made(tmp_path, documents())
    half = Judgements(
        JUDGED.queries, {query: JUDGED.qrels[query] for query in list(JUDGED.qrels)[:10]}
    )
    manifest = build(
        tmp_path, "c", "reference", [source("all", documents(5))], Other(), judged=half
    )
    assert "was built with encoder" in manifest.judged["against"]["problem"]
    assert "Not compared" in gate.measurement_summary(manifest)
    made(tmp_path, documents(), judged=None)
    manifest = build(
        tmp_path, "c", "reference", [source("all", documents(5))], Other(), judged=JUDGED
    )
    assert "was built with encoder" in manifest.judged["against"]["problem"]
    with pytest.raises(EncoderMismatch):
        Corpus.load(builds.current(tmp_path, "c"), HashEncoder())


def test_a_damaged_build_is_not_compared_with(tmp_path: Path) -> None:
    made(tmp_path, documents())
    (builds.current(tmp_path, "c") / "judged.json").write_text("{}")
    manifest = made(tmp_path, documents(5))
    assert "judged.json has 2 bytes" in manifest.judged["against"]["problem"]


def test_builds_from_before_there_were_judgements_are_still_read(tmp_path: Path) -> None:
    made(tmp_path, documents(), judged=None)
    directory = builds.current(tmp_path, "c")
    values = json.loads((directory / "manifest.json").read_text())
    assert values.pop("judged") == {}
    assert builds._manifest(values, directory).judged == {}


def test_a_corpus_shows_how_good_it_was_measured_to_be(tmp_path: Path) -> None:
    made(tmp_path, documents())
    made(tmp_path, documents(19))
    with serving(tmp_path) as client:
        client.post("/search", json={"query": "bbb", "corpus": "c"})
        shown = client.get("/corpora/c").json()
    assert shown["measures"]["nDCG@10"].keys() == {"queries", "mean", "low", "high"}
    assert shown["judged"]["measure"] == "nDCG@10"
    assert shown["judged"]["queries"] == 20
    assert shown["judged"]["against"]["difference"] < 0


@pytest.mark.parametrize(
    ("queries", "qrels", "measure", "wrong"),
    [
        (
            '{"_id": "q", "text": "word"}',
            "q\td\t1",
            "map",
            "measure is 'map'; use ndcg@10, mrr@100, recall@100",
        ),
        ('{"_id": "other", "text": "word"}', "q\td\t1", "ndcg@10", "None of the queries judged"),
        (
            '{"_id": "q", "text": "word"}',
            "q\td\t0",
            "ndcg@10",
            "None of the 1 judged queries has a relevant",
        ),
        ('{"_id": "q", "text": " "}', "q\td\t1", "ndcg@10", "query 'q': query is empty"),
        (
            '{"_id": "q", "text": "\\ud800 x"}',
            "q\td\t1",
            "ndcg@10",
            "query 'q': query is not valid Unicode",
        ),
    ],
)
def test_judgements_that_could_not_be_used_are_refused_when_read(
    tmp_path: Path, queries: str, qrels: str, measure: str, wrong: str
) -> None:
    (tmp_path / "queries.jsonl").write_text(queries)
    (tmp_path / "qrels.tsv").write_text(qrels)
    with pytest.raises(InvalidInput, match=wrong):
        Judgements.read(tmp_path / "queries.jsonl", tmp_path / "qrels.tsv", measure)


def test_measures_are_named_in_any_case(tmp_path: Path) -> None:
    (tmp_path / "queries.jsonl").write_text('{"_id": "q", "text": "word"}')
    (tmp_path / "qrels.tsv").write_text("q\td\t1")
    assert (
        Judgements.read(tmp_path / "queries.jsonl", tmp_path / "qrels.tsv", "MRR@100").measure
        == "MRR@100"
    )
