"""Definitions that are read by patterns, in languages without a grammar."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from purlin.index.records import Document
from purlin.index.sources.code.pattern_languages import PATTERN_LANGUAGES
from purlin.index.sources.code.patterns import pattern_outline
from purlin.index.sources.code.repository import files
from tests.support.paths import DATA

PATTERN_FILES = DATA / "patterns"

# title, kind, first line, last line, first line of the summary
EXPECTED = {
    "CMakeLists.txt": [
        ("add_checked_test", "function", 5, 9, "Adds a test that is run with valgrind."),
        ("harbor", "target", 11, 13, ""),
        ("CMakeLists", "module", 2, 2, ""),
    ],
    "Makefile": [
        ("all", "target", 6, 6, ""),
        ("harbor", "target", 8, 9, "Links the program"),
        ("clean", "target", 12, 14, "Removes what was built."),
        ("%.o", "target", 16, 17, ""),
        ("Makefile", "module", 1, 18, "Builds the harbour."),
    ],
    "adder.v": [
        ("adder", "module", 2, 4, "Adds two bits."),
    ],
    "buoy.cr": [
        ("Buoy", "class", 3, 11, "A buoy in the bay."),
        ("Buoy.ring", "method", 5, 9, "Rings its bell."),
        ("Buoy.find?", "method", 10, 10, ""),
    ],
    "corners.scss": [
        ("rounded", "mixin", 2, 2, "Rounded corners."),
        ("corners", "module", 3, 3, ""),
    ],
    "counter.sv": [
        ("counter", "module", 2, 9, "Counts up."),
        ("counter.next", "function", 6, 8, ""),
    ],
    "crane.d": [
        ("Load", "struct", 10, 27, "A load + its weight."),
        ("Load.this", "method", 14, 17, ""),
        ("Load.heavy", "method", 20, 20, "Whether it is heavy."),
        ("Load.opOpAssign", "method", 22, 26, ""),
        ("Crane", "interface", 29, 32, ""),
        ("Side", "enum", 34, 34, ""),
        ("liftAll", "function", 39, 51, "Lifts all loads of a range."),
        ("unittest", "test", 54, 58, ""),
        ("mark", "function", 64, 64, ""),
        ("name", "function", 66, 66, ""),
        ("hoist", "function", 69, 71, ""),
        ("Weighed", "template", 73, 76, ""),
        ("crane", "module", 1, 3, "Cranes of a harbour."),
        ("crane", "module", 36, 36, ""),
        ("crane", "module", 60, 62, ""),
    ],
    "dock.tcl": [
        ("::harbor::dock", "function", 3, 6, "Docks a ship."),
    ],
    "ferry.pl": [
        ("route", "function", 10, 16, "Route leads from one island to another."),
        ("sails", "function", 18, 19, ""),
        ("flag", "function", 21, 21, ""),
        ("timetable", "function", 23, 24, ""),
        ("portray", "function", 26, 26, ""),
    ],
    "fleet.graphql": [
        ("Ship", "type", 4, 8, "A ship of the fleet."),
        ("Named", "interface", 11, 13, "Where ships moor"),
        ("Found", "type", 15, 17, ""),
        ("Date", "type", 19, 19, ""),
        ("Order", "enum", 21, 21, "What may be sorted by"),
        ("ShipFilter", "type", 22, 24, ""),
        ("Query", "type", 25, 27, ""),
        ("auth", "directive", 28, 28, ""),
        ("Fleet", "query", 29, 31, ""),
    ],
    "gate.el": [
        ("gate-toggle", "function", 4, 7, 'Open or close GATE, depending on "state".'),
        ("gate", "module", 1, 3, "gate.el --- Opens gates  -*- lexical-binding: t -*-"),
    ],
    "greet.fish": [
        ("greet", "function", 2, 6, "Greets someone."),
    ],
    "harbor.proto": [
        ("HarborService", "service", 10, 19, "Berths of a harbour { and their ships."),
        ("HarborService.Moor", "rpc", 12, 12, "Moors a ship at a free berth."),
        ("HarborService.Watch", "rpc", 15, 18, "Streams where the ships are."),
        ("Berth", "message", 24, 37, "A place for one ship."),
        ("Berth.State", "enum", 26, 29, ""),
        ("Berth.Point", "message", 32, 32, "Where it is."),
        ("MoorRequest", "message", 39, 39, ""),
        ("Tide", "enum", 41, 41, ""),
        ("google.protobuf.FieldOptions", "extension", 42, 44, ""),
    ],
    "jump.vim": [
        ("jump#to", "function", 2, 5, "Jumps to the definition."),
        ("JumpTo", "command", 6, 6, ""),
    ],
    "kiln.clj": [
        ("programs", "constant", 8, 10, ""),
        ("heat", "function", 12, 15, "Raises the temperature of a kiln."),
        ("cool", "function", 17, 17, ""),
        ("fire", "function", 19, 19, ""),
        ("fire", "function", 20, 20, ""),
        ("Kiln", "class", 21, 21, ""),
        ("with-kiln", "macro", 22, 23, ""),
        ("heat-test", "test", 24, 25, ""),
        ("kiln", "module", 5, 6, "Degrees at which glaze melts."),
    ],
    "lamp.erl": [
        ("HALF", "macro", 6, 6, ""),
        ("lamp", "record", 7, 7, ""),
        ("level", "type", 9, 9, ""),
        ("light", "function", 13, 18, "Lights a lamp until dawn."),
        ("dim", "function", 20, 24, "Dims a lamp by a factor."),
        ("odd name", "function", 27, 27, "not exported"),
    ],
    "lock_gate.adb": [
        ("Harbor.Lock_Gate", "module", 3, 46, ""),
        ("Harbor.Lock_Gate.State", "type", 5, 5, ""),
        ("Harbor.Lock_Gate.Raise_Water", "function", 11, 28, ""),
        ("Harbor.Lock_Gate.+", "function", 30, 35, ""),
        ("Harbor.Lock_Gate.Wait", "function", 37, 37, ""),
        ("Harbor.Lock_Gate.Keeper", "class", 39, 44, ""),
    ],
    "lock_gate.ads": [
        ("Harbor.Lock_Gate", "package", 5, 47, ""),
        ("Harbor.Lock_Gate.Level", "type", 7, 7, ""),
        ("Harbor.Lock_Gate.Ship", "type", 9, 16, "What passes through the lock."),
        ("Harbor.Lock_Gate.Raise_Water", "function", 18, 22, "Raises the water of a basin."),
        ("Harbor.Lock_Gate.+", "function", 24, 24, ""),
        ("Harbor.Lock_Gate.Queues", "package", 26, 34, ""),
        ("Harbor.Lock_Gate.Queues.Append", "function", 33, 33, ""),
        ("Harbor.Lock_Gate.Ships", "package", 36, 36, ""),
        ("Harbor.Lock_Gate.Signal", "class", 38, 43, ""),
        ("Harbor.Lock_Gate.Level", "type", 46, 46, ""),
    ],
    "mill.nim": [
        ("Mill", "class", 3, 4, ""),
        ("grind", "function", 5, 7, "Grinds grain into flour."),
    ],
    "monster.fbs": [
        ("Monster", "table", 3, 5, "A monster."),
        ("Store", "service", 6, 8, ""),
        ("Store.Save", "rpc", 7, 7, ""),
    ],
    "mooring.fs": [
        ("moor", "function", 5, 7, "Moors a ship."),
        ("Berth", "class", 9, 14, ""),
        ("Berth.Release", "method", 13, 14, "Frees the berth."),
        ("free", "function", 19, 20, "Frees a berth."),
        ("mooring", "module", 16, 16, ""),
    ],
    "person.capnp": [
        ("Person", "struct", 2, 6, "A person."),
        ("Person.Phone", "struct", 5, 5, ""),
        ("Directory", "interface", 7, 9, ""),
        ("Directory.find", "method", 8, 8, ""),
    ],
    "rules.bzl": [
        ("harbor_library", "function", 1, 3, "Declares a library of the harbour."),
    ],
    "schema.prisma": [
        ("client", "generator", 1, 3, ""),
        ("Ship", "model", 5, 7, "A ship that is registered."),
    ],
    "shade.wgsl": [
        ("Light", "struct", 1, 1, ""),
        ("shade", "function", 3, 6, "Shades a pixel."),
    ],
    "sluice.elm": [
        ("Msg", "type", 4, 6, "State of a sluice."),
        ("update", "function", 9, 13, "Opens the sluice."),
    ],
    "sluice.vhdl": [
        ("sluice_pkg", "package", 5, 12, "Levels of a sluice"),
        ("sluice_pkg.state_t", "type", 6, 6, ""),
        ("sluice_pkg.ports_t", "type", 7, 9, ""),
        ("sluice_pkg.clamp", "function", 11, 11, "Limits a level."),
        ("sluice_pkg", "module", 14, 22, ""),
        ("sluice_pkg.clamp", "function", 15, 21, ""),
        ("sluice", "entity", 25, 31, "Opens the gate when the basin is full."),
        ("sluice", "architecture", 33, 58, ""),
        ("sluice.fill", "process", 46, 55, "Counts the water."),
    ],
    "sum.awk": [
        ("total", "function", 2, 4, "Sums a column."),
        ("sum", "module", 5, 5, ""),
    ],
    "tide.R": [
        ("mean_tide", "function", 6, 9, "Mean tide of a station"),
        ("half", "function", 10, 10, ""),
        ("show", "function", 11, 13, ""),
        ("depth", "function", 16, 18, ""),
        ("onRequest /gauge", "block", 21, 24, "Reads the gauge."),
        ("onRequest /gauge.level", "function", 22, 22, ""),
        ("the tide turns", "test", 26, 29, ""),
        ("tide", "module", 30, 30, ""),
    ],
    "tide.thrift": [
        ("Metres", "type", 5, 5, "Height in metres."),
        ("Reading", "struct", 7, 10, ""),
        ("NoStation", "exception", 11, 11, ""),
        ("LIMITS", "constant", 12, 15, ""),
        ("Gauge", "service", 17, 25, "Reads gauges."),
        ("Gauge.latest", "method", 19, 19, "Latest reading of a station."),
        ("Gauge.reset", "method", 20, 20, ""),
        ("Gauge.between", "method", 21, 24, ""),
    ],
    "tide_gauge.pas": [
        ("TState", "type", 13, 14, ""),
        ("TGauge", "class", 19, 33, "A gauge at a pier."),
        ("TGauge.TMark", "struct", 23, 27, ""),
        ("INamed", "interface", 35, 38, ""),
        ("Half", "function", 49, 52, "Halves a height."),
        ("TGauge.Create", "method", 54, 57, ""),
        ("TGauge.Read", "method", 61, 83, "Computes the level from the signal of a station,"),
        ("TGauge.Mean", "method", 85, 92, ""),
        ("TMark.=", "method", 94, 97, ""),
        ("Ticks", "function", 99, 102, ""),
        ("Log", "function", 104, 107, ""),
        ("tide_gauge", "module", 1, 2, "Gauges of the tide."),
        ("tide_gauge", "module", 40, 46, ""),
    ],
    "weir.rkt": [
        ("fill", "function", 4, 6, "Adds water to the weir."),
        ("gate", "struct", 7, 7, ""),
    ],
}


def documents(path: Path) -> list[Document]:
    items = [item for file in files(path, content="all") for item in file.read()]  # type: ignore[union-attr]
    assert all(isinstance(item, Document) for item in items)
    return [item for item in items if isinstance(item, Document)]


def written(tmp_path: Path, name: str, text: str) -> list[Document]:
    path = tmp_path / name
    path.write_text(text)
    return documents(path)


def named(items: list[Document], title: str) -> Document:
    return next(item for item in items if item.title == title)


def test_every_language_has_a_fixture() -> None:
    languages = {str(documents(path)[0].fields["language"]) for path in PATTERN_FILES.iterdir()}

    assert languages >= PATTERN_LANGUAGES.keys() - {"commonlisp", "fennel", "scheme"}


@pytest.mark.parametrize("name", EXPECTED)
def test_definitions_of_each_language(name: str) -> None:
    rows = [
        (
            item.title,
            item.fields["kind"],
            item.location.start_line,
            item.location.end_line,
            item.summary.split("\n")[0],
        )
        for item in documents(PATTERN_FILES / name)
    ]

    assert rows == EXPECTED[name]


@pytest.mark.parametrize(
    ("name", "title", "signature"),
    [
        ("harbor.proto", "HarborService.Moor", "rpc Moor(MoorRequest) returns (Berth)"),
        (
            "harbor.proto",
            "HarborService.Watch",
            "rpc Watch (stream WatchRequest) returns (stream Position)",
        ),
        ("lamp.erl", "light", 'light(#lamp{name = "a.b. "} = L) when L =/= $.'),
        ("fleet.graphql", "Ship", 'type Ship implements Node & Named @key(fields: "id")'),
        ("fleet.graphql", "Found", "union Found = | Ship | Berth"),
        (
            "tide.thrift",
            "Gauge.latest",
            "Reading latest(1: string station) throws (1: NoStation missing)",
        ),
        ("kiln.clj", "cool", "(defn- ^:private cool [k]"),
        ("kiln.clj", "fire", "(defmulti fire"),
        ("weir.rkt", "fill", "(define (fill weir amount)"),
        ("tide.R", "mean_tide", "mean_tide <- function(x, trim = 0)"),
        ("Makefile", "harbor", "harbor: berth.o ship.o"),
        (
            "lock_gate.adb",
            "Harbor.Lock_Gate.Raise_Water",
            "procedure Raise_Water (Basin : in out Level; By : Metres := 1.0)",
        ),
        ("lock_gate.ads", "Harbor.Lock_Gate.Signal", "protected type Signal (Colour : Hue)"),
        ("tide_gauge.pas", "TGauge", "TGauge = class(TComponent)"),
        ("sluice.vhdl", "sluice.fill", "fill : process (clk)"),
        ("crane.d", "Load.heavy", "bool heavy() const @property => weight > 10"),
        ("ferry.pl", "timetable", "timetable"),
        ("dock.tcl", "::harbor::dock", "proc ::harbor::dock {ship {berth 1}}"),
    ],
)
def test_signatures_end_before_bodies(name: str, title: str, signature: str) -> None:
    assert named(documents(PATTERN_FILES / name), title).fields["signature"] == signature


def test_a_service_has_the_heads_of_its_calls_and_a_call_its_body() -> None:
    items = documents(PATTERN_FILES / "harbor.proto")

    service, call = named(items, "HarborService"), named(items, "HarborService.Watch")
    assert "returns (stream Position) {" in service.body
    assert "google.api.http" not in service.body
    assert "google.api.http" in call.body
    assert call.context == ("HarborService",)


def test_a_licence_is_no_summary_and_imports_are_no_document(tmp_path: Path) -> None:
    text = '// Licensed under the Apache License\nmessage Buoy {\n}\nimport "a.proto";\n'

    (item,) = written(tmp_path, "buoy.proto", text)
    assert (item.title, item.summary) == ("Buoy", "")


def test_clauses_of_a_function_are_one_definition_and_prefixes_belong_to_it(tmp_path: Path) -> None:
    text = (
        "-spec sail(wind()) -> ok.\n"
        "sail(calm) -> wait();\nsail(W) ->\n    look(W),\n    go(W).\n\n"
        "sail(W, To) ->\n    trim(W),\n    {W, To}.\n"
    )

    sail, *others = written(tmp_path, "boat.erl", text)
    assert (sail.location.start_line, sail.location.end_line) == (1, 9)
    assert sail.fields["signature"] == "sail(calm)"
    assert not others


def test_a_body_without_brackets_ends_with_its_indentation(tmp_path: Path) -> None:
    text = "ebb <- function(x)\n  x |>\n    lower()\n\nflood <- function(x) raise(x)\nebb(1)\n"

    ebb, flood, *_ = written(tmp_path, "tide.R", text)
    assert (ebb.location.start_line, ebb.location.end_line) == (1, 3)
    assert ebb.fields["signature"] == "ebb <- function(x)"
    assert (flood.location.start_line, flood.location.end_line) == (5, 5)


def test_a_bracket_that_is_not_closed_hides_no_definition_around_it(tmp_path: Path) -> None:
    text = "message Whole {\n  string a = 1 [(x) = (;\n}\nmessage Cut {\n  string b = 1;\n"

    titles = [item.title for item in written(tmp_path, "cut.proto", text)]
    assert titles == ["Whole", "cut"]


def test_text_without_definitions_is_cut_into_windows(tmp_path: Path) -> None:
    (item,) = written(tmp_path, "all.graphql", "{ ships { id } }\n")

    assert item.fields["kind"] == "text"


def test_v_is_verilog_only_where_a_module_ends(tmp_path: Path) -> None:
    (item,) = written(tmp_path, "main.v", "module main\nfn main() {\n}\n")

    assert item.fields["language"] == "v"
    assert documents(PATTERN_FILES / "adder.v")[0].fields["language"] == "verilog"


@pytest.mark.parametrize(
    ("name", "text", "language"),
    [
        ("gauge.inc", "function Half(X: Double): Double;\nbegin\nend;\n", "pascal"),
        ("gauge.inc", "{$ifdef FAST}\nconst Half = 2;\n{$endif}\n", "pascal"),
        ("gauge.inc", "half: mov eax, 1\n", "include"),
        ("route.pl", ":- use_module(library(lists)).\nsails(a, b).\n", "prolog"),
        ("route.pl", "use strict;\nsub sails { return 1; }\n", "perl"),
    ],
)
def test_what_shares_a_suffix_is_told_by_its_lines(
    tmp_path: Path, name: str, text: str, language: str
) -> None:
    assert {item.fields["language"] for item in written(tmp_path, name, text)} == {language}


def test_a_comment_below_is_the_declarations_only_at_the_end_of_a_paragraph(tmp_path: Path) -> None:
    text = (
        "package Buoys is\n   procedure Ring;\n   --  Rings the bell.\n\n"
        "   procedure Light;\n   --  Dims the lamp.\n   procedure Dim;\nend Buoys;\n"
    )

    summaries = {item.title: item.summary for item in written(tmp_path, "buoys.ads", text)}
    assert summaries["Buoys.Ring"] == "Rings the bell."
    assert (summaries["Buoys.Light"], summaries["Buoys.Dim"]) == ("", "Dims the lamp.")


def test_a_unit_of_a_library_that_is_in_no_package_is_a_definition(tmp_path: Path) -> None:
    text = (
        "with Ada.Text_IO;\n\ngeneric\n   type Item is private;\n\n"
        "function Buoys.Depth (X : Item) return Natural;\n"
    )

    (item,) = written(tmp_path, "buoys-depth.ads", text)
    assert (item.title, item.location.start_line, item.location.end_line) == ("Buoys.Depth", 3, 6)


def test_a_block_that_nothing_closes_hides_no_definition_below_it(tmp_path: Path) -> None:
    text = (
        "procedure TBuoy.Ring;\nbegin\n  if Loud then begin\nend;\n\n"
        "procedure TBuoy.Light;\nbegin\nend;\n"
    )

    rows = [
        (item.title, item.location.start_line, item.location.end_line)
        for item in written(tmp_path, "buoy.pas", text)
    ]
    assert rows == [("TBuoy.Ring", 1, 4), ("TBuoy.Light", 6, 8)]


def test_a_comment_without_a_marker_keeps_its_first_letter(tmp_path: Path) -> None:
    text = "%% @doc Counts the lamps.\ncount(L) -> length(L).\n"

    (item,) = written(tmp_path, "lamp.erl", text)
    assert item.summary == "Counts the lamps."


def test_macros_of_bazel_are_functions() -> None:
    (item,) = documents(PATTERN_FILES / "rules.bzl")

    assert (item.fields["language"], item.fields["content"]) == ("bazel", "config")
    assert item.summary == "Declares a library of the harbour."


# Heads and brackets that nothing closes.
UNCLOSED = [
    "message A {", "message A", "struct A", "type A", "(defn a ", "function(a)", "function a(", "a(b) ->",
    "a: b", "module a(", "module a", "proc a {", '"', "'", "/*", "{", "(((", "}", " ", "type A = (",
    "a <- function(", "a b c d e f g", "const a b c d", "typedef a b c", "def a", "let a b c", "fn a(",
    "procedure a(b) ", "function a return b is", "procedure a (b) with c => (d) ", "begin", "end a", "record",
    "generic",
    "a = class(", "type a is (", "a : process", "version (a) ", "private ", "auto a(", "/+", "a :- b", "0'", "2'",
    "a. ",
    "# a", "-- a", "; a", "@a(", "(a \"b\" ", "[[[", "\\",
]  # fmt: skip


@pytest.mark.parametrize("language", PATTERN_LANGUAGES)
def test_time_grows_with_the_source(language: str) -> None:
    for line in UNCLOSED:
        source = f"{line}\n".encode() * 3000 + line.encode() * 3000

        started = time.process_time()
        pattern_outline(source, PATTERN_LANGUAGES[language])
        assert time.process_time() - started < 1.5, line
