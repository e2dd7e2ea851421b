"""Finds the corpora and the document that a call of a tool means."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from purlin.app.agents.backend import Backend, Opened
from purlin.app.errors import listed
from purlin.index.errors import InvalidInput, NotFound
from purlin.index.records import Kind
from purlin.index.search.several import MAX_CORPORA
from purlin.replies import QaReply, SearchReply

_FILE_LINE = re.compile(r"(?P<path>.+):(?P<line>[1-9]\d{0,8})(?:-\d{1,9})?")

# A path with a suffix, perhaps with a name behind it, and nothing that ids of code have.
_FILE = re.compile(r"(?P<path>[^:#]+\.\w+)(?::[^\W\d][\w.]*)?")

ReplyT = TypeVar("ReplyT", SearchReply, QaReply)


def choose_corpora(backend: Backend, kind: Kind, name: str | None) -> tuple[list[str], str | None]:
    """The corpus named in the call, or the default one, or all of its kind.

    If all are meant, also a sentence on those that cannot be searched now. Raises InvalidInput,
    which lists the corpora to choose from, or NotFound.
    """
    if name is not None:
        actual = backend.kind(name)
        if actual not in (kind, None):
            raise InvalidInput(
                f"Corpus {name!r} is of kind {actual}. "
                f"Those of kind {kind}: {listed(backend.of_kind(kind).names) or 'none'}.",
                field="corpus",
            )
        return [name], None

    if (default := backend.default(kind)) is not None:
        return [default], None
    names, left_out = backend.of_kind(kind)
    if not names:
        raise NotFound(f"There is no corpus of kind {kind} here.", field="corpus")
    return (names if len(names) <= MAX_CORPORA else [only_name(names)]), left_out


def with_warning(reply: ReplyT, warning: str | None) -> ReplyT:
    """Add a warning before what limits the reply itself."""
    return replace(reply, warning=" ".join(filter(None, [warning, reply.warning])) or None)


def any_corpus(backend: Backend, name: str | None) -> str:
    """The corpus named in the call, or the one for code, or the only one there is."""
    if name is not None:
        backend.kind(name)
        return name
    if (default := backend.default("code")) is not None:
        return default

    names = backend.of_kind("code").names or [
        name for kind in ("reference", "product") for name in backend.of_kind(kind).names
    ]
    if not names:
        raise NotFound("There is no corpus here.", field="corpus")
    return only_name(names)


def only_name(names: Sequence[str]) -> str:
    """The name, if it is the only one. Raises InvalidInput, which lists those to choose from."""
    if len(names) > 1:
        raise InvalidInput(
            f"There are several: set `corpus` to one of {listed(names)}.", field="corpus"
        )
    return names[0]


@contextlib.contextmanager
def opened_document(backend: Backend, name: str, identifier: str) -> Iterator[tuple[Opened, str]]:
    """Keep a corpus open, and yield it with the id of the document that a call means.

    In code, `path:line` and `path:first-last` mean the innermost document at that line. NotFound of
    a file of code says that a line of it names one of its documents.
    """
    match = _FILE_LINE.fullmatch(identifier)
    # Ids of products and of sections may look like lines of files.
    if match and backend.kind(name) != "code":
        match = None

    try:
        path = backend.relative(name, match["path"]) if match else ""
        with backend.opened(name) as opened:
            if match:
                identifier = opened.corpus.document_at(path, int(match["line"])).id
            yield opened, identifier
    except NotFound as error:
        file = _FILE.fullmatch(identifier)
        if error.field != "id" or not file or backend.kind(name) != "code":
            raise
        message = f"{error.message} Of a file, name a line as well: {file['path'][:200]}:1"
        raise NotFound(message, field="id") from None
