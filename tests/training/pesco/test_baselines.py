"""The baselines of PESCO's table 4, on tiny random models."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForMaskedLM, AutoTokenizer, BertConfig, BertForMaskedLM

from benchmarks.classify import pesco_baselines
from benchmarks.classify.pesco_baselines import (
    CLOZE,
    ClozeClassifier,
    ClozeQuestions,
    ipet,
    scores,
    supervised,
    word_id,
)
from purlin.index.errors import InvalidInput
from purlin.training.loop.devices import make_accelerator
from purlin.training.loop.settings import LoopSettings
from tests.support.files import write_jsonl
from tests.support.tiny import SPECIAL, save_bert, save_tokenizer
from tests.training.pesco.test_pesco import COMMON, TOPIC_NAMES, TOPICS, topic_texts

VOCABULARY = [*SPECIAL, "[MASK]", ".", ":", "(", ")", *COMMON, *TOPICS["river"], *TOPICS["music"]]
LOOP = LoopSettings(batch_size=8, learning_rate=0.01, epochs=4.0, precision="fp32")
QUESTIONS = ClozeQuestions(("{mask}: {text}", "{text} ({mask})"), {"music": "song"})
SIZE = {
    "vocab_size": len(VOCABULARY) + 2,
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 80,
}

pytestmark = pytest.mark.usefixtures("one_process", "graphs_once")


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pesco_baselines, "MAX_TOKENS", 48)


@pytest.fixture
def masked(tmp_path: Path) -> Path:
    """A random masked language model that knows all words."""
    torch.manual_seed(1)
    config = BertConfig(**SIZE, initializer_range=0.2)
    BertForMaskedLM(config).save_pretrained(tmp_path / "masked")
    save_tokenizer(tmp_path / "masked", [*VOCABULARY, *TOPIC_NAMES])
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "masked")
    tokenizer.add_special_tokens({"mask_token": "[MASK]"})
    tokenizer.save_pretrained(tmp_path / "masked")
    return tmp_path / "masked"


@torch.inference_mode()
def test_cloze_scores_match_a_loop(masked: Path) -> None:
    texts, _ = topic_texts(5)
    classifier = ClozeClassifier(str(masked), QUESTIONS, TOPIC_NAMES)
    model = AutoModelForMaskedLM.from_pretrained(masked).eval()
    tokenizer = AutoTokenizer.from_pretrained(masked)
    words = [tokenizer.convert_tokens_to_ids(word) for word in ("river", "song")]

    for text, row in zip(texts, scores(classifier, texts), strict=True):
        shares = []
        for question in (f"[MASK]: {text}", f"{text} ([MASK])"):
            ids = tokenizer(question, return_tensors="pt")
            at_mask = (ids["input_ids"][0] == tokenizer.mask_token_id).nonzero().item()
            logits = model(**ids).logits[0, at_mask]
            shares.append(np.exp([float(logits[word]) for word in words]))
        expected = np.mean([share / share.sum() for share in shares], axis=0)
        np.testing.assert_allclose(np.exp(row), expected, atol=1e-5)


def test_long_texts_and_masks_in_them_leave_one_mask(masked: Path) -> None:
    classifier = ClozeClassifier(str(masked), QUESTIONS, TOPIC_NAMES)
    texts = ["[MASK] river " * 100, "", "[MASK]"]
    assert scores(classifier, texts).shape == (3, 2)
    longest = max(len(classifier._question(text, 1)) for text in texts)
    assert longest == 48


def test_words_of_several_tokens_are_refused(masked: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(masked)
    for word in ("river boat", "unheard"):
        with pytest.raises(InvalidInput, match="is not one token"):
            word_id(tokenizer, word)


def test_ipet_learns_its_own_labels_from_the_start(
    masked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each generation labels by the weights of the one before, and trains those of the start."""
    texts, _ = topic_texts(60)
    classifier = ClozeClassifier(str(masked), QUESTIONS, TOPIC_NAMES)
    bias = classifier.model.get_output_embeddings().bias.detach()
    with torch.no_grad():
        # Words are equally frequent, so that both labels occur.
        bias[classifier.words[0]] -= float(np.median(np.diff(scores(classifier, texts)[:, ::-1])))
    start = float(bias[classifier.words[0]])
    expected = scores(classifier, texts).argmax(1)
    sizes: list[int] = []

    def turned(model: ClozeClassifier, sample: Any, labels: Any, *_: Any, **__: Any) -> None:
        nonlocal expected
        assert float(bias[model.words[0]]) == start
        rows = [texts.index(text) for text in sample]
        np.testing.assert_array_equal(labels, expected[rows])
        assert np.bincount(labels).tolist() == [len(sample) // 2] * 2
        sizes.append(len(sample))
        with torch.no_grad():
            bias[model.words[0]] += 0.1
        expected = scores(model, texts).argmax(1)

    monkeypatch.setattr(pesco_baselines, "fit", turned)
    accelerator = make_accelerator(LOOP, cpu=True)
    ipet(classifier, texts, tmp_path / "run", accelerator, seed=1, generations=3, loop=LOOP)
    assert sizes == [2, 6, 12]


def test_supervised_baseline_learns_from_labels(tmp_path: Path) -> None:
    texts, right = topic_texts(60)
    rows = [
        {"text": text, "label": TOPIC_NAMES[label]}
        for text, label in zip(texts, right, strict=True)
    ]
    base = save_bert(
        tmp_path / "base", [*VOCABULARY, *TOPIC_NAMES], **SIZE | {"vocab_size": len(VOCABULARY) + 2}
    )
    accelerator = make_accelerator(LOOP, cpu=True)
    source = tmp_path / "data"
    source.mkdir()
    write_jsonl(source / "dev.jsonl", rows[:20])

    def measured(out: str, loop: LoopSettings) -> tuple[float, int]:
        options: dict[str, Any] = {"seed": 1, "loop": loop}
        return supervised(str(base), source, tmp_path / out, TOPIC_NAMES, accelerator, **options)

    untrained = replace(LOOP, learning_rate=0.0)
    assert measured("folds", LOOP)[0] > measured("untrained", untrained)[0]

    # With rows to learn from, all dev rows are measured.
    write_jsonl(source / "train.jsonl", rows[20:])
    value, count = measured("train", LOOP)
    assert value > 0.9
    assert count == 20


def test_cloze_words_belong_to_labels() -> None:
    for name, questions in CLOZE.items():
        assert all("{text}" in form and "{mask}" in form for form in questions.patterns), name
        assert all(word.isalpha() for word in questions.words.values())
