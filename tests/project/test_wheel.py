"""The wheels, installed into empty environments."""

from __future__ import annotations

import subprocess
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from purlin.client import Client
from tests.support.installed import (
    CLIENT_PROJECT,
    FOLDERS,
    PROJECT,
    Environment,
    build_client_wheel,
    build_wheel,
    install,
)
from tests.support.paths import ROOT
from tests.support.serving import until
from tests.support.traffic import port_holder

MB = 1_000_000

QUERY = "where are uploads retried"

UPLOADS = '''
def send_again(upload, attempts=3):
    """Retry an upload that the network has lost."""
    for _ in range(attempts):
        if upload.send():
            return True
    return False


def sort_rows(rows):
    """Sort rows by their first column."""
    return sorted(rows)
'''


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return install(wheel, tmp_path_factory.mktemp("installed"))


@pytest.fixture(scope="module")
def complete(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return install(wheel, tmp_path_factory.mktemp("complete"), extras=["transformer"])


@pytest.fixture(scope="module")
def client_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_client_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def client(client_wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return install(client_wheel, tmp_path_factory.mktemp("client"))


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    project = tmp_path_factory.mktemp("project")
    (project / "uploads.py").write_text(UPLOADS)
    return project


def contents(wheel: Path) -> dict[str, bytes]:
    """Return the files of a wheel, without its metadata."""
    with zipfile.ZipFile(wheel) as archive:
        return {
            name: archive.read(name) for name in archive.namelist() if ".dist-info/" not in name
        }


# ---- purlin-search

LEFT_OUT = {"__pycache__", "reference-reader-int8"}


def test_wheel_has_all_files_of_its_packages(wheel: Path) -> None:
    files = {
        f"{name.replace('.', '/')}/{path.relative_to(ROOT / folder).as_posix()}"
        for name, folder in FOLDERS.items()
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and not LEFT_OUT & set(path.parts) and "/." not in str(path)
    }

    assert contents(wheel).keys() == files
    assert "purlin/models/santa-minilm-l6-int8/model.onnx" in files
    assert "purlin/models/labels-minilm-l6-int8/model.onnx" in files


def test_installed_purlin_searches(installed: Environment, project: Path) -> None:
    result = installed.run("purlin", "search", QUERY, cwd=project)

    assert result.returncode == 0, result.stderr
    assert "uploads.py:2" in result.stdout.split("sort_rows")[0]


@contextmanager
def serving(installed: Environment, cwd: Path) -> Iterator[Client]:
    """Yield a client of an installed server."""
    holder = port_holder()
    port = str(holder.getsockname()[1])
    process = subprocess.Popen(
        [installed.directory / "bin" / "purlin", "serve", "--port", port],
        cwd=cwd,
        env=installed.variables,
    )
    with holder, process, Client(f"http://127.0.0.1:{port}", max_wait_s=120) as client:
        try:
            until(client.health)
            yield client
        finally:
            process.terminate()


def test_installed_purlin_serves(installed: Environment, project: Path) -> None:
    installed.run("purlin", "index", "build", "code", ".", "--name", "it", cwd=project)
    with serving(installed, project) as client:
        reply = client.search(QUERY, "it")

    assert reply.hits[0].title == "send_again"
    assert reply.encoder == "static-code-int8"


def test_missing_extra_is_named(installed: Environment, project: Path) -> None:
    result = installed.run("purlin", "search", QUERY, "--encoder", "transformer", cwd=project)

    assert result.returncode == 2
    assert "'purlin-search[transformer]'" in result.stderr


def test_installation_is_below_300_mb(installed: Environment) -> None:
    assert installed.bytes < 300 * MB


def test_transformer_is_an_extra(complete: Environment, project: Path) -> None:
    built = complete.run("purlin", "index", "build", "code", ".", "--name", "it", cwd=project)
    result = complete.run("purlin", "search", QUERY, "--corpus", "it", cwd=project)

    assert built.returncode == 0, built.stderr
    assert result.returncode == 0, result.stderr
    assert "uploads.py:2" in result.stdout.split("sort_rows")[0]


# ---- purlin-client


def test_client_alone_can_be_imported(client: Environment, tmp_path: Path) -> None:
    program = "from purlin.client import AsyncClient, Client; print(Client().corpora.__doc__)"
    result = client.run("python", "-c", program, cwd=tmp_path)

    assert result.returncode == 0, result.stderr
    assert "List all corpora" in result.stdout


def test_client_is_below_20_mb(client: Environment) -> None:
    assert client.bytes < 20 * MB


def test_client_has_the_same_files(wheel: Path, client_wheel: Path) -> None:
    files = contents(client_wheel)

    assert files.items() <= contents(wheel).items()
    assert "purlin/py.typed" in files
    assert CLIENT_PROJECT["project"]["version"] == PROJECT["project"]["version"]
