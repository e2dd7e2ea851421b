import itertools
import math
from collections.abc import Mapping
from pathlib import Path

import bm25s
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from purlin.index.search.lexical import (
    K1,
    B,
    Lexical,
    LexicalBuilder,
    LexicalScores,
    Postings,
    matches,
    tokens,
    top,
)


def _index(texts: list[str], directory: Path) -> Lexical:
    builder = LexicalBuilder()
    for text in texts:
        builder.add(text)
    builder.postings().save(directory)
    return Lexical([Postings.load(directory)])


def _all_scores(lexical: Lexical, weights: Mapping[str, float]) -> LexicalScores:
    return lexical.scores(weights, np.arange(lexical.rows))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("getHTTPResponse", ["gethttprespons", "get", "http", "respons"]),
        ("read_csv", ["readcsv", "read", "csv"]),
        ("os.path.join", ["ospathjoin", "os", "path", "join"]),
        ("DDR4-3200", ["ddr43200", "ddr4", "3200", "ddr", "4"]),
        ("006R90321", ["006r90321", "006", "r", "90321"]),
        ("Foo::barBaz", ["foobarbaz", "foo", "barbaz", "bar", "baz"]),
        ("C++ and C#", ["c++", "c", "c#", "c"]),
        ("the uploads are retried", ["upload", "retri"]),
        ("Größe", ["gross"]),
        ("", []),
        ("!? -- ...", []),
    ],
)
def test_words_become_whole_and_parts(text: str, expected: list[str]) -> None:
    assert tokens(text) == expected


def test_spellings_of_a_name_share_a_token() -> None:
    wholes = {
        tokens(name)[0] for name in ("readCsv", "read_csv", "read-csv", "read.csv", "READ_CSV")
    }
    assert wholes == {"readcsv"}


@given(st.text(max_size=200))
def test_any_text_can_be_tokenized(text: str) -> None:
    text_tokens = tokens(text)
    assert all(token and len(token) <= 64 for token in text_tokens)
    spans = list(matches(text, frozenset(text_tokens)))
    assert all(0 <= start < end <= len(text) for start, end in spans)
    assert all(a[1] <= b[0] for a, b in itertools.pairwise(spans))


def test_word_of_a_megabyte_is_left_out() -> None:
    assert tokens("a" * 1_000_000) == []


def test_scores_are_shares_of_the_bm25_maximum(tmp_path: Path) -> None:
    texts = ["apple pear apple", "pear plum", "plum plum cherry fig", "grape"]
    lexical = _index(texts, tmp_path / "lexical")
    rows = [tokens(text) for text in texts]
    mean_length = np.mean([len(row) for row in rows])

    def bm25(query: list[str], row: list[str]) -> float:
        score = 0.0
        for token in query:
            df = sum(token in row_tokens for row_tokens in rows)
            idf = math.log(1 + (len(rows) - df + 0.5) / (df + 0.5))
            tf = row.count(token)
            score += idf * tf / (tf + K1 * (1 - B + B * len(row) / mean_length))
        return score

    query = ["appl", "plum", "absent"]
    weights = lexical.weights("apples plum absent plum")
    assert list(weights) == query
    most = sum(weights.values())
    assert most == pytest.approx(sum(math.log(1 + (4 - df + 0.5) / (df + 0.5)) for df in (1, 2, 0)))
    expected = [bm25(query, row) / most for row in rows]
    np.testing.assert_allclose(_all_scores(lexical, weights), expected, rtol=1e-5)
    assert sum(lexical.explain(weights, 2).values()) == pytest.approx(expected[2], rel=1e-5)
    assert set(lexical.explain(weights, 0)) == {"appl"}


TEXTS = st.lists(
    st.lists(st.sampled_from("red green blue redGreen the x_y größe 7".split()), max_size=12).map(
        " ".join
    ),
    min_size=1,
    max_size=12,
)


@given(TEXTS, st.lists(st.sampled_from(["red", "green", "blue", "7", "grey"]), min_size=1))
def test_scores_are_those_of_bm25s(texts: list[str], words: list[str]) -> None:
    # bm25s rejects texts without a token, and knows no duplicates in a query.
    corpus = [[*tokens(text), "always"] for text in texts]
    authority = bm25s.BM25(method="lucene", k1=K1, b=B)
    authority.index(corpus, show_progress=False)
    query = list(dict.fromkeys(words))
    expected = authority.get_scores([*query, "always"])

    lexical = _lexical([f"{text} always" for text in texts])
    weights = lexical.weights(" ".join([*query, "always"]))
    scores = _all_scores(lexical, weights) * sum(weights.values())
    np.testing.assert_allclose(scores, expected, rtol=1e-5, atol=1e-6)


def _lexical(texts: list[str]) -> Lexical:
    return Lexical([_postings(texts)])


def _postings(texts: list[str]) -> Postings:
    builder = LexicalBuilder()
    for text in texts:
        builder.add(text)
    return builder.postings()


@given(TEXTS, TEXTS, st.data())
def test_copied_rows_are_like_their_texts(
    first: list[str], second: list[str], data: st.DataObject
) -> None:
    parts = [(first, _postings(first)), (second, _postings(second))]
    builder, expected = LexicalBuilder(), []
    for _ in range(data.draw(st.integers(1, 4))):
        texts, postings = data.draw(st.sampled_from(parts))
        start = data.draw(st.integers(0, len(texts) - 1))
        end = data.draw(st.integers(start, len(texts)))
        if any((start < b and a < end) for p, a, b in copied_of(expected) if p is postings):
            continue
        builder.copy(postings, start, end)
        expected.append((postings, start, end, texts[start:end]))
        builder.add("red new word")
        expected.append((None, 0, 0, ["red new word"]))

    copy = builder.postings()
    whole = _postings([text for *_, texts in expected for text in texts])
    assert copy.text == whole.text
    for name in ("rows", "counts", "bounds", "lengths", "ends"):
        np.testing.assert_array_equal(getattr(copy, name), getattr(whole, name))


def copied_of(
    expected: list[tuple[Postings | None, int, int, list[str]]],
) -> list[tuple[Postings | None, int, int]]:
    return [(postings, start, end) for postings, start, end, _ in expected]


@given(TEXTS, TEXTS, st.data())
def test_segments_score_like_one_without_the_removed_rows(
    first: list[str], second: list[str], data: st.DataObject
) -> None:
    live = np.array(data.draw(st.lists(st.booleans(), min_size=len(first), max_size=len(first))))
    live = np.concatenate([live, np.ones(len(second), dtype=np.bool_)])
    parts = Lexical([_postings(first), _postings(second)], live)
    kept = [text for text, lives in zip([*first, *second], live, strict=True) if lives]
    whole = _lexical(kept)

    query = "red greens größe and the grey"
    assert parts.weights(query) == whole.weights(query)
    weights = whole.weights(query)
    assert _all_scores(parts, weights)[live].tolist() == _all_scores(whole, weights).tolist()
    assert not _all_scores(parts, weights)[~live].any()
    for row, place in zip(np.flatnonzero(live), range(len(kept)), strict=True):
        assert parts.explain(weights, int(row)) == whole.explain(weights, place)


def test_frequent_tokens_do_not_overflow() -> None:
    lexical = _lexical(["word " * 70_000, "other"])
    weights = lexical.weights("word")
    assert 0.9 < _all_scores(lexical, weights)[0] < 1
    assert lexical.explain(weights, 0)["word"] == pytest.approx(
        float(_all_scores(lexical, weights)[0])
    )


def test_query_without_known_words_scores_0(tmp_path: Path) -> None:
    lexical = _index(["one two"], tmp_path / "lexical")
    assert not _all_scores(lexical, lexical.weights("zebra")).any()
    assert not _all_scores(lexical, lexical.weights("the of")).any()


def test_texts_without_any_word_can_be_indexed(tmp_path: Path) -> None:
    lexical = _index(["", "!!"], tmp_path / "lexical")
    assert lexical.rows == 2
    assert not _all_scores(lexical, lexical.weights("word")).any()


@given(st.lists(st.sampled_from([0.0, 0.1, 0.2, 0.3, 0.9]), max_size=40), st.integers(1, 50))
def test_top_is_a_sorted_prefix(values: list[float], depth: int) -> None:
    scores = np.array(values, dtype=np.float32)
    expected = sorted((i for i, v in enumerate(values) if v > 0), key=lambda i: (-values[i], i))[
        :depth
    ]
    assert top(scores, depth).tolist() == expected


def test_highlights_are_words_or_matching_parts() -> None:
    text = "def retry_upload(fileName): uploads += 1"
    spans = matches(text, frozenset(tokens("upload name")))
    assert [text[a:b] for a, b in spans] == ["upload", "Name", "uploads"]


@pytest.mark.parametrize(
    ("text", "query", "marked"),
    [
        (
            "cafe\u0301 Stuhl weiß Tisch",
            "café stuhl weiss tisch",
            ["cafe\u0301", "Stuhl", "weiß", "Tisch"],
        ),
        ("ﬁn Straße-Nord", "fin nord", ["ﬁn", "Nord"]),
        ("½ cup", "2 cup", ["½", "cup"]),
        ("½ cup", "1 2", ["½"]),
    ],
)
def test_highlights_keep_offsets_despite_folding(text: str, query: str, marked: list[str]) -> None:
    assert [text[a:b] for a, b in matches(text, frozenset(tokens(query)))] == marked


WORDS = st.sampled_from(
    [
        "cafe\u0301",
        "Stuhl",
        "weiß",
        "½",
        "ﬁne",
        "fileName",
        "\u0301",
        "漢字",
        "℀",
        "İzmir",
        "x²",
        "한",
    ]
)


@given(
    st.lists(WORDS | st.sampled_from(" _-.") | st.characters(), max_size=20).map("".join),
    st.lists(WORDS),
)
def test_highlights_match_the_query(text: str, words: list[str]) -> None:
    query_tokens = frozenset(tokens(" ".join(words)))
    spans = list(matches(text, query_tokens))
    assert all(query_tokens.intersection(tokens(text[start:end])) for start, end in spans)
    assert all(a[1] <= b[0] for a, b in itertools.pairwise(spans))
    assert bool(spans) == bool(query_tokens.intersection(tokens(text)))
