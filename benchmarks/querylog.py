"""What earlier queries add to a search: questions of people, and the entries of a reference that answers linked to.

    python benchmarks/querylog.py --reference DIR --questions DIR --home DIR [--limit 1000] [--shares 0 0.1 1]

`--questions` has train.jsonl.gz and dev.jsonl of {title, question, entry}, as so_pydocs. The reference is indexed with
a share of the training questions as its query log (none is the search alone), and each dev question asked by its title,
and by title and body: the share whose linked entry is among the first 10 and 100, each with a 95 % interval. `--split
train` measures as many training questions that are left out of the log instead, to tune on.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from index import builds
from index.encoder import RELEASED_ENCODER, Encoder
from index.evaluation.ranking import measure, read_records
from index.indexing.build import Options, build
from index.qa.judging import hit_entry
from index.records import Mode
from index.search.corpus import Corpus
from index.search.query_log import Logged
from index.sources import open_source

DEPTHS = (10, 100)
MODES: tuple[Mode, ...] = ("lexical", "dense", "hybrid")
CHARS = 2000  # of a question; the encoder reads less

Row = Mapping[str, str]


def rows(path: Path) -> list[Row]:
    return [record for _, record in read_records(path)]


def query(row: Row, form: str) -> str:
    return (row["title"] if form == "title" else f"{row['title']}\n{row['question']}")[:CHARS]


def table(corpus: Corpus, asked: Sequence[Row], label: str) -> Iterator[str]:
    for mode in MODES:
        for form in ("title", "title and body"):
            ranks = []
            for row in asked:
                found = [
                    hit_entry(hit)
                    for hit in corpus.search(query(row, form), k=max(DEPTHS), mode=mode).hits
                ]
                ranks.append(found.index(row["entry"]) if row["entry"] in found else max(DEPTHS))
            cells = []
            for depth in DEPTHS:
                recall = measure(
                    f"@{depth}", (np.array(ranks) < depth).astype(np.float64), len(ranks)
                )
                cells.append(f"{recall.mean:.3f} ({recall.low:.3f}-{recall.high:.3f})")
            yield f"| {label} | {mode} | {form} | {' | '.join(cells)} |"


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in ("--reference", "--questions", "--home"):
        options.add_argument(name, type=Path, required=True)
    options.add_argument("--limit", type=int, default=1000, help="questions that are asked")
    options.add_argument("--shares", type=float, nargs="+", default=[0.0, 0.1, 1.0])
    options.add_argument("--split", choices=("dev", "train"), default="dev")
    given = options.parse_args()
    encoder = Encoder.load(RELEASED_ENCODER)
    earlier = rows(given.questions / "train.jsonl.gz")
    earlier = [earlier[at] for at in np.random.default_rng(0).permutation(len(earlier))]
    asked = rows(given.questions / "dev.jsonl")[: given.limit]
    if given.split == "train":
        asked, earlier = earlier[: given.limit], earlier[given.limit :]
    print("| earlier queries | mode | asked by | recall@10 | recall@100 |\n|---|---|---|---|---|")
    for share in given.shares:
        log = [
            Logged(query(row, "both"), row["entry"])
            for row in earlier[: round(share * len(earlier))]
        ]
        sources = open_source("reference", [given.reference])
        manifest = build(
            given.home, "linked", "reference", sources, encoder, options=Options(log=log)
        )
        corpus = Corpus.load(builds.current(given.home, "linked"), encoder)
        for line in table(corpus, asked, f"{manifest.logged:,}"):
            print(line, flush=True)
        corpus.close()


if __name__ == "__main__":
    main()
