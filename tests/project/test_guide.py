"""Every command in the guide, and in the other pages, is run as a reader would run it."""

from __future__ import annotations

import doctest
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from purlin.index.classify.trained import publish_classifier
from purlin.index.encoder.transformer import Encoder
from purlin.index.indexing.build import build
from purlin.index.sources import open_source
from tests.support.commands import Command, Shell, blocks, commands, same, shell, wrong
from tests.support.files import write_jsonl
from tests.support.paths import ROOT
from tests.support.serving import FUNCTIONS, REFERENCE_PAGE, make
from tests.support.tiny import LABELS, staged

DOCS = ROOT / "docs"
GUIDE = (DOCS / "guide.md").read_text()

# Commands that cannot be run here, and what tests them instead.
NOT_RUN = {
    r"docker\b": "needs a container engine; tests/project/test_containers.py",
    r"make install-dev$": "what these tests run in",
    r"make wheel$": "takes a build; tests/project/test_wheel.py",
    r"(pipx|uvx|pip) ": "installs from dist/; tests/project/test_wheel.py",
    r"--backend milvus|PURLIN_MILVUS|index attach": "needs a Milvus; tests/index/engines/test_milvus.py",
    r"purlin serve( --workers 2)?$": "stays in the foreground; tests/app/test_serve.py, tests/app/test_workers.py",
    r"purlin train santa ": "tests/training/santa/test_run.py, with a tiny model",
    r"purlin train refqa ": "tests/training/reader/test_reader.py, with a tiny model",
    r"--encoder var/training/": "takes what the command before it trains; tests/training/santa",
    r"purlin train ranker ": "tests/training/ranker/test_ranker.py, with a tiny model",
    r"purlin train pesco ": "the guide, with a quick recipe; tests/training/pesco/test_self_training.py",
}
# The guide and the page on the papers have their own tests; the results need data sets that are not
# in the repository.
NOT_HERE = {"guide", "reproduce", "results", "lab-notebook"}


# ---- reading and comparing pages


PAGE = """
```bash
cat > a <<'EOF'
$ no command
EOF
```
text
```console
$ one \\
    --more
printed
$ two <<'END'
x
END
$ three
```
"""


def test_commands_are_parsed_from_a_page() -> None:
    assert [(each.line, each.text, each.printed) for each in commands(PAGE)] == [
        (2, "cat > a <<'EOF'\n$ no command\nEOF\n", None),
        (8, "one \\\n    --more", "printed"),
        (8, "two <<'END'\nx\nEND", ""),
        (8, "three", ""),
    ]


@pytest.mark.parametrize(
    ("expected", "printed", "equal"),
    [
        ("a  0.50 b", "a 0.52\nb", True),
        ("a 0.50", "a 0.54", False),
        ("a 12", "a 13", False),
        ("a…c", "a\nb\nc", True),
        ("a…c", "a b", False),
        ("in 1.2 s", "in 101.0 s", True),
        ('"took_ms":5.1', '"took_ms":505.1', True),
        ("20261121T220028671537-bc5a5f841ea2!", "20271121T220028671537-ac5a5f841ea2!", True),
        ("20261121T220028671537-bc5a5f841ea2", "none", False),
        ("[x]", "[x]", True),
    ],
)
def test_comparison_ignores_varying_output(expected: str, printed: str, equal: bool) -> None:
    assert same(expected, printed) is equal


def test_shell_keeps_its_state(tmp_path: Path) -> None:
    with shell(tmp_path) as bash:
        assert bash.run("cd / && HERE=there") == ("", 0)
        assert bash.run('echo "$HERE $PWD"; echo lost >&2') == ("there /\nlost\n", 0)
        assert bash.run("false") == ("", 1)
    assert wrong(Command(1, "false", "error: no"), "error: no", 1) is None
    assert wrong(Command(1, "x", "error: no"), "error: no", 0)
    assert wrong(Command(1, "x", None), "", 1)
    assert wrong(Command(1, "x", ""), '{"type":"urn:purlin:problem:not-found"}', 0)
    assert wrong(Command(1, "x", "a"), "b", 0)


# ---- the guide


@pytest.mark.timeout(900)
def test_guide_commands_print_the_shown_output(tmp_path: Path) -> None:
    with shell(tmp_path) as bash:
        differences = [wrong(command, *bash.run(command.text)) for command in commands(GUIDE)]
    assert not any(differences), "\n".join(filter(None, differences))


def test_guide_has_few_commands_that_are_not_run() -> None:
    others = [block for block in blocks(GUIDE) if block.language not in ("bash", "console")]
    assert {block.language for block in others} == {"text", "nginx", "haproxy"}
    lines = [
        line for block in others if block.language == "text" for line in block.text.splitlines()
    ]
    assert all(re.match(r"make install|export PATH=|0 3 \* \* \*", line) for line in lines)
    assert len(commands(GUIDE)) > 40


# ---- the other pages


def _pages() -> Iterator[tuple[str, Command]]:
    for path in sorted(DOCS.glob("*.md")):
        if path.stem not in NOT_HERE:
            yield from ((path.stem, command) for command in commands(path.read_text()))


RUN = [
    (page, command)
    for page, command in _pages()
    if not any(re.search(pattern, command.text) for pattern in NOT_RUN)
]


@pytest.fixture(scope="module")
def bash(tmp_path_factory: pytest.TempPathFactory, released: Encoder) -> Iterator[Shell]:
    """A shell with what the pages' examples need: a server, corpora, a classifier and dev rows."""
    here = tmp_path_factory.mktemp("reader")
    home, manual = here / "var", here / "manual"
    make(home, "code", FUNCTIONS, encoder=released)
    manual.mkdir()
    (manual / "functions.html").write_text(REFERENCE_PAGE)
    build(home, "python", "reference", open_source("reference", [manual]), released)
    publish_classifier(home, "tickets", staged(here / "staged"))
    (here / "labels.txt").write_text("\n".join(LABELS))
    (here / "tickets.txt").write_text("My parcel never came.\nI was charged twice.\n")
    (here / "tickets.csv").write_text(
        "ticket_id,body,tags\nT-1,<p>My parcel never came.</p>,world\nT-2,I was charged twice.,business|sports\n"
    )
    (here / "mail.txt").write_text("Hello,\n\nmy parcel never came.\n")
    rows = ({"text": f"The {label} news", "label": label} for label in LABELS)
    write_jsonl(here / "dev.jsonl", rows)
    (here / "src").mkdir()
    (here / "src" / "a.py").write_text("def sort_rows(rows):\n    return sorted(rows)\n")
    (here / "queries.jsonl").write_text(json.dumps({"_id": "1", "text": "sort rows"}) + "\n")
    (here / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n1\ta.py::sort_rows\t1\n")
    (here / "log.jsonl").write_text(
        '{"query": "put the latest ones first", "document": "a.py::sort_rows"}\n'
    )
    (here / "questions").mkdir()
    question = {
        "id": "1",
        "question": "What is the default of step?",
        "form": "default value",
        "split": "dev",
    }
    for name, about in (("python", {"answers": ["1"], "entry": "functions.html#range"}),
                        ("python-unanswerable", {"answers": [], "entry": None, "id": "2"})):  # fmt: skip
        (here / "questions" / f"{name}.jsonl").write_text(json.dumps(question | about))
    with shell(here) as opened:
        opened.run("purlin serve > server.log 2>&1 &")
        ready, _ = opened.run(
            "curl -sf --retry 60 --retry-delay 1 --retry-connrefused localhost:8000/readyz"
        )
        assert "ok" in ready, (here / "server.log").read_text()
        yield opened


@pytest.mark.parametrize(
    ("page", "command"), RUN, ids=[f"{page}-{command.text[:40]}" for page, command in RUN]
)
def test_command_of_another_page_works(bash: Shell, page: str, command: Command) -> None:
    printed, status = bash.run(command.text)
    assert wrong(command, printed, status) is None, (bash.directory / "server.log").read_text()


def test_other_pages_have_commands() -> None:
    assert {"agents", "classify", "pesco", "qa", "running"} <= {page for page, _ in RUN}
    unused = [
        pattern
        for pattern in NOT_RUN
        if not any(re.search(pattern, command.text) for _, command in _pages())
    ]
    assert unused == []


@pytest.mark.parametrize(
    "path", [ROOT / "README.md", *sorted(DOCS.glob("*.md"))], ids=lambda path: path.stem
)
def test_pages_use_known_block_languages(path: Path) -> None:
    languages = {"bash", "console", "haproxy", "ini", "json", "nginx", "python", "text", "toml"}
    assert {block.language for block in blocks(path.read_text())} <= languages


def test_links_between_pages_resolve() -> None:
    for path in (ROOT / "README.md", *DOCS.glob("*.md")):
        for target, anchor in re.findall(r"\]\(([\w./-]*\.md)?(?:#([\w-]+))?\)", path.read_text()):
            page = (path.parent / target).resolve() if target else path
            assert page.is_file(), f"{path.name}: {target}"
            assert not anchor or anchor in _anchors(page), f"{path.name}: {target}#{anchor}"


def _anchors(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


# ---- measures


def test_examples_of_measures_are_correct() -> None:
    results = doctest.testfile(str(DOCS / "measures.md"), module_relative=False)
    assert results.attempted >= 12
    assert results.failed == 0
