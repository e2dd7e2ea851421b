"""Facets, and the conditions that come of them."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import quote

from purlin.index.records import Document
from purlin.index.sources.products.records import from_record
from tests.support.browser import Tab
from tests.support.pages import facet, hold, let_go, searched, served, shown, tick
from tests.support.scripts import evaluated
from tests.support.serving import make


def test_products_are_filtered_by_clicking_values(site: str, tab: Tab) -> None:
    shown(tab, f"{site}#search?corpus=lamps&query=lamp+to+read")
    assert len(tab.texts(".hit")) == 10
    tab.click(".more")
    assert len(tab.texts(".hit")) == 20
    assert tab.texts(".facet legend") == ["Colour", "Price", "Watts", "Usb socket"]
    assert facet(tab, "Colour") == {"green": "9", "white": "9", "red": "6", "blue": "6"}
    tick(tab, "blue")
    assert len(tab.texts(".hit")) == 6
    assert tab.run("new URLSearchParams(location.hash.split('?')[1]).get('filter')") == (
        '{"colour":"blue"}'
    )
    tab.run(
        "[...document.querySelectorAll('.fields button')].find(one => one.innerText.includes('Yes')).click()"
    )
    tab.until("document.querySelectorAll('.condition').length === 2")
    assert tab.texts(".condition > :nth-child(n+2)") == [
        "Colour", "blue", "×", "Usb socket", "Yes", "×",
    ]  # fmt: skip
    assert len(tab.texts(".hit")) == 3
    tab.run("history.back()")
    tab.until("document.querySelectorAll('.condition').length === 1")
    tab.click(".condition")
    tab.until("!document.querySelector('.condition')")
    tab.run("document.querySelector('[aria-label=\"Price from\"]').focus()")
    tab.type("30")
    tab.press("Enter")
    tab.until("document.querySelector('.condition')")
    assert tab.texts(".condition b") == ["from 30"]
    assert sorted(float(text) for text in tab.texts(".price")) == [30.5 + n for n in range(10)]
    assert tab.run("document.querySelector('[aria-label=\"Price from\"]').value") == "30"


def test_values_of_a_field_are_alternatives(site: str, tab: Tab) -> None:
    """Its counts are those without its own condition, those of the others are within all conditions."""
    shown(tab, f"{site}#search?corpus=lamps&query=lamp+to+read")
    tab.focus(".facet input[value=blue]")
    tick(tab, "blue")
    tick(tab, "red")
    assert tab.run("document.activeElement.value") == "blue"
    assert len(tab.texts(".hit")) == 10
    assert "12" in tab.texts(".overview h2")[0]
    assert tab.texts(".condition b") == ["blue", "red"]
    assert facet(tab, "Colour") == {"green": "9", "white": "9", "red*": "6", "blue*": "6"}
    filtered = {"colour": ["blue", "red"]}
    hits = searched(site, corpus="lamps", query="lamp to read", filter=filtered)["hits"]
    sockets = [hit["fields"]["attrs.usb_socket"] for hit in hits]
    expected = {"Yes": str(sockets.count(True)), "No": str(sockets.count(False))}
    assert facet(tab, "Usb socket") == expected

    tick(tab, "Yes")
    assert facet(tab, "Usb socket") == {
        f"{name}{'*' * (name == 'Yes')}": count for name, count in expected.items()
    }
    assert sum(map(int, facet(tab, "Colour").values())) == 15  # every second lamp has a socket
    tick(tab, "blue")
    assert tab.texts(".condition b") == ["red", "Yes"]
    tab.run("history.back()")
    tab.until("document.querySelectorAll('.condition').length === 3")
    assert facet(tab, "Colour").keys() == {"green", "white", "red*", "blue*"}
    tab.click(".clear")
    tab.until("!document.querySelector('.condition')")
    # What is ticked is shown, even where none of the best hits has it.
    conditions = quote(json.dumps({"colour": ["mauve", "red"]}))
    shown(tab, f"{site}#search?corpus=lamps&query=lamp&filter={conditions}")
    assert facet(tab, "Colour")["mauve*"] == "0"


def test_two_quick_ticks_both_count(site: str, tab: Tab) -> None:
    shown(tab, f"{site}#search?corpus=lamps&query=lamp")
    hold(tab, "search")
    for value in ("blue", "red"):
        tab.run(f"document.querySelector('.facet input[value={value}]').click()")
        tab.until(f"location.hash.includes('{value}')")
        tab.until("held.length")
    let_go(tab)
    tab.until("document.querySelectorAll('.condition').length === 2")


def test_facets_stay_open_in_a_small_window(site: str, tab: Tab) -> None:
    tab.look(390, 844)
    shown(tab, f"{site}#search?corpus=lamps&query=lamp")
    assert not tab.run("document.querySelector('.facets').open")
    tab.run("document.querySelector('.facets').open = true")
    tab.focus(".facet input[value=red]")
    tab.run("document.activeElement.scrollIntoView({ block: 'center' })")
    before = tab.run("window.scrollY")
    tick(tab, "red")
    assert tab.run("document.querySelector('.facets').open && window.scrollY") == before > 0


def test_rare_values_are_shown_on_request(tmp_path: Path, tab: Tab) -> None:
    lamps = [
        Document(id=f"{name}{n}", kind="product", title="Lamp", body="Lit.", fields={"brand": name})
        for name in ("Ash", "Bay", "Elm", "Fir", "Oak", "Yew", "Gum", "gum", "Box")
        for n in range(2)
    ]
    make(tmp_path, "lamps", lamps, "product")
    with served(tmp_path) as address:
        shown(tab, f"{address}#search?corpus=lamps&query=lamp")
        brands = facet(tab, "Brand")
        # The filter makes no difference between Gum and gum, nor do the counts.
        assert len(brands) == 6
        assert brands["Gum"] == "4"
        tab.click(".facet .quiet")
        assert len(facet(tab, "Brand")) == 8
        assert tab.run("document.activeElement.type") == "checkbox"
        tick(tab, "Gum")
        assert len(tab.texts(".hit")) == 4


def test_quantities_are_read_with_their_units(tmp_path: Path, tab: Tab) -> None:
    records = [
        {
            "id": str(n),
            "title": f"Lamp {n}",
            "power_w": 5 * (n % 3 + 1),
            "weight (kg)": 1.5,
            "length": "2 m",
        }
        for n in range(9)
    ]
    make(tmp_path, "lamps", [from_record(record) for record in records], "product")
    with served(tmp_path) as address:
        shown(tab, f"{address}#search?corpus=lamps&query=lamp+10+w")
        chips = [text.split("\n") for text in tab.texts(".hit:first-of-type .fields button")]
        assert {"Power", "Weight", "Length"} <= {label for label, _ in chips}
        assert {"1.5 kg", "2 m"} <= {value for _, value in chips}
        assert facet(tab, "Power") == {"5 W": "3", "10 W": "3", "15 W": "3"}
        tick(tab, "10 W")
        assert tab.texts(".condition span:not(.unseen)") == ["Power"]
        assert tab.texts(".condition b") == ["10 W"]
        assert len(tab.texts(".hit")) == 3


def test_fields_may_have_names_that_every_object_has(tmp_path: Path, tab: Tab) -> None:
    records = [
        {"id": str(n), "title": f"Car {n}", "constructor": ("Lotus", "Ferrari")[n % 2]}
        for n in range(6)
    ]
    make(tmp_path, "cars", [from_record(record) for record in records], "product")
    with served(tmp_path) as address:
        shown(tab, f"{address}#search?corpus=cars&query=car")
        assert facet(tab, "Constructor") == {"Lotus": "3", "Ferrari": "3"}
        tick(tab, "Lotus")
        assert tab.texts(".condition b") == ["Lotus"]
        assert len(tab.texts(".hit")) == 3


def test_excluded_values_are_shown_as_conditions(site: str, tab: Tab) -> None:
    conditions = json.dumps({"colour": {"not": ["red", "blue"]}, "watts": {"not": {"gte": 20}}})
    shown(tab, f"{site}#search?corpus=lamps&query=lamp&filter={quote(conditions)}")
    assert tab.texts(".condition b") == ["not red or blue", "not from 20"]


def test_filter_belongs_to_its_corpus(site: str, tab: Tab) -> None:
    shown(tab, f"{site}#search?corpus=lamps&query=lamp&filter=%7B%22colour%22%3A%22blue%22%7D")
    tab.run("document.querySelector('input[type=search]').value = ''")
    tab.click(".chooser input[value='code']")
    tab.focus("input[type=search]")
    tab.type("sort numbers")
    tab.press("Enter")
    tab.until("document.querySelector('.hit')")
    assert not tab.texts(".condition")
    shown(tab, f"{site}#search?corpus=code&query=sort&filter=%7B%22colour%22%3A%22blue%22%7D")
    tab.until("document.querySelector('.condition')")
    assert not tab.texts(".hit")
    tab.click(".condition")
    tab.until("document.querySelector('.hit')")
    tab.complaints.clear()


def test_focus_stays_in_results_that_are_replaced(site: str, tab: Tab) -> None:
    shown(tab, f"{site}#search?corpus=lamps&query=lamp&filter=%7B%22colour%22%3A%22blue%22%7D")
    tab.focus(".condition")
    tab.press("Enter")
    tab.until("!document.querySelector('.condition')")
    assert tab.run("document.activeElement === document.querySelector('.results h2')")
    assert tab.texts("#said") == tab.texts(".overview h2")


def test_labels_of_fields_have_no_units() -> None:
    names = {
        "attrs.power_w": ["Power", "W"],
        "Weight (kg)": ["Weight", "kg"],
        "discount [%]": ["Discount", "%"],
        "attrs.screen_size_inches": ["Screen size", "inches"],
        "attrs.usb_socket": ["Usb socket", ""],
        "w": ["W", ""],
    }
    read = evaluated(
        "fields.js",
        f"{json.dumps(list(names))}.map((name) => Object.values(m.reading(name, true)))",
    )
    assert dict(zip(names, read, strict=True)) == names
    assert evaluated("fields.js", "m.reading('built_in', false).label") == "Built in"
