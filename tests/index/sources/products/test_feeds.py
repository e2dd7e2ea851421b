"""Product feeds in XML: Google Merchant's, plain ones, and hostile ones."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from purlin.index.records import Skipped
from purlin.index.sources import tables
from tests.support.product_files import atom_texts, read_products, read_table, write

RSS = """<?xml version="1.0"?>
<rss version="2.0" xmlns:g="http://base.google.com/ns/1.0">
<channel>
<title>Shop</title><link>https://shop.example</link>
<item>
  <title>UltraSharp 27" <![CDATA[& <b>stand</b>]]></title>
  <link>https://shop.example/p/1</link>
  <description>A &lt;b&gt;monitor&lt;/b&gt; of 27 inch</description>
  <g:id>M-1</g:id> <g:gtin>05901234123457</g:gtin> <g:brand>Dell</g:brand>
  <g:price>399.00 USD</g:price> <g:sale_price>349.00 USD</g:sale_price>
  <g:shipping><g:country>US</g:country><g:price>5 USD</g:price></g:shipping>
  <g:product_detail>
    <g:attribute_name>Panel</g:attribute_name><g:attribute_value>IPS</g:attribute_value>
  </g:product_detail>
  <g:product_highlight>Thin bezels</g:product_highlight>
  <g:product_highlight>USB-C</g:product_highlight>
</item>
</channel>
</rss>
"""
ATOM = """<feed xmlns="http://www.w3.org/2005/Atom" xmlns:g="http://base.google.com/ns/1.0">
<entry>
  <id>tag:shop.example,2024:7</id> <g:id>7</g:id> <title type="html">Chair</title>
  <link rel="self" href="https://shop.example/feed"/>
  <link rel="alternate" type="text/html" href="https://shop.example/chair"/>
  <content type="xhtml"><div><p>Oak <i>chair</i></p><ul><li>Solid</li></ul></div></content>
</entry>
</feed>
"""
PLAIN = """<?xml version="1.0" encoding="windows-1252"?>
<shop><products>
<product id="5" available="true">
  <name>Stuhl Köln</name> <weight unit="kg">2.5</weight> <stock>12</stock>
  <price currency="EUR">49,90</price>
  <attributes><attribute name="Farbe">grün</attribute><attribute name="Holz" value="Eiche"/></attributes>
  <images><image url="a.jpg"/><image url="b.jpg"/></images>
</product>
</products></shop>
"""


def _rows(path: Path, content: str | bytes) -> list[tables.Row | Skipped]:
    return list(tables.read_rows(write(path, content), path.name))


def test_google_merchant_rss(tmp_path: Path) -> None:
    (monitor,), skipped = read_table(tmp_path / "feed.xml", RSS)

    assert skipped == []
    assert (monitor.id, monitor.title) == ("M-1", 'UltraSharp 27" & stand')
    assert monitor.location.url == "https://shop.example/p/1"
    assert monitor.summary == "A monitor of 27 inch\nThin bezels\nUSB-C"
    assert monitor.fields == {
        "sale_price": 349.0,
        "gtin": "05901234123457",
        "shipping.country": "US",
        "shipping.price": 5.0,
        "attrs.Panel": "IPS",
        "brand": "Dell",
        "price": 399.0,
    }


def test_google_merchant_atom_prefers_googles_id_and_reads_xhtml(tmp_path: Path) -> None:
    (chair,), skipped = read_table(tmp_path / "feed.xml", ATOM)

    assert skipped == []
    assert (chair.id, chair.title, chair.body) == ("7", "Chair", "Oak chair\nSolid")
    assert chair.location.url == "https://shop.example/chair"


def test_plain_products_with_attributes_in_windows_1252(tmp_path: Path) -> None:
    path = write(tmp_path / "shop.xml.gz", gzip.compress(PLAIN.encode("cp1252")))
    (chair,), skipped = read_products(path)

    assert skipped == []
    assert (chair.id, chair.title) == ("5", "Stuhl Köln")
    assert atom_texts(chair) == ["Weight: 2.5 kg", "Farbe: grün", "Holz: Eiche"]
    assert chair.fields == {
        "available": True,
        "weight": 2.5,
        "weight.unit": "kg",
        "stock": 12,
        "price": 49.9,
        "price.currency": "EUR",
        "attrs.Farbe": "grün",
        "attrs.Holz": "Eiche",
        "images.url": ("a.jpg", "b.jpg"),
    }


def test_encoding_that_expat_does_not_know(tmp_path: Path) -> None:
    content = '<?xml version="1.0" encoding="Shift_JIS"?><product><name>青いノート</name></product>'

    assert _rows(tmp_path / "p.xml", content.encode("cp932")) == [
        tables.Row(1, {"name": "青いノート"})
    ]


def test_same_name_in_another_namespace_keeps_its_prefix(tmp_path: Path) -> None:
    content = (
        '<item xmlns:media="m"><media:title>Picture</media:title><title>Lamp</title>'
        "<media:url>a.jpg</media:url></item>"
    )

    assert _rows(tmp_path / "p.xml", content) == [
        tables.Row(1, {"media:title": "Picture", "title": "Lamp", "url": "a.jpg"})
    ]


@pytest.mark.parametrize(
    "document_type",
    [
        '<!DOCTYPE p [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]>',
        '<!DOCTYPE p [<!ENTITY a SYSTEM "secret.txt">]>',
        '<!DOCTYPE p [<!ENTITY % a SYSTEM "secret.txt"> %a;]>',
        '<!DOCTYPE p SYSTEM "secret.dtd">',
    ],
)
def test_document_types_are_refused(tmp_path: Path, document_type: str) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    content = f"<?xml version='1.0'?>\n{document_type}\n<product><name>x &a; &b;</name></product>"

    (skipped,) = _rows(tmp_path / "p.xml", content)

    assert isinstance(skipped, Skipped)
    assert skipped.line == 2
    assert skipped.reason.startswith("has a document type, which is not read: remove <!DOCTYPE")


def test_errors_name_the_line_and_keep_the_products_before(tmp_path: Path) -> None:
    lamp = "<product><name>Lamp</name></product>\n"
    for broken, reason in {
        "<product><name>\n&nbsp;</name></product>": "is not well-formed XML: undefined entity, which "
        "HTML may have, but not XML: write &#160; for &nbsp;",
        "<product>\n</name></product>": "is not well-formed XML: mismatched tag",
        "\n" + "<a>" * 100: "nests elements deeper than 64 levels",
        "\n<a b='"
        + "x" * 2_000_000: "has a tag or comment that is longer than 1,048,576 characters",
        "\n<!--" + "x" * 2_000_000: "has a tag or comment that is longer than 1,048,576 characters",
    }.items():
        rows = _rows(tmp_path / "p.xml", f"<products>\n{lamp}{broken}")
        assert rows == [
            tables.Row(2, {"name": "Lamp"}),
            Skipped("p.xml", f"{reason}; the products after it are left out, too", 4, cut_off=True),
        ]


@pytest.mark.parametrize(
    "filling", ["x" * 2_000_000, "<a/>" * 200_000], ids=["long text", "many elements"]
)
def test_only_a_product_that_is_too_long_is_left_out(tmp_path: Path, filling: str) -> None:
    content = f"<products><product><name>{filling}</name></product>\n<product><name>Lamp</name></product></products>"

    expected = [Skipped("p.xml", tables.TOO_LONG, 1), tables.Row(2, {"name": "Lamp"})]
    assert _rows(tmp_path / "p.xml", content) == expected


@pytest.mark.parametrize(
    "content",
    [
        "<catalog><head><made>today</made></head>%s</catalog>",
        "<shop><books>%s</books></shop>",
        '<b:catalog xmlns:b="urn:books"><page/><page/>%s</b:catalog>',
    ],
)
def test_repeated_elements_of_another_name_are_products(tmp_path: Path, content: str) -> None:
    books = "".join(f"<Book isbn='{n}'><title>T{n}</title></Book>" for n in (1, 2))

    assert _rows(tmp_path / "p.xml", content % books) == [
        tables.Row(1, {"isbn": "1", "title": "T1"}),
        tables.Row(1, {"isbn": "2", "title": "T2"}),
    ]


def test_products_of_the_usual_name_come_first(tmp_path: Path) -> None:
    content = "<shop><book><title>No</title></book><book><title>No</title></book>%s</shop>"

    assert _rows(tmp_path / "p.xml", content % "<product><name>Lamp</name></product>") == [
        tables.Row(1, {"name": "Lamp"})
    ]


def test_other_xml_and_undecodable_feeds_are_named(tmp_path: Path) -> None:
    for content, reason in {
        b"<urlset><url>x</url></urlset>": "has no products: none of its elements is <item>",
        b'<?xml version="1.0" encoding="nonsense"?><product/>': "is not in the encoding that it",
        b"<product><name>\xff</name></product>": "is not well-formed XML: not well-formed",
    }.items():
        (skipped,) = _rows(tmp_path / "p.xml", content)
        assert isinstance(skipped, Skipped)
        assert skipped.reason.startswith(reason)
