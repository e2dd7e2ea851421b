"""`purlin ask`: answers, and the lines where they stand."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from purlin.cli.ask import _MAX_PAGE_BYTES, _location, _print_answers
from purlin.index.qa.ask import AskResult
from purlin.index.records import Answer
from tests.support.quick import PAGE, Captured, purlin


def test_control_characters_of_answers_do_not_reach_the_terminal(capsys: Captured) -> None:
    passage = "It is \x1b[2J 5."
    answer = Answer("\x1b[2J 5", 0.9, 6, 13, "a.md#a", "A\x07", (), "a.md#a\x9b", passage)
    _print_answers(AskResult((answer,), 0.9, "number", (), 1, {}, ()), None)
    out = capsys.readouterr().out
    assert "\ufffd[2J 5" in out
    assert not set(out) & {"\x1b", "\x07", "\x9b"}


def test_ask_answers_from_the_documentation(
    shop: Path, encoder: str, reader_directory: Path, capsys: Captured
) -> None:
    options = ("--encoder", encoder, "--reader", reader_directory)
    assert purlin("ask", "how long is a session kept?", *options, "--json") == 0
    record = json.loads(capsys.readouterr().out)
    assert record["root"] == str(shop)
    answer = record["answers"][0]
    assert answer["text"] in PAGE
    assert answer["place"].startswith("sessions.md")
    assert f":{answer['line']}#" in answer["place"]

    assert purlin("ask", "how long is a session kept?", *options, "-k", 1) == 0
    head, *quoted = capsys.readouterr().out.splitlines()
    assert "  1. Sessions  0." in head
    expected = [answer["text"], answer["sentence"]["text"]]
    assert [line.removeprefix("   │ ") for line in quoted if line] == expected


def test_a_question_in_another_language_is_shown_as_it_was_read(
    shop: Path, encoder: str, reader_directory: Path, capsys: Captured
) -> None:
    options = ("--encoder", encoder, "--reader", reader_directory)
    purlin("ask", "Was ist der Standardwert von step bei range?", *options)
    assert "read as: default value of" in capsys.readouterr().err
    purlin("ask", "What is the default step of range?", *options)
    assert "read as" not in capsys.readouterr().err


def test_path_restricts_answers_to_a_directory_or_file(
    shop: Path, encoder: str, reader_directory: Path, capsys: Captured
) -> None:
    # Copies of a page would answer once.
    for days, name in enumerate(("docs/a.md", "docs/b.md", "docs-old/a.md"), start=11):
        (shop / name).parent.mkdir(exist_ok=True)
        (shop / name).write_text(PAGE.replace("31", str(days)))
    options = ("--encoder", encoder, "--reader", reader_directory, "--json", "-k", 20)

    def pages(path: str) -> set[str]:
        assert purlin("ask", "how long is a session kept?", *options, "--path", path) == 0
        answers = json.loads(capsys.readouterr().out)["answers"]
        return {answer["passage_id"].partition("#")[0] for answer in answers}

    assert pages(".") == {"docs/a.md", "docs/b.md", "docs-old/a.md", "sessions.md"}
    assert pages("docs") == pages(str(shop / "docs")) == {"docs/a.md", "docs/b.md"}
    assert pages("docs/a.md") == {"docs/a.md"}

    assert purlin("ask", "how long?", *options, "--path", "web") == 1
    assert "web has no documentation that Purlin reads" in capsys.readouterr().err


def test_ask_refuses_a_reader_before_it_indexes(
    shop: Path, encoder: str, tmp_path: Path, capsys: Captured
) -> None:
    missing = tmp_path / "missing"
    assert purlin("ask", "how long?", "--encoder", encoder, "--reader", missing) == 2
    assert str(missing) in capsys.readouterr().err
    assert not (tmp_path / "cache").exists()


def _answer(text: str, url: str, passage: str) -> Answer:
    """An answer in the words of a passage."""
    start = passage.index(text)
    return Answer(text, 0.9, start, start + len(text), url, "A", (), url, passage)


def test_answers_have_the_line_where_their_words_stand(shop: Path) -> None:
    passage = "A session is kept for 31 days, unless the visitor leaves before that."
    answer = _answer("31 days", "sessions.md#sessions", passage)
    assert _location(answer, shop)[0] == "sessions.md:3#sessions"
    assert _location(answer, None)[0] == "sessions.md#sessions"

    # Markup before and in the answer.
    for text in (
        "A session is `kept` for *31* days.",
        "A **session is\nkept** for [31 days](limits.md), unless",
        "A session\nis\nkept for __31\\\ndays__.",
    ):
        line = 3 + text.partition("31")[0].count("\n")
        (shop / "sessions.md").write_text(f"# Sessions\n\n{text}\n")
        assert _location(answer, shop)[0] == f"sessions.md:{line}#sessions"

    # Other words than the passage has: the heading's line, which the anchor tells.
    (shop / "sessions.md").write_text("Intro\n\n## `Sessions`\n\nKept for a month.\n")
    assert _location(answer, shop)[0] == "sessions.md:3#sessions"
    (shop / "sessions.md").write_text('<p>Intro</p>\n<h2 id="sessions">Sessions</h2>\n')
    assert _location(answer, shop)[0] == "sessions.md:2#sessions"
    (shop / "sessions.md").write_text("```sh\n# Sessions\n```\n\n## [Sessions](a.md)\n")
    assert _location(answer, shop)[0] == "sessions.md:5#sessions"
    (shop / "sessions.md").write_text("Intro\n\n## Kept {#sessions .wide}\n")
    assert _location(answer, shop)[0] == "sessions.md:3#sessions"
    (shop / "sessions.md").write_text("Nothing of it.\n")
    assert _location(answer, shop)[0] == "sessions.md#sessions"


MANUAL_PAGE = """.TH WEAVE 1
.SH NAME
weave \\- make cloth
.SH OPTIONS
.TP
.BR \\-q ", " \\-\\-quiet
Say \\fInothing\\fR at all, \\
not even at the end.
.TP
.B \\-v
.nf
more
"""


@pytest.mark.parametrize(
    ("name", "page", "text", "anchor", "line"),
    [
        ("weave.1.gz", MANUAL_PAGE, "Say nothing at all", "q", 7),
        ("weave.1", MANUAL_PAGE, "Say nothing at all", "q", 7),
        ("weave.1.gz", MANUAL_PAGE, "-q, --quiet", "q", 6),
        ("weave.1.gz", MANUAL_PAGE, "in other words", "v", 10),
        ("weave.1.gz", MANUAL_PAGE, "in other words", "OPTIONS", 4),
        ("weave.1.gz", MANUAL_PAGE, "in other words", "", None),
        ("spin.1.gz", ".Dd x\n.Dt SPIN 1\n.Sh USE\n.Bl -tag\n.It Fl v\na\n", "in other words", "v", 5),
        ("git.1", ".TH G 1\n.SH O\n.PP\n\\-v\n.RS 4\na\n.RE\n", "in other words", "v", 4),
        ("a.adoc", "= A\n\nB c\n---\n[[d]]e::\n  f\n", "in other words", "_b_c", 3),
        ("a.adoc", "= A\n\nB c\n---\n[[d]]e::\n  f\n", "in other words", "d", 5),
        ("a.md", "---\na: b\n---\n\n!!! note\n    x\n\n# B\n\n# B\n", "in other words", "b-1", 10),
        ("a.md", "> # B\r\n>\r\n> # C\r\n", "in other words", "c", 3),
        ("a.md", "[ref]: b\n\nA *b*\n=====\n", "in other words", "a-b", 3),
        ("a.md", "# A\n\n- # B\n\n<p id=\"b c\">", "in other words", "b", 3),
        ("a.md", "# A\n<p id=\"c\">", "in other words", "c", 2),
    ],
)  # fmt: skip
def test_lines_are_those_of_the_unpacked_text(
    tmp_path: Path, name: str, page: str, text: str, anchor: str, line: int | None
) -> None:
    content = page.encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    url = f"{name}#{anchor}".removesuffix("#")
    answer = _answer(text, url, text)
    assert _location(answer, tmp_path)[1] == line


def test_pages_that_unpack_to_too_much_have_no_lines(tmp_path: Path) -> None:
    answer = _answer("Say nothing", "a.1.gz#q", "Say nothing")
    for content in (gzip.compress(bytes(_MAX_PAGE_BYTES + 1)), b"no gzip"):
        (tmp_path / "a.1.gz").write_bytes(content)
        assert _location(answer, tmp_path)[1] is None


def test_time_for_the_line_of_an_answer_does_not_explode(shop: Path) -> None:
    answer = _answer("31 days", "sessions.md#x", "A session is kept for 31 days.")
    for pattern in ("](", "](a", "[](", "*_`", "# ", "id="):
        (shop / "sessions.md").write_text(pattern * (200_000 // len(pattern)))
        assert _location(answer, shop)[0] == "sessions.md#x"
