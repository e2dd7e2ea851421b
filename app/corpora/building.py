"""Corpora that a server builds while it serves, one after the other, in a process of their own."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter

from purlin.app.shared import Shared
from purlin.index import builds
from purlin.index.demo import demos
from purlin.index.encoder import (
    STATIC_ENCODER,
    encoder_fingerprint,
    encoder_for,
    encoder_name,
    is_static,
)
from purlin.index.pace import Lines, Pace
from purlin.index.records import Kind
from purlin.replies import Building

BUSY_RETRY_S = 5.0  # after which a corpus that another process is building is tried again
STOP_TIMEOUT_S = 5.0  # for the process to undo what it has begun

_log = logging.getLogger("purlin.building")


@dataclass(frozen=True, slots=True)
class Job:
    """A corpus to build; `encoders` are directories, and a demo corpus is built with the first."""

    corpus: str
    kind: Kind
    task: Literal["demo", "repeat"]
    encoders: tuple[Path, ...]

    def to_json(self) -> str:
        """One line for `purlin.app.corpora.indexer`."""
        return json.dumps(
            {"corpus": self.corpus, "task": self.task, "encoders": list(map(str, self.encoders))}
        )


@dataclass(slots=True)
class _Running:
    """The job that runs now, and how far it is."""

    job: Job
    stage: str = "start"
    finished_count: int = 0
    total: int | None = None
    pace: Pace = field(default_factory=Pace)

    def update(self, stage: str, finished_count: int, total: int | None) -> None:
        if stage != self.stage:
            self.pace = Pace(stage=stage)
        self.stage, self.finished_count, self.total = stage, finished_count, total
        self.pace.update(finished_count, total)


def demo_jobs(home: Path, directory: Path, fingerprint: str) -> list[Job]:
    """Return the jobs that make the demo corpora, as far as they are missing or outdated.

    One that somebody has deleted is not missing: `purlin index demo` brings it back.
    Those missing are built with the static encoder first, so that each can be searched within seconds, then with
    the encoder in `directory`, which has this `fingerprint`, or for code with the better one there is.
    """
    jobs = []
    kept = [demo for demo in demos() if not builds.is_deleted(home, demo.name)]
    if STATIC_ENCODER.is_dir() and not is_static(directory):
        missing = [demo for demo in kept if demo.is_missing(home)]
        jobs += [Job(demo.name, demo.kind, "demo", (STATIC_ENCODER,)) for demo in missing]

    for demo in kept:
        best = encoder_for(demo.kind, directory)
        expected = fingerprint if best == directory else encoder_fingerprint(best)
        if demo.is_due(home, expected):
            jobs.append(Job(demo.name, demo.kind, "demo", (best,)))
    return jobs


@dataclass(frozen=True, slots=True)
class News:
    """What is being built or waits to be: its kind and progress; and why the last job of others failed.

    Both are by the name of the corpus.
    """

    building: Mapping[str, tuple[Kind, Building]] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)


_NEWS = TypeAdapter(News)


class BuildingElsewhere:
    """What another worker of this server builds, as far as it has told the others."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._version = 0.0
        self._news = News()

    def news(self) -> News:
        """Return what is being built, and what could not be."""
        version = self._shared.news[0]
        if version != self._version:
            page = self._shared.read_page(self._shared.workers)
            self._version, self._news = version, _NEWS.validate_json(page)
        return self._news


def tell_workers(shared: Shared, news: News) -> None:
    """Let the other workers know what this one builds."""
    if shared.workers > 1:
        shared.write_page(shared.workers, _NEWS.dump_json(news))
        shared.news[0] += 1


class Builder:
    """A queue of jobs, and the process that does them.

    `built` is called with the name of each corpus that has a new build, and `changed` whenever
    there is news of what is being built. With `keep`, the process waits for further jobs, with its
    encoders in memory; otherwise it ends with the last job.
    """

    def __init__(
        self,
        home: Path,
        built: Callable[[str], object],
        *,
        keep: bool = False,
        changed: Callable[[News], object] = lambda _: None,
    ) -> None:
        self._home = home
        self._built = built
        self._keep = keep
        self._changed = changed

        # Guards what follows; notified when there are jobs, or when none will come any more.
        self._condition = threading.Condition()
        self._jobs: list[Job] = []
        self._running: _Running | None = None
        self._problems: dict[str, str] = {}
        # What the last build of each corpus had to say of its sources.
        self._remarks: dict[str, list[str]] = {}
        self._process: subprocess.Popen[str] | None = None
        self._thread: threading.Thread | None = None
        self._closing = False

    def add(self, *jobs: Job) -> None:
        """Queue jobs, except those that are waiting already."""
        with self._condition:
            self._jobs += [job for job in jobs if job not in self._jobs]
            if self._thread is None and not self._closing:
                self._thread = threading.Thread(target=self._work, name="builder", daemon=True)
                self._thread.start()
            self._condition.notify_all()
        self._changed(self.news())

    def news(self) -> News:
        """Return what is being built or waits to be, and what could not be."""
        with self._condition:
            waiting = list(self._jobs)
            running = self._running
            problems = dict(self._problems)

        building: dict[str, tuple[Kind, Building]] = {}
        if running is not None:
            building[running.job.corpus] = (running.job.kind, _progress(running))
        for job in waiting:
            building.setdefault(
                job.corpus, (job.kind, Building("waiting", 0, encoder=_encoder(job)))
            )
        return News(building, problems)

    def close(self) -> None:
        """Stop at once; what is being built is undone."""
        with self._condition:
            self._closing = True
            self._jobs.clear()
            self._condition.notify_all()
            process = self._process

        if process is not None:
            _stop(process)
        if self._thread is not None:
            self._thread.join(STOP_TIMEOUT_S)
        if process is not None:
            _close_pipes(process)

    # ---- the builder's own thread

    def _work(self) -> None:
        while (job := self._next()) is not None:
            event = self._run(job)
            if event["end"] == "busy":
                self._again_later(job)
                continue

            with self._condition:
                self._running = None
                before = self._problems.pop(job.corpus, None)
                if event["end"] == "failed":
                    self._problems[job.corpus] = event["message"]
            self._changed(self.news())

            # A problem is not logged again while it stays the same.
            if event["end"] == "failed" and event["message"] != before and not self._closing:
                _log.error("%s: %s", job.corpus, event.get("trace", event["message"]))
            elif event["end"] == "built":
                self._log_remarks(job.corpus, event.get("remarks", []))
                self._built(job.corpus)

    def _log_remarks(self, corpus: str, remarks: list[str]) -> None:
        """Log what a build has to say of its sources, unless the one before said the same."""
        if remarks != self._remarks.get(corpus, []):
            for remark in remarks:
                _log.warning("%s: %s", corpus, remark)
        self._remarks[corpus] = remarks

    def _next(self) -> Job | None:
        """Wait for the next job; None at the end."""
        if not self._keep:
            self._end_idle_process()

        with self._condition:
            self._condition.wait_for(lambda: self._jobs or self._closing)
            if self._closing:
                return None

            job = self._jobs.pop(0)
            self._running = _Running(job)
            return job

    def _run(self, job: Job) -> dict[str, Any]:
        """Have a job done, and return its last event."""
        lines = Lines(lambda line: _log.info("%s: %s", job.corpus, line))

        try:
            process = self._started()
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(job.to_json() + "\n")
            process.stdin.flush()

            for line in process.stdout:
                event: dict[str, Any] = json.loads(line)
                if "end" in event:
                    return event

                progress = (event["stage"], event["done"], event["total"])
                with self._condition:
                    assert self._running is not None
                    begins = self._running.stage == "start"
                    self._running.update(*progress)
                self._changed(self.news())
                if begins:
                    _log.info("%s is being built", job.corpus)
                lines(*progress)
        except (OSError, ValueError) as error:
            _log.debug("%s: %s", job.corpus, error)

        return {"end": "failed", "message": "The process that builds corpora ended; see the log."}

    def _again_later(self, job: Job) -> None:
        _log.info("%s is being built by another process", job.corpus)
        with self._condition:
            self._running = None
            self._condition.wait_for(lambda: self._closing, BUSY_RETRY_S)
        self.add(job)

    # ---- the process

    def _end_idle_process(self) -> None:
        """End the process if no job waits for it: its encoders take memory."""
        with self._condition:
            if self._jobs or self._process is None:
                return
            idle, self._process = self._process, None
        _stop(idle)
        _close_pipes(idle)

    def _started(self) -> subprocess.Popen[str]:
        with self._condition:
            if self._closing:
                raise OSError("closing")

            if self._process is not None and self._process.poll() is not None:
                _close_pipes(self._process)
                self._process = None

            if self._process is None:
                # In a session of its own: Ctrl-C reaches the server alone, which stops it in order.
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "purlin.app.corpora.indexer", str(self._home)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                    start_new_session=True,
                )

            return self._process


def _stop(process: subprocess.Popen[str]) -> None:
    """End the process, which gets STOP_TIMEOUT_S to undo what it has begun."""
    process.terminate()
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _close_pipes(process: subprocess.Popen[str]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            # A job that was not read is still in the buffer.
            with suppress(OSError):
                pipe.close()


def _progress(running: _Running) -> Building:
    remaining_s = running.pace.remaining_s
    return Building(
        running.stage,
        running.finished_count,
        running.total,
        None if remaining_s is None else round(remaining_s, 1),
        _encoder(running.job),
    )


def _encoder(job: Job) -> str | None:
    """Name of the encoder of a demo corpus; another corpus keeps the one that it has."""
    return encoder_name(job.encoders[0]) if job.task == "demo" else None
