"""`purlin classifier`: list, show, activate and delete trained classifiers."""

from __future__ import annotations

import json

import typer
from rich.table import Table
from rich.text import Text

from purlin.cli.console import HOME, Home, out, print_listed

app = typer.Typer(no_args_is_help=True, help="List, show, activate and delete trained classifiers.")


@app.command("list")
def classifier_list(home: Home = HOME) -> None:
    """List the classifiers.

    Example: purlin classifier list
    """
    from purlin.index import builds
    from purlin.index.builds.catalogs import CLASSIFIERS
    from purlin.index.classify.trained import read_classifier
    from purlin.index.errors import Damaged

    table = Table("classifier", "labels", "trained", "build", box=None, header_style="bold")
    problems = builds.inactive(home, CLASSIFIERS)
    for name in builds.names(home, CLASSIFIERS):
        try:
            directory = builds.current(home, name, CLASSIFIERS)
            spec = read_classifier(directory)
        except Damaged as error:
            table.add_row(name, Text("refused", "red"))
            problems.append(f"{name}: {error.message}")
            continue
        table.add_row(name, f"{len(spec.labels):,}", spec.created, directory.name)

    print_listed(table, problems, CLASSIFIERS)


@app.command("show")
def classifier_show(name: str, home: Home = HOME) -> None:
    """Show a classifier: its builds, its labels and how it was measured.

    Example: purlin classifier show tickets
    """
    from purlin.index import builds
    from purlin.index.builds.catalogs import CLASSIFIERS
    from purlin.index.classify.trained import TrainedClassifier

    try:
        directory = builds.current(home, name, CLASSIFIERS)
    finally:
        for build in builds.builds(home, name, CLASSIFIERS):
            out.print(f"build {build}")

    trained = TrainedClassifier.load(directory)
    out.print(f"active {directory.name}, all files as they were written")
    shown = {
        "name": name,
        "labels": trained.spec.labels,
        "created_at": trained.spec.created,
        "encoder": trained.encoder.name,
        "bytes": trained.bytes,
        "measures": trained.spec.measures,
    }
    out.print_json(json.dumps(shown))


@app.command("activate")
def classifier_activate(name: str, build: str, home: Home = HOME) -> None:
    """Make another build the active one; a running server follows.

    Example: purlin classifier activate tickets 20261121T093000123456-1a2b3c4d5e6f
    """
    from purlin.index.classify.trained import activate_classifier

    activate_classifier(home, name, build)
    out.print(f"{name}: {build} is active")


@app.command("delete")
def classifier_delete(name: str, home: Home = HOME) -> None:
    """Delete a classifier with all its builds.

    Example: purlin classifier delete old-tickets
    """
    from purlin.index import builds
    from purlin.index.builds.catalogs import CLASSIFIERS

    builds.delete(home, name, CLASSIFIERS)
    out.print(f"{name}: deleted")
