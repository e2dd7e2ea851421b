"""Send requests to a service on this machine, in a process of its own, and time the replies.

    python -m benchmarks.speed.load < job.json

The job is {port, clients, warm_up, requests: [{method, path, body}, ...]}. Each client has one
connection and takes the next request when its last one is answered, so the load is bounded by the
number of clients and ends with the last request. Prints one JSON object: requests, errors, seconds,
rate (per second), p50_ms and p95_ms. A reply other than 200 is an error and is not timed.
"""

from __future__ import annotations

import http.client
import json
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from subprocess import run
from typing import Any

import numpy as np

TIMEOUT_SECONDS = 120
JOB_SECONDS = 900


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str
    body: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Load:
    """What one run of a load measured."""

    clients: int
    requests: int
    errors: int
    seconds: float
    rate: float
    p50_ms: float
    p95_ms: float


class Client:
    """One connection to a port of this machine; opened again after a failure."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_SECONDS)

    def send(self, request: Request) -> tuple[int, bytes]:
        """Status and content of the reply; status 0 if there is none."""
        content = None if request.body is None else json.dumps(request.body)
        headers = {"Content-Type": "application/json"} if content is not None else {}

        try:
            self._connection.request(request.method, request.path, content, headers)
            reply = self._connection.getresponse()
            return reply.status, reply.read()
        except (OSError, http.client.HTTPException):
            self._connection.close()
            return 0, b""

    def content(self, request: Request) -> bytes:
        """Content of the reply. Raises RuntimeError for a status other than 200."""
        status, content = self.send(request)
        if status != 200:
            raise RuntimeError(f"{request.path} answers {status}: {content[:300]!r}")
        return content

    def close(self) -> None:
        self._connection.close()


def send_all(port: int, requests: Sequence[Request], clients: int, warm_up: int) -> Load:
    """Send the first `warm_up` requests untimed, then all others once, and measure these."""
    queue = iter(requests)
    lock = threading.Lock()
    run_clients(port, islice(queue, warm_up), lock, clients)

    started = time.perf_counter()
    latencies, errors = run_clients(port, queue, lock, clients)
    return summary(clients, latencies, errors, time.perf_counter() - started)


def run_clients(
    port: int, queue: Any, lock: threading.Lock, clients: int
) -> tuple[list[float], int]:
    """Milliseconds of each request that succeeded, and the number of those that did not."""
    latencies: list[float] = []
    failures: list[int] = []

    def work() -> None:
        client = Client(port)
        while True:
            with lock:
                request = next(queue, None)
            if request is None:
                client.close()
                return

            started = time.perf_counter()
            status, _ = client.send(request)
            milliseconds = (time.perf_counter() - started) * 1000
            if status == 200:
                latencies.append(milliseconds)
            else:
                failures.append(status)

    threads = [threading.Thread(target=work) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return latencies, len(failures)


def summary(clients: int, latencies: Sequence[float], errors: int, seconds: float) -> Load:
    """Raises ValueError if no request succeeded."""
    if not latencies:
        raise ValueError(f"all {errors} requests failed")

    p50, p95 = np.percentile(latencies, [50, 95])
    rate = len(latencies) / seconds
    return Load(clients, len(latencies), errors, seconds, rate, float(p50), float(p95))


def measure(port: int, requests: Sequence[Request], clients: int, warm_up: int = 0) -> Load:
    """Run `send_all` in a process of its own, so that it shares no lock with what it measures."""
    job = {
        "port": port,
        "clients": clients,
        "warm_up": warm_up,
        "requests": [asdict(request) for request in requests],
    }

    output = run(
        [sys.executable, "-m", "benchmarks.speed.load"],
        input=json.dumps(job).encode(),
        capture_output=True,
        timeout=JOB_SECONDS,
    )

    if output.returncode:
        raise RuntimeError(output.stderr.decode()[-2000:])

    return Load(**json.loads(output.stdout))


def main() -> None:
    job = json.load(sys.stdin)
    requests = [Request(**request) for request in job["requests"]]
    load = send_all(job["port"], requests, job["clients"], job["warm_up"])
    print(json.dumps(asdict(load)))


if __name__ == "__main__":
    main()
