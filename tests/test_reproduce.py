"""Every command of docs/reproduce.md runs, with tiny models under the names of the published ones."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import permutations
from pathlib import Path

import pytest
import torch
from transformers import (
    DPRConfig,
    DPRContextEncoder,
    DPRQuestionEncoder,
    T5Config,
    T5ForConditionalGeneration,
)

from purlin.index.evaluation.answers import read_questions
from tests.commands import ROOT, commands, shell
from tests.tiny import WORDS, save_tokenizer

PAGE = (ROOT / "docs" / "reproduce.md").read_text()
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))

# What makes a run short; everything else of a recipe is as shipped.
SHORTER = {
    r"epochs = \d+": "steps = 2",
    r"batch_size = \d+": "batch_size = 4",
    r"every = \d+": "every = 2",
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A directory like a checkout, with the recipes shortened and no data yet."""
    (tmp_path / "benchmarks").symlink_to(ROOT / "benchmarks")
    (tmp_path / "configs").mkdir()
    for recipe in (ROOT / "configs").glob("*.toml"):
        text = recipe.read_text()
        for pattern, replacement in SHORTER.items():
            text = re.sub(pattern, replacement, text)
        (tmp_path / "configs" / recipe.name).write_text(text)

    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "questions").symlink_to(ROOT / "questions")
    return tmp_path


def run_section(name: str, home: Path) -> None:
    """Run the commands of a section, in order; the first that fails is shown with its output."""
    with shell(home) as bash:
        bash.run("export OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false")
        for command in commands(SECTIONS[name]):
            printed, status = bash.run(f"({command.text}) 2>&1")
            assert status == 0, f"line {command.line}: {command.text}\n{printed[-3000:]}"


# ---- reference QA


def save_reference(library: Path) -> None:
    """Write pages with the entries of some measured questions, and with others to train on."""
    library.mkdir(parents=True)
    questions = [
        question
        for name in ("python", "python-tuning")
        for question in read_questions(ROOT / "questions" / f"{name}.jsonl", "dev")[:12]
        if question.answers
    ]
    measured = "".join(
        definition(
            (question.entry or "").partition("#")[2], f"Read {question.answers[0]} of a file"
        )
        for question in questions
        if question.entry
    )
    for question in questions:
        page = (question.entry or "").partition("#")[0].removeprefix("library/")
        (library / page).write_text(f"<h1>The page</h1>{measured}")

    # Of words that the tiny translators know.
    words = ["line", "path", "mode", "file", "def", "write"]
    others = "".join(
        definition(f"other.open_{number}", f"Return the {first} {second} of the {third} to read")
        for number, (first, second, third) in enumerate(permutations(words, 3))
    )
    (library / "other.html").write_text(f"<h1>Other</h1>{others}")


def definition(anchor: str, sentence: str) -> str:
    name = f"<b class=descname>{anchor}</b>(path)"
    return f'<dl class="py function"><dt id="{anchor}">{name}</dt><dd>{sentence}.</dd></dl>'


def save_dpr(directory: Path, kind: type, words: list[str]) -> None:
    torch.manual_seed(len(kind.__name__))
    config = DPRConfig(
        vocab_size=len(words),
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=4,
        intermediate_size=48,
        max_position_embeddings=512,
        initializer_range=0.2,
    )
    kind(config).save_pretrained(directory)
    save_tokenizer(directory, words)


def save_translator(directory: Path) -> None:
    """Save a random T5 whose output has a few different words and depends on the input."""
    torch.manual_seed(1)
    config = T5Config(
        vocab_size=len(WORDS), d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2,
        initializer_factor=4.0,
    )  # fmt: skip
    config.pad_token_id, config.eos_token_id, config.decoder_start_token_id = 0, 3, 0
    model = T5ForConditionalGeneration(config)
    model.generation_config.no_repeat_ngram_size = 1
    model.generation_config.min_new_tokens = 5
    model.generation_config.exponential_decay_length_penalty = (6, 2.0)
    model.save_pretrained(directory)
    save_tokenizer(directory)


def reference_qa(home: Path) -> None:
    library = home / "data" / "references" / "python3.11" / "library"
    save_reference(library)
    text = " ".join(re.sub(r"<[^>]+>", " ", page.read_text()) for page in library.iterdir())
    words = list(dict.fromkeys([*WORDS, *re.findall(r"\w+|[^\w\s]", text.lower())]))

    facebook = home / "facebook"
    save_dpr(facebook / "dpr-ctx_encoder-single-nq-base", DPRContextEncoder, words)
    save_dpr(facebook / "dpr-question_encoder-single-nq-base", DPRQuestionEncoder, words)
    save_translator(facebook / "wmt19-en-de")
    save_translator(facebook / "wmt19-de-en")


PREPARED: dict[str, Callable[[Path], None]] = {"Reference QA": reference_qa}


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("section", PREPARED)
def test_commands_of_a_paper_run_with_tiny_models(section: str, home: Path) -> None:
    PREPARED[section](home)
    run_section(section, home)


def test_every_paper_has_commands() -> None:
    papers = {name for name, text in SECTIONS.items() if commands(text)}
    assert papers == set(PREPARED)
