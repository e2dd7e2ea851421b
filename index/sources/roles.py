"""Tell the role that a file plays in a repository, from its path and its first lines."""

from __future__ import annotations

import re

_VENDORED = re.compile(
    r"(^|/)(_?vendor(s|ed)?|third[_-]?party|3rd[_-]?party|bower_components|jspm_packages|godeps|_workspace)/"
    r"|(^|/)dist/.*\.[cm]?jsx?$|[.-](bundle|umd)(\.min)?\.[cm]?js$",
    re.IGNORECASE,
)
_MINIFIED = re.compile(r"[.-]min\.[cm]?js$", re.IGNORECASE)
_GENERATED = re.compile(
    r"_pb2(_grpc)?\.pyi?$|\.pb(\.gw)?\.go$|(^|/)zz_generated[^/]*$|[._](g|gen|generated)\.\w+$|_pb\.(js|ts|rb)$"
)
_TEST = re.compile(
    r"(^|/)(\w*_)?(tests?|specs?|testing|testdata|__tests__|__mocks__|e2e)/"
    r"|(^|/)(test_[^/]*|[^/]*_tests?|tests?|conftest)\.py$|_test\.go$|[._-](test|spec)s?\.[cm]?[jt]sx?$"
    r"|(^|/)(Test[A-Z]\w*|\w*(Tests?|TestCase|IT))\.java$|Test(Case)?\.php$|(^|/)(test_[^/]*|[^/]*_(test|spec))\.rb$"
)
_ROLES = {"vendored": _VENDORED, "minified": _MINIFIED, "generated": _GENERATED}
_GENERATED_HEADER = re.compile(
    rb"^[ \t]*(?:#|//|/\*|\*|<!--|\"\"\").{0,200}?(?:code generated .{0,200}do not edit|@generated\b"
    rb"|auto-?generated (?:by|from|file|code|do not)|(?:is|was) (?:auto-?|automatically )generated"
    rb"|generated .{0,200}do not (?:edit|modify))",
    re.IGNORECASE | re.MULTILINE,
)

# Generated code says so in its first lines. Minified code has very long ones on average.
_HEADER_LINES, _HEADER_BYTES = 20, 4096
_MINIFIED_LINE, _MINIFIED_BYTES = 250, 2048


def role(path: str, content: bytes) -> str:
    """The role of a file, from its relative path and its content.

    One of `source`, `test`, `vendored`, `generated`, `minified`. Where several fit, vendored wins
    over all others and test over none.
    """
    for name, pattern in _ROLES.items():
        if pattern.search(path):
            return name

    return _role_by_content(content) or ("test" if _TEST.search(path) else "source")


def _role_by_content(content: bytes) -> str | None:
    mean_line = len(content) / (content.count(b"\n") + 1)
    if len(content) >= _MINIFIED_BYTES and mean_line > _MINIFIED_LINE:
        return "minified"

    header = b"\n".join(content[:_HEADER_BYTES].split(b"\n")[:_HEADER_LINES])
    return "generated" if _GENERATED_HEADER.search(header) else None
