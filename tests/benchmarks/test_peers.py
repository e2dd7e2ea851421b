"""The harness of the comparisons on a few documents: load, records, tables, growth and sizing."""

from __future__ import annotations

import json
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.speed import functions, growth, load, sizing, steady, tables
from benchmarks.speed.load import Client, Request
from benchmarks.speed.processes import directory_mb, free_port, memory_of, serving
from benchmarks.speed.records import Records, median_of, select
from benchmarks.speed.vectors import CachedEncoder, corpus_texts, read_matrix
from purlin.index.encoder import STATIC_ENCODER
from tests.support.files import write_jsonl
from tests.support.hash_encoder import HashEncoder

ROWS = [
    {"_id": "a", "title": "open_file", "text": "def open_file(path):\n    return open(path)"},
    {"_id": "b", "title": "add", "text": "def add(a, b):\n    return a + b"},
]


class Replies(BaseHTTPRequestHandler):
    """Answers 200; 503 if the path ends in `busy`."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(503 if self.path.endswith("busy") else 200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None: ...


class Clock:
    """The seconds that the fixed loop of `benchmarks.speed.steady` takes, one after another."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *seconds: float) -> None:
        self.left = list(seconds)
        monkeypatch.setattr(steady, "_loop_s", lambda: self.left.pop(0))
        monkeypatch.setattr(steady, "PAUSE_S", 0.0)


def test_a_load_waits_until_the_machine_is_steady(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch, 1.0, 1.1, 1.2, 3.0, 1.7, 1.0, 1.5)

    assert steady.Steady().measured(lambda: len(clock.left)) == (1, True)
    assert not clock.left


def test_a_disturbed_load_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch, 1.0, 1.0, 1.0, 1.0, 3.0, 1.0, 1.0)

    assert steady.Steady().measured(lambda: len(clock.left)) == (1, True)


def test_a_load_that_is_always_disturbed_is_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    Clock(monkeypatch, 1.0, 1.0, 1.0, *[3.0] * 2 * steady.TRIES)
    monkeypatch.setattr(steady, "PATIENCE_S", 0.0)

    assert steady.Steady().measured(lambda: "load") == ("load", False)


def test_a_faster_loop_is_the_usual_one_from_then_on(monkeypatch: pytest.MonkeyPatch) -> None:
    Clock(monkeypatch, 3.0, 3.0, 3.0, 1.0, 2.0)
    machine = steady.Steady()

    assert machine.is_steady()
    assert not machine.is_steady()


@pytest.fixture
def service() -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Replies)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server.server_port
    server.shutdown()
    server.server_close()
    thread.join()


# ---- load


def test_measure_counts_every_request(service: int) -> None:
    requests = [Request("POST", "/", {"number": number}) for number in range(20)]
    requests += [Request("POST", "/busy", {})] * 5

    result = load.measure(service, requests, clients=3, warm_up=4)

    assert (result.requests, result.errors, result.clients) == (16, 5, 3)
    assert 0 < result.p50_ms <= result.p95_ms
    assert result.rate == pytest.approx(16 / result.seconds)


@given(st.lists(st.floats(0.01, 1e5), min_size=1), st.integers(0, 9), st.floats(0.1, 1e3))
def test_summary_has_numpys_percentiles(
    latencies: list[float], errors: int, seconds: float
) -> None:
    result = load.summary(2, latencies, errors, seconds)

    assert [result.p50_ms, result.p95_ms] == np.percentile(latencies, [50, 95]).tolist()
    assert (result.requests, result.errors) == (len(latencies), errors)


def test_load_without_a_reply_is_refused() -> None:
    with pytest.raises(RuntimeError, match="all 2 requests failed"):
        load.measure(free_port(), [Request("GET", "/")] * 2, clients=1)


def test_serving_waits_and_ends(tmp_path: Path) -> None:
    port = free_port()
    command = [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1"]
    log = tmp_path / "log"

    with serving(command, port, Request("GET", "/"), log=log, directory=tmp_path) as running:
        memory = running.memory()
        assert Client(port).send(Request("GET", "/"))[0] == 200

    assert running.process.poll() is not None
    assert memory["rss_mb"] > memory["own_mb"] > 0


def test_service_that_ends_is_reported_with_its_output(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "raise SystemExit('no weights')"]
    port = free_port()

    with pytest.raises(RuntimeError, match="no weights"):
        with serving(command, port, Request("GET", "/"), log=tmp_path / "log"):
            pass


def test_memory_and_disk_are_counted(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(2**20))
    (tmp_path / "b").hardlink_to(tmp_path / "a")

    assert directory_mb(tmp_path) == pytest.approx(1, abs=0.1)
    assert memory_of([]) == {"rss_mb": 0, "own_mb": 0}


# ---- functions and vectors


def test_collection_keeps_each_function_once(tmp_path: Path) -> None:
    code = "def f():\n    a = 1\n    return a"
    row = {"id": "1", "language": "python", "path": "p", "name": "f", "docstring": "", "code": code}
    short = row | {"id": "2", "code": "def g(): pass"}
    other = row | {"id": "3", "code": code.replace("1", "2")}

    first = functions.Collection(tmp_path)
    assert first.add("0", iter([row, row | {"id": "4"}, short]), 10) == 1

    # A second run knows what the first one wrote.
    second = functions.Collection(tmp_path)
    assert second.add("1", iter([row, other]), 10) == 1
    assert [found["id"] for found in functions.read_functions(tmp_path)] == ["1", "3"]


def test_package_is_read_from_its_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def download(registry: str, package: str, directory: Path) -> None:
        source = tmp_path / "mod.py"
        source.write_text('def twice(value):\n    """Double it."""\n    return value * 2\n')
        with tarfile.open(directory / "package.tar.gz", "w:gz") as archive:
            archive.add(source, "package/mod.py")
            archive.add(source, "package/.gitignore")

    monkeypatch.setattr(functions, "download", download)
    scratch = tmp_path / "scratch"
    scratch.mkdir()

    (row,) = functions.package_rows("pypi", "package", scratch)

    assert (row["name"], row["docstring"], row["language"]) == ("twice", "Double it.", "python")


def test_packages_are_pairs() -> None:
    packages = functions.read_packages(functions.PACKAGES)

    assert {registry for registry, _ in packages} == {"debian", "pypi", "npm"}
    assert len(set(packages)) == len(packages)


def test_encoding_goes_on_after_the_last_chunk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.speed.vectors.CHUNK", 1)
    texts = list(corpus_texts(write_jsonl(tmp_path / "corpus.jsonl.gz", ROWS)))
    CachedEncoder(HashEncoder(), tmp_path / "cache").encode(texts[:1], role="passage")

    encoder = HashEncoder()
    vectors = CachedEncoder(encoder, tmp_path / "cache").encode(texts, role="passage")
    assert encoder.encoded == texts[1:]
    np.testing.assert_array_equal(vectors, HashEncoder().encode(texts, role="passage"))
    np.testing.assert_allclose(read_matrix(tmp_path / "cache"), vectors, atol=1e-3)


# ---- growth


def test_growth_measures_a_small_corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        {"id": row["_id"], "name": row["title"], "code": row["text"] + f"\n# {number}"}
        | {"language": "python", "path": "m.py", "docstring": ""}
        for number in range(10)
        for row in ROWS
    ]
    for number, row in enumerate(rows):
        row["id"] += str(number)
    functions.Collection(tmp_path / "functions").add("0", iter(rows), 100)
    monkeypatch.setattr(growth, "load_queries", lambda _: ["open a file", "add", "sum of both"])

    records = Records(tmp_path, "growth")
    subset = growth.Subset(tmp_path / "functions", tmp_path, 12, STATIC_ENCODER)
    monkeypatch.setattr(growth, "LATENCY_QUERIES", 1)
    monkeypatch.setattr(growth, "WARM_UP", 0)
    monkeypatch.setattr(steady, "_loop_s", lambda: 1.0)
    parts = ["serve", "recall"]
    growth.measure_size(subset, parts, tmp_path, records, steady.Steady())

    build, served, recall = records
    assert build["passages"] == len(subset.source.read_text().splitlines()) == 12
    assert build["peak_mb"] > 10
    assert build["disk_mb"] > 0
    assert served["steady"]
    assert served["one"]["errors"] == served["eight"]["errors"] == 0
    assert 0 < served["elsewhere"] < 1
    assert served["stages"].keys() >= {"encode", "dense", "lexical", "fetch", "request"}
    parts = [seconds for stage, seconds in served["stages"].items() if stage != "request"]
    assert 0 < sum(parts) < served["stages"]["request"]
    assert recall["recall"] == 1

    # What is recorded is not measured again.
    growth.measure_size(subset, parts, tmp_path, records, steady.Steady())
    assert len(list(records)) == 3


def test_windows_cover_every_line_once_or_more(tmp_path: Path) -> None:
    function = {"id": "f", "docstring": "Add.", "code": "\n".join(map(str, range(13)))}

    windows = list(growth.windows_of(function))

    assert [window["code"].split("\n")[0] for window in windows] == ["0", "2", "4", "6"]
    assert windows[-1]["code"].split("\n") == ["6", "7", "8", "9", "10", "11", "12"]
    assert [window["docstring"] for window in windows] == ["Add.", "", "", ""]
    assert [window["id"] for window in windows] == ["f:0", "f:2", "f:4", "f:6"]
    assert len(list(growth.windows_of(function | {"code": "one line"}))) == 1

    # Copies count once, and other windows make up for them.
    rows = [
        {"id": name, "name": name, "code": "\n".join(["a", "b", *lines]), "path": "m.py"}
        | {"language": "python", "docstring": ""}
        for name, lines in (("one", "0123456789"), ("two", "0123456xyz"))
    ]
    functions.Collection(tmp_path / "functions").add("0", iter(rows), 100)
    subset = growth.Subset(tmp_path / "functions", tmp_path, 5, STATIC_ENCODER, windows=True)
    subset.write()
    texts = [json.loads(line)["text"] for line in subset.source.read_text().splitlines()]
    assert len(set(texts)) == len(texts) == 5
    with pytest.raises(ValueError, match="5 rows are there, 6 are needed"):
        growth.Subset(tmp_path / "functions", tmp_path, 6, STATIC_ENCODER, windows=True).write()


def test_exact_scores_are_those_of_all_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growth, "BLOCK", 7)
    encoder = HashEncoder()
    texts = [f"number {number} of {number % 7} and {number % 11}" for number in range(100)]
    queries = ["number 3 of 3 and 3", "number 70 of 0"]

    exact = growth.exact_scores(encoder, queries, iter(texts), map(str, range(100)))

    scores = encoder.encode(queries, role="query") @ encoder.encode(texts, role="passage").T
    for query, row in zip(queries, scores, strict=True):
        expected = np.sort(row)[::-1][: 3 * growth.DEPTH]
        np.testing.assert_allclose(sorted(exact[query].values(), reverse=True), expected, atol=1e-6)


def test_recall_counts_places() -> None:
    exact = {str(number): 1 - number / 100 for number in range(30)}

    assert growth.recall([str(number) for number in range(10)], exact) == 1
    assert growth.recall(["0", "1", "20", "unknown"], exact) == 0.2


# ---- tables and sizes


def growth_records(scratch: Path) -> None:
    records = Records(scratch, "growth")
    for size in (1000, 10_000):
        key = {"encoder": "static-code-int8", "size": size, "windows": False}
        records.add(part="build", **key, seconds=size / 100, peak_mb=100.0, disk_mb=size / 1000)
        memory = {"rss_mb": 100 + size / 1000, "own_mb": 80 + size / 1000}
        one = asdict(load.summary(1, [1.0, 2.0], 0, 1.0))
        values = {"opening_s": 1.0, "searched": memory, "one": one, "eight": one, "elsewhere": 0.2}
        values["stages"] = {"encode": 3.0, "dense": 1.0, "lexical": 4.0, "request": 10.0}
        records.add(part="serve", **key, **values)
    Records(scratch, "encode").add(part="rate", contestant="purlin", rate=100.0)


def test_plots_need_two_sizes_of_what_they_show(tmp_path: Path) -> None:
    records = Records(tmp_path, "growth")
    for size in (1000, 10_000):
        key = {"encoder": "static-code-int8", "size": size, "windows": False}
        records.add(part="build", **key, seconds=1.0, peak_mb=100.0, disk_mb=1.0)

    tables.draw(tmp_path, tmp_path)
    assert {image.stem for image in tmp_path.glob("*.png")} == {"growth-memory", "growth-time"}


def test_tables_replace_what_is_between_marks(tmp_path: Path) -> None:
    growth_records(tmp_path)
    for page in tables.PAGES:
        text = "# Page\n<!-- table growth -->\nold\n<!-- end -->\n<!-- table classify -->\nkept\n<!-- end -->\n"
        (tmp_path / page).write_text(text)
    (tmp_path / "images").mkdir()

    tables.write_pages(tmp_path, tmp_path)
    tables.draw(tmp_path, tmp_path / "images")
    page = (tmp_path / "performance.md").read_text()

    assert "old" not in page
    assert "kept" in page
    assert "| 10,000 | static vectors | 100 | 100 | 10 | 1.0 | 110 (90) |" in page
    assert (tmp_path / "images" / "growth-latency.png").read_bytes().startswith(b"\x89PNG")

    tables.write_pages(tmp_path, tmp_path)
    assert (tmp_path / "performance.md").read_text() == page


def test_search_table_has_medians_and_ratios(tmp_path: Path) -> None:
    records = Records(tmp_path, "search")
    for name, factor in (("purlin", 9), ("purlin-dense", 1), ("txtai", 2), ("txtai-hybrid", 18)):
        records.add(part="quality", corpus="cosqa", contestant=name, ndcg=0.5)
        for clients in (1, 8):
            for round_number in range(3):
                result = load.summary(clients, [factor * (1.0 + round_number)], 0, factor)
                key = {"corpus": "cosqa", "contestant": name, "round": round_number}
                records.add(part="load", **key | asdict(result), rss_mb=10.0, own_mb=9.0)

    header, _, ours, theirs, _ = tables.search_table(tmp_path, "cosqa")

    assert len(header) == len(ours) == len(theirs)
    assert ours[2] == "2.0 (1.0–3.0)"
    assert theirs[-1] == "0.500"
    # Vectors alone beside vectors alone, both retrievers beside both.
    assert tables.ratio_table(tmp_path, "cosqa")[1:] == [
        ["Purlin, vectors alone", "txtai 9.14, its API", "2.0x", "2.0x", "2.0x"],
        ["Purlin", "txtai 9.14, its API, hybrid", "2.0x", "2.0x", "2.0x"],
    ]
    assert median_of(select(records, part="load", contestant="purlin-dense"), "p50_ms") == 2.0


def test_every_table_has_its_marks() -> None:
    pages = "".join((Path("docs") / page).read_text() for page in tables.PAGES)

    assert [name for name in tables.TABLES if f"<!-- table {name} -->" not in pages] == []


@given(st.floats(0, 1e3), st.floats(1e-6, 10))
def test_line_is_found_again(base: float, slope: float) -> None:
    sizes = [1e3, 1e4, 1e5]
    line = sizing.fit(sizes, [base + slope * size for size in sizes])

    assert line.at(1e6) == pytest.approx(base + slope * 1e6, rel=1e-3)


def test_estimate_extends_the_curves(tmp_path: Path) -> None:
    growth_records(tmp_path)
    lines = sizing.curves(list(Records(tmp_path, "growth")), "static-code-int8")

    cost = sizing.estimate(lines, 100_000_000, 100.0)

    assert cost.memory_gb == pytest.approx((100 + 100_000) / 1024, rel=1e-3)
    assert cost.machines == 3
    assert cost.encode_hours == pytest.approx(1e6 / 3600)


def test_one_size_gives_no_line() -> None:
    with pytest.raises(ValueError, match="two sizes"):
        sizing.fit([1000], [1.0])
