"""Train a reranker by a recipe, and export it: a cross-encoder of query and passage.

Each query comes with its passage and hard negatives that an exported encoder ranks nearest. The
loss is listwise cross-entropy, to which a teacher's scores may add Margin-MSE and a divergence of
lists; the teacher scores every list once, before training.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType

import numpy as np
import torch
from accelerate import Accelerator
from numpy.typing import NDArray
from torch import Tensor, nn

from purlin.index import reranker as serving
from purlin.index.encoder import TextEncoder, load_encoder, open_session
from purlin.index.errors import InvalidInput
from purlin.index.exported import MODEL, TOKENIZER
from purlin.index.qa.reader import READER_SETTINGS, Reader, ReadingPassage
from purlin.training import export, model
from purlin.training.candidates import (
    Floats,
    Rows,
    Score,
    encode_pairs,
    nearest,
    teacher_scores,
)
from purlin.training.checkpoints import best_measures
from purlin.training.config import MAX_SEED, in_range
from purlin.training.cross_encoder import PAIRS_PER_GROUP, CrossEncoder, CrossEncoderTask
from purlin.training.data import augment
from purlin.training.data.pair_loading import load_pairs
from purlin.training.data.pairs import Pair, PairSource
from purlin.training.devices import add_gradients, make_accelerator
from purlin.training.loop import StepProgress, train
from purlin.training.loop_settings import LoopSettings
from purlin.training.losses import list_divergence, listwise, margin_mse
from purlin.training.model import ModelSettings, in_groups, pad_texts
from purlin.training.quantize import TokenIds
from purlin.training.recorded_recipe import digest
from purlin.training.restore import HEAD
from purlin.training.santa import Schedule, Stage

STAGE = "ranker"  # the directory of the checkpoints
SELECTION = 2  # the row of a reader's head that gives the logit of a passage
MINED_CHARS = 5  # of a passage for each token that the ranker reads: the rest is not encoded
DEV_DEPTH = 20  # candidates of a held-out query, as many as a search reranks
SAMPLE_BATCHES = 4  # batches whose sequences calibrate and check the exported graph
MAX_LOGIT_DIFFERENCE = 1e-3  # fp32 graph against torch: of any logit
# int8 graph against torch: correlation of the logits of the samples.
MIN_CORRELATION = 0.99


@dataclass(frozen=True, slots=True, kw_only=True)
class RankingSettings:
    """Which candidates the ranker is trained on, and how large it is.

    A query comes with `candidates` passages: its own, and others drawn from the `depth` that the
    exported `encoder` ranks nearest. For a share `missing` of the queries their own is left out,
    so that none is relevant. `max_tokens` counts query, passage and special tokens. The pairs are
    drawn in `forms`, and of each source `held_out` are not trained on, but measured.
    """

    encoder: Path
    candidates: int = 8
    depth: int = 30
    missing: float = 0.1
    max_tokens: int = 128
    held_out: int = 50
    forms: augment.Forms = field(default_factory=augment.Forms)

    def __post_init__(self) -> None:
        in_range("candidates", self.candidates, 2, 256)
        in_range("depth", self.depth, self.candidates, 1000)
        in_range("missing", self.missing, 0.0, 0.9)
        in_range("max_tokens", self.max_tokens, 16, 8192)
        in_range("held_out", self.held_out, 0, 100_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class RankingTeacher:
    """Whose scores the ranker learns from: the directory `model` of an exported encoder, reranker
    or reader.

    Its scores (cosines, or logits) are multiplied by `scale`, which for cosines is the inverse of a
    temperature. `margin` weighs Margin-MSE, `divergence` the divergence of lists at `temperature`,
    beside the loss of the labels, whose weight is `labels`.
    """

    model: Path
    scale: float = 1.0
    margin: float = 0.0
    divergence: float = 1.0
    temperature: float = 1.0
    labels: float = 1.0

    def __post_init__(self) -> None:
        in_range("scale", self.scale, 1e-6, 1e6)
        for name in ("margin", "divergence", "labels"):
            in_range(name, getattr(self, name), 0.0, 1000.0)
        in_range("temperature", self.temperature, 1e-3, 1000.0)
        if not self.margin + self.divergence:
            raise InvalidInput(
                "A teacher whose margin and divergence are both 0 teaches nothing: raise one, or "
                "omit [teacher].",
                field="margin",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class KindWeights:
    """The share of the relevance in the score, by kind; 0 leaves the kind to the search alone."""

    code: float = 0.0
    product: float = 0.0
    reference: float = 0.0

    def __post_init__(self) -> None:
        for kind, share in asdict(self).items():
            in_range(kind, share, 0.0, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class RankerExport:
    """How the reranker is exported; `weights` and `default` as in
    `purlin.index.reranker.RerankerSettings`.

    `benchmarks/rerank.py` prints what each weight gives on dev queries. `base_model` is named in the
    model card, if the recipe's base is a checkpoint of one's own.
    """

    quantization: export.Quantization = "int8"
    weights: KindWeights = field(default_factory=lambda: KindWeights(code=0.3, product=0.3))
    default: tuple[str, ...] = ()
    base_model: str = ""
    base_licence: str = "unknown"
    trained_on: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        serving.check_weights(self.shares(), self.default)

    def shares(self) -> dict[str, float]:
        """Return the weights of the kinds that the reranker reranks."""
        return {kind: share for kind, share in asdict(self.weights).items() if share}


@dataclass(frozen=True, slots=True, kw_only=True)
class RankerRecipe:
    """All that decides a run."""

    name: str
    pairs: tuple[PairSource, ...]
    ranking: RankingSettings
    exclude: tuple[Path, ...] = ()
    model: ModelSettings = field(default_factory=ModelSettings)
    teacher: RankingTeacher | None = None
    loop: LoopSettings = field(default_factory=LoopSettings)
    export: RankerExport = field(default_factory=RankerExport)
    seed: int = 1

    def __post_init__(self) -> None:
        export.Card(self.name)  # refuses a name that cannot be exported
        in_range("seed", self.seed, 0, MAX_SEED)
        if not self.pairs:
            raise InvalidInput("A recipe needs at least one [[pairs]].", field="pairs")
        if self.name == STAGE:
            raise InvalidInput(
                f"The name {STAGE!r} is that of the checkpoints' directory. Rename the recipe.",
                field="name",
            )


# -- model --------------------------------------------------------------------------------------


class RankerModel(CrossEncoder):
    """A cross-encoder with one logit on the first token: that of relevance."""

    def __init__(self, text_model: model.BertLike) -> None:
        super().__init__(text_model, 1)

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return logits (n,) of `ids` and `mask` (n, t)."""
        logits: Tensor = self.head(self.states(ids, mask)[:, 0]).float()[:, 0]
        return logits


def load_ranker_model(settings: ModelSettings, directory: Path | None = None) -> RankerModel:
    """Load the base model, or what `save` wrote to `directory`.

    The head is a new one, unless the base is a reader: then it is the one that selects passages.
    Raises what `purlin.training.model.load_text_model` does, and Damaged for a head that cannot be
    read.
    """
    text_model = model.load_text_model(settings, directory, decoder=False)
    if not isinstance(text_model, model.BertLike):
        raise InvalidInput("A reranker needs a BERT-like base model.", field="base")

    ranker = RankerModel(text_model)
    source = directory or Path(model.base_path(settings.base))
    if directory is not None or (source / HEAD).is_file():
        ranker.load_head(source, output=SELECTION)
    return ranker


# -- training -----------------------------------------------------------------------------------


def train_ranker(
    recipe: RankerRecipe,
    out: Path,
    *,
    progress: Callable[[str], StepProgress],
    say: Callable[[str], None],
    cpu: bool = False,
) -> Path:
    """Train and export; return the reranker directory `out`/NAME. A run that was killed is resumed.

    `progress` returns the function that is called after each step; `say` is called with a line of
    text now and then.
    """
    accelerator = make_accelerator(recipe.loop, cpu=cpu, out=out, say=say)
    loaded, report = load_pairs(recipe.pairs, recipe.exclude)
    if accelerator.is_main_process:
        say(str(report))

    # The first process computes the files; the others then read them.
    with accelerator.main_process_first():
        encoder = load_encoder(recipe.ranking.encoder)
        sources = [
            _lists(pairs, recipe, encoder, out / STAGE / str(number), say)
            for number, pairs in enumerate(loaded)
        ]

    # The new head starts with the same weights in every process.
    torch.manual_seed(recipe.seed)
    ranker = load_ranker_model(recipe.model).to(accelerator.device)
    export.refuse_longer("ranking.max_tokens", recipe.ranking.max_tokens, ranker)
    task = RankerTask(ranker, sources, recipe, accelerator)

    # The export does not change the curve.
    checkpoint = train(
        task,
        recipe.loop,
        out / STAGE,
        accelerator,
        seed=recipe.seed,
        recipe=asdict(recipe) | {"export": None, "texts": [each.digest() for each in sources]},
        progress=progress(STAGE) if accelerator.is_main_process else None,
        say=say,
    )

    if accelerator.is_main_process:
        samples = [ids for number in range(SAMPLE_BATCHES) for ids in task.batch(number).sequences]
        export_ranker(recipe, checkpoint, out / recipe.name, samples, best_measures(checkpoint))
    accelerator.wait_for_everyone()
    return out / recipe.name


@dataclass(frozen=True, slots=True)
class Lists:
    """The pairs of one source with their candidates.

    `nearest` (n, depth) are rows of other pairs, nearest first. `teacher` (n, 1 + depth), if there
    is one, has its scores of the pair's own passage, then of those rows. The first `held_out` pairs
    are measured, the others are trained on.
    """

    pairs: Sequence[Pair]
    nearest: Rows
    teacher: Floats | None
    held_out: int

    def digest(self) -> str:
        """Return the digest of all that training uses."""
        teacher = None if self.teacher is None else self.teacher.tolist()
        return digest([*self.pairs, self.nearest.tolist(), teacher])


def _lists(
    pairs: Sequence[Pair],
    recipe: RankerRecipe,
    encoder: TextEncoder,
    out: Path,
    say: Callable[[str], None],
) -> Lists:
    """Return a source's lists, as far as possible from what `out` keeps of an earlier call."""
    ranking = recipe.ranking
    shuffled = random.Random(recipe.seed).sample(list(pairs), len(pairs))
    queries, passages = encode_pairs(
        shuffled,
        encoder,
        ranking.encoder,
        out / "vectors",
        max_chars=MINED_CHARS * ranking.max_tokens,
        progress=lambda done, total: say(f"encoded {done:,} of {total:,} texts"),
    )
    mined = nearest(shuffled, queries, passages, ranking.depth)
    held_out = min(ranking.held_out, len(shuffled) // 2)
    if (teacher := recipe.teacher) is None:
        return Lists(shuffled, mined, None, held_out)

    scores = teacher_scores(
        shuffled,
        mined,
        lambda: open_teacher(teacher.model),
        teacher.model,
        out / "teacher",
        progress=lambda done, total: say(f"the teacher scored {done:,} of {total:,} lists"),
    )
    return Lists(shuffled, mined, teacher.scale * scores, held_out)


def open_teacher(directory: Path) -> Score:
    """Open an exported encoder, reranker or reader for its scores. Raises NotFound or Damaged."""
    if (directory / serving.RERANKER_SETTINGS).is_file():
        return serving.Reranker.load(directory).logits
    if (directory / READER_SETTINGS).is_file():
        return partial(_reader_logits, Reader.load(directory))
    return partial(_cosines, load_encoder(directory))


def _reader_logits(reader: Reader, query: str, texts: Sequence[str]) -> Floats:
    read = reader.read(query, [ReadingPassage(text) for text in texts])
    return np.array([each.selected for each in read], dtype=np.float32)


def _cosines(encoder: TextEncoder, query: str, texts: Sequence[str]) -> Floats:
    cosines: Floats = (
        encoder.encode(texts, role="passage") @ encoder.encode([query], role="query")[0]
    )
    return cosines


@dataclass(frozen=True, slots=True)
class RankingBatch:
    """B queries with P candidates each.

    `sequences` (B * P) are their ids, `relevant` (B,) the relevant candidate, counted from 1, or 0
    for none, and `teacher` (B, P) the teacher's scores. `rows` are the numbers of the queries.
    """

    rows: NDArray[np.int64]
    sequences: list[TokenIds]
    relevant: list[int]
    teacher: list[list[float]] | None


class RankerTask(CrossEncoderTask):
    """The lists of a recipe, as a `purlin.training.task.Task`."""

    model: RankerModel

    def __init__(
        self,
        ranker: RankerModel,
        sources: Sequence[Lists],
        recipe: RankerRecipe,
        accelerator: Accelerator,
    ) -> None:
        self.model = ranker
        self.sources = sources
        self.recipe = recipe
        self.accelerator = accelerator

        sizes = [len(source.pairs) - source.held_out for source in sources]
        weights = [source.weight for source in recipe.pairs]
        self.schedule = Schedule(sizes, weights, Stage(name=STAGE, loop=recipe.loop), recipe.seed)
        self.starts = np.cumsum([0, *sizes])

        self.packer = ranker.packer(recipe.ranking.max_tokens)

    def batch(self, number: int) -> RankingBatch:
        """Return this process's part of batch `number`."""
        rows, rngs = self.schedule.part(number, self.accelerator)

        sequences: list[TokenIds] = []
        relevant: list[int] = []
        scores: list[list[float]] = []
        for row, rng in zip(rows, rngs, strict=True):
            source_number = int(np.searchsorted(self.starts, row, side="right")) - 1
            source = self.sources[source_number]
            own = source.held_out + int(row - self.starts[source_number])

            missing = rng.random() < self.recipe.ranking.missing
            columns = self._columns(missing, rng)
            sequences += self._packed(source, own, columns, rng)
            relevant.append(0 if missing else 1)
            if source.teacher is not None:
                scores.append(source.teacher[own, columns].tolist())
        return RankingBatch(rows, sequences, relevant, scores or None)

    def _columns(self, missing: bool, rng: random.Random) -> list[int]:
        """Draw the candidates of a list: 0 is the query's own passage, the others are mined."""
        ranking = self.recipe.ranking
        # All lists have the same length, whether or not the relevant passage is in them.
        count = ranking.candidates if missing else ranking.candidates - 1
        mined = sorted(rng.sample(range(1, 1 + ranking.depth), count))
        return mined if missing else [0, *mined]

    def _packed(
        self, source: Lists, own: int, columns: Sequence[int], rng: random.Random
    ) -> list[TokenIds]:
        """Pack a query with the candidates of `columns`, all of them in forms drawn alike."""
        forms = self.recipe.ranking.forms
        rows = [own, *source.nearest[own].tolist()]
        query, passage = augment.draw(source.pairs[own], forms, rng)
        drawn = [
            passage if column == 0 else augment.draw(source.pairs[rows[column]], forms, rng)[1]
            for column in columns
        ]
        packed = self.packer.pack(query, [ReadingPassage(text) for text in drawn])
        return [each.ids for each in packed]

    def backward(self, batch: RankingBatch) -> dict[str, float]:
        """Add the gradients of the loss, and return its parts."""
        device = self.accelerator.device
        scores = self._logits(batch.sequences).reshape(len(batch.relevant), -1)
        losses = {"labels": listwise(scores, torch.tensor(batch.relevant, device=device))}
        weights = {"labels": 1.0}

        teacher = self.recipe.teacher
        if teacher is not None and batch.teacher is not None:
            targets = torch.tensor(batch.teacher, device=device)
            losses["margin"] = margin_mse(scores, targets)
            losses["divergence"] = list_divergence(scores, targets, temperature=teacher.temperature)
            weights = {name: getattr(teacher, name) for name in losses}

        total = torch.stack([weights[name] * loss for name, loss in losses.items()]).sum()
        add_gradients(total, self.accelerator)
        return {
            "loss": float(total.detach()),
            **{name: float(loss.detach()) for name, loss in losses.items()},
        }

    def _logits(self, sequences: Sequence[TokenIds]) -> Tensor:
        """Return the model's logits, computed in groups of similar length, which saves padding."""
        rows = [ids.tolist() for ids in sequences]
        ids, mask = pad_texts(rows, self.model.tokenizer.pad_token_id or 0)
        device = self.accelerator.device

        def read_group(group_ids: Tensor, group_mask: Tensor) -> tuple[Tensor]:
            return (self.model(group_ids, group_mask),)

        with self.accelerator.autocast():
            (logits,) = in_groups(read_group, ids.to(device), mask.to(device), PAIRS_PER_GROUP)
        return logits

    def describe(self, batch: RankingBatch) -> str:
        """Return the numbers of the first queries."""
        return f"queries {', '.join(map(str, batch.rows[:8]))}"

    def measure(self) -> dict[str, float]:
        """Return `dev mrr` over the held-out queries; each comes with its own passage among the
        nearest others.
        """
        ranks = [
            self._rank(source, own) for source in self.sources for own in range(source.held_out)
        ]
        return {"dev mrr": float(np.mean([1 / rank for rank in ranks]))} if ranks else {}

    def _rank(self, source: Lists, own: int) -> int:
        """Return the rank of a held-out query's own passage, the last one of those it ties with."""
        columns = range(min(DEV_DEPTH, 1 + self.recipe.ranking.depth))
        # The same forms at every measurement.
        packed = self._packed(source, own, columns, random.Random(f"{self.recipe.seed} {own}"))
        with torch.no_grad():
            logits = self._logits(packed)
        return int((logits >= logits[0]).sum())

    def restore(self, directory: Path) -> None:
        """Load the weights that `save` wrote."""
        saved = load_ranker_model(self.recipe.model, directory=directory)
        self.model.load_state_dict(saved.state_dict())


# -- export -------------------------------------------------------------------------------------


def export_ranker(
    recipe: RankerRecipe,
    checkpoint: Path,
    out: Path,
    samples: Sequence[TokenIds],
    measures: Mapping[str, float] = MappingProxyType({}),
) -> serving.Reranker:
    """Write the reranker directory `out` from a checkpoint, replacing it.

    `samples` are sequences of query and passage. The scales of int8 are measured on them, and the
    graph's logits are compared with the checkpoint's; ExportRefused is raised if they differ, and
    `out` then stays as it was.
    """
    trained = load_ranker_model(recipe.model, directory=checkpoint).eval()
    with torch.no_grad():
        expected = [float(trained(torch.from_numpy(ids)[None])) for ids in samples]

    with export.replacing_directory(out) as new:
        graph_path = new / MODEL
        export.write_tokenizer(trained.tokenizer, new / TOKENIZER)
        export.trace(_RankerGraph(trained), trained.transformer, graph_path, ["logits"])
        _compare(expected, graph_path, samples, "none")

        if recipe.export.quantization == "int8":
            export.quantize_graphs(new, samples)
            _compare(expected, graph_path, samples, "int8")

        _write_reranker_settings(recipe, measures, new)
        (new / export.CARD).write_text(_card_text(recipe, measures))
    return serving.Reranker.load(out)


class _RankerGraph(nn.Module):
    """What the ONNX graph computes: ids without padding -> logits."""

    def __init__(self, trained: RankerModel) -> None:
        super().__init__()
        self.trained = trained

    def forward(self, input_ids: Tensor) -> Tensor:
        logits: Tensor = self.trained(input_ids)
        return logits


def _compare(
    expected: Sequence[float],
    graph: Path,
    samples: Sequence[TokenIds],
    quantization: export.Quantization,
) -> None:
    """Raise ExportRefused if the graph's logits are not those of the checkpoint."""
    session = open_session(graph.read_bytes())
    computed = [float(session.run(None, {"input_ids": ids[None]})[0][0]) for ids in samples]
    export.refuse_difference(
        "logits",
        quantization,
        difference=float(np.abs(np.subtract(expected, computed)).max()),
        max_difference=MAX_LOGIT_DIFFERENCE,
        similarity=float(np.corrcoef(expected, computed)[0, 1]),
        min_similarity=MIN_CORRELATION,
        similarity_name="correlation",
    )


def _write_reranker_settings(
    recipe: RankerRecipe, measures: Mapping[str, float], directory: Path
) -> None:
    settings = serving.RerankerSettings(
        name=recipe.name,
        max_tokens=recipe.ranking.max_tokens,
        weights=recipe.export.shares(),
        default=recipe.export.default,
        files=export.file_digests(directory, (MODEL, TOKENIZER)),
    )
    details = {
        "base_model": _base_model(recipe),
        "trained_on": list(recipe.export.trained_on),
        "measures": dict(measures),
    }
    export.write_settings(directory / serving.RERANKER_SETTINGS, settings, details)


def _base_model(recipe: RankerRecipe) -> str:
    return recipe.export.base_model or recipe.model.base


def _card_text(recipe: RankerRecipe, measures: Mapping[str, float]) -> str:
    precisions = {"int8": "8-bit, with 8-bit activations at fixed scales", "none": "32-bit"}
    shares = recipe.export.shares()
    weights = [f"{kind}: {share:.2f} of the score" for kind, share in shares.items()]

    return f"""# {recipe.name}

A reranker for Purlin: `model.onnx` maps ids of `[CLS] query [SEP] passage [SEP]`, int64 (n, t) without padding, to a \
logit of relevance (n,), where 0 is as likely as not.

- **Base model**: {_base_model(recipe)}, licence {recipe.export.base_licence}
- **Layers**: {recipe.model.layers or "all of the base model's"}
- **Longest sequence**: {recipe.ranking.max_tokens} tokens, of which the query takes at most a third
- **Weights**: {precisions[recipe.export.quantization]}

## Trained on
{export.markdown_list(recipe.export.trained_on)}

## Share in the score
{export.markdown_list(weights)}

Reranked unless a request says otherwise: {", ".join(recipe.export.default) or "no kind"}.

## Measures
{export.markdown_measures(measures, ".4f")}

## Limits
{export.markdown_list(recipe.export.limits)}
"""
