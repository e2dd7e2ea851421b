"""The state that all routes share, made once per server."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from typing import Annotated, cast

from fastapi import Depends, Request

from purlin.app.corpora.building import Builder, BuildingElsewhere, demo_jobs, tell_workers
from purlin.app.corpora.following import Follower
from purlin.app.corpora.freshness import Freshness
from purlin.app.corpora.open_builds import OpenBuilds
from purlin.app.corpora.open_corpora import OpenCorpora
from purlin.app.corpora.watching import Watcher
from purlin.app.encoding import Encoders
from purlin.app.errors import Opening
from purlin.app.metrics import Metrics
from purlin.app.settings import Settings
from purlin.app.shared import Shared
from purlin.index import builds
from purlin.index.builds.catalogs import CLASSIFIERS
from purlin.index.classify.trained import TrainedClassifier
from purlin.index.classify.zero_shot import Classifier, LabelLookups
from purlin.index.cpus import available_cpus
from purlin.index.encoder import ENCODERS
from purlin.index.engines.milvus import Connection
from purlin.index.errors import NotFound
from purlin.index.lookups import Lookups, Once
from purlin.index.qa.reader import Reader
from purlin.index.reranker import Rerankers
from purlin.index.search.corpus import Corpus


class Service:
    """The encoders, the reader, and the corpora and classifiers that use them.

    At most `max_searches` run at once, by default one for each CPU.
    """

    def __init__(
        self,
        settings: Settings,
        encoders: Encoders,
        metrics: Metrics,
        shared: Shared | None = None,
        *,
        max_searches: int | None = None,
    ) -> None:
        self._settings = settings
        self._shared = shared = shared or Shared()
        self._turns = threading.BoundedSemaphore(max_searches or available_cpus())
        self.home = settings.home
        self.metrics = metrics
        self.encoder = encoder = encoders.own

        timeout_s = settings.open_timeout_s
        self.corpora = OpenCorpora(settings.home, encoders.of_build, timeout_s=timeout_s)
        self.freshness = Freshness(self.corpora)
        self._label_lookups = LabelLookups()
        # By names of labels. Raises Damaged and NotFound.
        self.classifier = Once(
            lambda: Classifier(encoders.for_labels(), lookups=self._label_lookups)
        )
        self.classifiers: OpenBuilds[TrainedClassifier] = OpenBuilds(
            settings.home,
            CLASSIFIERS,
            # A classifier of the server's own encoder loads no other.
            lambda build, _: TrainedClassifier.load(build, shared=encoder),
            timeout_s=timeout_s,
        )
        self._seen_built = shared.built[0]

        self.reader = Once(self._load_reader)
        self.rerankers = Rerankers(settings.reranker, self.reader)

        self.builder: Builder | BuildingElsewhere = BuildingElsewhere(shared)
        self._own_builder: Builder | None = None
        self._watcher: Watcher | None = None
        self._follower: Follower | None = None
        # One worker builds, watches and follows for all.
        if shared.number == 0:
            self._work_for_all()

    def _work_for_all(self) -> None:
        """Make the builder and, if configured, the watcher of sources and the follower of a Milvus."""
        home, settings = self.home, self._settings
        self.builder = self._own_builder = Builder(
            home, self._built, keep=settings.watch, changed=partial(tell_workers, self._shared)
        )

        if settings.watch:
            directories = (settings.encoder, *ENCODERS.values())
            self._watcher = Watcher(home, self._own_builder, directories)

        if settings.milvus:
            self._follower = Follower(home, Connection.of(settings.milvus))

    def open(self) -> None:
        """Start opening corpora and classifiers, building demo corpora and watching; returns at once."""
        self.corpora.open_all()
        self.classifiers.open_all()
        self._shared.listeners.append(self._follow)

        if self._own_builder is not None:
            # Replaces what an earlier worker in this one's place has said about its builds.
            tell_workers(self._shared, self._own_builder.news())
            if self._settings.demo:
                fingerprint = self.encoder.fingerprint
                self._own_builder.add(*demo_jobs(self.home, self._settings.encoder, fingerprint))
        for helper in (self._watcher, self._follower):
            if helper is not None:
                helper.start()

    def lease(self, corpus: str) -> AbstractContextManager[Corpus]:
        """Yield the build of a corpus that serves, as `OpenBuilds.lease` does.

        Raises Opening for a corpus whose first build is still being made.
        """
        building = self.builder.news().building.get(corpus)
        if building is not None and not builds.exists(self.home, corpus):
            raise Opening(
                f"Corpus {corpus!r} is still being built ({building[1]}): try again in a moment.",
                field="corpus",
            )
        return self.corpora.lease(corpus)

    def turn(self, *corpora: Corpus) -> AbstractContextManager[object]:
        """Wait for a turn to search corpora.

        More searches at once would only take the interpreter's lock from each other. Searches in an
        engine need no turn, since they mostly wait for it.
        """
        return nullcontext() if any(corpus.manifest.engine for corpus in corpora) else self._turns

    def _load_reader(self) -> Reader:
        """Load the reader. Raises NotFound or Damaged."""
        if not self._settings.reader.is_dir():
            raise NotFound(
                "This server has no reader. Train one with `purlin train refqa`, "
                "and set PURLIN_READER to its directory."
            )
        return Reader.load(self._settings.reader)

    @property
    def caches(self) -> Mapping[str, Lookups]:
        """Hit and miss counts of each cache, by name."""
        labels = self._label_lookups
        return {
            "filters": self.corpora.filters,
            "label_sets": labels.sets,
            "label_vectors": labels.vectors,
        }

    def ready(self) -> bool:
        """Return whether every corpus and classifier that existed at the start is open or refused."""
        return self.corpora.ready() and self.classifiers.ready()

    def _built(self, corpus: str) -> None:
        """Open a new build at once, here and in the other workers, rather than at the next request."""
        with suppress(NotFound):
            self.corpora.status(corpus)
        if self._shared.workers > 1:
            self._shared.built[0] += 1
            self._shared.ring_others()

    def _follow(self) -> None:
        """Start opening what another worker has built; called in the event loop."""
        if self._shared.built[0] != self._seen_built:
            self._seen_built = self._shared.built[0]
            threading.Thread(target=self.corpora.statuses, daemon=True).start()

    def close(self) -> None:
        """Stop making and opening builds, and close everything that is open."""
        for helper in (self._watcher, self._follower, self._own_builder):
            if helper is not None:
                helper.close()

        self.corpora.close()
        self.classifiers.close()
        if self.reader.value is not None:
            self.reader.value.close()
        self.rerankers.close()


# Async, because FastAPI would run a plain function in a thread, which probes must not wait for.
async def _service(request: Request) -> Service:
    return cast(Service, request.state.service)


ServiceOf = Annotated[Service, Depends(_service)]
