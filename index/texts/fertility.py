"""Fertility of an encoder's tokenizer: how many tokens a word has, which tells whether it knows the language."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from purlin.index.texts.unspaced import KATAKANA, OTHER_UNSPACED

CountTokens = Callable[[Sequence[str]], NDArray[np.integer[Any]]]

# English texts, logs, code and titles of products have up to 1.4 tokens a word, German, French and
# Spanish 1.7 to 2.4, Japanese, Chinese and Korean 2.0 to 3.5.
MAX_TOKENS_PER_WORD = 1.6
# With fewer words, names alone can have so many.
MIN_WORDS = 20
SAMPLED_TEXTS = 64
_SAMPLED_CHARS = 1000
# Words, and of scripts without spaces pairs of characters, of which an encoder that knows them has one token.
_WORD = re.compile(rf"[^\W\d_{OTHER_UNSPACED}{KATAKANA}]{{2,}}|[{OTHER_UNSPACED}{KATAKANA}]{{2}}")


def tokens_per_word(
    count_tokens: CountTokens, texts: Sequence[str], min_words: int = MIN_WORDS
) -> float:
    """Return the mean number of tokens of a word in a sample of the texts; 0 below `min_words`.

    `count_tokens` counts the tokens (n,) of n texts, each with the encoder's own marks.
    """
    sample = texts[:: -(-len(texts) // SAMPLED_TEXTS)] if texts else ()
    words = [word for text in sample for word in _WORD.findall(text[:_SAMPLED_CHARS])]
    if len(words) < min_words:
        return 0.0

    # As many words in each, so that none is cut.
    parts = [
        " ".join(words[start : start + MIN_WORDS]) for start in range(0, len(words), MIN_WORDS)
    ]
    counts = count_tokens(["", *parts])
    return float(counts[1:].sum() - counts[0] * len(parts)) / len(words)
