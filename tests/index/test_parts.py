"""Long files of records, which are read in parts: what changes, and what stays."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import pytest

from purlin.index import builds
from purlin.index.builds.manifests import read_manifest
from purlin.index.indexing.build import build
from purlin.index.indexing.builder import Options
from purlin.index.indexing.staleness import find_staleness
from purlin.index.records import Document, Kind, Skipped, SourceFile
from purlin.index.search.corpus import Corpus
from purlin.index.search.store.listing import read_listing
from purlin.index.sources import names, open_source
from purlin.index.sources.parts import FEWEST_RECORDS, Part, Records, cut
from tests.support.files import write_jsonl
from tests.support.hash_encoder import HashEncoder

ROWS = FEWEST_RECORDS + 200
Row = dict[str, str]


def rows(count: int = ROWS) -> list[Row]:
    return [{"_id": f"d{n}", "title": f"thing {n}", "text": f"body of {n}"} for n in range(count)]


def write(path: Path, content: list[Row]) -> Path:
    if path.name.endswith(".csv"):
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, ["_id", "title", "text"])
            writer.writeheader()
            writer.writerows(content)
        return path
    return write_jsonl(path, content)


def listed(kind: Kind, path: Path) -> list[SourceFile]:
    return [file for file in open_source(kind, [path]) if isinstance(file, SourceFile)]


def read(files: list[SourceFile]) -> list[Document | Skipped]:
    return [item for file in files for item in file.read()]


def edited(content: list[Row]) -> list[Row]:
    """Change a row, remove the next one, and insert another."""
    changed = content[700] | {"title": "quite another thing"}
    added = {"_id": "new", "title": "a new thing", "text": "which was inserted"}
    return [*content[:700], changed, content[702], added, *content[703:]]


@pytest.mark.parametrize("name", ["shop.csv", "corpus.jsonl.gz"])
def test_only_parts_with_a_change_are_read_again(
    tmp_path: Path, encoder: HashEncoder, name: str
) -> None:
    content = rows(2 * FEWEST_RECORDS)
    path = write(tmp_path / name, content)
    build(tmp_path, "c", "product", open_source("product", [path]), encoder)
    earlier = {(file.path, file.digest) for file in listed("product", path)}

    content = edited(content)
    write(path, content)
    files = listed("product", path)
    changed = [file for file in files if (file.path, file.digest) not in earlier]
    assert 1 <= len(changed) <= 3 < len(files) / 10

    # One row has changed, and one is new.
    encoder.encoded.clear()
    manifest = build(tmp_path, "c", "product", open_source("product", [path]), encoder)
    assert manifest.segments == ("base", "delta")
    assert len(encoder.encoded) == 2

    build(tmp_path, "fresh", "product", open_source("product", [path]), encoder)
    corpus, fresh = (
        Corpus.load(builds.current(tmp_path, each), encoder) for each in ("c", "fresh")
    )
    assert manifest.documents == fresh.manifest.documents == len(content)
    for query in ("quite another thing", "thing 700", "a new thing", "body"):
        assert corpus.search(query, k=50).hits == fresh.search(query, k=50).hits


def test_documents_are_those_of_the_whole_file(tmp_path: Path) -> None:
    content = rows()
    files = listed("code", write(tmp_path / "corpus.jsonl", content))
    assert len(files) > 10
    assert [item.id for item in read(files) if isinstance(item, Document)] == [
        row["_id"] for row in content
    ]
    # In any order, too.
    last, first = list(files[-1].read()), list(files[0].read())
    assert [*first, *last] == [*read(files[:1]), *read(files[-1:])]


@pytest.mark.parametrize("name", ["shop.csv", "corpus.jsonl"])
def test_a_file_of_few_rows_or_with_a_repeated_id_is_read_as_a_whole(
    tmp_path: Path, name: str
) -> None:
    few = listed("product", write(tmp_path / name, rows(FEWEST_RECORDS - 1)))
    assert [file.path for file in few] == [name]

    repeated = [*rows(), {"_id": "d3", "title": "other", "text": "words"}]
    (file,) = listed("product", write(tmp_path / name, repeated))
    (skipped,) = [item for item in file.read() if isinstance(item, Skipped)]
    assert skipped.line == ROWS + (2 if name == "shop.csv" else 1)


def test_broken_rows_are_left_out_by_their_numbers(tmp_path: Path) -> None:
    path = write(tmp_path / "corpus.jsonl", rows())
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines[:500], "{broken\n", *lines[500:]]))
    items = read(listed("product", path))
    assert [item.line for item in items if isinstance(item, Skipped)] == [501]
    assert len(items) == ROWS + 1


def test_a_part_is_not_stale_as_a_file_of_its_name_would_be(
    tmp_path: Path, encoder: HashEncoder
) -> None:
    shop = tmp_path / "shop"
    shop.mkdir()
    write(shop / "a.csv", rows())
    options = Options(origin=(str(shop),))
    build(tmp_path, "c", "product", open_source("product", [shop]), encoder, options=options)
    active = builds.current(tmp_path, "c")
    read_names, skipped = read_listing(active).names(10)
    assert read_names == list(names("product", [shop])) == ["a.csv"]

    staleness = find_staleness(read_manifest(active), read_names, skipped)
    assert staleness is not None
    assert (staleness.changed, staleness.added, staleness.removed) == (0, 0, 0)


def test_ends_of_parts_do_not_move() -> None:
    records = [(str(n), b"%d" % n) for n in range(ROWS)]
    before = {part.name for part in cut(records)}
    after = {part.name for part in cut([("x", b"x"), *records[:600], *records[601:]])}
    assert len(after - before) <= 3
    assert len(before) > 20


def test_a_part_after_an_error_meets_it_again() -> None:
    def failing() -> Iterator[int]:
        yield from range(3)
        raise OSError("broken")

    records = Records(failing)
    for part in (Part("", 0, 4), Part("", 4, 8)):
        with pytest.raises(OSError, match="broken"):
            list(records.read(part))
    assert list(records.read(Part("", 1, 3))) == [1, 2]
