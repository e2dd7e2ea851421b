"""Forms that the texts of a pair take in the world: code with its comment, and queries as people type them."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

from index.passages import render
from index.records import Document
from training.config import in_range
from training.data.pairs import Pair, first_sentence

ROUNDING = 1e-9  # 1.0 - 0.9 is below 0.1
MAX_HEAD = 4000  # characters in which a Python function's signature must end
_HEAD_END = re.compile(r":[^\S\n]*(?:#[^\n]*)?\n(?=([^\S\n]*)\S)")
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_SMALL = frozenset(
    "a an the of to in for is are this that and or be by with from on as it its if which given".split()
)
_OPENINGS = frozenset({"return", "returns", "get", "gets", "this"})
_NAMES = {"javascript": ("javascript", "js"), "go": ("golang", "go"), "typescript": ("typescript",)}
_MIN_WORDS, _MAX_WORDS = 5, 12
_MOST_TITLE_WORDS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Forms:
    """How often a draw takes which form; shares of all draws.

    `whole_comment`: the passage has the prose about it where an index has it. `rest_of_comment`: of code, only what
    follows the sentence that is then the query. `typed`: the query is cut down to what people type into a search box,
    and of products it is words of the title, searched for in the product with all its prose.
    """

    whole_comment: float = 0.0
    rest_of_comment: float = 0.0
    typed: float = 0.0

    def __post_init__(self) -> None:
        in_range("whole_comment", self.whole_comment, 0.0, 1.0)
        in_range("rest_of_comment", self.rest_of_comment, 0.0, 1.0 - self.whole_comment + ROUNDING)
        in_range("typed", self.typed, 0.0, 1.0)


def draw(pair: Pair, forms: Forms, rng: random.Random) -> tuple[str, str]:
    """A query of the pair, and its passage."""
    query, form, is_typed = rng.choice(pair.queries), rng.random(), rng.random() < forms.typed
    if pair.kind == "product" and is_typed:
        return title_words(pair.title, rng) or query, with_comment(pair, whole=True)
    if pair.kind != "code":
        return query, pair.passage
    passage = pair.passage
    if pair.comment and form < forms.whole_comment + forms.rest_of_comment:
        whole = form < forms.whole_comment
        passage, query = with_comment(pair, whole=whole), query if whole else pair.queries[0]
    return typed(pair.queries[0], pair.language, rng) if is_typed else query, passage


def with_comment(pair: Pair, *, whole: bool) -> str:
    """The passage with its comment where an index has it: all of it, or what follows the sentence that is the query."""
    text = pair.comment if whole else first_sentence(pair.comment, pair.queries[0])[1]
    if not text or pair.kind != "code":
        return f"{pair.passage}\n{text}".strip()
    if pair.language == "python" and (place := _after_head(pair.passage)):
        end, indent = place
        quoted = text.replace("\\", "\\\\").replace('"""', "'''") + " " * text.endswith('"')
        return f'{pair.passage[:end]}{indent}"""{quoted}"""\n{pair.passage[end:]}'
    return render(Document(id="", kind="code", title="", body=pair.passage, summary=text))


def title_words(title: str, rng: random.Random) -> str:
    """One to five words of a product's title, in their order."""
    words = title.replace(": ", " ").split()
    chosen = sorted(
        rng.sample(range(len(words)), min(len(words), rng.randint(1, _MOST_TITLE_WORDS)))
    )
    return " ".join(words[place] for place in chosen)


def _after_head(code: str) -> tuple[int, str] | None:
    """Where a Python function's body begins, and its indentation; None for a function of one line."""
    for found in _HEAD_END.finditer(code, 0, MAX_HEAD):
        head = code[: found.start()]
        if all(
            head.count(opening) == head.count(closing) for opening, closing in ("()", "[]", "{}")
        ):
            return found.end(), found[1]
    return None


def typed(query: str, language: str, rng: random.Random) -> str:
    """A sentence as it would be typed into a search box: some words of it, mostly with the language's name.

    Lower case and without punctuation; now and then without articles, prepositions or an opening "Return".
    """
    words = _WORD.findall(query.lower())
    if words and words[0] in _OPENINGS and rng.random() < 0.5:
        del words[0]
    if rng.random() < 0.4:
        words = [word for word in words if word not in _SMALL]
    words = words[: rng.randint(_MIN_WORDS, _MAX_WORDS)]
    name = rng.choice(_NAMES.get(language, (language,)))
    form, how = rng.random(), ("how", "to")
    if not name or form < 0.15:
        return " ".join(words) or query
    return " ".join(
        [name, *words]
        if form < 0.75
        else [*words, "in", name]
        if form < 0.9
        else [*how, *words, "in", name]
    )
