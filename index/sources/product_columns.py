"""Standard columns of product tables, and the names that shops give them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

COLUMNS: dict[str, tuple[str, ...]] = {
    "id": (
        "id",
        "_id",
        "product_id",
        "sku",
        "item_id",
        "asin",
        "parent_asin",
        "handle",
        "variant_sku",
        "gtin",
        "ean",
    ),
    "title": ("title", "name", "product_title", "product_name", "item_name", "display_name"),
    "description": (
        *("description", "product_description", "body_html", "long_description", "text", "body"),
        *("short_description", "summary"),
    ),
    "bullets": (
        "bullets",
        "bullet_points",
        "product_bullet_point",
        "features",
        "product_features",
        "highlights",
    ),
    "brand": ("brand", "product_brand", "brand_name", "vendor", "manufacturer", "supplier"),
    "colour": ("colour", "color", "product_colour", "product_color", "color_name"),
    "category": (
        *(
            "category",
            "categories",
            "product_category",
            "category_name",
            "google_product_category",
            "product_type",
        ),
        *("product_class", "main_category"),
    ),
    "price": ("price", "product_price", "sale_price", "regular_price", "variant_price"),
    "url": ("url", "link", "product_url", "permalink"),
    "locale": ("locale", "product_locale", "lang"),
    "attributes": (
        "attributes",
        "attrs",
        "product_attributes",
        "specifications",
        "specs",
        "details",
        "properties",
    ),
}
"""Standard columns and the names they go by, the preferred first, whatever case and punctuation."""

_ALIASES = {
    alias: (order, standard)
    for standard, aliases in COLUMNS.items()
    for order, alias in enumerate(aliases)
}
TEXT_COLUMNS = {"title", "description", "bullets", "attributes"}

# ESCI's columns that belong to a judged query, not to the product.
JUDGEMENT_COLUMNS = frozenset(
    "example_id query query_id esci_label small_version large_version split product_text".split()
)

# Icecat's attributes, whose names tell a type: text, number or boolean.
ICECAT = re.compile(r"attr_([tnb])_(?=.)")


def column_names(names: Sequence[str], columns: Mapping[str, str]) -> dict[str, str]:
    """Map standard columns to those of a file: by `columns`, else by the preferred alias."""
    explicit = set(columns.values())
    recognised = sorted(
        (*_ALIASES[key], name)
        for name in names
        if name not in explicit and (key := _key(name)) in _ALIASES
    )

    # Reversed, so that the preferred alias is the last to be set.
    return {standard: name for _, standard, name in reversed(recognised)} | dict(columns)


def may_be_id(name: str) -> bool:
    """Whether a column has ids, or replaces the column of ids in rows where that is empty."""
    return _ALIASES.get(_key(name), (0, ""))[1] == "id"


@lru_cache(maxsize=4096)
def _key(name: str) -> str:
    return re.sub(r"\W+", "_", name.lower()).strip("_")
