"""What the page shows in the tests, and steps that they share."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from purlin.index.records import Document, Location
from tests.support.browser import Tab
from tests.support.hash_encoder import HashEncoder
from tests.support.listening import listening
from tests.support.serving import FUNCTIONS, PATIENTLY, until

KEY = "a-key-for-the-page-of-tests"
STEPS = "".join(f"        step_{n}(tree)  # onwards\n" for n in range(1, 39))
LONG = f"def walk(tree):\n{STEPS}        return tree"
HOSTILE = '<img src=x onerror="window.hacked = 1"><script>window.hacked = 2</script>'
EMOJI = 'def emoji():\n    return "🎉🎉 party 🎉 hat"  # 🎉 party'


def _function(
    id: str, title: str, body: str, *context: str, at: Location, language: str = "python"
) -> Document:
    fields = {"language": language}
    return Document(id, "code", title, body, context=context, location=at, fields=fields)


CODE = [
    *FUNCTIONS,
    _function("walk.py::walk", "Forest.walk", LONG, "Forest", at=Location("walk.py", 7, 46)),
    _function("odd.py::emoji", "emoji", EMOJI, at=Location("odd.py", 1, 2)),
    _function(
        "evil.py::evil",
        HOSTILE,
        f"# evil\n{HOSTILE}\n</code></pre>",
        HOSTILE,
        at=Location(f"{HOSTILE}.py", 1, 3, "javascript:window.hacked=3"),
        language=HOSTILE[:40],
    ),
]
COLOURS = "red red green green green blue blue white white white".split() * 3
PRODUCTS = [
    Document(
        id=f"p{n}",
        kind="product",
        title=f"Lamp {n} {colour}",
        body=f"A lamp to read by.\nDims\nColour: {colour}",
        fields={"colour": colour, "price": 10.5 + n, "attrs.usb_socket": n % 2 == 0, "watts": n},
    )
    for n, colour in enumerate(COLOURS)
]


@contextmanager
def served(home: Path, **settings: Any) -> Iterator[str]:
    """Serve `home` until the block ends, and yield the address once all corpora are open."""
    with listening(home, HashEncoder(), **settings) as url:
        until(lambda: httpx.get(f"{url}/readyz", **PATIENTLY).status_code == 200)
        yield f"{url}/"


IDLE = "document.querySelector('.view:not([hidden]) .results > *') && !document.querySelector('[aria-busy]')"


def shown(tab: Tab, address: str) -> None:
    tab.open(address)
    tab.until(IDLE)


def on_page(tab: Tab, module: str, expression: str) -> Any:
    """Evaluate an expression in which `m` is one of the page's modules."""
    return tab.run(f"import('/web/{module}').then((m) => ({expression}))")


def searched(site: str, **body: Any) -> Any:
    """Return the reply to a search, without the hits that the page leaves out."""
    reply = httpx.post(f"{site}search", json={"k": 50, **body}, **PATIENTLY).json()
    return reply | {"hits": [hit for hit in reply["hits"] if round(hit["score"], 2) > 0]}


def tick(tab: Tab, value: str) -> None:
    """Tick a value of a facet, and wait for the hits."""
    # The page works on them once the new address was noticed.
    tab.run(
        "new Promise((noticed) => {"
        "addEventListener('hashchange', () => setTimeout(noticed), { once: true });"
        "[...document.querySelectorAll('.facet label')].find(one => one.innerText.startsWith("
        f"{json.dumps(value)})).querySelector('input').click(); }})"
    )
    tab.until(IDLE)


def facet(tab: Tab, label: str) -> dict[str, str]:
    """The values of a facet with their counts; those that are ticked have a star."""
    values = (
        "[...document.querySelectorAll('.facet')].find(one => one.firstChild.innerText === "
        f"{json.dumps(label)})?.querySelectorAll('label:not([hidden])') ?? []"
    )
    rows = tab.run(
        f"[...{values}].map(one => [one.children[1].innerText + (one.querySelector(':checked') ? '*' : ''),"
        " one.children[2].innerText])"
    )
    return dict(rows)


BUILDING = """
window.listed = [{name: "docs", kind: "reference", state: "building", building: {stage: "waiting", done: 0}},
                 {name: "src", kind: "code", state: "building", building: {stage: "read", done: 4096}}];
window.real = window.real ?? window.fetch;
window.fetch = (path, ...rest) => path === "corpora"
  ? Promise.resolve(new Response(JSON.stringify({corpora: window.listed}))) : window.real(path, ...rest);
null
"""


def hold(tab: Tab, path: str) -> None:
    """From now on requests to `path` wait for `held.splice(0).forEach(go => go())`."""
    tab.run(
        "(real => { window.held = []; window.fetch = (path, options) => path !== "
        f"{json.dumps(path)} ? real(path, options) : new Promise((done, failed) => {{ const {{ signal }} = options;"
        "signal?.addEventListener('abort', () => failed(new DOMException('', 'AbortError')));"
        "window.held.push(() => signal?.aborted || done(real(path, options))); }); })(window.fetch)"
    )


def let_go(tab: Tab) -> None:
    tab.run("held.splice(0).forEach(go => go())")
