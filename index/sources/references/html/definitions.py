"""Definitions, which `dl` lists hold: their terms, with name, kind and anchor, and their fields."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import partial
from urllib.parse import unquote

from purlin.index.sources.references.html import vocabulary
from purlin.index.sources.references.html.entries import MAX_TERM, MAX_TERMS, Entries
from purlin.index.sources.references.html.outline import Outline, is_name
from purlin.index.sources.references.html.text import (
    Close,
    Element,
    Mark,
    Text,
    collapse,
    do_nothing,
)
from purlin.index.sources.references.html.writer import Writer
from purlin.index.sources.references.page_sections import (
    MAX_TITLE,
    Block,
    Section,
    join_names,
    option_names,
)

MAX_NESTED_LISTS = 32

# "Default value:"
_LABEL = re.compile(r"[A-Z][a-z]+(?: [a-z]+){0,3}:")
# The anchor of a predicate tells how many arguments it has: `lists:append/3`, `phrase//2`.
_ARITY = re.compile(r"/\d{1,3}\Z")
# Of `--[no-]sign[=KEY]`, the first bracket is of the name.
_OPTION_END = re.compile(r"[\s=]|(?<!--)\[")


@dataclass(slots=True)
class _List:
    """A `dl`; the terms of a `plain` one are names of fields, of a `headed` one what its heading says.

    In a `named` one, names are marked.
    """

    directive: str
    plain: bool
    headed: bool = False
    named: bool = False
    fields: int = 0
    # The definition that is open, and whether a `dd` has come for its terms.
    section: Section | None = None
    described: bool = False


@dataclass(slots=True)
class _Term:
    """A `dt`, and what elements in it tell: names, the kind of definition, a tag for its end."""

    anchor: str = ""
    is_field: bool = False
    is_predicate: bool = False
    links_to_itself: bool = False
    names: list[str] = field(default_factory=list)
    category: str | None = None
    tag: str = ""


@dataclass(slots=True)
class Definitions:
    """Reads `dl` lists, and opens a definition with their terms."""

    _text: Text
    _outline: Outline
    _writer: Writer
    _entries: Entries
    _lists: list[_List] = field(default_factory=list)
    _term: _Term = field(default_factory=_Term)
    # Ids before the list, or in the text of the term before.
    _ids_before_term: list[str] = field(default_factory=list)

    # -- lists -------------------------------------------------------------------------------------

    def open_list(self, element: Element) -> Close:
        """Begin a list of definitions or of fields."""
        self._writer.start_block(element)
        classes = element.classes
        plain = (
            bool(classes & vocabulary.PLAIN_LISTS)
            or (bool(classes & vocabulary.FIELD_LISTS) and classes.isdisjoint(vocabulary.DOMAINS))
            or classes == {vocabulary.REMARKS}
            or (self._entries.is_in_entry and vocabulary.TERM_LIST not in classes)
            or len(self._lists) >= MAX_NESTED_LISTS
            or self._outline.is_full
        )

        if not plain:
            self._outline.bare_definition = None

        self._ids_before_term = list(self._text.ids)
        self._lists.append(
            _List(
                _directive(element.attributes.get("class", "")),
                plain,
                headed=classes == {vocabulary.HEADED_LIST} or vocabulary.TERM_LIST in classes,
                named=vocabulary.TERM_LIST in classes,
            )
        )
        return self._close_list

    def _close_list(self) -> None:
        self._writer.flush()
        self._writer.drop_marker()
        if self._lists.pop().section is None:
            return

        section = self._outline.definitions.pop()
        if not section.blocks and not self._outline.definitions:
            # A bare signature: the prose that follows describes it.
            self._outline.bare_definition = section

    def open_description(self, element: Element) -> Close:
        """Begin the text of a definition or a field."""
        self._writer.flush()
        if self._lists and not self._lists[-1].plain:
            self._lists[-1].described = True
        self._text.note_id(element)
        return self._close_description

    def _close_description(self) -> None:
        self._writer.flush()
        self._ids_before_term = list(self._text.ids)

    # -- terms -------------------------------------------------------------------------------------

    def open_term(self, element: Element) -> Close | None:
        """Begin a term of a definition, or the name of a field; None outside of lists."""
        self._writer.flush()
        if not self._lists:
            return None

        self._writer.drop_marker()
        self._text.role = "term"
        is_field = self._lists[-1].plain or self._outline.is_full
        is_predicate = bool(element.classes & vocabulary.PREDICATES)
        self._term = _Term(element.anchor, is_field, is_predicate)
        if not is_field:
            # What encloses a term within the list has the term's id.
            ids_before = self._ids_before_term
            self._text.ids = [each for each in self._text.ids if each not in ids_before]
            self._text.note_id(element)
            self._begin_definition(self._lists[-1])

        return self.close_term

    def _begin_definition(self, definitions: _List) -> None:
        # Several `dt` in a row are signatures of one definition, with or without an empty `dd`
        # between them (pod2html writes one after each).
        section = definitions.section
        if section is not None:
            is_empty = section is self._outline.sections[-1] and not section.blocks
            if is_empty or not definitions.described:
                return
            self._outline.definitions.pop()

        definitions.section = self._outline.begin_definition(
            definitions.directive, self._text.module
        )
        definitions.described = False

    def close_term(self) -> None:
        """End the term, if that has not been done."""
        if self._text.role == "term":
            if self._term.is_field:
                self._close_field()
            else:
                self._add_term()
        self._writer.flush()

    def _close_field(self) -> None:
        fields, name = self._lists[-1], self._text.take_lines().rstrip(":")
        fields.fields += 1
        self._writer.marker = f"{name}: " if name else ""
        self._writer.marker_tight = fields.fields > 1

    def _add_term(self) -> None:
        term, section = self._term, self._lists[-1].section
        line = self._text.take_lines() + term.tag
        if section is None or not line:
            return
        if not section.signatures and self._is_property(line):
            self._begin_properties()
            self._writer.marker = f"{line} "
            return

        if section.signatures:
            self._writer.add_anchors(section, term.anchor)
        else:
            anchor, section.anchors = self._text.take_ids(term.anchor)
            section.anchor = anchor or section.anchor

        if term.category is not None:
            section.directive = _texinfo_directive(term.category, line)
        elif term.is_predicate and not section.signatures:
            section.directive = "function" if _ARITY.search(section.anchor) else "option"
        elif section.directive == "term" and (term.links_to_itself or self._lists[-1].headed):
            self._head_definition(section, line)
        _add_signature(section, line, term.names, term.anchor)

    def _is_property(self, line: str) -> bool:
        """Whether the first term below a heading is a label of what that names: "Default value:"."""
        section, first_term = self._outline.sections[-2:]
        # `logdir` and `CustomLog` name something; "Installation" is a word.
        has_name = is_name(section.title) and not section.title.istitle()
        is_first = section is self._outline.section and first_term.directive == "term"
        return is_first and has_name and _LABEL.fullmatch(line) is not None

    def _begin_properties(self) -> None:
        """Make the list that has begun one of properties of the section above it."""
        self._outline.definitions.pop()
        self._outline.sections.pop()
        properties = self._lists[-1]
        properties.section, properties.plain, properties.fields = None, True, 1

    def _head_definition(self, section: Section, line: str) -> None:
        """Tell by its term, or by what encloses the list, what is defined."""
        has_name = self._lists[-1].named
        if call := vocabulary.CALL.match(line if has_name else line.replace(" (", "(", 1)):
            section.directive = "function"
            self._term.names.append(call[1])
        elif words := self._enclosing_title().lower().split():
            section.directive = vocabulary.HEADED_DIRECTIVES.get(
                words[-1].removesuffix("s"), "term"
            )

    def _enclosing_title(self) -> str:
        """The term around the list that is open, else the heading above it."""
        enclosing = self._outline.definitions[:-1]
        return enclosing[-1].title if enclosing else self._outline.section.title

    # -- parts of a term ---------------------------------------------------------------------------

    def open_part(self, element: Element) -> Close | None:
        """Read an element that tells a term's name or kind; None for other elements."""
        classes, term = element.classes, self._term
        names_defined = term.is_predicate or term.category is not None

        if classes & vocabulary.NAMES or (names_defined and element.tag == "strong"):
            return partial(self._close_name, self._text.mark(), len(term.names))
        if classes & vocabulary.CATEGORIES:
            return partial(self._close_category, self._text.mark())
        if vocabulary.TERM_TAG in classes:
            return partial(self._close_tag, self._text.mark())
        if "classifier" in classes:
            self._open_classifier()
            return do_nothing
        if element.fragment and unquote(element.fragment) in (term.anchor, self._text.last_id):
            return partial(
                self._close_own_link, self._text.open_permalink(element), self._text.mark()
            )
        if element.is_local_link:
            return self._text.open_permalink(element)

        return None

    def _close_own_link(self, close_permalink: Close, mark: Mark) -> None:
        """Take a word that links to its own term as the name, and no sign."""
        close_permalink()
        name = self._text.since(mark).strip()
        if name and not self._term.names and len(name.split()) == 1:
            self._term.names.append(name[:MAX_TITLE])
            self._term.links_to_itself = True

    def _close_name(self, mark: Mark, names_before: int) -> None:
        name = collapse(self._text.since(mark)).replace("\n", " ")
        if name and len(self._term.names) == names_before:
            if name.startswith("-"):
                name = _OPTION_END.split(name, maxsplit=1)[0]
            self._term.names.append(name[:MAX_TITLE])

    def _close_category(self, mark: Mark) -> None:
        """Take Texinfo's kind of definition, as in "Function: ", as no text of the term."""
        self._term.category = self._text.since(mark).strip(" :\n")
        self._text.cut(mark)

    def _close_tag(self, mark: Mark) -> None:
        """Put a tag before the name to the end of the term."""
        self._term.tag = " " + self._text.since(mark).strip()
        self._text.cut(mark)

    def _open_classifier(self) -> None:
        """Part a term from its type, which style sheets do by a colon, and take it as the name."""
        term = collapse("".join(self._text.parts)).replace("\n", " ")
        if not term.endswith(":"):
            self._text.append(" : ")
        if term and not self._term.names:
            self._term.names.append(term.removesuffix(":").rstrip()[:MAX_TITLE])


def _directive(classes: str) -> str:
    """Sphinx's object type by the classes of a `dl` ("py method" -> "method"), or "term"."""
    names = [name for name in classes.split() if name not in ("compact", "docutils", "simple")]
    if len(names) > 1 and names[0] in vocabulary.DOMAINS:
        return vocabulary.DIRECTIVES.get(names[1], names[1][:64])
    return next(
        (vocabulary.DIRECTIVES[name] for name in names if name in vocabulary.DIRECTIVES), "term"
    )


def _texinfo_directive(category: str, term: str) -> str:
    """The object type by a category such as "Method on set"; without any, by the look of the term."""
    words = re.split(r" o[fn] ", category.lower(), maxsplit=1)[0].split()
    if not words:
        return "function" if "(" in term else "term"
    return vocabulary.TEXINFO_DIRECTIVES.get(words[-1], "term")


def _add_signature(section: Section, text: str, names: list[str], own_id: str) -> None:
    """Add one `dt` to a definition: its line and its names, and update the title."""
    if len(text) > MAX_TERM:
        # Too long for a signature: what is cut off becomes text, preferably from a space on.
        cut = text.rfind(" ", 0, MAX_TERM) if " " in text[:MAX_TERM] else MAX_TERM
        section.blocks.append(Block(text[cut:].strip()))
        text = text[:cut]

    if len(section.signatures) >= MAX_TERMS:
        section.blocks.append(Block(text, atom=True, tight=bool(section.blocks)))
        return

    section.signatures.append(text)
    for name in names or option_names(text) or [text.replace("\n", ", ")[:MAX_TITLE]]:
        qualified = _qualified(name, own_id)
        if not any(f".{earlier}".endswith(f".{qualified}") for earlier in section.names):
            section.names.append(qualified)

    section.title = join_names(section.names)
    is_option = all(name.startswith("-") or f"{name}=" in text for name in section.names)
    if section.directive == "term" and is_option:
        section.directive = "option"


def _qualified(name: str, anchor: str) -> str:
    """The whole name, which Sphinx has in the anchor: "str.zfill" for "zfill"."""
    # Anchors of C have a prefix: "c.PyTypeObject.tp_name".
    whole_name = anchor.removeprefix("c.")
    return whole_name if whole_name.endswith(f".{name}") else name
