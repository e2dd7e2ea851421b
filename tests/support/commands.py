"""Runs the commands of a Markdown page in one bash, and compares their output with the page.

```bash     a script; the page does not show its output
```console  each line after `$ ` is a command with its continuation lines; the lines after it are
            its output
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.traffic import port_holder

_FENCE = re.compile(r"^```(\S*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_HERE = re.compile(r"<<'?(\w+)'?")
# Progress bars, as they are printed without a terminal.
_PROGRESS = re.compile(r"\w+ [\d,]+( of [\d,]+)?( documents| passages)?(: [\d,.]+/s.*)?\n")
_END = "\x1e"  # never printed by a command

VARYING = (
    "…",  # whatever was left out
    r"\d{8}T\d{12}-[0-9a-f]{12}",  # a build
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ",
    r"purlin-[\w-]{43}",  # a key
    r"\([0-9a-f]{12}\)",  # an encoder's fingerprint
    r"(?<=sha256:)[0-9a-f]{64}",
    r'(?<="took_ms":)[\d.]+',
    r"[\d,.]+(?= (?:s\b|new passages/s))",
    r"-?\d+\.\d+",  # a score
)
_SCORE = len(VARYING)
_VARYING = re.compile("|".join(f"({pattern})" for pattern in VARYING))


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its language, its first line (counted from 1) and its text."""

    language: str
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Command:
    """A command and the output that the page shows, or None if it shows none."""

    line: int
    text: str
    printed: str | None


def blocks(markdown: str) -> list[Block]:
    """Return all fenced blocks of a page."""
    return [
        Block(m[1], markdown.count("\n", 0, m.start()) + 1, m[2]) for m in _FENCE.finditer(markdown)
    ]


def commands(markdown: str) -> list[Command]:
    """Return the commands of a page, in order."""
    result: list[Command] = []
    for block in blocks(markdown):
        if block.language == "bash":
            result.append(Command(block.line, block.text, None))
        elif block.language == "console":
            result.extend(_typed(block))
    return result


def _typed(block: Block) -> Iterator[Command]:
    lines = block.text.splitlines()
    assert lines[0].startswith("$ "), f"line {block.line}: a console begins with a command"
    while lines:
        text = lines.pop(0).removeprefix("$ ")
        if here := _HERE.search(text):
            while not text.endswith(f"\n{here[1]}"):
                text += f"\n{lines.pop(0)}"
        while text.endswith("\\"):
            text += f"\n{lines.pop(0)}"
        printed: list[str] = []
        while lines and not lines[0].startswith("$ "):
            printed.append(lines.pop(0))
        yield Command(block.line, text, "\n".join(printed))


def same(expected: str, printed: str) -> bool:
    """Return whether a command printed what the page shows.

    White space and `VARYING` are ignored; scores may differ by 0.03.
    """
    expected, printed = " ".join(expected.split()), " ".join(printed.split())
    pattern, scores, end = "", [], 0
    for varying in _VARYING.finditer(expected):
        pattern += re.escape(expected[end : varying.start()])
        end, kind = varying.end(), varying.lastindex
        assert kind is not None

        if kind == 1:
            pattern += "(?:.*?)"
        elif kind == _SCORE:
            # The only groups of the pattern are the scores, to be compared as numbers below.
            pattern += f"({VARYING[kind - 1]})"
            scores.append(float(varying[0]))
        else:
            pattern += f"(?:{VARYING[kind - 1]})"

    match = re.fullmatch(pattern + re.escape(expected[end:]), printed, re.DOTALL)
    return match is not None and [float(score) for score in match.groups()] == pytest.approx(
        scores, abs=0.03
    )


class Shell:
    """One bash in `directory`; its `purlin` and `python` are those of this checkout.

    A free port takes the place of port 8000 in the commands.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._port_holder = port_holder()
        self._port = str(self._port_holder.getsockname()[1])
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        env = {name: value for name, value in os.environ.items() if not name.startswith("PURLIN_")}
        self._bash = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            cwd=directory,
            env=env
            | {
                "PATH": path,
                "PYTHONPATH": str(ROOT),
                "PURLIN_PORT": self._port,
                # What is measured differs from machine to machine.
                "PURLIN_TUNING": "off",
                "HOME": str(directory),
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, text: str) -> tuple[str, int]:
        """Run a command, and return its output (stdout and stderr) and its status."""
        assert self._bash.stdin is not None
        assert self._bash.stdout is not None
        self._bash.stdin.write(
            f"{text.replace('localhost:8000', f'localhost:{self._port}')}\nprintf '{_END}%d\\n' $?\n"
        )
        self._bash.stdin.flush()
        printed = ""
        for line in self._bash.stdout:
            before, end, status = line.partition(_END)
            printed += "" if _PROGRESS.fullmatch(before) else before
            if end:
                return printed.replace(f":{self._port}", ":8000"), int(status)
        raise AssertionError(f"bash ended in\n{text}\nafter\n{printed}")

    def close(self) -> None:
        """Kill bash and all processes that it started."""
        os.killpg(self._bash.pid, signal.SIGKILL)
        self._bash.communicate()
        self._port_holder.close()


@contextmanager
def shell(directory: Path) -> Iterator[Shell]:
    """Yield a bash that is killed afterwards, with all processes that it started."""
    opened = Shell(directory)
    try:
        yield opened
    finally:
        opened.close()


def wrong(command: Command, printed: str, status: int) -> str | None:
    """Return how the result of a command differs from the page, or None if it does not.

    The command must succeed unless the page shows an error, and may print no problem that the page
    does not show.
    """
    expected = command.printed
    fails = expected is not None and expected.startswith("error: ")
    problem = "urn:purlin:problem" in printed
    right = not problem if not expected else same(expected, printed)
    if right and (status != 0) == fails:
        return None
    return f"line {command.line}: $ {command.text}\nstatus {status}, printed:\n{printed}"
