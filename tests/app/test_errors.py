from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from hypothesis import given, settings
from hypothesis import strategies as st

from purlin.app import errors, problems
from purlin.index.errors import PurlinError
from purlin.index.search.corpus import Corpus
from tests.support.hash_encoder import FailingEncoder
from tests.support.serving import FUNCTIONS, make, problem, serving

JSON = {"content-type": "application/json"}
SEARCH = {"query": "sort", "corpus": "code"}
CLASSIFY = {"texts": ["a text"], "labels": ["one", "two"]}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    home = tmp_path_factory.mktemp("home")
    make(home, "code", FUNCTIONS)
    with serving(home, max_body_bytes=3 * 2**20) as client:
        yield client


@pytest.mark.parametrize(
    ("change", "field", "words"),
    [
        ({"query": ""}, "query", "query is empty; give it at least one word"),
        ({"filter": {"text": {"matches": "a(b"}}}, "filter.text.matches", "at character 2: unclosed group"),
        ({"filter": {"text": {"matches": "(.?){600}"}}}, "filter.text.matches", "at most 500 are allowed"),
        ({"filter": {"text": {"matches": 3}}}, "filter.text.matches", "as a text"),
        ({"query": " \n\t"}, "query", "empty"),
        ({"query": "word " * 200_000}, "query", "at most 4096 characters; it has 1000000"),
        ({"query": None}, "query", "valid string"),
        ({"query": 7}, "query", "it is 7"),
        ({"k": 0}, "k", "greater than or equal to 1; it is 0"),
        ({"k": 10**6}, "k", "less than or equal to 1000; it is 1000000"),
        ({"k": 10**30}, "k", "less than or equal to 1000"),
        ({"k": "10"}, "k", 'valid integer; it is "10"'),
        ({"k": True}, "k", "it is true"),
        ({"k": 2.5}, "k", "it is 2.5"),
        ({"offset": -1}, "offset", "it is -1"),
        ({"offset": 10_000}, "offset", "less than 10000"),
        ({"k": 1000, "offset": 9_001}, "offset", "offset + k at most 10,000"),
        ({"mode": "fuzzy"}, "mode", "'hybrid', 'dense' or 'lexical'; it is \"fuzzy\""),
        ({"rerank": True}, "rerank", "no reranker for corpora of kind code"),
        ({"filter": {"colour": "red"}}, "filter.colour", "It has: language, lines, tags"),
        ({"filter": {"lines": {"gt": 3}}}, "filter.lines", "gte, lte and not; 'gt' was given"),
        ({"filter": {"lines": {}}}, "filter.lines", "gte, lte and not"),
        ({"filter": {"lines": {"gte": None}}}, "filter.lines", "an object with gte"),
        ({"filter": {"lines": {"gte": True}}}, "filter.lines", "an object with gte"),
        ({"filter": {"language": {"gte": 3}}}, "filter.language", "no numbers"),
        ({"filter": {"language": 3}}, "filter.language", 'as a text, in quotes: "3"'),
        ({"filter": {"lines": "long"}}, "filter.lines", "'lines' has numbers only"),
        ({"filter": {"lines": ["3", "4"]}}, "filter.lines", "3 without quotes"),
        ({"filter": {"lines": {"not": None}}}, "filter.lines", "an object with gte, lte and not"),
        ({"filter": {"lines": {"not": {"not": 3}}}}, "filter.lines.not", "without both"),
        ({"filter": {"lines": {"not": {"gt": 3}}}}, "filter.lines.not", "'gt' was given"),
        ({"filter": {"lines": {"not": []}}}, "filter.lines.not", "this one has 0"),
        ({"filter": {"lines": {"not": [1] * 1001}}}, "filter.lines", "at most 1000 values"),
        ({"filter": {"lines": {"not": "long"}}}, "filter.lines.not", "'lines' has numbers only"),
        ({"filter": {"lines": {"not": {"gte": 4, "lte": 3}}}}, "filter.lines.not", "swap them"),
        ({"filter": {"lines": {"gte": [1]}}}, "filter.lines", "an object with gte, lte and not"),
        ({"filter": {"size": {"not": 3}}}, "filter.size", "no filterable field 'size'"),
        ({"filter": None}, "filter", "must be an object; it is null"),
        ({"filter": {"language": []}}, "filter.language", "this one has 0"),
        ({"filter": {"language": ["x"] * 1001}}, "filter.language", "at most 1000 values; it is a list of 1001"),
        ({"filter": {"language": [[]] * 1001}}, "filter.language", "at most 1000 values"),
        ({"filter": {"lines": dict.fromkeys("abcd", 1)}}, "filter.lines", "an object with gte, lte and not"),
        ({"filter": {f"f{n}": [] for n in range(33)}}, "filter", "at most 32 fields"),
        ({f"k{n}": 1 for n in range(100)}, "body", "at most 100 keys; it is an object with query, corpus"),
        ({"filter": {"language": [["x"]]}}, "filter.language", "it is a list of 1"),
        ({"filter": {"language": None}}, "filter.language", "a value, a list of values, or an object"),
        ({"filter": {"language": "x" * 1001}}, "filter.language", "(texts: 1000 characters; numbers: finite)"),
        ({"filter": {"lines": {"gte": 1, "lte": None}}}, "filter.lines", "no null: leave lte out"),
        ({"filter": {"lines": 10**40}}, "filter.lines", "64 bits"),
        ({"filter": {f"f{n}": 1 for n in range(33)}}, "filter", "at most 32"),
        ({"filter": ["language"]}, "filter", "it is a list of 1"),
        ({"limit": 10}, "limit", "is not a known key; known are query, corpus, k, offset, mode"),
        ({"filters": {"lines": 1}}, "filters", "is not a known key; 'filter' is"),
        ({"corpus": "../code"}, "corpus", "not a valid corpus name"),
        ({"corpus": "x" * 65}, "corpus", "at most 64 characters"),
    ],
)  # fmt: skip
def test_invalid_field_is_named_with_its_limit(
    client: TestClient, change: dict[str, Any], field: str, words: str
) -> None:
    reply = problem(client.post("/search", json=SEARCH | change), 422)
    (error,) = reply["errors"]
    assert error["field"] == field
    assert words in error["message"]
    assert error["message"] in reply["detail"]
    assert reply["type"] == "urn:purlin:problem:invalid-input"


def test_unknown_corpus_lists_the_existing_ones(client: TestClient) -> None:
    search = client.post("/search", json=SEARCH | {"corpus": "cod"})
    for response in (search, client.get("/corpora/cod"), client.get("/corpora/cod/documents/x")):
        reply = problem(response, 404)
        assert reply["errors"] == [
            {"field": "corpus", "message": "There is no corpus 'cod'. Corpora: code."}
        ]


def test_unknown_document_is_named(client: TestClient) -> None:
    assert (
        "'no/such#1'" in problem(client.get("/corpora/code/documents/no/such%231"), 404)["detail"]
    )


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "body is required"),
        (b"[1, 2]", "must be a JSON object"),
        (b'"sort"', "must be a JSON object"),
        (b"null", "must be a JSON object"),
    ],
)
def test_body_must_be_a_json_object(client: TestClient, body: bytes, words: str) -> None:
    assert words in problem(client.post("/search", content=body, headers=JSON), 422)["detail"]


@pytest.mark.parametrize(
    "media_type", [None, "text/plain", "application/x-www-form-urlencoded", "application/jsonx"]
)
def test_other_media_types_are_refused(client: TestClient, media_type: str | None) -> None:
    headers = {"content-type": media_type} if media_type else {}
    for path, body in (("/search", SEARCH), ("/classify", CLASSIFY)):
        reply = problem(client.post(path, content=json.dumps(body), headers=headers), 415)
        assert "must be application/json" in reply["detail"]


@pytest.mark.parametrize("path", ["/search", "/classify", "/qa", "/v1/embeddings", "/embed"])
@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"query": ', "not JSON: Expecting value at character 10"),
        (b'{"query": "caf\xe9"}', "not UTF-8: byte 14 is 0xe9"),
        (gzip.compress(b"{}", mtime=0), "not UTF-8: byte 1 is 0x8b"),
        (b"[" * 100_000, "nested hundreds of levels deep"),
        (b'{"a":' * 50_000 + b"1" + b"}" * 50_000, "nested hundreds of levels deep"),
        (b'{"k": ' + b"9" * 5_000 + b"}", "a number of the body has thousands of digits"),
    ],
)
def test_unreadable_body_is_told_with_its_remedy(
    client: TestClient, path: str, body: bytes, words: str
) -> None:
    reply = problem(client.post(path, content=body, headers=JSON), 400)
    assert words.lower() in reply["detail"].lower()
    assert reply["type"] == "urn:purlin:problem:not-json"


@pytest.mark.parametrize("encoding", ["gzip", "br", "deflate, gzip"])
def test_compressed_body_is_refused_unread(client: TestClient, encoding: str) -> None:
    bomb = gzip.compress(b"0" * 10_000_000)
    headers = JSON | {"content-encoding": encoding}
    reply = problem(client.post("/search", content=bomb, headers=headers), 415)
    assert reply["detail"] == f"The Content-Encoding is {encoding!r}: send the body uncompressed."


@pytest.mark.parametrize(
    ("body", "key"),
    [
        (b'{"query": "a", "query": "b", "corpus": "code"}', "query"),
        (b'{"query": "a", "corpus": "code", "filter": {"lines": {"gte": 1}, "lines": 2}}', "lines"),
    ],
)
def test_key_that_is_there_twice_is_refused(client: TestClient, body: bytes, key: str) -> None:
    reply = problem(client.post("/search", content=body, headers=JSON), 422)
    assert reply["errors"][0]["field"] == key
    assert f"The key '{key}' is in one object more than once" in reply["detail"]


def test_path_with_a_slash_at_its_end_is_told_without(client: TestClient) -> None:
    reply = problem(client.post("/search/", json=SEARCH), 404)
    assert "send this to /search, without a slash at the end" in reply["detail"]
    assert "lists all paths" in problem(client.get("/searches/"), 404)["detail"]


def test_json_with_a_charset_is_accepted(client: TestClient) -> None:
    headers = {"content-type": "Application/JSON; charset=utf-8"}
    assert client.post("/search", content=json.dumps(SEARCH), headers=headers).status_code == 200


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (rb'{"query": "a", "corpus": "code", "k": NaN}', "k"),
        (rb'{"query": "a", "corpus": "code", "filter": {"lines": Infinity}}', "filter.lines"),
        (rb'{"query": "a", "corpus": "code", "filter": {"lines": {"gte": NaN}}}', "filter.lines"),
        (rb'{"query": "\ud800", "corpus": "code"}', "query"),
        (rb'{"query": "a", "corpus": "\udfff"}', "corpus"),
        (rb'{"query": "a", "corpus": "code", "filter": {"\ud800": 1}}', "filter"),
        (rb'{"query": "a", "corpus": "code", "\ud800": 1}', "body"),
        (rb'{"query": "a", "corpus": "code", "filter": {"tags": "\ud800"}}', "filter.tags"),
    ],
)
def test_non_finite_numbers_or_surrogates_are_refused(
    client: TestClient, body: bytes, field: str
) -> None:
    reply = problem(client.post("/search", content=body, headers=JSON), 422)
    assert reply["errors"][0]["field"].startswith(field)
    if field in ("query", "body"):
        assert "valid Unicode, without half of a surrogate pair" in reply["errors"][0]["message"]


@pytest.mark.parametrize(
    "query", ["\x00", "a\x00b", "'; DROP TABLE documents --", "\U0010ffff", "((((", "*", "." * 4096]
)
def test_odd_queries_are_answered(client: TestClient, query: str) -> None:
    assert client.post("/search", json=SEARCH | {"query": query}).status_code == 200


def test_only_the_first_errors_are_listed(client: TestClient) -> None:
    reply = problem(client.post("/classify", json=CLASSIFY | {"texts": [None] * 5000}), 422)
    assert len(reply["errors"]) == errors.MAX_ERRORS
    assert "and 4997 more" in reply["detail"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/search", SEARCH | {"filter": {"language": [[]] * 200_000}}),
        ("/search", SEARCH | {"filter": {f"f{n}": [] for n in range(100_000)}}),
        ("/search", SEARCH | {f"k{n}": 1 for n in range(100_000)}),
        ("/classify", {"texts": [1] * 200_000, "labels": [2] * 200_000, "templates": [[]] * 200_000}),
        ("/embed", {"inputs": [""] * 200_000}),
    ],
)  # fmt: skip
def test_number_of_collected_errors_is_bounded(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, path: str, body: Any
) -> None:
    counts: list[int] = []
    explain = problems.explain
    monkeypatch.setattr(
        problems, "explain", lambda errors: counts.append(len(errors)) or explain(errors)
    )
    problem(client.post(path, json=body), 422)
    assert counts[0] < 50


def test_long_key_is_not_echoed(client: TestClient) -> None:
    reply = problem(
        client.post("/search", json=SEARCH | {"x" * 1_000_000: 1, "filter": {"y" * 1_000_000: 1}}),
        422,
    )
    assert reply["errors"][0]["field"].startswith("xxx")


@pytest.mark.parametrize("with_length", [True, False])
def test_body_over_the_limit_is_refused(client: TestClient, with_length: bool) -> None:
    body = json.dumps(SEARCH | {"query": "x" * (4 * 2**20)}).encode()
    pieces = (body[start : start + 65536] for start in range(0, len(body), 65536))
    reply = problem(
        client.post("/search", content=body if with_length else pieces, headers=JSON), 413
    )
    assert "3,145,728 bytes" in reply["detail"]


def test_body_of_too_many_values_is_refused(client: TestClient) -> None:
    body = b'{"texts": [' + b"[]," * 500_000 + b"0]}"
    refused = problem(client.post("/classify", content=body, headers=JSON), 413)
    assert "1,000,000 commas and opening brackets" in refused["detail"]

    fewer = b'{"texts": [' + b"[]," * 400_000 + b"0]}"
    assert client.post("/classify", content=fewer, headers=JSON).status_code == 422


def test_body_may_arrive_in_pieces(client: TestClient) -> None:
    body = json.dumps(SEARCH).encode()
    assert (
        client.post("/search", content=(bytes([byte]) for byte in body), headers=JSON).status_code
        == 200
    )


def test_unknown_path_or_method_is_a_problem(client: TestClient) -> None:
    assert "/openapi.json" in problem(client.get("/nothing/here"), 404)["detail"]
    response = client.get("/search")
    assert "GET" in problem(response, 405)["detail"]
    assert response.headers["allow"] == "POST"
    assert problem(client.get("/" + "x" * 5000), 404)["type"] == "about:blank"
    assert problem(client.post("/corpora"), 405)


def test_unexpected_error_hides_internals(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    make(tmp_path, "code", FUNCTIONS)
    with serving(tmp_path, FailingEncoder()) as client:
        response = client.post("/search", json=SEARCH)
        assert "log" in problem(response, 500)["detail"]
        assert "42" not in response.text
        assert client.get("/livez").status_code == 200
    (record,) = [record for record in caplog.records if record.name == "purlin.problems"]
    assert record.message == "POST '/search' failed"
    assert "the secret is 42" in caplog.text


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("can't start new thread")])
def test_what_the_system_is_short_of_may_be_tried_again(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise error

    make(tmp_path, "code", FUNCTIONS)
    with serving(tmp_path) as client:
        monkeypatch.setattr(Corpus, "search", refuse)
        response = client.post("/search", json=SEARCH)
    assert problem(response, 503)["type"] == "urn:purlin:problem:overloaded"
    assert response.headers["retry-after"]
    (record,) = [record for record in caplog.records if record.name == "purlin.problems"]
    assert ("raise its limits" in record.message, record.exc_info) == (True, None)


def test_every_error_class_has_a_status() -> None:
    # Training and the start of workers answer no requests.
    without_requests = ("purlin.training", "purlin.app.workers")

    def subclasses(base: type[PurlinError]) -> set[type[PurlinError]]:
        direct = [
            each
            for each in base.__subclasses__()
            if not each.__module__.startswith(without_requests)
        ]
        return {base}.union(*map(subclasses, direct))

    assert subclasses(PurlinError) - {PurlinError} == problems.PROBLEMS.keys()
    assert all(400 <= status < 600 for status, _ in problems.PROBLEMS.values())
    assert problems.status_and_slug(PurlinError("x"))[0] == 500


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner)
)
keys = st.sampled_from(
    [*"query corpus k offset mode filter explain texts labels templates min_score".split()]
)


@settings(max_examples=150)
@given(
    path=st.sampled_from(["/search", "/classify"]), change=st.dictionaries(keys, values, max_size=4)
)
def test_arbitrary_bodies_never_cause_a_500(
    client: TestClient, path: str, change: dict[str, Any]
) -> None:
    body = json.dumps((SEARCH if path == "/search" else CLASSIFY) | change)
    response = client.post(path, content=body, headers=JSON)
    if response.status_code != 200:
        assert problem(response, response.status_code)["status"] in (404, 422)
