"""Counters and timings of the server for Prometheus; `/metrics` takes no key and never waits."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
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
from prometheus_client.registry import Collector
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Receive, Scope, Send

from purlin.app.corpora.open_builds import Status
from purlin.app.logs import Sent
from purlin.app.merging import MergedMetrics
from purlin.app.shared import Shared
from purlin.index import builds
from purlin.index.encoder.text_encoder import TextEncoder, plan_of
from purlin.index.errors import PurlinError
from purlin.index.lookups import Lookups
from purlin.index.search.corpus import Corpus

METHODS = frozenset(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
LATENCY_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
BATCH_SIZE_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128, 256)

Caches = Mapping[str, Lookups]

# When the stages ended, in nanoseconds since 1970, and the milliseconds of each.
Stages = tuple[int, Mapping[str, float]]

# Collects the stages of the current request while it is traced.
recorded_stages: ContextVar[list[Stages] | None] = ContextVar("recorded_stages", default=None)


class Metrics:
    """The metrics of one server; if it has several workers, of all of them together.

    No label comes from a client, so their number is bounded.
    """

    def __init__(self, shared: Shared | None = None) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._shown: Collector = self.registry
        if shared is not None and shared.workers > 1:
            self._shown = MergedMetrics(self.registry, shared)
        self._scraping = anyio.CapacityLimiter(1)

        self.requests = self._counter("requests", "Requests answered.", "method", "route", "status")
        self.request_seconds = self._histogram(
            "request_seconds", "Time to answer a request.", LATENCY_BUCKETS, "route"
        )
        self.stage_seconds = self._histogram(
            "stage_seconds", "Time of one stage of a request.", LATENCY_BUCKETS, "stage"
        )
        self.batch_texts = self._histogram(
            "batch_texts", "Texts in one call of the encoder.", BATCH_SIZE_BUCKETS
        )

        self.refused = self._counter("refused", "Requests refused because too many were waiting.")
        self.running = self._gauge("running", "Requests that are running.")
        self.running_limit = self._gauge("running_limit", "Requests that may run at once.")
        self.waiting = self._gauge("waiting", "Requests that wait for a slot.")
        self.waiting_limit = self._gauge("waiting_limit", "Requests that may wait for a slot.")

    def stages(self, timings_ms: Mapping[str, float]) -> None:
        """Observe how long each stage of one request took."""
        for stage, took_ms in timings_ms.items():
            self.stage_seconds.labels(stage).observe(took_ms / 1000)

        if (stages := recorded_stages.get()) is not None:
            stages.append((time.time_ns(), timings_ms))

    def add_collectors(
        self,
        home: Path,
        encoder: TextEncoder,
        corpora: Callable[[], Iterable[Status[Corpus]]],
        not_rebuilt: Callable[[], Collection[str]],
        caches: Caches,
    ) -> None:
        """Add metrics that are read at each scrape: encoder, builds and cache lookups."""
        collector = _ServerCollector(home, encoder, corpora, not_rebuilt, caches)
        self.registry.register(collector)

    async def text(self) -> bytes:
        """Return all metrics in Prometheus's format, made in a thread, because that reads the disk."""
        return await anyio.to_thread.run_sync(generate_latest, self._shown, limiter=self._scraping)

    def _counter(self, name: str, help_text: str, *labels: str) -> Counter:
        return Counter(f"purlin_{name}", help_text, labels, registry=self.registry)

    def _gauge(self, name: str, help_text: str) -> Gauge:
        return Gauge(f"purlin_{name}", help_text, registry=self.registry)

    def _histogram(
        self, name: str, help_text: str, buckets: tuple[float, ...], *labels: str
    ) -> Histogram:
        return Histogram(
            f"purlin_{name}", help_text, labels, buckets=buckets, registry=self.registry
        )


# The registry tells collectors apart by their identity.
@dataclass(frozen=True, slots=True, eq=False)
class _ServerCollector:
    """Metrics of the encoder, the builds in service and the caches, read at each scrape."""

    home: Path
    encoder: TextEncoder
    corpora: Callable[[], Iterable[Status[Corpus]]]
    not_rebuilt: Callable[[], Collection[str]]
    caches: Caches

    def collect(self) -> Iterable[Metric]:
        encoder = GaugeMetricFamily(
            "purlin_encoder", "The encoder in service.", labels=["name", "fingerprint"]
        )
        encoder.add_metric([self.encoder.name, self.encoder.fingerprint], 1)

        plan = GaugeMetricFamily(
            "purlin_encoder_plan",
            "How the encoder in service uses the machine.",
            labels=["source", "threads", "batch_tokens", "query_threads"],
        )
        # Static encoders have no plan.
        used = plan_of(self.encoder)
        if used is not None:
            numbers = map(str, (used.threads, used.batch_tokens, used.query_threads))
            plan.add_metric([used.source, *numbers], 1)

        statuses = list(self.corpora())
        opened = [status.opened for status in statuses if status.opened is not None]
        return [encoder, plan, *self._states(statuses), *_builds(opened), self._lookups()]

    def _states(self, statuses: Iterable[Status[Corpus]]) -> Iterable[Metric]:
        states = GaugeMetricFamily("purlin_corpus", "Corpora by state.", labels=["corpus", "state"])
        switches = CounterMetricFamily(
            "purlin_corpus_switches", "Builds that replaced another in service.", labels=["corpus"]
        )
        refused = CounterMetricFamily(
            "purlin_corpus_refused", "Builds that could not be opened.", labels=["corpus"]
        )
        withheld = _corpus_gauge(
            "purlin_corpus_withheld", "Builds newer than the active one that measured worse."
        )
        failed = _corpus_gauge(
            "purlin_corpus_rebuild_failed", "Whether this server's last build of a corpus failed."
        )
        not_rebuilt = self.not_rebuilt()

        for status in statuses:
            states.add_metric([status.name, status.state], 1)
            switches.add_metric([status.name], status.switches)
            refused.add_metric([status.name], status.refusals)
            failed.add_metric([status.name], status.name in not_rebuilt)
            # The corpus may have been deleted or damaged since its status was read.
            with contextlib.suppress(PurlinError):
                withheld.add_metric([status.name], len(builds.withheld(self.home, status.name)))
        return [states, switches, refused, withheld, failed]

    def _lookups(self) -> Metric:
        family = CounterMetricFamily(
            "purlin_cache", "Lookups in caches.", labels=["cache", "result"]
        )
        for name, lookups in self.caches.items():
            family.add_metric([name, "hit"], lookups.hits)
            family.add_metric([name, "miss"], lookups.misses)
        return family


def _builds(corpora: Iterable[Corpus]) -> Iterable[Metric]:
    build = GaugeMetricFamily(
        "purlin_corpus_build", "The build in service.", labels=["corpus", "build"]
    )
    documents = _corpus_gauge("purlin_corpus_documents", "Documents in service.")
    built = _corpus_gauge(
        "purlin_corpus_built_timestamp_seconds", "When the build in service was made."
    )
    took = _corpus_gauge("purlin_corpus_build_seconds", "Time to make the build in service.")

    for corpus in corpora:
        created_at = datetime.fromisoformat(corpus.manifest.created_at)
        build.add_metric([corpus.name, corpus.build], 1)
        documents.add_metric([corpus.name], corpus.manifest.documents)
        built.add_metric([corpus.name], created_at.timestamp())
        took.add_metric([corpus.name], corpus.manifest.took_s)
    return [build, documents, built, took]


def _corpus_gauge(name: str, help_text: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, help_text, labels=["corpus"])


class Meter:
    """ASGI middleware that counts requests by route, and times those that reach it.

    Keys, rates and the queue refuse requests before: these count for the route that they were for.
    `other` is what no route takes.
    """

    def __init__(self, app: ASGIApp, *, metrics: Metrics, routes: Sequence[BaseRoute] = ()) -> None:
        self._app = app
        self._metrics = metrics
        self._routes = routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI entry point."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        started = time.perf_counter()
        sent = Sent(send)
        try:
            await self._app(scope, receive, sent)
        finally:
            route = self._route(scope)
            method = scope["method"] if route != "other" and scope["method"] in METHODS else "other"
            self._metrics.requests.labels(method, route, sent.status or "none").inc()
            if "route" in scope:
                took_s = time.perf_counter() - started
                self._metrics.request_seconds.labels(route).observe(took_s)

    def _route(self, scope: Scope) -> str:
        """Path template of the route that a request reached or was for."""
        matches = (route for route in self._routes if route.matches(scope)[0] != Match.NONE)
        route = scope.get("route") or next(matches, None)
        path: str = getattr(route, "path", "other")
        return path


metrics_router = APIRouter()


@metrics_router.api_route("/metrics", methods=["GET", "HEAD"], include_in_schema=False)
async def metrics(request: Request) -> Response:
    """Return all metrics."""
    server_metrics: Metrics = request.app.state.metrics
    return Response(await server_metrics.text(), media_type=CONTENT_TYPE_LATEST)
