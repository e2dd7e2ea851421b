"""`purlin search`: a directory, a git URL, or corpora."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from purlin.cli import terminal
from purlin.cli.terminal import Parser, print_line, print_quoted, print_record, styled, visible

if TYPE_CHECKING:
    from purlin.index.records import Hit
    from purlin.index.search.contracts import PassageReranker
    from purlin.index.search.corpus import Corpus
    from purlin.index.search.store.filters import Filter
    from purlin.index.workspaces.workspace import Workspace

ABOUT = """Search the repository around the working directory, or a directory of it, in words or by name.
What changed since the last search is indexed first; the index is that of the whole repository, and
is kept in the user's cache directory (PURLIN_CACHE). With --corpus, corpora of a home are searched
instead. Exit status: 0 with hits, 1 without, 2 for an error."""
EXAMPLE = 'purlin search "where are uploads retried" --path src -k 3'
_LINES = 8
# Of a line: descriptions of products are often one.
_MAX_LINE_CHARS = 400
# So few lines are the first ones: there is no room for others.
_FEW_LINES = 4
# A best score below it suggests that what is searched for is elsewhere: so have two of five searches
# whose right place is not among the first five hits, and one of fifteen of the others.
_LOW_SCORE = 0.15


def run(arguments: Sequence[str]) -> int:
    """Run the command; returns 0 with hits, 1 without."""
    options = _parse(arguments)
    shown = _search_corpora(options) if options.corpus else _search_directory(options)
    return 0 if shown else 1


def _parser() -> Parser:
    parser = Parser(
        "search", "[CORPUS] QUERY [PATH] [options] | -e PATTERN [options]", ABOUT, EXAMPLE
    )
    add = parser.add_argument

    add(
        "query",
        metavar="QUERY",
        nargs="*",
        help="What to look for, after -- if it begins with a dash; CORPUS is --corpus CORPUS, and PATH is --path PATH.",
    )
    parser.add_path()
    add("-k", type=int, default=5, help="How many hits [default: 5].")
    add("--offset", type=int, default=0, help="How many hits to pass over.")
    add(
        "--content",
        choices=("code", "docs", "config", "all"),
        help="What kind of files [default: code, or all where there is none].",
    )
    add(
        "--mode",
        choices=("hybrid", "dense", "lexical"),
        default="hybrid",
        help="Which retrievers score.",
    )
    add(
        "--filter",
        action="append",
        metavar="FIELD=VALUE",
        help="Or FIELD!=VALUE, FIELD<=NUMBER, FIELD>=NUMBER, in quotes. Several values mean any of them.",
    )
    add(
        "-e",
        "--regexp",
        metavar="PATTERN",
        help="Only hits with a line that matches a regular expression; QUERY, if any, ranks them.",
    )
    add("-i", "--ignore-case", action="store_true", help="PATTERN matches in any case.")
    add(
        "--rerank",
        action=argparse.BooleanOptionalAction,
        help="Score the first 20 hits again with a reranker (PURLIN_RERANKER) [default: if known to help].",
    )
    add(
        "--lines",
        type=int,
        help="Lines of text per hit, those that say most about QUERY [default: 8; with --json, all].",
    )
    add("--json", action="store_true", help="One JSON object per hit.")
    parser.add_encoder()
    add("--corpus", action="append", metavar="NAME", help="A corpus of --home; may be repeated.")
    parser.add_home()

    return parser


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = _parser()
    options = _parse_intermixed(parser, arguments)
    _take_directory(options)

    *corpora, query = options.query
    if corpora and (options.corpus or not _exists(options.home, corpora)):
        quoted = shlex.quote(" ".join(options.query))
        no_path = f"there is no file {query[:80]!r}, and " if "/" in query else ""
        parser.error(
            f"{no_path}{' '.join(corpora)[:80]!r} is no corpus of {options.home}; "
            f"put the words of a query in quotes: purlin search {quoted}"
        )

    options.query = query
    options.corpus = options.corpus or corpora
    return options


def _parse_intermixed(parser: Parser, arguments: Sequence[str]) -> argparse.Namespace:
    """Parse options among words; all after `--` are words, which argparse forgets if they are mixed."""
    words = list(arguments)
    end = words.index("--") if "--" in words else len(words)
    options = parser.parse_intermixed_args(words[:end])
    options.query += words[end + 1 :]
    if options.ignore_case and options.regexp is None:
        parser.error("-i is about the PATTERN of -e; without one, any case matches")
    if not options.query and options.regexp is not None:
        options.query = [""]
    if not options.query:
        parser.error("the following arguments are required: QUERY")
    return options


def _take_directory(options: argparse.Namespace) -> None:
    """Read `QUERY DIR`, as grep has it, as `QUERY --path DIR`."""
    if len(options.query) != 2 or options.path or options.corpus:
        return
    query, path = options.query
    if not _exists(options.home, [query]) and Path(path).exists():
        options.query, options.path = [query], path


def _exists(home: Path, corpora: Sequence[str]) -> bool:
    """Whether these words are the name of one corpus."""
    from purlin.index import builds

    return len(corpora) == 1 and corpora[0] in builds.corpora(home)


# ---- a directory


def _search_directory(options: argparse.Namespace) -> int:
    """Search the repository around a directory and print its hits; returns their number."""
    from purlin.cli.corpora import opened_directory, parse_filter
    from purlin.index.workspaces.other_content import default_content
    from purlin.index.workspaces.workspace import within

    conditions = _with_pattern(options, parse_filter(options.filter))
    with opened_directory(options.path, "code", options.encoder) as workspace:
        folder = within(workspace.root, options.path) if options.path else {}
        if options.content is None and default_content(workspace.corpus) == "all":
            options.content = "all"
            terminal.print_note("no code here: documentation and configuration are searched")
        result = workspace.search(
            options.query,
            options.k,
            offset=options.offset,
            content=options.content or "code",
            filter=_both(folder, conditions),
            mode=options.mode,
            explain=True,
            reranker=_rerankers(options, [workspace.corpus])[0],
        )
        if result.warning is not None:
            terminal.print_note(f"warning: {result.warning}")
        best_hits = _with_configuration(options, result.hits, workspace, folder)
        hits = _print_hits(
            options, best_hits, {workspace.corpus.name: workspace.corpus}, workspace.root
        )
        if options.regexp is not None and result.total > len(hits):
            terminal.print_note(f"{result.total:,} documents have a matching line")
        _print_hint(options, hits, workspace, folder)
    return len(hits)


def _with_pattern(options: argparse.Namespace, conditions: Filter | None) -> Filter:
    """Add the regular expression of -e to the conditions of --filter."""
    from purlin.index.errors import InvalidInput
    from purlin.index.search.store.filters import matching_line

    if options.regexp is None:
        return conditions or {}
    if conditions and conditions.keys() & matching_line(options.regexp):
        raise InvalidInput(
            "-e and a --filter on text cannot be combined; leave one out.", field="filter"
        )
    flags = "(?i)" if options.ignore_case else ""
    return {**(conditions or {}), **matching_line(flags + options.regexp)}


def _both(folder: Filter, conditions: Filter) -> Filter:
    """Join the condition of --path with those of --filter, as a field can have only one."""
    if folder.keys() & conditions.keys():
        from purlin.index.errors import InvalidInput

        raise InvalidInput(
            "--path below the root of the repository and --filter path= cannot be combined; "
            "leave out --path.",
            field="path",
        )
    return {**conditions, **folder}


def _print_hint(
    options: argparse.Namespace, hits: Sequence[Hit], workspace: Workspace, folder: Filter
) -> None:
    """Tell of configuration among the hits; of no hits or unlikely ones, why, and what else there is."""
    from purlin.index.workspaces.other_content import is_configuration

    is_doubtful = not hits or (hits[0].score < _LOW_SCORE and not options.offset)
    # Who has a pattern wants all lines that it matches, as grep shows them.
    is_explained = not hits and options.regexp is not None
    unread = _unread(options, workspace) if (folder and is_doubtful) or is_explained else None
    notes = [unread] if unread else []

    is_by_default = options.content is None and not options.filter
    if has_configuration := is_by_default and any(map(is_configuration, hits)):
        notes.append("the first hit is configuration; --content config has more")
    elif is_doubtful and _may_search_more(options, workspace, folder):
        notes.append("--content all also searches documentation and configuration")

    if not hits:
        notes.insert(0, "no hits")
    elif notes and not has_configuration:
        notes.insert(0, "the best score is low")
    if notes:
        terminal.print_note("; ".join(notes))


def _with_configuration(
    options: argparse.Namespace, hits: Sequence[Hit], workspace: Workspace, folder: Filter
) -> Sequence[Hit]:
    """The hits, the best one in configuration first if it beats all, where code is searched by default."""
    from purlin.index.workspaces.other_content import with_other_content

    if options.content is not None or options.filter or options.offset:
        return hits
    conditions = _with_pattern(options, folder)
    return with_other_content(
        workspace.corpus, options.query, hits, options.k, conditions, options.mode
    )


def _unread(options: argparse.Namespace, workspace: Workspace) -> str | None:
    """Which files of the workspace, or below --path, are not indexed, and why."""
    from purlin.index.workspaces.workspace import within

    if not options.path or not within(workspace.root, options.path):
        return workspace.corpus.listing.unread("")
    resolved = Path(options.path).expanduser().resolve()
    name = resolved.relative_to(workspace.root).as_posix()
    return workspace.corpus.listing.unread(f"{name}/" if resolved.is_dir() else name)


def _may_search_more(options: argparse.Namespace, workspace: Workspace, folder: Filter) -> bool:
    """Whether code is searched by default, and there is documentation or configuration, too."""
    if options.content is not None or options.filter:
        return False
    conditions = {"content": ["docs", "config"], **_with_pattern(options, folder)}
    # Every document that passes the filter is near the query to some degree.
    result = workspace.search("anything", 1, content="all", filter=conditions, mode="dense")
    return bool(result.hits)


# ---- corpora


def _search_corpora(options: argparse.Namespace) -> int:
    """Search corpora of a home and print the hits; returns their number."""
    from purlin.cli.corpora import open_corpora, parse_filter
    from purlin.index.file_filters import content_filter, with_language_names
    from purlin.index.search.several import search_corpora

    corpora = open_corpora(options.home, options.corpus, options.encoder)
    try:
        fields = {name for corpus in corpora for name in corpus.field_names}
        result = search_corpora(
            corpora,
            options.query,
            k=options.k,
            offset=options.offset,
            mode=options.mode,
            filter=content_filter(
                fields,
                options.content or "all",
                with_language_names(_with_pattern(options, parse_filter(options.filter))),
            ),
            explain=True,
            rerankers=_rerankers(options, corpora),
        )
        if result.warning is not None:
            terminal.print_note(f"warning: {result.warning}")
        for searched in result.corpora:
            if searched.corrected is not None:
                terminal.print_note(f"{searched.corpus}: searched for {searched.corrected!r}")
        hits = _print_hits(options, result.hits, {corpus.name: corpus for corpus in corpora}, None)
    finally:
        for corpus in corpora:
            corpus.close()
    if not hits:
        terminal.print_note("no hits")
    return len(hits)


def _rerankers(
    options: argparse.Namespace, corpora: Sequence[Corpus]
) -> list[PassageReranker | None]:
    """The reranker of each corpus, if its first hits are to be scored again."""
    if options.rerank is False:
        return [None] * len(corpora)

    from purlin.index.qa.reader import RELEASED_READER, Reader
    from purlin.index.reranker import RELEASED_RERANKER, Rerankers

    directory = Path(os.environ.get("PURLIN_RERANKER") or RELEASED_RERANKER)
    reader = Path(os.environ.get("PURLIN_READER") or RELEASED_READER)
    rerankers = Rerankers(directory, lambda: Reader.load(reader))
    return [rerankers.choose(corpus.manifest.kind, options.rerank) for corpus in corpora]


# ---- printing


def _print_hits(
    options: argparse.Namespace,
    hits: Sequence[Hit],
    corpora: Mapping[str, Corpus],
    root: Path | None,
) -> list[Hit]:
    """Print hits of corpora, by name, whose files are below `root` if they are a directory's.

    Those that have nothing of the query are left out. Returns the others.
    """
    from purlin.index.search.why import relevant

    [first, *others] = corpora.values()
    shown = relevant(hits)
    for hit in shown:
        if options.json:
            _print_json(options, hit, corpora[hit.corpus or first.name], root)
        else:
            _print_hit(options, hit, root, named=bool(others))
    return shown


def _print_json(options: argparse.Namespace, hit: Hit, corpus: Corpus, root: Path | None) -> None:
    """Print a hit with all that is known of it; of its text, with --lines, that many lines."""
    from dataclasses import asdict

    from purlin.index.search.why import why

    record = asdict(hit) | {
        "why": why(options.query, hit),
        "root": None if root is None else str(root),
        "corpus": corpus.name,
        "build": corpus.build,
        "encoder": corpus.encoder.name,
    }
    if options.lines is not None:
        record |= _shown_lines(options, hit)
    print_record(record)


def _shown_lines(options: argparse.Namespace, hit: Hit) -> dict[str, object]:
    """The --lines lines of the text that say most about the query, with their highlights.

    `text_row` is how many lines of the text are above them.
    """
    from purlin.index.search.snippets import telling_row
    from purlin.index.search.why import as_searched

    count = max(options.lines, 0)
    lines_to_show = None if options.regexp is None else hit.highlights
    query = as_searched(options.query, hit)
    row = telling_row(query, hit.text, count, lines_to_show) if count else 0
    lines = hit.text.split("\n")
    start = sum(len(line) + 1 for line in lines[:row])
    text = "\n".join(lines[row : row + count])
    highlights = [
        (first - start, end - start)
        for first, end in hit.highlights
        if start <= first and end - start <= len(text)
    ]
    return {"text": text, "text_row": row, "highlights": highlights}


def _print_hit(options: argparse.Namespace, hit: Hit, root: Path | None, *, named: bool) -> None:
    """Print where a hit is, what it is and why it was found, then lines of it.

    These are its first ones, or its signature and those that say most about the query. `named` says
    of which corpus it is.
    """
    from purlin.index.search.hits import first_line
    from purlin.index.search.snippets import telling_row, with_short_lines
    from purlin.index.search.why import as_searched, why

    location = styled(visible(_location(hit, root)), terminal.GREEN)
    corpus = f"[{hit.corpus}] " if named else ""
    title = corpus + styled(visible(hit.title), terminal.CYAN)
    reason = styled(f"({visible(why(options.query, hit))})", terminal.DIM)
    print_line(f"{location}  {hit.rank}. {title}  {hit.score:.2f}  {reason}")

    text, highlights = with_short_lines(visible(hit.text), hit.highlights, _MAX_LINE_CHARS)
    first, *rest = terminal.highlighted(text, highlights).split("\n")
    # Entries of a reference have signatures, too, and no language.
    signature, language = hit.fields.get("signature"), hit.fields.get("language")
    if signature and language is not None:
        surplus = terminal.surplus_indentation(hit.text, str(language))
        rest = [line[surplus:] for line in rest]
    lines = [first, *rest]

    count = _LINES if options.lines is None else max(options.lines, 0)
    # The signature, or else the first line, and a mark of what is left out take two.
    query = as_searched(options.query, hit)
    lines_to_show = None if options.regexp is None else hit.highlights
    row = 0
    if count > _FEW_LINES or lines_to_show:
        row = telling_row(query, hit.text, max(count - 2, 1), lines_to_show)
    if row and count <= _FEW_LINES:
        lines = lines[row:]
    elif row > 1:
        start = first_line(hit.location, hit.text)
        above = "1 line" if row == 2 else f"{row - 1} lines"
        mark = f"… {above}" if start is None else f"… line {start + row}:"
        opening = _marked(query, str(signature)) if signature else first
        lines = [opening, mark, *lines[row:]]
    for line in lines[:count]:
        print_quoted(line)
    print_line()


def _marked(query: str, signature: str) -> str:
    """A signature as it is printed, with the words of the query in yellow."""
    from purlin.index.search.lexical.tokens import matches, tokens
    from purlin.index.search.snippets import with_short_lines

    line = visible(signature)
    words = list(matches(line, frozenset(tokens(query))))
    return terminal.highlighted(*with_short_lines(line, words, _MAX_LINE_CHARS))


def _location(hit: Hit, root: Path | None) -> str:
    """PATH:START-END from the working directory or whole, else the URL, else the id."""
    location = hit.location
    if location.path is None:
        return location.url or hit.document_id
    path = location.path
    if root is not None:
        # From far away, the whole path is shorter than the way there.
        path = min(os.path.relpath(root / path), str(root / path), key=len)
    if location.start_line is None:
        return location.url if root is None and location.url else path
    return f"{path}:{location.start_line}-{location.end_line}"
