"""Debian packages as products."""

from __future__ import annotations

from pathlib import Path

from purlin.training.data.pairs.pair import PairSource
from tests.support.pair_files import PAIR_FILES, read_all


def test_packages_are_read_as_products() -> None:
    (kettle, symbols, toaster), skipped = read_all(
        PairSource("packages", PAIR_FILES / "packages.txt")
    )
    assert kettle.title == "kettle: watch water until it boils"
    assert kettle.queries == (
        "tells you when the water is hot enough for tea",
        "keeps a diary of all boilings",
        "works offline as well",
    )
    assert kettle.passage.splitlines() == [
        "kettle: watch water until it boils",
        "Kettle is a small daemon that watches a pot of water through a thermometer.",
        "Features:",
        "This package is part of the kitchen suite.",
    ]
    assert symbols.title.startswith("kettle-dbg")
    assert toaster.passage == "toaster: make toast"
    assert [(row.line, row.reason.partition(" (")[0]) for row in skipped] == [
        (21, "has the same description as another package"),
        (39, "has no long description of its own"),
        (42, "is not a package with a description"),
    ]


def test_boilerplate_is_kept_once(tmp_path: Path) -> None:
    path = tmp_path / "all.txt"
    shared = " These are the debugging symbols."
    stanzas = [
        f"Package: p{n}\nDescription: thing {n}\n It does the thing number {n}.\n .\n{shared}\n"
        for n in range(6)
    ]
    path.write_text("\n".join([*stanzas, f"Package: p-dbg\nDescription: symbols\n{shared}\n"]))
    pairs, skipped = read_all(PairSource("packages", path))
    assert [pair.queries[0].count("debugging") for pair in pairs] == [1, 0, 0, 0, 0, 0]
    assert [row.reason[:24] for row in skipped] == ["has no long description "]
