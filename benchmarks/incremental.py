"""Time a rebuild after changing a share of a code base's files, and compare with the full build.

    python benchmarks/incremental.py DIR [--share 0.01]

Works on a copy of DIR. A function is appended to each changed file.
"""

from __future__ import annotations

import argparse
import random
import shutil
import tempfile
import time
from pathlib import Path

from purlin.index.builds import Manifest
from purlin.index.encoder import RELEASED_ENCODER, Encoder
from purlin.index.indexing.build import build
from purlin.index.sources import open_source

APPENDED = '\n\ndef added_here(value):\n    """Say what was added."""\n    return value\n'


def timed_build(home: Path, source: Path) -> tuple[Manifest, float]:
    """Build the corpus `bench` and return its manifest and the seconds taken."""
    encoder = Encoder.load(RELEASED_ENCODER)
    started = time.perf_counter()
    manifest = build(home, "bench", "code", open_source("code", [source]), encoder)
    return manifest, time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", type=Path)
    parser.add_argument("--share", type=float, default=0.01)
    options = parser.parse_args()

    with tempfile.TemporaryDirectory() as scratch:
        copy, home = Path(scratch) / "source", Path(scratch) / "home"
        ignored = shutil.ignore_patterns("site-packages")
        shutil.copytree(options.directory, copy, symlinks=True, ignore=ignored)
        full, full_s = timed_build(home, copy)

        files = sorted(copy.rglob("*.py"))
        changed = random.Random(0).sample(files, max(1, round(len(files) * options.share)))
        for path in changed:
            with path.open("a") as file:
                file.write(APPENDED)
        rebuild, rebuild_s = timed_build(home, copy)

    encoded = rebuild.passages - rebuild.reused
    print(f"full: {full.documents:,} documents of {len(files):,} files in {full_s:.1f} s")
    print(
        f"after changing {len(changed)} files: {encoded:,} of {rebuild.passages:,} passages "
        f"encoded in {rebuild_s:.1f} s = {rebuild_s / full_s:.1%} of the full build"
    )


if __name__ == "__main__":
    main()
