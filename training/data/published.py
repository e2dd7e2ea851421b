"""The published test sets of SANTA's tables.

AdvTest (CodeXGLUE, NL-code-search-Adv) and CodeSearchNet as cleaned for GraphCodeBERT search one
function by its documentation. ESCI ranks the products that were judged for a query, and only these,
as its publication and the paper's table 2 do.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, get_args

from purlin.index.errors import InvalidInput, NotFound
from purlin.index.records import Skipped
from purlin.training.data.judged import JudgedSet
from purlin.training.data.pairs.docstrings import without_docstring
from purlin.training.data.pairs.documents import find_file
from purlin.training.data.pairs.esci import Judgement, esci_judgements
from purlin.training.data.pairs.pair import PairSource, strip_text
from purlin.training.data.pairs.rows import TableRow, corpus_texts, read_table_rows

JudgedName = Literal["advtest", "codesearchnet", "esci"]
JUDGED_NAMES: tuple[JudgedName, ...] = get_args(JudgedName)
GAINS = {"E": 1.0, "S": 0.1, "C": 0.01, "I": 0.0}
"""The gains of ESCI's four classes, as in its publication and the paper's table 2."""


def read_judged(name: JudgedName, path: Path, split: str = "test") -> list[JudgedSet]:
    """Read a published test set, or its `split` for development; one set for each language.

    `advtest`: the file `test.jsonl` (`valid.jsonl`), or the directory that holds it. Each function
    is the only right one for its documentation, among all of the file.

    `codesearchnet`: a directory with a directory for each language, or that of one language, with
    `codebase.jsonl`, `test.jsonl` and `valid.jsonl`. Right is the function with the query's `url`.

    `esci`: as `esci_judgements` reads it, the small version in English. `split` "dev" are queries
    that training leaves out.

    All may be gzipped. Raises NotFound for a missing file, and InvalidInput for a row that cannot
    be used: measures over a part of a test set could be compared with no others.
    """
    if not path.exists():
        raise NotFound(f"There is no file or directory {path}.", field="data")

    file_name = "valid.jsonl" if split == "dev" else f"{split}.jsonl"
    if name == "advtest":
        return [_read_advtest(find_file(path, file_name) if path.is_dir() else path)]
    if name == "esci":
        return [_read_esci(path, split)]
    return [_read_language(directory, file_name) for directory in _language_directories(path)]


def _read_advtest(path: Path) -> JudgedSet:
    queries, passages = {}, {}
    for row in _rows(path):
        id_ = str(row.record.get("idx", row.record.get("url", row.line)))
        if id_ in queries:
            raise _unusable(row, f"the id {id_!r} comes twice")
        queries[id_], passages[id_] = _query_and_code(row)
    return JudgedSet(queries, passages, {id_: {id_: 1.0} for id_ in queries}, name="advtest")


def _language_directories(path: Path) -> list[Path]:
    directories = sorted(
        {file.parent for pattern in ("", "*/") for file in path.glob(f"{pattern}codebase.jsonl*")}
    )
    if not directories:
        raise NotFound(
            f"{path} has no codebase.jsonl, nor a directory for each language that has one. Make "
            "them as CodeBERT's GraphCodeBERT/codesearch describes.",
            field="data",
        )

    return directories


def _read_language(directory: Path, file_name: str) -> JudgedSet:
    passages = {
        str(row.record.get("url", "")): _query_and_code(row)[1]
        for row in _rows(find_file(directory, "codebase.jsonl"))
    }

    queries, qrels = {}, {}
    for number, row in enumerate(_rows(find_file(directory, file_name))):
        url = str(row.record.get("url", ""))
        if url not in passages:
            raise _unusable(row, f"the function {url!r} is not in codebase.jsonl")
        queries[str(number)], qrels[str(number)] = _query_and_code(row)[0], {url: 1.0}
    return JudgedSet(queries, passages, qrels, name=f"codesearchnet.{directory.name}")


def _query_and_code(row: TableRow) -> tuple[str, str]:
    """Return the whole documentation, as tokens, and the code without it."""
    try:
        code, docstring, _ = corpus_texts(row.record, "advtest")
    except InvalidInput as error:
        raise _unusable(row, error.message) from None
    return strip_text(docstring), strip_text(without_docstring(code, docstring))


def _rows(path: Path) -> Iterator[TableRow]:
    for row in read_table_rows(path):
        if isinstance(row, Skipped):
            raise _unusable(row, row.reason)
        yield row


def _unusable(row: TableRow | Skipped, reason: str) -> InvalidInput:
    return InvalidInput(
        f"{row.path}, row {row.line}: {reason}. A test set is measured whole or not at all.",
        field="data",
    )


def _read_esci(path: Path, split: str) -> JudgedSet:
    queries: dict[str, str] = {}
    passages: dict[str, str] = {}
    qrels: defaultdict[str, dict[str, float]] = defaultdict(dict)

    source = PairSource("esci", path, "product", size="small", split=split)
    for item in esci_judgements(source):
        if isinstance(item, Skipped):
            raise _unusable(item, item.reason)
        queries[item.query_id] = item.query
        qrels[item.query_id][item.product_id] = _gain(item)
        # A product without a text is a candidate too.
        passages[item.product_id] = item.passage or ""

    if not queries:
        raise InvalidInput(
            f"{path} has no judgement of the small version in English in the split {split}.",
            field="data",
        )
    candidates = {query_id: tuple(grades) for query_id, grades in qrels.items()}
    return JudgedSet(queries, passages, dict(qrels), candidates, name="esci")


def _gain(judgement: Judgement) -> float:
    try:
        return GAINS[judgement.label]
    except KeyError:
        raise InvalidInput(
            f"Query {judgement.query_id} has a label {judgement.label!r}; known are {', '.join(GAINS)}.",
            field="data",
        ) from None
