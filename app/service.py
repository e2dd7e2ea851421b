"""What the routes work with, made once per server."""

from __future__ import annotations

from typing import Annotated, cast

from fastapi import Depends, Request

from app.corpora import OpenCorpora
from app.settings import Settings
from index.classifier import Classifier
from index.encoder import TextEncoder


class Service:
    """An encoder, and what answers with it."""

    def __init__(self, settings: Settings, encoder: TextEncoder) -> None:
        self.encoder = encoder
        self.corpora = OpenCorpora(settings.home, encoder, timeout_s=settings.open_timeout_s)
        self.classifier = Classifier(encoder)


def _service(request: Request) -> Service:
    return cast(Service, request.state.service)


ServiceOf = Annotated[Service, Depends(_service)]
