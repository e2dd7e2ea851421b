"""Searches whose hits must have a line that matches a regular expression."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from purlin.index.engines.retrieval import MilvusDocuments
from purlin.index.errors import InvalidInput
from purlin.index.records import Document, Hit
from purlin.index.search.corpus import Corpus
from purlin.index.search.several import search_corpora
from purlin.index.search.store.filters import matching_line
from purlin.index.sources import open_source
from tests.support.corpora import new_corpus
from tests.support.documents import source
from tests.support.files import write_tree
from tests.support.hash_encoder import HashEncoder

FILES = {
    "app/retry.py": '''"""How requests are sent again."""
import time

MAX_RETRIES = 3


class Client:
    max_retries  = MAX_RETRIES

    def send(self, request):
        for attempt in range(self.max_retries):
            try:
                return self.transport.send(request)
            except OSError as error:
                time.sleep(2 ** attempt)
        raise GivenUp(request)

    def close(self):
        self.transport.close()
''',
    "lib/upload.go": """package lib

import "os"

// Upload sends a file.
func Upload(path string) error {
	max_retries := 5
	return retry(max_retries, path)
}

func Close() {}
""",
    "tests/test_retry.py": """def test_it_gives_up():
    client = Client()
    client.max_retries = 1
    client.max_retries = 2
""",
    "README.md": "# Retries\n\nSet `max_retries = 7` to try longer.\n",
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tree(tmp_path_factory.mktemp("repository"), FILES)


@pytest.fixture(scope="module")
def corpus(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    sources = list(open_source("code", [root], content="all"))
    return new_corpus(tmp_path_factory.mktemp("home"), "code", sources, HashEncoder())


def _lines(hit: Hit) -> list[str]:
    return [hit.text[start:end] for start, end in hit.highlights]


@pytest.mark.parametrize(
    "pattern",
    [
        r"max_retries\s*:?=",
        "retr(y|ies)",
        r"^    max",
        r"\.close\(\)$",
        "[0-9]",
        r"func \w+\(\)",
        # Lines that are in no document: imports, comments, headings of nothing but sections.
        "^import|^package",
        "[Uu]pload|Retries",
    ],
)
def test_the_lines_of_all_hits_are_those_of_grep(root: Path, corpus: Corpus, pattern: str) -> None:
    grep = subprocess.run(
        ["grep", "-rnE", "--", pattern, "."], cwd=root, capture_output=True, text=True, check=True
    )
    places: list[tuple[str, str]] = []
    for line in grep.stdout.splitlines():
        path, _, text = line.split(":", 2)
        places.append((path.removeprefix("./"), text.strip()))

    hits = corpus.search("", k=100, filter=matching_line(pattern)).hits
    assert sorted((str(hit.location.path), line) for hit in hits for line in _lines(hit)) == sorted(
        places
    )


def test_without_a_query_hits_are_in_the_order_of_files_and_tests_last(corpus: Corpus) -> None:
    result = corpus.search("", k=2, filter=matching_line(r"max_retries\s*:?="), explain=True)
    assert [hit.title for hit in result.hits] == ["Retries", "Client"]
    assert result.total == 4
    assert [hit.explanation["matching_lines"] for hit in result.hits if hit.explanation] == [1, 1]

    rest = corpus.search("", k=2, offset=2, filter=matching_line(r"max_retries\s*:?="))
    assert [(hit.rank, hit.title) for hit in rest.hits] == [(3, "Upload"), (4, "test_it_gives_up")]
    assert [hit.score for hit in rest.hits] == [1.0, 0.9]


def test_lines_around_a_definition_are_shown_with_their_numbers(corpus: Corpus) -> None:
    [hit] = corpus.search("", filter=matching_line("sends a file|^import .os")).hits
    assert (hit.title, hit.location.start_line, hit.location.end_line) == ("Upload", 1, 5)
    assert hit.text == 'package lib\n\nimport "os"\n\n// Upload sends a file.'
    assert _lines(hit) == ['import "os"', "// Upload sends a file."]

    # A match in the definition, too, shows both.
    [hit] = corpus.search("upload", filter=matching_line("(?i)upload")).hits
    assert (hit.location.start_line, hit.location.end_line) == (1, 9)
    assert _lines(hit) == ["// Upload sends a file.", "func Upload(path string) error {"]

    # The text of a class leaves out its methods, so that only its first and last line are known.
    pattern = "^import time|max_retries  = MAX"
    [hit] = corpus.search("client", filter=matching_line(pattern)).hits
    assert (hit.title, hit.location.start_line, hit.location.end_line) == ("Client", 2, 19)
    assert _lines(hit) == ["import time", "max_retries  = MAX_RETRIES"]


@pytest.mark.parametrize("mode", ["hybrid", "dense", "lexical"])
def test_a_query_ranks_what_matches(corpus: Corpus, mode: str) -> None:
    conditions = {**matching_line("retries"), "content": "code"}
    result = corpus.search("upload a path", k=5, mode=mode, filter=conditions)  # type: ignore[arg-type]
    assert result.hits[0].title == "Upload"
    assert all("retries" in line for hit in result.hits for line in _lines(hit))
    assert all(hit.highlights for hit in result.hits)


def test_a_pattern_and_other_conditions_must_both_hold(corpus: Corpus) -> None:
    conditions = {**matching_line("(?i)MAX_retries"), "language": "go"}
    assert [hit.title for hit in corpus.search("", filter=conditions).hits] == ["Upload"]
    result = corpus.search("upload", filter=matching_line("no such line"))
    assert not result.hits
    assert result.warning == (
        "No line of what passes the rest of the filter matches the regular expression."
    )
    conditions = {**matching_line("no such line"), "language": "cobol"}
    result = corpus.search("upload", filter=conditions)
    assert result.warning is not None
    assert result.warning.startswith("No document has 'language' 'cobol'.")


def test_only_a_pattern_makes_a_query_optional(corpus: Corpus) -> None:
    for conditions in (None, {"language": "go"}, {"text": {"matches": None}}):
        with pytest.raises(InvalidInput, match="query is empty"):
            corpus.search(" ", filter=conditions)
    with pytest.raises(InvalidInput, match="as a text"):
        corpus.search("x", filter={"text": {"matches": 3}})
    with pytest.raises(InvalidInput, match="no filterable field 'text'"):
        corpus.search("x", filter={"text": {"matches": "a", "gte": "b"}})
    with pytest.raises(InvalidInput, match=r"'matches' was given"):
        corpus.search("x", filter={"path": {"matches": "a"}})


def test_several_corpora_are_searched_by_a_pattern(corpus: Corpus, tmp_path: Path) -> None:
    # The texts of products are compared in any case, but a pattern is what it says.
    products = [
        Document("1", "product", "Mug", r"Holds 300 ML"),
        Document("2", "product", "Cup", r"Holds 200 ml"),
    ]
    shop = new_corpus(tmp_path, "product", [source("shop.csv", products)], HashEncoder(), name="s")
    hits = search_corpora([corpus, shop], "", filter=matching_line(r"\d+ ML|class \w+")).hits
    assert [(hit.corpus, hit.title) for hit in hits] == [(corpus.name, "Client"), ("s", "Mug")]


def test_texts_in_milvus_are_not_compared() -> None:
    documents = MilvusDocuments(None, "code", {}, {}, has_files=True)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="cannot be compared with a regular expression"):
        documents.allowed(matching_line("a"))
