"""An HTML page -> its definitions and sections of prose, as a stream of tags.

No tree is built, so that neither the size of a page nor the depth of its nesting costs memory or stack. What a page
holds is told by its structure alone: `dl` lists are definitions (the paper's Algorithm 1), headings open sections.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

from lxml import etree

from index.records import Span

BREAK = "\u2028"
INVISIBLE = dict.fromkeys(map(ord, "\u00ad\u200b\u2060\ufeff"))
MAX_TITLE = 200
MAX_TERM = 2000
MAX_NESTED_LISTS = 32
MAX_ANCHORS = 16
MAX_ANCHOR = 500
MAX_TERMS = 64
MAX_SECTIONS = 200_000
PIECE = 1 << 16

HEADINGS = {f"h{level}": level for level in range(1, 7)}
BLOCKS = frozenset(
    "address article aside blockquote body caption center dd details div dl dt fieldset figcaption figure footer form "
    "header hr legend li main ol p section summary table tbody td tfoot th thead tr ul".split()
)
UNFOLDING = frozenset(["dl", "table", "h1", "h2", "h3"])
FURNITURE_TAGS = frozenset(
    "annotation button canvas footer iframe input nav noscript object script select style svg template textarea".split()
)
FURNITURE_CLASSES = frozenset(
    "breadcrumbs copybtn footer headerlink indexterm lineno linenos nav navbar navfooter navheader related skip-link "
    "sphinxsidebar toc toctree-wrapper viewcode-back viewcode-link".split()
)
FURNITURE_IDS = frozenset(
    "footer ft hd menu nav navigation searchbox sidebar table-of-contents toc".split()
)
FURNITURE_ROLES = frozenset("banner contentinfo navigation search".split())
PERMALINKS = frozenset("# ¶ § 🔗 \uf0c1".split())
BOXES = frozenset("admonition caution danger hint important note sidebar tip topic warning".split())
PLAIN_LISTS = frozenset("brackets citation docinfo field-list footnote".split())
NAMES = frozenset("descname option sig-name term varname".split())
DOMAINS = frozenset("c cpp go java js php py rb rst std".split())
DIRECTIVES = {
    **dict.fromkeys("abstractmethod awaitablemethod classmethod coroutinemethod".split(), "method"),
    **dict.fromkeys("decoratormethod staticmethod".split(), "method"),
    **dict.fromkeys("awaitablefunction coroutinefunction decorator".split(), "function"),
    "cmdoption": "option",
    "django-admin-option": "option",
    "option-list": "option",
    "describe": "describe",
    "object": "object",
    "glossary": "glossary",
}

_UNUSABLE_ID = re.compile(r"\Aindex-\d+\Z|\s")
_NUMBER = re.compile(r"\A(?:[A-Z]\.)?(?:\d+\.)+\d*\s+")
_OPTION_END = re.compile(r"[\s=\[]")

Classes = frozenset[str]
_NO_CLASSES: Classes = frozenset()
Close = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Block:
    """A paragraph, list item, code block or table row; `tight` ones follow the one before after a single newline."""

    text: str
    atom: bool = False
    tight: bool = False


@dataclass(slots=True)
class Section:
    """One document in the making: a definition (it has signatures), or a section of prose.

    `anchor` is the nearest id, `anchors` are further ids of the same place. `headings` are the enclosing ones,
    outermost first, and `context` the terms of the enclosing definitions.
    """

    title: str = ""
    directive: str = "section"
    anchor: str = ""
    module: str = ""
    headings: tuple[str, ...] = ()
    context: tuple[str, ...] = ()
    names: list[str] = field(default_factory=list)
    anchors: list[str] = field(default_factory=list)
    signatures: list[str] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)

    @property
    def signature(self) -> str:
        """All lines of the definition's head; empty for prose."""
        return "\n".join(self.signatures)

    def compose(self) -> tuple[str, tuple[Span, ...]]:
        """The body and its atoms; a signature is the first of both."""
        head = [Block(self.signature, atom=True)] if self.signatures else []
        return compose([*head, *self.blocks])


@dataclass(slots=True)
class Page:
    """What a page holds: its title (first h1, else `<title>`), canonical url (or ""), entries in reading order."""

    title: str
    url: str
    entries: list[Section]


@dataclass(slots=True)
class _DefinitionList:
    directive: str
    plain: bool
    items: int = 0
    entry: Section | None = None
    described: bool = False


@dataclass(slots=True)
class _ItemList:
    ordered: bool
    items: int = 0


def read_page(markup: str, *, whole: bool = False) -> Page:
    """Read a page leniently; `whole` gives one entry with all its text, headings and terms included."""
    reader = _Reader(whole)
    parser = etree.HTMLParser(
        target=reader,  # type: ignore[arg-type]
        encoding="utf-8",
        no_network=True,
        huge_tree=True,
        remove_comments=True,
        remove_pis=True,
    )

    try:
        for start in range(0, len(markup), PIECE):
            parser.feed(markup[start : start + PIECE].replace("\0", "\ufffd").encode())
        parser.close()
    except etree.XMLSyntaxError:
        pass  # nothing but white space, or a tag that never ends: what was read up to there stands

    return reader.page()


def compose(blocks: Iterable[Block]) -> tuple[str, tuple[Span, ...]]:
    """Join blocks by blank lines (tight ones by a newline) -> the text, and the spans of its atoms."""
    parts: list[str] = []
    atoms: list[Span] = []
    at = 0

    for block in blocks:
        gap = "" if not parts else "\n" if block.tight else "\n\n"
        at += len(gap)
        if block.atom:
            atoms.append(Span(at, at + len(block.text)))

        at += len(block.text)
        parts += gap, block.text

    return "".join(parts), tuple(atoms)


def collapse(text: str) -> str:
    """Runs of white space become one blank; explicit breaks become newlines; invisible characters go."""
    lines = (" ".join(line.split()) for line in text.translate(INVISIBLE).split(BREAK))
    return "\n".join(line for line in lines if line)


def join_names(names: Iterable[str]) -> str:
    """Distinct names joined by commas, as many as fit a title; the first is cut if it alone does not."""
    title = ""
    for name in dict.fromkeys(names):
        longer = f"{title}, {name}" if title else name[:MAX_TITLE]
        if len(longer) > MAX_TITLE:
            break
        title = longer
    return title


class _Reader:
    """The parser's target. Each opened element leaves on a stack what is to be done when it closes."""

    def __init__(self, whole: bool) -> None:
        self._whole = whole
        self._closers: list[Close] = []
        self._skipping = 0
        self._text: list[str] = []
        self._blank = True
        self._lead_tight = False
        self._url = ""
        self._head_title = ""
        self._inside_main: bool | None = None
        self._module = self._module_before = ""
        self._begin()

    def _begin(self) -> None:
        self._capture = ""
        self._lead = ""
        self._h1 = ""
        self._section = Section(directive="page" if self._whole else "section")
        self._entries = [self._section]
        self._path: list[tuple[int, str]] = []
        self._lists: list[_DefinitionList] = []
        self._items: list[_ItemList] = []
        self._definitions: list[Section] = []
        self._absorbing: Section | None = None
        self._boxes = 0
        self._rows = 0
        self._row: list[str] | None = None
        self._ids: list[str] = []
        self._id_ends_text = False
        self._link = ""
        self._names: list[str] = []
        self._finish_term: Close = _nothing

    # -- the parser's side ---------------------------------------------------------------------------------------

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if self._skipping:
            self._skipping += 1
            return

        classes = frozenset(attributes["class"].split()) if "class" in attributes else _NO_CLASSES
        if _is_furniture(tag, attributes, classes):
            if "headerlink" in classes:
                self._link = attributes.get("href", "").partition("#")[2][:MAX_ANCHOR]
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
            if (self._blank or self._id_ends_text) and text.strip():
                self._blank = self._id_ends_text = False

    def close(self) -> None:
        """Required by the parser; what is pending is taken up by `page`."""

    def page(self) -> Page:
        self._flush()
        title = self._h1 or self._head_title
        self._entries[0].title = title
        kept = [entry for entry in self._entries if entry.blocks or entry.signatures]

        if title and not self._h1:
            for entry in kept:
                if title != (*entry.headings, entry.title)[0]:
                    entry.headings = (title, *entry.headings)

        return Page(title, self._url, kept)

    # -- opening elements ----------------------------------------------------------------------------------------

    def _open(self, tag: str, attributes: Mapping[str, str], classes: Classes) -> Close:
        if (tag == "main" or attributes.get("role") == "main") and not self._inside_main:
            return self._open_main(tag, attributes)
        if self._inside_main is False:
            return _nothing
        if self._capture == "cell" and tag in UNFOLDING:
            self._unfold()
        if self._capture == "term" and tag in ("dd", "dt"):
            self._close_term()  # of a `dt` without end tag, which the parser lets the next one nest in

        if self._capture:
            self._see(tag, attributes)
            return self._open_captured(tag, attributes, classes)

        opener = _OPENERS.get(tag)
        if opener is None or (self._whole and tag in ("dl", "dt", "dd")):
            opener = _Reader._open_block if tag in BLOCKS else _Reader._open_inline

        return opener(self, tag, attributes, classes)

    def _open_main(self, tag: str, attributes: Mapping[str, str]) -> Close:
        if self._inside_main is None:
            self._take_text()
            self._begin()
            self._closers[:] = [_nothing] * len(self._closers)
        self._inside_main = True
        self._see(tag, attributes)
        return self._close_main

    def _close_main(self) -> None:
        self._flush()
        self._inside_main = False

    def _open_captured(self, tag: str, attributes: Mapping[str, str], classes: Classes) -> Close:
        if tag == "br":
            self._text.append("\n" if self._capture == "code" else BREAK)
        elif self._capture == "term" and classes & NAMES:
            return partial(self._close_name, len(self._text), len(self._names))
        elif self._capture in ("heading", "term") and attributes.get("href", "").startswith("#"):
            return partial(self._close_link, len(self._text), attributes["href"][1:][:MAX_ANCHOR])
        elif self._capture != "code" and tag in BLOCKS:
            self._text.append(" ")
            return partial(self._text.append, " ")

        return _nothing

    def _close_link(self, text_start: int, anchor: str) -> None:
        """A link to the place itself that only shows a mark says where the place is, and is not part of its name."""
        if "".join(self._text[text_start:]).strip() in PERMALINKS:
            del self._text[text_start:]
            self._link = anchor

    def _close_name(self, text_start: int, names_before: int) -> None:
        name = collapse("".join(self._text[text_start:])).replace("\n", " ")
        if name and len(self._names) == names_before:
            option = name.startswith("-")
            self._names.append(
                (_OPTION_END.split(name, maxsplit=1)[0] if option else name)[:MAX_TITLE]
            )

    def _open_inline(self, tag: str, attributes: Mapping[str, str], classes: Classes) -> Close:
        self._see(tag, attributes)
        if tag == "br":
            self._text.append(BREAK)
        elif tag == "img" and "math" in classes:
            self._text.append(attributes.get("alt", ""))
        elif tag == "link" and attributes.get("rel") == "canonical":
            self._url = _web_address(attributes.get("href", ""))
        return _nothing

    def _open_block(self, tag: str, attributes: Mapping[str, str], classes: Classes) -> Close:
        self._flush()
        self._see(tag, attributes)
        if not classes & BOXES:
            return self._flush
        self._boxes += 1
        return self._close_box

    def _close_box(self) -> None:
        self._flush()
        self._boxes -= 1

    def _open_title(self, tag: str, attributes: Mapping[str, str], classes: Classes) -> Close:
        self._flush()
        self._capture = "title"
        return self._close_title

    def _close_title(self) -> None:
        self._head_title = _heading_text(self._captured())

    # -- headings ------------------------------------------------------------------------------------------------

    def _open_heading(self, tag: str, attributes: Mapping[str, str], classes: Classes) -> Close:
        self._flush()
        if self._boxes or self._definitions:
            return self._open_block(tag, attributes, classes)
        self._link = ""
        self._capture = "heading"
        self._see(tag, attributes)
        return partial(self._close_heading, HEADINGS[tag], _anchor(tag, attributes))

    def _close_heading(self, level: int, own_id: str) -> None:
        title = _heading_text(self._captured())
        if level == 1 and not self._h1:
            self._h1 = title
        if self._whole or len(self._entries) >= MAX_SECTIONS:
            self._emit(title)
        elif title:
            self._open_section(level, title, self._link or own_id)

    def _open_section(self, level: int, title: str, anchor: str) -> None:
        while self._path and self._path[-1][0] >= level:
            self._path.pop()

        headings = tuple(above for _, above in self._path)
        self._path.append((level, title))
        anchor, anchors = self._take_ids(anchor or (self._ids[-1] if self._ids else ""))

        if (
            f"module-{self._module}" == _slug(title) in (anchor, *anchors)
        ):  # of a heading such as "Module Contents"
            self._module = self._module_before

        self._section = Section(
            title, anchor=anchor, anchors=anchors, headings=headings, module=self._module
        )
        self._entries.append(self._section)
        self._absorbing = None

    # -- definitions ---------------------------------------------------------------------------------------------

    def _open_dl(self, tag: str, attributes: Mapping[str, str], classes: Classes) -> Close:
        self._flush()
        self._drop_lead()
        self._see(tag, attributes)

        plain = (
            bool(classes & PLAIN_LISTS)
            or len(self._lists) >= MAX_NESTED_LISTS
            or len(self._entries) >= MAX_SECTIONS
        )

        if not plain:
            self._absorbing = None

        self._lists.append(_DefinitionList(_directive(attributes.get("class", "")), plain))
        return self._close_dl

    def _close_dl(self) -> None:
        self._flush()
        self._drop_lead()
        entry = self._lists.pop().entry
        if entry is None:
            return
        self._definitions.pop()
        if not entry.blocks and not self._definitions:
            self._absorbing = entry  # a bare signature: the prose that follows describes it

    def _open_dt(self, tag: str, attributes: Mapping[str, str], classes: Classes) -> Close:
        self._flush()
        if not self._lists:
            return self._open_block(tag, attributes, classes)

        self._drop_lead()
        self._capture = "term"
        self._names.clear()

        if self._lists[-1].plain or len(self._entries) >= MAX_SECTIONS:
            self._finish_term = self._close_field
            return self._close_term

        self._ids.clear()
        self._see(tag, attributes)
        self._begin_definition(self._lists[-1])
        self._finish_term = partial(self._close_dt, _anchor(tag, attributes))

        return self._close_term

    def _close_term(self) -> None:
        if self._capture == "term":
            self._finish_term()
        self._flush()

    def _begin_definition(self, definitions: _DefinitionList) -> None:
        if definitions.entry is not None and not definitions.described:
            return
        if definitions.entry is not None:
            self._definitions.pop()

        outer = self._definitions[-1] if self._definitions else self._section
        definitions.entry = Section(
            directive=definitions.directive,
            anchor=outer.anchor,
            module=self._module,
            headings=tuple(title for _, title in self._path),
            context=tuple(enclosing.title for enclosing in self._definitions),
        )

        definitions.described = False
        self._definitions.append(definitions.entry)
        self._entries.append(definitions.entry)

    def _close_dt(self, own_id: str) -> None:
        text, names = self._captured(), list(self._names)
        entry = self._lists[-1].entry
        if entry is None or not text:
            return

        anchor, anchors = self._take_ids(own_id)
        if anchor and not entry.signatures:
            entry.anchor = anchor
            entry.anchors = anchors
        elif anchor and len(entry.anchors) < MAX_ANCHORS:
            entry.anchors += anchor, *anchors

        _head(entry, text, names, own_id)

    def _open_dd(self, tag: str, attributes: Mapping[str, str], classes: Classes) -> Close:
        self._flush()
        if self._lists and not self._lists[-1].plain:
            self._lists[-1].described = True
        self._see(tag, attributes)
        return self._flush

    def _close_field(self) -> None:
        fields, text = self._lists[-1], self._captured()
        fields.items += 1
        self._lead = f"{text.rstrip(':')}: " if text else ""
        self._lead_tight = fields.items > 1

    # -- lists, code, tables -------------------------------------------------------------------------------------

    def _open_list(self, tag: str, attributes: Mapping[str, str], classes: Classes) -> Close:
        self._flush()
        self._drop_lead()
        self._see(tag, attributes)
        self._items.append(_ItemList(tag == "ol"))
        return self._close_list

    def _close_list(self) -> None:
        self._flush()
        self._lead = ""
        self._items.pop()

    def _open_li(self, tag: str, attributes: Mapping[str, str], classes: Classes) -> Close:
        self._flush()
        self._drop_lead()
        self._see(tag, attributes)

        if self._items:
            items = self._items[-1]
            items.items += 1
            indent = "  " * min(len(self._items) - 1, 8)
            self._lead = indent + (f"{items.items}. " if items.ordered else "- ")
            self._lead_tight = items.items > 1 or len(self._items) > 1

        return self._flush

    def _open_pre(self, tag: str, attributes: Mapping[str, str], classes: Classes) -> Close:
        self._flush()
        self._drop_lead()
        self._capture = "code"
        self._see(tag, attributes)
        return self._close_pre

    def _close_pre(self) -> None:
        code = self._take_text().replace("\u00a0", " ").rstrip()
        self._capture = ""
        lines = code.split("\n")
        first = next((number for number, line in enumerate(lines) if line.strip()), len(lines))
        self._emit("\n".join(line.rstrip() for line in lines[first:]), atom=True)

    def _open_table(self, tag: str, attributes: Mapping[str, str], classes: Classes) -> Close:
        self._drop_lead()
        self._rows = 0
        return self._open_block(tag, attributes, classes)

    def _open_tr(self, tag: str, attributes: Mapping[str, str], classes: Classes) -> Close:
        self._flush()
        self._see(tag, attributes)
        self._row = []
        return self._close_tr

    def _close_tr(self) -> None:
        self._flush()
        row, self._row = self._row, None
        if row and any(row):
            self._emit(" | ".join(row).strip(), atom=True, tight=self._rows > 0)
            self._rows += 1

    def _open_cell(self, tag: str, attributes: Mapping[str, str], classes: Classes) -> Close:
        self._flush()
        self._see(tag, attributes)
        if self._row is None or "code" in classes:
            return self._flush
        self._capture = "cell"
        return self._close_cell

    def _close_cell(self) -> None:
        if self._row is None or self._capture != "cell":
            self._flush()
        else:
            self._row.append(self._captured().replace("\n", " "))

    def _unfold(self) -> None:
        """The table turns out to lay out the page: what its row holds so far becomes paragraphs."""
        cells, self._row = self._row or [], None
        self._capture = ""
        for cell in filter(None, cells):
            self._emit(cell)
        self._flush()

    # -- text and places -----------------------------------------------------------------------------------------

    def _captured(self) -> str:
        self._capture = ""
        return collapse(self._take_text())

    def _take_text(self) -> str:
        text = "".join(self._text)
        self._text.clear()
        self._blank = True
        return text

    def _flush(self) -> None:
        if not self._text:
            return
        text = collapse(self._take_text())
        if text:
            lead, self._lead = self._lead, ""
            self._emit(lead + text, tight=bool(lead) and self._lead_tight)

    def _drop_lead(self) -> None:
        """A mark without text goes; the name of a field without text stays."""
        lead, self._lead = self._lead.strip(), ""
        if lead.endswith(":"):
            self._emit(lead, tight=self._lead_tight)

    def _emit(self, text: str, *, atom: bool = False, tight: bool = False) -> None:
        if not text:
            return
        entry = self._definitions[-1] if self._definitions else self._absorbing or self._section
        after_code = not atom and bool(entry.blocks) and entry.blocks[-1].atom
        entry.blocks.append(Block(text, atom, tight and bool(entry.blocks) and not after_code))
        if not self._id_ends_text:
            self._ids.clear()
        self._id_ends_text = False

    def _see(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Remember an id until text follows it: it then names the place of that text."""
        anchor = _anchor(tag, attributes)
        if not anchor:
            return
        if anchor.startswith("module-"):
            self._module_before, self._module = self._module, anchor.removeprefix("module-")

        if not self._capture and not self._blank:
            self._ids.clear()
            self._id_ends_text = True

        if len(self._ids) < MAX_ANCHORS:
            self._ids.append(anchor)

    def _take_ids(self, preferred: str) -> tuple[str, list[str]]:
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


def _nothing() -> None:
    pass


def _is_furniture(tag: str, attributes: Mapping[str, str], classes: Classes) -> bool:
    return (
        tag in FURNITURE_TAGS
        or not classes.isdisjoint(FURNITURE_CLASSES)
        or {"contents", "topic"} <= classes
        or attributes.get("role") in FURNITURE_ROLES
        or (tag == "div" and attributes.get("id") in FURNITURE_IDS)
    )


def _heading_text(text: str) -> str:
    """Without its section number, on one line, no longer than a title may be."""
    return _NUMBER.sub("", text.replace("\n", " "), count=1)[:MAX_TITLE]


def _anchor(tag: str, attributes: Mapping[str, str]) -> str:
    """The element's own id, if it can be linked to and is not Sphinx's mark of an index entry."""
    anchor = attributes.get("id") or (tag == "a" and attributes.get("name")) or ""
    return "" if len(anchor) > MAX_ANCHOR or _UNUSABLE_ID.search(anchor) else anchor


def _slug(title: str) -> str:
    """The id that Sphinx and docutils give a heading."""
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def _web_address(href: str) -> str:
    return href.partition("#")[0] if href.startswith(("https://", "http://")) else ""


def _directive(classes: str) -> str:
    """Sphinx's object type from the classes of a `dl` ("py method" -> "method"), or "term"."""
    names = [name for name in classes.split() if name not in ("compact", "docutils", "simple")]
    if len(names) > 1 and names[0] in DOMAINS:
        return DIRECTIVES.get(names[1], names[1][:64])
    return next((DIRECTIVES[name] for name in names if name in DIRECTIVES), "term")


def _head(entry: Section, text: str, names: list[str], own_id: str) -> None:
    """Add one `dt` to a definition: its line, the names it defines, the title they make."""
    if len(text) > MAX_TERM:
        cut = text.rfind(" ", 0, MAX_TERM) if " " in text[:MAX_TERM] else MAX_TERM
        entry.blocks.append(Block(text[cut:].strip()))
        text = text[:cut]

    if len(entry.signatures) >= MAX_TERMS:
        entry.blocks.append(Block(text, atom=True, tight=bool(entry.blocks)))
        return

    entry.signatures.append(text)
    for name in names or [text.replace("\n", ", ")[:MAX_TITLE]]:
        qualified = _qualified(name, own_id)
        if not any(known == qualified or known.endswith(f".{qualified}") for known in entry.names):
            entry.names.append(qualified)

    entry.title = join_names(entry.names)
    if entry.directive == "term" and all(name.startswith("-") for name in entry.names):
        entry.directive = "option"


def _qualified(name: str, anchor: str) -> str:
    """Sphinx's anchors carry the whole name: "zfill" at "str.zfill", "tp_name" at "c.PyTypeObject.tp_name"."""
    whole = anchor.removeprefix("c.")
    return whole if whole.endswith(f".{name}") else name
