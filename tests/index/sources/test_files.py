"""The walk of a directory: what git ignores, what is never entered, and its limits."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from purlin.index.records import Skipped
from purlin.index.sources.files import FileContent, read_bounded, walk
from tests.support.code_documents import read
from tests.support.files import write_tree

NAMES = ["a", "b", "build", "x.py", "y.py", "z.log"]
PATTERNS = [
    "a", "a/", "/a", "*.py", "!x.py", "build/", "a/b", "a/**/x.py", "**/y.py", "/*/b", "!/a/x.py", "b/*", "x?py",
    "[ab]/x.py", "z.*", "!*", "\\!x", "# a", "", "a/b/", "!build/", "*.l[o]g", "**/b/**", "/x.py",
]  # fmt: skip


def paths(root: Path, **options: object) -> list[str]:
    items = walk(root, **options)  # type: ignore[arg-type]
    return sorted(path for path in items if isinstance(path, str) and ".gitignore" not in path)


def git(root: Path, *arguments: str) -> str:
    command = ["git", "-c", "core.excludesFile=", *arguments]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout


def files_of_git(root: Path) -> list[str]:
    listed = git(root, "ls-files", "--others", "--exclude-standard").splitlines()
    return sorted(path for path in listed if ".gitignore" not in path)


# Git lists no untracked files of a directory that an ignored one is above, and neither does the walk.
@settings(max_examples=60)
@given(
    ignores=st.lists(
        st.tuples(
            st.sampled_from(["", "a/", "a/b/"]),
            st.lists(st.sampled_from(PATTERNS), min_size=1, max_size=4),
        ),
        max_size=3,
    )
)
@example(ignores=[("", ["**/b/**", "!x.py"])])
def test_the_walk_agrees_with_git(
    tmp_path_factory: pytest.TempPathFactory, ignores: list[tuple[str, list[str]]]
) -> None:
    root = tmp_path_factory.mktemp("repository")
    directories = ["", "a/", "a/b/", "build/", "a/build/", "b/"]
    files = [f"{directory}{name}" for directory in directories for name in NAMES[3:]]
    write_tree(root, dict.fromkeys(files, ""))
    for directory, patterns in ignores:
        write_tree(root, {f"{directory}.gitignore": "\n".join(patterns) + "\n"})
    git(root, "init", "-q")

    assert paths(root) == files_of_git(root)


@pytest.mark.parametrize("version", ["2", "4"])
def test_what_git_tracks_is_read_although_it_is_ignored(tmp_path: Path, version: str) -> None:
    files = {
        ".gitignore": "out/\n*.log\n",
        "out/made.py": "",
        "out/kept.py": "",
        "out/deep/kept.py": "",
        "out/deep/made.py": "",
        "kept.log": "",
        "made.log": "",
        "plain.py": "",
        "outer.py": "",
        "package/out/kept.py": "",
        "package/out/made.py": "",
    }
    write_tree(tmp_path, files)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-f", *(name for name in files if "kept" in name or "." not in name))
    git(tmp_path, "update-index", "--index-version", version)

    read_anyway = ["kept.log", "out/deep/kept.py", "out/kept.py", "package/out/kept.py"]
    assert paths(tmp_path) == sorted([*read_anyway, "outer.py", "plain.py"])
    assert paths(tmp_path / "package") == ["out/kept.py"]


def test_ignores_above_the_root_are_honoured(tmp_path: Path) -> None:
    write_tree(
        tmp_path,
        {
            ".gitignore": "*.log\n/sub/build/\n/build/\n",
            "sub/.gitignore": "local.py\n",
            "sub/a/x.py": "",
            "sub/a/x.log": "",
            "sub/a/local.py": "",
            "sub/build/y.py": "",
            "sub/a/build/z.py": "",
        },
    )
    before = ["a/build/z.py", "a/local.py", "a/x.log", "a/x.py"]
    assert paths(tmp_path / "sub" / "a") == [name.removeprefix("a/") for name in before]

    git(tmp_path, "init", "-q")
    (tmp_path / ".git" / "info").mkdir(exist_ok=True)
    (tmp_path / ".git" / "info" / "exclude").write_text("z.py\n")

    assert paths(tmp_path / "sub" / "a") == ["x.py"]
    assert paths(tmp_path / "sub") == ["a/x.py"]


def test_a_root_that_is_ignored_is_read(tmp_path: Path) -> None:
    write_tree(tmp_path, {".gitignore": "out/\n*.log\n", "out/a.py": "", "out/deep/b.log": ""})
    git(tmp_path, "init", "-q")

    assert paths(tmp_path) == []
    assert paths(tmp_path / "out") == ["a.py", "deep/b.log"]


def test_worktrees_of_a_repository_are_left_out(tmp_path: Path) -> None:
    write_tree(
        tmp_path,
        {
            "a.py": "",
            "tree/.git": "gitdir: /x/.git/worktrees/tree\n",
            "tree/b.py": "",
            "module/.git": "gitdir: ../.git/modules/module\n",
            "module/c.py": "",
        },
    )
    assert paths(tmp_path) == ["a.py", "module/.git", "module/c.py"]
    assert paths(tmp_path / "tree") == [".git", "b.py"]
    assert [item for item in walk(tmp_path) if isinstance(item, Skipped)] == [
        Skipped(
            "tree/", "another worktree of a git repository: index it on its own", by_choice=True
        )
    ]


@pytest.mark.parametrize(
    ("pointer", "is_read"),
    [
        ("/x/.git/worktrees/tree/modules/module", True),
        ("/x/.git/worktrees/tree/modules/outer/modules/inner", True),
        ("../.git/modules/worktrees/module", True),
        ("/x/.git/modules/module/worktrees/tree", False),
        ("/x/.git/worktrees/two words\r", False),
    ],
)
def test_submodules_of_a_worktree_are_read(tmp_path: Path, pointer: str, is_read: bool) -> None:
    write_tree(tmp_path, {"below/.git": f"gitdir: {pointer}\n", "below/a.py": ""})
    assert ("below/a.py" in paths(tmp_path)) is is_read


def test_hidden_directories_are_entered_by_name(tmp_path: Path) -> None:
    write_tree(
        tmp_path, {".github/a.yml": "", ".git/b": "", ".hidden/c": "", "d/.github/e": "", ".f": ""}
    )
    assert paths(tmp_path) == [".f"]
    assert paths(tmp_path, hidden={".github"}) == [".f", ".github/a.yml", "d/.github/e"]


def test_entries_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_tree(tmp_path, {f"{directory}/{file}.py": "" for directory in "abc" for file in "xyz"})
    monkeypatch.setattr("purlin.index.sources.files.MAX_ENTRIES", 9)
    *listed, last = walk(tmp_path)

    assert listed == ["a/x.py", "a/y.py", "a/z.py", "b/x.py", "b/y.py", "b/z.py"]
    assert isinstance(last, Skipped)
    assert last.path == "c/"
    assert last.reason.startswith("more than")
    assert ".gitignore" in last.reason


def test_reading_is_bounded(tmp_path: Path) -> None:
    path = write_tree(tmp_path, {"a": "12345"}) / "a"

    assert isinstance(read_bounded(path, "a", 5), FileContent)
    assert read_bounded(path, "a", 4) == Skipped("a", "larger than 3.81e-06 MiB")

    head = read_bounded(path, "a", 4, cut=True)
    assert isinstance(head, FileContent)
    assert head.data == b"1234"


def test_walk_is_sorted_and_skips_foreign_code(tmp_path: Path) -> None:
    foreign = ["node_modules/m.js", "a/__pycache__/p.py", "a/.tox/t.py", ".git/g.py", "venv/v.py"]
    foreign += ["lib/site-packages/s.py", "env/pyvenv.cfg", "env/bin/e.py"]
    own = ["a/c.py", "a/d/e.py", "a.py", "b.py", "lib/l.py"]
    write_tree(tmp_path, dict.fromkeys([*own, *foreign], ""))
    assert list(walk(tmp_path)) == own


def test_root_inside_site_packages_is_read(tmp_path: Path) -> None:
    write_tree(tmp_path, {"venv/pyvenv.cfg": "", "venv/site-packages/p.py": ""})
    assert paths(tmp_path / "venv" / "site-packages") == ["p.py"]


def test_symbolic_links_are_not_followed(tmp_path: Path) -> None:
    root = write_tree(tmp_path, {"outside/o.py": "", "root/r.py": ""}) / "root"
    links = {"loop": root, "out": tmp_path / "outside", "o.py": tmp_path / "outside" / "o.py"}
    for name, target in {**links, "dangling.py": root / "no", "self": root / "self"}.items():
        (root / name).symlink_to(target)
    assert paths(root) == ["r.py"]

    (tmp_path / "link").symlink_to(root)
    assert paths(tmp_path / "link") == ["r.py"]


def test_special_files_are_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    assert read(tmp_path) == []
    assert read(tmp_path / "pipe.py") == [Skipped("pipe.py", "not a regular file")]


def test_gitignore_nests_and_negates(tmp_path: Path) -> None:
    kept = "a/build/y.py a/gen/kept.py a/x.py build/top.py z/k.py z/tmp2.py".split()
    ignored = "a/b/c/k.py a/gen/g.py a/logs/l.py build/o.py build/x/o.py logs/l.py tmp1.py".split()
    write_tree(tmp_path, dict.fromkeys([*kept, *ignored, "#hash.py"], ""))
    ignores = "# comment\n/build/*\n!/build/top.py\nlogs/\ntmp[0-9].py\n\\#hash.py\n"
    write_tree(
        tmp_path, {".gitignore": ignores, "a/.gitignore": "gen/*\n!gen/kept.py\nb/**/k.py\n"}
    )
    write_tree(tmp_path, {"z/.gitignore": "!tmp2.py\n", "logs/.gitignore": "!*\n"})

    assert paths(tmp_path) == kept


def test_unusable_gitignore_patterns_are_reported(tmp_path: Path) -> None:
    write_tree(tmp_path, {".gitignore": f"!\n*a*a*a*a*a*\n{'x' * 600}\nno.py\n", "no.py": ""})
    write_tree(tmp_path, {"a" * 200 + ".py": ""})
    skipped = [item for item in walk(tmp_path) if isinstance(item, Skipped)]

    assert [(item.path, item.line) for item in skipped] == [(".gitignore", n) for n in (1, 2, 3)]
    assert paths(tmp_path) == ["a" * 200 + ".py"]


def test_file_name_that_is_not_utf8_is_reported(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"caf\xe9.py")).write_text("")
    assert read(tmp_path) == [Skipped("caf?.py", "the file name is not UTF-8")]


def test_deleted_directory_is_reported(tmp_path: Path) -> None:
    write_tree(tmp_path, {"a/x.py": "", "b.py": ""})
    items = walk(tmp_path)
    assert next(items) == "a/x.py"
    (tmp_path / "b.py").unlink()
    assert next(items) == "b.py"

    (item,) = walk(tmp_path / "nowhere")
    assert isinstance(item, Skipped)
    assert "cannot be read" in item.reason
