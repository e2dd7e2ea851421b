"""The report of `benchmarks.qa.refqa`: means, paired differences, and the paper's statistical tests."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.qa.anova import tukey_hsd, two_way_anova
from purlin.index.evaluation.ranking import difference, measure
from purlin.index.records import Splitter

Kind = tuple[str, str]  # what a model is trained on, and what it is validated on
Cell = tuple[Splitter, Kind]
QuestionValues = dict[str, list[float]]
"""A value for each question, by `ranking, relevance measure`."""


def report(cells: dict[Cell, QuestionValues]) -> Iterator[str]:
    """Yield the lines of the report: a table and the tests of each measure."""
    names = list(next(iter(cells.values())))
    yield f"| splitter | trained on | {' | '.join(names)} |"
    yield "|---" * (len(names) + 2) + "|"
    for (splitter, kind), values in cells.items():
        columns = [interval(name, values) for name in names]
        yield f"| {splitter} | {kind_name(kind)} | {' | '.join(columns)} |"

    yield "\nDifferences to the simple splitter with the same training, paired by question:\n"
    for (splitter, kind), values in cells.items():
        baseline = cells.get(("simple", kind))
        if baseline is None or baseline is values:
            continue
        for name in names:
            change = difference(name, np.array(baseline[name]), np.array(values[name]))
            span = f"{change.low:+.3f} to {change.high:+.3f}"
            yield f"- {splitter}, {kind_name(kind)}: {name} {change.mean:+.3f} ({span}, {p_text(change.p)})"

    if len(cells) > 1:
        for name in names:
            yield from tests_of(name, cells)


def kind_name(kind: Kind) -> str:
    training_data, validated = kind
    return training_data if validated == "none" else f"{training_data} (by {validated})"


def p_text(p: float) -> str:
    return "p < 0.0001" if p < 0.0001 else f"p {p:.4f}"


def interval(name: str, values: QuestionValues) -> str:
    mean = measure(name, np.array(values[name]), len(values[name]))
    return f"{mean.mean:.3f} ({mean.low:.3f} to {mean.high:.3f})"


def tests_of(name: str, cells: dict[Cell, QuestionValues]) -> Iterator[str]:
    """Yield the analysis of variance of a measure over all cells, and the pairs that differ."""
    table = np.array([values[name] for values in cells.values()]).T
    anova = two_way_anova(table)
    freedom = f"F({anova.systems_freedom}, {anova.error_freedom})"
    yield f"\n{name}: {freedom} = {anova.f:.2f}, {p_text(anova.p)}; Tukey's HSD, p < 0.05:\n"

    labels = [f"{splitter}, {kind_name(kind)}" for splitter, kind in cells]
    pairs = [pair for pair in tukey_hsd(table) if pair.p < 0.05]
    for pair in pairs:
        span = f"{pair.low:+.3f} to {pair.high:+.3f}"
        yield f"- {labels[pair.b]} vs {labels[pair.a]}: {pair.mean:+.3f} ({span}, {p_text(pair.p)})"
    if not pairs:
        yield "- none"
