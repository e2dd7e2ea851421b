"""`purlin mcp`: tools for agents over stdio, and their entry in the agents' configurations."""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from purlin.cli import terminal
from purlin.cli.terminal import Parser, print_line, styled

if TYPE_CHECKING:
    from purlin.app.agents.backend import Backend
    from purlin.cli.agents import Change

ABOUT = """Answer an agent on stdin and stdout with the Model Context Protocol, until stdin ends. The
tools search the repository around a directory, and the corpora of a home. `purlin mcp install`
writes this command into the configuration of an agent, `purlin mcp uninstall` removes it."""
EXAMPLE = "purlin mcp --path ~/projects/shop"
INSTALL = """Add Purlin's tools to the configuration of agents, after showing the change."""
UNINSTALL = """Remove Purlin's tools from the configuration of agents, after showing the change."""


def run(arguments: Sequence[str]) -> int:
    """Run the command; returns 0, or 1 if a change was declined."""
    if arguments and arguments[0] in ("install", "uninstall"):
        return _configure(arguments[0], arguments[1:])
    _serve(arguments)
    return 0


# ---- serving


def _serve(arguments: Sequence[str]) -> None:
    from purlin.app.agents.mcp_stdio import StdioServer

    parser = Parser("mcp", "[install | uninstall] [options]", ABOUT, EXAMPLE)
    parser.add_argument(
        "--path", type=Path, default=Path(), metavar="DIR", help="The repository [default: .]."
    )
    parser.add_encoder()
    parser.add_home()
    options = parser.parse_args(arguments)

    logging.basicConfig(stream=sys.stderr, format="%(name)s: %(message)s")
    logging.getLogger("purlin").setLevel(logging.INFO)
    # Only messages may go to stdout: whatever else is printed goes to stderr.
    sys.stdout.flush()
    messages = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def open_backend() -> Backend:
        # Imported only now: `initialize` is answered before.
        from purlin.app.agents.local import LocalCorpora

        return LocalCorpora(options.path, options.home, options.encoder)

    StdioServer(open_backend, sys.stdin.buffer, messages).run()


# ---- configuring


def _configure(action: str, arguments: Sequence[str]) -> int:
    """Show what would change in the configuration of agents, and write it once it is confirmed."""
    from purlin.cli import agents
    from purlin.index.errors import InvalidInput
    from purlin.index.workspaces.repositories import find_root

    options = _parse_configure(action, arguments, list(agents.AGENTS))
    home = Path.home()
    project: Path | None = None
    # A home directory is no project, but one's own settings can be changed there.
    with contextlib.suppress(InvalidInput):
        project = find_root(Path())
    names: list[str] = options.agent or agents.in_use(home, project)
    if not names:
        raise InvalidInput(
            "No agent has settings here; name one: --agent " + " | ".join(agents.AGENTS) + ".",
            field="agent",
        )

    # All are planned before any is written: a file that is refused stops everything.
    remove = action == "uninstall"
    changes = [agents.planned(name, options.scope, home, project, remove=remove) for name in names]
    for change in changes:
        _print_change(change)
    pending = [change for change in changes if change.before != change.after]
    if not remove and options.scope == "project" and shutil.which(agents.NAME) is None:
        terminal.print_note(
            "warning: there is no `purlin` on the PATH of this shell, and agents start it by that name: "
            "install it with pipx, add its directory to PATH, or use --user, which names its full path"
        )
    if options.dry_run or not pending:
        return 0

    if not options.yes and not _confirmed():
        terminal.print_note("nothing was written")
        return 1
    for change in pending:
        change.write()
        print_line(f"{change.file}: written")
    return 0


def _parse_configure(
    action: str, arguments: Sequence[str], agents: Sequence[str]
) -> argparse.Namespace:
    about = INSTALL if action == "install" else UNINSTALL
    parser = Parser(f"mcp {action}", "[options]", about, f"purlin mcp {action} --agent claude-code")
    add = parser.add_argument

    add(
        "--agent",
        action="append",
        choices=agents,
        metavar="NAME",
        help=f"May be repeated; one of {', '.join(agents)} [default: those in use].",
    )
    add(
        "--project",
        dest="scope",
        action="store_const",
        const="project",
        default="project",
        help="The project's configuration [default].",
    )
    add("--user", dest="scope", action="store_const", const="user", help="Your own configuration.")
    add("--dry-run", action="store_true", help="Show the change, and write nothing.")
    add("--yes", "-y", action="store_true", help="Write without asking.")

    return parser.parse_args(arguments)


def _confirmed() -> bool:
    """Ask on the terminal. Raises InvalidInput where nobody can answer."""
    from purlin.index.errors import InvalidInput

    if not sys.stdin.isatty():
        raise InvalidInput("Nothing was written: add --yes to write without being asked.")
    sys.stderr.write("Write this? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _print_change(change: Change) -> None:
    """Print the difference that a change makes."""
    from difflib import unified_diff

    if change.before == change.after:
        print_line(f"{change.agent.title}: nothing to change in {change.file}")
        return
    print_line(styled(f"{change.agent.title}: {change.file}", terminal.BOLD))
    before, after = change.before.splitlines(), change.after.splitlines()
    for line in unified_diff(before, after, "before", "after", lineterm=""):
        style = {"+": terminal.GREEN, "-": terminal.RED}.get(line[:1], "")
        print_line(styled(line, style) if style else line)
