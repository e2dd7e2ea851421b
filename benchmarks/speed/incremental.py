"""Time a rebuild after a change of some files, until a search finds it, against the full build.

    python -m benchmarks.speed.incremental DIR [--share 0.01] [--encoder static]

Works on a copy of DIR. A function is appended to each changed file. A share of 0 changes one file.
"""

from __future__ import annotations

import argparse
import random
import shutil
import tempfile
import time
from contextlib import closing
from pathlib import Path

from purlin.index import builds
from purlin.index.encoder import ENCODERS, TextEncoder, load_encoder
from purlin.index.indexing.build import build, file_digests
from purlin.index.search.corpus import Corpus
from purlin.index.sources import open_source

APPENDED = '\n\ndef added_here(value):\n    """Say what was added."""\n    return value\n'


def timed_build(
    home: Path, source: Path, encoder: TextEncoder, opened: Corpus | None = None
) -> tuple[Corpus, float]:
    """Build the corpus `bench`; returns it, open, and the seconds until a search was answered."""
    started = time.perf_counter()
    sources = open_source("code", [source], digests=file_digests(home, "bench"))
    build(home, "bench", "code", sources, encoder)
    corpus = Corpus.load(builds.current(home, "bench"), encoder, opened)
    hit = corpus.search("say what was added", k=1).hits[0]
    if opened is not None and "added_here" not in hit.id:
        raise SystemExit(f"the change was not found, but {hit.id}")
    return corpus, time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", type=Path)
    parser.add_argument("--share", type=float, default=0.01)
    parser.add_argument("--encoder", default="transformer")
    options = parser.parse_args()
    encoder = load_encoder(ENCODERS.get(options.encoder, Path(options.encoder)))

    with tempfile.TemporaryDirectory() as scratch:
        copy, home = Path(scratch) / "source", Path(scratch) / "home"
        ignored = shutil.ignore_patterns("site-packages")
        shutil.copytree(options.directory, copy, symlinks=True, ignore=ignored)
        before, full_s = timed_build(home, copy, encoder)

        files = sorted(copy.rglob("*.py"))
        changed = random.Random(0).sample(files, max(1, round(len(files) * options.share)))
        for path in changed:
            with path.open("a") as file:
                file.write(APPENDED)
        with closing(before):
            after, rebuild_s = timed_build(home, copy, encoder, before)
        after.close()

    full, rebuild = before.manifest, after.manifest
    encoded = rebuild.passages - rebuild.reused
    print(f"full: {full.documents:,} documents of {len(files):,} files in {full_s:.1f} s")
    print(
        f"after changing {len(changed)} files: {encoded:,} of {rebuild.passages:,} passages "
        f"encoded, and found after {rebuild_s:.2f} s = {rebuild_s / full_s:.1%} of the full build"
    )


if __name__ == "__main__":
    main()
