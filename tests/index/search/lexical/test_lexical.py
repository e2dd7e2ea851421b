import contextlib
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import bm25s
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from purlin.index.search.lexical import bm25, postings
from purlin.index.search.lexical import builder as lexical_builder
from purlin.index.search.lexical.bm25 import K1, Lexical, LexicalScores, top
from purlin.index.search.lexical.builder import LexicalBuilder
from purlin.index.search.lexical.postings import B, Postings
from purlin.index.search.lexical.tokens import matches, tokens


def _postings(texts: Sequence[str], run_tokens: int = lexical_builder.RUN_TOKENS) -> Postings:
    with TemporaryDirectory() as directory:
        builder = LexicalBuilder(Path(directory), run_tokens)
        for text in texts:
            builder.add(text)
        builder.close()
        return Postings.load(Path(directory))


def _lexical(texts: Sequence[str]) -> Lexical:
    return Lexical([_postings(texts)])


def _all_scores(index: Lexical, weights: Mapping[str, float]) -> LexicalScores:
    return index.scores(weights, np.arange(index.rows))


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
        ("a list: ls -a, `grep -V` or x-a", ["list", "ls", "-a", "grep", "-V", "v", "xa", "x"]),
        ("Größe", ["gross"]),
        ("検索エンジン", ["検", "検索", "索", "エン", "ンジ", "ジン"]),
        ("ｶﾞﾗｽ 猫", ["ガラ", "ラス", "猫"]),
        ("C#入門、DDR4メモリ", ["c#", "c", "入", "入門", "門", "ddr4", "ddr", "4", "メモ", "モリ"]),
        ("한국어", ["한국", "국어"]),
        ("हिन्दी", ["हनद"]),
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


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("smørrebrød", "smorrebrod"),
        ("Łódź ŁÓDŹ", "lodz"),
        ("Straße STRAẞE", "strasse"),
        ("Ærø Œuvre cœur", "aero oeuvre coeur"),
        ("Đà Nẵng, Ísafjörður, Þór", "da nang, isafjordur, thor"),
        ("ısıtıcı Ħal ŧ ǿ", "isitici hal t o"),
    ],
)
def test_letters_that_keyboards_lack_are_searched_without(text: str, plain: str) -> None:
    assert set(tokens(plain)) <= set(tokens(text))
    assert all(map(str.isascii, tokens(text)))


@given(st.text(max_size=200))
def test_any_text_can_be_tokenized(text: str) -> None:
    text_tokens = tokens(text)
    assert all(token and len(token) <= 64 for token in text_tokens)
    spans = list(matches(text, frozenset(text_tokens)))
    assert all(0 <= start < end <= len(text) for start, end in spans)
    assert all(a[1] <= b[0] for a, b in itertools.pairwise(spans))


LINES = st.lists(
    st.sampled_from(
        [
            "read_csv(path)",
            "skies, dying: ability-hoping",
            "hoped happily; HTTPServer->Happy",
            "C++ a#b DDR4-3200 r_e_a_d",
            "relational.sizes go 42 x",
        ]
    )
    | st.text("abeilnsty_-.>:'4 ", max_size=30),
    max_size=6,
).map("\n".join)


@given(LINES, st.lists(LINES, max_size=3).map(" ".join))
def test_lines_that_are_left_out_match_nothing(text: str, query: str) -> None:
    query_tokens = frozenset(tokens(query))
    spans = list(matches(text, query_tokens))
    # Text beyond ASCII is searched whole.
    assert list(matches(f"{text}\nж", query_tokens)) == spans


ENDINGS = ["", *"s es ed ing ies ied ying y ly er ation ational ability iveness ization".split()]


@given(st.text("abcdeiklmnoprstuvwy", min_size=1, max_size=8), st.sampled_from(ENDINGS))
def test_words_begin_as_the_lines_to_search_do(beginning: str, ending: str) -> None:
    word = beginning + ending
    assert all(
        list(matches(word, frozenset([token]))) == [(0, len(word))] for token in tokens(word)
    )


def test_word_of_a_megabyte_is_left_out() -> None:
    assert tokens("a" * 1_000_000) == []


def test_scores_are_shares_of_the_bm25_maximum() -> None:
    texts = ["apple pear apple", "pear plum", "plum plum cherry fig", "grape"]
    index = _lexical(texts)
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
    weights = index.weights("apples plum absent plum")
    assert list(weights) == query
    most = sum(weights.values())
    assert most == pytest.approx(sum(math.log(1 + (4 - df + 0.5) / (df + 0.5)) for df in (1, 2, 0)))
    expected = [bm25(query, row) / most for row in rows]
    np.testing.assert_allclose(_all_scores(index, weights), expected, rtol=1e-5)
    explained = index.explain(weights, np.array([2, 0]))
    assert sum(explained[0].values()) == pytest.approx(expected[2], rel=1e-5)
    assert set(explained[1]) == {"appl"}


TEXTS = st.lists(
    st.lists(st.sampled_from("red green blue redGreen the x_y größe 7".split()), max_size=12).map(
        " ".join
    ),
    min_size=1,
    max_size=12,
)


@settings(max_examples=40)
@given(TEXTS, st.lists(st.sampled_from(["red", "green", "blue", "7", "grey"]), min_size=1))
def test_scores_are_those_of_bm25s(texts: list[str], words: list[str]) -> None:
    # bm25s rejects texts without a token, and knows no duplicates in a query.
    corpus = [[*tokens(text), "always"] for text in texts]
    authority = bm25s.BM25(method="lucene", k1=K1, b=B)
    authority.index(corpus, show_progress=False)
    query = list(dict.fromkeys(words))
    expected = authority.get_scores([*query, "always"])

    index = _lexical([f"{text} always" for text in texts])
    weights = index.weights(" ".join([*query, "always"]))
    scores = _all_scores(index, weights) * sum(weights.values())
    np.testing.assert_allclose(scores, expected, rtol=1e-5, atol=1e-6)


def files_of(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


@settings(max_examples=40)
@given(TEXTS, TEXTS, st.integers(1, 40), st.integers(1, 30), st.data())
def test_copied_rows_are_like_their_texts(
    first: list[str], second: list[str], run_tokens: int, merged: int, data: st.DataObject
) -> None:
    """The same files, whatever was copied, how long a run is, and how much is merged together."""
    with TemporaryDirectory() as directory, small_tiers() as patched:
        parts = [(first, _postings(first)), (second, _postings(second))]
        patched.setattr(lexical_builder, "_MERGED_ENTRIES", merged)
        copied: list[tuple[Postings, int, int]] = []
        expected: list[str] = []
        builder = LexicalBuilder(Path(directory, "copied"), run_tokens)
        for _ in range(data.draw(st.integers(1, 4))):
            texts, source = data.draw(st.sampled_from(parts))
            start = data.draw(st.integers(0, len(texts) - 1))
            end = data.draw(st.integers(start, len(texts)))
            if any(start < last and of < end for other, of, last in copied if other is source):
                continue
            builder.copy(source, start, end)
            builder.add("red new word")
            copied.append((source, start, end))
            expected += [*texts[start:end], "red new word"]
        builder.close()

        whole = LexicalBuilder(Path(directory, "whole"))
        for text in expected:
            whole.add(text)
        whole.close()
        assert files_of(Path(directory, "copied")) == files_of(Path(directory, "whole"))


@contextlib.contextmanager
def small_tiers() -> Iterator[pytest.MonkeyPatch]:
    """Tiers in records of few rows, groups of few tokens, and no short way for few rows."""
    with pytest.MonkeyPatch.context() as patched:
        for module in (postings, lexical_builder):
            patched.setattr(module, "LONG", 5)
            patched.setattr(module, "GROUP", 2)
        patched.setattr(postings, "TIERS", (0.2, 0.4))
        patched.setattr(bm25, "_FEW", 0)
        yield patched


def by_a_loop(
    texts: Sequence[str], live: Sequence[bool], allowed: Sequence[bool], query: str
) -> dict[int, float]:
    """Score of each allowed row that has a word of the query, from the formula."""
    rows = [tokens(text) for text in texts]
    kept = [row for row, lives in zip(rows, live, strict=True) if lives]
    mean = max(sum(map(len, kept)), 1) / len(kept)
    scores = {}
    for number, row in enumerate(rows):
        total = score = 0.0
        for token in dict.fromkeys(tokens(query)):
            df = sum(token in other for other in kept)
            idf = math.log(1 + (len(kept) - df + 0.5) / (df + 0.5))
            count = row.count(token)
            total += idf
            score += idf * count / (count + K1 * (1 - B + B * len(row) / mean))
        if live[number] and allowed[number] and score:
            scores[number] = score / total
    return scores


@settings(max_examples=40)
@given(TEXTS, TEXTS, st.integers(1, 12), st.data())
def test_first_rows_are_those_of_scoring_all(
    first: list[str], second: list[str], depth: int, data: st.DataObject
) -> None:
    """Over a base and a delta of other lengths, with removed rows and a filter."""
    texts = [*first, *(f"{text} green green red blue 7 red" for text in second)]
    flags = st.lists(st.booleans(), min_size=len(texts), max_size=len(texts))
    live = np.array(data.draw(flags))
    live[-1] = True
    allowed = np.array(data.draw(flags)) & live if data.draw(st.booleans()) else None
    query = " ".join(data.draw(st.lists(st.sampled_from("red green blue 7 x_y grey".split()))))

    with small_tiers():
        index = Lexical([_postings(first), _postings(texts[len(first) :])], live)
        weights = index.weights(query)
        rows, scores = index.search(weights, depth, allowed)

        every_row = np.arange(len(texts))
        everything = np.where(live if allowed is None else allowed, _all_scores(index, weights), 0)
        best = top(everything.astype(np.float32), depth)
        assert rows.tolist() == best.tolist()
        assert scores.tolist() == everything[best].tolist()

        expected = by_a_loop(texts, live, live if allowed is None else allowed, query)
        assert index.matching(weights, allowed).tolist() == sorted(expected)
        for row in every_row[live if allowed is None else allowed].tolist():
            assert everything[row] == pytest.approx(expected.get(row, 0.0), rel=1e-5)


def test_first_rows_of_many_are_those_of_scoring_all() -> None:
    """So many rows that frequent words have tiers, most of which are not read."""
    random = np.random.default_rng(5)
    words = np.array([f"w{number}" for number in range(200)])
    frequencies = 1 / np.arange(1, 201)
    texts = [
        " ".join(random.choice(words, random.integers(3, 40), p=frequencies / frequencies.sum()))
        for _ in range(20_000)
    ]
    base, delta = _postings(texts[:18_000]), _postings(texts[18_000:])
    live = np.ones(len(texts), dtype=np.bool_)
    live[random.choice(18_000, 2000, replace=False)] = False
    index = Lexical([base, delta], live)

    for _ in range(30):
        weights = index.weights(" ".join(random.choice(words[:60], 4)))
        for depth, allowed in ((100, None), (10, live & (random.random(len(texts)) < 0.3))):
            rows, scores = index.search(weights, depth, allowed)
            mask = live if allowed is None else allowed
            everything = np.where(mask, _all_scores(index, weights), np.float32(0))
            assert rows.tolist() == top(everything, depth).tolist()
            assert scores.tolist() == everything[rows].tolist()


def test_a_mean_length_that_changed_keeps_the_bounds() -> None:
    lengths = np.array([3, 40, 7], np.int32)
    counts = np.array([1, 5, 2], np.uint16)
    for mean in (2.0, 12.0, 90.0):
        before, after = (postings.burdens(lengths, counts, value) for value in (12.0, mean))
        assert (after >= before * min(1.0, 12.0 / mean) * (1 - 1e-6)).all()


@settings(max_examples=40)
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
    assert live[parts.search(weights, len(live))[0]].all()
    explained = whole.explain(weights, np.arange(len(kept)))
    assert parts.explain(weights, np.flatnonzero(live)) == explained


def test_postings_are_read_once_to_explain_many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    index = _lexical(["red apple", "red pear"] * 50)
    reads = []
    read = Postings.read
    monkeypatch.setattr(Postings, "read", lambda self, tier: reads.append(tier) or read(self, tier))

    explained = index.explain(index.weights("red apple"), np.arange(100))

    assert [set(each) for each in explained[:2]] == [{"red", "appl"}, {"red"}]
    assert len(reads) == 2


def test_frequent_tokens_do_not_overflow() -> None:
    index = _lexical(["word " * 70_000, "other"])
    weights = index.weights("word")
    assert 0.9 < _all_scores(index, weights)[0] < 1
    assert index.explain(weights, np.array([0]))[0]["word"] == pytest.approx(
        float(_all_scores(index, weights)[0])
    )


def test_query_without_known_words_scores_0() -> None:
    index = _lexical(["one two"])
    assert not _all_scores(index, index.weights("zebra")).any()
    assert not _all_scores(index, index.weights("the of")).any()


def test_texts_without_any_word_can_be_indexed() -> None:
    index = _lexical(["", "!!"])
    assert index.rows == 2
    assert not _all_scores(index, index.weights("word")).any()


@given(st.lists(st.sampled_from([0.0, 0.1, 0.2, 0.3, 0.9]), max_size=40), st.integers(1, 50))
def test_top_is_a_sorted_prefix(values: list[float], depth: int) -> None:
    scores = np.array(values, dtype=np.float32)
    expected = sorted((i for i, v in enumerate(values) if v > 0), key=lambda i: (-values[i], i))[
        :depth
    ]
    assert top(scores, depth).tolist() == expected


@pytest.mark.parametrize(
    ("text", "query", "marked"),
    [
        ("def retry_upload(fileName): uploads += 1", "upload name", ["upload", "Name", "uploads"]),
        ("Ærø: smørrebrød på Straße", "aero smorrebrod strasse", ["Ærø", "smørrebrød", "Straße"]),
        ("cafe\u0301 weiß Tisch", "café weiss tisch", ["cafe\u0301", "weiß", "Tisch"]),
        ("ﬁn Straße-Nord", "fin nord", ["ﬁn", "Nord"]),
        ("½ cup", "2 cup", ["½", "cup"]),
        ("½ cup", "1 2", ["½"]),
        ("高速な検索用エンジン", "検索エンジン", ["検索", "エンジン"]),
        ("ｶﾞﾗｽのかき\u3099", "ガラス かぎ", ["ｶﾞﾗｽ", "かき\u3099"]),
        ("\u1112\u1161\u11ab글로", "한글", ["\u1112\u1161\u11ab글"]),
    ],
)
def test_highlights_are_words_or_parts_despite_folding(
    text: str, query: str, marked: list[str]
) -> None:
    assert [text[a:b] for a, b in matches(text, frozenset(tokens(query)))] == marked


WORDS = st.sampled_from(
    "cafe\u0301 Stuhl weiß ½ ﬁne fileName \u0301 漢字 カタカナと \u3099 \u1161\u11ab ℀ İzmir x² 한".split()
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
