"""The compose files with a real engine and a built image.

`make test-long` runs them, see docs/reliability.md. The image is `purlin` or PURLIN_IMAGE; without
it, or without an engine, these tests are skipped. Containers, networks and volumes have names of
their own and are removed. Nothing is pulled or built.
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

from purlin.app.keys import new_key
from tests.support.paths import ROOT
from tests.support.serving import until
from tests.support.traffic import HOST, START_S, Load, Request, run

pytestmark = pytest.mark.long
SHARE = float(os.environ.get("SHARE", "1"))
IMAGE = os.environ.get("PURLIN_IMAGE", "purlin")
PROXY_IMAGE = os.environ.get("HAPROXY_IMAGE", "haproxy:3.2")
REPLICAS = "docker-compose.replicas.yml"
DEMO = {"code", "products", "python"}
QUESTION = "Which exception does int() raise for a text that is no number?"
REQUESTS: list[Request] = [
    ("POST", "/search", {"corpus": "python", "query": "read the lines of a file", "k": 20}),
    ("POST", "/search", {"corpus": "code", "query": "compress bytes", "k": 20, "explain": True}),
    ("POST", "/search", {"corpus": "products", "query": "usb cable", "mode": "lexical"}),
    ("POST", "/qa", {"corpus": "python", "question": QUESTION}),
    (
        "POST",
        "/classify",
        {"texts": ["the goalkeeper was injured"], "labels": ["sport", "politics"]},
    ),
]
# Run inside a container: reads a request per line, and writes its status and JSON on one line.
_INSIDE = """
import json, sys, urllib.request
for line in sys.stdin:
    method, path, body = json.loads(line)
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request("http://127.0.0.1:8000" + path, data, headers, method=method)
    with urllib.request.urlopen(request, timeout=120) as reply:
        print(json.dumps([reply.status, json.loads(reply.read())]))
"""

# Builds a corpus of one function in the builder.
_BUILD = """
mkdir /tmp/source
printf 'def add(a, b):\\n    return a + b\\n' > /tmp/source/numbers.py
purlin index build code /tmp/source --name project
"""


def _works(*command: str) -> bool:
    try:
        return run(command).returncode == 0
    except FileNotFoundError:
        return False


@pytest.fixture(scope="module", autouse=True)
def compose() -> Sequence[str]:
    """Return the compose command: Docker's plugin, or the older standalone program."""
    if not _works("docker", "image", "inspect", IMAGE):
        pytest.skip(f"takes a container engine and an image {IMAGE!r}, see docs/running.md")

    for command in (["docker", "compose"], ["docker-compose"]):
        if _works(*command, "version"):
            return command

    pytest.skip("takes docker compose: apt-get install docker-compose")


class Project:
    """A compose project that is up, from `files`; `services` are those of its servers."""

    def __init__(
        self,
        compose: Sequence[str],
        env: dict[str, str],
        files: Sequence[str] = ("docker-compose.yml",),
        services: Sequence[str] = ("purlin",),
    ) -> None:
        self._compose = compose
        self._files, self._services = files, services
        names = {"PURLIN_IMAGE": IMAGE, "COMPOSE_PROJECT_NAME": f"purlin-test-{os.getpid()}"}
        self._env = os.environ | names | env

    def do(self, *words: str, files: Sequence[str] = ()) -> str:
        """Run a compose command to its end, with the project's files or others."""
        file_options = [word for file in files or self._files for word in ("-f", file)]
        result = subprocess.run(
            [*self._compose, *file_options, *words],
            cwd=ROOT,
            env=self._env,
            capture_output=True,
            text=True,
            check=False,
        )

        assert result.returncode == 0, result.stderr

        return result.stdout

    def servers(self) -> list[str]:
        """Return the ids of the servers' containers."""
        return self.do("ps", "-q", *self._services).split()

    def url(self, container: str) -> str:
        """Return the URL of a server on this host."""
        return f"http://{docker('port', container, '8000/tcp').split()[0]}"


def docker(*words: str, stdin: str | None = None) -> str:
    """Run a docker command that succeeds, and return what it prints."""
    result = subprocess.run(
        ["docker", *words], input=stdin, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


@contextmanager
def up(
    compose: Sequence[str],
    *words: str,
    files: Sequence[str] = ("docker-compose.yml",),
    services: Sequence[str] = ("purlin",),
    **env: str,
) -> Iterator[Project]:
    """Run `docker compose up` in a fresh project, and remove the project afterwards.

    Prints how many seconds it took until all servers were healthy.
    """

    def healthy() -> bool:
        return all(_health(container) == "healthy" for container in project.servers())

    project = Project(compose, env, files, services)
    started = time.monotonic()
    try:
        project.do("up", "-d", "--no-build", *words)
        until(healthy, START_S)
        print(f"\n{' '.join([*files, *words])}: healthy after {time.monotonic() - started:.0f} s")
        yield project
    finally:
        project.do("down", "-v", "-t", "5")


def inspected(container: str) -> Any:
    """Return what `docker inspect` reports of a container."""
    return json.loads(docker("inspect", container))[0]


def _health(container: str) -> str:
    state = inspected(container)["State"]
    assert state["Running"], docker("logs", container)
    return str(state["Health"]["Status"])


def _peak(container: str) -> str:
    """Describe the peak memory of a container, page cache included, from cgroup v2 or v1."""
    script = (
        "cd /sys/fs/cgroup; cat memory.peak memory.stat || "
        "cat memory/memory.max_usage_in_bytes memory/memory.stat"
    )
    peak, *stat = docker("exec", container, "sh", "-c", script).splitlines()
    now = dict(line.split() for line in stat)
    own = int(now.get("rss") or now["anon"])
    return f"peak {int(peak) / 2**20:.0f} MB, of which its own at last {own / 2**20:.0f} MB"


def ask_all(client: httpx.Client) -> None:
    """Send every kind of request, and check that each has an answer."""
    for method, path, body in REQUESTS:
        reply = client.request(method, path, json=body)
        assert reply.status_code == 200, reply.text
        assert _answers(reply.json()), reply.text


def _answers(reply: dict[str, Any]) -> Any:
    return reply.get("hits") or reply.get("results") or reply.get("answers")


@contextmanager
def client(url: str, **options: Any) -> Iterator[httpx.Client]:
    """Yield a client of one server."""
    with httpx.Client(base_url=url, timeout=120, trust_env=False, **options) as opened:
        yield opened


def states(server_client: httpx.Client) -> dict[str, str]:
    """Return the state of every corpus by name."""
    corpora = server_client.get("/corpora").json()["corpora"]
    return {corpus["name"]: corpus["state"] for corpus in corpora}


def free_ports(count: int) -> int:
    """Return the first of so many consecutive free ports."""
    for _ in range(100):
        first = random.randrange(20_000, 30_000)
        with ExitStack() as listeners, suppress(OSError):
            for port in range(first, first + count):
                listeners.enter_context(socket.create_server((HOST, port)))
            return first

    raise AssertionError("no free ports")


def test_without_any_network(compose: Sequence[str]) -> None:
    with up(compose, files=["docker-compose.yml", "docker-compose.offline.yml"]) as project:
        (server,) = project.servers()
        assert docker("exec", server, "ls", "/sys/class/net").split() == ["lo"]

        stdin = "".join(json.dumps(request) + "\n" for request in REQUESTS)
        replies = docker("exec", "-i", server, "python", "-c", _INSIDE, stdin=stdin).splitlines()

        assert len(replies) == len(REQUESTS)

        for status, reply in map(json.loads, replies):
            assert status == 200
            assert _answers(reply)

        command = ["purlin", "search", "python", "open a file"]
        assert "open" in project.do("exec", "-T", "purlin", *command)


def test_one_cpu_one_gigabyte_and_a_read_only_root(compose: Sequence[str]) -> None:
    """docker-compose.yml sets the limits and the read-only root by default."""
    port = str(free_ports(1))
    with up(compose, PURLIN_PORT=port) as project:
        (server,) = project.servers()
        limits = inspected(server)["HostConfig"]

        assert limits["Memory"] == 2**30
        assert limits["NanoCpus"] == 10**9
        assert limits["ReadonlyRootfs"] is True

        url = project.url(server)
        with client(url) as server_client:
            assert states(server_client) == dict.fromkeys(DEMO, "serving")

            ask_all(server_client)

            count = max(10, int(2_000 * SHARE))
            texts = [f"text {n} about sorting numbers and files" for n in range(count)]
            labels = [f"label {n}" for n in range(20)]
            response = server_client.post("/classify", json={"texts": texts, "labels": labels})

            assert response.status_code == 200

            with Load(url, lambda choose: choose.choice(REQUESTS), clients=4) as load:
                time.sleep(max(5, 60 * SHARE))
            print(_peak(server), dict(load.statuses), dict(load.lost))

            # 503: no slot was free in time.
            assert load.statuses.keys() <= {200, 503}
            assert load.statuses[200] > 10
            assert not load.lost

            ask_all(server_client)

        written = run(["docker", "exec", server, "touch", "/app", "/venv/x", "/etc/x"])
        assert written.stderr.count("Read-only file system") == 3, written.stderr

        docker("exec", server, "touch", "/tmp/x", "/data/x")

        container = inspected(server)

        assert docker("diff", server) == ""
        assert container["RestartCount"] == 0
        assert container["State"]["OOMKilled"] is False


def write_sources(directory: Path, version: int) -> None:
    """Write 300 functions that only this version has."""
    directory.mkdir(exist_ok=True)
    for number in range(300):
        function = f"def f{number}():\n    return 'version{version} of {number}'\n"
        (directory / f"m{number}.py").write_text(function)

    # User 10001 of the container reads them.
    for path in [directory, *directory.iterdir()]:
        path.chmod(0o755)


def test_two_servers_behind_one_volume(compose: Sequence[str], tmp_path: Path) -> None:
    """Both serve what a third container builds or one of them activates, and lose no request."""
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
        for server_client in both:
            assert states(server_client) == dict.fromkeys(DEMO, "serving")

        loads = [searching(url, headers) for url in urls]
        with loads[0], loads[1]:
            builds = []
            for version in (1, 2):
                write_sources(sources, version)
                words = ["run", "--rm", "build", "code", "/sources", "--name", "project"]
                project.do(*words, files=["docker-compose.build.yml"])
                builds.append(served_by_both(both, version))

            activated = both[0].post("/corpora/project/activate", json={"build": builds[0]})
            assert activated.status_code == 200, activated.text
            assert served_by_both(both, 1) == builds[0] < builds[1]

        for server, load in zip(servers, loads, strict=True):
            print(_peak(server), dict(load.statuses), dict(load.lost))

        docker("stop", servers[0])
        ask_all(both[1])

    for load in loads:
        load.assert_all_answered()


def test_replicas_behind_a_proxy(compose: Sequence[str]) -> None:
    """Only the builder writes; what it builds is served, and a replica that stops costs no request."""
    if not _works("docker", "image", "inspect", PROXY_IMAGE):
        pytest.skip(f"takes an image: docker pull {PROXY_IMAGE}")

    port = str(free_ports(1))
    services = ["replica-1", "replica-2", "replica-3", "builder"]
    env = {"PURLIN_PORT": port, "PURLIN_CPUS": "0.5"}
    with up(compose, files=[REPLICAS], services=services, **env) as project:
        *replicas, _ = (project.do("ps", "-q", name).strip() for name in services)
        for replica in replicas:
            written = run(["docker", "exec", replica, "touch", "/data/x"])
            assert "Read-only file system" in written.stderr

        url = f"http://{HOST}:{port}"
        with client(url) as proxy:
            until(lambda: proxy.get("/readyz").status_code == 200, START_S)
            ask_all(proxy)

            with searching(url, {}) as load:
                load.await_answers(20, 60)
                docker("stop", replicas[0])
                project.do("exec", "-T", "builder", "sh", "-c", _BUILD)
                until(lambda: states(proxy).get("project") == "serving", 60)
                load.await_answers(20, 60)

            body = {"corpus": "project", "query": "add two numbers"}
            assert proxy.post("/search", json=body).json()["hits"][0]["title"] == "add"

    load.assert_all_answered()


def searching(url: str, headers: dict[str, str]) -> Load:
    """Return the load of one client that searches."""
    searches = REQUESTS[:3]
    return Load(
        url, lambda choose: choose.choice(searches), clients=1, pause_s=0.05, headers=headers
    )


def served_by_both(both: Sequence[httpx.Client], version: int) -> str:
    """Wait until both servers find what only this version has, and return its build."""
    query = {"corpus": "project", "query": f"version{version}", "mode": "lexical"}

    def build_with_version(server_client: httpx.Client) -> str | None:
        reply = server_client.post("/search", json=query).json()
        hits = reply.get("hits")
        # Other versions have a part of the word, too.
        return reply["build"] if hits and f"version{version} " in hits[0]["text"] else None

    until(lambda: all(map(build_with_version, both)), 120)
    builds = set(map(build_with_version, both))

    assert len(builds) == 1

    return str(builds.pop())
