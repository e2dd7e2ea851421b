"""Variants of a pair's texts as they occur in use: code with comments, and queries as typed."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

from purlin.index.records import Document
from purlin.index.texts.passages import render
from purlin.training.config import check_ranges, in_range, ranged
from purlin.training.data.pairs.docstrings import first_sentence
from purlin.training.data.pairs.pair import Pair

# Tolerance for sums of shares: in floats, 1.0 - 0.9 is below 0.1.
ROUNDING = 1e-9

# Characters within which the signature of a Python function must end.
MAX_HEAD = 4000

_HEAD_END = re.compile(r":[^\S\n]*(?:#[^\n]*)?\n(?=([^\S\n]*)\S)")
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_STOP_WORDS = frozenset(
    (
        "a an the of to in for is are this that and or be by with from on as it its if which given"
    ).split()
)
_OPENINGS = frozenset({"return", "returns", "get", "gets", "this"})
_LANGUAGE_NAMES = {
    "javascript": ("javascript", "js"),
    "go": ("golang", "go"),
    "typescript": ("typescript",),
}
_MIN_WORDS, _MAX_WORDS = 5, 12
_MAX_TITLE_WORDS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Forms:
    """Shares of all draws that take each form. Raises InvalidInput naming the field.

    `whole_comment`: the passage includes its comment, where an index has it. `rest_of_comment`
    (code only): the passage includes what follows the sentence that is the query. `typed`: the
    query is shortened to what people type into a search box; for a product it is words of the
    title, and the passage includes the product's bullets.

    Queries that were written as searches stay as they are, and the passage includes its whole
    comment as often as both shares of comments together say.
    """

    whole_comment: float = ranged(0.0, 0.0, 1.0)
    rest_of_comment: float = 0.0
    typed: float = ranged(0.0, 0.0, 1.0)

    def __post_init__(self) -> None:
        check_ranges(self)
        in_range("rest_of_comment", self.rest_of_comment, 0.0, 1.0 - self.whole_comment + ROUNDING)


def draw(pair: Pair, forms: Forms, rng: random.Random) -> tuple[str, str]:
    """Draw a query of the pair and a form of its passage."""
    # The order of these draws is part of a run: a change gives other batches for the same seed.
    query = rng.choice(pair.queries)
    form = rng.random()
    is_typed = rng.random() < forms.typed

    if pair.kind == "product" and is_typed:
        return title_words(pair.title, rng) or query, with_comment(pair, whole=True)
    if pair.kind != "code":
        return query, pair.passage

    passage = pair.passage
    if pair.searches:
        has_comment = form < forms.whole_comment + forms.rest_of_comment
        return query, with_comment(pair, whole=True) if has_comment else passage

    if pair.comment and form < forms.whole_comment:
        passage = with_comment(pair, whole=True)
    elif pair.comment and form < forms.whole_comment + forms.rest_of_comment:
        passage = with_comment(pair, whole=False)
        query = pair.queries[0]

    if is_typed:
        query = search_box_query(pair.queries[0], pair.language, rng)
    return query, passage


def with_comment(pair: Pair, *, whole: bool) -> str:
    """Return the passage with its comment in the position where an index has it.

    Unless `whole`, only what follows the sentence that is the query is added.
    """
    text = pair.comment if whole else first_sentence(pair.comment, pair.queries[0])[1]
    if not text or pair.kind != "code":
        return f"{pair.passage}\n{text}".strip()

    body = _function_body(pair.passage) if pair.language == "python" else None
    if body:
        start, indent = body
        # A quotation mark at the end would run into those that close the docstring.
        docstring = text.replace("\\", "\\\\").replace('"""', "'''") + " " * text.endswith('"')
        return f'{pair.passage[:start]}{indent}"""{docstring}"""\n{pair.passage[start:]}'

    return render(Document(id="", kind="code", title="", body=pair.passage, summary=text))


def title_words(title: str, rng: random.Random) -> str:
    """Return one to five words of a product's title, in their order."""
    words = title.replace(": ", " ").split()
    count = min(len(words), rng.randint(1, _MAX_TITLE_WORDS))
    positions = sorted(rng.sample(range(len(words)), count))
    return " ".join(words[position] for position in positions)


def _function_body(code: str) -> tuple[int, str] | None:
    """Return where a Python function's body begins, and its indentation.

    None for a function on a single line.
    """
    for colon in _HEAD_END.finditer(code, 0, MAX_HEAD):
        # A colon inside brackets belongs to an annotation, a slice or a dict.
        head = code[: colon.start()]
        if all(
            head.count(opening) == head.count(closing) for opening, closing in ("()", "[]", "{}")
        ):
            return colon.end(), colon[1]

    return None


def search_box_query(sentence: str, language: str, rng: random.Random) -> str:
    """Return words of a sentence as they would be typed into a search box.

    They are in lower case, without punctuation, and mostly with the name of the language. Stop
    words and an opening such as "Return" are dropped in some of the draws.
    """
    words = _WORD.findall(sentence.lower())
    if words and words[0] in _OPENINGS and rng.random() < 0.5:
        del words[0]
    if rng.random() < 0.4:
        words = [word for word in words if word not in _STOP_WORDS]
    words = words[: rng.randint(_MIN_WORDS, _MAX_WORDS)]

    name = rng.choice(_LANGUAGE_NAMES.get(language, (language,)))
    form = rng.random()
    if not name or form < 0.15:
        return " ".join(words) or sentence
    if form < 0.75:
        return " ".join([name, *words])
    if form < 0.9:
        return " ".join([*words, "in", name])
    return " ".join(["how", "to", *words, "in", name])
