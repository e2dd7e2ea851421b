import contextlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from purlin import cli
from purlin.cli import console, train
from purlin.cli.commands import app as command_line
from purlin.cli.corpora import parse_filter
from purlin.index.demo import Demo
from tests.support.documents import source
from tests.support.files import write_file, write_jsonl
from tests.support.paths import ROOT
from tests.support.serving import numbered
from tests.support.static_files import SELF_CHECK_WORDS, write_static
from tests.support.traffic import run

SHOP = [
    dict(zip(("_id", "title", "text", "brand", "watt"), row, strict=True))
    for row in (
        ("k1", "Electric kettle 1.7 l", "Boils water fast.", "Aquila", 2200),
        ("k2", "Stove kettle", "Whistles when the water boils.", "Brava", 0),
        ("m1", "DDR4-3200 memory 16 GB", "For laptops.", "Corvid", 3),
    )
]


def _start(*arguments: object, home: Path) -> subprocess.CompletedProcess[str]:
    """Run a command as users do, in a process of its own."""
    return run([sys.executable, "-m", "purlin", *arguments], PURLIN_HOME=str(home))


def _run(
    *arguments: object, home: Path, encoder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command in this process, which has imported all that each new one would import again."""
    words = [str(argument) for argument in arguments]
    printed, errors = (io.TextIOWrapper(io.BytesIO(), "utf-8") for _ in range(2))
    handler, hook = signal.getsignal(signal.SIGTERM), sys.unraisablehook
    with (
        pytest.MonkeyPatch.context() as patched,
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(errors),
    ):
        patched.chdir(ROOT)
        patched.setenv("PURLIN_HOME", str(home))
        if encoder:
            patched.setenv("PURLIN_ENCODER", str(encoder))
        patched.setattr(sys, "argv", ["purlin", *words])
        try:
            cli.main()
            status: int | str | None = 0
        except SystemExit as ending:
            status = ending.code
        finally:
            signal.signal(signal.SIGTERM, handler)
            sys.unraisablehook = hook

    outputs = []
    for stream in (printed, errors):
        stream.flush()
        stream.seek(0)
        outputs.append(stream.read())
    assert status is None or isinstance(status, int), status
    return subprocess.CompletedProcess(words, status or 0, *outputs)


def _build(source: Path, *options: object, home: Path) -> subprocess.CompletedProcess[str]:
    """Build the corpus `shop` of products in this process."""
    return _run("index", "build", "product", source, "--name", "shop", *options, home=home)


def _evaluate(
    queries: Path, qrels: Path, run: Path, *, home: Path
) -> subprocess.CompletedProcess[str]:
    """Measure the corpus `shop`, and write a run."""
    judged = ("--queries", queries, "--qrels", qrels, "--run", run)
    return _run("evaluate", "search", "--corpus", "shop", *judged, "--json", home=home)


def _hits(*arguments: object, home: Path) -> list[dict[str, Any]]:
    """Search the corpus `shop` and return its hits."""
    output = _run("search", *arguments, "--corpus", "shop", "--json", home=home).stdout
    return [json.loads(line) for line in output.splitlines()]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    corpus = write_jsonl(home / "corpus.jsonl", SHOP)
    completed = _start("index", "build", "product", corpus, "--name", "shop", home=home)
    assert completed.returncode == 0, completed.stderr
    assert "shop: 3 documents, 3 passages (0 unchanged)" in completed.stdout
    return home


def test_corpora_are_listed_and_shown(shop: Path) -> None:
    listed = _run("index", "list", home=shop).stdout
    assert "shop" in listed
    assert "santa-minilm" in listed
    shown = _run("index", "show", "shop", home=shop).stdout
    assert '"documents": 3' in shown
    assert "fields: brand" in shown


def test_a_refused_corpus_keeps_the_table_of_corpora_narrow(shop: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    shutil.copytree(shop, home)
    table = _run("index", "list", home=home).stdout.splitlines()
    (home / "corpora" / "old").mkdir()
    (home / "corpora" / "old" / "CURRENT").write_text("20261121T093000123456-1a2b3c4d5e6f")

    header, old, served, problem = _run("index", "list", home=home).stdout.splitlines()
    assert old.split() == ["old", "refused"]
    assert [header.split(), served.split()] == [line.split() for line in table]
    assert len(served) <= len(table[1]) + len("refused")
    assert problem.startswith("old: old/CURRENT names a build that does not exist")


@pytest.mark.parametrize(
    ("seconds", "line"),
    [
        (0, ""),
        (0.4, "about 1 s left"),
        (119, "about 119 s left"),
        (2_040, "about 34 min left, until 14:05"),
        (7_100, "about 118 min left, until 15:29"),
        (9_000, "about 2.5 h left, until 16:01"),
        (40_000, "about 11.1 h left, until Jan 1, 00:37"),
        (250_000, "about 2.9 days left, until Jan 3, 10:57"),
    ],
)
def test_how_long_a_training_takes_is_told_in_a_few_words(seconds: float, line: str) -> None:
    assert train.time_left(seconds, datetime(2026, 12, 31, 13, 31)) == line


def test_training_tells_how_long_it_takes_where_there_is_no_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "err", Console(file=sys.stderr, width=160))
    with console.progress_bars() as tell:
        step = train.training_steps(tell)("align")
        step(2, 900, {"loss": 0.5, "pairs_per_s": 25.0})
        step(3, 900, {"loss": 0.5, "pairs_per_s": 25.0, "dev mean": 0.6, "seconds_left": 90.0})
        step(900, 900, {"loss": 0.5, "pairs_per_s": 25.0, "seconds_left": 0.0})
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "align 3: loss 0.5000, dev mean 0.6000, 25.0 pairs/s, about 90 s left",
        "align 900 of 900",
    ]


def test_the_bar_has_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    terminal = Console(file=shown, force_terminal=True, width=160, legacy_windows=False)
    monkeypatch.setattr(console, "err", terminal)
    with console.progress_bars() as tell:
        tell("encode", 1, 2)
        tell("align", 3, 900, "about 34 min left, until 14:05")
    assert "about 34 min left, until 14:05" in shown.getvalue()


def test_names_with_brackets_are_shown_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "goods.csv").write_text("id,title,Weight [kg],Size [/cm]\n1,Kettle,2,30\n2,,1,1\n")
    assert _build(tmp_path, home=tmp_path).returncode == 0
    shown = _run("index", "show", "shop", home=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert "Weight [kg]" in shown.stdout
    assert "Size [/cm]" in shown.stdout


def test_show_tells_how_many_more_were_left_out(tmp_path: Path) -> None:
    rows = "".join(f"{number},\n" for number in range(3))
    (tmp_path / "goods.csv").write_text("id,title\n9,Kettle\n" + rows)
    _build(tmp_path, home=tmp_path)
    shown = _run("index", "show", "shop", "--skipped", 1, home=tmp_path).stdout

    assert shown.endswith("left out: 2 more; --skipped 3 lists all\n")
    assert "more;" not in _run("index", "show", "shop", home=tmp_path).stdout


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("PURLIN_QUEUE", "x", "valid integer"),
        ("PURLIN_LOG", "xml", "'plain' or 'json'"),
        ("PURLIN_PORT", "99999", "less than or equal to 65535"),
    ],
)
def test_a_wrong_setting_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str, words: str
) -> None:
    monkeypatch.setenv(name, value)
    completed = _run("serve", "--demo", home=tmp_path)
    assert completed.returncode == 1
    assert completed.stderr.startswith(f"error: {name} must be ")
    assert words in completed.stderr
    assert len(completed.stderr.splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_search_prints_hits_and_json(shop: Path) -> None:
    printed = _start("search", "DDR4-3200", "--corpus", "shop", "-k", 1, home=shop).stdout
    assert printed == _run("search", "shop", "DDR4-3200", "-k", 1, home=shop).stdout
    assert printed.startswith("m1  1. DDR4-3200 memory 16 GB  0.56  (name: DDR4-3200; meaning ")
    for condition, expected in (("brand=Brava", "k2"), ("watt=2200", "k1")):
        hits = _hits("boil water", "--filter", condition, home=shop)
        assert [hit["document_id"] for hit in hits] == [expected]


@pytest.mark.parametrize(
    ("conditions", "filter"),
    [
        ([], None),
        (["a=x", "a=2"], {"a": ["x", "2", 2.0]}),
        (["Net price €>=5", "Net price €<=9.5"], {"Net price €": {"gte": 5.0, "lte": 9.5}}),
        (["day>=2026-01-31", "a!=x", "a!=y"], {"day": {"gte": "2026-01-31"}, "a": {"not": ["x", "y"]}}),
        (["size>=38", "size!=40"], {"size": {"gte": 38.0, "not": ["40", 40.0]}}),
        (["a=b<=c"], {"a": ["b<=c"]}),
    ],
)  # fmt: skip
def test_conditions_become_a_filter(conditions: list[str], filter: object) -> None:
    assert parse_filter(conditions) == filter


def test_search_takes_ranges_and_exclusions(shop: Path) -> None:
    def hits(*conditions: str) -> list[str]:
        options = [part for condition in conditions for part in ("--filter", condition)]
        return [hit["document_id"] for hit in _hits("kettle", *options, home=shop)]

    assert hits("watt>=2200") == ["k1"]
    assert "k2" not in hits("brand!=Brava")


def test_search_of_several_corpora_names_the_corpus_of_each_hit(shop: Path, tmp_path: Path) -> None:
    shutil.copytree(shop / "corpora", tmp_path / "corpora")
    page = write_file(tmp_path / "tea.md", "# Tea\n\nBoil water in an electric kettle.\n")
    static = write_static(tmp_path / "static", ["boil", "water", *SELF_CHECK_WORDS])
    options = ("--name", "tea", "--encoder", static)
    built = _run("index", "build", "reference", page, *options, home=tmp_path)
    assert built.returncode == 0, built.stderr

    both = ("--corpus", "shop", "--corpus", "tea")
    searched = _run("search", "electric kettle", *both, "--json", home=tmp_path, encoder=static)
    hits = [json.loads(line) for line in searched.stdout.splitlines()]
    expected = {"shop": "santa-minilm-l6-int8", "tea": "tiny-static"}
    assert {hit["corpus"]: hit["encoder"] for hit in hits} == expected
    assert "vectors of different encoders" in searched.stderr
    printed = _run("search", "Tea", *both, "-k", 1, home=tmp_path, encoder=static).stdout
    assert printed.startswith("tea.md")
    assert " 1. [tea] Tea  1.00  (it is what you named)" in printed


def test_evaluate_prints_measures_and_writes_a_run(shop: Path) -> None:
    rows = [{"_id": "q1", "text": "laptop memory"}, {"_id": "q2", "text": "whistling kettle"}]
    queries = write_jsonl(shop / "queries.jsonl", rows)
    judged = "query-id\tcorpus-id\tscore\nq1\tm1\t2\nq2\tk2\t1\nq3\tk1\t1\n"
    qrels = write_file(shop / "qrels.tsv", judged)

    completed = _evaluate(queries, qrels, shop / "run.trec", home=shop)
    measures = {m["name"]: m for m in json.loads(completed.stdout)}
    # q3 is judged and not among the queries: it counts 0.
    assert measures["MRR@100"]["mean"] == pytest.approx(2 / 3)
    assert measures["MRR@100"]["queries"] == 3
    assert len((shop / "run.trec").read_text().splitlines()) == 6


def test_ids_that_columns_cannot_hold_are_escaped(tmp_path: Path) -> None:
    pot = {"_id": "tea pot.md", "title": "tea pot", "text": "A pot for tea."}
    queries = write_jsonl(tmp_path / "queries.jsonl", [{"_id": "100%", "text": "tea"}])
    _build(write_jsonl(tmp_path / "corpus.jsonl", [pot]), home=tmp_path)

    for judged in ("100%\ttea pot.md\t1\n", "100%25 0 tea%20pot.md 1\n"):
        qrels = write_file(tmp_path / "judged.txt", judged)
        completed = _evaluate(queries, qrels, tmp_path / "run.trec", home=tmp_path)
        assert "2 ids hold white space, control characters or %" in completed.stderr
        assert {measure["mean"] for measure in json.loads(completed.stdout)} == {1.0}
        row = "100%25\tQ0\ttea%20pot.md\t1\t1.0\tpurlin\n"
        assert (tmp_path / "run.trec").read_text() == row


def test_a_catalogue_in_another_language_has_an_encoder_that_reads_it(tmp_path: Path) -> None:
    titles = ["Wasserkocher aus Edelstahl", "Wärmflasche mit Strickbezug", "Gartenschlauch"]
    rows = [{"id": f"w{number}", "title": title} for number, title in enumerate(titles)]
    built = _build(write_jsonl(tmp_path / "german.jsonl", rows), home=tmp_path)
    assert "not in English, so ensemble-int8 is used" in built.stderr
    assert '"name": "ensemble-int8"' in _run("index", "show", "shop", home=tmp_path).stdout

    again = _build(tmp_path / "german.jsonl", "--encoder", "static", home=tmp_path)
    assert "ensemble" not in again.stderr


def test_a_build_that_measures_worse_is_refused_unless_forced(tmp_path: Path) -> None:
    rows = [{"_id": "q1", "text": "electric kettle"}, {"_id": "q2", "text": "whistling kettle"}]
    queries = write_jsonl(tmp_path / "queries.jsonl", rows)
    qrels = write_file(tmp_path / "qrels.tsv", "q1\tk1\t1\nq2\tk2\t1\n")
    corpus = tmp_path / "corpus.jsonl"

    def build(rows: list[dict[str, object]], *options: object) -> subprocess.CompletedProcess[str]:
        return _build(write_jsonl(corpus, rows), *options, home=tmp_path)

    measured = ("--queries", queries, "--qrels", qrels, "--measure", "mrr@100")
    assert "MRR@100 1.0000 (1.0000 to 1.0000) on 2 queries" in build(SHOP, *measured).stdout
    completed = build(SHOP[2:], *measured)
    assert completed.returncode == 1
    assert (
        "is worse than the active one and was kept, not activated: MRR@100 0.0000"
        in completed.stderr
    )
    assert "2 of 2 relevant documents are not in this build" in completed.stderr
    assert "--force" in completed.stderr
    assert "3 documents" not in build(SHOP[2:], *measured, "--force").stdout
    assert '"documents": 1' in _run("index", "show", "shop", home=tmp_path).stdout
    assert "--queries and --qrels go together" in build(SHOP, "--queries", queries).stderr
    assert "3 documents" in build(SHOP, "--force").stdout
    assert "nothing has changed since its active build" in _build(corpus, home=tmp_path).stdout
    assert "3 documents" in _build(corpus, "--force", home=tmp_path).stdout


def test_columns_of_a_catalogue_are_assigned(tmp_path: Path) -> None:
    catalogue = tmp_path / "odd.csv"
    catalogue.write_text("Ref,Title,Prose\nA-1,Saw,Cuts wood\nA-2,Vice,Holds wood\n")

    def built(*options: str) -> subprocess.CompletedProcess[str]:
        return _build(catalogue, "--encoder", "static", *options, home=tmp_path)

    assert 'not recognised as id, description, brand: columns "Ref", "Prose" are' in built().stdout
    completed = built("--column", "description=Prose", "--column", "id=Ref")
    assert (completed.returncode, "not recognised" in completed.stdout) == (0, False), (
        completed.stderr
    )
    [hit] = _hits("A-2", "-k", 1, home=tmp_path)
    assert (hit["id"], hit["text"]) == ("A-2", "Holds wood")

    for options, words in (
        (("--column", "Prose"), "give STANDARD=COLUMN"),
        (("--column", "prose=Prose"), "unknown column 'prose'; known are id"),
        (("--column", "id=Nr"), "odd.csv has no column 'Nr'; columns are Ref, Title, Prose"),
        (("--column", "id=Ref", "--column", "id=Title"), "id is 'Ref' already"),
    ):
        refused = built(*options)
        assert refused.returncode != 0
        assert words in " ".join(refused.stderr.split())


def test_earlier_queries_find_what_they_led_to(tmp_path: Path) -> None:
    corpus, log = write_jsonl(tmp_path / "corpus.jsonl", SHOP), tmp_path / "log.jsonl"
    queries = [("for my morning tea", "k1"), ("tea", "gone")]
    write_jsonl(log, ({"query": query, "document": document} for query, document in queries))
    completed = _build(corpus, "--query-log", log, home=tmp_path)
    assert "query log: 1 of 2 queries lead to its documents" in completed.stdout
    [hit] = _hits("morning tea", "-k", 1, home=tmp_path)
    assert hit["document_id"] == "k1"
    assert hit["scores"]["log"] > 0.5
    log.write_text("{}\n")
    wrong = _build(corpus, "--query-log", log, home=tmp_path)
    assert wrong.returncode == 1
    words = "line 1 is not a JSON object with a query and the id of a document"
    assert words in " ".join(wrong.stderr.split())


def test_demo_corpora_are_built_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shelf = source("all", numbered(3))
    demo = Demo("shelf", "reference", "three shelves", lambda: iter([shelf]))
    monkeypatch.setattr("purlin.index.demo.demos", lambda: (demo,))
    encoder = write_static(tmp_path / "static")

    first = _run("index", "demo", home=tmp_path / "home", encoder=encoder)
    assert first.returncode == 0, first.stderr
    assert "building demo corpus 1 of 1, shelf (three shelves)" in first.stdout
    assert "shelf: 3 documents" in first.stdout

    again = _run("index", "demo", home=tmp_path / "home", encoder=encoder)
    assert (again.returncode, again.stdout) == (0, "")


def test_a_build_is_activated_and_a_corpus_deleted(shop: Path, tmp_path: Path) -> None:
    directory = tmp_path / "corpora/shop"
    for options in ([], ["--force"]):
        built = _build(shop / "corpus.jsonl", *options, home=tmp_path)
        assert built.returncode == 0, built.stderr
    first, second = sorted(path.name for path in directory.iterdir() if path.is_dir())
    assert (directory / "CURRENT").read_text().strip() == second
    assert _run("index", "activate", "shop", first, home=tmp_path).returncode == 0
    assert (directory / "CURRENT").read_text().strip() == first
    assert _run("index", "delete", "shop", home=tmp_path).returncode == 0
    # What is left says that it was deleted on purpose: a server would build a demo again.
    assert [path.name for path in directory.iterdir()] == [".deleted"]
    assert _run("index", "show", "shop", home=tmp_path).returncode == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["search", "x", "--corpus", "nope"], "no corpus 'nope'. Corpora: shop"),
        (["search", "x", "--corpus", "../shop"], "is not a valid corpus name"),
        (["search", " ", "--corpus", "shop"], "query is empty"),
        (["search", "caf\udce9", "--corpus", "shop"], "query is not valid Unicode; send UTF-8"),
        (["search", "electric", "kettle"], "purlin search 'electric kettle'"),
        (["search", "an", "electric", "kettle"], "purlin search 'an electric kettle'"),
        (["search", "x", "--corpus", "shop", "--filter", "brand"], "FIELD=VALUE"),
        (
            ["search", "x", "--corpus", "shop", "--filter", "watt=1", "--filter", "watt<=9"],
            "--filter watt= and another condition on watt cannot be combined; leave one out.",
        ),
        (
            ["search", "x", "--corpus", "shop", "--filter", "watt=cheap"],
            """a range as {"lte": 50}, or --filter 'watt<=50'.""",
        ),
        (
            ["search", "x", "--corpus", "shop", "--filter", "watt>=9", "--filter", "watt<=3"],
            "The lower bound 9.0 is above the upper one, 3.0: swap them.",
        ),
        (["search", "x", "--corpus", "shop", "--filter", "nope=1"], "a filterable field 'nope'"),
        (["search", "x", "--corpus", "shop", "-k", "0"], "k is 0; it must be 1 to 1000"),
        (["search", "x", "--corpus", "shop", "--mode", "magic"], "magic"),
        (["search", "x", "--corpus", "shop", "--encoder", "/nonexistent"], "/nonexistent"),
        (["index", "build", "code", "/nonexistent", "--name", "x"], "/nonexistent"),
        (["index", "build", "music", ".", "--name", "x"], "music"),
        (["index", "build", "code", "tests/data/code", "--name", "Bad Name"], "is not a valid corpus name"),
        (["index", "activate", "shop", "nope"], "has no build 'nope'"),
        (["index", "delete", "nope"], "no corpus 'nope'"),
        (["serve", "--home", __file__], "set PURLIN_HOME to a directory"),
        (["index", "list", "--home", __file__], "set PURLIN_HOME to a directory"),
        (["evaluate", "search", "--corpus", "shop", "--queries", "/nope", "--qrels", "/nope"], "/nope"),
    ],
)  # fmt: skip
def test_what_goes_wrong_is_one_clear_line(shop: Path, arguments: list[str], words: str) -> None:
    completed = _run(*arguments, home=shop)
    assert completed.returncode != 0
    assert words in " ".join(completed.stderr.split())
    assert "Traceback" not in completed.stderr


# A shell's background jobs ignore SIGINT, and so would what they start.
INTERRUPTIBLE = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_build_is_not_active(tmp_path: Path, number: signal.Signals) -> None:
    things = ({"_id": str(n), "text": f"thing {n} " * 60} for n in range(20_000))
    corpus = write_jsonl(tmp_path / "corpus.jsonl", things)
    command = ("-m", "purlin", "index", "build", "product", corpus, "--name", "big")
    child = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTIBLE, *command],
        cwd=ROOT,
        env=os.environ | {"PURLIN_HOME": str(tmp_path / "home")},
        stderr=subprocess.PIPE,
        text=True,
    )
    directory = tmp_path / "home/corpora/big"
    while not list(directory.glob(".making-*")):
        time.sleep(0.05)
    child.send_signal(number)
    _, errors = child.communicate(timeout=180)
    assert child.returncode == 130
    assert "interrupted; the same command goes on from there" in errors
    assert not list(directory.glob(".making-*"))
    assert not (directory / "CURRENT").exists()


# SIGTERM arrives in a callback, in which Python drops exceptions; imports have such callbacks.
INTERRUPTED_CALLBACK = """
import signal, sys, time, weakref
from purlin import cli

def run(name, arguments):
    lock = type("Lock", (), {})()
    reference = weakref.ref(lock, lambda _: signal.raise_signal(signal.SIGTERM))
    del lock
    time.sleep(120)
    return 0

cli.run_quick = run
sys.argv = ["purlin", "search"]
cli.main()
"""


def test_a_command_ends_though_its_interruption_was_lost() -> None:
    started = time.monotonic()
    result = run([sys.executable, "-c", INTERRUPTED_CALLBACK])
    assert (result.returncode, result.stderr) == (130, "interrupted\n")
    assert time.monotonic() - started < 120


# Ctrl-C arrives as a module of the command line begins to be imported.
INTERRUPTED_IMPORT = """
import os, signal, sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == sys.argv[1]:
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Finder())
from purlin.__main__ import main
main()
"""


@pytest.mark.parametrize("module", ["purlin.cli", "purlin.cli.terminal", "purlin.index.errors"])
def test_a_command_interrupted_while_it_is_loaded_ends_in_one_line(module: str) -> None:
    completed = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_IMPORT, module],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )
    assert (completed.returncode, completed.stderr) == (130, "interrupted\n")


@pytest.mark.parametrize(
    "command",
    [["index", "build"], ["index", "list"], ["index", "show"], ["index", "activate"], ["index", "delete"],
     ["classifier", "list"], ["classifier", "show"], ["classifier", "activate"], ["classifier", "delete"],
     ["serve"], ["evaluate", "search"], ["train", "export"]],
)  # fmt: skip
def test_every_command_has_help_with_an_example(command: list[str]) -> None:
    from typer.testing import CliRunner

    shown = CliRunner().invoke(command_line, [*command, "--help"])
    assert shown.exit_code == 0
    assert f"Example: purlin {' '.join(command)}" in " ".join(shown.output.split())


def test_neither_the_package_nor_the_help_imports_anything_heavy() -> None:
    script = (
        "import sys, purlin, purlin.cli.commands\n"
        "print([m for m in ('faiss', 'fastapi', 'numpy', 'torch') if m in sys.modules])"
    )
    assert run([sys.executable, "-c", script]).stdout.strip() == "[]"
