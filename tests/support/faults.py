"""Faults that several tests cause: generated requests, damaged files, and kills under load."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import requests
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable

from purlin.app.corpora.open_corpora import OpenCorpora
from purlin.app.encoding import Encoders
from purlin.app.keys import new_key
from purlin.index import builds
from purlin.index.errors import Damaged
from purlin.index.search.corpus import Corpus
from tests.support.hash_encoder import HashEncoder
from tests.support.serving import FUNCTIONS, until
from tests.support.traffic import Request, Retrying, Server

SEARCH: Request = ("POST", "/search", {"corpus": "code", "query": "sort numbers"})
KEY, KEY_LINE = new_key("test", ["search", "classify", "qa", "admin"])
ADMIN = {"Authorization": f"Bearer {KEY}"}


# ---- requests generated from the OpenAPI document


def conforms(server: Server, existing: dict[str, Any], each: int) -> Counter[int]:
    """Send generated requests to every operation and check the replies against the description.

    Up to `each` requests are valid and as many are not; half of them use the `existing` names.
    Returns how many replies had which status.
    """
    # Importing it takes a second, which other tests need not wait for.
    import schemathesis

    schema = schemathesis.openapi.from_url(f"{server.url}/openapi.json")
    statuses: Counter[int] = Counter()
    with requests.Session() as session:
        for result in schema.get_all_operations():
            operation = result.ok()
            has_input = operation.body or operation.path_parameters or operation.query

            for mode in schemathesis.GenerationMode:
                # An operation without input has no invalid requests.
                if mode.is_positive or has_input:
                    statuses += _send_generated(operation, mode, existing, each, session)

    return statuses


def _send_generated(
    operation: Any,
    mode: Any,
    existing: dict[str, Any],
    max_requests: int,
    session: requests.Session,
) -> Counter[int]:
    from schemathesis.specs.openapi import checks

    statuses: Counter[int] = Counter()
    reply_checks = [
        checks.status_code_conformance,
        checks.content_type_conformance,
        checks.response_schema_conformance,
    ]

    @settings(
        max_examples=max_requests,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(
        case=operation.as_strategy(mode),
        steered=st.booleans(),
        key=st.sampled_from([*[ADMIN] * 5, {}]),
    )
    def send(case: Any, steered: bool, key: dict[str, str]) -> None:
        if steered:
            _use_existing(case, existing)

        response = case.call(headers=key, session=session)
        statuses[response.status_code] += 1

        assert response.status_code < 500, response.text

        case.validate_response(response, checks=reply_checks)

    # Where any text is valid, there is no invalid request to generate.
    with suppress(Unsatisfiable):
        send()

    return statuses


def _use_existing(case: Any, existing: dict[str, Any]) -> None:
    for fields in (case.path_parameters, case.body):
        if isinstance(fields, dict):
            fields |= {name: value for name, value in existing.items() if name in fields}


# ---- damaged files


def _cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


def flip(at: float) -> Callable[[bytes], bytes]:
    """Return a function that flips one bit at a share of the content, from 0 to 1.

    Empty content gets a byte.
    """

    def flipped(content: bytes) -> bytes:
        if not content:
            return b"\1"
        position = int(at * (len(content) - 1))
        return content[:position] + bytes([content[position] ^ 1]) + content[position + 1 :]

    return flipped


DAMAGES = [_cut, lambda content: content[:-1], lambda content: b"", flip(0), flip(0.5), flip(1)]


def damaged_files(home: Path, damages: Sequence[Callable[[bytes], bytes]]) -> Iterator[Path]:
    """Damage CURRENT and each file of the active build in every way; restore each afterwards."""
    directory = builds.current(home, "code")
    files = sorted(path for path in directory.rglob("*") if path.is_file())
    for path in [directory.parent / "CURRENT", *files]:
        yield from damaged(path, damages)


def damaged(path: Path, damages: Sequence[Callable[[bytes], bytes]] = DAMAGES) -> Iterator[Path]:
    """Damage one file in one way after the other; restore it afterwards."""
    intact = path.read_bytes()
    for damage in damages:
        # Nothing can be cut from an empty file.
        if damage(intact) != intact:
            path.write_bytes(damage(intact))
            yield path
    path.write_bytes(intact)


def answers_or_names_file(home: Path, expected_hits: str, path: Path) -> bool:
    """Search a damaged corpus: it has the expected hits, or its error names the damaged file.

    Returns whether it was answered.
    """
    with closing(OpenCorpora(home, Encoders(HashEncoder()).of_build, timeout_s=30)) as corpora:
        try:
            with corpora.lease("code") as corpus:
                assert search_hits(corpus) == expected_hits
            return True
        except Damaged as error:
            message = error.message

        assert path.name in message
        assert corpora.status("code").state == "refused"

        return False


def search_hits(corpus: Corpus) -> str:
    """Return every field of the hits of one query."""
    return repr(corpus.search("read rows of a csv file", explain=True).hits)


# ---- kills


def kill_under_load(server: Server, kills: int, clients: int = 3) -> tuple[list[float], int, int]:
    """Kill and restart the server while clients repeat each request until it is answered rightly.

    Returns the seconds until ready of each restart, how many requests were answered, and in how
    many tries.
    """
    ended: list[bool] = []

    def ask_all(number: int) -> tuple[int, int]:
        choose = random.Random(number)
        answered = 0
        with closing(Retrying(server.url)) as client:
            while not ended:
                document = choose.choice(FUNCTIONS)
                body = {"corpus": "code", "query": document.title, "k": 1}
                response = client.ask(("POST", "/search", body))

                assert response.status_code == 200, response.text
                assert response.json()["hits"][0]["document_id"] == document.id

                answered += 1
            return answered, client.tries

    with ThreadPoolExecutor(clients) as pool:
        asking = [pool.submit(ask_all, number) for number in range(clients)]
        ready_s = []
        try:
            for _ in range(kills):
                time.sleep(0.3)
                server.kill()
                ready_s.append(server.start())
                until(lambda: server.client.post("/search", json=SEARCH[2]).status_code == 200)
        finally:
            ended.append(True)

        counts = [future.result() for future in asking]

    total_answered = sum(answered for answered, _ in counts)
    total_tries = sum(tries for _, tries in counts)
    return ready_s, total_answered, total_tries
