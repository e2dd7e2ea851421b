"""Sections of a page in their order, and which of them the text belongs to."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from purlin.index.sources.references.html.generators import Generator
from purlin.index.sources.references.html.vocabulary import PROPERTY
from purlin.index.sources.references.page_sections import Block, Page, Section

MAX_SECTIONS = 200_000
CONTENTS_HEADING = "table of contents"
_NAME = re.compile(r"<?[\w$.:-]+>?")
_DEFAULT = re.compile(r"Default(?: value)?: ")
# The heading of releases: "v1.13.4 - January 27, 2026", "[2.0.0-rc.1] (unreleased)", "3.21.5, 3.21.6".
# Without a date or brackets, "4.1 - Installation" is a section with its number.
_RELEASE = re.compile(
    r"(?:(?:release|version) )?\[?v?\d+(?:\.\d+)+[\w.+-]{0,30}\]?"
    r"(?:(?:, \d[\d.]*)+|,? [(\[].{0,80}[)\]]"
    r"|,? (?=.{0,80}(?:\d{4}|unreleased))[(\[\d\u2012-\u2015/-].{0,80})?",
    re.IGNORECASE,
)


@dataclass(slots=True)
class Head:
    """What a page's head says: its title, its canonical address, and whether it leads elsewhere."""

    title: str = ""
    url: str = ""
    redirects: bool = False


class Outline:
    """The sections of a page, a single one if it is `whole`, and where in them the text stands."""

    def __init__(self, *, whole: bool) -> None:
        # The section of the last heading that opened one; definitions follow it.
        self.section = Section(directive="page" if whole else "section")
        self.sections = [self.section]
        self.definitions: list[Section] = []
        # A definition without text: the prose after its list describes it.
        self.bare_definition: Section | None = None
        # A section to the end of the page: headings after it are text of it.
        self.final_section: Section | None = None

        self.first_heading = ""
        # The last heading in the section that is text of it.
        self.inner_heading = ""
        # Boxes such as notes, whose headings are text.
        self.open_boxes = 0

        self._headings: list[tuple[int, str]] = []
        self._notes: list[tuple[Section, str]] = []
        self._limit = 1 if whole else MAX_SECTIONS

    @property
    def is_full(self) -> bool:
        """Whether no further section may begin."""
        return len(self.sections) >= self._limit

    @property
    def is_nested(self) -> bool:
        """Whether what comes next is within a definition or a box."""
        return bool(self.open_boxes or self.definitions)

    @property
    def target(self) -> Section:
        """The section that text belongs to."""
        return self.definitions[-1] if self.definitions else self.bare_definition or self.section

    def titles_above(self, level: int) -> Iterator[str]:
        """Yield the headings that enclose a heading of some level, outermost first."""
        return (title for outer, title in self._headings if outer < level)

    def begin_section(self, level: int, section: Section) -> None:
        """Open a section with a heading, below those of lower levels."""
        while self._headings and self._headings[-1][0] >= level:
            self._headings.pop()

        section.headings = tuple(heading for _, heading in self._headings)
        self._headings.append((level, section.title))
        self.section = section
        self.sections.append(section)
        self.bare_definition = None
        self.inner_heading = ""

    def begin_definition(self, directive: str, module: str) -> Section:
        """Open a definition within those that are open."""
        outer = self.definitions[-1] if self.definitions else self.section
        definition = Section(
            directive=directive,
            anchor=outer.anchor,
            module=module,
            headings=tuple(title for _, title in self._headings),
            context=tuple(enclosing.title for enclosing in self.definitions),
        )

        self.definitions.append(definition)
        self.sections.append(definition)
        return definition

    def add_note(self, text: str) -> None:
        """Keep a sentence about the section, without its full stop, as its last paragraph."""
        self._notes.append((self.section, f"{text}."))

    def page(self, head: Head, generator: Generator) -> Page:
        """Return the page with the sections that say something."""
        if head.redirects:
            return Page("", head.url, [])

        sections = self.sections
        if generator.copied:
            sections = [each for each in sections if not _is_copy(each, generator.copied)]
        if generator.summarized:
            _drop_summaries(sections)
        for section, note in self._notes:
            section.blocks.append(Block(note))

        # A manual page's first heading is NAME, also in Perl's POD: it names no page.
        has_own_title = self.first_heading not in ("", "NAME") and not generator.module_pages
        title = self.first_heading if has_own_title else head.title or self.first_heading
        self.sections[0].title = title
        sections = [section for section in sections if section.blocks or section.signatures]
        sections = [section for section in sections if section.title.lower() != CONTENTS_HEADING]
        for section in sections:
            if _is_setting(section):
                section.names = section.signatures = [section.title]
                section.directive = "option"
            _name_release(section)

        if title and not has_own_title:
            for section in sections:
                if title != (*section.headings, section.title)[0]:
                    section.headings = (title, *section.headings)

        return Page(title, head.url, sections)


def _name_release(section: Section) -> None:
    """Begin a section about a release with its number, which answers "since which version"."""
    headings = (*section.headings, section.title)
    release = next(filter(_RELEASE.fullmatch, reversed(headings)), "")
    if release and section.directive == "section":
        section.blocks.insert(0, Block(release))


def _drop_summaries(sections: Iterable[Section]) -> None:
    """Drop a first paragraph that the next one begins with."""
    for section in sections:
        first, second = [*(block.text for block in section.blocks[:2]), "", ""][:2]
        if first and second.startswith(first):
            del section.blocks[0]


def _is_setting(section: Section) -> bool:
    """Whether a section has a name and begins with its properties: `Type: number`, `Default: 5`."""
    if section.directive != "section" or section.signatures or not section.blocks:
        return False
    if not is_name(section.title):
        return False
    first, *rest = section.blocks
    properties = first.text.split("\n")
    if not all(map(PROPERTY.match, properties)):
        return False
    properties += [each.text for each in rest if each.tight and PROPERTY.match(each.text)]
    return len(properties) > 1 and any(map(_DEFAULT.match, properties))


def is_name(title: str) -> bool:
    """Whether a heading is a name."""
    return _NAME.fullmatch(title) is not None


def _is_copy(section: Section, mark: str) -> bool:
    """Whether an entry is told in full elsewhere; or names a type's own members without a word."""
    if section.directive == "implementation" and not section.blocks:
        return " for " not in section.title
    return bool(section.signatures and section.blocks) and section.blocks[-1].text.endswith(mark)
