"""Reading of texts, labels and templates, and the parts of a text."""

from __future__ import annotations

import gzip
import json
import random
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from index.errors import InvalidInput, NotFound
from training.pesco.texts import (
    MAX_CHARS,
    MAX_SENTENCES,
    halves,
    read_labelled,
    read_labels,
    read_pool,
    read_templates,
    sentences,
    without,
    words,
)


def rows(path: Path, texts: list[str]) -> Path:
    content = "".join(json.dumps({"text": text}) + "\n" for text in texts).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def listed(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


MANY = [f"text number {number}" for number in range(40)]


@pytest.mark.parametrize("name", ["texts.jsonl", "texts.jsonl.gz", "TEXTS.JSONL", "texts.ndjson"])
def test_texts_are_read_once_each_and_stripped(tmp_path: Path, name: str) -> None:
    path = rows(tmp_path / name, [*MANY, "", "   ", f"  {MANY[3]}\n", "\ud800 lone"])
    pool = read_pool(path, labels=2, limit=1000, seed=1)
    assert pool.texts == (*MANY, "? lone")
    assert (pool.empty, pool.repeated, pool.cut, pool.left) == (2, 1, 0, 0)
    assert str(pool) == "41 different texts, 2 empty left out, 1 repeated left out"


def test_plain_lines_are_texts_too(tmp_path: Path) -> None:
    path = listed(tmp_path / "texts.txt", "\n".join(["", *MANY]))
    assert read_pool(path, labels=2, limit=1000, seed=1).texts == tuple(MANY)


def test_texts_in_utf_16_are_refused(tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text("\n".join(MANY), encoding="utf-16")
    with pytest.raises(
        InvalidInput, match=r"texts.txt:1 has zero bytes, as UTF-16 has; save it as UTF-8"
    ) as found:
        read_pool(tmp_path / "texts.txt", labels=2, limit=1000, seed=1)
    assert found.value.field == "texts"


def test_a_text_of_a_megabyte_is_cut(tmp_path: Path) -> None:
    pool = read_pool(
        rows(tmp_path / "texts.jsonl", [*MANY, "word " * 200_000]), labels=2, limit=1000, seed=1
    )
    assert pool.cut == 1
    assert len(pool.texts[-1]) == MAX_CHARS


def test_of_too_many_texts_the_same_ones_are_drawn_again(tmp_path: Path) -> None:
    path = rows(tmp_path / "texts.jsonl", MANY)
    pool = read_pool(path, labels=2, limit=35, seed=1)
    assert len(pool.texts) == 35
    assert pool.left == 5
    assert list(pool.texts) == sorted(pool.texts, key=MANY.index)
    assert pool == read_pool(path, labels=2, limit=35, seed=1)
    assert pool != read_pool(path, labels=2, limit=35, seed=2)


@pytest.mark.parametrize(
    ("texts", "labels", "said"),
    [
        (MANY[:3], 2, "There are 3 different texts; learning 2 labels takes at least 32"),
        (["always the same"] * 50, 2, "There is 1 text (49 lines repeat one of them)"),
        (MANY, 11, "learning 11 labels takes at least 44"),
        ([], 2, "There are 0 different texts"),
    ],
)
def test_too_few_texts_are_refused(
    tmp_path: Path, texts: list[str], labels: int, said: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_pool(rows(tmp_path / "texts.jsonl", texts), labels=labels, limit=1000, seed=1)
    assert said in caught.value.message
    assert caught.value.field == "texts"


@pytest.mark.parametrize("line", ["[1]", '{"text": 3}', '{"txt": "a"}', "{", "[" * 100_000])
def test_a_line_that_is_no_text_is_named(tmp_path: Path, line: str) -> None:
    path = listed(tmp_path / "texts.jsonl", '{"text": "a"}\n' + line + "\n")
    with pytest.raises(InvalidInput, match=r"texts\.jsonl:2"):
        read_pool(path, labels=2, limit=1000, seed=1)


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        read_pool(tmp_path / "none.jsonl", labels=2, limit=1000, seed=1)
    (tmp_path / "bad.jsonl.gz").write_bytes(gzip.compress(b"x" * 1000)[:-20])
    with pytest.raises(InvalidInput, match="cannot be read"):
        read_pool(tmp_path / "bad.jsonl.gz", labels=2, limit=1000, seed=1)


def test_labels_keep_their_order(tmp_path: Path) -> None:
    assert read_labels(listed(tmp_path / "l.txt", "\ufeffworld\n\n science \nsports")) == (
        "world",
        "science",
        "sports",
    )


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "no labels"),
        ("\n \n", "no labels"),
        ("one\n", "has 1 label; a classifier has 2 to 10,000"),
        ("one\ntwo\none\n", "The label 'one' is the same as"),
        ("one\nt\x01wo\n", r"The label 't\\x01wo' has a control character"),
        ("one\n" + "x" * 1001, "1,001 characters"),
        ("\n".join(map(str, range(10_001))), "10,001 labels"),
    ],
)
def test_labels_that_are_refused(tmp_path: Path, content: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said) as caught:
        read_labels(listed(tmp_path / "labels.txt", content))
    assert caught.value.field
    assert caught.value.field.startswith("labels")


def test_lists_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        read_labels(tmp_path / "none.txt")
    (tmp_path / "labels.txt").write_bytes(b"caf\xe9\nbar\n")
    with pytest.raises(InvalidInput, match="UTF-8"):
        read_labels(tmp_path / "labels.txt")


def test_templates(tmp_path: Path) -> None:
    known = read_templates(listed(tmp_path / "t.txt", "It is {label}.\n\n{label} news.\n"))
    assert known == ("It is {label}.", "{label} news.")
    for content, said in (
        ("It is label.", "The template 'It is label.' has no place"),
        ("{label} or {label}", "The template '{label} or {label}' has {label} more than once"),
        ("{label} {0}", "The template '{label} {0}' has other braces"),
        ("", "no templates"),
        ("\n".join(f"{{label}} {n}" for n in range(33)), "33"),
    ):
        with pytest.raises(InvalidInput, match=re.escape(said)):
            read_templates(listed(tmp_path / "t.txt", content))


def test_rows_with_labels(tmp_path: Path) -> None:
    path = listed(
        tmp_path / "dev.jsonl", '{"text": "a", "label": "two"}\n{"text": "b", "label": "one"}\n'
    )
    known = read_labelled(path, ["one", "two"])
    assert known.texts == ("a", "b")
    assert known.labels == (1, 0)
    with pytest.raises(InvalidInput, match=r"dev\.jsonl:1: 'two' is none"):
        read_labelled(path, ["one", "three"])
    with pytest.raises(InvalidInput, match="no rows"):
        read_labelled(listed(tmp_path / "empty.jsonl", ""), ["one", "three"])


# -- parts of a text -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "One two three. Four five six! Is it seven?",
            ["One two three.", "Four five six!", "Is it seven?"],
        ),
        (
            "He said: 'It is over now.' Then he went.",
            ["He said: 'It is over now.'", "Then he went."],
        ),
        ("A line of words\n\nanother line of words", ["A line of words", "another line of words"]),
        (
            "It works very well. Great! Buy it at once.",
            ["It works very well. Great!", "Buy it at once."],
        ),
        ("Version 3.5 is out now", ["Version 3.5 is out now"]),
        ("", []),
    ],
)
def test_sentences(text: str, expected: list[str]) -> None:
    assert sentences(text) == expected


def test_few_sentences_of_a_long_text_are_looked_at() -> None:
    assert len(sentences("This is a sentence. " * 1000)) == MAX_SENTENCES


TEXTS = st.text(alphabet="ab .!?\n'\")。é", max_size=60) | st.text(max_size=40)


@settings(deadline=None)
@given(TEXTS)
def test_sentences_are_verbatim_and_in_order(text: str) -> None:
    found = sentences(text)
    start = 0
    for sentence in found:
        assert sentence.strip() == sentence != ""
        start = text.index(sentence, start) + len(sentence)
    if len(found) < MAX_SENTENCES:
        assert [c for c in "".join(found) if c.isalnum()] == [c for c in text if c.isalnum()]


@settings(deadline=None)
@given(TEXTS)
def test_a_text_without_a_sentence_has_the_others(text: str) -> None:
    found = sentences(text)
    for sentence in found:
        rest = without(text, sentence)
        assert len(rest) <= len(text)
        if len(set(found)) == len(found) > 1 and not any(
            sentence in other for other in found if other != sentence
        ):
            assert all(other in rest for other in found if other != sentence)


@settings(deadline=None)
@given(TEXTS)
def test_halves_hold_the_text(text: str) -> None:
    one, other = halves(text)
    if text.split():
        assert one.strip()
        assert other.strip()
    else:
        assert (one, other) == (text, text)
    if len(text.split()) > 1 and len(sentences(text)) < MAX_SENTENCES:
        joined = "".join(one.split() + other.split())
        assert joined == "".join(text.split())


def test_halves_end_with_a_sentence() -> None:
    assert halves("One two three. Four five six.") == ("One two three.", "Four five six.")
    assert halves("one two three four") == ("one two three", "four")
    assert halves("one") == ("one", "one")


def test_words_and_pairs() -> None:
    assert words("Don't buy it!") == {"don't", "buy", "it", "!", "don't buy", "buy it", "it !"}


def test_sentences_of_hostile_text_take_little_time() -> None:
    rng = random.Random(1)
    text = "".join(rng.choice(".\"') \n") for _ in range(MAX_CHARS))
    assert isinstance(sentences(text), list)
    assert sentences("." * MAX_CHARS) == ["." * MAX_CHARS]
