"""`purlin cache`: what searches keep on disk."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime

from purlin.cli import terminal
from purlin.cli.terminal import Parser, print_line

ABOUT = """List the indexes and clones that searches keep in the user's cache directory (PURLIN_CACHE),
least recently used first, or remove them all. Together they stay below 2 GiB; what was not used for
the longest time goes first. `build` indexes the repository around a directory with the better
vectors, which a first search leaves to a process in the background."""
EXAMPLE = "purlin cache build ~/projects/shop"

_LOWEST_PRIORITY = 19


def run(arguments: Sequence[str]) -> int:
    """Run the command; returns 0, or 1 if something could not be removed or built."""
    from purlin.index import cache

    parser = Parser("cache", "[list | clear | build [DIR]]", ABOUT, EXAMPLE)
    parser.add_argument("action", nargs="?", choices=("list", "clear", "build"), default="list")
    parser.add_argument("path", nargs="?", metavar="DIR", help="What is built [default: .].")
    parser.add_argument(
        "--docs", action="store_true", help="Build what `purlin ask` reads, not what is searched."
    )
    parser.add_argument("--background", action="store_true", help="Work at the lowest priority.")
    options = parser.parse_intermixed_args(arguments)
    action = options.action
    if action == "build":
        return _build(options.path or ".", docs=options.docs, in_background=options.background)
    if options.path or options.docs or options.background:
        parser.error(f"{action} takes no directory and no options")

    directory = cache.cache_directory()
    entries = cache.entries(directory)
    if action == "clear":
        in_use = [entry for entry in entries if not cache.remove(directory, entry)]
        for entry in in_use:
            terminal.print_note(
                f"{entry.root} stays: it is being indexed just now, or this user may not remove it"
            )
        print_line(f"{directory}: {len(entries) - len(in_use)} removed")
        return 1 if in_use else 0

    for entry in entries:
        used = datetime.fromtimestamp(entry.used)
        print_line(f"{used:%Y-%m-%d %H:%M}  {entry.bytes / 2**20:8.1f} MiB  {entry.root}")
    total = sum(entry.bytes for entry in entries)
    print_line(f"{directory}: {len(entries)} entries, {total / 2**20:.1f} MiB")
    return 0


def _build(path: str, *, docs: bool, in_background: bool) -> int:
    """Index a directory with the better vectors; returns 1 if their encoder cannot run here."""
    from purlin.index.encoder.transformer import TRANSFORMER_EXTRA
    from purlin.index.workspaces.better_vectors import build_better

    if in_background and hasattr(os, "nice"):
        os.nice(_LOWEST_PRIORITY)
    with terminal.progress() as progress:
        workspace = build_better(path, "reference" if docs else "code", progress=progress)
    if workspace is None:
        terminal.print_note(f"better vectors need a transformer's packages: {TRANSFORMER_EXTRA}")
        return 1
    with workspace:
        for note in workspace.notes:
            terminal.print_note(note)
    return 0
