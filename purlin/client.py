"""Blocking and async clients of a Purlin server.

    from purlin.client import Client

    with Client("http://127.0.0.1:8000") as purlin:
        for hit in purlin.search("read rows from a csv file", "code", k=5).hits:
            print(hit.score, hit.location.path, hit.title)

The clients need httpx and pydantic only; importing them loads neither the server nor the search
engine.

All calls only read, so a failed call can be sent again. The clients retry if the server refuses a
call for now (429 or 503 with Retry-After) or the network loses it, as long as the waits of one call
add up to at most `max_wait_s`.
"""

from __future__ import annotations

import inspect
import math
import random
import re
import time
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Concatenate, Generic, Literal, ParamSpec, Self, TypeVar
from urllib.parse import quote

import anyio
import httpx
from pydantic import TypeAdapter, ValidationError

from purlin.index.records import (
    Answer,
    Classification,
    Document,
    Kind,
    LabelScore,
    Mode,
    SearchedCorpus,
)
from purlin.replies import Against, CorporaReply, Stale
from purlin.replies import ClassifyReply as Classified
from purlin.replies import CorpusReply as CorpusDetails
from purlin.replies import CorpusStatus as Corpus
from purlin.replies import QaReply as Answered
from purlin.replies import QualityCheck as Judged
from purlin.replies import SearchReply as Found

__all__ = [
    "Against",
    "Answer",
    "Answered",
    "AsyncClient",
    "Classification",
    "Classified",
    "Client",
    "ClientError",
    "Corpus",
    "CorpusDetails",
    "Found",
    "Judged",
    "LabelScore",
    "Overloaded",
    "ProblemError",
    "SearchedCorpus",
    "Stale",
    "StoredDocument",
    "Unexpected",
    "Unreachable",
]

FilterValue = str | int | float | bool
# Bounds under the keys gte and lte.
FilterBounds = Mapping[str, str | int | float]
# A single value, a list of values (any of them), bounds, or one of these under the key not.
FilterCondition = (
    FilterValue
    | Sequence[FilterValue]
    | FilterBounds
    | Mapping[str, FilterValue | Sequence[FilterValue] | FilterBounds]
)

_RETRY_STATUSES = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)
_RETRY_ERRORS = (
    httpx.NetworkError,
    httpx.RemoteProtocolError,
    httpx.ConnectTimeout,
    httpx.PoolTimeout,
)
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.1, 4.0
_MAX_QUOTED_CHARS = 300  # of a reply that is not a problem document

_P = ParamSpec("_P")
_T = TypeVar("_T")


# ---- errors


class ClientError(Exception):
    """Base class of all errors that the clients raise."""


class Unreachable(ClientError):
    """No reply: the connection failed, or the reply did not arrive in time."""


class Unexpected(ClientError):
    """A reply that this version cannot read: not from Purlin, or from another version."""


class ProblemError(ClientError):
    """The server refused the call; the attributes are the members of RFC 9457.

    `errors` lists the invalid inputs as (field, message).
    """

    def __init__(
        self,
        type: str,
        title: str,
        status: int,
        detail: str,
        errors: Sequence[tuple[str, str]] = (),
    ) -> None:
        # As these are the arguments, the error can be pickled: process pools hand it on.
        super().__init__(type, title, status, detail, errors)
        self.type = type
        self.title = title
        self.status = status
        self.detail = detail
        self.errors = tuple(errors)

    def __str__(self) -> str:
        return f"{self.status} {self.title}: {self.detail}"

    @property
    def field(self) -> str | None:
        """The first invalid input, such as `filter.language`, or None."""
        return self.errors[0][0] if self.errors else None


class Overloaded(ProblemError):
    """The server still answered 429 or 503, and asked to try again, when `max_wait_s` was used up."""


# ---- documents


@dataclass(frozen=True, slots=True)
class StoredDocument(Document):
    """A whole document, with the corpus and the build that it comes from."""

    corpus: str = ""
    build: str = ""


# ---- calls, each described once for both clients


@dataclass(frozen=True, slots=True)
class _Call(Generic[_T]):
    """A request, and how to read its reply if the status is an expected one."""

    method: str
    path: str
    read: Callable[[httpx.Response], _T]
    body: Mapping[str, Any] | None = None
    expected: tuple[int, ...] = (200,)


def _json_reader(reply_type: type[_T]) -> Callable[[httpx.Response], _T]:
    adapter = TypeAdapter(reply_type)
    return lambda response: adapter.validate_json(response.content)


_read_found = _json_reader(Found)
_read_classified = _json_reader(Classified)
_read_answered = _json_reader(Answered)
_read_corpora = _json_reader(CorporaReply)
_read_corpus = _json_reader(CorpusDetails)
_read_document = _json_reader(StoredDocument)


def _search(
    query: str,
    corpus: str | Sequence[str] | Mapping[Literal["kind"], Kind],
    *,
    k: int = 10,
    offset: int = 0,
    mode: Mode = "hybrid",
    filter: Mapping[str, FilterCondition] | None = None,
    group_by: str | None = None,
    rerank: bool | None = None,
    explain: bool = False,
) -> _Call[Found]:
    """Search a corpus, several, or with {"kind": …} all of a kind.

    `rerank` has a model score the first hits again, by default where that is known to help.
    `filter` maps fields to a value, a list, {"gte": …, "lte": …}, or {"not": …} with any of these,
    which documents without the field pass, too. Hits with one value of the
    field `group_by` become one, whose `variants` are the others. Hits of several corpora name
    theirs, and the reply has `corpora` in place of `corpus`, `build` and `encoder`.
    """
    body = {
        "query": query,
        "corpus": _listed(corpus),
        "k": k,
        "offset": offset,
        "mode": mode,
        "filter": dict(filter or {}),
        "explain": explain,
        **_present(rerank=rerank, group_by=group_by),
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
    transductive: bool = False,
) -> _Call[Classified]:
    """Choose a label for each text, among `labels` or among those of a trained `classifier`."""
    body = {
        "texts": _listed(texts),
        "multi_label": multi_label,
        "min_score": min_score,
        **_present(
            labels=_listed(labels),
            classifier=classifier,
            templates=_listed(templates),
            transductive=transductive or None,
        ),
    }
    return _Call("POST", "/classify", _read_classified, body)


def _listed(values: Any) -> Any:
    """A list of any sequence; texts and mappings stay what they are, which the server may refuse."""
    if isinstance(values, Mapping):
        return dict(values)
    return values if values is None or isinstance(values, str) else list(values)


def _present(**values: Any) -> dict[str, Any]:
    """The arguments that are not None: the server tells a missing key from a value."""
    return {name: value for name, value in values.items() if value is not None}


def _qa(question: str, corpus: str, *, k: int = 3, explain: bool = False) -> _Call[Answered]:
    """Answer a question in the exact words of a reference."""
    body = {"question": question, "corpus": corpus, "k": k, "explain": explain}
    return _Call("POST", "/qa", _read_answered, body)


def _corpora() -> _Call[tuple[Corpus, ...]]:
    """List all corpora, sorted by name."""
    return _Call("GET", "/corpora", lambda response: _read_corpora(response).corpora)


def _corpus(name: str) -> _Call[CorpusDetails]:
    """Describe one corpus: its build, its quality, and whether its sources have changed."""
    return _Call("GET", f"/corpora/{quote(name, safe='')}", _read_corpus)


def _document(corpus: str, document_id: str) -> _Call[StoredDocument]:
    """Fetch a whole document by the `document_id` of a hit."""
    path = f"/corpora/{quote(corpus, safe='')}/documents/{quote(document_id, safe='')}"
    return _Call("GET", path, _read_document)


def _health() -> _Call[bool]:
    """Check whether the server is ready; False while corpora are being opened.

    Raises Unreachable.
    """
    return _Call("GET", "/readyz", lambda response: response.is_success, expected=(200, 503))


# ---- sending and retrying

_Outcome = httpx.Response | httpx.RequestError


def _attempts(call: _Call[_T], max_wait_s: float) -> Generator[float | None, _Outcome | None, _T]:
    """Drive one call without doing any I/O, so that both clients share it and tests need no clock.

    Yields None when the call is to be sent, and expects the outcome to be sent in; yields a number
    of seconds when the client is to wait. Returns the parsed reply, or raises ClientError.
    """
    waited_s, attempt = 0.0, 0
    while True:
        outcome = yield None
        assert outcome is not None
        if isinstance(outcome, httpx.Response) and outcome.status_code in call.expected:
            return _read_reply(call, outcome)

        wait_s = _wait_s(outcome, attempt)
        if wait_s is None or waited_s + wait_s > max_wait_s:
            raise _error(outcome)
        waited_s += wait_s
        attempt += 1
        yield wait_s


def _read_reply(call: _Call[_T], response: httpx.Response) -> _T:
    try:
        return call.read(response)
    except ValidationError as error:
        raise Unexpected(
            f"The reply to {call.path} has another shape than expected: "
            f"{str(error)[:_MAX_QUOTED_CHARS]}"
        ) from error


def _wait_s(outcome: _Outcome, attempt: int) -> float | None:
    """Return the seconds to wait before the next attempt, or None if none would help.

    Waits are randomized, so that many clients do not come back at the same moment.
    """
    backoff_s = min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 2**attempt) * random.uniform(1, 1.5)
    if not isinstance(outcome, httpx.Response):
        return backoff_s if isinstance(outcome, _RETRY_ERRORS) else None
    if outcome.status_code not in _RETRY_STATUSES:
        return None

    retry_after = outcome.headers.get("retry-after", "")
    if retry_after.isascii() and retry_after.isdigit():
        return max(_FIRST_WAIT_S, int(retry_after[:9])) * random.uniform(1, 1.25)

    # Purlin sends Retry-After wherever a retry helps, whereas a proxy may not.
    return None if _is_problem(outcome) else backoff_s


def _is_problem(response: httpx.Response) -> bool:
    media_type: str = response.headers.get("content-type", "").partition(";")[0]
    return media_type == "application/problem+json"


def _error(outcome: _Outcome) -> ClientError:
    """Return the exception for a failed call."""
    if not isinstance(outcome, httpx.Response):
        url = outcome.request.url.copy_with(userinfo=b"")  # it may hold a password
        return Unreachable(f"No reply from {url}: {type(outcome).__name__}: {outcome}")

    status, text = outcome.status_code, outcome.text[:_MAX_QUOTED_CHARS]
    # Damage, say, is a 503 too, but one that no retry helps.
    error_type = ProblemError if _wait_s(outcome, 0) is None else Overloaded
    if not _is_problem(outcome):
        return error_type("about:blank", outcome.reason_phrase, status, text)

    try:
        problem = outcome.json()
        errors = [(error["field"], error["message"]) for error in problem.get("errors", [])]
        return error_type(problem["type"], problem["title"], status, problem["detail"], errors)
    except (ValueError, KeyError, TypeError, AttributeError):
        return Unexpected(f"{status} with a malformed problem document: {text}")


# ---- the clients


def _options(
    base_url: str, api_key: str | None, timeout_s: float, max_wait_s: float
) -> dict[str, Any]:
    if not re.match("https?://", base_url, re.IGNORECASE):
        raise ValueError(
            "base_url must begin with http:// or https://, as in http://127.0.0.1:8000."
        )
    if api_key and not re.fullmatch("[!-~]+", api_key):
        raise ValueError(
            "api_key must be printable ASCII without spaces; strip the line break of one from a file."
        )
    # Compared so that NaN is refused, too: calls would be repeated forever.
    if not 0 < timeout_s < math.inf:
        raise ValueError(f"timeout_s is {timeout_s}: give a number of seconds above 0.")
    if not max_wait_s >= 0:
        raise ValueError(f"max_wait_s is {max_wait_s}: give a number of seconds, or 0 for no wait.")
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    return {"base_url": base_url, "headers": headers, "timeout": timeout_s}


def _blocking(describe: Callable[_P, _Call[_T]]) -> Callable[Concatenate[Client, _P], _T]:
    def method(self: Client, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        return self._send(describe(*args, **kwargs))

    _copy_signature(describe, method)
    return method


def _awaited(
    describe: Callable[_P, _Call[_T]],
) -> Callable[Concatenate[AsyncClient, _P], Coroutine[Any, Any, _T]]:
    async def method(self: AsyncClient, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        return await self._send(describe(*args, **kwargs))

    _copy_signature(describe, method)
    return method


def _copy_signature(call: Any, method: Any) -> None:
    """Give a method the name, docstring and parameters of its call, for `help` and editors."""
    method.__name__ = call.__name__.removeprefix("_")
    method.__doc__ = call.__doc__

    self_parameter = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    parameters = inspect.signature(call).parameters.values()
    method.__signature__ = inspect.Signature([self_parameter, *parameters])


class Client:
    """A blocking client, safe to share between threads.

    `timeout_s` applies to each attempt; all waits between the attempts of one call add up to at
    most `max_wait_s`. Methods raise ProblemError, Overloaded, Unreachable or Unexpected.
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
        self._http = httpx.Client(
            **_options(base_url, api_key, timeout_s, max_wait_s), transport=transport
        )
        self._max_wait_s = max_wait_s

    search = _blocking(_search)
    classify = _blocking(_classify)
    qa = _blocking(_qa)
    corpora = _blocking(_corpora)
    corpus = _blocking(_corpus)
    document = _blocking(_document)
    health = _blocking(_health)

    def _send(self, call: _Call[_T]) -> _T:
        attempts = _attempts(call, self._max_wait_s)
        outcome: _Outcome | None = None

        try:
            while True:
                wait_s = attempts.send(outcome)
                if wait_s is None:
                    outcome = self._send_once(call)
                else:
                    time.sleep(wait_s)
        except StopIteration as end:
            reply: _T = end.value
            return reply

    def _send_once(self, call: _Call[_T]) -> _Outcome:
        try:
            return self._http.request(call.method, call.path, json=call.body)
        except httpx.RequestError as error:
            return error

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncClient:
    """The same client for async code."""

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
            **_options(base_url, api_key, timeout_s, max_wait_s), transport=transport
        )
        self._max_wait_s = max_wait_s

    search = _awaited(_search)
    classify = _awaited(_classify)
    qa = _awaited(_qa)
    corpora = _awaited(_corpora)
    corpus = _awaited(_corpus)
    document = _awaited(_document)
    health = _awaited(_health)

    async def _send(self, call: _Call[_T]) -> _T:
        attempts = _attempts(call, self._max_wait_s)
        outcome: _Outcome | None = None

        try:
            while True:
                wait_s = attempts.send(outcome)
                if wait_s is None:
                    outcome = await self._send_once(call)
                else:
                    await anyio.sleep(wait_s)
        except StopIteration as end:
            reply: _T = end.value
            return reply

    async def _send_once(self, call: _Call[_T]) -> _Outcome:
        try:
            return await self._http.request(call.method, call.path, json=call.body)
        except httpx.RequestError as error:
            return error

    async def aclose(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
