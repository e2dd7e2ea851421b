"""The README's examples print what it shows; scores may differ slightly between processors."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from purlin.app.main import create_app
from purlin.app.settings import Settings
from purlin.cli import run_quick
from purlin.index.demo import demos
from purlin.index.encoder import TRANSFORMER_ENCODER
from purlin.index.encoder.transformer import Encoder
from purlin.index.indexing.build import build
from purlin.index.sources.references.manual import python_help
from tests.support.commands import same
from tests.support.paths import ROOT

README = (ROOT / "README.md").read_text()
# A hit's file and title.
SHOWN_HIT = re.compile(r"^(\S+):\d+-\d+  \d\. (\S+)", re.MULTILINE)
EXAMPLE = re.compile(
    r"\$ curl -s localhost:8000(/\S+) -H '[^']+' -d '([^']+)'\n(\{.*?\})\n```", re.DOTALL
)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    home, encoder = tmp_path_factory.mktemp("home"), Encoder.load(TRANSFORMER_ENCODER)
    [demo] = [demo for demo in demos() if demo.name == "products"]
    build(home, demo.name, demo.kind, demo.sources(), encoder)
    with TestClient(create_app(Settings(home=home), encoder)) as client:
        yield client


EXAMPLES = EXAMPLE.findall(README)


def test_readme_has_examples() -> None:
    assert {path for path, _, _ in EXAMPLES} == {"/search", "/classify"}


@pytest.mark.parametrize(("path", "body", "printed"), EXAMPLES)
def test_readme_example_prints_the_shown_output(
    client: TestClient, path: str, body: str, printed: str
) -> None:
    assert same(printed, client.post(path, json=json.loads(body)).text)


def test_readme_search_finds_the_shown_definitions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    [(query, shown)] = re.findall(
        r'purlin search "([^"]+)" -k 2[^\n]*\n(.*?)```', README, re.DOTALL
    )
    monkeypatch.setenv("PURLIN_CACHE", str(tmp_path))

    assert run_quick("search", [query, "--path", str(ROOT), "-k", "2"]) == 0

    hits = SHOWN_HIT.findall(capsys.readouterr().out)
    assert len(hits) == 2
    assert hits == SHOWN_HIT.findall(shown)


def test_readme_question_is_answered_without_a_manual(tmp_path: Path) -> None:
    [(body, printed)] = re.findall(
        r"/qa -H '[^']+' -d '([^']+)' \| jq [^\n]+\n[\d.]+\n(\{.*?\})\n```", README
    )
    encoder, pages = (
        Encoder.load(TRANSFORMER_ENCODER),
        (file for file in python_help() if file.path == "library/stdtypes.html"),
    )
    build(tmp_path, "python", "reference", pages, encoder)
    with TestClient(create_app(Settings(home=tmp_path), encoder)) as client:
        reply = client.post("/qa", json=json.loads(body)).json()
    best, expected = reply["answers"][0], json.loads(printed)
    assert (best["text"], best["title"]) == (expected["text"], expected["title"])
    assert best["url"].partition("/library/")[2] == expected["url"].partition("/library/")[2]
    assert reply["answerable"] > 0.5
