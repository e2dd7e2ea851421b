"""The page's modules in V8 alone, for what needs no browser."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from purlin import app

WEB = Path(app.__file__).parent / "web"
_EXPORTED = re.compile(r"^export (?:function|const) (\w+)", re.MULTILINE)
_KEYWORDS = re.compile(r"^import .*$|^export ", re.MULTILINE)


def evaluated(module: str, expression: str) -> Any:
    """Evaluate an expression in which `m` is one of the page's modules; what that imports is missing."""
    v8 = pytest.importorskip(
        "py_mini_racer", reason="takes mini-racer, which is in purlin-search[dev]"
    )
    source = (WEB / module).read_text()
    names = ", ".join(_EXPORTED.findall(source))
    script = f"{_KEYWORDS.sub('', source)}\nconst m = {{ {names} }};\nreturn JSON.stringify({expression});"
    return json.loads(v8.MiniRacer().eval(f"(() => {{ {script} }})()"))
