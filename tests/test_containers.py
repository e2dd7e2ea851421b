"""The container files against what they must promise; `make check` lints them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parent.parent
DOCKERFILE = (ROOT / "Dockerfile").read_text()
FINAL = DOCKERFILE.rpartition("\nFROM ")[2]
COMPOSE = (ROOT / "docker-compose.yml").read_text()
BUILD = (ROOT / "docker-compose.build.yml").read_text()
OFFLINE = (ROOT / "docker-compose.offline.yml").read_text()
RUNNING = (ROOT / "docs" / "running.md").read_text()


def service(text: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(text)["services"][name]
    return found


def test_the_server_runs_with_as_little_as_it_can() -> None:
    server = service(COMPOSE, "purlin")
    assert server["read_only"] is True
    assert server["cap_drop"] == ["ALL"]
    assert server["security_opt"] == ["no-new-privileges:true"]
    assert {"mem_limit", "cpus", "pids_limit"} <= server.keys()
    assert server["ports"] == ["${PURLIN_BIND:-127.0.0.1}:${PURLIN_PORT:-8000}:8000"]


def test_the_build_extends_the_server_and_asks_for_its_sources() -> None:
    build = service(BUILD, "build")
    assert build["extends"] == {"file": "docker-compose.yml", "service": "purlin"}
    assert build["profiles"] == ["build"]
    assert re.fullmatch(r"\$\{SOURCES:\?.+\}:/sources:ro", build["volumes"][0])
    assert build["restart"] == "no"


def test_the_server_can_do_without_any_network() -> None:
    assert service(OFFLINE, "purlin") == {"network_mode": "none"}
    assert "-f docker-compose.yml -f docker-compose.offline.yml" in RUNNING


def test_every_variable_is_documented() -> None:
    variables = set(re.findall(r"\$\{([A-Z_]+)", COMPOSE + BUILD))
    assert variables == {name for name in variables if f"`{name}`" in RUNNING}


def test_the_image_is_not_root_and_keeps_its_home_in_a_volume() -> None:
    assert re.search(r"^USER [1-9]\d*:[1-9]\d*$", FINAL, re.MULTILINE)
    assert "VOLUME /data" in FINAL
    assert "PURLIN_HOME=/data" in FINAL
    assert "HEALTHCHECK" in FINAL
    assert "/readyz" in FINAL


def test_no_file_names_an_index_or_a_machine() -> None:
    for text in (DOCKERFILE, COMPOSE, BUILD, OFFLINE):
        hosts = set(re.findall(r"\b[a-z0-9-]+\.[a-z0-9.-]+\.?(?:com|org|net|io|dev)\b", text))
        assert not hosts
        assert not re.search(r"https?://(?!127\.0\.0\.1)", text)


def test_what_is_served_needs_no_torch() -> None:
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert not [one for one in wanted if one.startswith(("torch", "transformers", "sentence"))]


def test_the_context_has_what_is_copied() -> None:
    sent = {
        line[1:]
        for line in (ROOT / ".dockerignore").read_text().splitlines()
        if line.startswith("!")
    }
    copied = {
        word
        for line in re.findall(r"^COPY ([^-].*)$", DOCKERFILE, re.MULTILINE)
        for word in line.split()[:-1]
        if word != "."
    }
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"][
        "packages"
    ]["find"]["include"]
    assert {name.split("/")[0] for name in copied} | {
        package.rstrip("*") for package in packages
    } <= sent
    assert all((ROOT / name).exists() for name in sent)


def test_what_the_demo_stage_runs_needs_index_alone(tmp_path: Path) -> None:
    """`purlin index demo` runs where app and training are not copied to."""
    for name in ("purlin.py", "index"):
        (tmp_path / name).symlink_to(ROOT / name)
    done = subprocess.run(
        [sys.executable, "-P", "-m", "purlin", "index", "demo", "--help"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
