"""Time searches of a directory from the command line, process start included.

    python -m benchmarks.speed.first_minute REPOSITORY [--library DIR] [--rounds 5] [--semble PYTHON --semble-model DIR]

REPOSITORY is a small code base, such as an unpacked flask; the library is by default that of the
running Python. Both are copied, the library without its tests. In each round, with an empty cache,
`purlin search` answers for the first time, for the second, and after a function was appended to the
largest file; in the first directory also with the better vectors, which are made in between and not
timed. With --semble, the Python of an environment where semble is installed, semble does the
same on the same files, in turns. Its model has to be on disk: without --semble-model, one of the
same shape with random numbers is made, which changes what is found but not how long it takes.

Prints medians and ranges as a Markdown table. CPU seconds, of all processes of a search together,
say more than the clock where other work shares the machine.
"""

from __future__ import annotations

import os
import resource
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.options import command_parser
from purlin.index.cpus import available_cpus
from purlin.index.encoder import STATIC_ENCODER, load_encoder
from purlin.index.workspaces.workspace import open_workspace

QUERY = "where is the answer written"
# Until then, the time of a file's last change may not tell whether it changes again.
SETTLED_S = 2.2
APPENDED = '\n\ndef glue_the_{name}_together(value):\n    """Join what belongs together."""\n    return value\n'
STAND_IN = """
import sys
import numpy as np
from model2vec import StaticModel
from tokenizers import Tokenizer
tokenizer = Tokenizer.from_file(sys.argv[1])
tokenizer.no_truncation()
tokenizer.no_padding()
numbers = np.random.default_rng(0).standard_normal((tokenizer.get_vocab_size(), 256))
StaticModel(vectors=numbers.astype(np.float32), tokenizer=tokenizer).save_pretrained(sys.argv[2])
"""
TOKENIZER = Path(__file__).parents[2] / "models" / "santa-minilm-l6-int8" / "tokenizer.json"
# Installed packages have their bytecode; a setting of the shell must not take it away.
ENVIRONMENT = {
    name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
}
# (by the clock, of CPUs)
Seconds = tuple[float, float]


@dataclass(frozen=True)
class Tool:
    """A command that searches the directory it runs in; `cache` is its environment for one cache."""

    name: str
    command: Callable[[str], list[str]]
    cache: Callable[[Path], Mapping[str, str]]

    def search(self, directory: Path, cache: Path, query: str) -> tuple[Seconds, str]:
        """Seconds of a search, process start included, and what it printed."""
        cpu_before, started = children_cpu_s(), time.perf_counter()
        completed = subprocess.run(
            self.command(query),
            cwd=directory,
            env={**ENVIRONMENT, **self.cache(cache)},
            capture_output=True,
            text=True,
            check=True,
        )
        return (time.perf_counter() - started, children_cpu_s() - cpu_before), completed.stdout


def children_cpu_s() -> float:
    """CPU seconds of all processes that this one has waited for."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def purlin() -> Tool:
    def command(query: str) -> list[str]:
        return [sys.executable, "-P", "-m", "purlin", "search", query, "--json"]

    def cache(directory: Path) -> dict[str, str]:
        # A process in the background would be timed, too.
        return {"PURLIN_CACHE": str(directory), "PURLIN_BACKGROUND": "off"}

    return Tool("Purlin", command, cache)


def semble(python: Path, model: Path) -> Tool:
    def command(query: str) -> list[str]:
        return [str(python.parent / "semble"), "search", query, "."]

    def cache(directory: Path) -> dict[str, str]:
        directory.mkdir(exist_ok=True)
        return {
            "XDG_CACHE_HOME": str(directory),
            "HOME": str(directory),
            "SEMBLE_MODEL_NAME": str(model),
        }

    return Tool("semble", command, cache)


@contextmanager
def changed(file: Path, name: str) -> Iterator[str]:
    """Append a function to a file for a while; yields the function's name."""
    content = file.read_bytes()
    appended = APPENDED.format(name=name)
    file.write_bytes(content + appended.encode())
    try:
        yield f"glue_the_{name}_together"
    finally:
        file.write_bytes(content)


def round_of(
    tool: Tool, directory: Path, file: Path, cache: Path, number: int
) -> Mapping[str, Seconds]:
    """Seconds of the first answer, the second, and the one after a change."""
    first, _ = tool.search(directory, cache, QUERY)
    second, _ = tool.search(directory, cache, QUERY)
    with changed(file, f"{tool.name.lower()}_{number}") as function:
        third, printed = tool.search(directory, cache, function)
        if function not in printed:
            raise SystemExit(f"{tool.name} did not find {function}")
    return {"first answer": first, "second answer": second, "after one changed file": third}


def better_answers(
    directory: Path, rounds: int, cache: Path
) -> Iterator[tuple[str, list[Seconds]]]:
    """Yield seconds of answers by the better vectors: without a change, and after one."""
    tool = purlin()
    build = [sys.executable, "-P", "-m", "purlin", "cache", "build"]
    subprocess.run(build, cwd=directory, env={**ENVIRONMENT, **tool.cache(cache)}, check=True)

    steps = [
        round_of(tool, directory, largest_file(directory), cache, number)
        for number in range(rounds)
    ]

    for step in ("second answer", "after one changed file"):
        yield f"{step}, better vectors", [seconds[step] for seconds in steps]


def refresh_in_process(directory: Path, file: Path, rounds: int, cache: Path) -> list[Seconds]:
    """Seconds of a running process from a changed file to the answer that has it."""
    seconds = []
    encoder = load_encoder(STATIC_ENCODER)

    with open_workspace(directory, cache_directory=cache, encoder=encoder) as workspace:
        for number in range(rounds):
            with changed(file, f"process_{number}") as function:
                started, cpu_started = time.perf_counter(), time.process_time()
                workspace.refresh()
                [hit] = workspace.search(function, 1).hits
                took_s = time.perf_counter() - started
                seconds.append((took_s, time.process_time() - cpu_started))
                if hit.title != function:
                    raise SystemExit(f"the running process did not find {function}")

    return seconds


def copied(source: Path, target: Path, *left_out: str) -> Path:
    """Copy a directory without what was installed into it, and what is `left_out`."""
    ignored = shutil.ignore_patterns(
        "site-packages", "dist-packages", "__pycache__", ".git", *left_out
    )
    shutil.copytree(source, target, symlinks=True, ignore=ignored)
    (target / ".git").mkdir()
    time.sleep(SETTLED_S)
    return target


def size_of(directory: Path, cache: Path) -> str:
    """Number of documents of the index of a directory, in words."""
    with open_workspace(directory, cache_directory=cache) as workspace:
        return f"{workspace.corpus.manifest.documents:,} documents"


def measure(
    directory: Path, tools: list[Tool], rounds: int, scratch: Path
) -> dict[tuple[str, str], list[Seconds]]:
    """Seconds by tool and step, from alternating rounds."""
    seconds: dict[tuple[str, str], list[Seconds]] = defaultdict(list)
    file = largest_file(directory)

    for number in range(rounds):
        # The other one begins in every other round.
        for tool in tools[:: 1 if number % 2 == 0 else -1]:
            cache = Path(tempfile.mkdtemp(dir=scratch))
            for step, took in round_of(tool, directory, file, cache, number).items():
                seconds[tool.name, step].append(took)
            shutil.rmtree(cache)

    return seconds


def largest_file(directory: Path) -> Path:
    """The largest Python file, since a change of it is the most work."""
    return max(directory.rglob("*.py"), key=lambda path: (path.stat().st_size, path))


def row(subject: str, tool: str, step: str, seconds: list[Seconds]) -> str:
    """A row of the table."""
    clock, cpu = zip(*seconds, strict=True)
    spread = f"{min(clock):.2f}-{max(clock):.2f}"
    return (
        f"| {subject} | {step} | {tool} | {statistics.median(clock):.2f} | {spread} | "
        f"{statistics.median(cpu):.2f} |"
    )


def main() -> None:
    parser = command_parser(__doc__)
    parser.add_argument("repository", type=Path)
    parser.add_argument("--library", type=Path, default=Path(sysconfig.get_path("stdlib")))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--semble", type=Path, metavar="PYTHON")
    parser.add_argument("--semble-model", type=Path)
    options = parser.parse_args()

    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        tools = [purlin()]
        if options.semble:
            model = options.semble_model or scratch / "model"
            if not model.exists():
                arguments = [options.semble, "-c", STAND_IN, TOKENIZER, model]
                subprocess.run(list(map(str, arguments)), check=True)
            tools.append(semble(options.semble, model))

        print(f"load before: {os.getloadavg()[0]:.1f} on {available_cpus()} CPUs\n")
        print("| files | step | tool | median s | range | CPU s |\n|---|---|---|---|---|---|")
        directories = (
            copied(options.repository, scratch / "repository"),
            copied(options.library, scratch / "library", "test", "tests", "idle_test"),
        )
        for directory in directories:
            seconds = measure(directory, tools, options.rounds, scratch)
            cache = scratch / f"{directory.name} cache"
            subject = f"{directory.name}, {size_of(directory, cache)}"
            for (tool, step), values in sorted(seconds.items()):
                print(row(subject, tool, step, values))

            file = largest_file(directory)
            running = refresh_in_process(directory, file, options.rounds, cache)
            print(row(subject, "Purlin", "after one changed file, running process", running))
            if directory is directories[0]:
                for step, values in better_answers(directory, options.rounds, cache):
                    print(row(subject, "Purlin", step, values))


if __name__ == "__main__":
    main()
