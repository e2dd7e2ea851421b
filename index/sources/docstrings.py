"""The running Python's own docstrings -> documents, as `pydoc` shows them: a reference that is always at hand.

What the topics define, which are parts of the manual, is left to them.
"""

from __future__ import annotations

import importlib
import inspect
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

from index.records import Document, Location, Skipped, SourceFile, Value
from index.sources.html import Block, compose
from index.sources.topics import titles

VERSION = 2
MANUAL = f"https://docs.python.org/{sys.version_info.major}.{sys.version_info.minor}"

# Importing these prints, opens a browser or a window, or brings thousands of objects that nobody asks about.
_LEFT_OUT = frozenset(
    "antigravity ensurepip genericpath idlelib lib2to3 nt ntpath nturl2path pip posix pydoc_data sre_compile "
    "sre_constants sre_parse test this tkinter turtle turtledemo".split()
)
_WITHOUT_SUBMODULES = frozenset(["encodings", "distutils"])
_DOCUMENTED_AS = {"posixpath": "os.path"}

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_SELF = re.compile(r"\A\((?:self|cls|type)\b(?:, /)?(?:, )?")
_EXAMPLE = re.compile(r"(?m)^ *>>> .*(?:\n(?! *$).+)*")


def files() -> Iterator[SourceFile]:
    """One source per public module of the standard library, sorted by name; nothing is imported before `read()`."""
    for name, origin in sorted(_modules()):
        digest = blake2b(f"{VERSION}:{sys.version}:{name}\0".encode(), digest_size=16)
        if origin:
            digest.update(Path(origin).read_bytes())
        yield SourceFile(_DOCUMENTED_AS.get(name, name), digest.hexdigest(), partial(_read, name))


def _modules() -> Iterator[tuple[str, str]]:
    """Names of modules, each with its file or, where it is built in, the empty string."""
    for name in sys.stdlib_module_names - _LEFT_OUT:
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
        if module.name.startswith("_") or module.name in _LEFT_OUT or module.name == "tests":
            continue
        spec = PathFinder.find_spec(f"{package}.{module.name}", folders)
        if spec is not None and spec.origin:
            yield f"{package}.{module.name}", spec.origin
            if spec.submodule_search_locations:
                yield from _submodules(spec.name, list(spec.submodule_search_locations))


def _read(name: str) -> Iterator[Document | Skipped]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = importlib.import_module(name)
            yield from [
                document for document in _documents(module, name) if document.title not in titles()
            ]
    except (ImportError, AttributeError, OSError, RuntimeError) as error:
        yield Skipped(name, f"It cannot be imported here: {error}.", passing=True)


def _documents(module: ModuleType, name: str) -> Iterator[Document]:
    shown = _DOCUMENTED_AS.get(name, name)
    if text := _docstring(module):
        yield _document(shown, shown, "module", "", text, ())

    for member, value in _members(module, name):
        title = member if name == "builtins" else f"{shown}.{member}"
        text = _docstring(value)
        if inspect.isclass(value):
            directive = "exception" if issubclass(value, BaseException) else "class"
            if text:
                yield _document(
                    shown, title, directive, f"{directive} {title}{_arguments(value)}", text, ()
                )
            yield from _methods(value, shown, title)
        elif text:
            yield _document(shown, title, "function", f"{title}{_arguments(value)}", text, ())


def _members(module: ModuleType, name: str) -> Iterator[tuple[str, object]]:
    """Public functions and classes: those in `__all__`, or else made here; none that the package shows already."""
    package = sys.modules.get(name.rpartition(".")[0])
    public = getattr(module, "__all__", None)

    for member in sorted(public if public is not None else vars(module)):
        value = getattr(module, member, None)
        if not (inspect.isclass(value) or inspect.isroutine(value)) or member.startswith("_"):
            continue

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

        if inspect.isroutine(method):
            signature = f"{title}.{member}{_SELF.sub('(', _arguments(method))}"
            yield _document(module, f"{title}.{member}", "method", signature, text, (title,))
        elif inspect.isdatadescriptor(method):
            yield _document(
                module, f"{title}.{member}", "attribute", f"{title}.{member}", text, (title,)
            )


def _own_members(cls: type) -> dict[str, object]:
    """What the class defines, also by way of private bases, as `io.RawIOBase` by `_io._RawIOBase`."""
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
    """Examples are blocks of their own, and never cut."""
    at = 0
    for example in _EXAMPLE.finditer(text):
        if before := text[at : example.start()].strip("\n"):
            yield Block(before.rstrip())
        yield Block(example[0].rstrip(), atom=True)
        at = example.end()

    if rest := text[at:].strip("\n"):
        yield Block(rest.rstrip())


def _docstring(value: object) -> str:
    text = getattr(value, "__doc__", None)
    return inspect.cleandoc(text).strip() if isinstance(text, str) else ""


def _arguments(value: object) -> str:
    """As Python tells them, without memory addresses; "(...)" where it cannot."""
    try:
        return _ADDRESS.sub("", str(inspect.signature(value)))  # type: ignore[arg-type]
    except (AttributeError, NameError, TypeError, ValueError):
        return "(...)"


def _url(module: str, title: str, directive: str) -> str:
    """The place in the online library reference where this is described."""
    page, anchor = module, title
    if directive == "module":
        anchor = f"module-{module}"
    elif module == "builtins":
        page = {"function": "functions", "exception": "exceptions"}.get(directive, "stdtypes")
    return f"{MANUAL}/library/{page.lower()}.html#{anchor}"
