"""Tell from a file's name what it holds: code, documentation or configuration, and how to read it.

Names decide alone, except that a file without a suffix may name its interpreter in its first line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from purlin.index.sources.languages import BASH, BY_SUFFIX, CPP, LUA, PYTHON, RUBY, C
from purlin.index.sources.syntax import Language

# Data rather than configuration, if it is longer.
MAX_CONFIG_BYTES = 256 * 1024
MAX_JSON_BYTES = 64 * 1024

# Directories whose names begin with a dot and that hold what people search for.
HIDDEN_DIRS = frozenset(
    ".github .gitlab .circleci .buildkite .devcontainer .husky .storybook .cargo .config".split()
)


@dataclass(frozen=True, slots=True)
class FileType:
    """What a file holds. With a `grammar`, its definitions are read, else windows of its lines."""

    content: Literal["code", "docs", "config"]
    language: str
    grammar: Language | None = None


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Why a file of this name is never read."""

    reason: str


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _languages(**suffixes: str) -> dict[str, str]:
    return {f".{suffix}": name for name, text in suffixes.items() for suffix in text.split()}


# Source code that is read without a grammar.
_OTHER_CODE = _languages(
    assembly="asm s", astro="astro", clojure="clj cljs cljc edn", cobol="cob cbl", coffeescript="coffee",
    commonlisp="lisp lsp cl", crystal="cr", css="css scss sass less styl", d="d", dart="dart",
    docker="dockerfile", elm="elm", emacslisp="el", erlang="erl hrl", fortran="f f77 f90 f95 f03",
    fsharp="fs fsi fsx", gleam="gleam", glsl="glsl vert frag", graphql="graphql gql", groovy="groovy",
    hack="hack", haxe="hx", hcl="tf hcl", julia="jl", literatehaskell="lhs", nim="nim nims", nix="nix",
    objectivec="m mm", ocaml="ml mli", odin="odin",
    pascal="pas pp", perl="pl pm t", powershell="ps1 psm1 psd1", prolog="pro", protobuf="proto",
    purescript="purs", r="r rmd", racket="rkt", raku="raku", rescript="res resi", scheme="scm ss sld",
    smalltalk="st", solidity="sol", sql="sql ddl", tcl="tcl",
    template="j2 jinja jinja2 erb ejs hbs mustache twig liquid haml slim pug tmpl", thrift="thrift", v="v",
    vala="vala", verilog="sv svh", vhdl="vhd vhdl", vim="vim", visualbasic="vb bas", wgsl="wgsl",
    zig="zon",
)  # fmt: skip
_DOCS = _languages(
    asciidoc="adoc asciidoc", html="html htm xhtml", latex="tex", markdown="md markdown mdx mdc qmd", notebook="ipynb",
    org="org", rst="rst rest", text="txt text", troff="1 2 3 4 5 6 7 8 man",
)  # fmt: skip
_CONFIG = _languages(
    bazel="bzl bazel star", cmake="cmake", gradle="gradle", hcl="tfvars",
    ini="ini cfg conf cnf properties editorconfig service desktop", json="json jsonc json5 webmanifest",
    make="mk mak make am", meson="meson", msbuild="csproj fsproj vbproj vcxproj props targets sln",
    toml="toml", xml="xml xsd xsl xslt plist", yaml="yaml yml",
)  # fmt: skip
_CONFIG_NAMES = {
    "makefile": "make", "gnumakefile": "make", "cmakelists.txt": "cmake",
    "jenkinsfile": "groovy", "procfile": "text", "go.mod": "text", "build": "bazel",
    "workspace": "bazel", "justfile": "make", "codeowners": "text", "caddyfile": "text", "meson.build": "meson",
    "tsconfig.json": "json", "requirements.txt": "text", "constraints.txt": "text", "configure.ac": "text",
}  # fmt: skip
_DOCKER_NAMES = _words("dockerfile containerfile")
_RUBY_NAMES = _words("rakefile gemfile vagrantfile podfile fastfile brewfile guardfile capfile")
_BASH_NAMES = _words(".bashrc .bash_profile .profile .zshrc .zprofile pkgbuild")
_PYTHON_NAMES = _words("sconstruct sconscript wscript")
_DOCS_NAMES = _words(
    "readme changelog changes contributing history news todo security authors install hacking"
)
_LICENCES = _words("license licence copying unlicense notice license-mit license-apache")

_LOCKS = _words(
    "package-lock.json npm-shrinkwrap.json pnpm-lock.yaml packages.lock.json go.sum go.work.sum bun.lockb"
    " gradle.lockfile pubspec.lock project.assets.json .terraform.lock.hcl"
)
_SECRETS = re.compile(
    r"\.env(\.(?!example|sample|template|dist)[\w.-]+)?|\.(netrc|pypirc|npmrc|htpasswd|pgpass)"
    r"|id_(rsa|dsa|ecdsa|ed25519)|.*\.(pem|key|p12|pfx|keystore|jks|kdbx)"
)
_DATA = _words(
    ".csv .tsv .jsonl .ndjson .log .svg .map .po .pot .snap .lock .sum .sig .asc .diff .patch .eml .ics .geojson .resx"
    " .xlf .xliff .strings .pbxproj .storyboard .xib .drawio .bib .srt .vtt .plist .out .tap .har .mo .gpg .rej .orig"
)
_BINARY = _words(
    ".png .jpg .jpeg .gif .webp .ico .icns .bmp .tif .tiff .psd .avif .heic .pdf .doc .docx .xls .xlsx .ppt .pptx .odt"
    " .zip .gz .tgz .bz2 .xz .zst .7z .rar .tar .jar .war .whl .egg .gem .nupkg .deb .rpm .apk .dmg .iso .exe .dll .so"
    " .dylib .a .o .obj .lib .class .pyc .pyo .pyd .wasm .bin .dat .db .sqlite .sqlite3 .parquet .npy .npz .pkl .pickle"
    " .onnx .pt .pth .safetensors .h5 .ttf .otf .woff .woff2 .eot .mp3 .mp4 .m4a .wav .ogg .flac .avi .mov .webm .mkv"
    " .swf .min.js .ds_store .elc .beam .hi .rlib .rdb .rds .rda .pack .idx .stl .glb .gltf .fbx .blend"
)
_SHEBANG = re.compile(rb"#!\s*(?:\S*/env\s+(?:-\S+\s+)*(?:\w+=\S*\s+)*)?(?:\S*/)?([a-zA-Z]+)")
_INTERPRETERS: dict[bytes, Language] = {
    b"sh": BASH, b"bash": BASH, b"dash": BASH, b"ash": BASH, b"ksh": BASH, b"zsh": BASH, b"bats": BASH,
    b"python": PYTHON, b"pypy": PYTHON, b"ruby": RUBY, b"jruby": RUBY, b"lua": LUA, b"luajit": LUA,
    b"node": BY_SUFFIX[".js"], b"bun": BY_SUFFIX[".ts"], b"deno": BY_SUFFIX[".ts"], b"php": BY_SUFFIX[".php"],
    b"elixir": BY_SUFFIX[".exs"],
}  # fmt: skip
# What C does not have; enough in a header, whose suffix it shares with C++.
_ONLY_CPP = re.compile(
    rb"^[ \t]*(?:class \w|namespace\b|template\s*<|using \w|(?:public|private|protected):|constexpr\b)|\w::\w",
    re.MULTILINE,
)


def file_type(path: str) -> FileType | LeftOut | None:
    """What a file of this name holds, or why it is never read; None if the name does not tell."""
    name = path.rpartition("/")[2].lower()
    suffix = name[name.rindex(".") :] if "." in name[1:] else ""

    if language := BY_SUFFIX.get(suffix):
        return FileType("code", language.name, language)
    if name in _LOCKS or suffix == ".lock":
        return LeftOut("a lock file")
    if _SECRETS.fullmatch(name):
        return LeftOut("may hold secrets")

    for names, language in ((_RUBY_NAMES, RUBY), (_BASH_NAMES, BASH), (_PYTHON_NAMES, PYTHON)):
        if name in names:
            return FileType("code", language.name, language)
    # "Dockerfile.prod" is one, too.
    if name.partition(".")[0] in _DOCKER_NAMES and _by_suffix(suffix) is None:
        return FileType("code", "docker")
    if label := _CONFIG_NAMES.get(name):
        return FileType("config", label)
    if name.partition(".")[0] in _LICENCES:
        return LeftOut("a licence")
    if not suffix and name in _DOCS_NAMES:
        return FileType("docs", "text")
    return _by_suffix(suffix)


def _by_suffix(suffix: str) -> FileType | LeftOut | None:
    if label := _OTHER_CODE.get(suffix):
        return FileType("code", label)
    if label := _DOCS.get(suffix):
        return FileType("docs", label)
    if label := _CONFIG.get(suffix):
        return FileType("config", label)
    if suffix in _BINARY:
        return LeftOut("")
    if suffix in _DATA:
        return LeftOut("data rather than text")
    return None


def interpreted_type(first_line: bytes) -> FileType | None:
    """What a file holds whose first line names this interpreter."""
    match = _SHEBANG.match(first_line)
    if match is None:
        return None
    language = _INTERPRETERS.get(match[1].lower())
    return FileType("code", language.name, language) if language else FileType("code", "script")


def refined_type(file_type: FileType, content: bytes) -> FileType:
    """The same, or C++ for a header that only C++ can read."""
    if file_type.grammar is C and _ONLY_CPP.search(content):
        return FileType("code", CPP.name, CPP)
    return file_type
