"""Measure classification by the names of labels: names, descriptions, thresholds, paths.

    python -m benchmarks.classify.labels --data DIR [--encoder DIR ...]

`--data` has for each of `SETS` a directory with dev.jsonl and labels.txt. Tickets, the sets of
`WRITTEN`, descriptions of labels, pairs of names and parents of DBpedia's labels are those of
questions/classification. All of it is measured through `Classifier`, as the server classifies.
Intervals are bootstrapped, 95 %, and paired where they are of a difference.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.options import command_parser
from purlin.index.classify.labelled import read_labelled
from purlin.index.classify.labels import DEFAULT_TEMPLATES as TEMPLATES
from purlin.index.classify.labels import mean_vectors, prompts
from purlin.index.classify.zero_shot import Classifier
from purlin.index.encoder import (
    LABEL_ENCODER,
    TextEncoder,
    Vectors,
    encoder_directory,
    load_encoder,
)
from purlin.index.evaluation.ranking import (
    Values,
    difference,
    measure,
    read_list,
    read_records,
)
from purlin.index.records import Role

QUESTIONS = Path(__file__).resolve().parents[2] / "questions" / "classification"
SETS = ("amazon_polarity", "ag_news", "dbpedia", "yahoo_answers")
# Small sets of other kinds; each has a template of its own in templates.json, the last five have
# examples of texts of each label, too.
WRITTEN = (
    "town",
    "bugs",
    "recipes",
    "voice",
    "logs",
    "clauses",
    "survey",
    "comments",
    "hotel",
    "patients",
    "apps",
)
DRAWS, DRAWN_TEXTS = 40, (20, 35, 50, 75, 100, 200, 400)
SIMILAR = (0.80, 0.85, 0.90, 0.92, 0.95)
FORMS: Mapping[str, Callable[[str, str], str]] = {
    "name alone": lambda name, parent: name,
    "name in parent": lambda name, parent: f"{name} in {parent}",
    "parent: name": lambda name, parent: f"{parent}: {name}",
    "name, parent": lambda name, parent: f"{name}, {parent}",
    "name (parent), as served": lambda name, parent: f"{parent} > {name}",
}


class Remembering:
    """An encoder that encodes each text once."""

    def __init__(self, encoder: TextEncoder) -> None:
        self._encoder = encoder
        self._vectors: dict[str, Vectors] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._encoder, name)

    def encode(self, texts: Sequence[str], *, role: Role) -> Vectors:
        """Return the vectors (texts, dim); all texts of classification have the same role."""
        missing = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        if missing:
            vectors = self._encoder.encode(missing, role=role)
            self._vectors.update(zip(missing, vectors, strict=True))
        return np.stack([self._vectors[text] for text in texts])


@dataclass(frozen=True)
class Labelled:
    """Texts with the labels that each has: one in the sets, any number for tickets."""

    name: str
    texts: list[str]
    truth: list[set[str]]
    labels: list[str]
    descriptions: dict[str, str]
    examples: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def single(self) -> Labelled:
        """Return the texts with exactly one label."""
        rows = [row for row in zip(self.texts, self.truth, strict=True) if len(row[1]) == 1]
        texts, truth = ([row[part] for row in rows] for part in (0, 1))
        return Labelled(self.name, texts, truth, self.labels, self.descriptions)

    def described(self, *, with_name: bool) -> list[str]:
        """Return the labels with their descriptions as a wording."""
        named = "{0} = {0} | {1}" if with_name else "{0} = {1}"
        return [named.format(label, self.descriptions[label]) for label in self.labels]

    def exemplified(self) -> list[str]:
        """Return the labels with their descriptions and examples as wordings."""
        return [
            f"{label} = {' | '.join([self.descriptions[label], *self.examples[label]])}"
            for label in self.labels
        ]


def read_sets(data: Path) -> list[Labelled]:
    """Read the sets below `data`, and the tickets."""
    descriptions = json.loads((QUESTIONS / "descriptions.json").read_text())
    sets = []
    for name in SETS:
        rows = list(read_labelled(data / name / "dev.jsonl"))
        texts, own = [row.text for row in rows], [set(row.labels) for row in rows]
        labels = read_list(data / name / "labels.txt")
        sets.append(Labelled(name, texts, own, labels, descriptions[name]))

    return [*sets, read_tickets("tickets", descriptions["tickets"])]


def read_written() -> list[Labelled]:
    """Read the small sets of other kinds."""
    descriptions = json.loads((QUESTIONS / "descriptions.json").read_text())
    examples = json.loads((QUESTIONS / "examples.json").read_text())
    return [
        replace(read_tickets(name, descriptions[name]), examples=examples.get(name, {}))
        for name in WRITTEN
    ]


def read_tickets(name: str, descriptions: dict[str, str]) -> Labelled:
    """Read a file of tickets in questions/classification."""
    rows = [row for _, row in read_records(QUESTIONS / f"{name}.jsonl")]
    texts, truth = [row["text"] for row in rows], [set(row["labels"]) for row in rows]
    return Labelled(name, texts, truth, list(descriptions), descriptions)


def right(classifier: Classifier, labelled: Labelled, labels: Sequence[str], **how: Any) -> Values:
    """Return 1 for each text whose best label is right, else 0, as (texts,)."""
    results = classifier.classify(labelled.texts, labels, **how)
    hits = [row.label in truth for row, truth in zip(results, labelled.truth, strict=True)]
    return np.array(hits, dtype=float)


def print_names(classifier: Classifier, sets: Sequence[Labelled]) -> None:
    """Print accuracies by names and by descriptions, and of texts classified together."""
    print(
        "\nset, texts: names | descriptions alone | names and descriptions | together | difference"
    )
    for labelled in map(Labelled.single, sets):
        names = right(classifier, labelled, labelled.labels)
        alone = right(classifier, labelled, labelled.described(with_name=False))
        both = right(classifier, labelled, labelled.described(with_name=True))
        together = right(classifier, labelled, labelled.labels, transductive=True)
        by_name = measure("accuracy", names, len(names))
        gain = difference("accuracy", names, together)

        print(
            f"{labelled.name}, {len(names):,}: "
            f"{by_name.mean:.3f} ({by_name.low:.3f} to {by_name.high:.3f}) | "
            f"{alone.mean():.3f} | {both.mean():.3f} | {together.mean():.3f} | "
            f"{gain.mean:.3f} ({gain.low:.3f} to {gain.high:.3f})"
        )


def print_written(classifier: Classifier, sets: Sequence[Labelled]) -> None:
    """Print accuracies of the small sets, by the default templates and by one of their own."""
    templates = json.loads((QUESTIONS / "templates.json").read_text())
    print(
        "\nset, texts, labels: names | descriptions alone | both | descriptions and examples, "
        "each (own template; together)"
    )

    for labelled in sets:
        cells = []
        forms = [labelled.labels, *(labelled.described(with_name=each) for each in (False, True))]
        if labelled.examples:
            forms.append(labelled.exemplified())
        for labels in forms:
            alone = right(classifier, labelled, labels).mean()
            own = right(classifier, labelled, labels, templates=[templates[labelled.name]]).mean()
            together = right(classifier, labelled, labels, transductive=True).mean()
            cells.append(f"{alone:.3f} ({own:.3f}; {together:.3f})")

        print(
            f"{labelled.name}, {len(labelled.texts)}, {len(labelled.labels)}: {' | '.join(cells)}"
        )


def print_draws(classifier: Classifier, sets: Sequence[Labelled]) -> None:
    """Print what classifying few texts together gains, in the mean of draws from the odd rows."""
    print("\ntexts: gain of each set in the mean of its draws; all sets; the worst draw")
    rng = np.random.default_rng(0)
    odd = [
        replace(labelled, texts=labelled.texts[1::2], truth=labelled.truth[1::2])
        for labelled in sets
    ]

    for count in DRAWN_TEXTS:
        gains = {}
        for labelled in odd:
            if len(labelled.texts) < count:
                continue
            draws = [rng.choice(len(labelled.texts), count, replace=False) for _ in range(DRAWS)]
            gains[labelled.name] = [_gain(classifier, labelled, rows.tolist()) for rows in draws]

        means = {name: np.mean(of_set) for name, of_set in gains.items()}
        shown = ", ".join(f"{name} {mean:+.3f}" for name, mean in means.items())
        worst = min(min(of_set) for of_set in gains.values())
        print(f"{count}: {shown}; {np.mean(list(means.values())):+.3f}; {worst:+.3f}")


def _gain(classifier: Classifier, labelled: Labelled, rows: Sequence[int]) -> float:
    """What classifying these rows together adds to their accuracy."""
    texts, truth = [labelled.texts[row] for row in rows], [labelled.truth[row] for row in rows]
    drawn = replace(labelled, texts=texts, truth=truth)
    alone = right(classifier, drawn, drawn.labels).mean()
    return float(right(classifier, drawn, drawn.labels, transductive=True).mean() - alone)


def print_several(classifier: Classifier, sets: Sequence[Labelled]) -> None:
    """Print which labels pass a threshold: the share that is right, and that of right ones."""
    print("\nset: labels that fit | multi_label 0.5 | 0.8 | without, 0.25 (precision, recall)")
    for labelled in sets:
        cells = []
        for multi_label, threshold in ((True, None), (True, 0.5), (True, 0.8), (False, 0.25)):
            results = classifier.classify(
                labelled.texts, labelled.labels, multi_label=multi_label, ranked=100
            )
            passing = [
                set(row.labels or ())
                if threshold is None
                else {each.label for each in row.ranking if each.score >= threshold}
                for row in results
            ]

            hits = sum(len(a & b) for a, b in zip(passing, labelled.truth, strict=True))
            precision = hits / max(1, sum(map(len, passing)))
            cells.append(f"{precision:.2f}, {hits / sum(map(len, labelled.truth)):.2f}")

        print(f"{labelled.name}: " + " | ".join(cells))


def print_none(classifier: Classifier, tickets: Labelled) -> None:
    """Print what `min_score` keeps of tickets with a label, and rejects of those with none."""
    print("\nlabels, min_score: kept, right among these, rejected of those with none")
    for name, labels in (
        ("names", tickets.labels),
        ("names and descriptions", tickets.described(with_name=True)),
    ):
        for threshold in (0.4, 0.5, 0.6, 0.7):
            results = classifier.classify(tickets.texts, labels, min_score=threshold)
            rows = list(zip(results, tickets.truth, strict=True))
            kept = [row.label in truth for row, truth in rows if truth and row.label]
            rejected = [row.label is None for row, truth in rows if not truth]
            total = sum(bool(truth) for truth in tickets.truth)

            print(
                f"{name}, {threshold}: {len(kept) / total:.2f}, {np.mean(kept):.2f}, "
                f"{np.mean(rejected):.2f}"
            )


def print_similar(classifier: Classifier) -> None:
    """Print the shares of pairs of names that a threshold on their cosine takes for the same."""
    pairs = json.loads((QUESTIONS / "pairs.json").read_text())
    cosines = {}
    for meaning, names in pairs.items():
        vectors = mean_vectors(
            [prompts(name, TEMPLATES) for pair in names for name in pair], classifier.encoder
        )
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        cosines[meaning] = (vectors[::2] * vectors[1::2]).sum(axis=1)

    print("\ncosine: same meaning, flagged; different meaning, flagged")
    for threshold in SIMILAR:
        flagged = {meaning: values >= threshold for meaning, values in cosines.items()}
        wrong = [pairs["different"][row] for row in np.flatnonzero(flagged["different"])]
        print(
            f"{threshold}: {flagged['same'].mean():.2f}; {flagged['different'].mean():.2f} {wrong}"
        )


def print_paths(classifier: Classifier, dbpedia: Labelled) -> None:
    """Print DBpedia's accuracy with its labels below their parents, in several forms."""
    parents = json.loads((QUESTIONS / "paths.json").read_text())
    print("\nform of a path: accuracy")
    for name, form in FORMS.items():
        labels = [f"{label} = {form(label, parents[label])}" for label in dbpedia.labels]
        print(f"{name}: {right(classifier, dbpedia, labels).mean():.3f}")


def print_german(classifier: Classifier, tickets: Labelled) -> None:
    """Print how many German tickets get the right English label."""
    german = read_tickets("tickets-german", tickets.descriptions)
    hits = right(classifier, german, german.labels)
    print(f"\nGerman tickets: {hits.sum():.0f} of {len(hits)}")


def main() -> None:
    """Print all of it for each encoder."""
    parser = command_parser(__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--encoder", nargs="+", default=[LABEL_ENCODER], metavar="DIR")
    options = parser.parse_args()

    sets = read_sets(options.data)
    by_name = {labelled.name: labelled for labelled in sets}
    written = read_written()
    for directory in options.encoder:
        classifier = Classifier(Remembering(load_encoder(encoder_directory(directory))))
        print(f"\n==== {classifier.encoder.name}")
        print_names(classifier, sets)
        print_written(classifier, written)
        print_draws(classifier, [labelled.single() for labelled in sets])
        print_several(classifier, [*sets, *written])
        print_none(classifier, by_name["tickets"])
        print_similar(classifier)
        print_paths(classifier, by_name["dbpedia"])
        print_german(classifier, by_name["tickets"])


if __name__ == "__main__":
    main()
