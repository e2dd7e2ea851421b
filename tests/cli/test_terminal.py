"""What is printed on terminals of any kind."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from purlin.cli import terminal
from tests.support.indented import INDENTED
from tests.support.quick import Captured, purlin


@pytest.mark.parametrize(("definition", "surplus"), INDENTED)
def test_lines_of_a_definition_are_as_deep_as_its_first(
    definition: tuple[str, str], surplus: int
) -> None:
    assert terminal.surplus_indentation(*definition) == surplus


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
    assert purlin("search", "alarm", "--encoder", encoder, "-k", 1) == 0
    out = capsys.readouterr().out
    assert "Clear \ufffd[2J the screen." in out
    assert "\x1b" not in out


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
