"""The services of a comparison: how each is prepared, started, asked, and understood."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

from benchmarks.peers.environments import HERE, python_of
from benchmarks.speed.corpora import Shared
from benchmarks.speed.load import Request
from benchmarks.speed.processes import Running, free_port, serving

DEPTH = 10


class Contestant:
    """A search service over a shared corpus."""

    name: str

    def __init__(self, shared: Shared) -> None:
        self.shared = shared
        self.scratch = shared.scratch
        self.directory = self.scratch / f"{self.name}-{shared.judged.name}"

    def prepare(self) -> None:
        """Make its index, if it keeps one on disk."""

    def command(self, port: int) -> list[str | Path]:
        raise NotImplementedError

    def environment(self) -> Mapping[str, str]:
        return {}

    def request(self, query: str) -> Request:
        return Request("POST", "/search", {"query": query, "k": DEPTH})

    def ids(self, reply: bytes) -> list[str]:
        """Ids of a reply's hits, best first."""
        return [hit["id"] for hit in json.loads(reply)["hits"]]

    @contextmanager
    def serve(self) -> Iterator[Running]:
        port = free_port()
        log = self.scratch / "logs" / f"{self.name}.log"
        ready = self.request("a function that opens a file")
        with serving(
            self.command(port), port, ready, log=log, environment=self.environment()
        ) as running:
            yield running


class Purlin(Contestant):
    """Purlin as installed: hybrid search, one process."""

    name = "purlin"
    mode = "hybrid"

    def command(self, port: int) -> list[str | Path]:
        serve: list[str | Path] = [sys.executable, "-m", "purlin", "serve", "--port", str(port)]
        return [*serve, "--home", self.shared.home, "--encoder", self.shared.encoder_directory]

    def environment(self) -> Mapping[str, str]:
        # Eight clients at once fill the default queue of four on two cores.
        return {"PURLIN_QUEUE": "64"}

    def request(self, query: str) -> Request:
        corpus = self.shared.judged.name
        body = {"query": query, "corpus": corpus, "k": DEPTH, "mode": self.mode}
        return Request("POST", "/search", body)

    def ids(self, reply: bytes) -> list[str]:
        return [hit["document_id"] for hit in json.loads(reply)["hits"]]


class PurlinDense(Purlin):
    """Purlin with the scores of vectors alone, as the home-made service has."""

    name = "purlin-dense"
    mode = "dense"


class PurlinWorkers(Purlin):
    """Purlin with a process for each of the two cores."""

    name = "purlin-workers"

    def command(self, port: int) -> list[str | Path]:
        return [*super().command(port), "--workers", "2"]


class PurlinDenseWorkers(PurlinWorkers):
    """Purlin with two processes, and with the scores of vectors alone."""

    name = "purlin-dense-workers"
    mode = "dense"


class Txtai(Contestant):
    """txtai's own API over an index with contents, its default: vectors alone."""

    name = "txtai"
    options: tuple[str, ...] = ()

    def prepare(self) -> None:
        python = python_of("txtai", self.scratch)
        if not (self.directory / "config.yml").exists():
            shared = self.shared
            inputs = [shared.texts, shared.vectors, shared.checkpoint, self.directory]
            run_script(python, "txtai_index.py", *inputs, *self.options)

    def command(self, port: int) -> list[str | Path]:
        uvicorn = [python_of("txtai", self.scratch), "-m", "uvicorn", "txtai.api:app"]
        return [*uvicorn, "--port", str(port), "--no-access-log", "--log-level", "warning"]

    def environment(self) -> Mapping[str, str]:
        return {"CONFIG": str(self.directory / "config.yml"), "HF_HUB_OFFLINE": "1"}

    def request(self, query: str) -> Request:
        return Request("GET", "/search?" + urlencode({"query": query, "limit": DEPTH}))

    def ids(self, reply: bytes) -> list[str]:
        return [hit["id"] for hit in json.loads(reply)]


class TxtaiHybrid(Txtai):
    """txtai with its own BM25 beside the vectors."""

    name = "txtai-hybrid"
    options = ("--hybrid",)


class HomeMade(Contestant):
    """sentence-transformers, FAISS and FastAPI, see `home_made.py`."""

    name = "home-made"

    def prepare(self) -> None:
        python = python_of("home_made", self.scratch)
        if not (self.directory / "documents.jsonl").exists():
            inputs = [self.shared.texts, self.shared.vectors, self.directory]
            run_script(python, "home_made.py", "build", *inputs)

    def command(self, port: int) -> list[str | Path]:
        python = python_of("home_made", self.scratch)
        arguments = [self.directory, self.shared.checkpoint, str(port)]
        return [python, HERE / "home_made.py", "serve", *arguments]


class Haystack(Contestant):
    """Haystack's hybrid pipeline in memory, see `haystack_service.py`."""

    name = "haystack"

    def prepare(self) -> None:
        python_of("haystack", self.scratch)

    def command(self, port: int) -> list[str | Path]:
        python = python_of("haystack", self.scratch)
        inputs = [self.shared.texts, self.shared.vectors, self.shared.checkpoint]
        return [python, HERE / "haystack_service.py", *inputs, str(port)]

    def environment(self) -> Mapping[str, str]:
        return {"HAYSTACK_TELEMETRY_ENABLED": "False", "HF_HUB_OFFLINE": "1"}


CONTESTANTS: dict[str, type[Contestant]] = {
    contestant.name: contestant
    for contestant in (
        Purlin,
        PurlinDense,
        PurlinWorkers,
        PurlinDenseWorkers,
        Txtai,
        TxtaiHybrid,
        HomeMade,
        Haystack,
    )
}


def run_script(python: Path, script: str, *arguments: str | Path) -> None:
    subprocess.run([python, HERE / script, *arguments], check=True)
