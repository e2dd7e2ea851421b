"""Questions by template: on definitions of known shapes, on a real page, and on arbitrary documents."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from purlin.index.errors import InvalidInput, NotFound
from purlin.index.records import Document, Location, Span
from purlin.index.sources.references.html.reader import read_page
from purlin.index.sources.references.manual import documents
from purlin.training.data.templates.entries import sentence_spans
from purlin.training.data.templates.generation import Example, examples, split_of, unambiguous
from purlin.training.data.templates.rules import TEMPLATE_RULES, Rules, read_rules, third_person

DRAWS = 30  # so many that every wording is drawn

ABS = ("abs(x)", "Return the absolute value of a number. The argument may be an integer.")
RANGE = (
    "class range(stop)\nclass range(start, stop[, step])",
    "If the step argument is omitted, it defaults to 1.",
)
SAVE = (
    "shop.Basket.save(path, *, mode='w', retries=3)",
    "Write the basket to a file (as text) and return the number of bytes written, e.g. for a log.\n\n"
    "mode specifies how the file is to be opened. retries is the number of attempts that are made.\n\n"
    "Raises PermissionError if the folder is write-protected. If the basket has been sold, ValueError is raised. "
    "Returns None if the basket is empty, otherwise a number.\n\n"
    "New in version 3.2.\n\nChanged in version 3.9: Added the retries parameter.\n\n"
    "Deprecated since version 3.10: Use the new store() instead.",
)


@pytest.fixture(scope="module")
def rules() -> Rules:
    return read_rules()


def definition(
    title: str, signature: str, prose: str, directive: str = "function", url: str = ""
) -> Document:
    body = f"{signature}\n\n{prose}"
    fields = {"directive": directive, "signature": signature}
    location = Location(url=url or f"page.html#{title}")
    atoms = (Span(0, len(signature)),)
    return Document(title, "reference", title, body, location=location, fields=fields, atoms=atoms)


def wordings(document: Document, rules: Rules, form: str) -> set[tuple[str, str]]:
    """All wordings of a form, with their answers."""
    questions: set[tuple[str, str]] = set()
    for seed in range(DRAWS):
        for example in examples(document, rules, Random(seed)):
            assert document.body[example.start : example.end] == example.answer
            if example.form == form:
                questions.add((example.question, example.answer))
    return questions


def test_a_function_is_asked_for_by_what_it_returns(rules: Rules) -> None:
    questions = wordings(definition("abs", *ABS), rules, "term")
    assert ("What function returns the absolute value of a number?", "abs") in questions
    assert ("How do I get the absolute value of a number?", "abs") in questions
    assert ("name of the function that returns the absolute value of a number", "abs") in questions
    assert {answer for _, answer in questions} == {"abs"}


def test_questions_name_the_owner(rules: Rules) -> None:
    questions = {
        question for question, _ in wordings(definition("shop.Basket.save", *SAVE), rules, "term")
    }
    rest = "the basket to a file and {} the number of bytes written"
    assert "What method of shop.Basket writes " + rest.format("returns") + "?" in questions
    assert "How do I write " + rest.format("return") + "?" in questions


@pytest.mark.parametrize(
    ("prose", "question"),
    [
        ("Open the file, and close it.", "Which function opens the file, and closes it?"),
        ("Opens the file, reads it and parses all lines.", "How do I open the file, read it and parse all lines?"),
        ("Open a file to read and parse it.", "Which function opens a file to read and parse it?"),
        ("Return the name and format of a file.", "Which function returns the name and format of a file?"),
    ],
)  # fmt: skip
def test_all_verbs_of_a_sentence_agree(rules: Rules, prose: str, question: str) -> None:
    assert question in {text for text, _ in wordings(definition("f", "f()", prose), rules, "term")}


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("default value", {("mode", "'w'"), ("retries", "3")}),
        ("described default", {("specifies how the file is to be opened", "'w'"), ("the number of attempts", "3")}),
        ("parameter", {("specifies how the file is to be opened", "mode"), ("the number of attempts", "retries")}),
        ("exception", {("folder is write-protected", "PermissionError"), ("basket has been sold", "ValueError")}),
        ("conditional return", {("if the basket is empty", "None")}),
        ("version", {("save", "3.2")}),
        ("parameter version", {("retries", "3.9")}),
        ("deprecation", {("deprecated", "3.10")}),
    ],
)  # fmt: skip
def test_each_form_asks_for_its_answers_by_name(
    rules: Rules, form: str, expected: set[tuple[str, str]]
) -> None:
    questions = wordings(definition("shop.Basket.save", *SAVE), rules, form)
    assert {answer for _, answer in questions} == {answer for _, answer in expected}
    for part, answer in expected:
        texts = [question for question, accepted in questions if accepted == answer]
        assert texts
        assert all(part in text and "save" in text for text in texts)
        assert any("shop.Basket.save" in text for text in texts)


def test_a_default_in_prose_is_asked_for(rules: Rules) -> None:
    questions = wordings(definition("range", *RANGE, directive="class"), rules, "default value")
    assert ("What is the default value of the argument step in range?", "1") in questions


def test_the_default_of_a_setting_is_asked_for(rules: Rules) -> None:
    document = definition(
        "cache.SIZE", "cache.SIZE", "The size of the cache.\n\nDefault: 128 bytes.", "data"
    )
    assert ("What is the default value of cache.SIZE?", "128 bytes") in wordings(
        document, rules, "default setting"
    )


def test_the_returned_value_is_asked_for_where_it_is_stated(rules: Rules) -> None:
    assert ("What does abs return?", "the absolute value of a number") in wordings(
        definition("abs", *ABS), rules, "return value"
    )
    unsure = definition("isdigit", "isdigit(s)", "Return True if all characters are digits.")
    assert not wordings(unsure, rules, "return value")
    assert ("How do I check whether all characters are digits?", "isdigit") in wordings(
        unsure, rules, "term"
    )


def test_field_lists_tell_types_parameters_and_exceptions(rules: Rules) -> None:
    prose = (
        "Open a shop.\n\nParameters:\n\n- size (int) – The number of shelves that the shop has.\n"
        "- name (str) – Control what is written over its door.\n\nReturn type: Shop\n\n"
        "Raises: OSError – If there is no room left."
    )
    document = definition("shop.open", "shop.open(size, name)", prose)
    assert {answer for _, answer in wordings(document, rules, "parameter type")} == {"int", "str"}
    assert ("What type does shop.open return?", "Shop") in wordings(document, rules, "return type")
    assert (
        "Which parameter of shop.open controls what is written over its door?",
        "name",
    ) in wordings(document, rules, "parameter")
    assert {answer for _, answer in wordings(document, rules, "exception")} == {"OSError"}


@pytest.mark.parametrize(
    ("directive", "title", "signature", "prose", "question"),
    [
        ("exception", "Full", "exception Full", "Raised when the box is full.", "Which exception is raised when"),
        ("attribute", "Box.size", "size", "The number of things in the box.", "Which attribute of Box is the number"),
        ("data", "io.SIZE", "io.SIZE", "Holds the size of a page in bytes.", "Which constant in io holds the size"),
        ("data", "io.size", "io.size", "Holds the size of a page in bytes.", "Which variable in io holds the size"),
        ("function", "io.box", "@io.box", "Mark a function as a box.", "Which decorator in io marks a function"),
        ("function", "Box.put", "Box.put(x)", "Put x into the given box.", "Which method of Box puts x into"),
        ("option", "--all", "--all", "Print all lines of the file.", "Which option prints all lines"),
        ("unknown", "Box", "Box", "Prints all lines of the file.", "What prints all lines of the file?"),
    ],
)  # fmt: skip
def test_the_noun_fits_the_kind_of_entry(
    rules: Rules, directive: str, title: str, signature: str, prose: str, question: str
) -> None:
    questions = wordings(definition(title, signature, prose, directive), rules, "term")
    assert [text for text, _ in questions if text.startswith(question)]
    assert {answer for _, answer in questions} == {
        signature.removeprefix("exception ").removeprefix("@").partition("(")[0]
    }


@pytest.mark.parametrize(
    "prose",
    [
        "The argument is a number.",  # a sentence, no noun phrase
        "Return this number.",
        "Set of all numbers that are prime.",
        "Return the number that _get_number() returned.",
        "Return the number (which may",
        "Is it a number?",
        "Return it.",
        "Return " + "very " * 40 + "much.",
        "",
    ],
)
def test_unclear_descriptions_give_no_question(rules: Rules, prose: str) -> None:
    assert not wordings(definition("_get_number", "_get_number()", prose), rules, "term")


def test_modules_are_asked_for_by_their_synopsis(rules: Rules) -> None:
    body = "Source code: Lib/json.py\n\nThe json module reads and writes JSON."
    fields = {"directive": "section"}
    document = Document("json", "reference", "json — JSON encoder and decoder", body, fields=fields)
    questions = wordings(document, rules, "module")
    assert ("Which module is for JSON encoder and decoder?", "json") in questions
    (start,) = {example.start for example in examples(document, rules, Random(1))}
    assert body[start:].startswith("json module")


def test_a_real_page_from_html_to_questions(rules: Rules) -> None:
    html = (
        '<h1>Shop</h1><dl class="py method"><dt class="sig sig-object py" id="shop.Basket.add">'
        '<span class="sig-prename descclassname">shop.Basket.</span><span class="sig-name descname">add</span>('
        "<em>thing</em>, <em>count=1</em>)</dt>"
        "<dd><p>Put a thing into the basket.</p></dd></dl>"
    )
    questions = [
        example
        for document in documents(read_page(html), "shop.html")
        for example in examples(document, rules, Random(0))
    ]
    assert {example.entry for example in questions} == {"shop.html#shop.Basket.add"}
    expected = {("term", "shop.Basket.add"), ("default value", "1")}
    assert {(example.form, example.answer) for example in questions} == expected


@pytest.mark.parametrize(
    "piece", ["(", "[", "a=[", "'", "a='", ",", "a,", "f(a=(", ")", "]", "raise raises Aa"]
)
def test_long_definitions_take_no_time(rules: Rules, piece: str) -> None:
    signature = "f(" + piece * 50_000
    started = time.process_time()
    list(examples(definition("f", signature, piece * 50_000), rules, Random(0)))
    assert time.process_time() - started < 5


def test_sentences_end_where_they_should() -> None:
    text = "Use os.path, e.g. join(). See 3.11: it is new; good\nNext (one.) Last"
    spans = sentence_spans(text, Span(0, len(text)))
    assert "|".join(text[span.start : span.end] for span in spans) == (
        "Use os.path, e.g. join()|See 3.11|it is new|good|Next (one|) Last"
    )


def test_verbs_take_the_third_person() -> None:
    verbs = "return push copy play do pass fix match".split()
    third = "returns pushes copies plays does passes fixes matches".split()
    assert [third_person(verb) for verb in verbs] == third


def test_splits_are_eight_to_one_to_one() -> None:
    counts = Counter(split_of(f"page.html#{number}") for number in range(10_000))
    assert 7800 < counts["train"] < 8200
    assert min(counts["dev"], counts["test"]) > 850
    entries = [f"library/functions.html#{name}" for name in ("abs", "filter", "range")]
    assert [split_of(entry) for entry in entries] == ["train", "dev", "test"]


def test_ambiguous_questions_are_dropped() -> None:
    first = Example("What closes it?", "a", "a.close", 0, 7, "term", "x#a", Span(0, 7))
    second = Example("what closes it?", "b", "b.close", 0, 7, "term", "x#b", Span(0, 7))
    third = Example("What opens it?", "b", "b.open", 0, 6, "term", "x#b", Span(0, 6))
    assert unambiguous([first, second, third, third]) == [third, third]


def test_the_same_draws_give_the_same_questions(rules: Rules) -> None:
    document = definition("shop.Basket.save", *SAVE)
    first, second = (list(examples(document, rules, Random(7))) for _ in range(2))
    assert first == second
    assert len({example.question for example in first}) == len(first) > 8


def test_broken_rules_are_refused(tmp_path: Path) -> None:
    text = TEMPLATE_RULES.read_text(encoding="utf-8")
    path = tmp_path / "rules.toml"
    for change, message in (
        (("{rest}", "{rset}"), "Unknown placeholder"),
        (("max_words = 26", "max_words = 0"), "max_words must be from 3"),
        (("draws = 2", "draws = 0"), "draws must be from 1"),
        (("[[forms]]", "[[form]]"), "Unknown key"),
        (("noun = true", "noun = 1"), "true or false"),
    ):
        path.write_text(text.replace(*change), encoding="utf-8")
        with pytest.raises(InvalidInput, match=message):
            read_rules(path)
    with pytest.raises(NotFound):
        read_rules(tmp_path / "missing.toml")


PIECES = (
    "\n\n",
    "\n",
    ". ",
    "f(a=1, b[, c])",
    "Raises ",
    "KeyError",
    " if ",
    "Returns ",
    "- a (int) – ",
    "é\ud800",
)
PARTS = st.sampled_from([*ABS, *RANGE, *SAVE, *PIECES])
TEXTS = st.lists(PARTS | st.text(max_size=12), max_size=10).map("".join)


@given(
    title=TEXTS,
    signature=TEXTS,
    prose=TEXTS,
    directive=st.sampled_from(
        ["function", "method", "class", "data", "option", "section", "term", "", "é"]
    ),
    names=st.lists(TEXTS, max_size=3).map(tuple),
    atoms=st.lists(st.tuples(st.integers(0, 200), st.integers(0, 200)), max_size=4),
    seed=st.integers(0, 99),
)
def test_any_document_gives_spans_of_its_body(
    rules: Rules,
    title: str,
    signature: str,
    prose: str,
    directive: str,
    names: tuple[str, ...],
    atoms: list[tuple[int, int]],
    seed: int,
) -> None:
    document = Document(
        "id",
        "reference",
        title,
        signature + prose,
        fields={"directive": directive, "signature": signature, "names": names},
        atoms=tuple(Span(min(pair), max(pair)) for pair in atoms),
    )
    for example in examples(document, rules, Random(seed)):
        assert document.body[example.start : example.end] == example.answer
        assert example.answer.strip()
        assert "{" not in example.question or "{" in title + signature + prose + "".join(names)
        assert split_of(example.entry) in ("train", "dev", "test")
