"""Write what an interface declares as HTML: types, their members, and what these take.

Each becomes an entry within that of what encloses it, with the path of their names for an anchor.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from html import escape
from itertools import islice
from typing import Any

from markdown_it import MarkdownIt

from purlin.index.errors import InvalidInput
from purlin.index.sources.encodings import NOT_TEXT
from purlin.index.sources.references.markdown import MAX_INLINE
from purlin.index.sources.references.page_markup import marked, not_a_module

MAX_ENTRIES = 20_000  # of a document
MAX_CHARS = 32 << 20  # of its page, which repeats what many references lead to
MAX_DEPTH = 8  # of members within members, and of references to references
MAX_NAME, MAX_ANCHOR = 200, 1_000  # characters
MAX_VALUES, MAX_VALUE_CHARS = 100, 1_000  # of an enumeration

ENTRY_END = "</dd></dl>"

# Tags stay text: most are types such as `List<String>`.
_COMMONMARK = MarkdownIt("commonmark", {"html": False, "maxNesting": MAX_INLINE}).enable("table")
_IS_MARKED = re.compile(r"[\n`*_#\[&\\~<!]|^\s*(?:[-+>]|\d+[.)]) ")
_HEADING = re.compile(r"<(/?)h[1-6]>")
# Of a type such as `[Order!]!` or `map<string, shop.Order>`, the last is that of its values.
_TYPE_NAME = re.compile(r"[\w.]+")


@dataclass(slots=True)
class Declaration:
    """What is declared: `term` is its declaration on one line, `about` its description in CommonMark.

    `kind` is the directive of its entry, and `facts` are lines such as `Default: 20`. The values of an
    enumeration are members of kind "data"; what has such a type has them, too. `start` is where it
    begins in the document.
    """

    kind: str
    name: str
    term: str
    start: int
    about: str = ""
    type_name: str = ""
    facts: list[str] = field(default_factory=list)
    members: list[Declaration] = field(default_factory=list)


class EntryOpenings:
    """Writes how entries begin, and refuses more than `MAX_ENTRIES` of them."""

    def __init__(self) -> None:
        self._room = MAX_ENTRIES

    def opening(self, kind: str, anchor: str, terms: Iterable[str], name: str = "") -> str:
        """Return how an entry begins; empty without a name, or with one that is too long.

        Without a `name`, each term is one.
        """
        terms = tuple(filter(None, terms))
        length = len(name) or len("".join(terms))
        if not terms or length > MAX_NAME or len(anchor) > MAX_ANCHOR:
            return ""
        self._room -= 1
        if self._room < 0:
            raise InvalidInput(f"more than {MAX_ENTRIES:,} entries; split it")
        marked_terms = "</dt><dt>".join(marked(term, [name or term]) for term in terms)
        return f'<dl class="std {kind}"><dt id="{escape(anchor)}">{marked_terms}</dt><dd>'


def page(title: str, about: str, declarations: Iterable[Declaration]) -> str:
    """Return a page with the entries of what is declared, below a title if there is one."""
    return joined(_Page(list(declarations)).parts(title, about))


class _Page:
    """The entries of what is declared, and the values of enumerations by their paths."""

    def __init__(self, declarations: Sequence[Declaration]) -> None:
        self._declarations = declarations
        self._openings = EntryOpenings()
        self._values: dict[tuple[str, ...], list[str]] = {}
        for declaration, path in _walk(declarations, ()):
            if declaration.kind == "data":
                self._values.setdefault(path[:-1], []).append(declaration.name)

    def parts(self, title: str, about: str) -> Iterator[str]:
        """Yield the page in pieces."""
        yield heading(title) + paragraphs(about)
        for declaration in self._declarations:
            yield from self._entry(declaration, (declaration.name,))

    def _entry(self, declaration: Declaration, path: tuple[str, ...]) -> Iterator[str]:
        term, name = declaration.term, declaration.name
        opening = self._openings.opening(declaration.kind, _anchor(path), [term], name)
        if not opening:
            return
        values = self._values.get(path) or self._values_of_type(declaration.type_name, path)
        one_of = [f"One of: {shown_values(values)}"] if values else []
        yield opening + paragraphs(declaration.about) + lines([*declaration.facts, *one_of])

        for member in declaration.members:
            yield from self._entry(member, (*path, member.name))
        yield ENTRY_END

    def _values_of_type(self, type_name: str, path: tuple[str, ...]) -> list[str]:
        """Return the values of a type, which what encloses its use may have, the innermost first."""
        type_names = _TYPE_NAME.findall(type_name)
        if not type_names:
            return []
        names = tuple(type_names[-1].split("."))
        scopes = (path[:depth] + names for depth in reversed(range(len(path))))
        return next((self._values[scope] for scope in scopes if scope in self._values), [])


def line(text: str, declarations: Iterable[Declaration], anchor: str) -> int | None:
    """Return the line of what has an anchor; None if nothing has it."""
    for declaration, path in _walk(declarations, ()):
        if _anchor(path) == anchor:
            return text.count("\n", 0, declaration.start) + 1
    return None


def _walk(
    declarations: Iterable[Declaration], path: tuple[str, ...]
) -> Iterator[tuple[Declaration, tuple[str, ...]]]:
    """Yield all that is declared, with the names that lead to it."""
    for declaration in declarations:
        own_path = (*path, declaration.name)
        yield declaration, own_path
        yield from _walk(declaration.members, own_path)


def _anchor(path: Iterable[str]) -> str:
    return not_a_module(".".join(path))


def joined(parts: Iterable[str]) -> str:
    """Join the parts of a page. Raises InvalidInput if that is too long."""
    page, room = [], MAX_CHARS
    for part in parts:
        page.append(part)
        room -= len(part)
        if room < 0:
            raise InvalidInput(
                f"its page is longer than {MAX_CHARS:,} characters, with what is repeated for each"
                " reference; split it"
            )
    # What escapes may write that is no character.
    return NOT_TEXT.sub("\ufffd", "".join(page))


def heading(title: str) -> str:
    """Return the title of a page, if it has one."""
    title = escape(title)
    return f"<title>{title}</title><h1>{title}</h1>" if title else ""


@lru_cache(maxsize=256)  # In OpenAPI, a schema is described wherever a reference leads to it.
def paragraphs(text: str) -> str:
    """Render CommonMark, in which descriptions are written; a heading within an entry is a paragraph."""
    if not text:
        return ""
    markup = str(_COMMONMARK.render(text)) if _IS_MARKED.search(text) else f"<p>{escape(text)}</p>"
    return _HEADING.sub(r"<\1p>", markup)


def lines(facts: Iterable[str]) -> str:
    """Return a paragraph of lines."""
    return f"<p>{'<br>'.join(map(escape, facts))}</p>"


def shown_values(values: list[Any]) -> str:
    """Return the first values of an enumeration, and how many more there are."""
    shown = ", ".join(map(shown_value, values[:MAX_VALUES]))
    more = len(values) - MAX_VALUES
    return shown + (f" and {more:,} more" if more > 0 else "")


def shown_value(value: Any) -> str:
    """Return a value as JSON has it, and a text without quotes, cut if it is long."""
    if isinstance(value, str) and value:
        return value[:MAX_VALUE_CHARS]
    # In pieces: a long value may be that of many references. Each piece has a character.
    pieces = json.JSONEncoder(ensure_ascii=False).iterencode(value)
    return "".join(islice(pieces, MAX_VALUE_CHARS))[:MAX_VALUE_CHARS]
