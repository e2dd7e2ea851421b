"""The front door: `purlin serve | index | search | train | evaluate`.

A package is imported only when a command needs it, so that `purlin --help` and the light commands stay quick.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, Protocol

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from purlin.index.records import Kind, Mode, Secondary, Splitter

if TYPE_CHECKING:
    from purlin.index.builds import Manifest
    from purlin.index.encoder import Encoder
    from purlin.index.indexing.gate import Judgements
    from purlin.index.records import Hit
    from purlin.index.search.corpus import Corpus
    from purlin.index.search.store import Scalar

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
index_app = typer.Typer(
    no_args_is_help=True, help="Build, list, show, activate and delete corpora."
)
train_app = typer.Typer(
    no_args_is_help=True, help="Train and export encoders (needs the training extra)."
)
evaluate_app = typer.Typer(no_args_is_help=True, help="Measure a corpus on judged queries.")
app.add_typer(index_app, name="index")
app.add_typer(train_app, name="train")
app.add_typer(evaluate_app, name="evaluate")

_WIDTH = 160  # columns where the output is no terminal
out = Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else _WIDTH)
err = Console(
    stderr=True, highlight=False, markup=False, width=None if sys.stderr.isatty() else _WIDTH
)

Home = Annotated[Path, typer.Option(envvar="PURLIN_HOME", help="Where corpora are kept.")]
EncoderDirectory = Annotated[
    Path | None,
    typer.Option(
        "--encoder", envvar="PURLIN_ENCODER", help="Encoder directory [default: the released one]."
    ),
]
Filters = Annotated[
    list[str] | None,
    typer.Option("--filter", help="FIELD=VALUE; several for one field mean any of them."),
]
DenseWeight = Annotated[
    float | None,
    typer.Option(min=0, max=1, help="Share of the dense score in hybrid ones [default: by kind]."),
]
QueryLogFile = Annotated[
    Path | None,
    typer.Option(
        help="JSON Lines {query, document}: earlier queries that find those documents, too."
    ),
]
SearchMode = Annotated[Mode, typer.Option("--mode", help="Which retrievers score.")]
Recipe = Annotated[Path, typer.Option(help="The recipe, such as those in configs/.")]
Data = Annotated[
    Path | None,
    typer.Option(help="What the recipe's paths are relative to [default: its directory]."),
]
Made = Annotated[
    Path | None,
    typer.Option(
        "--out",
        help="Where checkpoints and results go [default: training/NAME below --home, or var].",
    ),
]
Cpu = Annotated[bool, typer.Option("--cpu", help="Leave a GPU unused.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
HOME = Path("var")


class _Progress(Protocol):
    def __call__(self, stage: str, done: int, total: int | None, remaining: str = "") -> None:
        """Show how much of a stage is done, and what it says itself of the time it has left."""


def main() -> None:
    """Run the command line; an expected error is one line on stderr and exit status 1."""
    from purlin.index.errors import PurlinError

    signal.signal(signal.SIGTERM, _terminate)  # as Ctrl-C: what is under way is undone
    try:
        app()
    except PurlinError as error:
        err.print(Text.assemble(("error: ", "bold red"), error.message))
        raise SystemExit(1) from None
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(0) from None


def _terminate(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt


def _encoder(directory: Path | None) -> Encoder:
    from purlin.index.encoder import RELEASED_ENCODER, Encoder

    return Encoder.load(directory or RELEASED_ENCODER)


def _open_corpus(home: Path, name: str, encoder: Path | None) -> Corpus:
    from purlin.index import builds
    from purlin.index.search.corpus import Corpus

    corpus = Corpus.load(builds.current(home, name), _encoder(encoder))
    if corpus.warning is not None:
        err.print(f"warning: {corpus.warning}")
    return corpus


@contextlib.contextmanager
def _progress() -> Iterator[_Progress]:
    """Bars on a terminal, a plain line now and then elsewhere."""
    from purlin.index.pace import Lines, Pace

    if not err.is_terminal:
        yield Lines(err.print)
        return
    from rich import progress as bars

    columns = (bars.TextColumn("{task.description:>8}"), bars.BarColumn(bar_width=24), bars.MofNCompleteColumn(),
               bars.TextColumn("{task.fields[pace]}"))  # fmt: skip
    with bars.Progress(*columns, console=err, transient=True) as shown:
        tasks: dict[str, bars.TaskID] = {}
        paces: dict[str, Pace] = {}

        def update(stage: str, done: int, total: int | None, remaining: str = "") -> None:
            if stage not in tasks:
                paces[stage] = Pace()
                tasks[stage] = shown.add_task(stage, total=None, pace="")
            paces[stage].update(done, total)
            shown.update(
                tasks[stage], completed=done, total=total, pace=remaining or str(paces[stage])
            )

        yield update


@contextlib.contextmanager
def _undone_if_interrupted(line: str = "interrupted; nothing was changed") -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        err.print(line)
        raise typer.Exit(130) from None


def _filter(conditions: list[str] | None) -> dict[str, list[Scalar]] | None:
    """`["language=python", "year=2020"]` -> a filter; a value that reads as a number means both text and number."""
    from purlin.index.errors import InvalidInput

    values_of: dict[str, list[Scalar]] = {}
    for text in conditions or []:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise InvalidInput(
                f"--filter takes FIELD=VALUE; {text[:80]!r} was given.", field="filter"
            )
        values_of.setdefault(name, []).append(value)
        with contextlib.suppress(ValueError):
            values_of[name].append(float(value))
    return values_of or None


# ---- index


@index_app.command("build")
def index_build(
    kind: Annotated[Kind, typer.Argument(help="What the sources hold.")],
    paths: Annotated[
        list[Path], typer.Argument(help="Directories, files, or a BEIR corpus.jsonl[.gz].")
    ],
    name: Annotated[str, typer.Option(help="The corpus's name.")],
    home: Home = HOME,
    encoder: EncoderDirectory = None,
    splitter: Annotated[
        Splitter | None, typer.Option(help="How bodies become passages [default: by kind].")
    ] = None,
    secondary: Annotated[
        Secondary, typer.Option(help="Test, vendored, generated and minified code.")
    ] = "demote",
    base_url: Annotated[
        str, typer.Option(help="Where the reference is on the web, for links.")
    ] = "",
    dense_weight: DenseWeight = None,
    query_log: QueryLogFile = None,
    queries: Annotated[
        Path | None, typer.Option(help="BEIR queries to measure the build with; needs --qrels.")
    ] = None,
    qrels: Annotated[
        Path | None,
        typer.Option(
            help="Their judged documents, BEIR's .tsv, or TREC's with %XX in ids decoded."
        ),
    ] = None,
    measure: Annotated[
        str, typer.Option(help="What decides: ndcg@10, mrr@100 or recall@100.")
    ] = "ndcg@10",
    force: Annotated[
        bool, typer.Option("--force", help="Activate the build even if it measures worse.")
    ] = False,
) -> None:
    """Build a corpus and make it the active one; unchanged files are not read or encoded again.

    With --queries and --qrels a build that answers them worse than the active one is kept, but not activated.

    Example: purlin index build code ~/src/project --name project
    """
    from purlin.index.indexing.build import Options, build
    from purlin.index.search.query_log import read_log
    from purlin.index.sources import open_source

    log = read_log(query_log) if query_log else []
    judged = _judgements(queries, qrels, measure, force)
    sources = open_source(kind, paths, secondary=secondary, base_url=base_url)
    options = Options(splitter, dense_weight, secondary == "demote", log)
    origin = tuple(str(path.absolute()) for path in paths)
    with _undone_if_interrupted(), _progress() as progress:
        manifest = build(home, name, kind, sources, _encoder(encoder), options=options, origin=origin,
                         progress=progress, judged=judged, force=force)  # fmt: skip
    _report(home, manifest)
    if log:
        out.print(f"query log: {manifest.logged:,} of {len(log):,} queries lead to its documents")


def _judgements(
    queries: Path | None, qrels: Path | None, measure: str, force: bool
) -> Judgements | None:
    from purlin.index.errors import InvalidInput
    from purlin.index.indexing.gate import Judgements

    if queries is not None and qrels is not None:
        return Judgements.read(queries, qrels, measure)
    if queries is not None or qrels is not None:
        raise InvalidInput(
            "--queries and --qrels go together: give both, or neither.", field="queries"
        )
    if force:
        raise InvalidInput(
            "--force overrules measures: give --queries and --qrels, too.", field="force"
        )
    return None


def _report(home: Path, manifest: Manifest) -> None:
    from purlin.index.indexing.gate import measurement_summary

    rate = (manifest.passages - manifest.reused) / max(manifest.took_s, 0.001)
    out.print(
        f"[bold]{manifest.name}[/]: {manifest.documents:,} documents, {manifest.passages:,} passages "
        f"({manifest.reused:,} unchanged) in {manifest.took_s:.1f} s"
        + (f", {rate:,.0f} new passages/s" if manifest.passages > manifest.reused else ""),
        markup=True,
    )
    if measured := measurement_summary(manifest):
        out.print(measured)
    if manifest.skipped:
        out.print(f"{manifest.skipped:,} left out; `purlin index show {manifest.name}` lists them")


@index_app.command("list")
def index_list(home: Home = HOME) -> None:
    """List the corpora.

    Example: purlin index list
    """
    from purlin.index import builds
    from purlin.index.errors import Damaged

    table = Table(
        "corpus", "kind", "documents", "passages", "build", "encoder", box=None, header_style="bold"
    )
    for name in builds.corpora(home):
        try:
            directory = builds.current(home, name)
            manifest = builds.read_manifest(directory)
        except Damaged as error:
            table.add_row(name, Text(error.message, "red"))
            continue
        counts = (f"{manifest.documents:,}", f"{manifest.passages:,}")
        table.add_row(name, manifest.kind, *counts, directory.name, str(manifest.encoder["name"]))
    if table.row_count:
        out.print(table)
    else:
        out.print("no corpora yet; make one with `purlin index build`")


@index_app.command("show")
def index_show(
    name: str,
    home: Home = HOME,
    skipped: Annotated[int, typer.Option(help="How many of the files left out to list.")] = 20,
) -> None:
    """Show a corpus: its builds, what it holds, and what was left out of it.

    Example: purlin index show code --skipped 100
    """
    from purlin.index import builds
    from purlin.index.search.store import Store

    try:
        directory = builds.current(home, name)
    finally:
        for build in builds.builds(home, name):
            out.print(f"build {build}")
    manifest = builds.read_manifest(directory)
    builds.verify(directory, manifest)
    shown = json.loads(manifest.to_json())
    shown["files"] = {
        file: f"{details['bytes']:,} bytes" for file, details in manifest.files.items()
    }
    out.print(f"active {directory.name}, all files as they were written")
    out.print_json(json.dumps(shown))
    store = Store(directory / "documents.sqlite", manifest.kind)
    out.print(
        f"fields: {', '.join(store.field_names[:60])}"
        + (" ..." if len(store.field_names) > 60 else "")
    )
    for file in store.skipped(skipped):
        out.print(
            f"left out: {file.path}" + (f":{file.line}" if file.line else "") + f": {file.reason}"
        )
    store.close()


@index_app.command("activate")
def index_activate(
    name: str,
    build: str,
    home: Home = HOME,
    force: Annotated[
        bool, typer.Option("--force", help="Even one that was refused, as it measured worse.")
    ] = False,
) -> None:
    """Make another build the active one; a running server follows.

    Example: purlin index activate code 20261121T093000123456-1a2b3c4d5e6f
    """
    from purlin.index import builds

    builds.activate(home, name, build, force=force)
    out.print(f"{name}: {build} is active")


@index_app.command("delete")
def index_delete(name: str, home: Home = HOME) -> None:
    """Delete a corpus with all its builds.

    Example: purlin index delete old-project
    """
    from purlin.index import builds

    builds.delete(home, name)
    out.print(f"{name}: deleted")


@index_app.command("demo")
def index_demo(home: Home = HOME, encoder: EncoderDirectory = None) -> None:
    """Build those of the demo corpora that are missing.

    Example: purlin index demo
    """
    _build_demo(home, encoder)


# ---- search


@app.command("search")
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
    corpus = _open_corpus(home, name, encoder)
    result = corpus.search(query, k=k, offset=offset, mode=mode, filter=_filter(filter))
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


# ---- serve


@app.command("serve")
def serve_command(
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="Port to listen on.")] = None,
    demo: Annotated[
        bool,
        typer.Option("--demo/--no-demo", help="Build the demo corpora first if they are missing."),
    ] = False,
    home: Home = HOME,
    encoder: EncoderDirectory = None,
) -> None:
    """Serve the corpora over HTTP; newly activated builds are picked up while it runs.

    Example: purlin serve --demo --port 8000
    """
    from purlin.app.main import serve as run
    from purlin.app.settings import Settings

    options: dict[str, Any] = {"host": host, "port": port, "home": home, "encoder": encoder}
    settings = Settings.read({name: value for name, value in options.items() if value is not None})
    if demo:
        _build_demo(home, encoder)
    with contextlib.suppress(KeyboardInterrupt):  # the server has finished what was under way
        run(settings)


@app.command("key")
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
    from purlin.app.access import new_key

    secret, line = new_key(name, scopes, per_minute)
    err.print(f"the key of {name}, shown only now:\n{secret}", soft_wrap=True)
    out.print(line, soft_wrap=True)


def _build_demo(home: Path, encoder: Path | None) -> None:
    from purlin.index import builds
    from purlin.index.demo import demos
    from purlin.index.indexing.build import build

    missing = [demo for demo in demos() if demo.name not in builds.corpora(home)]
    if not missing:
        return
    loaded = _encoder(encoder)
    for number, demo in enumerate(missing, 1):
        out.print(
            f"building demo corpus {number} of {len(missing)}, [bold]{demo.name}[/] ({demo.about}) ...",
            markup=True,
        )
        with _undone_if_interrupted(), _progress() as progress:
            manifest = build(
                home,
                demo.name,
                demo.kind,
                demo.sources(),
                loaded,
                origin=(demo.about,),
                progress=progress,
            )
        _report(home, manifest)


# ---- train, evaluate


@train_app.command("export")
def train_export(
    checkpoint: Annotated[
        Path,
        typer.Argument(
            help="A sentence-transformers or Hugging Face checkpoint directory, or an 8-bit encoder or reader that an "
            "earlier version exported."
        ),
    ],
    to: Annotated[Path, typer.Option(help="The encoder directory to write.")],
    name: Annotated[
        str | None, typer.Option(help="The encoder's name; an exported one keeps its own.")
    ] = None,
    base_model: Annotated[
        str, typer.Option(help="For the model card: what was trained from.")
    ] = "unknown",
    base_licence: Annotated[
        str, typer.Option(help="For the model card: the base's licence.")
    ] = "unknown",
    fp32: Annotated[
        bool, typer.Option("--fp32", help="Keep 32-bit weights instead of 8-bit ones.")
    ] = False,
) -> None:
    """Export a checkpoint as an encoder directory, after comparing its vectors with the checkpoint's.

    An exported 8-bit encoder or reader is written again, with weights that give the same results with and without
    VNNI instructions.

    Example: purlin train export var/training/santa/finetune/step-000400 --to models/santa --name santa
    """
    _need_training()
    from purlin.index.errors import InvalidInput
    from purlin.training.export import Card, export, export_again, is_exported

    if is_exported(checkpoint):
        if fp32 or name is not None:
            raise InvalidInput(
                "An exported encoder keeps its name and its 8 bits: leave --name and --fp32 out."
            )
        export_again(checkpoint, to)
        out.print(f"{to}: written")
        return

    if name is None:
        raise InvalidInput("Give the encoder a name: --name NAME.", field="name")
    card = Card(name, base_model=base_model, base_licence=base_licence)
    export(checkpoint, to, card, quantization="none" if fp32 else "int8")
    out.print(f"{to}: written")


@train_app.command("santa")
def santa_command(config: Recipe, data: Data = None, to: Made = None, cpu: Cpu = False) -> None:
    """Train a retrieval encoder on pairs of text and structured data (SANTA), and export it.

    A run that was interrupted goes on from its last checkpoint when it is started again. Several GPUs or machines:
    accelerate launch -m purlin train santa ...; several processes on CPUs: torchrun --nproc_per_node 2 -m purlin ...

    Example: purlin train santa --config configs/santa-minilm.toml --data DATA
    """
    _need_training()
    from purlin.training import santa

    directory = _trained(santa.train_santa, santa.SantaRecipe, config, data, to, cpu)
    out.print(f"{directory}: written; use it with `purlin index build ... --encoder {directory}`")


@train_app.command("refqa")
def refqa_command(config: Recipe, data: Data = None, to: Made = None, cpu: Cpu = False) -> None:
    """Train a reader, which finds answers in passages of references, or a retriever, which finds the passages.

    A recipe with [[asked]] makes a reader, one with [[pairs]] a retriever, an encoder as `train santa` makes them, with
    one model for questions and passages or two as in DPR. A run that was interrupted goes on when it is started again.

    Example: purlin train refqa --config configs/refqa-minilm.toml --data DATA
    """
    _need_training()
    from purlin.training import config as recipes
    from purlin.training import reader

    if "asked" in recipes.read_toml(config):
        directory = _trained(reader.train_reader, reader.ReaderRecipe, config, data, to, cpu)
        out.print(f"{directory}: written; the server takes it with PURLIN_READER={directory}")
    else:
        santa_command(config, data, to, cpu)


@train_app.command("pesco")
def pesco_command(
    texts: Annotated[
        Path, typer.Option(help='Unlabelled texts: .jsonl[.gz] of {"text": ...}, or one a line.')
    ],
    labels: Annotated[Path, typer.Option(help="Label names, one a line.")],
    name: Annotated[str, typer.Option(help="The classifier's name.")],
    templates: Annotated[
        Path | None, typer.Option(help="Prompts, one a line, with {label} [default: the recipe's].")
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="A recipe [default: as configs/pesco-minilm.toml].")
    ] = None,
    dev: Annotated[
        Path | None,
        typer.Option(help="Labelled rows {text, label} to measure on; nothing is chosen by them."),
    ] = None,
    to: Made = None,
    home: Home = HOME,
    cpu: Cpu = False,
) -> None:
    """Train a classifier from label names and unlabelled texts (PESCO), and publish it to the server.

    A run that was interrupted goes on when it is started again.

    Example: purlin train pesco --texts tickets.jsonl --labels labels.txt --name tickets
    """
    _need_training()
    from purlin.training.pesco import self_training
    from purlin.training.pesco import texts as read
    from purlin.training.pesco.publishing import REPORT
    from purlin.training.pesco.recipe import read_recipe

    recipe = read_recipe(config, templates)
    names = read.read_labels(labels)
    pool = read.read_pool(texts, labels=len(names), limit=recipe.limit, seed=recipe.seed)
    dev_texts = read.read_labelled_texts(dev, names) if dev else None
    run_dir = to or home / "training" / name
    with (
        _undone_if_interrupted("interrupted; the same command goes on where it stopped"),
        _progress() as tell,
    ):
        built = self_training.train_pesco(
            recipe,
            pool,
            names,
            name=name,
            out=run_dir,
            home=home,
            dev=dev_texts,
            progress=_steps(tell),
            say=err.print,
            cpu=cpu,
        )
    out.print(
        f"{built}: published; POST /classify takes it as classifier {name!r}. Report: {run_dir / REPORT}"
    )


def _trained(
    train: Callable[..., Path],
    recipe_type: Any,
    config: Path,
    data: Path | None,
    to: Path | None,
    cpu: bool,
) -> Path:
    """Run `train` on the recipe of `recipe_type` at `config`; return the exported directory."""
    from purlin.training.config import load_recipe

    recipe = load_recipe(config, recipe_type, data=data)
    with (
        _undone_if_interrupted("interrupted; the same command goes on from the last checkpoint"),
        _progress() as tell,
    ):
        return train(
            recipe,
            to or HOME / "training" / recipe.name,
            progress=_steps(tell),
            say=err.print,
            cpu=cpu,
        )


def _steps(tell: _Progress) -> Callable[[str], Callable[[int, int, Mapping[str, float]], None]]:
    """For each stage its progress and time left, and a line whenever the dev sets were measured."""

    def of_stage(name: str) -> Callable[[int, int, Mapping[str, float]], None]:
        def step(number: int, total: int, values: Mapping[str, float]) -> None:
            remaining = _time_left(values.get("seconds_left", 0.0))
            tell(name, number, total, remaining)
            if measured := [
                f"{key} {value:.4f}" for key, value in values.items() if key.startswith("dev ")
            ]:
                shown = [
                    f"loss {values['loss']:.4f}",
                    *measured,
                    f"{values['pairs_per_s']:.1f} pairs/s",
                    remaining,
                ]
                err.print(f"{name} {number:,}: {', '.join(filter(None, shown))}")

        return step

    return of_stage


def _time_left(seconds: float, now: datetime | None = None) -> str:
    """Say e.g. 'about 34 min left, until 14:05'; nothing for 0 s, no time of day below two minutes."""
    if seconds <= 0:
        return ""
    if seconds < 120:
        return f"about {math.ceil(seconds)} s left"

    now = now or datetime.now().astimezone()
    end = now + timedelta(seconds=seconds)
    day = "" if end.date() == now.date() else f"{end:%b} {end.day}, "
    hours = seconds / 3600
    duration = f"{hours:.1f} h" if hours < 48 else f"{hours / 24:.1f} days"
    if hours < 2:
        duration = f"{seconds / 60:.0f} min"
    return f"about {duration} left, until {day}{end:%H:%M}"


def _need_training() -> None:
    from importlib.util import find_spec

    from purlin.index.errors import NotFound

    if missing := [
        name for name in ("torch", "transformers", "accelerate") if find_spec(name) is None
    ]:
        raise NotFound(
            f"Training needs {', '.join(missing)}. Run `make install-dev`, or pip install 'purlin[training]'."
        )
    if not err.is_terminal:
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")  # transformers' bars too


@evaluate_app.command("search")
def evaluate_search(
    corpus: Annotated[str, typer.Option(help="The corpus.")],
    queries: Annotated[Path, typer.Option(help="BEIR queries.jsonl[.gz].")],
    qrels: Annotated[
        Path, typer.Option(help="BEIR qrels .tsv, or TREC qrels; in these, %XX in ids is decoded.")
    ],
    mode: SearchMode = "hybrid",
    filter: Filters = None,
    run: Annotated[
        Path | None,
        typer.Option(
            help="Write the ranking as a TREC run file; white space, control characters and % in ids become %XX."
        ),
    ] = None,
    as_json: AsJson = False,
    home: Home = HOME,
    encoder: EncoderDirectory = None,
) -> None:
    """Measure a corpus on judged queries: MRR@100, nDCG@10 and recall@100, with 95 % intervals.

    Example: purlin evaluate search --corpus cosqa --queries queries.jsonl --qrels qrels/dev.tsv --mode dense
    """
    from purlin.index.evaluation import ranking
    from purlin.index.indexing.gate import Judgements, run_queries

    opened = _open_corpus(home, corpus, encoder)
    judged = Judgements(ranking.read_queries(queries), ranking.read_qrels(qrels))
    with _progress() as tell:
        hits = run_queries(
            opened, judged, mode=mode, filter=_filter(filter), progress=partial(tell, "search")
        )
    if run is not None and (escaped := ranking.write_run(run, hits)):
        err.print(
            f"{run}: {escaped:,} ids hold white space, control characters or %; they are percent-encoded there "
            "(a space is %20), as TREC's columns need. TREC qrels for other tools need the same."
        )
    _print_measures(ranking.evaluate_run(hits, judged.qrels), as_json)
    opened.close()


@evaluate_app.command("classify")
def evaluate_classify(
    rows: Annotated[Path, typer.Option(help="JSON Lines {text, label}, gzipped or not.")],
    labels: Annotated[Path | None, typer.Option(help="Label names, one a line.")] = None,
    classifier: Annotated[
        str | None, typer.Option(help="A classifier made by `purlin train pesco`.")
    ] = None,
    template: Annotated[
        list[str] | None, typer.Option(help="With {label} in it; may be repeated.")
    ] = None,
    min_score: Annotated[
        float, typer.Option(min=0, max=1, help="Below it no label is given.")
    ] = 0.0,
    as_json: AsJson = False,
    home: Home = HOME,
    encoder: EncoderDirectory = None,
) -> None:
    """Measure label names, or a trained classifier, on labelled texts: accuracy and recalls, with 95 % intervals.

    Example: purlin evaluate classify --rows dev.jsonl --labels labels.txt --template "This is about {label}."
    """
    from purlin.index import builds
    from purlin.index.classify.trained import TrainedClassifier
    from purlin.index.classify.zero_shot import DEFAULT_TEMPLATES, Classifier
    from purlin.index.errors import InvalidInput
    from purlin.index.evaluation import labels as labelled
    from purlin.index.evaluation.ranking import read_list

    if (labels is None) == (classifier is None) or (template and classifier):
        raise InvalidInput(
            "Give either --labels, with or without --template, or --classifier.", field="labels"
        )
    texts, truth = labelled.read_labelled(rows)
    if labels is not None:
        names = read_list(labels)
        labelled.check_truth(truth, names)
        by_names = Classifier(_encoder(encoder))
        results = by_names.classify(
            texts, names, templates=template or DEFAULT_TEMPLATES, min_score=min_score
        )
    else:
        trained = TrainedClassifier.load(builds.current(home, str(classifier), builds.CLASSIFIERS))
        labelled.check_truth(truth, trained.spec.labels)
        results = trained.classify(texts, min_score=min_score)
    _print_measures(labelled.evaluate_labels(results, truth), as_json)


@evaluate_app.command("qa")
def evaluate_qa(
    corpus: Annotated[str, typer.Option(help="A corpus of kind reference.")],
    questions: Annotated[
        list[Path],
        typer.Option(
            help="JSON Lines as in questions/; may be repeated, such as with unanswerable ones."
        ),
    ],
    split: Annotated[
        str | None, typer.Option(help="Only questions of this split, dev or test.")
    ] = None,
    reader: Annotated[
        Path | None, typer.Option(envvar="PURLIN_READER", help="A reader directory.")
    ] = None,
    no_reader: Annotated[
        bool, typer.Option("--no-reader", help="Measure the search alone.")
    ] = False,
    depth: Annotated[
        int | None, typer.Option(min=1, max=100, help="Passages that are read.")
    ] = None,
    as_json: AsJson = False,
    home: Home = HOME,
    encoder: EncoderDirectory = None,
) -> None:
    """Measure answers to questions: passages found, exact match, F1, and whether it knows what it cannot answer.

    Example: purlin evaluate qa --corpus python --questions questions/python.jsonl --split dev
    """
    from purlin.index.evaluation.answers import answer_measures, read_questions
    from purlin.index.qa.ask import READ_DEPTH
    from purlin.index.qa.judging import judge_corpus
    from purlin.index.qa.reader import RELEASED_READER, Reader

    question_set = [question for path in questions for question in read_questions(path, split)]
    opened = _open_corpus(home, corpus, encoder)
    loaded = None if no_reader else Reader.load(reader or RELEASED_READER)
    with _progress() as tell:
        judged = judge_corpus(
            opened,
            loaded,
            question_set,
            depth=depth or READ_DEPTH,
            progress=lambda done: tell("questions", done, len(question_set)),
        )
    shown = [
        measure
        for measure in answer_measures(judged)
        if loaded or measure.name not in ("exact match", "F1")
    ]
    _print_measures(shown, as_json)
    opened.close()


def _print_measures(measures: list[Any], as_json: bool) -> None:
    from dataclasses import asdict

    if as_json:
        print(json.dumps([asdict(measure) for measure in measures]))  # noqa: T201
        return
    table = Table("measure", "mean", "95 % interval", "queries", box=None, header_style="bold")
    for m in measures:
        table.add_row(m.name, f"{m.mean:.4f}", f"{m.low:.4f} - {m.high:.4f}", str(m.queries))
    out.print(table)


if __name__ == "__main__":
    main()
