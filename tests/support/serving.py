"""Small corpora, API keys, and an app that serves them, for the tests of `app`."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient

from purlin.app.main import create_app
from purlin.app.settings import Settings
from purlin.index.builds import current
from purlin.index.encoder import TextEncoder
from purlin.index.indexing.build import build
from purlin.index.records import Document, Kind, Location
from tests.support.documents import source
from tests.support.hash_encoder import HashEncoder

FUNCTIONS = [
    Document(
        id="tools/read.py::Reader.read_csv#2:x y?",
        kind="code",
        title="Reader.read_csv",
        body="def read_csv(path):\n    return list(csv.reader(open(path)))",
        summary="Read rows from a csv file.",
        context=("Reader",),
        location=Location("tools/read.py", 10, 11),
        fields={"language": "python", "lines": 2, "tags": ("io", "table")},
    ),
    Document(
        id="tools/sort.py::sort_numbers",
        kind="code",
        title="sort_numbers",
        body="def sort_numbers(numbers):\n    return sorted(numbers)",
        summary="Sort numbers in ascending order.",
        location=Location("tools/sort.py", 1, 2),
        fields={"language": "python", "lines": 2},
    ),
    Document(
        id="web/fetch.js::fetchPage",
        kind="code",
        title="fetchPage",
        body="function fetchPage(url) { return fetch(url).then(page => page.text()) }",
        summary="Download a page from an url.",
        location=Location("web/fetch.js", 5, 5),
        fields={"language": "javascript", "lines": 1},
    ),
]

# A page of a manual with a class, an attribute and a function.
REFERENCE_PAGE = """<html><head><title>Functions</title></head><body><section id="functions"><h1>Functions</h1>
<p>They are always there.</p>
<dl class="py class"><dt id="range"><code>class range(start, stop[, step])</code></dt>
<dd><p>Numbers in order. If step is omitted, it defaults to 1.</p>
<dl class="py attribute"><dt id="range.start"><code>start</code></dt>
<dd><p>The start of the range, 0 if it was omitted.</p></dd></dl></dd></dl>
<dl class="py function"><dt id="close"><code>close(file)</code></dt><dd><p>Closes the file. Returns None.</p></dd></dl>
</section></body></html>"""

SEARCH_KEY = "searching-key-of-tests"
CLASSIFY_KEY = "classifying-key-of-tests"
ADMIN_KEY = "running-key-of-tests"
# One key in clear, one as a digest, and one that may send six requests per minute.
API_KEYS = f"""
reader  search,qa     {SEARCH_KEY}        # in clear
sorter  classify      sha256:{hashlib.sha256(CLASSIFY_KEY.encode()).hexdigest()}
ops     search,admin  {ADMIN_KEY}          6
"""


# Options of a request that may take its time: the five seconds of httpx are few on a busy machine.
PATIENTLY: dict[str, Any] = {"timeout": 60}
# Settings of a server whose requests may wait as long.
PATIENT: dict[str, Any] = {"open_timeout_s": 60, "queue_timeout_s": 60}


def bearer(secret: str) -> dict[str, str]:
    """Return the header that sends an API key."""
    return {"Authorization": f"Bearer {secret}"}


def numbered(count: int, word: str = "number") -> list[Document]:
    """Return documents that all match `word`."""
    return [
        Document(f"n{n}", "reference", f"{word} {n}", f"The {word} {n} of {count}.")
        for n in range(count)
    ]


def make(
    home: Path,
    name: str,
    documents: list[Document],
    kind: Kind = "code",
    *,
    encoder: TextEncoder | None = None,
) -> Path:
    """Build and activate a corpus, and return the directory of the build."""
    build(home, name, kind, [source("all", documents)], encoder or HashEncoder())
    return current(home, name)


@contextmanager
def serving(
    home: Path, encoder: TextEncoder | None = None, **settings: Any
) -> Iterator[TestClient]:
    """Yield a client of an app that serves `home`."""
    app = create_app(Settings(home=home, **PATIENT | settings), encoder or HashEncoder())
    with TestClient(app) as client:
        yield client


@contextmanager
def ready(home: Path, encoder: TextEncoder | None = None, **settings: Any) -> Iterator[TestClient]:
    """Yield a client of an app that serves `home`, once everything there is open or refused."""
    with serving(home, encoder, **settings) as client:
        until(lambda: client.get("/readyz").status_code == 200)
        yield client


def problem(response: Any, status: int) -> dict[str, Any]:
    """Return the problem in a response, after checking that it follows RFC 9457 and is short."""
    assert response.status_code == status, response.text[:500]
    assert response.headers["content-type"] == "application/problem+json"
    assert len(response.content) < 8_000

    content: dict[str, Any] = json.loads(response.content)
    assert content["status"] == status
    assert content["title"]
    assert content["detail"]

    return content


def limited(script: str, file_bytes: int) -> str:
    """Return the script with a limit to the size of its files, as on a disk that is full.

    The child sets it itself: between fork and exec, gRPC's threads may end a child of this process.
    """
    limit = f"resource.setrlimit(resource.RLIMIT_FSIZE, ({file_bytes}, {file_bytes}))"
    return f"import resource; {limit}\n{script}"


def until(condition: Callable[[], bool], timeout_s: float = 120.0) -> None:
    """Wait until a condition holds; fails after `timeout_s` seconds."""
    deadline = time.monotonic() + timeout_s
    pause_s = 0.01
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(pause_s)
        # To ask all the time would take from what is waited for.
        pause_s = min(1.2 * pause_s, 0.05)
