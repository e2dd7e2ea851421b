"""Definitions of a language reference -> questions with their answers in it, by template (reference QA, section 3.5).

A description that begins with a verb becomes a question whose answer is the term: "Return the absolute value of a
number." -> "What function returns the absolute value of a number?" -> `abs`. Signatures, field lists and sentences of
known shape give questions about defaults, parameters, types, return values, exceptions and versions, which the paper
does not have. The verbs, the kinds of entries and the questions' wordings are data: `templates.toml`.
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

from index.errors import InvalidInput
from index.qa.signatures import MAX_SIGNATURE_CHARS, CharSpan, Parameter, overloads
from index.records import Document, Span
from training.config import in_range, read

__all__ = [
    "RULES",
    "Example",
    "Rules",
    "entry_of",
    "examples",
    "questions",
    "read_rules",
    "split_of",
    "unambiguous",
]

RULES = Path(__file__).with_name("templates.toml")
Split = Literal["train", "dev", "test"]
Rephrase = Callable[[Sequence[str]], Sequence[str | None]]

MAX_BODY = 20_000  # characters of a body that are read
MAX_SENTENCE = 400
MAX_DEFAULT = 60
MAX_TERM = 120
MAX_EXAMPLES = 100  # of one entry
MIN_WORDS = 2  # after the verb
CLEAR_WORDS = 4  # a description of fewer needs its class or module beside it
PHRASE_WORDS = 5  # of the longest phrase that is looked up

_PLACEHOLDER = re.compile(r"\{(.*?)\}")
_KNOWN = frozenset(
    ["noun", "where", "third", "plain", "rest", "term", "name", "parameter", "condition"]
)

_PARAGRAPH = re.compile(r"[^\n]+(?:\n[^\n]+)*")
_STOP = re.compile(
    r"(?<!\be\.g)(?<!\bi\.e)(?<!\betc)(?<!\bvs)(?<!\bcf)[.;:](?=[)\]”\"’']?(?:\s|$))|\n|$"
)
_NOTE = re.compile(r"\s\([^()]*\)")
_NO_NOTE = re.compile(
    r"^\S+ \(|[*+/=<>%&|^-] \(|\b(?:an?|the|of|to|and|or) \("
)  # brackets that the sentence needs
_ASIDE = re.compile(  # what a question does without
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

_P = r"(?:[Tt]he )?(?:optional )?(?P<parameter>\w+)(?: keyword)?(?: argument| parameter)?"
_ITEM = re.compile(
    r"(?:- )?(?:Parameters: )?\*{0,2}(?P<parameter>\w+)(?: \((?P<type>[^()\n:=]{1,60})\))? [–-] (?=\S)"
)
_ABOUT = re.compile(_P + r" (?=\S)")
_RETURN_TYPE = re.compile(r"^(?:- )?Return type: (?P<type>\S.{0,60}?)\.?$", re.MULTILINE)
_ARROW = re.compile(r"\) (?:→|->) (?P<type>\S.{0,60})$", re.MULTILINE)

_UNIT = r"(?: (?:milli|micro)?seconds?| minutes?| hours?| days?| (?:kilo|mega|giga)?bytes| [kMG]B)?"
_VALUE = (
    r"(?P<value>\"[^\"\n]{1,60}\"|'[^'\n]{1,60}'|“[^”\n]{1,60}”|‘[^’\n]{1,60}’|"
    rf"-?\d(?:[\w.]*\w)?{_UNIT}|[A-Za-z_](?:[\w.]*\w)?(?:\(\))?)(?=$|[,;:.)]| \(| which| if| when| and)"
)
_PARAMETER_DEFAULTS = (
    re.compile(
        rf"\b[Ii]f {_P} is (?:omitted|missing|absent|not \w+),? (?:it )?defaults to {_VALUE}"
    ),
    re.compile(rf"{_P} defaults to {_VALUE}"),
    re.compile(rf"\b[Dd]efault (?:value )?(?:for|of) {_P} is {_VALUE}"),
)
_DEFAULT = re.compile(
    rf"(?:\b[Tt]he default(?: value)? is|(?:^|(?<=[.;:] ))(?:It d|D)efaults to|^Default:) {_VALUE}",
    re.MULTILINE,
)
_TELLING = re.compile(
    r"(?=.*[._-]\w|[A-Z_]{3})\S{3,}"
)  # `--max-tries`, `json.encoder`; `-t` and `name` are of many
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

_VERSION = re.compile(
    r"(?P<what>New|Added|Changed|Deprecated) (?:in|since) (?:version |[A-Z]\w* )(?P<version>\d(?:[\d.]*\d)?)"
)
_OUTDATED = re.compile(  # the note is about the entry, not about a part of it
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
    """A verb whose third person follows no rule."""

    verb: str
    third: str


@dataclass(frozen=True, slots=True)
class Phrase:
    """How a description may begin, and what the question says instead.

    `plain` is for "How do I ...?", "-" where one cannot ask so. After a `noun` no other verb may come.
    """

    start: str
    third: str
    plain: str
    noun: bool = False


@dataclass(frozen=True, slots=True)
class Directive:
    """What an entry is called; `link` joins it to its class or module ("of", "in")."""

    kind: str
    noun: str
    link: str = ""
    starts: str = ""
    anchor: str = ""
    upper: bool = False


@dataclass(frozen=True, slots=True)
class Form:
    """The wordings of one kind of question; `draws` of them are taken for an answer."""

    name: str
    texts: tuple[str, ...]
    draws: int = 1

    def __post_init__(self) -> None:
        in_range("draws", self.draws, 1, 100)
        for text in self.texts:
            unknown = set(_PLACEHOLDER.findall(text)) - _KNOWN
            if unknown:
                known = ", ".join(sorted(_KNOWN))
                raise InvalidInput(
                    f"Unknown placeholder {unknown.pop()!r:.80} in {text!r:.80}; known are {known}."
                )


@dataclass(frozen=True)
class Rules:
    """What `templates.toml` says; its comments say what each key is for."""

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
        """Verb -> its third person."""
        irregular = {item.verb: item.third for item in self.irregular}
        return {
            verb: irregular.get(verb) or third_person(verb) for verb in (*self.verbs, *irregular)
        }

    @cached_property
    def plains(self) -> dict[str, str]:
        """Third person -> its verb."""
        return {third: verb for verb, third in self.thirds.items()}

    @cached_property
    def openings(self) -> dict[str, Phrase]:
        """A description's first words in lower case -> what they are."""
        verbs = {
            start: Phrase(start, third, verb)
            for verb, third in self.thirds.items()
            for start in (verb, third)
        }
        return verbs | {phrase.start: phrase for phrase in self.phrases}

    @cached_property
    def texts(self) -> dict[str, Form]:
        """A form's name -> the form."""
        return {form.name: form for form in self.forms}

    @cached_property
    def is_vague(self) -> re.Pattern[str]:
        """Finds words that cannot be understood away from their page."""
        return re.compile(
            rf"(?<!\w)(?:{'|'.join(map(re.escape, self.vague)) or '(?!)'})(?!\w)", re.IGNORECASE
        )

    @cached_property
    def subject(self) -> re.Pattern[str]:
        """Matches a beginning that stands for the entry itself."""
        return re.compile(
            rf"(?:{'|'.join(map(re.escape, self.subjects)) or '(?!)'}) ", re.IGNORECASE
        )


@dataclass(frozen=True, slots=True)
class Example:
    """A question and its answer: `body[start:end] == answer` of the document, which belongs to `entry`."""

    question: str
    document_id: str
    answer: str
    start: int
    end: int
    form: str
    entry: str


class _Found(NamedTuple):
    """An answer's span, the form of question it answers, and what the question says."""

    form: str
    start: int
    end: int
    values: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Entry:
    """A definition, taken apart once for all templates. Paragraphs and sentences are spans of the body."""

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
        """The first sentence that is no note."""
        for paragraph in self.paragraphs:
            if not self.is_note(paragraph) and not self.body.startswith("- ", paragraph.start):
                return next(sentences(self.body, paragraph), None)
        return None

    def is_note(self, paragraph: Span) -> bool:
        return self.body.startswith(self.rules.notes, paragraph.start)

    def prose(self) -> Iterator[Span]:
        """The sentences of all paragraphs but notes of versions."""
        for paragraph in self.paragraphs:
            if not _VERSION.match(self.body, paragraph.start):
                yield from sentences(self.body, paragraph)

    def text(self, span: Span) -> str:
        return self.body[span.start : span.end]


def read_rules(path: Path = RULES) -> Rules:
    """The rules of a TOML file. Raises NotFound or InvalidInput, which name the key."""
    return read(path, Rules)


def examples(document: Document, rules: Rules, rng: Random) -> Iterator[Example]:
    """Questions that the document of a reference answers, in wordings that `rng` chooses; none of them twice."""
    entry = _take_apart(document, rules)
    finders = (_modules,) if document.fields.get("directive") == "section" else _FINDERS
    asked: set[str] = set()
    found = (item for finder in finders for item in finder(entry))
    for item in islice(found, MAX_EXAMPLES):
        for question in _questions(entry, item, rng):
            answer = document.body[item.start : item.end]
            if question not in asked and answer == answer.strip() != "":
                asked.add(question)
                yield Example(
                    question,
                    document.id,
                    answer,
                    item.start,
                    item.end,
                    item.form,
                    entry_of(document),
                )


def questions(
    documents: Iterable[Document],
    split: str,
    rules: Path | None = None,
    rephrase: Rephrase | None = None,
    leave_out: Collection[str] = (),
) -> list[Example]:
    """The unambiguous ones over a whole reference whose entries are in the split; the same in every run.

    `rules` is a file of templates of one's own; what `rephrase` makes of the questions is asked as well. Nothing is
    asked about the entries `leave_out`.
    """

    def is_chosen(example: Example) -> bool:
        return split_of(example.entry) == split and example.entry not in leave_out

    known, rng = read_rules(rules or RULES), Random(0)
    found = [example for document in documents for example in examples(document, known, rng)]
    if rephrase is not None:
        chosen = list(filter(is_chosen, unambiguous(found)))
        changed = zip(chosen, rephrase([example.question for example in chosen]), strict=True)
        found += [replace(example, question=text) for example, text in changed if text]
    return list(filter(is_chosen, unambiguous(found)))


def entry_of(document: Document) -> str:
    """What questions and passages name their entry by."""
    return document.location.url or document.id


def unambiguous(found: Iterable[Example]) -> list[Example]:
    """Without the questions that entries answer differently ("What method closes the file?")."""
    found = list(found)
    answers: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for example in found:
        answers[example.question.lower()].add((example.entry, example.answer))
    return [example for example in found if len(answers[example.question.lower()]) == 1]


def split_of(entry: str, seed: int = 0) -> Split:
    """8:1:1, the same for all questions of an entry, in every run and on every machine."""
    digest = blake2b(f"{seed}:{entry}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    tenth = int.from_bytes(digest, "big") % 10
    return "dev" if tenth == 8 else "test" if tenth == 9 else "train"


def third_person(verb: str) -> str:
    """Of a regular English verb: return -> returns, push -> pushes, copy -> copies."""
    if verb.endswith(("s", "x", "z", "ch", "sh", "o")):
        return verb + "es"
    return verb[:-1] + "ies" if re.search(r"[^aeiou]y$", verb) else verb + "s"


def sentences(body: str, paragraph: Span) -> Iterator[Span]:
    """The sentences of a paragraph without their full stops; colons, semicolons and lines end them too."""
    start = paragraph.start
    for stop in _STOP.finditer(body, paragraph.start, paragraph.end):
        while start < stop.start() and body[start].isspace():
            start += 1
        if start < stop.start() <= start + MAX_SENTENCE:
            yield Span(start, stop.start())
        start = stop.end()


def _take_apart(document: Document, rules: Rules) -> _Entry:
    names = document.fields.get("names")
    term = (names[0] if isinstance(names, tuple) and names else document.title)[:MAX_TERM]
    stated = document.fields.get("signature")
    signature = stated if isinstance(stated, str) and document.body.startswith(stated) else ""
    directive = _directive(document, term, signature, rules)
    if directive and directive.link:
        term = term.partition("(")[0]  # of a signature that no reader understood
    owner = term.rpartition(".")[0]
    return _Entry(
        body=document.body,
        rules=rules,
        term=term,
        noun=directive.noun if directive else "",
        where=f" {directive.link} {owner}" if directive and directive.link and owner else "",
        name=_named(term, signature),
        signature=signature,
        parameters=_parameters(signature if directive else ""),
        paragraphs=tuple(_paragraphs(document, len(signature))),
    )


def _directive(document: Document, term: str, signature: str, rules: Rules) -> Directive | None:
    """What the entry is called; a function of a class, as the capital before its name shows, is a method."""
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


def _named(term: str, signature: str) -> Span | None:
    """Where the signature has the term, with as many of its dotted parts as stand there."""
    line = signature[:MAX_SIGNATURE_CHARS]
    while term:
        start = line.find(term)
        if (
            start >= 0
            and not line[:start][-1:].isidentifier()
            and not (line + " ")[start + len(term)].isidentifier()
        ):
            return Span(start, start + len(term))
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
        if len(name) <= MAX_DEFAULT
    }


def _short(span: CharSpan | None) -> CharSpan | None:
    return span if span and span[1] - span[0] <= MAX_DEFAULT else None


def _paragraphs(document: Document, start: int) -> Iterator[Span]:
    """Those of prose: what touches a signature, table or code block is left out."""
    atoms = sorted((atom.start, atom.end) for atom in document.atoms)
    for match in _PARAGRAPH.finditer(document.body, start, MAX_BODY):
        before = bisect_right(atoms, (match.end() - 1, len(document.body))) - 1
        if before < 0 or atoms[before][1] <= match.start():
            yield Span(match.start(), match.end())


def _questions(entry: _Entry, item: _Found, rng: Random) -> list[str]:
    form = entry.rules.texts.get(item.form)
    if form is None:
        return []
    name = entry.term.rpartition(".")[2]
    values = {
        "term": entry.term,
        "name": name,
        "noun": entry.noun,
        "where": entry.where,
        **item.values,
    }
    short = (
        len(values.get("rest", "").split()) < CLEAR_WORDS
        and entry.where != ""
        and item.form == "term"
    )
    texts = [text for text in form.texts if _fits(text, values, short)]
    chosen = rng.sample(texts, min(form.draws, len(texts)))
    return [_worded(text, values, entry.rules) for text in chosen]


def _worded(text: str, values: dict[str, str], rules: Rules) -> str:
    """The text with its values, and the verbs of the rest in the form that its own verb has."""
    forms = rules.plains if "{plain}" in text else rules.thirds
    filled = (
        values | {"rest": _inflected(values["rest"], forms, rules)} if "rest" in values else values
    )
    return _PLACEHOLDER.sub(lambda match: filled[match[1]], text)


def _inflected(rest: str, forms: Mapping[str, str], rules: Rules) -> str:
    """ "the file and return a stream" -> "the file and returns a stream"; what follows "to" stays as it is."""
    infinitive = next(
        (match.start() for match in _INFINITIVE.finditer(rest) if match[1] in rules.thirds),
        len(rest),
    )

    def change(match: re.Match[str]) -> str:
        verb = match[2] not in rules.also_nouns or match[3] in rules.determiners
        return (
            f"{match[1]} {forms.get(match[2], match[2])}"
            if verb and match.start() < infinitive
            else match[0]
        )

    return _COORDINATED.sub(change, rest)


def _fits(text: str, values: Mapping[str, str], short: bool) -> bool:
    """Whether all that the text needs is known, and what it asks is clear.

    A short description needs its owner's name; "What is the path?" needs to say what kind of thing is asked for.
    """
    needed = set(_PLACEHOLDER.findall(text))
    bare = (
        "third" in needed
        and not needed & {"noun", "term", "name"}
        and values["third"].startswith("is ")
    )
    if (short and "where" not in needed) or (bare and (values["where"] or not values["noun"])):
        return False
    return all(values.get(name) for name in needed - {"where"})


def _terms(entry: _Entry) -> Iterator[_Found]:
    """The paper's template: verb and rest of the first sentence -> the term."""
    span = entry.description
    if span is None or entry.name is None:
        return
    values = _asked(entry, entry.text(span))
    if values:
        yield _Found("term", entry.name.start, entry.name.end, values)


def _asked(entry: _Entry, sentence: str) -> dict[str, str]:
    """The verb and the rest of a description; empty if it begins otherwise, is too long, or names the term."""
    rules = entry.rules
    cleaned = _cleaned(sentence, rules)
    found = _opening(cleaned, rules) if cleaned else None
    if found is None:
        return {}
    phrase, rest = found
    if not MIN_WORDS <= len(rest.split()) <= rules.max_words or _names(rest, entry.term):
        return {}
    values = {"third": phrase.third, "rest": rest}
    return values if phrase.plain == "-" or not entry.noun else values | {"plain": phrase.plain}


def _cleaned(sentence: str, rules: Rules) -> str:
    """Without notes in brackets and "otherwise ..."; empty if half a bracket is left, or it is no clear statement."""
    if _NO_NOTE.search(sentence):
        return ""
    text = _ASIDE.sub("", " ".join(_NOTE.sub("", sentence).split())).rstrip(" ,.")
    whole = all(text.count(left) == text.count(right) for left, right in ("()", "“”", "[]"))
    clear = not text.endswith("?") and text.rpartition(" ")[2] not in rules.dangling
    return text if whole and clear and not rules.is_vague.search(text) else ""


def _opening(text: str, rules: Rules) -> tuple[Phrase, str] | None:
    """The longest known beginning, and what follows it."""
    text = rules.subject.sub("", text, count=1) if rules.subject.match(text) else text
    words = text.split()
    for count in range(min(PHRASE_WORDS, len(words) - 1), 0, -1):
        phrase = rules.openings.get(" ".join(words[:count]).lower())
        if phrase is not None:
            return (
                (phrase, " ".join(words[count:])) if _sound(phrase, words[count:], rules) else None
            )
    return None


def _sound(phrase: Phrase, rest: list[str], rules: Rules) -> bool:
    if phrase.noun:
        verb = next((word for word in rest if word in rules.finite or word in rules.relatives), "")
        return verb not in rules.finite
    return rest[0] not in rules.not_after


def _names(rest: str, term: str) -> bool:
    """Whether the rest gives the term away; an ordinary word such as `copy` does not."""
    name = term.rpartition(".")[2]
    if name.isalpha() and name.islower() and f"{name}(" not in rest:
        return False
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", rest) is not None


def _modules(entry: _Entry) -> Iterator[_Found]:
    """A page's title such as `json — JSON encoder and decoder`; the answer is the name where the prose has it."""
    name, dash, synopsis = entry.term.partition(" — ")
    cleaned = _cleaned(synopsis, entry.rules) if dash and re.fullmatch(r"[\w.]+", name) else ""
    place = (
        next((span for span in entry.paragraphs if _word(entry.body, name, span)), None)
        if cleaned
        else None
    )
    if place is not None and not _names(cleaned, name):
        found = _word(entry.body, name, place)
        assert found is not None
        values = _asked(entry, synopsis) | {"noun": "module"}
        if "third" in values:
            yield _Found("term", found.start, found.end, values)
        elif cleaned.partition(" ")[0].lower() not in entry.rules.openings:
            yield _Found("module", found.start, found.end, {"rest": _lowered(cleaned, entry.rules)})


def _word(body: str, word: str, span: Span) -> Span | None:
    found = re.compile(rf"(?<![\w./]){re.escape(word)}(?![\w/]|\.\w)").search(
        body, span.start, span.end
    )
    return found and Span(*found.span())


def _lowered(text: str, rules: Rules) -> str:
    """Without the capital of a sentence's beginning; names keep theirs."""
    first = text.split(" ", 1)[0]
    keep = _CAPITAL_STAYS.match(first) is not None or re.split(r"\W", first)[0] in rules.proper
    return text if keep else text[:1].lower() + text[1:]


def _defaults(entry: _Entry) -> Iterator[_Found]:
    """Of parameters in the signature, where all its lines agree; those of prose for parameters without one."""
    for name, stated in entry.parameters.items():
        default = _agreed(entry, [parameter.default for parameter in stated])
        if default and _says(entry, default):
            yield _Found("default value", default.start, default.end, {"parameter": name})
    for name, value in _prose_defaults(entry):
        if not any(parameter.default for parameter in entry.parameters[name]):
            yield _Found("default value", value.start, value.end, {"parameter": name})


def _agreed(entry: _Entry, spans: Sequence[CharSpan | None]) -> Span | None:
    """Return the first of the spans if all of them have the same text."""
    stated = [Span(*span) for span in spans if span is not None]
    texts = {entry.text(span) for span in stated}
    return stated[0] if len(texts) == 1 else None


def _says(entry: _Entry, default: Span) -> bool:
    last = entry.text(default).rpartition(".")[2]
    return last not in entry.rules.sentinels and not last.startswith("<")


def _prose_defaults(entry: _Entry) -> Iterator[tuple[str, Span]]:
    """ "If the step argument is omitted, it defaults to 1." """
    if not entry.parameters:
        return
    for sentence in entry.prose():
        for pattern in _PARAMETER_DEFAULTS:
            match = pattern.search(entry.body, sentence.start, sentence.end)
            if match and match["parameter"] in entry.parameters and _is_value(match["value"]):
                yield match["parameter"], Span(*match.span("value"))
                break


def _is_value(text: str) -> bool:
    """A number, something quoted, or a word that is code; "the" is none."""
    return not text.isalpha() or not text.islower() or text in _PLAIN_VALUES


def _settings(entry: _Entry) -> Iterator[_Found]:
    """The default of what takes no arguments: attributes, options, settings."""
    if "(" in entry.signature or not entry.name or not _TELLING.fullmatch(entry.term):
        return
    for paragraph in entry.paragraphs:
        match = _DEFAULT.search(entry.body, paragraph.start, paragraph.end)
        if match and _is_value(match["value"]) and not entry.body.startswith("- ", paragraph.start):
            yield _Found("default setting", *match.span("value"), {})
            return


def _described_parameters(entry: _Entry) -> Iterator[_Found]:
    """Field lists, and sentences that begin with a parameter's name."""
    if not entry.parameters:
        return
    for sentence in entry.prose():
        item = _ITEM.match(entry.body, sentence.start, sentence.end)
        about = item or _ABOUT.match(entry.body, sentence.start, sentence.end)
        if about is None or about["parameter"] not in entry.parameters:
            continue
        if item and item["type"]:
            yield _Found("parameter type", *item.span("type"), {"parameter": item["parameter"]})
        values = _does(entry, entry.body[about.end() : sentence.end], listed=item is not None)
        if values and not _names(values["rest"], about["parameter"]):
            yield _Found("parameter", *about.span("parameter"), values)
            stated = entry.parameters[about["parameter"]]
            default = _agreed(entry, [parameter.default for parameter in stated])
            if default and _says(entry, default):
                yield _Found("described default", default.start, default.end, values)


def _does(entry: _Entry, text: str, *, listed: bool) -> dict[str, str]:
    """What a parameter does: in a list as descriptions say it, in prose in the third person."""
    if listed:
        values = _asked(entry, text)
        return values if values and len(values["rest"].split()) >= CLEAR_WORDS else {}
    cleaned = _cleaned(text, entry.rules)
    verb, _, rest = cleaned.partition(" ")
    known = cleaned.startswith(_BEING) or (
        verb in entry.rules.plains and verb not in ("is", "defaults")
    )
    fits = CLEAR_WORDS <= len(rest.split()) <= entry.rules.max_words
    another = any(match[1] in entry.parameters for match in _ANOTHER.finditer(rest))
    return {"third": verb, "rest": rest} if known and fits and not another else {}


def _types(entry: _Entry) -> Iterator[_Found]:
    """Annotations of parameters, and the return types of signatures and field lists."""
    for name, stated in entry.parameters.items():
        annotation = _agreed(entry, [parameter.annotation for parameter in stated])
        if annotation:
            yield _Found("parameter type", annotation.start, annotation.end, {"parameter": name})
    match = _ARROW.search(entry.signature) or _RETURN_TYPE.search(
        entry.body, len(entry.signature), MAX_BODY
    )
    if match and entry.noun:
        yield _Found("return type", *match.span("type"), {})


def _returns(entry: _Entry) -> Iterator[_Found]:
    """What the first sentence says is returned, and what others say is returned under a condition."""
    span = entry.description
    if span is None or not entry.noun or not entry.signature.rstrip().endswith((")", "]")):
        return
    answer = _returned(entry, span)
    if answer is not None:
        yield _Found("return value", answer.start, answer.end, {})
    for sentence in entry.prose():
        match = _CONDITIONAL.search(entry.body, sentence.start, sentence.end)
        condition = _condition(entry, match) if match else ""
        if match and condition and _is_returned(match["value"], entry.rules):
            yield _Found("conditional return", *match.span("value"), {"condition": condition})


def _is_returned(text: str, rules: Rules) -> bool:
    """A value such as `None`, "an empty list"; not "a flag indicating"."""
    words = text.split()
    whole = words[0] in ("a", "an") or (
        len(words) == 1 and (_is_value(text) or text.startswith("non"))
    )
    return (
        whole
        and not words[-1].endswith("ing")
        and words[-1] not in rules.dangling
        and not rules.is_vague.search(text)
    )


def _returned(entry: _Entry, sentence: Span) -> Span | None:
    start = re.compile(
        r"(?:(?:It |This \w+ )?[Rr]eturns|Return) (?!whether|if|when|to|from|without|immediately|value)"
    ).match(entry.body, sentence.start, sentence.end)
    if start is None:
        return None
    cut = _CUT.search(entry.body, start.end(), sentence.end)
    if cut and cut[0] in _CONDITIONS:
        return None
    end = cut.start() if cut else sentence.end
    answer = entry.body[start.end() : end]
    words = answer.split()
    verbs = any(match[2] in entry.rules.thirds for match in _COORDINATED.finditer(answer))
    sound = (
        1 <= len(words) <= entry.rules.max_answer_words
        and _cleaned(answer, entry.rules)
        and not verbs
    )
    return Span(start.end(), end) if sound else None


def _condition(entry: _Entry, match: re.Match[str]) -> str:
    """ "if the file does not exist"; empty if it is vague, too long or goes on to something else."""
    text = _TAIL.sub("", match["condition"], count=1)
    cleaned = _cleaned(text, entry.rules)
    words = cleaned.split()
    if not MIN_WORDS <= len(words) <= entry.rules.max_words or words[0] in (
        "it",
        "successful",
        "success",
    ):
        return ""
    return f"{match['word'].lower()} {cleaned}"


def _exceptions(entry: _Entry) -> Iterator[_Found]:
    """ "Raises KeyError if the key is not there." and its like."""
    if not entry.noun:
        return
    for sentence in entry.prose():
        matches = (pattern.match(entry.body, sentence.start, sentence.end) for pattern in _RAISES)
        match = next(
            (
                match
                for match in matches
                if match and not _UNSURE.search(match.groupdict().get("before") or "")
            ),
            None,
        )
        condition = _condition(entry, match) if match else ""
        if match and condition:
            yield _Found("exception", *match.span("exception"), {"condition": condition})


def _versions(entry: _Entry) -> Iterator[_Found]:
    """Notes of when the entry was added or deprecated, and when a parameter was added."""
    if not entry.noun:
        return
    for paragraph in entry.paragraphs:
        match = _VERSION.match(entry.body, paragraph.start, paragraph.end)
        if match is None:
            continue
        span = match.span("version")
        if match["what"] == "Deprecated" and _OUTDATED.match(
            entry.body, match.end(), paragraph.end
        ):
            yield _Found("deprecation", *span, {})
        elif match["what"] == "Changed":
            added = _ADDED.search(
                entry.body, match.end(), min(paragraph.end, match.end() + MAX_SENTENCE)
            )
            name = (added["first"] or added["second"]) if added else ""
            if name in entry.parameters:
                yield _Found("parameter version", *span, {"parameter": name})
        elif match["what"] in ("New", "Added") and _ends(entry.body, match.end(), paragraph.end):
            yield _Found("version", *span, {})


def _ends(body: str, place: int, end: int) -> bool:
    """Whether no more than a full stop follows: else the note is about a part of the entry."""
    return not body[place : min(end, place + 40)].strip(" .\n")


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
