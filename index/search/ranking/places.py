"""Places of code that a query names by file and line, as the frames of a stack trace do."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import islice

from purlin.index.records import Document

MAX_PLACES = 20
# `src/pump.py:12`, `File "src/pump.py", line 12`, `Pump.php(12)`, `Pump.cs:line 12`, `pump.pl line 12`.
_PLACE = re.compile(
    r"(?<![\w@$.+~/\\-])(?P<path>[\w@$.+~/\\-]{1,400}\.\w{1,12})"
    r"(?:\"?,? (?:on )?line |:(?:line )?|\()(?P<line>[1-9]\d{0,6})\b"
)


def places(query: str) -> dict[str, set[int]]:
    """Map the files that a query names to the lines, of its first MAX_PLACES places."""
    lines: dict[str, set[int]] = defaultdict(set)
    for match in islice(_PLACE.finditer(query), MAX_PLACES):
        lines[match["path"]].add(int(match["line"]))
    return lines


def endings(path: str) -> Iterator[str]:
    """Yield what a path may be below the root of a repository, longest first.

    Of a path with several directories, the name alone says too little: many files share it.
    """
    parts = [part for part in path.replace("\\", "/").split("/") if part not in ("", ".")]
    for start in range(max(1, len(parts) - 1) if len(parts) > 2 else len(parts)):
        yield "/".join(parts[start:])


def innermost(documents: Sequence[Document], line: int) -> Document | None:
    """The shortest of a file's documents that has a line, counted from 1."""
    here = [document for document in documents if distance(document, line) == 0]
    return min(here, key=_length, default=None)


def distance(document: Document, line: int) -> int:
    """Lines between a line of its file and a document, 0 inside it."""
    start, end = _lines(document)
    return max(start - line, line - end, 0)


def _length(document: Document) -> int:
    start, end = _lines(document)
    return end - start


def _lines(document: Document) -> tuple[int, int]:
    """First and last line of a document in its file; 0 and 0 for one without lines."""
    start, end = document.location.start_line, document.location.end_line
    return (start or 0, end or start or 0)
