"""Sweep the dense retriever's weight on judged queries, to choose the default of a corpus kind.

    python -m benchmarks.search.fusion --corpus icecat --queries Q.jsonl --qrels dev.tsv
        [--filter FIELD=VALUE] [--steps 10] [--power 2]

The corpus is one that `purlin index build` made. Prints a Markdown row for each weight from 0
(lexical only) to 1 (dense only).
"""

from __future__ import annotations

import argparse
from pathlib import Path

from purlin.index import builds
from purlin.index.encoder import TRANSFORMER_ENCODER, load_encoder
from purlin.index.evaluation import ranking
from purlin.index.records import Mode
from purlin.index.search.corpus import Corpus
from purlin.index.search.ranking.fusion import Fusion


def mode_at(step: int, steps: int) -> Mode:
    """The mode that runs one retriever at either end of the sweep, and both in between."""
    if step == 0:
        return "lexical"
    return "dense" if step == steps else "hybrid"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpus", required=True)
    parser.add_argument("--queries", type=Path, required=True)
    parser.add_argument("--qrels", type=Path, required=True)
    parser.add_argument("--home", type=Path, default=Path("var"))
    parser.add_argument("--encoder", type=Path, default=TRANSFORMER_ENCODER)
    parser.add_argument("--filter", default=None)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--power", type=float, default=2.0)
    options = parser.parse_args()

    corpus = Corpus.load(
        builds.current(options.home, options.corpus), load_encoder(options.encoder)
    )
    queries = ranking.read_queries(options.queries)
    qrels = ranking.read_qrels(options.qrels)
    judged_queries = [query for query in qrels if query in queries]
    field, _, value = (options.filter or "").partition("=")
    filters = {field: value} if field else None

    print(f"{options.corpus}, {len(judged_queries)} queries")
    for step in range(options.steps + 1):
        weight = step / options.steps
        # The weight belongs to the build; changing it here avoids a build for each step.
        corpus.retrievers.hybrid = Fusion(weight, options.power)

        run = {}
        for query in judged_queries:
            mode = mode_at(step, options.steps)
            hits = corpus.search(queries[query], k=100, mode=mode, filter=filters).hits
            run[query] = [hit.document_id for hit in hits]

        cells = [
            f"{measure.name} {measure.mean:.4f} ({measure.low:.4f}-{measure.high:.4f})"
            for measure in ranking.evaluate_run(run, qrels)
        ]
        print(f"| {weight:.2f} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
