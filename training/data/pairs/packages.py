"""Debian packages: control stanzas with long descriptions, read as products."""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from purlin.index.errors import InvalidInput
from purlin.index.records import Skipped
from purlin.index.sources import tables
from purlin.index.sources.products import records
from purlin.training.data.pairs.documents import product_pair
from purlin.training.data.pairs.pair import Draft, Drafts, PairSource, text_digest
from purlin.training.data.pairs.rows import is_decoded

# Lines of one stanza that are read.
MAX_STANZA_LINES = 2_000

# A paragraph in more packages than this is boilerplate.
MAX_BOILERPLATE = 5

_BULLET = re.compile(r"\s*[*+-]\s+(?=\S)")


class Stanza(NamedTuple):
    """The description of one package, and the line where its stanza begins."""

    line: int
    name: str
    synopsis: str
    description: list[str]


class _Block(NamedTuple):
    """A paragraph or a list item of a description, on one line."""

    is_bullet: bool
    text: str


def package_pairs(source: PairSource) -> Drafts:
    """Read apt's Translation-en files, or the output of `apt-cache show`.

    `apt-cache dumpavail` is no use: it prints only the short descriptions. Of a paragraph or list
    item that more than `MAX_BOILERPLATE` packages share, only the first copy is kept, and of
    packages with equal descriptions only the first.
    """
    frequency: Counter[bytes] = Counter()
    for stanza in _read_stanzas(source.path):
        if isinstance(stanza, Stanza):
            frequency.update({text_digest(block.text) for block in _blocks(stanza.description)})

    previous: set[bytes] = set()
    for stanza in _read_stanzas(source.path):
        if isinstance(stanza, Skipped):
            yield stanza
        else:
            yield _package_draft(stanza, source.path.name, frequency, previous)


def _package_draft(
    stanza: Stanza, path: str, frequency: Counter[bytes], previous: set[bytes]
) -> Draft | Skipped:
    """Make a draft of a stanza. `previous` holds the digests of earlier texts and is added to."""
    blocks = []
    for block in _blocks(stanza.description):
        digest = text_digest(block.text)
        if frequency[digest] <= MAX_BOILERPLATE or digest not in previous:
            blocks.append(block)
        previous.add(digest)
    if not blocks:
        reason = "has no long description of its own (apt's Translation-en files have them)"
        return Skipped(path, reason, stanza.line)

    whole = text_digest(repr(blocks))
    if whole in previous:
        return Skipped(path, "has the same description as another package", stanza.line)
    previous.add(whole)

    record = {
        "title": f"{stanza.name}: {stanza.synopsis}",
        "description": "\n".join(block.text for block in blocks if not block.is_bullet),
        "bullets": [block.text for block in blocks if block.is_bullet],
    }
    try:
        return Draft(product_pair(records.from_record(record)), path, stanza.line)
    except InvalidInput as error:
        return Skipped(path, error.message, stanza.line)


def _read_stanzas(path: Path) -> Iterator[Stanza | Skipped]:
    number = 0
    try:
        with tables.open_text(path) as handle:
            lines: list[tuple[int, str]] = []
            # The added blank line ends the last stanza.
            for number, line in enumerate(chain(tables.text_lines(handle), ["\n"]), 1):
                if line.strip():
                    lines.append((number, line.rstrip()))
                    del lines[MAX_STANZA_LINES:]
                elif lines:
                    yield _parse_stanza(lines, path.name)
                    lines = []
    except (OSError, EOFError, ValueError, zlib.error) as error:
        yield Skipped(path.name, f"cannot be read from here on: {error}", number + 1)


def _parse_stanza(lines: list[tuple[int, str]], path: str) -> Stanza | Skipped:
    first_line = lines[0][0]

    fields: dict[str, list[str]] = {}
    current: list[str] = []
    for _, line in lines:
        if line[0] in " \t":
            current.append(line)
        else:
            name, _, value = line.partition(":")
            current = fields.setdefault(name, [value.strip()])

    package = fields.get("Package", [""])[0]
    synopsis, *description = fields.get("Description-en") or fields.get("Description") or [""]
    if not package or not synopsis:
        return Skipped(path, "is not a package with a description", first_line)
    if not is_decoded(package, synopsis, *description):
        return Skipped(path, "the description is not UTF-8", first_line)
    return Stanza(first_line, package, synopsis, description)


def _blocks(lines: Sequence[str]) -> list[_Block]:
    """Join the lines of a description to paragraphs and list items, in order."""
    blocks: list[tuple[bool, list[str]]] = []
    is_open, depth = False, 0

    for line in lines:
        text = line.strip()
        indent = len(line) - len(line.lstrip())
        if bullet := _BULLET.match(line):
            blocks.append((True, [line[bullet.end() :]]))
            depth = indent
        elif text == ".":
            # Debian's form of a blank line.
            is_open = False
            continue
        elif is_open and (indent > depth or not blocks[-1][0]):
            blocks[-1][1].append(text)
        else:
            blocks.append((False, [text]))
        is_open = True

    return [_Block(is_bullet, " ".join(parts)) for is_bullet, parts in blocks]
