"""Embeddings and reranking in the formats of other servers.

`/v1/embeddings` and `/v1/models` follow OpenAI, `/embed` and `/rerank` follow
text-embeddings-inference (TEI). The server's own encoder answers all of them, but `/rerank` is
answered by a reranker if one is installed.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter, Response
from pydantic import BaseModel, BeforeValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from purlin.app.bodies import JsonRoute, operation_name
from purlin.app.encoding import BLOCK_TEXTS
from purlin.app.errors import MAX_QUOTED_CHARS
from purlin.app.fields import MAX_TEXT_CHARS, Query, Strict
from purlin.app.overload import raise_if_client_gone
from purlin.app.problems import MEDIA_TYPE, responses
from purlin.app.service import ServiceOf
from purlin.index.encoder import TextEncoder, Vectors
from purlin.index.errors import InvalidInput, NotFound
from purlin.index.records import Role
from purlin.index.reranker import Reranker, logistic

MAX_INPUTS = 2_048  # texts in one request, the same limit as OpenAI's
MODEL_HEADER = "Purlin-Model"  # names the model in a format that has no place for it

_router = APIRouter(generate_unique_id_function=operation_name)
_json_router = APIRouter(route_class=JsonRoute, generate_unique_id_function=operation_name)
protocols_routers = (_router, _json_router)


def _as_list(value: Any) -> Any:
    """Turn a single text into a list; refuse token ids, which are of another model."""
    if isinstance(value, list) and value and isinstance(value[0], int | list):
        raise PydanticCustomError(
            "tokens", "must be texts, not token ids: those of another model mean nothing here"
        )
    return [value] if isinstance(value, str) else value


_Text = Annotated[str, Field(min_length=1, max_length=MAX_TEXT_CHARS)]
_Texts = Annotated[list[_Text], Field(min_length=1, max_length=MAX_INPUTS)]
_OneOrMore = Annotated[_Texts, BeforeValidator(_as_list, json_schema_input_type=_Text | _Texts)]


# ---- OpenAI


class EmbeddingsRequest(Strict):
    """Texts to encode. Text beyond the encoder's limit is cut off."""

    input: _OneOrMore = Field(description="The texts, not token ids.")
    model: str = Field(max_length=200, description="The model of GET /v1/models.")
    encoding_format: Literal["float", "base64"] = Field(
        default="float", description="`base64` encodes little-endian float32."
    )
    dimensions: int | None = Field(default=None, description="Must be the encoder's own, if sent.")
    input_type: Role = Field(
        default="passage",
        description="Purlin's own: `query` for queries, `passage` for texts to be searched.",
    )
    user: str | None = Field(default=None, max_length=1_000, description="Ignored.")


class Embedding(BaseModel):
    """A unit vector: numbers, or base64 of float32, little-endian."""

    object: Literal["embedding"] = "embedding"
    index: int
    embedding: list[float] | str


class Usage(BaseModel):
    """Number of tokens that the encoder read."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingsReply(BaseModel):
    """One vector per text, in the order of the texts."""

    object: Literal["list"] = "list"
    data: list[Embedding]
    model: str
    usage: Usage


class Model(BaseModel):
    """The encoder.

    `created` is unknown; `dim`, `max_tokens` and `fingerprint` are not part of OpenAI's API.
    """

    id: str
    object: Literal["model"] = "model"
    created: int = 0
    owned_by: Literal["purlin"] = "purlin"
    dim: int
    max_tokens: int
    fingerprint: str


class ModelsReply(BaseModel):
    """The available models: always one."""

    object: Literal["list"] = "list"
    data: list[Model]


@_json_router.post(
    "/v1/embeddings",
    response_model=EmbeddingsReply,
    responses=responses(400, 404, 408, 413, 415, 422, 503),
)
def encode_as_openai(body: EmbeddingsRequest, service: ServiceOf) -> Response:
    """Encode texts, in OpenAI's format."""
    encoder = service.encoder
    if body.model != encoder.name:
        raise NotFound(
            f"There is no model {body.model[:MAX_QUOTED_CHARS]!r} here, only {encoder.name!r}.",
            field="model",
        )
    _check_dimensions(body.dimensions, encoder)

    token_counts = encoder.count_tokens(body.input, role=body.input_type)
    tokens_read = int(np.minimum(token_counts, encoder.max_tokens).sum())
    vectors = encoder.encode(body.input, role=body.input_type)
    embeddings = _base64(vectors) if body.encoding_format == "base64" else vectors.tolist()

    reply = EmbeddingsReply(
        data=[
            Embedding(index=index, embedding=embedding)
            for index, embedding in enumerate(embeddings)
        ],
        model=encoder.name,
        usage=Usage(prompt_tokens=tokens_read, total_tokens=tokens_read),
    )
    return Response(reply.model_dump_json(), media_type="application/json")


@_router.get("/v1/models", responses=responses())
def list_models(service: ServiceOf) -> ModelsReply:
    """Describe the encoder, in OpenAI's format."""
    encoder = service.encoder
    model = Model(
        id=encoder.name,
        dim=encoder.dim,
        max_tokens=encoder.max_tokens,
        fingerprint=encoder.fingerprint,
    )
    return ModelsReply(data=[model])


def _base64(vectors: Vectors) -> list[str]:
    return [base64.b64encode(vector.astype("<f4").tobytes()).decode() for vector in vectors]


def _check_dimensions(dimensions: int | None, encoder: TextEncoder) -> None:
    if dimensions not in (None, encoder.dim):
        raise InvalidInput(
            f"The vectors of this encoder have {encoder.dim} dimensions: omit `dimensions`.",
            field="dimensions",
        )


# ---- text-embeddings-inference


class _Truncating(Strict):
    """The keys of TEI that say what to do with texts that are too long."""

    truncate: bool = Field(
        default=False, description="Cut texts that are too long, instead of refusing them."
    )
    # Described as one value: of two that differ in case alone, generators of clients make one name.
    truncation_direction: Annotated[
        Literal["right", "Right"], WithJsonSchema({"const": "right", "type": "string"})
    ] = Field(default="right", description='Texts are cut at their end. "Right" is the same.')

    def check_lengths(
        self, texts: Sequence[str], role: Role, field: str, encoder: TextEncoder
    ) -> None:
        """Raise InvalidInput for the first text that is too long, unless `truncate` is true."""
        if self.truncate:
            return

        counts = encoder.count_tokens(texts, role=role).tolist()
        _refuse_long(counts, encoder.max_tokens, field, "{} has {} tokens; this encoder reads {}")


def _refuse_long(counts: Sequence[int], limit: int, field: str, rule: str) -> None:
    """Raise InvalidInput, by a `rule`, for the first text of a field that has too many tokens."""
    for index, count in enumerate(counts):
        if count > limit:
            name = f"{field}[{index}]"
            remedy = "shorten it, or set `truncate` to true."
            raise InvalidInput(f"{rule.format(name, count, limit)}: {remedy}", field=name)


class EmbedRequest(_Truncating):
    """Texts to encode."""

    inputs: _OneOrMore = Field(description="The texts.")
    normalize: bool = Field(
        default=True, description="Vectors always have unit length: only true is accepted."
    )
    prompt_name: Role = Field(
        default="passage",
        description="`query` for queries, `passage` for texts to be searched.",
    )
    dimensions: int | None = Field(default=None, description="Must be the encoder's own, if sent.")


class RerankRequest(_Truncating):
    """A query, and texts to sort by their relevance to it."""

    query: Query = Field(description="The query that the texts are compared with.")
    texts: _Texts = Field(description="The texts, in any order.")
    return_text: bool = Field(default=False, description="Adds the text to each result.")
    raw_scores: bool = Field(
        default=False,
        description="The model's own number instead of one in 0-1: a reranker's logit, or a cosine.",
    )


class Ranked(BaseModel):
    """One of the texts, by its index in the request; `text` is present if `return_text` is true."""

    index: int
    score: float
    text: str | None = None


@_json_router.post(
    "/embed", response_model=list[list[float]], responses=responses(400, 408, 413, 415, 422, 503)
)
def encode_as_tei(body: EmbedRequest, service: ServiceOf) -> Response:
    """Encode texts, in the format of text-embeddings-inference."""
    encoder = service.encoder
    if not body.normalize:
        raise InvalidInput(
            "The vectors of this encoder always have unit length: omit `normalize`.",
            field="normalize",
        )
    _check_dimensions(body.dimensions, encoder)
    body.check_lengths(body.inputs, body.prompt_name, "inputs", encoder)

    vectors = encoder.encode(body.inputs, role=body.prompt_name)
    return Response(json.dumps(vectors.tolist()), media_type="application/json")


@_json_router.post(
    "/rerank",
    response_model=list[Ranked],
    response_model_exclude_none=True,
    responses=responses(400, 408, 413, 415, 422, 503),
)
def rerank(body: RerankRequest, service: ServiceOf, response: Response) -> list[Ranked]:
    """Sort texts by their relevance to a query, in the format of text-embeddings-inference.

    A reranker scores them if one is installed, else the cosine with the query does. The header
    `Purlin-Model` names the model.
    """
    reranker = service.rerankers.installed()
    if reranker is None:
        response.headers[MODEL_HEADER] = service.encoder.name
        raw, scaled = _cosines(body, service.encoder)
    else:
        response.headers[MODEL_HEADER] = reranker.name
        raw, scaled = _relevance(body, reranker)
    scores = raw if body.raw_scores else scaled

    return [
        Ranked(
            index=index,
            score=float(scores[index]),
            text=body.texts[index] if body.return_text else None,
        )
        for index in np.argsort(-raw, kind="stable").tolist()
    ]


def _cosines(body: RerankRequest, encoder: TextEncoder) -> tuple[Vectors, Vectors]:
    """Return the cosines (n,) of the texts with the query, and the same in 0-1."""
    body.check_lengths([body.query], "query", "query", encoder)
    body.check_lengths(body.texts, "passage", "texts", encoder)

    query_vector = encoder.encode([body.query], role="query")[0]
    cosines = np.clip(encoder.encode(body.texts, role="passage") @ query_vector, -1, 1)
    return cosines, (1 + cosines) / 2


def _relevance(body: RerankRequest, reranker: Reranker) -> tuple[Vectors, Vectors]:
    """Return the reranker's logits (n,) of the texts, and the same in 0-1."""
    counts = [] if body.truncate else reranker.count_tokens(body.query, body.texts)
    rule = "{} and the query have {} tokens; this reranker reads {}"
    _refuse_long(counts, reranker.settings.max_tokens, "texts", rule)

    parts = []
    for start in range(0, len(body.texts), BLOCK_TEXTS):
        # Nobody waits for the rest once the client has closed the connection.
        raise_if_client_gone()
        parts.append(reranker.logits(body.query, body.texts[start : start + BLOCK_TEXTS]))
    logits = np.concatenate(parts)
    return logits, logistic(logits)


# ---- errors


class ProtocolErrors:
    """Middleware that adds the fields that clients of these protocols expect in an error to problems."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI entry point."""
        error_format = _error_format(scope["path"]) if scope["type"] == "http" else None
        if error_format is None:
            await self._app(scope, receive, send)
            return

        # The start of a problem is held back until the length of the extended body is known.
        start: Message | None = None

        async def send_extended(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start" and _is_problem(message):
                start = message
                return

            if start is not None:
                # The whole body of a problem comes in one message.
                problem = json.loads(message["body"])
                body = json.dumps({**problem, **error_format(problem)}).encode()
                message = {**message, "body": body}
                MutableHeaders(raw=start["headers"])["content-length"] = str(len(body))
                await send(start)
                start = None
            await send(message)

        await self._app(scope, receive, send_extended)


def _is_problem(start: Message) -> bool:
    return Headers(raw=start["headers"]).get("content-type") == MEDIA_TYPE


def _error_format(path: str) -> Callable[[Mapping[str, Any]], dict[str, Any]] | None:
    if path.startswith("/v1/"):
        return _openai_error
    return _tei_error if path in ("/embed", "/rerank") else None


def _openai_error(problem: Mapping[str, Any]) -> dict[str, Any]:
    error_type = "server_error" if problem["status"] >= 500 else "invalid_request_error"
    field = next((error["field"] for error in problem.get("errors", [])), None)
    code = problem["type"].removeprefix("urn:purlin:problem:").removeprefix("about:blank") or None

    return {
        "error": {"message": problem["detail"], "type": error_type, "param": field, "code": code}
    }


def _tei_error(problem: Mapping[str, Any]) -> dict[str, Any]:
    error_types = {429: "Overloaded", 500: "Backend", 503: "Overloaded"}
    error_type = error_types.get(problem["status"], "Validation")
    return {"error": problem["detail"], "error_type": error_type}
