"""Count what makes Python code easy or hard to read.

    python -m benchmarks.readability DIR_OR_FILE [DIR_OR_FILE ...] [--names]

All directories and files of one call are counted together, as one project; for a comparison, call
it once for each project. It counts placeholder names, public names that several files define, long
functions without a blank line, comments and long lines. `--names` also lists the placeholders and
the names. Directories of tests are left out. Names come from the syntax tree, so words in strings
and comments do not count.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.options import command_parser

# Words that say where a value came from, or nothing, rather than what it is.
PLACEHOLDERS = frozenset(
    "found known one other place taken given taught asked wanted told said seen left done made "
    "things thing".split()
)
LONG_FUNCTION = 10  # lines; from here on, a blank line between steps is expected
LONG_LINE = 100  # characters
EXCLUDED = re.compile(r"(^|/)(tests?|node_modules|build|\.venv)(/|$)")

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(slots=True)
class Counts:
    """Counts of one project; each placeholder is listed as `file:line name`."""

    code_lines: int = 0
    lines: int = 0
    long_lines: int = 0
    comments: int = 0
    long_functions: int = 0
    spaced_functions: int = 0
    placeholders: list[str] = field(default_factory=list)
    definitions: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def homonyms(self) -> dict[str, set[str]]:
        """Public top-level names that several files define, with those files."""
        return {name: files for name, files in self.definitions.items() if len(files) > 1}


def python_files(roots: Sequence[Path]) -> Iterator[Path]:
    """Yield each file of `roots` and the modules below each directory, without tests."""
    for root in roots:
        if root.is_file():
            yield root
            continue
        for path in sorted(root.rglob("*.py")):
            if not EXCLUDED.search(path.relative_to(root).as_posix()):
                yield path


def count(roots: Sequence[Path]) -> Counts:
    """Count over all modules below `roots`. Raises SyntaxError for a file that is not Python."""
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
    """List variables, loop variables and parameters whose name is a placeholder."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            name = node.id
        elif isinstance(node, ast.arg):
            name = node.arg
        else:
            continue

        if name in PLACEHOLDERS:
            counts.placeholders.append(f"{path}:{node.lineno} {name}")


def _count_definitions(counts: Counts, tree: ast.Module, path: Path) -> None:
    for node in tree.body:
        for name in _defined_names(node):
            if not name.startswith("_"):
                counts.definitions[name].add(str(path))


def _defined_names(node: ast.stmt) -> Iterator[str]:
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

        # Blank lines within the docstring do not separate steps.
        body = _body_after_docstring(node)
        if not body or node.end_lineno is None or node.end_lineno - node.lineno + 1 < LONG_FUNCTION:
            continue

        counts.long_functions += 1
        body_lines = lines[body[0].lineno - 1 : node.end_lineno]
        counts.spaced_functions += any(not line.strip() for line in body_lines)


def _body_after_docstring(node: Function) -> list[ast.stmt]:
    return node.body[1:] if ast.get_docstring(node) is not None else node.body


def figures(counts: Counts) -> dict[str, str]:
    """The figures to print, by name."""
    number = len(counts.placeholders)
    placeholders = f"{1000 * number / max(1, counts.code_lines):.1f} ({number})"
    comments = 100 * counts.comments / max(1, counts.lines)
    spaced = _share(counts.spaced_functions, counts.long_functions)

    return {
        "placeholder names per 1,000 code lines": placeholders,
        "public names defined in several files": str(len(counts.homonyms())),
        "functions of 10 lines or more with a blank line": spaced,
        "own-line comments per 100 lines": f"{comments:.1f}",
        "lines over 100 characters": _share(counts.long_lines, counts.lines),
        "code lines": f"{counts.code_lines:,}",
    }


def _share(part: int, whole: int) -> str:
    return f"{100 * part / max(1, whole):.0f} % of {whole:,}"


def main() -> None:
    """Count the modules named on the command line and print the figures."""
    parser = command_parser(__doc__)
    parser.add_argument(
        "roots", nargs="+", type=Path, help="directories and files to count as one project"
    )
    parser.add_argument("--names", action="store_true", help="list placeholders and shared names")
    options = parser.parse_args()

    counts = count(options.roots)
    for name, figure in figures(counts).items():
        print(f"{name:50} {figure}")
    if options.names:
        print(*counts.placeholders, sep="\n")
        for name, files in sorted(counts.homonyms().items()):
            print(f"{name}: {', '.join(sorted(files))}")


if __name__ == "__main__":
    main()
