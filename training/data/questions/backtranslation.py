"""Rephrasing texts by translating them to another language and back (reference QA, 3.5.1).

Any two sequence-to-sequence models that transformers can load will do; the paper uses FSMT, English
to German and back.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from purlin.index.errors import InvalidInput, NotFound
from purlin.training.data.templates.generation import Rephrase
from purlin.training.reasons import first_line

BATCH_SIZE = 32

# Longer texts are cut before they are tokenized.
MAX_TRANSLATED_CHARS = 10_000

_PUNCTUATION = re.compile(r"[\W_]+")


def back_translate(
    texts: Sequence[str], there: str, back: str, *, max_tokens: int = 128
) -> list[str | None]:
    """Translate each text with `there` and the result with `back`.

    A result is None if it is empty or equals the text but for case, punctuation and spaces.
    Both models are directories, or names on the hub, with weights in safetensors and a tokenizer;
    one at a time is in memory. `max_tokens` limits both the input and the output. Raises NotFound
    for a model that cannot be loaded.
    """
    foreign = translate(texts, there, max_tokens=max_tokens)
    returned = translate(foreign, back, max_tokens=max_tokens)
    return [
        translated if _differs(text, translated) else None
        for text, translated in zip(texts, returned, strict=True)
    ]


def rephraser(translators: Sequence[str], *, max_tokens: int = 128) -> Rephrase | None:
    """Return `back_translate` with two models, there and back, or None if there are none.

    Raises InvalidInput for any other number of models.
    """
    if not translators:
        return None
    if len(translators) != 2:
        raise InvalidInput(
            f"translators must be two models, there and back, not {len(translators)}: "
            "give both, or none.",
            field="translators",
        )

    there, back = translators
    return partial(back_translate, there=there, back=back, max_tokens=max_tokens)


def translate(texts: Sequence[str], model: str, *, max_tokens: int = 128) -> list[str]:
    """Translate each text with a sequence-to-sequence model, without sampling.

    Texts of similar length share a batch.
    """
    if not texts:
        return []

    tokenizer, translator = _load(model)
    order = sorted(range(len(texts)), key=lambda row: len(texts[row]))
    translated = [""] * len(texts)

    for start in range(0, len(order), BATCH_SIZE):
        rows = order[start : start + BATCH_SIZE]
        batch = [texts[row][:MAX_TRANSLATED_CHARS] for row in rows]
        outputs = _translate_batch(batch, tokenizer, translator, max_tokens)
        for row, text in zip(rows, outputs, strict=True):
            translated[row] = text

    return translated


def _translate_batch(batch: list[str], tokenizer: Any, model: Any, max_tokens: int) -> list[str]:
    inputs = tokenizer(
        batch, padding=True, truncation=True, max_length=max_tokens, return_tensors="pt"
    )

    # max_length=None overrides the model's own, which would compete with max_new_tokens.
    with torch.inference_mode():
        ids = model.generate(
            input_ids=inputs["input_ids"].to(model.device),
            attention_mask=inputs["attention_mask"].to(model.device),
            max_new_tokens=max_tokens,
            max_length=None,
            do_sample=False,
        )
    return [text.strip() for text in tokenizer.batch_decode(ids, skip_special_tokens=True)]


def _load(name: str) -> tuple[Any, Any]:
    # No code of the model's own and no pickles: both could run anything.
    try:
        tokenizer = AutoTokenizer.from_pretrained(name, trust_remote_code=False)
        model = AutoModelForSeq2SeqLM.from_pretrained(
            name, use_safetensors=True, trust_remote_code=False
        )
    except (OSError, ValueError, RuntimeError, ImportError, SafetensorError) as error:
        reason = first_line(error)
        raise NotFound(
            f"The translator {name} cannot be loaded: {reason} Give the directory of a model with "
            "safetensors and a tokenizer, or its name if the hub can be reached.",
            field="model",
        ) from None

    device = "cuda" if torch.cuda.is_available() else "cpu"
    return tokenizer, model.to(device).eval()


def _differs(text: str, translated: str) -> bool:
    return _words(translated) not in ("", _words(text))


def _words(text: str) -> str:
    folded = unicodedata.normalize("NFKC", text).casefold()
    return _PUNCTUATION.sub(" ", folded).strip()
