"""What agents' tools work on without a server: the workspace around a directory, and a home.

The workspace is opened at the first call that needs it, and refreshed before each answer. Where that
takes long, the last build answers, or if there is none, a sentence that says so; the indexing goes on.

The corpora of the home, the classifier and the reader are loaded at the first call that needs one of
them, so that an agent that only searches its repository waits for none.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from purlin.app.agents.backend import Backend, marked, reply_of
from purlin.app.agents.choosing import with_warning
from purlin.index.errors import Busy, InvalidInput
from purlin.index.file_filters import content_filter, with_language_names
from purlin.index.indexing.staleness import changed_since
from purlin.index.lookups import Once
from purlin.index.pace import amount
from purlin.index.records import Content, Kind
from purlin.index.search.corpus import Corpus
from purlin.index.workspaces.better_vectors import BestWorkspace, workspace_of
from purlin.index.workspaces.repositories import find_root
from purlin.index.workspaces.workspace import Workspace
from purlin.replies import ClassifyReply, QaReply, SearchReply

if TYPE_CHECKING:
    from purlin.app.agents.served import ServedCorpora
    from purlin.app.corpora.open_corpora import OfKind

# Names of the workspace as corpora, for each kind of content that it has.
WORKSPACES: Mapping[str, Kind] = {"workspace": "code", "workspace-docs": "reference"}
_CODE, _DOCS = WORKSPACES
_POLL_S = 0.02
# How long a call waits for the index: less than the minute after which many clients give up.
ANSWER_S = 40.0
# The same if the last build can answer.
PATIENCE_S = 10.0

_log = logging.getLogger("purlin.mcp")


class LocalCorpora(Backend):
    """The workspace around `path` and the corpora below `home`; without a server, nobody reads metrics.

    `encoder` is that of the workspace: a released one's word or a directory; without it, the best
    vectors that are ready are used. Safe to share between threads; those that use the workspace
    take turns.
    """

    def __init__(self, path: Path, home: Path, encoder: str | None = None) -> None:
        self._path = path
        self._home = home
        self._encoder = encoder
        self._workspaces: dict[str, Workspace | BestWorkspace] = {}
        # Held by the call that uses the workspace, or by the indexing that it no longer waits for.
        self._turn = threading.Lock()
        self._indexing: str | None = None
        # Whether no call waits any more for the indexing under way.
        self._is_late = False
        # The threads of the calls that wait for the index.
        self._waiting: set[int] = set()
        # What an indexing raised that no call waited for any more; the next call raises it.
        self._unheard: BaseException | None = None
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
        with self._fresh(corpora[0]) as (opened, warning):
            conditions = content_filter(opened.field_names, content, with_language_names(filter))
            result = opened.search(query, k=k, filter=conditions, explain=True)
            reply = reply_of(self, corpora[0], opened, result)
            return with_warning(reply, warning)

    def ask(self, corpus: str, question: str, k: int) -> QaReply:
        """Answers from the documentation of the workspace, or from a reference of the home."""
        served = self._in_home()
        if corpus not in WORKSPACES:
            return served.ask(corpus, question, k)
        with self._fresh(corpus) as (opened, warning):
            reply = served.answer(opened, question, k)
            reply = replace(reply, corpus=corpus, hits=marked(self, opened, reply.hits))
            return with_warning(reply, warning)

    def classify(self, arguments: Mapping[str, Any]) -> ClassifyReply:
        """Labels of texts, by the names of labels or by a trained classifier of the home."""
        return self._in_home().classify(arguments)

    # ---- opening

    @contextmanager
    def opened(self, corpus: str) -> Iterator[Corpus]:
        """Keep the workspace, as it is now, or a corpus of the home open. Raises NotFound."""
        if corpus in WORKSPACES:
            with self._fresh(corpus) as (opened, _):
                yield opened
        else:
            with self._in_home().opened(corpus) as opened:
                yield opened

    def changed(self, corpus: Corpus, paths: Iterable[str | None]) -> set[str]:
        """Files that have changed since the build: after the refresh, or while others indexed them."""
        return changed_since(corpus.manifest, {path for path in paths if path is not None})

    def progress(self, thread: int) -> str | None:
        """How far the indexing is that the call of a thread waits for; None if it waits for none."""
        return self._indexing if thread in self._waiting else None

    @contextmanager
    def _fresh(self, corpus: str) -> Iterator[tuple[Corpus, str | None]]:
        """The workspace's corpus, with the files as they are now; others wait until the block ends.

        Where indexing them takes long, it is the last build, with a warning. Raises Busy without one.
        """
        refreshed = self._refreshing(corpus)
        if refreshed is None:
            with self._last_build(corpus) as opened:
                yield opened, self._old_warning()
            return

        try:
            yield refreshed.result().corpus, None
        finally:
            self._turn.release()

    def _refreshing(self, corpus: str) -> Future[Workspace | BestWorkspace] | None:
        """The refresh of a workspace when it has ended, in the caller's turn; None if that takes too long."""
        started = time.monotonic()
        if not self._await(lambda seconds: self._turn.acquire(timeout=seconds), corpus, started):
            return None

        refreshed: Future[Workspace | BestWorkspace] = Future()
        # A daemon, which a client that ends this process need not wait for.
        thread = threading.Thread(target=self._refresh, args=(corpus, refreshed), daemon=True)
        try:
            self._raise_unheard()
            thread.start()
        except BaseException:
            self._turn.release()
            raise

        if self._await(lambda seconds: bool(wait([refreshed], seconds).done), corpus, started):
            return refreshed
        # Before the refresh is cancelled: its thread says when it has ended.
        self._is_late = True
        if refreshed.cancel():
            return None
        self._is_late = False
        return refreshed

    def _await(self, is_ready: Callable[[float], bool], corpus: str, started: float) -> bool:
        """Whether something is ready in time, which is sooner if the last build can answer.

        `is_ready` waits for it at most for a number of seconds; the call has waited since `started`.
        """
        thread = threading.get_ident()
        self._waiting.add(thread)
        try:
            patience_s = 0.0 if self._is_late else min(PATIENCE_S, ANSWER_S)
            if is_ready(_remaining_s(started, patience_s)):
                return True
            workspace = self._workspaces.get(corpus)
            if workspace is not None and workspace.is_open:
                return False
            return is_ready(_remaining_s(started, ANSWER_S))
        finally:
            self._waiting.discard(thread)

    @contextmanager
    def _last_build(self, corpus: str) -> Iterator[Corpus]:
        """The build of a workspace before the one that is being made. Raises Busy without one."""
        workspace = self._workspaces.get(corpus)
        if workspace is None:
            raise self._still_indexing()
        with workspace.last_build() as opened:
            if opened is None:
                raise self._still_indexing()
            yield opened

    def _refresh(self, corpus: str, refreshed: Future[Workspace | BestWorkspace]) -> None:
        """Open or refresh a workspace; ends the turn of a call that no longer waits for it."""
        try:
            workspace, error = self._refreshed(corpus), None
        except BaseException as raised:  # noqa: BLE001 - the call raises it
            workspace, error = None, raised
        self._indexing = None

        if not refreshed.set_running_or_notify_cancel():
            self._unheard = error
            self._is_late = False
            self._turn.release()
        elif workspace is not None:
            refreshed.set_result(workspace)
        else:
            refreshed.set_exception(error)

    def _raise_unheard(self) -> None:
        error, self._unheard = self._unheard, None
        if error is not None:
            raise error

    def _refreshed(self, corpus: str) -> Workspace | BestWorkspace:
        self._indexing = "listing the files"
        workspace = self._workspaces.get(corpus)
        if workspace is None:
            root = find_root(self._path)
            workspace = workspace_of(root, WORKSPACES[corpus], self._encoder)
            self._workspaces[corpus] = workspace

        workspace.refresh(self._note_progress)
        for note in workspace.notes:
            _log.info("%s", note)
        return workspace

    def _note_progress(self, stage: str, finished_count: int, total: int | None) -> None:
        self._indexing = amount(stage, finished_count, total)

    def _still_indexing(self) -> Busy:
        return Busy(
            f"{find_root(self._path)} is still being indexed{self._so_far()}. "
            "Call again in a minute; until then, use grep."
        )

    def _old_warning(self) -> str:
        return (
            f"The index is being brought up to date{self._so_far()}; "
            "this is of the index before, with hits in changed files marked."
        )

    def _so_far(self) -> str:
        return f" ({self._indexing})" if self._indexing else ""

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


def _remaining_s(started: float, limit_s: float) -> float:
    """Seconds until a time limit is over that began at `started`."""
    return max(started + limit_s - time.monotonic(), 0.0)


def _resolved(path: Path, argument: str) -> Path:
    """The path without symbolic links. Raises InvalidInput for what cannot be a path."""
    try:
        return path.resolve()
    except (OSError, ValueError, RuntimeError):
        raise InvalidInput(
            f"path is {argument[:200]!r}, which is no path; give one relative to the root.",
            field="path",
        ) from None
