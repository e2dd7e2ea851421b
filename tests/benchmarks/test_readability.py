"""The readability counts, on a few lines of source."""

from __future__ import annotations

from pathlib import Path

from benchmarks.readability import Counts, count, figures

SPACED = '''"""A docstring that says found, known and one."""

LIMIT = 3


# Adds what fits.
def total(values, given):
    """Sum the values.

    Up to the limit.
    """
    result = 0
    for other in values[:LIMIT]:
        result += other

    return result + given
'''

DENSE = '''LIMIT: int = 4
_private = 1


def total_twice(values):
    """Sum the values twice.

    This blank line is in the docstring.
    """
    first = sum(values)
    second = sum(values)
    third = first + second
    return third


def short(value):
    return value


class Limits:
    found = "{padding}"
'''.replace("{padding}", "x" * 90)


def count_sources(directory: Path) -> Counts:
    (directory / "spaced.py").write_text(SPACED)
    (directory / "dense.py").write_text(DENSE)
    (directory / "tests").mkdir()
    (directory / "tests" / "test_spaced.py").write_text("found = known = 1\n")
    return count([directory])


def test_placeholders_are_variables_and_parameters(tmp_path: Path) -> None:
    counts = count_sources(tmp_path)

    names = {placeholder.removeprefix(f"{tmp_path}/") for placeholder in counts.placeholders}
    assert names == {"spaced.py:7 given", "spaced.py:13 other", "dense.py:21 found"}
    assert len(counts.placeholders) == 3


def test_homonyms_are_public_names_of_several_files(tmp_path: Path) -> None:
    counts = count_sources(tmp_path)

    assert set(counts.definitions) == {"LIMIT", "total", "total_twice", "short", "Limits"}
    files = {str(tmp_path / "spaced.py"), str(tmp_path / "dense.py")}
    assert counts.homonyms() == {"LIMIT": files}


def test_blank_lines_in_docstrings_do_not_space_functions(tmp_path: Path) -> None:
    counts = count_sources(tmp_path)

    assert counts.long_functions == 1
    assert counts.spaced_functions == 1

    dense = tmp_path / "dense.py"
    dense.write_text(DENSE.replace("    return third", "    third += 0\n    return third"))
    counts = count([dense])
    assert counts.long_functions == 1
    assert counts.spaced_functions == 0


def test_lines_are_counted_by_what_they_hold(tmp_path: Path) -> None:
    counts = count_sources(tmp_path)

    assert counts.lines == 37
    assert counts.code_lines == 24
    assert counts.comments == 1
    assert counts.long_lines == 1


def test_figures_are_shares_of_the_whole(tmp_path: Path) -> None:
    assert figures(count_sources(tmp_path)) == {
        "placeholder names per 1,000 code lines": "125.0 (3)",
        "public names defined in several files": "1",
        "functions of 10 lines or more with a blank line": "100 % of 1",
        "own-line comments per 100 lines": "2.7",
        "lines over 100 characters": "3 % of 37",
        "code lines": "24",
    }


def test_no_source_gives_zeros(tmp_path: Path) -> None:
    assert figures(count([tmp_path]))["placeholder names per 1,000 code lines"] == "0.0 (0)"
