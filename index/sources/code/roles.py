"""Tell the role that a file plays in a repository, from its path and its first lines."""

from __future__ import annotations

import re
from collections.abc import Mapping

_VENDORED = re.compile(
    # Directories of code of others, and what bundlers write.
    r"(^|/)(_?vendor(s|ed)?|third[_-]?party|3rd[_-]?party|bower_components|jspm_packages|godeps|_workspace)/"
    r"|(^|/)dist/.*\.[cm]?jsx?$|[.-](bundle|umd)(\.min)?\.[cm]?js$",
    re.IGNORECASE,
)
_MINIFIED = re.compile(r"[.-]min\.([cm]?js|css)$", re.IGNORECASE)
# Protocol Buffers, by the suffixes of their languages, deepcopy of Kubernetes, and names that say it.
_GENERATED = re.compile(
    r"_pb2(_grpc)?\.pyi?$|\.pb(\.gw)?\.go$|(^|/)zz_generated[^/]*$|[._](g|gen|generated)\.\w+$|_pb\.(js|ts|rb)$"
)
_TEST = re.compile(
    # Directories.
    r"(^|/)(\w*_)?(tests?|specs?|testing|testdata|bench(es|marks?)?|__tests__|__mocks__|__fixtures__|e2e|cypress|\w+Tests?)/"
    # Files, by the habits of Python, Go and JavaScript, then of the JVM, C#, Swift, Haskell and PHP.
    r"|(^|/)(test_[^/]*|[^/]*_tests?|tests?|conftest)\.py$|_test\.go$|[._-](test|spec)s?\.[cm]?[jt]sx?$"
    r"|(^|/)(Test[A-Z]\w*|\w*(Tests?|TestCase|IT))\.(java|kt|scala|groovy|cs|swift)$|Spec\.(kt|scala|swift|hs)$"
    # Scripts, Rust, Zig, Dart and others; then formats of tests alone; Perl; C and C++.
    r"|Test(Case)?\.php$|(^|/)(test_[^/]*|[^/]*_(tests?|spec)|tests?)\.(rb|lua|ex|exs|rs|zig|sh|hs|dart|gd)$|\.bats$"
    r"|\.t(\.sol)?$|\.(phpt|feature|robot)$|(^|/)x?t/(.*/)?[^/]*\.(pl|pm|sh)$"
    r"|(^|/)(test[_-][^/]*|[^/]*[_-](test|tests|unittest))\.(c|h|cc|cpp|cxx|hpp|hh)$"
)
# Directories of code that shows how other code is used.
_EXAMPLE = re.compile(
    r"(^|/)(examples?|samples?|demos?|docs_src|tutorials?|cookbook|playgrounds?)/", re.IGNORECASE
)
# Types alone, of Python, Ruby and TypeScript.
_STUB = re.compile(r"\.pyi$|\.rbi$|\.d\.[cm]?ts$")
_ROLES = {"vendored": _VENDORED, "minified": _MINIFIED, "generated": _GENERATED}
_LOWER_ROLES = {"test": _TEST, "example": _EXAMPLE, "stub": _STUB}
# Comments by which generators warn that a file is theirs.
_GENERATED_HEADER = re.compile(
    rb"^[ \t]*(?:#|//|/\*|\*|<!--|%|\"\"\").{0,200}?(?:code generated .{0,200}do not edit|@generated\b"
    rb"|auto-?generated (?:by|from|file|code|do not)|(?:is|was) (?:auto-?|automatically )generated"
    rb"|generated .{0,200}do not (?:edit|modify)"
    rb"|(?:generated|made|produced) (?:automatically )?by (?:the |gnu )?(?:autoconf|automake|aclocal|bison|flex"
    rb"|cython|gperf|re2c)\b|generated from \S+ by antlr)",
    re.IGNORECASE | re.MULTILINE,
)
# Generators of C point to the line of their own source; there, it would be the first thing of all.
_LINE_OF_SOURCE = re.compile(rb'#\s*line \d+ "')
# What compilers of JavaScript and TypeScript write: how a module is exported, and at the end its map.
_COMPILED_HEADER = re.compile(
    rb"^Object\.defineProperty\(exports, ?(?:[\"']__esModule[\"']|Symbol\.toStringTag),",
    re.MULTILINE,
)
_SOURCE_MAP = (b"//# sourceMappingURL=", b"/*# sourceMappingURL=")

# Generated code says so in its first lines. Minified code has very long ones on average.
_HEADER_LINES, _HEADER_BYTES = 20, 4096
_MINIFIED_LINE, MINIFIED_BYTES = 250, 2048


def role(path: str, content: bytes) -> str:
    """The role of a file, from its relative path and its content.

    One of `source`, `test`, `example`, `stub`, `vendored`, `generated`, `minified`. Where several
    fit, vendored wins over all others, and what the content tells wins over the last three.
    """
    role_by_path = _role_by_path(path, _ROLES)
    if role_by_path is not None:
        return role_by_path

    # The lines of a notebook are those of its JSON, with whole images in them.
    role_by_content = None if path.endswith(".ipynb") else _role_by_content(content)
    return role_by_content or _role_by_path(path, _LOWER_ROLES) or "source"


def _role_by_path(path: str, patterns: Mapping[str, re.Pattern[str]]) -> str | None:
    return next((name for name, pattern in patterns.items() if pattern.search(path)), None)


def _role_by_content(content: bytes) -> str | None:
    mean_line = len(content) / (content.count(b"\n") + 1)
    if len(content) >= MINIFIED_BYTES and mean_line > _MINIFIED_LINE:
        return "minified"

    header = b"\n".join(content[:_HEADER_BYTES].split(b"\n")[:_HEADER_LINES])
    last_line = content.rstrip().rpartition(b"\n")[2]
    is_generated = (
        _GENERATED_HEADER.search(header) is not None
        or _LINE_OF_SOURCE.match(content.lstrip()) is not None
        or _COMPILED_HEADER.search(header) is not None
        or last_line.startswith(_SOURCE_MAP)
    )
    return "generated" if is_generated else None
