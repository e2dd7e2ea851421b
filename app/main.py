"""The app, made by a function that is given its settings, and the server that runs it."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING

import anyio.to_thread
import uvicorn
from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware

from app import access, logs, mcp, problems, protocols
from app.connections import BACKLOG, Connection
from app.encoding import BoundedEncoder
from app.limits import BodyLimit
from app.metrics import Meter, Metrics, metrics_router
from app.overload import RequestQueue
from app.page import router as page_router
from app.routes import router
from app.service import Service
from app.settings import Settings, spans_wanted
from index.encoder import Encoder, TextEncoder, available_cpus
from index.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from app.tracing import Spans


def create_app(settings: Settings, encoder: TextEncoder | None = None) -> FastAPI:
    """The HTTP service. Only keys are read before it starts; it then loads `settings.encoder` unless one is given.

    With OpenTelemetry's variables set it also sends spans; raises NotFound where what that takes is not installed.
    """
    keys, metrics, spans = _keys(settings), Metrics(), _spans(os.environ)
    app = FastAPI(
        title="Purlin",
        summary="Search over code, products and references, and classification by label names.",
        version=version("purlin"),
        lifespan=_lifespan(settings, encoder, keys, metrics, spans),
        redirect_slashes=False,
        docs_url=None,  # the page that FastAPI would serve loads scripts from elsewhere
        redoc_url=None,
    )
    app.state.metrics = metrics
    app.state.origins = settings.cors_origins
    app.add_middleware(
        RequestQueue,
        running=settings.threads,
        waiting=settings.queue,
        deadline_s=settings.queue_timeout_s,
        metrics=metrics,
    )
    app.add_middleware(
        BodyLimit, max_bytes=settings.max_body_bytes, timeout_s=settings.body_timeout_s
    )
    app.add_middleware(
        access.Access, keys=keys, hosts=[name.lower().removesuffix(".") for name in settings.hosts]
    )
    if settings.cors_origins:
        headers = ["Authorization", "Content-Type", *mcp.HEADERS]
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.cors_origins,
            allow_methods=["GET", "POST"],
            allow_headers=headers,
        )
    problems.install(app)
    app.add_middleware(protocols.OwnErrors)
    app.add_middleware(access.SecurityHeaders)  # outside of problems, which then have them too
    app.add_middleware(Meter, metrics=metrics)
    if spans is not None:
        app.add_middleware(spans.middleware)
    app.add_middleware(logs.RequestLog)
    app.include_router(router)
    app.include_router(metrics_router)
    app.include_router(page_router)
    app.include_router(mcp.mcp_router)
    app.include_router(protocols.router)
    problems.add_schemas(app.openapi())
    access.describe(app.openapi())
    return app


def serve(settings: Settings) -> None:
    """Run the server until SIGTERM or SIGINT; requests then running are finished, within `shutdown_timeout_s`.

    Raises NotFound or Damaged, before anything listens, if the encoder cannot be loaded.
    """
    app = create_app(settings, Encoder.load(settings.encoder))
    uvicorn.run(
        app,
        host=settings.host,
        port=settings.port,
        access_log=False,
        log_config=logs.config(settings.log),
        server_header=False,
        http=Connection,
        backlog=BACKLOG,
        timeout_graceful_shutdown=settings.shutdown_timeout_s,
    )


def _keys(settings: Settings) -> tuple[access.Key, ...]:
    given = settings.keys.get_secret_value()
    if settings.keys_file is None:
        return access.parse_keys(given, "PURLIN_KEYS")
    if given:
        raise InvalidInput(
            "PURLIN_KEYS and PURLIN_KEYS_FILE are both set: keys come from one of them."
        )
    return access.read_keys_file(settings.keys_file)


def _spans(environ: Mapping[str, str]) -> Spans | None:
    """Where spans go, if the variables of OpenTelemetry say where."""
    if not spans_wanted(environ):
        return None
    try:
        from app.tracing import Spans
    except ModuleNotFoundError as error:
        raise NotFound(
            f"OTEL_EXPORTER_OTLP_ENDPOINT, or …_TRACES_ENDPOINT, is set, but {error.name} is not installed: "
            "pip install 'purlin[otel]', or unset it."
        ) from None
    return Spans()


_log = logging.getLogger("purlin.main")
_Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[Mapping[str, Service]]]


def _lifespan(
    settings: Settings,
    given: TextEncoder | None,
    keys: tuple[access.Key, ...],
    metrics: Metrics,
    spans: Spans | None,
) -> _Lifespan:
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[Mapping[str, Service]]:
        for warning in access.exposures(settings.host, keys):
            _log.warning("%s", warning)
        anyio.to_thread.current_default_thread_limiter().total_tokens = settings.threads
        encoder = (
            await anyio.to_thread.run_sync(Encoder.load, settings.encoder)
            if given is None
            else given
        )
        bounded = BoundedEncoder(encoder, max_calls=available_cpus(), metrics=metrics)
        service = Service(settings, bounded, metrics)
        metrics.show(settings.home, encoder, service.corpora.statuses, service.caches)
        await anyio.to_thread.run_sync(service.open)
        try:
            yield {"service": service}
        finally:
            await anyio.to_thread.run_sync(service.close)
            if spans is not None:
                await anyio.to_thread.run_sync(spans.close)

    return lifespan
