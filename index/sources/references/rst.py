"""Turn reStructuredText into HTML. Nothing is fetched, included or executed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, ClassVar

from docutils import ApplicationError, nodes
from docutils.core import publish_doctree, publish_from_doctree
from docutils.parsers.rst import Directive, directives, roles
from docutils.parsers.rst.states import Inliner
from docutils.statemachine import string2lines

from purlin.index.errors import InvalidInput
from purlin.index.sources.words import words

# Characters: docutils' time grows with the square of a line's length.
MAX_LINE = 100_000

# `label <target>`
_LABEL = re.compile(r"(?s)(.+?)\s*<[^<>]+>\Z")
# What ends the name of an option, and what stands before that of a definition.
_OPTION_END = re.compile(r"[\s=\[]")
_PREFIX = re.compile(
    r"(?:(?:abstract|async|class|classmethod|exception|final|property|static|staticmethod)\s+)+"
)

# What docutils writes for a page without a title.
_NO_TITLE = "<title>&lt;string&gt;</title>"
# docutils' table of roles, one for the whole process.
_PAGE_ROLES: dict[str, Any] = roles._roles  # type: ignore[attr-defined]
_SETTINGS = {
    "_disable_config": True,
    "embed_stylesheet": False,
    "file_insertion_enabled": False,
    "halt_level": 5,
    "input_encoding": "unicode",
    "line_length_limit": MAX_LINE,
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

# Directives and roles of Sphinx that docutils does not have.
_DEFINITIONS = (
    "2to3fixer abstractmethod attribute awaitablefunction awaitablemethod class classmethod cmdoption confval "
    "coroutinefunction coroutinemethod data decorator decoratormethod describe django-admin django-admin-option envvar "
    "exception fieldlookup function macro member method module-attribute object opcode option pdbcommand property "
    "setting staticmethod struct templatefilter templatetag type var"
).split()
_OPTIONS = frozenset(["cmdoption", "django-admin-option", "option"])
_NAMELESS = _OPTIONS | words(
    "confval describe django-admin envvar object opcode pdbcommand setting"
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


def html(text: str) -> str:
    """Render reStructuredText with Sphinx's usual directives and roles as HTML.

    What cannot be parsed (an unknown directive, a broken table) stays as a code block with its
    source. Raises InvalidInput if docutils gives up, as on blocks nested some hundred deep, and for
    lines over `MAX_LINE`.
    """
    for number, line in enumerate(string2lines(text, convert_whitespace=True), 1):
        if len(line) > MAX_LINE:
            raise InvalidInput(f"line {number} is longer than {MAX_LINE:,} characters; break it")

    _register_sphinx_names()
    roles_before = dict(_PAGE_ROLES)
    try:
        tree = publish_doctree(text, settings_overrides=_SETTINGS)
        _keep_unparsed(tree)
        _name_terms(tree)

        page = str(publish_from_doctree(tree, writer="html5", settings_overrides=_SETTINGS))
        return page.replace(_NO_TITLE, "", 1)
    except RecursionError as error:
        raise InvalidInput("blocks are nested too deeply for docutils; flatten them") from error
    except (
        ApplicationError,
        ArithmeticError,
        AttributeError,
        LookupError,
        TypeError,
        ValueError,
    ) as error:
        raise InvalidInput(f"docutils cannot read it: {type(error).__name__}: {error}") from error
    finally:
        # Roles that a page defines must not reach the next page.
        _PAGE_ROLES.clear()
        _PAGE_ROLES.update(roles_before)


@cache
def _register_sphinx_names() -> None:
    """Add Sphinx's directives and roles to docutils' tables, which the whole process shares."""
    for kind in _DEFINITIONS:
        directives.register_directive(kind, _Definition)
        for domain in _DOMAINS:
            directives.register_directive(f"{domain}:{kind}", _Definition)

    for names, directive in _OTHER_DIRECTIVES:
        for name in names:
            directives.register_directive(name, directive)

    for name in _ROLES:
        roles.register_canonical_role(name, _role)  # type: ignore[arg-type]
        for domain in _DOMAINS:
            roles.register_canonical_role(f"{domain}:{name}", _role)  # type: ignore[arg-type]


class _AnyOption(dict[str, Any]):
    """An option specification that accepts any option of a directive."""

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
    """`.. function:: name(arguments)`: each line of the argument is a signature."""

    def run(self) -> Sequence[nodes.Node]:
        domain, _, kind = self.name.rpartition(":")
        item = nodes.definition_list_item()

        for line in filter(None, map(str.strip, self.argument().replace("\\\n", " ").splitlines())):
            item += _term(line.replace("\\", ""), kind)

        item += self.parsed(nodes.definition())

        default_domain = "std" if kind in _NAMELESS else "py"
        return [nodes.definition_list("", item, classes=[domain or default_domain, kind])]


def name_start(line: str) -> int:
    """Offset of the name in a line of a signature, after `class`, `static` and the like."""
    prefix = _PREFIX.match(line)
    return prefix.end() if prefix else 0


def _term(line: str, kind: str) -> nodes.term:
    """A `dt` whose names are marked, so that the reader of pages does not have to guess them."""
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
    """`.. versionadded:: 3.8` and the like, as a paragraph."""

    def run(self) -> Sequence[nodes.Node]:
        version, _, rest = " ".join(self.argument().split()).partition(" ")
        if self.name == "deprecated-removed":
            removed, _, rest = rest.partition(" ")
            version = f"{version}, will be removed in version {removed}"

        children, messages = self.state.inline_text(rest, self.lineno)
        label = f"{_VERSIONS[self.name]} {version}"
        note = nodes.paragraph("", f"{label}: " if rest else label)
        note += children

        # Without a text of its own, the label goes before the first paragraph of the content.
        content = self.parsed(nodes.container()).children

        if not rest and content and isinstance(content[0], nodes.paragraph):
            note += [nodes.Text(": "), *content[0].children]
            content = content[1:]

        return [note, *messages, *content]


class _Code(_Lenient):
    """A code block; unlike docutils' own, it accepts any name of a language."""

    def run(self) -> Sequence[nodes.Node]:
        lines = list(self.content)
        if self.name == "productionlist" and self.arguments:
            lines = [*self.argument().splitlines(), *lines]
        code = "\n".join(lines)
        return [nodes.literal_block(code, code)]


class _Silent(_Lenient):
    """An instruction to Sphinx, without text for a reader."""

    def run(self) -> Sequence[nodes.Node]:
        return []


class _Module(_Lenient):
    """`.. module:: zlib`: the definitions that follow belong to it."""

    def run(self) -> Sequence[nodes.Node]:
        name = self.argument().strip()
        ids = [] if "current" in self.name else [f"module-{name}"]
        return [nodes.paragraph("", "", ids=ids, module=name)]


class _Aside(_Lenient):
    """A note of one of Sphinx's kinds: its argument as a paragraph, then its content."""

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


_OTHER_DIRECTIVES: tuple[tuple[Iterable[str], type[Directive]], ...] = (
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
    """The text of a cross-reference: its label, or else its target without `!` and `~a.b.`."""
    text = nodes.unescape(text)
    if label := _LABEL.match(text):
        return [nodes.literal(rawtext, label[1])], []

    target = text.removeprefix("!")
    if target.startswith("~"):
        target = target[1:].rpartition(".")[2]
    if name.rpartition(":")[2] in ("func", "meth") and not target.endswith(")"):
        target += "()"
    return [nodes.literal(rawtext, target)], []


def _keep_unparsed(tree: nodes.document) -> None:
    """Replace the parser's error messages by the source that they are about."""
    for message in list(tree.findall(nodes.system_message)):
        source = [child for child in message.children if isinstance(child, nodes.literal_block)]
        if message.parent is not None:
            message.parent.replace(message, source)


def _name_terms(tree: nodes.document) -> None:
    """Give each Python definition its whole name as id: module or class, then its own name."""
    module = ""

    for node in tree.findall():
        if isinstance(node, nodes.paragraph) and "module" in node:
            module = node["module"]
        elif isinstance(node, nodes.term) and node.parent.parent["classes"][:1] == ["py"]:
            name = next(
                child.astext() for child in node.children if isinstance(child, nodes.inline)
            )
            outer = _enclosing(node) or module
            is_whole = not outer or name.startswith(f"{outer}.")
            node["ids"] = [name if is_whole else _join(outer, name)]


def _join(outer: str, name: str) -> str:
    """The whole name of "close" or "File.close" inside "io.File": "io.File.close"."""
    last = outer.rpartition(".")[2]
    return f"{outer}.{name.removeprefix(last + '.')}"


def _enclosing(term: nodes.term) -> str:
    """The whole name of the definition around this one; empty at the top level."""
    node: nodes.Node | None = term.parent.parent.parent
    while node is not None:
        head = node.children[0] if isinstance(node, nodes.definition_list_item) else None
        if isinstance(head, nodes.term) and head["ids"]:
            return str(head["ids"][0])
        node = node.parent
    return ""
