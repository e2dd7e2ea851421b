from __future__ import annotations

import json
import math
import time
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from purlin.index.errors import Damaged, NotFound
from purlin.index.qa.reader import (
    Packer,
    Reader,
    ReadingPassage,
    model_text,
    reading_passage,
)
from purlin.index.qa.reader_settings import READER_SETTINGS, ReaderSettings
from purlin.index.records import Document, Passage
from tests.support.readers import PACKED_WORDS, QUESTIONS, RANGE

# Packing


def test_a_sequence_is_the_question_then_the_passage(packer: Packer) -> None:
    (packed,) = packer.pack("what is the default step", [RANGE])
    assert [PACKED_WORDS[number] for number in packed.ids[:8]] == [
        "[CLS]", "what", "is", "the", "default", "step", "[SEP]", "range",
    ]  # fmt: skip
    assert packed.first == 7
    assert PACKED_WORDS[packed.ids[-1]] == "[SEP]"
    assert len(packed.ids) == packed.first + len(packed.offsets) + 1


def test_offsets_are_the_characters_of_the_passage_tokens(packer: Packer) -> None:
    (packed,) = packer.pack("what is the default step", [RANGE])
    tokens = [model_text(RANGE)[start:end] for start, end in packed.offsets]
    assert tokens[:4] == ["range", "range", ".", "step"]
    assert tokens[-3:] == ["to", "1", "."]


def test_long_questions_are_cut_to_a_third(packer: Packer) -> None:
    (packed,) = packer.pack("what " * 500, [ReadingPassage("step " * 500)])
    assert len(packed.ids) == packer.max_tokens
    assert packed.first == packer.max_tokens // 3 + 2


def test_a_reading_passage_ends_with_its_text() -> None:
    document = Document("d", "reference", "range.step", "range.step\nThe step.", context=("range",))
    passage = reading_passage(document, Passage("d", 0, 0, len(document.body), "range"), 0.5)
    assert (passage.text, passage.prior) == (document.body, 0.5)
    assert model_text(passage).endswith(document.body)
    assert "range" in passage.context


# Reading


def test_logits_are_per_token_and_per_passage(reader: Reader) -> None:
    passages = [RANGE, ReadingPassage("The start."), ReadingPassage("")]
    logits = reader.read(QUESTIONS[0], passages)
    assert len(logits) == 3
    for each in logits:
        assert each.start.shape == each.end.shape == each.packed.ids.shape
        assert math.isfinite(each.selected)


def test_no_passages_have_no_logits(reader: Reader) -> None:
    assert reader.read("What?", []) == []


def test_logits_do_not_depend_on_other_passages(reader: Reader) -> None:
    """Sequences are not padded, so that other passages in the same call do not matter."""
    long = ReadingPassage("The start of a range " * 12)
    [alone] = reader.read(QUESTIONS[0], [RANGE])
    _, among, _ = reader.read(QUESTIONS[0], [long, RANGE, long])
    np.testing.assert_array_equal(alone.start, among.start)
    np.testing.assert_array_equal(alone.end, among.end)
    assert alone.selected == among.selected


def test_the_first_passage_is_read_after_the_deadline(reader: Reader) -> None:
    logits = reader.read("What is it?", [RANGE] * 6, deadline=time.monotonic() - 1)
    assert len(logits) == 1


def test_invalid_unicode_is_read(reader: Reader) -> None:
    assert reader.read("\ud800 what", [ReadingPassage("a \udfff b step 1")])


# Directories


def test_a_missing_directory_names_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="purlin train refqa"):
        Reader.load(tmp_path / "none")


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json", READER_SETTINGS])
def test_an_altered_file_is_named(reader_directory: Path, tmp_path: Path, name: str) -> None:
    for file in reader_directory.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    content = bytearray((tmp_path / name).read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / name).write_bytes(content)
    with pytest.raises(Damaged, match=name):
        Reader.load(tmp_path)

    (tmp_path / name).unlink()
    with pytest.raises(Damaged, match=name):
        Reader.load(tmp_path)


@pytest.mark.parametrize(
    "change", [{"calibration": [1.0]}, {"max_tokens": 4}, {"prior_weight": 2.0}, {"files": {}}]
)
def test_settings_that_do_not_fit_are_refused(
    reader_directory: Path, tmp_path: Path, change: dict[str, Any]
) -> None:
    content = json.loads((reader_directory / READER_SETTINGS).read_text()) | change
    (tmp_path / READER_SETTINGS).write_text(json.dumps(content))
    with pytest.raises(Damaged, match=READER_SETTINGS):
        Reader.load(tmp_path)


@pytest.mark.parametrize(
    "change", [{"prior_weight": math.nan}, {"calibration": [1.0, math.inf, 1.0, 1.0, 1.0]}]
)
def test_settings_must_be_finite(
    reader_directory: Path, tmp_path: Path, change: dict[str, Any]
) -> None:
    content = json.loads((reader_directory / READER_SETTINGS).read_text()) | change
    values = {field.name: content[field.name] for field in fields(ReaderSettings)}
    content["fingerprint"] = ReaderSettings(**values).fingerprint
    (tmp_path / READER_SETTINGS).write_text(json.dumps(content))
    with pytest.raises(Damaged, match=f"{next(iter(change))} is not a finite number"):
        Reader.load(tmp_path)


def test_reader_names_the_extra_that_is_missing(
    reader_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(NotFound, match=r"reader .* 'purlin-search\[transformer\]'"):
        Reader.load(reader_directory)
