"""Pairs from the documents of an index source, and from judged sets in BEIR's form."""

from __future__ import annotations

from pathlib import Path

import pytest

from purlin.index.errors import NotFound
from purlin.training.data.pairs.formats import read_pairs
from purlin.training.data.pairs.pair import PairSource
from tests.support.files import write_jsonl
from tests.support.pair_files import PAIR_FILES, REFERENCE, read_all


def test_beir_grades_make_pairs_or_negatives() -> None:
    (flood, drain), skipped = read_all(PairSource("beir", PAIR_FILES / "beir"))
    assert (flood.queries, flood.language) == (("fill deck",), "python")
    assert flood.passage.startswith("def flood(self, deck, amount):")
    assert flood.negatives == (drain.passage,)
    assert [row.reason for row in skipped] == ["the judged document is missing"]
    with pytest.raises(NotFound, match=r"no qrels/test\.tsv"):
        list(read_pairs(PairSource("beir", PAIR_FILES / "beir", split="test")))


def test_functions_are_paired_with_comments(tmp_path: Path) -> None:
    (tmp_path / "tide.py").write_text(
        'def height(base, span):\n    """Height of the tide. In metres.\n\n    Above datum.\n    """\n'
        "    return base + span\n"
        "\n\ndef bare():\n    return 1\n"
    )
    (tmp_path / "tide.go").write_text(
        "package tide\n\n// Height is that of the tide.\nfunc Height(base int) int {\n\treturn base\n}\n"
    )
    pairs, skipped = read_all(PairSource("code", tmp_path))
    go, python = pairs
    expected = ("Height of the tide.", "Height of the tide. In metres.\n\nAbove datum.")
    assert python.queries == expected
    assert python.passage == "def height(base, span):\n    return base + span"
    assert (go.queries, go.language) == (("Height is that of the tide.",), "go")
    assert [(row.line, row.reason) for row in skipped] == [(9, "has no comment")]
    assert python.comment == "Height of the tide. In metres.\n\nAbove datum."


def test_product_bullets_are_queries_not_passage(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [
        {
            "id": "1",
            "title": "Enamel mug",
            "brand": "Harrow",
            "description": "Steel under enamel. Hangs on every hook",
            "bullets": ["Hangs on every hook", "Chip proof rim of steel", "12 oz"],
            "attributes": {"colour": "cream"},
        },
        {
            "id": "2",
            "title": "Towel",
            "description": "Dries in ten minutes",
            "attributes": {"size": "60 cm"},
        },
        {"id": "3", "title": "Saw"},
    ]
    (mug, towel), (saw,) = read_all(PairSource("product", write_jsonl(tmp_path / "a.jsonl", rows)))
    assert mug.queries == ("Hangs on every hook", "Chip proof rim of steel")
    assert mug.passage == "Harrow\nEnamel mug\nSteel under enamel."
    assert (towel.queries, towel.passage) == (("Dries in ten minutes",), "Towel\nSize: 60 cm")
    assert (saw.reason, mug.title) == ("has neither bullets nor a description", "Enamel mug")


def test_reference_term_and_first_sentence_are_queries() -> None:
    pairs, skipped = read_all(PairSource("reference", REFERENCE / "broken.html"))
    alpha = next(pair for pair in pairs if pair.queries == ("The first letter",))
    assert (alpha.passage, alpha.kind) == ("alpha\n- a vowel\n- of Greek", "reference")
    assert "nothing remains after the first sentence" in {row.reason for row in skipped}
