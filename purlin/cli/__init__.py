"""The command line: `purlin serve | index | search | train | evaluate`.

A package is imported only when a command needs it, so that `purlin --help` and light commands stay
quick.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import NoReturn

import typer
from rich.text import Text

from purlin.cli import evaluate, index, mcp, search, serve, train
from purlin.cli.console import err

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
app.add_typer(index.app, name="index")
app.add_typer(mcp.app, name="mcp")
app.add_typer(train.app, name="train")
app.add_typer(evaluate.app, name="evaluate")
app.command("search")(search.search)
app.command("serve")(serve.serve)
app.command("key")(serve.key)


def main() -> None:
    """Run the command line; an expected error is one line on stderr and exit status 1."""
    from purlin.index.errors import PurlinError

    signal.signal(signal.SIGTERM, _terminate)  # as Ctrl-C: what is under way is undone
    try:
        app()
    except PurlinError as error:
        err.print(Text.assemble(("error: ", "bold red"), error.message))
        raise SystemExit(1) from None
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(0) from None


def _terminate(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt
