"""Training data in the formats people have -> pairs of query and passage, cleaned and clear of evaluation sets."""

from __future__ import annotations

import re
import sqlite3
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import blake2b
from itertools import chain, groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Literal, NamedTuple, Self, get_args

import numpy as np
from numpy.typing import NDArray

from index.errors import InvalidInput, NotFound
from index.evaluation.ranking import read_qrels, read_queries
from index.passages import render, split
from index.records import KINDS, Document, Kind, Passage, Skipped, SourceFile
from index.sources import beir, open_source, product, tables
from training.config import in_range
from training.data import templates
from training.data.backtranslation import rephraser
from training.data.questions import AskedSource, check_options, left_out, read_asked

Format = Literal[
    "pairs",
    "codesearchnet",
    "advtest",
    "cosqa",
    "esci",
    "beir",
    "packages",
    "code",
    "product",
    "reference",
    "templates",
    "questions",
    "linked",
]
Match = Literal["identical", "near", "query"]
Progress = Callable[[int], None]

GAINS = {"E": 1.0, "S": 0.1, "C": 0.01, "I": 0.0}
"""Amazon ESCI's labels (exact, substitute, complement, irrelevant) and what each gains in nDCG."""

MAX_CHARS = 100_000  # of a passage or a query
MAX_TEXTS = 100  # queries of one pair, and negatives
MIN_WORDS, MIN_CHARS = 3, 12  # a query that is below both says too little
MAX_STANZA = 2_000  # lines about one package
MAX_BOILERPLATE = 5  # times that package descriptions may share a paragraph
SHINGLE = 8  # tokens
MIN_SHINGLES = 5  # below, only an identical passage is a duplicate
MAX_REASONS = 5  # printed for a source

ASKED = ("queries", "query", "question")
DOCSTRINGS = ("docstring", "docstring_tokens")
QUERIES = (*ASKED, "summary", *DOCSTRINGS, "text")
PASSAGES = ("passage", "code", "positive", "document", "function", "code_tokens", "function_tokens")
_DOCSTRINGS = {
    "codesearchnet": (
        "docstring",
        "func_documentation_string",
        "docstring_tokens",
        "func_documentation_tokens",
    ),
    "advtest": DOCSTRINGS[::-1],
}
_CODES = {
    "codesearchnet": (
        "code",
        "original_string",
        "func_code_string",
        "whole_func_string",
        "code_tokens",
    ),
    "advtest": ("function", "code", "original_string", "function_tokens", "code_tokens"),
}
_JUDGED = frozenset(
    {"cosqa", "esci", "beir", "linked", "questions"}
)  # their queries are what people typed, so that short ones count too

_NOT_TEXT = re.compile("[\0\ud800-\udfff]")
_UNDECODED = re.compile("[\udc80-\udcff]")  # what a reader makes of bytes that are not UTF-8
_SENTENCE_END = re.compile(
    r"(?<!e\.g\.)(?<!i\.e\.)(?<=[.!?])\s+(?=[^\sa-z])|(?<=[。！？])|\n[^\S\n]*(?=\n|[@:]\w|(?:[A-Z][a-z]+):[^\S\n]*\n)"
)
_OPENING = re.compile(r'^[ \t]*[rRuU]?("""|\'\'\'|"|\')', re.MULTILINE)
_CLOSING = {quote: re.compile(rf"(?<!\\){quote}") for quote in ('"""', "'''", '"', "'")}
_LINE_END = re.compile(r"[ \t]*;?[ \t]*(?:\n|\Z)")
_COMMENT = re.compile(
    r'^[ \t]*[rRuU]?(?:""".*?(?:"""|\Z)|\'\'\'.*?(?:\'\'\'|\Z))|/\*.*?(?:\*/|\Z)|(?://|#)[^\n]*',
    re.DOTALL | re.MULTILINE,
)
_BULLET = re.compile(r"\s*[*+-]\s+(?=\S)")
_TOKEN = re.compile(r"\w+")
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class Pair:
    """Texts that say what a passage is about, and the passage as the encoder sees it.

    `queries` all belong to the passage; training draws one of them each time. `passage` is what
    `index.passages.render` gives. `language` is that of code; `title` is a product's, whose nouns are masked where
    the passage has them too. `negatives` are passages that people judged irrelevant to the query.
    `comment` is the prose about the passage that is not in it: the code's comment, the product's bullets.
    """

    queries: tuple[str, ...]
    passage: str
    kind: Kind = "code"
    language: str = ""
    title: str = ""
    negatives: tuple[str, ...] = ()
    comment: str = ""


@dataclass(frozen=True, slots=True)
class PairSource:
    """Where pairs come from, as a recipe names it.

    `limit` is the most pairs taken, `weight` how often they are drawn compared with other sources.
    `kind` counts for formats that do not tell; `split` for those that have several (BEIR: the file of judgements);
    `locale` and `size` for ESCI. `reference` is where the entries are that questions of the formats questions (a set,
    as `index.evaluation.answers` reads it) and linked (rows {title, question, entry}) lead to.
    For the format templates, whose path is a reference, `rules` is a file of templates of one's own, and
    `translators` are two models, there and back, whose words are asked as well.
    Of templates and linked, nothing is asked about the entries that the question sets `leave_out` ask about.
    By its `name` a stage of training chooses it. Raises InvalidInput naming the field.
    """

    format: Format
    path: Path
    kind: Kind = "code"
    weight: float = 1.0
    limit: int | None = None
    locale: str = "us"
    size: Literal["large", "small"] = "large"
    split: str = "train"
    reference: Path | None = None
    rules: Path | None = None
    translators: tuple[str, ...] = ()
    leave_out: tuple[Path, ...] = ()
    name: str = ""

    def __post_init__(self) -> None:
        _one_of("format", self.format, get_args(Format))
        _one_of("kind", self.kind, KINDS)
        _one_of("size", self.size, ("large", "small"))
        if not 0 < self.weight <= 100:
            raise InvalidInput(
                f"weight must be above 0 and at most 100, not {self.weight:g}.", field="weight"
            )
        if self.limit is not None:
            in_range("limit", self.limit, 1, 10**9)
        if not re.fullmatch(r"\w[\w.-]{0,99}", self.split):
            raise InvalidInput(
                f"split must be a name such as train, not {self.split!r:.80}.", field="split"
            )
        check_options(self.format, self.reference, self.rules, self.translators, self.leave_out)


def _one_of(name: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        raise InvalidInput(
            f"{name} must be one of {', '.join(known)}, not {value!r:.80}.", field=name
        )


# Reading


class _Draft(NamedTuple):
    """A pair before cleaning, and where it was found; lines count from 1."""

    pair: Pair
    path: str
    line: int | None = None


_Drafts = Iterator[_Draft | Skipped]


def read(source: PairSource) -> Iterator[Pair | Skipped]:
    """The source's pairs, cleaned, one after another, and what was left out.

    Raises NotFound at once where there is no such path and, at the end, InvalidInput if not one pair was of use.
    """
    if not source.path.exists():
        raise NotFound(f"There is no file or directory {source.path}.", field="path")
    return _read(source)


def _read(source: PairSource) -> Iterator[Pair | Skipped]:
    kept = skipped = 0
    first: Skipped | None = None
    for draft in _READERS[source.format](source):
        found = draft if isinstance(draft, Skipped) else _cleaned(draft, source)
        yield found
        if isinstance(found, Skipped):
            first, skipped = first or found, skipped + 1
            continue
        kept += 1
        if kept == source.limit:
            return
    if not kept:
        place = f" (line {first.line})" if first and first.line else ""
        why = (
            f"{skipped:,} were skipped, the first{place}: {first.reason}"
            if first
            else "it is empty"
        )
        raise InvalidInput(
            f"{source.path} has no usable pair of format {source.format}: {why}.", field="path"
        )


def _cleaned(draft: _Draft, source: PairSource) -> Pair | Skipped:
    try:
        return clean(draft.pair, typed=source.format in _JUDGED)
    except InvalidInput as error:
        return Skipped(draft.path, error.message, draft.line)


def clean(pair: Pair, *, typed: bool = False) -> Pair:
    """The pair without what is no text, without empty, repeated, too long or too short queries.

    `typed` queries come from people and may be short. Raises InvalidInput, with the reason as its message, where a
    side is empty, the sides are equal but for white space and case, or the passage is longer than `MAX_CHARS`.
    """
    passage = _stripped(pair.passage)
    if not passage:
        raise InvalidInput("the passage is empty")
    if len(passage) > MAX_CHARS:
        raise InvalidInput(f"the passage is longer than {MAX_CHARS:,} characters")
    return replace(
        pair,
        queries=_clean_queries(pair.queries, passage, typed),
        passage=passage,
        language=_stripped(pair.language).lower(),
        title=_stripped(pair.title),
        comment=_stripped(pair.comment),
        negatives=tuple(_distinct(pair.negatives, without=passage).values())[:MAX_TEXTS],
    )


def _clean_queries(given: Sequence[str], passage: str, typed: bool) -> tuple[str, ...]:
    queries = _distinct(given)
    if not queries:
        raise InvalidInput("the query is empty")
    queries.pop(_folded(passage), None)
    if not queries:
        raise InvalidInput("query and passage are the same")
    long = [query for query in queries.values() if typed or not _too_short(query)]
    if not long:
        raise InvalidInput(f"the query has fewer than {MIN_WORDS} words and {MIN_CHARS} characters")
    return tuple(long[:MAX_TEXTS])


def _distinct(texts: Iterable[str], without: str = "") -> dict[str, str]:
    """Texts that are neither empty nor too long, the first of each, by what `_folded` makes of them."""
    found: dict[str, str] = {}
    for text in map(_stripped, texts):
        if text and len(text) <= MAX_CHARS:
            found.setdefault(_folded(text), text)
    found.pop(_folded(without), None)
    return found


def _stripped(text: str) -> str:
    return _NOT_TEXT.sub("", text).strip()


def _folded(text: str) -> str:
    return " ".join(text.split()).casefold()


def _too_short(query: str) -> bool:
    return len(query) < MIN_CHARS and len(query.split()) < MIN_WORDS


# Tables with a pair in each row


class _Row(NamedTuple):
    path: str
    line: int
    record: Mapping[str, object]


def _rows(path: Path) -> Iterator[_Row | Skipped]:
    """The rows of a table, or of all tables below a directory: JSON lines or array, CSV, Parquet, maybe gzipped."""
    for file in _tables(path):
        name = file.name if file == path else file.relative_to(path).as_posix()
        for row in tables.read_rows(file, name):
            if isinstance(row, Skipped):
                yield row
            elif any(
                isinstance(value, str) and _UNDECODED.search(value) for value in row.record.values()
            ):
                yield Skipped(name, "the line is not UTF-8", row.number)
            else:
                yield _Row(name, row.number, row.record)


def _tables(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    return sorted(file for file in path.rglob("*") if file.is_file() and tables.format_of(file))


def _in_rows(
    source: PairSource, pair_of: Callable[[Mapping[str, object], PairSource], Pair]
) -> _Drafts:
    for row in _rows(source.path):
        if isinstance(row, Skipped):
            yield row
            continue
        try:
            yield _Draft(pair_of(row.record, source), row.path, row.line)
        except InvalidInput as error:
            yield Skipped(row.path, error.message, row.line)


def _plain(record: Mapping[str, object], source: PairSource) -> Pair:
    """`QUERIES` and `PASSAGES` name the columns; a docstring is a query only where no other column is one."""
    passage = _required(record, PASSAGES, "passage")
    kind = next((known for known in KINDS if known == record.get("kind")), source.kind)
    language, summary = _text(record, ("language",)), _text(record, ("summary",))
    asked, docstring = _texts(record, ASKED), _text(record, DOCSTRINGS)
    if docstring and not asked:
        pair = _documented(passage, docstring, summary=summary, language=language)
        return replace(pair, kind=kind)
    queries = asked or (_required(record, QUERIES, "query"),)
    negatives = _texts(record, ("negatives", "negative"))
    return Pair(queries, passage, kind, language, _text(record, ("title",)), negatives)


def _corpus_row(record: Mapping[str, object], source: PairSource) -> Pair:
    """A row of CodeSearchNet, as its files or the copies on data hubs name the columns, or of CodeXGLUE AdvTest.

    CodeSearchNet: `docstring`, `code`, `language`, `partition`, with `func_documentation_string`, `func_code_string`
    and `split_name` on hubs. AdvTest: `docstring_tokens` are its queries, `function` is the code of the test rows.
    """
    partition = _text(record, ("partition", "split_name"))
    if partition and partition != source.split:
        raise InvalidInput(f"is not of the split {source.split}")
    code = _required(record, _CODES[source.format], "code")
    docstring = _required(record, _DOCSTRINGS[source.format], "docstring")
    language = _text(record, ("language",)) or ("python" if source.format == "advtest" else "")
    return _documented(code, docstring, language=language)


def _cosqa(source: PairSource) -> _Drafts:
    """CoSQA: `doc` (or `query`) is what was searched for, `code` has its docstring, `label` 1 says that it answers.

    The docstring stays, since the query was not cut from it. Rows without a label, as in the splits for retrieval,
    are answers. Code with label 0 is a negative of the same query's answers.
    """
    negatives: defaultdict[str, list[str]] = defaultdict(list)
    for row in _rows(source.path):
        if isinstance(row, _Row) and not _answers(row.record):
            known = negatives[_folded(_text(row.record, _COSQA_QUERIES))]
            if len(known) < MAX_TEXTS:
                known.append(_text(row.record, ("code",)))
    for row in _rows(source.path):
        if isinstance(row, Skipped):
            yield row
        elif _answers(row.record):
            yield _cosqa_draft(row, negatives)


_COSQA_QUERIES = ("doc", "query")


def _answers(record: Mapping[str, object]) -> bool:
    return str(record.get("label", 1)) not in ("0", "0.0", "False")


def _cosqa_draft(row: _Row, negatives: Mapping[str, list[str]]) -> _Draft | Skipped:
    try:
        query = _required(row.record, _COSQA_QUERIES, "query")
        code = _required(row.record, ("code",), "code")
    except InvalidInput as error:
        return Skipped(row.path, error.message, row.line)
    return _Draft(
        Pair((query,), code, language="python", negatives=tuple(negatives.get(_folded(query), ()))),
        *row[:2],
    )


def _required(record: Mapping[str, object], columns: Sequence[str], what: str) -> str:
    if text := _text(record, columns):
        return text
    if any(isinstance(record.get(column), str) for column in columns):
        raise InvalidInput(f"the {what} is empty")
    shown = ", ".join(islice(map(str, record), 20)) or "none"
    raise InvalidInput(
        f"has no {what}: looked for a column {' or '.join(columns)}, it has {shown:.500}"
    )


def _text(record: Mapping[str, object], columns: Sequence[str]) -> str:
    """The first column that says something; tokens are joined with blanks."""
    for column in columns:
        value = record.get(column)
        if isinstance(value, list):
            value = " ".join(token for token in value if isinstance(token, str))
        if isinstance(value, str) and value.strip():
            return value
    return ""


def _texts(record: Mapping[str, object], columns: Sequence[str]) -> tuple[str, ...]:
    """All texts that these columns hold, themselves or as lists."""
    values = (record.get(column) for column in columns)
    items = chain.from_iterable(value if isinstance(value, list) else (value,) for value in values)
    return tuple(
        islice((item for item in items if isinstance(item, str) and item.strip()), MAX_TEXTS)
    )


# Code and its comment


def _documented(code: str, comment: str, *, summary: str = "", language: str = "") -> Pair:
    first, _ = first_sentence(comment, summary)
    return Pair(
        (first, comment), without_docstring(code, comment), "code", language, comment=comment
    )


def without_docstring(code: str, docstring: str) -> str:
    """Code without the string literal on lines of its own that says what `docstring` does; as it is if there is none.

    The text decides, not a parser, so that broken code is served too. Only the first literals are looked at.
    """
    said = _normal(docstring)
    for opening in islice(_OPENING.finditer(code), 5):
        closing = _CLOSING[opening[1]].search(code, opening.end())
        if not closing or not (end := _LINE_END.match(code, closing.end())):
            continue
        found = _normal(code[opening.end() : closing.start()])
        length = min(len(found), len(said), 40)
        if length and found[:length] == said[:length]:
            return code[: opening.start()] + code[end.end() :]
    return code


def first_sentence(text: str, summary: str = "") -> tuple[str, str]:
    """The first sentence, or the summary that stands for it, and what comes after."""
    text = text.strip()
    words = summary.split()[:200]
    parts = text.split(maxsplit=len(words))
    *begun, last = parts[: len(words)] or [""]
    if words and begun == words[:-1] and last.startswith(words[-1]):
        rest = last.removeprefix(words[-1]).lstrip(".!?:;")
        return summary, " ".join([rest, *parts[len(words) :]]).strip()
    end = next(
        (match.start() for match in _SENTENCE_END.finditer(text) if match.start()), len(text)
    )
    return summary or " ".join(text[:end].split()), text[end:].strip()


# Judged queries


def _esci(source: PairSource) -> _Drafts:
    """Amazon ESCI: its two Parquet files in a directory, or one table with the products' columns in every row.

    Columns as published: query_id, query, product_id, product_locale, esci_label (E or Exact and so on),
    small_version and large_version (1: in it), split; product_title, _description, _bullet_point, _brand, _color.
    Products judged E are positives, those judged C and I negatives of their query. The join is made in a temporary
    database on disk.
    """
    with closing(sqlite3.connect("")) as database:
        database.execute("CREATE TABLE judged (query_id, query, product, label)")
        database.execute("CREATE TABLE products (id PRIMARY KEY, title, passage) WITHOUT ROWID")
        yield from _load_esci(database, source)
        order = "query_id, label = 'E', judged.rowid"
        rows = database.execute(
            "SELECT query_id, query, judged.product, label, title, passage FROM judged LEFT JOIN products"
            f" ON products.id = judged.product ORDER BY {order}"
        )
        for _, judged in groupby(rows, itemgetter(0)):
            yield from _esci_drafts(judged, source.path.name)


def _load_esci(database: sqlite3.Connection, source: PairSource) -> Iterator[Skipped]:
    examples, products = source.path, source.path
    if source.path.is_dir():
        examples, products = (
            _only(source.path, f"*{name}.parquet") for name in ("examples", "products")
        )
    for row in _rows(examples):
        if isinstance(row, Skipped):
            yield row
        elif _is_chosen(row.record, source):
            names = ("query_id", "query", "product_id")
            label = _cell(row.record, "esci_label")[:1].upper()
            database.execute(
                "INSERT INTO judged VALUES (?, ?, ?, ?)",
                (*(_cell(row.record, name) for name in names), label),
            )
    database.execute("CREATE INDEX wanted ON judged (product)")
    for row in _rows(products):
        if isinstance(row, _Row) and _cell(row.record, "product_locale") == source.locale:
            yield from _add_product(database, row)
        elif isinstance(row, Skipped) and products != examples:
            yield row


def _only(directory: Path, pattern: str) -> Path:
    if found := sorted(directory.glob(pattern)):
        return found[0]
    raise NotFound(
        f"{directory} has no file {pattern}: give the directory with ESCI's two Parquet files.",
        field="path",
    )


def _is_chosen(record: Mapping[str, object], source: PairSource) -> bool:
    """Whether a judgement is of the locale, size and split asked for; a column that is not there excludes nothing."""
    wanted = {"product_locale": source.locale, f"{source.size}_version": "1", "split": source.split}
    return all(name not in record or _cell(record, name) == value for name, value in wanted.items())


def _cell(record: Mapping[str, object], name: str) -> str:
    return _stripped(str(record.get(name) or ""))


def _add_product(database: sqlite3.Connection, row: _Row) -> Iterator[Skipped]:
    id_ = _cell(row.record, "product_id")
    if not database.execute("SELECT 1 FROM judged WHERE product = ?", (id_,)).fetchone():
        return
    try:
        document = product.from_record({name: row.record.get(name) for name in _ESCI_PRODUCT})
    except InvalidInput as error:
        yield Skipped(row.path, error.message, row.line)
        return
    values = (id_, document.title, render(document))
    database.execute("INSERT OR IGNORE INTO products VALUES (?, ?, ?)", values)


_ESCI_PRODUCT = tuple(
    f"product_{name}" for name in ("title", "description", "bullet_point", "brand", "color")
)


def _esci_drafts(judged: Iterable[tuple[str, ...]], path: str) -> _Drafts:
    """The pairs of one query, whose positives come last."""
    negatives: list[str] = []
    for _, query, id_, label, title, passage in judged:
        if label in ("C", "I") and passage and len(negatives) < MAX_TEXTS:
            negatives.append(passage)
        elif label == "E" and not passage:
            yield Skipped(path, f"the judged product {id_!r} is not there")
        elif label == "E":
            yield _Draft(
                Pair((query,), passage, "product", title=title, negatives=tuple(negatives)), path
            )


def _beir(source: PairSource) -> _Drafts:
    """Judged queries in BEIR's form: a grade above 0 makes a pair, one of 0 or less a negative of the same query."""
    queries = read_queries(_beside(source.path, "queries.jsonl"))
    qrels = read_qrels(_beside(source.path, f"qrels/{source.split}.tsv"))
    judged = {document for grades in qrels.values() for document in grades}
    passages: dict[str, tuple[str, Pair]] = {}
    for document in _documents(source.kind, _beside(source.path, "corpus.jsonl")):
        if isinstance(document, Skipped):
            yield document
        elif document.id in judged:
            passages[document.id] = _of(document)
    for query, grades in qrels.items():
        text = queries.get(query, "")
        negatives = tuple(
            passages[id_][0] for id_, grade in grades.items() if grade <= 0 and id_ in passages
        )
        for id_ in (id_ for id_, grade in grades.items() if grade > 0):
            if id_ in passages and text:
                yield _Draft(
                    replace(passages[id_][1], queries=(text,), negatives=negatives),
                    source.path.name,
                )
            else:
                yield Skipped(
                    source.path.name,
                    f"{'the document' if text else 'the query'} judged is not there",
                )


def _of(document: Document) -> tuple[str, Pair]:
    """What the encoder sees of a document, and a pair that lacks its queries."""
    passage = render(document)
    title = document.title if document.kind == "product" else ""
    return passage, Pair(
        (), passage, document.kind, str(document.fields.get("language", "")), title
    )


def _beside(directory: Path, name: str) -> Path:
    for path in (directory / name, directory / f"{name}.gz"):
        if path.is_file():
            return path
    raise NotFound(f"{directory} has no {name}, which a set in BEIR's form has.", field="path")


# Documents of an index source


def _documents(kind: Kind, path: Path) -> Iterator[Document | Skipped]:
    """Tests, vendored and generated code are left out: their comments say little."""
    for file in open_source(kind, [path], secondary="leave-out"):
        if isinstance(file, Skipped):
            yield file
        else:
            yield from file.read()


def _of_source(source: PairSource, pair_of: Callable[[Document, PairSource], Pair]) -> _Drafts:
    kind: Kind = source.format if source.format in KINDS else source.kind
    for document in _documents(kind, source.path):
        if isinstance(document, Skipped):
            yield document
            continue
        path, line = document.location.path or source.path.name, document.location.start_line
        try:
            yield _Draft(pair_of(document, source), path, line)
        except InvalidInput as error:
            yield Skipped(path, error.message, line)


def _code(document: Document, source: PairSource) -> Pair:
    comment = document.summary or str(document.fields.get("docstring", ""))
    if not comment:
        raise InvalidInput("has no comment")
    return _documented(document.body, comment, language=str(document.fields.get("language", "")))


def _product(document: Document, source: PairSource | None = None) -> Pair:
    """SANTA, A.2: title and description are the structured side, each bullet of three words or more is a query.

    A product without such bullets is described by its description, and then its title and attributes are the passage.
    """
    lines = [atom for atom in document.atoms if atom.end <= len(document.summary)]
    bullets = [document.body[line.start : line.end] for line in lines]
    telling = tuple(bullet for bullet in bullets if len(bullet.split()) >= MIN_WORDS)[:MAX_TEXTS]
    description = document.summary[: lines[0].start if lines else None].strip()
    if not telling and not description:
        raise InvalidInput("has neither bullets nor a description")
    body = document.body[len(document.summary) :].strip()
    if telling:
        body = description
        for bullet in telling:
            body = body.replace(bullet, "").strip()
    passage = render(replace(document, body=body, summary=""))
    left_out = "\n".join(telling) or description
    return Pair(
        telling or (description,), passage, "product", title=document.title, comment=left_out
    )


def _reference(document: Document, source: PairSource) -> Pair:
    """The term and the first sentence after its signature are queries; the passage is the text without it."""
    signature = str(document.fields.get("signature", ""))
    head = signature if document.body.startswith(signature) else ""
    first, rest = first_sentence(document.body[len(head) :])
    if not rest:
        raise InvalidInput("nothing remains after the first sentence")
    body = f"{head}\n{rest}" if head else rest
    return Pair((document.title, first), render(replace(document, body=body)), "reference")


def _templates(source: PairSource) -> _Drafts:
    """Questions by template, with the passage that holds their answer; those of the `split`, which is by entry."""
    passages: dict[str, tuple[Document, tuple[Passage, ...]]] = {}
    for document in _documents("reference", source.path):
        if isinstance(document, Skipped):
            yield document
        else:
            passages[document.id] = document, split(document)
    asked: dict[tuple[str, Passage], list[str]] = defaultdict(list)
    documents = [document for document, _ in passages.values()]
    without = left_out(source.leave_out, documents)
    for example in templates.questions(
        documents, source.split, source.rules, rephraser(source.translators), without
    ):
        holding = (
            one for one in passages[example.document_id][1] if one.start <= example.start < one.end
        )
        if passage := next(holding, None):
            asked[example.document_id, passage].append(example.question)
    for (document_id, passage), questions in asked.items():
        document = passages[document_id][0]
        yield _Draft(
            Pair(tuple(questions), render(document, passage), "reference"),
            document.location.path or document_id,
        )


def _questions(source: PairSource) -> _Drafts:
    """A question set's answerable questions of the `split`, each with the passage that holds its answer."""
    asked = AskedSource(
        format="questions", path=source.path, reference=source.reference, split=source.split
    )
    pool, questions = read_asked(asked, {})
    places = {
        row: (document, passage)
        for document in pool.documents
        for row, passage in pool.places[document.id]
    }
    for one in (one for one in questions if one.answered):
        yield _Draft(
            Pair((one.question,), render(*places[one.passage]), "reference"), source.path.name
        )


def _linked(source: PairSource) -> _Drafts:
    """Questions of people and the entry that an answer to them links to; its first passage is the pair's."""
    assert source.reference is not None
    entries: dict[str, str] = {}
    documents = [
        found for found in _documents("reference", source.reference) if isinstance(found, Document)
    ]
    for document in documents:
        entries.setdefault(templates.document_entry(document), render(document, split(document)[0]))
    without = left_out(source.leave_out, documents)

    def pair_of(record: Mapping[str, object], source: PairSource) -> Pair:
        title, entry = (
            _required(record, ("title",), "question"),
            _required(record, ("entry",), "entry"),
        )
        if entry not in entries:
            raise InvalidInput("its entry is not in the reference")
        if entry in without:
            raise InvalidInput("its entry is left out")
        queries = (title, f"{title}\n{_text(record, ('question',))}".strip())
        return Pair(queries, entries[entry], "reference")

    yield from _in_rows(source, pair_of)


# Debian packages


def _packages(source: PairSource) -> _Drafts:
    """Control stanzas with long descriptions: apt's Translation-en files, or what `apt-cache show` prints.

    `apt-cache dumpavail` prints the short descriptions alone. Of paragraphs and list items that more than
    `MAX_BOILERPLATE` packages share only the first is kept, of packages with equal descriptions the first.
    """
    shared: Counter[bytes] = Counter()
    for found in _stanzas(source.path):
        if isinstance(found, _Stanza):
            shared.update({_digest(text) for _, text in _blocks(found.description)})
    seen: set[bytes] = set()
    for found in _stanzas(source.path):
        yield (
            found if isinstance(found, Skipped) else _package(found, source.path.name, shared, seen)
        )


class _Stanza(NamedTuple):
    line: int
    name: str
    synopsis: str
    description: list[str]


def _package(
    stanza: _Stanza, path: str, shared: Counter[bytes], seen: set[bytes]
) -> _Draft | Skipped:
    blocks = []
    for is_bullet, text in _blocks(stanza.description):
        digest = _digest(text)
        if shared[digest] <= MAX_BOILERPLATE or digest not in seen:
            blocks.append((is_bullet, text))
        seen.add(digest)
    if not blocks:
        return Skipped(
            path,
            "has no long description of its own (apt's Translation-en files have them)",
            stanza.line,
        )
    whole = _digest(repr(blocks))
    if whole in seen:
        return Skipped(path, "has the same description as another package", stanza.line)
    seen.add(whole)
    record = {
        "title": f"{stanza.name}: {stanza.synopsis}",
        "description": "\n".join(text for is_bullet, text in blocks if not is_bullet),
        "bullets": [text for is_bullet, text in blocks if is_bullet],
    }
    try:
        return _Draft(_product(product.from_record(record)), path, stanza.line)
    except InvalidInput as error:
        return Skipped(path, error.message, stanza.line)


def _stanzas(path: Path) -> Iterator[_Stanza | Skipped]:
    number = 0
    try:
        with tables.open_text(path) as handle:
            stanza: list[tuple[int, str]] = []
            for number, line in enumerate(chain(tables.text_lines(handle), ["\n"]), 1):
                if line.strip():
                    stanza.append((number, line.rstrip()))
                    del stanza[MAX_STANZA:]
                elif stanza:
                    yield _stanza(stanza, path.name)
                    stanza = []
    except (OSError, EOFError, ValueError, zlib.error) as error:
        yield Skipped(path.name, f"cannot be read from here on: {error}", number + 1)


def _stanza(lines: list[tuple[int, str]], path: str) -> _Stanza | Skipped:
    fields: dict[str, list[str]] = {}
    current: list[str] = []
    for _, line in lines:
        if line[0] in " \t":
            current.append(line)
        else:
            name, _, value = line.partition(":")
            current = fields.setdefault(name, [value.strip()])
    (name,) = fields.get("Package", [""])[:1]
    synopsis, *description = fields.get("Description-en") or fields.get("Description") or [""]
    if not name or not synopsis:
        return Skipped(path, "is no package with a description", lines[0][0])
    if any(_UNDECODED.search(line) for line in (name, synopsis, *description)):
        return Skipped(path, "the description is not UTF-8", lines[0][0])
    return _Stanza(lines[0][0], name, synopsis, description)


def _blocks(lines: Sequence[str]) -> list[tuple[bool, str]]:
    """Paragraphs and list items, in order, each on one line; true for the items."""
    blocks: list[tuple[bool, list[str]]] = []
    is_open, depth = False, 0
    for line in lines:
        text = line.strip()
        indent = len(line) - len(line.lstrip())
        if bullet := _BULLET.match(line):
            blocks.append((True, [line[bullet.end() :]]))
            depth = indent
        elif text == ".":
            is_open = False
            continue
        elif is_open and (indent > depth or not blocks[-1][0]):
            blocks[-1][1].append(text)
        else:
            blocks.append((False, [text]))
        is_open = True
    return [(is_bullet, " ".join(parts)) for is_bullet, parts in blocks]


_READERS: dict[Format, Callable[[PairSource], _Drafts]] = {
    "pairs": partial(_in_rows, pair_of=_plain),
    "codesearchnet": partial(_in_rows, pair_of=_corpus_row),
    "advtest": partial(_in_rows, pair_of=_corpus_row),
    "cosqa": _cosqa,
    "esci": _esci,
    "beir": _beir,
    "packages": _packages,
    "code": partial(_of_source, pair_of=_code),
    "product": partial(_of_source, pair_of=_product),
    "reference": partial(_of_source, pair_of=_reference),
    "templates": _templates,
    "questions": _questions,
    "linked": _linked,
}


# What evaluation sets hold


class Held(NamedTuple):
    """What an evaluation set holds of one document: its texts, as they may be trained on, and what asks for it."""

    texts: tuple[str, ...] = ()
    queries: tuple[str, ...] = ()


class HeldOut:
    """The documents and queries of evaluation sets, to tell which training pairs are copies of them.

    Held are a digest of the letters and digits of each document's texts, with and without comments, and its shingles:
    hashes of `SHINGLE` tokens in a row, sorted, with the numbers of their documents. Hashes are polynomials over CRC-32
    of the tokens: cheap in numpy, the same on every machine, and good enough where half of a passage must meet one
    document.
    """

    def __init__(self, held: Iterable[Held]) -> None:
        """A document may lack queries, as one that nobody asks for, and queries may stand by themselves."""
        self._digests: set[bytes] = set()
        self._queries: set[bytes] = set()
        shingles: list[NDArray[np.uint64]] = []
        for texts, queries in held:
            self._queries.update(_digest(_normal(query)) for query in queries if _is_telling(query))
            forms = {_normal(form): form for text in texts for form in (text, _uncommented(text))}
            self._digests.update(_digest(normal) for normal in forms if normal)
            if texts:
                shingles.append(
                    np.unique(np.concatenate([_shingles(form) for form in forms.values()]))
                )
        self.documents = len(shingles)
        joined = np.concatenate([np.empty(0, np.uint64), *shingles])
        order = np.argsort(joined, kind="stable")
        numbers = np.repeat(
            np.arange(len(shingles), dtype=np.uint32), [len(each) for each in shingles]
        )
        self._shingles: NDArray[np.uint64] = joined[order]
        self._numbers: NDArray[np.uint32] = numbers[order]

    @classmethod
    def read(cls, paths: Sequence[Path]) -> Self:
        """From sets in BEIR's form (the directory, or its corpus alone) and files of pairs.

        Raises NotFound for a path that is not there and InvalidInput for one without a document.
        """
        return cls(chain.from_iterable(map(_held_out, paths)))

    def matches(self, pair: Pair) -> Match | None:
        """Whether the passage is one of the documents, or half of its shingles are in one of them, or a query is held.

        Queries count if they have more than five words; a product's title is one of them, and its comment, if it has
        as many, is compared as its passage is.
        """
        forms, likely = [pair.passage], [pair.passage]
        if pair.kind == "code":
            likely = [_uncommented(pair.passage)]
            forms = [*likely, pair.passage, pair.passage.partition("\n")[2]]
        elif pair.kind == "product" and _is_telling(pair.comment):
            forms = likely = [pair.passage, pair.comment]
        if any(_digest(_normal(form)) in self._digests for form in forms):
            return "identical"
        queries = filter(_is_telling, (*pair.queries, pair.title))
        if any(_digest(_normal(query)) in self._queries for query in queries):
            return "query"
        return "near" if any(self._is_near(_shingles(form)) for form in likely) else None

    def _is_near(self, shingles: NDArray[np.uint64]) -> bool:
        if len(shingles) < MIN_SHINGLES or not len(self._shingles):
            return False
        first = np.searchsorted(self._shingles, shingles)
        known = self._shingles[np.minimum(first, len(self._shingles) - 1)] == shingles
        if 2 * np.count_nonzero(known) < len(shingles):
            return False
        last = np.searchsorted(self._shingles, shingles[known], side="right")
        ranges = zip(first[known].tolist(), last.tolist(), strict=True)
        counts = np.bincount(np.concatenate([self._numbers[start:end] for start, end in ranges]))
        return bool(2 * counts.max() >= len(shingles))


def _held_out(path: Path) -> Iterator[Held]:
    """The set's queries and documents."""
    if not path.is_dir() and not beir.recognises(path):
        pairs = (found for found in read(PairSource("pairs", path)) if isinstance(found, Pair))
        yield from (Held((pair.passage,), (*pair.queries, pair.title)) for pair in pairs)
        return
    if path.is_dir():
        yield Held(queries=tuple(read_queries(_beside(path, "queries.jsonl")).values()))
    corpus = _beside(path, "corpus.jsonl") if path.is_dir() else path
    files = (
        file for kind in KINDS for file in beir.files(corpus, kind) if isinstance(file, SourceFile)
    )
    texts: defaultdict[str, set[str]] = defaultdict(set)
    titles: dict[str, str] = {}
    for document in chain.from_iterable(file.read() for file in files):
        if isinstance(document, Document):
            titles[document.id] = document.title
            texts[document.id].update(_trained(document))
    if not texts:
        raise InvalidInput(
            f"{path} has no document, so nothing could be kept out of training.", field="exclude"
        )
    yield from (Held(tuple(forms), (titles[id_],)) for id_, forms in texts.items())


def _trained(document: Document) -> Iterator[str]:
    """What training on the document may see: the text as it is, and as the encoder does, if that is not its name."""
    yield document.body or document.title
    forms = [render(document)]
    if document.kind == "product":
        with suppress(InvalidInput):
            forms.append(_product(document).passage)
    yield from (form for form in forms if form != document.title or _is_telling(form))


def remove_held_out(pairs: Iterable[Pair], held_out: HeldOut) -> tuple[list[Pair], Counter[Match]]:
    """The pairs that are clear of the evaluation sets, and how many were not, by how they match."""
    kept: list[Pair] = []
    removed: Counter[Match] = Counter()
    for pair in pairs:
        if match := held_out.matches(pair):
            removed[match] += 1
        else:
            kept.append(pair)
    return kept, removed


def _normal(text: str) -> str:
    """Letters and digits alone, in lower case."""
    return "".join(_TOKEN.findall(text.lower())).replace("_", "")


def _digest(text: str) -> bytes:
    return blake2b(text.encode(errors="replace"), digest_size=8).digest()


def _is_telling(query: str) -> bool:
    return len(query.split()) > 5


def _uncommented(code: str) -> str:
    """Code without comments and docstrings of any language, roughly: both sides of a comparison are cut the same."""
    return _COMMENT.sub("", code)


def _shingles(text: str) -> NDArray[np.uint64]:
    """Distinct hashes of each `SHINGLE` tokens in a row, sorted (at most tokens - SHINGLE + 1,)."""
    encoded = [token.encode(errors="replace") for token in _TOKEN.findall(text)]
    tokens = np.fromiter(map(zlib.crc32, encoded), np.uint64, len(encoded))
    count = max(0, len(tokens) - SHINGLE + 1)
    hashes = np.zeros(count, dtype=np.uint64)
    for offset in range(SHINGLE):
        hashes = hashes * _MULTIPLIER + tokens[offset : offset + count]
    return np.unique(hashes)


# Everything at once


@dataclass(slots=True)
class SourceReport:
    """What became of one source's rows: `kept` pairs, and the counts of all that are not."""

    name: str
    kept: int = 0
    repeated: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    removed: Counter[Match] = field(default_factory=Counter)

    @property
    def read(self) -> int:
        """Rows or documents that were looked at."""
        return self.kept + self.repeated + self.skipped.total() + self.removed.total()

    def __str__(self) -> str:
        identical, near, query = (self.removed[match] for match in get_args(Match))
        lines = [
            f"{self.name}: {self.kept:,} pairs of {self.read:,} read, {self.repeated:,} repeated, "
            f"{self.skipped.total():,} skipped; in an evaluation set: {identical:,} identical, {near:,} nearly, "
            f"{query:,} by their query"
        ]
        lines += [
            f"  {count:,} skipped: {reason}"
            for reason, count in self.skipped.most_common(MAX_REASONS)
        ]
        return "\n".join(lines)


@dataclass(slots=True)
class Report:
    """What became of all sources; `held_out` documents of evaluation sets were compared with. Prints as short lines."""

    sources: list[SourceReport]
    held_out: int = 0

    def __str__(self) -> str:
        kept = sum(source.kept for source in self.sources)
        removed = sum(source.removed.total() for source in self.sources)
        total = f"{kept:,} pairs; {removed:,} removed as copies from {self.held_out:,} evaluation documents"
        return "\n".join([*map(str, self.sources), total])


def load(
    sources: Sequence[PairSource], exclude: Sequence[Path] = (), progress: Progress | None = None
) -> tuple[list[list[Pair]], Report]:
    """The pairs of each source, in the sources' order, without repeats and without what is in the sets `exclude`.

    A limit counts before this removal. `progress` is told how many more rows were looked at. Raises what `read` and
    `HeldOut.read` do, and InvalidInput if nothing of a source remains.
    """
    held_out = HeldOut.read(exclude)
    seen: set[bytes] = set()
    loaded: list[list[Pair]] = []
    reports: list[SourceReport] = []
    for source in sources:
        report = SourceReport(f"{source.path.name} ({source.format})")
        pairs, report.removed = remove_held_out(_unseen(source, seen, report, progress), held_out)
        report.kept = len(pairs)
        if not pairs:
            raise InvalidInput(f"Nothing remains of {source.path}. {report}", field="sources")
        loaded.append(pairs)
        reports.append(report)
    return loaded, Report(reports, held_out.documents)


def _unseen(
    source: PairSource, seen: set[bytes], report: SourceReport, progress: Progress | None = None
) -> Iterator[Pair]:
    """The source's pairs that are not in `seen`, to which they are added; all others are counted."""
    for found in read(source):
        if progress is not None:
            progress(1)
        if isinstance(found, Skipped):
            report.skipped[found.reason.partition(":")[0]] += 1
            continue
        digest = blake2b(
            "\0".join((*found.queries, found.passage)).encode(), digest_size=16
        ).digest()
        if digest in seen:
            report.repeated += 1
        else:
            seen.add(digest)
            yield found
