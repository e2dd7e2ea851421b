"""Masked entity prediction (SANTA, eq. 6 and 7, appendix A.3): inputs and targets.

A passage and its entities become a masked text, in which a sentinel replaces every entity, and a
target, which lists the entity of each sentinel. The ablation masks random spans instead. Sentinels
are spare tokens of the tokenizer: `<extra_id_0>` to `<extra_id_99>` of T5 and CodeT5, `[unused0]`
to `[unused99]` of BERT.
"""

from __future__ import annotations

import copy
import random
import re
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from io import StringIO
from itertools import accumulate, pairwise
from keyword import iskeyword
from typing import TYPE_CHECKING, Any

from tokenizers import AddedToken

from purlin.index.encoder import CHARS_PER_TOKEN
from purlin.index.errors import InvalidInput
from purlin.index.records import Kind, Span
from purlin.index.sources.identifiers import identifiers
from purlin.index.sources.languages import LANGUAGES
from purlin.index.sources.nouns import NOUN_RULES, shared_nouns, singular
from purlin.training.config import in_range

if TYPE_CHECKING:
    from purlin.training.data.pairs import Pair

# Characters of a passage that are searched for entities: more than any base model reads.
MAX_MASKED_CHARS = 20_000

# Characters of prose that may precede the code.
MAX_PROSE = 4_000

MAX_SENTINELS = 100

# Pairs of a source whose entities are counted for the report.
MEASURED_PAIRS = 500

ENTITY_METHODS: dict[Kind, str] = {
    "code": "identifiers by Python's tokenizer and tree-sitter, as in the paper",
    "product": f"nouns by {NOUN_RULES} of Purlin's own, where the paper takes NLTK's tagger",
}
"""How entities are found, by kind of pair."""

_SENTINELS = ("<extra_id_{}>", "[unused{}]")
_WORD = re.compile(r"\w+|[^\w\s]")
_LANGUAGE_NAMES = frozenset(language.name for language in LANGUAGES)

# Of all versions from 3.10 on, so that the entities do not depend on the Python that runs this.
_SOFT_KEYWORDS = frozenset({"_", "match", "case", "type"})


@dataclass(frozen=True, slots=True)
class Masked:
    """A masked text and its target (eq. 6 and 7), and the number of entities in the target.

    `target` is `<mask>_1 ent_1 <mask>_2 ent_2 …`, or empty if nothing was masked. It has no final
    sentinel, as in the paper's Y_d.
    """

    text: str
    target: str
    entities: int


# -- entities --------------------------------------------------------------------------------------


def entities(pair: Pair) -> tuple[Span, ...]:
    """Return the spans of the passage's entities, in order and without overlaps.

    Code, in the languages of `LANGUAGES`: identifiers, that is variables, functions, methods, types
    and libraries. They include `self` and `cls`, as in CodeT5, which the paper follows, so that
    entities are the same share of Python as in its table 5. Prose before the code has no entities.

    Products: nouns that the title shares with the rest of the passage, at every occurrence.

    References and code in other languages have none; `mask_spans` masks random spans there.
    """
    passage = pair.passage[:MAX_MASKED_CHARS]
    if pair.kind == "product":
        return _shared_nouns(pair.title, passage)
    if pair.kind != "code" or pair.language not in _LANGUAGE_NAMES:
        return ()

    start = code_start(passage, pair.language)
    code = passage[start:]
    names = python_names(code) if pair.language == "python" else None
    if names is None:
        names = tuple(identifiers(code, pair.language))
    return tuple(Span(start + name.start, start + name.end) for name in names)


def describe_entities(pairs: Sequence[Pair]) -> str:
    """Say how entities are found in pairs of one source, and how much of the text they are.

    The share of words can be compared with the paper's table 5. It is that of `MEASURED_PAIRS`
    pairs, spread evenly.
    """
    measured = pairs[:: max(1, len(pairs) // MEASURED_PAIRS)][:MEASURED_PAIRS]
    kinds = {pair.kind for pair in measured}
    methods = [method for kind, method in ENTITY_METHODS.items() if kind in kinds]

    spans = [entities(pair) for pair in measured]
    with_entities = sum(map(bool, spans)) / len(measured)
    words = sum(
        entity_share(pair.passage[:MAX_MASKED_CHARS], entity_spans)
        for pair, entity_spans in zip(measured, spans, strict=True)
    ) / len(measured)
    return (
        f"{' and '.join(methods) or 'random spans'}; {with_entities:.0%} of {len(measured):,} pairs have "
        f"entities, {words:.1%} of the words; the others get random spans"
    )


def python_names(code: str) -> tuple[Span, ...] | None:
    """Return the names that Python's own tokenizer finds, as in the paper; None if it fails.

    Keywords and soft keywords are not names. Unlike those of a parser, the names include those in
    `print` statements and, before Python 3.12, none inside f-strings.
    """
    lines = StringIO(code).readlines()
    line_starts = [0, *accumulate(map(len, lines))]

    names = []
    try:
        for token in tokenize.generate_tokens(iter(lines).__next__):
            if token.type == tokenize.ERRORTOKEN and not token.string.isspace():
                return None
            if token.type == tokenize.NAME and not _is_keyword(token.string):
                line, column = token.start
                start = line_starts[line - 1] + column
                names.append(Span(start, start + len(token.string)))
    except (tokenize.TokenError, SyntaxError, ValueError):
        return None
    return tuple(names)


def _is_keyword(name: str) -> bool:
    return iskeyword(name) or name in _SOFT_KEYWORDS


def _shared_nouns(title: str, passage: str) -> tuple[Span, ...]:
    """Return the title's nouns that occur twice or more and also outside the title's own copy."""
    spans = shared_nouns(title, passage)
    words = [singular(passage[span.start : span.end]) for span in spans]
    counts = Counter(words)

    title_start = passage.find(title)
    inside = range(title_start, title_start + len(title)) if title_start >= 0 else range(0)
    outside = {word for span, word in zip(spans, words, strict=True) if span.start not in inside}

    return tuple(
        span
        for span, word in zip(spans, words, strict=True)
        if counts[word] > 1 and word in outside
    )


# -- where the code begins -------------------------------------------------------------------------


def code_start(passage: str, language: str) -> int:
    """Return the offset of the line where the code begins, after any prose in the passage.

    It is the first line that looks like the head of a definition, or 0 if there is none within
    `MAX_PROSE` characters. A parser is no help: most English sentences are valid Ruby programs.
    """
    head = _HEADS[language].search(passage, 0, MAX_PROSE)
    return head.start() if head else 0


def _head(*forms: str) -> re.Pattern[str]:
    return re.compile(rf"^[ \t]*(?=\S)(?:{'|'.join(forms)})", re.MULTILINE)


# The rest of a line that opens a body.
_OPEN = r"[^.\n]*(?:\{|$)"

_MODIFIERS = (
    r"(?:(?:public|protected|private|static|final|abstract|readonly|synchronized|native|default|strictfp|async|get|set"
    r"|override|export|declare)\s+){0,8}"
)
_SCRIPT_HEAD = _head(
    rf"{_MODIFIERS}function\b[ \t]*\*?[ \t]*[\w$]*[ \t]*[(<]",
    rf"{_MODIFIERS}(?:class|interface|enum|namespace)\s+[\w$]+{_OPEN}",
    r"(?:export\s+)?(?:const|let|var)\s+[\w$]+[^=\n]*=",
    # a.b = function
    r"[\w$.\[\]'\"#-]+[ \t]*[:=][ \t]*(?:async\b|function\b|\(|[\w$]+[ \t]*=>|class\b|\{)",
    # A method.
    rf"{_MODIFIERS}\*?[ \t]*(?:[\w$#]+|\[[^\]\n]+\])[ \t]*(?:<[^\n(]*>)?\((?:[^\n]*\{{|[\w$, {{=]*$)",
    r"(?:async[ \t]*)?(?:\([^\n]*\)|[\w$]+)[ \t]*=>",
)
_HEADS = {
    "python": _head(
        r"(?:async[ \t]+)?def[ \t]+\w+[ \t]*[\[(\\]",
        r"class[ \t]+\w+[ \t]*[\[(:]",
        r"@[\w.]+[ \t]*(?:\(|$)",
    ),
    "javascript": _SCRIPT_HEAD,
    "typescript": _SCRIPT_HEAD,
    "go": _head(
        r"func[ \t]*(?:\(|\w+[ \t]*[\[(])", r"type[ \t]+\w+[^\n.]*[ \t](?:struct|interface|func)\b"
    ),
    "java": _head(
        r"@(?:[a-z]\w*\.)*[A-Z]\w*",
        rf"{_MODIFIERS}(?:class|interface|enum|record|@interface)\s+\w+{_OPEN}",
        # A method, but not "the name(s)" in prose.
        rf"{_MODIFIERS}(?:<[^\n]*>\s*)?[\w.]+(?:<[^\n(]*>)?(?:\[\])*\s+[\w$]+\s?\((?!s\))",
        rf"{_MODIFIERS}[A-Z]\w*\s?\([^\n]*[{{,(]$",
    ),
    "php": _head(
        r"#\[",
        rf"{_MODIFIERS}function\s*&?\s*\w+\s*\(",
        rf"{_MODIFIERS}(?:class|interface|trait|enum)\s+\w+{_OPEN}",
    ),
    "ruby": _head(
        r"def[ \t]+[^\s.]+(?:\.[^\s.]+)?(?:[ \t]*[(;=#&*]|[ \t]*$|[ \t]+\w+[ \t]*(?:=|,|$))",
        r"(?:class|module)[ \t]+(?:[A-Z][\w:]*|<<)[ \t]*(?:<|;|$)",
    ),
}


# -- masking ---------------------------------------------------------------------------------------


def mask_entities(
    text: str,
    spans: Iterable[Span],
    sentinels: Sequence[str],
    rng: random.Random,
    max_share: float = 1.0,
    *,
    kind: Kind = "code",
) -> Masked:
    """Replace every entity by a sentinel, numbered in the order of first occurrence.

    Occurrences of the same entity get the same sentinel. In code the same entities are spelled
    alike; in products case and number are ignored too, and the target has the first spelling. With
    `max_share` below 1, a random choice of that share of the different entities is masked, at
    least one. If there are more entities than sentinels, those that occur first are masked, since
    the encoder's limit cuts off the end.

    Of overlapping spans the first counts. A sentinel that occurs in the text itself is not used,
    and a span that contains one is not masked.
    """
    in_range("max_share", max_share, 0.01, 1.0)

    groups: dict[str, list[Span]] = {}
    for span in _separate(text, spans, sentinels):
        word = text[span.start : span.end]
        groups.setdefault(singular(word) if kind == "product" else word, []).append(span)

    chosen = list(groups.values())
    if chosen and max_share < 1:
        rows = rng.sample(range(len(chosen)), max(1, round(max_share * len(chosen))))
        chosen = [chosen[row] for row in sorted(rows)]
    return _replace(text, chosen, sentinels)


def mask_spans(
    text: str,
    sentinels: Sequence[str],
    rng: random.Random,
    share: float = 0.15,
    mean_length: float = 3.0,
) -> Masked:
    """Mask `share` of the words in random runs, each by its own sentinel: T5's span corruption.

    A run has `mean_length` words on average. Words are runs of letters and digits, or single other
    characters. At least one word is masked and one kept; a text of one word stays unchanged. If
    the sentinels are too few for the whole text, its beginning is masked.
    """
    in_range("share", share, 0.0, 1.0)
    in_range("mean_length", mean_length, 1.0, 1000.0)
    if not share:
        return Masked(text, "", 0)

    # The words that the sentinels are enough for.
    reach = int(len(_unused(text, sentinels)) * mean_length / share)
    words = [match.span() for match in _WORD.finditer(text)][:reach]

    spans = [
        Span(words[first][0], words[end - 1][1])
        for first, end in _random_runs(len(words), rng, share, mean_length)
    ]
    groups = [[span] for span in _separate(text, spans, sentinels)]
    return _replace(text, groups, sentinels)


def _random_runs(
    size: int, rng: random.Random, share: float, mean_length: float
) -> Iterator[tuple[int, int]]:
    """Yield (first, end) of runs of `size` items, at least one item apart."""
    hidden = min(max(1, round(size * share)), size - 1)
    if hidden < 1:
        return
    kept = size - hidden
    count = min(max(1, round(hidden / mean_length)), kept + 1)

    # Each gap is at least 1. Two items more than are kept let the first and the last gap be 0.
    gaps = _random_parts(kept + 2, count + 1, rng)
    lengths = _random_parts(hidden, count, rng)

    end = -1
    for gap, length in zip(gaps, lengths, strict=False):
        end += gap + length
        yield end - length, end


def _random_parts(total: int, count: int, rng: random.Random) -> list[int]:
    """Return `count` numbers of at least 1 whose sum is `total`, all ways equally likely."""
    cuts = sorted(rng.sample(range(1, total), count - 1))
    return [end - start for start, end in pairwise([0, *cuts, total])]


def entity_share(text: str, spans: Iterable[Span]) -> float:
    """Return the share of the text's words (see `mask_spans`) that lie in the spans.

    With this `share`, `mask_spans` masks as much as is masked by entities.
    """
    words = len(_WORD.findall(text))
    inside = sum(
        len(_WORD.findall(text[span.start : span.end])) for span in _separate(text, spans, ())
    )
    return min(1.0, inside / words) if words else 0.0


def unmask(masked: Masked, sentinels: Sequence[str]) -> str:
    """Return the text before it was masked; a product's nouns all have their first spelling."""
    words = dict(_target_entities(masked.target, sentinels))
    if not words:
        return masked.text
    return re.sub(_any_of(words), lambda match: words[match[0]], masked.text)


def _separate(text: str, spans: Iterable[Span], sentinels: Sequence[str]) -> Iterator[Span]:
    """Yield the valid spans of the text, in order.

    Spans that are empty, overlap an earlier one or contain a sentinel are not valid.
    """
    present = [name for name in sentinels if name in text]
    end = 0
    for span in sorted(spans, key=lambda span: (span.start, span.end)):
        if not end <= span.start < span.end <= len(text):
            continue
        if not any(name in text[span.start : span.end] for name in present):
            end = span.end
            yield span


def _unused(text: str, sentinels: Sequence[str]) -> list[str]:
    return [name for name in sentinels if name not in text]


def _replace(text: str, groups: Sequence[Sequence[Span]], sentinels: Sequence[str]) -> Masked:
    """Replace each group of spans by a sentinel; groups beyond the last sentinel stay."""
    named_groups = list(zip(_unused(text, sentinels), groups, strict=False))
    target = " ".join(
        f"{name} {text[group[0].start : group[0].end]}" for name, group in named_groups
    )

    pieces: list[str] = []
    copied = 0
    named_spans = sorted(
        (span.start, span.end, name) for name, group in named_groups for span in group
    )
    for start, end, name in named_spans:
        pieces += [text[copied:start], name]
        copied = end

    return Masked("".join([*pieces, text[copied:]]), target, len(named_groups))


def _target_entities(target: str, sentinels: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield (sentinel, entity) of a target."""
    if not target:
        return
    _, *parts = re.split(f"({_any_of(sentinels)})", f"{target} ")
    for name, entity in zip(parts[::2], parts[1::2], strict=True):
        # Without the blanks around the entity.
        yield name, entity[1:-1]


def _any_of(names: Iterable[str]) -> str:
    return "|".join(map(re.escape, names))


# -- tokens ----------------------------------------------------------------------------------------


def sentinels(tokenizer: Any) -> tuple[str, ...]:
    """Return the spare tokens of a tokenizer in their order, at most `MAX_SENTINELS`.

    Raises InvalidInput if it has none.
    """
    vocabulary = tokenizer.get_vocab()
    for form in _SENTINELS:
        names = (form.format(number) for number in range(MAX_SENTINELS))
        spare = tuple(name for name in names if name in vocabulary)
        if spare:
            return spare

    raise InvalidInput(
        "The tokenizer has neither <extra_id_0>, <extra_id_1> … nor [unused0], [unused1] …, which "
        "masked entity prediction needs as masks. Train with mep = 0, or from a base model of the "
        "T5 or BERT family.",
        field="mep",
    )


def prepare(tokenizer: Any) -> tuple[Any, tuple[str, ...]]:
    """Return a copy of a fast tokenizer that keeps each sentinel as one token, and the sentinels.

    BERT's tokenizer would split `[unused0]`. The ids and the size of the vocabulary stay the same,
    and the original is not changed.
    """
    spare = sentinels(tokenizer)
    prepared = copy.deepcopy(tokenizer)

    added = prepared.added_tokens_encoder
    new = [AddedToken(name, special=True, normalized=False) for name in spare if name not in added]
    prepared.add_tokens(new, special_tokens=True)
    return prepared, spare


def encode_pairs(
    tokenizer: Any,
    masked: Sequence[Masked],
    sentinels: Sequence[str],
    max_tokens: int,
    max_target_tokens: int,
) -> list[tuple[list[int], list[int]]]:
    """Return the ids of each text and of its target, cut to the limits, without special tokens.

    `tokenizer` must come from `prepare`; raises InvalidInput for others. A target is cut between
    entities: it loses those that do not fit, and those whose sentinel was cut off from the text,
    which no model could predict.
    """
    if not tokenizer.added_tokens_encoder.keys() >= set(sentinels):
        raise InvalidInput(
            "This tokenizer splits sentinels. Use the one that masking.prepare returns."
        )

    texts = [item.text[: max_tokens * CHARS_PER_TOKEN] for item in masked]
    targets = [
        "".join(f"{name} {entity}" for name, entity in _target_entities(item.target, sentinels))
        for item in masked
    ]

    # One token more than the limit shows whether the last entity ends there.
    text_ids = _tokenize(tokenizer, texts, max_tokens)
    target_ids = _tokenize(tokenizer, targets, max_target_tokens + 1)

    sentinel_ids = set(tokenizer.convert_tokens_to_ids(list(sentinels)))
    return [
        (
            text,
            _predictable(target, sentinel_ids, sentinel_ids.intersection(text), max_target_tokens),
        )
        for text, target in zip(text_ids, target_ids, strict=True)
    ]


def _tokenize(tokenizer: Any, texts: Sequence[str], max_tokens: int) -> list[list[int]]:
    if not texts:
        return []
    encoded = tokenizer(
        list(texts),
        add_special_tokens=False,
        truncation=True,
        max_length=max_tokens,
        return_attention_mask=False,
        return_token_type_ids=False,
    )
    ids: list[list[int]] = encoded["input_ids"]
    return ids


def _predictable(
    target: list[int], sentinel_ids: AbstractSet[int], visible: AbstractSet[int], limit: int
) -> list[int]:
    """Return the first entities of a target that are visible and end within `limit`.

    Each entity reaches from its sentinel to the next.
    """
    kept = 0
    starts = [position for position, token in enumerate(target) if token in sentinel_ids]
    for start, end in pairwise([*starts, len(target)]):
        if target[start] not in visible or end > limit:
            break
        kept = end
    return target[:kept]
