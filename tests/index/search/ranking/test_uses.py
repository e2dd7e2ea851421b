"""Questions on who uses a symbol, and what answers them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from purlin.index.records import Document, Location
from purlin.index.search.corpus import Corpus
from purlin.index.search.ranking.uses import (
    Relation,
    Verb,
    asks_for_tests,
    relation_in,
)
from purlin.index.search.several import search_corpora
from purlin.index.search.why import why
from tests.support.corpora import open_repository


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("who calls parse_header", "parse_header"),
        ("who calls parse-header", "parse-header"),
        ("what would break if I rename read-header-line?", "read-header-line"),
        ("What else uses the function `parse_header()`?", "parse_header"),
        ("which functions call Rack::Builder.run", "Rack::Builder.run"),
        ("callers of   parse_header ", "parse_header"),
        ("find all usages of the SearchKey method", None),
        ("find all usages of the method SearchKey", "SearchKey"),
        ("where do we use retry", "retry"),
        ("where is packet__write called from?", "packet__write"),
        ("where is conn->close used", "conn->close"),
        ("where is the password used", "password"),
        ("where is the password file loaded", None),
        ("what depends on parse_header?", "parse_header"),
        ("what would break if I rename parse_header to read_header", "parse_header"),
        ("what breaks if we changed the method Token.find", "Token.find"),
        ("what would break if Token.find changed its return value", "Token.find"),
        ("what breaks if `parse_header()` is removed?", "parse_header"),
        ("what breaks if the password is missing", None),
        ("what breaks if we forget the password", None),
        ("tests of parse_header", "parse_header"),
        ("find all the unit tests for `parse_header()`", "parse_header"),
        ("which tests cover the Replacer?", "Replacer"),
        ("tests that check Token.find", "Token.find"),
        ("where is parse_header tested", "parse_header"),
        ("what tests parse_header", "parse_header"),
        ("which tests use parse_header", "parse_header"),
        ("tests calling parse_header", "parse_header"),
        ("how do we test SearchKey", "SearchKey"),
        ("tests of the header parser", None),
        ("test for is_empty", None),
        ("test whether a file exists", None),
        ("who calls the customer back", None),
        ("who calls", None),
        ("uses of 12", None),
        ("parse_header", None),
        ("", None),
    ],
)
def test_the_name_in_a_question_on_uses(query: str, name: str | None) -> None:
    verb: Verb = "tests" if "test" in query else "uses"
    assert relation_in(query) == (name and Relation(verb, name))


def test_long_questions_take_no_time_to_speak_of() -> None:
    for piece in ("which ", "a.", "::", "- ", "where is a called "):
        for question in (
            "who calls ",
            "what implements ",
            "all the classes ",
            "what breaks if ",
            "tests of ",
        ):
            assert relation_in(question + piece * 20_000 + "!") is None


@pytest.mark.parametrize(
    "query",
    [
        "tests of the parser",
        "unit tests for retries",
        "Find all the integration tests that cover uploads",
        "test that a full disk is reported",
        "specs for the cart",
        "is there a test for the empty basket?",
        "where is the cache tested?",
        "how do we test the clock",
        "which functions tests parse_header",
        "what tests are there for uploads",
        "tests which cover uploads",
        "which tests use the clock",
        "browser test that the basket is emptied",
        "smoke test for the installer",
    ],
)
def test_queries_for_tests_are_recognised(query: str) -> None:
    assert asks_for_tests(query)


@pytest.mark.parametrize(
    "query",
    [
        "test whether a file exists",
        "test for a prime number",
        "test which encoding a file has",
        "how do I test if a number is prime",
        "which function tests whether a file exists",
        "how does pytest test discovery work",
        "run the tests in parallel",
        "testing client",
        "specification of the protocol",
        "where is the test database created",
        "contests of this year",
        "",
    ],
)
def test_queries_for_other_code(query: str) -> None:
    assert not asks_for_tests(query)


def test_long_queries_for_tests_take_no_time_to_speak_of() -> None:
    for piece in ("find all ", "the ", "where is ", "test "):
        assert not asks_for_tests(piece * 20_000 + "x")


TESTED_FILES = {
    "cart/discount.py": "def apply_discount(cart, code):\n    return cart.total * discount(code)\n",
    "tests/test_discount.py": (
        "def test_apply_discount():\n    assert apply_discount(Cart(10), 'HALF') == 5\n"
    ),
    "vendor/cart/discount.py": "def discount(code):\n    return CODES[code]\n",
}


def test_tests_come_first_if_they_are_asked_for(tmp_path: Path) -> None:
    with open_repository(tmp_path, TESTED_FILES) as corpus:
        for query in ("apply a discount", "apply_discount"):
            assert corpus.search(query).hits[0].title == "apply_discount"
        for query in ("tests of the discount", "where is apply_discount tested"):
            hits = corpus.search(query).hits
            assert hits[0].title == "test_apply_discount"
            assert hits[0].score > hits[1].score


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("what implements Codec", "Codec"),
        ("which classes extend http.BaseHandler?", "http.BaseHandler"),
        ("Which modules implement the Mix.SCM behaviour", "Mix.SCM"),
        ("subclasses of Codec", "Codec"),
        ("show all the implementations of the Codec interface", "Codec"),
        ("types that conform to Codec", "Codec"),
        ("classes derived from `Codec`", "Codec"),
        ("who calls Codec", None),
        ("what implements the handling of retries", None),
        ("implementation of the codec for gzip", None),
        ("extend the deadline", None),
    ],
)
def test_the_name_in_a_question_on_heirs(query: str, name: str | None) -> None:
    relation = relation_in(query)
    heirs_of = relation.symbol if relation and relation.verb == "inherits from" else None
    assert heirs_of == name


def _document(title: str, body: str, path: str = "a.py") -> Document:
    return Document(f"{path}::{title}", "code", title, body, location=Location(path, 1, 2))


def test_users_have_the_name_as_a_word() -> None:
    documents = [
        _document("read", "return self.parse_header(line)"),
        _document("write", "parse_headers(line)"),
        _document("Other", "_parse_header(1); parse_header2()"),
        _document("Reader.parse_header", "def parse_header(self): ..."),
        # The outline of its class; a class of that name elsewhere may use it.
        _document("Reader", "class Reader:\n    def parse_header(self):"),
        _document("Reader", "parse_header(x)", "b.py"),
        _document("macro", "x->parse_header, y"),
    ]
    assert Relation("uses", "parse_header").holds(documents).tolist() == [
        *(True, False, False, False, False, True, True)
    ]


def test_users_of_a_name_with_hyphens_have_all_of_it() -> None:
    documents = [
        _document("read", "(parse-header line)"),
        _document("write", "(parse-header-line line) (re-parse-header line)"),
        _document("parse-header", "(defn parse-header [line])"),
    ]
    assert Relation("uses", "parse-header").holds(documents).tolist() == [True, False, False]
    # Where names have none, one is a minus.
    assert Relation("uses", "size").holds([_document("shrink", "size-1")]).tolist() == [True]


def test_users_of_a_member_have_no_other_class_before_it() -> None:
    documents = [
        _document("a", "return orm.Token.find(db, key)"),
        _document("b", "return orm.Group.find(db, key)"),
        _document("c", "Group::find(key) || find(key)"),
        _document("d", "token = row.find(key)"),
        # A constant may hold a token, too; the members of "JSON" are not those of "YAML".
        _document("e", "DEFAULT_TOKEN.find(key)"),
    ]
    assert Relation("uses", "Token.find").holds(documents).tolist() == [
        True,
        False,
        True,
        True,
        True,
    ]
    assert Relation("uses", "tokens.find").holds(documents).tolist() == [True] * 5
    assert Relation("uses", "JSON.load").holds([_document("a", "YAML.load(file)")]).tolist() == [
        False
    ]


def _type(signature: str, language: str, body: str = "", *context: str) -> Document:
    kind = "method" if context else "class"
    fields = {"kind": kind, "signature": signature, "language": language}
    return Document(
        "a::Gzip", "code", "Gzip", f"{signature}\n{body}", context=context, fields=fields
    )


@pytest.mark.parametrize(
    "heir",
    [
        _type("class Gzip(Base, Codec)", "python"),
        _type("public sealed class Gzip : Stream, ICodec, Codec<byte>", "csharp"),
        _type("class Gzip(level: Int) : Codec()", "kotlin"),
        _type("final class Gzip extends Base implements Codec", "php"),
        _type("instance Codec Gzip where", "haskell"),
        _type("defmodule Gzip do", "elixir", "  @behaviour Files.Codec\n"),
        _type("class Gzip", "ruby", "  include Codec\n"),
        _type("", "perl", "with 'Files::Codec';\n"),
        _type("", "perl", "use parent -norequire, 'Codec';\n"),
        _type("final class Gzip", "php", "    use Codec;\n"),
        _type("fn pack(&self)", "rust", "", "Gzip", "impl Codec for Gzip"),
        _type("func pack()", "swift", "", "Gzip", "extension Gzip: Codec"),
    ],
    ids=lambda heir: heir.fields["language"],
)
def test_heirs_name_what_they_inherit_from(heir: Document) -> None:
    assert Relation("inherits from", "Codec").holds([heir]).tolist() == [True]


@pytest.mark.parametrize(
    "other",
    [
        _type("class Gzip(val codec: Codec)", "kotlin"),
        _type("class Gzip : Codecs", "csharp"),
        _type("type Open func(name string) Codec", "go"),
        _type("type Open = (name: string) => Codec", "typescript"),
        _type("class Gzip<T extends Codec> extends Base", "java"),
        _type("class Gzip", "ruby", "  codec = Codec.new\n"),
        _type("def pack(codec: Codec)", "python", "", "Gzip"),
        _type("class Gzip", "python", "    def pack(self):\n        with Codec() as codec:\n"),
        _type("mod tests", "rust", "    use super::Codec;\n"),
        _type("", "perl", "use Files::Codec;\n"),
        _type("fn pack(&self)", "rust", "", "Codec"),
    ],
    ids=lambda other: other.fields["language"],
)
def test_others_only_use_it(other: Document) -> None:
    assert Relation("inherits from", "Codec").holds([other]).tolist() == [False]


FILES = {
    "http/header.py": "def parse_header(line):\n    '''Parse a header.'''\n    return line.split(':')\n",
    "http/request.py": (
        "class Request:\n    def read(self, stream):\n        for line in stream:\n"
        "            self.add(*header.parse_header(line))\n"
    ),
    "http/header_names.py": "def header_names(headers):\n    return [parse(h) for h in headers]\n",
    "tests/test_header.py": "def test_parse_header():\n    assert parse_header('a: b')\n",
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Corpus]:
    with open_repository(tmp_path_factory.mktemp("repository"), FILES) as corpus:
        yield corpus


def test_users_come_before_the_definition(corpus: Corpus) -> None:
    query = "who calls parse_header?"
    hits = corpus.search(query, explain=True).hits

    # A test of one line may be before or behind it.
    reasons = {hit.title: why(query, hit) for hit in hits[:3]}
    assert hits[0].title == "Request.read"
    assert reasons["Request.read"] == reasons["test_parse_header"] == "uses parse_header"
    assert reasons["parse_header"].startswith("name: parse_header; ")


def test_tests_of_a_name_have_it_in_their_names_or_use_it() -> None:
    def document(title: str, body: str, role: str = "test") -> Document:
        return Document(f"a::{title}", "code", title, body, fields={"role": role})

    covering = [
        document("TestHeaders.test_many", "h = parse_header(line)"),
        document("TestParseHeader.test_empty", "h = read('')"),
        document("testParseHeaderTwice", "read('')"),
    ]
    others = [
        document("TestParse.test_header", "h = read(line)"),
        document("test_parse_headers", "h = read(line)"),
        document("Request.read", "h = parse_header(line)", "source"),
    ]
    assert (
        Relation("tests", "parse_header").holds(covering + others).tolist()
        == [True] * 3 + [False] * 3
    )
    assert not Relation("tests", "_").holds(covering).any()


def test_tests_of_a_name_come_before_what_they_test(tmp_path: Path) -> None:
    files = {
        "lock.py": "def take_lock(name):\n    return Lock(name)\n",
        "worker.py": "def run(job):\n    with take_lock(job):\n        job()\n",
        "tests/test_worker.py": "def test_a_job_waits():\n    take_lock('a')\n    assert not run('a')\n",
        "tests/test_files.py": "def test_lock_of_a_file():\n    assert lock('file')\n",
    }
    query = "tests of take_lock"
    with open_repository(tmp_path, files) as corpus:
        hits = corpus.search(query, explain=True).hits
    assert hits[0].title == "test_a_job_waits"
    assert why(query, hits[0]) == "tests take_lock"
    assert hits[0].score > 1.5 * hits[1].score


def test_a_test_that_uses_a_name_comes_before_what_defines_it(tmp_path: Path) -> None:
    files = {
        "lock.py": "def take_lock(name):\n    return Lock(name)\n",
        "tests/test_worker.py": "def test_a_job_waits():\n    take_lock('a')\n",
    }
    with open_repository(tmp_path, files) as corpus:
        hits = corpus.search("who calls take_lock").hits
    assert [hit.title for hit in hits] == ["test_a_job_waits", "take_lock"]


def test_heirs_come_before_what_they_inherit_from(tmp_path: Path) -> None:
    files = {
        "codecs/codec.py": "class Codec:\n    def pack(self, data): ...\n",
        "codecs/gzip.py": "class Gzip(Codec):\n    def pack(self, data):\n        return data\n",
        "codecs/codec_list.py": "def codec_list():\n    # Every Codec.\n    return [Codec()]\n",
    }
    query = "what implements Codec?"
    with open_repository(tmp_path, files) as corpus:
        hits = corpus.search(query, explain=True).hits
    assert hits[0].title == "Gzip"
    assert why(query, hits[0]) == "inherits from Codec"


def test_names_without_uses_and_other_words_are_searched_as_before(corpus: Corpus) -> None:
    for query in ("who calls header_names", "who calls headers"):
        hit = corpus.search(query, explain=True).hits[0]
        assert hit.title == "header_names"
        assert "uses" not in why(query, hit)
        # It is defined, but that is not what was asked.
        assert hit.score < corpus.search("header_names").hits[0].score == 1.0


def test_uses_beyond_the_first_hits_are_counted(tmp_path: Path) -> None:
    files = {
        "lock.py": "def take_lock(name):\n    return Lock(name)\n",
        "jobs.py": "".join(f"def job_{n}():\n    take_lock('{n}')\n\n\n" for n in range(12)),
        "other.py": "def lock_door(name):\n    return take(name)\n",
    }
    with open_repository(tmp_path, files) as corpus:
        for search in (corpus.search, partial(search_corpora, [corpus])):
            assert search("who calls take_lock", k=3).related == 12
            assert search("what implements take_lock", k=3).related == 0
            assert search("take a lock", k=3).related is None
