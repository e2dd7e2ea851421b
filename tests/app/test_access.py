from __future__ import annotations

import hashlib
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st

from purlin.app.access import Access, accepted_scopes
from purlin.app.keys import SCOPES, Keyring
from purlin.app.main import create_app
from purlin.app.settings import Settings
from purlin.index import builds
from purlin.index.builds.catalogs import CLASSIFIERS
from purlin.index.classify.trained import publish_classifier
from tests.support.hash_encoder import HashEncoder
from tests.support.serving import (
    ADMIN_KEY,
    API_KEYS,
    CLASSIFY_KEY,
    FUNCTIONS,
    SEARCH_KEY,
    bearer,
    make,
    numbered,
    problem,
    serving,
    until,
)
from tests.support.tiny import LABELS, staged

SEARCH = {"query": "sort", "corpus": "code"}
ALLOWED_HOSTS = """
localhost:8000 127.0.0.1 192.168.0.7:8000 [::1]:8000 purlin:8000 nas.local localhost.:8000
host.docker.internal:8000 purlin.web.svc.cluster.local. Search.Shop.Example search.shop.example.:443
"""
OTHER_HOSTS = """
shop.example shop.example. 127.0.0.1.evil.example:8000 evil.localhost.example [::1 evil.example:port
"""
CLASSIFY = {"texts": ["a text"], "labels": ["one", "two"]}


@pytest.fixture(scope="module")
def kept_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same as `home`, for tests that change nothing there."""
    home = tmp_path_factory.mktemp("home")
    make(home, "code", FUNCTIONS)
    return home


@pytest.fixture(scope="module")
def client(kept_home: Path) -> Iterator[TestClient]:
    with serving(kept_home, keys=API_KEYS) as client:
        yield client


@pytest.fixture(scope="module")
def open_client(kept_home: Path) -> Iterator[TestClient]:
    with serving(kept_home, hosts="search.shop.example") as client:
        yield client


def test_a_key_allows_only_its_scopes(client: TestClient) -> None:
    bodies = {"/search": SEARCH, "/classify": CLASSIFY}
    for secret, allowed in ((SEARCH_KEY, "/search"), (CLASSIFY_KEY, "/classify")):
        for path, body in bodies.items():
            response = client.post(path, json=body, headers=bearer(secret))
            if path == allowed:
                assert response.status_code == 200
            else:
                assert path.strip("/") in problem(response, 403)["detail"]


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": ""},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer "},
        {"Authorization": SEARCH_KEY},
        {"Authorization": f"Basic {SEARCH_KEY}"},
        bearer("x" * 100_000),
        bearer(SEARCH_KEY[:-1]),
        bearer(hashlib.sha256(CLASSIFY_KEY.encode()).hexdigest()),
        bearer("sha256:" + hashlib.sha256(CLASSIFY_KEY.encode()).hexdigest()),
    ],
)
def test_an_unknown_key_is_refused(client: TestClient, headers: dict[str, str]) -> None:
    for path in ("/search", "/nothing/here", "/corpora", "/livez/", "/%2Flivez"):
        response = client.post(path, json=SEARCH, headers=headers)
        assert problem(response, 401)["type"] == "urn:purlin:problem:no-key"
        assert response.headers["www-authenticate"] == "Bearer"


def test_probes_need_no_key(client: TestClient) -> None:
    for path in ("/livez", "/openapi.json", "/"):
        assert client.get(path).status_code == 200
    # 503 while corpora are still being opened.
    assert client.get("/readyz").status_code in (200, 503)


def test_the_scheme_is_case_insensitive(client: TestClient) -> None:
    headers = {"Authorization": f"bEARER  {SEARCH_KEY}"}
    assert client.post("/search", json=SEARCH, headers=headers).status_code == 200


def test_a_key_over_its_rate_gets_retry_after(home: Path) -> None:
    now = 100.0
    statuses: list[tuple[int, str | None]] = []
    app = create_app(Settings(home=home), HashEncoder())
    keyring = Keyring(f"slow search {SEARCH_KEY} 12")
    limited = Access(app, keyring=keyring, routes=app.routes, clock=lambda: now)
    with TestClient(limited) as client:
        for elapsed_s in (0.0, 0.0, 0.0, 4.0, 1.0, 0.0, 600.0, 0.0, 0.0):
            now += elapsed_s
            response = client.get("/corpora/none", headers=bearer(SEARCH_KEY))
            statuses.append((response.status_code, response.headers.get("retry-after")))

    in_time, early, soon = (404, None), (429, "5"), (429, "1")
    assert statuses == [in_time, in_time, early, soon, in_time, early, in_time, in_time, early]


def test_rates_are_limited_per_key(client: TestClient) -> None:
    assert client.get("/corpora", headers=bearer(ADMIN_KEY)).status_code == 200
    refused = client.get("/corpora", headers=bearer(ADMIN_KEY))
    assert "6 requests per minute" in problem(refused, 429)["detail"]
    assert 1 <= int(refused.headers["retry-after"]) <= 10
    assert client.get("/corpora", headers=bearer(SEARCH_KEY)).status_code == 200


def test_an_admin_key_manages_builds(home: Path) -> None:
    first = builds.current(home, "code").name
    second = make(home, "code", [*FUNCTIONS, *numbered(1)]).name
    with serving(home, keys=f"ops admin {ADMIN_KEY}") as client:
        client.headers |= bearer(ADMIN_KEY)
        rolled_back = client.post("/corpora/code/rollback")

        assert rolled_back.json() == {"corpus": "code", "build": first}
        assert builds.current(home, "code").name == first
        assert "no build before" in problem(client.post("/corpora/code/rollback"), 404)["detail"]

        activated = client.post("/corpora/code/activate", json={"build": second})
        assert activated.json() == {"corpus": "code", "build": second}
        assert builds.current(home, "code").name == second
        assert problem(client.post("/corpora/code/activate", json={"build": "none"}), 404)["errors"]

        missing = problem(client.post("/corpora/code/activate", json={}), 422)
        assert missing["errors"][0]["field"] == "build"

        with builds.locked(home, "code"):
            problem(client.delete("/corpora/code"), 409)
        assert client.delete("/corpora/code").json() == {"corpus": "code"}
        assert builds.corpora(home) == []
        problem(client.delete("/corpora/code"), 404)
        assert problem(client.post("/corpora/..%2Fcode/rollback"), 404)
        assert problem(client.delete("/corpora/UPPER"), 422)["errors"][0]["field"] == "corpus"


def test_an_admin_key_manages_classifiers(tmp_path: Path) -> None:
    first, second = (
        publish_classifier(tmp_path, "tickets", staged(tmp_path / f"{number}", labels=labels))
        for number, labels in enumerate((LABELS, LABELS[::-1]))
    )

    with serving(tmp_path, keys=f"ops admin {ADMIN_KEY}") as client:
        client.headers |= bearer(ADMIN_KEY)
        rolled_back = client.post("/classifiers/tickets/rollback")
        assert rolled_back.json() == {"classifier": "tickets", "build": first}
        until(lambda: client.get("/classifiers/tickets").json()["build"] == first)
        assert client.get("/classifiers/tickets").json()["labels"] == [*LABELS]
        missing = problem(client.post("/classifiers/tickets/rollback"), 404)
        assert "Classifier 'tickets' has no build before" in missing["detail"]

        activated = client.post("/classifiers/tickets/activate", json={"build": second})
        assert activated.json() == {"classifier": "tickets", "build": second}
        unlisted = problem(client.post("/classifiers/tickets/activate", json={"build": "x"}), 404)
        assert unlisted["errors"][0]["field"] == "build"

        assert client.delete("/classifiers/tickets").json() == {"classifier": "tickets"}
        assert builds.names(tmp_path, CLASSIFIERS) == []
        problem(client.delete("/classifiers/tickets"), 404)
        assert (
            problem(client.delete("/classifiers/UPPER"), 422)["errors"][0]["field"] == "classifier"
        )
        assert client.get("/classifiers").json() == {"classifiers": []}


def test_changes_need_an_admin_key(home: Path) -> None:
    calls = [
        (method, f"/{name}{path}")
        for name in ("corpora/code", "classifiers/tickets")
        for method, path in (("POST", "/activate"), ("POST", "/rollback"), ("DELETE", ""))
    ]
    for keys, secret in (("", ""), (API_KEYS, SEARCH_KEY)):
        with serving(home, keys=keys) as client:
            for method, path in calls:
                response = client.request(method, path, headers=bearer(secret))
                assert "admin" in problem(response, 403)["detail"]

    assert builds.corpora(home) == ["code"]


def test_a_path_where_nothing_can_be_changed_is_not_found(home: Path) -> None:
    for keys in ("", API_KEYS):
        with serving(home, keys=keys) as client:
            client.headers |= bearer(SEARCH_KEY)
            for path in ("/corpora/code/nothing", "/corpora/code/activate/", "/classifiers/x/y"):
                assert f"nothing at {path}" in problem(client.post(path), 404)["detail"]
            for path in ("/corpora/code", "/corpora/code/activate"):
                assert "does not accept PUT" in problem(client.put(path), 405)["detail"]


def test_without_keys_reading_is_open(home: Path) -> None:
    with serving(home) as client:
        assert client.post("/search", json=SEARCH).status_code == 200
        assert client.post("/classify", json=CLASSIFY, headers=bearer("unknown")).status_code == 200
        assert client.get("/corpora/code").status_code == 200


def test_a_line_break_after_a_path_is_refused(client: TestClient) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    headers = bearer(CLASSIFY_KEY)
    for path, methods in paths.items():
        for method in methods:
            response = client.request(method, path + "%0A", json=SEARCH, headers=headers)
            assert "line break" in problem(response, 404)["detail"]


@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        *((host, True) for host in ALLOWED_HOSTS.split()),
        *((host, False) for host in OTHER_HOSTS.split()),
    ],
)
def test_without_keys_the_host_is_checked(
    open_client: TestClient, host: str, allowed: bool
) -> None:
    headers = {"Host": host}
    for response in (
        open_client.post("/search", json=SEARCH, headers=headers),
        open_client.get("/corpora", headers=headers),
    ):
        if allowed:
            assert response.status_code == 200
        else:
            assert "set PURLIN_HOSTS" in problem(response, 403)["detail"]
    assert open_client.get("/livez", headers=headers).status_code == 200


def test_the_host_check_can_be_turned_off(home: Path) -> None:
    elsewhere = {"Host": "search.example"}
    with serving(home, hosts="*") as client:
        assert client.get("/corpora", headers=elsewhere).status_code == 200
    with serving(home, keys=API_KEYS) as client:
        assert client.get("/corpora", headers=elsewhere | bearer(SEARCH_KEY)).status_code == 200


def test_openapi_documents_every_scope(client: TestClient) -> None:
    openapi = client.get("/openapi.json").json()
    operations = [
        (method.upper(), path, operation)
        for path, methods in openapi["paths"].items()
        for method, operation in methods.items()
    ]
    for method, path, operation in operations:
        scopes = accepted_scopes(method, path)
        missing = f"{path} is missing in access._NEEDS"

        assert scopes is None or set(scopes) < set(SCOPES), missing

        documented = {"401", "403", "429"} & operation["responses"].keys()
        assert documented == (set() if scopes is None else {"401", "403", "429"})
        assert ("security" in operation) == (scopes is not None)

    managed = [
        path for method, path, _ in operations if accepted_scopes(method, path) == ("admin",)
    ]
    assert set(managed) == {
        f"/{kind}/{{name}}{change}"
        for kind in ("corpora", "classifiers")
        for change in ("/activate", "/rollback", "")
    }
    assert openapi["components"]["securitySchemes"] == {"key": {"type": "http", "scheme": "bearer"}}


@given(
    method=st.sampled_from(["GET", "POST", "DELETE", "PUT", "HEAD", "OPTIONS"]),
    path=st.text(max_size=30),
)
def test_only_listed_paths_are_open(method: str, path: str) -> None:
    listed = {"/", "/livez", "/readyz", "/metrics", "/openapi.json"}
    assert (accepted_scopes(method, path) is None) == (path in listed or path.startswith("/web/"))


def test_security_headers_are_sent(client: TestClient) -> None:
    for response in (client.get("/livez"), client.post("/search"), client.get("/nothing")):
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["x-frame-options"] == "DENY"
        assert "default-src 'none'" in response.headers["content-security-policy"]


def test_cors_allows_only_configured_origins(home: Path) -> None:
    headers = {"Origin": "https://shop.example", "Access-Control-Request-Method": "POST"}
    headers["Access-Control-Request-Headers"] = "authorization,content-type"
    with serving(home, keys=API_KEYS) as client:
        preflight = client.options("/search", headers=headers)
        assert "access-control-allow-origin" not in preflight.headers

    origins = "https://shop.example, https://other.example"
    with serving(home, keys=API_KEYS, cors_origins=origins) as client:
        preflight = client.options("/search", headers=headers)
        assert preflight.status_code == 200
        assert preflight.headers["access-control-allow-origin"] == "https://shop.example"

        unlisted = headers | {"Origin": "https://x.example"}
        assert client.options("/search", headers=unlisted).status_code == 400

        refused = client.post("/search", json=SEARCH, headers={"Origin": "https://shop.example"})
        assert refused.status_code == 401
        assert refused.headers["access-control-allow-origin"] == "https://shop.example"


@pytest.mark.parametrize(
    ("host", "keys", "warned"),
    [
        ("0.0.0.0", "", True),
        ("::", "", True),
        ("box.example", "", True),
        ("0.0.0.0", API_KEYS, False),
        ("127.0.0.1", "", False),
        ("127.8.8.8", "", False),
        ("::1", "", False),
        ("localhost", "", False),
    ],
)
def test_listening_publicly_without_keys_warns(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, host: str, keys: str, warned: bool
) -> None:
    with serving(tmp_path, host=host, keys=keys):
        pass
    warnings = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert [f"LISTENING ON {host}" in warning for warning in warnings] == ([True] if warned else [])


@pytest.mark.parametrize("workers", ["1", "2"])
def test_why_the_server_does_not_start_is_logged_as_the_rest(
    home: Path, monkeypatch: pytest.MonkeyPatch, workers: str
) -> None:
    monkeypatch.setenv("PURLIN_LOG", "json")
    monkeypatch.setenv("PURLIN_KEYS_FILE", str(home / "none"))
    command = [sys.executable, "-m", "purlin", "serve", "--home", str(home), "--port", "0"]
    ended = subprocess.run(
        [*command, "--encoder", "static", "--workers", workers], stderr=subprocess.PIPE, check=False
    )
    line = json.loads(ended.stderr)
    assert (ended.returncode, line["level"]) == (1, "error")
    assert "set PURLIN_KEYS_FILE to a text file that this user may read" in line["message"]
