"""Measure whole builds: rate, peak memory, what overlapping gains, and what kills cost.

    python -m benchmarks.speed.build CORPUS.jsonl[.gz] --kind code [--encoder static|ensemble|transformer|DIR]
        [--runs 3] [--apart] [--kills 10] [--home DIR]
        [--checkpoint DIR] [--sample 4000]

Each build runs in a process of its own, so that the peak memory is that of the build alone.

`--apart` also builds without overlap: sources are read to their end before the first text is
encoded. Both alternate. `--kills` kills a build at so many random moments by SIGKILL, lets it end,
and compares all files with those of a build that nobody killed. `--checkpoint` compares the rate
with sentence-transformers in torch, which encodes a random sample of the same passages.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from purlin.index import build_files, builds
from purlin.index.indexing.unfinished import Unfinished
from purlin.index.manifests import Manifest, read_manifest
from purlin.index.passages import render
from purlin.index.search.segments import open_documents

_BUILD = """
import json, resource, sys, time
from pathlib import Path
from purlin.index.encoder import encoder_directory, load_encoder
from purlin.index.indexing.build import build
from purlin.index.indexing.encoding import Encoding
from purlin.index.sources import open_source

kind, path, home, encoder, apart = sys.argv[1:]
if apart:
    # Blocks wait until all sources are read.
    advance, end = Encoding.advance, Encoding.end
    Encoding.advance = lambda self: None
    def end_of_reading(self):
        Encoding.advance = advance
        end(self)
    Encoding.end = end_of_reading

stages = {}
def progress(stage, done, total):
    stages[stage] = time.monotonic() - begin

loaded = load_encoder(encoder_directory(encoder))
begin = time.monotonic()
print("begins", flush=True)
manifest = build(Path(home), "bench", kind, open_source(kind, [Path(path)]), loaded, progress=progress)
peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({"passages": manifest.passages, "s": manifest.took_s, "peak_mb": peak_mb,
                  "cpu_s": time.process_time(), "ends_of_stages_s": stages}))
"""


def start(options: argparse.Namespace, home: Path, *, apart: bool = False) -> subprocess.Popen[str]:
    """Start a build below `home`."""
    facts = [options.kind, str(options.path), str(home), options.encoder, "apart" if apart else ""]
    command = [sys.executable, "-c", _BUILD, *facts]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def measured(options: argparse.Namespace, home: Path, *, apart: bool = False) -> dict[str, Any]:
    """Build from nothing, and return what the process measured."""
    shutil.rmtree(home, ignore_errors=True)
    process = start(options, home, apart=apart)
    output, _ = process.communicate()
    if process.returncode:
        raise SystemExit(f"The build ended with status {process.returncode}.")
    values: dict[str, Any] = json.loads(output.splitlines()[-1])
    return values


def report(title: str, runs: Sequence[dict[str, Any]]) -> None:
    """Print medians and ranges of several builds."""
    seconds = sorted(run["s"] for run in runs)
    peaks = sorted(run["peak_mb"] for run in runs)
    passages = runs[0]["passages"]
    middle = statistics.median(seconds)
    print(
        f"{title}: {passages:,} passages, median of {len(runs)}: {middle:.1f} s "
        f"({seconds[0]:.1f}-{seconds[-1]:.1f}) = {passages / middle:,.0f}/s, "
        f"CPU {statistics.median(run['cpu_s'] for run in runs):.1f} s, "
        f"peak {peaks[0]:.0f}-{peaks[-1]:.0f} MB"
    )
    ends = {stage: round(end, 1) for stage, end in runs[-1]["ends_of_stages_s"].items()}
    print(f"    ends of stages in the last run, in s: {ends}")


def content(home: Path) -> Manifest:
    """Manifest of the active build, verified, without what is a time."""
    directory = builds.current(home, "bench")
    manifest = read_manifest(directory)
    build_files.verify(directory, manifest.files)
    return replace(manifest, created_at="", took_s=0.0, dense={})


def kill_and_compare(options: argparse.Namespace, whole: Path, home: Path, seconds: float) -> None:
    """Kill a build again and again, and compare its files in the end with those of `whole`."""
    shutil.rmtree(home, ignore_errors=True)
    draw, kills, began = random.Random(options.seed), 0, time.monotonic()
    while kills < options.kills:
        process = start(options, home)
        assert process.stdout is not None
        process.stdout.readline()
        try:
            # The build goes on after each kill, so all of them have to fit into one.
            process.communicate(timeout=draw.uniform(0.0, 1.6) * seconds / options.kills)
            break
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.communicate()
            kills += 1
            print(f"    kill {kills}: {Unfinished(home / 'corpora' / 'bench').progressed()}")
    else:
        start(options, home).communicate()
    same = content(home) == content(whole)
    print(
        f"killed {kills} times: {time.monotonic() - began:.1f} s in all, "
        f"{'the same content' if same else 'OTHER CONTENT'}"
    )


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
    documents = open_documents(directory, read_manifest(directory))
    rows = random.Random(0).sample(range(passages), min(count, passages))
    return [render(stored.document, stored.passage) for stored in documents.fetch(rows)]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("path", type=Path)
    parser.add_argument("--kind", default="code")
    parser.add_argument("--encoder", default="transformer")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--apart", action="store_true")
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--checkpoint", type=Path)
    parser.add_argument("--sample", type=int, default=4000)
    parser.add_argument("--home", type=Path)
    options = parser.parse_args()

    with tempfile.TemporaryDirectory() as scratch:
        home = options.home or Path(scratch)
        whole, overlapped, apart = home / "whole", [], []
        for _ in range(options.runs):
            if options.apart:
                apart.append(measured(options, home / "apart", apart=True))
            overlapped.append(measured(options, whole))

        report("overlapped", overlapped)
        if apart:
            report("one after the other", apart)
        if options.kills:
            kill_and_compare(options, whole, home / "killed", overlapped[-1]["s"])
        if options.checkpoint is not None:
            texts = sample_texts(whole, overlapped[0]["passages"], options.sample)
            rate = torch_rate(options.checkpoint, texts)
            print(f"sentence-transformers, encoding only, {len(texts):,} passages: {rate:.0f}/s")


if __name__ == "__main__":
    main()
