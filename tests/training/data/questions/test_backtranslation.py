"""Translation there and back, with tiny models whose output is fixed or random."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from transformers import (
    FSMTConfig,
    FSMTForConditionalGeneration,
    MarianConfig,
    MarianMTModel,
)

from purlin.index.errors import InvalidInput, NotFound
from purlin.index.sources.references.html.reader import read_page
from purlin.index.sources.references.manual import documents
from purlin.training.data.pairs import question_pairs
from purlin.training.data.pairs.formats import read_pairs
from purlin.training.data.pairs.pair import Pair, PairSource
from purlin.training.data.questions.backtranslation import back_translate, translate
from purlin.training.data.questions.reader_questions import load_questions
from purlin.training.data.questions.sources import QuestionSource
from purlin.training.data.templates.generation import examples
from purlin.training.data.templates.rules import PAPER_RULES, read_rules
from purlin.training.dev import DevSet, read_dev_set
from tests.support.paths import DATA
from tests.support.tiny import WORDS, save_t5, save_tokenizer

REFERENCE = DATA / "reference"
# Of 13 pieces: one with more would be larger than all other test data.
TRANSLATION = DATA / "translation"
SMALL = {
    "d_model": 16,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 16,
    "decoder_ffn_dim": 16,
}
QUESTIONS = ["open the file", "read", "Which line is in the file?" * 40, ""]


def marian(directory: Path, word: str = "") -> str:
    """Save a random Marian model; with `word`, one that outputs only that word, four times."""
    torch.manual_seed(1)
    ids = {"pad_token_id": 0, "eos_token_id": 3, "decoder_start_token_id": 0}
    config = MarianConfig(
        vocab_size=len(WORDS),
        **SMALL,
        **ids,
        max_position_embeddings=1024,
        forced_eos_token_id=None,
    )
    model = MarianMTModel(config)
    model.generation_config.bad_words_ids = None
    if word:
        model.final_logits_bias[0, WORDS.index(word)] = 1000.0
        model.generation_config.exponential_decay_length_penalty = (3, 1e9)
    model.save_pretrained(directory)
    save_tokenizer(directory)
    return str(directory)


def fsmt(directory: Path) -> str:
    """Save a random FSMT model, with the files of its own tokenizer (facebook/wmt19-*)."""
    directory.mkdir()
    letters = "abcdefghijklmnopqrstuvwxyz?"
    words = ["<s>", "<pad>", "</s>", "<unk>", *letters, *(f"{letter}</w>" for letter in letters)]
    words += ["th", "the</w>"]
    for name in ("vocab-src.json", "vocab-tgt.json"):
        (directory / name).write_text(json.dumps({word: row for row, word in enumerate(words)}))
    (directory / "merges.txt").write_text("t h 10\nth e</w> 5\n")
    settings = {"langs": ["en", "de"], "tokenizer_class": "FSMTTokenizer"}
    (directory / "tokenizer_config.json").write_text(json.dumps(settings))

    torch.manual_seed(3)
    sizes = {"src_vocab_size": len(words), "tgt_vocab_size": len(words)}
    FSMTForConditionalGeneration(
        FSMTConfig(langs=["en", "de"], **sizes, **SMALL, max_position_embeddings=1024)
    ).save_pretrained(directory)
    return str(directory)


def marian_spm(directory: Path) -> str:
    """Save a random Marian model, with the files of its own tokenizer (Helsinki-NLP/opus-mt-*)."""
    directory.mkdir()
    for name in ("source.spm", "target.spm"):
        shutil.copyfile(TRANSLATION / "pieces.spm", directory / name)
    shutil.copyfile(TRANSLATION / "vocab.json", directory / "vocab.json")
    settings = {"source_lang": "de", "target_lang": "en", "tokenizer_class": "MarianTokenizer"}
    (directory / "tokenizer_config.json").write_text(json.dumps(settings))

    torch.manual_seed(4)
    words = json.loads((directory / "vocab.json").read_text())
    ids = {"pad_token_id": words["<pad>"], "eos_token_id": words["</s>"]}
    config = MarianConfig(
        vocab_size=len(words),
        **SMALL,
        **ids,
        decoder_start_token_id=words["<pad>"],
        forced_eos_token_id=None,
        max_position_embeddings=1024,
    )
    model = MarianMTModel(config)
    # Random weights may end each text at once.
    model.final_logits_bias[0, words["▁o"]] = 1000.0
    model.save_pretrained(directory)
    return str(directory)


def test_published_tokenizers_load(tmp_path: Path) -> None:
    """FSMT's needs sacremoses and Marian's sentencepiece, which are in the extra `training`."""
    there, back = fsmt(tmp_path / "there"), marian_spm(tmp_path / "back")
    assert translate(["open the file", "read"], back, max_tokens=3) == ["o o o", "o o o"]
    assert all(translate(["the file is open?", "read"], there, max_tokens=3))
    assert back_translate(["read the file"], there, back, max_tokens=2) == ["o o"]


def test_models_of_two_classes_translate(tmp_path: Path) -> None:
    there, back = marian(tmp_path / "there"), str(save_t5(tmp_path / "back", num_layers=1))
    returned = back_translate(QUESTIONS, there, back, max_tokens=6)
    assert len(returned) == len(QUESTIONS)
    assert returned == back_translate(QUESTIONS, there, back, max_tokens=6)
    alone = translate(translate(QUESTIONS[:1], there, max_tokens=6), back, max_tokens=6)
    assert returned[0] in (alone[0], None)


def test_translations_keep_the_order_of_their_texts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("purlin.training.data.questions.backtranslation.BATCH_SIZE", 2)
    model = marian(tmp_path)
    together = translate(QUESTIONS, model, max_tokens=5)
    assert together == [translate([text], model, max_tokens=5)[0] for text in QUESTIONS]


def test_unchanged_question_is_none(tmp_path: Path) -> None:
    there, back = marian(tmp_path / "there"), marian(tmp_path / "back", "open")
    texts = ["Open, open: OPEN?", "open the file", "open open"]
    returned = back_translate(texts, there, back, max_tokens=3)
    assert returned == [None, *["open open open"] * 2]


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


@pytest.fixture(scope="module")
def opening(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A translator of everything to the same words."""
    return marian(tmp_path_factory.mktemp("opening"), "open")


def test_rules_and_translators_of_a_recipe(opening: str, tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text(RULES)
    (plain,) = questions(PairSource("templates", REFERENCE, rules=rules))
    assert plain.startswith("What option reads ")
    options = {"path": REFERENCE, "rules": rules, "translators": (opening, opening)}
    rephrased = questions(PairSource("templates", **options))
    assert rephrased == {plain, "open open open open"}
    pool, loaded = load_questions(QuestionSource(format="templates", **options), {})
    assert {question.question for question in loaded} == rephrased
    assert len({tuple(question.answers(pool)) for question in loaded}) == 1


def test_translations_shared_by_entries_are_dropped(opening: str) -> None:
    """A translator with the same output for everything leaves only the original questions."""
    source = PairSource("templates", REFERENCE)
    plain = questions(source)
    assert len(plain) > 3
    assert questions(replace(source, translators=(opening, opening))) == plain


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


# -- pairs of translated questions and passages ----------------------------------------------------


def pairs_of(source: PairSource) -> set[tuple[str, str]]:
    return {
        (query, pair.passage)
        for pair in read_pairs(source)
        if isinstance(pair, Pair)
        for query in pair.queries
    }


@pytest.fixture
def source(tmp_path: Path) -> PairSource:
    rules = tmp_path / "rules.toml"
    rules.write_text(RULES)
    return PairSource("templates", REFERENCE, rules=rules)


def put_before(monkeypatch: pytest.MonkeyPatch, unchanged: str = "") -> None:
    """Let translation put a word before each text, except one that comes back as it was."""

    def rephrase(texts: list[str]) -> list[str | None]:
        return [None if text == unchanged else f"other {text}" for text in texts]

    monkeypatch.setattr(question_pairs, "rephraser", lambda *_, **__: rephrase)


def test_both_sides_of_a_pair_are_translated(
    source: PairSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = pairs_of(source)
    [(question, passage)] = original
    put_before(monkeypatch)
    both = replace(source, translators=("there", "back"), translate="pairs")
    translation = (f"other {question}", f"other {passage}")
    assert pairs_of(both) == original | {translation}
    assert pairs_of(replace(both, originals=False)) == {translation}


def test_a_pair_with_an_unchanged_side_is_left_out(
    source: PairSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The paper drops a pair if either side comes back as it was (3.5.1)."""
    [(question, passage)] = pairs_of(source)
    both = replace(source, translators=("there", "back"), translate="pairs")
    for unchanged in (question, passage):
        put_before(monkeypatch, unchanged)
        assert pairs_of(both) == {(question, passage)}


def test_questions_alone_may_be_replaced(source: PairSource, opening: str) -> None:
    [(_, passage)] = pairs_of(source)
    alone = replace(source, translators=(opening, opening), originals=False)
    assert pairs_of(alone) == {("open open open open", passage)}


def test_dev_sets_are_translated(source: PairSource, monkeypatch: pytest.MonkeyPatch) -> None:
    [(question, passage)] = pairs_of(source)
    put_before(monkeypatch)
    dev = DevSet(
        name="back",
        format="templates",
        path=REFERENCE,
        kind="reference",
        split="train",
        rules=source.rules,
        translators=("there", "back"),
        originals=False,
    )
    assert list(read_dev_set(dev).queries.values()) == [f"other {question}"]
    assert list(read_dev_set(dev).passages.values()) == [f"other {passage}"]
    assert len(read_dev_set(replace(dev, originals=True)).queries) == 2


@pytest.mark.parametrize("changes", [{"translate": "pairs"}, {"originals": False}])
def test_translation_needs_translators(source: PairSource, changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="needs translators") as raised:
        replace(source, **changes)
    assert raised.value.field in changes


SORTED = """<h1>Built-in Functions</h1><dl class="py function"><dt id="sorted">
<b class=descname>sorted</b>(iterable, /, *, key=None)</dt><dd><p>Return a new sorted list from the
items in <em>iterable</em>.</p></dd></dl>"""


def test_the_papers_template_makes_its_question() -> None:
    """What {directive} {verb} {sentence}?, answered by the term: figure 4's example."""
    [document] = documents(read_page(SORTED), "functions.html")
    [example] = examples(document, read_rules(PAPER_RULES), Random(0))
    assert example.question == "What function returns a new sorted list from the items in iterable?"
    assert example.answer == "sorted"
