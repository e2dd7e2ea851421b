"""Warn of texts and labels that the encoder reads otherwise than people do: long, or in other languages."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from purlin.index.encoder import TextEncoder, in_english
from purlin.index.texts.fertility import MAX_TOKENS_PER_WORD, CountTokens, tokens_per_word

# Fewer words of labels say little. English labels have up to 1.5 tokens a word, a third of them
# abbreviations; Spanish ones 1.9, French, Italian, Dutch, Polish and German ones 2.1 to 3.3.
MIN_LABEL_WORDS = 5

_CHARS_PER_TOKEN = 12


def text_warnings(
    encoder: TextEncoder, texts: Sequence[str], rows: Sequence[str] | None = None
) -> list[str]:
    """Warn, in words for the caller, of texts that are cut, and of words that are hardly known.

    `rows` has what identifies each text's row, if they are from a file.
    """
    warnings = []
    cut = _cut_numbers(encoder, texts)
    if cut:
        count = "1 text is" if len(cut) == 1 else f"{len(cut):,} of {len(texts):,} texts are"
        first_cut = f"row {rows[cut[0] - 1]}" if rows else f"number {cut[0]:,}"
        first = "" if len(texts) == 1 else f" (the first is {first_cut})"
        warnings.append(
            f"{count} longer than the {encoder.max_tokens} tokens that the encoder reads{first}: "
            "what follows them does not count. Classify shorter parts, or begin with what matters."
        )

    translated = sum(bool(in_english(encoder, text)) for text in texts)
    if translated and encoder.architecture == "transformer":
        count = "1 text is" if translated == 1 else f"{translated:,} of {len(texts):,} texts are"
        warnings.append(
            f"{count} in another language than English, and read translated word by word, as their labels "
            "are if these are in another language: what is chosen is right less often. Describe labels in "
            "English, as in `Abo = subscription`, and give texts that matter in English."
        )
    return warnings + language_warnings(partial(encoder.count_tokens, role="query"), texts)


def language_warnings(count_tokens: CountTokens, texts: Sequence[str]) -> list[str]:
    """Warn of texts in a language that an encoder, which has so many tokens, hardly knows."""
    rate = tokens_per_word(count_tokens, texts)
    if rate <= MAX_TOKENS_PER_WORD:
        return []

    return [
        f"The encoder has {rate:.1f} tokens for each word of these texts, where one that knows the "
        "language has little more than 1: labels may be little better than guesses. Texts in other "
        "languages than its own take another encoder."
    ]


def label_warnings(count_tokens: CountTokens, wordings: Sequence[str]) -> list[str]:
    """Warn of labels, all their wordings, of whose words an encoder hardly knows most."""
    rate = tokens_per_word(count_tokens, wordings, MIN_LABEL_WORDS)
    if rate <= MAX_TOKENS_PER_WORD:
        return []

    return [
        f"The encoder has {rate:.1f} tokens for each word of these labels, where it has little more "
        "than 1 for words that it knows: codes, and labels in another language than its own, are "
        "little better than guessed. Say in its language what each means, as in `Rx = prescription`."
    ]


def _cut_numbers(encoder: TextEncoder, texts: Sequence[str]) -> list[int]:
    """Numbers, from 1, of the texts whose end the encoder does not read."""
    # A token has at least one character, and so many of them have less than _CHARS_PER_TOKEN each.
    longer = [number for number, text in enumerate(texts, 1) if len(text) >= encoder.max_tokens - 2]
    chars = encoder.max_tokens * _CHARS_PER_TOKEN
    counts = encoder.count_tokens([texts[number - 1][:chars] for number in longer], role="query")

    return [
        number
        for number, count in zip(longer, counts.tolist(), strict=True)
        if count > encoder.max_tokens
    ]
