"""What a program prints about its options becomes an entry per option."""

from __future__ import annotations

from pathlib import Path

import pytest

from purlin.index.records import Document
from purlin.index.sources.references import help_text
from purlin.index.sources.references.html.reader import read_page
from tests.support.files import write_tree
from tests.support.references import by_id

ARGPARSE = """usage: weave [-h] [-o FILE] [--keep | --drop]
             THREAD [THREAD ...]

Make cloth of threads.

positional arguments:
  THREAD                What to weave.

options:
  -h, --help            show this help message and exit
  -o FILE, --output FILE
                        Where the cloth goes, which is kept without
                        --force (default: cloth.txt)
  --keep
  --drop                Drops the threads.

Ask the loom for more.
"""
CLICK = """Usage: spin [OPTIONS] COMMAND [ARGS]...

  Spins wool.

Options:
  --fibre [wool|silk]  What to spin.
                       [default: wool]
  --quiet / --loud     Says less.

Commands:
  card  Combs the wool.
"""
CLAP = """Makes felt

Usage: felt [OPTIONS]

Options:
      --heat <DEGREES>
          How hot the water is
          [default: 60]
  -v, --verbose
          Says more
"""
CURL = """Usage: dye [options...] <cloth>
     --colour <name> Which colour
 -a, --again         Dyes it once more
     --fast-dye <file name> Reads a dye
"""
KUBECTL = """Weave a band on a loom.

Examples:
  # A narrow band
  ribbon band weave --width=5

Options:
    --all=false:
	Weave every thread.

    -w, --width='':
	The width of the band. If unset, 10.

Usage:
  /usr/bin/ribbon band weave (THREAD | SPOOL) [options]

Use "ribbon options" for all others.
"""
PROGRAMS = ("spin", "felt", "dye")
PARAMETERS = """\tloom=\t\t[WOOD] How the loom runs.
\t\t\tFormat: <int>
\t\t\tDefault: 12

\tnoweft [WOOL,SILK] Leaves out the weft.

\tloom.width=\t[WOOD]
\tloom.height=\t[WOOD]
\t\t\tThe size.
"""


def read(directory: Path, text: str, name: str = "help.txt") -> list[Document]:
    return list(by_id(write_tree(directory, {name: text})).values())


def entries(directory: Path, text: str) -> list[tuple[str, str, str]]:
    """The directive, the signature and the text of each entry."""
    rows = []
    for document in read(directory, text):
        if signature := str(document.fields.get("signature", "")):
            body = document.body.removeprefix(signature).strip()
            rows.append((str(document.fields["directive"]), signature, body))
    return rows


def test_options_of_argparse_are_entries_of_the_program(tmp_path: Path) -> None:
    assert entries(tmp_path, ARGPARSE)[1:] == [
        ("parameter", "THREAD", "What to weave."),
        ("option", "-h, --help", "show this help message and exit"),
        (
            "option",
            "-o FILE, --output FILE",
            "Where the cloth goes, which is kept without --force (default: cloth.txt)",
        ),
        ("option", "--keep", ""),
        ("option", "--drop", "Drops the threads."),
    ]

    program, thread, _, output = read(tmp_path, ARGPARSE)[:4]
    assert program.fields["directive"] == "function"
    assert (program.title, program.fields["signature"]) == ("weave", "weave")
    assert program.body.endswith("Make cloth of threads.\n\nAsk the loom for more.")
    assert thread.context == ("weave",)
    assert output.fields["names"] == ("-o", "--output")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            CLICK,
            [
                ("option", "--fibre [wool|silk]", "What to spin. [default: wool]"),
                ("option", "--quiet / --loud", "Says less."),
                ("function", "card", "Combs the wool."),
            ],
        ),
        (
            CLAP,
            [
                ("option", "--heat <DEGREES>", "How hot the water is [default: 60]"),
                ("option", "-v, --verbose", "Says more"),
            ],
        ),
        (
            CURL,
            [
                ("option", "--colour <name>", "Which colour"),
                ("option", "-a, --again", "Dyes it once more"),
                ("option", "--fast-dye <file name>", "Reads a dye"),
            ],
        ),
        (
            PARAMETERS,
            [
                ("option", "loom= [WOOD]", "How the loom runs.\nFormat: <int>\nDefault: 12"),
                ("option", "noweft [WOOL,SILK]", "Leaves out the weft."),
                ("option", "loom.width= [WOOD]\nloom.height= [WOOD]", "The size."),
            ],
        ),
    ],
    ids=["click", "clap", "curl", "parameters"],
)
def test_layouts_of_options(
    tmp_path: Path, text: str, expected: list[tuple[str, str, str]]
) -> None:
    rows = entries(tmp_path, text)
    assert [row for row in rows if row[1] not in PROGRAMS] == expected


def test_a_command_below_its_options_has_the_name_of_its_program(tmp_path: Path) -> None:
    weave, examples, every, width = read(tmp_path, KUBECTL)
    assert (weave.title, weave.fields["directive"]) == ("ribbon band weave", "function")
    assert weave.body.startswith("ribbon band weave\n\nWeave a band on a loom.")
    assert examples.body == "# A narrow band\nribbon band weave --width=5"

    assert (every.title, every.context) == ("--all", ("ribbon band weave",))
    assert every.body == "--all=false\n\nWeave every thread."
    assert width.fields["names"] == ("-w", "--width")


@pytest.mark.parametrize(
    "usage",
    ["ln TARGET", "ln source target", "/bin/ln [-s] source target", "ln", "ln file [options]"],
)
def test_arguments_are_no_commands(tmp_path: Path, usage: str) -> None:
    program = read(tmp_path, f"usage: {usage}\n\n  -s  Makes a symbolic link.\n")[0]
    assert program.title == "ln"


def test_a_term_may_begin_with_an_equals_sign(tmp_path: Path) -> None:
    text = "usage: moor KEY\n\nKeys:\n  =  Tells where it is.\n  q  Leaves.\n"
    assert [document.title for document in read(tmp_path, text)] == ["moor", "=", "q"]


@pytest.mark.parametrize("usage", ["Usage:\n  -s  Makes", "usage: -s file\n\n  -s  Makes"])
def test_an_option_that_a_usage_begins_with_is_no_program(tmp_path: Path, usage: str) -> None:
    documents = read(tmp_path, f"{usage} a symbolic link.\n  -f  Removes files.\n")
    assert [document.title for document in documents][-2:] == ["-s", "-f"]
    assert all(document.fields.get("directive") != "function" for document in documents)


def test_a_long_listing_of_terms_on_a_page_has_entries() -> None:
    listing = "".join(f"\tloom{number}=\t[WOOD] Weaves &lt;n&gt;.\n" for number in range(1000))
    page = read_page(f"<h1>Looms</h1><pre class='literal'>{listing}</pre><p>So.</p>")
    assert [section.title for section in page.sections] == [
        "Looms",
        *(f"loom{number}" for number in range(1000)),
    ]
    assert page.sections[1].blocks[0].text == "Weaves <n>."

    short = read_page(f"<h1>Looms</h1><pre>{listing[:5000]}</pre>")
    assert [section.title for section in short.sections] == ["Looms"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Wool is spun.\n\n  It is soft.\n",
        "Usage: see below.\n",
        "Looms\n=====\n\nUsage:\n\n-v  Say more.\n",
        "    Only a quotation,\n    without a term.\n",
    ],
)
def test_other_text_is_no_help(text: str) -> None:
    assert not help_text.is_help(text)


@pytest.mark.parametrize("piece", ["-", "-A ", "--a=", "A|", "[", " {", "x= [A", "usage: ", "\t"])
def test_long_text_takes_no_time(piece: str) -> None:
    text = f"usage: x\n  -o{piece * 30_000}\n"
    assert isinstance(help_text.html(text), str)
    assert isinstance(help_text.is_help(f"{text}{piece}\n" * 3), bool)
