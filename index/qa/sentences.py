"""Find the sentences of a passage, and the features that tell whether one answers a question.

A question such as "how do I ..." or "what happens if ..." wants a statement, not a value. The
answer is then a whole sentence of the reference. A linear model over the features here ranks the
sentences of all passages, like that of `purlin.index.qa.features` for spans.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence

from purlin.index.qa.question import ParsedQuestion
from purlin.index.qa.reader import MIN_SPAN_LOGIT, PassageLogits, ReadingPassage, TokenScores
from purlin.index.qa.signatures import CharSpan, Parameter
from purlin.index.qa.tables import ROW
from purlin.index.search.lexical.tokens import tokens

SENTENCE_WEIGHTS = {
    # the reader's logit for the passage
    "passage_logit": 0.72,
    # the reader's log probability that the answer is the sentence, from its first to its last token
    "span_logit": 0.27,
    # the first sentence of the entry
    "opening": 1.6,
    # the same, where the question asks for a condition, a reason, an occasion or a fact
    "opening_detail": -2.08,
    # the same, where it asks for a purpose and names a parameter of the entry
    "opening_parameter": -2.96,
    # logarithm of the number of sentences before it in the passage
    "depth": -0.4,
    # share of the question's words, by their idf, that the sentence has beside the entry's name
    "overlap": 1.78,
    # the sentence is about a parameter, and the question names that parameter and the entry
    "parameter": 3.56,
    # it begins with the entry's name, or with "this function"
    "subject": -0.67,
    # it has words that go with what the question wants stated
    "condition": 0.46,
    "reason": 1.75,
    "occasion": 1.75,
    "advice": -1.94,
    # it states a condition that the question does not ask for
    "conditional": -0.39,
}
MAX_SENTENCES = 64  # of a passage; the rest is not considered
MAX_MENTIONED = 2  # parameters in a sentence that still is about one of them

# The beginning of an item of a list, or of an example.
_ITEM = re.compile(r"\n[^\S\n]*(?:[-*•] |\d+\. |>>> )")
# After a full stop or a question mark with its closing quotes, unless an abbreviation ends there. No
# space follows one of Chinese or Japanese.
_STOP = re.compile(
    r"(?<![ (]e\.g)(?<![ (]i\.e)(?<![ (]cf)(?<![ (]vs)[.!?][)\]”\"’']*(?=\s)"
    r"|[。！？](?![)）」』”])"
    r"|:(?=\n)"
    rf"|(?={_ITEM.pattern})"
)
_UNSPACED_STOPS = ("。", "！", "？")
_PARAGRAPH = re.compile(r"\n[^\S\n]*\n")
# A bullet, or the call that a docstring begins with: `zip(*iterables) --> Yield ...`.
_BULLET_OR_CALL = re.compile(r"\s*(?:(?:[-*•]|\d+\.) |[\w.]+\(.*?\) --?>? )?\s*")
_CODE = re.compile(
    r">>>|\.\.\. |\s{2,}\S|.*::=|[\w.]+\(.*\)(?: ->.*)?$|\S.* = \S"
    r"|/[/*]|#include\b|[(){}\[\]]+[,;]?$|(?!(?:[-*•]|\w{1,2}[.)]) ).*(?:[)\]];|[){=>] ?[{(\[])$"
)

_NAME = re.compile(r"[^\W\d]\w*")
_FIRST_NAME = re.compile(
    r"[`'\"*]*(?:if|when|with|set(?:ting)?|the)?\s*[`'\"*]*(?P<name>\w+)", re.I
)
# Words of sentences that state what a question asks for, by `ParsedQuestion.statement`.
_STATING = {
    "condition": re.compile(
        r"\bif\b|\bwhen\b|\bunless\b|\braise[sd]?\b|\botherwise\b|\bwithout\b|\balready\b", re.I
    ),
    "reason": re.compile(
        r"\bbecause\b|\bsince\b|\bso that\b|\bso it\b|\bwhy\b|\btherefore\b|\bunlike\b|\bprevent"
        r"|\bavoid|\bshould\b|\bnever\b|\bnot\b|\b(?:much|more|less) \w+er?\b|\bwithout\b|\bsame\b",
        re.I,
    ),
    "occasion": re.compile(
        r"\buseful\b|\bshould\b|\bintended\b|\bdesigned\b|\bchoice\b|\bneed|\bwant\b|\bmeant\b"
        r"|\b(?:called|executed|run|invoked|raised|true|returned)\b.* (?:when|if|by|before|after|to)\b|\bonly\b",
        re.I,
    ),
    "advice": re.compile(
        r"^to \w+\b.*, |\byou can\b|\bcan be used\b|\buseful\b|\bused to\b|\bcan \w+ .* by\b|\buse \w",
        re.I,
    ),
}
_CONDITIONAL = re.compile(r"(?:if|when|unless|note|otherwise|in case)\b", re.I)
# No question that wants a statement is answered by such a note or by a property of an entry; one that
# wants a version or a default may be.
_NOTE = re.compile(
    r"(?:New|Changed|Deprecated|Added) (?:in|since) version|(?:Default(?:s| value)?|Since|Type): "
)
_ASIDE = re.compile(
    r"Availability:|Source code:|Raises an auditing event|(?:Note|See also|Warning)$"
)
_VERDICT = re.compile(r"(?:yes|no)[.!]", re.I)
_THIS = re.compile(r"(?:this|the) (?:function|method|class|module|statement|decorator|is)\b", re.I)


def sentences(passage: ReadingPassage) -> list[CharSpan]:
    """Return the sentences of a passage, except its signature, code, notes on versions, and properties."""
    spans = (span for span in _sentence_spans(passage) if not _NOTE.match(passage.text, *span))
    return list(itertools.islice(spans, MAX_SENTENCES))


def _sentence_spans(passage: ReadingPassage) -> Iterator[CharSpan]:
    for start, end in _prose(passage):
        yield from _split(passage.text, start, end)


def _prose(passage: ReadingPassage) -> Iterator[CharSpan]:
    """Yield the paragraphs that are not code, and each row of a table by itself."""
    text = passage.text
    for start, end in _paragraphs(text, passage.structure.signature_end):
        if _is_prose(text[start:end]):
            yield from _rows_apart(text, start, end)


def _paragraphs(text: str, start: int) -> Iterator[CharSpan]:
    """Yield the spans between empty lines."""
    for match in _PARAGRAPH.finditer(text, start):
        yield start, match.start()
        start = match.end()
    yield start, len(text)


def _is_prose(paragraph: str) -> bool:
    """Return whether a paragraph begins with no example and at most half of its lines are code."""
    lines = [line for line in paragraph.split("\n") if line.strip()]
    if not lines or lines[0].startswith(">>>"):
        return False
    code_lines = sum(_CODE.match(line) is not None for line in lines)
    return 2 * code_lines <= len(lines)


def _rows_apart(text: str, start: int, end: int) -> Iterator[CharSpan]:
    """Yield the rows of tables in a paragraph, and the text between them."""
    for row in ROW.finditer(text, start, end):
        if start < row.start():
            yield start, row.start()
        yield row.span()
        start = row.end()
    if start < end:
        yield start, end


def _split(text: str, start: int, end: int) -> Iterator[CharSpan]:
    """Yield the sentences of a paragraph, without bullets and the white space around them."""
    position = start
    borders = [match.end() for match in _STOP.finditer(text, start, end)]

    for border in (*borders, end):
        bullet = _BULLET_OR_CALL.match(text, position, border)
        first = bullet.end() if bullet else position
        last = first + len(text[first:border].rstrip())
        sentence = text[first:last]

        if _VERDICT.fullmatch(sentence) and not _ITEM.match(text, border):
            # "Yes." is no sentence of its own: it begins the one that explains it.
            continue

        if (" " in sentence or sentence.endswith(_UNSPACED_STOPS)) and not _ASIDE.match(sentence):
            yield first, last
        position = border


# -- features


def sentence_features(
    question: ParsedQuestion,
    passage: ReadingPassage,
    logits: PassageLogits,
    word_weights: Mapping[str, float],
) -> Iterator[tuple[CharSpan, dict[str, float]]]:
    """Yield the sentences of a passage, each with its features.

    `word_weights` has the idf of each token of the question.
    """
    text, structure = passage.text, passage.structure
    weights = _beside_name(word_weights, passage)
    total = sum(weights.values())
    named_parameters = {parameter.name for parameter in structure.parameters} & question.names
    asks_for_detail = question.statement in ("condition", "reason", "occasion", "fact")
    is_named = _names_entry(question, passage)
    names = {text[slice(*span)].rpartition(".")[2] for span in structure.names}
    token_scores = TokenScores(passage, logits)

    for number, sentence in enumerate(sentences(passage)):
        sentence_text = text[slice(*sentence)]
        shared = sum(weights.get(token, 0.0) for token in set(tokens(sentence_text)))
        parameter = _parameter_score(sentence_text, named_parameters, structure.parameters)
        opening = structure.is_first and number == 0
        features = {
            "passage_logit": logits.selected,
            "span_logit": _span_logit(token_scores, sentence),
            "opening": opening,
            "opening_detail": opening and asks_for_detail,
            "opening_parameter": opening
            and question.statement == "purpose"
            and bool(named_parameters),
            "depth": math.log1p(number),
            "overlap": shared / total if total else 0.0,
            "parameter": parameter * is_named,
            "subject": _is_subject(sentence_text, names),
            "conditional": question.statement != "condition"
            and _CONDITIONAL.match(sentence_text) is not None,
        }
        for statement, wording in _STATING.items():
            features[statement] = (
                question.statement == statement and wording.search(sentence_text) is not None
            )
        yield sentence, {name: float(value) for name, value in features.items()}


def _span_logit(token_scores: TokenScores, sentence: CharSpan) -> float:
    """Return the reader's log probability of a sentence, which may have been cut off."""
    score = token_scores.of(sentence)
    return MIN_SPAN_LOGIT if score is None else max(score, MIN_SPAN_LOGIT)


def sentence_of_answer(
    question: ParsedQuestion,
    passage: ReadingPassage,
    logits: PassageLogits,
    word_weights: Mapping[str, float],
    answer: CharSpan,
) -> CharSpan | None:
    """Return the sentence that contains the answer, else the passage's best one, if it has any.

    A name in a signature is in no sentence; the best one then tells what it names.
    """
    for start, end in _sentence_spans(passage):
        if start <= answer[0] and answer[1] <= end:
            return start, end

    candidates = sentence_features(question, passage, logits, word_weights)
    best = max(candidates, key=lambda candidate: sentence_score(candidate[1]), default=None)
    return None if best is None else best[0]


def sentence_score(features: Mapping[str, float]) -> float:
    """Score a sentence by its features, in log odds up to a constant."""
    return sum(SENTENCE_WEIGHTS[name] * value for name, value in features.items())


def _beside_name(weights: Mapping[str, float], passage: ReadingPassage) -> dict[str, float]:
    """Leave out the tokens of the entry's names, which all of its sentences are about."""
    names = [passage.text[slice(*span)] for span in passage.structure.names]
    own = frozenset(tokens("\n".join((passage.context, *names))))
    return {token: weight for token, weight in weights.items() if token not in own}


def _names_entry(question: ParsedQuestion, passage: ReadingPassage) -> bool:
    """Return whether the question has a name of the entry, or of one that encloses it."""
    names = [passage.text[slice(*span)] for span in passage.structure.names]
    words = _NAME.findall("\n".join((passage.context, *names)).lower())
    return not question.names.isdisjoint(words)


def _parameter_score(
    sentence: str, named_parameters: set[str], parameters: Sequence[Parameter]
) -> float:
    """Return 1 if the sentence begins with one of the named parameters, 0.5 if it mentions one, else 0.

    A sentence that mentions many parameters tells nothing about one: -0.5.
    """
    first_name = _FIRST_NAME.match(sentence)
    if first_name is not None and first_name["name"] in named_parameters:
        return 1.0

    mentioned = {parameter.name for parameter in parameters} & set(_NAME.findall(sentence))
    if not mentioned & named_parameters:
        return 0.0
    return 0.5 if len(mentioned) <= MAX_MENTIONED else -0.5


def _is_subject(sentence: str, names: set[str]) -> bool:
    """Return whether the sentence begins with one of the entry's names, or with "this function"."""
    first = sentence.split(maxsplit=1)[0].strip("`'\"*@").partition("(")[0]
    return first.rpartition(".")[2] in names or _THIS.match(sentence) is not None
