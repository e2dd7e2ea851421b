"""The topics of Python's help()."""

from __future__ import annotations

import re
import sys
from collections import Counter
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from purlin.index.records import Document
from purlin.index.sources.references import docstrings, manual, topics
from tests.support.references import docstring_documents

TOPIC = """\
Mapping Types — "dict"
**********************

A *mapping* maps "1 < 2" to **values**, but not "*" to 2*3*4. Lines
are joined.

+-----------+----------------+---------+
| Operation | Result         | Notes   |
|===========|================|=========|
| "x in s"  | "True" if an   | (1)(2)  |
|           | item is *x*    |         |
+-----------+----------------+---------+

* one item, which goes
  on

  and has a second paragraph

* another

class dict(**kwargs)
class dict(mapping, **kwargs)

   Return a new dictionary. It is the same as:

      >>> dict(one=1)

      {'one': 1}

   list(d)

      Return all keys.

   get(key[, default])

      Return the value for *key*, else *default*:

         if key in d:
             return d[key]

Notes
=====

mapping_stmt ::= "a"

1. First.

2. Second.

callable types
   These are the types to which calls can be applied.

   They have names.

[1] A footnote that
    goes on.

Note:

  Keys keep their order.
"""


def topic_documents(monkeypatch: pytest.MonkeyPatch, topics: dict[str, str]) -> dict[str, Document]:
    monkeypatch.setitem(sys.modules, "pydoc_data.topics", SimpleNamespace(topics=topics))
    # Listing the modules of the library takes most of the time.
    monkeypatch.setattr(docstrings, "files", lambda: iter(()))
    [file] = [file for file in manual.python_help() if file.path == "library/stdtypes.html"]
    return {
        item.id.removeprefix("library/stdtypes.html#"): item
        for item in file.read()
        if isinstance(item, Document)
    }


def test_topics_read_like_pages_of_the_manual(monkeypatch: pytest.MonkeyPatch) -> None:
    documents = topic_documents(monkeypatch, {"typesmapping": TOPIC})

    expected = ["mapping-types-dict", "dict", "dict~2", "dict.get", "notes", "notes~2"]
    assert list(documents) == expected
    assert documents["mapping-types-dict"].body == (
        "A mapping maps 1 < 2 to values, but not * to 2*3*4. Lines are joined.\n\n"
        "Operation | Result | Notes\nx in s | True if an item is x | (1)(2)\n\n"
        "- one item, which goes on\n\nand has a second paragraph\n- another"
    )

    constructor = documents["dict"]

    assert constructor.body == (
        "class dict(**kwargs)\nclass dict(mapping, **kwargs)\n\n"
        "Return a new dictionary. It is the same as:\n\n>>> dict(one=1)\n\n{'one': 1}"
    )
    assert constructor.fields["headings"] == ("Built-in Types", "Mapping Types — dict")
    assert constructor.fields["directive"] == "class"
    assert re.fullmatch(
        r"https://docs.python.org/3\.\d+/library/stdtypes.html#dict", constructor.location.url or ""
    )
    assert documents["dict~2"].title == "list(d)"

    get = documents["dict.get"]

    assert (get.context, get.title, get.fields["directive"]) == (("dict",), "dict.get", "method")
    assert get.body.endswith("else default:\n\nif key in d:\n    return d[key]")
    assert documents["notes"].body == (
        "mapping_stmt ::= a\n\n1. First.\n2. Second.\n\n[1] A footnote that goes on.\n\nNote:\n\nKeys keep their order."
    )
    assert documents["notes~2"].body.startswith(
        "callable types\n\nThese are the types to which calls can be applied."
    )


def test_code_right_below_an_item_stays_code(monkeypatch: pytest.MonkeyPatch) -> None:
    text = """\
Notes
*****

1. As in:

      >>> "gg" in "eggs"
      True

   Then more.

term
   Told by:

      if "a":
          "b"
"""

    documents = topic_documents(monkeypatch, {"truth": text})

    assert documents["notes"].body == '1. As in:\n\n>>> "gg" in "eggs"\nTrue\n\nThen more.'
    assert documents["notes~2"].body == 'term\n\nTold by:\n\nif "a":\n    "b"'


@pytest.mark.parametrize("head", ["class list[T](items)", "class (T)", "class a.b()\nclass "])
def test_class_without_a_plain_name_is_read(monkeypatch: pytest.MonkeyPatch, head: str) -> None:
    documents = topic_documents(
        monkeypatch, {"truth": f"Types\n*****\n\nSome.\n\n{head}\n\n   Told here.\n"}
    )
    assert any(document.body == f"{head.strip()}\n\nTold here." for document in documents.values())


@pytest.mark.parametrize(
    "table",
    [
        "+-----+-----+\n| one | two |\n+-----+-----+\n| three four|\n+-----------+",
        "+-+ Exception\n  | Error: 1\n  +---------",
        "+------+----+\n| 日本 | b  |\n+------+----+",
    ],
)
def test_irregular_table_stays_text(monkeypatch: pytest.MonkeyPatch, table: str) -> None:
    documents = topic_documents(monkeypatch, {"truth": f"Types\n*****\n\n{table}\n"})
    assert documents["types"].body == table


_PIECES = """alpha Beta class dict.get(key) list(d) object.__init__(self) "lit" "a *em* **st** | +- +---+ |===| * 1. [1]
Note: <b> &amp; ::= - 日本 é ~ ` >>> . ==== ---- static""".split()
_LINES = st.builds(
    lambda indent, words: " " * indent + " ".join(words),
    st.sampled_from([0, 0, 0, 2, 3, 5, 6]),
    st.lists(st.sampled_from([*_PIECES, "\t", "\x0b", "class "]), max_size=4),
)


@settings(max_examples=300)
@given(st.lists(_LINES, max_size=10).map(lambda lines: "\n".join([*lines, "", "The end."])))
def test_no_letter_of_a_topic_is_lost(text: str) -> None:
    with pytest.MonkeyPatch.context() as patched:
        plain = re.sub(
            r"(?m)^\s*[-=]{4}$", "", text
        )  # what is no heading: one with nothing below has no document
        documents = topic_documents(patched, {"truth": plain})

    shown = Counter("".join(document.body for document in documents.values()))

    assert {
        char for char, times in Counter(plain).items() if char.isalpha() and shown[char] < times
    } == set()


def test_topic_within_another_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = "Types\n*****\n\nIntroduction.\n\n\nTruth\n=====\n\nTrue or false.\n\n\nMore\n----\n\nMore on it.\n"
    part = "Truth\n*****\n\nTrue or false.\n\n\nMore\n====\n\nMore on it.\n"
    modules = "Modules\n*******\n\nOf their own.\n"
    documents = topic_documents(
        monkeypatch, {"truth": part, "typesseq": whole, "typesmodules": modules}
    )
    assert list(documents) == ["types", "truth", "more", "modules"]


def test_python_without_topics_has_docstrings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydoc_data.topics", None)
    topics.titles.cache_clear()

    try:
        paths = [file.path for file in manual.python_help()]

        assert "builtins" in paths
        assert not [path for path in paths if path.endswith(".html")]
        assert {"range", "str.zfill"} <= set(docstring_documents("builtins"))
    finally:
        topics.titles.cache_clear()


def test_help_prefers_topics_to_docstrings() -> None:
    files = list(manual.python_help())
    pages = [file for file in files if file.path.endswith(".html")]

    assert {file.path.removesuffix(".html") for file in pages} == set(topics.TITLES)

    builtin = next(file for file in files if file.path == "builtins")
    documents = [
        item for file in (*pages, builtin) for item in file.read() if isinstance(item, Document)
    ]

    assert len({item.id for item in documents}) == len(documents) > 400

    defined = Counter(
        item.title
        for item in documents
        if item.fields["directive"] in ("class", "method", "attribute")
    )

    assert defined["dict.get"] == 1
    assert max(defined.values()) == 1

    step = next(item for item in documents if item.id == "library/stdtypes.html#range")

    assert "If the step argument is omitted, it defaults to 1." in step.body
