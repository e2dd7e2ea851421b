"""What a document is in its repository: a test, or other code."""

from __future__ import annotations

import re

from purlin.index.records import Document

# Of a function or class in a file of other code.
_TEST_NAME = re.compile(r"[Tt]ests?(?=[A-Z_]|$)")


def is_test(document: Document) -> bool:
    """Return whether a document is a test, by its file or mark, or by its name in a file of other code."""
    name = document.title.rpartition(".")[2]
    return document.fields.get("role") == "test" or _TEST_NAME.match(name) is not None
