"""Standard columns of product tables, and the names that shops give them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain

from purlin.index.errors import InvalidInput
from purlin.index.sources.products.values import CURRENCY_CODES
from purlin.index.sources.words import words
from purlin.index.texts.product_fields import ICECAT, is_code, key_of, keys_of, lists_codes

COLUMNS = {
    standard: tuple(names.split())
    for standard, names in {
        # RSS's `guid` is often an address.
        "id": "id _id product_id url_handle sku item_id item_no item_number article_no article_number ordernumber "
        "order_number artikelnummer artikelnr artikel_nr artnr art_nr artikelcode produktnummer bestellnummer "
        "varenummer varenr artikkelnummer kod_produktu kod_zbozi kod katalogove_cislo cislo_produktu code_article "
        "codice_articolo nr_artykulu numer_artykulu numer_artykułu nr_artykułu indeks asin parent_asin handle "
        "variant_sku code gtin ean isbn isbn_13 guid reference reference_no reference_produit referencia codigo "
        "codice 商品番号 商品コード 商品管理番号 商品id 品番",
        "title": "title name product_title product_name productname item_name display_name titel artikelname "
        "produktname artikelbezeichnung produktbezeichnung bezeichnung titre nom nom_du_produit nom_produit "
        "designation libelle titulo nombre nombre_del_producto titolo nome nome_prodotto naam productnaam namn "
        "produktnamn artikelnamn benamning navn produktnavn varenavn nazwa nazwa_produktu nazev nazev_produktu "
        "nazev_zbozi 商品名 商品名称 製品名 品名 product",
        "description": "description product_description body_html long_description long_text text body "
        "description_long long_description short_description summary description_html html_description "
        "item_description annotation blurb synopsis beschreibung artikelbeschreibung produktbeschreibung "
        "langbeschreibung langtext kurzbeschreibung kurztext description_longue description_courte descripcion "
        "descricao descrizione omschrijving beskrivning produktbeskrivning beskrivelse produktbeskrivelse "
        "varebeskrivelse opis opis_produktu popis popis_produktu 商品説明 商品説明文 商品の説明 説明",
        "bullets": "bullets bullet_points product_bullet_point features product_features highlights "
        "product_highlight",
        "brand": "brand brands product_brand brand_name vendor manufacturer supplier maker mfr mfg manufacturer_name "
        "mfr_name marke hersteller herstellername lieferant marque fabricant marca fabricante produttore merk "
        "fabrikant varumarke tillverkare leverantor varemærke varemerke mærke merke produsent marka producent "
        "vyrobce znacka ブランド ブランド名 メーカー メーカー名",
        "colour": "colour color product_colour product_color color_name farbe farbname couleur coloris colore "
        "kleur farg farve farge kolor barva cor 色 カラー",
        # Google's own categories are often numbers, so that its type comes first.
        "category": "category categories product_category category_name product_type google_product_category "
        "product_class main_category category_path product_group kategorie kategorien kategoriepfad warengruppe "
        "artikelgruppe produktgruppe produktkategorie categorie rayon categoria categorias kategori varegruppe "
        "kategoria categorytext category_text default_category categories_x_y_z "
        "カテゴリ カテゴリー 商品カテゴリ ジャンル",
        "price": "price product_price sale_price regular_price variant_price list_price selling_price retail_price "
        "preis verkaufspreis vk_preis vk endpreis prix prix_de_vente precio precio_de_venta pvp prezzo prijs "
        "verkoopprijs pris salgspris cena cena_s_dph preco price_vat price_tax_included price_tax_incl "
        "price_tax_excluded price_tax_excl price_ek unit_price net_price gross_price rrp msrp uvp "
        "販売価格 価格 通常価格 定価",
        "url": "url link product_url permalink deeplink produkt_url lien",
        "locale": "locale product_locale lang",
        # Magento's, schema.org's and Shopify's; then Google Merchant's, and those of feeds in XML.
        "attributes": "attributes attrs product_attributes specifications specs details properties custom_attributes "
        "additional_attributes additionalproperty options product_detail param params attribute",
        # The id of the product that a record is a variant of.
        "parent": "parent_sku parent_id parent parent_product_id item_group_id product_group_id variant_of "
        "isvariantof master_sku configurable_sku itemgroup_id mainnumber pair_code vaterartikel vaterartikelnummer "
        "hauptartikel sku_parent reference_parent",
    }.items()
}
"""Standard columns and the names they go by, the preferred first."""

_ALIASES = {
    key_of(alias): (order, standard)
    for standard, aliases in COLUMNS.items()
    for order, alias in enumerate(aliases)
}
_CURRENCIES = frozenset(f"_{code}" for code in CURRENCY_CODES)
_CURRENCY_CHARS = len("_eur")
# Columns whose cells list several items, by their names in the plural.
_LISTING = re.compile(
    r"(?:\w*_)?(?:(?:categories|tags)(?:_x_y_z)?|kategorien|categorias|keywords|schlag(?:wo|woe)rter|stich(?:wo|woe)rter"
    r"|mots_cles|etiquetas|trefwoorden)|attribute_\d{1,2}_values?(?:_s)?"
)
# The columns by which exports of WooCommerce are told from others.
_WOOCOMMERCE = frozenset(("id", "sku", "parent", "tax_status"))
# What names of columns add to that of a standard one: Google's namespace, a language, markup, and of
# prices a tax.
_NAMESPACE = re.compile(r"^g_")
_LANGUAGE = re.compile(r"_(?:cs|cz|da|de|en|es|fr|it|nb|nl|no|pl|sv)(?:_[a-z]{2})?$")
_MARKUP = re.compile(r"_html$")
_TAX = re.compile(
    r"_(?:brutto|gross|ttc|(?:incl?|inkl)_(?:vat|tax|mwst|ust|tva|iva|btw|moms|mva))$"
)
TEXT_COLUMNS = {"title", "description", "bullets", "attributes"}

# Standard columns without which a search is worse: those that a build remarks on.
WANTED_COLUMNS = ("id", "title", "description", "brand", "price")

# ESCI's columns that belong to a judged query, not to the product.
_JUDGEMENT_COLUMNS = words(
    "example_id query query_id esci_label small_version large_version split product_text"
)


def column_names(
    names: Iterable[str], columns: Mapping[str, str], present: Iterable[str] | None = None
) -> dict[str, str]:
    """Map standard columns to those of a file: by `columns`, else by the preferred alias.

    `present` are all columns of the file, if `names` are only those that a row has values in.
    """
    names = tuple(names)
    present = names if present is None else tuple(present)
    return dict(_column_names(names, tuple(columns.items()), present))


# Most rows of a table have values in the same columns.
@lru_cache(maxsize=64)
def _column_names(
    names: tuple[str, ...], assigned: tuple[tuple[str, str], ...], present: tuple[str, ...]
) -> dict[str, str]:
    columns = dict(assigned)
    explicit = {standard: name for standard, name in columns.items() if name in names}
    several_currencies = sum(map(_has_currency, present)) > 1
    recognised = sorted(
        (*alias, name)
        for name in names
        if name not in columns.values()
        and (alias := _alias(name)) is not None
        # Prices of several currencies are told apart by their columns only.
        and not (several_currencies and _has_currency(name))
    )

    # Reversed, so that the preferred alias is the last to be set.
    aliases = {standard: name for _, standard, name in reversed(recognised)}
    if _WOOCOMMERCE.issubset(map(key_of, present)):
        # There, rows name their parent by its SKU, if it has one.
        aliases.update(("id", name) for name in names if key_of(name) == "sku")
    return aliases | explicit


def serving_columns(
    sample: Sequence[Mapping[str, object]], columns: Mapping[str, str]
) -> dict[str, tuple[str, ...]]:
    """Map standard columns, and "codes", to the columns that serve as them in the first records."""
    present = list(dict.fromkeys(chain.from_iterable(sample)))
    filled = [name for name in present if any(record.get(name) for record in sample)]
    names = column_names(filled, columns, present)

    serving: dict[str, tuple[str, ...]] = {
        standard: (names[standard],) for standard in COLUMNS if standard in names
    }
    codes = tuple(name for name in filled if is_code(name) and name not in names.values())
    return {**serving, "codes": codes} if codes else serving


@lru_cache(maxsize=4096)
def _alias(name: str) -> tuple[int, str] | None:
    """How much the alias is preferred (0 is best), and the standard column that it stands for."""
    for key in keys_of(name):
        if key in _ALIASES:
            return _ALIASES[key]

    if _has_currency(name):
        order, standard = _ALIASES[key_of(name)[:-_CURRENCY_CHARS]]
        return order + len(_ALIASES), standard
    aliases = (_ALIASES.get(_without_addition(key)) for key in keys_of(name))
    return next(filter(None, aliases), None)


def _without_addition(key: str) -> str:
    """The name without a namespace before it, or the language, markup or tax that may end it."""
    additions = (
        (_NAMESPACE, COLUMNS),
        (_LANGUAGE, TEXT_COLUMNS),
        (_MARKUP, TEXT_COLUMNS),
        (_TAX, {"price"}),
    )
    for addition, standards in additions:
        base = addition.sub("", key)
        if base != key and _ALIASES.get(base, (0, ""))[1] in standards:
            return base
    return key


@lru_cache(maxsize=4096)
def _has_currency(name: str) -> bool:
    """Whether a column has prices in the currency that ends its name, as "List price (EUR)"."""
    key = key_of(name)
    base, currency = key[:-_CURRENCY_CHARS], key[-_CURRENCY_CHARS:]
    return currency in _CURRENCIES and _ALIASES.get(base, (0, ""))[1] == "price"


def standard_of(name: str) -> str | None:
    """The standard column that a column's name stands for, or None."""
    alias = _alias(name)
    return None if alias is None else alias[1]


def named_freely(names: Iterable[str]) -> list[str]:
    """The columns that are no attributes of Icecat's, tell of no query judged in ESCI, and have a name."""
    names = list(names)
    judgement = _JUDGEMENT_COLUMNS if "query_id" in names else frozenset()
    return [name for name in names if name and name not in judgement and not ICECAT.match(name)]


@lru_cache(maxsize=4096)
def lists_items(name: str) -> bool:
    """Whether the cells of a column list several items: `Categories`, `OE numbers`."""
    return any(map(_LISTING.fullmatch, keys_of(name))) or lists_codes(name)


def check_roles(columns: Mapping[str, str]) -> None:
    """Raise InvalidInput for names that are none of the standard columns."""
    if unknown := sorted(columns.keys() - COLUMNS.keys()):
        raise InvalidInput(
            f"--column {unknown[0]}=...: unknown column {unknown[0]!r}; "
            f"known are {', '.join(COLUMNS)}.",
            field="columns",
        )


def listing(names: Iterable[str]) -> str:
    """The first columns of a file, for messages."""
    return ", ".join(list(names)[:30]) or "none"


def may_be_id(name: str) -> bool:
    """Whether a column has ids or other codes, which are texts even where all are digits."""
    return standard_of(name) in ("id", "parent") or is_code(name)
