"""The tool `ask_reference`."""

from __future__ import annotations

import json
from typing import Any

from pydantic import Field

from purlin.app.agents.backend import Backend
from purlin.app.agents.budget import Part, Result, fit
from purlin.app.agents.choosing import choose_corpora, only_name, with_warning
from purlin.app.agents.results import origin_fields, origin_text, warned_head
from purlin.app.agents.tool import MAX_HITS, MAX_SHOWN, Budget, CorpusArgument, Tool
from purlin.app.fields import Query, Strict
from purlin.index.qa.ask import UNLIKELY
from purlin.index.records import Answer


class AskReference(Strict):
    """Arguments of `ask_reference`."""

    question: Query = Field(
        description="One question in plain words.",
        examples=["What is the default step of range?"],
    )
    corpus: CorpusArgument = Field(
        default=None, description="Needed only where several references are indexed."
    )
    k: int = Field(default=3, ge=1, le=MAX_HITS, description="Answers at most.")
    max_tokens: int = Budget


def ask_reference(arguments: AskReference, backend: Backend) -> Result:
    """Answer a question in the reference's words, each answer with its passage and link."""
    corpora, left_out = choose_corpora(backend, "reference", arguments.corpus)
    corpus = only_name(corpora)
    reply = with_warning(backend.ask(corpus, arguments.question, arguments.k), left_out)

    # Answers of one passage refer to the first of them.
    first: dict[str, int] = {}
    stale = {hit.id for hit in reply.hits if hit.stale}
    parts = []
    for number, answer in enumerate(reply.answers, 1):
        first.setdefault(answer.passage_id, number)
        changed = answer.passage_id in stale
        parts.append(_answer_part(answer, number, first[answer.passage_id], changed=changed))

    doubt = " (low: it may be silent)" if reply.answerable < UNLIKELY else ""
    read_as = f"; the question was read as: {reply.read_as}" if reply.read_as else ""
    head = Result(
        f"{len(reply.answers)} answers from {origin_text(reply)}; "
        f"answerable {reply.answerable:.2f}{doubt}{read_as}",
        {
            "answerable": reply.answerable,
            "answer_type": reply.answer_type,
            **({"read_as": reply.read_as} if reply.read_as else {}),
            **origin_fields(reply),
            "reader": reply.reader,
        },
    )
    warned = warned_head(head, reply)
    return fit(lambda _: warned, "answers", parts, arguments.max_tokens)


def _answer_part(answer: Answer, number: int, first: int, *, changed: bool) -> Part:
    """Answer `number`, with its passage unless answer `first` already shows that."""
    name = " > ".join([*answer.terms, answer.title])[-MAX_SHOWN:]
    fields: dict[str, Any] = {"text": answer.text, "score": answer.score, "of": name}
    if answer.shown_sentence:
        fields["sentence"] = answer.shown_sentence
    head = f"{json.dumps(answer.text, ensure_ascii=False)} ({answer.score:.2f}) · {name}"
    if answer.url:
        fields["url"] = answer.url
        head = f"{head} · {answer.url}"
    if changed:
        fields["changed"] = True
        head = f"{head} · CHANGED since"

    if first < number:
        return Part(f"{head} · passage of {first}", fields | {"passage_of": first})
    return Part(head, fields, "passage", answer.passage, answer.start)


ASK_REFERENCE = Tool(
    "ask_reference",
    "Ask a reference",
    "qa",
    "Answer a question from indexed reference documentation in its exact words, with link and passage. Use it for "
    "facts on an API: what it does, parameters, defaults, return values, exceptions. `answerable` (0-1) is low "
    "where the reference seems silent: then do not rely on the answers. Not for how-tos over many pages, advice, "
    "or finding code (search_code).",
    AskReference,
    ask_reference,
)
