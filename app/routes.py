"""One function per route: request -> call -> reply. Errors are raised here and answered in `problems`."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from fastapi import APIRouter, Depends, HTTPException, Request, Response
from pydantic import BaseModel

from app.open_builds import Status, T
from app.problems import Opening, responses
from app.schemas import (
    ActivateRequest,
    ActiveReply,
    ClassifierReply,
    ClassifiersReply,
    ClassifierStatus,
    ClassifyReply,
    ClassifyRequest,
    CorporaReply,
    CorpusReply,
    CorpusStatus,
    DeletedReply,
    DocumentReply,
    QaReply,
    QaRequest,
    SearchReply,
    SearchRequest,
    State,
    warnings,
)
from app.service import Service, ServiceOf
from index import builds
from index.classify.trained import TrainedClassifier
from index.qa.ask import ask
from index.search.corpus import Corpus


async def json_only(request: Request) -> None:
    """Refuse a body of another media type."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        given = f"it is {media_type[:60]!r}" if media_type else "there is none"
        raise HTTPException(415, f"The Content-Type must be application/json; {given}.")


router = APIRouter()
posting = APIRouter(dependencies=[Depends(json_only)])


@posting.post(
    "/search", response_model=SearchReply, responses=responses(400, 404, 408, 413, 415, 422, 503)
)
def search(asked: SearchRequest, service: ServiceOf) -> Response:
    """Search a corpus."""
    return _json(searched(asked, service), exclude_none=True)


def searched(asked: SearchRequest, service: Service) -> SearchReply:
    """What `/search` replies."""
    started = time.perf_counter()
    asked.check()
    with service.corpora.lease(asked.corpus) as corpus:
        found = corpus.search(
            asked.query,
            k=asked.k,
            offset=asked.offset,
            mode=asked.mode,
            filter=asked.filter,
            explain=asked.explain,
        )
        service.metrics.stages(found.timings_ms)
        return SearchReply(
            hits=found.hits,
            total=found.total,
            took_ms=_ms_since(started),
            corpus=corpus.name,
            build=corpus.build,
            encoder=service.encoder.name,
            timings_ms=found.timings_ms if asked.explain else None,
        )


@posting.post("/qa", response_model=QaReply, responses=responses(400, 404, 408, 413, 415, 422, 503))
def qa(asked: QaRequest, service: ServiceOf) -> Response:
    """Answer a question in a reference's exact words."""
    return _json(answered(asked, service), exclude_none=True)


def answered(asked: QaRequest, service: Service) -> QaReply:
    """What `/qa` replies."""
    started = time.perf_counter()
    with service.corpora.lease(asked.corpus) as corpus:
        reader = service.reader()
        found = ask(corpus, reader, asked.question, k=asked.k)
        service.metrics.stages(found.timings_ms)
        return QaReply(
            answers=found.answers,
            answerable=found.answerable,
            hits=found.hits,
            took_ms=_ms_since(started),
            corpus=corpus.name,
            build=corpus.build,
            encoder=service.encoder.name,
            reader=reader.name,
            read=found.read if asked.explain else None,
            timings_ms=found.timings_ms if asked.explain else None,
        )


@posting.post(
    "/classify",
    response_model=ClassifyReply,
    responses=responses(400, 404, 408, 413, 415, 422, 503),
)
def classify(asked: ClassifyRequest, service: ServiceOf) -> Response:
    """Choose for each text among labels that need no training, or those of a trained classifier."""
    reply = classified(asked, service)
    return _json(
        reply,
        exclude={
            name for name in ("classifier", "build", "warnings") if getattr(reply, name) is None
        },
    )


def classified(asked: ClassifyRequest, service: Service) -> ClassifyReply:
    """What `/classify` replies."""
    started = time.perf_counter()
    asked.check()
    reply = (
        _by_classifier(asked, service)
        if asked.labels is None
        else _by_labels(asked, asked.labels, service)
    )
    reply.took_ms = _ms_since(started)
    return reply


def _by_labels(asked: ClassifyRequest, labels: list[str], service: Service) -> ClassifyReply:
    ranked = asked.ranked(labels)
    results = service.classifier.classify(
        asked.texts,
        labels,
        templates=asked.templates,
        multi_label=asked.multi_label,
        min_score=asked.min_score,
        ranked=ranked,
    )
    chosen = service.classifier.label_set(labels, asked.templates)
    return ClassifyReply(
        results=results, took_ms=0, encoder=service.encoder.name, warnings=warnings(chosen, ranked)
    )


def _by_classifier(asked: ClassifyRequest, service: Service) -> ClassifyReply:
    with service.classifiers.lease(str(asked.classifier)) as classifier:
        ranked = asked.ranked(classifier.spec.labels)
        return ClassifyReply(
            results=classifier.classify(asked.texts, min_score=asked.min_score, ranked=ranked),
            took_ms=0,
            encoder=classifier.encoder.name,
            classifier=classifier.name,
            build=classifier.build,
            warnings=warnings(classifier.label_set, ranked),
        )


@router.get("/classifiers", response_model_exclude_none=True, responses=responses())
def list_classifiers(service: ServiceOf) -> ClassifiersReply:
    """Which trained classifiers there are, and whether they can be used."""
    statuses = service.classifiers.statuses()
    return ClassifiersReply(
        classifiers=[
            ClassifierStatus.model_validate(_described(status, _classifier)) for status in statuses
        ]
    )


@router.get("/classifiers/{name}", response_model_exclude_none=True, responses=responses(404, 422))
def show_classifier(name: str, service: ServiceOf) -> ClassifierReply:
    """One trained classifier: its labels, its encoder, and how well it was measured to do."""
    return ClassifierReply.model_validate(_described(service.classifiers.status(name), _classifier))


@router.get("/corpora", response_model_exclude_none=True, responses=responses())
def list_corpora(service: ServiceOf) -> CorporaReply:
    """Which corpora there are, and whether they can be searched."""
    statuses = service.corpora.statuses()
    return CorporaReply(
        corpora=[CorpusStatus.model_validate(_described(status, _corpus)) for status in statuses]
    )


@router.get("/corpora/{name}", response_model_exclude_none=True, responses=responses(404, 422))
def show_corpus(name: str, request: Request, service: ServiceOf) -> CorpusReply:
    """One corpus: what it was built from, when, how well it was measured to do, and whether its sources have moved on.

    Where the sources are on the server's disk is told to an admin key; others see the last parts of their names.
    """
    status = service.corpora.status(name)
    found = _described(status, _corpus)
    if status.build is not None:
        found["stale"] = service.freshness.of(name, status.build)
    reply = CorpusReply.model_validate(found, from_attributes=True)
    if reply.sources is not None and "admin" not in getattr(request.state, "scopes", ()):
        reply.sources = tuple(map(_without_place, reply.sources))
    return reply


def _without_place(source: str) -> str:
    """The last part of a path; of words that hold one, the words with its last part."""
    return (
        Path(source).name
        if Path(source).is_absolute()
        else re.sub(r"(?<!\S)/(?:[^\s/]+/)*", "", source)
    )


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


@posting.post(
    "/corpora/{name}/activate", responses=responses(400, 404, 408, 409, 413, 415, 422, 503)
)
def activate(name: str, asked: ActivateRequest, service: ServiceOf) -> ActiveReply:
    """Let another finished build of a corpus serve, after comparing its files with their checksums.

    One that was refused when it was made, as it answered judged queries worse, takes `force`.
    """
    builds.activate(service.home, name, asked.build, force=asked.force)
    return ActiveReply(corpus=name, build=asked.build)


@router.post("/corpora/{name}/rollback", responses=responses(404, 409, 422, 503))
def roll_back(name: str, service: ServiceOf) -> ActiveReply:
    """Let the build before the active one serve again."""
    return ActiveReply(corpus=name, build=builds.roll_back(service.home, name))


@router.delete("/corpora/{name}", responses=responses(404, 409, 422, 503))
def delete_corpus(name: str, service: ServiceOf) -> DeletedReply:
    """Delete a corpus with all its builds."""
    builds.delete(service.home, name)
    return DeletedReply(corpus=name)


@router.get("/livez", responses=responses())
async def live() -> State:
    """Whether the server runs."""
    return State()


@router.get("/readyz", responses=responses(503))
async def ready(service: ServiceOf) -> State:
    """Whether all corpora and classifiers that were there at the start are open, or refused."""
    if not service.ready():
        raise Opening("Corpora or classifiers are still being opened.")
    return State()


router.include_router(posting)


def _described(status: Status[T], details: Callable[[T], dict[str, object]]) -> dict[str, object]:
    """A status and `details` of the build that serves; the replies take from it what they have a name for."""
    about: dict[str, object] = {
        "name": status.name,
        "state": status.state,
        "problem": status.problem,
    }
    return (
        about if status.opened is None else details(status.opened) | about | {"build": status.build}
    )


def _corpus(opened: Corpus) -> dict[str, object]:
    manifest = opened.manifest
    size = sum(file["bytes"] for file in manifest.files.values())
    check = {"drift": opened.drift, "warning": opened.warning}
    return asdict(manifest) | {"bytes": size, "judged": manifest.judged or None} | check


def _classifier(opened: TrainedClassifier) -> dict[str, object]:
    spec, encoder = opened.spec, opened.encoder
    return {
        "labels": spec.labels,
        "created_at": spec.created,
        "encoder": {"name": encoder.name, "fingerprint": encoder.fingerprint, "dim": encoder.dim},
        "bytes": opened.bytes,
        "measures": spec.measures,
    }


def _json(
    reply: BaseModel, *, exclude_none: bool = False, exclude: set[str] | None = None
) -> Response:
    """Serialized here, in the route's thread: a long reply does not hold up the event loop."""
    return Response(
        reply.model_dump_json(exclude_none=exclude_none, exclude=exclude),
        media_type="application/json",
    )


def _ms_since(started: float) -> float:
    return round((time.perf_counter() - started) * 1000, 3)
