"""Questions -> the same questions in other words, by way of another language (reference QA, section 3.5.1).

Any two sequence-to-sequence models that transformers knows will do: the paper takes FSMT, English to German and back.
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

from index.errors import InvalidInput, NotFound
from training.config import in_range
from training.data.templates import Rephrase

__all__ = ["back_translate", "rephraser", "translate"]

MAX_CHARS = 10_000  # of a text that is translated
_MARKS = re.compile(r"[\W_]+")


def back_translate(
    questions: Sequence[str], there: str, back: str, *, batch_size: int = 32, max_tokens: int = 128
) -> list[str | None]:
    """Each question translated by `there` and then by `back`; None where nothing, or the question itself, came back.

    Case, punctuation and spaces make no difference. Both are directories, or names on the hub, of models with their
    weights in safetensors and their tokenizer; one is in memory at a time. `max_tokens` bounds what is read and what
    is written. Raises NotFound for a model that cannot be loaded.
    """
    foreign = translate(questions, there, batch_size=batch_size, max_tokens=max_tokens)
    returned = translate(foreign, back, batch_size=batch_size, max_tokens=max_tokens)
    return [_changed(question, text) for question, text in zip(questions, returned, strict=True)]


def rephraser(translators: Sequence[str]) -> Rephrase | None:
    """`back_translate` by two models, there and back; None without any. Raises InvalidInput for another number."""
    if not translators:
        return None
    if len(translators) != 2:
        raise InvalidInput(
            f"translators are two models, there and back, not {len(translators)}: give both, or none.",
            field="translators",
        )
    there, back = translators
    return partial(back_translate, there=there, back=back)


def translate(
    texts: Sequence[str], model: str, *, batch_size: int = 32, max_tokens: int = 128
) -> list[str]:
    """What a sequence-to-sequence model makes of each text, without sampling; texts of like length share a batch."""
    in_range("batch_size", batch_size, 1, 4096)
    in_range("max_tokens", max_tokens, 1, 4096)
    if not texts:
        return []
    tokenizer, translator = _load(model)
    order = sorted(range(len(texts)), key=lambda place: len(texts[place]))
    translated = [""] * len(texts)
    for start in range(0, len(order), batch_size):
        places = order[start : start + batch_size]
        batch = [texts[place][:MAX_CHARS] for place in places]
        for place, text in zip(
            places, _translated(batch, tokenizer, translator, max_tokens), strict=True
        ):
            translated[place] = text
    return translated


def _translated(batch: list[str], tokenizer: Any, model: Any, max_tokens: int) -> list[str]:
    inputs = tokenizer(
        batch, padding=True, truncation=True, max_length=max_tokens, return_tensors="pt"
    )
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
    try:
        tokenizer = AutoTokenizer.from_pretrained(name, trust_remote_code=False)
        model = AutoModelForSeq2SeqLM.from_pretrained(
            name, use_safetensors=True, trust_remote_code=False
        )
    except (OSError, ValueError, RuntimeError, ImportError, SafetensorError) as error:
        reason = str(error).strip().partition("\n")[0][:300]
        remedy = "Give a model's directory with safetensors and a tokenizer, or its name where the hub can be reached."
        raise NotFound(
            f"The translator {name} cannot be loaded: {reason} {remedy}", field="model"
        ) from None
    return tokenizer, model.to("cuda" if torch.cuda.is_available() else "cpu").eval()


def _changed(question: str, text: str) -> str | None:
    return text if _words(text) not in ("", _words(question)) else None


def _words(text: str) -> str:
    return _MARKS.sub(" ", unicodedata.normalize("NFKC", text).casefold()).strip()
