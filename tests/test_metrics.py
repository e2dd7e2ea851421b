from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families

from index.errors import Worse
from index.indexing.build import build
from index.indexing.gate import Judgements
from tests.conftest import HashEncoder, source
from tests.serving import FUNCTIONS, make, numbered, serving, until

SEARCH = {"query": "sort", "corpus": "code"}


@pytest.fixture
def client(home: Path) -> Iterator[TestClient]:
    with serving(home) as client:
        yield client


def samples(client: TestClient) -> dict[tuple[str, ...], float]:
    """(name, label values by label name) -> value of everything at /metrics, read by Prometheus's own reader."""
    response = client.get("/metrics")
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/plain")
    families = text_string_to_metric_families(response.text)
    found = [sample for family in families for sample in family.samples]
    return {
        (one.name, *(one.labels[label] for label in sorted(one.labels))): one.value for one in found
    }


def test_requests_are_counted_by_method_route_and_status(client: TestClient) -> None:
    for path in ("/corpora/code", "/corpora/none", "/corpora/none", "/x", "/y"):
        client.get(path)
    client.post("/search", json=SEARCH)
    client.post("/search", json={})
    client.request("ODD", "/search")
    found = samples(client)
    assert found["purlin_requests_total", "GET", "/corpora/{name}", "200"] == 1
    assert found["purlin_requests_total", "GET", "/corpora/{name}", "404"] == 2
    assert found["purlin_requests_total", "POST", "/search", "200"] == 1
    assert found["purlin_requests_total", "POST", "/search", "422"] == 1
    assert found["purlin_requests_total", "other", "other", "404"] == 2
    assert found["purlin_request_seconds_count", "/search"] >= 2
    assert found["purlin_request_seconds_sum", "/search"] > 0


def test_labels_do_not_grow_with_what_clients_send(client: TestClient) -> None:
    def labels() -> int:
        return len(samples(client))

    def ask(number: int) -> None:
        client.get(f"/nothing/{number}")
        client.get(f"/corpora/c{number}")
        client.request(f"ODD{number}", "/search")

    ask(0)
    client.get("/metrics")
    before = labels()
    for number in range(1, 50):
        ask(number)
    assert labels() - before < 10  # a status or two that had not been seen, not one for each


def test_stages_batches_and_places_are_told(client: TestClient) -> None:
    before = samples(client)
    client.post("/search", json=SEARCH)
    client.post("/classify", json={"texts": ["a text"] * 300, "labels": ["one", "two"]})
    found = samples(client)
    for stage in ("queue", "encode", "dense", "lexical", "fuse", "fetch"):
        assert found["purlin_stage_seconds_count", stage] >= 1
    encoded = found["purlin_batch_texts_sum",] - before["purlin_batch_texts_sum",]
    assert encoded == 1 + 6 + 300
    assert found["purlin_running",] == found["purlin_waiting",] == 0
    assert found["purlin_refused_total",] == 0
    assert found["process_resident_memory_bytes",] > 2**20


def test_what_serves_is_told(client: TestClient, home: Path) -> None:
    client.post("/search", json=SEARCH)
    build = client.get("/corpora/code").json()["build"]
    found = samples(client)
    assert found["purlin_encoder", "hash-64", "hash"] == 1
    assert found["purlin_corpus_build", build, "code"] == 1
    assert found["purlin_corpus_documents", "code"] == 3
    assert found["purlin_corpus", "code", "serving"] == 1
    make(home, "more", numbered(5), HashEncoder())
    client.post("/search", json=SEARCH | {"corpus": "more"})
    assert samples(client)["purlin_corpus_documents", "more"] == 5


def test_each_server_counts_for_itself(home: Path) -> None:
    with serving(home) as one, serving(home) as other:
        one.get("/livez")
        assert ("purlin_requests_total", "GET", "/livez", "200") not in samples(other)


def test_no_key_is_needed_to_look(home: Path) -> None:
    with serving(home, keys="reader search a-key-that-nobody-sends") as client:
        client.post("/search", json=SEARCH)
        assert samples(client)["purlin_requests_total", "other", "other", "401"] == 1


def test_builds_are_told_when_they_were_made_and_how_often_they_were_switched(
    client: TestClient, home: Path
) -> None:
    client.post("/search", json=SEARCH)
    manifest = client.get("/corpora/code").json()
    found = samples(client)
    made_at = datetime.fromisoformat(manifest["created_at"]).timestamp()
    assert found["purlin_corpus_built_timestamp_seconds", "code"] == made_at
    assert found["purlin_corpus_build_seconds", "code"] == manifest["took_s"] > 0
    assert (
        found["purlin_corpus_switches_total", "code"]
        == found["purlin_corpus_refused_total", "code"]
        == 0
    )
    make(home, "code", numbered(5), HashEncoder())
    until(lambda: samples(client)["purlin_corpus_switches_total", "code"] == 1)
    found = samples(client)
    assert found["purlin_corpus_built_timestamp_seconds", "code"] > made_at
    assert found["purlin_corpus_documents", "code"] == 5


def test_builds_that_are_not_used_are_told(client: TestClient, home: Path) -> None:
    judged = Judgements({"q": "sort numbers"}, {"q": {FUNCTIONS[1].id: 1.0}})
    with pytest.raises(Worse):
        build(
            home,
            "code",
            "code",
            [source("all", numbered(3, "other"))],
            HashEncoder(),
            judged=judged,
        )
    client.post("/search", json=SEARCH)
    assert samples(client)["purlin_corpus_withheld", "code"] == 1
    (make(home, "code", numbered(5), HashEncoder()) / "dense.json").write_text("{}")
    until(lambda: samples(client)["purlin_corpus_refused_total", "code"] == 1)
    assert samples(client)["purlin_corpus", "code", "serving"] == 1
    assert samples(client)["purlin_corpus_withheld", "code"] == 0  # an older one, by now


def test_lookups_in_caches_are_counted(client: TestClient) -> None:
    def count(cache: str) -> tuple[float, float]:
        found = samples(client)
        return tuple(found["purlin_cache_total", cache, result] for result in ("hit", "miss"))  # type: ignore[return-value]

    for language in ("python", "python", "javascript", "python"):
        client.post("/search", json=SEARCH | {"filter": {"language": language}})
    assert count("filters") == (2, 2)
    for labels in (["one", "two"], ["one", "two"], ["two", "three", "four"]):
        client.post("/classify", json={"texts": ["a text"], "labels": labels})
    assert count("label_sets") == (1, 2)
    assert count("label_vectors") == (1, 4)


def test_caches_go_on_counting_when_a_build_takes_over(client: TestClient, home: Path) -> None:
    client.post("/search", json=SEARCH | {"filter": {"language": "python"}})
    make(home, "code", FUNCTIONS[:2], HashEncoder())
    until(lambda: samples(client)["purlin_corpus_documents", "code"] == 2)
    client.post("/search", json=SEARCH | {"filter": {"language": "python"}})
    assert samples(client)["purlin_cache_total", "filters", "miss"] == 2
