"""Put a question in another language into English, which all that answers questions reads.

What the question asks for is recognised by its wording, as single words hardly tell it; the others are
translated one by one, and names stay as they are.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

from purlin.index.encoder import TextEncoder, in_english, word_by_word
from purlin.index.qa.question_words import FRAMES

# A name has a mark in it or a capital after its first letter, or is called.
_NAME = re.compile(
    r"&#?\w{1,8};|(?<![\w-])--?[A-Za-z][\w-]*"
    r"|@?\b[A-Za-z_]\w*(?:[.][A-Za-z_]\w*)+(?:\(\))?|@[A-Za-z_]\w*|\b[A-Za-z]\w*\(\)"
    r"|\b(?:[A-Za-z]\w*)?_\w+|\b[A-Za-z]\w*[A-Z]\w*",
    re.ASCII,
)
# In other scripts, every word in Latin letters is one.
_LATIN = re.compile(rf"{_NAME.pattern}|[A-Za-z]\w*\*?|\b\d[\w.]*", re.ASCII)
_OTHER_SCRIPT = re.compile(r"[^\W\d_a-zA-Z\u00aa-\u024f\u1e00-\u1eff]")
# Fewer words in Latin letters tell no language.
_FEWEST_WORDS = 2
_QUESTION_WORDS = frozenset(("what", "which", "how", "who"))
# Wordings of the table that English questions have, too.
_ALSO_ENGLISH = frozenset(("comment", "in version"))


@dataclass(frozen=True, slots=True)
class ForeignQuestion:
    """A question in another language than English, with what it asks for said in English.

    The other words of `in_english` are translated; those of `as_written` are not.
    """

    in_english: str
    as_written: str


def foreign_question(encoder: TextEncoder, question: str) -> ForeignQuestion | None:
    """Read a question in another language; None if it is English, or the encoder knows no other one."""
    text = unicodedata.normalize("NFC", question).replace("’", "'").strip(" ¿?？。!！")
    frame, wording, rest = _framed(text)
    is_worded = bool(wording) and wording.lower() not in _ALSO_ENGLISH
    if (not is_worded and is_english(encoder, text)) or not word_by_word(encoder, text):
        return None

    names = _LATIN if _OTHER_SCRIPT.search(text) else _NAME
    words = " ".join(_translated(encoder, rest, names)).split()
    if wording:
        # The frame has them.
        words = [word for word in words if word not in _QUESTION_WORDS]

    return ForeignQuestion(
        " ".join(frame.replace("{}", " ".join(words)).split()),
        " ".join(frame.replace("{}", rest).split()),
    )


def is_english(encoder: TextEncoder, text: str) -> bool:
    """Return whether a text is English, though it may name what has letters of other scripts."""
    # Names are English, whatever is said about them.
    words = _NAME.sub(" ", text)
    characters = len(_OTHER_SCRIPT.findall(words))
    if characters:
        return characters < len(_LATIN.findall(words))
    return len(words.split()) < _FEWEST_WORDS or not in_english(encoder, words)


def _framed(text: str) -> tuple[str, str, str]:
    """Return what a question asks for in English, how it is worded, and the other words.

    Where no wording tells, the frame is `{}`.
    """
    for frame, wordings in FRAMES:
        if match := wordings.search(text):
            kept = " ".join(filter(None, match.groups()))
            rest = f"{text[: match.start()]} {kept} {text[match.end() :]}"
            return frame, match[0], rest
    return "{}", "", text


def _translated(encoder: TextEncoder, text: str, names: re.Pattern[str]) -> Iterator[str]:
    """Yield the names of a text, and the English words for what is between them."""
    start = 0
    for name in names.finditer(text):
        yield word_by_word(encoder, text[start : name.start()])
        yield name[0]
        start = name.end()
    yield word_by_word(encoder, text[start:])
