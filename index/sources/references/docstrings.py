"""Read the running Python's docstrings as documents, as `pydoc` shows them.

What the topics of `help()` define is left to them (`topics.py`): they are parts of the manual.
"""

from __future__ import annotations

import importlib
import inspect
import os
import pkgutil
import re
import sys
import warnings
from collections.abc import Iterator
from functools import partial
from hashlib import blake2b
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from purlin.index import versions
from purlin.index.records import Document, Location, Skipped, SourceFile, Value
from purlin.index.sources.references.page_sections import Block, compose
from purlin.index.sources.references.topics import titles
from purlin.index.sources.words import words

MANUAL = f"https://docs.python.org/{sys.version_info.major}.{sys.version_info.minor}"

# To import these prints, opens a browser or a window, or adds thousands of objects of no interest.
_EXCLUDED_MODULES = words(
    "antigravity ensurepip genericpath idlelib lib2to3 nt ntpath nturl2path pip posix pydoc_data sre_compile "
    "sre_constants sre_parse test this tkinter turtle turtledemo"
)
_WITHOUT_SUBMODULES = frozenset(["encodings", "distutils"])
_DOCUMENTED_AS = {"posixpath": "os.path"}
UNKNOWN_ARGUMENTS = "(...)"

# Where an object is, which differs from process to process.
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
# The first parameter of a method.
_SELF = re.compile(r"\A\((?:self|cls|type)\b(?:, /)?(?:, )?")
# A call, what it returns in a few words, and whatever else its line tells.
_CALL = re.compile(
    r"(?:[^\W\d]\w*\.)?(?P<name>\w+)(?P<arguments>\([^()]*(?:\([^()]*\)[^()]*)*\))"
    r"(?: *-?-> *(?P<result>\S+(?: \S+){0,2}))?(?P<more>.*)"
)
_EXAMPLE = re.compile(r"(?m)^ *>>> .*(?:\n(?! *$).+)*")


def files() -> Iterator[SourceFile]:
    """Yield one source per public module of the standard library, sorted; `read()` imports it."""
    for name, origin in sorted(_modules()):
        digest = blake2b(f"{versions.DOCSTRINGS}:{sys.version}:{name}\0".encode(), digest_size=16)
        if origin:
            digest.update(Path(origin).read_bytes())
        yield SourceFile(_DOCUMENTED_AS.get(name, name), digest.hexdigest(), partial(_read, name))


def _modules() -> Iterator[tuple[str, str]]:
    """Names of modules, each with its file, or an empty string if it is built in."""
    for name in sys.stdlib_module_names - _EXCLUDED_MODULES:
        if name.startswith("_"):
            continue

        spec = PathFinder.find_spec(name) or find_spec(name)
        if spec is None:
            continue

        yield name, spec.origin if spec.has_location and spec.origin else ""
        if spec.submodule_search_locations and name not in _WITHOUT_SUBMODULES:
            yield from _submodules(name, list(spec.submodule_search_locations))


def _submodules(package: str, folders: list[str]) -> Iterator[tuple[str, str]]:
    for module in pkgutil.iter_modules(folders):
        if module.name.startswith("_") or module.name == "tests":
            continue
        if module.name in _EXCLUDED_MODULES:
            continue

        spec = PathFinder.find_spec(f"{package}.{module.name}", folders)
        if spec is not None and spec.origin:
            yield f"{package}.{module.name}", spec.origin
            if spec.submodule_search_locations:
                yield from _submodules(spec.name, list(spec.submodule_search_locations))


def _read(name: str) -> Iterator[Document | Skipped]:
    try:
        # Deprecated modules warn when they are imported, and some attributes when they are read.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = importlib.import_module(name)
            yield from [
                document for document in _documents(module, name) if document.title not in titles()
            ]
    except (ImportError, AttributeError, OSError, RuntimeError) as error:
        yield Skipped(name, f"cannot be imported: {error}", passing=True)


def _documents(module: ModuleType, name: str) -> Iterator[Document]:
    public_name = _DOCUMENTED_AS.get(name, name)
    if text := _docstring(module):
        # As `help()` prints it, so that the name is there to be an answer.
        named = f"{public_name} - {text}"
        yield _document(public_name, public_name, "module", "", named, ())

    for member, value in _members(module, name):
        title = member if name == "builtins" else f"{public_name}.{member}"
        text = _docstring(value)
        if inspect.isclass(value):
            directive = "exception" if issubclass(value, BaseException) else "class"
            if text:
                signature, text = _signed(f"{directive} {title}", _arguments(value), text)
                yield _document(public_name, title, directive, signature, text, ())
            yield from _methods(value, public_name, title)
        elif text:
            signature, text = _signed(title, _arguments(value), text)
            yield _document(public_name, title, "function", signature, text, ())


def _members(module: ModuleType, name: str) -> Iterator[tuple[str, object]]:
    """Public functions and classes: those in `__all__`, or else those defined in the module.

    Leaves out what the enclosing package exports itself.
    """
    package = sys.modules.get(name.rpartition(".")[0])
    public = getattr(module, "__all__", None)

    for member in sorted(public if public is not None else vars(module)):
        value = getattr(module, member, None)
        if not (inspect.isclass(value) or inspect.isroutine(value)) or member.startswith("_"):
            continue

        # The C part of a module has the same name with an underscore: _json of json.
        home = getattr(value, "__module__", None) or name
        if public is None and home.lstrip("_") != name.lstrip("_"):
            continue
        if package is None or getattr(package, member, None) is not value:
            yield member, value


def _methods(cls: type, module: str, title: str) -> Iterator[Document]:
    for member, value in sorted(_own_members(cls).items()):
        if member.startswith("_"):
            continue

        method = value.__func__ if isinstance(value, (classmethod, staticmethod)) else value
        text = _docstring(method)
        if not text:
            continue

        name = f"{title}.{member}"
        if inspect.isroutine(method):
            signature, text = _signed(name, _SELF.sub("(", _arguments(method)), text)
            yield _document(module, name, "method", signature, text, (title,))
        elif inspect.isdatadescriptor(method):
            yield _document(module, name, "attribute", name, text, (title,))


def _own_members(cls: type) -> dict[str, object]:
    """Members of the class and of its private bases, such as `_io._RawIOBase` of `io.RawIOBase`."""
    members: dict[str, object] = {}
    for base in reversed(cls.__mro__):
        if base is cls or base.__name__.startswith("_"):
            members.update(vars(base))
    return members


def _document(
    module: str, title: str, directive: str, signature: str, text: str, context: tuple[str, ...]
) -> Document:
    head = [Block(signature, atom=True)] if signature else []
    body, atoms = compose([*head, *_blocks(text)])

    fields: dict[str, Value] = {
        "directive": directive,
        "module": module,
        "page": module,
        "page_title": module,
    }

    if signature:
        fields["signature"] = signature

    return Document(
        id=f"{module}#{title}" if directive != "module" else module,
        kind="reference",
        title=title,
        body=body,
        context=context,
        location=Location(url=_url(module, title, directive)),
        fields=fields,
        atoms=atoms,
    )


def _blocks(text: str) -> Iterator[Block]:
    """Split a docstring into prose and examples; an example is an atom."""
    position = 0
    for example in _EXAMPLE.finditer(text):
        if before := text[position : example.start()].strip("\n"):
            yield Block(before.rstrip())
        yield Block(example[0].rstrip(), atom=True)
        position = example.end()

    if rest := text[position:].strip("\n"):
        yield Block(rest.rstrip())


def _docstring(value: object) -> str:
    text = getattr(value, "__doc__", None)
    return inspect.cleandoc(text).strip() if isinstance(text, str) else ""


def _signed(head: str, arguments: str, text: str) -> tuple[str, str]:
    """The signature, which begins with `head`, and the docstring without it.

    If Python does not know the arguments, they are those of the calls that the docstring begins
    with: "range(stop) -> range object". A call whose line tells more stays in the text, too.
    """
    if arguments != UNKNOWN_ARGUMENTS:
        return head + arguments, text

    signatures: list[str] = []
    name = re.split(r"[ .]", head)[-1]
    lines = text.split("\n")
    while lines and (call := _CALL.fullmatch(lines[0].rstrip())) and call["name"] == name:
        if call["more"]:
            signatures.append(head + call["arguments"])
            break
        result = f" -> {call['result']}" if call["result"] else ""
        signatures.append(head + call["arguments"] + result)
        del lines[0]

    if not signatures:
        return head + arguments, text
    return "\n".join(signatures), "\n".join(lines).strip("\n")


def _arguments(value: object) -> str:
    """The signature's arguments, without memory addresses, or UNKNOWN_ARGUMENTS."""
    try:
        signature = inspect.signature(value)  # type: ignore[arg-type]
    except (AttributeError, NameError, TypeError, ValueError):
        return UNKNOWN_ARGUMENTS

    # Some functions of `cgi` have the whole environment as a default: its values are nobody's
    # business, and differ from process to process.
    parameters = [
        parameter.replace(default=_ENVIRONMENT) if parameter.default is os.environ else parameter
        for parameter in signature.parameters.values()
    ]
    return _ADDRESS.sub("", str(signature.replace(parameters=parameters)))


class _Environment:
    def __repr__(self) -> str:
        return "os.environ"


_ENVIRONMENT = _Environment()


def _url(module: str, title: str, directive: str) -> str:
    """The URL in the online library reference."""
    page, anchor = module, title
    if directive == "module":
        anchor = f"module-{module}"
    elif module == "builtins":
        page = {"function": "functions", "exception": "exceptions"}.get(directive, "stdtypes")
    return f"{MANUAL}/library/{page.lower()}.html#{anchor}"
