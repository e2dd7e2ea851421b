"""Definitions that are read by patterns, in languages without a grammar."""

from __future__ import annotations

from pathlib import Path

import pytest

from purlin.index.records import Document
from purlin.index.sources.code.pattern_languages import PATTERN_LANGUAGES
from tests.support import code_documents
from tests.support.code_documents import expected_rows, lines, named, row
from tests.support.files import write_file
from tests.support.paths import DATA

PATTERN_FILES = DATA / "patterns"
EXPECTED = expected_rows("patterns")


def documents(path: Path) -> list[Document]:
    return code_documents.documents(path, content="all")


def written(tmp_path: Path, name: str, text: str) -> list[Document]:
    return documents(write_file(tmp_path / name, text))


def test_every_language_has_a_fixture() -> None:
    languages = {str(documents(path)[0].fields["language"]) for path in PATTERN_FILES.iterdir()}

    assert languages >= PATTERN_LANGUAGES.keys() - {"commonlisp", "fennel", "scheme"}


@pytest.mark.parametrize("name", EXPECTED)
def test_definitions_of_each_language(name: str) -> None:
    assert [row(item) for item in documents(PATTERN_FILES / name)] == EXPECTED[name]


@pytest.mark.parametrize(
    ("name", "title", "signature"),
    [
        ("harbor.proto", "HarborService.Moor", "rpc Moor(MoorRequest) returns (Berth)"),
        ("harbor.proto", "HarborService.Watch", "rpc Watch (stream WatchRequest) returns (stream Position)"),
        ("lamp.erl", "light", 'light(#lamp{name = "a.b. "} = L) when L =/= $.'),
        ("fleet.graphql", "Ship", 'type Ship implements Node & Named @key(fields: "id")'),
        ("fleet.graphql", "Found", "union Found = | Ship | Berth"),
        ("tide.thrift", "Gauge.latest", "Reading latest(1: string station) throws (1: NoStation missing)"),
        ("kiln.clj", "cool", "(defn- ^:private cool [k]"),
        ("kiln.clj", "fire", "(defmulti fire"),
        ("weir.rkt", "fill", "(define (fill weir amount)"),
        ("tide.R", "mean_tide", "mean_tide <- function(x, trim = 0)"),
        ("Makefile", "harbor", "harbor: berth.o ship.o"),
        ("lock_gate.adb", "Harbor.Lock_Gate.Raise_Water",
         "procedure Raise_Water (Basin : in out Level; By : Metres := 1.0)"),
        ("lock_gate.ads", "Harbor.Lock_Gate.Signal", "protected type Signal (Colour : Hue)"),
        ("tide_gauge.pas", "TGauge", "TGauge = class(TComponent)"),
        ("sluice.vhdl", "sluice.fill", "fill : process (clk)"),
        ("mooring.vala", "Harbor.Berth.moor",
         "public virtual async bool moor (Ship ship, int hours = 2) throws QuayError"),
        ("crane.d", "Load.heavy", "bool heavy() const @property => weight > 10"),
        ("ferry.pl", "timetable", "timetable"),
        ("dock.tcl", "::harbor::dock", "proc ::harbor::dock {ship {berth 1}}"),
    ],
)  # fmt: skip
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


def test_a_string_of_lisp_may_begin_on_its_second_line(tmp_path: Path) -> None:
    text = '(defun fill (tank)\n  "\\\nFill it, \\"up\\" (or not."\n  (pump tank))\n\n(defun drain () (stop))\n'

    items = written(tmp_path, "tank.el", text)
    assert [(item.title, item.summary) for item in items] == [
        ("fill", 'Fill it, "up" (or not.'),
        ("drain", ""),
    ]


@pytest.mark.parametrize(
    ("text", "language", "titles"),
    [
        ("; Calls.\n%macro proc 1\n  push ebp\n%endmacro\n", "assembly", ["proc"]),
        ("/* Fills. */\nfill(tank) := tank + 1$\n", "maxima", ["a.mac"]),
    ],
)
def test_macros_of_assemblers_have_the_suffix_of_maxima(
    tmp_path: Path, text: str, language: str, titles: list[str]
) -> None:
    items = written(tmp_path, "a.mac", text)
    assert [(item.title, item.fields["language"]) for item in items] == [
        (title, language) for title in titles
    ]


def test_what_r_attaches_by_packages_is_imported_and_data_is_not(tmp_path: Path) -> None:
    text = (
        'import("dplyr")\nimport::from(dplyr, mutate)\nbox::use(\n  dplyr[filter, mutate],\n  app/logic/tides,\n)\n'
        "suppressPackageStartupMessages(library(tidyr))\n\n"
        "ebb <- function(x) {\n  mutate(x)\n}\n"
    )

    # Otherwise, who asks for the callers of `mutate` would get the lines that import it.
    (ebb,) = written(tmp_path, "tide.R", text)
    assert ebb.around == ((1, text.partition("\n\n")[0]),)

    *_, module = written(tmp_path, "data.R", 'rows <- import("rows.csv")\n' + text)
    assert module.body == 'rows <- import("rows.csv")'


def test_clauses_of_a_function_are_one_definition_and_prefixes_belong_to_it(tmp_path: Path) -> None:
    text = (
        "-spec sail(wind()) -> ok.\n"
        "sail(calm) -> wait();\nsail(W) ->\n    look(W),\n    go(W).\n\n"
        "sail(W, To) ->\n    trim(W),\n    {W, To}.\n"
    )

    sail, *others = written(tmp_path, "boat.erl", text)
    assert lines(sail) == ("sail", 1, 9)
    assert sail.fields["signature"] == "sail(calm)"
    assert not others


def test_a_body_without_brackets_ends_with_its_indentation(tmp_path: Path) -> None:
    text = "ebb <- function(x)\n  x |>\n    lower()\n\nflood <- function(x) raise(x)\nebb(1)\n"

    ebb, flood, *_ = written(tmp_path, "tide.R", text)
    assert lines(ebb) == ("ebb", 1, 3)
    assert ebb.fields["signature"] == "ebb <- function(x)"
    assert lines(flood) == ("flood", 5, 5)


def test_a_body_does_not_end_in_a_string(tmp_path: Path) -> None:
    text = 'proc usage(): int =\n  let text = """\nkiln\n\n  Usage: kiln\n"""\n  fire(text)\n\nfire()\n'

    usage, rest = written(tmp_path, "kiln.nim", text)

    assert lines(usage) == ("usage", 1, 7)
    assert lines(rest) == ("kiln", 9, 9)


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
    assert lines(item) == ("Buoys.Depth", 3, 6)


def test_a_block_that_nothing_closes_hides_no_definition_below_it(tmp_path: Path) -> None:
    text = (
        "procedure TBuoy.Ring;\nbegin\n  if Loud then begin\nend;\n\n"
        "procedure TBuoy.Light;\nbegin\nend;\n"
    )

    rows = list(map(lines, written(tmp_path, "buoy.pas", text)))
    assert rows == [("TBuoy.Ring", 1, 4), ("TBuoy.Light", 6, 8)]


def test_a_comment_without_a_marker_keeps_its_first_letter(tmp_path: Path) -> None:
    text = "%% @doc Counts the lamps.\ncount(L) -> length(L).\n"

    (item,) = written(tmp_path, "lamp.erl", text)
    assert item.summary == "Counts the lamps."


def test_macros_of_bazel_are_functions() -> None:
    (item,) = documents(PATTERN_FILES / "rules.bzl")

    assert (item.fields["language"], item.fields["content"]) == ("bazel", "config")
    assert item.summary == "Declares a library of the harbour."
