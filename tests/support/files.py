"""Files that tests write, each with its directory."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any


def write_file(path: Path, content: str | bytes) -> Path:
    """Write bytes, or a text in UTF-8; they are compressed if the name ends in `.gz`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def write_jsonl(path: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    """Write a line of JSON per row."""
    return write_file(path, "".join(json.dumps(row) + "\n" for row in rows))


def write_tree(root: Path, contents: Mapping[str, str]) -> Path:
    """Write a text per path below `root`; return `root`."""
    for name, text in contents.items():
        write_file(root / name, text)
    return root
