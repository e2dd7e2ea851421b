"""Markdown and reStructuredText -> HTML for the reader of pages. Nothing is fetched, included or executed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import pairwise
from typing import Any, ClassVar

from docutils import ApplicationError, nodes
from docutils.core import publish_doctree, publish_from_doctree
from docutils.parsers.rst import Directive, directives, roles
from docutils.parsers.rst.states import Inliner
from docutils.statemachine import string2lines
from markdown_it import MarkdownIt

from index.errors import InvalidInput

MAX_RST_LINE = 100_000  # characters of reStructuredText, whose parser takes time by the square of a line's length

_FRONT_MATTER = re.compile(r"\A---\r?\n.{0,20000}?\n---\r?\n", re.DOTALL)
_NOT_IN_SLUG = re.compile(r"[^\w\- ]")
_LABEL = re.compile(r"(?s)(.+?)\s*<[^<>]+>\Z")
_OPTION_END = re.compile(r"[\s=\[]")
_PREFIX = re.compile(
    r"(?:(?:abstract|async|class|classmethod|exception|final|property|static|staticmethod)\s+)+"
)

_PAGE_ROLES: dict[str, Any] = roles._roles  # type: ignore[attr-defined]  # docutils' table, of which a process has one
_SETTINGS = {
    "_disable_config": True,
    "embed_stylesheet": False,
    "file_insertion_enabled": False,
    "halt_level": 5,
    "input_encoding": "unicode",
    "line_length_limit": MAX_RST_LINE,
    "math_output": "LaTeX",
    "output_encoding": "unicode",
    "raw_enabled": False,
    "report_level": 3,
    "section_self_link": False,
    "smart_quotes": False,
    "stylesheet_path": "",
    "syntax_highlight": "none",
    "traceback": True,
    "warning_stream": "",
}

# Sphinx's own; docutils knows neither.
_DEFINITIONS = (
    "2to3fixer abstractmethod attribute awaitablefunction awaitablemethod class classmethod cmdoption confval "
    "coroutinefunction coroutinemethod data decorator decoratormethod describe django-admin django-admin-option envvar "
    "exception fieldlookup function macro member method module-attribute object opcode option pdbcommand property "
    "setting staticmethod struct templatefilter templatetag type var"
).split()
_OPTIONS = frozenset(["cmdoption", "django-admin-option", "option"])
_NAMELESS = _OPTIONS | frozenset(
    "confval describe django-admin envvar object opcode pdbcommand setting".split()
)
_DOMAINS = ("py", "c", "cpp", "js", "std")
_VERSIONS = {
    "versionadded": "New in version",
    "versionchanged": "Changed in version",
    "versionremoved": "Removed in version",
    "deprecated": "Deprecated since version",
    "deprecated-removed": "Deprecated since version",
}
_CODE = "code-block doctest highlight-block productionlist prompt sourcecode testcode testoutput".split()
_SILENT = (
    "audit-event-table autoclass autofunction automodule bibliography contents currentlibrary default-domain gettext "
    "highlight highlightlang include index literalinclude moduleauthor program sectionauthor tabularcolumns "
    "testcleanup testsetup toctree"
).split()
_MODULES = "currentmodule module py:currentmodule py:module".split()
_ASIDES = "availability audit-event glossary hlist impl-detail only seealso todo".split()
_ROLES = (
    "2to3fixer abbr attr class cmdoption command const data dfn djadmin doc download envvar exc expr file func "
    "guilabel issue kbd keyword lookup macro mailheader makevar manpage member menuselection meth mimetype mod "
    "newsgroup numref obj opcode option pep-ref pdbcmd program ref regexp samp setting source struct term "
    "tfilter token ttag type"
).split()


def markdown(text: str) -> str:
    """CommonMark with tables -> HTML; headings get the ids that GitHub gives them."""
    parser = MarkdownIt("commonmark").enable("table")
    tokens = parser.parse(_FRONT_MATTER.sub("", text, count=1))
    seen: dict[str, int] = {}

    for token, inline in pairwise(tokens):
        if token.type == "heading_open":
            slug = _NOT_IN_SLUG.sub("", inline.content.lower()).replace(" ", "-")
            seen[slug] = seen.get(slug, -1) + 1
            token.attrSet("id", f"{slug}-{seen[slug]}" if seen[slug] else slug)

    return str(parser.renderer.render(tokens, parser.options, {}))


def rst(text: str) -> str:
    """reStructuredText with Sphinx's usual directives and roles -> HTML.

    What cannot be parsed (an unknown directive, a broken table) stays as a code block with its source.

    Raises InvalidInput where docutils gives up, as it does on blocks nested some hundred deep and on overlong lines.
    """
    for number, line in enumerate(string2lines(text, convert_whitespace=True), 1):
        if len(line) > MAX_RST_LINE:
            raise InvalidInput(
                f"Its line {number} is longer than {MAX_RST_LINE:,} characters; break it."
            )

    _know_sphinx()
    known = dict(_PAGE_ROLES)

    try:
        tree = publish_doctree(text, settings_overrides=_SETTINGS)
        _keep_unparsed(tree)
        _name_terms(tree)

        return str(publish_from_doctree(tree, writer="html5", settings_overrides=_SETTINGS))
    except RecursionError as error:
        raise InvalidInput(
            "Its blocks are nested too deeply for reStructuredText; flatten it."
        ) from error
    except (
        ApplicationError,
        ArithmeticError,
        AttributeError,
        LookupError,
        TypeError,
        ValueError,
    ) as error:
        raise InvalidInput(f"docutils cannot read it: {type(error).__name__}: {error}.") from error
    finally:  # a page's own roles are nobody else's
        _PAGE_ROLES.clear()
        _PAGE_ROLES.update(known)


@cache
def _know_sphinx() -> None:
    """Add Sphinx's names to docutils' tables, of which a process has one."""
    for kind in _DEFINITIONS:
        directives.register_directive(kind, _Definition)
        for domain in _DOMAINS:
            directives.register_directive(f"{domain}:{kind}", _Definition)

    for names, directive in _OTHERS:
        for name in names:
            directives.register_directive(name, directive)

    for name in _ROLES:
        roles.register_canonical_role(name, _role)  # type: ignore[arg-type]
        for domain in _DOMAINS:
            roles.register_canonical_role(f"{domain}:{name}", _role)  # type: ignore[arg-type]


class _AnyOption(dict[str, Any]):
    """An option specification that takes whatever options a directive comes with."""

    def __missing__(self, name: str) -> Any:
        return directives.unchanged


class _Lenient(Directive):
    optional_arguments = 1
    final_argument_whitespace = True
    has_content = True
    option_spec: ClassVar[Any] = _AnyOption(name=directives.unchanged)

    def parsed(self, parent: nodes.Element) -> nodes.Element:
        """The directive's content, as children of `parent`."""
        self.state.nested_parse(self.content, self.content_offset, parent)
        return parent

    def argument(self) -> str:
        return str(self.arguments[0]) if self.arguments else ""


class _Definition(_Lenient):
    """`.. function:: name(arguments)`, each line of the argument a signature."""

    def run(self) -> Sequence[nodes.Node]:
        domain, _, kind = self.name.rpartition(":")
        item = nodes.definition_list_item()

        for line in filter(None, map(str.strip, self.argument().replace("\\\n", " ").splitlines())):
            item += _term(line.replace("\\", ""), kind)

        item += self.parsed(nodes.definition())
        return [
            nodes.definition_list(
                "", item, classes=[domain or ("std" if kind in _NAMELESS else "py"), kind]
            )
        ]


def name_start(line: str) -> int:
    """Where the name begins in a line of a signature, behind `class`, `static` and the like."""
    prefix = _PREFIX.match(line)
    return prefix.end() if prefix else 0


def _term(line: str, kind: str) -> nodes.term:
    """A `dt`: the names are marked, so that the reader need not guess them from the signature."""
    term = nodes.term(classes=["sig"])
    if kind in ("class", "exception"):
        term += nodes.Text(f"{kind} ")

    if kind in _OPTIONS:
        for number, option in enumerate(line.split(", ")):
            name = _OPTION_END.split(option, maxsplit=1)[0]
            rest = option[len(name) :]
            term["ids"].append(f"cmdoption-{name.lstrip('-')}")

            term += (
                nodes.Text(", " if number else ""),
                nodes.inline("", name, classes=["descname"]),
                nodes.Text(rest),
            )
        return term

    start = name_start(line)
    name = re.split(r"[\s(\[:=]", line[start:], maxsplit=1)[0] or line[start:]
    term += nodes.Text(line[:start])
    term += nodes.inline("", name, classes=["descname"])
    term += nodes.Text(line[start + len(name) :])

    return term


class _Version(_Lenient):
    """`.. versionadded:: 3.8` and its kin, as a paragraph that says so."""

    def run(self) -> Sequence[nodes.Node]:
        version, _, rest = " ".join(self.argument().split()).partition(" ")
        if self.name == "deprecated-removed":
            removed, _, rest = rest.partition(" ")
            version = f"{version}, will be removed in version {removed}"

        children, messages = self.state.inline_text(rest, self.lineno)
        note = nodes.paragraph(
            "",
            f"{_VERSIONS[self.name]} {version}: " if rest else f"{_VERSIONS[self.name]} {version}",
        )

        note += children
        content = self.parsed(nodes.container()).children

        if not rest and content and isinstance(content[0], nodes.paragraph):
            note += [nodes.Text(": "), *content[0].children]
            content = content[1:]

        return [note, *messages, *content]


class _Code(_Lenient):
    """A code block in any language; unlike docutils' own it does not need to know the language."""

    def run(self) -> Sequence[nodes.Node]:
        lines = list(self.content)
        if self.name == "productionlist" and self.arguments:
            lines = [*self.argument().splitlines(), *lines]
        code = "\n".join(lines)
        return [nodes.literal_block(code, code)]


class _Silent(_Lenient):
    """Instructions to Sphinx: nothing to read."""

    def run(self) -> Sequence[nodes.Node]:
        return []


class _Module(_Lenient):
    """`.. module:: zlib`: what follows belongs to it."""

    def run(self) -> Sequence[nodes.Node]:
        name = self.argument().strip()
        return [
            nodes.paragraph(
                "", "", ids=[] if "current" in self.name else [f"module-{name}"], module=name
            )
        ]


class _Aside(_Lenient):
    """A note of a kind that docutils does not know: its argument as a paragraph, then its content."""

    def run(self) -> Sequence[nodes.Node]:
        label = "See also: " if self.name == "seealso" else ""
        text = f"{label}{self.argument()}" if self.name != "only" else ""
        children, messages = self.state.inline_text(text, self.lineno)
        first = [nodes.paragraph("", "", *children)] if text else []
        content = self.parsed(nodes.container()).children

        for child in content if self.name == "glossary" else ():
            if isinstance(child, nodes.definition_list):
                child["classes"].append("glossary")

        return [*first, *messages, *content]


_OTHERS: tuple[tuple[Iterable[str], type[Directive]], ...] = (
    (_VERSIONS, _Version),
    (_CODE, _Code),
    (_SILENT, _Silent),
    (_MODULES, _Module),
    (_ASIDES, _Aside),
)


def _role(
    name: str,
    rawtext: str,
    text: str,
    lineno: int,
    inliner: Inliner,
    options: Any = None,
    content: Any = None,
) -> tuple[list[nodes.Node], list[nodes.system_message]]:
    """The text of a cross-reference: its label if it has one; `~a.b.c` shows as `c`, `!` is no part of it."""
    text = nodes.unescape(text)
    labelled = _LABEL.match(text)
    shown = labelled[1] if labelled else text.removeprefix("!")

    if not labelled and shown.startswith("~"):
        shown = shown[1:].rpartition(".")[2]
    if name.rpartition(":")[2] in ("func", "meth") and not labelled and not shown.endswith(")"):
        shown += "()"

    return [nodes.literal(rawtext, shown)], []


def _keep_unparsed(tree: nodes.document) -> None:
    """Replace the parser's complaints by the source they complain of."""
    for message in list(tree.findall(nodes.system_message)):
        source = [child for child in message.children if isinstance(child, nodes.literal_block)]
        if message.parent is not None:
            message.parent.replace(message, source)


def _name_terms(tree: nodes.document) -> None:
    """Give each Python definition its whole name as id: module or enclosing class, then its own name."""
    module = ""
    for node in tree.findall():
        if isinstance(node, nodes.paragraph) and "module" in node:
            module = node["module"]
        elif isinstance(node, nodes.term) and node.parent.parent["classes"][:1] == ["py"]:
            name = next(
                child.astext() for child in node.children if isinstance(child, nodes.inline)
            )
            outer = _enclosing(node) or module
            node["ids"] = [
                name if not outer or name.startswith(f"{outer}.") else _join(outer, name)
            ]


def _join(outer: str, name: str) -> str:
    """A method is written "close", "File.close" or "io.File.close" inside "io.File"."""
    last = outer.rpartition(".")[2]
    return f"{outer}.{name.removeprefix(last + '.')}"


def _enclosing(term: nodes.term) -> str:
    """The whole name of the definition around this one; empty at the top."""
    node: nodes.Node | None = term.parent.parent.parent
    while node is not None:
        head = node.children[0] if isinstance(node, nodes.definition_list_item) else None
        if isinstance(head, nodes.term) and head["ids"]:
            return str(head["ids"][0])
        node = node.parent
    return ""
