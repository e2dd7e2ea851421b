"""Compare Purlin with its peers, one comparison a command.

    python -m benchmarks.peers search --scratch DIR --data DIR [--corpus cosqa] [--with purlin txtai ...]
    python -m benchmarks.peers classify --scratch DIR --data DIR
    python -m benchmarks.peers encode --scratch DIR --data DIR
    python -m benchmarks.peers limits --scratch DIR --data DIR [--corpus cosqa]

Environments, indexes and results are kept in the scratch directory: a run that was stopped goes on
where it was, and `python -m benchmarks.speed.tables` writes the results into docs/performance.md.
"""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from benchmarks.peers.contestants import CONTESTANTS
from benchmarks.speed.corpora import CORPORA

# In memory and in Python, Haystack's BM25 takes seconds for a query of the large corpus.
DEFAULTS = {
    "cosqa": list(CONTESTANTS),
    "csn": [name for name in CONTESTANTS if name != "haystack"],
}


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("comparison", choices=["search", "classify", "encode", "limits"])
    parser.add_argument("--scratch", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True, help="the directory of the data sets")
    parser.add_argument("--corpus", choices=list(CORPORA), default="cosqa")
    parser.add_argument("--with", dest="contestants", nargs="+", choices=list(CONTESTANTS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--requests", type=int, default=300, help="of one load of `search`")
    parser.add_argument("--texts", type=int, default=1000, help="of one pass of `encode`")
    options = parser.parse_args()

    # A run that is stopped stops the services that it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))

    # Each comparison imports its own needs; the scratch directory may be relative.
    scratch = options.scratch.absolute()
    if options.comparison == "search":
        from benchmarks.peers import search

        names = options.contestants or DEFAULTS[options.corpus]
        search.compare(
            scratch, options.data, options.corpus, names, options.rounds, options.requests
        )
    elif options.comparison == "classify":
        from benchmarks.peers import classify

        classify.compare(scratch, options.data, options.rounds)
    elif options.comparison == "limits":
        from benchmarks.peers import limits

        limits.compare(scratch, options.data, options.corpus)
    else:
        from benchmarks.peers import encode

        encode.compare(scratch, options.data, options.rounds, options.texts)


if __name__ == "__main__":
    main()
