"""The languages whose definitions a grammar reads: for each, which syntax nodes define something.

To add a language, add a `Language` to the module of its family, and to its `LANGUAGES`. Node types
are those of its tree-sitter grammar.
"""

from __future__ import annotations

import copyreg
import re
from dataclasses import replace
from functools import partial
from importlib.util import find_spec

from purlin.index.sources.code.languages import (
    c_family,
    declarative,
    functional,
    java_family,
    javascript,
    optional,
    scripting,
    systems,
)
from purlin.index.sources.code.languages.c_family import CPP, C, without_lone_macros
from purlin.index.sources.code.languages.java_family import KOTLIN
from purlin.index.sources.code.languages.javascript import FLOW, JAVASCRIPT, TSX, VUE
from purlin.index.sources.code.syntax import Language, Rewrite

_FAMILIES = (
    scripting,
    javascript,
    systems,
    java_family,
    c_family,
    functional,
    declarative,
    optional,
)
# Without the package of its grammar, which may be one of an extra, a language is read as lines.
LANGUAGES: tuple[Language, ...] = tuple(
    language for family in _FAMILIES for language in family.LANGUAGES if find_spec(language.module)
)


def _rewritten(language: Language, rewrite: Rewrite) -> Language:
    """A dialect whose sources are rewritten before the language reads them."""
    own_rewrite = language.rewrite or bytes
    return replace(language, suffixes=(), rewrite=lambda source: own_rewrite(rewrite(source)))


# How a file may be written that the language of its suffix cannot read.
DIALECTS: dict[Language, Language] = {
    JAVASCRIPT: FLOW,
    C: _rewritten(C, without_lone_macros),
    CPP: _rewritten(CPP, without_lone_macros),
    VUE: replace(TSX, name=VUE.name, suffixes=(), component=True),
    # The grammar wants a line break or semicolon before the brace that ends a body.
    KOTLIN: _rewritten(KOTLIN, partial(re.compile(rb"(?<=[^\s{]) (?=\})").sub, b";")),
}
BY_SUFFIX = {suffix: language for language in LANGUAGES for suffix in language.suffixes}


def language_at(position: int) -> Language:
    """Return one of `LANGUAGES`."""
    return LANGUAGES[position]


# Its functions are no data: another process of the same installation looks a language up.
copyreg.pickle(Language, lambda language: (language_at, (LANGUAGES.index(language),)))
