from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from benchmarks.search.shops import SHOPS, cell, measured, opened, read_shop
from tests.support.files import write_file
from tests.support.hash_encoder import HashEncoder

SHOP = """language: en
brands: Aquila, Brava
kettle | Kitchen | Steel kettle | 1 l / 2 l / for travel | Boils water.
lamp | Light | Reading lamp | white / black / red | For the desk.
queries:
steel kettle 2 l | kettle.2=3 kettle=1
reading lamp black | lamp=2 lamp.2=3
m something to read by | lamp=3
across:
de Wasserkocher | kettle=3
"""


def test_a_shop_is_read(tmp_path: Path) -> None:
    shop = read_shop(write_file(tmp_path / "small.txt", SHOP))
    assert [product["id"] for product in shop.products][:4] == [
        "kettle.1", "kettle.2", "kettle.3", "lamp.1",
    ]  # fmt: skip
    assert shop.products[1] == {
        "id": "kettle.2",
        "title": "Steel kettle, 2 l",
        "brand": "Aquila",
        "category": "Kitchen",
        "description": "Boils water.",
    }

    first, second, meaning, across = shop.searches
    # The last grade of a product counts.
    assert first.grades == {"kettle.1": 1, "kettle.2": 1, "kettle.3": 1}
    assert second.grades == {"lamp.1": 2, "lamp.2": 3, "lamp.3": 2}
    assert [search.half for search in shop.searches] == ["tuning", "aside", "tuning", "tuning"]
    assert (meaning.text, meaning.by) == ("something to read by", "meaning")
    assert (across.text, across.by) == ("Wasserkocher", "across")


def test_a_grade_of_no_product_is_refused(tmp_path: Path) -> None:
    path = write_file(
        tmp_path / "small.txt", SHOP.replace("m something to read by | lamp", "x | lap")
    )
    with pytest.raises(ValueError, match="'x' leads to 'lap'"):
        read_shop(path)


def test_searches_are_measured(tmp_path: Path) -> None:
    shop = read_shop(write_file(tmp_path / "small.txt", SHOP))
    with opened(shop, HashEncoder()) as corpus:
        values = measured(corpus, shop.searches[:2], 0.0)
    assert values["reading lamp black"] == 1.0
    assert cell(shop.searches[:2], values).endswith("(2)")


def test_released_shops_have_as_many_searches_in_both_halves() -> None:
    shops = [read_shop(path) for path in sorted(SHOPS.glob("*.txt"))]
    assert len(shops) == 7
    for shop in shops:
        halves = Counter((search.by, search.half) for search in shop.searches)
        assert halves["words", "tuning"] == halves["words", "aside"] == 10, shop.name
        assert halves["meaning", "tuning"] == halves["meaning", "aside"] == 5, shop.name
        texts = [search.text for search in shop.searches]
        assert len(set(texts)) == len(texts), shop.name
