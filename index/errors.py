"""Exceptions that Purlin raises on purpose, as one small tree.

Each message is a sentence for people: it names the problem, the limit if there is one, and the
remedy.
"""

from __future__ import annotations


class PurlinError(Exception):
    """Base of all expected errors. `field` names the offending input, if there is one."""

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.field = field


class InvalidInput(PurlinError):
    """A value from the caller is not accepted."""


class WrongType(InvalidInput):
    """A value of a filter is of another type than all values of its field."""


class NotFound(PurlinError):
    """A corpus, build, document, classifier or path does not exist."""


def no_document(document_id: str) -> NotFound:
    """Return the error of a document that a corpus does not have."""
    return NotFound(
        f"There is no document {document_id[:200]!r} in this corpus: give the document_id of a hit.",
        field="id",
    )


class Damaged(PurlinError):
    """A file on disk is missing, truncated or altered."""


class Altered(Damaged):
    """A file was changed while it was in use, so what is open can no longer be trusted."""


class EncoderMismatch(PurlinError):
    """A build was made with another encoder than the loaded one."""


class Worse(PurlinError):
    """A build answers judged queries worse, or lacks most products or the end of a file."""


class Busy(PurlinError):
    """Another process holds the lock, for example of a corpus that is being built."""


class StorageFailed(PurlinError):
    """The disk is full, read-only or failing."""


class EngineFailed(PurlinError):
    """An engine or cluster that is needed is down, slow, or not the right one."""


class EngineAway(EngineFailed):
    """An engine cannot be reached or does not answer in time; a later attempt may succeed."""


def read_problem(error: OSError) -> str:
    """Return what is wrong with a file that cannot be read, with the remedy if it is forbidden."""
    remedy = ""
    if isinstance(error, PermissionError):
        remedy = ": give this user read permission, also for the directories above, as `chmod -R a+rX` does"
    return f"cannot be read ({error.strerror}{remedy})"
