"""Translations read from packages: each format, on a few entries in its notation."""

from __future__ import annotations

import bz2
import gzip
import lzma
import runpy
import struct
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.support.paths import ROOT


@pytest.fixture(scope="module")
def pairs() -> SimpleNamespace:
    return SimpleNamespace(**runpy.run_path(str(ROOT / "questions/translations/pairs.py")))


def catalogue(messages: dict[str, str], order: str = "<") -> bytes:
    """The messages in gettext's binary format."""
    texts = [*messages, *messages.values()]
    header = 28 + 8 * len(texts)
    content, tables = b"", b""
    for text in texts:
        tables += struct.pack(f"{order}2I", len(text.encode()), header + len(content))
        content += text.encode() + b"\0"
    count = len(messages)
    start = struct.pack(f"{order}7I", 0x950412DE, 0, count, 28, 28 + 8 * count, 0, header)
    return start + tables + content


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(
    ("path", "language"),
    [
        ("usr/share/locale/de/LC_MESSAGES/git.mo", "de"),
        ("oscar/locale/pt_BR/LC_MESSAGES/django.mo", "pt"),
        ("wp-content/languages/admin-fr.mo", None),
        ("wp-content/languages/fr_FR.mo", None),
        ("wp-content/languages/es_ES.mo", "es"),
        ("usr/share/locale/xx/LC_MESSAGES/git.mo", None),
    ],
)
def test_messages_of_programs(
    pairs: SimpleNamespace, path: str, language: str | None, order: str
) -> None:
    content = catalogue(
        {
            "": "Content-Type: text/plain",
            "menu\x04&Open <b>%s</b>…": "Ö&ffnen <b>%s</b>…",
            "%d file\0%d files": "%d Datei\0%d Dateien",
            "%": "%",
        },
        order,
    )
    expected = [(language, "Öffnen", "Open"), (language, "Datei", "file")]
    if path.endswith("admin-fr.mo"):
        expected = [("fr", text, english) for _, text, english in expected]
    elif language is None:
        expected = []
    assert [tuple(pair) for pair in pairs.catalogue_pairs(path, content)] == expected


def test_descriptions_of_packages(pairs: SimpleNamespace, tmp_path: Path) -> None:
    english = (
        "Package: a\nDescription-md5: 1\nDescription-en: reads files\n First\n part.\n .\n Second.\n\n"
        "Package: b\nDescription-md5: 2\nDescription-en: writes files\n One.\n .\n Two.\n\n"
    )
    german = (
        "Package: a\nDescription-md5: 1\nDescription-de: liest Dateien\n Erster\n Teil.\n .\n Zweiter.\n\n"
        "Package: b\nDescription-md5: 2\nDescription-de: schreibt Dateien\n Eins.\n\n"
    )
    (tmp_path / "Translation-en.xz").write_bytes(lzma.compress(english.encode()))
    (tmp_path / "Translation-de.bz2").write_bytes(bz2.compress(german.encode()))
    assert [tuple(pair) for pair in pairs.description_pairs(tmp_path)] == [
        ("de", "liest Dateien", "reads files"),
        ("de", "Erster Teil.", "First part."),
        ("de", "Zweiter.", "Second."),
        # The paragraphs are not as many, so that none is known to be the translation of another.
        ("de", "schreibt Dateien", "writes files"),
    ]


def test_dictionaries_from_and_into_english(pairs: SimpleNamespace) -> None:
    german = gzip.compress(
        b'Datei /dat/ <fem>\n1. file, dataset\n   "eine Datei" - a file\n\nBaum\n   tree (plant)\n'
    )
    entries = pairs.freedict_pairs("usr/share/dictd/freedict-deu-eng.dict.dz", german)
    assert [tuple(pair) for pair in entries] == [
        ("de", "Datei", "file"),
        ("de", "Datei", "dataset"),
        ("de", "Baum", "tree"),
    ]

    into = gzip.compress(b"tree /tri:/\n   1. arbre\n")
    entries = pairs.freedict_pairs("usr/share/dictd/freedict-eng-fra.dict.dz", into)
    assert [tuple(pair) for pair in entries] == [("fr", "arbre", "tree")]
    assert list(pairs.freedict_pairs("usr/share/dictd/freedict-deu-fra.dict.dz", into)) == []


def test_dictionaries_in_lines(pairs: SimpleNamespace) -> None:
    ding = "# comment\nDatei {f}; Akte {f} [adm.] | Dateien {pl} :: file | files\nno entry\n"
    assert [tuple(pair) for pair in pairs.ding_pairs(ding.encode())] == [
        ("de", "Datei", "file"),
        ("de", "Akte", "file"),
        ("de", "Dateien", "files"),
    ]
    edict = "ファイル /(n) file/EntL1/\n木 [き] /(n) tree/(n) wood/EntL2/\n"
    assert [tuple(pair) for pair in pairs.edict_pairs("ja", edict)] == [
        ("ja", "ファイル", "file"),
        ("ja", "木", "tree"),
        ("ja", "き", "tree"),
        ("ja", "木", "wood"),
        ("ja", "き", "wood"),
    ]
    cedict = "# comment\n文檔 文档 [wen2 dang4] /file/CL:個|个[ge4]/\n"
    assert [tuple(pair) for pair in pairs.edict_pairs("zh", cedict)] == [("zh", "文档", "file")]
