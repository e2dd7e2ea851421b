"""The report of a self-training run: one self-contained HTML page with its plots."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

import numpy as np

from purlin.training.pesco.outcome import Outcome

UNCERTAIN_TEXTS = 20
MOST_LABELS = 50
MISSING_LABELS = 20
TEXT_CHARS = 300
LABEL_CHARS = 34
STYLE = """body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1d2733}
table{border-collapse:collapse;margin:1rem 0}td,th{padding:.25rem .75rem;text-align:left;vertical-align:top;
border-bottom:1px solid #d8dee6}td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}svg{max-width:100%}
.note{color:#55606e}@media(prefers-color-scheme:dark){body{background:#12161c;color:#dde3ea}
td,th{border-color:#36404c}svg text{fill:#dde3ea}.note{color:#9aa6b3}}"""


def render_report(outcome: Outcome) -> str:
    """Render the whole page; whatever comes from texts or labels is escaped."""
    sections = [
        _verdict(outcome),
        _balance(outcome),
        _rounds(outcome),
        _typical_words(outcome),
        _uncertain_texts(outcome),
    ]
    title = f"Classifier {escape(outcome.name)}"

    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width"><style>'
        f"{STYLE}</style></head><body><h1>{title}</h1>\n{''.join(sections)}</body></html>\n"
    )


def _verdict(outcome: Outcome) -> str:
    labels_before = outcome.untrained.pseudo_labels.labels
    labels_after = outcome.trained.pseudo_labels.labels
    changed = float((labels_before != labels_after).mean())

    lines = [f"Learnt from {escape(str(outcome.pool))} and {len(outcome.labels):,} label names."]
    if outcome.check is None:
        lines.append("Nothing was trained: the encoder is the one it started from.")
    elif outcome.rejection:
        reason = escape(outcome.rejection)
        lines.append(f"<strong>The untrained encoder is published</strong>, as {reason}.")
    else:
        lines.append("The trained encoder is published: no check says that it got worse.")
    if outcome.check:
        lines.append(f"Training changed the label of {changed:.1%} of the texts.")

    return f"<p>{' '.join(lines)}</p>\n{_checks(outcome)}"


def _checks(outcome: Outcome) -> str:
    rows = []
    before, after = outcome.untrained.dev_accuracy, outcome.trained.dev_accuracy
    if before is not None and after is not None:
        rows.append(("accuracy on the dev rows", f"{before:.3f}", f"{after:.3f}"))

    if check := outcome.check:
        rows += [
            (
                "agreement of texts' first and second halves (kappa)",
                f"{check.halves_before:.3f}",
                f"{check.halves:.3f}",
            ),
            ("most confident texts that keep their label", "100.0%", f"{check.kept:.1%}"),
            ("effective number of labels, of that before", "100.0%", f"{check.spread:.1%}"),
        ]

    return _table(("", "without training", "trained"), rows) if rows else ""


def _balance(outcome: Outcome) -> str:
    count, total = len(outcome.labels), len(outcome.pool.texts)
    untrained, trained, published = (
        np.bincount(classifier.pseudo_labels.labels, minlength=count)
        for classifier in (outcome.untrained, outcome.trained, outcome.published)
    )
    order = np.argsort(-trained, kind="stable").tolist()
    bars = [
        (outcome.labels[label], untrained[label] / total, trained[label] / total)
        for label in order[:MOST_LABELS]
    ]

    notes = []
    if count > MOST_LABELS:
        notes.append(f"The {MOST_LABELS} most frequent of {count:,} labels.")
    if missing := [outcome.labels[label] for label in order if not published[label]]:
        names = ", ".join(missing[:MISSING_LABELS])
        if len(missing) > MISSING_LABELS:
            names += f" and {len(missing) - MISSING_LABELS:,} more"
        notes.append(
            f"No text got these labels: {names}. They still score, by their prompts alone."
        )

    note = f'<p class="note">{escape(" ".join(notes))}</p>' if notes else ""
    legend = "Share of the texts: without training (light), trained (dark)."
    return f"<h2>Class balance</h2><p>{legend}</p>{_bars(bars)}{note}"


def _bars(rows: Sequence[tuple[str, float, float]]) -> str:
    """A chart with two bars a label."""
    longest = max([0.01, *(max(row[1:]) for row in rows)])
    shapes = []
    for number, (label, *shares) in enumerate(rows):
        top = number * 34
        name = label if len(label) <= LABEL_CHARS else f"{label[: LABEL_CHARS - 1]}…"
        shapes.append(
            f'<text x="240" y="{top + 20}" text-anchor="end" font-size="14">{escape(name)}</text>'
        )

        for bar, (share, colour) in enumerate(zip(shares, ("#9db8d9", "#2b6cb0"), strict=True)):
            width = 360 * share / longest
            y = top + 13 * bar
            shapes.append(
                f'<rect x="250" y="{y + 3}" width="{width:.1f}" height="11" fill="{colour}"/>'
            )
            shapes.append(
                f'<text x="{256 + width:.1f}" y="{y + 13}" font-size="11">{share:.1%}</text>'
            )

    height = 34 * len(rows)
    return (
        f'<svg viewBox="0 0 680 {height}" width="680" role="img" aria-label="class balance">'
        f"{''.join(shapes)}</svg>\n"
    )


def _rounds(outcome: Outcome) -> str:
    rows = [
        (
            str(number),
            f"{round_.texts:,}",
            f"{round_.agreement:.1%}" if number > 1 else "",
            "" if round_.dev_accuracy is None else f"{round_.dev_accuracy:.4f}",
        )
        for number, round_ in enumerate(outcome.rounds, 1)
    ]
    names = (
        "round",
        "texts trained on",
        "labels as in the round before",
        "accuracy on the dev rows before it",
    )

    return f"<h2>Rounds</h2>{_table(names, rows)}"


def _typical_words(outcome: Outcome) -> str:
    rows = [
        (label, ", ".join(words))
        for label, words in zip(outcome.labels, outcome.typical_words, strict=True)
    ]
    table = _table(("label", "words"), rows[:MOST_LABELS])
    return f"<h2>Words typical of each label's texts</h2>{table}"


def _uncertain_texts(outcome: Outcome) -> str:
    pseudo_labels = outcome.published.pseudo_labels
    least_confident = np.argsort(pseudo_labels.confidence, kind="stable")[:UNCERTAIN_TEXTS]

    rows = []
    for row in least_confident.tolist():
        second, first = np.argsort(pseudo_labels.scores[row], kind="stable")[-2:].tolist()
        text = outcome.pool.texts[row]
        excerpt = text if len(text) <= TEXT_CHARS else f"{text[:TEXT_CHARS]}…"
        rows.append((excerpt, f"{outcome.labels[first]} or {outcome.labels[second]}"))

    return f"<h2>Least confident texts</h2>{_table(('text', 'label'), rows)}"


def _table(names: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    def line(cells: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    return f"<table>{line(names, 'th')}{''.join(line(row, 'td') for row in rows)}</table>\n"
