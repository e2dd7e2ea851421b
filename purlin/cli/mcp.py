"""`purlin mcp`: tools for agents over stdio, and their entry in the agents' configurations."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from purlin.cli import agents
from purlin.cli.console import HOME, Home, err, out, undone_if_interrupted
from purlin.index.errors import InvalidInput

if TYPE_CHECKING:
    from purlin.app.tools import Backend

AgentNames = Annotated[
    list[str] | None,
    typer.Option(
        "--agent", help=f"{', '.join(agents.AGENTS)}; may be repeated [default: those in use]."
    ),
]
OfProject = Annotated[
    bool,
    typer.Option("--project/--user", help="The project's configuration, or your own."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the change, and write nothing.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Write without asking.")]

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


@app.command("install")
def install(
    agent: AgentNames = None, project: OfProject = True, dry_run: DryRun = False, yes: Yes = False
) -> None:
    """Add Purlin's tools to the configuration of agents, after showing the change.

    Example: purlin mcp install --agent claude-code
    """
    _change(agents.installation, agent, "project" if project else "user", dry_run, yes)


@app.command("uninstall")
def uninstall(
    agent: AgentNames = None, project: OfProject = True, dry_run: DryRun = False, yes: Yes = False
) -> None:
    """Remove Purlin's tools from the configuration of agents, after showing the change.

    Example: purlin mcp uninstall --agent codex --user
    """
    _change(agents.removal, agent, "project" if project else "user", dry_run, yes)


def _change(
    plan: Callable[[str, agents.Scope, Path, Path], agents.Change],
    names: list[str] | None,
    scope: agents.Scope,
    dry_run: bool,
    yes: bool,
) -> None:
    """Show what would change in the configuration of the agents, and write it if that is wanted."""
    from purlin.index.repositories import find_root

    home, project = Path.home(), find_root(Path())
    if unknown := set(names or ()) - set(agents.AGENTS):
        raise InvalidInput(
            f"agent is {min(unknown)[:40]!r}; it must be one of {', '.join(agents.AGENTS)}.",
            field="agent",
        )
    if not names and not (names := agents.in_use(home, project)):
        raise InvalidInput(
            "No agent has settings here; name one: --agent " + " | ".join(agents.AGENTS) + ".",
            field="agent",
        )

    # All are planned before any is written: a file that is refused stops everything.
    changes = [plan(name, scope, home, project) for name in names]
    for change in changes:
        _show(change)
    pending = [change for change in changes if change.before != change.after]
    if dry_run or not pending:
        return

    if not yes:
        if not sys.stdin.isatty():
            raise InvalidInput("Nothing was written: add --yes to write without being asked.")
        if not typer.confirm("Write this?", err=True):
            err.print("nothing was written")
            return
    for change in pending:
        change.write()
        out.print(f"{change.file}: written", soft_wrap=True)


def _show(change: agents.Change) -> None:
    """Print the difference that a change makes."""
    from difflib import unified_diff

    if change.before == change.after:
        out.print(f"{change.agent.title}: nothing to change in {change.file}", soft_wrap=True)
        return
    out.print(f"{change.agent.title}: {change.file}", soft_wrap=True)
    lines = unified_diff(
        change.before.splitlines(), change.after.splitlines(), "before", "after", lineterm=""
    )
    for line in lines:
        out.print(line, soft_wrap=True)
