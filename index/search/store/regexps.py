"""Regular expressions over the lines of stored texts, in bounded time.

The engine is the one of ripgrep, Rust's, by way of pydantic: its time is linear in the text, so it has
no look-around and no back-references. It only tells whether a text matches.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from functools import lru_cache

from purlin.index.errors import InvalidInput
from purlin.index.records import is_text

MAX_REGEXP_CHARS = 500
# Of all counts such as {2,50} together, those of groups multiplied: a long automaton is a slow one.
MAX_REPETITIONS = 500
# Of a processor, for one scan. The lock of the interpreter is held for one piece of a text, a second at most.
MAX_SECONDS = 10.0
_PIECE = 4000

_COUNT = re.compile(r"\{(\d+)(?:,(\d*))?\}")
_VERBOSE = re.compile(r"\(\?[a-zA-Z]*x")
# Ends of lines count, be they \n or \r\n.
_FLAGS = "(?mR)"
_FIELD = "filter.text.matches"


class Scan:
    """A comparison of texts with a regular expression, which raises InvalidInput if it takes too long.

    A line matches if any part of it does; lines of more than 4,000 characters are read in pieces.
    """

    def __init__(self, pattern: str) -> None:
        """Begin with a pattern. Raises InvalidInput, with the position of what is wrong with it."""
        self._pattern = pattern
        self._matches = _compiled(pattern)
        self._deadline = time.thread_time() + MAX_SECONDS

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield the spans (start, end) of the lines of a text that match, without their indentation."""
        for start, piece in _pieces(text):
            # Few pieces have a match, and this takes as long as for one line.
            if not self._has_match(piece):
                continue
            for line in piece.split("\n"):
                if self._has_match(line):
                    yield start + len(line) - len(line.lstrip()), start + len(line)
                start += len(line) + 1

    def has_line(self, text: str) -> bool:
        """Return whether a line of a text matches."""
        return next(self.spans(text), None) is not None

    def _has_match(self, text: str) -> bool:
        if time.thread_time() > self._deadline:
            raise InvalidInput(
                f"The regular expression {self._pattern[:80]!r} takes more than {MAX_SECONDS:g} s of a "
                "processor in these documents; write it with fewer repetitions, or search fewer "
                "documents, such as those of one path or language.",
                field=_FIELD,
            )
        return self._matches(text)


def _pieces(text: str) -> Iterator[tuple[int, str]]:
    """Yield a text in pieces of whole lines, as far as these are no longer than one, with their starts."""
    start = 0
    while start <= len(text):
        end = start + _PIECE
        if end < len(text) and (line_end := text.rfind("\n", start, end + 1)) >= 0:
            end = line_end
        yield start, text[start:end]
        # A line that is cut goes on at once.
        start = end + (text[end : end + 1] == "\n" or end >= len(text))


@lru_cache(maxsize=64)
def _compiled(pattern: str) -> Callable[[str], bool]:
    """Return what tells whether a pattern matches a text, or one of its lines. Raises InvalidInput."""
    _check_size(pattern)

    # Takes a while to import.
    from pydantic_core import SchemaError, SchemaValidator, core_schema

    try:
        validator = SchemaValidator(core_schema.str_schema(pattern=_FLAGS + pattern))
    except SchemaError as error:
        raise InvalidInput(_problem(pattern, str(error)), field=_FIELD) from None
    return validator.isinstance_python


def _check_size(pattern: str) -> None:
    """Raise InvalidInput for a pattern that is empty, or has so much in it that it could take long."""
    if not pattern or "\n" in pattern or not is_text(pattern):
        raise InvalidInput(
            "A regular expression is one line of valid Unicode, and not empty.",
            field=_FIELD,
        )
    if len(pattern) > MAX_REGEXP_CHARS:
        raise InvalidInput(
            f"The regular expression has {len(pattern):,} characters; at most {MAX_REGEXP_CHARS} "
            "are allowed: shorten it.",
            field=_FIELD,
        )

    repetitions, factor = 0, 1
    for match in _COUNT.finditer(pattern):
        count = int(match[2] or match[1])
        before = pattern[: match.start()].rstrip()
        # Before the count of a group may be a comment, where comments are allowed.
        if before.endswith(")") or _VERBOSE.search(pattern):
            factor *= max(count, 1)
            repetitions += before.count("(")
        else:
            repetitions += count
    if max(repetitions, 1) * factor > MAX_REPETITIONS:
        raise InvalidInput(
            f"The regular expression repeats {max(repetitions, 1) * factor:,} times; at most "
            f"{MAX_REPETITIONS} are allowed: use * or + instead of large counts.",
            field=_FIELD,
        )


def _problem(pattern: str, error: str) -> str:
    """Say what is wrong with a pattern, and at which character, from the engine's error."""
    lines = error.splitlines()
    reason = lines[-1].strip().removeprefix("error: ").removeprefix("SchemaError: ").rstrip(".")
    mark = next((line.index("^") for line in lines if line.strip("^ ") == "" and "^" in line), None)
    # The engine indents the pattern by four.
    position = "" if mark is None else f" at character {mark - 4 - len(_FLAGS) + 1}"
    return (
        f"{pattern[:80]!r} is no regular expression{position}: {reason}; put a backslash before a "
        "character that stands for itself."
    )
