"""What a build holds and what it was made from: `manifest.json`, which lists all other files."""

from __future__ import annotations

import hashlib
import json
import operator
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from purlin.index import versions
from purlin.index.builds.catalogs import damage_message
from purlin.index.errors import Damaged, read_problem
from purlin.index.records import Kind, Secondary, Splitter

# Changes with whatever an earlier version would misread, so that its servers refuse such a build when
# they open it.
MANIFEST_FORMAT = 6
# Fields that this format did not have at first.
_ADDED = {"readers"}
_MAX_MANIFEST_BYTES = 16 * 2**20


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a corpus's build holds and what it was made from.

    `sources` are the absolute paths that were read, or words about them. With `secondary`,
    `base_url` and `columns` they are what `purlin.index.sources.open_source` takes to read them again.
    `segments` are the directories of its documents, see `purlin.index.search.segments`; `texts` and
    `readers` are the `purlin.index.versions` that they were made by. An `interim` build serves while
    the vectors of another encoder are made.
    `files` maps a relative path to what `purlin.index.builds.build_files.checksums` returns for it.
    `logged` counts the earlier queries that lead to documents of the build. `dense` is what
    `purlin.index.search.dense.build_index` chose and measured for the base, or an engine's index
    with what `dense.measure` found in it. `judged` describes the quality check, if there was one
    (see `purlin.index.indexing.gate.measure_build`). `engine` tells where the documents are if they
    are not here, see `purlin.index.engines.hosting`.
    """

    name: str
    kind: Kind
    created_at: str
    encoder: Mapping[str, Any]
    documents: int
    passages: int
    skipped: int
    splitter: Splitter
    dense_weight: float
    lexical_power: float
    segments: tuple[str, ...]
    texts: int
    readers: tuple[int, ...] = ()
    interim: bool = False
    demote: bool = True
    logged: int = 0
    sources: tuple[str, ...] = ()
    secondary: Secondary = "demote"
    base_url: str = ""
    columns: Mapping[str, str] = field(default_factory=dict)
    reused: int = 0
    took_s: float = 0.0
    measures: Mapping[str, Any] = field(default_factory=dict)
    dense: Mapping[str, Any] = field(default_factory=dict)
    judged: Mapping[str, Any] = field(default_factory=dict)
    engine: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    format: int = MANIFEST_FORMAT

    @property
    def is_outdated(self) -> bool:
        """Whether rules of an earlier version made the build: one of the same sources would differ.

        A build by rules of a later version is not outdated: two servers of one home, as during an
        upgrade, would otherwise rebuild it in turn.
        """
        made_by, rules = self._made_by, self._rules
        return len(made_by) < len(rules) or any(map(operator.lt, made_by, rules))

    @property
    def rules_warning(self) -> str | None:
        """What a build by rules of another version lacks, and the command that makes it anew."""
        if self._made_by == self._rules:
            return None

        command = _command(self.kind, self.name, self.sources)
        return (
            f"Corpus {self.name!r} was made by the rules of another version, so its results may be worse "
            f"than this version's. Build it again with the command that made it (`{command}`)."
        )

    @property
    def _made_by(self) -> tuple[int, ...]:
        return self.texts, *self.readers

    @property
    def _rules(self) -> tuple[int, ...]:
        return versions.TEXTS, *versions.readers(self.kind)

    @property
    def local_roots(self) -> list[Path]:
        """The directories and files that `sources` names; none if it names anything else."""
        return _local_roots(self.sources)

    def to_json(self) -> str:
        """Return one JSON object with the keys in the order above."""
        return json.dumps(asdict(self), ensure_ascii=False, indent=1) + "\n"


def read_manifest(directory: Path) -> Manifest:
    """Manifest of a corpus's build, checked against the build's name. Raises Damaged."""
    return _manifest(read_manifest_json(directory), directory)


def read_manifest_json(directory: Path) -> dict[str, Any]:
    """Content of a build's `manifest.json`, checked against the build's name. Raises Damaged."""
    path = directory / "manifest.json"
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_MANIFEST_BYTES)
    except OSError as error:
        raise Damaged(damage_message(directory, "manifest.json", read_problem(error))) from error

    if hashlib.sha256(content).hexdigest()[:12] != directory.name.rpartition("-")[2]:
        raise Damaged(damage_message(directory, "manifest.json", "was altered"))
    values: dict[str, Any] = json.loads(content)
    return values


def _manifest(values: dict[str, Any], directory: Path) -> Manifest:
    names = {item.name for item in fields(Manifest)}
    missing = names - values.keys() - _ADDED
    if values.get("format") != MANIFEST_FORMAT or missing or not values.keys() <= names:
        name = directory.parent.name
        sources = list(map(str, values.get("sources") or ()))
        command = _command(values.get("kind", "KIND"), name, sources)
        raise Damaged(
            f"{name}/{directory.name} was written by another version (format "
            f"{values.get('format')!r}, this one reads {MANIFEST_FORMAT}); build the corpus again with the "
            f"command that made it (`{command}`)."
        )
    lists = {name: tuple(values.get(name, ())) for name in ("sources", "segments", "readers")}
    return Manifest(**values | lists)


def _local_roots(sources: Sequence[str]) -> list[Path]:
    """The sources as paths; none if one is anything else, such as the words about a demo corpus."""
    roots = [Path(source) for source in sources]
    return roots if all(root.is_absolute() for root in roots) else []


def _command(kind: str, name: str, sources: Sequence[str]) -> str:
    """The command that makes a corpus, without its sources: not every key may see their paths."""
    return (
        f"purlin index build {kind} ... --name {name}"
        if _local_roots(sources)
        else "purlin index demo"
    )
