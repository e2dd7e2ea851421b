"""The rounds of self-training: a teacher labels the texts, a student is trained on a sample."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain
from pathlib import Path

import numpy as np
import torch
from accelerate import Accelerator
from numpy.typing import NDArray

from purlin.index.classify.labels import LabelSet, mean_of_each
from purlin.index.classify.scores import ClassScores
from purlin.index.classify.text_warnings import language_warnings
from purlin.index.encoder import Vectors
from purlin.index.errors import Damaged
from purlin.index.pace import StageProgress, duration
from purlin.training.encoded import encode_once, frozen_encoder
from purlin.training.loop.checkpoints import Checkpoints
from purlin.training.loop.recorded_recipe import digest
from purlin.training.loop.run import Progress, Say, StepProgress, train
from purlin.training.models.architectures import refuse_longer
from purlin.training.models.encoding import encode
from purlin.training.models.text_model import TextModel, load_text_model
from purlin.training.pesco.outcome import Round
from purlin.training.pesco.recipe import PescoRecipe
from purlin.training.pesco.round_state import NO_KEY, NOT_MEASURED, ROUND_STATE, RoundState
from purlin.training.pesco.student import PescoTask, RoundTexts
from purlin.training.pesco.teacher import (
    ModelVectors,
    PseudoLabels,
    class_offsets,
    pseudo_label,
    sample_balanced,
)
from purlin.training.pesco.texts import Labelled, TextPool, split_sentences
from purlin.training.pesco.views import Indices, WordIndex

# Below a run's directory: the vectors of prompts and texts by the teacher's base.
TEACHER_VECTORS = "teacher"

# Fewer texts are encoded in seconds, without progress.
SHOWN_TEXTS = 1_000

# Training on a text takes this many times as long as encoding it: 4.3 times for the gradients, in fp32
# on a CPU with 17 labels; the optimizer and the choice of key sentences come on top.
TRAINING_COST = 5


@dataclass(frozen=True)
class SelfTraining:
    """The rounds of one run. `out` has round-NN/ with a round's state and its checkpoints.

    Of several processes the main one labels, and all train. `encoding` gets the progress of
    encoding many texts.
    """

    recipe: PescoRecipe
    pool: TextPool
    labels: tuple[str, ...]
    out: Path
    accelerator: Accelerator
    dev: Labelled | None
    encoding: StageProgress | None = None
    rounds: list[Round] = field(default_factory=list)
    _embeddings: dict[int, ModelVectors] = field(default_factory=dict)
    _teacher_vectors: list[ModelVectors] = field(default_factory=list)

    def train(self, progress: Progress, say: Say) -> TextModel:
        """Train until the pseudo-labels converge, and return the model, the same in all processes."""
        scores: ClassScores | None = None
        for number in range(self.recipe.student.rounds + 1):
            # A round is finished once the next one has a state.
            if (self.round_directory(number + 1) / ROUND_STATE).is_file():
                state = RoundState.read(self.round_directory(number) / ROUND_STATE)
                scores = self._record(state, scores, say)
                continue

            text_model = self._load(self._checkpoint(number - 1))
            if self.accelerator.is_main_process:
                self._label(number, text_model, scores, say)
                self._remove_checkpoints(number - 2)
            self.accelerator.wait_for_everyone()

            state = RoundState.read(self.round_directory(number) / ROUND_STATE)
            scores = self._record(state, scores, say)
            if not len(state.rows):
                return text_model

            self._train_student(number, text_model, state, progress(f"round {number + 1}"), say)

        raise AssertionError("the last round has no rows")

    @cached_property
    def index(self) -> WordIndex:
        """The words of the pool."""
        return WordIndex.of(self.pool.texts, len(self.labels))

    @cached_property
    def dev_digest(self) -> str:
        """The digest of the dev rows, empty if there are none."""
        return digest([self.dev]) if self.dev else ""

    def embeddings(self, number: int, text_model: TextModel) -> ModelVectors:
        """Vectors of all texts by the model of round `number`.

        Those of the first round, which are needed again at the end, and of the last one are cached.
        """
        if number not in self._embeddings:
            for cached in [cached for cached in self._embeddings if cached != 0]:
                del self._embeddings[cached]

            dev = None if self.dev is None else self.encode(text_model, self.dev.texts)
            pool = self.encode(text_model, self.pool.texts)
            self._embeddings[number] = ModelVectors(pool, self.prompt_vectors(text_model), dev)

        return self._embeddings[number]

    def pseudo_labels(self, number: int) -> Indices:
        """The labels (N,) by the teacher of round `number`."""
        state = RoundState.read(self.round_directory(number) / ROUND_STATE)
        labels: Indices = state.scores.argmax(1)
        return labels

    def encode(self, text_model: TextModel, texts: Sequence[str]) -> Vectors:
        """Vectors (n, D) of whole, clean texts."""
        return encode(
            text_model,
            list(texts),
            self.recipe.model.max_passage_tokens,
            self.accelerator,
            progress=self.encoding if len(texts) > SHOWN_TEXTS else None,
        )

    def prompt_vectors(self, text_model: TextModel) -> Vectors:
        """Mean prompt vectors (L, D), eq. 2."""
        return self._mean_prompts(self.encode(text_model, self._prompts()))

    def _prompts(self) -> list[str]:
        """The prompts of all labels, one label after the other."""
        return list(chain.from_iterable(self.recipe.prompts(self.labels)))

    def _mean_prompts(self, vectors: Vectors) -> Vectors:
        """Means (L, D) of the vectors of each label's prompts."""
        return mean_of_each(vectors, [len(each) for each in self.recipe.prompts(self.labels)])

    def prompt_offsets(self, pool: Vectors, prompts: Vectors) -> ClassScores:
        """The offsets (L,) of `prompts` (L, D), from their cosines with the `pool` (N, D)."""
        cosines = (pool @ prompts.T).astype(np.float64)
        return class_offsets(cosines, calibrate=self.recipe.teacher.calibrate)

    def dev_accuracy(
        self, embeddings: ModelVectors, vectors: Vectors, offsets: ClassScores
    ) -> float | None:
        """The accuracy of label `vectors` (L, D) and `offsets` (L,); None without dev rows."""
        if self.dev is None or embeddings.dev is None:
            return None

        predicted = (embeddings.dev @ vectors.T - offsets).argmax(1)
        return float((predicted == np.array(self.dev.labels)).mean())

    def time_of_rounds(self, encoding_seconds: float) -> str:
        """Estimate the time of all rounds from what encoding the texts once has taken."""
        student, pool_size = self.recipe.student, len(self.pool.texts)
        encoded_count = pool_size + (len(self.dev.texts) if self.dev else 0)
        trained_count = student.trained_texts(pool_size)

        # Each round encodes the texts again, with the model that it has trained.
        seconds = encoding_seconds * (
            student.rounds + TRAINING_COST * trained_count / encoded_count
        )
        return (
            f"estimated time of all rounds (student.rounds = {student.rounds}): {duration(seconds)}"
        )

    def base_model(self) -> TextModel:
        """Load the model that training starts from."""
        return self._load(None)

    def round_directory(self, number: int) -> Path:
        """Where the state and the checkpoints of round `number` are."""
        return self.out / f"round-{number:02d}"

    def _load(self, checkpoint: Path | None) -> TextModel:
        """Load a checkpoint, or the base model without one."""
        torch.manual_seed(self.recipe.seed)
        text_model = load_text_model(self.recipe.model, checkpoint)
        refuse_longer("export.max_tokens", self.recipe.export.max_tokens, text_model)

        # PESCO does not train what starts at random.
        for weight in text_model.fresh():
            weight.requires_grad_(False)
        return text_model.to(self.accelerator.device).eval()

    # ---- the teacher

    def _label(
        self,
        number: int,
        text_model: TextModel,
        previous: ClassScores | None,
        say: Say,
    ) -> None:
        """Label the texts and sample those to train on, unless this was done before.

        The state has no rows once the pseudo-labels have converged or the rounds are over.
        """
        path = self.round_directory(number) / ROUND_STATE
        if path.is_file():
            return

        started = time.monotonic()
        embeddings = self.embeddings(number, text_model)
        prompts = embeddings.prompts
        if number == 0:
            if self.recipe.student.rounds:
                say(self.time_of_rounds(time.monotonic() - started))
            self._warn(text_model, prompts, say)

        models = [embeddings, *self._teacher_models(say)]
        pseudo_labels = pseudo_label(models, self.index, self.recipe.teacher)

        rng = np.random.default_rng([self.recipe.seed, number])
        rows = np.empty(0, np.int64)
        if not self._finished(number, pseudo_labels, previous):
            total = self.recipe.student.texts(number, len(self.pool.texts))
            rows = sample_balanced(pseudo_labels, total, len(self.labels), rng)
        keys = self._key_sentences(text_model, rows, pseudo_labels.labels, prompts, rng)

        offsets = self.prompt_offsets(embeddings.texts, prompts)
        accuracy = self.dev_accuracy(embeddings, prompts, offsets)
        state = RoundState(
            pseudo_labels.scores.astype(np.float32),
            rows,
            keys,
            NOT_MEASURED if accuracy is None else accuracy,
            self.dev_digest,
        )
        state.write(path)

    def _warn(self, text_model: TextModel, prompts: Vectors, say: Say) -> None:
        """Say which labels the base model hardly tells apart, and which words it hardly knows."""
        count_tokens = partial(_count_tokens, text_model)
        label_set = LabelSet.with_wordings(self.labels, prompts, count_tokens)
        for warning in label_set.warnings() + language_warnings(count_tokens, self.pool.texts):
            say(warning)

    def _teacher_models(self, say: Say) -> list[ModelVectors]:
        """The vectors by the teacher's own encoder, if it has one; they are computed once."""
        base = self.recipe.teacher.base
        if base is None:
            return []

        if not self._teacher_vectors:
            prompts = self._prompts()
            vectors = encode_once(
                lambda: frozen_encoder(Path(base), self.accelerator),
                Path(base),
                [*prompts, *self.pool.texts],
                self.out / TEACHER_VECTORS,
                progress=lambda encoded_count, total: say(
                    f"teacher: {encoded_count:,} of {total:,} texts encoded"
                ),
            )
            self._teacher_vectors.append(
                ModelVectors(vectors[len(prompts) :], self._mean_prompts(vectors[: len(prompts)]))
            )
        return self._teacher_vectors

    def _finished(
        self, number: int, pseudo_labels: PseudoLabels, previous: ClassScores | None
    ) -> bool:
        """Whether the rounds are over, or a round of the most texts hardly changed a label."""
        student, pool_size = self.recipe.student, len(self.pool.texts)
        if number >= student.rounds:
            return True
        if previous is None:
            return False

        # With more texts to come, the next round can change labels again.
        at_limit = student.texts(number - 1, pool_size) >= student.texts(student.rounds, pool_size)
        changed = float((pseudo_labels.labels != previous.argmax(1)).mean())
        return at_limit and changed <= student.converged

    def _key_sentences(
        self,
        text_model: TextModel,
        rows: Indices,
        labels: Indices,
        prompts: Vectors,
        rng: np.random.Generator,
    ) -> Indices:
        """The number of the key sentence of each row's text (eq. 3), NO_KEY if it has only one."""
        sentences = {row: split_sentences(self.pool.texts[row]) for row in np.unique(rows).tolist()}
        keys = dict.fromkeys(sentences, NO_KEY)
        splittable = [row for row, parts in sentences.items() if len(parts) > 1]

        if self.recipe.student.key == "random":
            keys |= {row: int(rng.integers(len(sentences[row]))) for row in splittable}
        elif splittable:
            # The sentences of all texts are encoded in one call.
            vectors = self.encode(
                text_model, [sentence for row in splittable for sentence in sentences[row]]
            )
            ends = np.cumsum([len(sentences[row]) for row in splittable])
            for row, own_vectors in zip(splittable, np.split(vectors, ends[:-1]), strict=True):
                keys[row] = int((own_vectors @ prompts[labels[row]]).argmax())

        return np.array([keys[row] for row in rows.tolist()], np.int64)

    def _record(self, state: RoundState, previous: ClassScores | None, say: Say) -> ClassScores:
        """Add a Round, log it, and return the scores for the next one."""
        agreement = 1.0
        if previous is not None:
            agreement = float((state.scores.argmax(1) == previous.argmax(1)).mean())

        # An accuracy on other dev rows, by an earlier call, does not count.
        measured = state.dev_digest == self.dev_digest and state.dev_accuracy >= 0
        accuracy = state.dev_accuracy if measured else None
        self.rounds.append(Round(len(state.rows), agreement, accuracy))

        line = f"round {len(self.rounds)}: {len(state.rows):,} texts to train on"
        if previous is not None:
            line += f", {agreement:.1%} of the labels as before"
        if accuracy is not None:
            line += f", dev accuracy {accuracy:.4f}"
        say(line)
        return state.scores

    # ---- the student

    def _train_student(
        self,
        number: int,
        text_model: TextModel,
        state: RoundState,
        progress: StepProgress,
        say: Say,
    ) -> None:
        data = RoundTexts(
            self.pool.texts, self.labels, state.scores.argmax(1), state.rows, state.keys
        )
        seed = self.recipe.seed + 1000 * number
        task = PescoTask(text_model, self.recipe, data, self.accelerator, seed=seed)

        train(
            task,
            replace(self.recipe.student.loop, batch_size=task.size),
            self.round_directory(number),
            self.accelerator,
            seed=seed,
            recipe={**self.recipe.training_values(), "round": number},
            progress=progress if self.accelerator.is_main_process else None,
            say=say,
        )

    def _checkpoint(self, number: int) -> Path | None:
        """The last checkpoint of round `number`; None, for the base model, before the first."""
        if number < 0:
            return None

        directory = self.round_directory(number)
        checkpoint = Checkpoints(directory).last()
        if checkpoint is None:
            raise Damaged(f"{directory} has lost its checkpoint. Remove {self.out} to start again.")
        return checkpoint

    def _remove_checkpoints(self, number: int) -> None:
        """Remove the checkpoints of a round that no later one starts from."""
        if number < 0:
            return
        for checkpoint in self.round_directory(number).glob("step-*"):
            shutil.rmtree(checkpoint, ignore_errors=True)


def _count_tokens(text_model: TextModel, texts: Sequence[str]) -> NDArray[np.int64]:
    return np.array([len(ids) for ids in text_model.tokenizer(list(texts))["input_ids"]])
