"""What the server counts and times, as Prometheus reads it. The text at `/metrics` needs no key and no free place."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from datetime import datetime
from pathlib import Path

import anyio
import anyio.to_thread
from fastapi import APIRouter, Request, Response
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.open_builds import Status
from index import builds
from index.encoder import TextEncoder
from index.errors import PurlinError
from index.lookups import Lookups
from index.search.corpus import Corpus

METHODS = frozenset(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
TEXTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)

Caches = Mapping[str, Lookups]
Stages = tuple[
    int, Mapping[str, float]
]  # when they were over, in nanoseconds since 1970, and the milliseconds of each
noted: ContextVar[list[Stages] | None] = ContextVar(
    "noted", default=None
)  # where a request's stages are kept, too


class Metrics:
    """The counters of one server. All labels come from the server itself, so their number is bounded."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.requests = self._counter("requests", "Requests answered.", "method", "route", "status")
        self.request_seconds = self._histogram(
            "request_seconds", "Time to answer a request.", SECONDS, "route"
        )
        self.stage_seconds = self._histogram(
            "stage_seconds", "Time of a stage of answering.", SECONDS, "stage"
        )
        self.batch_texts = self._histogram(
            "batch_texts", "Texts encoded in one call of the encoder.", TEXTS
        )
        self.refused = self._counter("refused", "Requests refused, as too many were waiting.")
        self.running = Gauge("purlin_running", "Requests being worked on.", registry=self.registry)
        self.waiting = Gauge(
            "purlin_waiting", "Requests that wait for their turn.", registry=self.registry
        )
        self._scraping = anyio.CapacityLimiter(1)

    def stages(self, timings_ms: Mapping[str, float]) -> None:
        """Observe how long each stage of one request took."""
        for stage, took_ms in timings_ms.items():
            self.stage_seconds.labels(stage).observe(took_ms / 1000)
        if (kept := noted.get()) is not None:
            kept.append((time.time_ns(), timings_ms))

    def show(
        self,
        home: Path,
        encoder: TextEncoder,
        corpora: Callable[[], Iterable[Status[Corpus]]],
        caches: Caches,
    ) -> None:
        """Tell with every answer which encoder and which builds serve, and how often caches had what was asked for."""
        self.registry.register(_Served(home, encoder, corpora))
        self.registry.register(_Cached(caches))

    async def text(self) -> bytes:
        """All of it, in Prometheus's format; made in a thread of its own, as it looks at the disk."""
        return await anyio.to_thread.run_sync(
            generate_latest, self.registry, limiter=self._scraping
        )

    def _counter(self, name: str, about: str, *labels: str) -> Counter:
        return Counter(f"purlin_{name}", about, labels, registry=self.registry)

    def _histogram(
        self, name: str, about: str, buckets: tuple[float, ...], *labels: str
    ) -> Histogram:
        return Histogram(f"purlin_{name}", about, labels, buckets=buckets, registry=self.registry)


class _Served:
    """Looks, whenever it is asked, at what is being served."""

    def __init__(
        self, home: Path, encoder: TextEncoder, corpora: Callable[[], Iterable[Status[Corpus]]]
    ) -> None:
        self._home = home
        self._encoder = encoder
        self._corpora = corpora

    def collect(self) -> Iterable[Metric]:
        encoder = GaugeMetricFamily(
            "purlin_encoder", "The encoder that serves.", labels=["name", "fingerprint"]
        )
        encoder.add_metric([self._encoder.name, self._encoder.fingerprint], 1)
        statuses = list(self._corpora())
        return [
            encoder,
            *self._states(statuses),
            *_builds([one.opened for one in statuses if one.opened is not None]),
        ]

    def _states(self, statuses: Iterable[Status[Corpus]]) -> Iterable[Metric]:
        states = GaugeMetricFamily(
            "purlin_corpus", "Corpora, by how they are doing.", labels=["corpus", "state"]
        )
        switches = _counted(
            "purlin_corpus_switches", "Times that a build took the place of another.", "corpus"
        )
        refused = _counted("purlin_corpus_refused", "Builds that could not be opened.", "corpus")
        withheld = _gauge(
            "purlin_corpus_withheld", "Builds newer than the active one that measured worse."
        )
        for status in statuses:
            states.add_metric([status.name, status.state], 1)
            switches.add_metric([status.name], status.switches)
            refused.add_metric([status.name], status.refusals)
            with contextlib.suppress(PurlinError):
                withheld.add_metric([status.name], len(builds.withheld(self._home, status.name)))
        return [states, switches, refused, withheld]


def _builds(corpora: Iterable[Corpus]) -> Iterable[Metric]:
    builds = GaugeMetricFamily(
        "purlin_corpus_build", "The build that serves.", labels=["corpus", "build"]
    )
    documents = _gauge("purlin_corpus_documents", "Documents being served.")
    built = _gauge("purlin_corpus_built_timestamp_seconds", "When the build that serves was made.")
    took = _gauge("purlin_corpus_build_seconds", "Time to make the build that serves.")
    for one in corpora:
        builds.add_metric([one.name, one.build], 1)
        documents.add_metric([one.name], one.manifest.documents)
        built.add_metric([one.name], datetime.fromisoformat(one.manifest.created_at).timestamp())
        took.add_metric([one.name], one.manifest.took_s)
    return [builds, documents, built, took]


class _Cached:
    """Looks, whenever it is asked, at how often caches had what was asked for."""

    def __init__(self, caches: Caches) -> None:
        self._caches = caches

    def collect(self) -> Iterable[Metric]:
        found = _counted("purlin_cache", "Lookups in caches.", "cache", "result")
        for name, lookups in self._caches.items():
            found.add_metric([name, "hit"], lookups.hits)
            found.add_metric([name, "miss"], lookups.misses)
        return [found]


def _gauge(name: str, about: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, about, labels=["corpus"])


def _counted(name: str, about: str, *labels: str) -> CounterMetricFamily:
    return CounterMetricFamily(name, about, labels=labels)


class Meter:
    """Counts requests and times them, by route; what no route takes is counted as `other`."""

    def __init__(self, app: ASGIApp, *, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI entry point."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, status = time.perf_counter(), "none"

        async def watch(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = str(message["status"])
            await send(message)

        try:
            await self._app(scope, receive, watch)
        finally:
            route = getattr(scope.get("route"), "path", "other")
            method = scope["method"] if route != "other" and scope["method"] in METHODS else "other"
            self._metrics.requests.labels(method, route, status).inc()
            self._metrics.request_seconds.labels(route).observe(time.perf_counter() - started)


router = APIRouter()


@router.get("/metrics", include_in_schema=False)
async def metrics(request: Request) -> Response:
    """Everything that is counted."""
    found: Metrics = request.app.state.metrics
    return Response(await found.text(), media_type=CONTENT_TYPE_LATEST)
