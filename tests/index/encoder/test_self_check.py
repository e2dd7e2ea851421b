"""Builds whose vectors do not fit the machine that serves them: told apart from those that differ by rounding."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from fastapi.testclient import TestClient

from purlin.app.main import create_app
from purlin.app.settings import Settings
from purlin.cli import run_quick
from purlin.index import builds
from purlin.index.builds.manifests import Manifest, read_manifest
from purlin.index.encoder import Vectors, self_check
from purlin.index.encoder.transformer import Encoder
from purlin.index.indexing.build import build
from purlin.index.records import Role
from purlin.index.search.corpus import Corpus
from tests.support.documents import functions, source
from tests.support.hash_encoder import HashEncoder

WORDS = "open read write close path mode".split()
SUSPICIOUS = 1.5 * self_check.TOLERANCE
ROUNDED = 0.2 * self_check.TOLERANCE


class OtherMachine(HashEncoder):
    """The same encoder on a processor whose vectors have a cosine of `1 - distance` to the usual ones."""

    def __init__(self, distance: float) -> None:
        super().__init__()
        self._cosine = 1.0 - distance

    def encode(
        self, texts: Sequence[str], *, role: Role, progress: Callable[[int], None] | None = None
    ) -> Vectors:
        vectors = super().encode(texts, role=role, progress=progress)
        others = np.roll(vectors, 1, axis=1)
        others -= (others * vectors).sum(axis=1, keepdims=True) * vectors
        others /= np.linalg.norm(others, axis=1, keepdims=True)
        turned: Vectors = (self._cosine * vectors + np.sqrt(1.0 - self._cosine**2) * others).astype(
            np.float32
        )
        return turned


def make(home: Path, encoder: HashEncoder) -> Manifest:
    return build(home, "code", "code", [source("m.py", functions(20, WORDS))], encoder)


def opened(home: Path, encoder: HashEncoder) -> Corpus:
    return Corpus.load(builds.current(home, "code"), encoder)


@pytest.mark.parametrize("distance", [0.0, ROUNDED, SUSPICIOUS, 0.3])
def test_drift_is_the_largest_distance(tmp_path: Path, distance: float) -> None:
    make(tmp_path, HashEncoder())

    corpus = opened(tmp_path, OtherMachine(distance))

    assert corpus.drift == pytest.approx(distance, abs=1e-5)
    assert (corpus.warning is not None) == (distance > self_check.TOLERANCE)
    corpus.close()


def test_vectors_of_another_length_are_infinitely_far(tmp_path: Path) -> None:
    np.save(tmp_path / self_check.SELF_CHECK_FILE, np.ones((2, 3), np.float32))
    assert self_check.drift(tmp_path, HashEncoder()) == float("inf")


@pytest.mark.parametrize(("distance", "reused"), [(ROUNDED, 20), (SUSPICIOUS, 0)])
def test_a_rebuild_reuses_only_vectors_that_can_be_compared(
    tmp_path: Path, distance: float, reused: int
) -> None:
    make(tmp_path, HashEncoder())
    assert make(tmp_path, OtherMachine(distance)).reused == reused


def test_a_build_without_a_self_check_is_served(tmp_path: Path) -> None:
    make(tmp_path, HashEncoder())
    directory = builds.current(tmp_path, "code")
    manifest = read_manifest(directory)
    files = {
        name: facts for name, facts in manifest.files.items() if name != self_check.SELF_CHECK_FILE
    }

    old = Manifest(**{**manifest_fields(manifest), "files": files})

    corpus = Corpus.open(directory, old, HashEncoder())
    assert corpus.drift is None
    assert corpus.warning is None
    corpus.close()


def manifest_fields(manifest: Manifest) -> dict[str, object]:
    return {name: getattr(manifest, name) for name in manifest.__slots__}


def test_server_warns_in_log_and_description(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make(tmp_path, HashEncoder())
    app = create_app(Settings(home=tmp_path), encoder=OtherMachine(SUSPICIOUS))

    with caplog.at_level(logging.WARNING), TestClient(app) as client:
        while client.get("/readyz").status_code != 200:
            pass
        described = client.get("/corpora/code").json()

    assert described["drift"] == pytest.approx(SUSPICIOUS, rel=0.01)
    assert "Build the corpus again on this machine." in described["warning"]
    assert described["warning"] in caplog.text


def test_the_command_line_warns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make(tmp_path, HashEncoder())
    other_machine = OtherMachine(SUSPICIOUS)
    monkeypatch.setattr("purlin.index.encoder.find_encoder", lambda *_: other_machine)

    assert run_quick("search", ["code", "open", "--home", str(tmp_path)]) == 0

    assert "warning: Corpus 'code' was built on a machine" in capsys.readouterr().err


def test_texts_are_of_uneven_lengths_up_to_the_longest(released: Encoder) -> None:
    """Differences between processors grow with the length."""
    tokens = sorted(released.count_tokens(self_check.SELF_CHECK_TEXTS))
    assert len(set(tokens)) == len(tokens)
    assert tokens[0] < 5
    assert tokens[-1] > released.max_tokens / 2
