"""Places of code that a query names by file and line, as the frames of a stack trace do."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import islice

from purlin.index.records import Document

MAX_PLACES = 20
# `src/pump.py:12`, `File "src/pump.py", line 12`, `Pump.php(12)`, `Pump.cs:line 12`, `pump.pl line 12`,
# `pump.sh: line 12: `, `pump.sh: 12: `.
# Node.js calls its own `lib/net.js` `node:net`.
_PLACE = re.compile(
    r"(?<![\w@$.+~/\\-])(?P<builtin>node:)?(?P<path>[\w@$.+~/\\-]{1,400})"
    r"(?:(?P<word>\"?,? (?:on )?line |: line )|:(?:line )?|: (?=\d+: )|\()(?P<line>[1-9]\d{0,6})\b"
)
_SUFFIX = re.compile(r"\.\w{1,12}$")
# The function of a frame before its path: `open (pump.js:12)`, `Pump.Open() in C:\\Pump.cs:line 12`,
# and above it, as Go has it: `main.(*Pump).Open(0x0)`, `/srv/pump.go:12`;
# or behind its line: `line 12, in open`, `pump.rb:12:in 'Pump#open'`.
_BEFORE = re.compile(r"([\w$]+) ?(?:\(|\([^()\n]*\)(?: in | at |\n[ \t]+))(?:\w+:)?$")
# What the JVM calls a function of Clojure, or a lambda in one of Kotlin: `main$apply_task.invoke(main.clj:12)`.
_INVOKED = re.compile(r"\$([A-Za-z]\w*)(?:\$\w+)*\.(?:invoke|invokeStatic|doInvoke)\($")
_BEHIND = re.compile(r"[,:] ?in [`']?(?:[\w:]+[#.])?([\w$]+)")
_MAX_BEFORE = 200  # characters
# Lines of a stack trace that name places, or only say that places follow.
_FRAMES = re.compile(
    r"^[ \t]*+(?:"
    r"File \"[^\"\n]*\", line \d.*(?:\n(?![ \t]*+File \")[ \t]{3,}.*)*"
    r"|(?:at|from) .*(?:\)|:\d+|:line \d+|:\d+:in [`'][^'\n]*')"
    r"|#\d+ .*"
    r"|\S+:\d+: ?in (?:[`'][^'\n]*'|\w+)"
    r"|[^\s(]+\(.*\)\n[ \t]+\S+\.go:\d+.*"
    r"|\d+: .*\n[ \t]+at .*"
    r"|Traceback \(most recent call last\):|Stack trace:|stack backtrace:|goroutine \d+ .*"
    r")[ \t]*$\n?",
    re.MULTILINE,
)


def places(query: str) -> dict[str, dict[int, str]]:
    """Map the files in a query to the lines that it names there, by its first MAX_PLACES places.

    Each line is mapped to the name of the function that a stack trace has there, or to "".
    """
    lines: dict[str, dict[int, str]] = defaultdict(dict)
    for match in islice(filter(_is_place, _PLACE.finditer(query)), MAX_PLACES):
        path = f"lib/{match['path']}.js" if match["builtin"] else match["path"]
        functions, line = lines[path], int(match["line"])
        functions[line] = _function(match) or functions.get(line, "")
    return lines


def without_frames(query: str) -> str:
    """Return the message of a stack trace; the query itself if it has none, or is none.

    The words of frames are paths and names, mostly of code that the repository does not have.
    """
    message, frames = _FRAMES.subn("", query)
    return (message.strip() if frames else "") or query


def _function(match: re.Match[str]) -> str:
    """Return the name of the function that a stack trace has at a place; "" if it has none."""
    before = match.string[max(0, match.start() - _MAX_BEFORE) : match.start()]
    if invoked := _INVOKED.search(before):
        is_clojure = match["path"].endswith((".clj", ".cljc"))
        return invoked[1].replace("_", "-") if is_clojure else invoked[1]
    name = _BEHIND.match(match.string, match.end()) or _BEFORE.search(before)
    return name[1] if name else ""


def _is_place(match: re.Match[str]) -> bool:
    """Return whether a path is that of a file: with a suffix, or in a directory with "line" behind it."""
    is_script = match["word"] is not None and "/" in match["path"]
    return is_script or match["builtin"] is not None or _SUFFIX.search(match["path"]) is not None


def endings(path: str) -> Iterator[str]:
    """Yield the endings of a path, longest first: one may be the path below a repository's root.

    The name alone is left out of a path with several directories, since many files share it.
    """
    parts = [part for part in path.replace("\\", "/").split("/") if part not in ("", ".")]
    for start in range(max(1, len(parts) - 1) if len(parts) > 2 else len(parts)):
        yield "/".join(parts[start:])


def in_frame(documents: Sequence[Document], line: int, function: str) -> Document | None:
    """Return the innermost of a file's documents at a line, or the nearest one of another name.

    A stack trace may come from another version of the file. If it has the name of a `function`, and
    what is at the line now has not, the nearest document of that name is meant.
    """
    here = innermost(documents, line)
    if not function or (here is not None and function in here.title.split(".")):
        return here

    named = [document for document in documents if document.title.split(".")[-1] == function]
    return min(named, key=lambda each: (distance(each, line), _length(each)), default=here)


def innermost(documents: Sequence[Document], line: int) -> Document | None:
    """Return the shortest of a file's documents that contains a line, counted from 1."""
    here = [document for document in documents if distance(document, line) == 0]
    return min(here, key=_length, default=None)


def distance(document: Document, line: int) -> int:
    """Return how many lines a document is away from a line of its file; 0 if it contains the line."""
    start, end = _lines(document)
    return max(start - line, line - end, 0)


def _length(document: Document) -> int:
    start, end = _lines(document)
    return end - start


def _lines(document: Document) -> tuple[int, int]:
    """Return the first and last line of a document in its file; 0 and 0 for one without lines."""
    start, end = document.location.start_line, document.location.end_line
    return (start or 0, end or start or 0)
