"""Builds of a base and a delta, against builds of one segment over the same sources."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from purlin.index import builds, versions
from purlin.index.builds.manifests import Manifest, read_manifest
from purlin.index.indexing import reading
from purlin.index.indexing.build import build, file_digests
from purlin.index.indexing.builder import Options
from purlin.index.records import Document, Location, Mode, Skipped, SourceFile
from purlin.index.search import dense, segments
from purlin.index.search.corpus import Corpus
from purlin.index.search.ranking.query_log import Logged
from purlin.index.search.store import document_records
from purlin.index.search.store.listing import read_listing
from purlin.index.search.store.names import Names
from tests.support.corpora import new_corpus
from tests.support.documents import source
from tests.support.hash_encoder import HashEncoder

WORDS = ["open", "close", "read_file", "writeFile", "upload", "retry", "DDR4-3200", "parse", ""]
LOG = [Logged("shut the door", "a0"), Logged("load up", "b1"), Logged("again", "f3-0")]
MODES: tuple[Mode, ...] = ("hybrid", "dense", "lexical")

# A file is a list of documents: an id, words, and a role. Ids meet in other files, too.
IDS = ["a0", "a1", "b0", "b1"]
Files = dict[str, list[tuple[str, list[str], str]]]
FILE = st.lists(
    st.tuples(
        st.sampled_from(IDS + [""] * 8),
        st.lists(st.sampled_from(WORDS), max_size=6),
        st.sampled_from(["source", "test"]),
    ),
    max_size=3,
)
EDITS = st.dictionaries(st.integers(0, 14), FILE | st.none(), min_size=1, max_size=3)


@pytest.fixture(autouse=True)
def always_deltas(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a delta whatever the share that changed."""
    monkeypatch.setattr(reading, "MOST_CHANGED", 1e9)
    monkeypatch.setattr(reading, "SMALLEST_BASE", 0)


def sources(files: Files) -> list[SourceFile | Skipped]:
    """One file `fN` per key, in their order, and one that is left out."""
    listed: list[SourceFile | Skipped] = [Skipped("image.png", "binary")]
    for path, contents in sorted(files.items()):
        items: list[Document | Skipped] = [
            Document(
                identifier or f"{path}-{number}",
                "code",
                f"{(words or ['none'])[0]} in {path}",
                " ".join(words),
                fields={"role": role, "words": len(words)} | ({"rare": True} if words[2:] else {}),
            )
            for number, (identifier, words, role) in enumerate(contents)
        ]
        if not contents:
            items.append(Skipped(path, "empty", 1))
        listed.append(source(path, items))
    return listed


def answers(home: Path, name: str) -> dict[str, Any]:
    """Everything that a build says of itself and of some queries."""
    directory = builds.current(home, name)
    with closing(Corpus.load(directory, HashEncoder())) as corpus:
        manifest = corpus.manifest
        said: dict[str, Any] = {
            "counts": (manifest.documents, manifest.passages, manifest.skipped, manifest.logged),
            "names": corpus.listing.names(100),
            "fields": corpus.field_names,
            "exist": {id for id in IDS if corpus.count([id])},
        }
        for query in ("retry the upload", "open in f03", "shut a door"):
            for mode in MODES:
                for conditions in ({}, {"role": "test"}):
                    result = corpus.search(query, k=100, mode=mode, filter=conditions, explain=True)
                    said[f"{query} {mode} {conditions}"] = (result.total, result.hits)
            said[f"{query} passages"] = corpus.passages(query, 20).passages
    with closing(segments.open_documents(directory, manifest)) as documents:
        left_out = segments.left_out(read_listing(directory), documents.stores)
        said["roles"] = sorted(documents.texts("role", 100))
    said["left out"] = sorted(map(repr, left_out))
    return said


def rebuild(home: Path, name: str, files: Files) -> Manifest:
    return build(home, name, "code", sources(files), HashEncoder(), options=Options(log=LOG))


@settings(max_examples=20)
@given(
    st.dictionaries(st.integers(0, 14), FILE, min_size=3, max_size=12),
    st.lists(EDITS, min_size=1, max_size=4),
)
def test_a_delta_answers_like_a_full_build(
    files: Mapping[int, Any], edits: Sequence[Mapping[int, Any]]
) -> None:
    current: Files = {f"f{number:02}": contents for number, contents in files.items()}
    # The log must lead to some document.
    current["keep"] = [("a0", ["door"], "source")]
    with TemporaryDirectory() as directory:
        home = Path(directory)
        rebuild(home, "parts", current)
        for edit in edits:
            for number, contents in edit.items():
                path = f"f{number:02}"
                if contents is None:
                    current.pop(path, None)
                else:
                    current[path] = contents
            manifest = rebuild(home, "parts", current)
            assert manifest.segments[0] == "base"

        # The state between two edits is the last one of another example.
        with TemporaryDirectory() as fresh:
            rebuild(Path(fresh), "whole", current)
            whole, parts = answers(Path(fresh), "whole"), answers(home, "parts")
        for question, answer in whole.items():
            assert parts[question] == answer, question


def plain(count: int) -> Files:
    """`count` files of one document each."""
    return {f"f{n:02}": [("", [WORDS[n % 8], "close"], "source")] for n in range(count)}


def test_a_delta_links_the_base_and_encodes_only_the_change(tmp_path: Path) -> None:
    files = plain(9)
    encoder = HashEncoder()
    build(tmp_path, "c", "code", sources(files), encoder)
    first = builds.current(tmp_path, "c")
    encoder.encoded.clear()

    files["f04"] = [("", ["upload", "upload"], "source")]
    del files["f07"]
    manifest = build(tmp_path, "c", "code", sources(files), encoder)
    second = builds.current(tmp_path, "c")
    assert (manifest.segments, manifest.documents, manifest.reused) == (("base", "delta"), 8, 7)
    assert len(encoder.encoded) == 1
    linked = [path for path in sorted((second / "base").rglob("*")) if path.is_file()]
    assert linked
    for path in linked:
        assert path.samefile(first / path.relative_to(second))

    with closing(Corpus.load(second, encoder)) as corpus:
        assert corpus.search("upload", k=1, mode="lexical").hits[0].document_id == "f04-0"
        assert corpus.count(["f07-0", "f03-0"]) == 1


def test_removed_files_need_no_delta(tmp_path: Path) -> None:
    files = plain(9)
    files["f02"] = [("", [], "test")]
    rebuild(tmp_path, "c", files | {"keep": [("a0", [], "source")]})
    del files["f02"]
    manifest = rebuild(tmp_path, "c", files | {"keep": [("a0", [], "source")]})
    assert (manifest.segments, manifest.documents) == (("base",), 9)
    said = answers(tmp_path, "c")
    assert (said["counts"], said["roles"]) == ((9, 9, 1, 1), ["source"])


@pytest.mark.parametrize(("limit", "smallest"), [(0.1, 0), (1e9, 100)])
def test_many_changes_or_a_small_base_make_one_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: float, smallest: int
) -> None:
    monkeypatch.setattr(reading, "MOST_CHANGED", limit)
    monkeypatch.setattr(reading, "SMALLEST_BASE", smallest)
    encoder = HashEncoder()
    files = plain(9)
    build(tmp_path, "c", "code", sources(files), encoder)
    files["f04"] = [("", ["upload"], "source")]
    encoder.encoded.clear()
    manifest = build(tmp_path, "c", "code", sources(files), encoder)
    assert (manifest.segments, manifest.reused, len(encoder.encoded)) == (("base",), 8, 1)


def test_a_delta_is_merged_once_it_is_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "MOST_CHANGED", 0.3)
    files = plain(9)
    shapes = []
    for number in range(5):
        files[f"f0{number}"] = [("", ["upload"] * number, "source")]
        shapes.append(build(tmp_path, "c", "code", sources(files), HashEncoder()).segments)
    assert shapes == [("base",), ("base", "delta"), ("base",), ("base", "delta"), ("base",)]


def one_segment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, priced: range, more: str) -> Path:
    """Build fifty files, then again with other prices in some, as one segment; return that build."""
    monkeypatch.setattr(reading, "MOST_CHANGED", 0.1)
    monkeypatch.setattr(dense, "EXACT_ROWS", 10)

    def catalogue(prices: Mapping[int, int], text: str) -> list[SourceFile | Skipped]:
        return [
            source(
                f"f{n:02}",
                [Document(f"d{n}", "product", f"lamp {n}", text, fields={"price": prices[n]})],
            )
            for n in range(50)
        ]

    prices = dict.fromkeys(range(50), 10)
    build(tmp_path, "c", "product", catalogue(prices, ""), HashEncoder())
    prices |= dict.fromkeys(priced, 12)
    changed = catalogue(prices, more)
    assert build(tmp_path, "c", "product", changed, HashEncoder()).segments == ("base",)
    return builds.current(tmp_path, "c")


def test_equal_texts_keep_their_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    second = one_segment(monkeypatch, tmp_path, range(10, 30), "")
    first = second.parent / builds.builds(tmp_path, "c")[0]
    for name in ("vectors.npy", "dense.faiss", "dense.json"):
        assert (second / "base" / name).samefile(first / "base" / name)
    assert read_manifest(second).dense == read_manifest(first).dense

    with closing(Corpus.load(second, HashEncoder())) as corpus:
        hits = corpus.search("lamp", k=50, filter={"price": 12}).hits
        assert {hit.document_id for hit in hits} == {f"d{n}" for n in range(10, 30)}


def test_other_texts_have_a_graph_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    second = one_segment(monkeypatch, tmp_path, range(10, 30), "dimmable")
    first = second.parent / builds.builds(tmp_path, "c")[0]
    for name in ("vectors.npy", "dense.faiss"):
        assert not (second / "base" / name).samefile(first / "base" / name)


def test_names_of_a_segment_are_read_once_however_many_files_are_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = []
    entries = Names.entries
    monkeypatch.setattr(Names, "entries", lambda names: reads.append(names) or entries(names))
    one_segment(monkeypatch, tmp_path, range(10, 30), "")
    # Ids, titles and paths.
    assert len(reads) == 3


def test_another_encoder_keeps_documents_and_postings(tmp_path: Path) -> None:
    files = plain(9)
    build(tmp_path, "c", "code", sources(files), HashEncoder())
    files["f04"] = []
    build(tmp_path, "c", "code", sources(files), HashEncoder())
    before = builds.current(tmp_path, "c")

    other = HashEncoder()
    other.dim, other.fingerprint = 32, "other"
    manifest = build(tmp_path, "c", "code", sources(files), other)
    after = builds.current(tmp_path, "c")
    assert (manifest.segments, manifest.reused) == (("base", "delta"), 0)
    for name in ("base/documents.bin", "base/lexical/postings.bin", "delta/documents.bin"):
        assert (after / name).samefile(before / name)
    assert np.load(after / "base" / "vectors.npy").shape == (9, 32)
    assert np.load(before / "base" / "vectors.npy").shape == (9, 64)


def test_other_passages_are_not_taken_over(tmp_path: Path) -> None:
    build(tmp_path, "c", "code", sources(plain(3)), HashEncoder())
    before = builds.current(tmp_path, "c")
    build(
        tmp_path, "c", "code", sources(plain(3)), HashEncoder(), options=Options(splitter="simple")
    )
    after = builds.current(tmp_path, "c")
    name = "base/documents.bin"
    assert not (after / name).samefile(before / name)


def test_documents_whose_lengths_are_not_known_are_not_taken_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = Document("a::f", "code", "f", "x", location=Location("a", 3, 7))
    listed = [source("a", [document])]
    with monkeypatch.context() as earlier_version:
        earlier_version.setattr(versions, "TEXTS", 5)
        entry = document_records.Entry
        earlier_version.setattr(document_records, "Entry", lambda r, _, *rest: entry(r, [0], *rest))
        build(tmp_path, "c", "code", listed, HashEncoder())

    manifest = build(tmp_path, "c", "code", listed, HashEncoder())
    directory = builds.current(tmp_path, "c")
    with closing(segments.open_documents(directory, manifest)) as documents:
        assert documents.lengths(np.array([0])).tolist() == [1]
    assert manifest.reused == 1  # the vector is


def test_segments_are_copied_where_files_cannot_be_linked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError("no links here")

    monkeypatch.setattr(Path, "hardlink_to", fail)
    files = plain(9)
    rebuild(tmp_path, "c", files | {"keep": [("a0", [], "source")]})
    before = answers(tmp_path, "c")
    rebuild(tmp_path, "c", files | {"keep": [("a0", [], "source")]})
    assert answers(tmp_path, "c") == before


def test_digests_are_those_of_files_with_a_stamp(tmp_path: Path) -> None:
    def stamped(path: str, stamp: tuple[int, int] | None, identifier: str) -> SourceFile:
        document = Document(identifier, "code", "f", "def f(): pass")
        return SourceFile(path, f"digest of {path}", lambda: iter([document]), stamp)

    assert file_digests(tmp_path, "c") == {}
    files = [stamped("a", (3, 5), "a"), stamped("b", None, "b"), stamped("c", (4, 6), "a")]
    build(tmp_path, "c", "code", files, HashEncoder())
    # The second document `a` may appear once the first is gone: its file has to be read again.
    assert file_digests(tmp_path, "c") == {"a": ((3, 5), "digest of a")}

    build(tmp_path, "c", "code", [stamped("a", (3, 9), "a")], HashEncoder())
    assert file_digests(tmp_path, "c") == {"a": ((3, 9), "digest of a")}


def test_segments_in_memory_are_shared(tmp_path: Path) -> None:
    files = plain(9)
    with closing(new_corpus(tmp_path, "code", sources(files))) as first:
        files["f04"] = [("", ["upload"], "source")]
        build(tmp_path, "c", "code", sources(files), HashEncoder())
        second = Corpus.load(builds.current(tmp_path, "c"), HashEncoder(), first)
        assert second.segments[0].vectors is first.segments[0].vectors
        assert second.segments[0].postings is first.segments[0].postings
        # The link to the file of its documents does not disturb the older build.
        assert first.document("f04-0").body != second.document("f04-0").body
    with closing(second):
        assert second.search("upload", k=1, mode="lexical").hits[0].document_id == "f04-0"


def changed_base(home: Path) -> Iterator[Path]:
    for name in ("documents.bin", "vectors.npy", "lexical/postings.bin"):
        yield builds.current(home, "c") / "base" / name


def test_a_damaged_base_is_not_linked(tmp_path: Path) -> None:
    for number in range(3):
        build(tmp_path, "c", "code", sources(plain(9)), HashEncoder())
        path = [*changed_base(tmp_path)][number]
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(content)
        manifest = build(tmp_path, "c", "code", sources(plain(9)), HashEncoder())
        assert manifest.reused == 0
        with closing(Corpus.load(builds.current(tmp_path, "c"), HashEncoder())) as corpus:
            assert corpus.search("upload").total == 9
