"""Turn Markdown into HTML."""

from __future__ import annotations

import re
from html import escape
from itertools import pairwise

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markdown_it.token import Token

from purlin.index.errors import InvalidInput
from purlin.index.sources.references import dialects, term_lists
from purlin.index.sources.references.html.vocabulary import CALL, DEFINITION, LABELLED

# markdown-it leaves out the text of blocks nested deeper.
MAX_BLOCKS = 200
# Text nested deeper stays as it is; the time for unclosed brackets grows with this.
MAX_INLINE = 20

# What GitHub leaves out of ids.
_NOT_IN_SLUG = re.compile(r"[^\w\- ]")


def html(text: str) -> str:
    """Render CommonMark with tables, and what site generators add to it, as HTML.

    Headings get the ids that they have by their attributes, else those that GitHub gives them.
    Raises InvalidInput if blocks are nested too deeply for Python's stack.
    """
    title, text = dialects.front_matter(text)
    parser = _parser()
    tokens = term_lists.with_definitions(_tokens(parser, dialects.commonmark(text)[0]))

    head = f"<title>{escape(title)}</title>" if title else ""
    return head + str(parser.renderer.render(tokens, parser.options, {}))


def anchor_line(text: str, anchor: str) -> int | None:
    """Return the line of the heading with an id; None without one. Raises as `html` does."""
    _, body = dialects.front_matter(text)
    first_line = text.count("\n") - body.count("\n") + 1
    body, rows = dialects.commonmark(body)

    parser = _parser()
    parser.core.ruler.before("inline", "headings", _keep_headings)

    for token in _tokens(parser, body):
        if token.type == "heading_open" and token.map and token.attrGet("id") == anchor:
            return first_line + rows[token.map[0]]
    return None


def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"maxNesting": MAX_BLOCKS}).enable("table")
    parser.core.ruler.before("inline", "inline_nesting", _limit_inline_nesting)
    return parser


def _tokens(parser: MarkdownIt, text: str) -> list[Token]:
    """The tokens of a page, whose headings have ids."""
    try:
        tokens = parser.parse(text)
    except RecursionError as error:
        raise InvalidInput("blocks are nested too deeply; flatten them") from error

    numbers: dict[str, int] = {}
    for token, inline in pairwise(tokens):
        if token.type == "heading_open":
            own_id = _take_attributes(inline)
            token.attrSet("id", own_id or _unused(_slug(inline), numbers))
            if token.tag != "h1" and _is_code(inline):
                token.attrSet("class", DEFINITION)
    return tokens


def _is_code(heading: Token) -> bool:
    """Whether a heading names code alone, or is a call or "Event: 'close'" without being marked."""
    parts = [part for part in heading.children or () if part.content.strip()]
    if [part.type for part in parts] == ["code_inline"]:
        return True
    text = "".join(part.content for part in parts)
    return CALL.match(text) is not None or LABELLED.fullmatch(text) is not None


def _keep_headings(state: StateCore) -> None:
    """Drop all tokens but those of headings, so that no other text is parsed further."""
    pairs = pairwise(state.tokens)
    state.tokens = [token for pair in pairs if pair[0].type == "heading_open" for token in pair]


def _limit_inline_nesting(state: StateCore) -> None:
    state.md.options["maxNesting"] = MAX_INLINE


def _take_attributes(heading: Token) -> str:
    """Remove the attributes at the end of a heading; returns its id by them, if any."""
    if not heading.children or heading.children[-1].type != "text":
        return ""
    last = heading.children[-1]
    last.content, own_id = dialects.heading_attributes(last.content)
    return own_id


def _slug(heading: Token) -> str:
    """The id that GitHub gives a heading; tags, images and the URLs of links are no text of it."""
    parts = (
        "" if part.type in ("html_inline", "image") else part.content
        for part in heading.children or ()
    )
    return _NOT_IN_SLUG.sub("", "".join(parts).lower()).replace(" ", "-")


def _unused(slug: str, numbers: dict[str, int]) -> str:
    """The slug, numbered until no heading has it; `numbers` holds each slug's last number."""
    unused = slug
    while unused in numbers:
        numbers[slug] += 1
        unused = f"{slug}-{numbers[slug]}"
    numbers[unused] = 0
    return unused
