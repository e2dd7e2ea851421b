"""Trained classifiers on disk and at work, with a tiny random encoder."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from purlin.index import builds
from purlin.index.builds.catalogs import CLASSIFIERS
from purlin.index.classify.trained import (
    ABOUT,
    ENCODER,
    VECTORS,
    TrainedClassifier,
    activate_classifier,
    publish_classifier,
    read_classifier,
    write_classifier,
)
from purlin.index.encoder.exported import MODEL
from purlin.index.encoder.transformer import Encoder
from purlin.index.errors import Busy, Damaged, InvalidInput
from tests.support.tiny import DIM, LABELS, staged, trained

VALUES = json.loads(
    '{"format": 1, "name": "n", "labels": ["a", "b"], "prompts": [["a"], ["b", "c"]], "offsets": [0, 0.5], '
    '"temperature": 1, "measures": {}, "created": "now", "fingerprint": "f"}'
)


def _open_current(home: Path) -> TrainedClassifier:
    return TrainedClassifier.load(builds.current(home, "tickets", CLASSIFIERS))


@pytest.mark.parametrize("vectors", [None, np.arange(3 * DIM, dtype=np.float32).reshape(3, DIM)])
def test_written_classifier_is_read_back(tmp_path: Path, vectors: Any) -> None:
    write_classifier(tmp_path, trained("f", vectors=np.ones((3, DIM), np.float32)))
    written = trained("f", vectors=vectors)
    write_classifier(tmp_path, written)

    spec = read_classifier(tmp_path)

    assert replace(spec, vectors=None) == replace(written, vectors=None)
    np.testing.assert_equal(spec.vectors, vectors)
    assert {path.name for path in tmp_path.iterdir()} == {ABOUT} | (
        {VECTORS} if vectors is not None else set()
    )


def test_scores_are_softmax_of_calibrated_cosines(tmp_path: Path) -> None:
    publish_classifier(tmp_path, "tickets", staged(tmp_path / "staged"))
    classifier = _open_current(tmp_path)
    encoder, spec = classifier.encoder, classifier.spec

    text = "the news about business"
    vector = encoder.encode([text], role="query")[0]
    logits = [
        (
            np.mean([vector @ encoder.encode([prompt], role="query")[0] for prompt in prompts])
            - offset
        )
        / spec.temperature
        for prompts, offset in zip(spec.prompts, spec.offsets, strict=True)
    ]
    expected = np.exp(logits) / np.exp(logits).sum()
    (result,) = classifier.classify([text])

    assert {entry.label: entry.score for entry in result.ranking} == pytest.approx(
        dict(zip(LABELS, expected, strict=True)), abs=2e-6
    )
    assert classifier.classify([text], min_score=1.0)[0].label is None


def test_label_vectors_replace_prompts(tmp_path: Path) -> None:
    directory = staged(tmp_path / "staged")
    sports = Encoder.load(directory / ENCODER).encode(["sports"], role="query")[0]
    vectors = np.stack([-sports, sports, np.zeros_like(sports)])
    write_classifier(directory, replace(read_classifier(directory), vectors=vectors))
    publish_classifier(tmp_path, "tickets", directory)

    assert _open_current(tmp_path).classify(["sports"])[0].label == "business"


def test_loaded_encoder_is_shared(tmp_path: Path) -> None:
    directory = staged(tmp_path / "staged")
    encoder = Encoder.load(directory / ENCODER)
    publish_classifier(tmp_path, "tickets", directory)
    build = builds.current(tmp_path, "tickets", CLASSIFIERS)

    assert TrainedClassifier.load(build, encoder).encoder is encoder
    assert TrainedClassifier.load(build).encoder is not encoder


def test_publishing_keeps_three_builds(tmp_path: Path) -> None:
    published = [
        publish_classifier(tmp_path, "tickets", staged(tmp_path / "staged", measures={"n": n}))
        for n in range(4)
    ]

    assert not (tmp_path / "staged").exists()
    assert builds.builds(tmp_path, "tickets", CLASSIFIERS) == published[1:]
    assert builds.names(tmp_path, CLASSIFIERS) == ["tickets"]
    assert builds.names(tmp_path) == []
    classifier = _open_current(tmp_path)
    assert (classifier.name, classifier.build) == ("tickets", published[-1])
    assert classifier.spec.measures == {"n": 3}
    assert classifier.bytes > 1000


@pytest.mark.parametrize(
    ("spoil", "name", "error", "words"),
    [
        (lambda d: None, "other", InvalidInput, "'tickets', not 'other'"),
        (lambda d: None, "../x", InvalidInput, "not '../x'"),
        (lambda d: (d / ENCODER / MODEL).write_bytes(b"x"), "tickets", Damaged, MODEL),
        (lambda d: (d / ENCODER).rename(d / "away"), "tickets", Damaged, "no such directory"),
        (lambda d: write_classifier(d, trained("other")), "tickets", Damaged, "not the encoder"),
        (
            lambda d: np.save(d / VECTORS, np.ones((3, 5), np.float32)),
            "tickets",
            Damaged,
            "have 5 numbers, .* 32",
        ),
    ],
)
def test_broken_classifier_is_not_published(
    tmp_path: Path, spoil: Callable[[Path], object], name: str, error: type[Exception], words: str
) -> None:
    directory = staged(tmp_path / "staged")
    spoil(directory)

    with pytest.raises(error, match=words):
        publish_classifier(tmp_path, name, directory)
    assert directory.is_dir()
    assert not (tmp_path / "classifiers").exists()


def test_second_publisher_is_told_to_wait(tmp_path: Path) -> None:
    directory = staged(tmp_path / "staged")
    with builds.locked(tmp_path, "tickets", CLASSIFIERS):
        with pytest.raises(Busy, match="Classifier 'tickets'"):
            publish_classifier(tmp_path, "tickets", directory)
    assert publish_classifier(tmp_path, "tickets", directory)


@pytest.mark.parametrize("file", [ABOUT, f"{ENCODER}/{MODEL}", "manifest.json"])
def test_damaged_build_names_the_file(tmp_path: Path, file: str) -> None:
    publish_classifier(tmp_path, "tickets", staged(tmp_path / "staged"))
    path = builds.current(tmp_path, "tickets", CLASSIFIERS) / file
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.raises(Damaged, match=rf"{file} was altered.*Train the classifier again"):
        _open_current(tmp_path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": 2}, "another version"),
        ({"extra": 1}, "its keys"),
        ({"labels": "ab"}, "labels is not a list"),
        ({"labels": ["a"]}, "1 labels"),
        ({"labels": [f"{n}" for n in range(10_001)]}, "10001 labels"),
        ({"labels": ["a", "a "]}, "is there twice"),
        ({"labels": ["a", ""]}, "a label is not a text"),
        ({"labels": ["a", "x" * 1001]}, "1 to 1,000"),
        ({"labels": ["a", 7]}, "a label is not a text"),
        ({"prompts": [["a"]]}, "prompts of 1"),
        ({"prompts": [["a"], []]}, "0 prompts"),
        ({"prompts": [["a"], ["b"] * 101]}, "101 prompts"),
        ({"prompts": [["a"], "b"]}, "prompts is not a list"),
        ({"prompts": [["a"], [None]]}, "a prompt is not a text"),
        ({"offsets": [0.0]}, "1 offsets"),
        ({"offsets": [0.0, "1"]}, "an offset"),
        ({"offsets": [0.0, float("nan")]}, "an offset"),
        ({"temperature": 0}, "temperature"),
        ({"temperature": float("inf")}, "temperature"),
        ({"temperature": True}, "temperature"),
        ({"measures": []}, "measures"),
        ({"name": "../up"}, "not a valid classifier name"),
        ({"fingerprint": None}, "fingerprint"),
    ],
)
def test_invalid_values_are_named(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    (tmp_path / ABOUT).write_text(json.dumps(VALUES | change))
    with pytest.raises(Damaged, match=words) as error:
        read_classifier(tmp_path)
    assert ABOUT in error.value.message


def test_invalid_values_are_not_written(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="temperature"):
        write_classifier(tmp_path, trained("f", temperature=0.0))
    with pytest.raises(InvalidInput, match="float64"):
        write_classifier(tmp_path, trained("f", vectors=np.ones((3, 4))))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [None, b"", b"{", b"[1]", b"\xff", b"[" * 100_000, b"null"])
def test_unreadable_file_is_damaged(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / ABOUT).write_bytes(content)
    with pytest.raises(Damaged, match=ABOUT):
        read_classifier(tmp_path)


@pytest.mark.parametrize(
    "array",
    [
        np.ones((2, 4), np.float64),
        np.ones((3, 4), np.float32),
        np.ones(8, np.float32),
        np.full((2, 4), np.nan, np.float32),
        np.ones((2, 0), np.float32),
        np.array([["a"], ["b"]]),
        # Only pickled, which may run code.
        np.array([{}, {}], dtype=object),
    ],
)
def test_invalid_vectors_are_damaged(tmp_path: Path, array: Any) -> None:
    (tmp_path / ABOUT).write_text(json.dumps(VALUES))
    np.save(tmp_path / VECTORS, array)
    with pytest.raises(Damaged, match=VECTORS):
        read_classifier(tmp_path)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=6,
)


@settings(max_examples=100)
@given(change=st.dictionaries(st.sampled_from(sorted(VALUES)), json_values, min_size=1, max_size=3))
def test_any_json_is_read_or_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    (tmp_path / ABOUT).write_text(json.dumps(VALUES | change))
    try:
        spec = read_classifier(tmp_path)
    except Damaged:
        return

    assert len(spec.labels) == len(spec.prompts) == len(spec.offsets)


def test_a_damaged_build_is_not_activated(tmp_path: Path) -> None:
    first, second = (
        publish_classifier(tmp_path, "tickets", staged(tmp_path / name)) for name in ("one", "two")
    )
    directory = builds.builds_directory(tmp_path, "tickets", CLASSIFIERS)
    about = directory / first / ABOUT
    about.write_text(about.read_text().replace("0.9", "0.8"))

    with pytest.raises(Damaged, match="purlin classifier activate tickets BUILD"):
        activate_classifier(tmp_path, "tickets", first)
    assert _open_current(tmp_path).build == second
