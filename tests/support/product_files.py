"""Helpers that write product tables and read them as documents."""

from __future__ import annotations

from pathlib import Path

from purlin.index.records import Document, Skipped, SourceFile
from purlin.index.sources.products import catalogue


def read_products(path: Path, **options: object) -> tuple[list[Document], list[Skipped]]:
    documents: list[Document] = []
    skipped: list[Skipped] = []
    for source in catalogue.files(path, **options):  # type: ignore[arg-type]
        for item in source.read() if isinstance(source, SourceFile) else [source]:
            (documents if isinstance(item, Document) else skipped).append(item)  # type: ignore[arg-type]
    return documents, skipped


def write(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def read_table(
    path: Path, text: str | bytes, **options: object
) -> tuple[list[Document], list[Skipped]]:
    """Write a table, and read its products."""
    return read_products(write(path, text), **options)


def atom_texts(document: Document) -> list[str]:
    return [document.body[atom.start : atom.end] for atom in document.atoms]
