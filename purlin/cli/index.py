"""`purlin index`: build, list, show, activate and delete corpora."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.table import Table
from rich.text import Text

from purlin.cli.console import (
    HOME,
    EncoderDirectory,
    Home,
    ShowProgress,
    err,
    open_encoder,
    out,
    print_listed,
    progress_bars,
    undone_if_interrupted,
)
from purlin.index.records import Kind, Secondary, Skipped, SourceFile, Splitter, Stamp

if TYPE_CHECKING:
    from purlin.index.builds.manifests import Manifest
    from purlin.index.builds.remarks import Remarks
    from purlin.index.encoder import TextEncoder
    from purlin.index.engines.milvus import Connection
    from purlin.index.indexing.builder import Options
    from purlin.index.indexing.gate import Judgements
    from purlin.index.sources.unassigned import Unassigned

app = typer.Typer(no_args_is_help=True, help="Build, list, show, activate and delete corpora.")

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
SplitterOption = Annotated[
    Splitter | None, typer.Option(help="How bodies become passages [default: by kind].")
]
SecondaryCode = Annotated[
    Secondary, typer.Option(help="Test, vendored, generated and minified code.")
]
BaseUrl = Annotated[str, typer.Option(help="Where the reference is on the web, for links.")]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        help='Column of a product table by what it holds: description="Long Text"; repeatable.',
    ),
]
Queries = Annotated[
    Path | None, typer.Option(help="BEIR queries to measure the build with; needs --qrels.")
]
Qrels = Annotated[
    Path | None,
    typer.Option(help="Their judged documents, BEIR's .tsv, or TREC's with %XX in ids decoded."),
]
DecidingMeasure = Annotated[str, typer.Option(help="What decides: ndcg@10, mrr@100 or recall@100.")]
RayAddress = Annotated[
    str | None,
    typer.Option(
        "--ray",
        help="Encode with the workers of a Ray cluster: host:port, auto, or local for one worker per CPU.",
    ),
]
Backend = Annotated[
    Literal["local", "milvus"], typer.Option(help="Where vectors, postings and documents are kept.")
]
MilvusAddress = Annotated[
    str,
    typer.Option(
        "--milvus",
        envvar="PURLIN_MILVUS",
        help="http://HOST:19530, or FILE.db for Milvus Lite; the secret is PURLIN_MILVUS_TOKEN.",
    ),
]
Force = Annotated[
    bool,
    typer.Option("--force", help="Make a build though nothing changed, even if it measures worse."),
]


@app.command("build")
def index_build(
    kind: Annotated[Kind, typer.Argument(help="What the sources hold.")],
    paths: Annotated[
        list[Path], typer.Argument(help="Directories, files, or a BEIR corpus.jsonl[.gz].")
    ],
    name: Annotated[str, typer.Option(help="The corpus's name.")],
    home: Home = HOME,
    encoder: EncoderDirectory = None,
    splitter: SplitterOption = None,
    secondary: SecondaryCode = "demote",
    base_url: BaseUrl = "",
    column: Columns = None,
    dense_weight: DenseWeight = None,
    query_log: QueryLogFile = None,
    queries: Queries = None,
    qrels: Qrels = None,
    measure: DecidingMeasure = "ndcg@10",
    force: Force = False,
    ray: RayAddress = None,
    backend: Backend = "local",
    milvus: MilvusAddress = "",
) -> None:
    """Build a corpus and make it the active one; unchanged files are not read or encoded again.

    A build that was interrupted or killed keeps the vectors that it made, and the same command goes on from them. If
    nothing has changed, no build is made.

    A new corpus can be searched as soon as it is read, with static vectors until those of the encoder are there.

    With --queries and --qrels a build that answers them worse than the active one is kept, but not activated.

    Example: purlin index build code ~/src/project --name project
    """
    from purlin.index import builds
    from purlin.index.engines.milvus import Connection
    from purlin.index.indexing.build import build, file_digests
    from purlin.index.indexing.builder import Options
    from purlin.index.search.ranking.query_log import read_log

    log = read_log(query_log) if query_log else []
    engine = Connection.of(milvus) if backend == "milvus" else None
    options = Options(splitter, dense_weight, log, secondary, base_url, _columns(column or []),
                      origin=tuple(str(path.absolute()) for path in paths),
                      judged=_judgements(queries, qrels, measure), force=force, engine=engine)  # fmt: skip
    digests = {} if engine else file_digests(home, name)
    sources, unassigned = _open_sources(kind, paths, options, digests)
    chosen, sources = _open_encoder(kind, encoder, sources, ray)

    active = builds.active_manifest(home, name)
    with _shown_progress(home, name) as progress:
        manifest = build(home, name, kind, sources, chosen, options=options, progress=progress,
                         interim=_interim_encoder(engine))  # fmt: skip

    if manifest == active:
        out.print(f"{name}: nothing has changed since its active build; --force makes another one")
    else:
        _report_build(manifest)
        _report_inputs(manifest, options, unassigned)
        for line in _remarks(home, name, manifest).lines():
            out.print(line)


def _open_encoder(
    kind: Kind,
    directory: EncoderDirectory,
    sources: Iterator[SourceFile | Skipped],
    ray: str | None,
) -> tuple[TextEncoder, Iterator[SourceFile | Skipped]]:
    """Open the encoder of a build, by default the best for its first texts, and return all sources."""
    from purlin.index.sources import first_texts
    from purlin.index.texts.fertility import SAMPLED_TEXTS

    sample: list[str] = []
    if kind == "product" and directory is None:
        sample, sources = first_texts(sources, SAMPLED_TEXTS)
    return open_encoder(directory, purpose=kind, sample=sample, tuned=True, ray=ray), sources


def _open_sources(
    kind: Kind, paths: Sequence[Path], options: Options, digests: Mapping[str, tuple[Stamp, str]]
) -> tuple[Iterator[SourceFile | Skipped], Unassigned | None]:
    """Return the files of a build and, for products, the collector of columns that were not assigned."""
    from purlin.index.sources import open_source

    unassigned = None
    if kind == "product":
        # It brings the parsers of tables, which other kinds do not need.
        from purlin.index.sources.unassigned import Unassigned

        unassigned = Unassigned(options.columns)
    sources = open_source(
        kind,
        paths,
        secondary=options.secondary,
        base_url=options.base_url,
        columns=options.columns,
        digests=digests,
        on_sample=unassigned.add if unassigned else None,
    )
    return sources, unassigned


def _interim_encoder(engine: Connection | None) -> TextEncoder | None:
    """Open the encoder whose vectors serve until the others are there; None if nothing does."""
    from purlin.index.encoder import STATIC_ENCODER, load_encoder

    # Documents in an engine are sent once, with the vectors that stay.
    early = engine is None and STATIC_ENCODER.is_dir()
    return load_encoder(STATIC_ENCODER) if early else None


@contextmanager
def _shown_progress(home: Path, name: str) -> Iterator[ShowProgress]:
    """Show the progress of a build, and what it goes on from, or how to go on if it is interrupted."""
    from purlin.index import builds
    from purlin.index.indexing.unfinished import Unfinished

    if unfinished := Unfinished(builds.builds_directory(home, name)).progressed():
        err.print(f"going on from {unfinished}")
    interrupted = "interrupted; the same command goes on from there"
    with undone_if_interrupted(interrupted), progress_bars() as progress:
        yield progress


def _report_inputs(manifest: Manifest, options: Options, unassigned: Unassigned | None) -> None:
    """Print what came of the query log, and which tables and columns of products were not used."""
    if options.log:
        logged, total = manifest.logged, len(options.log)
        out.print(f"query log: {logged:,} of {total:,} queries lead to its documents")
    for line in unassigned.remarks() if unassigned else ():
        out.print(line)


def _remarks(home: Path, name: str, manifest: Manifest) -> Remarks:
    """Return what the active build of a corpus has to say of its sources."""
    from purlin.index import builds
    from purlin.index.builds.remarks import read_remarks

    return read_remarks(builds.current(home, name), manifest.files)


def _columns(assignments: list[str]) -> dict[str, str]:
    """Columns of the tables by the standard ones that they are."""
    from purlin.index.errors import InvalidInput
    from purlin.index.sources.products.columns import COLUMNS

    columns: dict[str, str] = {}
    for assignment in assignments:
        standard, equals, name = (part.strip() for part in assignment.partition("="))
        if not equals or not name:
            raise InvalidInput(
                f'--column {assignment}: give STANDARD=COLUMN, as in description="Long Text"; '
                f"STANDARD is {', '.join(COLUMNS)}.",
                field="columns",
            )
        if standard in columns:
            raise InvalidInput(
                f"--column {assignment}: {standard} is {columns[standard]!r} already.",
                field="columns",
            )
        columns[standard] = name
    return columns


def _judgements(queries: Path | None, qrels: Path | None, measure: str) -> Judgements | None:
    from purlin.index.errors import InvalidInput
    from purlin.index.indexing.gate import Judgements

    if queries is not None and qrels is not None:
        return Judgements.read(queries, qrels, measure)
    if queries is not None or qrels is not None:
        raise InvalidInput(
            "--queries and --qrels go together: give both, or neither.", field="queries"
        )
    return None


def _report_build(manifest: Manifest) -> None:
    """Print what a build holds, how long it took, and what was left out."""
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


@app.command("list")
def index_list(home: Home = HOME) -> None:
    """List the corpora.

    Example: purlin index list
    """
    from purlin.index import builds
    from purlin.index.builds.catalogs import CORPORA
    from purlin.index.builds.manifests import read_manifest
    from purlin.index.errors import Damaged

    table = Table(
        "corpus", "kind", "documents", "passages", "build", "encoder", box=None, header_style="bold"
    )
    problems = builds.inactive(home)
    for name in builds.corpora(home):
        try:
            directory = builds.current(home, name)
            manifest = read_manifest(directory)
        except Damaged as error:
            table.add_row(name, Text("refused", "red"))
            problems.append(f"{name}: {error.message}")
            continue
        counts = (f"{manifest.documents:,}", f"{manifest.passages:,}")
        table.add_row(name, manifest.kind, *counts, directory.name, str(manifest.encoder["name"]))
    print_listed(table, problems, CORPORA)


@app.command("show")
def index_show(
    name: str,
    home: Home = HOME,
    skipped: Annotated[int, typer.Option(help="How many of the files left out to list.")] = 20,
) -> None:
    """Show a corpus: its builds, what it holds, and what was left out of it.

    Example: purlin index show code --skipped 100
    """
    from purlin.index import builds
    from purlin.index.builds import build_files
    from purlin.index.builds.manifests import read_manifest
    from purlin.index.indexing.unfinished import Unfinished
    from purlin.index.search import segments
    from purlin.index.search.store.listing import read_listing

    if unfinished := Unfinished(builds.builds_directory(home, name)).progressed():
        out.print(f"unfinished: {unfinished}; `purlin index build` goes on from there")
    try:
        directory = builds.current(home, name)
    finally:
        for build in builds.builds(home, name):
            out.print(f"build {build}")
    manifest = read_manifest(directory)
    build_files.verify(directory, manifest.files)
    shown = json.loads(manifest.to_json())
    shown["files"] = {
        file: f"{details['bytes']:,} bytes" for file, details in manifest.files.items()
    }
    out.print(f"active {directory.name}, all files as they were written")
    out.print_json(json.dumps(shown))
    if manifest.engine:
        names = sorted(json.loads((directory / segments.FIELDS_FILE).read_bytes()))
        left_out = list(read_listing(directory).skipped)
    else:
        with closing(segments.open_documents(directory, manifest)) as documents:
            names = sorted(documents.field_types)
            left_out = segments.left_out(read_listing(directory), documents.stores)
    for line in _remarks(home, name, manifest).lines():
        out.print(line)
    out.print(f"fields: {', '.join(names[:60])}" + (" ..." if len(names) > 60 else ""))
    listed = left_out[:skipped]
    for file in listed:
        out.print(f"left out: {file.location}: {file.reason}")
    if more := len(left_out) - len(listed):
        out.print(f"left out: {more:,} more; --skipped {len(left_out)} lists all")


@app.command("activate")
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
    from purlin.index.engines import hosting

    hosting.activate(home, name, build, force=force)
    out.print(f"{name}: {build} is active")


@app.command("delete")
def index_delete(name: str, home: Home = HOME) -> None:
    """Delete a corpus with all its builds.

    Example: purlin index delete old-project
    """
    from purlin.index.engines import hosting

    hosting.delete(home, name)
    out.print(f"{name}: deleted")


@app.command("attach")
def index_attach(
    names: Annotated[
        list[str] | None, typer.Argument(help="Corpora [default: all that Milvus has].")
    ] = None,
    home: Home = HOME,
    milvus: MilvusAddress = "",
) -> None:
    """Serve corpora that are in Milvus here, too: their builds that are active there.

    Example: purlin index attach code --milvus http://127.0.0.1:19530
    """
    from purlin.index.engines import hosting
    from purlin.index.engines.milvus import Connection

    connection = Connection.of(milvus)
    for name in names or hosting.hosted(connection):
        out.print(f"{name}: {hosting.attach(home, name, connection)} is active")


@app.command("demo")
def index_demo(home: Home = HOME, encoder: EncoderDirectory = None) -> None:
    """Build those of the demo corpora that are missing, or that an earlier version made.

    Example: purlin index demo
    """
    from purlin.index.demo import demos
    from purlin.index.indexing.build import build
    from purlin.index.indexing.builder import Options

    due = [demo for demo in demos() if demo.is_due(home)]
    for number, demo in enumerate(due, 1):
        out.print(
            f"building demo corpus {number} of {len(due)}, [bold]{demo.name}[/] ({demo.about}) ...",
            markup=True,
        )
        loaded = open_encoder(encoder, purpose=demo.kind, tuned=True)
        options = Options(origin=(demo.about,))
        with undone_if_interrupted(), progress_bars() as progress:
            manifest = build(home, demo.name, demo.kind, demo.sources(), loaded,
                             options=options, progress=progress)  # fmt: skip
        _report_build(manifest)
