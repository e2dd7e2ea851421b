"""All commands in one tree, for `purlin --help` and the commands that are not quick."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from typing import Annotated

import typer

from purlin.cli import (
    QUICK_COMMANDS,
    classifier,
    evaluate,
    index,
    run_quick,
    serve,
    terminal,
    train,
)

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)


def _print_version(is_set: bool) -> None:
    if is_set:
        terminal.print_line(f"purlin {version('purlin-search')}")
        raise typer.Exit


@app.callback()
def _options(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Search over code and products, labels for texts, and answers from manuals."""


def _quick(name: str) -> Callable[[typer.Context], None]:
    def command(context: typer.Context) -> None:
        raise typer.Exit(run_quick(name, context.args))

    return command


for _name, _help in QUICK_COMMANDS.items():
    app.command(
        _name,
        help=_help,
        add_help_option=False,
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )(_quick(_name))

app.add_typer(index.app, name="index")
app.add_typer(classifier.app, name="classifier")
app.add_typer(train.app, name="train")
app.add_typer(evaluate.app, name="evaluate")
app.command("serve")(serve.serve)
app.command("key")(serve.key)
