from __future__ import annotations

import re
from collections import defaultdict

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from purlin.index.errors import InvalidInput
from purlin.index.records import Document, SourceFile
from purlin.index.sources.code.languages import LANGUAGES
from purlin.index.sources.code.repository import files
from purlin.training.data.masking.identifiers import identifiers
from tests.support.paths import DATA

LANGUAGE_NAMES = {language.name for language in LANGUAGES}

IDENTIFIER = defaultdict(
    lambda: r"[@#]{0,2}[\w$]+[?!]?",
    powershell=r"[$]?\w+(-\w+)*",
    sql=r"\w+|\"\w+\"",
    nix=r"[\w-]+",
)


def words(body: str, language: str) -> list[str]:
    return [body[span.start : span.end] for span in identifiers(body, language)]


@pytest.mark.parametrize(
    ("language", "body", "expected"),
    [
        (
            "python",
            "def f(é, *b):\n    # c\n    import os\n    return os.sep + 'x' + é",
            "f é b os os sep é",
        ),
        (
            "python",
            "@property\n    def size(self):\n        return self.n",
            "property size self self n",
        ),
        ("python", "@a.b(\n        1)\n    async def size(self):\n        pass", "a b size self"),
        ("javascript", "add(a, b) {\n  return this.x[a] + 'ü' + b;\n}", "add a b x a b"),
        ("javascript", "function (ö) { return ö; }", "ö ö"),
        ("javascript", "async get() { await go(); }", "get go"),
        (
            "typescript",
            "private async load(id: Id): Promise<T> { return <b>{id}</b>; }",
            "load id Id Promise T b id b",
        ),
        (
            "go",
            'func (r *Ring) Push(v T) error { return fmt.Errorf("v") }',
            "r Ring Push v T error fmt Errorf",
        ),
        ("java", "@Override\npublic Box(int n) { this.n = n; }", "Override Box n n n"),
        (
            "php",
            "public function add($größe) { return $this->n + $größe; }",
            "add größe this n größe",
        ),
        ("ruby", "def add(a)\n  @n += a # c\n  Foo::Bar.new(:a)\nend", "add a @n a Foo Bar new"),
    ],
)
def test_identifiers_are_names_only(language: str, body: str, expected: str) -> None:
    assert words(body, language) == expected.split()


def test_identifiers_of_documents_are_words_in_order() -> None:
    for file in files(DATA / "code"):
        assert isinstance(file, SourceFile)
        for document in file.read():
            assert isinstance(document, Document)
            language = str(document.fields["language"])
            if language not in LANGUAGE_NAMES:
                continue
            spans = identifiers(document.body, language)
            names = [document.body[span.start : span.end] for span in spans]

            assert all(re.fullmatch(IDENTIFIER[language], name) for name in names)
            assert not set("def class function return func public abstract end".split()) & set(
                names
            )

            ends = [0, *(span.end for span in spans)]

            assert all(end <= span.start for end, span in zip(ends, spans, strict=False))


def test_identifiers_of_an_unknown_language() -> None:
    with pytest.raises(InvalidInput, match="cobol") as caught:
        identifiers("x", "cobol")
    assert caught.value.field == "language"


@settings(max_examples=150)
@given(
    body=st.text(max_size=200),
    language=st.sampled_from(sorted(LANGUAGE_NAMES)),
)
@example(body="{\U0010ffff", language="bash")  # crashed the process, in the grammar's scanner
def test_identifiers_of_arbitrary_text(body: str, language: str) -> None:
    end = 0
    for span in identifiers(body, language):
        assert end <= span.start < span.end <= len(body)
        end = span.end
