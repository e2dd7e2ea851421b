"""The clients against a real server, and their trying again step by step."""

from __future__ import annotations

import inspect
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from app import client as clients
from app.client import AsyncClient, Client, Overloaded, ProblemError, Unexpected, Unreachable
from index.indexing.build import build
from index.records import Location
from index.sources import open_source
from tests.conftest import HashEncoder
from tests.listening import listening
from tests.serving import FUNCTIONS, make, until
from tests.test_access import CLASSIFYING, KEYS, SEARCHING
from tests.test_ask import HTML

PROBLEM = {"content-type": "application/problem+json"}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home, pages = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("pages")
    make(home, "code", FUNCTIONS, HashEncoder())
    (pages / "functions.html").write_text(HTML)
    build(home, "library", "reference", open_source("reference", [pages]), HashEncoder())
    return home


@pytest.fixture(scope="module")
def url(home: Path, reader_directory: Path) -> Iterator[str]:
    with listening(home, HashEncoder(), reader=reader_directory) as url:
        yield url


@pytest.fixture
def purlin(url: str) -> Iterator[Client]:
    with Client(url) as client:
        until(client.health)
        yield client


# ---- against a real server


def test_search_finds_what_the_server_has(purlin: Client) -> None:
    found = purlin.search(
        "sort numbers", "code", k=2, filter={"language": ["python"], "lines": {"gte": 2}}
    )
    assert (found.corpus, found.encoder, found.total, len(found.hits)) == ("code", "hash", 2, 2)
    assert found.took_ms > 0
    hit = found.hits[0]
    assert hit.document_id == FUNCTIONS[1].id
    assert hit.location == Location("tools/sort.py", 1, 2)
    assert hit.scores.keys() == {"dense", "lexical"}
    assert {hit.text[start:end].lower() for start, end in hit.highlights} >= {"numbers"}
    assert found.timings_ms is None
    explained = purlin.search("sort numbers", "code", k=1, offset=1, mode="dense", explain=True)
    assert explained.timings_ms is not None
    assert explained.hits[0].explanation is not None
    assert purlin.search("rows", "code", k=1).hits[0].fields["tags"] == ("io", "table")


def test_documents_come_whole_by_the_id_of_a_hit(purlin: Client) -> None:
    for document in FUNCTIONS:
        found = purlin.document("code", document.id)
        assert (found.id, found.body, found.location, found.corpus) == (
            document.id,
            document.body,
            document.location,
            "code",
        )


def test_texts_are_classified(purlin: Client) -> None:
    found = purlin.classify(
        ["the sports results"], ["business", "sports"], templates=["It is {label}."]
    )
    (result,) = found.results
    assert result.label == "sports"
    assert [one.label for one in result.ranking] == ["sports", "business"]
    assert found.warnings == ()
    unsure = purlin.classify(
        ["cooking"], ["business", "sports", "Sports"], min_score=0.99, multi_label=True
    )
    assert unsure.results[0].label is None
    assert "nearly the same" in unsure.warnings[0]


def test_questions_are_answered(purlin: Client) -> None:
    found = purlin.qa("What is the default step of range?", "library", k=2, explain=True)
    assert (found.corpus, found.reader, len(found.answers)) == ("library", "tiny-reader", 2)
    for answer in found.answers:
        assert answer.passage[answer.start : answer.end] == answer.text
    assert found.read


def test_corpora_are_listed(purlin: Client) -> None:
    listed = [(one.name, one.state, one.kind, one.documents) for one in purlin.corpora()]
    assert listed[0] == ("code", "serving", "code", 3)
    assert listed[1][:3] == ("library", "serving", "reference")


def test_a_corpus_is_described(purlin: Client) -> None:
    purlin.search("sort", "code")
    found = purlin.corpus("code")
    assert (found.name, found.state, found.documents) == ("code", "serving", 3)
    assert found.encoder is not None
    assert found.measures == {"dense recall@100": 1.0}
    assert (found.bytes or 0) > 0
    assert found.judged is None
    assert found.stale is None  # these documents come from no file


def test_the_async_client_does_the_same(url: str, purlin: Client) -> None:
    async def run() -> list[Any]:
        async with AsyncClient(url) as client:
            return [
                await client.health(),
                await client.search("sort", "code"),
                await client.corpora(),
                await client.corpus("code"),
                await client.document("code", FUNCTIONS[0].id),
                await client.classify(["a"], ["a", "b"]),
                await client.qa("close", "library"),
            ]

    health, found, corpora, corpus, document, classified, answered = anyio.run(run)
    assert health is True
    assert found.hits == purlin.search("sort", "code").hits
    assert corpora == purlin.corpora()
    assert corpus == purlin.corpus("code")
    assert document == purlin.document("code", FUNCTIONS[0].id)
    assert classified.results == purlin.classify(["a"], ["a", "b"]).results
    assert answered.answers == purlin.qa("close", "library").answers


def test_problems_are_raised_with_what_they_say(purlin: Client, url: str) -> None:
    with pytest.raises(ProblemError, match="422 Unprocessable") as refused:
        purlin.search("x", "code", k=0)
    assert refused.value.type == "urn:purlin:problem:invalid-input"
    assert (refused.value.status, refused.value.field) == (422, "k")
    assert "greater than or equal to 1" in refused.value.detail
    assert refused.value.errors[0][0] == "k"
    with pytest.raises(ProblemError) as missing:
        purlin.document("code", "none")
    assert (missing.value.status, missing.value.title) == (404, "Not Found")

    async def run() -> None:
        async with AsyncClient(url) as client:
            await client.search("x", "nowhere")

    with pytest.raises(ProblemError, match="nowhere"):
        anyio.run(run)


def test_a_key_is_sent_and_not_shown(home: Path) -> None:
    with listening(home, HashEncoder(), keys=KEYS) as url:
        with Client(url, api_key=SEARCHING) as client:
            assert client.search("sort", "code").total == 3
            assert SEARCHING not in repr(client)
        with (
            Client(url, api_key=CLASSIFYING) as client,
            pytest.raises(ProblemError, match="scope search"),
        ):
            client.search("sort", "code")
        with Client(url) as client, pytest.raises(ProblemError) as refused:
            client.search("sort", "code")
        assert refused.value.status == 401


def test_where_nobody_listens_is_unreachable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        nowhere = f"http://127.0.0.1:{free.getsockname()[1]}"
    with Client(nowhere, max_wait_s=0.3) as client:
        with pytest.raises(Unreachable, match="ConnectError"):
            client.search("x", "code")
        with pytest.raises(Unreachable):
            client.health()

    async def run() -> None:
        async with AsyncClient(nowhere, max_wait_s=0.3) as client:
            await client.corpora()

    with pytest.raises(Unreachable):
        anyio.run(run)


def test_who_does_not_answer_in_time_is_unreachable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        with Client(f"http://127.0.0.1:{silent.getsockname()[1]}", timeout_s=0.1) as client:
            with pytest.raises(Unreachable, match="ReadTimeout"):
                client.search("x", "code")


# ---- trying again, without a clock: what is sent in is what came of a try, what comes out is how long to wait


def response(
    status: int, content: Any = None, headers: dict[str, str] | None = None
) -> httpx.Response:
    return httpx.Response(status, content=json.dumps(content or {}).encode(), headers=headers)


BUSY = {
    "type": "urn:purlin:problem:overloaded",
    "title": "Service Unavailable",
    "status": 503,
    "detail": "Later.",
}
FOUND = {"corpora": [{"name": "code", "state": "serving", "new_key": 1}]}


def waits(outcomes: list[Any], max_wait_s: float = 10.0) -> tuple[list[float], Any]:
    """Seconds waited between tries that end so, and the result."""
    tries, waited = clients._attempts(clients._corpora(), max_wait_s), []
    step = next(tries)
    try:
        for outcome in outcomes:
            assert step is None
            step = tries.send(outcome)
            assert step is not None
            waited.append(step)
            step = next(tries)
    except StopIteration as end:
        return waited, end.value
    raise AssertionError("more tries were wanted")


def later(seconds: str, status: int = 503) -> httpx.Response:
    return response(status, BUSY, PROBLEM | {"retry-after": seconds})


def test_refusals_are_waited_out_as_long_as_the_server_says() -> None:
    waited, corpora = waits([later("1"), later("3", 429), later("0"), response(200, FOUND)])
    assert 1 <= waited[0] <= 1.25
    assert 3 <= waited[1] <= 3.75
    assert 0 < waited[2] < 1
    assert [one.name for one in corpora] == ["code"]


@pytest.mark.parametrize(
    "outcomes", [[later("11")], [later("4"), later("4"), later("4")], [later("0")] * 101]
)
def test_waits_have_a_bound(outcomes: list[httpx.Response]) -> None:
    with pytest.raises(Overloaded, match="Later"):
        waits(outcomes)


@pytest.mark.parametrize(
    "lost",
    [
        httpx.ConnectError("x"),
        httpx.ReadError("x"),
        httpx.RemoteProtocolError("x"),
        httpx.ConnectTimeout("x"),
    ],
)
def test_what_the_network_lost_is_sent_again_later_and_later(lost: httpx.RequestError) -> None:
    waited, _ = waits([lost, lost, lost, response(200, FOUND)])
    assert 0.1 <= waited[0] <= 0.15
    assert 0.2 <= waited[1] <= 0.3
    assert 0.4 <= waited[2] <= 0.6
    with pytest.raises(Unreachable):
        waits([lost] * 20)


@pytest.mark.parametrize(
    ("outcome", "error"),
    [
        (httpx.ReadTimeout("x"), Unreachable),
        (httpx.UnsupportedProtocol("x"), Unreachable),
        (response(503, BUSY, PROBLEM), Overloaded),
        (response(500, BUSY, PROBLEM), ProblemError),
        (response(404, "no", {"content-type": "text/html"}), ProblemError),
        (response(422, {"nothing": "known"}, PROBLEM), Unexpected),
        (response(422, ["a"], PROBLEM), Unexpected),
        (response(200, {"corpora": 5}), Unexpected),
        (httpx.Response(200, content=b"<html>"), Unexpected),
        (httpx.Response(302, headers={"location": "http://elsewhere"}), ProblemError),
    ],
)
def test_what_another_try_would_not_mend_is_raised_at_once(
    outcome: Any, error: type[Exception]
) -> None:
    with pytest.raises(error) as raised:
        waits([outcome])
    assert type(raised.value) is error


def test_a_proxy_that_is_overloaded_is_tried_again() -> None:
    waited, _ = waits(
        [httpx.Response(503, text="busy"), httpx.Response(429, text="busy"), response(200, FOUND)]
    )
    assert len(waited) == 2


def test_the_clients_really_wait_and_try_again() -> None:
    seen: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.url.path)
        return response(200, FOUND) if len(seen) % 3 == 0 else later("0")

    with Client("http://server", transport=httpx.MockTransport(answer)) as client:
        assert client.corpora()[0].name == "code"

    async def run() -> Any:
        async with AsyncClient("http://server", transport=httpx.MockTransport(answer)) as other:
            return await other.corpora()

    assert anyio.run(run)[0].name == "code"
    assert seen == ["/corpora"] * 6


def test_health_is_false_while_corpora_are_being_opened_and_does_not_wait() -> None:
    transport = httpx.MockTransport(lambda _: later("5"))
    with Client("http://server", transport=transport) as client:
        assert client.health() is False


# ---- as a library


def test_both_clients_have_the_same_methods_with_signatures_and_docs() -> None:
    names = {"search", "classify", "qa", "corpora", "corpus", "document", "health"}
    for name in names:
        blocking, awaited = getattr(Client, name), getattr(AsyncClient, name)
        assert inspect.iscoroutinefunction(awaited)
        assert inspect.signature(blocking).parameters == inspect.signature(awaited).parameters
        assert "self" in inspect.signature(blocking).parameters
        assert blocking.__name__ == name
        assert blocking.__doc__ == awaited.__doc__
        assert blocking.__doc__


def test_importing_the_client_loads_nothing_heavy() -> None:
    heavy = {
        "faiss",
        "fastapi",
        "starlette",
        "onnxruntime",
        "numpy",
        "tokenizers",
        "torch",
        "uvicorn",
    }
    program = "import sys, app.client; print(*{name.partition('.')[0] for name in sys.modules})"
    root = Path(__file__).parent.parent
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=root,
        env=os.environ | {"PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = set(done.stdout.split())
    assert "httpx" in loaded
    assert not loaded & heavy


PROGRAMS = re.findall(
    r"```python\n(.*?)```",
    (Path(__file__).parent.parent / "docs" / "client.md").read_text(),
    re.DOTALL,
)


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_programs_in_the_docs_run(
    tmp_path: Path, program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    make(tmp_path, "stdlib", FUNCTIONS, HashEncoder())
    with listening(tmp_path, HashEncoder()) as url:
        exec(program.replace("http://127.0.0.1:8000", url), {})
    printed = capsys.readouterr().out
    assert "tools/read.py:10 Reader.read_csv" in printed or printed in ("delivery\n", "payment\n")
    assert len(PROGRAMS) == 2
