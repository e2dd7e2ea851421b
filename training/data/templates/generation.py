"""Make questions and answers from the definitions of a language reference, by template.

The method is that of the paper on reference QA (section 3.5). A description that begins with a verb
becomes a question whose answer is the term: "Return the absolute value of a number." becomes "What
function returns the absolute value of a number?", answered by `abs`. Beyond the paper, signatures,
field lists and sentences of known shapes give questions about defaults, parameters, types, return
values, exceptions and versions. The verbs, the kinds of entries and the wordings of the questions
are data: `templates.toml`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import islice
from random import Random
from typing import Literal

from purlin.index.records import Document, Span
from purlin.training.data.templates.answers import find_candidates
from purlin.training.data.templates.entries import Candidate, Entry, parse_entry
from purlin.training.data.templates.phrases import CLEAR_WORDS, inflected
from purlin.training.data.templates.rules import (
    PLACEHOLDER,
    TEMPLATE_RULES,
    Rules,
    RulesChoice,
    read_rules,
)

Split = Literal["train", "dev", "test"]
Rephrase = Callable[[Sequence[str]], Sequence[str | None]]
MAX_EXAMPLES = 100  # of one entry


@dataclass(frozen=True, slots=True)
class Example:
    """A question with its answer, `body[start:end]` of a document, and the document's entry.

    `described` is the span of the sentence that the question repeats, or else the answer's.
    """

    question: str
    document_id: str
    answer: str
    start: int
    end: int
    form: str
    entry: str
    described: Span


def examples(document: Document, rules: Rules, rng: Random) -> Iterator[Example]:
    """Yield questions that a document answers, without repeats; `rng` draws their wordings."""
    entry = parse_entry(document, rules)
    is_section = document.fields.get("directive") == "section"
    candidates = find_candidates(entry, is_section=is_section)

    texts: set[str] = set()
    for candidate in islice(candidates, MAX_EXAMPLES):
        start, end = candidate.start, candidate.end
        answer = document.body[start:end]
        for question in _questions(entry, candidate, rng):
            if question not in texts and answer == answer.strip() != "":
                texts.add(question)
                yield Example(
                    question,
                    document.id,
                    answer,
                    start,
                    end,
                    candidate.form,
                    document_entry(document),
                    candidate.described or Span(start, end),
                )


def questions(
    documents: Iterable[Document],
    split: str,
    rules: RulesChoice | None = None,
    rephrase: Rephrase | None = None,
    leave_out: Collection[str] = (),
    *,
    originals: bool = True,
) -> list[Example]:
    """Return the unambiguous questions about a reference's entries of one split.

    They are the same in every run. `rules` are used instead of `TEMPLATE_RULES`. Questions that
    `rephrase` returns for others are added, or replace them without `originals`. There are none
    about the entries `leave_out`.
    """

    def is_chosen(example: Example) -> bool:
        return split_of(example.entry) == split and example.entry not in leave_out

    parsed_rules, rng = read_rules(rules or TEMPLATE_RULES), Random(0)
    every = [example for document in documents for example in examples(document, parsed_rules, rng)]
    chosen: list[Example] = []
    if rephrase is not None:
        chosen = [example for example in unambiguous(every) if is_chosen(example)]
        rephrased = rephrase([example.question for example in chosen])
        pairs = zip(chosen, rephrased, strict=True)
        every += [replace(example, question=text) for example, text in pairs if text]

    # Without the originals too, they decide which rephrasings are ambiguous.
    chosen_texts = set() if originals else {example.question for example in chosen}
    return [
        example
        for example in unambiguous(every)
        if is_chosen(example) and example.question not in chosen_texts
    ]


def document_entry(document: Document) -> str:
    """Return the name of a document's entry, in questions and in passages."""
    return document.location.url or document.id


def unambiguous(every: Iterable[Example]) -> list[Example]:
    """Drop the questions that entries answer differently ("What method closes the file?")."""
    every = list(every)
    answers: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for example in every:
        answers[example.question.lower()].add((example.entry, example.answer))

    return [example for example in every if len(answers[example.question.lower()]) == 1]


def split_of(entry: str) -> Split:
    """Return the split of an entry, 8:1:1, from a hash of its name."""
    digest = blake2b(f"0:{entry}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    tenth = int.from_bytes(digest, "big") % 10
    return "dev" if tenth == 8 else "test" if tenth == 9 else "train"


def _questions(entry: Entry, candidate: Candidate, rng: Random) -> list[str]:
    """Draw the wordings of a candidate's form, and fill in its values."""
    form = entry.rules.texts.get(candidate.form)
    if form is None:
        return []

    values = {
        "term": entry.term,
        "name": entry.term.rpartition(".")[2],
        "noun": entry.noun,
        "where": entry.where,
        **candidate.values,
    }
    is_short = len(values.get("rest", "").split()) < CLEAR_WORDS
    needs_owner = is_short and entry.where != "" and candidate.form == "term"

    texts = [text for text in form.texts if _is_applicable(text, values, needs_owner)]
    drawn = rng.sample(texts, min(form.draws, len(texts)))
    return [_fill(text, values, entry.rules) for text in drawn]


def _fill(text: str, values: dict[str, str], rules: Rules) -> str:
    """Fill in the placeholders; the rest's verbs take the form of the text's own verb."""
    if "rest" in values:
        forms = rules.plains if "{plain}" in text else rules.thirds
        values = values | {"rest": inflected(values["rest"], forms, rules)}
    return PLACEHOLDER.sub(lambda match: values[match[1]], text)


def _is_applicable(text: str, values: Mapping[str, str], needs_owner: bool) -> bool:
    """Return whether all values of a text are known, and the question is clear.

    A short description needs its owner's name; "What is the path?" needs a noun for what it is.
    """
    needed = set(PLACEHOLDER.findall(text))
    has_no_noun = "third" in needed and not needed & {"noun", "term", "name"}
    is_bare = has_no_noun and values["third"].startswith("is ")

    if needs_owner and "where" not in needed:
        return False
    if is_bare and (values["where"] or not values["noun"]):
        return False
    return all(values.get(name) for name in needed - {"where"})
