"""A tiny reader with random weights, exported like a real one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import torch
from tokenizers import Tokenizer, pre_tokenizers
from tokenizers.models import WordLevel

from purlin.index.qa.question import parse_question
from purlin.index.qa.reader import Packer, Reader, ReadingPassage
from purlin.index.qa.spans import ReadingResult, rank_answers
from purlin.training.data.questions.sources import QuestionSource
from purlin.training.models.settings import ModelSettings
from purlin.training.reader.export import export_reader
from purlin.training.reader.model import load_reader_model
from purlin.training.reader.recipe import ReaderExport, ReaderRecipe, ReadingSettings
from purlin.training.reader.run import train_reader
from tests.support.cross_encoders import READING_WORDS
from tests.support.files import write_jsonl
from tests.support.tiny import save_bert

QUESTIONS = ["What is the default step of range?", "Which function closes the file?"]
PACKED_WORDS = (
    "[CLS] [SEP] [UNK] [PAD] what is the default step of range it defaults to 1 if omitted".split()
)
RANGE = ReadingPassage("If step is omitted, it defaults to 1.", "range\nrange.step")


def word_packer(max_tokens: int = 40) -> Packer:
    """A packer whose tokens are whole words, PACKED_WORDS."""
    vocabulary = {word: number for number, word in enumerate(PACKED_WORDS)}
    tokenizer = Tokenizer(WordLevel(vocabulary, "[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return Packer(tokenizer, max_tokens)


def read_answers(
    reader: Reader,
    question: str,
    passages: Sequence[ReadingPassage],
    *,
    k: int = 3,
    deadline: float | None = None,
) -> ReadingResult:
    """Read passages and rank their answers."""
    logits = reader.read(question, passages, deadline=deadline)
    weight = reader.settings.prior_weight
    parsed = parse_question(question)
    return rank_answers(parsed, passages, logits, prior_weight=weight, word_weights={}, k=k)


def tiny_base(directory: Path) -> Path:
    """A BERT of two layers with random weights and 36 words."""
    return save_bert(directory, READING_WORDS, pre_tokenizers.BertPreTokenizer())


def tiny_mpnet(directory: Path) -> Path:
    """An MPNet of one layer with random weights, in the layout of all-mpnet-base-v2.

    Its tokenizer cuts words into pieces of one to three letters, puts <s> A </s></s> B </s> around
    two texts, and has words [CLS] and [SEP] that mean nothing.
    """
    from tokenizers import models, normalizers, processors
    from transformers import MPNetConfig, MPNetModel, PreTrainedTokenizerFast

    special = ["<s>", "<pad>", "</s>", "<unk>", "[CLS]", "[SEP]", "[UNK]", "<mask>"]
    letters = "abcdefghijklmnopqrstuvwxyz0123456789(),.=-?_"
    pieces = ["the", "def", "st", "ret", "fu", "it", "clo"]
    words = [*special, *letters, *pieces, *(f"##{piece}" for piece in [*letters, *pieces])]

    vocabulary = {word: number for number, word in enumerate(words)}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.RobertaProcessing(
        ("</s>", 2), ("<s>", 0), trim_offsets=False, add_prefix_space=False
    )
    names = {"cls": "<s>", "sep": "</s>", "pad": "<pad>", "unk": "[UNK]", "mask": "<mask>"}
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_max_length=128,
        **{f"{name}_token": word for name, word in names.items()},
    ).save_pretrained(directory)

    torch.manual_seed(3)
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4}
    sizes |= {"intermediate_size": 64, "max_position_embeddings": 130}
    config = MPNetConfig(vocab_size=len(words), initializer_range=0.2, pad_token_id=1, **sizes)
    MPNetModel(config).save_pretrained(directory)
    return directory


def tiny_recipe(base: Path, source: Path, **keys: object) -> ReaderRecipe:
    """A recipe on that base whose questions are those of `source`."""
    defaults = {
        "name": "tiny-reader",
        "model": ModelSettings(
            base=str(base), max_query_tokens=16, max_passage_tokens=64, max_target_tokens=16
        ),
        "questions": (QuestionSource(format="squad", path=source),),
        "reading": ReadingSettings(passages=2, depth=2, max_tokens=64),
    }
    return ReaderRecipe(**{**defaults, **keys})  # type: ignore[arg-type]


def trained_reader(recipe: ReaderRecipe, out: Path, say: Callable[[str], object] = str) -> Path:
    """Train without showing progress; return the exported reader."""
    return train_reader(recipe, out, progress=lambda name: lambda *_: None, say=say, cpu=True)


def write_squad(path: Path, rows: Iterable[tuple[str, str | None, str]]) -> Path:
    """Write contexts, each with its answer, if it has one, and a question."""
    records = []
    for context, answer, question in rows:
        answers = [{"text": answer, "answer_start": context.index(answer)}] if answer else []
        records.append({"question": question, "context": context, "answers": answers})
    return write_jsonl(path, records)


def tiny_reader(directory: Path, seed: int = 2, base: Path | None = None) -> Path:
    """An exported reader directory; the checkpoint is beside it."""
    base = base or tiny_base(directory / "base")
    recipe = tiny_recipe(base, directory, export=ReaderExport(quantization="none"))
    torch.manual_seed(seed)
    load_reader_model(recipe.model).save(directory / "checkpoint")
    samples = [torch.randint(4, len(READING_WORDS), (length,)).numpy() for length in (5, 9, 30)]
    export_reader(recipe, directory / "checkpoint", directory / "reader", samples)
    return directory / "reader"
