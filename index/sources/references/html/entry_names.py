"""Tell what headings and code define in the way that each generator writes them.

A function of each takes a heading, the code below it, the page's title and the anchor, and returns
the entry that they begin, if any.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from purlin.index.sources.words import kinds

MAX_STATEMENTS = 64  # lines of code that are signatures of one entry
MAX_NAMES = 16  # of arguments that a row describes together


@dataclass(frozen=True, slots=True)
class Entry:
    """What an entry is called and how it is used.

    `summary` is text of its heading; `has_all_code` tells that the signatures say all that the
    code does, `is_whole_page` that headings after it are text of the entry. `since` is the version
    that has it first.
    """

    names: tuple[str, ...]
    directive: str
    signatures: tuple[str, ...]
    context: tuple[str, ...] = ()
    summary: str = ""
    has_all_code: bool = True
    is_whole_page: bool = False
    since: str = ""


def _on_one_line(code: str) -> str:
    """Code of a declaration on one line, without its body."""
    line = " ".join(code.partition("{")[0].split()).rstrip(";")
    return re.sub(r" \((?!\*)", "(", line.replace("( ", "(").replace(" )", ")"))


# `void (*WeaveFunc) (…)` -> WeaveFunc
_CALLBACK = re.compile(r"\(\*\s*(\w+)")
# What is declared: a macro, a function, or the type that ends the line.
_DECLARED = re.compile(r"#define\s+(?P<macro>\w+)|(?P<function>\w+)\s*\(|(?P<type>[\w.]+)$")


def gi_docgen(heading: str, code: str, page_title: str, anchor: str) -> Entry | None:
    """A page is about one function, property or type: its declaration tells its name."""
    if heading not in ("Declaration", "Description"):
        return None
    line = " ".join(code.partition("{")[0].split())
    owner, colon, member = page_title.partition(":")
    if colon:
        kind = "signal" if member.startswith(":") else "property"
        return Entry((member.lstrip(":"),), kind, (line,), context=(owner,))

    signature = _on_one_line(code)
    has_all_code = "{" not in code or "/* No available fields */" in code
    if callback := _CALLBACK.search(line):
        return Entry((callback[1],), "class", (signature,))
    declared = _DECLARED.search(line.partition(" : ")[0])
    if declared is None:
        return None
    kind = (declared.lastgroup or "type").replace("type", "class")
    return Entry(
        (declared[declared.lastgroup or 0],), kind, (signature,), has_all_code=has_all_code
    )


# `The “warp-count” property`
_GTK_MEMBER = re.compile(r"The “([^”]+)” (?:style )?(property|signal)")


def gtk_doc(heading: str, code: str, page_title: str, anchor: str) -> Entry | None:
    """A heading names what the code below it declares; a property or signal is in quotes."""
    if member := _GTK_MEMBER.fullmatch(heading):
        line = " ".join(code.split())
        return Entry((member[1],), member[2], (line,), context=(page_title.partition(":")[0],))

    name = _last_word(heading.removesuffix("()").strip())
    if not name or name not in code:
        return None
    kind = "function" if heading.endswith("()") else "class"
    if code.startswith("#define"):
        kind = "macro"
    return Entry((name,), kind, (_on_one_line(code),), has_all_code="{" not in code)


# The name of what a line of R calls or shows.
_CALL = re.compile(r"([.\w]+)(?=\s?\(|\Z)")


def r(heading: str, code: str, page_title: str, anchor: str) -> Entry | None:
    """A page is about the functions whose calls its section Usage shows."""
    if heading != "Usage":
        return None
    statements = tuple(_statements(code))
    names = tuple(dict.fromkeys(call[1] for line in statements if (call := _CALL.match(line))))
    summary = page_title.removeprefix("R: ")
    kind = "function" if "(" in code else "data"
    return Entry(names, kind, statements, summary=summary) if names else None


def _statements(code: str) -> Iterator[str]:
    """Lines of code, each with those that go on in the brackets that it opens."""
    lines: list[str] = []
    depth = count = 0

    for line in code.split("\n"):
        if line.lstrip().startswith("#") or not line.strip():
            continue

        depth += line.count("(") - line.count(")")
        lines.append(line.strip())
        if depth <= 0 and count < MAX_STATEMENTS:
            yield " ".join(lines)
            lines.clear()
            depth, count = 0, count + 1


# Keyword, receiver, name, and what follows that: `func (*Shed) Lift`.
_GO = re.compile(r"(func|type) (?:\(\w* ?\*?(\w+)[^)]*\) )?(\w+)\s*(.*)")


def go(heading: str, code: str, page_title: str, anchor: str) -> Entry | None:
    """A heading is a declaration without its arguments: `func (*Shed) Lift`."""
    declared = _GO.fullmatch(heading)
    if declared is None or not code.startswith(declared[1]):
        return None

    package = page_title.split()[-1].rpartition("/")[2] if page_title else ""
    name = ".".join(filter(None, (package, declared[2], declared[3])))
    kind = "method" if declared[2] else "function" if declared[1] == "func" else "class"
    if kind != "class":
        return Entry((name,), kind, (" ".join(code.split()),), summary=declared[4])

    head, brace, _ = code.partition("{")
    return Entry((name,), kind, (head.strip(),), summary=declared[4], has_all_code=not brace)


# The name without its owner: `Loom#weave(warp)` -> weave.
_RUBY_NAME = re.compile(r"(?:\S+[#.])?([^\s({#.]+)")


def ruby(heading: str, code: str, page_title: str, anchor: str) -> Entry | None:
    """RDoc has in its anchors whether a method belongs to the class (`c`) or an instance (`i`)."""
    name = _RUBY_NAME.match(heading)
    if name is None:
        return None
    separator = "." if anchor.startswith("method-c-") else "#"
    kind = "attribute" if anchor.startswith("attribute") else "method"
    return Entry((f"{_last_word(page_title)}{separator}{name[1]}",), kind, tuple(code.split("\n")))


_YARD_NAME = re.compile(r"([#.]?)([^\s(]+)")


def yard(heading: str, code: str, page_title: str, anchor: str) -> Entry | None:
    """A heading has the separator before the name: `#weave`, `.make`."""
    name = _YARD_NAME.match(heading)
    if name is None:
        return None
    owner = page_title.partition(": ")[2].partition(" ")[0]
    signatures = tuple(line.lstrip("#.") for line in code.split("\n"))
    return Entry((f"{owner}{name[1] or '#'}{name[2]}",), "method", signatures)


# Whether a method belongs to the type itself, and its name: `def self.open(path)`.
_CRYSTAL_NAME = re.compile(r"(?:(?:abstract )?(?:def|macro) )?(self\.)?([^\s(]+)")


def crystal(heading: str, code: str, page_title: str, anchor: str) -> Entry | None:
    """Anchors of methods of the class itself end in `-class-method`."""
    name = _CRYSTAL_NAME.match(heading)
    if name is None:
        return None
    separator = "." if name[1] or anchor.endswith("-class-method") else "#"
    return Entry((f"{_last_word(page_title)}{separator}{name[2]}",), "method", (code,))


# `Vec in std::vec - Rust`
_RUST_TITLE = re.compile(r"(\S+) in (\S+) - Rust")
# What a page is about, by its heading: `Struct std::vec::Vec`.
_RUST_ITEM = re.compile(
    r"(?P<function>Function)|(?P<macro>.*\bMacro)|(?P<data>Constant|Static)"
    r"|(?P<class>Struct|Enum|Union|Trait|Type \w+|Trait Alias)\b"
)
# The name in a declaration: `pub struct Vec<T>`.
_RUST_DECLARED = re.compile(
    r"\b(?:const|enum|fn|macro|macro_rules!|static|struct|trait|type|union) (?:mut )?(?:r#)?(\w+)"
)
# The name of a method, type or constant, else of a field or variant.
_RUST_MEMBER = re.compile(
    r".*?\b(?:fn|type|const(?! (?:unsafe |extern |async )*fn\b)) (\w+)|(?:pub )?(\w+)"
)
# By the first part of an anchor.
_RUST_DIRECTIVES = kinds(
    data="associatedconstant", attribute="associatedtype structfield", member="variant"
)


def rust(heading: str, code: str, page_title: str, anchor: str) -> Entry | None:
    """Rustdoc has in its anchors what a member is: `method.push`, `variant.Some`, `impl-Clone`."""
    titled = _RUST_TITLE.match(page_title)
    item = titled[1] if titled else page_title.removesuffix(" - Rust")
    qualified = f"{titled[2]}::{item}" if titled else item
    line = " ".join(code.split())
    kind, dot, _ = anchor.partition(".")
    # Of a member, the heading is the code.
    if code.startswith(heading):
        if not dot:
            return Entry((line,), "implementation", (line,), context=(qualified,))
        name = _RUST_MEMBER.match(line)
        if name is None:
            return None
        directive = _RUST_DIRECTIVES.get(kind, "method")
        return Entry((f"{item}::{name[1] or name[2]}",), directive, (line,), context=(qualified,))

    headed, declared = _RUST_ITEM.match(heading), _RUST_DECLARED.search(line)
    if headed is None or declared is None or declared[1] != item:
        return None
    directive = headed.lastgroup or ""
    if directive == "macro":
        # Of each rule of a macro, what it takes.
        return Entry((f"{qualified}!",), directive, tuple(_rules(code)), is_whole_page=True)
    if directive != "class":
        return Entry((qualified,), directive, (line,), is_whole_page=True)

    head, brace, _ = line.partition("{")
    has_all_code = not brace or "/* private fields */" in code or heading.startswith("Trait")
    return Entry((qualified,), directive, (head.strip(),), has_all_code=has_all_code)


def _rules(code: str) -> Iterator[str]:
    """The head of a macro, and each of its rules on a line."""
    for line in code.split("\n")[:MAX_STATEMENTS]:
        rule = line.removesuffix(" {").strip().rstrip(",;").removesuffix("=> { ... }").strip("} ")
        if rule:
            yield rule


def mkdocstrings(heading: str, code: str, page_title: str, anchor: str) -> Entry | None:
    """The anchor is the qualified name; a class begins with a capital."""
    owner, _, name = anchor.rpartition(".")
    if not name or name not in code:
        return None

    owner_name = owner.rpartition(".")[2]
    is_member = owner_name[:1].isupper()

    kind = "attribute"
    if name[:1].isupper():
        kind = "class"
    elif "(" in code:
        kind = "method" if is_member else "function"
    elif heading == anchor:
        kind = "module"

    return Entry((anchor,), kind, (" ".join(code.split()),), context=(owner,) if is_member else ())


_PYTHON_NAME = re.compile(r"(?P<call>(?:async )?def )?(?P<name>\w+)")


def pydoctor(heading: str, code: str, page_title: str, anchor: str) -> Entry | None:
    """The page's title is the qualified name of a module or a class; decorators precede a member."""
    lines = code.removesuffix(":").removesuffix(" =").split("\n")
    declared = _PYTHON_NAME.match(lines[-1])
    if declared is None:
        return None

    is_member = page_title.rpartition(".")[2].lstrip("_")[:1].isupper()
    kind = "attribute"
    if declared["call"]:
        kind = "method" if is_member else "function"

    return Entry(
        (f"{page_title}.{declared['name']}",),
        kind,
        (" ".join(lines),),
        context=(page_title,) if is_member else (),
    )


# The word that a declaration begins with.
_PASCAL_KIND = re.compile(r"(?:class )?(\w+)")
# Between declarations of overloads.
_PASCAL_OVERLOAD = re.compile(r";? (?=(?:class )?(?:function|operator|procedure) )")
_PASCAL_DIRECTIVES = kinds(
    function="constructor destructor function operator procedure",
    property="property",
    class_="type",
)


def fpdoc(heading: str, code: str, page_title: str, anchor: str) -> Entry | None:
    """A page is about the name that its heading has; overloads follow each other on a line."""
    line = _on_one_line(code.replace(";", "; ")).replace("; overload", "")
    kind = _PASCAL_KIND.match(line)
    if kind is None:
        return None
    directive = _PASCAL_DIRECTIVES.get(kind[1], "data")
    return Entry((heading,), directive, tuple(_PASCAL_OVERLOAD.split(line)), is_whole_page=True)


def javadoc(heading: str, code: str, page_title: str, anchor: str) -> Entry | None:
    """A page is about one type, which its title begins with; constructors bear its name."""
    owner = page_title.partition(" (")[0]
    name = heading.partition("<")[0]
    line = " ".join(code.split())
    if name.endswith(f" {owner}"):
        is_exception = owner.endswith(("Exception", "Error"))
        return Entry((owner,), "exception" if is_exception else "class", (line,))

    if not name.isidentifier() or name not in line:
        return None
    if f"{name}(" not in line:
        return Entry((f"{owner}.{name}",), "attribute", (line,))
    is_constructor = name == owner.rpartition(".")[2]
    return Entry((owner if is_constructor else f"{owner}.{name}",), "method", (line,))


# Module, if it is given, and name: `lists:append(`.
_ERLANG_NAME = re.compile(r"(?:(\w+):)?('[^']+'|\w+) ?\(")
# At the end of a head, since which release the function exists.
_ERLANG_SINCE = re.compile(r"\sOTP \S+(?:,\s?OTP \S+)*$")


def erlang(heading: str, code: str, page_title: str, anchor: str) -> Entry | None:
    """The page's title is the module; a type's anchor begins with `type-`."""
    line = " ".join(code.split())
    since = _ERLANG_SINCE.search(line)
    line = line[: since.start()] if since else line

    name = _ERLANG_NAME.match(line)
    if name is None:
        return None

    kind = "type" if anchor.startswith("type-") else "function"
    qualified = f"{name[1] or page_title}:{name[2]}"
    return Entry((qualified,), kind, (line,), since=f"Since {since[0].strip()}" if since else "")


# Words before an argument such as `<timeout>` or `[weight]`.
_KEYWORD = re.compile(r"[^\s<\[{(:]+(?: [^\s<\[{(:]+)*")


def haproxy(heading: str, code: str, page_title: str, anchor: str) -> Entry | None:
    """A keyword, of one or more words, stands before its arguments; what returns has a type."""
    keyword = _KEYWORD.match(heading)
    if keyword is None:
        return None
    kind = "function" if heading.startswith(("(", " :"), keyword.end()) else "option"
    return Entry((keyword[0],), kind, (heading,))


# A type with its context left out, `class Ord a => Heap h`, or a value: `insert :: …`.
_HASKELL_NAME = re.compile(
    r"(?P<type>(?:data|newtype|type|class)(?: family)? )(?:.*=> ?)?(?P<head>[A-Z][\w']*|\(\S+?\))"
    r"|(?:pattern )?(?P<name>[\w']+|\(\S+?\))(?= ::|$)"
)


def haddock(heading: str, code: str, page_title: str, anchor: str) -> Entry | None:
    """The page's title is the module; `v:` anchors are of values, `t:` of types and classes."""
    line = " ".join(code.split())
    declared = _HASKELL_NAME.match(line)
    if declared is None or not code.startswith(heading):
        return None
    name = (declared["head"] or declared["name"]).strip("()")
    kind = "class" if declared["type"] else "function"
    return Entry((f"{page_title}.{name}",), kind, (line,))


# `[virtual protected]` before a declaration.
_QT_MARKS = re.compile(r"(?:\[[^\]]*\] *)*")
_QT_TYPE = re.compile(r"(?:enum|flags|typedef|struct|union|class|using)(?: class)? ([\w:]+)")
# `text : QString`
_QT_PROPERTY = re.compile(r"(?:const )?([\w.]+) : (?=\S)")
# The name before the parameters, which may be an operator or a destructor.
_QT_CALL = re.compile(r"((?:\w+::)*(?:operator ?[^\s\w(]{1,3}|operator\(\)|~?\w+)) ?\(")
_QT_VARIABLE = re.compile(r"(?:.* )?[*&]*((?:\w+::)*\w+)")


def qdoc(heading: str, code: str, page_title: str, anchor: str) -> Entry | None:
    """A function, macro, type, variable or property; members bear the name of their class."""
    if not code.startswith(heading):
        return None

    line = " ".join(code.split())
    declaration = _QT_MARKS.sub("", line, count=1)
    owner = page_title.partition(" ")[0]

    if declared := _QT_TYPE.match(declaration):
        return Entry((declared[1],), "class", (line,))
    if declared := _QT_PROPERTY.match(declaration):
        return Entry((f"{owner}::{declared[1]}",), "property", (line,))
    if call := _QT_CALL.search(declaration):
        return Entry((call[1],), "method" if "::" in call[1] else "function", (line,))
    if declared := _QT_VARIABLE.fullmatch(declaration):
        return Entry((declared[1],), "attribute" if "::" in declared[1] else "macro", (line,))

    return None


_CPP_SINCE = re.compile(r"(?<=\()since C\+\+\d\w")
# A declaration of a type; `class` within template parameters is none.
_CPP_TYPE = re.compile(r"(?<![<,] )\b(?:class|struct|union|enum|concept) \w+$|\b(?:struct|enum) ")
_TEMPLATE_ARGUMENTS = re.compile(r"(?<=\w)\s?<[^<>]{0,200}>")


def cppreference(heading: str, code: str, page_title: str, anchor: str) -> Entry | None:
    """A page is about the name in its title; declarations are numbered, and tell since when."""
    if heading != page_title.removesuffix(" - cppreference.com"):
        return None
    declaration, _, marks = code.partition(";")
    since = _CPP_SINCE.search(marks)
    kind = "class" if _CPP_TYPE.search(declaration) else "function"
    if "(" not in declaration and kind == "function":
        kind = "data"

    name = heading if "operator" in heading else _TEMPLATE_ARGUMENTS.sub("", heading)
    return Entry(
        (name,),
        kind,
        (" ".join(declaration.split()),),
        is_whole_page=kind != "class",
        since=since[0] if since else "",
    )


# A name, which may be an operator such as `::`, and what follows it.
_SCALA_NAME = re.compile(r"(?P<name>[^\s\[(:]+|:[^\s\w\[(]+)(?P<rest>.*)")


def scaladoc(heading: str, code: str, page_title: str, anchor: str) -> Entry | None:
    """A page is about one type or package, whose own signature has the anchor `signature`."""
    line = " ".join(code.split())
    declared = _SCALA_NAME.fullmatch(line)
    if declared is None or not page_title:
        return None

    if anchor == "signature":
        return Entry((page_title,), "class", (line,))
    name, rest = declared["name"], declared["rest"]
    kind = "method" if "(" in rest else "attribute"
    if " extends " in rest or " = " in rest:
        kind = "class"
    return Entry((f"{page_title}.{name}",), kind, (line,))


_SCRIBBLE_KINDS = kinds(
    function="function parameter procedure",
    class_="class constructor interface mixin signature struct",
    method="method",
    macro="syntax",
    data="value",
)
# Of Scribble: what an entry is, before its name, and what begins a line of its signature.
_SCRIBBLE_CALL = re.compile(
    rf"(?P<kind>{'|'.join(_SCRIBBLE_KINDS)}) (?:\((?:new |struct \(?|send \S+ )?)?(?P<name>[^\s()\[\]]+)"
)
# Spaces that the tags of brackets left inside of them.
_INNER_SPACE = re.compile(r"(?<=[(\[]) | (?=[)\]])")
# Between a box's calls, and before each argument, `lst : list?`.
_SCRIBBLE_LINE = re.compile(rf" (?=(?:{'|'.join(_SCRIBBLE_KINDS)}) \()| (?=[^\s()\[\]]+ : )")


def scribble(heading: str, code: str, page_title: str, anchor: str) -> Entry | None:
    """A box has one or more calls, each after what it is, and a line for each argument."""
    lines = _SCRIBBLE_LINE.split(_INNER_SPACE.sub("", " ".join(code.split())))
    calls = [call for line in lines if (call := _SCRIBBLE_CALL.match(line))]
    if not calls or not code.startswith(calls[0]["kind"]):
        return None

    names = dict.fromkeys(call["name"] for call in calls)
    signatures = [_without_kind(line) for line in lines]
    return Entry(tuple(names), _SCRIBBLE_KINDS[calls[0]["kind"]], tuple(filter(None, signatures)))


def _without_kind(line: str) -> str:
    call = _SCRIBBLE_CALL.match(line)
    return line[len(call["kind"]) :].strip() if call else line


def calls_with(statements: Iterable[str], argument: str) -> list[str]:
    """Return the calls in some statements that give an argument its default, other ones left out.

    Each default is in one call only, the first that has it.
    """
    calls: dict[str, str] = {}

    for statement in statements:
        function, parenthesis, _ = statement.partition("(")
        for part in _arguments(statement[len(function) + 1 :]) if parenthesis else ():
            name, equals, default = part.partition("=")
            if equals and name.strip() == argument:
                calls.setdefault(default.strip(), f"{function.rstrip()}(..., {part})")

    return list(calls.values())


# A backslash takes the next character with it.
_ARGUMENT_MARK = re.compile(r"\\.|[\"'`(){}\[\],]")


def _arguments(text: str) -> Iterator[str]:
    """The arguments of a call, up to its closing bracket; commas in brackets and quotes part none."""
    start, depth, quote = 0, 0, ""

    for mark in _ARGUMENT_MARK.finditer(text):
        character = mark[0]
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'`":
            quote = character
        elif character in "([{":
            depth += 1
        elif character == "," and not depth:
            yield text[start : mark.start()].strip()
            start = mark.end()
        elif character in ")]}":
            depth -= 1
            if depth < 0:
                yield text[start : mark.start()].strip()
                return


def _last_word(page_title: str) -> str:
    return page_title.rpartition(" ")[2]
