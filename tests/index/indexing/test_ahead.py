"""Files that other processes read."""

from __future__ import annotations

import io
import pickle
import subprocess
from collections.abc import Mapping
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from purlin.index.indexing import ahead, builder, reading
from purlin.index.indexing.ahead import read_ahead
from purlin.index.indexing.build import build
from purlin.index.indexing.segment import Prepared, prepare
from purlin.index.records import Document, Kind, Skipped, SourceFile
from purlin.index.search.lexical.builder import Tokenizer
from purlin.index.search.lexical.languages import ENGLISH
from purlin.index.sources import open_source
from purlin.index.sources.code.languages import LANGUAGES
from tests.support.documents import source
from tests.support.hash_encoder import HashEncoder


class FastEncoder(HashEncoder):
    """Makes vectors faster than files are read."""

    architecture = "static"


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[bytes]]:
    """The processes that are started: two of them, for all documents but the first one."""
    processes = []
    start = ahead._start

    def recorded() -> subprocess.Popen[bytes] | None:
        process = start()
        assert process is not None
        processes.append(process)
        return process

    monkeypatch.setattr(ahead, "_start", recorded)
    monkeypatch.setattr(reading, "READ_ALONE", 1)
    monkeypatch.setattr(builder, "available_cpus", lambda: 2)
    return processes


def _write_repository(root: Path) -> None:
    root.mkdir()
    for number in range(60):
        text = f'def gate_{number}(width):\n    """Close gate {number}."""\n    return width * {number}\n'
        (root / f"gate{number}.py").write_text(text)
    (root / "twice.py").write_text("def both(): return 1\n\ndef both(): return 2\n")
    (root / "main.go").write_text("package main\n\nfunc Open(door string) int { return 1 }\n")
    (root / "latin.py").write_bytes("# Größe\n".encode("utf-16"))
    (root / "GUIDE.md").write_text("# Doors\n\nOpen them.\n\n## Gates\n\nClose them.\n")
    (root / "tool").write_text("#!/bin/sh\nclose() { echo shut; }\n")


def _files(home: Path, kind: Kind, sources: list[SourceFile | Skipped]) -> Mapping[str, object]:
    """Checksums of all files of a build."""
    return build(home, "c", kind, sources, FastEncoder()).files


def test_a_build_is_the_same_whoever_reads(
    tmp_path: Path, started: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "repository"
    _write_repository(root)
    sources = list(open_source("code", [root], content="all"))
    # Neither can another process run what belongs to this one, nor store what is no Unicode.
    sources.insert(30, source("own", [Document("own::f", "code", "f", "def f(): pass")]))
    sources.append(source("broken", [Document("broken::g", "code", "g", "\ud800")]))
    sources.append(Skipped("gone.py", "not readable"))

    files = _files(tmp_path / "ahead", "code", sources)
    assert len(started) == 2
    assert all(process.returncode is not None for process in started)

    monkeypatch.setattr(builder, "available_cpus", lambda: 1)
    assert files == _files(tmp_path / "alone", "code", sources)
    assert len(started) == 2


def test_files_of_a_relative_path_are_read(
    tmp_path: Path, started: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    _write_repository(tmp_path / "repository")
    monkeypatch.chdir(tmp_path)
    sources = list(open_source("code", [Path("repository")]))

    manifest = build(tmp_path / "home", "c", "code", sources, FastEncoder())
    assert len(started) == 2
    assert (manifest.documents, manifest.skipped) == (65, 0)


def test_a_reference_is_read_ahead(
    tmp_path: Path, started: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "manual"
    root.mkdir()
    for number in range(20):
        entries = (
            f"<dl><dt id='open{number}'>open{number}(path)</dt><dd>Open {number} files.</dd></dl>"
        )
        (root / f"page{number}.html").write_text(f"<html><body>{entries}</body></html>")
    sources = list(open_source("reference", [root]))

    files = _files(tmp_path / "ahead", "reference", sources)
    assert len(started) == 2
    monkeypatch.setattr(reading, "READ_ALONE", 1000)
    assert files == _files(tmp_path / "alone", "reference", sources)


def test_products_are_read_by_the_process_that_tells_their_language(
    tmp_path: Path, started: list[subprocess.Popen[bytes]]
) -> None:
    sources: list[SourceFile | Skipped] = [
        source(f"f{n}", [Document(f"d{n}", "product", f"thing {n}", "Ein Ding")]) for n in range(9)
    ]
    _files(tmp_path / "home", "product", sources)
    assert started == []


def test_slow_encoders_have_the_processors_to_themselves(
    tmp_path: Path, started: list[subprocess.Popen[bytes]]
) -> None:
    root = tmp_path / "repository"
    _write_repository(root)
    sources = open_source("code", [root])
    build(tmp_path / "home", "c", "code", sources, HashEncoder())
    assert started == []


def test_files_of_a_process_that_was_killed_are_left_to_the_reader(
    tmp_path: Path, started: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ahead, "_BATCHES_AHEAD", 1)
    root = tmp_path / "repository"
    _write_repository(root)
    files = [file for file in open_source("code", [root]) if isinstance(file, SourceFile)]
    with closing(read_ahead(files, "whole", 2)) as entries:
        _, items = next(entries)
        assert items
        for process in started:
            process.kill()
            process.wait()
        remaining = list(entries)
    assert [file for file, _ in remaining] == files[1:]
    # What was read before is there, the batches after it are not.
    assert remaining[-1][1] is None


def test_no_process_can_be_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "repository"
    _write_repository(root)
    monkeypatch.setattr(ahead, "_start", lambda: None)
    files = list(open_source("code", [root]))
    with closing(read_ahead(files, "whole", 2)) as entries:
        assert list(entries) == [(file, None) for file in files]


def test_errors_are_met_by_the_process_that_builds(
    tmp_path: Path, started: list[subprocess.Popen[bytes]]
) -> None:
    sources: list[SourceFile | Skipped] = [
        source("first", [Document("first::f", "code", "f", "def f(): pass")]),
        SourceFile("second", "digest", partial(map, int, ["no number"])),
    ]
    with pytest.raises(ValueError, match="no number"):
        _files(tmp_path / "home", "code", sources)
    assert len(started) == 2
    assert all(process.returncode is not None for process in started)


def test_no_module_of_the_sources_is_imported(
    tmp_path: Path, started: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "repository"
    _write_repository(root)
    for module in ("pickle", "json", "purlin", "tempfile"):
        (root / f"{module}.py").write_text("open('imported', 'w')\n")
    monkeypatch.chdir(root)
    _files(tmp_path / "home", "code", list(open_source("code", [root])))
    assert len(started) == 2
    assert not (root / "imported").exists()


def test_the_other_process_answers_each_batch() -> None:
    def replies(*batches: object) -> list[object]:
        requests = io.BytesIO(b"".join(pickle.dumps(("whole", batch)) for batch in batches))
        answers = io.BytesIO()
        ahead.answer(requests, answers)
        answers.seek(0)
        return [pickle.load(answers) for _ in batches]

    document = Document("a.py::f", "code", "f", "def f(): pass")
    broken = Document("a.py::g", "code", "g", "\ud800")
    skipped = Skipped("a.py", "broken")
    prepared = prepare(document, "whole", Tokenizer(ENGLISH))
    assert replies([partial(iter, [document, skipped]), partial(iter, [broken])]) == [
        [[prepared, skipped], [broken]]
    ]
    assert replies([partial(int, "no number")], []) == [None, []]


def test_tokens_are_those_of_the_text() -> None:
    document = Document("a.py::f", "code", "parseHTTPHeader", "def parseHTTPHeader(héader): …")
    prepared = prepare(document, "whole", Tokenizer(ENGLISH))
    assert isinstance(prepared, Prepared)
    tokens = prepared.passages[0].lexical
    assert {b"pars", b"http", b"header"} <= set(tokens)  # type: ignore[arg-type]


@pytest.mark.parametrize("language", LANGUAGES, ids=lambda language: language.name)
def test_languages_are_the_same_in_another_process(language: object) -> None:
    assert pickle.loads(pickle.dumps(language)) is language
