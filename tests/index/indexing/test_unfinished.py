"""Builds that end too early, by whatever, and the builds that go on from them."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from purlin.index import builds
from purlin.index.builds import build_files
from purlin.index.builds.manifests import Manifest, read_manifest
from purlin.index.encoder import Vectors
from purlin.index.encoder.self_check import SELF_CHECK_TEXTS
from purlin.index.errors import InvalidInput
from purlin.index.indexing import encoding
from purlin.index.indexing.build import build
from purlin.index.indexing.builder import Options
from purlin.index.indexing.journal import count_vectors
from purlin.index.indexing.repeat import is_due
from purlin.index.indexing.unfinished import Progressed, Unfinished
from purlin.index.records import Document, Skipped, SourceFile
from purlin.index.search import dense
from purlin.index.search.segments import left_out, open_documents
from purlin.index.search.store.listing import read_listing
from purlin.index.sources import open_source
from tests.support.documents import source
from tests.support.hash_encoder import HashEncoder
from tests.support.paths import ROOT
from tests.support.serving import limited
from tests.support.traffic import run

BLOCK = 16


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "BLOCK", BLOCK)


def _records(path: Path, count: int, changed: Sequence[int] = ()) -> Path:
    """Write a list of products, two of three with a text that another one has, too."""
    rows = [
        {"_id": f"p{n}", "title": f"thing {n // 3}", "text": "new" if n in changed else "x y " * 20}
        for n in range(count)
    ]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def _documents(count: int, text: str = "body") -> list[Document]:
    return [Document(f"d{n}", "product", f"thing {n}", f"{text} of {n}") for n in range(count)]


def _content(home: Path) -> tuple[Manifest, list[str]]:
    """The active build without its times, and what else is in the corpus's directory."""
    directory = builds.current(home, "c")
    manifest = read_manifest(directory)
    build_files.verify(directory, manifest.files)
    others = {path.name for path in directory.parent.iterdir()} - set(builds.builds(home, "c"))
    return replace(manifest, created_at="", took_s=0.0, dense={}), sorted(others)


def _unfinished(home: Path) -> Progressed | None:
    return Unfinished(home / "corpora" / "c").progressed()


class Failing(HashEncoder):
    """Raises in the block after `blocks` others, once the sources below `home` are all read."""

    def __init__(self, blocks: int, error: BaseException, home: Path) -> None:
        super().__init__()
        self._blocks, self._error, self._home = blocks, error, home

    def encode(self, texts: Sequence[str], **arguments: Any) -> Vectors:
        if texts is not SELF_CHECK_TEXTS and len(self.encoded) >= self._blocks * BLOCK:
            deadline = time.monotonic() + 60
            # Not a walk through all of home, whose files come and go meanwhile.
            read = "corpora/*/.unfinished/read/read.json"
            while not list(self._home.glob(read)) and time.monotonic() < deadline:
                time.sleep(0.01)
            raise self._error
        return super().encode(texts, **arguments)


def _fail(home: Path, sources: Iterable[SourceFile | Skipped], blocks: int = 4) -> None:
    """Build until so many blocks are encoded."""
    with pytest.raises(KeyboardInterrupt):
        build(home, "c", "product", sources, Failing(blocks, KeyboardInterrupt(), home))


_SLOW_BUILD = """
import os, sys, time; from pathlib import Path
from purlin.index.encoder import load_encoder
from purlin.index.indexing import encoding
from purlin.index.indexing.build import build
from purlin.index.search.store.listing import read_listing
from purlin.index.search.segments import left_out, open_documents
from purlin.index.encoder.self_check import SELF_CHECK_TEXTS
from purlin.index.sources import open_source
from tests.support.hash_encoder import HashEncoder
class Slow(HashEncoder):
    def encode(self, texts, **arguments):
        time.sleep(0.0005 * len(texts)); return super().encode(texts, **arguments)
class Fast(HashEncoder):
    fingerprint = "fast"
encoding.BLOCK = 16
def build_slowly(home, path, interim):
    build(Path(home), "c", "product", open_source("product", [Path(path)]), Slow(),
          interim=Fast() if interim else None)
"""
_ONCE = f"{_SLOW_BUILD}build_slowly(*sys.argv[1:])"

# Each build is a process of its own, a copy of one that has loaded what a build needs.
_OFTEN = f"""{_SLOW_BUILD}
for line in sys.stdin:
    pid = os.fork()
    if not pid:
        build_slowly(line.rstrip("\\n"), *sys.argv[1:])
        os._exit(0)
    print(pid, flush=True)
    print(os.waitpid(pid, 0)[1], flush=True)
"""


@pytest.mark.parametrize("interim", ["", "interim"])
def test_killed_ten_times_gives_the_same_content(tmp_path: Path, interim: str) -> None:
    path = _records(tmp_path / "products.jsonl", 1500)
    command = [sys.executable, "-c", _OFTEN, str(path), interim]
    draw, kills, encoded = random.Random(0), 0, [0]

    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as forking:
        assert forking.stdin is not None
        assert forking.stdout is not None

        def status_of_build(home: Path, kill_after_s: float | None = None) -> int:
            """Build; returns the exit status, or the signal that ended the process."""
            print(home, file=forking.stdin, flush=True)
            pid = int(forking.stdout.readline())
            if kill_after_s is not None:
                time.sleep(kill_after_s)
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            return int(forking.stdout.readline())

        assert status_of_build(tmp_path / "whole") == 0

        while kills < 10:
            status = status_of_build(tmp_path / "killed", draw.uniform(0, 0.25))
            if status == 0:
                break
            assert status == signal.SIGKILL
            kills += 1
            if (progressed := _unfinished(tmp_path / "killed")) is not None:
                encoded.append(progressed.encoded)
        assert kills > 2
        assert encoded == sorted(encoded)

        assert status_of_build(tmp_path / "killed") == 0
    assert _content(tmp_path / "killed") == _content(tmp_path / "whole")
    assert _content(tmp_path / "killed")[1] == ["CURRENT"]


def test_an_encoder_that_raises_costs_its_block_alone(tmp_path: Path) -> None:
    path = _records(tmp_path / "products.jsonl", 600)
    failing = Failing(3, ZeroDivisionError(), tmp_path)
    with pytest.raises(ZeroDivisionError):
        build(tmp_path, "c", "product", open_source("product", [path]), failing)
    progressed = _unfinished(tmp_path)
    assert progressed is not None
    assert progressed.encoded == 3 * BLOCK

    encoder = HashEncoder()
    build(tmp_path, "c", "product", open_source("product", [path]), encoder)
    assert len(encoder.encoded) == 200 - 3 * BLOCK
    assert _unfinished(tmp_path) is None

    build(tmp_path / "other", "c", "product", open_source("product", [path]), HashEncoder())
    assert _content(tmp_path) == _content(tmp_path / "other")


def test_read_documents_are_taken_over_unless_the_sources_changed(
    tmp_path: Path, encoder: HashEncoder
) -> None:
    read: list[str] = []

    def listed(text: str) -> Iterator[SourceFile]:
        def reading() -> Iterator[Document | Skipped]:
            read.append(text)
            yield from _documents(100, text)

        yield SourceFile("f", text, reading)

    _fail(tmp_path, listed("body"), 2)
    progressed = _unfinished(tmp_path)
    assert progressed is not None
    assert (progressed.encoded, progressed.passages) == (2 * BLOCK, 100)

    _fail(tmp_path, listed("body"), 1)
    assert read == ["body"]
    manifest = build(tmp_path, "c", "product", listed("other"), encoder)
    assert (read, manifest.documents, len(encoder.encoded)) == (["body", "other"], 100, 100)


def test_a_build_killed_while_it_makes_a_graph_reads_nothing_again(
    tmp_path: Path, encoder: HashEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoding, "BLOCK", 2048)
    monkeypatch.setattr(dense, "EXACT_ROWS", 300)
    read: list[str] = []

    def reading() -> Iterator[Document | Skipped]:
        read.append("f")
        yield from _documents(400)

    def interrupt(stage: str, _: int, __: int | None) -> None:
        if stage == "index":
            raise KeyboardInterrupt

    monkeypatch.setattr("purlin.index.indexing.builder.SHOWN_ROWS", 300)
    with pytest.raises(KeyboardInterrupt):
        build(
            tmp_path,
            "c",
            "product",
            [SourceFile("f", "digest", reading)],
            encoder,
            progress=interrupt,
        )

    manifest = build(tmp_path, "c", "product", [SourceFile("f", "digest", reading)], encoder)
    assert (read, manifest.documents) == (["f"], 400)


@pytest.mark.parametrize("position", [0, 30, 200, 1000, -1])
def test_a_damaged_block_is_encoded_again(
    tmp_path: Path, encoder: HashEncoder, position: int
) -> None:
    sources = [source("f", _documents(100))]
    _fail(tmp_path, sources)
    [journal] = tmp_path.rglob("*.journal")
    content = bytearray(journal.read_bytes())
    content[position] ^= 1
    journal.write_bytes(content)

    build(tmp_path, "c", "product", sources, encoder)
    kept = 100 - len(encoder.encoded)
    # A broken header loses what comes after it, too.
    assert kept == (0 if position == 0 else 3 * BLOCK)
    build(tmp_path / "whole", "c", "product", sources, HashEncoder())
    assert _content(tmp_path) == _content(tmp_path / "whole")


def test_a_torn_block_is_dropped(tmp_path: Path, encoder: HashEncoder) -> None:
    sources = [source("f", _documents(100))]
    _fail(tmp_path, sources)
    [journal] = tmp_path.rglob("*.journal")
    os.truncate(journal, journal.stat().st_size - 1)
    build(tmp_path, "c", "product", sources, encoder)
    assert len(encoder.encoded) == 100 - 3 * BLOCK


def test_damaged_documents_are_read_again(tmp_path: Path, encoder: HashEncoder) -> None:
    sources = [source("f", _documents(100))]
    _fail(tmp_path, sources)
    directory = tmp_path / "corpora" / "c" / builds.UNFINISHED / "read" / "base"
    largest = max(directory.iterdir(), key=lambda path: path.stat().st_size)
    content = bytearray(largest.read_bytes())
    content[len(content) // 2] ^= 1
    largest.write_bytes(content)
    build(tmp_path, "c", "product", sources, encoder)
    build(tmp_path / "whole", "c", "product", sources, HashEncoder())
    assert _content(tmp_path) == _content(tmp_path / "whole")


def test_vectors_of_another_encoder_are_removed(tmp_path: Path, encoder: HashEncoder) -> None:
    sources = [source("f", _documents(100))]
    _fail(tmp_path, sources)
    other = Failing(2, KeyboardInterrupt(), tmp_path)
    other.fingerprint = "other"
    with pytest.raises(KeyboardInterrupt):
        build(tmp_path, "c", "product", sources, other)
    assert len(list(tmp_path.rglob("*.journal"))) == 1
    build(tmp_path, "c", "product", sources, encoder)
    assert len(encoder.encoded) == 100


def test_vectors_of_a_machine_that_drifts_are_not_used(
    tmp_path: Path, encoder: HashEncoder
) -> None:
    sources = [source("f", _documents(100))]
    _fail(tmp_path, sources)
    [stored] = tmp_path.rglob("self_check.npy")
    np.save(stored, -np.load(stored))
    build(tmp_path, "c", "product", sources, encoder)
    assert len(encoder.encoded) == 100


def test_a_failed_source_keeps_what_was_encoded(tmp_path: Path, encoder: HashEncoder) -> None:
    def failing() -> Iterator[Document | Skipped]:
        journals = f"corpora/c/{builds.UNFINISHED}/*/*.journal"
        for document in _documents(10_000):
            yield document
            # What is encoded meanwhile is written between two documents.
            if any(map(count_vectors, tmp_path.glob(journals))):
                break
            time.sleep(0.001)
        raise OSError(5, "Input/output error")

    with pytest.raises(InvalidInput, match="cannot be read"):
        build(tmp_path, "c", "product", [SourceFile("f", "x", failing)], encoder)
    assert _unfinished(tmp_path) is not None
    encoder.encoded.clear()
    build(tmp_path, "c", "product", [source("f", _documents(100))], encoder)
    assert len(encoder.encoded) < 100


def test_a_source_that_changes_while_it_is_read_is_read_again(
    tmp_path: Path, encoder: HashEncoder
) -> None:
    path = _records(tmp_path / "products.jsonl", 300)
    sources = list(open_source("product", [path]))

    def appended() -> Iterator[Document | Skipped]:
        assert isinstance(sources[0], SourceFile)
        items = sources[0].read()
        yield next(items)
        with path.open("a") as file:
            file.write('{"_id": "late", "title": "late"}\n')
        yield from items

    assert isinstance(sources[0], SourceFile)
    changing = replace(sources[0], read=appended)
    manifest = build(tmp_path, "c", "product", [changing], encoder)
    assert manifest.skipped == 1
    directory = builds.current(tmp_path, "c")
    with closing(open_documents(directory, manifest)) as documents:
        [skipped] = left_out(read_listing(directory), documents.stores)
    assert skipped.reason == "changed while it was being read; build again to include the changes"
    assert build(tmp_path, "c", "product", open_source("product", [path]), encoder).documents == 301


def test_a_build_without_changes_is_not_published(tmp_path: Path, encoder: HashEncoder) -> None:
    path = _records(tmp_path / "products.jsonl", 300)

    def again(**arguments: Any) -> Manifest:
        sources = open_source("product", [path])
        return build(tmp_path, "c", "product", sources, encoder, **arguments)

    first = again()
    assert again() == first
    assert len(builds.builds(tmp_path, "c")) == 1
    assert again(options=Options(dense_weight=0.25)).dense_weight == 0.25
    assert again(options=Options(force=True)).documents == first.documents
    assert len(builds.builds(tmp_path, "c")) == 3
    _records(path, 300, changed=[7])
    assert again() != first


def test_a_file_that_was_touched_counts_as_read(tmp_path: Path, encoder: HashEncoder) -> None:
    path = _records(tmp_path / "products.jsonl", 300)
    options = Options(origin=(str(path),))
    build(tmp_path, "c", "product", open_source("product", [path]), encoder, options=options)
    time.sleep(0.05)
    path.touch()
    assert is_due(tmp_path, "c")
    build(tmp_path, "c", "product", open_source("product", [path]), encoder, options=options)
    assert not is_due(tmp_path, "c")


def test_delete_removes_what_is_unfinished(tmp_path: Path) -> None:
    _fail(tmp_path, [source("f", _documents(100))])
    builds.delete(tmp_path, "c")
    assert not (tmp_path / "corpora" / "c").exists()


def test_a_disk_that_is_full_leaves_whole_blocks(tmp_path: Path) -> None:
    path = _records(tmp_path / "products.jsonl", 600)
    wide = _ONCE.replace("class Slow(HashEncoder):", "class Slow(HashEncoder):\n    dim = 4096")
    block_bytes = 24 + BLOCK * (16 + 2 * 4096)
    command = [sys.executable, "-c", wide, str(tmp_path / "full"), str(path), ""]
    stopped = [*command[:2], limited(wide, 3 * block_bytes + 1000), *command[3:]]
    failed = run(stopped)
    assert "StorageFailed: The disk is full or a size limit was reached" in failed.stderr
    assert "Free some space" in failed.stderr
    assert not builds.corpora(tmp_path / "full")
    progressed = _unfinished(tmp_path / "full")
    assert progressed is not None
    assert progressed.encoded == 3 * BLOCK

    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    command[3] = str(tmp_path / "whole")
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    assert _content(tmp_path / "full") == _content(tmp_path / "whole")
