"""Pairs from documents: sources that an index can be built from, and judged sets in BEIR's form."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from purlin.index.errors import InvalidInput, NotFound
from purlin.index.evaluation.ranking import read_qrels, read_queries
from purlin.index.records import KINDS, Document, Kind, Skipped
from purlin.index.sources import open_source
from purlin.index.texts.passages import render
from purlin.training.data.pairs.docstrings import first_sentence, pair_from_docstring
from purlin.training.data.pairs.pair import (
    MAX_TEXTS_PER_PAIR,
    MIN_WORDS,
    Draft,
    Drafts,
    Pair,
    PairSource,
)


def read_documents(kind: Kind, path: Path) -> Iterator[Document | Skipped]:
    """Yield the documents of a source, except tests, vendored and generated code.

    Comments in those say little about the code.
    """
    for file in open_source(kind, [path], secondary="leave-out"):
        if isinstance(file, Skipped):
            yield file
        else:
            yield from file.read()


def pairs_from_documents(
    source: PairSource, make_pair: Callable[[Document, PairSource], Pair]
) -> Drafts:
    """Yield a draft for each document; `make_pair` raises InvalidInput to skip one."""
    kind: Kind = source.format if source.format in KINDS else source.kind

    for document in read_documents(kind, source.path):
        if isinstance(document, Skipped):
            yield document
            continue

        if source.format == "product" and not _is_of_locale(document, source.locale):
            continue

        path = document.location.path or source.path.name
        line = document.location.start_line
        try:
            yield Draft(make_pair(document, source), path, line)
        except InvalidInput as error:
            yield Skipped(path, error.message, line)


def _is_of_locale(document: Document, locale: str | None) -> bool:
    """Tell whether a product is of a shop's locale; one that names no locale is of any."""
    return locale is None or str(document.fields.get("locale", locale)) == locale


def code_pair(document: Document, source: PairSource) -> Pair:
    """Pair a definition with its comment. Raises InvalidInput without one."""
    comment = document.summary or str(document.fields.get("docstring", ""))
    if not comment:
        raise InvalidInput("has no comment")
    return pair_from_docstring(document.body, comment, language=_language(document))


def product_pair(document: Document, source: PairSource | None = None) -> Pair:
    """Pair a product's title and description with its bullets (SANTA, A.2).

    Each bullet of `MIN_WORDS` or more is a query. In a product without such bullets the
    description is the query, and title and attributes are the passage. Raises InvalidInput
    without either.
    """
    lines = [atom for atom in document.atoms if atom.end <= len(document.summary)]
    bullets = [document.body[line.start : line.end] for line in lines]
    long_bullets = tuple(bullet for bullet in bullets if len(bullet.split()) >= MIN_WORDS)
    long_bullets = long_bullets[:MAX_TEXTS_PER_PAIR]

    description = document.summary[: lines[0].start if lines else None].strip()
    if not long_bullets and not description:
        raise InvalidInput("has neither bullets nor a description")

    # The passage must not contain its own queries, or matching words would be enough.
    body = document.body[len(document.summary) :].strip()
    if long_bullets:
        body = description
        for bullet in long_bullets:
            body = body.replace(bullet, "").strip()

    passage = render(replace(document, body=body, summary=""))
    queries = long_bullets or (description,)
    comment = "\n".join(long_bullets) or description
    return Pair(queries, passage, "product", title=document.title, comment=comment)


def reference_pair(document: Document, source: PairSource) -> Pair:
    """Pair an entry with its term and with the first sentence after its signature.

    The passage is the entry without that sentence. Raises InvalidInput if nothing remains.
    """
    # The sentence after the signature is the query; the signature stays in the passage.
    signature = str(document.fields.get("signature", ""))
    head = signature if document.body.startswith(signature) else ""

    sentence, rest = first_sentence(document.body[len(head) :])
    if not rest:
        raise InvalidInput("nothing remains after the first sentence")

    body = f"{head}\n{rest}" if head else rest
    passage = render(replace(document, body=body))
    return Pair((document.title, sentence), passage, "reference")


def beir_pairs(source: PairSource) -> Drafts:
    """Read judged queries in BEIR's form.

    A grade above 0 makes a pair; a document with a lower grade is a negative of the same query.
    """
    queries = read_queries(find_file(source.path, "queries.jsonl"))
    qrels = read_qrels(find_file(source.path, f"qrels/{source.split}.tsv"))
    judged = {document for grades in qrels.values() for document in grades}

    # Only judged documents are kept: a corpus can have millions.
    documents: dict[str, Pair] = {}
    for document in read_documents(source.kind, find_file(source.path, "corpus.jsonl")):
        if isinstance(document, Skipped):
            yield document
        elif document.id in judged:
            documents[document.id] = _pair_without_query(document)

    for query_id, grades in qrels.items():
        query = queries.get(query_id, "")
        yield from _judged_drafts(query, grades, documents, source.path.name)


def _judged_drafts(
    query: str, grades: Mapping[str, float], documents: Mapping[str, Pair], path: str
) -> Drafts:
    negatives = tuple(
        documents[id_].passage for id_, grade in grades.items() if grade <= 0 and id_ in documents
    )
    for id_, grade in grades.items():
        if grade <= 0:
            continue

        if not query:
            yield Skipped(path, "the judged query is missing")
        elif id_ not in documents:
            yield Skipped(path, "the judged document is missing")
        else:
            pair = replace(documents[id_], queries=(query,), negatives=negatives)
            yield Draft(pair, path)


def _pair_without_query(document: Document) -> Pair:
    title = document.title if document.kind == "product" else ""
    return Pair((), render(document), document.kind, _language(document), title)


def _language(document: Document) -> str:
    return str(document.fields.get("language", ""))


def find_file(directory: Path, name: str) -> Path:
    """Return a file of a set in BEIR's form, plain or gzipped. Raises NotFound."""
    for path in (directory / name, directory / f"{name}.gz"):
        if path.is_file():
            return path
    raise NotFound(f"{directory} has no {name}, which a set in BEIR's form needs.", field="path")
