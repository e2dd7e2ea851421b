"""The docstrings of the running Python."""

from __future__ import annotations

import os

import pytest

from purlin.index.records import Skipped
from purlin.index.sources.references import docstrings
from tests.support.references import docstring_documents


def test_docstrings_name_list_without_importing_the_noisy() -> None:
    names = [file.path for file in docstrings.files()]
    assert len(names) > 250
    assert {"builtins", "json", "os.path", "collections.abc", "xml.etree.ElementTree"} <= set(names)
    assert not {"antigravity", "this", "test", "idlelib", "__main__", "_thread", "posixpath"} & set(
        names
    )


def test_docstrings_of_builtins() -> None:
    documents = docstring_documents("builtins")
    fromhex = documents["bytes.fromhex"]

    assert fromhex.body.startswith(
        "bytes.fromhex(string, /)\n\nCreate a bytes object from a string"
    )
    assert fromhex.context == ("bytes",)
    assert fromhex.fields["directive"] == "method"
    assert (fromhex.location.url or "").endswith("/library/stdtypes.html#bytes.fromhex")
    assert (documents["sorted"].location.url or "").endswith("/library/functions.html#sorted")
    assert (documents["ValueError"].location.url or "").endswith(
        "/library/exceptions.html#ValueError"
    )


@pytest.mark.parametrize(
    ("text", "signature", "rest"),
    [
        ("span(stop) -> span object\nspan(start, stop[, step]) -> span object\n\nIt is lazy.",
         "class a.span(stop) -> span object\nclass a.span(start, stop[, step]) -> span object", "It is lazy."),
        ("span(stop)\nReturn it.", "class a.span(stop)", "Return it."),
        ("S.span(of) --> Yield what lies between.\n\nIt is lazy.", "class a.span(of)",
         "S.span(of) --> Yield what lies between.\n\nIt is lazy."),
        ("D.span(i) -- insert", "class a.span(i)", "D.span(i) -- insert"),
        ("span(of=(1, 2)): cut (or not)", "class a.span(of=(1, 2))", "span(of=(1, 2)): cut (or not)"),
        ("other(stop)\nspan(stop)", "class a.span(...)", "other(stop)\nspan(stop)"),
        ("span(start,\n     stop)", "class a.span(...)", "span(start,\n     stop)"),
    ],
)  # fmt: skip
def test_docstrings_begin_with_calls_whose_arguments_python_does_not_know(
    text: str, signature: str, rest: str
) -> None:
    assert docstrings._signed("class a.span", "(...)", text) == (signature, rest)
    assert docstrings._signed("class a.span", "(a)", text) == ("class a.span(a)", text)


def test_docstrings_do_not_tell_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some functions have all of it as a default argument."""
    monkeypatch.setenv("PURLIN_TEST_SECRET", "hunter2")

    def parse(environ: object = os.environ, strict: bool = False) -> None: ...

    arguments = docstrings._arguments(parse)

    assert "os.environ" in arguments
    assert "hunter2" not in arguments


def test_docstrings_include_private_bases() -> None:
    documents = docstring_documents("io")

    assert documents["io"].fields["directive"] == "module"
    # The name is an answer to "which module …".
    assert documents["io"].body.startswith("io - The io module provides the Python interfaces")
    assert documents["io.RawIOBase.readall"].context == ("io.RawIOBase",)

    fold = docstring_documents("bisect")["bisect.bisect_left"]

    assert fold.body.startswith(
        "bisect.bisect_left(a, x, lo=0, hi=None, *, key=None)\n\nReturn the index"
    )

    example = docstring_documents("collections")["collections.namedtuple"]
    code = [example.body[atom.start : atom.end] for atom in example.atoms[1:]]

    assert code
    assert all(block.lstrip().startswith(">>>") for block in code)


def test_docstrings_that_cannot_be_imported_are_skipped() -> None:
    [skipped] = docstrings._read("asyncio.windows_events")
    assert isinstance(skipped, Skipped)
    assert "cannot be imported" in skipped.reason
    assert skipped.passing


def test_docstrings_use_the_documented_module() -> None:
    assert "asyncio.gather" in docstring_documents("asyncio")
    assert "asyncio.tasks.gather" not in docstring_documents("asyncio.tasks")
