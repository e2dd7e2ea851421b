"""`purlin mcp`: tools for agents over stdio, and their entry in the agents' configurations."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from purlin.cli.console import HOME, Home, undone_if_interrupted

if TYPE_CHECKING:
    from purlin.app.tools import Backend

app = typer.Typer(
    invoke_without_command=True,
    help="Tools for agents over stdio; no server needed. `install` configures an agent.",
)


@app.callback()
def mcp(
    context: typer.Context,
    path: Annotated[
        Path, typer.Option(help="The repository, or a directory in it [default: the current one].")
    ] = Path(),
    home: Home = HOME,
    encoder: Annotated[
        str, typer.Option(help="The workspace's encoder: static, transformer, or a directory.")
    ] = "static",
) -> None:
    """Answer an agent on stdin and stdout with the Model Context Protocol, until stdin ends.

    Example: purlin mcp --path ~/projects/shop
    """
    if context.invoked_subcommand is not None:
        return
    from purlin.app.mcp_stdio import StdioServer

    logging.basicConfig(stream=sys.stderr, format="%(name)s: %(message)s")
    logging.getLogger("purlin").setLevel(logging.INFO)
    # Only messages may go to stdout: whatever else is printed goes to stderr.
    sys.stdout.flush()
    messages = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def open_backend() -> Backend:
        # Imported only now: `initialize` is answered before.
        from purlin.app.local import LocalCorpora

        return LocalCorpora(path, home, encoder)

    with undone_if_interrupted("interrupted"):
        StdioServer(open_backend, sys.stdin.buffer, messages).run()
