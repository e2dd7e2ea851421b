"""What a file holds, told by its name and its first lines, and what is read of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from purlin.index.records import Content, Document, Skipped, SourceFile
from purlin.index.sources import open_source
from purlin.index.sources.code.contents import MAX_JSON_BYTES, LeftOut, file_type, language_name
from purlin.index.sources.code.repository import files, names
from tests.support.code_documents import documents, read
from tests.support.files import write_tree


@pytest.mark.parametrize(
    ("path", "content", "language"),
    [
        ("src/a.py", "code", "python"),
        ("a/typing.pyi", "code", "python"),
        ("lib/a.HPP", "code", "cpp"),
        ("Rakefile", "code", "ruby"),
        ("schema.proto", "code", "protobuf"),
        ("style.scss", "code", "css"),
        ("README", "docs", "text"),
        ("docs/a.md", "docs", "markdown"),
        ("notes/plan.ipynb", "docs", "notebook"),
        ("Dockerfile", "code", "docker"),
        ("Dockerfile.prod", "code", "docker"),
        ("deploy/web.dockerfile", "code", "docker"),
        ("infra/main.tf", "code", "hcl"),
        ("infra/prod.tfvars", "config", "hcl"),
        ("CMakeLists.txt", "config", "cmake"),
        ("a/schema.sql", "code", "sql"),
        (".pre-commit-config.yaml", "config", "yaml"),
        (".env.example", "config", "ini"),
        ("deploy/backup.timer", "config", "ini"),
        ("sys/unix/Makefile.src", "config", "make"),
        ("bin/Makefile_gfortran", "config", "make"),
        ("Dockerfile-dev", "code", "docker"),
        ("Jenkinsfile.nightly", "config", "groovy"),
        ("build_docker.py", "code", "python"),
        ("debian/kiln.cron.d", "config", "crontab"),
        ("debian/kiln.cron.daily", "code", "bash"),
        ("debian/kiln.postinst", "code", "bash"),
        ("modules/files/user_data.tftpl", "code", "template"),
        ("values.yaml.tftpl", "config", "yaml"),
        ("changelogs/fragments/12-kiln.yml", "docs", "yaml"),
        # What a template is made into tells.
        ("src/config.h.in", "code", "c"),
        ("bin/run.sh.in", "code", "bash"),
        ("phpunit.xml.dist", "config", "xml"),
        ("settings.py.example", "code", "python"),
        ("chart/_helpers.tpl", "code", "template"),
        ("README.Debian", "docs", "text"),
        ("docs/cookbook.pod", "docs", "pod"),
        ("src/grammar.y", "code", "yacc"),
        ("http.rl", "code", "ragel"),
        ("src/queue.ads", "code", "ada"),
        ("schema.prisma", "code", "prisma"),
        ("db/orders.pkb", "code", "plsql"),
        ("blink/blink.ino", "code", "cpp"),
        ("Kiln.podspec", "code", "ruby"),
        ("lib/dune", "config", "dune"),
        ("DESCRIPTION", "config", "text"),
        ("NAMESPACE", "config", "text"),
        ("kiln.nimble", "config", "nim"),
        ("man/fire.Rd", "docs", "rd"),
        ("vignettes/kiln.Rmd", "docs", "markdown"),
        ("functions", None, None),
    ],
)
def test_names_tell_the_content(path: str, content: str | None, language: str | None) -> None:
    kind = file_type(path)
    assert (getattr(kind, "content", None), getattr(kind, "language", None)) == (content, language)


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("yarn.lock", "a lock file"),
        ("web/package-lock.json", "a lock file"),
        (".env", "may hold secrets"),
        ("a/.env.production", "may hold secrets"),
        ("deploy/server.pem", "may hold secrets"),
        ("etc/shadow", "may hold secrets"),
        ("etc/ssh/ssh_host_rsa_key", "may hold secrets"),
        ("etc/shadow.bak", "may hold secrets"),
        ("etc/ssl/site.key.old", "may hold secrets"),
        ("etc/default/kiln.env", "may hold secrets"),
        ("etc/nginx/htpasswd", "may hold secrets"),
        ("etc/ppp/chap-secrets", "may hold secrets"),
        ("etc/ipsec.secrets", "may hold secrets"),
        ("system-connections/home.nmconnection", "may hold secrets"),
        ("LICENSE.txt", "a licence"),
        ("data/rows.csv", "data rather than text"),
        ("logo.PNG", ""),
    ],
)
def test_names_that_are_never_read(path: str, reason: str) -> None:
    assert file_type(path) == LeftOut(reason)


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("etc/ssl/private/site", "-----BEGIN CERTIFICATE-----\nMII=\n-----BEGIN RSA PRIVATE KEY-----\nMII=\n"),
        ("conf.d/ca.backup", "-----BEGIN PRIVATE KEY-----\nMII=\n"),
        ("group_vars/all/vault.yml", "$ANSIBLE_VAULT;1.1;AES256\n6438\n"),
        (".env.example", "PORT=1\n-----BEGIN EC PRIVATE KEY-----\nMII=\n"),
        ("wg0.netdev", "[WireGuard]\nPrivateKey = 0123abcd=\n"),
        ("etc/wpa_supplicant/wpa_supplicant.conf", "network={\n\tpsk=\"kiln\"\n}\n"),
    ],
)  # fmt: skip
def test_configuration_with_keys_is_not_read(tmp_path: Path, path: str, content: str) -> None:
    write_tree(tmp_path, {path: content, "etc/hosts": "127.0.0.1 kiln\n"})
    items = read(tmp_path, content="config")
    reasons = {item.path: item.reason for item in items if isinstance(item, Skipped)}
    assert reasons == {path: "may hold secrets"}
    assert [item.location.path for item in items if isinstance(item, Document)] == ["etc/hosts"]


def test_only_text_of_a_bounded_size_is_read_from_directories_of_settings(tmp_path: Path) -> None:
    write_tree(tmp_path, {"etc/hosts": "127.0.0.1 kiln\n", "etc/large": "a b\n" * 1_000_000})
    (tmp_path / "etc/kiln.keys").write_bytes(b"\0\1\2" * 100)
    (tmp_path / "etc/random").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "etc/pipe")

    items = read(tmp_path, content="config")
    assert [item.location.path for item in items if isinstance(item, Document)] == ["etc/hosts"]


def test_content_chooses_files(tmp_path: Path) -> None:
    write_tree(
        tmp_path,
        {
            "a.py": "def f(): pass",
            "README.md": "# Title\n\nText.",
            "pyproject.toml": "[project]\n",
            "poetry.lock": "x",
            "logo.png": "x",
            ".github/workflows/ci.yml": "on: push\n",
            ".venv/x.toml": "x = 1\n",
        },
    )

    def read_paths(content: Content) -> list[str | None]:
        return [document.location.path for document in documents(tmp_path, content=content)]

    assert read_paths("code") == ["a.py"]
    with pytest.raises(AssertionError):
        read_paths("docs")

    items = {content: read(tmp_path, content=content) for content in ("docs", "config", "all")}
    lock = Skipped("poetry.lock", "a lock file", by_choice=True)

    assert [getattr(item, "id", item) for item in items["docs"]] == ["README.md::Title", lock]
    expected = [".github/workflows/ci.yml::(text)", lock, "pyproject.toml::(text)"]
    assert [getattr(item, "id", item) for item in items["config"]] == expected
    assert len(items["all"]) == 5


@pytest.mark.parametrize(
    ("path", "language"),
    [
        ("etc/fstab", "text"),
        ("roles/web/files/etc/exports.d/kiln.exports", "text"),
        ("nginx/sites-available/kiln", "text"),
        ("debian/control", "text"),
        ("inventory/production", "text"),
        ("cron.d/backup", "text"),
        ("group_vars/all", "yaml"),
        ("inventory/group_vars/all/dns", "yaml"),
        ("host_vars/kiln/network", "yaml"),
    ],
)
def test_directories_of_settings_tell_the_content(tmp_path: Path, path: str, language: str) -> None:
    write_tree(
        tmp_path,
        {path: "/srv/kiln  gss/krb5(rw)\n", "notes/exports.old": "/srv", "notes/fstab": "/srv"},
    )

    [document] = [item for item in read(tmp_path, content="config") if isinstance(item, Document)]

    assert (document.location.path, document.fields["language"]) == (path, language)


def test_code_in_a_directory_of_settings_stays_code(tmp_path: Path) -> None:
    write_tree(tmp_path, {"etc/init.d/kiln": "#!/bin/sh\nfire() {\n  echo fire\n}\n"})

    assert [document.title for document in documents(tmp_path)] == ["fire"]


@pytest.mark.parametrize("content", ["code", "docs", "config", "all"])
def test_names_are_those_of_the_files(tmp_path: Path, content: Content) -> None:
    write_tree(
        tmp_path,
        {
            "a.py": "",
            "b.md": "",
            "c.yml": "",
            "bin/run": "#!/bin/sh\n",
            "bin/notes": "no interpreter",
            "functions": 'in_path() {\n  type "$1" >/dev/null\n}\nif in_path jq; then\n  echo yes\nfi\n',
            "a.unheard": "x",
            "x.png": "",
            "poetry.lock": "",
        },
    )
    listed = [
        item.path for item in files(tmp_path, content=content) if isinstance(item, SourceFile)
    ]

    assert list(names(tmp_path, content)) == listed
    assert ("bin/run" in listed) == (content in ("code", "all"))
    assert ("functions" in listed) == (content in ("code", "all"))
    assert "bin/notes" not in listed


def test_open_source_takes_content(tmp_path: Path) -> None:
    write_tree(tmp_path, {"x/a.md": "# A\n", "y/a.py": "x = [\n1,\n]"})
    sources = open_source("code", [tmp_path / "x", tmp_path / "y"], content="docs")
    assert [item.path for item in sources] == ["x/a.md"]


@pytest.mark.parametrize(
    ("first_line", "language"),
    [
        ("#!/bin/bash -e", "bash"),
        ("#!/usr/bin/env python3", "python"),
        ("#!/usr/bin/env -S node --no-warnings", "javascript"),
        ("#! /usr/bin/ruby", "ruby"),
        ("#!/usr/bin/awk -f", "awk"),
        ("#!/usr/bin/perl -w", "perl"),
        ("#!/opt/bin/frobnicate", "script"),
        ("// Vectors. -*- C++ -*-", "cpp"),
        ("# -*- mode: ruby; indent: 2 -*-", "ruby"),
        ("# vim: set ft=python :", "python"),
        ("# shellcheck shell=dash", "bash"),
    ],
)
def test_a_script_without_a_suffix_is_read_by_its_first_line(
    tmp_path: Path, first_line: str, language: str
) -> None:
    write_tree(tmp_path, {"run": f"{first_line}\nx = 1\n"})
    (document,) = documents(tmp_path)
    assert document.fields["language"] == language


SHELL_LIBRARY = """
# Functions of the pump's service scripts.

pump_running () {
    [ -e "$PUMP_PID" ] && kill -0 "$(cat "$PUMP_PID")"
}

stop_pump() {
    local tries=0
    while pump_running; do
        tries=$((tries + 1))
        if [ "$tries" -gt 5 ]; then
            return 1
        fi
        sleep 1
    done
}
"""


def test_a_shell_library_has_neither_suffix_nor_interpreter(tmp_path: Path) -> None:
    write_tree(tmp_path, {"lib/functions": SHELL_LIBRARY, "lib/pump-1.14": SHELL_LIBRARY})
    by_path: dict[str | None, list[str]] = {}
    for document in documents(tmp_path):
        assert document.fields["language"] == "bash"
        by_path.setdefault(document.location.path, []).append(document.title)
    assert by_path.keys() == {"lib/functions", "lib/pump-1.14"}
    assert by_path["lib/functions"][:2] == ["pump_running", "stop_pump"]


@pytest.mark.parametrize(
    "content",
    [
        "Package: pump\nDepends: libc6,\n libpump (>= 1)\nDescription: water\n",
        "When the work is done, call stop().\nThen wait;\ndone is done.\n",
        "main() {\n  return 0;\n}\nint x;\nint y;\nint z;\nchar *s;\nfloat f;\n",
        "-*- coding: utf-8 -*-\n",
        "see vi: the editor\n",
        "",
        "fi\nfi\n\0",
    ],
)
def test_a_file_whose_kind_is_not_told_is_left_out_and_listed(tmp_path: Path, content: str) -> None:
    write_tree(tmp_path, {"notes": content, ".hidden": content, "a.unheard": SHELL_LIBRARY})
    reason = "neither its name nor its first lines tell what it holds"
    assert read(tmp_path, content="all") == [
        Skipped(name, reason, by_choice=True) for name in ("a.unheard", "notes")
    ]
    assert list(files(tmp_path)) == []


def test_rules_that_make_runs_are_configuration(tmp_path: Path) -> None:
    write_tree(tmp_path, {"debian/rules": "#!/usr/bin/make -f\n%:\n\tdh $@\n"})
    assert documents(tmp_path, content="all")[0].fields["content"] == "config"
    assert list(files(tmp_path)) == []


def test_endless_lines_do_not_slow_the_look_at_a_file(tmp_path: Path) -> None:
    lines = ["vi:" * 100_000, "-*- " * 100_000, ";" * 300_000, "a " * 200_000, "# line " * 50_000]
    write_tree(tmp_path, {f"f{number}": line for number, line in enumerate(lines)})
    assert all(isinstance(item, Skipped) for item in read(tmp_path, content="all"))


@pytest.mark.parametrize(
    ("name", "language"),
    [
        ("Golang", "go"),
        ("C++", "cpp"),
        (" JS ", "javascript"),
        ("Haskell", "haskell"),
        ("abc", "abc"),
    ],
)
def test_languages_have_other_names(name: str, language: str) -> None:
    assert language_name(name) == language


def test_headers_of_c_and_of_cpp(tmp_path: Path) -> None:
    write_tree(
        tmp_path,
        {
            "c.h": "struct a { int x; };\n",
            "cpp.h": "class A {\n public:\n  int x() { return 1; }\n};\n",
        },
    )
    expected = [("a", "c"), ("A", "cpp"), ("A.x", "cpp")]
    assert [(d.title, d.fields["language"]) for d in documents(tmp_path, content="all")] == expected


def test_large_json_is_data(tmp_path: Path) -> None:
    write_tree(tmp_path, {"a.json": f'["{"x" * MAX_JSON_BYTES}"]'})
    (item,) = read(tmp_path, content="all")
    assert item == Skipped(
        "a.json", "data rather than configuration: larger than 64 KiB", by_choice=True
    )


def test_translations_by_qt_are_data(tmp_path: Path) -> None:
    write_tree(
        tmp_path,
        {
            "lamp.ts": "export function dim() {}\n",
            "lamp_de.ts": '\ufeff<?xml version="1.0" encoding="utf-8"?>\n<!DOCTYPE TS>\n<TS language="de"></TS>\n',
        },
    )
    lamp, translations = read(tmp_path, content="all")
    assert isinstance(lamp, Document)
    assert translations == Skipped(
        "lamp_de.ts", "translations rather than TypeScript", by_choice=True
    )


def test_binary_content_behind_a_name_of_text(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_bytes(b"# Lamps\0")
    assert read(tmp_path, content="all") == [Skipped("a.md", "binary: it holds a zero byte")]
