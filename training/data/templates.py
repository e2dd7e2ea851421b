"""Make questions and answers from the definitions of a language reference, by template.

The method is that of the paper on reference QA (section 3.5). A description that begins with a verb
becomes a question whose answer is the term: "Return the absolute value of a number." becomes "What
function returns the absolute value of a number?", answered by `abs`. Beyond the paper, signatures,
field lists and sentences of known shapes give questions about defaults, parameters, types, return
values, exceptions and versions. The verbs, the kinds of entries and the wordings of the questions
are data: `templates.toml`.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from random import Random
from typing import Literal, NamedTuple

from purlin.index.errors import InvalidInput
from purlin.index.qa.signatures import MAX_SIGNATURE_CHARS, CharSpan, Parameter, overloads
from purlin.index.records import Document, Span
from purlin.training.config import in_range, load_recipe

__all__ = [
    "PAPER_RULES",
    "TEMPLATE_RULES",
    "Example",
    "Rules",
    "RulesChoice",
    "document_entry",
    "examples",
    "questions",
    "read_rules",
    "split_of",
    "unambiguous",
]

TEMPLATE_RULES = Path(__file__).with_name("templates.toml")
PAPER_RULES = Path(__file__).with_name("paper_templates.toml")
RulesChoice = Path | Literal["paper"]
"""A file of rules, or the word for `PAPER_RULES`."""

Split = Literal["train", "dev", "test"]
Rephrase = Callable[[Sequence[str]], Sequence[str | None]]

MAX_BODY_CHARS = 20_000  # the rest of a body is ignored
MAX_SENTENCE_CHARS = 400
MAX_PARAMETER_CHARS = 60  # of its name, default or type
MAX_TERM_CHARS = 120
MAX_EXAMPLES = 100  # of one entry
MIN_WORDS = 2  # after the verb
CLEAR_WORDS = 4  # a shorter description is unclear without its class or module
PHRASE_WORDS = 5  # of the longest phrase in `templates.toml`

_PLACEHOLDER = re.compile(r"\{(.*?)\}")
_PLACEHOLDER_NAMES = frozenset(
    ["noun", "where", "third", "plain", "rest", "term", "name", "parameter", "condition"]
)

_PARAGRAPH = re.compile(r"[^\n]+(?:\n[^\n]+)*")
_STOP = re.compile(
    r"(?<!\be\.g)(?<!\bi\.e)(?<!\betc)(?<!\bvs)(?<!\bcf)[.;:](?=[)\]”\"’']?(?:\s|$))|\n|$"
)
_NOTE = re.compile(r"\s\([^()]*\)")
# Brackets that the sentence needs.
_NO_NOTE = re.compile(r"^\S+ \(|[*+/=<>%&|^-] \(|\b(?:an?|the|of|to|and|or) \(")
# Clauses that a question does not need.
_ASIDE = re.compile(
    r",? (?:or|and|else)? ?(?:\S+ )?(?:otherwise|else)\b.*$"
    r"|,? (?:or|and) (?:False|None|True|NULL|-?\d+) (?:if|when|on) .*$"
    r"|,? (?:and |which )?(?:it )?default(?:s|ing) to\b.*$"
    r"|,? (?:for example|for instance|e\.g|i\.e)\b.*$| [-–—] (?:\S+ ){2,}\S+$"
)
_ANOTHER = re.compile(
    r"(?:\band|,) (?:the )?(\w+) (?:is|are|has|must|can|may|should|specifies|defaults)\b"
)
_COORDINATED = re.compile(r"((?:, )?\b(?:and|or|then)|,) ([\w-]+)(?= ([\w’]+))")
_INFINITIVE = re.compile(r"\bto ([\w-]+)")
_CAPITAL_STAYS = re.compile(r"\S[^\sa-z’]|\S*[\d_.(]")

_PARAMETER = r"(?:[Tt]he )?(?:optional )?(?P<parameter>\w+)(?: keyword)?(?: argument| parameter)?"
_ITEM = re.compile(
    r"(?:- )?(?:Parameters: )?\*{0,2}(?P<parameter>\w+)(?: \((?P<type>[^()\n:=]{1,60})\))? [–-] (?=\S)"
)
_PARAMETER_FIRST = re.compile(_PARAMETER + r" (?=\S)")
_RETURN_TYPE = re.compile(r"^(?:- )?Return type: (?P<type>\S.{0,60}?)\.?$", re.MULTILINE)
_ARROW = re.compile(r"\) (?:→|->) (?P<type>\S.{0,60})$", re.MULTILINE)

_UNIT = r"(?: (?:milli|micro)?seconds?| minutes?| hours?| days?| (?:kilo|mega|giga)?bytes| [kMG]B)?"
_VALUE = (
    r"(?P<value>\"[^\"\n]{1,60}\"|'[^'\n]{1,60}'|“[^”\n]{1,60}”|‘[^’\n]{1,60}’|"
    rf"-?\d(?:[\w.]*\w)?{_UNIT}|[A-Za-z_](?:[\w.]*\w)?(?:\(\))?)(?=$|[,;:.)]| \(| which| if| when| and)"
)
_PARAMETER_DEFAULTS = (
    re.compile(
        rf"\b[Ii]f {_PARAMETER} is (?:omitted|missing|absent|not \w+),? (?:it )?defaults to {_VALUE}"
    ),
    re.compile(rf"{_PARAMETER} defaults to {_VALUE}"),
    re.compile(rf"\b[Dd]efault (?:value )?(?:for|of) {_PARAMETER} is {_VALUE}"),
)
_DEFAULT = re.compile(
    rf"(?:\b[Tt]he default(?: value)? is|(?:^|(?<=[.;:] ))(?:It d|D)efaults to|^Default:) {_VALUE}",
    re.MULTILINE,
)
# `--max-tries` and `json.encoder` name one entry, `-t` and `name` may name many.
_DISTINCTIVE_NAME = re.compile(r"(?=.*[._-]\w|[A-Z_]{3})\S{3,}")
_PLAIN_VALUES = frozenset(["true", "false", "none", "null", "on", "off", "zero"])

_CONDITIONAL = re.compile(
    r"(?:[Rr]eturn|(?:It |This function |This method )?[Rr]eturns|, returns|and returns?) "
    r"(?P<value>(?:an? )?[\w.'\"“”-]+(?: [a-z-]+){0,3}?) (?P<word>if|when|on|unless) (?P<condition>.+)"
)
_TAIL = re.compile(
    r",? (?:else|otherwise)\b.*|,? (?:and|or) (?:returns?|False|None|True|raises?|-?\d)\b.*"
    r"|, (?:or|and|but|False|None|True|NULL|non-?zero|zero|returns?|-?\d|(?:an? )?\w+ (?:if|on|when))\b.*"
)
_NAME = r"(?!(?:An|The|This|It|If|When|True|False|None)\b)(?:[A-Za-z_]\w*\.)*[A-Z]\w*[a-z]\w*"
_EXCEPTION = rf"(?P<exception>{_NAME})(?: exception| error)?"
_WHEN = r"(?P<word>[Ii]f|[Ww]hen|[Uu]nless)"
_RAISED = r"(?:is|will be) (?:raised|thrown)"
_RAISES = (
    re.compile(
        rf"(?P<before>.*?)\b(?:[Rr]aises?|[Tt]hrows?) (?:an? |the )?{_EXCEPTION} {_WHEN} (?P<condition>.+)"
    ),
    re.compile(rf"(?:An? |The )?{_EXCEPTION} {_RAISED} {_WHEN} (?P<condition>.+)"),
    re.compile(rf"{_WHEN} (?P<condition>[^,]+), (?:then )?(?:an? |the )?{_EXCEPTION} {_RAISED}$"),
    re.compile(
        rf"{_WHEN} (?P<condition>[^,]+), (?:then |it |this \w+ )?raises? (?:an? |the )?{_EXCEPTION}$"
    ),
    re.compile(rf"(?:- )?(?:Raises: )?{_EXCEPTION} [–-] {_WHEN} (?P<condition>.+)"),
)
_BEING = ("is a ", "is an ", "is the ", "is used ", "must be ", "should be ", "can be ", "may be ")
_UNSURE = re.compile(r"\b(?:not|never|no longer|instead|other|than|rather|may|might|can)\b|n’t\b|,")
_CUT = re.compile(
    r",| \(| (?:if|when|unless|otherwise|so that|but|whose|where|which|because|since|in which)\b| — | - | – "
)
_CONDITIONS = frozenset([" if", " when", " unless"])
_EMPTY_CONDITIONS = ("it", "successful", "success")
_RETURNED = re.compile(
    r"(?:(?:It |This \w+ )?[Rr]eturns|Return) "
    r"(?!whether|if|when|to|from|without|immediately|value)"
)

_VERSION = re.compile(
    r"(?P<what>New|Added|Changed|Deprecated) (?:in|since) (?:version |[A-Z]\w* )(?P<version>\d(?:[\d.]*\d)?)"
)
# A note about the whole entry, not about a part of it.
_OUTDATED = re.compile(
    r"(?:, will be removed in version \d[\d.]*)?"
    r"(?:\.?\s*$|: (?:(?:Please )?[Uu]se |See |This (?:function|method|class|attribute|module|constant|exception) "
    r"|\S+ now supports ))"
)
_ADDED = re.compile(
    r"\b[Aa]dd(?:ed)? (?:the |an? )?(?:optional )?(?:new )?(?P<first>\w+)(?: keyword)?(?: argument| parameter)(?!s)"
    r"|: (?:The )?(?:optional )?(?P<second>\w+)(?: keyword)?(?: argument| parameter)? was added\b"
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
    draws: int = 1

    def __post_init__(self) -> None:
        in_range("draws", self.draws, 1, 100)
        for text in self.texts:
            unknown = set(_PLACEHOLDER.findall(text)) - _PLACEHOLDER_NAMES
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
    max_words: int = 26
    max_answer_words: int = 12

    def __post_init__(self) -> None:
        in_range("max_words", self.max_words, 3, 100)
        in_range("max_answer_words", self.max_answer_words, 1, 100)

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


class _Candidate(NamedTuple):
    """A possible answer: its span, the form of the question, and values for the placeholders.

    `described` is the sentence that the question repeats, if it does.
    """

    form: str
    start: int
    end: int
    values: Mapping[str, str]
    described: Span | None = None


@dataclass(frozen=True, slots=True)
class _Entry:
    """A definition, parsed once for all templates; paragraphs are spans of the body."""

    body: str
    rules: Rules
    term: str
    noun: str
    where: str
    name: Span | None
    signature: str
    parameters: Mapping[str, tuple[Parameter, ...]]
    paragraphs: tuple[Span, ...]

    @property
    def description(self) -> Span | None:
        """The first sentence, without notes before it."""
        for paragraph in self.paragraphs:
            if not self.is_note(paragraph) and not self.body.startswith("- ", paragraph.start):
                return next(sentence_spans(self.body, paragraph), None)
        return None

    def is_note(self, paragraph: Span) -> bool:
        return self.body.startswith(self.rules.notes, paragraph.start)

    def prose(self) -> Iterator[Span]:
        """Yield the sentences of all paragraphs except notes about versions."""
        for paragraph in self.paragraphs:
            if not _VERSION.match(self.body, paragraph.start):
                yield from sentence_spans(self.body, paragraph)

    def text(self, span: Span) -> str:
        return self.body[span.start : span.end]


def read_rules(choice: RulesChoice = TEMPLATE_RULES) -> Rules:
    """Read the rules of a TOML file. Raises NotFound or InvalidInput, which name the key."""
    return load_recipe(PAPER_RULES if choice == "paper" else choice, Rules)


def examples(document: Document, rules: Rules, rng: Random) -> Iterator[Example]:
    """Yield questions that a document answers, without repeats; `rng` draws their wordings."""
    entry = _parse_entry(document, rules)
    is_section = document.fields.get("directive") == "section"
    finders = (_modules,) if is_section else _FINDERS
    candidates = (candidate for finder in finders for candidate in finder(entry))

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


def split_of(entry: str, seed: int = 0) -> Split:
    """Return the split of an entry, 8:1:1, from a hash of its name."""
    digest = blake2b(f"{seed}:{entry}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    tenth = int.from_bytes(digest, "big") % 10
    return "dev" if tenth == 8 else "test" if tenth == 9 else "train"


def third_person(verb: str) -> str:
    """Return the third person of a regular verb: returns, pushes, copies."""
    if verb.endswith(("s", "x", "z", "ch", "sh", "o")):
        return verb + "es"
    return verb[:-1] + "ies" if re.search(r"[^aeiou]y$", verb) else verb + "s"


def sentence_spans(body: str, paragraph: Span) -> Iterator[Span]:
    """Yield a paragraph's sentences without full stops; colons and line ends end them too."""
    start = paragraph.start

    for stop in _STOP.finditer(body, paragraph.start, paragraph.end):
        while start < stop.start() and body[start].isspace():
            start += 1
        if start < stop.start() <= start + MAX_SENTENCE_CHARS:
            yield Span(start, stop.start())
        start = stop.end()


def _parse_entry(document: Document, rules: Rules) -> _Entry:
    names = document.fields.get("names")
    title = names[0] if isinstance(names, tuple) and names else document.title
    term = title[:MAX_TERM_CHARS]

    field = document.fields.get("signature")
    signature = field if isinstance(field, str) and document.body.startswith(field) else ""
    directive = _directive(document, term, signature, rules)
    if directive and directive.link:
        # The title is a signature where the source's reader could not parse it.
        term = term.partition("(")[0]
    owner = term.rpartition(".")[0]

    return _Entry(
        body=document.body,
        rules=rules,
        term=term,
        noun=directive.noun if directive else "",
        where=f" {directive.link} {owner}" if directive and directive.link and owner else "",
        name=_term_span(term, signature),
        signature=signature,
        parameters=_parameters(signature if directive else ""),
        paragraphs=tuple(_paragraphs(document, len(signature))),
    )


def _directive(document: Document, term: str, signature: str, rules: Rules) -> Directive | None:
    """Return the first directive that fits; a function of a class, `Box.put`, is a method."""
    kind = document.fields.get("directive")
    owner, _, name = term.rpartition(".")
    if kind == "function" and owner.rpartition(".")[2][:1].isupper():
        kind = "method"
    anchor = (document.location.url or "").rpartition("#")[2]

    for directive in rules.directives:
        fits = signature.startswith(directive.starts) and anchor.startswith(directive.anchor)
        if directive.kind == kind and fits and (name.isupper() or not directive.upper):
            return directive
    return None


def _term_span(term: str, signature: str) -> Span | None:
    """Find the term in the signature, with as many of its dotted parts as it has there."""
    line = signature[:MAX_SIGNATURE_CHARS]

    while term:
        start = line.find(term)
        end = start + len(term)
        before, after = line[:start][-1:], line[end : end + 1]
        if start >= 0 and not before.isidentifier() and not after.isidentifier():
            return Span(start, end)
        term = term.partition(".")[2]
    return None


def _parameters(signature: str) -> dict[str, tuple[Parameter, ...]]:
    """Parse the parameters of all lines; what is too long for a question is left out."""
    return {
        name: tuple(
            replace(
                parameter,
                default=_short(parameter.default),
                annotation=_short(parameter.annotation),
            )
            for parameter in parameters
        )
        for name, parameters in overloads(signature).items()
        if len(name) <= MAX_PARAMETER_CHARS
    }


def _short(span: CharSpan | None) -> CharSpan | None:
    return span if span and span[1] - span[0] <= MAX_PARAMETER_CHARS else None


def _paragraphs(document: Document, start: int) -> Iterator[Span]:
    """Yield the paragraphs of prose, without those that touch a signature, table or code block."""
    atoms = sorted((atom.start, atom.end) for atom in document.atoms)
    for match in _PARAGRAPH.finditer(document.body, start, MAX_BODY_CHARS):
        before = bisect_right(atoms, (match.end() - 1, len(document.body))) - 1
        if before < 0 or atoms[before][1] <= match.start():
            yield Span(match.start(), match.end())


def _questions(entry: _Entry, candidate: _Candidate, rng: Random) -> list[str]:
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
        values = values | {"rest": _inflected(values["rest"], forms, rules)}
    return _PLACEHOLDER.sub(lambda match: values[match[1]], text)


def _inflected(rest: str, forms: Mapping[str, str], rules: Rules) -> str:
    """Inflect coordinated verbs: "the file and return a stream" to "the file and returns ...".

    What follows "to" stays as it is.
    """
    infinitives = (
        match.start() for match in _INFINITIVE.finditer(rest) if match[1] in rules.thirds
    )
    first_infinitive = next(infinitives, len(rest))

    def inflect(match: re.Match[str]) -> str:
        is_verb = match[2] not in rules.also_nouns or match[3] in rules.determiners
        if not is_verb or match.start() >= first_infinitive:
            return match[0]
        return f"{match[1]} {forms.get(match[2], match[2])}"

    return _COORDINATED.sub(inflect, rest)


def _is_applicable(text: str, values: Mapping[str, str], needs_owner: bool) -> bool:
    """Return whether all values of a text are known, and the question is clear.

    A short description needs its owner's name; "What is the path?" needs a noun for what it is.
    """
    needed = set(_PLACEHOLDER.findall(text))
    has_no_noun = "third" in needed and not needed & {"noun", "term", "name"}
    is_bare = has_no_noun and values["third"].startswith("is ")

    if needs_owner and "where" not in needed:
        return False
    if is_bare and (values["where"] or not values["noun"]):
        return False
    return all(values.get(name) for name in needed - {"where"})


def _terms(entry: _Entry) -> Iterator[_Candidate]:
    """Apply the paper's template: the first sentence's verb and rest ask for the term."""
    span = entry.description
    if span is None or entry.name is None:
        return
    values = _verb_and_rest(entry, entry.text(span))
    if values:
        yield _Candidate("term", entry.name.start, entry.name.end, values, span)


def _verb_and_rest(entry: _Entry, sentence: str) -> dict[str, str]:
    """Return the verb and the rest of a description.

    Empty for a description that begins otherwise, is too long, or reveals the term.
    """
    rules = entry.rules
    cleaned = _cleaned(sentence, rules)
    opening = _opening(cleaned, rules) if cleaned else None
    if opening is None:
        return {}

    phrase, rest = opening
    if not MIN_WORDS <= len(rest.split()) <= rules.max_words or _reveals(rest, entry.term):
        return {}
    values = {"third": phrase.third, "rest": rest}
    return values if phrase.plain == "-" or not entry.noun else values | {"plain": phrase.plain}


def _cleaned(sentence: str, rules: Rules) -> str:
    """Drop notes in brackets and asides; empty for half a bracket or an unclear statement."""
    if _NO_NOTE.search(sentence):
        return ""
    text = _ASIDE.sub("", " ".join(_NOTE.sub("", sentence).split())).rstrip(" ,.")

    is_whole = all(
        text.count(opening) == text.count(closing) for opening, closing in ("()", "“”", "[]")
    )
    is_clear = not text.endswith("?") and text.rpartition(" ")[2] not in rules.dangling
    return text if is_whole and is_clear and not rules.is_vague.search(text) else ""


def _opening(text: str, rules: Rules) -> tuple[Phrase, str] | None:
    """Return the longest known beginning and the text after it."""
    text = rules.subject.sub("", text, count=1) if rules.subject.match(text) else text
    words = text.split()

    for count in range(min(PHRASE_WORDS, len(words) - 1), 0, -1):
        phrase = rules.openings.get(" ".join(words[:count]).lower())
        if phrase is not None:
            rest = words[count:]
            return (phrase, " ".join(rest)) if _fits_grammar(phrase, rest, rules) else None
    return None


def _fits_grammar(phrase: Phrase, rest: list[str], rules: Rules) -> bool:
    if phrase.noun:
        verb = next((word for word in rest if word in rules.finite or word in rules.relatives), "")
        return verb not in rules.finite
    return rest[0] not in rules.not_after


def _reveals(rest: str, term: str) -> bool:
    """Return whether the rest has the term, unless that is an ordinary word such as `copy`."""
    name = term.rpartition(".")[2]
    if name.isalpha() and name.islower() and f"{name}(" not in rest:
        return False
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", rest) is not None


def _modules(entry: _Entry) -> Iterator[_Candidate]:
    """Ask for a module by a title such as `json — JSON encoder and decoder`.

    The answer is the module's name in the first paragraph that has it.
    """
    name, dash, synopsis = entry.term.partition(" — ")
    is_module = dash and re.fullmatch(r"[\w.]+", name)
    cleaned = _cleaned(synopsis, entry.rules) if is_module else ""
    if not cleaned or _reveals(cleaned, name):
        return

    words = (_find_word(entry.body, name, paragraph) for paragraph in entry.paragraphs)
    span = next((word for word in words if word is not None), None)
    if span is None:
        return

    values = _verb_and_rest(entry, synopsis) | {"noun": "module"}
    if "third" in values:
        yield _Candidate("term", span.start, span.end, values)
    elif cleaned.partition(" ")[0].lower() not in entry.rules.openings:
        rest = _lowered(cleaned, entry.rules)
        yield _Candidate("module", span.start, span.end, {"rest": rest})


def _find_word(body: str, word: str, span: Span) -> Span | None:
    pattern = re.compile(rf"(?<![\w./]){re.escape(word)}(?![\w/]|\.\w)")
    match = pattern.search(body, span.start, span.end)
    return match and Span(*match.span())


def _lowered(text: str, rules: Rules) -> str:
    """Lower the first letter of a sentence, except that of a name."""
    first = text.split(" ", 1)[0]
    keep = _CAPITAL_STAYS.match(first) is not None or re.split(r"\W", first)[0] in rules.proper
    return text if keep else text[:1].lower() + text[1:]


def _defaults(entry: _Entry) -> Iterator[_Candidate]:
    """Ask for defaults: the signature's if its lines agree, else those that prose states."""
    for name, stated in entry.parameters.items():
        default = _agreed(entry, [parameter.default for parameter in stated])
        if default and _is_telling_default(entry, default):
            yield _Candidate("default value", default.start, default.end, {"parameter": name})

    for name, value in _prose_defaults(entry):
        if not any(parameter.default for parameter in entry.parameters[name]):
            yield _Candidate("default value", value.start, value.end, {"parameter": name})


def _agreed(entry: _Entry, spans: Sequence[CharSpan | None]) -> Span | None:
    """Return the first of the spans if all of them have the same text."""
    stated = [Span(*span) for span in spans if span is not None]
    texts = {entry.text(span) for span in stated}
    return stated[0] if len(texts) == 1 else None


def _is_telling_default(entry: _Entry, default: Span) -> bool:
    last = entry.text(default).rpartition(".")[2]
    return last not in entry.rules.sentinels and not last.startswith("<")


def _prose_defaults(entry: _Entry) -> Iterator[tuple[str, Span]]:
    """Find defaults such as in "If the step argument is omitted, it defaults to 1"."""
    if not entry.parameters:
        return

    for sentence in entry.prose():
        for pattern in _PARAMETER_DEFAULTS:
            match = pattern.search(entry.body, sentence.start, sentence.end)
            if match and match["parameter"] in entry.parameters and _is_value(match["value"]):
                yield match["parameter"], Span(*match.span("value"))
                break


def _is_value(text: str) -> bool:
    """Return whether a text is a number, a quotation or a word of code, unlike "the"."""
    return not text.isalpha() or not text.islower() or text in _PLAIN_VALUES


def _settings(entry: _Entry) -> Iterator[_Candidate]:
    """Ask for the default of an entry without arguments: an attribute, option or setting."""
    if "(" in entry.signature or not entry.name or not _DISTINCTIVE_NAME.fullmatch(entry.term):
        return

    for paragraph in entry.paragraphs:
        match = _DEFAULT.search(entry.body, paragraph.start, paragraph.end)
        if match and _is_value(match["value"]) and not entry.body.startswith("- ", paragraph.start):
            yield _Candidate("default setting", *match.span("value"), {})
            return


def _described_parameters(entry: _Entry) -> Iterator[_Candidate]:
    """Ask about parameters in field lists, and in sentences that begin with their names."""
    if not entry.parameters:
        return

    for sentence in entry.prose():
        item = _ITEM.match(entry.body, sentence.start, sentence.end)
        about = item or _PARAMETER_FIRST.match(entry.body, sentence.start, sentence.end)
        if about is None or about["parameter"] not in entry.parameters:
            continue
        name = about["parameter"]
        if item and item["type"]:
            yield _Candidate("parameter type", *item.span("type"), {"parameter": name})

        purpose = entry.body[about.end() : sentence.end]
        values = _parameter_purpose(entry, purpose, listed=item is not None)
        if values and not _reveals(values["rest"], name):
            yield _Candidate("parameter", *about.span("parameter"), values)
            stated = entry.parameters[name]
            default = _agreed(entry, [parameter.default for parameter in stated])
            if default and _is_telling_default(entry, default):
                yield _Candidate("described default", default.start, default.end, values)


def _parameter_purpose(entry: _Entry, text: str, *, listed: bool) -> dict[str, str]:
    """Return what a parameter does: a description in a list, a third person in prose."""
    if listed:
        values = _verb_and_rest(entry, text)
        return values if values and len(values["rest"].split()) >= CLEAR_WORDS else {}

    cleaned = _cleaned(text, entry.rules)
    verb, _, rest = cleaned.partition(" ")
    is_known_verb = verb in entry.rules.plains and verb not in ("is", "defaults")
    is_statement = cleaned.startswith(_BEING) or is_known_verb
    fits = CLEAR_WORDS <= len(rest.split()) <= entry.rules.max_words

    # "The size and mode are ..." would be answered by two parameters.
    is_about_several = any(match[1] in entry.parameters for match in _ANOTHER.finditer(rest))
    is_usable = is_statement and fits and not is_about_several
    return {"third": verb, "rest": rest} if is_usable else {}


def _types(entry: _Entry) -> Iterator[_Candidate]:
    """Ask for the annotations of parameters, and for return types."""
    for name, stated in entry.parameters.items():
        annotation = _agreed(entry, [parameter.annotation for parameter in stated])
        if annotation:
            yield _Candidate(
                "parameter type", annotation.start, annotation.end, {"parameter": name}
            )

    in_fields = _RETURN_TYPE.search(entry.body, len(entry.signature), MAX_BODY_CHARS)
    match = _ARROW.search(entry.signature) or in_fields
    if match and entry.noun:
        yield _Candidate("return type", *match.span("type"), {})


def _returns(entry: _Entry) -> Iterator[_Candidate]:
    """Ask for the value that the first sentence returns, and for values under a condition."""
    span = entry.description
    if span is None or not entry.noun or not entry.signature.rstrip().endswith((")", "]")):
        return

    answer = _returned(entry, span)
    if answer is not None:
        yield _Candidate("return value", answer.start, answer.end, {})

    for sentence in entry.prose():
        match = _CONDITIONAL.search(entry.body, sentence.start, sentence.end)
        condition = _condition(entry, match) if match else ""
        if match and condition and _is_returned(match["value"], entry.rules):
            yield _Candidate("conditional return", *match.span("value"), {"condition": condition})


def _is_returned(text: str, rules: Rules) -> bool:
    """Return whether it is a value such as `None` or "an empty list", not "a flag indicating"."""
    words = text.split()
    is_code = len(words) == 1 and (_is_value(text) or text.startswith("non"))
    is_whole = words[0] in ("a", "an") or is_code

    is_cut_off = words[-1].endswith("ing") or words[-1] in rules.dangling
    return is_whole and not is_cut_off and not rules.is_vague.search(text)


def _returned(entry: _Entry, sentence: Span) -> Span | None:
    """Find the value in a sentence such as "Returns the number of lines, or ..."."""
    start = _RETURNED.match(entry.body, sentence.start, sentence.end)
    if start is None:
        return None

    # What is returned under a condition is no answer to "What does it return?".
    cut = _CUT.search(entry.body, start.end(), sentence.end)
    if cut and cut[0] in _CONDITIONS:
        return None

    span = Span(start.end(), cut.start() if cut else sentence.end)
    answer = entry.body[span.start : span.end]
    has_fit_length = 1 <= len(answer.split()) <= entry.rules.max_answer_words
    has_verb = any(match[2] in entry.rules.thirds for match in _COORDINATED.finditer(answer))
    is_sound = has_fit_length and _cleaned(answer, entry.rules) and not has_verb
    return span if is_sound else None


def _condition(entry: _Entry, match: re.Match[str]) -> str:
    """Return "if the file does not exist"; empty if it is vague or too long."""
    text = _TAIL.sub("", match["condition"], count=1)
    cleaned = _cleaned(text, entry.rules)

    words = cleaned.split()
    has_fit_length = MIN_WORDS <= len(words) <= entry.rules.max_words
    if not has_fit_length or words[0] in _EMPTY_CONDITIONS:
        return ""
    return f"{match['word'].lower()} {cleaned}"


def _exceptions(entry: _Entry) -> Iterator[_Candidate]:
    """Ask for exceptions by sentences such as "Raises KeyError if the key is not there"."""
    if not entry.noun:
        return

    for sentence in entry.prose():
        match = _raises(entry.body, sentence)
        condition = _condition(entry, match) if match else ""
        if match and condition:
            yield _Candidate("exception", *match.span("exception"), {"condition": condition})


def _raises(body: str, sentence: Span) -> re.Match[str] | None:
    """Match the first pattern that fits, unless what comes before is a "may" or a "not"."""
    for pattern in _RAISES:
        match = pattern.match(body, sentence.start, sentence.end)
        if match and not _UNSURE.search(match.groupdict().get("before") or ""):
            return match
    return None


def _versions(entry: _Entry) -> Iterator[_Candidate]:
    """Ask for the version that added or deprecated the entry, or added a parameter."""
    if not entry.noun:
        return

    for paragraph in entry.paragraphs:
        match = _VERSION.match(entry.body, paragraph.start, paragraph.end)
        if match is None:
            continue

        kind, span, end = match["what"], match.span("version"), match.end()
        if kind == "Deprecated" and _OUTDATED.match(entry.body, end, paragraph.end):
            yield _Candidate("deprecation", *span, {})
        elif kind == "Changed":
            name = _added_parameter(entry.body, end, paragraph.end)
            if name in entry.parameters:
                yield _Candidate("parameter version", *span, {"parameter": name})
        elif kind in ("New", "Added") and _is_end_of_note(entry.body, end, paragraph.end):
            yield _Candidate("version", *span, {})


def _added_parameter(body: str, start: int, end: int) -> str:
    """Return the parameter that a note on a change says was added, or an empty string."""
    match = _ADDED.search(body, start, min(end, start + MAX_SENTENCE_CHARS))
    return (match["first"] or match["second"]) if match else ""


def _is_end_of_note(body: str, start: int, end: int) -> bool:
    """Return whether only a full stop follows; otherwise the note is about a part of the entry."""
    return not body[start : min(end, start + 40)].strip(" .\n")


_FINDERS = (
    _terms,
    _defaults,
    _settings,
    _described_parameters,
    _types,
    _returns,
    _exceptions,
    _versions,
)
