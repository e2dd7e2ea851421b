"""Cut a reference as the splitters of the paper on reference QA do, and find its words again.

Questions and answers come from a reference's definitions. A splitter cuts them, or whole pages,
into passages; `SplitReference` says which passages hold a given span of a definition.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from purlin.index.records import Document, Passage, Skipped, SourceFile, Splitter
from purlin.index.sources import open_source
from purlin.index.sources.references import manual
from purlin.index.sources.references.manual import Unit
from purlin.index.texts.passages import split

# What the paper's splitters cut (section 3.4, Algorithm 1): simple the text of whole pages,
# structure-dependent each term with its description, extended the same beneath its terms.
UNITS: dict[Splitter, Unit] = {
    "simple": "page",
    "structure": "segment",
    "extended": "definition",
    "whole": "page",
}


class Placed(NamedTuple):
    """Characters `start:end` of a definition that passage `row` has from `offset` of its text on."""

    start: int
    end: int
    row: int
    offset: int


@dataclass(slots=True)
class SplitReference:
    """The passages of a reference, and where in them its definitions are.

    `definitions` are the entries as questions know them. `passages` has the document of each
    passage, too; `parts` the parts of a definition, by its id, in the order of its body.
    """

    definitions: list[Document] = field(default_factory=list)
    passages: list[tuple[Document, Passage]] = field(default_factory=list)
    parts: dict[str, list[Placed]] = field(default_factory=lambda: defaultdict(list))
    skipped: list[Skipped] = field(default_factory=list)

    def rows(self, document_id: str) -> list[int]:
        """Return the passages that have some part of a definition, in order."""
        return list(dict.fromkeys(part.row for part in self.parts.get(document_id, ())))

    def locate(self, document_id: str, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield the passages that have all of a definition's span, and where the span begins.

        It does so for each passage: (row, offset in the passage's text).
        """
        for part in self.parts.get(document_id, ()):
            if part.start <= start and end <= part.end:
                yield part.row, part.offset + start - part.start

    def add(
        self, definitions: Sequence[Document], cut: Sequence[Document], splitter: Splitter | None
    ) -> None:
        """Add a page: its definitions, and what the splitter cuts of it."""
        self.definitions += definitions
        first = len(self.passages)
        for document in cut:
            self.passages += ((document, passage) for passage in split(document, splitter))

        if [document.id for document in cut] == [document.id for document in definitions]:
            self._place_same(definitions, first)
        elif cut:
            _, last_passage = self.passages[-1]
            assert last_passage.document_id == cut[0].id
            self._place_in_page(definitions, cut[0].body, first)

    def _place_same(self, definitions: Sequence[Document], first: int) -> None:
        bodies = {document.id: document.body for document in definitions}

        for row in range(first, len(self.passages)):
            document, passage = self.passages[row]
            # A heading may stand before the body of a section.
            shift = len(document.body) - len(bodies[document.id])
            start = max(passage.start - shift, 0)
            part = Placed(start, passage.end - shift, row, max(shift - passage.start, 0))
            self.parts[document.id].append(part)

    def _place_in_page(self, definitions: Sequence[Document], page: str, first: int) -> None:
        starts = [passage.start for _, passage in self.passages[first:]]

        for document_id, start, end, position in aligned_lines(definitions, page):
            # A line may lie in several passages.
            while start < end:
                row = max(bisect_right(starts, position) - 1, 0)
                passage = self.passages[first + row][1]
                stop = min(end, start + passage.end - position)
                if stop > start:
                    offset = position - passage.start
                    self.parts[document_id].append(Placed(start, stop, first + row, offset))

                next_start = starts[row + 1] if row + 1 < len(starts) else position + end - start
                start, position = start + next_start - position, next_start


def aligned_lines(
    definitions: Iterable[Document], page: str
) -> Iterator[tuple[str, int, int, int]]:
    """Yield (document id, start, end, position in the page) for the lines of definitions.

    Definitions come in the order in which they begin on the page, and so do the lines of each one,
    though other definitions may stand between them. A line that the page does not have is left out.
    """
    positions: dict[str, list[int]] = defaultdict(list)
    for position, line in _lines(page):
        positions[line].append(position)

    def find(line: str, start: int) -> int:
        candidates = positions.get(line, [])
        number = bisect_left(candidates, start)
        return candidates[number] if number < len(candidates) else -1

    begin = 0
    for document in definitions:
        # Text of a section may follow the definitions in it, but its heading does not.
        first_line = document.body.partition("\n")[0]
        opening = first_line if "signature" in document.fields else document.title
        cursor = begin = max(begin, find(opening, begin))

        for start, line in _lines(document.body):
            position = find(line, cursor) if line.strip() else -1
            if position >= 0:
                yield document.id, start, start + len(line), position
                cursor = position + 1


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield each line and where it begins."""
    start = 0
    for line in text.split("\n"):
        yield start, line
        start += len(line) + 1


def read_split(path: Path, splitter: Splitter | None = None) -> SplitReference:
    """Read a reference as a splitter cuts it; by default as it is served.

    Raises what `purlin.index.sources.open_source` raises.
    """
    result = SplitReference()
    if splitter is None:
        pages = cut_pages = list(open_source("reference", [path]))
    else:
        pages = list(manual.files(path))
        cut_pages = list(manual.files(path, unit=UNITS[splitter]))

    for page, cut_page in zip(pages, cut_pages, strict=True):
        definitions = _documents(page, result.skipped)
        cut = definitions if splitter is None else _documents(cut_page, [])
        if definitions:
            result.add(definitions, cut, splitter)
    return result


def _documents(file: SourceFile | Skipped, skipped: list[Skipped]) -> list[Document]:
    """Return the documents of a file, and append what is none of them to `skipped`."""
    documents = []
    for item in [file] if isinstance(file, Skipped) else file.read():
        if isinstance(item, Document):
            documents.append(item)
        elif isinstance(item, Skipped):
            skipped.append(item)
    return documents
