"""Tables with one pair per row: plain pairs, CodeSearchNet, CodeXGLUE AdvTest and CoSQA."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from purlin.index.errors import InvalidInput
from purlin.index.records import KINDS, Skipped
from purlin.index.sources import tables
from purlin.training.data.pairs.docstrings import pair_from_docstring
from purlin.training.data.pairs.pair import (
    MAX_TEXTS_PER_PAIR,
    Draft,
    Drafts,
    Pair,
    PairFormat,
    PairSource,
    fold,
    strip_text,
    text_digest,
)

QUERY_COLUMNS = ("queries", "query", "question")
DOCSTRING_COLUMNS = ("docstring", "docstring_tokens")
ANY_QUERY_COLUMNS = (*QUERY_COLUMNS, "summary", *DOCSTRING_COLUMNS, "text")
PASSAGE_COLUMNS = (
    "passage",
    "code",
    "positive",
    "document",
    "function",
    "code_tokens",
    "function_tokens",
)

# The columns differ between the published files and the copies on data hubs.
_CORPUS_DOCSTRINGS: dict[PairFormat, tuple[str, ...]] = {
    "codesearchnet": (
        "docstring",
        "func_documentation_string",
        "docstring_tokens",
        "func_documentation_tokens",
    ),
    "advtest": DOCSTRING_COLUMNS[::-1],
}
_CORPUS_CODE: dict[PairFormat, tuple[str, ...]] = {
    "codesearchnet": (
        "code",
        "original_string",
        "func_code_string",
        "whole_func_string",
        "code_tokens",
    ),
    "advtest": ("function", "code", "original_string", "function_tokens", "code_tokens"),
}
_COSQA_QUERIES = ("doc", "query")

# Bytes that are not UTF-8 are read as these surrogates.
_UNDECODED = re.compile("[\udc80-\udcff]")

Record = Mapping[str, object]


class TableRow(NamedTuple):
    """One record of a table, with its file and line."""

    path: str
    line: int
    record: Record


def read_table_rows(path: Path) -> Iterator[TableRow | Skipped]:
    """Yield the rows of a table, or of all tables below a directory.

    A table is JSON lines, a JSON array, CSV or Parquet, optionally compressed with gzip.
    """
    for file in _table_files(path):
        name = file.name if file == path else file.relative_to(path).as_posix()
        for row in tables.read_rows(file, name):
            if isinstance(row, Skipped):
                yield row
            elif not is_decoded(*row.record.values()):
                yield Skipped(name, "the line is not UTF-8", row.number)
            else:
                yield TableRow(name, row.number, row.record)


def is_decoded(*values: object) -> bool:
    """Return whether all the texts among the values were valid UTF-8 in their file."""
    return not any(isinstance(value, str) and _UNDECODED.search(value) for value in values)


def _table_files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    return sorted(file for file in path.rglob("*") if file.is_file() and tables.table_format(file))


def pairs_from_rows(source: PairSource, make_pair: Callable[[Record, PairSource], Pair]) -> Drafts:
    """Yield a draft for each row of the source; `make_pair` raises InvalidInput to skip a row."""
    for row in read_table_rows(source.path):
        if isinstance(row, Skipped):
            yield row
            continue

        try:
            yield Draft(make_pair(row.record, source), row.path, row.line)
        except InvalidInput as error:
            yield Skipped(row.path, error.message, row.line)


def plain_pair(record: Record, source: PairSource) -> Pair:
    """Make a pair of a row with any of `ANY_QUERY_COLUMNS` and any of `PASSAGE_COLUMNS`.

    A docstring is a query only in rows without another query. A column `source` names the package.
    """
    passage = required_text(record, PASSAGE_COLUMNS, "passage")
    # A row's own kind goes before that of its source.
    kind = next((kind for kind in KINDS if kind == record.get("kind")), source.kind)
    language = optional_text(record, ("language",))
    group = optional_text(record, ("source",))

    queries = all_texts(record, QUERY_COLUMNS)
    docstring = optional_text(record, DOCSTRING_COLUMNS)
    if docstring and not queries:
        summary = optional_text(record, ("summary",))
        pair = pair_from_docstring(passage, docstring, summary=summary, language=language)
        return replace(pair, kind=kind, group=group)

    queries = queries or (required_text(record, ANY_QUERY_COLUMNS, "query"),)
    title = optional_text(record, ("title",))
    negatives = all_texts(record, ("negatives", "negative"))
    return Pair(queries, passage, kind, language, title, negatives, group=group)


def corpus_pair(record: Record, source: PairSource) -> Pair:
    """Make a pair of a row of CodeSearchNet or CodeXGLUE AdvTest.

    CodeSearchNet has `docstring`, `code`, `language` and `partition`; its copies on data hubs have
    `func_documentation_string`, `func_code_string` and `split_name`. AdvTest searches with
    `docstring_tokens`, and its test rows keep their code in `function`.
    """
    partition = optional_text(record, ("partition", "split_name"))
    if partition and partition != source.split:
        raise InvalidInput(f"is not of the split {source.split}")

    code, docstring, language = corpus_texts(record, source.format)
    pair = pair_from_docstring(code, docstring, language=language)
    return pair if source.summaries else replace(pair, queries=(docstring,))


def corpus_texts(record: Record, form: PairFormat) -> tuple[str, str, str]:
    """Return code, docstring and language of a row of CodeSearchNet or AdvTest."""
    code = required_text(record, _CORPUS_CODE[form], "code")
    docstring = required_text(record, _CORPUS_DOCSTRINGS[form], "docstring")
    default_language = "python" if form == "advtest" else ""
    return code, docstring, optional_text(record, ("language",)) or default_language


def cosqa_pairs(source: PairSource) -> Drafts:
    """Read CoSQA: the search query is in `doc` (or `query`), `label` 1 says that `code` answers it.

    The code keeps its docstring, because the query was not taken from it. Rows without a label, as
    in the retrieval splits, count as answers. Code with label 0 is a negative of its query.
    """
    negatives: defaultdict[str, list[str]] = defaultdict(list)
    for row in read_table_rows(source.path):
        if isinstance(row, TableRow) and not _is_answer(row.record):
            rejected = negatives[fold(optional_text(row.record, _COSQA_QUERIES))]
            if len(rejected) < MAX_TEXTS_PER_PAIR:
                rejected.append(optional_text(row.record, ("code",)))

    # The second pass comes after all negatives are known, since rows stand in any order.
    for row in read_table_rows(source.path):
        if isinstance(row, Skipped):
            yield row
        elif _is_answer(row.record):
            yield _cosqa_draft(row, negatives)


def _is_answer(record: Record) -> bool:
    return str(record.get("label", 1)) not in ("0", "0.0", "False")


def _cosqa_draft(row: TableRow, negatives: Mapping[str, list[str]]) -> Draft | Skipped:
    try:
        query = required_text(row.record, _COSQA_QUERIES, "query")
        code = required_text(row.record, ("code",), "code")
    except InvalidInput as error:
        return Skipped(row.path, error.message, row.line)

    rejected = tuple(negatives.get(fold(query), ()))
    pair = Pair((query,), code, language="python", negatives=rejected)
    return Draft(pair, row.path, row.line)


def search_pairs(source: PairSource) -> Drafts:
    """Pair functions of a table with the searches of the source's split that lead to them.

    `reference` is the table of functions, in the form of `plain_pair`. A row of searches names its
    function by `function_key`. Rows whose function is not in the table are skipped.
    """
    assert source.reference is not None
    searches: defaultdict[str, list[TableRow]] = defaultdict(list)
    for row in read_table_rows(source.path):
        if isinstance(row, Skipped):
            yield row
        elif optional_text(row.record, ("split",)) == source.split:
            searches[optional_text(row.record, ("function",))].append(row)

    for draft in pairs_from_rows(replace(source, path=source.reference), plain_pair):
        if isinstance(draft, Skipped):
            continue
        # Of functions with the same code, the first one stands for all.
        for row in searches.pop(function_key(draft.pair.passage), ()):
            queries = all_texts(row.record, QUERY_COLUMNS)
            yield Draft(replace(draft.pair, queries=queries, searches=True), row.path, row.line)

    for row in chain.from_iterable(searches.values()):
        yield Skipped(row.path, "its function is not in the reference", row.line)


def function_key(code: str) -> str:
    """Return 16 hexadecimal digits that name a function: a digest of its code, without a comment."""
    return text_digest(strip_text(code)).hex()


def required_text(record: Record, columns: Sequence[str], label: str) -> str:
    """Return the first non-empty of the columns; raise InvalidInput if there is none."""
    if text := optional_text(record, columns):
        return text
    if any(isinstance(record.get(column), str) for column in columns):
        raise InvalidInput(f"the {label} is empty")

    present = ", ".join(islice(map(str, record), 20)) or "none"
    raise InvalidInput(
        f"has no {label}: looked for a column {' or '.join(columns)}, it has {present:.500}"
    )


def optional_text(record: Record, columns: Sequence[str]) -> str:
    """Return the first non-empty of the columns, or "". Lists of tokens are joined with blanks."""
    for column in columns:
        value = record.get(column)
        if isinstance(value, list):
            value = " ".join(token for token in value if isinstance(token, str))
        if isinstance(value, str) and value.strip():
            return value
    return ""


def all_texts(record: Record, columns: Sequence[str]) -> tuple[str, ...]:
    """Return all texts in the columns, whose values may be lists."""
    values = (record.get(column) for column in columns)
    items = chain.from_iterable(value if isinstance(value, list) else (value,) for value in values)
    texts = (item for item in items if isinstance(item, str) and item.strip())
    return tuple(islice(texts, MAX_TEXTS_PER_PAIR))
