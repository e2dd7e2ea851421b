"""What a page of a reference holds: sections of blocks, each of which becomes a document."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from purlin.index.records import Span

MAX_TITLE = 200  # characters

_OPTION = re.compile(r"(?<![^\s,/])-{1,2}[\w?][\w-]*")


@dataclass(frozen=True, slots=True)
class Block:
    """A paragraph, list item, code block or table row.

    An `atom` is never cut. A `tight` block follows the one before it after a single newline.
    """

    text: str
    atom: bool = False
    tight: bool = False


@dataclass(slots=True)
class Section:
    """One part of a page, which becomes a document: a definition (it has signatures), or prose.

    `anchor` is the nearest id, `anchors` are further ids for the same part. `headings` are the
    enclosing ones, outermost first, and `context` the terms of the enclosing definitions.
    """

    title: str = ""
    directive: str = "section"
    anchor: str = ""
    module: str = ""
    headings: tuple[str, ...] = ()
    context: tuple[str, ...] = ()
    names: list[str] = field(default_factory=list)
    anchors: list[str] = field(default_factory=list)
    signatures: list[str] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)

    @property
    def signature(self) -> str:
        """All terms of the definition, a line each; empty for prose."""
        return "\n".join(self.signatures)

    def compose(self) -> tuple[str, tuple[Span, ...]]:
        """The body and its atoms; both begin with the signature, if there is one."""
        head = [Block(self.signature, atom=True)] if self.signatures else []
        return compose([*head, *self.blocks])


@dataclass(slots=True)
class Page:
    """A page: its title (first h1, else `<title>`), canonical url or "", sections in order."""

    title: str
    url: str
    sections: list[Section]


def compose(blocks: Iterable[Block]) -> tuple[str, tuple[Span, ...]]:
    """Join blocks by blank lines (tight ones by newlines) into a text and its atoms' spans."""
    parts: list[str] = []
    atoms: list[Span] = []
    offset = 0

    for block in blocks:
        gap = "" if not parts else "\n" if block.tight else "\n\n"
        offset += len(gap)
        if block.atom:
            atoms.append(Span(offset, offset + len(block.text)))

        offset += len(block.text)
        parts += gap, block.text

    return "".join(parts), tuple(atoms)


def join_names(names: Iterable[str]) -> str:
    """Join distinct names by commas, as many as fit a title; the first is cut if need be."""
    title = ""
    for name in dict.fromkeys(names):
        longer = f"{title}, {name}" if title else name[:MAX_TITLE]
        if len(longer) > MAX_TITLE:
            break
        title = longer
    return title


def option_names(term: str) -> list[str]:
    """Return the options of a term such as `-o, --out FILE` or `-o or --out`; empty for other terms."""
    return _OPTION.findall(term[:MAX_TITLE]) if term.startswith("-") else []
