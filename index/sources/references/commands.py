"""Tell what a manual page is about: the command or the functions that its section NAME names."""

from __future__ import annotations

import re
from collections.abc import Sequence

from purlin.index.sources.references import manual_pages
from purlin.index.sources.references.page_sections import Block, Page, Section

MAX_NAMES = 64  # of one page

_SECTION = re.compile(r"\w\([1-9][a-z]{0,8}\)")
_MAN2HTML = re.compile(r"Section: .*\([1-9]\w{0,8}\)")
# The sections of commands, system calls, functions, games and Tcl's commands.
_CALLABLE = re.compile(r".*\((?:[12368n]\w*)\)")
_INTRODUCTION = re.compile(
    r"(?P<names>[^\s,]+(?:, [^\s,]+)*) (?:-|\u2013|\u2014|\u2212) (?P<purpose>\S.*)"
)


def name_command(page: Page, page_format: str) -> None:
    """Enclose what a manual page tells in the name of what it is about: `-k` is an option of gzip.

    Of the source of a manual page, the first section is the entry of the command or functions.
    """
    is_source = page_format in ("asciidoc", "manual")
    if page_format == "help":
        command = page.title
    else:
        command = manual_pages.command(page.title) if is_source else _own_name(page)
    is_callable = is_source and _CALLABLE.fullmatch(page.title) is not None

    for section in page.sections:
        if not command or section.title == page.title:
            continue
        section.context = (command, *section.context)
        if is_callable and section.directive == "term" and section.title.split(" ")[0] == command:
            # `after cancel` is a form of the command `after`.
            section.directive = "function"

    if is_callable:
        _define(page)


def _define(page: Page) -> None:
    """Make an entry of the first section if the next one, the synopsis, calls what it names."""
    if len(page.sections) < 2 or page.sections[0].title != page.title:
        return

    introduction, synopsis = page.sections[:2]
    stated = _INTRODUCTION.fullmatch(introduction.blocks[0].text) if introduction.blocks else None
    names = stated["names"].split(", ")[:MAX_NAMES] if stated else []
    if stated and any(_calls(synopsis, name) for name in names):
        introduction.directive = "function"
        introduction.names = names
        introduction.signatures = _declarations(synopsis, names) or [stated["names"]]
        introduction.blocks[0] = Block(stated["purpose"])


def _calls(synopsis: Section, name: str) -> bool:
    """Whether a line begins with a name, or with its type: `int name(`."""
    call = re.compile(rf"^(?:[\w ]{{0,80}}[ *])?{re.escape(name)}(?![\w.-])", re.MULTILINE)
    return any(call.search(block.text) for block in synopsis.blocks)


def _declarations(synopsis: Section, names: Sequence[str]) -> list[str]:
    """Return what C declares of the named functions, each on one line; empty if it declares none.

    A name without a declaration stands for itself: `int spool(const char *thread);`, `wind`.
    """
    text = "\n".join(block.text for block in synopsis.blocks)
    declared = {}
    for name in names:
        declaration = re.compile(
            rf"^[\w ]{{1,80}}[\s*]{{1,20}}{re.escape(name)} ?\([^;{{}}]{{0,1000}}\);", re.MULTILINE
        )
        if match := declaration.search(text):
            declared[name] = " ".join(match[0].split())
    return [declared.get(name, name) for name in names] if declared else []


def _own_name(page: Page) -> str:
    """The name of a manual page that is HTML, as its section NAME has it; else empty."""
    title = page.title.partition(" ")[0].partition("(")[0].casefold()
    first = page.sections[0].blocks[:1] if page.sections else []
    if not _SECTION.search(page.title) and not (first and _MAN2HTML.match(first[0].text)):
        return ""

    for section in page.sections[:3]:
        if section.title == "NAME" and section.blocks:
            names = section.blocks[0].text.partition(" - ")[0].split(", ")
            return next((name for name in names if name.casefold() == title), "")
    return ""
