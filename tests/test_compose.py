"""The compose files with a real engine and a built image; `make test-long` runs them, see docs/reliability.md.

The image is `purlin`, or what `PURLIN_IMAGE` says; without it, or without an engine, these tests are skipped.
Containers, networks and volumes have names of their own and are removed. Nothing is fetched or built.
"""

from __future__ import annotations

import json
import os
import random
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.access import new_key
from tests.traffic import HOST, ROOT, START_S, Load, Request, run, until

pytestmark = pytest.mark.long
SHARE = float(os.environ.get("SHARE", "1"))
IMAGE = os.environ.get("PURLIN_IMAGE", "purlin")
DEMO = {"code", "products", "python"}
ASKED: list[Request] = [
    ("POST", "/search", {"corpus": "python", "query": "read the lines of a file", "k": 20}),
    ("POST", "/search", {"corpus": "code", "query": "compress bytes", "k": 20, "explain": True}),
    ("POST", "/search", {"corpus": "products", "query": "usb cable", "mode": "lexical"}),
    (
        "POST",
        "/qa",
        {
            "corpus": "python",
            "question": "Which exception does int() raise for a text that is no number?",
        },
    ),
    (
        "POST",
        "/classify",
        {"texts": ["the goalkeeper was injured"], "labels": ["sport", "politics"]},
    ),
]
# Run inside a container: each line of the input is a request, each line of the output the status and the JSON.
_INSIDE = """
import json, sys, urllib.request
for line in sys.stdin:
    method, path, body = json.loads(line)
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    asked = urllib.request.Request("http://127.0.0.1:8000" + path, data, headers, method=method)
    with urllib.request.urlopen(asked, timeout=120) as reply:
        print(json.dumps([reply.status, json.loads(reply.read())]))
"""


def _works(*command: str) -> bool:
    try:
        return run(command).returncode == 0
    except FileNotFoundError:
        return False


@pytest.fixture(scope="module", autouse=True)
def compose() -> Sequence[str]:
    """Words of a command: Docker's plugin, or the program that was there before it."""
    if not _works("docker", "image", "inspect", IMAGE):
        pytest.skip(f"takes a container engine and an image {IMAGE!r}, see docs/running.md")
    found = [
        words for words in (["docker", "compose"], ["docker-compose"]) if _works(*words, "version")
    ]
    if not found:
        pytest.skip("takes docker compose")
    return found[0]


class Project:
    """A compose project that is up; its servers are `purlin`."""

    def __init__(self, compose: Sequence[str], env: dict[str, str]) -> None:
        self._compose = compose
        self._env = (
            os.environ
            | {"PURLIN_IMAGE": IMAGE, "COMPOSE_PROJECT_NAME": f"purlin-test-{os.getpid()}"}
            | env
        )

    def do(self, *words: str, files: Sequence[str] = ("docker-compose.yml",)) -> str:
        """Run a compose command to its end."""
        named = [word for file in files for word in ("-f", file)]
        done = subprocess.run(
            [*self._compose, *named, *words],
            cwd=ROOT,
            env=self._env,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def servers(self) -> list[str]:
        """Ids of the servers' containers."""
        return self.do("ps", "-q", "purlin").split()

    def url(self, container: str) -> str:
        """Where a server is reached from here."""
        return f"http://{docker('port', container, '8000/tcp').split()[0]}"


def docker(*words: str, given: str | None = None) -> str:
    done = subprocess.run(
        ["docker", *words], input=given, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def up(
    compose: Sequence[str], *words: str, files: Sequence[str] = (), **env: str
) -> Iterator[Project]:
    """`docker compose up` in a fresh project, which is gone afterwards; prints the seconds until all are healthy."""
    project = Project(compose, env)
    every = ["docker-compose.yml", *files]
    started = time.monotonic()
    try:
        project.do("up", "-d", "--no-build", *words, files=every)
        until(
            lambda: all(_health(container) == "healthy" for container in project.servers()), START_S
        )
        print(f"\n{' '.join([*files, *words])}: healthy after {time.monotonic() - started:.0f} s")
        yield project
    finally:
        project.do("down", "-v", "-t", "5", files=every)


def inspected(container: str) -> Any:
    return json.loads(docker("inspect", container))[0]


def _health(container: str) -> str:
    state = inspected(container)["State"]
    assert state["Running"], docker("logs", container)
    return str(state["Health"]["Status"])


def _peak(container: str) -> str:
    """What the kernel says of the most memory that the container had, page cache included; v2 and v1 of cgroups."""
    script = "cd /sys/fs/cgroup; cat memory.peak memory.stat || cat memory/memory.max_usage_in_bytes memory/memory.stat"
    peak, *stat = docker("exec", container, "sh", "-c", script).splitlines()
    now = dict(line.split() for line in stat)
    own = int(now.get("rss") or now["anon"])
    return f"peak {int(peak) / 2**20:.0f} MB, of which its own at last {own / 2**20:.0f} MB"


def ask_all(client: httpx.Client) -> None:
    """Every kind of request, answered as it should be."""
    for method, path, body in ASKED:
        reply = client.request(method, path, json=body)
        assert reply.status_code == 200, reply.text
        assert _answers(reply.json()), reply.text


def _answers(reply: dict[str, Any]) -> Any:
    return reply.get("hits") or reply.get("results") or reply.get("answers")


@contextmanager
def client(url: str, **options: Any) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=url, timeout=120, trust_env=False, **options) as opened:
        yield opened


def states(asking: httpx.Client) -> dict[str, str]:
    return {one["name"]: one["state"] for one in asking.get("/corpora").json()["corpora"]}


def free_ports(count: int) -> int:
    """The first of so many free ports in a row."""
    for _ in range(100):
        first = random.randrange(20_000, 30_000)
        with ExitStack() as taken, suppress(OSError):
            for port in range(first, first + count):
                taken.enter_context(socket.create_server((HOST, port)))
            return first
    raise AssertionError("no free ports")


def test_without_any_network(compose: Sequence[str]) -> None:
    with up(compose, files=["docker-compose.offline.yml"]) as project:
        (server,) = project.servers()
        assert docker("exec", server, "ls", "/sys/class/net").split() == ["lo"]
        given = "".join(json.dumps(asked) + "\n" for asked in ASKED)
        replies = docker("exec", "-i", server, "python", "-c", _INSIDE, given=given).splitlines()
        assert len(replies) == len(ASKED)
        for status, reply in map(json.loads, replies):
            assert status == 200
            assert _answers(reply)
        assert "open" in project.do(
            "exec", "-T", "purlin", "purlin", "search", "python", "open a file"
        )


def test_one_cpu_one_gigabyte_and_a_read_only_root(compose: Sequence[str]) -> None:
    """The limits and the root file system are those that docker-compose.yml sets by default."""
    port = str(free_ports(1))
    with up(compose, PURLIN_PORT=port) as project:
        (server,) = project.servers()
        limits = inspected(server)["HostConfig"]
        assert (limits["Memory"], limits["NanoCpus"], limits["ReadonlyRootfs"]) == (
            2**30,
            10**9,
            True,
        )
        with client(project.url(server)) as asking:
            assert states(asking) == dict.fromkeys(DEMO, "serving")
            ask_all(asking)
            texts = [
                f"text {n} about sorting numbers and files"
                for n in range(max(10, int(2_000 * SHARE)))
            ]
            labels = [f"label {n}" for n in range(20)]
            assert (
                asking.post("/classify", json={"texts": texts, "labels": labels}).status_code == 200
            )
            with Load(project.url(server), lambda choose: choose.choice(ASKED), clients=4) as load:
                time.sleep(max(5, 60 * SHARE))
            print(_peak(server), dict(load.statuses), dict(load.lost))
            assert load.statuses.keys() <= {200, 503}  # 503: no place was free in time
            assert load.statuses[200] > 10
            assert not load.lost
            ask_all(asking)
        written = run(["docker", "exec", server, "touch", "/app", "/venv/x", "/models/x"])
        assert written.stderr.count("Read-only file system") == 3, written.stderr
        docker("exec", server, "touch", "/tmp/x", "/data/x")
        found = inspected(server)
        assert docker("diff", server) == ""
        assert (found["RestartCount"], found["State"]["OOMKilled"]) == (0, False)


def write_sources(directory: Path, version: int) -> None:
    """300 functions that only this version has. User 10001 reads them."""
    directory.mkdir(exist_ok=True)
    for number in range(300):
        (directory / f"m{number}.py").write_text(
            f"def f{number}():\n    return 'version{version} of {number}'\n"
        )
    for path in [directory, *directory.iterdir()]:
        path.chmod(0o755)


def test_two_servers_behind_one_volume(compose: Sequence[str], tmp_path: Path) -> None:
    """A build by a third container is served by both, and so is what one of them activates; none misses a request."""
    first = free_ports(2)
    key, line = new_key("test", ["search", "classify", "qa", "admin"])
    headers = {"Authorization": f"Bearer {key}"}
    sources = tmp_path / "sources"
    env = {"PURLIN_PORT": f"{first}-{first + 1}", "PURLIN_KEYS": line, "SOURCES": str(sources)}
    with up(compose, "--scale", "purlin=2", **env) as project, ExitStack() as stack:
        servers = project.servers()
        urls = [project.url(server) for server in servers]
        assert {httpx.URL(url).port for url in urls} == {first, first + 1}
        both = [stack.enter_context(client(url, headers=headers)) for url in urls]
        for asking in both:
            assert states(asking) == dict.fromkeys(DEMO, "serving")
        with searching(urls[0], headers) as one, searching(urls[1], headers) as other:
            builds = []
            for version in (1, 2):
                write_sources(sources, version)
                words = ["run", "--rm", "build", "code", "/sources", "--name", "project"]
                project.do(*words, files=["docker-compose.build.yml"])
                builds.append(served_by_both(both, version))
            activated = both[0].post("/corpora/project/activate", json={"build": builds[0]})
            assert activated.status_code == 200, activated.text
            assert served_by_both(both, 1) == builds[0] < builds[1]
        print(
            *map(_peak, servers),
            dict(one.statuses),
            dict(other.statuses),
            dict(one.lost),
            dict(other.lost),
        )
        docker("stop", servers[0])
        ask_all(both[1])
    for load in (one, other):
        assert load.statuses.keys() == {200}
        assert not load.lost


def searching(url: str, headers: dict[str, str]) -> Load:
    return Load(
        url, lambda choose: choose.choice(ASKED[:3]), clients=1, pause_s=0.05, headers=headers
    )


def served_by_both(both: Sequence[httpx.Client], version: int) -> str:
    """Wait until both servers find what only this version has; returns the build, which is the same."""

    def found(asking: httpx.Client) -> str | None:
        reply = asking.post(
            "/search", json={"corpus": "project", "query": f"version{version}", "mode": "lexical"}
        )
        return reply.json()["build"] if reply.status_code == 200 and reply.json()["hits"] else None

    until(lambda: all(map(found, both)), 120)
    builds = set(map(found, both))
    assert len(builds) == 1
    return str(builds.pop())
