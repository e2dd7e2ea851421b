"""Texts about two topics, a recipe for a tiny model, and runs over them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from purlin.index import builds
from purlin.index.builds.catalogs import CLASSIFIERS
from purlin.index.classify.trained import TrainedClassifier
from purlin.training.loop.devices import make_accelerator
from purlin.training.loop.settings import LoopSettings
from purlin.training.models.settings import ModelSettings
from purlin.training.pesco import self_training
from purlin.training.pesco.check import CheckLimits
from purlin.training.pesco.outcome import Outcome
from purlin.training.pesco.recipe import ClassifierExport, PescoRecipe, Student
from purlin.training.pesco.rounds import SelfTraining
from purlin.training.pesco.self_training import train_pesco
from purlin.training.pesco.texts import TextPool

TOPICS = {
    "river": "water bank boat bridge flow fish".split(),
    "music": "song album guitar band voice concert".split(),
}

TOPIC_NAMES = tuple(TOPICS)

COMMON = "the a of and in is it was about this text new old".split()


def topic_texts(count: int, seed: int = 1) -> tuple[list[str], list[int]]:
    """Texts of one to three sentences with words of their topic, and sometimes its name."""
    rng = np.random.default_rng(seed)
    texts, labels = [], []
    for number in range(count):
        label = number % 2
        own = [*TOPICS[TOPIC_NAMES[label]], TOPIC_NAMES[label], TOPIC_NAMES[label]]
        parts = [
            " ".join([*rng.choice(COMMON, 2), *rng.choice(own, 3)]) for _ in range(1 + number % 3)
        ]
        texts.append(". ".join(parts) + ".")
        labels.append(label)
    return texts, labels


TEXTS, RIGHT = topic_texts(60)

TEXT_POOL = TextPool(tuple(dict.fromkeys(TEXTS)))

LOOP = LoopSettings(batch_size=8, learning_rate=1e-3, every=100, precision="fp32")


def recipe_of(base: Path, **student: Any) -> PescoRecipe:
    options = {"rounds": 2, "first": 0.3, "limit": 0.6, "converged": 0.0, "loop": LOOP, **student}
    return PescoRecipe(
        templates=("about {label}", "the {label}"),
        model=ModelSettings(base=str(base), dropout=0.0, max_passage_tokens=48),
        student=Student(**options),
        check=CheckLimits(kept=0.0, halves=2.0, spread=0.0),
        export=ClassifierExport(max_tokens=48, quantization="none"),
    )


def training_of(
    recipe: PescoRecipe,
    out: Path,
    pool: TextPool = TEXT_POOL,
    labels: tuple[str, ...] = TOPIC_NAMES,
) -> SelfTraining:
    return SelfTraining(recipe, pool, labels, out, make_accelerator(LOOP, cpu=True), None)


def quiet(name: str) -> Callable[[int, int, Mapping[str, float]], None]:
    return lambda step, total, values: None


def publish_topics(recipe: PescoRecipe, out: Path, home: Path, **changes: Any) -> Path:
    options = {"name": "topics", "progress": quiet, "say": lambda line: None, "cpu": True}
    options |= {"labels": TOPIC_NAMES, **changes}
    pool, labels = options.pop("pool", TEXT_POOL), options.pop("labels")
    return train_pesco(recipe, pool, labels, out=out, home=home, **options)


class Stop(Exception):
    pass


def stopping(at: int) -> Callable[[str], Any]:
    def progress(name: str) -> Any:
        def on_step(step: int, total: int, values: Mapping[str, float]) -> None:
            if step == at:
                raise Stop

        return on_step

    return progress


def published_classifier(home: Path) -> TrainedClassifier:
    return TrainedClassifier.load(builds.current(home, "topics", CLASSIFIERS))


def right_labels(pool: TextPool) -> np.ndarray:
    return np.array([RIGHT[TEXTS.index(text)] for text in pool.texts])


def outcome_of(recipe: PescoRecipe, out: Path, **changes: Any) -> Outcome:
    """The outcome of a run that is not exported."""
    training = training_of(recipe, out, **changes)
    trained_model = training.train(quiet, lambda line: None)
    return self_training.compare_outcome(training, trained_model, "topics")
