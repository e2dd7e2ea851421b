"""Measure whole builds: rate, peak memory, and what kills cost.

    python -m benchmarks.speed.build CORPUS.jsonl[.gz] --kind code [--encoder static|ensemble|transformer|DIR]
        [--runs 3] [--kills 10] [--home DIR]

Each build runs in a process of its own, so that the peak memory is that of the build alone.

`--kills` kills a build at so many random moments by SIGKILL, lets it end, and compares all files
with those of a build that nobody killed.
"""

from __future__ import annotations

import argparse
import json
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

from benchmarks.options import command_parser
from purlin.index import builds
from purlin.index.builds import build_files
from purlin.index.builds.manifests import Manifest, read_manifest
from purlin.index.indexing.unfinished import Unfinished

_BUILD = """
import json, resource, sys, time
from pathlib import Path
from purlin.index.encoder import encoder_directory, load_encoder
from purlin.index.indexing.build import build
from purlin.index.sources import open_source

kind, path, home, encoder = sys.argv[1:]
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


def start(options: argparse.Namespace, home: Path) -> subprocess.Popen[str]:
    """Start a build below `home`."""
    facts = [options.kind, str(options.path), str(home), options.encoder]
    command = [sys.executable, "-c", _BUILD, *facts]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def measured(options: argparse.Namespace, home: Path) -> dict[str, Any]:
    """Build from nothing, and return what the process measured."""
    shutil.rmtree(home, ignore_errors=True)
    process = start(options, home)
    output, _ = process.communicate()
    if process.returncode:
        raise SystemExit(f"The build ended with status {process.returncode}.")
    values: dict[str, Any] = json.loads(output.splitlines()[-1])
    return values


def report(runs: Sequence[dict[str, Any]]) -> None:
    """Print medians and ranges of several builds."""
    seconds = sorted(run["s"] for run in runs)
    peaks = sorted(run["peak_mb"] for run in runs)
    passages = runs[0]["passages"]
    middle = statistics.median(seconds)

    print(
        f"{passages:,} passages, median of {len(runs)}: {middle:.1f} s "
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
    draw, kills, began = random.Random(0), 0, time.monotonic()

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


def main() -> None:
    parser = command_parser(__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("--kind", default="code")
    parser.add_argument("--encoder", default="transformer")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--home", type=Path)
    options = parser.parse_args()

    with tempfile.TemporaryDirectory() as scratch:
        home = options.home or Path(scratch)
        whole = home / "whole"
        runs = [measured(options, whole) for _ in range(options.runs)]
        report(runs)
        if options.kills:
            kill_and_compare(options, whole, home / "killed", runs[-1]["s"])


if __name__ == "__main__":
    main()
