"""Directories that training exports: a model, its tokenizer, and THING.json, which has settings and their SHA-256."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeVar

from index.errors import Damaged, PurlinError

MODEL, TOKENIZER = "model.onnx", "tokenizer.json"


class _Settings(Protocol):
    @property
    def files(self) -> Mapping[str, str]: ...  # name -> SHA-256 (hex)

    @property
    def fingerprint(self) -> str: ...


S = TypeVar("S", bound=_Settings)


def read_exported(
    directory: Path, thing: str, parse: Callable[[Any], S]
) -> tuple[S, dict[str, bytes]]:
    """Settings of a `thing` ("encoder", "reader"), and the files they list.

    `parse` makes settings of parsed JSON, and lets no other files be listed than a `thing` has. Raises Damaged naming
    the file that is missing or altered, or that `parse` raises anything for.
    """
    path = directory / f"{thing}.json"
    with refusing(thing, path):
        content = json.loads(path.read_bytes())
        settings = parse(content)
        if settings.fingerprint != content["fingerprint"]:
            raise ValueError("its fingerprint does not fit its settings")
    return settings, {
        name: _verified(thing, directory / name, digest) for name, digest in settings.files.items()
    }


def _verified(thing: str, path: Path, digest: str) -> bytes:
    with refusing(thing, path):
        content = path.read_bytes()
        if hashlib.sha256(content).hexdigest() != digest:
            raise ValueError(f"its content is not what {thing}.json says")
    return content


@contextlib.contextmanager
def refusing(thing: str, path: Path) -> Iterator[None]:
    """Whatever goes wrong with a file of an encoder, reader or classifier is raised as Damaged.

    Clients see its message: it names the file and its directory, not where on the server that is.
    """
    try:
        yield
    except Damaged:
        raise
    except Exception as error:  # tokenizers and onnxruntime raise bare Exceptions of their own
        known = isinstance(error, ValueError | PurlinError)
        reason = getattr(error, "strerror", None) or (str(error) if known else repr(error))
        where = f"{path.parent.name}/{path.name}"
        raise Damaged(
            f"The {thing}'s file {where} cannot be used: {reason[:300]}. Make or install the {thing} again."
        ) from error
