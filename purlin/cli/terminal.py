"""What the quick commands print with: colours where there is a terminal, notes, and progress.

Rich would take longer to load than a search takes.
"""

from __future__ import annotations

import argparse
import codecs
import contextlib
import io
import json
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from purlin.index.pace import Lines, Pace, Progress
from purlin.index.records import printable

_QUIET_S = 5.0
# C0 without tab, newline and the return before one, DEL, and C1.
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]|\r(?!\n)")
# What begins a line that is as deep as the first one of a definition.
_BRACKET = re.compile(r"\s*(?:[{}\])]|end\b)")
BOLD, DIM, RED, GREEN, YELLOW, CYAN = "1", "2", "1;31", "32", "1;33", "1;36"


def prepare_streams() -> None:
    """Let every text be printed, whatever the encoding of a stream, and also if it is closed."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115
        elif mode == "w" and isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def print_error(message: str) -> None:
    """Print the message of an expected error on stderr."""
    sys.stderr.write(f"{styled('error:', RED, sys.stderr)} {visible(printable(message))}\n")


def print_note(message: str) -> None:
    """Print what a user should know beside the answer, on stderr."""
    sys.stderr.write(f"{styled(visible(printable(message)), DIM, sys.stderr)}\n")


def print_line(line: str = "") -> None:
    """Print a line of the answer on stdout."""
    sys.stdout.write(f"{printable(line)}\n")


def print_record(record: Mapping[str, object]) -> None:
    """Print a line of JSON on stdout, in escapes where not every text has its letters."""
    is_utf8 = codecs.lookup(sys.stdout.encoding or "utf-8").name == "utf-8"
    print_line(json.dumps(record, ensure_ascii=not is_utf8))


def print_quoted(line: str) -> None:
    """Print a line of what was found, on stdout, behind a mark that sets it apart."""
    print_line(f"{styled('   │', DIM)} {line}".rstrip())


def visible(text: str) -> str:
    """Text of a searched file whose control characters cannot reach the terminal.

    Each becomes one character, so that offsets into the text still hold.
    """
    return _CONTROL.sub("\ufffd", text)


def surplus_indentation(code: str, language: str) -> int:
    """How much all lines of a definition but the first are indented for their place in its file.

    The first begins at its first letter. `surplus` in app/web/code.js finds the same.
    """
    rest = [line for line in code.split("\n")[1:] if line.strip()]
    depths = [len(line) - len(line.lstrip()) for line in rest]
    least = min(depths, default=0)
    if not least:
        return 0

    outermost = [line for line, depth in zip(rest, depths, strict=True) if depth == least]
    # In Python, the last line may close a list.
    is_closed = language != "python" and _BRACKET.match(rest[-1])
    if is_closed or code.startswith("@") or all(map(_BRACKET.match, outermost)):
        # They are as deep as the first line.
        return least
    return max(0, least - (1 if rest[0].startswith("\t") else 4))


def styled(text: str, style: str, stream: TextIO | None = None) -> str:
    """Text in a style, if the stream (by default, stdout) is a terminal that wants colours."""
    if not text or "NO_COLOR" in os.environ or not _is_terminal(stream or sys.stdout):
        return text
    return f"\x1b[{style}m{text}\x1b[0m"


def _is_terminal(stream: TextIO) -> bool:
    """Whether a stream is a terminal that moves its cursor and has colours."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def highlighted(text: str, spans: Sequence[tuple[int, int]]) -> str:
    """Text with its (start, end) spans in yellow; spans are in order and do not overlap."""
    parts, position = [], 0
    for start, end in spans:
        parts += [text[position:start], styled(text[start:end], YELLOW)]
        position = end
    return "".join([*parts, text[position:]])


@contextlib.contextmanager
def progress() -> Iterator[Progress]:
    """One line that is written over on a terminal; elsewhere a plain line now and then.

    Elsewhere nothing is printed in the first seconds: most searches are over then.
    """
    if not _is_terminal(sys.stderr):
        lines, started = Lines(print_note), time.monotonic()

        def show_later(stage: str, finished_count: int, total: int | None) -> None:
            if time.monotonic() - started > _QUIET_S:
                lines(stage, finished_count, total)

        yield show_later
        return

    pace, stage_shown = Pace(), ""

    def show(stage: str, finished_count: int, total: int | None) -> None:
        nonlocal pace, stage_shown
        if stage != stage_shown:
            pace, stage_shown = Pace(stage=stage), stage
        pace.update(finished_count, total)
        count = f"{finished_count:,}" if total is None else f"{finished_count:,} of {total:,}"
        sys.stderr.write(f"\r\x1b[K{stage} {count}  {pace}")
        sys.stderr.flush()

    try:
        yield show
    finally:
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


class Parser(argparse.ArgumentParser):
    """The parser of a quick command, with an example below its help."""

    def __init__(self, command: str, usage: str, about: str, example: str) -> None:
        super().__init__(
            prog=f"purlin {command}",
            usage=f"purlin {command} {usage}",
            description=about,
            epilog=f"Example: {example}",
            allow_abbrev=False,
        )

    def add_path(self) -> None:
        """Add the option for a part of a repository, or a repository elsewhere."""
        self.add_argument(
            "--path",
            metavar="DIR|FILE|URL",
            help="Only this directory or file, or a git URL [default: the repository around .].",
        )

    def add_encoder(self) -> None:
        """Add the option for the encoder of a repository."""
        self.add_argument(
            "--encoder",
            metavar="static|ensemble|transformer|DIR",
            help="The encoder [default: static, then the best that is ready].",
        )

    def add_home(self) -> None:
        """Add the option for the directory that corpora are kept in."""
        home = Path(os.environ.get("PURLIN_HOME") or "var")
        self.add_argument(
            "--home", type=Path, default=home, help="Where corpora are [PURLIN_HOME]."
        )

    def parse_args(self, *arguments: Any, **named: Any) -> argparse.Namespace:  # type: ignore[override]
        """Parse the arguments; an unknown option ends the command with a similar one."""
        return self._all_known(*self.parse_known_args(*arguments, **named))

    def parse_intermixed_args(self, *arguments: Any, **named: Any) -> argparse.Namespace:  # type: ignore[override]
        """Parse arguments with options among the words, as `parse_args` does."""
        return self._all_known(*self.parse_known_intermixed_args(*arguments, **named))

    def _all_known(self, values: argparse.Namespace, unknown: Sequence[str]) -> argparse.Namespace:
        if unknown:
            from difflib import get_close_matches

            option = unknown[0].partition("=")[0]
            similar = get_close_matches(option, self._option_string_actions, 1)
            hint = f"; {similar[0]} is one" if similar else ""
            self.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
        return values

    def error(self, message: str) -> None:  # type: ignore[override]
        """Print what is wrong with the arguments, and exit with status 2."""
        print_error(f"{message}. `{self.prog} --help` shows how it is used.")
        raise SystemExit(2)
