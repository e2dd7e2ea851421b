"""Measure how a Python project reads: names that say nothing, names with two meanings, air in functions.

    python benchmarks/readability.py DIR [DIR ...] [--names]

Prints one column per directory, which may be an installed package: `python benchmarks/readability.py app index
training purlin.py -- starlette/` would be two. `--names` lists what was counted. Tests and generated files are left
out. The counts come from the syntax tree, so that strings and comments do not count as code.
"""

from __future__ import annotations

import argparse
import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

# Words that tell where a value came from rather than what it is.
PLACEHOLDERS = frozenset(
    "found known one other place taken given taught asked wanted told said seen left done made things thing".split()
)
LONG_FUNCTION = 10  # lines, from which a blank line between steps is expected
LONG_LINE = 100  # characters
LEFT_OUT = re.compile(r"(^|/)(tests?|node_modules|build|\.venv)(/|$)")

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(slots=True)
class Counts:
    """What was counted in one project. `places` has the file and line of each placeholder."""

    code_lines: int = 0
    lines: int = 0
    long_lines: int = 0
    comments: int = 0
    long_functions: int = 0
    spaced_functions: int = 0
    placeholders: list[str] = field(default_factory=list)
    definitions: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def homonyms(self) -> dict[str, set[str]]:
        """Public top-level names that several files define, and these files."""
        return {name: files for name, files in self.definitions.items() if len(files) > 1}


def python_files(roots: Sequence[Path]) -> Iterator[Path]:
    """Yield the modules below `roots`, without tests."""
    for root in roots:
        if root.is_file():
            yield root
            continue
        for path in sorted(root.rglob("*.py")):
            if not LEFT_OUT.search(path.relative_to(root).as_posix()):
                yield path


def count(roots: Sequence[Path]) -> Counts:
    """Read every module below `roots`."""
    counts = Counts()
    for path in python_files(roots):
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        _count_lines(counts, text)
        _count_names(counts, tree, path)
        _count_definitions(counts, tree, path)
        _count_functions(counts, tree, text.splitlines())
    return counts


def _count_lines(counts: Counts, text: str) -> None:
    for line in text.splitlines():
        stripped = line.strip()
        counts.lines += 1
        counts.long_lines += len(line) > LONG_LINE
        counts.comments += stripped.startswith("#")
        counts.code_lines += bool(stripped) and not stripped.startswith("#")


def _count_names(counts: Counts, tree: ast.Module, path: Path) -> None:
    """Count variables, parameters and loop variables that are bound to a placeholder."""
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names = [node.id]
        elif isinstance(node, ast.arg):
            names = [node.arg]
        counts.placeholders += [
            f"{path}:{node.lineno} {name}" for name in names if name in PLACEHOLDERS
        ]


def _count_definitions(counts: Counts, tree: ast.Module, path: Path) -> None:
    for node in tree.body:
        for name in _defined(node):
            if not name.startswith("_"):
                counts.definitions[name].add(str(path))


def _defined(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        yield node.name
    elif isinstance(node, ast.Assign):
        yield from (target.id for target in node.targets if isinstance(target, ast.Name))
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        yield node.target.id


def _count_functions(counts: Counts, tree: ast.Module, lines: Sequence[str]) -> None:
    for node in ast.walk(tree):
        if not isinstance(node, Function):
            continue
        body = _body_after_docstring(node)
        if not body or node.end_lineno is None or node.end_lineno - node.lineno + 1 < LONG_FUNCTION:
            continue
        counts.long_functions += 1
        inside = lines[body[0].lineno - 1 : node.end_lineno]
        counts.spaced_functions += any(not line.strip() for line in inside)


def _body_after_docstring(node: Function) -> list[ast.stmt]:
    return node.body[1:] if ast.get_docstring(node) is not None else node.body


def rows(counts: Counts) -> dict[str, str]:
    """What the table shows of one project."""
    placeholders = 1000 * len(counts.placeholders) / max(1, counts.code_lines)
    return {
        "placeholder names per 1,000 code lines": f"{placeholders:.1f} ({len(counts.placeholders)})",
        "public names defined in several files": str(len(counts.homonyms())),
        "functions of 10 lines or more with a blank line": f"{_share(counts.spaced_functions, counts.long_functions)}",
        "own-line comments per 100 lines": f"{100 * counts.comments / max(1, counts.lines):.1f}",
        "lines over 100 characters": _share(counts.long_lines, counts.lines),
        "code lines": f"{counts.code_lines:,}",
    }


def _share(part: int, whole: int) -> str:
    return f"{100 * part / max(1, whole):.0f} % of {whole:,}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "roots", nargs="+", type=Path, help="Packages and modules that are read as one project."
    )
    parser.add_argument("--names", action="store_true", help="List placeholders and homonyms.")
    options = parser.parse_args()

    counts = count(options.roots)
    for what, value in rows(counts).items():
        print(f"{what:50} {value}")
    if options.names:
        print(*counts.placeholders, sep="\n")
        for name, files in sorted(counts.homonyms().items()):
            print(f"{name}: {', '.join(sorted(files))}")


if __name__ == "__main__":
    main()
