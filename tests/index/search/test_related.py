"""Documents near a document, and the document at a line of a file, against loops over all of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from purlin.index.errors import InvalidInput, NotFound
from purlin.index.records import Document, Location
from purlin.index.search.corpus import Corpus
from purlin.index.texts.passages import render, split
from tests.support.corpora import new_corpus
from tests.support.documents import functions, source
from tests.support.hash_encoder import HashEncoder

NESTED = [
    Document("a.py::A", "code", "A", "class A", location=Location("a.py", 1, 20), fields={"path": "a.py"}),
    Document("a.py::A.f", "code", "A.f", "def f", location=Location("a.py", 3, 8), fields={"path": "a.py"}),
    Document("a.py::g", "code", "g", "def g", location=Location("a.py", 25, 30), fields={"path": "a.py"}),
    Document("b.py::h", "code", "h", "def h", location=Location("b.py", 3, 8), fields={"path": "b.py"}),
]  # fmt: skip


def opened(home: Path, documents: list[Document]) -> Corpus:
    return new_corpus(home, "code", [source("all", documents)], splitter="simple")


def test_related_documents_are_those_of_a_full_comparison(tmp_path: Path) -> None:
    documents = functions(60, ["open", "file", "close", "read", "rows", "sort", "list", "merge"])
    # Tests would count less, as in a search.
    documents = [replace(document, fields={}) for document in documents]
    # Some have several passages, of different words.
    for number in range(0, 60, 7):
        body = f"{documents[number].body} " * 20 + "merge rows " * 300
        documents[number] = replace(documents[number], body=body)
    corpus, encoder = opened(tmp_path, documents), HashEncoder()
    vectors = {
        document.id: encoder.encode(
            [render(document, passage) for passage in split(document, "simple")],
            role="passage",
        ).astype(np.float16).astype(np.float32)
        for document in documents
    }  # fmt: skip
    assert max(map(len, vectors.values())) > 1
    for document in documents[:10]:
        mean = vectors[document.id].mean(axis=0)
        mean /= np.linalg.norm(mean)
        cosines = {one: float((vectors[one] @ mean).max()) for one in vectors if one != document.id}
        expected = sorted(cosines.values(), reverse=True)[:7]

        result = corpus.related(document.id, k=7)
        assert document.id not in [hit.document_id for hit in result.hits]
        hit_cosines = [cosines[hit.document_id] for hit in result.hits]
        assert hit_cosines == pytest.approx(expected, abs=1e-3)
        assert [hit.scores["dense"] for hit in result.hits] == pytest.approx(expected, abs=1e-3)
        assert result.total == len(documents) - 1
    corpus.close()


def test_a_lone_document_has_no_relatives(tmp_path: Path) -> None:
    corpus = opened(tmp_path, NESTED[:1])
    assert corpus.related("a.py::A").hits == ()
    with pytest.raises(NotFound):
        corpus.related("b")
    with pytest.raises(InvalidInput):
        corpus.related("a.py::A", k=0)
    corpus.close()


def test_what_is_near_code_is_code(tmp_path: Path) -> None:
    contents = {"a.py::f": "code", "b.py::g": "code", "notes.md::h": "docs", "c.toml::i": "config"}
    documents = [
        Document(name, "code", name, "open the file of rows", fields={"content": content})
        for name, content in contents.items()
    ]
    corpus = opened(tmp_path, documents)
    result = corpus.related("a.py::f")
    assert [hit.document_id for hit in result.hits] == ["b.py::g"]
    assert result.total == 1
    assert corpus.related("notes.md::h").hits == ()
    corpus.close()


def test_the_innermost_document_has_the_line(tmp_path: Path) -> None:
    corpus = opened(tmp_path, NESTED)
    for line in range(1, 40):
        inside = [d for d in NESTED if d.location.path == "a.py"
                  and (d.location.start_line or 0) <= line <= (d.location.end_line or 0)]  # fmt: skip
        if inside:
            assert corpus.document_at("a.py", line) == inside[-1]
        else:
            with pytest.raises(
                NotFound, match=r"nearest are (A \(1\), g \(25\)|g \(25\), A \(1\)), A.f \(3\)"
            ):
                corpus.document_at("a.py", line)
    with pytest.raises(NotFound, match="that file has none"):
        corpus.document_at("c.py", 1)
    corpus.close()
