"""The command line, `purlin COMMAND`.

The quick commands answer in a moment, so `argparse` parses them: Typer takes longer to load than they
take to answer. It parses the others: serve, key, index, train and evaluate. A package is imported
only when a command needs it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
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

    name = sys.argv[1] if len(sys.argv) > 1 else ""
    signal.signal(signal.SIGTERM, _end_server if name == "serve" else _terminate)
    # `nohup` has it ignored. A server goes on without its terminal, even while it starts.
    if signal.getsignal(signal.SIGHUP) == signal.SIG_DFL:
        signal.signal(signal.SIGHUP, _go_on if name == "serve" else _terminate)
    sys.unraisablehook = _repeat_interruption
    terminal.prepare_streams()
    try:
        if name in QUICK_COMMANDS:
            status = run_quick(name, sys.argv[2:])
            sys.stdout.flush()
            raise SystemExit(status)
        from purlin.cli.commands import app

        app()
    except PurlinError as error:
        terminal.print_error(error.message)
        raise SystemExit(2 if name in QUICK_COMMANDS else 1) from None
    except KeyboardInterrupt:
        terminal.print_note("interrupted")
        raise SystemExit(130) from None
    except BrokenPipeError:
        _drop_output()
        raise SystemExit(0) from None
    except (OSError, MemoryError) as error:
        terminal.print_error(_system_message(error))
        with contextlib.suppress(OSError):
            sys.stdout.flush()
        _drop_output()
        raise SystemExit(2 if name in QUICK_COMMANDS else 1) from None


def run_quick(name: str, arguments: list[str]) -> int:
    """Run a quick command; returns its exit status."""
    status: int = import_module(f"purlin.cli.{name}").run(arguments)
    return status


def _drop_output() -> None:
    """Let what is not yet printed go nowhere, so that no second error is printed at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _system_message(error: OSError | MemoryError) -> str:
    """What the system refused, and the remedy where it is the same for every file."""
    from purlin.index.errors import read_problem

    if isinstance(error, MemoryError):
        return "Memory ran out: raise the limit of this shell (`ulimit -v`) or of the container."
    if error.filename is None:
        return f"{error.strerror or error}."
    if isinstance(error, PermissionError):
        return f"{error.filename} {read_problem(error)}."
    return f"{error.filename}: {error.strerror}."


def _terminate(number: int, frame: object) -> NoReturn:
    """Undo what is under way, as Ctrl-C does."""
    raise KeyboardInterrupt


def _repeat_interruption(lost: sys.UnraisableHookArgs) -> None:
    """Raise an interruption again that was lost in a callback, as imports have them."""
    if lost.exc_type is KeyboardInterrupt:
        # After the callback, in which it would be lost again.
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGTERM)).start()
    else:
        sys.__unraisablehook__(lost)


def _go_on(number: int, frame: object) -> None:
    """Handle SIGHUP before the keys are read, which it has read again."""


def _end_server(number: int, frame: object) -> NoReturn:
    """End a server that is still starting, or that has finished what was under way."""
    os._exit(0)
