from __future__ import annotations

import csv
import gzip
import json
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from index.errors import InvalidInput, NotFound, PurlinError
from index.passages import render, split
from index.records import Document, Skipped, SourceFile
from index.sources import open_source
from training.data.pairs import (
    GAINS,
    MAX_CHARS,
    MAX_TEXTS,
    PASSAGES,
    Held,
    HeldOut,
    Pair,
    PairSource,
    clean,
    first_sentence,
    load,
    read,
    remove_held_out,
    without_docstring,
)
from training.data.questions import AskedSource, read_asked
from training.dev import DevSet, read_judged

DATA = Path(__file__).parent / "data" / "pairs"
SOURCES = Path(__file__).parent / "data"


def read_all(source: PairSource) -> tuple[list[Pair], list[Skipped]]:
    found = list(read(source))
    pairs = [pair for pair in found if isinstance(pair, Pair)]
    return pairs, [skipped for skipped in found if isinstance(skipped, Skipped)]


def written(path: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


# Plain rows


def test_plain_rows_become_pairs_without_short_or_repeated_queries() -> None:
    (mean, close, reverse, mug), skipped = read_all(PairSource("pairs", DATA / "plain.jsonl"))
    assert skipped == []
    assert mean == Pair(
        (
            "Return the arithmetic mean of some numbers",
            "Return the arithmetic mean of\nsome numbers.  Empty input raises.\n\nNo weights are taken.",
        ),
        "def mean(numbers):\n    return sum(numbers) / len(numbers)",
        language="python",
        comment=mean.queries[1],
    )
    assert close.queries == ("Close stops the ring and wakes its readers.",)
    assert (reverse.language, reverse.negatives) == (
        "python",
        ("def first(items):\n    return items[0]",),
    )
    assert mug == Pair(
        ("enamel mug for camping",),
        "Harrow enamel mug, 12 oz",
        "product",
        title="Harrow enamel mug",
    )


def test_bad_rows_are_left_out_one_by_one_with_line_and_reason() -> None:
    pairs, skipped = read_all(PairSource("pairs", DATA / "bad.jsonl"))
    assert [pair.language for pair in pairs] == ["cobol"]
    assert [(found.path, found.line) for found in skipped] == [
        ("bad.jsonl", line) for line in range(1, 8)
    ]
    reasons = [found.reason for found in skipped]
    assert reasons[:4] == [
        "the passage is empty",
        "the query is empty",
        "query and passage are the same",
        "the query has fewer than 3 words and 12 characters",
    ]
    assert (
        reasons[4]
        == "has no passage: looked for a column " + " or ".join(PASSAGES) + ", it has text"
    )
    assert reasons[5].startswith("is not valid JSON")
    assert reasons[6] == "is not a JSON object"


def test_lines_that_are_not_utf8_or_too_long_are_left_out_by_number(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    huge = json.dumps(
        {"query": "a function of a megabyte", "passage": "x = 1\n" * 200_000}
    ).encode()
    long = json.dumps(
        {"query": "a function that is too long", "passage": "x" * (MAX_CHARS + 1)}
    ).encode()
    good = b'{"query": "one with\\u0000 a surrogate \\ud83d half", "passage": "it = 1\\u0000"}'
    bad = b'{"query": "caf\xe9 au lait to go", "passage": "coffee()"}'
    path.write_bytes(b"\n".join([bad, huge, good, long]))
    (pair,), skipped = read_all(PairSource("pairs", path))
    assert (pair.queries, pair.passage) == (("one with a surrogate  half",), "it = 1")
    assert {found.line: found.reason for found in skipped} == {
        1: "the line is not UTF-8",
        2: "is longer than 1,048,576 characters",
        4: "the passage is longer than 100,000 characters",
    }


def test_a_file_without_a_usable_pair_says_how_many_were_skipped_and_why_the_first(
    tmp_path: Path,
) -> None:
    path = written(
        tmp_path / "a.jsonl", [{"text": "one column only"}, {"text": "another of these"}]
    )
    with pytest.raises(
        InvalidInput, match=r"a\.jsonl has no usable pair.*2 were skipped.*line 1\): has no passage"
    ):
        list(read(PairSource("pairs", path)))
    path.write_text("")
    with pytest.raises(InvalidInput, match="holds no rows"):
        list(read(PairSource("pairs", path)))
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidInput, match="it is empty"):
        list(read(PairSource("pairs", tmp_path / "empty")))
    with pytest.raises(NotFound, match=r"none\.jsonl"):
        read(PairSource("pairs", tmp_path / "none.jsonl"))


def test_gzip_damage_and_limits(tmp_path: Path) -> None:
    rows = "".join(
        json.dumps({"query": f"the row number {n}", "passage": f"n = {n}"}) + "\n"
        for n in range(500)
    )
    whole = tmp_path / "a.jsonl.gz"
    whole.write_bytes(gzip.compress(rows.encode()))
    assert len(list(read(PairSource("pairs", whole, limit=3)))) == 3
    cut = tmp_path / "b.jsonl.gz"
    cut.write_bytes(whole.read_bytes()[:-40])
    pairs, (skipped,) = read_all(PairSource("pairs", cut))
    assert 0 < len(pairs) < 501
    assert "cannot be read from here on" in skipped.reason


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("format", "csv"),
        ("kind", "music"),
        ("weight", 0.0),
        ("weight", 101.0),
        ("weight", float("nan")),
        ("limit", 0),
        ("size", "medium"),
        ("split", "../train"),
        ("split", ""),
    ],
)
def test_a_source_refuses_what_is_out_of_range_and_names_the_field(
    field: str, value: object
) -> None:
    with pytest.raises(InvalidInput, match=field) as raised:
        PairSource(**({"format": "pairs", "path": DATA} | {field: value}))  # type: ignore[arg-type]
    assert raised.value.field == field


_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(exclude_categories=())),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
_COLUMN = st.sampled_from(
    "query queries docstring summary text passage code doc label docstring_tokens".split()
)
_TABLE = st.sampled_from(["pairs", "codesearchnet", "advtest", "cosqa", "esci"])


@settings(max_examples=150, deadline=None)
@given(
    rows=st.lists(st.dictionaries(_COLUMN | st.text(max_size=4), _JSON), max_size=4), format=_TABLE
)
def test_arbitrary_rows_yield_clean_pairs_or_reasons(
    rows: list[dict[str, Any]], format: Any
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = written(
            Path(directory) / "rows.jsonl",
            [*rows, {"query": "how to sort a list", "passage": "sorted(x)"}],
        )
        try:
            found = list(read(PairSource(format, path)))
        except InvalidInput:  # the sound row that is added makes a pair in one of the formats only
            assert format != "pairs"
            return
    for pair in (pair for pair in found if isinstance(pair, Pair)):
        assert_clean(pair)


def assert_clean(pair: Pair) -> None:
    passage = " ".join(pair.passage.split()).casefold()
    assert passage
    assert pair.queries
    for query in pair.queries:
        assert query == query.strip() != ""
        assert " ".join(query.split()).casefold() != passage
    for text in (*pair.queries, pair.passage, *pair.negatives):
        assert "\0" not in text
        text.encode()


_ANY_TEXT = st.text(st.characters(exclude_categories=())) | st.sampled_from(
    ["", " ", "A b\tC d", "a B c D", "\ud800"]
)


@given(
    queries=st.lists(_ANY_TEXT, max_size=4),
    passage=_ANY_TEXT,
    negatives=st.lists(_ANY_TEXT, max_size=3),
)
def test_cleaning_never_leaves_an_empty_or_equal_side(
    queries: list[str], passage: str, negatives: list[str]
) -> None:
    pair = Pair(tuple(queries), passage, negatives=tuple(negatives))
    try:
        cleaned = clean(pair)
    except InvalidInput:
        return
    assert_clean(cleaned)
    assert clean(cleaned) == cleaned


def test_the_number_of_queries_and_negatives_is_bounded() -> None:
    many = tuple(f"the query number {n}" for n in range(2 * MAX_TEXTS))
    cleaned = clean(Pair((*many, "x" * (MAX_CHARS + 1)), "passage", negatives=(*many, "passage")))
    assert (len(cleaned.queries), len(cleaned.negatives)) == (MAX_TEXTS, MAX_TEXTS)


# Data sets


def test_codesearchnet_files_of_a_directory_by_split_and_without_docstrings() -> None:
    pairs, skipped = read_all(PairSource("codesearchnet", DATA / "codesearchnet"))
    tide, wind, stop = pairs
    assert (tide.queries, tide.language) == (
        ("Height of the water above datum, in metres.",),
        "java",
    )
    assert wind.queries == (
        "Wind the clock by some turns.",
        "Wind the clock by some turns. Never overwinds.\n\n:param turns: how many",
    )
    assert (
        wind.passage
        == "def wind(self, turns=3):\n    self.spring = min(self.limit, self.spring + turns)"
    )
    said = "Stop the clock at once"
    assert stop == Pair(
        (said,), "def stop(self):\n    self.spring = 0", language="python", comment=said
    )
    assert skipped == [Skipped("python_train_0.jsonl", "is not of the split train", 3)]
    (tick,), _ = read_all(PairSource("codesearchnet", DATA / "codesearchnet", split="test"))
    assert tick.queries == ("Move the hands by a second.",)


def test_advtest_asks_with_the_tokens_and_takes_code_in_any_column() -> None:
    (count, moor), _ = read_all(PairSource("advtest", DATA / "advtest.jsonl"))
    said = "Count the boats in harbour"
    assert count == Pair(
        (said,), "def Func(arg_0):\n    print(len(arg_0))", language="python", comment=said
    )
    assert moor.passage == "def moor ( boat ) : pier . append ( boat )"


def test_cosqa_rejects_become_negatives_of_the_same_query() -> None:
    (ordered, rows), (empty,) = read_all(PairSource("cosqa", DATA / "cosqa.json"))
    assert ordered.queries == ("python sort dict",)
    assert '"""Order by key."""' in ordered.passage
    assert ordered.negatives == ("def keys(d):\n    return list(d)",)
    assert rows.negatives == ()
    assert empty == Skipped("cosqa.json", "the code is empty", 4)


@pytest.mark.parametrize(
    ("code", "docstring", "left"),
    [
        (
            'def f():\n    """Do it.\n\n    Now.\n    """\n    return 1',
            "Do it.\n\nNow.",
            "def f():\n    return 1",
        ),
        ("def f():\n    r'''Do it.'''", "Do it.", "def f():\n"),
        ('def f(:\n    "Do it" ;\n    broken', "Do it", "def f(:\n    broken"),
        ('x = {\n    "a": 1}', "a", 'x = {\n    "a": 1}'),
        (
            'def f():\n    "other text"\n    return 1',
            "Do it.",
            'def f():\n    "other text"\n    return 1',
        ),
        ("int f() { return 1; }", "Do it.", "int f() { return 1; }"),
        ('def f():\n    """Never closed', "Never closed", 'def f():\n    """Never closed'),
    ],
)
def test_the_docstring_literal_is_removed_and_nothing_else(
    code: str, docstring: str, left: str
) -> None:
    assert without_docstring(code, docstring) == left


# Judged queries

ESCI = [
    (1, "mug", 7, "P1", "us", "E", 1, 1, "train"),
    (2, "mug", 7, "P2", "us", "I", 1, 1, "train"),
    (3, "mug", 7, "P3", "us", "S", 1, 1, "train"),
    (4, "mug", 7, "P4", "us", "C", 0, 1, "train"),
    (5, "camping towel", 8, "P3", "us", "E", 0, 1, "train"),
    (6, "camping towel", 8, "GONE", "us", "E", 0, 1, "train"),
    (7, "taza", 9, "P1", "es", "E", 1, 1, "train"),
    (8, "tea towel", 10, "P3", "us", "E", 1, 1, "test"),
    (9, "mug", 7, "P5", "us", "E", 1, 1, "train"),
]
EXAMPLE_COLUMNS = (
    "example_id query query_id product_id product_locale esci_label small_version large_version split"
).split()
PRODUCTS = [
    (
        "P1",
        "Enamel mug",
        "<b>Steel</b> under enamel",
        "Chip proof rim of steel\nHangs on hooks",
        "Harrow",
        "Cream",
        "us",
    ),
    ("P2", "Saw", None, None, None, None, "us"),
    ("P3", "Towel", "Dries fast", None, "Harrow", None, "us"),
    ("P4", "Coffee", None, None, None, None, "us"),
    ("P5", "Tin mug", None, None, None, None, "us"),
    ("P1", "Taza de esmalte", None, None, "Harrow", None, "es"),
]
PRODUCT_COLUMNS = [
    *(
        f"product_{name}"
        for name in ("id", "title", "description", "bullet_point", "brand", "color", "locale")
    )
]


@pytest.fixture
def esci(tmp_path: Path) -> Path:
    for name, columns, rows in (
        ("examples", EXAMPLE_COLUMNS, ESCI),
        ("products", PRODUCT_COLUMNS, PRODUCTS),
    ):
        records = [dict(zip(columns, row, strict=True)) for row in rows]
        table = pyarrow.Table.from_pylist(records)
        pyarrow.parquet.write_table(table, tmp_path / f"shopping_queries_dataset_{name}.parquet")
    return tmp_path


def test_esci_exact_matches_are_pairs_and_complements_and_misses_negatives(esci: Path) -> None:
    (mug, tin, towel), (gone,) = read_all(PairSource("esci", esci))
    assert (mug.queries, mug.kind, mug.title) == (("mug",), "product", "Enamel mug")
    assert mug.passage.splitlines() == [
        *("Harrow", "Enamel mug", "Steel under enamel", "Chip proof rim of steel", "Hangs on hooks")
    ]
    assert tin.passage == "Tin mug"
    assert sorted(mug.negatives) == sorted(tin.negatives) == ["Coffee", "Saw"]
    assert (towel.queries, towel.negatives) == (("camping towel",), ())
    assert gone.reason == "the judged product 'GONE' is not there"
    assert list(GAINS.values()) == [1.0, 0.1, 0.01, 0.0]


@pytest.mark.parametrize(
    ("options", "titles"),
    [
        ({"size": "small"}, ["Enamel mug", "Tin mug"]),
        ({"split": "test"}, ["Towel"]),
        ({"locale": "es"}, ["Taza de esmalte"]),
    ],
)
def test_esci_size_split_and_locale(esci: Path, options: dict[str, Any], titles: list[str]) -> None:
    pairs, _ = read_all(PairSource("esci", esci, **options))
    assert [pair.title for pair in pairs] == titles


def test_esci_in_one_table_with_labels_in_full_and_no_split(tmp_path: Path) -> None:
    path = tmp_path / "esci.csv"
    columns = [*EXAMPLE_COLUMNS[:-1], "product_title", "product_bullet_point"]
    with path.open("w", newline="") as handle:
        table = csv.writer(handle)
        table.writerow(columns)
        table.writerow([1, "mug", 7, "P1", "us", "Exact", 0, 1, "Enamel mug", "Chip proof rim"])
        table.writerow([2, "mug", 7, "P2", "us", "Irrelevant", 0, 1, "Saw", ""])
    (pair,), _ = read_all(PairSource("esci", path))
    assert (pair.passage, pair.negatives) == ("Enamel mug\nChip proof rim", ("Saw",))
    with pytest.raises(InvalidInput, match="no usable pair"):
        list(read(PairSource("esci", path, size="small")))


def test_esci_without_its_products_or_with_a_damaged_file(esci: Path) -> None:
    products = esci / "shopping_queries_dataset_products.parquet"
    products.write_bytes(products.read_bytes()[:60])
    with pytest.raises(InvalidInput, match="cannot be read"):
        list(read(PairSource("esci", esci)))
    products.unlink()
    with pytest.raises(NotFound, match=r"no file \*products\.parquet"):
        list(read(PairSource("esci", esci)))


def test_beir_judgements_become_pairs_and_negatives() -> None:
    (flood, drain), skipped = read_all(PairSource("beir", DATA / "beir"))
    assert (flood.queries, flood.language) == (("fill deck",), "python")
    assert flood.passage.startswith("def flood(self, deck, amount):")
    assert flood.negatives == (drain.passage,)
    assert [found.reason for found in skipped] == ["the document judged is not there"]
    with pytest.raises(NotFound, match=r"no qrels/test\.tsv"):
        list(read(PairSource("beir", DATA / "beir", split="test")))


# Documents


def test_packages_are_products_with_paragraphs_and_bullets() -> None:
    (kettle, symbols, toaster), skipped = read_all(PairSource("packages", DATA / "packages.txt"))
    assert kettle.title == "kettle: watch water until it boils"
    assert kettle.queries == (
        "tells you when the water is hot enough for tea",
        "keeps a diary of all boilings",
        "works offline as well",
    )
    assert kettle.passage.splitlines() == [
        "kettle: watch water until it boils",
        "Kettle is a small daemon that watches a pot of water through a thermometer.",
        "Features:",
        "This package is part of the kitchen suite.",
    ]
    assert symbols.title.startswith("kettle-dbg")
    assert toaster.passage == "toaster: make toast"
    assert [(found.line, found.reason.partition(" (")[0]) for found in skipped] == [
        (21, "has the same description as another package"),
        (39, "has no long description of its own"),
        (42, "is no package with a description"),
    ]


def test_a_paragraph_that_many_packages_share_stays_with_the_first(tmp_path: Path) -> None:
    path = tmp_path / "all.txt"
    shared = " These are the debugging symbols."
    stanzas = [
        f"Package: p{n}\nDescription: thing {n}\n It does the thing number {n}.\n .\n{shared}\n"
        for n in range(6)
    ]
    path.write_text("\n".join([*stanzas, f"Package: p-dbg\nDescription: symbols\n{shared}\n"]))
    pairs, skipped = read_all(PairSource("packages", path))
    assert [pair.queries[0].count("debugging") for pair in pairs] == [1, 0, 0, 0, 0, 0]
    assert [found.reason[:24] for found in skipped] == ["has no long description "]


def test_functions_of_source_files_with_their_comments(tmp_path: Path) -> None:
    (tmp_path / "tide.py").write_text(
        'def height(base, span):\n    """Height of the tide. In metres.\n\n    Above datum.\n    """\n'
        "    return base + span\n"
        "\n\ndef bare():\n    return 1\n"
    )
    (tmp_path / "tide.go").write_text(
        "package tide\n\n// Height is that of the tide.\nfunc Height(base int) int {\n\treturn base\n}\n"
    )
    pairs, skipped = read_all(PairSource("code", tmp_path))
    go, python = pairs
    assert python.queries == (
        "Height of the tide.",
        "Height of the tide. In metres.\n\nAbove datum.",
    )
    assert python.passage == "def height(base, span):\n    return base + span"
    assert (go.queries, go.language) == (("Height is that of the tide.",), "go")
    assert [(found.line, found.reason) for found in skipped] == [(9, "has no comment")]
    assert python.comment == "Height of the tide. In metres.\n\nAbove datum."


def test_bullets_of_a_product_ask_and_do_not_stay_in_its_passage(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [
        {
            "id": "1",
            "title": "Enamel mug",
            "brand": "Harrow",
            "description": "Steel under enamel. Hangs on every hook",
            "bullets": ["Hangs on every hook", "Chip proof rim of steel", "12 oz"],
            "attributes": {"colour": "cream"},
        },
        {
            "id": "2",
            "title": "Towel",
            "description": "Dries in ten minutes",
            "attributes": {"size": "60 cm"},
        },
        {"id": "3", "title": "Saw"},
    ]
    (mug, towel), (saw,) = read_all(PairSource("product", written(tmp_path / "a.jsonl", rows)))
    assert mug.queries == ("Hangs on every hook", "Chip proof rim of steel")
    assert mug.passage == "Harrow\nEnamel mug\nSteel under enamel."
    assert (towel.queries, towel.passage) == (("Dries in ten minutes",), "Towel\nSize: 60 cm")
    assert (saw.reason, mug.title) == ("has neither bullets nor a description", "Enamel mug")


def test_references_ask_with_term_and_first_sentence() -> None:
    pairs, skipped = read_all(PairSource("reference", SOURCES / "reference" / "broken.html"))
    alpha = next(pair for pair in pairs if pair.queries == ("The first letter",))
    assert (alpha.passage, alpha.kind) == ("alpha\n- a vowel\n- of Greek", "reference")
    assert "nothing remains after the first sentence" in {found.reason for found in skipped}


# Evaluation sets

FLOOD = json.loads((DATA / "beir" / "corpus.jsonl").read_text().splitlines()[0])["text"]


@pytest.fixture(scope="module")
def held_out() -> HeldOut:
    return HeldOut.read([DATA / "beir"])


def matched(
    held_out: HeldOut, passage: str, query: str = "put water somewhere in here"
) -> str | None:
    return held_out.matches(Pair((query,), passage))


def test_the_same_function_is_found_whatever_its_white_space_docstring_and_comments(
    held_out: HeldOut,
) -> None:
    bare = without_docstring(FLOOD, "Fill a deck of the ship with water.")
    assert bare != FLOOD
    spaced = bare.replace("    ", "\t").replace(" = ", "=")
    commented = bare.replace("    level +=", "    # now it rises\n    level +=")
    other = FLOOD.replace("Fill a deck of the ship with water.", "Something else.")
    with_rest = f"The rest of a comment.\n{bare}"
    for passage in (FLOOD, bare, spaced, commented, other, with_rest):
        assert matched(held_out, passage) == "identical"


def test_half_a_copy_is_near_and_renamed_variables_are_another_function(held_out: HeldOut) -> None:
    lines = without_docstring(FLOOD, "Fill a deck of the ship with water.").splitlines()
    half = "\n".join([*lines[:4], "    return log(level)"])
    assert matched(held_out, half) == "near"
    renamed = FLOOD.replace("deck", "room").replace("level", "height").replace("amount", "litres")
    assert matched(held_out, renamed) is None
    assert matched(held_out, "def other(self):\n    return 1") is None


def test_shingles_must_meet_in_one_document() -> None:
    words = [f"w{n}" for n in range(40)]
    parts = [Held((" ".join(words[start : start + 16]),)) for start in (0, 12, 24)]
    whole = Pair(("some query",), " ".join(words), "product")
    assert HeldOut(parts).matches(whole) is None
    assert HeldOut([*parts, Held((" ".join(words[:25]),))]).matches(whole) == "near"


def test_documents_too_short_for_shingles_match_only_as_a_whole() -> None:
    words = "a b c d e f g h i j k l".split()
    held = HeldOut([Held((" ".join(words),))])
    assert held.matches(Pair(("q",), " ".join(words[:11]))) is None  # 4 shingles
    assert held.matches(Pair(("q",), " ".join([*words, "m"]))) == "near"
    assert held.matches(Pair(("q",), "".join(words).upper())) == "identical"


def test_only_long_queries_count(held_out: HeldOut) -> None:
    passage = "def open_the_valve(deck):\n    valves[deck].open()"
    assert matched(held_out, passage, "How do I let all the water out of one deck?") == "query"
    assert matched(held_out, passage, "fill deck") is None


def test_files_of_pairs_and_bare_corpora_are_evaluation_sets_too(tmp_path: Path) -> None:
    held = HeldOut.read([DATA / "plain.jsonl", DATA / "beir" / "corpus.jsonl"])
    assert held.documents == 4 + 3
    kept, removed = remove_held_out(
        [Pair(("x",), FLOOD), Pair(("x",), "new = 1"), Pair(("x",), "backwards")], held
    )
    assert ([pair.passage for pair in kept], removed) == (
        ["new = 1", "backwards"],
        Counter(identical=1),
    )
    with pytest.raises(NotFound, match=r"none"):
        HeldOut.read([tmp_path / "none"])
    empty = tmp_path / "set"
    empty.mkdir()
    (empty / "corpus.jsonl").write_text("\n")
    (empty / "queries.jsonl").write_text('{"_id": "1", "text": "a"}\n')
    with pytest.raises(InvalidInput, match="has no document"):
        HeldOut.read([empty])


SHORT = {"_id": "1", "title": "Ceramic mug", "text": "Red, with a handle for two fingers"}
LONG = {
    "_id": "2",
    "title": "Acme X200 wireless over-ear headphones with travel case",
    "text": "Folds flat at night.",
    "brand": "Harrow",
    "attrs": {"battery": "40 hours"},
}
BARE = {"_id": "3", "title": "Six yellow oak chairs without arms", "text": ""}


@pytest.fixture(scope="module")
def products(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("products")
    (place / "qrels").mkdir()
    written(place / "corpus.jsonl", [SHORT, LONG, BARE])
    written(place / "queries.jsonl", [{"_id": "q", "text": "mug"}])
    judged = "".join(f"q\t{number}\t1\n" for number in (1, 2, 3))
    (place / "qrels" / "train.tsv").write_text(f"query-id\tcorpus-id\tscore\n{judged}")
    return place


@pytest.mark.parametrize(("kind", "count"), [("product", 3), ("code", 2), ("reference", 3)])
def test_a_corpus_with_titles_is_recognised_as_it_is_trained_on(
    products: Path, kind: Any, count: int
) -> None:
    with pytest.raises(InvalidInput, match=f"in an evaluation set: {count} identical"):
        load([PairSource("beir", products, kind=kind)], [products])


def test_products_are_recognised_by_attributes_title_or_description(
    products: Path, tmp_path: Path
) -> None:
    rows = [
        {"title": SHORT["title"], "description": SHORT["text"]},
        {
            "title": LONG["title"],
            "description": "Folds flat at night.",
            "brand": "Harrow",
            "attributes": LONG["attrs"],
        },
        {"title": LONG["title"], "description": "What the shop next door says about it, in black"},
        {"title": "Mug", "bullets": [SHORT["text"]]},
        {"title": "Ceramic mug, blue", "description": "Blue, for two"},
        {"title": "Oak chairs", "description": "Folds flat at night."},
    ]
    path = written(tmp_path / "shop.jsonl", rows)
    (pairs,), report = load([PairSource("product", path)], [products])
    assert [pair.title for pair in pairs] == ["Ceramic mug, blue", "Oak chairs"]
    assert report.sources[0].removed == Counter(identical=3, query=1)


def test_a_short_title_alone_is_no_copy(tmp_path: Path) -> None:
    corpus = written(
        tmp_path / "corpus.jsonl", [{"_id": "1", "title": "noop", "text": "func noop() {\n}"}]
    )
    held = HeldOut.read([corpus])
    assert held.matches(Pair((), "function doNothing(\nnoop)")) is None
    assert held.matches(Pair((), "func noop() {\n}")) == "identical"


def test_rows_of_advtest_are_held_out_and_measured_on() -> None:
    held = HeldOut.read([DATA / "advtest.jsonl"])
    assert held.matches(Pair((), "def moor ( boat ) :\n  pier . append ( boat )")) == "identical"
    assert held.matches(Pair((), "def Func(arg_0):\n    return arg_0")) is None
    judged = read_judged(DevSet(name="AdvTest", format="pairs", path=DATA / "advtest.jsonl"))
    assert list(judged.queries.values()) == [
        "Count the boats in harbour and print them.",
        "Moor a boat at the pier",
    ]


def brute_force(documents: Sequence[str], passage: str) -> bool:
    def shingles(text: str) -> set[tuple[str, ...]]:
        words = text.split()
        return {tuple(words[start : start + 8]) for start in range(len(words) - 7)}

    mine = shingles(passage)
    return len(mine) >= 5 and any(
        2 * len(mine & shingles(document)) >= len(mine) for document in documents
    )


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_near_duplicates_are_those_that_counting_finds(seed: int) -> None:
    generator = np.random.default_rng(seed)
    base = [f"t{n}" for n in generator.integers(0, 4, size=60)]

    def stretch() -> str:
        start, length = generator.integers(0, 40), generator.integers(0, 30)
        noise = [f"n{n}" for n in generator.integers(0, 9, size=generator.integers(0, 12))]
        return " ".join([*base[start : start + length], *noise])

    documents = [stretch() for _ in range(4)]
    passage = stretch() + " end"
    match = HeldOut([Held((document,)) for document in documents]).matches(
        Pair((), passage, "product")
    )
    assert match == ("near" if brute_force(documents, passage) else None)


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "piece", ['"""', "/*", '"\n', "'\\\n", "#", ". ", "\n ", "a\n@", '\n"', "\\'\n"]
)
def test_no_text_takes_more_than_linear_time(piece: str, held_out: HeldOut) -> None:
    text = piece * (1_000_000 // len(piece))
    assert without_docstring(text, "Fill a deck") == text
    assert matched(held_out, f"x {text}") is None
    row = {
        "summary": "Fill a deck with water",
        "docstring": f"Fill a deck {text[:90_000]}",
        "code": "x = 1",
    }
    with tempfile.TemporaryDirectory() as directory:
        (pair,), _ = read_all(PairSource("pairs", written(Path(directory) / "a.jsonl", [row])))
    assert first_sentence(pair.comment, pair.queries[0])[0] == "Fill a deck with water"


# Everything at once


def test_load_keeps_sources_apart_and_counts_what_it_leaves_out(tmp_path: Path) -> None:
    rows = [
        {"query": "fill a deck with water", "passage": FLOOD},
        {
            "query": "how to reverse a list",
            "passage": "def backwards(items):\n    return items[::-1]",
        },
        {"query": "how to sort a list", "passage": "sorted(items)"},
        {"query": "how to sort a list", "passage": "sorted(items)"},
        {"query": "", "passage": "nothing"},
    ]
    sources = [
        PairSource("pairs", DATA / "plain.jsonl", limit=3),
        PairSource("pairs", written(tmp_path / "mine.jsonl", rows)),
    ]
    steps: list[int] = []
    (plain, mine), report = load(sources, [DATA / "beir"], steps.append)
    assert (len(plain), [pair.passage for pair in mine]) == (3, ["sorted(items)"])
    assert sum(steps) == sum(source.read for source in report.sources) == 8
    assert str(report).splitlines() == [
        "plain.jsonl (pairs): 3 pairs of 3 read, 0 repeated, 0 skipped; "
        "in an evaluation set: 0 identical, 0 nearly, 0 by their query",
        "mine.jsonl (pairs): 1 pairs of 5 read, 2 repeated, 1 skipped; "
        "in an evaluation set: 1 identical, 0 nearly, 0 by their query",
        "  1 skipped: the query is empty",
        "4 pairs; 1 removed as copies from 3 evaluation documents",
    ]


def test_load_without_evaluation_sets_and_with_nothing_left(tmp_path: Path) -> None:
    (pairs,), report = load([PairSource("beir", DATA / "beir")])
    assert (len(pairs), report.held_out) == (2, 0)
    path = written(tmp_path / "a.jsonl", [{"query": "fill a deck with water", "passage": FLOOD}])
    with pytest.raises(PurlinError, match=r"Nothing remains of .*1 identical"):
        load([PairSource("pairs", path)], [DATA / "beir"])


# Questions over references


def test_questions_by_template_come_with_the_passage_that_answers() -> None:
    pairs, _ = read_all(PairSource("templates", SOURCES / "reference"))
    assert pairs
    for pair in pairs:
        assert pair.kind == "reference"
        assert pair.queries
        assert pair.passage
    with pytest.raises(InvalidInput, match="no usable pair"):  # all entries are in the train split
        read_all(PairSource("templates", SOURCES / "reference", split="dev"))


def test_what_question_sets_ask_about_is_left_out(tmp_path: Path) -> None:
    reference = SOURCES / "reference"
    pool, asked = read_asked(AskedSource(format="templates", path=reference), {})
    entry = pool.entries[asked[0].passage]
    rows = [
        {
            "id": "1",
            "question": "which",
            "answers": ["x"],
            "entry": entry,
            "form": "a",
            "split": "test",
        }
    ]
    sets = (written(tmp_path / "set.jsonl", rows),)
    links = [{"title": "how to do it", "entry": each} for each in dict.fromkeys(pool.entries)]
    linked = written(tmp_path / "linked.jsonl", links)
    for keys in ({"format": "templates", "path": reference}, {"format": "linked", "path": linked}):
        with_set = keys | {
            "reference": reference if keys["format"] == "linked" else None,
            "leave_out": sets,
        }
        pool, asked = read_asked(AskedSource(**with_set), {})  # type: ignore[arg-type]
        assert entry not in {pool.entries[one.passage] for one in asked}
        pairs, _ = read_all(PairSource(**with_set))  # type: ignore[arg-type]
        every, _ = read_all(PairSource(**with_set | {"leave_out": ()}))  # type: ignore[arg-type]
        assert (
            0 < sum(len(pair.queries) for pair in pairs) < sum(len(pair.queries) for pair in every)
        )
    elsewhere = written(tmp_path / "other.jsonl", [rows[0] | {"entry": "no.html#where"}])
    for path, error in (
        (elsewhere, "asks about no entry"),
        (tmp_path / "none.jsonl", "no file|does not exist"),
    ):
        with pytest.raises(PurlinError, match=error):
            read_all(PairSource("templates", reference, leave_out=(path,)))
    with pytest.raises(InvalidInput, match="leave_out belongs"):
        PairSource("pairs", linked, leave_out=sets)


def test_linked_questions_lead_to_the_first_passage_of_their_entry(tmp_path: Path) -> None:
    reference = SOURCES / "reference"
    documents = [
        document
        for file in open_source("reference", [reference])
        if isinstance(file, SourceFile)
        for document in file.read()
        if isinstance(document, Document)
    ]
    document = next(document for document in documents if document.title == "loom.weave")
    entry = document.location.url
    rows = [
        {"title": "how to do it", "question": "I have tried all.", "entry": entry},
        {"title": "short", "question": "", "entry": entry},
        {"title": "elsewhere", "question": "", "entry": "no.html#where"},
    ]
    path = written(tmp_path / "linked.jsonl", rows)
    (long, short), (skipped,) = read_all(PairSource("linked", path, reference=reference))
    assert long.queries == ("how to do it", "how to do it\nI have tried all.")
    assert short.queries == ("short",)
    assert long.passage == short.passage == render(document, split(document)[0])
    assert (skipped.line, skipped.reason) == (3, "its entry is not in the reference")


def test_a_question_set_leads_to_the_passages_that_hold_the_answers(tmp_path: Path) -> None:
    reference = SOURCES / "reference"
    pool, _ = read_asked(AskedSource(format="templates", path=reference), {})
    entry = next(
        entry for entry, one in zip(pool.entries, pool.passages, strict=True) if "weave" in one.text
    )
    about = {"answers": ["weave"], "entry": entry, "form": "module", "split": "train"}
    rows = [
        {"id": "1", "question": "which", **about},
        {"id": "2", "question": "where is that", **about},
    ]
    rows += [{"id": "3", "question": "and this one", **about, "split": "dev"}]
    path = written(tmp_path / "asked.jsonl", rows)
    pairs, skipped = read_all(PairSource("questions", path, reference=reference))
    assert [pair.queries for pair in pairs] == [("which",), ("where is that",)]
    assert all("weave" in pair.passage and pair.kind == "reference" for pair in pairs)
    assert skipped == []
    known = DevSet(name="asked", path=path, format="questions", reference=reference)
    assert list(read_judged(known).queries.values()) == ["and this one"]


def test_a_reference_belongs_to_questions_that_lead_there(tmp_path: Path) -> None:
    for source in (
        {"format": "linked"},
        {"format": "questions"},
        {"format": "pairs", "reference": tmp_path},
    ):
        with pytest.raises(
            InvalidInput, match="reference belongs to the formats linked and questions"
        ):
            PairSource(path=tmp_path, **source)  # type: ignore[arg-type]
