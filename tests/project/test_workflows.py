"""What the workflows guarantee; `make check` validates them against their schema."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from tests.support.paths import ROOT

MAKEFILE = (ROOT / "Makefile").read_text()
WORKFLOWS = {
    path.stem: yaml.safe_load(path.read_text())
    for path in (ROOT / ".github" / "workflows").glob("*.yml")
}


def steps(workflow: str) -> list[dict[str, Any]]:
    return [step for job in WORKFLOWS[workflow]["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize("workflow", WORKFLOWS)
def test_every_make_target_exists(workflow: str) -> None:
    commands = "\n".join(step.get("run", "") for step in steps(workflow))
    targets = re.findall(r"\bmake ([a-z-]+)", commands)

    assert targets
    assert not [name for name in targets if not re.search(rf"^{name}:", MAKEFILE, re.MULTILINE)]


@pytest.mark.parametrize("workflow", WORKFLOWS)
def test_jobs_can_read_only(workflow: str) -> None:
    assert WORKFLOWS[workflow]["permissions"] == {"contents": "read"}


def test_only_a_tag_publishes() -> None:
    jobs = WORKFLOWS["publish"]["jobs"]
    writing = {name for name, job in jobs.items() if "write" in job.get("permissions", {}).values()}
    [image] = [step["with"] for step in jobs["image"]["steps"] if "platforms" in str(step)]

    assert writing == {"index", "image"}
    assert jobs["index"]["if"] == "github.ref_type == 'tag'"
    assert image["push"] == "${{ github.ref_type == 'tag' }}"
    assert image["platforms"] == "linux/amd64,linux/arm64"


def test_no_token_is_stored() -> None:
    used = {
        name
        for path in (ROOT / ".github" / "workflows").glob("*.yml")
        for name in re.findall(r"secrets\.(\w+)", path.read_text())
    }
    assert used == {"GITHUB_TOKEN"}  # made for each run
