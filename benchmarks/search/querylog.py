"""Measure what a query log adds to search: earlier questions and the entries they led to.

    python -m benchmarks.search.querylog --reference DIR --questions DIR --home DIR
        [--limit 1000] [--shares 0 0.1 1] [--split dev]

`--questions` has train.jsonl.gz and dev.jsonl, each line with title, question and entry, as
so_pydocs has them. The reference is indexed with a share of the training questions as its query
log; with share 0 it has none. Each dev question is searched by its title, and by title and body.
The table shows recall@10 and recall@100 of the linked entry, with 95 % intervals. To tune without
touching dev, `--split train` leaves `--limit` training questions out of the log and measures those.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks.options import command_parser
from purlin.index import builds
from purlin.index.encoder import TRANSFORMER_ENCODER
from purlin.index.encoder.transformer import Encoder
from purlin.index.evaluation.ranking import measure, read_records
from purlin.index.indexing.build import build
from purlin.index.indexing.builder import Options
from purlin.index.qa.judging import hit_entry
from purlin.index.records import Mode
from purlin.index.search.corpus import Corpus
from purlin.index.search.ranking.query_log import Logged
from purlin.index.sources import open_source

RECALL_DEPTHS = (10, 100)
MODES: tuple[Mode, ...] = ("lexical", "dense", "hybrid")
MAX_QUERY_CHARS = 2000  # the encoder reads less

LinkedQuestion = Mapping[str, str]


def read_linked_questions(path: Path) -> list[LinkedQuestion]:
    return [record for _, record in read_records(path)]


def query_text(question: LinkedQuestion, form: str) -> str:
    """The question's title, or for any `form` but "title" its title and body."""
    if form == "title":
        return question["title"][:MAX_QUERY_CHARS]
    return f"{question['title']}\n{question['question']}"[:MAX_QUERY_CHARS]


def entry_rank(corpus: Corpus, question: LinkedQuestion, form: str, mode: Mode) -> int:
    """Zero-based rank of the linked entry, or the search depth if no hit is of that entry."""
    depth = max(RECALL_DEPTHS)
    hits = corpus.search(query_text(question, form), k=depth, mode=mode).hits
    entries = [hit_entry(hit) for hit in hits]
    return entries.index(question["entry"]) if question["entry"] in entries else depth


def table_rows(corpus: Corpus, questions: Sequence[LinkedQuestion], label: str) -> Iterator[str]:
    """Yield a Markdown row for each mode and form of query."""
    for mode in MODES:
        for form in ("title", "title and body"):
            ranks = np.array([entry_rank(corpus, question, form, mode) for question in questions])

            cells = []
            for depth in RECALL_DEPTHS:
                hits = (ranks < depth).astype(np.float64)
                recall = measure(f"@{depth}", hits, len(ranks))
                cells.append(f"{recall.mean:.3f} ({recall.low:.3f}-{recall.high:.3f})")
            yield f"| {label} | {mode} | {form} | {' | '.join(cells)} |"


def main() -> None:
    parser = command_parser(__doc__)
    for name in ("--reference", "--questions", "--home"):
        parser.add_argument(name, type=Path, required=True)
    parser.add_argument("--limit", type=int, default=1000, help="questions to measure")
    parser.add_argument("--shares", type=float, nargs="+", default=[0.0, 0.1, 1.0])
    parser.add_argument("--split", choices=("dev", "train"), default="dev")
    options = parser.parse_args()

    encoder = Encoder.load(TRANSFORMER_ENCODER)
    earlier = read_linked_questions(options.questions / "train.jsonl.gz")
    earlier = [earlier[row] for row in np.random.default_rng(0).permutation(len(earlier))]
    measured = read_linked_questions(options.questions / "dev.jsonl")[: options.limit]
    if options.split == "train":
        measured, earlier = earlier[: options.limit], earlier[options.limit :]

    print("| earlier queries | mode | query | recall@10 | recall@100 |\n|---|---|---|---|---|")
    for share in options.shares:
        logged = earlier[: round(share * len(earlier))]
        log = [Logged(query_text(question, "both"), question["entry"]) for question in logged]
        sources = open_source("reference", [options.reference])
        manifest = build(
            options.home, "linked", "reference", sources, encoder, options=Options(log=log)
        )

        corpus = Corpus.load(builds.current(options.home, "linked"), encoder)
        for row in table_rows(corpus, measured, f"{manifest.logged:,}"):
            print(row, flush=True)
        corpus.close()


if __name__ == "__main__":
    main()
