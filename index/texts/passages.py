"""Text of a document for the encoder and for BM25, and the passages it is cut into.

Indexing, training and question answering all use this module, so that a passage means the same to
them. The splitters are those of the reference-QA paper: simple, structure-dependent, and
structure-dependent with enclosing terms.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from purlin.index.records import Document, Kind, Passage, Span, Splitter
from purlin.index.texts.product_fields import plain, searched_values, spellings
from purlin.index.texts.quantities import in_one_spelling

MAX_PASSAGE_WORDS = 100
# A longer word counts several times.
LONG_WORD_CHARS = 40
DEFAULT_SPLITTERS: dict[Kind, Splitter] = {
    "code": "whole",
    "product": "whole",
    "reference": "extended",
}

_WORD = re.compile(r"\S+")
_PARAGRAPH_END = re.compile(r"\n[^\S\n]*\n\s*")
# Behind a mark, if no lower-case letter follows, and before the items of a list.
_SENTENCE_END = re.compile(
    r"(?<!e\.g\.)(?<!i\.e\.)(?<=[.!?:;])\s+(?=[^\sa-z])|(?<=[。！？])|\n(?=[^\S\n]*(?:- |\d+\. ))"
)


# ---- texts for the retrievers


def render(document: Document, passage: Passage | None = None) -> str:
    """Text of a document, or of one of its passages, for the encoder."""
    text = document.body[passage.start : passage.end] if passage else document.body
    return _RENDERERS[document.kind](document, text, passage.context if passage else None)


def _render_code(document: Document, text: str, context: str | None) -> str:
    """The code, after the trait it is of and the first sentence of a doc comment that stands outside it.

    Name and whole comment are left to BM25: before the code, they pushed it beyond the encoder's
    limit (nDCG@10 on CodeSearchNet Challenge dev, pooled: code 0.777, this 0.776, with the name
    0.773, with the whole comment 0.764).
    """
    sentences = _between(_SENTENCE_END, document.summary, 0, len(document.summary))
    start, end = next(sentences, (0, 0))
    first = document.summary[start:end].partition("\n\n")[0]
    return _lines(context, *_unnamed(document), "" if first in text else first, text)


def _unnamed(document: Document) -> list[str]:
    """What is around a definition and not in its name: `impl Display for Lamp` of `Lamp.fmt`."""
    is_definition = bool(document.fields.get("signature"))
    return [part for part in document.context if is_definition and part not in document.title]


def _render_product(document: Document, text: str, context: str | None) -> str:
    """Brand, title and description, without attributes.

    Attributes blur the vector (nDCG@10 on Icecat dev 0.54 without, 0.49 with their values).
    """
    brand = plain(document.fields.get("brand", ""))
    new_brand = "" if brand in document.title else brand
    return _lines(context, new_brand, document.title, _prose_of(document, text))


def _prose_of(document: Document, text: str) -> str:
    """A whole product's text without the `Name: value` lines of its attributes."""
    return document.summary if document.summary and text == document.body else text


def _render_reference(document: Document, text: str, context: str | None) -> str:
    terms = " ".join(document.context) if context is None else context
    first_line = text.partition("\n")[0]
    title = "" if document.title in f"{terms} {first_line}" else document.title
    return _lines(terms, title, text)


def lexical_text(document: Document, passage: Passage) -> str:
    """Text of a passage for BM25: the title twice, because it is the name, then the rest once.

    The words of a path say what a file of code is for. Every passage has them, so that a word of
    many paths weighs little.

    A product is also found by its id and other codes, which are often its model number. Its
    quantities have the spelling that `lexical_query` gives those of queries.
    """
    text = document.body[passage.start : passage.end]
    title_twice = (document.title, document.title)

    if document.kind == "product":
        brand = plain(document.fields.get("brand", ""))
        prose = _prose_of(document, text)
        codes = spellings(document.id)
        fields = searched_values(document.fields)
        return in_one_spelling(_lines(*title_twice, *codes, brand, prose, *fields))
    if document.kind == "reference":
        return _lines(*title_twice, *document.context, text)

    summary = "" if document.summary in text else document.summary
    path = path_text(document.location.path or "")
    return _lines(*title_twice, path, *_unnamed(document), summary, text)


def lexical_query(query: str, kind: Kind) -> str:
    """The query for BM25."""
    return in_one_spelling(query) if kind == "product" else query


def path_text(path: str) -> str:
    """The part of a path that tells something: directories, and the name without its suffix."""
    directory, slash, name = path.rpartition("/")
    return directory + slash + (name.rpartition(".")[0] or name)


_RENDERERS: dict[Kind, Callable[[Document, str, str | None], str]] = {
    "code": _render_code,
    "product": _render_product,
    "reference": _render_reference,
}


def _lines(*parts: str | None) -> str:
    return "\n".join(part for part in parts if part)


# ---- passages


@dataclass(frozen=True, slots=True)
class _Piece:
    """A span of the body that is kept whole.

    `words` counts the words between white space; overlong ones count several times.
    """

    start: int
    end: int
    words: int


def split(
    document: Document, splitter: Splitter | None = None, *, max_words: int = MAX_PASSAGE_WORDS
) -> tuple[Passage, ...]:
    """Cut the body into passages, in order and without overlap; only white space is left out.

    whole: one passage (the default for code and products).
    simple: windows of `max_words` words that ignore structure, with the page's title as context.
    structure: at most `max_words` words each, cut between paragraphs or sentences, never inside an
        atom; a longer atom is a passage of its own, and a signature stays with the first sentence
        after it.
    extended: as structure, with the enclosing terms and the document's own term as context (the
        default for references).
    """
    chosen = splitter or DEFAULT_SPLITTERS[document.kind]
    # A document without a body has one empty passage, so that its title can be found.
    spans = list(_SPLITTERS[chosen](document, max_words)) or [(0, 0)]
    return tuple(
        Passage(document.id, number, start, end, _context(document, chosen, number))
        for number, (start, end) in enumerate(spans)
    )


def _context(document: Document, splitter: Splitter, number: int) -> str:
    """Context of a passage, by its splitter."""
    if splitter == "simple":
        return str(document.fields.get("page_title") or document.title)
    if splitter != "extended":
        return ""

    # The first passage of a definition has its term in the signature.
    has_term = number == 0 and "signature" in document.fields
    return " ".join(document.context if has_term else (*document.context, document.title))


def _whole(document: Document, max_words: int) -> Iterator[tuple[int, int]]:
    yield from _trimmed(document.body, 0, len(document.body))


def _simple(document: Document, max_words: int) -> Iterator[tuple[int, int]]:
    words = list(_WORD.finditer(document.body))
    for first in range(0, len(words), max_words):
        window = words[first : first + max_words]
        yield window[0].start(), window[-1].end()


def _structured(document: Document, max_words: int) -> Iterator[tuple[int, int]]:
    paragraphs = [
        _sized(document.body, pieces, max_words) for pieces in _paragraphs(document, max_words)
    ]
    for pieces in _packed(filter(None, paragraphs), max_words):
        yield pieces[0].start, pieces[-1].end


_SPLITTERS: dict[Splitter, Callable[[Document, int], Iterator[tuple[int, int]]]] = {
    "whole": _whole,
    "simple": _simple,
    "structure": _structured,
    "extended": _structured,
}


def _paragraphs(document: Document, max_words: int) -> Iterator[list[tuple[int, int, bool]]]:
    """Yield paragraphs as lists of (start, end, is_atom).

    A signature and the first sentence after it are one atom.
    """
    body, position = document.body, 0
    for atom in _atoms(document, max_words):
        yield from _prose(body, position, atom.start)
        yield [(atom.start, atom.end, True)]
        position = atom.end
    yield from _prose(body, position, len(body))


def _atoms(document: Document, max_words: int) -> list[Span]:
    signature = str(document.fields.get("signature", ""))
    if not signature or not document.body.startswith(signature):
        return _disjoint(document.atoms, len(document.body))

    spans = [Span(0, len(signature)), *document.atoms]
    head, *rest = _disjoint(spans, len(document.body))
    stop = rest[0].start if rest else len(document.body)
    head_end = _first_sentence_end(document.body, head.end, stop, max_words)
    return [Span(0, head_end), *rest]


def _first_sentence_end(body: str, start: int, stop: int, max_words: int) -> int:
    """End of the first sentence between start and stop, or of its first `max_words` words.

    Returns `start` if there is no sentence.
    """
    for (first, last, _), *_ in _prose(body, start, stop):
        words = islice(_WORD.finditer(body, first, last), max_words)
        return max(word.end() for word in words)
    return start


def _disjoint(atoms: Iterable[Span], stop: int) -> list[Span]:
    """Sorted atoms within the body; overlapping ones are joined."""
    joined: list[Span] = []
    for first, last in sorted((max(atom.start, 0), min(atom.end, stop)) for atom in atoms):
        if joined and first < joined[-1].end:
            joined[-1] = Span(joined[-1].start, max(joined[-1].end, last))
        elif first < last:
            joined.append(Span(first, last))
    return joined


def _prose(body: str, start: int, stop: int) -> Iterator[list[tuple[int, int, bool]]]:
    for first, last in _between(_PARAGRAPH_END, body, start, stop):
        sentences = [(*sentence, False) for sentence in _between(_SENTENCE_END, body, first, last)]
        if sentences:
            yield sentences


def _between(
    border: re.Pattern[str], body: str, start: int, stop: int
) -> Iterator[tuple[int, int]]:
    """Yield the spans between borders, without white space around them, if they are not empty."""
    position = start
    for match in border.finditer(body, start, stop):
        yield from _trimmed(body, position, match.start())
        position = match.end()
    yield from _trimmed(body, position, stop)


def _trimmed(body: str, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yield the span without the white space around it, if it is not empty."""
    first, last = stripped_span(body, start, stop)
    if first < last:
        yield first, last


def stripped_span(text: str, start: int, stop: int) -> tuple[int, int]:
    """The span without the white space around it; an empty one if there is nothing else."""
    inner = text[start:stop]
    first = start + len(inner) - len(inner.lstrip())
    return first, first + len(inner.strip())


def _sized(body: str, pieces: list[tuple[int, int, bool]], max_words: int) -> list[_Piece]:
    """Pieces with their word counts; a sentence that alone is too long is cut."""
    sized: list[_Piece] = []
    for start, end, is_atom in pieces:
        for first, last in _trimmed(body, start, end):
            words = [(word.start(), word.end()) for word in _WORD.finditer(body, first, last)]
            count = sum(map(_weight, words))

            if is_atom or count <= max_words:
                sized.append(_Piece(first, last, count))
            else:
                sized += _cut(words, max_words)

    return sized


def _weight(word: tuple[int, int]) -> int:
    """Count of a word; text without blanks (Japanese, a long URL) counts by its length."""
    return 1 + (word[1] - word[0] - 1) // LONG_WORD_CHARS


def _cut(words: list[tuple[int, int]], max_words: int) -> Iterator[_Piece]:
    """Yield pieces of at most `max_words` words; only a word that alone is longer is cut."""
    longest = max_words * LONG_WORD_CHARS
    # Overlong words in pieces that fit.
    short = [
        (start, min(start + longest, end))
        for first, end in words
        for start in range(first, end, longest)
    ]

    first, count = 0, 0
    for number, word in enumerate(short):
        if count and count + _weight(word) > max_words:
            yield _Piece(short[first][0], short[number - 1][1], count)
            first, count = number, 0
        count += _weight(word)
    yield _Piece(short[first][0], short[-1][1], count)


def _packed(paragraphs: Iterable[list[_Piece]], max_words: int) -> Iterator[list[_Piece]]:
    """Fill passages in order.

    A paragraph that would be cut starts a new passage if the current one is at least half full.
    """
    passage: list[_Piece] = []
    filled = 0
    for paragraph in paragraphs:
        words = sum(piece.words for piece in paragraph)
        fits_alone = words <= max_words < filled + words
        starts_new = fits_alone and 2 * filled >= max_words

        for number, piece in enumerate(paragraph):
            if passage and (filled + piece.words > max_words or (starts_new and number == 0)):
                yield passage
                passage, filled = [], 0
            passage.append(piece)
            filled += piece.words
    if passage:
        yield passage
