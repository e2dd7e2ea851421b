"""Features of passages and of answer spans that come from the structure of a reference.

Linear models rank passages and spans by these features and by the scores of search and reader. A
feature that concerns one type of answer is weighted by the probability that the question expects
that type. `benchmarks/qa/reader.py` fits the weights as a conditional logit (McFadden 1974): the softmax
over all competing passages, or spans, is the probability of being right.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath

import numpy as np
from numpy.typing import NDArray

from purlin.index.qa.answer_types import NAME_TYPE, VALUE_TYPE, AnswerType, candidate_spans
from purlin.index.qa.candidates import PROPOSED
from purlin.index.qa.question import ParsedQuestion, folded
from purlin.index.qa.signatures import CharSpan, PassageStructure, directive, entry_names
from purlin.index.records import Document, Hit
from purlin.index.search.lexical.tokens import tokens

Features = NDArray[np.float64]

PASSAGE_WEIGHTS = {
    "dense": 14.64,  # the cosine of question and passage
    "lexical": 10.03,  # the score of the words that they share
    "kind": 0.78,  # the entry is of the kind that the question asks for
    "named": 0.82,  # the question has the entry's name
    "qualified": 1.99,  # the question has the name with its qualifier: `str.split`
    "called": 2.56,  # the question has the entry's full name as a call: `hasattr(`
    "first": 0.5,  # the first passage of an entry, with its signature
    "has": 1.86,  # the passage has a span of the expected type
    "module": 3.89,  # the passage introduces a module, and the question asks for one
    # the passage introduces a module that the question names, and the question asks what it is for
    "module_purpose": 4.17,
    "page": 1.6,  # the page's share of all retrieved passages
    # of the entries with this name, which the question has, no other is below headings, terms or a page
    # of which it has more words: "MaxFrameSize in imtcp"
    "homonym": 1.0,
}
SPAN_WEIGHTS = {
    "passage_logit": 0.8,  # the reader's logit for the passage
    "span_logit": 0.38,  # the reader's log probability for the span
    "typed": 1.19,  # the span looks like the expected type
    "own": 1.1,  # the span is the entry's own name, and the question asks for such an entry
    "echo": -0.51,  # the question has the same name
    "optional": 0.84,  # the parameter has a default, or stands in brackets
    "switch": 0.69,  # the parameter's default is true or false
    "module": 3.32,  # the span is the name of the module that is asked for
    # the span is a literal such as None, -1 or 'w', and the question asks for a result
    "literal": 1.01,
    # a cell of a table, and the question has at least half of the words of the row's first cell
    "row": 3.0,
    "column": 1.5,  # the same, and the question has a word that is in the head of the column
    "stated": 1.0,  # a sentence says that it is the default, and the question asks for one
    "labelled": 2.4,  # the same, by a label: "Default: 50M"
    "quantity": 1.61,  # a number with its unit, and the question asks for a number or a value
    "returned": 1.26,  # a sentence says that this is returned, and the question asks for a result
    # of the values in its sentence, the one whose condition has most words of the question
    "condition": 2.0,
    "words": -1.62,  # logarithm of the number of words
    "result_words": 1.3,  # the same, where the question asks for a result: it may be a phrase
    "signature": -1.57,  # the span is in the signature without being a candidate
    "sentence": 0.77,  # its sentence has words that go with the expected type
    "default": 0.21,  # its sentence tells a default, and the question asks for one
}
MAX_ENTRY_CHARS = 20_000  # the rest of an entry is not compared with the question's words
PAGE_SHARPNESS = 20.0  # of the softmax over the retrieval scores of a page's passages
PROBABILITY_MARGIN = 1e-4  # keeps the log odds of the reader's estimate finite


# -- passages


def passage_scores(question: ParsedQuestion, retrieved: Sequence[tuple[Hit, Document]]) -> Features:
    """Score each retrieved passage (n,), in log odds up to a constant."""
    weights = np.array(list(PASSAGE_WEIGHTS.values()))
    return np.asarray(passage_features(question, retrieved) @ weights)


def passage_features(
    question: ParsedQuestion, retrieved: Sequence[tuple[Hit, Document]]
) -> Features:
    """Return the features of passages (n, len(PASSAGE_WEIGHTS)), in the order of the weights."""
    shares = _page_shares(retrieved)
    meant = _meant_of_homonyms(question, [document for _, document in retrieved])

    rows = [
        _features_of_passage(
            question, hit, document, shares[document.location.path], document.id in meant
        )
        for hit, document in retrieved
    ]
    return np.array(rows, dtype=np.float64).reshape(len(rows), len(PASSAGE_WEIGHTS))


def _features_of_passage(
    question: ParsedQuestion, hit: Hit, document: Document, page_share: float, is_meant: bool
) -> tuple[float, ...]:
    introduces_module = _introduces_module(document)
    names = _folded_names(document)

    features = {
        "dense": hit.scores.get("dense", 0.0),
        "lexical": hit.scores.get("lexical", 0.0),
        "kind": sum(
            share
            for each, share in question.types
            if directive(document) in each.directives or (each is NAME_TYPE and introduces_module)
        ),
        "named": _is_named(question, names),
        "qualified": any(
            f".{name}".endswith(f".{qualified}")
            for qualified in question.qualified_names
            for name in names
        ),
        "called": not question.called_names.isdisjoint(names),
        "first": bool(names) and hit.id == document.id,
        "has": sum(share for each, share in question.types if _has_type(each, document, hit.text)),
        "module": question.probability("module") * introduces_module,
        "module_purpose": question.statement == "purpose"
        and introduces_module
        and str(document.fields["module"]).lower() in question.names | question.qualified_names,
        "page": page_share,
        "homonym": is_meant,
    }
    return tuple(float(features[name]) for name in PASSAGE_WEIGHTS)


def _folded_names(document: Document) -> list[str]:
    """Return the names of an entry; sections have headings, not names."""
    has_signature = "signature" in document.fields
    return [folded(name) for name in entry_names(document)] if has_signature else []


def _is_named(question: ParsedQuestion, names: Sequence[str]) -> bool:
    return any(name.rpartition(".")[2] in question.names for name in names)


def _meant_of_homonyms(question: ParsedQuestion, documents: Sequence[Document]) -> set[str]:
    """Return the ids of entries whose surroundings the question names, unlike others of the same name."""
    homonyms: dict[str, dict[str, int]] = defaultdict(dict)
    question_words = set(tokens(question.text))

    for document in {document.id: document for document in documents}.values():
        if _is_named(question, names := _folded_names(document)):
            qualifier, _, name = names[0].rpartition(".")
            around = set(tokens(" ".join((qualifier, *_texts_around(document)))))
            words = question_words & around - set(tokens(name))
            homonyms[name][document.id] = len(words)

    meant: set[str] = set()
    for counts in homonyms.values():
        most = max(counts.values())
        if most > min(counts.values()):
            meant.update(each for each, count in counts.items() if count == most)
    return meant


def _texts_around(document: Document) -> Iterator[str]:
    """Yield the terms and headings above an entry, its page's title and name, and its module."""
    yield from document.context
    yield from _headings(document)
    for key in ("page_title", "module"):
        yield str(document.fields.get(key, ""))
    yield PurePath(document.location.path or "").stem


def _headings(document: Document) -> tuple[str, ...]:
    """Return the headings above an entry; a corpus that is no manual may have other text there."""
    headings = document.fields.get("headings", ())
    return headings if isinstance(headings, tuple) else (str(headings),)


def _page_shares(retrieved: Sequence[tuple[Hit, Document]]) -> Mapping[str | None, float]:
    """Return each page's share of a softmax over the retrieval scores."""
    best = max((hit.score for hit, _ in retrieved), default=0.0)
    powers: dict[str | None, float] = defaultdict(float)
    for hit, document in retrieved:
        powers[document.location.path] += math.exp(PAGE_SHARPNESS * (hit.score - best))

    total = sum(powers.values())
    return {page: power / total for page, power in powers.items()}


def _has_type(answer_type: AnswerType, document: Document, text: str) -> bool:
    # Parameters have no look of their own in a text.
    if answer_type.name == "parameter":
        return "(" in str(document.fields.get("signature", ""))
    return next(candidate_spans(answer_type, text), None) is not None


def _introduces_module(document: Document) -> bool:
    """Return whether a document is the section whose heading begins with its module's name."""
    is_section = "signature" not in document.fields
    return is_section and document.title.partition(" ")[0] == document.fields.get("module")


# -- spans


def span_features(
    question: ParsedQuestion,
    text: str,
    structure: PassageStructure,
    span: CharSpan,
    candidate: Mapping[str, float] | None,
) -> dict[str, float]:
    """Return the features of a span except the reader's own.

    `candidate` has its features by `span_candidates`; None if it is no candidate.
    """
    answer = text[slice(*span)]
    features = dict(candidate or {})
    # A name counts as one word, whatever it consists of: SKIP LOCKED, timeout client.
    is_name = answer.isupper() or bool(features.get("own"))
    words = math.log1p(1 if is_name else len(answer.split()))
    unproposed = 1.0 - min(1.0, features.pop(PROPOSED, 0.0))
    in_signature = span[0] < structure.signature_end
    tells_default = question.asks_for_default and _sentence_tells(VALUE_TYPE, text, span)

    return {
        **features,
        "echo": float(question.echoes(answer)),
        "words": words,
        "result_words": words
        * max(question.probability("result"), float(question.asks_for_values)),
        "signature": unproposed * in_signature,
        "sentence": sum(
            share for each, share in question.types if _sentence_tells(each, text, span)
        ),
        "default": float(tells_default),
    }


def span_score(features: Mapping[str, float]) -> float:
    """Score a span by its features, in log odds up to a constant."""
    return sum(SPAN_WEIGHTS[name] * value for name, value in features.items())


def _sentence_tells(answer_type: AnswerType, text: str, span: CharSpan) -> bool:
    """Return whether the sentence around a span has words that go with the type."""
    start = max(text.rfind(". ", 0, span[0]), text.rfind("\n", 0, span[0])) + 1
    stops = (text.find(". ", span[1]), text.find("\n", span[1]))
    end = min((stop for stop in stops if stop >= 0), default=len(text))
    return answer_type.sentence.search(text, start, end) is not None


# -- calibration

# The first passage is compared with so many, itself among them. Relative to it, another one has these
# odds in the mean of the tuning questions.
_COMPARED, _MEAN_ODDS = 12, 0.15


def calibration_features(
    hits: Sequence[Hit],
    best_document: Document | None,
    word_weights: Mapping[str, float],
    reader_probability: float,
    priors: Sequence[float],
) -> tuple[float, ...]:
    """Return the features by which the probability that the corpus has an answer is calibrated.

    They are the best dense and the best lexical score, the idf (from `word_weights`) of the rarest
    word of the question that the best answer's document lacks, the log odds of the reader's own
    estimate, and the share of the first passage in the odds of all that were read, whose logarithms
    relative to it are the `priors`. Passages that a small reference lacks count as others mostly do.
    """
    dense = max((hit.scores.get("dense", 0.0) for hit in hits), default=0.0)
    lexical = max((hit.scores.get("lexical", 0.0) for hit in hits), default=0.0)

    document_words = _document_words(best_document) if best_document is not None else frozenset()
    missing = (weight for word, weight in word_weights.items() if word not in document_words)
    rarest_missing = max(missing, default=0.0)

    probability = min(max(reader_probability, PROBABILITY_MARGIN), 1.0 - PROBABILITY_MARGIN)
    log_odds = math.log(probability / (1.0 - probability))

    lacking = max(0, _COMPARED - len(hits))
    first_share = 1.0 / (sum(map(math.exp, priors)) + lacking * _MEAN_ODDS) if priors else 0.0
    return dense, lexical, rarest_missing, log_odds, first_share


def calibrated_probability(features: Sequence[float], weights: Sequence[float]) -> float:
    """Return a probability by logistic regression; `weights` are a constant, then one per feature.

    The last feature counts nothing for a reader without a weight for it, as earlier ones were exported.
    """
    products = (weight * feature for weight, feature in zip(weights[1:], features, strict=False))
    log_odds = weights[0] + sum(products)
    return round(1 / (1 + math.exp(-max(-30.0, min(30.0, log_odds)))), 6)


def _document_words(document: Document) -> frozenset[str]:
    parts = (
        document.title,
        str(document.fields.get("page_title", "")),
        *document.context,
        *_headings(document),
        document.body[:MAX_ENTRY_CHARS],
    )
    return frozenset(tokens("\n".join(parts)))
