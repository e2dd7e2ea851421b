"""What all quick commands share: their errors, what they load, and how they end."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from purlin import cli
from purlin.cli import QUICK_COMMANDS
from tests.support.quick import Captured, purlin

HEAVY = "typer rich pydantic httpx fastapi onnxruntime tokenizers faiss bm25s".split()


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
    assert purlin(*arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert words in err
    assert len(err.splitlines()) == 1


def test_cache_is_listed_and_cleared(
    shop: Path, encoder: str, tmp_path: Path, capsys: Captured
) -> None:
    assert purlin("search", "receipt", "--encoder", encoder) == 0
    capsys.readouterr()
    assert purlin("cache") == 0
    row, total = capsys.readouterr().out.splitlines()
    assert row.endswith(f" MiB  {shop}")
    assert "1 entries" in total
    assert purlin("cache", "clear") == 0
    assert "1 removed" in capsys.readouterr().out
    assert not any((tmp_path / "cache" / "home" / "corpora").iterdir())


@pytest.mark.parametrize("name", QUICK_COMMANDS)
def test_every_quick_command_has_help_with_an_example(name: str, capsys: Captured) -> None:
    assert purlin(name, "--help") == 0
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
    assert purlin(command, *options[command]) == 2
    assert re.search(r"; --(content|help) is one", capsys.readouterr().err)


def test_search_loads_no_heavy_package(shop: Path, encoder: str) -> None:
    # The first search makes the index, the second one reads it.
    for heavy in (HEAVY, [*HEAVY, "numpy.ma"]):
        script = f"""import sys
from purlin import cli
try:
    cli.main()
finally:
    print([name for name in {heavy} if name in sys.modules])
"""
        arguments = [sys.executable, "-c", script, "search", "receipt", "--encoder", encoder]
        completed = subprocess.run(arguments, capture_output=True, text=True, check=True)
        assert completed.stdout.splitlines()[-1] == "[]"


def test_reader_that_stops_early_is_no_error(shop: Path, encoder: str) -> None:
    command = f"{sys.executable} -m purlin search receipt --encoder {encoder} | head -0"
    completed = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)
    assert "Traceback" not in completed.stderr


def test_two_searches_at_once_both_answer(shop: Path, encoder: str) -> None:
    arguments = [sys.executable, "-m", "purlin", "search", "send_receipt", "--encoder", encoder]
    children = [
        subprocess.Popen(arguments, stdout=subprocess.PIPE, env=os.environ, text=True)
        for _ in range(2)
    ]
    printed = [child.communicate(timeout=180)[0] for child in children]
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
    completed = subprocess.run(
        f"{command} {redirection}", shell=True, capture_output=True, text=True, check=False
    )
    assert (completed.returncode, completed.stderr) == (status, "")
    assert completed.stdout.startswith(printed)
    assert "Traceback" not in completed.stdout


def test_a_closed_stdin_is_an_empty_one(shop: Path) -> None:
    completed = subprocess.run(
        f"{sys.executable} -m purlin mcp <&-",
        shell=True,
        capture_output=True,
        text=True,
        check=True,
    )
    assert (completed.stdout, completed.stderr) == ("", "")


def test_output_needs_no_utf8(shop: Path, encoder: str) -> None:
    (shop / "size.py").write_text('def measure():\n    """Größe"""\n', encoding="utf-8")
    arguments = [sys.executable, "-m", "purlin", "search", "measure", "--encoder", encoder]
    environment = os.environ | {"PYTHONIOENCODING": "latin-1"}

    def printed(*options: str) -> str:
        completed = subprocess.run(
            [*arguments, *options], capture_output=True, env=environment, check=True
        )
        return completed.stdout.decode("latin-1")

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
