import pytest
from hypothesis import given
from hypothesis import strategies as st

from purlin.index.qa.question import folded, parse_question


@pytest.mark.parametrize(
    ("question", "answer", "echoes"),
    [
        ("mkdir -p with pathlib", "Path.mkdir(mode=0o777", True),
        ("What does Basket.save() give?", "shop.Basket.save", True),
        ("What does Basket.save() give?", "saved", False),
        ("What is n?", "n", False),
        ("", "()", False),
    ],
)
def test_a_question_echoes_an_answer_it_names(question: str, answer: str, echoes: bool) -> None:
    assert parse_question(question).echoes(answer) == echoes


def test_names_of_a_question_are_in_lower_case() -> None:
    question = parse_question("Does Str.Split take --max-splits, or 3 of them?")
    assert question.qualified_names == {"str.split"}
    assert question.names >= {"str", "split", "--max"}
    assert not question.called_names
    expected = {"str.split", "len"}
    assert parse_question("Str.split(x) or len() (the builtin)").called_names == expected
    assert question.words >= {"--max-splits", "splits", "3"}


def test_qualified_names_of_other_languages_have_dots() -> None:
    question = parse_question("What do Craft::Loom#weave and Vec::push return in C# or std:: code?")
    assert question.qualified_names == {"craft.loom.weave", "vec.push"}


def test_names_may_end_with_primes() -> None:
    assert parse_question("is foldl' stricter than the users' fold''").names >= {
        "foldl",
        "foldl'",
        "users",
        "fold''",
    }


def test_short_options_keep_their_case() -> None:
    assert parse_question("What does CP -P do, unlike cp -p?").names >= {"cp", "-P", "-p"}


@pytest.mark.parametrize(
    ("question", "asks_for_default"),
    [
        ("What does mode default to?", True),
        ("How many retries are there?", True),
        ("which argument, by default", True),
        ("Which function sorts a basket?", False),
    ],
)
def test_questions_that_ask_for_a_default(question: str, asks_for_default: bool) -> None:
    assert parse_question(question).asks_for_default == asks_for_default


@given(st.text(max_size=300))
def test_any_text_is_parsed(text: str) -> None:
    question = parse_question(text)
    assert question.text == text
    assert all(folded(name) == name for name in question.names)
