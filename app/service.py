"""What the routes work with, made once per server."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Annotated, cast

from fastapi import Depends, Request

from app.freshness import Freshness
from app.metrics import Metrics
from app.open_builds import OpenClassifiers, OpenCorpora
from app.settings import Settings
from index.classify.zero_shot import Classifier
from index.encoder import TextEncoder
from index.errors import NotFound
from index.lookups import Lookups
from index.qa.reader import Reader


class Service:
    """An encoder, a reader, and what answers with them."""

    def __init__(self, settings: Settings, encoder: TextEncoder, metrics: Metrics) -> None:
        self.metrics = metrics
        self.home = settings.home
        self._reader: Reader | None = None
        self._reader_directory, self._reading = settings.reader, threading.Lock()
        self.encoder = encoder
        self.corpora = OpenCorpora(settings.home, encoder, timeout_s=settings.open_timeout_s)
        self.freshness = Freshness(self.corpora)
        self.classifier = Classifier(encoder)
        self.classifiers = OpenClassifiers(
            settings.home, encoder, timeout_s=settings.open_timeout_s
        )

    def open(self) -> None:
        """Start opening what is there; returns at once."""
        self.corpora.open_all()
        self.classifiers.open_all()

    def reader(self) -> Reader:
        """What reads passages, loaded when it is first asked for. Raises NotFound or Damaged."""
        with self._reading:
            if self._reader is None and not self._reader_directory.is_dir():
                raise NotFound(
                    "This server has no reader. Train one with `purlin train refqa`, and name it in PURLIN_READER."
                )
            if self._reader is None:
                self._reader = Reader.load(self._reader_directory)
            return self._reader

    @property
    def caches(self) -> Mapping[str, Lookups]:
        """How often each cache had what was asked for."""
        return {"filters": self.corpora.filters, **self.classifier.lookups}

    def ready(self) -> bool:
        """Whether all that was there at the start is open, or refused."""
        return self.corpora.ready() and self.classifiers.ready()

    def close(self) -> None:
        """Stop opening and close everything."""
        self.corpora.close()
        self.classifiers.close()
        if self._reader is not None:
            self._reader.close()


async def _service(request: Request) -> Service:  # async, so that probes wait for no thread
    return cast(Service, request.state.service)


ServiceOf = Annotated[Service, Depends(_service)]
