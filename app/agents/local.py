"""What agents' tools work on without a server: the workspace around a directory, and a home.

The corpora of the home, the classifier and the reader are loaded at the first call that needs one of
them, so that an agent that only searches its repository waits for none.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from purlin.app.agents.backend import Backend, Opened, marked, reply_of
from purlin.app.agents.choosing import with_warning
from purlin.app.agents.fresh import FreshIndex
from purlin.index.errors import InvalidInput
from purlin.index.file_filters import content_filter, with_language_names
from purlin.index.indexing.staleness import changed_since
from purlin.index.lookups import Once
from purlin.index.records import Content, Kind
from purlin.index.search.corpus import Corpus
from purlin.index.workspaces.other_content import (
    default_content,
    is_configuration,
    with_other_content,
)
from purlin.index.workspaces.repositories import find_root
from purlin.replies import ClassifyReply, QaReply, SearchReply

if TYPE_CHECKING:
    from purlin.app.agents.served import ServedCorpora
    from purlin.app.corpora.open_corpora import OfKind

# Names of the workspace as corpora, for each kind of content that it has.
WORKSPACES: Mapping[str, Kind] = {"workspace": "code", "workspace-docs": "reference"}
_CODE, _DOCS = WORKSPACES
_POLL_S = 0.02


_NO_CODE = "There is no code here: documentation and configuration were searched."
_CONFIGURATION_FIRST = 'The first hit is configuration; content "config" has more of it.'


class LocalCorpora(Backend):
    """The workspace around `path` and the corpora below `home`; without a server, nobody reads metrics.

    `encoder` is that of the workspace: a released one's word or a directory; without it, the best
    vectors that are ready are used. Safe to share between threads.
    """

    def __init__(self, path: Path, home: Path, encoder: str | None = None) -> None:
        self._path = path
        self._home = home
        self._indexes = {name: FreshIndex(path, kind, encoder) for name, kind in WORKSPACES.items()}
        # The corpora of the home, after waiting until all are open or refused.
        self._in_home = Once(self._open_home)

    # ---- choosing

    def of_kind(self, kind: Kind) -> OfKind:
        """The workspace, and the corpora of this kind in the home."""
        own = [name for name, its_kind in WORKSPACES.items() if its_kind == kind]
        in_home = self._in_home().of_kind(kind)
        return in_home._replace(names=own + in_home.names)

    def default(self, kind: Kind) -> str | None:
        """The workspace for code; for questions its documentation, unless a home has references."""
        if kind == "code":
            return _CODE
        if kind == "reference" and not self._in_home().of_kind("reference").names:
            return _DOCS
        return None

    def kind(self, corpus: str) -> Kind | None:
        """Kind of a corpus. Raises NotFound."""
        return WORKSPACES.get(corpus) or self._in_home().kind(corpus)

    def relative(self, corpus: str, path: str) -> str:
        """Path below the workspace's root, also of an absolute path.

        Raises InvalidInput for one that leads outside, be it by a symbolic link.
        """
        if corpus not in WORKSPACES:
            return self._in_home().relative(corpus, path)

        root = find_root(self._path)
        target = _resolved(root / path, path)
        if not target.is_relative_to(root):
            raise InvalidInput(
                f"path is {path[:200]!r}, which leads outside of {root}; "
                "give a path in that directory, relative to it.",
                field="path",
            )
        relative = target.relative_to(root).as_posix()
        if relative == ".":
            return ""
        return f"{relative}/" if path.endswith("/") else relative

    def root(self, corpus: str) -> Path | None:
        """The workspace's root, unless it is the working directory, which is the agent's."""
        if corpus not in WORKSPACES:
            return None

        root = find_root(self._path)
        return None if root.samefile(".") else root

    # ---- searching

    def search(
        self,
        corpora: Sequence[str],
        query: str,
        k: int,
        filter: Mapping[str, Any],
        content: Content,
    ) -> SearchReply:
        """Search the workspace as it is now, or corpora of the home."""
        if corpora[0] not in WORKSPACES:
            return self._in_home().search(corpora, query, k, filter, content)
        with self.opened(corpora[0]) as (corpus, warning):
            searched = default_content(corpus) if content == "code" else content
            conditions = content_filter(corpus.field_names, searched, with_language_names(filter))
            result = corpus.search(query, k=k, filter=conditions, explain=True)
            if searched == "code":
                hits = with_other_content(corpus, query, result.hits, k, filter)
                result = replace(result, hits=hits)
            reply = with_warning(reply_of(self, corpora[0], corpus, result), warning)
            if searched != content:
                return with_warning(reply, _NO_CODE)
            has_other = content == "code" and reply.hits and is_configuration(reply.hits[0])
            return with_warning(reply, _CONFIGURATION_FIRST if has_other else None)

    def ask(self, corpus: str, question: str, k: int) -> QaReply:
        """Answers from the documentation of the workspace, or from a reference of the home."""
        served = self._in_home()
        if corpus not in WORKSPACES:
            return served.ask(corpus, question, k)
        with self.opened(corpus) as (documentation, warning):
            reply = served.answer(documentation, question, k)
            reply = replace(reply, corpus=corpus, hits=marked(self, documentation, reply.hits))
            return with_warning(reply, warning)

    def classify(self, arguments: Mapping[str, Any]) -> ClassifyReply:
        """Labels of texts, by the names of labels or by a trained classifier of the home."""
        return self._in_home().classify(arguments)

    # ---- opening

    def opened(self, corpus: str) -> AbstractContextManager[Opened]:
        """Keep the workspace, as it is now, or a corpus of the home open. Raises Busy and NotFound."""
        index = self._indexes.get(corpus)
        return index.opened() if index else self._in_home().opened(corpus)

    def changed(self, corpus: Corpus, paths: Iterable[str | None]) -> set[str]:
        """Files that have changed since the build: after the refresh, or while others indexed them."""
        return changed_since(corpus.manifest, {path for path in paths if path is not None})

    def progress(self, thread: int) -> str | None:
        """How far the indexing is that the call of a thread waits for; None if it waits for none."""
        waits = (index.progress(thread) for index in self._indexes.values())
        return next(filter(None, waits), None)

    def _open_home(self) -> ServedCorpora:
        # The packages of the server, which take a while to import.
        from purlin.app.agents.served import ServedCorpora
        from purlin.app.encoding import Encoders
        from purlin.app.metrics import Metrics
        from purlin.app.service import Service
        from purlin.app.settings import Settings
        from purlin.index.cpus import available_cpus
        from purlin.index.encoder import ENCODERS, load_encoder

        # A server may run in the same environment: what it builds, it builds alone.
        settings = Settings.read({"home": self._home, "demo": False, "watch": False, "milvus": ""})
        encoders = Encoders(
            load_encoder(settings.encoder), tuple(ENCODERS.values()), max_calls=available_cpus()
        )
        service = Service(settings, encoders, Metrics())
        service.open()
        deadline = time.monotonic() + settings.open_timeout_s
        while not service.ready() and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        return ServedCorpora(service)


def _resolved(path: Path, argument: str) -> Path:
    """The path without symbolic links. Raises InvalidInput for what cannot be a path."""
    try:
        return path.resolve()
    except (OSError, ValueError, RuntimeError):
        raise InvalidInput(
            f"path is {argument[:200]!r}, which is no path; give one relative to the root.",
            field="path",
        ) from None
