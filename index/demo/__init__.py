"""The three corpora that a first start builds, from material that is already on the machine."""

from __future__ import annotations

import contextlib
import re
import sysconfig
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from purlin.index import builds
from purlin.index.builds.manifests import read_manifest_json
from purlin.index.errors import PurlinError
from purlin.index.records import Kind, Skipped, SourceFile
from purlin.index.sources import open_source

_DEMO_DIR = Path(__file__).parent
_DOC_DIR = Path("/usr/share/doc")


@dataclass(frozen=True, slots=True)
class Demo:
    """A corpus to build: its name and kind, a description of its material, and its sources."""

    name: str
    kind: Kind
    about: str
    sources: Callable[[], Iterator[SourceFile | Skipped]]

    def is_missing(self, home: Path) -> bool:
        """Return whether nothing of its name can be opened, unless that may be somebody's own."""
        if not builds.exists(home, self.name):
            return True
        if builds.active_manifest(home, self.name) is not None:
            return False

        # Of another format, or damaged.
        with contextlib.suppress(PurlinError, ValueError):
            values = read_manifest_json(builds.current(home, self.name))
            return values.get("sources") == [self.about]
        return False

    def is_due(self, home: Path, fingerprint: str | None = None) -> bool:
        """Return whether it is missing, or was made by earlier rules or an encoder of another fingerprint.

        What somebody has made of other sources under its name is never due.
        """
        manifest = builds.active_manifest(home, self.name)
        if manifest is None:
            return self.is_missing(home)

        is_other = fingerprint is not None and manifest.encoder["fingerprint"] != fingerprint
        return manifest.sources == (self.about,) and (is_other or manifest.is_outdated)


def demos() -> tuple[Demo, ...]:
    """Describe the demo corpora: a small catalogue, the standard library, Python's reference."""
    library = Path(sysconfig.get_path("stdlib"))
    products = Demo(
        "products",
        "product",
        "a small catalogue",
        lambda: open_source("product", [_DEMO_DIR / "products.jsonl"]),
    )
    code = Demo(
        "code",
        "code",
        f"the Python standard library in {library}",
        lambda: open_source("code", [library], secondary="leave-out"),
    )

    return products, code, _reference()


def _reference() -> Demo:
    """Python's HTML reference where a package installed it, else the text of its `help()`."""
    html_dir = python_reference()
    if html_dir is not None:
        version = re.search(r"3\.\d+", str(html_dir))
        url = f"https://docs.python.org/{version.group() if version else 3}"
        return Demo(
            "python",
            "reference",
            f"the Python reference in {html_dir}",
            lambda: open_source("reference", [html_dir], base_url=url),
        )

    from purlin.index.sources.references import manual

    return Demo("python", "reference", "the help() of the running Python", manual.python_help)


def python_reference(root: Path = _DOC_DIR) -> Path | None:
    """Directory of the newest installed HTML reference, such as Debian's python3.11-doc, or None."""
    html_dirs = {
        page.resolve().parent.parent for page in root.glob("python3*/html/library/stdtypes.html")
    }
    return max(
        html_dirs, key=lambda path: [int(n) for n in re.findall(r"\d+", str(path))], default=None
    )
