"""`purlin classify`: texts, tables and standard input."""

from __future__ import annotations

import contextlib
import io
import json
import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from purlin.index import builds
from purlin.index.builds.catalogs import CLASSIFIERS
from purlin.index.classify.trained import TrainedClassifier, publish_classifier
from purlin.index.classify.zero_shot import Classifier
from purlin.index.encoder import load_encoder
from tests.support.quick import Captured, purlin, records_of
from tests.support.tiny import staged


def test_classify_labels_texts_and_lines_of_stdin(
    shop: Path, encoder: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    pass_stdin(monkeypatch, b"format price\n\n")
    options = ("--labels", "send receipt, ", "--labels", "format price", "--template", "{label}")
    assert purlin("classify", "send receipt", "-", *options, "--encoder", encoder) == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    expected = [("send receipt", "send receipt"), ("format price", "format price")]
    assert [(label, text) for label, _, text in rows] == expected

    (shop / "labels.txt").write_text("send receipt\nformat price\n")
    options = ("--labels-file", "labels.txt", "--encoder", encoder, "--template", "{label}")
    assert purlin("classify", "format price", *options, "--json") == 0
    record = json.loads(capsys.readouterr().out)
    assert record["label"] == "format price"
    assert len(record["ranking"]) == 2
    assert purlin("classify", "kept", *options, "--multi", "--min-score", 0.999) == 1
    assert capsys.readouterr().out.startswith("-\t")


def pass_stdin(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


TICKETS = """ticket,body
T-1,"send receipt

to me"
T-2,
T-3,format price
"""
BY_NAMES = ("--labels", "send receipt,format price", "--template", "{label}")


@pytest.mark.parametrize("from_stdin", [False, True])
def test_classify_reads_the_rows_of_a_table(
    shop: Path, encoder: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch, from_stdin: bool
) -> None:
    (shop / "tickets.csv").write_text(TICKETS)
    pass_stdin(monkeypatch, TICKETS.encode())
    source = ("-", "--format", "csv") if from_stdin else ("tickets.csv",)
    options = ("--texts", *source, "--column", "body", *BY_NAMES, "--encoder", encoder)

    assert purlin("classify", *options, "--id", "ticket") == 0
    captured = capsys.readouterr()
    rows = [line.split("\t") for line in captured.out.splitlines()]
    assert [(row[0], row[1], row[3]) for row in rows] == [
        ("T-1", "send receipt", "send receipt to me"),
        ("T-3", "format price", "format price"),
    ]
    assert "1 row without a text left out: T-2" in captured.err

    pass_stdin(monkeypatch, TICKETS.encode())
    assert purlin("classify", *options, "--json") == 0
    records = records_of(capsys)
    assert [record["id"] for record in records] == ["2", "4"]
    assert records[0]["text"] == "send receipt\n\nto me"
    assert "labels" not in records[0]


@pytest.mark.parametrize(
    ("content", "option", "texts"),
    [
        ("good\ncafé\n".encode("cp1252"), "lines", ["good", "café"]),
        (b'[{"text": "good"},\n {"text": "price"}]', "json", ["good", "price"]),
        (b"format\nprice\n", "whole", ["format\nprice"]),
    ],
)
def test_classify_reads_stdin_in_any_format(
    encoder: str,
    capsys: Captured,
    monkeypatch: pytest.MonkeyPatch,
    content: bytes,
    option: str,
    texts: list[str],
) -> None:
    pass_stdin(monkeypatch, content)
    options = ("--texts", "-", "--format", option, *BY_NAMES, "--encoder", encoder, "--json")
    assert purlin("classify", *options) == 0
    assert [record["text"] for record in records_of(capsys)] == texts


def test_classify_prints_the_doubtful_first(shop: Path, encoder: str, capsys: Captured) -> None:
    texts = ["send receipt", "send price", "format price", "format receipt price"]
    (shop / "texts.txt").write_text("\n".join(texts))
    options = ("--texts", "texts.txt", *BY_NAMES, "--encoder", encoder, "--json")
    assert purlin("classify", *options) == 0
    records = records_of(capsys)
    assert purlin("classify", *options, "--review", 2) == 0
    review = records_of(capsys)
    assert review == sorted(records, key=lambda record: record["margin"])[:2]


def test_long_reviews_show_their_progress(
    shop: Path, encoder: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Of 6 texts in blocks of 2, the most doubtful are in different blocks.
    texts = ["send receipt", "format receipt price", "send price", "format price"] * 2
    (shop / "texts.txt").write_text("\n".join(texts[:6]))
    options = ("--texts", "texts.txt", *BY_NAMES, "--encoder", encoder, "--json", "--review", 3)
    assert purlin("classify", *options) == 0
    at_once = records_of(capsys)

    stages: list[tuple[str, int, int | None]] = []

    @contextlib.contextmanager
    def progress() -> Iterator[Any]:
        yield lambda *stage: stages.append(stage)

    monkeypatch.setattr("purlin.cli.classify._BLOCK", 2)
    monkeypatch.setattr("purlin.cli.terminal.progress", progress)
    assert purlin("classify", *options) == 0
    assert records_of(capsys) == at_once
    assert stages == [("classify", start, 6) for start in (0, 2, 4)]


def test_classify_prints_all_labels_that_fit(encoder: str, capsys: Captured) -> None:
    options = (*BY_NAMES, "--encoder", encoder, "--multi", "--min-score", "0.5")
    assert purlin("classify", "send receipt format price", *options) == 0
    assert capsys.readouterr().out.split("\t")[0] in (
        "send receipt, format price",
        "format price, send receipt",
    )


def test_doubtful_among_several_are_near_to_fitting(
    shop: Path, encoder: str, capsys: Captured
) -> None:
    texts = ["send receipt", "send receipt format", "send receipt format price", "format"]
    (shop / "texts.txt").write_text("\n".join(texts))
    options = ("--texts", "texts.txt", *BY_NAMES, "--encoder", encoder, "--multi", "--json")
    assert purlin("classify", *options, "--review", 4) in (0, 1)
    records = records_of(capsys)

    def distance(record: dict[str, Any]) -> float:
        best, other = (entry["score"] for entry in record["ranking"])
        odds, least = other / (1 - other), max(1.0, best / (1 - best) / 3)
        return min(abs(math.log(odds / least)), abs(math.log(best / (1 - best))))

    assert [distance(record) for record in records] == sorted(map(distance, records))
    for record in records:
        best, other = (entry["score"] for entry in record["ranking"])
        fits = other >= 0.5 and other / (1 - other) >= best / (1 - best) / 3
        assert len(record["labels"]) == (best >= 0.5) + fits


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("x", "--multi-label", *BY_NAMES), "unrecognized arguments: --multi-label; --multi is"),
        (("--text=a.txt", *BY_NAMES), "unrecognized arguments: --text=a.txt; --texts is one"),
        (("--texts", "a.txt", "--format", "csv", *BY_NAMES), "--texts - --format csv < FILE reads"),
        (("x", "--labels", '["a", "b"]'), "--labels takes names, not JSON: write them with commas"),
        (("x", "--labels", "send receipt"), "There is one label, 'send receipt', so nothing"),
    ],
)
def test_classify_names_what_was_meant(
    capsys: Captured, arguments: Sequence[str], words: str
) -> None:
    assert purlin("classify", *arguments) == 2
    assert words in capsys.readouterr().err


def test_classify_together_is_what_the_classifier_says(encoder: str, capsys: Captured) -> None:
    texts = ["send receipt", "send it", "send the receipt", *["format price"] * 3]
    options = (*BY_NAMES, "--encoder", encoder, "--json", "--transductive")
    assert purlin("classify", *texts, *options) == 0
    scores = [record["score"] for record in records_of(capsys)]
    classifier = Classifier(load_encoder(Path(encoder)))
    results = classifier.classify(
        texts, ["send receipt", "format price"], templates=["{label}"], transductive=True
    )
    assert scores == [result.score for result in results]


@pytest.mark.parametrize(
    ("content", "option", "words"),
    [
        (b"id,body\n1,a\n", "csv", "its columns are 'id', 'body': name one with --column"),
        (b"id,text\n1,a,b\n", "csv", "Row 2 of stdin has 3 cells where the header has 2"),
        (b'{"text": ["a"]}\n', "jsonl", "Row 1 of stdin has a list in the column 'text'"),
        (b"a\0", "whole", "stdin has zero bytes"),
        (b"", "lines", "stdin holds no rows"),
        (b"", "whole", "There are no texts"),
    ],
)
def test_classify_says_what_is_wrong_with_a_table(
    encoder: str,
    capsys: Captured,
    monkeypatch: pytest.MonkeyPatch,
    content: bytes,
    option: str,
    words: str,
) -> None:
    pass_stdin(monkeypatch, content)
    options = ("--texts", "-", "--format", option, *BY_NAMES, "--encoder", encoder)
    assert purlin("classify", *options) == 2
    assert words in capsys.readouterr().err


def test_classify_warns_of_what_is_hardly_meant(
    shop: Path, encoder: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    (shop / "tickets.csv").write_text(TICKETS)
    options = (*BY_NAMES, "--encoder", encoder)
    assert purlin("classify", "tickets.csv", *options) == 0
    assert "--texts tickets.csv classifies what it holds" in capsys.readouterr().err
    records = [{"text": "send receipt"}, {"text": "format price"}]
    for content, kind in (
        (TICKETS, "csv"),
        ('{"text": "a"}\n', "jsonl"),
        (json.dumps(records), "json"),
        (json.dumps(records, indent=1), "json"),
    ):
        for argument in (("-",), ("--texts", "-")):
            pass_stdin(monkeypatch, content.encode())
            assert purlin("classify", *argument, *options) == 0
            assert f"--texts - --format {kind} reads its rows" in capsys.readouterr().err

    (shop / "export.txt").write_text(TICKETS.replace(",", "\t"))
    assert purlin("classify", "--texts", "export.txt", *options) == 0
    assert "--texts - --format tsv < export.txt reads its rows" in capsys.readouterr().err
    (shop / "rows.txt").write_text("A 1\tformat a price\nA 2\tsend a receipt\n")
    assert purlin("classify", "--texts", "rows.txt", *options) == 0
    assert "rows.txt looks like TSV" in capsys.readouterr().err
    (shop / "lines.txt").write_text("format\ta price\nsend a receipt\n")
    assert purlin("classify", "--texts", "lines.txt", *options) == 0
    assert "looks like" not in capsys.readouterr().err

    pass_stdin(monkeypatch, b"format price\nr\xc3\xa9sum\xc3\xa9 caf\xe9\n")
    assert purlin("classify", "-", *options) == 0
    assert "1 text has \ufffd where bytes are no text" in capsys.readouterr().err

    (shop / "mails.txt").write_text("<p>format&nbsp;<b>price</b></p>\n")
    assert purlin("classify", "--texts", "mails.txt", *options) == 0
    assert "1 text has HTML tags" in capsys.readouterr().err
    assert purlin("classify", "--texts", "mails.txt", "--html", *options) == 0
    captured = capsys.readouterr()
    assert captured.out.endswith("\tformat price\n")
    assert "HTML" not in captured.err


def test_classify_ignores_byte_order_marks(
    shop: Path, encoder: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    pass_stdin(monkeypatch, "send receipt\n".encode("utf-8-sig"))
    (shop / "labels.txt").write_text("send receipt\nformat price\n", encoding="utf-8-sig")
    options = ("--labels-file", "labels.txt", "--encoder", encoder)

    assert purlin("classify", "-", *options, "--json") == 0
    record = json.loads(capsys.readouterr().out)
    assert (record["text"], record["label"]) == ("send receipt", "send receipt")


def test_a_trained_classifier_labels_texts(tmp_path: Path, capsys: Captured) -> None:
    publish_classifier(tmp_path, "tickets", staged(tmp_path / "staged"))
    texts = ["the news", *["about business"] * 300]
    options = ("--classifier", "tickets", "--home", tmp_path)

    assert purlin("classify", *texts, *options, "--json") == 0
    records = records_of(capsys)
    trained = TrainedClassifier.load(builds.current(tmp_path, "tickets", CLASSIFIERS))
    assert [record["text"] for record in records] == texts
    assert [record["score"] for record in records] == [
        result.score for result in trained.classify(texts)
    ]
