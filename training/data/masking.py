"""Masked entity prediction (SANTA, eq. 6 and 7, appendix A.3): what is masked, with what, and what is to be predicted.

A passage and its entities become a masked text, where every entity is replaced by a sentinel, and a target, which
says what each sentinel stands for. The ablation masks random spans instead. Sentinels are spare tokens of the
tokenizer: `<extra_id_0>` to `<extra_id_99>` of T5 and CodeT5, `[unused0]` to `[unused99]` of BERT.
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

from index.encoder import CHARS_PER_TOKEN
from index.errors import InvalidInput
from index.records import Kind, Span
from index.sources.code import identifiers
from index.sources.languages import LANGUAGES
from index.sources.nouns import shared_nouns, singular
from training.config import in_range

if TYPE_CHECKING:
    from training.data.pairs import Pair

MAX_CHARS = 20_000  # of a passage, in which entities are looked for: more than any base model reads
MAX_PROSE = 4_000  # characters before the code
MAX_SENTINELS = 100

_SENTINELS = ("<extra_id_{}>", "[unused{}]")
_WORD = re.compile(r"\w+|[^\w\s]")
_KNOWN = frozenset(language.name for language in LANGUAGES)
_SOFT_KEYWORDS = frozenset(
    {"_", "match", "case", "type"}
)  # of every Python from 3.10 on, whichever runs this


@dataclass(frozen=True, slots=True)
class Masked:
    """Eq. 6 and 7: `text` with sentinels, `target` `<mask>_1 ent_1 <mask>_2 ent_2 …`, and the number of its entities.

    The target is empty where nothing was masked. There is no final sentinel: the paper's Y_d has none.
    """

    text: str
    target: str
    entities: int


# -- entities --------------------------------------------------------------------------------------------------------


def entities(pair: Pair) -> tuple[Span, ...]:
    """Spans of the passage that its entities occupy, in order and apart.

    Code: identifiers, that is variables, functions, methods, types and libraries, in the languages of `LANGUAGES`.
    `self` and `cls` are among them, as in CodeT5, which the paper follows: so the share of Python that is entities
    comes out as in its table 5. Prose before the code has no entities.
    Products: nouns that the title shares with the rest of the passage, wherever they stand.
    References and code in other languages have none; there random spans are masked (`mask_spans`).
    """
    passage = pair.passage[:MAX_CHARS]
    if pair.kind == "product":
        return _shared(pair.title, passage)
    if pair.kind != "code" or pair.language not in _KNOWN:
        return ()
    start = code_start(passage, pair.language)
    code = passage[start:]
    found = python_names(code) if pair.language == "python" else None
    names = identifiers(code, pair.language) if found is None else found
    return tuple(Span(start + name.start, start + name.end) for name in names)


def python_names(code: str) -> tuple[Span, ...] | None:
    """Names by Python's own tokenizer, as in the paper; None if it does not take the code.

    Keywords and soft keywords are not names. Unlike a parser's, the names include those of `print` statements, and
    before Python 3.12 none inside f-strings.
    """
    lines = StringIO(code).readlines()
    starts = [0, *accumulate(map(len, lines))]
    found = []
    try:
        for token in tokenize.generate_tokens(iter(lines).__next__):
            if token.type == tokenize.ERRORTOKEN and not token.string.isspace():
                return None
            if (
                token.type == tokenize.NAME
                and not iskeyword(token.string)
                and token.string not in _SOFT_KEYWORDS
            ):
                start = starts[token.start[0] - 1] + token.start[1]
                found.append(Span(start, start + len(token.string)))
    except (tokenize.TokenError, SyntaxError, ValueError):
        return None
    return tuple(found)


def _shared(title: str, passage: str) -> tuple[Span, ...]:
    """Nouns that stand at least twice, and not only inside the title's own copy in the passage."""
    spans = shared_nouns(title, passage)
    folded = [singular(passage[span.start : span.end]) for span in spans]
    head = passage.find(title)
    inside = range(head, head + len(title)) if head >= 0 else range(0)
    outside = {word for span, word in zip(spans, folded, strict=True) if span.start not in inside}
    counts = Counter(folded)
    return tuple(
        span
        for span, word in zip(spans, folded, strict=True)
        if counts[word] > 1 and word in outside
    )


# -- where the code begins -------------------------------------------------------------------------------------------


def code_start(passage: str, language: str) -> int:
    """Offset of the line where the code begins, after the prose that a passage may have before it.

    That is the first line that looks like the head of a definition; 0 where there is none in `MAX_PROSE` characters.
    A parser cannot tell: to Ruby's most English sentences are programs.
    """
    head = _HEADS[language].search(passage, 0, MAX_PROSE)
    return head.start() if head else 0


def _head(*forms: str) -> re.Pattern[str]:
    return re.compile(rf"^[ \t]*(?=\S)(?:{'|'.join(forms)})", re.MULTILINE)


_OPEN = r"[^.\n]*(?:\{|$)"  # the rest of a line that opens a body
_MODIFIERS = (
    r"(?:(?:public|protected|private|static|final|abstract|readonly|synchronized|native|default|strictfp|async|get|set"
    r"|override|export|declare)\s+){0,8}"
)
_SCRIPT_HEAD = _head(
    rf"{_MODIFIERS}function\b[ \t]*\*?[ \t]*[\w$]*[ \t]*[(<]",
    rf"{_MODIFIERS}(?:class|interface|enum|namespace)\s+[\w$]+{_OPEN}",
    r"(?:export\s+)?(?:const|let|var)\s+[\w$]+[^=\n]*=",
    r"[\w$.\[\]'\"#-]+[ \t]*[:=][ \t]*(?:async\b|function\b|\(|[\w$]+[ \t]*=>|class\b|\{)",  # a.b = function
    rf"{_MODIFIERS}\*?[ \t]*(?:[\w$#]+|\[[^\]\n]+\])[ \t]*(?:<[^\n(]*>)?\((?:[^\n]*\{{|[\w$, {{=]*$)",  # a method
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
        rf"{_MODIFIERS}(?:<[^\n]*>\s*)?[\w.]+(?:<[^\n(]*>)?(?:\[\])*\s+[\w$]+\s?\((?!s\))",  # not "the name(s)"
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


# -- masking ---------------------------------------------------------------------------------------------------------


def mask_entities(
    text: str,
    spans: Iterable[Span],
    sentinels: Sequence[str],
    rng: random.Random,
    max_share: float = 1.0,
    *,
    kind: Kind = "code",
) -> Masked:
    """Replace the same entity by the same sentinel everywhere, numbered in the order of first appearance.

    Code counts entities as the same that are spelled alike; of products also upper and lower case, singular and
    plural are the same, and the target has the first spelling. `max_share` below 1 masks a random choice of so many
    of the different entities, at least one. When there are more than sentinels, those that appear first are masked:
    the others stand where the encoder's limit cuts first. Of spans that overlap the first counts. A sentinel that
    stands in the text itself is not used, and a span that holds one is not masked.
    """
    in_range("max_share", max_share, 0.01, 1.0)
    groups: dict[str, list[Span]] = {}
    for span in _apart(text, spans, sentinels):
        word = text[span.start : span.end]
        groups.setdefault(singular(word) if kind == "product" else word, []).append(span)
    chosen = list(groups.values())
    if chosen and max_share < 1:
        rows = rng.sample(range(len(chosen)), max(1, round(max_share * len(chosen))))
        chosen = [chosen[row] for row in sorted(rows)]
    return _masked(text, chosen, sentinels)


def mask_spans(
    text: str,
    sentinels: Sequence[str],
    rng: random.Random,
    share: float = 0.15,
    mean_length: float = 3.0,
) -> Masked:
    """T5's span corruption: hide `share` of the words in random runs of `mean_length` on average, a sentinel each.

    Words are runs of letters and digits, or single other characters. At least one word is hidden and one kept; a text
    of one word stays as it is. Where the sentinels do not reach for the whole text, its beginning is masked.
    """
    in_range("share", share, 0.0, 1.0)
    in_range("mean_length", mean_length, 1.0, 1000.0)
    if not share:
        return Masked(text, "", 0)
    reach = int(len(_free(text, sentinels)) * mean_length / share)
    words = [match.span() for match in _WORD.finditer(text)][:reach]
    spans = [
        Span(words[first][0], words[last - 1][1])
        for first, last in _runs(len(words), rng, share, mean_length)
    ]
    return _masked(text, [[span] for span in _apart(text, spans, sentinels)], sentinels)


def _runs(
    size: int, rng: random.Random, share: float, mean_length: float
) -> Iterator[tuple[int, int]]:
    """(first, end) of runs of `size` items, at least one item apart."""
    hidden = min(max(1, round(size * share)), size - 1)
    if hidden < 1:
        return
    kept = size - hidden
    count = min(max(1, round(hidden / mean_length)), kept + 1)
    end = -1  # a gap is at least 1, but the first and the last may be 0
    for gap, length in zip(
        _parts(kept + 2, count + 1, rng), _parts(hidden, count, rng), strict=False
    ):
        end += gap + length
        yield end - length, end


def _parts(total: int, count: int, rng: random.Random) -> list[int]:
    """`count` numbers from 1 whose sum is `total`, all ways equally likely."""
    cuts = sorted(rng.sample(range(1, total), count - 1))
    return [end - start for start, end in pairwise([0, *cuts, total])]


def entity_share(text: str, spans: Iterable[Span]) -> float:
    """Share of the text's words (see `mask_spans`) that lie in the spans: as `share`, it masks as much at random."""
    words = len(_WORD.findall(text))
    inside = sum(
        len(_WORD.findall(text[span.start : span.end])) for span in _apart(text, spans, ())
    )
    return min(1.0, inside / words) if words else 0.0


def unmask(masked: Masked, sentinels: Sequence[str]) -> str:
    """The text before it was masked; a product's nouns all come back in their first spelling."""
    words = dict(_entries(masked.target, sentinels))
    if not words:
        return masked.text
    return re.sub(_any_of(words), lambda found: words[found[0]], masked.text)


def _apart(text: str, spans: Iterable[Span], sentinels: Sequence[str]) -> Iterator[Span]:
    """Spans inside the text, in order, without those that are empty, overlap an earlier one or hold a sentinel."""
    present = [name for name in sentinels if name in text]
    end = 0
    for span in sorted(spans, key=lambda span: (span.start, span.end)):
        if not end <= span.start < span.end <= len(text):
            continue
        if not any(name in text[span.start : span.end] for name in present):
            end = span.end
            yield span


def _free(text: str, sentinels: Sequence[str]) -> list[str]:
    return [name for name in sentinels if name not in text]


def _masked(text: str, groups: Sequence[Sequence[Span]], sentinels: Sequence[str]) -> Masked:
    """Each group of spans under a sentinel of its own; groups beyond the last sentinel stay as they are."""
    named = list(zip(_free(text, sentinels), groups, strict=False))
    target = " ".join(f"{name} {text[group[0].start : group[0].end]}" for name, group in named)
    pieces, done = list[str](), 0
    for start, end, name in sorted(
        (span.start, span.end, name) for name, group in named for span in group
    ):
        pieces += [text[done:start], name]
        done = end
    return Masked("".join([*pieces, text[done:]]), target, len(named))


def _entries(target: str, sentinels: Sequence[str]) -> Iterator[tuple[str, str]]:
    """(sentinel, entity) of a target."""
    if not target:
        return
    _, *parts = re.split(f"({_any_of(sentinels)})", f"{target} ")
    yield from ((name, entity[1:-1]) for name, entity in zip(parts[::2], parts[1::2], strict=True))


def _any_of(names: Iterable[str]) -> str:
    return "|".join(map(re.escape, names))


# -- tokens ----------------------------------------------------------------------------------------------------------


def sentinels(tokenizer: Any) -> tuple[str, ...]:
    """The spare tokens of a tokenizer, counted from 0, at most `MAX_SENTINELS`. Raises InvalidInput without any."""
    known = tokenizer.get_vocab()
    for form in _SENTINELS:
        found = tuple(
            name for number in range(MAX_SENTINELS) if (name := form.format(number)) in known
        )
        if found:
            return found
    raise InvalidInput(
        "The tokenizer has neither <extra_id_0>, <extra_id_1> … nor [unused0], [unused1] …, which masked entity "
        "prediction puts in the place of what it masks. Train with mep = 0, or from a base model of the T5 or BERT "
        "family.",
        field="mep",
    )


def prepare(tokenizer: Any) -> tuple[Any, tuple[str, ...]]:
    """A copy of a fast tokenizer that keeps each sentinel as one token, and the sentinels.

    BERT's tokenizer would take `[unused0]` apart. Ids and size of the vocabulary stay; the original is not touched.
    """
    found = sentinels(tokenizer)
    prepared = copy.deepcopy(tokenizer)
    added = prepared.added_tokens_encoder
    new = [AddedToken(name, special=True, normalized=False) for name in found if name not in added]
    prepared.add_tokens(new, special_tokens=True)
    return prepared, found


def encode_pairs(
    tokenizer: Any,
    masked: Sequence[Masked],
    sentinels: Sequence[str],
    max_tokens: int,
    max_target_tokens: int,
) -> list[tuple[list[int], list[int]]]:
    """(ids of the text, ids of the target) of each, cut to the limits, without special tokens such as [CLS].

    `tokenizer` is one that `prepare` gave; raises InvalidInput for others. The target loses, whole and from its end,
    the entities that do not fit and those whose sentinel was cut off from the text, which no model can predict.
    """
    if not tokenizer.added_tokens_encoder.keys() >= set(sentinels):
        raise InvalidInput(
            "This tokenizer takes sentinels apart. Use the one that masking.prepare returns."
        )
    texts = [each.text[: max_tokens * CHARS_PER_TOKEN] for each in masked]
    targets = [
        "".join(f"{name} {entity}" for name, entity in _entries(each.target, sentinels))
        for each in masked
    ]
    spare = set(tokenizer.convert_tokens_to_ids(list(sentinels)))
    rows = zip(
        _ids(tokenizer, texts, max_tokens),
        _ids(tokenizer, targets, max_target_tokens + 1),
        strict=True,
    )
    return [
        (text, _predictable(target, spare, spare.intersection(text), max_target_tokens))
        for text, target in rows
    ]


def _ids(tokenizer: Any, texts: Sequence[str], max_tokens: int) -> list[list[int]]:
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
    target: list[int], spare: AbstractSet[int], seen: AbstractSet[int], limit: int
) -> list[int]:
    """The first entities, each from its sentinel to the next, as far as they are `seen` and end within `limit`."""
    kept = 0
    starts = [place for place, token in enumerate(target) if token in spare]
    for start, end in pairwise([*starts, len(target)]):
        if target[start] not in seen or end > limit:
            break
        kept = end
    return target[:kept]
