"""Read the macros of mdoc(7), in which BSD's manual pages are written, as HTML."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from purlin.index.sources.references.page_markup import BOLD, PLAIN, PageMarkup
from purlin.index.sources.references.roff import Macros, Strings, quoted_tokens
from purlin.index.sources.words import words

_CLOSING = words(". , : ; ) ] ? !")
_OPENING = words("( [")
# Macros around the rest of their line, and those that open and close over several lines.
_PAIRS = {"D": "“”", "S": "‘’", "Q": '""', "P": "()", "B": "[]", "Br": "{}", "A": "<>"}
_ENCLOSING = {f"{name}q": marks for name, marks in _PAIRS.items()} | {"Op": "[]", "Ql": "‘’"}
_OPENERS = {f"{name}o": marks[0] for name, marks in _PAIRS.items()} | {"Oo": "["}
_CLOSERS = {f"{name}c": marks[1] for name, marks in _PAIRS.items()} | {"Oc": "]"}
# Macros whose words are bold, and those whose words are plain.
_BOLD = words("Cm Ic Sy Nm Cd Fd Ft Vt")
_PLAIN = words("Ad An Dv Em Er Ev Fa Li Ms No Sx Tn Va Xo Xc D1 Dl Lb Bk Ek Mt")
# What macros stand for: systems, before what else their line has, and what has no arguments.
_SYSTEMS = {"Ux": "UNIX", "Bx": "BSD", "Fx": "FreeBSD", "Nx": "NetBSD", "Ox": "OpenBSD"}
_SYSTEMS |= {"Dx": "DragonFly", "At": "AT&T UNIX", "Bsx": "BSD/OS"}
_DEFAULTS = {"Ar": "file ...", "Pa": "~"}
# Macros that are read in ways of their own.
_SPECIAL = "Ap Ar Fl Fn Fo Fc In Lk Ns Pa Pf Sm St Ta Xr Ex Rv".split()
# All that may stand within a line.
_CALLABLE = frozenset(
    [*_ENCLOSING, *_OPENERS, *_CLOSERS, *_BOLD, *_PLAIN, *_SYSTEMS, *_DEFAULTS, *_SPECIAL]
)
_TERM_LISTS = words("-tag -hang -ohang -inset -diag")
_CODE_DISPLAYS = frozenset(["-literal", "-unfilled"])
MAX_LISTS = 32

# Between cells of a row, in text that is not yet written.
_CELL = "\x04"
# What joins the words on both of its sides.
_JOINTS = {"Ns": "", "Ap": "'", "Ta": _CELL}
# Words of a line, each with whether it stood in quotes.
Words = Sequence[tuple[str, bool]]


class _Words:
    """Words of one line, with what is between them: a space, unless a macro says otherwise."""

    def __init__(self, *, spaced: bool) -> None:
        self._parts: list[str] = []
        self.spaced = spaced
        self.joins = True

    def add(self, word: str) -> None:
        self._parts.append(word if self.joins or not self.spaced else f" {word}")
        self.joins = False

    def open(self, mark: str) -> None:
        """Add what the next word follows without a space, such as a bracket."""
        self.add(mark)
        self.joins = True

    def attach(self, word: str) -> None:
        """Add what follows without a space, such as a full stop."""
        self._parts.append(word)
        self.joins = False

    def text(self) -> str:
        return "".join(self._parts)


class MdocReader:
    """Reads one page."""

    def __init__(self) -> None:
        self._strings = Strings()
        self._page = PageMarkup()
        self._title = self._section = self._name = self._heading = ""

        # Whether words are apart, and whether they were on the line before.
        self._spaced = self._was_spaced = True

        # The open lists; and of a term over several lines, what it has so far.
        self._lists: list[str] = []
        self._rows: list[list[str]] = []
        self._cell: list[str] = []
        self._head: list[str] | None = None
        self._reference: list[str] | None = None

    def read(self, source: str) -> tuple[PageMarkup, str, str]:
        """The page, its name and its section of the manual."""
        for line, macro, arguments in Macros(self._strings).read(source):
            self._page.line = line
            if not macro:
                self._text_line(arguments)
            else:
                self._macro(macro, arguments)
        return self._page, self._title or self._name, self._section

    def _text_line(self, source: str) -> None:
        text = self._strings.text(source)
        if self._page.is_code or text.strip():
            self._add(text)
        else:
            self._page.end_paragraph()

    def _add(self, text: str) -> None:
        if self._head is not None:
            self._head += " " * self._was_spaced, text
        elif self._reference is not None:
            self._reference.append(text)
        elif self._rows and self._lists[-1:] == ["table"]:
            self._cell += " ", text
        else:
            self._page.text(text, joins=not self._spaced)

        self._was_spaced = self._spaced

    # -- blocks ------------------------------------------------------------------------------------

    def _macro(self, macro: str, arguments: str) -> None:
        # After `\\&`, a mark is a word like any other.
        words = [
            (self._strings.text(word), quoted or "\\&" in word)
            for word, quoted in quoted_tokens(arguments)
        ]

        if action := _ACTIONS.get(macro):
            action(self, words)
        elif macro.startswith("%"):
            self._add(_plain(words))
        elif macro == "Xc" and self._head is not None:
            self._end_head(self._inline(words))
        elif macro in _CALLABLE:
            if macro == "Nm" and self._heading == "SYNOPSIS" and self._head is None:
                self._page.line_break()
            self._line(macro, words)
        elif macro not in ("Dd", "Os") and not macro.islower():
            self._add(_plain(words))

    def _set_title(self, words: Words) -> None:
        self._title, self._section = [*(word for word, _ in words), "", ""][:2]

    def _begin_display(self, words: Words) -> None:
        if _CODE_DISPLAYS & {word for word, _ in words}:
            self._page.begin_code()
        else:
            self._page.end_paragraph()

    def _display_line(self, words: Words) -> None:
        self._page.begin_code()
        self._add(self._inline(words))
        self._page.end_code()

    def _begin_reference(self) -> None:
        self._reference = []

    def _end_reference(self) -> None:
        parts, self._reference = self._reference or [], None
        self._add(", ".join(parts) + "." if parts else "")

    def _line(self, macro: str, words: Words) -> None:
        if text := self._inline([(macro, False), *words]):
            self._add(text)

    def _begin_section(self, level: int, title: str) -> None:
        self._lists.clear()
        self._head = None
        self._page.heading(level, title)
        if level == 2:
            self._heading = title

    def _open_list(self, words: Words) -> None:
        options = {word for word, _ in words}
        kind = "ul"
        if _TERM_LISTS & options:
            kind = "dl"
        elif "-enum" in options:
            kind = "ol"
        elif "-column" in options and "table" not in self._lists:
            kind = "table"

        # A list within an item is indented there; further ones add their items to it.
        if len(self._lists) < MAX_LISTS:
            self._page.indent()
        self._lists.append(kind)

    def _item(self, words: Words) -> None:
        kind = self._lists[-1] if self._lists else "dl"

        if kind == "table":
            self._end_row()
            self._rows.append([cell.strip() for cell in self._inline(words).split(_CELL)])
        elif kind == "dl":
            if ("Xo", False) in words:
                self._head = [self._inline(words)]
                self._was_spaced = True
            else:
                self._page.term(self._inline(words))
        else:
            self._page.item(kind)

    def _end_head(self, end: str) -> None:
        head, self._head = self._head or [], None
        self._page.term(f"{''.join(head)} {end}")

    def _end_row(self) -> None:
        """Add the lines below a row to its last cell."""
        if self._rows:
            self._rows[-1][-1] += "".join(self._cell)
        self._cell.clear()

    def _close_list(self) -> None:
        if not self._lists:
            return

        if self._lists.pop() == "table":
            self._end_row()
            self._page.table(self._rows)
            self._rows = []

        if len(self._lists) < MAX_LISTS:
            self._page.dedent()

    # -- words of a line ---------------------------------------------------------------------------

    def _inline(self, words: Words) -> str:
        """The text of a line of macros and words."""
        words = list(words)
        end: list[str] = []
        while words and not words[-1][1] and words[-1][0] in _CLOSING:
            end.append(words.pop()[0])

        line = _Words(spaced=self._spaced)
        enclosures: list[str] = []
        position = 0
        while position < len(words):
            word, quoted = words[position]
            position += 1
            if quoted or word not in _CALLABLE:
                self._add_word(line, word, quoted)
                continue

            stop = position
            while stop < len(words) and (words[stop][1] or words[stop][0] not in _CALLABLE):
                stop += 1
            if word in _ENCLOSING:
                line.open(_ENCLOSING[word][0])
                enclosures.append(_ENCLOSING[word][1])
            else:
                position = self._call(line, word, words, position, stop)

        for mark in (*reversed(enclosures), *reversed(end)):
            line.attach(mark)
        self._spaced = line.spaced
        return line.text()

    def _add_word(self, line: _Words, word: str, quoted: bool) -> None:
        if not quoted and word in _CLOSING:
            line.attach(word)
        else:
            line.add(word)
            line.joins = not quoted and word in _OPENING

    def _call(self, line: _Words, macro: str, words: Words, start: int, stop: int) -> int:
        """Add a macro with its arguments; returns the position of the next word."""
        arguments = words[start:stop]
        if macro in _OPENERS or macro in _CLOSERS or macro in _JOINTS:
            self._mark(line, macro)
            return start
        if macro == "Pf":
            line.open(words[start][0] if start < len(words) else "")
            return start + 1
        if macro == "Sm":
            line.spaced = arguments[:1] != [("off", False)]
            return start + bool(arguments)

        if macro == "Fl":
            self._flags(line, arguments, is_last=stop == len(words))
        elif macro in ("Xr", "Fn", "Fo", "In", "Lk") and arguments:
            self._reference_to(line, macro, arguments)
        else:
            self._named(line, macro, arguments)
        return stop

    def _mark(self, line: _Words, macro: str) -> None:
        """Add a mark that takes no arguments: one that opens, closes or joins words."""
        if macro in _OPENERS:
            line.open(_OPENERS[macro])
        elif macro in _CLOSERS:
            line.attach(_CLOSERS[macro])
        else:
            line.attach(_JOINTS[macro])
            line.joins = True

    def _named(self, line: _Words, macro: str, arguments: Words) -> None:
        """Add the arguments of a macro in its font, or what it stands for without any."""
        if macro == "Nm":
            if arguments and not self._name:
                self._name = arguments[0][0]
            arguments = arguments or [(self._name, False)]
        elif macro in _SYSTEMS:
            line.add(_SYSTEMS[macro])
        elif macro in _DEFAULTS and not arguments:
            line.add(_DEFAULTS[macro])

        bold = macro in _BOLD
        for word, quoted in arguments:
            is_word = quoted or word not in _CLOSING
            self._add_word(line, f"{BOLD}{word}{PLAIN}" if bold and is_word else word, quoted)

    def _flags(self, line: _Words, arguments: Words, *, is_last: bool) -> None:
        """Options, each after a dash; a dash alone joins what the next macro says."""
        if not arguments:
            line.add("-")
            line.joins = not is_last
        for word, quoted in arguments:
            is_mark = not quoted and (word in _CLOSING or word in "|" or word in _OPENING)
            self._add_word(line, word if is_mark else f"-{word}", quoted)

    def _reference_to(self, line: _Words, macro: str, arguments: Words) -> None:
        """The name of a page, function, header or address, with what belongs to it."""
        marks = [word for word, quoted in arguments if not quoted and word in _CLOSING]
        texts = [word for word, quoted in arguments if quoted or word not in _CLOSING]
        first, *rest = texts or [""]

        if macro == "Xr":
            line.add(f"{first}({rest[0]})" if rest else first)
        elif macro == "In":
            line.add(f"<{first}>")
        elif macro == "Lk":
            line.add(f"{' '.join(rest)} <{first}>" if rest else first)
        else:
            closing = ")" if macro == "Fn" else ""
            line.add(f"{BOLD}{first}{PLAIN}({', '.join(rest)}{closing}")

        for mark in marks:
            line.attach(mark)


def _plain(words: Words) -> str:
    return " ".join(word for word, _ in words)


# What each macro does, by the words after it.
_ACTIONS: dict[str, Callable[[MdocReader, Words], None]] = {
    "Dt": MdocReader._set_title,
    "Sh": lambda reader, words: reader._begin_section(2, _plain(words)),
    "Ss": lambda reader, words: reader._begin_section(3, _plain(words)),
    **dict.fromkeys(["Pp", "Lp", "sp"], lambda reader, _: reader._page.blank_line()),
    "br": lambda reader, _: reader._page.line_break(),
    "Bl": MdocReader._open_list,
    "It": MdocReader._item,
    "El": lambda reader, _: reader._close_list(),
    "Bd": MdocReader._begin_display,
    "nf": lambda reader, _: reader._page.begin_code(),
    **dict.fromkeys(["Ed", "fi"], lambda reader, _: reader._page.end_code()),
    **dict.fromkeys(["Dl", "D1"], MdocReader._display_line),
    "Nd": lambda reader, words: reader._add(f"– {reader._inline(words)}"),
    "Rs": lambda reader, _: reader._begin_reference(),
    "Re": lambda reader, _: reader._end_reference(),
}
