"""The languages whose definitions are read by patterns, as no small grammar of theirs is packaged.

To add a language, add a `PatternLanguage` under the name that its files have in `contents.py`.
"""

from __future__ import annotations

import re

from purlin.index.sources.definitions import prose
from purlin.index.sources.patterns import DULL, PREFIX, Body, Head, PatternLanguage

_STRING = r'"(?:[^"\\\n]|\\.)*+"?'
_SINGLE = r"'(?:[^'\\\n]|\\.)*+'?"
_SLASHES = r"//[^\n]*+|/\*[\s\S]*?(?:\*/|\Z)"
_HASH = r"\#[^\n]*+"
_COMMENT_BELOW = re.compile(r"[^\n]*\n((?:[ \t]*#[^\n]*\n?)+)")


def _hidden(comments: str, *strings: str) -> re.Pattern[bytes]:
    """What matches a comment or a string; the comment is tried first."""
    return re.compile("|".join((f"(?P<comment>{comments})", *strings)).encode(), re.MULTILINE)


def _head(
    pattern: str,
    body: Body = "braces",
    kind: str = "",
    within: str = "",
    *,
    ignores_case: bool = False,
) -> Head:
    """A head at the beginning of a line, whatever its indentation."""
    flags = re.MULTILINE | (re.IGNORECASE if ignores_case else 0)
    return Head(
        re.compile(rf"^[ \t]*+{pattern}".encode(), flags), body, kind, frozenset(within.split())
    )


def _closers(**patterns: str) -> dict[str, re.Pattern[bytes]]:
    """Of words that begin a body, what closes it at the beginning of a line."""
    flags = re.MULTILINE | re.IGNORECASE
    return {
        word: re.compile(rf"^[ \t]*+{pattern}".encode(), flags)
        for word, pattern in patterns.items()
    }


def _comment_below(definition: str) -> str:
    """The comment on the lines below a head, which begins with `#` or `##`."""
    match = _COMMENT_BELOW.match(definition)
    return prose(match[1]) if match else ""


# ---- Schemas and interfaces

PROTOBUF = PatternLanguage(
    heads=(
        _head(r"(?P<word>message|service|enum)[ \t]++(?P<name>\w++)(?=\s*+\{)"),
        _head(r"(?P<word>rpc)[ \t]++(?P<name>\w++)(?=\s*+\()", within="service"),
        _head(r"extend[ \t]++(?P<name>[\w.]++)(?=\s*+\{)", kind="extension"),
        _head(r"(?:syntax|edition|package|import|option)\b[^;\n]*+", kind=DULL),
    ),
    hidden=_hidden(_SLASHES, _STRING, _SINGLE),
)

THRIFT = PatternLanguage(
    heads=(
        _head(r"(?P<word>struct|union|exception|enum|service)[ \t]++(?P<name>\w++)"),
        _head(
            r"(?:oneway[ \t]++)?[\w.<>, ]{1,200}?[ \t](?P<name>\w++)[ \t]*+(?=\()",
            "line",
            "method",
            "service",
        ),
        _head(r"typedef[ \t][^\n]{0,200}?(?P<name>\w++)[ \t]*+;?[ \t]*+$", "line", "type"),
        _head(
            r"const[ \t]++[\w.<>, ]{1,200}?[ \t](?P<name>\w++)[ \t]*+=(?=[ \t]*+[\[{])",
            "line",
            "constant",
        ),
        _head(r"(?:include|cpp_include|namespace)\b", "line", DULL),
    ),
    hidden=_hidden(f"{_SLASHES}|{_HASH}", _STRING, _SINGLE),
)

GRAPHQL = PatternLanguage(
    heads=(
        _head(
            r"(?:extend[ \t]++)?(?P<word>type|interface|input|enum|union|scalar|query|mutation|subscription|fragment)"
            r"[ \t]++(?P<name>\w++)",
            "line",
        ),
        _head(r"(?P<word>directive)[ \t]++@(?P<name>\w++)", "line"),
    ),
    # A description stands where a comment would.
    hidden=_hidden(rf'"""[\s\S]*?(?:"""|\Z)|^[ \t]*+"[^"\n]*+"[ \t]*+$|{_HASH}', _STRING),
    kinds={"input": "type", "scalar": "type", "union": "type"},
    marker=re.compile(r'^[ \t]*"{1,3}|"{1,3}[ \t]*$', re.MULTILINE),
)

CAPNPROTO = PatternLanguage(
    heads=(
        _head(r"(?P<word>struct|interface|enum)[ \t]++(?P<name>\w++)(?=[^;{}]{0,400}+\{)"),
        _head(r"(?P<name>\w++)[ \t]++@\d++(?=[ \t]*+[(\[])", kind="method", within="interface"),
        _head(r"(?:using|import|@0x)[^;\n]*+", kind=DULL),
    ),
    hidden=_hidden(_HASH, _STRING),
    docstring=_comment_below,
)

FLATBUFFERS = PatternLanguage(
    heads=(
        _head(r"(?P<word>table|struct|enum|union|rpc_service)[ \t]++(?P<name>\w++)"),
        _head(r"(?P<name>\w++)[ \t]*+(?=\()", kind="rpc", within="service"),
        _head(r"(?:namespace|include|root_type|attribute|file_\w++)\b[^;\n]*+", kind=DULL),
    ),
    hidden=_hidden(_SLASHES, _STRING),
    kinds={"rpc_service": "service"},
)

PRISMA = PatternLanguage(
    heads=(
        _head(
            r"(?P<word>model|enum|type|view|generator|datasource)[ \t]++(?P<name>\w++)(?=\s*+\{)"
        ),
    ),
    hidden=_hidden(_SLASHES, _STRING),
)

# ---- Erlang

_ERLANG_DOC = re.compile(r'^-doc[ (]*"{1,3}\s*((?:[^"\\]|\\.)*)', re.MULTILINE)


def _erlang_docstring(definition: str) -> str:
    """What the attribute before a function says."""
    match = _ERLANG_DOC.match(definition)
    return match[1].strip().partition("\n\n")[0] if match else ""


ERLANG = PatternLanguage(
    heads=(
        _head(r"(?P<name>[a-z][\w@]*+|'[^'\n]++')[ \t]*+(?=\()", "form", "function"),
        _head(r"-record\([ \t]*+(?P<name>[a-z][\w@]*+|'[^'\n]++')", "form", "record"),
        _head(r"-(?:type|opaque|nominal)[ \t(]++(?P<name>[a-z][\w@]*+)", "form", "type"),
        _head(r"-callback[ \t(]++(?P<name>[a-z][\w@]*+)", "form", "callback"),
        _head(r"-define\([ \t]*+(?P<name>\w++)(?=\()", "form", "macro"),
        _head(r"-(?:spec|doc|deprecated)\b", "form", PREFIX),
        _head(
            r"-(?:module|export|export_type|import|include|include_lib|compile|vsn|author)\b",
            "form",
            DULL,
        ),
    ),
    hidden=_hidden(
        "%[^\n]*+", r'"""[\s\S]*?(?:"""|\Z)', r"\$(?:\\.|[^\s])", _STRING, r"'(?:[^'\\\n]|\\.)*+'"
    ),
    form_end=re.compile(rb"\.(?=\s|\Z)"),
    signature_end=re.compile(rb"->"),
    marker=re.compile(
        r"^[ \t]*%+[ \t]?(?:@doc\b[ \t]*|@(?:private|hidden|end)\b[^\n]*)?", re.MULTILINE
    ),
    docstring=_erlang_docstring,
)

# ---- Lisps

# The name of what is defined, after metadata.
_SYMBOL = r"(?:\^[^\s()\[\]{}]++\s++)*+(?P<name>[^\s()\[\]{}\"';`,]++)"
_LISP_DOC = re.compile(
    r'\(\S+\s+(?:\^\S+\s+)*[^\s()]+\s+(?:\((?:[^()]|\([^()]*\))*\)\s+)?"((?:[^"\\]|\\.)*)"\s*[^\s)]'
)


def _lisp_docstring(definition: str) -> str:
    """The string after the name or the parameters, unless it is the value."""
    match = _LISP_DOC.match(definition)
    return match[1].replace('\\"', '"').strip() if match else ""


def _lisp(words: dict[str, str], *more: Head) -> PatternLanguage:
    names = "|".join(map(re.escape, sorted(words, key=len, reverse=True)))
    return PatternLanguage(
        heads=(_head(rf"\((?P<word>{names})\s++{_SYMBOL}", "parens"), *more),
        hidden=_hidden(
            r";[^\n]*+|\#\|[\s\S]*?(?:\|\#|\Z)",
            r"\\.|\#\\.|\?\\?[()\[\]{}\";]",
            r'"(?:[^"\\]|\\.)*+"?',
        ),
        kinds=words,
        marker=re.compile(r"^[ \t]*(?:;+|#\||\|#)[ \t]?", re.MULTILINE),
        docstring=_lisp_docstring,
    )


CLOJURE = _lisp(
    {
        "defn": "function", "defn-": "function", "defmacro": "macro", "defmulti": "function",
        "defmethod": "function", "def": "constant", "defonce": "constant", "defprotocol": "interface",
        "definterface": "interface", "defrecord": "class", "deftype": "class", "deftest": "test",
        "s/def": "type", "s/defn": "function", "s/fdef": "type",
    },
    _head(r"\((?:ns|in-ns|require|import)\s", "parens", DULL),
)  # fmt: skip
COMMON_LISP = _lisp(
    {
        "defun": "function", "defmacro": "macro", "defmethod": "function", "defgeneric": "function",
        "defclass": "class", "defstruct": "struct", "defvar": "constant", "defparameter": "constant",
        "defconstant": "constant", "deftype": "type", "define-condition": "class", "deftest": "test",
        "defsubst": "function", "cl-defun": "function", "cl-defmethod": "function", "cl-defgeneric": "function",
        "cl-defstruct": "struct", "cl-defmacro": "macro", "defcustom": "constant", "defface": "constant",
        "define-minor-mode": "function", "define-derived-mode": "function", "defconst": "constant",
        "ert-deftest": "test",
    },
    _head(r"\((?:defpackage|in-package|require|provide)\s", "parens", DULL),
)  # fmt: skip
SCHEME = _lisp(
    {
        "define": "constant", "define-syntax": "macro", "define-syntax-rule": "macro", "define-record-type": "class",
        "struct": "struct", "define-struct": "struct", "define-macro": "macro",
    },
    _head(
        rf"\((?:define|define/contract|define-public|define\*|define-syntax-rule)\s++\(+{_SYMBOL}",
        "parens",
        "function",
    ),
    _head(r"\((?:require|provide|import|export|use-modules)\s", "parens", DULL),
    _head(r"\#(?:lang|!)[^\n]*+", "line", DULL),
)  # fmt: skip
FENNEL = _lisp({"fn": "function", "lambda": "function", "macro": "macro", "local": "constant"})

# ---- Build files

CMAKE = PatternLanguage(
    heads=(
        _head(r"(?P<word>function|macro)[ \t]*+\(\s*+(?P<name>[\w${}.-]++)[^()\n]*+\)", "words", ignores_case=True),
        _head(
            r"(?:add_custom_target|add_executable|add_library)[ \t]*+\(\s*+(?P<name>[\w${}.:-]++)",
            "parens",
            "target",
            ignores_case=True,
        ),
        _head(r"(?:cmake_minimum_required|include)[ \t]*+(?=\()", "parens", DULL, ignores_case=True),
    ),
    hidden=_hidden(rf"\#\[(?P<level>=*)\[[\s\S]*?(?:\](?P=level)\]|\Z)|{_HASH}", r'"(?:[^"\\]|\\.)*+"?'),
    closers=_closers(function=r"endfunction[ \t]*+\([^()\n]*+\)", macro=r"endmacro[ \t]*+\([^()\n]*+\)"),
)  # fmt: skip

MAKE = PatternLanguage(
    heads=(
        Head(
            re.compile(
                rb"^(?P<name>[\w%/$][\w%/$().{}@+-]*+)(?:[ \t]++[\w%/$().{}@+-]++)*+[ \t]*+::?(?![:=])[^\n=]*+$",
                re.MULTILINE,
            ),
            "indent",
            "target",
        ),
        Head(re.compile(rb"^\.[A-Z_]++[ \t]*+:[^\n]*+|^-?include\b[^\n]*+", re.MULTILINE), "indent", DULL),
    ),
    hidden=_hidden(r"(?:^|(?<=[ \t]))\#[^\n]*+"),
)  # fmt: skip

# ---- Scripts

R = PatternLanguage(
    heads=(
        _head(r"`?(?P<name>[\w.]++|`[^`\n]++`)[ \t]*+(?:<-|=)[ \t]*+function\b(?=[ \t]*+\()", "line", "function"),
        _head(
            r"(?P<name>[\w.]++)[ \t]*+(?:<-|=)[ \t]*+(?:[\w.]++::)?(?:R6Class|setRefClass|setClass)\b(?=\()",
            "parens",
            "class",
        ),
        _head(r"(?:[\w.]++::)?(?:setMethod|setGeneric)\([ \t]*+[\"'](?P<name>[^\"'\n]++)[\"']", "parens", "function"),
        _head(r"(?:library|require|source)[ \t]*+\([^()\n]*+\)", "line", DULL),
    ),
    hidden=_hidden(_HASH, r'"(?:[^"\\]|\\.)*+"?', r"'(?:[^'\\]|\\.)*+'?"),
    marker=re.compile(r"^[ \t]*#+'?[ \t]?(?:@(?:title|description)\b[ \t]*)?", re.MULTILINE),
)  # fmt: skip

AWK = PatternLanguage(
    heads=(_head(r"func(?:tion)?[ \t]++(?P<name>\w++)[ \t]*+(?=\()", kind="function"),),
    hidden=_hidden(_HASH, _STRING),
)

TCL = PatternLanguage(
    heads=(
        _head(
            r"(?:proc|oo::define[ \t]++\S++[ \t]++method)[ \t]++(?P<name>[\w:.-]++)",
            "line",
            "function",
        ),
        _head(r"(?:method|constructor)[ \t]++(?P<name>[\w:.-]++)", "line", "method", "class"),
        _head(r"oo::class[ \t]++create[ \t]++(?P<name>[\w:]++)", "line", "class"),
        _head(r"(?:package|source)[ \t][^\n]*+", "line", DULL),
    ),
    hidden=_hidden(r"(?:^|;)[ \t]*+\#[^\n]*+", r"\\[\s\S]"),
)

_END_FUNCTION = r"endf(?:u|un|unc|unction)?\b"

VIM = PatternLanguage(
    heads=(
        _head(
            r"(?:export[ \t]++)?(?P<word>fu|function|def)(?:n|nc)?!?[ \t]++(?P<name>[\w:.#<>]++)[ \t]*+(?=\()",
            "words",
            "function",
        ),
        _head(r"com(?:mand)?!?[ \t]++(?:-\S++[ \t]++)*+(?P<name>[A-Z]\w*+)", "line", "command"),
    ),
    hidden=_hidden(r"^[ \t]*+[\"#][^\n]*+", r"'(?:[^'\n]|'')*+'", _STRING),
    closers=_closers(fu=_END_FUNCTION, function=_END_FUNCTION, **{"def": r"enddef\b"}),
    marker=re.compile(r'^[ \t]*["#]+[ \t]?', re.MULTILINE),
)  # fmt: skip

FISH = PatternLanguage(
    heads=(_head(r"function[ \t]++(?P<name>[\w.:-]++)", "indent", "function"),),
    hidden=_hidden(r"(?:^|(?<=\s))\#[^\n]*+", r'"(?:[^"\\]|\\.)*+"?', r"'(?:[^'\\]|\\.)*+'?"),
    last_row=re.compile(rb"end\b"),
)

# ---- Languages that end blocks by indentation or by `end`

CRYSTAL = PatternLanguage(
    heads=(
        _head(
            r"(?:(?:private|protected|abstract)[ \t]++)*+(?P<word>class|struct|module|enum|lib|annotation)[ \t]++"
            r"(?P<name>[\w:]++)",
            "indent",
        ),
        _head(
            r"(?:(?:private|protected)[ \t]++)*+(?P<word>def|macro)[ \t]++(?:self\.)?(?P<name>[\w]++[?!=]?|[^\s\w(]++)",
            "indent",
        ),
        _head(r"require[ \t]++", "line", DULL),
    ),
    hidden=_hidden(r"\#(?!\{)[^\n]*+", _STRING),
    kinds={"def": "function", "lib": "module"},
    last_row=re.compile(rb"end\b"),
)

NIM = PatternLanguage(
    heads=(
        _head(
            r"(?P<word>proc|func|method|iterator|converter|template|macro)[ \t]++(?P<name>\w++|`[^`\n]++`)",
            "indent",
        ),
        _head(
            r"(?:type[ \t]++)?(?P<name>[A-Z]\w*+)\*?[^=\n]*+=[ \t]*+(?:ref[ \t]++)?(?:object|enum|tuple|concept)\b",
            "indent",
            "class",
        ),
        _head(r"(?:import|from|include|export)[ \t][^\n]*+|type[ \t]*+$", "line", DULL),
    ),
    hidden=_hidden(r"\#\[[\s\S]*?(?:\]\#|\Z)|\#[^\n]*+", r'"""[\s\S]*?(?:"""|\Z)', _STRING),
    kinds=dict.fromkeys(("proc", "func", "method", "iterator", "converter"), "function") | {"template": "macro"},
    docstring=_comment_below,
)  # fmt: skip

ELM = PatternLanguage(
    heads=(
        _head(r"type[ \t]++(?:alias[ \t]++)?(?P<name>[A-Z]\w*+)", "indent", "type"),
        Head(
            re.compile(rb"^(?P<name>[a-z]\w*+)(?:[ \t]++[^=\n:|]++)?[ \t]*+=(?!=)", re.MULTILINE),
            "indent",
            "function",
        ),
        Head(re.compile(rb"^(?:port[ \t]++)?[a-z]\w*+[ \t]*+:[ \t]", re.MULTILINE), "indent", PREFIX),
        Head(re.compile(rb"^(?:(?:port[ \t]++)?module|import)[ \t]", re.MULTILINE), "indent", DULL),
    ),
    hidden=_hidden(r"--[^\n]*+|\{-[\s\S]*?(?:-\}|\Z)", r'"""[\s\S]*?(?:"""|\Z)', _STRING),
)  # fmt: skip

_VERILOG_WORDS = ("module", "interface", "package", "class", "program", "function", "task")

VERILOG = PatternLanguage(
    heads=(
        _head(
            r"(?P<word>module|interface|package|class|program)[ \t]++(?:automatic[ \t]++)?(?P<name>\w++)",
            "words",
        ),
        _head(
            r"(?:virtual[ \t]++)?(?P<word>function|task)\b[^;(\n]{0,200}?(?P<name>\w++)[ \t]*+(?=[;(])",
            "words",
        ),
    ),
    hidden=_hidden(_SLASHES, _STRING),
    kinds={"task": "function"},
    closers=_closers(**{word: rf"end{word}\b" for word in _VERILOG_WORDS}),
)

F_SHARP = PatternLanguage(
    heads=(
        _head(
            r"let[ \t]++(?:(?:rec|inline|private|internal|mutable)[ \t]++)*+(?P<name>\w++|``[^`\n]++``)"
            r"(?=[ \t]*+(?:[(<]|[ \t]\w))[^=\n]*+=",
            "indent",
            "function",
        ),
        _head(
            r"(?:static[ \t]++)?(?:member|override)[ \t]++(?:\w++\.)?(?P<name>\w++)",
            "indent",
            "method",
            "class",
        ),
        _head(r"type[ \t]++(?:(?:private|internal)[ \t]++)?(?P<name>\w++)", "indent", "class"),
        _head(r"module[ \t]++(?:rec[ \t]++)?(?P<name>\w++)[ \t]*+=", "indent", "module"),
        _head(r"(?:open|namespace|module)[ \t][^\n]*+", "line", DULL),
    ),
    hidden=_hidden(r"//[^\n]*+|\(\*(?!\))[\s\S]*?(?:\*\)|\Z)", r'"""[\s\S]*?(?:"""|\Z)', _STRING),
    marker=re.compile(r"^[ \t]*///?[ \t]?(?:</?summary>)?|</summary>[ \t]*$", re.MULTILINE),
)

# ---- Styles and shaders

SASS = PatternLanguage(
    heads=(_head(r"@(?P<word>mixin|function)[ \t]++(?P<name>[\w-]++)"),),
    hidden=_hidden(_SLASHES, _STRING, _SINGLE),
)

WGSL = PatternLanguage(
    heads=(
        _head(r"(?:@\w++(?:\([^()\n]*+\))?\s*+)*+fn[ \t]++(?P<name>\w++)", kind="function"),
        _head(r"(?P<word>struct)[ \t]++(?P<name>\w++)"),
    ),
    hidden=_hidden(_SLASHES),
)

# By the names that files of these languages have.
PATTERN_LANGUAGES: dict[str, PatternLanguage] = {
    "awk": AWK,
    "capnproto": CAPNPROTO,
    "clojure": CLOJURE,
    "cmake": CMAKE,
    "commonlisp": COMMON_LISP,
    "crystal": CRYSTAL,
    "elm": ELM,
    "emacslisp": COMMON_LISP,
    "erlang": ERLANG,
    "fennel": FENNEL,
    "css": SASS,
    "fish": FISH,
    "flatbuffers": FLATBUFFERS,
    "fsharp": F_SHARP,
    "graphql": GRAPHQL,
    "make": MAKE,
    "nim": NIM,
    "prisma": PRISMA,
    "protobuf": PROTOBUF,
    "r": R,
    "racket": SCHEME,
    "scheme": SCHEME,
    "tcl": TCL,
    "thrift": THRIFT,
    "verilog": VERILOG,
    "vim": VIM,
    "wgsl": WGSL,
}
