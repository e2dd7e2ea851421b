"""Clients of a server, blocking and async. Needs httpx and pydantic of what Purlin needs; nothing heavy is imported.

    from app.client import Client

    with Client("http://127.0.0.1:8000") as purlin:
        for hit in purlin.search("read rows from a csv file", "stdlib", k=5).hits:
            print(hit.score, hit.location.path, hit.title)

A call that the server refuses for now (429 or 503 with Retry-After), or that the network lost, is tried again while the
waits stay below `max_wait_s` altogether: all calls only read.
"""

from __future__ import annotations

import inspect
import random
import time
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from itertools import count
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar
from urllib.parse import quote

import anyio
import httpx
from pydantic import TypeAdapter, ValidationError

from index.records import Document, Hit, Kind, Mode

Scalar = str | int | float | bool
Condition = (
    Scalar | Sequence[Scalar] | Mapping[str, str | int | float]
)  # a value, any of some, or gte and lte

_LATER = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)
_LOST = (httpx.NetworkError, httpx.RemoteProtocolError, httpx.ConnectTimeout, httpx.PoolTimeout)
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.1, 4.0
_SHOWN = 300  # characters of an answer that is no problem

P = ParamSpec("P")
T = TypeVar("T")


# ---- what can go wrong


class ClientError(Exception):
    """Base of all errors here."""


class Unreachable(ClientError):
    """No answer came: no connection, or not in time."""


class Unexpected(ClientError):
    """The answer is none that this version knows: is it this server, and of a version near?"""


class ProblemError(ClientError):
    """The server said no: RFC 9457's members. `errors` has each wrong input as (field, message)."""

    def __init__(
        self,
        type: str,
        title: str,
        status: int,
        detail: str,
        errors: Sequence[tuple[str, str]] = (),
    ) -> None:
        super().__init__(f"{status} {title}: {detail}")
        self.type, self.title, self.status, self.detail, self.errors = (
            type,
            title,
            status,
            detail,
            tuple(errors),
        )

    @property
    def field(self) -> str | None:
        """The first input that is wrong, such as `filter.language`."""
        return self.errors[0][0] if self.errors else None


class Overloaded(ProblemError):
    """429 or 503, still after all tries that fit into `max_wait_s`."""


# ---- what comes back


@dataclass(frozen=True, slots=True)
class Found:
    """Hits best first; `total` counts all documents that can be paged to."""

    hits: tuple[Hit, ...]
    total: int
    took_ms: float
    corpus: str
    build: str
    encoder: str
    timings_ms: Mapping[str, float] | None = None


@dataclass(frozen=True, slots=True)
class LabelScore:
    """A label and its score (0-1)."""

    label: str
    score: float


@dataclass(frozen=True, slots=True)
class Classification:
    """Of one text: the best label, or None below `min_score`; how far it leads; and the best labels."""

    label: str | None
    score: float
    margin: float
    ranking: tuple[LabelScore, ...]


@dataclass(frozen=True, slots=True)
class Classified:
    """One result per text, in their order."""

    results: tuple[Classification, ...]
    took_ms: float
    encoder: str
    classifier: str | None = None
    build: str | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """Exact words of a reference: `passage[start:end] == text`. `score` is in 0-1."""

    text: str
    score: float
    start: int
    end: int
    passage_id: str
    title: str
    terms: tuple[str, ...]
    passage: str
    url: str | None = None


@dataclass(frozen=True, slots=True)
class Answered:
    """Answers best first; `answerable` is the probability that the corpus has one at all."""

    answers: tuple[Answer, ...]
    answerable: float
    hits: tuple[Hit, ...]
    took_ms: float
    corpus: str
    build: str
    encoder: str
    reader: str
    read: int | None = None
    timings_ms: Mapping[str, float] | None = None


@dataclass(frozen=True, slots=True)
class Corpus:
    """A corpus and how it is doing: serving, opening or refused."""

    name: str
    state: str
    problem: str | None = None
    kind: Kind | None = None
    build: str | None = None
    documents: int | None = None
    passages: int | None = None


@dataclass(frozen=True, slots=True)
class Against:
    """The build that was active when one was made: the difference (new - this) on the same queries, its interval."""

    build: str
    mean: float | None = None
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    missing: int | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Judged:
    """The queries that a build was measured with, and the measure that decided; `missing` documents are not in it."""

    measure: str
    queries: int
    relevant: int
    missing: int
    refused: bool
    against: Against | None = None


@dataclass(frozen=True, slots=True)
class Stale:
    """Files of the sources that changed, came and went since the build, if the server can see them (`reachable`)."""

    reachable: bool
    complete: bool
    changed: int
    added: int
    removed: int


@dataclass(frozen=True, slots=True)
class CorpusDetails(Corpus):
    """A corpus with what its build was made from and how good it is; see `GET /corpora/{name}`."""

    created_at: str | None = None
    encoder: Mapping[str, Any] | None = None
    sources: tuple[str, ...] = ()
    skipped: int | None = None
    took_s: float | None = None
    bytes: int | None = None
    measures: Mapping[str, Any] | None = None
    judged: Judged | None = None
    stale: Stale | None = None
    drift: float | None = None
    warning: str | None = None


@dataclass(frozen=True, slots=True)
class StoredDocument(Document):
    """A whole document, and the corpus and build that it is from."""

    corpus: str = ""
    build: str = ""


@dataclass(frozen=True, slots=True)
class _Corpora:
    corpora: tuple[Corpus, ...]


# ---- calls, each described once for both clients


@dataclass(frozen=True, slots=True)
class _Call(Generic[T]):
    """A request, and how to read its answer if the status is an expected one."""

    method: str
    path: str
    read: Callable[[httpx.Response], T]
    body: Mapping[str, Any] | None = None
    expected: tuple[int, ...] = (200,)


def _json_of(kind: type[T]) -> Callable[[httpx.Response], T]:
    adapter = TypeAdapter(kind)
    return lambda response: adapter.validate_json(response.content)


_read_found, _read_classified, _read_answered = (
    _json_of(Found),
    _json_of(Classified),
    _json_of(Answered),
)
_read_corpora, _read_document = _json_of(_Corpora), _json_of(StoredDocument)
_read_corpus = _json_of(CorpusDetails)


def _search(
    query: str,
    corpus: str,
    *,
    k: int = 10,
    offset: int = 0,
    mode: Mode = "hybrid",
    filter: Mapping[str, Condition] | None = None,
    explain: bool = False,
) -> _Call[Found]:
    """Search a corpus. `filter` maps fields to a value, a list of values, or {"gte": …, "lte": …}."""
    body = {
        "query": query,
        "corpus": corpus,
        "k": k,
        "offset": offset,
        "mode": mode,
        "filter": dict(filter or {}),
        "explain": explain,
    }
    return _Call("POST", "/search", _read_found, body)


def _classify(
    texts: Sequence[str],
    labels: Sequence[str] | None = None,
    *,
    classifier: str | None = None,
    templates: Sequence[str] | None = None,
    multi_label: bool = False,
    min_score: float = 0.0,
) -> _Call[Classified]:
    """Choose among `labels`, or those of a trained `classifier`, for each text."""
    body: dict[str, Any] = {
        "texts": list(texts),
        "multi_label": multi_label,
        "min_score": min_score,
    }
    if labels is not None:
        body["labels"] = list(labels)
    if classifier is not None:
        body["classifier"] = classifier
    if templates is not None:
        body["templates"] = list(templates)
    return _Call("POST", "/classify", _read_classified, body)


def _qa(question: str, corpus: str, *, k: int = 3, explain: bool = False) -> _Call[Answered]:
    """Answer a question in a reference's exact words."""
    body = {"question": question, "corpus": corpus, "k": k, "explain": explain}
    return _Call("POST", "/qa", _read_answered, body)


def _corpora() -> _Call[tuple[Corpus, ...]]:
    """All corpora, by name."""
    return _Call("GET", "/corpora", lambda response: _read_corpora(response).corpora)


def _corpus(name: str) -> _Call[CorpusDetails]:
    """One corpus: its build, how good it was measured to be, and whether its sources have moved on."""
    return _Call("GET", f"/corpora/{quote(name, safe='')}", _read_corpus)


def _document(corpus: str, document_id: str) -> _Call[StoredDocument]:
    """A whole document, by the `document_id` of a hit."""
    path = f"/corpora/{quote(corpus, safe='')}/documents/{quote(document_id, safe='')}"
    return _Call("GET", path, _read_document)


def _health() -> _Call[bool]:
    """Whether everything is open; False while it is being opened. Raises Unreachable."""
    return _Call("GET", "/readyz", lambda response: response.is_success, expected=(200, 503))


# ---- trying, and trying again

_Outcome = httpx.Response | httpx.RequestError


def _tries(call: _Call[T], max_wait_s: float) -> Generator[float | None, _Outcome | None, T]:
    """Yields None where the call is to be sent, and is sent what came of it; or yields the seconds to wait first."""
    waited_s = 0.0
    for number in count():
        outcome = yield None
        assert outcome is not None
        if isinstance(outcome, httpx.Response) and outcome.status_code in call.expected:
            return _read(call, outcome)
        wait_s = _wait_s(outcome, number)
        if wait_s is None or waited_s + wait_s > max_wait_s:
            raise _error(outcome)
        waited_s += wait_s
        yield wait_s
    raise AssertionError("count() never ends")


def _read(call: _Call[T], response: httpx.Response) -> T:
    try:
        return call.read(response)
    except ValidationError as error:
        raise Unexpected(
            f"{call.path} was answered with something else: {str(error)[:_SHOWN]}"
        ) from error


def _wait_s(outcome: _Outcome, number: int) -> float | None:
    """Seconds until it is worth another try, with some chance in it so that clients do not come in step; or None."""
    backoff_s = min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 2**number) * random.uniform(1, 1.5)
    if not isinstance(outcome, httpx.Response):
        return backoff_s if isinstance(outcome, _LOST) else None
    if outcome.status_code not in _LATER:
        return None
    told = outcome.headers.get("retry-after", "")
    if told.isascii() and told.isdigit():
        return max(_FIRST_WAIT_S, int(told[:9])) * random.uniform(1, 1.25)
    return (
        None if _is_problem(outcome) else backoff_s
    )  # the server always says when it helps, a proxy may not


def _is_problem(response: httpx.Response) -> bool:
    media_type: str = response.headers.get("content-type", "").partition(";")[0]
    return media_type == "application/problem+json"


def _error(outcome: _Outcome) -> ClientError:
    if not isinstance(outcome, httpx.Response):
        return Unreachable(f"{type(outcome).__name__}: {outcome}")
    kind = Overloaded if outcome.status_code in _LATER else ProblemError
    if not _is_problem(outcome):
        return kind(
            "about:blank", outcome.reason_phrase, outcome.status_code, outcome.text[:_SHOWN]
        )
    try:
        problem = outcome.json()
        errors = [(error["field"], error["message"]) for error in problem.get("errors", [])]
        return kind(
            problem["type"], problem["title"], outcome.status_code, problem["detail"], errors
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return Unexpected(
            f"{outcome.status_code} with a problem that is none: {outcome.text[:_SHOWN]}"
        )


# ---- the clients


def _options(base_url: str, api_key: str | None, timeout_s: float) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    return {"base_url": base_url, "headers": headers, "timeout": timeout_s}


def _blocking(describe: Callable[P, _Call[T]]) -> Callable[Concatenate[Client, P], T]:
    def method(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._send(describe(*args, **kwargs))

    _describe(method, describe)
    return method


def _awaited(
    describe: Callable[P, _Call[T]],
) -> Callable[Concatenate[AsyncClient, P], Awaitable[T]]:
    async def method(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._send(describe(*args, **kwargs))

    _describe(method, describe)
    return method


def _describe(method: Any, call: Any) -> None:
    """Give a method name, words and parameters of its call, for `help` and whatever else looks at it."""
    method.__name__, method.__doc__ = call.__name__.removeprefix("_"), call.__doc__
    itself = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    method.__signature__ = inspect.Signature([itself, *inspect.signature(call).parameters.values()])


class Client:
    """A client that blocks; safe to share between threads. `timeout_s` is for each try, see the module on `max_wait_s`.

    Methods raise ProblemError, Overloaded, Unreachable or Unexpected.
    """

    def __init__(
        self,
        base_url: str = "http://127.0.0.1:8000",
        *,
        api_key: str | None = None,
        timeout_s: float = 30.0,
        max_wait_s: float = 10.0,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._http = httpx.Client(**_options(base_url, api_key, timeout_s), transport=transport)
        self._max_wait_s = max_wait_s

    search = _blocking(_search)
    classify = _blocking(_classify)
    qa = _blocking(_qa)
    corpora = _blocking(_corpora)
    corpus = _blocking(_corpus)
    document = _blocking(_document)
    health = _blocking(_health)

    def _send(self, call: _Call[T]) -> T:
        tries = _tries(call, self._max_wait_s)
        outcome: _Outcome | None = None
        try:
            while True:
                wait_s = tries.send(outcome)
                if wait_s is None:
                    outcome = self._try(call)
                else:
                    time.sleep(wait_s)
        except StopIteration as end:
            found: T = end.value
            return found

    def _try(self, call: _Call[T]) -> _Outcome:
        try:
            return self._http.request(call.method, call.path, json=call.body)
        except httpx.RequestError as error:
            return error

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncClient:
    """The same for async code."""

    def __init__(
        self,
        base_url: str = "http://127.0.0.1:8000",
        *,
        api_key: str | None = None,
        timeout_s: float = 30.0,
        max_wait_s: float = 10.0,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._http = httpx.AsyncClient(
            **_options(base_url, api_key, timeout_s), transport=transport
        )
        self._max_wait_s = max_wait_s

    search = _awaited(_search)
    classify = _awaited(_classify)
    qa = _awaited(_qa)
    corpora = _awaited(_corpora)
    corpus = _awaited(_corpus)
    document = _awaited(_document)
    health = _awaited(_health)

    async def _send(self, call: _Call[T]) -> T:
        tries = _tries(call, self._max_wait_s)
        outcome: _Outcome | None = None
        try:
            while True:
                wait_s = tries.send(outcome)
                if wait_s is None:
                    outcome = await self._try(call)
                else:
                    await anyio.sleep(wait_s)
        except StopIteration as end:
            found: T = end.value
            return found

    async def _try(self, call: _Call[T]) -> _Outcome:
        try:
            return await self._http.request(call.method, call.path, json=call.body)
        except httpx.RequestError as error:
            return error

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
