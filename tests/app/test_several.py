"""Search of several corpora over HTTP."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from purlin.index.builds import current
from purlin.index.builds.manifests import MANIFEST_FORMAT
from tests.support.serving import FUNCTIONS, make, numbered, problem, ready, serving, until


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """A server of one corpus, which is open: until then, one of the kind may still come."""
    home = tmp_path_factory.mktemp("home")
    make(home, "code", FUNCTIONS)
    with ready(home) as client:
        yield client


def test_several_corpora_are_searched_at_once(home: Path) -> None:
    make(home, "more", FUNCTIONS[1:])
    make(home, "manual", numbered(3, "sort"), "reference")
    with serving(home) as client:
        body = {"query": "sort numbers", "corpus": ["more", "code", "more"], "k": 3}
        reply = client.post("/search", json=body).json()
        best = {(hit["corpus"], hit["document_id"]) for hit in reply["hits"][:2]}
        assert best == {("code", FUNCTIONS[1].id), ("more", FUNCTIONS[1].id)}
        assert [hit["rank"] for hit in reply["hits"]] == [1, 2, 3]
        scores = [hit["score"] for hit in reply["hits"]]
        assert scores == sorted(scores, reverse=True)
        expected = [("more", 2), ("code", 3)]
        assert [(each["corpus"], each["total"]) for each in reply["corpora"]] == expected
        assert reply["corpora"][0]["build"] == current(home, "more").name
        assert reply["total"] == 5
        assert not {"corpus", "build", "encoder"} & reply.keys()

        of_kind = client.post("/search", json=body | {"corpus": {"kind": "code"}}).json()
        assert [each["corpus"] for each in of_kind["corpora"]] == ["code", "more"]
        one = client.post("/search", json=body | {"corpus": "code"}).json()
        assert one["corpus"] == "code"
        assert "corpus" not in one["hits"][0]
        assert "corpora" not in one


@pytest.mark.parametrize(
    ("corpus", "status", "message"),
    [
        (["code", "none"], 404, "There is no corpus 'none'"),
        ({"kind": "product"}, 404, "no corpus of kind product"),
        ({"kind": "music"}, 422, "must be a name of at most 64 characters, a list of names"),
        ({"kind": "code", "name": "x"}, 422, "must be a name"),
        ([], 422, "must be a name"),
        (["code"] * 17, 422, "a list of at most 16 names"),
        ([["code"]], 422, "must be a name"),
        (7, 422, "must be a name"),
    ],
)
def test_wrong_choice_of_corpora_is_explained(
    client: TestClient, corpus: object, status: int, message: str
) -> None:
    response = client.post("/search", json={"query": "sort", "corpus": corpus})
    assert message in problem(response, status)["detail"]


def test_only_corpora_of_the_kind_are_waited_for(home: Path) -> None:
    # They are opened one after another: the shop waits for the second one.
    file = make(home, "more", FUNCTIONS) / "base" / "record_ends.npy"
    make(home, "shop", numbered(3), "product")
    file.unlink()
    os.mkfifo(file)
    of_code = {"query": "sort numbers", "corpus": {"kind": "code"}}
    warning = "Not searched, as they are still being opened: more."

    with serving(home) as client:
        try:
            until(lambda: client.get("/corpora/code").json()["state"] == "serving")
            reply = client.post("/search", json=of_code).json()
            assert [each["corpus"] for each in reply["corpora"]] == ["code"]
            assert reply["warning"] == warning
            assert warning in search_code(client)

            response = client.post("/search", json=of_code | {"corpus": {"kind": "product"}})
            assert problem(response, 503)["detail"].startswith("Still being opened: shop;")
            assert response.headers["retry-after"] == "1"
            response = client.post("/search", json=of_code | {"corpus": {"kind": "reference"}})
            assert "no corpus of kind reference" in problem(response, 404)["detail"]
        finally:
            # Whoever reads the file finds it empty.
            file.open("wb").close()

        until(lambda: client.get("/corpora/more").json()["state"] == "refused")
        assert "Not searched, as they cannot be served: more" in search_code(client)
        assert "Not searched" not in search_code(client, corpus="code")


def search_code(client: TestClient, **arguments: str) -> str:
    """Return what the tool of that name answers an agent."""
    tool = {"name": "search_code", "arguments": {"query": "sort numbers", **arguments}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": tool}
    text: str = client.post("/mcp", json=message).json()["result"]["content"][0]["text"]
    return text


def test_a_refused_corpus_is_not_left_out_silently(home: Path) -> None:
    make(home, "old", FUNCTIONS)
    of_another_version(home, "old")
    body = {"query": "sort numbers", "corpus": {"kind": "code"}}
    with ready(home) as client:
        reply = client.post("/search", json=body).json()
        assert [each["corpus"] for each in reply["corpora"]] == ["code"]
        assert reply["warning"] == "Not searched, as they cannot be served: old; see /corpora."

        of_another_version(home, "code")
        until(lambda: client.get("/corpora/code").json().get("problem"))
        of_another_kind = body | {"corpus": {"kind": "product"}}
        problem(client.post("/search", json=of_another_kind), 404)

    with ready(home) as client:
        response = client.post("/search", json=body)
        assert "was written by another version" in problem(response, 503)["detail"]
        tool = {"name": "search_code", "arguments": {"query": "sort numbers"}}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": tool}
        result = client.post("/mcp", json=message).json()["result"]
        assert result["isError"] is True
        assert "was written by another version" in result["content"][0]["text"]


def of_another_version(home: Path, name: str) -> None:
    """Make the active build of a corpus one of an earlier format."""
    active = current(home, name)
    manifest = active / "manifest.json"
    content = manifest.read_bytes().replace(b'"format": %d' % MANIFEST_FORMAT, b'"format": 1')
    manifest.write_bytes(content)
    build = f"{active.name.partition('-')[0]}-{hashlib.sha256(content).hexdigest()[:12]}"
    active.rename(active.with_name(build))
    (active.parent / "CURRENT").write_text(build)
