"""The ranking of a repository's code: every part against an independent loop, and in a corpus."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from purlin.index.indexing import reading
from purlin.index.records import Document, Hit, Location, SourceFile
from purlin.index.search.contracts import Details
from purlin.index.search.corpus import Corpus
from purlin.index.search.lexical.tokens import tokens
from purlin.index.search.ranking import repository
from purlin.index.search.ranking.lengths import SHORT
from purlin.index.search.ranking.repository import Evidence
from tests.support.corpora import new_corpus
from tests.support.documents import source

PATHS = [
    "lib/rack/builder.rb",
    "lib/rack/session/cookie.rb",
    "src/auth/provider.py",
    "src/ctx.py",
    "test/auth_test.py",
]
WORDS = "auth authentication session cookie context provider build ctx retry upload".split()


def document(path: str, title: str, body: str, role: str = "source") -> Document:
    fields = {"name": title.rpartition(".")[2], "path": path, "role": role, "language": "ruby"}
    location = Location(path, 1, 9)
    return Document(f"{path}::{title}", "code", title, body, location=location, fields=fields)


def details(
    titles: Sequence[str],
    paths: Sequence[str | None],
    secondary: NDArray[np.bool_],
    modules: NDArray[np.bool_],
) -> Details:
    tokens_of_paths = [" ".join(tokens((path or "").rpartition(".")[0])) for path in paths]
    tokens_of_titles = [" ".join(dict.fromkeys(tokens(title))) for title in titles]
    return Details(titles, paths, tokens_of_titles, tokens_of_paths, secondary, modules)


def evidence(
    query: str,
    paths: Sequence[str | None],
    titles: Sequence[str],
    text: Sequence[float],
    secondary: Sequence[bool] | None = None,
    named: Sequence[bool] | None = None,
) -> Evidence:
    """Evidence for documents in row order, every word of the query with the weight 1."""
    none = np.zeros(len(paths), dtype=np.bool_)
    mask = none if secondary is None else np.array(secondary)
    return repository.weigh(
        query,
        dict.fromkeys(tokens(query), 1.0),
        details(titles, paths, mask, none),
        np.array(text, np.float32),
        np.array(named) if named else none,
        set(paths).intersection,
    )


# ---- parts


def test_scores_equal_those_by_hand() -> None:
    parts = [np.array([value], np.float32) for value in (0.5, 0.4, 0.3, 0.2, 0.15, 0.25, 0.6, 0)]
    relevance = (1.0 * 0.5 + 0.6 * 0.4 + 0.15 * 0.3 + 0.3 * 0.2) / (1.0 + 0.6 + 0.15 + 0.3)
    expected = (relevance + 0.25 * (1 - relevance)) * 0.6
    np.testing.assert_allclose(Evidence(*parts).scores(), [expected], rtol=1e-6)
    assert sum(Evidence(*parts).parts(0).values()) * 0.6 == pytest.approx(expected)


@given(st.lists(st.floats(0, 1, width=32), min_size=8, max_size=8))
def test_scores_are_within_0_and_1(values: list[float]) -> None:
    scores = Evidence(*(np.array([value], np.float32) for value in values)).scores()
    assert -1e-6 <= scores[0] <= 1 + 1e-6


@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=4), st.permutations(PATHS))
def test_path_share_equals_a_loop_over_words(words: list[str], paths: list[str]) -> None:
    def matches(token: str, word: str) -> bool:
        shorter, longer = sorted((token, word), key=len)
        if token == word or (len(shorter) >= 4 and longer.startswith(shorter)):
            return True
        rest = iter(token)
        consonants = word.isalpha() and 2 <= len(word) <= 4 and not set(word) & set("aeiou")
        return (
            consonants
            and len(token) > len(word) + 1
            and token[0] == word[0]
            and all(letter in rest for letter in word)
        )

    query = " ".join(words)
    weights = dict.fromkeys(tokens(query), 1.0)
    expected = []
    for path in paths:
        path_words = tokens(path.rpartition(".")[0])
        hit = [token for token in weights if any(matches(token, word) for word in path_words)]
        expected.append((len(hit) / len(weights)) ** repository.SHARE_POWER)
    actual = evidence(query, paths, ["x"] * len(paths), [0.3] * len(paths)).path
    np.testing.assert_allclose(actual, expected, rtol=1e-5)


@given(
    st.lists(
        st.tuples(st.sampled_from([*PATHS, None]), st.floats(0, 1, width=16)),
        min_size=1,
        max_size=30,
    )
)
def test_other_hits_count_for_the_best_hit_of_a_file(rows: list[tuple[str | None, float]]) -> None:
    rows = sorted(rows, key=lambda row: -row[1])
    paths, text = [path for path, _ in rows], [score for _, score in rows]
    actual = evidence("zebra", paths, ["x"] * len(rows), text)

    # Without words in names and paths, the best hit of a file is the first one by its text.
    nearness = min(text[0] / repository.NEAR_TEXT, 1.0)
    seen: set[str] = set()
    for row, path in enumerate(paths):
        same = [score for other, score in rows if other == path and path is not None]
        expected = 0.0 if path in seen else sum(same[1:6]) / 5 * nearness
        assert actual.file[row] == pytest.approx(expected, abs=1e-5)
        seen |= {path} if path is not None else set()


def test_the_words_of_a_path_count_for_the_best_hit_of_a_file() -> None:
    paths = ["zebra.py", "zebra.py", "other.py", "zebra.py"]
    actual = evidence("zebra stripes", paths, ["x", "x", "x", "stripes"], [0.5, 0.4, 0.3, 0.5])
    assert actual.path.tolist() == pytest.approx([0.0, 0.0, 0.0, 0.5**repository.SHARE_POWER])


def test_paths_names_and_files_count_less_where_no_text_is_near() -> None:
    paths, titles = ["zebra.py", "zebra.py", "b.py"], ["stripes", "x", "stripes"]
    near = evidence("zebra stripes", paths, titles, [0.3, 0.2, 0.1])
    far = evidence("zebra stripes", paths, titles, [0.15, 0.1, 0.05])
    for part in ("path", "name"):
        np.testing.assert_allclose(getattr(far, part), getattr(near, part) / 2, rtol=1e-6)
    # The text scores of the file's other hits are half as high, too.
    np.testing.assert_allclose(far.file, near.file / 4, rtol=1e-6)
    np.testing.assert_array_equal(far.definition, near.definition)


def test_name_share_counts_the_words_of_the_title() -> None:
    titles = ["Cookie.sessionStore", "open"]
    shares = evidence("store session cookies now", ["a.py", "b.py"], titles, [0.3, 0.3]).name
    assert shares.tolist() == pytest.approx([0.75**repository.SHARE_POWER, 0.0])


@pytest.mark.parametrize(
    ("query", "title", "level"),
    [
        ("Rack::Builder", "Rack.Builder", 1.0),
        ("Rack\\Builder", "Rack.Builder", 1.0),
        ("Builder", "Rack.Builder", 0.75),
        ("builder", "Rack.Builder", 0.9 * 0.75),
        ("Other::Builder", "Rack.Builder", 0.4),
        ("Builder#run!", "Rack.Builder.run!", 0.75),
        ("list->append()", "list.append", 1.0),
        ("HTTPAdapter", "httpAdapter", 0.9),
        ("Build", "Rack.Builder", 0.0),
    ],
)
def test_a_definition_counts_by_how_it_names_the_symbol(
    query: str, title: str, level: float
) -> None:
    assert evidence(query, ["a.rb"], [title], [0.1]).definition[0] == pytest.approx(level)


def test_symbol_in_a_sentence_counts_by_its_share() -> None:
    query = "where is useCache set"
    share = len(set(tokens("useCache"))) / len(set(tokens(query)))
    definition = evidence(query, ["a.js"] * 2, ["useCache", "set"], [0.1, 0.1]).definition
    assert definition.tolist() == pytest.approx([share**2, 0.0])


def test_definition_comes_before_the_rest_of_its_file() -> None:
    rest, none = np.array([True, False]), np.array([False, False])
    parts = repository.weigh(
        "Cache",
        {"cach": 1.0},
        details(["Cache", "Cache"], ["cache.rb"] * 2, none, rest),
        np.array([0.9, 0.5], np.float32),
        np.array([True, True]),
        {"cache.rb"}.intersection,
    )
    assert parts.definition.tolist() == pytest.approx([0.9, 1.0])
    assert parts.scores()[1] == pytest.approx(1.0)


def test_definitions_of_one_name_are_in_order_of_relevance() -> None:
    parts = evidence("Cache", ["a.rb", "cache.rb", "b.rb"], ["Cache"] * 3, [0.1, 0.2, 0.3])
    assert parts.scores().tolist() == [1.0, 1.0, 1.0]
    assert parts.order().tolist() == [1, 2, 0]


def test_named_document_counts_as_defined() -> None:
    parts = evidence("operator new", ["a.cc"] * 2, ["operator new", "x"], [0.3, 0.5], None, [1, 0])
    assert parts.scores()[0] == pytest.approx(1.0)


def test_secondary_and_superseded_files_count_less() -> None:
    paths = ["main.py", "v1/main.py", "v1/only.py", "legacy/x.py", "compat.py", "tests/x.py"]
    secondary = [False] * 5 + [True]
    roles = evidence("x", paths, ["y"] * 6, [0.1] * 6, secondary).role
    assert roles.tolist() == pytest.approx([1.0, 0.5, 1.0, 0.5, 0.5, 0.5])


# ---- in a corpus


def random_sources() -> list[SourceFile]:
    """420 functions in 40 files; every fifth file is a test."""
    random = np.random.default_rng(1)
    files = []
    for number in range(40):
        path = f"{random.choice(WORDS)}/{random.choice(WORDS)}_{number}.rb"
        titles = [f"{random.choice(WORDS).title()}.{random.choice(WORDS)}{n}" for n in range(11)]
        bodies = [" ".join(random.choice(WORDS, random.integers(3, 25))) for _ in titles]
        role = "source" if number % 5 else "test"
        documents = [document(path, *pair, role=role) for pair in zip(titles, bodies, strict=True)]
        files.append(source(path, documents))
    return files


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Corpus]:
    with closing(new_corpus(tmp_path_factory.mktemp("home"), "code", random_sources())) as corpus:
        yield corpus


@settings(max_examples=20)
@given(
    st.integers(9, 90),
    st.sampled_from(["upload retry", "session cookie context", "authentication provider"]),
    st.sampled_from([None, {"role": "source"}]),
)
def test_pages_are_consistent_across_the_border(
    corpus: Corpus, k: int, query: str, filter: dict[str, str] | None
) -> None:
    whole = corpus.search(query, k=400, filter=filter).hits
    pages: list[Hit] = []
    for offset in range(0, len(whole), k):
        pages.extend(corpus.search(query, k=k, offset=offset, filter=filter).hits)
    pages = pages[: len(whole)]
    assert [hit.id for hit in pages] == [hit.id for hit in whole]
    assert [hit.score for hit in pages] == [hit.score for hit in whole]
    assert [hit.score for hit in whole] == sorted((hit.score for hit in whole), reverse=True)
    assert len(whole) > repository.DEPTH


@pytest.mark.parametrize("mode", ["hybrid", "lexical"])
def test_explanation_adds_up_to_the_score(corpus: Corpus, mode: str) -> None:
    hits = corpus.search("retry useUpload in the session", k=400, mode=mode, explain=True).hits  # type: ignore[arg-type]
    explained = [hit for hit in hits if hit.explanation and "parts" in hit.explanation]
    assert [hit.rank for hit in explained] == list(range(1, repository.DEPTH + 1))
    for hit in explained:
        assert hit.explanation is not None
        parts = sum(hit.explanation["parts"].values())
        expected = parts * hit.explanation["prior"]
        assert hit.score == pytest.approx(expected, abs=1e-4)


def test_dense_scores_are_the_cosines(corpus: Corpus) -> None:
    hits = corpus.search("upload", mode="dense", explain=True, filter={"role": "source"}).hits
    assert [hit.score for hit in hits] == [hit.scores["dense"] for hit in hits]
    assert all("parts" not in (hit.explanation or {}) for hit in hits)


def test_records_of_a_list_are_ranked_by_their_text_and_its_length(tmp_path: Path) -> None:
    records = [
        Document(f"d{n}", "code", f"f{n}", "upload " * n, location=Location(f"lib/upload{n}.py"))
        for n in range(1, 9)
    ]
    with closing(new_corpus(tmp_path, "code", [source("corpus.jsonl", records)])) as corpus:
        hits = corpus.search("upload retry", explain=True).hits
        fusion = corpus.manifest
        for hit in hits:
            share = hit.scores["lexical"] ** fusion.lexical_power
            fused = fusion.dense_weight * hit.scores["dense"] + (1 - fusion.dense_weight) * share
            [factor] = SHORT["code"].factors(np.array([len(hit.text)]))
            assert hit.score == pytest.approx(fused * factor, abs=1e-3)
            assert "parts" not in (hit.explanation or {})


def test_path_leads_to_code_without_the_words(tmp_path: Path) -> None:
    files = [
        source(path, [document(path, f"f{n}", "return the value of this thing")])
        for n, path in enumerate(["lib/cookies.rb", "lib/other.rb", "lib/more.rb"])
    ]
    with closing(new_corpus(tmp_path, "code", files)) as corpus:
        assert corpus.search("cookie storage").hits[0].location.path == "lib/cookies.rb"


def test_a_long_definition_comes_before_a_line_that_is_as_near(tmp_path: Path) -> None:
    line = document("a.rb", "x.url", "retry the upload")
    function = document("b.rb", "y.url", "retry the upload\n" + "    .\n" * 300)
    files = [source("a.rb", [line]), source("b.rb", [function])]
    with closing(new_corpus(tmp_path, "code", files)) as corpus:
        for query in ("retry the upload", "url"):
            hits = corpus.search(query).hits
            assert [hit.title for hit in hits] == ["y.url", "x.url"]
            assert hits[0].score >= hits[1].score


def test_symbols_lead_to_their_definition(tmp_path: Path) -> None:
    files = [
        source("rack.rb", [document("rack.rb", "Rack.Builder", "class")]),
        source("other.rb", [document("other.rb", "Other.Builder", "class Rack Builder")]),
        # More passages with the word than the model ranks.
        source("many.rb", [document("many.rb", f"f{n}", "builder " * 9) for n in range(400)]),
    ]
    with closing(new_corpus(tmp_path, "code", files)) as corpus:
        for query in ("Rack::Builder", "Rack.Builder", "Rack\\Builder"):
            hit = corpus.search(query).hits[0]
            assert (hit.title, hit.score) == ("Rack.Builder", 1.0)
        titles = {hit.title for hit in corpus.search("Builder", mode="lexical").hits[:2]}
        assert titles == {"Rack.Builder", "Other.Builder"}


def test_delta_ranks_as_a_full_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MOST_CHANGED", 1e9)
    monkeypatch.setattr(reading, "SMALLEST_BASE", 0)
    files = random_sources()
    # `v1/x.rb` is superseded only while there is a file `x.rb`.
    old = source("v1/upload.rb", [document("v1/upload.rb", "Upload.run", "upload retry")])
    first = source("upload.rb", [document("upload.rb", "Upload.run", "upload retry")])
    changed = source("auth.rb", [document("auth.rb", "Auth.run", "upload retry session")])

    with closing(new_corpus(tmp_path / "a", "code", [*files, old, first])):
        pass
    with (
        closing(new_corpus(tmp_path / "a", "code", [changed, *files[1:], old])) as delta,
        closing(new_corpus(tmp_path / "b", "code", [changed, *files[1:], old])) as full,
    ):
        assert len(delta.segments) == 2
        for query in ("upload retry", "Upload.run", "session provider"):
            expected = [(hit.id, hit.score) for hit in full.search(query, k=350).hits]
            assert [(hit.id, hit.score) for hit in delta.search(query, k=350).hits] == expected
