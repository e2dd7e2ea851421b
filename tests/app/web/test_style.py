"""What the page looks like: themes, widths, contrast and paper."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.support.browser import Tab
from tests.support.pages import shown


def test_the_page_is_dark_or_light_as_the_browser_wants(site: str, tab: Tab) -> None:
    def paper() -> str:
        return str(tab.run("getComputedStyle(document.body).backgroundColor"))

    shown(tab, site)
    light = paper()
    tab.look(dark=True)
    dark = paper()
    assert light != dark
    tab.click("#theme-button")
    assert paper() == light
    shown(tab, site)
    assert paper() == light
    tab.click("#theme-button")
    assert paper() == dark
    assert tab.run("localStorage.length") == 0
    tab.look(dark=False)
    assert paper() == light


@pytest.mark.parametrize("width", [360, 768])
def test_nothing_is_wider_than_the_window(site: str, tab: Tab, width: int) -> None:
    tab.look(width, 740)
    addresses = [
        "",
        "#search?corpus=code&query=walk+evil",
        "#search?corpus=lamps&query=lamp",
        "#search?corpus=library&query=range",
        "#ask?corpus=library&question=range",
        f"#classify?labels=a,b&texts={'x' * 200}",
        "#corpora",
        "#search?corpus=none&query=x",
    ]
    for address in addresses:
        shown(tab, site + address)
        assert tab.run("document.documentElement.scrollWidth") <= width, address


def test_every_control_has_a_name(site: str, tab: Tab) -> None:
    for address in (
        "#search?corpus=lamps&query=lamp",
        "#ask",
        "#classify?labels=a,b&texts=x",
        "#corpora",
    ):
        tab.open(site + address)
        tab.until("document.querySelector('.view')")
        nodes = tab.call("Accessibility.getFullAXTree")["nodes"]
        roles = {
            "button",
            "link",
            "textbox",
            "searchbox",
            "combobox",
            "checkbox",
            "radio",
            "spinbutton",
            "img",
        }
        controls = [
            node for node in nodes if not node["ignored"] and node["role"]["value"] in roles
        ]
        assert len(controls) > 8
        assert [node for node in controls if not node.get("name", {}).get("value")] == []


def test_prints_whole_hits_in_dark_ink(site: str, tab: Tab) -> None:
    shown(tab, f"{site}#search?corpus=lamps&query=lamp")
    tab.look(dark=True)
    tab.run("document.documentElement.dataset.theme = 'dark'")
    assert tab.texts(".facets")[0]
    tab.call("Emulation.setEmulatedMedia", media="print")
    hits = "document.querySelector('.hits').offsetWidth / document.querySelector('.results').offsetWidth"
    assert tab.run(hits) == 1
    assert tab.run("getComputedStyle(document.body).color") == "rgb(30, 35, 39)"
    for hidden in (".facets", ".ask-form button", "footer"):
        assert not tab.run(f"document.querySelector('{hidden}').checkVisibility()"), hidden
    # What was asked is on the paper, too.
    assert tab.run("document.querySelector('.ask-form input').checkVisibility()")
    tab.call("Emulation.setEmulatedMedia", media="")


# The texts with a contrast below that of WCAG 1.4.3; what is disabled is exempt.
PALE = """(() => {
  const context = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const painted = (colours) => {
    colours.forEach((colour) => { context.fillStyle = colour; context.fillRect(0, 0, 1, 1); });
    return context.getImageData(0, 0, 1, 1).data;
  };
  const luminance = (pixel) => [0.2126, 0.7152, 0.0722].reduce((sum, weight, i) => {
    const share = pixel[i] / 255;
    return sum + weight * (share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4);
  }, 0);
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const pale = [];
  while (texts.nextNode()) {
    const around = [];
    for (let node = texts.currentNode.parentElement; node; node = node.parentElement) around.unshift(node);
    const own = around.at(-1);
    const exempt = own.closest('dialog, .unseen, .skip, .copy, noscript, :disabled + span');
    if (exempt || !texts.currentNode.data.trim() || !own.checkVisibility()) continue;
    const styles = around.map((node) => getComputedStyle(node));
    const ground = ['#fff', ...styles.map((style) => style.backgroundColor)];
    const opacity = styles.reduce((product, style) => product * style.opacity, 1);
    const behind = luminance(painted(ground));
    context.globalAlpha = 1;
    painted(ground);
    context.globalAlpha = opacity;
    const ink = luminance(painted([styles.at(-1).color]));
    context.globalAlpha = 1;
    const contrast = (Math.max(ink, behind) + 0.05) / (Math.min(ink, behind) + 0.05);
    const large = parseFloat(styles.at(-1).fontSize) >= 24;
    if (contrast < (large ? 3 : 4.5)) pale.push([texts.currentNode.data, contrast]);
  }
  return pale;
})()"""


@pytest.mark.parametrize("dark", [False, True])
def test_texts_have_enough_contrast(site: str, tab: Tab, dark: bool) -> None:
    tab.look(dark=dark)
    for address in (
        "",
        "#search?corpus=code&query=walk+evil",
        "#search?corpus=lamps&query=lamp&filter=%7B%22colour%22%3A%22blue%22%7D",
        "#ask?corpus=library&question=range",
        "#corpora",
    ):
        shown(tab, site + address)
        assert tab.run(PALE) == [], address


HEADINGS = """[...document.querySelectorAll('h1, h2, h3, h4')]
  .filter((heading) => heading.checkVisibility() && !heading.closest('dialog'))
  .map((heading) => +heading.tagName.slice(1))"""


@pytest.mark.parametrize(
    ("address", "title"),
    [
        ("", "Purlin"),
        ("#search?corpus=lamps&query=lamp", "lamp · Purlin"),
        ("#search?corpus=none&query=lamp", "lamp · Purlin"),
        ("#ask?corpus=library&question=range", "range · Purlin"),
        ("#classify?labels=a,b&texts=x", "Classify · Purlin"),
        ("#corpora", "Corpora · Purlin"),
    ],
)
def test_title_and_headings_name_what_is_shown(
    site: str, tab: Tab, address: str, title: str
) -> None:
    shown(tab, site + address)
    assert tab.run("document.title") == title
    levels = tab.run(HEADINGS)
    assert levels[0] == 1
    assert all(level <= above + 1 for above, level in pairwise(levels))
