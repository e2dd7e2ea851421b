"""Tell from a file's name what it holds: code, documentation or configuration, and how to read it.

Names decide alone, save that of a file without a suffix the first lines may tell: its interpreter,
the mode of an editor, or commands of a shell.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from purlin.index.sources.code.languages import BY_SUFFIX, LANGUAGES
from purlin.index.sources.code.languages.scripting import BASH, PYTHON, RUBY
from purlin.index.sources.code.syntax import Language
from purlin.index.sources.words import kinds, words

# Data rather than configuration, if it is longer.
MAX_CONFIG_BYTES = 256 * 1024
MAX_JSON_BYTES = 64 * 1024

# Directories whose names begin with a dot and that hold what people search for.
HIDDEN_DIRS = words(
    ".github .gitlab .circleci .buildkite .devcontainer .husky .storybook .cargo .config"
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


# Source code that is read without a grammar, or whose grammar is one of an extra: OCaml.
_OTHER_CODE = kinds(
    abap="abap", actionscript="as", ada="ads adb ada", agda="agda", alloy="als", antlr="g4", apex="apex trigger",
    applescript="applescript", asn1="asn1 asn", aspnet="cshtml razor aspx ascx asp",
    assembly="asm s nasm", astro="astro", autohotkey="ahk", avro="avdl", awk="awk", batch="bat cmd", bicep="bicep",
    bitbake="bb bbclass bbappend", bpftrace="bt", cairo="cairo", capnproto="capnp", clojure="clj cljs cljc edn",
    cobol="cob cbl cpy", coffeescript="coffee", coldfusion="cfm cfc", commonlisp="lisp lsp cl", crystal="cr",
    css="css scss sass less styl", csh="csh tcsh", cue="cue", cypher="cypher", d="d", dafny="dfy", dart="dart",
    devicetree="dts dtsi", dhall="dhall", docker="dockerfile", elm="elm", emacslisp="el",
    erlang="erl hrl escript xrl yrl", fennel="fnl", fish="fish", flatbuffers="fbs",
    fortran="f f77 for f90 f95 f03 f08", fsharp="fs fsi fsx", fstar="fst fsti", gdscript="gd",
    gherkin="feature", gleam="gleam", glsl="glsl vert frag comp geom tesc tese", graphql="graphql gql graphqls",
    groovy="groovy", hack="hack hhi", haskell="hsc chs", haxe="hx", hlsl="hlsl hlsli cginc shader",
    idl="idl webidl aidl", idris="idr", include="inc", janet="janet", jsonnet="jsonnet libsonnet", jsp="jsp jspx",
    lean="lean", lex="l lex lpp", lfe="lfe", linkerscript="lds", literatehaskell="lhs", llvm="mlir td", luau="luau",
    maxima="mac", metal="metal", minizinc="mzn", mojo="mojo", moonscript="moon", move="move", nim="nim nims", nix="nix",
    nushell="nu", ocaml="ml mli", ocamllex="mll", odin="odin", openscad="scad", p4="p4",
    pascal="pas pp dpr dpk lpr", plsql="pks pkb pls plsql prc fnc", powershell="psd1",
    prisma="prisma", prolog="pro", protobuf="proto", purescript="purs", qml="qml", r="r", ragel="rl",
    racket="rkt", raku="raku rakumod pm6 p6", reason="re", rego="rego", rescript="res resi", rexx="rexx",
    robot="robot", sas="sas", scheme="scm ss sld sls", smalltalk="st", smt="smt2", solidity="sol", sparql="sparql rq",
    sql="tsql psql pgsql", standardml="sml fun", stan="stan", tcl="tcl",
    template="j2 jinja jinja2 erb ejs hbs mustache twig liquid haml slim pug tmpl eex heex leex tpl gotmpl tftpl"
    " template ftl ftlh marko vm",
    thrift="thrift", tlaplus="tla", v="v", vala="vala", vbscript="vbs", verilog="sv svh vh", vhdl="vhd vhdl", vim="vim",
    visualbasic="vb bas frm", vyper="vy", wasm="wat wast wit", wgsl="wgsl", wolfram="wl", xaml="xaml axaml",
    yacc="y yy ypp yxx mly", yang="yang", zeek="zeek", zig="zon",
)  # fmt: skip
_DOCS = kinds(
    asciidoc="adoc asciidoc", html="html htm xhtml", latex="tex sty", markdown="md markdown mdx mdc qmd rmd",
    notebook="ipynb",
    org="org", pod="pod", rd="rd", rst="rst rest", text="txt text", troff="1 2 3 4 5 6 7 8 man",
)  # fmt: skip
_CONFIG = kinds(
    bazel="bzl bazel star", cabal="cabal", cmake="cmake", gn="gn gni", gradle="gradle", hcl="tfvars nomad",
    crontab="cron crontab",
    ini="ini cfg conf cnf cf properties editorconfig desktop logrotate nft rules sudoers preset"
    " service timer socket mount automount path target slice swap network netdev link nspawn container kube",
    json="json jsonc json5 webmanifest",
    kdl="kdl", m4="m4", make="mk mak make am", opam="opam", meson="meson", nim="nimble", qmake="pri",
    msbuild="csproj fsproj vbproj vcxproj props targets sln", rpm="spec",
    toml="toml", xml="xml xsd xsl xslt plist qrc nuspec wxs wxi", yaml="yaml yml",
)  # fmt: skip
_OTHER_LANGUAGES = frozenset(_OTHER_CODE.values())
# Of these, "Makefile.linux", "Dockerfile-dev" and the like are, too.
_STEMS = kinds(
    docker="dockerfile containerfile", groovy="jenkinsfile", make="makefile gnumakefile", text="procfile caddyfile",
)  # fmt: skip
_STEM_END = re.compile(r"[._-]")
_CONFIG_NAMES = kinds(
    bazel="build workspace", cmake="cmakelists.txt", crontab="crontab", dune="dune dune-project",
    ini="doxyfile .flake8 .pylintrc .coveragerc .env.example .env.sample .env.template .env.dist",
    json=".eslintrc .prettierrc .babelrc", kconfig="kconfig", make="justfile", meson="meson.build",
    text="go.mod codeowners requirements.txt constraints.txt configure.ac .dockerignore .tool-versions"
    " description namespace",
    yaml=".clang-format .clang-tidy .yamllint .ansible-lint",
)  # fmt: skip
_CODE_NAMES: dict[str, Language] = {
    **dict.fromkeys(
        "rakefile gemfile vagrantfile podfile fastfile brewfile guardfile capfile dangerfile appraisals berksfile"
        " steepfile".split(),
        RUBY,
    ),
    **dict.fromkeys(".bashrc .bash_profile .profile .zshrc .zprofile pkgbuild".split(), BASH),
    **dict.fromkeys("sconstruct sconscript wscript snakefile tiltfile".split(), PYTHON),
}
_DOCS_NAMES = words(
    "changelog changes contributing history news todo security authors install hacking"
)
# Tables and scripts of Debian's packages, whose names are before it.
_OF_CRON = re.compile(r"(?:^|\.)cron\.(d|hourly|daily|weekly|monthly)$")
_LICENCES = words("license licence copying unlicense notice license-mit license-apache")

_LOCKS = words(
    "package-lock.json npm-shrinkwrap.json pnpm-lock.yaml packages.lock.json go.sum go.work.sum bun.lockb"
    " gradle.lockfile project.assets.json .terraform.lock.hcl"
)
# Names of files that hold passwords and keys, and of copies of them; templates of `.env` hold none.
_SECRETS = re.compile(
    r"(\.env(\.(?!example|sample|template|dist)[\w.-]+)?|\.?(netrc|pypirc|npmrc|htpasswd|pgpass)"
    r"|id_(rsa|dsa|ecdsa|ed25519)|ssh_host_\w+_key|g?shadow-?|(chap-|pap-)?secrets?|sasl_passwd"
    r"|.*\.(env|pem|key|p12|pfx|keystore|jks|kdbx|keytab|secrets?|nmconnection))"
    r"(~|\.(bak|old|orig|save))*"
)
# Lines of private keys and of shared ones, as WireGuard and WiFi have them, and of Ansible's vaults.
_KEY_LINE = re.compile(
    rb"^(?:-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----|\$ANSIBLE_VAULT;"
    rb"|[ \t]*(?:PrivateKey|PresharedKey|psk)[ \t]*=[ \t]*\S)",
    re.MULTILINE,
)
_DATA = words(
    ".csv .tsv .jsonl .ndjson .log .svg .map .po .pot .snap .sum .sig .asc .diff .patch .eml .ics .geojson .resx"
    " .xlf .xliff .strings .pbxproj .storyboard .xib .drawio .bib .srt .vtt .out .tap .har .mo .gpg .rej .orig"
)
_BINARY = words(
    ".png .jpg .jpeg .gif .webp .ico .icns .bmp .tif .tiff .psd .avif .heic .pdf .doc .docx .xls .xlsx .ppt .pptx .odt"
    " .zip .gz .tgz .bz2 .xz .zst .7z .rar .tar .jar .war .whl .egg .gem .nupkg .deb .rpm .apk .dmg .iso .exe .dll .so"
    " .dylib .a .o .obj .lib .class .pyc .pyo .pyd .wasm .bin .dat .db .sqlite .sqlite3 .parquet .npy .npz .pkl .pickle"
    " .onnx .pt .pth .safetensors .h5 .ttf .otf .woff .woff2 .eot .mp3 .mp4 .m4a .wav .ogg .flac .avi .mov .webm .mkv"
    " .swf .ds_store .elc .beam .hi .rlib .rdb .rds .rda .pack .idx .stl .glb .gltf .fbx .blend"
)
# Directories whose files are configuration, whatever their names: of systems, packages, inventories.
_OF_SETTINGS = re.compile(
    r"(^|/)(etc(/.*)?|debian|[\w-]+\.d|sites-(available|enabled)|inventor(y|ies))$",
    re.IGNORECASE,
)
# Variables of Ansible, which are in YAML: a file for each group or host, or a directory of files.
_OF_VARIABLES = re.compile(r"(^|/)(group|host)_vars(/[^/]+)?$")
# Notes on changes, a file each, are documentation.
_NOTE_ON_CHANGES = re.compile(r"(^|/)(releasenotes/notes|changelogs/fragments)/[^/]*\.ya?ml$")
# What is before such a suffix tells what the file holds: a file without it is made of this one.
_OF_TEMPLATES = words(".in .dist .example .sample .template .tpl .tftpl")

# The name of the interpreter, behind its directory or behind `env` with options and variables.
_SHEBANG = re.compile(rb"#!\s*(?:\S*/env\s+(?:-\S+\s+)*(?:\w+=\S*\s+)*)?(?:\S*/)?([a-zA-Z]+)")
# What interpreters, modes of editors and people call a language that has another name here.
_ALIASES = kinds(
    awk="gawk mawk", bash="ash bats dash ksh sh shell shell-script zsh", cpp="c++ cxx", csharp="c# cs",
    elixir="ex", erlang="escript", fortran="f90", fsharp="f#", gdscript="gd", go="golang", haskell="hs",
    hcl="terraform tf", javascript="js jsx nodejs node", julia="jl", kotlin="kt", lua="luajit",
    objectivec="objc objective-c", pascal="delphi", perl="pl", powershell="ps1 pwsh", prolog="swipl",
    python="py pypy", r="rscript", ruby="jruby rb", rust="rs", solidity="sol", tcl="tclsh wish",
    typescript="bun deno ts tsx",
)  # fmt: skip
_GRAMMARS = {language.name: language for language in LANGUAGES}
# Configuration that defines tasks and functions.
_CONFIG_GRAMMARS: dict[str, Language] = {
    name: _GRAMMARS[name] for name in ("gradle", "groovy") if name in _GRAMMARS
} | {"bazel": PYTHON}
# A mode says "c++" of headers that the standard library has without a suffix.
_MODE = re.compile(
    rb"-\*-[ \t]*(?:.*?\bmode:[ \t]*)?([\w+#-]+)[ \t]*(?:;.*)?-\*-"
    rb"|\bvim?:.*\b(?:ft|filetype|syntax)=(\w+)|#[ \t]*shellcheck[ \t]+shell=(\w+)",
    re.IGNORECASE,
)
# Lines that end a block or begin a function, which hardly anything but a shell's script has.
_SHELL_BLOCK = re.compile(
    rb"^[ \t]*(?:fi|esac|done)\b(?!:)|^[ \t]*(?:function[ \t]+)?[\w-]+[ \t]*\(\)[ \t]*[{(]?[ \t]*(?:#.*)?$",
    re.MULTILINE,
)
# Lines that a shell's script has, though others may: heads and ends of blocks, commands, assignments.
_SHELL_LINE = re.compile(
    rb"^[ \t]*(?:(?:if|elif|while|until|for)\b.*;[ \t]*(?:then|do)[ \t]*$|case\b.*\bin[ \t]*$|(?:then|do|else)[ \t]*$"
    rb"|(?:local|export|readonly|declare|shift|return|echo|printf|set|unset|source|\.)\b|\w+=[\"'$`\w]|\[\[?[ \t]"
    rb"|.*;;[ \t]*$|\}[ \t]*$)",
    re.MULTILINE,
)
_TEXT_LINE = re.compile(rb"^[ \t]*[^\s#].*$", re.MULTILINE)
_MIN_SHELL_BLOCKS, _MIN_SHELL_SHARE = 2, 0.3
# How much of a file is read to tell what it holds.
HEAD_BYTES = 8192
# Editors look for their modes near the top.
_MODE_LINES, _MODE_BYTES = 5, 1024
# What only Objective-C has, in a header or a file of code.
_OBJECTIVE_C = re.compile(
    rb"^[ \t]*(?:@(?:interface|protocol|implementation|class)\b|#import\b)", re.MULTILINE
)
# A line that MATLAB, which has the same suffix, does not have.
_OF_C = re.compile(
    rb"^[ \t]*(?:@(?:interface|protocol|implementation|class|import)\b|#|//|/\*)", re.MULTILINE
)
# Instructions of which one is in nearly every routine.
_OF_ASSEMBLY = re.compile(
    rb"^[ \t]+(?:mov[bwlqaz]?|push[lqw]?|jmp|ldr|stp)[ \t]+[%\w\[$]", re.MULTILINE | re.IGNORECASE
)
# Macros of assemblers share their suffix with Maxima.
_OF_ASSEMBLY_MACROS = re.compile(
    rb"^[ \t]*(?:[%.]i?macro\b|\w+[ \t]+macro\b|%(?:define|ifdef|ifndef|include)\b)",
    re.MULTILINE | re.IGNORECASE,
)
# V, which has the same suffix, closes its blocks with braces.
_OF_VERILOG = re.compile(rb"^[ \t]*endmodule\b", re.MULTILINE)
# A routine of Pascal, and a directive of Prolog, which Perl cannot have there.
_OF_PASCAL = re.compile(
    rb"^(?:class[ \t]+)?(?:procedure|function|constructor|operator)[ \t][^;{}]{1,400};|^\{\$\w+",
    re.MULTILINE | re.IGNORECASE,
)
_OF_PROLOG = re.compile(
    rb"^:-[ \t]*(?:module|use_module|ensure_loaded|dynamic|discontiguous|multifile|initialization|set_prolog_flag|\[)",
    re.MULTILINE,
)
# Translations by Qt, which share TypeScript's suffix.
_OF_QT = re.compile(rb"(?:\xef\xbb\xbf)?\s*<(?:\?xml|!DOCTYPE TS)\b")
# What C does not have; enough in a header, whose suffix it shares with C++.
_ONLY_CPP = re.compile(
    rb"^[ \t]*(?:class \w|namespace\b|template\s*<|using \w|(?:public|private|protected):|constexpr\b)|\w::\w",
    re.MULTILINE,
)
# The language that a suffix stands for, what tells that a file is in another one, and that.
_SHARED_SUFFIXES: tuple[tuple[str, Callable[[bytes], object], str], ...] = (
    ("c", _OBJECTIVE_C.search, "objectivec"),
    ("c", _ONLY_CPP.search, "cpp"),
    ("objectivec", lambda content: not _OF_C.search(content), "matlab"),
    ("include", lambda content: content.startswith(b"<?php"), "php"),
    ("include", _OF_PASCAL.search, "pascal"),
    ("include", _OF_ASSEMBLY.search, "assembly"),
    ("maxima", _OF_ASSEMBLY_MACROS.search, "assembly"),
    ("perl", _OF_PROLOG.search, "prolog"),
    ("v", _OF_VERILOG.search, "verilog"),
)

MAY_HOLD_SECRETS = LeftOut("may hold secrets")


def file_type(path: str) -> FileType | LeftOut | None:
    """What a file of this name holds, or why it is never read; None if the name does not tell."""
    name = path.rpartition("/")[2].lower()
    suffix = name[name.rindex(".") :] if "." in name[1:] else ""

    if language := BY_SUFFIX.get(suffix):
        return FileType("code", language.name, language)
    if name in _LOCKS or suffix == ".lock":
        return LeftOut("a lock file")
    if _SECRETS.fullmatch(name):
        return MAY_HOLD_SECRETS

    if _NOTE_ON_CHANGES.search(path):
        return FileType("docs", "yaml")
    if kind := _by_name(name, suffix):
        return kind
    if suffix in _OF_TEMPLATES:
        of_output = file_type(path[: -len(suffix)])
        if isinstance(of_output, FileType):
            return of_output
    return _by_suffix(suffix)


def _by_name(name: str, suffix: str) -> FileType | LeftOut | None:
    """What a file holds whose name is known, as a whole or up to a suffix that says nothing."""
    if language := _CODE_NAMES.get(name):
        return FileType("code", language.name, language)
    if match := _OF_CRON.search(name):
        is_table = match[1] == "d"
        return FileType("config", "crontab") if is_table else FileType("code", BASH.name, BASH)
    if label := _CONFIG_NAMES.get(name):
        return FileType("config", label, _CONFIG_GRAMMARS.get(label))

    stem = name.partition(".")[0]
    if stem in _LICENCES:
        return LeftOut("a licence")
    if _by_suffix(suffix) is not None:
        return None
    # "Makefile.linux", "Dockerfile-dev" and "README.Debian", too.
    if label := _STEMS.get(_STEM_END.split(name, maxsplit=1)[0]):
        return FileType(
            "code" if label == "docker" else "config", label, _CONFIG_GRAMMARS.get(label)
        )
    return FileType("docs", "text") if name in _DOCS_NAMES or stem == "readme" else None


def type_by_directory(path: str) -> FileType | None:
    """What a file holds whose name does not tell, where its directories do: `etc`, `cron.d`."""
    directory = path.rpartition("/")[0]
    if _OF_VARIABLES.search(directory):
        return FileType("config", "yaml")
    return FileType("config", "text") if _OF_SETTINGS.search(directory) else None


def has_suffix(path: str) -> bool:
    """Whether a file's name ends in a suffix that says what it holds, if only to those who know it.

    The number of a version is none, and neither is what stands for a template.
    """
    stem, dot, suffix = path.rpartition("/")[2].lower().rpartition(".")
    if f".{suffix}" in _OF_TEMPLATES:
        return has_suffix(stem)
    return bool(dot) and suffix[:1].isalpha()


def _by_suffix(suffix: str) -> FileType | LeftOut | None:
    name = suffix.removeprefix(".")
    if label := _OTHER_CODE.get(name):
        return FileType("code", label)
    if label := _DOCS.get(name):
        return FileType("docs", label)
    if label := _CONFIG.get(name):
        return FileType("config", label, _CONFIG_GRAMMARS.get(label))

    if suffix in _BINARY:
        return LeftOut("")
    if suffix in _DATA:
        return LeftOut("data rather than text")

    return None


def type_by_content(head: bytes) -> FileType | None:
    """What a file holds whose name does not tell, by its first `HEAD_BYTES`."""
    if match := _SHEBANG.match(head):
        # Debian's rules are a makefile that is run.
        if match[1].lower() == b"make":
            return FileType("config", "make")
        return _code_of(match[1]) or FileType("code", "script")

    first_lines = b"\n".join(head.split(b"\n", _MODE_LINES)[:_MODE_LINES])[:_MODE_BYTES]
    for match in _MODE.finditer(first_lines):
        if file_type := _code_of(next(filter(None, match.groups()))):
            return file_type
    return FileType("code", BASH.name, BASH) if _is_shell(head) else None


def language_name(name: str) -> str:
    """The name that documents have for a language: "Golang" is go, "C++" is cpp."""
    lower = name.strip().lower()
    return _ALIASES.get(lower, lower)


def _code_of(name: bytes) -> FileType | None:
    """Code in the language of this name, if there is one."""
    language = language_name(name.decode(errors="replace"))
    if grammar := _GRAMMARS.get(language):
        return FileType("code", language, grammar)
    return FileType("code", language) if language in _OTHER_LANGUAGES else None


def _is_shell(head: bytes) -> bool:
    """Whether these lines are a shell's: of all, how many look so, and some must end a block."""
    if b"\0" in head:
        return False
    blocks = len(_SHELL_BLOCK.findall(head))
    if blocks < _MIN_SHELL_BLOCKS:
        return False
    lines = len(_TEXT_LINE.findall(head))
    return blocks + len(_SHELL_LINE.findall(head)) >= _MIN_SHELL_SHARE * lines


def has_key(file_type: FileType, content: bytes) -> bool:
    """Whether configuration has a private or shared key in it, whatever its name."""
    return file_type.content == "config" and _KEY_LINE.search(content) is not None


def is_translations(file_type: FileType, content: bytes) -> bool:
    """Whether what is named like TypeScript has the texts of a program in another language, for Qt."""
    return file_type.language == "typescript" and _OF_QT.match(content) is not None


def refined_type(file_type: FileType, content: bytes) -> FileType:
    """The same, or what shares its suffix, as the content tells: C++ in a header, Prolog in `.pl`."""
    for language, tells, content_language in _SHARED_SUFFIXES:
        if file_type.language == language and tells(content):
            return FileType("code", content_language, _GRAMMARS.get(content_language))

    return file_type
