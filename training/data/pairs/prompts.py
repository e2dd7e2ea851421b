"""Pairs of texts with prompts for labels, for a stage that learns which prompts a teacher finds near.

Which label a text gets is chance: it says nothing, and only a stage without labels (`sda = 0`) can
make use of such pairs.
"""

from __future__ import annotations

import random

from purlin.index.classify.labels import prompts
from purlin.index.classify.texts import read_texts
from purlin.index.evaluation.ranking import read_list
from purlin.training.data.pairs.pair import Draft, Drafts, Pair, PairSource

# The default templates of classification, those of PESCO's table 3, and some like them.
TEMPLATES = (
    "{label}",
    "A {label} text.",
    "This is a {label}.",
    "This is about {label}.",
    "It is about {label}.",
    "It was {label}.",
    "It is a {label} product.",
    "In summary, the product is {label}.",
    "Category: {label}.",
    "Subject: {label}",
    "The topic is {label}.",
    "This text is {label}.",
    "{label} news.",
)


def prompt_pairs(source: PairSource) -> Drafts:
    """Pair each text of a column with `source.prompts` different prompts, the same in every run.

    Raises NotFound and InvalidInput for a file that cannot be read.
    """
    assert source.labels is not None
    labels = read_list(source.labels)
    choices = [prompt for label in labels for prompt in prompts(label, TEMPLATES)]

    for row in read_texts(source.path, source.path.name, column=source.column):
        # By the text, so that one text more changes no other's prompts.
        rng = random.Random(row.text)
        for prompt in rng.sample(choices, min(source.prompts, len(choices))):
            yield Draft(Pair((row.text,), prompt), source.path.name)
