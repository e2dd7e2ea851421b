"""The three corpora a first start builds, from material that is on the machine already."""

from __future__ import annotations

import re
import sysconfig
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from index.records import Kind, Skipped, SourceFile
from index.sources import open_source

_HERE = Path(__file__).parent
_DOC = Path("/usr/share/doc")


@dataclass(frozen=True, slots=True)
class Demo:
    """A corpus to build: its name and kind, what it is made from in words, and its sources."""

    name: str
    kind: Kind
    about: str
    sources: Callable[[], Iterator[SourceFile | Skipped]]


def demos() -> tuple[Demo, ...]:
    """The standard library's source, Python's reference, and a small catalogue."""
    library = Path(sysconfig.get_path("stdlib"))
    return (
        Demo(
            "products",
            "product",
            "a small catalogue",
            lambda: open_source("product", [_HERE / "products.jsonl"]),
        ),
        _reference(),
        Demo(
            "code",
            "code",
            f"the Python standard library in {library}",
            lambda: open_source("code", [library], secondary="leave-out"),
        ),
    )


def _reference() -> Demo:
    """Python's HTML reference where a package has installed it, else what the running Python's `help()` tells."""
    found = python_reference()
    if found is not None:
        version = re.search(r"3\.\d+", str(found))
        url = f"https://docs.python.org/{version.group() if version else 3}"
        about = f"the Python reference in {found}"
        return Demo(
            "python", "reference", about, lambda: open_source("reference", [found], base_url=url)
        )
    from index.sources import reference

    return Demo(
        "python", "reference", "what help() of the running Python tells", reference.python_help
    )


def python_reference(root: Path = _DOC) -> Path | None:
    """Directory of the newest installed HTML reference, such as Debian's python3.11-doc, or None."""
    found = {
        page.resolve().parent.parent for page in root.glob("python3*/html/library/stdtypes.html")
    }
    return max(
        found, key=lambda path: [int(n) for n in re.findall(r"\d+", str(path))], default=None
    )
