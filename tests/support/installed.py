"""Wheels of this checkout, installed with nothing but the dependencies that they declare.

An environment gets the files of the declared distributions, and of those that these declare, as
links to the ones that the tests run with. So a missing dependency shows, and no network is needed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import venv
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from email.parser import BytesParser
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.paths import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
CLIENT_PROJECT = tomllib.loads((ROOT / "packaging" / "client" / "pyproject.toml").read_text())
# Installed name of a package -> its folder.
FOLDERS: dict[str, str] = PROJECT["tool"]["setuptools"]["package-dir"]


@dataclass(frozen=True, slots=True)
class Environment:
    """A virtual environment, and the size in bytes of all that is installed in it."""

    directory: Path
    bytes: int

    def run(self, *command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        """Run a command of the environment, without any variable of the tests' own."""
        return subprocess.run(
            [self.directory / "bin" / command[0], *command[1:]],
            cwd=cwd,
            env=self.variables,
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )

    @property
    def variables(self) -> dict[str, str]:
        """The environment variables of a new user, whose home is empty."""
        return {"HOME": str(self.directory / "home"), "PATH": os.defpath}


def build_wheel(directory: Path) -> Path:
    """Build the wheel of purlin-search into `directory`."""
    # setuptools writes beside the sources; and what it finds there of an earlier build, it packs.
    sources = directory / "sources"
    sources.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE", *FOLDERS.values()):
        (sources / name).symlink_to(ROOT / name)

    return _build(sources, directory)


def build_client_wheel(directory: Path) -> Path:
    """Build the wheel of purlin-client into `directory`."""
    return _build(ROOT / "packaging" / "client", directory)


def _build(sources: Path, directory: Path) -> Path:
    # To compress the models takes as long as all else.
    stored = "--config-settings=--build-option=--compression=stored"
    options = [
        "--no-deps",
        "--no-build-isolation",
        "--disable-pip-version-check",
        "--quiet",
        stored,
    ]
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", *options, "--wheel-dir", directory, sources],
        check=True,
    )
    [wheel] = directory.glob("*.whl")
    return wheel


def install(wheel: Path, directory: Path, *, extras: Sequence[str] = ()) -> Environment:
    """Install a wheel into a new environment in `directory`, with its declared dependencies."""
    venv.create(directory, symlinks=True, with_pip=False)
    python = directory / "bin" / "python"
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", python, "install", "--quiet",
         "--no-deps", "--no-index", "--no-compile", "--disable-pip-version-check", wheel],
        check=True,
    )  # fmt: skip

    [site_packages] = directory.glob("lib/python*/site-packages")
    installed = sum(path.stat().st_size for path in site_packages.rglob("*") if path.is_file())
    for dependency in declared(_requirements(wheel), extras):
        installed += _link(dependency, site_packages)
    return Environment(directory, installed)


def _requirements(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return BytesParser().parsebytes(archive.read(name)).get_all("Requires-Dist", [])


def declared(requirements: Iterable[str], extras: Sequence[str]) -> list[Distribution]:
    """Return the distributions that requirements ask for, and those that these ask for."""
    distributions: dict[str, Distribution] = {}
    pending = [
        requirement for text in requirements if _applies(requirement := Requirement(text), extras)
    ]

    while pending:
        requirement = pending.pop()
        name = canonicalize_name(requirement.name)
        if name in distributions:
            continue
        distributions[name] = distribution(name)
        needed = map(Requirement, distributions[name].requires or ())
        pending.extend(each for each in needed if _applies(each, requirement.extras))

    return list(distributions.values())


def _applies(requirement: Requirement, extras: Iterable[str]) -> bool:
    """Tell whether a requirement holds on this machine, with these extras."""
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras))


def _link(dependency: Distribution, site_packages: Path) -> int:
    """Link the files of a distribution, except its commands; returns their size in bytes."""
    size = 0
    for file in dependency.files or ():
        source = Path(str(dependency.locate_file(file)))
        target = site_packages / file
        if ".." in file.parts or not source.is_file() or target.exists():
            continue

        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(source)
        size += source.stat().st_size
    return size
