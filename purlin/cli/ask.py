"""`purlin ask`: answer a question from the documentation in a directory, or from a corpus."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from purlin.cli import terminal
from purlin.cli.terminal import Parser, print_line, print_quoted, print_record, styled, visible

if TYPE_CHECKING:
    from purlin.index.qa.ask import AskResult
    from purlin.index.qa.reader import Reader
    from purlin.index.records import Answer
    from purlin.index.search.corpus import Corpus
    from purlin.index.search.store.filters import Filter

ABOUT = """Answer a question from the documentation in the repository around the working directory,
or in a directory or file of it: HTML, Markdown, reStructuredText, AsciiDoc, manual pages, OpenAPI,
AsyncAPI, JSON Schema, GraphQL schemas and Protocol Buffers. Answers are its exact words, with file,
line and anchor. The index is that of the whole repository. With --corpus, a corpus of kind reference
answers. Exit status: 0 with an answer, 1 without, 2 for an error."""
EXAMPLE = 'purlin ask "how long is a session kept?" --path docs'
# A page that is larger is not searched for the line of an answer.
_MAX_PAGE_BYTES = 8 << 20
# Characters before an answer that must stand before it in the page, too.
_WORDS_BEFORE = 12
# White space, emphasis, code and links of Markdown, fonts and macros of manual pages, which rendered
# text lacks or has otherwise. No alternative can read over the start of another, so that its time is
# linear.
_MARKUP = re.compile(
    r"\]\([^()\[\]\n]*\)|\\f[BIRP123]|\\[&/,%]|^\.[BI][RI]?(?= )|[\s`*_\[\]()\\\"]", re.MULTILINE
)


def run(arguments: Sequence[str]) -> int:
    """Run the command; returns 0 with an answer, 1 without."""
    from purlin.cli.corpora import open_corpora, opened_directory
    from purlin.index.qa.reader import RELEASED_READER, Reader
    from purlin.index.workspaces.workspace import within

    options = _parse(arguments)
    # First, so that nobody waits for an index before it is refused.
    reader = Reader.load(options.reader or RELEASED_READER)
    if options.corpus:
        [corpus] = open_corpora(options.home, [options.corpus], options.encoder)
        try:
            return _answer(options, reader, corpus, None, {})
        finally:
            corpus.close()

    with opened_directory(options.path, "reference", options.encoder) as workspace:
        pages = within(workspace.root, options.path, "page") if options.path else {}
        return _answer(options, reader, workspace.corpus, workspace.root, pages)


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = Parser("ask", "QUESTION [options]", ABOUT, EXAMPLE)
    add = parser.add_argument

    add("question", metavar="QUESTION", help="What you want to know.")
    parser.add_path()
    add("-k", type=int, default=3, help="How many answers [default: 3].")
    add("--json", action="store_true", help="One JSON object.")
    parser.add_encoder()
    add("--reader", type=Path, metavar="DIR", help="The reader [default: the released one].")
    add("--corpus", metavar="NAME", help="A corpus of --home.")
    parser.add_home()

    return parser.parse_args(arguments)


def _answer(
    options: argparse.Namespace,
    reader: Reader,
    corpus: Corpus,
    root: Path | None,
    pages: Filter,
) -> int:
    """Answer from some pages of a corpus, whose files are below `root` if it is a directory's."""
    from purlin.index.qa.ask import answer_question

    result = answer_question(corpus, reader, options.question, k=options.k, filter=pages)
    if pages and not result.hits:
        terminal.print_note(f"{options.path} has no documentation that Purlin reads")
    if options.json:
        _print_json(result, corpus, root)
    else:
        _print_answers(result, root)
    return 0 if result.answers else 1


def _print_json(result: AskResult, corpus: Corpus, root: Path | None) -> None:
    answers = []
    for answer in result.answers:
        location, line = _location(answer, root)
        answers.append(asdict(answer) | {"place": location, "line": line})

    record = {
        "answers": answers,
        "answerable": round(result.answerable, 4),
        "answer_type": result.answer_type,
        "read_as": result.read_as,
        "root": None if root is None else str(root),
        "corpus": corpus.name,
        "build": corpus.build,
        "encoder": corpus.manifest.encoder["name"],
    }

    print_record(record)


def _print_answers(result: AskResult, root: Path | None) -> None:
    from purlin.index.qa.ask import UNLIKELY

    if result.read_as:
        terminal.print_note(f"read as: {result.read_as}")
    if not result.answers:
        terminal.print_note("no answer")
    elif result.answerable < UNLIKELY:
        terminal.print_note(f"probably not answered here (probability {result.answerable:.2f})")

    for rank, answer in enumerate(result.answers, 1):
        location = styled(visible(_location(answer, root)[0]), terminal.GREEN)
        title = styled(visible(" > ".join((*answer.terms, answer.title))), terminal.CYAN)
        print_line(f"{location}  {rank}. {title}  {answer.score:.2f}")
        for line in visible(answer.text).split("\n"):
            print_quoted(line)
        if answer.shown_sentence:
            sentence = visible(" ".join(answer.shown_sentence.split()))
            print_quoted(styled(sentence, terminal.DIM))
        print_line()


def _location(answer: Answer, root: Path | None) -> tuple[str, int | None]:
    """Where an answer is, and its line alone, if that is known.

    This is PATH:LINE#ANCHOR from the working directory as far as they are known, else the URL.
    """
    page = None if root is None else root / answer.passage_id.partition("#")[0]
    if page is None or not page.is_file():
        return answer.url or answer.passage_id, None

    _, sharp, anchor = (answer.url or "").partition("#")
    line = _line(page, answer)
    number = "" if line is None else f":{line}"
    return f"{os.path.relpath(page)}{number}{sharp}{anchor}", line


def _line(page: Path, answer: Answer) -> int | None:
    """Line of the page where the answer stands, else that of its heading or term, if it has one."""
    from purlin.index.sources.references.manual import anchor_line, page_text

    text = page_text(page, _MAX_PAGE_BYTES)
    if text is None:
        return None
    position = _position(text, answer)
    if position is not None:
        return text.count("\n", 0, position) + 1
    anchor = (answer.url or "").partition("#")[2]
    return anchor_line(page.name, text, anchor) if anchor else None


def _position(text: str, answer: Answer) -> int | None:
    """Where the answer begins in a page, if the page has its words apart from markup."""
    # Words before the answer tell which of several places it is; markup may interrupt more of them.
    before = answer.passage[max(answer.start - _WORDS_BEFORE, 0) : answer.start].rpartition("\n")[2]
    words = before + answer.text.partition("\n")[0]
    bare_words = _MARKUP.sub("", words)
    if len(words) < _WORDS_BEFORE or not bare_words:
        return None
    start = _MARKUP.sub("", text).find(bare_words)
    return None if start < 0 else _with_markup(text, start + len(_MARKUP.sub("", before)))


def _with_markup(text: str, position: int) -> int:
    """Position in a text of what has this one in the text without markup."""
    end = 0
    for markup in _MARKUP.finditer(text):
        if position < markup.start() - end:
            break
        position -= markup.start() - end
        end = markup.end()
    return end + position
