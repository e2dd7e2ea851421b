"""`purlin mcp install` and `uninstall`: what they write into the files of agents."""

from __future__ import annotations

import contextlib
import io
import stat
import tomllib
from pathlib import Path
from typing import Any

import pytest

from purlin.cli import agents, jsonc, mcp
from purlin.index.errors import InvalidInput, StorageFailed
from tests.support.privileges import unprivileged

# For each agent its entry in the configuration of a project, as its documentation has it.
ENTRIES: dict[str, tuple[str, dict[str, Any]]] = {
    "claude-code": (
        ".mcp.json",
        {"mcpServers": {"purlin": {"type": "stdio", "command": "purlin", "args": ["mcp"]}}},
    ),
    "codex": (
        ".codex/config.toml",
        {"mcp_servers": {"purlin": {"command": "purlin", "args": ["mcp"]}}},
    ),
    "cursor": (
        ".cursor/mcp.json",
        {
            "mcpServers": {
                "purlin": {"command": "purlin", "args": ["mcp", "--path", "${workspaceFolder}"]}
            }
        },
    ),
    "vscode": (
        ".vscode/mcp.json",
        {
            "servers": {
                "purlin": {
                    "type": "stdio",
                    "command": "purlin",
                    "args": ["mcp", "--path", "${workspaceFolder}"],
                }
            }
        },
    ),
    "gemini": (
        ".gemini/settings.json",
        {"mcpServers": {"purlin": {"command": "purlin", "args": ["mcp"]}}},
    ),
    "opencode": (
        "opencode.json",
        {"mcp": {"purlin": {"type": "local", "command": ["purlin", "mcp"], "enabled": True}}},
    ),
    "zed": (
        ".zed/settings.json",
        {"context_servers": {"purlin": {"source": "custom", "command": "purlin", "args": ["mcp"]}}},
    ),
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    for name in ("XDG_CONFIG_HOME", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    return home


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    (project / "src").mkdir()
    monkeypatch.chdir(project / "src")
    return project


def read(file: Path) -> Any:
    text = file.read_text()
    return tomllib.loads(text) if file.suffix == ".toml" else jsonc.parse(text)


def run(*arguments: str) -> str:
    """Run a command of `purlin mcp` that succeeds, and return its output."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        assert mcp.run(arguments) == 0
    return output.getvalue()


# ---- files


@pytest.mark.parametrize("name", ENTRIES)
def test_each_agent_gets_its_format(home: Path, project: Path, name: str) -> None:
    path, expected = ENTRIES[name]
    run("install", "--agent", name, "--yes")
    assert read(project / path) == expected

    assert "nothing to change" in run("install", "--agent", name)
    run("uninstall", "--agent", name, "--yes")
    assert "purlin" not in (project / path).read_text()


def test_own_files_name_the_program_and_windsurf_the_project(home: Path, project: Path) -> None:
    run("install", "--user", "--yes", "--agent", "windsurf", "--agent", "codex")
    windsurf = read(home / ".codeium/windsurf/mcp_config.json")["mcpServers"]["purlin"]
    codex = read(home / ".codex/config.toml")["mcp_servers"]["purlin"]

    assert windsurf["args"] == ["mcp", "--path", str(project)]
    assert Path(windsurf["command"]).is_file()
    assert codex == {"command": windsurf["command"], "args": ["mcp"]}


def test_a_command_that_agents_cannot_find_is_warned_of(
    home: Path,
    project: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    program = tmp_path / "purlin"
    program.touch(mode=0o755)
    for directories, scope, warned in (
        ("", "--project", True),
        ("", "--user", False),
        (str(tmp_path), "--project", False),
    ):
        monkeypatch.setenv("PATH", directories)
        run("install", "--agent", "codex", scope, "--dry-run")
        assert ("no `purlin` on the PATH" in capsys.readouterr().err) == warned


def test_variables_of_the_environment_move_own_files(
    home: Path, project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "codex"))
    run("install", "--user", "--yes", "--agent", "zed", "--agent", "codex")
    assert (tmp_path / "xdg/zed/settings.json").exists()
    assert (tmp_path / "codex/config.toml").exists()


def test_agents_in_use_are_found(home: Path, project: Path) -> None:
    assert agents.in_use(home, project) == []
    (home / ".codex").mkdir()
    (home / ".claude.json").write_text("{}")
    (project / ".gemini").mkdir()
    (project / ".gemini/settings.json").write_text("{}")
    assert agents.in_use(home, project) == ["claude-code", "codex", "gemini"]

    run("install", "--yes")
    assert (project / ".mcp.json").exists()
    assert (project / ".codex/config.toml").exists()


def test_other_values_of_an_entry_are_kept(home: Path, project: Path) -> None:
    file = project / ".mcp.json"
    file.write_text('{"mcpServers": {"purlin": {"command": "old", "env": {"A": "b"}}}}')
    run("install", "--agent", "claude-code", "--yes")
    expected = {"command": "purlin", "env": {"A": "b"}, "type": "stdio", "args": ["mcp"]}
    assert read(file)["mcpServers"]["purlin"] == expected


def test_the_nested_form_of_opencode_is_followed(home: Path, project: Path) -> None:
    file = project / "opencode.json"
    file.write_text('{"mcp": {"servers": {"other": {"type": "local", "command": ["o"]}}}}')
    run("install", "--agent", "opencode", "--yes")
    assert set(read(file)["mcp"]["servers"]) == {"other", "purlin"}
    run("uninstall", "--agent", "opencode", "--yes")
    assert set(read(file)["mcp"]["servers"]) == {"other"}


# ---- TOML


TOML = """\
# mine
model = "x" # best

[mcp_servers.purlin] # search
command = "old"
startup_timeout_sec = 20

[mcp_servers.purlin.env]
A = "[mcp_servers.purlin]"

[mcp_servers.other]
command = "o"
"""


def codex_settings(project: Path, text: str) -> Path:
    file = project / ".codex/config.toml"
    file.parent.mkdir()
    file.write_bytes(text.encode())
    return file


def test_a_table_is_brought_up_to_date_in_place(home: Path, project: Path) -> None:
    file = codex_settings(project, TOML)
    run("install", "--agent", "codex", "--yes")

    assert file.read_text() == TOML.replace('"old"', '"purlin"\nargs = ["mcp"]')
    assert "nothing to change" in run("install", "--agent", "codex")


@pytest.mark.parametrize(
    "text",
    [
        'mcp_servers = {other = {command = "o"}}\n',
        'mcp_servers.purlin.command = "old"\n',
        "mcp_servers = 5\n",
        "a = [\n",
    ],
)
def test_unusual_toml_is_left_alone(home: Path, project: Path, text: str) -> None:
    file = codex_settings(project, text)
    with pytest.raises(InvalidInput, match=r"config.toml is left as it is"):
        agents.planned("codex", "project", home, project)
    assert file.read_text() == text


@pytest.mark.parametrize("text", ["", "a = 1\n", TOML, "[mcp_servers.other]\r\ncommand = 'o'\r\n"])
def test_toml_keeps_all_other_values(home: Path, project: Path, text: str) -> None:
    file = codex_settings(project, text)
    agents.planned("codex", "project", home, project).write()

    before, after = tomllib.loads(text), tomllib.loads(file.read_bytes().decode())
    own = after["mcp_servers"].pop("purlin")
    before.setdefault("mcp_servers", {}).pop("purlin", None)
    assert (own["command"], own["args"]) == ("purlin", ["mcp"])
    assert after == before


SPREAD = """\
[mcp_servers.purlin]
command = "old"
args = [
  "mcp", # of old
  "--path",
]
enabled_tools = [
  "search_code",
]

[mcp_servers.purlin.env]
A = "b"

[mcp_servers.other]
command = "o"
"""


def test_values_over_several_lines_are_replaced(home: Path, project: Path) -> None:
    file = codex_settings(project, SPREAD)
    run("install", "--agent", "codex", "--yes")

    purlin = tomllib.loads(file.read_text())["mcp_servers"]["purlin"]
    assert purlin == {
        "command": "purlin",
        "args": ["mcp"],
        "enabled_tools": ["search_code"],
        "env": {"A": "b"},
    }


@pytest.mark.parametrize("text", [SPREAD, TOML])
def test_uninstalling_removes_the_tables_inside_it(home: Path, project: Path, text: str) -> None:
    file = codex_settings(project, text)
    run("uninstall", "--agent", "codex", "--yes")
    assert tomllib.loads(file.read_text())["mcp_servers"] == {"other": {"command": "o"}}


@pytest.mark.parametrize("name", ['projects."/home/me/proj"', 'mcp_servers."@a/b"', "'c d'"])
def test_a_table_of_any_name_ends_purlins(home: Path, project: Path, name: str) -> None:
    following = f'[{name}]\ncommand = "o"\n'
    file = codex_settings(project, f'[mcp_servers.purlin]\ncommand = "old"\n\n{following}')

    run("install", "--agent", "codex", "--yes")
    assert file.read_text().endswith(f'args = ["mcp"]\n\n{following}')
    run("uninstall", "--agent", "codex", "--yes")
    assert file.read_text() == following


def test_an_edit_that_cannot_be_read_is_called_unusual(home: Path, project: Path) -> None:
    codex_settings(project, 'mcp_servers = {purlin = {command = "old"}}\n')
    with pytest.raises(InvalidInput, match="too unusual"):
        agents.planned("codex", "project", home, project)


# ---- refusing and asking


@pytest.mark.parametrize("content", [b'{"mcpServers": {', b"\xff\xfe", b"[]", b'{"mcpServers": 1}'])
def test_an_unreadable_file_stops_everything(home: Path, project: Path, content: bytes) -> None:
    file = project / ".cursor/mcp.json"
    file.parent.mkdir()
    file.write_bytes(content)
    with pytest.raises(InvalidInput, match=r"mcp.json"):
        run("install", "--yes", "--agent", "claude-code", "--agent", "cursor")
    assert file.read_bytes() == content
    assert not (project / ".mcp.json").exists()


def test_nothing_is_written_without_consent(home: Path, project: Path) -> None:
    assert '+    "purlin": {' in run("install", "--agent", "claude-code", "--dry-run")
    assert not (project / ".mcp.json").exists()
    with pytest.raises(InvalidInput, match="--yes"):
        run("install", "--agent", "claude-code")
    assert not (project / ".mcp.json").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--agent", "windsurf", "--yes"], "use --user"),
        ([], "No agent has settings here"),
    ],
)
def test_wrong_choices_are_explained(
    home: Path, project: Path, arguments: list[str], words: str
) -> None:
    with pytest.raises(InvalidInput, match=words):
        run("install", *arguments)


def test_own_settings_are_changed_anywhere(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home)
    run("install", "--agent", "claude-code", "--user", "--yes")
    assert read(home / ".claude.json")["mcpServers"]["purlin"]["args"] == ["mcp"]

    for arguments in (["--agent", "cursor"], ["--agent", "windsurf", "--user"]):
        with pytest.raises(InvalidInput, match="repository"):
            run("install", "--yes", *arguments)


def test_only_a_yes_is_consent(
    home: Path, project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for answer, status in (("\n", 1), ("no\n", 1), ("", 1), ("Yes\n", 0)):
        monkeypatch.setattr("sys.stdin", Terminal(answer))
        assert mcp.run(["install", "--agent", "claude-code"]) == status
        assert (project / ".mcp.json").exists() == (status == 0)
    assert "nothing was written" in capsys.readouterr().err


def test_unknown_agents_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as status:
        mcp.run(["install", "--agent", "emacs"])
    assert status.value.code == 2
    assert "claude-code" in capsys.readouterr().err


def test_links_and_permissions_are_kept(home: Path, project: Path, tmp_path: Path) -> None:
    target = tmp_path / "dotfiles.json"
    target.write_text("{}")
    target.chmod(0o600)
    (project / ".mcp.json").symlink_to(target)
    run("install", "--agent", "claude-code", "--yes")

    assert (project / ".mcp.json").is_symlink()
    assert "purlin" in target.read_text()
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_a_directory_that_cannot_be_written_to_is_named(home: Path, project: Path) -> None:
    change = agents.planned("claude-code", "project", home, project)
    project.chmod(0o555)
    try:
        with unprivileged(), pytest.raises(StorageFailed, match=r"\.mcp\.json cannot be written"):
            change.write()
    finally:
        project.chmod(0o755)
