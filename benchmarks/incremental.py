"""Rebuild time after changing a share of the files of a code base, beside the time of the full build.

    python benchmarks/incremental.py DIR [--share 0.01]

Works on a copy of DIR; a changed file gets one more function at its end.
"""

from __future__ import annotations

import argparse
import random
import shutil
import tempfile
import time
from pathlib import Path

from index.builds import Manifest
from index.encoder import RELEASED_ENCODER, Encoder
from index.indexing.build import build
from index.sources import open_source


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("directory", type=Path)
    options.add_argument("--share", type=float, default=0.01)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        copy, home = Path(scratch) / "source", Path(scratch) / "home"
        shutil.copytree(
            given.directory, copy, symlinks=True, ignore=shutil.ignore_patterns("site-packages")
        )
        full, full_s = timed(home, copy)
        files = sorted(copy.rglob("*.py"))
        changed = random.Random(0).sample(files, max(1, round(len(files) * given.share)))
        for path in changed:
            with path.open("a") as file:
                file.write(
                    '\n\ndef added_here(value):\n    """Say what was added."""\n    return value\n'
                )
        partly, partly_s = timed(home, copy)
        print(f"full: {full.documents:,} documents of {len(files):,} files in {full_s:.1f} s")
        print(
            f"after changing {len(changed)} files: {partly.passages - partly.reused:,} of {partly.passages:,} passages "
            f"encoded in {partly_s:.1f} s = {partly_s / full_s:.1%} of the full build"
        )


def timed(home: Path, source: Path) -> tuple[Manifest, float]:
    encoder = Encoder.load(RELEASED_ENCODER)
    started = time.perf_counter()
    manifest = build(home, "bench", "code", open_source("code", [source]), encoder)
    return manifest, time.perf_counter() - started


if __name__ == "__main__":
    main()
