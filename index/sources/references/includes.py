"""Put the files that an AsciiDoc page includes into its text.

Only text inside the source's directory is read, within limits; the rest is told in a remark.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from purlin.index.records import Skipped
from purlin.index.sources.code.contents import LeftOut, file_type
from purlin.index.sources.encodings import decoded

MAX_DEPTH = 16  # includes within includes
MAX_INCLUDES = 1_000  # of a page
MAX_INCLUDED_BYTES = 4 << 20  # of a page
MAX_HEAD = 10_000  # characters in which a page's title is looked for
MAX_REMARKS = 5  # includes that a remark names

# `include::target[options]`, and an option such as `lines=1..3` or `tags="a;b"`.
_INCLUDE = re.compile(r"include::(?P<target>[^\s\[][^\[]{0,500})\[(?P<options>.*)\][ \t]*")
# `:name: value`, and a reference to it.
_ATTRIBUTE = re.compile(r":([\w-]{1,100}):(?:[ \t]+(.*))?")
ATTRIBUTE_REFERENCE = re.compile(r"\{([\w-]{1,100})\}")
_OPTION = re.compile(r"""(\w+)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^,]*))""")
# Lines `3`, `1..3`, `5..` or `5..-1`.
_RANGE = re.compile(r"(\d{1,7})(?:\.\.(-1|\d{0,7}))?")
# `tag::name[]` and `end::name[]` around lines.
_TAG = re.compile(r"\b(tag|end)::([\w-]{1,100})\[\]")
_HEADING = re.compile(r"(={1,6})(?=[ \t]+\S)")
_BEFORE_TITLE = re.compile(r"(?://|:|\[|\s*$)")


class _Refused(Exception):
    """Why an include is not followed."""


class Expanded:
    """The text of a page with the files below a directory that it includes.

    A target is relative to the file that names it. It may refer to attributes that were defined
    before. Of the options, `lines`, `tag`, `tags` and `leveloffset` are heeded. `files` are those
    that were included, `count` is how often, and `refused` says what was not followed and why.
    """

    def __init__(self, text: str, path: Path, root: Path) -> None:
        self.files: set[Path] = set()
        self.refused: list[str] = []
        self._root = root.resolve()
        self._attributes: dict[str, str] = {}
        self.count, self._size = 0, len(text)
        self.text = "\n".join(self._lines(text, path.resolve(), ()))

    def remark(self, name: str) -> Skipped | None:
        """Return what a build says of includes that were not followed; None if all were."""
        if not self.refused:
            return None
        shown = "; ".join(self.refused[:MAX_REMARKS])
        more = ", …" if len(self.refused) > MAX_REMARKS else ""
        return Skipped(
            name, f"{len(self.refused)} includes were not followed: {shown}{more}", by_choice=True
        )

    def _lines(self, text: str, path: Path, outer: tuple[Path, ...]) -> Iterator[str]:
        for line in text.split("\n"):
            include = (
                _INCLUDE.fullmatch(line.rstrip("\r")) if line.startswith("include::") else None
            )
            if include is None:
                if attribute := _ATTRIBUTE.fullmatch(line.rstrip()):
                    self._attributes[attribute[1]] = attribute[2] or ""
                yield line
                continue

            options = _options(include["options"])
            try:
                file, content = self._read(include["target"], options, path, (*outer, path))
            except _Refused as reason:
                if str(reason):
                    self.refused.append(f"{include['target'][:100]} ({reason})")
                continue
            if content:
                yield from _shifted(self._lines(content, file, (*outer, path)), options)

    def _read(
        self, target: str, options: Mapping[str, str], path: Path, open_files: tuple[Path, ...]
    ) -> tuple[Path, str]:
        """Return the file of a target and what of its text is included."""
        target = ATTRIBUTE_REFERENCE.sub(
            lambda name: self._attributes.get(name[1], name[0]), target
        )
        if "://" in target:
            raise _Refused("an address")
        if "{" in target:
            raise _Refused("an attribute that the page does not define")
        if "\0" in target or Path(target).is_absolute():
            raise _Refused("no relative path")

        file = (path.parent / target).resolve()
        if not file.is_relative_to(self._root):
            raise _Refused("outside the source's directory")
        if any(part.startswith(".") for part in file.relative_to(self._root).parts):
            raise _Refused("a hidden file")
        if isinstance(kind := file_type(file.name), LeftOut):
            raise _Refused(kind.reason or "binary, not text")
        if file in open_files:
            raise _Refused("includes itself")
        if len(open_files) > MAX_DEPTH:
            raise _Refused(f"more than {MAX_DEPTH} includes deep")
        if self.count >= MAX_INCLUDES:
            raise _Refused(f"more than {MAX_INCLUDES:,} includes")
        self.count += 1

        text = self._text(file, is_optional="optional" in options.get("opts", ""))
        self.files.add(file)
        text = "\n".join(_selected(text.split("\n"), options))
        self._size += len(text)
        return file, text

    def _text(self, file: Path, is_optional: bool) -> str:
        room = MAX_INCLUDED_BYTES - self._size
        try:
            if not file.is_file():
                raise _Refused("" if is_optional else "no such file")
            with file.open("rb") as opened:
                content = opened.read(max(room, 0) + 1)
        except OSError as error:
            raise _Refused(f"cannot be read: {error.strerror}") from None

        if len(content) > room:
            raise _Refused(f"the page would be larger than {MAX_INCLUDED_BYTES:,} bytes")
        text = None if b"\0" in content[:8192] else decoded(content)
        if text is None:
            raise _Refused("binary, not text")
        return text.removesuffix("\n")


def is_fragment(text: str) -> bool:
    """Return whether a page has no title of its own, as those that others include."""
    lines = iter(text[:MAX_HEAD].split("\n"))
    first = next((line.rstrip() for line in lines if not _BEFORE_TITLE.match(line)), "")
    below = next(lines, "").rstrip()
    is_underlined = len(below) > 2 and not below.strip("=") and abs(len(below) - len(first)) < 2
    return not first.startswith(("= ", "# ")) and not is_underlined


def _options(text: str) -> dict[str, str]:
    """The named ones: `lines=1..3,opts=optional`."""
    matches = _OPTION.finditer(text[:1000])
    return {match[1]: (match[2] or match[3] or match[4] or "").strip() for match in matches}


def _selected(lines: list[str], options: Mapping[str, str]) -> Iterator[str]:
    """The lines that the options choose; those that only begin or end a tag are left out."""
    if ranges := options.get("lines"):
        yield from _in_ranges(lines, ranges)
        return

    tags = re.split(r"[;,]", options.get("tag") or options.get("tags") or "")
    chosen = {tag for tag in tags if tag and not tag.startswith("!")} - {"*", "**"}
    open_tags: set[str] = set()
    for line in lines:
        if tag := _TAG.search(line):
            if tag[1] == "tag":
                open_tags.add(tag[2])
            else:
                open_tags.discard(tag[2])
        elif not chosen or chosen & open_tags:
            yield line


def _in_ranges(lines: list[str], ranges: str) -> Iterator[str]:
    """Lines by their numbers: `1..3;7`, and `5..` or `5..-1` to the end."""
    numbers: set[int] = set()

    for part in re.split(r"[;,]", ranges):
        match = _RANGE.fullmatch(part.strip())
        if match is None:
            continue

        first = int(match[1])
        last = first if match[2] is None else len(lines)
        if match[2] and match[2] != "-1":
            last = int(match[2])
        numbers.update(range(first, min(last, len(lines)) + 1))

    yield from (line for number, line in enumerate(lines, 1) if number in numbers)


def _shifted(lines: Iterable[str], options: Mapping[str, str]) -> Iterator[str]:
    """Lines with their headings `leveloffset` levels deeper, or higher if it is negative."""
    offset = options.get("leveloffset", "")
    levels = int(offset) if re.fullmatch(r"[+-]?\d", offset) else 0
    for line in lines:
        heading = _HEADING.match(line) if levels else None
        if heading is not None:
            line = "=" * min(max(len(heading[1]) + levels, 1), 6) + line[heading.end() :]
        yield line
