"""POST /classify and GET /classifiers over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from purlin.app.schemas import MAX_RANKING_BYTES
from purlin.index import builds
from purlin.index.builds.catalogs import CLASSIFIERS
from purlin.index.classify.trained import ABOUT, publish_classifier
from tests.support.hash_encoder import HashEncoder
from tests.support.serving import problem, ready, serving, until
from tests.support.tiny import LABELS, staged

BY_LABELS = {"texts": ["a text"], "labels": ["one", "two"]}
BY_NAME = {"texts": ["business", "sports"], "classifier": "tickets"}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    publish_classifier(home, "tickets", staged(home / "staged"))
    return home


@pytest.fixture(scope="module")
def client(home: Path) -> Iterator[TestClient]:
    with ready(home) as client:
        yield client


def test_trained_classifier_is_used_by_name(client: TestClient, home: Path) -> None:
    reply = client.post("/classify", json=BY_NAME).json()
    assert [result["label"] for result in reply["results"]] == ["business", "sports"]
    assert sum(entry["score"] for entry in reply["results"][0]["ranking"]) == pytest.approx(
        1, abs=1e-5
    )
    build = builds.current(home, "tickets", CLASSIFIERS).name
    assert (reply["classifier"], reply["build"], reply["encoder"]) == ("tickets", build, "tiny")
    assert reply["took_ms"] > 0


def test_trained_classifier_abstains_below_min_score(client: TestClient) -> None:
    results = client.post("/classify", json=BY_NAME | {"min_score": 1.0}).json()["results"]
    assert [result["label"] for result in results] == [None, None]
    assert all(len(result["ranking"]) == 3 for result in results)


def test_classifiers_are_listed_with_details(client: TestClient, home: Path) -> None:
    build = builds.current(home, "tickets", CLASSIFIERS).name
    summary = {"name": "tickets", "state": "serving", "build": build, "labels": list(LABELS)}
    assert client.get("/classifiers").json() == {"classifiers": [summary]}
    details = client.get("/classifiers/tickets").json()
    assert details.items() >= summary.items()
    assert details["measures"] == {"agreement": 0.9}
    assert (details["encoder"]["name"], details["encoder"]["dim"]) == ("tiny", 32)
    assert details["bytes"] > 1000
    assert details["created_at"].endswith("Z")


def test_new_build_replaces_the_old_unless_damaged(tmp_path: Path) -> None:
    with serving(tmp_path) as client:
        error = problem(client.post("/classify", json=BY_NAME), 404)
        assert error["errors"][0]["field"] == "classifier"
        assert "Classifiers: none yet; make one with `purlin train pesco`" in error["detail"]
        names = []
        for labels in (LABELS, ("a", "b", "c")):
            names.append(
                publish_classifier(tmp_path, "tickets", staged(tmp_path / "staged", labels=labels))
            )
            until(lambda: client.post("/classify", json=BY_NAME).json()["build"] == names[-1])
        assert client.post("/classify", json=BY_NAME).json()["results"][0]["label"] == "b"
        publish_classifier(tmp_path, "tickets", staged(tmp_path / "staged"))
        about = builds.current(tmp_path, "tickets", CLASSIFIERS) / ABOUT
        about.write_text(about.read_text().replace("sports", "Sports"))
        until(lambda: "problem" in client.get("/classifiers/tickets").json())
        assert ABOUT in client.get("/classifiers/tickets").json()["problem"]
        assert client.post("/classify", json=BY_NAME).json()["build"] == names[-1]


def test_classifier_damaged_at_start_is_refused(tmp_path: Path) -> None:
    publish_classifier(tmp_path, "tickets", staged(tmp_path / "staged"))
    (builds.current(tmp_path, "tickets", CLASSIFIERS) / ABOUT).write_text("{}")
    with serving(tmp_path) as client:
        error = problem(client.post("/classify", json=BY_NAME), 503)
        assert error["type"] == "urn:purlin:problem:damaged"
        assert ABOUT in error["detail"]
        assert "Train the classifier again" in error["detail"]
        assert client.get("/classifiers").json()["classifiers"][0]["state"] == "refused"
        until(lambda: client.get("/readyz").status_code == 200)


@pytest.mark.parametrize("name", ["..", "../corpora/x", "a/b", "A", "", "tickets\n", "-x"])
def test_classifier_name_cannot_be_a_path(client: TestClient, name: str) -> None:
    error = problem(client.post("/classify", json=BY_NAME | {"classifier": name}), 422)
    assert error["errors"][0]["field"] == "classifier"
    assert "1 to 64 characters of a-z" in error["detail"]


@pytest.mark.parametrize(
    "path", ["/classifiers/%2e%2e", "/classifiers/..%2fx", "/classifiers/UP", "/classifiers/none"]
)
def test_classifier_path_cannot_leave_its_directory(client: TestClient, path: str) -> None:
    assert client.get(path).status_code in (404, 422)


@pytest.mark.parametrize(
    ("change", "field", "words"),
    [
        ({"texts": []}, "texts", "no texts: give at least one"),
        ({"texts": ["a", "\t \n"]}, "texts[1]", "empty: leave it out or fill it"),
        ({"texts": ["a"] * 10_001}, "texts", "at most 10000 items: send the rest in another request; it has 10001"),
        ({"texts": ["a", "x" * (2**20 + 1)]}, "texts[1]", "at most 1048576 characters: shorten it"),
        ({"texts": ["a", 5]}, "texts[1]", "valid string; it is 5"),
        ({"texts": "a"}, "texts", "valid list"),
        ({"labels": {"a": "first", "b": "second"}}, "labels", "a description follows the name"),
        ({"labels": []}, "labels", "no labels: give the names"),
        ({"labels": ["one"]}, "labels", "set multi_label to true"),
        ({"labels": ["one", "two", " one"]}, "labels[2]", "'one' is there twice: give each once"),
        ({"labels": ["one", " "]}, "labels[1]", "empty"),
        ({"labels": [f"{n}" for n in range(10_001)]}, "labels", "at most 10000 items: choose among groups"),
        ({"labels": ["one", "x" * 1001]}, "labels[1]", "at most 1000 characters: a label is a name"),
        ({"labels": None}, "labels", "either `labels` or `classifier`"),
        ({"classifier": "tickets"}, "labels", "either `labels` or `classifier`"),
        ({"templates": []}, "templates", "give at least one, or leave the key out"),
        ({"templates": ["{label}", "about"]}, "templates[1]", "no place for the label: write {label}"),
        ({"labels": ["one", "t\x01wo"]}, "labels[1]", "control character"),
        ({"templates": ["{label} or {label}"]}, "templates[0]", "more than once: write it once"),
        ({"templates": ["{label} {0}"]}, "templates[0]", "other braces"),
        ({"templates": ["{label}"] * 9}, "templates", "at most 8 items: keep the best"),
        ({"templates": ["{label}" + "x" * 1000]}, "templates[0]", "at most 1000 characters"),
        ({"min_score": 1.5}, "min_score", "less than or equal to 1"),
        ({"multi_label": "yes"}, "multi_label", 'it is "yes"'),
        ({"labels": None, "classifier": "tickets", "templates": ["{label}"]}, "templates", "omit `templates`"),
        ({"labels": None, "classifier": "tickets", "multi_label": True}, "multi_label", "send `labels` instead"),
        ({"labels": None, "classifier": "x" * 65}, "classifier", "at most 64 characters"),
        ({"labels": None, "classifier": "tickets", "texts": [" "]}, "texts[0]", "empty"),
    ],
)  # fmt: skip
def test_invalid_field_is_named_with_its_limit(
    client: TestClient, change: dict[str, Any], field: str, words: str
) -> None:
    error = problem(client.post("/classify", json=BY_LABELS | change), 422)
    assert error["type"] == "urn:purlin:problem:invalid-input"
    assert error["errors"][0]["field"] == field
    assert words in error["errors"][0]["message"]


def test_all_invalid_items_are_listed(client: TestClient) -> None:
    error = problem(
        client.post("/classify", json=BY_LABELS | {"labels": ["x" * 1001, 3, "y" * 1001]}), 422
    )
    assert [item["field"] for item in error["errors"]] == ["labels[0]", "labels[1]", "labels[2]"]


def test_single_label_is_scored_alone(client: TestClient) -> None:
    body = {"texts": ["one"], "labels": ["one"], "multi_label": True}
    (result,) = client.post("/classify", json=body).json()["results"]
    assert result["ranking"] == [{"label": "one", "score": result["score"]}]
    assert result["margin"] == result["score"] > 0.5


def test_text_of_a_megabyte_is_accepted(client: TestClient) -> None:
    text = ("sports " * 2**18)[: 2**20]
    for choice in ({"labels": ["sports", "business"]}, {"classifier": "tickets"}):
        (result,) = client.post("/classify", json={"texts": [text]} | choice).json()["results"]
        assert result["label"] == "sports"


def test_ten_thousand_texts_are_accepted(client: TestClient) -> None:
    texts = [LABELS[number % 3] for number in range(10_000)]
    for choice in ({"labels": LABELS}, {"classifier": "tickets"}):
        reply = client.post("/classify", json={"texts": texts} | choice)
        assert reply.status_code == 200
        assert [result["label"] for result in reply.json()["results"]] == texts


@pytest.mark.parametrize("letter", ["x", "ж", "🪡", '"'])
def test_reply_size_is_bounded(client: TestClient, letter: str) -> None:
    body = {"texts": ["a"] * 10_000, "labels": [letter * 990 + str(n) for n in range(6)]}
    assert len(client.post("/classify", json=body).content) < 1.3 * MAX_RANKING_BYTES


def test_long_rankings_are_shortened(client: TestClient) -> None:
    body = {"texts": ["a"] * 2_000, "labels": [str(n).rjust(900, "x") for n in range(100)]}
    response = client.post("/classify", json=body)
    assert response.status_code == 200
    assert len(response.content) < 1.1 * MAX_RANKING_BYTES
    reply = response.json()
    lengths = {len(result["ranking"]) for result in reply["results"]}
    assert lengths == {34}
    assert "the best 34 labels" in reply["warnings"][-1]


def test_nearly_identical_labels_cause_a_warning(client: TestClient) -> None:
    body = {"texts": ["a"], "labels": ["sports", "Sports", "the weather of tomorrow in town"]}
    (warning,) = client.post("/classify", json=body).json()["warnings"]
    assert "'sports' and 'Sports' are nearly the same" in warning
    assert "cosine 1.00" in warning
    assert (
        "warnings"
        not in client.post("/classify", json=body | {"labels": body["labels"][1:]}).json()
    )


def test_label_paths_are_returned_unchanged(client: TestClient) -> None:
    labels = ["Sports > Football > World Cup", "Business > Banks"]
    (result,) = client.post("/classify", json={"texts": ["banks"], "labels": labels}).json()[
        "results"
    ]
    assert result["label"] == labels[1]


def test_cached_labels_are_not_encoded_again(tmp_path: Path) -> None:
    encoder = HashEncoder()
    with serving(tmp_path, encoder) as client:
        client.post("/classify", json=BY_LABELS)
        encoder.encoded.clear()
        assert client.post("/classify", json=BY_LABELS | {"texts": ["another"]}).status_code == 200
    assert encoder.encoded == ["another"]


def test_results_name_all_labels_that_fit(client: TestClient) -> None:
    body = {"texts": ["one two"], "labels": ["one", "two", "three"], "templates": ["{label}"]}
    (several,) = client.post("/classify", json=body | {"multi_label": True}).json()["results"]
    assert sorted(several["labels"]) == ["one", "two"]
    (single,) = client.post("/classify", json=body).json()["results"]
    assert "labels" not in single


def test_texts_of_labels_with_wordings_decide_together(client: TestClient) -> None:
    texts = ["broken lamp", "broken", *["broken lamp"] * 3, "send receipt"]
    body = {"texts": texts, "labels": ["fault = broken lamp | broken", "bill = receipt | invoice"]}
    alone = client.post("/classify", json=body).json()["results"]
    together = client.post("/classify", json=body | {"transductive": True}).json()["results"]
    assert {entry["label"] for entry in alone[0]["ranking"]} == {"fault", "bill"}
    assert [result["score"] for result in alone] != [result["score"] for result in together]


@pytest.mark.parametrize("with_what", [BY_NAME, BY_LABELS | {"multi_label": True}])
def test_together_is_refused_where_it_means_nothing(
    client: TestClient, with_what: dict[str, Any]
) -> None:
    error = problem(client.post("/classify", json=with_what | {"transductive": True}), 422)
    assert error["errors"][0]["field"] == "transductive"
    assert "omit" in error["detail"]
