"""Definitions as hits have them, and how much their lines are indented for their place in the file."""

from __future__ import annotations

INDENTED = [
    (("def f():\n        a\n        b", "python"), 4),
    (("def f(\n        a\n    ) -> None:\n        b", "python"), 4),
    (("def f():\n        return [\n            a\n        ]", "python"), 4),
    (("@cached\n    def f():\n        return a", "python"), 4),
    (("def f():\n    return {\n        a\n    }", "python"), 0),
    (("def f():\n\t\treturn 1", "python"), 1),
    (("void f() {\n        a;\n    }", "java"), 4),
    (("@Override\n    void f() {\n        a;\n    }", "java"), 4),
    (("void f()\n    {\n        a;\n    }", "cpp"), 4),
    (("func f() {\n\ta()\n}", "go"), 0),
    (("def f\n    a\n  end", "ruby"), 2),
    (("one line", "python"), 0),
    (("x\n\n   \n", "python"), 0),
]
