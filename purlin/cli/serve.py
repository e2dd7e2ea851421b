"""`purlin serve` and `purlin key`."""

from __future__ import annotations

import contextlib
import logging
import logging.config
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from purlin.cli.console import HOME, EncoderDirectory, Home, err, out


def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="Port to listen on.")] = None,
    demo: Annotated[
        bool | None,
        typer.Option(
            "--demo/--no-demo", help="Build missing demo corpora in the background.  [PURLIN_DEMO]"
        ),
    ] = None,
    watch: Annotated[
        bool | None,
        typer.Option(
            "--watch/--no-watch",
            help="Index the sources of corpora again when they change.  [PURLIN_WATCH]",
        ),
    ] = None,
    workers: Annotated[
        str | None,
        typer.Option(
            metavar="N",
            help="Processes that answer requests; auto is one per CPU.  [PURLIN_WORKERS]",
        ),
    ] = None,
    home: Home = HOME,
    encoder: EncoderDirectory = None,
) -> None:
    """Serve the corpora over HTTP; newly activated builds are picked up while it runs.

    Example: purlin serve --demo --port 8000
    """
    from purlin.app.settings import Settings

    options: dict[str, Any] = {
        "host": host,
        "port": port,
        "demo": demo,
        "watch": watch,
        "workers": workers,
        "home": home,
        "encoder": encoder,
    }
    settings = Settings.read({name: value for name, value in options.items() if value is not None})
    with _logged(settings.log):
        if settings.workers > 1:
            from purlin.app.workers import supervise

            supervise(settings)
            return

        from purlin.app.main import serve as run

        with contextlib.suppress(KeyboardInterrupt):  # the server has finished what was under way
            run(settings)


@contextlib.contextmanager
def _logged(form: str) -> Iterator[None]:
    """Write why the server cannot start as its log is written: one who reads JSON reads no other line."""
    from purlin.app import logs
    from purlin.index.errors import PurlinError

    try:
        yield
    except PurlinError as error:
        if form != "json":
            raise
        logging.config.dictConfig(logs.config(form))
        logging.getLogger("purlin.main").error("%s", error.message)
        raise typer.Exit(1) from None


def key(
    name: Annotated[str, typer.Argument(help="Whose key it is; logs show this name.")],
    scopes: Annotated[
        list[str], typer.Argument(help="What it may do: search, classify, qa, admin.")
    ],
    per_minute: Annotated[
        int | None, typer.Option(min=1, help="Requests per minute [default: no limit].")
    ] = None,
) -> None:
    """Make an API key: shown once on stderr; the line for PURLIN_KEYS or the file PURLIN_KEYS_FILE goes to stdout.

    Example: purlin key shop search qa --per-minute 600 >> keys
    """
    from purlin.app.keys import new_key

    secret, line = new_key(name, scopes, per_minute)
    err.print(f"the key of {name}, shown only now:\n{secret}", soft_wrap=True)
    out.print(line, soft_wrap=True)
