"""Train a static encoder: word vectors distilled from a transformer, then aligned on pairs.

Every word of the vocabulary is encoded by the transformer alone, as in Model2Vec; the vectors are
reduced to their principal components and weighted by how rare a word is (SIF, Arora et al. 2017).
That is the start of contrastive training, which changes vectors and weights alike.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn import functional as F

from purlin.index.encoder import (
    SETTINGS,
    TOKENIZER,
    TRANSFORMER_ENCODER,
    Role,
    TextEncoder,
    Vectors,
    load_encoder,
)
from purlin.index.errors import InvalidInput
from purlin.index.static_encoder import (
    CONTINUATION,
    ROLES,
    VECTORS,
    VOCABULARY,
    WEIGHTS,
    StaticEncoder,
    StaticSettings,
    Vocabulary,
    identifiers,
    parts,
)
from purlin.training.checkpoints import best_measures
from purlin.training.config import MAX_SEED, in_range, refuse_repeated
from purlin.training.data import augment
from purlin.training.data.judged import mean_measure, rank
from purlin.training.data.pair_loading import Report, load_pairs
from purlin.training.data.pairs import Pair, PairSource, text_digest
from purlin.training.dev import DevSet, read_dev_set
from purlin.training.devices import make_accelerator
from purlin.training.export import (
    CARD,
    Card,
    ExportRefused,
    file_digests,
    library_texts,
    markdown_list,
    markdown_measures,
    replacing_directory,
    write_settings,
)
from purlin.training.loop import StepProgress, train
from purlin.training.loop_settings import LoopSettings
from purlin.training.losses import contrastive
from purlin.training.recorded_recipe import digest
from purlin.training.santa import Schedule, Stage, package_numbers

MODEL = "model.safetensors"
# Letters up to the end of Latin Extended-B: others are single characters in the base's vocabulary.
LAST_LETTER = "\u024f"
LONGEST_WORD = 24
# Characters of a passage in which words are counted for the vocabulary.
COUNTED_CHARS = 2_000
FEWEST_WORDS = 5  # of a passage from which words that its query has are left out
MIN_COSINE = 0.999  # of the exported vectors to the trained ones
CHECKPOINTS = "checkpoints"  # their directory beside the encoder's

RowNumbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticExport:
    """How the encoder is exported; `max_tokens` is where it cuts texts."""

    max_tokens: int = 1024
    base_model: str = "unknown"
    base_licence: str = "unknown"
    trained_on: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        in_range("max_tokens", self.max_tokens, 8, 8192)


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticRecipe:
    """All that decides a run.

    `teacher` is the encoder directory whose vectors the words start with, by default the released
    transformer. The vocabulary has those of its tokenizer's words and pieces that are Latin, and
    the most frequent other words that occur in at least `min_pairs` pairs, `words` in all. A word
    starts with the weight `rarity` / (`rarity` + its share of all words).

    A batch is drawn from one source, in groups of `group` pairs whose passages come from the same
    package, where their rows name one: such passages are harder negatives of each other. Texts are
    cut at `max_tokens` words in training. Pairs that resemble a text of `exclude`, which are
    evaluation sets, are left out.

    `shared_dropout` is the share of the words that a passage has in common with its query which are
    left out of the passage in training: what it says in other words has to lead to it then. BM25,
    beside which the encoder is used, finds common words without it.
    """

    name: str
    pairs: tuple[PairSource, ...]
    teacher: Path = TRANSFORMER_ENCODER
    exclude: tuple[Path, ...] = ()
    dev: tuple[DevSet, ...] = ()
    words: int = 40_000
    min_pairs: int = 6
    dim: int = 256
    rarity: float = 1e-3
    group: int = 1
    max_tokens: int = 256
    shared_dropout: float = 0.0
    temperature: float = 0.05
    forms: augment.Forms = field(default_factory=augment.Forms)
    loop: LoopSettings = field(default_factory=LoopSettings)
    export: StaticExport = field(default_factory=StaticExport)
    seed: int = 1

    def __post_init__(self) -> None:
        Card(self.name)  # refuses a name that cannot be exported
        in_range("words", self.words, 1, 1 << 20)
        in_range("min_pairs", self.min_pairs, 1, 1 << 30)
        in_range("dim", self.dim, 1, 4096)
        in_range("rarity", self.rarity, 1e-9, 1.0)
        in_range("group", self.group, 1, 1 << 20)
        in_range("max_tokens", self.max_tokens, 8, 8192)
        in_range("shared_dropout", self.shared_dropout, 0.0, 1.0)
        in_range("temperature", self.temperature, 1e-3, 100.0)
        in_range("seed", self.seed, 0, MAX_SEED)
        refuse_repeated([dev_set.name for dev_set in self.dev], "Dev sets", "dev")
        if losses := [dev_set.name for dev_set in self.dev if dev_set.measure == "-loss"]:
            raise InvalidInput(
                f"The dev set {losses[0]} has the measure '-loss', which needs a transformer; take "
                "another.",
                field="dev",
            )
        if not self.pairs:
            raise InvalidInput("A recipe needs at least one [[pairs]].", field="pairs")
        if self.name == CHECKPOINTS:
            raise InvalidInput(
                f"The name {CHECKPOINTS!r} is that of the directory of checkpoints; choose another.",
                field="name",
            )


def train_static(
    recipe: StaticRecipe,
    out: Path,
    *,
    progress: Callable[[str], StepProgress],
    say: Callable[[str], None],
    cpu: bool = False,
) -> Path:
    """Train word vectors and export them; return the encoder directory `out`/NAME.

    A run that was killed is resumed. `progress` returns, for a stage's name, the function that is
    called after each of its steps; `say` is called with a line of text now and then. Raises
    InvalidInput in a run of several processes.
    """
    # Sums of word vectors gain nothing from bf16.
    settings = replace(recipe.loop, precision="fp32")
    accelerator = make_accelerator(settings, cpu=cpu, out=out, say=say)
    if accelerator.num_processes > 1:
        raise InvalidInput("A static encoder is trained by a single process; start only one.")

    sources, report = load_pairs(recipe.pairs, recipe.exclude)
    say(str(report))
    teacher = load_encoder(recipe.teacher)
    vocabulary, shares = choose_words(sources, recipe)
    say(f"{len(vocabulary):,} words; each is encoded by {teacher.name}")
    vectors = distilled(vocabulary, teacher, recipe.dim)
    model = WordVectors(vectors, np.log(recipe.rarity / (recipe.rarity + shares)))

    task = StaticTask(model, vocabulary, sources, recipe, accelerator)
    checkpoint = train(
        task,
        settings,
        out / CHECKPOINTS,
        accelerator,
        seed=recipe.seed,
        recipe=_recorded(recipe, sources, teacher),
        progress=progress(CHECKPOINTS),
        say=say,
    )
    task.restore(checkpoint)
    export_static(
        model,
        vocabulary,
        out / recipe.name,
        _card(recipe, report, checkpoint),
        recipe.export.max_tokens,
    )
    return out / recipe.name


def _recorded(
    recipe: StaticRecipe, sources: Sequence[Sequence[Pair]], teacher: TextEncoder
) -> dict[str, Any]:
    """Return what decides the curve; the export does not."""
    content = asdict(replace(recipe, export=StaticExport()))
    return content | {"texts": list(map(digest, sources)), "teacher": teacher.fingerprint}


def _card(recipe: StaticRecipe, report: Report, checkpoint: Path) -> Card:
    counts = tuple(f"{source.name}: {source.kept:,} pairs" for source in report.sources)
    return Card(
        recipe.name,
        base_model=recipe.export.base_model,
        base_licence=recipe.export.base_licence,
        trained_on=recipe.export.trained_on or counts,
        measures=best_measures(checkpoint),
        limits=recipe.export.limits,
    )


# -- where training starts -----------------------------------------------------------------------


def choose_words(
    sources: Sequence[Sequence[Pair]], recipe: StaticRecipe
) -> tuple[Vocabulary, NDArray[np.float64]]:
    """Return the vocabulary, and each word's share (words,) of all words of the pairs.

    A word counts once per pair.
    """
    counts: Counter[str] = Counter()
    for pair in (pair for source in sources for pair in source):
        texts = (*pair.queries[:1], pair.comment, pair.passage[:COUNTED_CHARS])
        counts.update({part for text in texts for part in _parts(text)})

    base = _base_words(recipe.teacher / TOKENIZER)
    candidates = (
        (-count, word)
        for word, count in counts.items()
        if count >= recipe.min_pairs and _is_new_word(word) and word not in base
    )
    new = [word for _, word in sorted(candidates)]
    vocabulary = Vocabulary([*base, *new][: recipe.words])

    # A word outside the vocabulary counts for its pieces.
    totals = np.zeros(len(vocabulary))
    for word, count in counts.items():
        np.add.at(totals, list(vocabulary.rows(word)), count)
    return vocabulary, totals / totals.sum()


def _parts(text: str) -> Iterable[str]:
    return (part for identifier in identifiers(text) for part in parts(identifier))


def _base_words(tokenizer: Path) -> dict[str, None]:
    """Return a tokenizer's words and pieces in Latin letters and digits, in its own order."""
    vocabulary = Tokenizer.from_file(str(tokenizer)).get_vocab(with_added_tokens=False)
    ordered = sorted(vocabulary, key=vocabulary.__getitem__)
    return dict.fromkeys(word for word in ordered if _is_latin(word.removeprefix(CONTINUATION)))


def _is_latin(word: str) -> bool:
    return word.isalnum() and max(word) <= LAST_LETTER


def _is_new_word(word: str) -> bool:
    return 1 < len(word) <= LONGEST_WORD and word.isascii() and not word.isdigit()


def distilled(vocabulary: Vocabulary, teacher: TextEncoder, dim: int) -> Vectors:
    """Return unit vectors (words, dim): the principal components of the teacher's vectors."""
    texts = [word.removeprefix(CONTINUATION) for word in vocabulary.words]
    vectors = teacher.encode(texts, role="passage").astype(np.float64)
    if dim > min(vectors.shape):
        raise InvalidInput(
            f"dim is {dim}; {len(texts):,} words of {teacher.name} have {min(vectors.shape)} components.",
            field="dim",
        )

    vectors -= vectors.mean(axis=0)
    # Eigenvectors of the covariance, the largest eigenvalue last.
    components = np.linalg.eigh(vectors.T @ vectors)[1][:, ::-1][:, :dim]
    reduced: Vectors = (vectors @ components).astype(np.float32)
    reduced /= np.maximum(np.linalg.norm(reduced, axis=1, keepdims=True), 1e-12)
    return reduced


# -- the model -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Bags:
    """Texts as bags of words: `rows` of the vocabulary (k,), each once per text, with its `repeats`.

    Text i has rows[starts[i] : starts[i + 1]].
    """

    rows: Tensor
    starts: Tensor
    repeats: Tensor

    def on(self, device: torch.device) -> Bags:
        """Return the same bags on another device."""
        return Bags(self.rows.to(device), self.starts.to(device), self.repeats.to(device))


def count_words(
    vocabulary: Vocabulary, texts: Iterable[str], max_tokens: int
) -> list[Counter[int]]:
    """Count, by their rows, the first `max_tokens` words of each text."""
    return [Counter(islice(vocabulary.rows(text), max_tokens)) for text in texts]


def drop_shared(
    query: Counter[int], passage: Counter[int], share: float, rng: random.Random
) -> None:
    """Leave each word of the query out of the passage with the probability `share`.

    A passage that would have fewer than `FEWEST_WORDS` different words left stays whole.
    """
    dropped = [row for row in query if row in passage and rng.random() < share]
    if len(passage) - len(dropped) >= FEWEST_WORDS:
        for row in dropped:
            del passage[row]


def make_bags(counts: Sequence[Counter[int]]) -> Bags:
    """Put the words of each text (n,), counted by their rows, in a row."""
    sizes = np.fromiter(map(len, counts), dtype=np.int64, count=len(counts))
    starts = np.concatenate([[0], np.cumsum(sizes)])
    rows = np.fromiter(chain.from_iterable(counts), dtype=np.int64, count=starts[-1])
    repeats = (count for counter in counts for count in counter.values())
    return Bags(
        torch.from_numpy(rows),
        torch.from_numpy(starts[:-1]),
        torch.from_numpy(np.fromiter(repeats, dtype=np.float32, count=starts[-1])),
    )


class WordVectors(nn.Module):
    """Trainable vectors of words, and the logarithms of their weights in queries and passages."""

    def __init__(self, vectors: Vectors, log_weights: NDArray[Any]) -> None:
        """Start with vectors (words, dim), and log weights (words,) that are the same in both."""
        super().__init__()
        start = torch.from_numpy(np.asarray(log_weights, dtype=np.float32))
        self.vectors = nn.Parameter(torch.from_numpy(vectors.copy()))
        self.log_weights = nn.ParameterDict({role: nn.Parameter(start.clone()) for role in ROLES})

    def forward(self, bags: Bags, role: Role) -> Tensor:
        """Return unit vectors (texts, dim)."""
        weights = self.log_weights[role][bags.rows].exp() * bags.repeats.sqrt()
        sums = F.embedding_bag(
            bags.rows, self.vectors, bags.starts, mode="sum", per_sample_weights=weights
        )
        return F.normalize(sums, dim=1)

    def quantized(self) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
        """Return 8-bit vectors (words, dim), and weights (words, 2) that include their scales."""
        vectors = self.vectors.detach().cpu().numpy()
        scales = np.maximum(np.abs(vectors).max(axis=1), 1e-12) / 127
        logs = np.stack([self.log_weights[role].detach().cpu().numpy() for role in ROLES], axis=1)
        rounded = np.rint(vectors / scales[:, None]).astype(np.int8)
        return rounded, (np.exp(logs) * scales[:, None]).astype(np.float32)


# -- training ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StaticBatch:
    """Queries and passages of the same rows. Texts of equal digest (n,) are not told apart."""

    rows: RowNumbers
    queries: Bags
    passages: Bags
    query_digests: Tensor
    passage_digests: Tensor


class StaticTask:
    """Contrastive training of word vectors, as a `purlin.training.task.Task`."""

    def __init__(
        self,
        model: WordVectors,
        vocabulary: Vocabulary,
        sources: Sequence[Sequence[Pair]],
        recipe: StaticRecipe,
        accelerator: Accelerator,
    ) -> None:
        self.model = model.to(accelerator.device)
        self.vocabulary = vocabulary
        self.recipe = recipe
        self.device = accelerator.device
        self.pairs = [_with_first_query(pair) for source in sources for pair in source]
        self.schedule = make_schedule(sources, recipe)
        self.dev = [(dev_set, read_dev_set(dev_set)) for dev_set in recipe.dev]

    def fresh(self) -> Sequence[nn.Parameter]:
        """Return the logarithms of the weights, whose rate is `fresh_rate` times that of vectors."""
        return list(self.model.log_weights.values())

    def batches_per_epoch(self) -> int:
        """Return the number of batches in which every pair comes once."""
        return self.schedule.batches_per_epoch()

    def batch(self, number: int) -> StaticBatch:
        """Return a batch, which depends on seed and number only."""
        rows = self.schedule.rows(number)
        rng = random.Random(f"{self.recipe.seed} {number}")
        drawn = [augment.draw(self.pairs[row], self.recipe.forms, rng) for row in rows]
        queries, passages = (
            count_words(self.vocabulary, texts, self.recipe.max_tokens)
            for texts in zip(*drawn, strict=True)
        )
        for query, passage in zip(queries, passages, strict=True):
            drop_shared(query, passage, self.recipe.shared_dropout, rng)

        return StaticBatch(
            rows,
            make_bags(queries),
            make_bags(passages),
            _digests(self.pairs[row].queries[0] for row in rows),
            _digests(self.pairs[row].passage for row in rows),
        )

    def prepare(self, number: int) -> None:
        """Do nothing: batches do not depend on the weights."""

    def ready(self, number: int) -> bool:
        """Tell that every batch can be drawn while the steps before it are computed."""
        return True

    def backward(self, batch: StaticBatch) -> dict[str, float]:
        """Add the gradients of the mean of both directions: passages of queries, and the reverse."""
        queries = self.model(batch.queries.on(self.device), "query")
        passages = self.model(batch.passages.on(self.device), "passage")
        same_query = batch.query_digests == batch.query_digests[:, None]
        same_passage = batch.passage_digests == batch.passage_digests[:, None]
        excluded = (same_query | same_passage).to(self.device)
        own = torch.arange(len(batch.rows), device=self.device)

        losses = [
            contrastive(
                anchors, targets, own, temperature=self.recipe.temperature, excluded=excluded
            )
            for anchors, targets in ((queries, passages), (passages, queries))
        ]
        loss = torch.stack(losses).mean()
        loss.backward()  # type: ignore[no-untyped-call]
        return {"loss": float(loss.detach())}

    def describe(self, batch: StaticBatch) -> str:
        """Return the numbers of the first pairs, and the first query."""
        first = self.pairs[batch.rows[0]]
        return f"pairs {', '.join(map(str, batch.rows[:8]))} …, the first {first.queries[0][:80]!r}"

    def measure(self) -> dict[str, float]:
        """Return the measures of the dev sets, of the encoder as it would be exported."""
        encoder = in_memory(self.model, self.vocabulary, self.recipe.export.max_tokens)
        values: dict[str, float] = {}
        for dev_set, data in self.dev:
            run = rank(data, encoder)
            name = f"dev {dev_set.name} {dev_set.measure}"
            values[name] = mean_measure(dev_set.measure, run, data)
        return {"dev mean": float(np.mean(list(values.values()))), **values} if values else {}

    def save(self, directory: Path) -> None:
        """Write the model."""
        save_file(self.model.state_dict(), directory / MODEL)

    def restore(self, directory: Path) -> None:
        """Load the weights that `save` wrote."""
        self.model.load_state_dict(load_file(directory / MODEL))


def make_schedule(sources: Sequence[Sequence[Pair]], recipe: StaticRecipe) -> Schedule:
    """Return the batches of a recipe: of one source each, in groups of one package."""
    stage = Stage(name="static", loop=recipe.loop, batches="one-source", group=recipe.group)
    sizes = [len(source) for source in sources]
    weights = [source.weight for source in recipe.pairs]
    return Schedule(sizes, weights, stage, recipe.seed, package_numbers(sources))


def _with_first_query(pair: Pair) -> Pair:
    """Leave code the first of the queries from its comment: the whole may stand in its passage."""
    from_comment = pair.kind == "code" and not pair.searches
    return replace(pair, queries=pair.queries[:1]) if from_comment else pair


def _digests(texts: Iterable[str]) -> Tensor:
    """Return (n,) int64, equal for equal texts."""
    return torch.from_numpy(np.frombuffer(b"".join(map(text_digest, texts)), dtype=np.int64).copy())


# -- export --------------------------------------------------------------------------------------


def in_memory(model: WordVectors, vocabulary: Vocabulary, max_tokens: int) -> StaticEncoder:
    """Return the encoder that an export would write; it has no fingerprint of its own."""
    vectors, weights = model.quantized()
    digests = dict.fromkeys((VECTORS, WEIGHTS, VOCABULARY), "")
    settings = StaticSettings("static", "in memory", vectors.shape[1], max_tokens, digests)
    return StaticEncoder(settings, vocabulary, vectors, weights)


def export_static(
    model: WordVectors, vocabulary: Vocabulary, out: Path, card: Card, max_tokens: int
) -> StaticEncoder:
    """Write the encoder directory `out`, replacing it.

    Raises ExportRefused if its vectors are not those of the model; `out` then stays as it was.
    """
    with replacing_directory(out) as new:
        vectors, weights = model.quantized()
        np.save(new / VECTORS, vectors)
        np.save(new / WEIGHTS, weights)
        (new / VOCABULARY).write_text("\n".join(vocabulary.words), encoding="utf-8")

        digests = file_digests(new, (VECTORS, WEIGHTS, VOCABULARY))
        settings = StaticSettings("static", card.name, vectors.shape[1], max_tokens, digests)
        details = {
            "base_model": card.base_model,
            "base_licence": card.base_licence,
            "trained_on": list(card.trained_on),
            "measures": dict(card.measures),
        }
        write_settings(new / SETTINGS, settings, details)
        _compare(model, StaticEncoder.load(new))
        (new / CARD).write_text(_card_text(card, vectors.shape, max_tokens))
    return StaticEncoder.load(out)


def _compare(model: WordVectors, encoder: StaticEncoder) -> None:
    """Raise ExportRefused unless the encoder's vectors of code and prose are the model's."""
    texts = library_texts()
    for role in ROLES:
        bags = make_bags(count_words(encoder.vocabulary, texts, encoder.max_tokens))
        with torch.no_grad():
            expected = model.cpu()(bags, role).numpy()
        # A text without a known word has zeros in both.
        has_words = expected.any(axis=1)
        cosines = np.sum(expected * encoder.encode(texts, role=role), axis=1)[has_words]
        if cosines.min(initial=1.0) < MIN_COSINE:
            raise ExportRefused(
                f"A {role}'s vector has cosine {cosines.min():.4f} to the trained one; at least "
                f"{MIN_COSINE} is allowed. Nothing was written."
            )


def _card_text(card: Card, shape: tuple[int, ...], max_tokens: int) -> str:
    return f"""# {card.name}

A static text encoder for Purlin: `vectors.npy` has {shape[0]:,} words with {shape[1]} components each, in 8 bits; \
`weights.npy` has each word's weight in queries and in passages, times the scale of its row. A text's vector is the \
weighted sum over its words, times the root of how often each occurs, scaled to length 1.

- **Base model**: {card.base_model}, licence {card.base_licence}
- **Trained on**: {", ".join(card.trained_on) or "nothing beyond the base model"}
- **Longest text**: {max_tokens:,} words and pieces; the rest is cut off

## Measures
{markdown_measures(card.measures, ".4g")}

## Limits
{markdown_list(card.limits)}

## Files
`encoder.json` holds the settings, the SHA-256 of the other files, and a fingerprint over all that changes a vector. An
index remembers the fingerprint of the encoder that it was made with.
"""
