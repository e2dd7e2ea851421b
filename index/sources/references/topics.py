"""Turn the topics of Python's `help()`, plain text from its manual, back into pages of HTML.

Sphinx wrote that text: headings are underlined, a definition's text is indented by three columns,
literals are in double quotes. The result is the markup that the reader of pages understands, one
page per page of the manual.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Iterator, Sequence
from functools import cache, partial
from html import escape
from importlib import import_module
from itertools import pairwise, takewhile

from purlin.index.sources.references.html.reader import read_page
from purlin.index.sources.references.html.writer import slug
from purlin.index.sources.references.rst import name_start

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
"""Titles of the manual's pages that have topics."""

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

# Characters that underline headings, outermost first.
_UNDERLINES = '*=-~"'

# A line of one character, and a border of a table.
_RULE = re.compile(r"([*=\-~\"])\1+")
_BORDER = re.compile(r"\+(?:-+\+)+")
# `* item`, `1. item`, `IV. item`
_ITEM = re.compile(r"(?:\*|(\d+\.|[IVX]+\.)) +")
_SAME_LIST = re.compile(r"</(ul|ol)>\n?<\1>")
# A qualified name before parameters or the end of a line.
_NAME = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*(?=\(|$)")
_LITERAL = re.compile(r'"([^"\n]+)"')
# `*emphasis*`, `**strong**`
_STARRED = re.compile(r"(?<![\w*])(\*\*?)(?=[^\s*])([^*]+)(?<=\S)\1(?![\w*])")
_PROSE = re.compile(r'["A-Z“]')

Paragraph = Sequence[str]


def page_text(page: str) -> str:
    """All topics of a page of the manual, each once; empty if this Python comes without them."""
    try:
        topics: dict[str, str] = import_module("pydoc_data.topics").topics
    except ImportError:
        return ""

    texts = [topics[name] for name in _TOPICS[page].split() if name in topics]
    texts.sort(key=len, reverse=True)

    # Some topics are part of a longer one.
    plain_texts: dict[str, str] = {}
    for text in texts:
        plain = _plain(text)
        if not any(plain in longer for longer in plain_texts.values()):
            plain_texts[text] = plain

    return "\n\n".join(plain_texts)


def _plain(text: str) -> str:
    """Drop the first heading and all underlines, which depend on the heading's level."""
    return "\n".join(line for line in text.split("\n")[2:] if not _RULE.fullmatch(line)).strip()


def html(page: str) -> str:
    """HTML of a page of the manual, as far as it has topics."""
    title = TITLES[page]
    body = _SAME_LIST.sub("", "\n".join(_blocks(_paragraphs(page_text(page)), "")))
    return f"<title>{title}</title><h1>{title}</h1>\n{body}"


@cache
def titles() -> frozenset[str]:
    """Titles of all definitions in topics, such as `dict.get`."""
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
    """Markup of paragraphs, each with what is indented below it, in the definition `outer`."""
    position = 0

    while position < len(paragraphs):
        lines = paragraphs[position]
        margin = _indent(lines)
        below = list(takewhile(partial(_right_of, margin), paragraphs[position + 1 :]))
        position += 1 + len(below)

        yield from _block(
            _dedented(lines, margin), [_dedented(part, margin) for part in below], outer
        )


def _block(lines: Paragraph, below: Sequence[Paragraph], outer: str) -> Iterator[str]:
    if len(lines) == 2 and _RULE.fullmatch(lines[1]) and not lines[0].startswith(" "):
        level = 2 + _UNDERLINES.index(lines[1][0])
        yield f'<h{level} id="{slug(lines[0])}">{_inline(lines[0])}</h{level}>{_code(below)}'
    elif len(lines) == 1 and _RULE.fullmatch(lines[0]):
        yield _code(below)
    elif lines[0].startswith("+-"):
        yield f"{_table(lines)}{_code(below)}" if _is_table(lines) else _code([lines, *below])
    elif item := _ITEM.match(lines[0]):
        kind = "ol" if item[1] else "ul"
        content = _content([lines[0][item.end() :], *lines[1:]], item.end(), below, outer)
        yield f"<{kind}><li>{content}</li></{kind}>"
    elif _is_term(lines):
        content = _content(lines[1:], _indent(lines[1:]), below, outer)
        yield f"<dl><dt>{_inline(lines[0])}</dt><dd>{content}</dd></dl>"
    elif below and _is_definition(lines, below):
        yield _definition(lines, below, outer)
    elif any(line.startswith(" ") for line in lines) and not lines[0].startswith("["):
        yield _code([lines, *below])
    else:
        content = "".join(_blocks(below, outer)) if lines[0] in _BOXES else _code(below)
        yield f"<p>{_inline(' '.join(lines))}</p>{content}"


def _is_term(lines: Paragraph) -> bool:
    """Whether the first line is a term, and the indented others describe it."""
    is_indented = len(lines) > 1 and all(line.startswith(" ") for line in lines[1:])
    return is_indented and not lines[0].startswith("[")


def _content(text: Paragraph, column: int, below: Sequence[Paragraph], outer: str) -> str:
    """Markup of a paragraph and of what is below it: first what is indented more, as code."""
    code = list(takewhile(partial(_right_of, column), below))
    rest = "".join(_blocks(below[len(code) :], outer))
    return f"<p>{_inline(' '.join(text))}</p>{_code(code)}{rest}"


def _code(paragraphs: Sequence[Paragraph]) -> str:
    if not paragraphs:
        return ""
    margin = min(_indent(lines) for lines in paragraphs)
    text = "\n\n".join("\n".join(_dedented(lines, margin)) for lines in paragraphs)
    return f"<pre>{escape(text)}</pre>"


def _is_definition(lines: Paragraph, below: Sequence[Paragraph]) -> bool:
    """Whether the lines are no sentence, and what is below them is prose rather than code."""
    return not any(line.endswith((".", ":", ",")) for line in lines) and bool(
        _PROSE.match(below[0][0].lstrip())
    )


def _definition(lines: Paragraph, below: Sequence[Paragraph], outer: str) -> str:
    name = _name(lines[0])
    whole_name = name if not outer or name.startswith(f"{outer}.") else f"{outer}.{name}"
    is_class = lines[0].startswith("class ")
    is_named = bool(name) and (is_class or ("." in whole_name and _exists(whole_name)))

    kind = "describe"
    if is_class:
        kind = "class"
    elif is_named:
        kind = "method" if "(" in lines[0] else "attribute"

    # The anchor belongs to the first of several signatures.
    anchor = f' id="{whole_name}"' if is_named else ""
    terms = "".join(
        _term(line, is_named, "" if number else anchor) for number, line in enumerate(lines)
    )
    content = "".join(_blocks(below, whole_name if is_named else outer))
    return f'<dl class="py {kind}">{terms}<dd>{content}</dd></dl>'


def _name(line: str) -> str:
    """The name that a signature defines, such as `str.join`; empty for ones such as `key in d`."""
    match = _NAME.match(line, name_start(line))
    return match[0] if match else ""


def _term(line: str, is_named: bool, anchor: str) -> str:
    # Sphinx took the sign of a number for an operator.
    line = line.replace("=- ", "=-")
    name = (is_named and _name(line)) or line
    start = line.find(name)
    before, after = escape(line[:start]), escape(line[start + len(name) :])
    return (
        f'<dt class="sig"{anchor}>{before}<code class="descname">{escape(name)}</code>{after}</dt>'
    )


def _exists(name: str) -> bool:
    """Whether the name is an anchor of the manual, unlike `list(d)`, which is below `dict`."""
    outer, _, last = name.rpartition(".")
    builtin = getattr(builtins, outer, None)
    return not outer or outer == "object" or builtin is None or hasattr(builtin, last)


def _is_table(lines: Paragraph) -> bool:
    """Whether all lines have borders in the same columns: no cell spans several of them."""
    first = lines[0]
    return _BORDER.fullmatch(first) is not None and all(
        len(line) == len(first) and all(line[column] in "+|" for column in _borders(first))
        for line in lines
    )


def _borders(rule: str) -> list[int]:
    return [column for column, char in enumerate(rule) if char == "+"]


def _table(lines: Paragraph) -> str:
    """Markup of a table, whose rows are between rules and whose cells are between borders."""
    cuts = _borders(lines[0])
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
    """Markup of a line, with quoted literals as code and starred words as emphasis."""
    parts = _LITERAL.split(escape(" ".join(text.split()), quote=False))
    parts[::2] = [_STARRED.sub(r"<em>\2</em>", part) for part in parts[::2]]
    parts[1::2] = [f"<code>{part}</code>" for part in parts[1::2]]
    return "".join(parts)
