"""Builds that are measured when they are made, and refused where they are worse than the active one."""

from __future__ import annotations

from pathlib import Path

import pytest

from purlin.app.corpora.open_corpora import OpenCorpora
from purlin.app.encoding import Encoders
from purlin.index import builds
from purlin.index.builds.manifests import Manifest, read_manifest
from purlin.index.engines import hosting
from purlin.index.errors import EncoderMismatch, InvalidInput, NotFound, Worse
from purlin.index.evaluation import ranking
from purlin.index.indexing import gate
from purlin.index.indexing.build import build
from purlin.index.indexing.builder import GUARDED_PRODUCTS, Options
from purlin.index.indexing.gate import Judgements
from purlin.index.records import Document, Skipped
from purlin.index.search.corpus import Corpus
from purlin.index.sources import open_source
from tests.support.documents import source
from tests.support.hash_encoder import HashEncoder
from tests.support.serving import problem, serving

COUNT = 20
ADMIN = {"Authorization": "Bearer the-key-of-the-operator"}
KEYS = "operator admin the-key-of-the-operator"


def documents(answered: int = COUNT, count: int = COUNT) -> list[Document]:
    """`count` documents, the first `found` of which hold the word that their query asks for."""
    words = [word(n) if n < answered else "nothing" for n in range(count)]
    return [
        Document(f"d{n}", "reference", "entry", f"Tells of {text}.") for n, text in enumerate(words)
    ]


def word(number: int) -> str:
    return 3 * chr(ord("a") + number)


JUDGED = Judgements(
    {f"q{n}": word(n) for n in range(COUNT)}, {f"q{n}": {f"d{n}": 1.0} for n in range(COUNT)}
)


def make_build(
    home: Path,
    contents: list[Document],
    *,
    force: bool = False,
    judged: Judgements | None = JUDGED,
    encoder: HashEncoder | None = None,
) -> Manifest:
    options, files = Options(judged=judged, force=force), [source("all", contents)]
    return build(home, "c", "reference", files, encoder or HashEncoder(), options=options)


def active(home: Path) -> str:
    return builds.current(home, "c").name


def refused(home: Path, contents: list[Document]) -> tuple[str, str]:
    """The build that was refused, and why."""
    before = builds.builds(home, "c")
    with pytest.raises(Worse) as raised:
        make_build(home, contents)
    (new,) = set(builds.builds(home, "c")) - set(before)
    return new, raised.value.message


def test_an_interim_build_is_not_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("purlin.index.indexing.build.INTERIM_PASSAGES", 1)
    fast = HashEncoder()
    fast.fingerprint = "fast"
    contents = [source("all", documents(15))]
    options = Options(judged=JUDGED)
    manifest = build(
        tmp_path, "c", "reference", contents, HashEncoder(), options=options, interim=fast
    )
    assert fast.encoded
    assert (manifest.interim, manifest.judged["against"]) == (False, None)


def test_a_first_build_is_measured_as_the_evaluation_would(tmp_path: Path) -> None:
    manifest = make_build(tmp_path, documents(15))
    directory = builds.current(tmp_path, "c")
    assert read_manifest(directory) == manifest
    opened = Corpus.load(directory, HashEncoder())
    for measure in ranking.evaluate_run(gate.run_queries(opened, JUDGED), JUDGED.qrels):
        noted = manifest.measures[measure.name]
        assert noted == pytest.approx(
            {"queries": 20, "mean": measure.mean, "low": measure.low, "high": measure.high},
            abs=1e-6,
        )
    opened.close()
    assert manifest.measures["dense recall@100"] == 1.0
    assert 0.4 < manifest.measures["nDCG@10"]["low"] < manifest.measures["nDCG@10"]["mean"] < 1.0
    assert manifest.judged == {
        "measure": "nDCG@10", "queries": 20, "relevant": 20, "missing": 0, "against": None, "refused": False,
    }  # fmt: skip


def test_worse_build_is_kept_and_not_activated(tmp_path: Path) -> None:
    make_build(tmp_path, documents())
    good = active(tmp_path)
    new, message = refused(tmp_path, documents(5))
    assert active(tmp_path) == good
    manifest = read_manifest(builds.current(tmp_path, "c").parent / new)
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


def test_insignificant_difference_is_accepted(tmp_path: Path) -> None:
    make_build(tmp_path, documents())
    against = make_build(tmp_path, documents(19)).judged["against"]
    assert against["low"] < against["difference"] < 0
    assert against["high"] == 0.0
    assert len(builds.builds(tmp_path, "c")) == 2
    assert active(tmp_path) == builds.builds(tmp_path, "c")[-1]


def test_better_build_is_activated(tmp_path: Path) -> None:
    make_build(tmp_path, documents(5))
    manifest = make_build(tmp_path, documents())
    assert manifest.judged["against"]["low"] > 0
    assert active(tmp_path) == builds.builds(tmp_path, "c")[-1]
    assert "difference +" in gate.measurement_summary(manifest)


def test_the_measure_that_is_named_decides(tmp_path: Path) -> None:
    make_build(tmp_path, documents())
    by_recall = Judgements(JUDGED.queries, JUDGED.qrels, "Recall@100")
    manifest = make_build(
        tmp_path, documents(5), judged=by_recall
    )  # all 20 are still among the first 100
    assert manifest.measures["nDCG@10"]["mean"] < 0.9
    assert manifest.judged["against"]["difference"] == 0.0


def test_force_activates_what_is_worse(tmp_path: Path) -> None:
    make_build(tmp_path, documents())
    manifest = make_build(tmp_path, documents(5), force=True)
    assert manifest.judged["against"]["high"] < 0
    assert not manifest.judged["refused"]
    assert active(tmp_path) == builds.builds(tmp_path, "c")[-1]


def test_missing_documents_are_reported(tmp_path: Path) -> None:
    make_build(tmp_path, documents())
    _, message = refused(tmp_path, documents(8, count=8))
    assert "12 of 20 relevant documents are not in this build" in message


def test_refused_builds_do_not_replace_good_ones(tmp_path: Path) -> None:
    make_build(tmp_path, documents(19))
    make_build(tmp_path, documents())
    first, second = builds.builds(tmp_path, "c")
    for answered in (1, 2, 3, 4):
        last, _ = refused(tmp_path, documents(answered))
    assert builds.builds(tmp_path, "c") == [first, second, last]
    make_build(tmp_path, documents(20, count=21))
    assert builds.builds(tmp_path, "c")[:3] == [first, second, last]
    assert hosting.roll_back(tmp_path, "c") == second
    assert hosting.roll_back(tmp_path, "c") == first
    with pytest.raises(NotFound, match="no build before"):
        hosting.roll_back(tmp_path, "c")


def test_a_refused_build_is_activated_only_by_force(tmp_path: Path) -> None:
    make_build(tmp_path, documents())
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


def test_server_skips_a_refused_build(tmp_path: Path) -> None:
    make_build(tmp_path, documents())
    good = active(tmp_path)
    refused(tmp_path, documents(5))
    (tmp_path / "corpora/c/CURRENT").write_text("torn")
    corpora = OpenCorpora(tmp_path, Encoders(HashEncoder()).of_build, timeout_s=10)
    with corpora.lease("c") as opened:
        assert opened.build == good
    corpora.close()


def test_judgements_of_another_corpus_are_refused(tmp_path: Path) -> None:
    foreign = Judgements({"q": "bbb"}, {"q": {"elsewhere.py::f": 1.0}})
    encoder = HashEncoder()
    with pytest.raises(
        InvalidInput, match=r"None of the 1 relevant documents .* 'elsewhere.py::f'. Are these"
    ):
        make_build(tmp_path, documents(), judged=foreign, encoder=encoder)
    assert encoder.encoded == []
    assert not (tmp_path / "corpora/c").exists()
    make_build(tmp_path, documents())
    with pytest.raises(InvalidInput, match="Are these the judgements of another corpus"):
        make_build(tmp_path, documents(5), judged=foreign)
    assert len(builds.builds(tmp_path, "c")) == 1


class Other(HashEncoder):
    fingerprint = "hash-other"


def test_other_encoders_build_is_compared_by_stored_values(tmp_path: Path) -> None:
    make_build(tmp_path, documents(19))
    before = active(tmp_path)
    noted = read_manifest(builds.current(tmp_path, "c")).measures["nDCG@10"]["mean"]
    with pytest.raises(Worse, match="is worse"):
        make_build(tmp_path, documents(5), encoder=Other())
    assert active(tmp_path) == before
    manifest = make_build(tmp_path, documents(), encoder=Other())
    against = manifest.judged["against"]
    assert (against["build"], against["mean"], against["missing"]) == (before, noted, 0)
    assert active(tmp_path) != before


def test_other_encoders_build_needs_equal_judgements(tmp_path: Path) -> None:
    make_build(tmp_path, documents())
    half = Judgements(
        JUDGED.queries, {query: JUDGED.qrels[query] for query in list(JUDGED.qrels)[:10]}
    )
    manifest = make_build(tmp_path, documents(5), judged=half, encoder=Other())
    assert "was built with encoder" in manifest.judged["against"]["problem"]
    assert "Not compared" in gate.measurement_summary(manifest)
    make_build(tmp_path, documents(), judged=None)
    manifest = make_build(tmp_path, documents(5), encoder=Other())
    assert "was built with encoder" in manifest.judged["against"]["problem"]
    with pytest.raises(EncoderMismatch):
        Corpus.load(builds.current(tmp_path, "c"), HashEncoder())


def test_damaged_build_is_not_compared(tmp_path: Path) -> None:
    make_build(tmp_path, documents())
    (builds.current(tmp_path, "c") / "judged.json").write_text("{}")
    manifest = make_build(tmp_path, documents(5))
    assert "judged.json has 2 bytes" in manifest.judged["against"]["problem"]


def test_corpus_description_has_measures(tmp_path: Path) -> None:
    make_build(tmp_path, documents())
    make_build(tmp_path, documents(19))
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
        ('{"_id": "q", "text": "word"}', "q\td\t1", "map", "measure is 'map'; use ndcg@10, mrr@100, recall@100"),
        ('{"_id": "other", "text": "word"}', "q\td\t1", "ndcg@10", "None of the queries judged"),
        ('{"_id": "q", "text": "word"}', "q\td\t0", "ndcg@10", "None of the 1 judged queries has a relevant"),
        ('{"_id": "q", "text": " "}', "q\td\t1", "ndcg@10", "query 'q': query is empty"),
        ('{"_id": "q", "text": "\\ud800 x"}', "q\td\t1", "ndcg@10", "query 'q': query is not valid Unicode"),
    ],
)  # fmt: skip
def test_unusable_judgements_are_refused(
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


def _catalogue(home: Path, count: int, *, skipped: int = 0, force: bool = False) -> Manifest:
    products = [Document(f"p{n}", "product", f"Saw {n}", "Cuts wood.") for n in range(count)]
    left_out = [Skipped("b.csv", "none of its columns is known to hold text")] * skipped
    options = Options(force=force)
    return build(
        home, "c", "product", [source("a.csv", products), *left_out], HashEncoder(), options=options
    )


def test_a_catalogue_that_lost_most_products_is_not_activated(tmp_path: Path) -> None:
    _catalogue(tmp_path, 2 * GUARDED_PRODUCTS)
    good = builds.builds(tmp_path, "c")
    with pytest.raises(Worse) as raised:
        _catalogue(tmp_path, GUARDED_PRODUCTS - 1, skipped=1)

    assert raised.value.message == (
        "Corpus 'c' would have 19 products in place of 40, so the active build stays. 1 left out, the "
        "first: b.csv: none of its columns is known to hold text. If so many are really gone, repeat "
        "with --force."
    )
    assert builds.builds(tmp_path, "c") == good
    _catalogue(tmp_path, GUARDED_PRODUCTS - 1, force=True)
    assert builds.current(tmp_path, "c").name not in good


@pytest.mark.parametrize(
    ("before", "now"), [(40, 20), (40, 80), (19, 1)], ids=["half", "more", "few"]
)
def test_other_catalogues_may_shrink(tmp_path: Path, before: int, now: int) -> None:
    _catalogue(tmp_path, before)
    assert _catalogue(tmp_path, now).documents == now


def _build_feed(home: Path, feed: Path, *, force: bool = False) -> Manifest:
    options = Options(force=force)
    return build(
        home, "c", "product", open_source("product", [feed]), HashEncoder(), options=options
    )


@pytest.mark.parametrize("rows", [40, 1500], ids=["one file", "in parts"])
def test_a_feed_that_ends_in_the_middle_of_a_row_is_not_activated(
    tmp_path: Path, rows: int
) -> None:
    feed = tmp_path / "feed.csv"
    content = "id,title,price\n" + "".join(f"{n},Saw {n},9.90\n" for n in range(rows))
    cut_off = content[: content.index(f"Saw {rows * 3 // 4}") + 3]
    feed.write_text(content)
    _build_feed(tmp_path, feed)
    good = builds.builds(tmp_path, "c")

    feed.write_text(cut_off)
    with pytest.raises(Worse) as raised:
        _build_feed(tmp_path, feed)

    assert raised.value.message == (
        f"feed.csv:{rows * 3 // 4 + 2} has 2 cells where the header has 3. The file ends there too "
        "early, or cannot be read any further, so the active build stays. Export it again, under "
        "another name until it is complete; --force takes what is there."
    )
    assert builds.builds(tmp_path, "c") == good
    assert _build_feed(tmp_path, feed, force=True).documents == rows * 3 // 4

    feed.write_text(content)
    assert _build_feed(tmp_path, feed).documents == rows


def test_nothing_is_built_first_of_a_feed_that_is_cut_off(tmp_path: Path) -> None:
    feed = tmp_path / "feed.json"
    feed.write_text('[{"title": "Saw"},\n{"title": "Axe"},\n{"tit')

    with pytest.raises(Worse, match=r"feed.json:3 is not valid JSON.* so nothing was built"):
        _build_feed(tmp_path, feed)
    assert _build_feed(tmp_path, feed, force=True).documents == 2


def test_the_end_of_a_table_without_products_is_of_no_concern(tmp_path: Path) -> None:
    (tmp_path / "feed").mkdir()
    (tmp_path / "feed" / "saws.csv").write_text("id,title\n1,Saw\n")
    (tmp_path / "feed" / "visits.jsonl").write_text('{"at": 1, "page": 2}\n{"at": 2, "pa')

    assert _build_feed(tmp_path, tmp_path / "feed").documents == 1


def test_other_kinds_may_shrink(tmp_path: Path) -> None:
    make_build(tmp_path, documents(count=40), judged=None)
    assert make_build(tmp_path, documents(count=2), judged=None).documents == 2
