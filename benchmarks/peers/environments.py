"""Virtual environments of the peers, made from the requirements beside this module."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def python_of(name: str, scratch: Path) -> Path:
    """The Python of a peer's environment, which is made first if it is not there."""
    directory = scratch / "environments" / name
    python = directory / "bin" / "python"
    complete = directory / "complete.txt"
    if complete.exists():
        return python

    subprocess.run([sys.executable, "-m", "venv", directory], check=True)
    pip = [python, "-m", "pip", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "-q", "-r", HERE / f"{name}.txt"], check=True)

    # What was installed, to tell two runs apart.
    frozen = subprocess.run([*pip, "freeze"], check=True, capture_output=True, text=True).stdout
    complete.write_text(frozen, encoding="utf-8")
    return python
