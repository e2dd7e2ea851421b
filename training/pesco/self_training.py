"""PESCO: from unlabelled texts and label names to a published classifier, by self-training (Wang et al. 2023).

Each round a teacher, the model as it is, labels the clean texts; a balanced sample of those it is sure of trains the
model as a student, which sees each text without its key sentence (algorithm 1). In the end the model is compared with
the one it started from, without a label, and the better one is exported with the labels' prompts and offsets.
"""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
import torch
from accelerate import Accelerator
from numpy.typing import NDArray
from torch import Tensor

from index.builds import CLASSIFIERS, locked
from index.classify.trained import ENCODER, Trained, check_prompts, publish, write_classifier
from index.classify.zero_shot import DEFAULT_TEMPLATES, LabelSet, check_templates, prompt
from index.encoder import Encoder, Vectors
from index.errors import Damaged, InvalidInput
from index.storage import atomic_write, exclusive
from training import export, model
from training.config import MAX_SEED, in_range, read
from training.dev import encode
from training.loop import (
    LoopSettings,
    StepProgress,
    digest,
    make_accelerator,
    same_recipe,
    storing,
    train,
)
from training.model import ModelSettings, TextModel, pad_texts
from training.pesco.losses import Loss, matching
from training.pesco.outcome import Outcome, Round, Served
from training.pesco.report import page
from training.pesco.teacher import (
    Check,
    Labelling,
    Limits,
    Rows,
    Scores,
    Teacher,
    WordIndex,
    check,
    head,
    offsets,
    refuse_too_many,
    sample,
    softmax,
    teach,
)
from training.pesco.texts import Labelled, Pool, halves, read_templates, sentences, without
from training.santa import averaged

PROBED = 2000  # texts on which the trained model is compared with the one it started from
SAMPLES = 300  # texts that the exported model takes its scales from
GROUP = 16  # texts of similar length
PROMPTED = 25  # texts a label, with which prompts and head weigh alike
PARTS = 5  # of the texts, each of which is scored by what the others teach
TYPICAL = 12  # words of a label in the report
TEMPERATURES = np.geomspace(0.005, 5.0, 70)
MAX_FITTED = 2_000_000  # scores that the temperature is fitted on
RUN, TAUGHT, REPORT = "run.json", "teacher.npz", "report.html"


@dataclass(frozen=True, slots=True, kw_only=True)
class Student:
    """What a round trains. `first` is the share of the texts that the first round takes, `growth` times as many each
    next one (the paper's d), up to `limit` (its T'). Training ends when no more than `converged` of the pseudo-labels
    changed in a round that took the limit, or after `rounds`; 0 rounds train nothing.

    `loss` and `key` are the rows of the paper's table 5: "plct", "lct", "pcl", "lct+pcl"; the key sentence nearest to
    the label's prompt or a "random" one (-R). `augment` takes the key sentence out of the text. `candidates` bounds the
    label prompts in a batch: of more labels, those of the batch and others at random. `restart` trains each round from
    the base model, not from the round before. `base_share` of the base model's weights is mixed into each round's.
    """

    loss: Loss = "plct"
    key: Literal["salient", "random"] = "salient"
    augment: bool = True
    temperature: float = 0.07
    first: float = 0.05
    growth: float = 2.0
    limit: float = 0.5
    rounds: int = 6
    converged: float = 0.01
    candidates: int = 256
    restart: bool = False
    base_share: float = 0.0
    loop: LoopSettings = field(
        default_factory=lambda: LoopSettings(batch_size=32, learning_rate=2e-5)
    )

    def __post_init__(self) -> None:
        in_range("temperature", self.temperature, 1e-3, 100.0)
        in_range("first", self.first, 1e-6, 1.0)
        in_range("limit", self.limit, self.first, 10.0)
        in_range("growth", self.growth, 1.0, 1000.0)
        in_range("rounds", self.rounds, 0, 100)
        in_range("converged", self.converged, 0.0, 1.0)
        in_range("candidates", self.candidates, 2, 10_000)
        in_range("base_share", self.base_share, 0.0, 0.99)

    def texts(self, number: int, pool: int) -> int:
        """How many texts round `number`, counted from 0, takes of a pool of `pool`."""
        share = min(self.limit, self.first * self.growth ** min(number, 200))
        return max(self.loop.batch_size, round(share * pool))


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """The classifier. With `serve` "prompts" the labels' vectors are those of their prompts, as in the paper; with
    "head" the last teacher's labels add to them what they teach."""

    quantization: export.Quantization = "int8"
    max_tokens: int = 128
    serve: Literal["prompts", "head"] = "head"
    base_licence: str = "unknown"
    trained_on: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        in_range("max_tokens", self.max_tokens, 8, 8192)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """All that a run is made from beside texts and labels. Of more than `limit` texts as many are drawn."""

    templates: tuple[str, ...] = DEFAULT_TEMPLATES
    limit: int = 100_000
    seed: int = 1
    model: ModelSettings = field(
        default_factory=lambda: ModelSettings(dropout=0.0, max_passage_tokens=128)
    )
    teacher: Teacher = field(default_factory=Teacher)
    student: Student = field(default_factory=Student)
    check: Limits = field(default_factory=Limits)
    export: Export = field(default_factory=lambda: Export(base_licence="Apache-2.0"))

    def __post_init__(self) -> None:
        in_range("limit", self.limit, 32, 10_000_000)
        in_range("seed", self.seed, 0, MAX_SEED)
        check_templates(self.templates)
        if self.model.similarity != "cosine":
            raise InvalidInput(
                "PESCO matches by cosine: leave similarity out.", field="model.similarity"
            )
        if self.model.query_base:
            raise InvalidInput(
                "PESCO has one encoder for texts and labels.", field="model.query_base"
            )
        if self.model.scratch and self.student.base_share:
            raise InvalidInput(
                "A model from scratch has no base whose weights can be mixed in: leave base_share out.",
                field="student.base_share",
            )

    def prompts(self, labels: Sequence[str]) -> tuple[tuple[str, ...], ...]:
        """Each label's prompts, by every template (eq. 2)."""
        return tuple(
            tuple(prompt(template, label) for template in self.templates) for label in labels
        )

    def trained(self) -> dict[str, Any]:
        """What decides the rounds, as plain values: all but what is made of them in the end."""
        return {key: value for key, value in asdict(self).items() if key not in ("check", "export")}


def read_recipe(config: Path | None, templates: Path | None = None) -> Recipe:
    """The recipe at `config`, or Recipe() without one, with the templates of that file if one is given.

    Raises NotFound and InvalidInput as `config.read` and `read_templates` do.
    """
    recipe = read(config, Recipe) if config else Recipe()
    return replace(recipe, templates=read_templates(templates)) if templates else recipe


def run(
    recipe: Recipe,
    pool: Pool,
    labels: Sequence[str],
    *,
    name: str,
    out: Path,
    home: Path,
    progress: Callable[[str], StepProgress],
    say: Callable[[str], None],
    dev: Labelled | None = None,
    cpu: bool = False,
) -> Path:
    """Self-train, compare, export and publish the classifier `name`; returns its build's directory.

    What was done before is kept in `out`: a run that was killed goes on. `dev` is measured each round and otherwise
    unused. Raises InvalidInput where `out` holds a run of another recipe, other texts or labels, and Busy where another
    process is at work there.
    """
    refuse_too_many(len(pool.texts), len(labels))
    _refuse_unpublishable(
        recipe.prompts(labels)
    )  # prompts, a name or a home that nothing can be published with fail now
    with locked(home, name, CLASSIFIERS):
        pass
    accelerator = make_accelerator(recipe.student.loop, cpu=cpu, out=out, say=say)
    if accelerator.num_processes > 1:
        raise InvalidInput(
            "PESCO trains in one process: start it without torchrun or accelerate launch.",
            field="cpu",
        )
    with storing(out):
        out.mkdir(parents=True, exist_ok=True)
    with exclusive(
        out, f"Another process is training in {out}: wait for it, or give another --out."
    ):
        _same_run(out, _described(recipe, pool, labels))
        say(str(pool))
        course = Course(recipe, pool, tuple(labels), out, accelerator, dev)
        trained = course.go(progress, say)
        outcome, served = _outcome(course, trained, name)
        say(_decision(outcome))
        chosen = course.base() if outcome.kept else trained
        return _publish(course, outcome, served, chosen, home)


def measures(outcome: Outcome) -> dict[str, Any]:
    """What `classifier.json` says about how it was made; plain JSON."""
    before, after, count = outcome.before, outcome.served, len(outcome.labels)
    found: dict[str, Any] = {
        "texts": len(outcome.pool.texts),
        "rounds": len([known for known in outcome.rounds if known.texts]),
        "encoder": "trained" if outcome.check and not outcome.kept else "untrained",
        "shares": dict(zip(outcome.labels, _shares(after.found, count), strict=True)),
        "check": outcome.check
        and {key: round(value, 4) for key, value in asdict(outcome.check).items()},
        "kept": outcome.kept,
    }
    if before.dev is not None and after.dev is not None:
        found |= {
            "dev accuracy": round(after.dev, 4),
            "dev accuracy untrained": round(before.dev, 4),
        }
        found["dev accuracy by prompts"] = [
            round(one.dev, 4) for one in outcome.rounds if one.dev is not None
        ]
    return found


# ---- the rounds


@dataclass(frozen=True, slots=True)
class Seen:
    """What a model makes of the `pool` (N, D) and of the labels' `prompts` (L, D), and of the `dev` rows if there are
    any."""

    pool: Vectors
    prompts: Vectors
    dev: Vectors | None


@dataclass(frozen=True)
class Course:
    """Round after round. `out` has round-NN/ with what its teacher said and its checkpoints."""

    recipe: Recipe
    pool: Pool
    labels: tuple[str, ...]
    out: Path
    accelerator: Accelerator
    dev: Labelled | None
    rounds: list[Round] = field(default_factory=list)
    seen: dict[int, Seen] = field(default_factory=dict)

    def go(self, progress: Callable[[str], StepProgress], say: Callable[[str], None]) -> TextModel:
        """Train until the pseudo-labels stay, and return the model."""
        scores: Scores | None = None
        for number in range(self.recipe.student.rounds + 1):
            if (self.place(number + 1) / TAUGHT).is_file():  # this round was done before
                scores = self._note(_read_taught(self.place(number) / TAUGHT), scores, say)
                continue
            text_model = self._model(self._checkpoint(number - 1))
            taught = self._taught(number, text_model, scores, say)
            self._forget(number - 2)
            scores = self._note(taught, scores, say)
            if not len(taught["rows"]):
                return text_model
            self._train(number, text_model, taught, progress(f"round {number + 1}"), say)
        raise AssertionError("the last round has no rows")

    @cached_property
    def index(self) -> WordIndex:
        """The pool's words."""
        return WordIndex.of(self.pool.texts, len(self.labels))

    @cached_property
    def dev_digest(self) -> str:
        """Of the dev rows; empty without any."""
        return digest([self.dev]) if self.dev else ""

    def see(self, number: int, text_model: TextModel) -> Seen:
        """What the model that a round began with makes of all texts; the first round's and the last are kept."""
        if number not in self.seen:
            for old in filter(None, list(self.seen)):
                del self.seen[old]
            dev = None if self.dev is None else self.vectors(text_model, self.dev.texts)
            self.seen[number] = Seen(
                self.vectors(text_model, self.pool.texts), self.prompts(text_model), dev
            )
        return self.seen[number]

    def taught(self, number: int) -> Rows:
        """The labels (N,) that a round's teacher gave."""
        labels: Rows = _read_taught(self.place(number) / TAUGHT)["scores"].argmax(1)
        return labels

    def vectors(self, text_model: TextModel, texts: Sequence[str]) -> Vectors:
        """(n, D) of whole, clean texts."""
        return encode(
            text_model, list(texts), self.recipe.model.max_passage_tokens, self.accelerator
        )

    def prompts(self, text_model: TextModel) -> Vectors:
        """Mean prompt vectors (L, D), eq. 2."""
        vectors = self.vectors(
            text_model, list(chain.from_iterable(self.recipe.prompts(self.labels)))
        )
        found: Vectors = vectors.reshape(len(self.labels), len(self.recipe.templates), -1).mean(1)
        return found

    def levels(self, pool: Vectors, prompts: Vectors) -> Scores:
        """The calibrated offsets (L,) of `prompts` (L, D), from their cosines with the `pool` (N, D)."""
        teacher = self.recipe.teacher
        return offsets(
            (pool @ prompts.T).astype(np.float64), calibrate=teacher.calibrate, align=teacher.align
        )

    def accuracy(self, seen: Seen, vectors: Vectors, less: Scores) -> float | None:
        """On the dev rows, if there are any, of labels' `vectors` (L, D) and the offsets `less` (L,)."""
        if self.dev is None or seen.dev is None:
            return None
        return float(((seen.dev @ vectors.T - less).argmax(1) == np.array(self.dev.labels)).mean())

    def base(self) -> TextModel:
        """The model that training starts from."""
        return self._model(None)

    def place(self, number: int) -> Path:
        """The directory of a round."""
        return self.out / f"round-{number:02d}"

    def _model(self, place: Path | None) -> TextModel:
        """The base model, or a round's, with the base's share in its weights; what PESCO does not train is fixed."""
        torch.manual_seed(self.recipe.seed)
        known = model.load_text_model(self.recipe.model, place)
        export.refuse_longer("export.max_tokens", self.recipe.export.max_tokens, known)
        if place and self.recipe.student.base_share:
            known = averaged(
                model.load_text_model(self.recipe.model), known, self.recipe.student.base_share
            )
        for weight in known.fresh():
            weight.requires_grad_(False)
        return known.to(self.accelerator.device).eval()

    def _taught(
        self,
        number: int,
        text_model: TextModel,
        previous: Scores | None,
        say: Callable[[str], None],
    ) -> dict[str, Any]:
        """`scores` (N, L), the `rows` to train on, and their `keys`, -1 where there is none; as said before if it was.

        `rows` are empty where the pseudo-labels have converged, or the rounds are over.
        """
        path = self.place(number) / TAUGHT
        if path.is_file():
            return _read_taught(path)
        seen = self.see(number, text_model)
        for warning in LabelSet.of(self.labels, seen.prompts).warnings() if number == 0 else ():
            say(warning)
        found = teach(seen.pool, seen.prompts, self.index, self.recipe.teacher)
        if previous is not None and self.recipe.teacher.blend:
            mixed = (
                self.recipe.teacher.blend * previous
                + (1 - self.recipe.teacher.blend) * found.scores
            )
            found = Labelling.of(mixed, self.recipe.teacher.confidence)
        rng = np.random.default_rng([self.recipe.seed, number])
        rows = np.empty(0, np.int64)
        if not self._over(number, found, previous):
            rows = sample(
                found,
                self.recipe.student.texts(number, len(self.pool.texts)),
                len(self.labels),
                rng,
            )
        keys = self._keys(text_model, rows, found.labels, seen.prompts, rng)
        dev = self.accuracy(seen, seen.prompts, self.levels(seen.pool, seen.prompts))
        known = np.array(-1.0 if dev is None else dev)
        taught = {
            "scores": found.scores.astype(np.float32),
            "rows": rows,
            "keys": keys,
            "dev": known,
        }
        taught["dev_digest"] = np.array(self.dev_digest)
        _write_taught(path, taught)
        return taught

    def _over(self, number: int, found: Labelling, previous: Scores | None) -> bool:
        student = self.recipe.student
        if number >= student.rounds:
            return True
        if previous is None:
            return False
        taken = student.texts(number - 1, len(self.pool.texts))
        full = taken >= student.texts(student.rounds, len(self.pool.texts))
        return full and float((found.labels != previous.argmax(1)).mean()) <= student.converged

    def _keys(
        self,
        text_model: TextModel,
        rows: Rows,
        labels: Rows,
        prompts: Vectors,
        rng: np.random.Generator,
    ) -> Rows:
        """The number of the key sentence of each row's text (eq. 3), -1 where it has only one."""
        parts = {row: sentences(self.pool.texts[row]) for row in np.unique(rows).tolist()}
        found = dict.fromkeys(parts, -1)
        several = [row for row, known in parts.items() if len(known) > 1]
        if self.recipe.student.key == "random":
            found |= {row: int(rng.integers(len(parts[row]))) for row in several}
        elif several:
            vectors = self.vectors(
                text_model, [sentence for row in several for sentence in parts[row]]
            )
            ends = np.cumsum([len(parts[row]) for row in several])
            for row, known in zip(several, np.split(vectors, ends[:-1]), strict=True):
                found[row] = int((known @ prompts[labels[row]]).argmax())
        return np.array([found[row] for row in rows.tolist()], np.int64)

    def _note(
        self, taught: dict[str, Any], previous: Scores | None, say: Callable[[str], None]
    ) -> Scores:
        found = Labelling.of(taught["scores"].astype(np.float64))
        agreement = 1.0 if previous is None else float((found.labels == previous.argmax(1)).mean())
        dev = float(taught["dev"]) if str(taught["dev_digest"]) == self.dev_digest else -1.0
        known = Round(
            len(taught["rows"]),
            _shares(found, len(self.labels)),
            agreement,
            dev if dev >= 0 else None,
        )
        self.rounds.append(known)
        measured = f", dev accuracy {dev:.4f}" if dev >= 0 else ""
        again = "" if previous is None else f", {agreement:.1%} of the labels as before"
        say(f"round {len(self.rounds)}: {known.texts:,} texts to train on{again}{measured}")
        scores: Scores = taught["scores"]
        return scores

    def _checkpoint(self, number: int) -> Path | None:
        """Where the weights are that round `number` ended with; those of round -1 are the base model's."""
        if number < 0:
            return None
        known = sorted(
            self.place(number).glob("step-[0-9]*"),
            key=lambda place: int(place.name.removeprefix("step-")),
        )
        if not known:
            raise Damaged(
                f"{self.place(number)} has lost its checkpoint. Remove {self.out} to start again."
            )
        return known[-1]

    def _train(
        self,
        number: int,
        text_model: TextModel,
        taught: dict[str, Any],
        progress: StepProgress,
        say: Callable[[str], None],
    ) -> None:
        start = self.base() if self.recipe.student.restart else text_model
        labels = taught["scores"].argmax(1)
        task = PescoTask(
            start,
            self,
            taught["rows"],
            labels,
            taught["keys"],
            seed=self.recipe.seed + 1000 * number,
        )
        loop = self.recipe.student.loop
        loop = replace(loop, batch_size=min(loop.batch_size, len(taught["rows"])))
        known = {**self.recipe.trained(), "round": number}
        train(
            task,
            loop,
            self.place(number),
            self.accelerator,
            seed=task.seed,
            recipe=known,
            progress=progress,
            say=say,
        )

    def _forget(self, number: int) -> None:
        """Remove the checkpoints of a round that nothing starts from any more."""
        for old in self.place(number).glob("step-*") if number >= 0 else ():
            shutil.rmtree(old, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class Batch:
    """Ids and mask (n + K + C, t): texts without their keys, the keys (K <= n), and one prompt for each of `classes`.

    `labels` (n,) are pseudo-labels, `has_key` (n,) says which texts have a key. Keys and prompts that the loss does not
    look at are left out.
    """

    rows: Rows
    ids: Tensor
    mask: Tensor
    labels: Tensor
    classes: Tensor
    has_key: Tensor


class PescoTask:
    """One round's texts as the loop takes them: `rows` of the pool with labels of all texts, and the rows' keys."""

    def __init__(
        self,
        text_model: TextModel,
        course: Course,
        rows: Rows,
        labels: Rows,
        keys: Rows,
        *,
        seed: int,
    ) -> None:
        self._model, self.course, self.seed = text_model, course, seed
        self.rows, self.labels, self.keys = rows, labels, keys
        self.student = course.recipe.student
        self.size = min(self.student.loop.batch_size, len(rows))
        if self.student.loss == "lct" and (keys < 0).all():
            raise InvalidInput(
                'No text has a second sentence, and the loss "lct" needs key sentences: take "plct" or "pcl".',
                field="student.loss",
            )

    @property
    def model(self) -> TextModel:
        """Whose parameters are trained."""
        return self._model

    def fresh(self) -> Sequence[torch.nn.Parameter]:
        """None: what starts at random is not trained."""
        return ()

    def batches_per_epoch(self) -> int:
        """Full batches of the round's texts."""
        return max(1, len(self.rows) // self.size)

    def batch(self, number: int) -> Batch:
        """The texts of one batch, in an order of their own each epoch, with one template drawn for each label."""
        epoch, place = divmod(number, self.batches_per_epoch())
        order = np.random.default_rng([self.seed, epoch]).permutation(len(self.rows))
        chosen = order[place * self.size : (place + 1) * self.size]
        rng = np.random.default_rng([self.seed, 1, number])
        rows, keys = self.rows[chosen], self.keys[chosen]
        parts = [
            self._parts(row, key) for row, key in zip(rows.tolist(), keys.tolist(), strict=True)
        ]
        labels = self.labels[rows]
        classes = self._classes(labels, rng)
        keys_of = [key for _, key in parts if key and self.student.loss != "pcl"]
        prompts = (
            [self._prompt(label, rng) for label in classes.tolist()]
            if self.student.loss != "lct"
            else []
        )
        ids, mask = self._ids([*(text for text, _ in parts), *keys_of, *prompts])
        has_key = torch.tensor([bool(key) for _, key in parts])
        return Batch(rows, ids, mask, torch.from_numpy(labels), torch.from_numpy(classes), has_key)

    def _parts(self, row: int, key: int) -> tuple[str, str]:
        """The text that the student sees, and its key sentence or nothing."""
        text = self.course.pool.texts[row]
        if key < 0:
            return text, ""
        sentence = sentences(text)[key]
        return (without(text, sentence) if self.student.augment else text), sentence

    def _classes(self, labels: Rows, rng: np.random.Generator) -> Rows:
        count, most = len(self.course.labels), self.student.candidates
        if count <= most:
            return np.arange(count)
        there = np.unique(labels)
        others = np.setdiff1d(np.arange(count), there)
        return np.concatenate(
            [there, rng.choice(others, min(len(others), max(0, most - len(there))), replace=False)]
        )

    def _prompt(self, label: int, rng: np.random.Generator) -> str:
        templates = self.course.recipe.templates
        return prompt(templates[int(rng.integers(len(templates)))], self.course.labels[label])

    def _ids(self, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
        tokenizer, most = self._model.tokenizer, self.course.recipe.model.max_passage_tokens
        return pad_texts(
            tokenizer(list(texts), truncation=True, max_length=most)["input_ids"],
            tokenizer.pad_token_id,
        )

    def prepare(self, number: int) -> None:
        """Nothing: the round's teacher has spoken before."""

    def ready(self, number: int) -> bool:
        """Always."""
        return True

    def backward(self, batch: Batch) -> dict[str, float]:
        """Gradients of the student's loss, see `matching`."""
        device = self.course.accelerator.device
        with self.course.accelerator.autocast():
            vectors = self._model.grouped_vectors(
                batch.ids.to(device), batch.mask.to(device), GROUP
            )
        n = len(batch.rows)
        prompts = len(batch.classes) if self.student.loss != "lct" else 0
        texts, keys, prompted = torch.split(vectors, [n, len(vectors) - n - prompts, prompts])
        loss = matching(
            texts,
            keys,
            prompted,
            batch.labels.to(device),
            batch.classes.to(device),
            batch.has_key.to(device),
            kind=self.student.loss,
            temperature=self.student.temperature,
        )
        loss.backward()  # type: ignore[no-untyped-call]
        return {"loss": float(loss.detach())}

    def describe(self, batch: Batch) -> str:
        """The first texts' numbers and words."""
        first = self.course.pool.texts[int(batch.rows[0])]
        return f"texts {', '.join(map(str, batch.rows[:8].tolist()))} …, the first {first[:80]!r}"

    def measure(self) -> dict[str, float]:
        """Nothing: which checkpoint is taken must not depend on labels."""
        return {}

    def save(self, directory: Path) -> None:
        """Write the model."""
        self._model.save(directory)

    def restore(self, directory: Path) -> None:
        """Take the weights of what `save` wrote."""
        self._model.load_state_dict(
            model.load_text_model(self._model.settings, directory).state_dict()
        )


# ---- the end


def serve(course: Course, number: int, text_model: TextModel) -> Served:
    """What the model that a round began with classifies with: its calibrated prompts, or what their teacher's labels
    make of them.

    The first teacher's labels say how sure it may be of texts that it has not learnt from: the encoder has learnt later
    ones by heart, and errs where they do.
    """
    seen = course.see(number, text_model)
    vectors, less = seen.prompts, course.levels(seen.pool, seen.prompts)
    given = (seen.pool, course.taught(number), vectors, less)
    by_head = course.recipe.export.serve == "head"
    if by_head:
        vectors, less = distilled(*given)
    scores = (seen.pool @ vectors.T).astype(np.float64) - less
    sure = temperature(left_out(*given) if by_head else scores, course.taught(0))
    return Served(vectors, less, sure, Labelling.of(scores), course.accuracy(seen, vectors, less))


def distilled(
    pool: Vectors, labels: Rows, prompts: Vectors, less: Scores
) -> tuple[Vectors, Scores]:
    """What a teacher's `labels` (N,) of the `pool` (N, D) make of the `prompts` (L, D) and their offsets `less` (L,).

    The sum of the head that they train and of the prompts, at one scale; the fewer texts a label has on average, the
    more the prompts weigh. A label without texts keeps its prompts, low enough to get no text of the pool.
    """
    there = np.bincount(labels, minlength=len(prompts)) > 0
    if there.sum() < 2:
        return prompts, less
    inputs = np.pad(pool, ((0, 0), (0, 1)), constant_values=-1)
    weights, bias = head(pool, labels, len(prompts))
    taught, prompted = (
        _scaled(np.column_stack(known).astype(np.float32), inputs, there)
        for known in ((weights, -bias), (prompts, less))
    )
    texts = len(pool) / int(there.sum())
    found = prompted + texts / (texts + PROMPTED) * (taught - prompted)
    if not there.all():
        found[~there] = prompted[~there]
        scores = inputs @ found.T
        lead = (scores[:, ~there] - scores[:, there].max(1, keepdims=True)).max(0)
        found[~there, -1] += np.maximum(0.0, lead + 1e-4)
    return found[:, :-1], found[:, -1].astype(np.float64)


def _scaled(known: Vectors, inputs: Vectors, there: NDArray[np.bool_]) -> Vectors:
    """Labels' vectors and offsets (L, D + 1): less the mean of those that are `there`, whose scores of `inputs`
    (N, D + 1) get the standard deviation 1."""
    known = known - known[there].mean(0)
    found: Vectors = known / max(float((inputs @ known[there].T).std()), 1e-9)
    return found


def left_out(pool: Vectors, labels: Rows, prompts: Vectors, less: Scores) -> Scores:
    """(N, L): what `distilled` makes of each text where it has not learnt from it."""
    scores, part = np.empty((len(pool), len(prompts))), np.arange(len(pool)) % PARTS
    for number in range(PARTS):
        there = part != number
        vectors, offset = distilled(pool[there], labels[there], prompts, less)
        scores[~there] = pool[~there] @ vectors.T - offset
    return scores


def temperature(scores: Scores, labels: Rows) -> float:
    """Under which the softmax of `scores` (N, L) makes `labels` (N,) most likely."""
    step = max(1, scores.size // MAX_FITTED)
    scores, labels = scores[::step], labels[::step]
    places = np.arange(len(labels))
    likely = [np.log(softmax(scores / t)[places, labels] + 1e-12).mean() for t in TEMPERATURES]
    return float(TEMPERATURES[int(np.argmax(likely))])


def compare(course: Course, models: Sequence[TextModel], served: Sequence[Served]) -> Check:
    """The trained classifier with the untrained one, on texts drawn from the pool: both are given untrained first."""
    count = len(course.pool.texts)
    rows = np.random.default_rng([course.recipe.seed, 2]).permutation(count)[:PROBED]
    parts = [halves(course.pool.texts[row]) for row in rows]
    found = []
    for text_model, known in zip(models, served, strict=True):
        for side in (0, 1):
            vectors = course.vectors(text_model, [part[side] for part in parts])
            cosines = (vectors @ known.vectors.T).astype(
                np.float64
            )  # halves are shorter, and have levels of their own
            less = (
                offsets(cosines, calibrate=True)
                if course.recipe.teacher.calibrate
                else known.offsets
            )
            found.append((cosines - less).argmax(1))
    before, after = (Labelling.of(known.found.scores[rows]) for known in served)
    return check(before, after, found)


def _decision(outcome: Outcome) -> str:
    if outcome.check is None:
        return "nothing was trained: the encoder is the one it started from"
    return (
        f"the untrained encoder is kept: {outcome.kept}"
        if outcome.kept
        else "the trained encoder is published"
    )


def _outcome(course: Course, trained: TextModel, name: str) -> tuple[Outcome, Served]:
    base, last = course.base(), len(course.rounds) - 1
    before = after = serve(course, 0, base)
    compared, kept = None, ""
    if last:
        after = serve(course, last, trained)
        compared = compare(course, (base, trained), (before, after))
        kept = compared.verdict(course.recipe.check)
    served = before if kept else after
    typical = course.index.typical(served.found.labels, len(course.labels), TYPICAL)
    outcome = Outcome(
        name,
        course.labels,
        course.pool,
        tuple(course.rounds),
        before,
        after,
        compared,
        kept,
        typical,
    )
    return outcome, served


def _publish(
    course: Course, outcome: Outcome, served: Served, chosen: TextModel, home: Path
) -> Path:
    staged, recipe, name = course.out / "classifier", course.recipe, outcome.name
    shutil.rmtree(
        staged, ignore_errors=True
    )  # what a run that was killed here left would be published, too
    encoder = _export(course, outcome, chosen, staged)
    seen = course.see(0 if outcome.kept else len(course.rounds) - 1, chosen)
    less = served.offsets + _shift(course, served, seen, encoder)
    vectors = served.vectors if recipe.export.serve == "head" else None
    about = Trained(
        name, course.labels, recipe.prompts(course.labels), tuple(less.tolist()), served.temperature,
        measures(outcome), encoder.fingerprint, vectors,
    )  # fmt: skip
    write_classifier(staged, about)
    for place in (staged, course.out):
        (place / REPORT).write_text(page(outcome), encoding="utf-8")
    return home / "classifiers" / name / publish(home, name, staged)


def _refuse_unpublishable(prompts: Sequence[Sequence[str]]) -> None:
    """Raise InvalidInput for more or longer prompts than a classifier may have."""
    try:
        check_prompts(prompts, len(prompts))
    except ValueError as error:
        raise InvalidInput(
            f"With these templates {error}: give fewer or shorter ones.", field="templates"
        ) from None


def _export(course: Course, outcome: Outcome, chosen: TextModel, staged: Path) -> Encoder:
    recipe, checkpoint = course.recipe, course.out / "chosen"
    shutil.rmtree(checkpoint, ignore_errors=True)
    with storing(course.out, checkpoint):
        checkpoint.mkdir()
        chosen.save(checkpoint)
    given = {"dev accuracy": outcome.served.dev} if outcome.served.dev is not None else {}
    card = export.Card(
        outcome.name,
        base_model=recipe.model.base,
        base_licence=recipe.export.base_licence,
        trained_on=recipe.export.trained_on
        or (f"{len(course.pool.texts):,} texts without labels",),
        measures=given,
        limits=recipe.export.limits,
    )
    encoder = export.export(checkpoint, staged / ENCODER, card, samples=course.pool.texts[:SAMPLES],
        quantization=recipe.export.quantization, max_tokens=recipe.export.max_tokens)  # fmt: skip
    shutil.rmtree(checkpoint, ignore_errors=True)
    return encoder


def _shift(course: Course, served: Served, seen: Seen, encoder: Encoder) -> Scores:
    """By how much the exported encoder's scores lie above the model's, on average for each label (L,)."""
    texts, vectors = course.pool.texts[:PROBED], served.vectors
    if course.recipe.export.serve == "prompts":
        filled = chain.from_iterable(course.recipe.prompts(course.labels))
        vectors = (
            encoder.encode(list(filled), role="query")
            .reshape(len(course.labels), -1, encoder.dim)
            .mean(1)
        )
    found = encoder.encode(texts, role="query") @ vectors.T
    expected = seen.pool[:PROBED] @ served.vectors.T
    shift: Scores = (found - expected).mean(0).astype(np.float64)
    return shift


def _shares(found: Labelling, count: int) -> tuple[float, ...]:
    shares = np.bincount(found.labels, minlength=count) / len(found.labels)
    return tuple(round(share, 4) for share in shares.tolist())


# ---- files


def _same_run(out: Path, described: str) -> None:
    """Raises InvalidInput where `out` holds what another run has taught; else notes this one there."""
    path = out / RUN
    if path.is_file() and _same_description(path.read_bytes(), described):
        return
    if path.is_file() and any(out.glob(f"round-*/{TAUGHT}")):
        raise InvalidInput(
            f"{out} holds a run of another recipe, other texts or labels. Give another --out, or remove it.",
            field="out",
        )
    with _aside(path) as stream:
        stream.write(described.encode())


def _same_description(noted: bytes, described: str) -> bool:
    try:
        return same_recipe(json.loads(noted), json.loads(described))
    except ValueError:  # torn or edited
        return False


def _described(recipe: Recipe, pool: Pool, labels: Sequence[str]) -> str:
    about = {"recipe": recipe.trained(), "labels": list(labels), "texts": digest(pool.texts)}
    return json.dumps(about, indent=1, default=str, ensure_ascii=False) + "\n"


def _write_taught(path: Path, taught: Mapping[str, Any]) -> None:
    with _aside(path) as stream:
        np.savez(stream, **taught)


@contextmanager
def _aside(path: Path) -> Iterator[IO[bytes]]:
    """A new file that takes the place of `path`, whose directory is made if need be, when the block ends well."""
    with storing(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as stream:
            yield stream


def _read_taught(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            taught = {name: stored[name] for name in ("scores", "rows", "keys", "dev")}
            return taught | {
                "dev_digest": stored.get("dev_digest", "")
            }  # which the first versions did not write
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise Damaged(
            f"{path} is damaged: {error}. Remove its directory and those of later rounds."
        ) from error
