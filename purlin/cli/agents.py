"""Agents that speak the Model Context Protocol: their configuration files, and Purlin's entry there.

Paths and formats are those of the agents' documentation. What else a file has stays as it is, with
comments; a file that cannot be read as its format is refused and left alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from purlin.cli import jsonc
from purlin.index.errors import InvalidInput, StorageFailed
from purlin.index.storage import atomic_write

Scope = Literal["project", "user"]
NAME = "purlin"
MAX_BYTES = 32 * 2**20
# Editors put the folder that is open here; they start servers somewhere else.
_OPEN_FOLDER = "${workspaceFolder}"


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent's configuration files.

    `project` is relative to the root of a project, `user` to the home directory; None where there
    is no such file. `container` are the names of the objects around the entries of servers, `entry`
    makes Purlin's from the command. `path` is what the server gets as --path, where the agent does
    not start it in the project. `marker` in the home directory shows that the agent is in use.
    """

    title: str
    project: str | None
    user: str
    container: tuple[str, ...]
    entry: Callable[[str, list[str]], dict[str, Any]]
    marker: str
    path: str | None = None


def _plain(command: str, arguments: list[str]) -> dict[str, Any]:
    return {"command": command, "args": arguments}


def _typed(command: str, arguments: list[str]) -> dict[str, Any]:
    return {"type": "stdio", "command": command, "args": arguments}


def _custom(command: str, arguments: list[str]) -> dict[str, Any]:
    return {"source": "custom", "command": command, "args": arguments}


def _listed(command: str, arguments: list[str]) -> dict[str, Any]:
    return {"type": "local", "command": [command, *arguments], "enabled": True}


_SERVERS = ("mcpServers",)
_CODE_FOLDER = (
    "Library/Application Support/Code/User" if sys.platform == "darwin" else ".config/Code/User"
)

AGENTS: Mapping[str, Agent] = {
    "claude-code": Agent(
        "Claude Code", ".mcp.json", ".claude.json", _SERVERS, _typed, ".claude.json"
    ),
    "codex": Agent(
        "Codex",
        ".codex/config.toml",
        ".codex/config.toml",
        ("mcp_servers",),
        _plain,
        ".codex",
    ),
    "cursor": Agent(
        "Cursor", ".cursor/mcp.json", ".cursor/mcp.json", _SERVERS, _plain, ".cursor", _OPEN_FOLDER
    ),
    "vscode": Agent(
        "VS Code",
        ".vscode/mcp.json",
        f"{_CODE_FOLDER}/mcp.json",
        ("servers",),
        _typed,
        _CODE_FOLDER,
        _OPEN_FOLDER,
    ),
    "gemini": Agent(
        "Gemini CLI", ".gemini/settings.json", ".gemini/settings.json", _SERVERS, _plain, ".gemini"
    ),
    "opencode": Agent(
        "opencode",
        "opencode.json",
        ".config/opencode/opencode.json",
        ("mcp",),
        _listed,
        ".config/opencode",
    ),
    "zed": Agent(
        "Zed",
        ".zed/settings.json",
        ".config/zed/settings.json",
        ("context_servers",),
        _custom,
        ".config/zed",
    ),
    "windsurf": Agent(
        "Windsurf",
        None,
        ".codeium/windsurf/mcp_config.json",
        _SERVERS,
        _plain,
        ".codeium/windsurf",
    ),
}


@dataclass(frozen=True, slots=True)
class Change:
    """What a configuration file has, and what it would have; the same if there is nothing to do."""

    agent: Agent
    file: Path
    before: str
    after: str

    def write(self) -> None:
        """Replace the file at once, with its permissions. Raises StorageFailed."""
        # A link, as those of a repository of settings, stays one.
        target = self.file.resolve()
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            mode = target.stat().st_mode & 0o777 if target.exists() else 0o644
            with atomic_write(target, mode=mode) as file:
                file.write(self.after.encode())
        except OSError as error:
            raise StorageFailed(
                f"{self.file} cannot be written to ({error.strerror or error}); "
                "check its permissions, or use --dry-run and add the entry yourself."
            ) from error


def in_use(home: Path, project: Path | None) -> list[str]:
    """Agents that have settings in the home directory or in the project."""
    return [
        name
        for name, agent in AGENTS.items()
        if _below(home, agent.marker).exists()
        or (project and agent.project and (project / agent.project).exists())
    ]


def planned(
    name: str, scope: Scope, home: Path, project: Path | None, *, remove: bool = False
) -> Change:
    """The change that adds Purlin to an agent's configuration, or brings its entry up to date.

    With `remove`, the change that removes it. `project` is the root of a repository, None outside
    of one. Raises InvalidInput for a file that is not in the agent's format.
    """
    agent = AGENTS[name]
    file = _file(agent, scope, home, project)
    before = _read(file)
    entry = None if remove else agent.entry(*_command(agent, scope, project))
    return Change(agent, file, before, _edited(file, before, agent.container, entry))


def _command(agent: Agent, scope: Scope, project: Path | None) -> tuple[str, list[str]]:
    """The command of an entry and its arguments.

    Files of a project are shared, and name the command alone. Those of a user name the file, as
    programs with windows seldom have the shell's PATH.
    """
    beside = Path(sys.executable).with_name("purlin")
    command = str(beside) if scope == "user" and beside.exists() else "purlin"

    if agent.project is None:
        if project is None:
            raise InvalidInput(
                f"{agent.title} does not start servers in the project: "
                "run this in the repository that it shall search.",
                field="project",
            )
        return command, ["mcp", "--path", str(project)]

    return command, ["mcp", *(["--path", agent.path] if agent.path else [])]


def _file(agent: Agent, scope: Scope, home: Path, project: Path | None) -> Path:
    if scope == "project":
        if agent.project is None:
            raise InvalidInput(
                f"{agent.title} has no configuration of its own for a project; use --user.",
                field="project",
            )

        if project is None:
            raise InvalidInput(
                "This directory is no project: change to a repository, or use --user.",
                field="project",
            )

        return project / agent.project

    return _below(home, agent.user)


def _below(home: Path, path: str) -> Path:
    """A path of settings below the home directory, or where the environment puts them."""
    for prefix, variable in ((".config/", "XDG_CONFIG_HOME"), (".codex", "CODEX_HOME")):
        if path.startswith(prefix) and (directory := os.environ.get(variable)):
            return Path(directory) / path.removeprefix(prefix).removeprefix("/")
    return home / path


def _read(file: Path) -> str:
    """Content of a configuration file, empty if there is none. Raises InvalidInput."""
    try:
        if file.stat().st_size > MAX_BYTES:
            raise InvalidInput(f"{file} has more than {MAX_BYTES:,} bytes; it is left as it is.")

        with file.open(encoding="utf-8", newline="") as opened:
            return opened.read()
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(
            f"{file} cannot be read ({type(error).__name__}); it is left as it is."
        ) from None


def _edited(
    file: Path, text: str, container: Sequence[str], entry: Mapping[str, Any] | None
) -> str:
    """The text with Purlin's entry, or without it. Raises InvalidInput, which names the file."""
    edit = _edited_toml if file.suffix == ".toml" else _edited_json
    try:
        return edit(text, container, entry)
    except (jsonc.NotJson, tomllib.TOMLDecodeError) as error:
        shown = "TOML" if file.suffix == ".toml" else "JSON"
        raise InvalidInput(
            f"{file} is left as it is, because of its {shown}: {error}. "
            "Correct it, or add the entry by hand, see docs/agents.md."
        ) from None


def _edited_json(text: str, container: Sequence[str], entry: Mapping[str, Any] | None) -> str:
    settings = jsonc.parse(text)
    servers: Any = settings
    for name in container:
        servers = servers.get(name, {}) if isinstance(servers, dict) else {}

    # opencode 2 has the servers one level deeper, and reads both forms.
    path = (*container, NAME)
    if container == ("mcp",) and isinstance(servers, dict) and _is_group(servers.get("servers")):
        path = ("mcp", "servers", NAME)
        servers = servers["servers"]

    if entry is None:
        return jsonc.remove_value(text, path)
    if isinstance(servers, dict) and isinstance(servers.get(NAME), dict):
        # Each value by itself: what the user added to the entry stays.
        for key, value in entry.items():
            text = jsonc.set_value(text, (*path, key), value)
        return text
    return jsonc.set_value(text, path, dict(entry))


def _is_group(servers: Any) -> bool:
    """Whether this is a group of servers, and not a server of that name."""
    return isinstance(servers, dict) and "type" not in servers


# ---- TOML


# A table's name; a line of a value that begins with a bracket is seldom one of keys and dots alone.
_KEY = r"""(?:[\w-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')"""
_HEADER = re.compile(
    rf"^[ \t]*\[\[?[ \t]*{_KEY}(?:[ \t]*\.[ \t]*{_KEY})*[ \t]*\]\]?[ \t]*(?:#.*)?\r?$", re.MULTILINE
)
_MAX_VALUE_LINES = 200


def _edited_toml(text: str, container: Sequence[str], entry: Mapping[str, Any] | None) -> str:
    """Edit the table `[container.purlin]` as text; what the result means is checked by reading it."""
    (group,) = container
    settings = tomllib.loads(text)
    servers = settings.get(group, {})
    present = servers.get(NAME) if isinstance(servers, dict) else None
    if not isinstance(servers, dict) or not isinstance(present, dict | None):
        raise jsonc.NotJson(f"{group} is no table of tables")
    if entry is None and present is None:
        return text
    if entry is not None and present is not None and present | dict(entry) == present:
        return text

    start, end = _table(text, group, with_subtables=entry is None)
    header = text[start : text.find("\n", start) + 1 or len(text)] if start < end else ""
    expected = {**settings, group: {**servers, NAME: {**(present or {}), **(entry or {})}}}
    if entry is None:
        edited = text[:start].rstrip("\n") + ("\n" if text[:start].strip() else "") + text[end:]
        del expected[group][NAME]
    else:
        newline = "\r\n" if "\r\n" in text else "\n"
        values = "".join(
            f"{key} = {json.dumps(value, ensure_ascii=False)}{newline}"
            for key, value in entry.items()
        )
        kept = _without_keys(text[start + len(header) : end], entry)
        header = header or f"[{group}.{NAME}]{newline}"
        edited = f"{_separated(text[:start], newline)}{header}{values}{kept}{text[end:]}"

    if not _means(edited, expected):
        raise jsonc.NotJson(f"its table {group} is too unusual to change it safely")
    return edited


def _without_keys(table: str, keys: Collection[str]) -> str:
    """The lines of a table without those of some keys, whose values may go over several lines."""
    kept: list[str] = []
    lines = table.splitlines(keepends=True)

    while lines:
        length = _statement_length(lines)
        if lines[0].partition("=")[0].strip().strip("\"'") not in keys:
            kept += lines[:length]
        del lines[:length]

    return "".join(kept)


def _statement_length(lines: Sequence[str]) -> int:
    """How many of the lines the first key and its value take; one if they cannot be read."""
    for length in range(1, min(len(lines), _MAX_VALUE_LINES) + 1):
        with contextlib.suppress(tomllib.TOMLDecodeError):
            tomllib.loads("".join(lines[:length]))
            return length
    return 1


def _table(text: str, group: str, *, with_subtables: bool) -> tuple[int, int]:
    """Where Purlin's table begins and ends; twice the end of the text if there is none.

    The tables inside it may be counted in where they follow it.
    """
    name = rf"[ \t]*\[[ \t]*{group}[ \t]*\.[ \t]*(?:{NAME}|\"{NAME}\"|'{NAME}')[ \t]*"
    ends = r"[.\]]" if with_subtables else r"\]"
    own = re.compile(f"^{name}{ends}", re.MULTILINE)

    header = own.search(text)
    if header is None:
        return len(text), len(text)

    following = _HEADER.search(text, header.end())
    while with_subtables and following and own.match(text, following.start()):
        following = _HEADER.search(text, following.end())

    return header.start(), following.start() if following else len(text)


def _separated(text: str, newline: str) -> str:
    """The text with an empty line at its end, if there is any text."""
    if not text.strip():
        return text
    return text.rstrip("\r\n") + 2 * newline


def _means(text: str, expected: Mapping[str, Any]) -> bool:
    """Whether a text is TOML of these settings, an empty table counting as none."""
    try:
        return _pruned(tomllib.loads(text)) == _pruned(expected)
    except tomllib.TOMLDecodeError:
        return False


def _pruned(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if value != {}}
