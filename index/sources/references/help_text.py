"""Turn what a program prints about its options, saved as plain text, into HTML.

Read is the layout of argparse, click, clap, optparse and the like: a term, then its description in a
column further right, on the same line or on the next ones. The kernel's list of parameters has it,
too.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from html import escape
from itertools import pairwise
from textwrap import dedent

from purlin.index.sources.references.page_markup import marked
from purlin.index.sources.references.page_sections import option_names

MIN_TERMS = 3
MAX_TERM = 120  # characters
TAB_COLUMNS = 8

_USAGE = re.compile(r"^usage:\s*(?P<call>\S.*)?$", re.IGNORECASE | re.MULTILINE)
# Words in lower case that stand for what is passed, as `file` of `gzip file [options]`.
_PASSED = (
    r"(?:arg|argument|dest|destination|dir|directory|expression|file|filename|infile|outfile|path"
    r"|pathname|pattern|string|url)s?(?![\w-])"
)
# The program and its command, in front of what is passed to them: `kubectl rollout undo (TYPE NAME)`.
_CALLED = re.compile(
    rf"(?:\S*/)?(?P<name>[^\s/-][^\s/]*(?:(?: (?!{_PASSED})[a-z][\w-]*)+(?= (?:[^\sa-z]|{_PASSED})))?)"
)
# Directives, underlines and the mark of a literal block: the text is reStructuredText.
_RST = re.compile(r"^(?:\.\. \S|([=~^*+#`-])\1{3,}$)|::$", re.MULTILINE)
_HEADING = re.compile(r"\S.{0,80}:")
_VALUE = (
    r"[= ](?:\w[\w-]{0,40}(?:\|[\w-]{1,40})++|[A-Z][A-Z0-9_|]*+(?![\w'.]))"
    r"|[= ]?(?:<[^<>]{1,60}>|\[[^\[\]]{1,60}\]|\{[^{}]{1,200}\})|=\S++"
)
_OPTION, _OPTION_WITH_VALUES = (
    re.compile(rf"{option}(?:(?:,| /) {option})*+")
    for option in (rf"-{{1,2}}[\w?][\w-]*+(?:{_VALUE}){count}" for count in ("?+", "*+"))
)
_GAP = re.compile(r" {2,}")
# Python tells its own options so: `-c cmd : program passed in as string`.
_COLON = re.compile(r"(-\S+(?: \S+)?) +: ")
_SETTING = re.compile(r"[\w.<>-]+(?:=\S*)?(?= \[|$)")
# What stands on a line of its own: `Default: 64`, `0 - disabled`.
_LABELLED = re.compile(r"[A-Z][\w ]{1,20}:(?:\s|$)|\S{1,20} (?:--?|=) |[-*] ")
_KINDS = {"commands": "std function", "subcommands": "std function", "arguments": "std parameter"}
# What a kernel's parameter belongs to: `[KNL,X86]`.
_MARKS = re.compile(r"\[[A-Z][^\[\]]{0,80}\](?: +|$)")


def is_help(text: str) -> bool:
    """Return whether a text tells a program's usage, or is a list of terms without a left margin."""
    tells_usage = _USAGE.search(text) is not None and not _RST.search(text)
    has_margin = any(line[:1].strip() for line in text.splitlines())
    if has_margin and not tells_usage:
        return False
    min_terms = 1 if tells_usage else MIN_TERMS
    return sum(len(part.terms) for part in _read_parts(text)) >= min_terms


def html(text: str) -> str:
    """Return a page titled by the program, with the options and arguments below each heading."""
    usage = _USAGE.search(text)
    called = _CALLED.match(usage["call"] or "") if usage else None
    program = escape(called["name"]) if called else ""
    title = f"<title>{program}</title><h1>{program}</h1>" if program else ""
    # What follows the options at the margin again is about the program.
    parts = sorted(_read_parts(text), key=lambda part: bool(part.heading) and not part.is_usage)
    return title + "".join(part.html() for part in parts)


@dataclass(slots=True)
class _Term:
    """A term and the lines that describe it."""

    text: str
    lines: list[str] = field(default_factory=list)

    @property
    def goes_on(self) -> bool:
        """Whether the next term's description is of this one, too."""
        return not self.lines and self.text.endswith("]") and " [" in self.text

    def html(self) -> str:
        """The term with its names marked."""
        name = self.text.partition("=")[0].partition(" ")[0] or self.text
        return f"<dt>{marked(self.text, option_names(self.text) or [name])}</dt>"


@dataclass(slots=True)
class _Part:
    """The text below a heading: its lines before the first term, and its terms."""

    heading: str = ""
    lines: list[str] = field(default_factory=list)
    terms: list[_Term] = field(default_factory=list)

    @property
    def is_usage(self) -> bool:
        """Whether the lines are calls."""
        first = f"{self.heading}:" if self.heading else "".join(self.lines[:1])
        return _USAGE.match(first[:MAX_TERM]) is not None

    @property
    def is_code(self) -> bool:
        """Whether the lines are calls, or examples of them."""
        return self.is_usage or self.heading.lower() in ("example", "examples")

    def read_terms(self) -> None:
        """Make terms of the lines that begin left of the column of descriptions."""
        lines, self.lines = self.lines, []
        column = _description_column(lines)

        for line, following in pairwise([*lines, ""]):
            split = _split(line, following) if _indent(line) < column else None
            if split:
                term, description = split
                self.terms.append(_Term(term, [description] if description else []))
            elif self.terms:
                self.terms[-1].lines.append(line)
            else:
                self.lines.append(line)

    def html(self) -> str:
        """The part as a heading, paragraphs and a list, or as code."""
        heading = f"<h2>{escape(self.heading)}</h2>" if self.heading and not self.is_usage else ""
        if self.is_code:
            code = escape(dedent("\n".join(self.lines)).strip("\n"))
            return f"{heading}<pre>{code}</pre>" if code else ""
        return heading + _paragraphs(self.lines) + self._list()

    def _list(self) -> str:
        parts = []
        opening = f'<dl class="{self._kind}">'
        for term in self.terms:
            parts.append(term.html())
            if any(term.lines):
                parts.append(f"<dd>{_paragraphs(term.lines)}</dd>")
            elif not term.goes_on:
                # The text of the next term is not about one that nothing describes.
                parts.append(f"</dl>{opening}")
        return f"{opening}{''.join(parts)}</dl>" if parts else ""

    @property
    def _kind(self) -> str:
        """The classes of a list of options, of commands or of arguments, by the heading above it."""
        words = self.heading.lower().split()
        return next((kind for word, kind in _KINDS.items() if word in words), "option-list")


def _parts(text: str) -> Iterator[_Part]:
    """Split a text at its headings, at the usage and where its lines are at the margin again."""
    part = _Part()
    lines = [line.rstrip().expandtabs(TAB_COLUMNS) for line in text.splitlines()]

    for line, following in pairwise([*lines, ""]):
        is_heading = _HEADING.fullmatch(line) is not None and _indent(following) > 0
        is_at_margin = line[:1].strip() != ""
        ends_part = is_at_margin and (part.heading or part.is_usage)
        if is_heading or ends_part or _USAGE.match(line) or (part.is_usage and _tells_option(line)):
            yield part
            part = _Part(line.removesuffix(":") if is_heading else "")
        if not is_heading:
            part.lines.append(line)
    yield part


# `html` needs what `is_help` has just read.
@lru_cache(maxsize=1)
def _read_parts(text: str) -> tuple[_Part, ...]:
    parts = tuple(_parts(text))
    for part in parts:
        if not part.is_code:
            part.read_terms()
    return parts


def _description_column(lines: list[str]) -> int:
    """The column where most descriptions begin; 0 without any."""
    columns: Counter[int] = Counter()
    for line, following in pairwise([*lines, ""]):
        if split := _split(line, following):
            _, description = split
            start = len(line) - len(description) if description else _indent(following)
            if start > _indent(line) + 1:
                columns[start] += 1
    return max(columns, key=lambda column: (columns[column], column), default=0)


def _split(line: str, following: str) -> tuple[str, str] | None:
    """A line's term and the description after it; None for a line of other text."""
    text = line.strip()
    if text.startswith("-"):
        # kubectl's options end so: `--all=false:`.
        text = text.removesuffix(":")
    term, gap, description = text, "", ""
    if match := _GAP.search(text):
        term, gap, description = text[: match.start()], match[0], text[match.end() :]

    if colon := _COLON.match(text):
        return colon[1], text[colon.end() :]
    if option := _OPTION.match(text):
        is_whole = gap or _OPTION_WITH_VALUES.fullmatch(text)
        return (term, description) if is_whole else (option[0], text[option.end() :].strip())
    if len(term) > MAX_TERM or not line[:1].isspace():
        return None
    if gap and len(term.split()) <= 2:
        return _with_marks(term, description)
    setting = _SETTING.match(text)
    if setting and (setting.end() < len(text) or _indent(following) > _indent(line) + 1):
        return _with_marks(setting[0], text[setting.end() :].strip())
    return None


def _with_marks(term: str, description: str) -> tuple[str, str]:
    marks = _MARKS.match(description)
    if marks is None:
        return term, description
    return f"{term} {marks[0].strip()}", description[marks.end() :]


def _tells_option(line: str) -> bool:
    """Whether a line describes an option, as no line of a usage does."""
    split = _split(line, "") if line.lstrip().startswith("-") else None
    return split is not None and split[1][:1].isalpha()


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip()) if line.strip() else 0


def _paragraphs(lines: Iterable[str]) -> str:
    """Paragraphs of lines that go on, and those that say something by themselves."""
    paragraphs: list[list[str]] = [[]]
    for line in map(str.strip, lines):
        if not line:
            paragraphs.append([])
        else:
            gap = "<br>" if _LABELLED.match(line) else " "
            paragraphs[-1].append(f"{gap if paragraphs[-1] else ''}{escape(line)}")
    return "".join(f"<p>{''.join(parts)}</p>" for parts in paragraphs if parts)
