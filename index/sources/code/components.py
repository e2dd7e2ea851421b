"""Find the scripts in a component of Vue or Svelte, which has markup and styles around them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from purlin.index.sources.code.syntax import blanked

_OPENING = re.compile(rb"<script(?=[\s>])", re.IGNORECASE)
# The rest of a tag; values may contain ">". Nothing is matched twice: time is linear.
_REST_OF_TAG = re.compile(rb"""(?:[^>"']|"[^"]*+"|'[^']*+')*+>""")
_CLOSING = re.compile(rb"</script\s*+>", re.IGNORECASE)


def scripts_only(source: bytes) -> bytes:
    """The source with a space for each byte that is in no script, so that every offset stays."""
    parts: list[bytes] = []
    end = 0
    for script_start, script_end in _scripts(source):
        parts += (blanked(source[end:script_start]), source[script_start:script_end])
        end = script_end
    return b"".join([*parts, blanked(source[end:])])


def _scripts(source: bytes) -> Iterator[tuple[int, int]]:
    """Where each script starts and ends; the last may lack its closing tag."""
    end = 0

    while opening := _OPENING.search(source, end):
        tag = _REST_OF_TAG.match(source, opening.end())
        if tag is None:
            return

        closing = _CLOSING.search(source, tag.end())
        end = closing.start() if closing else len(source)
        yield tag.end(), end
