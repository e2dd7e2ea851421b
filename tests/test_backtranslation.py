"""Translation there and back, with tiny models whose output is fixed or random."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import MarianConfig, MarianMTModel, T5Config, T5ForConditionalGeneration

from purlin.index.errors import InvalidInput, NotFound
from purlin.training.data.backtranslation import back_translate, translate
from purlin.training.data.pair_formats import read_pairs
from purlin.training.data.pairs import Pair, PairSource
from purlin.training.data.questions import QuestionSource, load_questions
from tests.tiny import WORDS, save_tokenizer

REFERENCE = Path(__file__).parent / "data" / "reference"
QUESTIONS = ["open the file", "read", "Which line is in the file?" * 40, ""]


def marian(directory: Path, word: str = "") -> str:
    """Save a random Marian model; with `word`, one that outputs only that word."""
    torch.manual_seed(1)
    config = MarianConfig(
        vocab_size=len(WORDS),
        d_model=16,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=16,
        decoder_ffn_dim=16,
        max_position_embeddings=256,
        pad_token_id=0,
        eos_token_id=3,
        forced_eos_token_id=None,
        decoder_start_token_id=0,
    )
    model = MarianMTModel(config)
    model.generation_config.bad_words_ids = None
    if word:
        model.final_logits_bias[0, WORDS.index(word)] = 1000.0
    model.save_pretrained(directory)
    save_tokenizer(directory)
    return str(directory)


def t5(directory: Path) -> str:
    torch.manual_seed(2)
    config = T5Config(vocab_size=len(WORDS), d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2)
    config.pad_token_id, config.eos_token_id, config.decoder_start_token_id = 0, 3, 0
    T5ForConditionalGeneration(config).save_pretrained(directory)
    save_tokenizer(directory)
    return str(directory)


def test_models_of_two_classes_translate(tmp_path: Path) -> None:
    there, back = marian(tmp_path / "there"), t5(tmp_path / "back")
    returned = back_translate(QUESTIONS, there, back, batch_size=3, max_tokens=6)
    assert len(returned) == len(QUESTIONS)
    assert returned == back_translate(QUESTIONS, there, back, batch_size=3, max_tokens=6)
    alone = translate(translate(QUESTIONS[:1], there, max_tokens=6), back, max_tokens=6)
    assert returned[0] in (alone[0], None)


def test_translations_keep_the_order_of_their_texts(tmp_path: Path) -> None:
    model = marian(tmp_path)
    together = translate(QUESTIONS, model, batch_size=1, max_tokens=5)
    assert together == [translate([text], model, max_tokens=5)[0] for text in QUESTIONS]


def test_unchanged_question_is_none(tmp_path: Path) -> None:
    there, back = marian(tmp_path / "there"), marian(tmp_path / "back", "open")
    texts = ["Open, open: OPEN?", "open the file", "open open"]
    assert back_translate(texts, there, back, max_tokens=3) == [
        None,
        "open open open",
        "open open open",
    ]


def test_empty_translation_is_none(tmp_path: Path) -> None:
    there, back = marian(tmp_path / "there"), marian(tmp_path / "back", "[SEP]")
    assert back_translate(["open the file"], there, back, max_tokens=3) == [None]


def test_no_questions_need_no_model() -> None:
    assert back_translate([], "no/such", "no/such") == []


def test_missing_or_pickled_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="cannot be loaded"):
        back_translate(["open"], str(tmp_path / "missing"), "unused")
    pickled = tmp_path / "pickled"
    model = marian(pickled)
    (pickled / "model.safetensors").rename(pickled / "pytorch_model.bin")
    with pytest.raises(NotFound, match="safetensors"):
        back_translate(["open"], model, model)


@pytest.mark.parametrize("limits", [{"batch_size": 0}, {"max_tokens": 0}])
def test_limits_are_checked(limits: dict[str, int]) -> None:
    with pytest.raises(InvalidInput, match="must be from 1"):
        translate(["open"], "unused", **limits)


RULES = """
verbs = ["read"]
[[forms]]
name = "term"
texts = ["What {noun} {third} {rest}?"]
[[directives]]
kind = "option"
noun = "option"
"""


def questions(source: PairSource) -> set[str]:
    return {
        query for pair in read_pairs(source) if isinstance(pair, Pair) for query in pair.queries
    }


def test_rules_and_translators_of_a_recipe(tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text(RULES)
    (plain,) = questions(PairSource("templates", REFERENCE, rules=rules))
    assert plain.startswith("What option reads ")
    models = marian(tmp_path / "there"), marian(tmp_path / "back", "open")
    rephrased = questions(PairSource("templates", REFERENCE, rules=rules, translators=models))
    assert rephrased == {plain, " ".join(["open"] * 128)}
    pool, loaded = load_questions(
        QuestionSource(format="templates", path=REFERENCE, rules=rules, translators=models), {}
    )
    assert {question.question for question in loaded} == rephrased
    assert len({question.answer(pool) for question in loaded}) == 1


def test_translations_shared_by_entries_are_dropped(tmp_path: Path) -> None:
    """A translator with the same output for everything leaves only the original questions."""
    models = marian(tmp_path / "there"), marian(tmp_path / "back", "open")
    source = PairSource("templates", REFERENCE)
    plain = questions(source)
    assert len(plain) > 3
    assert questions(replace(source, translators=models)) == plain


@pytest.mark.parametrize("kind", [PairSource, QuestionSource])
def test_one_translator_is_refused(kind: Any) -> None:
    with pytest.raises(InvalidInput, match="two models") as raised:
        kind(format="templates", path=REFERENCE, translators=("one",))
    assert raised.value.field == "translators"


@pytest.mark.parametrize("kind", [PairSource, QuestionSource])
@pytest.mark.parametrize(
    "options", [{"translators": ("there", "back")}, {"rules": REFERENCE / "mine.toml"}]
)
def test_template_options_are_refused_elsewhere(kind: Any, options: dict[str, Any]) -> None:
    (field,) = options
    with pytest.raises(
        InvalidInput, match=f"{field} belongs to the format templates, not to linked"
    ) as raised:
        kind(format="linked", path=REFERENCE, reference=REFERENCE, **options)
    assert raised.value.field == field
