"""Definitions in a file of each language that a grammar reads, against a list of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from purlin.index.sources.code.languages import BY_SUFFIX
from tests.support.code_documents import CODE_FILES, documents, expected_rows, is_module, named, row

EXPECTED = expected_rows("code")
# Those whose grammars are in the extra `languages`.
OPTIONAL = [
    "lighthouse.dart", "Locks.groovy", "canal.gradle", "Harbor.sol", "estuary.f90", "gauge.f", "Heron.m", "otter.gd",
    "dike.nix",
]  # fmt: skip
LANGUAGE_OF = {
    name: BY_SUFFIX[Path(name).suffix].name
    for name in EXPECTED
    if name not in ("Heron.m", "canal.gradle")
} | {"Heron.m": "matlab", "canal.gradle": "gradle"}


@pytest.mark.parametrize("name", EXPECTED)
def test_definitions_of_each_language(name: str) -> None:
    definitions = documents(CODE_FILES / name)
    assert [row(document) for document in definitions] == EXPECTED[name]

    for document in definitions:
        assert document.kind == "code"
        assert document.location.path == document.fields["path"] == name
        assert document.fields["language"] == LANGUAGE_OF[name]
        is_test = document.fields["kind"] == "test"
        assert document.fields["role"] == ("test" if is_test else "source")
        # What a trait's methods have besides is no name.
        names = [part for part in document.context if not part.startswith(("impl<", "extension "))]
        assert [*names, document.fields["name"]] == _parts(document.title)


def _parts(title: str) -> list[str]:
    return (
        [title[:-17].rstrip("."), "[Symbol.iterator]"] if title.endswith("]") else title.split(".")
    )


@pytest.mark.parametrize("name", EXPECTED)
def test_bodies_are_the_lines_of_the_file(name: str) -> None:
    lines = (CODE_FILES / name).read_text().split("\n")
    for document in documents(CODE_FILES / name):
        first, last = document.location.start_line, document.location.end_line

        assert first is not None
        assert last is not None

        source = "\n".join(lines[first - 1 : last])

        if document.fields["kind"] in {"function", "method"}:
            assert document.body in source
            assert document.body.count("\n") == last - first
        else:
            head, *rest = document.body.split("\n")
            assert head in lines[first - 1]
            assert set(rest[:-1]) <= set(lines[first:last])
            # A line may end after the definition: `};`.
            assert not rest or any(line.startswith(rest[-1]) for line in lines[first:last])


@pytest.mark.parametrize("name", EXPECTED)
def test_signature_is_an_atom(name: str) -> None:
    for document in documents(CODE_FILES / name):
        if is_module(document):
            assert document.atoms == ()
            continue
        (atom,) = document.atoms
        text = " ".join(document.body[atom.start : atom.end].split())
        for end in ("=>", ":", "="):
            text = text.removesuffix(end).rstrip()
        assert text == document.fields["signature"]
        last_name = str(document.fields["name"]).split(".")[-1]
        # Of a selector such as `rise:above:`, each part is before its parameter.
        parts = last_name.split(":") if document.fields["language"] == "objectivec" else [last_name]
        assert all(part in text for part in parts) or document.title == "default"


@pytest.mark.parametrize(
    ("name", "title", "signature"),
    [
        ("shelf.py", "widest", "def widest( parcels: list[int], *, least: int = 0, ) -> int"),
        ("shelf.py", "Shelf.total", "def total(self) -> int"),
        ("router.js", "matches", "const matches = (route, pattern)"),
        ("queue.ts", "Queue", "export class Queue<T> implements Iterable<Job<T>>"),
        ("ring.go", "Ring.Push", "func (r *Ring[T]) Push(größe T) (int, error)"),
        ("ring.go", "Ring", "type Ring[T any] struct"),
        ("Ledger.java", "Ledger.sum", "public double sum(int digits) throws ArithmeticException"),
        ("mailer.php", "Mailer", "abstract class Mailer implements Sender"),
        ("garden.rb", "Garden.Bed.empty?", "def empty?"),
        ("garden.rb", "Garden.Bed", "class Bed < Base"),
        ("Mill.pm", "clean", "sub clean($self)"),
        ("tide.jl", "Tides.height", "function height(tide::Tide, time)::Float64"),
        ("tide.jl", "Tides.Tide", "Base.@kwdef struct Tide{T} <: Water"),
        ("press.mli", "press", "val press : int -> int"),
        ("Kite.m", "Kite.rise:above:", "- (void)rise:(double)metres above:(double)ground"),
        ("Gate.ps1", "Gate", "class Gate : Door"),
        (
            "ferry.sql",
            "river.carried",
            "CREATE OR REPLACE FUNCTION river.carried(since DATE) RETURNS INT",
        ),
        ("crossing.tf", "aws_s3_bucket.timetables", 'resource "aws_s3_bucket" "timetables"'),
        ("lighthouse.dart", "reach", "const Map<String, int> reach"),
        ("lighthouse.dart", "depth", "external int depth()"),
        ("lighthouse.dart", "Lamp.dark", "const Lamp.dark(String name)"),
        ("lighthouse.dart", "Lamp.==", "bool operator ==(Object other)"),
        ("Locks.groovy", "Locks", "class Locks extends Canal implements Comparable<Locks>"),
        ("Locks.groovy", "Locks.Keeper", "static class Keeper extends Person"),
        ("canal.gradle", "fill", "task fill(type: Exec, dependsOn: build)"),
        ("canal.gradle", "countBoats", "tasks.register('countBoats', Copy)"),
        ("Harbor.sol", "Harbor", "abstract contract Harbor is Base, IHarbor(4)"),
        ("estuary.f90", "estuary.tide", "type, extends(water), public :: tide"),
        ("estuary.f90", "estuary.add", "elemental type(tide) function add(a, b)"),
        ("Heron.m", "Heron.wait", "function [fish, varargout] = wait(obj, varargin)"),
        ("otter.gd", "dive", "func dive(to: int, slowly := false) -> bool"),
        ("dike.nix", "raise-all", "raise-all = metres: dikes"),
    ],
)
def test_signatures_leave_out_decorators_and_bodies(name: str, title: str, signature: str) -> None:
    assert named(documents(CODE_FILES / name), title).fields["signature"] == signature


def test_summaries_are_cleaned() -> None:
    widest = named(documents(CODE_FILES / "shelf.py"), "widest")

    assert widest.summary == "Width of the widest parcel.\n\nParcels under `least` do not count."

    matches = named(documents(CODE_FILES / "router.js"), "matches")

    assert matches.summary.splitlines()[2:] == [
        "@param {string} route what was asked for",
        "@returns {boolean}",
    ]

    push = named(documents(CODE_FILES / "ring.go"), "Ring.Push")

    assert push.summary == "Push puts a value in place of the oldest;\ngröße is not checked."


def test_outline_of_a_class_in_python() -> None:
    assert named(documents(CODE_FILES / "shelf.py"), "Shelf").body == (
        'class Shelf:\n    """Keeps parcels in order of width."""\n\n    rows: int = 4\n    naïveté = "ünïcödé"\n\n'
        "    def __init__(self, parcels: list[int]) -> None:\n    @property\n    def size(self) -> int:\n"
        "    @size.setter\n    def size(self, value: int) -> None:\n    @cached_property\n    def total(self) -> int:\n"
        "    class Slot:\n    if LIMIT > 2:\n\n        def pop(self) -> Iterator[int]:"
    )


def test_outline_of_a_class_in_java() -> None:
    assert named(documents(CODE_FILES / "Ledger.java"), "Ledger").body == (
        "@Deprecated\npublic final class Ledger<T extends Number> implements Iterable<T> {\n"
        '    private final List<T> entries;\n    static final String TITLE = "Bücher";\n\n'
        '    public Ledger(List<T> entries) {\n    @Override\n    @SuppressWarnings("unchecked")\n'
        "    public double sum(int digits)\n            throws ArithmeticException {\n    public double sum() {\n"
        "    enum Place {\n    record Entry(String name, long cents) {\n    interface Visitor {\n}"
    )


def test_ids_are_unique_and_stable() -> None:
    ids = [document.id for document in documents(CODE_FILES)]
    assert len(set(ids)) == len(ids)
    assert ids == [document.id for document in documents(CODE_FILES)]
    assert {"shelf.py::Shelf.size", "shelf.py::Shelf.size~2", "Ledger.java::Ledger.sum~2"} <= set(
        ids
    )


# Lines that no document has, of a kind that is left out everywhere.
LEFT_OUT = re.compile(
    r"\s*(package|import|use|using|pragma|part|library|implicit|//|/?\*|[#!%]|[Cc]( |$)|pass$)"
)


@pytest.mark.parametrize("name", OPTIONAL)
def test_a_missing_line_loses_no_other(tmp_path: Path, name: str) -> None:
    lines = (CODE_FILES / name).read_text().split("\n")
    for missing in range(len(lines)):
        rest = lines[:missing] + lines[missing + 1 :]
        (tmp_path / name).write_text("\n".join(rest))
        texts = [f"{item.body}\n{item.summary}" for item in documents(tmp_path / name)]

        words = set(re.findall(r"\w+", "\n".join(texts)))
        kept = [line for line in rest if not LEFT_OUT.match(line)]
        lost = [line for line in kept if not set(re.findall(r"\w+", line)) <= words]
        assert lost == [], f"without line {missing + 1}"
