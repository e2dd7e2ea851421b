"""What a corpus promises, whatever holds its documents: this machine, Milvus Lite, or a server.

The authority is a plain loop over all documents. `make test-long` runs the tests with a server,
that of MILVUS_TEST_ADDRESS or one that it starts.
"""

from __future__ import annotations

import math
import os
import re
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from purlin.index import builds
from purlin.index.engines import hosting
from purlin.index.engines.hosting import open_corpus
from purlin.index.engines.milvus import Connection, connected
from purlin.index.errors import InvalidInput, NotFound
from purlin.index.indexing.build import build
from purlin.index.indexing.builder import Options
from purlin.index.records import Document, Location, Mode, Passage
from purlin.index.search.corpus import Corpus, Hit
from purlin.index.search.lexical.bm25 import K1
from purlin.index.search.lexical.postings import B
from purlin.index.search.lexical.tokens import tokens
from purlin.index.search.ranking.fusion import HYBRID
from purlin.index.search.ranking.lengths import SHORT
from purlin.index.search.ranking.query_log import Logged
from purlin.index.search.store.filters import Filter
from purlin.index.texts.passages import lexical_text, render
from tests.support.documents import source
from tests.support.hash_encoder import HashEncoder
from tests.support.milvus_server import Server, installed

NAME = "my-docs"
WORDS = "open close read write file socket lines bytes naïve größe DDR4-3200 os.path.join".split()
QUERIES = ["open the file", "DDR4", "größe of a socket", "title 7", "nothing known"]
FILTERS: list[Filter] = [
    {"lang": "en"},
    {"lang": ["en", 'it\'s "quoted"\\ ⟂']},
    {"year": {"gte": 2004, "lte": 2011.5}},
    {"tags": ["t1", "t2"], "checked": True},
    {"tags": {"gte": "t2"}},
    {"mixed": 7},
    {"mixed": {"gte": "a"}},
    {"big": 2**53 + 1},
    {"big": {"gte": 2**53 + 1}},
    {"year": {"lte": -5}},
    {"lang": {"not": "en"}},
    {"tags": {"not": ["t1", "t2"]}},
    {"tags": {"not": {"gte": "t2"}}},
    {"year": {"gte": 2004, "not": {"gte": 2010, "lte": 2020}}},
    {"big": {"not": 2**53 + 1}},
    {"mixed": {"not": {"gte": 3}}},
]
FIELDS = ["lang", "year", "tags", "checked", "mixed", "big"]
TEXTS = ["en", 'it\'s "quoted"\\ ⟂', '"] or row > 0 or "', "true", "t1", "n4", "", "\0", "7"]
NUMBERS = [7, 7.0, 7.5, -5, 0, -0.0, 2**53, 2**53 + 1, 2**63 - 1, -(2**63), 1e300, 2003]
BOUND = st.sampled_from([*TEXTS, *NUMBERS]) | st.integers(-10, 2040) | st.text("nt1234", max_size=3)
RANGE = st.dictionaries(st.sampled_from(["gte", "lte"]), BOUND, min_size=1)
INCLUDING = st.booleans() | BOUND | st.lists(BOUND | st.booleans(), min_size=1, max_size=4) | RANGE
CONDITION = (
    INCLUDING
    | st.builds(lambda condition: {"not": condition}, INCLUDING)
    | st.builds(lambda bounds, condition: {**bounds, "not": condition}, RANGE, INCLUDING)
)
BACKENDS = ["local", "milvus-lite", pytest.param("milvus-server", marks=pytest.mark.long)]


def documents(count: int = 40) -> list[Document]:
    random = np.random.default_rng(7)
    made = []
    for number in range(count):
        words = random.choice(WORDS, size=int(random.integers(2, 12)))
        made.append(
            Document(
                f"d{number}",
                "reference",
                f"Title {number}",
                f"{' '.join(words)}.",
                location=Location("guide.md", 2 * number + 1, 2 * number + 2, "https://e.org/#a"),
                fields={
                    "lang": ("en", "fr", 'it\'s "quoted"\\ ⟂')[number % 3],
                    "year": 2000 + number if number % 4 else -number,
                    "tags": tuple(f"t{tag}" for tag in range(number % 4)),
                    "checked": number % 2 == 0,
                    "mixed": number if number % 2 else f"n{number}",
                    "path": "guide.md",
                }
                | ({"big": 2**53 + number} if number < 5 else {}),
            )
        )
    return made


@dataclass
class Backend:
    """Where builds of a test go."""

    connection: Connection | None
    home: Path
    encoder: HashEncoder

    def build(self, made: list[Document], options: Options | None = None) -> str:
        manifest = build(
            self.home,
            NAME,
            "reference",
            [source("guide.md", made)],
            self.encoder,
            options=replace(options or Options(), engine=self.connection),
        )
        assert manifest.documents == len(made)
        return builds.current(self.home, NAME).name

    def open(self) -> Corpus:
        return open_corpus(builds.current(self.home, NAME), self.encoder)

    @property
    def has_words(self) -> bool:
        return self.connection is None or connected(self.connection).has_sparse

    @property
    def modes(self) -> list[Mode]:
        return ["dense", "hybrid", "lexical"] if self.has_words else ["dense"]


@pytest.fixture(scope="module", params=BACKENDS)
def connection(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Connection | None]:
    directory = tmp_path_factory.mktemp("milvus")
    if request.param == "local":
        yield None
    elif request.param == "milvus-lite":
        yield Connection(str(directory / "lite.db"), timeout_s=60.0)
    elif address := os.environ.get("MILVUS_TEST_ADDRESS"):
        yield Connection(address, os.environ.get("PURLIN_MILVUS_TOKEN", ""), timeout_s=60.0)
    else:
        server = Server(installed(directory / "venv"), directory)
        server.start()
        yield Connection(server.address, timeout_s=60.0)
        server.kill()


@pytest.fixture(scope="module")
def backend(connection: Connection | None, tmp_path_factory: pytest.TempPathFactory) -> Backend:
    """A corpus with one build."""
    backend = Backend(connection, tmp_path_factory.mktemp("home"), HashEncoder())
    backend.build(documents(), Options(log=[Logged("earlier words", "d3")]))
    return backend


@pytest.fixture(scope="module")
def corpus(backend: Backend) -> Iterator[Corpus]:
    with closing(backend.open()) as corpus:
        yield corpus


# ---- the authority


def fulfils(document: Document, conditions: Filter) -> bool:
    for name, condition in conditions.items():
        if isinstance(condition, dict) and "not" in condition:
            bounds = {operator: bound for operator, bound in condition.items() if operator != "not"}
            is_within = not bounds or fulfils(document, {name: bounds})
            if not is_within or fulfils(document, {name: condition["not"]}):
                return False
            continue

        field = document.fields.get(name, ())
        values = [
            str(value).lower() if isinstance(value, bool) else value
            for value in (field if isinstance(field, tuple) else (field,))
        ]
        if isinstance(condition, dict):
            fulfilled = any(within(value, condition) for value in values)
        else:
            accepted = condition if isinstance(condition, list) else [condition]
            accepted = [str(item).lower() if isinstance(item, bool) else item for item in accepted]
            if name == "mixed":
                # A number is one there, however it is written.
                texts = [item for item in accepted if isinstance(item, str)]
                accepted += [int(text) for text in texts if re.fullmatch("0|[1-9][0-9]*", text)]
            fulfilled = any(value in accepted for value in values)
        if not fulfilled:
            return False
    return True


def within(value: str | int | float, bounds: dict[str, int | float | str]) -> bool:
    comparable = all(isinstance(bound, str) == isinstance(value, str) for bound in bounds.values())
    return (
        comparable
        and ("gte" not in bounds or value >= bounds["gte"])  # type: ignore[operator]
        and ("lte" not in bounds or value <= bounds["lte"])  # type: ignore[operator]
    )


def whole(document: Document) -> Passage:
    return Passage(document.id, 0, 0, len(document.body))


def expected(
    query: str, mode: Mode, made: list[Document], allowed: list[Document]
) -> dict[str, float]:
    """Score of each allowed document."""
    encoder = HashEncoder()
    vector = encoder.encode([query], role="query")[0]
    texts = [render(document, whole(document)) for document in made]
    cosines = encoder.encode(texts, role="passage") @ vector

    counted = [Counter(tokens(lexical_text(document, whole(document)))) for document in made]
    mean = sum(counts.total() for counts in counted) / len(counted)
    idf = {}
    for token in dict.fromkeys(tokens(query)):
        df = sum(token in counts for counts in counted)
        idf[token] = math.log1p((len(made) - df + 0.5) / (df + 0.5))

    scores = {}
    fusion = HYBRID["transformer", "reference"]
    for document, counts, cosine in zip(made, counted, cosines.tolist(), strict=True):
        norm = K1 * (1 - B + B * counts.total() / mean)
        share = sum(
            weight * counts[token] / (counts[token] + norm) for token, weight in idf.items()
        )
        share /= sum(idf.values()) or 1.0
        named = query.lower() in (document.id, document.title.lower())
        if mode == "lexical" and share == 0 and not named:
            continue
        weight = {"dense": 1.0, "lexical": 0.0, "hybrid": fusion.dense_weight}[mode]
        score = weight * max(cosine, 0.0) + (1 - weight) * share**fusion.lexical_power
        if mode != "dense":
            passage = whole(document)
            score *= SHORT["reference"].factors(np.array([passage.end - passage.start]))[0]
        scores[document.id] = 1.0 if named and mode != "dense" else score
    return {document.id: scores[document.id] for document in allowed if document.id in scores}


def assert_hits(hits: tuple[Hit, ...], scores: dict[str, float]) -> None:
    """The hits are the best documents, in their order; equal scores come in any."""
    assert len({hit.document_id for hit in hits}) == len(hits)
    best = sorted(scores.values(), reverse=True)[: len(hits)]
    assert [hit.score for hit in hits] == pytest.approx(best, abs=2e-3)
    for hit in hits:
        assert hit.score == pytest.approx(scores[hit.document_id], abs=2e-3)


# ---- searches


@pytest.fixture(scope="module")
def opened(plain: Backend) -> Iterator[Corpus]:
    with closing(plain.open()) as corpus:
        yield corpus


@pytest.fixture(scope="module")
def plain(backend: Backend, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    """A corpus of the same documents without a query log."""
    plain = Backend(backend.connection, tmp_path_factory.mktemp("plain"), HashEncoder())
    plain.build(documents())
    return plain


@pytest.mark.parametrize("query", QUERIES)
def test_hits_are_those_of_a_plain_loop(plain: Backend, query: str) -> None:
    made = documents()
    with closing(plain.open()) as corpus:
        for mode in plain.modes:
            scores = expected(query, mode, made, made)
            result = corpus.search(query, k=20, mode=mode)
            assert_hits(result.hits, scores)
            assert len(result.hits) == min(20, len(scores))
            assert result.total == len(scores)
            assert result.warning is None


@pytest.mark.parametrize("conditions", FILTERS, ids=repr)
def test_filters_are_those_of_a_plain_loop(plain: Backend, conditions: Filter) -> None:
    made = documents()
    allowed = [document for document in made if fulfils(document, conditions)]
    with closing(plain.open()) as corpus:
        for mode in plain.modes:
            scores = expected("open the file", mode, made, allowed)
            result = corpus.search("open the file", k=40, mode=mode, filter=conditions)
            assert {hit.document_id for hit in result.hits} == scores.keys()
            assert_hits(result.hits, scores)
            assert result.total == len(scores)


@given(st.dictionaries(st.sampled_from(FIELDS), CONDITION, min_size=1, max_size=3))
@settings(max_examples=60)
def test_any_filter_passes_the_same_documents(opened: Corpus, conditions: Filter) -> None:
    allowed = {document.id for document in documents() if fulfils(document, conditions)}
    try:
        result = opened.search("open", k=40, mode="dense", filter=conditions)
    except InvalidInput as refused:
        reasons = "no numbers to compare|has numbers only|has numbers; give|is above the upper|must both be"
        assert re.search(reasons, refused.message)  # noqa: PT017
        return
    assert {hit.document_id for hit in result.hits} == allowed
    assert result.total == len(allowed)


@pytest.mark.parametrize(
    ("conditions", "ids"),
    [
        ({"brand": "sony"}, ["a", "b"]),
        ({"brand": ["SONY", "LÖWE"]}, ["a", "b", "c"]),
        ({"brand": " sony "}, ["a", "b"]),
        ({"brand": "bang &  olufsen"}, ["d"]),
        ({"brand": "sonya"}, []),
        ({"colour": "black"}, ["a"]),
        ({"brand": {"gte": "m", "lte": "SONY"}}, ["a", "b"]),
        ({"stock": 3, "brand": "Sony"}, ["b"]),
        ({"brand": {"not": "sony "}}, ["c", "d"]),
        ({"brand": {"gte": "m", "not": ["LÖWE", "x"]}}, ["a", "b"]),
    ],
    ids=repr,
)
def test_filters_of_products_ignore_case_and_blanks(
    shop: Corpus, conditions: Filter, ids: list[str]
) -> None:
    hits = shop.search("radio", mode="dense", filter=conditions).hits
    assert sorted(hit.id for hit in hits) == ids


@pytest.fixture(scope="module")
def shop(
    connection: Connection | None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Corpus]:
    fields = {
        "a": {"brand": "Sony", "colour": ("Black", "Red")},
        "b": {"brand": "SONY", "stock": 3},
        "c": {"brand": "Löwe", "stock": 3},
        "d": {"brand": "Bang  & Olufsen "},
    }
    made = [
        Document(id_, "product", f"Radio {id_}", "Plays.", fields=own)
        for id_, own in fields.items()
    ]
    home, encoder = tmp_path_factory.mktemp("shop"), HashEncoder()
    build(home, "shop", "product", [source("f", made)], encoder, options=Options(engine=connection))
    with closing(open_corpus(builds.current(home, "shop"), encoder)) as corpus:
        yield corpus


def test_pages_fit_together(plain: Backend) -> None:
    with closing(plain.open()) as corpus:
        mode = plain.modes[-1]
        all_hits = corpus.search("open the file", k=20, mode=mode).hits
        pages = [
            corpus.search("open the file", k=5, offset=start, mode=mode) for start in (0, 5, 10)
        ]
        assert [hit.id for page in pages for hit in page.hits] == [hit.id for hit in all_hits[:15]]


def test_hits_have_texts_fields_and_explanations(corpus: Corpus, backend: Backend) -> None:
    hit = corpus.search("open the file", mode=backend.modes[-1], explain=True).hits[0]
    document = next(item for item in documents() if item.id == hit.document_id)
    assert (hit.title, hit.text, hit.location) == (
        document.title,
        document.body,
        document.location,
    )
    assert hit.fields == document.fields
    assert hit.explanation is not None
    if backend.has_words:
        terms = hit.explanation["terms"]
        assert sum(terms.values()) == pytest.approx(hit.scores["lexical"], abs=1e-3)
        assert terms.keys() <= {"open", "file"}


def test_unknown_field_is_named(corpus: Corpus) -> None:
    with pytest.raises(InvalidInput, match=r"no filterable field 'lamg'.*'lang'"):
        corpus.search("open", mode="dense", filter={"lamg": "en"})


def test_ids_are_found_and_others_are_not(corpus: Corpus) -> None:
    assert corpus.document("d7") == documents()[7]
    assert corpus.count(["d1", "d2", "no such id"]) == 2
    with pytest.raises(NotFound, match="no such id"):
        corpus.document("no such id")
    assert corpus.document_at("guide.md", 6).id == "d2"


def test_related_documents_are_the_nearest(corpus: Corpus) -> None:
    made = documents()
    vectors = HashEncoder().encode([render(item, whole(item)) for item in made], role="passage")
    cosines = vectors @ vectors[5]
    result = corpus.related("d5", 8)
    best = np.sort(np.delete(cosines, 5))[::-1][:8]
    assert [hit.score for hit in result.hits] == pytest.approx(np.maximum(best, 0), abs=2e-3)
    assert "d5" not in {hit.document_id for hit in result.hits}
    assert result.total == len(made) - 1


def test_earlier_queries_find_their_documents(corpus: Corpus, backend: Backend) -> None:
    hits = corpus.search("earlier words", mode="dense", explain=True).hits
    logged = next(hit for hit in hits if hit.document_id == "d3")
    assert logged.scores["log"] == pytest.approx(1.0, abs=1e-3)
    assert logged.explanation is not None
    assert logged.explanation["earlier"] == "earlier words"


def test_long_documents_have_passages_and_one_hit(
    connection: Connection | None, tmp_path: Path
) -> None:
    backend = Backend(connection, tmp_path, HashEncoder())
    paragraphs = [f"Paragraph {number} has words {'größe ' * 60}." for number in range(300)]
    long = Document("long", "reference", "A \0 long one", "\n\n".join(paragraphs))
    backend.build([long, *documents(5)])
    with closing(backend.open()) as corpus:
        assert corpus.document("long") == long
        retrieved = corpus.passages("paragraph 17 has words", 12).passages
        assert len({item.passage.number for item in retrieved if item.document.id == "long"}) > 3
        for item in retrieved:
            assert item.hit.text == item.document.body[item.passage.start : item.passage.end]
        assert len(corpus.search("paragraph 17 words", mode="dense", k=6).hits) == 6


# ---- builds


def test_builds_switch_under_searches_and_roll_back(
    connection: Connection | None, tmp_path: Path
) -> None:
    backend = Backend(connection, tmp_path, HashEncoder())
    first = backend.build(documents(6))
    problems: list[str] = []
    totals: set[int] = set()
    stopped = threading.Event()

    def search() -> None:
        while not stopped.is_set():
            with closing(backend.open()) as corpus:
                result = corpus.search("open the file", k=20, mode="dense")
                totals.add(result.total)
                if len(result.hits) != result.total or corpus.manifest.documents != result.total:
                    problems.append(f"{len(result.hits)} of {result.total}")

    thread = threading.Thread(target=search)
    thread.start()
    second = backend.build(documents(9))
    stopped.set()
    thread.join()
    assert not problems
    assert 6 in totals
    assert totals <= {6, 9}

    assert hosting.roll_back(tmp_path, NAME) == first != second
    with closing(backend.open()) as corpus:
        assert corpus.build == first
        assert corpus.search("open", mode="dense").total == 6
    hosting.activate(tmp_path, NAME, second)
    with closing(backend.open()) as corpus:
        assert corpus.search("open", mode="dense").total == 9
    hosting.delete(tmp_path, NAME)
    assert builds.corpora(tmp_path) == []
