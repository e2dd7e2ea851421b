"""The clients against a real server, and their retries without a clock."""

from __future__ import annotations

import asyncio
import inspect
import json
import pickle
import re
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from purlin import client as client_module
from purlin.client import AsyncClient, Client, Overloaded, ProblemError, Unexpected, Unreachable
from purlin.index.indexing.build import build
from purlin.index.records import Location
from purlin.index.sources import open_source
from tests.support.hash_encoder import HashEncoder
from tests.support.listening import listening
from tests.support.paths import ROOT
from tests.support.serving import (
    API_KEYS,
    CLASSIFY_KEY,
    FUNCTIONS,
    REFERENCE_PAGE,
    SEARCH_KEY,
    make,
    until,
)
from tests.support.traffic import run

REQUEST = httpx.Request("GET", "http://127.0.0.1/corpora")
PROBLEM = {"content-type": "application/problem+json"}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home, pages = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("pages")
    make(home, "code", FUNCTIONS)
    (pages / "functions.html").write_text(REFERENCE_PAGE)
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


def test_search_returns_hits(purlin: Client) -> None:
    reply = purlin.search(
        "sort numbers", "code", k=2, filter={"language": ["python"], "lines": {"gte": 2}}
    )
    assert (reply.corpus, reply.encoder, reply.total, len(reply.hits)) == ("code", "hash", 2, 2)
    assert reply.took_ms > 0
    hit = reply.hits[0]
    assert hit.document_id == FUNCTIONS[1].id
    assert hit.location == Location("tools/sort.py", 1, 2)
    assert hit.scores.keys() == {"dense", "lexical"}
    assert {hit.text[start:end].lower() for start, end in hit.highlights} >= {"numbers"}
    assert reply.timings_ms is None
    explained = purlin.search("sort numbers", "code", k=1, offset=1, mode="dense", explain=True)
    assert explained.timings_ms is not None
    assert explained.hits[0].explanation is not None
    assert purlin.search("rows", "code", k=1).hits[0].fields["tags"] == ("io", "table")


@pytest.mark.parametrize(
    ("corpus", "searched"),
    [
        (("library", "code"), {"library": 4, "code": 3}),
        (["code"], {"code": 3}),
        ({"kind": "reference"}, {"library": 4}),
    ],
)
def test_several_corpora_are_searched(
    purlin: Client, corpus: Any, searched: dict[str, int]
) -> None:
    reply = purlin.search("sort numbers in order", corpus)
    assert reply.corpora is not None
    assert {one.corpus: one.total for one in reply.corpora} == searched
    assert {hit.corpus for hit in reply.hits} == searched.keys()
    assert (reply.corpus, reply.build, reply.encoder) == (None, None, None)


def test_document_is_returned_by_its_id(purlin: Client) -> None:
    for document in FUNCTIONS:
        reply = purlin.document("code", document.id)
        assert (reply.id, reply.body, reply.corpus) == (document.id, document.body, "code")
        assert reply.location == document.location


def test_a_text_is_no_list_of_texts(purlin: Client) -> None:
    # A list of its characters would be classified without a word.
    calls: list[tuple[dict[str, Any], str]] = [
        ({"texts": "abc", "labels": ["a", "b"]}, "texts"),
        ({"texts": ["abc"], "labels": "a,b"}, "labels"),
        ({"texts": ["abc"], "labels": {"a": "first", "b": "second"}}, "labels"),
        ({"texts": ["abc"], "labels": ["a", "b"], "templates": "{label}"}, "templates"),
    ]
    for arguments, field in calls:
        with pytest.raises(ProblemError, match="list") as caught:
            purlin.classify(**arguments)
        assert caught.value.field == field
    assert len(purlin.classify(iter(["a", "b"]), ("a", "b")).results) == 2  # type: ignore[arg-type]


def test_classify_returns_labels(purlin: Client) -> None:
    reply = purlin.classify(
        ["the sports results"], ["business", "sports"], templates=["It is {label}."]
    )
    (result,) = reply.results
    assert result.label == "sports"
    assert [each.label for each in result.ranking] == ["sports", "business"]
    assert reply.warnings == ()
    unsure = purlin.classify(
        ["cooking"], ["business", "sports", "Sports"], min_score=0.99, multi_label=True
    )
    assert unsure.results[0].label is None
    assert "nearly the same" in unsure.warnings[0]


def test_qa_returns_answers(purlin: Client) -> None:
    reply = purlin.qa("What is the default step of range?", "library", k=2, explain=True)
    assert (reply.corpus, reply.reader, len(reply.answers)) == ("library", "tiny-reader", 2)
    for answer in reply.answers:
        assert answer.passage[answer.start : answer.end] == answer.text
    assert reply.read


def test_corpora_are_listed(purlin: Client) -> None:
    corpora = [(each.name, each.state, each.kind, each.documents) for each in purlin.corpora()]
    assert corpora[0] == ("code", "serving", "code", 3)
    assert corpora[1][:3] == ("library", "serving", "reference")


def test_details_of_a_corpus_are_parsed(purlin: Client) -> None:
    purlin.search("sort", "code")
    reply = purlin.corpus("code")
    assert (reply.name, reply.state, reply.documents) == ("code", "serving", 3)
    assert reply.encoder is not None
    assert reply.measures == {"dense recall@100": 1.0}
    assert (reply.bytes or 0) > 0
    assert reply.judged is None
    assert reply.stale is None  # these documents come from no file


def test_async_client_returns_the_same(url: str, purlin: Client) -> None:
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

    health, search, corpora, corpus, document, classification, answers = anyio.run(run)
    assert health is True
    assert search.hits == purlin.search("sort", "code").hits
    assert corpora == purlin.corpora()
    assert corpus == purlin.corpus("code")
    assert document == purlin.document("code", FUNCTIONS[0].id)
    assert classification.results == purlin.classify(["a"], ["a", "b"]).results
    assert answers.answers == purlin.qa("close", "library").answers


def test_problem_is_raised_with_its_members(purlin: Client, url: str) -> None:
    with pytest.raises(ProblemError, match="422 Unprocessable") as invalid:
        purlin.search("x", "code", k=0)
    assert invalid.value.type == "urn:purlin:problem:invalid-input"
    assert (invalid.value.status, invalid.value.field) == (422, "k")
    assert "greater than or equal to 1" in invalid.value.detail
    assert invalid.value.errors[0][0] == "k"
    with pytest.raises(ProblemError) as missing:
        purlin.document("code", "none")
    assert (missing.value.status, missing.value.title) == (404, "Not Found")

    async def run() -> None:
        async with AsyncClient(url) as client:
            await client.search("x", "nowhere")

    with pytest.raises(ProblemError, match="nowhere"):
        anyio.run(run)


def test_key_is_sent_but_not_shown(home: Path) -> None:
    with listening(home, HashEncoder(), keys=API_KEYS) as url:
        with Client(url, api_key=SEARCH_KEY) as client:
            assert client.search("sort", "code").total == 3
            assert SEARCH_KEY not in repr(client)
        with (
            Client(url, api_key=CLASSIFY_KEY) as client,
            pytest.raises(ProblemError, match="scope search"),
        ):
            client.search("sort", "code")
        with Client(url) as client, pytest.raises(ProblemError) as refused:
            client.search("sort", "code")
        assert refused.value.status == 401


@pytest.mark.parametrize("key", ["secret\n", "sec ret", "sécret"])
@pytest.mark.parametrize("client_type", [Client, AsyncClient])
def test_key_that_no_header_can_hold_is_refused_unseen(
    client_type: type[Client | AsyncClient], key: str
) -> None:
    with pytest.raises(ValueError, match="printable ASCII") as refused:
        client_type(api_key=key)
    assert key.strip() not in str(refused.value)


@pytest.mark.parametrize(
    "limit",
    [
        *({"timeout_s": seconds} for seconds in (0, -1, float("nan"), float("inf"))),
        *({"max_wait_s": seconds} for seconds in (-1, float("nan"))),
    ],
)
@pytest.mark.parametrize("client_type", [Client, AsyncClient])
def test_time_that_is_none_is_refused(
    client_type: type[Client | AsyncClient], limit: dict[str, float]
) -> None:
    """Else a call would fail in the network's code, or be repeated forever."""
    with pytest.raises(ValueError, match=f"{next(iter(limit))} is"):
        client_type(**limit)  # type: ignore[arg-type]


@pytest.mark.parametrize("url", ["127.0.0.1:8000", "localhost", "", "ftp://localhost"])
@pytest.mark.parametrize("client_type", [Client, AsyncClient])
def test_address_without_http_is_refused(client_type: type[Client | AsyncClient], url: str) -> None:
    """Else a call would say that the server did not reply."""
    with pytest.raises(ValueError, match="base_url must begin with http"):
        client_type(url)


def test_problem_survives_pickling() -> None:
    error = Overloaded("about:blank", "Too Many Requests", 429, "Later.", [("k", "Too large")])
    copied = pickle.loads(pickle.dumps(error))
    assert type(copied) is Overloaded
    assert str(copied) == "429 Too Many Requests: Later."
    assert vars(copied) == vars(error)


def test_closed_port_is_unreachable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        nowhere = f"http://127.0.0.1:{free.getsockname()[1]}"
    with Client(nowhere.replace("127", "user:secret@127"), max_wait_s=0.3) as client:
        with pytest.raises(Unreachable, match=f"{nowhere}/search: ConnectError"):
            client.search("x", "code")
        with pytest.raises(Unreachable):
            client.health()

    async def run() -> None:
        async with AsyncClient(nowhere, max_wait_s=0.3) as client:
            await asyncio.create_task(client.corpora())

    with pytest.raises(Unreachable):
        anyio.run(run)


def test_timeout_is_unreachable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        with Client(f"http://127.0.0.1:{silent.getsockname()[1]}", timeout_s=0.1) as client:
            with pytest.raises(Unreachable, match="ReadTimeout"):
                client.search("x", "code")


# ---- retries without a clock: outcomes go in, waits come out


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
CORPORA = {"corpora": [{"name": "code", "state": "serving", "new_key": 1}]}


def waits(outcomes: list[Any], max_wait_s: float = 10.0) -> tuple[list[float], Any]:
    """Return the seconds waited between attempts with these outcomes, and the result."""
    attempts = client_module._attempts(client_module._corpora(), max_wait_s)
    waited: list[float] = []
    step = next(attempts)
    try:
        for outcome in outcomes:
            assert step is None
            step = attempts.send(outcome)
            assert step is not None
            waited.append(step)
            step = next(attempts)
    except StopIteration as end:
        return waited, end.value
    raise AssertionError("another attempt was expected")


def busy(retry_after: str, status: int = 503) -> httpx.Response:
    return response(status, BUSY, PROBLEM | {"retry-after": retry_after})


def test_retry_after_is_obeyed() -> None:
    waited, corpora = waits([busy("1"), busy("3", 429), busy("0"), response(200, CORPORA)])
    assert 1 <= waited[0] <= 1.25
    assert 3 <= waited[1] <= 3.75
    assert 0 < waited[2] < 1
    assert [each.name for each in corpora] == ["code"]


@pytest.mark.parametrize(
    "outcomes", [[busy("11")], [busy("4"), busy("4"), busy("4")], [busy("0")] * 101]
)
def test_waits_are_bounded(outcomes: list[httpx.Response]) -> None:
    with pytest.raises(Overloaded, match="Later"):
        waits(outcomes)


@pytest.mark.parametrize(
    "kind", [httpx.ConnectError, httpx.ReadError, httpx.RemoteProtocolError, httpx.ConnectTimeout]
)
def test_network_errors_are_retried_with_backoff(kind: type[httpx.RequestError]) -> None:
    error = kind("x", request=REQUEST)
    waited, _ = waits([error, error, error, response(200, CORPORA)])
    assert 0.1 <= waited[0] <= 0.15
    assert 0.2 <= waited[1] <= 0.3
    assert 0.4 <= waited[2] <= 0.6
    with pytest.raises(Unreachable):
        waits([error] * 20)


@pytest.mark.parametrize(
    ("outcome", "error"),
    [
        (httpx.ReadTimeout("x", request=REQUEST), Unreachable),
        (httpx.UnsupportedProtocol("x", request=REQUEST), Unreachable),
        (response(503, BUSY, PROBLEM), ProblemError),
        (busy("99"), Overloaded),
        (response(500, BUSY, PROBLEM), ProblemError),
        (response(404, "no", {"content-type": "text/html"}), ProblemError),
        (response(422, {"nothing": "known"}, PROBLEM), Unexpected),
        (response(422, ["a"], PROBLEM), Unexpected),
        (response(200, {"corpora": 5}), Unexpected),
        (httpx.Response(200, content=b"<html>"), Unexpected),
        (httpx.Response(302, headers={"location": "http://elsewhere"}), ProblemError),
    ],
)
def test_permanent_error_is_raised_at_once(outcome: Any, error: type[Exception]) -> None:
    with pytest.raises(error) as raised:
        waits([outcome])
    assert type(raised.value) is error


def test_overloaded_proxy_is_retried() -> None:
    waited, _ = waits(
        [httpx.Response(503, text="busy"), httpx.Response(429, text="busy"), response(200, CORPORA)]
    )
    assert len(waited) == 2


def test_clients_wait_before_retrying() -> None:
    paths: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        paths.append(request.url.path)
        return response(200, CORPORA) if len(paths) % 3 == 0 else busy("0")

    with Client("http://server", transport=httpx.MockTransport(answer)) as client:
        assert client.corpora()[0].name == "code"

    async def run() -> Any:
        async with AsyncClient("http://server", transport=httpx.MockTransport(answer)) as client:
            return await client.corpora()

    assert anyio.run(run)[0].name == "code"
    assert paths == ["/corpora"] * 6


def test_health_is_false_while_opening() -> None:
    transport = httpx.MockTransport(lambda _: busy("5"))
    with Client("http://server", transport=transport) as client:
        assert client.health() is False


# ---- as a library


def test_both_clients_have_the_same_methods() -> None:
    names = {"search", "classify", "qa", "corpora", "corpus", "document", "health"}
    for name in names:
        blocking, awaited = getattr(Client, name), getattr(AsyncClient, name)
        assert inspect.iscoroutinefunction(awaited)
        assert inspect.signature(blocking).parameters == inspect.signature(awaited).parameters
        assert "self" in inspect.signature(blocking).parameters
        assert blocking.__name__ == name
        assert blocking.__doc__ == awaited.__doc__
        assert blocking.__doc__


def test_client_import_is_light() -> None:
    heavy = "faiss fastapi starlette onnxruntime numpy tokenizers torch uvicorn"
    program = "import sys, purlin.client; print(*{name.partition('.')[0] for name in sys.modules})"

    loaded = set(run([sys.executable, "-c", program], PYTHONPATH=str(ROOT)).stdout.split())
    assert "httpx" in loaded
    assert loaded.isdisjoint(heavy.split())


PAGE = (ROOT / "docs" / "client.md").read_text()
PROGRAMS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_in_the_docs_run(
    tmp_path: Path, program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    make(tmp_path, "code", FUNCTIONS)
    with listening(tmp_path, HashEncoder()) as url:
        exec(program.replace("http://127.0.0.1:8000", url), {})
    printed = capsys.readouterr().out
    assert "tools/read.py:10 Reader.read_csv" in printed or printed in ("delivery\n", "payment\n")
    assert len(PROGRAMS) == 2
