"""What a comment says: its text without markers, words to tools, and rulers."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Set

from purlin.index.sources.code.syntax import synopsis

# A licence begins in one of the first rows of a file.
LICENCE_ROWS = 5
# By its first words in the usual licences, and tags of tools.
LICENCE = re.compile(
    r"\bcopyright:? ?(\(c\)|©|\d{4}|by )|\ball rights reserved\b|\blicen[cs]ed under\b|SPDX-|@licen[cs]e|@fileoverview"
    r"|permission is hereby granted|redistribute it and/or\s+\W{0,9}modify|redistribution and use in source",
    re.IGNORECASE,
)

_LETTERS = re.compile(r"\w")

# Comment lines that speak to a tool rather than to a reader.
_PRAGMA = re.compile(
    r"\s*(go:\w|\+build |nolint|eslint|js[hl]int|tslint|biome-|prettier-|istanbul |c8 |v8 |@ts-|ts-|@flow|globals? \w"
    r"|noinspection|rubocop:|frozen_string_literal|-\*-|(en)?coding[:=]|typed: |phpcs:|phpstan-|@codeCoverageIgnore"
    r"|:nodoc:|:\w+:$|!/|#?(end)?region\b|cspell:|NOSONAR|NOLINT|CHECKSTYLE|@formatter:|clang-format|shellcheck "
    r"|swiftlint:|MARK:|luacheck:|---@|\$(Id|Header|Revision|Date|Author|RCSfile|Source|Locker|\w+BSD)\b[^$]*\$)"
)
# C#'s and Java's markup in comments; what a reference refers to is left.
_MARKUP = re.compile(
    r"""<(?:see|paramref|typeparamref)\s\w+="([^"<>]*)"\s*/>|</?\w+(?:\s\w+="[^"<>]*")*\s*/?>"""
)
# In the first column of fixed-form Fortran; no other comment begins with one of these.
_FIXED_MARKERS = ("C", "c", "*")
_FIXED_MARKER = re.compile(r"^[cC*]", re.MULTILINE)
# Solidity's words before what a comment says, which stand in no other language.
_TAG = re.compile(r"^@(?:notice|dev|title)\s+")
BLOCK_STARTS = ("/*", "=begin", "{-", "--[[", "--[=", "(*", "#=", "<#")
_BLOCK_ENDS = ("*/", "*)", "-}", "=#", "#>")
# Those that begin like others come before them.
_MARKERS = (
    "/**", "/*!", "/*", "*/", "*", "///", "//!", "//", "---", "--[[", "-- |", "--|", "-- ^", "--",
    "##", "#=", "#>", "#", "=#", "=begin", "=end", "{-|", "{-", "-}", "]]", "(**", "(*", "*)", "<#",
    "!>", "!<", "!!", "!", "%{", "%}", "%%", "%",
)  # fmt: skip
_MARKER = re.compile("|".join(map(re.escape, _MARKERS)))


def prose(comment: str) -> str:
    """Return a comment's text, without its markers, pragmas and rulers."""
    if comment.startswith("<#") and (summary := synopsis(comment)) is not None:
        return summary

    if comment.startswith(_FIXED_MARKERS):
        comment = _FIXED_MARKER.sub("!", comment)
    if "<summary>" in comment:
        comment = _MARKUP.sub(r"\1", comment)
    for marker in _BLOCK_ENDS:
        comment = comment.removesuffix(marker)

    lines = (_TAG.sub("", _unmarked(line)) for line in comment.splitlines())
    prose_lines = [
        line for line in lines if not _PRAGMA.match(line) and (not line or _LETTERS.search(line))
    ]

    return inspect.cleandoc("\n".join(prose_lines).rstrip())


def _unmarked(line: str) -> str:
    stripped = line.strip()
    marker = _MARKER.match(stripped)
    return stripped[marker.end() :].removeprefix(" ") if marker else line.rstrip()


def file_summary(
    comments: Iterable[tuple[str, int]], doc_rows: Set[int], prose_of: Callable[[str], str] = prose
) -> tuple[str, int]:
    """Return text and row of the first comment that is neither a licence nor in one of `doc_rows`."""
    for comment, row in comments:
        if row not in doc_rows and not LICENCE.search(comment) and (text := prose_of(comment)):
            return text, row
    return "", 0
