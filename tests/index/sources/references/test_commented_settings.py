"""Settings with comments in a block of code of Markdown are entries."""

from __future__ import annotations

import time

import pytest

from purlin.index.sources.references import markdown
from purlin.index.sources.references.html.reader import read_page
from purlin.index.sources.references.page_sections import Section

LOOM = """{
  // `width` is how wide the cloth is, in inches
  //
  // It cannot be changed later.
  width: 21, // default

  // `dye` changes each thread
  dye: [function (thread) {
    // Do something with it

    return thread;
  }],

  "hem": true, // default is `false`
  colour?: 'red',
}
"""
TOML = """# What is woven.
[cloth]
# How wide it is.
width = 21
# How long it is.
length = 300
hem = true  # default
"""


def sections(code: str, language: str) -> list[Section]:
    return read_page(markdown.html(f"# Loom\n\n```{language}\n{code}```\n")).sections


def body(section: Section) -> str:
    return section.compose()[0]


def test_settings_with_comments_are_entries() -> None:
    width, dye, hem, colour = sections(LOOM, "js")
    assert [each.names for each in (width, dye, hem, colour)] == [
        ["width"],
        ["dye"],
        ["hem"],
        ["colour"],
    ]
    assert body(width) == (
        "width: 21, // default\n\n`width` is how wide the cloth is, in inches\n\n"
        "It cannot be changed later."
    )
    assert body(dye) == (
        "dye: [function (thread) {\n\n`dye` changes each thread\n\n"
        "  // Do something with it\n\n  return thread;\n}],"
    )
    assert body(hem) == '"hem": true, // default is `false`'
    assert body(colour) == "colour?: 'red',"


def test_what_is_around_the_settings_stays_code() -> None:
    around, width, length, hem = sections(TOML, "toml")
    assert body(around) == "[cloth]"
    assert body(width) == "width = 21\n\nWhat is woven. How wide it is."
    assert body(length) == "length = 300\n\nHow long it is."
    assert body(hem) == "hem = true # default"


@pytest.mark.parametrize(
    ("language", "code"),
    [
        ("python", LOOM),
        ("", LOOM),
        (
            "js",
            "// Weave it.\nconst cloth = weave();\n// Hem it.\ncloth.hem();\n// Sell it.\nsell(cloth);\n",
        ),
        ("js", "{\n  width: 1, // cm\n  height: 2, // cm\n}\n"),
        ("yaml", "a: 1  # one\nb: 2  # two\nc: 3  # three\nd: 4\ne: 5\nf: 6\ng: 7\n"),
    ],
)
def test_other_code_stays_code(language: str, code: str) -> None:
    (section,) = sections(code, language)
    assert body(section) == code.rstrip("\n")


@pytest.mark.parametrize("piece", ["a: 1 // ", "a: //", "# ", '"', "a" * 80])
def test_hostile_code_is_read_in_time(piece: str) -> None:
    started = time.monotonic()
    sections("a: 1 # x\n" * 3 + piece * 20_000 + "\n", "yaml")
    assert time.monotonic() - started < 10
