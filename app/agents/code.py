"""Tools that find code: `search_code` and `find_related`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import Field

from purlin.app.agents.backend import Backend, path_advice, reply_of
from purlin.app.agents.budget import Part, Result, fit
from purlin.app.agents.choosing import (
    any_corpus,
    choose_corpora,
    opened_document,
    with_warning,
)
from purlin.app.agents.results import (
    corpus_names,
    describe_location,
    match_reason,
    one_line,
    origin_fields,
    search_head,
    warned_head,
    without_unlike,
)
from purlin.app.agents.tool import (
    MAX_SHOWN,
    Budget,
    CorpusArgument,
    DocumentId,
    K,
    PathArgument,
    Tool,
)
from purlin.app.fields import OptionalQuery, Strict, Text
from purlin.index.records import Content, Hit
from purlin.index.search.hits import first_line
from purlin.index.search.ranking.uses import first_use, relation_in
from purlin.index.search.snippets import opening_line, telling_row, with_short_lines
from purlin.index.search.store.filters import beginning_with, matching_line
from purlin.replies import SearchReply

# Below it, a hit beside those that a query names, as by the lines of a stack trace, is of no use.
_LIKELY = 0.2
_MAX_NUMBERS = 20  # of matching lines, of which the head of a hit names so many
_MAX_NOTES = 400  # characters on what is not indexed
# Characters of a line: a longer one is data, or minified.
_MAX_LINE_CHARS = 1000
# Long code is cut around the middle of so many rows, which say most about the query.
_TELLING_ROWS = 16


class SearchCode(Strict):
    """Arguments of `search_code`."""

    query: OptionalQuery = Field(
        default="",
        description="What the code does, in plain words, or a name; or give regexp.",
        examples=["retry with backoff"],
    )
    regexp: Text | None = Field(
        default=None,
        description="A line must match, as in ripgrep.",
    )
    corpus: CorpusArgument = Field(
        default=None, description="One of several code bases [default: all]."
    )
    path: PathArgument | None = Field(
        default=None, description="Only paths that begin so: a folder, or a whole path."
    )
    without_path: PathArgument | None = Field(
        default=None, description="Files to leave out: tests/."
    )
    language: Text | None = Field(
        default=None, description="Only this language.", examples=["python", "go"]
    )
    content: Content = Field(
        default="code",
        description="What is searched: docs are READMEs and other prose, config is YAML, CI, makefiles and the like.",
    )
    k: int = K
    max_tokens: int = Budget


def search_code(arguments: SearchCode, backend: Backend) -> Result:
    """Find code: hits with path and lines, why they match, and their text."""
    corpora, left_out = choose_corpora(backend, "code", arguments.corpus)
    conditions: dict[str, Any] = {}
    if arguments.language:
        conditions["language"] = arguments.language
    paths: dict[str, Any] = {}
    if arguments.path and (path := backend.relative(corpora[0], arguments.path)):
        paths |= beginning_with(path)
    if arguments.without_path and (path := backend.relative(corpora[0], arguments.without_path)):
        paths["not"] = beginning_with(path)
    if paths:
        conditions["path"] = paths
    if arguments.regexp is not None:
        conditions |= matching_line(arguments.regexp)

    reply = backend.search(corpora, arguments.query, arguments.k, conditions, arguments.content)
    reply = with_warning(reply, left_out)
    if conditions and not reply.hits:
        return _nothing_passes(arguments, corpora, reply, backend)
    root = backend.root(corpora[0])
    has_lines = arguments.regexp is not None
    return _code_result(
        reply, arguments.max_tokens, query=arguments.query, has_lines=has_lines, root=root
    )


def _nothing_passes(
    arguments: SearchCode, corpora: Sequence[str], reply: SearchReply, backend: Backend
) -> Result:
    """A result without hits, which says what to change about its filters, and what is not indexed."""
    filters = [
        f"{name} {value[:MAX_SHOWN]}"
        for name, value in (
            ("language", arguments.language),
            ("path", arguments.path),
            ("without_path", arguments.without_path),
            ("regexp", arguments.regexp),
        )
        if value
    ]

    advice = "leave it out" if len(filters) == 1 else "leave one of them out"
    if arguments.content != "all":
        advice += ', or search content "all"'
    text = f"Nothing in {corpus_names(reply)} fits {' and '.join(filters)}: {advice}"
    head = warned_head(Result(text, origin_fields(reply)), reply)

    text = f"{head.text.removesuffix('.')}."
    if arguments.path or arguments.regexp:
        beginning = backend.relative(corpora[0], arguments.path) if arguments.path else ""
        text += "".join(path_advice(backend, name, beginning) for name in corpora)[:_MAX_NOTES]

    result = Result(text, head.structured)
    return fit(lambda _: result, "hits", [], arguments.max_tokens)


def _code_result(
    reply: SearchReply,
    max_tokens: int,
    *,
    query: str = "",
    has_lines: bool = False,
    near: str | None = None,
    root: Path | None = None,
) -> Result:
    """Hits in code as a result, those in files that have changed since marked.

    Code that several hits have is shown with the first of them. With `has_lines`, highlights are the
    lines that match a regular expression.
    """
    reply = without_unlike(reply)
    if not has_lines:
        reply = _without_unlikely(reply)
    changed = {(hit.corpus, hit.location.path) for hit in reply.hits if hit.stale}
    related = f"{_documents(reply.total)} in all" if has_lines else _related(query, reply)
    parts: list[Part] = []
    number_of: dict[str, int] = {}
    for number, hit in enumerate(reply.hits, 1):
        twin = number_of.setdefault(hit.text, number)
        parts.append(_code_part(query, hit, twin if twin < number else None, has_lines=has_lines))
    return fit(
        lambda count: search_head(reply, count, near, len(changed), root, related),
        "hits",
        parts,
        max_tokens,
    )


def _related(query: str, reply: SearchReply) -> str | None:
    """How many documents do what the query asks for: use a symbol, test it or inherit from it."""
    relation = relation_in(query)
    if relation is None or not reply.related:
        return None
    return f"{relation.verb} {relation.symbol}: at least {_documents(reply.related)}"


def _documents(count: int) -> str:
    return "1 document" if count == 1 else f"{count} documents"


def _without_unlikely(reply: SearchReply) -> SearchReply:
    """The reply without hits that only share words with a query that names others exactly."""
    named = any((hit.explanation or {}).get("named") for hit in reply.hits)
    hits = [hit for hit in reply.hits if hit.score >= _LIKELY or not named]
    return replace(reply, hits=tuple(hits))


def _code_part(query: str, hit: Hit, twin: int | None, *, has_lines: bool) -> Part:
    """A hit; `twin` is the number of one before it with the same code."""
    path, lines, span = describe_location(hit.location, hit.document_id)
    title = hit.title[:MAX_SHOWN]
    reason = match_reason(query, hit)

    fields: dict[str, Any] = {
        "path": path,
        **lines,
        "title": title,
        "score": hit.score,
        "why": reason,
    }
    head = f"{path}{span} {title} · {hit.score:.2f} · {reason}"
    if hit.corpus:
        fields["corpus"] = hit.corpus
        head = f"{hit.corpus}: {head}"
    if hit.stale:
        fields["changed"] = True
        head = f"{head} · CHANGED since"
    head = one_line(head)
    if twin is not None:
        return Part(f"{head} · same code as {twin}", {**fields, "same_code_as": twin})

    code, highlights = with_short_lines(hit.text, hit.highlights, _MAX_LINE_CHARS)
    if code != hit.text:
        fields["cut"] = True

    start = first_line(hit.location, code)
    if not has_lines:
        focus = _focus(query, code)
    else:
        focus = highlights[0][0] if highlights else 0
        if start is not None:
            rows = [code.count("\n", 0, first) for first, _ in highlights[:_MAX_NUMBERS]]
            fields["matching_lines"] = [start + row for row in rows]
            head += f" · line {', '.join(map(str, fields['matching_lines']))}"
    return Part(head, fields, "code", code, focus, start, opening_line(hit), hit.score)


def _focus(query: str, code: str) -> int:
    """The offset of what the query asks for: a use, or the middle of the lines that say most about it."""
    relation = relation_in(query)
    if relation and (use := first_use(relation.symbol, code)) is not None:
        return use
    row = telling_row(query, code, _TELLING_ROWS)
    lines = code.split("\n")[: row + _TELLING_ROWS // 2 if row else 0]
    return sum(len(line) + 1 for line in lines)


class FindRelated(Strict):
    """Arguments of `find_related`."""

    id: str = DocumentId
    corpus: CorpusArgument = Field(default=None, description="The corpus of the hit.")
    k: int = K
    max_tokens: int = Budget


def find_related(arguments: FindRelated, backend: Backend) -> Result:
    """Find the code that is nearest in meaning to a given function or class."""
    name = any_corpus(backend, arguments.corpus)
    with opened_document(backend, name, arguments.id) as (opened, document_id):
        result = opened.corpus.related(document_id, arguments.k)
        backend.observe(result.timings_ms)
        reply = with_warning(reply_of(backend, name, opened.corpus, result), opened.warning)
    root = backend.root(name)
    return _code_result(reply, arguments.max_tokens, near=arguments.id, root=root)


SEARCH_CODE = Tool(
    "search_code",
    "Search code",
    "search",
    "Find functions, methods and classes in source code by what they do, or by name. Use it to find where "
    "something is implemented or how this code base does a thing, before writing or changing code. Returns path "
    "and lines, why it was found, and the code, best first; for 'who calls NAME', its callers. Not for all lines "
    "with a string (grep), a file whose path you know (read it), or what documentation says (ask_reference).",
    SearchCode,
    search_code,
)

FIND_RELATED = Tool(
    "find_related",
    "Find related code",
    "search",
    "Find the code nearest in meaning to a function or class: others like it, twins in other languages, "
    "tests. Use it before changing one of several alike places, or to follow a convention. Not for callers or "
    "definitions of a name (search_code).",
    FindRelated,
    find_related,
)
