"""What builds have to say of their sources: columns, what was left out, and warnings."""

from __future__ import annotations

from pathlib import Path

from purlin.index import builds
from purlin.index.builds.manifests import Manifest, read_manifest
from purlin.index.builds.remarks import (
    MOST_PLACES,
    MOST_REASONS,
    LeftOut,
    Remarks,
    column_changes,
    read_remarks,
    summarised,
)
from purlin.index.encoder import load_encoder
from purlin.index.indexing.build import build
from purlin.index.records import Skipped
from purlin.index.sources import open_source
from tests.support.hash_encoder import HashEncoder
from tests.support.static_files import write_static


def _build(home: Path, *feeds: Path) -> Manifest:
    return build(home, "shop", "product", open_source("product", feeds), HashEncoder())


def _remarks(home: Path) -> Remarks:
    directory = builds.current(home, "shop")
    return read_remarks(directory, read_manifest(directory).files)


def _feed(path: Path, header: str, rows: int) -> Path:
    lines = [f"{n},Saw {n},Cuts wood of {n} mm.,S-{n}" for n in range(rows)]
    path.write_text("\n".join([header, *lines]) + "\n")
    return path


def test_reasons_are_counted_whatever_their_numbers() -> None:
    skipped = [Skipped("a.csv", f"has {n} cells where the header has 3", n) for n in range(2, 12)]
    skipped += [Skipped("b.csv", "the id 'x' exists already"), Skipped("b\udce4.csv", "is torn")]
    skipped += [Skipped("c.csv", "the id 'y' exists already"), Skipped("d.csv", "is data", None, True)]  # fmt: skip

    first = tuple(f"a.csv:{n}" for n in range(2, 2 + MOST_PLACES))
    assert summarised(skipped) == (
        LeftOut("has 2 cells where the header has 3", 10, first),
        LeftOut("the id 'x' exists already", 2, ("b.csv", "c.csv")),
        LeftOut("is torn", 1, ("b?.csv",)),
    )
    assert str(summarised(skipped)[0]).startswith("10 left out (a.csv:2, a.csv:3")
    assert len(summarised(Skipped("a.csv", "x" * n) for n in range(99))) == MOST_REASONS


def test_remarks_are_read_as_they_were_written(tmp_path: Path) -> None:
    remarks = Remarks({"title": ("név",)}, (LeftOut("is torn", 2, ("a.csv:1",)),), ("gone",))
    remarks.save(tmp_path)

    assert read_remarks(tmp_path, {"remarks.json": {}}) == remarks
    assert read_remarks(tmp_path, {}) == Remarks()


def test_changed_columns_are_told() -> None:
    before = {"title": ("name",), "price": ("price",)}
    assert list(column_changes(before, {"price": ("net",), "title": ("name",)})) == [
        'price is read from "net"; before, it was "price"'
    ]
    # There is nothing to compare with.
    assert list(column_changes({}, before)) == []


def test_a_build_tells_which_columns_serve_and_when_they_change(tmp_path: Path) -> None:
    feed = _feed(tmp_path / "feed.csv", "id,name,description,mpn", 30)
    _build(tmp_path, feed)
    expected = {
        "id": ("id",),
        "title": ("name",),
        "description": ("description",),
        "codes": ("mpn",),
    }
    assert _remarks(tmp_path) == Remarks(expected)
    assert _remarks(tmp_path).lines() == [
        'columns: id: "id"; title: "name"; description: "description"; codes: "mpn"'
    ]

    _feed(feed, "id,label_de_x,description,mpn", 30)
    _build(tmp_path, feed)
    assert _remarks(tmp_path).warnings == (
        'title is read from no column; before, it was "name"',
        "no column serves as title, so products are titled by their texts: feed.csv; "
        '--column title="COLUMN" assigns one',
    )


def test_a_catalogue_that_lost_many_products_says_so(tmp_path: Path) -> None:
    feed = _feed(tmp_path / "feed.csv", "id,name,description,mpn", 1500)
    _build(tmp_path, feed)
    _feed(feed, "id,name,description,mpn", 1100)
    manifest = _build(tmp_path, feed)

    assert _remarks(tmp_path).warnings == ("1,100 products, 400 fewer than in the build before",)
    # The same again is no other build, though it would not have this warning.
    assert _build(tmp_path, feed) == manifest


def test_an_interim_build_hands_its_remarks_on(tmp_path: Path) -> None:
    feed = _feed(tmp_path / "feed.csv", "id,name,description,mpn", 600)
    with feed.open("a") as file:
        file.write("600,too few cells\n")
    interim = load_encoder(write_static(tmp_path / "static"))
    build(tmp_path, "shop", "product", open_source("product", [feed]), HashEncoder(), interim=interim)  # fmt: skip

    assert _remarks(tmp_path).columns["title"] == ("name",)
    assert _remarks(tmp_path).left_out == (
        LeftOut("has 2 cells where the header has 4", 1, ("feed.csv:602",)),
    )
