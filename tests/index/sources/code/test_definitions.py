"""What is a definition, its comment and its lines, and what becomes of the lines outside."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from purlin.index.records import Document, Skipped
from purlin.index.sources.code import syntax
from purlin.index.sources.code.languages import BY_SUFFIX, LANGUAGES
from purlin.index.sources.code.outlines import MAX_NESTING
from tests.support.code_documents import (
    definitions,
    documents,
    documents_of,
    is_module,
    lines,
    read_text,
)
from tests.support.files import write_tree as write


@pytest.mark.parametrize(
    ("suffix", "source", "context"),
    [
        (
            ".rs",
            "impl<T> Shade\n    for Lamp<T> { fn dim() {} }",
            ("Lamp", "impl<T> Shade for Lamp<T>"),
        ),
        (".rs", "impl Lamp { fn dim() {} }", ("Lamp",)),
        (
            ".swift",
            "extension Lamp: Shade {\n  func dim() {}\n}",
            ("Lamp", "extension Lamp: Shade"),
        ),
        (".swift", "extension Lamp {\n  func dim() {}\n}", ("Lamp",)),
    ],
)
def test_context_tells_what_trait_a_method_is_of(
    tmp_path: Path, suffix: str, source: str, context: tuple[str, ...]
) -> None:
    (method,) = definitions(read_text(tmp_path, suffix, source))
    assert (method.title, method.context) == ("Lamp.dim", context)


def test_outline_of_an_enum_leaves_out_what_its_constants_do(tmp_path: Path) -> None:
    source = "enum A {\n  B {\n    int c() {\n      return 1;\n    }\n  },\n  D\n}\n"
    enum, constant, _method = definitions(read_text(tmp_path, ".java", source))
    assert enum.body == "enum A {\n  B {\n  D\n}"
    assert constant.body == "B {\n    int c() {\n  }"


@pytest.mark.parametrize(
    ("suffix", "source", "summary"),
    [
        (".js", "/* Copyright 2020 A. Body */\nfunction f() {}", ""),
        (".js", "/* Checks a copyright. */\nconst x = 1;\n\n\n\n/* Finds the copyright. */\nfunction f() {}",
         "Finds the copyright."),
        (".js", "const x = 1; // of x\nfunction f() {}", ""),
        (".js", "// far away\n\nfunction f() {}", ""),
        (".js", "// one\n\n// two\nfunction f() {}", "two"),
        (".js", "/** block */\n// line\nfunction f() {}", "line"),
        (".js", "/** of the file */\n\nfunction f() {}", ""),
        (".js", "let a\n\n\n\n\n\n\n/** far */\n\nb.c = b.f = function () {}", "far"),
        (".js", "// line\n/** block */\nfunction f() {}", "block"),
        # A block of several lines is not a heading.
        (".c", "int a;\n/*\n * Clears it.\n * Call it.\n */\n\n\nvoid\nf (void) {}", "Clears it.\nCall it."),
        (".c", "int a;\n/* Helpers */\n\nvoid f(void) {}", ""),
        (".c", "int a;\n/*\n * Clears it.\n * Call it first.\n */\n\n\n\nvoid f(void) {}", ""),
        (".c", "/*\n * What this file\n * is for.\n */\n\nvoid f(void) {}", ""),
        (".js", "// @ts-ignore\n// says it\nfunction f() {}", "says it"),
        (".js", "// ---------\nfunction f() {}", ""),
        (".ts", "/** Exported. */\nexport async function f() {}", "Exported."),
        (".go", "package p\n\n//go:noinline\nfunc f() {}", ""),
        (".rb", "# frozen_string_literal: true\ndef f; end", ""),
        (".php", "<?php\n/**\n * Says it.\n *\n *   indented\n */\nfunction f() {}", "Says it.\n\n  indented"),
        (".py", "def f():\n    r'''Raw \\d.'''\n", "Raw \\d."),
        (".py", 'def f():\n    """\\\n    Continued.\n    """\n', "Continued."),
        (".py", "def f():\n    # first\n    'Plain.'\n", "Plain."),
        (".py", "def f():\n    b'bytes'\n", ""),
        (".py", "def f():\n    x = 'no'\n", ""),
    ],
)  # fmt: skip
def test_what_counts_as_a_doc_comment(
    tmp_path: Path, suffix: str, source: str, summary: str
) -> None:
    document, *_module = read_text(tmp_path, suffix, source)
    assert isinstance(document, Document)
    assert document.summary == summary


@pytest.mark.parametrize(
    ("suffix", "source", "titles"),
    [
        (".js", "module.exports = { a() {}, b: { c: () => 1 } };", ["a", "b.c"]),
        (".js", "module.exports = function () {};", ["exports"]),
        (".js", "export default class { m() {} }", ["default", "default.m"]),
        (".js", "const A = class { static #p() {} };", ["A", "A.#p"]),
        (".js", "define(['x'], function (x) { return { go: function () {} }; });", ["go"]),
        (".js", "a['two words'] = function () {}; const o = { 'x y': function () {}, 'z': function () {} };", ["o.z"]),
        (".js", "function* g() {} export const h = async () => {}", ["g", "h"]),
        (".ts", "declare module 'lib' { function f(): void; class C { m(): void } }", ["lib.f", "lib.C", "lib.C.m"]),
        # Flow's types, some of which TypeScript does not have.
        (".js", "// @flow\nimport type {A} from 'a';\nexport class B<T> { c(d: ?A, e?: {...}): Array<T> {} }\n"
         "function f(g: mixed): void {}", ["B", "B.c", "f"]),
        (".js", "const div = <p>{a ?? b}</p>;\nfunction f() { return < }", []),
        (".vue", "<script lang='tsx'>\nconst V = () => <b>{x}</b>;\n</script>", ["V"]),
        (".vue", "<SCRIPT>function f() {}</SCRIPT ><script>function g() {}", ["f", "g"]),
        (".vue", "<script-x>function f() {}</script-x><script src='a' function g() {}", []),
        (".tsx", "class V extends C<P> { render() { return <b>{this.x}</b>; } }", ["V", "V.render"]),
        (".go", "package p\nfunc (*T) M() {}\nfunc (t pkg) N() {}\ntype F func()", ["T.M", "pkg.N", "F"]),
        (".rb", "class A\n included do\n  def b; end\n end\n def A.c; end\n def A2.d; end\nend",
         ["A", "A.b", "A.c", "A.A2.d"]),
        (".php", "<?php namespace A { class B {} } namespace C { function d() {} }", ["A.B", "C.d"]),
        (".py", "if x:\n  def f(): pass\nelse:\n  def f(): pass\ntry:\n  pass\nexcept E:\n  class G: pass",
         ["f", "f", "G"]),
        (".py", "def f():\n  class Inner:\n    def m(self): pass\n", ["f"]),
    ],
)  # fmt: skip
def test_what_is_a_definition(tmp_path: Path, suffix: str, source: str, titles: list[str]) -> None:
    items = read_text(tmp_path, suffix, source)
    assert [item.title for item in definitions(items)] == titles


@pytest.mark.parametrize(
    ("suffix", "source", "rows"),
    [
        # Types always, constants of several lines, at the top of a file only.
        (".ts", "export type Id = string;\nconst one = 1;\nexport const MANY = [\n  1,\n];\n",
         [("Id", "type"), ("MANY", "constant"), ("one", "module")]),
        (".ts", "const store = create({\n  load() { return 1 },\n});\n",
         [("store", "constant"), ("store.load", "method")]),
        # Blocks of code with a name: tests, what groups them, routes and tasks.
        (".js", "it('x', () => {\n  const a = {\n    b() {},\n  };\n});\n", [("x", "test")]),
        (".ts", "describe('A', () => {\n  beforeEach(() => b());\n  test.each([1])(`adds ${c}`, d => e(d));\n"
         "  describe('when full', function () {\n    function f() {}\n    it('refuses', async () => {});\n  });\n});\n",
         [("A.adds ${c}", "test"), ("A.when full.f", "function"), ("A.when full.refuses", "test"), ("one", "module")]),
        (".js", "app.get('/lamps', async (a, b) => {\n  function c() {}\n  b.json(1);\n});\napp.on('x', () => 1);\n",
         [("app.get /lamps", "block"), ("app.get /lamps.c", "function"), ("one", "module")]),
        (".js", "app.get('/lamps', () => {\n" + "  f();\n" * 99 + "});\n", [("one", "module")] * 3),
        (".rb", "class A\n  get '/b' do\n    c\n  end\n  define_method(:d) { |e| e }\n"
         "  F = Struct.new(:g) do\n    def h; end\n  end\nend\n",
         [("A", "class"), ("A.get /b", "block"), ("A.d", "method"), ("A.F.h", "method")]),
        (".rb", "RSpec.describe A do\n  describe '#b' do\n    let(:c) { 1 }\n    it 'adds two' do\n"
         "    end\n  end\nend\n",
         [("A.#b.adds two", "test"), ("one", "module")]),
        (".rake", "namespace :a do\n  task b: :c do\n    d\n  end\nend\n"
         "E.new(:f) do\n  g\nend\nh(i: 1) do\n  j\nend\n",
         [("namespace a", "block"), ("namespace a.task b", "block"), ("one", "module")]),
        (".lua", "describe('A', function()\n  before_each(function() b() end)\n"
         "  it([[refuses]], function() local function c() end end)\nend)\n"
         "client:on('d', function(e)\n  local function f() end\n  e:g()\nend)\nh('i', 1)\n",
         [("A.refuses", "test"), ("client:on d", "block"), ("client:on d.f", "function"), ("one", "module")]),
        (".t", "package A;\nsubtest 'adds' => sub { b() };\nget '/c' => sub {\n  my $d = shift;\n};\n"
         "has e => sub {\n  f();\n};\n$g->hook(h => sub {\n  i();\n});\n"
         "j(k => sub { l() });\nm(1, sub {\n  n();\n});\n",
         [("adds", "test"), ("get /c", "block"), ("has e", "block"), ("hook h", "block"), ("one", "module")]),
        (".cpp", 'TEST_CASE("glows", "[lamp]") {\n  SECTION("when dim") { a(); }\n}\nLOG("b");\n{ c(); }\n',
         [("glows", "test"), ("one", "module")]),
        (".dart", "void main() {\n  setUp(() { a(); });\n  group('b', () {\n    test('adds', () { c(); });\n"
         "    testWidgets('glows', (d) async { e(); });\n  });\n}\nvoid f() { test('g', () {}); }\n",
         [("b.adds", "test"), ("b.glows", "test"), ("f", "function"), ("one", "module")]),
        (".dart", "void main() {\n  run('a', () { b(); });\n}\n", [("main", "function")]),
        (".jl", '@testset "adds" begin\n  @test 1 == 1\nend\n@testset for a in b\n  c()\nend\n',
         [("adds", "test"), ("one", "module")]),
        (".php", "<?php\nit('refuses', function () { a(); });\n"
         "describe('B', function () {\n  test('c', fn () => 1)->group('d');\n});\n"
         "Route::middleware('e')->group(function () {\n  Route::get('/f/{g}', function ($g) {\n    return 1;\n"
         "  })->name('h');\n});\n$app->get('/i', function () {\n  return 2;\n});\n$j = fn ($k) => $k;\n",
         [("refuses", "test"), ("B.c", "test"), ("Route::get /f/{g}", "block"), ("$app->get /i", "block"),
          ("j", "function"), ("one", "module")]),
        (".php", "<?php\nclass A {\n  function b() { it('c', function () {}); }\n}\n",
         [("A", "class"), ("A.b", "method")]),
        (".swift", 'class A: QuickSpec {\n  override class func spec() {\n    describe("b") {\n'
         '      beforeEach { c() }\n      it("refuses") { d() }\n    }\n  }\n  func spec() { it("e") {} }\n}\n',
         [("A", "class"), ("A.b.refuses", "test"), ("A.spec", "method")]),
        (".kt", 'class A : FunSpec({\n  test("adds") { b() }\n  context("full") {\n    it("refuses") { c() }\n  }\n})\n'
         'class D : DescribeSpec() {\n  init {\n    describe("e") { it("f") {} }\n  }\n}\nfun g() { test("h") {} }\n',
         [("A", "class"), ("A.adds", "test"), ("A.full.refuses", "test"), ("D", "class"), ("D.e.f", "test"),
          ("g", "function")]),
        # Kotest's tests may be strings with a lambda, alone or in groups; elsewhere such calls are none.
        (".kt", 'class A : StringSpec({\n  "adds" { b() }\n  "refuses".config(enabled = false) { c() }\n})\n'
         'class D : WordSpec() {\n  init {\n    "a gate" should { "open" { e() } }\n  }\n}\n'
         'class F : FreeSpec({ "a lock" - { "shuts" { g() } } })\nclass H : Table({ "i" { j() } })\n',
         [("A", "class"), ("A.adds", "test"), ("A.refuses", "test"), ("D", "class"), ("D.a gate.open", "test"),
          ("F", "class"), ("F.a lock.shuts", "test"), ("H", "class")]),
        (".bats", "setup() {\n  a\n}\n@test \"opens a gate: 'x' ($y)\" {\n  run b\n  [ \"$c\" -eq 0 ]; d\n}\n"
         "@test 'zählt'   {\n  e\n}\n@test \"prints \\\"ok\\\"\" {\n  f\n}\n",
         [("setup", "function"), ("opens a gate: 'x' ($y)", "test"), ("zählt", "test"),
          ('prints \\"ok\\"', "test")]),
        # A call stands in for the body of SQLite's triggers, if one of its lines has the room.
        (".sql", "CREATE TRIGGER d AFTER DELETE ON b\nFOR EACH ROW BEGIN\n  INSERT INTO e VALUES (OLD.f);\nEND;\n"
         "CREATE FUNCTION g() RETURNS trigger AS $$\nBEGIN\n  RETURN NEW;\nEND;\n$$ LANGUAGE plpgsql;\n"
         "CREATE UNIQUE INDEX IF NOT EXISTS h ON b (i);\nCREATE INDEX ON b (j);\n"
         "CREATE TRIGGER a AFTER INSERT ON b BEGIN\n DELETE FROM c;\nEND;\n",
         [("d", "trigger"), ("g", "function"), ("h", "index"), ("one", "module")]),
        # Oracle may end a body with its trigger's name.
        (".sql", "CREATE TRIGGER d BEFORE INSERT ON b FOR EACH ROW\nBEGIN\n  UPDATE e SET f = 'abcdef';\nEND d;\n/\n"
         "CREATE TABLE g (a int);\nCREATE PROCEDURE h AS\nBEGIN\n  UPDATE e SET f = 1;\nEND;\n",
         [("d", "trigger"), ("g", "table"), ("h", "function")]),
        (".kts", 'tasks.register("hello") {\n  doLast { a() }\n}\n', [("tasks.register hello", "block")]),
        (".scala", 'class A extends AnyFunSuite {\n  test("adds") { b }\n  describe("c") { it("refuses") { d } }\n}\n'
         'class E extends AnyWordSpec {\n  "A lock" should "open" in { f }\n  it should "close" in { g }\n'
         '  "A gate" when { "wet" in { h } }\n  def i = { test("j") { 1 } }\n}\n',
         [("A", "class"), ("A.adds", "test"), ("A.c.refuses", "test"), ("E", "class"),
          ("E.A lock should open", "test"), ("E.it should close", "test"), ("E.A gate.wet", "test"),
          ("E.i", "method")]),
        # An overloaded function is one, with its signatures.
        (".ts", "/** Adds. */\nexport function a(b: string): void;\nexport function a(b: any) {}\n"
         "declare function c(): void;\nclass D {\n  e(f: string): void;\n  e(f: any) {}\n}\n",
         [("a", "function"), ("c", "function"), ("D", "class"), ("D.e", "method")]),
        (".js", "module.exports = {\n  a() {},\n  b,\n};\n", [("a", "method"), ("one", "module")]),
        (".js", "req.get = req.header = function header() {};", [("req.header", "method")]),
        (".py", "CODES = {\n  1: 2,\n}\nSHORT = 3\n", [("CODES", "constant"), ("one", "module")]),
        (".py", "class A:\n  rows = [\n    1,\n  ]\n", [("A", "class")]),
        # A file of imports alone is found by its path.
        (".py", "__all__ = [\n  'a',\n  'b',\n]\nfrom x import (\n  a,\n  b,\n)\n", [("one", "module")]),
        (".go", "package p\nconst (\n\tA = iota\n\tB\n)\ntype F func(int) error\n", [("A", "constant"), ("F", "type")]),
        (".go", "package p\n\nimport (\n\t\"fmt\"\n)\n", [("one", "module")]),
        # Modules that are only a name for what is inside.
        (".rb", "module Rails\n  module Paths\n    class Root\n      def a; end\n    end\n  end\nend\n",
         [("Rails.Paths.Root", "class"), ("Rails.Paths.Root.a", "method")]),
        (".rb", "module Rails\n  VERSION = 1\n  class Root\n  end\nend\n",
         [("Rails", "module"), ("Rails.Root", "class")]),
        (".rb", "module Rails\n  def self.root; end\nend\n", [("Rails", "module"), ("Rails.root", "method")]),
        # Assertions of the compiler, the end of a guard and empty functions say nothing.
        (".go", "package p\n\n// Has the compiler check that B implements what it has to implement.\nvar _ A = &B{}\n\n"
         "type B struct{}\n", [("B", "struct")]),
        (".cpp", "#ifndef A\n#define A 1\nint f() { return A; }\nB::~B() = default;\n#endif  // A and more\n",
         [("f", "function"), ("one", "module")]),
        (".cpp", "int f() { return 1; }\n\nB::~B() = default;\nclass C;\n#endif  // A and more\n", [("f", "function")]),
        (".rs", "impl A {\n  fn b() {}\n  type C = u8;\n}\nuse x::y;\n", [("A.b", "method"), ("one", "module")]),
        (".cpp", "namespace a { class B; }\nstruct C c;\n", [("one", "module")]),
        (".c", "enum { A };\nstruct s *f(void);\n", [("one", "module")]),
        (".cpp", "struct A {\n  A() = default;\n  ~A() {}\n};\n", [("A", "struct"), ("A.~A", "method")]),
        (".h", "int f(int a,\n      int b,\n      int c);\n", [("one", "module")]),
        # A typedef and what it describes are one; lines right below a macro belong to the file.
        (".c", "typedef struct a {\n  int b;\n} a_t;\ntypedef enum c { D } c;\n"
         "typedef struct e e_t;\nstruct f { int g; };\n",
         [("a_t", "struct"), ("c", "enum"), ("e_t", "type"), ("f", "struct")]),
        (".cpp", "typedef struct A {\n  int b() { return 1; }\n} C;\n", [("C", "struct"), ("C.b", "method")]),
        (".cpp", "struct A {\n  explicit operator bool() const { return b; }\n"
         "  void* operator new(size_t c) { return d; }\n};\nA::operator std::string() const { return e; }\n",
         [("A", "struct"), ("A.operator bool", "method"), ("A.operator new", "method"),
          ("A.operator std::string", "method")]),
        (".h", "#define A 1\n#define MAX(a, b) ((a) > (b) ? (a) : (b))\nextern int limit;\n",
         [("MAX", "macro"), ("one", "module")]),
        (".ex", 'defmodule A do\n  @doc "Twice."\n  defmacro b(c), do: c\nend\n', [("A", "module"), ("A.b", "macro")]),
        (".kt", "object A { fun b() = 1 }\nclass C { val d = { 2 } }\nclass E { init { f() } }\n",
         [("A", "object"), ("A.b", "method"), ("C", "class"), ("E", "class")]),
        # Constants of an enum with methods of their own; sentences in backticks.
        (".java", "enum A {\n  B(1) {\n    int c() { return 1; }\n  },\n  D;\n  int c() { return 2; }\n}\n",
         [("A", "enum"), ("A.B", "class"), ("A.B.c", "method"), ("A.c", "method")]),
        (".kt", "enum class A {\n  B {\n    override fun c() = 1\n  };\n  abstract fun c(): Int\n}\n"
         "class DTest {\n  @Test fun `adds two`() {}\n}\n",
         [("A", "enum"), ("A.B", "class"), ("A.B.c", "method"), ("A.c", "method"), ("DTest", "class"),
          ("DTest.adds two", "method")]),
        (".c", "int (*table[])(void) = {\n  f,\n  g,\n};\n", [("table", "constant")]),
        (".cs", "namespace A;\nclass B { void C() {} }\n", [("B", "class"), ("B.C", "method")]),
        (".ex", "defmodule A do\n  def left <~> right, do: left\nend\n", [("A", "module"), ("A.<~>", "function")]),
        (".exs", 'defmodule A do\n  describe "b" do\n    test "adds two" do\n    end\n  end\nend\n',
         [("A.adds two", "test")]),
        (".zig", 'test "adds two" {\n}\n', [("adds two", "test")]),
        (".hs", "f 0 = 1\nf n = n\ng = f\n", [("f", "function"), ("g", "function")]),
        (".hs", "#if A\nf :: B\nf = 1\n#else\nf :: C\nf = 2\n#endif\n#define G \\\n  (\nh = 3\n",
         [("f", "function"), ("h", "function"), ("one", "module")]),
        (".hs", "foldl' f = f\nfoldl f = f\n", [("foldl'", "function"), ("foldl", "function")]),
        (".hs", "instance C (Either a b) where\n  c = 1\ninstance C (M.Map k v)\ninstance C (a, b)\ninstance C [a]\n",
         [("C.Either", "instance"), ("C.M.Map", "instance"), ("C.(a,b)", "instance"), ("C.[a]", "instance")]),
        (".cc", "TEST_F(Suite, Adds) { f(); }\nBOOST_AUTO_TEST_CASE(adds) {}\nAPI void TESTING(int a) {}\nT::T() {}\n",
         [("Suite.Adds", "test"), ("adds", "test"), ("TESTING", "function"), ("T.T", "method")]),
        # Properties with code of their own.
        (".swift", "extension A {\n  var b: Int {\n    1\n  }\n}\nclass C { var d = 1 }\n",
         [("A.b", "method"), ("C", "class")]),
        (".kt", "class A {\n  val b: Int\n    get() = 1\n  val c = 2\n}\n", [("A", "class"), ("A.b", "method")]),
        (".cs", "class A {\n  int B { get; set; }\n  int C => 1;\n  int D { get { return 2; } }\n"
         "  int this[int e] { get { return e; } }\n  public static A operator +(A f, A g) { return f; }\n}\n",
         [("A", "class"), ("A.C", "method"), ("A.D", "method"), ("A.this", "method"), ("A.+", "method")]),
        # Macros of several lines.
        (".h", "#define A \\\n  X(b) \\\n  X(c) \\\n  X(d)\n#define E \\\n  1\n", [("A", "macro"), ("one", "module")]),
    ],
)  # fmt: skip
def test_what_else_has_a_document(
    tmp_path: Path, suffix: str, source: str, rows: list[tuple[str, str]]
) -> None:
    documents = documents_of(tmp_path, suffix, source)
    assert [(document.title, document.fields["kind"]) for document in documents] == rows


@pytest.mark.parametrize(
    ("suffix", "source", "language", "kinds"),
    [
        (".h", '#import "A.h"\n@interface B : A\n- (void)c;\n@end\n', "objectivec", ["class"]),
        (".h", "namespace a {\nint b() { return 1; }\n}\n", "cpp", ["function"]),
        (".m", "function y = f(x)\n% Twice.\ny = 2 * x;\nend\n", "matlab", ["function"]),
        (".m", "% Draws.\nplot(1:3);\n", "matlab", ["module"]),
        (".m", "// Adds.\nint add(int a) { return a; }\n", "objectivec", ["function"]),
        (".inc", "<?php\nfunction a() {}\n", "php", ["function"]),
        (".inc", "a: mov eax, 1\n", "include", ["text"]),
    ],
)
def test_what_shares_its_suffix_is_told_by_its_lines(
    tmp_path: Path, suffix: str, source: str, language: str, kinds: list[str]
) -> None:
    items = documents_of(tmp_path, suffix, source)
    assert [item.fields["kind"] for item in items] == kinds
    assert {item.fields["language"] for item in items} == {language}


@pytest.mark.parametrize(
    ("suffix", "source", "rows"),
    [
        # Macros before a name, around it and in place of a statement.
        (".c", "API A_State b(int c) {\n  return c;\n}\nd(e)\n{\n}\nAPI(void) (f)(g)\n{\n}\n",
         [("b", 1, 3), ("d", 4, 6), ("one", 7, 9)]),
        (".c", "PHP_FUNCTION(a) {\n}\nPHP_METHOD(B, c)\n{\n}\nCALL2(d, int, e)\n{\n}\nf(g, h)\n{\n}\n",
         [("a", 1, 2), ("B.c", 3, 5), ("d", 6, 8), ("f", 9, 11)]),
        (".c", "int a() {\n  if (!b)\n    FAIL(1, \"c (d)\")\n  LEAVE(b)\n}\nint c() {\n  FAIL(2)\n}\n",
         [("a", 1, 5), ("c", 6, 8)]),
        (".cpp", "class A_API(x) B_API C final : public D {\n public:\n  C() B_API : e(1) {}\n"
         "  int f() const HOLDS(g)\n      LEAVES(h) { return e; }\n  int e HELD_BY(g);\n};\nstruct AB {};\n"
         "void C::i() HOLDS(g()) {\n}\n",
         [("C", 1, 7), ("C.C", 3, 3), ("C.f", 4, 5), ("AB", 8, 8), ("C.i", 9, 10)]),
        # Macros before a declaration, and entries of a list that a macro makes.
        (".c", "STATIC int a(int b) {\n  return b;\n}\nNORETURN void\nc (void)\n{\n}\n"
         "STATIC const d e[] = {\n  1,\n  2,\n};\nDWORD f = 1;\n",
         [("a", 1, 3), ("c", 4, 7), ("e", 8, 11), ("one", 12, 12)]),
        (".c", "enum a {\n#define X(b) b,\n#include \"b.def\"\n#undef X\n  c\n};\nint d(void) {\n  return c;\n}\n",
         [("a", 1, 6), ("d", 7, 9)]),
        # A class whose interface another object implements.
        (".kt", "class A(b: B) : C(),\n    B by b {\n  fun d() = 1\n}\n\nval e: F by lazy {\n  g()\n}\n",
         [("A", 1, 4), ("A.d", 3, 3), ("e", 6, 8)]),
        # A table with functions.
        (".lua", "lamps.register(\"lantern\", {\n  glow = 3,\n  on_dig = function(pos)\n  end,\n})\n"
         "lamps.register(\"torch\", {\n  glow = 5,\n  wax = 1,\n})\n",
         [("lamps.register lantern", 1, 5), ("lamps.register lantern.on_dig", 3, 4), ("one", 6, 9)]),
        (".m", "OPEN\n@interface A : B\n- (void)c;\n@end\nOPEN @protocol D\n@end\n",
         [("A", 2, 4), ("D", 5, 6), ("one", 1, 1)]),
        (".scala", "package a.b\n\npackage c {\n  class D {\n    def e = 1\n  }\n}\n",
         [("c.D", 4, 6), ("c.D.e", 5, 5)]),
        (".js", "function a() {\n}\n\nexport default a;\n", [("a", 1, 2)]),
        # A body beside its signature, and what neither has.
        (".dart", "external int a();\nint b() => 1;\nset c(int d) {\n}\n",
         [("a", 1, 1), ("b", 2, 2), ("c", 3, 4)]),
        (".dart", "final a = [\n  1,\n];\nvar b = 2;\nint c = 3;\nlate final List<int>? d = [\n  1,\n];\n",
         [("a", 1, 3), ("d", 6, 8), ("one", 4, 5)]),
        (".dart", "typedef int A(int b);\nclass C {\n  C._();\n  factory C.d() = E;\n  operator []=(a, b) {}\n}\n",
         [("A", 1, 1), ("C", 2, 6), ("C._", 3, 3), ("C.d", 4, 4), ("C.[]=", 5, 5)]),
        (".groovy", "class A {\n  enum Bar\n  {\n    X\n  }\n  interface C { int d() }\n  int e() { 1 }\n}\n",
         [("A", 1, 8), ("A.Bar", 2, 5), ("A.C", 6, 6), ("A.C.d", 6, 6), ("A.e", 7, 7)]),
        (".groovy", "static main(args) {\n}\n", [("main", 1, 2)]),
        (".gradle", "tasks.create(name: 'a')\ntasks.register('b')\n", [("b", 2, 2), ("one", 1, 1)]),
        (".sol", "contract A { modifier b virtual; }\ncontract C { function () external {} }\n",
         [("A", 1, 1), ("A.b", 1, 1), ("C", 2, 2), ("C.function", 2, 2)]),
        (".f90", "interface\n  subroutine a() bind(c)\n  end subroutine\nend interface\nprint *, 1\nend\n",
         [("one", 1, 6)]),
        (".for", "      SUBROUTINE A\n      B = 1 +\n     *    2\n      END\n", [("A", 1, 4)]),
        (".gd", "func a():\n\tpass\nclass B:\n\tfunc c():\n\t\tpass\n", [("a", 1, 2), ("B", 3, 5), ("B.c", 4, 5)]),
        # What a package is made of is no definition.
        (".nix", "{ a }: a.b {\n  meta = {\n    c = 1;\n  };\n  d.e = f: g:\n    f;\n}\n",
         [("d.e", 5, 6), ("one", 1, 4)]),
    ],
)  # fmt: skip
def test_definitions_know_their_lines(
    tmp_path: Path, suffix: str, source: str, rows: list[tuple[str, int, int]]
) -> None:
    assert list(map(lines, documents_of(tmp_path, suffix, source))) == rows


def test_all_branches_of_the_preprocessor_are_read_in_haskell(tmp_path: Path) -> None:
    source = "#if A\nf = 1\n#else\n-- | Else.\nf = 2\ng = f\n#endif\n"
    first, second, g = definitions(read_text(tmp_path, ".hs", source))

    assert (first.body, second.body, g.body) == ("f = 1", "f = 2", "g = f")
    assert second.summary == "Else."
    assert lines(second) == ("f", 5, 5)


def test_lines_outside_definitions_are_a_module(tmp_path: Path) -> None:
    source = (
        '"""Rows of things."""\n\nimport os\n\nWIDTH = 3\n\n\ndef f():\n    pass\n\n\n# about g\n\n'
        'def g():\n    pass\n\n\nif __name__ == "__main__":\n    f()\n'
    )
    document = documents(write(tmp_path, {"pkg/__init__.py": source}))[-1]

    assert document.id == "pkg/__init__.py::(module)"
    assert (document.title, document.fields["name"]) == ("pkg.__init__", "pkg.__init__")
    assert document.body == (
        '"""Rows of things."""\n\nWIDTH = 3\n\nif __name__ == "__main__":\n    f()'
    )
    assert document.summary == "Rows of things."
    assert (document.location.start_line, document.location.end_line) == (1, 19)


def test_modules_end_before_a_long_definition(tmp_path: Path) -> None:
    short, long = ("def f():\n" + "    call()\n" * rows for rows in (19, 20))
    source = f'"Says much."\nA = 1\n{short}B = 2\n{long}C = 3\n'
    modules = [part for part in documents(write(tmp_path, {"one.py": source})) if is_module(part)]

    assert [part.body for part in modules] == ['"Says much."\nA = 1\n\nB = 2', "C = 3"]
    assert list(map(lines, modules)) == [("one", 1, 23), ("one", 45, 45)]
    assert [part.summary for part in modules] == ["Says much.", ""]


def test_long_modules_are_several_documents(tmp_path: Path) -> None:
    source = "\n\n".join(f"call({number})" for number in range(200)) + "\n"
    parts = documents(write(tmp_path, {"one.py": source}))

    assert [part.id for part in parts[:3]] == [
        "one.py::(module)",
        "one.py::(module)~2",
        "one.py::(module)~3",
    ]
    assert "\n\n".join(part.body for part in parts) + "\n" == source
    assert (
        parts[1].location.start_line == source.split("\n").index(parts[1].body.split("\n")[0]) + 1
    )


def test_lines_with_a_syntax_error_are_read_without_their_definition(tmp_path: Path) -> None:
    source = "function a() {}\n\nfunction b() {\n  return 1 +* ;\n}\n\nfunction c() {}\n"
    *functions, rest = documents_of(tmp_path, ".js", source)

    assert [item.title for item in functions] == ["a", "c"]
    assert rest.body == "function b() {\n  return 1 +* ;\n}"
    assert lines(rest) == ("one", 3, 5)


def test_class_survives_an_error_in_a_method(tmp_path: Path) -> None:
    inside = read_text(
        tmp_path, ".java", "class A {\n  int a() { return 1 +* ; }\n  int b() { return 2; }\n}\n"
    )
    assert [item.title for item in definitions(inside)] == ["A", "A.b"]
    for error, expected in (("1 +* ;", ["A", "A.b"]), ("1 +\n * ;", ["A.b"])):
        beside = read_text(
            tmp_path, ".java", f"class A {{\n  int x = {error}\n  int b() {{ return 2; }}\n}}\n"
        )
        assert [item.title for item in definitions(beside)] == expected


def test_a_class_has_a_line_that_the_grammar_cannot_read(tmp_path: Path) -> None:
    ruby = "class Kettle\n  def stop\n    1\n  end\n\n  alias_method :☠, :stop\nend\n"
    outline, method = read_text(tmp_path, ".rb", ruby)
    assert (outline.title, method.title) == ("Kettle", "Kettle.stop")
    assert (outline.location.start_line, outline.location.end_line) == (1, 7)


def test_a_file_of_errors_is_a_module(tmp_path: Path) -> None:
    (document,) = documents(write(tmp_path, {"one.py": "x = = 1\n"}))
    assert (document.title, document.fields["kind"], document.body) == ("one", "module", "x = = 1")


@pytest.mark.timeout(60)
@pytest.mark.parametrize("suffix", [suffix for each in LANGUAGES for suffix in each.suffixes[:1]])
def test_deep_nesting_neither_crashes_nor_hangs(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A few grammars take square time, and would only be read for longer until it is up.
    monkeypatch.setattr(syntax, "PARSE_SECONDS", 1.0)
    for bracket in "([{":
        read_text(tmp_path, suffix, bracket * 100_000)


def test_too_deeply_nested_definitions_are_left_out(tmp_path: Path) -> None:
    source = (
        "".join(f"{' ' * depth}class C{depth}:\n" for depth in range(60)) + " " * 60 + "x = 1\n"
    )
    items = read_text(tmp_path, ".py", source)
    assert len(items) == MAX_NESTING
    assert max(len(item.context) for item in items if isinstance(item, Document)) == MAX_NESTING - 1


def test_endless_names_or_signatures_are_bounded(tmp_path: Path) -> None:
    assert definitions(read_text(tmp_path, ".py", f"def {'f' * 1000}(): pass\n")) == []
    parameters = ", ".join(f"p{number}" for number in range(500))
    (document,) = read_text(tmp_path, ".py", f"def f({parameters}): pass\n")
    assert isinstance(document, Document)
    assert len(str(document.fields["signature"])) == 300


@settings(max_examples=150)
@given(content=st.binary(max_size=400), suffix=st.sampled_from(sorted(BY_SUFFIX)))
def test_arbitrary_bytes_never_raise(tmp_path: Path, content: bytes, suffix: str) -> None:
    for item in read_text(tmp_path, suffix, content):
        assert isinstance(item, Document | Skipped)


_FRAGMENTS = [
    "def f(a):\n", "    ", "class A:\n", "class A {", "}", "function f(", ") {", "é = 1;\n", "/** d */\n", "# c\n",
    "// c\n", "@x\n", "end\n", "module M\n", "<?php ", "func (t T) M() {", "const a = () => ", "export ", '"""', "\n",
]  # fmt: skip


@settings(max_examples=200)
@given(
    parts=st.lists(st.sampled_from(_FRAGMENTS), max_size=25),
    suffix=st.sampled_from(sorted(BY_SUFFIX)),
)
def test_broken_code_gives_consistent_documents(
    tmp_path: Path, parts: list[str], suffix: str
) -> None:
    source = "".join(parts)
    documents = [item for item in read_text(tmp_path, suffix, source) if isinstance(item, Document)]
    assert len({document.id for document in documents}) == len(documents)
    for document in documents:
        for span in document.atoms:
            assert 0 <= span.start < span.end <= len(document.body)
        if document.fields["kind"] in {"function", "method"}:
            assert document.body in source


def test_a_file_says_what_it_is_below_keywords_of_version_control_and_a_licence(
    tmp_path: Path,
) -> None:
    source = (
        "/*\n *  $Id: tank.c,v 1.2 2001/06/14 18:16:06 ura Exp $\n */\n\n"
        "/*\n * You can redistribute it and/or modify\n * it.\n */\n\n"
        "/*\n * Fills tanks of all sizes,\n * and empties them.\n */\n"
        "#include <stdio.h>\n\nint a;\n\nint fill(void) { return 0; }\n"
    )
    items = [item for item in read_text(tmp_path, ".c", source) if isinstance(item, Document)]
    assert {item.summary for item in items} == {
        "",
        "Fills tanks of all sizes,\nand empties them.",
    }
