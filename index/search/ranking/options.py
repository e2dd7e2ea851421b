"""Queries about a new option of a command line, and the code that declares options.

"Add a new command line option" has no word of such code in it: it wants the place where the options are
declared or parsed, as the libraries for that have it.
"""

from __future__ import annotations

import re

from purlin.index.records import Document
from purlin.index.search.ranking.roles import is_test

_ON_OPTIONS = re.compile(
    r"(?:(?:how|where) (?:to|do (?:i|we|you)|can (?:i|we)|should (?:i|we)) )?"
    r"(?:add|introduce|define|declare|register|support) (?:an? |another )?(?:new )?(?:boolean |global )?"
    r"(?:(?:command[- ]?line|cli) (?:options?|flags?|switch(?:es)?|arguments?|parameters?)"
    r"|(?:options?|flags?|switch(?:es)?) (?:to|for) [\w.-]{1,100})\b.{0,200}",
    re.IGNORECASE,
)
_DECLARATION = re.compile(
    r"getopt(?:_long)?\s?\(\s?\w|\bgetopts\s+[\"':\w]|\badd_(?:argument|option)\b|\baddOptions?\(|\bQCommandLineOption\b"
    r"|\b(?:Argument|Option|CommandLine)Parser\b|@click\.(?:option|argument)|\btyper\.(?:Option|Argument)"
    r"|\bp?flag\.(?:String|Bool|Int|Duration|Var|Parse)|\.(?:Persistent)?Flags\(\)|\bcli\.\w*Flag\{"
    r"|#\[(?:arg|clap|structopt)\(|\bArg::(?:new|with_name)\(|\.option\(\s{0,40}[\"'`]-|\byargs\b|\bparseArgs\("
    r"|\bGetOptions\(|\bOptParse\b|\bGOptionEntry\b|\bprogram_options\b|\bcxxopts\b|\bpoptGetContext\b"
    r"|\bDEFINE_(?:string|bool|int32|double)\(|@(?:CommandLine\.)?(?:Option|Parameter)\(\s{0,40}names"
    r"|\bon\(\s{0,40}[\"']-\w|\bstr(?:n|case)?cmp\s?\(\s?argv\[|\bargv\[\w+\]\s?==|\bcase [\"']--\w"
)

# How much of what its text lacks such code gets, where all of it would be a name's.
DECLARED = 0.5


def asks_for_options(query: str) -> bool:
    """Return whether a query wants to add an option to a command line."""
    return _ON_OPTIONS.fullmatch(" ".join(query.split()).rstrip("?.! ")) is not None


def declares_options(document: Document) -> bool:
    """Return whether a document, other than a test, declares or parses options of a command line."""
    return not is_test(document) and _DECLARATION.search(document.body) is not None
