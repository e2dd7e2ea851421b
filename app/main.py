"""The app factory, and the server that runs the app."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from importlib.metadata import version
from threading import Lock
from typing import TYPE_CHECKING, Any

import anyio.to_thread
import uvicorn
from fastapi import FastAPI
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware

from purlin.app import access, logs, problems
from purlin.app.agents import mcp_http
from purlin.app.connections import Connection, Server, accepted_at_once, bind, url_of
from purlin.app.encoding import Encoders
from purlin.app.keys import Keyring
from purlin.app.limits import BodyLimit
from purlin.app.metrics import Meter, Metrics, metrics_router
from purlin.app.overload import RequestQueue
from purlin.app.page import page_router
from purlin.app.protocols import ProtocolErrors, protocols_routers
from purlin.app.routes import api_routers
from purlin.app.service import Service
from purlin.app.settings import Settings, spans_requested
from purlin.app.shared import Shared
from purlin.index import builds
from purlin.index.builds.catalogs import CLASSIFIERS, CORPORA
from purlin.index.cpus import available_cpus
from purlin.index.encoder import ENCODERS, TextEncoder
from purlin.index.encoder.tuning import load_tuned, summary
from purlin.index.errors import NotFound

if TYPE_CHECKING:
    from purlin.app.tracing import Spans

_log = logging.getLogger("purlin.main")

_ROUTERS = (
    *api_routers,
    metrics_router,
    page_router,
    mcp_http.mcp_router,
    *protocols_routers,
)

_Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[Mapping[str, Service]]]


class _App(FastAPI):
    """The service, which describes itself once that is requested: few servers are asked for it."""

    # Errors are handled in threads, and none may see a description that is not complete.
    _describing = Lock()

    def openapi(self) -> dict[str, Any]:
        with self._describing:
            if self.openapi_schema is None:
                description = super().openapi()
                problems.add_schemas(description)
                access.describe(description)
            return super().openapi()


def create_app(
    settings: Settings,
    encoder: TextEncoder | None = None,
    shared: Shared | None = None,
    keyring: Keyring | None = None,
) -> FastAPI:
    """Make the HTTP service; `shared` is what the workers of a server have in common.

    Only the keys are read now, unless `keyring` has them. The app loads `settings.encoder` when it
    starts, unless `encoder` is given. Raises InvalidInput for invalid keys, and NotFound if the
    environment asks for OpenTelemetry spans but the packages for them are not installed.
    """
    keyring = keyring or settings.keyring()
    shared = shared or Shared()
    metrics = Metrics(shared)
    spans = _spans(os.environ)

    app = _App(
        title="Purlin",
        summary="Search over code, products and references, and classification by label names.",
        version=version("purlin-search"),
        lifespan=_lifespan(settings, encoder, keyring, metrics, spans, shared),
        middleware=_middleware(settings, keyring, metrics, spans, shared),
        # Beside the description, so that it holds below a path of another site.
        servers=[{"url": "."}],
        redirect_slashes=False,
        docs_url=None,  # FastAPI's page loads scripts from another site
        redoc_url=None,
    )
    app.state.metrics = metrics
    app.state.origins = settings.cors_origins

    problems.add_exception_handlers(app)
    for router in _ROUTERS:
        app.include_router(router)
    return app


def _middleware(
    settings: Settings,
    keyring: Keyring,
    metrics: Metrics,
    spans: Spans | None,
    shared: Shared,
) -> list[Middleware]:
    """Return the middleware in the order in which a request meets it."""
    hosts = [name.lower().removesuffix(".") for name in settings.hosts]
    routes = [route for router in _ROUTERS for route in router.routes]
    cors = Middleware(
        CORSMiddleware,
        allow_origins=settings.cors_origins,
        allow_methods=["GET", "POST"],
        allow_headers=["Authorization", "Content-Type", *mcp_http.HEADERS],
    )

    return [
        Middleware(logs.RequestLog),
        *([Middleware(spans.middleware)] if spans is not None else []),
        Middleware(Meter, metrics=metrics, routes=routes),
        Middleware(access.SecurityHeaders),
        Middleware(ProtocolErrors),
        Middleware(problems.UnexpectedErrors),
        # All that follow may answer with a problem, which gets the headers of those above.
        *([cors] if settings.cors_origins else []),
        Middleware(access.Access, keyring=keyring, routes=routes, hosts=hosts, shared=shared),
        Middleware(
            BodyLimit,
            max_bytes=settings.max_body_bytes,
            timeout_s=settings.body_timeout_s,
            shared=shared,
        ),
        Middleware(
            RequestQueue,
            running=settings.threads,
            waiting=settings.queue,
            deadline_s=settings.queue_timeout_s,
            metrics=metrics,
            shared=shared,
        ),
    ]


def serve(settings: Settings) -> None:
    """Run the server in this process until SIGTERM or SIGINT; SIGHUP has its keys read again.

    Running requests then get `shutdown_timeout_s` to finish. Raises InvalidInput, NotFound or Damaged,
    before anything listens, if the address cannot be used, the corpora cannot be listed or the encoder
    cannot be loaded.
    """
    builds.check_home(settings.home)
    keyring = settings.keyring()
    signal.signal(signal.SIGHUP, keyring.note_hangup)
    with ExitStack() as stack:
        listeners = bind(settings.host, settings.port)
        for listener in listeners:
            stack.enter_context(listener)

        app = create_app(settings, load_tuned(settings.encoder), keyring=keyring)
        config = server_config(app, settings)
        _log.info("Purlin is starting on %s (Ctrl-C stops it)", url_of(listeners[0]))
        Server(config, keyring).run(sockets=listeners)


def server_config(app: FastAPI, settings: Settings) -> uvicorn.Config:
    """Return the configuration of uvicorn; this sets up the logs."""
    return uvicorn.Config(
        app,
        workers=settings.workers,
        access_log=False,
        log_config=logs.config(settings.log),
        server_header=False,
        # By default, uvicorn believes what any program of this machine sends.
        proxy_headers=bool(settings.proxies),
        forwarded_allow_ips=list(settings.proxies),
        http=Connection,
        ws="none",
        backlog=accepted_at_once(),
        timeout_graceful_shutdown=settings.shutdown_timeout_s,
    )


def cpus_of_worker(workers: int) -> int | None:
    """Return how many CPUs each of several workers plans with; None for a single one, which has all."""
    return None if workers == 1 else max(1, available_cpus() // workers)


def _spans(environ: Mapping[str, str]) -> Spans | None:
    """Return the exporter of spans, or None if OpenTelemetry's variables do not ask for spans."""
    if not spans_requested(environ):
        return None

    # Imported only if needed: OpenTelemetry is an optional dependency.
    try:
        from purlin.app.tracing import Spans
    except ModuleNotFoundError as error:
        raise NotFound(
            "OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is set, but "
            f"{error.name} is not installed: pip install 'purlin-search[otel]', or unset the variable."
        ) from None
    return Spans()


def _lifespan(
    settings: Settings,
    preloaded: TextEncoder | None,
    keyring: Keyring,
    metrics: Metrics,
    spans: Spans | None,
    shared: Shared,
) -> _Lifespan:
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[Mapping[str, Service]]:
        if warning := access.exposure(settings.host, keyring.keys):
            _log.warning("%s", warning)
        anyio.to_thread.current_default_thread_limiter().total_tokens = settings.threads

        encoder = preloaded
        if encoder is None:
            encoder = await anyio.to_thread.run_sync(load_tuned, settings.encoder)
        if plan := summary(encoder):
            _log.info("%s", plan)
        cpus = cpus_of_worker(settings.workers)
        encoders = Encoders(
            encoder,
            tuple(ENCODERS.values()),
            max_calls=cpus or available_cpus(),
            threads=cpus,
            metrics=metrics,
        )

        service = Service(settings, encoders, metrics, shared, max_searches=cpus)
        metrics.add_collectors(
            settings.home,
            encoder,
            service.corpora.statuses,
            lambda: service.builder.news().problems,
            service.caches,
        )
        for catalog in (CORPORA, CLASSIFIERS):
            for message in builds.inactive(settings.home, catalog):
                _log.warning("%s", message)
        await anyio.to_thread.run_sync(service.open)
        if not (settings.demo or settings.milvus or service.corpora.statuses()):
            _log.info(
                "There are no corpora in %s yet: `purlin index build` makes one, "
                "PURLIN_HOME names another directory.",
                settings.home.absolute(),
            )

        try:
            yield {"service": service}
        finally:
            await anyio.to_thread.run_sync(service.close)
            if spans is not None:
                await anyio.to_thread.run_sync(spans.close)

    return lifespan
