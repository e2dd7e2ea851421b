"""Scripts that put no spaces between words, so that lines and words end differently there."""

from __future__ import annotations

import re

KATAKANA = "\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"
HAN = "\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
# All others, and Hangul, which joins particles to words.
OTHER_UNSPACED = (
    f"{HAN}\u3041-\u3096\u309d-\u309f\uac00-\ud7a3"
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai and Lao, Burmese, Khmer
)
# Chinese and Japanese with their punctuation, where the end of a line parts no words. Korean has spaces.
_CHARACTERS = (
    "\u2e80-\u312f\u31a0-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff01-\uff60\U00020000-\U0003ffff"
)
_CHARACTER = re.compile(f"[{_CHARACTERS}]")
_LINE_END = re.compile(rf"(?<=[{_CHARACTERS}])[ \t\r]*\n[ \t\r\n]*(?=[{_CHARACTERS}])")


def is_unspaced(text: str) -> bool:
    """Return whether a text begins with a Chinese or Japanese character."""
    return _CHARACTER.match(text) is not None


def unwrapped(text: str) -> str:
    """Return a text without the ends of lines between two such characters."""
    return text if text.isascii() or "\n" not in text else _LINE_END.sub("", text)
