"""Read a repository: a document per function, method and class of each known language, windows of
the lines outside of them, and of other text."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import tree_sitter as ts

from purlin.index import versions
from purlin.index.errors import InvalidInput
from purlin.index.records import (
    Content,
    Document,
    Location,
    Secondary,
    Skipped,
    SourceFile,
    Span,
    Stamp,
    Value,
)
from purlin.index.sources.code import sections
from purlin.index.sources.code.around import with_lines_around
from purlin.index.sources.code.contents import (
    HEAD_BYTES,
    HIDDEN_DIRS,
    MAX_CONFIG_BYTES,
    MAX_JSON_BYTES,
    MAY_HOLD_SECRETS,
    FileType,
    LeftOut,
    file_type,
    has_key,
    has_suffix,
    is_translations,
    refined_type,
    type_by_content,
    type_by_directory,
)
from purlin.index.sources.code.definitions import outline
from purlin.index.sources.code.languages import DIALECTS
from purlin.index.sources.code.languages.javascript import scripts_only
from purlin.index.sources.code.outlines import LEAVES, Definition, Outline
from purlin.index.sources.code.roles import MINIFIED_BYTES, role
from purlin.index.sources.code.syntax import PARSE_SECONDS, Language, parse, unread_bytes
from purlin.index.sources.encodings import decoded, readable_part
from purlin.index.sources.files import FileContent, file_stamp, read_bounded, walk

MAX_SIGNATURE_LINE = 300  # characters
_PARTLY_READ = (
    "read without what is not UTF-8, in an encoding that cannot be told; save it as UTF-8"
)
_UNKNOWN = "neither its name nor its first lines tell what it holds"

# A document of what is outside of definitions ends before a longer one, so that its lines are few.
MAX_GAP_ROWS = 20
# A docstring of a file is worth a document of its own, even if only imports follow.
MIN_FILE_SUMMARY = 40
# Stems that name a file's part in its directory rather than what is in it.
_INDEX_STEMS = frozenset({"__init__", "index", "mod", "main", "lib", "init"})
# A row that says nothing: only punctuation, or the end of something. Longer rows say something.
MAX_DULL_ROW = 200
_DULL_ROW = re.compile(
    # Ends of blocks and beginnings of include guards.
    rb"[\W_]*(?:end|pass|else|fi|done|begin|endif|ifdef \w+|ifndef \w+|define \w+_H_*)?[\W_]*"
    # Conditions of the preprocessor.
    rb"|#[ \t]*(?:(?:el)?if|else|endif)\b.*"
    # In C++, `= default` and `= delete`, and classes that are only declared.
    rb"|[^()=]*\([^()]*\)[^()=]*=[ \t]*(?:default|delete);[ \t]*|(?:class|struct|union) \w+;[ \t]*"
)


def files(
    root: Path,
    *,
    secondary: Secondary = "demote",
    content: Content = "code",
    digests: Mapping[str, tuple[Stamp, str]] | None = None,
) -> Iterator[SourceFile | Skipped]:
    """Yield the files below a directory (or `root` itself, if it is a file), sorted.

    What cannot be read is a `Skipped`. `content` chooses code, documentation, configuration or all.
    `secondary="leave-out"` skips all but source files: tests, benchmarks, examples, stubs,
    vendored, generated and minified files, and tests inside of source files; otherwise their
    documents have that role in `fields["role"]`.

    `digests` has stamps and digests of an earlier listing by path: a file that still has its stamp
    is not opened, if that listing was made by the same version with the same options.
    """
    digests = digests or {}
    if not root.is_dir():
        yield _single_file(root, secondary, digests)
        return

    for name in walk(root, _hidden(content)):
        if isinstance(name, Skipped):
            yield name
            continue

        kind = _type_of(root, name)
        if isinstance(kind, LeftOut):
            if content != "code" and kind.reason:
                yield Skipped(name, kind.reason, by_choice=True)
        elif kind is not None and content in (kind.content, "all"):
            yield _File(f"{root}/{name}", name, kind, secondary).listed(digests.get(name))


def names(root: Path, content: Content = "code") -> Iterator[str]:
    """Names of the files that `files` would list, of any role.

    Of these, only files without a suffix are opened, for their first lines.
    """
    for name in walk(root, _hidden(content)):
        if isinstance(name, str):
            kind = _type_of(root, name)
            if isinstance(kind, FileType) and content in (kind.content, "all"):
                yield name


def _hidden(content: Content) -> frozenset[str]:
    return frozenset() if content == "code" else HIDDEN_DIRS


def _type_of(root: Path, name: str) -> FileType | LeftOut | None:
    """What a file holds, from its name or, where it has no suffix, its first lines."""
    kind = file_type(name)
    if kind is not None:
        return kind
    if name.rpartition("/")[2].startswith("."):
        return None

    otherwise = type_by_directory(name) or LeftOut(_UNKNOWN)
    if has_suffix(name):
        return otherwise

    head = read_bounded(f"{root}/{name}", name, HEAD_BYTES, cut=True)
    if not isinstance(head, FileContent):
        return None
    return type_by_content(head.data) or otherwise


def _single_file(
    path: Path, secondary: Secondary, digests: Mapping[str, tuple[Stamp, str]]
) -> SourceFile | Skipped:
    kind = _type_of(path.parent, path.name)
    if isinstance(kind, LeftOut) and kind.reason != _UNKNOWN:
        return Skipped(path.name, kind.reason or "not text")

    # Somebody named it, so that it is text.
    if not isinstance(kind, FileType):
        kind = FileType("docs", "text")
    return _File(str(path), path.name, kind, secondary).listed(digests.get(path.name))


@dataclass(frozen=True, slots=True)
class _File:
    """A file that is read: its path, and its name in the repository."""

    path: str
    name: str
    kind: FileType
    secondary: Secondary

    @property
    def _tag(self) -> str:
        """What digests begin with: all that documents depend on besides name and content."""
        leaves_out = self.secondary == "leave-out"
        # A grammar may be installed later.
        grammar = f" {self.kind.grammar.name}" if self.kind.grammar else ""
        return f"code {versions.CODE}{' source-only' * leaves_out}{grammar}:"

    def _digest(self, content: bytes) -> str:
        return self._tag + hashlib.sha256(f"{self.name}\0".encode() + content).hexdigest()

    def listed(self, earlier: tuple[Stamp, str] | None) -> SourceFile | Skipped:
        """The file with its digest, which is the `earlier` one while it has the stamp beside that."""
        if earlier is not None and earlier[1].startswith(self._tag):
            stamp, digest = earlier
            if file_stamp(self.path) == stamp:
                return SourceFile(self.name, digest, partial(self._read, digest), stamp)

        content = _content(self.path, self.name, self.kind)
        if isinstance(content, Skipped):
            return content

        if self.secondary == "leave-out":
            file_role = role(self.name, content.data)
            if file_role != "source":
                return Skipped(self.name, f"left out as {file_role} code", by_choice=True)

        digest = self._digest(content.data)
        return SourceFile(self.name, digest, partial(self._read, digest), content.stamp)

    def _read(self, digest: str) -> Iterator[Document | Skipped]:
        # Read again rather than kept: a build lists all files before it parses the first.
        content = _content(self.path, self.name, self.kind)
        if isinstance(content, Skipped):
            yield replace(content, passing=True)
        elif self._digest(content.data) != digest:
            reason = "changed while it was being read; build again to include it"
            yield Skipped(self.name, reason, passing=True)
        else:
            if content.unreadable_line is not None:
                yield Skipped(self.name, _PARTLY_READ, content.unreadable_line)
            yield from _documents(content.data, self.name, self.kind, self.secondary)


@dataclass(frozen=True, slots=True)
class _Text:
    """A file's text in UTF-8, and its first line with bytes in an encoding that cannot be told."""

    data: bytes
    stamp: Stamp | None
    unreadable_line: int | None = None


def _content(path: str, name: str, kind: FileType) -> _Text | Skipped:
    content = read_bounded(path, name)
    if isinstance(content, Skipped):
        return content
    text = decoded(content.data)
    if b"\0" in content.data and (text is None or "\0" in text):
        return Skipped(name, "binary: it holds a zero byte")

    if has_key(kind, content.data):
        return Skipped(name, MAY_HOLD_SECRETS.reason, by_choice=True)
    if is_translations(kind, content.data):
        return Skipped(name, "translations rather than TypeScript", by_choice=True)

    limit = MAX_JSON_BYTES if kind.language == "json" else MAX_CONFIG_BYTES
    if kind.content == "config" and len(content.data) > limit:
        reason = f"data rather than configuration: larger than {limit >> 10} KiB"
        return Skipped(name, reason, by_choice=True)

    if text is not None:
        return _Text(text.encode(), content.stamp)
    line = content.data.count(b"\n", 0, _first_invalid(content.data)) + 1
    # Code without some of its comments is better than none.
    part = readable_part(content.data) if kind.content == "code" else None
    if part is None:
        return Skipped(name, "not UTF-8, and its encoding cannot be told; save it as UTF-8", line)
    return _Text(part.encode(), content.stamp, line)


def _first_invalid(content: bytes) -> int:
    """The position of the first byte that is not UTF-8."""
    try:
        content.decode()
    except UnicodeDecodeError as error:
        return error.start
    return 0


# ---- documents


def _documents(
    source: bytes, path: str, kind: FileType, secondary: Secondary
) -> Iterator[Document | Skipped]:
    """The documents of one file, with ids that are unique in it."""
    kind = refined_type(kind, source)
    fields = {
        "language": kind.language,
        "path": path,
        "role": role(path, source),
        "content": kind.content,
    }
    title_counts: Counter[str] = Counter()
    items = list(_all_documents(source, path, kind, fields))
    yield from (item for item in items if isinstance(item, Skipped))
    documents = [item for item in items if isinstance(item, Document)]

    for document in with_lines_around(documents, source.decode()):
        if secondary == "leave-out" and document.fields["role"] != "source":
            continue

        # Overloads and redefinitions share a title; their ids must not.
        title_counts[document.id] += 1
        if title_counts[document.id] > 1:
            document = replace(document, id=f"{document.id}~{title_counts[document.id]}")
        yield document


def _all_documents(
    source: bytes, path: str, kind: FileType, fields: Mapping[str, Value]
) -> Iterator[Document | Skipped]:
    if kind.language == "notebook":
        yield from _notebook_documents(source.decode(), path, fields)
        return
    if kind.content == "docs":
        yield from sections.section_documents(source.decode(), path, kind.language, fields)
        return
    if kind.grammar is None:
        contents = _outline_by_patterns(source, kind.language)
        if contents is not None and contents.definitions:
            yield from _outlined_documents(contents, source, path, fields)
        else:
            yield from sections.text_documents(source.decode(), path, fields)
        return

    tree, grammar = _parsed(source, kind.grammar)
    if tree is None:
        yield Skipped(path, f"takes more than {PARSE_SECONDS:g} s to parse", passing=True)
        yield from sections.text_documents(source.decode(), path, fields)
        return

    contents = outline(tree.root_node, source, grammar)
    yield from _outlined_documents(contents, source, path, fields)


def _notebook_documents(
    content: str, path: str, fields: Mapping[str, Value]
) -> Iterator[Document | Skipped]:
    """The sections of a notebook, then what its cells define.

    The titles of these begin with the cell and the line in it.
    """
    try:
        notebook = sections.read_notebook(content)
    except InvalidInput as error:
        yield Skipped(path, error.message)
        return

    yield from sections.section_documents(notebook.text, path, "notebook", fields)
    kind = file_type(f"cell{notebook.suffix}")
    if not isinstance(kind, FileType) or kind.content != "code":
        return

    code_fields = {**fields, "language": kind.language, "content": kind.content}
    for cell in notebook.code:
        for document in _all_documents(cell.code.encode(), path, kind, code_fields):
            if isinstance(document, Skipped) or document.fields["kind"] in ("module", "text"):
                continue
            yield replace(
                document,
                id=f"{path}::cell {cell.number}.{document.title}",
                title=f"cell {cell.number} line {document.location.start_line}.{document.title}",
                summary=document.summary or cell.prose,
                # As of its sections: lines of the file would be those of its JSON.
                location=Location(path),
            )


def _outline_by_patterns(source: bytes, language: str) -> Outline | None:
    # Most searches find no such file, and compiling the patterns takes as long as a small search.
    from purlin.index.sources.code.pattern_languages import PATTERN_LANGUAGES
    from purlin.index.sources.code.patterns import pattern_outline

    patterns = PATTERN_LANGUAGES.get(language)
    return None if patterns is None else pattern_outline(source, patterns)


def _outlined_documents(
    contents: Outline, source: bytes, path: str, fields: Mapping[str, Value]
) -> Iterator[Document]:
    """The definitions of a file, and what is outside of them; windows of lines of a minified bundle."""
    lines = source.split(b"\n")
    # Definitions that share a line can neither be read one by one nor told apart by their names.
    if len(source) >= MINIFIED_BYTES and len(contents.definitions) > len(lines):
        yield from sections.text_documents(source.decode(), path, fields)
        return
    covered: set[int] = set()

    for definition in contents.definitions:
        body = definition.text(source)
        if definition.kind not in LEAVES:
            body = _without_members(definition, lines)
        if definition.is_wrapper and not _says_more(definition, lines, contents):
            contents.quiet_rows.update((*definition.rows, definition.signature_row))
            continue

        covered.update(range(definition.doc_row, definition.rows[1] + 1))
        yield _document(definition, source, path, body.decode(), fields)

    yield from _module_documents(contents, lines, covered, path, fields)


def _parsed(source: bytes, language: Language) -> tuple[ts.Tree | None, Language]:
    """The syntax tree, and the language or the dialect of it that reads more of the source."""
    content = scripts_only(source) if language.component else source
    tree, dialect = parse(content, language), DIALECTS.get(language)
    if tree is None or dialect is None or not tree.root_node.has_error:
        return tree, language

    dialect_tree = parse(content, dialect)
    if dialect_tree is None or unread_bytes(dialect_tree) >= unread_bytes(tree):
        return tree, language
    return dialect_tree, dialect


def _document(
    definition: Definition, source: bytes, path: str, body: str, fields: Mapping[str, Value]
) -> Document:
    title = ".".join(definition.names)
    first_line = definition.rows[0] + 1
    head = source[definition.start : definition.signature[0]].decode()
    signature = source[slice(*definition.signature)].decode()
    atom = Span(len(head), len(head) + len(signature))
    if definition.is_test and fields["role"] == "source":
        fields = {**fields, "role": "test"}

    return Document(
        id=f"{path}::{title}",
        kind="code",
        title=title,
        body=body,
        summary=definition.summary,
        context=(*definition.names[:-1], *filter(None, [definition.role])),
        location=Location(path, first_line, first_line + definition.text(source).count(b"\n")),
        fields=sections.fields_of(
            fields, definition.names[-1], definition.kind, _one_line(signature)
        ),
        atoms=(atom,) if atom.end <= len(body) else (),
    )


def _one_line(signature: str) -> str:
    line = " ".join(signature[: 10 * MAX_SIGNATURE_LINE].split())
    return line.removesuffix("=>").removesuffix(":").removesuffix("=").rstrip()[:MAX_SIGNATURE_LINE]


def _without_members(definition: Definition, lines: list[bytes]) -> bytes:
    """The lines of a class without the bodies and doc comments of the definitions inside it.

    Blank lines that follow a body are left out with it.
    """
    (first_row, last_row), (first_column, last_column) = definition.rows, definition.columns
    cut_rows: set[int] = set()

    for member in definition.members:
        cut_rows.update(range(member.doc_row, member.rows[1] + 1))

    # Afterwards, since on one line a member may begin where the one before it ends.
    for member in definition.members:
        cut_rows.difference_update(range(member.head_row, member.signature_row + 1))

    kept = []
    for row in range(first_row, last_row + 1):
        if row - 1 in cut_rows and not lines[row].strip():
            cut_rows.add(row)
        if row not in cut_rows:
            line = lines[row][:last_column] if row == last_row else lines[row]
            kept.append(line[first_column:] if row == first_row else line)

    return b"\n".join(kept).rstrip()


def _says_more(definition: Definition, lines: list[bytes], contents: Outline) -> bool:
    """Whether a definition says something after its signature and outside of its members."""
    inside = {
        row for member in definition.members for row in range(member.doc_row, member.rows[1] + 1)
    }
    rows = range(definition.signature_row + 1, definition.rows[1] + 1)
    return any(row not in inside and _tells(row, lines, contents) for row in rows)


def _tells(row: int, lines: list[bytes], contents: Outline) -> bool:
    is_dull = row in contents.dull_rows or row in contents.quiet_rows
    if is_dull or not lines[row].strip():
        return False
    return len(lines[row]) > MAX_DULL_ROW or not _DULL_ROW.fullmatch(lines[row])


def _module_documents(
    contents: Outline, lines: list[bytes], covered: set[int], path: str, fields: Mapping[str, Value]
) -> Iterator[Document]:
    """Windows of the rows that are in no other document, if any of them says something.

    Imports are left out: they have the words of what is defined elsewhere (repository search, static
    vectors with BM25: nDCG@10 0.797 with them, 0.803 without; 0.787 with no such document). Only a
    file that has nothing else keeps them (0.903 without, 0.909 with, by the ranking model).
    """
    rows = _module_rows(contents, lines, covered)
    text_lines = [line.decode() for line in lines]
    title = module_name(path)
    summary = contents.summary
    # More than `MAX_GAP_ROWS` others lie between two runs.
    for run in _groups(rows, lambda before, row: row - before > MAX_GAP_ROWS + 1):
        for document in sections.window_documents(text_lines, run, title, "module", fields):
            yield replace(document, summary=summary)
            summary = ""


def _module_rows(contents: Outline, lines: list[bytes], covered: set[int]) -> list[int]:
    """Rows of a file's module documents; none if they would say nothing."""
    rows = [
        row for row in range(len(lines)) if row not in covered and row not in contents.dull_rows
    ]
    tells = any(_tells(row, lines, contents) for row in rows)
    if tells or len(contents.summary) >= MIN_FILE_SUMMARY:
        # A block ends with a blank row or before a gap.
        blocks = _groups(rows, lambda before, row: row != before + 1 or not lines[before].strip())
        return [row for block in blocks if _is_kept(block, lines, contents) for row in block]

    # A file that only imports is found by its path, if nothing else in it can be.
    has_text = any(line.strip() for line in lines)
    return list(range(len(lines))) if has_text and not covered else []


def _groups(rows: list[int], is_parted: Callable[[int, int], bool]) -> Iterator[list[int]]:
    """Rows in groups: the next one begins where a row is parted from the one before it."""
    start = 0
    for position in range(1, len(rows) + 1):
        if position == len(rows) or is_parted(rows[position - 1], rows[position]):
            yield rows[start:position]
            start = position


def _is_kept(block: list[int], lines: list[bytes], contents: Outline) -> bool:
    """Whether a block is more than brackets, licence or remarks on what follows elsewhere."""
    if contents.summary and block[0] <= contents.summary_row <= block[-1]:
        return True
    return any(_tells(row, lines, contents) for row in block)


def module_name(path: str) -> str:
    """The stem of a file, after the name of its directory where the stem says little."""
    directory, _, name = path.rpartition("/")
    stem = name.partition(".")[0] or name
    parent = directory.rpartition("/")[2]
    return f"{parent}.{stem}" if stem in _INDEX_STEMS and parent else stem
