"""`purlin search`, `ask`, `classify` and `cache`, in directories without any setting up."""

from __future__ import annotations

import gzip
import io
import json
import math
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from purlin import cli
from purlin.cli import QUICK_COMMANDS, terminal
from purlin.cli.ask import _MAX_PAGE_BYTES, _location, _print_answers
from purlin.index import builds
from purlin.index.builds.catalogs import CLASSIFIERS
from purlin.index.classify.trained import TrainedClassifier, publish_classifier
from purlin.index.classify.zero_shot import Classifier
from purlin.index.encoder import load_encoder
from purlin.index.indexing.build import build
from purlin.index.qa.ask import AskResult
from purlin.index.records import Answer
from purlin.index.sources import open_source
from tests.support.indented import INDENTED
from tests.support.static_files import SELF_CHECK_WORDS, write_static
from tests.support.tiny import staged

Captured = pytest.CaptureFixture[str]

MAIL = '''def send_receipt(order):
    """Mail the customer a receipt."""
    return smtp(order)
'''
PRICE = "def format_price(cents):\n    return cents / 100\n"
HEAVY = "typer rich pydantic httpx fastapi onnxruntime tokenizers faiss bm25s".split()
PAGE = """# Sessions

A session is kept for 31 days, unless the visitor leaves before that.
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shop = tmp_path / "shop"
    (shop / ".git").mkdir(parents=True)
    (shop / "web").mkdir()
    (shop / "mail.py").write_text(MAIL)
    (shop / "web" / "price.py").write_text(PRICE)
    (shop / "sessions.md").write_text(PAGE)
    monkeypatch.setenv("PURLIN_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(shop)
    return shop


@pytest.fixture
def encoder(tmp_path: Path) -> str:
    words = ["send", "receipt", "reminder", "price", "format", "mail", "session", "kept"]
    return str(write_static(tmp_path / "encoder", words + SELF_CHECK_WORDS))


def _purlin(*arguments: object) -> int:
    """Exit status of a command that runs in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["purlin", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            cli.main()
    return int(str(end.value.code))


def _records(capsys: Captured) -> list[dict[str, Any]]:
    """What the last command has printed with --json."""
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


# ---- search


def test_search_prints_place_reason_and_code(shop: Path, encoder: str, capsys: Captured) -> None:
    assert _purlin("search", "mail a receipt", "--encoder", encoder, "-k", 1, "--lines", 1) == 0
    out, err = capsys.readouterr()
    place, line, *_ = out.splitlines()
    assert place.startswith("mail.py:1-3  1. send_receipt  0.")
    assert "(name: receipt; path: mail; meaning " in place
    assert line == "   │ def send_receipt(order):"
    assert f"indexed 3 files of {shop}" in err


@pytest.mark.parametrize(("definition", "surplus"), INDENTED)
def test_lines_of_a_definition_are_as_deep_as_its_first(
    definition: tuple[str, str], surplus: int
) -> None:
    assert terminal.surplus_indentation(*definition) == surplus


def test_methods_are_printed_without_the_indentation_of_their_class(
    shop: Path, encoder: str, capsys: Captured
) -> None:
    code = "class Basket:\n    def empty(self):\n        if self:\n            self.clear()\n"
    (shop / "basket.py").write_text(code)
    assert _purlin("search", "Basket.empty", "--encoder", encoder, "-k", 1) == 0
    lines = capsys.readouterr().out.splitlines()[1:4]
    assert lines == ["   │ def empty(self):", "   │     if self:", "   │         self.clear()"]


def test_signatures_of_a_reference_are_printed_as_they_are(
    tmp_path: Path, encoder: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (
        "<dl><dt id='price'><code>format_price(price)</code></dt><dd>The price as text.</dd></dl>"
    )
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "shop.html").write_text(f"<html><body>{page}</body></html>")
    sources = open_source("reference", [tmp_path / "pages"], base_url="https://example.org")
    build(tmp_path / "home", "manual", "reference", sources, load_encoder(Path(encoder)))
    monkeypatch.setenv("PURLIN_HOME", str(tmp_path / "home"))

    assert _purlin("search", "--corpus", "manual", "format price", "--encoder", encoder) == 0
    heading, line, *_ = capsys.readouterr().out.splitlines()
    assert heading.startswith("https://example.org/shop.html#price  1. ")
    assert line == "   │ format_price(price)"


def test_search_names_files_from_the_working_directory(
    shop: Path, encoder: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(shop / "web")
    assert _purlin("search", "send_receipt", "--encoder", encoder) == 0
    assert capsys.readouterr().out.startswith("../mail.py:1-3  1. send_receipt  1.00  ")
    monkeypatch.chdir(shop.parent)
    assert _purlin("search", "send_receipt", "--path", "shop", "--encoder", encoder) == 0
    assert capsys.readouterr().out.startswith("shop/mail.py:1-3  1. send_receipt  1.00  ")


def test_path_restricts_hits_to_a_directory(
    shop: Path, encoder: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    (shop / "website").mkdir()
    (shop / "website" / "price.py").write_text(PRICE)

    def paths(*options: str) -> set[str]:
        assert _purlin("search", "format price", "--encoder", encoder, "--json", *options) == 0
        return {record["location"]["path"] for record in _records(capsys)}

    assert paths() >= {"web/price.py", "website/price.py"}
    for folder in ("web", "web/", str(shop / "web")):
        assert paths("--path", folder) == {"web/price.py"}
    assert paths("web") == paths(str(shop / "web")) == {"web/price.py"}
    assert paths("--path", "web", "--filter", "language=python") == {"web/price.py"}

    monkeypatch.chdir(shop / "web")
    assert paths("--path", ".") == {"web/price.py"}
    assert "website/price.py" in paths("--path", "..")

    monkeypatch.chdir(shop)
    options = ("--encoder", encoder, "--path", "web", "--filter", "path=mail.py")
    assert _purlin("search", "receipt", *options) == 2
    assert "--filter path= cannot be combined" in capsys.readouterr().err


def test_search_sees_what_changed_since(shop: Path, encoder: str, capsys: Captured) -> None:
    assert _purlin("search", "send_receipt", "--encoder", encoder) == 0
    (shop / "mail.py").write_text(MAIL.replace("receipt", "reminder"))
    capsys.readouterr()
    assert _purlin("search", "send_reminder", "--encoder", encoder) == 0
    out, err = capsys.readouterr()
    assert out.startswith("mail.py:1-3  1. send_reminder  1.00")
    assert "1 new" in err


LONG = "def send_all():\n" + "    prepare()\n" * 20 + "    retry_receipt()\n" + "    log()\n" * 20


def test_lines_of_a_long_definition_are_those_that_tell(
    shop: Path, encoder: str, capsys: Captured
) -> None:
    (shop / "long.py").write_text("import mail\n\n\n" + LONG)
    query = ("search", "retry receipts", "--encoder", encoder, "--filter", "path=long.py")
    assert _purlin(*query, "--lines", 5) == 0
    heading, *lines = capsys.readouterr().out.splitlines()
    assert heading.startswith("long.py:4-45  1. send_all")
    assert lines[:3] == ["   │ def send_all()", "   │ … line 24:", "   │     prepare()"]
    assert "   │     retry_receipt()" in lines[:5]

    # There is no room for them.
    assert _purlin(*query, "--lines", 2) == 0
    assert capsys.readouterr().out.splitlines()[2] == "   │     prepare()"


def test_words_of_a_signature_above_other_lines_are_marked(
    shop: Path, encoder: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    (shop / "long.py").write_text("@cache\n" + LONG.replace("send_all()", "send_all(retry)"))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    query = ("search", "retry receipts", "--encoder", encoder, "--filter", "path=long.py")
    assert _purlin(*query, "--lines", 5) == 0
    assert capsys.readouterr().out.splitlines()[1].endswith("send_all(\x1b[1;33mretry\x1b[0m)")


def test_json_has_as_many_lines_as_asked_for(shop: Path, encoder: str, capsys: Captured) -> None:
    (shop / "long.py").write_text(LONG)
    query = ("search", "retry receipts", "--encoder", encoder, "--filter", "path=long.py")

    records = []
    for options in ((), ("--lines", 3), ("--lines", 0)):
        assert _purlin(*query, "--json", *options) == 0
        records.append(json.loads(capsys.readouterr().out))
    whole, few, none = records

    assert whole["text"] == LONG.strip()
    assert "text_row" not in whole
    assert few["text"].splitlines() == LONG.splitlines()[few["text_row"] :][:3]
    assert [few["text"][start:end] for start, end in few["highlights"]] == ["retry", "receipt"]
    assert (none["text"], none["highlights"]) == ("", [])


def test_json_has_a_record_per_line(shop: Path, encoder: str, capsys: Captured) -> None:
    assert _purlin("search", "send_receipt", "--encoder", encoder, "--json") == 0
    first, second = _records(capsys)
    assert (first["rank"], second["rank"]) == (1, 2)
    assert first["location"] == {"path": "mail.py", "start_line": 1, "end_line": 3, "url": None}
    assert first["text"] == MAIL.strip()
    assert first["why"] == "it is what you named"
    assert first["root"] == str(shop)
    assert first["encoder"] == "tiny-static"
    assert first["corpus"].startswith("shop-")
    assert first["build"].startswith("20")


def test_no_hits_are_status_1(shop: Path, encoder: str, capsys: Captured) -> None:
    for query, *options in (["receipt", "--filter", "language=go"], ["?"], ["?", "--json"]):
        assert _purlin("search", query, "--encoder", encoder, *options) == 1
        out, err = capsys.readouterr()
        assert out == ""
        has_hint = query == "?"
        assert err.splitlines()[-1].startswith("no hits; --content all" if has_hint else "no hits")
        assert ("--content all" in err) == has_hint


def test_low_scores_point_to_other_content(shop: Path, encoder: str, capsys: Captured) -> None:
    def hint(*options: str) -> bool:
        _purlin("search", *options, "--encoder", encoder)
        return "--content all also searches" in capsys.readouterr().err

    assert hint("session kept")
    assert hint("where is a receipt kept")
    assert not hint("send_receipt")
    assert not hint("session kept", "--content", "all")
    assert not hint("session kept", "--filter", "language=python")
    assert not hint("session kept", "--path", "web")
    (shop / "sessions.md").unlink()
    assert not hint("session kept")


def test_languages_may_be_written_in_capitals(shop: Path, encoder: str, capsys: Captured) -> None:
    options = ("--encoder", encoder, "--filter", "language=Python")
    assert _purlin("search", "send_receipt", *options) == 0
    assert capsys.readouterr().out.startswith("mail.py:1-3")


def test_a_file_is_searched_alone_or_said_not_to_be_indexed(
    shop: Path, encoder: str, capsys: Captured
) -> None:
    (shop / "other.py").write_text("def send_receipt():\n    pass\n")
    (shop / "notes").write_text("Receipts are sent by post.\n")
    options = ("--encoder", encoder, "--path")
    assert _purlin("search", "send_receipt", *options, "other.py") == 0
    assert [
        line for line in capsys.readouterr().out.splitlines() if line.startswith("other.py:1-2")
    ]

    assert _purlin("search", "send_receipt", *options, "notes") == 1
    assert "notes is not indexed (neither its name nor its first" in capsys.readouterr().err


def test_a_query_may_begin_with_a_dash(shop: Path, encoder: str, capsys: Captured) -> None:
    for words in ("-- --send-receipt", "--path . -- -receipt", "-- -receipt ."):
        options = ("--encoder", encoder, "-k", 1, *words.split())
        assert _purlin("search", *options) == 0
        assert capsys.readouterr().out.startswith("mail.py:1-3")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["search", "shop", "receipt"], "in quotes: purlin search 'shop receipt'"),
        (["search"], "the following arguments are required: QUERY"),
        (["search", "--"], "the following arguments are required: QUERY"),
        (["search", "receipt", "web/nowhere.py"], "no file 'web/nowhere.py', and 'receipt' is no"),
        (["search", "x", "--path", "nowhere"], "There is no directory 'nowhere'"),
        (["search", "x", "--path", "/"], "is a whole home directory or file system"),
        (["search", "x", "--path", "http://localhost/a"], "https://, ssh://, git://, file://"),
        (["search", "x", "--encoder", "nowhere"], "nowhere"),
        (["search", "x", "--content", "pictures"], "pictures"),
        (["search", "x", "--nonsense"], "--nonsense"),
        (["ask", "why?", "--path", "nowhere"], "There is no directory 'nowhere'"),
        (["classify", "text"], "give one of --labels, --labels-file and --classifier"),
        (["classify", "text", "--labels", "a,b", "--classifier", "c"], "give one of --labels"),
        (["classify", "text", "--classifier", "c", "--multi"], "leave --template, --multi and"),
        (["classify", "text", "--classifier", "c"], "There is no classifier 'c'"),
        (["classify", "text", "--labels", "a,b", "--min-score", "2"], "a number from 0 to 1"),
        (["classify", "text", "--labels", "a,b", "--min-score", "nan"], "a number from 0 to 1"),
        (["classify", "text", "--labels", "one"], "give another, or --multi"),
        (["classify", "--labels", "a,b"], "give texts, or a file of texts with --texts"),
        (["classify", "text", "--texts", "f", "--labels", "a,b"], "give texts, or a file of"),
        (["classify", "text", "--id", "c", "--labels", "a,b"], "are for --texts"),
        (["classify", "text", "--column", "c", "--labels", "a,b"], "are for --texts"),
        (["classify", "t", "--labels", "a,b", "--multi", "--transductive"], "without --multi"),
        (["classify", "t", "--labels", "a,b", "--review", "0"], "takes a number from 1"),
        (["classify", "--texts", "none.csv", "--labels", "a,b"], "none.csv does not exist"),
        (["classify", "text", "--labels-file", "nowhere"], "nowhere does not exist or is not"),
        (["cache", "shrink"], "shrink"),
    ],
)
def test_errors_are_one_line_and_status_2(
    shop: Path, capsys: Captured, arguments: list[str], words: str
) -> None:
    assert _purlin(*arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert words in err
    assert len(err.splitlines()) == 1


@pytest.mark.skipif(shutil.which("git") is None, reason="takes git: apt-get install git")
def test_search_clones_a_url(shop: Path, encoder: str, tmp_path: Path, capsys: Captured) -> None:
    shutil.rmtree(shop / ".git")
    identity = ["-c", "user.name=Test", "-c", "user.email=test@example.org"]
    for command in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "-m", "Files"]):
        subprocess.run(["git", *identity, *command], cwd=shop, check=True)

    assert _purlin("search", "send_receipt", "--path", shop.as_uri(), "--encoder", encoder) == 0
    printed_path = capsys.readouterr().out.partition(":")[0]
    clone = (shop / printed_path).resolve()
    assert clone.read_text() == MAIL
    assert clone.is_relative_to(tmp_path / "cache" / "clones")


def test_matching_words_are_marked_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert terminal.highlighted("a kettle", [(2, 8)]) == "a \x1b[1;33mkettle\x1b[0m"
    monkeypatch.setenv("NO_COLOR", "1")
    assert terminal.highlighted("a kettle", [(2, 8)]) == "a kettle"


def test_names_that_are_not_utf8_can_be_printed(capsys: Captured) -> None:
    terminal.print_line("caf\udce9")
    assert capsys.readouterr().out == "caf?\n"


def test_control_characters_of_files_do_not_reach_the_terminal(
    shop: Path, encoder: str, capsys: Captured
) -> None:
    assert terminal.visible("a\x1b[31m\tb\n\x7f\x9bc\r") == "a\ufffd[31m\tb\n\ufffd\ufffdc\ufffd"
    assert terminal.visible("a file of Windows\r\n") == "a file of Windows\r\n"
    terminal.print_note("1 file could not be read: a\x1b[2J.py")
    assert "\x1b" not in capsys.readouterr().err
    (shop / "alarm.py").write_text('def alarm():\n    """Clear \x1b[2J the screen."""\n')
    assert _purlin("search", "alarm", "--encoder", encoder, "-k", 1) == 0
    out = capsys.readouterr().out
    assert "Clear \ufffd[2J the screen." in out
    assert "\x1b" not in out


def test_control_characters_of_answers_do_not_reach_the_terminal(capsys: Captured) -> None:
    passage = "It is \x1b[2J 5."
    answer = Answer("\x1b[2J 5", 0.9, 6, 13, "a.md#a", "A\x07", (), "a.md#a\x9b", passage)
    _print_answers(AskResult((answer,), 0.9, "number", (), 1, {}, ()), None)
    out = capsys.readouterr().out
    assert "\ufffd[2J 5" in out
    assert not set(out) & {"\x1b", "\x07", "\x9b"}


# ---- ask, classify, cache


def test_ask_answers_from_the_documentation(
    shop: Path, encoder: str, reader_directory: Path, capsys: Captured
) -> None:
    options = ("--encoder", encoder, "--reader", reader_directory)
    assert _purlin("ask", "how long is a session kept?", *options, "--json") == 0
    record = json.loads(capsys.readouterr().out)
    assert record["root"] == str(shop)
    answer = record["answers"][0]
    assert answer["text"] in PAGE
    assert answer["place"].startswith("sessions.md")
    assert f":{answer['line']}#" in answer["place"]

    assert _purlin("ask", "how long is a session kept?", *options, "-k", 1) == 0
    head, *quoted = capsys.readouterr().out.splitlines()
    assert "  1. Sessions  0." in head
    expected = [answer["text"], answer["sentence"]["text"]]
    assert [line.removeprefix("   │ ") for line in quoted if line] == expected


def test_path_restricts_answers_to_a_directory_or_file(
    shop: Path, encoder: str, reader_directory: Path, capsys: Captured
) -> None:
    # Copies of a page would answer once.
    for days, name in enumerate(("docs/a.md", "docs/b.md", "docs-old/a.md"), start=11):
        (shop / name).parent.mkdir(exist_ok=True)
        (shop / name).write_text(PAGE.replace("31", str(days)))
    options = ("--encoder", encoder, "--reader", reader_directory, "--json", "-k", 20)

    def pages(path: str) -> set[str]:
        assert _purlin("ask", "how long is a session kept?", *options, "--path", path) == 0
        answers = json.loads(capsys.readouterr().out)["answers"]
        return {answer["passage_id"].partition("#")[0] for answer in answers}

    assert pages(".") == {"docs/a.md", "docs/b.md", "docs-old/a.md", "sessions.md"}
    assert pages("docs") == pages(str(shop / "docs")) == {"docs/a.md", "docs/b.md"}
    assert pages("docs/a.md") == {"docs/a.md"}

    assert _purlin("ask", "how long?", *options, "--path", "web") == 1
    assert "web has no documentation that Purlin reads" in capsys.readouterr().err


def test_ask_refuses_a_reader_before_it_indexes(
    shop: Path, encoder: str, tmp_path: Path, capsys: Captured
) -> None:
    missing = tmp_path / "missing"
    assert _purlin("ask", "how long?", "--encoder", encoder, "--reader", missing) == 2
    assert str(missing) in capsys.readouterr().err
    assert not (tmp_path / "cache").exists()


def _answer(text: str, url: str, passage: str) -> Answer:
    """An answer in the words of a passage."""
    start = passage.index(text)
    return Answer(text, 0.9, start, start + len(text), url, "A", (), url, passage)


def test_answers_have_the_line_where_their_words_stand(shop: Path) -> None:
    passage = "A session is kept for 31 days, unless the visitor leaves before that."
    answer = _answer("31 days", "sessions.md#sessions", passage)
    assert _location(answer, shop)[0] == "sessions.md:3#sessions"
    assert _location(answer, None)[0] == "sessions.md#sessions"

    # Markup before and in the answer.
    for text in (
        "A session is `kept` for *31* days.",
        "A **session is\nkept** for [31 days](limits.md), unless",
        "A session\nis\nkept for __31\\\ndays__.",
    ):
        line = 3 + text.partition("31")[0].count("\n")
        (shop / "sessions.md").write_text(f"# Sessions\n\n{text}\n")
        assert _location(answer, shop)[0] == f"sessions.md:{line}#sessions"

    # Other words than the passage has: the heading's line, which the anchor tells.
    (shop / "sessions.md").write_text("Intro\n\n## `Sessions`\n\nKept for a month.\n")
    assert _location(answer, shop)[0] == "sessions.md:3#sessions"
    (shop / "sessions.md").write_text('<p>Intro</p>\n<h2 id="sessions">Sessions</h2>\n')
    assert _location(answer, shop)[0] == "sessions.md:2#sessions"
    (shop / "sessions.md").write_text("```sh\n# Sessions\n```\n\n## [Sessions](a.md)\n")
    assert _location(answer, shop)[0] == "sessions.md:5#sessions"
    (shop / "sessions.md").write_text("Intro\n\n## Kept {#sessions .wide}\n")
    assert _location(answer, shop)[0] == "sessions.md:3#sessions"
    (shop / "sessions.md").write_text("Nothing of it.\n")
    assert _location(answer, shop)[0] == "sessions.md#sessions"


MANUAL_PAGE = """.TH WEAVE 1
.SH NAME
weave \\- make cloth
.SH OPTIONS
.TP
.BR \\-q ", " \\-\\-quiet
Say \\fInothing\\fR at all, \\
not even at the end.
.TP
.B \\-v
.nf
more
"""


@pytest.mark.parametrize(
    ("name", "page", "text", "anchor", "line"),
    [
        ("weave.1.gz", MANUAL_PAGE, "Say nothing at all", "q", 7),
        ("weave.1", MANUAL_PAGE, "Say nothing at all", "q", 7),
        ("weave.1.gz", MANUAL_PAGE, "-q, --quiet", "q", 6),
        ("weave.1.gz", MANUAL_PAGE, "in other words", "v", 10),
        ("weave.1.gz", MANUAL_PAGE, "in other words", "OPTIONS", 4),
        ("weave.1.gz", MANUAL_PAGE, "in other words", "", None),
        ("spin.1.gz", ".Dd x\n.Dt SPIN 1\n.Sh USE\n.Bl -tag\n.It Fl v\na\n", "in other words", "v", 5),
        ("git.1", ".TH G 1\n.SH O\n.PP\n\\-v\n.RS 4\na\n.RE\n", "in other words", "v", 4),
        ("a.adoc", "= A\n\nB c\n---\n[[d]]e::\n  f\n", "in other words", "_b_c", 3),
        ("a.adoc", "= A\n\nB c\n---\n[[d]]e::\n  f\n", "in other words", "d", 5),
        ("a.md", "---\na: b\n---\n\n!!! note\n    x\n\n# B\n\n# B\n", "in other words", "b-1", 10),
        ("a.md", "> # B\r\n>\r\n> # C\r\n", "in other words", "c", 3),
        ("a.md", "[ref]: b\n\nA *b*\n=====\n", "in other words", "a-b", 3),
        ("a.md", "# A\n\n- # B\n\n<p id=\"b c\">", "in other words", "b", 3),
        ("a.md", "# A\n<p id=\"c\">", "in other words", "c", 2),
    ],
)  # fmt: skip
def test_lines_are_those_of_the_unpacked_text(
    tmp_path: Path, name: str, page: str, text: str, anchor: str, line: int | None
) -> None:
    content = page.encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    url = f"{name}#{anchor}".removesuffix("#")
    answer = _answer(text, url, text)
    assert _location(answer, tmp_path)[1] == line


def test_pages_that_unpack_to_too_much_have_no_lines(tmp_path: Path) -> None:
    answer = _answer("Say nothing", "a.1.gz#q", "Say nothing")
    for content in (gzip.compress(bytes(_MAX_PAGE_BYTES + 1)), b"no gzip"):
        (tmp_path / "a.1.gz").write_bytes(content)
        assert _location(answer, tmp_path)[1] is None


def test_time_for_the_line_of_an_answer_does_not_explode(shop: Path) -> None:
    answer = _answer("31 days", "sessions.md#x", "A session is kept for 31 days.")
    for pattern in ("](", "](a", "[](", "*_`", "# ", "id="):
        (shop / "sessions.md").write_text(pattern * (200_000 // len(pattern)))
        assert _location(answer, shop)[0] == "sessions.md#x"


def test_classify_labels_texts_and_lines_of_stdin(
    shop: Path, encoder: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    _stdin(monkeypatch, b"format price\n\n")
    options = ("--labels", "send receipt, ", "--labels", "format price", "--template", "{label}")
    assert _purlin("classify", "send receipt", "-", *options, "--encoder", encoder) == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    expected = [("send receipt", "send receipt"), ("format price", "format price")]
    assert [(label, text) for label, _, text in rows] == expected

    (shop / "labels.txt").write_text("send receipt\nformat price\n")
    options = ("--labels-file", "labels.txt", "--encoder", encoder, "--template", "{label}")
    assert _purlin("classify", "format price", *options, "--json") == 0
    record = json.loads(capsys.readouterr().out)
    assert record["label"] == "format price"
    assert len(record["ranking"]) == 2
    assert _purlin("classify", "kept", *options, "--multi", "--min-score", 0.999) == 1
    assert capsys.readouterr().out.startswith("-\t")


def _stdin(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


TICKETS = """ticket,body
T-1,"send receipt

to me"
T-2,
T-3,format price
"""
BY_NAMES = ("--labels", "send receipt,format price", "--template", "{label}")


@pytest.mark.parametrize("from_stdin", [False, True])
def test_classify_reads_the_rows_of_a_table(
    shop: Path, encoder: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch, from_stdin: bool
) -> None:
    (shop / "tickets.csv").write_text(TICKETS)
    _stdin(monkeypatch, TICKETS.encode())
    source = ("-", "--format", "csv") if from_stdin else ("tickets.csv",)
    options = ("--texts", *source, "--column", "body", *BY_NAMES, "--encoder", encoder)

    assert _purlin("classify", *options, "--id", "ticket") == 0
    captured = capsys.readouterr()
    rows = [line.split("\t") for line in captured.out.splitlines()]
    assert [(row[0], row[1], row[3]) for row in rows] == [
        ("T-1", "send receipt", "send receipt to me"),
        ("T-3", "format price", "format price"),
    ]
    assert "1 row without a text left out: T-2" in captured.err

    _stdin(monkeypatch, TICKETS.encode())
    assert _purlin("classify", *options, "--json") == 0
    records = _records(capsys)
    assert [record["id"] for record in records] == ["2", "4"]
    assert records[0]["text"] == "send receipt\n\nto me"
    assert "labels" not in records[0]


@pytest.mark.parametrize(
    ("content", "option", "texts"),
    [
        ("good\ncafé\n".encode("cp1252"), "lines", ["good", "café"]),
        (b'[{"text": "good"},\n {"text": "price"}]', "json", ["good", "price"]),
        (b"format\nprice\n", "whole", ["format\nprice"]),
    ],
)
def test_classify_reads_stdin_in_any_format(
    encoder: str,
    capsys: Captured,
    monkeypatch: pytest.MonkeyPatch,
    content: bytes,
    option: str,
    texts: list[str],
) -> None:
    _stdin(monkeypatch, content)
    options = ("--texts", "-", "--format", option, *BY_NAMES, "--encoder", encoder, "--json")
    assert _purlin("classify", *options) == 0
    assert [record["text"] for record in _records(capsys)] == texts


def test_classify_prints_the_doubtful_first(shop: Path, encoder: str, capsys: Captured) -> None:
    texts = ["send receipt", "send price", "format price", "format receipt price"]
    (shop / "texts.txt").write_text("\n".join(texts))
    options = ("--texts", "texts.txt", *BY_NAMES, "--encoder", encoder, "--json")
    assert _purlin("classify", *options) == 0
    records = _records(capsys)
    assert _purlin("classify", *options, "--review", 2) == 0
    review = _records(capsys)
    assert review == sorted(records, key=lambda record: record["margin"])[:2]


def test_classify_prints_all_labels_that_fit(encoder: str, capsys: Captured) -> None:
    options = (*BY_NAMES, "--encoder", encoder, "--multi", "--min-score", "0.5")
    assert _purlin("classify", "send receipt format price", *options) == 0
    assert capsys.readouterr().out.split("\t")[0] in (
        "send receipt, format price",
        "format price, send receipt",
    )


def test_doubtful_among_several_are_near_to_fitting(
    shop: Path, encoder: str, capsys: Captured
) -> None:
    texts = ["send receipt", "send receipt format", "send receipt format price", "format"]
    (shop / "texts.txt").write_text("\n".join(texts))
    options = ("--texts", "texts.txt", *BY_NAMES, "--encoder", encoder, "--multi", "--json")
    assert _purlin("classify", *options, "--review", 4) in (0, 1)
    records = _records(capsys)

    def distance(record: dict[str, Any]) -> float:
        best, other = (entry["score"] for entry in record["ranking"])
        odds, least = other / (1 - other), max(1.0, best / (1 - best) / 3)
        return min(abs(math.log(odds / least)), abs(math.log(best / (1 - best))))

    assert [distance(record) for record in records] == sorted(map(distance, records))
    for record in records:
        best, other = (entry["score"] for entry in record["ranking"])
        fits = other >= 0.5 and other / (1 - other) >= best / (1 - best) / 3
        assert len(record["labels"]) == (best >= 0.5) + fits


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("x", "--multi-label", *BY_NAMES), "unrecognized arguments: --multi-label; --multi is"),
        (("--text=a.txt", *BY_NAMES), "unrecognized arguments: --text=a.txt; --texts is one"),
        (("--texts", "a.txt", "--format", "csv", *BY_NAMES), "--texts - --format csv < FILE reads"),
        (("x", "--labels", '["a", "b"]'), "--labels takes names, not JSON: write them with commas"),
        (("x", "--labels", "send receipt"), "There is one label, 'send receipt', so nothing"),
    ],
)
def test_classify_names_what_was_meant(
    capsys: Captured, arguments: Sequence[str], words: str
) -> None:
    assert _purlin("classify", *arguments) == 2
    assert words in capsys.readouterr().err


def test_classify_together_is_what_the_classifier_says(encoder: str, capsys: Captured) -> None:
    texts = ["send receipt", "send it", "send the receipt", *["format price"] * 3]
    options = (*BY_NAMES, "--encoder", encoder, "--json", "--transductive")
    assert _purlin("classify", *texts, *options) == 0
    scores = [record["score"] for record in _records(capsys)]
    classifier = Classifier(load_encoder(Path(encoder)))
    results = classifier.classify(
        texts, ["send receipt", "format price"], templates=["{label}"], transductive=True
    )
    assert scores == [result.score for result in results]


@pytest.mark.parametrize(
    ("content", "option", "words"),
    [
        (b"id,body\n1,a\n", "csv", "its columns are 'id', 'body': name one with --column"),
        (b"id,text\n1,a,b\n", "csv", "Row 2 of stdin has 3 cells where the header has 2"),
        (b'{"text": ["a"]}\n', "jsonl", "Row 1 of stdin has a list in the column 'text'"),
        (b"a\0", "whole", "stdin has zero bytes"),
        (b"", "lines", "stdin holds no rows"),
        (b"", "whole", "There are no texts"),
    ],
)
def test_classify_says_what_is_wrong_with_a_table(
    encoder: str,
    capsys: Captured,
    monkeypatch: pytest.MonkeyPatch,
    content: bytes,
    option: str,
    words: str,
) -> None:
    _stdin(monkeypatch, content)
    options = ("--texts", "-", "--format", option, *BY_NAMES, "--encoder", encoder)
    assert _purlin("classify", *options) == 2
    assert words in capsys.readouterr().err


def test_classify_warns_of_what_is_hardly_meant(
    shop: Path, encoder: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    (shop / "tickets.csv").write_text(TICKETS)
    options = (*BY_NAMES, "--encoder", encoder)
    assert _purlin("classify", "tickets.csv", *options) == 0
    assert "--texts tickets.csv classifies what it holds" in capsys.readouterr().err
    records = [{"text": "send receipt"}, {"text": "format price"}]
    for content, kind in (
        (TICKETS, "csv"),
        ('{"text": "a"}\n', "jsonl"),
        (json.dumps(records), "json"),
        (json.dumps(records, indent=1), "json"),
    ):
        for argument in (("-",), ("--texts", "-")):
            _stdin(monkeypatch, content.encode())
            assert _purlin("classify", *argument, *options) == 0
            assert f"--texts - --format {kind} reads its rows" in capsys.readouterr().err

    (shop / "export.txt").write_text(TICKETS.replace(",", "\t"))
    assert _purlin("classify", "--texts", "export.txt", *options) == 0
    assert "--texts - --format tsv < export.txt reads its rows" in capsys.readouterr().err
    (shop / "rows.txt").write_text("A 1\tformat a price\nA 2\tsend a receipt\n")
    assert _purlin("classify", "--texts", "rows.txt", *options) == 0
    assert "rows.txt looks like TSV" in capsys.readouterr().err
    (shop / "lines.txt").write_text("format\ta price\nsend a receipt\n")
    assert _purlin("classify", "--texts", "lines.txt", *options) == 0
    assert "looks like" not in capsys.readouterr().err

    _stdin(monkeypatch, b"format price\nr\xc3\xa9sum\xc3\xa9 caf\xe9\n")
    assert _purlin("classify", "-", *options) == 0
    assert "1 text has \ufffd where bytes are no text" in capsys.readouterr().err

    (shop / "mails.txt").write_text("<p>format&nbsp;<b>price</b></p>\n")
    assert _purlin("classify", "--texts", "mails.txt", *options) == 0
    assert "1 text has HTML tags" in capsys.readouterr().err
    assert _purlin("classify", "--texts", "mails.txt", "--html", *options) == 0
    captured = capsys.readouterr()
    assert captured.out.endswith("\tformat price\n")
    assert "HTML" not in captured.err


def test_classify_ignores_byte_order_marks(
    shop: Path, encoder: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    _stdin(monkeypatch, "send receipt\n".encode("utf-8-sig"))
    (shop / "labels.txt").write_text("send receipt\nformat price\n", encoding="utf-8-sig")
    options = ("--labels-file", "labels.txt", "--encoder", encoder)

    assert _purlin("classify", "-", *options, "--json") == 0
    record = json.loads(capsys.readouterr().out)
    assert (record["text"], record["label"]) == ("send receipt", "send receipt")


def test_classify_by_a_trained_classifier(tmp_path: Path, capsys: Captured) -> None:
    publish_classifier(tmp_path, "tickets", staged(tmp_path / "staged"))
    texts = ["the news", *["about business"] * 300]
    options = ("--classifier", "tickets", "--home", tmp_path)

    assert _purlin("classify", *texts, *options, "--json") == 0
    records = _records(capsys)
    trained = TrainedClassifier.load(builds.current(tmp_path, "tickets", CLASSIFIERS))
    assert [record["text"] for record in records] == texts
    assert [record["score"] for record in records] == [
        result.score for result in trained.classify(texts)
    ]


def test_cache_is_listed_and_cleared(
    shop: Path, encoder: str, tmp_path: Path, capsys: Captured
) -> None:
    assert _purlin("search", "receipt", "--encoder", encoder) == 0
    capsys.readouterr()
    assert _purlin("cache") == 0
    row, total = capsys.readouterr().out.splitlines()
    assert row.endswith(f" MiB  {shop}")
    assert "1 entries" in total
    assert _purlin("cache", "clear") == 0
    assert "1 removed" in capsys.readouterr().out
    assert not any((tmp_path / "cache" / "home" / "corpora").iterdir())


# ---- what they load, and how they end


@pytest.mark.parametrize("name", QUICK_COMMANDS)
def test_every_quick_command_has_help_with_an_example(name: str, capsys: Captured) -> None:
    assert _purlin(name, "--help") == 0
    assert f"Example: purlin {name}" in " ".join(capsys.readouterr().out.split())


def test_quick_commands_are_in_the_list_of_all() -> None:
    from typer.testing import CliRunner

    from purlin.cli.commands import app

    shown = CliRunner().invoke(app, ["--help"]).output
    assert all(name in shown for name in QUICK_COMMANDS)
    assert CliRunner().invoke(app, ["search", "one", "two"]).exit_code == 2


def test_the_version_is_shown() -> None:
    from typer.testing import CliRunner

    from purlin.cli.commands import app

    shown = CliRunner().invoke(app, ["--version"])
    assert (shown.exit_code, shown.output) == (0, f"purlin {version('purlin-search')}\n")


@pytest.mark.parametrize("command", ["search", "cache"])
def test_an_unknown_option_among_words_names_a_similar_one(command: str, capsys: Captured) -> None:
    options = {"search": ("lamp", "--contents", "docs"), "cache": ("list", "--hepl")}
    assert _purlin(command, *options[command]) == 2
    assert re.search(r"; --(content|help) is one", capsys.readouterr().err)


def test_search_loads_no_heavy_package(shop: Path, encoder: str) -> None:
    script = f"""import sys
from purlin import cli
try:
    cli.main()
finally:
    print([name for name in {HEAVY} if name in sys.modules])
"""
    for _ in ("indexes", "reads the index"):
        arguments = [sys.executable, "-c", script, "search", "receipt", "--encoder", encoder]
        done = subprocess.run(arguments, capture_output=True, text=True, check=True)
        assert done.stdout.splitlines()[-1] == "[]"


def test_reader_that_stops_early_is_no_error(shop: Path, encoder: str) -> None:
    command = f"{sys.executable} -m purlin search receipt --encoder {encoder} | head -0"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)
    assert "Traceback" not in done.stderr


def test_two_searches_at_once_both_answer(shop: Path, encoder: str) -> None:
    arguments = [sys.executable, "-m", "purlin", "search", "send_receipt", "--encoder", encoder]
    children = [
        subprocess.Popen(arguments, stdout=subprocess.PIPE, env=os.environ, text=True)
        for _ in range(2)
    ]
    printed = [child.communicate(timeout=60)[0] for child in children]
    assert [text.splitlines()[0].split()[0] for text in printed] == ["mail.py:1-3"] * 2


@pytest.mark.parametrize(
    ("redirection", "status", "printed"),
    [
        ("", 0, "mail.py:1-3"),
        (">&-", 0, ""),
        ("2>&-", 0, "mail.py:1-3"),
        ("2>&1 >/dev/full", 2, "error: No space left on device."),
    ],
)
def test_streams_may_be_closed_or_full(
    shop: Path, encoder: str, redirection: str, status: int, printed: str
) -> None:
    command = f"{sys.executable} -m purlin search send_receipt --encoder {encoder}"
    subprocess.run(command, shell=True, capture_output=True, check=True)
    done = subprocess.run(
        f"{command} {redirection}", shell=True, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (status, "")
    assert done.stdout.startswith(printed)
    assert "Traceback" not in done.stdout


def test_a_closed_stdin_is_an_empty_one(shop: Path) -> None:
    done = subprocess.run(
        f"{sys.executable} -m purlin mcp <&-",
        shell=True,
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("", "")


def test_output_needs_no_utf8(shop: Path, encoder: str) -> None:
    (shop / "size.py").write_text('def measure():\n    """Größe"""\n', encoding="utf-8")
    arguments = [sys.executable, "-m", "purlin", "search", "measure", "--encoder", encoder]
    environment = os.environ | {"PYTHONIOENCODING": "latin-1"}

    def printed(*options: str) -> str:
        done = subprocess.run(
            [*arguments, *options], capture_output=True, env=environment, check=True
        )
        return done.stdout.decode("latin-1")

    assert '? """Größe' in " ".join(printed().split())
    assert json.loads(printed("--json", "-k", "1"))["text"].endswith('"""Größe"""')


def test_the_working_directory_may_be_gone(
    shop: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (shop / "gone").mkdir()
    monkeypatch.chdir(shop / "gone")
    (shop / "gone").rmdir()
    monkeypatch.setattr(sys, "argv", ["purlin", "search", "receipt"])
    with pytest.raises(SystemExit) as exit:
        cli.main()
    assert exit.value.code == 2
    assert (
        capsys.readouterr().err
        == "error: The working directory was removed; change to another one.\n"
    )


def test_a_dumb_terminal_gets_no_control_characters(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "dumb")
    with terminal.progress() as progress:
        progress("read", 1, 2)
    terminal.print_line(terminal.styled("word", terminal.BOLD))
    assert "\x1b" not in "".join(capsys.readouterr())
