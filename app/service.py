"""The state that all routes share, made once per server."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Annotated, cast

from fastapi import Depends, Request

from purlin.app.encoding import Encoders
from purlin.app.freshness import Freshness
from purlin.app.metrics import Metrics
from purlin.app.open_builds import OpenClassifiers, OpenCorpora
from purlin.app.settings import Settings
from purlin.index.classify.zero_shot import Classifier
from purlin.index.errors import NotFound
from purlin.index.lookups import Lookups
from purlin.index.qa.reader import Reader


class Service:
    """The encoders, the reader, and the corpora and classifiers that use them."""

    def __init__(self, settings: Settings, encoders: Encoders, metrics: Metrics) -> None:
        timeout_s = settings.open_timeout_s
        self.home = settings.home
        self.metrics = metrics
        self.encoder = encoder = encoders.own
        self.corpora = OpenCorpora(settings.home, encoders, timeout_s=timeout_s)
        self.freshness = Freshness(self.corpora)
        self.classifier = Classifier(encoder)
        self.classifiers = OpenClassifiers(settings.home, encoder, timeout_s=timeout_s)

        self._reader: Reader | None = None
        self._reader_directory = settings.reader
        self._reader_lock = threading.Lock()

    def open(self) -> None:
        """Start to open all corpora and classifiers; returns at once."""
        self.corpora.open_all()
        self.classifiers.open_all()

    def reader(self) -> Reader:
        """Return the reader, loaded on first use. Raises NotFound or Damaged."""
        with self._reader_lock:
            if self._reader is None:
                if not self._reader_directory.is_dir():
                    raise NotFound(
                        "This server has no reader. Train one with `purlin train refqa`, "
                        "and set PURLIN_READER to its directory."
                    )
                self._reader = Reader.load(self._reader_directory)
            return self._reader

    @property
    def caches(self) -> Mapping[str, Lookups]:
        """Hit and miss counts of each cache, by name."""
        return {"filters": self.corpora.filters, **self.classifier.lookups}

    def ready(self) -> bool:
        """Return whether every corpus and classifier that existed at the start is open or refused."""
        return self.corpora.ready() and self.classifiers.ready()

    def close(self) -> None:
        """Stop opening builds and close everything that is open."""
        self.corpora.close()
        self.classifiers.close()
        if self._reader is not None:
            self._reader.close()


# Async, because FastAPI would run a plain function in a thread, which probes must not wait for.
async def _service(request: Request) -> Service:
    return cast(Service, request.state.service)


ServiceOf = Annotated[Service, Depends(_service)]
