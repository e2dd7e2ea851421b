"""What PESCO is compared with in its table 4: a supervised classifier, PET and iPET.

    python -m benchmarks.classify.pesco_baselines --data DIR --out DIR --model M [--masked-model M]
        [--sets ag_news ...] [--methods supervised pet ipet]
        [--seeds 1] [--limit N]

Data, labels and measured rows are those of benchmarks/classify/pesco.py, and so are the tables' columns.

`supervised` fine-tunes `--model` and a linear layer on its first token's state, as in section 5.3,
on train.jsonl {text, label} of a set's directory. If a set has none, it learns from four fifths of
the dev rows and is measured on the rest, five times.

`pet` and `ipet` (Schick and Schuetze 2021) take `--masked-model`, a masked language model such as
roberta-large: a pattern turns a text into a cloze question, and a label's score is that of its word
there, averaged over the patterns. `ipet` trains the model on its own most probable labels, from the
start in each generation, on more texts each time; one model sees all patterns, where the paper on
iPET trains one for each and distils them. Neither uses a label of a text.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import AutoModelForMaskedLM, AutoTokenizer

from benchmarks.classify.pesco import POOL_FILE, read_data
from benchmarks.progress import log_line, log_progress
from purlin.index.classify.zero_shot import ClassScores
from purlin.index.errors import InvalidInput
from purlin.training.loop.devices import make_accelerator
from purlin.training.loop.run import train
from purlin.training.loop.settings import LoopSettings
from purlin.training.loop.task import FixedBatches
from purlin.training.models.padding import pad_texts, tokenized
from purlin.training.models.settings import ModelSettings
from purlin.training.models.text_model import load_text_model
from purlin.training.pesco.teacher import PseudoLabels, sample_balanced
from purlin.training.pesco.texts import Labelled, read_labelled_texts, read_labels
from purlin.training.pesco.views import Indices

FOLDS = 5
SCORED_AT_ONCE = 32
WEIGHTS = "model.safetensors"
MAX_TOKENS = 156

# Generations of iPET; each labels so many times as many texts as the one before.
GENERATIONS, GROWTH, FIRST_SHARE = 4, 2.0, 0.05
LOOP = LoopSettings(batch_size=32, learning_rate=1e-5)


@dataclass(frozen=True, slots=True)
class ClozeQuestions:
    """PET's patterns, with {text} and {mask}, and a word for each label, by its name."""

    patterns: tuple[str, ...]
    words: dict[str, str]


NEWS = ("{mask}: {text}", "{mask} news: {text}", "{text} ({mask})", "[Category: {mask}] {text}")
REVIEWS = ("It was {mask}. {text}", "{text} All in all, it was {mask}.")
CLOZE = {
    "ag_news": ClozeQuestions(
        NEWS,
        {
            "world": "world",
            "sports": "sports",
            "business": "business",
            "technology and science": "technology",
        },
    ),
    "amazon_polarity": ClozeQuestions(REVIEWS, {"bad": "bad", "good": "good"}),
    "dbpedia": ClozeQuestions(
        NEWS,
        {
            "school and university": "school",
            "means of transportation": "transportation",
            "river and mountain and lake": "river",
            "animal species": "animal",
            "plant and tree": "plant",
            "novel and publication and book": "book",
        },
    ),
    "yahoo_answers": ClozeQuestions(
        NEWS,
        {
            "Society & Culture": "society",
            "Science & Mathematics": "science",
            "Education & Reference": "education",
            "Computers & Internet": "computer",
            "Business & Finance": "business",
            "Entertainment & Music": "entertainment",
            "Family & Relationships": "relationship",
            "Politics & Government": "politics",
        },
    ),
}
"""A label that is not named is its own word."""


class SupervisedClassifier(nn.Module):
    """A fine-tuned encoder with a linear layer on its first token's state."""

    patterns = 1

    def __init__(self, base: str, labels: int) -> None:
        super().__init__()
        settings = ModelSettings(
            base=base, pooling="first", similarity="dot", max_passage_tokens=MAX_TOKENS
        )
        self.encoder = load_text_model(settings)
        self.linear = nn.Linear(self.encoder.transformer.config.hidden_size, labels)

    def forward(self, texts: Sequence[str], pattern: int = 0) -> Tensor:
        """Logits (n, labels)."""
        ids_and_mask = tokenized(self.encoder.tokenizer, texts, MAX_TOKENS)
        vectors = self.encoder.vectors(*on_device(ids_and_mask, self))
        logits: Tensor = self.linear(vectors)
        return logits


class ClozeClassifier(nn.Module):
    """A masked language model that fills a label's word into patterns."""

    def __init__(self, base: str, questions: ClozeQuestions, labels: Sequence[str]) -> None:
        super().__init__()
        self.tokenizer = AutoTokenizer.from_pretrained(base)
        self.model = AutoModelForMaskedLM.from_pretrained(base, use_safetensors=True)

        self.questions = questions
        self.patterns = len(questions.patterns)
        self.words = [
            word_id(self.tokenizer, questions.words.get(label, label)) for label in labels
        ]

    def forward(self, texts: Sequence[str], pattern: int = 0) -> Tensor:
        """Logits (n, labels) of the labels' words at the mask."""
        ids = [self._question(text, pattern) for text in texts]
        padded, mask = on_device(pad_texts(ids, self.tokenizer.pad_token_id), self)
        states = self.model(input_ids=padded, attention_mask=mask).logits

        is_mask = padded == self.tokenizer.mask_token_id
        logits: Tensor = states[is_mask][:, self.words]
        return logits

    def _question(self, text: str, pattern: int) -> list[int]:
        """The ids of a cloze question; of a text that is too long the end is left out."""
        tokenizer, form = self.tokenizer, self.questions.patterns[pattern]
        # A text that has the mask itself would get two answers.
        text = text.replace(tokenizer.mask_token, " ")
        empty = form.format(text="", mask=tokenizer.mask_token)
        room = min(MAX_TOKENS, tokenizer.model_max_length) - len(tokenizer(empty)["input_ids"])

        own = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        offsets = own["offset_mapping"][: max(0, room)]
        cut = text[: offsets[-1][1]] if offsets else ""
        ids: list[int] = tokenizer(form.format(text=cut, mask=tokenizer.mask_token))["input_ids"]
        return ids


def word_id(tokenizer: Any, word: str) -> int:
    """The id of a label's word within a sentence. Raises InvalidInput if it has several tokens."""
    # Tokenizers such as RoBERTa's have other ids for a word after a space.
    ids = tokenizer(f" {word}", add_special_tokens=False)["input_ids"]
    if len(ids) != 1 or ids[0] == tokenizer.unk_token_id:
        raise InvalidInput(f"The word {word!r} is not one token of the masked model: give another.")
    return int(ids[0])


def on_device(tensors: tuple[Tensor, Tensor], module: nn.Module) -> tuple[Tensor, Tensor]:
    """Move ids and mask to the module's device."""
    device = next(module.parameters()).device
    return tensors[0].to(device), tensors[1].to(device)


@dataclass(frozen=True, slots=True)
class LabelBatch:
    """Rows of texts, and the pattern in which they are shown."""

    rows: Indices
    pattern: int


class LabelTask(FixedBatches):
    """Cross-entropy of texts' labels, as the training loop runs it."""

    def __init__(
        self,
        model: SupervisedClassifier | ClozeClassifier,
        texts: Sequence[str],
        labels: Indices,
        batch_size: int,
        seed: int,
    ) -> None:
        self.model = model
        self.texts, self.labels, self.seed = texts, labels, seed
        self.size = min(batch_size, len(texts))

    def fresh(self) -> Sequence[nn.Parameter]:
        """No parameters have a rate of their own."""
        return ()

    def batches_per_epoch(self) -> int:
        """Count the full batches."""
        return len(self.texts) // self.size

    def batch(self, number: int) -> LabelBatch:
        """Draw a batch, which depends on seed and number only."""
        epoch, position = divmod(number, self.batches_per_epoch())
        order = np.random.default_rng([self.seed, epoch]).permutation(len(self.texts))
        pattern = int(np.random.default_rng([self.seed, 1, number]).integers(self.model.patterns))
        return LabelBatch(order[position * self.size : (position + 1) * self.size], pattern)

    def backward(self, batch: LabelBatch) -> dict[str, float]:
        """Add the gradients of the mean cross-entropy, and return it."""
        logits = self.model([self.texts[row] for row in batch.rows.tolist()], batch.pattern)
        labels = torch.from_numpy(self.labels[batch.rows]).to(logits.device)
        loss = F.cross_entropy(logits.float(), labels)
        loss.backward()  # type: ignore[no-untyped-call]
        return {"loss": float(loss.detach())}

    def describe(self, batch: LabelBatch) -> str:
        """Name the first texts by number."""
        return f"texts {batch.rows[:8].tolist()}"

    def measure(self) -> dict[str, float]:
        """Measure nothing: no checkpoint is chosen."""
        return {}

    def save(self, directory: Path) -> None:
        """Write the weights."""
        weights = self.model.state_dict()
        # Weights that layers share can be written only as copies.
        save_file({name: weight.clone() for name, weight in weights.items()}, directory / WEIGHTS)

    def restore(self, directory: Path) -> None:
        """Load the weights that `save` wrote."""
        self.model.load_state_dict(load_file(directory / WEIGHTS))


@torch.inference_mode()
def scores(model: SupervisedClassifier | ClozeClassifier, texts: Sequence[str]) -> ClassScores:
    """Log of the mean probability (n, labels) over the patterns."""
    model.eval()
    parts = []
    for start in range(0, len(texts), SCORED_AT_ONCE):
        part = texts[start : start + SCORED_AT_ONCE]
        shares = [model(part, pattern).softmax(1) for pattern in range(model.patterns)]
        parts.append(torch.stack(shares).mean(0).log().double().cpu().numpy())

    joined: ClassScores = np.concatenate(parts)
    return joined


def accuracy(model: SupervisedClassifier | ClozeClassifier, rows: Labelled) -> float:
    """The share of rows whose label scores best."""
    return float((scores(model, rows.texts).argmax(1) == np.array(rows.labels)).mean())


def fit(
    model: SupervisedClassifier | ClozeClassifier,
    texts: Sequence[str],
    labels: Indices,
    out: Path,
    accelerator: Accelerator,
    *,
    loop: LoopSettings,
    seed: int,
) -> None:
    """Train `model` on labelled texts."""
    loop = replace(loop, batch_size=min(loop.batch_size, len(texts)))
    task = LabelTask(model.to(accelerator.device), texts, labels, loop.batch_size, seed)
    train(task, loop, out, accelerator, seed=seed, recipe={}, progress=log_progress(out.name))


def supervised(
    base: str,
    source: Path,
    out: Path,
    labels: Sequence[str],
    accelerator: Accelerator,
    *,
    seed: int,
    loop: LoopSettings = LOOP,
) -> tuple[float, int]:
    """The accuracy on the dev rows of what learnt from labels, and their number."""
    dev = read_labelled_texts(source / "dev.jsonl", labels, print)
    if (source / "train.jsonl").is_file():
        rows = read_labelled_texts(source / "train.jsonl", labels, print)
        torch.manual_seed(seed)
        model = SupervisedClassifier(base, len(labels))
        targets = np.array(rows.labels)
        fit(model, rows.texts, targets, out / "all", accelerator, loop=loop, seed=seed)
        return accuracy(model, dev), len(dev.texts)

    values = []
    folds = np.random.default_rng(seed).permutation(len(dev.texts)) % FOLDS
    for fold in range(FOLDS):
        learnt, held_out = (
            Labelled(tuple(dev.texts[row] for row in rows), tuple(dev.labels[row] for row in rows))
            for rows in (np.flatnonzero(folds != fold), np.flatnonzero(folds == fold))
        )
        torch.manual_seed(seed)
        model = SupervisedClassifier(base, len(labels))
        targets = np.array(learnt.labels)
        fit(model, learnt.texts, targets, out / f"{fold}", accelerator, loop=loop, seed=seed)
        values.append(accuracy(model, held_out))

    return float(np.mean(values)), len(dev.texts)


def ipet(
    model: ClozeClassifier,
    texts: Sequence[str],
    out: Path,
    accelerator: Accelerator,
    *,
    seed: int,
    generations: int = GENERATIONS,
    loop: LoopSettings = LOOP,
) -> ClozeClassifier:
    """Train a masked model on its own labels, more of them in each generation."""
    start = {name: weight.clone() for name, weight in model.state_dict().items()}
    count = len(model.words)
    for generation in range(generations):
        pseudo_labels = PseudoLabels.of(scores(model, texts))
        share = min(1.0, FIRST_SHARE * GROWTH**generation)
        rng = np.random.default_rng([seed, generation])
        rows = sample_balanced(pseudo_labels, max(count, round(share * len(texts))), count, rng)

        # A generation learns the labels, not the errors in the weights of the one before.
        model.load_state_dict(start)
        sample = [texts[row] for row in rows.tolist()]
        labels = pseudo_labels.labels[rows]
        fit(model, sample, labels, out / f"{generation}", accelerator, loop=loop, seed=seed)

    return model


def measured(name: str, method: str, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """Train and measure one method, or read the result of an earlier call."""
    path: Path = options.out / f"{name}-{method}-{seed}.json"
    if path.is_file():
        earlier: dict[str, Any] = json.loads(path.read_text())
        return earlier

    source, out = options.data / name, options.out / name / method / str(seed)
    labels = read_labels(source / "labels.txt")
    started = time.monotonic()
    accelerator = make_accelerator(LOOP, cpu=options.cpu, say=log_line)
    if method == "supervised":
        value, rows = supervised(options.model, source, out, labels, accelerator, seed=seed)
    else:
        pool, dev = read_data(source, labels, options.limit, seed)
        model = ClozeClassifier(options.masked_model, CLOZE[name], labels).to(accelerator.device)
        if method == "ipet":
            model = ipet(model, pool.texts, out, accelerator, seed=seed)
        value, rows = accuracy(model, dev), len(dev.texts)

    result = {"accuracy": value, "rows": rows, "seconds": time.monotonic() - started}
    path.write_text(json.dumps(result))
    return result


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--model", default=ModelSettings().base)
    parser.add_argument("--masked-model", default="FacebookAI/roberta-large")
    parser.add_argument("--sets", nargs="+", choices=list(CLOZE), default=list(CLOZE))
    methods = ["supervised", "pet", "ipet"]
    parser.add_argument("--methods", nargs="+", choices=methods, default=methods)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--limit", type=int, default=100_000, help=f"texts of {POOL_FILE}")
    parser.add_argument("--cpu", action="store_true")
    options = parser.parse_args()

    options.out.mkdir(parents=True, exist_ok=True)
    print("| set | method | mean | max | min | runs | minutes |", "|---" * 7 + "|", sep="\n")
    for name in options.sets:
        for method in options.methods:
            results = [measured(name, method, seed, options) for seed in options.seeds]
            values = [result["accuracy"] for result in results]
            minutes = np.mean([result["seconds"] for result in results]) / 60
            print(
                f"| {name} | {method} | {np.mean(values):.4f} | {max(values):.4f} "
                f"| {min(values):.4f} | {len(values)} | {minutes:.1f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
