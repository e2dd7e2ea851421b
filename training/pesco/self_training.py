"""PESCO: from unlabelled texts and label names to a published classifier (Wang et al. 2023).

In each round the current model, as a teacher, gives the texts pseudo-labels; a balanced sample of
the confident ones trains it as a student, which sees each text without its key sentence (algorithm
1). In the end the trained model is compared with the one it started from, without a label, and the
better one is published as a classifier.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from purlin.index import builds
from purlin.index.builds import locked
from purlin.index.builds.catalogs import CLASSIFIERS
from purlin.index.classify.labels import label_name
from purlin.index.errors import InvalidInput
from purlin.training.encoded import require_encoder
from purlin.training.loop.checkpoints import only_run
from purlin.training.loop.devices import make_accelerator
from purlin.training.loop.recorded_recipe import digest, same_recipe
from purlin.training.loop.run import Progress, Say
from purlin.training.models.text_model import TextModel
from purlin.training.pesco.outcome import Outcome
from purlin.training.pesco.publishing import check_publishable, publish_outcome
from purlin.training.pesco.recipe import PescoRecipe
from purlin.training.pesco.round_state import ROUND_STATE, writing
from purlin.training.pesco.rounds import SelfTraining
from purlin.training.pesco.serving import calibrated_classifier, compare_classifiers
from purlin.training.pesco.teacher import check_pool_size
from purlin.training.pesco.texts import Labelled, TextPool

RUN = "run.json"

# Words of a label in the report.
TYPICAL_WORDS = 12


def train_pesco(
    recipe: PescoRecipe,
    pool: TextPool,
    labels: Sequence[str],
    *,
    name: str,
    out: Path,
    home: Path,
    progress: Progress,
    say: Say,
    dev: Labelled | None = None,
    cpu: bool = False,
) -> Path:
    """Self-train, compare, export and publish the classifier `name`; returns the build's directory.

    Finished rounds are kept in `out`, so that a run that was killed is resumed. `dev` is only
    measured on, once a round. Raises InvalidInput if `out` holds a run of another recipe, other
    texts or labels, and Busy if another process is training there.
    """
    # What cannot be published is refused before the training.
    builds.check_name(name, CLASSIFIERS)
    check_pool_size(len(pool.texts), len(labels))
    check_publishable(recipe.prompts(labels))
    if recipe.teacher.base is not None:
        require_encoder(Path(recipe.teacher.base))

    accelerator = make_accelerator(recipe.student.loop, cpu=cpu, out=out, say=say)
    show = progress("encode texts")
    training = SelfTraining(
        recipe,
        pool,
        tuple(labels),
        out,
        accelerator,
        dev,
        encoding=lambda encoded_count, total: show(encoded_count, total, {}),
    )
    if not accelerator.is_main_process:
        return _assist(training, home, name)

    # Raises Busy where the name is being published now; processes of one run would hinder each other.
    with locked(home, name, CLASSIFIERS):
        pass

    with only_run(out):
        claim_directory(out, describe_run(recipe, pool, labels))
        accelerator.wait_for_everyone()
        say(str(pool))
        trained_model = training.train(progress, say)

        say("fitting the classifier")
        outcome = compare_outcome(training, trained_model, name)
        say(_decision(outcome))
        say("exporting the encoder")
        published_model = training.base_model() if outcome.rejection else trained_model
        build = publish_outcome(training, outcome, published_model, home)

    accelerator.wait_for_everyone()
    return build


def _assist(training: SelfTraining, home: Path, name: str) -> Path:
    """Train with the main process, which labels, compares and publishes; return the build."""
    # The main process refuses a directory that belongs to another run.
    training.accelerator.wait_for_everyone()
    # It reports, too.
    training.train(lambda name: lambda step, total, values: None, lambda line: None)

    training.accelerator.wait_for_everyone()
    return builds.current(home, name, CLASSIFIERS)


def compare_outcome(training: SelfTraining, trained_model: TextModel, name: str) -> Outcome:
    """Decide between the classifiers without training and with it."""
    base_model, last_round = training.base_model(), len(training.rounds) - 1
    untrained = trained = calibrated_classifier(training, 0, base_model)
    check, rejection = None, ""
    if last_round:
        trained = calibrated_classifier(training, last_round, trained_model)
        check = compare_classifiers(training, (base_model, trained_model), (untrained, trained))
        rejection = check.verdict(training.recipe.check)

    published = untrained if rejection else trained
    typical_words = training.index.typical(
        published.pseudo_labels.labels, len(training.labels), TYPICAL_WORDS
    )
    return Outcome(
        name,
        tuple(map(label_name, training.labels)),
        training.pool,
        tuple(training.rounds),
        untrained,
        trained,
        check,
        rejection,
        typical_words,
    )


def _decision(outcome: Outcome) -> str:
    if outcome.check is None:
        return "nothing was trained: the encoder is the one it started from"

    decision = "the trained encoder is published"
    if outcome.rejection:
        decision = f"the untrained encoder is kept: {outcome.rejection}"

    trained, untrained = outcome.trained.dev_accuracy, outcome.untrained.dev_accuracy
    if trained is None or untrained is None:
        return decision
    return f"{decision} (dev accuracy {trained:.4f} with training, {untrained:.4f} without)"


# ---- run.json


def claim_directory(out: Path, description: str) -> None:
    """Write run.json to `out`, or raise InvalidInput if `out` holds rounds of another run."""
    path = out / RUN
    if path.is_file() and _same_run(path.read_bytes(), description):
        return

    if path.is_file() and any(out.glob(f"round-*/{ROUND_STATE}")):
        raise InvalidInput(
            f"{out} holds a run of another recipe, other texts or labels. "
            "Give another --out, or remove it.",
            field="out",
        )

    with writing(path) as stream:
        stream.write(description.encode())


def describe_run(recipe: PescoRecipe, pool: TextPool, labels: Sequence[str]) -> str:
    """The JSON of what must be the same for a run to be resumed."""
    values = {
        "recipe": recipe.training_values(),
        "labels": list(labels),
        "texts": digest(pool.texts),
    }
    return json.dumps(values, indent=1, default=str, ensure_ascii=False) + "\n"


def _same_run(stored: bytes, description: str) -> bool:
    try:
        return same_recipe(json.loads(stored), json.loads(description))
    except ValueError:
        # A file that is torn or edited is no run's.
        return False
