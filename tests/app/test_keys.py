"""API keys: their lines, where they come from, and the command that makes one."""

from __future__ import annotations

import hashlib
import logging
from pathlib import Path

import httpx
import pytest
from fastapi.testclient import TestClient
from typer.testing import CliRunner

from purlin.app.keys import MAX_KEYS_BYTES, Key, Keyring, parse_keys
from purlin.app.main import create_app
from purlin.app.settings import Settings
from purlin.cli.commands import app as command_line
from purlin.index.errors import InvalidInput
from tests.support.hash_encoder import HashEncoder
from tests.support.serving import (
    ADMIN_KEY,
    API_KEYS,
    CLASSIFY_KEY,
    SEARCH_KEY,
    bearer,
    problem,
    serving,
)

SEARCH = {"query": "sort", "corpus": "code"}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (SEARCH_KEY, "1 words"),
        (f"shop search {SEARCH_KEY} 5 more", "5 words"),
        (f"shop find {SEARCH_KEY}", "search, classify, qa, admin"),
        (f"shop search, {SEARCH_KEY}", "list of scopes"),
        (f"sh/op search {SEARCH_KEY}", "not a valid name"),
        ("shop search short-secret", "at least 20"),
        ("shop search sha256:abc", "64 hex digits"),
        (f"shop search {SEARCH_KEY} 0", "not a valid rate"),
        (f"shop search {SEARCH_KEY} fast", "not a valid rate"),
        (f"a search {SEARCH_KEY}; a search {CLASSIFY_KEY}", "same name"),
        (f"a search {SEARCH_KEY}; b search {SEARCH_KEY}", "same key"),
        ("\n".join(f"k{n} search {'0' * 20}{n}" for n in range(1001)), "at most 1000"),
    ],
)
def test_a_bad_line_is_refused_without_quoting_it(line: str, words: str) -> None:
    with pytest.raises(InvalidInput, match=words) as raised:
        parse_keys(line, "PURLIN_KEYS")
    assert "PURLIN_KEYS" in raised.value.message
    secrets = (SEARCH_KEY, CLASSIFY_KEY, "short-secret", "abc")
    assert not any(secret in raised.value.message for secret in secrets)


def test_keys_come_from_a_file_or_the_environment(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "keys"
    file.write_text(API_KEYS)

    assert [key.name for key in Keyring(file=file).keys] == ["reader", "sorter", "ops"]

    monkeypatch.setenv("PURLIN_KEYS_FILE", str(file))
    with serving(home) as client:
        problem(client.post("/search", json=SEARCH), 401)
    monkeypatch.setenv("PURLIN_KEYS", API_KEYS)
    with pytest.raises(InvalidInput, match="one of them"):
        create_app(Settings())
    monkeypatch.setenv("PURLIN_KEYS_FILE", "")
    with serving(home) as client:
        assert client.post("/search", json=SEARCH, headers=bearer(SEARCH_KEY)).status_code == 200


def test_a_file_without_keys_does_not_let_all_in(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("# none yet\n")
    with pytest.raises(InvalidInput, match="keys has no key"):
        create_app(Settings(keys_file=file))
    with pytest.raises(InvalidInput, match="PURLIN_KEYS has no key"):
        Keyring(" ; ")


def test_invalid_key_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    (tmp_path / "long").write_bytes(b"#" * (MAX_KEYS_BYTES + 1))
    for name, words in (
        ("binary", "cannot be read"),
        ("missing", "cannot be read"),
        ("long", "more than 1,048,576"),
    ):
        with pytest.raises(InvalidInput, match=words):
            Keyring(file=tmp_path / name)


def test_keys_that_cannot_be_used_leave_those_before(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "keys"
    file.write_text(f"shop search {SEARCH_KEY}")
    keyring = Keyring(file=file)
    before = keyring.keys
    for text in ("", "shop search short", f"shop search {SEARCH_KEY}; shop qa {ADMIN_KEY}"):
        file.write_text(text)
        keyring.note_hangup()
        keyring.read_again()

        assert (keyring.keys, keyring.is_outdated) == (before, False)
        assert "the keys stay as they were" in caplog.messages[-1]
        assert str(file) in caplog.messages[-1]

    file.write_text(f"shop qa {ADMIN_KEY}")
    keyring.read_again()
    assert [(key.name, key.scopes) for key in keyring.keys] == [("shop", {"qa"})]


def test_keys_are_never_logged(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    settings = Settings(home=home, keys=API_KEYS, host="0.0.0.0")
    with TestClient(create_app(settings, HashEncoder())) as client:
        for secret in (SEARCH_KEY, ADMIN_KEY, "an-unknown-key-of-tests"):
            client.post("/search", json=SEARCH, headers=bearer(secret))
            client.post("/search", json={"query": 1}, headers=bearer(secret))

    output = caplog.text + repr(settings) + settings.model_dump_json()
    secrets = (SEARCH_KEY, CLASSIFY_KEY, ADMIN_KEY, "an-unknown-key-of-tests")
    assert not any(secret in output for secret in secrets)


def test_the_command_makes_a_working_key(home: Path) -> None:
    arguments = ["key", "shop", "search", "qa", "--per-minute", "600"]
    result = CliRunner().invoke(command_line, arguments)
    assert result.exit_code == 0

    secret = result.stderr.split()[-1]
    assert secret not in result.stdout
    assert parse_keys(result.stdout, "test") == (
        Key("shop", frozenset({"search", "qa"}), hashlib.sha256(secret.encode()).digest(), 600),
    )

    with serving(home, keys=result.stdout) as client:
        response: httpx.Response = client.post("/search", json=SEARCH, headers=bearer(secret))
        assert response.status_code == 200


def test_the_command_refuses_unknown_scopes() -> None:
    result = CliRunner().invoke(command_line, ["key", "shop", "everything"])
    assert isinstance(result.exception, InvalidInput)
