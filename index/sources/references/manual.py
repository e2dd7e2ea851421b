"""Read reference documentation as one document per definition and per section of prose.

Pages are HTML of any generator (Sphinx, DocBook, Javadoc, those in `generators`, plain pages),
Markdown, reStructuredText, AsciiDoc, the source of manual pages, compressed or not, OpenAPI, AsyncAPI
and JSON Schema in JSON or YAML, GraphQL schemas or Protocol Buffers. Without any, there is the help of
the running Python. All but HTML is turned into HTML first, so that one reader serves all.
"""

from __future__ import annotations

import codecs
import re
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from purlin.index import versions
from purlin.index.errors import InvalidInput, NotFound
from purlin.index.records import Document, Location, Skipped, SourceFile, Value
from purlin.index.sources.encodings import ESCAPED_JAPANESE, decoded, is_escaped, text_codec
from purlin.index.sources.files import files_below, read_bounded
from purlin.index.sources.references import (
    asciidoc,
    docstrings,
    graphql,
    help_text,
    includes,
    manual_pages,
    markdown,
    protobuf,
    rst,
    schemas,
    topics,
)
from purlin.index.sources.references.html.reader import ends_early, read_page
from purlin.index.sources.references.page_sections import Block, Page, Section
from purlin.index.sources.words import words

Unit = Literal["definition", "segment", "page"]

MAX_PAGE_BYTES = 64 << 20
MAX_MARKUP_BYTES = 4 << 20
MAX_ANCHORED_CHARS = 1 << 20
PLAIN_TEXT = "plain text beside files of other kinds; build a corpus of it alone to read it"
PAGE_FORMATS = {
    ".html": "html",
    ".htm": "html",
    ".md": "markdown",
    ".markdown": "markdown",
    ".mdx": "markdown",
    ".adoc": "asciidoc",
    ".asciidoc": "asciidoc",
    ".rst": "rst",
    ".txt": "rst",
    ".json": "schema",
    ".yaml": "yaml",
    ".yml": "yaml",
    ".graphql": "graphql",
    ".graphqls": "graphql",
    ".gql": "graphql",
    ".proto": "protobuf",
}

# `git.1`, `perlre.1perl.gz`; not `libz.so.1` or `server.log.1`.
_MANUAL_PAGE = re.compile(r"(?!.*\.(?:so|log)\.).+\.[1-9][a-z]{0,8}(?:\.gz)?", re.DOTALL)
# Of Sphinx, Doxygen (its listings of source and members), Javadoc, Haddock, rustdoc (listings of
# source), Nim and pydoctor.
_INDEX_PAGE = re.compile(
    r"(genindex(-.*)?|search|searchindex|py-modindex|np-modindex|contents"
    r"|.*_8[a-z]+_source|(class|struct|union)\w+-members|doc-index(-.*)?|index-all|package-tree"
    r"|overview-tree|.*\.rs|theindex|all-documents|undoccedSummary|(class|module|name)Index)\.html?"
)
# `openapi.yaml`, `petstore.swagger.json`, `settings.schema.json`; a directory may have any other data.
_SCHEMA = re.compile(
    r"(?:.*[._-])?(?:openapi|asyncapi|swagger|schema)(?:[._-].*)?\.(?:json|ya?ml)", re.IGNORECASE
)
_BUILD_FOLDERS = words(
    "_modules _sources _static _images _downloads class-use index-files node_modules __pycache__"
)
_CHARSET = re.compile(
    rb"""<meta[^>]{0,200}?charset\s{0,9}=\s{0,9}["']?([\w.:-]{1,40})""", re.IGNORECASE
)


def files(
    root: Path, *, unit: Unit = "definition", base_url: str = ""
) -> Iterator[SourceFile | Skipped]:
    """Yield the pages below a directory, sorted by path, or the one page that `root` is.

    A document's URL is the page's canonical one (`rel="canonical"`), else its path below
    `base_url`, the web address of `root`; without a `base_url` it is a path. Plain `.txt` counts as
    reStructuredText, or as a program's help, if the directory also has `.rst` or nothing else.
    Pages over 64 MiB (markup: 4 MiB) are skipped. Manual pages are files such as `git.1` and `git.1.gz`.
    Pages that only lead to another one have no documents, nor have other files with such names.
    AsciiDoc is read with the files below the directory that it includes. One that another page
    includes and that has no title is no page of its own.

    `unit` is what becomes a document. "definition": a definition or a section of prose, by its
    qualified name and with the enclosing terms. "segment": the same text, titled as its page; names
    that its own text does not have are withheld. "page": all the text of a page in reading order.

    Raises NotFound if `root` does not exist, InvalidInput if it is a file of another kind.
    """
    directory = root if root.is_dir() else root.parent
    pages = list(_pages(root))
    paths = [page[0] for page in pages if not isinstance(page, Skipped)]
    digests, fragments = _with_includes(paths, directory)
    for page in pages:
        if isinstance(page, Skipped):
            yield page
            continue

        path, name = page
        if path.resolve() in fragments:
            continue
        address = f"{base_url.rstrip('/')}/{quote(name)}" if base_url else name
        yield _File(path, name, directory, address, unit).listed(base_url, digests.get(path, b""))


def python_help() -> Iterator[SourceFile]:
    """Yield Python's `help()`: its topics, a source for each page of the manual, and docstrings."""
    for page in topics.TITLES:
        content = topics.page_text(page)
        if content:
            digest = blake2b(
                f"{versions.MANUALS}:{sys.version}:{page}\0{content}".encode(), digest_size=16
            ).hexdigest()
            yield SourceFile(f"{page}.html", digest, partial(_read_topics, page))

    yield from docstrings.files()


def _read_topics(page: str) -> Iterator[Document]:
    return documents(
        read_page(topics.html(page)), f"{page}.html", f"{docstrings.MANUAL}/{page}.html"
    )


def _pages(root: Path) -> Iterator[tuple[Path, str] | Skipped]:
    """Each page's path, and its name relative to the root; the skipped ones come first."""
    if not root.exists():
        raise NotFound(f"There is no file or directory {root}; check the path.", field="path")

    if root.is_file():
        if _format(root.name) is None:
            raise InvalidInput(
                f"{root.name} is no reference page: it must end in {', '.join(PAGE_FORMATS)}, or as"
                " a manual page does (.1 to .9, also with .gz).",
                field="path",
            )
        yield root, root.name
        return

    pages = list(_walk(root))
    yield from (page for page in pages if isinstance(page, Skipped))

    paths = [page for page in pages if isinstance(page, Path)]
    paths.sort(key=lambda path: path.relative_to(root).as_posix())

    reads_text = _reads_text(root, {path.suffix.lower() for path in paths})
    for path in paths:
        name = path.relative_to(root).as_posix()
        if reads_text or path.suffix.lower() != ".txt":
            yield path, name
        else:
            yield Skipped(name, PLAIN_TEXT, by_choice=True)


def _reads_text(root: Path, suffixes: set[str]) -> bool:
    """Whether a .txt is a page, by the suffixes of all: beside .rst, or where nothing else is.

    Elsewhere it may be anything, such as the `requirements.txt` of a project without pages.
    """
    others = files_below(root, _is_other, _is_entered)
    return ".rst" in suffixes or (suffixes == {".txt"} and next(others, None) is None)


def _is_other(name: str) -> bool:
    return not name.startswith(".") and not name.lower().endswith(".txt")


def _with_includes(paths: Sequence[Path], directory: Path) -> tuple[dict[Path, bytes], set[Path]]:
    """Digests of AsciiDoc pages with what they include, and the untitled files that others include."""
    digests: dict[Path, bytes] = {}
    included: set[Path] = set()
    untitled: set[Path] = set()

    for path in paths:
        if _format(path.name) != "asciidoc":
            continue

        text = page_text(path, MAX_MARKUP_BYTES)
        if text is not None:
            page_with_includes = includes.Expanded(text, path, directory)
            digests[path] = blake2b(page_with_includes.text.encode(), digest_size=16).digest()
            included |= page_with_includes.files
            untitled |= {path.resolve()} if includes.is_fragment(text) else set()

    return digests, included & untitled


def names(root: Path) -> Iterator[str]:
    """Names of the pages below a directory; none of them is opened."""
    texts, suffixes = [], set()
    for path in _walk(root):
        if isinstance(path, Skipped):
            continue
        suffixes.add(path.suffix.lower())
        if path.suffix.lower() == ".txt":
            texts.append(path)
        else:
            yield path.relative_to(root).as_posix()

    if _reads_text(root, suffixes):
        yield from (path.relative_to(root).as_posix() for path in texts)


def _walk(root: Path) -> Iterator[Path | Skipped]:
    resolved_root = root.resolve()

    for file in files_below(root, _is_page, _is_entered):
        # A link out of the directory may lead anywhere on the machine; one between manual pages is
        # a second name of a page.
        if (
            isinstance(file, Skipped)
            or not file.is_symlink()
            or (_format(file.name) != "manual" and file.resolve().is_relative_to(resolved_root))
        ):
            yield file


def _is_page(name: str) -> bool:
    page_format = _format(name)
    if page_format in ("schema", "yaml"):
        return _SCHEMA.fullmatch(name) is not None
    return page_format is not None and not _INDEX_PAGE.fullmatch(name)


def _format(name: str) -> str | None:
    """The format of a page, by its file's name; None if it is no page."""
    page_format = PAGE_FORMATS.get(Path(name).suffix.lower())
    return page_format or ("manual" if _MANUAL_PAGE.fullmatch(name) else None)


def _is_entered(name: str) -> bool:
    return name not in _BUILD_FOLDERS and not name.startswith(".")


def _content(path: Path, name: str, limit: int) -> bytes | Skipped:
    # One byte over the limit tells that a page is too long.
    file = read_bounded(path, name, limit + 1, cut=True)
    if isinstance(file, Skipped):
        return file

    content = file.data
    if name.endswith(".gz") and len(content) <= limit:
        unpacker = zlib.decompressobj(wbits=31)
        try:
            # No more than one byte over the limit is unpacked, whatever the file holds.
            content = unpacker.decompress(content, limit + 1)
        except zlib.error as error:
            return Skipped(name, f"not a gzip file: {error}")
        if not unpacker.eof and len(content) <= limit:
            return Skipped(name, "a gzip file without its end; compress it again")

    if len(content) > limit:
        return Skipped(name, f"larger than the limit of {limit:,} bytes for a page; split it")

    return content


@dataclass(frozen=True, slots=True)
class _File:
    """A page below a directory: its path, its name there, its address, and what becomes a document."""

    path: Path
    name: str
    directory: Path
    address: str
    unit: Unit

    @property
    def _format(self) -> str:
        return _format(self.path.name) or "html"

    def _content(self) -> bytes | Skipped:
        limit = MAX_PAGE_BYTES if self._format == "html" else MAX_MARKUP_BYTES
        return _content(self.path, self.name, limit)

    def listed(self, base_url: str, included: bytes) -> SourceFile | Skipped:
        """The file with its digest, to which that of what it includes belongs."""
        content = self._content()
        if isinstance(content, Skipped):
            return content

        facts = f"{versions.MANUALS}:{self.unit}:{base_url}:{self.name}\0".encode()
        # A file that is included may change, appear or go.
        digest = blake2b(facts + content + included, digest_size=16).hexdigest()
        return SourceFile(self.name, digest, self.read)

    def read(self) -> Iterator[Document | Skipped]:
        """Yield the documents of the page."""
        content = self._content()
        if isinstance(content, Skipped):
            # It could be read when the files were listed, so it may be readable again.
            yield replace(content, passing=True)
            return

        text = _decode(content, self.name)
        if isinstance(text, Skipped):
            yield text
            return

        page_format = self._format
        if page_format == "asciidoc":
            page_with_includes = includes.Expanded(text, self.path, self.directory)
            text = page_with_includes.text
            if remark := page_with_includes.remark(self.name):
                yield remark
        if page_format == "html" and ends_early(text):
            yield Skipped(self.name, _CUT_OFF, text.count("\n") + 1)
        if self.path.suffix.lower() == ".txt" and help_text.is_help(text):
            page_format = "help"

        try:
            html = _TO_HTML[page_format](text)
        except InvalidInput as error:
            yield Skipped(self.name, error.message)
            return

        page = read_page(html, whole=self.unit == "page")
        manual_pages.name_command(page, page_format)
        if self.unit == "segment":
            page.sections = [withheld(section, page.title) for section in page.sections]
        yield from documents(page, self.name, self.address)


def page_text(path: Path, max_bytes: int = MAX_PAGE_BYTES) -> str | None:
    """Return the text of a page as its documents are made of it; None if it cannot be read.

    A page over the limit cannot, nor can one that unpacked is over it.
    """
    content = _content(path, path.name, max_bytes)
    text = content if isinstance(content, Skipped) else _decode(content, path.name)
    return None if isinstance(text, Skipped) else text


def anchor_line(name: str, text: str, anchor: str) -> int | None:
    """Return the line of what has an anchor in a page, by the name of its file and its text.

    Of pages over `MAX_ANCHORED_CHARS`, only ids that are written as in HTML have a line.
    """
    read_line = _ANCHOR_LINES.get(_format(name) or "")
    if read_line is not None and len(text) <= MAX_ANCHORED_CHARS:
        try:
            if line := read_line(text, anchor):
                return line
        except InvalidInput:
            pass

    position = text.find(f'id="{anchor}"')
    return None if position < 0 else text.count("\n", 0, position) + 1


_CUT_OFF = "the page ends before its elements do, as one that was cut off: the rest is missing"

_TO_HTML: dict[str, Callable[[str], str]] = {
    "asciidoc": asciidoc.html,
    "graphql": graphql.html,
    "help": help_text.html,
    "html": str,
    "manual": manual_pages.html,
    "markdown": markdown.html,
    "protobuf": protobuf.html,
    "rst": rst.html,
    "schema": schemas.html,
    "yaml": schemas.html_of_yaml,
}

_ANCHOR_LINES: dict[str, Callable[[str, str], int | None]] = {
    "asciidoc": asciidoc.anchor_line,
    "graphql": graphql.anchor_line,
    "manual": manual_pages.anchor_line,
    "markdown": markdown.anchor_line,
    "protobuf": protobuf.anchor_line,
    "schema": schemas.anchor_line,
    "yaml": schemas.anchor_line_of_yaml,
}


def _decode(content: bytes, name: str) -> str | Skipped:
    """Decode by the byte order mark, else by the charset that an HTML page declares, else UTF-8.

    What declares none and is not UTF-8 is decoded where its encoding can be told. Files named as
    manual pages may be anything: what cannot be decoded is empty.
    """
    page_format = _format(Path(name).name)
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding, declared = "utf-16", None
    else:
        if page_format == "manual":
            # Old ones are in other encodings; what is in none is no manual page.
            return decoded(content) or ""
        if b"\0" in content[:8192]:
            text = decoded(content)
            return Skipped(name, "binary, not text") if text is None or "\0" in text else text
        may_declare = page_format == "html" and not content.startswith(codecs.BOM_UTF8)
        declared = _CHARSET.search(content, 0, 4096) if may_declare else None
        charset = declared[1].decode("ascii", "replace") if declared else "utf-8-sig"
        encoding = text_codec(charset) or "utf-8-sig"
        if declared is None and is_escaped(content):
            encoding = ESCAPED_JAPANESE

    try:
        # cp1252 has a few bytes without a character.
        return content.decode(encoding, "replace" if encoding == "cp1252" else "strict")
    except UnicodeDecodeError as error:
        if declared is None and (text := decoded(content)) is not None:
            return text
        encoding_name = encoding.removesuffix("-sig")
        return Skipped(name, f"not {encoding_name} text (byte {error.start:,}); re-encode it")


def withheld(section: Section, page_title: str) -> Section:
    """Return a section that knows only its own text and its page's title.

    That is what cutting a page at its definitions leaves of its structure, without the qualified
    names, enclosing terms and headings above. A heading is text of its section.
    """
    blocks = section.blocks
    if not section.signatures and section.title not in ("", page_title):
        blocks = [Block(section.title), *blocks]
    return replace(
        section, title=page_title, context=(), headings=(), names=[], module="", blocks=blocks
    )


def documents(page: Page, name: str, address: str = "") -> Iterator[Document]:
    """Yield the documents of one page, with ids that are unique in it.

    `name` is the page's path below the root, `address` its URL if it declares no canonical one.
    """
    used_ids: set[str] = set()
    counts: dict[str, int] = {}

    for section in page.sections:
        body, atoms = section.compose()
        yield Document(
            id=_unique_id(f"{name}#{section.anchor}" if section.anchor else name, used_ids, counts),
            kind="reference",
            title=section.title or name,
            body=body,
            context=section.context,
            location=Location(
                path=name, url=f"{page.url or address or name}#{section.anchor}".removesuffix("#")
            ),
            fields=_fields(section, page, name),
            atoms=atoms,
        )


def _unique_id(name: str, used_ids: set[str], counts: dict[str, int]) -> str:
    """Number the name if it was used before; `counts` holds each name's last number."""
    count, unique = counts.get(name, 0), name
    while not count or unique in used_ids:
        count += 1
        unique = name if count == 1 else f"{name}~{count}"

    counts[name] = count
    used_ids.add(unique)
    return unique


def _fields(section: Section, page: Page, name: str) -> dict[str, Value]:
    """Filterable fields: the section's position and what it defines; empty ones are left out."""
    fields: dict[str, Value] = {
        "directive": section.directive,
        "page": name,
        "page_title": page.title,
        "module": section.module,
        "headings": section.headings,
        "signature": section.signature,
        "names": tuple(section.names) if len(section.names) > 1 else (),
        "anchors": tuple(section.anchors),
    }

    return {key: value for key, value in fields.items() if value}
