"""The command line, `purlin COMMAND`.

The quick commands answer in a moment, so `argparse` parses them: Typer takes longer to load than they
take to answer. It parses the others: serve, key, index, train and evaluate. A package is imported
only when a command needs it.
"""

from __future__ import annotations

import os
import signal
import sys
from importlib import import_module
from typing import NoReturn

from purlin.cli import terminal

# Each has a module of its own, with `run(arguments) -> exit status`.
QUICK_COMMANDS = {
    "search": "Search a repository, or corpora.",
    "ask": "Answer a question from documentation, in its own words.",
    "classify": "Label texts by the names of the labels.",
    "mcp": "Tools for agents over stdio, without a server.",
    "cache": "List, make or remove what searches keep on disk.",
}


def main() -> None:
    """Run the command line; an expected error is one line on stderr.

    The exit status is then 1, or 2 for the quick commands, where 1 means that nothing was found.
    """
    from purlin.index.errors import PurlinError

    signal.signal(signal.SIGTERM, _terminate)  # as Ctrl-C: what is under way is undone
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    try:
        if name in QUICK_COMMANDS:
            raise SystemExit(run_quick(name, sys.argv[2:]))
        from purlin.cli.commands import app

        app()
    except PurlinError as error:
        terminal.print_error(error.message)
        raise SystemExit(2 if name in QUICK_COMMANDS else 1) from None
    except KeyboardInterrupt:
        terminal.print_note("interrupted")
        raise SystemExit(130) from None
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(0) from None


def run_quick(name: str, arguments: list[str]) -> int:
    """Run a quick command; returns its exit status."""
    status: int = import_module(f"purlin.cli.{name}").run(arguments)
    return status


def _terminate(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt
