"""Training and encoding by several processes and machines, by the commands that the docs give."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from purlin.index import builds
from purlin.index.search.dense import VECTORS_FILE
from tests.support.code_pairs import save_code_bert
from tests.support.files import write_jsonl
from tests.support.nodes import Node, two_nodes
from tests.support.santa import write_recipe
from tests.support.traffic import free_port, run
from tests.support.training_runs import metrics_rows

# Without --multi_gpu, which means several devices of any kind, it starts one process, whatever number is asked for.
LAUNCH = [sys.executable, *"-m accelerate.commands.launch --multi_gpu --mixed_precision no".split()]
PURLIN = [sys.executable, "-m", "purlin"]
RAY = [sys.executable, "-m", "ray.scripts.scripts"]


def finished(process: subprocess.Popen[str], seconds: float = 240) -> str:
    """Wait for a command, and return its output; fails if the command did."""
    output, _ = process.communicate(timeout=seconds)
    assert process.returncode == 0, output[-4000:]
    return output


def kill(process: subprocess.Popen[str]) -> None:
    """Kill a command and everything that it started."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


# ---- training


def santa(recipe: Path, out: Path) -> list[object]:
    """Return `purlin train santa` as a launcher takes it."""
    return ["-m", "purlin", "train", "santa", "--config", recipe, "--out", out, "--cpu"]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Recipe and output of a run in one process."""
    home = tmp_path_factory.mktemp("alone")
    recipe = write_recipe(home, save_code_bert(home / "bert"))
    done = run([sys.executable, *santa(recipe, home / "out")])
    assert done.returncode == 0, done.stderr

    return recipe, home / "out"


def assert_trained_alike(first: Path, second: Path) -> None:
    """Compare a run of one process with one of two, which drop out other units."""
    for stage in ("pretrain", "finetune"):
        rows = zip(metrics_rows(first / stage), metrics_rows(second / stage), strict=True)
        for first_row, second_row in rows:
            assert second_row.keys() == first_row.keys()
            assert second_row.get("loss") == pytest.approx(first_row.get("loss"), rel=0.1)
    assert json.loads((second / "tiny/encoder.json").read_text())["name"] == "tiny"


@pytest.mark.long
def test_accelerate_launch_with_two_processes_trains_as_one_does(
    alone: tuple[Path, Path], tmp_path: Path
) -> None:
    recipe, out = alone
    launcher = [*LAUNCH, "--num_processes", 2, "--main_process_port", free_port()]

    done = run([*launcher, *santa(recipe, tmp_path / "out")])

    assert done.returncode == 0, done.stderr[-4000:]
    assert "2 processes" in done.stderr
    assert_trained_alike(out, tmp_path / "out")


@pytest.mark.long
@pytest.mark.timeout(600)
def test_two_nodes_train_as_one_does(alone: tuple[Path, Path], tmp_path: Path) -> None:
    recipe, out = alone
    with two_nodes() as nodes:
        processes = [
            node.start(
                *LAUNCH,
                *("--num_machines", 2, "--num_processes", 2, "--machine_rank", rank),
                *("--main_process_ip", nodes[0].address, "--main_process_port", 29500),
                *santa(recipe, tmp_path / "out"),
                env={"GLOO_SOCKET_IFNAME": node.device},
            )
            for rank, node in enumerate(nodes)
        ]
        try:
            for process in processes:
                finished(process)
        finally:
            for process in processes:
                kill(process)

    assert_trained_alike(out, tmp_path / "out")


# ---- encoding


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus of 3,000 products, built by this machine alone; returns its home."""
    home = tmp_path_factory.mktemp("home")
    rows = (
        {"_id": str(row), "title": f"Lamp {row}", "text": "bright and warm " * (row % 9)}
        for row in range(3000)
    )
    write_jsonl(home / "corpus.jsonl", rows)
    done = run(build(home, "alone"))
    assert done.returncode == 0, done.stderr

    return home


def build(
    home: Path, name: str, address: str | None = None, encoder: str = "static"
) -> list[object]:
    """Return the command that builds the corpus, with a Ray cluster if it has an address."""
    options = ["--name", name, "--home", home, "--encoder", encoder]
    options += ["--ray", address] if address else []
    return [*PURLIN, "index", "build", "product", home / "corpus.jsonl", *options]


def vectors_of(home: Path, name: str) -> np.ndarray[tuple[int, ...], np.dtype[np.float16]]:
    vectors: np.ndarray[tuple[int, ...], np.dtype[np.float16]] = np.load(
        builds.current(home, name) / "base" / VECTORS_FILE
    )
    return vectors


def test_build_with_ray_has_the_vectors_of_one_machine(shop: Path) -> None:
    done = run(build(shop, "by-ray", "local"), RAY_AUTH_MODE="disabled")

    assert done.returncode == 0, done.stderr
    assert "3,000 documents" in done.stdout
    np.testing.assert_array_equal(vectors_of(shop, "by-ray"), vectors_of(shop, "alone"))


def test_address_without_cluster_builds_nothing(shop: Path) -> None:
    done = run(build(shop, "nothing", "127.0.0.1:1"))

    assert done.returncode == 1
    assert "No Ray cluster answers at '127.0.0.1:1'" in done.stderr
    assert not builds.exists(shop, "nothing")


@pytest.fixture
def cluster() -> Iterator[tuple[Node, Node, subprocess.Popen[str]]]:
    """Two nodes with a Ray cluster of one CPU each, and the process that keeps the second alive."""
    with two_nodes() as (head, other):
        env = {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
        common = ["--num-cpus", 1, "--block", "--disable-usage-stats"]
        address = f"{head.address}:6379"
        leader = head.start(
            *RAY, "start", "--head", "--node-ip-address", head.address, "--port", 6379,
            "--include-dashboard", "false", *common, env=env,
        )  # fmt: skip
        time.sleep(8)
        follower = other.start(
            *RAY,
            "start",
            "--address",
            address,
            "--node-ip-address",
            other.address,
            *common,
            env=env,
        )
        time.sleep(8)
        try:
            yield head, other, follower
        finally:
            kill(follower)
            kill(leader)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("loss", ["killed", "silent"])
def test_lost_node_loses_no_vector(
    shop: Path, cluster: tuple[Node, Node, subprocess.Popen[str]], loss: str
) -> None:
    head, other, follower = cluster
    name = f"lost-{loss}"
    command = build(shop, name, f"{head.address}:6379", "transformer")

    started = time.monotonic()
    process = head.start(*command, env={"RAY_AUTH_MODE": "disabled"})
    time.sleep(20)
    if loss == "killed":
        kill(follower)
    else:
        other.cut()
    lost_at = time.monotonic()
    output = finished(process, 600)
    print(f"{loss}: {lost_at - started:.0f} s before, {time.monotonic() - lost_at:.0f} s after")

    assert "3,000 documents" in output
    here = run(build(shop, "here", encoder="transformer"))
    assert here.returncode == 0, here.stderr
    np.testing.assert_allclose(vectors_of(shop, name), vectors_of(shop, "here"), atol=1e-3)
