"""Read text that is no code: documentation by its headings, anything else in windows of lines.

Windows end where a reader would cut.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from purlin.index.errors import InvalidInput
from purlin.index.records import Document, Location, Value, printable

MAX_HEADING_CHARS = 200
# Longer lines are no headings; to look for one in them takes time.
MAX_HEADING_LINE = 500
MAX_FRONT_MATTER = 200  # lines
# An encoder reads about so much; a longer line is a window of its own.
MAX_WINDOW_LINES = 50
MAX_WINDOW_CHARS = 2000
# What a cell of prose says of the code below is at its end.
MAX_PROSE_CHARS = 1000
# A window ends at a boundary in its second half, if there is one.
MIN_WINDOW_SHARE = 0.5

# After backticks, a line with more of them is inline code.
_FENCE = re.compile(r"( {0,3}(?:`{3,}(?=[^`]*$)|~{3,}))")
_LISTING = re.compile(r"(-{4,}|\.{4,})\s*$")
_FENCED = frozenset(["asciidoc", "markdown", "notebook"])
# What IPython takes for itself in a cell: `%matplotlib inline`, `!ls`.
_MAGIC = re.compile(r"^[%!].*", re.MULTILINE)
_HEADING = re.compile(r"(#{1,6}|={1,6})\s+(\S.*?)\s*#*\s*$")
_POD_HEADING = re.compile(r"=head([1-6])\s+(\S.*)")
_UNDERLINE = re.compile(r"([=\-~^\"'`#*+.:_])\1{2,}\s*$")
_ANCHOR = re.compile(r"\s*\{[#.][^{}]*\}$")


@dataclass(slots=True)
class _Section:
    """Rows of a file below one heading; `headings` are this and the enclosing ones."""

    headings: tuple[str, ...]
    rows: list[int]


def section_documents(
    text: str, path: str, language: str, fields: Mapping[str, Value]
) -> Iterator[Document]:
    """A document per section of a page, or several if the section is long."""
    lines = text.split("\n")
    for section in _sections(lines, language):
        if section.headings and not _has_text(section, lines):
            continue
        title = section.headings[-1] if section.headings else _name(path)
        for document in window_documents(lines, section.rows, title, "section", fields):
            # Lines of a notebook are those of its cells.
            location = Location(path) if language == "notebook" else document.location
            yield replace(document, context=section.headings[:-1], location=location)


def _has_text(section: _Section, lines: Sequence[str]) -> bool:
    """Whether there is more than a heading."""
    telling = [
        row for row in section.rows if lines[row].strip() and not _UNDERLINE.match(lines[row])
    ]
    return len(telling) > 1


def text_documents(text: str, path: str, fields: Mapping[str, Value]) -> Iterator[Document]:
    """Windows of the lines of a file."""
    lines = text.split("\n")
    rows = range(len(lines))
    return window_documents(lines, rows, _name(path), "text", fields)


def window_documents(
    lines: Sequence[str], rows: Sequence[int], title: str, kind: str, fields: Mapping[str, Value]
) -> Iterator[Document]:
    """A document per window of some rows of a file, all with the same id and title.

    Of the kinds, only sections are told apart by their titles.
    """
    path = str(fields["path"])
    name = title if kind == "section" else f"({kind})"
    for window in windows(lines, rows):
        yield Document(
            id=f"{path}::{name}",
            kind="code",
            title=title,
            body=_joined(lines, window),
            location=Location(path, window[0] + 1, window[-1] + 1),
            fields=fields_of(fields, title, kind),
        )


def fields_of(
    shared: Mapping[str, Value], name: str, kind: str, signature: str = ""
) -> dict[str, Value]:
    """The fields of a document, from those that all documents of its file share."""
    return {
        "language": shared["language"],
        "name": name,
        "kind": kind,
        "path": shared["path"],
        "signature": signature,
        "role": shared["role"],
        "content": shared["content"],
    }


def _joined(lines: Sequence[str], rows: Sequence[int]) -> str:
    """The text of some rows, with a blank line wherever rows between them are left out.

    Of several blank lines in a row, one is left.
    """
    parts: list[str] = []
    for number, row in enumerate(rows):
        if number and row != rows[number - 1] + 1 and parts[-1].strip():
            parts.append("")
        if lines[row].strip() or (parts and parts[-1].strip()):
            parts.append(lines[row])
    return "\n".join(parts).rstrip()


def windows(lines: Sequence[str], rows: Sequence[int]) -> Iterator[list[int]]:
    """The given rows in groups of a bounded size, each without blank rows at its ends.

    Of several rows that a group could end before, it is the last that follows a gap or a blank row
    and is not indented, else the last that follows either, else the last not indented.
    """
    start = 0
    while start < len(rows):
        end = _limit(lines, rows, start)
        if end < len(rows):
            first = start + max(1, int((end - start) * MIN_WINDOW_SHARE))
            end = max(range(first, end + 1), key=lambda at: (_weight(lines, rows, at), at))

        filled = [position for position in range(start, end) if lines[rows[position]].strip()]
        if filled:
            yield list(rows[filled[0] : filled[-1] + 1])
        start = end


def _limit(lines: Sequence[str], rows: Sequence[int], start: int) -> int:
    """The position after the last row that still fits."""
    characters = 0
    for position in range(start, min(start + MAX_WINDOW_LINES, len(rows))):
        characters += len(lines[rows[position]]) + 1
        if characters > MAX_WINDOW_CHARS and position > start:
            return position
    return min(start + MAX_WINDOW_LINES, len(rows))


def _weight(lines: Sequence[str], rows: Sequence[int], position: int) -> int:
    """How good a place to cut is before the row at this position."""
    row, previous = rows[position], rows[position - 1]
    is_apart = row != previous + 1 or not lines[previous].strip()
    is_plain = bool(lines[row].strip()) and not lines[row][:1].isspace()
    return 2 * is_apart + is_plain


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _sections(lines: Sequence[str], language: str) -> Iterator[_Section]:
    """The rows of a page by their headings; the heading's own row comes first."""
    # Of reStructuredText, the underlines in the order in which they appear.
    styles: list[str] = []
    open_headings: list[tuple[int, str]] = []
    section = _Section((), [])
    fence = ""
    body = _front_matter(lines)

    for row, line in enumerate(lines):
        if row < body:
            pass
        elif fence:
            fence = "" if _closes_fence(line, fence) else fence
        elif opening := _opening_fence(lines, row, language):
            fence = opening
        elif heading := _heading(lines, row, language, styles):
            # A line above the heading is a part of it.
            above = section.rows[-1:] if _is_overline(lines, row, language) else []
            del section.rows[len(section.rows) - len(above) :]
            yield section
            open_headings = [outer for outer in open_headings if outer[0] < heading[0]]
            open_headings.append(heading)
            section = _Section(tuple(name for _, name in open_headings), above)
        section.rows.append(row)

    yield section


def _opening_fence(lines: Sequence[str], row: int, language: str) -> str:
    """The indented mark of the code block that begins in this row; empty if none does."""
    if language not in _FENCED:
        return ""
    match = _FENCE.match(lines[row])
    if language == "asciidoc" and (not match or "~" in match[1]):
        # Tildes underline titles there.
        match = None if _underlines_title(lines, row) else _LISTING.match(lines[row])
    return match[1] if match else ""


def _closes_fence(line: str, fence: str) -> bool:
    """Whether a line ends the code block that `fence` began."""
    mark, opening = line.strip(), fence.lstrip()
    if opening[0] in "-.":
        return mark == opening
    is_code = _indent(line) > _indent(fence) + 3
    return len(mark) >= len(opening) and not mark.strip(opening[0]) and not is_code


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _underlines_title(lines: Sequence[str], row: int) -> bool:
    """Whether an AsciiDoc line of dashes decorates the title above it, which is as long."""
    line, title = lines[row].rstrip(), lines[row - 1].rstrip() if row else ""
    above = lines[row - 2].strip() if row > 1 else ""
    # A title begins a block; the last line of a paragraph is none.
    begins_block = not above or above.startswith("[")
    is_title = title[:1].isalnum() and abs(len(title) - len(line)) <= 1
    return line.startswith("-") and is_title and begins_block


def _is_overline(lines: Sequence[str], row: int, language: str) -> bool:
    """Whether the line before this row only decorates the heading in it."""
    return language != "markdown" and row > 0 and bool(_UNDERLINE.match(lines[row - 1]))


def _front_matter(lines: Sequence[str]) -> int:
    """How many lines of settings a page begins with."""
    if lines[0].rstrip() != "---":
        return 0
    ends = (
        row for row in range(1, min(len(lines), MAX_FRONT_MATTER)) if lines[row].rstrip() == "---"
    )
    return next(ends, -1) + 1


def _heading(
    lines: Sequence[str], row: int, language: str, styles: list[str]
) -> tuple[int, str] | None:
    """Level and text of the heading in this row, if there is one."""
    line = lines[row].rstrip()
    if len(line) > MAX_HEADING_LINE:
        return None
    if language in ("markdown", "notebook", "asciidoc") and (match := _HEADING.match(line)):
        return len(match[1]), _ANCHOR.sub("", match[2])[:MAX_HEADING_CHARS]

    if language == "pod":
        match = _POD_HEADING.match(line)
        return (int(match[1]), match[2][:MAX_HEADING_CHARS]) if match else None

    below = lines[row + 1].rstrip() if row + 1 < len(lines) else ""
    if language not in ("markdown", "rst", "text") or not line.strip() or line[:1].isspace():
        return None
    if not _UNDERLINE.match(below) or _UNDERLINE.match(line):
        return None
    if row and lines[row - 1].strip() and not _UNDERLINE.match(lines[row - 1]):
        return None

    if language == "markdown":
        level = {"=": 1, "-": 2}.get(below[0])
        return (level, line[:MAX_HEADING_CHARS]) if level else None
    if len(below) < len(line) - 2:
        return None
    style = below[0] * (2 if _is_overline(lines, row, language) else 1)
    if style not in styles:
        styles.append(style)
    return styles.index(style) + 1, line[:MAX_HEADING_CHARS]


@dataclass(frozen=True, slots=True)
class Notebook:
    """The text of a notebook's cells, code between fences; outputs are left out.

    `code` has the cells of code, `suffix` that of files in their language.
    """

    text: str
    code: list[CodeCell]
    suffix: str


@dataclass(frozen=True, slots=True)
class CodeCell:
    """A cell of code, by its number among all cells, with the prose of the cell right above it."""

    number: int
    code: str
    prose: str


def read_notebook(content: str) -> Notebook:
    """Read the JSON of a notebook. Raises InvalidInput for what is none."""
    try:
        notebook = json.loads(content)
        # Up to format 3, cells are in worksheets.
        sheets = [notebook] if "cells" in notebook else notebook["worksheets"]
        cells = [cell for sheet in sheets for cell in sheet["cells"]]
        code = [
            CodeCell(number, _MAGIC.sub("", _source(cell)), _prose(above))
            for number, (above, cell) in enumerate(itertools.pairwise([None, *cells]), 1)
            if cell["cell_type"] == "code"
        ]
        language = (notebook.get("metadata") or {}).get("language_info") or {}
        suffix = str(language.get("file_extension", ".py"))
        return Notebook("\n\n".join(map(_cell_text, cells)), code, suffix)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        reason = f"not a notebook: {type(error).__name__}: {error}"
        raise InvalidInput(reason[:200]) from error


def _prose(cell: Any) -> str:
    """What a cell of prose says at its end, where it leads over to the code below."""
    if cell is None or cell["cell_type"] == "code":
        return ""
    return _source(cell)[-MAX_PROSE_CHARS:].strip()


def _cell_text(cell: Any) -> str:
    source = _source(cell)
    if cell["cell_type"] == "heading":
        return f"{'#' * min(cell['level'], 6)} {source}"
    return f"```\n{source}\n```" if cell["cell_type"] == "code" else source


def _source(cell: Any) -> str:
    is_old = cell["cell_type"] == "code" and "source" not in cell
    source = cell["input"] if is_old else cell["source"]
    text = source if isinstance(source, str) else "".join(source)
    # An escape in JSON may be half of a surrogate pair, which is no text.
    return printable(text)
