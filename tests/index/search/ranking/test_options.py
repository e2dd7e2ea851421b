"""Questions on where to add an option of a command line, and the code that answers them."""

from __future__ import annotations

from pathlib import Path

import pytest

from purlin.index.records import Document, Location
from purlin.index.search.ranking.options import asks_for_options, declares_options
from purlin.index.search.why import why
from tests.support.corpora import open_repository


@pytest.mark.parametrize(
    "query",
    [
        "add a new command line option",
        "Add a command-line flag to print the version.",
        "how do I add a CLI argument for the port?",
        "where to register another command line switch",
        "add an option to shp2pgsql",
        "add a flag for verbose",
    ],
)
def test_queries_about_options(query: str) -> None:
    assert asks_for_options(query)


@pytest.mark.parametrize(
    "query",
    [
        "add an option",
        "add a user to the group",
        "add a menu option",
        "command line option",
        "parse the command line",
        "add a new backend",
        "support options of sockets",
    ],
)
def test_other_queries(query: str) -> None:
    assert not asks_for_options(query)


@pytest.mark.parametrize("piece", ["add a new command line ", "add an option to ", "where do we "])
def test_long_queries_take_no_time(piece: str) -> None:
    assert not asks_for_options(piece * 20_000 + "\n")


@pytest.mark.parametrize(
    "body",
    [
        'while ((c = getopt_long(argc, argv, "hv", options, NULL)) != -1) {',
        'while getopts "ab:" option; do',
        'parser.add_argument("--port", type=int)',
        "parser.addOptions({",
        'OptionParser.new { |o| o.on("-v", "--verbose") { } }',
        '@click.option("--port")',
        'flag.String("port", "80", "where to listen")',
        "#[arg(long)]\nport: u16,",
        '.option("-p, --port <number>")',
        'if (!strcmp(argv[i], "--help")) {',
        'GetOptions("port=i" => \\$port);',
        'case "--port":',
    ],
)
def test_code_that_declares_options(body: str) -> None:
    assert declares_options(Document("a", "code", "a", body))
    assert not declares_options(Document("a", "code", "a", body, fields={"role": "test"}))


@pytest.mark.parametrize(
    "body",
    [
        "getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length);",
        "/* for getopt() */",
        "menu.add_item(option)",
        "args = parse(line)",
        "case 'x': return 1;",
    ],
)
def test_code_that_declares_none(body: str) -> None:
    assert not declares_options(Document("a", "code", "a", body))


def test_the_place_of_options_comes_first_and_says_why(tmp_path: Path) -> None:
    main = (
        "int main(int argc, char **argv)\n{\n"
        '    while ((c = getopt(argc, argv, "hv")) != -1)\n        usage();\n}\n'
    )
    files = {
        "main.c": main,
        "line.c": "void add_command_line(struct option *option)\n{\n    command(option);\n}\n",
        "menu.c": "void add_new_option(struct menu *menu)\n{\n    menu->count++;\n}\n",
    }
    with open_repository(tmp_path, files) as corpus:
        query = "add a new command line option"
        first, *_ = corpus.search(query, k=3, explain=True).hits
        other, *_ = corpus.search("command line option", k=3, explain=True).hits

    assert (first.title, first.location) == ("main", Location("main.c", 1, 5))
    assert why(query, first).endswith("mostly the options that it declares")
    assert 0.5 <= first.score < 1
    assert other.title == "add_command_line"
