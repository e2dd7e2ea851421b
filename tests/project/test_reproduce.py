"""Every command of docs/reproduce.md runs, with tiny models under the names of the published ones."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import permutations
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
import torch
from transformers import (
    DPRContextEncoder,
    DPRQuestionEncoder,
    DPRReader,
    T5Config,
    T5ForConditionalGeneration,
)

from purlin.index.evaluation.answers import read_questions
from tests.support.commands import commands, shell
from tests.support.files import write_jsonl
from tests.support.paths import ROOT
from tests.support.tiny import SPECIAL, WORDS, save_bert, save_dpr, save_t5, save_tokenizer

PAGE = (ROOT / "docs" / "reproduce.md").read_text()
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))

# What makes a run short; everything else of a recipe is as shipped.
SHORTER = {
    r"epochs = \d+": "steps = 2",
    r"batch_size = \d+": "batch_size = 4",
    r"every = \d+": "every = 2",
    r"rounds = \d+": "rounds = 2",
}
# The tables' commands with fewer seeds, and cells that have all parts of the others.
SHORTER_COMMANDS = {
    "--sets ag_news": "--sets ag_news --seeds 1 --cells PESCO 'untrained, no prompts'",
    "--bm25": "--bm25 --cells 'entity mask' '+SDA, in-batch'",
    "--trained untrained template back template+back": "--trained untrained template+back",
    "--validated template back template+back": "--validated back",
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
            text = command.text
            for part, shorter in SHORTER_COMMANDS.items():
                text = text.replace(part, shorter)
            printed, status = bash.run(f"({text}) 2>&1")
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
        definition(question.entry.partition("#")[2], f"Read {question.answers[0]} of a file")
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
    words = vocabulary([text])

    facebook, long = home / "facebook", {"max_position_embeddings": 512}
    save_dpr(facebook / "dpr-ctx_encoder-single-nq-base", DPRContextEncoder, words, **long)
    save_dpr(facebook / "dpr-question_encoder-single-nq-base", DPRQuestionEncoder, words, **long)
    save_dpr(facebook / "dpr-reader-single-nq-base", DPRReader, words, **long)
    save_translator(facebook / "wmt19-en-de")
    save_translator(facebook / "wmt19-de-en")


# ---- PESCO

NEWS = {
    "World": "ministers met in the capital of the country",
    "Sports": "the team won the match in the last minute",
    "Business": "shares of the company fell in the market",
    "Technology and Science": "the phone has a new chip in it",
}


def pesco(home: Path) -> None:
    texts = {
        f"{sentence} {number}. it was {word} {number}.": label
        for label, sentence in NEWS.items()
        for number in range(16)
        for word in sentence.split()[-2:]
    }
    news = home / "data" / "ag_news"
    write_jsonl(news / "unlabeled.jsonl.gz", ({"text": text} for text in texts))
    rows = [{"text": text, "label": label} for text, label in texts.items()][::3]
    write_jsonl(news / "dev.jsonl", rows)
    (news / "labels.txt").write_text("\n".join(NEWS))
    save_bert(
        home / "princeton-nlp" / "sup-simcse-bert-base-uncased",
        vocabulary([*texts, *NEWS, "category : news ."]),
        max_position_embeddings=512,
    )


# ---- SANTA

NOUNS = ("file", "line", "path", "mode", "table", "row")
VERBS = ("open", "close", "read", "write")


def functions(names: Iterable[tuple[str, str, str]]) -> list[dict[str, Any]]:
    """Rows as CodeSearchNet and AdvTest publish them."""
    rows = []
    for number, (verb, noun, owner) in enumerate(names):
        docstring = f"{verb} the {noun} of the {owner} and return it"
        code = f"def {verb}_{noun}({owner}):\n    {noun} = {verb}({owner})\n    return {noun}"
        rows.append(
            {
                "idx": number,
                "url": f"https://example.org/{verb}/{noun}/{owner}",
                "repo": "example",
                "path": f"{verb}/{noun}/{owner}.py",
                "func_name": f"{verb}_{noun}",
                "language": "python",
                "code": code,
                "function": code,
                "docstring": docstring,
                "docstring_tokens": docstring.split(),
            }
        )
    return rows


def products(directory: Path) -> list[str]:
    """Write the two files of ESCI, and return their texts."""
    directory.mkdir(parents=True)
    titles = [f"{first} {second}" for first, second in permutations(NOUNS, 2)]
    examples, listed = [], []
    for number, title in enumerate(titles):
        described = f"a {title} to {VERBS[number % 4]}"
        listed.append(
            {
                "product_id": f"P{number}",
                "product_title": title,
                "product_description": described,
                "product_bullet_point": f"{described}\nwith a {title.split()[0]}",
                "product_brand": "acme",
                "product_color": None,
                "product_locale": "us",
            }
        )
        for offset, label in ((0, "E"), (1, "S"), (2, "I")):
            examples.append(
                {
                    "example_id": 3 * number + offset,
                    "query": f"{title} {VERBS[number % 4]}",
                    "query_id": number,
                    "product_id": f"P{(number + offset) % len(titles)}",
                    "product_locale": "us",
                    "esci_label": label,
                    "small_version": 1,
                    "large_version": 1,
                    "split": "test" if number % 5 == 0 else "train",
                }
            )

    for name, rows in (("examples", examples), ("products", listed)):
        path = directory / f"shopping_queries_dataset_{name}.parquet"
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    return [*titles, *VERBS, "a to with acme"]


def save_base(directory: Path, words: list[str]) -> None:
    spare = (f"<extra_id_{number}>" for number in range(100))
    sizes = {"d_model": 16, "d_ff": 32, "num_layers": 1, "num_heads": 2}
    save_t5(directory, [*SPECIAL, *spare, *words[len(SPECIAL) :]], **sizes)


def santa(home: Path) -> None:
    names = [(verb, *nouns) for verb in VERBS for nouns in permutations(NOUNS, 2)]
    rows = functions(names)
    train = home / "data" / "CodeSearchNet" / "python" / "final" / "jsonl" / "train"
    write_jsonl(train / "python_train_0.jsonl.gz", rows[::2])

    advtest = home / "data" / "AdvTest"
    write_jsonl(advtest / "train.jsonl", rows[1::4])
    write_jsonl(advtest / "valid.jsonl", rows[3::8])
    write_jsonl(advtest / "test.jsonl", rows[7::8])

    texts = products(home / "data" / "esci")
    code = [row[key] for row in rows for key in ("code", "docstring")]
    save_base(home / "Salesforce" / "codet5-base", vocabulary(code))
    save_base(home / "google-t5" / "t5-base", vocabulary(texts))


def vocabulary(texts: Iterable[str]) -> list[str]:
    """Return the special tokens and all words of the texts, as the tokenizers cut them."""
    words = re.findall(r"\w+|[^\w\s]+", " ".join(texts).lower())
    return list(dict.fromkeys([*WORDS, *words]))


PREPARED: dict[str, Callable[[Path], None]] = {
    "Reference QA": reference_qa,
    "PESCO": pesco,
    "SANTA": santa,
}


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("section", PREPARED)
def test_commands_of_a_paper_run_with_tiny_models(section: str, home: Path) -> None:
    PREPARED[section](home)
    run_section(section, home)


def test_every_paper_has_commands() -> None:
    papers = {name for name, text in SECTIONS.items() if commands(text)}
    assert papers == set(PREPARED)
