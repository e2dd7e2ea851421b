"""Directories that training exports: a model, its tokenizer, and a JSON file of settings.

The settings file is named after its component (`encoder.json`, `reader.json`). It has the SHA-256
of the other files, and a fingerprint of itself.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from purlin.index.errors import Damaged, NotFound, PurlinError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

MODEL, TOKENIZER = "model.onnx", "tokenizer.json"
MAX_PARTS = 4  # of an ensemble
_PART_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,99}")


class _Settings(Protocol):
    @property
    def files(self) -> Mapping[str, str]: ...  # name -> SHA-256 (hex)

    @property
    def fingerprint(self) -> str: ...


S = TypeVar("S", bound=_Settings)
_D = TypeVar("_D", bound="DataclassInstance")


def settings_of(kind: type[_D], values: Mapping[str, Any]) -> _D:
    """Make settings from the values of their fields, without others. Raises KeyError for a missing one."""
    return kind(**{field.name: values[field.name] for field in fields(kind)})


def fingerprint_of(settings: DataclassInstance) -> str:
    """Return the SHA-256 (hex) of all settings but the name, which changes no output."""
    content = {key: value for key, value in asdict(settings).items() if key != "name"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def check_directory(directory: Path, component: str, command: str) -> None:
    """Raise NotFound unless there is a directory; `command` of `purlin train` makes such ones."""
    if not directory.is_dir():
        raise NotFound(
            f"There is no {component} directory {directory}. Give one made by `purlin train {command}`."
        )


def read_exported(
    directory: Path, component: str, parse: Callable[[Any], S]
) -> tuple[S, dict[str, bytes]]:
    """Settings of a component ("encoder", "reader"), and name -> content of the files they list.

    `parse` makes the settings from parsed JSON, and rejects files that the component does not have.
    Raises Damaged, which names the file that is missing or altered or that `parse` rejects.
    """
    path = directory / f"{component}.json"
    with refusing(component, path):
        values = json.loads(path.read_bytes())
        settings = parse(values)
        if settings.fingerprint != values["fingerprint"]:
            raise ValueError("its fingerprint does not match its settings")

    files = {
        name: _verified(component, directory / name, digest)
        for name, digest in settings.files.items()
    }
    return settings, files


def _verified(component: str, path: Path, digest: str) -> bytes:
    with refusing(component, path):
        content = path.read_bytes()
        if hashlib.sha256(content).hexdigest() != digest:
            raise ValueError(f"its content does not match {component}.json")
    return content


def check_parts(name: str, parts: Mapping[str, str]) -> None:
    """Raise ValueError unless an ensemble has 1 to `MAX_PARTS` parts, each named as a directory beside it."""
    if not 1 <= len(parts) <= MAX_PARTS:
        raise ValueError(f"it has {len(parts)} parts, not 1 to {MAX_PARTS}")
    for part in parts:
        if not _PART_NAME.fullmatch(part) or part == name:
            raise ValueError(f"the part {part!r:.80} is no name of another directory")


def check_settings(
    settings: Any,
    *,
    numbers: Iterable[str],
    files: Collection[str],
    texts: Iterable[str] = ("name",),
    kind: str | None = None,
) -> None:
    """Raise ValueError unless `numbers` are in 1 to 65,536, `texts` texts, and the files just these.

    If there are settings of several kinds, their type must be `kind`.
    """
    if kind is not None and settings.type != kind:
        raise ValueError(f"type is {settings.type!r:.80}, not {kind!r}")
    for name in texts:
        if type(value := getattr(settings, name)) is not str:
            raise ValueError(f"{name} is {value!r:.80}, not a text")

    # `True` is an int for isinstance, so types are compared themselves.
    for name in numbers:
        if type(value := getattr(settings, name)) is not int or not 1 <= value <= 1 << 16:
            raise ValueError(f"{name} is {value!r:.80}, not a whole number in 1 to {1 << 16}")
    if set(settings.files) != set(files):
        raise ValueError(f"files are {sorted(settings.files)}, not {', '.join(sorted(files))}")


@contextlib.contextmanager
def refusing(component: str, path: Path) -> Iterator[None]:
    """Raise Damaged for any error while a file of an encoder, reader or classifier is used.

    The message names the file and its directory but not their location: clients see it.
    """
    start = f"The {component}'s file {path.parent.name}/{path.name} cannot be used: "
    try:
        yield
    except Damaged:
        raise
    except MemoryError as error:
        remedy = "Raise the limit of this shell (`ulimit -v`) or of the container."
        raise Damaged(f"{start}memory ran out. {remedy}") from error
    # tokenizers and onnxruntime raise bare Exceptions of their own.
    except Exception as error:
        readable = isinstance(error, ValueError | PurlinError)
        reason = getattr(error, "strerror", None) or (str(error) if readable else repr(error))
        raise Damaged(f"{start}{reason[:300]}. Make or install the {component} again.") from error
