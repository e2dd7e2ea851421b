"""Queries about the default of a setting, and the code that sets it."""

from __future__ import annotations

from pathlib import Path

import pytest

from purlin.index.records import Document
from purlin.index.search.ranking.defaults import sets_default, setting_in
from purlin.index.search.why import why
from tests.support.corpora import open_repository


@pytest.mark.parametrize(
    ("query", "setting"),
    [
        ("change the default timeout of the API", {"timeout"}),
        (
            "Raise the default number of network retries and where it is documented",
            {"network", "retri"},
        ),
        ("what is the default port?", {"port"}),
        ("where is the default of --cache-dir set", {"cachedir", "cach", "dir"}),
        ("set the default value for the page size in the shop", {"page", "size"}),
    ],
)
def test_queries_about_a_default(query: str, setting: set[str]) -> None:
    assert setting_in(query) == setting


@pytest.mark.parametrize(
    "query",
    [
        "default timeout",
        "change the timeout",
        "change the default",
        "use the default gateway when none is set",
        "set the default one two three four five",
    ],
)
def test_other_queries(query: str) -> None:
    assert setting_in(query) is None


@pytest.mark.parametrize(
    "piece", ["change the default ", "what is the default of the ", "default a-"]
)
def test_long_queries_take_no_time(piece: str) -> None:
    assert setting_in(piece * 20_000 + "\n") is None


@pytest.mark.parametrize(
    ("title", "body"),
    [
        ("settings", "DEFAULT_TIMEOUT_SECONDS = 60"),
        ("arguments", "def open(): \n    spec = dict(timeout=dict(type='int', default=60))"),
        ("default_options", "{\n    .timeout = 60,\n}"),
        ("Config", '  timeout: { type: "number", default: 60 },'),
    ],
)
def test_lines_that_set_a_default(title: str, body: str) -> None:
    assert sets_default({"timeout"}, Document("a", "code", title, body))
    assert not sets_default(
        {"timeout"}, Document("a", "code", title, body, fields={"role": "test"})
    )
    assert not sets_default({"timeout", "port"}, Document("a", "code", title, body))


@pytest.mark.parametrize(
    "body", ["timeout = 60", "# By default, there is no timeout", "default = 1\ntimeout = 60", ""]
)
def test_lines_that_set_none(body: str) -> None:
    assert not sets_default({"timeout"}, Document("a", "code", "settings", body))


def test_what_sets_the_default_comes_first_and_says_why(tmp_path: Path) -> None:
    files = {
        "client.py": "class Timeout:\n    def wait(self, timeout):\n        return timeout or self.timeout\n",
        "settings.py": "LIMITS = {\n    'retries': 3,\n    'default_timeout': 60,\n    'pool': 8,\n}\n",
    }
    with open_repository(tmp_path, files) as corpus:
        query = "change the default timeout"
        first, *_ = corpus.search(query, k=2, explain=True).hits
        other, *_ = corpus.search("timeout", k=2).hits

    assert first.title == "LIMITS"
    assert why(query, first).endswith("mostly the default that it sets")
    assert other.location.path == "client.py"
