"""Training of the reader: start, end and passage selection over a cross-encoder (reference QA, eq. 1-3)."""

from __future__ import annotations

import copy
import hashlib
import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import MappingProxyType

import numpy as np
import torch
from accelerate import Accelerator
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn import functional as F

from index.encoder import Encoder, open_session
from index.errors import Damaged, InvalidInput
from index.qa import reader as serving
from index.qa.spans import best_spans
from training import export, model
from training.config import MAX_SEED, in_range
from training.data import questions
from training.data.questions import Miner, PassagePool, QuestionSource, TrainingQuestion
from training.loop import LoopSettings, Progress, best_measures, digest, make_accelerator, train
from training.model import ModelSettings, in_groups, pad_texts
from training.quantize import quantize
from training.restore import HEAD
from training.santa import GROUP, Schedule, Stage

CARD = "README.md"
STAGE = "reader"  # the directory of the checkpoints
MAX_WEIGHT = 1e6
NONE_SCORE = 0.0  # of the choice that no passage answers
HIDDEN = -1e9  # the logit of a token that cannot be part of an answer
MAX_DIFFERENCE = 1e-3  # fp32 graph against torch, of any logit
MIN_AGREEMENT = (
    0.95  # int8 graph against torch: the overlap of their distributions over tokens, on average
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How the reader is trained: the right passage among `passages`, the others drawn from the `depth` that BM25 finds
    best, and, with an `encoder` directory, as many that are nearest by its vectors; for a share `missing` of the
    questions the right one is left out, and none is the answer.
    """

    passages: int = 4
    depth: int = 20
    missing: float = 0.15
    max_tokens: int = 256
    encoder: str = ""

    def __post_init__(self) -> None:
        in_range("passages", self.passages, 2, 64)
        in_range("depth", self.depth, self.passages, 1000)
        in_range("missing", self.missing, 0.0, 0.9)
        in_range("max_tokens", self.max_tokens, 32, 8192)


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """The reader directory. `prior_weight` and `calibration` as in `index.qa.reader.ReaderSettings`.

    They start as those of the released reader; `benchmarks/reader.py --write` tunes them on dev questions.
    `base_model` is for the card, where the recipe's base is a checkpoint of one's own.
    """

    quantization: export.Quantization = "int8"
    prior_weight: float = 0.56
    calibration: tuple[float, ...] = (1.6126, 5.5079, -6.4502, -0.3385, 0.5753)
    base_model: str = ""
    base_licence: str = "unknown"
    trained_on: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if len(self.calibration) != 5:
            raise InvalidInput(
                "calibration has five numbers: a constant and four weights.", field="calibration"
            )
        in_range("prior_weight", self.prior_weight, -MAX_WEIGHT, MAX_WEIGHT)
        for weight in self.calibration:
            in_range("calibration", weight, -MAX_WEIGHT, MAX_WEIGHT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """All that a reader is made from."""

    name: str
    asked: tuple[QuestionSource, ...]
    dev: tuple[QuestionSource, ...] = ()
    model: ModelSettings = field(default_factory=ModelSettings)
    reading: Reading = field(default_factory=Reading)
    loop: LoopSettings = field(default_factory=LoopSettings)
    export: Export = field(default_factory=Export)
    seed: int = 1

    def __post_init__(self) -> None:
        export.Card(self.name)  # a name that cannot be exported fails now
        if not self.asked:
            raise InvalidInput("A recipe needs at least one [[asked]].", field="asked")
        if self.name == STAGE:
            raise InvalidInput(
                f"The name {STAGE!r} is that of the checkpoints' directory. Name the recipe otherwise.",
                field="name",
            )
        in_range("seed", self.seed, 0, MAX_SEED)


class ReaderModel(nn.Module):
    """A BERT-class encoder with one linear layer: start and end of every token, selection of the first."""

    def __init__(self, text_model: model.BertLike) -> None:
        super().__init__()
        self.transformer, self.tokenizer = text_model.transformer, text_model.tokenizer
        self.head = nn.Linear(self.transformer.config.hidden_size, 3)

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """`ids`, `mask` (n, t) -> start logits (n, t), end logits (n, t), selection logits (n,)."""
        mask = torch.ones_like(ids) if mask is None else mask
        logits = self.head(
            self.transformer(input_ids=ids, attention_mask=mask).last_hidden_state
        ).float()
        return logits[..., 0], logits[..., 1], logits[:, 0, 2]

    def save(self, directory: Path) -> None:
        """Write weights and tokenizer, never pickled."""
        self.transformer.save_pretrained(directory)
        self.tokenizer.save_pretrained(directory)
        save_file(
            {name: weight.contiguous() for name, weight in self.head.state_dict().items()},
            directory / HEAD,
        )


def load(settings: ModelSettings, directory: Path | None = None) -> ReaderModel:
    """The base model, or what `save` left in `directory`. The head is new unless the base is a reader's checkpoint.

    Raises what `training.model.load` does, and Damaged for a head that cannot be read.
    """
    text_model = model.load(settings, directory, decoder=False)
    if not isinstance(text_model, model.BertLike):
        raise InvalidInput("A reader needs a BERT-like base model.", field="base")
    reader = ReaderModel(text_model)
    place = directory or Path(model.place_of(settings.base))
    if directory is not None or (place / HEAD).is_file():
        _read_head(reader.head, place / HEAD)
    return reader


def _read_head(head: nn.Module, path: Path) -> None:
    try:
        head.load_state_dict(load_file(path))
    except (OSError, RuntimeError, SafetensorError) as error:
        why = str(error).strip().partition("\n")[0][:300]
        raise Damaged(
            f"{path} is damaged: {why}. Remove {path.parent} to go on from the checkpoint before it, or name another "
            "base."
        ) from error


def run(
    recipe: Recipe,
    out: Path,
    *,
    progress: Callable[[str], Progress],
    say: Callable[[str], None],
    cpu: bool = False,
) -> Path:
    """Train and export; returns the reader directory `out`/NAME. A run that was killed goes on."""
    accelerator = make_accelerator(recipe.loop, cpu=cpu, out=out, say=say)
    pools: dict[Path, PassagePool] = {}
    encoder = Encoder.load(Path(recipe.reading.encoder)) if recipe.reading.encoder else None
    training, dev = (
        [_mined(source, pools, recipe.reading, encoder) for source in sources]
        for sources in (recipe.asked, recipe.dev)
    )
    for source, mined in zip((*recipe.asked, *recipe.dev), (*training, *dev), strict=True):
        if accelerator.is_main_process:
            say(
                f"{source.path.name} ({source.format}, {source.split}): {len(mined.asked):,} questions"
            )
    torch.manual_seed(recipe.seed)
    reader = load(recipe.model).to(accelerator.device)
    export.refuse_longer("reading.max_tokens", recipe.reading.max_tokens, reader)
    task = ReaderTask(reader, training, recipe, accelerator, dev=dev)
    place = train(
        task,
        recipe.loop,
        out / STAGE,
        accelerator,
        seed=recipe.seed,
        recipe=asdict(recipe)
        | {"export": None, "texts": [one.digest() for one in (*training, *dev)]},
        progress=progress(STAGE) if accelerator.is_main_process else None,
        say=say,
    )
    if accelerator.is_main_process:
        samples = [one.ids for number in range(4) for one in task.packed(number)[0]]
        export_reader(recipe, place, out / recipe.name, samples, best_measures(place))
    accelerator.wait_for_everyone()
    return out / recipe.name


@dataclass(frozen=True, slots=True)
class Questions:
    """One source's questions, their passages, and the rows (n, depth) of wrong ones for each."""

    pool: PassagePool
    asked: Sequence[TrainingQuestion]
    wrong: NDArray[np.int32]

    def digest(self) -> str:
        """Of all that training sees of them."""
        passages = ((passage.text, passage.context) for passage in self.pool.passages)
        return digest([*self.asked, *passages, self.wrong.tolist()])


def _mined(
    source: QuestionSource,
    pools: dict[Path, PassagePool],
    reading: Reading,
    encoder: Encoder | None,
) -> Questions:
    pool, found = questions.load_questions(source, pools)
    pool.miner = pool.miner or Miner(pool, encoder)
    return Questions(pool, found, pool.miner.wrong(found, reading.depth))


@dataclass(frozen=True, slots=True)
class Batch:
    """B questions with P passages each. `ids`, `mask`, `hidden` (B * P, t), `hidden` where no answer can be;
    `right` (B,) the passage that answers, counted from 1, 0 for none; `spans` (B, 2) its first and last token, -1 for
    unknown.
    """

    rows: NDArray[np.int64]
    ids: Tensor
    mask: Tensor
    hidden: Tensor
    right: Tensor
    spans: Tensor


class ReaderTask:
    """Questions as the loop takes them."""

    def __init__(
        self,
        reader: ReaderModel,
        sources: Sequence[Questions],
        recipe: Recipe,
        accelerator: Accelerator,
        *,
        dev: Sequence[Questions] = (),
    ) -> None:
        self.model, self.sources, self.recipe, self.accelerator, self.dev = (
            reader,
            sources,
            recipe,
            accelerator,
            dev,
        )
        sizes, weights = (
            [len(source.asked) for source in sources],
            [source.weight for source in recipe.asked],
        )
        self.schedule = Schedule(sizes, weights, Stage(name=STAGE, loop=recipe.loop), recipe.seed)
        self.starts = np.cumsum([0, *sizes])
        tokenizer = Tokenizer.from_str(copy.deepcopy(reader.tokenizer).backend_tokenizer.to_str())
        self.packer = serving.Packer(tokenizer, recipe.reading.max_tokens)

    def fresh(self) -> Sequence[nn.Parameter]:
        """The head's."""
        return list(self.model.head.parameters())

    def batches_per_epoch(self) -> int:
        """Batches until every question came once, or as often as its source's weight says."""
        return self.schedule.batches_per_epoch()

    def ready(self, number: int) -> bool:
        """Always: a batch needs no weights."""
        return True

    def prepare(self, number: int) -> None:
        """Nothing is to be done."""

    def packed(
        self, number: int
    ) -> tuple[list[serving.PackedPassage], list[int], list[tuple[int, int]], NDArray[np.int64]]:
        """This process's part of a batch: sequences, the right passages and their tokens, and the rows."""
        process, count = self.accelerator.process_index, self.accelerator.num_processes
        rows = self.schedule.rows(number)[process::count]
        found: list[serving.PackedPassage] = []
        right, spans = [], []
        for place, row in enumerate(rows):
            rng = random.Random(f"{self.recipe.seed} {number} {place} {process}")
            sequences, which, span = self._drawn(int(row), rng)
            found += sequences
            right.append(which)
            spans.append(span)
        return found, right, spans, rows

    def _drawn(
        self, row: int, rng: random.Random
    ) -> tuple[list[serving.PackedPassage], int, tuple[int, int]]:
        source = int(np.searchsorted(self.starts, row, side="right")) - 1
        questions = self.sources[source]
        number = row - int(self.starts[source])
        one = questions.asked[number]
        count, missing = self.recipe.reading.passages, rng.random() < self.recipe.reading.missing
        missing = missing and one.answered
        wrong = [rng.choice(questions.wrong[number]) for _ in range(count - (not missing))]
        chosen = wrong if missing else [one.passage, *wrong]
        packed = self.packer.pack(
            one.question, [questions.pool.passages[place] for place in chosen]
        )
        if missing or not one.answered:
            return packed, 0, (-1, -1)
        return packed, 1, token_span(packed[0], questions.pool.passages[one.passage], one)

    def batch(self, number: int) -> Batch:
        """The batch of this number."""
        packed, right, spans, rows = self.packed(number)
        ids, mask = pad_texts(
            [one.ids.tolist() for one in packed], self.model.tokenizer.pad_token_id or 0
        )
        return Batch(
            rows, ids, mask, hidden(packed, ids.shape[1]), torch.tensor(right), torch.tensor(spans)
        )

    def backward(self, batch: Batch) -> dict[str, float]:
        """Gradients of the three cross entropies' sum; see `reading_loss`."""
        device = self.accelerator.device
        starts, ends, selected = self._logits(batch.ids.to(device), batch.mask.to(device))
        unseen = batch.hidden.to(device)
        losses = reading_loss(
            starts.masked_fill(unseen, HIDDEN),
            ends.masked_fill(unseen, HIDDEN),
            selected,
            batch.right.to(device),
            batch.spans.to(device),
        )
        total = torch.stack(list(losses.values())).sum()
        total.backward()  # type: ignore[no-untyped-call]
        return {
            "loss": float(total.detach()),
            **{name: float(value.detach()) for name, value in losses.items()},
        }

    def _logits(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The model's, computed in groups of similar length, so that little of the work is padding."""

        def run(part: Tensor, seen: Tensor) -> tuple[Tensor, ...]:
            starts, ends, selected = self.model(part, seen)
            wider = (0, ids.shape[1] - part.shape[1])
            return F.pad(starts, wider, value=HIDDEN), F.pad(ends, wider, value=HIDDEN), selected

        with self.accelerator.autocast():
            starts, ends, selected = in_groups(run, ids, mask, GROUP)
        return starts, ends, selected

    def describe(self, batch: Batch) -> str:
        """The first questions' numbers."""
        return f"questions {', '.join(map(str, batch.rows[:8]))}"

    def measure(self) -> dict[str, float]:
        """On the dev questions, each with its passage among the wrong ones: `dev exact`, the share of first answers
        that are right, and `dev passage`, the share of passages ranked first that are.
        """
        if not self.dev:
            return {}
        judged = [
            self._judged(source, number)
            for source in self.dev
            for number in range(len(source.asked))
        ]
        exact, passage = np.array(judged, dtype=float).mean(axis=0)
        return {"dev exact": float(exact), "dev passage": float(passage)}

    def _judged(self, source: Questions, number: int) -> tuple[bool, bool]:
        one = source.asked[number]
        chosen = [*source.wrong[number][: 2 * self.recipe.reading.passages].tolist(), one.passage]
        passages = [source.pool.passages[place] for place in chosen]
        packed = self.packer.pack(one.question, passages)
        ids, mask = pad_texts(
            [each.ids.tolist() for each in packed], self.model.tokenizer.pad_token_id or 0
        )
        found = self._logits(ids.to(self.accelerator.device), mask.to(self.accelerator.device))
        starts, ends, selected = (logits.cpu().numpy() for logits in found)
        best = int(selected.argmax())
        spans = best_spans(starts[best], ends[best], packed[best], passages[best])
        answer = passages[best].text[spans[0].start : spans[0].end] if spans else ""
        return answer == one.answer(source.pool) != "", chosen[best] == one.passage

    def save(self, directory: Path) -> None:
        """Write the model."""
        self.model.save(directory)

    def restore(self, directory: Path) -> None:
        """Take the weights of what `save` wrote."""
        self.model.load_state_dict(load(self.recipe.model, directory).state_dict())


def token_span(
    packed: serving.PackedPassage, passage: serving.ReadingPassage, one: TrainingQuestion
) -> tuple[int, int]:
    """First and last token of the answer in the sequence, or -1, -1 where it is unknown or cut off."""
    if one.start is None or one.end is None:
        return -1, -1
    skip = len(serving.model_text(passage)) - len(passage.text)
    start, end = one.start + skip, one.end + skip
    inside = [
        number
        for number, (first, last) in enumerate(packed.offsets)
        if first < end and last > start
    ]
    if not inside or packed.offsets[inside[-1]][1] < end:
        return -1, -1
    return packed.first + inside[0], packed.first + inside[-1]


def hidden(packed: Sequence[serving.PackedPassage], width: int) -> Tensor:
    """(n, width), true for tokens that are not the passage's."""
    places = torch.arange(width)[None]
    first = torch.tensor([one.first for one in packed])[:, None]
    last = torch.tensor([one.first + len(one.offsets) for one in packed])[:, None]
    return (places < first) | (places >= last)


def reading_loss(
    starts: Tensor, ends: Tensor, selected: Tensor, right: Tensor, spans: Tensor
) -> dict[str, Tensor]:
    """Mean over the questions of -log of eq. 3 at the right passage, eq. 1 and 2 at the answer's ends in it.

    `starts`, `ends` (B * P, t); `selected` (B * P,); `right` (B,) counts from 1, 0 being "none of them", whose score
    is 0; `spans` (B, 2), of the right passage, -1 where unknown: such questions have no part in eq. 1 and 2.
    """
    b = len(right)
    choices = F.pad(selected.reshape(b, -1), (1, 0), value=NONE_SCORE)  # (B, 1 + P)
    losses = {"select": F.cross_entropy(choices, right)}
    known = spans[:, 0] >= 0
    rows = torch.arange(b, device=right.device) * (selected.numel() // b) + (right - 1).clamp(min=0)
    for name, logits, place in (("start", starts, spans[:, 0]), ("end", ends, spans[:, 1])):
        each = F.cross_entropy(logits[rows], place.clamp(min=0), reduction="none")
        losses[name] = (each * known).sum() / b
    return losses


# -- export ----------------------------------------------------------------------------------------------------------


def export_reader(
    recipe: Recipe,
    checkpoint: Path,
    out: Path,
    samples: Sequence[NDArray[np.int64]],
    measures: Mapping[str, float] = MappingProxyType({}),
) -> serving.Reader:
    """Write the reader directory `out` from a checkpoint, replacing it. `samples` are sequences as they are read.

    int8 takes its scales from them, and they are what the graph is compared with torch on; raises ExportRefused where
    it differs, and `out` is then as it was.
    """
    trained = load(recipe.model, checkpoint).eval()
    expected = _outputs_of(trained, samples)
    with export.replacing(out) as new:
        export.write_tokenizer(trained.tokenizer, new / serving.TOKENIZER)
        export.trace(
            _Graph(trained), trained.transformer, new / serving.MODEL, ["start", "end", "selected"]
        )
        _compare(expected, _outputs(new / serving.MODEL, samples), "none")
        if recipe.export.quantization == "int8":
            quantize(new / serving.MODEL, new / serving.MODEL, [ids[None] for ids in samples])
            export.refuse_saturation(new)
            _compare(expected, _outputs(new / serving.MODEL, samples), "int8")
        _write_settings(recipe, measures, new)
    return serving.Reader.load(out)


class _Graph(nn.Module):
    """What the ONNX file computes: no padding, so no mask."""

    def __init__(self, trained: ReaderModel) -> None:
        super().__init__()
        self.trained = trained

    def forward(self, input_ids: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        found: tuple[Tensor, Tensor, Tensor] = self.trained(input_ids)
        return found


Outputs = list[tuple[NDArray[np.float32], ...]]


def _outputs_of(trained: ReaderModel, samples: Sequence[NDArray[np.int64]]) -> Outputs:
    with torch.no_grad():
        return [
            tuple(part[0].numpy() for part in trained(torch.from_numpy(ids)[None]))
            for ids in samples
        ]


def _outputs(path: Path, samples: Sequence[NDArray[np.int64]]) -> Outputs:
    session = open_session(path.read_bytes())
    return [
        tuple(part[0] for part in session.run(None, {"input_ids": ids[None]})) for ids in samples
    ]


def _compare(expected: Outputs, found: Outputs, quantization: export.Quantization) -> None:
    pairs = [
        pair
        for one, other in zip(expected, found, strict=True)
        for pair in zip(one, other, strict=True)
    ]
    difference = max(float(np.abs(one - other).max()) for one, other in pairs)
    overlap = float(np.mean([_overlap(one, other) for one, other in pairs if one.ndim]))
    if difference > MAX_DIFFERENCE if quantization == "none" else overlap < MIN_AGREEMENT:
        raise export.ExportRefused(
            f"The {quantization} graph's logits differ from the checkpoint's by up to {difference:.2g}, the overlap of "
            f"their distributions is {overlap:.3f}; allowed are {MAX_DIFFERENCE} without quantization, an overlap of "
            f'{MIN_AGREEMENT} with int8. Nothing was written. Keep 32-bit weights: quantization = "none".'
        )


def _overlap(one: NDArray[np.float32], other: NDArray[np.float32]) -> float:
    """Of the two softmax distributions, 1 if they are equal."""
    shares = [np.exp(logits - logits.max()) for logits in (one, other)]
    return float(np.minimum(*(share / share.sum() for share in shares)).sum())


def _write_settings(recipe: Recipe, measures: Mapping[str, float], new: Path) -> None:
    digests = {
        name: hashlib.sha256((new / name).read_bytes()).hexdigest()
        for name in (serving.MODEL, serving.TOKENIZER)
    }
    settings = serving.ReaderSettings(
        name=recipe.name,
        max_tokens=recipe.reading.max_tokens,
        prior_weight=recipe.export.prior_weight,
        calibration=recipe.export.calibration,
        files=digests,
    )
    content = asdict(settings) | {
        "fingerprint": settings.fingerprint,
        "base_model": _base_model(recipe),
    }
    content |= {"trained_on": list(recipe.export.trained_on), "measures": dict(measures)}
    (new / serving.READER_SETTINGS).write_text(
        json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    )
    (new / CARD).write_text(_card(recipe, measures))


def _base_model(recipe: Recipe) -> str:
    return recipe.export.base_model or recipe.model.base


def _card(recipe: Recipe, measures: Mapping[str, float]) -> str:
    def lines(items: Iterator[str]) -> str:
        return "\n".join(f"- {item}" for item in items) or "None recorded."

    table = (
        "\n".join(f"| {name} | {value:.4f} |" for name, value in measures.items())
        or "| none recorded | |"
    )
    return f"""# {recipe.name}

A reader for Purlin: `model.onnx` maps ids of `[CLS] question [SEP] passage [SEP]`, int64 (n, t) without padding, to
start and end logits (n, t) and a passage's selection logit (n,), where 0 is the logit of "no passage answers".

- **Base model**: {_base_model(recipe)}, licence {recipe.export.base_licence}
- **Longest sequence**: {recipe.reading.max_tokens} tokens, of which the question takes at most a third
- **Weights**: {"8-bit, with 8-bit activations at fixed scales" if recipe.export.quantization == "int8" else "32-bit"}

## Trained on
{lines(iter(recipe.export.trained_on))}

## Measures
| what | value |
|---|---|
{table}

## Limits
{lines(iter(recipe.export.limits))}
"""
