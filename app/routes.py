"""One function per route: request -> call -> reply.

Errors are raised here; `purlin.app.problems` answers them.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import TypeAdapter

from purlin.app.bodies import JsonRoute, operation_name
from purlin.app.corpora.building import News
from purlin.app.corpora.open_builds import Status
from purlin.app.errors import Opening
from purlin.app.problems import responses
from purlin.app.schemas import (
    ActivateClassifierRequest,
    ActivateRequest,
    ClassifyRequest,
    CorporaOfKind,
    QaRequest,
    SearchRequest,
)
from purlin.app.service import Service, ServiceOf
from purlin.index import builds
from purlin.index.builds.catalogs import CLASSIFIERS
from purlin.index.classify.labels import LabelSet
from purlin.index.classify.scores import RANKED
from purlin.index.classify.text_warnings import text_warnings
from purlin.index.classify.trained import TrainedClassifier, activate_classifier
from purlin.index.classify.zero_shot import NamedLabels
from purlin.index.encoder import TextEncoder
from purlin.index.engines import hosting
from purlin.index.file_filters import with_language_names
from purlin.index.qa.ask import answer_question
from purlin.index.search.contracts import PassageReranker
from purlin.index.search.corpus import Corpus, SearchResult
from purlin.index.search.grouping import Search, can_group, search_grouped, without_variants
from purlin.index.search.several import search_corpora
from purlin.replies import (
    ActiveClassifierReply,
    ActiveReply,
    ClassifierReply,
    ClassifiersReply,
    ClassifierStatus,
    ClassifyReply,
    CorporaReply,
    CorpusReply,
    CorpusStatus,
    DeletedClassifierReply,
    DeletedReply,
    DocumentReply,
    ProbeReply,
    QaReply,
    ReadyReply,
    SearchReply,
)

_SEARCH_REPLY = TypeAdapter(SearchReply)
_QA_REPLY = TypeAdapter(QaReply)
_CLASSIFY_REPLY = TypeAdapter(ClassifyReply)
_CORPUS_STATUS = TypeAdapter(CorpusStatus)
_CORPUS_REPLY = TypeAdapter(CorpusReply)
_CLASSIFIER_STATUS = TypeAdapter(ClassifierStatus)
_CLASSIFIER_REPLY = TypeAdapter(ClassifierReply)


_json_router = APIRouter(route_class=JsonRoute, generate_unique_id_function=operation_name)
_router = APIRouter(generate_unique_id_function=operation_name)


# ---- search, questions, classification


@_json_router.post(
    "/search",
    name="search",
    response_model=SearchReply,
    responses=responses(400, 404, 408, 413, 415, 422, 503),
)
def post_search(body: SearchRequest, service: ServiceOf) -> Response:
    """Search a corpus, or several at once."""
    reply = search_reply(body, service)
    return _json_response(_SEARCH_REPLY.dump_json(reply, exclude_none=True))


def search_reply(request: SearchRequest, service: Service) -> SearchReply:
    """Answer a search request."""
    started = time.perf_counter()
    names, left_out = _names(request.corpus, service)

    with ExitStack() as leases:
        # A name that is given twice counts once.
        corpora = [leases.enter_context(service.lease(name)) for name in dict.fromkeys(names)]
        rerankers = [
            service.rerankers.choose(each.manifest.kind, request.rerank) for each in corpora
        ]
        with service.turn(*corpora):
            results = _page(_search(request, corpora, rerankers), request, corpora)
        service.metrics.stages(results.timings_ms)

        hits = results.hits
        for corpus in corpora:
            hits = service.freshness.marked(corpus, hits)
        return SearchReply(
            hits=hits,
            total=results.total,
            took_ms=_ms_since(started),
            corpora=results.corpora or None,
            warning=" ".join(filter(None, [left_out, results.warning])) or None,
            corrected=results.corrected,
            related=results.related,
            timings_ms=results.timings_ms if request.explain else None,
            **({} if results.corpora else _origin(corpora[0], rerankers[0])),
        )


def _names(
    chosen: str | list[str] | CorporaOfKind, service: Service
) -> tuple[Sequence[str], str | None]:
    """Return the corpora that a request chooses, and a sentence on those that cannot be searched now."""
    if isinstance(chosen, CorporaOfKind):
        return service.corpora.of_kind(chosen.kind)
    return ([chosen] if isinstance(chosen, str) else chosen), None


def _search(
    request: SearchRequest,
    corpora: Sequence[Corpus],
    rerankers: Sequence[PassageReranker | None],
) -> Search:
    """The search of a request, of one corpus by its name or of several, whose hits name theirs."""
    search: Callable[..., SearchResult]
    if isinstance(request.corpus, str):
        search = partial(corpora[0].search, reranker=rerankers[0])
    else:
        search = partial(search_corpora, corpora, rerankers=rerankers)

    filter = with_language_names(request.filter)
    return partial(search, request.query, mode=request.mode, filter=filter, explain=request.explain)


def _origin(corpus: Corpus, reranker: PassageReranker | None) -> dict[str, str | None]:
    """The fields of a reply that tell what all of its hits are of."""
    return {
        "corpus": corpus.name,
        "build": corpus.build,
        "encoder": corpus.encoder.name,
        "reranker": reranker.name if reranker else None,
    }


def _page(search: Search, request: SearchRequest, corpora: Sequence[Corpus]) -> SearchResult:
    """The page that a request asks for, of hits or of groups of them."""
    if request.group_by is None:
        return search(k=request.k, offset=request.offset)
    if not can_group(request.group_by, corpora):
        return without_variants(search(k=request.k, offset=request.offset))
    return search_grouped(search, request.group_by, k=request.k, offset=request.offset)


@_json_router.post(
    "/qa",
    name="qa",
    response_model=QaReply,
    responses=responses(400, 404, 408, 413, 415, 422, 503),
)
def post_qa(body: QaRequest, service: ServiceOf) -> Response:
    """Answer a question in the exact words of a reference."""
    reply = qa_reply(body, service)
    return _json_response(_QA_REPLY.dump_json(reply, exclude_none=True))


def qa_reply(request: QaRequest, service: Service) -> QaReply:
    """Answer a question request."""
    started = time.perf_counter()

    with service.lease(request.corpus) as corpus:
        reply = corpus_answers(corpus, request, service)
        hits = service.freshness.marked(corpus, reply.hits)
        return replace(reply, hits=hits, took_ms=_ms_since(started))


def corpus_answers(corpus: Corpus, request: QaRequest, service: Service) -> QaReply:
    """Answer a question request from an open corpus; hits in files that changed are not marked."""
    reader = service.reader()
    results = answer_question(corpus, reader, request.question, k=request.k)
    service.metrics.stages(results.timings_ms)

    return QaReply(
        answers=results.answers,
        answerable=results.answerable,
        answer_type=results.answer_type,
        hits=results.hits,
        took_ms=round(sum(results.timings_ms.values()), 3),
        corpus=corpus.name,
        build=corpus.build,
        encoder=corpus.encoder.name,
        reader=reader.name,
        read_as=results.read_as,
        warning=results.warning,
        read=results.read_count if request.explain else None,
        timings_ms=results.timings_ms if request.explain else None,
    )


@_json_router.post(
    "/classify",
    name="classify",
    response_model=ClassifyReply,
    responses=responses(400, 404, 408, 413, 415, 422, 503),
)
def post_classify(body: ClassifyRequest, service: ServiceOf) -> Response:
    """Choose a label for each text, among labels given by name or those of a trained classifier."""
    reply = classify_reply(body, service)

    # A result's label stays in the JSON even if it is null, so that only these keys are left out.
    empty: dict[str, Any] = {
        name: True for name in ("classifier", "build", "warnings") if not getattr(reply, name)
    }
    if not body.multi_label:
        empty["results"] = {"__all__": {"labels"}}
    return _json_response(_CLASSIFY_REPLY.dump_json(reply, exclude=empty))


def classify_reply(request: ClassifyRequest, service: Service) -> ClassifyReply:
    """Answer a classification request."""
    started = time.perf_counter()
    request.check()

    if request.labels is None:
        with service.classifiers.lease(str(request.classifier)) as trained:
            reply = _classified(request, trained, trained.spec.labels)
            reply = replace(reply, classifier=trained.name, build=trained.build)
    else:
        named = NamedLabels(
            service.classifier(),
            request.labels,
            request.templates,
            request.multi_label,
            request.transductive,
        )
        reply = _classified(request, named, request.labels)
    return replace(reply, took_ms=_ms_since(started))


def _classified(
    request: ClassifyRequest, classifier: NamedLabels | TrainedClassifier, labels: Sequence[str]
) -> ClassifyReply:
    ranking_length = request.ranking_length(labels)
    results = classifier.classify(request.texts, min_score=request.min_score, ranked=ranking_length)
    return ClassifyReply(
        results=tuple(results),
        took_ms=0,
        encoder=classifier.encoder.name,
        warnings=_classify_warnings(
            request, classifier.label_set, ranking_length, classifier.encoder
        ),
    )


def _classify_warnings(
    request: ClassifyRequest, label_set: LabelSet, ranking_length: int, encoder: TextEncoder
) -> tuple[str, ...]:
    """Return what the caller should know of the labels, the rankings and the texts."""
    warnings = label_set.warnings()
    if ranking_length < min(RANKED, len(label_set.labels)):
        warnings.append(
            f"Rankings are cut to the best {ranking_length} labels to limit the size of the reply: "
            "send fewer texts per request for longer rankings."
        )
    return (*warnings, *text_warnings(encoder, request.texts))


# ---- classifiers


@_router.get("/classifiers", response_model_exclude_none=True, responses=responses())
def list_classifiers(service: ServiceOf) -> ClassifiersReply:
    """List the trained classifiers and whether they can be used."""
    statuses = service.classifiers.statuses()
    return ClassifiersReply(
        tuple(_CLASSIFIER_STATUS.validate_python(_classifier_fields(each)) for each in statuses)
    )


@_router.get("/classifiers/{name}", response_model_exclude_none=True, responses=responses(404, 422))
def show_classifier(name: str, service: ServiceOf) -> ClassifierReply:
    """Describe one trained classifier: its labels, its encoder and its measured quality."""
    status = service.classifiers.status(name)
    return _CLASSIFIER_REPLY.validate_python(_classifier_fields(status))


def _classifier_fields(status: Status[TrainedClassifier]) -> dict[str, Any]:
    if status.opened is None:
        return _status_fields(status)

    trained, encoder = status.opened.spec, status.opened.encoder
    return {
        "labels": trained.labels,
        "created_at": trained.created,
        "encoder": {"name": encoder.name, "fingerprint": encoder.fingerprint, "dim": encoder.dim},
        "bytes": status.opened.bytes,
        "measures": trained.measures,
        **_status_fields(status),
    }


# ---- corpora


@_router.get("/corpora", response_model_exclude_none=True, responses=responses())
def list_corpora(service: ServiceOf) -> CorporaReply:
    """List the corpora and whether they can be searched."""
    fields = {status.name: _corpus_fields(status) for status in service.corpora.statuses()}
    news = service.builder.news()
    for name in {*news.building, *news.problems}:
        fields[name] = _with_news(name, fields.get(name), news)
    return CorporaReply(
        tuple(_CORPUS_STATUS.validate_python(fields[name]) for name in sorted(fields))
    )


@_router.get("/corpora/{name}", response_model_exclude_none=True, responses=responses(404, 422))
def show_corpus(name: str, request: Request, service: ServiceOf) -> CorpusReply:
    """Describe one corpus: its build, its quality, and whether its sources have changed.

    Only an admin key sees the full paths of the sources on the server; others see the last part of
    each.
    """
    news = service.builder.news()
    is_in_news = name in news.building or name in news.problems
    unbuilt = is_in_news and not builds.exists(service.home, name)
    fields = None if unbuilt else _corpus_fields(service.corpora.status(name))
    fields = _with_news(name, fields, news)

    if (build := fields.get("build")) is not None:
        staleness = service.freshness.of(name, build)
        fields["stale"] = None if staleness is None else asdict(staleness)
    if "sources" in fields and "admin" not in getattr(request.state, "scopes", ()):
        fields["sources"] = tuple(map(_without_directories, fields["sources"]))
    return _CORPUS_REPLY.validate_python(fields)


def _corpus_fields(status: Status[Corpus]) -> dict[str, Any]:
    """Return the fields of a status and of the manifest; a reply takes those that it declares."""
    if status.opened is None:
        return _status_fields(status)

    manifest = status.opened.manifest
    remarks = {name: value or None for name, value in asdict(status.opened.remarks).items()}
    return {
        **asdict(manifest),
        **remarks,
        "bytes": sum(file["bytes"] for file in manifest.files.values()),
        "judged": manifest.judged or None,
        "interim": manifest.interim or None,
        "drift": status.opened.drift,
        "warning": status.opened.warning,
        **_status_fields(status),
    }


def _with_news(name: str, fields: dict[str, Any] | None, news: News) -> dict[str, Any]:
    """Add what the builder does with a corpus, which may not exist yet, and how it failed."""
    building = news.building.get(name)
    if fields is None:
        state = "refused" if building is None else "building"
        fields = {"name": name, "state": state}

    if building is not None:
        kind, progress = building
        return {"kind": kind, **fields, "building": progress}

    return {**fields, "problem": fields.get("problem") or news.problems.get(name)}


def _status_fields(status: Status[Any]) -> dict[str, Any]:
    fields = {"name": status.name, "state": status.state, "problem": status.problem}
    return fields if status.build is None else {**fields, "build": status.build}


def _without_directories(source: str) -> str:
    """Replace a path, or each absolute path in a longer text, by its last part."""
    if Path(source).is_absolute():
        return Path(source).name
    return re.sub(r"(?<!\S)/(?:[^\s/]+/)*", "", source)


@_router.get(
    "/corpora/{name}/documents/{document_id:path}",
    response_model_exclude_none=True,
    responses=responses(404, 422, 503),
)
def show_document(name: str, document_id: str, service: ServiceOf) -> DocumentReply:
    """Return a whole document by the `document_id` of a hit.

    Percent-encode the id: it may hold `#`, `?` and spaces.
    """
    started = time.perf_counter()

    with service.lease(name) as corpus:
        document = corpus.document(document_id)
        changed = service.freshness.changed(corpus, [document.location.path])
        return DocumentReply.of(
            document,
            corpus=corpus.name,
            build=corpus.build,
            took_ms=_ms_since(started),
            stale=bool(changed),
        )


# ---- administration


@_json_router.post(
    "/corpora/{name}/activate",
    name="activate",
    responses=responses(400, 404, 408, 409, 413, 415, 422, 503),
)
def post_activate(name: str, body: ActivateRequest, service: ServiceOf) -> ActiveReply:
    """Activate another finished build of a corpus, after verifying its checksums.

    A build that was refused because it answered the judged queries worse takes `force`.
    """
    hosting.activate(service.home, name, body.build, force=body.force)
    return ActiveReply(corpus=name, build=body.build)


@_router.post("/corpora/{name}/rollback", name="roll_back", responses=responses(404, 409, 422, 503))
def post_rollback(name: str, service: ServiceOf) -> ActiveReply:
    """Activate the build that was active before the current one."""
    return ActiveReply(corpus=name, build=hosting.roll_back(service.home, name))


@_router.delete("/corpora/{name}", responses=responses(404, 409, 422, 503))
def delete_corpus(name: str, service: ServiceOf) -> DeletedReply:
    """Delete a corpus with all its builds."""
    hosting.delete(service.home, name)
    return DeletedReply(corpus=name)


@_json_router.post(
    "/classifiers/{name}/activate",
    name="activate_classifier",
    responses=responses(400, 404, 408, 409, 413, 415, 422, 503),
)
def post_activate_classifier(
    name: str, body: ActivateClassifierRequest, service: ServiceOf
) -> ActiveClassifierReply:
    """Activate another finished build of a classifier, after verifying its checksums."""
    activate_classifier(service.home, name, body.build)
    return ActiveClassifierReply(classifier=name, build=body.build)


@_router.post(
    "/classifiers/{name}/rollback",
    name="roll_back_classifier",
    responses=responses(404, 409, 422, 503),
)
def post_rollback_classifier(name: str, service: ServiceOf) -> ActiveClassifierReply:
    """Activate the build of a classifier that was active before the current one."""
    build = builds.previous(service.home, name, CLASSIFIERS)
    activate_classifier(service.home, name, build)
    return ActiveClassifierReply(classifier=name, build=build)


@_router.delete("/classifiers/{name}", responses=responses(404, 409, 422, 503))
def delete_classifier(name: str, service: ServiceOf) -> DeletedClassifierReply:
    """Delete a classifier with all its builds."""
    builds.delete(service.home, name, CLASSIFIERS)
    return DeletedClassifierReply(classifier=name)


# ---- probes


# Monitors ask probes with HEAD, too.
@_router.head("/livez", include_in_schema=False)
@_router.get("/livez", responses=responses())
async def live() -> ProbeReply:
    """Report that the server runs."""
    return ProbeReply()


@_router.head("/readyz", include_in_schema=False)
@_router.get("/readyz", response_model_exclude_none=True, responses=responses(503))
async def ready(service: ServiceOf) -> ReadyReply:
    """Report whether all corpora and classifiers that existed at the start are open, or refused.

    Corpora that the server is still building are listed, and do not count.
    """
    if not service.ready():
        raise Opening("Corpora or classifiers are still being opened.")
    building = {name: progress for name, (_, progress) in service.builder.news().building.items()}
    return ReadyReply(building=building or None)


# Routes are tried in this order: searches come first.
api_routers = (_json_router, _router)


def _json_response(content: bytes) -> Response:
    """Return JSON that the route's own thread serialized, so as not to block the event loop."""
    return Response(content, media_type="application/json")


def _ms_since(started: float) -> float:
    return round((time.perf_counter() - started) * 1000, 3)
