"""Files of products: which are read, real formats, and the demo."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from purlin.index import versions
from purlin.index.errors import InvalidInput, NotFound
from purlin.index.records import Skipped, SourceFile
from purlin.index.sources.products import catalogue
from purlin.index.sources.tables import MAX_ROW
from tests.support.paths import DATA
from tests.support.product_files import atom_texts, read_products, read_table, write

PRODUCT_FILES = DATA / "products"


def test_directory_is_read_in_order(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    for name in ("c.jsonl", "b/x.ndjson", "a.jsonl.gz", ".hidden.jsonl", "notes.xlsx"):
        text = json.dumps({"id": name, "title": name}).encode()
        write(tmp_path / name, gzip.compress(text) if name.endswith("gz") else text)

    sources = list(catalogue.files(tmp_path))

    assert [source.path for source in sources] == [
        "a.jsonl.gz",
        "b/x.ndjson",
        "c.jsonl",
        "notes.xlsx",
    ]
    assert [type(source) for source in sources] == [SourceFile, SourceFile, SourceFile, Skipped]
    assert [document.id for document in read_products(tmp_path)[0]] == [
        "a.jsonl.gz",
        "b/x.ndjson",
        "c.jsonl",
    ]


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("cut.csv.gz", gzip.compress(b"id;title\n1;Lamp\n" * 9_000)[:-20], "Compressed file ended"),
        ("other.csv.gz", b"id,title\n1,Lamp\n", "Not a gzipped file"),
        (
            "damaged.csv.gz",
            gzip.compress(b"id,title\n", mtime=0)[:10] + b"\xff" * 9,
            "while decompressing",
        ),
        ("binary.csv", b"x" * (MAX_ROW + 1), "is longer than 1,048,576 characters"),
        ("odd.csv", b"\xff\xfea", "truncated data"),
    ],
)
def test_table_that_cannot_be_read_costs_only_its_own_products(
    tmp_path: Path, name: str, content: bytes, reason: str
) -> None:
    write(tmp_path / "good.csv", "id,title\n1,Saw\n")
    write(tmp_path / name, content)
    documents, (skipped,) = read_products(tmp_path)
    assert [document.title for document in documents] == ["Saw"]
    assert (skipped.path, reason in skipped.reason) == (name, True), skipped


def test_digest_follows_content_and_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "a.jsonl", '{"title": "Saw"}')

    def digest(**options: object) -> str:
        (source,) = catalogue.files(path, **options)  # type: ignore[arg-type]
        assert isinstance(source, SourceFile)
        return source.digest

    first = digest()

    assert digest(columns={}) == first

    others = {digest(columns={"title": "name"})}
    monkeypatch.setattr(versions, "CATALOGUES", 99)
    others.add(digest())
    monkeypatch.undo()
    write(path, '{"title": "Saws"}')
    others.add(digest())

    assert len(others - {first}) == 3


def test_unreadable_paths_are_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="does not exist"):
        catalogue.files(tmp_path / "none.csv")
    with pytest.raises(InvalidInput, match=r"notes\.pdf is no product table: give one of \.jsonl"):
        catalogue.files(write(tmp_path / "notes.pdf", ""))
    with pytest.raises(InvalidInput, match=r"list\.xlsx is a workbook .*: export it as CSV\."):
        catalogue.files(write(tmp_path / "list.xlsx", ""))
    with pytest.raises(InvalidInput, match="unknown column 'colr'; known are id, title"):
        catalogue.files(tmp_path, columns={"colr": "x"})


def test_icecat_attributes_are_typed_fields_and_body_lines() -> None:
    (toner, notebook), skipped = read_products(PRODUCT_FILES / "icecat.jsonl")

    assert skipped == []
    assert toner.id == "70114"
    assert toner.body.splitlines() == [
        "Toner (2 per box) for the Brennholt Pagewell 410 series",
        "Brand: Brennholt",
        "Type: Original",
        "Black toner page yield: 4100",
        "Return program: No",
        "Colour: Black",
    ]
    assert atom_texts(toner) == toner.body.splitlines()[1:]
    assert toner.fields == {
        "brand": "Brennholt",
        "judged_source": False,
        "attrs.attr_t_type": "Original",
        "attrs.attr_n_black_toner_page_yield": 4100.0,
        "attrs.attr_b_return_program": False,
        "attrs.attr_t_colour": "Black",
    }
    assert notebook.body.startswith("Quad-core processor\n(8M Cache, 2.4 GHz), 16 GB\n")
    assert "Contrast ratio typical: 1000:1" in atom_texts(notebook)


def test_esci_rows_of_a_product_become_one_document() -> None:
    (mug, towel), skipped = read_products(PRODUCT_FILES / "esci.csv")

    assert mug.body.splitlines() == [
        "Made to last. Steel under two coats of enamel.",
        "Safe on a stove & over a fire.",
        "NO CHIPS - thick rolled rim",
        "CAMP READY - hangs on a hook",
        "Brand: Harrow",
        "Colour: Cream",
    ]
    assert mug.fields == {"brand": "Harrow", "colour": "Cream", "locale": "us"}
    assert (towel.title, towel.body, towel.fields) == ("Linen Tea Towel", "", {"locale": "us"})
    assert skipped == [Skipped("esci.csv", "repeats an id with other content", 4)]


def test_shop_export_with_semicolons_and_odd_rows() -> None:
    (lamp, chair, low), skipped = read_products(PRODUCT_FILES / "shop.csv")

    assert lamp.title == 'Desk lamp "Nord", 9 W'
    assert lamp.body.splitlines() == [
        "Bends where you need it.",
        "Three shades of white",
        "USB socket",
        "Brand: Lumo",
        "EAN: 0401234567890",
        "Lumen: 800",
        "Dimmable: Yes",
    ]
    assert lamp.location.url == "https://shop.example/lamp"
    assert lamp.fields == {
        "brand": "Lumo",
        "price": 1049.9,
        "Stock": 12,
        "Weight (kg)": 1.4,
        "EAN": "0401234567890",
        "attrs.lumen": 800,
        "attrs.dimmable": True,
    }
    assert (chair.fields["price"], chair.location.url) == (199.0, None)
    assert ("price" in low.fields, atom_texts(low)) == (False, ["plain words", "Brand: Sitwell"])
    assert skipped == [Skipped("shop.csv", "has 3 cells where the header has 10", 5)]


def test_json_array_with_nested_records() -> None:
    (trail, floor), skipped = read_products(PRODUCT_FILES / "feed.json")

    assert (trail.id, trail.title) == ("501", "Trail pump")
    assert atom_texts(trail) == [
        "Presta and Schrader",
        "Steel barrel",
        "Brand: Vale",
        "Tags: pump, bike",
    ]
    assert trail.fields == {
        "brand": "Vale",
        "tags": ("pump", "bike"),
        "images.src": ("a.png",),
        "size.length_mm": 230,
        "size.packed.mm": 180,
    }
    assert floor.fields == {"brand": "Vale", "attrs.Max pressure (bar)": 11, "attrs.Gauge": True}
    assert skipped == [Skipped("feed.json", 'is not a JSON object as {"column": "value"}', 2)]


def test_broken_lines_are_skipped_by_number() -> None:
    documents, skipped = read_products(PRODUCT_FILES / "broken.jsonl")

    assert [document.id for document in documents[:2]] == ["a", "e"]
    assert [document.title for document in documents] == [
        "Folding saw",
        "A saw without a name. It cuts.",
        "Saw horse",
        "Mitre box",
    ]
    assert len(documents[2].id) == 16
    assert documents[2].id == read_products(PRODUCT_FILES / "broken.jsonl")[0][2].id
    assert documents[2].fields == {"width_cm": 70}

    reasons = {row.line: row.reason.split(":")[0] for row in skipped}

    assert reasons == {
        2: "is not valid JSON",
        3: 'is not a JSON object as {"column"',
        5: "has no title and no other text",
        7: "holds the escape \\u0000, which is no character; remove it, or write both halves of a surrogate pair",
        8: "holds the escape \\ud800, which is no character; remove it, or write both halves of a surrogate pair",
        10: "repeats an id with other content",
    }


def test_line_nested_too_deeply_is_skipped(tmp_path: Path) -> None:
    deep = '{"title": ' + "[" * 100_000
    documents, (skipped,) = read_table(tmp_path / "a.jsonl", f'{deep}\n{{"title": "Lamp"}}\n')
    assert ([document.title for document in documents], skipped.line) == (["Lamp"], 1)


def test_demo_catalogue_is_sound() -> None:
    documents, skipped = read_products(
        Path(catalogue.__file__).parents[2] / "demo" / "products.jsonl"
    )

    assert skipped == []
    assert len({document.id for document in documents}) == len(documents) >= 220
    assert len({document.fields["category"] for document in documents}) >= 12

    for document in documents:
        assert {"brand", "colour", "category", "price"} <= document.fields.keys()
        assert 3 + 5 + 3 <= len(document.atoms) <= 5 + 8 + 3
        assert document.body.index("\n") > 60


def test_demo_attributes_have_one_type_each() -> None:
    documents, _ = read_products(Path(catalogue.__file__).parents[2] / "demo" / "products.jsonl")
    types_of: dict[str, set[str]] = {}

    for document in documents:
        for name, value in document.fields.items():
            types_of.setdefault(name, set()).add(
                "number" if type(value) in (int, float) else type(value).__name__
            )

    assert [name for name, types in types_of.items() if len(types) > 1] == []

    memory = [document for document in documents if document.fields["category"] == "Memory"]
    fast = [item.id for item in memory if item.fields.get("attrs.speed_mt_s", 0) >= 5600]  # type: ignore[operator]

    assert sorted(fast) == ["DDR5-5600-32K", "DDR5-5600-48S", "DDR5-6400-64K"]
