"""`purlin search`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from purlin.cli.console import (
    HOME,
    EncoderDirectory,
    Filters,
    Home,
    SearchMode,
    err,
    open_corpus,
    out,
    parse_filter,
)

if TYPE_CHECKING:
    from purlin.index.records import Hit


def search(
    name: Annotated[str, typer.Argument(help="The corpus.")],
    query: Annotated[str, typer.Argument(help="What to look for, in words or by name.")],
    k: Annotated[int, typer.Option("-k", help="How many hits.")] = 5,
    offset: Annotated[int, typer.Option(help="How many hits to pass over.")] = 0,
    mode: SearchMode = "hybrid",
    filter: Filters = None,
    lines: Annotated[int, typer.Option(help="Lines of text per hit.")] = 8,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per hit.")] = False,
    home: Home = HOME,
    encoder: EncoderDirectory = None,
) -> None:
    """Search a corpus.

    Example: purlin search code "remove a directory tree" --filter role=source
    """
    corpus = open_corpus(home, name, encoder)
    result = corpus.search(query, k=k, offset=offset, mode=mode, filter=parse_filter(filter))
    for hit in result.hits:
        if as_json:
            from dataclasses import asdict

            print(json.dumps(asdict(hit), ensure_ascii=False))  # noqa: T201
        else:
            _print_hit(hit, lines)
    if not result.hits:
        err.print("no hits")
    corpus.close()


def _print_hit(hit: Hit, lines: int) -> None:
    scores = "  ".join(f"{name} {score:.2f}" for name, score in hit.scores.items())
    out.print(
        Text.assemble(
            (f"{hit.rank}. ", "bold"),
            (hit.title, "bold cyan"),
            f"  {hit.score:.2f}  ",
            (f"({scores})", "dim"),
        )
    )
    location = hit.location.url or hit.location.path
    if hit.location.path and hit.location.start_line:
        location = f"{hit.location.path}:{hit.location.start_line}-{hit.location.end_line}"
    if location:
        out.print(Text(f"   {location}", "green"))
    text = Text(hit.text)
    for start, end in hit.highlights:
        text.stylize("bold yellow", start, end)
    shown = text.split("\n", allow_blank=True)[:lines]
    for line in shown:
        out.print(Text("   │ ", "dim") + line, no_wrap=True, overflow="ellipsis")
    out.print()
