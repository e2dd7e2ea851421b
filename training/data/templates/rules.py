"""The rules by which questions are made: the content of `templates.toml`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from purlin.index.errors import InvalidInput
from purlin.training.config import check_ranges, load_recipe, ranged

TEMPLATE_RULES = Path(__file__).with_name("templates.toml")
PAPER_RULES = Path(__file__).with_name("paper_templates.toml")
RulesChoice = Path | Literal["paper"]
"""A file of rules, or the word for `PAPER_RULES`."""


PLACEHOLDER = re.compile(r"\{(.*?)\}")

_PLACEHOLDER_NAMES = frozenset(
    ["noun", "where", "third", "plain", "rest", "term", "name", "parameter", "condition"]
)


@dataclass(frozen=True, slots=True)
class Irregular:
    """A verb with an irregular third person."""

    verb: str
    third: str


@dataclass(frozen=True, slots=True)
class Phrase:
    """A beginning of descriptions, and what a question says instead.

    `third` is the verb in the third person, `plain` the one for "How do I ...?", or "-" if that
    question makes no sense. After a `noun` no other verb may follow.
    """

    start: str
    third: str
    plain: str
    noun: bool = False


@dataclass(frozen=True, slots=True)
class Directive:
    """The noun for a kind of entries; `link` joins it to its class or module ("of", "in")."""

    kind: str
    noun: str
    link: str = ""
    starts: str = ""
    anchor: str = ""
    upper: bool = False


@dataclass(frozen=True, slots=True)
class Form:
    """The wordings of one kind of question; `draws` of them are drawn for each answer."""

    name: str
    texts: tuple[str, ...]
    draws: int = ranged(1, 1, 100)

    def __post_init__(self) -> None:
        check_ranges(self)

        for text in self.texts:
            unknown = set(PLACEHOLDER.findall(text)) - _PLACEHOLDER_NAMES
            if unknown:
                allowed = ", ".join(sorted(_PLACEHOLDER_NAMES))
                raise InvalidInput(
                    f"Unknown placeholder {unknown.pop()!r:.80} in {text!r:.80}; use {allowed}."
                )


@dataclass(frozen=True)
class Rules:
    """The content of `templates.toml`, whose comments explain each key."""

    verbs: tuple[str, ...]
    forms: tuple[Form, ...]
    directives: tuple[Directive, ...]
    phrases: tuple[Phrase, ...] = ()
    irregular: tuple[Irregular, ...] = ()
    subjects: tuple[str, ...] = ()
    not_after: tuple[str, ...] = ()
    dangling: tuple[str, ...] = ()
    also_nouns: tuple[str, ...] = ()
    determiners: tuple[str, ...] = ()
    vague: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    sentinels: tuple[str, ...] = ()
    finite: tuple[str, ...] = ()
    relatives: tuple[str, ...] = ()
    proper: tuple[str, ...] = ()
    max_words: int = ranged(26, 3, 100)
    max_answer_words: int = ranged(12, 1, 100)

    def __post_init__(self) -> None:
        check_ranges(self)

    @cached_property
    def thirds(self) -> dict[str, str]:
        """The third person of each verb."""
        irregular = {item.verb: item.third for item in self.irregular}
        return {
            verb: irregular.get(verb) or third_person(verb) for verb in (*self.verbs, *irregular)
        }

    @cached_property
    def plains(self) -> dict[str, str]:
        """The verb of each third person."""
        return {third: verb for verb, third in self.thirds.items()}

    @cached_property
    def openings(self) -> dict[str, Phrase]:
        """The phrase for each known beginning of a description, in lower case."""
        verbs = {
            start: Phrase(start, third, verb)
            for verb, third in self.thirds.items()
            for start in (verb, third)
        }
        return verbs | {phrase.start: phrase for phrase in self.phrases}

    @cached_property
    def texts(self) -> dict[str, Form]:
        """The forms by name."""
        return {form.name: form for form in self.forms}

    @cached_property
    def is_vague(self) -> re.Pattern[str]:
        """A pattern of words that cannot be understood outside their page."""
        return re.compile(
            rf"(?<!\w)(?:{'|'.join(map(re.escape, self.vague)) or '(?!)'})(?!\w)", re.IGNORECASE
        )

    @cached_property
    def subject(self) -> re.Pattern[str]:
        """A pattern of beginnings that stand for the entry itself."""
        return re.compile(
            rf"(?:{'|'.join(map(re.escape, self.subjects)) or '(?!)'}) ", re.IGNORECASE
        )


def read_rules(choice: RulesChoice = TEMPLATE_RULES) -> Rules:
    """Read the rules of a TOML file. Raises NotFound or InvalidInput, which name the key."""
    return load_recipe(PAPER_RULES if choice == "paper" else choice, Rules)


def third_person(verb: str) -> str:
    """Return the third person of a regular verb: returns, pushes, copies."""
    if verb.endswith(("s", "x", "z", "ch", "sh", "o")):
        return verb + "es"
    return verb[:-1] + "ies" if re.search(r"[^aeiou]y$", verb) else verb + "s"
