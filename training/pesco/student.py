"""The student: batches of one round, and the step that trains on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import send_to_device
from torch import Tensor

from purlin.index.classify.labels import prompts
from purlin.index.errors import InvalidInput
from purlin.training.loop.devices import add_gradients, gathered
from purlin.training.loop.task import Task
from purlin.training.models.padding import tokenized
from purlin.training.models.text_model import TextModel
from purlin.training.pesco.losses import matching_loss
from purlin.training.pesco.recipe import PescoRecipe
from purlin.training.pesco.texts import remove_sentence, split_sentences
from purlin.training.pesco.views import Indices

# Texts of similar length that are encoded together.
LENGTH_GROUP = 16


@dataclass(frozen=True, slots=True)
class RoundTexts:
    """What a round trains on.

    `texts` and their pseudo-`labels` (N,) are the whole pool; `rows` (n,) of it are the sample, and
    `keys` (n,) the numbers of its key sentences, -1 if a text has only one sentence.
    """

    texts: Sequence[str]
    label_names: Sequence[str]
    labels: Indices
    rows: Indices
    keys: Indices


class PescoBatch(NamedTuple):
    """Token ids and mask (n + K + C, t): texts without their key sentences, keys, and prompts.

    There are K <= n keys and one prompt for each of `classes` (C,). `labels` (n,) are
    pseudo-labels, `has_key` (n,) says which texts have a key sentence. Keys and prompts that the
    loss does not use are left out.
    """

    rows: Indices
    ids: Tensor
    mask: Tensor
    labels: Tensor
    classes: Tensor
    has_key: Tensor


class PescoTask(Task[PescoBatch]):
    """One round as the training loop runs it.

    Nothing is measured: the choice of a checkpoint must not depend on labels.
    """

    model: TextModel

    def __init__(
        self,
        text_model: TextModel,
        recipe: PescoRecipe,
        data: RoundTexts,
        accelerator: Accelerator,
        *,
        seed: int,
    ) -> None:
        self.model, self.recipe, self.data = text_model, recipe, data
        self.accelerator, self.seed = accelerator, seed
        self.student = recipe.student
        self.size = shared_size(self.student.loop.batch_size, len(data.rows), accelerator)
        self.batches_per_epoch = max(1, len(data.rows) // self.size)

        if self.student.loss == "lct" and (data.keys < 0).all():
            raise InvalidInput(
                'No text has a second sentence, and the loss "lct" needs key sentences: '
                'use "plct" or "pcl".',
                field="student.loss",
            )

    def batch(self, number: int) -> PescoBatch:
        """Make this process's part of a batch.

        Each epoch has its own order, and each label one random template.
        """
        epoch, position = divmod(number, self.batches_per_epoch)
        order = np.random.default_rng([self.seed, epoch]).permutation(len(self.data.rows))
        batch = order[position * self.size : (position + 1) * self.size]
        # All processes contrast the labels of the whole batch.
        batch_labels = self.data.labels[self.data.rows[batch]]

        part = batch[self.accelerator.process_index :: self.accelerator.num_processes]
        rows, key_numbers = self.data.rows[part], self.data.keys[part]
        labels = self.data.labels[rows]
        pairs = [
            self._text_and_key(row, key)
            for row, key in zip(rows.tolist(), key_numbers.tolist(), strict=True)
        ]

        # The random numbers of a batch depend on its number alone, so that a run can be resumed.
        rng = np.random.default_rng([self.seed, 1, number])
        classes = self._classes(batch_labels, rng)
        texts = [text for text, _ in pairs]
        keys, class_prompts = [], []
        if self.student.loss != "pcl":
            keys = [key for _, key in pairs if key]
        if self.student.loss != "lct":
            class_prompts = [self._prompt(label, rng) for label in classes.tolist()]

        ids, mask = tokenized(
            self.model.tokenizer,
            [*texts, *keys, *class_prompts],
            self.recipe.model.max_passage_tokens,
        )
        has_key = torch.tensor([bool(key) for _, key in pairs])
        return PescoBatch(
            rows, ids, mask, torch.from_numpy(labels), torch.from_numpy(classes), has_key
        )

    def _text_and_key(self, row: int, key_number: int) -> tuple[str, str]:
        """The text as the student sees it, and its key sentence, empty if there is none."""
        text = self.data.texts[row]
        if key_number < 0:
            return text, ""

        key = split_sentences(text)[key_number]
        return (remove_sentence(text, key) if self.student.augment else text), key

    def _classes(self, labels: Indices, rng: np.random.Generator) -> Indices:
        """The labels whose prompts are candidates: all, or those of the batch and random others."""
        count, most = len(self.data.label_names), self.student.candidates
        if count <= most:
            return np.arange(count)

        # The labels of the batch are always candidates, even if there are more than `candidates`.
        present = np.unique(labels)
        absent = np.setdiff1d(np.arange(count), present)
        drawn = min(len(absent), max(0, most - len(present)))
        return np.concatenate([present, rng.choice(absent, drawn, replace=False)])

    def _prompt(self, label: int, rng: np.random.Generator) -> str:
        of_label = prompts(self.data.label_names[label], self.recipe.templates)
        return of_label[int(rng.integers(len(of_label)))]

    def backward(self, batch: PescoBatch) -> dict[str, float]:
        """Add the gradients of `matching_loss`, and return its value.

        The texts of this process are matched with the key sentences of all processes.
        """
        batch = send_to_device(batch, self.accelerator.device)
        with self.accelerator.autocast():
            vectors = self.model.grouped_vectors(batch.ids, batch.mask, LENGTH_GROUP)

        text_count = len(batch.rows)
        prompt_count = len(batch.classes) if self.student.loss != "lct" else 0
        key_count = len(vectors) - text_count - prompt_count
        texts, keys, class_prompts = torch.split(vectors, [text_count, key_count, prompt_count])
        keys, key_labels = self._all_keys(keys, batch.labels, batch.has_key)

        loss = matching_loss(
            texts,
            keys,
            class_prompts,
            batch.labels,
            batch.classes,
            batch.has_key,
            key_labels=key_labels,
            processes=self.accelerator.num_processes,
            kind=self.student.loss,
            temperature=self.student.temperature,
        )
        add_gradients(loss, self.accelerator)
        return {"loss": float(loss.detach())}

    def _all_keys(self, keys: Tensor, labels: Tensor, has_key: Tensor) -> tuple[Tensor, Tensor]:
        """The key sentences (K, D) of all processes, and their labels (K,)."""
        if self.accelerator.num_processes == 1 or self.student.loss == "pcl":
            return keys, labels[has_key]

        # Only tensors of one shape can be gathered: texts without a key have zeros.
        padded = keys.new_zeros(len(labels), keys.shape[1]).masked_scatter(has_key[:, None], keys)
        all_have_key = gathered(has_key, self.accelerator)
        all_labels = gathered(labels, self.accelerator)
        return gathered(padded, self.accelerator)[all_have_key], all_labels[all_have_key]

    def describe(self, batch: PescoBatch) -> str:
        """Name the first texts by number, and quote the first."""
        first = self.data.texts[int(batch.rows[0])]
        numbers = ", ".join(map(str, batch.rows[:8].tolist()))
        return f"texts {numbers} …, the first {first[:80]!r}"


def shared_size(batch_size: int, texts: int, accelerator: Accelerator) -> int:
    """The texts of a batch: as many for each process, and no more than there are."""
    if texts >= batch_size:
        return batch_size
    processes: int = accelerator.num_processes
    return max(1, texts // processes) * processes
