"""`purlin search` in a directory without any setting up."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from purlin.index.encoder import load_encoder
from purlin.index.indexing.build import build
from purlin.index.sources import open_source
from tests.support.files import write_file
from tests.support.quick import LONG, MAIL, PRICE, Captured, purlin, records_of


def test_search_prints_place_reason_and_code(shop: Path, encoder: str, capsys: Captured) -> None:
    assert purlin("search", "mail a receipt", "--encoder", encoder, "-k", 1, "--lines", 1) == 0
    out, err = capsys.readouterr()
    place, line, *_ = out.splitlines()
    assert place.startswith("mail.py:1-3  1. send_receipt  0.")
    assert "(name: receipt; path: mail; meaning " in place
    assert line == "   │ def send_receipt(order):"
    assert f"indexed 3 files of {shop}" in err


def test_methods_are_printed_without_the_indentation_of_their_class(
    shop: Path, encoder: str, capsys: Captured
) -> None:
    code = "class Basket:\n    def empty(self):\n        if self:\n            self.clear()\n"
    (shop / "basket.py").write_text(code)
    assert purlin("search", "Basket.empty", "--encoder", encoder, "-k", 1) == 0
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

    assert purlin("search", "--corpus", "manual", "format price", "--encoder", encoder) == 0
    heading, line, *_ = capsys.readouterr().out.splitlines()
    assert heading.startswith("https://example.org/shop.html#price  1. ")
    assert line == "   │ format_price(price)"


def test_search_names_files_from_the_working_directory(
    shop: Path, encoder: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(shop / "web")
    assert purlin("search", "send_receipt", "--encoder", encoder) == 0
    assert capsys.readouterr().out.startswith("../mail.py:1-3  1. send_receipt  1.00  ")
    monkeypatch.chdir(shop.parent)
    assert purlin("search", "send_receipt", "--path", "shop", "--encoder", encoder) == 0
    assert capsys.readouterr().out.startswith("shop/mail.py:1-3  1. send_receipt  1.00  ")


def test_path_restricts_hits_to_a_directory(
    shop: Path, encoder: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    (shop / "website").mkdir()
    (shop / "website" / "price.py").write_text(PRICE)

    def paths(*options: str) -> set[str]:
        assert purlin("search", "format price", "--encoder", encoder, "--json", *options) == 0
        return {record["location"]["path"] for record in records_of(capsys)}

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
    assert purlin("search", "receipt", *options) == 2
    assert "--filter path= cannot be combined" in capsys.readouterr().err


def test_search_sees_what_changed_since(shop: Path, encoder: str, capsys: Captured) -> None:
    assert purlin("search", "send_receipt", "--encoder", encoder) == 0
    (shop / "mail.py").write_text(MAIL.replace("receipt", "reminder"))
    capsys.readouterr()
    assert purlin("search", "send_reminder", "--encoder", encoder) == 0
    out, err = capsys.readouterr()
    assert out.startswith("mail.py:1-3  1. send_reminder  1.00")
    assert "1 new" in err


def test_lines_of_a_long_definition_are_those_that_tell(
    shop: Path, encoder: str, capsys: Captured
) -> None:
    (shop / "long.py").write_text("import mail\n\n\n" + LONG)
    query = ("search", "retry receipts", "--encoder", encoder, "--filter", "path=long.py")
    assert purlin(*query, "--lines", 5) == 0
    heading, *lines = capsys.readouterr().out.splitlines()
    assert heading.startswith("long.py:4-45  1. send_all")
    assert lines[:3] == ["   │ def send_all()", "   │ … line 24:", "   │     prepare()"]
    assert "   │     retry_receipt()" in lines[:5]

    # There is no room for them.
    assert purlin(*query, "--lines", 2) == 0
    assert capsys.readouterr().out.splitlines()[2] == "   │     prepare()"


def test_words_of_a_signature_above_other_lines_are_marked(
    shop: Path, encoder: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    (shop / "long.py").write_text("@cache\n" + LONG.replace("send_all()", "send_all(retry)"))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    query = ("search", "retry receipts", "--encoder", encoder, "--filter", "path=long.py")
    assert purlin(*query, "--lines", 5) == 0
    assert capsys.readouterr().out.splitlines()[1].endswith("send_all(\x1b[1;33mretry\x1b[0m)")


def test_json_has_as_many_lines_as_asked_for(shop: Path, encoder: str, capsys: Captured) -> None:
    (shop / "long.py").write_text(LONG)
    query = ("search", "retry receipts", "--encoder", encoder, "--filter", "path=long.py")

    records = []
    for options in ((), ("--lines", 3), ("--lines", 0)):
        assert purlin(*query, "--json", *options) == 0
        records.append(json.loads(capsys.readouterr().out))
    whole, few, none = records

    assert whole["text"] == LONG.strip()
    assert "text_row" not in whole
    assert few["text"].splitlines() == LONG.splitlines()[few["text_row"] :][:3]
    assert [few["text"][start:end] for start, end in few["highlights"]] == ["retry", "receipt"]
    assert (none["text"], none["highlights"]) == ("", [])


def test_json_has_a_record_per_line(shop: Path, encoder: str, capsys: Captured) -> None:
    assert purlin("search", "send_receipt", "--encoder", encoder, "--json") == 0
    first, second = records_of(capsys)
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
        assert purlin("search", query, "--encoder", encoder, *options) == 1
        out, err = capsys.readouterr()
        assert out == ""
        has_hint = query == "?"
        assert err.splitlines()[-1].startswith("no hits; --content all" if has_hint else "no hits")
        assert ("--content all" in err) == has_hint


def test_configuration_that_fits_better_is_the_first_hit(
    shop: Path, encoder: str, capsys: Captured
) -> None:
    deploy = "worker:\n  # Keeps the worker from taking all memory.\n  memory_limit: 512Mi\n  replicas: 2\n"
    (shop / "deploy.yaml").write_text(deploy)

    def searched(*options: str) -> tuple[str, str]:
        """Where the first hit is, and the last note."""
        purlin("search", *options, "--encoder", encoder)
        out, err = capsys.readouterr()
        return out.partition(" ")[0], err.strip().rpartition("\n")[2]

    note = "the first hit is configuration; --content config has more"
    for query in ("memory_limit of the worker receipt", "memory_limit of the worker"):
        assert searched(query) == ("deploy.yaml:1-4", note)
    assert searched("memory_limit of the worker receipt", "-k", "1") == ("deploy.yaml:1-4", note)
    # Advice on a path stands before it.
    (shop / "notes").write_text("Receipts are sent by post.\n")
    (shop / "jobs").mkdir()
    (shop / "deploy.yaml").rename(shop / "jobs" / "deploy.yaml")
    (shop / "notes").rename(shop / "jobs" / "notes")
    place, _ = searched("memory_limit of the worker", "--path", "jobs")
    assert place == "jobs/deploy.yaml:1-4"
    for options in (
        ["receipt"],
        ["memory_limit receipt", "--content", "code"],
        ["memory_limit receipt", "--filter", "language=python"],
    ):
        place, last_note = searched(*options)
        assert "deploy.yaml" not in place
        assert note not in last_note


def test_paths_of_a_distant_directory_are_whole(
    tmp_path: Path, encoder: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write_file(tmp_path / "s" / "a.py", "def send_receipt():\n    post()\n")
    depths = "/".join("d" * 100)
    (tmp_path / depths).mkdir(parents=True)

    for directory, place in ((tmp_path / depths, str(source)), (tmp_path / "d", "../s/a.py")):
        monkeypatch.chdir(directory)
        purlin("search", "send_receipt", "--path", str(source.parent), "--encoder", encoder)
        assert capsys.readouterr().out.partition(" ")[0] == f"{place}:1-2"


def test_low_scores_point_to_other_content(shop: Path, encoder: str, capsys: Captured) -> None:
    def hint(*options: str) -> bool:
        purlin("search", *options, "--encoder", encoder)
        return "--content all also searches" in capsys.readouterr().err

    assert hint("session kept")
    assert hint("where is a receipt kept")
    assert not hint("send_receipt")
    assert not hint("session kept", "--content", "all")
    assert not hint("session kept", "--filter", "language=python")
    assert not hint("session kept", "--path", "web")
    (shop / "sessions.md").unlink()
    assert not hint("session kept")


def test_without_code_everything_is_searched(
    tmp_path: Path, encoder: str, capsys: Captured
) -> None:
    write_file(tmp_path / "manual" / "receipts.md", "# Receipts\n\nReceipts are sent by post.\n")
    options = ("receipts", "--path", str(tmp_path / "manual"), "--encoder", encoder)

    assert purlin("search", *options) == 0
    out, err = capsys.readouterr()
    assert "receipts.md:1-3" in out
    assert "no code here: documentation and configuration are searched" in err
    assert purlin("search", *options, "--content", "code") == 1


def test_languages_may_be_written_in_capitals(shop: Path, encoder: str, capsys: Captured) -> None:
    options = ("--encoder", encoder, "--filter", "language=Python")
    assert purlin("search", "send_receipt", *options) == 0
    assert capsys.readouterr().out.startswith("mail.py:1-3")


def test_a_file_is_searched_alone_or_said_not_to_be_indexed(
    shop: Path, encoder: str, capsys: Captured
) -> None:
    (shop / "other.py").write_text("def send_receipt():\n    pass\n")
    (shop / "notes").write_text("Receipts are sent by post.\n")
    options = ("--encoder", encoder, "--path")
    assert purlin("search", "send_receipt", *options, "other.py") == 0
    assert [
        line for line in capsys.readouterr().out.splitlines() if line.startswith("other.py:1-2")
    ]

    assert purlin("search", "send_receipt", *options, "notes") == 1
    assert "notes is not indexed (neither its name nor its first" in capsys.readouterr().err


def test_a_query_may_begin_with_a_dash(shop: Path, encoder: str, capsys: Captured) -> None:
    for words in ("-- --send-receipt", "--path . -- -receipt", "-- -receipt ."):
        options = ("--encoder", encoder, "-k", 1, *words.split())
        assert purlin("search", *options) == 0
        assert capsys.readouterr().out.startswith("mail.py:1-3")


@pytest.mark.skipif(shutil.which("git") is None, reason="takes git: apt-get install git")
def test_search_clones_a_url(shop: Path, encoder: str, tmp_path: Path, capsys: Captured) -> None:
    shutil.rmtree(shop / ".git")
    identity = ["-c", "user.name=Test", "-c", "user.email=test@example.org"]
    for command in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "-m", "Files"]):
        subprocess.run(["git", *identity, *command], cwd=shop, check=True)

    assert purlin("search", "send_receipt", "--path", shop.as_uri(), "--encoder", encoder) == 0
    printed_path = capsys.readouterr().out.partition(":")[0]
    clone = (shop / printed_path).resolve()
    assert clone.read_text() == MAIL
    assert clone.is_relative_to(tmp_path / "cache" / "clones")


def test_hits_of_a_pattern_show_the_line_that_matches(
    shop: Path, encoder: str, capsys: Captured
) -> None:
    filler = "".join(f"    step({number})\n" for number in range(30))
    (shop / "jobs.py").write_text(f"def run(job):\n{filler}    MAX_tries = 3\n{filler}")
    options = ["--encoder", encoder, "-e", r"max_tries\s*="]

    assert purlin("search", "send a receipt", *options, "-i") == 0
    head, opening, mark, *lines = capsys.readouterr().out.splitlines()
    assert head.startswith("jobs.py:1-62  1. run  0.")
    assert "(1 line matches; " in head
    assert (opening, mark) == ("   │ def run(job)", "   │ … line 29:")
    assert "   │     MAX_tries = 3" in lines

    # Without a question, and with few lines.
    assert purlin("search", *options, "-i", "--lines", 2) == 0
    assert capsys.readouterr().out.splitlines()[1] == "   │     MAX_tries = 3"
    assert purlin("search", *options, "-i", "--lines", 1, "--json") == 0
    [record] = records_of(capsys)
    assert record["text"] == "    MAX_tries = 3"
    assert record["highlights"] == [[4, 17]]


def test_a_pattern_without_matches_says_what_is_not_searched(
    shop: Path, encoder: str, capsys: Captured
) -> None:
    (shop / "LICENSE").write_text("IMPORT as you like.\n")
    assert purlin("search", "-e", "IMPORT", "--encoder", encoder) == 1
    assert "no hits; LICENSE is not indexed (a licence)" in capsys.readouterr().err
    # The page of documentation has such a line.
    assert purlin("search", "-e", "kept", "--encoder", encoder) == 1
    assert "--content all also searches documentation" in capsys.readouterr().err


def test_a_pattern_tells_how_many_documents_it_matches(
    shop: Path, encoder: str, capsys: Captured
) -> None:
    assert purlin("search", "-e", "^def ", "-k", 1, "--encoder", encoder) == 0
    assert re.search(r"\d documents have a matching line", capsys.readouterr().err)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["-e", "a(b"], "at character 2: unclosed group"),
        (["-e", "a", "--filter", "text=b"], "-e and a --filter on text cannot be combined"),
        (["-i", "receipt"], "-i is about the PATTERN of -e"),
        ([], "required: QUERY"),
    ],
)
def test_patterns_are_refused_with_what_is_wrong(
    shop: Path, encoder: str, capsys: Captured, arguments: list[str], problem: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        sys.exit(purlin("search", *arguments, "--encoder", encoder))
    assert ended.value.code == 2
    assert problem in capsys.readouterr().err
