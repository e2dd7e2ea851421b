"""A server in its own process, faults of its machine, and clients whose load ends by itself."""

from __future__ import annotations

import asyncio
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.paths import ROOT
from tests.support.serving import until

HOST = "127.0.0.1"

# A server that is not ready after this long has failed, even on a busy machine.
START_S = 240.0
# A command that has not ended after this long hangs. On a machine that others kept busy, two processes
# needed three minutes to import torch, and were still at work after four.
RUN_S = 900.0
# How long a client repeats a request: the server may have to start first.
RETRY_S = START_S

Request = tuple[str, str, dict[str, Any] | None]  # method, path, JSON body


def purlin(*words: str | Path, before: Sequence[str] = (), script: str = "") -> list[str]:
    """Return a purlin command line.

    `before` is a command that runs it, such as a memory limit; `script` is run in place of purlin.
    """
    program = ["-c", script] if script else ["-m", "purlin"]
    return [*before, sys.executable, *program, *map(str, words)]


def run(
    command: Sequence[object], *, cwd: Path = ROOT, **env: str
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, with more variables, and capture what it prints."""
    return subprocess.run(
        [*map(str, command)],
        cwd=cwd,
        env=os.environ | env,
        capture_output=True,
        text=True,
        check=False,
        timeout=RUN_S,
    )


def free_port() -> int:
    """Return a port of the loopback that nobody listens on."""
    with socket.create_server((HOST, 0)) as listener:
        port: int = listener.getsockname()[1]
    return port


def port_holder() -> socket.socket:
    """Return a socket bound to a free port of the loopback, which a server can listen on.

    Until it is closed, nobody else is given that port, not even while the server starts again.
    """
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind((HOST, 0))
    return holder


# ---- the server


class Server:
    """`purlin serve` on a port that stays the same over restarts.

    Settings are passed on as PURLIN_ variables.
    """

    def __init__(
        self,
        home: Path,
        *,
        before: Sequence[str] = (),
        script: str = "",
        env: dict[str, str] | None = None,
        pass_fds: Sequence[int] = (),
        **settings: object,
    ) -> None:
        self._port_holder = port_holder()
        self.port: int = self._port_holder.getsockname()[1]
        self.url = f"http://{HOST}:{self.port}"
        self.client = httpx.Client(base_url=self.url, timeout=60, trust_env=False)
        words = ("serve", "--home", home, "--port", str(self.port))
        self._command = purlin(*words, before=before, script=script)

        variables = {f"PURLIN_{name.upper()}": str(value) for name, value in settings.items()}
        self._env = os.environ | (env or {}) | variables
        self._pass_fds = pass_fds

        # Closed with the server.
        self._log = tempfile.TemporaryFile("w+b")  # noqa: SIM115
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The process of the last start."""
        assert self._process is not None
        return self._process

    @property
    def pid(self) -> int:
        return self.process.pid

    def start(self) -> float:
        """Start the server, wait until it is ready, and return how many seconds that took."""
        started = time.monotonic()
        self._process = subprocess.Popen(
            self._command,
            cwd=ROOT,
            env=self._env,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            pass_fds=self._pass_fds,
        )
        while not self._ready():
            assert self._process.poll() is None, self.log()
            assert time.monotonic() - started < START_S, self.log()

            time.sleep(0.02)

        return time.monotonic() - started

    def _ready(self) -> bool:
        try:
            return self.client.get("/readyz").status_code == 200
        except httpx.TransportError:
            return False

    def kill(self) -> None:
        """Send SIGKILL, so that the server cannot finish anything."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """Send SIGTERM, and return the exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(180)

    def log(self) -> str:
        """Return everything that the server has written so far."""
        # Not by seek(): the server writes at the position of the same open file.
        descriptor = self._log.fileno()
        return os.pread(descriptor, os.fstat(descriptor).st_size, 0).decode()

    def close(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self.kill()
        self.client.close()
        self._port_holder.close()
        self._log.close()

    def metric(self, name: str) -> float:
        """Return a metric that has no labels."""
        text = self.client.get("/metrics").text
        match = re.search(rf"^{name} (\S+)$", text, re.MULTILINE)
        assert match is not None
        return float(match[1])

    # ---- from /proc

    def memory_mb(self) -> float:
        """Return the anonymous memory in MiB; the kernel can reclaim that of mapped files."""
        return _kilobytes(self.pid, "RssAnon") / 1024

    def peak_mb(self) -> float:
        """Return the peak memory in MiB, mapped files included."""
        return _kilobytes(self.pid, "VmHWM") / 1024

    def open_files(self) -> int:
        return len(list(Path(f"/proc/{self.pid}/fd").iterdir()))


def _kilobytes(pid: int, name: str) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    match = re.search(rf"^{name}:\s+(\d+) kB$", status, re.MULTILINE)
    assert match is not None
    return int(match[1])


@contextmanager
def running(home: Path, **options: Any) -> Iterator[Server]:
    """Yield a server that is ready, and kill it afterwards."""
    server = Server(home, **options)
    try:
        server.start()
        yield server
    finally:
        server.close()


# ---- clients


class Retrying:
    """A client that repeats a request until it is answered.

    It repeats at once after a lost connection, and after the Retry-After of a 503.
    """

    def __init__(self, url: str) -> None:
        self._client = httpx.Client(base_url=url, timeout=30, trust_env=False)
        self.tries = 0

    def ask(self, request: Request) -> httpx.Response:
        """Repeat a request until its status is not 503."""
        method, path, body = request
        deadline = time.monotonic() + RETRY_S
        while True:
            self.tries += 1
            try:
                response = self._client.request(method, path, json=body)
                if response.status_code != 503:
                    return response
                pause_s = float(response.headers.get("retry-after", 1))
            except httpx.TransportError:
                pause_s = 0.05

            assert time.monotonic() < deadline, f"no answer to {request}"

            time.sleep(pause_s)

    def close(self) -> None:
        self._client.close()


@dataclass
class Load:
    """Clients that send one request after the other until the block ends, or for `max_s` seconds.

    `statuses` counts the answers. `lost` counts the connections that ended without one, by error.
    `replies` has what `note` returned for each answer, except None.
    """

    url: str
    request: Callable[[random.Random], Request]
    clients: int = 3
    max_s: float = 300.0
    pause_s: float = 0.0
    note: Callable[[httpx.Response], Any] = lambda _: None
    headers: dict[str, str] = field(default_factory=dict)
    statuses: Counter[int] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)
    replies: set[Any] = field(default_factory=set)

    def __enter__(self) -> Load:
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._deadline = time.monotonic() + self.max_s
        self._pool = ThreadPoolExecutor(self.clients)
        self._asking: list[Future[None]] = [
            self._pool.submit(self._ask, number) for number in range(self.clients)
        ]
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._pool.shutdown()
        for asking in self._asking:
            asking.result()

    @property
    def answered(self) -> int:
        return sum(self.statuses.values())

    def await_answers(self, count: int, timeout_s: float = 120.0) -> None:
        """Wait until more than `count` further requests have been answered."""
        before = self.answered
        until(lambda: self.answered > before + count, timeout_s)

    def assert_all_answered(self) -> None:
        """Fail unless there were answers, all of status 200, and no connection ended without one."""
        assert self.statuses.keys() == {200}, self.statuses
        assert not self.lost, self.lost

    def _ask(self, number: int) -> None:
        choose = random.Random(number)
        with httpx.Client(
            base_url=self.url, timeout=60, trust_env=False, headers=self.headers
        ) as client:
            while not self._stop.wait(self.pause_s) and time.monotonic() < self._deadline:
                self._ask_once(client, self.request(choose))

    def _ask_once(self, client: httpx.Client, request: Request) -> None:
        method, path, body = request
        try:
            response = client.request(method, path, json=body)
        except httpx.TransportError as error:
            with self._lock:
                self.lost[f"{type(error).__name__}: {error}"] += 1
            self._stop.wait(0.02)
            return

        noted = self.note(response)
        with self._lock:
            self.statuses[response.status_code] += 1
            if noted is not None:
                self.replies.add(noted)


# ---- much load from one thread


@dataclass(frozen=True, slots=True)
class Reply:
    """Status and seconds from sending to the last byte; status 0 is a connection that ended."""

    status: int
    took_s: float


class Sender:
    """Sends requests over open connections, cheaply: the processor is left to the server."""

    def __init__(self, port: int, requests: Sequence[Request]) -> None:
        self._port = port
        self._requests = [_encoded(request) for request in requests]
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        self._sent = 0

    def closed(self, clients: int, seconds: float) -> list[Reply]:
        """Run clients that each send the next request as soon as the last is answered."""
        return asyncio.run(self._closed(clients, seconds))

    def offered(self, per_s: float, seconds: float) -> list[Reply]:
        """Send so many requests per second, whether earlier ones are answered or not."""
        return asyncio.run(self._offered(per_s, seconds))

    async def _closed(self, clients: int, seconds: float) -> list[Reply]:
        deadline = time.perf_counter() + seconds
        replies: list[Reply] = []

        async def client() -> None:
            while time.perf_counter() < deadline:
                replies.append(await self._send())

        await asyncio.gather(*(client() for _ in range(clients)))
        await self._hang_up()
        return replies

    async def _offered(self, per_s: float, seconds: float) -> list[Reply]:
        started = time.perf_counter()
        sending = []
        for number in range(int(per_s * seconds)):
            await asyncio.sleep(max(0.0, started + number / per_s - time.perf_counter()))
            sending.append(asyncio.create_task(self._send()))

        replies = await asyncio.gather(*sending)
        await self._hang_up()
        return replies

    async def _send(self) -> Reply:
        request = self._requests[self._sent % len(self._requests)]
        self._sent += 1
        started = time.perf_counter()
        try:
            status = await self._exchange(request)
        except (OSError, asyncio.IncompleteReadError):
            status = 0

        return Reply(status, time.perf_counter() - started)

    async def _exchange(self, request: bytes) -> int:
        reader, writer = await self._connection()
        try:
            writer.write(request)
            status = await _answer(reader)
        except (OSError, asyncio.IncompleteReadError):
            writer.close()
            raise

        self._idle.append((reader, writer))
        return status

    async def _connection(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        while self._idle:
            reader, writer = self._idle.pop()
            if not reader.at_eof():
                return reader, writer
            writer.close()
        return await asyncio.open_connection(HOST, self._port)

    async def _hang_up(self) -> None:
        for _, writer in self._idle:
            writer.close()
        await asyncio.gather(
            *(writer.wait_closed() for _, writer in self._idle), return_exceptions=True
        )
        self._idle.clear()


def _encoded(request: Request) -> bytes:
    method, path, body = request
    encoded = httpx.Request(method, f"http://{HOST}{path}", json=body)
    headers = [f"{name}: {value}" for name, value in encoded.headers.items()]
    lines = [f"{method} {path} HTTP/1.1", *headers, "", ""]
    return "\r\n".join(lines).encode() + encoded.read()


async def _answer(reader: asyncio.StreamReader) -> int:
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
    assert length is not None
    await reader.readexactly(int(length[1]))
    return int(head[9:12])


# ---- faults of the machine


@contextmanager
def small_disk(at: Path, megabytes: int) -> Iterator[Callable[[str], None]]:
    """Mount a small file system, and yield a function that remounts it `ro` or `rw`.

    Skips the test if mounting is not allowed.
    """
    if run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(at)]).returncode:
        pytest.skip("mounting a small disk takes root")

    def remount(how: str) -> None:
        remounted = run(["mount", "-o", f"remount,{how}", str(at)])
        assert remounted.returncode == 0, remounted.stderr

    try:
        yield remount
    finally:
        run(["umount", "--lazy", str(at)])


@contextmanager
def memory_limit(megabytes: int) -> Iterator[Sequence[str]]:
    """Yield a command prefix that limits the memory of a command by a cgroup.

    Skips the test if that is not allowed.
    """
    group = _memory_group()
    try:
        group.mkdir()
        # The names in cgroup v2 and v1.
        files = [group / "memory.max", group / "memory.limit_in_bytes"]
        limit = next(file for file in files if file.exists())
        limit.write_text(str(megabytes * 2**20))
    except (OSError, StopIteration):
        pytest.skip("limiting memory takes root and a memory cgroup that can be written to")

    try:
        yield ["sh", "-c", f'echo $$ > "{group}/cgroup.procs" && exec "$@"', "sh"]
    finally:
        until(lambda: not (group / "cgroup.procs").read_text())
        group.rmdir()


def _memory_group() -> Path:
    """Return the directory of a new group below this process's own, in cgroup v1 or v2."""
    lines = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
    v1_paths = [path for _, controllers, path in lines if "memory" in controllers.split(",")]
    v2_paths = [path for _, controllers, path in lines if not controllers]

    root = Path("/sys/fs/cgroup/memory" if v1_paths else "/sys/fs/cgroup")
    own_group = [*v1_paths, *v2_paths, "/"][0].strip("/")
    return root / own_group / f"purlin-test-{os.getpid()}"
