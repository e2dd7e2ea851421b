"""The topics of Python's `help()`, parts of its manual that every Python has as plain text -> pages of HTML.

Sphinx wrote that text: headings are underlined, what is below a definition stands three columns further right, literals
are in double quotes. It is turned back into the markup that the reader of pages knows, one page for each of the manual.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Iterator, Sequence
from functools import cache, partial
from html import escape
from importlib import import_module
from itertools import pairwise, takewhile

from index.sources.html import read_page
from index.sources.markup import name_start

TITLES = {
    "library/pdb": "The Python Debugger",
    "library/stdtypes": "Built-in Types",
    "library/string": "Common string operations",
    "reference/compound_stmts": "Compound statements",
    "reference/datamodel": "Data model",
    "reference/executionmodel": "Execution model",
    "reference/expressions": "Expressions",
    "reference/lexical_analysis": "Lexical analysis",
    "reference/simple_stmts": "Simple statements",
}
"""Pages of the manual that have topics."""

_TOPICS = {
    "library/pdb": "debugger",
    "library/stdtypes": "bltin-code-objects bltin-ellipsis-object bltin-null-object bltin-type-objects specialattrs "
    "string-methods truth typesfunctions typesmapping typesmethods typesmodules typesseq typesseq-mutable",
    "library/string": "formatstrings",
    "reference/compound_stmts": "async class compound else for function if try while with",
    "reference/datamodel": "attribute-access callable-types context-managers customization numeric-types objects "
    "sequence-types specialnames types",
    "reference/executionmodel": "dynamic-features exceptions execmodel naming",
    "reference/expressions": "assignment-expressions atom-identifiers atom-literals attribute-references await binary "
    "bitwise booleans calls comparisons conversions dict exprlists in lambda lists operator-summary power shifting "
    "slicings subscriptions unary",
    "reference/lexical_analysis": "floating id-classes identifiers imaginary integers numbers strings",
    "reference/simple_stmts": "assert assignment augassign break continue del global import nonlocal pass raise return "
    "yield",
}
_BOXES = ("Note:", "See also:", "Warning:")
_UNDERLINES = '*=-~"'  # of headings, outermost first

_RULE = re.compile(r"([*=\-~\"])\1+")
_BORDER = re.compile(r"\+(?:-+\+)+")
_ITEM = re.compile(r"(?:\*|(\d+\.|[IVX]+\.)) +")
_SAME_LIST = re.compile(r"</(ul|ol)>\n?<\1>")
_NAME = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*(?=\(|$)")
_LITERAL = re.compile(r'"([^"\n]+)"')
_STARRED = re.compile(r"(?<![\w*])(\*\*?)(?=[^\s*])([^*]+)(?<=\S)\1(?![\w*])")
_PROSE = re.compile(r'["A-Z“]')
_NOT_IN_SLUG = re.compile(r"[^a-z0-9]+")

Paragraph = Sequence[str]


def page_text(page: str) -> str:
    """All topics of one of the manual's pages, each once; empty where this Python comes without them."""
    try:
        known: dict[str, str] = import_module("pydoc_data.topics").topics
    except ImportError:
        return ""

    kept: dict[str, str] = {}
    for text in sorted(
        (known[name] for name in _TOPICS[page].split() if name in known), key=len, reverse=True
    ):
        plain = _plain(text)
        if not any(plain in other for other in kept.values()):
            kept[text] = plain

    return "\n\n".join(kept)


def _plain(text: str) -> str:
    """Without what underlines headings, which depends on where a topic stands, and without its first heading."""
    return "\n".join(line for line in text.split("\n")[2:] if not _RULE.fullmatch(line)).strip()


def html(page: str) -> str:
    """One of the manual's pages, as far as there are topics of it."""
    title = TITLES[page]
    body = _SAME_LIST.sub("", "\n".join(_blocks(_paragraphs(page_text(page)), "")))
    return f"<title>{title}</title><h1>{title}</h1>\n{body}"


@cache
def titles() -> frozenset[str]:
    """What is defined in topics: `dict.get`."""
    return frozenset(
        section.title
        for page in TITLES
        for section in read_page(html(page)).sections
        if section.signatures
    )


# ---- text -> HTML


def _paragraphs(text: str) -> list[Paragraph]:
    return [
        part.split("\n")
        for part in re.split(r"\n(?: *\n)+", text.expandtabs().strip("\n"))
        if part.strip()
    ]


def _indent(lines: Paragraph) -> int:
    return min(len(line) - len(line.lstrip()) for line in lines)


def _right_of(margin: int, lines: Paragraph) -> bool:
    return _indent(lines) > margin


def _dedented(lines: Paragraph, margin: int) -> Paragraph:
    return [line[margin:] for line in lines]


def _blocks(paragraphs: Sequence[Paragraph], outer: str) -> Iterator[str]:
    """Markup of paragraphs, each with those below it that stand further right; `outer` is the definition around."""
    at = 0
    while at < len(paragraphs):
        lines = paragraphs[at]
        margin = _indent(lines)
        below = list(takewhile(partial(_right_of, margin), paragraphs[at + 1 :]))
        at += 1 + len(below)
        yield from _block(
            _dedented(lines, margin), [_dedented(part, margin) for part in below], outer
        )


def _block(lines: Paragraph, below: Sequence[Paragraph], outer: str) -> Iterator[str]:
    if len(lines) == 2 and _RULE.fullmatch(lines[1]) and not lines[0].startswith(" "):
        level = 2 + _UNDERLINES.index(lines[1][0])
        yield f'<h{level} id="{_slug(lines[0])}">{_inline(lines[0])}</h{level}>{_code(below)}'
    elif len(lines) == 1 and _RULE.fullmatch(lines[0]):
        yield _code(below)
    elif lines[0].startswith("+-"):
        yield f"{_table(lines)}{_code(below)}" if _is_table(lines) else _code([lines, *below])
    elif item := _ITEM.match(lines[0]):
        kind = "ol" if item[1] else "ul"
        told = _told([lines[0][item.end() :], *lines[1:]], item.end(), below, outer)
        yield f"<{kind}><li>{told}</li></{kind}>"
    elif (
        len(lines) > 1
        and all(line.startswith(" ") for line in lines[1:])
        and not lines[0].startswith("[")
    ):
        told = _told(lines[1:], _indent(lines[1:]), below, outer)
        yield f"<dl><dt>{_inline(lines[0])}</dt><dd>{told}</dd></dl>"
    elif below and _is_definition(lines, below):
        yield _definition(lines, below, outer)
    elif any(line.startswith(" ") for line in lines) and not lines[0].startswith("["):
        yield _code([lines, *below])
    else:
        told = "".join(_blocks(below, outer)) if lines[0] in _BOXES else _code(below)
        yield f"<p>{_inline(' '.join(lines))}</p>{told}"


def _told(text: Paragraph, column: int, below: Sequence[Paragraph], outer: str) -> str:
    """A paragraph that stands at a column, and what is below it: code first, as far as that stands further right."""
    code = list(takewhile(partial(_right_of, column), below))
    return f"<p>{_inline(' '.join(text))}</p>{_code(code)}{''.join(_blocks(below[len(code) :], outer))}"


def _code(paragraphs: Sequence[Paragraph]) -> str:
    if not paragraphs:
        return ""
    margin = min(_indent(lines) for lines in paragraphs)
    text = "\n\n".join("\n".join(_dedented(lines, margin)) for lines in paragraphs)
    return f"<pre>{escape(text)}</pre>"


def _is_definition(lines: Paragraph, below: Sequence[Paragraph]) -> bool:
    """Prose below it, rather than code, and no sentence itself."""
    return not any(line.endswith((".", ":", ",")) for line in lines) and bool(
        _PROSE.match(below[0][0].lstrip())
    )


def _definition(lines: Paragraph, below: Sequence[Paragraph], outer: str) -> str:
    name = _name(lines[0])
    whole = name if not outer or name.startswith(f"{outer}.") else f"{outer}.{name}"
    is_class = lines[0].startswith("class ")
    named = bool(name) and (is_class or ("." in whole and _is_there(whole)))

    kind = (
        "class"
        if is_class
        else "describe"
        if not named
        else "method"
        if "(" in lines[0]
        else "attribute"
    )

    anchor = f' id="{whole}"' if named else ""
    terms = "".join(
        _term(line, named, "" if number else anchor) for number, line in enumerate(lines)
    )
    told = "".join(_blocks(below, whole if named else outer))

    return f'<dl class="py {kind}">{terms}<dd>{told}</dd></dl>'


def _name(line: str) -> str:
    """What a line of a signature defines: `str.join`; empty where it is no name, as of `key in d`."""
    found = _NAME.match(line, name_start(line))
    return found[0] if found else ""


def _term(line: str, named: bool, anchor: str) -> str:
    line = line.replace("=- ", "=-")  # a sign that Sphinx took for an operator
    name = (named and _name(line)) or line
    at = line.find(name)
    before, after = line[:at], line[at + len(name) :]
    return f'<dt class="sig"{anchor}>{escape(before)}<code class="descname">{escape(name)}</code>{escape(after)}</dt>'


def _is_there(name: str) -> bool:
    """Whether the name is one of the manual's anchors: not what merely looks so, like `list(d)` below `dict`."""
    outer, _, last = name.rpartition(".")
    known = getattr(builtins, outer, None)
    return not outer or outer == "object" or known is None or hasattr(known, last)


def _is_table(lines: Paragraph) -> bool:
    """Whether every line has a border wherever the first one has, as none has whose cells span columns."""
    first = lines[0]
    return _BORDER.fullmatch(first) is not None and all(
        len(line) == len(first) and all(line[at] in "+|" for at in _crosses(first))
        for line in lines
    )


def _crosses(line: str) -> list[int]:
    return [at for at, char in enumerate(line) if char == "+"]


def _table(lines: Paragraph) -> str:
    """Rows stand between rules, cells between the rules' crosses."""
    cuts = _crosses(lines[0])
    rows: list[list[list[str]]] = [[]]

    for line in lines:
        if not line.strip("+|-= "):
            rows.append([])
        else:
            rows[-1].append([line[start + 1 : end].strip() for start, end in pairwise(cuts)])

    cells = (
        [" ".join(filter(None, cell)) for cell in zip(*row, strict=True)] for row in rows if row
    )

    return f"<table>{''.join(f'<tr>{_cells(row)}</tr>' for row in cells)}</table>"


def _cells(row: Sequence[str]) -> str:
    return "".join(f"<td>{_inline(cell)}</td>" for cell in row)


def _inline(text: str) -> str:
    """Literals without their quotes, emphasis without its stars."""
    parts = _LITERAL.split(escape(" ".join(text.split()), quote=False))
    parts[::2] = [_STARRED.sub(r"<em>\2</em>", part) for part in parts[::2]]
    parts[1::2] = [f"<code>{part}</code>" for part in parts[1::2]]
    return "".join(parts)


def _slug(title: str) -> str:
    """As docutils makes them."""
    return _NOT_IN_SLUG.sub("-", title.lower()).strip("-")
