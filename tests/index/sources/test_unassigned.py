"""Columns of product tables that are assigned by hand, and those that nobody assigned."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO

import pytest

from purlin.index.builds import current
from purlin.index.builds.manifests import read_manifest
from purlin.index.errors import InvalidInput
from purlin.index.indexing.build import build
from purlin.index.indexing.builder import Options
from purlin.index.indexing.repeat import repeat_build
from purlin.index.search.corpus import Corpus
from purlin.index.sources import open_source, tables
from purlin.index.sources.unassigned import Unassigned
from tests.support.hash_encoder import HashEncoder
from tests.support.product_files import write

ODD = "Ref,Title,Prose,Firm,Amount\nA-1,Saw,Cuts wood,Acme,5\nA-2,Vice,Holds wood,Acme,6\n"


def remarks(path: Path, columns: Mapping[str, str] | None = None) -> list[str]:
    """What is said of the tables at a path after a build has listed them."""
    unassigned = Unassigned(columns or {})
    list(open_source("product", [path], columns=columns, on_sample=unassigned.add))
    return unassigned.remarks()


def test_a_remark_names_what_was_not_recognised(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", ODD)
    line = (
        'not recognised as id, description, brand, price: columns "Ref", "Prose", "Firm", "Amount" '
        'are only filterable; --column id="Ref" assigns one'
    )
    assert remarks(path) == [line]
    assert remarks(tmp_path) == [line]

    (line,) = remarks(path, {"id": "Ref"})
    assert line.endswith('; --column description="Prose" assigns one')

    columns = {"id": "Ref", "brand": "Firm", "description": "Prose"}
    assert remarks(path, columns) == [
        'not recognised as price: column "Amount" is only filterable; '
        '--column price="Amount" assigns one'
    ]
    assert remarks(path, {**columns, "price": "Amount"}) == []


def test_a_description_without_spaces_is_named(tmp_path: Path) -> None:
    table = "id,title,brand,price,特長\n1,電気ケトル,Aquila,5,静かに沸かし、自動で止まります。\n"

    (line,) = remarks(write(tmp_path / "a.csv", table))
    assert line.endswith('--column description="特長" assigns one')


@pytest.mark.parametrize(
    "table",
    [
        "id,title,description,brand,price,Weight\n1,Saw,Cuts wood,Acme,5,2\n",
        "title\nSaw\n",
        # A number is neither brand nor description, and repeats are no ids.
        "title,price,Stock\nSaw,5,2\nVice,6,2\n",
        # A rating is no price.
        "id,title,description,brand,Rating\n1,Saw,Cuts wood,Acme,4.5\n",
        # Nor is a size.
        "id,title,brand,price,Größe\n1,Saw,Acme,5,M\n",
        # Nor does a date describe a product.
        "id,title,brand,price,Released\n1,Saw,Acme,5,2021-09-01\n",
        # Codes, units and what is true or false are no brands.
        "id,title,description,price,weight,weight_unit,mpn,new\n1,Saw,Cuts wood,5,2,kg,A-1,TRUE\n",
    ],
)
def test_no_remark_where_nothing_could_be_assigned(tmp_path: Path, table: str) -> None:
    assert remarks(write(tmp_path / "a.csv", table)) == []


def test_tables_without_text_are_named(tmp_path: Path) -> None:
    (tmp_path / "stock").mkdir()
    write(tmp_path / "a.csv", "id,title,description,brand,price\n1,Saw,Cuts wood,Acme,5\n")
    write(tmp_path / "stock" / "b.csv", "Tuote;Hinta\nSaha;5\n")
    write(tmp_path / "c.csv", "")
    reason = (
        "none of its columns is known to hold text; it has Tuote, Hinta; "
        '--column title="COLUMN" assigns the title'
    )
    assert remarks(tmp_path)[0] == f"stock/b.csv was left out: {reason}"
    assert not any("left out" in line for line in remarks(tmp_path, {"title": "Tuote"}))


def test_a_build_opens_a_table_no_more_often_for_its_remarks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "a.csv", ODD)
    opened: list[Path] = []
    open_text = tables.open_text

    def counted(path: Path, *encoding: str) -> AbstractContextManager[IO[str]]:
        opened.append(path)
        return open_text(path, *encoding)

    monkeypatch.setattr(tables, "open_text", counted)
    list(open_source("product", [path]))
    without_remarks = len(opened)
    opened.clear()
    assert remarks(path)
    assert len(opened) == without_remarks


def test_beir_corpora_have_no_remark_and_no_columns_to_assign(tmp_path: Path) -> None:
    record = {"_id": "1", "title": "Saw", "text": "Cuts wood.", "Firm": "Acme"}
    path = write(tmp_path / "corpus.jsonl", json.dumps(record))
    assert remarks(path) == []
    with pytest.raises(InvalidInput, match=r"corpus\.jsonl is a corpus of BEIR's form"):
        open_source("product", [path], columns={"brand": "Firm"})


def test_a_cell_that_is_no_text_does_not_stop_the_remark(tmp_path: Path) -> None:
    rows = [{"id": 1, "title": "Saw", "Price tag": "a\0b"}, {"id": 2, "title": "Vice"}]
    path = write(tmp_path / "a.jsonl", "\n".join(map(json.dumps, rows)))
    assert not any("price" in line for line in remarks(path))


def test_wrong_columns_are_refused_before_anything_is_read(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", ODD)

    with pytest.raises(InvalidInput, match="unknown column 'text'; known are id, title, descr"):
        open_source("product", [path], columns={"text": "Prose"})
    with pytest.raises(
        InvalidInput,
        match=r"--column id='Nr': a\.csv has no column 'Nr'; columns are Ref, Title, Prose, Firm",
    ):
        open_source("product", [path], columns={"id": "Nr"})
    with pytest.raises(InvalidInput, match="no table has a column 'Nr'; columns are Ref, Title"):
        open_source("product", [tmp_path], columns={"id": "Nr"})
    with pytest.raises(InvalidInput, match="--column is for tables of products, not for code"):
        open_source("code", [path], columns={"id": "Ref"})


def test_builds_are_repeated_with_their_columns(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", ODD)
    columns = {"id": "Ref", "description": "Prose"}
    sources = open_source("product", [path], columns=columns)
    options = Options(columns=columns, origin=(str(path),))
    build(tmp_path, "c", "product", sources, HashEncoder(), options=options)

    write(path, ODD + "A-3,Plane,Smooths wood,Acme,7\n")
    repeat_build(tmp_path, "c", HashEncoder())

    directory = current(tmp_path, "c")
    assert read_manifest(directory).columns == columns
    corpus = Corpus.load(directory, HashEncoder())
    try:
        assert corpus.document("A-3").body.startswith("Smooths wood")
    finally:
        corpus.close()
