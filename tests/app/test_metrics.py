from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families

from purlin.index.errors import Worse
from purlin.index.indexing.build import build
from purlin.index.indexing.builder import Options
from purlin.index.indexing.gate import Judgements
from tests.support.documents import source
from tests.support.hash_encoder import HashEncoder
from tests.support.serving import FUNCTIONS, make, numbered, serving, until

SEARCH = {"query": "sort", "corpus": "code"}


@pytest.fixture
def client(home: Path) -> Iterator[TestClient]:
    with serving(home) as client:
        yield client


def samples(client: TestClient) -> dict[tuple[str, ...], float]:
    """Return every value of /metrics, as Prometheus parses it.

    A key is the name of the sample, then the values of its labels in the order of their names.
    """
    response = client.get("/metrics")
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/plain")

    families = text_string_to_metric_families(response.text)
    values: dict[tuple[str, ...], float] = {}
    for family in families:
        for sample in family.samples:
            labels = [sample.labels[name] for name in sorted(sample.labels)]
            values[sample.name, *labels] = sample.value

    return values


def test_requests_are_counted_by_route_and_status(client: TestClient) -> None:
    for path in ("/corpora/code", "/corpora/none", "/corpora/none", "/x", "/y"):
        client.get(path)
    client.post("/search", json=SEARCH)
    client.post("/search", json={})
    client.request("ODD", "/search")
    values = samples(client)

    assert values["purlin_requests_total", "GET", "/corpora/{name}", "200"] == 1
    assert values["purlin_requests_total", "GET", "/corpora/{name}", "404"] == 2
    assert values["purlin_requests_total", "POST", "/search", "200"] == 1
    assert values["purlin_requests_total", "POST", "/search", "422"] == 1
    assert values["purlin_requests_total", "other", "other", "404"] == 2
    assert values["purlin_request_seconds_count", "/search"] >= 2
    assert values["purlin_request_seconds_sum", "/search"] > 0


def test_labels_do_not_grow_with_requests(client: TestClient) -> None:
    def labels() -> int:
        return len(samples(client))

    def send(number: int) -> None:
        client.get(f"/nothing/{number}")
        client.get(f"/corpora/c{number}")
        client.request(f"ODD{number}", "/search")

    send(0)
    client.get("/metrics")
    before = labels()
    for number in range(1, 50):
        send(number)

    # A new status or two adds a label, but not every request.
    assert labels() - before < 10


def test_stages_batches_and_slots_are_reported(client: TestClient) -> None:
    # Opening a corpus encodes the texts of its self-check.
    until(lambda: client.get("/readyz").status_code == 200)
    before = samples(client)
    client.post("/search", json=SEARCH)
    client.post("/classify", json={"texts": ["a text"] * 300, "labels": ["one", "two"]})
    values = samples(client)

    for stage in ("queue", "encode", "dense", "lexical", "fuse", "fetch"):
        assert values["purlin_stage_seconds_count", stage] >= 1

    encoded = values["purlin_batch_texts_sum",] - before["purlin_batch_texts_sum",]
    assert encoded == 1 + 6 + 300
    assert values["purlin_running",] == values["purlin_waiting",] == 0
    assert values["purlin_refused_total",] == 0
    assert values["process_resident_memory_bytes",] > 2**20


def test_the_limits_of_requests_are_reported(home: Path) -> None:
    with serving(home, threads=3, queue=5) as client:
        values = samples(client)
    assert values["purlin_running_limit",] == 3
    assert values["purlin_waiting_limit",] == 5


def test_the_encoder_and_builds_are_reported(client: TestClient, home: Path) -> None:
    client.post("/search", json=SEARCH)
    build = client.get("/corpora/code").json()["build"]
    values = samples(client)

    assert values["purlin_encoder", "hash-64", "hash"] == 1
    assert values["purlin_corpus_build", build, "code"] == 1
    assert values["purlin_corpus_documents", "code"] == 3
    assert values["purlin_corpus", "code", "serving"] == 1

    make(home, "more", numbered(5))
    client.post("/search", json=SEARCH | {"corpus": "more"})

    assert samples(client)["purlin_corpus_documents", "more"] == 5


def test_each_server_counts_for_itself(home: Path) -> None:
    with serving(home) as busy, serving(home) as idle:
        busy.get("/livez")
        assert ("purlin_requests_total", "GET", "/livez", "200") not in samples(idle)


def test_metrics_need_no_key(home: Path) -> None:
    with serving(home, keys="reader search a-key-that-nobody-sends") as client:
        client.post("/search", json=SEARCH)
        assert samples(client)["purlin_requests_total", "POST", "/search", "401"] == 1


def test_refused_requests_count_for_their_route_and_are_not_timed(home: Path) -> None:
    with serving(home, keys="reader search a-key-that-nobody-sends") as client:
        for path in ("/corpora/code", "/corpora/none", "/nothing"):
            client.get(path)
        values = samples(client)

    assert values["purlin_requests_total", "GET", "/corpora/{name}", "401"] == 2
    assert values["purlin_requests_total", "other", "other", "401"] == 1
    assert ("purlin_request_seconds_count", "/corpora/{name}") not in values


def test_build_times_and_switches_are_reported(client: TestClient, home: Path) -> None:
    client.post("/search", json=SEARCH)
    manifest = client.get("/corpora/code").json()
    values = samples(client)
    made_at = datetime.fromisoformat(manifest["created_at"]).timestamp()

    assert values["purlin_corpus_built_timestamp_seconds", "code"] == made_at
    assert values["purlin_corpus_build_seconds", "code"] == manifest["took_s"] > 0
    assert values["purlin_corpus_switches_total", "code"] == 0
    assert values["purlin_corpus_refused_total", "code"] == 0

    make(home, "code", numbered(5))
    until(lambda: samples(client)["purlin_corpus_switches_total", "code"] == 1)
    values = samples(client)

    assert values["purlin_corpus_built_timestamp_seconds", "code"] > made_at
    assert values["purlin_corpus_documents", "code"] == 5


def test_unused_builds_are_reported(client: TestClient, home: Path) -> None:
    judged = Judgements({"q": "sort numbers"}, {"q": {FUNCTIONS[1].id: 1.0}})
    worse = [source("all", numbered(3, "other"))]
    with pytest.raises(Worse):
        build(home, "code", "code", worse, HashEncoder(), options=Options(judged=judged))

    client.post("/search", json=SEARCH)

    assert samples(client)["purlin_corpus_withheld", "code"] == 1

    broken = make(home, "code", numbered(5))
    (broken / "base" / "dense.json").write_text("{}")
    until(lambda: samples(client)["purlin_corpus_refused_total", "code"] == 1)

    assert samples(client)["purlin_corpus", "code", "serving"] == 1
    # The withheld build is older than the active one by now.
    assert samples(client)["purlin_corpus_withheld", "code"] == 0


def test_cache_lookups_are_counted(client: TestClient) -> None:
    def count(cache: str) -> tuple[float, float]:
        values = samples(client)
        hits = values["purlin_cache_total", cache, "hit"]
        misses = values["purlin_cache_total", cache, "miss"]
        return hits, misses

    for language in ("python", "python", "javascript", "python"):
        client.post("/search", json=SEARCH | {"filter": {"language": language}})
    assert count("filters") == (2, 2)

    for labels in (["one", "two"], ["one", "two"], ["two", "three", "four"]):
        client.post("/classify", json={"texts": ["a text"], "labels": labels})
    assert count("label_sets") == (1, 2)
    assert count("label_vectors") == (1, 4)


def test_cache_counts_survive_a_new_build(client: TestClient, home: Path) -> None:
    client.post("/search", json=SEARCH | {"filter": {"language": "python"}})
    make(home, "code", FUNCTIONS[:2])
    until(lambda: samples(client)["purlin_corpus_documents", "code"] == 2)
    client.post("/search", json=SEARCH | {"filter": {"language": "python"}})
    assert samples(client)["purlin_cache_total", "filters", "miss"] == 2
