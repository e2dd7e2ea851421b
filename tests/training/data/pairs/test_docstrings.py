"""Cutting docstrings out of code."""

from __future__ import annotations

import pytest

from purlin.training.data.pairs.docstrings import without_docstring


@pytest.mark.parametrize(
    ("code", "docstring", "left"),
    [
        ('def f():\n    """Do it.\n\n    Now.\n    """\n    return 1', "Do it.\n\nNow.", "def f():\n    return 1"),
        ("def f():\n    r'''Do it.'''", "Do it.", "def f():\n"),
        ('def f(:\n    "Do it" ;\n    broken', "Do it", "def f(:\n    broken"),
        ('x = {\n    "a": 1}', "a", 'x = {\n    "a": 1}'),
        ('def f():\n    "other text"\n    return 1', "Do it.", 'def f():\n    "other text"\n    return 1'),
        ("int f() { return 1; }", "Do it.", "int f() { return 1; }"),
        ('def f():\n    """Never closed', "Never closed", 'def f():\n    """Never closed'),
    ],
)  # fmt: skip
def test_only_the_docstring_is_removed(code: str, docstring: str, left: str) -> None:
    assert without_docstring(code, docstring) == left
