"""One function per route: request -> call -> reply. Errors are raised here and answered in `problems`."""

from __future__ import annotations

import time
from dataclasses import asdict

from fastapi import APIRouter, Depends, HTTPException, Request, Response
from pydantic import BaseModel

from app.corpora import Status
from app.problems import Opening, responses
from app.schemas import (
    ClassifyReply,
    ClassifyRequest,
    CorporaReply,
    CorpusReply,
    CorpusStatus,
    DocumentReply,
    SearchReply,
    SearchRequest,
    State,
)
from app.service import ServiceOf


async def _json_only(request: Request) -> None:
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        given = f"it is {media_type[:60]!r}" if media_type else "there is none"
        raise HTTPException(415, f"The Content-Type must be application/json; {given}.")


router = APIRouter()
posting = APIRouter(dependencies=[Depends(_json_only)])


@posting.post("/search", response_model=SearchReply, responses=responses(400, 404, 408, 413, 415, 422, 503))
def search(asked: SearchRequest, service: ServiceOf) -> Response:
    """Search a corpus."""
    started = time.perf_counter()
    asked.check()
    with service.corpora.lease(asked.corpus) as corpus:
        found = corpus.search(
            asked.query, k=asked.k, offset=asked.offset, mode=asked.mode, filter=asked.filter, explain=asked.explain
        )
        reply = SearchReply(
            hits=found.hits,
            total=found.total,
            took_ms=_ms_since(started),
            corpus=corpus.name,
            build=corpus.build,
            encoder=service.encoder.name,
            timings_ms=found.timings_ms if asked.explain else None,
        )
    return _json(reply, exclude_none=True)


@posting.post("/classify", response_model=ClassifyReply, responses=responses(400, 404, 408, 413, 415, 422))
def classify(asked: ClassifyRequest, service: ServiceOf) -> Response:
    """Choose for each text among labels that need no training."""
    started = time.perf_counter()
    results = service.classifier.classify(
        asked.texts,
        asked.chosen_labels(),
        templates=asked.templates,
        multi_label=asked.multi_label,
        min_score=asked.min_score,
    )
    return _json(ClassifyReply(results=results, took_ms=_ms_since(started), encoder=service.encoder.name))


@router.get("/corpora", response_model_exclude_none=True, responses=responses())
def list_corpora(service: ServiceOf) -> CorporaReply:
    """Which corpora there are, and whether they can be searched."""
    statuses = service.corpora.statuses()
    return CorporaReply(corpora=[CorpusStatus.model_validate(_described(status)) for status in statuses])


@router.get("/corpora/{name}", response_model_exclude_none=True, responses=responses(404, 422))
def show_corpus(name: str, service: ServiceOf) -> CorpusReply:
    """One corpus: what it was built from, when, and how well it was measured to do."""
    return CorpusReply.model_validate(_described(service.corpora.status(name)))


@router.get(
    "/corpora/{name}/documents/{document_id:path}",
    response_model_exclude_none=True,
    responses=responses(404, 422, 503),
)
def show_document(name: str, document_id: str, service: ServiceOf) -> DocumentReply:
    """A whole document, by the `document_id` of a hit (percent-encoded: it may hold `#`, `?` and spaces)."""
    started = time.perf_counter()
    with service.corpora.lease(name) as corpus:
        found = corpus.document(document_id)
        return DocumentReply(
            id=found.id,
            kind=found.kind,
            title=found.title,
            summary=found.summary,
            body=found.body,
            context=found.context,
            location=found.location,
            fields=found.fields,
            corpus=corpus.name,
            build=corpus.build,
            took_ms=_ms_since(started),
        )


@router.get("/livez", responses=responses())
async def live() -> State:
    """Whether the server runs."""
    return State()


@router.get("/readyz", responses=responses(503))
async def ready(service: ServiceOf) -> State:
    """Whether all corpora that were there at the start are open, or refused."""
    if not service.corpora.ready():
        raise Opening("The corpora are still being opened.")
    return State()


@router.get("/", include_in_schema=False)
async def home() -> dict[str, str]:
    """Where to go from here."""
    return {"name": "Purlin", "docs": "/docs", "openapi": "/openapi.json", "corpora": "/corpora"}


router.include_router(posting)


def _described(status: Status) -> dict[str, object]:
    """A status and the manifest of the build that serves, flat; the replies take from it what they have a name for."""
    about: dict[str, object] = {"name": status.name, "state": status.state, "problem": status.problem}
    if status.manifest is None:
        return about
    size = sum(file["bytes"] for file in status.manifest.files.values())
    return asdict(status.manifest) | about | {"build": status.build, "bytes": size}


def _json(reply: BaseModel, *, exclude_none: bool = False) -> Response:
    """Serialized here, in the route's thread: a long reply does not hold up the event loop."""
    return Response(reply.model_dump_json(exclude_none=exclude_none), media_type="application/json")


def _ms_since(started: float) -> float:
    return round((time.perf_counter() - started) * 1000, 3)
