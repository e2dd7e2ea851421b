"""Follows the corpora of a Milvus: the builds that other servers make, switch, roll back and delete."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

from purlin.index.engines import hosting
from purlin.index.engines.milvus import Connection
from purlin.index.errors import Busy, PurlinError

INTERVAL_S = 10.0
_log = logging.getLogger("purlin.following")


class Follower:
    """Attaches the active builds of a Milvus to `home`, now and whenever one is switched.

    A corpus that has disappeared from there is removed here, too. One that was never seen there stays,
    since it may belong to another Milvus. A corpus whose documents are on this machine stays as it is,
    even if one there has the same name.
    """

    def __init__(self, home: Path, connection: Connection) -> None:
        self._home = home
        self._connection = connection
        self._attached: set[str] = set()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="follower", daemon=True)

    def start(self) -> None:
        """Begin to follow; returns at once."""
        self._thread.start()

    def close(self) -> None:
        """Stop following."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(self._connection.timeout_s)

    def _run(self) -> None:
        last_problem = ""
        while not self._stopped.is_set():
            problem = self._follow_all()
            if problem and problem != last_problem:
                _log.warning("%s", problem)
            last_problem = problem
            self._stopped.wait(INTERVAL_S)

    def _follow_all(self) -> str:
        """Follow each corpus once, and return the last problem; empty if there was none."""
        problem = ""
        try:
            names = hosting.hosted(self._connection)
        except PurlinError as error:
            return error.message

        for name in sorted({*names, *self._attached}):
            try:
                self._follow_one(name, is_there=name in names)
            except Busy:
                # This machine is building it; the next round sees the result.
                continue
            except PurlinError as error:
                problem = error.message
        return problem

    def _follow_one(self, name: str, *, is_there: bool) -> None:
        if is_there:
            hosting.attach(self._home, name, self._connection)
            self._attached.add(name)
        # Another server may be halfway through its deletion.
        elif hosting.detach(self._home, name, self._connection):
            self._attached.remove(name)
            _log.info("%s was deleted in Milvus", name)
