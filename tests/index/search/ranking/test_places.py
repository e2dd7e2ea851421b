"""Files and lines in a query, such as those of a stack trace, and what is found there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from purlin.index.records import Mode
from purlin.index.search.corpus import Corpus
from purlin.index.search.ranking.places import MAX_PLACES, endings, places, without_frames
from purlin.index.search.why import why
from tests.support.corpora import open_repository


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("src/pump.py:12", {"src/pump.py": {12: ""}}),
        (
            'File "/srv/app/pump.py", line 12, in open_valve',
            {"/srv/app/pump.py": {12: "open_valve"}},
        ),
        ("    at open (/srv/app/pump.js:12:7)", {"/srv/app/pump.js": {12: "open"}}),
        ("    at open (file:///srv/pump.mjs:12:7)", {"///srv/pump.mjs": {12: "open"}}),
        ("\t/srv/app/pump.go:12 +0x105", {"/srv/app/pump.go": {12: ""}}),
        ("main.(*Pump).Open(0x0)\n\t/srv/pump.go:12 +0x105", {"/srv/pump.go": {12: "Open"}}),
        ("panicked at 'empty', ./src/pump.rs:12:5", {"./src/pump.rs": {12: ""}}),
        ("app/pump.rb:12:in `open'", {"app/pump.rb": {12: "open"}}),
        ("app/pump.rb:12:in 'Pump#open'", {"app/pump.rb": {12: "open"}}),
        ("at com.acme.Pump.open(Pump.java:12)", {"Pump.java": {12: "open"}}),
        ("at acme.pump$open_valve.invokeStatic(pump.clj:12)", {"pump.clj": {12: "open-valve"}}),
        ("at acme.pump$open_valve$fn__7.doInvoke(pump.clj:12)", {"pump.clj": {12: "open-valve"}}),
        ("at com.acme.PumpKt$open$1.invoke(Pump.kt:12)", {"Pump.kt": {12: "open"}}),
        ("at Object.<anonymous> (pump.js:12:7)", {"pump.js": {12: ""}}),
        ("#0 /srv/app/Pump.php(12): open()", {"/srv/app/Pump.php": {12: ""}}),
        ("in /srv/app/Pump.php on line 12", {"/srv/app/Pump.php": {12: ""}}),
        ("at Pump.Open(Int32 n) in C:\\app\\Pump.cs:line 12", {"\\app\\Pump.cs": {12: "Open"}}),
        ("empty at lib/Pump.pm line 12.", {"lib/Pump.pm": {12: ""}}),
        ("No gate at /usr/lib/lock/pump line 12.", {"/usr/lib/lock/pump": {12: ""}}),
        ("bin/pump.sh: line 12: gate: command not found", {"bin/pump.sh": {12: ""}}),
        ("bin/pump: line 12: gate: command not found", {"bin/pump": {12: ""}}),
        ("bin/pump.sh: 12: gate: not found", {"bin/pump.sh": {12: ""}}),
        ("see chapter line 12, pump.py: 3 gates, and lock line 4", {}),
        ("a.py:3 b.py:4 a.py:5 a.py:3", {"a.py": {3: "", 5: ""}, "b.py": {4: ""}}),
        ("pump.py:12: in open_valve\nE  Empty\npump.py:12: Empty", {"pump.py": {12: "open_valve"}}),
        ("at Net.open (node:internal/net:12:7)", {"lib/internal/net.js": {12: "open"}}),
        ("#1 0x0f in fill_tank (n=3) at src/pump.c:12", {"src/pump.c": {12: "fill_tank"}}),
        ("retry at 10:30, three times: 5", {}),
        ("open(3)", {}),
        ("x.py:0", {}),
        ("", {}),
    ],
)
def test_places_of_a_query_are_read(query: str, expected: dict[str, dict[int, str]]) -> None:
    assert places(query) == expected


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (
            "Traceback (most recent call last):\n"
            '  File "/srv/app/pump.py", line 12, in open_valve\n'
            "    raise Empty(\n        ^^^^^^\n"
            "Empty: no water\n",
            "Empty: no water",
        ),
        ("Error: no water\n    at open (/srv/pump.js:12:7)\n    at node:net:3:1", "Error: no water"),
        (
            "java.io.IOException: shut\n\tat com.acme.Pump.open(Pump.java:12)\n"
            "Caused by: a.Dry: no water\n\t... 3 more",
            "java.io.IOException: shut\nCaused by: a.Dry: no water\n\t... 3 more",
        ),
        (
            "pump.rb:12:in `open': no water (Dry)\n\tfrom main.rb:3:in `<main>'",
            "pump.rb:12:in `open': no water (Dry)",
        ),
        ("pump.py:12: in open_valve\nE   Dry: no water", "E   Dry: no water"),
        ("panic: dry\n\ngoroutine 1 [running]:\nmain.(*Pump).Open(0x0)\n\t/srv/p.go:12 +0x1\n", "panic: dry"),
        ("Dry: empty\n#0 /srv/Pump.php(12): open()\n#1 {main}", "Dry: empty"),
        ("panicked: dry\n   3: app::open\n             at ./src/pump.rs:12:5\n", "panicked: dry"),
        # No frames, or nothing else.
        ("at noon the pump opens\nfrom the tank", None),
        ("    at open (/srv/app/pump.js:12:7)", None),
    ],
)  # fmt: skip
def test_a_trace_is_searched_by_its_message(query: str, message: str | None) -> None:
    assert without_frames(query) == (query if message is None else message)


def test_long_queries_take_no_time_to_speak_of() -> None:
    for piece in ("a.", "a/", "..", "a.py:", '", line '):
        assert places(piece * 20_000) == {}
    for piece in ("at (", "#1 ", "f(", "1: ", "a:1:in ", 'File "a", line 1\n    '):
        query = piece * 2_000
        assert without_frames(query) == query
    assert len(places(" ".join(f"a.py:{line}" for line in range(1, 2_000)))["a.py"]) == MAX_PLACES


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("pump.py", ["pump.py"]),
        ("./pump.py", ["pump.py"]),
        ("/app/pump.py", ["app/pump.py", "pump.py"]),
        ("/srv/app/pump.py", ["srv/app/pump.py", "app/pump.py"]),
        ("\\srv\\app\\Pump.cs", ["srv/app/Pump.cs", "app/Pump.cs"]),
        ("/", []),
    ],
)
def test_a_path_is_looked_up_by_its_endings(path: str, expected: list[str]) -> None:
    assert list(endings(path)) == expected


FILES = {
    "app/pump.py": (
        "class Pump:\n    def open_valve(self):\n        raise EmptyTank(self.tank)\n\n"
        "    def close_valve(self):\n        self.tank.close()\n"
    ),
    "app/tank.py": "def fill(tank):\n    tank.pump.open_valve()\n",
    "app/errors.py": "class EmptyTank(Exception):\n    '''No water, raised when a valve opens.'''\n",
}
TRACE = """Traceback (most recent call last):
  File "/srv/lib/python3.11/runpy.py", line 2, in run
  File "/srv/app/tank.py", line 2, in fill
    tank.pump.open_valve()
  File "/srv/app/pump.py", line 3, in open_valve
    raise EmptyTank(self.tank)
app.errors.EmptyTank: no water"""


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Corpus]:
    with open_repository(tmp_path_factory.mktemp("repository"), FILES) as corpus:
        yield corpus


def test_functions_of_a_trace_come_first(corpus: Corpus) -> None:
    hits = corpus.search(TRACE, explain=True).hits
    assert {hit.title for hit in hits[:2]} == {"fill", "Pump.open_valve"}
    assert [hit.score for hit in hits[:2]] == [1.0, 1.0]
    assert hits[2].score < 1.0
    assert why(TRACE, hits[0]) == "it is what you named"


def test_a_trace_of_another_version_finds_its_functions(corpus: Corpus) -> None:
    for query, title in {
        'File "/srv/app/pump.py", line 6, in open_valve': "Pump.open_valve",
        'File "/srv/app/pump.py", line 99, in close_valve': "Pump.close_valve",
        'File "/srv/app/pump.py", line 6, in drain': "Pump.close_valve",
        "at new Pump (app/pump.py:3)": "Pump.open_valve",
    }.items():
        first, second, *_ = corpus.search(query).hits
        assert (first.title, first.score) == (title, 1.0)
        assert second.score < 1.0


@pytest.mark.parametrize("mode", ["hybrid", "lexical"])
def test_the_innermost_definition_at_a_line_comes_first(corpus: Corpus, mode: Mode) -> None:
    for query, title in {
        "app/pump.py:6": "Pump.close_valve",
        "why does app/pump.py:1 exist": "Pump",
    }.items():
        hit = corpus.search(query, mode=mode).hits[0]
        assert (hit.title, hit.score) == (title, 1.0)


def test_places_that_are_nowhere_are_words(corpus: Corpus) -> None:
    for query in ("valve.py:3", "app/pump.py:99", "/a/b/c/pump.py:3"):
        assert all(hit.score < 1.0 for hit in corpus.search(query).hits)


def test_words_of_frames_that_are_nowhere_find_nothing(tmp_path: Path) -> None:
    files = {
        "pump.js": "function openValve (tank) {\n  if (!tank) throw new Error('no water left')\n}\n",
        "alarm.js": "function ring (bell) {\n  log('no water left in the tank', bell)\n}\n",
        "task.js": "function processTicks (queues) {\n  return queues.map(processTask)\n}\n",
    }
    trace = (
        "Error: no water left\n    at openValve (/srv/pump.js:2:9)\n"
        "    at process.processTicksAndRejections (node:internal/process/task_queues:105:5)"
    )
    with open_repository(tmp_path, files) as corpus:
        result = corpus.search(trace)

    assert [hit.title for hit in result.hits] == ["openValve", "ring", "processTicks"]
    assert (result.hits[0].score, result.corrected) == (1.0, None)
    assert result.hits[2].score < 0.1


def test_frames_with_the_name_of_a_file_alone_find_their_functions(tmp_path: Path) -> None:
    pump = "package acme;\n\nclass Pump {\n  void open() {\n    fill();\n  }\n}\n"
    files = {
        "src/main/java/acme/Pump.java": pump,
        "src/main/java/acme/Gate.java": pump.replace("Pump", "Gate"),
        "src/acme/gate/lock.py": "def turn(key):\n    return key\n",
        "src/acme/door/lock.py": "def turn(key):\n    return key\n",
        "lib/internal/net.js": "Net.connect = function (port) {\n  return port\n}\n",
    }
    with open_repository(tmp_path, files) as corpus:
        for frame, title in {
            "at acme.Pump.open(Pump.java:5)": "Pump.open",
            "at Net.connect (node:internal/net:2:3)": "Net.connect",
            # An installed package, which the repository has below a folder.
            'File "/lib/site-packages/acme/gate/lock.py", line 9, in turn': "turn",
        }.items():
            hits = corpus.search(f"IOException: shut\n\t{frame}").hits
            assert [hit.title for hit in hits if hit.score == 1.0] == [title]
        assert hits[0].location.path == "src/acme/gate/lock.py"
        # No file of this name has such a function.
        hits = corpus.search("at acme.Pump.close(Pump.java:5)\nat acme.Door.open(Door.java:4)").hits
        assert all(hit.score < 1.0 for hit in hits)
