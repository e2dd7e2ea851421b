"""Write the measured tables and plots into docs/performance.md and docs/sizing.md.

    python -m benchmarks.speed.tables --scratch DIR [--docs docs]

A page holds each table between `<!-- table NAME -->` and `<!-- end -->`, and only what is between
them is replaced: no number of a table is typed by hand. A table without measurements is left as it
is. Cells are medians, with the least and largest value of the rounds in brackets.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.options import command_parser
from benchmarks.speed import sizing
from benchmarks.speed.records import Record, Records, machine, median_of, range_of, select
from benchmarks.speed.stages import WHOLE

PAGES = ("performance.md", "sizing.md")
ENCODERS = {
    "static-code-int8": "static vectors",
    "santa-minilm-l6-int8": "transformer",
    "encoder": "transformer",
}
NAMES = {
    "purlin": "Purlin",
    "purlin-dense": "Purlin, vectors alone",
    "purlin-workers": "Purlin, `--workers 2`",
    "purlin-dense-workers": "Purlin, `--workers 2`, vectors alone",
    "txtai": "txtai 9.14, its API",
    "txtai-hybrid": "txtai 9.14, its API, hybrid",
    "home-made": "sentence-transformers + FAISS + FastAPI",
    "haystack": "Haystack, hybrid, in memory",
    "txtai-label": "txtai 9.14 `/label` (untrained model of the same size)",
    "txtai-similarity": "txtai 9.14 `/similarity` with labels as texts",
    "faiss-flat": "FAISS, exact",
    "faiss-hnsw": "FAISS, HNSW",
    "purlin-dense-stage": "Purlin's stage `dense`",
    "purlin-lexical-stage": "Purlin's stage `lexical`",
    "sentence-transformers": "sentence-transformers, torch",
    "sentence-transformers-onnx-int8": "sentence-transformers, ONNX int8",
}
# Like is compared with like: vectors and BM25, or vectors alone.
HYBRID, DENSE = ("purlin", "purlin-workers"), ("purlin-dense", "purlin-dense-workers")
HYBRID_PEERS = ("txtai-hybrid", "haystack")
STAGES = ("encode", "dense", "lexical", "fuse", "rerank", "fetch")
Table = list[list[str]]


# ---- cells


def cell(records: Sequence[Record], key: str, digits: int = 1) -> str:
    """Median and range of a value; a dash if there is none."""
    if not records:
        return "–"
    low, high = range_of(records, key)
    median = number(median_of(records, key), digits)
    return (
        median if len(records) == 1 else f"{median} ({number(low, digits)}–{number(high, digits)})"
    )


def number(value: float, digits: int) -> str:
    return f"{value:,.{digits}f}"


def header(names: str) -> list[str]:
    return names.split(" | ")


def contestants(records: Sequence[Record]) -> list[str]:
    """Names in the order in which they were measured first, ours before others."""
    return list(dict.fromkeys(record["contestant"] for record in records))


def measured(loads: Sequence[Record]) -> list[str]:
    """Names of the services that were measured with one client and with eight."""
    return [
        name
        for name in contestants(loads)
        if all(select(loads, contestant=name, clients=clients) for clients in (1, 8))
    ]


# ---- tables


def search_table(scratch: Path, corpus: str) -> Table:
    """Rates, latencies, memory and nDCG@10 of search services over one corpus."""
    records = select(Records(scratch, "search"), corpus=corpus)
    loads = select(records, part="load")
    if not loads:
        return []

    table = [
        header(
            "service | 1 client: requests/s | p50 ms | p95 ms | 8 clients: requests/s | "
            "p50 ms | p95 ms | errors | memory MB (beside files' pages) | nDCG@10"
        )
    ]
    for name in measured(loads):
        of_one = select(loads, contestant=name, clients=1)
        of_eight = select(loads, contestant=name, clients=8)
        quality = select(records, part="quality", contestant=name)[-1:]
        errors = sum(record["errors"] for record in of_one + of_eight)
        row = [NAMES.get(name, name)]
        row += [cell(of_one, "rate", 0), cell(of_one, "p50_ms"), cell(of_one, "p95_ms")]
        row += [cell(of_eight, "rate", 0), cell(of_eight, "p50_ms"), cell(of_eight, "p95_ms")]
        total, own = (number(median_of(of_eight, key), 0) for key in ("rss_mb", "own_mb"))
        row += [str(errors), f"{total} ({own})", cell(quality, "ndcg", 3)]
        table.append(row)
    return table


def ratio_table(scratch: Path, corpus: str) -> Table:
    """Purlin's rates by those of each peer in the same mode of search, and its p95 by Purlin's."""
    loads = select(Records(scratch, "search"), corpus=corpus, part="load")
    names = measured(loads)
    pairs = [
        (ours, theirs)
        for theirs in names
        if not theirs.startswith("purlin")
        for ours in (HYBRID if theirs in HYBRID_PEERS else DENSE)
        if ours in names
    ]
    if not pairs:
        return []

    table = [header("of | beside | rate, 1 client | rate, 8 clients | its p95 / ours, 8 clients")]
    for ours, theirs in pairs:
        row = [NAMES[ours], NAMES.get(theirs, theirs)]
        for clients, key, inverse in ((1, "rate", False), (8, "rate", False), (8, "p95_ms", True)):
            our, their = (
                median_of(select(loads, contestant=name, clients=clients), key)
                for name in (ours, theirs)
            )
            row.append(f"{their / our if inverse else our / their:.1f}x")
        table.append(row)
    return table


def classify_table(scratch: Path) -> Table:
    """Latency with 4 and 1,000 labels, and accuracy on AG News."""
    records = list(Records(scratch, "classify"))
    latencies = select(records, part="latency")
    if not latencies:
        return []

    table = [header("service | 4 labels: p50 ms | 1,000 labels: p50 ms | accuracy, AG News")]
    for name in contestants(latencies):
        few = select(latencies, contestant=name, labels=4)
        many = select(latencies, contestant=name, labels=1000)
        accuracy = select(records, part="accuracy", contestant=name)[-1:]
        row = [NAMES.get(name, name), cell(few, "p50_ms"), cell(many, "p50_ms", 0)]
        table.append([*row, cell(accuracy, "accuracy", 3)])
    return table


def encode_table(scratch: Path) -> Table:
    """Texts per second, and the mean cosine to the vectors of torch."""
    records = list(Records(scratch, "encode"))
    rates = select(records, part="rate")
    if not rates:
        return []

    table = [header("encoder | texts/s | mean cosine to torch's vectors")]
    for name in contestants(rates):
        accuracy = select(records, part="accuracy", contestant=name)[-1:]
        row = [NAMES.get(name, name), cell(select(rates, contestant=name), "rate", 0)]
        table.append([*row, cell(accuracy, "cosine", 4)])
    return table


def limits_table(scratch: Path, corpus: str) -> Table:
    """Median latency of retrievers alone, and their recall."""
    records = select(Records(scratch, "limits"), corpus=corpus)
    if not records:
        return []

    table = [header("retriever, one thread | p50 ms | recall@10")]
    for name in contestants(records):
        measured = select(records, contestant=name)
        recall = [record for record in measured if "recall" in record]
        row = [NAMES.get(name, name), cell(measured, "p50_ms", 2), cell(recall, "recall", 3)]
        table.append(row)
    return table


def growth_table(scratch: Path) -> Table:
    """Cost of building, opening and searching corpora of growing size."""
    records = list(Records(scratch, "growth"))
    builds = select(records, part="build")
    if not builds:
        return []

    table = [
        header(
            "functions | encoder | build s | build peak MB | disk MB | opening s | "
            "memory MB (beside files' pages) | p50 ms | p95 ms | 8 clients: requests/s | "
            "dense recall@10 | outside encoding and retrievers"
        )
    ]
    keys = sorted({(record["encoder"], record["windows"], record["size"]) for record in builds})
    for key in keys:
        table.append(growth_row(records, *key))
    return table


def growth_name(record: Record) -> str:
    return f"{record['size']:,}{' windows' if record['windows'] else ''}"


def growth_row(records: Sequence[Record], encoder: str, windows: bool, size: int) -> list[str]:
    def part(name: str) -> list[Record]:
        return select(records, part=name, encoder=encoder, size=size, windows=windows)

    built, served, recalled = part("build"), part("serve"), part("recall")
    memory = [record["searched"] for record in served]
    of_one = [record["one"] for record in served]
    of_eight = [record["eight"] for record in served]
    total, own = cell(memory, "rss_mb", 0), cell(memory, "own_mb", 0)
    row = [growth_name(built[0]), ENCODERS.get(encoder, encoder)]
    row += [cell(built, "seconds", 0), cell(built, "peak_mb", 0), cell(built, "disk_mb", 0)]
    row += [
        cell(served, "opening_s"),
        f"{total} ({own})",
        cell(of_one, "p50_ms"),
        cell(of_one, "p95_ms"),
    ]
    row += [cell(of_eight, "rate", 0), cell(recalled, "recall", 3)]
    row.append(f"{median_of(served, 'elsewhere'):.0%}" if served else "–")
    return row


def stages_table(scratch: Path) -> Table:
    """Milliseconds of a search by stage, and the share outside of encoding and the retrievers."""
    named = [
        (f"{record['corpus']}, {NAMES[record['contestant']]}", record)
        for record in select(Records(scratch, "search"), part="stages")
    ]
    grown = select(Records(scratch, "growth"), part="serve")
    named += [
        (f"growth, {growth_name(record)}", record)
        for record in sorted(grown, key=lambda record: record["size"])
    ]
    if not named:
        return []

    table = [
        header(" | ".join(["corpus", *(f"{stage} ms" for stage in STAGES), "all ms", "outside"]))
    ]
    for name, record in named:
        stages = record["stages"]
        row = [name, *(number(stages.get(stage, 0.0), 1) for stage in STAGES)]
        table.append([*row, number(stages[WHOLE], 1), f"{record['elsewhere']:.0%}"])
    return table


def sizing_table(scratch: Path) -> Table:
    """What larger corpora cost, extended from the growth curves."""
    growth = list(Records(scratch, "growth"))
    rates = select(Records(scratch, "encode"), part="rate", contestant="purlin")
    static = select(growth, part="serve", encoder="static-code-int8", windows=False)
    sizes = {record["size"] for record in static}
    if len(sizes) < 2 or not rates:
        return []

    lines = sizing.curves(growth, "static-code-int8")
    table = [
        header(
            f"passages | memory GB | machines of {sizing.MACHINE_GIB} GiB | "
            "disk GB | reading and indexing, hours | encoding with the transformer, hours"
        )
    ]
    for size in sizing.SIZES:
        cost = sizing.estimate(lines, size, median_of(rates, "rate"))
        row = [f"{size:,}", number(cost.memory_gb, 1), f"{cost.machines:,}"]
        row += [number(cost.disk_gb, 0), number(cost.index_hours, 1), number(cost.encode_hours, 1)]
        table.append(row)
    return table


TABLES: dict[str, Callable[[Path], Table]] = {
    "search-cosqa": lambda scratch: search_table(scratch, "cosqa"),
    "ratio-cosqa": lambda scratch: ratio_table(scratch, "cosqa"),
    "search-csn": lambda scratch: search_table(scratch, "csn"),
    "ratio-csn": lambda scratch: ratio_table(scratch, "csn"),
    "classify": classify_table,
    "encode": encode_table,
    "limits": lambda scratch: limits_table(scratch, "csn"),
    "growth": growth_table,
    "stages": stages_table,
    "sizing": sizing_table,
}


# ---- pages


def markdown(table: Table) -> str:
    header, *rows = table
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def replaced(page: str, name: str, content: str) -> str:
    """The page with what is between the marks of one table replaced; as it is without marks."""
    pattern = re.compile(rf"(<!-- table {re.escape(name)} -->\n).*?(<!-- end -->)", re.DOTALL)
    return pattern.sub(lambda match: f"{match[1]}{content}\n{match[2]}", page)


def write_pages(scratch: Path, docs: Path) -> None:
    contents = {name: table(scratch) for name, table in TABLES.items()}

    for path in (docs / name for name in PAGES):
        page = path.read_text(encoding="utf-8")
        for name, table in contents.items():
            if table:
                page = replaced(page, name, markdown(table))

        page = replaced(page, "machine", f"Measured {', '.join(days(scratch))} on {machine()}.")
        path.write_text(page, encoding="utf-8")


def days(scratch: Path) -> list[str]:
    """The days of all measurements, in order."""
    files = sorted((scratch / "results").glob("*.jsonl"))
    return sorted({record["at"][:10] for path in files for record in Records(scratch, path.stem)})


# ---- plots


Value = Callable[[Record], float]

# File name, title, unit, and for each line the part of the records and the value that it shows.
PLOTS: tuple[tuple[str, str, str, dict[str, tuple[str, Value]]], ...] = (
    (
        "growth-latency",
        "POST /search, one client",
        "ms",
        {
            "p50": ("serve", lambda record: record["one"]["p50_ms"]),
            "p95": ("serve", lambda record: record["one"]["p95_ms"]),
        },
    ),
    (
        "growth-memory",
        "Memory and disk",
        "MB",
        {
            "server": ("serve", lambda record: record["searched"]["own_mb"]),
            "build, at most": ("build", lambda record: record["peak_mb"]),
            "disk": ("build", lambda record: record["disk_mb"]),
        },
    ),
    (
        "growth-time",
        "Time to build and to open",
        "s",
        {
            "build": ("build", lambda record: record["seconds"]),
            "opening": ("serve", lambda record: record["opening_s"]),
        },
    ),
)


def points(
    records: Sequence[Record], part: str, value: Value, *, windows: bool
) -> list[tuple[float, ...]]:
    """Sizes and values, in the order of sizes; empty if there are none."""
    chosen = select(records, part=part, windows=windows)
    pairs = sorted((record["size"], value(record)) for record in chosen)
    return list(zip(*pairs, strict=True))


def draw(scratch: Path, images: Path) -> None:
    """Draw one small PNG a plot, both axes logarithmic; none of what has no two sizes."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    records = list(Records(scratch, "growth"))
    for name, title, unit, lines in PLOTS:
        parts = {part for part, _ in lines.values()}
        if all(len(select(records, part=part, windows=False)) < 2 for part in parts):
            continue
        figure, axes = pyplot.subplots(figsize=(5, 3.2), layout="constrained")
        for number, (label, (part, value)) in enumerate(lines.items()):
            color = f"C{number}"
            functions = points(records, part, value, windows=False)
            axes.plot(*functions, color=color, marker="o", label=label)
            # Another corpus, which no line continues.
            windows = points(records, part, value, windows=True)
            axes.plot(*windows, color=color, marker="s", fillstyle="none", linestyle="none")
        axes.set(title=title, ylabel=unit, xscale="log", yscale="log")
        axes.set_xlabel("functions; squares: windows of functions")
        axes.grid(alpha=0.3)
        axes.legend()
        figure.savefig(images / f"{name}.png", dpi=100)
        pyplot.close(figure)


def main() -> None:
    parser = command_parser(__doc__)
    parser.add_argument("--scratch", type=Path, required=True)
    parser.add_argument("--docs", type=Path, default=Path("docs"))
    options = parser.parse_args()

    write_pages(options.scratch, options.docs)
    draw(options.scratch, options.docs / "images")


if __name__ == "__main__":
    main()
