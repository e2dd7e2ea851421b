"""`purlin cache`: what searches keep on disk."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from purlin.cli import terminal
from purlin.cli.terminal import Parser, print_line

ABOUT = """List the indexes and clones that searches keep in the user's cache directory (PURLIN_CACHE),
least recently used first, or remove them all. Together they stay below 2 GiB; what was not used for
the longest time goes first."""
EXAMPLE = "purlin cache clear"


def run(arguments: Sequence[str]) -> int:
    """Run the command; returns 0, or 1 if something could not be removed."""
    from purlin.index import cache

    parser = Parser("cache", "[list | clear]", ABOUT, EXAMPLE)
    parser.add_argument("action", nargs="?", choices=("list", "clear"), default="list")
    action = parser.parse_args(arguments).action

    directory = cache.cache_directory()
    entries = cache.entries(directory)
    if action == "clear":
        in_use = [entry for entry in entries if not cache.remove(directory, entry)]
        for entry in in_use:
            terminal.print_note(f"{entry.root} is being indexed just now, and stays")
        print_line(f"{directory}: {len(entries) - len(in_use)} removed")
        return 1 if in_use else 0

    for entry in entries:
        used = datetime.fromtimestamp(entry.used)
        print_line(f"{used:%Y-%m-%d %H:%M}  {entry.bytes / 2**20:8.1f} MiB  {entry.root}")
    total = sum(entry.bytes for entry in entries)
    print_line(f"{directory}: {len(entries)} entries, {total / 2**20:.1f} MiB")
    return 0
