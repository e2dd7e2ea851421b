"""/v1/embeddings, /v1/models, /embed and /rerank, also against the official clients."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from fastapi.testclient import TestClient

from purlin.app.protocols import MAX_INPUTS
from purlin.index.encoder import TRANSFORMER_ENCODER
from purlin.index.encoder.transformer import Encoder
from tests.support.listening import listening
from tests.support.paths import ROOT
from tests.support.serving import (
    API_KEYS,
    CLASSIFY_KEY,
    PATIENTLY,
    SEARCH_KEY,
    bearer,
    problem,
    serving,
)
from tests.support.tiny import DIM, tiny_encoder

TEXTS = ["sports news", "business of the world", "sports"]
EMBED = {"input": TEXTS, "model": "tiny"}
DOCS = (ROOT / "docs" / "agents.md").read_text()
COMMANDS = re.findall(r"\$ curl -s localhost:8000(/\S+) -H '[^']+' -d '([^']+)'", DOCS)
PROGRAMS = re.findall(r"```python\n(.*?)```", DOCS, re.DOTALL)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    """A real one, with prefixes that tell queries from passages."""
    directory = tmp_path_factory.mktemp("encoder") / "tiny"
    tiny_encoder(directory, query_prefix="about ", passage_prefix="of ")
    return Encoder.load(directory)


@pytest.fixture(autouse=True)
def online(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the hub is switched off its client does not even go to the loopback."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)


@pytest.fixture(scope="module")
def client(encoder: Encoder, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with serving(tmp_path_factory.mktemp("home"), encoder) as client:
        yield client


@pytest.fixture(scope="module")
def url(encoder: Encoder, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with listening(tmp_path_factory.mktemp("home"), encoder) as url:
        yield url


# ---- OpenAI; other tests need not wait for the import, which takes a second


def test_openai_client_gets_vectors(url: str, encoder: Encoder) -> None:
    import openai

    with openai.OpenAI(base_url=f"{url}/v1", api_key="none") as client:
        for form in ({}, {"encoding_format": "float"}, {"dimensions": DIM}):
            reply = client.embeddings.create(input=TEXTS, model="tiny", **form)  # type: ignore[arg-type]
            vectors = np.array([each.embedding for each in reply.data], np.float32)
            np.testing.assert_array_equal(vectors, encoder.encode(TEXTS, role="passage"))
            assert [each.index for each in reply.data] == [0, 1, 2]
        reply = client.embeddings.create(
            input="sports", model="tiny", extra_body={"input_type": "query"}
        )
        np.testing.assert_array_equal(
            np.array(reply.data[0].embedding, np.float32),
            encoder.encode(["sports"], role="query")[0],
        )
        assert reply.usage.prompt_tokens == reply.usage.total_tokens == 2
        (model,) = client.models.list().data
        assert model.id == reply.model == "tiny"


def test_openai_client_shows_errors(url: str) -> None:
    import openai

    with openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        with pytest.raises(openai.UnprocessableEntityError, match="token ids") as refused:
            client.embeddings.create(input=[1, 2, 3], model="tiny")
        assert (refused.value.param, refused.value.type) == ("input", "invalid_request_error")
        assert refused.value.code == "invalid-input"
        with pytest.raises(openai.NotFoundError, match="only 'tiny'"):
            client.embeddings.create(input="a", model="text-embedding-3-small")


def test_openai_client_sends_a_key(encoder: Encoder, tmp_path: Path) -> None:
    import openai

    with listening(tmp_path, encoder, keys=API_KEYS) as url:
        with openai.OpenAI(base_url=f"{url}/v1", api_key=SEARCH_KEY) as client:
            assert len(client.embeddings.create(input="a", model="tiny").data) == 1
        with openai.OpenAI(base_url=f"{url}/v1", api_key=CLASSIFY_KEY) as client:
            with pytest.raises(openai.PermissionDeniedError, match="lacks the scope search"):
                client.embeddings.create(input="a", model="tiny")
        with openai.OpenAI(base_url=f"{url}/v1", api_key="unknown") as client:
            with pytest.raises(openai.AuthenticationError, match="known key"):
                client.models.list()


def test_base64_has_the_same_numbers(client: TestClient) -> None:
    numbers = client.post("/v1/embeddings", json=EMBED).json()["data"]
    encoded = client.post("/v1/embeddings", json=EMBED | {"encoding_format": "base64"})
    for expected, actual in zip(numbers, encoded.json()["data"], strict=True):
        decoded = np.frombuffer(base64.b64decode(actual["embedding"]), "<f4")
        np.testing.assert_array_equal(decoded, np.array(expected["embedding"], np.float32))
        assert np.linalg.norm(decoded) == pytest.approx(1, abs=1e-5)


def test_usage_counts_the_tokens_read(client: TestClient, encoder: Encoder) -> None:
    texts = ["news", "news " * 1000]
    reply = client.post("/v1/embeddings", json=EMBED | {"input": texts}).json()
    most = encoder.max_tokens
    assert reply["usage"] == {"prompt_tokens": 2 + most, "total_tokens": 2 + most}
    cut = client.post("/v1/embeddings", json=EMBED | {"input": "news " * (most - 1)}).json()
    assert reply["data"][1]["embedding"] == cut["data"][0]["embedding"]


def test_long_lists_keep_their_order(client: TestClient, encoder: Encoder) -> None:
    words = ["sports", "business", "world", "news"]
    texts = [" ".join(words[: 1 + number % 4]) for number in range(MAX_INPUTS)]
    data = client.post("/v1/embeddings", json=EMBED | {"input": texts}).json()["data"]
    assert [each["index"] for each in data] == list(range(MAX_INPUTS))
    expected = encoder.encode(texts[:4], role="passage")
    for number, each in enumerate(data):
        np.testing.assert_allclose(each["embedding"], expected[number % 4], atol=1e-6)


def test_models_lists_the_encoder(client: TestClient, encoder: Encoder) -> None:
    (model,) = client.get("/v1/models").json()["data"]
    assert model == {
        "id": "tiny",
        "object": "model",
        "created": 0,
        "owned_by": "purlin",
        "dim": DIM,
        "max_tokens": encoder.max_tokens,
        "fingerprint": encoder.fingerprint,
    }


@pytest.mark.parametrize(
    ("change", "field", "words"),
    [
        ({"input": []}, "input", "at least 1 item"),
        ({"input": ""}, "input[0]", "at least 1 character"),
        ({"input": ["a", ""]}, "input[1]", "at least 1 character"),
        ({"input": ["a"] * (MAX_INPUTS + 1)}, "input", f"at most {MAX_INPUTS} items"),
        ({"input": ["x" * (2**20 + 1)]}, "input[0]", "at most 1048576 characters"),
        ({"input": [1, 2]}, "input", "not token ids"),
        ({"input": [[1, 2], [3]]}, "input", "not token ids"),
        ({"input": ["a", 5]}, "input[1]", "valid string"),
        ({"input": None}, "input", "valid list"),
        ({"input": {"a": 1}}, "input", "valid list"),
        ({"dimensions": 5}, "dimensions", f"have {DIM} dimensions"),
        ({"dimensions": "32"}, "dimensions", "valid integer"),
        ({"encoding_format": "hex"}, "encoding_format", "'float' or 'base64'"),
        ({"input_type": "document"}, "input_type", "'query' or 'passage'"),
        ({"model": 5}, "model", "valid string"),
        ({"colour": "red"}, "colour", "not a known key"),
    ],
)
def test_invalid_field_is_named_in_both_formats(
    client: TestClient, change: dict[str, Any], field: str, words: str
) -> None:
    reply = problem(client.post("/v1/embeddings", json=EMBED | change), 422)
    assert reply["errors"][0]["field"] == field
    assert words in reply["errors"][0]["message"]
    assert reply["error"] == {
        "message": reply["detail"],
        "type": "invalid_request_error",
        "param": field,
        "code": "invalid-input",
    }


def test_middleware_errors_have_both_formats(encoder: Encoder, tmp_path: Path) -> None:
    with serving(tmp_path, encoder, keys=API_KEYS) as client:
        reply = problem(client.post("/v1/embeddings", json=EMBED), 401)
        assert reply["error"]["message"] == reply["detail"]
        assert reply["error"]["code"] == "no-key"
        refused = client.post("/embed", json={"inputs": "a"}, headers=bearer(CLASSIFY_KEY))
        reply = problem(refused, 403)
        assert (reply["error"], reply["error_type"]) == (reply["detail"], "Validation")
        assert "error" not in problem(client.get("/corpora"), 401)
        reply = problem(client.get("/v1/nothing", headers=bearer(SEARCH_KEY)), 404)
        assert reply["error"]["code"] is None


# ---- text-embeddings-inference


def test_hugging_face_client_gets_vectors(url: str, encoder: Encoder) -> None:
    from huggingface_hub import InferenceClient
    from huggingface_hub.errors import HfHubHTTPError

    with InferenceClient(base_url=f"{url}/embed") as client:
        as_query = {"prompt_name": "query", "normalize": True}
        for role, options in (("passage", {}), ("query", as_query)):
            vectors = client.feature_extraction(TEXTS, **options)  # type: ignore[arg-type]
            np.testing.assert_array_equal(vectors, encoder.encode(TEXTS, role=role))  # type: ignore[arg-type]
        cut = client.feature_extraction("sports", truncate=True, truncation_direction="right")
        assert cut.shape == (1, DIM)
        with pytest.raises(HfHubHTTPError, match="set `truncate` to true"):
            client.feature_extraction("news " * 1000)
        with pytest.raises(HfHubHTTPError, match="unit length"):
            client.feature_extraction("news", normalize=False)


def test_embed_always_returns_a_list_of_vectors(client: TestClient, encoder: Encoder) -> None:
    single, several = (
        client.post("/embed", json={"inputs": inputs}).json() for inputs in ("sports", TEXTS)
    )
    assert (len(single), len(several), len(single[0])) == (1, 3, DIM)
    assert single[0] == several[2]
    cut = client.post("/embed", json={"inputs": "news " * 1000, "truncate": True})
    assert cut.status_code == 200


@pytest.mark.parametrize(
    ("body", "field", "words"),
    [
        ({"inputs": ["a", "news " * 100]}, "inputs[1]", "has 101 tokens; this encoder reads 64"),
        ({"inputs": [[1]]}, "inputs", "not token ids"),
        ({"inputs": []}, "inputs", "at least 1 item"),
        ({"inputs": "a", "normalize": False}, "normalize", "unit length"),
        ({"inputs": "a", "dimensions": 5}, "dimensions", "dimensions"),
        ({"inputs": "a", "prompt_name": "document"}, "prompt_name", "'query' or 'passage'"),
        ({"inputs": "a", "truncation_direction": "left"}, "truncation_direction", "or 'Right'"),
        ({"query": "a", "texts": []}, "texts", "at least 1 item"),
        ({"query": "a", "texts": "one"}, "texts", "valid list"),
        ({"query": "a", "texts": ["a"] * (MAX_INPUTS + 1)}, "texts", f"at most {MAX_INPUTS}"),
        ({"query": "a", "texts": ["a", "news " * 100]}, "texts[1]", "101 tokens"),
        ({"query": "", "texts": ["a"]}, "query", "at least 1 character"),
        ({"query": "x" * 5000, "texts": ["a"]}, "query", "at most 4096"),
        ({"query": "news " * 100, "texts": ["a"]}, "query[0]", "101 tokens"),
    ],
)
def test_embed_and_rerank_name_the_invalid_field(
    client: TestClient, body: dict[str, Any], field: str, words: str
) -> None:
    path = "/embed" if "inputs" in body else "/rerank"
    reply = problem(client.post(path, json=body), 422)
    assert reply["errors"][0]["field"] == field
    assert words in reply["errors"][0]["message"]
    assert (reply["error"], reply["error_type"]) == (reply["detail"], "Validation")


def test_rerank_sorts_by_cosine(client: TestClient, encoder: Encoder) -> None:
    body = {"query": "sports", "texts": ["business", "sports", "the news", "sports"]}
    query = encoder.encode(["sports"], role="query")[0]
    cosines = encoder.encode(body["texts"], role="passage") @ query
    raw = client.post("/rerank", json=body | {"raw_scores": True}).json()
    expected = sorted(range(4), key=lambda index: (-cosines[index], index))
    assert [each["index"] for each in raw] == expected
    assert [each["index"] for each in raw][:2] == [1, 3]
    for item, scaled in zip(
        raw, client.post("/rerank", json=body | {"return_text": True}).json(), strict=True
    ):
        assert item.keys() == {"index", "score"}
        assert item["score"] == pytest.approx(cosines[item["index"]], abs=1e-5)
        assert scaled == {
            "index": item["index"],
            "score": pytest.approx((1 + item["score"]) / 2, abs=1e-6),
            "text": body["texts"][item["index"]],
        }


# ---- what docs/agents.md says


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with listening(tmp_path_factory.mktemp("home"), Encoder.load(TRANSFORMER_ENCODER)) as url:
        yield url


def test_docs_have_examples() -> None:
    assert [path for path, _ in COMMANDS] == ["/mcp", "/v1/embeddings", "/embed", "/rerank"]
    assert len(PROGRAMS) == 2


@pytest.mark.parametrize(("path", "body"), COMMANDS)
def test_commands_in_the_docs_succeed(released: str, path: str, body: str) -> None:
    reply = httpx.post(f"{released}{path}", json=json.loads(body), **PATIENTLY)
    assert reply.status_code == 200, reply.text
    if path == "/mcp":
        assert "1. delivery" in reply.json()["result"]["content"][0]["text"]
    if path == "/rerank":
        assert [each["index"] for each in reply.json()] == [1, 0]


@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_in_the_docs_run(released: str, program: str) -> None:
    names: dict[str, Any] = {}
    exec(program.replace("http://127.0.0.1:8000", released), names)
    assert np.shape(names["vectors"]) == (1, 384)
    if "client" in names:
        names["client"].close()
