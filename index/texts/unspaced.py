"""Chinese and Japanese put no spaces between words, so the end of a line there parts none."""

from __future__ import annotations

import re

# With their punctuation; Korean puts spaces between its words.
_CHARACTERS = (
    "\u2e80-\u312f\u31a0-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff01-\uff60\U00020000-\U0003ffff"
)
_CHARACTER = re.compile(f"[{_CHARACTERS}]")
_LINE_END = re.compile(rf"(?<=[{_CHARACTERS}])[ \t\r]*\n[ \t\r\n]*(?=[{_CHARACTERS}])")


def is_unspaced(text: str) -> bool:
    """Return whether a text begins with a character of such a script."""
    return _CHARACTER.match(text) is not None


def unwrapped(text: str) -> str:
    """Return a text without the ends of lines between two such characters."""
    return text if text.isascii() or "\n" not in text else _LINE_END.sub("", text)
