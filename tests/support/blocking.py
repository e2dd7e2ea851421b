"""An encoder that waits for its test, and calls in threads of their own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from purlin.index.encoder import Vectors
from purlin.index.records import Role
from tests.support.hash_encoder import HashEncoder


class BlockingEncoder(HashEncoder):
    """Records each call for queries, which then waits for a permit (`permits.release`).

    Passages are encoded at once: opening a corpus encodes those of its self-check.
    """

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[list[str]] = []
        self.permits = threading.Semaphore(0)

    def encode(
        self, texts: Sequence[str], *, role: Role, progress: Callable[[int], None] | None = None
    ) -> Vectors:
        if role == "query":
            self.calls.append(list(texts))
            self.permits.acquire()
        if "bad" in texts:
            raise ZeroDivisionError("bad")
        return super().encode(texts, role=role, progress=progress)


class BackgroundCall(threading.Thread):
    """A call in a thread of its own; keeps what the call returned or raised."""

    def __init__(self, call: Callable[[], Any]) -> None:
        super().__init__(daemon=True)
        self._call = call
        self.result: Any = None
        self.start()

    def run(self) -> None:
        try:
            self.result = self._call()
        except Exception as error:  # noqa: BLE001 - for the test to look at
            self.result = error

    def outcome(self) -> Any:
        self.join(60)
        assert not self.is_alive()
        return self.result
