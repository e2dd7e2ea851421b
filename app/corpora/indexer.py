"""The process that builds corpora for a server: `python -m purlin.app.corpora.indexer HOME`.

It is a process of its own, so that reading and encoding never hold up requests, and so that it can be
stopped at any moment. It reads jobs from standard input, one line of JSON each, and
writes events to standard output:

    {"corpus": "code", "task": "demo", "encoders": ["/models/static"]}
    {"stage": "read", "done": 256, "total": null}
    {"end": "built", "remarks": []}

`task` is "demo" for a demo corpus, or "repeat" for one whose sources, or the rules by which they are
read, have changed. `end` is "built", then with the build's `remarks` for the log, "unchanged", "busy"
or "failed", then with a `message`, and a `trace` of an unexpected error. The process ends with its
input.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Literal

from purlin.index import builds
from purlin.index.builds.manifests import Manifest, read_manifest
from purlin.index.builds.remarks import read_remarks
from purlin.index.cpus import available_cpus
from purlin.index.demo import demos
from purlin.index.encoder import TextEncoder, find_encoder, is_static
from purlin.index.encoder.tuning import load_tuned
from purlin.index.errors import Busy, EncoderMismatch, PurlinError
from purlin.index.indexing.build import build
from purlin.index.indexing.builder import Options
from purlin.index.indexing.repeat import is_due, repeat_build
from purlin.index.indexing.staleness import seconds_since_write
from purlin.index.pace import Progress

End = Literal["built", "unchanged", "busy", "failed"]
EVENTS_PER_S = 5
NICENESS = 5
# A catalogue that was written less than QUIET_S ago may be written on; others must not wait for it for ever.
QUIET_S, MAX_WAIT_S = 2.0, 60.0


class Indexer:
    """Does jobs one after the other, and keeps the encoders that they need open."""

    def __init__(self, home: Path, write: Callable[[Mapping[str, Any]], None]) -> None:
        self._home = home
        self._write = write
        self._encoders: dict[str, TextEncoder] = {}

    def work(self, job: Mapping[str, Any]) -> None:
        """Do a job, and write its events."""
        try:
            end: End = self._demo(job) if job["task"] == "demo" else self._repeat(job)
            remarks = {"remarks": self._remarks(job["corpus"])} if end == "built" else {}
        except Busy:
            self._write({"end": "busy"})
        except PurlinError as error:
            self._write({"end": "failed", "message": error.message})
        except Exception as error:  # noqa: BLE001 - one job must not end the others
            message = f"It cannot be built ({type(error).__name__}); see the log."
            self._write({"end": "failed", "message": message, "trace": traceback.format_exc()})
        else:
            self._write({"end": end, **remarks})

    def _demo(self, job: Mapping[str, Any]) -> End:
        """Build a demo corpus, if it is due."""
        demo = next(demo for demo in demos() if demo.name == job["corpus"])
        if builds.is_deleted(self._home, demo.name):
            # While its job waited.
            return "unchanged"
        encoder = self._open(job["encoders"][0])
        if not is_static(Path(job["encoders"][0])):
            _give_way()
        if not demo.is_due(self._home, encoder.fingerprint):
            return "unchanged"

        build(
            self._home,
            demo.name,
            demo.kind,
            demo.sources(),
            encoder,
            options=Options(origin=(demo.about,)),
            progress=self._progress(),
        )
        return "built"

    def _repeat(self, job: Mapping[str, Any]) -> End:
        """Build a corpus again if that would change it, with the encoder that made its vectors."""
        home, corpus = self._home, job["corpus"]
        # It may have been deleted while its job waited.
        if not builds.exists(home, corpus) or not is_due(home, corpus):
            return "unchanged"

        active = builds.current(home, corpus)
        _await_end_of_writing(read_manifest(active))
        encoder = self._encoder_of(read_manifest(active), job["encoders"])
        repeat_build(home, corpus, encoder, progress=self._progress())
        return "built" if builds.current(home, corpus) != active else "unchanged"

    def _remarks(self, corpus: str) -> list[str]:
        """Return what the active build of a corpus has to say of its sources."""
        directory = builds.current(self._home, corpus)
        return read_remarks(directory, read_manifest(directory).files).problems()

    def _open(self, directory: str) -> TextEncoder:
        if directory not in self._encoders:
            self._encoders[directory] = load_tuned(
                Path(directory), measure=False, max_threads=_threads()
            )
        return self._encoders[directory]

    def _encoder_of(self, manifest: Manifest, directories: Sequence[str]) -> TextEncoder:
        made_by = manifest.encoder
        for encoder in self._encoders.values():
            if encoder.fingerprint == made_by["fingerprint"]:
                return encoder

        maker = find_encoder(made_by, map(Path, directories), threads=_threads())
        if maker is None:
            raise EncoderMismatch(
                f"Corpus {manifest.name!r} was built with encoder {made_by['name']!r}, which this "
                "server does not have: set PURLIN_ENCODER to it, or build the corpus again."
            )
        self._encoders[made_by["fingerprint"]] = maker
        return maker

    def _progress(self) -> Progress:
        """Write a few events a second, and the first and last one of each stage."""
        last_stage, next_at = "", 0.0

        def progress(stage: str, finished_count: int, total: int | None) -> None:
            nonlocal last_stage, next_at
            now = time.monotonic()
            if stage == last_stage and finished_count != total and now < next_at:
                return
            last_stage, next_at = stage, now + 1 / EVENTS_PER_S
            self._write({"stage": stage, "done": finished_count, "total": total})

        return progress


def _await_end_of_writing(manifest: Manifest) -> None:
    """Wait until a catalogue has not been written for QUIET_S, for MAX_WAIT_S at most.

    What ends behind a row looks whole, and its other products would be deleted.
    """
    deadline = time.monotonic() + MAX_WAIT_S
    while manifest.kind == "product" and time.monotonic() < deadline:
        rest = QUIET_S - seconds_since_write(manifest)
        if rest <= 0:
            return
        time.sleep(rest)


def _threads() -> int:
    """Threads of an encoder: a core is left for requests, where there is more than one."""
    return max(1, available_cpus() - 1)


def _give_way() -> None:
    """Let requests come first where processors are scarce: better vectors can wait."""
    os.nice(max(0, NICENESS - os.nice(0)))


def main() -> None:
    """Do the jobs of standard input until it ends, or at SIGTERM; what is unfinished is undone."""
    # Anything that a library prints goes to the log.
    events = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)

    jobs: queue.SimpleQueue[str] = queue.SimpleQueue()
    signal.signal(signal.SIGTERM, _stop)
    signal.signal(signal.SIGINT, _stop)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    threading.Thread(target=_read_jobs, args=(sys.stdin, jobs), daemon=True).start()
    indexer = Indexer(Path(sys.argv[1]), lambda event: print(json.dumps(event), file=events))
    try:
        while True:
            indexer.work(json.loads(jobs.get()))
    except (KeyboardInterrupt, BrokenPipeError):
        # `build` has removed what it had begun.
        os._exit(0)


def _read_jobs(lines: IO[str], jobs: queue.SimpleQueue[str]) -> None:
    for line in lines:
        jobs.put(line)
    # The server has ended, perhaps by a kill, so nobody waits for what is being built.
    os.kill(os.getpid(), signal.SIGTERM)


def _stop(number: int, frame: object) -> None:
    """Undo what is under way; further signals must not interrupt that."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
