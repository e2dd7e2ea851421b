"""Parse a question: the type of answer it expects, its names, whether it asks for a default."""

from __future__ import annotations

import re
from dataclasses import dataclass

from purlin.index.qa.answer_types import (
    VALUE_TYPE,
    AnswerType,
    asks_for_values,
    statement_kind,
)
from purlin.index.qa.question_types import expected_types
from purlin.index.qa.signatures import dotted

MIN_DEFAULT_SHARE = 0.3  # least probability of a value or number at which a default may be wanted

_WORD = re.compile(r"\w+")
_HYPHENATED = re.compile(r"[\w-]+")
# Names without and with a final quote, which may be an apostrophe or a prime, as in Haskell's foldl'.
_NAMES = (re.compile(r"-{0,2}[^\W\d]\w*"), re.compile(r"[^\W\d]\w*'+(?!\w)"))
_CALLED_NAME = re.compile(r"(?<![\w.])[^\W\d][\w.]*(?=\()")
_QUALIFIED_NAME = re.compile(r"(?<!\w)[^\W\d]\w*(?:\.\w+)+")


@dataclass(frozen=True, slots=True)
class ParsedQuestion:
    """A question, and what its wording tells about the answer. All names and words are folded.

    `types` are the expected answer types with their probabilities, likeliest first (see
    `expected_types`). `names` are words that may name an entry, such as `split` or `--quiet`.
    `qualified_names` have dots in them, such as `str.split` (also for `Set#add` and `Vec::push`), and
    `called_names` are followed by a parenthesis. `words` are all words, those with hyphens also in
    parts. `statement` is the kind of statement that is wanted (see `statement_kind`), "" for a value.
    """

    text: str
    types: tuple[tuple[AnswerType, float], ...]
    names: frozenset[str]
    qualified_names: frozenset[str]
    called_names: frozenset[str]
    words: frozenset[str]
    asks_for_default: bool
    asks_for_values: bool = False
    statement: str = ""

    @property
    def answer_type(self) -> AnswerType:
        """The likeliest type."""
        return self.types[0][0]

    def probability(self, *names: str) -> float:
        """Return the probability that an answer of one of these types is expected."""
        return sum(share for answer_type, share in self.types if answer_type.name in names)

    def echoes(self, answer: str) -> bool:
        """Return whether the question has the answer's name: `mkdir` of "Path.mkdir(mode)"."""
        names = _HYPHENATED.findall(answer.partition("(")[0])
        last_name = names[-1].lower() if names else ""
        return len(last_name) > 1 and last_name in self.words


def folded(name: str) -> str:
    """Return a name as names are compared: in lower case, except for options such as `-P`."""
    is_short_option = len(name) == 2 and name[0] == "-"
    return name if is_short_option else name.lower()


def parse_question(text: str) -> ParsedQuestion:
    """Parse a question, which must be in English."""
    lower = text.lower()
    types = expected_types(text)
    value_share = sum(share for each, share in types if each.name in ("value", "number"))
    for_values = asks_for_values(text)

    return ParsedQuestion(
        text=text,
        types=types,
        names=frozenset(folded(name) for pattern in _NAMES for name in pattern.findall(text)),
        qualified_names=frozenset(_QUALIFIED_NAME.findall(dotted(lower))),
        called_names=frozenset(_CALLED_NAME.findall(lower)),
        words=frozenset((*_WORD.findall(lower), *_HYPHENATED.findall(lower))),
        asks_for_default=VALUE_TYPE.implied.search(text) is not None
        or (value_share >= MIN_DEFAULT_SHARE and not for_values),
        asks_for_values=for_values,
        statement=statement_kind(text),
    )
