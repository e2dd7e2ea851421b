"""Turn what Markdown's site generators add to CommonMark into CommonMark.

Read are front matter, MDX's imports, notes and tabs of MkDocs (`!!! note`, `??? note`, `=== "tab"`),
of Docusaurus, VitePress and MyST (`:::note` to `:::`) and of GitHub (`> [!NOTE]`), and attributes of
headings (`{#id}`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

MAX_FRONT_MATTER = 20_000  # characters
MAX_OPEN_NOTES = 32
MAX_ATTRIBUTES = 200  # characters

# YAML between lines of `---`, or TOML between lines of `+++`, at the very beginning.
_FRONT_MATTER = re.compile(
    rf"\A(-{{3}}|\+{{3}})\r?\n(.{{0,{MAX_FRONT_MATTER}}}?)\n\1[ \t]*(?:\r?\n|\Z)", re.DOTALL
)
_TITLE = re.compile(r"^title[ \t]*[:=][ \t]*(\S.*)$", re.MULTILINE)
_FENCE = re.compile(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})")
_IMPORT = re.compile(r"import\s[^'\"]*['\"][^'\"]+['\"];?")
# Of a line without white space at its end: a note's kind and title, in quotes, brackets or bare.
_INDENTED = re.compile(r"(?:!!!|\?\?\?\+?) +(?P<kind>[A-Za-z][^\"]*)(?P<title>\".*\")?")
_TAB = re.compile(r"===[!+]? +(?P<title>\".*\")")
_COLONS = re.compile(r":{3,} *(?:(?P<kind>\{?[A-Za-z][\w-]*\}?)(?P<title>[ \[{].*)?)?")
_FENCED = re.compile(
    r"(?P<fence>`{3,}|~{3,}) *\{(?P<kind>admonition|attention|caution|danger|dropdown|error|hint|"
    r"important|note|seealso|tip|warning)\}(?P<title>.*)"
)
_ALERT = re.compile(r"(?P<quote>(?:> ?)+)\[!(?P<kind>\w+)\][+-]?(?P<title>.*)")


def front_matter(text: str) -> tuple[str, str]:
    """Return the title that the front matter gives a page, if any, and the text below it."""
    matter = _FRONT_MATTER.match(text)
    if matter is None:
        return "", text
    title = _TITLE.search(matter[2])

    # A mark of YAML says that the title is on the lines below.
    words = title[1].strip() if title and title[1][0] not in "|>" else ""
    return words.strip("'\""), text[matter.end() :]


def heading_attributes(heading: str) -> tuple[str, str]:
    """Return a heading without the attributes at its end, `{#id .class}`, and their id, if any."""
    words, brace, attributes = heading.rpartition("{")
    attributes = attributes.rstrip()
    if not brace or not attributes.endswith("}") or len(attributes) > MAX_ATTRIBUTES:
        return heading, ""

    names = attributes[:-1].removeprefix(":").split()
    if not names or any(name[0] not in "#." or len(name) == 1 for name in names):
        return heading, ""

    return words.rstrip(), next((name[1:] for name in names if name[0] == "#"), "")


def commonmark(text: str) -> tuple[str, list[int]]:
    """Replace the marks of notes and tabs by their titles, paragraphs above what they hold.

    Returns the text and, for each of its lines, the row that it comes from.
    """
    reader = _Lines()
    lines: list[str] = []
    rows: list[int] = []
    for row, line in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n")):
        lines += reader.read(line)
        rows += [row] * (len(lines) - len(rows))
    return "\n".join(lines), rows


class _Lines:
    """The lines of a page, with what is open at each.

    `_indents` has the indentation of what each open note of MkDocs holds, `_note_fences` the fences
    of MyST's notes, and `_fence` that of a code block.
    """

    def __init__(self) -> None:
        self._indents: list[int] = []
        self._note_fences: list[str] = []
        self._fence = ""

    def read(self, line: str) -> Iterator[str]:
        """What the next line of the page becomes."""
        indent = len(line) - len(line.lstrip(" "))
        while self._indents and line.strip() and indent < self._indents[-1]:
            self._indents.pop()
            self._fence = ""
        # What a note holds stands below its title.
        line = line[min(4 * len(self._indents), indent) :]

        if self._fence:
            if _ends(line, self._fence):
                self._fence = ""
            yield line
        elif self._note_fences and _ends(line, self._note_fences[-1]):
            self._note_fences.pop()
            yield ""
        else:
            yield from self._outside_code(line, indent)

    def _outside_code(self, line: str, indent: int) -> Iterator[str]:
        mark, margin = line.strip(), line[: len(line) - len(line.lstrip(" "))]

        indented = _INDENTED.fullmatch(mark) or _TAB.fullmatch(mark)
        fenced = _FENCED.fullmatch(mark)
        if indented and len(self._indents) < MAX_OPEN_NOTES:
            self._indents.append(indent + 4)
        if fenced:
            self._note_fences.append(fenced["fence"])

        if note := indented or fenced or _COLONS.fullmatch(mark):
            title = _title(note.groupdict())
            yield from ("", f"{margin}{title}", "") if title else ("",)
        elif note := _ALERT.fullmatch(mark):
            quote = f"{margin}{note['quote']}"
            yield from (f"{quote}{_title(note.groupdict())}", quote)
        elif fence := _FENCE.match(line):
            self._fence = fence[1]
            yield line
        elif not _IMPORT.fullmatch(line.rstrip()):
            yield line


def _ends(line: str, fence: str) -> bool:
    """Whether a line ends the block that a fence began."""
    mark = line.strip()
    return mark.startswith(fence) and not mark.strip(fence[0])


def _title(note: dict[str, str | None]) -> str:
    """A note's title, else its kind; an empty title in quotes stands for neither."""
    title = (note["title"] or "").strip()
    if title == '""':
        return ""
    if title.startswith("[") and title.endswith("]"):
        title = title[1:-1]
    kind = (note.get("kind") or "").strip().strip("{}").partition(" ")[0]
    return title.strip('" ') or kind.replace("seealso", "see also").capitalize()
