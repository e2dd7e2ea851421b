"""Time to filter, name and fetch synthetic documents, and the memory that their open store takes.

    python -m benchmarks.speed.filters [--documents 1000000] [--directory DIR]

Milliseconds of CPU time of a first call, and of a hundred calls with other values each. The kernel
has the files in its page cache.
"""

from __future__ import annotations

import argparse
import random
import resource
import statistics
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from purlin.index.records import Document, Location, Passage
from purlin.index.search.store.document_records import entry_of
from purlin.index.search.store.documents import Documents
from purlin.index.search.store.filters import Filter
from purlin.index.search.store.segment_store import Store
from purlin.index.search.store.writer import StoreWriter

CALLS = 100
SHARES = {"50 %": 2, "10 %": 10, "1 %": 100, "0.1 %": 1000, "0.01 %": 10_000}


def document(row: int) -> Document:
    path = f"package{row // 1000}/module{row // 10}.py"
    fields = {f"of{count}": row * 7919 % count for count in SHARES.values()}
    fields |= {f"word{count}": f"w{row * 7919 % count:05}" for count in SHARES.values()}
    return Document(
        f"{path}::Name{row}.method",
        "code",
        f"Name{row}.method",
        f"def method(self, argument):\n    return self.value{row} + argument\n" * 8,
        "Add the value to an argument.",
        ("Name",),
        Location(path, row % 1000, row % 1000 + 16),
        {
            "language": "python",
            "path": path,
            "name": f"method{row % 50_000}",
            "price": row / 7,
            **fields,
        },
    )


def write(directory: Path, documents: int) -> float:
    start = time.process_time()
    writer = StoreWriter(directory)
    for row in range(documents):
        if row % 10 == 0:
            file = writer.add_file()
        item = document(row)
        passage = Passage(item.id, 0, 0, len(item.body), "Name")
        writer.add(entry_of(item, [(passage, row.to_bytes(16, "little"))]), file)
    writer.close()
    return time.process_time() - start


def memory() -> float:
    """Resident memory of this process in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def report(what: str, call: Callable[[], object]) -> None:
    start = time.process_time()
    call()
    first = (time.process_time() - start) * 1000
    times = []
    for _ in range(CALLS):
        start = time.process_time()
        call()
        times.append((time.process_time() - start) * 1000)
    quartiles = statistics.quantiles(times, n=4)
    print(f"| {what} | {first:.2f} | {quartiles[1]:.2f} | {quartiles[0]:.2f}-{quartiles[2]:.2f} |")


def measure(documents: Documents) -> None:
    choose = random.Random(0)
    count = len(documents)
    print("| what | first call (ms) | median (ms) | quartiles |")
    print("|---|---:|---:|---:|")

    for share, distinct in SHARES.items():
        conditions: list[tuple[str, Callable[[], Filter]]] = [
            ("number", lambda d=distinct: {f"of{d}": choose.randrange(d)}),
            ("text", lambda d=distinct: {f"word{d}": f"w{choose.randrange(d):05}"}),
            (
                "range",
                lambda d=distinct: {
                    "price": {
                        "gte": (start := choose.random() * count / 7 * (1 - 1 / d)),
                        "lte": start + count / 7 / d,
                    }
                },
            ),
        ]
        for name, condition in conditions:
            report(f"{name}, {share}", lambda make=condition: documents.allowed(make()))

    for rows in (10, 100, 400):
        for name, call in [("fetch", documents.fetch), ("title and path", documents.heads)]:
            report(f"{name} of {rows}", lambda c=call, n=rows: c(choose.sample(range(count), n)))
    report("rows named", lambda: documents.rows_named(f"name{choose.randrange(count)}.METHOD"))
    ids = [document(row).id for row in choose.sample(range(count), 1000)]
    report("rows of 1000 ids", lambda: documents.rows_of(ids))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--documents", type=int, default=1_000_000)
    parser.add_argument("--directory", type=Path, help="for the files; by default a temporary one")
    arguments = parser.parse_args()

    with TemporaryDirectory(dir=arguments.directory) as directory:
        seconds = write(Path(directory), arguments.documents)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
        size = sum(path.stat().st_size for path in Path(directory).iterdir()) / 1e6
        print(
            f"{arguments.documents:,} documents: {seconds:.1f} s, peak {peak:.0f} MB, {size:.0f} MB"
        )

        before, start = memory(), time.process_time()
        with closing(Store(Path(directory), "code")) as store:
            documents = Documents([store], store.field_types())
            opened = (time.process_time() - start) * 1000
            print(f"opened in {opened:.0f} ms, {memory() - before:.0f} MB\n")
            measure(documents)


if __name__ == "__main__":
    main()
