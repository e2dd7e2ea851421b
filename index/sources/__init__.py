"""Sources: files and records in, documents out. `open_source` picks the reader."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path

from purlin.index import versions
from purlin.index.errors import InvalidInput, NotFound, PurlinError
from purlin.index.records import (
    KINDS,
    Content,
    Document,
    Kind,
    Secondary,
    Skipped,
    SourceFile,
    Stamp,
    is_text,
)


@dataclass(frozen=True, slots=True)
class _Options:
    """Options of `open_source` that hold for all paths."""

    secondary: Secondary
    base_url: str
    content: Content
    columns: Mapping[str, str]
    on_sample: Callable[[str, Sequence[Mapping[str, object]]], None] | None


def open_source(
    kind: Kind,
    paths: Sequence[Path | str],
    *,
    secondary: Secondary = "demote",
    base_url: str = "",
    content: Content = "code",
    columns: Mapping[str, str] | None = None,
    digests: Mapping[str, tuple[Stamp, str]] | None = None,
    on_sample: Callable[[str, Sequence[Mapping[str, object]]], None] | None = None,
) -> Iterator[SourceFile | Skipped]:
    """List the files of a corpus of this kind; each is parsed only when it is read.

    A BEIR corpus (`*.jsonl[.gz]` whose first record has an `_id`) is a source of every kind. With
    several paths, names and document ids begin with the path's last part, so that they stay unique.
    `secondary` concerns tests, benchmarks, examples, stubs, vendored, generated and minified code:
    "leave-out" skips all of it. `base_url` is the web address of a reference. Of a repository, `content` chooses
    code, documentation, configuration or all. `columns` maps standard columns of products to those
    of their tables, see `purlin.index.sources.products.columns`; `digests` has stamps and digests of
    an earlier listing by path: files that still have their stamps are not opened. `on_sample` is
    called with the name and the first records of each table of products when it is listed.

    Raises NotFound for a path that does not exist, and InvalidInput for an unknown kind, no path,
    a path that is not readable or not UTF-8, or a column that no table has. All are raised before
    anything is read but the first rows of tables.
    """
    if kind not in KINDS:
        raise InvalidInput(
            f"Kind {kind!r} is unknown; give one of {', '.join(KINDS)}.", field="kind"
        )

    roots = [Path(path) for path in paths]
    if not roots:
        raise InvalidInput("There is no path to read from; give at least one.", field="path")

    for root in roots:
        _check_path(root)

    columns = dict(columns or {})
    if columns:
        _check_columns(kind, roots, columns)

    options = _Options(secondary, base_url, content, columns, on_sample)
    if len(roots) == 1:
        return _open(kind, roots[0], options, digests or {})

    return _open_all(kind, roots, options, digests or {})


def first_texts(
    sources: Iterable[SourceFile | Skipped], count: int
) -> tuple[list[str], Iterator[SourceFile | Skipped]]:
    """Return the texts of the first `count` documents, fewer if there are no more, and all sources.

    Files that cannot be read have none: whoever reads the sources next reports why.
    """
    sources = iter(sources)
    passed: list[SourceFile | Skipped] = []
    texts: list[str] = []

    for file in sources:
        passed.append(file)
        if isinstance(file, SourceFile):
            with contextlib.suppress(PurlinError, OSError):
                documents = (each for each in file.read() if isinstance(each, Document))
                for document in islice(documents, count - len(texts)):
                    texts.append(f"{document.title}\n{document.body}")
        if len(texts) == count:
            break
    return texts, chain(passed, sources)


def _check_columns(kind: Kind, roots: Sequence[Path], columns: Mapping[str, str]) -> None:
    if kind != "product":
        raise InvalidInput(f"--column is for tables of products, not for {kind}.", field="columns")

    from purlin.index.sources import unassigned

    unassigned.check_columns(roots, columns)


def _check_path(root: Path) -> None:
    try:
        if not root.exists():
            raise NotFound(
                f"There is no file or directory {str(root)!r}; check the path.", field="path"
            )
    except OSError as error:
        raise InvalidInput(
            f"{str(root)!r} cannot be read: {error.strerror}.", field="path"
        ) from error

    # The path becomes part of JSON replies and of document ids.
    if not is_text(f"{root.absolute()} {root.resolve().name}"):
        raise InvalidInput(
            f"The path {str(root.absolute())!r} is not UTF-8; rename it.", field="path"
        )


def _open_all(
    kind: Kind, roots: Sequence[Path], options: _Options, digests: Mapping[str, tuple[Stamp, str]]
) -> Iterator[SourceFile | Skipped]:
    for root, prefix in zip(roots, prefixes(roots), strict=True):
        # A prefixed digest is the file's own and this end.
        end = _digest_end(prefix)
        own_digests = {
            path.removeprefix(f"{prefix}/"): (stamp, digest.removesuffix(end))
            for path, (stamp, digest) in digests.items()
            if path.startswith(f"{prefix}/") and digest.endswith(end)
        }

        for file in _open(kind, root, options, own_digests):
            yield _prefixed_file(file, prefix)


def prefixes(roots: Sequence[Path]) -> list[str]:
    """The directory that names of each root's files begin with; empty if there is only one root."""
    if len(roots) == 1:
        return [""]

    counts: Counter[str] = Counter()
    unique_names = []

    for root in roots:
        name = root.resolve().name or "root"
        counts[name] += 1
        unique_names.append(f"{name}~{counts[name]}" if counts[name] > 1 else name)

    return unique_names


def names(kind: Kind, roots: Sequence[Path]) -> Iterator[str]:
    """Names of the files that `open_source` would read, in no order.

    None is opened, but for the first line of files without a suffix. The reader is loaded at once,
    the roots are walked as the names are taken.
    """
    names_below = _names_below(kind)
    return (
        f"{prefix}/{name}" if prefix else name
        for root, prefix in zip(roots, prefixes(roots), strict=True)
        for name in ([root.name] if root.is_file() else names_below(root))
    )


# The readers are imported where they are used: each brings a parser that other kinds do not need.


def _names_below(kind: Kind) -> Callable[[Path], Iterator[str]]:
    """Return how the files below a root are listed."""
    if kind == "code":
        from purlin.index.sources.code import repository

        return repository.names

    if kind == "product":
        from purlin.index.sources.products import catalogue

        return catalogue.names

    from purlin.index.sources.references import manual

    return manual.names


def _open(
    kind: Kind, root: Path, options: _Options, digests: Mapping[str, tuple[Stamp, str]]
) -> Iterator[SourceFile | Skipped]:
    from purlin.index.sources import beir

    if beir.is_corpus(root):
        return beir.files(root, kind)

    if kind == "code":
        from purlin.index.sources.code import repository

        return repository.files(
            root, secondary=options.secondary, content=options.content, digests=digests
        )

    if kind == "product":
        from purlin.index.sources.products import catalogue

        return catalogue.files(root, columns=options.columns, on_sample=options.on_sample)

    from purlin.index.sources.references import manual

    return manual.files(root, base_url=options.base_url)


def _prefixed_file(file: SourceFile | Skipped, prefix: str) -> SourceFile | Skipped:
    if isinstance(file, Skipped):
        return replace(file, path=f"{prefix}/{file.path}")

    def read() -> Iterator[Document | Skipped]:
        for record in file.read():
            if isinstance(record, Skipped):
                yield replace(record, path=f"{prefix}/{record.path}")
            else:
                yield _prefixed_document(record, prefix)

    digest = file.digest + _digest_end(prefix)
    return replace(file, path=f"{prefix}/{file.path}", digest=digest, read=read)


def _digest_end(prefix: str) -> str:
    return f" {versions.PREFIXES} {prefix}"


def _prefixed_document(document: Document, prefix: str) -> Document:
    location, fields = document.location, document.fields
    if location.path is not None:
        location = replace(location, path=f"{prefix}/{location.path}")
        if fields.get("path") == document.location.path:
            fields = {**fields, "path": f"{prefix}/{document.location.path}"}

    return replace(document, id=f"{prefix}/{document.id}", location=location, fields=fields)
