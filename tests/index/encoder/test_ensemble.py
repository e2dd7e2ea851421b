"""An ensemble's vectors, and what is wrong with its directory or its parts."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from purlin.index.encoder import (
    ENSEMBLE_ENCODER,
    SETTINGS,
    STATIC_ENCODER,
    TRANSFORMER_ENCODER,
    TextEncoder,
    encoder_directory,
    is_static,
    load_encoder,
    part_directories,
    transformer_directory,
)
from purlin.index.encoder.ensemble import PROJECTION, EnsembleEncoder, EnsembleSettings
from purlin.index.encoder.ray_cluster import _files, _opened
from purlin.index.encoder.transformer import Encoder
from purlin.index.errors import Damaged, NotFound
from purlin.index.records import Role
from tests.support.ensemble_files import write_ensemble
from tests.support.static_files import write_static
from tests.support.tiny import tiny_encoder

TEXTS = ["get the file name", "", "javascript", "prefix 2 http response " * 9, "unknown"]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return write_ensemble(tmp_path / "joint")


@pytest.mark.parametrize("role", ["query", "passage"])
def test_vectors_are_those_of_the_equation(directory: Path, role: Role) -> None:
    encoder = load_encoder(directory)
    matrix = np.load(directory / PROJECTION).astype(np.float64)
    wide = load_encoder(directory.parent / "wide").encode(TEXTS, role=role)
    narrow = load_encoder(directory.parent / "narrow").encode(TEXTS, role=role)

    expected = []
    for first, second in zip(wide, narrow, strict=True):
        row = np.array([*first, *second]) @ matrix
        expected.append(row / max(np.linalg.norm(row), 1e-12))

    vectors = encoder.encode(TEXTS, role=role)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, expected, atol=1e-6)
    # Of no known word there is no direction.
    assert not vectors[1].any()


def test_counts_and_progress_are_those_of_the_first_part(directory: Path) -> None:
    encoder, counts = load_encoder(directory), list[int]()
    assert encoder.encode([], role="query").shape == (0, 6)
    encoder.encode(TEXTS, role="passage", progress=counts.append)
    assert sum(counts) == len(TEXTS)

    wide = load_encoder(directory.parent / "wide")
    assert encoder.count_tokens(TEXTS).tolist() == wide.count_tokens(TEXTS).tolist()
    assert encoder.max_tokens == wide.max_tokens == 100


def test_the_fingerprint_covers_parts_and_matrix(directory: Path) -> None:
    content = json.loads((directory / SETTINGS).read_text())
    parts, files = content["parts"], content["files"]
    reverse = dict(reversed(parts.items()))
    fingerprints = [
        EnsembleSettings("ensemble", *changed).fingerprint
        for changed in [
            ("renamed", 6, parts, files),
            ("renamed", 5, parts, files),
            ("renamed", 6, parts, {PROJECTION: "0"}),
            ("renamed", 6, parts | {"wide": "0"}, files),
            ("renamed", 6, reverse, files),
        ]
    ]
    assert fingerprints[0] == load_encoder(directory).fingerprint
    assert len(set(fingerprints)) == 5


def test_parts_are_found_from_within_the_directory(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = load_encoder(directory).fingerprint
    monkeypatch.chdir(directory)
    assert load_encoder(Path()).fingerprint == expected
    assert [part.name for part in part_directories(Path())] == ["wide", "narrow"]


def test_a_replaced_part_is_refused(directory: Path) -> None:
    shutil.rmtree(directory.parent / "narrow")
    with pytest.raises(NotFound, match=r"no encoder directory .*narrow"):
        load_encoder(directory)

    write_static(directory.parent / "narrow", dim=4)
    with pytest.raises(Damaged, match=r"joint/encoder\.json .*its part narrow is another encoder"):
        load_encoder(directory)


def test_a_matrix_of_another_shape_is_refused(tmp_path: Path) -> None:
    written = write_ensemble(tmp_path / "joint", rows=11)
    with pytest.raises(Damaged, match=r"projection\.npy.*float32 \(11, 6\), not float32 \(12, 6\)"):
        load_encoder(written)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("dim", True, "dim is True"),
        ("dim", 0, "dim is 0"),
        ("name", None, "name is None"),
        ("parts", {}, "it has 0 parts"),
        ("parts", {str(number): "" for number in range(5)}, "it has 5 parts"),
        ("parts", {"../wide": "", "narrow": ""}, "the part '../wide' is no name"),
        ("parts", {"tiny-ensemble": "", "narrow": ""}, "is no name of another directory"),
        ("files", {}, "files are"),
    ],
)
def test_invalid_settings_are_named(directory: Path, key: str, value: object, message: str) -> None:
    settings = json.loads((directory / SETTINGS).read_text())
    (directory / SETTINGS).write_text(json.dumps(settings | {key: value}))
    with pytest.raises(Damaged, match=message):
        load_encoder(directory)


def test_an_ensemble_is_no_part_of_another(directory: Path) -> None:
    inner = shutil.copytree(directory, directory.parent / "inner")
    settings = json.loads((directory / SETTINGS).read_text())
    parts = settings["parts"] | {inner.name: load_encoder(inner).fingerprint}
    (directory / SETTINGS).write_text(json.dumps(settings | {"parts": parts}))
    with pytest.raises(Damaged):
        load_encoder(directory)


def test_parts_travel_with_an_ensemble(directory: Path) -> None:
    (directory / "nested").mkdir()
    opened = _opened(directory.name, _files(directory))
    here = load_encoder(directory)
    assert opened.fingerprint == here.fingerprint
    np.testing.assert_array_equal(
        opened.encode(TEXTS, role="query"), here.encode(TEXTS, role="query")
    )


def test_a_transformer_works_by_the_plan_of_its_ensemble(tmp_path: Path) -> None:
    transformer = tmp_path / "tiny"
    tiny_encoder(transformer)
    assert transformer_directory(transformer) == transformer
    assert transformer_directory(STATIC_ENCODER) is None
    assert transformer_directory(ENSEMBLE_ENCODER) == TRANSFORMER_ENCODER
    assert transformer_directory(write_ensemble(tmp_path / "joint")) is None


def test_the_released_ensemble_joins_the_released_encoders() -> None:
    assert encoder_directory("ensemble") == ENSEMBLE_ENCODER
    assert part_directories(ENSEMBLE_ENCODER) == [TRANSFORMER_ENCODER, STATIC_ENCODER]
    assert part_directories(STATIC_ENCODER) == []
    assert not is_static(ENSEMBLE_ENCODER)

    encoder = load_encoder(ENSEMBLE_ENCODER, threads=1)
    assert isinstance(encoder, EnsembleEncoder)
    assert encoder.dim == 384
    assert encoder.plan is not None
    assert encoder.plan.threads == 1
    transformer, static = encoder.parts
    assert isinstance(transformer, Encoder)

    # What is left of both parts' cosines, at their shares.
    shares = json.loads((ENSEMBLE_ENCODER / SETTINGS).read_text())["shares"]
    queries = ["sort a list in place", "delete a folder with everything in it", "parse json"]
    passages = [
        "def sorted_copy(rows):\n    return sorted(rows)",
        "def removeTree(path):\n    shutil.rmtree(path)",
        "func parseJSON(data []byte) (value any, err error)",
    ]
    cosines = cosines_of(encoder, queries, passages)
    of_parts = [cosines_of(part, queries, passages) for part in (transformer, static)]
    expected = sum(share * each for share, each in zip(shares.values(), of_parts, strict=True))
    assert np.abs(cosines - expected).max() < 0.1
    assert cosines.argmax(axis=1).tolist() == [0, 1, 2]


def cosines_of(encoder: TextEncoder, queries: list[str], passages: list[str]) -> np.ndarray:
    vectors = encoder.encode(queries, role="query"), encoder.encode(passages, role="passage")
    cosines: np.ndarray = vectors[0] @ vectors[1].T
    return cosines
