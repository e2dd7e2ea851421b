import hashlib
import os
import re
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from purlin.index.errors import Altered, InvalidInput, NotFound
from purlin.index.records import Document, Location, Passage, Skipped, Span
from purlin.index.search.filters import Filter
from purlin.index.search.store import Documents, Store, StoreWriter, file_state

DOCUMENTS = [
    Document(
        id="a.py::f",
        kind="code",
        title="f",
        body="def f(): pass",
        summary="Does é.",
        context=("A",),
        location=Location("a.py", 3, 9, "http://x/#f"),
        fields={
            "language": "python",
            "price": 10,
            "tags": ("x", "y"),
            "hot": True,
            "long": "w" * 257,
            "huge": 2**70,
        },
        entities=(Span(4, 5),),
        atoms=(Span(0, 8),),
    ),
    Document(
        id="b/ü#2",
        kind="code",
        title="g",
        body="b",
        fields={"language": "go", "price": 2.5, "day": "2024-05-01"},
    ),
    Document(
        id="c",
        kind="code",
        title="h",
        body="c",
        fields={"language": "go", "price": 30, "note": "10"},
    ),
]


SKIPPED = Skipped("a.py", "broken", 7)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    writer = StoreWriter(tmp_path)
    add_file(writer, DOCUMENTS)
    writer.close()
    return Store(tmp_path, "code")


def add_file(writer: StoreWriter, documents: list[Document]) -> None:
    """Add a file with these documents, two passages each, and something skipped."""
    number = writer.add_file()
    for document in documents:
        passages = [Passage(document.id, n, 0, 1, "c") for n in range(2)]
        writer.add(document, number, [(p, p.id.encode().ljust(16)) for p in passages])
    writer.add_skipped(SKIPPED, number)


@pytest.fixture
def documents(store: Store) -> Documents:
    return Documents([store], store.field_types())


def test_documents_round_trip(store: Store, documents: Documents) -> None:
    assert [documents.document(d.id) for d in DOCUMENTS] == DOCUMENTS
    assert list(store.read_file(0)) == [*DOCUMENTS, SKIPPED]
    assert store.skipped() == [(0, SKIPPED)]


def test_files_are_copied_whole(store: Store, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    writer = StoreWriter(tmp_path / "other", [store])
    first = Document("first", "code", "first", "x", fields={"language": "c", "price": 1})
    add_file(writer, [first])
    writer.copy(store, 0, writer.add_file())
    add_file(writer, [replace(first, id="last")])
    writer.close()

    with closing(Store(tmp_path / "other", "code")) as other:
        assert list(other.read_file(1)) == [*DOCUMENTS, SKIPPED]
        assert other.fetch([5])[0].passage == store.fetch([3])[0].passage
        assert other.document_of.tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
        assert other.file_of.tolist() == [0, 1, 1, 1, 2]
        assert other.digests()[2:8].tolist() == store.digests().tolist()
        opened = Documents([other], other.field_types())
        assert np.flatnonzero(opened.allowed({"language": "go"})).tolist() == [2, 3]
        assert np.flatnonzero(opened.allowed({"price": {"lte": 5}})).tolist() == [0, 2, 4]

        # A copy of a copy: the rows of its fields are counted rightly, too.
        (tmp_path / "third").mkdir()
        writer = StoreWriter(tmp_path / "third", [other])
        for file in (2, 1):
            writer.copy(other, file, writer.add_file())
        writer.close()
        with closing(Store(tmp_path / "third", "code")) as third:
            assert list(third.read_file(1)) == [*DOCUMENTS, SKIPPED]
            opened = Documents([third], third.field_types())
            assert np.flatnonzero(opened.allowed({"price": {"lte": 5}})).tolist() == [0, 2]


def test_removed_passages_are_left_out(store: Store, tmp_path: Path) -> None:
    (tmp_path / "delta").mkdir()
    writer = StoreWriter(tmp_path / "delta")
    changed = replace(DOCUMENTS[1], title="changed")
    add_file(writer, [changed])
    writer.close()
    with closing(Store(tmp_path / "delta", "code")) as delta:
        live = np.array([True, True, False, False, False, False, True, True])
        opened = Documents([store, delta], {"language": False, "price": True}, live)
        assert (len(opened), opened.count) == (4, 2)
        assert opened.document("b/ü#2") == changed
        assert opened.rows_of(["a.py::f", "b/ü#2", "c"]) == {"a.py::f": 0, "b/ü#2": 3}
        assert opened.rows_named("h").tolist() == []
        assert opened.rows_named("changed").tolist() == [6, 7]
        assert opened.fetch([7, 0, 6])[0].document == changed
        assert np.flatnonzero(opened.allowed({"language": "go"})).tolist() == [3]
        with pytest.raises(NotFound):
            opened.document("c")


def test_passages_come_with_their_document(store: Store) -> None:
    assert store.fetch([3])[0].document == DOCUMENTS[1]
    assert store.fetch([3])[0].passage == Passage("b/ü#2", 1, 0, 1, "c")
    assert store.fetch([4, 3])[1].passage.id == "b/ü#2#1"
    assert [s.passage.number for s in store.fetch([1, 2, 3])] == [1, 0, 1]
    assert len({id(passage.document) for passage in store.fetch([4, 0, 1, 5])}) == 2
    assert store.document_of.tolist() == [0, 0, 1, 1, 2, 2]
    assert store.digests()[5].tobytes() == b"c#1".ljust(16)


def test_unknown_document_is_not_found(documents: Documents) -> None:
    with pytest.raises(NotFound, match="no document 'zzz'"):
        documents.document("zzz")


@pytest.mark.parametrize(
    ("conditions", "rows"),
    [
        ({"language": "go"}, [1, 2]),
        ({"language": ["go", "python"]}, [0, 1, 2]),
        ({"language": "rust"}, []),
        ({"tags": "y"}, [0]),
        ({"hot": True}, [0]),
        ({"hot": False}, []),
        ({"price": 10}, [0]),
        ({"price": 10.0}, [0]),
        ({"price": {"gte": 10}}, [0, 2]),
        ({"price": {"gte": 2, "lte": 10}}, [0, 1]),
        ({"day": {"gte": "2024-01-01", "lte": "2024-12-31"}}, [1]),
        ({"language": "go", "price": {"lte": 5}}, [1]),
        ({"note": "10"}, [2]),
        ({}, [0, 1, 2]),
    ],
)
def test_filters(documents: Documents, conditions: Filter, rows: list[int]) -> None:
    assert np.flatnonzero(documents.allowed(conditions)).tolist() == rows


@pytest.mark.parametrize(
    ("conditions", "field", "words"),
    [
        (
            {"colour": "red"},
            "filter.colour",
            "no filterable field 'colour'. It has: day, hot, huge, language",
        ),
        ({"long": "w"}, "filter.long", "256"),
        ({"prise": 1}, "filter.prise", "Did you mean 'price'?"),
        ({"price": {"gt": 1}}, "filter.price", "gte and lte; 'gt' was given"),
        ({"price": {}}, "filter.price", "nothing was given"),
        ({"price": {"gte": True}}, "filter.price.gte", "number"),
        ({"language": {"gte": 1}}, "filter.language.gte", "no numbers"),
        ({"language": []}, "filter.language", "1 to 1000"),
        ({"language": ["x"] * 1001}, "filter.language", "1001"),
        ({"language": [["x"]]}, "filter.language", "text, a number"),
        ({"price": 2**64}, "filter.price", "64 bits"),
        ({f"f{i}": 1 for i in range(33)}, "filter", "at most 32"),
    ],
)
def test_invalid_filters_are_named(
    documents: Documents, conditions: Filter, field: str, words: str
) -> None:
    with pytest.raises(InvalidInput, match=re.escape(words)) as caught:
        documents.allowed(conditions)
    assert caught.value.field == field


def test_hostile_field_names_are_only_names(documents: Documents) -> None:
    with pytest.raises(InvalidInput):
        documents.allowed({"x' OR 1=1 --": "go"})
    assert not documents.allowed({"language": "' OR 1=1 --"}).any()


# ---- a file that is changed while it is open


def _write(path: Path) -> None:
    """One byte, and the times set back."""
    before = path.stat()
    with path.open("r+b") as file:
        file.seek(before.st_size // 2)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 1]))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def _replace(path: Path) -> None:
    copy = path.with_name("copy")
    shutil.copy2(path, copy)
    copy.replace(path)


HARMS = [
    _write,
    lambda path: os.truncate(path, 9000),
    lambda path: os.truncate(path, 0),
    _replace,
    os.utime,
]


@pytest.mark.parametrize("harm", HARMS)
def test_changed_file_is_noticed_by_the_next_query(
    store: Store, documents: Documents, tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    harm(tmp_path / "documents.sqlite")
    for ask in (
        lambda: store.fetch([0]),
        lambda: documents.document("c"),
        lambda: documents.allowed({"hot": True}),
    ):
        with pytest.raises(Altered, match=r"documents\.sqlite (was changed|cannot be read)"):
            ask()


def test_change_before_opening_is_noticed(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "documents.sqlite"
    before = file_state(path)
    _write(path)
    with pytest.raises(Altered):
        Store(tmp_path, "code", before=before).document(2)


def test_removed_file_can_still_be_read(store: Store, tmp_path: Path) -> None:
    (tmp_path / "documents.sqlite").unlink()
    assert store.document(2) == DOCUMENTS[2]


def test_linked_file_stays_in_use(tmp_path: Path, store: Store) -> None:
    path = tmp_path / "documents.sqlite"
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    opened = Store(tmp_path, "code", sha256=digest)
    path.with_name("link").hardlink_to(path)
    assert opened.document(2) == DOCUMENTS[2]
    with pytest.raises(Altered):
        # Without a checksum, nothing tells that only a link was added.
        store.document(2)
    _write(path)
    with pytest.raises(Altered, match="was changed while it was in use"):
        opened.document(2)


@pytest.mark.parametrize(
    "record", ["x", "[]", "{}", '{"location": 3}', '{"location": [], "entities": [[1]]}']
)
def test_foreign_rows_are_refused(store: Store, tmp_path: Path, record: str) -> None:
    store.close()
    with closing(sqlite3.connect(tmp_path / "documents.sqlite")) as db, db:
        db.execute("UPDATE documents SET record = ? WHERE id = 'c'", (record,))
        db.execute("DELETE FROM passages WHERE row = 1")
    opened = Store(tmp_path, "code")
    for ask in (
        lambda: opened.document(2),
        lambda: opened.fetch([4]),
        lambda: opened.fetch([0, 1]),
    ):
        with pytest.raises(Altered, match=r"did not write|lacks rows"):
            ask()
