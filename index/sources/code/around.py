"""Lines of a file that are in none of its documents, which nothing but a regular expression finds.

Mostly these are comments above definitions, imports, and heads of what only wraps definitions.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from purlin.index.records import Document


def with_lines_around(documents: Sequence[Document], text: str) -> Iterator[Document]:
    """Yield the documents of a file, each with the lines of `text` before it that none of them has.

    Those behind the last document are with that. Documents without lines of the file get none.
    """
    lines = text.split("\n")
    stripped = [line.strip() for line in lines]
    in_documents = {row for document in documents for row in _rows_of(document, stripped)}
    starts = sorted(
        (document.location.start_line, number)
        for number, document in enumerate(documents)
        if document.location.start_line is not None
    )

    blocks_of: defaultdict[int, list[tuple[int, str]]] = defaultdict(list)
    for first, last in _blocks(stripped, in_documents) if starts else ():
        position = min(bisect_left(starts, (first + 1, 0)), len(starts) - 1)
        block = first + 1, "\n".join(lines[first : last + 1])
        blocks_of[starts[position][1]].append(block)

    for number, document in enumerate(documents):
        blocks = tuple(blocks_of.get(number, ()))
        yield replace(document, around=blocks) if blocks else document


def _rows_of(document: Document, stripped: Sequence[str]) -> Iterator[int]:
    """Yield the rows of a file whose whole lines a document has, which may leave out some between them."""
    location = document.location
    if location.start_line is None or location.end_line is None:
        return
    row, end = location.start_line - 1, location.end_line
    first, *others = document.body.split("\n")
    # It may begin in the middle of its line, and be equal to another one further down.
    if stripped[row] == first.strip():
        yield row

    # What a definition leaves out is not even a blank line in its body. Most leave out nothing.
    if document.fields["signature"] and len(others) == end - row - 1:
        yield from range(row + 1, end - 1)
        row, others = max(row, end - 2), others[-1:]
    for line in filter(None, map(str.strip, others)):
        following = next((at for at in range(row + 1, end) if stripped[at] == line), None)
        if following is not None:
            yield (row := following)


def _blocks(stripped: Sequence[str], in_documents: set[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and the last row of each run of rows that no document has; blank ones end no run."""
    run: list[int] = []
    for row, line in enumerate(stripped):
        if row in in_documents:
            if run:
                yield run[0], run[-1]
            run = []
        elif line:
            run.append(row)
    if run:
        yield run[0], run[-1]
