"""The languages whose definitions are read by patterns, as no small grammar of theirs is packaged.

To add a language, add a `PatternLanguage` under the name that its files have in `contents.py`.
"""

from __future__ import annotations

import re

from purlin.index.sources.code.block_words import BlockWords
from purlin.index.sources.code.comments import prose
from purlin.index.sources.code.patterns import DULL, PREFIX, Body, Head, PatternLanguage
from purlin.index.sources.words import kinds

# A string on one line, on several, and between three quotes.
_STRING = r'"(?:[^"\\\n]|\\.)*+"?'
_LONG_STRING = r'"(?:[^"\\]|\\[\s\S])*+"?'
_TRIPLE = r'"""[\s\S]*?(?:"""|\Z)'
_SINGLE = r"'(?:[^'\\\n]|\\.)*+'?"
_SLASHES = r"//[^\n]*+|/\*[\s\S]*?(?:\*/|\Z)"
_HASH = r"\#[^\n]*+"
# A set of characters, which stays as it is, or a space and what follows it.
_SPACES = re.compile(r"(\[(?:[^]\\]|\\.)*\])| (\*?)")
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
    is_indented: bool = True,
    ignores_case: bool = False,
    needs_body: bool = False,
) -> Head:
    """A head at the beginning of a line, whatever its indentation, if it may have one.

    In its pattern, a space stands for one or more of them or of tabs, and ` *` for any number.
    """
    flags = re.MULTILINE | (re.IGNORECASE if ignores_case else 0)
    spaced = _SPACES.sub(lambda match: match[1] or rf"[ \t]{match[2] or '+'}+", pattern)
    margin = r"^[ \t]*+" if is_indented else "^"
    compiled = re.compile(f"{margin}{spaced}".encode(), flags)
    return Head(compiled, body, kind, frozenset(within.split()), needs_body)


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
        _head(r"(?P<word>message|service|enum) (?P<name>\w++)(?=\s*+\{)"),
        _head(r"(?P<word>rpc) (?P<name>\w++)(?=\s*+\()", within="service"),
        _head(r"extend (?P<name>[\w.]++)(?=\s*+\{)", kind="extension"),
        _head(r"(?:syntax|edition|package|import|option)\b[^;\n]*+", kind=DULL),
    ),
    hidden=_hidden(_SLASHES, _STRING, _SINGLE),
)

THRIFT = PatternLanguage(
    heads=(
        _head(r"(?P<word>struct|union|exception|enum|service) (?P<name>\w++)"),
        _head(r"(?:oneway )?[\w.<>, ]{1,200}?[ \t](?P<name>\w++) *(?=\()", "line", "method", "service"),
        _head(r"typedef[ \t][^\n]{0,200}?(?P<name>\w++) *;? *$", "line", "type"),
        _head(r"const [\w.<>, ]{1,200}?[ \t](?P<name>\w++) *=(?= *[\[{])", "line", "constant"),
        _head(r"(?:include|cpp_include|namespace)\b", "line", DULL),
    ),
    hidden=_hidden(f"{_SLASHES}|{_HASH}", _STRING, _SINGLE),
)  # fmt: skip

GRAPHQL = PatternLanguage(
    heads=(
        _head(
            r"(?:extend )?(?P<word>type|interface|input|enum|union|scalar|query|mutation|subscription|fragment)"
            r" (?P<name>\w++)",
            "line",
        ),
        _head(r"(?P<word>directive) @(?P<name>\w++)", "line"),
    ),
    # A description stands where a comment would.
    hidden=_hidden(rf'"""[\s\S]*?(?:"""|\Z)|^[ \t]*+"[^"\n]*+"[ \t]*+$|{_HASH}', _STRING),
    kinds={"input": "type", "scalar": "type", "union": "type"},
    marker=re.compile(r'^[ \t]*"{1,3}|"{1,3}[ \t]*$', re.MULTILINE),
)

CAPNPROTO = PatternLanguage(
    heads=(
        _head(r"(?P<word>struct|interface|enum) (?P<name>\w++)(?=[^;{}]{0,400}+\{)"),
        _head(r"(?P<name>\w++) @\d++(?= *[(\[])", kind="method", within="interface"),
        _head(r"(?:using|import|@0x)[^;\n]*+", kind=DULL),
    ),
    hidden=_hidden(_HASH, _STRING),
    docstring=_comment_below,
)

FLATBUFFERS = PatternLanguage(
    heads=(
        _head(r"(?P<word>table|struct|enum|union|rpc_service) (?P<name>\w++)"),
        _head(r"(?P<name>\w++) *(?=\()", kind="rpc", within="service"),
        _head(r"(?:namespace|include|root_type|attribute|file_\w++)\b[^;\n]*+", kind=DULL),
    ),
    hidden=_hidden(_SLASHES, _STRING),
    kinds={"rpc_service": "service"},
)

PRISMA = PatternLanguage(
    heads=(_head(r"(?P<word>model|enum|type|view|generator|datasource) (?P<name>\w++)(?=\s*+\{)"),),
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
        _head(r"(?P<name>[a-z][\w@]*+|'[^'\n]++') *(?=\()", "form", "function"),
        _head(r"-record\( *(?P<name>[a-z][\w@]*+|'[^'\n]++')", "form", "record"),
        _head(r"-(?:type|opaque|nominal)[ \t(]++(?P<name>[a-z][\w@]*+)", "form", "type"),
        _head(r"-callback[ \t(]++(?P<name>[a-z][\w@]*+)", "form", "callback"),
        _head(r"-define\( *(?P<name>\w++)(?=\()", "form", "macro"),
        _head(r"-(?:spec|doc|deprecated)\b", "form", PREFIX),
        _head(r"-(?:module|export|export_type|import|include|include_lib|compile|vsn|author)\b", "form", DULL),
    ),
    hidden=_hidden(
        "%[^\n]*+", _TRIPLE, r"\$(?:\\.|[^\s])", _STRING, r"'(?:[^'\\\n]|\\.)*+'"
    ),
    form_end=re.compile(rb"\.(?=\s|\Z)"),
    signature_end=re.compile(rb"->"),
    marker=re.compile(
        r"^[ \t]*%+[ \t]?(?:@doc\b[ \t]*|@(?:private|hidden|end)\b[^\n]*)?", re.MULTILINE
    ),
    docstring=_erlang_docstring,
)  # fmt: skip

# ---- Prolog

_ATOM = r"(?:[a-z]\w*+|'[^'\n]++')"

PROLOG = PatternLanguage(
    heads=(
        _head(
            rf"(?:{_ATOM}:)?(?P<name>{_ATOM})(?=\(|\s{{0,200}}+(?::-|-->|=>)|\.\s| *,)",
            "form",
            "function",
            is_indented=False,
        ),
        _head(r":-\s", "form", DULL, is_indented=False),
    ),
    hidden=_hidden(
        r"%[^\n]*+|/\*[\s\S]*?(?:\*/|\Z)",
        r"\b(?:0'(?:\\.|''|[^\n])|[1-9]\d?'\w++)",
        r'"(?:[^"\\]|\\[\s\S])*+"?',
        r"'(?:[^'\\\n]|\\[\s\S])*+'?",
        r"`(?:[^`\\\n]|\\.)*+`?",
    ),
    form_end=re.compile(rb"\.(?=\s|\Z)"),
    signature_end=re.compile(rb":-|-->|=>|\.(?=\s|\Z)"),
    doc_gap=2,
    # The first lines of a comment repeat the head, with the modes of its arguments.
    marker=re.compile(
        r"^[ \t]*%[!%]?[ \t]+\w+(?:\([^\n]*|//\d*)(?:is \w+\.?|//)?[ \t]*$|^[ \t]*%+!?[ \t]?",
        re.MULTILINE,
    ),
)

# ---- Lisps

# The name of what is defined, after metadata.
_SYMBOL = r"(?:\^[^\s()\[\]{}]++\s++)*+(?P<name>[^\s()\[\]{}\"';`,]++)"
# `(head ^metadata name (parameters) "docstring" value`; parameters may hold brackets once.
_LISP_DOC = re.compile(
    r'\(\S+\s+(?:\^\S+\s+)*[^\s()]+\s+(?:\((?:[^()]|\([^()]*\))*\)\s+)?"((?:[^"\\]|\\[\s\S])*)"\s*[^\s)]'
)


def _lisp_docstring(definition: str) -> str:
    """The string after the name or the parameters, unless it is the value."""
    match = _LISP_DOC.match(definition)
    return match[1].replace('\\"', '"').removeprefix("\\\n").strip() if match else ""


def _lisp(words: dict[str, str], *more: Head) -> PatternLanguage:
    names = "|".join(map(re.escape, sorted(words, key=len, reverse=True)))

    return PatternLanguage(
        heads=(_head(rf"\((?P<word>{names})\s++{_SYMBOL}", "parens"), *more),
        hidden=_hidden(
            r";[^\n]*+|\#\|[\s\S]*?(?:\|\#|\Z)",
            r"\\.|\#\\.|\?\\?[()\[\]{}\";]",
            _LONG_STRING,
        ),
        kinds=words,
        marker=re.compile(r"^[ \t]*(?:;+|#\||\|#)[ \t]?", re.MULTILINE),
        docstring=_lisp_docstring,
    )


CLOJURE = _lisp(
    kinds(
        function="defn defn- defmulti defmethod s/defn",
        macro="defmacro",
        constant="def defonce",
        interface="defprotocol definterface",
        class_="defrecord deftype",
        test="deftest",
        type="s/def s/fdef",
    ),
    _head(r"\((?:ns|in-ns|require|import)\s", "parens", DULL),
)  # fmt: skip
COMMON_LISP = _lisp(
    kinds(
        function="defun defmethod defgeneric defsubst cl-defun cl-defmethod cl-defgeneric define-minor-mode"
        " define-derived-mode",
        macro="defmacro cl-defmacro",
        class_="defclass define-condition",
        struct="defstruct cl-defstruct",
        constant="defvar defparameter defconstant defcustom defface defconst",
        type="deftype",
        test="deftest ert-deftest",
    ),
    _head(r"\((?:defpackage|in-package|require|provide)\s", "parens", DULL),
)  # fmt: skip
SCHEME = _lisp(
    kinds(
        constant="define",
        macro="define-syntax define-syntax-rule define-macro",
        class_="define-record-type",
        struct="struct define-struct",
    ),
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
        _head(r"(?P<word>function|macro) *\(\s*+(?P<name>[\w${}.-]++)[^()\n]*+\)", "words", ignores_case=True),
        _head(
            r"(?:add_custom_target|add_executable|add_library) *\(\s*+(?P<name>[\w${}.:-]++)",
            "parens",
            "target",
            ignores_case=True,
        ),
        _head(r"(?:cmake_minimum_required|include) *(?=\()", "parens", DULL, ignores_case=True),
    ),
    hidden=_hidden(rf"\#\[(?P<level>=*)\[[\s\S]*?(?:\](?P=level)\]|\Z)|{_HASH}", _LONG_STRING),
    closers=_closers(function=r"endfunction[ \t]*+\([^()\n]*+\)", macro=r"endmacro[ \t]*+\([^()\n]*+\)"),
)  # fmt: skip

MAKE = PatternLanguage(
    heads=(
        _head(
            r"(?P<name>[\w%/$][\w%/$().{}@+-]*+)(?: [\w%/$().{}@+-]++)*+ *::?(?![:=])[^\n=]*+$",
            "indent",
            "target",
            is_indented=False,
        ),
        _head(r"\.[A-Z_]++ *:[^\n]*+|^-?include\b[^\n]*+", "indent", DULL, is_indented=False),
    ),
    hidden=_hidden(r"(?:^|(?<=[ \t]))\#[^\n]*+"),
)  # fmt: skip

# ---- Scripts

# A name and a block of code, which a call is given: `test_that("lamps glow", {`.
_R_BLOCK = r"""\( *["'](?P<name>[^"'\n]++)["'] *, *\s{0,20}+(?:\{|function *\(|\\\()"""

R = PatternLanguage(
    heads=(
        _head(
            r"(?:[\w.]++\$)?`?(?P<name>[\w.]++|`[^`\n]++`) *(?:<-|=) *(?:function\b(?= *\()|\\(?=\())",
            "line",
            "function",
        ),
        _head(rf"(?:test_that|it){_R_BLOCK}", "parens", "test"),
        _head(
            rf"(?!(?:test_that|it|describe|set\w++)\()(?P<word>(?:[\w.]++::)?[\w.]++){_R_BLOCK}",
            "parens",
            "block",
        ),
        _head(
            r"(?P<name>[\w.]++) *(?:<-|=) *(?:[\w.]++::)?(?:R6Class|setRefClass|setClass)\b(?=\()",
            "parens",
            "class",
        ),
        _head(r"(?:[\w.]++::)?(?:setMethod|setGeneric)\( *[\"'](?P<name>[^\"'\n]++)[\"']", "parens", "function"),
        _head(r"(?:library|require|source|import|use) *\([^()\n]*+\)", "line", DULL),
        _head(r"(?:box::use|import::(?:from|here|into)) *(?=\()", "parens", DULL),
        _head(r"suppress\w++\((?:library|require)\b", "parens", DULL),
    ),
    hidden=_hidden(_HASH, _LONG_STRING, r"'(?:[^'\\]|\\.)*+'?"),
    # Of roxygen's tags, `@export` and the like speak to its tools alone.
    marker=re.compile(
        r"^[ \t]*#+'?[ \t]?(?:@(?:title|description)\b[ \t]*|@(?:export|inherit|import)\w*\b.*"
        r"|@(?:aliases|docType|include|keywords|md|noRd|order|rdname|template|useDynLib)\b.*)?",
        re.MULTILINE,
    ),
)  # fmt: skip

AWK = PatternLanguage(
    heads=(_head(r"func(?:tion)? (?P<name>\w++) *(?=\()", kind="function"),),
    hidden=_hidden(_HASH, _STRING),
)

TCL = PatternLanguage(
    heads=(
        _head(r"(?:proc|oo::define \S++ method) (?P<name>[\w:.-]++)", "line", "function"),
        _head(r"(?:method|constructor) (?P<name>[\w:.-]++)", "line", "method", "class"),
        _head(r"oo::class create (?P<name>[\w:]++)", "line", "class"),
        _head(r"(?:package|source)[ \t][^\n]*+", "line", DULL),
    ),
    hidden=_hidden(r"(?:^|;)[ \t]*+\#[^\n]*+", r"\\[\s\S]"),
)

_END_FUNCTION = r"endf(?:u|un|unc|unction)?\b"

VIM = PatternLanguage(
    heads=(
        _head(r"(?:export )?(?P<word>fu|function|def)(?:n|nc)?!? (?P<name>[\w:.#<>]++) *(?=\()", "words", "function"),
        _head(r"com(?:mand)?!? (?:-\S++ )*+(?P<name>[A-Z]\w*+)", "line", "command"),
    ),
    hidden=_hidden(r"^[ \t]*+[\"#][^\n]*+", r"'(?:[^'\n]|'')*+'", _STRING),
    closers=_closers(fu=_END_FUNCTION, function=_END_FUNCTION, **{"def": r"enddef\b"}),
    marker=re.compile(r'^[ \t]*["#]+[ \t]?', re.MULTILINE),
)  # fmt: skip

FISH = PatternLanguage(
    heads=(_head(r"function (?P<name>[\w.:-]++)", "indent", "function"),),
    hidden=_hidden(r"(?:^|(?<=\s))\#[^\n]*+", _LONG_STRING, r"'(?:[^'\\]|\\.)*+'?"),
    last_row=re.compile(rb"end\b"),
)

# ---- Languages that end blocks by indentation or by `end`

CRYSTAL = PatternLanguage(
    heads=(
        _head(
            r"(?:(?:private|protected|abstract) )*+(?P<word>class|struct|module|enum|lib|annotation) "
            r"(?P<name>[\w:]++)",
            "indent",
        ),
        _head(
            r"(?:(?:private|protected) )*+(?P<word>def|macro) (?:self\.)?(?P<name>[\w]++[?!=]?|[^\s\w(]++)",
            "indent",
        ),
        _head(r"require ", "line", DULL),
    ),
    hidden=_hidden(r"\#(?!\{)[^\n]*+", _STRING),
    kinds={"def": "function", "lib": "module"},
    last_row=re.compile(rb"end\b"),
)

NIM = PatternLanguage(
    heads=(
        _head(r"(?P<word>proc|func|method|iterator|converter|template|macro) (?P<name>\w++|`[^`\n]++`)", "indent"),
        _head(
            r"(?:type )?(?P<name>[A-Z]\w*+)\*?[^=\n]*+= *(?:ref )?(?:object|enum|tuple|concept)\b",
            "indent",
            "class",
        ),
        _head(r"(?:import|from|include|export)[ \t][^\n]*+|type *$", "line", DULL),
    ),
    hidden=_hidden(r"\#\[[\s\S]*?(?:\]\#|\Z)|\#[^\n]*+", _TRIPLE, _STRING),
    kinds=dict.fromkeys(("proc", "func", "method", "iterator", "converter"), "function") | {"template": "macro"},
    docstring=_comment_below,
)  # fmt: skip

ELM = PatternLanguage(
    heads=(
        _head(r"type (?:alias )?(?P<name>[A-Z]\w*+)", "indent", "type"),
        _head(r"(?P<name>[a-z]\w*+)(?: [^=\n:|]++)? *=(?!=)", "indent", "function", is_indented=False),
        _head(r"(?:port )?[a-z]\w*+ *:[ \t]", "indent", PREFIX, is_indented=False),
        _head(r"(?:(?:port )?module|import)[ \t]", "indent", DULL, is_indented=False),
    ),
    hidden=_hidden(r"--[^\n]*+|\{-[\s\S]*?(?:-\}|\Z)", _TRIPLE, _STRING),
)  # fmt: skip

_VERILOG_WORDS = ("module", "interface", "package", "class", "program", "function", "task")

VERILOG = PatternLanguage(
    heads=(
        _head(r"(?P<word>module|interface|package|class|program) (?:automatic )?(?P<name>\w++)", "words"),
        _head(r"(?:virtual )?(?P<word>function|task)\b[^;(\n]{0,200}?(?P<name>\w++) *(?=[;(])", "words"),
    ),
    hidden=_hidden(_SLASHES, _STRING),
    kinds={"task": "function"},
    closers=_closers(**{word: rf"end{word}\b" for word in _VERILOG_WORDS}),
)  # fmt: skip

F_SHARP = PatternLanguage(
    heads=(
        _head(
            r"let (?:(?:rec|inline|private|internal|mutable) )*+(?P<name>\w++|``[^`\n]++``)"
            r"(?= *[(<]| \w)[^=\n]*+=",
            "indent",
            "function",
        ),
        _head(r"(?:static )?(?:member|override) (?:\w++\.)?(?P<name>\w++)", "indent", "method", "class"),
        _head(r"type (?:(?:private|internal) )?(?P<name>\w++)", "indent", "class"),
        _head(r"module (?:rec )?(?P<name>\w++) *=", "indent", "module"),
        _head(r"(?:open|namespace|module)[ \t][^\n]*+", "line", DULL),
    ),
    hidden=_hidden(r"//[^\n]*+|\(\*(?!\))[\s\S]*?(?:\*\)|\Z)", _TRIPLE, _STRING),
    marker=re.compile(r"^[ \t]*///?[ \t]?(?:</?summary>)?|</summary>[ \t]*$", re.MULTILINE),
)  # fmt: skip

# ---- Languages in which `end` closes everything

_ADA_NAME = r"(?P<name>[\w.]++|\"[^\"\n]++\")"
# After `is`, what is no body: an instance, an expression, something that is elsewhere.
_IS = re.compile(
    rb"\bis\b(?!\s{0,200}+(?:\(|<>|(?:new|abstract|separate|null)\b(?!\s*+\.)|[\w.]++\s{0,200}+;))",
    re.IGNORECASE,
)


def _block_words(**roles: str) -> re.Pattern[bytes]:
    """What matches the words of each role, in any case."""
    words = "|".join(f"(?P<{role}>{pattern})" for role, pattern in roles.items())
    return re.compile(words.encode(), re.MULTILINE | re.IGNORECASE)


def _any_case(pattern: str, body: Body, kind: str = "", within: str = "") -> Head:
    return _head(pattern, body, kind, within, ignores_case=True)


def _remarks(definition: str) -> str:
    """The comment on the lines below a declaration."""
    match = _REMARKS.search(definition)
    return prose(match[0]) if match else ""


_REMARKS = re.compile(r"(?:\n[ \t]*--[^\n]*)+\Z")
_INSIDE = r"(?:[^()]|\([^()]{0,400}\)){0,2000}+"
_ADA_CALL = rf"(?:(?:not )?overriding )?(?:procedure|function) {_ADA_NAME}"

ADA = PatternLanguage(
    heads=(
        _any_case(_ADA_CALL, "block", "function"),
        _any_case(_ADA_CALL, "statement", "function", "package"),
        _any_case(
            rf"{_ADA_CALL}(?=[^;()]{{0,400}}?(?:\({_INSIDE}\)[^;()]{{0,400}}?)?"
            r"\b(?:is\s++(?:\(|null\b|new\b)|renames\b))",
            "statement",
            "function",
        ),
        _any_case(r"entry (?P<name>\w++)", "block", "method"),
        _any_case(r"package body (?P<name>[\w.]++)", "block", "module"),
        _any_case(r"(?:private )?package (?!body\b)(?P<name>[\w.]++)", "block", "package"),
        _any_case(r"package (?P<name>[\w.]++)(?=\s++(?:is\s++new|renames)\b)", "statement", "package"),
        # A unit of a library, which is in no package.
        _any_case(r"(?:procedure|function) (?P<name>\w++(?:\.\w++)++)", "statement", "function"),
        _any_case(r"(?:task|protected)(?: (?:type|body))? (?!(?:type|body)\b)(?P<name>[\w.]++)", "block", "class"),
        _any_case(r"(?:sub)?type (?P<name>\w++)(?=[^;]{1,2000}?\bis\b)", "statement", "type"),
        _any_case(
            r"generic\b(?! (?:package|procedure|function)\b)[^\n]*+"
            r"(?:\n(?!\s{0,4000}+(?:private )?(?:package|procedure|function)\b)[^\n]*+){0,200}+",
            "line",
            PREFIX,
        ),
        _any_case(r"(?:(?:limited|private) )*+(?:with|use|pragma) \w", "statement", DULL),
    ),
    hidden=_hidden("--[^\n]*+", r'"(?:[^"\n]|"")*+"', r"(?<![\w)])'[^\n]'"),
    blocks=BlockWords(
        _block_words(
            inner=r"\bend\s++(?:if|loop|case|select)\b|\bnull\s++record\b",
            pair_end=r"\bend\s++record\b",
            pair=r"\brecord\b",
            close=r"\bend\b(?:\s++(?:return\b|(?P<end_name>[\w.\"]++)))?",
            unit=r"(?<!with )"
            r"\b(?:procedure|function|package(?:\s++body)?|entry|(?:task|protected)(?:\s++(?:type|body))?)\s++(?!body\b|type\b)(?P<unit_name>[\w.\"]++)|\bdeclare\b",
            begin=r"\bbegin\b",
            open=r"\bdo\b",
        ),
        body_mark=_IS,
    ),
    has_remarks_below=True,
    marker=re.compile(r"^[ \t]*--+[ \t]?(?:[\w.\"]+[ \t]*--$)?", re.MULTILINE),
    docstring=_remarks,
)  # fmt: skip

_VHDL_CALL = rf"(?:(?:im)?pure )?(?:procedure|function) {_ADA_NAME}"

VHDL = PatternLanguage(
    heads=(
        _any_case(_VHDL_CALL, "block", "function"),
        _any_case(_VHDL_CALL, "statement", "function", "package"),
        _any_case(r"(?P<word>entity|configuration|context) (?P<name>\w++)", "block"),
        _any_case(r"architecture \w++ of (?P<name>[\w.]++)", "block", "architecture"),
        _any_case(r"package body (?P<name>\w++)", "block", "module"),
        _any_case(r"package (?!body\b)(?P<name>\w++)", "block", "package"),
        _any_case(r"package (?P<name>\w++)(?=\s++is\s++new\b)", "statement", "package"),
        _any_case(r"(?P<name>\w++) *: *(?:postponed )?process\b", "block", "process"),
        _any_case(r"type (?P<name>\w++) is protected(?: body)?\b", "block", "class"),
        _any_case(r"(?:sub)?type (?P<name>\w++) is\b(?! protected)", "statement", "type"),
        _any_case(r"(?:library|use) \w", "statement", DULL),
    ),
    hidden=_hidden(r"--[^\n]*+|/\*[\s\S]*?(?:\*/|\Z)", r'"(?:[^"\n]|"")*+"', r"(?<![\w)])'[^\n]'"),
    blocks=BlockWords(
        _block_words(
            inner=r"\bend\s++(?:if|loop|case|generate|block|component|for)\b",
            pair_end=r"\bend\s++(?:postponed\s++)?(?:record|process|units|protected)\b",
            close=r"\bend\b"
            r"(?:\s++(?:entity|architecture|package(?:\s++body)?|configuration|context|procedure|function)\b)?"
            r"(?:\s++(?P<end_name>[\w\"]++))?",
            pair=r"\b(?:record|process|units|protected)\b",
            unit=r"\b(?:procedure|function|package(?:\s++body)?|entity|architecture|configuration|context)"
            r"\s++(?!body\b|is\b)(?P<unit_name>[\w\"]++)",
        ),
        body_mark=_IS,
    ),
    has_remarks_below=True,
    marker=re.compile(r"^[ \t]*--+[!|]?[ \t]?", re.MULTILINE),
    docstring=_remarks,
)

_OPERATOR = r"[^\w\s(.;]++"
_PASCAL_NAME = r"\w++(?:<[^<>\n]{1,200}>)?"
_PASCAL_QUALIFIED = rf"{_PASCAL_NAME}(?:\.(?:{_PASCAL_NAME}|{_OPERATOR}))"
_PASCAL_CALL = r"(?:generic[ \t]++)?(?:class[ \t]++)?(?:procedure|function|constructor|destructor|operator)[ \t]++"
_PASCAL_CLASS = (
    r"(?:class|object|interface|dispinterface|objcclass|objcprotocol|objccategory|cppclass)"
)
# Not a reference to what follows, and not one that only inherits.
_PASCAL_BODY = r"\b(?![ \t]*+;|[ \t]++of\b|[ \t]*+\([^()]{0,400}\)[ \t]*+;)"

PASCAL = PatternLanguage(
    heads=(
        _any_case(rf"{_PASCAL_CALL}(?P<name>{_PASCAL_QUALIFIED}++)", "block", "method"),
        _any_case(rf"{_PASCAL_CALL}(?P<name>{_PASCAL_NAME}(?!\.)|{_OPERATOR})", "block", "function"),
        _any_case(
            rf"(?:type )?(?:generic )?(?P<name>{_PASCAL_NAME}) *=\s{{0,200}}+"
            rf"(?:(?:bit)?packed )?(?P<word>{_PASCAL_CLASS}|record){_PASCAL_BODY}",
            "statement",
        ),
        _any_case(
            r"(?:type )?(?P<name>[A-Z]\w*+) *=\s{0,200}+"
            r"(?=\(\s{0,200}+[A-Z]\w*+\s{0,200}+(?:,|\)\s{0,200}+;|:?= *[\w$]++\s*+,))",
            "statement",
            "type",
        ),
        _any_case(r"(?:uses|unit|program|library)[ \t\r]*+[\w\n]", "statement", DULL),
        _any_case(r"(?:interface|implementation|initialization|type|const|var|begin|end\.) *\r?$", "line", DULL),
    ),
    hidden=_hidden(r"//[^\n]*+|\{[^}]*+(?:\}|\Z)|\(\*[\s\S]*?(?:\*\)|\Z)", r"'(?:[^'\n]|'')*+'"),
    kinds=dict.fromkeys(_PASCAL_CLASS[3:-1].split("|"), "class")
    | {"interface": "interface", "dispinterface": "interface", "record": "struct"},
    blocks=BlockWords(
        _block_words(
            top=r"^[ \t]*+(?:implementation|initialization|finalization)\b|\bend\s*+\.(?!\w)",
            declarations=r"^[ \t]*+interface\b(?!\s*+[(\[=:;])",
            members=rf"=\s*+(?:(?:bit)?packed\s++)?{_PASCAL_CLASS}{_PASCAL_BODY}|\brecord\b",
            open=r"\b(?:case|try)\b",
            close=r"\bend\b",
            unit=rf"^[ \t]*+{_PASCAL_CALL}(?P<unit_name>{_PASCAL_QUALIFIED}*+|{_OPERATOR})(?!\s*+=)",
            begin=r"\b(?:begin|asm)\b",
            bodiless=r"\b(?:forward\s*+;|(?:weak)?external\b(?!\s*+[:=,.(]))",
        ),
        needs_begin=True,
        never_in={b"case": b"record"},
    ),
    marker=re.compile(
        r"\{\$[^}]*\}|^[ \t]*(?://+|\(\*+|\{+\*?|[-=*{}]{3,}[ \t]*$)[ \t]?|(?:\*\)|\})[ \t]*$",
        re.MULTILINE,
    ),
)  # fmt: skip

# ---- D

_D_COMMENT = (
    r"//[^\n]*+|/\*[\s\S]*?(?:\*/|\Z)|/\+(?:[^/+]++|/(?!\+)|\+(?!/)|/\+[\s\S]*?\+/)*+(?:\+/|\Z)"
)
# A word before a definition that says how it may be used.
_D_ATTRIBUTE = (
    r"(?:(?:@\w++(?:\([^()\n]*+\))?|(?:extern|align|deprecated|package|pragma)[ \t]*+\([^()\n]*+\)"
    r"|(?:else[ \t]++)?(?:version|static[ \t]++if|debug)[ \t]*+\([^()\n]*+\)"
    r"|(?:public|private|protected|package|export|static|final|abstract|override|const|immutable|inout|shared"
    r"|pure|nothrow|ref|auto|extern|deprecated|synchronized|debug|__gshared|scope|return)(?![\w(]))\s{1,200}+)"
)
_D_INSIDE = r"\((?:[^()\n]++|\((?:[^()\n]++|\([^()\n]*+\))*+\))*+\)"
_D_TYPE = (
    rf"(?:(?:const|immutable|inout|shared|typeof){_D_INSIDE}|[\w.!\"]++(?:{_D_INSIDE})?)"
    r"(?:[ \t]*+(?:\[[^\[\]\n]*+\]|\*))*+\s++"
)
_D_STATEMENT = (
    r"(?:return|if|else|while|for|foreach|foreach_reverse|switch|case|version|assert|mixin|alias|import|new|throw|with"
    r"|pragma|debug|do|try|catch|finally|goto|delete|in|out|body|enum|struct|class|union|interface|template)\b"
)
_D_WRAPPER = r"(?:const|immutable|inout|shared|typeof|this)\b"

D = PatternLanguage(
    heads=(
        _head(rf"{_D_ATTRIBUTE}{{0,10}}+(?P<word>class|struct|union|interface|enum) (?P<name>\w++)(?! *[=;])"),
        _head(rf"{_D_ATTRIBUTE}{{0,10}}+(?:mixin )?(?P<word>template) (?P<name>\w++)"),
        _head(rf"{_D_ATTRIBUTE}{{0,10}}+(?P<name>unittest)(?=\s*+\{{)", kind="test"),
        _head(rf"{_D_ATTRIBUTE}{{0,10}}+(?P<name>~?this) *(?=\()", kind="function", needs_body=True),
        _head(
            rf"{_D_ATTRIBUTE}{{1,10}}+(?!{_D_STATEMENT}|{_D_WRAPPER})(?P<name>\w++) *(?=\()",
            kind="function",
            needs_body=True,
        ),
        _head(
            rf"{_D_ATTRIBUTE}{{0,10}}+(?!{_D_STATEMENT}){_D_TYPE}(?P<name>\w++) *(?=\()",
            kind="function",
            needs_body=True,
        ),
        _head(r"(?:module|import|(?:public|static|private|package) import)[ \t][^;]*+;?", "line", DULL),
    ),
    hidden=_hidden(
        _D_COMMENT, r'r?"(?:[^"\\]|\\.)*+"?', r"`[^`]*+`?", r"'(?:[^'\\\n]|\\[^\n]{1,10}?)'"
    ),
    kinds={"template": "template"},
    marker=re.compile(
        r"^[ \t]*(?:/\+\++|\++/|\+(?!\w)|///+)[ \t]?|[ \t]*\++/[ \t]*$|\$\([A-Z_0-9]+ (?=\w)",
        re.MULTILINE,
    ),
)  # fmt: skip

_VALA_MODIFIER = (
    r"(?:public|private|protected|internal|abstract|virtual|override|static|sealed|async|inline|extern|new"
    r"|signal|const|unowned|owned|partial) "
)
_VALA_NO_TYPE = r"(?!(?:return|else|new|throw|yield|case|delete|foreach|using|in|is|as|var)\b)"
VALA = PatternLanguage(
    heads=(
        _head(
            rf"(?:{_VALA_MODIFIER}){{0,6}}+(?P<word>class|interface|struct|enum|errordomain|namespace)"
            r" (?P<name>[\w.]++)"
        ),
        _head(
            rf"(?:{_VALA_MODIFIER}){{0,6}}+{_VALA_NO_TYPE}[\w.]++(?:<[\w.<>,? ]{{1,100}}>)?[\[\]?*,]*+ "
            r"(?P<name>[\w.]++) *(?=\()",
            kind="function",
            needs_body=True,
        ),
        # A constructor, by its class's name and perhaps one of its own; and the blocks of a class.
        _head(
            r"(?:(?:public|private|protected|internal) )(?P<name>[A-Z][\w.]*+) *(?=\()",
            kind="function",
            needs_body=True,
        ),
        _head(r"(?:(?:static|class) )?(?P<name>construct)(?=\s*+\{)", kind="function"),
        _head(r"using[ \t][^;\n]*+;?", "line", DULL),
    ),
    hidden=_hidden(_SLASHES, _TRIPLE, _STRING, _SINGLE),
    kinds={"errordomain": "enum"},
)  # fmt: skip

# ---- Styles and shaders

SASS = PatternLanguage(
    heads=(_head(r"@(?P<word>mixin|function) (?P<name>[\w-]++)"),),
    hidden=_hidden(_SLASHES, _STRING, _SINGLE),
)

WGSL = PatternLanguage(
    heads=(
        _head(r"(?:@\w++(?:\([^()\n]*+\))?\s*+)*+fn (?P<name>\w++)", kind="function"),
        _head(r"(?P<word>struct) (?P<name>\w++)"),
    ),
    hidden=_hidden(_SLASHES),
)

# ---- Assembly

# A label after a blank line or a comment begins a routine or data; others are places in these. What
# is before it on lines of its own makes it visible or aligns it.
_LABEL = (
    r"[ \t]*+\n(?:[ \t]*+(?:global|\.(?:globa?l|type|(?:p2|b)?align|func|hidden|weak|text|section)|align|section)"
    r"\b[^\n]*+\n){0,6}(?P<name>[A-Za-z_$?@][\w$?@]{0,100}+):(?!=)"
)
ASSEMBLY = PatternLanguage(
    heads=(
        _head(_LABEL, "form", "function", is_indented=False),
        _head(r"(?P<name>[\w$?@]+) (?P<word>proc)\b", "words", ignores_case=True),
        _head(r"[.%]i?(?P<word>macro) (?P<name>\w+)", "words", ignores_case=True),
        _head(r"(?P<name>\w+) (?P<word>macro)\b", "words", ignores_case=True),
    ),
    hidden=_hidden(
        rf"(?:;|(?<![^\s])\#[ \t]|(?<![^\s])@[ \t])[^\n]*+|{_SLASHES}", _STRING, _SINGLE
    ),
    kinds={"proc": "function"},
    form_end=re.compile(
        rf"(?<=\S)(?=\s*?\n(?:{_LABEL.replace('?P<name>', '')}|[ \t]*+(?:[.%]i?macro|[\w$?@]+[ \t]+(?:proc|macro))\b)"
        r"|\s*\Z)".encode(),
        re.IGNORECASE,
    ),
    signature_end=re.compile(rb"(?<=:)"),
    marker=re.compile(r"^[ \t]*(?:;+|//+|#|@|/?\*+/?)[ \t]?", re.MULTILINE),
    closers=_closers(proc=r"[\w$?@]+[ \t]+endp\b", macro=r"[.%]?endm(?:acro)?\b"),
)

# By the names that files of these languages have.
PATTERN_LANGUAGES: dict[str, PatternLanguage] = {
    "ada": ADA, "assembly": ASSEMBLY, "awk": AWK, "capnproto": CAPNPROTO, "clojure": CLOJURE, "cmake": CMAKE,
    "commonlisp": COMMON_LISP, "crystal": CRYSTAL, "d": D, "elm": ELM, "emacslisp": COMMON_LISP, "erlang": ERLANG,
    "fennel": FENNEL, "css": SASS, "fish": FISH, "flatbuffers": FLATBUFFERS, "fsharp": F_SHARP, "graphql": GRAPHQL,
    "make": MAKE, "nim": NIM, "pascal": PASCAL, "prisma": PRISMA, "prolog": PROLOG, "protobuf": PROTOBUF, "r": R,
    "racket": SCHEME, "scheme": SCHEME, "tcl": TCL, "thrift": THRIFT, "vala": VALA, "verilog": VERILOG,
    "vhdl": VHDL, "vim": VIM, "wgsl": WGSL,
}  # fmt: skip
