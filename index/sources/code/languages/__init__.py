"""The languages whose definitions a grammar reads: for each, which syntax nodes define something.

To add a language, add a `Language` to the module of its family. Node types are those of its
tree-sitter grammar.
"""

from __future__ import annotations

import copyreg
import re
from dataclasses import replace
from functools import partial
from importlib.util import find_spec

from purlin.index.sources.code.languages.c_family import CPP, OBJECTIVE_C, C, with_semicolons
from purlin.index.sources.code.languages.declarative import HCL, SQL
from purlin.index.sources.code.languages.functional import ELIXIR, HASKELL, OCAML, OCAML_INTERFACE
from purlin.index.sources.code.languages.java_family import C_SHARP, JAVA, KOTLIN, SCALA, SWIFT
from purlin.index.sources.code.languages.javascript import (
    FLOW,
    JAVASCRIPT,
    SVELTE,
    TSX,
    TYPESCRIPT,
    VUE,
)
from purlin.index.sources.code.languages.optional import OPTIONAL_LANGUAGES
from purlin.index.sources.code.languages.scripting import (
    BASH,
    JULIA,
    LUA,
    PERL,
    PHP,
    POWERSHELL,
    PYTHON,
    RUBY,
)
from purlin.index.sources.code.languages.systems import GO, RUST, ZIG
from purlin.index.sources.code.syntax import Language

_LANGUAGES = (
    PYTHON, JAVASCRIPT, TYPESCRIPT, TSX, VUE, SVELTE, GO, JAVA, PHP, RUBY, C, CPP, C_SHARP, KOTLIN, SCALA, SWIFT, RUST,
    ZIG, BASH, LUA, ELIXIR, HASKELL, PERL, JULIA, OCAML_INTERFACE, OCAML, OBJECTIVE_C, POWERSHELL, SQL,
    HCL, *OPTIONAL_LANGUAGES,
)  # fmt: skip
# Without the package of its grammar, which may be one of an extra, a language is read as lines.
LANGUAGES = tuple(language for language in _LANGUAGES if find_spec(language.module))
# How a file may be written that the language of its suffix cannot read.
DIALECTS: dict[Language, Language] = {
    JAVASCRIPT: FLOW,
    C: replace(C, suffixes=(), rewrite=with_semicolons),
    CPP: replace(CPP, suffixes=(), rewrite=with_semicolons),
    VUE: replace(TSX, name=VUE.name, suffixes=(), component=True),
    # The grammar wants a line break or semicolon before the brace that ends a body.
    KOTLIN: replace(
        KOTLIN, suffixes=(), rewrite=partial(re.compile(rb"(?<=[^\s{]) (?=\})").sub, b";")
    ),
}
BY_SUFFIX = {suffix: language for language in LANGUAGES for suffix in language.suffixes}


def language_at(position: int) -> Language:
    """Return one of `LANGUAGES`."""
    return LANGUAGES[position]


# Its functions are no data: another process of the same installation looks a language up.
copyreg.pickle(Language, lambda language: (language_at, (LANGUAGES.index(language),)))
