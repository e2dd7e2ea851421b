import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from purlin.index.builds.manifests import MANIFEST_FORMAT
from purlin.index.errors import Altered, Damaged, InvalidInput, NotFound
from purlin.index.records import Document, Location, Passage, Skipped, Span
from purlin.index.search.documents import Documents
from purlin.index.search.store import document_records, names
from purlin.index.search.store import segment_store as store_module
from purlin.index.search.store import writer as store_writer
from purlin.index.search.store.document_records import entry_of
from purlin.index.search.store.filters import Filter
from purlin.index.search.store.segment_store import MAX_NAMED, Store
from purlin.index.search.store.writer import StoreWriter
from purlin.index.storage import blocks
from purlin.index.storage.blocks import seal

FIELDS = {"language": "python", "price": 10, "tags": ("x", "y"), "hot": True, "long": "w" * 257}
DOCUMENTS = [
    Document(
        id="a.py::f",
        kind="code",
        title="f",
        body="def f(): pass",
        summary="Does é.",
        context=("A",),
        location=Location("a.py", 3, 9, "http://x/#f"),
        fields=FIELDS | {"huge": 2**70},
        atoms=(Span(0, 8),),
        around=((1, "import é\n\nimport x"), (10, "f()")),
    ),
    Document(
        "b/ü#2", "code", "g", "b", fields={"language": "go", "price": 2.5, "day": "2024-05-01"}
    ),
    Document("c", "code", "h", "c", fields={"language": "go", "price": 30, "note": "10"}),
]
SKIPPED = Skipped("a.py", "broken", 7)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with stored(tmp_path, DOCUMENTS) as store:
        yield store


@contextmanager
def stored(directory: Path, *files: list[Document]) -> Iterator[Store]:
    """A store of these files."""
    directory.mkdir(exist_ok=True)
    writer = StoreWriter(directory)
    for documents in files:
        add_file(writer, documents)
    writer.close()
    with closing(Store(directory, "code")) as store:
        yield store


def test_a_record_that_earlier_versions_would_misread_is_of_another_format() -> None:
    whole = (Passage(DOCUMENTS[0].id, 0, 0, 13), b"d" * 16)
    record = entry_of(DOCUMENTS[0], [whole]).record
    head, rest = map(json.loads, record.splitlines())

    # Whoever changes what this test compares raises the format.
    assert MANIFEST_FORMAT == 6
    assert head == ["a.py::f", "f", 4, "f", ""]
    # Earlier versions do not look at `around`, and lose nothing that they would show.
    names = ["body", "summary", "context", "location", "fields", "atoms", "around", "passages"]
    assert list(rest) == names
    assert rest["passages"] == [[0, 0, 13, ""]]


def add_file(writer: StoreWriter, documents: list[Document]) -> None:
    """Add a file with these documents, two passages each, and something skipped."""
    number = writer.add_file()
    for document in documents:
        passages = [Passage(document.id, n, 0, 1, "c") for n in range(2)]
        entry = entry_of(document, [(p, p.id.encode().ljust(16)) for p in passages])
        writer.add(entry, number)
    writer.add_skipped(SKIPPED, number)


@pytest.fixture
def documents(store: Store) -> Documents:
    return Documents([store], store.columns.types())


def test_documents_round_trip(store: Store, documents: Documents) -> None:
    assert [documents.document(d.id) for d in DOCUMENTS] == DOCUMENTS
    assert list(store.read_file(0)) == [*DOCUMENTS, SKIPPED]
    assert store.skipped() == [(0, SKIPPED)]


def test_files_are_copied_whole(store: Store, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    writer = StoreWriter(tmp_path / "other")
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
        opened = Documents([other], other.columns.types())
        assert np.flatnonzero(opened.matching({"language": "go"})).tolist() == [2, 3]
        assert np.flatnonzero(opened.matching({"price": {"lte": 5}})).tolist() == [0, 2, 4]

        assert opened.existing_paths(["a.py"]) == {"a.py"}
        assert opened.rows_of(["c", "a.py::f"]) == {"c": 3, "a.py::f": 1}
        assert opened.rows_named("G").tolist() == [4, 5]

        # A copy of a copy: the rows of its fields are counted rightly, too.
        (tmp_path / "third").mkdir()
        writer = StoreWriter(tmp_path / "third")
        for file in (2, 1):
            writer.copy(other, file, writer.add_file())
        writer.close()
        with closing(Store(tmp_path / "third", "code")) as third:
            assert list(third.read_file(1)) == [*DOCUMENTS, SKIPPED]
            opened = Documents([third], third.columns.types())
            assert np.flatnonzero(opened.matching({"price": {"lte": 5}})).tolist() == [0, 2]


def test_removed_passages_are_left_out(store: Store, tmp_path: Path) -> None:
    changed = replace(DOCUMENTS[1], title="changed")
    with stored(tmp_path / "delta", [changed]) as delta:
        order = np.array([0, 1, -1, -1, -1, -1, 2, 3], dtype=np.int32)
        opened = Documents([store, delta], {"language": "texts", "price": "numbers"}, order)
        assert len(opened) == 2
        assert opened.document("b/ü#2") == changed
        assert opened.rows_of(["a.py::f", "b/ü#2", "c"]) == {"a.py::f": 0, "b/ü#2": 3}
        assert opened.rows_named("h").tolist() == []
        assert opened.rows_named("changed").tolist() == [6, 7]
        assert opened.existing_paths(["a.py", "b"]) == {"a.py"}
        assert opened.fetch([7, 0, 6])[0].document == changed
        assert np.flatnonzero(opened.matching({"language": "go"})).tolist() == [3]
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
def test_a_filter_allows_the_rows_that_fulfil_it(
    documents: Documents, conditions: Filter, rows: list[int]
) -> None:
    assert np.flatnonzero(documents.matching(conditions)).tolist() == rows


@pytest.mark.parametrize(
    ("conditions", "field", "words"),
    [
        ({"colour": "red"}, "filter.colour", "no filterable field 'colour'. It has: day, hot, huge, language"),
        ({"long": "w"}, "filter.long", "256"),
        ({"prise": 1}, "filter.prise", "Did you mean 'price'?"),
        ({"PRICE": 1}, "filter.PRICE", "Did you mean 'price'?"),
        ({"price": {"gt": 1}}, "filter.price", "gte, lte and not; 'gt' was given"),
        ({"price": {}}, "filter.price", "nothing was given"),
        ({"price": {"gte": True}}, "filter.price.gte", "number"),
        ({"language": {"gte": 1}}, "filter.language.gte", "no numbers"),
        ({"price": {"lte": "2.5"}}, "filter.price.lte", "give lte as a number, 2.5 without quotes"),
        ({"price": {"gte": 9, "lte": 2.5}}, "filter.price", "lower bound 9 is above the upper one, 2.5: swap them"),
        ({"day": {"gte": "b", "lte": "a"}}, "filter.day", "lower bound 'b' is above the upper one, 'a'"),
        ({"price": {"gte": 1, "lte": "x"}}, "filter.price", "both be numbers, or both texts"),
        ({"language": []}, "filter.language", "1 to 1000"),
        ({"language": ["x"] * 1001}, "filter.language", "1001"),
        ({"language": [["x"]]}, "filter.language", "text, a number"),
        ({"price": 2**64}, "filter.price", "64 bits"),
        ({f"f{i}": 1 for i in range(33)}, "filter", "at most 32"),
    ],
)  # fmt: skip
def test_invalid_filters_are_named(
    documents: Documents, conditions: Filter, field: str, words: str
) -> None:
    with pytest.raises(InvalidInput, match=re.escape(words)) as caught:
        documents.matching(conditions)
    assert caught.value.field == field


def test_hostile_field_names_are_only_names(documents: Documents) -> None:
    with pytest.raises(InvalidInput):
        documents.matching({"x' OR 1=1 --": "go"})
    assert not documents.matching({"language": "' OR 1=1 --"}).any()


# ---- what names a document


NAMED = st.sampled_from(["f", "F", "ß", "É", "é", "a\x00", "x" * 400, '"\n', ""])


@pytest.mark.parametrize("together", [2, 256])
@given(titles=st.lists(NAMED, max_size=40), queries=st.lists(NAMED, min_size=1))
def test_names_are_those_of_a_loop(together: int, titles: list[str], queries: list[str]) -> None:
    listed = [
        Document(f"{title}-{number}", "code", title, "x") for number, title in enumerate(titles)
    ]
    with TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        # As many entries as that fit into a block.
        patch.setattr(names, "BLOCK", together * 16)
        patch.setattr(names, "_ENTRIES_PER_BLOCK", together)
        with stored(Path(directory), listed) as store:
            ids = [document.id for document in listed]
            assert store.rows_of([*reversed(ids), "?"]) == {id: row for row, id in enumerate(ids)}
            assert store.ids(0) == ids
            assert [head.title for head in store.heads(range(len(ids))[::-1])] == titles[::-1]
            for query in [*queries, *ids[:3]]:
                assert store.rows_named(query) == [
                    passage
                    for row, document in enumerate(listed)
                    for passage in (2 * row, 2 * row + 1)
                    if query == document.id or ascii_lower(query) == ascii_lower(document.title)
                ]


def ascii_lower(text: str) -> str:
    return "".join(character.lower() if character.isascii() else character for character in text)


def test_heads_are_the_same_however_many_stay_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "_RECENT_HEADS", 4)
    titles = [f"title {row}" for row in range(12)]
    with stored(
        tmp_path, [replace(DOCUMENTS[0], id=title, title=title) for title in titles]
    ) as store:
        for rows in ([3, 1], [1, 2, 3, 11, 1], list(range(12)), [0, 5], list(range(12))[::-1]):
            assert [head.title for head in store.heads(rows)] == [titles[row] for row in rows]


def test_lengths_are_those_of_passages_in_characters(tmp_path: Path) -> None:
    document = Document("d", "code", "f", "äöü y")
    passages = [(Passage("d", 0, 0, 5), bytes(16)), (Passage("d", 1, 4, 5), bytes(16))]
    first, second = tmp_path / "first", tmp_path / "second"
    for directory in (first, second):
        directory.mkdir()
    writer = StoreWriter(first)
    writer.add(entry_of(document, passages), writer.add_file())
    writer.close()

    with closing(Store(first, "code")) as store:
        assert store.lengths.tolist() == [5, 1]
        writer = StoreWriter(second)
        add_file(writer, DOCUMENTS[:1])
        writer.copy(store, 0, writer.add_file())
        writer.close()
    with closing(Store(second, "code")) as store:
        assert store.lengths.tolist() == [1, 1, 5, 1]


def test_names_with_one_hash_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(names, "hash_of", lambda _: 7)
    for module in (document_records, store_writer):
        monkeypatch.setattr(module, "hash_of", lambda _: 7)
    with stored(tmp_path, DOCUMENTS) as store:
        assert store.rows_of(["c", "b/ü#2", "d"]) == {"c": 2, "b/ü#2": 1}
        assert store.rows_named("G") == [2, 3]


def test_many_documents_of_one_title_are_cut(tmp_path: Path) -> None:
    with stored(
        tmp_path, [Document(str(number), "code", "main", "x") for number in range(600)]
    ) as store:
        assert store.rows_named("Main") == list(range(MAX_NAMED))


def test_paths_are_those_that_ids_begin_with(tmp_path: Path) -> None:
    listed = [
        Document("a.py::f", "code", "f", "x", location=Location("a.py")),
        Document("b.py", "code", "f", "x", location=Location("b.py")),
        Document("c::f", "code", "f", "x"),
        Document("::f", "code", "f", "x", location=Location("")),
    ]
    with stored(tmp_path, *([document] for document in listed)) as store:
        documents = Documents([store, store], {})
        paths = [head.path for head in documents.heads([0, 1, 2, 7])]
        assert paths == ["a.py", None, None, None]
        assert documents.has_files
        assert documents.existing_paths(["a.py", "b.py", "", "c"]) == {"a.py"}
        removed = np.where(np.arange(16) >= 2, np.arange(16), -1).astype(np.int32)
        assert not Documents([store], {}, removed[:8]).has_files
        assert Documents([store], {}, removed[:8]).existing_paths(["a.py"]) == set()
        assert Documents([store, store], {}, removed).existing_paths(["a.py"]) == {"a.py"}
        assert store.document(3).location == Location("")


def test_texts_that_cannot_be_stored_are_refused(store: Store) -> None:
    with pytest.raises(UnicodeEncodeError):
        entry_of(Document("x", "code", "t", "\ud800"), [])
    assert store.rows_of(["\ud800"]) == {}


def test_a_store_without_documents_is_empty(tmp_path: Path) -> None:
    with stored(tmp_path) as store:
        documents = Documents([store], store.columns.types())
        assert (len(documents), documents.field_types) == (0, {})
        assert documents.rows_of(["a"]) == {}
        assert documents.rows_named("a").tolist() == []
        assert documents.matching({}).tolist() == []


# ---- a file that is changed while it is open


def _write(path: Path) -> None:
    """Change every byte, and set the times back."""
    before = path.stat()
    content = path.read_bytes()
    path.write_bytes(bytes(byte ^ 1 for byte in content))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.fixture
def on_disk(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """The store, opened as if its files were large."""
    monkeypatch.setattr(blocks, "MOST_IN_MEMORY", -1)
    return Store(tmp_path, "code")


@pytest.mark.parametrize(
    "harm", [_write, lambda path: os.truncate(path, 9), lambda path: os.truncate(path, 0)]
)
def test_changed_file_is_noticed_by_the_next_read(
    on_disk: Store, tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    documents = Documents([on_disk], on_disk.columns.types())
    reads: dict[str, list[Callable[[], object]]] = {
        "documents": [
            lambda: documents.fetch([0]),
            lambda: documents.document("c"),
            lambda: documents.heads([0]),
        ],
        "titles": [lambda: documents.rows_named("f")],
        "ids": [lambda: documents.rows_of(["c"])],
        "columns": [lambda: documents.matching({"hot": True})],
        "digests": [on_disk.digests],
    }
    for file, own in reads.items():
        harm(tmp_path / f"{file}.bin")
        for read in own:
            with pytest.raises(Altered, match=rf"{file}\.bin was (altered|cut)"):
                read()


def test_a_sound_part_of_a_changed_file_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "MOST_IN_MEMORY", -1)
    with stored(
        tmp_path, [Document(str(number), "code", "t", "x" * 9000) for number in range(3)]
    ) as store:
        whole = store.document(0)
        os.truncate(tmp_path / "documents.bin", 20_000)
        assert store.document(0) == whole
        with pytest.raises(Altered):
            store.document(2)


@pytest.mark.parametrize(
    "harm",
    [
        Path.unlink,
        os.utime,
        lambda path: path.with_name("link").hardlink_to(path),
        lambda path: path.with_name("skipped.bin").replace(path),
    ],
)
def test_a_file_that_is_removed_replaced_or_linked_stays_in_use(
    on_disk: Store, tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    harm(tmp_path / "documents.bin")
    assert on_disk.document(2) == DOCUMENTS[2]


@pytest.mark.parametrize(
    "record",
    [
        b'["c","h",0]\nx',
        b'["c","h",0]\n[]',
        b'["c","h",0]\n{}',
        b'["c"]\n{"location":[],"passages":[[0,0,1,""]]}',
        b'["c","h",0]\n{"location":3}',
        b'["c","h",0]\n{"location":[],"atoms":[[1]]}',
        b'["c","h",0]\n{"location":[]}',
    ],
)
def test_foreign_records_are_refused(store: Store, tmp_path: Path, record: bytes) -> None:
    path = tmp_path / "documents.bin"
    path.write_bytes(path.read_bytes()[: store.starts[2]] + record)
    seal(path)
    ends = np.append(store.starts[1:3], path.stat().st_size)
    np.save(tmp_path / "record_ends.npy", ends)
    with closing(Store(tmp_path, "code")) as opened:
        with pytest.raises(Altered, match="did not write"):
            opened.fetch([4])

    path.write_bytes(path.read_bytes() + b"more")
    seal(path)
    with pytest.raises(Damaged, match="does not fit"):
        Store(tmp_path, "code")
