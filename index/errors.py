"""Everything that can go wrong on purpose, as one small tree.

Each message is a sentence for a person: it names what is wrong, the limit if there is one, and the remedy.
"""

from __future__ import annotations


class PurlinError(Exception):
    """Base of all expected errors. `field` names the offending input, where there is one."""

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.field = field


class InvalidInput(PurlinError):
    """A value the caller gave is outside what is accepted."""


class NotFound(PurlinError):
    """A corpus, build, document, classifier or path that does not exist."""


class Damaged(PurlinError):
    """A file on disk is missing, truncated or altered."""


class Altered(Damaged):
    """A file was changed while it was in use: what is open cannot be trusted any more."""


class EncoderMismatch(PurlinError):
    """An index was made with another encoder than the one at hand."""


class Worse(PurlinError):
    """A build that was measured to answer judged queries worse than the active one."""


class Busy(PurlinError):
    """Another process holds the lock, for instance on a corpus being built."""


class StorageFailed(PurlinError):
    """The disk is full, read-only or failing."""
