"""Sweep the weight of the dense leg on judged queries: which weight a kind should have.

    python benchmarks/fusion.py --corpus icecat --queries Q.jsonl --qrels dev.tsv [--measure nDCG@10] [--filter F=V]

The corpus is one that `purlin index build` made. Prints a Markdown row per weight, 0 (lexical only) to 1 (dense only).
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from index import builds
from index.encoder import RELEASED_ENCODER, Encoder
from index.evaluation import ranking
from index.search.corpus import Corpus


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--corpus", required=True)
    options.add_argument("--queries", type=Path, required=True)
    options.add_argument("--qrels", type=Path, required=True)
    options.add_argument("--home", type=Path, default=Path("var"))
    options.add_argument("--encoder", type=Path, default=RELEASED_ENCODER)
    options.add_argument("--filter", default=None)
    options.add_argument("--steps", type=int, default=10)
    options.add_argument("--power", type=float, default=2.0)
    given = options.parse_args()
    corpus = Corpus.load(builds.current(given.home, given.corpus), Encoder.load(given.encoder))
    queries, qrels = ranking.read_queries(given.queries), ranking.read_qrels(given.qrels)
    name, _, value = (given.filter or "").partition("=")
    asked = [query for query in qrels if query in queries]
    print(f"{given.corpus}, {len(asked)} queries")
    for step in range(given.steps + 1):
        corpus.manifest = replace(
            corpus.manifest, dense_weight=step / given.steps, lexical_power=given.power
        )
        run = {}
        for query in asked:
            mode = {0: "lexical", given.steps: "dense"}.get(step, "hybrid")
            hits = corpus.search(
                queries[query], k=100, mode=mode, filter={name: value} if name else None
            ).hits
            run[query] = [hit.document_id for hit in hits]
        measures = {m.name: m for m in ranking.evaluate_run(run, qrels)}
        cells = " | ".join(
            f"{m.name} {m.mean:.4f} ({m.low:.4f}-{m.high:.4f})" for m in measures.values()
        )
        print(f"| {step / given.steps:.2f} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
