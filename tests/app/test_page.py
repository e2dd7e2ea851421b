"""The page at `/`: its routes, its files and what they may do."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urljoin

import pytest
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st

from purlin.app.page import FILES, POLICY, prefers_html
from tests.support.pages import KEY
from tests.support.scripts import WEB
from tests.support.serving import problem, serving

BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with serving(tmp_path_factory.mktemp("empty")) as client:
        yield client


@pytest.mark.parametrize(
    ("accept", "html"),
    [
        (BROWSER["Accept"], True),
        ("text/html", True),
        ("TEXT/HTML ; Q=0.3", True),
        ("text/*", True),
        ("application/json;q=0.5, text/html", True),
        ("*/*;q=0.9, application/json;q=0.1", True),
        ("", False),
        ("*/*", False),
        ("application/json", False),
        ("application/json, text/html", False),
        ("text/html;q=0.5, application/json", False),
        ("text/html;q=0, */*", False),
        ("text/html;q=1.2.3", False),
        ("image/png", False),
    ],
)
def test_browsers_get_the_page_and_programs_json(
    client: TestClient, accept: str, html: bool
) -> None:
    response = client.get("/", headers={"Accept": accept})
    assert response.status_code == 200
    assert response.headers["vary"] == "Accept"
    assert response.headers["content-type"] == (
        "text/html; charset=utf-8" if html else "application/json"
    )


def test_links_for_programs_hold_below_a_path(client: TestClient) -> None:
    links = client.get("/").json()
    assert links.pop("name") == "Purlin"
    for link in links.values():
        below = urljoin("https://example.org/purlin/", link)
        assert below.startswith("https://example.org/purlin/")
        assert client.get(below.removeprefix("https://example.org/purlin")).status_code == 200


def test_description_holds_below_a_path(client: TestClient) -> None:
    """A client resolves the server's address against that of the description."""
    (server,) = client.get("/openapi.json").json()["servers"]
    below = urljoin("https://example.org/purlin/openapi.json", f"{server['url']}/search")
    assert below == "https://example.org/purlin/search"


@given(
    st.lists(
        st.sampled_from(
            ["text/html", "*/*", "text/*", ";", "q=", "0.5", "7", ",", " ", ".", "²", "é"]
        )
    ).map("".join)
)
def test_any_accept_header_is_understood(accept: str) -> None:
    assert prefers_html(accept) in (True, False)
    assert not prefers_html(f"{accept},application/json;q=1")


def test_policy_allows_only_the_pages_own_files(client: TestClient) -> None:
    response = client.get("/", headers=BROWSER)
    assert response.headers["content-security-policy"] == POLICY
    assert POLICY.startswith("default-src 'none'; ")
    assert not re.search(r"unsafe|https?:|\*|data:|blob:", POLICY)
    for directive in (
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "trusted-types 'none'",
    ):
        assert directive in POLICY
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["cross-origin-opener-policy"] == "same-origin"


class Markup(HTMLParser):
    """Collects the references of a page, and the inline code that a strict policy forbids."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.references: list[str] = []
        self.inline: list[str] = []
        self._in_script = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self._in_script = tag == "script"
        if tag == "style" or (tag == "script" and "src" not in attributes):
            self.inline.append(tag)
        self.inline += [name for name in attributes if name == "style" or name.startswith("on")]
        self.references += [
            str(attributes[name]) for name in ("src", "href", "action") if name in attributes
        ]

    def handle_data(self, data: str) -> None:
        if self._in_script and data.strip():
            self.inline.append(data)

    def handle_endtag(self, tag: str) -> None:
        self._in_script = False


def test_page_has_no_inline_code_or_foreign_links(client: TestClient) -> None:
    markup = Markup(client.get("/", headers=BROWSER).text)
    assert markup.inline == []
    assert {"web/style.css", "web/app.js", "web/theme.js"} <= set(markup.references)
    for reference in markup.references:
        assert reference.startswith("#") or client.get(f"/{reference}").status_code == 200


def test_every_file_is_served_and_packaged() -> None:
    assert {file.name for file in WEB.iterdir()} == {"index.html", *FILES}
    project = tomllib.loads((WEB.parent.parent / "pyproject.toml").read_text())
    assert "web/*" in project["tool"]["setuptools"]["package-data"]["purlin.app"]


@pytest.mark.parametrize("name", FILES)
def test_unchanged_file_is_answered_with_304(client: TestClient, name: str) -> None:
    response = client.get(f"/web/{name}")
    assert response.status_code == 200
    assert response.content == (WEB / name).read_bytes()
    assert response.headers["content-type"] == FILES[name]
    assert response.headers["cache-control"] == "no-cache"
    assert response.headers["x-content-type-options"] == "nosniff"
    tag = response.headers["etag"]
    for etag in (tag, f"W/{tag}", f'"other", {tag}', "*"):
        again = client.get(f"/web/{name}", headers={"If-None-Match": etag})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    assert client.get(f"/web/{name}", headers={"If-None-Match": '"other"'}).status_code == 200
    head = client.head(f"/web/{name}")
    assert (head.status_code, head.content, head.headers["etag"]) == (200, b"", tag)


@pytest.mark.parametrize(
    "path",
    [
        "/web/",
        "/web/index.html",
        "/web/none.js",
        "/web/app.js/",
        "/web/APP.JS",
        "/web/app.js%00",
        "/web/..%2Fmain.py",
        "/web/%2e%2e/main.py",
        "/web/%2e%2e%2fmain.py",
        "/web/..%5cmain.py",
        "/web/....//main.py",
        "/web//etc/passwd",
        "/web/%2Fetc%2Fpasswd",
        "/web/style.css%2F..%2F..%2Fpage.py",
        "/web/" + "x" * 5000,
    ],
)
def test_other_files_are_not_served(client: TestClient, path: str) -> None:
    assert problem(client.get(path), 404)["type"] == "about:blank"


def test_page_needs_no_key(home: Path) -> None:
    with serving(home, keys=f"reader search {KEY}") as client:
        assert client.get("/", headers=BROWSER).status_code == 200
        assert client.get("/web/app.js").status_code == 200
        problem(client.post("/", headers=BROWSER), 405)
        problem(client.get("/corpora"), 401)
        assert "/web/{file}" not in client.get("/openapi.json").json()["paths"]


def test_scripts_never_parse_text_as_markup() -> None:
    forbidden = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|setHTML|srcdoc|DOMParser"
    for file in WEB.glob("*.js"):
        script = file.read_text()
        assert not re.search(forbidden, script), file.name
        assert (
            re.findall(r"https?://[^\"' ]+", script.replace("http://www.w3.org/2000/svg", "")) == []
        ), file.name
        assert set(re.findall(r"from \"\./([^\"]+)\"", script)) <= set(FILES), file.name
        # Requests are relative to the page, so that it can be below a path of another site.
        assert not re.search(r"(?:get|post|fetch)\([\"'`]/", script), file.name
