"""Reading of texts, labels and templates, and the parts of a text."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purlin.index.errors import InvalidInput, NotFound
from purlin.training.pesco.texts import (
    MAX_POOL_TEXT_CHARS,
    MAX_SENTENCES,
    TextPool,
    pool_warnings,
    read_labelled_texts,
    read_labels,
    read_pool,
    read_templates,
    remove_sentence,
    split_halves,
    split_sentences,
    words_and_pairs,
)
from tests.support.files import write_file, write_jsonl


def rows(path: Path, texts: list[str]) -> Path:
    return write_jsonl(path, ({"text": text} for text in texts))


MANY = [f"text number {number}" for number in range(40)]


@pytest.mark.parametrize("name", ["texts.jsonl", "texts.jsonl.gz", "TEXTS.JSONL", "texts.ndjson"])
def test_texts_are_stripped_and_deduplicated(tmp_path: Path, name: str) -> None:
    path = rows(tmp_path / name, [*MANY, "", "   ", f"  {MANY[3]}\n", "\ud800 lone"])
    pool = read_pool(path, labels=2, limit=1000, seed=1)
    assert pool.texts == (*MANY, "\ufffd lone")
    assert (pool.empty, pool.repeated, pool.cut, pool.beyond_limit) == (2, 1, 0, 0)
    assert str(pool) == (
        "41 different texts, 2 empty left out, 1 repeated left out, "
        "1 with \ufffd for undecoded bytes (convert the file first)"
    )


def test_plain_lines_are_texts(tmp_path: Path) -> None:
    path = write_file(tmp_path / "texts.txt", "\n".join(["", *MANY]))
    assert read_pool(path, labels=2, limit=1000, seed=1).texts == tuple(MANY)


@pytest.mark.parametrize(
    ("name", "line", "problems"),
    [
        ("a.txt", "A {}\ttext number {}", ["looks like TSV, and each line was read as a text"]),
        ("a.tsv", "A {}\ttext number {}", []),
        ("a.txt", "text <b>number</b> {}", ["40 texts have HTML tags"]),
        ("a.txt", "text number {}", []),
    ],
)
def test_what_is_hardly_meant_is_warned_of(
    tmp_path: Path, name: str, line: str, problems: list[str]
) -> None:
    header = "id\ttext\n" if "\t" in line else ""
    path = write_file(tmp_path / name, header + "\n".join(line.format(n, n) for n in range(40)))
    pool = read_pool(path, labels=2, limit=1000, seed=1)
    warnings = list(pool_warnings(pool, path, html=False))
    assert len(warnings) == len(problems)
    assert all(problem in warning for problem, warning in zip(problems, warnings, strict=True))


def test_tags_are_taken_out(tmp_path: Path) -> None:
    path = rows(tmp_path / "a.jsonl", [f"<p>{text}</p>" for text in MANY])
    pool = read_pool(path, labels=2, limit=1000, seed=1, html=True)
    assert pool.texts == tuple(MANY)
    assert list(pool_warnings(pool, path, html=True)) == []

    path.write_text('{"text": "<i>Lost</i>", "label": "delivery"}')
    labelled = read_labelled_texts(path, ["delivery"], print, html=True)
    assert labelled.texts == ("Lost",)


def test_texts_with_what_is_not_utf_8_are_counted(tmp_path: Path) -> None:
    (tmp_path / "tickets.txt").write_bytes(
        "\n".join([*MANY, "Schöne Grüße aus Köln"]).encode() + b"\nDie Gr\xf6\xdfe passt nicht"
    )
    pool = read_pool(tmp_path / "tickets.txt", labels=2, limit=1000, seed=1)
    assert pool.texts[-1] == "Die Gr\ufffd\ufffde passt nicht"
    assert str(pool).endswith(
        "different texts, 1 with \ufffd for undecoded bytes (convert the file first)"
    )


def test_rows_without_a_text_are_counted(tmp_path: Path) -> None:
    path = write_file(tmp_path / "tickets.csv", "id,text\n0,\n" + "".join(f"1,{t}\n" for t in MANY))
    assert read_pool(path, labels=2, limit=1000, seed=1) == TextPool(tuple(MANY), empty=1)


def test_long_text_is_cut(tmp_path: Path) -> None:
    pool = read_pool(
        rows(tmp_path / "texts.jsonl", [*MANY, "word " * 200_000]), labels=2, limit=1000, seed=1
    )
    assert pool.cut == 1
    assert len(pool.texts[-1]) == MAX_POOL_TEXT_CHARS


def test_sampling_depends_on_the_seed_alone(tmp_path: Path) -> None:
    path = rows(tmp_path / "texts.jsonl", MANY)
    pool = read_pool(path, labels=2, limit=35, seed=1)

    assert len(pool.texts) == 35
    assert pool.beyond_limit == 5
    assert list(pool.texts) == sorted(pool.texts, key=MANY.index)
    assert pool == read_pool(path, labels=2, limit=35, seed=1)
    assert pool != read_pool(path, labels=2, limit=35, seed=2)


@pytest.mark.parametrize(
    ("texts", "labels", "message"),
    [
        (MANY[:3], 2, "There are 3 different texts; learning 2 labels takes at least 32"),
        (["always the same"] * 50, 2, "There is 1 text (49 lines repeat one of them)"),
        (MANY, 11, "learning 11 labels takes at least 44"),
        (MANY, 500, "learning 500 labels takes at least 2,000. Give more texts"),
        ([" "], 2, "There are 0 different texts"),
    ],
)
def test_too_few_texts_are_refused(
    tmp_path: Path, texts: list[str], labels: int, message: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_pool(rows(tmp_path / "texts.jsonl", texts), labels=labels, limit=1000, seed=1)
    assert message in caught.value.message
    assert caught.value.field == "texts"


def test_labels_keep_their_order(tmp_path: Path) -> None:
    assert read_labels(write_file(tmp_path / "l.txt", "\ufeffworld\n\n science \nsports")) == (
        "world",
        "science",
        "sports",
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "labels.txt holds no rows"),
        ("\n \n", "labels.txt holds no rows"),
        ("one\n", "has 1 label; a classifier has 2 to 10,000"),
        ("one\ntwo\none\n", "The label 'one' is there twice"),
        ("one\nt\x01wo\n", r"The label 't\\x01wo' has a control character"),
        ("one\n" + "x" * 1001, "1,001 characters"),
        ("\n".join(map(str, range(10_001))), "10,001 labels"),
    ],
)
def test_invalid_labels_are_refused(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message) as caught:
        read_labels(write_file(tmp_path / "labels.txt", content))
    assert caught.value.field
    assert caught.value.field.startswith("labels")


def test_unreadable_labels_are_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        read_labels(tmp_path / "none.txt")
    (tmp_path / "labels.txt").write_bytes(b"caf\xe9\nbar\n")
    assert read_labels(tmp_path / "labels.txt") == ("café", "bar")
    (tmp_path / "labels.txt").write_bytes(b"caf\0\nbar\n")
    with pytest.raises(InvalidInput, match="UTF-8"):
        read_labels(tmp_path / "labels.txt")


def test_templates_are_read_and_checked(tmp_path: Path) -> None:
    templates = read_templates(write_file(tmp_path / "t.txt", "It is {label}.\n\n{label} news.\n"))
    assert templates == ("It is {label}.", "{label} news.")
    for content, message in (
        ("It is label.", "The template 'It is label.' has no place"),
        ("{label} or {label}", "The template '{label} or {label}' has {label} more than once"),
        ("{label} {0}", "The template '{label} {0}' has other braces"),
        ("", "no templates"),
        ("\n".join(f"{{label}} {n}" for n in range(33)), "33"),
    ):
        with pytest.raises(InvalidInput, match=re.escape(message)):
            read_templates(write_file(tmp_path / "t.txt", content))


def test_labelled_rows_are_numbered(tmp_path: Path) -> None:
    path = write_file(
        tmp_path / "dev.jsonl", '{"text": "a", "label": "two"}\n{"text": "b", "label": "one"}\n'
    )
    labelled = read_labelled_texts(path, ["one", "two"], print)

    assert labelled.texts == ("a", "b")
    assert labelled.labels == (1, 0)
    with pytest.raises(InvalidInput, match=r"Row 1 of dev\.jsonl: 'two' is none"):
        read_labelled_texts(path, ["one", "three"], print)
    with pytest.raises(InvalidInput, match="no rows"):
        read_labelled_texts(write_file(tmp_path / "empty.jsonl", ""), ["one", "three"], print)


def test_columns_of_labelled_rows_are_named(tmp_path: Path) -> None:
    rows = write_file(tmp_path / "dev.csv", "body;topic\na;two\n")
    labelled = read_labelled_texts(rows, ["one", "two"], print, column="body", label_column="topic")
    assert (labelled.texts, labelled.labels) == (("a",), (1,))
    with pytest.raises(InvalidInput, match="name one with --label-column"):
        read_labelled_texts(rows, ["one", "two"], print, column="body")


def test_labelled_rows_without_a_text_are_left_out_and_noted(tmp_path: Path) -> None:
    rows = write_file(tmp_path / "dev.csv", "text,label\n,one\na,two\n ,two\n")
    notes: list[str] = []
    labelled = read_labelled_texts(rows, ["one", "two"], notes.append)

    assert (labelled.texts, labelled.labels) == (("a",), (1,))
    assert notes == ["2 rows without a text left out: 2, 4"]
    with pytest.raises(InvalidInput, match=r"No row of dev\.csv has a text"):
        read_labelled_texts(write_file(tmp_path / "dev.csv", "text,label\n,one\n"), ["one"], print)


# -- parts of a text -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One two three. Four five six! Is it seven?", ["One two three.", "Four five six!", "Is it seven?"]),
        ("He message: 'It is over now.' Then he went.", ["He message: 'It is over now.'", "Then he went."]),
        ("A line of words\n\nanother line of words", ["A line of words", "another line of words"]),
        ("It works very well. Great! Buy it at once.", ["It works very well. Great!", "Buy it at once."]),
        ("Version 3.5 is out now", ["Version 3.5 is out now"]),
        ("", []),
    ],
)  # fmt: skip
def test_texts_are_split_into_sentences(text: str, expected: list[str]) -> None:
    assert split_sentences(text) == expected


def test_sentences_are_limited() -> None:
    assert len(split_sentences("This is a sentence. " * 1000)) == MAX_SENTENCES


TEXTS = st.text(alphabet="ab .!?\n'\")。é", max_size=60) | st.text(max_size=40)


@given(TEXTS)
def test_sentences_are_verbatim_and_in_order(text: str) -> None:
    parts = split_sentences(text)
    start = 0

    for sentence in parts:
        assert sentence.strip() == sentence != ""
        start = text.index(sentence, start) + len(sentence)
    if len(parts) < MAX_SENTENCES:
        assert [c for c in "".join(parts) if c.isalnum()] == [c for c in text if c.isalnum()]


@given(TEXTS)
def test_removing_a_sentence_keeps_the_others(text: str) -> None:
    parts = split_sentences(text)
    for sentence in parts:
        rest = remove_sentence(text, sentence)
        assert len(rest) <= len(text)
        if len(set(parts)) == len(parts) > 1 and not any(
            sentence in part for part in parts if part != sentence
        ):
            assert all(part in rest for part in parts if part != sentence)


@given(TEXTS)
def test_halves_hold_the_text(text: str) -> None:
    first, second = split_halves(text)
    if text.split():
        assert first.strip()
        assert second.strip()
    else:
        assert (first, second) == (text, text)
    if len(text.split()) > 1 and len(split_sentences(text)) < MAX_SENTENCES:
        joined = "".join(first.split() + second.split())
        assert joined == "".join(text.split())


def test_halves_end_with_a_sentence() -> None:
    assert split_halves("One two three. Four five six.") == ("One two three.", "Four five six.")
    assert split_halves("one two three four") == ("one two three", "four")
    assert split_halves("one") == ("one", "one")


def test_a_text_is_its_words_and_their_pairs() -> None:
    expected = {"don't", "buy", "it", "!", "don't buy", "buy it", "it !"}
    assert words_and_pairs("Don't buy it!") == expected


def test_hostile_text_splits_quickly() -> None:
    rng = random.Random(1)
    text = "".join(rng.choice(".\"') \n") for _ in range(MAX_POOL_TEXT_CHARS))
    assert isinstance(split_sentences(text), list)
    assert split_sentences("." * MAX_POOL_TEXT_CHARS) == ["." * MAX_POOL_TEXT_CHARS]


def test_texts_come_from_the_column_that_is_named(tmp_path: Path) -> None:
    path = write_file(tmp_path / "t.csv", "body\n" + "".join(f"{text}\n" for text in MANY))
    assert read_pool(path, labels=2, limit=1000, seed=1, column="body").texts == tuple(MANY)
    with pytest.raises(InvalidInput, match="--column"):
        read_pool(path, labels=2, limit=1000, seed=1)


def test_labels_with_wordings_are_read_and_named(tmp_path: Path) -> None:
    labels = read_labels(
        write_file(tmp_path / "labels.txt", "fault = broken | does not work\nother\n")
    )
    assert labels == ("fault = broken | does not work", "other")
    rows = write_file(tmp_path / "dev.jsonl", '{"text": "a", "label": "fault"}\n')
    assert read_labelled_texts(rows, labels, print).labels == (0,)


def test_dev_rows_need_a_label(tmp_path: Path) -> None:
    rows = write_file(tmp_path / "dev.jsonl", '{"text": "a", "label": null}\n')
    with pytest.raises(
        InvalidInput, match=r"Row 1 of dev\.jsonl has no label.* leave such rows out"
    ):
        read_labelled_texts(rows, ["one", "two"], print)
