"""The report of a self-training run: one HTML page with its plots inside, which needs nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

import numpy as np

from training.pesco.outcome import Outcome

UNSURE = 20
MOST_LABELS = 50
SHOWN_CHARS = 300
STYLE = """body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1d2733}
table{border-collapse:collapse;margin:1rem 0}td,th{padding:.25rem .75rem;text-align:left;vertical-align:top;
border-bottom:1px solid #d8dee6}td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}svg{max-width:100%}
.note{color:#55606e}@media(prefers-color-scheme:dark){body{background:#12161c;color:#dde3ea}
td,th{border-color:#36404c}svg text{fill:#dde3ea}.note{color:#9aa6b3}}"""


def page(outcome: Outcome) -> str:
    """The whole page; whatever comes from texts or labels is escaped."""
    parts = [
        _verdict(outcome),
        _balance(outcome),
        _rounds(outcome),
        _typical(outcome),
        _unsure(outcome),
    ]
    title = f"Classifier {escape(outcome.name)}"
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width"><style>'
        f"{STYLE}</style></head><body><h1>{title}</h1>\n{''.join(parts)}</body></html>\n"
    )


def _verdict(outcome: Outcome) -> str:
    changed = float((outcome.before.found.labels != outcome.after.found.labels).mean())
    lines = [f"Learnt from {escape(str(outcome.pool))} and {len(outcome.labels):,} label names."]
    if outcome.check is None:
        lines.append("Nothing was trained: the encoder is the one it started from.")
    elif outcome.kept:
        lines.append(
            f"<strong>The untrained encoder is published</strong>, as {escape(outcome.kept)}."
        )
    else:
        lines.append("The trained encoder is published: the checks found nothing that got worse.")
    if outcome.check:
        lines.append(f"Training changed the label of {changed:.1%} of the texts.")
    return f"<p>{' '.join(lines)}</p>\n{_checks(outcome)}"


def _checks(outcome: Outcome) -> str:
    rows = []
    if (before := outcome.before.dev) is not None and (after := outcome.after.dev) is not None:
        rows.append(("accuracy on the dev rows", f"{before:.3f}", f"{after:.3f}"))
    if known := outcome.check:
        rows += [
            (
                "agreement of texts' first and second halves (kappa)",
                f"{known.halves_before:.3f}",
                f"{known.halves:.3f}",
            ),
            ("surest texts that keep their label", "100.0%", f"{known.kept:.1%}"),
            ("effective number of labels, of that before", "100.0%", f"{known.spread:.1%}"),
        ]
    return _table(("", "without training", "trained"), rows) if rows else ""


def _balance(outcome: Outcome) -> str:
    count = len(outcome.labels)
    shares = [
        np.bincount(known.found.labels, minlength=count)
        for known in (outcome.before, outcome.after)
    ]
    total = len(outcome.pool.texts)
    order = np.argsort(-shares[1], kind="stable").tolist()
    served = shares[0] if outcome.kept else shares[1]
    missing = [outcome.labels[k] for k in order if not served[k]]
    bars = [
        (outcome.labels[k], shares[0][k] / total, shares[1][k] / total) for k in order[:MOST_LABELS]
    ]
    notes = []
    if count > MOST_LABELS:
        notes.append(f"The {MOST_LABELS} most frequent of {count:,} labels.")
    if missing:
        shown = ", ".join(missing[:20]) + (
            f" and {len(missing) - 20:,} more" if len(missing) > 20 else ""
        )
        notes.append(
            f"No text got these labels: {shown}. They still score, by their prompts alone."
        )
    note = f'<p class="note">{escape(" ".join(notes))}</p>' if notes else ""
    legend = "Share of the texts: without training (light), trained (dark)."
    return f"<h2>Class balance</h2><p>{legend}</p>{_bars(bars)}{note}"


def _bars(rows: Sequence[tuple[str, float, float]]) -> str:
    """Two bars a label."""
    longest = max([0.01, *(max(row[1:]) for row in rows)])
    drawn = []
    for number, (label, *shares) in enumerate(rows):
        y = number * 34
        name = label if len(label) <= 34 else f"{label[:33]}…"
        drawn.append(
            f'<text x="240" y="{y + 20}" text-anchor="end" font-size="14">{escape(name)}</text>'
        )
        for place, (share, colour) in enumerate(zip(shares, ("#9db8d9", "#2b6cb0"), strict=True)):
            width = 360 * share / longest
            drawn.append(
                f'<rect x="250" y="{y + 3 + 13 * place}" width="{width:.1f}" height="11" fill="{colour}"/>'
            )
            drawn.append(
                f'<text x="{256 + width:.1f}" y="{y + 13 + 13 * place}" font-size="11">{share:.1%}</text>'
            )
    return _svg(680, 34 * len(rows), drawn, "class balance")


def _rounds(outcome: Outcome) -> str:
    rows = [
        (
            str(number),
            f"{known.texts:,}",
            f"{known.agreement:.1%}" if number > 1 else "",
            "" if known.dev is None else f"{known.dev:.4f}",
        )
        for number, known in enumerate(outcome.rounds, 1)
    ]
    points = [known.agreement for known in outcome.rounds[1:]]
    drawn = _line(points) if len(points) > 1 else ""
    names = (
        "round",
        "texts trained on",
        "labels as in the round before",
        "accuracy on the dev rows before it",
    )
    return f"<h2>Rounds</h2>{drawn}{_table(names, rows)}"


def _line(values: Sequence[float]) -> str:
    """Agreement from round 2 on."""
    low = min(0.9, *values)
    xs = [60 + 560 * place / (len(values) - 1) for place in range(len(values))]
    ys = [20 + 140 * (1 - value) / max(1e-9, 1 - low) for value in values]
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(xs, ys, strict=True))
    drawn = [f'<polyline points="{points}" fill="none" stroke="#2b6cb0" stroke-width="2"/>']
    drawn += [
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="#2b6cb0"/>'
        for x, y in zip(xs, ys, strict=True)
    ]
    drawn += [
        f'<text x="52" y="{y}" text-anchor="end" font-size="12">{v:.0%}</text>'
        for y, v in ((24, 1.0), (164, low))
    ]
    drawn += [
        f'<text x="{x:.1f}" y="184" text-anchor="middle" font-size="12">{n}</text>'
        for n, x in enumerate(xs, 2)
    ]
    return _svg(680, 190, drawn, "agreement of each round's labels with those of the round before")


def _typical(outcome: Outcome) -> str:
    rows = [
        (label, ", ".join(known))
        for label, known in zip(outcome.labels, outcome.typical, strict=True)
    ]
    return f"<h2>Words typical of each label's texts</h2>{_table(('label', 'words'), rows[:MOST_LABELS])}"


def _unsure(outcome: Outcome) -> str:
    found = outcome.served.found
    rows = []
    for row in np.argsort(found.confidence, kind="stable")[:UNSURE].tolist():
        second, first = np.argsort(found.scores[row], kind="stable")[-2:].tolist()
        text = outcome.pool.texts[row]
        shown = text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}…"
        rows.append((shown, f"{outcome.labels[first]} or {outcome.labels[second]}"))
    return f"<h2>Texts it is least sure of</h2>{_table(('text', 'label'), rows)}"


def _table(names: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    def line(cells: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    return f"<table>{line(names, 'th')}{''.join(line(row, 'td') for row in rows)}</table>\n"


def _svg(width: int, height: int, drawn: Sequence[str], name: str) -> str:
    body = "".join(drawn)
    return f'<svg viewBox="0 0 {width} {height}" width="{width}" role="img" aria-label="{name}">{body}</svg>\n'
