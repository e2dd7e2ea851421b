"""What the container files guarantee; `make check` lints them."""

from __future__ import annotations

import re
import shutil
import sys
import tomllib
from pathlib import Path
from typing import Any

import yaml

from tests.support.paths import ROOT
from tests.support.traffic import run

DOCKERFILE = (ROOT / "Dockerfile").read_text()
FINAL = DOCKERFILE.rpartition("\nFROM ")[2]
COMPOSE = (ROOT / "docker-compose.yml").read_text()
BUILD = (ROOT / "docker-compose.build.yml").read_text()
OFFLINE = (ROOT / "docker-compose.offline.yml").read_text()
REPLICAS = (ROOT / "docker-compose.replicas.yml").read_text()
RUNNING = (ROOT / "docs" / "running.md").read_text()
RAY = (ROOT / "docker-compose.ray.yml").read_text()
CLUSTERS = (ROOT / "docs" / "clusters.md").read_text()


def service(text: str, name: str) -> dict[str, Any]:
    """Return one service of a compose file."""
    definition: dict[str, Any] = yaml.safe_load(text)["services"][name]
    return definition


def test_the_server_has_minimal_privileges() -> None:
    server = service(COMPOSE, "purlin")
    assert server["read_only"] is True
    assert server["cap_drop"] == ["ALL"]
    assert server["security_opt"] == ["no-new-privileges:true"]
    assert {"mem_limit", "cpus", "pids_limit"} <= server.keys()
    assert server["ports"] == ["${PURLIN_BIND:-127.0.0.1}:${PURLIN_PORT:-8000}:8000"]


def test_tuning_reaches_every_server() -> None:
    assert "PURLIN_TUNING" in service(COMPOSE, "purlin")["environment"]
    for name in ("replica-1", "builder"):
        assert service(REPLICAS, name)["environment"]["PURLIN_TUNING"] == "${PURLIN_TUNING:-}"


def test_replicas_take_the_variables_of_a_single_server() -> None:
    single = {entry.split("=")[0] for entry in service(COMPOSE, "purlin")["environment"]}
    builder = service(REPLICAS, "builder")["environment"]
    replica = service(REPLICAS, "replica-1")["environment"]
    assert single <= builder.keys()
    assert single - replica.keys() == {"PURLIN_DEMO", "PURLIN_WATCH"}


def test_the_build_extends_the_server() -> None:
    build = service(BUILD, "build")
    assert build["extends"] == {"file": "docker-compose.yml", "service": "purlin"}
    assert build["profiles"] == ["build"]
    assert re.fullmatch(r"\$\{SOURCES:\?.+\}:/sources:ro", build["volumes"][0])
    assert build["restart"] == "no"
    # Beside those of the server.
    assert build["environment"] == ["PURLIN_MILVUS_TOKEN"]


def test_the_server_runs_without_a_network() -> None:
    assert service(OFFLINE, "purlin") == {"network_mode": "none"}
    assert "-f docker-compose.yml -f docker-compose.offline.yml" in RUNNING


def test_every_variable_is_documented() -> None:
    variables = set(re.findall(r"\$\{([A-Z_]+)", COMPOSE + BUILD))
    assert variables == {name for name in variables if f"`{name}`" in RUNNING}


def test_the_image_is_not_root() -> None:
    assert re.search(r"^USER [1-9]\d*:[1-9]\d*$", FINAL, re.MULTILINE)
    assert "VOLUME /data" in FINAL
    assert "PURLIN_HOME=/data" in FINAL
    assert "HEALTHCHECK" in FINAL
    assert "/readyz" in FINAL


def test_demo_corpora_get_better_vectors_while_they_are_served() -> None:
    """Encoding them in the image would keep the page away for half an hour."""
    assert "purlin index demo --encoder static" in DOCKERFILE
    # What the server reads for it.
    assert "COPY --from=reference /usr/share/doc /usr/share/doc" in FINAL
    assert "PURLIN_DEMO=${PURLIN_DEMO:-1}" in service(COMPOSE, "purlin")["environment"]
    assert service(REPLICAS, "builder")["environment"]["PURLIN_DEMO"] == "${PURLIN_DEMO:-1}"


def test_another_processor_only_installs_packages() -> None:
    """Under emulation, encoding the demo corpora would take hours."""
    stages = re.findall(
        r"^FROM (--platform=\$BUILDPLATFORM )?\S+(?: AS (\w+))?$", DOCKERFILE, re.MULTILINE
    )
    emulated = [name for platform, name in stages if not platform]

    assert emulated == ["dependencies", "demo", ""]
    assert "FROM building AS demo" in DOCKERFILE
    assert "docker buildx build --platform linux/amd64,linux/arm64" in RUNNING


def test_the_stages_of_both_processors_are_the_same() -> None:
    here, there = re.findall(
        r"^FROM [^\n]+ AS (?:building|dependencies)\n(.*?)\n\n",
        DOCKERFILE,
        re.MULTILINE | re.DOTALL,
    )
    assert here == there


def test_no_file_names_a_host() -> None:
    for text in (DOCKERFILE, COMPOSE, BUILD, OFFLINE):
        hosts = set(re.findall(r"\b[a-z0-9-]+\.[a-z0-9.-]+\.?(?:com|org|net|io|dev)\b", text))
        assert not hosts
        assert not re.search(r"https?://(?!127\.0\.0\.1)", text)


def test_serving_does_not_depend_on_torch() -> None:
    dependencies = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    training = ("torch", "transformers", "sentence")
    assert not [dependency for dependency in dependencies if dependency.startswith(training)]


def test_the_build_context_has_all_copied_files() -> None:
    ignore_lines = (ROOT / ".dockerignore").read_text().splitlines()
    context = {line[1:] for line in ignore_lines if line.startswith("!")}
    copied = {
        word
        for line in re.findall(r"^COPY ([^-].*)$", DOCKERFILE, re.MULTILINE)
        for word in line.split()[:-1]
        if word != "."
    }
    setuptools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    packages = set(setuptools["package-dir"].values())

    assert {name.split("/")[0] for name in copied} <= context
    assert packages <= context
    assert all((ROOT / name).exists() for name in context)


def test_the_demo_stage_needs_only_index(tmp_path: Path) -> None:
    """`purlin index demo` runs without the packages app and training."""
    shutil.copytree(ROOT / "purlin", tmp_path / "purlin")
    shutil.copytree(ROOT / "index", tmp_path / "purlin" / "index")
    command = [sys.executable, "-P", "-m", "purlin", "index", "demo", "--help"]
    result = run(command, cwd=tmp_path, PYTHONPATH=str(tmp_path))

    assert result.returncode == 0, result.stderr


def test_ray_nodes_need_a_token() -> None:
    nodes = yaml.safe_load(RAY)["services"]
    assert nodes.keys() == {"head", "worker", "build"}
    for node in nodes.values():
        assert node["environment"]["RAY_AUTH_MODE"] == "token"
        assert node["environment"]["RAY_AUTH_TOKEN"].startswith("${RAY_AUTH_TOKEN:?")
        assert node["cap_drop"] == ["ALL"]
        assert "ports" not in node
    assert "docker compose -f docker-compose.ray.yml" in CLUSTERS
