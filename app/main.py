"""The app, made by a function that is given its settings, and the server that runs it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib.metadata import version

import anyio.to_thread
import uvicorn
from fastapi import FastAPI
from uvicorn.config import LOGGING_CONFIG

from app import problems
from app.limits import BodyLimit
from app.routes import router
from app.service import Service
from app.settings import Settings
from index.encoder import Encoder, TextEncoder


def create_app(settings: Settings, encoder: TextEncoder | None = None) -> FastAPI:
    """The HTTP service. Nothing is read before it starts; it then loads `settings.encoder` unless one is given."""
    app = FastAPI(
        title="Purlin",
        summary="Search over code, products and references, and classification by label names.",
        version=version("purlin"),
        lifespan=_lifespan(settings, encoder),
        redirect_slashes=False,
    )
    app.add_middleware(BodyLimit, max_bytes=settings.max_body_bytes, timeout_s=settings.body_timeout_s)
    problems.install(app)
    app.include_router(router)
    problems.add_schemas(app.openapi())
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
        log_config=_LOGGING,
        server_header=False,
        timeout_graceful_shutdown=settings.shutdown_timeout_s,
    )


_LOGGING = LOGGING_CONFIG | {
    "loggers": LOGGING_CONFIG["loggers"] | {"purlin": {"handlers": ["default"], "level": "INFO", "propagate": False}}
}
_Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[Mapping[str, Service]]]


def _lifespan(settings: Settings, given: TextEncoder | None) -> _Lifespan:
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[Mapping[str, Service]]:
        anyio.to_thread.current_default_thread_limiter().total_tokens = settings.threads
        encoder = await anyio.to_thread.run_sync(Encoder.load, settings.encoder) if given is None else given
        service = Service(settings, encoder)
        await anyio.to_thread.run_sync(service.corpora.open_all)
        try:
            yield {"service": service}
        finally:
            await anyio.to_thread.run_sync(service.corpora.close)

    return lifespan
