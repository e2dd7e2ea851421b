"""Time to read sources of languages without a grammar in which nothing is closed.

    python -m benchmarks.speed.patterns [--lines 3000]

Prints for each language the line whose repetition takes longest, with the seconds for so many and
for twice as many of them. More than twice the time means that a pattern or a pass is not linear.
"""

from __future__ import annotations

import argparse
import time

from purlin.index.sources.code.pattern_languages import PATTERN_LANGUAGES
from purlin.index.sources.code.patterns import PatternLanguage, pattern_outline

# Heads and brackets that nothing closes.
UNCLOSED = [
    "message A {", "message A", "struct A", "type A", "(defn a ", "function(a)", "function a(", "a(b) ->",
    "a: b", "module a(", "module a", "proc a {", '"', "'", "/*", "{", "(((", "}", " ", "type A = (",
    "a <- function(", "a b c d e f g", "const a b c d", "typedef a b c", "def a", "let a b c", "fn a(",
    "procedure a(b) ", "function a return b is", "procedure a (b) with c => (d) ", "begin", "end a", "record",
    "generic",
    "a = class(", "type a is (", "a : process", "version (a) ", "private ", "auto a(", "/+", "a :- b", "0'", "2'",
    "a. ",
    "# a", "-- a", "; a", "@a(", "(a \"b\" ", "[[[", "\\",
]  # fmt: skip


def seconds(language: PatternLanguage, line: str, lines: int) -> float:
    """Processor time to read a line so many times on lines of their own, then on a single one."""
    source = f"{line}\n".encode() * lines + line.encode() * lines
    started = time.process_time()
    pattern_outline(source, language)
    return time.process_time() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=3000)
    lines = parser.parse_args().lines

    for name, language in PATTERN_LANGUAGES.items():
        slowest = max(UNCLOSED, key=lambda line: seconds(language, line, lines))
        once, twice = (seconds(language, slowest, count) for count in (lines, 2 * lines))
        print(f"{name}: {once:.2f} s, twice as many {twice:.2f} s: {slowest!r}", flush=True)


if __name__ == "__main__":
    main()
