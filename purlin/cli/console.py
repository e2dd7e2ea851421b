"""What all commands share: consoles, options and progress bars."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from purlin.index.records import Mode

if TYPE_CHECKING:
    from purlin.index.builds.catalogs import Catalog
    from purlin.index.encoder import Purpose, TextEncoder

_WIDTH = 160  # columns where the output is no terminal
out = Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else _WIDTH)
err = Console(
    stderr=True, highlight=False, markup=False, width=None if sys.stderr.isatty() else _WIDTH
)

Home = Annotated[Path, typer.Option(envvar="PURLIN_HOME", help="Where corpora are kept.")]
EncoderDirectory = Annotated[
    Path | None,
    typer.Option(
        "--encoder",
        envvar="PURLIN_ENCODER",
        help="Encoder directory, or ensemble, transformer or static "
        "[default: transformer; ensemble for code and for products that are not in English].",
    ),
]
Filters = Annotated[
    list[str] | None,
    typer.Option(
        "--filter",
        help="FIELD=VALUE, FIELD!=VALUE, FIELD<=NUMBER or FIELD>=NUMBER; several values mean any of them.",
    ),
]
SearchMode = Annotated[Mode, typer.Option("--mode", help="Which retrievers score.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
HOME = Path("var")


class ShowProgress(Protocol):
    """Shows the progress of a command with several stages."""

    def __call__(
        self, stage: str, finished_count: int, total: int | None, remaining: str = ""
    ) -> None:
        """Show how much of a stage is done, and the time it has `remaining`, if it tells that itself."""


def print_listed(table: Table, problems: Sequence[str], catalog: Catalog) -> None:
    """Print what a home has. Problems stand below the table: in a column they would widen it."""
    if table.row_count:
        out.print(table)
    else:
        out.print(f"no {catalog.folder} yet; make one with {catalog.create}")
    for problem in problems:
        out.print(Text(problem, "red"), soft_wrap=True)


def open_encoder(
    directory: Path | None,
    *,
    purpose: Purpose | None = None,
    sample: Sequence[str] = (),
    tuned: bool = False,
    ray: str | None = None,
) -> TextEncoder:
    """Open an encoder directory, by default the released one that is best for a purpose and its texts.

    With `tuned`, it works by the plan that was measured for this machine; a new plan is printed.
    With `ray`, the address of a cluster, its workers encode.
    """
    from purlin.index.encoder import default_encoder, encoder_directory, is_static, load_encoder
    from purlin.index.encoder.transformer import TRANSFORMER_EXTRA

    chosen = default_encoder(purpose, sample) if directory is None else encoder_directory(directory)
    if directory is None and chosen != default_encoder(purpose):
        err.print(f"most products are not in English, so {chosen.name} is used")
    if directory is None and is_static(chosen):
        err.print(f"the static encoder is used; for the transformer: {TRANSFORMER_EXTRA}")
    if ray is not None:
        from purlin.index.encoder.ray_cluster import RayEncoder

        return RayEncoder(chosen, ray)
    if not tuned:
        return load_encoder(chosen)

    from purlin.index.encoder.tuning import is_news, load_tuned, summary

    encoder = load_tuned(chosen)
    if is_news(encoder):
        err.print(summary(encoder))
    return encoder


@contextlib.contextmanager
def progress_bars() -> Iterator[ShowProgress]:
    """Bars on a terminal, a plain line now and then elsewhere."""
    from purlin.index.pace import Lines, Pace

    if not err.is_terminal:
        yield Lines(err.print)
        return
    from rich import progress as bars

    columns = (
        bars.TextColumn("{task.description:>8}"),
        bars.BarColumn(bar_width=24),
        bars.MofNCompleteColumn(),
        bars.TextColumn("{task.fields[pace]}"),
    )
    with bars.Progress(*columns, console=err, transient=True) as shown:
        tasks: dict[str, bars.TaskID] = {}
        paces: dict[str, Pace] = {}

        def update(stage: str, finished_count: int, total: int | None, remaining: str = "") -> None:
            if stage not in tasks:
                paces[stage] = Pace(stage=stage)
                tasks[stage] = shown.add_task(stage, total=None, pace="")
            paces[stage].update(finished_count, total)
            shown.update(
                tasks[stage],
                completed=finished_count,
                total=total,
                pace=remaining or str(paces[stage]),
            )

        yield update


@contextlib.contextmanager
def undone_if_interrupted(line: str = "interrupted; nothing was changed") -> Iterator[None]:
    """Print `line` and exit with status 130 at Ctrl-C or SIGTERM."""
    try:
        yield
    except KeyboardInterrupt:
        err.print(line)
        raise typer.Exit(130) from None
