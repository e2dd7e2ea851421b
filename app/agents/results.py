"""What results of several tools say: origin, limits, places and reasons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from purlin.app.agents.budget import Result
from purlin.app.agents.tool import MAX_SHOWN
from purlin.index.records import Hit, Location
from purlin.index.search.why import relevant, why
from purlin.replies import QaReply, SearchReply


def without_unlike(reply: SearchReply) -> SearchReply:
    """The reply without hits that have nothing in common with the query."""
    return replace(reply, hits=tuple(relevant(reply.hits)))


def search_head(
    reply: SearchReply,
    count: int,
    near: str | None = None,
    changed: int = 0,
    root: Path | None = None,
    related: str | None = None,
) -> Result:
    """The head of a result that shows the first `count` hits, whose paths are relative to `root`.

    `related` says how many documents are related to a symbol as the query asks.
    """
    shown = reply.hits[:count]
    if not shown:
        return warned_head(
            Result(f"Nothing in {corpus_names(reply)} fits.", origin_fields(reply)), reply
        )

    total = "1 hit" if len(reply.hits) == 1 else f"{len(reply.hits)} hits"
    subject = f" near {near[:MAX_SHOWN]}" if near else ""
    text = f"{total}{subject} in {origin_text(reply, shown)}"
    structured = origin_fields(reply, shown)
    if related is not None:
        text += f"; {related}"
        structured["related"] = reply.related
    if root is not None:
        text += f"; paths are below {root}"
        structured["root"] = str(root)
    if changed:
        text += f"; files changed since: {changed}, read these before you rely on them"
        structured["changed_files"] = changed
    return warned_head(Result(one_line(text), structured), reply)


def warned_head(head: Result, reply: SearchReply | QaReply) -> Result:
    """Add what limits the reply, such as that only one of two retrievers answered."""
    if isinstance(reply, SearchReply) and reply.corrected is not None:
        corrected = reply.corrected[:MAX_SHOWN]
        text = f"{head.text}. Searched for {corrected!r}"
        head = Result(text, {**head.structured, "corrected": corrected})
    return limited(head, reply.warning)


def limited(head: Result, warning: str | None) -> Result:
    """Add a warning, if there is one."""
    if warning is None:
        return head
    warning = warning[:MAX_SHOWN]
    return Result(
        f"{head.text.removesuffix('.')}. {warning}", {**head.structured, "warning": warning}
    )


def _origins(reply: SearchReply | QaReply, shown: Sequence[Hit]) -> list[dict[str, Any]]:
    """Corpus, build and encoder of the corpus that a reply is of; of several, those of `shown`."""
    searched: Sequence[Any] = [reply]
    if isinstance(reply, SearchReply) and reply.corpora:
        names = {hit.corpus for hit in shown}
        searched = [each for each in reply.corpora if each.corpus in names]
    return [
        {"corpus": each.corpus, "build": each.build, "encoder": each.encoder} for each in searched
    ]


def origin_fields(reply: SearchReply | QaReply, shown: Sequence[Hit] = ()) -> dict[str, Any]:
    """The origins as JSON."""
    origins = _origins(reply, shown)
    if isinstance(reply, SearchReply) and reply.corpora:
        return {"corpora": origins}
    return origins[0]


def origin_text(reply: SearchReply | QaReply, shown: Sequence[Hit] = ()) -> str:
    """The origins as text."""
    return ", ".join(
        f"{origin['corpus']} (build {origin['build']}, {origin['encoder']})"
        for origin in _origins(reply, shown)
    )


def corpus_names(reply: SearchReply) -> str:
    """Names of all corpora that were searched, as many as a line takes."""
    names = [str(each.corpus) for each in reply.corpora or [reply]]
    line = ", ".join(names)
    return line if len(line) <= MAX_SHOWN else f"{line[:MAX_SHOWN]}… ({len(names)} corpora)"


def one_line(head: str) -> str:
    """A head with its ends of lines escaped: names of files and values of products may have some."""
    return head.replace("\n", r"\n")


def describe_location(location: Location, document_id: str) -> tuple[str, dict[str, Any], str]:
    """Path, lines as fields, and lines as text (`:1-3`) of a document."""
    path = (location.path or document_id)[:MAX_SHOWN]
    if not location.start_line:
        return path, {}, ""
    lines = {"start_line": location.start_line, "end_line": location.end_line}
    return path, lines, f":{location.start_line}-{location.end_line}"


def match_reason(query: str, hit: Hit) -> str:
    """Why a hit matches, as people read it; words of a query can be of any length."""
    return why(query, hit)[:MAX_SHOWN]
