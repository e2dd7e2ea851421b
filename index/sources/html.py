"""Read an HTML page as a stream of tags, into its definitions and its sections of prose.

No tree is built, so that neither the size of a page nor the depth of its nesting costs memory or
stack. Only the structure counts: `dl` lists are definitions (the paper's Algorithm 1), headings
open sections.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from lxml import etree

from purlin.index.sources.generators import (
    MAX_NAMES,
    Entry,
    Generator,
    calls_with,
    generator_of,
    is_listing,
)
from purlin.index.sources.html_vocabulary import (
    BLOCKS,
    BOXES,
    CALL,
    CATEGORIES,
    CODE_CELLS,
    DECLARED,
    DEFINITION,
    DIRECTIVES,
    DOMAINS,
    FIELD_LISTS,
    FURNITURE_CLASSES,
    FURNITURE_IDS,
    FURNITURE_LIST,
    FURNITURE_ROLES,
    FURNITURE_TAGS,
    HEADED_DIRECTIVES,
    HEADINGS,
    INNER_HEADINGS,
    LINK_TO_TOP,
    NAMES,
    NEXT_ASIDE,
    PAGE_ASIDES,
    PERMALINKS,
    PLAIN_LISTS,
    PREDICATES,
    PROTOTYPES,
    REMARKS,
    RESULT_HEADINGS,
    SOURCE_LINKS,
    TERM_TAG,
    TEXINFO_DIRECTIVES,
    UNFOLDING,
)
from purlin.index.sources.page_sections import MAX_TITLE, Block, Page, Section, join_names

BREAK = "\u2028"
INVISIBLE = dict.fromkeys(map(ord, "\u00ad\u200b\u2060\ufeff"))
MAX_TERM = 2000  # characters of one `dt`
MAX_TERMS = 64  # `dt` of one definition
MAX_NESTED_LISTS = 32
MAX_ANCHORS = 16
MAX_ANCHOR = 500  # characters
MAX_SECTIONS = 200_000
CHUNK_CHARS = 1 << 16  # what the parser gets at a time

# The anchor of a predicate tells how many arguments it has: `lists:append/3`, `phrase//2`.
_ARITY = re.compile(r"/\d{1,3}\Z")
_UNUSABLE_ID = re.compile(r"\Aindex-\d+\Z|[^\S ]")
_NUMBER = re.compile(r"\A(?:(?:[A-Z]\.)?(?:\d+\.)+\d*|[A-Z](?:\.\d+)+)\s+")
# A number without a dot at its end is a version if a bracket, a dash, a date or only its state
# follows.
_VERSION = re.compile(
    r"\A[\d.]*\d\s+(?:[(\[\u2012-\u2015-]|\d{4}\b|\d\d?[./]"
    r"|(?:alpha|beta|final|pre|rc|released|stable|unreleased|yanked)[\s.-]*\d*\s*(?:\Z|[(\[,\u2012-\u2015-]))",
    re.IGNORECASE,
)
_CHANGELOG = re.compile(
    r"\bchange ?logs?\b|\b(?:change|release|version) (?:history|notes)\b"
    r"|\A(?:changes|history|news|releases)\Z",
    re.IGNORECASE,
)
# Sphinx puts parameters on lines of their own into a list, within the term that they belong to.
# The scan ends at the next list, so that time stays linear.
_PARAMETER_LIST = re.compile(
    r'(<span class="sig-paren">[(\[]</span>)\s*<dl>([^<]*(?:<(?!/?dl\b)[^<]*)*+)</dl>\s*'
)
_PARAMETER = re.compile(r"</?dd>")
# Until version 14, Javadoc's lists had no class; Doxygen's exceptions have the class of Sphinx's
# definitions of exceptions, whose terms begin with an element.
_UNMARKED_FIELDS = re.compile(
    r'<dl(?=>\s*<dt>\s*<span class="\w+Label">)|<dl class="exception"(?=>\s*<dt>[^<\s])'
)
# Of `--[no-]sign[=KEY]`, the first bracket is of the name.
_OPTION_END = re.compile(r"[\s=]|(?<!--)\[")
# An empty line, or the next line is an item of a list.
_PARAGRAPH_END = re.compile(r"\n(?=[ \t]*\n|[ \t]*[-*] )")
_PROPERTY = re.compile(r"[A-Z][\w ]{0,30}: \S")
# Texinfo's links from node to node.
_NODE_LINKS = re.compile(r"(?:Next|Previous|Up): .*\[(?:Contents|Index)\]")

Classes = frozenset[str]
_NO_CLASSES: Classes = frozenset()
Close = Callable[[], None]


@dataclass(slots=True)
class _DefinitionList:
    directive: str
    plain: bool
    items: int = 0
    section: Section | None = None
    described: bool = False


@dataclass(slots=True)
class _ItemList:
    ordered: bool
    items: int = 0


def read_page(markup: str, *, whole: bool = False) -> Page:
    """Read a page leniently; `whole` gives one section with all its text, headings and terms.

    Listings of source, or of a class's members, have no sections.
    """
    if is_listing(markup):
        return Page("", "", [])

    markup = _UNMARKED_FIELDS.sub('<dl class="notes"', markup)
    markup = _PARAMETER_LIST.sub(_inline_parameters, markup)
    reader = _Reader(whole, None if whole else generator_of(markup))
    parser = etree.HTMLParser(
        target=reader,  # type: ignore[arg-type]
        encoding="utf-8",
        no_network=True,
        huge_tree=True,
        remove_comments=True,
        remove_pis=True,
    )

    try:
        for start in range(0, len(markup), CHUNK_CHARS):
            parser.feed(markup[start : start + CHUNK_CHARS].replace("\0", "\ufffd").encode())
        parser.close()
    except etree.XMLSyntaxError:
        # Nothing but white space, or a tag that never ends: what was read before it is kept.
        pass

    return reader.page()


def collapse(text: str) -> str:
    """Reduce white space to single spaces, breaks to newlines, and drop invisible characters."""
    lines = (" ".join(line.split()) for line in text.translate(INVISIBLE).split(BREAK))
    return "\n".join(line for line in lines if line)


class _Reader:
    """The parser's target: an element that opens puts the function that closes it on a stack."""

    def __init__(self, whole: bool, generator: Generator | None) -> None:
        self._whole = whole
        self._generator = generator
        self._closers: list[Close] = []
        self._skipping = 0
        self._text: list[str] = []
        self._is_blank = True
        self._marker_tight = False
        self._url = ""
        self._head_title = ""
        self._inside_main: bool | None = None
        self._redirects = False
        self._module = self._module_before = ""
        self._reset()

    def _reset(self) -> None:
        self._capture = ""
        self._marker = self._label = ""
        self._h1 = ""
        self._inner_heading = ""
        # The text of an element that is code, of the heading that was read last.
        self._heading_code = ""
        self._whole_page_entry: Section | None = None
        self._section = Section(directive="page" if self._whole else "section")
        self._sections = [self._section]
        self._headings: list[tuple[int, str]] = []
        self._definition_lists: list[_DefinitionList] = []
        self._item_lists: list[_ItemList] = []
        self._open_definitions: list[Section] = []
        self._absorbing: Section | None = None
        self._open_boxes = self._open_inline_blocks = 0
        self._row_count = 0
        self._cells: list[str] | None = None
        self._ids: list[str] = []
        self._id_ends_text = False
        self._permalink = ""
        self._since = self._since_noted = ""
        self._since_notes: list[tuple[Section, str]] = []
        self._term_names: list[str] = []
        self._term_category: str | None = None
        self._term_tag = ""
        self._is_predicate = False
        self._only_row: list[str] = []
        self._close_current_term: Close = _do_nothing

    # -- called by the parser ----------------------------------------------------------------------

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if self._skipping:
            self._skipping += 1
            return

        classes = frozenset(attributes["class"].split()) if "class" in attributes else _NO_CLASSES
        generator = self._generator
        if _is_furniture(tag, attributes, classes) or (
            generator is not None and generator.is_furniture(attributes, classes)
        ):
            if "headerlink" in classes:
                self._permalink = attributes.get("href", "").partition("#")[2][:MAX_ANCHOR]
            self._skipping = 1
            return

        self._closers.append(self._open(tag, attributes, classes))

    def end(self, tag: str) -> None:
        if self._skipping:
            self._skipping -= 1
        elif self._closers:
            self._closers.pop()()

    def data(self, text: str) -> None:
        if not self._skipping and self._inside_main is not False:
            self._text.append(text)
            if (self._is_blank or self._id_ends_text) and text.strip():
                self._is_blank = self._id_ends_text = False

    def close(self) -> None:
        """Do nothing, as the parser requires the method; `page` ends what is still open."""

    def page(self) -> Page:
        self._flush()
        if self._redirects:
            return Page("", self._url, [])
        if self._generator and (mark := self._generator.copied):
            self._sections = [each for each in self._sections if not _is_copy(each, mark)]
        for section, note in self._since_notes:
            section.blocks.append(Block(note))

        # A manual page's first heading is NAME, also in Perl's POD: it names no page.
        names_module = self._generator is not None and self._generator.module_pages
        has_own_title = bool(self._h1) and self._h1 != "NAME" and not names_module
        title = self._h1 if has_own_title else self._head_title or self._h1
        self._sections[0].title = title
        sections = [section for section in self._sections if section.blocks or section.signatures]

        if title and not has_own_title:
            for section in sections:
                if title != (*section.headings, section.title)[0]:
                    section.headings = (title, *section.headings)

        return Page(title, self._url, sections)

    # -- opening elements --------------------------------------------------------------------------

    def _open(self, tag: str, attributes: Mapping[str, str], classes: Classes) -> Close:
        if (tag == "main" or attributes.get("role") == "main") and not self._inside_main:
            return self._open_main(tag, attributes)
        if self._inside_main is False:
            return _do_nothing

        # Blocks that no cell of a data table would have.
        if self._capture == "cell" and tag in UNFOLDING:
            self._unfold()
        if self._capture == "term" and tag in ("dd", "dt"):
            # The parser nests the next element in a `dt` without an end tag.
            self._close_term()

        if self._capture:
            self._note_id(tag, attributes)
            return self._open_captured(tag, attributes, classes)
        if self._generator and self._generator.begins_entry(tag, classes):
            return self._open_entry(tag, attributes)
        if tag in ("div", "p") and (
            self._open_inline_blocks or (self._generator and classes & self._generator.inline)
        ):
            return self._open_inline_block(tag, attributes)

        opener = _OPENERS.get(tag)
        if opener is None or (self._whole and tag in ("dl", "dt", "dd")):
            opener = _Reader._open_block if tag in BLOCKS else _Reader._open_inline

        return opener(self, tag, attributes, classes)

    def _open_main(self, tag: str, attributes: Mapping[str, str]) -> Close:
        # What came before `main` was the page's frame: start over.
        if self._inside_main is None:
            self._take_text()
            self._reset()
            self._closers[:] = [_do_nothing] * len(self._closers)
        self._inside_main = True
        self._note_id(tag, attributes)
        return self._close_main

    def _close_main(self) -> None:
        self._flush()
        self._inside_main = False

    def _open_captured(self, tag: str, attributes: Mapping[str, str], classes: Classes) -> Close:
        if tag == "br":
            self._text.append("\n" if self._capture == "code" else BREAK)
        elif self._capture == "term" and (close := self._open_in_term(tag, classes)):
            return close
        elif self._capture == "heading" and "section-number" in classes:
            return partial(self._close_number, len(self._text))
        elif self._capture in ("heading", "term") and attributes.get("href", "").startswith("#"):
            return partial(self._close_link, len(self._text), attributes["href"][1:][:MAX_ANCHOR])
        elif self._capture == "heading" and self._generator and "sep" in classes:
            self._text.append(".")
        elif self._capture == "heading" and "overload" in classes:
            return partial(self._text.append, BREAK)
        elif self._capture == "heading" and tag == "code" and self._generator is None:
            return partial(self._close_heading_code, len(self._text))
        elif self._capture != "code" and tag in BLOCKS:
            self._text.append(" ")
            return partial(self._text.append, " ")

        return _do_nothing

    def _open_in_term(self, tag: str, classes: Classes) -> Close | None:
        """What ends a part of a term that tells its name or kind; None for other elements."""
        is_defined = tag == "strong" and (self._is_predicate or self._term_category is not None)
        if classes & NAMES or is_defined:
            return partial(self._close_name, len(self._text), len(self._term_names))
        if classes & CATEGORIES:
            return partial(self._close_category, len(self._text))
        if TERM_TAG in classes:
            return partial(self._close_tag, len(self._text))
        if "classifier" in classes:
            self._open_classifier()
            return _do_nothing
        return None

    def _close_link(self, text_start: int, anchor: str) -> None:
        """Take a link that shows only a mark as the anchor of its term, and not as text."""
        mark = "".join(self._text[text_start:]).strip()
        if mark in PERMALINKS:
            self._permalink = anchor
        if mark in PERMALINKS or mark == LINK_TO_TOP:
            del self._text[text_start:]

    def _open_classifier(self) -> None:
        """Part a term from its type, which style sheets do by a colon, and take it as the name."""
        term = collapse("".join(self._text)).replace("\n", " ")
        if not term.endswith(":"):
            self._text.append(" : ")
        if term and not self._term_names:
            self._term_names.append(term.removesuffix(":").rstrip()[:MAX_TITLE])

    def _close_category(self, text_start: int) -> None:
        """Take Texinfo's kind of definition, as in "Function: ", as no text of the term."""
        self._term_category = "".join(self._text[text_start:]).strip(" :\n")
        del self._text[text_start:]

    def _close_tag(self, text_start: int) -> None:
        """Put a tag before the name to the end of the term, as `_close_dt` does."""
        self._term_tag = " " + "".join(self._text[text_start:]).strip()
        del self._text[text_start:]

    def _close_heading_code(self, text_start: int) -> None:
        self._heading_code = collapse("".join(self._text[text_start:]))

    def _close_number(self, text_start: int) -> None:
        del self._text[text_start:]

    def _close_name(self, text_start: int, names_before: int) -> None:
        name = collapse("".join(self._text[text_start:])).replace("\n", " ")
        if name and len(self._term_names) == names_before:
            if name.startswith("-"):
                name = _OPTION_END.split(name, maxsplit=1)[0]
            self._term_names.append(name[:MAX_TITLE])

    def _open_inline(self, tag: str, attributes: Mapping[str, str], classes: Classes) -> Close:
        self._note_id(tag, attributes)
        if tag == "br":
            self._text.append(BREAK)
        elif tag == "img" and "math" in classes:
            self._text.append(attributes.get("alt", ""))
        elif tag == "link" and attributes.get("rel") == "canonical":
            self._url = _web_address(attributes.get("href", ""))
        elif tag == "meta" and attributes.get("http-equiv", "").lower() == "refresh":
            self._redirects |= "url=" in attributes.get("content", "").lower()
        elif "since" in classes:
            self._since = attributes.get("title", "")[:MAX_TITLE]
        elif NEXT_ASIDE in classes or classes & PAGE_ASIDES:
            is_of_page = NEXT_ASIDE not in classes
            self._since = ""
            return partial(
                self._close_aside, is_of_page, len(self._text), self._is_blank, self._id_ends_text
            )
        elif "anchor" in classes and attributes.get("href", "").startswith("#"):
            return partial(self._close_mark, len(self._text), self._is_blank, self._id_ends_text)
        return _do_nothing

    def _close_mark(self, text_start: int, was_blank: bool, id_ended_text: bool) -> None:
        """Drop a link that shows only a mark, as if nothing had come after the id before it."""
        if "".join(self._text[text_start:]).strip() in PERMALINKS:
            del self._text[text_start:]
            self._is_blank, self._id_ends_text = was_blank, id_ended_text

    def _close_aside(
        self, is_of_page: bool, text_start: int, was_blank: bool, id_ended_text: bool
    ) -> None:
        """Drop a note on versions, as `_close_mark` does, but for what the element explains."""
        del self._text[text_start:]
        self._is_blank, self._id_ends_text = was_blank, id_ended_text
        self._since_noted = self._since
        if is_of_page:
            self._note_since()

    def _note_since(self) -> None:
        """Keep since which version there is what the section is about, as its last paragraph."""
        if self._since_noted:
            self._since_notes.append((self._section, f"{self._since_noted}."))
            self._since_noted = ""

    def _open_inline_block(self, tag: str, attributes: Mapping[str, str]) -> Close:
        """Go on with the line of text that a block stands in."""
        self._note_id(tag, attributes)
        self._text.append(" ")
        self._open_inline_blocks += 1
        return self._close_inline_block

    def _close_inline_block(self) -> None:
        self._open_inline_blocks -= 1

    def _open_block(self, tag: str, attributes: Mapping[str, str], classes: Classes) -> Close:
        self._flush()
        if self._generator and classes & self._generator.labels:
            self._capture = "label"
            return self._close_label
        if self._generator and classes & self._generator.signatures:
            self._note_id(tag, attributes)
            self._capture = "code"
            return self._close_signature
        if tag == "div" and "fragment" in classes:
            return self._open_pre(tag, attributes, classes)
        if classes & PROTOTYPES:
            self._note_id(tag, attributes)
            self._capture = "prototype"
            return self._close_prototype
        self._note_id(tag, attributes)
        if not classes & (BOXES if self._generator is None else BOXES | self._generator.entries):
            return self._flush
        self._open_boxes += 1
        return self._close_box

    def _close_box(self) -> None:
        self._flush()
        self._open_boxes -= 1

    def _close_prototype(self) -> None:
        """Take the signature below a heading, whose parts Doxygen has in the cells of a table."""
        text = self._captured().replace("\n", " ")
        text = text.replace(" ( ", "(").replace(" )", ")").replace(" ,", ",")
        if self._begins_entry(self._section.title, text):
            return
        if self._section.blocks or self._open_definitions or len(text) > MAX_TERM:
            self._emit(text, atom=True)
        elif len(self._section.signatures) < MAX_TERMS and text:
            self._section.signatures.append(text)

    def _close_signature(self) -> None:
        """Take code as the signature of the entry that a heading before it has named."""
        text = " ".join(self._captured().split())
        if self._is_in_entry and not self._section.blocks and text and len(text) <= MAX_TERM:
            self._section.signatures = [text]
        else:
            self._emit(text, atom=True)

    def _open_title(self, tag: str, attributes: Mapping[str, str], classes: Classes) -> Close:
        self._flush()
        self._capture = "title"
        return self._close_title

    def _close_title(self) -> None:
        self._head_title = self._heading_text()
        if self._generator and self._generator.module_pages:
            self._module = self._head_title

    # -- headings ----------------------------------------------------------------------------------

    def _open_heading(self, tag: str, attributes: Mapping[str, str], classes: Classes) -> Close:
        self._flush()
        is_inner = (
            bool(self._open_boxes or self._open_definitions)
            or self._section is self._whole_page_entry
        )
        if is_inner and self._generator is None:
            return self._open_block(tag, attributes, classes)
        self._permalink = self._heading_code = ""
        self._capture = "heading"
        self._note_id(tag, attributes)
        if is_inner or (self._generator and HEADINGS[tag] > self._generator.deepest_heading):
            return self._close_inner_heading
        is_definition = DEFINITION in classes
        return partial(self._close_heading, HEADINGS[tag], _anchor(tag, attributes), is_definition)

    def _close_heading(self, level: int, own_id: str, is_definition: bool) -> None:
        title = self._heading_text(level)
        if level == 1 and not self._h1:
            self._h1 = title
        if self._whole or len(self._sections) >= MAX_SECTIONS:
            self._emit(title)
        elif title:
            self._open_section(level, title, self._permalink or own_id)
            self._heading_code = title if self._heading_code == title else ""
            call = self._heading_code.replace(" (", "(", 1)
            if is_definition or CALL.fullmatch(call):
                self._define(call or title)
            elif level == 1 and self._generator and (entry := self._generator.page_entry(title)):
                self._set_entry(entry)

    def _define(self, heading: str) -> None:
        """Make a definition of a section whose heading is code: `max`, `cache.get(key)`."""
        section, call = self._section, CALL.match(heading)
        label, colon, labelled = heading.partition(": ")
        name = call[1] if call else labelled.strip("'\"") if colon else heading
        section.title, section.names, section.signatures = name, [name], [heading]

        above = section.headings[-1].split() if section.headings else []
        kind = (label if colon else "".join(above[-1:])).lower().removesuffix("s")
        section.directive = "function" if call else HEADED_DIRECTIVES.get(kind, "term")
        if heading.startswith("-"):
            section.directive = "option"

    def _heading_text(self, level: int = 1) -> str:
        """The heading on one line, without its section number, cut to the length of a title.

        In a list of changes a number is a version, and in a manual a section's.
        """
        text = self._captured().replace("\n", " ")
        number = _NUMBER.match(text)
        if number and not _is_version(text, number[0], self._enclosing_titles(level)):
            text = text[number.end() :]
        return text[:MAX_TITLE]

    def _enclosing_titles(self, level: int) -> Iterable[str]:
        return (self._head_title, *(title for outer, title in self._headings if outer < level))

    def _open_section(self, level: int, title: str, anchor: str) -> None:
        while self._headings and self._headings[-1][0] >= level:
            self._headings.pop()

        headings = tuple(heading for _, heading in self._headings)
        self._headings.append((level, title))
        anchor, anchors = self._take_ids(anchor or (self._ids[-1] if self._ids else ""))

        # The id of a heading such as "Module Contents" looks like that of a module.
        if f"module-{self._module}" == _slug(title) in (anchor, *anchors):
            self._module = self._module_before

        self._section = Section(
            title, anchor=anchor, anchors=anchors, headings=headings, module=self._module
        )
        self._sections.append(self._section)
        self._absorbing = None
        self._note_since()
        # Of a list item, the heading is the first text.
        self._marker = ""
        self._inner_heading = ""

    # -- entries that are no definition lists ------------------------------------------------------

    def _open_entry(self, tag: str, attributes: Mapping[str, str]) -> Close:
        self._flush()
        self._drop_marker()
        self._note_id(tag, attributes)
        self._permalink = ""
        self._capture = "heading"
        return partial(self._close_entry, _anchor(tag, attributes))

    def _close_entry(self, own_id: str) -> None:
        """Begin the entry that an element names, or add a further call to the one just begun."""
        text, anchor = self._captured(), own_id or (self._ids[-1] if self._ids else "")
        entry = self._read_entry(text.partition("\n")[0], text, anchor)
        if self._section.signatures and not self._section.blocks and self._joins(entry):
            self._add_call(entry, text, anchor)
            return

        if entry and len(self._sections) < MAX_SECTIONS:
            self._open_section(len(HEADINGS), "", anchor)
            self._set_entry(entry)
        else:
            self._emit(text)

    def _joins(self, entry: Entry | None) -> bool:
        """Whether the heading of an entry names a further call of the one before it."""
        joined = self._generator is not None and self._generator.joined
        return not self._ids or (joined and entry is not None)

    def _add_call(self, entry: Entry | None, text: str, anchor: str) -> None:
        """Add a further call, and its name and id if it has its own, to the entry just begun."""
        section = self._section
        lines = entry.signatures if entry and self._ids else text.split("\n")
        section.signatures += lines[: MAX_TERMS - len(section.signatures)]
        if self._ids and entry:
            section.names += [name for name in entry.names if name not in section.names]
            section.title = join_names(section.names)
            self._add_anchors(section, anchor)

    def _add_anchors(self, section: Section, own_id: str) -> None:
        """Keep further ids of what has an anchor already."""
        anchor, anchors = self._take_ids(own_id)
        if anchor and len(section.anchors) < MAX_ANCHORS:
            section.anchors += anchor, *anchors

    def _close_inner_heading(self) -> None:
        """Take a heading within an entry as text, unless it only says that code or text follows."""
        self._inner_heading = self._captured().replace("\n", " ")
        if self._inner_heading in RESULT_HEADINGS:
            self._marker = "Returns: "
        elif (
            self._inner_heading not in INNER_HEADINGS
            and self._inner_heading != self._generator_arguments
        ):
            self._emit(self._inner_heading)

    def _close_label(self) -> None:
        """Keep the name of a list for its first item."""
        self._label = self._captured()

    def _read_entry(self, heading: str, code: str, anchor: str) -> Entry | None:
        if self._generator is None or self._open_definitions or not code:
            return None
        title = self._h1 or self._head_title
        if self._generator.titled_by_head:
            title = self._head_title
        return self._generator.read_entry(heading[:MAX_TITLE], code[:MAX_TERM], title, anchor)

    def _begins_entry(self, heading: str, code: str) -> Entry | None:
        """Make an entry of the section if code below its heading tells what it defines."""
        if self._section.signatures:
            return None
        entry = self._read_entry(heading, code, self._section.anchor)
        if entry:
            self._set_entry(entry)
        return entry

    @property
    def _is_in_entry(self) -> bool:
        return self._generator is not None and bool(self._section.signatures)

    @property
    def _generator_arguments(self) -> str | None:
        """The heading of arguments in an entry, if it has such a table."""
        return self._generator.arguments or None if self._generator and self._is_in_entry else None

    def _set_entry(self, entry: Entry) -> None:
        section = self._section
        section.title, section.directive = join_names(entry.names), entry.directive
        section.names = list(entry.names)
        section.context = entry.context
        section.signatures = list(entry.signatures[:MAX_TERMS])
        if entry.is_whole_page:
            self._whole_page_entry = section
        if entry.summary:
            section.blocks.insert(0, Block(entry.summary))
        if entry.since:
            self._since_notes.append((section, f"{entry.since}."))

    # -- definitions -------------------------------------------------------------------------------

    def _open_dl(self, tag: str, attributes: Mapping[str, str], classes: Classes) -> Close:
        self._flush()
        self._drop_marker()
        self._note_id(tag, attributes)

        plain = (
            bool(classes & PLAIN_LISTS)
            or (bool(classes & FIELD_LISTS) and classes.isdisjoint(DOMAINS))
            or classes == {REMARKS}
            or self._is_in_entry
            or len(self._definition_lists) >= MAX_NESTED_LISTS
            or len(self._sections) >= MAX_SECTIONS
        )

        if not plain:
            self._absorbing = None

        self._definition_lists.append(
            _DefinitionList(_directive(attributes.get("class", "")), plain)
        )
        return self._close_dl

    def _close_dl(self) -> None:
        self._flush()
        self._drop_marker()
        section = self._definition_lists.pop().section
        if section is None:
            return
        self._open_definitions.pop()
        if not section.blocks and not self._open_definitions:
            # A bare signature: the prose that follows describes it.
            self._absorbing = section

    def _open_dt(self, tag: str, attributes: Mapping[str, str], classes: Classes) -> Close:
        self._flush()
        if not self._definition_lists:
            return self._open_block(tag, attributes, classes)

        self._drop_marker()
        self._capture = "term"
        self._term_names.clear()
        self._term_category = None
        self._term_tag = ""
        self._is_predicate = bool(classes & PREDICATES)

        if self._definition_lists[-1].plain or len(self._sections) >= MAX_SECTIONS:
            self._close_current_term = self._close_field
            return self._close_term

        self._ids.clear()
        self._note_id(tag, attributes)
        self._begin_definition(self._definition_lists[-1])
        self._close_current_term = partial(self._close_dt, _anchor(tag, attributes))

        return self._close_term

    def _close_term(self) -> None:
        if self._capture == "term":
            self._close_current_term()
        self._flush()

    def _begin_definition(self, definitions: _DefinitionList) -> None:
        # Several `dt` in a row are signatures of one definition, with or without an empty `dd`
        # between them (pod2html writes one after each).
        section = definitions.section
        if section is not None:
            is_empty = section is self._sections[-1] and not section.blocks
            if is_empty or not definitions.described:
                return
            self._open_definitions.pop()

        outer = self._open_definitions[-1] if self._open_definitions else self._section
        definitions.section = Section(
            directive=definitions.directive,
            anchor=outer.anchor,
            module=self._module,
            headings=tuple(title for _, title in self._headings),
            context=tuple(enclosing.title for enclosing in self._open_definitions),
        )

        definitions.described = False
        self._open_definitions.append(definitions.section)
        self._sections.append(definitions.section)

    def _close_dt(self, own_id: str) -> None:
        text, names = self._captured() + self._term_tag, list(self._term_names)
        section = self._definition_lists[-1].section
        if section is None or not text:
            return

        if section.signatures:
            self._add_anchors(section, own_id)
        else:
            anchor, section.anchors = self._take_ids(own_id)
            section.anchor = anchor or section.anchor

        if self._term_category is not None:
            section.directive = _texinfo_directive(self._term_category, text)
        elif self._is_predicate and not section.signatures:
            section.directive = "function" if _ARITY.search(section.anchor) else "option"
        _add_term(section, text, names, own_id)

    def _open_dd(self, tag: str, attributes: Mapping[str, str], classes: Classes) -> Close:
        self._flush()
        if self._definition_lists and not self._definition_lists[-1].plain:
            self._definition_lists[-1].described = True
        self._note_id(tag, attributes)
        return self._flush

    def _close_field(self) -> None:
        fields, text = self._definition_lists[-1], self._captured()
        fields.items += 1
        self._marker = f"{text.rstrip(':')}: " if text else ""
        self._marker_tight = fields.items > 1

    # -- lists, code, tables -----------------------------------------------------------------------

    def _open_list(self, tag: str, attributes: Mapping[str, str], classes: Classes) -> Close:
        self._flush()
        self._drop_marker()
        self._note_id(tag, attributes)
        self._item_lists.append(_ItemList(tag == "ol"))
        return self._close_list

    def _close_list(self) -> None:
        self._flush()
        self._marker = ""
        self._item_lists.pop()

    def _open_li(self, tag: str, attributes: Mapping[str, str], classes: Classes) -> Close:
        self._flush()
        self._drop_marker()
        self._note_id(tag, attributes)

        if self._item_lists:
            items = self._item_lists[-1]
            items.items += 1
            indent = "  " * min(len(self._item_lists) - 1, 8)
            label, self._label = self._label, ""
            item_mark = f"{items.items}. " if items.ordered else "- "
            self._marker = f"{label} " if label else indent + item_mark
            self._marker_tight = items.items > 1 or len(self._item_lists) > 1

        return self._flush

    def _open_pre(self, tag: str, attributes: Mapping[str, str], classes: Classes) -> Close:
        self._flush()
        self._drop_marker()
        self._capture = "code"
        self._note_id(tag, attributes)
        is_prose = self._generator is not None and bool(classes & self._generator.prose)
        return self._close_prose if is_prose else self._close_pre

    def _close_prose(self) -> None:
        """Take typed text: paragraphs are apart by empty lines, items of lists begin with a mark."""
        text = self._take_text()
        self._capture = ""
        for paragraph in _PARAGRAPH_END.split(text):
            self._emit(" ".join(paragraph.split()))

    def _close_pre(self) -> None:
        code = self._take_text().replace("\u00a0", " ").rstrip()
        self._capture = ""
        entry = self._begins_entry(self._inner_heading or self._section.title, code.strip())
        if entry and entry.has_all_code and len(code) <= MAX_TERM:
            return
        if self._is_declared_by(code):
            self._section.directive, self._section.names = "function", [self._section.title]
            self._section.signatures = [" ".join(code.split()).removesuffix(";")]
            return

        lines = code.split("\n")
        first = next((number for number, line in enumerate(lines) if line.strip()), len(lines))
        self._emit("\n".join(line.rstrip() for line in lines[first:]), atom=True)

    def _is_declared_by(self, code: str) -> bool:
        """Whether code is the declaration of the function that the heading above it names."""
        name, section = self._heading_code, self._section
        if not name or name != section.title or section.signatures or len(code) > MAX_TERM:
            return False
        is_first = len(section.blocks) <= 1 and not self._open_definitions
        declared = DECLARED.fullmatch(" ".join(code.split())) if is_first else None
        return declared is not None and declared[1] == name

    def _open_table(self, tag: str, attributes: Mapping[str, str], classes: Classes) -> Close:
        self._drop_marker()
        self._row_count = 0
        close = self._open_block(tag, attributes, classes)
        return self._close_table if close == self._flush else close

    def _close_table(self) -> None:
        """Begin an entry with a table of one row that names it and tells its properties."""
        self._flush()
        cells, self._only_row = self._only_row, []
        if self._row_count != 1 or not _heads_entry(cells) or not self._may_begin_entry:
            return

        self._section.blocks.pop()
        self._open_section(len(HEADINGS), cells[0][:MAX_TITLE], self._section.anchor)
        self._section.names = self._section.signatures = [self._section.title]
        has_default = any(cell.startswith("Default: ") for cell in cells)
        self._section.directive = "option" if has_default else "term"
        for number, cell in enumerate(cells[1:]):
            self._emit(cell, tight=number > 0)

    @property
    def _may_begin_entry(self) -> bool:
        return (
            self._generator is None
            and not (self._whole or self._open_definitions or self._open_boxes or self._absorbing)
            and len(self._sections) < MAX_SECTIONS
        )

    def _open_tr(self, tag: str, attributes: Mapping[str, str], classes: Classes) -> Close:
        self._flush()
        # A row within a row, as broken markup has it, ends the outer one.
        self._close_tr()
        self._note_id(tag, attributes)
        if self._generator and classes & self._generator.prototypes:
            self._capture = "prototype"
            return self._close_prototype
        self._cells = []
        return self._close_tr

    def _close_tr(self) -> None:
        self._flush()
        cells, self._cells = self._cells, None
        if cells and self._generator and self._generator.is_frame(cells[-1]):
            return
        if cells and self._begins_argument(cells):
            self._add_argument(cells[0], cells[1])
            return
        if cells and any(cells):
            row = " | ".join(cells).strip()
            self._emit(row, atom=True, tight=self._row_count > 0)
            self._row_count += 1
            self._only_row = cells if self._row_count == 1 and len(row) <= MAX_TERM else []

    def _begins_argument(self, cells: list[str]) -> bool:
        return (
            self._is_in_entry
            and self._inner_heading == self._generator_arguments
            and len(cells) == 2
            and all(cells)
            and len(self._sections) < MAX_SECTIONS
        )

    def _add_argument(self, term: str, text: str) -> None:
        """Make an entry of an argument, with the calls that show its default."""
        entry = self._section
        names = [name for part in term.split(",")[:MAX_NAMES] if (name := part.strip())]
        calls = [call for name in names for call in calls_with(entry.signatures, name)]
        self._sections.append(
            Section(
                join_names(names),
                "parameter",
                anchor=entry.anchor,
                headings=entry.headings,
                context=(entry.title,),
                names=names,
                signatures=calls[:MAX_TERMS] or [term],
                blocks=[Block(text)],
            )
        )

    def _open_cell(self, tag: str, attributes: Mapping[str, str], classes: Classes) -> Close:
        self._flush()
        self._note_id(tag, attributes)
        if self._cells is None or classes & CODE_CELLS:
            return self._flush
        self._capture = "cell"
        return self._close_cell

    def _close_cell(self) -> None:
        if self._cells is None or self._capture != "cell":
            self._flush()
        else:
            self._cells.append(self._captured().replace("\n", " "))

    def _unfold(self) -> None:
        """Turn the row's cells into paragraphs: the table turned out to lay out the page."""
        cells, self._cells = self._cells or [], None
        self._capture = ""
        for cell in filter(None, cells):
            self._emit(cell)
        self._flush()

    # -- text and ids ------------------------------------------------------------------------------

    def _captured(self) -> str:
        self._capture = ""
        return collapse(self._take_text())

    def _take_text(self) -> str:
        text = "".join(self._text)
        self._text.clear()
        self._is_blank = True
        return text

    def _flush(self) -> None:
        if not self._text:
            return
        text = collapse(self._take_text())
        if self._generator and self._generator.is_frame(text):
            return
        if text and not _NODE_LINKS.fullmatch(text):
            marker, self._marker = self._marker, ""
            self._emit(marker + text, tight=bool(marker) and self._marker_tight)

    def _drop_marker(self) -> None:
        """Drop a list marker that no text followed; a field's name is kept as text of its own."""
        marker, self._marker = self._marker.strip(), ""
        if marker.endswith(":"):
            self._emit(marker, tight=self._marker_tight)

    def _emit(self, text: str, *, atom: bool = False, tight: bool = False) -> None:
        if not text:
            return
        if self._label:
            label, self._label = self._label, ""
            self._emit(label)
        section = self._absorbing or self._section
        if self._open_definitions:
            section = self._open_definitions[-1]

        # What follows an example is a new paragraph.
        after_code = not atom and bool(section.blocks) and section.blocks[-1].atom
        section.blocks.append(Block(text, atom, tight and bool(section.blocks) and not after_code))
        if not self._id_ends_text:
            self._ids.clear()
        self._id_ends_text = False

    def _note_id(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Remember an id until text follows: it then is the anchor of that text."""
        anchor = _anchor(tag, attributes)
        if not anchor:
            return
        if anchor.startswith("module-"):
            self._module_before, self._module = self._module, anchor.removeprefix("module-")

        if not self._capture and not self._is_blank:
            self._ids.clear()
            self._id_ends_text = True

        if len(self._ids) < MAX_ANCHORS:
            self._ids.append(anchor)

    def _take_ids(self, preferred: str) -> tuple[str, list[str]]:
        """The anchor and further anchors of what comes next, `preferred` first."""
        ids = list(dict.fromkeys([preferred, *self._ids] if preferred else self._ids))
        self._ids.clear()
        return (ids[0], ids[1:]) if ids else ("", [])


_OPENERS: dict[str, Callable[[_Reader, str, Mapping[str, str], Classes], Close]] = {
    **dict.fromkeys(HEADINGS, _Reader._open_heading),
    "title": _Reader._open_title,
    "dl": _Reader._open_dl,
    "dt": _Reader._open_dt,
    "dd": _Reader._open_dd,
    "ul": _Reader._open_list,
    "ol": _Reader._open_list,
    "li": _Reader._open_li,
    "pre": _Reader._open_pre,
    "table": _Reader._open_table,
    "tr": _Reader._open_tr,
    "td": _Reader._open_cell,
    "th": _Reader._open_cell,
}


def _do_nothing() -> None:
    pass


def _is_furniture(tag: str, attributes: Mapping[str, str], classes: Classes) -> bool:
    return (
        tag in FURNITURE_TAGS
        or not classes.isdisjoint(FURNITURE_CLASSES)
        or (tag == "a" and not classes.isdisjoint(SOURCE_LINKS))
        or {"contents", "topic"} <= classes
        or attributes.get("role") in FURNITURE_ROLES
        or (tag == "div" and attributes.get("id") in FURNITURE_IDS)
        or (tag == "ul" and attributes.get("id") == FURNITURE_LIST)
    )


def _heads_entry(cells: list[str]) -> bool:
    """Whether a row has a name and then only properties: `limit | Type: integer | Default: 5`."""
    return len(cells) > 2 and bool(cells[0]) and all(map(_PROPERTY.match, cells[1:]))


def _is_copy(section: Section, mark: str) -> bool:
    """Whether an entry is told in full elsewhere; or names a type's own members without a word."""
    if section.directive == "implementation" and not section.blocks:
        return " for " not in section.title
    return bool(section.signatures and section.blocks) and section.blocks[-1].text.endswith(mark)


def _is_version(heading: str, number: str, enclosing: Iterable[str]) -> bool:
    """Whether the number that a heading begins with is the version that its text is about."""
    if number.rstrip().endswith("."):
        return False
    return bool(_VERSION.match(heading)) or any(map(_CHANGELOG.search, enclosing))


def _inline_parameters(match: re.Match[str]) -> str:
    parameters = _PARAMETER.sub("", match[2]).strip().removesuffix(",")
    return f"{match[1]}{parameters}"


def _anchor(tag: str, attributes: Mapping[str, str]) -> str:
    """The element's id as links have it, if it is not one of Sphinx's index entries."""
    anchor = attributes.get("id") or (tag == "a" and attributes.get("name")) or ""
    if len(anchor) > MAX_ANCHOR or _UNUSABLE_ID.search(anchor):
        return ""
    return anchor.replace(" ", "%20")


def _slug(title: str) -> str:
    """The id that Sphinx and docutils give a heading."""
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def _web_address(href: str) -> str:
    return href.partition("#")[0] if href.startswith(("https://", "http://")) else ""


def _directive(classes: str) -> str:
    """Sphinx's object type by the classes of a `dl` ("py method" -> "method"), or "term"."""
    names = [name for name in classes.split() if name not in ("compact", "docutils", "simple")]
    if len(names) > 1 and names[0] in DOMAINS:
        return DIRECTIVES.get(names[1], names[1][:64])
    return next((DIRECTIVES[name] for name in names if name in DIRECTIVES), "term")


def _texinfo_directive(category: str, term: str) -> str:
    """The object type by a category such as "Method on set"; without any, by the look of the term."""
    words = re.split(r" o[fn] ", category.lower(), maxsplit=1)[0].split()
    if not words:
        return "function" if "(" in term else "term"
    return TEXINFO_DIRECTIVES.get(words[-1], "term")


def _add_term(section: Section, text: str, names: list[str], own_id: str) -> None:
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
    for name in names or [text.replace("\n", ", ")[:MAX_TITLE]]:
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
