"""Builds that were made by the rules of another version: served with a warning until they are made anew."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from purlin.index import builds, versions
from purlin.index.builds.manifests import read_manifest
from purlin.index.demo import Demo
from purlin.index.indexing.build import build
from purlin.index.indexing.builder import Options
from purlin.index.indexing.repeat import is_due, repeat_build
from purlin.index.records import KINDS, Kind
from purlin.index.search.corpus import Corpus
from purlin.index.sources import open_source
from tests.support.documents import source
from tests.support.hash_encoder import HashEncoder
from tests.support.serving import numbered


@contextmanager
def earlier_reader(monkeypatch: pytest.MonkeyPatch, kind: Kind) -> Iterator[None]:
    with monkeypatch.context() as patched:
        patched.setitem(versions._READERS, kind, (0,))
        yield


@contextmanager
def earlier_texts(monkeypatch: pytest.MonkeyPatch, kind: Kind) -> Iterator[None]:
    with monkeypatch.context() as patched:
        patched.setattr(versions, "TEXTS", 1)
        yield


def build_code(home: Path, source_dir: Path) -> None:
    source_dir.mkdir(exist_ok=True)
    (source_dir / "a.py").write_text("def twice(number):\n    return 2 * number\n")
    files = open_source("code", [source_dir])
    build(home, "c", "code", files, HashEncoder(), options=Options(origin=(str(source_dir),)))


def warning(home: Path) -> str | None:
    with closing(Corpus.load(builds.current(home, "c"), HashEncoder())) as corpus:
        return corpus.warning


@pytest.mark.parametrize("earlier", [earlier_reader, earlier_texts])
def test_outdated_build_is_searched_with_a_warning_and_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, earlier: type
) -> None:
    with earlier(monkeypatch, "code"):
        build_code(tmp_path, tmp_path / "src")
        assert warning(tmp_path) is None
        assert not is_due(tmp_path, "c")

    message = warning(tmp_path)
    assert message is not None
    assert "`purlin index build code ... --name c`" in message
    with closing(Corpus.load(builds.current(tmp_path, "c"), HashEncoder())) as corpus:
        assert [hit.title for hit in corpus.search("twice").hits] == ["twice"]

    # Though no file has changed, and the documents come out the same.
    assert is_due(tmp_path, "c")
    repeat_build(tmp_path, "c", HashEncoder())
    assert warning(tmp_path) is None
    assert not is_due(tmp_path, "c")


@pytest.mark.parametrize("later", ["texts", "readers"])
def test_build_by_later_rules_is_served_with_a_warning_and_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, later: str
) -> None:
    with monkeypatch.context() as patched:
        if later == "texts":
            patched.setattr(versions, "TEXTS", versions.TEXTS + 1)
        else:
            patched.setitem(versions._READERS, "code", (versions.CODE + 1,))
        build_code(tmp_path, tmp_path / "src")

    assert "another version" in str(warning(tmp_path))
    # The server of the later version would make it anew, and this one again, in turn.
    assert not is_due(tmp_path, "c")


def test_build_that_does_not_tell_its_readers_is_outdated(tmp_path: Path) -> None:
    build_code(tmp_path, tmp_path / "src")
    directory = builds.current(tmp_path, "c")
    values = json.loads((directory / "manifest.json").read_bytes())
    assert values.pop("readers") == list(versions.readers("code"))

    content = json.dumps(values).encode()
    (directory / "manifest.json").write_bytes(content)
    name = f"20260101T000000000000-{hashlib.sha256(content).hexdigest()[:12]}"
    assert read_manifest(directory.rename(directory.parent / name)).is_outdated


def test_versions_of_readers_are_those_of_the_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    before = {kind: versions.readers(kind) for kind in KINDS}
    monkeypatch.setitem(versions._READERS, "product", (versions.CATALOGUES + 1,))
    assert [kind for kind in KINDS if versions.readers(kind) != before[kind]] == ["product"]


def test_demo_corpus_is_due_if_another_version_made_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder, files = HashEncoder(), [source("all", numbered(3))]
    demo = Demo("c", "reference", "three", lambda: iter(files))
    assert demo.is_missing(tmp_path)
    with earlier_reader(monkeypatch, "reference"):
        build(tmp_path, "c", "reference", files, encoder, options=Options(origin=("three",)))

    assert not demo.is_missing(tmp_path)
    assert demo.is_due(tmp_path)
    message = warning(tmp_path)
    assert message is not None
    assert "`purlin index demo`" in message

    # Somebody's own corpus of that name, in each state.
    with earlier_reader(monkeypatch, "reference"):
        build(tmp_path, "c", "reference", files, encoder, options=Options(origin=("/docs",)))
    assert not demo.is_due(tmp_path)
    assert not demo.is_due(tmp_path, "of another encoder")


@pytest.mark.parametrize(("origin", "expected"), [("three", True), ("/docs", False)])
def test_refused_demo_corpus_is_made_anew_but_not_somebodys_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, origin: str, expected: bool
) -> None:
    files = [source("all", numbered(3))]
    build(tmp_path, "c", "reference", files, HashEncoder(), options=Options(origin=(origin,)))
    monkeypatch.setattr("purlin.index.builds.manifests.MANIFEST_FORMAT", 99)
    demo = Demo("c", "reference", "three", lambda: iter(files))
    assert demo.is_missing(tmp_path) is expected
    assert demo.is_due(tmp_path, "any") is expected
