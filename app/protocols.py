"""Vectors and reranking in the shapes of others: OpenAI's `/v1/embeddings`, text-embeddings-inference's `/embed` and
`/rerank`. All are answered by the server's encoder.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter, Depends, Response
from pydantic import BaseModel, BeforeValidator, Field
from pydantic_core import PydanticCustomError
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.problems import MEDIA_TYPE, responses
from app.routes import json_only
from app.schemas import MAX_TEXT_CHARS, Strict
from app.service import Service, ServiceOf
from index.encoder import Role, TextEncoder, Vectors
from index.errors import InvalidInput, NotFound
from index.search.corpus import MAX_QUERY_CHARS

MAX_INPUTS = 2_048  # of one request, as OpenAI has it
_SHOWN = 60  # characters of what the client sent
_Problem = dict[str, Any]

router = APIRouter()
posting = APIRouter(dependencies=[Depends(json_only)])


def _listed(given: Any) -> Any:
    """One text is a list of one; token ids are refused by name."""
    if isinstance(given, list) and given and isinstance(given[0], int | list):
        raise PydanticCustomError(
            "tokens", "must be texts, no token ids, which are another model's"
        )
    return [given] if isinstance(given, str) else given


_Text = Annotated[str, Field(min_length=1, max_length=MAX_TEXT_CHARS)]
_Texts = Annotated[list[_Text], Field(min_length=1, max_length=MAX_INPUTS)]
_OneOrMore = Annotated[_Texts, BeforeValidator(_listed, json_schema_input_type=_Text | _Texts)]


# ---- OpenAI


class EmbeddingsRequest(Strict):
    """Texts to encode. What is longer than the encoder reads is cut off."""

    input: _OneOrMore = Field(description="The texts; no token ids.")
    model: str = Field(max_length=200, description="The one of GET /v1/models.")
    encoding_format: Literal["float", "base64"] = Field(
        default="float", description="base64 is of float32."
    )
    dimensions: int | None = Field(default=None, description="The encoder's own, if given.")
    input_type: Role = Field(
        default="passage",
        description="Not OpenAI's: `query` for what is searched with, `passage` for what is searched.",
    )
    user: str | None = Field(default=None, max_length=1_000, description="Not used.")


class Embedding(BaseModel):
    """A unit vector: numbers, or base64 of float32, little-endian."""

    object: Literal["embedding"] = "embedding"
    index: int
    embedding: list[float] | str


class Usage(BaseModel):
    """Tokens that were read, by the encoder's tokenizer."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingsReply(BaseModel):
    """One vector per text, in their order."""

    object: Literal["list"] = "list"
    data: list[Embedding]
    model: str
    usage: Usage


class Model(BaseModel):
    """The encoder. `created` is not known; `dim`, `max_tokens` and `fingerprint` are not OpenAI's."""

    id: str
    object: Literal["model"] = "model"
    created: int = 0
    owned_by: Literal["purlin"] = "purlin"
    dim: int
    max_tokens: int
    fingerprint: str


class ModelsReply(BaseModel):
    """The models there are: one."""

    object: Literal["list"] = "list"
    data: list[Model]


@posting.post(
    "/v1/embeddings",
    response_model=EmbeddingsReply,
    responses=responses(400, 404, 408, 413, 415, 422, 503),
)
def encode_as_openai(asked: EmbeddingsRequest, service: ServiceOf) -> Response:
    """Vectors of texts, in OpenAI's shape."""
    encoder = service.encoder
    if asked.model != encoder.name:
        raise NotFound(
            f"There is no model {asked.model[:_SHOWN]!r} here, only {encoder.name!r}.",
            field="model",
        )
    _check_dimensions(asked.dimensions, encoder)
    counts = encoder.count_tokens(asked.input, role=asked.input_type)
    vectors = encoder.encode(asked.input, role=asked.input_type)
    coded = _base64(vectors) if asked.encoding_format == "base64" else vectors.tolist()
    read = int(np.minimum(counts, encoder.max_tokens).sum())
    reply = EmbeddingsReply(
        data=[Embedding(index=index, embedding=vector) for index, vector in enumerate(coded)],
        model=encoder.name,
        usage=Usage(prompt_tokens=read, total_tokens=read),
    )
    return Response(reply.model_dump_json(), media_type="application/json")


@router.get("/v1/models", responses=responses())
def list_models(service: ServiceOf) -> ModelsReply:
    """The encoder, in OpenAI's shape."""
    encoder = service.encoder
    about = Model(
        id=encoder.name,
        dim=encoder.dim,
        max_tokens=encoder.max_tokens,
        fingerprint=encoder.fingerprint,
    )
    return ModelsReply(data=[about])


def _base64(vectors: Vectors) -> list[str]:
    return [base64.b64encode(vector.astype("<f4").tobytes()).decode() for vector in vectors]


def _check_dimensions(dimensions: int | None, encoder: TextEncoder) -> None:
    if dimensions not in (None, encoder.dim):
        raise InvalidInput(
            f"This encoder's vectors have {encoder.dim} dimensions: leave it out.",
            field="dimensions",
        )


# ---- text-embeddings-inference


class _Truncating(Strict):
    truncate: bool = Field(
        default=False, description="Cut texts that are too long, instead of refusing them."
    )
    truncation_direction: Literal["right", "Right"] = Field(
        default="right", description="Texts are cut at their end."
    )

    def check(self, texts: Sequence[str], role: Role, field: str, encoder: TextEncoder) -> None:
        """Refuse the first text that is too long."""
        if self.truncate:
            return
        counts = encoder.count_tokens(texts, role=role)
        if counts.max(initial=0) > encoder.max_tokens:
            at = int((counts > encoder.max_tokens).argmax())
            raise InvalidInput(
                f"{field}[{at}] has {counts[at]} tokens; this encoder reads {encoder.max_tokens}: shorten it, or set "
                "`truncate` to true.",
                field=f"{field}[{at}]",
            )


class EmbedRequest(_Truncating):
    """Texts to encode."""

    inputs: _OneOrMore = Field(description="The texts.")
    normalize: bool = Field(
        default=True, description="Vectors are always of unit length: only true is accepted."
    )
    prompt_name: Role = Field(
        default="passage",
        description="`query` for what is searched with, `passage` for what is searched.",
    )
    dimensions: int | None = Field(default=None, description="The encoder's own, if given.")


class RerankRequest(_Truncating):
    """A query, and texts to order by how well they fit it."""

    query: str = Field(
        min_length=1, max_length=MAX_QUERY_CHARS, description="What the texts are to fit."
    )
    texts: _Texts = Field(description="The texts, in any order.")
    return_text: bool = Field(default=False, description="Adds its text to each result.")
    raw_scores: bool = Field(
        default=False, description="The cosine itself (-1 to 1) instead of (1 + cosine) / 2."
    )


class Ranked(BaseModel):
    """One of the texts, by its place in the request; `text` is there where it was asked for."""

    index: int
    score: float
    text: str | None = None


@posting.post(
    "/embed", response_model=list[list[float]], responses=responses(400, 408, 413, 415, 422, 503)
)
def encode_as_tei(asked: EmbedRequest, service: ServiceOf) -> Response:
    """Vectors of texts, in text-embeddings-inference's shape."""
    if not asked.normalize:
        raise InvalidInput(
            "This encoder's vectors are of unit length: leave `normalize` out.", field="normalize"
        )
    _check_dimensions(asked.dimensions, service.encoder)
    asked.check(asked.inputs, asked.prompt_name, "inputs", service.encoder)
    vectors = service.encoder.encode(asked.inputs, role=asked.prompt_name)
    return Response(json.dumps(vectors.tolist()), media_type="application/json")


@posting.post(
    "/rerank",
    response_model=list[Ranked],
    response_model_exclude_none=True,
    responses=responses(400, 408, 413, 415, 422, 503),
)
def rerank(asked: RerankRequest, service: ServiceOf) -> list[Ranked]:
    """Texts by the cosine of their vectors with the query's, best first, in text-embeddings-inference's shape."""
    asked.check([asked.query], "query", "query", service.encoder)
    asked.check(asked.texts, "passage", "texts", service.encoder)
    cosines = _cosines(asked, service)
    scores = cosines if asked.raw_scores else (1 + cosines) / 2
    return [
        Ranked(
            index=at, score=float(scores[at]), text=asked.texts[at] if asked.return_text else None
        )
        for at in np.argsort(-cosines, kind="stable").tolist()
    ]


def _cosines(asked: RerankRequest, service: Service) -> Vectors:
    query = service.encoder.encode([asked.query], role="query")[0]
    cosines: Vectors = service.encoder.encode(asked.texts, role="passage") @ query
    return np.clip(cosines, -1, 1)


router.include_router(posting)


# ---- errors


class OwnErrors:
    """Adds to a problem, on the paths above, what the clients of these protocols show of an error."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI entry point."""
        shape = _shape(scope["path"]) if scope["type"] == "http" else None
        if shape is None:
            await self._app(scope, receive, send)
            return
        held: Message | None = None

        async def shaped(message: Message) -> None:
            nonlocal held
            if message["type"] == "http.response.start" and Headers(raw=message["headers"]).get(
                "content-type"
            ) == (MEDIA_TYPE):
                held = message
                return
            if held is not None:  # a problem's body is one message
                problem = json.loads(message["body"])
                message = {**message, "body": json.dumps({**problem, **shape(problem)}).encode()}
                MutableHeaders(raw=held["headers"])["content-length"] = str(len(message["body"]))
                await send(held)
                held = None
            await send(message)

        await self._app(scope, receive, shaped)


def _shape(path: str) -> Any:
    if path.startswith("/v1/"):
        return _openai_error
    return _tei_error if path in ("/embed", "/rerank") else None


def _openai_error(problem: Mapping[str, Any]) -> _Problem:
    kind = "server_error" if problem["status"] >= 500 else "invalid_request_error"
    field = next((error["field"] for error in problem.get("errors", [])), None)
    code = problem["type"].removeprefix("urn:purlin:problem:").removeprefix("about:blank") or None
    return {"error": {"message": problem["detail"], "type": kind, "param": field, "code": code}}


def _tei_error(problem: Mapping[str, Any]) -> _Problem:
    kinds = {429: "Overloaded", 500: "Backend", 503: "Overloaded"}
    return {"error": problem["detail"], "error_type": kinds.get(problem["status"], "Validation")}
